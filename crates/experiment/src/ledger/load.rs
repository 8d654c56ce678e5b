//! Clients that fire transactions at once, and what comes of it in the measured time.
//!
//! ```text
//! client 1   |--- fired, answered ---|--- ... ---|-----|------
//! client 2   |--------- ... ---------|----|-------------------
//!            ^ lead            ^ measured time         ^ end
//! ```
//! A firing that lies in the measured time in part counts in that part: of a ledger's client many transactions are answered at once, and
//! to count a firing where it ends would count too few or too many.

use crate::harness::{Harness, joined};
use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_measure::latency::median;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What has come of transactions that were fired together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Those that have done what they should.
    pub succeeded: u64,
    /// Those that have not: the account was not covered.
    pub failed: u64,
    /// How often one lost to another transaction and was repeated.
    pub repeated: u64,
}

/// A client that fires.
pub trait FiringClient: Send {
    /// Fires its next transactions, and waits until all have an outcome.
    ///
    /// # Errors
    /// What is not the transactions' fault.
    fn fire(&mut self) -> Result<Fired>;
}

/// What was measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadFigures {
    /// Successful transactions per second.
    pub per_second: f64,
    /// Median time from firing to the outcome, in milliseconds.
    pub latency_ms: f64,
    /// The share of transactions that failed.
    pub failed: f64,
    /// Repetitions for each transaction.
    pub repeated: f64,
}

/// One firing, in time since the clients began.
#[derive(Clone, Copy, Debug)]
struct Firing {
    begun: Duration,
    ended: Duration,
    fired: Fired,
}

/// Has all clients fire for the lead and the time of the setup, and tells what the time after the lead has come to.
///
/// # Errors
/// That of a client; 57014 if the user stops it before the measured time.
pub fn fire_all<C: FiringClient>(harness: &Harness<'_>, clients: &mut [C]) -> Result<LoadFigures> {
    let (lead, time) = (harness.setup.lead, harness.setup.time);
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    let fire = |client: &mut C| {
        let done = fire_until(client, begun, &stop);
        if done.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        done
    };
    let fire = &fire;
    let (done, end) = std::thread::scope(|scope| {
        let workers: Vec<_> = clients.iter_mut().map(|client| scope.spawn(move || fire(client))).collect();
        harness.wait(lead + time, &mut |passed| {
            harness.progress(passed.as_secs_f64() / (lead + time).as_secs_f64());
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        stop.store(true, Ordering::Relaxed);
        let end = begun.elapsed();
        (workers.into_iter().map(|worker| joined(worker.join())).collect::<Vec<_>>(), end)
    });
    let mut firings = Vec::new();
    for done in done {
        match done {
            Ok(done) => firings.extend(done),
            // Ctrl-c ends the servers, too.
            Err(_) if harness.is_stopped() => {}
            Err(error) => return Err(error),
        }
    }
    if end <= lead {
        return Err(Error::new(SqlState::QueryCanceled, "stopped before the clients had warmed up"));
    }
    Ok(figures(&firings, lead, end.min(lead + time)))
}

fn fire_until<C: FiringClient>(client: &mut C, begun: Instant, stop: &AtomicBool) -> Result<Vec<Firing>> {
    let mut firings = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let at = begun.elapsed();
        let fired = client.fire()?;
        firings.push(Firing { begun: at, ended: begun.elapsed(), fired });
    }
    Ok(firings)
}

fn figures(firings: &[Firing], from: Duration, to: Duration) -> LoadFigures {
    let (mut succeeded, mut failed, mut repeated) = (0.0, 0.0, 0.0);
    let mut latencies = Vec::new();
    for firing in firings {
        let overlap = firing.ended.min(to).saturating_sub(firing.begun.max(from));
        if overlap.is_zero() {
            continue;
        }
        let share = overlap.as_secs_f64() / (firing.ended - firing.begun).as_secs_f64();
        succeeded += firing.fired.succeeded as f64 * share;
        failed += firing.fired.failed as f64 * share;
        repeated += firing.fired.repeated as f64 * share;
        latencies.push((firing.ended - firing.begun).as_secs_f64() * 1e3);
    }
    let all = (succeeded + failed).max(f64::MIN_POSITIVE);
    LoadFigures {
        per_second: succeeded / (to - from).as_secs_f64(),
        latency_ms: median(&mut latencies).unwrap_or_default(),
        failed: failed / all,
        repeated: repeated / all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firing(begun_ms: u64, ended_ms: u64, succeeded: u64, failed: u64) -> Firing {
        let (begun, ended) = (Duration::from_millis(begun_ms), Duration::from_millis(ended_ms));
        Firing { begun, ended, fired: Fired { succeeded, failed, repeated: 0 } }
    }

    #[test]
    fn a_firing_counts_as_far_as_it_lies_in_the_measured_time() {
        let (from, to) = (Duration::from_millis(1_000), Duration::from_millis(3_000));
        let firings = [
            firing(0, 1_000, 500, 0),
            firing(500, 1_500, 100, 0),
            firing(1_500, 2_500, 70, 30),
            firing(2_000, 6_000, 400, 0),
            firing(3_000, 3_500, 900, 0),
        ];
        let found = figures(&firings, from, to);
        // 50 + 70 + 100 in two seconds, and 30 that failed beside them.
        assert!((found.per_second - 110.0).abs() < 1e-9, "{found:?}");
        assert!((found.failed - 30.0 / 250.0).abs() < 1e-9, "{found:?}");
        assert!((found.latency_ms - 1_000.0).abs() < 1e-9, "{found:?}");
    }
}
