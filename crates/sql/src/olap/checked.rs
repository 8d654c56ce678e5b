//! Arithmetic that fails where PostgreSQL's fails, instead of wrapping around or going on with infinity.
//!
//! - Integers: the result has the wider type of the operands, and what does not fit it is 22003. (Remainders have a kernel.)
//! - Doubles: a division by zero is 22012; a result that is infinite although its operands are not is 22003, and so is
//!   one that became zero although no operand was. Two reals give a real, anything else a double.

use crate::expression::Arithmetic;
use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Datum};
use datafusion::arrow::compute::kernels::numeric::{add, div, mul, sub};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use std::sync::{Arc, LazyLock};

/// Whether the operator has a checked form for operands of these types.
pub(super) fn is_checked(operator: Arithmetic, left: &DataType, right: &DataType) -> bool {
    let integer = |operand: &DataType| matches!(operand, DataType::Int16 | DataType::Int32 | DataType::Int64);
    let floating = |operand: &DataType| matches!(operand, DataType::Float32 | DataType::Float64);
    let both = |is: &dyn Fn(&DataType) -> bool| is(left) && is(right);
    operator != Arithmetic::Modulo && (both(&integer) || both(&floating))
}

/// Whether the call is a division.
pub(super) fn is_division(call: &ScalarFunction) -> bool {
    let checked = call.func.inner().downcast_ref::<Checked>();
    checked.is_some_and(|checked| checked.operation == Arithmetic::Divide)
}

/// The operator that the function stands for, if it is one of these.
pub(super) fn operation(function: &ScalarUDF) -> Option<Arithmetic> {
    function.inner().downcast_ref::<Checked>().map(|checked| checked.operation)
}

/// `left operator right`, checked.
pub(super) fn call(operator: Arithmetic, left: Expr, right: Expr) -> Expr {
    use Arithmetic::*;
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
        [Add, Subtract, Multiply, Divide].map(|operation| {
            let signature = Signature::user_defined(Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Checked { operation, signature }))
        })
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(FUNCTIONS[operator as usize].clone(), vec![left, right]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Arithmetic,
    signature: Signature,
}

/// The type in which two numbers are computed.
fn common_type(left: &DataType, right: &DataType) -> DataType {
    if left == right {
        return left.clone();
    }
    if left.is_integer() && right.is_integer() {
        let rank = |data_type: &DataType| match data_type {
            DataType::Int8 | DataType::Int16 => 0,
            DataType::Int32 => 1,
            _ => 2,
        };
        return [DataType::Int16, DataType::Int32, DataType::Int64][rank(left).max(rank(right))].clone();
    }
    DataType::Float64
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.operation.symbol()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return internal_err!("an operator has two operands");
        };
        Ok(format!("{} {} {}", left.schema_name(), self.operation.symbol(), right.schema_name()))
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = arguments else {
            return internal_err!("an operator has two operands");
        };
        let common = common_type(left, right);
        Ok(vec![common.clone(), common])
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [left, right] => Ok(common_type(left, right)),
            _ => internal_err!("an operator has two operands"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("an operator has two operands");
        };
        let operation = self.operation;
        apply(left, right, |left, right| {
            let result = match operation {
                Arithmetic::Add => add(left, right),
                Arithmetic::Subtract => sub(left, right),
                Arithmetic::Multiply => mul(left, right),
                _ => div(left, right),
            }?;
            Ok(match result.data_type() {
                DataType::Float32 => check::<Float32Type>(operation, left, right, result)?,
                DataType::Float64 => check::<Float64Type>(operation, left, right, result)?,
                _ => result,
            })
        })
    }
}

/// Looks for results that PostgreSQL refuses. Ordinary ones cost two comparisons each. NaN loses its sign, by which Arrow
/// would sort it.
fn check<T: ArrowPrimitiveType<Native: Into<f64> + Float>>(
    operation: Arithmetic,
    left: &dyn Datum,
    right: &dyn Datum,
    result: ArrayRef,
) -> Result<ArrayRef, ArrowError> {
    let operand = |datum: &dyn Datum, row: usize| -> f64 {
        let (array, is_scalar) = datum.get();
        array.as_primitive::<T>().value(if is_scalar { 0 } else { row }).into()
    };
    let results = result.as_primitive::<T>();
    let mut has_nan = false;
    for (row, &value) in results.values().iter().enumerate() {
        let value: f64 = value.into();
        if (value.is_finite() && value != 0.0) || results.is_null(row) {
            continue;
        }
        has_nan |= value.is_nan();
        let (left, right) = (operand(left, row), operand(right, row));
        if operation == Arithmetic::Divide && right == 0.0 && !left.is_nan() {
            return Err(ArrowError::DivideByZero);
        }
        if value.is_infinite() && left.is_finite() && right.is_finite() {
            return Err(ArrowError::ArithmeticOverflow("value out of range: overflow".into()));
        }
        let vanished = match operation {
            Arithmetic::Multiply => left != 0.0 && right != 0.0,
            Arithmetic::Divide => left != 0.0 && right.is_finite(),
            _ => false,
        };
        if value == 0.0 && vanished {
            return Err(ArrowError::ArithmeticOverflow("value out of range: underflow".into()));
        }
    }
    if has_nan {
        return Ok(Arc::new(results.unary::<_, T>(Float::without_sign_of_nan)));
    }
    Ok(result)
}

/// Numbers of floating point.
trait Float: Copy {
    fn without_sign_of_nan(self) -> Self;
}

impl Float for f32 {
    fn without_sign_of_nan(self) -> f32 {
        if self.is_nan() { f32::NAN } else { self }
    }
}

impl Float for f64 {
    fn without_sign_of_nan(self) -> f64 {
        if self.is_nan() { f64::NAN } else { self }
    }
}
