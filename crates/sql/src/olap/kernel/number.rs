//! Operators and functions of numbers and dates.

use super::{Call, Kernel, Side, shared};
use crate::expression::evaluate::{at_digit, decimal_call, double_call};
use crate::expression::{Arithmetic, Function};
use crate::olap::operation::Operation;
use ankerdb_engine::{DataType, Result, Value};
use ankerdb_value::{Decimal, add, is_infinite_date, subtract};
use datafusion::arrow::array::{ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, PrimitiveArray};
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType,
};

/// Operators that Arrow has otherwise than PostgreSQL. (`checked.rs` has the other operators of integers and doubles.)
pub(super) fn operator(operator: Arithmetic, left: &ArrowType, right: &ArrowType) -> Option<Kernel> {
    use Arithmetic::*;
    use ArrowType::{Date32, Decimal128, Int16, Int32, Int64};
    Some(match (operator, left, right) {
        (Modulo, Int16, Int16) => remainder::<Int16Type>,
        (Modulo, Int32, Int32) => remainder::<Int32Type>,
        (Modulo, Int64, Int64) => remainder::<Int64Type>,
        (Modulo, Decimal128(..), Decimal128(..)) => |call| numerics(call, Decimal::checked_rem),
        (Divide, Decimal128(..), Decimal128(..)) => |call| numerics(call, Decimal::checked_div),
        (Add, Date32, Int32) => |call| {
            let sum = |day, count| date(add(&Value::Date(day), &Value::Integer(count)));
            shared::<Date32Type>(call.combined::<Date32Type, Int32Type, _>(sum))
        },
        (Add, Int32, Date32) => |call| {
            let sum = |count, day| date(add(&Value::Date(day), &Value::Integer(count)));
            shared::<Date32Type>(call.combined::<Int32Type, Date32Type, _>(sum))
        },
        (Subtract, Date32, Int32) => |call| {
            let difference = |day, count| date(subtract(&Value::Date(day), &Value::Integer(count)));
            shared::<Date32Type>(call.combined::<Date32Type, Int32Type, _>(difference))
        },
        (Subtract, Date32, Date32) => |call| {
            // An infinity has no distance.
            let days = |left: i32, right: i32| {
                left.checked_sub(right).filter(|_| !is_infinite_date(left) && !is_infinite_date(right))
            };
            shared::<Int32Type>(call.combined::<Date32Type, Date32Type, _>(days))
        },
        _ => return None,
    })
}

fn date(value: Result<Value>) -> Option<i32> {
    match value {
        Ok(Value::Date(day)) => Some(day),
        _ => None,
    }
}

/// The remainder of the smallest integer by -1 is zero, although the quotient overflows.
fn remainder<T: ArrowPrimitiveType>(call: &Call<'_>) -> Option<ArrayRef> {
    let remainder = |left: T::Native, right: T::Native| (!right.is_zero()).then(|| left.mod_wrapping(right));
    shared::<T>(call.combined::<T, T, _>(remainder))
}

/// An operator of numerics, whose result gets the scale of its type.
fn numerics(call: &Call<'_>, compute: fn(Decimal, Decimal) -> Result<Decimal>) -> Option<ArrayRef> {
    let (left_scale, right_scale, fitting) = (call.scale(0)?, call.scale(1)?, call.fitting()?);
    let result = |left, right| {
        fitting(compute(Decimal::new(left, left_scale), Decimal::new(right, right_scale)).ok()?)
    };
    call.numerics(call.combined::<Decimal128Type, Decimal128Type, _>(result)?)
}

pub(super) fn function(function: Function, arguments: &[ArrowType], result: DataType) -> Option<Kernel> {
    match (function, arguments) {
        (Function::Abs, [argument]) => absolute(argument),
        (
            Function::Round | Function::Truncate | Function::Ceil | Function::Floor | Function::Sign,
            [argument],
        ) => whole(argument),
        (Function::Round | Function::Truncate, [ArrowType::Decimal128(..), ArrowType::Int32]) => {
            Some(to_digits)
        }
        (Function::Math(_), [ArrowType::Float64]) => Some(|call| {
            let Operation::Call(Function::Math(function)) = *call.operation else { return None };
            shared::<Float64Type>(call.mapped::<Float64Type, _>(|value| function.of(value).ok()))
        }),
        (Function::Math(_), [ArrowType::Float64, ArrowType::Float64]) => Some(|call| {
            let Operation::Call(Function::Math(function)) = *call.operation else { return None };
            let result = |left, right| function.of_two(left, right).ok();
            shared::<Float64Type>(call.combined::<Float64Type, Float64Type, _>(result))
        }),
        (Function::Greatest | Function::Least, [first, ..]) => extreme(first, arguments, result),
        _ => None,
    }
}

fn absolute(argument: &ArrowType) -> Option<Kernel> {
    Some(match argument {
        ArrowType::Int16 => |call| shared::<Int16Type>(call.mapped::<Int16Type, _>(i16::checked_abs)),
        ArrowType::Int32 => |call| shared::<Int32Type>(call.mapped::<Int32Type, _>(i32::checked_abs)),
        ArrowType::Int64 => |call| shared::<Int64Type>(call.mapped::<Int64Type, _>(i64::checked_abs)),
        ArrowType::Float32 => {
            |call| shared::<Float32Type>(call.mapped::<Float32Type, _>(|value| Some(value.abs())))
        }
        ArrowType::Float64 => {
            |call| shared::<Float64Type>(call.mapped::<Float64Type, _>(|value| Some(value.abs())))
        }
        ArrowType::Decimal128(..) => |call| {
            let (scale, fitting) = (call.scale(0)?, call.fitting()?);
            let absolute = |unscaled: i128| fitting(Decimal::new(unscaled.checked_abs()?, scale));
            call.numerics(call.mapped::<Decimal128Type, _>(absolute)?)
        },
        _ => return None,
    })
}

/// Functions that give a whole number.
fn whole(argument: &ArrowType) -> Option<Kernel> {
    fn function(call: &Call<'_>) -> Option<Function> {
        match call.operation {
            Operation::Call(function) => Some(*function),
            _ => None,
        }
    }
    Some(match argument {
        ArrowType::Float32 => |call| {
            let function = function(call)?;
            let whole = |value: f32| Some(double_call(function, f64::from(value)));
            shared::<Float64Type>(call.mapped::<Float32Type, _>(whole))
        },
        ArrowType::Float64 => |call| {
            let function = function(call)?;
            shared::<Float64Type>(call.mapped::<Float64Type, _>(|value| Some(double_call(function, value))))
        },
        ArrowType::Decimal128(..) => |call| {
            let (function, scale, fitting) = (function(call)?, call.scale(0)?, call.fitting()?);
            let whole = |unscaled| fitting(decimal_call(function, Decimal::new(unscaled, scale)).ok()?);
            call.numerics(call.mapped::<Decimal128Type, _>(whole)?)
        },
        _ => return None,
    })
}

/// Numerics rounded or cut to so many digits.
fn to_digits(call: &Call<'_>) -> Option<ArrayRef> {
    let (scale, fitting) = (call.scale(0)?, call.fitting()?);
    let Operation::Call(function) = *call.operation else { return None };
    let result =
        |unscaled, digits: i32| fitting(at_digit(function, Decimal::new(unscaled, scale), digits).ok()?);
    call.numerics(call.combined::<Decimal128Type, Int32Type, _>(result)?)
}

/// GREATEST and LEAST of arguments that all have the result's type: the first of those that are equal.
fn extreme(first: &ArrowType, arguments: &[ArrowType], result: DataType) -> Option<Kernel> {
    if crate::olap::arrow::wide_type(result) != *first || arguments.iter().any(|other| other != first) {
        return None;
    }
    Some(match first {
        ArrowType::Int16 => |call| shared(extremes::<Int16Type>(call)),
        ArrowType::Int32 => |call| shared(extremes::<Int32Type>(call)),
        ArrowType::Int64 => |call| shared(extremes::<Int64Type>(call)),
        ArrowType::Date32 => |call| shared(extremes::<Date32Type>(call)),
        ArrowType::Decimal128(..) => |call| call.numerics(extremes::<Decimal128Type>(call)?),
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => {
            |call| shared(extremes::<TimestampMicrosecondType>(call))
        }
        _ => return None,
    })
}

fn extremes<T: ArrowPrimitiveType<Native: Ord>>(call: &Call<'_>) -> Option<PrimitiveArray<T>> {
    let sides = call.arguments.iter().map(Side::<T>::of).collect::<Option<Vec<_>>>()?;
    let is_greatest = matches!(call.operation, Operation::Call(Function::Greatest));
    let best = |row: usize| {
        let values = sides.iter().filter_map(|side| side.at(row));
        if is_greatest { values.max() } else { values.min() }
    };
    Some((0..call.rows).map(best).collect())
}
