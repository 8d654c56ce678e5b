//! Ours beside the techniques: a table of bigint columns in an ordinary database, and three ways to use it.
//!
//! - [`LoadedTable`], like every program: whole transactions, snapshots through the database.
//! - [`Installs`], by the last part of commits alone, to see which part of a transaction's cost is that of keeping old
//!   versions. The crate of transactions has the means for that, as programs reach rows only by transactions.
//! - Reading: through a view, block by block.

use crate::harness::{Harness, joined};
use crate::technique::sum;
use ankerdb_base::{BlockNumber, ROWS_PER_BLOCK, RowId};
use ankerdb_engine::{
    Cell, ColumnDefinition, DataType, Database, Error, Isolation, ReadView, Result, Session, SqlState, Table,
    TableDefinition,
};
use ankerdb_transaction::Installs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows of one loading transaction.
const ROWS_PER_TRANSACTION: usize = 512;
/// Threads that load; a table has as many tails.
const LOADERS_MAX: usize = 4;

/// A table of bigint columns without an index, full of rows.
pub struct LoadedTable {
    /// Its database.
    pub database: Database,
    /// The table.
    pub table: Arc<Table>,
    /// How many rows.
    pub count: usize,
    columns: usize,
}

impl LoadedTable {
    /// Loads columns of so many MiB. The number of rows is one of whole blocks.
    ///
    /// # Errors
    /// 57014 if the user stops it.
    pub fn load(harness: &Harness<'_>, columns: usize, megabytes: usize) -> Result<LoadedTable> {
        let database = Database::new();
        let definition = (0..columns).fold(TableDefinition::new("numbers"), |table, column| {
            table.column(ColumnDefinition::new(format!("c{column}"), DataType::BigInt))
        });
        let table = database.create_table(definition)?;
        let count = rows_of(megabytes);
        let rows = LoadedTable { database, table, count, columns };
        rows.fill(harness)?;
        Ok(rows)
    }

    fn fill(&self, harness: &Harness<'_>) -> Result<()> {
        let loader = || {
            let mut session = self.database.session();
            move |first| self.insert(&mut session, first)
        };
        fill(harness, &self.table, self.count, loader)
    }

    fn insert(&self, session: &mut Session, first: usize) -> Result<()> {
        session.run(Isolation::RepeatableRead, |transaction| {
            (first..first + ROWS_PER_TRANSACTION).try_for_each(|row| {
                let cells = vec![Cell::Word(row as u64); self.columns];
                transaction.insert_cells(&self.table, &cells).map(drop)
            })
        })
    }

    /// Changes these rows in all columns, each in a transaction of its own.
    ///
    /// # Errors
    /// The database's.
    pub fn update(&self, session: &mut Session, places: &[usize], value: u64) -> Result<()> {
        let changes: Vec<(usize, Cell<'_>)> =
            (0..self.columns).map(|column| (column, Cell::Word(value))).collect();
        places.iter().try_for_each(|&place| {
            session.run(Isolation::Serializable, |transaction| {
                transaction.update_cells(&self.table, row_at(place), &changes)
            })
        })
    }

    /// Asks for all blocks of the first columns; returns how many arrays were lent and how many were not.
    ///
    /// # Errors
    /// The database's.
    pub fn lend(&self, view: &ReadView, columns: usize) -> Result<(usize, usize)> {
        let columns: Vec<usize> = (0..columns).collect();
        let (mut lent, mut copied) = (0, 0);
        for part in 0..view.parts(&self.table) {
            for image in view.read(&self.table, part, &columns)?.columns {
                if image.lent { lent += 1 } else { copied += 1 }
            }
        }
        Ok((lent, copied))
    }

    /// The sum of a column.
    ///
    /// # Errors
    /// The database's.
    pub fn sum(&self, view: &ReadView, column: usize) -> Result<u64> {
        let mut total = 0u64;
        for part in 0..view.parts(&self.table) {
            let image = view.read(&self.table, part, &[column])?;
            total = total.wrapping_add(sum(&image.columns[0].words()[..image.rows]));
        }
        Ok(total)
    }
}

/// Rows of whole blocks whose cells of one column take so many MiB.
fn rows_of(megabytes: usize) -> usize {
    ((megabytes << 20) / 8).next_multiple_of(ROWS_PER_BLOCK)
}

/// The row at a place among all of a table that was loaded here.
pub fn row_at(place: usize) -> RowId {
    RowId::new(BlockNumber(place / ROWS_PER_BLOCK), place % ROWS_PER_BLOCK)
}

/// A column of so many MiB for [`Installs`], loaded.
///
/// # Errors
/// 57014 if the user stops it.
pub fn load_installs(harness: &Harness<'_>, megabytes: usize) -> Result<Installs> {
    let installs = Installs::new();
    let loader = || {
        let mut loader = installs.loader();
        move |first| loader.insert(first as u64..(first + ROWS_PER_TRANSACTION) as u64)
    };
    fill(harness, installs.table(), rows_of(megabytes), loader)?;
    Ok(installs)
}

/// Fills a table. Threads load whole blocks, each into a tail of its own, so that all blocks become full. What `loader` makes
/// for each of them adds the rows of one transaction, given the place of the first one.
fn fill<L: FnMut(usize) -> Result<()> + Send>(
    harness: &Harness<'_>,
    table: &Table,
    count: usize,
    loader: impl Fn() -> L,
) -> Result<()> {
    let (next, progress) = (AtomicUsize::new(0), harness.loading());
    let blocks = count / ROWS_PER_BLOCK;
    let work = |mut load: L| -> Result<()> {
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= blocks {
                return Ok(());
            }
            if progress((block * ROWS_PER_BLOCK) as u64, count as u64) == ControlFlow::Break(()) {
                return Err(Error::new(SqlState::QueryCanceled, "loading was stopped"));
            }
            for first in (0..ROWS_PER_BLOCK).step_by(ROWS_PER_TRANSACTION) {
                load(block * ROWS_PER_BLOCK + first)?;
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(LOADERS_MAX);
    std::thread::scope(|scope| {
        let work = &work;
        let loaders: Vec<L> = (0..threads).map(|_| loader()).collect();
        let workers: Vec<_> = loaders.into_iter().map(|load| scope.spawn(move || work(load))).collect();
        workers.into_iter().try_for_each(|worker| joined(worker.join()))
    })?;
    let _ = progress(count as u64, count as u64);
    match table.block_count() == blocks && table.row_count() == count {
        true => Ok(()),
        false => Err(Error::internal("blocks are not full after loading")),
    }
}
