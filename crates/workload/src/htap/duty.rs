//! The load that stands in for queries in the control: as much CPU time, and rests like theirs.
//!
//! The OLAP stream rests between two queries, and few of its threads compute all of the time that a query takes. Threads
//! that burn without a rest would take more of the machine from the transactions than the queries do, and the
//! throughput kept beside queries would come out too high. So the control's threads get the share of their time that the
//! analytical threads computed in the last hybrid phase, in periods as long as a query with its rest.
//!
//! A thread that has to wait for a core gets less than it burns for. It makes up for that in the next periods, as far as
//! it can: what counts is the time of its own clock.

use ankerdb_measure::cpu::ThreadClock;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The most that a thread burns in one period, in periods: what it missed is spread over several.
const BURST_MAX: f64 = 4.0;
/// The longest rest without a check whether to stop.
const REST_MAX: Duration = Duration::from_millis(20);

/// How much each of the threads computes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Duty {
    /// Of its time, from 0 to 1.
    pub share: f64,
    /// Computing and rest together.
    pub period: Duration,
}

impl Duty {
    /// Of `threads` that used this much CPU time in `elapsed`, for so many queries.
    pub fn of(used: Duration, elapsed: Duration, threads: usize, queries: usize) -> Duty {
        let all = elapsed.as_secs_f64() * threads.max(1) as f64;
        let share = if all > 0.0 { (used.as_secs_f64() / all).clamp(0.0, 1.0) } else { 0.0 };
        Duty { share, period: elapsed.div_f64(queries.max(1) as f64).max(Duration::from_micros(100)) }
    }

    /// The next step of a thread that has had `used` CPU time after `elapsed`: how long to burn, and to rest.
    fn next(&self, elapsed: Duration, used: Duration) -> (Duration, Duration) {
        let period = self.period.as_secs_f64();
        let due = self.share * (elapsed.as_secs_f64() + period) - used.as_secs_f64();
        let burst = due.clamp(0.0, BURST_MAX * period);
        (Duration::from_secs_f64(burst), Duration::from_secs_f64((period - burst).max(0.0)))
    }

    /// Keeps the calling thread as busy as this says until it is told to stop, without touching memory.
    pub fn keep(&self, stop: &AtomicBool) {
        let clock = ThreadClock::of_this_thread();
        let (begun, before) = (Instant::now(), clock.as_ref().map_or(Duration::ZERO, ThreadClock::read));
        let mut burned = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let used = clock.as_ref().map_or(burned, |clock| clock.read().saturating_sub(before));
            let (burst, rest) = self.next(begun.elapsed(), used);
            burned += burn(burst, stop);
            let end = Instant::now() + rest;
            while let Some(rest) = end.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(rest.min(REST_MAX));
            }
        }
    }
}

/// Computes for a while; how long it was.
fn burn(time: Duration, stop: &AtomicBool) -> Duration {
    let (begun, mut state) = (Instant::now(), 1u64);
    while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            state = std::hint::black_box(state.wrapping_mul(6364136223846793005).wrapping_add(1));
        }
    }
    begun.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_duty_is_the_share_of_the_threads_time_in_periods_of_a_query() {
        let duty = Duty::of(1200 * MS, 1000 * MS, 2, 100);
        assert_eq!(duty, Duty { share: 0.6, period: 10 * MS });
        assert_eq!(Duty::of(3000 * MS, 1000 * MS, 2, 100).share, 1.0);
        assert_eq!(Duty::of(MS, Duration::ZERO, 2, 0).share, 0.0);
    }

    /// The share of ten seconds that a thread uses which gets this part of the time for which it burns.
    fn simulated(duty: Duty, granted: f64) -> f64 {
        let (mut elapsed, mut used) = (Duration::ZERO, Duration::ZERO);
        while elapsed < 10_000 * MS {
            let (burst, rest) = duty.next(elapsed, used);
            elapsed += burst + rest;
            used += burst.mul_f64(granted);
        }
        used.as_secs_f64() / elapsed.as_secs_f64()
    }

    #[test]
    fn threads_rest_as_queries_do_and_make_up_for_waiting() {
        let duty = Duty { share: 0.6, period: 10 * MS };
        assert_eq!(duty.next(Duration::ZERO, Duration::ZERO), (6 * MS, 4 * MS));
        for granted in [1.0, 0.9, 0.7] {
            let share = simulated(duty, granted);
            assert!((share - 0.6).abs() < 0.01, "{share} of the time with {granted} of the core");
        }
        // Not more than there is, and then without a rest.
        assert!((simulated(duty, 0.5) - 0.5).abs() < 0.01);
        assert_eq!(Duty { share: 1.0, ..duty }.next(Duration::ZERO, Duration::ZERO).1, Duration::ZERO);
        assert_eq!(Duty { share: 0.0, ..duty }.next(10 * MS, Duration::ZERO).0, Duration::ZERO);
    }

    #[test]
    fn a_thread_uses_the_share_that_it_was_given() {
        let duty = Duty { share: 0.3, period: 5 * MS };
        let stop = AtomicBool::new(false);
        let (used, elapsed) = std::thread::scope(|scope| {
            let burner = scope.spawn(|| {
                let (begun, clock) = (Instant::now(), ThreadClock::of_this_thread().expect("there is /proc"));
                duty.keep(&stop);
                (clock.read(), begun.elapsed())
            });
            std::thread::sleep(600 * MS);
            stop.store(true, Ordering::Relaxed);
            burner.join().expect("it does not panic")
        });
        let share = used.as_secs_f64() / elapsed.as_secs_f64();
        // A busy machine may give less, but nothing gives more.
        assert!((0.05..0.45).contains(&share), "{share}");
    }
}
