//! Bound expressions as DataFusion's: Arrow's kernels where they do what PostgreSQL does, calls of ours elsewhere.

use super::super::checked;
use super::super::computed;
use super::super::operation::{Operation, is_plain_pattern};
use super::super::value::{field_type, scalar, sql_type};
use super::guard::{self, Order};
use super::keyed;
use crate::expression::operator::temporal_types;
use crate::expression::{Arithmetic, Comparison, Expression, Function, Like as BoundLike};
use crate::forms::balanced;
use crate::olap::arrow::{computed_type, wide_type};
use crate::olap::error::external;
use crate::olap::number_bound;
use ankerdb_engine::{DataType, Error, Interval, Value};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::functions::unicode::expr_fn::{substr, substring};
use datafusion::logical_expr::expr::{BinaryExpr, Case, InList, Like, Placeholder};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, cast, lit};
use std::sync::Arc;

/// Writes expressions over a schema.
pub(super) struct Emitter<'a> {
    /// What the columns of bound expressions stand for.
    pub(super) leaves: &'a [Expr],
    pub(super) schema: &'a DFSchemaRef,
    /// The types of parameters, as far as they are known.
    pub(super) parameters: &'a [Option<DataType>],
}

impl Emitter<'_> {
    pub(super) fn emit(&self, expression: Expression) -> Result<Expr> {
        Ok(match expression {
            Expression::Column(leaf) => self.leaves[leaf].clone(),
            Expression::Parameter(position) => self.parameter(position),
            Expression::Literal(value) => literal(&value)?,
            Expression::Cast(operand, target) => self.cast(self.emit(*operand)?, target)?,
            Expression::Arithmetic(operator, pair) => {
                self.arithmetic(operator, self.emit(pair.0)?, self.emit(pair.1)?)?
            }
            Expression::Negate(operand) => self.negate(self.emit(*operand)?)?,
            Expression::Compare(comparison, pair) => {
                let (left, right) = (self.emit(pair.0)?, self.emit(pair.1)?);
                self.compared(comparison, left, right)?
            }
            Expression::And(operands) => self.junction(operands, Operator::And)?,
            Expression::Or(operands) => self.junction(operands, Operator::Or)?,
            Expression::Not(operand) => Expr::Not(Box::new(self.emit(*operand)?)),
            Expression::IsNull(operand, true) => self.emit(*operand)?.is_null(),
            Expression::IsNull(operand, false) => self.emit(*operand)?.is_not_null(),
            Expression::IsBoolean(operand, value, negated) => {
                // Written as the operator that DataFusion runs it by: it knows IS TRUE as never NULL when it plans, but not
                // when it runs, and takes the columns for different ones.
                let operator = if negated { Operator::IsDistinctFrom } else { Operator::IsNotDistinctFrom };
                binary(self.emit(*operand)?, operator, lit(value))
            }
            Expression::Distinct(pair, negated) => {
                let operator = if negated { Operator::IsNotDistinctFrom } else { Operator::IsDistinctFrom };
                let (left, right) = (self.emit(pair.0)?, self.emit(pair.1)?);
                let (left, right) = keyed::numbers_alike((left, self.schema), (right, self.schema))?;
                binary(self.ordered(left)?, operator, self.ordered(right)?)
            }
            Expression::InList(operand, items, negated) => {
                let items = items.into_iter().map(|item| self.emit(item)).collect::<Result<Vec<_>>>()?;
                self.in_list(self.emit(*operand)?, items, negated)?
            }
            Expression::Like(like) => self.like(*like)?,
            Expression::Case(branches, otherwise) => self.case(branches, *otherwise)?,
            Expression::Coalesce(items) => self.coalesce(items)?,
            Expression::Concatenate(pair) => {
                binary(self.emit(pair.0)?, Operator::StringConcat, self.emit(pair.1)?)
            }
            Expression::Call(function, arguments) => self.call(function, arguments)?,
            Expression::InSubquery(..) | Expression::Quantified(..) => {
                return Err(external(Error::internal(
                    "an expression of the OLTP path in an analytical query",
                )));
            }
        })
    }

    fn is_number(&self, expression: &Expr) -> Result<bool> {
        Ok(self.arrow_type(expression)? == ArrowType::LargeBinary)
    }

    /// A comparison. Numbers of declared digits stay as they are beside a constant of any length, since that has the same place
    /// between them as a bound of their own digits; beside anything else that is one, they become numerics of any length.
    fn compared(&self, comparison: Comparison, left: Expr, right: Expr) -> Result<Expr> {
        let is_constant = |side: &Expr| matches!(side, Expr::Literal(..) | Expr::Placeholder(_));
        match (self.is_number(&left)?, self.is_number(&right)?) {
            (false, true) if is_constant(&right) && self.has_own_digits(&left)? => {
                number_bound::compared(comparison, left, right, self.schema)
            }
            (true, false) if is_constant(&left) && self.has_own_digits(&right)? => {
                number_bound::compared(comparison.flipped(), right, left, self.schema)
            }
            _ => {
                let (left, right) = keyed::numbers_alike((left, self.schema), (right, self.schema))?;
                Ok(binary(self.ordered(left)?, operator(comparison), self.ordered(right)?))
            }
        }
    }

    fn has_own_digits(&self, expression: &Expr) -> Result<bool> {
        Ok(matches!(
            self.arrow_type(expression)?,
            ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64 | ArrowType::Decimal128(..)
        ))
    }

    fn in_list(&self, operand: Expr, items: Vec<Expr>, negated: bool) -> Result<Expr> {
        let is_number = self.is_number(&operand)?;
        let mut is_mixed = false;
        for item in &items {
            is_mixed |= self.is_number(item)? != is_number;
        }
        if !is_mixed {
            let items = items.into_iter().map(|item| self.ordered(item)).collect::<Result<Vec<_>>>()?;
            return Ok(in_list(self.ordered(operand)?, items, negated));
        }
        let equal = items.into_iter().map(|item| self.compared(Comparison::Equal, operand.clone(), item));
        let any = any_of(equal.collect::<Result<Vec<_>>>()?);
        Ok(if negated { Expr::Not(Box::new(any)) } else { any })
    }

    fn ordered(&self, expression: Expr) -> Result<Expr> {
        keyed::ordered(expression, self.schema)
    }

    fn arrow_type(&self, expression: &Expr) -> Result<ArrowType> {
        expression.get_type(self.schema.as_ref())
    }

    /// The SQL type of an emitted expression; text if it has none of its own.
    fn sql_type(&self, expression: &Expr) -> Result<DataType> {
        Ok(field_type(&expression.to_field(self.schema.as_ref())?.1).unwrap_or(DataType::Text))
    }

    fn parameter(&self, position: usize) -> Expr {
        let id = format!("${}", position + 1);
        let known = self.parameters.get(position).copied().flatten();
        let field = known.map(|known| Arc::new(Field::new(id.clone(), computed_type(known), true)));
        Expr::Placeholder(Placeholder { id, field })
    }

    /// A condition of WHERE or of a join.
    pub(super) fn emit_condition(&self, condition: Expression) -> Result<Expr> {
        match condition {
            Expression::And(operands) => self.joined(operands, Operator::And, Order::Any),
            condition => self.emit(condition),
        }
    }

    fn junction(&self, operands: Vec<Expression>, operator: Operator) -> Result<Expr> {
        self.joined(operands, operator, Order::Written)
    }

    fn joined(&self, operands: Vec<Expression>, operator: Operator, order: Order) -> Result<Expr> {
        let operands = operands.into_iter().map(|operand| self.emit(operand)).collect::<Result<Vec<_>>>()?;
        let operands = guard::guarded(operands, operator, order, self.schema)?;
        let whole = balanced(operands, |left, right| binary(left, operator, right));
        Ok(whole.unwrap_or_else(|| lit(operator == Operator::And)))
    }

    /// Conversions that Arrow makes as PostgreSQL does are its; the others are computed.
    fn cast(&self, operand: Expr, target: DataType) -> Result<Expr> {
        let (from, to) = (self.arrow_type(&operand)?, wide_type(target));
        if from == ArrowType::Null {
            return Ok(cast(operand, to));
        }
        let is_plain = match (&from, &to) {
            (from, to) if from == to => {
                !target.is_text() && !target.is_document() && target == target.of_any_precision()
            }
            (ArrowType::Int16, ArrowType::Int32 | ArrowType::Int64)
            | (ArrowType::Int32, ArrowType::Int64) => true,
            (ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64, ArrowType::Float64) => true,
            (ArrowType::Float32, ArrowType::Float64) | (ArrowType::Decimal128(..), ArrowType::Float64) => {
                true
            }
            (ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64, ArrowType::Decimal128(38, 0..=18)) => {
                true
            }
            (ArrowType::Decimal128(from, scale), ArrowType::Decimal128(to, wider)) => {
                wider >= scale && i16::from(*to) - i16::from(*wider) >= i16::from(*from) - i16::from(*scale)
            }
            _ => false,
        };
        Ok(match is_plain {
            true if from == to => operand,
            true => cast(operand, to),
            false => computed::call(Operation::Cast(target), vec![operand], target),
        })
    }

    fn arithmetic(&self, operator: Arithmetic, left: Expr, right: Expr) -> Result<Expr> {
        let types = (self.arrow_type(&left)?, self.arrow_type(&right)?);
        if checked::is_checked(operator, &types.0, &types.1) {
            return Ok(checked::call(operator, left, right));
        }
        let result = match types {
            (ArrowType::LargeBinary, _) | (_, ArrowType::LargeBinary) => DataType::Number,
            (ArrowType::Decimal128(..), ArrowType::Decimal128(..))
                if matches!(operator, Arithmetic::Add | Arithmetic::Subtract) =>
            {
                return Ok(binary(left, native(operator), right));
            }
            (left_type @ ArrowType::Decimal128(..), right_type @ ArrowType::Decimal128(..))
                if operator == Arithmetic::Multiply =>
            {
                let (left, right) = (with_room(left, &left_type), with_room(right, &right_type));
                return Ok(binary(left, Operator::Multiply, right));
            }
            (ArrowType::Decimal128(precision, scale), ArrowType::Decimal128(_, other)) => {
                let scale = match operator {
                    Arithmetic::Divide => quotient_scale(precision, scale, other),
                    _ => scale.max(other),
                };
                DataType::Numeric { precision: 38, scale: scale.unsigned_abs() }
            }
            // Remainders; the other operators of integers are checked ones.
            (ArrowType::Int16, ArrowType::Int16) => DataType::SmallInt,
            (ArrowType::Int64, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64)
            | (ArrowType::Int16 | ArrowType::Int32, ArrowType::Int64) => DataType::BigInt,
            (ArrowType::Int16 | ArrowType::Int32, ArrowType::Int16 | ArrowType::Int32) => DataType::Integer,
            (ArrowType::Date32, ArrowType::Date32) => DataType::Integer,
            (ArrowType::Date32, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64)
            | (ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64, ArrowType::Date32) => DataType::Date,
            (left_type, right_type) => {
                match temporal_types(operator, sql_type(&left_type), sql_type(&right_type)) {
                    Some((_, result)) => result,
                    // One of them is NULL or a parameter without a type.
                    None => return Ok(binary(left, native(operator), right)),
                }
            }
        };
        Ok(computed::call(Operation::Arithmetic(operator), vec![left, right], result))
    }

    /// `0 - operand` for integers, whose smallest has no opposite.
    fn negate(&self, operand: Expr) -> Result<Expr> {
        let zero = match self.arrow_type(&operand)? {
            ArrowType::Int16 => lit(0i16),
            ArrowType::Int32 => lit(0i32),
            ArrowType::Int64 => lit(0i64),
            ArrowType::LargeBinary => {
                let operation = Operation::Arithmetic(Arithmetic::Subtract);
                return Ok(computed::call(operation, vec![lit(0i32), operand], DataType::Number));
            }
            ArrowType::Interval(_) => {
                let zero = literal(&Value::Interval(Interval::default()))?;
                let operation = Operation::Arithmetic(Arithmetic::Subtract);
                return Ok(computed::call(operation, vec![zero, operand], DataType::INTERVAL));
            }
            _ => return Ok(Expr::Negative(Box::new(operand))),
        };
        Ok(checked::call(Arithmetic::Subtract, zero, operand))
    }

    fn like(&self, like: BoundLike) -> Result<Expr> {
        let BoundLike { text, pattern, escape, syntax, negated } = like;
        let is_plain =
            matches!(&pattern, Expression::Literal(Value::Text(pattern)) if is_plain_pattern(pattern));
        let operation = Operation::Like { escape, syntax, negated };
        let (text, pattern) = (self.emit(text)?, self.emit(pattern)?);
        Ok(match operation.native_like().filter(|_| is_plain) {
            Some((negated, ignore_case)) => {
                Expr::Like(Like::new(negated, Box::new(text), Box::new(pattern), None, ignore_case))
            }
            None => computed::call(operation, vec![text, pattern], DataType::Boolean),
        })
    }

    fn case(&self, branches: Vec<(Expression, Expression)>, otherwise: Expression) -> Result<Expr> {
        let mut emitted = Vec::with_capacity(branches.len());
        for (condition, result) in branches {
            emitted.push((Box::new(self.emit(condition)?), Box::new(self.emit(result)?)));
        }
        let otherwise = match otherwise {
            Expression::Literal(Value::Null) => None,
            other => Some(Box::new(self.emit(other)?)),
        };
        guard::case(Case::new(None, emitted, otherwise), self.schema)
    }

    fn coalesce(&self, items: Vec<Expression>) -> Result<Expr> {
        let items = items.into_iter().map(|item| self.emit(item)).collect::<Result<Vec<_>>>()?;
        Ok(datafusion::functions::core::expr_fn::coalesce(items))
    }

    fn call(&self, function: Function, arguments: Vec<Expression>) -> Result<Expr> {
        if let (Function::Substring, [text, Expression::Literal(Value::Integer(start @ 1..)), rest @ ..]) =
            (function, arguments.as_slice())
        {
            let start = lit(i64::from(*start));
            match rest {
                [] => return Ok(substr(self.emit(text.clone())?, start)),
                [Expression::Literal(Value::Integer(length @ 0..))] => {
                    return Ok(substring(self.emit(text.clone())?, start, lit(i64::from(*length))));
                }
                _ => {}
            }
        }
        let digits = match arguments.as_slice() {
            [_, Expression::Literal(Value::Integer(digits @ ..=38))] => Some((*digits).max(0) as u8),
            _ => None,
        };
        let arguments = arguments.into_iter().map(|part| self.emit(part)).collect::<Result<Vec<_>>>()?;
        let operand = match arguments.first() {
            Some(first) => self.sql_type(first)?,
            None => DataType::Text,
        };
        let result = match (function, operand) {
            (Function::Library(_, result) | Function::Array(_, result), _) => result,
            (Function::Domain(test), _) => test.0.base,
            (Function::Abs, _) => operand,
            (Function::Math(_), _) => DataType::DoublePrecision,
            (Function::Temporal(_, result), _) => result,
            (Function::Greatest | Function::Least, _) => self.widest(&arguments)?,
            (
                Function::Round | Function::Truncate | Function::Ceil | Function::Floor | Function::Sign,
                DataType::Number,
            ) => DataType::Number,
            (Function::Round | Function::Truncate, DataType::Numeric { scale, .. })
                if arguments.len() > 1 =>
            {
                DataType::Numeric { precision: 38, scale: digits.unwrap_or(scale) }
            }
            (
                Function::Round | Function::Truncate | Function::Ceil | Function::Floor | Function::Sign,
                DataType::Numeric { .. },
            ) => DataType::Numeric { precision: 38, scale: 0 },
            (Function::Round | Function::Truncate | Function::Ceil | Function::Floor | Function::Sign, _) => {
                DataType::DoublePrecision
            }
            (Function::Length | Function::OctetLength | Function::Position, _) => DataType::Integer,
            (Function::NextValue | Function::CurrentValue | Function::LastValue | Function::SetValue, _) => {
                DataType::BigInt
            }
            _ => DataType::Text,
        };
        Ok(computed::call(Operation::Call(function), arguments, result))
    }

    /// The type of the alternatives; they differ at most in their scale, or are constants without a type. Beside one of any scale, such as a
    /// parameter, all keep their digits.
    fn widest(&self, arguments: &[Expr]) -> Result<DataType> {
        let mut widest = None;
        for argument in arguments {
            if self.arrow_type(argument)? == ArrowType::Null {
                continue;
            }
            let own = self.sql_type(argument)?;
            widest = Some(match (widest, own) {
                (Some(DataType::Numeric { scale, .. }), DataType::Numeric { scale: other, .. }) => {
                    DataType::Numeric { precision: 38, scale: scale.max(other) }
                }
                (Some(DataType::Numeric { .. }), DataType::Number) => DataType::Number,
                (None, DataType::Numeric { scale, .. }) => DataType::Numeric { precision: 38, scale },
                (None, text) if text.is_text() => DataType::Text,
                (None, own) => own,
                (Some(known), _) => known,
            });
        }
        Ok(widest.unwrap_or(DataType::Text))
    }
}

fn any_of(conditions: Vec<Expr>) -> Expr {
    balanced(conditions, |left, right| binary(left, Operator::Or, right)).unwrap_or_else(|| lit(false))
}

/// A list of constants and parameters, or else comparisons with each item: the optimizer intersects lists, where it takes what is no constant
/// for one, and NULL for a value ([`exact_lists`](crate::olap::exact_lists)).
fn in_list(operand: Expr, items: Vec<Expr>, negated: bool) -> Expr {
    let is_null = |item: &Expr| matches!(item, Expr::Literal(value, _) if value.is_null());
    if !items.iter().all(|item| matches!(item, Expr::Literal(..) | Expr::Placeholder(_))) {
        let any = any_of(items.into_iter().map(|item| binary(operand.clone(), Operator::Eq, item)).collect());
        return if negated { Expr::Not(Box::new(any)) } else { any };
    }
    let (nulls, values): (Vec<Expr>, Vec<Expr>) = items.into_iter().partition(is_null);
    let unknown = || lit(datafusion::scalar::ScalarValue::Boolean(None));
    match (nulls.is_empty(), values.is_empty()) {
        (false, true) => unknown(),
        (true, _) => Expr::InList(InList::new(Box::new(operand), values, negated)),
        (false, false) => {
            let list = Expr::InList(InList::new(Box::new(operand), values, negated));
            binary(list, if negated { Operator::And } else { Operator::Or }, unknown())
        }
    }
}

fn literal(value: &Value) -> Result<Expr> {
    Ok(match value {
        // Written like the planner writes them, so that they are still known to have no type of their own.
        Value::Text(text) => lit(text.to_string()),
        other => lit(scalar(other, None).map_err(external)?),
    })
}

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

fn operator(comparison: Comparison) -> Operator {
    match comparison {
        Comparison::Equal => Operator::Eq,
        Comparison::NotEqual => Operator::NotEq,
        Comparison::Less => Operator::Lt,
        Comparison::LessOrEqual => Operator::LtEq,
        Comparison::Greater => Operator::Gt,
        Comparison::GreaterOrEqual => Operator::GtEq,
    }
}

fn native(operator: Arithmetic) -> Operator {
    match operator {
        Arithmetic::Add => Operator::Plus,
        Arithmetic::Subtract => Operator::Minus,
        Arithmetic::Multiply => Operator::Multiply,
        Arithmetic::Divide => Operator::Divide,
        Arithmetic::Modulo => Operator::Modulo,
    }
}

/// Fractional digits of a quotient: PostgreSQL shows 16 significant ones and up to 20 of small numbers; the integer part
/// must have room, too.
fn quotient_scale(precision: u8, scale: i8, other: i8) -> i8 {
    let whole = i16::from(precision) - i16::from(scale) + i16::from(other);
    let room = (38 - whole).clamp(16, 20) as i8;
    room.max(scale).max(other)
}

/// Digits of a factor that leave room for those of the other.
const ROOMY: ArrowType = ArrowType::Decimal128(38, 10);

/// A computed numeric of unknown size (such as an average) as a factor: with its 16 fractional digits and as many
/// of the other's, 38 digits would leave hardly any for the integer part of the result.
fn with_room(operand: Expr, own: &ArrowType) -> Expr {
    match own {
        ArrowType::Decimal128(38, scale) if *scale > 10 => cast(operand, ROOMY),
        _ => operand,
    }
}
