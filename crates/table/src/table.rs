//! A table as programs know it: its name, columns and indexes, and how large it is.
//!
//! Nothing here changes a row, or leads to anything that does: what transactions and snapshots work on is the table's
//! [`Storage`], which only code that can name that type can get.

use crate::block::RowBlock;
use crate::cell::CellLayout;
use crate::check::Check;
use crate::gate::Gate;
use crate::index::Index;
use crate::schema::{ColumnDefinition, TableDefinition};
use crate::segment::Placement;
use crate::storage::Storage;
use ankerdb_base::{
    ColumnSet, DatabaseId, Error, IndexPosition, ROWS_PER_BLOCK, Result, SchemaId, SqlState, TableId,
    Timestamp,
};
use ankerdb_value::DataType;
use crossbeam_epoch::Guard;
use std::sync::Arc;

/// A table. See the module.
pub struct Table {
    id: TableId,
    origin: TableId,
    definition: TableDefinition,
    /// Shared with the tables that this one was redefined from, or to.
    storage: Arc<Storage>,
    gate: Gate,
    /// Whether columns are computed, which all writers ask.
    has_generated: bool,
    /// Whether its rows outlive the process, where there is a log.
    is_logged: bool,
}

impl Storage {
    /// The storage of a table.
    #[inline]
    pub fn of(table: &Table) -> &Storage {
        &table.storage
    }

    /// An empty table. The definition must be valid.
    pub fn create(id: TableId, definition: TableDefinition) -> Table {
        let storage = Storage::new(&definition, None).expect("only regions have to be reserved");
        Table::of_storage(id, id, definition, Arc::new(storage))
    }

    /// An empty table with its columns in regions in which a technique takes snapshots.
    ///
    /// # Errors
    /// 0A000 if the machine cannot run it, 53200 if there is no memory to reserve.
    pub fn create_in_regions(
        id: TableId,
        definition: TableDefinition,
        placement: Placement,
    ) -> Result<Table> {
        let storage = Storage::new(&definition, Some(placement))?;
        Ok(Table::of_storage(id, id, definition, Arc::new(storage)))
    }

    /// A new table that takes the place of this one, with other columns: for those who refer to it, it is the same one.
    pub fn succeed(mut new: Table, old: &Table) -> Table {
        new.origin = old.origin;
        new
    }

    /// A table that is, for those who refer to it, the one with this origin.
    pub fn with_origin(new: Table, origin: TableId) -> Table {
        Table { origin, ..new }
    }

    /// A table that shares the rows and indexes of this one under another definition, whose columns have the same types and allow NULL alike. The
    /// definition must be valid; its indexes are not looked at.
    pub fn redefine(table: &Table, definition: TableDefinition) -> Table {
        debug_assert!(
            table
                .columns()
                .iter()
                .zip(&definition.columns)
                .all(|(old, new)| { (old.data_type, old.nullable) == (new.data_type, new.nullable) })
        );
        let new = Table::of_storage(table.id, table.origin, definition, table.storage.clone());
        Table { is_logged: table.is_logged, ..new }
    }
}

impl Gate {
    /// The gate of a table.
    #[inline]
    pub fn of(table: &Table) -> &Gate {
        &table.gate
    }
}

impl Table {
    fn of_storage(id: TableId, origin: TableId, definition: TableDefinition, storage: Arc<Storage>) -> Table {
        let has_generated = definition.columns.iter().any(|column| column.generation.is_some());
        Table { id, origin, definition, storage, gate: Gate::default(), has_generated, is_logged: true }
    }

    /// This table, of which no log tells: one that is gone when its session ends.
    pub fn unlogged(mut self) -> Table {
        self.is_logged = false;
        self
    }

    /// Whether a log tells of its rows.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// Its identity.
    #[inline]
    pub fn id(&self) -> TableId {
        self.id
    }

    /// The identity that it keeps when its columns change, for which its rows are copied to a table of another identity.
    #[inline]
    pub fn origin(&self) -> TableId {
        self.origin
    }

    /// Whether it is a side of a foreign key.
    #[inline]
    pub fn has_references(&self) -> bool {
        !self.definition.foreign_keys.is_empty() || !self.definition.referenced_by.is_empty()
    }

    /// Whether it is of this database: in another one the timestamps of its rows mean nothing.
    ///
    /// # Errors
    /// `UndefinedTable` if it is not.
    #[inline]
    pub fn check_is_of(&self, database: DatabaseId) -> Result<()> {
        if self.id.database() == database { Ok(()) } else { Err(self.of_another_database()) }
    }

    #[cold]
    fn of_another_database(&self) -> Error {
        let message = format!("relation \"{}\" belongs to another database", self.name());
        Error::new(SqlState::UndefinedTable, message)
    }

    /// The schema that it is in.
    pub fn schema(&self) -> SchemaId {
        self.definition().schema
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

    /// What its rows satisfy.
    #[inline]
    pub fn checks(&self) -> &[Check] {
        &self.definition.checks
    }

    /// Whether columns are computed from others.
    #[inline]
    pub fn has_generated(&self) -> bool {
        self.has_generated
    }

    /// The position of the column with this name.
    pub fn column_position(&self, name: &str) -> Option<usize> {
        self.definition.position(name)
    }

    /// The type of a column.
    #[inline]
    pub fn data_type(&self, column: usize) -> DataType {
        self.storage.column_type(column).0
    }

    /// Whether a column may hold NULL.
    #[inline]
    pub fn is_nullable(&self, column: usize) -> bool {
        self.storage.column_type(column).1
    }

    /// How a column's cells lie in memory.
    #[inline]
    pub fn layout(&self, column: usize) -> CellLayout {
        self.storage.layout(column)
    }

    /// All index positions ever used, dropped ones and ones being built included: what commits go through.
    pub fn all_indexes(&self) -> impl Iterator<Item = (IndexPosition, &Arc<Index>)> {
        self.storage.indexes().iter().enumerate().map(|(position, index)| (IndexPosition(position), index))
    }

    /// The indexes that commits maintain, with their positions.
    pub fn maintained_indexes(&self) -> impl Iterator<Item = (IndexPosition, &Arc<Index>)> {
        self.all_indexes().filter(|(_, index)| !index.is_dropped())
    }

    /// The indexes that queries may use, by position: positions never change, and those of dropped or unfinished
    /// indexes are left out.
    pub fn usable_indexes(&self) -> impl Iterator<Item = (IndexPosition, &Arc<Index>)> {
        self.maintained_indexes().filter(|(_, index)| index.valid_from() < Timestamp::MAX)
    }

    /// The index at a position.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an index of a table, not indexing")]
    pub fn index(&self, position: IndexPosition) -> &Arc<Index> {
        self.storage.indexes().get(position.0).expect("index positions come from this table")
    }

    /// Blocks so far.
    pub fn block_count(&self) -> usize {
        self.storage.block_count()
    }

    /// Rows that exist in their newest state; while commits run, a recent count.
    pub fn row_count(&self) -> usize {
        self.storage.blocks.iter().map(|block| block.exists().ones()).sum()
    }

    /// The blocks, for those who count.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &RowBlock> {
        self.storage.blocks.iter()
    }

    /// Bytes of versions in this table; walks all of them.
    pub fn version_bytes(&self, pin: &Guard) -> usize {
        self.storage.blocks.iter().map(|block| block.version_bytes(pin)).sum()
    }

    /// Approximate bytes that the rows' newest values take.
    pub fn memory_bytes(&self, pin: &Guard) -> usize {
        let block_bytes = |block: &RowBlock| -> usize {
            // SAFETY: inside a pin.
            let arrays = (0..self.columns().len()).map(|column| unsafe { block.columns().current(column) });
            arrays.map(|array| array.memory_bytes()).sum::<usize>()
                + ROWS_PER_BLOCK * RowBlock::BYTES_BESIDE_CELLS
        };
        let _inside = pin;
        self.storage.blocks.iter().map(block_bytes).sum()
    }

    /// Leaves all columns but `keep` out of processes forked from now on, which makes forking cheaper, until
    /// [`include_in_fork`](Self::include_in_fork). Reading an excluded column in such a process ends that process. For
    /// one caller at a time; does nothing to columns that are not in regions. Columns from 63 on go together.
    ///
    /// # Errors
    /// 53200 if the system has no memory to note that.
    pub fn exclude_from_fork(&self, keep: ColumnSet) -> Result<()> {
        self.storage
            .segments()
            .map_or(Ok(()), |segments| segments.exclude_from_fork(|column| !keep.contains(column)))
    }

    /// Makes forked processes have all columns again.
    ///
    /// # Errors
    /// Those of [`exclude_from_fork`](Self::exclude_from_fork).
    pub fn include_in_fork(&self) -> Result<()> {
        self.exclude_from_fork(ColumnSet::ALL)
    }
}
