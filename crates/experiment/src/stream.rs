//! The two streams of a hybrid workload: threads that run transactions as fast as they can, and threads that fire
//! a query every so often.

use crate::harness::{Harness, joined};
use ankerdb_engine::Result;
use ankerdb_measure::latency::median;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One transaction, run until it commits or the flag is raised; returns how often it had to be run again.
pub type Transact<'a> = Box<dyn FnMut(&AtomicBool) -> Result<u64> + Send + 'a>;
/// One query, by its position among the queries of the workload.
pub type Ask<'a> = Box<dyn FnMut(usize) -> Result<QueryTime> + Send + 'a>;

/// How long one query took.
#[derive(Clone, Copy, Debug)]
pub struct QueryTime {
    /// Position among the queries of the workload.
    pub query: usize,
    /// Time to take its snapshot, or to begin its transaction.
    pub creation: Duration,
    /// Time of everything else: planning and running it.
    pub latency: Duration,
}

/// A hybrid workload.
pub struct Hybrid<'a> {
    /// One for each OLTP thread.
    pub transactions: Vec<Transact<'a>>,
    /// One for each stream of queries.
    pub queries: Vec<Ask<'a>>,
    /// Queries to choose from.
    pub query_count: usize,
    /// Queries of a stream, after which the workload ends.
    pub query_limit: usize,
    /// Everything, at most.
    pub time: Duration,
    /// Before the first query.
    pub lead: Duration,
    /// Between two queries of a stream; a query that takes longer is followed by the next at once.
    pub interval: Duration,
    /// Width of the samples of throughput.
    pub sample: Duration,
    /// Seed of the order of queries.
    pub seed: u64,
}

/// The results of a hybrid workload.
#[derive(Clone, Debug, Default)]
pub struct HybridResult {
    /// Transactions committed in each sample: seconds at its end, and transactions per second.
    pub samples: Vec<(f64, f64)>,
    /// Transactions per second after the first query was due.
    pub throughput: f64,
    /// Transactions per second before that.
    pub throughput_before: f64,
    /// How often transactions were run again.
    pub retries: u64,
    /// Every query.
    pub queries: Vec<QueryTime>,
}

impl HybridResult {
    /// Median latency of a query in milliseconds, without the creation of its snapshot.
    pub fn latency_ms(&self, query: usize) -> Option<f64> {
        self.median_of(query, |run| run.latency.as_secs_f64() * 1e3)
    }

    /// Median time from before a query's snapshot to its answer in milliseconds: comparable whether columns are made ready
    /// when the snapshot is created or when they are first read.
    pub fn creation_and_latency_ms(&self, query: usize) -> Option<f64> {
        self.median_of(query, |run| (run.creation + run.latency).as_secs_f64() * 1e3)
    }

    /// Median time to create a query's snapshot, in microseconds.
    pub fn creation_us(&self, query: usize) -> Option<f64> {
        self.median_of(query, |run| run.creation.as_secs_f64() * 1e6)
    }

    fn median_of(&self, query: usize, value: impl Fn(&QueryTime) -> f64) -> Option<f64> {
        let runs = self.queries.iter().filter(|run| run.query == query);
        median(&mut runs.map(value).collect::<Vec<_>>())
    }
}

/// A count that one thread writes, alone in its cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicU64);

/// Runs the workload.
///
/// # Errors
/// The database's.
pub fn run(harness: &Harness<'_>, hybrid: Hybrid<'_>) -> Result<HybridResult> {
    let Hybrid { transactions, queries, query_count, query_limit, time, lead, interval, sample, seed } =
        hybrid;
    let stop = AtomicBool::new(false);
    let counters: Vec<Counter> = transactions.iter().map(|_| Counter::default()).collect();
    let asked = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let (stop, counters, asked) = (&stop, &counters, &asked);
        let workers: Vec<_> = (transactions.into_iter().zip(counters))
            .map(|(transact, counter)| scope.spawn(move || work(transact, counter, stop)))
            .collect();
        let streams = queries.len();
        let analysts: Vec<_> = (queries.into_iter().enumerate())
            .map(|(number, mut ask)| {
                let ask: Ask<'_> = Box::new(move |query| {
                    asked.fetch_add(1, Ordering::Relaxed);
                    ask(query)
                });
                let first = begun + lead + interval.mul_f64(number as f64 / streams as f64);
                let order = Order::new(query_count, seed.wrapping_add(number as u64));
                scope.spawn(move || fire(ask, order, query_limit, (first, interval), stop))
            })
            .collect();
        let completed = || counters.iter().map(|counter| counter.0.load(Ordering::Relaxed)).sum::<u64>();
        let mut clock = Clock::new(sample, lead);
        harness.wait(time, &mut |passed| {
            clock.look(passed, completed());
            let of_time = passed.as_secs_f64() / time.as_secs_f64().max(1e-9);
            let of_queries =
                asked.load(Ordering::Relaxed) as f64 / (query_limit as f64 * streams.max(1) as f64);
            harness.progress(of_time.max(of_queries));
            let has_ended = workers.iter().any(|worker| worker.is_finished())
                || analysts.iter().any(|analyst| analyst.is_finished());
            if has_ended { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let elapsed = begun.elapsed();
        let total = completed();
        stop.store(true, Ordering::Relaxed);
        let mut result = clock.result(elapsed, total);
        for worker in workers {
            result.retries += joined(worker.join())?;
        }
        for analyst in analysts {
            result.queries.extend(joined(analyst.join())?);
        }
        Ok(result)
    })
}

fn work(mut transact: Transact<'_>, counter: &Counter, stop: &AtomicBool) -> Result<u64> {
    let mut retries = 0;
    for completed in 1.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        retries += transact(stop)?;
        counter.0.store(completed, Ordering::Relaxed);
    }
    Ok(retries)
}

/// Queries in random order, each equally often.
struct Order {
    random: fastrand::Rng,
    left: Vec<usize>,
    count: usize,
}

impl Order {
    fn new(count: usize, seed: u64) -> Order {
        Order { random: fastrand::Rng::with_seed(seed), left: Vec::new(), count }
    }

    fn draw(&mut self) -> usize {
        if self.left.is_empty() {
            self.left.extend(0..self.count);
            self.random.shuffle(&mut self.left);
        }
        self.left.pop().unwrap_or(0)
    }
}

fn fire(
    mut ask: Ask<'_>,
    mut order: Order,
    limit: usize,
    (first, interval): (Instant, Duration),
    stop: &AtomicBool,
) -> Result<Vec<QueryTime>> {
    let (mut times, mut due) = (Vec::new(), first);
    while times.len() < limit {
        while let Some(rest) = due.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
            if stop.load(Ordering::Relaxed) {
                return Ok(times);
            }
            std::thread::sleep(rest.min(Duration::from_millis(10)));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(times);
        }
        times.push(ask(order.draw())?);
        due = (due + interval).max(Instant::now());
    }
    Ok(times)
}

/// Samples of throughput.
struct Clock {
    sample: Duration,
    lead: Duration,
    samples: Vec<(f64, f64)>,
    /// When the last sample was taken, and what was completed then.
    last: (Duration, u64),
    /// When the first query was due, and what was completed then.
    first_query: Option<(Duration, u64)>,
}

impl Clock {
    fn new(sample: Duration, lead: Duration) -> Clock {
        Clock { sample, lead, samples: Vec::new(), last: (Duration::ZERO, 0), first_query: None }
    }

    fn look(&mut self, passed: Duration, completed: u64) {
        if passed >= self.lead && self.first_query.is_none() {
            self.first_query = Some((passed, completed));
        }
        // Samples stand at the same places whenever exactly they were taken, so that runs can be compared.
        let due = self.sample * (self.samples.len() as u32 + 1);
        if passed >= due {
            let rate = rate((passed, completed), self.last);
            self.samples.push((due.as_secs_f64(), rate));
            self.last = (passed, completed);
        }
    }

    fn result(self, elapsed: Duration, total: u64) -> HybridResult {
        let first = self.first_query.unwrap_or((elapsed, total));
        HybridResult {
            samples: self.samples,
            throughput: rate((elapsed, total), first),
            throughput_before: rate(first, (Duration::ZERO, 0)),
            ..HybridResult::default()
        }
    }
}

fn rate(now: (Duration, u64), before: (Duration, u64)) -> f64 {
    let seconds = now.0.saturating_sub(before.0).as_secs_f64();
    if seconds > 0.0 { (now.1 - before.1) as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_random_and_fair() {
        let mut order = Order::new(8, 1);
        let mut counts = [0; 8];
        let drawn: Vec<usize> = (0..80).map(|_| order.draw()).collect();
        drawn.iter().for_each(|query| counts[*query] += 1);
        assert_eq!(counts, [10; 8]);
        assert_ne!(drawn[..8], drawn[8..16]);
    }

    #[test]
    fn creation_and_first_read_are_told_together() {
        let run = |creation, latency| QueryTime {
            query: 3,
            creation: Duration::from_millis(creation),
            latency: Duration::from_millis(latency),
        };
        // A timestamp and a long first read, or columns taken before and a short one: both give the same time.
        let result =
            HybridResult { queries: vec![run(0, 9), run(8, 1), run(5, 4)], ..HybridResult::default() };
        assert_eq!((result.creation_us(3), result.latency_ms(3)), (Some(5000.0), Some(4.0)));
        assert_eq!((result.creation_and_latency_ms(3), result.creation_and_latency_ms(0)), (Some(9.0), None));
    }

    #[test]
    fn throughput_is_told_before_and_after_the_first_query() {
        let second = Duration::from_secs(1);
        let mut clock = Clock::new(second, 2 * second);
        (1..=4).for_each(|passed| {
            clock.look(second * passed, if passed <= 2 { 100 } else { 50 } * u64::from(passed))
        });
        let result = clock.result(4 * second, 300);
        assert_eq!((result.throughput_before, result.throughput), (100.0, 50.0));
        assert_eq!(result.samples.len(), 4);
        assert_eq!(result.samples[0], (1.0, 100.0));
    }
}
