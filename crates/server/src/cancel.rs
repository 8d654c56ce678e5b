//! Cancel requests: a client that wants its statement ended opens a second connection and shows the key that
//! the first one was given.

use ankerdb_socket::Stream;
use ankerdb_sql::{Backends, CancelHandle, Cause};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// The sessions that may be canceled, by process number (a connection's number here).
#[derive(Default)]
pub(crate) struct CancelRegistry {
    next_process: AtomicI32,
    /// A keyed hash (SipHash with a random key): secrets cannot be computed from the process number.
    secrets: RandomState,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    by_process: HashMap<i32, Registered>,
    /// Whether the server ends.
    ending: bool,
}

struct Registered {
    secret: i32,
    handle: CancelHandle,
    stream: Arc<Stream>,
}

impl Backends for CancelRegistry {
    fn cancel(&self, number: i32) -> bool {
        let sessions = self.sessions.lock();
        sessions.by_process.get(&number).map(|session| session.handle.cancel()).is_some()
    }

    fn terminate(&self, number: i32) -> bool {
        let sessions = self.sessions.lock();
        let Some(session) = sessions.by_process.get(&number) else { return false };
        session.handle.raise(Cause::Shutdown);
        // It may sleep in a read; one that its client has closed meanwhile has nothing to read.
        let _ = session.stream.shutdown(Shutdown::Read);
        true
    }
}

impl CancelRegistry {
    /// Registers a session until the returned entry is dropped. If the server is already ending, the session ends,
    /// too.
    pub(crate) fn register(self: &Arc<Self>, handle: CancelHandle, stream: Arc<Stream>) -> CancelEntry {
        let mut sessions = self.sessions.lock();
        let process = loop {
            let process = self.next_process.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if process != 0 && !sessions.by_process.contains_key(&process) {
                break process;
            }
        };
        let secret = self.secrets.hash_one(process) as i32;
        if sessions.ending {
            handle.raise(Cause::Shutdown);
        }
        sessions.by_process.insert(process, Registered { secret, handle, stream });
        CancelEntry { registry: self.clone(), process, secret }
    }

    /// Cancels what the session runs, if the key is right. Otherwise does nothing, as the protocol demands.
    pub(crate) fn cancel(&self, process: i32, secret: i32) {
        if let Some(session) = self.sessions.lock().by_process.get(&process)
            && session.secret == secret
        {
            session.handle.cancel();
        }
    }

    /// Ends all sessions, including later ones.
    pub(crate) fn shut_down(&self) {
        let mut sessions = self.sessions.lock();
        sessions.ending = true;
        sessions.by_process.values().for_each(|session| session.handle.raise(Cause::Shutdown));
    }
}

/// A registered session and its key.
pub(crate) struct CancelEntry {
    registry: Arc<CancelRegistry>,
    pub process: i32,
    pub secret: i32,
}

impl Drop for CancelEntry {
    fn drop(&mut self) {
        self.registry.sessions.lock().by_process.remove(&self.process);
    }
}
