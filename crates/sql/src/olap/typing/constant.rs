//! Constants that tell their types, in the typing pass.

use super::read::{Operand, Reader, is_list_type};
use super::refused;
use crate::expression::types::numeric;
use crate::expression::{Expression, Typed, fold, function};
use crate::olap::arrow::wide_type;
use crate::olap::error::external;
use crate::olap::planner::PARAMETER_SCALE;
use crate::olap::value::with_type;
use ankerdb_engine::{DataType, Value};
use datafusion::arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::common::metadata::FieldMetadata;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Operator};

/// A constant that tells its type.
pub(super) fn with_told_type(constant: ScalarValue, data_type: DataType) -> Expr {
    let metadata = with_type(Field::new("", wide_type(data_type), true), data_type).metadata().clone();
    Expr::Literal(constant, (!metadata.is_empty()).then(|| FieldMetadata::from(metadata)))
}

impl Reader<'_, '_> {
    /// What is computed of a NULL, which tells its type where it is NULL itself.
    pub(super) fn with_type_told(&mut self, typed: Typed) -> Result<Operand> {
        let Some(data_type) = typed.data_type else { return Ok(Operand::Typed(typed)) };
        match fold(typed.expression.clone()).map_err(external)? {
            Expression::Literal(Value::Null) if !is_list_type(Some(data_type)) => {
                Ok(Operand::Typed(Typed::new(self.null(data_type)?, data_type)))
            }
            _ => Ok(Operand::Typed(typed)),
        }
    }

    /// A NULL that tells its type, which is no array's.
    pub(super) fn null(&mut self, data_type: DataType) -> Result<Expression> {
        let null = with_told_type(ScalarValue::try_from(wide_type(data_type))?, data_type);
        Ok(self.column(null))
    }

    /// The NULL that a function of ours gives for constants that are NULL, whatever its other operands are: these are not computed.
    pub(super) fn null_of_call(&mut self, name: &str, operands: &[Typed]) -> Option<Operand> {
        let known = |typed: &Typed| match self.as_null(Operand::Typed(typed.clone())) {
            Operand::Typed(known) => known,
            Operand::Foreign(_) => typed.clone(),
        };
        let known: Vec<Typed> = operands.iter().map(known).collect();
        if !known.iter().any(|typed| matches!(typed.expression, Expression::Literal(Value::Null))) {
            return None;
        }
        let called = function::call(&mut self.binder(), name, known).ok()?;
        let data_type = called.data_type.filter(|known| !is_list_type(Some(*known)))?;
        match fold(called.expression) {
            Ok(Expression::Literal(Value::Null)) => {
                Some(Operand::Typed(Typed::new(self.null(data_type).ok()?, data_type)))
            }
            _ => None,
        }
    }

    /// A parameter whose type was not known when it was read, with the type that it has been found to have.
    pub(super) fn as_found(&mut self, typed: Typed) -> Typed {
        match typed {
            Typed { expression: Expression::Parameter(position), data_type: None } => {
                let data_type = self.typing.parameters.mention(position);
                Typed { expression: Expression::Parameter(position), data_type }
            }
            other => other,
        }
    }

    /// The operands of arithmetic. A parameter beside a numeric has as many fractional digits as parameters are told to have, and so
    /// has what is computed of it; where these would show, in remainders and quotients, it is a numeric of any length.
    pub(super) fn with_digits(&mut self, op: Operator, left: Typed, right: Typed) -> Result<(Typed, Typed)> {
        use Operator::{Divide, Minus, Modulo, Multiply, Plus};
        if !matches!(op, Plus | Minus | Multiply | Divide | Modulo) {
            return Ok((left, right));
        }
        let scale = |known: &Typed| match known.data_type {
            Some(DataType::Numeric { scale, .. }) => Some(scale.max(PARAMETER_SCALE)),
            _ => None,
        };
        let is_untyped =
            |typed: &Typed| typed.data_type.is_none() && matches!(typed.expression, Expression::Parameter(_));
        let mut resolved = |typed: Typed, scale: u8| -> Result<Typed> {
            let data_type = if matches!(op, Divide | Modulo) { DataType::Number } else { numeric(scale) };
            let expression = self.binder().resolve(typed, data_type).map_err(refused)?;
            Ok(Typed::new(expression, data_type))
        };
        Ok(match (scale(&left), scale(&right)) {
            (Some(scale), None) if is_untyped(&right) => (left, resolved(right, scale)?),
            (None, Some(scale)) if is_untyped(&left) => (resolved(left, scale)?, right),
            _ => (left, right),
        })
    }

    /// A NULL that has its type, so that what is made of it is NULL: one that is written, or what constants are folded to.
    pub(super) fn as_null(&self, operand: Operand) -> Operand {
        match self.as_constant(operand.clone()) {
            null @ Operand::Typed(Typed { expression: Expression::Literal(Value::Null), .. }) => null,
            _ => match operand {
                Operand::Typed(Typed { expression, data_type })
                    if !is_list_type(data_type)
                        && expression.is_constant()
                        && matches!(fold(expression.clone()), Ok(Expression::Literal(Value::Null))) =>
                {
                    Operand::Typed(Typed { expression: Expression::Literal(Value::Null), data_type })
                }
                other => other,
            },
        }
    }

    /// Without what COALESCE never asks for, behind a constant text: texts are leaves here, in which folding sees no constant.
    pub(super) fn as_asked(&self, mut expression: Expression) -> Expression {
        let is_text = |item: &Expression| match item {
            Expression::Column(leaf) => {
                matches!(&self.leaves[*leaf], Expr::Literal(ScalarValue::Utf8View(Some(_)), _))
            }
            _ => false,
        };
        if let Expression::Coalesce(items) = &mut expression
            && let Some(last) = items.iter().position(is_text)
        {
            items.truncate(last + 1);
        }
        for operand in expression.operands_mut() {
            let taken = std::mem::replace(operand, Expression::Literal(Value::Null));
            *operand = self.as_asked(taken);
        }
        expression
    }

    /// A constant text or NULL that has its type, so that what is made of it is still made of a constant.
    pub(super) fn as_constant(&self, operand: Operand) -> Operand {
        match operand {
            Operand::Typed(Typed { expression: Expression::Column(leaf), data_type }) => {
                let expression = match &self.leaves[leaf] {
                    Expr::Literal(ScalarValue::Utf8View(Some(text)), _) => {
                        Expression::Literal(Value::text(text.as_str()))
                    }
                    Expr::Literal(value, _) if value.is_null() && !is_list_type(data_type) => {
                        Expression::Literal(Value::Null)
                    }
                    _ => Expression::Column(leaf),
                };
                Operand::Typed(Typed { expression, data_type })
            }
            other => other,
        }
    }
}
