//! `OVERLAPS`: whether two periods have a moment in common. A period has a beginning and an end, or a beginning and a length.

use super::entry::{Entry, entry};
use ankerdb_engine::DataType::Boolean;
use ankerdb_engine::{DataType, Interrupt, PackedType, Result, Value};
use ankerdb_value::add;

const INTERVAL: DataType = DataType::INTERVAL;
const TIMETZ: DataType = DataType::Packed(PackedType::TimeTz);

/// The functions for periods of moments of a type.
macro_rules! of_moments {
    ($moment:expr) => {
        [
            of(&[$moment, $moment, $moment, $moment]),
            of(&[$moment, INTERVAL, $moment, INTERVAL]),
            of(&[$moment, $moment, $moment, INTERVAL]),
            of(&[$moment, INTERVAL, $moment, $moment]),
        ]
    };
}

pub(super) const TIMESTAMPS: &[Entry] = &of_moments!(DataType::TIMESTAMP);
pub(super) const INSTANTS: &[Entry] = &of_moments!(DataType::TIMESTAMPTZ);
pub(super) const TIMES: &[Entry] = &of_moments!(DataType::TIME);
pub(super) const ZONED_TIMES: &[Entry] = &[of(&[TIMETZ, TIMETZ, TIMETZ, TIMETZ])];

/// Days of another length make it depend on the session's zone where they are added to an instant.
const fn of(arguments: &'static [DataType]) -> Entry {
    entry("overlaps", arguments, Boolean, overlaps).lenient().stable()
}

/// One end of a period, as a number that orders as it does; NULL has none.
fn moment(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamp(moment) | Value::TimestampTz(moment) | Value::Time(moment) => Some(*moment),
        Value::Packed(packed) => Some(packed.borrow().time_tz().universal()),
        _ => None,
    }
}

/// The earlier end of a period, and the other one; the one that is missing is the other.
fn period(begin: &Value, end: &Value) -> Result<Option<(i64, Option<i64>)>> {
    let end = match end {
        Value::Interval(_) if begin.is_null() => None,
        Value::Interval(_) => moment(&add(begin, end)?),
        end => moment(end),
    };
    Ok(match (moment(begin), end) {
        (Some(begin), Some(end)) => Some((begin.min(end), Some(begin.max(end)))),
        (Some(only), None) | (None, Some(only)) => Some((only, None)),
        (None, None) => None,
    })
}

fn overlaps(values: &[Value], _: &Interrupt) -> Result<Value> {
    let [begin, end, other_begin, other_end] = values else { return Err(super::entry::wrong_argument()) };
    let periods = (period(begin, end)?, period(other_begin, other_end)?);
    let (Some(left), Some(right)) = periods else { return Ok(Value::Null) };
    let (earlier, later) = if left.0 <= right.0 { (left, right) } else { (right, left) };
    Ok(match earlier {
        _ if earlier.0 == later.0 && earlier.1.is_some() && later.1.is_some() => Value::Boolean(true),
        _ if earlier.0 == later.0 => Value::Null,
        (_, None) => Value::Null,
        (_, Some(end)) => Value::Boolean(later.0 < end),
    })
}
