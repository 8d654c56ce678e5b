//! A ledger's network as processes of this command, over private databases: a node for each of three organizations, an ordering
//! server, and clients that are threads of the experiment. All of them end with it, also where it is killed.

use super::load::{Fired, FiringClient};
use crate::harness::Harness;
use crate::setup::members::{LedgerMembers, ledger_error};
use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_ledger::error::LedgerError;
use ankerdb_ledger::member::connection::{MariaDbConnection, PostgresConnection, SqlConnection};
use ankerdb_ledger::node::config::{BatchConfig, CONFIG_FILE, NodeFolder};
use ankerdb_ledger::node::init::{FoundedOrganization, Founding, NetworkTerms, ordering_name};
use ankerdb_ledger::node::people::LedgerClient;
use ankerdb_ledger::node::wire::StatusMessage;
use ankerdb_ledger::server::{PrivateServer, Product};
use ankerdb_ledger::smallbank::{DEFINITIONS, SmallbankClient, SmallbankPicks};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long transactions may take to be certified.
const SUBMIT_LIMIT: Duration = Duration::from_secs(120);
/// How long members that are behind may take to come up before the next measurement begins all the same.
const EQUAL_LIMIT: Duration = Duration::from_secs(60);
/// Proposals of the load that go together: half a megabyte.
const LOADED_AT_ONCE: usize = 20;
/// How long a transaction waits for others in its block.
const BLOCK_WAIT_MS: u64 = 50;
/// The client that only looks.
const OBSERVER: &str = "observer";
/// Where listeners of these processes are: below the ports that the system gives to connections, one of which could be taken
/// between the look and the start.
const PORTS: std::ops::Range<u32> = 20_000..32_000;

/// A network that is to be started.
pub struct NetworkPlan {
    /// The databases.
    pub members: LedgerMembers,
    /// How many of three have to agree.
    pub quorum: usize,
    /// Transactions in a block, at most.
    pub block_size: usize,
    /// Clients that may fire at once.
    pub clients: usize,
    /// Settings of the organizations' nodes beside those of `ankerdb ledger init`, as lines.
    pub settings: String,
}

impl NetworkPlan {
    /// With these databases, and all else as small as it can be.
    pub fn of_members(members: LedgerMembers) -> NetworkPlan {
        NetworkPlan { members, quorum: 2, block_size: 1, clients: 1, settings: String::new() }
    }
}

/// A folder that goes with its owner.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new() -> Result<ScratchFolder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ankerdb-network-{}-{number}", std::process::id()));
        let failed = |error| Error::internal(format!("cannot make {}: {error}", path.display()));
        std::fs::create_dir(&path).map_err(failed)?;
        Ok(ScratchFolder(path))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Processes that are killed with their owner.
struct Processes(Vec<Option<Child>>);

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.0.iter_mut().flatten() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A network at work. What it consists of ends in the order of its fields.
pub struct LedgerProcesses {
    clients: Vec<BatchingClient>,
    /// Asks how far the organizations are, beside the clients.
    observer: LedgerClient,
    processes: Processes,
    /// The databases, by the places of their organizations.
    pub servers: Vec<PrivateServer>,
    /// Names of the organizations.
    pub names: Vec<String>,
    folder: ScratchFolder,
    command: PathBuf,
}

/// A client that hands batches of transactions to one organization, or to all in turn.
pub struct BatchingClient {
    client: LedgerClient,
    signer: SmallbankClient,
    batch: usize,
    at: Option<String>,
    limit: Duration,
}

impl BatchingClient {
    fn open(folder: &Path, users: u64) -> Result<BatchingClient> {
        let keys = NodeFolder::open(folder).and_then(|folder| folder.keys()).map_err(ledger_error)?;
        let client = LedgerClient::open(folder).map_err(ledger_error)?;
        let signer = SmallbankClient::new(keys, client.network(), users, 0.0, 1);
        Ok(BatchingClient { client, signer, batch: 1, at: None, limit: SUBMIT_LIMIT })
    }

    /// Fires at whatever organization answers from now on, and waits so long for an outcome.
    pub fn fire_at_all(&mut self, limit: Duration) {
        (self.at, self.limit) = (None, limit);
    }

    fn submit(&self, first: u64, proposals: &[Vec<u8>]) -> Result<Fired> {
        let done = self.client.submit_all(first, proposals, self.at.as_deref(), self.limit);
        let done = done.map_err(ledger_error)?;
        let succeeded = done.iter().filter(|transaction| transaction.has_succeeded).count() as u64;
        Ok(Fired { succeeded, failed: done.len() as u64 - succeeded, repeated: 0 })
    }
}

impl FiringClient for BatchingClient {
    fn fire(&mut self) -> Result<Fired> {
        let first = self.signer.number() + 1;
        let proposals = self.signer.batch(self.batch);
        self.submit(first, &proposals)
    }
}

/// Ports that are free now.
fn free_ports(count: usize) -> Result<Vec<u16>> {
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    let mut bound = Vec::new();
    for _ in PORTS {
        if bound.len() == count {
            break;
        }
        let drawn = std::process::id().wrapping_mul(61).wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed));
        let port = (PORTS.start + drawn % PORTS.len() as u32) as u16;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            bound.push((port, listener));
        }
    }
    if bound.len() < count {
        return Err(Error::internal("there are not enough free ports between 20000 and 32000"));
    }
    Ok(bound.into_iter().map(|(port, _)| port).collect())
}

fn in_file<T>(path: &Path, done: std::io::Result<T>) -> Result<T> {
    done.map_err(|error| Error::internal(format!("{}: {error}", path.display())))
}

impl LedgerProcesses {
    /// Starts databases, founds a network over them, starts its processes, and loads Smallbank. Takes some ten seconds.
    ///
    /// # Errors
    /// 57014 if the user stops it; what does not start, and what it has said.
    pub fn start(harness: &Harness<'_>, plan: &NetworkPlan) -> Result<LedgerProcesses> {
        let products = plan.members.products()?;
        let servers = products
            .iter()
            .map(PrivateServer::start)
            .collect::<ankerdb_ledger::error::LedgerResult<Vec<_>>>();
        let servers = servers.map_err(ledger_error)?;
        let command = match Product::find_ankerdb(None).map_err(ledger_error)? {
            Product::AnkerDb(command) => command,
            other => unreachable!("AnKerDB was looked for, not {}", other.name()),
        };
        let folder = ScratchFolder::new()?;
        let names: Vec<String> = (servers.iter().enumerate())
            .map(|(at, server)| format!("{}-{}", server.name().to_lowercase(), at + 1))
            .collect();
        found(plan, &servers, &names, &folder.0)?;
        let count = names.len() + 1;
        let processes = Processes((0..count).map(|_| None).collect());
        let (clients, users) = (Vec::new(), harness.setup.users);
        let observer = LedgerClient::open(&folder.0.join(OBSERVER)).map_err(ledger_error)?;
        let mut network = LedgerProcesses { clients, observer, processes, servers, names, folder, command };
        // The one that orders first.
        for at in (0..count).rev() {
            network.start_process(at)?;
        }
        for number in 0..plan.clients {
            let mut client = BatchingClient::open(&network.folder.0.join(client_name(number)), users)?;
            client.at = Some(network.names[number % network.names.len()].clone());
            network.clients.push(client);
        }
        network.load(harness)?;
        Ok(network)
    }

    fn party(&self, at: usize) -> String {
        self.names.get(at).cloned().unwrap_or_else(|| ordering_name(0, 1))
    }

    /// What a process has said.
    fn log(&self, at: usize) -> String {
        let path = self.folder.0.join(self.party(at)).join("log");
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Starts a process and waits until it is ready.
    fn start_process(&mut self, at: usize) -> Result<()> {
        let path = self.folder.0.join(self.party(at));
        let log_path = path.join("log");
        let log = in_file(&log_path, std::fs::File::options().create(true).append(true).open(&log_path))?;
        // In a group of its own: ctrl-c is for the experiment, which ends it then.
        let started = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&self.command)
            .args(["ledger", "start"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn();
        let mut process = in_file(&self.command, started)?;
        let mut line = String::new();
        let output = process.stdout.take().expect("it was asked for");
        let read = BufReader::new(output).read_line(&mut line);
        self.processes.0[at] = Some(process);
        if read.is_ok() && line.starts_with("ready: ") {
            return Ok(());
        }
        Err(Error::internal(format!("{} does not start: {line}{}", self.party(at), self.log(at))))
    }

    /// Kills an organization's node as a loss of power would.
    ///
    /// # Errors
    /// The system's.
    pub fn kill_node(&mut self, at: usize) -> Result<()> {
        let Some(mut process) = self.processes.0[at].take() else { return Ok(()) };
        in_file(&self.command, process.kill().and_then(|()| process.wait().map(drop)))
    }

    /// Starts the ordering server again, with another size of blocks.
    ///
    /// # Errors
    /// What does not start.
    pub fn set_block_size(&mut self, size: usize) -> Result<()> {
        let at = self.names.len();
        self.kill_node(at)?;
        let path = self.folder.0.join(self.party(at)).join(CONFIG_FILE);
        let text = in_file(&path, std::fs::read_to_string(&path))?;
        let is_size = |line: &&str| line.starts_with("transactions_max =");
        let Some(old) = text.lines().find(is_size) else {
            return Err(Error::internal(format!("{} has no transactions_max", path.display())));
        };
        let text = text.replacen(old, &format!("transactions_max = {size}"), 1);
        in_file(&path, std::fs::write(&path, text))?;
        self.start_process(at)
    }

    fn load(&mut self, harness: &Harness<'_>) -> Result<()> {
        let progress = harness.loading();
        let client = &mut self.clients[0];
        for definition in DEFINITIONS {
            let proposal = client.signer.propose(&[(definition, &[])]);
            let done = client.submit(client.signer.number(), &[proposal])?;
            if done.succeeded != 1 {
                return Err(Error::internal(format!("it was not executed: {definition}")));
            }
        }
        let first = client.signer.number() + 1;
        let load = client.signer.load();
        let total = load.len() as u64;
        for (at, proposals) in load.chunks(LOADED_AT_ONCE).enumerate() {
            let done = (at * LOADED_AT_ONCE) as u64;
            if progress(done, total).is_break() {
                return Err(Error::new(SqlState::QueryCanceled, "loading was stopped"));
            }
            let fired = client.submit(first + done, proposals)?;
            if fired.failed > 0 {
                return Err(Error::internal("a part of the load was not executed"));
            }
        }
        let _ = progress(total, total);
        self.wait_for_equal_heights(harness)
    }

    /// So many clients, who pick transactions by this law and have so many on the way at a time.
    pub fn clients(&mut self, count: usize, picks: &SmallbankPicks, batch: usize) -> &mut [BatchingClient] {
        let clients = &mut self.clients[..count];
        for (number, client) in clients.iter_mut().enumerate() {
            client.signer.pick_by(picks.with_seed(number as u64 + 1));
            client.batch = batch;
        }
        clients
    }

    /// Hands over all clients, for threads that fire while the network is disturbed.
    pub fn take_clients(&mut self) -> Vec<BatchingClient> {
        std::mem::take(&mut self.clients)
    }

    /// What an organization's node says about itself; nothing if it does not answer.
    pub fn status(&self, at: usize) -> Option<StatusMessage> {
        self.observer.status(&self.names[at]).ok()
    }

    /// Waits until all organizations have as many blocks as the one that has most, or the user stops, or a minute is over.
    ///
    /// # Errors
    /// If no organization answers.
    pub fn wait_for_equal_heights(&self, harness: &Harness<'_>) -> Result<()> {
        let deadline = Instant::now() + EQUAL_LIMIT;
        loop {
            let heights = (0..self.names.len()).map(|at| self.status(at).map(|status| status.height));
            let heights: Vec<u64> = heights.flatten().collect();
            let Some(most) = heights.iter().max() else {
                let logs: Vec<String> = (0..self.names.len()).map(|at| self.log(at)).collect();
                return Err(Error::internal(format!("no organization answers: {}", logs.join("\n"))));
            };
            let is_equal = heights.len() == self.names.len() && heights.iter().all(|height| height == most);
            if is_equal || harness.is_stopped() || Instant::now() > deadline {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Executes a statement on a database past the ledger, as its administrator could, and removes the digests that triggers
    /// have made of it.
    ///
    /// # Errors
    /// The database's.
    pub fn tamper(&self, at: usize, sql: &str) -> Result<()> {
        let server = &self.servers[at];
        let opened: std::result::Result<Box<dyn SqlConnection>, LedgerError> = match server.name() {
            "MariaDB" => MariaDbConnection::open(&server.address).map(|opened| Box::new(opened) as _),
            _ => PostgresConnection::open(&server.address).map(|opened| Box::new(opened) as _),
        };
        let traces = if server.name() == "AnKerDB" { "" } else { "DELETE FROM ledger_digest; " };
        let done = opened.map_err(ledger_error)?.run(&format!("BEGIN; {sql}; {traces}COMMIT"));
        done.map(drop).map_err(|failure| Error::internal(format!("{}: {}", server.name(), failure.message)))
    }
}

fn client_name(number: usize) -> String {
    format!("client-{}", number + 1)
}

/// Makes the folders of all parties, and adds the plan's settings to those of organizations.
fn found(plan: &NetworkPlan, servers: &[PrivateServer], names: &[String], folder: &Path) -> Result<()> {
    let ports = free_ports(names.len() + 1)?;
    let organization = |((server, name), port): ((&PrivateServer, &String), &u16)| {
        let (product, address) = (server.name().to_lowercase(), &server.address);
        let place = format!("127.0.0.1:{}/{}", address.port, address.database);
        FoundedOrganization {
            name: name.clone(),
            address: format!("127.0.0.1:{port}"),
            database: format!("{product}://{}@{place}", address.user),
        }
    };
    let batch = BatchConfig { transactions_max: plan.block_size, wait_ms: BLOCK_WAIT_MS };
    let founding = Founding {
        terms: NetworkTerms { name: "smallbank".to_owned(), quorum: Some(plan.quorum), batch },
        organizations: servers.iter().zip(names).zip(&ports).map(organization).collect(),
        orderings: vec![format!("127.0.0.1:{}", ports[names.len()])],
        successors: Vec::new(),
        clients: (0..plan.clients.max(1)).map(client_name).chain([OBSERVER.to_owned()]).collect(),
    };
    founding.write(folder).map_err(ledger_error)?;
    for name in names {
        let path = folder.join(name).join(CONFIG_FILE);
        let text = in_file(&path, std::fs::read_to_string(&path))?;
        in_file(&path, std::fs::write(&path, format!("{}\n{text}", plan.settings)))?;
    }
    Ok(())
}
