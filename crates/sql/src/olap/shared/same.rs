//! Whether two parts of a plan give the same rows.

use super::super::cooperate::Paced;
use super::super::scan::ScanExec;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use std::sync::Arc;

/// Whether two plans are made of the same operators, none of which gives other rows the next time. Operators that are not known here are
/// never the same.
pub(super) fn is_same(one: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    let (below_one, below_other) = (one.children(), other.children());
    one.schema() == other.schema()
        && is_same_operator(one, other)
        && below_one.len() == below_other.len()
        && below_one.into_iter().zip(below_other).all(|(one, other)| is_same(one, other))
}

/// The two operators, if they are of this kind.
fn both<'a, T: ExecutionPlan>(
    one: &'a Arc<dyn ExecutionPlan>,
    other: &'a Arc<dyn ExecutionPlan>,
) -> Option<(&'a T, &'a T)> {
    one.downcast_ref::<T>().zip(other.downcast_ref::<T>())
}

fn is_same_operator(one: &Arc<dyn ExecutionPlan>, other: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some((one, other)) = both::<ScanExec>(one, other) {
        return one.reads_like(other);
    }
    if let Some((one, other)) = both::<FilterExec>(one, other) {
        return one.predicate() == other.predicate()
            && one.projection() == other.projection()
            && (one.fetch(), other.fetch()) == (None, None)
            && !is_volatile(one.predicate());
    }
    if let Some((one, other)) = both::<ProjectionExec>(one, other) {
        let mut parts = one.expr().iter().zip(other.expr());
        return one.expr().len() == other.expr().len()
            && parts.all(|(one, other)| one.expr.eq(&other.expr) && one.alias == other.alias)
            && !one.expr().iter().any(|part| is_volatile(&part.expr));
    }
    if let Some((one, other)) = both::<AggregateExec>(one, other) {
        return is_same_aggregate(one, other);
    }
    if let Some((one, other)) = both::<HashJoinExec>(one, other) {
        return is_same_join(one, other);
    }
    if let Some((one, other)) = both::<RepartitionExec>(one, other) {
        return one.partitioning() == other.partitioning()
            && !one.preserve_order()
            && !other.preserve_order();
    }
    if let Some((one, other)) = both::<CoalescePartitionsExec>(one, other) {
        return (one.fetch(), other.fetch()) == (None, None);
    }
    both::<Paced>(one, other).is_some()
}

fn is_same_aggregate(one: &AggregateExec, other: &AggregateExec) -> bool {
    let functions = one.aggr_expr().iter().zip(other.aggr_expr());
    let is_same_function = functions.into_iter().all(|(one, other)| {
        one == other
            && one.is_distinct() == other.is_distinct()
            && one.ignore_nulls() == other.ignore_nulls()
            && one.order_bys() == other.order_bys()
            && !one.expressions().iter().any(is_volatile)
    });
    is_same_function
        && one.aggr_expr().len() == other.aggr_expr().len()
        && one.mode() == other.mode()
        && one.group_expr() == other.group_expr()
        && one.filter_expr() == other.filter_expr()
        && !one.filter_expr().iter().flatten().any(is_volatile)
        && !one.group_expr().expr().iter().any(|(key, _)| is_volatile(key))
        && one.limit_options().is_none()
        && other.limit_options().is_none()
}

fn is_same_join(one: &HashJoinExec, other: &HashJoinExec) -> bool {
    let is_same_condition = match (one.filter(), other.filter()) {
        (None, None) => true,
        (Some(one), Some(other)) => {
            one.expression() == other.expression()
                && one.column_indices() == other.column_indices()
                && !is_volatile(one.expression())
        }
        _ => false,
    };
    is_same_condition
        && one.on() == other.on()
        && one.join_type() == other.join_type()
        && one.projection == other.projection
        && one.partition_mode() == other.partition_mode()
        && one.null_equality() == other.null_equality()
        && one.null_aware == other.null_aware
        && (one.fetch(), other.fetch()) == (None, None)
        && !one.on().iter().any(|(left, right)| is_volatile(left) || is_volatile(right))
}
