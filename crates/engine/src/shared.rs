//! The state that all handles of a database share with its background thread.

use crate::catalog::Catalog;
use crate::configuration::Configuration;
use crate::contention::Contention;
use ankerdb_table::{Placement, Table};
use ankerdb_transaction::TransactionManager;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

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
    /// Definitions change one at a time.
    pub defining: Mutex<()>,
}

impl DatabaseState {
    /// The tables as they are now.
    pub(crate) fn tables(&self) -> Vec<Arc<Table>> {
        self.catalog.read().tables().cloned().collect()
    }
}
