//! The pool of sessions that a database lends to its callers.
//!
//! A [`Database`](crate::Database) is used by many threads at once, and a session by one at a time. So each call takes a
//! *connection* (a session of the engine, and one of SQL as soon as it is needed) from the pool, and gives it back:
//!
//! ```text
//! db.transaction(...)   takes ── runs, again after conflicts ── gives back
//! db.query(...)         takes ── runs ── rows are read ........ gives back at the end, or when the rows are dropped
//! db.begin()            takes ── statements ................... gives back with the transaction
//! ```
//!
//! If there is none, one is made, so no caller ever waits for a connection. They lie on several shelves, and each thread
//! uses its own, which is nearly always free. After a panic a connection is given back like any other: its transaction was
//! rolled back on the way.

use crate::error::Result;
use crate::options::Options;
use ankerdb_engine::{Cause, Database, Interrupt, Session};
#[cfg(feature = "sql")]
use ankerdb_sql::{CancelHandle, SqlEngine, SqlOptions, SqlSession};
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Shelves of a pool; a power of two.
const SHELVES: usize = 16;
/// Idle connections on one shelf; more are dropped.
const IDLE_MAX: usize = 16;

/// A session of SQL, once there is one.
#[cfg(feature = "sql")]
pub(crate) type SqlSlot = Option<Box<SqlSession>>;
/// Nothing, without SQL.
#[cfg(not(feature = "sql"))]
#[derive(Default)]
pub(crate) struct SqlSlot;

/// What one caller uses at a time.
pub(crate) struct Connection {
    pub session: Session,
    pub sql: SqlSlot,
    pub alarm: Arc<Alarm>,
    /// Memory for keys, kept from one procedure to the next.
    pub key: Vec<u8>,
}

/// What ends the work of a connection.
pub(crate) struct Alarm {
    pub interrupt: Interrupt,
    /// Ends tasks that wait for a query.
    #[cfg(feature = "sql")]
    pub cancel: CancelHandle,
}

impl Alarm {
    #[cfg(feature = "sql")]
    fn new() -> Alarm {
        let interrupt = Interrupt::new();
        Alarm { cancel: CancelHandle::of(interrupt.clone()), interrupt }
    }

    #[cfg(not(feature = "sql"))]
    fn new() -> Alarm {
        Alarm { interrupt: Interrupt::new() }
    }

    fn raise(&self) {
        #[cfg(feature = "sql")]
        self.cancel.cancel();
        self.interrupt.raise(Cause::Request);
    }
}

/// What all handles of a database share.
pub(crate) struct ConnectionPool {
    pub engine: Database,
    pub options: Options,
    #[allow(
        clippy::vec_box,
        reason = "a connection is large, with SQL at least, and changes hands under a lock"
    )]
    shelves: [CachePadded<Mutex<Vec<Box<Connection>>>>; SHELVES],
    alarms: Mutex<Vec<Weak<Alarm>>>,
    #[cfg(feature = "sql")]
    sql: std::sync::OnceLock<SqlEngine>,
    #[cfg(feature = "sql")]
    starting: Mutex<()>,
}

impl ConnectionPool {
    pub(crate) fn new(options: Options) -> Result<ConnectionPool> {
        Ok(ConnectionPool {
            engine: options.open()?,
            options,
            shelves: Default::default(),
            alarms: Mutex::default(),
            #[cfg(feature = "sql")]
            sql: std::sync::OnceLock::new(),
            #[cfg(feature = "sql")]
            starting: Mutex::new(()),
        })
    }

    #[allow(clippy::vec_box, reason = "as they lie there")]
    fn shelf(&self) -> &Mutex<Vec<Box<Connection>>> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed));
        // This also works while the thread ends, when it has no number any more.
        let number = NUMBER.try_with(|number| *number).unwrap_or(0);
        &self.shelves[number % SHELVES]
    }

    #[cold]
    fn connect(&self) -> Box<Connection> {
        let alarm = Arc::new(Alarm::new());
        let mut session = self.engine.session();
        session.set_interrupt(alarm.interrupt.clone());
        session.set_lock_timeout(self.options.lock_timeout);
        let mut alarms = self.alarms.lock();
        alarms.retain(|alarm| alarm.strong_count() > 0);
        alarms.push(Arc::downgrade(&alarm));
        Box::new(Connection { session, sql: Default::default(), alarm, key: Vec::new() })
    }

    /// Ends what runs now, with 57014.
    pub(crate) fn interrupt_all(&self) {
        for alarm in self.alarms.lock().iter().filter_map(Weak::upgrade) {
            alarm.raise();
        }
    }

    /// Drops idle connections, and with them the tables that they cache: for when a table was dropped.
    pub(crate) fn forget_idle(&self) {
        for shelf in &self.shelves {
            let idle = std::mem::take(&mut *shelf.lock());
            drop(idle);
        }
    }

    /// SQL over the database. The analytical threads start with the first call.
    #[cfg(feature = "sql")]
    pub(crate) fn sql(&self) -> Result<&SqlEngine> {
        if let Some(engine) = self.sql.get() {
            return Ok(engine);
        }
        let _one_at_a_time = self.starting.lock();
        if let Some(engine) = self.sql.get() {
            return Ok(engine);
        }
        let options =
            SqlOptions { olap_threads: self.options.threads, memory_limit_bytes: self.options.query_bytes() };
        let engine = SqlEngine::new(self.engine.clone(), options)?;
        Ok(self.sql.get_or_init(|| engine))
    }

    /// The SQL session of a connection, made now if there is none yet.
    #[cfg(feature = "sql")]
    pub(crate) fn sql_session<'s>(&self, slot: &'s mut SqlSlot, alarm: &Alarm) -> Result<&'s mut SqlSession> {
        match slot {
            Some(session) => Ok(session),
            None => {
                let mut session = self.sql()?.session_with(alarm.cancel.clone());
                session.set_default_isolation(self.options.default_isolation());
                session.set_limits(self.options.statement_timeout, self.options.lock_timeout)?;
                Ok(slot.insert(Box::new(session)))
            }
        }
    }
}

/// A connection that is lent to a caller.
pub(crate) struct Lease<S: Deref<Target = ConnectionPool>> {
    shared: S,
    /// `None` only while it is being dropped.
    connection: Option<Box<Connection>>,
}

impl<S: Deref<Target = ConnectionPool>> Lease<S> {
    /// Takes a connection. Interrupts of its former user are forgotten.
    pub(crate) fn take(shared: S) -> Lease<S> {
        let idle = shared.shelf().lock().pop();
        let connection = idle.unwrap_or_else(|| shared.connect());
        if connection.alarm.interrupt.is_raised() {
            connection.alarm.interrupt.clear();
        }
        Lease { shared, connection: Some(connection) }
    }

    pub(crate) fn shared(&self) -> &S {
        &self.shared
    }

    /// This connection, with another reference to the shared state.
    #[cfg(feature = "sql")]
    pub(crate) fn shared_by<O: Deref<Target = ConnectionPool>>(mut self, shared: O) -> Lease<O> {
        Lease { shared, connection: self.connection.take() }
    }
}

impl<S: Deref<Target = ConnectionPool>> Deref for Lease<S> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("there until it is dropped")
    }
}

impl<S: Deref<Target = ConnectionPool>> DerefMut for Lease<S> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("there until it is dropped")
    }
}

impl<S: Deref<Target = ConnectionPool>> Drop for Lease<S> {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let mut shelf = self.shared.shelf().lock();
        if shelf.len() < IDLE_MAX {
            shelf.push(connection);
        } else {
            drop(shelf);
            drop(connection);
        }
    }
}
