//! The OLAP stream: one closed loop of analytical queries, a fresh snapshot each.

use super::latency::Latencies;
use super::marker::{self, Marker};
use super::queries::QUERIES;
use ankerdb_engine::{Configuration, Database, Error, ReadView, Result, Session, Table};
use ankerdb_sql::{AnalyticalQuery, SqlEngine};
use datafusion::arrow::array::{Array, Int64Array};
use datafusion::arrow::record_batch::RecordBatch;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Rest before a query that waits for no marker's commit: about what such a wait takes. Threads that have just run a
/// query begin the next one faster than those that must be woken.
const PAUSE: Duration = Duration::from_micros(100);

/// One query that ran.
#[derive(Clone, Copy, Debug)]
pub struct QueryRun {
    /// Position in [`QUERIES`].
    pub query: usize,
    /// Rows of the query's largest table when it began.
    pub table_rows: usize,
    /// When it began.
    pub started: Instant,
    /// Taking the snapshot, planning and running.
    pub latency: Duration,
}

/// What an OLAP stream saw.
#[derive(Clone, Default)]
pub struct OlapResult {
    /// Every run, in order.
    pub runs: Vec<QueryRun>,
    /// Time to take each snapshot.
    pub snapshot_creation: Latencies,
    /// Queries that were checked for freshness.
    pub queries_checked: u64,
    /// Those whose snapshot missed a commit that was acknowledged before.
    pub commits_missed: u64,
}

impl OlapResult {
    /// Adds another phase's.
    pub fn add(&mut self, other: &OlapResult) {
        self.runs.extend_from_slice(&other.runs);
        self.snapshot_creation.add(&other.snapshot_creation);
        self.queries_checked += other.queries_checked;
        self.commits_missed += other.commits_missed;
    }

    /// Rows of the queries' largest tables per second of latency: the runs of one query, or all.
    pub fn rows_per_second(&self, query: Option<usize>) -> Option<f64> {
        let runs = || self.runs.iter().filter(|run| query.is_none_or(|query| run.query == query));
        let rows: usize = runs().map(|run| run.table_rows).sum();
        let seconds: f64 = runs().map(|run| run.latency.as_secs_f64()).sum();
        (seconds > 0.0).then(|| rows as f64 / seconds)
    }

    /// Latencies of one query in milliseconds.
    pub fn latencies_ms(&self, query: usize) -> Vec<f64> {
        let runs = self.runs.iter().filter(|run| run.query == query);
        runs.map(|run| run.latency.as_secs_f64() * 1e3).collect()
    }
}

/// Which query comes next.
pub enum Order {
    /// One after the other; ends no sooner than after a full turn.
    InTurn,
    /// At random.
    Random(fastrand::Rng),
}

/// Runs the eight queries, planned once; every run makes its own physical plan.
pub struct Analyst {
    session: Session,
    queries: Vec<AnalyticalQuery>,
    tables: Vec<Arc<Table>>,
    marker: AnalyticalQuery,
}

impl Analyst {
    /// Plans the queries. The tables and the marker must exist.
    pub fn new(database: &Database, engine: &SqlEngine) -> Result<Analyst> {
        let catalog = database.catalog();
        Ok(Analyst {
            session: database.session(),
            queries: QUERIES.iter().map(|query| engine.plan(query.sql)).collect::<Result<_>>()?,
            tables: QUERIES.iter().map(|query| catalog.table(query.tables[0])).collect::<Result<_>>()?,
            marker: engine.plan(marker::SQL)?,
        })
    }

    /// Runs queries until `continue_after` says `Break`; it is told every run. With a marker, each query is checked
    /// for freshness, and the stream also ends when `stop` interrupts the wait for a marker's commit.
    pub fn stream(
        &mut self,
        mut order: Order,
        marker: Option<(&Marker, &AtomicBool)>,
        continue_after: &mut dyn FnMut(&QueryRun) -> ControlFlow<()>,
    ) -> Result<OlapResult> {
        let mut result = OlapResult::default();
        loop {
            let query = match &mut order {
                Order::InTurn => result.runs.len() % QUERIES.len(),
                Order::Random(random) => random.usize(0..QUERIES.len()),
            };
            let expected = match marker {
                Some((marker, stop)) => match marker.commit_one(stop) {
                    Some(value) => Some(value),
                    None => return Ok(result),
                },
                None => {
                    std::thread::sleep(PAUSE);
                    None
                }
            };
            let (run, view) = self.run(query, &mut result.snapshot_creation)?;
            result.runs.push(run);
            if let Some(expected) = expected {
                result.queries_checked += 1;
                result.commits_missed += u64::from(self.read_marker(view.as_ref())? < expected);
            }
            drop(view);
            let full_turn = matches!(order, Order::Random(_)) || result.runs.len() >= QUERIES.len();
            if continue_after(&run).is_break() && full_turn {
                return Ok(result);
            }
        }
    }

    /// Runs one query on a fresh snapshot; the view can be asked for more. There is none where the query ran in a copy of
    /// the process, which is gone.
    pub fn run(&mut self, query: usize, creation: &mut Latencies) -> Result<(QueryRun, Option<ReadView>)> {
        let table_rows = self.tables[query].row_count();
        let started = Instant::now();
        let configuration = self.session.database().configuration();
        let (batches, view) = if configuration == Configuration::HeeFork {
            let (batches, took) = self.queries[query].run_now()?;
            creation.record(took);
            (batches, None)
        } else {
            let view = self.session.snapshot().read_view();
            if configuration.technique().is_some() {
                self.queries[query].materialize(&view)?;
            }
            creation.record(started.elapsed());
            (self.queries[query].run(&view)?, Some(view))
        };
        let latency = started.elapsed();
        drop(batches);
        Ok((QueryRun { query, table_rows, started, latency }, view))
    }

    /// The marker as the view shows it, or else a query of now.
    fn read_marker(&self, view: Option<&ReadView>) -> Result<i64> {
        match view {
            Some(view) => single_bigint(&self.marker.run(view)?),
            None => single_bigint(&self.marker.run_now()?.0),
        }
    }
}

/// The value of a result with one row and one bigint column.
pub fn single_bigint(batches: &[RecordBatch]) -> Result<i64> {
    let batch = batches.iter().find(|batch| batch.num_rows() == 1);
    let column = batch.and_then(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>());
    let column = column.filter(|column| column.is_valid(0));
    column
        .map(|column| column.value(0))
        .ok_or_else(|| Error::internal("a query for one bigint returned something else"))
}
