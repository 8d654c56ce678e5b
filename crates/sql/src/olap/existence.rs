//! EXISTS and IN (SELECT ...) as values, and subqueries where DataFusion has no place for them.
//!
//! DataFusion runs them as conditions only, by joins that know found and not found. Anywhere else (`SELECT EXISTS (...)`,
//! in a CASE, below NOT) they become scalar subqueries, which it can run:
//! ```text
//! EXISTS (q)    (SELECT count(*) > 0 FROM (q)) IS TRUE
//! x IN (q)      CASE WHEN EXISTS (q with y = x) THEN true
//!                    WHEN x IS NULL AND EXISTS (q) OR EXISTS (q with y IS NULL) THEN NULL
//!                    ELSE false END
//! ```
//! where y is the column of q. The second is IN's logic of three values: no match, but a NULL on either side, is unknown.
//! A condition for which unknown is as good as false stays one, unless DataFusion would make the wrong join of it, or none
//! (`correlation`). Comparisons with ANY and ALL are in `quantified_subquery`.
//!
//! Subqueries in the arguments of aggregates are computed by a projection below, those in the condition of an inner join by
//! a filter above, those in the condition of an outer join and in operands of others as `lifted` says.

use super::correlation::{Role, as_subquery, has_subquery, is_pulled_up};
use super::lifted;
use super::quantified_subquery::{self, Extremes};
use super::written;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, Spans};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_all;
use datafusion::logical_expr::expr::{BinaryExpr, Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, when,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// The name of a subquery that is compared with; no client can write it.
const APART: &str = "\0subquery";
/// In front of the names of what a projection computes for an aggregate; no client can write it.
const ARGUMENT: &str = "\0argument ";

/// The plan with scalar subqueries in place of the others, but for conditions.
pub(super) fn as_values(plan: LogicalPlan, extremes: &Extremes) -> Result<LogicalPlan> {
    let settle = |node: LogicalPlan| settled(node, extremes);
    let rewritten = plan.transform_up_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::Projection(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Filter(_) => Transformed::yes(lifted::operands(node, &settle)?),
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
                Transformed::yes(filtered_above(join, &settle)?)
            }
            LogicalPlan::Join(join) => Transformed::yes(lifted::sides(join, &settle)?),
            other => Transformed::no(other),
        })
    })?;
    Ok(rewritten.data)
}

/// A node in whose expressions each subquery can be computed where it stands.
fn settled(node: LogicalPlan, extremes: &Extremes) -> Result<LogicalPlan> {
    match node {
        LogicalPlan::Aggregate(_) => match values(node, extremes)? {
            LogicalPlan::Aggregate(aggregate) => computed_below(aggregate),
            other => Ok(other),
        },
        LogicalPlan::Filter(filter) => Ok(LogicalPlan::Filter(filtered(filter, extremes)?)),
        other => values(other, extremes),
    }
}

/// A node whose expressions are values.
fn values(node: LogicalPlan, extremes: &Extremes) -> Result<LogicalPlan> {
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    let rewritten = node.map_expressions(|expression| {
        let name = names.save(&expression);
        let rewritten = value(expression, &schema, extremes)?;
        Ok(rewritten.update_data(|expression| name.restore(expression)))
    })?;
    Ok(rewritten.data)
}

fn value(expression: Expr, schema: &DFSchema, extremes: &Extremes) -> Result<Transformed<Expr>> {
    expression.transform_up(|part| as_value(part, schema, extremes))
}

fn filtered(mut filter: Filter, extremes: &Extremes) -> Result<Filter> {
    let schema = filter.input.schema().clone();
    let terms = split_conjunction_owned(filter.predicate);
    let terms =
        terms.into_iter().map(|term| condition(term, &schema, extremes, true)).collect::<Result<Vec<_>>>()?;
    filter.predicate = conjunction(terms).unwrap_or_else(|| lit(true));
    Ok(filter)
}

/// A condition for which unknown is as good as false. `alone`: whether it is a term of its own, for which joins know NOT IN.
fn condition(expression: Expr, schema: &DFSchema, extremes: &Extremes, alone: bool) -> Result<Expr> {
    Ok(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let left = Box::new(condition(*left, schema, extremes, false)?);
            let right = Box::new(condition(*right, schema, extremes, false)?);
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::Exists(Exists { subquery, negated }) => {
            let subquery = without_limit(subquery);
            let exists = Expr::Exists(Exists { subquery, negated });
            if is_joined(&exists, schema)? { exists } else { value(exists, schema, extremes)?.data }
        }
        // What is the same for all rows would be compared on the other side of the join, where the NULLs are lost that NOT IN needs;
        // and its join compares nothing else.
        Expr::InSubquery(InSubquery { ref expr, ref subquery, negated })
            if is_joined(&expression, schema)?
                && (!negated || (alone && is_of_rows(expr) && subquery.outer_ref_columns.is_empty())) =>
        {
            let expr = Box::new(value(expr.as_ref().clone(), schema, extremes)?.data);
            Expr::InSubquery(InSubquery { expr, subquery: subquery.clone(), negated })
        }
        other => value(other, schema, extremes)?.data,
    })
}

/// Whether the value is one of each row's, and does not turn out to be a constant when it has its types and is simplified, as `NULL + i`,
/// `i * 0` and `COALESCE(1, i)` do.
fn is_of_rows(value: &Expr) -> bool {
    let operands = match value {
        Expr::Column(_) => return true,
        Expr::Alias(alias) => return is_of_rows(&alias.expr),
        Expr::Cast(cast) => return is_of_rows(&cast.expr),
        Expr::Negative(operand) => return is_of_rows(operand),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
            [&**left, &**right]
        }
        Expr::ScalarFunction(call) => match (written::operator(call), call.args.as_slice()) {
            (Some("+" | "-"), [left, right]) => [left, right],
            _ => return false,
        },
        _ => return false,
    };
    let is_constant = |operand: &Expr| matches!(operand, Expr::Literal(value, _) if !value.is_null());
    operands.into_iter().any(is_of_rows)
        && operands.into_iter().all(|operand| is_of_rows(operand) || is_constant(operand))
}

/// Whether DataFusion makes the right join of EXISTS or IN in a condition over columns of `schema`.
fn is_joined(expression: &Expr, schema: &DFSchema) -> Result<bool> {
    as_subquery(expression)
        .map_or(Ok(true), |subquery| is_pulled_up(&subquery.subquery, Role::Condition, schema))
}

/// A subquery of EXISTS without a limit, which makes no difference unless it is zero.
fn without_limit(subquery: Subquery) -> Subquery {
    let LogicalPlan::Limit(limit) = subquery.subquery.as_ref() else { return subquery };
    let is_some = match limit.fetch.as_deref() {
        None => true,
        Some(Expr::Literal(value, _)) => value.is_null() || matches!(value, ScalarValue::Int64(Some(1..))),
        Some(_) => false,
    };
    match is_some && limit.skip.is_none() {
        true => subquery.with_plan(limit.input.clone()),
        false => subquery,
    }
}

fn as_value(part: Expr, schema: &DFSchema, extremes: &Extremes) -> Result<Transformed<Expr>> {
    Ok(match part {
        Expr::Exists(Exists { subquery, negated }) => {
            let exists = exists(&without_limit(subquery), None)?;
            Transformed::yes(if negated { Expr::Not(Box::new(exists)) } else { exists })
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let is_in = is_in(*expr, &subquery, schema)?;
            Transformed::yes(if negated { Expr::Not(Box::new(is_in)) } else { is_in })
        }
        Expr::SetComparison(comparison) => {
            Transformed::yes(quantified_subquery::as_value(comparison, schema, extremes)?)
        }
        other => Transformed::no(other),
    })
}

/// Whether the subquery has rows, of those that satisfy the condition if there is one. The condition comes with the
/// columns of the outer query that it names.
pub(super) fn exists(subquery: &Subquery, condition: Option<(Expr, Vec<Expr>)>) -> Result<Expr> {
    let mut outer = subquery.outer_ref_columns.clone();
    let mut rows = LogicalPlanBuilder::from(subquery.subquery.clone());
    if let Some((condition, named)) = condition {
        outer.extend(named);
        rows = rows.filter(condition)?;
    }
    if outer.is_empty() {
        // One row is as good as many. (What depends on the outer query becomes a join, which counts per group.)
        rows = rows.limit(0, Some(1))?;
    }
    let counted = rows.aggregate(Vec::<Expr>::new(), vec![count_all()])?.build()?;
    let count = Expr::Column(Column::from(counted.schema().qualified_field(0)));
    let some = LogicalPlanBuilder::from(counted).project(vec![count.gt(lit(0i64))])?.build()?;
    let value = Subquery { subquery: Arc::new(some), outer_ref_columns: outer, spans: Spans::new() };
    Ok(Expr::ScalarSubquery(value).is_true())
}

/// The subquery under a name of its own: what the condition compares may be columns of one table, in and around it, which
/// DataFusion would take for the same.
pub(super) fn apart(subquery: &Subquery) -> Result<Subquery> {
    let named = LogicalPlanBuilder::from(subquery.subquery.clone()).alias(APART)?.build()?;
    Ok(subquery.with_plan(Arc::new(named)))
}

/// `value IN (subquery)`, over columns of `schema`.
pub(super) fn is_in(value: Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Expr> {
    let subquery = &apart(subquery)?;
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let (outer, named) = outer_value(value.clone(), schema)?;
    let matches = exists(subquery, Some((column.clone().eq(outer), named)))?;
    let unknown = (value.is_null().and(exists(subquery, None)?))
        .or(exists(subquery, Some((column.is_null(), Vec::new())))?);
    when(matches, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))
}

/// An expression over columns of `schema` as a subquery mentions it, with those columns.
pub(super) fn outer_value(value: Expr, schema: &DFSchema) -> Result<(Expr, Vec<Expr>)> {
    let mut named = Vec::new();
    let outer = value.transform_up(|part| match part {
        Expr::Column(column) => {
            let field = Arc::clone(schema.qualified_field_from_column(&column)?.1);
            let outer = Expr::OuterReferenceColumn(field, column);
            named.push(outer.clone());
            Ok(Transformed::yes(outer))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok((outer.data, named))
}

/// The aggregate over a projection that computes its arguments and groups with subqueries.
fn computed_below(aggregate: Aggregate) -> Result<LogicalPlan> {
    let mut computed = Vec::new();
    let mut below = |expression: &mut Expr| -> Result<()> {
        if has_subquery(expression)? {
            let name = format!("{ARGUMENT}{}", computed.len());
            let argument = std::mem::replace(expression, Expr::Column(Column::from_name(name.clone())));
            computed.push(argument.alias(name));
        }
        Ok(())
    };
    let mut groups = Vec::with_capacity(aggregate.group_expr.len());
    for mut group in aggregate.group_expr {
        let name = group.schema_name().to_string();
        if !matches!(group, Expr::GroupingSet(_)) {
            below(&mut group)?;
        }
        groups.push(if group.schema_name().to_string() == name { group } else { group.alias(name) });
    }
    let mut functions = Vec::with_capacity(aggregate.aggr_expr.len());
    for whole in &aggregate.aggr_expr {
        let name = whole.schema_name().to_string();
        let changed = whole.clone().transform_up(|part| match part {
            Expr::AggregateFunction(mut function) => {
                function.params.args.iter_mut().try_for_each(&mut below)?;
                function.params.filter.as_deref_mut().map(&mut below).transpose()?;
                function.params.order_by.iter_mut().try_for_each(|order| below(&mut order.expr))?;
                Ok(Transformed::yes(Expr::AggregateFunction(function)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        functions.push(match changed.data {
            same if same.schema_name().to_string() == name => same,
            renamed => renamed.alias(name),
        });
    }
    if computed.is_empty() {
        return Aggregate::try_new(aggregate.input, groups, functions).map(LogicalPlan::Aggregate);
    }
    let input = aggregate.input.as_ref().clone();
    let columns = input.schema().iter().map(|field| Expr::Column(Column::from(field)));
    let computed: Vec<Expr> = columns.chain(computed).collect();
    let input = LogicalPlanBuilder::from(input).project(computed)?.build()?;
    Aggregate::try_new(Arc::new(input), groups, functions).map(LogicalPlan::Aggregate)
}

/// The join with those of its conditions that have subqueries above it.
fn filtered_above(
    mut join: Join,
    settle: &dyn Fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let mut above = Vec::new();
    let mut within = Vec::new();
    for term in join.filter.take().map(split_conjunction_owned).unwrap_or_default() {
        if has_subquery(&term)? { above.push(term) } else { within.push(term) }
    }
    join.filter = conjunction(within);
    match conjunction(above) {
        None => Ok(LogicalPlan::Join(join)),
        Some(predicate) => {
            let filter = Filter::try_new(predicate, Arc::new(LogicalPlan::Join(join)))?;
            lifted::operands(LogicalPlan::Filter(filter), settle)
        }
    }
}
