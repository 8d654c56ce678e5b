//! Parameters: values in order or by name, in the types that the statement needs.

use crate::error::{Error, Result};
use crate::value::parameter;
use crate::values::{Target, Values};
use ankerdb_engine::{DataType, SqlState, Value};
use ankerdb_sql::Prepared;
use ankerdb_value::assign;

/// The parameters of a statement, `$1` first.
///
/// # Errors
/// `ProtocolViolation` for too many or too few, `UndefinedParameter` for a name that the statement does not have;
/// those of the values' conversions.
pub(super) fn bind(prepared: &Prepared, values: &impl Values) -> Result<Vec<Value>> {
    let (count, types) = (values.count(), prepared.parameters());
    if count != types.len() {
        let message = format!("the statement has {} parameters, but {count} values were given", types.len());
        return Err(Error::new(SqlState::ProtocolViolation, message));
    }
    let mut bound = vec![Value::Null; count];
    let mut is_given = vec![false; count];
    for position in 0..count {
        let place = place_of(prepared, values.target(position), position)?;
        if std::mem::replace(&mut is_given[place], true) {
            let message = format!("parameter {} is given twice", shown(prepared, place));
            return Err(Error::new(SqlState::ProtocolViolation, message));
        }
        let value = values.value(position).and_then(|value| parameter(value, types[place]));
        let value = value.map_err(|error| error.at(format!("parameter {}", shown(prepared, place))))?;
        bound[place] = match types[place] {
            to @ (DataType::Jsonb | DataType::Number | DataType::Packed(_)) => assign(value.to_value(), to)?,
            _ => value.to_value(),
        };
    }
    Ok(bound)
}

fn place_of(prepared: &Prepared, target: Target<'_>, position: usize) -> Result<usize> {
    match target {
        Target::InOrder => Ok(position),
        Target::Name(name) => {
            let found = prepared.parameter_names().iter().position(|known| known == name);
            let message = || format!("there is no parameter ${name}");
            found.ok_or_else(|| Error::new(SqlState::UndefinedParameter, message()))
        }
        Target::Column(_) => Err(Error::new(
            SqlState::UndefinedParameter,
            "a parameter has a name or a place, but no column's handle",
        )),
    }
}

fn shown(prepared: &Prepared, place: usize) -> String {
    match prepared.parameter_names().get(place) {
        Some(name) => format!("${name}"),
        None => format!("${}", place + 1),
    }
}
