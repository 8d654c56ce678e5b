//! `date_trunc` by the clocks of a time zone.

use super::entry::{Entry, entry, text, wrong_argument};
use crate::expression::zone::named;
use ankerdb_engine::DataType::Text;
use ankerdb_engine::{DataType, Interrupt, Result, Value};
use ankerdb_value::date_trunc;

pub(super) const ENTRIES: &[Entry] =
    &[entry("date_trunc", &[Text, DataType::TIMESTAMPTZ, Text], DataType::TIMESTAMPTZ, date_trunc_in_zone)];

fn date_trunc_in_zone(values: &[Value], _: &Interrupt) -> Result<Value> {
    let zone = named(text(values, 2)?)?;
    let (field, moment) = (text(values, 0)?, values.get(1).ok_or_else(wrong_argument)?);
    zone.within(|| date_trunc(field, moment))
}
