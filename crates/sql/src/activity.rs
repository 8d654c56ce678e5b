//! What sessions do, for those who look: `pg_stat_activity`, `pg_locks`, `pg_blocking_pids`.
//!
//! ```text
//! session   begins a statement ─ publish(query, time) ······ publish(state, time)     under a mutex of its own
//! looker    list of sessions ─ for each: copy what is shown ─ rows                    one session after the other
//! ```
//! A session that a server has joined publishes twice for each message: when it begins to work and when it waits for its client again.
//! Each time it takes a mutex that nobody else holds, but for a looker that copies a few words. What costs more is left where it
//! is and asked for: whom a transaction waits for is in the table of row locks, what its thread sleeps for in its interrupt. See
//! docs/design/activity.md.
//!
//! Not here: how rows are made of it (`system/live.rs`).

use crate::advisory::AdvisoryLocks;
use crate::compiler_mode::CompilerMode;
use crate::kept_snapshots::KeptSnapshots;
use crate::table_locks::TableLocks;
use ankerdb_engine::{Database, Error, Interrupt, Result, SqlState};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Bytes of a statement's text that are shown, as PostgreSQL's `track_activity_query_size` has it.
const QUERY_BYTES_MAX: usize = 1023;

/// Microseconds since 1970-01-01 UTC.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_secs() as i64 * 1_000_000 + i64::from(since.subsec_micros())
}

/// The other sessions, by their numbers.
pub trait Backends: Send + Sync {
    /// Ends what a session runs; whether there is such a session.
    fn cancel(&self, number: i32) -> bool;
    /// Ends a session; whether there is one.
    fn terminate(&self, number: i32) -> bool;
}

/// The other end of a session.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// The user that the client has named.
    pub user: String,
    /// The client's address.
    pub client: Option<SocketAddr>,
    /// The server's address that the client has connected to.
    pub server: Option<SocketAddr>,
    /// What the connection is encrypted with, if it is.
    pub cipher: Option<Cipher>,
}

/// What a connection is encrypted with, in OpenSSL's names, which PostgreSQL shows.
#[derive(Clone, Debug)]
pub struct Cipher {
    /// The version of TLS, such as `TLSv1.3`.
    pub version: &'static str,
    /// The name, such as `TLS_AES_256_GCM_SHA384`.
    pub name: String,
    /// Bits of the key.
    pub bits: u16,
}

/// A session's place in its server.
pub(crate) struct Joined {
    /// Its number, as cancel requests name it.
    pub number: i32,
    pub peer: Peer,
    /// When it began.
    pub since: i64,
    pub backends: Arc<dyn Backends>,
}

/// What a session is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    Active,
    #[default]
    Idle,
    InTransaction,
    Failed,
}

/// What others see of a session.
#[derive(Clone, Default)]
pub(crate) struct Shown {
    pub state: State,
    /// The statement that runs, or that ran last.
    pub query: Option<Arc<str>>,
    pub application: Arc<str>,
    pub query_start: Option<i64>,
    pub transaction_start: Option<i64>,
    pub state_change: Option<i64>,
}

/// What a session shows to itself alone, as of the beginning of the statement that asks.
#[derive(Default)]
pub(crate) struct Own {
    /// Names, values, and the values that RESET would give.
    pub settings: Vec<(&'static str, String, String)>,
    pub statements: Vec<OwnStatement>,
    pub cursors: Vec<OwnCursor>,
}

/// A prepared statement.
pub(crate) struct OwnStatement {
    pub name: String,
    pub text: Arc<str>,
    pub prepared_at: i64,
    pub parameters: Vec<String>,
    /// Whether PREPARE made it, and not a message of the protocol.
    pub is_of_sql: bool,
}

/// A cursor.
pub(crate) struct OwnCursor {
    pub name: String,
    pub text: Arc<str>,
    pub holds: bool,
    pub is_binary: bool,
    pub scrolls: bool,
    pub declared_at: i64,
}

/// One session.
pub(crate) struct Activity {
    joined: OnceLock<Joined>,
    shown: Mutex<Shown>,
    pub interrupt: Interrupt,
    /// Its number among the owners of advisory locks.
    pub lock_owner: u64,
    pub own: Mutex<Own>,
    /// How its analytical queries run.
    compiler: Mutex<CompilerMode>,
    warnings: Mutex<Vec<Error>>,
    has_warned: AtomicBool,
}

impl Activity {
    pub(crate) fn new(interrupt: Interrupt, lock_owner: u64) -> Activity {
        Activity {
            joined: OnceLock::new(),
            shown: Mutex::default(),
            interrupt,
            lock_owner,
            own: Mutex::default(),
            compiler: Mutex::default(),
            warnings: Mutex::default(),
            has_warned: AtomicBool::new(false),
        }
    }

    /// How its analytical queries run.
    pub(crate) fn compiler(&self) -> CompilerMode {
        *self.compiler.lock()
    }

    /// From now on its analytical queries run like this.
    pub(crate) fn set_compiler(&self, mode: CompilerMode) {
        *self.compiler.lock() = mode;
    }

    /// The session's place in its server; `None` if it has none.
    pub(crate) fn joined(&self) -> Option<&Joined> {
        self.joined.get()
    }

    /// The session's number; 0 if it is of no server.
    pub(crate) fn number(&self) -> i32 {
        self.joined().map_or(0, |joined| joined.number)
    }

    /// A copy of what is shown.
    pub(crate) fn shown(&self) -> Shown {
        self.shown.lock().clone()
    }

    /// Notes something that the session's client is to be told.
    pub(crate) fn warn(&self, warning: Error) {
        self.warnings.lock().push(warning);
        self.has_warned.store(true, Ordering::Release);
    }

    /// What was noted since this was last asked. One load if nothing was.
    pub(crate) fn take_warnings(&self) -> Vec<Error> {
        match self.has_warned.load(Ordering::Acquire) && self.has_warned.swap(false, Ordering::AcqRel) {
            true => std::mem::take(&mut *self.warnings.lock()),
            false => Vec::new(),
        }
    }
}

impl fmt::Debug for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Activity").field("number", &self.number()).finish_non_exhaustive()
    }
}

/// The sessions of a database that servers have joined, by their numbers.
pub(crate) struct Activities {
    sessions: Mutex<BTreeMap<i32, Arc<Activity>>>,
    started: i64,
}

impl Default for Activities {
    fn default() -> Activities {
        Activities { sessions: Mutex::default(), started: now() }
    }
}

impl Activities {
    /// All sessions of now.
    pub(crate) fn all(&self) -> Vec<Arc<Activity>> {
        self.sessions.lock().values().cloned().collect()
    }

    /// The session with this number.
    pub(crate) fn numbered(&self, number: i32) -> Option<Arc<Activity>> {
        self.sessions.lock().get(&number).cloned()
    }

    /// When the engine was started.
    pub(crate) fn started(&self) -> i64 {
        self.started
    }
}

/// What relations and functions of the system catalog see besides definitions.
#[derive(Clone)]
pub(crate) struct Live {
    pub database: Database,
    pub activities: Arc<Activities>,
    pub advisory: Arc<AdvisoryLocks>,
    pub tables: Arc<TableLocks>,
    pub snapshots: Arc<KeptSnapshots>,
    /// The session that asks, if a session does.
    pub session: Option<Arc<Activity>>,
}

impl Live {
    pub(crate) fn of(database: Database) -> Live {
        Live {
            database,
            activities: Arc::default(),
            advisory: Arc::default(),
            tables: Arc::default(),
            snapshots: Arc::default(),
            session: None,
        }
    }

    /// For statements of this session.
    pub(crate) fn to(&self, session: Arc<Activity>) -> Live {
        Live { session: Some(session), ..self.clone() }
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("session", &self.session).finish_non_exhaustive()
    }
}

/// How often a session that waits for the end of another one looks whether it has come.
const LOOK_AROUND: Duration = Duration::from_millis(10);

/// Ends what the numbered session runs, or the session itself; for `pg_cancel_backend` and `pg_terminate_backend`, which warn
/// the session that calls them where there is no such session.
///
/// # Errors
/// That of the interrupt, if it is this session.
pub(crate) fn signal(session: &Activity, number: i32, ends_session: bool) -> Result<bool> {
    let signaled = session.joined().is_some_and(|joined| match ends_session {
        true => joined.backends.terminate(number),
        false => joined.backends.cancel(number),
    });
    if !signaled {
        let message = format!("PID {number} is not a PostgreSQL backend process");
        session.warn(Error::new(SqlState::Warning, message));
    }
    session.interrupt.check()?;
    Ok(signaled)
}

/// Ends the numbered session and waits for that, but not longer than so many milliseconds; whether it is gone.
///
/// # Errors
/// Those of the interrupt, and `NumericValueOutOfRange` for a negative time.
pub(crate) fn terminate_within(
    session: &Activity,
    all: &Activities,
    number: i32,
    limit_ms: i64,
) -> Result<bool> {
    let limit = u64::try_from(limit_ms)
        .map_err(|_| Error::new(SqlState::NumericValueOutOfRange, "\"timeout\" must not be negative"))?;
    let signaled = signal(session, number, true)?;
    if !signaled || limit == 0 {
        return Ok(signaled);
    }
    let until = Instant::now() + Duration::from_millis(limit);
    while all.numbered(number).is_some() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let message = format!("backend with PID {number} did not terminate within {limit} milliseconds");
            session.warn(Error::new(SqlState::Warning, message));
            return Ok(false);
        }
        let _woken = session.interrupt.wakes_me();
        session.interrupt.check()?;
        std::thread::park_timeout(left.min(LOOK_AROUND));
    }
    Ok(true)
}

/// A session's side of its activity.
pub(crate) struct Publisher {
    activity: Arc<Activity>,
    activities: Arc<Activities>,
    /// Where the text lies that is shown as running, which stays there as long as it is shown; 0 if none is, or one of which a part is
    /// shown.
    running: usize,
    /// When the running statement was published; `None` if none is.
    began: Option<i64>,
    /// Whether that is the whole text of a message, which may contain several statements.
    is_message: bool,
}

impl Publisher {
    pub(crate) fn new(activity: Arc<Activity>, activities: Arc<Activities>) -> Publisher {
        Publisher { activity, activities, running: 0, began: None, is_message: false }
    }

    /// From here on others see the session.
    pub(crate) fn join(&self, number: i32, peer: Peer, backends: Arc<dyn Backends>) {
        let since = now();
        self.activity.shown.lock().state_change = Some(since);
        // A session is joined once.
        let _ = self.activity.joined.set(Joined { number, peer, since, backends });
        self.activities.sessions.lock().insert(number, self.activity.clone());
    }

    /// The session is about to run a message of statements.
    pub(crate) fn begin_message(&mut self, sql: &str) {
        if self.activity.joined().is_some() {
            self.publish(beginning(sql).into());
            self.is_message = true;
        }
    }

    /// The session is about to plan or run a statement.
    pub(crate) fn begin(&mut self, sql: &Arc<str>) {
        if self.is_message || self.activity.joined().is_none() {
            return;
        }
        let address = sql.as_ptr().addr();
        if self.running == address {
            return;
        }
        if sql.len() > QUERY_BYTES_MAX {
            // An idle session keeps the text of its last statement, which may have been a large one.
            self.publish(beginning(sql).into());
        } else {
            self.publish(sql.clone());
            self.running = address;
        }
    }

    /// When the running statement began, if the session shows it.
    pub(crate) fn began(&self) -> Option<i64> {
        self.began
    }

    fn publish(&mut self, query: Arc<str>) {
        let now = now();
        (self.running, self.began) = (0, Some(now));
        let mut shown = self.activity.shown.lock();
        if shown.state != State::Active {
            shown.state = State::Active;
            shown.state_change = Some(now);
        }
        shown.query_start = Some(now);
        shown.transaction_start.get_or_insert(now);
        let before = shown.query.replace(query);
        drop(shown);
        drop(before);
    }

    /// The session waits for its client.
    pub(crate) fn rest(&mut self, state: State) {
        (self.running, self.began, self.is_message) = (0, None, false);
        if self.activity.joined().is_none() {
            return;
        }
        let mut shown = self.activity.shown.lock();
        if shown.state != state {
            shown.state = state;
            shown.state_change = Some(now());
        }
        if state == State::Idle {
            shown.transaction_start = None;
        }
    }

    /// The session calls its program by this name.
    pub(crate) fn set_application(&self, name: &str) {
        let mut shown = self.activity.shown.lock();
        if *shown.application != *name {
            shown.application = name.into();
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if let Some(joined) = self.activity.joined() {
            self.activities.sessions.lock().remove(&joined.number);
        }
    }
}

/// As much of a text as is shown.
fn beginning(sql: &str) -> &str {
    &sql[..sql.floor_char_boundary(QUERY_BYTES_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Backends for Nobody {
        fn cancel(&self, _: i32) -> bool {
            false
        }

        fn terminate(&self, _: i32) -> bool {
            false
        }
    }

    #[test]
    fn a_session_shows_what_it_does_from_joining_to_its_end() {
        let activities = Arc::new(Activities::default());
        let activity = Arc::new(Activity::new(Interrupt::new(), 1));
        let mut publisher = Publisher::new(activity.clone(), activities.clone());
        let sql: Arc<str> = "SELECT 1".into();
        publisher.begin(&sql);
        assert!(activities.all().is_empty() && activity.shown().query.is_none());
        publisher.join(5, Peer::default(), Arc::new(Nobody));
        publisher.begin(&sql);
        let shown = activities.numbered(5).unwrap().shown();
        assert!(shown.state == State::Active && shown.query.as_deref() == Some("SELECT 1"));
        assert!(shown.query_start.is_some() && shown.transaction_start == shown.query_start);
        publisher.rest(State::InTransaction);
        assert_eq!(activity.shown().transaction_start, shown.transaction_start);
        publisher.rest(State::Idle);
        let shown = activity.shown();
        assert!(shown.transaction_start.is_none() && shown.query.as_deref() == Some("SELECT 1"));
        drop(publisher);
        assert!(activities.all().is_empty());
    }

    #[test]
    fn a_long_statement_is_shown_in_part_and_not_kept() {
        let activities = Arc::new(Activities::default());
        let activity = Arc::new(Activity::new(Interrupt::new(), 1));
        let mut publisher = Publisher::new(activity.clone(), activities);
        publisher.join(1, Peer::default(), Arc::new(Nobody));
        let sql: Arc<str> = "ü".repeat(1000).into();
        publisher.begin(&sql);
        publisher.rest(State::Idle);
        assert_eq!(activity.shown().query.map(|query| query.len()), Some(1022));
        assert_eq!(Arc::strong_count(&sql), 1);
    }

    #[test]
    fn warnings_are_taken_once() {
        let activity = Activity::new(Interrupt::new(), 1);
        assert!(activity.take_warnings().is_empty());
        activity.warn(Error::internal("a"));
        assert_eq!(activity.take_warnings().len(), 1);
        assert!(activity.take_warnings().is_empty());
    }
}
