//! A database, and how transactions are run in it.

use crate::connection::{Connection, ConnectionPool, Lease};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::table::Table;
use crate::transaction::{RollbackCause, Transaction, WriteMode};
use ankerdb_engine::{IndexDefinition, Isolation, TableDefinition};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A database in memory, which may be kept in a folder, too. Clones are handles to the same one: cheap, and good for all threads at once. The data is
/// freed with the last handle, snapshot, statement and iterator.
///
/// There are no connections to manage: each call takes a session from a pool and gives it back, so that any number of
/// threads can use one `Database` without waiting for each other. What belongs together is a
/// [transaction](Database::transaction).
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<ConnectionPool>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let catalog = self.shared.engine.catalog();
        let tables: Vec<&str> = catalog.tables().map(|table| table.name()).collect();
        f.debug_struct("Database").field("tables", &tables).finish_non_exhaustive()
    }
}

impl Database {
    /// An empty database with the usual [options](Options::new).
    ///
    /// # Errors
    /// Those of [`with`](Self::with); none on a Linux machine.
    pub fn in_memory() -> Result<Database> {
        Database::with(Options::new())
    }

    /// The database that is kept in a folder, or a new one there. What a transaction has committed is on disk when its call returns.
    ///
    /// # Errors
    /// Those of [`with`](Self::with).
    ///
    /// ```
    /// # use ankerdb::Database;
    /// # let folder = std::env::temp_dir().join(format!("ankerdb-doc-{}", std::process::id()));
    /// let db = Database::open(&folder)?;
    /// # #[cfg(feature = "sql")] {
    /// db.execute("CREATE TABLE note (id int PRIMARY KEY, text text)", ())?;
    /// db.execute("INSERT INTO note VALUES (1, 'still there')", ())?;
    /// drop(db);
    ///
    /// let db = Database::open(&folder)?;
    /// assert_eq!(db.query_one("SELECT text FROM note", ())?.get::<String>(0)?, "still there");
    /// # }
    /// # #[cfg(not(feature = "sql"))]
    /// # drop(db);
    /// # std::fs::remove_dir_all(&folder).expect("it is ours");
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    pub fn open(folder: impl Into<PathBuf>) -> Result<Database> {
        Database::with(Options::new().data_dir(folder))
    }

    /// A database: an empty one, or that of the [folder](Options::data_dir) that the options name.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a memory limit that is too small to work with; `FeatureNotSupported` for a
    /// configuration that this machine cannot run. Of a folder: `ObjectInUse` if another process is at work there; `DataCorrupted` if
    /// something in it is damaged or missing; `DiskFull`, `InsufficientPrivilege` and `IoError`.
    pub fn with(options: Options) -> Result<Database> {
        Ok(Database { shared: Arc::new(ConnectionPool::new(options)?) })
    }

    /// Writes what is committed, and on disk, into a file that is not there yet, while everything goes on; the folder that
    /// [`restore`](Self::restore) makes of it can be opened. Returns the file's length. The [engine](Self::engine) can do so at a lower rate, be
    /// told to end, and leave out what an earlier backup has.
    ///
    /// # Errors
    /// `ObjectNotInPrerequisiteState` if the database is kept in no folder; `DuplicateFile`; `ObjectInUse` if another backup is being made;
    /// `DataCorrupted` if the folder is damaged; `DiskFull`, `InsufficientPrivilege` and `IoError`. There is no file then.
    ///
    /// ```
    /// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
    /// # let folder = std::env::temp_dir().join(format!("ankerdb-doc-backup-{}", std::process::id()));
    /// let db = Database::open(folder.join("data"))?;
    /// let note = TableDefinition::new("note").column(ColumnDefinition::new("id", DataType::Integer));
    /// db.create_table(note.primary_key(&["id"]))?;
    /// db.backup(folder.join("monday.backup"))?;
    /// db.drop_table("note")?;
    ///
    /// Database::restore(folder.join("monday.backup"), folder.join("copy"))?;
    /// assert!(Database::open(folder.join("copy"))?.table("note").is_ok());
    /// # drop(db);
    /// # std::fs::remove_dir_all(&folder).expect("it is ours");
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    pub fn backup(&self, file: impl AsRef<Path>) -> Result<u64> {
        let new = ankerdb_engine::NewBackup { file: file.as_ref(), since: None };
        Ok(self.shared.engine.backup(&new, None, &|| Ok(()))?.bytes)
    }

    /// Makes a folder, which must be empty or not there, of a [backup](Self::backup). The [engine](Self::engine)'s `restore` does so with incremental
    /// backups, and up to a moment.
    ///
    /// # Errors
    /// `DataCorrupted` if the backup is damaged, `FeatureNotSupported` if it is of a newer version, `ObjectNotInPrerequisiteState` if the folder is not
    /// empty; `DiskFull`, `InsufficientPrivilege` and `IoError`. The folder cannot be opened then.
    pub fn restore(file: impl AsRef<Path>, folder: impl AsRef<Path>) -> Result<()> {
        let backups = [file.as_ref()];
        let what = ankerdb_engine::Restored { backups: &backups, log: None, until: None };
        ankerdb_engine::Database::restore(&what, folder.as_ref(), &|_, _| {})?;
        Ok(())
    }

    /// The engine below, for [procedures](crate::procedure) that encode their own keys.
    pub fn engine(&self) -> &ankerdb_engine::Database {
        &self.shared.engine
    }

    /// Makes a table from a definition: what CREATE TABLE does.
    ///
    /// # Errors
    /// `DuplicateTable` if the name, or an index's name, is taken; `InvalidTableDefinition` and `DuplicateColumn` if the
    /// definition is malformed.
    pub fn create_table(&self, definition: TableDefinition) -> Result<Table> {
        Ok(Table(self.shared.engine.create_table(definition)?))
    }

    /// Removes a table. Transactions and snapshots that use it keep it until they end.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.shared.engine.drop_table(name)?;
        self.shared.forget_idle();
        Ok(())
    }

    /// Adds an index to a table, and fills it from the rows there are while transactions go on.
    ///
    /// # Errors
    /// `UndefinedTable`, `DuplicateTable`; `UniqueViolation` if the index is unique and two rows share a key, and
    /// `OutOfMemory`, in which cases nothing remains of it.
    pub fn create_index(&self, table: &str, definition: IndexDefinition) -> Result<()> {
        Ok(self.shared.engine.create_index(table, definition)?)
    }

    /// Removes an index.
    ///
    /// # Errors
    /// `UndefinedObject`; `FeatureNotSupported` for that of a primary key.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        Ok(self.shared.engine.drop_index(name)?)
    }

    /// A table's columns and indexes, looked up once.
    ///
    /// # Errors
    /// `UndefinedTable`.
    pub fn table(&self, name: &str) -> Result<Table> {
        Ok(Table(self.shared.engine.catalog().table(name)?))
    }

    /// The tables there are, by name.
    pub fn tables(&self) -> Vec<Table> {
        self.shared.engine.catalog().tables().map(|table| Table(table.clone())).collect()
    }

    /// Runs a closure in a transaction and commits it; runs it again from the start after conflicts with others (40001,
    /// 40P01). So the closure may run several times, and its effects outside of the database must allow for that.
    ///
    /// Errors that call for another try are never returned; any other error of the closure rolls back and is returned.
    /// A panic rolls back as well, and goes on.
    ///
    /// The transaction is SERIALIZABLE unless the [options](Options::isolation) say something else. It locks no rows;
    /// keys of new rows are checked when it commits, so `UniqueViolation` comes from here rather than from the
    /// insertion.
    ///
    /// Taking a session and giving it back costs some 150 instructions.
    ///
    /// # Errors
    /// The closure's, and those of the commit: `UniqueViolation`, `OutOfMemory`, `QueryCanceled`. An SQL statement's
    /// error, too, if the closure has swallowed it.
    ///
    /// ```
    /// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
    /// # let db = Database::in_memory()?;
    /// # let definition = TableDefinition::new("account")
    /// #     .column(ColumnDefinition::new("id", DataType::Integer))
    /// #     .column(ColumnDefinition::new("balance", DataType::BigInt))
    /// #     .primary_key(&["id"]);
    /// # db.create_table(definition)?;
    /// # db.transaction(|tx| [(1, 100), (2, 0)].into_iter().try_for_each(|row| tx.table("account")?.insert(row)))?;
    /// let moved = db.transaction(|tx| {
    ///     let account = tx.table("account")?;
    ///     let (Some(from), Some(to)) = (account.get(1)?, account.get(2)?) else { return Ok(false) };
    ///     let amount = 25;
    ///     from.update([("balance", from.get::<i64>("balance")? - amount)])?;
    ///     to.update([("balance", to.get::<i64>("balance")? + amount)])?;
    ///     Ok(true)
    /// })?;
    /// assert!(moved);
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    #[inline]
    pub fn transaction<T>(&self, body: impl FnMut(&Transaction<'_>) -> Result<T>) -> Result<T> {
        self.transaction_with(self.shared.options.default_isolation(), body)
    }

    /// Runs a closure like [`transaction`](Self::transaction), at this isolation level.
    ///
    /// # Errors
    /// Those of [`transaction`](Self::transaction).
    #[inline]
    pub fn transaction_with<T>(
        &self,
        isolation: Isolation,
        body: impl FnMut(&Transaction<'_>) -> Result<T>,
    ) -> Result<T> {
        self.try_transaction(isolation, body)
    }

    /// Runs a closure like [`transaction_with`](Self::transaction_with), with an error type of its own.
    ///
    /// # Errors
    /// Those of [`transaction`](Self::transaction).
    ///
    /// ```
    /// use ankerdb::{Database, Error, Isolation};
    ///
    /// #[derive(Debug)]
    /// enum Refusal {
    ///     NotEnough(i64),
    ///     Database(Error),
    /// }
    ///
    /// impl From<Error> for Refusal {
    ///     fn from(error: Error) -> Refusal {
    ///         Refusal::Database(error)
    ///     }
    /// }
    ///
    /// # let db = Database::in_memory()?;
    /// let refused = db.try_transaction(Isolation::Serializable, |tx| {
    ///     let balance = 5;
    ///     if balance < 10 { Err(Refusal::NotEnough(balance)) } else { Ok(()) }
    /// });
    /// assert!(matches!(refused, Err(Refusal::NotEnough(5))));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn try_transaction<T, E: From<Error>>(
        &self,
        isolation: Isolation,
        mut body: impl FnMut(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let shared = &*self.shared;
        let mut lease = Lease::take(shared);
        let Connection { session, sql, alarm, key } = &mut *lease;
        let mut refusal = None;
        let outcome = session.run(isolation, |engine| {
            let transaction = Transaction::procedure(shared, engine, (&mut *sql, alarm), &mut *key);
            let outcome = body(&transaction);
            match (transaction.into_failure(), outcome) {
                (Some(RollbackCause::Conflict(error)), _)
                | (Some(RollbackCause::Statement(error)), Ok(_)) => Err(error),
                (None, Ok(value)) => Ok(value),
                (_, Err(error)) => {
                    refusal = Some(error);
                    Err(ankerdb_engine::Error::internal("the closure has returned an error"))
                }
            }
        });
        match (outcome, refusal) {
            (Err(_), Some(refusal)) => Err(refusal),
            (outcome, _) => outcome.map_err(|error| E::from(Error::from(error))),
        }
    }

    /// Begins a transaction that lasts until it is committed, rolled back or dropped: for programs that wait for a user
    /// between two statements. It locks the rows that it writes, so keep it short, and prefer
    /// [`transaction`](Self::transaction), which locks none.
    ///
    /// # Errors
    /// None yet.
    ///
    /// ```
    /// # use ankerdb::{ColumnDefinition, DataType, Database, TableDefinition};
    /// # let db = Database::in_memory()?;
    /// # db.create_table(TableDefinition::new("note").column(ColumnDefinition::new("text", DataType::Text)))?;
    /// let tx = db.begin()?;
    /// tx.table("note")?.insert("first")?;
    /// tx.commit()?;
    ///
    /// let tx = db.begin()?;
    /// tx.table("note")?.insert("second")?;
    /// drop(tx);                                   // rolls back
    /// assert_eq!(db.transaction(|tx| tx.table("note")?.scan().count())?, 1);
    /// # Ok::<(), ankerdb::Error>(())
    /// ```
    pub fn begin(&self) -> Result<Transaction<'_>> {
        self.begin_with(self.shared.options.default_isolation())
    }

    /// Begins a transaction like [`begin`](Self::begin), at this isolation level.
    ///
    /// # Errors
    /// Those of [`begin`](Self::begin).
    pub fn begin_with(&self, isolation: Isolation) -> Result<Transaction<'_>> {
        let mut lease = Lease::take(&*self.shared);
        let engine = lease.session.begin(isolation);
        Ok(Transaction::own(lease, WriteMode::Interactive, engine))
    }

    /// A handle that ends what runs in this database, from any thread.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle { shared: Arc::downgrade(&self.shared) }
    }
}

/// Ends statements and transactions from another thread: of [`Database::interrupt_handle`]. Does not keep the database.
#[derive(Clone)]
pub struct InterruptHandle {
    shared: std::sync::Weak<ConnectionPool>,
}

impl InterruptHandle {
    /// Ends all statements, transactions and iterators that run now: they fail with `QueryCanceled` (57014) within
    /// milliseconds. Those that begin later run.
    pub fn interrupt(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.interrupt_all();
        }
    }
}

impl fmt::Debug for InterruptHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterruptHandle").finish_non_exhaustive()
    }
}
