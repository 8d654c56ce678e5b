//! Queries in copies of the process: how `hee-fork` runs them (AnKer §6.1 (5)).
//!
//! ```text
//! analytical threads   instantiate ─┐                                    ┌─ decode ─ rows ─► client
//! a thread of its own               └ plan ─ leave out ─ hold ─ fork ─ wait ┘
//! child                                                          └ run ─ batches ─┘
//! ```
//!
//! The plan is made here, by the thread that forks, and no other thread has it. Columns that it does not name are
//! left out of the copy; commits are stopped during the call, and nothing else waits. The child runs the plan over
//! the arrays as they lie, on the one thread that it has, and writes Arrow's stream format to memory that both share.
//! The parent reads the batches where they lie.
//!
//! As many children run at a time as there are analytical threads; each may use its share of their memory, and
//! return as much. In a child operators do not spill: that would take threads. docs/design/fork.md goes through what
//! a child may meet.
//!
//! Invariant: whatever a plan in a child executes takes no lock that a thread of the parent may have held when the
//! process forked. So plans which need one run in this process ([`needs_shared_lock`]), and statics that are made
//! when they are first needed are made before the first fork ([`OlapEngine::make_statics`]).

use super::error::from_datafusion;
use super::memory::LimitedPool;
use super::{After, OlapEngine, OlapPlan, bind_view, physical_plan, session_state};
use crate::SqlOptions;
use crate::materialized_table::check_populated;
use crate::rows::{Lasting, RunEnd};
use ankerdb_engine::{ColumnSet, Database, Error, ReadView, Result, SqlState, Table, Value};
use ankerdb_region::fork::{Output, SharedBytes, spawn};
use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{DataType as ArrowType, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::reader::StreamDecoder;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, oneshot};

/// Stack of the thread that forks, and so of the child; operators that recurse deeply take more when they need it.
const STACK_BYTES: usize = 8 << 20;

/// Forked queries since the database was opened.
#[derive(Clone, Copy, Default, Debug)]
pub struct ForkCounters {
    /// Children made.
    pub forks: u64,
    /// Nanoseconds from asking commits to stop to their release: how long all forks together kept commits waiting.
    pub held_nanos: u64,
    /// Nanoseconds of preparing and of quiescing: leaving columns out, stopping commits, forking, and undoing both.
    pub creation_nanos: u64,
}

/// What forked queries share.
pub(super) struct Forks {
    database: Database,
    /// Plans for one thread and without spilling. Its memory pool is used by children only, each its own copy.
    state: SessionState,
    tasks: Arc<TaskContext>,
    permits: Arc<Semaphore>,
    result_bytes_max: usize,
    forks: AtomicU64,
    held_nanos: AtomicU64,
    creation_nanos: AtomicU64,
}

/// One query to be run in a child.
struct Query {
    logical: LogicalPlan,
    /// What it reads; all else is left out of the child.
    columns: Vec<(Arc<Table>, ColumnSet)>,
}

/// What a child left, and what making it cost.
struct Answer {
    results: SharedBytes,
    creation: Duration,
}

impl Forks {
    pub(super) fn new(database: &Database, options: &SqlOptions) -> Result<Forks> {
        let children = options.olap_threads.max(1);
        let memory = options.memory_limit_bytes / children;
        let state = session_state(
            1,
            Arc::new(LimitedPool::new(GreedyMemoryPool::new(memory), database.memory_limit())),
            false,
        )?;
        Ok(Forks {
            database: database.clone(),
            tasks: state.task_ctx(),
            state,
            permits: Arc::new(Semaphore::new(children)),
            result_bytes_max: memory,
            forks: AtomicU64::new(0),
            held_nanos: AtomicU64::new(0),
            creation_nanos: AtomicU64::new(0),
        })
    }

    pub(super) fn counters(&self) -> ForkCounters {
        ForkCounters {
            forks: self.forks.load(Ordering::Relaxed),
            held_nanos: self.held_nanos.load(Ordering::Relaxed),
            creation_nanos: self.creation_nanos.load(Ordering::Relaxed),
        }
    }

    pub(super) fn state(&self) -> &SessionState {
        &self.state
    }

    /// Runs the query in a child. Dropping the future ends the child.
    async fn answer(self: Arc<Forks>, query: Query) -> Result<Answer> {
        let closed = |_| Error::new(SqlState::AdminShutdown, "the database is shutting down");
        let permit = self.permits.clone().acquire_owned().await.map_err(closed)?;
        let (sender, answer) = oneshot::channel();
        // A child dies with the thread that made it, and belongs to no runtime: so the thread is its own.
        let thread = std::thread::Builder::new().name("olap-fork".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            let answer = self.run(query, &|| sender.is_closed());
            drop(permit);
            // The answer of a canceled query is not waited for.
            let _ = sender.send(answer);
        });
        started.map_err(|error| {
            let message = format!("could not start a thread for the query: {error}");
            Error::new(SqlState::TooManyConnections, message)
        })?;
        answer.await.unwrap_or_else(|_| Err(Error::internal("the query failed unexpectedly")))
    }

    /// Plans, forks and waits, on a thread of the query's own.
    fn run(&self, query: Query, cancelled: &dyn Fn() -> bool) -> Result<Answer> {
        let physical = futures::executor::block_on(physical_plan(&self.state, &query.logical))?;
        if cancelled() {
            return Err(Error::new(SqlState::QueryCanceled, "canceling statement due to user request"));
        }
        let tasks = self.tasks.clone();
        let begun = Instant::now();
        let mut hold_begun = begun;
        let prepare = || {
            let left_out = LeftOut::all_but(&self.database, &query.columns)?;
            hold_begun = Instant::now();
            // Dropped in this order.
            Ok((Held { commits: self.database.quiesce()?.into(), since: hold_begun, by: self }, left_out))
        };
        let child = spawn(self.result_bytes_max, prepare, move |output| execute(physical, tasks, output))?;
        let creation = begun.elapsed();
        self.forks.fetch_add(1, Ordering::Relaxed);
        self.creation_nanos.fetch_add(creation.as_nanos() as u64, Ordering::Relaxed);
        Ok(Answer { results: child.wait(cancelled)?, creation })
    }
}

/// Stopped commits, with the time.
struct Held<'a> {
    commits: Option<ankerdb_engine::Quiesced>,
    since: Instant,
    by: &'a Forks,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop(self.commits.take());
        self.by.held_nanos.fetch_add(self.since.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Tables with columns that the next fork leaves out; they are back when this is dropped.
struct LeftOut(Vec<Arc<Table>>);

impl LeftOut {
    fn all_but(database: &Database, columns: &[(Arc<Table>, ColumnSet)]) -> Result<LeftOut> {
        let mut left_out = LeftOut(Vec::new());
        for table in database.catalog().tables() {
            let wanted = columns.iter().find(|(wanted, _)| wanted.id() == table.id());
            left_out.0.push(table.clone());
            table.exclude_from_fork(wanted.map_or(ColumnSet::EMPTY, |(_, columns)| *columns))?;
        }
        Ok(left_out)
    }
}

impl Drop for LeftOut {
    fn drop(&mut self) {
        for table in &self.0 {
            // Where this fails, the next fork tries again: it marks what it wants as well as what it does not want.
            let _ = table.include_in_fork();
        }
    }
}

/// The child's work.
fn execute(physical: Arc<dyn ExecutionPlan>, tasks: Arc<TaskContext>, output: &mut Output) -> Result<()> {
    // The plan holds the snapshot, whose end is the parent's business.
    std::mem::forget(physical.clone());
    // Polls on this thread and starts no other; no timer, no files.
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| Error::internal(format!("no runtime for the query: {error}")))?;
    runtime.block_on(async {
        let mut batches = execute_stream(physical, tasks).map_err(from_datafusion)?;
        let mut writer = StreamWriter::try_new(output, &batches.schema()).map_err(written)?;
        while let Some(batch) = batches.next().await {
            let batch = compact(&batch.map_err(from_datafusion)?)?;
            if batch.num_rows() > 0 {
                writer.write(&batch).map_err(written)?;
            }
        }
        writer.finish().map_err(written)
    })
}

/// The batch with strings of its own: written as they are, views take along all of the heaps that they point into.
fn compact(batch: &RecordBatch) -> Result<RecordBatch> {
    let column = |array: &ArrayRef| -> ArrayRef {
        match array.data_type() {
            ArrowType::Utf8View => Arc::new(array.as_string_view().gc()),
            ArrowType::BinaryView => Arc::new(array.as_binary_view().gc()),
            _ => array.clone(),
        }
    };
    let columns = batch.columns().iter().map(column).collect();
    // With a row count of its own, as there may be no columns.
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options).map_err(internal)
}

fn internal(error: ArrowError) -> Error {
    Error::internal(error.to_string())
}

/// The output's error as it was, Arrow's as a bug.
fn written(error: ArrowError) -> Error {
    if let ArrowError::IoError(_, source) = &error
        && let Some(own) = source.get_ref().and_then(|inner| inner.downcast_ref::<Error>())
    {
        return own.clone();
    }
    internal(error)
}

/// The batches of a child, decoded one by one; nothing is copied that lies where Arrow wants it.
struct Batches {
    decoder: StreamDecoder,
    left: Buffer,
}

impl Batches {
    fn new(results: SharedBytes) -> Batches {
        let left = Buffer::from(bytes::Bytes::from_owner(results));
        Batches { decoder: StreamDecoder::new(), left }
    }
}

impl Iterator for Batches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.left.is_empty() {
            match self.decoder.decode(&mut self.left) {
                Ok(None) => {}
                Ok(Some(batch)) => return Some(Ok(batch)),
                Err(error) => return Some(Err(error)),
            }
        }
        self.decoder.finish().err().map(Err)
    }
}

impl OlapEngine {
    pub(crate) fn fork_counters(&self) -> ForkCounters {
        self.forks.as_ref().map(|forks| forks.counters()).unwrap_or_default()
    }

    /// The query on a fresh copy of the process; `None` if it cannot run in one, or the database does not fork. `view`: of
    /// now, for what the planner wants to know about tables.
    fn forkable(
        &self,
        plan: &OlapPlan,
        parameters: &[Value],
        now: Option<i64>,
        view: &ReadView,
    ) -> Result<Option<(Arc<Forks>, Query)>> {
        let Some(forks) = &self.forks else { return Ok(None) };
        let logical = self.optimized(plan, parameters, now)?;
        if needs_shared_lock(&logical).map_err(from_datafusion)? {
            return Ok(None);
        }
        let logical = bind_view(logical, view, &view.in_copy()).map_err(from_datafusion)?;
        Ok(Some((forks.clone(), Query { logical, columns: plan.tables.clone() })))
    }

    /// Runs the query like `run`, in a copy of the process if possible.
    pub(crate) fn run_outside_of_blocks(
        &self,
        plan: &Arc<OlapPlan>,
        parameters: &[Value],
        view: ReadView,
        after: After,
        cancel: crate::CancelHandle,
    ) -> Result<crate::ResultRows> {
        plan.tables.iter().try_for_each(|(table, _)| check_populated(table))?;
        // A copy of the process would keep the numbers to itself that it draws.
        let forkable = if plan.counts { None } else { self.forkable(plan, parameters, after.now, &view)? };
        let Some((forks, query)) = forkable else {
            return Ok(self.run_after(plan, parameters, view, after, cancel));
        };
        drop(view);
        let schema: SchemaRef = query.logical.schema().inner().clone();
        let start = async move {
            let answer = forks.answer(query).await?;
            let batches = futures::stream::iter(Batches::new(answer.results).map(|batch| Ok(batch?)));
            let stream: SendableRecordBatchStream = Box::pin(RecordBatchStreamAdapter::new(schema, batches));
            Ok(stream)
        };
        Ok(self.threads.rows(
            plan.output.as_slice().into(),
            start,
            Lasting::WithBatch,
            cancel,
            RunEnd::default(),
        ))
    }

    /// Runs the query in a copy of the process and waits; returns the batches, and how long it took to make
    /// the copy. `None` if it cannot run in one, or the database does not fork.
    pub(super) fn run_forked(&self, plan: &OlapPlan) -> Result<Option<(Vec<RecordBatch>, Duration)>> {
        if self.forks.is_none() {
            return Ok(None);
        }
        let view = self.database.snapshot().read_view();
        let Some((forks, query)) = self.forkable(plan, &[], None, &view)? else { return Ok(None) };
        drop(view);
        self.wait(async move {
            let answer = forks.answer(query).await?;
            let batches = Batches::new(answer.results).collect::<std::result::Result<_, _>>();
            Ok(Some((batches.map_err(internal)?, answer.creation)))
        })
    }
}

/// Whether the plan has values without a type or with a dictionary: DataFusion keeps arrays of such for the whole process
/// under a mutex.
fn needs_shared_lock(plan: &LogicalPlan) -> datafusion::error::Result<bool> {
    let shared = |data_type: &ArrowType| matches!(data_type, ArrowType::Null | ArrowType::Dictionary(..));
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= node.schema().fields().iter().any(|field| shared(field.data_type()));
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                found |= matches!(part, Expr::Literal(value, _) if shared(&value.data_type()));
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Queries that make statics which only execution needs.
const MAKES_STATICS: [&str; 4] = [
    "SELECT s ~* 'a[[:alpha:][:digit:][:alnum:][:space:][:blank:][:punct:]]' FROM (VALUES ('a'), ('b')) AS t(s)",
    "SELECT s ~ '\\ma[[:upper:][:lower:][:cntrl:][:xdigit:][:print:][:graph:][:word:][:ascii:]]' FROM (VALUES ('a'), ('b')) AS t(s)",
    "SELECT CASE WHEN n = 1 THEN 'one' ELSE 'other' END FROM (VALUES (1), (2)) AS t(n)",
    "SELECT lag(n) OVER (ORDER BY n) FROM (VALUES (1), (2)) AS t(n)",
];

impl OlapEngine {
    /// Makes the statics that DataFusion and Arrow make when execution first needs them. Another thread may be in the
    /// middle of making one when the process forks, and the child would wait for it. Those that planning needs are
    /// made by the thread that forks, and those of functions when they are registered.
    pub(super) fn make_statics(&self) -> Result<()> {
        use datafusion::common::types;
        for logical_type in [
            types::logical_null,
            types::logical_boolean,
            types::logical_int8,
            types::logical_int16,
            types::logical_int32,
            types::logical_int64,
            types::logical_uint8,
            types::logical_uint16,
            types::logical_uint32,
            types::logical_uint64,
            types::logical_float16,
            types::logical_float32,
            types::logical_float64,
            types::logical_date,
            types::logical_binary,
            types::logical_string,
            types::logical_interval_mdn,
            types::logical_interval_year_month,
            types::logical_duration_microsecond,
        ] {
            logical_type();
        }
        let view = self.database.snapshot().read_view();
        for sql in MAKES_STATICS {
            // What matters is that it was tried: a function that fails has made what it needs, too.
            let _ = self.query(sql)?.run(&view);
        }
        Ok(())
    }
}
