//! Keys that one block alone can have, by the bounds of blocks.

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Int32Type, Int64Type,
};
use std::ops::RangeInclusive;

/// A block whose bounds are so many times as wide as those of the block in the middle is wide.
const WIDE: i128 = 4;
/// Wide blocks are one in so many at most.
const BLOCKS_OF_WIDE_MIN: usize = 16;

/// Ranges of such keys, in order.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct LoneKeys(Vec<RangeInclusive<i64>>);

fn width(range: &RangeInclusive<i64>) -> i128 {
    i128::from(*range.end()) - i128::from(*range.start()) + 1
}

impl LoneKeys {
    /// Of blocks whose keys lie between these bounds. A few wide blocks, such as the last one, in which the ends of several loads meet, would leave no other
    /// block a key alone: of these `keys_of` tells the keys that they have. `None` if keys that several blocks can have are more than one
    /// in ten, as far as bounds tell, or there are too many wide blocks.
    pub(super) fn of(
        bounds: &[RangeInclusive<i64>],
        keys_of: impl FnOnce(&[usize]) -> Option<Vec<i64>>,
    ) -> Option<LoneKeys> {
        let mut widths: Vec<i128> = bounds.iter().map(width).filter(|width| *width > 0).collect();
        let middle = widths.len() / 2;
        if widths.is_empty() {
            return None;
        }
        let typical = *widths.select_nth_unstable(middle).1;
        let is_wide = |block: &usize| width(&bounds[*block]) > WIDE * typical;
        let (wide, others): (Vec<usize>, Vec<usize>) = (0..bounds.len()).partition(is_wide);
        if wide.len() * BLOCKS_OF_WIDE_MIN > bounds.len().max(BLOCKS_OF_WIDE_MIN) {
            return None;
        }
        let lone = alone(others.into_iter().map(|block| bounds[block].clone()).collect())?;
        let mut shared = if wide.is_empty() { Vec::new() } else { keys_of(&wide)? };
        shared.sort_unstable();
        shared.dedup();
        Some(LoneKeys(without(lone, &shared)))
    }

    /// `near`: the range of the key before, since keys come mostly in order.
    fn contains(&self, key: i64, near: &mut usize) -> bool {
        if self.0.get(*near).is_some_and(|range| range.contains(&key)) {
            return true;
        }
        *near = self.0.partition_point(|range| *range.end() < key);
        self.0.get(*near).is_some_and(|range| range.contains(&key))
    }

    /// Which rows have such a key; `None` for a type of keys that has no bounds.
    pub(super) fn of_rows(&self, keys: &ArrayRef) -> Option<BooleanArray> {
        let mut near = 0;
        let (mut rows, mut is_lone) = (Vec::with_capacity(keys.len()), |key: Option<i64>| {
            key.is_some_and(|key| self.contains(key, &mut near))
        });
        each_integer(keys, |key| rows.push(is_lone(key)))?;
        Some(rows.into())
    }
}

/// Adds the integers of a column, numerics as their unscaled numbers; `None` for another type. Integers of more than 64 bits are in no bounds, and
/// left out.
pub(super) fn integers(column: &ArrayRef, integers: &mut Vec<i64>) -> Option<()> {
    each_integer(column, |integer| integers.extend(integer))
}

/// `None` for NULL, and for integers of more than 64 bits.
fn each_integer(column: &ArrayRef, mut visit: impl FnMut(Option<i64>)) -> Option<()> {
    macro_rules! each {
        ($kind:ty) => {
            column
                .as_primitive::<$kind>()
                .iter()
                .for_each(|key| visit(key.and_then(|key| key.try_into().ok())))
        };
    }
    match column.data_type() {
        DataType::Int32 => each!(Int32Type),
        DataType::Date32 => each!(Date32Type),
        DataType::Int64 => each!(Int64Type),
        DataType::Decimal32(..) => each!(Decimal32Type),
        DataType::Decimal64(..) => each!(Decimal64Type),
        DataType::Decimal128(..) => each!(Decimal128Type),
        _ => return None,
    }
    Some(())
}

/// The ranges of keys of one block alone; `None` if others are more than one in ten.
fn alone(mut bounds: Vec<RangeInclusive<i64>>) -> Option<Vec<RangeInclusive<i64>>> {
    bounds.retain(|bounds| !bounds.is_empty());
    bounds.sort_by_key(|bounds| *bounds.start());
    let mut lone = Vec::with_capacity(bounds.len());
    let mut greatest: Option<i64> = None;
    for (at, block) in bounds.iter().enumerate() {
        // The next one has the least key of all that come.
        let first = greatest.map_or(Some(*block.start()), |before| before.checked_add(1));
        let last = bounds.get(at + 1).map_or(Some(*block.end()), |next| next.start().checked_sub(1));
        if let (Some(first), Some(last)) = (first, last) {
            let range = first.max(*block.start())..=last.min(*block.end());
            lone.extend((!range.is_empty()).then_some(range));
        }
        greatest = greatest.max(Some(*block.end()));
    }
    let (all, alone): (i128, i128) = (bounds.iter().map(width).sum(), lone.iter().map(width).sum());
    (alone > 0 && alone >= all / 10 * 9).then_some(lone)
}

/// The ranges without some keys, both in order.
fn without(ranges: Vec<RangeInclusive<i64>>, keys: &[i64]) -> Vec<RangeInclusive<i64>> {
    let mut left = Vec::with_capacity(ranges.len() + keys.len());
    for range in ranges {
        let from = keys.partition_point(|key| key < range.start());
        let within = keys[from..].iter().take_while(|key| range.contains(key));
        let mut start = Some(*range.start());
        for &key in within {
            left.extend(start.filter(|start| *start < key).map(|start| start..=key - 1));
            start = key.checked_add(1);
        }
        left.extend(start.filter(|start| start <= range.end()).map(|start| start..=*range.end()));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Decimal128Array, Int32Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn keys_are_lone_where_one_block_alone_has_them_within_its_bounds() {
        let mut seed = 5u64;
        let mut random = |range: std::ops::Range<i64>| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            range.start + ((seed >> 33) as i64) % (range.end - range.start)
        };
        let (mut kept, mut refused) = (0, 0);
        for _ in 0..3000 {
            let mut bounds = Vec::new();
            for at in 0..random(0..6) {
                let start = at * 100 + random(-3..3);
                let width = if random(0..4) == 0 { 300 } else { 104 };
                bounds.push(start..=start + random(-1..width));
            }
            let having = |key: i64| bounds.iter().filter(|bounds| bounds.contains(&key)).count();
            let keys: Vec<i64> = (-5..1000).collect();
            let alone = keys.iter().filter(|key| having(**key) == 1).count();
            let all: usize = keys.iter().map(|key| having(*key)).sum();
            // Behind a block that lies within another one, the outer one's keys are taken for shared.
            let filled = bounds.iter().filter(|bounds| !bounds.is_empty());
            let is_nested = !filled.is_sorted_by_key(|bounds| *bounds.end());
            match super::alone(bounds.clone()).map(LoneKeys) {
                Some(lone) => {
                    kept += 1;
                    let is_right = |key: i64| match lone.contains(key, &mut 0) {
                        true => having(key) == 1,
                        false => is_nested || having(key) != 1,
                    };
                    assert!(keys.iter().all(|key| is_right(*key)), "{bounds:?}");
                }
                None => {
                    refused += 1;
                    let is_right = is_nested || alone == 0 || alone * 10 < all * 9 + 10;
                    assert!(is_right, "{bounds:?}: {alone} of {all}");
                }
            }
        }
        assert!(kept > 500 && refused > 500, "{kept} kept, {refused} refused");
    }

    #[test]
    fn the_ends_of_the_range_of_numbers_are_keys_like_others() {
        let none_is_wide = |_: &[usize]| unreachable!("none is wide");
        let lone = LoneKeys::of(&[i64::MIN..=0, 1..=i64::MAX], none_is_wide).expect("no key is in both");
        assert!([i64::MIN, 0, 1, i64::MAX].iter().all(|key| lone.contains(*key, &mut 0)));
        assert_eq!(LoneKeys::of(&[i64::MIN..=i64::MAX, i64::MIN..=i64::MAX], none_is_wide), None);
        assert_eq!(LoneKeys::of(&[], none_is_wide), None);
        let ends = [i64::MIN, i64::MAX];
        assert_eq!(without(vec![i64::MIN..=i64::MAX], &ends), [i64::MIN + 1..=i64::MAX - 1]);
    }

    #[test]
    fn keys_of_wide_blocks_are_not_lone() {
        let mut bounds: Vec<_> = (0..40).map(|block| block * 100..=block * 100 + 99).collect();
        bounds[7] = 0..=3_999;
        let keys = vec![5, 200, 1_000, 5, 3_999, 99, 98];
        let lone = LoneKeys::of(&bounds, |wide| {
            assert_eq!(wide, [7]);
            Some(keys.clone())
        });
        let lone = lone.expect("one is wide");
        for key in -5..4_005 {
            let is_lone = (0..4_000).contains(&key) && !(700..800).contains(&key) && !keys.contains(&key);
            assert_eq!(lone.contains(key, &mut 0), is_lone, "{key}");
        }
        assert_eq!(LoneKeys::of(&bounds, |_| None), None);
        bounds[9] = 0..=3_999;
        bounds[11] = 0..=3_999;
        assert_eq!(LoneKeys::of(&bounds, |_| unreachable!("too many are wide")), None);
    }

    #[test]
    fn null_is_no_lone_key() {
        let lone = LoneKeys::of(&[0..=9, 20..=29], |_| None).expect("no key is in both");
        let of = |keys: ArrayRef| lone.of_rows(&keys).map(|rows| rows.values().iter().collect::<Vec<_>>());
        let keys = Int32Array::from(vec![Some(5), None, Some(10), Some(29), Some(0), Some(-1)]);
        assert_eq!(of(Arc::new(keys)), Some(vec![true, false, false, true, true, false]));
        let far = Decimal128Array::from(vec![i128::MAX, 3]);
        assert_eq!(of(Arc::new(far)), Some(vec![false, true]));
        assert_eq!(of(Arc::new(StringArray::from(vec!["5"]))), None);
    }
}
