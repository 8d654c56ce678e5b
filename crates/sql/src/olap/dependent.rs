//! Subqueries that depend on the query around them otherwise than DataFusion makes the right join of.
//!
//! DataFusion makes a join of a subquery by pulling its equalities with outer columns up into the join's condition
//! ([`correlation`](super::correlation) says where that is right). A subquery that has others, such as `a <> o.b`, a condition on
//! outer columns alone, an outer column in the select list, is computed once for each combination of the outer columns that it
//! mentions ([`unnesting`](super::unnesting)):
//! ```text
//! SELECT (SELECT f(i.x, o.c) FROM i WHERE i.a <> o.b) FROM o
//!
//! d = SELECT DISTINCT b, c FROM o
//! SELECT v FROM o LEFT JOIN (SELECT d.b, d.c, f(i.x, d.c) AS v FROM d, i WHERE i.a <> d.b) ON o.b = d.b AND o.c = d.c
//! ```
//! with NULLs equal in the join. Aggregates are grouped by d, and those without groups give a row for each row of d. So are items of
//! FROM that mention what stands before them (LATERAL).
//!
//! The outer query is computed twice, so one that has functions which give something else each time is left.

use super::correlation::{Role, as_subquery, has_subquery, is_pulled_up, outer_columns};
use super::error::external;
use super::names::HIDDEN;
use super::outer_aggregate::check_subquery;
use super::pairs;
use super::sets;
use super::single::gives_one_row;
use super::unnesting::Unnesting;
use crate::name::not_supported;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, Sort, Subquery};
use std::sync::Arc;

/// The plan without such subqueries.
pub(super) fn independent(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut next = 0;
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_) => unnested(node, &mut next),
        LogicalPlan::Join(join) => joined(join, &mut next),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// Those subqueries of the node's expressions, over columns of `schema`, that DataFusion cannot be left.
fn found(node: &LogicalPlan, schema: &DFSchema) -> Result<Vec<Subquery>> {
    let mut found: Vec<Subquery> = Vec::new();
    node.apply_expressions(|expression| {
        expression.apply(|part| {
            if let Expr::ScalarSubquery(subquery) = part
                && !found.contains(subquery)
                && !is_left(&subquery.subquery, node, schema)?
            {
                check_subquery(node, &subquery.subquery)?;
                found.push(subquery.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Whether a subquery of the node is one for DataFusion.
fn is_left(subquery: &LogicalPlan, node: &LogicalPlan, schema: &DFSchema) -> Result<bool> {
    Ok(match node {
        // It knows them there.
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => is_pulled_up(subquery, Role::Value, schema)?,
        _ => outer_columns(subquery)?.is_empty(),
    })
}

/// The node over its input joined with what its subqueries give.
pub(super) fn unnested(node: LogicalPlan, next: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let columns: Vec<Expr> = node.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
    let node = match node {
        LogicalPlan::Sort(sort) => LogicalPlan::Sort(with_columns_of_keys(sort)?),
        other => other,
    };
    let Some(input) = node.inputs().first().map(|input| (*input).clone()) else {
        return Ok(Transformed::no(node));
    };
    let found = found(&node, input.schema())?;
    let (mut rows, mut values) = (input.clone(), Vec::new());
    for subquery in found {
        if let Some((plan, value)) = with_value(&rows, &input, &subquery, next)? {
            rows = plan;
            values.push((subquery, value));
        }
    }
    let is_projection = matches!(node, LogicalPlan::Projection(_));
    if values.is_empty() && node.schema().fields().len() == columns.len() {
        return Ok(Transformed::no(node));
    }
    let node = with_values(node, &values)?;
    let expressions = node.expressions();
    let node = node.with_new_exprs(expressions, vec![rows])?;
    Ok(Transformed::yes(match is_projection {
        true => node,
        // Without the columns of the values.
        false => LogicalPlanBuilder::from(node).project(columns)?.build()?,
    }))
}

/// The sort over a projection that has the columns that subqueries in its keys mention, too.
fn with_columns_of_keys(mut sort: Sort) -> Result<Sort> {
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else { return Ok(sort) };
    let mut missing: Vec<Column> = Vec::new();
    for key in &sort.expr {
        key.expr.apply(|part| {
            if let Some(subquery) = as_subquery(part) {
                missing.extend(outer_columns(&subquery.subquery)?);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let below = projection.input.schema();
    missing.retain(|column| below.has_column(column) && !projection.schema.has_column(column));
    missing.sort_unstable();
    missing.dedup();
    if missing.is_empty() {
        return Ok(sort);
    }
    let columns = projection.expr.iter().cloned().chain(missing.into_iter().map(Expr::Column));
    let rows =
        LogicalPlanBuilder::from(projection.input.as_ref().clone()).project(columns.collect::<Vec<_>>())?;
    sort.input = Arc::new(rows.build()?);
    Ok(sort)
}

/// The node with columns in place of subqueries.
fn with_values(node: LogicalPlan, values: &[(Subquery, Column)]) -> Result<LogicalPlan> {
    let names = NamePreserver::new(&node);
    let replaced = node.map_expressions(|expression| {
        let name = names.save(&expression);
        let replaced = expression.transform(|part| match &part {
            Expr::ScalarSubquery(subquery) => match values.iter().find(|(known, _)| known == subquery) {
                Some((_, value)) => Ok(Transformed::yes(Expr::Column(value.clone()))),
                None => Ok(Transformed::no(part)),
            },
            _ => Ok(Transformed::no(part)),
        })?;
        Ok(replaced.update_data(|expression| name.restore(expression)))
    })?;
    Ok(replaced.data)
}

/// `rows` with a column for the subquery's value, and that column; `input` is what the subquery's outer columns are of.
fn with_value(
    rows: &LogicalPlan,
    input: &LogicalPlan,
    subquery: &Subquery,
    next: &mut usize,
) -> Result<Option<(LogicalPlan, Column)>> {
    if !gives_one_row(&subquery.subquery) || subquery.subquery.schema().fields().len() != 1 {
        return Ok(None);
    }
    *next += 1;
    let value = format!("{HIDDEN}value {next}");
    let found =
        Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0))).alias(value.clone());
    let outer: Vec<Column> = outer_columns(&subquery.subquery)?;
    let outer: Vec<Column> = outer.into_iter().filter(|column| input.schema().has_column(column)).collect();
    let value = Column::new_unqualified(value);
    if outer.is_empty() {
        // It depends on a query further out alone: there is one value for all rows here.
        let plan = LogicalPlanBuilder::from(subquery.subquery.clone()).project(vec![found])?.build()?;
        let plan = LogicalPlanBuilder::from(rows.clone()).cross_join(plan)?.build()?;
        return Ok(Some((plan, value)));
    }
    let Some((plan, keys)) = by_keys(&subquery.subquery, vec![found], input, &outer, next)? else {
        return Ok(None);
    };
    let plan = LogicalPlanBuilder::from(rows.clone())
        .join_detailed(plan, JoinType::Left, (outer, keys), None, NullEquality::NullEqualsNull)?
        .build()?;
    Ok(Some((plan, value)))
}

/// Columns of the plan for each combination of the outer columns in `input`, and the columns that these are.
fn by_keys(
    plan: &LogicalPlan,
    mut columns: Vec<Expr>,
    input: &LogicalPlan,
    outer: &[Column],
    next: &mut usize,
) -> Result<Option<(LogicalPlan, Vec<Column>)>> {
    if is_volatile(input)? {
        return Ok(None);
    }
    let Some((plan, places)) = Unnesting::of(input, outer, next)?.over(plan, next)? else { return Ok(None) };
    *next += 1;
    let name = |position: usize| Column::new_unqualified(format!("{HIDDEN}inner {next} {position}"));
    for (position, column) in outer.iter().enumerate() {
        columns.push(Expr::Column(places[column].clone()).alias(name(position).name));
    }
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    Ok(Some((plan, (0..outer.len()).map(name).collect())))
}

/// Whether a plan may give other rows when it is run again.
pub(super) fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            found |= expression.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// A join without subqueries in its condition, and without a side that mentions the other.
fn joined(join: Join, next: &mut usize) -> Result<Transformed<LogicalPlan>> {
    if let Some(plan) = sets::applied(&join)? {
        return Ok(Transformed::yes(plan));
    }
    if let Some((columns, join)) = lateral(&join, next)? {
        let plan = with_conditions(join, next)?.data;
        return Ok(Transformed::yes(LogicalPlanBuilder::from(plan).project(columns)?.build()?));
    }
    with_conditions(join, next)
}

/// The join without subqueries in its condition.
fn with_conditions(join: Join, next: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let conditions = join.filter.iter().chain(join.on.iter().flat_map(|(left, right)| [left, right]));
    if !conditions.map(has_subquery).collect::<Result<Vec<_>>>()?.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    match is_outer(&join) && mentions_both(&join)? {
        true => match pairs::joined(&join, next)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Err(external(not_supported("a subquery that depends on both sides of such a join"))),
        },
        false => with_values_of_sides(join, next),
    }
}

fn is_outer(join: &Join) -> bool {
    matches!(join.join_type, JoinType::Left | JoinType::Right | JoinType::Full)
}

/// Whether a subquery in the join's condition mentions columns of both of its sides.
fn mentions_both(join: &Join) -> Result<bool> {
    let mentions = |subquery: &Subquery| -> Result<bool> {
        let outer = outer_columns(&subquery.subquery)?;
        let sides = [&join.left, &join.right];
        Ok(sides.iter().all(|side| outer.iter().any(|column| side.schema().has_column(column))))
    };
    let subqueries = found(&LogicalPlan::Join(join.clone()), &join.schema)?;
    Ok(subqueries.iter().map(mentions).collect::<Result<Vec<_>>>()?.contains(&true))
}

/// The join whose condition has subqueries over columns of one side, which gets their values.
fn with_values_of_sides(join: Join, next: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let columns: Vec<Expr> = join.schema.iter().map(|field| Expr::Column(Column::from(field))).collect();
    let node = LogicalPlan::Join(join.clone());
    let (mut sides, mut values) = ([join.left.as_ref().clone(), join.right.as_ref().clone()], Vec::new());
    for subquery in found(&node, &join.schema)? {
        let outer = outer_columns(&subquery.subquery)?;
        let mut near = outer.iter().filter(|column| join.schema.has_column(column));
        let inputs = [&join.left, &join.right];
        // What mentions neither side belongs to the one whose rows are all kept.
        let side = match near.clone().next() {
            None => usize::from(join.join_type == JoinType::Right),
            Some(first) => usize::from(!join.left.schema().has_column(first)),
        };
        if !near.all(|column| inputs[side].schema().has_column(column)) {
            continue;
        }
        if let Some((plan, value)) = with_value(&sides[side], inputs[side], &subquery, next)? {
            sides[side] = plan;
            values.push((subquery, value));
        }
    }
    if values.is_empty() {
        return Ok(Transformed::no(node));
    }
    let node = with_values(node, &values)?;
    let expressions = node.expressions();
    let node = node.with_new_exprs(expressions, sides.to_vec())?;
    Ok(Transformed::yes(LogicalPlanBuilder::from(node).project(columns)?.build()?))
}

/// The join of independent sides and the columns of it that count, if its right side mentions columns of the left one in a way that is
/// not left to DataFusion.
fn lateral(join: &Join, next: &mut usize) -> Result<Option<(Vec<Expr>, Join)>> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return Ok(None);
    }
    let left = join.left.schema();
    let outer: Vec<Column> =
        outer_columns(&join.right)?.into_iter().filter(|column| left.has_column(column)).collect();
    if outer.is_empty() || (join.join_type == JoinType::Inner && is_simple(&join.right, left)?) {
        return Ok(None);
    }
    let columns: Vec<Expr> =
        join.right.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
    let Some((right, keys)) = by_keys(&join.right, columns, &join.left, &outer, next)? else {
        return Ok(None);
    };
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    let filter = conjunction(equal.chain(join.filter.clone()));
    let columns = join.schema.iter().map(|field| Expr::Column(Column::from(field))).collect();
    let plan = LogicalPlanBuilder::from(join.left.as_ref().clone())
        .join_detailed(right, join.join_type, (outer, keys), filter, NullEquality::NullEqualsNull)?
        .build()?;
    match plan {
        LogicalPlan::Join(join) => Ok(Some((columns, join))),
        _ => internal_err!("a join became another node"),
    }
}

/// Whether DataFusion makes the right join of an item of FROM.
fn is_simple(item: &LogicalPlan, left: &DFSchema) -> Result<bool> {
    match item {
        LogicalPlan::SubqueryAlias(alias) => is_simple(&alias.input, left),
        LogicalPlan::Subquery(item) => is_pulled_up(&item.subquery, Role::Value, left),
        _ => Ok(false),
    }
}
