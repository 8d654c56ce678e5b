//! Accepting connections from the port's binding to the end of the process, and ending all of them
//! (docs/design/server-life.md).
//!
//! ```text
//! bind ── Starting ── admit ── Serving ── stop ── Ending ── drop
//!            │                    │                  │
//!       57P03 starting up      sessions     57P03 shutting down
//! ```

use crate::authentication::Password;
use crate::cancel::CancelRegistry;
use crate::connection::{Client, ServerState, Sessions, too_many, turn_away};
use crate::hangup::Hangups;
use crate::idle::IdleConnections;
use crate::socket_file::SocketFile;
use crate::tls::Tls;
use crate::turnstile::{Closed, Turnstile};
use crate::workers::Workers;
use ankerdb_base::{Error, Result};
use ankerdb_socket::{Listener, Stream};
use ankerdb_sql::SqlEngine;
use parking_lot::{Condvar, Mutex};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long statements may take to notice that the server ends, and clients to hear it.
const GRACE: Duration = Duration::from_secs(1);
/// How long threads may then still take, before the process goes on without them: in the middle of a commit, or of
/// planning a statement.
const THREAD_GRACE: Duration = Duration::from_millis(500);
/// Connections beyond one for each session: those that are starting, and those that come to cancel a statement.
const SPARE_CONNECTIONS: usize = 64;
/// Wait after a failed accept (no file descriptors left, for example).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address and port; port 0 lets the system choose one.
    pub listen: SocketAddr,
    /// Where programs on this machine find a socket as well: `.s.PGSQL.` and the port.
    pub socket_folder: Option<PathBuf>,
    /// Sessions at the same time; more are turned away with 53300. Each has a thread while its client is busy.
    pub max_connections: usize,
    /// What clients have to know; `None` lets everybody in who reaches the server.
    pub password: Option<Password>,
    /// Encryption for clients that ask for it; `None` declines it.
    pub tls: Option<Tls>,
}

/// A server that is bound to its port, and answers there until it is dropped.
pub struct Server {
    front: Arc<Front>,
    local_address: SocketAddr,
    socket_file: Option<SocketFile>,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Front>);

/// What the threads that accept work with.
struct Front {
    listeners: Vec<Listener>,
    max_connections: usize,
    password: Option<Password>,
    tls: Option<Tls>,
    workers: Arc<Workers>,
    cancels: Arc<CancelRegistry>,
    turnstile: Turnstile,
    stage: Mutex<Stage>,
    /// Rung when the server is asked to end.
    stopped: Condvar,
    is_closed: AtomicBool,
}

enum Stage {
    Starting,
    Serving(Arc<ServerState>),
    /// With the sessions that there were.
    Ending(Option<Arc<ServerState>>),
}

impl Stopper {
    /// Asks the server to end; [`Server::run`] returns when it has. Whether it had let sessions in before.
    pub fn stop(&self) -> bool {
        let mut stage = self.0.stage.lock();
        let state = match &*stage {
            Stage::Starting => None,
            Stage::Serving(state) => Some(state.clone()),
            Stage::Ending(state) => return state.is_some(),
        };
        if let Some(state) = &state {
            // Statements first: if its socket is shut before a statement knows why, it seems as if the client were gone.
            self.0.cancels.shut_down();
            state.connections.end();
        }
        let served = state.is_some();
        *stage = Stage::Ending(state);
        self.0.stopped.notify_all();
        served
    }
}

impl Server {
    /// Binds the port and the socket's file, and answers there from now on: with 57P03, until the [database is there](Self::admit).
    ///
    /// # Errors
    /// If the address or the file is in use, the address not a local one or the folder not there, or the system has no thread
    /// left.
    pub fn bind(options: &ServerOptions) -> Result<Server> {
        let cannot = |error| Error::internal(format!("cannot listen on {}: {error}", options.listen));
        let listener = TcpListener::bind(options.listen).map_err(cannot)?;
        let local_address = listener.local_addr().map_err(cannot)?;
        let mut listeners = vec![Listener::Tcp(listener)];
        let bound = options.socket_folder.as_deref();
        let bound = bound.map(|folder| SocketFile::bind(folder, local_address.port())).transpose()?;
        let socket_file = bound.map(|(file, listener)| {
            listeners.push(Listener::Unix(listener));
            file
        });
        let workers = Arc::<Workers>::default();
        let cancels = Arc::<CancelRegistry>::default();
        let front = Arc::new(Front {
            listeners,
            max_connections: options.max_connections,
            password: options.password.clone(),
            tls: options.tls.clone(),
            turnstile: Turnstile::new(cancels.clone(), workers.clone(), options.tls.clone()),
            workers,
            cancels,
            stage: Mutex::new(Stage::Starting),
            stopped: Condvar::new(),
            is_closed: AtomicBool::new(false),
        });
        let server = Server { front, local_address, socket_file };
        for place in 0..server.front.listeners.len() {
            let accepting = server.front.clone();
            let thread = std::thread::Builder::new().name("accept".to_owned());
            thread.spawn(move || accepting.accept(&accepting.listeners[place])).map_err(cannot)?;
        }
        Ok(server)
    }

    /// The address in use, with the real port.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// The socket's file, if there is one.
    pub fn socket_path(&self) -> Option<&Path> {
        self.socket_file.as_ref().map(SocketFile::path)
    }

    /// What ends the server.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.front.clone())
    }

    /// Lets sessions in, unless the server was asked to end.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub fn admit(&self, engine: SqlEngine) -> Result<()> {
        let front = &self.front;
        let state = Arc::new(ServerState {
            engine,
            cancels: front.cancels.clone(),
            connections: Arc::default(),
            hangups: Hangups::start()?,
            idle: IdleConnections::start(front.workers.clone())?,
            sessions: Sessions::at_most(front.max_connections),
            password: front.password.clone(),
            tls: front.tls.clone(),
        });
        let mut stage = front.stage.lock();
        if matches!(*stage, Stage::Starting) {
            *stage = Stage::Serving(state);
        }
        Ok(())
    }

    /// Serves until it is [stopped](Stopper::stop). Then running statements are ended and clients are told; those that do
    /// not read are cut off after a second.
    pub fn run(&self) {
        let sessions = {
            let mut stage = self.front.stage.lock();
            loop {
                match &*stage {
                    Stage::Ending(sessions) => break sessions.clone(),
                    _ => self.front.stopped.wait(&mut stage),
                }
            }
        };
        let Some(sessions) = sessions else { return };
        if !sessions.connections.wait(GRACE) {
            // Those that wait for their clients end here, those that compute with the process.
            sessions.connections.cut();
            sessions.connections.wait(THREAD_GRACE);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.front.is_closed.store(true, Ordering::Release);
        self.stopper().stop();
        // Wakes the threads that accept. It fails where one has ended already.
        self.front.listeners.iter().for_each(|listener| drop(listener.stop()));
        self.front.turnstile.cut();
    }
}

impl Front {
    fn accept(&self, listener: &Listener) {
        while !self.is_closed.load(Ordering::Acquire) {
            match listener.accept() {
                Ok(stream) => self.enter(stream),
                Err(_) if self.is_closed.load(Ordering::Acquire) => {}
                Err(error) => {
                    eprintln!("cannot accept a connection: {error}");
                    std::thread::sleep(ACCEPT_RETRY);
                }
            }
        }
    }

    /// Gives the connection a thread.
    fn enter(&self, stream: Stream) {
        let state = match &*self.stage.lock() {
            Stage::Starting => Err(Closed::Starting),
            Stage::Serving(state) => Ok(state.clone()),
            Stage::Ending(_) => Err(Closed::Ending),
        };
        let state = match state {
            Ok(state) => state,
            Err(closed) => return self.turnstile.turn_away(stream, closed),
        };
        let stream = Arc::new(stream);
        let limit = self.max_connections.saturating_add(SPARE_CONNECTIONS);
        let Some(place) = state.connections.enter(stream.clone(), limit) else {
            return turn_away(stream, &state.connections, too_many());
        };
        self.workers.serve(Client::new(stream, state, place));
    }
}
