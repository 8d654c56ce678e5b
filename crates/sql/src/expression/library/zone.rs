//! `date_trunc` by the clocks of a time zone.

use super::entry::{Entry, entry, text, wrong_argument};
use crate::expression::zone::Zone;
use ankerdb_engine::DataType::{Text, TimestampTz};
use ankerdb_engine::{Interrupt, Result, Value};
use ankerdb_value::date_trunc;

pub(super) const ENTRIES: &[Entry] =
    &[entry("date_trunc", &[Text, TimestampTz, Text], TimestampTz, date_trunc_in_zone)];

fn date_trunc_in_zone(values: &[Value], _: &Interrupt) -> Result<Value> {
    let zone = Zone::named(text(values, 2)?)?;
    let Some(Value::TimestampTz(moment)) = values.get(1) else { return Err(wrong_argument()) };
    match date_trunc(text(values, 0)?, &Value::TimestampTz(zone.local(*moment)?))? {
        Value::TimestampTz(cut) => zone.instant(cut).map(Value::TimestampTz),
        _ => Err(wrong_argument()),
    }
}
