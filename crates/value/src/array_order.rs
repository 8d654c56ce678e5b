//! How arrays compare: by their items, then by the number of items, then by their dimensions.

use crate::{ArrayRef, ValueRef, compare};
use ankerdb_base::Result;
use std::cmp::Ordering;

/// PostgreSQL's order. NULL items are equal to each other and above all others. Costs as much as the items up to the first that
/// differ.
///
/// # Errors
/// 42883 for items that do not compare.
pub(crate) fn compare_arrays(left: ArrayRef<'_>, right: ArrayRef<'_>) -> Result<Ordering> {
    for (left, right) in left.items().zip(right.items()) {
        let ordering = compare_items(left, right)?;
        if ordering.is_ne() {
            return Ok(ordering);
        }
    }
    let shape = |array: ArrayRef<'_>| {
        let (lengths, lowers): (Vec<u32>, Vec<i32>) =
            array.dimensions().map(|dimension| (dimension.length, dimension.lower)).unzip();
        (array.len(), lengths.len(), lengths, lowers)
    };
    Ok(shape(left).cmp(&shape(right)))
}

fn compare_items(left: ValueRef<'_>, right: ValueRef<'_>) -> Result<Ordering> {
    Ok(match (left, right) {
        (ValueRef::Integer(left), ValueRef::Integer(right)) => left.cmp(&right),
        (ValueRef::BigInt(left), ValueRef::BigInt(right)) => left.cmp(&right),
        (ValueRef::Text(left), ValueRef::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
        (left, right) if left.is_null() || right.is_null() => left.is_null().cmp(&right.is_null()),
        (left, right) => compare(&left.to_value(), &right.to_value())?.unwrap_or(Ordering::Equal),
    })
}
