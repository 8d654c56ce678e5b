//! Sorting that can fail and can be interrupted: neither is possible in the middle of the standard library's sorts.
//!
//! A merge sort from below: short runs are sorted by insertion, and neighbouring runs are merged until one is left.
//! Stable.

use ankerdb_engine::{Interrupt, Result};
use std::cmp::Ordering;

/// Comparisons between two looks at the interrupt.
const STEPS_BETWEEN_CHECKS: usize = 1024;
/// Items sorted by insertion.
const RUN: usize = 16;

/// The items in order; those that compare as equal stay as they were.
///
/// # Errors
/// The first of the comparison, or the interrupt's.
pub(super) fn sort<T>(
    items: Vec<T>,
    interrupt: &Interrupt,
    compare: impl Fn(&T, &T) -> Result<Ordering>,
) -> Result<Vec<T>> {
    let mut from = items;
    from.chunks_mut(RUN).try_for_each(|run| insert_in_order(run, &compare))?;
    let mut run = RUN;
    while run < from.len() {
        let mut into = Vec::with_capacity(from.len());
        let mut rest = from.into_iter();
        loop {
            let left: Vec<T> = rest.by_ref().take(run).collect();
            if left.is_empty() {
                break;
            }
            let right: Vec<T> = rest.by_ref().take(run).collect();
            merge(left, right, &mut into, interrupt, &compare)?;
        }
        from = into;
        run *= 2;
    }
    Ok(from)
}

fn insert_in_order<T>(run: &mut [T], compare: &impl Fn(&T, &T) -> Result<Ordering>) -> Result<()> {
    for end in 1..run.len() {
        let mut place = end;
        while place > 0 && compare(&run[place - 1], &run[place])?.is_gt() {
            run.swap(place - 1, place);
            place -= 1;
        }
    }
    Ok(())
}

/// Appends both runs, in order; of equals, those of the left one first.
fn merge<T>(
    left: Vec<T>,
    right: Vec<T>,
    into: &mut Vec<T>,
    interrupt: &Interrupt,
    compare: &impl Fn(&T, &T) -> Result<Ordering>,
) -> Result<()> {
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        if into.len().is_multiple_of(STEPS_BETWEEN_CHECKS) {
            interrupt.check()?;
        }
        let from_right = compare(first, second)?.is_gt();
        into.extend(if from_right { right.next() } else { left.next() });
    }
    into.extend(left);
    into.extend(right);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::{Cause, Error};

    #[test]
    fn items_come_in_order_and_equals_stay_as_they_were() {
        for length in [0, 1, 2, 15, 16, 17, 33, 1000] {
            let items: Vec<(usize, usize)> = (0..length).map(|place| (place * 7919 % 31, place)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            let sorted = sort(items, &Interrupt::new(), |left, right| Ok(left.0.cmp(&right.0)));
            assert_eq!(sorted, Ok(expected), "{length}");
        }
    }

    #[test]
    fn an_error_or_an_interrupt_ends_it() {
        let fails = |_: &i32, _: &i32| Err(Error::internal("cannot be compared"));
        assert!(sort(vec![1, 2], &Interrupt::new(), fails).is_err());
        let interrupt = Interrupt::new();
        let compared = std::cell::Cell::new(0);
        let sorted = sort((0..100_000).rev().collect(), &interrupt, |left: &i32, right| {
            compared.set(compared.get() + 1);
            if compared.get() == 1_000_000 {
                interrupt.raise(Cause::Timeout);
            }
            Ok(left.cmp(right))
        });
        assert_eq!(sorted, Err(Cause::Timeout.error()));
        assert!(compared.get() < 1_003_000, "{} comparisons", compared.get());
    }
}
