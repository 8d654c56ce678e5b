//! The OLAP path: analytical queries on DataFusion over the engine's blocks.
//!
//! 1. [`OlapEngine::plan`] binds names and types against one catalog and optimizes the logical plan, once. The plan
//!    holds tables, no data ([`scan::TableHandle`]).
//! 2. [`OlapEngine::run`] puts parameters and a [`ReadView`] in and spawns the rest on the analytical threads: a
//!    physical plan made anew for each run (a physical plan keeps metrics, counters and dynamic filters, so it
//!    cannot run twice), then its execution.
//!    Where queries run in copies of the process, the rest is done by [`forked`].
//! 3. Batches reach the client as they are, through a bounded channel ([`ResultRows`]), and are read cell by cell
//!    ([`Columns`]): a slow client holds back its own query and nothing else.
//!
//! Invariants: the caller's thread never executes; a query that fails, panics, is canceled, or whose rows are
//! dropped ends alone and frees what it holds; memory for hash tables, sorts and the like comes from one pool,
//! spills to temporary files where the operator can, and fails with 53200 otherwise.
//!
//! Not here: caching of results, filters evaluated below the scan.

mod aggregate;
mod analytical;
mod apart;
pub(crate) mod arrow;
mod batch_copies;
mod bit_aggregate;
mod block_condition;
mod cells;
mod checked;
mod compiled;
mod computed;
mod computed_limits;
mod computed_rows;
mod cooperate;
mod correlation;
mod counted_rows;
mod dependent;
mod distinct;
mod document_aggregate;
mod duplicate;
mod error;
mod exact_lists;
mod exact_spread;
mod existence;
mod explained;
mod extreme;
mod filled;
mod finite_sums;
mod forked;
mod framed;
mod function;
mod gathered;
mod generic;
mod guessed_bounds;
mod hypothetical;
mod in_order;
mod input_order;
mod interval_aggregate;
mod join_filters;
mod join_order;
mod joined_texts;
mod kept_above;
mod kept_rows;
mod kernel;
mod known_items;
pub(crate) mod labels;
mod late_columns;
mod lifted;
mod limited;
mod list_cast;
mod list_of;
mod list_order;
mod list_query;
mod lists;
mod memory;
mod merging;
mod named_apart;
mod names;
mod narrow;
mod native_like;
mod null_keys;
mod number_aggregate;
mod number_bound;
mod offset;
mod opaque_equal;
mod operation;
mod ordered_set;
mod outer_aggregate;
mod pairs;
pub(crate) mod parameter;
mod parameters_apart;
mod part_reader;
mod percentiles;
mod planner;
mod planning;
mod project;
mod quantified;
mod quantified_subquery;
mod read_twice;
mod real_sums;
mod recomputed;
mod reused;
mod row_free;
mod same_names;
mod scan;
mod scope;
mod sequence_order;
mod sets;
mod shared;
mod single;
mod sorted_within;
mod spelling;
mod statistics;
pub(crate) mod step;
mod stored_list;
mod system;
pub(crate) mod target;
mod ties;
mod told_casts;
mod told_subqueries;
mod typing;
mod unknown_function;
mod unnesting;
mod untyped;
pub(crate) mod value;
mod view;
mod view_source;
mod whole_rows;
mod wildcard;
mod written;
mod zoned_twins;

#[cfg(test)]
mod tests;

pub use analytical::{AnalyticalQuery, MemoryBaseline};
pub(crate) use explained::Telling;
pub use forked::ForkCounters;

use crate::activity::{Activity, Live};
use crate::compiler_mode::CompilerMode;
use crate::explain::Probe;
use crate::expression::{Sequences, fold};
use crate::materialized_table::check_populated;
use crate::rows::{Lasting, ResultRows, RunEnd};
use crate::system::oids::Oids;
use crate::{CancelHandle, OutputColumn, SqlOptions};
use ankerdb_engine::{
    Catalog, ColumnSet, Configuration, DataType, Database, Error, ReadView, Result, Table, Value,
};
use ankerdb_memory::account;
use ankerdb_value::{Clocks, present, within_present};
use chrono::DateTime;
use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource, Volatility};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use error::{from_datafusion, from_optimizer};
use futures::StreamExt;
use memory::LimitedPool;
use planner::{CatalogSources, TableSources};
use planning::PlanningStates;
use reused::{Operators, ReusedPlan, Run};
use scan::TableHandle;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use step::StepRows;
use tokio::runtime::Runtime;
use view::{PlannedViews, WithViews};

/// Plans and runs analytical queries, on threads of its own. Clones share everything.
#[derive(Clone)]
pub(crate) struct OlapEngine {
    database: Database,
    state: Arc<SessionState>,
    states: Arc<PlanningStates>,
    tasks: Arc<TaskContext>,
    threads: Arc<Threads>,
    forks: Option<Arc<forked::Forks>>,
    oids: Arc<Oids>,
    live: Live,
}

/// What a statement has done before a query of it runs, who looks at the run, and when its transaction began.
#[derive(Default)]
pub(crate) struct After {
    /// When the transaction began, in microseconds since 1970 in universal time; `None` where there is none: then it is when
    /// the query begins to run.
    pub now: Option<i64>,
    /// What its earlier steps have given back.
    pub steps: Vec<Arc<StepRows>>,
    pub probe: Option<Arc<Probe>>,
    pub compiler: CompilerMode,
    /// The sequences that it may count by.
    pub sequences: Option<Arc<dyn Sequences>>,
}

/// The analytical threads, and one that watches over queries: it has next to nothing to do, so that a cancel
/// is noticed however busy the others are.
struct Threads {
    count: usize,
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    watch: Option<Runtime>,
}

impl Threads {
    fn start(count: usize) -> Result<Threads> {
        let runtime = self::runtime("olap", count)?;
        let watch = self::runtime("olap-watch", 1)?;
        Ok(Threads { count, runtime: Some(runtime), watch: Some(watch) })
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("the runtime lives as long as its owner")
    }

    /// The rows of the query that `start` begins.
    fn rows(
        &self,
        columns: Arc<[OutputColumn]>,
        start: impl Future<Output = Result<SendableRecordBatchStream>> + Send + 'static,
        lasting: Lasting,
        cancel: CancelHandle,
        end: RunEnd,
    ) -> ResultRows {
        let watch = self.watch.as_ref().expect("the runtime lives as long as its owner");
        let start = async move {
            let batches = start.await?;
            Ok(batches.map(|batch| batch.map_err(from_datafusion)).boxed())
        };
        ResultRows::spawn(self.runtime().handle(), watch.handle(), columns, start, lasting, cancel, end)
    }
}

/// How long threads without work are waited for when they end.
const ENDING: Duration = Duration::from_millis(100);

/// Plans are walked by recursion, and a statement may be a chain of hundreds of UNIONs. Only what is used becomes memory.
const STACK_BYTES: usize = 32 << 20;

fn runtime(name: &'static str, threads: usize) -> Result<Runtime> {
    let next = AtomicUsize::new(0);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_stack_size(STACK_BYTES)
        .thread_name_fn(move || format!("{name}-{}", next.fetch_add(1, Ordering::Relaxed)))
        .on_thread_stop(account::settle)
        .enable_time()
        .build()
        .map_err(|error| Error::internal(format!("could not start the analytical threads: {error}")))
}

impl Drop for Threads {
    /// Queries under way end at their next batch and are hardly waited for. The threads that end at once are: glibc's `pthread_detach` reads memory
    /// that is gone where a thread ends meanwhile (its bug 19951). In an async task, where nobody may wait, the engine may be dropped, too.
    fn drop(&mut self) {
        let may_wait = tokio::runtime::Handle::try_current().is_err();
        for runtime in [self.watch.take(), self.runtime.take()].into_iter().flatten() {
            match may_wait {
                true => runtime.shutdown_timeout(ENDING),
                false => runtime.shutdown_background(),
            }
        }
    }
}

/// An analytical query, planned once and run any number of times.
pub(crate) struct OlapPlan {
    /// The plan as bound: parameters are placeholders, types not yet coerced.
    bound: LogicalPlan,
    /// Optimized; of use where there are no parameters.
    optimized: LogicalPlan,
    /// Whether it depends on the time of the run, which the optimizer turns into a constant.
    uses_clock: bool,
    /// Whether it has calls that may take long for a single row, or ask the session.
    asks_run: bool,
    /// Whether it has some whatever values parameters have.
    asks_run_always: bool,
    /// Whether it asks for numbers of sequences, or the session for anything else.
    counts: bool,
    /// Whether it calls functions that the session must have been lent to.
    calls_session: bool,
    output: Vec<OutputColumn>,
    parameters: Vec<DataType>,
    tables: Vec<(Arc<Table>, ColumnSet)>,
    /// Whether what it has to do grows as its tables' rows.
    is_linear: bool,
    /// Whether it hands on rows of one table, and nothing else.
    is_listing: bool,
    /// Whether it reads what the session has to show before.
    shows_session: bool,
    /// Whether it reads the system catalog, or a sequence as a relation.
    reads_system: bool,
    /// The time zone that it was planned for.
    clocks: Clocks,
    /// Its operators, once it has run.
    reused: ReusedPlan,
}

impl OlapPlan {
    /// Whether it reads what the session shows to itself alone: settings, prepared statements, cursors.
    pub(crate) fn shows_session(&self) -> bool {
        self.shows_session
    }

    /// Whether it reads the system catalog, or a sequence as a relation: both are as they are now.
    pub(crate) fn reads_system(&self) -> bool {
        self.reads_system
    }

    /// Whether it calls functions that find what the session has lent them: it is to be read whole before that is taken back.
    pub(crate) fn calls_session(&self) -> bool {
        self.calls_session
    }

    /// Whether planning it again would give the same, as long as the catalog, the path and the clocks are the same.
    pub(crate) fn is_repeatable(&self) -> bool {
        !(self.calls_session || self.counts || self.shows_session || self.reads_system)
    }

    /// Whether a run needs nothing but a view and parameters, so that its operators may do for another.
    fn is_reusable(&self) -> bool {
        self.is_repeatable() && !self.uses_clock && !self.asks_run_always
    }

    /// Whether it is planned once for any values of its parameters.
    pub(crate) fn takes_any_values(&self) -> bool {
        self.is_reusable() && generic::is_generic(&self.optimized).is_ok_and(|is_generic| is_generic)
    }

    /// Its operators are to be kept from the first run on.
    pub(crate) fn has_come_again(&self) {
        self.reused.has_run();
    }

    /// How many rows threads may share: those of the tables that it reads, about, if it has no others, and looks at none many times; else as
    /// many as can be. A listing has none for them: one thread gives its rows as fast as they are sent, and in the order in which they lie.
    fn shared_rows(&self, view: &ReadView) -> usize {
        match (self.is_listing, self.is_linear) {
            (true, _) => 0,
            (false, true) => self.tables.iter().map(|(table, _)| view.statistics(table).rows).sum(),
            (false, false) => usize::MAX,
        }
    }

    /// 55000 if a materialized view that it reads has no rows yet.
    fn check_populated(&self) -> Result<()> {
        self.tables.iter().try_for_each(|(table, _)| check_populated(table))
    }

    /// The columns of the result.
    pub(crate) fn output(&self) -> &[OutputColumn] {
        &self.output
    }

    /// Types of $1, $2, ...
    pub(crate) fn parameters(&self) -> &[DataType] {
        &self.parameters
    }

    /// The tables and columns that it reads.
    pub(crate) fn tables(&self) -> &[(Arc<Table>, ColumnSet)] {
        &self.tables
    }
}

/// Takes snapshots of the columns that a plan reads where the view reads whole columns: close to each other in time, so
/// that few rows have changed meanwhile.
fn materialize(tables: &[(Arc<Table>, ColumnSet)], view: &ReadView) -> Result<()> {
    tables.iter().try_for_each(|(table, named)| {
        let columns = 0..table.columns().len();
        let columns: Vec<usize> = columns.filter(|&column| named.contains(column)).collect();
        view.materialize(table, &columns)
    })
}

impl OlapEngine {
    /// Starts the threads.
    pub(crate) fn new(database: &Database, options: &SqlOptions) -> Result<OlapEngine> {
        let threads = options.olap_threads.max(1);
        let share = FairSpillPool::new(options.memory_limit_bytes);
        let pool = Arc::new(LimitedPool::new(share, database.memory_limit()));
        let state = Arc::new(session_state(threads, pool, true)?);
        let tasks = state.task_ctx();
        let threads = Arc::new(Threads::start(threads)?);
        let mut olap = OlapEngine {
            database: database.clone(),
            states: Arc::new(PlanningStates::new(state.clone())),
            state,
            tasks,
            threads,
            forks: None,
            oids: Arc::default(),
            live: Live::of(database.clone()),
        };
        if database.configuration() == Configuration::HeeFork {
            olap.make_statics()?;
            olap.forks = Some(Arc::new(forked::Forks::new(database, options)?));
        }
        Ok(olap)
    }

    /// Binds and optimizes a query. `declared`: parameter types that the client has told.
    pub(crate) fn plan(
        &self,
        query: &Statement,
        catalog: &Arc<Catalog>,
        declared: &[Option<DataType>],
    ) -> Result<OlapPlan> {
        self.plan_over(query, &self.sources(catalog, None), declared)
    }

    /// A view's query: it gives the same columns when its tables have got more.
    pub(crate) fn without_wildcards(&self, query: &Query, catalog: &Arc<Catalog>) -> Query {
        let statement = Statement::Query(Box::new(query.clone()));
        match wildcard::without_wildcards(&statement, &self.sources(catalog, None)) {
            Statement::Query(query) => *query,
            _ => query.clone(),
        }
    }

    fn plan_over(
        &self,
        query: &Statement,
        tables: &dyn TableSources,
        declared: &[Option<DataType>],
    ) -> Result<OlapPlan> {
        let planned = PlannedViews::default();
        let tables: &dyn TableSources = &WithViews { state: &self.state, tables, planned: &planned };
        let query = same_names::told_apart(spelling::respelled(query)?, tables);
        let query = named_apart::told_apart(query, tables)?;
        let mut query = counted_rows::written_out(query, tables)?;
        read_twice::check(&mut query)?;
        let query = &merging::with_conditions(wildcard::written_out(query, tables), tables);
        let (named, parameters) =
            untyped::with_types(&spelling::with_calls(&duplicate::unique_names(query, tables))?, declared)?;
        let (bound, mut known) =
            planner::bind(&self.state, tables, &named, declared).map_err(from_datafusion)?;
        known.resize(known.len().max(parameters), None);
        let (told, parameters) = parameter::infer(bound, &known).map_err(from_datafusion)?;
        let bound = typing::without_text_types(told.clone()).and_then(exact_lists::apart);
        let bound = bound.map_err(from_datafusion)?;
        let state = if parameters.is_empty() { &self.state } else { self.states.with_parameters() };
        let optimized = optimized(state, &bound)?;
        Ok(OlapPlan {
            uses_clock: uses_clock(&optimized).map_err(from_datafusion)?,
            counts: has_expression(&optimized, computed::counts).map_err(from_datafusion)?,
            calls_session: has_expression(&optimized, computed::calls_session).map_err(from_datafusion)?,
            asks_run: computed::asks_run(&optimized).map_err(from_datafusion)?,
            asks_run_always: computed::asks_run_always(&optimized).map_err(from_datafusion)?,
            output: names::output(query, &told, &optimized)?,
            tables: tables_read(&optimized).map_err(from_datafusion)?,
            is_linear: planning::is_linear(&optimized).map_err(from_datafusion)?,
            is_listing: planning::is_listing(&optimized),
            shows_session: reads_system(&optimized, system::SystemTable::shows_session)
                .map_err(from_datafusion)?,
            reads_system: reads_system(&optimized, |_| true).map_err(from_datafusion)?,
            clocks: Clocks::current(),
            reused: ReusedPlan::default(),
            bound,
            optimized,
            parameters,
        })
    }

    /// The logical plan of one run: parameters and clock put in, optimized, tables as the view shows them.
    fn instantiate(
        &self,
        plan: &OlapPlan,
        parameters: &[Value],
        now: Option<i64>,
        view: &ReadView,
    ) -> Result<LogicalPlan> {
        plan.check_populated()?;
        let optimized = self.optimized(plan, parameters, now)?;
        bind_view(optimized, view, view).map_err(from_datafusion)
    }

    /// The logical plan of one run, without data. Its clocks are those of the session that has planned it, and they stand
    /// where they stood when the transaction began.
    fn optimized(&self, plan: &OlapPlan, parameters: &[Value], now: Option<i64>) -> Result<LogicalPlan> {
        if plan.parameters.is_empty() && !plan.uses_clock {
            return Ok(plan.optimized.clone());
        }
        let filled = parameter::fill(plan.bound.clone(), parameters, &plan.parameters)?;
        let timed = plan.uses_clock.then(|| self.state_at(now));
        let state = timed.as_ref().unwrap_or(&self.state);
        plan.clocks.within(|| optimized(state, &filled))
    }

    /// The state with a clock that stands where it stood when the transaction began, or stands now. A copy: all functions and settings.
    fn state_at(&self, began: Option<i64>) -> SessionState {
        let mut state = self.state.as_ref().clone();
        state.mark_start_execution();
        if let Some(began) = began.and_then(DateTime::from_timestamp_micros) {
            state.execution_props_mut().query_execution_start_time = Some(began);
        }
        state
    }

    /// The operators of one run, fitted to it: those of an earlier run, or new ones of the logical plan.
    async fn operators(
        &self,
        plan: &OlapPlan,
        (view, parameters): (&ReadView, &[Value]),
        compiler: CompilerMode,
        logical: impl FnOnce() -> Result<LogicalPlan>,
    ) -> Result<Operators> {
        let mut operators = None;
        // Columns that are snapshotted as a whole are, before scans are made.
        if plan.is_reusable() && self.named_columns(plan).is_empty() {
            plan.check_populated()?;
            let values = &parameter::scalars(parameters, &plan.parameters)?;
            let run = Run { view, values, is_eager: compiler.rows_min() == 0 };
            operators = plan.reused.operators(&run)?;
            if operators.is_none() && plan.reused.is_wanted(&run) {
                operators = self.lasting(plan, &run, compiler).await?;
            }
        }
        let Operators { plan, lent } = match operators {
            Some(operators) => operators,
            None => {
                let state = self.states.physical(compiler, plan.shared_rows(view));
                Operators { plan: physical_plan(state, &logical()?).await?, lent: None }
            }
        };
        Ok(Operators { plan: fitted(plan, compiler)?, lent })
    }

    /// New operators that later runs may use, too. `None` if they are better made for this run alone.
    async fn lasting(
        &self,
        plan: &OlapPlan,
        run: &Run<'_>,
        compiler: CompilerMode,
    ) -> Result<Option<Operators>> {
        let logical = match plan.parameters.is_empty() {
            true => Some((plan.optimized.clone(), None)),
            false => generic::reading(plan.optimized.clone(), run.values)
                .map_err(from_datafusion)?
                .map(|(logical, parameters)| (logical, Some(parameters))),
        };
        let Some((logical, parameters)) = logical else {
            plan.reused.give_up();
            return Ok(None);
        };
        let logical = bind_view(logical, run.view, run.view).map_err(from_datafusion)?;
        match physical_plan(self.states.physical(compiler, plan.shared_rows(run.view)), &logical).await {
            Ok(new) => plan.reused.keep(new, parameters, run),
            // What is wrong is said of the plan with the values in it.
            Err(_) => {
                plan.reused.give_up();
                Ok(None)
            }
        }
    }

    /// The relations and functions of a catalog, for statements of this session.
    pub(crate) fn sources(&self, catalog: &Arc<Catalog>, session: Option<&Arc<Activity>>) -> CatalogSources {
        let live = session.map_or_else(|| self.live.clone(), |session| self.live.to(session.clone()));
        CatalogSources::new(catalog.clone(), self.oids.clone(), live)
    }

    /// The numbers of objects.
    pub(crate) fn oids(&self) -> &Oids {
        &self.oids
    }

    /// What all sessions share that relations of the system catalog show.
    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    /// Plans like [`plan`](Self::plan), on the analytical threads: the caller waits, but not longer than its statement
    /// may take. Planning that is no longer waited for ends by itself, as statements are not that deep.
    pub(crate) fn plan_apart(
        &self,
        query: Statement,
        tables: impl TableSources + Send + 'static,
        declared: Vec<Option<DataType>>,
        cancel: &CancelHandle,
    ) -> Result<OlapPlan> {
        let engine = self.clone();
        let (interrupt, clocks, began) = (cancel.interrupt().clone(), Clocks::current(), present());
        self.wait_unless(cancel, async move {
            let plan = || engine.plan_over(&query, &tables, &declared);
            within_present(began, || clocks.within(|| fold::interruptible(&interrupt, plan)))
        })
    }

    /// Runs the plan on the analytical threads, outside of any session; returns at once.
    #[cfg(test)]
    pub(crate) fn run(
        &self,
        plan: &Arc<OlapPlan>,
        parameters: &[Value],
        view: ReadView,
        cancel: CancelHandle,
    ) -> ResultRows {
        self.run_after(plan, parameters, view, After::default(), cancel)
    }

    /// Runs the plan of a statement on the analytical threads; returns at once.
    pub(crate) fn run_after(
        &self,
        plan: &Arc<OlapPlan>,
        parameters: &[Value],
        view: ReadView,
        After { now, steps, probe, compiler, sequences }: After,
        cancel: CancelHandle,
    ) -> ResultRows {
        let (engine, parameters) = (self.clone(), parameters.to_vec());
        let output = plan.output.as_slice().into();
        let plan = plan.clone();
        let lasting =
            if self.named_columns(&plan).is_empty() { Lasting::WithBatch } else { Lasting::WithQuery };
        let end = RunEnd::default();
        let seen = end.clone();
        let start = async move {
            let logical = || {
                let instance = || engine.instantiate(&plan, &parameters, now, &view);
                let logical = fold::interruptible(seen.interrupt(), instance)?;
                let logical = match plan.asks_run {
                    true => computed::of_run(logical, &seen, sequences).map_err(from_datafusion)?,
                    false => logical,
                };
                step::bind(logical, &steps).map_err(from_datafusion)
            };
            let operators = engine.operators(&plan, (&view, &parameters), compiler, logical).await?;
            let named = engine.named_columns(&plan);
            materialize(named, &view)?;
            let rows = start(&engine, operators, &seen, probe)?;
            Ok(if named.is_empty() { rows } else { checked(rows, view) })
        };
        self.threads.rows(output, start, lasting, cancel, end)
    }

    /// The columns to take snapshots of before the plan runs: none where queries read block by block.
    fn named_columns<'a>(&self, plan: &'a OlapPlan) -> &'a [(Arc<Table>, ColumnSet)] {
        match self.database.configuration().technique() {
            Some(_) => &plan.tables,
            None => &[],
        }
    }

    /// Runs the future on the analytical threads and blocks the caller until it is done.
    fn wait<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.wait_unless(&CancelHandle::default(), work)
    }

    /// Waits like [`wait`](Self::wait), but the caller goes on without the result once its statement has to end.
    fn wait_unless<T: Send + 'static>(
        &self,
        cancel: &CancelHandle,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut task = self.threads.runtime().spawn(work);
        let done = async {
            tokio::select! {
                biased;
                done = &mut task => done.unwrap_or_else(|failure| Err(crate::rows::lost(failure))),
                error = cancel.raised() => {
                    task.abort();
                    Err(error)
                }
            }
        };
        futures::executor::block_on(done)
    }
}

/// How queries on this many threads are planned and run. Operators that run out of memory write to temporary files if
/// they may, and else end the query.
fn session_state(threads: usize, pool: Arc<dyn MemoryPool>, may_spill: bool) -> Result<SessionState> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_batch_size(ankerdb_engine::ROWS_PER_BLOCK)
        .with_information_schema(false);
    let options = config.options_mut();
    options.sql_parser.dialect = datafusion::common::config::Dialect::PostgreSQL;
    options.sql_parser.parse_float_as_decimal = true;
    // A query reads the rows of one in FROM in the order that this one gives them, as in PostgreSQL.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.execution.time_zone = Some(arrow::UTC.to_owned());
    // Expressions tell otherwise when they are planned than when they run whether they may be NULL (IS TRUE, CASE with constants):
    // that is not worth an internal error.
    options.execution.skip_physical_aggregate_schema_check = true;
    // Blocks are spread over the partitions by the scan itself; passing full batches on through a queue only
    // costs.
    options.optimizer.enable_round_robin_repartition = false;
    // GROUP BY with ORDER BY max(...) LIMIT n would keep the n best groups in a heap whose code panics on what it does
    // not expect, in place of an error; sorting all groups costs little beside reading the rows.
    options.optimizer.enable_topk_aggregation = false;
    // The least value so far would filter what is read, but scans take no such filters.
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    let mut runtime = RuntimeEnvBuilder::new().with_memory_pool(pool);
    if !may_spill {
        let disabled = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        runtime = runtime.with_disk_manager_builder(disabled);
    }
    let runtime = runtime.build_arc().map_err(from_datafusion)?;
    let mut builder = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_expr_planners(vec![Arc::new(written::WrittenOperators)])
        .with_default_features()
        .with_query_planner(sets::planner())
        .with_optimizer_rules(distinct::rules())
        .with_physical_optimizer_rules(project::rules(false))
        .with_physical_optimizer_rule(Arc::new(narrow::NarrowNumerics))
        .with_physical_optimizer_rule(Arc::new(cooperate::YieldAboveJoins));
    // PostgreSQL's other name of it.
    let functions = builder.aggregate_functions().get_or_insert_default();
    if let Some(found) = functions.iter().find(|function| function.name() == "bool_and") {
        let named = found.as_ref().clone().with_aliases(["every"]);
        functions.push(Arc::new(named));
    }
    builder.scalar_functions().get_or_insert_default().extend(function::functions());
    builder.scalar_functions().get_or_insert_default().extend(lists::functions());
    builder.aggregate_functions().get_or_insert_default().extend(aggregate::functions());
    builder.aggregate_functions().get_or_insert_default().extend(extreme::functions());
    builder.aggregate_functions().get_or_insert_default().extend(bit_aggregate::functions());
    builder.aggregate_functions().get_or_insert_default().push(list_of::function());
    builder.aggregate_functions().get_or_insert_default().push(joined_texts::function());
    builder.aggregate_functions().get_or_insert_default().extend(statistics::functions());
    builder.aggregate_functions().get_or_insert_default().extend(ordered_set::functions());
    Ok(builder.build())
}

fn optimized(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
    let optimized = state.optimize(plan).map_err(from_optimizer)?;
    late_columns::with_late_columns(optimized).map_err(from_datafusion)
}

async fn physical_plan(state: &SessionState, logical: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
    state.query_planner().create_physical_plan(logical, state).await.map_err(from_datafusion)
}

/// The plan as it runs here: with parts that stand in it twice computed once, with filters of joins, with its pipelines compiled, and with
/// unions in their order.
fn fitted(physical: Arc<dyn ExecutionPlan>, compiler: CompilerMode) -> Result<Arc<dyn ExecutionPlan>> {
    let shared = shared::with_shared(physical, compiler);
    let filtered = shared.and_then(|plan| join_filters::with_join_filters(plan, compiler));
    let compiled = filtered.and_then(|plan| compiled::with_pipelines(plan, compiler));
    compiled.and_then(in_order::in_order).map_err(from_datafusion)
}

fn start(
    engine: &OlapEngine,
    Operators { plan, lent }: Operators,
    end: &RunEnd,
    probe: Option<Arc<Probe>>,
) -> Result<SendableRecordBatchStream> {
    let physical = cooperate::interruptible(plan, end).map_err(from_datafusion)?;
    let physical = sets::interruptible(physical, end).map_err(from_datafusion)?;
    if let Some(probe) = probe {
        // A query runs once for a probe.
        let _ = probe.operators.set(physical.clone());
    }
    let rows = execute_stream(physical, engine.tasks.clone()).map_err(from_datafusion)?;
    Ok(match lent {
        Some(lent) => lent.with(rows),
        None => rows,
    })
}

/// These rows, followed by an error if the view has lost the memory they were made of.
fn checked(rows: SendableRecordBatchStream, view: ReadView) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let lost = futures::stream::once(async move { view.check().err() });
    let lost = lost.filter_map(|error| async move { Some(Err(error::external(error?))) });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows.chain(lost)))
}

/// The plan with every table as `read` shows it; `planned` is asked for what the planner wants to know.
fn bind_view(
    plan: LogicalPlan,
    planned: &ReadView,
    read: &ReadView,
) -> datafusion::error::Result<LogicalPlan> {
    let bound = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else {
            return Ok(Transformed::no(node));
        };
        match handle(&scan.source)? {
            Some(provider) => {
                let table = provider.downcast_ref::<TableHandle>().expect("checked by handle");
                let table = table.bind(planned, read);
                scan.source = provider_as_source(Arc::new(table));
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        }
    })?;
    Ok(bound.data)
}

/// The provider behind the source, if it is a table of ours without data.
fn handle(
    source: &Arc<dyn TableSource>,
) -> datafusion::error::Result<Option<Arc<dyn datafusion::catalog::TableProvider>>> {
    let provider = match source_as_provider(source) {
        Ok(provider) => provider,
        Err(_) => return Ok(None),
    };
    Ok(provider.is::<TableHandle>().then_some(provider))
}

/// Whether the plan reads a relation of the system catalog of which this holds.
fn reads_system(
    plan: &LogicalPlan,
    holds: fn(&system::SystemTable) -> bool,
) -> datafusion::error::Result<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            reads |= provider.downcast_ref::<system::SystemTable>().is_some_and(holds);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads)
}

/// Tables and columns under the plan, each table once.
fn tables_read(plan: &LogicalPlan) -> datafusion::error::Result<Vec<(Arc<Table>, ColumnSet)>> {
    let mut tables: Vec<(Arc<Table>, ColumnSet)> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(provider) = handle(&scan.source)?
        {
            let table = provider.downcast_ref::<TableHandle>().expect("checked by handle").table();
            let columns = scan.projection.as_deref().map_or(ColumnSet::ALL, |read| stored(table, read));
            match tables.iter_mut().find(|(known, _)| known.id() == table.id()) {
                Some((_, known)) => *known = known.union(columns),
                None => tables.push((table.clone(), columns)),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}

/// These columns, without the identities of the rows.
fn stored(table: &Table, columns: &[usize]) -> ColumnSet {
    let width = table.columns().len();
    let columns: Vec<usize> = columns.iter().copied().filter(|&column| column < width).collect();
    ColumnSet::of(&columns)
}

/// Whether one of the plan's expressions is meant.
fn has_expression(
    plan: &LogicalPlan,
    is_meant: fn(&Expr) -> datafusion::error::Result<bool>,
) -> datafusion::error::Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            found |= is_meant(expression)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Whether the plan calls functions that are constant during a run only, such as `now()`.
fn uses_clock(plan: &LogicalPlan) -> datafusion::error::Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::ScalarFunction(call) = part {
                    found |= call.func.signature().volatility == Volatility::Stable;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}
