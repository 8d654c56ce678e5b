//! Scalar operations as the OLTP path computes them, over Arrow's columns, value by value.
//!
//! PostgreSQL's meaning of a cast or a function is written once, in `expression/evaluate.rs` and the crate of values; here a
//! batch of arguments becomes a batch of results by asking there for each row. That costs one to several hundred nanoseconds
//! for a row: common operations have kernels beside this (`kernel/mod.rs`), which must give the same.

use super::arrow::computed_type;
use super::error::{external, from_datafusion};
use super::system::list_texts;
use super::value::{list_type, scalar};
use crate::columns::Cells;
use crate::expression::library::Volatility;
use crate::expression::{
    Arithmetic, Context, Expression, Function, Like, PatternSyntax, Sequences, evaluate,
};
use ankerdb_engine::{DataType, Error, Interrupt, SqlState, Value};
use datafusion::arrow::array::{ArrayRef, new_empty_array};
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;

/// What is computed of the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Cast(DataType),
    Arithmetic(Arithmetic),
    Like { escape: Option<char>, syntax: PatternSyntax, negated: bool },
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
            Operation::Like { escape, syntax, negated } => {
                let (text, pattern) = (column(0), column(1));
                Expression::Like(Box::new(Like { text, pattern, escape, syntax, negated }))
            }
            Operation::Call(function) => Expression::Call(function, (0..arguments).map(column).collect()),
        }
    }

    /// LIKE by the usual escape character, as DataFusion has it: whether it is negated, and whether it ignores case.
    pub(super) fn native_like(&self) -> Option<(bool, bool)> {
        match *self {
            Operation::Like { escape: Some('\\'), syntax, negated } if syntax != PatternSyntax::Similar => {
                Some((negated, syntax == PatternSyntax::Ilike))
            }
            _ => None,
        }
    }

    /// Whether a single value may take long.
    pub(super) fn may_take_long(&self) -> bool {
        matches!(self, Operation::Like { .. } | Operation::Call(Function::Library(..)))
    }

    /// Whether equal arguments may give different results.
    pub(super) fn is_volatile(&self) -> bool {
        self.asks_session()
            || matches!(self, Operation::Call(Function::Library(function, _)) if function.volatility() == Volatility::Volatile)
    }

    /// Whether it asks for a number of a sequence, or sets one.
    pub(super) fn is_of_sequence(&self) -> bool {
        use Function::{CurrentValue, LastValue, NextValue, SetValue};
        matches!(self, Operation::Call(NextValue | CurrentValue | LastValue | SetValue))
    }

    /// Whether it asks or changes the session that runs the query.
    pub(super) fn asks_session(&self) -> bool {
        self.is_of_sequence() || matches!(self, Operation::Call(Function::Session(_)))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Operation::Cast(target) => format!("to {target}"),
            Operation::Arithmetic(operator) => operator.symbol().to_owned(),
            Operation::Like { .. } => "like".to_owned(),
            Operation::Call(Function::Library(function, _)) => function.name().to_owned(),
            Operation::Call(function) => format!("{function:?}").to_lowercase(),
        }
    }
}

/// Whether DataFusion's LIKE gives for the pattern what ours gives, which says so where nothing follows an escape character.
pub(super) fn is_plain_pattern(pattern: &str) -> bool {
    !pattern.ends_with('\\')
}

/// The operation over so many rows of arguments; a scalar, if these are. `result`: the type of what it gives. The interrupt ends
/// it, and it counts by the sequences.
pub(super) fn by_value(
    operation: &Operation,
    arguments: &[ColumnarValue],
    rows: usize,
    result: DataType,
    (interrupt, sequences): (&Interrupt, &dyn Sequences),
) -> Result<ColumnarValue> {
    let expression = operation.expression(arguments.len());
    let arguments =
        arguments.iter().map(Argument::new).collect::<ankerdb_engine::Result<Vec<_>>>().map_err(external)?;
    let value = |row: usize| {
        interrupt.check().map_err(external)?;
        let column = |position: usize| arguments[position].value(row);
        let context =
            Context { column: &column, parameters: &[], subqueries: &[], now: 0, interrupt, sequences };
        exact(evaluate(&expression, &context).map_err(external)?, result)
    };
    let is_constant = arguments.iter().all(|argument| matches!(argument, Argument::Constant(_)));
    if is_constant && !operation.is_volatile() {
        return Ok(ColumnarValue::Scalar(value(0)?));
    }
    if rows == 0 {
        return Ok(ColumnarValue::Array(new_empty_array(&computed_type(result))));
    }
    let values = (0..rows).map(value).collect::<Result<Vec<_>>>()?;
    Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
}

/// An argument, for all rows.
enum Argument {
    Constant(Value),
    Cells(Cells),
}

impl Argument {
    fn new(argument: &ColumnarValue) -> ankerdb_engine::Result<Argument> {
        Ok(match argument {
            ColumnarValue::Array(array) => Argument::Cells(Cells::new(&plain(array)?)?),
            ColumnarValue::Scalar(value) => {
                let array = value.to_array().map_err(from_datafusion)?;
                Argument::Constant(Cells::new(&plain(&array)?)?.value(0).to_value())
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

/// The values as functions of single values take them: arrays as their texts.
fn plain(array: &ArrayRef) -> ankerdb_engine::Result<ArrayRef> {
    match array.data_type() {
        ArrowType::List(items) => match list_type(items.data_type(), None) {
            Some(list) => list_texts(list, array).map_err(from_datafusion),
            None => Ok(array.clone()),
        },
        _ => Ok(array.clone()),
    }
}

/// The value in exactly the column's type: a numeric with its scale, or 22003 where the digits have no room.
pub(super) fn exact(value: Value, data_type: DataType) -> Result<ScalarValue> {
    if let (Value::Number(text), DataType::Numeric { .. }) = (&value, data_type) {
        let message = format!("numeric value \"{text}\" is not supported in such a query");
        return Err(external(Error::new(SqlState::FeatureNotSupported, message)));
    }
    let (Value::Numeric(decimal), DataType::Numeric { precision, scale }) = (&value, data_type) else {
        return match scalar(&value, Some(data_type)) {
            Ok(found) if found.data_type() == computed_type(data_type) => Ok(found),
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
