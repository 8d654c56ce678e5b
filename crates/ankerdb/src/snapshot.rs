//! Reads as of one moment, by any number of threads.

use crate::column::Column;
use crate::connection::{ConnectionPool, Lease};
use crate::database::Database;
use crate::error::Result;
use crate::open_table::{OpenTable, TableRow};
use crate::scan::{OpenIndex, Scan};
use crate::table::{Table, TableName};
use crate::transaction::{Transaction, WriteMode};
use crate::value::FromValue;
use crate::values::Values;
use ankerdb_engine::Timestamp;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;

/// Everything that was committed when it was taken, and nothing else; made by [`Database::snapshot`]. Clones are
/// handles to the same one.
///
/// Several queries of one snapshot are consistent with each other, however long they take and whatever is committed
/// meanwhile. Rows that change are kept in their old state for as long as the snapshot lives, so drop it when it is
/// not needed any more.
///
/// ```
/// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
/// # let db = Database::in_memory()?;
/// # let definition = TableDefinition::new("account").column(ColumnDefinition::new("id", DataType::Integer)).primary_key(&["id"]);
/// # db.create_table(definition)?;
/// db.transaction(|tx| tx.table("account")?.insert(1))?;
/// let snapshot = db.snapshot();
/// db.transaction(|tx| tx.table("account")?.insert(2))?;
///
/// let counts = std::thread::scope(|scope| {
///     let count = || snapshot.table("account")?.scan().count();
///     [scope.spawn(count), scope.spawn(count)].map(|thread| thread.join().unwrap())
/// });
/// for count in counts {
///     assert_eq!(count?, 1);
/// }
/// # Ok::<(), ankerdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    shared: Arc<ConnectionPool>,
    snapshot: ankerdb_engine::Snapshot,
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&self.snapshot.timestamp()).finish()
    }
}

impl Database {
    /// A snapshot of everything committed so far. Costs well under a microsecond at any size: nothing is copied.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { shared: self.shared.clone(), snapshot: self.shared.engine.snapshot() }
    }

    /// A snapshot that may miss what was committed in the last `staleness`, by this program, too: the one that others who allow as much
    /// have, if it is young enough, and with it what has been copied for their queries. The settings of a session have this as
    /// `ankerdb.max_staleness`. Shows the tables of now.
    ///
    /// ```
    /// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
    /// # use std::time::Duration;
    /// # let db = Database::in_memory()?;
    /// # let definition = TableDefinition::new("account").column(ColumnDefinition::new("id", DataType::Integer)).primary_key(&["id"]);
    /// # db.create_table(definition)?;
    /// let [hour, nothing] = [3600, 0].map(Duration::from_secs);
    /// let first = db.snapshot_within(hour);
    /// db.transaction(|tx| tx.table("account")?.insert(1))?;
    ///
    /// assert_eq!(db.snapshot_within(hour).table("account")?.scan().count()?, 0);
    /// assert_eq!(db.snapshot_within(nothing).table("account")?.scan().count()?, 1);
    /// # drop(first);
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    pub fn snapshot_within(&self, staleness: Duration) -> Snapshot {
        let snapshot = self.shared.engine.snapshot_within(staleness, Timestamp::ZERO);
        Snapshot { shared: self.shared.clone(), snapshot }
    }
}

impl Snapshot {
    /// A transaction that reads the snapshot, for one thread: for several tables, or SQL beside tables.
    ///
    /// # Errors
    /// None yet.
    pub fn reader(&self) -> Result<Transaction<'_>> {
        let mut lease = Lease::take(&*self.shared);
        let engine = lease.session.begin_sharing(&self.snapshot)?;
        Ok(Transaction::own(lease, WriteMode::Snapshot, engine))
    }

    /// A table as it was, by its name or by a [`Table`] handle.
    ///
    /// # Errors
    /// `UndefinedTable`, also for a handle of another database.
    pub fn table<'s>(&'s self, table: impl TableName<'s>) -> Result<SnapshotTable<'s>> {
        let table = table.find(&|name| Ok(self.shared.engine.catalog().table(name)?))?;
        table.0.check_is_of(self.shared.engine.id())?;
        Ok(SnapshotTable { reader: self.reader()?, table })
    }

    /// The engine's snapshot, for [procedures](crate::procedure).
    pub fn engine(&self) -> &ankerdb_engine::Snapshot {
        &self.snapshot
    }

    #[cfg(feature = "sql")]
    pub(crate) fn shared(&self) -> &Arc<ConnectionPool> {
        &self.shared
    }
}

/// A table of a snapshot, for one thread; made by [`Snapshot::table`]. It can be read like an [`OpenTable`].
pub struct SnapshotTable<'s> {
    reader: Transaction<'s>,
    table: Table,
}

impl fmt::Debug for SnapshotTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SnapshotTable").field(&self.table.name()).finish()
    }
}

impl<'s> SnapshotTable<'s> {
    /// The table in the snapshot's transaction.
    #[inline]
    fn open(&self) -> OpenTable<'_, 's> {
        OpenTable::new(&self.reader, &self.table.0)
    }

    /// A column, to be read as `T`, found by its name once.
    ///
    /// # Errors
    /// Those of [`Table::column`].
    pub fn column<T: FromValue>(&self, name: &str) -> Result<Column<T>> {
        self.table.column(name)
    }

    /// The row with this primary key.
    ///
    /// # Errors
    /// Those of [`OpenTable::get`].
    pub fn get(&self, key: impl Values) -> Result<Option<TableRow<'_, 's>>> {
        self.open().get(key)
    }

    /// All rows, in no order.
    pub fn scan(&self) -> Scan<'_, 's> {
        self.open().scan()
    }

    /// The rows whose primary keys lie in a range, as [`OpenTable::range`] has it.
    pub fn range<K: Values>(&self, keys: impl RangeBounds<K>) -> Scan<'_, 's> {
        self.open().range(keys)
    }

    /// An index, by its name.
    ///
    /// # Errors
    /// `UndefinedObject`. Scans of an index that is newer than the snapshot fail with `SerializationFailure`.
    pub fn index(&self, name: &str) -> Result<OpenIndex<'_, 's>> {
        self.open().index(name)
    }
}
