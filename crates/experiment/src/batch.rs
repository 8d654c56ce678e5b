//! A batch of transactions, with queries among them or not, answered by all threads from end to end.

use crate::harness::{Harness, joined};
use crate::stream::{Ask, Transact};
use ankerdb_engine::Result;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Transactions that a thread takes from the batch at once.
const CHUNK: u64 = 64;
/// How often progress is shown.
const POLL: Duration = Duration::from_millis(5);

/// A batch.
pub struct Batch<'a> {
    /// The clients with which each thread runs transactions and queries.
    pub threads: Vec<(Transact<'a>, Ask<'a>)>,
    /// Transactions.
    pub transactions: u64,
    /// Transactions after each of which a query follows; 0 if there are none.
    pub query_after: u64,
    /// Queries to choose from, in turn.
    pub query_count: usize,
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchResult {
    /// Transactions and queries that were answered.
    pub answered: u64,
    /// Queries among them.
    pub queries: u64,
    /// From the first to the last.
    pub elapsed: Duration,
}

impl BatchResult {
    /// Transactions and queries answered per second.
    pub fn per_second(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// The state that threads share.
struct Queue {
    next: AtomicU64,
    answered: AtomicU64,
    transactions: u64,
    query_after: u64,
    query_count: usize,
    stop: AtomicBool,
}

/// Runs the batch; stopped by the user, it returns what was answered until then.
///
/// # Errors
/// The database's.
pub fn run(harness: &Harness<'_>, batch: Batch<'_>) -> Result<BatchResult> {
    let Batch { threads, transactions, query_after, query_count } = batch;
    let queue = Queue {
        next: AtomicU64::new(0),
        answered: AtomicU64::new(0),
        transactions,
        query_after,
        query_count,
        stop: AtomicBool::new(false),
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let queue = &queue;
        let workers: Vec<_> = (threads.into_iter())
            .map(|(transact, ask)| scope.spawn(move || queue.work(transact, ask)))
            .collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::sleep(POLL);
            harness.progress(queue.answered.load(Ordering::Relaxed) as f64 / transactions.max(1) as f64);
            if harness.is_stopped() {
                queue.stop.store(true, Ordering::Relaxed);
            }
        }
        let mut result = BatchResult::default();
        for worker in workers {
            let (answered, queries, ended) = joined(worker.join())?;
            result.answered += answered;
            result.queries += queries;
            result.elapsed = result.elapsed.max(ended - begun);
        }
        Ok(result)
    })
}

impl Queue {
    /// One thread: answered, queries among them, and when it found the queue empty.
    fn work(&self, mut transact: Transact<'_>, mut ask: Ask<'_>) -> Result<(u64, u64, Instant)> {
        let (mut answered, mut queries) = (0, 0);
        loop {
            let first = self.next.fetch_add(CHUNK, Ordering::Relaxed);
            for number in first..(first + CHUNK).min(self.transactions) {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok((answered, queries, Instant::now()));
                }
                transact(&self.stop)?;
                answered += 1;
                if self.query_after > 0 && (number + 1) % self.query_after == 0 {
                    ask((number / self.query_after) as usize % self.query_count)?;
                    answered += 1;
                    queries += 1;
                }
            }
            if first + CHUNK >= self.transactions {
                return Ok((answered, queries, Instant::now()));
            }
            self.answered.fetch_add(CHUNK, Ordering::Relaxed);
        }
    }
}
