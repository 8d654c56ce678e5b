//! A table: its schema, blocks and indexes. Physical only: who may do what is the transactions' business.

use crate::append_list::AppendList;
use crate::block::{ReadAt, RowBlock};
use crate::cell::{Cell, CellLayout, OwnedCell};
use crate::header::Header;
use crate::index::Index;
use crate::owned::OwnedRow;
use crate::schema::{ColumnDefinition, IndexDefinition, TableDefinition};
use crate::segment::{Placement, Segments};
use ankerdb_base::{ColumnSet, ROWS_PER_BLOCK, Result, RowId, TableId, Timestamp, failpoint};
use ankerdb_value::{DataType, Value};
use crossbeam_epoch::Guard;
use parking_lot::Mutex;
use std::any::Any;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Blocks of one table that fill up at the same time, so that inserting threads do not meet.
const TAILS: usize = 4;

/// Rows deleted since the last sweep from which on who deletes must sweep as well: as many as fit into eight blocks.
const DELETIONS_MAX: usize = 8 * ROWS_PER_BLOCK;

/// A row's header and the head of its chain.
const HEADER_BYTES: usize = 16;

/// The number of the next table of any database.
static TABLES: AtomicU64 = AtomicU64::new(1);

/// A table.
pub struct Table {
    id: TableId,
    /// Of this table alone, in the whole process.
    identity: NonZeroU64,
    definition: TableDefinition,
    types: Vec<(DataType, bool)>,
    layouts: Vec<CellLayout>,
    blocks: AppendList<RowBlock>,
    grow: Mutex<()>,
    tails: [Mutex<Tail>; TAILS],
    indexes: AppendList<Arc<Index>>,
    derived: Mutex<Option<Derived>>,
    segments: Option<Segments>,
    /// Rows deleted since a sweep last began.
    deletions: AtomicUsize,
    sweeping: Mutex<()>,
}

/// What readers keep with a table or block for those who come after them.
pub type Derived = Arc<dyn Any + Send + Sync>;

/// Where a group of threads inserts.
#[derive(Default)]
struct Tail {
    block: Option<usize>,
    /// Slots of deleted rows that nobody can see any more.
    free: Vec<RowId>,
}

impl Table {
    /// An empty table. The definition must be valid.
    pub fn new(id: TableId, definition: TableDefinition) -> Table {
        Table::of(id, definition, None)
    }

    /// The same with its columns in regions in which a technique takes snapshots. 0A000 if the machine cannot run it,
    /// 53200 if there is no memory to reserve.
    pub fn in_regions(id: TableId, definition: TableDefinition, placement: Placement) -> Result<Table> {
        let columns =
            definition.columns.iter().map(|column| (CellLayout::of(column.data_type), column.nullable));
        let segments = Segments::new(placement, columns)?;
        Ok(Table::of(id, definition, Some(segments)))
    }

    fn of(id: TableId, definition: TableDefinition, segments: Option<Segments>) -> Table {
        let types: Vec<_> =
            definition.columns.iter().map(|column| (column.data_type, column.nullable)).collect();
        let identity = TABLES.fetch_add(1, Ordering::Relaxed);
        let table = Table {
            id,
            identity: NonZeroU64::new(identity).expect("fewer tables than there are numbers"),
            layouts: types.iter().map(|&(data_type, _)| CellLayout::of(data_type)).collect(),
            types,
            blocks: AppendList::default(),
            grow: Mutex::new(()),
            tails: Default::default(),
            indexes: AppendList::default(),
            derived: Mutex::new(None),
            segments,
            deletions: AtomicUsize::new(0),
            sweeping: Mutex::new(()),
            definition,
        };
        for index in &table.definition.indexes {
            table.indexes.push(Arc::new(Index::new(index.clone(), &table.types, Timestamp::ZERO)));
        }
        table
    }

    /// Its identity.
    pub fn id(&self) -> TableId {
        self.id
    }

    /// Tells it from all other tables of the process, of other databases too.
    #[inline]
    pub(crate) fn identity(&self) -> NonZeroU64 {
        self.identity
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// What it was declared as; indexes made or dropped later are not in it.
    pub fn definition(&self) -> &TableDefinition {
        &self.definition
    }

    /// Its columns, in order.
    pub fn columns(&self) -> &[ColumnDefinition] {
        &self.definition.columns
    }

    /// The position of the column with this name.
    pub fn column_position(&self, name: &str) -> Option<usize> {
        self.definition.position(name)
    }

    /// The type of a column.
    #[inline]
    pub fn data_type(&self, column: usize) -> DataType {
        self.types[column].0
    }

    /// Whether a column may hold NULL.
    #[inline]
    pub fn is_nullable(&self, column: usize) -> bool {
        self.types[column].1
    }

    /// Bytes that a new row needs in a block, strings of more than twelve bytes aside.
    pub fn row_bytes(&self) -> usize {
        let block: usize = self.layouts.iter().map(|layout| layout.bytes(ROWS_PER_BLOCK)).sum();
        block / ROWS_PER_BLOCK + HEADER_BYTES
    }

    /// How a column's cells lie in memory.
    #[inline]
    pub fn layout(&self, column: usize) -> CellLayout {
        self.layouts[column]
    }

    /// All index positions ever used, dropped ones and ones being built included: what commits go through.
    pub fn all_indexes(&self) -> impl Iterator<Item = (usize, &Arc<Index>)> {
        self.indexes.iter().enumerate()
    }

    /// The indexes that commits maintain, with their positions.
    pub fn maintained_indexes(&self) -> impl Iterator<Item = (usize, &Arc<Index>)> {
        self.all_indexes().filter(|(_, index)| !index.is_dropped())
    }

    /// The indexes that queries may use, by position: positions never change, and those of dropped or unfinished
    /// indexes are left out.
    pub fn usable_indexes(&self) -> impl Iterator<Item = (usize, &Arc<Index>)> {
        self.maintained_indexes().filter(|(_, index)| index.valid_from() < Timestamp::MAX)
    }

    /// The index at a position.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an index of a table, not indexing")]
    pub fn index(&self, position: usize) -> &Arc<Index> {
        self.indexes.get(position).expect("index positions come from this table")
    }

    /// Adds an index that is maintained from now on but not yet usable.
    pub fn add_index(&self, definition: IndexDefinition) -> Arc<Index> {
        let _growing = self.grow.lock();
        let index = Arc::new(Index::new(definition, &self.types, Timestamp::MAX));
        self.indexes.push(index.clone());
        index
    }

    /// A place where readers keep what they have derived from the table; it goes with the table.
    pub fn derived(&self) -> &Mutex<Option<Derived>> {
        &self.derived
    }

    /// Where its columns lie, if in regions.
    pub fn segments(&self) -> Option<&Segments> {
        self.segments.as_ref()
    }

    /// Leaves all columns but `keep` out of processes forked from now on, which makes forking cheaper, until
    /// [`include_in_fork`](Self::include_in_fork). Reading an excluded column in such a process ends that process. For
    /// one caller at a time; does nothing to columns that are not in regions. Columns from 63 on go together.
    pub fn exclude_from_fork(&self, keep: ColumnSet) -> Result<()> {
        self.segments
            .as_ref()
            .map_or(Ok(()), |segments| segments.exclude_from_fork(|column| !keep.contains(column)))
    }

    /// Forked processes have all columns again.
    pub fn include_in_fork(&self) -> Result<()> {
        self.exclude_from_fork(ColumnSet::ALL)
    }

    /// Blocks so far.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// A block by number.
    #[inline]
    pub fn block(&self, number: usize) -> &RowBlock {
        self.blocks.get(number).expect("block numbers come from this table")
    }

    /// Rows that exist in their newest state; while commits run, a recent count.
    pub fn row_count(&self) -> usize {
        self.blocks.iter().map(|block| block.exists().ones()).sum()
    }

    /// A slot for a new row, owned by the caller. `worker` spreads threads over tail blocks. 53200 if there is no memory
    /// for another block.
    pub fn allocate_row(&self, worker: usize) -> Result<OwnedRow<'_>> {
        failpoint::reach("slot of a row")?;
        let mut tail = self.tails[worker % TAILS].lock();
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
                return Ok(self.own_locked(RowId::new(number, offset)));
            }
            tail.block = Some(self.add_block()?);
        }
    }

    fn add_block(&self) -> Result<usize> {
        let _growing = self.grow.lock();
        let block = match &self.segments {
            None => RowBlock::new(&self.types)?,
            Some(segments) => {
                let (segment, position) = segments.place(self.blocks.len())?;
                RowBlock::placed(&self.types, segment, position)?
            }
        };
        Ok(self.blocks.push(block))
    }

    /// Takes half of the free slots of other tails, before a table grows that has room elsewhere. Nobody waits: a
    /// tail that is in use is left alone.
    fn borrow_free_slots(&self, worker: usize, free: &mut Vec<RowId>) {
        let others = self.tails.iter().enumerate().filter(|(tail, _)| *tail != worker % TAILS);
        for mut other in others.filter_map(|(_, tail)| tail.try_lock()) {
            let kept = other.free.len() / 2;
            free.append(&mut other.free.split_off(kept));
        }
    }

    /// Slots for new rows that need no new block, about: of the blocks that are full, those whose rows have gone.
    pub fn free_slots(&self) -> usize {
        self.tails.iter().map(|tail| tail.lock().free.len()).sum()
    }

    /// Takes back a slot that holds no row, has no index entries and belongs to nobody.
    pub(crate) fn add_free_slot(&self, row: RowId) {
        self.tails[row.block() % TAILS].lock().free.push(row);
    }

    /// One cell as a value; `None` if the row does not exist for the reader.
    pub fn value(&self, row: RowId, column: usize, at: ReadAt, pin: &Guard) -> Option<Value> {
        let data_type = self.types[column].0;
        self.block(row.block()).read(row.offset(), column, at, pin, |cell| cell.to_value(data_type))
    }

    /// The key of a row in an index, as of `at`; `None` if the row does not exist then. The boolean tells whether
    /// a part of the key is NULL.
    pub fn key_at(
        &self,
        index: &Index,
        row: RowId,
        at: ReadAt,
        pin: &Guard,
    ) -> Result<Option<(Vec<u8>, bool)>> {
        let mut key = Vec::new();
        Ok(self.push_key_at(index, row, at, pin, &mut key)?.map(|has_null| (key, has_null)))
    }

    /// As [`key_at`](Self::key_at), appending the key to `out`. If the row does not exist, a part of it may have been
    /// appended.
    ///
    /// All parts are of one state of the row, also of the newest one, which may change between two of them: then they
    /// are read again. Each part is confirmed by a header that was loaded between the first and the last load here, and
    /// a header that has changed never changes back; so if these two are the same, all are.
    pub fn push_key_at(
        &self,
        index: &Index,
        row: RowId,
        at: ReadAt,
        pin: &Guard,
        out: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        let start = out.len();
        let block = self.block(row.block());
        loop {
            let before = block.header(row.offset());
            let pushed = self.push_parts_at(index, row, at, pin, out)?;
            let is_one_state = at != ReadAt::Newest || index.definition().columns.len() == 1;
            if is_one_state || block.header(row.offset()).confirms(before) {
                return Ok(pushed);
            }
            out.truncate(start);
        }
    }

    fn push_parts_at(
        &self,
        index: &Index,
        row: RowId,
        at: ReadAt,
        pin: &Guard,
        out: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        let block = self.block(row.block());
        let mut has_null = false;
        for (part, &column) in index.definition().columns.iter().enumerate() {
            let pushed = block.read(row.offset(), column, at, pin, |cell| {
                has_null |= cell == Cell::Null;
                index.push_part(part, cell, out)
            });
            match pushed {
                Some(pushed) => pushed?,
                None => return Ok(None),
            }
        }
        Ok(Some(has_null))
    }

    /// Drops the history that no reader needs: versions, index entries of deleted rows and former keys, slots.
    /// `horizon` is the oldest timestamp that anybody reads at. Cheap for blocks where nothing can have changed
    /// since the last call.
    ///
    /// Returns whether there was anything to look at. One sweep at a time; others wait.
    pub fn sweep(&self, horizon: Timestamp, pin: &Guard) -> bool {
        let _one = self.sweeping.lock();
        self.deletions.store(0, Ordering::Relaxed);
        let mut found = false;
        for (number, block) in self.blocks.iter().enumerate() {
            if block.dirty().is_empty() {
                continue;
            }
            // String garbage is nobody's history: it need not wait for readers.
            block.rebuild_heaps(pin);
            found = true;
            if !block.wants_sweep(horizon) {
                continue;
            }
            let mut freed = Vec::new();
            block.sweep(horizon, pin, |offset, exists| {
                let row = RowId::new(number, offset);
                self.remove_stale_entries(row, exists, pin);
                // A row that was never installed has no timestamp: its slot is free already, as is a buried one's.
                if !exists && block.header(offset).timestamp() > Timestamp::ZERO && block.set_free(offset) {
                    freed.push(row);
                }
            });
            if !freed.is_empty() {
                self.tails[number % TAILS].lock().free.append(&mut freed);
            }
        }
        found
    }

    /// Prunes the rows whose newest change came after `after` and not after `up_to`: of their versions those go that
    /// nobody reads, `in_use` being the timestamps of readers (as in [`VersionChain::prune`](crate::VersionChain::prune)).
    /// For what a [`sweep`](Self::sweep) leaves behind while an old reader holds up its horizon. Costs a look at every
    /// dirty row of the blocks that have changed after `after`.
    pub fn thin(&self, after: Timestamp, up_to: Timestamp, in_use: &[Timestamp]) {
        for (number, block) in self.blocks.iter().enumerate() {
            if block.dirty().is_empty() || block.last_change() <= after {
                continue;
            }
            // A pin a block, so that what is retired meanwhile can be freed soon.
            let pin = crossbeam_epoch::pin();
            let mut found = false;
            for offset in block.dirty().rows() {
                let changed = block.header(offset).timestamp();
                if changed <= after || changed > up_to || block.chain(offset).is_empty() {
                    continue;
                }
                // Who has the row is about to write to it, and prunes it then.
                let Some(row) = self.try_own(RowId::new(number, offset)) else { continue };
                row.prune(std::iter::empty(), in_use, &pin);
                found = true;
            }
            if found {
                pin.flush();
            }
        }
    }

    /// Frees the slots and index entries of deleted rows that nobody can see in any state, though there may be readers
    /// from before their deletion: those that began before the row came, or before all states that pruning has left. For
    /// what a [`sweep`](Self::sweep) leaves behind while an old reader is open, such as the rows of a queue. Looks at rows
    /// deleted after `after` and not after `up_to`; `in_use` are the timestamps of readers, `anchored` is where
    /// everything has to stay from (both of [`ActiveReaders`](ankerdb_sync::readers::ActiveReaders)). Returns how many
    /// rows it has freed. Costs a look at every dirty row of the blocks that have lost rows after `after`.
    pub fn bury(
        &self,
        after: Timestamp,
        up_to: Timestamp,
        in_use: &[Timestamp],
        anchored: Timestamp,
    ) -> usize {
        let watermark = in_use.last().copied().unwrap_or(Timestamp::ZERO);
        let up_to = up_to.min(watermark).min(anchored);
        let mut count = 0;
        for (number, block) in self.blocks.iter().enumerate() {
            // In this order: most blocks have lost nothing since, which is one load.
            if block.last_deletion() <= after || block.dirty().is_empty() {
                continue;
            }
            // A pin a block, so that what is retired meanwhile can be freed soon.
            let pin = crossbeam_epoch::pin();
            let is_wanted = |header: Header| {
                !header.exists() && header.timestamp() > after && header.timestamp() <= up_to
            };
            let mut freed = Vec::new();
            for offset in block.dirty().rows() {
                let row = RowId::new(number, offset);
                if is_wanted(block.header(offset))
                    && !block.is_free(offset)
                    && let Some(row) = self.try_own(row)
                    && is_wanted(row.header())
                    && self.bury_row(&row, in_use, &pin)
                {
                    freed.push(row.id());
                }
            }
            if !freed.is_empty() {
                count += freed.len();
                self.tails[number % TAILS].lock().free.append(&mut freed);
                pin.flush();
            }
        }
        count
    }

    /// Whether the slot of a deleted row can be given away, as it was not yet and nobody can see any of the row's states:
    /// then its entries and its history are gone now. It stays dirty as long as there are readers from before it came: one of
    /// them may have copied bits of the row while it existed, and has to look at the header.
    fn bury_row(&self, row: &OwnedRow<'_>, in_use: &[Timestamp], pin: &Guard) -> bool {
        let (block, offset) = (self.block(row.id().block()), row.id().offset());
        if block.is_free(offset) || !block.dirty().is_set(offset) {
            return false;
        }
        row.prune(std::iter::empty(), in_use, pin);
        let is_invisible = block.chain(offset).is_empty();
        if is_invisible {
            self.remove_stale_entries(row.id(), false, pin);
            block.set_free(offset);
        }
        is_invisible
    }

    /// One pass of a collector, for databases in which writers do not prune: a [`sweep`](Self::sweep), and the chains of
    /// rows that have changed since `horizon` are cut behind the version that a reader at `horizon` sees.
    pub fn collect(&self, horizon: Timestamp, pin: &Guard) {
        for (number, block) in self.blocks.iter().enumerate() {
            for offset in block.dirty().rows() {
                if block.header(offset).timestamp() <= horizon || block.chain(offset).is_empty() {
                    continue;
                }
                // A row in use is collected by the next pass.
                let Some(row) = self.try_own(RowId::new(number, offset)) else { continue };
                row.prune(std::iter::empty(), &[horizon], pin);
            }
        }
        self.sweep(horizon, pin);
    }

    /// The keys of all states that a row has in memory, newest first; for a deleted row the newest is the one that
    /// was deleted. The caller owns the row.
    fn keys_of_states(&self, index: &Index, row: RowId, pin: &Guard) -> Vec<Vec<u8>> {
        let block = self.block(row.block());
        let columns = &index.definition().columns;
        let mut state: Vec<OwnedCell> =
            columns.iter().map(|&column| block.owned_cell(row.offset(), column, pin)).collect();
        let mut keys = vec![encode_state(index, &state)];
        for version in block.chain(row.offset()).iter(pin) {
            for (&column, cell) in columns.iter().zip(&mut state) {
                if let Some(before) = version.cell(column) {
                    *cell = before.clone();
                }
            }
            keys.push(encode_state(index, &state));
        }
        keys
    }

    /// See [`OwnedRow::has_had_key`].
    pub(crate) fn has_had_key(&self, index: &Index, row: RowId, key: &[u8], pin: &Guard) -> bool {
        let (block, offset) = (self.block(row.block()), row.offset());
        // The cells of a slot that holds no row mean nothing.
        let is_row = block.header(offset).exists() || !block.chain(offset).is_empty();
        is_row && self.keys_of_states(index, row, pin).iter().any(|had| had == key)
    }

    /// Removes the index entries of keys that a row had in the states about to be dropped, and, if it is deleted,
    /// of its last key. The caller owns the row.
    fn remove_stale_entries(&self, row: RowId, exists: bool, pin: &Guard) {
        let chain = self.block(row.block()).chain(row.offset());
        for (_, index) in self.maintained_indexes() {
            let key_changed = index.keys_move()
                && chain.iter(pin).any(|version| version.columns.intersects(index.key_columns()));
            if exists && !key_changed {
                continue;
            }
            let keys = self.keys_of_states(index, row, pin);
            for key in keys.iter().filter(|key| !exists || **key != keys[0]) {
                index.tree().remove(key, row.0);
            }
        }
    }

    /// Bytes of versions in this table; walks all of them.
    pub fn version_bytes(&self, pin: &Guard) -> usize {
        self.blocks.iter().map(|block| block.version_bytes(pin)).sum()
    }

    pub(crate) fn count_deletion(&self) {
        self.deletions.fetch_add(1, Ordering::Relaxed);
    }

    /// As an update of one cell that is stored as a word, for experiments that look at the last part of commits: saves
    /// and installs it, and gives the row up.
    pub fn install_word(
        &self,
        row: OwnedRow<'_>,
        (column, word): (usize, u64),
        commit: Timestamp,
        in_use: &[Timestamp],
        pin: &Guard,
    ) -> Result<()> {
        assert_eq!(self.layout(column), CellLayout::Word, "the column's cells are words");
        assert!(row.is_of(self) && row.header().exists(), "a row of this table is updated");
        let changes = std::iter::once((column, Cell::Word(word)));
        row.save_update(changes.clone(), in_use, &mut Vec::new(), pin)?;
        // SAFETY: saved with the same changes; the only cell is no text.
        unsafe { row.install_update(commit, changes, &mut std::iter::empty(), pin) };
        Ok(())
    }

    /// Whether rows are deleted faster than somebody sweeps: then who deletes should [`sweep`](Self::sweep), so that
    /// the slots of a table that does not grow are found before it takes new ones.
    pub fn wants_relief(&self) -> bool {
        self.deletions.load(Ordering::Relaxed) >= DELETIONS_MAX
    }

    /// Prunes the row's history and removes the index entries of the keys that go with it, except those that
    /// `changes` are about to bring back.
    pub(crate) fn prune_entries<'a>(
        &self,
        row: RowId,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        in_use: &[Timestamp],
        pin: &Guard,
    ) {
        let chain = self.block(row.block()).chain(row.offset());
        if chain.is_empty() {
            return;
        }
        let held = |index: &Index| {
            index.keys_move()
                && chain.iter(pin).any(|version| version.columns.intersects(index.key_columns()))
        };
        let affected = self.maintained_indexes().filter(|(_, index)| held(index));
        let before: Vec<_> =
            affected.map(|(_, index)| (index, self.keys_of_states(index, row, pin))).collect();
        if before.is_empty() {
            return;
        }
        chain.prune(self.block(row.block()).header(row.offset()).timestamp(), in_use, pin);
        for (index, before) in before {
            let mut kept = self.keys_of_states(index, row, pin);
            kept.push(self.key_after(index, row, changes.clone(), pin));
            for key in before.iter().filter(|key| !kept.contains(key)) {
                index.tree().remove(key, row.0);
            }
        }
    }

    /// The key that a row is going to have after the changes.
    fn key_after<'a>(
        &self,
        index: &Index,
        row: RowId,
        changes: impl Iterator<Item = (usize, Cell<'a>)> + Clone,
        pin: &Guard,
    ) -> Vec<u8> {
        let mut key = Vec::new();
        for (part, &column) in index.definition().columns.iter().enumerate() {
            let pushed = match changes.clone().find(|(changed, _)| *changed == column) {
                Some((_, cell)) => index.push_part(part, cell, &mut key),
                None => {
                    let cell = self.block(row.block()).owned_cell(row.offset(), column, pin);
                    index.push_part(part, cell.borrow(), &mut key)
                }
            };
            pushed.expect("the key was encoded before");
        }
        key
    }

    /// Approximate bytes that the rows' newest values take.
    pub fn memory_bytes(&self, pin: &Guard) -> usize {
        let block_bytes = |block: &RowBlock| -> usize {
            // SAFETY: inside a pin.
            let arrays = (0..self.types.len()).map(|column| unsafe { block.columns().current(column) });
            arrays.map(|array| array.memory_bytes()).sum::<usize>() + ROWS_PER_BLOCK * 16
        };
        let _inside = pin;
        self.blocks.iter().map(block_bytes).sum()
    }
}

/// The key made of one cell per key column.
fn encode_state(index: &Index, state: &[OwnedCell]) -> Vec<u8> {
    let mut key = Vec::new();
    for (part, cell) in state.iter().enumerate() {
        index.push_part(part, cell.borrow(), &mut key).expect("a stored row's key was encoded before");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const COLUMNS: [&str; 16] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];

    /// A table with a key of many columns that always have the same value, and its row.
    fn table_of_a_wide_key() -> (Table, RowId) {
        let definition = TableDefinition::new("wide");
        let columns = COLUMNS.iter().map(|name| ColumnDefinition::new(*name, DataType::BigInt));
        let definition = columns.fold(definition, TableDefinition::column).primary_key(&COLUMNS);
        let table = Table::new(TableId(1), definition);
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
                    let owned = table.try_own(row).expect("nobody else writes");
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
                let (key, _) = table.key_at(table.index(0), row, ReadAt::Newest, &pin).unwrap().unwrap();
                let parts: Vec<_> = key.chunks(8).collect();
                assert!(parts.iter().all(|part| *part == parts[0]), "a part of the key is of another commit");
            }
        });
    }
}
