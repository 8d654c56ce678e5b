//! Unique keys: whether a commit may enter a key that other rows have, had, or are about to have.

use crate::commit::Progress;
use crate::transaction::{Isolation, Transaction, push_pending_key};
use crate::write::{concurrent_update, duplicate_key};
use crate::write_set::{Write, WriteKind};
use ankerdb_base::{Result, RowId};
use ankerdb_index::UniqueInsert;
use ankerdb_table::{Index, ReadAt};
use ankerdb_value::Value;
use crossbeam_epoch::Guard;

/// Whether somebody else's row stands in the way of a key.
enum KeyConflict {
    /// A committed row has the key.
    Taken,
    /// A row that may be about to get or lose the key.
    Undecided,
    /// A row that got the key after this transaction's snapshot: no duplicate to it, but not serializable either.
    Newer,
}

impl Transaction {
    /// Adds the entry of a row's new key to a unique index; false if it was there already.
    pub(crate) fn enter_unique(
        &self,
        write: &Write,
        index: &Index,
        key: &[u8],
        row: RowId,
        progress: &Progress,
        pin: &Guard,
    ) -> Result<bool> {
        let table = &self.tables[write.table];
        let backoff = crossbeam_utils::Backoff::new();
        loop {
            let found = index.tree().insert_unique(key, row.0, |other| {
                self.key_conflict(write.table, index, key, row, RowId(other), progress, pin)
            })?;
            match found {
                UniqueInsert::Inserted => return Ok(true),
                UniqueInsert::Present => return Ok(false),
                UniqueInsert::Conflict(KeyConflict::Taken) => {
                    let value = |column: usize| match self.writes.cell(write, column) {
                        Some(cell) => cell.to_value(table.data_type(column)),
                        None => table.value(row, column, ReadAt::Newest, pin).unwrap_or(Value::Null),
                    };
                    return Err(duplicate_key(table, index, &value));
                }
                UniqueInsert::Conflict(KeyConflict::Newer) => return Err(concurrent_update()),
                UniqueInsert::Conflict(KeyConflict::Undecided) if backoff.is_completed() => {
                    return Err(concurrent_update());
                }
                // The other commit is over in a moment, one way or the other.
                UniqueInsert::Conflict(KeyConflict::Undecided) => backoff.snooze(),
            }
        }
    }

    /// Whether a row that has an entry under our key stands in its way.
    #[expect(clippy::too_many_arguments, reason = "one step of the function above, named")]
    fn key_conflict(
        &self,
        number: usize,
        index: &Index,
        key: &[u8],
        row: RowId,
        other: RowId,
        progress: &Progress,
        pin: &Guard,
    ) -> Option<KeyConflict> {
        if other == row {
            return None;
        }
        if progress.slots.iter().any(|&(_, slot)| slot == other) {
            return Some(KeyConflict::Taken);
        }
        let table = &self.tables[number];
        // A row whose key this transaction changes or ends: its entry under the new key, if any, would be ours.
        match self.writes.get(number, other) {
            Some(write) if write.kind == WriteKind::Delete => return None,
            Some(write) if write.kind == WriteKind::Update => {
                let mut its_key = Vec::new();
                let at = ReadAt::Newest;
                let known = push_pending_key(&self.writes, write, table, index, at, pin, &mut its_key);
                return (known.is_err() || its_key == key).then_some(KeyConflict::Taken);
            }
            _ => {}
        }
        let header = table.block(other.block()).header(other.offset());
        if !header.exists() {
            // A new row on its way in, or a deleted one on its way out.
            return header.is_locked().then_some(KeyConflict::Undecided);
        }
        let current = table.key_at(index, other, ReadAt::Newest, pin).ok().flatten();
        if current.is_none_or(|(current, _)| current != key) {
            return header.is_locked().then_some(KeyConflict::Undecided);
        }
        let is_new = header.timestamp() > self.start
            && matches!(self.isolation, Isolation::RepeatableRead | Isolation::Serializable);
        Some(if is_new { KeyConflict::Newer } else { KeyConflict::Taken })
    }
}
