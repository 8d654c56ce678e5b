//! A server of its own for each test.

use ankerdb_engine::{Configuration, Database};
use ankerdb_server::{Server, ServerOptions, Stopper};
use ankerdb_sql::{SqlEngine, SqlOptions};
use std::net::SocketAddr;
use std::path::Path;
use std::thread::JoinHandle;

/// A running server with an empty database; ends when dropped.
pub(crate) struct TestServer {
    pub address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Two threads for analytics.
    pub(crate) fn start() -> TestServer {
        TestServer::with_connections(500)
    }

    pub(crate) fn with_connections(max_connections: usize) -> TestServer {
        TestServer::with(Database::new(), max_connections)
    }

    /// Over a database of this configuration.
    pub(crate) fn configured(configuration: Configuration) -> TestServer {
        TestServer::with(Database::open(configuration).unwrap(), 500)
    }

    /// With files for COPY in a folder.
    pub(crate) fn giving(folder: &Path) -> TestServer {
        let engine = TestServer::engine(Database::new());
        engine.give_files(folder.to_owned());
        TestServer::serving(engine, 500)
    }

    fn with(database: Database, max_connections: usize) -> TestServer {
        TestServer::serving(TestServer::engine(database), max_connections)
    }

    fn engine(database: Database) -> SqlEngine {
        let options = SqlOptions { olap_threads: 2, memory_limit_bytes: 256 << 20 };
        SqlEngine::new(database, options).unwrap()
    }

    fn serving(engine: SqlEngine, max_connections: usize) -> TestServer {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(&ServerOptions { listen, max_connections }).unwrap();
        server.admit(engine).unwrap();
        let (address, stopper) = (server.local_address(), server.stopper());
        TestServer { address, stopper, thread: Some(std::thread::spawn(move || server.run())) }
    }

    /// Asks the server to end without waiting for it.
    pub(crate) fn ask_to_end(&mut self) {
        self.stopper.stop();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.ask_to_end();
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            assert!(joined.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}
