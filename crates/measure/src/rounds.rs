//! Rounds: every variant once a round, and every other round in the opposite order.
//!
//! What is compared is measured seconds apart, since cores are shared with neighbours and tables grow; and what comes
//! first finds a smaller database and perhaps a cooler processor, so variants take turns in that.

use std::time::{Duration, Instant};

/// How often a waiting measurement checks whether it has to end.
pub const POLL: Duration = Duration::from_millis(10);
/// An odd number with bits all over: products with small numbers differ in many bits.
const SEED_STEP: u64 = 0x5851_f42d_4c95_7f2d;

/// The variant, of `variants`, that is measured in the `turn`-th place, counting turns through all rounds from 0 on.
pub fn variant_of(turn: usize, variants: usize) -> usize {
    let (round, place) = (turn / variants, turn % variants);
    if round.is_multiple_of(2) { place } else { variants - 1 - place }
}

/// The seed of a turn's inputs: no two turns of a run repeat each other's.
pub fn seed_of(run: u64, turn: u64) -> u64 {
    run.wrapping_add((turn + 1).wrapping_mul(SEED_STEP))
}

/// Waits until the time is over, or until `has_ended` says so, which is asked every 10 ms.
pub fn wait(time: Duration, has_ended: impl Fn() -> bool) {
    let end = Instant::now() + time;
    while !has_ended() {
        match end.checked_duration_since(Instant::now()) {
            Some(rest) => std::thread::sleep(rest.min(POLL)),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    #[test]
    fn rounds_have_every_variant_once_and_every_other_one_runs_backwards() {
        let order: Vec<usize> = (0..9).map(|turn| variant_of(turn, 3)).collect();
        assert_eq!(order, [0, 1, 2, 2, 1, 0, 0, 1, 2]);
    }

    #[test]
    fn no_two_turns_have_the_same_seed() {
        let seeds: BTreeSet<u64> = (0..1000).map(|turn| seed_of(7, turn)).collect();
        assert_eq!(seeds.len(), 1000);
        assert!(!seeds.contains(&7));
    }

    #[test]
    fn waiting_ends_in_time_or_when_asked_to() {
        let begun = Instant::now();
        wait(Duration::from_millis(30), || false);
        assert!(begun.elapsed() >= Duration::from_millis(30));
        let looks = Cell::new(0);
        wait(Duration::from_secs(3600), || {
            looks.set(looks.get() + 1);
            looks.get() > 2
        });
        assert_eq!(looks.get(), 3);
    }
}
