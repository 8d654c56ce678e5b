//! chrono's dates and times: `NaiveDate` as `date`, `NaiveTime` as `time`, `NaiveDateTime` as `timestamp`, `DateTime<Utc>` (and
//! other zones, on the way in) as `timestamptz`.
//!
//! SQL counts microseconds. Nanoseconds below are cut off on the way in, towards the past.

use super::wrong_type;
use crate::error::{Error, Result};
use crate::{FromValue, ToValue};
use ankerdb_engine::{DataType, SqlState, ValueRef};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Timelike, Utc};

/// The day from which SQL's dates count here.
const EPOCH: NaiveDate = match NaiveDate::from_ymd_opt(1970, 1, 1) {
    Some(day) => day,
    None => panic!("there was such a day"),
};

const DAYS_MICROSECONDS: i64 = 86_400_000_000;

fn out_of_range(what: &str) -> Error {
    Error::new(SqlState::DatetimeFieldOverflow, format!("{what} out of range"))
}

/// Microseconds since 1970, rounded towards the past.
fn microseconds(moment: &NaiveDateTime) -> i64 {
    // chrono's years are at most 262,143, whose microseconds fit by far.
    moment.and_utc().timestamp_micros()
}

fn moment(microseconds: i64) -> Result<NaiveDateTime> {
    let moment = DateTime::from_timestamp_micros(microseconds);
    moment.map(|moment| moment.naive_utc()).ok_or_else(|| out_of_range("timestamp"))
}

impl ToValue for NaiveDate {
    fn to_value(&self) -> Result<ValueRef<'_>> {
        let days = self.signed_duration_since(EPOCH).num_days();
        i32::try_from(days).map(ValueRef::Date).map_err(|_| out_of_range("date"))
    }
}

impl FromValue for NaiveDate {
    fn from_value(value: ValueRef<'_>) -> Result<NaiveDate> {
        let ValueRef::Date(days) = value else { return Err(wrong_type(value, "NaiveDate")) };
        let date =
            chrono::TimeDelta::try_days(i64::from(days)).and_then(|days| EPOCH.checked_add_signed(days));
        date.ok_or_else(|| out_of_range("date"))
    }

    fn reads(data_type: DataType) -> bool {
        data_type == DataType::Date
    }
}

impl ToValue for NaiveTime {
    fn to_value(&self) -> Result<ValueRef<'_>> {
        // A leap second is a second that is too long, and so the next one here.
        let nanoseconds =
            i64::from(self.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(self.nanosecond());
        Ok(ValueRef::Time(nanoseconds / 1000))
    }
}

impl FromValue for NaiveTime {
    /// # Errors
    /// `DatetimeFieldOverflow` for `24:00:00`, which chrono does not have.
    fn from_value(value: ValueRef<'_>) -> Result<NaiveTime> {
        let ValueRef::Time(microseconds) = value else { return Err(wrong_type(value, "NaiveTime")) };
        let (seconds, rest) = (microseconds.div_euclid(1_000_000), microseconds.rem_euclid(1_000_000));
        let seconds = u32::try_from(seconds).map_err(|_| out_of_range("time"))?;
        NaiveTime::from_num_seconds_from_midnight_opt(seconds, rest as u32 * 1000)
            .ok_or_else(|| out_of_range("time"))
    }

    fn reads(data_type: DataType) -> bool {
        matches!(data_type, DataType::Time(_))
    }
}

impl ToValue for NaiveDateTime {
    fn to_value(&self) -> Result<ValueRef<'_>> {
        Ok(ValueRef::Timestamp(microseconds(self)))
    }
}

impl FromValue for NaiveDateTime {
    fn from_value(value: ValueRef<'_>) -> Result<NaiveDateTime> {
        match value {
            ValueRef::Timestamp(microseconds) => moment(microseconds),
            ValueRef::Date(days) => moment(i64::from(days) * DAYS_MICROSECONDS),
            other => Err(wrong_type(other, "NaiveDateTime")),
        }
    }

    fn reads(data_type: DataType) -> bool {
        matches!(data_type, DataType::Timestamp(_) | DataType::Date)
    }
}

impl<Z: TimeZone> ToValue for DateTime<Z> {
    fn to_value(&self) -> Result<ValueRef<'_>> {
        Ok(ValueRef::TimestampTz(microseconds(&self.naive_utc())))
    }
}

impl FromValue for DateTime<Utc> {
    fn from_value(value: ValueRef<'_>) -> Result<DateTime<Utc>> {
        match value {
            ValueRef::TimestampTz(microseconds) => moment(microseconds).map(|moment| moment.and_utc()),
            other => Err(wrong_type(other, "DateTime<Utc>")),
        }
    }

    fn reads(data_type: DataType) -> bool {
        matches!(data_type, DataType::TimestampTz(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_value::parse_text;

    /// By the text forms of both, so that neither is measured by itself.
    #[test]
    fn dates_and_times_are_the_same_days_and_moments() {
        for written in ["1970-01-01", "2000-02-29", "1582-10-15", "0001-01-01", "9999-12-31"] {
            let date: NaiveDate = written.parse().unwrap();
            let value = date.to_value().unwrap();
            assert_eq!(value.to_value(), parse_text(DataType::Date, written).unwrap());
            assert_eq!(NaiveDate::from_value(value).unwrap(), date);
        }
        for written in ["1969-12-31 23:59:59.999999", "2024-06-30 12:00:00.5", "0001-01-01 00:00:00"] {
            let moment = NaiveDateTime::parse_from_str(written, "%Y-%m-%d %H:%M:%S%.f").unwrap();
            let value = moment.to_value().unwrap();
            assert_eq!(value.to_value(), parse_text(DataType::TIMESTAMP, written).unwrap());
            assert_eq!(NaiveDateTime::from_value(value).unwrap(), moment);
        }
        let zoned = DateTime::parse_from_rfc3339("2024-06-30T12:00:00+02:00").unwrap();
        let value = zoned.to_value().unwrap();
        assert_eq!(DateTime::<Utc>::from_value(value).unwrap(), zoned);
        assert_eq!(value.to_value(), parse_text(DataType::TIMESTAMPTZ, "2024-06-30 10:00:00+00").unwrap());
    }

    #[test]
    fn times_of_day_are_the_same_but_for_the_end_of_the_day() {
        for written in ["00:00:00", "12:30:45.5", "23:59:59.999999"] {
            let time: NaiveTime = written.parse().unwrap();
            let value = time.to_value().unwrap();
            assert_eq!(value.to_value(), parse_text(DataType::TIME, written).unwrap());
            assert_eq!(NaiveTime::from_value(value).unwrap(), time);
        }
        assert!(NaiveTime::from_value(ValueRef::Time(86_400_000_000)).is_err());
    }

    #[test]
    fn nanoseconds_are_cut_towards_the_past() {
        let before = NaiveDate::from_ymd_opt(1969, 12, 31).unwrap().and_hms_nano_opt(23, 59, 59, 999_999_999);
        assert_eq!(before.unwrap().to_value().unwrap(), ValueRef::Timestamp(-1));
    }

    #[test]
    fn extremes_are_errors_or_come_back() {
        for days in [i32::MIN, i32::MAX] {
            assert!(NaiveDate::from_value(ValueRef::Date(days)).is_err());
        }
        for moment in [i64::MIN, i64::MAX] {
            assert!(NaiveDateTime::from_value(ValueRef::Timestamp(moment)).is_err());
        }
        for date in [NaiveDate::MIN, NaiveDate::MAX] {
            assert_eq!(NaiveDate::from_value(date.to_value().unwrap()).unwrap(), date);
        }
        for moment in [NaiveDateTime::MIN, NaiveDateTime::MAX] {
            assert!(moment.to_value().is_ok());
        }
    }
}
