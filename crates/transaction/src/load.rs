//! Loads: new rows of one table, in whole blocks, as part of a transaction that does little else.
//!
//! ```text
//! load                    rows into fresh blocks, which only this transaction can reach: dropped if it ends
//! commit, before c        blocks attached, all of their rows pending under one number; then their keys, in key order
//! at c                    the number becomes c, in one store (`ahead`)
//! after c                 rows settled block by block
//! ```
//!
//! A part of a load may be filled by another thread ([`LoadPart`]): it needs nothing of the transaction but its block.
//!
//! Rows of a load are no part of the write set: the transaction does not see them. So its caller must not read the table, nor
//! write to it in other ways afterwards; a COPY of its own does not. Keys are checked by the commit, like a procedure's.
//!
//! What others have read is matched with the table alone: the record of a load names it (`CommitRecord::add_loaded`).
//!
//! Not here: tables with foreign keys, whose parents are looked up row by row; tables with columns that are computed; databases in which cells are read as they lie.

use crate::check::check_new_row;
use crate::ends_process::EndsProcess;
use crate::progress::{Ahead, CommitProgress};
use crate::record::CommitRecord;
use crate::refusal::duplicate_key;
use crate::retired::let_go;
use crate::rows_to_load::Load;
use crate::transaction::Transaction;
use crate::unique::KeyEntry;
use crate::write::{check_value_ref, with_row};
use ankerdb_base::{BlockNumber, Error, ROWS_PER_BLOCK, Result, RowId, Timestamp, failpoint};
use ankerdb_sync::memory_limit::{Claim, check_system};
use ankerdb_sync::patience::Patience;
use ankerdb_table::{
    Cell, Entries, FreshBlock, Index, KeyRun, LoadedBlock, MergedKeys, RUNS_BYTES_MAX, Storage, Table,
    begin_pending,
};
use ankerdb_value::ValueRef;
use crossbeam_epoch::Guard;
use std::sync::Arc;

impl Transaction {
    /// Whether rows of the table can be [loaded](Self::load) by this transaction.
    pub fn can_load(&self, table: &Table) -> bool {
        Storage::of(table).takes_fresh_blocks()
            && table.definition().foreign_keys.is_empty()
            && !table.has_generated()
            && self.manager.versioning().ahead_from != usize::MAX
            && !self.is_strict()
    }

    /// Adds a row like [`insert`](Self::insert), for many rows of a table that [can be loaded](Self::can_load) and is neither
    /// read nor written to otherwise until the commit: all that this transaction loads is of one table. `value` gives the value
    /// of each column, as often as it is asked.
    ///
    /// # Errors
    /// Those of `insert`; a key that is taken is found by the commit.
    pub fn load<'a>(&mut self, table: &Arc<Table>, value: impl Fn(usize) -> ValueRef<'a>) -> Result<()> {
        let block = self.block_to_fill(table)?;
        push_row(table, block, value)
    }

    /// A block for rows of a table that [can be loaded](Self::can_load), which any thread may fill.
    ///
    /// # Errors
    /// 53200 without memory.
    pub fn begin_part(&mut self, table: &Arc<Table>) -> Result<LoadPart> {
        let number = self.tables.number(table)?;
        Ok(LoadPart { block: self.fresh_block(number)?, table: table.clone() })
    }

    /// Adds the rows of a part behind all that were loaded before, as [`load`](Self::load) does.
    ///
    /// # Errors
    /// 53200 without memory.
    pub fn add_part(&mut self, part: LoadPart) -> Result<()> {
        let number = self.tables.number(&part.table)?;
        self.add_block(number, part.block)
    }

    /// The block that takes the next row.
    #[inline]
    fn block_to_fill(&mut self, table: &Arc<Table>) -> Result<&mut FreshBlock> {
        let number = self.tables.number(table)?;
        let has_room = self.load.as_ref().is_some_and(|load| {
            load.table == number && load.blocks.last().is_some_and(|block| !block.is_full())
        });
        if !has_room {
            self.add_fresh_block(number)?;
        }
        let load = self.load.as_mut().expect("added above");
        Ok(load.blocks.last_mut().expect("added above"))
    }

    #[cold]
    fn add_fresh_block(&mut self, number: usize) -> Result<()> {
        let block = self.fresh_block(number)?;
        self.add_block(number, block)
    }

    fn fresh_block(&self, number: usize) -> Result<FreshBlock> {
        let storage = self.tables.storage(number);
        let limit = self.manager.memory_limit();
        let bytes = storage.row_bytes() * ROWS_PER_BLOCK;
        self.admit(Claim::Large, bytes)?;
        let _ceiling = limit.put_up(Claim::Large);
        let load = self.load.as_ref().filter(|load| load.table == number);
        let before = load.and_then(|load| load.blocks.last());
        storage.fresh_block(before).map_err(|error| limit.explain(error))
    }

    fn add_block(&mut self, number: usize, block: FreshBlock) -> Result<()> {
        let load = self.load.get_or_insert_with(|| Box::new(Load::of(number)));
        if load.table != number {
            return Err(Error::internal("a transaction loads one table"));
        }
        load.add(block)
    }

    /// Which of the rows that were loaded, counted from 0, had a key that is taken, if that has ended the commit.
    pub fn refused_row(&self) -> Option<usize> {
        self.refused_row
    }

    /// Attaches the blocks, and tells the record.
    pub(crate) fn attach_load(
        &mut self,
        progress: &mut CommitProgress,
        record: &mut CommitRecord,
        pin: &mut Guard,
    ) -> Result<()> {
        let Some(load) = self.load.take() else { return Ok(()) };
        let Load { table, blocks, .. } = *load;
        record.add_loaded(self.tables[table].id());
        progress.loaded_table = table;
        let room = progress.loaded.try_reserve(blocks.len());
        room.map_err(|_| Error::out_of_memory(blocks.len() * size_of::<LoadedBlock>()))?;
        let patience = Patience::new();
        let commit = loop {
            match begin_pending() {
                Some(commit) => break commit,
                None => {
                    patience.wait();
                    pin.repin();
                    self.check_interrupt()?;
                }
            }
        };
        let ahead = progress.large.insert(Ahead::new(commit));
        for block in blocks {
            let loaded = self.tables.storage(table).attach(block, &ahead.commit)?;
            progress.loaded.push(loaded);
        }
        Ok(())
    }

    /// Enters the keys of the rows that were attached, index by index, some blocks at a time.
    pub(crate) fn enter_loaded_keys(&mut self, progress: &mut CommitProgress, pin: &mut Guard) -> Result<()> {
        if progress.loaded.is_empty() {
            return Ok(());
        }
        let table = self.tables[progress.loaded_table].clone();
        let limit = self.manager.memory_limit();
        for (_, index) in table.maintained_indexes() {
            let (mut next, mut runs, mut held_bytes) = (0, Vec::new(), 0);
            while next < progress.loaded.len() {
                let mut run = KeyRun::new();
                next = self.collect_keys(&table, index, progress, next, &mut run, pin)?;
                // Keys that come in order, one run behind the other: there is nothing to merge.
                let is_in_order = runs.is_empty() && run.is_sorted();
                run.sort();
                held_bytes += run.memory_bytes();
                runs.push(run);
                // The entries will take about as much memory as the runs.
                let is_enough =
                    held_bytes >= RUNS_BYTES_MAX || limit.check(Claim::Large, held_bytes).is_err();
                if is_in_order || is_enough || next == progress.loaded.len() {
                    self.enter_merged_keys(&table, index, MergedKeys::all(&runs), progress, pin)?;
                    (runs, held_bytes) = (Vec::new(), 0);
                }
            }
        }
        Ok(())
    }

    /// Collects the keys of blocks from the `next` one on, until there are many; returns the first block that is left.
    fn collect_keys(
        &self,
        table: &Table,
        index: &Index,
        progress: &CommitProgress,
        mut next: usize,
        run: &mut KeyRun,
        pin: &mut Guard,
    ) -> Result<usize> {
        while next < progress.loaded.len() && !run.is_full() {
            pin.repin();
            self.check_interrupt()?;
            check_system()?;
            let loaded = &progress.loaded[next];
            for row in loaded.rows() {
                run.add(row, |out| {
                    Storage::of(table).push_loaded_key(loaded, row, index, pin, out).map(Some)
                })?;
            }
            next += 1;
        }
        Ok(next)
    }

    fn enter_merged_keys(
        &mut self,
        table: &Arc<Table>,
        index: &Index,
        keys: MergedKeys<'_>,
        progress: &mut CommitProgress,
        pin: &mut Guard,
    ) -> Result<()> {
        for (step, (key, row, has_null)) in keys.enumerate() {
            if step.is_multiple_of(ROWS_PER_BLOCK) {
                let_go(pin);
                self.check_interrupt()?;
            }
            failpoint::reach("entry of a key")?;
            check_system()?;
            if !index.definition().unique || has_null {
                Entries::of(index).insert(key, row.0)?;
                continue;
            }
            let number = progress.loaded_table;
            let entered =
                self.try_enter_unique(KeyEntry { table: number, index, key, row }, progress, pin)?;
            if !entered {
                let place = progress.loaded_place(row.block()).expect("a row of this load");
                self.refused_row = Some(progress.rows_loaded_before(place) + row.offset());
                let loaded = &progress.loaded[place];
                let value = |column: usize| Storage::of(table).loaded_value(loaded, row, column, pin);
                return Err(duplicate_key(table, index, &value));
            }
        }
        Ok(())
    }

    /// Makes rows that were attached deleted ones.
    pub(crate) fn withdraw_load(&self, progress: &CommitProgress) {
        for loaded in &progress.loaded {
            self.tables.storage(progress.loaded_table).withdraw_loaded(loaded);
        }
    }

    /// Gives the rows their timestamp.
    pub(crate) fn settle_load(&self, progress: &mut CommitProgress, commit: Timestamp, pin: &mut Guard) {
        let _no_way_out = EndsProcess("while it was giving rows their timestamp");
        for loaded in std::mem::take(&mut progress.loaded) {
            let_go(pin);
            self.tables.storage(progress.loaded_table).settle_loaded(loaded, commit);
        }
    }
}

/// Rows of a load that are filled in apart from its transaction. Dropping it drops them.
pub struct LoadPart {
    table: Arc<Table>,
    block: FreshBlock,
}

impl LoadPart {
    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.block.rows()
    }

    /// Whether there is no room for another row.
    pub fn is_full(&self) -> bool {
        self.block.is_full()
    }

    /// Adds a row, for which there is room.
    ///
    /// # Errors
    /// Those of [`Transaction::load`].
    pub fn push<'a>(&mut self, value: impl Fn(usize) -> ValueRef<'a>) -> Result<()> {
        push_row(&self.table, &mut self.block, value)
    }
}

/// Checks a row and adds it to a block of its table's. Values and cells are used where they are made: moving them, through iterators
/// for instance, took more than half of the time.
fn push_row<'a>(table: &Table, block: &mut FreshBlock, value: impl Fn(usize) -> ValueRef<'a>) -> Result<()> {
    check_system()?;
    for column in 0..table.columns().len() {
        let checked = check_value_ref(table, column, value(column));
        checked.map_err(|error| with_row(error, table, &|column| value(column).to_value()))?;
    }
    check_new_row(table, &|column| value(column).to_value())?;
    let cell = |column| Cell::of_borrowed(value(column), table.data_type(column)).expect("checked above");
    // SAFETY: a cell that is made of a value of the column's type fits its layout; texts are `str`; NULL was checked.
    unsafe { block.push(cell) }
}

impl CommitProgress {
    /// How many rows there are in the blocks before the one at a place.
    fn rows_loaded_before(&self, place: usize) -> usize {
        self.loaded[..place].iter().map(|loaded| loaded.rows().len()).sum()
    }

    /// Where the block with this number is among those of the load.
    fn loaded_place(&self, number: BlockNumber) -> Option<usize> {
        // Blocks are attached one after the other, so their numbers ascend.
        self.loaded.binary_search_by_key(&number, LoadedBlock::number).ok()
    }

    /// Whether the row, of a table given by number, is one that this commit has loaded.
    pub(crate) fn has_loaded(&self, table: usize, row: RowId) -> bool {
        table == self.loaded_table
            && self
                .loaded_place(row.block())
                .is_some_and(|place| row.offset() < self.loaded[place].rows().len())
    }
}
