//! Ours beside the techniques: a table of bigint columns in an ordinary database, and three ways to use it.
//!
//! - As every program does: whole transactions, snapshots through the database.
//! - By its parts, to see what of a transaction's cost is that of keeping history: rows are locked, a timestamp is drawn
//!   from a commit order, the new values are installed in place with the old ones in versions, the commit is finished. That
//!   is how a commit of a transaction ends; what is left out is its beginning: private writes, records for validation, waiting
//!   until it is visible.
//! - Reading: through a view, block by block.

use crate::lab::{Lab, joined};
use crate::technique::sum;
use ankerdb_base::{ROWS_PER_BLOCK, RowId, Timestamp};
use ankerdb_engine::{
    Cell, ColumnDefinition, ColumnSet, DataType, Database, Error, Isolation, ReadView, Result, Session,
    Snapshot, SqlState, Table, TableDefinition,
};
use ankerdb_snapshot::SnapshotCounters;
use ankerdb_sync::commit_order::CommitOrder;
use ankerdb_sync::readers::ActiveReaders;
use ankerdb_table::{KeptRow, OwnedRow};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows of one loading transaction.
const ROWS_PER_TRANSACTION: usize = 512;
/// Threads that load; a table has as many tails.
const LOADERS_MAX: usize = 4;
/// Commits whose timestamps may be drawn and not finished.
const COMMITS_AT_ONCE: usize = 1 << 14;
/// Commits after which the list of readers' timestamps is taken anew, as in a transaction's commit.
const IN_USE_AGE_MAX: u32 = 8;
/// Writes between two collections of retired memory, as in a session.
const WRITES_BETWEEN_COLLECTIONS: usize = 256;

/// A table of bigint columns without an index, full of rows.
pub struct Rows {
    /// Its database.
    pub database: Database,
    /// The table.
    pub table: Arc<Table>,
    /// How many rows.
    pub count: usize,
    columns: usize,
}

impl Rows {
    /// Loads columns of so many MiB. The number of rows is one of whole blocks. 57014 if the user stops it.
    pub fn load(lab: &Lab<'_>, columns: usize, megabytes: usize) -> Result<Rows> {
        let database = Database::new();
        let definition = (0..columns).fold(TableDefinition::new("numbers"), |table, column| {
            table.column(ColumnDefinition::new(format!("c{column}"), DataType::BigInt))
        });
        let table = database.create_table(definition)?;
        let count = ((megabytes << 20) / 8).next_multiple_of(ROWS_PER_BLOCK);
        let rows = Rows { database, table, count, columns };
        rows.fill(lab)?;
        Ok(rows)
    }

    /// Threads load whole blocks, each into a tail of its own, so that all blocks become full.
    fn fill(&self, lab: &Lab<'_>) -> Result<()> {
        let (next, progress) = (AtomicUsize::new(0), lab.loading());
        let blocks = self.count / ROWS_PER_BLOCK;
        let work = |mut session: Session| -> Result<()> {
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    return Ok(());
                }
                if progress((block * ROWS_PER_BLOCK) as u64, self.count as u64) == ControlFlow::Break(()) {
                    return Err(Error::new(SqlState::QueryCanceled, "loading was stopped"));
                }
                for first in (0..ROWS_PER_BLOCK).step_by(ROWS_PER_TRANSACTION) {
                    self.insert(&mut session, block * ROWS_PER_BLOCK + first)?;
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(LOADERS_MAX);
        std::thread::scope(|scope| {
            let work = &work;
            let sessions: Vec<Session> = (0..threads).map(|_| self.database.session()).collect();
            let workers: Vec<_> =
                sessions.into_iter().map(|session| scope.spawn(move || work(session))).collect();
            workers.into_iter().try_for_each(|worker| joined(worker.join()))
        })?;
        let _ = progress(self.count as u64, self.count as u64);
        match self.table.block_count() == blocks && self.table.block(blocks - 1).fill() == ROWS_PER_BLOCK {
            true => Ok(()),
            false => Err(Error::internal("blocks are not full after loading")),
        }
    }

    fn insert(&self, session: &mut Session, first: usize) -> Result<()> {
        session.run(Isolation::RepeatableRead, |transaction| {
            (first..first + ROWS_PER_TRANSACTION).try_for_each(|row| {
                let cells = vec![Cell::Word(row as u64); self.columns];
                transaction.insert_cells(&self.table, &cells).map(drop)
            })
        })
    }

    /// The row at a place among all.
    pub fn row(&self, place: usize) -> RowId {
        RowId::new(place / ROWS_PER_BLOCK, place % ROWS_PER_BLOCK)
    }

    /// Changes these rows in all columns, each in a transaction of its own.
    pub fn update(&self, session: &mut Session, places: &[usize], value: u64) -> Result<()> {
        let changes: Vec<(usize, Cell<'_>)> =
            (0..self.columns).map(|column| (column, Cell::Word(value))).collect();
        places.iter().try_for_each(|&place| {
            session.run(Isolation::Serializable, |transaction| {
                transaction.update_cells(&self.table, self.row(place), &changes)
            })
        })
    }

    /// Asks for all blocks of the first columns; returns how many arrays were lent and how many were not.
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
    pub fn sum(&self, view: &ReadView, column: usize) -> Result<u64> {
        let mut total = 0u64;
        for part in 0..view.parts(&self.table) {
            let image = view.read(&self.table, part, &[column])?;
            total = total.wrapping_add(sum(&image.columns[0].words()[..image.rows]));
        }
        Ok(total)
    }
}

/// The last part of commits, on a loaded table that nobody else uses. See the module.
pub struct Installs {
    table: Arc<Table>,
    order: CommitOrder<()>,
    readers: Arc<ActiveReaders>,
    counters: Arc<SnapshotCounters>,
}

/// What one writer keeps.
#[derive(Default)]
pub struct Writer {
    rows: Vec<RowId>,
    owned: Vec<KeptRow>,
    in_use: Vec<Timestamp>,
    age: u32,
    written: usize,
}

impl Installs {
    /// Goes on where the database's transactions ended.
    pub fn on(rows: &Rows) -> Installs {
        let order = CommitOrder::new(COMMITS_AT_ONCE);
        let last = rows.database.snapshot().timestamp();
        while order.watermark() < last {
            let commit = order.begin(Arc::new(()), drop);
            order.finish(commit, true);
        }
        let (readers, counters) = (ActiveReaders::new(), Arc::default());
        Installs { table: rows.table.clone(), order, readers, counters }
    }

    /// Installs a word in each of these rows, all by one commit. Spins while somebody else has a row.
    pub fn write(&self, writer: &mut Writer, rows: impl Iterator<Item = RowId>, word: u64) {
        let pin = crossbeam_epoch::pin();
        writer.rows.clear();
        writer.rows.extend(rows);
        // In the order of rows, as commits lock them, so that two writers do not wait for each other.
        writer.rows.sort_unstable();
        writer.rows.dedup();
        for row in &writer.rows {
            self.table.block(row.block()).prefetch(row.offset(), ColumnSet::of(&[0]), &pin);
        }
        let own = |row: &RowId| loop {
            match self.table.try_own(*row) {
                Some(row) => return row.keep(),
                None => std::hint::spin_loop(),
            }
        };
        writer.owned.extend(writer.rows.iter().map(own));
        let commit = self.order.begin(Arc::new(()), |former| pin.defer(move || drop(former)));
        if writer.age == 0 {
            self.readers.in_use(self.order.watermark(), &mut writer.in_use);
            writer.age = IN_USE_AGE_MAX;
        }
        writer.age -= 1;
        for row in writer.owned.drain(..) {
            let row: OwnedRow<'_> = self.table.resume(row);
            let installed = self.table.install_word(row, (0, word), commit, &writer.in_use, &pin);
            installed.expect("a word needs no memory");
        }
        self.order.finish(commit, true);
        writer.written += writer.rows.len();
        if writer.written >= WRITES_BETWEEN_COLLECTIONS {
            writer.written = 0;
            pin.flush();
        }
    }

    /// A snapshot of everything installed so far: the database's own, but of this order of commits.
    pub fn snapshot(&self) -> Snapshot {
        let slot = self.readers.register();
        let timestamp = slot.enter(|| self.order.watermark());
        Snapshot::new(timestamp, Arc::new(slot), Default::default(), self.counters.clone())
    }

    /// What the background does in a database: drops history that nobody needs.
    pub fn sweep(&self) {
        self.table.sweep(self.readers.oldest(self.order.watermark()), &crossbeam_epoch::pin());
        let rows = self.table.block_count() * ROWS_PER_BLOCK;
        for _ in 0..rows / WRITES_BETWEEN_COLLECTIONS {
            crossbeam_epoch::pin().flush();
        }
    }
}
