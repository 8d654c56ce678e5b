//! Threads that run a workload's clients in closed loops.

use super::client::{Client, ClientSetup, Done, Workload};
use super::profile::Counts;
use crate::tpcc::load::now;
use ankerdb_engine::{Error, Isolation, Result, SqlState};
use ankerdb_measure::cpu::ThreadClock;
use ankerdb_measure::histogram::Histogram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a stream runs.
#[derive(Clone, Copy, Debug)]
pub struct StreamOptions {
    /// Threads.
    pub threads: usize,
    /// Isolation level.
    pub isolation: Isolation,
    /// Same seed, same inputs.
    pub seed: u64,
    /// Allocations of the calling thread so far, if they are to be counted.
    pub allocations: Option<fn() -> u64>,
}

/// The outcome of one kind of transaction.
#[derive(Clone, Default)]
pub struct KindResult {
    /// Committed, or rolled back as the specification demands.
    pub completed: u64,
    /// Rolled back as the specification demands.
    pub rolled_back: u64,
    /// Skipped work, which the specification wants to be counted; see [`Done::Skipped`].
    pub skipped: u64,
    /// Executions that failed to serialize and were run again.
    pub aborts: u64,
    /// From first start to completion.
    pub latency: Histogram,
}

impl KindResult {
    /// Adds another thread's or phase's.
    pub fn add(&mut self, other: &KindResult) {
        self.completed += other.completed;
        self.rolled_back += other.rolled_back;
        self.skipped += other.skipped;
        self.aborts += other.aborts;
        self.latency.add(&other.latency);
    }
}

/// The outcome of a stream while it was recorded.
#[derive(Clone, Default)]
pub struct StreamResult {
    /// The recorded time.
    pub elapsed: Duration,
    /// CPU time of its threads meanwhile.
    pub cpu: Duration,
    /// By [`Workload::kinds`].
    pub kinds: Vec<KindResult>,
    /// Allocations of the client threads, if they were counted.
    pub allocations: Option<u64>,
    /// The processor's counts.
    pub counts: Counts,
}

impl StreamResult {
    /// All kinds together.
    pub fn total(&self) -> KindResult {
        let mut total = KindResult::default();
        self.kinds.iter().for_each(|kind| total.add(kind));
        total
    }

    /// Completed transactions.
    pub fn completed(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.completed).sum()
    }

    /// Completed transactions per second.
    pub fn per_second(&self) -> f64 {
        self.completed() as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Adds another phase's.
    pub fn add(&mut self, other: &StreamResult) {
        self.elapsed += other.elapsed;
        self.cpu += other.cpu;
        self.kinds.resize_with(self.kinds.len().max(other.kinds.len()), KindResult::default);
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(kind, other)| kind.add(other));
        if let Some(allocations) = other.allocations {
            *self.allocations.get_or_insert(0) += allocations;
        }
        self.counts.add(&other.counts);
    }
}

const WARMING_UP: u8 = 0;
const RECORDING: u8 = 1;
const STOPPED: u8 = 2;

/// A count that one thread writes, alone in its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicU64);

struct StreamState {
    state: AtomicU8,
    completed: Vec<Counter>,
}

/// A running stream.
pub struct Stream {
    shared: Arc<StreamState>,
    workers: Vec<JoinHandle<Result<StreamResult>>>,
    recording_since: Instant,
}

impl Stream {
    /// Starts the threads; nothing is recorded yet.
    ///
    /// # Errors
    /// Those of the clients' beginnings.
    pub fn start(workload: &dyn Workload, options: &StreamOptions) -> Result<Stream> {
        let shared = Arc::new(StreamState {
            state: AtomicU8::new(WARMING_UP),
            completed: (0..options.threads).map(|_| Counter::default()).collect(),
        });
        let kinds = workload.kinds().len();
        let mut stream =
            Stream { shared: shared.clone(), workers: Vec::new(), recording_since: Instant::now() };
        for number in 0..options.threads {
            let setup = ClientSetup { number, seed: options.seed, isolation: options.isolation };
            let worker = Worker {
                client: workload.client(&setup)?,
                shared: shared.clone(),
                number,
                is_weak: matches!(options.isolation, Isolation::ReadUncommitted | Isolation::ReadCommitted),
                kinds: vec![KindResult::default(); kinds],
                allocations: options.allocations,
            };
            let builder = std::thread::Builder::new().name(format!("client-{number}"));
            let spawned = builder.spawn(move || worker.work());
            stream.workers.push(spawned.map_err(|error| {
                shared.state.store(STOPPED, Ordering::Relaxed);
                Error::internal(format!("cannot start thread {number}: {error}"))
            })?);
        }
        Ok(stream)
    }

    /// From now on transactions are counted in the result.
    pub fn record(&mut self) {
        self.recording_since = Instant::now();
        self.shared.state.store(RECORDING, Ordering::Relaxed);
    }

    /// Transactions completed since the start, recorded or not.
    pub fn completed(&self) -> u64 {
        self.shared.completed.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }

    /// Whether some thread has ended already, which it does only when it fails.
    pub fn has_failed(&self) -> bool {
        self.workers.iter().any(JoinHandle::is_finished)
    }

    /// Ends the stream and returns what was recorded, or the first error that a thread met.
    ///
    /// # Errors
    /// The first one that a thread met.
    pub fn stop(mut self) -> Result<StreamResult> {
        let mut result = StreamResult { elapsed: self.recording_since.elapsed(), ..StreamResult::default() };
        self.shared.state.store(STOPPED, Ordering::Relaxed);
        let mut failure = None;
        for worker in std::mem::take(&mut self.workers) {
            match worker.join() {
                Ok(Ok(of_thread)) => result.add(&of_thread),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => failure = failure.or(Some(Error::internal("a client thread panicked"))),
            }
        }
        failure.map_or(Ok(result), Err)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.state.store(STOPPED, Ordering::Relaxed);
    }
}

struct Worker {
    client: Box<dyn Client>,
    shared: Arc<StreamState>,
    number: usize,
    is_weak: bool,
    kinds: Vec<KindResult>,
    allocations: Option<fn() -> u64>,
}

impl Worker {
    fn work(mut self) -> Result<StreamResult> {
        let (began, date) = (Instant::now(), now());
        let mut started = began;
        let (mut completed, mut allocations_before) = (0, None);
        let (clock, mut cpu_before) = (ThreadClock::of_this_thread(), None);
        while self.shared.state.load(Ordering::Relaxed) != STOPPED {
            let today = date + (started - began).as_micros() as i64;
            let kind = self.client.draw();
            let Some((done, aborts)) = self.complete(today)? else { break };
            let ended = Instant::now();
            // Recorded only now: a transaction that began before the recording and ended in it makes up for one that
            // began in it and did not end.
            if self.shared.state.load(Ordering::Relaxed) == RECORDING {
                if let (Some(clock), None) = (&clock, cpu_before) {
                    cpu_before = Some(clock.read());
                }
                if let (Some(allocations), None) = (self.allocations, allocations_before) {
                    allocations_before = Some(allocations());
                }
                let kind = &mut self.kinds[kind];
                kind.completed += 1;
                kind.aborts += aborts;
                kind.latency.record(ended - started);
                match done {
                    Done::Committed => {}
                    Done::RolledBack => kind.rolled_back += 1,
                    Done::Skipped(count) => kind.skipped += u64::from(count),
                }
            }
            completed += 1;
            self.shared.completed[self.number].0.store(completed, Ordering::Relaxed);
            started = ended;
        }
        let counted = self.allocations.zip(allocations_before);
        let allocations = counted.map(|(allocations, before)| allocations() - before);
        let cpu = clock.zip(cpu_before).map(|(clock, before)| clock.read().saturating_sub(before));
        let cpu = cpu.unwrap_or_default();
        Ok(StreamResult { kinds: self.kinds, allocations, cpu, ..StreamResult::default() })
    }

    /// Runs the drawn transaction until it is completed, counting failures; `None` if the stream was stopped before.
    fn complete(&mut self, now: i64) -> Result<Option<(Done, u64)>> {
        let mut aborts = 0;
        loop {
            match self.client.run(now) {
                Ok(done) => return Ok(Some((done, aborts))),
                Err(error) if self.may_run_again(&error) => aborts += 1,
                Err(error) => return Err(error),
            }
            if self.shared.state.load(Ordering::Relaxed) == STOPPED {
                return Ok(None);
            }
            pause(aborts);
        }
    }

    /// Below REPEATABLE READ two New-Orders may read the same next order number; the primary key then refuses
    /// the second.
    fn may_run_again(&self, error: &Error) -> bool {
        error.is_retryable() || (self.is_weak && error.state() == SqlState::UniqueViolation)
    }
}

/// Lets the conflicting transaction finish; waits longer the more often there was a conflict.
fn pause(failures: u64) {
    if failures > 6 {
        std::thread::yield_now();
    } else {
        (0..1 << failures).for_each(|_| std::hint::spin_loop());
    }
}
