//! Reading the cells of one row: what they have in common is looked up once.

use crate::isolation::Isolation;
use crate::read_set::RowFilter;
use crate::transaction::Transaction;
use crate::write_set::{Write, WriteKind};
use ankerdb_base::{ColumnPosition, ColumnSet, RowId};
use ankerdb_table::{Cell, ReadAt, RowBlock, Storage, Table};
use ankerdb_value::Value;
use crossbeam_epoch::Guard;
use std::sync::Arc;

impl Transaction {
    /// A visible row, to read cells of it. Rows come from this transaction's own finds and scans.
    #[inline]
    pub fn row<'t>(&'t self, table: &'t Arc<Table>, row: RowId) -> RowReader<'t> {
        let pending = match self.writes.is_empty() {
            true => None,
            false => self.tables.find(table.id()).and_then(|number| self.writes.get(number, row)),
        };
        RowReader::new(self, table, row, pending)
    }

    /// Asks for the memory of the strings in cells of rows that [`find_all`](Self::find_all) has found: their bytes lie
    /// elsewhere.
    #[inline]
    pub fn prefetch_texts(&self, table: &Arc<Table>, row: RowId, columns: ColumnSet) {
        if row.provisional_number().is_none() {
            let block = Storage::of(table).block(row.block());
            block.prefetch_bytes(row.offset(), columns, &crossbeam_epoch::pin());
        }
    }

    /// One cell of a visible row, own writes included. Panics if the row is not visible: rows come from this
    /// transaction's own `find` and scans.
    pub fn value(&self, table: &Arc<Table>, row: RowId, column: usize) -> Value {
        self.row(table, row).value(column)
    }

    /// Hands one cell to a function, as [`RowReader::cell`] does.
    #[inline]
    pub fn cell<R>(
        &self,
        table: &Arc<Table>,
        row: RowId,
        column: usize,
        use_cell: impl FnOnce(Cell<'_>) -> R,
    ) -> R {
        self.row(table, row).cell(column, use_cell)
    }

    /// A smallint cell that is not NULL. Like the other typed reads it is for procedures: it builds no [`Value`], and
    /// panics if the column has another type or the cell is NULL.
    pub fn smallint(&self, table: &Arc<Table>, row: RowId, column: usize) -> i16 {
        self.row(table, row).smallint(column)
    }

    /// An integer cell that is not NULL.
    pub fn integer(&self, table: &Arc<Table>, row: RowId, column: usize) -> i32 {
        self.row(table, row).integer(column)
    }

    /// A bigint cell, or a timestamp, that is not NULL.
    pub fn bigint(&self, table: &Arc<Table>, row: RowId, column: usize) -> i64 {
        self.row(table, row).bigint(column)
    }

    /// The unscaled digits of a numeric that is not NULL; the scale is the column's.
    pub fn decimal(&self, table: &Arc<Table>, row: RowId, column: usize) -> i128 {
        self.row(table, row).decimal(column)
    }

    /// A text cell that is not NULL.
    pub fn text(&self, table: &Arc<Table>, row: RowId, column: usize) -> Box<str> {
        self.row(table, row).text(column, |text| text.into())
    }

    pub(crate) fn passes(&self, table: &Arc<Table>, row: RowId, filter: &Option<RowFilter>) -> bool {
        filter.as_ref().is_none_or(|filter| filter(&|column| self.value(table, row, column)))
    }
}

/// A row that a transaction can see, own writes included. Typed reads are for procedures: no [`Value`] is built; they
/// panic if the column has another type or the cell is NULL.
pub struct RowReader<'t> {
    transaction: &'t Transaction,
    table: &'t Table,
    /// Where it lies, if it is not new in this transaction.
    place: Option<(&'t RowBlock, usize)>,
    at: ReadAt,
    /// What the transaction itself has written to the row.
    pending: Option<&'t Write>,
    pin: Guard,
}

impl<'t> RowReader<'t> {
    #[inline]
    pub(crate) fn new(
        transaction: &'t Transaction,
        table: &'t Table,
        row: RowId,
        pending: Option<&'t Write>,
    ) -> RowReader<'t> {
        assert!(transaction.tables.is_own(table), "rows come from this transaction's own finds and scans");
        let is_committed = row.provisional_number().is_none();
        let place = is_committed.then(|| (Storage::of(table).block(row.block()), row.offset()));
        RowReader {
            transaction,
            table,
            place,
            at: transaction.cells_at,
            pending,
            pin: crossbeam_epoch::pin(),
        }
    }

    /// One cell, handed to a function. Panics if the row is not visible.
    ///
    /// Below REPEATABLE READ a row may be gone since it was found: then the cell is what it was in the end. At READ
    /// COMMITTED its slot may even hold another row by then, so the transaction will not commit (40001).
    #[inline]
    pub fn cell<R>(&self, column: usize, use_cell: impl FnOnce(Cell<'_>) -> R) -> R {
        if let Some(write) = self.pending
            && let Some(cell) = self.transaction.writes.cell(write, column)
        {
            return use_cell(cell);
        }
        let (block, offset) = self.place();
        match block.read_or(offset, ColumnPosition(column), self.at, &self.pin, use_cell) {
            Ok(result) => result,
            Err(use_cell) => self.vanished_cell(column, use_cell),
        }
    }

    /// Whether the transaction itself has deleted the row since it was found. Its cells must not be read then.
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.pending.is_some_and(|write| matches!(write.kind, WriteKind::Delete | WriteKind::Nothing))
    }

    #[inline]
    fn place(&self) -> (&'t RowBlock, usize) {
        self.place.expect("a new row has all of its cells pending")
    }

    /// A cell of a row that has gone since it was found, or one that is no longer in place where that matters.
    #[cold]
    fn vanished_cell<R>(&self, column: usize, use_cell: impl FnOnce(Cell<'_>) -> R) -> R {
        let (block, offset) = self.place();
        if let ReadAt::InPlace(start) = self.at {
            // The transaction ends with its next read, or its commit. Until then it goes on with the value that was
            // right.
            self.transaction.stale.note_cells();
            // By a copy, so that `read_or` is instantiated, and inlined, in one place only.
            let owned = |cell: Cell<'_>| cell.to_owned();
            let old = block.read(offset, ColumnPosition(column), ReadAt::Snapshot(start), &self.pin, owned);
            return use_cell(old.expect("the row was there when it was found").borrow());
        }
        let isolation = self.transaction.isolation;
        assert!(isolation.reads_by_statement(), "rows come from this transaction's own finds and scans");
        // At READ UNCOMMITTED the slot stays as it is: the transaction has announced an older timestamp.
        if isolation == Isolation::ReadCommitted {
            self.transaction.stale.note_cells();
        }
        block.read_in_place(offset, ColumnPosition(column), &self.pin, use_cell)
    }

    /// One cell as a value.
    pub fn value(&self, column: usize) -> Value {
        let data_type = self.table.data_type(column);
        self.cell(column, |cell| cell.to_value(data_type))
    }

    #[inline]
    fn word(&self, column: usize) -> u64 {
        self.cell(column, |cell| match cell {
            Cell::Word(word) => word,
            other => panic!("column {column} of {} is not a narrow number: {other:?}", self.table.name()),
        })
    }

    /// A smallint.
    #[inline]
    pub fn smallint(&self, column: usize) -> i16 {
        self.word(column) as i16
    }

    /// An integer or a date.
    #[inline]
    pub fn integer(&self, column: usize) -> i32 {
        self.word(column) as i32
    }

    /// A bigint or a timestamp.
    #[inline]
    pub fn bigint(&self, column: usize) -> i64 {
        self.word(column) as i64
    }

    /// The unscaled digits of a numeric; the scale is the column's.
    #[inline]
    pub fn decimal(&self, column: usize) -> i128 {
        self.cell(column, |cell| match cell {
            Cell::Word(word) => word as i64 as i128,
            Cell::Wide(wide) => wide as i128,
            other => panic!("column {column} of {} is not a number: {other:?}", self.table.name()),
        })
    }

    /// A text, handed to a function.
    #[inline]
    pub fn text<R>(&self, column: usize, use_text: impl FnOnce(&str) -> R) -> R {
        assert!(
            self.table.data_type(column).is_text(),
            "column {column} of {} is no text",
            self.table.name()
        );
        self.cell(column, |cell| match cell {
            // SAFETY: what is written to text columns is UTF-8: writing checks it, and installing demands it.
            Cell::Bytes(bytes) => use_text(unsafe { std::str::from_utf8_unchecked(bytes) }),
            other => panic!("column {column} of {} is not text: {other:?}", self.table.name()),
        })
    }
}
