//! The node of a plan that reads columns late, and the way from there to its operator.

use super::exec::LateColumnsExec;
use async_trait::async_trait;
use datafusion::arrow::datatypes::Field;
use datafusion::catalog::Session;
use datafusion::common::{Column, DFSchema, DFSchemaRef, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// The start of the names of columns that were read late; no client can write it.
const LATE: &str = "\0late";

/// The rows of its first input, each with the columns that its other inputs read of the rows named by its identities.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LateColumns {
    /// The first one gives rows, and each of the others is the scan of a table.
    inputs: Vec<LogicalPlan>,
    /// The column of the first input with the identities of the rows of each of the others.
    rows: Vec<Expr>,
    schema: DFSchemaRef,
}

impl LateColumns {
    /// Its columns are those of the first input, and then those of the others in order.
    pub(super) fn new(inputs: Vec<LogicalPlan>, rows: Vec<Expr>) -> Result<LateColumns> {
        let Some((first, scans)) = inputs.split_first().filter(|(_, scans)| scans.len() == rows.len()) else {
            return internal_err!("columns that are read late need the identities of their rows");
        };
        let mut fields: Vec<_> =
            first.schema().iter().map(|(table, field)| (table.cloned(), field.clone())).collect();
        let mut number = 0;
        for (scan, row) in scans.iter().zip(&rows) {
            let may_be_none = row.nullable(first.schema().as_ref())?;
            for field in scan.schema().fields() {
                let is_nullable = may_be_none || field.is_nullable();
                let own = Field::clone(field).with_name(name(number)).with_nullable(is_nullable);
                fields.push((None, Arc::new(own)));
                number += 1;
            }
        }
        let schema = DFSchema::new_with_metadata(fields, first.schema().metadata().clone())?;
        Ok(LateColumns { inputs, rows, schema: Arc::new(schema) })
    }

    /// The column that is the `place`-th of those of its scans.
    pub(super) fn column(&self, place: usize) -> Column {
        Column::new_unqualified(name(place))
    }

    pub(super) fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// Whether a node of a plan is one of these.
    pub(crate) fn is(node: &dyn UserDefinedLogicalNode) -> bool {
        node.as_any().is::<LateColumns>()
    }
}

fn name(place: usize) -> String {
    format!("{LATE}{place}")
}

/// Plans are ordered for nothing but telling them apart.
impl PartialOrd for LateColumns {
    fn partial_cmp(&self, other: &LateColumns) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for LateColumns {
    fn name(&self) -> &str {
        "LateColumns"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.inputs.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.rows.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("LateColumns")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<LateColumns> {
        LateColumns::new(inputs, exprs)
    }
}

/// Makes the operator of a [`LateColumns`].
pub(crate) struct LateColumnsPlanner;

#[async_trait]
impl ExtensionPlanner for LateColumnsPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(late) = node.as_any().downcast_ref::<LateColumns>() else { return Ok(None) };
        let below = late.inputs[0].schema();
        let place = |row: &Expr| match row {
            Expr::Column(column) => below.index_of_column(column),
            other => internal_err!("{other} has no identities of rows"),
        };
        let rows = late.rows.iter().map(place).collect::<Result<Vec<_>>>()?;
        let fields = late.schema.fields()[below.fields().len()..].to_vec();
        Ok(Some(Arc::new(LateColumnsExec::new(physical_inputs.to_vec(), rows.into(), fields.into()))))
    }
}
