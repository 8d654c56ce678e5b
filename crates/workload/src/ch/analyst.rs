//! One stream of queries: a closed loop, whose answers are compared with what is known.
//!
//! Every snapshot must show its marker. After every eighth query the sums over the tables are queried on the same snapshot:
//! they must fit each other, and show what clients knew to be committed. In the phase for it the answer itself is compared with
//! that of an [independent evaluation](super::reference) of the same snapshot. None of this is in the latencies.

use super::answer::difference;
use super::clients::ChWorld;
use super::decode::rows_of;
use super::queries::ChQuery;
use super::read_point::ReadPoint;
use super::reference::evaluate;
use super::reference::rows::SnapshotRows;
use super::schema::ChTables;
use crate::htap::checks::Checks;
use crate::htap::known::{KeptDifferences, Sums};
use ankerdb_engine::{ReadView, Result, Session};
use ankerdb_measure::latency::Latencies;
use ankerdb_sql::{AnalyticalQuery, SqlEngine, SqlOptions};
use datafusion::arrow::record_batch::RecordBatch;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Queries until the sums are queried again.
const SUMS_EVERY: usize = 8;

/// One query that ran.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChRun {
    /// Its position in the list.
    pub query: usize,
    /// Taking the snapshot (if it has one of its own), planning and running.
    pub latency: Duration,
}

/// The results of a stream of queries.
#[derive(Clone, Default)]
pub(super) struct ChAnswers {
    pub runs: Vec<ChRun>,
    pub creation: Latencies,
    pub checks: Checks,
}

impl ChAnswers {
    /// Adds another stream's, or phase's.
    pub(super) fn add(&mut self, other: &ChAnswers) {
        self.runs.extend_from_slice(&other.runs);
        self.creation.add(&other.creation);
        self.checks.add(&other.checks);
    }

    /// Latencies of one query in milliseconds.
    pub(super) fn latencies_ms(&self, query: usize) -> Vec<f64> {
        let runs = self.runs.iter().filter(|run| run.query == query);
        runs.map(|run| run.latency.as_secs_f64() * 1e3).collect()
    }
}

/// The order of queries: all in a random order, again and again.
pub(super) struct Turns {
    random: fastrand::Rng,
    order: Vec<usize>,
    next: usize,
}

impl Turns {
    /// Of so many queries. Streams begin at different ones.
    pub(super) fn new(queries: usize, seed: u64) -> Turns {
        Turns { random: fastrand::Rng::with_seed(seed), order: (0..queries).collect(), next: queries }
    }

    /// The next query.
    pub(super) fn next(&mut self) -> usize {
        if self.next == self.order.len() {
            self.random.shuffle(&mut self.order);
            self.next = 0;
        }
        self.next += 1;
        self.order[self.next - 1]
    }
}

/// Runs the queries, planned once; every run makes its own physical plan.
pub(super) struct ChAnalyst {
    pub session: Session,
    queries: Vec<AnalyticalQuery>,
    list: Vec<ChQuery>,
    sums: AnalyticalQuery,
    kept: KeptDifferences,
    world: ChWorld,
    added: Arc<ChTables>,
    runs: usize,
}

impl ChAnalyst {
    /// An analyst with threads of its own. The tables and the marker must be loaded, and nothing else run.
    ///
    /// # Errors
    /// The planner's.
    pub(super) fn new(
        world: &ChWorld,
        added: &Arc<ChTables>,
        queries: &[ChQuery],
        options: SqlOptions,
    ) -> Result<ChAnalyst> {
        let engine = SqlEngine::new(world.database.clone(), options)?;
        let sums = engine.plan(&Sums::sql())?;
        let plans = queries.iter().map(|query| engine.plan(query.sql)).collect::<Result<_>>()?;
        Ok(ChAnalyst {
            session: world.database.session(),
            queries: plans,
            list: queries.to_vec(),
            kept: KeptDifferences::of(&Sums::of(&sums.run_now()?.0)?, true),
            sums,
            world: world.clone(),
            added: added.clone(),
            runs: 0,
        })
    }

    /// The sums over the tables now.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn sums_now(&self) -> Result<Sums> {
        Sums::of(&self.sums.run_now()?.0)
    }

    /// Runs one query at a point, and checks what the point must show. `is_own`: the snapshot was taken for this query.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn ask(
        &mut self,
        query: usize,
        point: &ReadPoint,
        is_own: bool,
        answers: &mut ChAnswers,
    ) -> Result<()> {
        let (view, _) = self.run(query, point, is_own, answers)?;
        self.check_point(point, &view, answers)
    }

    /// Asks as [`ask`](Self::ask) does, and compares the answer with an independent evaluation of the same snapshot.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn ask_and_evaluate(
        &mut self,
        query: usize,
        point: &ReadPoint,
        is_own: bool,
        answers: &mut ChAnswers,
    ) -> Result<()> {
        let (view, batches) = self.run(query, point, is_own, answers)?;
        self.check_point(point, &view, answers)?;
        let ChQuery { name, order, .. } = self.list[query];
        let mut rows = SnapshotRows::at(&mut self.session, &point.snapshot, &self.world.tables, &self.added)?;
        let expected = evaluate(query, &mut rows)?;
        answers.checks.answers += 1;
        answers.checks.note_wrong(name, difference(&rows_of(&batches)?, &expected, order));
        Ok(())
    }

    fn run(
        &mut self,
        query: usize,
        point: &ReadPoint,
        is_own: bool,
        answers: &mut ChAnswers,
    ) -> Result<(ReadView, Vec<RecordBatch>)> {
        let started = Instant::now();
        let view = point.snapshot.read_view();
        let batches = self.queries[query].run(&view)?;
        let mut latency = started.elapsed();
        if is_own {
            latency += point.creation;
            answers.creation.record(point.creation);
        }
        answers.runs.push(ChRun { query, latency });
        self.runs += 1;
        Ok((view, batches))
    }

    fn check_point(&self, point: &ReadPoint, view: &ReadView, answers: &mut ChAnswers) -> Result<()> {
        let checks = &mut answers.checks;
        if let Some(marker) = point.marker {
            checks.note_marker(self.world.marker.read(view)?, marker);
        }
        if self.runs % SUMS_EVERY == 1 {
            let sums = Sums::of(&self.sums.run(view)?)?;
            checks.sums += 1;
            checks.note_wrong("sums", sums.violation(&self.kept));
            checks.note_missed("sums", sums.missed(&point.floor));
        }
        Ok(())
    }
}
