//! A mechanism with transactions and queries side by side.
//!
//! The calling thread runs transactions and refreshes the snapshot. Queries, Q1 and Q5 in turns, run in threads, or in child
//! processes where those are the snapshot or have an image of the indexes.

use crate::harness::{Harness, joined};
use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_region::fork::Child;
use ankerdb_region::{PageSize, Region};
use ankerdb_serial::{IndexTreatment, QuiescePolicy, Readers, SerialDatabase, SerialSnapshot, Store};
use ankerdb_workload::serial::client::SerialClient;
use ankerdb_workload::serial::queries::{q1, q5};
use ankerdb_workload::serial::relations::SerialTables;
use ankerdb_workload::tpcc::load::now;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Transactions after which it is looked whether to go on.
const LOOK_EVERY: u64 = 256;
/// Bytes that a child may leave, which leaves none.
const CHILD_BYTES: usize = 64;

/// What runs.
#[derive(Clone, Copy)]
pub(super) struct HybridPlan {
    /// Threads of queries.
    pub olap: usize,
    /// Transactions between two refreshes.
    pub refresh_every: u64,
    /// Whether refreshes wait for queries.
    pub policy: QuiescePolicy,
    /// How the database treats indexes.
    pub treatment: IndexTreatment,
}

/// What came of it.
#[derive(Default)]
pub(super) struct HybridOutcome {
    pub transactions: u64,
    pub queries: u64,
    /// Queries that were told to give up.
    pub given_up: u64,
    pub elapsed: Duration,
}

impl HybridOutcome {
    /// Transactions in a second.
    pub(super) fn transactions_per_second(&self) -> f64 {
        self.transactions as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Queries in a second.
    pub(super) fn queries_per_second(&self) -> f64 {
        self.queries as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Told the number of transactions, the time and the database now and then; whether to go on.
pub(super) type Look<'a, S> = &'a mut dyn FnMut(u64, Duration, &SerialDatabase<S>) -> ControlFlow<()>;

/// Whether queries run in children.
fn has_children<S: Store>(plan: &HybridPlan) -> bool {
    S::MECHANISM.forks() || plan.treatment == IndexTreatment::Fork
}

/// Runs transactions and queries until `look` ends it, which is told the number of transactions and the time now and then.
///
/// # Errors
/// The database's.
pub(super) fn run<S: Store>(
    harness: &Harness<'_>,
    (database, tables, client): (&mut SerialDatabase<S>, &SerialTables, &mut SerialClient),
    plan: HybridPlan,
    look: Look<'_, S>,
) -> Result<HybridOutcome> {
    let (stop, readers) = (AtomicBool::new(false), database.readers());
    let threads = if has_children::<S>(&plan) { 0 } else { plan.olap };
    std::thread::scope(|scope| {
        let ask = || scope.spawn(|| ask_here(&readers, tables, &stop));
        let threads: Vec<_> = (0..threads).map(|_| ask()).collect();
        let mut processes = Processes::default();
        let begun = Instant::now();
        let transactions = transact(harness, (database, tables, client), plan, (&mut processes, &mut *look));
        let elapsed = begun.elapsed();
        stop.store(true, Relaxed);
        let mut outcome = HybridOutcome { queries: processes.end()?, elapsed, ..HybridOutcome::default() };
        for thread in threads {
            let (queries, given_up) = joined(thread.join())?;
            outcome.queries += queries;
            outcome.given_up += given_up;
        }
        outcome.transactions = transactions?;
        Ok(outcome)
    })
}

fn transact<S: Store>(
    harness: &Harness<'_>,
    (database, tables, client): (&mut SerialDatabase<S>, &SerialTables, &mut SerialClient),
    plan: HybridPlan,
    (processes, look): (&mut Processes, Look<'_, S>),
) -> Result<u64> {
    let (begun, mut count) = (Instant::now(), 0);
    let forks = plan.olap > 0 && has_children::<S>(&plan);
    if forks {
        processes.fork(database, tables, plan.olap)?;
    }
    loop {
        client.run_next(database, now())?;
        count += 1;
        if plan.olap > 0 && count % plan.refresh_every == 0 {
            if forks && S::MECHANISM.has_one_snapshot() {
                processes.quiesce()?;
            }
            database.refresh(plan.policy)?;
            if forks {
                processes.fork(database, tables, plan.olap)?;
            }
        }
        if count % LOOK_EVERY == 0
            && (look(count, begun.elapsed(), database).is_break() || harness.is_stopped())
        {
            return Ok(count);
        }
    }
}

/// Asks until it is told to stop; how many queries ended, and how many gave up.
fn ask_here<S: Store>(readers: &Readers<S>, tables: &SerialTables, stop: &AtomicBool) -> Result<(u64, u64)> {
    let (mut ended, mut given_up) = (0, 0);
    while !stop.load(Relaxed) {
        let reading = readers.enter()?;
        let check = || match stop.load(Relaxed) {
            true => Err(Error::new(SqlState::QueryCanceled, "the measurement has ended")),
            false => reading.check(),
        };
        match ask(reading.snapshot(), tables, ended, &check) {
            Ok(()) => ended += 1,
            Err(error) if error.state() == SqlState::QueryCanceled => {
                given_up += u64::from(!stop.load(Relaxed))
            }
            Err(error) => return Err(error),
        }
    }
    Ok((ended, given_up))
}

/// Q1 and Q5 in turns.
fn ask<S: Store>(
    snapshot: &SerialSnapshot<S>,
    tables: &SerialTables,
    number: u64,
    check: &dyn Fn() -> Result<()>,
) -> Result<()> {
    match number % 2 {
        0 => q1(snapshot, tables, check).map(|rows| _ = std::hint::black_box(rows)),
        _ => q5(snapshot, tables, check).map(|rows| _ = std::hint::black_box(rows)),
    }
}

/// Child processes that ask.
#[derive(Default)]
struct Processes {
    /// On the newest snapshot.
    now: Option<Generation>,
    /// On the one before, to end after their query.
    before: Option<Generation>,
    /// Queries of those that ended.
    queries: u64,
}

/// The children of one snapshot.
struct Generation {
    /// Whether they are to end, then how many queries each has answered.
    words: Arc<Region>,
    children: Vec<Child>,
}

impl Processes {
    /// Forks children on the newest snapshot; those on the one before end after their query.
    fn fork<S: Store>(
        &mut self,
        database: &SerialDatabase<S>,
        tables: &SerialTables,
        olap: usize,
    ) -> Result<()> {
        let words = Region::shared(PageSize::Small, (1 + olap) * size_of::<u64>())?;
        let mut children = Vec::new();
        for number in 0..olap {
            let shared = words.words();
            let child = database.fork(CHILD_BYTES, |snapshot, _| {
                let (ends, queries): (&AtomicU64, &AtomicU64) = (&shared[0], &shared[1 + number]);
                while ends.load(Relaxed) == 0 {
                    ask(snapshot, tables, queries.load(Relaxed), &|| Ok(()))?;
                    queries.fetch_add(1, Relaxed);
                }
                Ok(())
            })?;
            children.push(child);
        }
        let former = self.now.replace(Generation { words, children });
        self.finish_before()?;
        former.iter().for_each(Generation::ask_to_end);
        self.before = former;
        Ok(())
    }

    /// Waits until nobody asks any more.
    fn quiesce(&mut self) -> Result<()> {
        self.finish_before()?;
        self.before = self.now.take();
        self.before.iter().for_each(Generation::ask_to_end);
        self.finish_before()
    }

    fn finish_before(&mut self) -> Result<()> {
        let Some(before) = self.before.take() else { return Ok(()) };
        for child in before.children {
            child.wait(&|| false)?;
        }
        self.queries += before.words.words()[1..].iter().map(|queries| queries.load(Relaxed)).sum::<u64>();
        Ok(())
    }

    /// How many queries were answered in all. Queries that run are counted when they have ended.
    fn end(mut self) -> Result<u64> {
        self.quiesce()?;
        Ok(self.queries)
    }
}

impl Generation {
    fn ask_to_end(&self) {
        self.words.words()[0].store(1, Relaxed);
    }
}
