//! What people call: `start` of a process, `submit` of a client, `status`, `audit` and `repair` of an organization.

use super::agree::AgreementDesk;
use super::board::Board;
use super::call::RemoteProcess;
use super::config::{NodeFolder, PartyRole};
use super::directory::Directory;
use super::engine::{Engine, EngineSettings};
use super::entry::NodeEntry;
use super::exchange::{OrderingServices, exchange_votes, fetch_orders, forward_proposals};
use super::explorer::{Explorer, ExplorerSource, listen_for_explorer};
use super::log::log;
use super::ordering::OrderingServer;
use super::ordering_watch::watch_ordering;
use super::serve::serve;
use super::wire::{
    FindingsMessage, Nothing, ORDERING, ORGANIZATION, OutcomeMessage, OutcomesMessage, ProposalMessage,
    ProposalsMessage, RepairRequest, StatusMessage,
};
use crate::error::{LedgerError, LedgerResult};
use crate::message::{Proposal, ProposedStatement};
use crate::recovery::RecoveryClass;
use crate::verify::verify_file;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// How long a call of `status` may take.
const STATUS_LIMIT: Duration = Duration::from_secs(10);

/// How long an audit may take.
const AUDIT_LIMIT: Duration = Duration::from_secs(3600);

/// How long one call for an outcome waits; then it is asked again.
const OUTCOME_WAIT_MS: u32 = 5_000;

/// How long the engine may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The file in which a client notes the last block that it knows of.
const SEEN_FILE: &str = "seen";

/// How long to wait before an organization that has not answered is asked again.
const PAUSE: Duration = Duration::from_millis(200);

fn runtime() -> LedgerResult<Runtime> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| LedgerError::Missing(format!("no threads: {error}")))
}

/// Ends when the process is asked to, by SIGTERM or SIGINT.
async fn asked_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

async fn listen(folder: &NodeFolder) -> LedgerResult<TcpListener> {
    let address = folder.require(folder.config.listen.as_ref(), "listen")?;
    let failed = |error| LedgerError::Process {
        name: folder.config.name.clone(),
        message: format!("it cannot listen at {address}: {error}"),
    };
    TcpListener::bind(address.as_str()).await.map_err(failed)
}

fn say_ready(text: &str) {
    println!("ready: {text}");
    let _ = std::io::stdout().flush();
}

/// Runs the process of a folder in the foreground: an organization's node or the ordering server, until it is asked to stop.
///
/// # Errors
/// [`LedgerError::File`], [`LedgerError::Untrusted`] and [`LedgerError::Process`] with why it cannot start.
pub fn start(path: &Path) -> LedgerResult<()> {
    let folder = NodeFolder::open(path)?;
    let directory = Arc::new(Directory::open(&folder)?);
    let runtime = runtime()?;
    match directory.own().role {
        PartyRole::Organization => start_node(&runtime, &folder, directory),
        PartyRole::Ordering => start_ordering(&runtime, &folder, directory),
        PartyRole::Client => Err(LedgerError::Refused("a client has no process; it submits".into())),
    }
}

fn start_ordering(runtime: &Runtime, folder: &NodeFolder, directory: Arc<Directory>) -> LedgerResult<()> {
    let listener = runtime.block_on(listen(folder))?;
    let server = runtime.block_on(OrderingServer::open(folder, directory.clone()))?;
    let address = folder.config.listen.clone().unwrap_or_default();
    let maker = server.clone();
    let making = std::thread::spawn(move || maker.run());
    say_ready(&format!("ordering server at {address}, network {}", directory.network));
    let served = runtime.block_on(serve(listener, directory, server.clone(), asked_to_stop()));
    server.stop();
    making.join().map_err(|_| LedgerError::Missing("the thread that orders has panicked".into()))?;
    served
}

/// Serves the explorer of a node, if its configuration says where.
fn start_explorer(
    runtime: &Runtime,
    folder: &NodeFolder,
    board: &Arc<Board>,
    file: &Path,
) -> LedgerResult<()> {
    let Some(address) = &folder.config.explorer else { return Ok(()) };
    let (listener, bound) = runtime.block_on(listen_for_explorer(address, &folder.config.name))?;
    let shown = board.clone();
    let status = Box::new(move || shown.status(false));
    let source = ExplorerSource::open(board.directory.genesis.clone(), file, status)?;
    runtime.spawn(Explorer::new(source, address).serve(listener));
    board.update(|state| state.explorer = format!("http://{bound}/"));
    Ok(())
}

/// The servers of all ordering services.
fn ordering_services(directory: &Directory) -> LedgerResult<OrderingServices> {
    let connect = |party| RemoteProcess::new(directory, party, ORDERING);
    let mut services = OrderingServices::new();
    for service in 0..directory.genesis.services().count() as u32 {
        let servers = directory.orderings(service).map(connect).collect::<LedgerResult<Vec<_>>>()?;
        if servers.is_empty() {
            let reason = format!("no party has the role \"ordering\" in ordering service {}", service + 1);
            return Err(LedgerError::Missing(reason));
        }
        services.push(servers);
    }
    Ok(services)
}

fn start_node(runtime: &Runtime, folder: &NodeFolder, directory: Arc<Directory>) -> LedgerResult<()> {
    let file = folder.kept_file()?;
    let database = folder.require(folder.config.database.as_ref(), "database")?.clone();
    let (found, _) = verify_file(&file)?;
    let chain = found.chain()?.clone();
    if chain.network != directory.network {
        let reason =
            format!("it is of network {}, and the founding document of {}", chain.network, directory.network);
        return Err(LedgerError::file(&file, reason));
    }
    let height = chain.height;
    let board = Arc::new(Board::new(directory.clone(), chain, folder.path.join("evidence"))?);
    let has_successor = directory.genesis.services().count() > 1;
    let patience = folder.ordering_patience()?.filter(|_| has_successor);
    board.update(|state| state.complaints.patience = patience);
    board.reload_proof();
    let listener = runtime.block_on(listen(folder))?;
    let entered = runtime.enter();
    let mut others = Vec::new();
    for party in directory.others() {
        if let Some(place) = directory.place(&party.name) {
            others.push((place, RemoteProcess::new(&directory, party, ORGANIZATION)?));
        }
    }
    let orderings = ordering_services(&directory)?;
    drop(entered);
    let agreements = AgreementDesk::open(folder, board.clone(), others.clone())?;
    let settings = EngineSettings {
        board: board.clone(),
        file: file.clone(),
        database,
        connections: folder.connections()?,
        recovery: folder.recovery()?,
        checkpoint_blocks: folder.checkpoint_blocks(),
        audit_pause: folder.audit_pause()?,
        keys: folder.keys()?,
        others: others.clone(),
        runtime: runtime.handle().clone(),
    };
    let (engine, inbox) = Engine::new(settings);
    let engine = std::thread::spawn(move || engine.run());
    for (place, process) in others {
        runtime.spawn(exchange_votes(board.clone(), process, place));
    }
    runtime.spawn(fetch_orders(board.clone(), orderings.clone()));
    runtime.spawn(forward_proposals(board.clone(), orderings));
    runtime.spawn(watch_ordering(board.clone(), folder.keys()?));
    start_explorer(runtime, folder, &board, &file)?;
    let (name, address) = (&directory.own().name, folder.config.listen.clone().unwrap_or_default());
    say_ready(&format!(
        "organization \"{name}\" at {address}, network {}, {height} blocks",
        directory.network
    ));
    let entry = Arc::new(NodeEntry { board: board.clone(), inbox, agreements: agreements.clone(), file });
    let served = runtime.block_on(serve(listener, directory.clone(), entry, asked_to_stop()));
    agreements.close();
    board.update(|state| state.is_stopped = true);
    let deadline = Instant::now() + END_LIMIT;
    while !engine.is_finished() {
        if Instant::now() > deadline {
            // Its file and its database are what a kill would leave, and are brought together when it starts.
            log("the database does not answer; the process ends without it");
            return served;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    engine.join().map_err(|_| LedgerError::Missing("the thread that executes has panicked".into()))?;
    served
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedTransaction {
    /// Its client's number for it.
    pub number: u64,
    /// Its block.
    pub height: u64,
    /// Its place in the block.
    pub index: u32,
    /// Whether it has done what it should.
    pub has_succeeded: bool,
    /// Why it has not, if the organization that was asked knows.
    pub reason: String,
}

/// A client of a network.
pub struct LedgerClient {
    folder: NodeFolder,
    directory: Directory,
    runtime: Runtime,
    keys: crate::signature::KeyPair,
    organizations: Vec<RemoteProcess>,
    /// The last block that an organization has told of.
    seen_height: AtomicU64,
}

impl LedgerClient {
    /// The client of a folder.
    ///
    /// # Errors
    /// [`LedgerError::File`] and [`LedgerError::Untrusted`].
    pub fn open(path: &Path) -> LedgerResult<LedgerClient> {
        let folder = NodeFolder::open(path)?;
        let directory = Directory::open(&folder)?;
        if directory.own().role != PartyRole::Client {
            return Err(LedgerError::Refused(format!("\"{}\" is no client", directory.own().name)));
        }
        let (keys, runtime) = (folder.keys()?, runtime()?);
        let entered = runtime.enter();
        let connect = |party| RemoteProcess::new(&directory, party, ORGANIZATION);
        let organizations = directory.others().map(connect).collect::<LedgerResult<Vec<_>>>()?;
        drop(entered);
        // Only a hint, so a file that is not there or is damaged is none.
        let seen = std::fs::read_to_string(folder.path.join(SEEN_FILE)).unwrap_or_default();
        let seen_height = AtomicU64::new(seen.trim().parse().unwrap_or_default());
        Ok(LedgerClient { folder, directory, runtime, keys, organizations, seen_height })
    }

    /// The network.
    pub fn network(&self) -> crate::hash::LedgerHash {
        self.directory.network
    }

    /// Signs a transaction.
    pub fn sign(&self, number: u64, statements: Vec<ProposedStatement>) -> Vec<u8> {
        Proposal { network: self.directory.network, number, statements }.sign(&self.keys)
    }

    /// Takes the next number, which is in a file of the folder, and runs `work` with it. No other process of this client takes
    /// a number meanwhile, because transactions of one client that overtake each other are repetitions.
    ///
    /// # Errors
    /// [`LedgerError::File`], and those of `work`.
    pub fn with_next_number<T>(&self, work: impl FnOnce(u64) -> LedgerResult<T>) -> LedgerResult<T> {
        let path = self.folder.path.join("number");
        let failed = |error: std::io::Error| LedgerError::file(&path, error);
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .append(true)
            .open(&path)
            .map_err(failed)?;
        file.lock().map_err(failed)?;
        // A line for each: one that is torn counts as one, too.
        let taken = std::fs::read(&path).map_err(failed)?.iter().filter(|byte| **byte == b'\n').count();
        file.write_all(b"\n").and_then(|()| file.sync_data()).map_err(failed)?;
        work(taken as u64 + 1)
    }

    /// Hands a signed transaction to an organization, to another one if that does not answer, and waits until it is certified.
    /// To send it again has no other effect.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] with why; [`LedgerError::NoQuorum`] if it is not known to be certified after this time.
    pub fn submit(
        &self,
        number: u64,
        proposal: &[u8],
        at: Option<&str>,
        limit: Duration,
    ) -> LedgerResult<SubmittedTransaction> {
        let message = |seen_height| {
            let proposal = proposal.to_vec();
            ProposalMessage { proposal, wait_ms: OUTCOME_WAIT_MS, seen_height }
        };
        let is_certified = |outcome: &OutcomeMessage| outcome.height > 0;
        let outcome = self.ask_until("Submit", (number, 1), at, limit, message, is_certified)?;
        self.note_height(outcome.height);
        Ok(submitted(number, outcome))
    }

    /// Hands signed transactions, in the order of their numbers, to an organization, to another one if that does not answer, and
    /// waits until all are certified. They may be of several blocks. Where one of them is refused none is taken. To send them
    /// again has no other effect.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] with why; [`LedgerError::NoQuorum`] if not all are known to be certified after this time.
    pub fn submit_all(
        &self,
        first_number: u64,
        proposals: &[Vec<u8>],
        at: Option<&str>,
        limit: Duration,
    ) -> LedgerResult<Vec<SubmittedTransaction>> {
        let message = |seen_height| {
            let proposals = proposals.to_vec();
            ProposalsMessage { proposals, wait_ms: OUTCOME_WAIT_MS, seen_height }
        };
        let is_certified = |done: &OutcomesMessage| {
            done.outcomes.len() == proposals.len() && done.outcomes.iter().all(|outcome| outcome.height > 0)
        };
        let numbers = (first_number, proposals.len());
        let done = self.ask_until("SubmitAll", numbers, at, limit, message, is_certified)?;
        self.note_height(done.outcomes.iter().map(|outcome| outcome.height).max().unwrap_or_default());
        let numbered = (first_number..).zip(done.outcomes);
        Ok(numbered.map(|(number, outcome)| submitted(number, outcome)).collect())
    }

    /// What an organization's node says about itself and the others.
    ///
    /// # Errors
    /// [`LedgerError::Process`] if it does not answer.
    pub fn status(&self, organization: &str) -> LedgerResult<StatusMessage> {
        let process = self.organizations.iter().find(|process| process.name == organization);
        let missing = || LedgerError::Missing(format!("no organization \"{organization}\""));
        self.runtime.block_on(process.ok_or_else(missing)?.call("Status", Nothing {}, STATUS_LIMIT))
    }

    /// Remembers the last block that an organization has told of.
    fn note_height(&self, height: u64) {
        if self.seen_height.fetch_max(height, Ordering::Relaxed) < height {
            let _ = std::fs::write(self.folder.path.join(SEEN_FILE), height.to_string());
        }
    }

    /// Sends transactions of a first number and so many to one organization after the other until they are certified.
    fn ask_until<Q, A>(
        &self,
        method: &str,
        (first, count): (u64, usize),
        at: Option<&str>,
        limit: Duration,
        message: impl Fn(u64) -> Q,
        is_certified: impl Fn(&A) -> bool,
    ) -> LedgerResult<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let named = |process: &&RemoteProcess| at.is_none_or(|name| name == process.name);
        let able: Vec<&RemoteProcess> = self.organizations.iter().filter(named).collect();
        if able.is_empty() {
            return Err(LedgerError::Missing(format!("no organization \"{}\"", at.unwrap_or_default())));
        }
        let (deadline, mut said) = (Instant::now() + limit, BTreeMap::new());
        let mut turn = first as usize;
        while Instant::now() < deadline {
            let process = able[turn % able.len()];
            turn += 1;
            let message = message(self.seen_height.load(Ordering::Relaxed));
            let call_limit = Duration::from_millis(u64::from(OUTCOME_WAIT_MS)) + STATUS_LIMIT;
            let rest = deadline.saturating_duration_since(Instant::now()).min(call_limit);
            match self.runtime.block_on(process.call::<Q, A>(method, message, rest)) {
                Ok(answer) if is_certified(&answer) => return Ok(answer),
                Ok(_) => {
                    said.insert(process.name.clone(), "it is not certified yet".to_owned());
                }
                Err(error @ LedgerError::Refused(_)) => return Err(error),
                Err(error) => {
                    let message = match error {
                        LedgerError::Process { message, .. } => message,
                        other => other.to_string(),
                    };
                    said.insert(process.name.clone(), message);
                    std::thread::sleep(PAUSE);
                }
            }
        }
        let (seconds, said) = (limit.as_secs(), show_answers(&said));
        Err(LedgerError::NoQuorum(match count {
            1 => format!(
                "transaction {first} is not known to be certified after {seconds} s ({said}); send it again with --number \
                 {first}, which does it once in any case"
            ),
            _ => format!(
                "not all of {count} transactions from {first} on are known to be certified after {seconds} s ({said}); send them \
                 again, which does them once in any case"
            ),
        }))
    }
}

fn submitted(number: u64, outcome: OutcomeMessage) -> SubmittedTransaction {
    let OutcomeMessage { height, index, has_succeeded, reason } = outcome;
    SubmittedTransaction { number, height, index, has_succeeded, reason }
}

/// What organizations have said last, those together that have said one thing.
fn show_answers(said: &BTreeMap<String, String>) -> String {
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, message) in said {
        names.entry(message).or_default().push(format!("\"{name}\""));
    }
    let shown = names.iter().map(|(message, names)| format!("{}: {message}", names.join(", ")));
    shown.collect::<Vec<_>>().join("; ")
}

fn ask<Q, A>(path: &Path, method: &str, message: Q, limit: Duration) -> LedgerResult<A>
where
    Q: prost::Message + 'static,
    A: prost::Message + Default + 'static,
{
    let folder = NodeFolder::open(path)?;
    let directory = Directory::open(&folder)?;
    let runtime = runtime()?;
    if directory.own().role != PartyRole::Organization {
        return Err(LedgerError::Refused(format!("\"{}\" is no organization", directory.own().name)));
    }
    let entered = runtime.enter();
    let process = RemoteProcess::new(&directory, directory.own(), ORGANIZATION)?;
    drop(entered);
    runtime.block_on(process.call(method, message, limit))
}

/// What the running node of a folder says about itself and the others.
///
/// # Errors
/// [`LedgerError::Process`] if it does not answer.
pub fn status(path: &Path) -> LedgerResult<StatusMessage> {
    ask(path, "Status", Nothing {}, STATUS_LIMIT)
}

/// Has the running node of a folder compare its tables with the ledger.
///
/// # Errors
/// [`LedgerError::Process`] if it does not answer, or could not.
pub fn audit(path: &Path) -> LedgerResult<FindingsMessage> {
    ask(path, "Audit", Nothing {}, AUDIT_LIMIT)
}

/// Has the running node of a folder compare its tables with the ledger, and repair them by a class, or by that of its
/// configuration.
///
/// # Errors
/// [`LedgerError::Process`] if it does not answer, or could not.
pub fn repair(path: &Path, class: Option<RecoveryClass>) -> LedgerResult<FindingsMessage> {
    let method = class.map(|class| class.to_string()).unwrap_or_default();
    ask(path, "Repair", RepairRequest { method }, AUDIT_LIMIT)
}
