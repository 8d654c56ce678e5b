//! `ankerdb.max_staleness`: analytical queries that may be late share the snapshots of others (docs/design/snapshot-manager.md).
//!
//! Which ones: queries outside of transaction blocks, and blocks that are READ ONLY from their beginning, at REPEATABLE READ or above.
//! Everything else reads what is committed now: it writes, or may write by what it has read.
//!
//! A session sees what it has done itself, and its queries do not go back in time: the first query behind a statement that may have
//! committed something shows what was committed when it began, and each query at least what the one before it has shown. Rows
//! that were looked up by keys do not count: they are always those of now.

use super::SqlSession;
use crate::Outcome;
use ankerdb_engine::{Isolation, ReadView, Result, Snapshot, Timestamp, Transaction};
use std::time::Duration;

/// What a session's queries have to see.
#[derive(Default)]
pub(super) struct Seen {
    /// Up to here: a query has shown it.
    timestamp: Timestamp,
    /// Whether something has run since that may have committed.
    has_acted: bool,
}

impl Seen {
    /// Notes that something has run that may have committed.
    pub(super) fn note_action(&mut self) {
        self.has_acted = true;
    }

    /// Notes what a statement has come to. `was_read_only`: it ran in a block that could not write.
    pub(super) fn note(&mut self, outcome: &Result<Outcome>, was_read_only: bool) {
        self.has_acted |= match outcome {
            Ok(Outcome::Rows(rows)) => !rows.are_of_query(),
            Ok(Outcome::Command(tag)) => {
                !(COMMITS_NOTHING.contains(&&**tag) || tag == "COMMIT" && was_read_only)
            }
            Ok(Outcome::CopyIn(_) | Outcome::CopyOut(_)) | Err(_) => true,
        };
    }

    /// Notes what a query shows.
    pub(super) fn note_shown(&mut self, view: &ReadView) {
        self.timestamp = self.timestamp.max(view.timestamp());
    }
}

/// Commands behind which there is nothing new to see.
const COMMITS_NOTHING: [&str; 12] = [
    "",
    "BEGIN",
    "CLOSE CURSOR",
    "DEALLOCATE",
    "DECLARE CURSOR",
    "PREPARE",
    "RELEASE",
    "RESET",
    "ROLLBACK",
    "SAVEPOINT",
    "SET",
    "START TRANSACTION",
];

impl SqlSession {
    /// A snapshot for a query that may miss what was committed in the last `staleness`.
    pub(super) fn snapshot_within(&mut self, isolation: Isolation, staleness: Duration) -> Snapshot {
        if std::mem::take(&mut self.seen.has_acted) {
            self.seen.timestamp = self.runner.engine.database().visible_timestamp();
        }
        self.session.snapshot_within(isolation, staleness, self.seen.timestamp)
    }

    /// The transaction of a block that cannot write and may be late; `None` for any other, and behind a savepoint, which may bring
    /// back that the block can write. It stays one that cannot.
    pub(super) fn begin_sharing(&mut self, isolation: Isolation) -> Option<Transaction> {
        let staleness = self.settings.limits.staleness?;
        let reads_one = matches!(isolation, Isolation::RepeatableRead | Isolation::Serializable);
        if !reads_one || !self.block.is_read_only(&self.settings) || !self.block.can_import() {
            return None;
        }
        let snapshot = self.snapshot_within(isolation, staleness);
        let mut transaction = self.session.begin_sharing(&snapshot).ok()?;
        self.limits().set_on(&mut transaction);
        self.block.shares = true;
        Some(transaction)
    }
}
