//! The type of alternatives, such as the results of CASE and the rows of UNION.

use super::bind::{Bound, type_name};
use super::types::{alternative_type, category, numeric};
use super::{Binder, Expression, Typed};
use ankerdb_engine::{DataType, Error, Result, SqlState, Value};

/// The type of alternatives; `None` if none of them has one.
///
/// # Errors
/// 42804 for types of several categories, 42846 for those of one that no conversion leads from one to the other.
pub(super) fn common_alternative(items: &[Typed], what: &str) -> Result<Option<DataType>> {
    let (mut common, mut is_matched): (Option<DataType>, _) = (None, true);
    for item in items {
        common = match (common, item.data_type) {
            (Some(left), Some(right)) => match alternative_type(left, right) {
                None if category(left) != category(right) => {
                    let (left, right) = (type_name(left), type_name(right));
                    let message = format!("{what} types {left} and {right} cannot be matched");
                    return Err(Error::new(SqlState::DatatypeMismatch, message));
                }
                // The first one stays, and what comes later may still take both.
                None => {
                    is_matched = false;
                    Some(left)
                }
                both => both,
            },
            (known, other) => known.or(other),
        };
    }
    match common {
        Some(common) if !is_matched => {
            items.iter().enumerate().try_for_each(|(at, item)| check_converts(at, item, common, what))?;
            Ok(Some(common))
        }
        _ => Ok(common),
    }
}

/// 42846 if an alternative, the first of which is what is behind ELSE in CASE, does not become a value of the type.
fn check_converts(at: usize, item: &Typed, common: DataType, what: &str) -> Result<()> {
    let place = match (what, at) {
        ("CASE", 0) => "CASE/ELSE",
        ("CASE", _) => "CASE/WHEN",
        _ => what,
    };
    match item.data_type {
        Some(known) if alternative_type(common, known) != Some(common) => {
            let (known, common) = (type_name(known), type_name(common));
            let message = format!("{place} could not convert type {known} to {common}");
            Err(Error::new(SqlState::CannotCoerce, message))
        }
        _ => Ok(()),
    }
}

impl Binder<'_> {
    /// The type that a number without one has been given beside another: its own digits may be more.
    pub(crate) fn number_found(&self, resolved: &Expression) -> Option<DataType> {
        let found = match resolved {
            Expression::Parameter(position) => self.parameter_type(*position),
            Expression::Literal(Value::Numeric(value)) => Some(numeric(value.scale)),
            Expression::Literal(Value::Number(_)) => Some(DataType::Number),
            _ => None,
        };
        found.filter(|found| matches!(found, DataType::Numeric { .. } | DataType::Number))
    }

    /// What CASE compares with the values behind WHEN: a text if it has no type, whatever they are.
    pub(crate) fn case_operand(&mut self, operand: Typed) -> Bound<Typed> {
        match operand.data_type {
            Some(_) => Ok(operand),
            None => Ok(Typed::new(self.resolve(operand, DataType::Text)?, DataType::Text)),
        }
    }
}
