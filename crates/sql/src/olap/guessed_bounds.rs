//! Filters that keep estimates apart from facts.
//!
//! DataFusion's filter takes the least and the greatest value of a column, which are estimates here (rows come and go after them, and a
//! transaction's own rows are not among them), together with its condition, and where one value is left it takes the column for a constant: then a sort by it
//! is left out, and groups are told apart wrongly. So comparisons of other kinds than of a column with the constant that it equals are hidden
//! from that, and how many rows pass is estimated before. What is evaluated, and what EXPLAIN shows, stays the same.

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
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

/// The filter with its comparisons hidden; `None` if DataFusion takes nothing from them.
fn apart(filter: &FilterExec) -> Result<Option<FilterExec>> {
    let schema = filter.input().schema();
    if !check_support(filter.predicate(), &schema) {
        return Ok(None);
    }
    let terms = split_conjunction(filter.predicate()).into_iter();
    let terms = terms.map(|term| match is_fixed(term) {
        true => term.clone(),
        false => Arc::new(Hidden { condition: term.clone() }) as _,
    });
    let known = StatisticsContext::new().compute(filter.input().as_ref(), &StatisticsArgs::new())?;
    let bounds = AnalysisContext::try_from_statistics(&schema, &known.column_statistics)?;
    let passing = analyze(filter.predicate(), bounds, &schema)?.selectivity.unwrap_or(1.0);
    let percent = (passing * 100.0).ceil().clamp(1.0, 100.0) as u8;
    let builder = FilterExecBuilder::from(filter).with_predicate(conjunction(terms));
    builder.with_default_selectivity(percent).build().map(Some)
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
