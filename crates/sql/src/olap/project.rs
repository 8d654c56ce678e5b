//! Keeps computations above the filters that decide which rows they are made for.
//!
//! DataFusion moves a projection below a filter where that leaves fewer columns, also one that computes: `SELECT 1 / i ...
//! WHERE i <> 0` then divides by zero. This rule takes the place of DataFusion's and leaves such projections where they
//! are. Those that only choose columns move as before. (DataFusion's also computes parts of the condition of a nested loop
//! join ahead, for rows that the other side may not ask for.)

use super::apart::{self, SortAboveUnions};
use super::guessed_bounds::GuessedBounds;
use super::join_order::{BuildSides, JoinOrder};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{
    ProjectionExec, ProjectionExpr, remove_unnecessary_projections, try_embed_projection,
};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
struct ComputeAboveFilters;

/// DataFusion's rules, with this one in place of its counterpart, behind what they must not look through, and without those that push
/// filters: all that can be pushed has been pushed in the logical plan, scans take none, and they tell columns by their names, which
/// both sides of a join can have (`t RIGHT JOIN u ... WHERE t.id + 1 IS NOT NULL` became a condition of `u.id`).
///
/// With `is_eager`, joins are ordered however few rows there are.
pub(super) fn rules(is_eager: bool) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let ours = |rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>| match rule.name() {
        "ProjectionPushdown" => vec![Arc::new(ComputeAboveFilters) as _],
        "join_selection" => vec![rule, Arc::new(BuildSides)],
        "EnsureRequirements" => apart::around(rule),
        _ => vec![rule],
    };
    let pushes =
        |rule: &Arc<dyn PhysicalOptimizerRule + Send + Sync>| rule.name().starts_with("FilterPushdown");
    let stock = PhysicalOptimizer::new().rules.into_iter().filter(|rule| !pushes(rule));
    let mut rules: Vec<_> = stock.flat_map(ours).collect();
    rules.insert(0, Arc::new(SortAboveUnions));
    rules.insert(0, Arc::new(JoinOrder { is_eager }));
    rules.insert(0, Arc::new(GuessedBounds));
    rules
}

impl PhysicalOptimizerRule for ComputeAboveFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let moved = plan.transform_down(|node| match computed_above_filter(&node) {
            None => remove_unnecessary_projections(node),
            // The filter passes on no more columns than are computed with.
            Some((projection, filter)) => Ok(match try_embed_projection(projection, filter)? {
                Some(embedded) => Transformed::yes(embedded),
                None => Transformed::no(node),
            }),
        })?;
        Ok(moved.data)
    }

    fn name(&self) -> &str {
        "compute_above_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A projection that computes, and the filter right below it.
fn computed_above_filter(node: &Arc<dyn ExecutionPlan>) -> Option<(&ProjectionExec, &FilterExec)> {
    let projection = node.downcast_ref::<ProjectionExec>()?;
    let filter = projection.input().downcast_ref::<FilterExec>()?;
    let is_simple = |computed: &ProjectionExpr| computed.expr.is::<Column>() || computed.expr.is::<Literal>();
    (!projection.expr().iter().all(is_simple)).then_some((projection, filter))
}
