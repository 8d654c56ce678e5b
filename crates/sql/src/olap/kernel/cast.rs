//! Casts among numbers, dates and texts.

use super::long_number;
use super::text::{Texts, texts};
use super::{Call, Kernel, shared};
use crate::columns::Cells;
use crate::olap::arrow::UTC;
use ankerdb_engine::{DataType, Value};
use ankerdb_value::{
    DATE_INFINITY, DATE_MINUS_INFINITY, Decimal, INFINITY, MINUS_INFINITY, cast, cut, format_text, parse_text,
};
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Int32Array, PrimitiveArray, PrimitiveBuilder,
    StringViewBuilder, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType,
};
use datafusion::logical_expr::ColumnarValue;
use std::sync::Arc;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;

pub(super) fn find(from: &ArrowType, target: DataType) -> Option<Kernel> {
    match from {
        ArrowType::Timestamp(TimeUnit::Microsecond, _) if target != target.of_any_precision() => {
            rounded_moment(target)
        }
        _ if target != target.of_any_precision() => None,
        ArrowType::Int16 => integer::<Int16Type>(target),
        ArrowType::Int32 if target == DataType::Boolean => Some(truth),
        ArrowType::Int32 => integer::<Int32Type>(target),
        ArrowType::Int64 => integer::<Int64Type>(target),
        ArrowType::Float32 => floating::<Float32Type>(target),
        ArrowType::Float64 => floating::<Float64Type>(target),
        ArrowType::Decimal128(..) => numeric(target),
        ArrowType::LargeBinary => long_number::cast_to(target),
        ArrowType::Boolean if target == DataType::Integer => Some(zero_or_one),
        ArrowType::Date32 => day(target),
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => moment(target),
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => text(target),
        _ => None,
    }
}

fn integer<From: ArrowPrimitiveType<Native: Into<i64>>>(target: DataType) -> Option<Kernel> {
    Some(match target {
        DataType::SmallInt => {
            |call| shared::<Int16Type>(call.mapped::<From, _>(|value| value.into().try_into().ok()))
        }
        DataType::Integer => {
            |call| shared::<Int32Type>(call.mapped::<From, _>(|value| value.into().try_into().ok()))
        }
        DataType::BigInt => |call| shared::<Int64Type>(call.mapped::<From, _>(|value| Some(value.into()))),
        DataType::Real => {
            |call| shared::<Float32Type>(call.mapped::<From, _>(|value| Some(value.into() as f32)))
        }
        DataType::Numeric { .. } => |call| {
            let fitting = call.fitting()?;
            call.numerics(call.mapped::<From, _>(|value| fitting(Decimal::from(value.into())))?)
        },
        DataType::Number => long_number::made(),
        target if target.is_text() => written,
        _ => return None,
    })
}

fn floating<From: ArrowPrimitiveType<Native: Floating>>(target: DataType) -> Option<Kernel> {
    Some(match target {
        DataType::SmallInt => {
            |call| shared::<Int16Type>(call.mapped::<From, _>(|value| rounded(value, i16::MIN.into())))
        }
        DataType::Integer => {
            |call| shared::<Int32Type>(call.mapped::<From, _>(|value| rounded(value, i32::MIN.into())))
        }
        DataType::BigInt => {
            |call| shared::<Int64Type>(call.mapped::<From, _>(|value| rounded(value, i64::MIN as f64)))
        }
        DataType::Real => {
            |call| shared::<Float32Type>(call.mapped::<From, _>(|value| narrowed(value.into())))
        }
        DataType::Numeric { .. } => |call| {
            let fitting = call.fitting()?;
            call.numerics(call.mapped::<From, _>(|value| fitting(value.decimal()?))?)
        },
        target if target.is_text() => written,
        _ => return None,
    })
}

/// Numbers of floating point, which show their digits differently.
trait Floating: Into<f64> + Copy {
    fn decimal(self) -> Option<Decimal>;
}

impl Floating for f32 {
    fn decimal(self) -> Option<Decimal> {
        Decimal::from_f32(self)
    }
}

impl Floating for f64 {
    fn decimal(self) -> Option<Decimal> {
        Decimal::from_f64(self)
    }
}

/// The nearest integer, half to even. `smallest` is minus a power of two, and the first number that is too large its opposite.
fn rounded<T: TryFrom<i64>>(value: impl Into<f64>, smallest: f64) -> Option<T> {
    let whole = value.into().round_ties_even();
    if (smallest..-smallest).contains(&whole) { T::try_from(whole as i64).ok() } else { None }
}

/// The nearest real, which is infinite or zero only if the number is.
fn narrowed(value: f64) -> Option<f32> {
    let narrow = value as f32;
    let is_lost = (narrow.is_infinite() && value.is_finite()) || (narrow == 0.0 && value != 0.0);
    (!is_lost).then_some(narrow)
}

fn numeric(target: DataType) -> Option<Kernel> {
    fn whole<To: ArrowPrimitiveType<Native: TryFrom<i128>>>(call: &Call<'_>) -> Option<ArrayRef> {
        let scale = call.scale(0)?;
        let whole = |unscaled| To::Native::try_from(Decimal::new(unscaled, scale).to_integer()).ok();
        shared::<To>(call.mapped::<Decimal128Type, _>(whole))
    }
    Some(match target {
        DataType::SmallInt => whole::<Int16Type>,
        DataType::Integer => whole::<Int32Type>,
        DataType::BigInt => whole::<Int64Type>,
        DataType::Real => |call| {
            let scale = call.scale(0)?;
            shared::<Float32Type>(
                call.mapped::<Decimal128Type, _>(|unscaled| real(Decimal::new(unscaled, scale))),
            )
        },
        DataType::Numeric { .. } => |call| {
            let (scale, fitting) = (call.scale(0)?, call.fitting()?);
            call.numerics(
                call.mapped::<Decimal128Type, _>(|unscaled| fitting(Decimal::new(unscaled, scale)))?,
            )
        },
        DataType::Number => long_number::made(),
        target if target.is_text() => written,
        _ => return None,
    })
}

/// The nearest real. A double that lies between two reals, but not in the middle, has the same nearest one as the number
/// that it is nearest to itself; the rest goes by the digits.
fn real(number: Decimal) -> Option<f32> {
    /// Bits of a double that a real does not have; the first of them alone is the middle.
    const REST: u64 = (1 << 29) - 1;
    const MIDDLE: u64 = 1 << 28;
    let double = number.to_f64();
    let real = double as f32;
    if double.to_bits() & REST != MIDDLE && (real.is_normal() || double == 0.0) {
        return Some(real);
    }
    match cast(Value::Numeric(number), DataType::Real) {
        Ok(Value::Real(real)) => Some(real),
        _ => None,
    }
}

fn zero_or_one(call: &Call<'_>) -> Option<ArrayRef> {
    let [ColumnarValue::Array(array)] = call.arguments else { return None };
    let truths = array.as_boolean_opt()?;
    Some(Arc::new(truths.iter().map(|truth| truth.map(i32::from)).collect::<Int32Array>()))
}

fn truth(call: &Call<'_>) -> Option<ArrayRef> {
    let [ColumnarValue::Array(array)] = call.arguments else { return None };
    Some(Arc::new(BooleanArray::from_unary(array.as_primitive_opt::<Int32Type>()?, |number| number != 0)))
}

fn day(target: DataType) -> Option<Kernel> {
    /// The first instants of days.
    fn midnights(call: &Call<'_>) -> Option<TimestampMicrosecondArray> {
        call.mapped::<Date32Type, _>(|days| match days {
            DATE_INFINITY => Some(INFINITY),
            DATE_MINUS_INFINITY => Some(MINUS_INFINITY),
            days => i64::from(days).checked_mul(MICROSECONDS_PER_DAY),
        })
    }
    Some(match target {
        DataType::Timestamp(_) => |call| shared(midnights(call)),
        DataType::TimestampTz(_) => |call| shared(midnights(call).map(|moments| moments.with_timezone(UTC))),
        target if target.is_text() => written,
        _ => return None,
    })
}

fn moment(target: DataType) -> Option<Kernel> {
    fn same(call: &Call<'_>) -> Option<TimestampMicrosecondArray> {
        let [ColumnarValue::Array(array)] = call.arguments else { return None };
        array.as_primitive_opt::<TimestampMicrosecondType>().cloned()
    }
    Some(match target {
        DataType::Date => |call| {
            let day = |moment: i64| match moment {
                INFINITY => Some(DATE_INFINITY),
                MINUS_INFINITY => Some(DATE_MINUS_INFINITY),
                moment => Some(moment.div_euclid(MICROSECONDS_PER_DAY) as i32),
            };
            shared::<Date32Type>(call.mapped::<TimestampMicrosecondType, _>(day))
        },
        DataType::Timestamp(_) => {
            |call| shared(same(call).map(|moments| moments.with_timezone_opt(None::<&str>)))
        }
        DataType::TimestampTz(_) => |call| shared(same(call).map(|moments| moments.with_timezone(UTC))),
        target if target.is_text() => written,
        _ => return None,
    })
}

/// Moments rounded to so many digits.
fn rounded_moment(target: DataType) -> Option<Kernel> {
    fn moments(call: &Call<'_>) -> Option<TimestampMicrosecondArray> {
        let (DataType::Timestamp(precision) | DataType::TimestampTz(precision)) = call.result else {
            return None;
        };
        call.mapped::<TimestampMicrosecondType, _>(|moment| Some(precision.round_moment(moment)))
    }
    Some(match target {
        DataType::Timestamp(_) => |call| shared(moments(call)),
        DataType::TimestampTz(_) => |call| shared(moments(call).map(|moments| moments.with_timezone(UTC))),
        _ => return None,
    })
}

/// Values as texts, but texts themselves and booleans.
fn written(call: &Call<'_>) -> Option<ArrayRef> {
    let [ColumnarValue::Array(array)] = call.arguments else { return None };
    let cells = Cells::new(array).ok()?;
    let mut written = StringViewBuilder::with_capacity(call.rows);
    let mut text = String::new();
    for row in 0..call.rows {
        if array.is_null(row) {
            written.append_null();
            continue;
        }
        text.clear();
        format_text(cells.value(row), DataType::Text, &mut text);
        written.append_value(cut(&text, call.result));
    }
    Some(Arc::new(written.finish()))
}

fn text(target: DataType) -> Option<Kernel> {
    Some(match target {
        DataType::SmallInt => |call| {
            read::<Int16Type>(call, |value| match value {
                Value::SmallInt(value) => Some(value),
                _ => None,
            })
        },
        DataType::Integer => |call| {
            read::<Int32Type>(call, |value| match value {
                Value::Integer(value) => Some(value),
                _ => None,
            })
        },
        DataType::BigInt => |call| {
            read::<Int64Type>(call, |value| match value {
                Value::BigInt(value) => Some(value),
                _ => None,
            })
        },
        DataType::Real => |call| {
            read::<Float32Type>(call, |value| match value {
                Value::Real(value) => Some(value),
                _ => None,
            })
        },
        DataType::DoublePrecision => |call| {
            read::<Float64Type>(call, |value| match value {
                Value::Double(value) => Some(value),
                _ => None,
            })
        },
        DataType::Date => |call| {
            read::<Date32Type>(call, |value| match value {
                Value::Date(value) => Some(value),
                _ => None,
            })
        },
        DataType::Numeric { .. } => |call| {
            let number = |value| match value {
                Value::Numeric(value) => Some(value.unscaled),
                _ => None,
            };
            call.numerics(numbers::<Decimal128Type>(call, number)?)
        },
        DataType::Text | DataType::Varchar(_) | DataType::Char(_) => shortened,
        _ => return None,
    })
}

fn read<T: ArrowPrimitiveType>(
    call: &Call<'_>,
    native: impl Fn(Value) -> Option<T::Native>,
) -> Option<ArrayRef> {
    shared(numbers::<T>(call, native))
}

/// What the texts are literals of.
fn numbers<T: ArrowPrimitiveType>(
    call: &Call<'_>,
    native: impl Fn(Value) -> Option<T::Native>,
) -> Option<PrimitiveArray<T>> {
    let texts = Texts::of(call.arguments.first()?)?;
    let mut numbers = PrimitiveBuilder::<T>::with_capacity(call.rows);
    for row in 0..call.rows {
        match texts.at(row) {
            Some(text) => numbers.append_value(native(parse_text(call.result, text).ok()?)?),
            None => numbers.append_null(),
        }
    }
    Some(numbers.finish())
}

/// Texts cut to a type's length; most need not be.
fn shortened(call: &Call<'_>) -> Option<ArrayRef> {
    let whole = Texts::of(call.arguments.first()?)?;
    let is_whole = |row: usize| whole.at(row).is_none_or(|text| cut(text, call.result).len() == text.len());
    if (0..call.rows).all(is_whole) {
        return Some(whole.into_array());
    }
    texts(call.rows, |row| Some(whole.at(row).map(|text| cut(text, call.result))))
}
