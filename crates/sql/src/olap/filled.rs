//! Operators of a generic plan with the values of a run in place of its parameters.
//!
//! Parameters may stand in what filters, projections, joins and aggregates compute for each row: a copy of such an operator is made with constants
//! there. Where an operator's order, its partitions or its groups depend on one, it stands [elsewhere](has_parameters_elsewhere).

use super::generic::{self, reads_parameter};
use super::guessed_bounds;
use super::native_like::has_plain_patterns;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// Whether the operator, or one below, has parameters to which [`with_values`] gives none.
pub(super) fn has_parameters_elsewhere(node: &dyn ExecutionPlan) -> Result<bool> {
    let mut found = false;
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        found = join.on().iter().any(|(left, right)| reads_parameter(left) || reads_parameter(right));
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr().input_exprs();
        let orders = aggregate.aggr_expr().iter().flat_map(|function| function.order_bys());
        found = groups.iter().chain(orders.map(|order| &order.expr)).any(reads_parameter);
    } else if !(node.is::<FilterExec>() || node.is::<ProjectionExec>()) {
        node.apply_expressions(&mut |expression| {
            found |= reads_parameter(expression);
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    for child in node.children() {
        found |= has_parameters_elsewhere(child.as_ref())?;
    }
    Ok(found)
}

/// The operator with values in place of its parameters; itself, if it has none. `None` if another plan may be better for them, or they make a
/// pattern of LIKE that is not plain.
pub(super) fn with_values(
    node: &Arc<dyn ExecutionPlan>,
    values: &[ScalarValue],
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let filled = if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        match generic::with_values(filter.predicate(), values, &schema)? {
            Some(condition) if !has_plain_patterns(&condition) => return Ok(None),
            Some(condition) => match guessed_bounds::with_condition(filter, condition)? {
                Some(filter) => Some(Arc::new(filter) as Arc<dyn ExecutionPlan>),
                None => return Ok(None),
            },
            None => None,
        }
    } else {
        let mut filling = Filling { values, is_filled: false, is_possible: true };
        let filled = filling.operator(node)?;
        if !filling.is_possible {
            return Ok(None);
        }
        filled.filter(|_| filling.is_filled)
    };
    Ok(Some(filled.unwrap_or_else(|| node.clone())))
}

/// What has become of an operator's expressions.
struct Filling<'a> {
    values: &'a [ScalarValue],
    /// Whether one had a parameter.
    is_filled: bool,
    /// Whether all could be made, and patterns of LIKE in them are plain.
    is_possible: bool,
}

impl Filling<'_> {
    fn operator(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
            return self.projection(projection);
        }
        if let Some(join) = node.downcast_ref::<HashJoinExec>() {
            return self.join(join);
        }
        match node.downcast_ref::<AggregateExec>() {
            Some(aggregate) => self.aggregate(aggregate),
            None => Ok(None),
        }
    }

    fn projection(&mut self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let schema = projection.input().schema();
        let filled = projection.expr().iter().map(|computed| {
            let expr = self.expression(&computed.expr, &schema)?;
            Ok(ProjectionExpr { expr, alias: computed.alias.clone() })
        });
        let filled = filled.collect::<Result<Vec<_>>>()?;
        match self.is_filled {
            true => Ok(Some(Arc::new(ProjectionExec::try_new(filled, projection.input().clone())?))),
            false => Ok(None),
        }
    }

    fn join(&mut self, join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(filter) = join.filter() else { return Ok(None) };
        let condition = self.expression(filter.expression(), filter.schema())?;
        if !self.is_filled {
            return Ok(None);
        }
        let filter = JoinFilter::new(condition, filter.column_indices().to_vec(), filter.schema().clone());
        Ok(Some(Arc::new(join.builder().with_filter(Some(filter)).build()?)))
    }

    fn aggregate(&mut self, aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // Those that put parts together have the arguments, too, which they do not look at.
        let schema = aggregate.input_schema();
        let functions = aggregate.aggr_expr().iter();
        let functions = functions.map(|function| self.function(function, &schema));
        let functions = functions.collect::<Result<Vec<_>>>()?;
        let filled = aggregate.with_new_aggr_exprs(functions);
        if !aggregate.filter_expr().iter().flatten().any(reads_parameter) {
            return Ok(Some(Arc::new(filled)));
        }
        let filters = aggregate.filter_expr().iter();
        let filters =
            filters.map(|filter| filter.as_ref().map(|filter| self.expression(filter, &schema)).transpose());
        let filtered = AggregateExec::try_new(
            *aggregate.mode(),
            aggregate.group_expr().clone(),
            filled.aggr_expr().to_vec(),
            filters.collect::<Result<_>>()?,
            aggregate.input().clone(),
            schema.clone(),
        )?;
        Ok(Some(Arc::new(filtered.with_limit_options(aggregate.limit_options()))))
    }

    fn function(
        &mut self,
        function: &Arc<AggregateFunctionExpr>,
        schema: &Schema,
    ) -> Result<Arc<AggregateFunctionExpr>> {
        let before = function.expressions();
        if !before.iter().any(reads_parameter) {
            return Ok(function.clone());
        }
        let filled = before.iter().map(|argument| self.expression(argument, schema));
        let orders = function.order_bys().iter().map(|order| order.expr.clone()).collect();
        let filled = function.with_new_expressions(filled.collect::<Result<_>>()?, orders);
        self.is_possible &= filled.is_some();
        Ok(filled.map_or_else(|| function.clone(), Arc::new))
    }

    fn expression(
        &mut self,
        expression: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let Some(filled) = generic::with_values(expression, self.values, schema)? else {
            return Ok(expression.clone());
        };
        self.is_filled = true;
        self.is_possible &= has_plain_patterns(&filled);
        Ok(filled)
    }
}
