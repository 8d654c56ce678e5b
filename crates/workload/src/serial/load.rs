//! Fills a database with the rows that the engine has.

use super::layout::Layout;
use super::relations::{Handle, SerialTables};
use ankerdb_engine::{ColumnSet, Isolation, Result, RowId, Table, Transaction};
use ankerdb_serial::{Granularity, IndexTreatment, MemoryKind, QuiescePolicy, SerialDatabase, Shape, Store};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Room beside what is loaded and what grows.
const ROOM: usize = 1024;
/// The most lines of an order, and one.
const LINES_MAX: usize = 16;

/// What database is made.
#[derive(Clone, Copy, Debug)]
pub struct SerialOptions {
    /// Its memory.
    pub kind: MemoryKind,
    /// What becomes of indexes in snapshots.
    pub treatment: IndexTreatment,
    /// Orders that there is room for beside those that are loaded; for their lines, and as many payments, too. Numbers of tuples
    /// that were deleted, or whose insertion was taken back, count until the next refresh. Costs addresses only.
    pub extra_orders: usize,
}

/// A database with the rows of TPC-C's and CH-benCHmark's tables, as they are in the engine now, in a first snapshot.
///
/// # Errors
/// 42P01 if one of the tables is missing there; 53200 if there is no memory; what [`Database::new`] refuses.
pub fn load<S: Store>(
    source: &ankerdb_engine::Database,
    options: &SerialOptions,
) -> Result<(SerialDatabase<S>, SerialTables)> {
    load_by(source.session().begin(Isolation::RepeatableRead), source, options)
}

/// Like [`load`], with the rows that a transaction sees.
pub(super) fn load_by<S: Store>(
    transaction: Transaction,
    source: &ankerdb_engine::Database,
    options: &SerialOptions,
) -> Result<(SerialDatabase<S>, SerialTables)> {
    let database = SerialDatabase::new(options.kind, options.treatment)?;
    let mut loader = Loader { source, transaction, database };
    let orders = options.extra_orders + options.extra_orders / 8;
    let tables = SerialTables {
        warehouse: loader.copy(0)?,
        district: loader.copy(0)?,
        customer: loader.copy(0)?,
        history: loader.copy(2 * orders)?,
        new_order: loader.copy(orders)?,
        orders: loader.copy(orders)?,
        order_line: loader.copy(LINES_MAX * orders)?,
        item: loader.copy(0)?,
        stock: loader.copy(0)?,
        supplier: loader.copy(0)?,
        nation: loader.copy(0)?,
        region: loader.copy(0)?,
    };
    let Loader { mut transaction, mut database, .. } = loader;
    transaction.rollback();
    database.refresh(QuiescePolicy::Wait)?;
    Ok((database, tables))
}

struct Loader<'a, S: Store> {
    source: &'a ankerdb_engine::Database,
    transaction: Transaction,
    database: SerialDatabase<S>,
}

impl<S: Store> Loader<'_, S> {
    /// Copies a table, with room for so many more tuples.
    fn copy<H: Handle>(&mut self, growth: usize) -> Result<H> {
        let table = self.source.catalog().table(H::NAME)?;
        let layout = Layout::of(table.definition())?;
        let tuples = table.row_count() + growth + ROOM;
        let copies = if S::MECHANISM.granularity() == Granularity::Tuple { 2 } else { 1 };
        let shape = Shape { words: layout.words(), capacity: copies * tuples };
        let relation = self.database.add_relation(shape, H::INDEXES)?;
        let handle = H::resolve(relation, &layout)?;
        let database = &mut self.database;
        let mut tuple = vec![0; layout.words()];
        read(&mut self.transaction, &table, &layout, &mut tuple, &mut |tuple| {
            let keys = handle.keys(tuple)?;
            database.run(|transaction| transaction.insert(relation, tuple, &keys).map(drop))
        })?;
        Ok(handle)
    }
}

/// Shows the rows of a table as tuples.
pub(super) fn read(
    transaction: &mut Transaction,
    table: &Arc<Table>,
    layout: &Layout,
    tuple: &mut [u64],
    see: &mut dyn FnMut(&[u64]) -> Result<()>,
) -> Result<()> {
    let columns = layout.fields().len();
    let mut visit = |transaction: &mut Transaction, row: RowId| {
        let reader = transaction.row(table, row);
        tuple.fill(0);
        (0..columns)
            .try_for_each(|column| reader.cell(column, |cell| layout.put_cell(tuple, column, cell)))?;
        see(tuple)?;
        Ok(ControlFlow::Continue(()))
    };
    transaction.scan_table(table, ColumnSet::ALL, None, &mut visit)
}
