//! Accepting connections, and ending them all.

use crate::cancel::CancelRegistry;
use crate::connection::{Shared, serve};
use ankerdb_base::{Error, Result};
use ankerdb_sql::SqlEngine;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// How long statements may take to notice that the server ends, and clients to hear it.
const GRACE: Duration = Duration::from_secs(1);
/// How long threads may then still take, before the process goes on without them: in the middle of a commit, or of
/// planning a statement.
const THREAD_GRACE: Duration = Duration::from_millis(500);
/// Threads that may sleep in statements beyond one for each connection: for what is not a session yet.
const SPARE_THREADS: usize = 16;
/// Wait after a failed accept (no file descriptors left, for example).
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address and port; port 0 lets the system choose one.
    pub listen: SocketAddr,
    /// Threads that serve connections and run transactions.
    pub oltp_threads: usize,
    /// Sessions at the same time; more are turned away with 53300.
    pub max_connections: usize,
}

/// A server that is bound to its port.
pub struct Server {
    listener: TcpListener,
    local_address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Binds the port. Connections are accepted by [`run`](Self::run), which needs a multi-threaded runtime.
    pub async fn bind(engine: SqlEngine, options: ServerOptions) -> Result<Server> {
        let cannot = |error| Error::internal(format!("cannot listen on {}: {error}", options.listen));
        let listener = TcpListener::bind(options.listen).await.map_err(cannot)?;
        let local_address = listener.local_addr().map_err(cannot)?;
        let sessions = Semaphore::new(options.max_connections.min(Semaphore::MAX_PERMITS));
        let shared = Shared { engine, cancels: Arc::new(CancelRegistry::default()), sessions };
        Ok(Server { listener, local_address, shared: Arc::new(shared) })
    }

    /// The address in use, with the real port.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// Serves until `shutdown` is done. Then running statements are ended and clients are told; those that do not
    /// listen are cut off after a second.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let (ending, watch) = watch::channel(false);
        let mut connections = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                _ = &mut shutdown => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve(stream, self.shared.clone(), watch.clone()));
                    }
                    Err(error) => {
                        eprintln!("cannot accept a connection: {error}");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                },
                // Forgets connections that have ended.
                Some(_) = connections.join_next() => {}
            }
        }
        drop(self.listener);
        ending.send_replace(true);
        self.shared.cancels.shut_down();
        let all_ended = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, all_ended).await.is_err() {
            // Those that wait for their clients end here, those that compute with the process.
            connections.abort_all();
        }
        Ok(())
    }
}

/// Runs a server in a runtime of its own until the process is asked to end (ctrl-c or SIGTERM). `on_ready` is told
/// the address as soon as connections are accepted.
pub fn serve_blocking(
    engine: SqlEngine,
    options: ServerOptions,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let runtime = options.runtime()?;
    let served = runtime.block_on(async {
        let asked_to_end = end_signal()?;
        let server = Server::bind(engine, options).await?;
        on_ready(server.local_address());
        server.run(asked_to_end).await
    });
    runtime.shutdown_timeout(THREAD_GRACE);
    served
}

impl ServerOptions {
    /// A runtime for the server.
    ///
    /// A statement that sleeps, for a row that another transaction has locked, takes its thread with it, and a spare
    /// one serves the other connections. All connections but one may sleep like that at the same time, and the one that
    /// they wait for must still be served: so there may be as many threads as connections. Those that are not needed
    /// are not started.
    pub fn runtime(&self) -> Result<Runtime> {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.oltp_threads.max(1))
            .max_blocking_threads(self.max_connections.saturating_add(SPARE_THREADS))
            .thread_name("oltp")
            .enable_all()
            .build()
            .map_err(|error| Error::internal(format!("cannot start threads: {error}")))
    }
}

/// Done once ctrl-c or SIGTERM comes; listens for them from now on.
fn end_signal() -> Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let cannot = |error| Error::internal(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
