//! `left @> right`: whether a document has all that is in another.

use super::canonical::key_order;
use super::key::comparison_key;
use super::parse::too_deep;
use super::walk::{JsonKind, elements, kind, members};
use ankerdb_base::Result;

/// Arrays and objects within each other that are looked into, which recurses.
const DEPTH_MAX: usize = 1_000;

/// Whether the one `jsonb` contains the other. Costs the product of the lengths of arrays that are compared, so `check` is asked for
/// each element.
///
/// # Errors
/// 54001 for documents deeper than 1,000, and the errors of `check`.
pub fn contains(left: &str, right: &str, check: &dyn Fn() -> Result<()>) -> Result<bool> {
    // An array contains a scalar that is one of its elements, although their kinds differ; within documents it does not.
    match (kind(left), kind(right)) {
        (JsonKind::Array, other) if other.is_scalar() => has_scalar(left, right, check),
        _ => within(left, right, DEPTH_MAX, check),
    }
}

fn within(left: &str, right: &str, depth: usize, check: &dyn Fn() -> Result<()>) -> Result<bool> {
    check()?;
    if depth == 0 {
        return Err(too_deep(DEPTH_MAX));
    }
    let own = kind(left);
    if own != kind(right) {
        return Ok(false);
    }
    match own {
        JsonKind::Object => object_within(left, right, depth, check),
        JsonKind::Array => array_within(left, right, depth, check),
        _ => is_equal(left, right),
    }
}

/// Both keep their keys in the same order.
fn object_within(left: &str, right: &str, depth: usize, check: &dyn Fn() -> Result<()>) -> Result<bool> {
    let mut left = members(left).into_iter().flatten();
    for wanted in members(right).into_iter().flatten() {
        let key = wanted.key()?;
        let found = loop {
            let Some(candidate) = left.next() else { return Ok(false) };
            match key_order(&candidate.key()?, &key) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => break candidate,
                std::cmp::Ordering::Greater => return Ok(false),
            }
        };
        if !within(found.value, wanted.value, depth - 1, check)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn array_within(left: &str, right: &str, depth: usize, check: &dyn Fn() -> Result<()>) -> Result<bool> {
    for wanted in elements(right).into_iter().flatten() {
        let is_found = match kind(wanted).is_scalar() {
            true => has_scalar(left, wanted, check)?,
            false => {
                let mut is_found = false;
                for candidate in elements(left).into_iter().flatten() {
                    if within(candidate, wanted, depth - 1, check)? {
                        is_found = true;
                        break;
                    }
                }
                is_found
            }
        };
        if !is_found {
            return Ok(false);
        }
    }
    Ok(true)
}

fn has_scalar(array: &str, scalar: &str, check: &dyn Fn() -> Result<()>) -> Result<bool> {
    for candidate in elements(array).into_iter().flatten() {
        check()?;
        if is_equal(candidate, scalar)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether two scalars are equal; numbers are, however many zeros they end in.
fn is_equal(left: &str, right: &str) -> Result<bool> {
    match (kind(left), kind(right)) {
        (JsonKind::Number, JsonKind::Number) => {
            Ok(left == right || comparison_key(left)? == comparison_key(right)?)
        }
        _ => Ok(left == right),
    }
}
