//! Scalar operations as the OLTP path computes them, value by value, over Arrow's columns.
//!
//! PostgreSQL's meaning of a cast or a function is written once, in `expression/evaluate.rs` and the crate of values; here a
//! batch of arguments becomes a batch of results by asking there for each row. That costs about a hundred nanoseconds for a
//! row, so what analytical queries do for every row, and what Arrow does as PostgreSQL does, is left to Arrow's kernels
//! (`typing/emit.rs` chooses).

use super::arrow::{UTC, wide_type};
use super::error::external;
use super::value::{scalar, with_type};
use crate::columns::Cells;
use crate::expression::{Arithmetic, Context, Expression, Function, Like, evaluate};
use ankerdb_engine::{DataType, Error, Interrupt, SqlState, Value};
use datafusion::arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray, new_empty_array};
use datafusion::arrow::datatypes::{
    DataType as ArrowType, Date32Type, Field, FieldRef, TimestampMicrosecondType,
};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// What is computed of the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Cast(DataType),
    Arithmetic(Arithmetic),
    Like { escape: Option<char>, ignore_case: bool, negated: bool },
    Call(Function),
}

impl Operation {
    /// Over so many arguments.
    fn expression(&self, arguments: usize) -> Expression {
        let column = Expression::Column;
        match *self {
            Operation::Cast(target) => Expression::Cast(Box::new(column(0)), target),
            Operation::Arithmetic(operator) => {
                Expression::Arithmetic(operator, Box::new((column(0), column(1))))
            }
            Operation::Like { escape, ignore_case, negated } => {
                let (text, pattern) = (column(0), column(1));
                Expression::Like(Box::new(Like { text, pattern, escape, ignore_case, negated }))
            }
            Operation::Call(function) => Expression::Call(function, (0..arguments).map(column).collect()),
        }
    }

    fn name(&self) -> String {
        match self {
            Operation::Cast(target) => format!("to {target}"),
            Operation::Arithmetic(operator) => operator.symbol().to_owned(),
            Operation::Like { .. } => "like".to_owned(),
            Operation::Call(function) => format!("{function:?}").to_lowercase(),
        }
    }
}

/// The operation's call. `result`: the type of what it gives.
pub(super) fn call(operation: Operation, arguments: Vec<Expr>, result: DataType) -> Expr {
    Expr::ScalarFunction(Computed::new(operation, result, true).call(arguments))
}

/// The same call, whose field does not tell which text type it has; `None` if it does not anyway.
pub(super) fn without_text_type(call: &ScalarFunction) -> Option<ScalarFunction> {
    let computed = call.func.inner().downcast_ref::<Computed>()?;
    let is_told = computed.is_told && matches!(computed.result, DataType::Varchar(_) | DataType::Char(_));
    let plain = || Computed::new(computed.operation.clone(), computed.result, false);
    is_told.then(|| plain().call(call.args.clone()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Computed {
    operation: Operation,
    result: DataType,
    /// Whether the field of the result tells which text type it is.
    is_told: bool,
    name: String,
    signature: Signature,
}

impl Computed {
    fn new(operation: Operation, result: DataType, is_told: bool) -> Computed {
        let (name, signature) = (operation.name(), Signature::user_defined(Volatility::Immutable));
        Computed { operation, result, is_told, name, signature }
    }

    fn call(self, arguments: Vec<Expr>) -> ScalarFunction {
        ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(self)), arguments)
    }
}

impl ScalarUDFImpl for Computed {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[ArrowType]) -> Result<Vec<ArrowType>> {
        Ok(arguments.to_vec())
    }

    fn return_type(&self, _arguments: &[ArrowType]) -> Result<ArrowType> {
        Ok(wide_type(self.result))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(&self.name, wide_type(self.result), true);
        Ok(Arc::new(if self.is_told { with_type(field, self.result) } else { field }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(midnights) = midnights(&self.operation, &args.args) {
            return Ok(ColumnarValue::Array(midnights));
        }
        let expression = self.operation.expression(args.args.len());
        let arguments = args
            .args
            .iter()
            .map(Argument::new)
            .collect::<ankerdb_engine::Result<Vec<_>>>()
            .map_err(external)?;
        let interrupt = Interrupt::default();
        let result = |row: usize| {
            let column = |position: usize| arguments[position].value(row);
            let context =
                Context { column: &column, parameters: &[], subqueries: &[], now: 0, interrupt: &interrupt };
            let value = evaluate(&expression, &context).map_err(external)?;
            exact(value, self.result)
        };
        if arguments.iter().all(|argument| matches!(argument, Argument::Constant(_))) {
            return Ok(ColumnarValue::Scalar(result(0)?));
        }
        if args.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&wide_type(self.result))));
        }
        let results = (0..args.number_rows).map(result).collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(results)?))
    }
}

/// Dates as timestamps, a column at once: analytics compare them with the ends of intervals. `None` for anything else, and
/// where there are dates that no timestamp reaches.
fn midnights(operation: &Operation, arguments: &[ColumnarValue]) -> Option<ArrayRef> {
    /// More than a hundred centuries before and after 1970.
    const DAYS_MAX: u32 = 4_000_000;
    const DAY: i64 = 86_400_000_000;
    let (Operation::Cast(target), [ColumnarValue::Array(array)]) = (operation, arguments) else {
        return None;
    };
    let dates = array.as_primitive_opt::<Date32Type>()?;
    let moments: TimestampMicrosecondArray = match target {
        DataType::Timestamp => dates.unary(|days| i64::from(days) * DAY),
        DataType::TimestampTz => {
            dates.unary::<_, TimestampMicrosecondType>(|days| i64::from(days) * DAY).with_timezone(UTC)
        }
        _ => return None,
    };
    let near = |&days: &i32| days.unsigned_abs() <= DAYS_MAX;
    dates.values().iter().all(near).then(|| Arc::new(moments) as ArrayRef)
}

/// An argument, for all rows.
enum Argument {
    Constant(Value),
    Cells(Cells),
}

impl Argument {
    fn new(argument: &ColumnarValue) -> ankerdb_engine::Result<Argument> {
        Ok(match argument {
            ColumnarValue::Array(array) => Argument::Cells(Cells::new(array)?),
            ColumnarValue::Scalar(value) => {
                let array = value.to_array().map_err(|error| Error::internal(error.to_string()))?;
                Argument::Constant(Cells::new(&array)?.value(0).to_value())
            }
        })
    }

    fn value(&self, row: usize) -> Value {
        match self {
            Argument::Constant(value) => value.clone(),
            Argument::Cells(cells) => cells.value(row).to_value(),
        }
    }
}

/// The value in exactly the column's type: a numeric with its scale, or 22003 where the digits have no room.
fn exact(value: Value, data_type: DataType) -> Result<ScalarValue> {
    let (Value::Numeric(decimal), DataType::Numeric { precision, scale }) = (&value, data_type) else {
        return match scalar(&value, Some(data_type)) {
            Ok(found) if found.data_type() == wide_type(data_type) => Ok(found),
            Ok(found) => internal_err!("a result of type {} is not {data_type}", found.data_type()),
            Err(error) => Err(external(error)),
        };
    };
    let rounded = decimal.rescale(scale).map_err(external)?;
    if rounded.unscaled.unsigned_abs() >= 10u128.pow(u32::from(precision)) {
        let message = "value overflows numeric format";
        return Err(external(Error::new(SqlState::NumericValueOutOfRange, message)));
    }
    Ok(ScalarValue::Decimal128(Some(rounded.unscaled), precision, scale as i8))
}
