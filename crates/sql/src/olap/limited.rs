//! LIMIT and OFFSET in subqueries that depend on the query around them.
//!
//! Such a subquery is run for each row of the outer query, and its LIMIT counts the rows of each run. DataFusion makes a join of
//! it, in which rows of all runs come together, and has no plan where they are counted. But what the subquery is asked for
//! nearly always is a key (`i.k = o.k`), so the rows of a run are those of a key, and can be numbered:
//! ```text
//! SELECT v FROM i WHERE i.k = o.k AND v > 0 ORDER BY v LIMIT 2 OFFSET 1
//!
//! SELECT v FROM (SELECT *, i.k AS key, row_number() OVER (PARTITION BY i.k ORDER BY v) AS number FROM i WHERE v > 0)
//! WHERE number > 1 AND number <= 3 AND key = o.k
//! ```
//! The condition on the outer query is above the numbers then, where DataFusion looks for it. What depends on the outer query
//! in another way is left as it is, and unnested ([`dependent`](super::dependent)).
//!
//! A derived table that has such a condition within gets it above, too: DataFusion loses the key below the table's name.

use super::error::external;
use super::single::gives_one_row;
use ankerdb_engine::{Error, SqlState};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{BinaryExpr, Sort as SortKey};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, Filter, Limit, LogicalPlan, LogicalPlanBuilder, Operator,
    Projection, SubqueryAlias, lit,
};
use std::sync::Arc;

/// In front of the names of keys and numbers; no client can write it.
const HIDDEN: &str = "\0limited ";

/// The plan, whose subqueries number their rows where a LIMIT counts those of one row of the outer query.
pub(super) fn numbered(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut names = 0;
    let rewritten = plan.transform_up_with_subqueries(|node| {
        if node.inputs().iter().all(|input| input.all_out_ref_exprs().is_empty()) {
            return Ok(Transformed::no(node));
        }
        let lifting = Lifting { names: &mut names, terms: Vec::new() };
        Ok(match node {
            // What is not a key's is unnested later.
            LogicalPlan::Limit(limit) => match lifting.limit(limit.clone()) {
                Ok(limited) => Transformed::yes(limited),
                Err(_) => Transformed::no(LogicalPlan::Limit(limit)),
            },
            LogicalPlan::Sort(sort) if gives_one_row(&sort.input) => {
                Transformed::yes(Arc::unwrap_or_clone(sort.input))
            }
            LogicalPlan::SubqueryAlias(alias) => match lifting.derived(&alias) {
                Ok(derived) => Transformed::yes(derived),
                Err(_) => Transformed::no(LogicalPlan::SubqueryAlias(alias)),
            },
            other => Transformed::no(other),
        })
    })?;
    Ok(rewritten.data)
}

/// The count, `None` for all rows.
pub(super) fn count(expression: Option<&Expr>) -> Result<Option<u64>> {
    match expression {
        None | Some(Expr::Literal(ScalarValue::Int64(None) | ScalarValue::Null, _)) => Ok(None),
        Some(Expr::Literal(ScalarValue::Int64(Some(count @ 0..)), _)) => Ok(Some(count.unsigned_abs())),
        Some(_) => Err(refusal("It is no constant.")),
    }
}

/// A count that is none.
fn refusal(detail: &'static str) -> DataFusionError {
    let message = "this LIMIT or OFFSET of a subquery that depends on the query around it is not supported";
    external(Error::new(SqlState::FeatureNotSupported, message).with_detail(detail))
}

/// Nobody is told: what cannot be lifted is left.
fn not_by_equality() -> DataFusionError {
    DataFusionError::Plan("it depends on the outer query otherwise than by equalities".to_owned())
}

/// Takes the conditions on the outer query out of a plan.
struct Lifting<'a> {
    /// How many names were given.
    names: &'a mut usize,
    /// Names of key columns, and what of the outer query they are equal to.
    terms: Vec<(String, Expr)>,
}

impl Lifting<'_> {
    fn limit(mut self, limit: Limit) -> Result<LogicalPlan> {
        let (skip, fetch) = (count(limit.skip.as_deref())?.unwrap_or(0), count(limit.fetch.as_deref())?);
        let input = limit.input;
        let is_all = skip == 0 && (fetch.is_none() || (fetch != Some(0) && gives_one_row(&input)));
        if is_all {
            return Ok(Arc::unwrap_or_clone(input));
        }
        if fetch == Some(0) {
            return Ok(LogicalPlan::Filter(Filter::try_new(lit(false), input)?));
        }
        let (columns, order, rows) = sorted(&input);
        if order.iter().any(|key| key.expr.contains_outer()) {
            return Err(not_by_equality());
        }
        let rows = self.lifted(rows.clone())?;
        let keys = self.keys(&rows, 0)?;
        let number = self.name();
        let numbers = row_number().partition_by(keys);
        let numbers = if order.is_empty() { numbers } else { numbers.order_by(order) };
        let numbers = numbers.build()?.alias(number.clone());
        let rows = LogicalPlanBuilder::from(rows).window([numbers])?.build()?;
        let number = column(&rows, &number)?;
        let mut wanted = vec![number.clone().gt(lit(skip))];
        wanted.extend(fetch.map(|fetch| number.lt_eq(lit(skip.saturating_add(fetch)))));
        let counted = conjunction(wanted).unwrap_or_else(|| lit(true));
        let rows = LogicalPlanBuilder::from(rows).filter(counted)?.build()?;
        self.asked(rows, columns)
    }

    fn derived(mut self, alias: &SubqueryAlias) -> Result<LogicalPlan> {
        let columns = alias.schema.iter().map(|field| Expr::Column(Column::from(field))).collect();
        let input = self.lifted(alias.input.as_ref().clone())?;
        let rows = LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build()?;
        self.asked(rows, columns)
    }

    /// Columns of those rows whose keys the outer query asks for.
    fn asked(self, rows: LogicalPlan, columns: Vec<Expr>) -> Result<LogicalPlan> {
        let keys = self.keys(&rows, 0)?;
        let outer = self.terms.into_iter().map(|(_, outer)| outer);
        let asked = conjunction(keys.into_iter().zip(outer).map(|(key, outer)| key.eq(outer)));
        let asked = asked.unwrap_or_else(|| lit(true));
        LogicalPlanBuilder::from(rows).filter(asked)?.project(columns)?.build()
    }

    fn name(&mut self) -> String {
        *self.names += 1;
        format!("{HIDDEN}{}", self.names)
    }

    /// The key columns of a plan, from that term on.
    fn keys(&self, plan: &LogicalPlan, from: usize) -> Result<Vec<Expr>> {
        self.terms[from..].iter().map(|(name, _)| column(plan, name)).collect()
    }

    /// The plan for all keys, with a column for each of them.
    fn lifted(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if plan.all_out_ref_exprs().is_empty() {
            return Ok(plan);
        }
        let known = self.terms.len();
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(Projection { mut expr, input, .. }) => {
                let input = self.lifted(Arc::unwrap_or_clone(input))?;
                expr.extend(self.keys(&input, known)?);
                independent(&expr)?;
                LogicalPlanBuilder::from(input).project(expr)?.build()
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = self.lifted(Arc::unwrap_or_clone(alias.input))?;
                LogicalPlanBuilder::from(input).alias(alias.alias)?.build()
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = self.lifted(Arc::unwrap_or_clone(input))?;
                LogicalPlanBuilder::from(input).distinct()?.build()
            }
            LogicalPlan::Aggregate(Aggregate { input, mut group_expr, aggr_expr, .. })
                if !group_expr.is_empty()
                    && !group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) =>
            {
                let input = self.lifted(Arc::unwrap_or_clone(input))?;
                group_expr.extend(self.keys(&input, known)?);
                independent(&group_expr)?;
                independent(&aggr_expr)?;
                let aggregate = Aggregate::try_new(Arc::new(input), group_expr, aggr_expr)?;
                Ok(LogicalPlan::Aggregate(aggregate))
            }
            _ => Err(not_by_equality()),
        }
    }

    /// The rows that satisfy what depends on them alone, with the keys that the other terms compare.
    fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        let input = self.lifted(Arc::unwrap_or_clone(filter.input))?;
        let (outer, own): (Vec<Expr>, Vec<Expr>) =
            split_conjunction_owned(filter.predicate).into_iter().partition(Expr::contains_outer);
        let mut computed: Vec<Expr> =
            input.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
        for term in outer {
            let (key, outer) = equal(term).ok_or_else(not_by_equality)?;
            let name = self.name();
            computed.push(key.alias(name.clone()));
            self.terms.push((name, outer));
        }
        let mut rows = LogicalPlanBuilder::from(input);
        if let Some(own) = conjunction(own) {
            rows = rows.filter(own)?;
        }
        rows.project(computed)?.build()
    }
}

/// Whether the expressions depend on the rows below them alone.
fn independent(expressions: &[Expr]) -> Result<()> {
    match expressions.iter().any(Expr::contains_outer) {
        true => Err(not_by_equality()),
        false => Ok(()),
    }
}

/// What the plan gives, in which order, and of which rows.
pub(super) fn sorted(plan: &LogicalPlan) -> (Vec<Expr>, Vec<SortKey>, &LogicalPlan) {
    let all = || plan.schema().iter().map(|field| Expr::Column(Column::from(field))).collect();
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (all(), sort.expr.clone(), &sort.input),
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                (projection.expr.clone(), sort.expr.clone(), &sort.input)
            }
            _ => (all(), Vec::new(), plan),
        },
        _ => (all(), Vec::new(), plan),
    }
}

/// The sides of an equality between rows of the subquery and the outer query.
fn equal(term: Expr) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = term else { return None };
    let is_key = |side: &Expr| side.any_column_refs() && !side.contains_outer();
    let is_outer = |side: &Expr| side.contains_outer() && !side.any_column_refs();
    match (is_key(&left) && is_outer(&right), is_outer(&left) && is_key(&right)) {
        (true, _) => Some((*left, *right)),
        (_, true) => Some((*right, *left)),
        _ => None,
    }
}

/// The column of that name, which no other has.
fn column(plan: &LogicalPlan, name: &str) -> Result<Expr> {
    let (qualifier, field) = plan.schema().qualified_field_with_unqualified_name(name)?;
    Ok(Expr::Column(Column::from((qualifier, field))))
}
