//! The state that all handles of a database share with its background thread.

use crate::catalog::Catalog;
use crate::checkpoints::{Checkpoints, State};
use crate::configuration::Configuration;
use crate::contention::Contention;
use crate::recovery_report::RecoveryReport;
use crate::snapshot_manager::{SnapshotManager, SnapshotSource};
use ankerdb_base::TableId;
use ankerdb_log::Loss;
use ankerdb_table::{Placement, Table};
use ankerdb_transaction::{Relations, TransactionManager};
use parking_lot::{Mutex, RwLock};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) struct DatabaseState {
    pub configuration: Configuration,
    /// How columns are put into regions, where they are.
    pub placement: Option<Placement>,
    pub manager: Arc<TransactionManager>,
    /// Which procedure goes first.
    pub contention: Contention,
    pub catalog: RwLock<Arc<Catalog>>,
    /// The catalog's version.
    pub version: AtomicU64,
    /// The last version that a catalog got, and the last number by which gates are closed.
    pub numbers: AtomicU64,
    /// Which queries read a snapshot together.
    pub snapshots: SnapshotManager,
    /// Definitions change one at a time.
    pub defining: Mutex<()>,
    /// Of a database that is kept in a folder.
    pub checkpoints: OnceLock<Checkpoints>,
    /// What it took to open it, if it is kept in a folder.
    pub recovery: OnceLock<RecoveryReport>,
    /// What of its log was given up when it was opened.
    pub loss: OnceLock<Loss>,
    /// Whether that reaches into what the checkpoint has.
    pub splits_commits: AtomicBool,
}

impl Drop for DatabaseState {
    fn drop(&mut self) {
        // While the manager is there, whose watermark the log follows. Nobody is left who could be told.
        let _ = self.manager.close_log();
    }
}

impl Relations for DatabaseState {
    fn relation(&self, origin: TableId) -> Option<Arc<Table>> {
        self.catalog.read().by_origin(origin)
    }
}

impl DatabaseState {
    /// What checkpoints are made of.
    pub(crate) fn to_write(&self) -> State<'_> {
        State { manager: &self.manager, catalog: &self.catalog, numbers: &self.numbers }
    }

    /// What snapshots are taken of.
    pub(crate) fn to_read(&self) -> SnapshotSource<'_> {
        let DatabaseState { configuration, manager, catalog, version, .. } = self;
        SnapshotSource { configuration: *configuration, manager, catalog, version }
    }

    /// The tables as they are now.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.catalog.read().tables().cloned().collect()
    }

    /// A number that nothing else of this database has.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Nothing new gets this number, or one below.
    pub(crate) fn leave_number(&self, number: u64) {
        self.numbers.fetch_max(number, Ordering::Relaxed);
    }

    /// A version that no catalog has had.
    pub(crate) fn next_version(&self) -> u64 {
        self.next_number()
    }

    /// A number by which no one else closes gates.
    pub(crate) fn next_closer(&self) -> NonZeroU64 {
        NonZeroU64::new(self.next_number()).expect("numbers begin at one")
    }

    /// Makes a catalog everybody's. The caller has its turn.
    pub(crate) fn publish(&self, catalog: Arc<Catalog>) {
        let version = catalog.version();
        *self.catalog.write() = catalog;
        self.version.store(version, Ordering::Release);
    }

    /// Gives the catalog another version, so that everything is planned anew.
    pub(crate) fn renew(&self) {
        let mut catalog = self.catalog.write();
        let version = self.next_version();
        *catalog = Arc::new(Catalog { version, ..(**catalog).clone() });
        self.version.store(version, Ordering::Release);
    }
}
