//! A network of real processes for tests: private databases, an organization's node over each, and an ordering server, on free
//! ports of the loopback interface. All of them end with the test, also where it fails or is killed.

// Each test program uses some of it.
#![allow(dead_code)]

pub(crate) mod liar;
pub(crate) mod load;

use crate::products::{TestFolder, products};
use ankerdb_ledger::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection};
use ankerdb_ledger::message::ProposedStatement;
use ankerdb_ledger::node::init::{ordering_name, successor_name};
use ankerdb_ledger::node::people::{self, LedgerClient, SubmittedTransaction};
use ankerdb_ledger::node::wire::StatusMessage;
use ankerdb_ledger::server::PrivateServer;
use ankerdb_ledger::verify::{FileVerifier, verify_file};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The organizations, in the order of [`StartedNetwork::processes`]; ordering servers follow.
pub(crate) const ORGANIZATIONS: [&str; 3] = ["postgresql", "mariadb", "ankerdb"];
pub(crate) const ORDERING: usize = 3;

pub(crate) fn command(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ankerdb-ledger")).args(arguments).output().expect("the command runs")
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// What a command says about an organization's folder, and whether it ended well.
pub(crate) fn ask(network: &StartedNetwork, words: &[&str], name: &str) -> (bool, String) {
    let folder = network.path(name);
    let mut arguments = vec![words[0], folder.to_str().expect("UTF-8")];
    arguments.extend(&words[1..]);
    let output = command(&arguments);
    (output.status.success(), said(&output))
}

/// Puts settings before those that `init` has written.
pub(crate) fn configure(network: &StartedNetwork, name: &str, settings: &str) {
    let path = network.path(name).join("ledger.toml");
    let text = std::fs::read_to_string(&path).expect("a configuration");
    std::fs::write(&path, format!("{settings}\n{text}")).expect("it is written");
}

/// A connection to an organization's database, past the ledger.
pub(crate) fn connect(server: &PrivateServer) -> Box<dyn SqlConnection> {
    match server.name() {
        "MariaDB" => Box::new(MariaDbConnection::open(&server.address).expect("a connection")),
        _ => Box::new(PostgresConnection::open(&server.address).expect("a connection")),
    }
}

pub(crate) struct StartedNetwork {
    /// Names of the parties that are processes: the organizations, then the ordering servers.
    pub(crate) parties: Vec<String>,
    pub(crate) processes: Vec<Option<Child>>,
    pub(crate) servers: Vec<PrivateServer>,
    pub(crate) folder: TestFolder,
}

/// Ports that are free, below those that the system gives to connections: one of these could be taken between now and the
/// start of the process that listens.
fn free_ports(count: usize) -> Vec<u16> {
    const PORTS: std::ops::Range<u32> = 20_000..32_000;
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(61);
    let port = || {
        let drawn = begin.wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed));
        (PORTS.start + drawn % PORTS.len() as u32) as u16
    };
    let free = std::iter::repeat_with(port).filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let bound: Vec<TcpListener> = free.take(count).collect();
    bound.iter().map(|listener| listener.local_addr().expect("bound").port()).collect()
}

impl StartedNetwork {
    /// Makes databases and folders; nothing is started. Nothing if a product is missing.
    pub(crate) fn found(name: &str, quorum: usize) -> Option<StartedNetwork> {
        StartedNetwork::found_with(name, quorum, 1)
    }

    /// With as many ordering servers.
    pub(crate) fn found_with(name: &str, quorum: usize, orderings: usize) -> Option<StartedNetwork> {
        let clients = ["bank", "shop"].map(str::to_owned);
        StartedNetwork::found_for(name, quorum, orderings, &clients, &[])
    }

    /// With these clients, and more arguments of `init`.
    pub(crate) fn found_for(
        name: &str,
        quorum: usize,
        orderings: usize,
        clients: &[String],
        more: &[&str],
    ) -> Option<StartedNetwork> {
        let products = products();
        if products.len() < 3 {
            return None;
        }
        let servers: Vec<PrivateServer> =
            products.iter().map(|product| PrivateServer::start(product).expect("a server")).collect();
        let folder = TestFolder::new(name);
        let ports = free_ports(ORDERING + orderings);
        let organization = |(server, port): (&PrivateServer, &u16)| {
            let (name, address) = (server.name().to_lowercase(), &server.address);
            let database =
                format!("{name}://{}@127.0.0.1:{}/{}", address.user, address.port, address.database);
            format!("--organization={name}@127.0.0.1:{port}={database}")
        };
        let mut arguments = vec!["init".to_owned(), folder.path.display().to_string()];
        arguments.extend(servers.iter().zip(&ports).map(organization));
        arguments.extend(ports[ORDERING..].iter().map(|port| format!("--ordering=127.0.0.1:{port}")));
        arguments.extend(clients.iter().map(|client| format!("--client={client}")));
        arguments.push(format!("--quorum={quorum}"));
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = command(&arguments);
        assert!(output.status.success(), "{}", said(&output));
        let mut parties: Vec<String> = ORGANIZATIONS.map(str::to_owned).to_vec();
        parties.extend((0..orderings).map(|at| ordering_name(at, orderings)));
        let processes = parties.iter().map(|_| None).collect();
        Some(StartedNetwork { parties, processes, servers, folder })
    }

    /// With an ordering service of so many servers that takes over if the first one is dismissed; its processes come last.
    pub(crate) fn found_with_successor(name: &str, quorum: usize, servers: usize) -> Option<StartedNetwork> {
        let clients = ["bank", "shop"].map(str::to_owned);
        let addresses: Vec<String> =
            free_ports(servers).iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let successor = format!("--successor={}", addresses.join(","));
        let mut network = StartedNetwork::found_for(name, quorum, 1, &clients, &[&successor])?;
        for at in 0..servers {
            network.parties.push(successor_name(1, at, servers));
            network.processes.push(None);
        }
        Some(network)
    }

    /// A network at work.
    pub(crate) fn start(name: &str, quorum: usize) -> Option<StartedNetwork> {
        let mut network = StartedNetwork::found(name, quorum)?;
        network.start_all();
        Some(network)
    }

    /// Starts all processes, those that order first.
    pub(crate) fn start_all(&mut self) {
        for at in (0..self.parties.len()).rev() {
            self.start_process(at);
        }
    }

    pub(crate) fn path(&self, party: &str) -> PathBuf {
        self.folder.path.join(party)
    }

    pub(crate) fn log(&self, at: usize) -> String {
        std::fs::read_to_string(self.path(&self.parties[at]).join("log")).unwrap_or_default()
    }

    /// Starts a process and waits until it is ready.
    pub(crate) fn start_process(&mut self, at: usize) {
        let path = self.path(&self.parties[at]);
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(path.join("log")).expect("a file");
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_ankerdb-ledger"), "start"])
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let output = process.stdout.take().expect("a pipe");
        let read = BufReader::new(output).read_line(&mut line);
        self.processes[at] = Some(process);
        assert!(read.is_ok() && line.starts_with("ready: "), "{}: {line}{}", self.parties[at], self.log(at));
    }

    /// Kills a process as a loss of power would.
    pub(crate) fn kill(&mut self, at: usize) {
        let mut process = self.processes[at].take().expect("it runs");
        process.kill().expect("it can be killed");
        process.wait().expect("it ends");
    }

    pub(crate) fn client(&self, name: &str) -> LedgerClient {
        LedgerClient::open(&self.path(name)).expect("a client")
    }

    pub(crate) fn status(&self, at: usize) -> StatusMessage {
        people::status(&self.path(&self.parties[at])).expect("a status")
    }

    /// Waits until something is so of an organization's status.
    pub(crate) fn wait_for(
        &self,
        at: usize,
        what: &str,
        is_so: impl Fn(&StatusMessage) -> bool,
    ) -> StatusMessage {
        let deadline = Instant::now() + LIMIT;
        loop {
            let status = self.status(at);
            if is_so(&status) {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{}: not {what}: {status:#?}\n{}",
                self.parties[at],
                self.log(at)
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until all organizations have as many blocks as the one that has most.
    pub(crate) fn wait_for_equal_heights(&self) -> u64 {
        let height = (0..ORDERING).map(|at| self.status(at).height).max().expect("three");
        for at in 0..ORDERING {
            self.wait_for(at, "at the same height", |status| status.height >= height);
        }
        height
    }

    /// An organization's file, verified.
    pub(crate) fn verified(&self, at: usize) -> FileVerifier {
        let name = &self.parties[at];
        verify_file(&self.path(name).join(format!("{name}.ledger"))).expect("it verifies").0
    }

    /// Ends a process by SIGTERM. Returns its exit code.
    pub(crate) fn terminate(&mut self, at: usize) -> Option<i32> {
        let mut process = self.processes[at].take().expect("it runs");
        let sent = Command::new("kill").arg(process.id().to_string()).status().expect("kill runs");
        assert!(sent.success());
        let deadline = Instant::now() + LIMIT;
        while process.try_wait().expect("its state").is_none() {
            assert!(Instant::now() < deadline, "{} does not end\n{}", self.parties[at], self.log(at));
            std::thread::sleep(Duration::from_millis(20));
        }
        process.wait().expect("it has ended").code()
    }

    /// Ends all processes; then all files verify, and have the same blocks up to the shortest one's end.
    pub(crate) fn end_and_compare_files(mut self) {
        for at in (0..self.parties.len()).filter(|at| self.processes[*at].is_some()).collect::<Vec<_>>() {
            assert_eq!(self.terminate(at), Some(0), "{}: {}", self.parties[at], self.log(at));
        }
        self.compare_files();
    }

    /// All files verify, and have the same blocks up to the shortest one's end.
    pub(crate) fn compare_files(&self) {
        let hashes = |at: usize| {
            let (name, mut hashes) = (&self.parties[at], Vec::new());
            let path = self.path(name).join(format!("{name}.ledger"));
            self.verified(at);
            ankerdb_ledger::verify::visit_blocks(&path, 0, &mut |(block, _)| {
                hashes.push(block.header.hash());
                Ok(())
            })
            .expect("blocks");
            hashes
        };
        let all: Vec<_> = (0..ORDERING).map(hashes).collect();
        let shortest = all.iter().map(Vec::len).min().expect("three");
        for hashes in &all {
            assert_eq!(hashes[..shortest], all[0][..shortest], "different blocks are committed");
        }
    }
}

impl Drop for StartedNetwork {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

pub(crate) fn statement(sql: &str) -> Vec<ProposedStatement> {
    vec![ProposedStatement { sql: sql.into(), values: Vec::new() }]
}

/// Submits a statement with a number, to any organization.
pub(crate) fn submit(client: &LedgerClient, number: u64, sql: &str) -> SubmittedTransaction {
    let done = client.submit(number, &client.sign(number, statement(sql)), None, LIMIT);
    done.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

pub(crate) const TABLE: &str =
    "CREATE SHARED TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))";
