//! Finding rows by whole keys of unique indexes.

use crate::isolation::Isolation;
use crate::key_batch::KeyBatch;
use crate::key_filter::key_hash;
use crate::own_keys::OwnKeys;
use crate::pending_key::push_as_of;
use crate::transaction::Transaction;
use ankerdb_base::{ColumnSet, Error, IndexPosition, Result, RowId, SqlState};
use ankerdb_table::{Entries, Index, ReadAt, Storage, Table};
use crossbeam_epoch::Guard;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

impl Transaction {
    pub(crate) fn usable<'t>(&self, table: &'t Table, position: IndexPosition) -> Result<&'t Index> {
        let index = table.index(position);
        if index.is_dropped() {
            let message = format!("index \"{}\" does not exist", index.definition().name);
            return Err(Error::new(SqlState::UndefinedObject, message));
        }
        if index.valid_from() > self.start && self.isolation != Isolation::ReadUncommitted {
            return Err(Error::serialization("index is newer than this transaction"));
        }
        Ok(index)
    }

    /// A transaction that has read an index while it was dropped may have missed entries. Another try finds the index
    /// gone.
    pub(crate) fn check_still_there(&self, index: &Index) -> Result<()> {
        if index.is_dropped() {
            return Err(Error::serialization("index was dropped while this transaction was reading it"));
        }
        Ok(())
    }

    /// Whether a committed row found under `key` is visible under that key.
    pub(crate) fn visible_as(
        &self,
        number: usize,
        index: &Index,
        (key, row): (&[u8], RowId),
        at: ReadAt,
        pin: &Guard,
    ) -> bool {
        if self.writes.hides(number, row, index.key_columns()) {
            return false;
        }
        let storage = self.tables.storage(number);
        if !index.keys_move() {
            let block = storage.block(row.block());
            if !block.exists_at(row.offset(), at, pin) {
                return false;
            }
            // A reader of the newest state may meet another row in a slot whose former row's entry was just found.
            if at != ReadAt::Newest || block.header(row.offset()).timestamp() <= self.start {
                return true;
            }
        }
        storage.key_at(index, row, at, pin).ok().flatten().is_some_and(|(found, _)| found == key)
    }

    /// The visible row with exactly this key in a unique index. `columns` are those the caller is going to look at:
    /// a concurrent change of any other column is no conflict.
    ///
    /// # Errors
    /// `SerializationFailure` if what was read is out of date; `QueryCanceled`; `OutOfMemory`.
    pub fn find(
        &mut self,
        table: &Arc<Table>,
        index: IndexPosition,
        key: &[u8],
        columns: ColumnSet,
    ) -> Result<Option<RowId>> {
        self.before_read()?;
        let (position, number) = (index, self.tables.number(table)?);
        let index = self.usable(table, position)?;
        if self.writes.has_own_keys(number, index.key_columns())
            && self.may_have_key(number, position, index, key_hash(key))?
            && let Some(row) = self.own_keys(number, position, index)?.get(key)
        {
            return Ok(Some(row));
        }
        let found = self.committed_row(number, index, key, &crossbeam_epoch::pin());
        self.check_still_there(index)?;
        self.note_lookup(number, position, index, key, columns, found);
        Ok(found)
    }

    /// The rows with these keys in a unique index, as [`find`](Self::find) finds each: `rows` gets one for each key, or
    /// `None`. For procedures that know several keys at once: the index, and then the headers and `columns` of all rows,
    /// are asked for before the first row is looked at, so that the waits for memory overlap.
    ///
    /// # Errors
    /// Those of [`find`](Self::find).
    pub fn find_all(
        &mut self,
        table: &Arc<Table>,
        index: IndexPosition,
        keys: &KeyBatch,
        columns: ColumnSet,
        rows: &mut Vec<Option<RowId>>,
    ) -> Result<()> {
        self.before_read()?;
        rows.clear();
        let (position, number) = (index, self.tables.number(table)?);
        let index = self.usable(table, position)?;
        if self.writes.has_own_keys(number, index.key_columns()) {
            for key in keys.iter() {
                rows.push(self.find(table, position, key, columns)?);
            }
            return Ok(());
        }
        let pin = crossbeam_epoch::pin();
        let (storage, entries) = (Storage::of(table), Entries::of(index));
        keys.iter().for_each(|key| entries.prefetch(key));
        rows.extend(keys.iter().map(|key| {
            let row = candidate(index, key);
            if let Some(row) = row {
                storage.block(row.block()).prefetch(row.offset(), columns, &pin);
            }
            row
        }));
        for (key, row) in keys.iter().zip(rows.iter_mut()) {
            let is_visible =
                row.is_some_and(|row| self.visible_as(number, index, (key, row), self.read_at(), &pin));
            if !is_visible {
                // Rare: the entry is out of date, or there are several.
                *row = self.committed_row(number, index, key, &pin);
            }
            self.note_lookup(number, position, index, key, columns, *row);
        }
        self.check_still_there(index)
    }

    /// The committed row that this transaction sees under a key.
    pub(crate) fn committed_row(
        &self,
        number: usize,
        index: &Index,
        key: &[u8],
        pin: &Guard,
    ) -> Option<RowId> {
        let mut found = None;
        Entries::of(index).get(key, |row| {
            let row = RowId(row);
            if self.visible_as(number, index, (key, row), self.read_at(), pin) {
                found = Some(row);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        found
    }

    /// Notes what a lookup has read: the row, or that there is none with the key.
    pub(crate) fn note_lookup(
        &mut self,
        number: usize,
        position: IndexPosition,
        index: &Index,
        key: &[u8],
        columns: ColumnSet,
        found: Option<RowId>,
    ) {
        match found {
            Some(row) => {
                let table = self.tables[number].id();
                self.note_row(table, row, columns.union(index.key_columns()));
            }
            None => self.note_range(number, position, Bound::Included(key), Bound::Included(key)),
        }
    }

    /// The keys of pending rows that come from this transaction.
    pub(crate) fn own_keys(
        &mut self,
        number: usize,
        position: IndexPosition,
        index: &Index,
    ) -> Result<&OwnKeys> {
        let (table, at, interrupt) = (&self.tables[number], self.read_at(), &self.interrupt);
        let push_key = push_as_of(table, index, at);
        self.writes.own_keys((number, position), index, push_key, || interrupt.check())
    }

    /// Whether some pending row may have a key of this hash in a unique index that comes from this transaction.
    pub(crate) fn may_have_key(
        &mut self,
        number: usize,
        position: IndexPosition,
        index: &Index,
        hash: u64,
    ) -> Result<bool> {
        let (table, at, interrupt) = (&self.tables[number], self.read_at(), &self.interrupt);
        let push_key = push_as_of(table, index, at);
        self.writes.may_have_key((number, position), index, hash, push_key, || interrupt.check())
    }
}

/// The first row that has an entry under a key, to ask for its memory: not yet known to be visible.
fn candidate(index: &Index, key: &[u8]) -> Option<RowId> {
    let mut candidate = None;
    Entries::of(index).get(key, |row| {
        candidate = Some(RowId(row));
        ControlFlow::Break(())
    });
    candidate
}
