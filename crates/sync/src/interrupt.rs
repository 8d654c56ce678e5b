//! Interrupts: how a running statement is asked to end.
//!
//! # Idea
//! To end a statement, its user, its time limit, the end of its connection or the end of the server *raises* a cause,
//! from any thread. The statement checks for it every now and then, which is one load, and ends itself with an error.
//! No statement is ended from outside: it gives up what it holds itself.
//!
//! ```text
//! watcher    raise(cause): cause := max(cause, new) ─── wake the threads that are registered
//! statement  ... check() ... check() ... register, check(), park ───────────┴► check(): Err ─ rolls back
//! ```
//!
//! # Invariants
//! 1. *A cause is not replaced by a weaker one.* They are ordered by what they end: the statement, or the session.
//! 2. *No wake-up is lost.* A sleeper is on the list before it looks at the cause for the last time, and a raiser
//!    stores the cause before it takes the list's mutex.
//! 3. *The next statement is not ended in the place of the last one*: [`Interrupt::clear`] forgets what was meant for a
//!    statement. What ends the session stays.
//!
//! # Memory
//! The loops that check here are those that can be long, and so those that can take much memory. The same check therefore
//! tells them when they have taken more than they may ([`MemoryLimit`]): where an interrupt has a limit, a statement whose
//! thread has taken memory since the last look compares what the process uses with what it may. So does one that was refused
//! memory by the system ([`check_system`]).
//!
//! # What others see of a session
//! The state that a session's threads share is also where they leave what only they know and an operator asks for: what they sleep
//! for ([`Interrupt::waits_for`]) and under which number they hold rows ([`Interrupt::holds_as`]). Both are single stores, made only
//! where a thread is about to sleep or to lock its first row.
//!
//! # Not here
//! No deadlines: a thread that watches the clock raises [`Cause::Timeout`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::thread::{Thread, ThreadId};

use crate::memory_limit::{MemoryLimit, check_system};
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_memory::account;
use parking_lot::Mutex;

/// Why a statement is to end; the stronger ones last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Cause {
    /// Its user asked for it.
    Request = 1,
    /// It has run for as long as it may.
    Timeout,
    /// Its client is gone; so is the session.
    Disconnected,
    /// The server ends, and the session with it.
    Shutdown,
}

impl Cause {
    const ALL: [Cause; 4] = [Cause::Request, Cause::Timeout, Cause::Disconnected, Cause::Shutdown];

    /// What the client is told, in PostgreSQL's words.
    #[cold]
    pub fn error(self) -> Error {
        let (state, message) = match self {
            Cause::Request => (SqlState::QueryCanceled, "canceling statement due to user request"),
            Cause::Timeout => (SqlState::QueryCanceled, "canceling statement due to statement timeout"),
            Cause::Disconnected => (SqlState::ConnectionFailure, "connection to client lost"),
            Cause::Shutdown => {
                (SqlState::AdminShutdown, "terminating connection due to administrator command")
            }
        };
        Error::new(state, message)
    }

    /// Whether the session ends with the statement.
    pub fn ends_session(self) -> bool {
        self >= Cause::Disconnected
    }
}

/// A session's interrupt. Clones are handles to the same one.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// The strongest cause, or 0.
    cause: AtomicU8,
    /// Bytes that the process may take, or 0 for as many as there are.
    memory_limit: AtomicUsize,
    /// Whether the statement takes memory in order to give back more.
    frees: AtomicBool,
    /// What the session sleeps for, or 0.
    waits_for: AtomicU8,
    /// The number under which its transaction holds rows, or held them last; 0 if there was none.
    holds_as: AtomicU64,
    /// Threads to wake when a cause comes.
    sleepers: Mutex<Vec<Thread>>,
}

/// What a session sleeps for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WaitsFor {
    /// A row that another transaction has locked.
    Row = 1,
    /// A table that another transaction redefines.
    Table,
    /// A lock that programs have agreed about.
    Agreement,
    /// A time that it was told.
    Time,
    /// What its client sends.
    Client,
    /// Its client to read what it was sent.
    Reader,
}

impl WaitsFor {
    const ALL: [WaitsFor; 6] = [
        WaitsFor::Row,
        WaitsFor::Table,
        WaitsFor::Agreement,
        WaitsFor::Time,
        WaitsFor::Client,
        WaitsFor::Reader,
    ];
}

impl Interrupt {
    /// One that has not been raised.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Asks the running statement to end, and wakes it if it sleeps. A stronger cause stays.
    pub fn raise(&self, cause: Cause) {
        self.0.cause.fetch_max(cause as u8, Ordering::Release);
        self.0.sleepers.lock().iter().for_each(Thread::unpark);
    }

    /// Sets the limit that statements look at on the way.
    pub fn limit_memory(&self, limit: MemoryLimit) {
        self.0.memory_limit.store(limit.bytes().unwrap_or(0), Ordering::Relaxed);
    }

    fn memory_limit(&self) -> MemoryLimit {
        match self.0.memory_limit.load(Ordering::Relaxed) {
            0 => MemoryLimit::NONE,
            bytes => MemoryLimit::of(bytes),
        }
    }

    /// Says whether the running statement gives memory back (a deletion) and may take more than others to do so. At the
    /// beginning of each statement it does not.
    pub fn set_frees(&self, frees: bool) {
        self.0.frees.store(frees, Ordering::Relaxed);
    }

    /// A new statement begins on this thread: forgets what was meant for the last one.
    pub fn clear(&self) {
        self.set_frees(false);
        account::begin_work();
        let forget = |cause: u8| (cause != 0 && cause < Cause::Disconnected as u8).then_some(0);
        let _ = self.0.cause.fetch_update(Ordering::Acquire, Ordering::Acquire, forget);
    }

    /// Why the statement is to end, if it is.
    pub fn cause(&self) -> Option<Cause> {
        match self.0.cause.load(Ordering::Acquire) {
            0 => None,
            raised => Cause::ALL.into_iter().find(|cause| *cause as u8 == raised),
        }
    }

    /// Whether the statement is to end. One load.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.cause.load(Ordering::Acquire) != 0
    }

    /// The error that ends the statement, if it is to end. One load if not, and two of the thread's own.
    ///
    /// # Errors
    /// `QueryCanceled`, `ConnectionFailure` or `AdminShutdown`, by the cause; `OutOfMemory` if the statement has taken
    /// memory since the last look and is past what it may.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_raised() {
            return self.cause().map_or(Ok(()), |cause| Err(cause.error()));
        }
        check_system()?;
        if account::has_grown() { self.check_memory() } else { Ok(()) }
    }

    #[cold]
    fn check_memory(&self) -> Result<()> {
        self.memory_limit().check_grown(self.0.frees.load(Ordering::Relaxed))
    }

    /// From here until the result is dropped, others see that the session sleeps for this.
    pub fn waits_for(&self, what: WaitsFor) -> Waiting<'_> {
        self.0.waits_for.store(what as u8, Ordering::Relaxed);
        Waiting(self)
    }

    /// What the session sleeps for.
    pub fn waited_for(&self) -> Option<WaitsFor> {
        let waited = self.0.waits_for.load(Ordering::Relaxed);
        WaitsFor::ALL.into_iter().find(|what| *what as u8 == waited)
    }

    /// Notes the number under which the session's transaction is going to hold rows.
    pub fn set_holds_as(&self, owner: u64) {
        self.0.holds_as.store(owner, Ordering::Relaxed);
    }

    /// The number under which the session's transaction holds rows, or has held them last.
    pub fn holds_as(&self) -> Option<u64> {
        Some(self.0.holds_as.load(Ordering::Relaxed)).filter(|owner| *owner != 0)
    }

    /// From here until the result is dropped, this thread is unparked when a cause is raised. To be called before the
    /// last look at the cause and the first [`std::thread::park`].
    pub fn wakes_me(&self) -> Sleeper<'_> {
        let me = std::thread::current();
        let sleeper = Sleeper { interrupt: self, thread: me.id() };
        self.0.sleepers.lock().push(me);
        sleeper
    }
}

/// A session that sleeps for something.
#[derive(Debug)]
pub struct Waiting<'a>(&'a Interrupt);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.0.waits_for.store(0, Ordering::Relaxed);
    }
}

/// A thread that an interrupt wakes.
#[derive(Debug)]
pub struct Sleeper<'a> {
    interrupt: &'a Interrupt,
    thread: ThreadId,
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let mut sleepers = self.interrupt.0.sleepers.lock();
        if let Some(place) = sleepers.iter().position(|thread| thread.id() == self.thread) {
            sleepers.swap_remove(place);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn the_strongest_cause_stays() {
        let interrupt = Interrupt::new();
        assert!(interrupt.check().is_ok() && interrupt.cause().is_none());
        for (raised, seen) in [
            (Cause::Timeout, Cause::Timeout),
            (Cause::Request, Cause::Timeout),
            (Cause::Shutdown, Cause::Shutdown),
            (Cause::Disconnected, Cause::Shutdown),
        ] {
            interrupt.raise(raised);
            assert_eq!(interrupt.clone().cause(), Some(seen));
        }
    }

    #[test]
    fn a_new_statement_forgets_only_what_was_meant_for_the_last_one() {
        for cause in Cause::ALL {
            let interrupt = Interrupt::new();
            interrupt.raise(cause);
            interrupt.clear();
            assert_eq!(interrupt.cause(), cause.ends_session().then_some(cause));
        }
    }

    #[test]
    fn clients_read_the_words_of_postgresql() {
        let told = Cause::ALL.map(|cause| {
            let interrupt = Interrupt::new();
            interrupt.raise(cause);
            let error = interrupt.check().unwrap_err();
            format!("{} {}", error.state().code(), error.message())
        });
        assert_eq!(
            told,
            [
                "57014 canceling statement due to user request",
                "57014 canceling statement due to statement timeout",
                "08006 connection to client lost",
                "57P01 terminating connection due to administrator command",
            ]
        );
    }

    #[test]
    fn what_a_session_waits_for_is_seen_as_long_as_it_does() {
        let interrupt = Interrupt::new();
        assert_eq!((interrupt.waited_for(), interrupt.holds_as()), (None, None));
        for what in WaitsFor::ALL {
            let waiting = interrupt.waits_for(what);
            assert_eq!(interrupt.clone().waited_for(), Some(what));
            drop(waiting);
            assert_eq!(interrupt.waited_for(), None);
        }
        interrupt.set_holds_as(7);
        assert_eq!(interrupt.clone().holds_as(), Some(7));
    }

    #[test]
    fn a_sleeper_is_woken_and_leaves_no_trace() {
        let interrupt = Interrupt::new();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let _registered = interrupt.wakes_me();
                while !interrupt.is_raised() {
                    std::thread::park();
                }
                Instant::now()
            });
            while interrupt.0.sleepers.lock().is_empty() {
                std::thread::yield_now();
            }
            let raised = Instant::now();
            interrupt.raise(Cause::Request);
            assert!(sleeper.join().unwrap() - raised < Duration::from_secs(5));
        });
        assert!(interrupt.0.sleepers.lock().is_empty());
    }
}
