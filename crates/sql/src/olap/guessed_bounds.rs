//! Filters that keep estimates apart from facts, and know better how many rows pass.
//!
//! DataFusion's filter takes the least and the greatest value of a column, which are estimates here (rows come and go after them, and a
//! transaction's own rows are not among them), together with its condition, and where one value is left it takes the column for a constant: then a sort by it
//! is left out, and groups are told apart wrongly. So comparisons of other kinds than of a column with the constant that it equals are hidden
//! from that, and how many rows pass is estimated before. What is evaluated, and what EXPLAIN shows, stays the same.
//!
//! Where bounds tell nothing, as of texts, a condition is tried on some rows of the table. And conditions that are quick come first.

use super::generic;
use super::scan::ScanExec;
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::utils::{conjunction, split_conjunction};
use datafusion::physical_expr::{AnalysisContext, PhysicalExpr, analyze};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::{StatisticsArgs, StatisticsContext};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Tables of fewer rows are not worth the tenth of a millisecond that a sample takes.
const ROWS_SAMPLED_MIN: usize = 1 << 16;
/// Rows of a sample: with so many, a share of one in a hundred is known to a third.
const SAMPLE_ROWS: usize = 1024;
/// Shares of rows that differ by so little are one to the planner.
const FEW_PERCENT: u8 = 2;

#[derive(Debug)]
pub(super) struct GuessedBounds;

impl PhysicalOptimizerRule for GuessedBounds {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|node| {
            let apart = node.downcast_ref::<FilterExec>().map(apart).transpose()?.flatten();
            Ok(match apart {
                Some(apart) => Transformed::yes(Arc::new(apart) as _),
                None => Transformed::no(node),
            })
        })?;
        Ok(changed.data)
    }

    fn name(&self) -> &str {
        "guessed_bounds"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The filter with its comparisons hidden, if DataFusion would take something from them, and with how many rows pass, if that is known.
fn apart(filter: &FilterExec) -> Result<Option<FilterExec>> {
    let schema = filter.input().schema();
    let terms = split_conjunction(filter.predicate()).into_iter();
    let terms = terms.map(|term| Term::of(term, &schema)).collect::<Result<Vec<_>>>()?;
    let known: Vec<_> = terms.iter().map(|term| term.known.clone()).collect();
    let percent = percent(filter, &known)?;
    let is_sampled = !known.iter().all(|term| check_support(term, &schema));
    let terms =
        quick_first(filter, terms)?.into_iter().map(|term| match is_sampled || is_fixed(&term.written) {
            true => term.written,
            false => Arc::new(Hidden { condition: term.written }) as _,
        });
    let builder = FilterExecBuilder::from(filter).with_predicate(conjunction(terms));
    builder.with_default_selectivity(percent).build().map(Some)
}

/// One of the conditions that a filter is made of.
struct Term {
    written: Arc<dyn PhysicalExpr>,
    /// With the values that the plan is made for in place of parameters.
    known: Arc<dyn PhysicalExpr>,
}

impl Term {
    fn of(written: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Term> {
        let known = generic::with_first_values(written, schema)?;
        Ok(Term { written: written.clone(), known: known.unwrap_or_else(|| written.clone()) })
    }
}

/// How many rows of a hundred pass all conditions.
fn percent(filter: &FilterExec, terms: &[Arc<dyn PhysicalExpr>]) -> Result<u8> {
    let schema = filter.input().schema();
    let (bounded, sampled): (Vec<_>, Vec<_>) =
        terms.iter().cloned().partition(|term| check_support(term, &schema));
    let of_sampled = match sampled.is_empty() {
        true => Some(1.0),
        false => passing_of_sample(filter.input(), &conjunction(sampled)),
    };
    Ok(match of_sampled {
        Some(share) => ((share * passing_by_bounds(filter, &bounded)? * 100.0).ceil() as u8).clamp(1, 100),
        None => filter.default_selectivity(),
    })
}

/// The filter of a generic plan with this condition, which has the values of a run. `None` if half or twice as many rows pass as with the values that the plan
/// is made for: another may be better then.
pub(super) fn with_condition(
    filter: &FilterExec,
    condition: Arc<dyn PhysicalExpr>,
) -> Result<Option<FilterExec>> {
    let terms: Vec<_> = split_conjunction(&condition).into_iter().map(revealed).cloned().collect();
    let (planned, now) = (filter.default_selectivity(), percent(filter, &terms)?);
    if planned.max(now) > 2 * planned.min(now) + FEW_PERCENT {
        return Ok(None);
    }
    let builder = FilterExecBuilder::from(filter).with_predicate(condition);
    builder.with_default_selectivity(planned).build().map(Some)
}

/// The conditions on a large table with those first that are quick, by how few rows pass them: the others are then evaluated for these rows
/// only. What may fail stays behind what stood before it.
fn quick_first(filter: &FilterExec, terms: Vec<Term>) -> Result<Vec<Term>> {
    let schema = filter.input().schema();
    if large(filter.input()).is_none() || terms.len() < 2 {
        return Ok(terms);
    }
    let (quick, others): (Vec<_>, Vec<_>) =
        terms.into_iter().partition(|term| is_quick(&term.known, &schema));
    let mut quick = quick
        .into_iter()
        .map(|term| Ok((passing_by_bounds(filter, std::slice::from_ref(&term.known))?, term)))
        .collect::<Result<Vec<_>>>()?;
    quick.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    Ok(quick.into_iter().map(|(_, term)| term).chain(others).collect())
}

/// Whether a condition compares columns and constants of a fixed width, which cannot fail.
fn is_quick(term: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> bool {
    let is_plain = |side: &Arc<dyn PhysicalExpr>| {
        (side.is::<Column>() || side.is::<Literal>())
            && side.data_type(schema).is_ok_and(|data_type| data_type.is_primitive())
    };
    let compared = term.downcast_ref::<BinaryExpr>().filter(|binary| is_comparison(*binary.op()));
    compared.is_some_and(|binary| is_plain(binary.left()) && is_plain(binary.right()))
        && check_support(term, schema)
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq};
    matches!(operator, Eq | Lt | LtEq | Gt | GtEq)
}

/// A scan of a table with so many rows that a look at some of them pays.
fn large(input: &Arc<dyn ExecutionPlan>) -> Option<&ScanExec> {
    input.downcast_ref::<ScanExec>().filter(|scan| scan.row_count() >= ROWS_SAMPLED_MIN)
}

/// The share of rows that pass conditions, by the least and the greatest values of columns.
fn passing_by_bounds(filter: &FilterExec, conditions: &[Arc<dyn PhysicalExpr>]) -> Result<f64> {
    let schema = filter.input().schema();
    let known = StatisticsContext::new().compute(filter.input().as_ref(), &StatisticsArgs::new())?;
    let bounds = AnalysisContext::try_from_statistics(&schema, &known.column_statistics)?;
    let condition = conjunction(conditions.iter().cloned());
    Ok(analyze(&condition, bounds, &schema)?.selectivity.unwrap_or(1.0))
}

/// The share of rows that pass a condition, by those of one block of a large table; `None` for other inputs, and where the condition costs more
/// than a look, or fails.
fn passing_of_sample(input: &Arc<dyn ExecutionPlan>, condition: &Arc<dyn PhysicalExpr>) -> Option<f64> {
    let scan = large(input)?;
    if !is_cheap(condition) {
        return None;
    }
    let sample = scan.sample(SAMPLE_ROWS).ok()?;
    let rows = sample.num_rows();
    let passed = condition.evaluate(&sample).ok()?.into_array(rows).ok()?;
    let passed = passed.as_boolean_opt()?.true_count();
    (rows > 0).then(|| passed as f64 / rows as f64)
}

/// Whether a condition is made of comparisons only, so that it can be tried beforehand.
fn is_cheap(condition: &Arc<dyn PhysicalExpr>) -> bool {
    let is_known = condition.is::<Column>()
        || condition.is::<Literal>()
        || condition.is::<BinaryExpr>()
        || condition.is::<InListExpr>()
        || condition.is::<IsNullExpr>()
        || condition.is::<IsNotNullExpr>()
        || condition.is::<LikeExpr>()
        || condition.is::<NotExpr>()
        || condition.is::<CastExpr>();
    is_known && condition.children().into_iter().all(is_cheap)
}

/// Whether a column equals a constant.
fn is_fixed(term: &Arc<dyn PhysicalExpr>) -> bool {
    let Some(compared) = term.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Eq)
    else {
        return false;
    };
    let (left, right) = (compared.left(), compared.right());
    left.is::<Column>() && right.is::<Literal>() || left.is::<Literal>() && right.is::<Column>()
}

/// The condition, where it is hidden.
pub(super) fn revealed(condition: &Arc<dyn PhysicalExpr>) -> &Arc<dyn PhysicalExpr> {
    condition.downcast_ref::<Hidden>().map_or(condition, |hidden| &hidden.condition)
}

/// A condition that is not looked into.
#[derive(Debug)]
struct Hidden {
    condition: Arc<dyn PhysicalExpr>,
}

impl PartialEq for Hidden {
    fn eq(&self, other: &Hidden) -> bool {
        self.condition.eq(&other.condition)
    }
}

impl Eq for Hidden {}

impl Hash for Hidden {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PhysicalExpr for Hidden {
    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.condition.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Hidden { condition: children.swap_remove(0) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}
