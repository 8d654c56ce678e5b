//! The operator that gives the rows of calls, a batch at a time.

use super::SetFunction;
use crate::columns::Cells;
use crate::expression::library::SetValues;
use crate::olap::computed::InZone;
use crate::olap::error::external;
use crate::olap::operation::exact;
use crate::rows::RunEnd;
use ankerdb_engine::{DataType, Interrupt, ROWS_PER_BLOCK, Value};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
    UInt32Array, UInt64Array, new_empty_array, new_null_array,
};
use datafusion::arrow::compute::{cast, take};
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A call over the rows of the input.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) function: SetFunction,
    pub(super) arguments: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) field: FieldRef,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SetRowsExec {
    input: Arc<dyn ExecutionPlan>,
    sources: Arc<[Source]>,
    keeps_all: bool,
    zone: InZone,
    properties: Arc<PlanProperties>,
    /// The run that it is a part of.
    end: RunEnd,
}

impl SetRowsExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        sources: Arc<[Source]>,
        keeps_all: bool,
        zone: InZone,
    ) -> SetRowsExec {
        let fields = input
            .schema()
            .fields()
            .iter()
            .cloned()
            .chain(sources.iter().map(|source| source.field.clone()))
            .collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        let mut equivalence = EquivalenceProperties::new(schema);
        // The rows of one row of the input stand together.
        equivalence.add_orderings(input.equivalence_properties().oeq_class().iter().cloned());
        let properties = PlanProperties::new(
            equivalence,
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        let properties = Arc::new(properties);
        SetRowsExec { input, sources, keeps_all, zone, properties, end: RunEnd::default() }
    }
}

/// The plan, for one run: what may take long for a row ends with it.
pub(crate) fn interruptible(plan: Arc<dyn ExecutionPlan>, end: &RunEnd) -> Result<Arc<dyn ExecutionPlan>> {
    let of_run = plan.transform_up(|node| {
        let Some(rows) = node.downcast_ref::<SetRowsExec>() else { return Ok(Transformed::no(node)) };
        let mut of_run =
            SetRowsExec::new(rows.input.clone(), rows.sources.clone(), rows.keeps_all, rows.zone);
        of_run.end = end.clone();
        Ok(Transformed::yes(Arc::new(of_run) as Arc<dyn ExecutionPlan>))
    })?;
    Ok(of_run.data)
}

impl DisplayAs for SetRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for SetRowsExec {
    fn name(&self) -> &str {
        "SetRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![self.input.output_ordering().is_none()]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut recursion = TreeNodeRecursion::Continue;
        for argument in self.sources.iter().flat_map(|source| &source.arguments) {
            recursion = recursion.visit_sibling(|| visit(argument))?;
        }
        Ok(recursion)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut over =
            SetRowsExec::new(children.swap_remove(0), self.sources.clone(), self.keeps_all, self.zone);
        over.end = self.end.clone();
        Ok(Arc::new(over))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(Rows {
            input: self.input.execute(partition, context)?,
            sources: self.sources.clone(),
            keeps_all: self.keeps_all,
            zone: self.zone,
            schema: self.schema(),
            interrupt: self.end.interrupt().clone(),
            batch: None,
        }))
    }
}

struct Rows {
    input: SendableRecordBatchStream,
    sources: Arc<[Source]>,
    keeps_all: bool,
    zone: InZone,
    schema: SchemaRef,
    interrupt: Interrupt,
    /// What is left of a batch of the input.
    batch: Option<Begun>,
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(mut begun) = self.batch.take() {
                let made = self.zone.within(|| begun.make(&self.schema, &self.interrupt));
                if !matches!(&made, Ok(None)) {
                    self.batch = Some(begun);
                    return Poll::Ready(made.transpose());
                }
            }
            match ready!(self.input.as_mut().poll_next(context)) {
                Some(Ok(batch)) => self.batch = Some(Begun::new(batch, &self.sources, self.keeps_all)?),
                other => return Poll::Ready(other),
            }
        }
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A batch of the input of which some rows are done.
struct Begun {
    batch: RecordBatch,
    calls: Vec<Call>,
    /// The row whose calls are being made, and whether they have begun.
    row: usize,
    has_begun: bool,
    /// How many rows the calls have given for it.
    given: i64,
    keeps_all: bool,
}

impl Begun {
    fn new(batch: RecordBatch, sources: &[Source], keeps_all: bool) -> Result<Begun> {
        let calls = sources.iter().map(|source| Call::new(source, &batch)).collect::<Result<_>>()?;
        Ok(Begun { batch, calls, row: 0, has_begun: false, given: 0, keeps_all })
    }

    /// The next rows; `None` if there are none left.
    fn make(&mut self, schema: &SchemaRef, interrupt: &Interrupt) -> Result<Option<RecordBatch>> {
        let mut rows: Vec<u32> = Vec::new();
        while rows.len() < ROWS_PER_BLOCK && self.row < self.batch.num_rows() {
            if !self.has_begun {
                interrupt.check().map_err(external)?;
                self.calls.iter_mut().try_for_each(|call| call.begin(self.row, interrupt))?;
                (self.has_begun, self.given) = (true, 0);
            }
            if self.next_row()? {
                rows.push(self.row as u32);
            } else {
                (self.row, self.has_begun) = (self.row + 1, false);
            }
        }
        if rows.is_empty() {
            return Ok(None);
        }
        interrupt.check().map_err(external)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let rows = UInt32Array::from(rows);
        let mut columns = Vec::with_capacity(schema.fields().len());
        for column in self.batch.columns() {
            columns.push(take(column, &rows, None)?);
        }
        for call in &mut self.calls {
            columns.push(call.finish()?);
        }
        Ok(Some(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?))
    }

    /// Takes a value of each call; whether there was one.
    fn next_row(&mut self) -> Result<bool> {
        let mut is_there = false;
        for call in &mut self.calls {
            is_there |= call.advance()?;
        }
        let is_kept = self.keeps_all && self.given == 0;
        if !is_there && !is_kept {
            return Ok(false);
        }
        self.given += 1;
        let number = if is_there { Some(self.given) } else { None };
        self.calls.iter_mut().for_each(|call| call.keep(number));
        Ok(true)
    }
}

/// A call over the rows of a batch.
struct Call {
    field: FieldRef,
    given: Given,
}

/// What a call has given and not handed on yet, and where it is.
enum Given {
    /// Values as they come.
    Values {
        function: crate::expression::library::Builtin,
        result: DataType,
        arguments: Vec<Cells>,
        running: Option<SetValues>,
        next: Option<Value>,
        values: Vec<Value>,
    },
    /// Places of items.
    Items { lists: ListArray, next: usize, end: usize, current: Option<u64>, places: Vec<Option<u64>> },
    /// Positions of items.
    Subscripts {
        lists: ListArray,
        dimensions: Int64Array,
        first: i32,
        next: i32,
        end: i32,
        current: Option<i32>,
        positions: Vec<Option<i32>>,
    },
    /// Numbers of rows.
    Numbers(Vec<Option<i64>>),
    /// NULL in place of a list.
    Nothing(usize),
}

impl Call {
    fn new(source: &Source, batch: &RecordBatch) -> Result<Call> {
        let rows = batch.num_rows();
        let arrays = source.arguments.iter().map(|argument| argument.evaluate(batch)?.into_array(rows));
        let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
        let lists =
            |arrays: &[ArrayRef]| arrays.first().and_then(|array| array.as_list_opt::<i32>()).cloned();
        let given = match &source.function {
            SetFunction::Library(function, result) => Given::Values {
                function: *function,
                result: *result,
                arguments: arrays
                    .iter()
                    .map(Cells::new)
                    .collect::<ankerdb_engine::Result<_>>()
                    .map_err(external)?,
                running: None,
                next: None,
                values: Vec::new(),
            },
            SetFunction::Items => match lists(&arrays) {
                Some(lists) => Given::Items { lists, next: 0, end: 0, current: None, places: Vec::new() },
                None => Given::Nothing(0),
            },
            SetFunction::Subscripts(first) => match (lists(&arrays), arrays.get(1)) {
                (Some(lists), Some(dimensions)) => Given::Subscripts {
                    lists,
                    dimensions: cast(dimensions, &datafusion::arrow::datatypes::DataType::Int64)?
                        .as_primitive()
                        .clone(),
                    first: *first,
                    next: 0,
                    end: 0,
                    current: None,
                    positions: Vec::new(),
                },
                _ => Given::Nothing(0),
            },
            SetFunction::Ordinality => Given::Numbers(Vec::new()),
            SetFunction::Written(name) => return internal_err!("the types of {name} were not settled"),
        };
        Ok(Call { field: source.field.clone(), given })
    }

    /// Begins with a row of the input.
    fn begin(&mut self, row: usize, interrupt: &Interrupt) -> Result<()> {
        match &mut self.given {
            Given::Values { function, arguments, running, .. } => {
                let values: Vec<Value> = arguments.iter().map(|cells| cells.value(row).to_value()).collect();
                *running = Some(function.start(&values, interrupt).map_err(external)?);
            }
            Given::Items { lists, next, end, .. } => {
                let offsets = lists.value_offsets();
                (*next, *end) = match lists.is_valid(row) {
                    true => (offsets[row] as usize, offsets[row + 1] as usize),
                    false => (0, 0),
                };
            }
            Given::Subscripts { lists, dimensions, first, next, end, .. } => {
                let is_first = dimensions.is_valid(row) && dimensions.value(row) == 1 && lists.is_valid(row);
                let items = if is_first { lists.value_length(row) } else { 0 };
                (*next, *end) = (*first, *first + items);
            }
            Given::Numbers(_) | Given::Nothing(_) => {}
        }
        Ok(())
    }

    /// Takes the next value; whether there is one. What only counts or is empty has none of its own.
    fn advance(&mut self) -> Result<bool> {
        Ok(match &mut self.given {
            Given::Values { running, next, .. } => {
                *next = running.as_mut().and_then(Iterator::next).transpose().map_err(external)?;
                if next.is_none() {
                    *running = None;
                }
                next.is_some()
            }
            Given::Items { next, end, current, .. } => {
                *current = (next < end).then_some(*next as u64);
                *next += usize::from(current.is_some());
                current.is_some()
            }
            Given::Subscripts { next, end, current, .. } => {
                *current = (next < end).then_some(*next);
                *next += i32::from(current.is_some());
                current.is_some()
            }
            Given::Numbers(_) | Given::Nothing(_) => false,
        })
    }

    /// Keeps what was taken as the value of a row that has this number; a row for which no call gave anything has none.
    fn keep(&mut self, number: Option<i64>) {
        match &mut self.given {
            Given::Values { next, values, .. } => values.push(next.take().unwrap_or(Value::Null)),
            Given::Items { current, places, .. } => places.push(current.take()),
            Given::Subscripts { current, positions, .. } => positions.push(current.take()),
            Given::Numbers(numbers) => numbers.push(number),
            Given::Nothing(rows) => *rows += 1,
        }
    }

    /// The column of what was kept.
    fn finish(&mut self) -> Result<ArrayRef> {
        let array: ArrayRef = match &mut self.given {
            Given::Values { result, values, .. } => column(std::mem::take(values), *result)?,
            Given::Items { lists, places, .. } => {
                take(lists.values(), &UInt64Array::from(std::mem::take(places)), None)?
            }
            Given::Subscripts { positions, .. } => Arc::new(Int32Array::from(std::mem::take(positions))),
            Given::Numbers(numbers) => Arc::new(Int64Array::from(std::mem::take(numbers))),
            Given::Nothing(rows) => new_null_array(self.field.data_type(), std::mem::take(rows)),
        };
        Ok(match array.data_type() == self.field.data_type() {
            true => array,
            false => cast(&array, self.field.data_type())?,
        })
    }
}

/// Values of a type as a column.
fn column(values: Vec<Value>, data_type: DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Integer => Arc::new(Int32Array::from_iter(values.into_iter().map(|value| match value {
            Value::Integer(value) => Some(value),
            _ => None,
        }))),
        DataType::BigInt => Arc::new(Int64Array::from_iter(values.iter().map(Value::as_integer))),
        _ if values.is_empty() => new_empty_array(&crate::olap::arrow::computed_type(data_type)),
        _ => {
            let scalars = values.into_iter().map(|value| exact(value, data_type));
            ScalarValue::iter_to_array(scalars.collect::<Result<Vec<_>>>()?)?
        }
    })
}
