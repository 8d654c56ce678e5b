//! A server of its own for each test.

use ankerdb_engine::{Configuration, Database};
use ankerdb_server::{Server, ServerOptions};
use ankerdb_sql::{SqlEngine, SqlOptions};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// A running server with an empty database; ends when dropped.
pub struct TestServer {
    pub address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    /// Two threads for transactions, two for analytics.
    pub fn start() -> TestServer {
        TestServer::with_connections(500)
    }

    pub fn with_connections(max_connections: usize) -> TestServer {
        TestServer::with(Database::new(), max_connections, None, 2)
    }

    /// Over a database of this configuration.
    pub fn configured(configuration: Configuration) -> TestServer {
        TestServer::with(Database::open(configuration).unwrap(), 500, None, 2)
    }

    /// Over a database that others may have, too, with so many threads of this name.
    pub fn over(database: Database, thread_name: &'static str, threads: usize) -> TestServer {
        TestServer::with(database, 500, Some(thread_name), threads)
    }

    fn with(
        database: Database,
        max_connections: usize,
        thread_name: Option<&'static str>,
        threads: usize,
    ) -> TestServer {
        let options = SqlOptions { olap_threads: 2, memory_limit_bytes: 256 << 20 };
        let engine = SqlEngine::new(database, options).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ServerOptions { listen, oltp_threads: threads, max_connections };
        let (end, ended) = oneshot::channel::<()>();
        let (ready, address) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = match thread_name {
                None => options.runtime().unwrap(),
                Some(name) => {
                    let mut named = tokio::runtime::Builder::new_multi_thread();
                    named.worker_threads(threads).thread_name(name).enable_all().build().unwrap()
                }
            };
            runtime.block_on(async {
                let server = Server::bind(engine, options).await.unwrap();
                ready.send(server.local_address()).unwrap();
                // Done as well when the test drops its end.
                let end = async { drop(ended.await) };
                server.run(end).await.unwrap();
            });
        });
        TestServer { address: address.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }

    /// Asks the server to end without waiting for it.
    pub fn ask_to_end(&mut self) {
        drop(self.end.take());
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
