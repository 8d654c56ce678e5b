//! Calls that give rows, taken out of the expressions of a plan.

use super::super::error::external;
use super::super::names::HIDDEN;
use super::super::written;
use super::{SetCall, SetFunction, SetRows, order};
use ankerdb_engine::{Error, SqlState};
use datafusion::arrow::datatypes::Field;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, SortExpr};
use std::sync::Arc;

/// The plan with a node below each one whose expressions have such calls.
///
/// # Errors
/// 0A000 where PostgreSQL takes none.
pub(crate) fn extracted(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut next = 0;
    let rewritten = order::in_lists(plan)?.transform_up_with_subqueries(|node| {
        if let LogicalPlan::Sort(sort) = &node
            && let Some(behind) = order::behind_sort(sort)?
        {
            return Ok(Transformed::yes(behind));
        }
        let mut found = false;
        node.apply_expressions(|expression| {
            found |= has_call(expression)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        match found {
            true => over_rows(node, &mut next).map(Transformed::yes),
            false => Ok(Transformed::no(node)),
        }
    })?;
    Ok(rewritten.data)
}

/// The function of a call that gives rows.
fn called(expression: &Expr) -> Option<(&ScalarFunction, &'static str)> {
    let Expr::ScalarFunction(call) = expression else { return None };
    Some((call, written::set_function(call)?))
}

pub(super) fn has_call(expression: &Expr) -> Result<bool> {
    expression.exists(|part| Ok(called(part).is_some()))
}

fn not_allowed(place: &str) -> DataFusionError {
    let message = format!("set-returning functions are not allowed in {place}");
    external(Error::new(SqlState::FeatureNotSupported, message))
}

/// What the clause of a node is called where calls are not allowed in it.
fn refusal(node: &LogicalPlan) -> Option<DataFusionError> {
    let place = match node {
        LogicalPlan::Projection(_) | LogicalPlan::Distinct(Distinct::On(_)) => return None,
        LogicalPlan::Aggregate(aggregate) => {
            let in_groups = aggregate.group_expr.iter().map(has_call).any(|found| matches!(found, Ok(true)));
            let in_calls = aggregate.aggr_expr.iter().map(has_call).any(|found| matches!(found, Ok(true)));
            if in_calls {
                let message = "aggregate function calls cannot contain set-returning function calls";
                return Some(hinted(message));
            }
            return (!in_groups).then(|| not_allowed("GROUP BY"));
        }
        LogicalPlan::Window(_) => {
            return Some(hinted("window function calls cannot contain set-returning function calls"));
        }
        LogicalPlan::Filter(filter) if matches!(*filter.input, LogicalPlan::Aggregate(_)) => "HAVING",
        LogicalPlan::Filter(_) => "WHERE",
        LogicalPlan::Join(_) => "JOIN conditions",
        LogicalPlan::Limit(_) => "LIMIT",
        LogicalPlan::Values(_) => "VALUES",
        LogicalPlan::Sort(_) => "ORDER BY of such a query",
        _ => "such a place",
    };
    Some(not_allowed(place))
}

fn hinted(message: &str) -> DataFusionError {
    let hint = "You might be able to move the set-returning function into a LATERAL FROM item.";
    external(Error::new(SqlState::FeatureNotSupported, message.to_owned()).with_hint(hint))
}

/// The node over one that has its calls.
fn over_rows(node: LogicalPlan, next: &mut usize) -> Result<LogicalPlan> {
    if let Some(refused) = refusal(&node) {
        return Err(refused);
    }
    node.apply_expressions(|expression| {
        check_alternatives(expression)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let [input] = node.inputs()[..] else { return Err(not_allowed("such a place")) };
    let names = NamePreserver::new(&node);
    let mut input = input.clone();
    let saved: Vec<_> = node.expressions().iter().map(|expression| names.save(expression)).collect();
    let mut expressions = node.expressions();
    // The innermost calls are made first.
    loop {
        let mut level = Level { calls: Vec::new(), next, input: &input };
        let replaced = expressions.iter().map(|expression| level.replaced(expression.clone()));
        let replaced = replaced.collect::<Result<Vec<_>>>()?;
        let calls: Vec<SetCall> = level.calls.into_iter().map(|(_, call)| call).collect();
        if calls.is_empty() {
            break;
        }
        expressions = replaced;
        input = SetRows::new(input, calls, false)?.into_plan();
    }
    let named = saved.into_iter().zip(expressions).map(|(name, expression)| name.restore(expression));
    let named: Vec<Expr> = named.collect();
    match node {
        LogicalPlan::Distinct(Distinct::On(distinct)) => first_of_each(distinct, named, input),
        node => node.with_new_exprs(named, vec![input]),
    }
}

/// DISTINCT ON with these expressions over an input.
fn first_of_each(
    distinct: DistinctOn,
    mut expressions: Vec<Expr>,
    input: LogicalPlan,
) -> Result<LogicalPlan> {
    let mut selected = expressions.split_off(distinct.on_expr.len());
    let keys = selected.split_off(distinct.select_expr.len());
    let order = distinct.sort_expr.map(|order| {
        order.into_iter().zip(keys).map(|(key, expr)| SortExpr { expr, ..key }).collect::<Vec<_>>()
    });
    let first = DistinctOn::try_new(expressions, selected, order, Arc::new(input))?;
    Ok(LogicalPlan::Distinct(Distinct::On(first)))
}

/// 0A000 for calls in expressions that compute only some of their parts.
fn check_alternatives(expression: &Expr) -> Result<()> {
    expression.apply(|part| {
        let place = match part {
            Expr::Case(_) => "CASE",
            Expr::ScalarFunction(call) if call.func.name() == "coalesce" => "COALESCE",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        if has_call(part)? {
            return Err(hinted(&format!("set-returning functions are not allowed in {place}")));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The calls that are made for the rows of one input.
struct Level<'a> {
    calls: Vec<(Expr, SetCall)>,
    next: &'a mut usize,
    input: &'a LogicalPlan,
}

impl Level<'_> {
    /// The expression with columns in place of calls whose arguments have none.
    fn replaced(&mut self, expression: Expr) -> Result<Expr> {
        let replaced = expression.transform_up(|part| {
            let Some((call, name)) = called(&part) else { return Ok(Transformed::no(part)) };
            for argument in &call.args {
                let mut is_innermost = true;
                argument.apply(|inner| {
                    is_innermost &= called(inner).is_none() && !self.is_taken(inner);
                    Ok(TreeNodeRecursion::Continue)
                })?;
                if !is_innermost {
                    return Ok(Transformed::no(part));
                }
            }
            let column = self.column(&part, &call.args, name)?;
            Ok(Transformed::yes(Expr::Column(column)))
        })?;
        Ok(replaced.data)
    }

    /// Whether it is the column of a call of this level.
    fn is_taken(&self, expression: &Expr) -> bool {
        let Expr::Column(column) = expression else { return false };
        self.calls.iter().any(|(_, call)| *call.field.name() == column.name)
    }

    /// The column of a call; equal ones share one.
    fn column(&mut self, whole: &Expr, arguments: &[Expr], name: &str) -> Result<Column> {
        let known = self.calls.iter().find(|(known, _)| known == whole && !known.is_volatile());
        if let Some((_, call)) = known {
            return Ok(Column::new_unqualified(call.field.name()));
        }
        *self.next += 1;
        let (_, field) = whole.to_field(self.input.schema().as_ref())?;
        let column = format!("{name}{HIDDEN}set {}", self.next);
        let field =
            Field::new(&column, field.data_type().clone(), true).with_metadata(field.metadata().clone());
        let function = SetFunction::Written(name.to_owned());
        let call = SetCall { function, arguments: arguments.to_vec(), field: Arc::new(field) };
        self.calls.push((whole.clone(), call));
        Ok(Column::new_unqualified(column))
    }
}
