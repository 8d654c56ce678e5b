//! Scans that leave out rows which no join above asks for (`docs/design/join-filters.md`).
//!
//! A hash join reads its build side first. [`with_join_filters`] puts an operator there that gathers the keys, and tells a scan from
//! which the other side's key comes; by the time that scan begins, it knows which keys have a partner:
//! ```text
//!   HashJoinExec: p_partkey = l_partkey
//!     CollectKeysExec ┄┄┄┄┄┄┄ keys ┄┄┄┄┄┄┄┐
//!       (build side: few parts)           ┆
//!     AggregateExec: by l_partkey         ┆
//!       ScanExec: lineitem  ◄┄┄┄┄┄┄┄┄┄┄┄┄┄┘
//! ```
//! Between the two may be what gives the same rows whether those of a key are dropped before or behind it ([`attached`]). A
//! scan that does not know the keys yet, or never will, gives all its rows; so a filter can only save work. Columns are followed by
//! their places, since names are not unique behind a join.
//!
//! Nothing is evaluated for a row that was left out: what would have failed for it does not, and functions that are volatile are not
//! passed.

mod collect;
mod keys;
mod scan;

pub(super) use keys::{JoinKeys, ListedRows};
pub(super) use scan::{ScanFilter, asked_for};

use super::cooperate::Paced;
use super::scan::ScanExec;
use crate::compiler_mode::CompilerMode;
use collect::CollectKeysExec;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use std::sync::Arc;

/// The plan with filters for scans of tables that have as many rows as `mode` asks for.
pub(super) fn with_join_filters(
    plan: Arc<dyn ExecutionPlan>,
    mode: CompilerMode,
) -> Result<Arc<dyn ExecutionPlan>> {
    if mode == CompilerMode::Off || is_repeated(&plan)? {
        return Ok(plan);
    }
    let filtered = plan.transform_up(|node| {
        let joined = match node.downcast_ref::<HashJoinExec>() {
            Some(join) => filtered(&node, join, mode.rows_min())?,
            None => None,
        };
        Ok(match joined {
            Some(joined) => Transformed::yes(joined),
            None => Transformed::no(node),
        })
    })?;
    Ok(filtered.data)
}

/// Whether a part of the plan runs several times.
fn is_repeated(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))
}

/// The join with filters for its other side, if a scan can make use of one.
fn filtered(
    node: &Arc<dyn ExecutionPlan>,
    join: &HashJoinExec,
    rows_min: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // In these, rows of the right side that have no partner are not missed.
    let is_asking = match join.join_type() {
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::RightSemi => true,
        JoinType::LeftAnti => !join.null_aware,
        _ => false,
    };
    if !is_asking || join.null_equality() != NullEquality::NullEqualsNothing {
        return Ok(None);
    }
    let (left, mut right) = (join.left(), join.right().clone());
    let mut columns = Vec::new();
    for (ours, theirs) in join.on() {
        let (Some(ours), Some(theirs)) = (column_of(ours), column_of(theirs)) else { continue };
        let (type_of_ours, type_of_theirs) =
            (left.schema().field(ours).data_type().clone(), right.schema().field(theirs).data_type().clone());
        if !keys::is_key(&type_of_ours) || type_of_ours != type_of_theirs {
            continue;
        }
        let collectors = left.output_partitioning().partition_count();
        if let Some((asked, keys)) = attached(&right, theirs, collectors, rows_min)? {
            right = asked;
            columns.push((ours, keys));
        }
    }
    if columns.is_empty() {
        return Ok(None);
    }
    with_children(node, vec![CollectKeysExec::plan(left.clone(), columns), right]).map(Some)
}

/// How many keys a scan is asked for in a column, as a rule, which is about as many rows as may be on the other side; `None` where it is not.
pub(super) fn keys_max(scan: &ScanExec, column: usize) -> Option<usize> {
    let rows = scan.row_count();
    let is_worth = rows >= CompilerMode::default().rows_min() && !scan.is_limited();
    (is_worth && keys::is_key(scan.schema().field(column).data_type())).then(|| keys::keys_max(rows))
}

/// An operator whose scan is asked, and the keys that it is asked for.
type Asked = (Arc<dyn ExecutionPlan>, Arc<JoinKeys>);

/// The operator's rows without those that have no partner, if a scan below can leave them out, and the keys of the column by which it
/// will know them, which so many threads gather.
fn attached(
    node: &Arc<dyn ExecutionPlan>,
    column: usize,
    collectors: usize,
    rows_min: usize,
) -> Result<Option<Asked>> {
    if let Some(scan) = node.downcast_ref::<ScanExec>() {
        if scan.row_count() < rows_min || scan.is_limited() {
            return Ok(None);
        }
        let keys = JoinKeys::new(collectors, scan.row_count());
        return Ok(Some((Arc::new(scan.asking(column, keys.clone())), keys)));
    }
    let Some((child, column)) = source(node, column) else { return Ok(None) };
    let mut children: Vec<_> = node.children().into_iter().cloned().collect();
    let Some((asked, keys)) = attached(&children[child], column, collectors, rows_min)? else {
        return Ok(None);
    };
    children[child] = asked;
    Ok(Some((with_children(node, children)?, keys)))
}

/// The child of an operator, and the column of it, that a column comes from unchanged, where rows of a value may as well be dropped
/// from that child as from the operator's own.
pub(super) fn source(node: &Arc<dyn ExecutionPlan>, column: usize) -> Option<(usize, usize)> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let is_pure = projection.expr().iter().all(|part| !is_volatile(&part.expr));
        return is_pure.then(|| column_of(&projection.expr().get(column)?.expr)).flatten().map(|it| (0, it));
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        if filter.fetch().is_some() || is_volatile(filter.predicate()) {
            return None;
        }
        return Some((0, filter.projection().as_ref().map_or(column, |chosen| chosen[column])));
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let arguments = aggregate.aggr_expr().iter().flat_map(|function| function.expressions());
        let is_pure = arguments.into_iter().all(|argument| !is_volatile(&argument));
        let is_plain = aggregate.group_expr().is_single() && aggregate.limit_options().is_none() && is_pure;
        // Behind the groups are the aggregates.
        let (group, _) = aggregate.group_expr().expr().get(column).filter(|_| is_plain)?;
        return column_of(group).map(|it| (0, it));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return source_of_join(join, column);
    }
    let passes_all = match node.downcast_ref::<CoalescePartitionsExec>() {
        Some(one) => one.fetch().is_none(),
        None => node.is::<RepartitionExec>() || node.is::<Paced>() || node.is::<CollectKeysExec>(),
    };
    // What looks at the time is there once above each join.
    passes_all.then_some((0, column))
}

/// See [`source`].
fn source_of_join(join: &HashJoinExec, column: usize) -> Option<(usize, usize)> {
    if join.filter().is_some_and(|condition| is_volatile(condition.expression())) {
        return None;
    }
    let column = match &join.projection {
        Some(chosen) => *chosen.get(column)?,
        None => column,
    };
    let left_columns = join.left().schema().fields().len();
    let (side, column) = match join.join_type() {
        JoinType::LeftSemi | JoinType::LeftAnti => (JoinSide::Left, column),
        JoinType::RightSemi | JoinType::RightAnti => (JoinSide::Right, column),
        JoinType::Inner | JoinType::Left | JoinType::Right if column < left_columns => {
            (JoinSide::Left, column)
        }
        JoinType::Inner | JoinType::Left | JoinType::Right => (JoinSide::Right, column - left_columns),
        _ => return None,
    };
    match (side, join.join_type()) {
        // Without its partner a row of the other side would have NULLs for it.
        (JoinSide::Left, JoinType::Right) | (JoinSide::Right, JoinType::Left) => None,
        (JoinSide::Left, _) => Some((0, column)),
        _ => Some((1, column)),
    }
}

fn column_of(expression: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expression.downcast_ref::<Column>().map(Column::index)
}

fn with_children(
    node: &Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    // Nothing that a plan knows of its operators changes.
    node.clone().replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}
