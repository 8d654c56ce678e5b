//! Functions and operators of ranges, written once for all of their types.

use super::entry::{Entry, entry, text, wrong_argument};
use ankerdb_engine::DataType::{BigInt, Boolean, Date, Integer, Text};
use ankerdb_engine::{DataType, Error, PackedType, RangeType, Result, SqlState, Value};
use ankerdb_value::{Range, RangeBound};

/// What `lower` and `upper` of a range are called here: of a text they are others.
pub(crate) const LOWER: &str = "operator lower";
pub(crate) const UPPER: &str = "operator upper";

/// The functions of one type of ranges, with the type of its bounds.
macro_rules! of_type {
    ($name:literal, $kind:ident, $item:expr) => {{
        const KIND: RangeType = RangeType::$kind;
        const RANGE: DataType = DataType::Packed(PackedType::Range(KIND));
        &[
            entry($name, &[$item, $item], RANGE, |values, _| made(KIND, values)).lenient(),
            entry($name, &[$item, $item, Text], RANGE, |values, _| made(KIND, values)).lenient(),
            entry(LOWER, &[RANGE], $item, |values, _| end(values, |lower, _| lower)),
            entry(UPPER, &[RANGE], $item, |values, _| end(values, |_, upper| upper)),
            entry("isempty", &[RANGE], Boolean, |values, _| {
                Ok(Value::Boolean(range(values, 0)?.bounds.is_none()))
            }),
            entry("lower_inc", &[RANGE], Boolean, |values, _| told(values, |lower, _| lower.is_inclusive)),
            entry("upper_inc", &[RANGE], Boolean, |values, _| told(values, |_, upper| upper.is_inclusive)),
            entry("lower_inf", &[RANGE], Boolean, |values, _| told(values, |lower, _| lower.value.is_none())),
            entry("upper_inf", &[RANGE], Boolean, |values, _| told(values, |_, upper| upper.value.is_none())),
            entry("range_merge", &[RANGE, RANGE], RANGE, |values, _| {
                of_two(values, |left, right| Ok(left.merged(right)))
            }),
            entry("operator @>", &[RANGE, RANGE], Boolean, |values, _| holds(values, Range::contains)),
            entry("operator @>", &[RANGE, $item], Boolean, |values, _| has(values, 0, 1)),
            entry("operator <@", &[RANGE, RANGE], Boolean, |values, _| {
                holds(values, |left, right| right.contains(left))
            }),
            entry("operator <@", &[$item, RANGE], Boolean, |values, _| has(values, 1, 0)),
            entry("operator &&", &[RANGE, RANGE], Boolean, |values, _| holds(values, Range::overlaps)),
            entry("operator <<", &[RANGE, RANGE], Boolean, |values, _| holds(values, Range::is_before)),
            entry("operator >>", &[RANGE, RANGE], Boolean, |values, _| {
                holds(values, |left, right| right.is_before(left))
            }),
            entry("operator &<", &[RANGE, RANGE], Boolean, |values, _| holds(values, Range::ends_with)),
            entry("operator &>", &[RANGE, RANGE], Boolean, |values, _| holds(values, Range::begins_with)),
            entry("operator -|-", &[RANGE, RANGE], Boolean, |values, _| holds(values, Range::is_adjacent)),
            entry("operator +", &[RANGE, RANGE], RANGE, |values, _| of_two(values, Range::union)),
            entry("operator -", &[RANGE, RANGE], RANGE, |values, _| of_two(values, Range::difference)),
            entry("operator *", &[RANGE, RANGE], RANGE, |values, _| {
                of_two(values, |left, right| Ok(left.intersection(right)))
            }),
        ]
    }};
}

pub(super) const INTEGERS: &[Entry] = of_type!("int4range", Integer, Integer);
pub(super) const BIGINTS: &[Entry] = of_type!("int8range", BigInt, BigInt);
pub(super) const DATES: &[Entry] = of_type!("daterange", Date, Date);
pub(super) const TIMESTAMPS: &[Entry] = of_type!("tsrange", Timestamp, DataType::TIMESTAMP);
pub(super) const INSTANTS: &[Entry] = of_type!("tstzrange", TimestampTz, DataType::TIMESTAMPTZ);

fn range(values: &[Value], position: usize) -> Result<Range> {
    match values.get(position) {
        Some(Value::Packed(packed)) => packed.borrow().range().ok_or_else(wrong_argument),
        _ => Err(wrong_argument()),
    }
}

/// The range between two values, of which NULL is no end.
///
/// # Errors
/// 22000 and 42601 for flags that are none, and those of [`Range::new`].
fn made(kind: RangeType, values: &[Value]) -> Result<Value> {
    let (lower_inclusive, upper_inclusive) = match values.get(2) {
        None => (true, false),
        Some(Value::Null) => {
            let message = "range constructor flags argument must not be null";
            return Err(Error::new(SqlState::DataException, message));
        }
        Some(_) => match text(values, 2)? {
            "[)" => (true, false),
            "[]" => (true, true),
            "(]" => (false, true),
            "()" => (false, false),
            _ => {
                return Err(Error::new(SqlState::SyntaxError, "invalid range bound flags")
                    .with_hint("Valid values are \"[]\", \"[)\", \"(]\", and \"()\"."));
            }
        },
    };
    let bound = |position: usize, is_inclusive: bool| match values.get(position) {
        Some(Value::Null) => Ok(RangeBound { value: None, is_inclusive }),
        Some(value) => {
            let value = Some(kind.number(value).ok_or_else(wrong_argument)?);
            Ok(RangeBound { value, is_inclusive })
        }
        None => Err(wrong_argument()),
    };
    let made = Range::new(kind, bound(0, lower_inclusive)?, bound(1, upper_inclusive)?)?;
    Ok(Value::Packed(made.packed()))
}

/// The value of a bound; NULL without one.
fn end(values: &[Value], of: fn(RangeBound, RangeBound) -> RangeBound) -> Result<Value> {
    let range = range(values, 0)?;
    let value = range.bounds.and_then(|(lower, upper)| of(lower, upper).value);
    Ok(value.map_or(Value::Null, |value| range.range_type.item(value)))
}

/// What the bounds tell; false of an empty range.
fn told(values: &[Value], tell: fn(RangeBound, RangeBound) -> bool) -> Result<Value> {
    Ok(Value::Boolean(range(values, 0)?.bounds.is_some_and(|(lower, upper)| tell(lower, upper))))
}

fn holds(values: &[Value], holds: fn(Range, Range) -> bool) -> Result<Value> {
    Ok(Value::Boolean(holds(range(values, 0)?, range(values, 1)?)))
}

fn has(values: &[Value], place: usize, item: usize) -> Result<Value> {
    let range = range(values, place)?;
    let value =
        values.get(item).and_then(|value| range.range_type.number(value)).ok_or_else(wrong_argument)?;
    Ok(Value::Boolean(range.has(value)))
}

fn of_two(values: &[Value], of: fn(Range, Range) -> Result<Range>) -> Result<Value> {
    Ok(Value::Packed(of(range(values, 0)?, range(values, 1)?)?.packed()))
}
