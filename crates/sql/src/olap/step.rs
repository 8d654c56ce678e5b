//! What a statement behind WITH that writes gives back, as a table for the rest of the statement.
//!
//! A plan holds a [`StepHandle`], which knows the columns; a run puts in the rows ([`StepRows`]).

use super::arrow::computed_type;
use super::value::{scalar, with_type};
use crate::OutputColumn;
use ankerdb_engine::{Error, Interrupt, Result, Value};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::tree_node::Transformed;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Rows in a batch.
const BATCH_ROWS: usize = 8192;

/// The columns of a step's result, in plans that are kept.
#[derive(Debug)]
pub(crate) struct StepHandle {
    /// Which of the results of the run it stands for.
    number: usize,
    schema: SchemaRef,
}

impl StepHandle {
    /// For binding: its fields tell which text types they have.
    pub(crate) fn new(number: usize, columns: &[OutputColumn]) -> StepHandle {
        let told = |column: &OutputColumn| with_type(field(column), column.data_type);
        let schema = Arc::new(Schema::new(columns.iter().map(told).collect::<Vec<_>>()));
        StepHandle { number, schema }
    }

    /// For plans that are bound.
    pub(crate) fn without_text_types(&self) -> StepHandle {
        let shed = |field: &Arc<Field>| field.as_ref().clone().with_metadata(Default::default());
        let schema = Arc::new(Schema::new(self.schema.fields().iter().map(shed).collect::<Vec<_>>()));
        StepHandle { number: self.number, schema }
    }
}

fn field(column: &OutputColumn) -> Field {
    Field::new(&column.name, computed_type(column.data_type), true)
}

#[async_trait]
impl TableProvider for StepHandle {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal("a result of WITH was planned without its rows".to_owned()))
    }
}

/// The rows that a step has given back.
#[derive(Debug)]
pub(crate) struct StepRows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl StepRows {
    /// The rows as columns. Costs a copy of them.
    ///
    /// # Errors
    /// The interrupt's.
    pub(crate) fn new(
        columns: &[OutputColumn],
        rows: &[Vec<Value>],
        interrupt: &Interrupt,
    ) -> Result<StepRows> {
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let mut batches = Vec::with_capacity(rows.len() / BATCH_ROWS + 1);
        for rows in rows.chunks(BATCH_ROWS) {
            interrupt.check()?;
            let arrays = columns.iter().enumerate().map(|(position, column)| {
                let wanted = computed_type(column.data_type);
                let cells = rows.iter().map(|row| {
                    let value = scalar(&row[position], Some(column.data_type))?;
                    if value.data_type() == wanted {
                        Ok(value)
                    } else {
                        value.cast_to(&wanted).map_err(internal)
                    }
                });
                let cells = cells.collect::<Result<Vec<_>>>()?;
                ScalarValue::iter_to_array(cells).map_err(internal)
            });
            let arrays = arrays.collect::<Result<Vec<_>>>()?;
            batches.push(RecordBatch::try_new(schema.clone(), arrays).map_err(internal)?);
        }
        Ok(StepRows { schema, batches })
    }
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::internal(error.to_string())
}

/// The plan with the rows of the steps before it.
pub(super) fn bind(plan: LogicalPlan, steps: &[Arc<StepRows>]) -> datafusion::error::Result<LogicalPlan> {
    if steps.is_empty() {
        return Ok(plan);
    }
    let bound = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        let provider = source_as_provider(&scan.source).ok();
        match provider.as_ref().and_then(|provider| provider.downcast_ref::<StepHandle>()) {
            Some(handle) => {
                let rows = &steps[handle.number];
                let table = MemTable::try_new(rows.schema.clone(), vec![rows.batches.clone()])?;
                scan.source = provider_as_source(Arc::new(table));
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        }
    })?;
    Ok(bound.data)
}
