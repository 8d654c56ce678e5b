//! Operators of times of day with the place of their clocks: `timetz`.

use super::entry::{Entry, entry, wrong_argument};
use ankerdb_engine::DataType::Date;
use ankerdb_engine::{DataType, Error, Interrupt, PackedType, Result, SqlState, TimeTz, Value};
use ankerdb_value::{add, cast};

const INTERVAL: DataType = DataType::INTERVAL;
const TIMESTAMPTZ: DataType = DataType::TIMESTAMPTZ;
const TIMETZ: DataType = DataType::Packed(PackedType::TimeTz);

pub(super) const ENTRIES: &[Entry] = &[
    entry("operator +", &[TIMETZ, INTERVAL], TIMETZ, |values, _| moved(values, 0, 1, TimeTz::later)),
    entry("operator +", &[INTERVAL, TIMETZ], TIMETZ, |values, _| moved(values, 1, 0, TimeTz::later)),
    entry("operator -", &[TIMETZ, INTERVAL], TIMETZ, |values, _| moved(values, 0, 1, TimeTz::earlier)),
    entry("operator +", &[Date, TIMETZ], TIMESTAMPTZ, |values, _| on_day(values, 0, 1)),
    entry("operator +", &[TIMETZ, Date], TIMESTAMPTZ, |values, _| on_day(values, 1, 0)),
    entry("timestamptz", &[Date, TIMETZ], TIMESTAMPTZ, instant),
    entry("timestamptz", &[Date, DataType::TIME], TIMESTAMPTZ, local_instant).stable(),
];

fn time(values: &[Value], position: usize) -> Result<TimeTz> {
    match values.get(position) {
        Some(Value::Packed(packed)) if packed.packed_type() == PackedType::TimeTz => {
            Ok(packed.borrow().time_tz())
        }
        _ => Err(wrong_argument()),
    }
}

fn moved(
    values: &[Value],
    place: usize,
    by: usize,
    of: fn(TimeTz, ankerdb_engine::Interval) -> TimeTz,
) -> Result<Value> {
    match values.get(by) {
        Some(Value::Interval(interval)) => Ok(Value::Packed(of(time(values, place)?, *interval).packed())),
        _ => Err(wrong_argument()),
    }
}

fn instant(values: &[Value], _: &Interrupt) -> Result<Value> {
    on_day(values, 0, 1)
}

/// The instant at which the session's clocks show the time on a day.
fn local_instant(values: &[Value], _: &Interrupt) -> Result<Value> {
    match values {
        [day, time] => cast(add(day, time)?, TIMESTAMPTZ),
        _ => Err(wrong_argument()),
    }
}

/// The instant at which the clock shows the time on a day.
fn on_day(values: &[Value], day: usize, at: usize) -> Result<Value> {
    const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;
    let Some(Value::Date(days)) = values.get(day) else { return Err(wrong_argument()) };
    let instant = i64::from(*days).checked_mul(MICROSECONDS_PER_DAY);
    let instant = instant.and_then(|midnight| midnight.checked_add(time(values, at).ok()?.universal()));
    instant
        .map(Value::TimestampTz)
        .ok_or_else(|| Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
}
