//! Functions of dates, times and intervals.

use super::bind::{Bound, Typed};
use super::function::no_function;
use super::types::numeric;
use super::zone::{self, Zone};
use super::{Binder, Expression, Function, library};
use ankerdb_engine::{DataType, Decimal, Error, Interval, PackedType, Result, SqlState, Value};
use ankerdb_value::{DateField, age, cast, date_trunc, extract};

/// A function of dates, times or intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Temporal {
    /// `extract`, a numeric
    Extract,
    /// `date_part`, a double
    DatePart,
    DateTrunc,
    Age,
    JustifyDays,
    JustifyHours,
    JustifyInterval,
    MakeInterval,
    /// `AT TIME ZONE`: `timezone(zone, moment)`
    TimeZone,
    /// The length of an interval as a number, by which DataFusion compares, groups and sorts intervals. No client can call it.
    Span,
}

const TIMETZ: DataType = DataType::Packed(PackedType::TimeTz);

/// Names, the fewest and the most arguments, functions.
const FUNCTIONS: [(&str, usize, usize, Temporal); 9] = [
    ("extract", 2, 2, Temporal::Extract),
    ("date_part", 2, 2, Temporal::DatePart),
    ("date_trunc", 2, 2, Temporal::DateTrunc),
    ("age", 1, 2, Temporal::Age),
    ("justify_days", 1, 1, Temporal::JustifyDays),
    ("justify_hours", 1, 1, Temporal::JustifyHours),
    ("justify_interval", 1, 1, Temporal::JustifyInterval),
    ("make_interval", 0, 7, Temporal::MakeInterval),
    ("timezone", 2, 2, Temporal::TimeZone),
];

impl Temporal {
    /// The function's name.
    pub(crate) fn sql_name(self) -> &'static str {
        let named = FUNCTIONS.iter().find(|(.., function)| *function == self);
        named.map_or("interval_span", |(name, ..)| *name)
    }

    /// The function of this name with so many arguments.
    pub(crate) fn by_name(name: &str, arguments: usize) -> Option<Temporal> {
        let is_it = |(known, fewest, most, _): &&(&str, usize, usize, Temporal)| {
            *known == name && (*fewest..=*most).contains(&arguments)
        };
        FUNCTIONS.iter().find(is_it).map(|&(.., function)| function)
    }

    /// The names of all functions.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        FUNCTIONS.iter().map(|&(name, ..)| name)
    }

    /// The name as the list above has it, if it is one of these.
    pub(crate) fn known_name(name: &str) -> Option<&'static str> {
        Temporal::names().find(|known| *known == name)
    }

    /// The function's value. None of the arguments is NULL.
    pub(crate) fn of(self, values: &[Value]) -> Result<Value> {
        Ok(match (self, values) {
            (Temporal::Extract, [Value::Text(field), value]) => extract(field, value)?,
            (Temporal::DatePart, [Value::Text(field), value]) => {
                cast(extract(field, value)?, DataType::DoublePrecision)?
            }
            (Temporal::DateTrunc, [Value::Text(field), value]) => date_trunc(field, value)?,
            (Temporal::Age, [later, earlier]) => Value::Interval(age(shown(later)?, shown(earlier)?)?),
            (Temporal::JustifyDays, [Value::Interval(interval)]) => Value::Interval(interval.justify_days()?),
            (Temporal::JustifyHours, [Value::Interval(interval)]) => {
                Value::Interval(interval.justify_hours()?)
            }
            (Temporal::JustifyInterval, [Value::Interval(interval)]) => {
                Value::Interval(interval.justified()?)
            }
            (Temporal::MakeInterval, [parts @ .., Value::Double(seconds)]) => make_interval(parts, *seconds)?,
            (Temporal::TimeZone, [zone, moment]) => at_time_zone(zone, moment)?,
            (Temporal::Span, [Value::Interval(interval)]) => Value::Numeric(Decimal::new(interval.span(), 0)),
            _ => return Err(Error::internal("a function of times was given something else")),
        })
    }
}

/// What clocks show at a moment.
fn shown(value: &Value) -> Result<i64> {
    match value {
        Value::Timestamp(moment) => Ok(*moment),
        Value::TimestampTz(moment) => Zone::current().local(*moment),
        _ => Err(Error::internal("an age of something that is no moment")),
    }
}

/// Years, months, weeks, days, hours, minutes and seconds.
fn make_interval(parts: &[Value], seconds: f64) -> Result<Value> {
    let out_of_range = || Error::new(SqlState::DatetimeFieldOverflow, "interval out of range");
    let part = |position: usize| parts.get(position).and_then(Value::as_integer).unwrap_or(0);
    let made = || {
        let months = part(0).checked_mul(12)?.checked_add(part(1))?;
        let days = part(2).checked_mul(7)?.checked_add(part(3))?;
        let whole = part(4).checked_mul(3_600_000_000)?.checked_add(part(5).checked_mul(60_000_000)?)?;
        let fraction = (seconds * 1e6).round_ties_even();
        if !(-(2f64.powi(63))..2f64.powi(63)).contains(&fraction) {
            return None;
        }
        let time = whole.checked_add(fraction as i64)?;
        Some(Interval::new(i32::try_from(months).ok()?, i32::try_from(days).ok()?, time))
    };
    made().map(Value::Interval).ok_or_else(out_of_range)
}

/// A timestamp in a zone as an instant, or an instant as that zone's clocks show it.
fn at_time_zone(zone: &Value, moment: &Value) -> Result<Value> {
    let zone = match zone {
        Value::Interval(Interval { months: 0, days: 0, microseconds }) => Zone::East(*microseconds),
        Value::Interval(_) => {
            let message = "interval time zone must not include months or days";
            return Err(Error::new(SqlState::InvalidParameterValue, message));
        }
        Value::Text(name) => zone::named(name)?,
        _ => return Err(Error::internal("a time zone that is no text")),
    };
    match moment {
        Value::Timestamp(local) => zone.instant(*local).map(Value::TimestampTz),
        Value::TimestampTz(instant) => zone.local(*instant).map(Value::Timestamp),
        Value::Packed(packed) if packed.packed_type() == PackedType::TimeTz => {
            Ok(Value::Packed(packed.borrow().time_tz().moved(zone.east_today()?).packed()))
        }
        _ => Err(Error::internal("a time zone of something that is no moment")),
    }
}

/// Binds a call of one of them.
pub(super) fn temporal_call(
    binder: &mut Binder,
    name: &str,
    function: Temporal,
    mut items: Vec<Typed>,
) -> Bound<Typed> {
    use DataType::{Date, DoublePrecision, Integer, Text};
    const SPAN: DataType = DataType::INTERVAL;
    const TIME: DataType = DataType::TIME;
    const TIMESTAMP: DataType = DataType::TIMESTAMP;
    const TIMESTAMPTZ: DataType = DataType::TIMESTAMPTZ;
    // What is computed of times has no precision of its own.
    let types: Vec<Option<DataType>> =
        items.iter().map(|item| item.data_type.map(DataType::of_any_precision)).collect();
    let is_text = |position: usize| types[position].is_none_or(DataType::is_text);
    let (wanted, result) = match (function, types.as_slice()) {
        (Temporal::Extract, [_, Some(known @ (Date | TIMESTAMP | TIMESTAMPTZ | TIME | TIMETZ | SPAN))])
            if is_text(0) =>
        {
            let scale = field_scale(&items[0], *known == Date);
            (vec![Text, *known], numeric(scale))
        }
        (Temporal::DatePart, [_, Some(Date)]) if is_text(0) => (vec![Text, TIMESTAMP], DoublePrecision),
        (Temporal::DatePart, [_, Some(known @ (TIMESTAMP | TIMESTAMPTZ | TIME | TIMETZ | SPAN))])
            if is_text(0) =>
        {
            (vec![Text, *known], DoublePrecision)
        }
        (Temporal::DateTrunc, [_, known]) if is_text(0) => match known {
            Some(TIMESTAMP) => (vec![Text, TIMESTAMP], TIMESTAMP),
            Some(SPAN | TIME) => (vec![Text, SPAN], SPAN),
            Some(TIMESTAMPTZ | Date) => (vec![Text, TIMESTAMPTZ], TIMESTAMPTZ),
            None => return Err(library::not_unique(name, &items).into()),
            Some(_) => return Err(no_function(name, &items).into()),
        },
        (Temporal::Extract | Temporal::DatePart, [_, None]) | (Temporal::Age, [None]) => {
            return Err(library::not_unique(name, &items).into());
        }
        (Temporal::Age, [known]) => {
            let moments = moments(&[*known]).ok_or_else(|| no_function(name, &items))?;
            let today = Typed::new(Expression::Call(Function::CurrentDate, vec![]), Date);
            items.insert(0, today);
            (vec![moments; 2], SPAN)
        }
        (Temporal::Age, known) => {
            let moments = moments(known).ok_or_else(|| no_function(name, &items))?;
            (vec![moments; 2], SPAN)
        }
        (
            Temporal::JustifyDays | Temporal::JustifyHours | Temporal::JustifyInterval,
            [None | Some(SPAN | TIME)],
        ) => (vec![SPAN], SPAN),
        (Temporal::MakeInterval, known) => {
            let whole = |known: &Option<DataType>| matches!(known, None | Some(DataType::SmallInt | Integer));
            let seconds = known.get(6).copied().flatten();
            if !known.iter().take(6).all(whole) || !seconds.is_none_or(DataType::is_numeric) {
                return Err(no_function(name, &items).into());
            }
            let zero = |data_type| Typed::new(Expression::Literal(Value::Integer(0)), data_type);
            items.extend((items.len()..7).map(|_| zero(Integer)));
            (vec![Integer, Integer, Integer, Integer, Integer, Integer, DoublePrecision], SPAN)
        }
        (Temporal::TimeZone, [zone, known]) => {
            let zone = if *zone == Some(SPAN) { SPAN } else { Text };
            match known {
                Some(TIMESTAMP) => (vec![zone, TIMESTAMP], TIMESTAMPTZ),
                Some(TIMESTAMPTZ | Date) | None => (vec![zone, TIMESTAMPTZ], TIMESTAMP),
                Some(TIME | TIMETZ) => (vec![zone, TIMETZ], TIMETZ),
                Some(_) => return Err(no_function(name, &items).into()),
            }
        }
        _ => return Err(no_function(name, &items).into()),
    };
    let bound = items.into_iter().zip(wanted).map(|(item, wanted)| binder.resolve(item, wanted));
    let call = Expression::Call(Function::Temporal(function, result), bound.collect::<Bound<Vec<_>>>()?);
    Ok(Typed::new(call, result))
}

/// The type in which moments meet; `None` if one is something else.
fn moments(types: &[Option<DataType>]) -> Option<DataType> {
    let is_moment = |known: &Option<DataType>| {
        matches!(known, None | Some(DataType::Date | DataType::Timestamp(_) | DataType::TimestampTz(_)))
    };
    // Without a type of its own a constant is one with time zone, which is preferred.
    let is_plain =
        types.contains(&Some(DataType::TIMESTAMP)) && !types.contains(&Some(DataType::TIMESTAMPTZ));
    let moments = if is_plain { DataType::TIMESTAMP } else { DataType::TIMESTAMPTZ };
    types.iter().all(is_moment).then_some(moments)
}

/// Fractional digits of a field; those of any if it is not a constant.
fn field_scale(field: &Typed, of_date: bool) -> u8 {
    match &field.expression {
        Expression::Literal(Value::Text(name)) => {
            DateField::by_name(name).map_or(0, |field| field.scale(of_date))
        }
        _ => 6,
    }
}
