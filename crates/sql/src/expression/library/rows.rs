//! Rows as values.

use super::Builtin;
use super::entry::{Entry, entry, integer, text, wrong_argument};
use crate::expression::{Expression, Function, Typed};
use ankerdb_engine::DataType::{BigInt, Boolean, Text};
use ankerdb_engine::{DataType, Result, SystemType, Value};
use ankerdb_value::{RowType, format_text, push_row_key, row_fields, row_text};

/// What makes a row of values.
pub(crate) const ROW_VALUE: &str = "operator row value";
/// What makes a row of a relation, of the relation's number, or NULL, and values.
pub(crate) const ROW_OF_RELATION: &str = "operator row of relation";
/// What a row is compared by, of its text and the number of its type: a text with a character for each byte of its key.
const ROW_KEY: &str = "operator row key";
/// Whether all fields of a row are NULL.
const ROW_IS_NULL: &str = "operator row is null";
/// Whether no field of a row is NULL.
const ROW_IS_WHOLE: &str = "operator row is not null";

pub(super) const ENTRIES: &[Entry] = &[
    entry(ROW_VALUE, &[], Text, |values, _| Ok(made(values))).and_any(0, usize::MAX).lenient().gives_row(),
    entry(ROW_OF_RELATION, &[BigInt], Text, |values, _| Ok(made(&values[1..])))
        .and_any(0, usize::MAX)
        .lenient()
        .gives_row(),
    entry(ROW_KEY, &[], Text, |values, _| key(values)).and_any(2, 2),
    entry(ROW_IS_NULL, &[], Boolean, |values, _| all_fields(values, true)).and_any(1, 1).lenient(),
    entry(ROW_IS_WHOLE, &[], Boolean, |values, _| all_fields(values, false)).and_any(1, 1).lenient(),
];

fn made(values: &[Value]) -> Value {
    let shown = |value: &Value| {
        let mut text = String::new();
        format_text(value, Text, &mut text);
        (!value.is_null()).then_some(text)
    };
    let texts: Vec<Option<String>> = values.iter().map(shown).collect();
    Value::text(row_text(texts.iter().map(Option::as_deref)))
}

fn key(values: &[Value]) -> Result<Value> {
    let number = u32::try_from(integer(values, 1)?).ok();
    let row = number.and_then(RowType::by_number).ok_or_else(wrong_argument)?;
    let mut key = Vec::new();
    push_row_key(text(values, 0)?, row, &mut key)?;
    Ok(Value::text(key.into_iter().map(char::from).collect::<String>()))
}

/// A row that is NULL itself has no fields that are not.
fn all_fields(values: &[Value], null: bool) -> Result<Value> {
    Ok(Value::Boolean(match values {
        [Value::Null] => null,
        _ => row_fields(text(values, 0)?)?.iter().all(|field| field.is_none() == null),
    }))
}

/// The type of what a call of an entry that gives a row gives.
///
/// # Errors
/// `OutOfMemory`
pub(super) fn type_of(entry: &Entry, items: &[Typed]) -> Result<DataType> {
    let (relation, fields) = items.split_at(entry.arguments.len());
    let row = RowType::of(fields.iter().map(|field| field.data_type.unwrap_or(Text)))?;
    let number = relation.iter().find_map(|number| match &number.expression {
        Expression::Literal(value) => u32::try_from(value.as_integer()?).ok(),
        _ => None,
    });
    let row = number.map_or(Ok(row), |number| row.of_relation(number))?;
    Ok(DataType::System(SystemType::Row(row)))
}

/// The type's rows, if its values are rows.
pub(crate) fn row_type(data_type: DataType) -> Option<RowType> {
    match data_type {
        DataType::System(SystemType::Row(row)) => Some(row),
        _ => None,
    }
}

/// What a row is compared by.
pub(crate) fn row_key(row: Expression, row_type: RowType) -> Expression {
    let (function, number) = row_key_call(row_type);
    Expression::Call(function, vec![row, Expression::Literal(number)])
}

/// The function of [`row_key`], and its second argument.
pub(crate) fn row_key_call(row_type: RowType) -> (Function, Value) {
    (Function::Library(Builtin::only(ROW_KEY), Text), Value::BigInt(row_type.number().into()))
}

/// `IS [NOT] NULL`, which asks for the fields of a row.
pub(crate) fn is_null(operand: Typed, null: bool) -> Typed {
    let asked = match operand.data_type.and_then(row_type) {
        None => Expression::IsNull(Box::new(operand.expression), null),
        Some(_) => {
            let name = if null { ROW_IS_NULL } else { ROW_IS_WHOLE };
            Expression::Call(Function::Library(Builtin::only(name), Boolean), vec![operand.expression])
        }
    };
    Typed::new(asked, Boolean)
}
