//! Owned rows: the right to change a row, as a type.
//!
//! An [`OwnedRow`] stands for the LOCKED bit of a row's header (`header`). It is made by setting the bit, there is one at
//! a time, and everything that changes a row, its versions or its entries is on it. Dropping it gives the row up
//! unchanged; installing consumes it, and gives the row up as changed.
//!
//! ```text
//!            Storage::try_own ─┐            ┌─ write_new / save_update / save_delete      before the timestamp
//!                            ├─► OwnedRow ┤
//!       Storage::allocate_row ─┘    │   ▲   └─ install_insert / install_update / install_delete   after it
//!                            keep │   │ Storage::resume
//!                                 ▼   │
//!                                KeptRow       to be stored over several statements or steps of a commit
//! ```
//!
//! Commits of many rows install them ahead of the timestamp (`block::ahead`): install_insert_ahead and its like follow on
//! writing or saving, before the timestamp, and settle_insert and its like on the commit's end; if the commit ends,
//! withdraw_insert and its like come between.
//!
//! A [`KeptRow`] borrows nothing and can be resumed by its own table only. It is neither copied nor made from numbers, so
//! it is as good as the row itself. Forgetting one leaves the row locked, which is memory-safe.
//!
//! [`KeptRows`] are many of them in little memory.
//!
//! Everything that can fail comes before the timestamp; after it nothing is allocated but copies of lent arrays.

use crate::block::RowBlock;
use crate::cell::Cell as RowCell;
use crate::header::Header;
use crate::index::Index;
use crate::storage::Storage;
use ankerdb_base::{ROWS_PER_BLOCK, Result, RowId, Timestamp, failpoint};
use ankerdb_sync::pending::PendingCommit;
use ankerdb_sync::row_set::{RowKey, RowSet};
use crossbeam_epoch::Guard;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;

/// A row that only its holder may change. See the module.
#[must_use = "the row is given up when this is dropped"]
pub struct OwnedRow<'t> {
    storage: &'t Storage,
    row: RowId,
    /// May be sent to another thread, but not be used by two.
    not_shared: PhantomData<Cell<()>>,
}

/// An [`OwnedRow`] that is kept for later.
#[must_use = "the row stays locked until it is resumed"]
pub struct KeptRow {
    table: NonZeroU64,
    row: RowId,
}

impl KeptRow {
    /// Which row.
    pub fn id(&self) -> RowId {
        self.row
    }
}

/// Kept rows of one table, a bit for each: for transactions that keep a million of them. Like a [`KeptRow`], it stands
/// for the rows themselves.
pub struct KeptRows {
    table: NonZeroU64,
    rows: RowSet,
}

impl KeptRows {
    /// No rows of a table yet.
    pub fn new(storage: &Storage) -> KeptRows {
        KeptRows { table: storage.identity(), rows: RowSet::default() }
    }

    fn key(&self, row: RowId) -> RowKey {
        RowKey::new(0, row.0)
    }

    /// Makes room for one more row.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub fn make_room(&mut self) -> Result<()> {
        if self.rows.has_room() { Ok(()) } else { self.rows.try_grow() }
    }

    /// Keeps an owned row, for which there is [room](Self::make_room). Panics if it belongs to another table.
    pub fn keep(&mut self, row: OwnedRow<'_>) {
        let kept = row.keep();
        assert_eq!(kept.table, self.table, "kept rows are of one table");
        let is_new = self.rows.insert(self.key(kept.row));
        debug_assert!(is_new, "a row has one owner");
    }

    /// Whether the row is among them.
    #[inline]
    pub fn contains(&self, row: RowId) -> bool {
        self.rows.contains(self.key(row))
    }

    /// Takes a row out.
    #[inline]
    pub fn take(&mut self, row: RowId) -> Option<KeptRow> {
        let was_there = self.rows.remove(self.key(row));
        was_there.then_some(KeptRow { table: self.table, row })
    }

    /// Gives all rows up. Panics if they were kept from another table.
    pub fn give_up(&mut self, storage: &Storage) {
        let identity = self.table;
        for RowKey { row, .. } in self.rows.take_all() {
            drop(storage.resume(KeptRow { table: identity, row: RowId(row) }));
        }
    }
}

impl Storage {
    /// Takes ownership of a row unless it is owned. Costs one atomic instruction.
    #[inline]
    pub fn try_own(&self, row: RowId) -> Option<OwnedRow<'_>> {
        self.block(row.block()).try_lock(row.offset()).map(|_| OwnedRow::of(self, row))
    }

    /// Like [`try_own`](Self::try_own), for a sweep: others see that the row's owner is no rival of theirs.
    pub(crate) fn try_own_for_sweep(&self, row: RowId) -> Option<OwnedRow<'_>> {
        self.block(row.block()).try_lock_for_sweep(row.offset()).map(|_| OwnedRow::of(self, row))
    }

    /// The owned row again. Panics if it was kept from another table.
    #[inline]
    pub fn resume(&self, kept: KeptRow) -> OwnedRow<'_> {
        assert_eq!(kept.table, self.identity(), "a row is resumed by its own table");
        OwnedRow::of(self, kept.row)
    }

    /// Uses a kept row, which stays with the caller even if there is a panic.
    #[inline]
    pub fn with_kept<R>(&self, kept: &mut KeptRow, use_row: impl FnOnce(&OwnedRow<'_>) -> R) -> R {
        assert_eq!(kept.table, self.identity(), "a row is resumed by its own table");
        use_row(&ManuallyDrop::new(OwnedRow::of(self, kept.row)))
    }

    /// A slot for a new row, owned by the caller. `worker` spreads threads over tail blocks.
    ///
    /// # Errors
    /// 53200 if there is no memory for another block.
    pub fn allocate_row(&self, worker: usize) -> Result<OwnedRow<'_>> {
        failpoint::reach("slot of a row")?;
        let mut tail = self.tail(worker).lock();
        if tail.free.is_empty() && tail.block.is_none_or(|number| self.block(number).fill() == ROWS_PER_BLOCK)
        {
            self.borrow_free_slots(worker, &mut tail.free);
        }
        if let Some(row) = tail.free.pop() {
            // A sweep may hold the row for a moment longer.
            loop {
                match self.try_own(row) {
                    Some(owned) => {
                        self.block(row.block()).set_used(row.offset());
                        return Ok(owned);
                    }
                    None => std::hint::spin_loop(),
                }
            }
        }
        loop {
            if let Some(number) = tail.block
                && let Some(offset) = self.block(number).take_fresh_slot()
            {
                return Ok(OwnedRow::of(self, RowId::new(number, offset)));
            }
            tail.block = Some(self.add_block()?);
        }
    }
}

impl<'t> OwnedRow<'t> {
    #[inline]
    fn of(storage: &'t Storage, row: RowId) -> OwnedRow<'t> {
        OwnedRow { storage, row, not_shared: PhantomData }
    }

    #[inline]
    fn block(&self) -> &'t RowBlock {
        self.storage.block(self.row.block())
    }

    /// Which row.
    #[inline]
    pub fn id(&self) -> RowId {
        self.row
    }

    /// Its newest state.
    #[inline]
    pub fn header(&self) -> Header {
        self.block().header(self.row.offset()).unlocked()
    }

    /// Keeps the row for later.
    #[inline]
    pub fn keep(self) -> KeptRow {
        let kept = KeptRow { table: self.storage.identity(), row: self.row };
        std::mem::forget(self);
        kept
    }

    /// Whether the row has this key, or had it in a state that some reader may still see.
    pub fn has_had_key(&self, index: &Index, key: &[u8], pin: &Guard) -> bool {
        self.storage.has_had_key(index, self.row, key, pin)
    }

    /// Writes the cells of a new row, one for each column, into its slot, as far as that can be done before there is a
    /// timestamp; no reader sees them. Views of long strings are added to `views`.
    ///
    /// # Errors
    /// 53200 without memory, 54000 if there is no room for a string; views may have been added then, see
    /// [`take_back`](Self::take_back).
    #[inline]
    pub fn write_new<'a>(
        &self,
        cells: impl Iterator<Item = (usize, RowCell<'a>)> + Clone,
        views: &mut Vec<u128>,
        pin: &Guard,
    ) -> Result<()> {
        self.block().write_new(self.row.offset(), cells, views, pin)
    }

    /// Keeps what an update is about to overwrite as a version, prunes the versions that no reader needs (`in_use` as in
    /// [`VersionChain::prune`](crate::VersionChain)) with the index entries that only they had, and puts the update's long
    /// strings where they are going to be.
    ///
    /// # Errors
    /// Those of [`write_new`](Self::write_new).
    #[inline]
    pub fn save_update<'a>(
        &self,
        changes: impl Iterator<Item = (usize, RowCell<'a>)> + Clone,
        in_use: &[Timestamp],
        views: &mut Vec<u128>,
        pin: &Guard,
    ) -> Result<()> {
        self.prune(changes.clone(), in_use, pin);
        self.block().save(self.row.offset(), changes, views, pin)
    }

    /// Keeps what a deletion is about to overwrite as a version, and prunes, as [`save_update`](Self::save_update)
    /// does.
    ///
    /// # Errors
    /// 53200 without memory.
    #[inline]
    pub fn save_delete(&self, in_use: &[Timestamp], pin: &Guard) -> Result<()> {
        self.prune(std::iter::empty(), in_use, pin);
        self.block().save(self.row.offset(), std::iter::empty(), &mut Vec::new(), pin)
    }

    /// Prunes versions that no reader needs.
    #[inline]
    pub(crate) fn prune<'a>(
        &self,
        changes: impl Iterator<Item = (usize, RowCell<'a>)> + Clone,
        in_use: &[Timestamp],
        pin: &Guard,
    ) {
        let chain = self.block().chain(self.row.offset());
        if !chain.is_empty() {
            self.storage.prune_entries(self.row, changes, in_use, pin);
            chain.prune(self.header().timestamp(), in_use, pin);
        }
    }

    /// Takes back what was written or saved for a commit that ends: `cells` as they were given, `views` as far as they
    /// have been added for them.
    ///
    /// # Safety
    /// The cells and views are those.
    pub unsafe fn take_back<'a>(
        &self,
        cells: impl Iterator<Item = (usize, RowCell<'a>)>,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        self.block().take_back(self.row.offset(), cells, views, pin);
    }

    /// Gives back a slot whose row was never installed and has no index entries any more.
    pub fn free(self) {
        let (storage, row) = (self.storage, self.row);
        self.block().set_free(row.offset());
        drop(self);
        storage.add_free_slots(row.block(), [row]);
        failpoint::step("slot given back");
    }

    /// Makes the row that was written visible from `commit` on, and gives it up.
    ///
    /// # Safety
    /// The row was written by [`write_new`](Self::write_new) with the same cells, and `views` gives the views that this
    /// has added. Cells of text columns are UTF-8.
    #[inline]
    pub unsafe fn install_insert<'a>(
        self,
        commit: Timestamp,
        cells: impl Iterator<Item = (usize, RowCell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.block().install_insert(self.row.offset(), commit, cells, views, pin) };
        std::mem::forget(self);
    }

    /// Changes the row for readers from `commit` on, and gives it up.
    ///
    /// # Safety
    /// The row was saved by [`save_update`](Self::save_update) with the same changes, and `views` gives the views that
    /// this has added. Cells of text columns are UTF-8.
    #[inline]
    pub unsafe fn install_update<'a>(
        self,
        commit: Timestamp,
        changes: impl Iterator<Item = (usize, RowCell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.block().install_update(self.row.offset(), commit, changes, views, pin) };
        std::mem::forget(self);
    }

    /// Ends the row for readers from `commit` on, and gives it up.
    ///
    /// # Safety
    /// The row was saved by [`save_delete`](Self::save_delete).
    #[inline]
    pub unsafe fn install_delete(self, commit: Timestamp) {
        self.block().install_delete(self.row.offset(), commit);
        self.storage.count_deletion();
        std::mem::forget(self);
    }
}

/// Rows that are installed ahead of their timestamp.
impl OwnedRow<'_> {
    /// Installs the row that was written for a commit that has no timestamp yet.
    ///
    /// # Safety
    /// As for [`install_insert`](Self::install_insert).
    #[inline]
    pub unsafe fn install_insert_ahead<'a>(
        &self,
        commit: &PendingCommit<'_>,
        cells: impl Iterator<Item = (usize, RowCell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.block().install_insert_ahead(self.row.offset(), commit.number(), cells, views, pin) };
    }

    /// Installs the update that was saved for a commit that has no timestamp yet. Adds to `displaced` what
    /// [`withdraw_update`](Self::withdraw_update) needs.
    ///
    /// # Errors
    /// 53200 if there is no memory for that; nothing has changed then.
    ///
    /// # Safety
    /// As for [`install_update`](Self::install_update).
    #[inline]
    pub unsafe fn install_update_ahead<'a>(
        &self,
        commit: &PendingCommit<'_>,
        changes: impl Iterator<Item = (usize, RowCell<'a>)> + Clone,
        views: &mut impl Iterator<Item = u128>,
        displaced: &mut Vec<u128>,
        pin: &Guard,
    ) -> Result<()> {
        let (row, number) = (self.row.offset(), commit.number());
        // SAFETY: the caller's promise.
        unsafe { self.block().install_update_ahead(row, number, changes, views, displaced, pin) }
    }

    /// Installs the deletion that was saved for a commit that has no timestamp yet.
    #[inline]
    pub fn install_delete_ahead(&self, commit: &PendingCommit<'_>) {
        self.block().install_delete_ahead(self.row.offset(), commit.number());
    }

    /// Takes the new row out again. Like the two below, to be settled afterwards: readers may have copied what they
    /// must not see.
    pub fn withdraw_insert(&self) {
        self.block().withdraw_insert(self.row.offset());
        // Its slot is swept like that of a deleted row.
        self.storage.count_deletion();
    }

    /// Puts back what the update of these columns has overwritten.
    ///
    /// # Safety
    /// These are the columns that were changed, in the same order, and `displaced` gives what was added for them.
    pub unsafe fn withdraw_update(
        &self,
        columns: impl Iterator<Item = usize> + Clone,
        displaced: &mut impl Iterator<Item = u128>,
        pin: &Guard,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.block().withdraw_update(self.row.offset(), columns, displaced, pin) };
    }

    /// Puts the deleted row back.
    pub fn withdraw_delete(&self) {
        self.block().withdraw_delete(self.row.offset());
    }

    /// Gives the new row the timestamp that its commit was decided to have, and gives it up.
    #[inline]
    pub fn settle_insert(self, commit: Timestamp) {
        self.block().settle_insert(self.row.offset(), commit);
        std::mem::forget(self);
    }

    /// Gives a row of which these columns were changed its commit's timestamp, and gives it up.
    #[inline]
    pub fn settle_update(self, commit: Timestamp, columns: impl Iterator<Item = usize>) {
        self.block().settle_update(self.row.offset(), commit, columns);
        std::mem::forget(self);
    }

    /// Gives a deleted row its commit's timestamp, and gives it up.
    #[inline]
    pub fn settle_delete(self, commit: Timestamp) {
        self.block().settle_delete(self.row.offset(), commit);
        self.storage.count_deletion();
        std::mem::forget(self);
    }
}

impl Drop for OwnedRow<'_> {
    #[inline]
    fn drop(&mut self) {
        self.block().unlock(self.row.offset());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, ColumnDefinition, ReadAt, TableDefinition};
    use ankerdb_value::DataType;
    use std::sync::atomic::{AtomicBool, Ordering};

    const COLUMNS: [&str; 16] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

    /// A table with a key of many columns that always have the same value, and its row.
    fn table_of_a_wide_key() -> (Storage, RowId) {
        let definition = TableDefinition::new("wide");
        let columns = COLUMNS.iter().map(|name| ColumnDefinition::new(*name, DataType::BigInt));
        let definition = columns.fold(definition, TableDefinition::column).primary_key(&COLUMNS);
        let table = Storage::new(&definition, None).expect("there is memory");
        let row = table.allocate_row(0).expect("there is memory");
        let (id, pin) = (row.id(), crossbeam_epoch::pin());
        let cells = [Cell::Word(1); COLUMNS.len()].into_iter().enumerate();
        row.write_new(cells.clone(), &mut Vec::new(), &pin).expect("there is memory");
        // SAFETY: written just now; no text.
        unsafe { row.install_insert(Timestamp(1), cells, &mut std::iter::empty(), &pin) };
        (table, id)
    }

    #[test]
    fn the_newest_key_of_several_columns_is_of_one_state() {
        let (table, row) = table_of_a_wide_key();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for commit in 2..100_000 {
                    let pin = crossbeam_epoch::pin();
                    let owned = table.try_own(row).expect("there is no other writer");
                    let changes = [Cell::Word(commit); COLUMNS.len()].into_iter().enumerate();
                    let in_use = [Timestamp(commit - 1)];
                    owned
                        .save_update(changes.clone(), &in_use, &mut Vec::new(), &pin)
                        .expect("there is memory");
                    // SAFETY: saved just now; no text.
                    unsafe {
                        owned.install_update(Timestamp(commit), changes, &mut std::iter::empty(), &pin)
                    };
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                let pin = crossbeam_epoch::pin();
                let (key, _) = table
                    .key_at(table.indexes().get(0).expect("it has one"), row, ReadAt::Newest, &pin)
                    .unwrap()
                    .unwrap();
                let parts: Vec<_> = key.chunks(8).collect();
                assert!(parts.iter().all(|part| *part == parts[0]), "a part of the key is of another commit");
            }
        });
    }
}
