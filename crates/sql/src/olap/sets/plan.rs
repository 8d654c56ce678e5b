//! From the node of a plan to its operator.

use super::stream::{SetRowsExec, Source};
use super::{SetFunction, SetRows};
use crate::olap::late_columns::LateColumnsPlanner;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use std::sync::Arc;

/// The planner of queries that have such nodes.
pub(crate) fn planner() -> Arc<dyn QueryPlanner + Send + Sync> {
    Arc::new(Planner)
}

#[derive(Debug)]
struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![
            Arc::new(Rows),
            Arc::new(LateColumnsPlanner),
        ]);
        planner.create_physical_plan(logical_plan, session).await
    }
}

struct Rows;

#[async_trait]
impl ExtensionPlanner for Rows {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(rows) = node.as_any().downcast_ref::<SetRows>() else { return Ok(None) };
        let [input] = physical_inputs else { return Ok(None) };
        let schema = rows.input.schema();
        let source = |call: &super::SetCall| {
            let arguments = call.arguments.iter().map(|argument| {
                planner.create_physical_expr(argument, schema.as_ref(), session, planning_ctx)
            });
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            debug_assert!(!matches!(call.function, SetFunction::Written(_)), "types were settled");
            Ok(Source { function: call.function.clone(), arguments, field: call.field.clone() })
        };
        let sources = rows.calls.iter().map(source).collect::<Result<Vec<_>>>()?;
        Ok(Some(Arc::new(SetRowsExec::new(input.clone(), sources.into(), rows.keeps_all, rows.zone))))
    }
}
