//! Common scalar operations over whole columns.
//!
//! What an operation means is written elsewhere, once (`expression/evaluate.rs`, the crate of values), and computed value by
//! value from there ([`super::operation`]). A kernel computes the same without a value, a context and an enum for each row:
//! ten times as fast, because the types are known before the loop begins. [`find`] is the table: an operation and the types
//! of its arguments give a function over arrays.
//!
//! - **A kernel knows results, no errors.** It gives up on a batch in which a row fails, by giving nothing; then the batch is
//!   computed value by value, and that tells which row fails and how. So errors are equal by construction.
//! - It gives up on nothing else: what is computed value by value without an error, is computed by the kernel.
//! - Its parts are the functions that the other way calls, too (`Decimal`, `expression::text`, `Pattern`), wherever these
//!   are quick enough.
//! - NULL gives NULL, but for `concat`, `greatest` and `least`.
//!
//! `tests.rs` compares every kernel of the table with the other way.

mod cast;
mod long_number;
mod number;
mod temporal;
mod text;

#[cfg(test)]
mod tests;

use super::arrow::digits;
use super::operation::Operation;
use crate::expression::Function;
use crate::expression::library::NUMBER_KEY;
use ankerdb_engine::{DataType, Interrupt};
use ankerdb_value::Decimal;
use ankerdb_value::Zone;
use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, PrimitiveArray,
};
use datafusion::arrow::compute::kernels::arity::try_binary;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::arrow::error::ArrowError;
use datafusion::logical_expr::ColumnarValue;
use std::sync::Arc;

/// Computes a column, or gives up.
type Kernel = fn(&Call<'_>) -> Option<ArrayRef>;

/// What a kernel computes.
struct Call<'a> {
    operation: &'a Operation,
    /// Arrays of `rows` rows and scalars, at least one of them an array.
    arguments: &'a [ColumnarValue],
    rows: usize,
    /// The type of what is given.
    result: DataType,
    /// Ends it: a kernel then gives up.
    interrupt: &'a Interrupt,
}

/// The operation by its kernel; `None` if it has none for these types, only scalars are given, or a row fails.
pub(super) fn compute(
    operation: &Operation,
    arguments: &[ColumnarValue],
    rows: usize,
    result: DataType,
    interrupt: &Interrupt,
) -> Option<ArrayRef> {
    if !arguments.iter().any(|argument| matches!(argument, ColumnarValue::Array(_))) {
        return None;
    }
    let types: Vec<ArrowType> = arguments.iter().map(ColumnarValue::data_type).collect();
    if Zone::current() != Zone::Utc && looks_at_clocks(&types, result) {
        return None;
    }
    find(operation, &types, result)?(&Call { operation, arguments, rows, result, interrupt })
}

/// Whether the session's time zone may matter: kernels know universal time only.
fn looks_at_clocks(arguments: &[ArrowType], result: DataType) -> bool {
    let is_instant = |known: &ArrowType| matches!(known, ArrowType::Timestamp(_, Some(_)));
    matches!(result, DataType::TimestampTz(_)) || arguments.iter().any(is_instant)
}

/// The kernel for arguments of these types.
fn find(operation: &Operation, arguments: &[ArrowType], result: DataType) -> Option<Kernel> {
    match (operation, arguments) {
        (Operation::Cast(target), [from]) => cast::find(from, *target),
        (Operation::Arithmetic(operator), [left, right]) => number::operator(*operator, left, right),
        (Operation::Like { .. }, [text, pattern]) => text::like(text, pattern),
        (Operation::Call(Function::Library(function, _)), [ArrowType::LargeBinary])
            if function.name() == NUMBER_KEY =>
        {
            Some(long_number::keys)
        }
        (Operation::Call(function), arguments) => number::function(*function, arguments, result)
            .or_else(|| text::function(*function, arguments))
            .or_else(|| temporal::function(*function, arguments)),
        _ => None,
    }
}

impl Call<'_> {
    /// Each value of the only argument through `compute`; gives up with it.
    fn mapped<From, To>(
        &self,
        compute: impl Fn(From::Native) -> Option<To::Native>,
    ) -> Option<PrimitiveArray<To>>
    where
        From: ArrowPrimitiveType,
        To: ArrowPrimitiveType,
    {
        let [ColumnarValue::Array(array)] = self.arguments else { return None };
        array.as_primitive_opt::<From>()?.try_unary(|value| compute(value).ok_or(())).ok()
    }

    /// Each pair of values of the two arguments through `compute`; gives up with it.
    fn combined<Left, Right, To>(
        &self,
        compute: impl Fn(Left::Native, Right::Native) -> Option<To::Native>,
    ) -> Option<PrimitiveArray<To>>
    where
        Left: ArrowPrimitiveType,
        Right: ArrowPrimitiveType,
        To: ArrowPrimitiveType,
    {
        let [left, right] = self.arguments else { return None };
        match (Side::<Left>::of(left)?, Side::<Right>::of(right)?) {
            (Side::One(None), _) | (_, Side::One(None)) => Some(PrimitiveArray::new_null(self.rows)),
            (Side::Many(left), Side::One(Some(right))) => {
                left.try_unary(|left| compute(left, right).ok_or(())).ok()
            }
            (Side::One(Some(left)), Side::Many(right)) => {
                right.try_unary(|right| compute(left, right).ok_or(())).ok()
            }
            (Side::Many(left), Side::Many(right)) => {
                let compute = |left, right| compute(left, right).ok_or(ArrowError::DivideByZero);
                try_binary(left, right, compute).ok()
            }
            (Side::One(_), Side::One(_)) => None,
        }
    }

    /// The numbers as the result's type; gives up on none, because they fit it.
    fn numerics(&self, unscaled: Decimal128Array) -> Option<ArrayRef> {
        let DataType::Numeric { precision, scale } = self.result else { return None };
        Some(Arc::new(unscaled.with_precision_and_scale(digits(precision), scale as i8).ok()?))
    }

    /// What turns a number into one of the result's type: with its scale, if the digits have room.
    fn fitting(&self) -> Option<impl Fn(Decimal) -> Option<i128> + use<>> {
        let DataType::Numeric { precision, scale } = self.result else { return None };
        Some(move |number: Decimal| Some(number.fit(precision, scale).ok()?.unscaled))
    }

    /// Fractional digits of a numeric argument.
    fn scale(&self, argument: usize) -> Option<u8> {
        match self.arguments.get(argument)?.data_type() {
            ArrowType::Decimal128(_, scale) => u8::try_from(scale).ok(),
            _ => None,
        }
    }
}

/// An argument, for all rows.
enum Side<'a, T: ArrowPrimitiveType> {
    One(Option<T::Native>),
    Many(&'a PrimitiveArray<T>),
}

impl<'a, T: ArrowPrimitiveType> Side<'a, T> {
    fn of(argument: &'a ColumnarValue) -> Option<Side<'a, T>> {
        Some(match argument {
            ColumnarValue::Array(array) => Side::Many(array.as_primitive_opt()?),
            ColumnarValue::Scalar(value) => {
                let array = value.to_array().ok()?;
                let array = array.as_primitive_opt::<T>()?;
                Side::One(array.is_valid(0).then(|| array.value(0)))
            }
        })
    }

    fn at(&self, row: usize) -> Option<T::Native> {
        match self {
            Side::One(value) => *value,
            Side::Many(array) => array.is_valid(row).then(|| array.value(row)),
        }
    }
}

/// An array of a number's type behind a kernel's door.
fn shared<T: ArrowPrimitiveType>(array: Option<PrimitiveArray<T>>) -> Option<ArrayRef> {
    array.map(|array| Arc::new(array) as ArrayRef)
}
