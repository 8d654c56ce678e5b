//! Pending commits: how the changes of many rows become those of one timestamp in one store.
//!
//! # Idea
//! Work between drawing a timestamp and finishing it holds up the watermark, and so all other commits. A commit of many
//! rows must not write the timestamp to each of them in that time. Instead it takes a *number* before, and marks the rows
//! with it: the mark says "changed by commit number n, whose timestamp is not known yet", and readers take such a row for
//! newer than anything that they may see. When the timestamp is drawn and nothing is in the way, the commit *decides*: one
//! store gives all of its rows their timestamp. After it has finished it replaces the marks by the timestamp, without
//! haste, and *ends* the number.
//!
//! ```text
//! time ───────────────────────────────────────────────────────────────────────────────────────►
//! commit     begin ── mark rows ──── draw c, validate ─ decide(c) ─ finish ── replace marks ── end
//! a row      @5       n              n                  n = c                  @c
//! reader @s           older state    older state                    s >= c: the row as it is
//! ```
//!
//! # State of a slot
//! ```text
//!         begin           decide            end
//! FREE ───────────► OPEN ─────────► OPEN ─────────► CLOSING ─────────► FREE        number << 2 | state
//! 0                 0               timestamp       timestamp ──► 0    0           timestamp, 0 if not known
//! ```
//! A slot's numbers are its position plus multiples of the count of slots, each larger than the one before. So a number
//! tells its slot, and none is used twice.
//!
//! # Invariants
//! 1. *A reader that may see the commit knows its timestamp.* It began at a watermark that covers c. Deciding is before
//!    finishing, which the watermark releases, so the reader loads c from the slot, or something later.
//! 2. *No reader takes another commit's timestamp for this one's.* A reader loads the timestamp (Acquire), and then the
//!    number. The timestamp of a later commit, and the 0 before it, are stored (Release) after the slot has left the
//!    state OPEN for this number, so a reader that loaded one of them finds that, and is told [`Decision::Over`].
//! 3. *Over means that the mark has been replaced*, and the caller sees what by: `end` is called when all are, and it
//!    releases that.
//!
//! # Not here
//! What a mark looks like and where it stands. A commit that gets no slot, because too many large commits are under
//! way, commits in the ordinary way.

use ankerdb_base::Timestamp;

use crate::primitive::{AtomicU64, Ordering, ProofStep, weakened};

const FREE: u64 = 0;
const OPEN: u64 = 1;
const CLOSING: u64 = 2;
const STATE_BITS: u32 = 2;
const UNDECIDED: u64 = 0;

/// What is known of a commit by its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It has no timestamp yet: newer than anything that the caller may see.
    Undecided,
    /// Its timestamp.
    At(Timestamp),
    /// It has ended: its marks have been replaced, and a second look finds what by.
    Over,
}

/// A cache line of its own, so that readers of one commit's rows do not slow down another commit.
#[repr(align(64))]
struct Slot {
    /// Number and state.
    word: AtomicU64,
    timestamp: AtomicU64,
}

/// The large commits under way.
pub struct PendingCommits(Box<[Slot]>);

/// A commit with a number. One that is dropped without having been [ended](PendingCommit::end) keeps its slot for good,
/// so that marks which may be left never mean anything else.
#[must_use = "a number that is not ended is lost"]
pub struct PendingCommit<'c> {
    slot: &'c Slot,
    number: u64,
}

impl PendingCommits {
    /// For so many commits at once.
    pub fn new(slots: usize) -> PendingCommits {
        let slot = |position| Slot {
            word: AtomicU64::new((position as u64) << STATE_BITS | FREE),
            timestamp: AtomicU64::new(UNDECIDED),
        };
        PendingCommits((0..slots).map(slot).collect())
    }

    /// A number for a commit, at least 1; `None` if all slots are taken.
    pub fn begin(&self) -> Option<PendingCommit<'_>> {
        self.0.iter().find_map(|slot| {
            let seen = slot.word.load(Ordering::Relaxed);
            let number = (seen >> STATE_BITS) + self.0.len() as u64;
            // Acquire: the timestamp that we are going to store comes after the 0 that `end` has stored.
            let taken = seen & ((1 << STATE_BITS) - 1) == FREE
                && (slot.word)
                    .compare_exchange(seen, number << STATE_BITS | OPEN, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            taken.then_some(PendingCommit { slot, number })
        })
    }

    /// What is known of a commit whose mark the caller has found. Two loads.
    pub fn decision(&self, number: u64) -> Decision {
        let slot = &self.0[number as usize % self.0.len()];
        let timestamp = slot.timestamp.load(Ordering::Acquire);
        let is_open = slot.word.load(Ordering::Acquire) == number << STATE_BITS | OPEN;
        match timestamp {
            _ if !is_open && !weakened(ProofStep::DecisionRechecks) => Decision::Over,
            UNDECIDED => Decision::Undecided,
            timestamp => Decision::At(Timestamp(timestamp)),
        }
    }
}

impl PendingCommit<'_> {
    /// What its rows are marked with.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Gives all marked rows this timestamp. Once, before the timestamp is finished.
    pub fn decide(&mut self, timestamp: Timestamp) {
        debug_assert!(timestamp.0 != UNDECIDED && self.slot.timestamp.load(Ordering::Relaxed) == UNDECIDED);
        self.slot.timestamp.store(timestamp.0, Ordering::Release);
    }

    /// All marks have been replaced: the slot is free for another commit.
    pub fn end(self) {
        if !weakened(ProofStep::EndCloses) {
            self.slot.word.store(self.number << STATE_BITS | CLOSING, Ordering::Release);
        }
        self.slot.timestamp.store(UNDECIDED, Ordering::Release);
        self.slot.word.store(self.number << STATE_BITS | FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_known_from_its_beginning_to_its_end_and_never_again() {
        let commits = PendingCommits::new(2);
        let mut first = commits.begin().expect("two are free");
        let second = commits.begin().expect("one is free");
        assert!(commits.begin().is_none());
        assert_ne!(first.number(), second.number());
        let number = first.number();
        assert_eq!(commits.decision(number), Decision::Undecided);
        first.decide(Timestamp(7));
        assert_eq!(commits.decision(number), Decision::At(Timestamp(7)));
        assert_eq!(commits.decision(second.number()), Decision::Undecided);
        first.end();
        assert_eq!(commits.decision(number), Decision::Over);
        let third = commits.begin().expect("the first one's slot is free");
        assert!(third.number() > number);
        assert_eq!(commits.decision(number), Decision::Over);
        assert_eq!(commits.decision(third.number()), Decision::Undecided);
    }
}
