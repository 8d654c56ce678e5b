//! A table as DataFusion scans it.
//!
//! [`TableHandle`] is what plans hold: the table and its types, no data. When a query runs, the handle is
//! replaced by a [`ViewTable`], the same table as one [`ReadView`] shows it, and physical planning turns that
//! into a [`ScanExec`]. Its partitions take the table's parts (blocks) one by one from a shared counter, so
//! that no thread idles while another still has blocks to read; a block becomes one batch, and nothing is
//! copied but what `arrow.rs` names.
//!
//! How many parts there are is found out when the first partition begins: a plan may be made, and then run in a copy of
//! the process that has rows of later commits.
//!
//! The target of a statement that writes to rows of a join has one column more, the rows' identities
//! (`docs/design/joined-writes.md`).
//!
//! Invariant: a part is read by exactly one partition, once. A scan therefore must not be executed twice;
//! `reset_state` gives a fresh one where DataFusion repeats a plan (recursive queries). A plan that is kept for later runs has
//! [`KeptScan`]s, which know what is read and hold no view of it.

use super::arrow::{column_type, narrow_type, wide_batch, wide_type};
use super::batch_copies::{BatchCopies, CompressedColumns};
use super::block_condition::BlockCondition;
use super::error::external;
use super::gathered::gathered;
use super::join_filters::{self, JoinKeys, ScanFilter};
use super::part_reader::{IdentifiedRows, PartReader};
use super::target::ROW_IDENTITY;
use super::value::{bound, with_type};
use ankerdb_engine::{Catalog, ColumnDefinition, DataType, ROWS_PER_BLOCK, ReadView, Table};
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Constraint, Constraints, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::Stream;
use std::fmt;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

/// What a scan counts besides its rows.
pub(super) const BLOCKS_SKIPPED: &str = "blocks_skipped";
/// Blocks of which it gave compressed copies to a condition.
pub(super) const BLOCKS_IN_CODES: &str = "blocks_in_codes";

/// The schema that plans see: wide numerics.
pub(crate) fn table_schema(columns: &[ColumnDefinition]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

pub(super) fn field(column: &ColumnDefinition) -> Field {
    Field::new(&column.name, column_type(column.data_type), column.nullable)
}

/// Which columns a plan sees of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Columns,
    /// The columns, and then the identity of each row. A plan that reads several tables so has a number for each.
    Identified(u16),
}

impl Shown {
    /// The columns in order, in the types of `field`.
    fn schema(self, table: &Table, field: impl Fn(&ColumnDefinition) -> Field) -> SchemaRef {
        let mut fields: Vec<Field> = table.columns().iter().map(field).collect();
        if let Shown::Identified(number) = self {
            let name = if number == 0 { ROW_IDENTITY.to_owned() } else { format!("{ROW_IDENTITY}{number}") };
            fields.push(Field::new(name, wide_type(DataType::BigInt), false));
        }
        Arc::new(Schema::new(fields))
    }
}

/// A table without data, in plans that are kept.
pub(crate) struct TableHandle {
    table: Arc<Table>,
    shown: Shown,
    schema: SchemaRef,
    /// The primary key, on which the other columns depend.
    keys: Constraints,
}

impl TableHandle {
    /// For binding: its fields tell which text types they have.
    pub(crate) fn new(table: Arc<Table>) -> TableHandle {
        TableHandle::showing(table, Shown::Columns)
    }

    /// For binding in a catalog, in which the primary key may be about to go.
    pub(crate) fn known_to(catalog: &Catalog, table: Arc<Table>) -> TableHandle {
        let has_key = catalog.indexes_of(&table).any(|index| index.definition().primary);
        let handle = TableHandle::new(table);
        if has_key { handle } else { TableHandle { keys: Constraints::default(), ..handle } }
    }

    /// For binding, with the rows' identities as a column behind the others.
    pub(crate) fn identified(table: Arc<Table>) -> TableHandle {
        TableHandle::with_identities(table, 0)
    }

    /// For binding, with the rows' identities as a column behind the others, which has the number in its name.
    pub(super) fn with_identities(table: Arc<Table>, number: u16) -> TableHandle {
        TableHandle::showing(table, Shown::Identified(number))
    }

    fn showing(table: Arc<Table>, shown: Shown) -> TableHandle {
        let schema =
            shown.schema(&table, |column| with_type(field(column), column.data_type.without_item_limit()));
        let keys = primary_key(&table);
        TableHandle { table, shown, schema, keys }
    }

    /// For plans that are bound.
    pub(crate) fn without_text_types(&self) -> TableHandle {
        let schema = self.shown.schema(&self.table, field);
        TableHandle { table: self.table.clone(), shown: self.shown, schema, keys: self.keys.clone() }
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(super) fn has_identities(&self) -> bool {
        self.shown != Shown::Columns
    }

    /// The columns of the primary key.
    pub(super) fn primary_key(&self) -> Option<&[usize]> {
        self.keys.iter().find_map(|key| match key {
            Constraint::PrimaryKey(columns) => Some(columns.as_slice()),
            Constraint::Unique(_) => None,
        })
    }

    /// The table as `read` shows it, planned as `planned` shows it.
    pub(crate) fn bind(&self, planned: &ReadView, read: &ReadView) -> ViewTable {
        let (planned, view) = (planned.clone(), read.clone());
        let schema = self.shown.schema(&self.table, field);
        ViewTable { table: self.table.clone(), schema, planned, view }
    }
}

fn primary_key(table: &Table) -> Constraints {
    let primary = table.usable_indexes().map(|(_, index)| index.definition()).filter(|index| index.primary);
    Constraints::new_unverified(primary.map(|index| Constraint::PrimaryKey(index.columns.clone())).collect())
}

impl fmt::Debug for TableHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableHandle({})", self.table.name())
    }
}

#[async_trait]
impl TableProvider for TableHandle {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.keys)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(DataFusionError::Internal(format!("table {} was planned without a view", self.table.name())))
    }
}

/// A table as one view shows it.
pub(crate) struct ViewTable {
    table: Arc<Table>,
    schema: SchemaRef,
    /// What the planner is told about.
    planned: ReadView,
    view: ReadView,
}

impl fmt::Debug for ViewTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ViewTable({})", self.table.name())
    }
}

#[async_trait]
impl TableProvider for ViewTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let threads = session.config().target_partitions();
        Ok(Arc::new(ScanExec::new(self, columns, limit, threads)))
    }
}

/// Which parts of a table were taken by a partition.
#[derive(Default)]
struct Progress {
    parts: OnceLock<usize>,
    /// The next part that no partition has taken.
    next: AtomicUsize,
}

/// What is read of a table, whatever its rows are.
#[derive(Clone)]
struct Shape {
    table: Arc<Table>,
    /// Positions in the table of the columns that are read; that behind the last is the rows' identity.
    columns: Arc<[usize]>,
    /// The types of those columns.
    types: Arc<[DataType]>,
    /// Rows after which a partition may stop.
    limit: Option<usize>,
    /// What is asked of rows above, so that blocks in which none can fulfil it are not read.
    condition: Option<Arc<BlockCondition>>,
    /// Partitions at most.
    threads: usize,
    properties: Arc<PlanProperties>,
    /// When the plan was made.
    statistics: Arc<Statistics>,
}

impl Shape {
    fn partitions(&self) -> usize {
        self.properties.output_partitioning().partition_count()
    }

    /// How many rows the table had when the plan was made, about; 0 if nobody knows.
    fn row_count(&self) -> usize {
        self.statistics.num_rows.get_value().copied().unwrap_or_default()
    }
}

/// How many partitions read so many parts.
fn partitions(threads: usize, parts: usize) -> usize {
    threads.min(parts).max(1)
}

/// Reads a table's blocks as batches.
pub(crate) struct ScanExec {
    shape: Arc<Shape>,
    view: ReadView,
    /// When the view was bound.
    parts: usize,
    progress: Arc<Progress>,
    /// Output columns whose values are asked for by joins above.
    asked: Vec<(usize, Arc<JoinKeys>)>,
    /// Whether rows are asked for elsewhere, and only blocks here.
    asks_no_rows: bool,
    /// What its partitions count.
    metrics: ExecutionPlanMetricsSet,
}

impl ScanExec {
    fn new(source: &ViewTable, columns: Vec<usize>, limit: Option<usize>, threads: usize) -> ScanExec {
        let (table, view) = (source.table.clone(), source.view.clone());
        let definitions = table.columns();
        let data_type =
            |&column: &usize| definitions.get(column).map_or(DataType::BigInt, |known| known.data_type);
        let types: Arc<[DataType]> = columns.iter().map(data_type).collect();
        let chosen: Vec<_> = columns.iter().map(|&column| source.schema.fields()[column].clone()).collect();
        let schema = Arc::new(Schema::new(chosen));
        let parts = view.parts(&table);
        let statistics = Arc::new(statistics(&source.planned, &table, &columns, &types));
        let properties = properties(schema, partitions(threads, parts));
        let columns = columns.into();
        let shape = Shape { table, columns, types, limit, condition: None, threads, properties, statistics };
        ScanExec::of(Arc::new(shape), view, parts)
    }

    /// With nothing read yet and asked for nothing.
    fn of(shape: Arc<Shape>, view: ReadView, parts: usize) -> ScanExec {
        ScanExec {
            shape,
            view,
            parts,
            progress: Arc::default(),
            asked: Vec::new(),
            asks_no_rows: false,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// What reads the same of later views.
    pub(super) fn kept(&self) -> KeptScan {
        KeptScan(self.shape.clone())
    }

    /// This scan, with nothing read yet and these output columns in their stored form.
    pub(crate) fn narrowed(&self, narrow: &[usize]) -> ScanExec {
        let schema = self.with_narrow(|position| narrow.contains(&position));
        let properties = properties(schema, self.shape.partitions());
        ScanExec { shape: Arc::new(Shape { properties, ..self.shape.as_ref().clone() }), ..self.fresh() }
    }

    /// This scan, with nothing read yet, of which a filter above keeps only rows that fulfil the condition.
    pub(super) fn filtered_by(&self, condition: BlockCondition) -> ScanExec {
        let condition = Some(Arc::new(condition));
        ScanExec { shape: Arc::new(Shape { condition, ..self.shape.as_ref().clone() }), ..self.fresh() }
    }

    /// The column of the table that an output column is.
    pub(super) fn stored_column(&self, column: usize) -> usize {
        self.shape.columns[column]
    }

    /// The schema with some output columns in their stored form.
    fn with_narrow(&self, is_narrow: impl Fn(usize) -> bool) -> SchemaRef {
        let field = |(position, field): (usize, &Arc<Field>)| match is_narrow(position) {
            true => Arc::new(field.as_ref().clone().with_data_type(narrow_type(self.shape.types[position]))),
            false => field.clone(),
        };
        Arc::new(Schema::new(self.schema().fields().iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    /// Whether the output column is stored in fewer bytes than plans see.
    pub(crate) fn is_narrowable(&self, column: usize) -> bool {
        narrow_type(self.shape.types[column]) != column_type(self.shape.types[column])
    }

    /// The schema with all columns as plans see them.
    pub(crate) fn wide_schema(&self) -> SchemaRef {
        let field = |(field, &data_type): (&Arc<Field>, &DataType)| {
            field.as_ref().clone().with_data_type(column_type(data_type))
        };
        Arc::new(Schema::new(
            self.schema().fields().iter().zip(self.shape.types.iter()).map(field).collect::<Vec<_>>(),
        ))
    }

    /// How many rows the table has, about; 0 if nobody knows.
    pub(crate) fn row_count(&self) -> usize {
        self.shape.row_count()
    }

    /// Whether it may end before it has given all rows.
    pub(crate) fn is_limited(&self) -> bool {
        self.shape.limit.is_some()
    }

    /// This scan, with nothing read yet, without rows whose value of an output column the keys do not have, once these are known.
    pub(crate) fn asking(&self, column: usize, keys: Arc<JoinKeys>) -> ScanExec {
        let mut scan = self.fresh();
        scan.asked.push((column, keys));
        scan
    }

    /// Output columns whose values are asked for by joins above.
    pub(crate) fn asked(&self) -> &[(usize, Arc<JoinKeys>)] {
        &self.asked
    }

    /// This scan, with nothing read yet, without blocks in which no row can be asked for; of others it gives all rows.
    pub(crate) fn asked_by_blocks(&self) -> ScanExec {
        ScanExec { asks_no_rows: true, ..self.fresh() }
    }

    /// This scan, with nothing read yet and asked for nothing.
    pub(crate) fn unasked(&self) -> ScanExec {
        ScanExec::of(self.shape.clone(), self.view.clone(), self.parts)
    }

    /// Whether an index makes sure that no two rows have the same values of these output columns.
    pub(crate) fn is_unique(&self, columns: &[usize]) -> bool {
        let stored: Vec<usize> = columns.iter().map(|&column| self.shape.columns[column]).collect();
        self.shape.table.usable_indexes().any(|(_, index)| {
            let definition = index.definition();
            let is_covered = definition.columns.iter().all(|column| stored.contains(column));
            definition.unique && definition.derivation.is_none() && is_covered
        })
    }

    /// Whether the other scan reads the same columns of the same rows.
    pub(crate) fn reads_like(&self, other: &ScanExec) -> bool {
        Arc::ptr_eq(&self.shape.table, &other.shape.table)
            && self.view.timestamp() == other.view.timestamp()
            && self.shape.columns == other.shape.columns
            && (self.shape.limit, other.shape.limit) == (None, None)
            && self.shape.condition.is_none()
            && other.shape.condition.is_none()
            && self.asked.is_empty()
            && other.asked.is_empty()
    }

    /// So many rows at most of a block in the middle.
    pub(crate) fn sample(&self, rows: usize) -> Result<RecordBatch> {
        if self.parts == 0 {
            return Ok(RecordBatch::new_empty(self.schema()));
        }
        let batch = self.reader(self.schema()).batch(self.parts / 2)?;
        Ok(batch.slice(0, rows.min(batch.num_rows())))
    }

    fn reader(&self, schema: SchemaRef) -> PartReader {
        let all: Vec<usize> = (0..self.shape.columns.len()).collect();
        self.reader_of(&all, schema)
    }

    /// Reads some of the output columns, in the types of the schema.
    fn reader_of(&self, positions: &[usize], schema: SchemaRef) -> PartReader {
        let width = self.shape.table.columns().len();
        let identity = positions.iter().position(|&position| self.shape.columns[position] == width);
        let is_stored = |position: &usize| self.shape.columns[*position] != width;
        let stored: Vec<usize> = positions.iter().copied().filter(is_stored).collect();
        PartReader {
            table: self.shape.table.clone(),
            view: self.view.clone(),
            columns: stored.iter().map(|&position| self.shape.columns[position]).collect(),
            types: stored.iter().map(|&position| self.shape.types[position]).collect(),
            identity,
            schema,
        }
    }

    /// How many different values a column has, about; `None` if nobody knows.
    pub(crate) fn distinct(&self, column: usize) -> Option<usize> {
        self.shape.statistics.column_statistics.get(column)?.distinct_count.get_value().copied()
    }

    /// An output column of a part.
    pub(super) fn column_of(&self, part: usize, column: usize) -> Result<ArrayRef> {
        let reader = self.reader_of(&[column], Arc::new(self.schema().project(&[column])?));
        Ok(reader.batch(part)?.column(0).clone())
    }

    /// What reads single rows of its view.
    pub(super) fn identified_rows(&self) -> IdentifiedRows {
        IdentifiedRows::new(self.reader(self.with_narrow(|_| true)), self.schema())
    }

    /// Between which numbers the values of an output column lie in each part; `None` if that is not known of one.
    pub(super) fn bounds_of_parts(&self, column: usize) -> Option<Vec<RangeInclusive<i64>>> {
        let (table, stored) = (&self.shape.table, self.shape.columns[column]);
        if stored == table.columns().len() {
            return None;
        }
        (0..self.parts).map(|part| self.view.bounds(table, part, stored)).collect()
    }

    /// Words of a text column's short texts, and whether there may be others: of more than 12 bytes.
    pub(crate) fn text_words(&self, column: usize) -> (u8, bool) {
        match self.shape.types[column] {
            DataType::Varchar(1) | DataType::Char(1) => (1, false),
            DataType::Varchar(2..=3) | DataType::Char(2..=3) => (2, false),
            _ => (2, true),
        }
    }

    /// A partition, and where it leaves compressed copies of the columns of its condition in the batch that it has given last.
    pub(super) fn execute_with_copies(&self, partition: usize) -> (SendableRecordBatchStream, BatchCopies) {
        let copies = BatchCopies::default();
        (self.stream(partition, Some(copies.clone())), copies)
    }

    fn stream(&self, partition: usize, copies: Option<BatchCopies>) -> SendableRecordBatchStream {
        let asked = if self.asks_no_rows { &[] } else { &self.asked[..] };
        // What a filter leaves out need not be made wide before.
        let read = match asked.is_empty() {
            true => self.schema(),
            false => self.with_narrow(|_| true),
        };
        let stored = |(column, keys): &(usize, Arc<JoinKeys>)| (self.shape.columns[*column], keys.clone());
        let has_bounds = |(column, _): &(usize, _)| *column < self.shape.table.columns().len();
        let count = |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, partition);
        // Copies are of a whole block.
        let gathers = copies.is_none() && !asked.is_empty();
        let stream = ScanStream {
            schema: if gathers { read.clone() } else { self.schema() },
            reader: self.reader(read),
            condition: self.shape.condition.clone(),
            copies,
            skipped: count(BLOCKS_SKIPPED),
            in_codes: count(BLOCKS_IN_CODES),
            parts: *self.progress.parts.get_or_init(|| self.view.parts(&self.shape.table)),
            progress: self.progress.clone(),
            rows_left: self.shape.limit.unwrap_or(usize::MAX),
            asked: self.asked.iter().map(stored).filter(has_bounds).collect(),
            filters: asked.iter().map(|(column, keys)| ScanFilter::new(*column, keys.clone())).collect(),
            counted: BaselineMetrics::new(&self.metrics, partition),
        };
        let stream = Box::pin(cooperative(stream));
        if gathers { gathered(stream, self.schema()) } else { stream }
    }

    fn fresh(&self) -> ScanExec {
        ScanExec { asked: self.asked.clone(), asks_no_rows: self.asks_no_rows, ..self.unasked() }
    }
}

fn properties(schema: SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    let properties = PlanProperties::new(
        EquivalenceProperties::new(schema),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    );
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

/// What the planner may know. Inexact throughout: the engine counts rows and tracks bounds approximately.
fn statistics(view: &ReadView, table: &Arc<Table>, columns: &[usize], types: &[DataType]) -> Statistics {
    let known = view.statistics(table);
    let column = |(&position, &data_type): (&usize, &DataType)| {
        let Some(column) = known.columns.get(position) else {
            // The rows' identities.
            let distinct_count = Precision::Inexact(known.rows);
            return ColumnStatistics { distinct_count, ..ColumnStatistics::new_unknown() };
        };
        let estimate = |value: &Option<_>| match value.as_ref().and_then(|value| bound(value, data_type)) {
            Some(value) => Precision::Inexact(value),
            None => Precision::Absent,
        };
        ColumnStatistics {
            null_count: column.nulls.map_or(Precision::Absent, Precision::Inexact),
            min_value: estimate(&column.min),
            max_value: estimate(&column.max),
            distinct_count: column.distinct.map_or(Precision::Absent, Precision::Inexact),
            ..ColumnStatistics::new_unknown()
        }
    };
    let width: usize =
        types.iter().map(|&data_type| wide_type(data_type).primitive_width().unwrap_or(32)).sum();
    Statistics {
        num_rows: Precision::Inexact(known.rows),
        total_byte_size: Precision::Inexact(known.rows * width),
        column_statistics: columns.iter().zip(types).map(column).collect(),
    }
}

impl fmt::Debug for ScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScanExec({})", self.shape.table.name())
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(
            f,
            "ScanExec: table={}, blocks={}, columns=[{}]",
            self.shape.table.name(),
            self.parts,
            names.join(", ")
        )?;
        if !self.asked.is_empty() && !self.asks_no_rows {
            let asked: Vec<&str> = self.asked.iter().map(|(column, _)| names[*column]).collect();
            write!(f, ", asked by joins=[{}]", asked.join(", "))?;
        }
        match self.shape.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &str {
        "ScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.shape.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.unasked()))
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Ok(self.stream(partition, None))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match args.partition() {
            None => Ok(self.shape.statistics.clone()),
            Some(_) => {
                let partitions = self.shape.partitions();
                let share = |value: Precision<usize>| match value {
                    Precision::Exact(value) | Precision::Inexact(value) => {
                        Precision::Inexact(value / partitions)
                    }
                    Precision::Absent => Precision::Absent,
                };
                let mut statistics = self.shape.statistics.as_ref().clone();
                statistics.num_rows = share(statistics.num_rows);
                statistics.total_byte_size = share(statistics.total_byte_size);
                Ok(Arc::new(statistics))
            }
        }
    }
}

/// A scan in a plan that is kept for later runs: without a view, whose snapshot would hold old versions of rows.
pub(super) struct KeptScan(Arc<Shape>);

impl KeptScan {
    /// The scan of this view. `None` if the table has changed so much that another plan may be better: it has more or fewer parts than
    /// the plan has partitions for, or half or twice the rows.
    pub(super) fn over(&self, view: &ReadView) -> Option<ScanExec> {
        let KeptScan(shape) = self;
        let parts = view.parts(&shape.table);
        let (planned, now) = (shape.row_count(), view.statistics(&shape.table).rows);
        let is_similar = planned.max(now) <= 2 * planned.min(now) + ROWS_PER_BLOCK;
        let is_fit = is_similar && partitions(shape.threads, parts) == shape.partitions();
        is_fit.then(|| ScanExec::of(shape.clone(), view.clone(), parts))
    }
}

impl fmt::Debug for KeptScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptScan({})", self.0.table.name())
    }
}

impl DisplayAs for KeptScan {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptScan: table={}", self.0.table.name())
    }
}

impl ExecutionPlan for KeptScan {
    fn name(&self) -> &str {
        "KeptScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.0.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal(format!("{self:?} has no view")))
    }
}

/// One partition: takes parts until none are left.
struct ScanStream {
    reader: PartReader,
    condition: Option<Arc<BlockCondition>>,
    /// Columns of the table whose values are asked for by joins above.
    asked: Vec<(usize, Arc<JoinKeys>)>,
    /// For an operator that looks at compressed copies.
    copies: Option<BatchCopies>,
    /// Blocks that were not read, as no row in them fulfils the condition, or is asked for.
    skipped: Count,
    in_codes: Count,
    schema: SchemaRef,
    parts: usize,
    progress: Arc<Progress>,
    rows_left: usize,
    filters: Vec<ScanFilter>,
    counted: BaselineMetrics,
}

impl ScanStream {
    /// Whether a row of the part may fulfil the condition and be asked for, as far as bounds tell.
    fn may_hold(&self, part: usize) -> bool {
        let PartReader { table, view, .. } = &self.reader;
        let is_asked = |(column, keys): &(usize, Arc<JoinKeys>)| {
            let bounds = keys.set().and_then(|set| Some((set, view.bounds(table, part, *column)?)));
            bounds.is_none_or(|(set, bounds)| set.may_hold(bounds))
        };
        self.condition.as_ref().is_none_or(|condition| condition.may_hold(view, table, part))
            && self.asked.iter().all(is_asked)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        while self.rows_left > 0 {
            let part = self.progress.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts {
                break;
            }
            if !self.may_hold(part) {
                self.skipped.add(1);
                continue;
            }
            let condition = self
                .condition
                .as_deref()
                .filter(|_| self.copies.as_ref().is_some_and(BatchCopies::are_wanted));
            let (batch, copies) = self.reader.batch_with_copies(part, condition)?;
            let rows = batch.num_rows();
            if rows > 0 {
                self.rows_left = self.rows_left.saturating_sub(rows);
                // Also where no row is left, so that the query can end here.
                let kept = join_filters::asked_for(&mut self.filters, batch)?;
                if let Some(place) = &self.copies {
                    let copies = if kept.num_rows() == rows { copies } else { CompressedColumns::new() };
                    self.in_codes.add(usize::from(!copies.is_empty()));
                    place.put(copies);
                }
                return wide_batch(kept, &self.schema).map(Some).map_err(external);
            }
        }
        Ok(None)
    }
}

impl Stream for ScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Poll::Ready(self.next_batch().transpose());
        self.counted.record_poll(next)
    }
}

impl RecordBatchStream for ScanStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
