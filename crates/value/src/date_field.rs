//! Parts of dates, times and intervals: `extract`, `date_part` and `date_trunc`.

use crate::cast::midnight;
use crate::datetime::{
    MICROSECONDS_PER_DAY, civil_from_days, days_from_civil, is_infinite, is_infinite_date,
};
use crate::interval::{DAYS_PER_MONTH, Interval, MONTHS_PER_YEAR};
use crate::zone::Zone;
use crate::{Decimal, Number, PackedType, Value};
use ankerdb_base::{Error, Result, SqlState};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// The number of 1970-01-01 in the Julian day count.
const JULIAN_EPOCH: i64 = 2_440_588;

/// A part of a date, time or interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Microseconds,
    Milliseconds,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Epoch,
    Julian,
    Zone,
    ZoneHour,
    ZoneMinute,
}

impl Field {
    fn by_name(name: &str) -> Option<Field> {
        Some(match name.to_ascii_lowercase().as_str() {
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => Field::Microseconds,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Field::Milliseconds,
            "s" | "sec" | "secs" | "second" | "seconds" => Field::Second,
            "m" | "min" | "mins" | "minute" | "minutes" => Field::Minute,
            "h" | "hr" | "hrs" | "hour" | "hours" => Field::Hour,
            "d" | "day" | "days" => Field::Day,
            "w" | "week" | "weeks" => Field::Week,
            "mon" | "mons" | "month" | "months" => Field::Month,
            "qtr" | "quarter" => Field::Quarter,
            "y" | "yr" | "yrs" | "year" | "years" => Field::Year,
            "dec" | "decs" | "decade" | "decades" => Field::Decade,
            "c" | "cent" | "century" | "centuries" => Field::Century,
            "mil" | "mils" | "millennium" | "millennia" => Field::Millennium,
            "isoyear" => Field::IsoYear,
            "dow" => Field::DayOfWeek,
            "isodow" => Field::IsoDayOfWeek,
            "doy" => Field::DayOfYear,
            "epoch" => Field::Epoch,
            "julian" | "jd" | "j" => Field::Julian,
            "timezone" => Field::Zone,
            "timezone_hour" | "timezone_h" => Field::ZoneHour,
            "timezone_minute" | "timezone_m" => Field::ZoneMinute,
            _ => return None,
        })
    }
}

/// A part of a date, time or interval that was looked up by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DateField(Field);

impl DateField {
    /// The field of this name, in any case.
    pub fn by_name(name: &str) -> Option<DateField> {
        Field::by_name(name).map(DateField)
    }

    /// Fractional digits of what [`extract`] gives: of a date, or of a type with a time.
    pub fn scale(self, of_date: bool) -> u8 {
        match self.0 {
            Field::Second => 6,
            Field::Epoch if !of_date => 6,
            Field::Milliseconds => 3,
            _ => 0,
        }
    }

    /// The field of a value; `None` if its type does not have it.
    pub fn of(self, value: &Value) -> Option<Decimal> {
        part(self.0, value)
    }

    /// The beginning of the microsecond, hour, month ... in which a moment lies, both in microseconds since 1970; `None` for
    /// fields that have none.
    ///
    /// # Errors
    /// 22008 if the beginning does not fit.
    pub fn trunc(self, moment: i64) -> Result<Option<i64>> {
        moment_trunc(self.0, moment)
    }
}

/// `extract(field FROM value)`
///
/// # Errors
/// 22023 for fields that do not exist, 0A000 for those that the type does not have.
pub fn extract(field: &str, value: &Value) -> Result<Value> {
    let known = Field::by_name(field).ok_or_else(|| unknown(field, value))?;
    if let Some(positive) = infinity(value) {
        return infinite_part(known, value, positive).ok_or_else(|| unsupported(field, value));
    }
    if let (Field::Julian, Some(moment)) = (known, shown(value)) {
        return julian(moment);
    }
    part(known, value).map(Value::Numeric).ok_or_else(|| unsupported(field, value))
}

/// What clocks show at a moment, in microseconds since 1970.
fn shown(value: &Value) -> Option<i64> {
    match value {
        Value::Timestamp(moment) => Some(*moment),
        Value::TimestampTz(moment) => Zone::current().local(*moment).ok(),
        _ => None,
    }
}

/// The day of the Julian day count with the part of the day that has gone, in as many digits as such a quotient has.
fn julian(moment: i64) -> Result<Value> {
    let (days, time) = (moment.div_euclid(MICROSECONDS_PER_DAY), moment.rem_euclid(MICROSECONDS_PER_DAY));
    let number = |value: i64| Number::from_i128(i128::from(value));
    let part = number(time).checked_div(&number(MICROSECONDS_PER_DAY))?;
    Ok(Value::Number(number(days + JULIAN_EPOCH).checked_add(&part)?.to_string().into()))
}

/// Whether a value is the positive infinity; `None` if it is none.
fn infinity(value: &Value) -> Option<bool> {
    match value {
        Value::Date(days) => is_infinite_date(*days).then_some(*days > 0),
        Value::Timestamp(moment) | Value::TimestampTz(moment) => is_infinite(*moment).then_some(*moment > 0),
        _ => None,
    }
}

/// What grows with time is infinite, and what comes again is not known.
fn infinite_part(known: Field, value: &Value, positive: bool) -> Option<Value> {
    let finite = match value {
        Value::Date(_) => Value::Date(0),
        Value::Timestamp(_) => Value::Timestamp(0),
        _ => Value::TimestampTz(0),
    };
    match known {
        Field::Year
        | Field::Decade
        | Field::Century
        | Field::Millennium
        | Field::Julian
        | Field::IsoYear
        | Field::Epoch => Some(Value::Number(if positive { "Infinity" } else { "-Infinity" }.into())),
        _ => part(known, &finite).map(|_| Value::Null),
    }
}

fn part(known: Field, value: &Value) -> Option<Decimal> {
    if infinity(value).is_some() {
        return None;
    }
    match value {
        Value::Date(days) => match known {
            Field::Epoch => Some(whole(i64::from(*days) * 86_400)),
            known => of_day(known, i64::from(*days)).map(whole),
        },
        Value::Timestamp(moment) => of_moment(known, *moment),
        Value::TimestampTz(moment) => match known {
            Field::Epoch => of_moment(known, *moment),
            known => {
                let seconds = Zone::current().east(*moment).ok()? / SECOND;
                match known {
                    Field::Zone => Some(whole(seconds)),
                    Field::ZoneHour => Some(whole(seconds / 3600)),
                    Field::ZoneMinute => Some(whole(seconds / 60 % 60)),
                    known => of_moment(known, moment.checked_add(seconds * SECOND)?),
                }
            }
        },
        Value::Time(time) => match known {
            Field::Epoch => Some(Decimal::new(i128::from(*time), 6)),
            known => of_time(known, *time),
        },
        Value::Packed(packed) if packed.packed_type() == PackedType::TimeTz => {
            let time = packed.borrow().time_tz();
            let east = -i64::from(time.west);
            match known {
                Field::Epoch => Some(Decimal::new(i128::from(time.universal()), 6)),
                Field::Zone => Some(whole(east)),
                Field::ZoneHour => Some(whole(east / 3600)),
                Field::ZoneMinute => Some(whole(east / 60 % 60)),
                known => of_time(known, time.time),
            }
        }
        Value::Interval(interval) => of_interval(known, *interval),
        _ => None,
    }
}

fn whole(number: i64) -> Decimal {
    Decimal::new(i128::from(number), 0)
}

fn unknown(field: &str, value: &Value) -> Error {
    let message = format!("unit \"{}\" not recognized for type {}", field.to_lowercase(), value.type_name());
    Error::new(SqlState::InvalidParameterValue, message)
}

fn unsupported(field: &str, value: &Value) -> Error {
    let message = format!("unit \"{}\" not supported for type {}", field.to_lowercase(), value.type_name());
    Error::new(SqlState::FeatureNotSupported, message)
}

fn of_moment(field: Field, moment: i64) -> Option<Decimal> {
    let (days, time) = (moment.div_euclid(MICROSECONDS_PER_DAY), moment.rem_euclid(MICROSECONDS_PER_DAY));
    match field {
        Field::Epoch => Some(Decimal::new(i128::from(moment), 6)),
        // A day with a fraction, which has as many digits as a quotient has.
        Field::Julian => None,
        field => of_time(field, time).or_else(|| of_day(field, days).map(whole)),
    }
}

/// Hours and what is smaller, of any number of microseconds.
fn of_time(field: Field, time: i64) -> Option<Decimal> {
    let second = i128::from(time % MINUTE);
    Some(match field {
        Field::Microseconds => Decimal::new(second, 0),
        Field::Milliseconds => Decimal::new(second, 3),
        Field::Second => Decimal::new(second, 6),
        Field::Minute => whole(time / MINUTE % 60),
        Field::Hour => whole(time / HOUR),
        _ => return None,
    })
}

/// Days and what is larger. Years before 1 have negative numbers without a zero.
fn of_day(field: Field, days: i64) -> Option<i64> {
    let (year, month, day) = civil_from_days(days);
    Some(match field {
        Field::Day => i64::from(day),
        Field::Month => i64::from(month),
        Field::Quarter => i64::from(month - 1) / 3 + 1,
        Field::Week => iso_week(days).1,
        Field::Year => {
            if year > 0 {
                year
            } else {
                year - 1
            }
        }
        Field::Decade => year.div_euclid(10),
        Field::Century => century(year, 100),
        Field::Millennium => century(year, 1000),
        Field::IsoYear => {
            let year = iso_week(days).0;
            if year > 0 { year } else { year - 1 }
        }
        Field::DayOfWeek => day_of_week(days),
        Field::IsoDayOfWeek => (days + 3).rem_euclid(7) + 1,
        Field::DayOfYear => days - days_from_civil(year, 1, 1) + 1,
        Field::Julian => days + JULIAN_EPOCH,
        _ => return None,
    })
}

/// The number of the century (or millennium) of a year; there is no zeroth one.
fn century(year: i64, length: i64) -> i64 {
    if year > 0 { (year + length - 1) / length } else { -((length - year) / length) }
}

/// 0 for Sundays.
fn day_of_week(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// The day's Monday.
fn monday(days: i64) -> i64 {
    days - (days + 3).rem_euclid(7)
}

/// Year and number of the ISO week: the first one has the year's first Thursday.
fn iso_week(days: i64) -> (i64, i64) {
    let thursday = monday(days) + 3;
    let (year, _, _) = civil_from_days(thursday);
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

fn of_interval(field: Field, interval: Interval) -> Option<Decimal> {
    let months = i64::from(interval.months);
    let (years, rest) = (months / MONTHS_PER_YEAR, months % MONTHS_PER_YEAR);
    Some(match field {
        Field::Day => whole(i64::from(interval.days)),
        Field::Month => whole(rest),
        Field::Quarter => whole(rest / 3 + 1),
        Field::Year => whole(years),
        Field::Decade => whole(years / 10),
        Field::Century => whole(years / 100),
        Field::Millennium => whole(years / 1000),
        Field::Epoch => {
            // A year has 365.25 days here.
            let quarter_days =
                i128::from(years * 1461 + rest * DAYS_PER_MONTH * 4 + i64::from(interval.days) * 4);
            let microseconds = quarter_days * i128::from(MICROSECONDS_PER_DAY / 4);
            Decimal::new(microseconds + i128::from(interval.microseconds), 6)
        }
        field => return of_time(field, interval.microseconds),
    })
}

/// `date_trunc(field, value)`, of a timestamp or an interval.
///
/// # Errors
/// 22023 for fields that do not exist, 0A000 for those that the type does not have, 22008 if the beginning does not fit.
pub fn date_trunc(field: &str, value: &Value) -> Result<Value> {
    if infinity(value).is_some() {
        return Ok(value.clone());
    }
    let known = Field::by_name(field).ok_or_else(|| unknown(field, value))?;
    let found = match value {
        Value::Timestamp(moment) => moment_trunc(known, *moment)?.map(Value::Timestamp),
        Value::TimestampTz(moment) => instant_trunc(known, *moment)?.map(Value::TimestampTz),
        Value::Interval(interval) => interval_trunc(known, *interval).map(Value::Interval),
        _ => None,
    };
    found.ok_or_else(|| unsupported(field, value))
}

/// How long a part of a day is.
fn length(field: Field) -> Option<i64> {
    Some(match field {
        Field::Microseconds => 1,
        Field::Milliseconds => 1000,
        Field::Second => SECOND,
        Field::Minute => MINUTE,
        Field::Hour => HOUR,
        _ => return None,
    })
}

/// Days and what is longer begin when clocks show that; parts of a day are cut off without a look at the clocks.
fn instant_trunc(field: Field, moment: i64) -> Result<Option<i64>> {
    if is_infinite(moment) {
        return moment_trunc(field, moment);
    }
    let zone = Zone::current();
    let local = zone.local(moment)?;
    let Some(cut) = moment_trunc(field, local)? else { return Ok(None) };
    match length(field) {
        Some(_) => Ok(Some(moment - (local - cut))),
        None => zone.instant(cut).map(Some),
    }
}

fn moment_trunc(field: Field, moment: i64) -> Result<Option<i64>> {
    if is_infinite(moment) {
        let has_beginning = moment_trunc(field, 0)?.is_some();
        return Ok(has_beginning.then_some(moment));
    }
    let days = moment.div_euclid(MICROSECONDS_PER_DAY);
    if let Some(length) = length(field) {
        return Ok(Some(moment - moment.rem_euclid(length)));
    }
    let (year, month, _) = civil_from_days(days);
    let first = |year| days_from_civil(year, 1, 1);
    let day = match field {
        Field::Day => days,
        Field::Week => monday(days),
        Field::Month => days_from_civil(year, month, 1),
        Field::Quarter => days_from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        Field::Year => first(year),
        Field::Decade => first(year.div_euclid(10) * 10),
        Field::Century => first((year - 1).div_euclid(100) * 100 + 1),
        Field::Millennium => first((year - 1).div_euclid(1000) * 1000 + 1),
        _ => return Ok(None),
    };
    let day = i32::try_from(day);
    day.map_err(|_| Error::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
        .and_then(midnight)
        .map(Some)
}

fn interval_trunc(field: Field, interval: Interval) -> Option<Interval> {
    if let Some(length) = length(field) {
        let microseconds = interval.microseconds - interval.microseconds % length;
        return Some(Interval { microseconds, ..interval });
    }
    let months = match field {
        Field::Day => return Some(Interval { microseconds: 0, ..interval }),
        Field::Month => 1,
        Field::Quarter => 3,
        Field::Year => 12,
        Field::Decade => 120,
        Field::Century => 1200,
        Field::Millennium => 12_000,
        _ => return None,
    };
    Some(Interval::new(interval.months - interval.months % months, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cast::text_of;
    use crate::{DataType, format_text, parse_text};

    fn value(data_type: DataType, text: &str) -> Value {
        parse_text(data_type, text).unwrap()
    }

    #[test]
    fn fields_of_a_moment_are_postgresqls() {
        let moment = value(DataType::TIMESTAMP, "2001-02-16 20:38:40.12");
        for (field, expected) in [
            ("century", "21"),
            ("decade", "200"),
            ("doy", "47"),
            ("dow", "5"),
            ("isodow", "5"),
            ("epoch", "982355920.120000"),
            ("milliseconds", "40120.000"),
            ("second", "40.120000"),
            ("quarter", "1"),
            ("week", "7"),
            ("isoyear", "2001"),
        ] {
            assert_eq!(text_of(&extract(field, &moment).unwrap()), expected, "{field}");
        }
        let before_christ = value(DataType::Date, "0044-03-15 BC");
        for (field, expected) in [("year", "-44"), ("century", "-1"), ("millennium", "-1"), ("decade", "-5")]
        {
            assert_eq!(text_of(&extract(field, &before_christ).unwrap()), expected, "{field}");
        }
        assert_eq!(extract("fortnight", &moment).unwrap_err().state(), SqlState::InvalidParameterValue);
        let date = value(DataType::Date, "2001-02-16");
        assert_eq!(extract("hour", &date).unwrap_err().state(), SqlState::FeatureNotSupported);
    }

    #[test]
    fn beginnings_are_postgresqls() {
        let moment = value(DataType::TIMESTAMP, "2001-02-16 20:38:40.12");
        for (field, expected) in [
            ("hour", "2001-02-16 20:00:00"),
            ("week", "2001-02-12 00:00:00"),
            ("quarter", "2001-01-01 00:00:00"),
            ("decade", "2000-01-01 00:00:00"),
            ("century", "2001-01-01 00:00:00"),
            ("millennium", "2001-01-01 00:00:00"),
        ] {
            let mut out = String::new();
            format_text(&date_trunc(field, &moment).unwrap(), DataType::TIMESTAMP, &mut out);
            assert_eq!(out, expected, "{field}");
        }
        let interval = value(DataType::INTERVAL, "3 years 5 mons 20 days 04:05:06");
        let mut out = String::new();
        format_text(&date_trunc("quarter", &interval).unwrap(), DataType::INTERVAL, &mut out);
        assert_eq!(out, "3 years 3 mons");
        assert_eq!(date_trunc("week", &interval).unwrap_err().state(), SqlState::FeatureNotSupported);
    }
}
