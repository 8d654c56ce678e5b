//! Which side of each join is built.

use super::flat::{FlatJoins, between, is_tree, movable};
use super::search::{JoinGraph, JoinTree};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

/// The other side is built where its table has fewer bytes than this part.
const WORTH: f64 = 0.5;
/// Bytes that a table has for each row, besides the row.
const ENTRY_BYTES: usize = 16;
/// Bytes of a value that is not as long as all others of its type.
const VALUE_BYTES: usize = 24;

/// Behind DataFusion's rule for all joins: where the order of joins is known to us, so is how much there is on both sides.
#[derive(Debug)]
pub(crate) struct BuildSides;

impl PhysicalOptimizerRule for BuildSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match config.optimizer.join_reordering {
            true => built(plan, false),
            false => Ok(plan),
        }
    }

    fn name(&self) -> &str {
        "build_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with the smaller side of joins left; `is_inside` where the operator is a part of a tree of joins.
fn built(node: Arc<dyn ExecutionPlan>, is_inside: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let is_join = movable(&node).is_some();
    let holds_part = is_join || is_inside && is_tree(&node);
    let children: Vec<_> = node.children().into_iter().cloned().collect();
    let children = children.into_iter().map(|child| built(child, holds_part)).collect::<Result<Vec<_>>>()?;
    let node = with_children(node, children)?;
    if !is_join || is_inside {
        return Ok(node);
    }
    match FlatJoins::of(&node)? {
        Some((flat, tree, _)) => swapped(&node, &tree, &flat.graph()?),
        None => Ok(node),
    }
}

/// The operator of a tree with the sides of its joins swapped that are the wrong way round.
fn swapped(
    node: &Arc<dyn ExecutionPlan>,
    tree: &JoinTree,
    graph: &JoinGraph,
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(projection) = between(node) {
        let child = swapped(projection.input(), tree, graph)?;
        return with_children(node.clone(), vec![child]);
    }
    let (Some(join), JoinTree::Join(left, right)) = (movable(node), tree) else { return Ok(node.clone()) };
    let children = vec![swapped(join.left(), left, graph)?, swapped(join.right(), right, graph)?];
    let node = with_children(node.clone(), children)?;
    let Some(join) = movable(&node) else { return Ok(node) };
    let (left_rows, right_rows) = (graph.rows_of(left.inputs()), graph.rows_of(right.inputs()));
    match right_rows * row_bytes(join.right()) < left_rows * row_bytes(join.left()) * WORTH {
        true => join.swap_inputs(*join.partition_mode()),
        false => Ok(node),
    }
}

/// What a row takes in a join's table.
fn row_bytes(side: &Arc<dyn ExecutionPlan>) -> f64 {
    let schema = side.schema();
    let values =
        schema.fields().iter().map(|field| field.data_type().primitive_width().unwrap_or(VALUE_BYTES));
    (values.sum::<usize>() + ENTRY_BYTES) as f64
}

/// The operator over these children, which may be its own.
pub(super) fn with_children(
    node: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    match node.children().into_iter().zip(&children).all(|(before, after)| Arc::ptr_eq(before, after)) {
        true => Ok(node),
        false => {
            node.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
        }
    }
}
