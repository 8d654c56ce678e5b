//! `operand operator ANY (array)` and `operand operator ALL (array)`: the operator over each item, joined by OR or by AND.

use super::bind::{Binder, Bound, Typed, elsewhere};
use super::evaluate::holds;
use super::{Comparison, Expression};
use ankerdb_engine::{
    ArrayRef, DataType, Error, Interrupt, ListType, Result, SqlState, SystemType, Value, ValueRef,
};
use ankerdb_value::compare;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};
use std::cmp::Ordering;

/// Items compared between two looks at the interrupt.
const ITEMS_BETWEEN_CHECKS: usize = 4096;

/// Whether one item is enough, or all have to satisfy the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Quantifier {
    Any,
    All,
}

impl Quantifier {
    /// The word of SQL.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Quantifier::Any => "ANY",
            Quantifier::All => "ALL",
        }
    }
}

/// The comparison that an operator is; `None` for others.
pub(crate) fn comparison(operator: &BinaryOperator) -> Option<Comparison> {
    Some(match operator {
        BinaryOperator::Eq => Comparison::Equal,
        BinaryOperator::NotEq => Comparison::NotEqual,
        BinaryOperator::Lt => Comparison::Less,
        BinaryOperator::LtEq => Comparison::LessOrEqual,
        BinaryOperator::Gt => Comparison::Greater,
        BinaryOperator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

/// Operand, operator, quantifier and array of `a = ANY (b)`; `None` for other expressions.
pub(crate) fn parts(whole: &Expr) -> Option<(&Expr, &BinaryOperator, Quantifier, &Expr)> {
    match whole {
        Expr::AnyOp { left, compare_op, right, .. } => Some((left, compare_op, Quantifier::Any, right)),
        Expr::AllOp { left, compare_op, right } => Some((left, compare_op, Quantifier::All, right)),
        _ => None,
    }
}

/// The array type of an operand's items, if the array's type is not told.
fn untold(operand: Option<DataType>) -> Option<ListType> {
    match operand {
        None | Some(DataType::Varchar(_)) => Some(ListType::Text),
        Some(known) => ListType::of(known),
    }
}

impl Binder<'_> {
    /// `expr operator quantifier (right)`
    pub(super) fn quantified(&mut self, whole: &Expr) -> Bound<Typed> {
        let Some((expr, operator, quantifier, mut right)) = parts(whole) else {
            return elsewhere("such a comparison");
        };
        while let Expr::Nested(inner) = right {
            right = inner;
        }
        let Some(comparison) = comparison(operator) else {
            return elsewhere(format!("{operator} {}", quantifier.word()));
        };
        let membership = match (comparison, quantifier) {
            (Comparison::Equal, Quantifier::Any) => Some(false),
            (Comparison::NotEqual, Quantifier::All) => Some(true),
            _ => None,
        };
        match (right, membership) {
            (Expr::Subquery(query), Some(negated)) => self.in_subquery(expr, query, negated),
            (Expr::Array(array), Some(negated)) if !array.elem.is_empty() => {
                let operand = self.bind(expr)?;
                let items = array.elem.iter().map(|item| self.bind(item)).collect::<Bound<Vec<_>>>()?;
                let (items, data_type) = self.merge(items, "ARRAY")?;
                let items = items.into_iter().map(|item| Typed::new(item, data_type)).collect();
                self.in_values(operand, items, negated)
            }
            _ => {
                let (operand, array) = (self.bind(expr)?, self.bind(right)?);
                self.quantified_values(comparison, quantifier, operand, array)
            }
        }
    }

    /// `operand comparison quantifier (array)`
    fn quantified_values(
        &mut self,
        comparison: Comparison,
        quantifier: Quantifier,
        operand: Typed,
        array: Typed,
    ) -> Bound<Typed> {
        let (list, array) = match array.data_type {
            Some(DataType::System(SystemType::List(list))) if !list.is_vector() => (list, array.expression),
            Some(DataType::System(SystemType::List(_))) => return elsewhere("a vector of the catalog"),
            Some(_) => return Err(no_array().into()),
            None => {
                let Some(list) = untold(operand.data_type) else {
                    return elsewhere("an array of such items");
                };
                (list, self.resolve(array, DataType::System(SystemType::List(list)))?)
            }
        };
        let list = match (operand.data_type, list) {
            // Compared as chars, blanks at the end cut off.
            (Some(DataType::Char(_)), ListType::Varchar) => ListType::Bpchar,
            _ => list,
        };
        let array = match array {
            constant @ (Expression::Parameter(_) | Expression::Literal(_)) if list != ListType::Bpchar => {
                constant
            }
            // An analytical subquery gives the array's text.
            other => Expression::Cast(Box::new(other), DataType::System(SystemType::List(list))),
        };
        let operand = self.beside_items(comparison, operand, list)?;
        let pair = Box::new((operand, array));
        Ok(Typed::new(Expression::Quantified(comparison, quantifier, pair), DataType::Boolean))
    }

    /// The operand in a type in which it compares with items of the array type.
    pub(crate) fn beside_items(
        &mut self,
        comparison: Comparison,
        operand: Typed,
        list: ListType,
    ) -> Bound<Expression> {
        let item = Typed::new(Expression::Column(usize::MAX), list.item_type());
        Ok(self.comparable(operand, item, comparison.symbol())?.0)
    }

    /// The type of the array that an operand is compared with, where nothing tells it.
    pub(crate) fn untold_array(&self, operand: &Typed) -> Option<ListType> {
        untold(operand.data_type)
    }
}

/// 42809
pub(crate) fn no_array() -> Error {
    Error::new(SqlState::WrongObjectType, "op ANY/ALL (array) requires array on right side")
}

/// Whether the comparison holds between the operand and any or all items; `None` for unknown. Costs as much as the items up to the
/// one that decides.
///
/// # Errors
/// 42883 for items that do not compare with the operand, and those of the interrupt.
pub(crate) fn over_items(
    comparison: Comparison,
    quantifier: Quantifier,
    operand: &Value,
    array: ArrayRef<'_>,
    interrupt: &Interrupt,
) -> Result<Option<bool>> {
    let decisive = quantifier == Quantifier::Any;
    if array.is_empty() {
        return Ok(Some(!decisive));
    }
    if operand.is_null() {
        return Ok(None);
    }
    let mut unknown = false;
    for (number, item) in array.items().enumerate() {
        if number.is_multiple_of(ITEMS_BETWEEN_CHECKS) {
            interrupt.check()?;
        }
        match order(operand, item)? {
            Some(ordering) if holds(comparison, ordering) == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(!decisive) })
}

/// Like [`compare`], without a copy of the common items.
fn order(operand: &Value, item: ValueRef<'_>) -> Result<Option<Ordering>> {
    match (operand, item) {
        (_, ValueRef::Null) => Ok(None),
        (Value::Integer(left), ValueRef::Integer(right)) => Ok(Some(left.cmp(&right))),
        (Value::BigInt(left), ValueRef::BigInt(right)) => Ok(Some(left.cmp(&right))),
        (Value::Uuid(left), ValueRef::Uuid(right)) => Ok(Some(left.cmp(&right))),
        (Value::Packed(left), ValueRef::Packed(right)) if left.packed_type() == right.packed_type() => {
            Ok(Some(left.borrow().cmp(&right)))
        }
        (Value::Text(left), ValueRef::Text(right)) => Ok(Some(left.as_bytes().cmp(right.as_bytes()))),
        (left, right) => compare(left, &right.to_value()),
    }
}
