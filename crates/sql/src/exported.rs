//! Snapshots that transactions have exported, for others to read the same (`pg_export_snapshot`, `SET TRANSACTION SNAPSHOT`).
//!
//! An entry is there for as long as the transaction that has exported it is open; a transaction that has imported it by then keeps it readable.

use ankerdb_engine::{Error, Result, Snapshot, SqlState};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// All exported snapshots of a database, by their identifiers.
#[derive(Default)]
pub(crate) struct ExportedSnapshots {
    known: Mutex<HashMap<String, Snapshot>>,
    next: AtomicU32,
}

impl ExportedSnapshots {
    /// An identifier that no snapshot has yet, of the form that PostgreSQL's have. `session` is the number of who asks.
    pub(crate) fn new_identifier(&self, session: i32) -> String {
        format!("{session:08X}-{:08X}-1", self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn add(&self, identifier: &str, snapshot: Snapshot) {
        self.known.lock().insert(identifier.to_owned(), snapshot);
    }

    pub(crate) fn remove(&self, identifier: &str) {
        // Dropped behind the lock.
        let _removed = self.known.lock().remove(identifier);
    }

    /// The snapshot. 22023 if there is none.
    pub(crate) fn find(&self, identifier: &str) -> Result<Snapshot> {
        let found = self.known.lock().get(identifier).cloned();
        found.ok_or_else(|| {
            let message = format!("invalid snapshot identifier: \"{identifier}\"");
            Error::new(SqlState::InvalidParameterValue, message)
        })
    }
}
