//! Fresh blocks: rows of a load, written where they are going to lie, in blocks that nobody else can reach yet.
//!
//! ```text
//! FreshBlock ──push──► cells in their arrays        private: plain stores in effect, dropped without a trace
//!     │ Storage::attach, for a pending commit
//!     ▼
//! LoadedBlock          a block of the table, all rows of it pending and owned: no reader sees them (`block::ahead`)
//!     ├─ Storage::settle_loaded                                   the rows are those of the decided commit
//!     └─ Storage::withdraw_loaded, then settle_loaded             the rows are deleted ones, to be swept
//! ```
//!
//! A row that goes through a write set is copied three times and counted in and out of its block alone. A load of a million
//! rows writes each cell once, and gives a block its state word by word.
//!
//! A [`LoadedBlock`] stands for the ownership of its rows, as a [`KeptRow`](crate::KeptRow) does for that of one.
//!
//! Slots that a last block has left are free slots of the table. Not for columns in regions: their blocks are made in place.

use crate::array::ColumnArray;
use crate::block::RowBlock;
use crate::cell::{Cell, CellLayout};
use crate::index::Index;
use crate::storage::Storage;
use crate::zone::Zone;
use ankerdb_base::{BlockNumber, ColumnPosition, Error, ROWS_PER_BLOCK, Result, RowId, Timestamp, failpoint};
use ankerdb_sync::pending::PendingCommit;
use ankerdb_value::{DataType, Value};
use crossbeam_epoch::Guard;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Rows that are not in their table yet. Dropping it frees them.
pub struct FreshBlock {
    table: NonZeroU64,
    types: Arc<[(DataType, bool)]>,
    arrays: Vec<ColumnArray>,
    /// Of each column that has bounds: smallest and largest value.
    bounds: Vec<Option<(i64, i64)>>,
    rows: usize,
}

impl FreshBlock {
    /// Rows so far.
    #[inline]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether there is no room for another row.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.rows == ROWS_PER_BLOCK
    }

    /// Adds a row, of which `cell` gives the cell of each column, for which there is room. On an error the row is not there.
    ///
    /// # Errors
    /// 53200 without memory, 54000 if there is no room for a string.
    ///
    /// # Safety
    /// Cells fit the columns' layouts and whether they may be NULL, and those of text columns are UTF-8.
    #[inline]
    pub unsafe fn push<'a>(&mut self, cell: impl Fn(usize) -> Cell<'a>) -> Result<()> {
        let row = self.rows;
        assert!(row < ROWS_PER_BLOCK, "a full block takes no row");
        for (column, (array, bounds)) in self.arrays.iter_mut().zip(&mut self.bounds).enumerate() {
            let cell = cell(column);
            if let (Some((min, max)), Cell::Word(word)) = (bounds, cell) {
                (*min, *max) = ((*min).min(word as i64), (*max).max(word as i64));
            }
            let view = cell.long_bytes().map(|bytes| array.place(bytes)).transpose()?;
            array.fill(row, cell, view);
        }
        self.rows += 1;
        Ok(())
    }

    /// Bytes of memory behind its arrays.
    pub fn memory_bytes(&self) -> usize {
        self.arrays.iter().map(ColumnArray::memory_bytes).sum()
    }
}

/// The rows of a fresh block that was attached to its table.
#[must_use = "the rows stay locked until they are settled"]
pub struct LoadedBlock {
    table: NonZeroU64,
    number: BlockNumber,
    rows: usize,
}

impl LoadedBlock {
    /// Its number.
    #[inline]
    pub fn number(&self) -> BlockNumber {
        self.number
    }

    /// Its rows, in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = RowId> + use<> {
        let number = self.number;
        (0..self.rows).map(move |offset| RowId::new(number, offset))
    }
}

impl Storage {
    /// Whether rows can be loaded in blocks of their own.
    pub fn takes_fresh_blocks(&self) -> bool {
        self.segments().is_none()
    }

    /// An empty fresh block; its rows will be much `like` those of another one of the table, if one is given.
    ///
    /// # Errors
    /// 53200 if there is no memory.
    pub fn fresh_block(&self, like: Option<&FreshBlock>) -> Result<FreshBlock> {
        if !self.takes_fresh_blocks() {
            return Err(Error::internal("columns in regions take no fresh blocks"));
        }
        let types = self.types();
        let array = |(column, &(data_type, nullable)): (usize, &_)| {
            let string_bytes = like.map_or(0, |like| like.arrays[column].string_bytes());
            ColumnArray::expecting(CellLayout::of(data_type), nullable, string_bytes)
        };
        let empty = |&(data_type, _): &_| Zone::covers(data_type).then_some((i64::MAX, i64::MIN));
        Ok(FreshBlock {
            table: self.identity(),
            arrays: types.iter().enumerate().map(array).collect::<Result<_>>()?,
            bounds: types.iter().map(empty).collect(),
            types: types.into(),
            rows: 0,
        })
    }

    /// Makes a fresh block one of the table's, with its rows owned, as those of a pending commit.
    ///
    /// # Errors
    /// 53200 if there is no memory: then the rows are gone.
    ///
    /// # Panics
    /// If the block was made for another table.
    pub fn attach(&self, fresh: FreshBlock, commit: &PendingCommit<'_>) -> Result<LoadedBlock> {
        assert_eq!(fresh.table, self.identity(), "a block is attached to its own table");
        failpoint::reach("block of a load")?;
        let FreshBlock { types, arrays, bounds, rows, .. } = fresh;
        let block = RowBlock::of_rows(&types, arrays, &bounds, rows, commit.number())?;
        let number = self.push_block(block);
        if rows < ROWS_PER_BLOCK {
            self.add_free_slots(number, (rows..ROWS_PER_BLOCK).map(|offset| RowId::new(number, offset)));
        }
        Ok(LoadedBlock { table: self.identity(), number, rows })
    }

    /// Appends the key of a loaded row in an index; returns whether a part is NULL.
    ///
    /// # Errors
    /// Those of [`Index::encode_row`].
    pub fn push_loaded_key(
        &self,
        loaded: &LoadedBlock,
        row: RowId,
        index: &Index,
        pin: &Guard,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        self.check_loaded(loaded, row);
        if index.derivation().is_some() {
            return index.encode_row(|column| self.loaded_value(loaded, row, column, pin), out);
        }
        let (block, mut has_null) = (self.block(row.block()), false);
        for (part, &column) in index.definition().columns.iter().enumerate() {
            block.use_owned_cell(row.offset(), ColumnPosition(column), pin, |cell| {
                has_null |= cell == Cell::Null;
                index.push_part(part, cell, out)
            })?;
        }
        Ok(index.is_apart(has_null))
    }

    /// One cell of a loaded row as a value.
    pub fn loaded_value(&self, loaded: &LoadedBlock, row: RowId, column: usize, pin: &Guard) -> Value {
        self.check_loaded(loaded, row);
        let data_type = self.column_type(column).0;
        self.block(row.block())
            .use_owned_cell(row.offset(), ColumnPosition(column), pin, |cell| cell.to_value(data_type))
    }

    /// Uses one cell of a loaded row.
    #[inline]
    pub fn use_loaded_cell<R>(
        &self,
        loaded: &LoadedBlock,
        row: RowId,
        column: usize,
        pin: &Guard,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> R {
        self.check_loaded(loaded, row);
        self.block(row.block()).use_owned_cell(row.offset(), ColumnPosition(column), pin, use_cell)
    }

    /// That the row is one of those that the block stands for.
    #[inline]
    fn check_loaded(&self, loaded: &LoadedBlock, row: RowId) {
        let is_own =
            loaded.table == self.identity() && loaded.number == row.block() && row.offset() < loaded.rows;
        assert!(is_own, "a row of another block");
    }

    /// Takes the rows out again. To be settled afterwards, like all rows that are withdrawn.
    pub fn withdraw_loaded(&self, loaded: &LoadedBlock) {
        assert_eq!(loaded.table, self.identity(), "rows are withdrawn by their own table");
        let block = self.block(loaded.number);
        for row in loaded.rows() {
            block.withdraw_insert(row.offset());
            self.count_deletion();
        }
    }

    /// Gives the rows the timestamp that their commit was decided to have, and gives them up.
    pub fn settle_loaded(&self, loaded: LoadedBlock, commit: Timestamp) {
        assert_eq!(loaded.table, self.identity(), "rows are settled by their own table");
        self.block(loaded.number).settle_loaded(loaded.rows, commit);
    }
}
