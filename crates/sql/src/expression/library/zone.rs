//! `date_trunc` by the clocks of a time zone.

use super::entry::{Entry, entry, text, wrong_argument};
use crate::expression::zone::named;
use ankerdb_engine::DataType::{Text, TimestampTz};
use ankerdb_engine::{Interrupt, Result, Value};
use ankerdb_value::date_trunc;

pub(super) const ENTRIES: &[Entry] =
    &[entry("date_trunc", &[Text, TimestampTz, Text], TimestampTz, date_trunc_in_zone)];

fn date_trunc_in_zone(values: &[Value], _: &Interrupt) -> Result<Value> {
    let zone = named(text(values, 2)?)?;
    let (field, moment) = (text(values, 0)?, values.get(1).ok_or_else(wrong_argument)?);
    zone.within(|| date_trunc(field, moment))
}
