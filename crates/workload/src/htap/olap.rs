//! The OLAP stream: one closed loop of analytical queries, a fresh snapshot each, whose answers are compared with what is
//! [`known`](super::known).
//!
//! Every answer is checked: whether it is possible at all, and whether it shows what clients knew to be committed before the
//! query began. Its snapshot must show the marker. After every eighth query the sums over the tables are queried as well, in
//! one query on the same snapshot (where queries run in copies of the process, in a copy of its own): they must fit each other
//! and the answer, and show the marker. None of this is in the latencies.

use super::acknowledged::Acknowledged;
use super::checks::Checks;
use super::known::{Answer, Floor, LoadedConstants, Sums};
use super::marker::Marker;
use super::oltp::OltpStream;
use super::queries::QUERIES;
use crate::tpcc::schema::warehouse;
use ankerdb_engine::{Configuration, Database, Error, ReadView, Result, Session, Table};
use ankerdb_measure::latency::Latencies;
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
/// Queries until the sums are queried again: they read more than any of the queries does.
const SUMS_EVERY: usize = 8;

/// Position of Q6 in [`QUERIES`].
const SIXTH: usize = 5;

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

/// The results of an OLAP stream.
#[derive(Clone, Default)]
pub struct OlapResult {
    /// Every run, in order.
    pub runs: Vec<QueryRun>,
    /// Time to take each snapshot.
    pub snapshot_creation: Latencies,
    /// The checks of the answers.
    pub checks: Checks,
}

impl OlapResult {
    /// Adds another phase's.
    pub fn add(&mut self, other: &OlapResult) {
        self.runs.extend_from_slice(&other.runs);
        self.snapshot_creation.add(&other.snapshot_creation);
        self.checks.add(&other.checks);
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

/// The order of queries.
pub enum QueryOrder {
    /// One after the other; ends only after a full turn.
    InTurn,
    /// At random.
    Random(fastrand::Rng),
}

/// The OLTP stream beside which queries run.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// The transactions, begun when `begin` was true.
    pub oltp: &'a OltpStream,
    /// Committed by the transactions' first thread before each query.
    pub marker: &'a Marker,
    /// The tables when the transactions began.
    pub begin: Sums,
    /// Raised when markers will not be committed any more.
    pub ended: &'a AtomicBool,
}

/// One query that was answered.
pub struct Answered {
    /// When and how long.
    pub run: QueryRun,
    /// The answer.
    pub batches: Vec<RecordBatch>,
    /// The snapshot, for further queries. There is none where the query ran in a copy of the process, which is gone.
    pub view: Option<ReadView>,
}

/// Runs the eight queries, planned once; every run makes its own physical plan.
pub struct Analyst {
    session: Session,
    queries: Vec<AnalyticalQuery>,
    tables: Vec<Arc<Table>>,
    sums: AnalyticalQuery,
    known: LoadedConstants,
}

impl Analyst {
    /// Plans the queries, and learns what is known of the tables. These and the marker must be loaded, and nothing else run.
    ///
    /// # Errors
    /// 42P01 if a table is missing; XX000 if its rows contradict each other.
    pub fn new(database: &Database, engine: &SqlEngine) -> Result<Analyst> {
        let catalog = database.catalog();
        let queries: Vec<AnalyticalQuery> =
            QUERIES.iter().map(|query| engine.plan(query.sql)).collect::<Result<_>>()?;
        let sums = engine.plan(&Sums::sql())?;
        let warehouses = catalog.table(warehouse::NAME)?.row_count();
        let known =
            LoadedConstants::of(warehouses, &Sums::of(&sums.run_now()?.0)?, &queries[SIXTH].run_now()?.0)?;
        Ok(Analyst {
            session: database.session(),
            queries,
            tables: QUERIES.iter().map(|query| catalog.table(query.tables[0])).collect::<Result<_>>()?,
            sums,
            known,
        })
    }

    /// The sums over the tables now.
    ///
    /// # Errors
    /// The database's.
    pub fn sums(&self) -> Result<Sums> {
        Sums::of(&self.sums.run_now()?.0)
    }

    /// Runs queries until `continue_after` says `Break`; it is called after every run. Beside transactions a marker is
    /// committed before each query, and the stream also ends when `ended` interrupts the wait for it.
    ///
    /// # Errors
    /// The database's.
    pub fn stream(
        &mut self,
        mut order: QueryOrder,
        beside: Option<Beside<'_>>,
        continue_after: &mut dyn FnMut(&QueryRun) -> ControlFlow<()>,
    ) -> Result<OlapResult> {
        let mut result = OlapResult::default();
        let quiet = if beside.is_none() { self.sums()? } else { Sums::default() };
        loop {
            let query = match &mut order {
                QueryOrder::InTurn => result.runs.len() % QUERIES.len(),
                QueryOrder::Random(random) => random.usize(0..QUERIES.len()),
            };
            let marker = match beside.map(|beside| beside.marker.commit_one(beside.ended)) {
                Some(Some(value)) => Some(value),
                Some(None) => return Ok(result),
                None => {
                    std::thread::sleep(PAUSE);
                    None
                }
            };
            let floor = match &beside {
                Some(beside) => Floor::of(&beside.begin, beside.oltp.acknowledged()),
                None => Floor::of(&quiet, Acknowledged::default()),
            };
            let answered = self.run(query, &mut result.snapshot_creation)?;
            let run = answered.run;
            result.runs.push(run);
            let answer = self.check_answer(&answered, &floor, &mut result.checks)?;
            if let (Some(expected), Some(beside)) = (marker, &beside) {
                if let Some(view) = &answered.view {
                    result.checks.note_marker(beside.marker.read(view)?, expected);
                }
                if result.runs.len() % SUMS_EVERY == 1 {
                    self.check_sums(answer, &answered, expected, &mut result.checks)?;
                }
            }
            drop(answered);
            let full_turn = matches!(order, QueryOrder::Random(_)) || result.runs.len() >= QUERIES.len();
            if continue_after(&run).is_break() && full_turn {
                return Ok(result);
            }
        }
    }

    /// Runs one query on a fresh snapshot, or in a copy of the process.
    ///
    /// # Errors
    /// The database's.
    pub fn run(&mut self, query: usize, creation: &mut Latencies) -> Result<Answered> {
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
        Ok(Answered { run: QueryRun { query, table_rows, started, latency }, batches, view })
    }

    /// Compares an answer with the constants and with what must be in it. Returns what it tells about its state, if it is
    /// possible at all.
    fn check_answer(
        &self,
        answered: &Answered,
        floor: &Floor,
        checks: &mut Checks,
    ) -> Result<Option<Answer>> {
        let query = answered.run.query;
        let name = QUERIES[query].name;
        checks.answers += 1;
        match self.known.read(query, &answered.batches)? {
            Ok(answer) => {
                checks.note_missed(name, answer.missed(floor));
                Ok(Some(answer))
            }
            Err(wrong) => {
                checks.note_wrong(name, Some(wrong));
                Ok(None)
            }
        }
    }

    /// Queries the sums over the tables, and compares them with each other, the marker, and the answer.
    fn check_sums(
        &self,
        answer: Option<Answer>,
        answered: &Answered,
        marker: i64,
        checks: &mut Checks,
    ) -> Result<()> {
        let sums = match &answered.view {
            Some(view) => Sums::of(&self.sums.run(view)?)?,
            None => self.sums()?,
        };
        checks.sums += 1;
        checks.note_marker(sums.marker, marker);
        checks.note_wrong("sums", self.known.violation(&sums));
        if let (Some(answer), Some(_)) = (answer, &answered.view) {
            checks.note_wrong(QUERIES[answered.run.query].name, answer.differs(&sums));
        }
        Ok(())
    }
}

/// The value of a result with one row and one bigint column.
///
/// # Errors
/// XX000 for another result.
pub fn single_bigint(batches: &[RecordBatch]) -> Result<i64> {
    let batch = batches.iter().find(|batch| batch.num_rows() == 1);
    let column = batch.and_then(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>());
    let column = column.filter(|column| column.is_valid(0));
    column
        .map(|column| column.value(0))
        .ok_or_else(|| Error::internal("a query for one bigint returned something else"))
}
