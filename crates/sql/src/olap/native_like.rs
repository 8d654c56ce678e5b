//! LIKE as DataFusion has it, in place of ours, where both give the same.
//!
//! Ours goes value by value, is told by each what its pattern is, and ends the query where nothing follows the escape character at the end of one. DataFusion's
//! knows the pattern before it sees a value, does not mind its end, and is what the compiler, bounds of blocks and samples understand. So a constant
//! pattern that ends otherwise is given to that. Most are constants when they are bound; others become so by folding (`LIKE 'a' || '%'`), or when
//! parameters get values.

use super::computed;
use super::operation::is_plain_pattern;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Like;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{LikeExpr, Literal};
use std::sync::Arc;

/// Replaces calls with constant patterns.
#[derive(Debug)]
pub(super) struct NativeLikes;

impl OptimizerRule for NativeLikes {
    fn name(&self) -> &str {
        "native_likes"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        with_likes(plan, is_plain_constant)
    }
}

/// The optimized plan of a statement whose parameters have no values yet, with DataFusion's LIKE where these make the pattern. Whether it is a plain one
/// is to be asked then ([`has_plain_patterns`]).
pub(super) fn of_parameters(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| with_likes(node, is_made_of_parameters))?;
    Ok(changed.data)
}

/// Whether the expression is a call that [`of_parameters`] replaces.
pub(super) fn is_of_parameters(expression: &Expr) -> bool {
    call(expression).is_some_and(|(_, pattern)| is_made_of_parameters(pattern))
}

/// Whether the expression has no constant pattern of which the meaning is another in our LIKE.
pub(super) fn has_plain_patterns(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let is_plain = |like: &LikeExpr| {
        let pattern = like.pattern().downcast_ref::<Literal>();
        pattern.and_then(|pattern| text(pattern.value())).is_none_or(is_plain_pattern)
    };
    let is_other = |part: &Arc<dyn PhysicalExpr>| !part.downcast_ref::<LikeExpr>().is_none_or(is_plain);
    !expression.exists(|part| Ok(is_other(part))).is_ok_and(|found| found)
}

fn with_likes(plan: LogicalPlan, is_meant: fn(&Expr) -> bool) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expression| {
        expression.apply(|part| {
            found |= call(part).is_some_and(|(_, pattern)| is_meant(pattern));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expression| {
        let name = names.save(&expression);
        let changed = expression.transform_up(|part| match native(&part, is_meant) {
            Some(like) => Ok(Transformed::yes(Expr::Like(like))),
            None => Ok(Transformed::no(part)),
        })?;
        Ok(changed.update_data(|expression| name.restore(expression)))
    })
}

fn native(expression: &Expr, is_meant: fn(&Expr) -> bool) -> Option<Like> {
    let ((negated, ignore_case), pattern) = call(expression).filter(|(_, pattern)| is_meant(pattern))?;
    let Expr::ScalarFunction(call) = expression else { return None };
    let text = call.args.first()?.clone();
    Some(Like::new(negated, Box::new(text), Box::new(pattern.clone()), None, ignore_case))
}

/// Whether LIKE is negated and whether it ignores case, and the pattern, if the expression is a call of ours by the usual escape character.
fn call(expression: &Expr) -> Option<((bool, bool), &Expr)> {
    let Expr::ScalarFunction(call) = expression else { return None };
    let way = computed::operation(call)?.native_like()?;
    Some((way, call.args.get(1)?))
}

fn is_plain_constant(pattern: &Expr) -> bool {
    matches!(pattern, Expr::Literal(pattern, _) if text(pattern).is_some_and(is_plain_pattern))
}

fn text(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}

/// Whether it is a constant as soon as parameters have values.
fn is_made_of_parameters(pattern: &Expr) -> bool {
    let is_known = |part: &Expr| {
        matches!(
            part,
            Expr::Placeholder(_)
                | Expr::Literal(..)
                | Expr::Cast(_)
                | Expr::BinaryExpr(_)
                | Expr::ScalarFunction(_)
        )
    };
    let is_placeholder = |part: &Expr| matches!(part, Expr::Placeholder(_));
    let exists = |is: &dyn Fn(&Expr) -> bool| pattern.exists(|part| Ok(is(part))).unwrap_or(false);
    exists(&is_placeholder) && !exists(&|part| !is_known(part)) && !pattern.is_volatile()
}
