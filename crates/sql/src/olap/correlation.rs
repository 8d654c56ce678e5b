//! What of a query around it a subquery mentions, and whether DataFusion makes the right join of it.
//!
//! DataFusion pulls a subquery's conditions on outer columns up into the condition of a join. That is right where nothing between
//! such a condition and the top of the subquery depends on which rows there are: not above a window, a limit, the side of an outer
//! join that gets NULLs, or an aggregate without groups, which has a row for no rows. It does not look for all of these; so only what
//! is known to be right is left to it, and the rest is [unnested](super::dependent).

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::{expr_to_columns, merge_schema, split_conjunction};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Operator, Subquery};
use std::borrow::Cow;
use std::collections::HashSet;

/// The subquery that an expression is, if it is one.
pub(super) fn as_subquery(expression: &Expr) -> Option<&Subquery> {
    match expression {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Visits the columns outside of a plan that it mentions, also from subqueries of its own; the nearest query that has a column of that
/// name is the one that is meant.
pub(super) fn visit_outer(plan: &LogicalPlan, found: &mut dyn FnMut(&Column)) -> Result<()> {
    let inputs = plan.inputs();
    plan.apply_expressions(|expression| {
        let near = || Cow::Owned(merge_schema(&inputs));
        visit_outer_of(expression, &near, found).map(|()| TreeNodeRecursion::Continue)
    })?;
    match plan {
        LogicalPlan::Join(join) => {
            visit_outer(&join.left, found)?;
            let left = join.left.schema();
            visit_outer(&join.right, &mut |column| {
                if !left.has_column(column) {
                    found(column)
                }
            })
        }
        _ => inputs.into_iter().try_for_each(|input| visit_outer(input, found)),
    }
}

/// Those that an expression over columns of `near`, which few expressions ask for, mentions.
fn visit_outer_of<'s>(
    expression: &Expr,
    near: &dyn Fn() -> Cow<'s, DFSchema>,
    found: &mut dyn FnMut(&Column),
) -> Result<()> {
    expression.apply(|part| {
        if let Expr::OuterReferenceColumn(_, column) = part {
            found(column);
        } else if let Some(subquery) = as_subquery(part) {
            let near = near();
            visit_outer(&subquery.subquery, &mut |column| {
                if !near.has_column(column) {
                    found(column)
                }
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// The columns outside that a plan mentions, each once.
pub(super) fn outer_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    visit_outer(plan, &mut |column| {
        if !columns.contains(column) {
            columns.push(column.clone());
        }
    })?;
    Ok(columns)
}

/// What stands for the relation of a computed column.
const COMPUTED: &str = "(computed)";

/// What a subquery is to the query around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It stands for a value.
    Value,
    /// It is that of an EXISTS or IN that is a condition.
    Condition,
}

/// Whether DataFusion makes the right join of a subquery in a query with the columns of `around`.
pub(super) fn is_pulled_up(plan: &LogicalPlan, role: Role, around: &DFSchema) -> Result<bool> {
    let is_near = outer_columns(plan)?.iter().all(|column| around.has_column(column));
    Ok(is_near && is_pulled_through(plan, role, Above::default())? && are_told_apart(plan)?)
}

/// Whether the subquery's columns that would be pulled up, and those that it gives, have names of their own: DataFusion puts all of
/// them under one name of the subquery, and would take `a.id` for `b.id`.
fn are_told_apart(plan: &LogicalPlan) -> Result<bool> {
    let mut columns: HashSet<Column> = HashSet::new();
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let pulled =
                split_conjunction(&filter.predicate).into_iter().filter(|term| term.contains_outer());
            pulled.for_each(|term| columns.extend(term.column_refs().into_iter().cloned()));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if columns.is_empty() {
        return Ok(true);
    }
    let mut given = plan;
    while let LogicalPlan::Distinct(Distinct::All(input)) = given {
        given = input;
    }
    if let LogicalPlan::Projection(projection) = given {
        for (expression, field) in projection.expr.iter().zip(projection.schema.fields()) {
            columns.insert(match expression {
                Expr::Column(column) => column.clone(),
                _ => Column::new(Some(COMPUTED), field.name().clone()),
            });
        }
    }
    let mut names = HashSet::new();
    Ok(columns.iter().all(|column| names.insert(&column.name)))
}

/// What is between a part of a subquery and its top.
#[derive(Clone, Copy, Default)]
struct Above {
    /// Something that is not only a projection.
    is_below_top: bool,
    /// Something that puts rows together or counts them.
    is_grouped: bool,
}

fn is_pulled_through(plan: &LogicalPlan, role: Role, above: Above) -> Result<bool> {
    if !mentions(plan)? {
        return Ok(true);
    }
    let below = Above { is_below_top: true, ..above };
    let grouped = Above { is_below_top: true, is_grouped: true };
    let LogicalPlan::Filter(filter) = plan else {
        let near = || Cow::Owned(merge_schema(&plan.inputs()));
        let mut is_own = true;
        plan.apply_expressions(|expression| {
            visit_outer_of(expression, &near, &mut |_| is_own = false)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        return Ok(is_own
            && match plan {
                LogicalPlan::Projection(projection) => is_pulled_through(&projection.input, role, above)?,
                // What a derived table compares is moved above it where that is possible (`limited`), later for conditions.
                LogicalPlan::SubqueryAlias(alias) => {
                    role == Role::Condition && is_pulled_through(&alias.input, role, grouped)?
                }
                LogicalPlan::Distinct(Distinct::All(input)) => is_pulled_through(input, role, grouped)?,
                LogicalPlan::Limit(limit) => is_pulled_through(&limit.input, role, grouped)?,
                LogicalPlan::Sort(sort) => is_pulled_through(&sort.input, role, grouped)?,
                LogicalPlan::Aggregate(aggregate) => {
                    let is_whole = aggregate.group_expr.is_empty();
                    let is_right = !is_whole || (role == Role::Value && !above.is_below_top);
                    is_right && is_pulled_through(&aggregate.input, role, grouped)?
                }
                LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
                    let (left, right) = (mentions(&join.left)?, mentions(&join.right)?);
                    let side = if left { &join.left } else { &join.right };
                    !(left && right) && is_pulled_through(side, role, below)?
                }
                _ => false,
            });
    };
    for term in split_conjunction(&filter.predicate) {
        let mut mentioned = false;
        let near = || Cow::Borrowed(filter.input.schema().as_ref());
        visit_outer_of(term, &near, &mut |_| mentioned = true)?;
        let is_simple = role == Role::Condition && !above.is_grouped && term.contains_outer();
        if mentioned && !(is_equality(term) || (is_simple && !has_subquery(term)?)) {
            return Ok(false);
        }
    }
    is_pulled_through(&filter.input, role, below)
}

/// Whether a plan mentions columns outside.
fn mentions(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    visit_outer(plan, &mut |_| found = true)?;
    Ok(found)
}

/// An equality between something of the subquery and something outside.
fn is_equality(term: &Expr) -> bool {
    let Expr::BinaryExpr(binary) = term else { return false };
    let is_outer = |side: &Expr| side.contains_outer() && !has_column(side);
    // Of anything computed it loses the columns below a projection.
    let is_inner = |side: &Expr| match side {
        Expr::Cast(cast) => matches!(*cast.expr, Expr::Column(_)),
        side => matches!(side, Expr::Column(_)),
    };
    let sides = (&*binary.left, &*binary.right);
    binary.op == Operator::Eq
        && (is_outer(sides.0) && is_inner(sides.1) || is_outer(sides.1) && is_inner(sides.0))
}

fn has_column(expression: &Expr) -> bool {
    let mut columns = HashSet::new();
    expr_to_columns(expression, &mut columns).is_ok() && !columns.is_empty()
}

/// Whether there is a subquery in an expression.
pub(super) fn has_subquery(expression: &Expr) -> Result<bool> {
    expression.exists(|part| Ok(as_subquery(part).is_some()))
}
