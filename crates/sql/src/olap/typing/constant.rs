//! Constants that tell their types, in the typing pass.

use super::read::{Operand, Reader, is_list_type};
use crate::expression::{Expression, Typed};
use crate::olap::arrow::wide_type;
use crate::olap::value::with_type;
use ankerdb_engine::{DataType, Value};
use datafusion::arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::common::metadata::FieldMetadata;
use datafusion::logical_expr::Expr;

/// A constant that tells its type.
pub(super) fn with_told_type(constant: ScalarValue, data_type: DataType) -> Expr {
    let metadata = with_type(Field::new("", wide_type(data_type), true), data_type).metadata().clone();
    Expr::Literal(constant, (!metadata.is_empty()).then(|| FieldMetadata::from(metadata)))
}

impl Reader<'_, '_> {
    /// A NULL that has its type, so that what is made of it is NULL.
    pub(super) fn as_null(&self, operand: Operand) -> Operand {
        match self.as_constant(operand.clone()) {
            null @ Operand::Typed(Typed { expression: Expression::Literal(Value::Null), .. }) => null,
            _ => operand,
        }
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
