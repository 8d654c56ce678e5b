//! Order, texts, wire forms and operators of ranges.

use super::*;
use crate::PackedRef;
use crate::strategy::{network, range};
use proptest::prelude::*;

const KINDS: [RangeType; 5] =
    [RangeType::Integer, RangeType::BigInt, RangeType::Date, RangeType::Timestamp, RangeType::TimestampTz];

fn any_range(kind: RangeType) -> impl Strategy<Value = Range> {
    network().prop_map(move |network| range(kind, network))
}

/// PostgreSQL's comparison.
fn compare(left: Range, right: Range) -> Ordering {
    match (left.bounds, right.bounds) {
        (Some(left), Some(right)) => compare_lower(left.0, right.0).then(compare_upper(left.1, right.1)),
        (left, right) => left.is_some().cmp(&right.is_some()),
    }
}

/// Whether it has the value, by what its bounds say.
fn has(range: Range, value: i64) -> bool {
    let Some((lower, upper)) = range.bounds else { return false };
    let is_above = lower.value.is_none_or(|low| low < value || (low == value && lower.is_inclusive));
    let is_below = upper.value.is_none_or(|high| value < high || (high == value && upper.is_inclusive));
    is_above && is_below
}

proptest! {
    #[test]
    fn bytes_order_as_ranges_do_and_come_back(
        (left, right) in proptest::sample::select(KINDS.to_vec()).prop_flat_map(|kind| (any_range(kind), any_range(kind)))
    ) {
        let (one, other) = (left.packed(), right.packed());
        prop_assert_eq!(one.borrow().cmp(&other.borrow()), compare(left, right));
        prop_assert_eq!(one.borrow().padded().cmp(&other.borrow().padded()), compare(left, right));
        let padded = one.borrow().padded();
        prop_assert_eq!(PackedRef::new(one.packed_type(), &padded).to_packed(), one.clone());
        prop_assert!(one.packed_type().is_stored_form(one.borrow().bytes()));
        prop_assert_eq!(one.packed_type().parse(&one.borrow().to_text()).unwrap(), one.clone());
        prop_assert_eq!(one.packed_type().from_wire(&one.borrow().to_wire()).unwrap(), one.clone());
    }

    #[test]
    fn operators_say_what_holds_of_all_values(left in any_range(RangeType::Integer), right in any_range(RangeType::Integer)) {
        let values = || -110..170i64;
        let both = |value: i64| has(left, value) && has(right, value);
        prop_assert_eq!(left.overlaps(right), values().any(both));
        prop_assert!(values().all(|value| has(left.intersection(right), value) == both(value)));
        prop_assert_eq!(left.contains(right), values().all(|value| has(left, value) || !has(right, value)));
        if let Ok(union) = left.union(right) {
            prop_assert!(values().all(|value| has(union, value) == (has(left, value) || has(right, value))));
        }
        if let Ok(rest) = left.difference(right) {
            prop_assert!(values().all(|value| has(rest, value) == (has(left, value) && !has(right, value))));
        }
        prop_assert!(values().all(|value| left.has(value) == has(left, value)));
        if !left.overlaps(right) && left.bounds.is_some() && right.bounds.is_some() {
            prop_assert!(left.is_before(right) != right.is_before(left));
            prop_assert_eq!(left.is_adjacent(right), left.union(right).is_ok());
        }
    }

    #[test]
    fn no_text_panics(text in "[\\[(]?[0-9,\"\\\\ -]{0,12}[\\])]?x?") {
        let _ = PackedType::Range(RangeType::Integer).parse(&text);
    }
}
