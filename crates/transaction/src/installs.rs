//! The last part of commits by itself, to measure it.
//!
//! What does it cost to keep old versions, beside all else that a transaction does? An [`Installs`] is a table of words whose
//! rows are changed as commits end: they are owned, a timestamp is drawn, the old words go into versions and the new ones in
//! place, the commit is finished. Left out is how commits begin and what they wait for: private writes, keys, the list of
//! what was written, validation, becoming visible.
//!
//! That is sound because no other code writes to the table and nothing validates: `Installs` makes both the table and
//! the transactions' manager, and keeps the manager to itself. Timestamps come from that manager's commit order, in
//! which the rows were loaded by whole transactions, snapshots are announced to it, and it prunes only what none of
//! them reads. A [`Loader`] and an [`Installer`] each belong to one thread.
//!
//! For experiments; the engine does not export this.

use crate::isolation::Isolation;
use crate::manager::{TransactionManager, Versioning};
use crate::record::CommitRecord;
use crate::transaction::Transaction;
use crate::worker::Worker;
use ankerdb_base::{ColumnSet, ROWS_PER_BLOCK, Result, RowId, Timestamp};
use ankerdb_snapshot::Snapshot;
use ankerdb_table::{Cell, ColumnDefinition, KeptRow, OwnedRow, Storage, Table, TableDefinition};
use ankerdb_value::DataType;
use crossbeam_epoch::Guard;
use std::ops::Range;
use std::sync::Arc;

/// Commits after which the list of readers' timestamps is taken anew, as in a transaction's commit.
const IN_USE_AGE_MAX: u32 = 8;
/// Writes between two collections of retired memory, as in a session.
const WRITES_BETWEEN_COLLECTIONS: usize = 256;

/// A table that is written to by the last part of commits alone. See the module.
pub struct Installs {
    manager: Arc<TransactionManager>,
    table: Arc<Table>,
}

impl Installs {
    /// An empty table with one bigint column and no index.
    pub fn new() -> Installs {
        let column = ColumnDefinition::new("word", DataType::BigInt);
        let manager = TransactionManager::new(Versioning::default());
        let table = Storage::create(manager.new_table(), TableDefinition::new("words").column(column));
        Installs { manager, table: Arc::new(table) }
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What a thread adds rows with.
    pub fn loader(&self) -> Loader<'_> {
        let worker = self.manager.acquire_worker();
        let transaction = Transaction::new(self.manager.clone(), worker.clone());
        Loader { installs: self, worker, transaction }
    }

    /// What a thread changes rows with.
    pub fn installer(&self) -> Installer<'_> {
        let (rows, owned, in_use) = Default::default();
        Installer { installs: self, rows, owned, in_use, age: 0, written: 0 }
    }

    /// An image of everything installed so far.
    pub fn snapshot(&self) -> Snapshot {
        self.manager.snapshot()
    }

    /// Does what a database does in the background: frees versions that no reader needs.
    pub fn sweep(&self) {
        let storage = Storage::of(&self.table);
        storage.sweep(self.manager.horizon(), &crossbeam_epoch::pin());
        self.manager.keep_account();
        let rows = storage.block_count() * ROWS_PER_BLOCK;
        for _ in 0..rows / WRITES_BETWEEN_COLLECTIONS {
            crossbeam_epoch::pin().flush();
        }
    }
}

impl Default for Installs {
    fn default() -> Installs {
        Installs::new()
    }
}

/// Adds rows by whole transactions.
pub struct Loader<'i> {
    installs: &'i Installs,
    worker: Arc<Worker>,
    transaction: Transaction,
}

impl Loader<'_> {
    /// Adds a row for each of these words in one transaction.
    ///
    /// # Errors
    /// 53200 if there is no memory.
    pub fn insert(&mut self, words: Range<u64>) -> Result<()> {
        self.transaction.begin(Isolation::RepeatableRead, false);
        let mut words = words.map(Cell::Word);
        let inserted =
            words.try_for_each(|cell| self.transaction.insert_cells(&self.installs.table, &[cell]).map(drop));
        match inserted {
            Ok(()) => self.transaction.commit().map(drop),
            Err(error) => {
                self.transaction.rollback();
                Err(error)
            }
        }
    }
}

impl Drop for Loader<'_> {
    fn drop(&mut self) {
        self.installs.manager.release_worker(self.worker.clone());
    }
}

/// Changes rows, and keeps what it needs for that.
pub struct Installer<'i> {
    installs: &'i Installs,
    rows: Vec<RowId>,
    owned: Vec<KeptRow>,
    in_use: Vec<Timestamp>,
    age: u32,
    written: usize,
}

impl Installer<'_> {
    /// Installs a word in each of these rows, which have been loaded, by one commit without its beginning and its end. Spins
    /// while another thread owns a row.
    ///
    /// # Errors
    /// 53200 if there is no memory for a version: then nothing has changed.
    pub fn install(&mut self, rows: impl Iterator<Item = RowId>, word: u64) -> Result<()> {
        let pin = crossbeam_epoch::pin();
        self.own(rows, &pin);
        self.refresh_in_use();
        let (storage, change) = (Storage::of(&self.installs.table), std::iter::once((0, Cell::Word(word))));
        for saved in 0..self.owned.len() {
            let save =
                |row: &OwnedRow<'_>| row.save_update(change.clone(), &self.in_use, &mut Vec::new(), &pin);
            if let Err(error) = storage.with_kept(&mut self.owned[saved], save) {
                self.take_back(saved, &pin);
                return Err(error);
            }
        }
        let order = &self.installs.manager.order;
        let retire = |former| pin.defer(move || drop(former));
        let commit = order.begin(Arc::new(CommitRecord::default()), retire);
        self.written += self.owned.len();
        for row in self.owned.drain(..) {
            // SAFETY: saved with the same change; it is no text.
            unsafe {
                storage.resume(row).install_update(commit, change.clone(), &mut std::iter::empty(), &pin);
            }
        }
        order.finish(commit, true);
        if self.written >= WRITES_BETWEEN_COLLECTIONS {
            self.written = 0;
            pin.flush();
        }
        Ok(())
    }

    /// Takes the rows in their order, as commits lock them, so that two threads do not wait for each other.
    fn own(&mut self, rows: impl Iterator<Item = RowId>, pin: &Guard) {
        let storage = Storage::of(&self.installs.table);
        self.rows.clear();
        self.rows.extend(rows);
        self.rows.sort_unstable();
        self.rows.dedup();
        for row in &self.rows {
            storage.block(row.block()).prefetch(row.offset(), ColumnSet::of(&[0]), pin);
        }
        let own = |row: &RowId| loop {
            match storage.try_own(*row) {
                Some(row) => {
                    assert!(row.header().exists(), "rows that are changed have been loaded");
                    return row.keep();
                }
                None => std::hint::spin_loop(),
            }
        };
        self.owned.extend(self.rows.iter().map(own));
    }

    fn refresh_in_use(&mut self) {
        if self.age == 0 {
            let manager = &self.installs.manager;
            manager.readers().in_use(manager.watermark(), &mut self.in_use);
            self.age = IN_USE_AGE_MAX;
        }
        self.age -= 1;
    }

    /// Gives all rows up, the first ones of which have been saved.
    fn take_back(&mut self, saved: usize, pin: &Guard) {
        let storage = Storage::of(&self.installs.table);
        for (place, row) in self.owned.drain(..).enumerate() {
            let row = storage.resume(row);
            if place < saved {
                // SAFETY: saved, with a change that has no strings.
                unsafe { row.take_back(std::iter::empty(), &mut std::iter::empty(), pin) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_base::BlockNumber;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn loaded(rows: u64) -> Installs {
        let installs = Installs::new();
        installs.loader().insert(0..rows).expect("there is memory");
        installs
    }

    fn words(snapshot: &Snapshot, installs: &Installs) -> Vec<u64> {
        let image =
            snapshot.read_block(&installs.table, BlockNumber(0), &[0]).expect("lending needs nothing");
        image.columns[0].words()[..image.rows].to_vec()
    }

    #[test]
    fn snapshots_see_whole_commits_and_keep_what_they_have_seen() {
        let installs = loaded(1_000);
        let before = installs.snapshot();
        let mut installer = installs.installer();
        for word in 1..100u64 {
            let rows = (0..10).map(|row| RowId::new(BlockNumber(0), (word as usize * 7 + row * 3) % 1_000));
            installer.install(rows, word * 1_000).expect("there is memory");
        }
        let after = installs.snapshot();
        assert_eq!(words(&before, &installs), (0..1_000).collect::<Vec<u64>>());
        assert_eq!(words(&after, &installs).iter().filter(|word| **word == 99_000).count(), 10);
        drop((before, after));
        assert!(installs.table.version_bytes(&crossbeam_epoch::pin()) > 0);
        installs.sweep();
        assert_eq!(installs.table.version_bytes(&crossbeam_epoch::pin()), 0);
    }

    /// The commits of two threads always change the same rows; no snapshot sees them differ. Commits are about as long as
    /// snapshots are apart, so that a commit that became visible too early would be seen in its middle.
    #[test]
    fn commits_are_seen_as_a_whole() {
        let (installs, commits) = (loaded(256), AtomicUsize::new(0));
        let rows = || (0..256).map(|row| RowId::new(BlockNumber(0), row));
        installs.installer().install(rows(), 7).expect("there is memory");
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                let (mut installer, commits) = (installs.installer(), &commits);
                scope.spawn(move || {
                    for word in 0..4_000 {
                        installer.install(rows(), word * 2 + thread).expect("there is memory");
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut halves = 0;
            while commits.load(Ordering::Relaxed) < 8_000 {
                let words = words(&installs.snapshot(), &installs);
                halves += usize::from(words.iter().any(|word| *word != words[0]));
            }
            assert_eq!(halves, 0, "snapshots with a half of a commit");
        });
    }
}
