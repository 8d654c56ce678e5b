//! A server of its own for each test.

use crate::certificates::{self, Authority};
use crate::client::Client;
use ankerdb_engine::{Configuration, Database};
use ankerdb_server::{Password, Server, ServerOptions, Stopper, Tls};
use ankerdb_socket::Stream;
use ankerdb_sql::{SqlEngine, SqlOptions};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// A running server with an empty database; ends when dropped.
pub(crate) struct TestServer {
    pub address: SocketAddr,
    /// Where it has its socket's file; removed in the end.
    pub folder: PathBuf,
    /// Connections so far.
    connections: AtomicUsize,
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
        TestServer::serving(engine, 500, None, Some(certificates::shared().tls(false)))
    }

    /// For clients that know a password.
    pub(crate) fn asking_for(password: &str, max_connections: usize) -> TestServer {
        let password = Some(Password::new(password).unwrap());
        let tls = Some(certificates::shared().tls(false));
        TestServer::serving(TestServer::engine(Database::new()), max_connections, password, tls)
    }

    /// Without a certificate.
    pub(crate) fn without_tls() -> TestServer {
        TestServer::serving(TestServer::engine(Database::new()), 500, None, None)
    }

    /// With a certificate of its own.
    pub(crate) fn encrypting(tls: Tls) -> TestServer {
        TestServer::serving(TestServer::engine(Database::new()), 500, None, Some(tls))
    }

    /// Whose clients need TLS.
    pub(crate) fn requiring_tls(authority: &Authority) -> TestServer {
        TestServer::encrypting(authority.tls(true))
    }

    fn with(database: Database, max_connections: usize) -> TestServer {
        let tls = Some(certificates::shared().tls(false));
        TestServer::serving(TestServer::engine(database), max_connections, None, tls)
    }

    fn engine(database: Database) -> SqlEngine {
        let options = SqlOptions { olap_threads: 2, memory_limit_bytes: 256 << 20 };
        SqlEngine::new(database, options).unwrap()
    }

    fn serving(
        engine: SqlEngine,
        max_connections: usize,
        password: Option<Password>,
        tls: Option<Tls>,
    ) -> TestServer {
        static SERVERS: AtomicUsize = AtomicUsize::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ankerdb-wire-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let options =
            ServerOptions { listen, socket_folder: Some(folder.clone()), max_connections, password, tls };
        let server = Server::bind(&options).unwrap();
        server.admit(engine).unwrap();
        let (address, stopper) = (server.local_address(), server.stopper());
        let thread = Some(std::thread::spawn(move || server.run()));
        TestServer { address, folder, connections: AtomicUsize::new(0), stopper, thread }
    }

    /// A client that has said nothing yet: over TCP, through the socket's file, and encrypted in turn.
    pub(crate) fn client(&self) -> Client {
        match self.connections.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => Client::over(Stream::Tcp(TcpStream::connect(self.address).unwrap())),
            1 => Client::over(Stream::Unix(UnixStream::connect(self.socket()).unwrap())),
            _ => Client::encrypted(self.address),
        }
    }

    /// A connection: over TCP and through the socket's file in turn.
    pub(crate) fn stream(&self) -> Stream {
        match self.connections.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => Stream::Tcp(TcpStream::connect(self.address).unwrap()),
            _ => Stream::Unix(UnixStream::connect(self.socket()).unwrap()),
        }
    }

    /// The socket's file.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.address.port()))
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
        // Fails if the server has left a file there.
        let removed = std::fs::remove_dir(&self.folder);
        assert!(removed.is_ok() || std::thread::panicking(), "{removed:?}");
    }
}
