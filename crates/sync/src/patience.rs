//! Waiting for something that usually takes a moment, and sometimes long.
//!
//! Another thread that is in the middle of a commit is over in microseconds if it runs, in a slice of the scheduler if it
//! does not, and in seconds if the commit is a large one. So [`Patience`] spins, then gives the core away, then sleeps,
//! for longer each time but never for more than a millisecond, so that a waiter can check its interrupt in time.

use std::cell::Cell;
use std::time::Duration;

/// Rounds of spinning, each twice as long as the one before.
const SPINS: u32 = 7;
/// Rounds of giving the core away.
const YIELDS: u32 = 32;
const SLEEP_FIRST: Duration = Duration::from_micros(50);
const SLEEP_LONGEST: Duration = Duration::from_millis(1);

/// How long the caller has waited already, in rounds.
#[derive(Debug, Default)]
pub struct Patience {
    rounds: Cell<u32>,
}

impl Patience {
    /// Nothing was waited for yet.
    pub fn new() -> Patience {
        Patience::default()
    }

    /// Whether the next round sleeps: the wait is not a short one.
    pub fn is_over(&self) -> bool {
        self.rounds.get() >= SPINS + YIELDS
    }

    /// Waits for a round: for nanoseconds at first, for a millisecond in the end.
    pub fn wait(&self) {
        let round = self.rounds.get();
        self.rounds.set(round.saturating_add(1));
        match round {
            0..SPINS => (0..1 << round).for_each(|_| std::hint::spin_loop()),
            SPINS.. if round < SPINS + YIELDS => std::thread::yield_now(),
            _ => {
                let doublings = (round - SPINS - YIELDS).min(8);
                let sleep = (SLEEP_FIRST * (1 << doublings)).min(SLEEP_LONGEST);
                std::thread::sleep(sleep);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn sleeps_come_last_and_stay_short() {
        let patience = Patience::new();
        let rounds = std::iter::from_fn(|| (!patience.is_over()).then(|| patience.wait())).count();
        assert_eq!(rounds as u32, SPINS + YIELDS);
        let begun = Instant::now();
        (0..12).for_each(|_| patience.wait());
        assert!(begun.elapsed() >= SLEEP_FIRST * 12);
    }
}
