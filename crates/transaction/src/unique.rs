//! Unique keys: whether a commit may enter a key that other rows have, had, or are about to have.
//!
//! An entry in an index says only that some state of a row has, or had, the key. So before a key is entered, each row
//! that has an entry under it is checked:
//!
//! ```text
//! the row                                                         the key is
//! is new, changed or ended by this transaction                    what its own writes make of it
//! exists and has the key                                          taken (or newer than what this transaction reads)
//! does not have it, and the row has no owner                      free
//! does not have it, and a commit owns the row                     undecided: it may be about to get it
//! does not have it, and a sweep owns the row                      free in a moment, which is waited for
//! does not have it, and an interactive transaction at rest does   free
//! ```
//!
//! Because of the last line, a client that has locked a row, found it deleted, and waits does not block the key that
//! the row had. It is safe because that transaction has entered no keys yet: should its pending update give the row the
//! key, then its commit finds our entry (`lock_table` of `ankerdb_sync` says what resting means). Whether the owner
//! rests is checked before the row is looked at: a change in between has entered its keys after the entries were read,
//! and then the index checks again.

use crate::blocker::Obstacle;
use crate::pending_key::push_pending_key;
use crate::progress::CommitProgress;
use crate::refusal::{concurrent_update, duplicate_key};
use crate::transaction::Transaction;
use crate::write_set::{Write, WriteKind};
use ankerdb_base::{Result, RowId, Timestamp};
use ankerdb_index::UniqueInsert;
use ankerdb_sync::patience::Patience;
use ankerdb_sync::row_set::RowKey;
use ankerdb_table::{Entries, Index, ReadAt, Storage, Table};
use ankerdb_value::Value;
use crossbeam_epoch::Guard;

/// Whether another row is in conflict with a key.
enum KeyConflict {
    /// A committed row has the key.
    Taken,
    /// A row that may be about to get or lose the key.
    Undecided(RowId),
    /// A row whose entries a sweep is about to remove, or has removed.
    Swept,
    /// A row that got the key by this commit, after this transaction's snapshot: no duplicate to it, but not
    /// serializable either.
    Newer(Timestamp),
}

/// An entry that is to be the only one of its key.
#[derive(Clone, Copy)]
pub(crate) struct KeyEntry<'a> {
    /// The table's number.
    pub table: usize,
    pub index: &'a Index,
    pub key: &'a [u8],
    pub row: RowId,
}

impl Transaction {
    /// Adds the entry of a row's new key to a unique index, unless it is there already. 23505 if the key is taken.
    pub(crate) fn enter_unique(
        &self,
        write: &Write,
        index: &Index,
        key: &[u8],
        row: RowId,
        progress: &mut CommitProgress,
        pin: &Guard,
    ) -> Result<()> {
        let entry = KeyEntry { table: write.table, index, key, row };
        if self.try_enter_unique(entry, progress, pin)? {
            return Ok(());
        }
        let table = &self.tables[write.table];
        let value = |column: usize| match self.writes.cell(write, column) {
            Some(cell) => cell.to_value(table.data_type(column)),
            None => Storage::of(table).value(row, column, ReadAt::Newest, pin).unwrap_or(Value::Null),
        };
        Err(duplicate_key(table, index, &value))
    }

    /// Adds an entry to a unique index, unless it is there already; false if the key is taken.
    pub(crate) fn try_enter_unique(
        &self,
        entry: KeyEntry<'_>,
        progress: &mut CommitProgress,
        pin: &Guard,
    ) -> Result<bool> {
        let patience = Patience::new();
        loop {
            let found = Entries::of(entry.index).insert_unique(entry.key, entry.row.0, |other| {
                self.key_conflict(entry, RowId(other), progress, pin)
            })?;
            match found {
                UniqueInsert::Inserted | UniqueInsert::Present => return Ok(true),
                UniqueInsert::Conflict(KeyConflict::Taken) => return Ok(false),
                UniqueInsert::Conflict(KeyConflict::Newer(commit)) => {
                    progress.obstacle = Some(Obstacle::Commit(commit));
                    return Err(concurrent_update());
                }
                UniqueInsert::Conflict(KeyConflict::Undecided(other)) if patience.is_over() => {
                    progress.obstacle = Some(Obstacle::Row(entry.table, other));
                    return Err(concurrent_update());
                }
                // The other commit ends in a moment, one way or the other.
                UniqueInsert::Conflict(KeyConflict::Undecided(_)) => patience.wait(),
                // However long its thread has no processor, the sweep brings no change of its own.
                UniqueInsert::Conflict(KeyConflict::Swept) => {
                    self.check_interrupt()?;
                    patience.wait();
                }
            }
        }
    }

    /// Whether a row that has an entry under our key is in conflict with it.
    fn key_conflict(
        &self,
        KeyEntry { table: number, index, key, row }: KeyEntry<'_>,
        other: RowId,
        progress: &mut CommitProgress,
        pin: &Guard,
    ) -> Option<KeyConflict> {
        if other == row {
            return None;
        }
        if progress.has_loaded(number, other) {
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
        let block = Storage::of(table).block(other.block());
        let rests = block.header(other.offset()).is_locked() && self.owner_rests(table, other);
        let header = block.header(other.offset());
        let undecided = || match header.is_swept() {
            true => Some(KeyConflict::Swept),
            false => (header.is_locked() && !rests).then_some(KeyConflict::Undecided(other)),
        };
        if !header.exists() {
            // A row that is being inserted, or a deleted one whose entries are being removed.
            let is_mine = |progress: &mut CommitProgress| {
                progress.own_slots.contains(&progress.slots, &self.writes.writes, number, other)
            };
            let taken = header.is_locked() && is_mine(progress);
            return if taken { Some(KeyConflict::Taken) } else { undecided() };
        }
        let current = Storage::of(table).key_at(index, other, ReadAt::Newest, pin).ok().flatten();
        if current.is_none_or(|(current, _)| current != key) {
            return undecided();
        }
        if header.is_pending() {
            // It has the key as far as is known, and its commit has no timestamp yet.
            return Some(KeyConflict::Undecided(other));
        }
        let is_new = header.timestamp() > self.start && self.isolation.first_committer_wins();
        Some(if is_new { KeyConflict::Newer(header.timestamp()) } else { KeyConflict::Taken })
    }

    /// Whether a locked row's owner is going to enter no keys for it before it has looked at ours: an interactive
    /// transaction at rest, or this one, which has not written to the row.
    fn owner_rests(&self, table: &Table, row: RowId) -> bool {
        self.has_locked(table, row) || self.manager.locks.is_resting(RowKey::new(table.id().number(), row.0))
    }
}
