//! loom models of [`crate::pending`]: a mark that is decided, replaced, and whose slot goes to another commit.

use std::sync::Arc;

use loom::thread;

use ankerdb_base::Timestamp;

use crate::pending::{Decision, PendingCommits};
use crate::primitive::{AtomicU64, Ordering, ProofStep, check, check_without};

/// The mark of a row: a number, or a timestamp.
const MARK: u64 = 1 << 60;

struct Row {
    commits: PendingCommits,
    header: AtomicU64,
    watermark: AtomicU64,
}

impl Row {
    /// A commit from its number to its end.
    fn commit(&self, timestamp: u64) {
        let mut commit = self.commits.begin().expect("there is one slot, and one commit at a time");
        self.header.store(MARK | commit.number(), Ordering::Release);
        commit.decide(Timestamp(timestamp));
        self.watermark.store(timestamp, Ordering::Release);
        self.header.store(timestamp, Ordering::Release);
        commit.end();
    }

    /// The row's timestamp, if it is known. The caller may see commits up to `visible`.
    fn timestamp(&self, visible: u64) -> Option<u64> {
        loop {
            let header = self.header.load(Ordering::Acquire);
            if header & MARK == 0 {
                return Some(header);
            }
            match self.commits.decision(header & !MARK) {
                Decision::Undecided => {
                    assert!(header & !MARK > visible, "a commit that is visible is not decided");
                    return None;
                }
                Decision::At(timestamp) => {
                    // A first commit's mark stands for 1, a second one's for 2.
                    assert_eq!(header & !MARK, timestamp.0, "the timestamp of another commit");
                    return Some(timestamp.0);
                }
                Decision::Over => {}
            }
        }
    }
}

/// Two commits use the slot, one after the other, while a reader looks at the row.
fn reader_and_two_commits() {
    let row = Arc::new(Row {
        commits: PendingCommits::new(1),
        header: AtomicU64::new(0),
        watermark: AtomicU64::new(0),
    });
    let committing = Arc::clone(&row);
    let committer = thread::spawn(move || (1..=2).for_each(|timestamp| committing.commit(timestamp)));
    let seen = row.watermark.load(Ordering::Acquire);
    let timestamp = row.timestamp(seen);
    assert!(timestamp.is_none_or(|timestamp| timestamp >= seen), "{timestamp:?} at {seen}");
    committer.join().unwrap();
    assert_eq!(row.timestamp(2), Some(2));
}

#[test]
fn loom_reader_and_two_pending_commits() {
    check(3, reader_and_two_commits);
}

#[test]
#[should_panic = "the timestamp of another commit"]
fn control_reader_that_does_not_look_at_the_number_again() {
    check_without(ProofStep::DecisionRechecks, reader_and_two_commits);
}

#[test]
#[should_panic = "a commit that is visible is not decided"]
fn control_end_that_takes_the_timestamp_out_before_it_closes() {
    check_without(ProofStep::EndCloses, reader_and_two_commits);
}
