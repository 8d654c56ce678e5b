//! The embeddable database.
//!
//! [`Database`] owns the catalog and the data. A [`Session`] begins [`Transaction`]s; a [`Snapshot`] is a
//! consistent image of everything committed before it was taken; a [`ReadView`] is a snapshot plus, inside a
//! transaction, the transaction's own uncommitted writes, and hands out blocks of columns to analytics.
#![allow(missing_docs, unused_variables)]

use std::any::Any;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

pub use ankerdb_base::{ColumnSet, Error, ROWS_PER_BLOCK, Result, RowId, SqlState, TableId, Timestamp};
pub use ankerdb_table::{ColumnDefinition, IndexDefinition, TableDefinition};
pub use ankerdb_value::{DataType, Decimal, Value};

/// Isolation level of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    /// Snapshot isolation, as PostgreSQL's REPEATABLE READ.
    RepeatableRead,
    #[default]
    Serializable,
}

#[derive(Clone)]
pub struct Database(Arc<()>);

#[derive(Clone, Debug, Default)]
pub struct DatabaseOptions {}

impl Database {
    pub fn new(options: DatabaseOptions) -> Database {
        unimplemented!()
    }
    /// A session: one connection or worker thread.
    pub fn session(&self) -> Session {
        unimplemented!()
    }
    /// The tables and indexes as they are now; an immutable picture, cheap to take (one atomic load).
    pub fn catalog(&self) -> Arc<Catalog> {
        unimplemented!()
    }
    /// 42P07 if the name is taken, 42P16/42701 if the definition is malformed.
    pub fn create_table(&self, definition: TableDefinition) -> Result<Arc<Table>> {
        unimplemented!()
    }
    /// 42P01 if there is none. Transactions and snapshots that use the table keep it until they end.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        unimplemented!()
    }
    /// Builds the index from existing rows while transactions go on; waits for transactions that began
    /// before. 23505 if `unique` and rows share a key.
    pub fn create_index(&self, table: &str, index: IndexDefinition) -> Result<()> {
        unimplemented!()
    }
    pub fn drop_index(&self, name: &str) -> Result<()> {
        unimplemented!()
    }
    /// A consistent image of everything committed so far. Takes under a microsecond at any size.
    pub fn snapshot(&self) -> Snapshot {
        unimplemented!()
    }
    pub fn statistics(&self) -> Statistics {
        unimplemented!()
    }
}

/// Counters since the database was created.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    pub commits: u64,
    pub aborts: u64,
    pub snapshots: u64,
    /// (block, column) arrays handed to readers without a copy.
    pub columns_lent: u64,
    /// (block, column) arrays copied for a snapshot because the block had changed or is not full.
    pub columns_materialized: u64,
    /// (block, column) arrays that a writer copied because they were lent.
    pub columns_moved: u64,
    pub version_bytes: u64,
}

/// An immutable picture of which tables exist. `version` grows with every change, so that cached plans
/// know when they are stale.
pub struct Catalog {
    pub version: u64,
}

impl Catalog {
    /// 42P01 if there is none.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        unimplemented!()
    }
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        [].iter()
    }
    /// The table that has the index.
    pub fn table_of_index(&self, index: &str) -> Option<Arc<Table>> {
        unimplemented!()
    }
}

pub struct Table {}

impl Table {
    pub fn id(&self) -> TableId {
        unimplemented!()
    }
    pub fn name(&self) -> &str {
        unimplemented!()
    }
    pub fn columns(&self) -> &[ColumnDefinition] {
        unimplemented!()
    }
    pub fn column_position(&self, name: &str) -> Option<usize> {
        unimplemented!()
    }
    /// The indexes now usable. Positions in this list are stable until an index is dropped; plans that keep
    /// them check `Catalog::version`.
    pub fn indexes(&self) -> Vec<Arc<Index>> {
        unimplemented!()
    }
    /// Rows that exist now (approximate while transactions commit).
    pub fn row_count(&self) -> usize {
        unimplemented!()
    }
}

pub struct Index {}

impl Index {
    pub fn definition(&self) -> &IndexDefinition {
        unimplemented!()
    }
    /// Encodes a full or partial (prefix) key for this index: values for the first n key columns, already of
    /// the columns' types. Keys order bytewise as their values do; a prefix of columns is a prefix of bytes.
    pub fn encode(&self, values: &[Value], out: &mut Vec<u8>) -> Result<()> {
        unimplemented!()
    }
}

/// One connection or worker thread. Reuses its buffers between transactions.
pub struct Session {}

impl Session {
    /// Begins a transaction. `'static` and `Send`: an interactive session keeps it between statements.
    pub fn begin(&mut self, isolation: Isolation) -> Transaction {
        unimplemented!()
    }
    /// Runs the closure in a transaction and commits, again from the start while that fails with a
    /// serialization failure. An `Err` of the closure rolls back and is returned.
    pub fn run<T>(
        &mut self,
        isolation: Isolation,
        body: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        unimplemented!()
    }
    /// As [`run`](Self::run), but once: the caller sees 40001 and decides itself.
    pub fn try_run<T>(
        &mut self,
        isolation: Isolation,
        body: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        unimplemented!()
    }
    /// A snapshot taken through this session's own slot: the cheapest way.
    pub fn snapshot(&mut self) -> Snapshot {
        unimplemented!()
    }
}

/// Whether and how long to wait for a row that another transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockWait {
    /// Until it is free; 40P01 if that would never be, 57014 if canceled.
    Wait,
    /// 55P03 at once.
    NoWait,
    /// Report `Locked::Busy`.
    Skip,
}

/// What [`Transaction::lock`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Locked {
    /// The row is ours and is still as this transaction reads it.
    Unchanged,
    /// The row is ours, but was changed or deleted after this transaction's (statement's) snapshot; only at
    /// READ COMMITTED and below. Refresh the view and look again. (Above: 40001.)
    Changed,
    /// Somebody else has it (`LockWait::Skip` only).
    Busy,
}

/// The part of an index to visit, in encoded keys.
#[derive(Clone, Debug)]
pub struct KeyRange {
    pub lower: Bound<Vec<u8>>,
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// All keys that start with these bytes (equality on the leading key columns).
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        unimplemented!()
    }
    pub fn all() -> KeyRange {
        unimplemented!()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Backward,
}

/// A filter over one row, as a predicate for precision locking: whether the row may satisfy the condition
/// that a full scan read by. `column(i)` gives the row's value in column i.
pub type RowFilter = Arc<dyn Fn(&dyn Fn(usize) -> Value) -> bool + Send + Sync>;

/// A transaction. Its writes are private until `commit`; dropping it rolls back. After an `Err` with a
/// retryable state, only `rollback` (or drop) makes sense.
pub struct Transaction {}

impl Transaction {
    pub fn isolation(&self) -> Isolation {
        unimplemented!()
    }
    /// What this transaction (at READ COMMITTED: this statement) reads: everything committed up to here.
    pub fn read_timestamp(&self) -> Timestamp {
        unimplemented!()
    }
    /// READ COMMITTED and below: start a new statement, reading everything committed up to now. Above: no-op.
    pub fn begin_statement(&mut self) {
        unimplemented!()
    }
    /// A flag that another thread sets to end waits and scans with 57014.
    pub fn set_cancel_flag(&mut self, flag: Arc<std::sync::atomic::AtomicBool>) {
        unimplemented!()
    }
    pub fn has_writes(&self) -> bool {
        unimplemented!()
    }

    /// The visible row with exactly this key in a unique index. `columns` are those the caller is going to
    /// look at (besides the key): a concurrent change to any other column is no conflict.
    pub fn find(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        key: &[u8],
        columns: ColumnSet,
    ) -> Result<Option<RowId>> {
        unimplemented!()
    }
    /// Visits the visible rows (own writes included) with keys in the range, in key order.
    pub fn scan_index(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        range: &KeyRange,
        direction: Direction,
        columns: ColumnSet,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        unimplemented!()
    }
    /// Visits all visible rows (own writes included), in no order. `filter` narrows what counts as read: rows
    /// that it rejects are not visited.
    pub fn scan_table(
        &mut self,
        table: &Arc<Table>,
        columns: ColumnSet,
        filter: Option<RowFilter>,
        visit: &mut dyn FnMut(&mut Transaction, RowId) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        unimplemented!()
    }
    /// Notes that the whole table, or the rows that satisfy `filter`, was read by other means (an analytical
    /// query over `read_view`).
    pub fn note_table_read(&mut self, table: &Arc<Table>, columns: ColumnSet, filter: Option<RowFilter>) {
        unimplemented!()
    }

    /// One cell of a visible row, own writes included.
    pub fn value(&self, table: &Arc<Table>, row: RowId, column: usize) -> Value {
        unimplemented!()
    }
    // Typed reads for procedures: no Value is built. Panic if the column has another type or the cell is NULL.
    pub fn smallint(&self, table: &Arc<Table>, row: RowId, column: usize) -> i16 {
        unimplemented!()
    }
    pub fn integer(&self, table: &Arc<Table>, row: RowId, column: usize) -> i32 {
        unimplemented!()
    }
    pub fn bigint(&self, table: &Arc<Table>, row: RowId, column: usize) -> i64 {
        unimplemented!()
    }
    /// The unscaled digits of a numeric; the scale is the column's.
    pub fn decimal(&self, table: &Arc<Table>, row: RowId, column: usize) -> i128 {
        unimplemented!()
    }
    pub fn text(&self, table: &Arc<Table>, row: RowId, column: usize) -> Box<str> {
        unimplemented!()
    }

    /// Adds a row: one value per column, already of the columns' types. 23502 at once; 23505 at once if a
    /// visible row has the key, else at commit.
    pub fn insert(&mut self, table: &Arc<Table>, values: Vec<Value>) -> Result<RowId> {
        unimplemented!()
    }
    /// Changes columns of a visible row.
    pub fn update(&mut self, table: &Arc<Table>, row: RowId, changes: Vec<(usize, Value)>) -> Result<()> {
        unimplemented!()
    }
    pub fn delete(&mut self, table: &Arc<Table>, row: RowId) -> Result<()> {
        unimplemented!()
    }
    /// Locks a visible row until the end of the transaction. Interactive transactions lock before they
    /// write; procedures need not.
    pub fn lock(&mut self, table: &Arc<Table>, row: RowId, wait: LockWait) -> Result<Locked> {
        unimplemented!()
    }

    /// What analytics inside this transaction read: its snapshot and its own writes so far.
    pub fn read_view(&self) -> ReadView {
        unimplemented!()
    }

    pub fn commit(self) -> Result<Timestamp> {
        unimplemented!()
    }
    pub fn rollback(self) {
        unimplemented!()
    }
}

/// A consistent image of the whole database at one timestamp; cheap to clone and share between threads.
#[derive(Clone)]
pub struct Snapshot {}

impl Snapshot {
    pub fn timestamp(&self) -> Timestamp {
        unimplemented!()
    }
    pub fn read_view(&self) -> ReadView {
        unimplemented!()
    }
}

/// What one analytical query reads.
#[derive(Clone)]
pub struct ReadView {}

impl ReadView {
    pub fn timestamp(&self) -> Timestamp {
        unimplemented!()
    }
    /// The number of parts of the table: its blocks, plus one for own inserts if there are any.
    pub fn parts(&self, table: &Arc<Table>) -> usize {
        unimplemented!()
    }
    /// The columns of one part. Lends the live arrays where the block is full and has not changed since the
    /// snapshot; otherwise materializes the block, once per snapshot.
    pub fn read(&self, table: &Arc<Table>, part: usize, columns: &[usize]) -> Result<BlockImage> {
        unimplemented!()
    }
    pub fn statistics(&self, table: &Arc<Table>) -> TableStatistics {
        unimplemented!()
    }
}

/// Estimates for the planner; bounds may be wider than the data, never narrower.
#[derive(Clone, Debug)]
pub struct TableStatistics {
    pub rows: usize,
    pub columns: Vec<ColumnStatistics>,
}

#[derive(Clone, Debug, Default)]
pub struct ColumnStatistics {
    pub min: Option<Value>,
    pub max: Option<Value>,
    pub nulls: usize,
    /// Estimated number of different values, if known.
    pub distinct: Option<usize>,
}

/// The columns of one block at the view's timestamp.
pub struct BlockImage {
    /// Length of every column, rows that do not exist included.
    pub rows: usize,
    /// Which rows exist; `None` if all do. Bit i of word i / 64, least significant first.
    pub selection: Option<Box<[u64]>>,
    pub columns: Vec<ColumnImage>,
}

/// One column of a block in Arrow's physical layout. The memory stays unchanged while this lives.
pub struct ColumnImage {
    /// Boolean: bits; text and bytea: 16-byte views; uuid: 16 bytes; numeric: the narrowest of i32, i64, i128 by
    /// precision (up to 9, 18, 38 digits); date i32; timestamps i64. 64-byte aligned.
    pub values: Bytes,
    /// Validity bits (1 = not NULL); `None` if no NULL.
    pub validity: Option<Bytes>,
    /// Buffers that the views of a text or bytea column point into.
    pub heaps: Vec<Bytes>,
    /// Whether `values` is the live array (lent), not a copy.
    pub lent: bool,
}

/// Immutable memory with its owner.
#[derive(Clone)]
pub struct Bytes {
    pub pointer: *const u8,
    pub length: usize,
    pub owner: Arc<dyn Any + Send + Sync>,
}
// SAFETY: the bytes are never written while the owner lives, and the owner may be shared.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}
