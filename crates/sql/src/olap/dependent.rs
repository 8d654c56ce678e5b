//! Subqueries that stand for a value and depend on the query around them otherwise than by equalities.
//!
//! DataFusion makes a join of a subquery by pulling its equalities with outer columns up into the join's condition, and refuses
//! what has others: `a <> o.b`, a condition on outer columns alone, an outer column in the select list. Such a subquery is
//! computed once for each combination of the outer columns that it mentions, as in Neumann and Kemper, Unnesting Arbitrary
//! Queries (BTW 2015), section 3:
//! ```text
//! SELECT (SELECT f(i.x, o.c) FROM i WHERE i.a <> o.b) FROM o
//!
//! d = SELECT DISTINCT b, c FROM o
//! SELECT v FROM o LEFT JOIN (SELECT d.b, d.c, f(i.x, d.c) AS v FROM d, i WHERE i.a <> d.b) ON o.b = d.b AND o.c = d.c
//! ```
//! with NULLs equal in the join. Aggregates are grouped by d, and those without groups give a row for each row of d.
//!
//! The outer query is computed twice. Subqueries with a LIMIT, windows, set operations, or outer columns on both sides of a join
//! are left as they are.

use super::names::HIDDEN;
use super::single::gives_one_row;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{expr_to_columns, split_conjunction};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit};
use std::collections::{HashMap, HashSet};

/// The plan without such subqueries.
pub(super) fn independent(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut next = 0;
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => unnested(node, &mut next),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// The node over its input joined with what its subqueries give.
fn unnested(node: LogicalPlan, next: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let mut found: Vec<Subquery> = Vec::new();
    node.apply_expressions(|expression| {
        expression.apply(|part| {
            if let Expr::ScalarSubquery(subquery) = part
                && !found.contains(subquery)
                && is_dependent(&subquery.subquery)?
            {
                found.push(subquery.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let Some(input) = node.inputs().first().map(|input| (*input).clone()) else {
        return Ok(Transformed::no(node));
    };
    let columns: Vec<Expr> = input.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
    let (mut joined, mut values) = (input.clone(), Vec::new());
    for subquery in found {
        *next += 1;
        if let Some((plan, value)) = join(&joined, &input, &subquery, *next)? {
            joined = plan;
            values.push((subquery, value));
        }
    }
    if values.is_empty() {
        return Ok(Transformed::no(node));
    }
    let is_filter = matches!(node, LogicalPlan::Filter(_));
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
    let expressions = replaced.data.expressions();
    let node = replaced.data.with_new_exprs(expressions, vec![joined])?;
    Ok(Transformed::yes(match is_filter {
        true => LogicalPlanBuilder::from(node).project(columns)?.build()?,
        false => node,
    }))
}

/// Whether the subquery has outer columns elsewhere than in equalities, which DataFusion pulls up.
fn is_dependent(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let terms = split_conjunction(&filter.predicate);
            found |= terms.into_iter().any(|term| term.contains_outer() && !is_pulled_up(term));
        } else {
            node.apply_expressions(|expression| {
                found |= expression.contains_outer();
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// An equality between something of the subquery and something outside.
fn is_pulled_up(term: &Expr) -> bool {
    let Expr::BinaryExpr(binary) = term else { return false };
    let is_outer = |side: &Expr| side.contains_outer() && !has_column(side);
    let is_inner = |side: &Expr| !side.contains_outer() && has_column(side);
    let sides = (&*binary.left, &*binary.right);
    binary.op == Operator::Eq
        && (is_outer(sides.0) && is_inner(sides.1) || is_outer(sides.1) && is_inner(sides.0))
}

fn has_column(expression: &Expr) -> bool {
    let mut columns = HashSet::new();
    expr_to_columns(expression, &mut columns).is_ok() && !columns.is_empty()
}

/// `joined` with a column for the subquery's value, and that column; `input` is what the subquery's outer columns are of.
fn join(
    joined: &LogicalPlan,
    input: &LogicalPlan,
    subquery: &Subquery,
    number: usize,
) -> Result<Option<(LogicalPlan, Column)>> {
    if !gives_one_row(&subquery.subquery) || subquery.subquery.schema().fields().len() != 1 {
        return Ok(None);
    }
    let outer = outer_columns(&subquery.subquery, input.schema())?;
    if outer.is_empty() {
        return Ok(None);
    }
    let name = |position: usize| format!("{HIDDEN}outer {number} {position}");
    let keys =
        outer.iter().enumerate().map(|(position, column)| Expr::Column(column.clone()).alias(name(position)));
    let keys = LogicalPlanBuilder::from(input.clone()).project(keys)?.distinct()?.build()?;
    let places = outer.iter().enumerate();
    let places =
        places.map(|(position, column)| (column.clone(), Column::new_unqualified(name(position)))).collect();
    let Some((plan, places)) = (Unnesting { keys }).over(&subquery.subquery, places)? else {
        return Ok(None);
    };
    let value = format!("{HIDDEN}value {number}");
    let found = subquery.subquery.schema().qualified_field(0);
    let mut columns = vec![Expr::Column(Column::from(found)).alias(value.clone())];
    let inner_name = |position: usize| format!("{HIDDEN}inner {number} {position}");
    for (position, column) in outer.iter().enumerate() {
        columns.push(Expr::Column(places[column].clone()).alias(inner_name(position)));
    }
    let inner_keys = (0..outer.len()).map(|position| Column::new_unqualified(inner_name(position))).collect();
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    let keys: (Vec<Column>, Vec<Column>) = (outer, inner_keys);
    let plan = LogicalPlanBuilder::from(joined.clone())
        .join_detailed(plan, JoinType::Left, keys, None, NullEquality::NullEqualsNull)?
        .build()?;
    Ok(Some((plan, Column::new_unqualified(value))))
}

/// The columns of the outer query that the plan mentions.
fn outer_columns(plan: &LogicalPlan, outer: &DFSchemaRef) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::OuterReferenceColumn(_, column) = part
                    && outer.has_column(column)
                    && !columns.contains(column)
                {
                    columns.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

/// Which column of a plan has the value of an outer column.
type Places = HashMap<Column, Column>;

/// A plan that has columns for outer ones, and which.
type Unnested = Option<(LogicalPlan, Places)>;

struct Unnesting {
    /// The combinations of outer columns.
    keys: LogicalPlan,
}

impl Unnesting {
    /// The plan once for each combination; `None` if it cannot be. `places`: the columns of the combinations themselves.
    fn over(&self, plan: &LogicalPlan, places: Places) -> Result<Unnested> {
        if !mentions(plan, &places)? {
            let both = LogicalPlanBuilder::from(self.keys.clone()).cross_join(plan.clone())?.build()?;
            return Ok(Some((both, places)));
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let Some((input, places)) = self.over(&projection.input, places)? else { return Ok(None) };
                let mut columns = replaced_all(&projection.expr, &places)?;
                columns.extend(places.values().map(|place| Expr::Column(place.clone())));
                Ok(Some((LogicalPlanBuilder::from(input).project(columns)?.build()?, places)))
            }
            LogicalPlan::Filter(filter) => {
                let Some((input, places)) = self.over(&filter.input, places)? else { return Ok(None) };
                let condition = replaced(filter.predicate.clone(), &places)?;
                Ok(Some((LogicalPlanBuilder::from(input).filter(condition)?.build()?, places)))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some((input, places)) = self.over(&alias.input, places)? else { return Ok(None) };
                let plan = LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build()?;
                let qualified = |(outer, place): (Column, Column)| {
                    (outer, Column::new(Some(alias.alias.clone()), place.name))
                };
                Ok(Some((plan, places.into_iter().map(qualified).collect())))
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Some((input, places)) = self.over(input, places)? else { return Ok(None) };
                Ok(Some((LogicalPlanBuilder::from(input).distinct()?.build()?, places)))
            }
            // An item of FROM that mentions outer columns.
            LogicalPlan::Subquery(item) => self.over(&item.subquery, places),
            LogicalPlan::Unnest(unnest) => {
                let Some((input, places)) = self.over(&unnest.input, places)? else { return Ok(None) };
                let (columns, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                let plan = LogicalPlanBuilder::from(input).unnest_columns_with_options(columns, options)?;
                Ok(Some((plan.build()?, places)))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.over(&sort.input, places),
            LogicalPlan::Join(join) => self.over_join(plan, &join.left, &join.right, join.join_type, places),
            LogicalPlan::Aggregate(aggregate) => {
                let Some((input, inner)) = self.over(&aggregate.input, places.clone())? else {
                    return Ok(None);
                };
                let mut groups = replaced_all(&aggregate.group_expr, &inner)?;
                let is_whole = groups.is_empty();
                groups.extend(inner.values().map(|place| Expr::Column(place.clone())));
                let calls = replaced_all(&aggregate.aggr_expr, &inner)?;
                let plan = LogicalPlanBuilder::from(input).aggregate(groups, calls)?.build()?;
                match is_whole {
                    true => self.with_empty_groups(plan, aggregate, places, &inner).map(Some),
                    false => Ok(Some((plan, inner))),
                }
            }
            _ => Ok(None),
        }
    }

    /// One side of the join gets the combinations, which is the one that mentions outer columns.
    fn over_join(
        &self,
        whole: &LogicalPlan,
        left: &LogicalPlan,
        right: &LogicalPlan,
        kind: JoinType,
        places: Places,
    ) -> Result<Unnested> {
        let (in_left, in_right) = (mentions(left, &places)?, mentions(right, &places)?);
        let is_left = match (in_left, in_right) {
            (true, true) => return Ok(None),
            (_, false) => true,
            (false, true) => false,
        };
        let is_possible = match kind {
            JoinType::Inner => true,
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => is_left,
            _ => false,
        };
        if !is_possible {
            return Ok(None);
        }
        let Some((side, places)) = self.over(if is_left { left } else { right }, places)? else {
            return Ok(None);
        };
        let inputs = if is_left { vec![side, right.clone()] } else { vec![left.clone(), side] };
        let expressions = replaced_all(&whole.expressions(), &places)?;
        Ok(Some((whole.with_new_exprs(expressions, inputs)?, places)))
    }

    /// An aggregate without groups has a result for no rows, too: that of a count is zero, the others' NULL.
    fn with_empty_groups(
        &self,
        plan: LogicalPlan,
        aggregate: &datafusion::logical_expr::Aggregate,
        places: Places,
        inner: &Places,
    ) -> Result<(LogicalPlan, Places)> {
        let (outer, found): (Vec<Column>, Vec<Column>) =
            places.iter().map(|(outer, place)| (place.clone(), inner[outer].clone())).unzip();
        let renamed = |position: usize| Column::new_unqualified(format!("{HIDDEN}group {position}"));
        let mut columns: Vec<Expr> = (found.into_iter().enumerate())
            .map(|(position, column)| Expr::Column(column).alias(renamed(position).name))
            .collect();
        columns.extend(aggregate.schema.iter().map(|field| Expr::Column(Column::from(field))));
        let groups = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        let keys: (Vec<Column>, Vec<Column>) = (outer.clone(), (0..outer.len()).map(renamed).collect());
        let joined = LogicalPlanBuilder::from(self.keys.clone())
            .join_detailed(groups, JoinType::Left, keys, None, NullEquality::NullEqualsNull)?
            .build()?;
        let mut columns: Vec<Expr> = outer.into_iter().map(Expr::Column).collect();
        for (call, field) in aggregate.aggr_expr.iter().zip(aggregate.schema.iter()) {
            let column = Expr::Column(Column::from(field));
            columns.push(match is_count(call) {
                true => {
                    let zero = lit(ScalarValue::Int64(Some(0)));
                    let count = datafusion::functions::core::expr_fn::coalesce(vec![column, zero]);
                    count.alias_qualified(field.0.cloned(), field.1.name().clone())
                }
                false => column,
            });
        }
        Ok((LogicalPlanBuilder::from(joined).project(columns)?.build()?, places))
    }
}

fn is_count(call: &Expr) -> bool {
    match call {
        Expr::Alias(alias) => is_count(&alias.expr),
        Expr::AggregateFunction(function) => function.func.name() == "count",
        _ => false,
    }
}

/// Whether the plan mentions one of the outer columns.
fn mentions(plan: &LogicalPlan, places: &Places) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                found |= matches!(part, Expr::OuterReferenceColumn(_, column) if places.contains_key(column));
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn replaced_all(expressions: &[Expr], places: &Places) -> Result<Vec<Expr>> {
    expressions.iter().map(|expression| replaced(expression.clone(), places)).collect()
}

/// The expression with columns of the plan in place of outer ones, under the name that it had.
fn replaced(expression: Expr, places: &Places) -> Result<Expr> {
    let name = expression.schema_name().to_string();
    let qualified = expression.qualified_name();
    let replaced = expression.transform(|part| match &part {
        Expr::OuterReferenceColumn(_, column) => match places.get(column) {
            Some(place) => Ok(Transformed::yes(Expr::Column(place.clone()))),
            None => Ok(Transformed::no(part)),
        },
        _ => Ok(Transformed::no(part)),
    })?;
    Ok(match replaced.transformed && replaced.data.schema_name().to_string() != name {
        true => replaced.data.alias_qualified(qualified.0, qualified.1),
        false => replaced.data,
    })
}
