//! Noticing a client that hangs up while its statement runs.
//!
//! A connection's thread that runs a statement does not look at its socket. One thread looks at all of them: it sleeps
//! until some client closes its end, and then ends that session: what it runs and all that it would run after that.
//!
//! A client that closes only its sending side and waits for results counts as gone, too: the two cannot be told
//! apart without sending.

use ankerdb_base::{Error, Result};
use ankerdb_socket::{ClosedWatch, Stream};
use ankerdb_sql::{CancelHandle, Cause};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The watch over all connections; its thread ends when this is dropped.
pub(crate) struct Hangups(Arc<Watched>);

struct Watched {
    sockets: ClosedWatch,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    next: u64,
    by_number: HashMap<u64, CancelHandle>,
}

/// The watch over one connection; ends when dropped.
pub(crate) struct HangupWatch {
    watched: Arc<Watched>,
    stream: Arc<Stream>,
    number: u64,
}

impl Hangups {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives no thread or no descriptors.
    pub(crate) fn start() -> Result<Hangups> {
        let cannot = |error| Error::internal(format!("cannot watch for clients that hang up: {error}"));
        let sockets = ClosedWatch::new().map_err(cannot)?;
        let watched = Arc::new(Watched { sockets, sessions: Mutex::default() });
        let thread = watched.clone();
        let named = std::thread::Builder::new().name("hangups".to_owned());
        named.spawn(move || thread.watch()).map_err(cannot)?;
        Ok(Hangups(watched))
    }

    /// Ends the session once its client has closed its end.
    ///
    /// # Errors
    /// If the system has no memory for one more.
    pub(crate) fn watch(&self, stream: Arc<Stream>, cancel: CancelHandle) -> Result<HangupWatch> {
        let mut sessions = self.0.sessions.lock();
        let number = sessions.next;
        sessions.next += 1;
        self.0
            .sockets
            .add(&*stream, number)
            .map_err(|error| Error::internal(format!("cannot watch a connection: {error}")))?;
        sessions.by_number.insert(number, cancel);
        Ok(HangupWatch { watched: self.0.clone(), stream, number })
    }
}

impl Drop for Hangups {
    fn drop(&mut self) {
        self.0.sockets.ring();
    }
}

impl Drop for HangupWatch {
    fn drop(&mut self) {
        // It is there: the socket is open as long as this holds it.
        let _ = self.watched.sockets.remove(&*self.stream);
        self.watched.sessions.lock().by_number.remove(&self.number);
    }
}

impl Watched {
    fn watch(&self) {
        let mut closed = Vec::new();
        while self.sockets.wait(&mut closed) {
            let sessions = self.sessions.lock();
            // One may have ended by itself meanwhile.
            for cancel in closed.iter().filter_map(|number| sessions.by_number.get(number)) {
                cancel.raise(Cause::Disconnected);
            }
        }
    }
}
