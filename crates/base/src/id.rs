//! Identifiers and the logical clock's unit.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

/// Rows in one row block. A power of two and one full analytical batch (smaller batches cost the query engine
/// 1.3 to 1.8 times the time per row).
pub const ROWS_PER_BLOCK: usize = 8192;

/// A position in the commit order. Logical, never wall time: commit *n* happened before commit *n + 1*.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Before every commit.
    pub const ZERO: Timestamp = Timestamp(0);
    /// After every commit: larger than what a row header can hold.
    pub const MAX: Timestamp = Timestamp((1 << 60) - 1);

    /// The timestamp right after this one.
    pub fn next(self) -> Timestamp {
        Timestamp(self.0 + 1)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A database's identity in this process, so that a table or snapshot of one is not taken for another's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DatabaseId(u32);

impl DatabaseId {
    /// That of a new database. Four billion databases later one of them has the same.
    #[expect(clippy::new_without_default, reason = "each one is another")]
    pub fn new() -> DatabaseId {
        static DATABASES: AtomicU32 = AtomicU32::new(1);
        DatabaseId(DATABASES.fetch_add(1, Ordering::Relaxed))
    }
}

/// A schema's identity: names of relations are unique in one. It stays when the schema gets another name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SchemaId(pub u64);

impl SchemaId {
    /// That of `public`, which every database begins with.
    pub const PUBLIC: SchemaId = SchemaId(0);
}

/// A table's identity. Never reused, so a dropped and recreated table has a new one; and no two databases of a process have
/// the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableId(u64);

impl TableId {
    /// The table that a database has made after so many others.
    pub fn new(database: DatabaseId, number: u32) -> TableId {
        TableId(u64::from(database.0) << 32 | u64::from(number))
    }

    /// The database that the table belongs to.
    #[inline]
    pub fn database(self) -> DatabaseId {
        DatabaseId((self.0 >> 32) as u32)
    }

    /// The table's number in its database.
    #[inline]
    pub fn number(self) -> u32 {
        self.0 as u32
    }
}

/// A block's place among those of its table: they are numbered from 0 on, in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct BlockNumber(pub usize);

impl fmt::Debug for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BlockNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A column's place among those of its table: they are numbered from 0 on. Taken where another plain number stands beside it, such
/// as the offset of a row (`docs/design/positions.md`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ColumnPosition(pub usize);

impl fmt::Debug for ColumnPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ColumnPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An index's place among those that its table has ever had: they are numbered from 0 on, in the order in which they were added, and
/// keep their numbers when others are dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct IndexPosition(pub usize);

impl fmt::Debug for IndexPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for IndexPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A row's place in its table: block number and offset in the block, or, inside one transaction, the
/// number of a row that the transaction has inserted but not committed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

impl RowId {
    const PROVISIONAL: u64 = 1 << 63;

    /// The row at `offset` of a block.
    pub fn new(block: BlockNumber, offset: usize) -> RowId {
        debug_assert!(offset < ROWS_PER_BLOCK);
        RowId((block.0 * ROWS_PER_BLOCK + offset) as u64)
    }

    /// The `number`-th row inserted by the transaction at hand.
    pub fn provisional(number: usize) -> RowId {
        RowId(Self::PROVISIONAL | number as u64)
    }

    /// The number given to [`RowId::provisional`], if this is such a row.
    pub fn provisional_number(self) -> Option<usize> {
        (self.0 & Self::PROVISIONAL != 0).then_some((self.0 & !Self::PROVISIONAL) as usize)
    }

    /// The block number.
    pub fn block(self) -> BlockNumber {
        debug_assert!(self.provisional_number().is_none());
        BlockNumber(self.0 as usize / ROWS_PER_BLOCK)
    }

    /// The offset in the block.
    pub fn offset(self) -> usize {
        self.0 as usize % ROWS_PER_BLOCK
    }
}

impl fmt::Debug for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.provisional_number() {
            Some(number) => write!(f, "new#{number}"),
            None => write!(f, "{}.{}", self.block(), self.offset()),
        }
    }
}

/// A set of column positions of one table. Columns from 63 on share one bit: the set may then claim more
/// than was put in, never less, which is the safe side for conflict detection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ColumnSet(u64);

impl ColumnSet {
    /// No column.
    pub const EMPTY: ColumnSet = ColumnSet(0);
    /// Every column.
    pub const ALL: ColumnSet = ColumnSet(u64::MAX);

    /// The set of the given column positions.
    pub const fn of(columns: &[usize]) -> ColumnSet {
        let mut bits = 0;
        let mut i = 0;
        while i < columns.len() {
            bits |= Self::bit(columns[i]);
            i += 1;
        }
        ColumnSet(bits)
    }

    const fn bit(column: usize) -> u64 {
        1 << if column < 63 { column } else { 63 }
    }

    /// Adds one column.
    pub fn insert(&mut self, column: usize) {
        self.0 |= Self::bit(column);
    }

    /// Whether the column may be in the set.
    pub fn contains(self, column: usize) -> bool {
        self.0 & Self::bit(column) != 0
    }

    /// Whether no column is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the two sets may share a column.
    pub fn intersects(self, other: ColumnSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Columns in either set.
    pub fn union(self, other: ColumnSet) -> ColumnSet {
        ColumnSet(self.0 | other.0)
    }

    /// The columns, in order; 63 stands for all columns from 63 on.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let column = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(column)
        })
    }

    /// The set as bits; bit 63 stands for all columns from 63 on.
    pub fn bits(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_ids_split_into_block_and_offset() {
        let row = RowId::new(BlockNumber(7), 8191);
        assert_eq!((row.block(), row.offset(), row.provisional_number()), (BlockNumber(7), 8191, None));
        assert_eq!(RowId::provisional(3).provisional_number(), Some(3));
    }

    #[test]
    fn tables_of_two_databases_are_two() {
        let (one, other) = (DatabaseId::new(), DatabaseId::new());
        let table = TableId::new(one, u32::MAX);
        assert_eq!((table.database(), table.number()), (one, u32::MAX));
        assert_ne!(table, TableId::new(other, u32::MAX));
    }

    #[test]
    fn columns_past_62_share_a_bit() {
        let wide = ColumnSet::of(&[100]);
        assert!(wide.contains(63) && wide.contains(100) && !wide.contains(62));
        assert!(wide.intersects(ColumnSet::of(&[70])));
        assert!(!ColumnSet::of(&[1, 2]).intersects(ColumnSet::of(&[3])));
    }
}
