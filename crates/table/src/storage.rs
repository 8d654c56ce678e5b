//! What a table is made of: blocks of rows, the entries of its indexes, slots for new rows.
//!
//! ```text
//! Table ──Storage::of──► Storage ──try_own, allocate_row──► OwnedRow      one row, to be changed       (`owned`)
//!                           ├──block──────────────────────► RowBlock      rows, to be read             (`block`)
//!                           └──sweep, prune_interval, bury, collect       versions nobody needs        (`sweep`)
//! ```
//!
//! A [`Table`](crate::Table) has no method that leads here: code that has a table can change its rows only if it can name
//! this type. The crates of transactions and snapshots can, and so can the engine's background thread. What the engine
//! hands to programs are tables, and its interface names neither this type nor one that is reached through it
//! (`crates/engine/tests/interface.rs`).

use crate::append_list::AppendList;
use crate::block::{ReadAt, RowBlock};
use crate::cell::{Cell, CellLayout};
use crate::derived::Derived;
use crate::index::Index;
use crate::schema::{IndexDefinition, TableDefinition};
use crate::segment::{Placement, Segments};
use ankerdb_base::{BlockNumber, ColumnPosition, ROWS_PER_BLOCK, Result, RowId, Timestamp};
use ankerdb_value::{DataType, Value};
use crossbeam_epoch::Guard;
use parking_lot::Mutex;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Blocks of one table that fill up at the same time, so that inserting threads do not meet.
const TAILS: usize = 4;

/// Rows deleted since the last sweep from which on deleting transactions must sweep as well: as many as fit into
/// eight blocks.
const DELETIONS_MAX: usize = 8 * ROWS_PER_BLOCK;

/// A row's header and the head of its chain.
const HEADER_BYTES: usize = 16;

/// The number of the next table of any database.
static TABLES: AtomicU64 = AtomicU64::new(1);

/// See the module.
pub struct Storage {
    /// Unique among the tables of the process.
    identity: NonZeroU64,
    types: Vec<(DataType, bool)>,
    layouts: Vec<CellLayout>,
    pub(crate) blocks: AppendList<RowBlock>,
    grow: Mutex<()>,
    tails: [Mutex<Tail>; TAILS],
    indexes: AppendList<Arc<Index>>,
    /// Whether there has ever been an index whose keys are computed.
    has_derived: AtomicBool,
    derived: Mutex<Option<Derived>>,
    segments: Option<Segments>,
    /// Rows deleted since a sweep last began.
    deletions: AtomicUsize,
    /// Held by a sweep: one at a time.
    pub(crate) sweeping: Mutex<()>,
}

/// Where a group of threads inserts.
#[derive(Default)]
pub(crate) struct Tail {
    pub block: Option<BlockNumber>,
    /// Slots of deleted rows that no reader can see any more.
    pub free: Vec<RowId>,
}

impl Storage {
    /// Nothing yet; columns in regions where a placement is given. Errors as of
    /// [`create_in_regions`](Self::create_in_regions).
    pub(crate) fn new(definition: &TableDefinition, placement: Option<Placement>) -> Result<Storage> {
        let types: Vec<_> =
            definition.columns.iter().map(|column| (column.data_type, column.nullable)).collect();
        let layouts: Vec<_> = types.iter().map(|&(data_type, _)| CellLayout::of(data_type)).collect();
        let columns = layouts.iter().zip(&types).map(|(&layout, &(_, nullable))| (layout, nullable));
        let segments = placement.map(|placement| Segments::new(placement, columns)).transpose()?;
        let has_derived = definition.indexes.iter().any(|index| index.derivation.is_some());
        let identity = TABLES.fetch_add(1, Ordering::Relaxed);
        let storage = Storage {
            identity: NonZeroU64::new(identity).expect("fewer tables than there are numbers"),
            types,
            layouts,
            blocks: AppendList::default(),
            grow: Mutex::new(()),
            tails: Default::default(),
            indexes: AppendList::default(),
            has_derived: AtomicBool::new(has_derived),
            derived: Mutex::new(None),
            segments,
            deletions: AtomicUsize::new(0),
            sweeping: Mutex::new(()),
        };
        for index in &definition.indexes {
            storage.indexes.push(Arc::new(Index::new(index.clone(), &storage.types, Timestamp::ZERO)));
        }
        Ok(storage)
    }

    /// Identifies it among all tables of the process, including those of other databases.
    #[inline]
    pub(crate) fn identity(&self) -> NonZeroU64 {
        self.identity
    }

    /// The type of a column, and whether it may hold NULL.
    #[inline]
    pub(crate) fn column_type(&self, column: usize) -> (DataType, bool) {
        self.types[column]
    }

    /// How a column's cells lie in memory.
    #[inline]
    pub(crate) fn layout(&self, column: usize) -> CellLayout {
        self.layouts[column]
    }

    /// Bytes that a new row needs in a block, strings of more than twelve bytes aside.
    pub fn row_bytes(&self) -> usize {
        let block: usize = self.layouts.iter().map(|layout| layout.bytes(ROWS_PER_BLOCK)).sum();
        block / ROWS_PER_BLOCK + HEADER_BYTES
    }

    /// All indexes that there have ever been, by position.
    #[inline]
    pub(crate) fn indexes(&self) -> &AppendList<Arc<Index>> {
        &self.indexes
    }

    /// Those that commits maintain.
    pub(crate) fn maintained_indexes(&self) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.iter().filter(|index| !index.is_dropped())
    }

    /// Adds an index that is maintained from now on but not yet usable.
    pub fn add_index(&self, definition: IndexDefinition) -> Arc<Index> {
        let _growing = self.grow.lock();
        if definition.derivation.is_some() {
            self.has_derived.store(true, Ordering::Relaxed);
        }
        let index = Arc::new(Index::new(definition, &self.types, Timestamp::MAX));
        self.indexes.push(index.clone());
        index
    }

    /// Whether keys of some index may have to be computed.
    #[inline]
    pub fn has_derived_keys(&self) -> bool {
        self.has_derived.load(Ordering::Relaxed)
    }

    /// A place where readers keep what they have derived from the table; it goes with the table.
    pub fn derived(&self) -> &Mutex<Option<Derived>> {
        &self.derived
    }

    /// Where the columns lie, if in regions.
    pub fn segments(&self) -> Option<&Segments> {
        self.segments.as_ref()
    }

    /// A block by number.
    #[inline]
    pub fn block(&self, number: BlockNumber) -> &RowBlock {
        self.blocks.get(number.0).expect("block numbers come from this table")
    }

    /// Blocks so far.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The numbers of the blocks so far.
    pub fn block_numbers(&self) -> impl DoubleEndedIterator<Item = BlockNumber> + use<> {
        (0..self.block_count()).map(BlockNumber)
    }

    /// The blocks, also those that are added meanwhile, with their numbers.
    pub(crate) fn numbered_blocks(&self) -> impl Iterator<Item = (BlockNumber, &RowBlock)> {
        self.blocks.iter().enumerate().map(|(number, block)| (BlockNumber(number), block))
    }

    /// Adds an empty block; its number. 53200 if there is no memory.
    pub(crate) fn add_block(&self) -> Result<BlockNumber> {
        let _growing = self.grow.lock();
        let block = match &self.segments {
            None => RowBlock::new(&self.types)?,
            Some(segments) => {
                let (segment, position) = segments.place(BlockNumber(self.blocks.len()))?;
                RowBlock::placed(&self.types, segment, position)?
            }
        };
        Ok(BlockNumber(self.blocks.push(block)))
    }

    /// Adds a block that has rows already; its number.
    pub(crate) fn push_block(&self, block: RowBlock) -> BlockNumber {
        let _growing = self.grow.lock();
        BlockNumber(self.blocks.push(block))
    }

    /// The columns' types, and whether they may hold NULL.
    pub(crate) fn types(&self) -> &[(DataType, bool)] {
        &self.types
    }

    /// Where groups of threads insert.
    pub(crate) fn tails(&self) -> &[Mutex<Tail>] {
        &self.tails
    }

    /// Where the threads of this worker insert.
    pub(crate) fn tail(&self, worker: usize) -> &Mutex<Tail> {
        &self.tails[worker % TAILS]
    }

    /// Takes half of the free slots of other tails, before a table grows that has room elsewhere. Never waits: a
    /// tail that is in use is left alone.
    pub(crate) fn borrow_free_slots(&self, worker: usize, free: &mut Vec<RowId>) {
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

    /// Takes back slots of a block that hold no rows, have no index entries and have no owner.
    pub(crate) fn add_free_slots(&self, block: BlockNumber, slots: impl IntoIterator<Item = RowId>) {
        self.tails[block.0 % TAILS].lock().free.extend(slots);
    }

    /// A row has been deleted.
    pub(crate) fn count_deletion(&self) {
        self.deletions.fetch_add(1, Ordering::Relaxed);
    }

    /// A sweep begins.
    pub(crate) fn forget_deletions(&self) {
        self.deletions.store(0, Ordering::Relaxed);
    }

    /// Whether rows are deleted faster than the table is swept. Then the deleting transaction should
    /// [`sweep`](Self::sweep), so that free slots are found before a table that does not grow takes new ones.
    pub fn needs_sweep(&self) -> bool {
        self.deletions.load(Ordering::Relaxed) >= DELETIONS_MAX
    }

    /// One cell as a value; `None` if the row does not exist for the reader.
    pub fn value(&self, row: RowId, column: usize, at: ReadAt, pin: &Guard) -> Option<Value> {
        let data_type = self.types[column].0;
        self.block(row.block())
            .read(row.offset(), ColumnPosition(column), at, pin, |cell| cell.to_value(data_type))
    }

    /// The key of a row in an index, as of `at`; `None` if the row does not exist then. The boolean tells whether
    /// a part of the key is NULL.
    ///
    /// # Errors
    /// Those of [`push_key_at`](Self::push_key_at).
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

    /// Like [`key_at`](Self::key_at), but appends the key to `out`. If the row does not exist, a part of it may have
    /// been appended.
    ///
    /// All parts are of one state of the row, also of the newest one, which may change between two of them: then they
    /// are read again. Each part is confirmed by a header that was loaded between the first and the last load here, and
    /// a header that has changed never changes back; so if these two are the same, all are.
    ///
    /// # Errors
    /// Those of the index's expressions, and of a value that cannot be a part of a key.
    pub fn push_key_at(
        &self,
        index: &Index,
        row: RowId,
        at: ReadAt,
        pin: &Guard,
        out: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        if index.derivation().is_some() {
            return self.push_derived_at(index, row, at, pin, out);
        }
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

    /// The key is computed when all that it is computed of is known to be of one state.
    #[cold]
    fn push_derived_at(
        &self,
        index: &Index,
        row: RowId,
        at: ReadAt,
        pin: &Guard,
        out: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        let block = self.block(row.block());
        let values = loop {
            let before = block.header(row.offset());
            let read = |&column: &usize| self.value(row, column, at, pin);
            let values: Option<Vec<Value>> = index.sources().iter().map(read).collect();
            let is_one_state = at != ReadAt::Newest || index.sources().len() == 1;
            if is_one_state || block.header(row.offset()).confirms(before) {
                break values;
            }
        };
        // A constant condition needs no column, and yet the row has to be there.
        let exists = !index.sources().is_empty() || block.exists_at(row.offset(), at, pin);
        match values.filter(|_| exists) {
            Some(values) => index.encode_sources(&values, out).map(Some),
            None => Ok(None),
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
            let pushed = block.read(row.offset(), ColumnPosition(column), at, pin, |cell| {
                has_null |= cell == Cell::Null;
                index.push_part(part, cell, out)
            });
            match pushed {
                Some(pushed) => pushed?,
                None => return Ok(None),
            }
        }
        Ok(Some(index.is_apart(has_null)))
    }
}
