//! Accepting connections, and ending all of them.

use crate::connection::{Client, ServerState, Sessions, turn_away};
use crate::hangup::Hangups;
use crate::idle::IdleConnections;
use crate::workers::Workers;
use ankerdb_base::{Error, Result};
use ankerdb_socket::stop_accepting;
use ankerdb_sql::SqlEngine;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
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
    /// Sessions at the same time; more are turned away with 53300. Each has a thread while its client is busy.
    pub max_connections: usize,
}

/// A server that is bound to its port.
pub struct Server {
    listener: Arc<TcpListener>,
    local_address: SocketAddr,
    max_connections: usize,
    shared: Arc<ServerState>,
    workers: Arc<Workers>,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct Stopper {
    listener: Arc<TcpListener>,
    shared: Arc<ServerState>,
}

impl Stopper {
    /// Asks the server to end; [`Server::run`] returns when it has.
    pub fn stop(&self) {
        // Statements first: if its socket is shut before a statement knows why, it seems as if the client were gone.
        self.shared.cancels.shut_down();
        self.shared.connections.end();
        // Wakes the thread that accepts. It fails if that has ended already.
        let _ = stop_accepting(&self.listener);
    }
}

impl Server {
    /// Binds the port. Connections are accepted by [`run`](Self::run).
    ///
    /// # Errors
    /// If the address is in use or not a local one, or the system has no thread left.
    pub fn bind(engine: SqlEngine, options: &ServerOptions) -> Result<Server> {
        let cannot = |error| Error::internal(format!("cannot listen on {}: {error}", options.listen));
        let listener = TcpListener::bind(options.listen).map_err(cannot)?;
        let local_address = listener.local_addr().map_err(cannot)?;
        let workers = Arc::<Workers>::default();
        let shared = ServerState {
            engine,
            cancels: Arc::default(),
            connections: Arc::default(),
            hangups: Hangups::start()?,
            idle: IdleConnections::start(workers.clone())?,
            sessions: Sessions::at_most(options.max_connections),
        };
        Ok(Server {
            listener: Arc::new(listener),
            local_address,
            max_connections: options.max_connections,
            shared: Arc::new(shared),
            workers,
        })
    }

    /// The address in use, with the real port.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// What ends the server.
    pub fn stopper(&self) -> Stopper {
        Stopper { listener: self.listener.clone(), shared: self.shared.clone() }
    }

    /// Serves until it is [stopped](Stopper::stop). Then running statements are ended and clients are told; those that do
    /// not read are cut off after a second.
    pub fn run(self) {
        let connections = self.shared.connections.clone();
        while !connections.is_ending() {
            match self.listener.accept() {
                Ok((stream, _)) => self.enter(stream),
                Err(_) if connections.is_ending() => {}
                Err(error) => {
                    eprintln!("cannot accept a connection: {error}");
                    std::thread::sleep(ACCEPT_RETRY);
                }
            }
        }
        if !connections.wait(GRACE) {
            // Those that wait for their clients end here, those that compute with the process.
            connections.cut();
            connections.wait(THREAD_GRACE);
        }
    }

    /// Gives the connection a thread.
    fn enter(&self, stream: TcpStream) {
        let connections = &self.shared.connections;
        let stream = Arc::new(stream);
        let limit = self.max_connections.saturating_add(SPARE_CONNECTIONS);
        let Some(place) = connections.enter(stream.clone(), limit) else {
            return turn_away(stream, connections);
        };
        self.workers.serve(Client::new(stream, self.shared.clone(), place));
    }
}

/// Runs a server until the process is asked to end (ctrl-c or SIGTERM). `on_ready` is told the address as soon as
/// connections are accepted.
///
/// # Errors
/// Those of [`Server::bind`].
pub fn serve_blocking(
    engine: SqlEngine,
    options: &ServerOptions,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let server = Server::bind(engine, options)?;
    let stopper = server.stopper();
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Error::internal(format!("cannot listen for signals: {error}")))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopper.stop();
        }
    });
    on_ready(server.local_address());
    server.run();
    Ok(())
}
