//! Conditions that keep others from being computed.
//!
//! `WHERE n <> '' AND n::int > 0` casts the texts that are left: PostgreSQL computes conditions in the order in which they were
//! written, those of WHERE the cheap ones first. DataFusion computes both for a whole batch, and pushes each to where it likes. So a condition that may fail is one that
//! is computed where those before it are not false (or not true, for OR):
//! ```text
//! a AND f    a AND CASE WHEN a IS FALSE THEN 0 ELSE f::int END <> 0
//! a OR f     a OR CASE WHEN a IS TRUE THEN 1 ELSE f::int END <> 0
//! ```
//! (With numbers in place of truth values, of which its optimizer would make AND and OR again. The same is done for CASE itself.)
//! Conditions over other relations keep nothing, as PostgreSQL computes each as soon as its relations are there; nor do those that may
//! fail themselves, and subqueries, which would be computed twice.

use crate::expression::{Arithmetic, Function};
use crate::olap::checked;
use crate::olap::computed;
use crate::olap::operation::Operation;
use datafusion::arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, Case};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, Volatility, cast, lit};
use std::collections::HashSet;

/// Which operands keep others from being computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Those that were written before them.
    Written,
    /// All: the conditions of a clause are computed in the order of what they cost, and those that cannot fail cost least.
    Any,
}

/// The operands of AND or OR, of which those that may fail are computed as others let them be.
pub(super) fn guarded(
    operands: Vec<Expr>,
    operator: Operator,
    order: Order,
    schema: &DFSchemaRef,
) -> Result<Vec<Expr>> {
    let mut may_fail = Vec::with_capacity(operands.len());
    for operand in &operands {
        may_fail.push(self::may_fail(operand, schema)?);
    }
    let first = if order == Order::Any { 0 } else { 1 };
    if operands.len() < 2 || !may_fail.iter().skip(first).any(|may_fail| *may_fail) {
        return Ok(operands);
    }
    let mut done: Vec<Expr> = Vec::with_capacity(operands.len());
    let mut guards: Vec<Expr> = Vec::new();
    if order == Order::Any {
        for (operand, _) in operands.iter().zip(&may_fail).filter(|(_, may_fail)| !**may_fail) {
            if is_repeatable(operand)? {
                guards.push(operand.clone());
            }
        }
    }
    for (operand, may_fail) in operands.into_iter().zip(may_fail) {
        if !may_fail {
            if order == Order::Written && is_repeatable(&operand)? {
                guards.push(operand.clone());
            }
            done.push(operand);
            continue;
        }
        let relations = relations(&operand);
        let before = guards.iter().filter(|guard| self::relations(guard).is_subset(&relations)).cloned();
        let before = before.reduce(|left, right| binary(left, operator, right));
        done.push(match before {
            Some(before) => behind(before, operator, operand),
            None => operand,
        });
    }
    Ok(done)
}

/// A CASE of truth values, which stays one if a result may fail.
pub(super) fn case(case: Case, schema: &DFSchemaRef) -> Result<Expr> {
    let results = || case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
    let mut fails = false;
    for result in results() {
        if result.get_type(schema.as_ref())? != ArrowType::Boolean {
            return Ok(Expr::Case(case));
        }
        fails |= may_fail(result, schema)?;
    }
    if !fails {
        return Ok(Expr::Case(case));
    }
    let branches = case.when_then_expr.into_iter().map(|(when, then)| (when, Box::new(number(*then))));
    let otherwise = case.else_expr.map(|otherwise| Box::new(number(*otherwise)));
    Ok(truth(Case::new(case.expr, branches.collect(), otherwise)))
}

fn behind(before: Expr, operator: Operator, operand: Expr) -> Expr {
    let decided = operator == Operator::Or;
    let is_decided = binary(before, Operator::IsNotDistinctFrom, lit(decided));
    let branch = (Box::new(is_decided), Box::new(lit(i32::from(decided))));
    truth(Case::new(None, vec![branch], Some(Box::new(number(operand)))))
}

fn number(condition: Expr) -> Expr {
    match condition {
        Expr::Literal(ScalarValue::Boolean(value), _) => lit(ScalarValue::Int32(value.map(i32::from))),
        condition => cast(condition, ArrowType::Int32),
    }
}

fn truth(case: Case) -> Expr {
    binary(Expr::Case(case), Operator::NotEq, lit(0i32))
}

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

/// Whether computing it may fail for the sake of a value that a condition beside it may have sorted out. (Sums may, too, but nobody
/// guards them.)
fn may_fail(expression: &Expr, schema: &DFSchemaRef) -> Result<bool> {
    expression.exists(|part| {
        let Expr::ScalarFunction(call) = part else { return Ok(false) };
        if checked::is_division(call) {
            return Ok(!is_constant(&call.args[1]));
        }
        Ok(match computed::operation(call) {
            Some(Operation::Cast(target)) => {
                let from = call.args[0].get_type(schema.as_ref())?;
                from == ArrowType::Utf8View && !target.is_text() && !is_constant(&call.args[0])
            }
            Some(Operation::Arithmetic(Arithmetic::Divide | Arithmetic::Modulo)) => {
                !is_constant(&call.args[1])
            }
            Some(Operation::Call(Function::Library(..) | Function::Math(_) | Function::Temporal(..))) => true,
            _ => false,
        })
    })
}

fn is_constant(expression: &Expr) -> bool {
    matches!(expression, Expr::Literal(..))
}

/// Whether it may be computed twice.
fn is_repeatable(expression: &Expr) -> Result<bool> {
    let once = expression.exists(|part| {
        Ok(match part {
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_) => true,
            Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Volatile,
            _ => false,
        })
    })?;
    Ok(!once)
}

/// The relations that it has columns of.
fn relations(expression: &Expr) -> HashSet<String> {
    let mut found = HashSet::new();
    let walked = expression.apply(|part| {
        if let Expr::Column(Column { relation, .. }) = part {
            found.insert(relation.as_ref().map(|relation| relation.to_string()).unwrap_or_default());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(walked.is_ok(), "the walk cannot fail");
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_fail_is_kept_from_being_computed() {
        let schema: DFSchemaRef = std::sync::Arc::new(datafusion::common::DFSchema::empty());
        let number = |value: &str| {
            let text = lit(ScalarValue::Utf8View(Some(value.to_owned()))).is_null();
            vec![lit(true), text]
        };
        let plain = guarded(number("1"), Operator::And, Order::Any, &schema).unwrap();
        assert_eq!(plain, number("1"));
        let division = checked::call(Arithmetic::Divide, lit(1i32), cast(lit("x"), ArrowType::Int32));
        let parts = vec![lit(true), binary(division, Operator::Eq, lit(1i32))];
        let kept = guarded(parts.clone(), Operator::And, Order::Written, &schema).unwrap();
        assert_eq!(kept[0], parts[0]);
        assert!(kept[1].exists(|part| Ok(matches!(part, Expr::Case(_)))).unwrap());
    }
}
