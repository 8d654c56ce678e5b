//! The ordering server: takes signed proposals from organizations, puts them into blocks by count and time, and hands out the
//! signed orders by height to those that ask. It is trusted with nothing: members compare what they got.
//!
//! ```text
//! Chain ──> waiting ── a block is full, or the oldest has waited long enough ──> the group's log ──> signed ──> Order
//! ```
//! Only the leader of the group takes proposals; each server hands out orders. Any server may be killed at any moment. What
//! more than half of the group have in their files stays as it is; what was waiting is sent again by the organizations, which
//! do so until a proposal is certified. A server whose disk is full hands out the orders that it has, and waits for room.

use super::call::RemoteProcess;
use super::config::{BatchConfig, NodeFolder, PartyRole};
use super::directory::Directory;
use super::group::{
    AppliedEntries, AppliedState, GroupLog, GroupNetwork, OrderingGroup, ProposalBatch, locked,
};
use super::log::log;
use super::order_log::{EntryContent, FullDisk, ORDER_BYTES_MAX, OrderLog};
use super::serve::{CallHandler, IncomingCall, OutgoingAnswer};
use super::wire::{
    AppendAnswer, AppendMessage, BLOCK_MESSAGE_BYTES_MAX, ElectAnswer, ElectMessage, Nothing, ORDERING,
    OrderMessage, OrderRequest, PROPOSAL_MESSAGE_BYTES_MAX, PROPOSALS_MAX, ProposalsMessage,
    SMALL_MESSAGE_BYTES_MAX,
};
use crate::agreement::OrderEntry;
use crate::chain::PROPOSAL_BYTES_MAX;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::message::{OrderedBlock, Proposal};
use crate::signature::KeyPair;
use crate::signers::SignerTables;
use openraft::{Config, Raft, SnapshotPolicy, StoredMembership};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Proposals that may wait at once.
const WAITING_MAX: usize = 100_000;

/// Bytes of all proposals that may wait at once.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// Proposals that are known to be ordered, and not ordered again if they are sent again.
const ORDERED_KNOWN_MAX: usize = 1_000_000;

/// How long a call for an order may wait for it.
const ORDER_WAIT_MS_MAX: u32 = 10_000;

/// How often the leader is heard, and after which time without it a server wants to be the leader, in milliseconds.
const HEARTBEAT_MS: u64 = 200;
const ELECTION_MS_MIN: u64 = 800;
const ELECTION_MS_MAX: u64 = 1_600;

/// How long the end of a server's part in the group may take.
const GROUP_LIMIT: Duration = Duration::from_secs(10);

struct WaitingProposal {
    message: Vec<u8>,
    is_definition: bool,
    since: Instant,
}

#[derive(Default)]
struct WaitingList {
    proposals: VecDeque<WaitingProposal>,
    bytes: usize,
    known: HashSet<LedgerHash>,
    ordered: VecDeque<LedgerHash>,
    is_stopped: bool,
}

impl WaitingList {
    fn note_ordered(&mut self, hash: LedgerHash) {
        self.known.insert(hash);
        self.ordered.push_back(hash);
        if self.ordered.len() > ORDERED_KNOWN_MAX
            && let Some(oldest) = self.ordered.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// The proposals of the next block: as many as fit, and a definition alone.
    fn take(&mut self, batch: &BatchConfig) -> Vec<Vec<u8>> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while let Some(first) = self.proposals.front() {
            let is_definition = first.is_definition;
            bytes += first.message.len() + 4;
            let is_full = taken.len() >= batch.transactions_max.max(1) || bytes > ORDER_BYTES_MAX - 1024;
            if !taken.is_empty() && (is_full || is_definition) {
                break;
            }
            if let Some(next) = self.proposals.pop_front() {
                self.bytes -= next.message.len();
                taken.push(next.message);
            }
            if is_definition {
                break;
            }
        }
        taken
    }

    /// Forgets proposals that the group has not taken, so that they are taken when they are sent again.
    fn forget(&mut self, proposals: &[Vec<u8>]) {
        for proposal in proposals {
            self.known.remove(&LedgerHash::of_row(proposal));
        }
    }
}

/// What the group has agreed about, and what waits for that.
struct OrderedEntries {
    waiting: Mutex<WaitingList>,
    changed: Condvar,
    /// The place in the log of each order, from height 1.
    places: Mutex<Vec<u64>>,
    height: watch::Sender<u64>,
}

impl AppliedEntries for OrderedEntries {
    fn apply(&self, index: u64, proposals: &[Vec<u8>]) -> u64 {
        let mut waiting = locked(&self.waiting);
        proposals.iter().for_each(|proposal| waiting.note_ordered(LedgerHash::of_row(proposal)));
        drop(waiting);
        let mut places = locked(&self.places);
        places.push(index);
        let height = places.len() as u64;
        drop(places);
        self.height.send_replace(height);
        height
    }
}

/// An ordering server.
pub struct OrderingServer {
    directory: Arc<Directory>,
    keys: KeyPair,
    batch: BatchConfig,
    entries: Arc<OrderedEntries>,
    log: Arc<Mutex<OrderLog>>,
    full_disk: FullDisk,
    group: Raft<OrderingGroup>,
    number: u64,
    runtime: Handle,
}

impl OrderingServer {
    /// Opens the log, and takes part in the group. To be called inside of a runtime.
    ///
    /// # Errors
    /// [`LedgerError::File`]; [`LedgerError::Untrusted`] if the key is not that of the founding document.
    pub async fn open(folder: &NodeFolder, directory: Arc<Directory>) -> LedgerResult<Arc<OrderingServer>> {
        let keys = folder.keys()?;
        let service = directory.own().service;
        if directory.genesis.services().nth(service as usize) != Some(&keys.public()) {
            let number = service + 1;
            let reason =
                format!("{} is not the key of the network's ordering service {number}", keys.public());
            return Err(LedgerError::Untrusted(reason));
        }
        let batch = *folder.require(folder.config.batch.as_ref(), "batch")?;
        let log = OrderLog::open(&folder.kept_file()?, &directory.network)?;
        let (full_disk, log) = (log.full_disk(), Arc::new(Mutex::new(log)));
        let entries = Arc::new(OrderedEntries {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            places: Mutex::default(),
            height: watch::Sender::new(0),
        });
        let (group, number) = join_group(&directory, log.clone(), entries.clone()).await?;
        let runtime = Handle::current();
        let server =
            OrderingServer { directory, keys, batch, entries, log, full_disk, group, number, runtime };
        Ok(Arc::new(server))
    }

    /// The last order's height, as far as this server knows.
    pub fn height(&self) -> u64 {
        *self.entries.height.borrow()
    }

    /// Makes blocks while this server is the leader, until it is stopped. Blocks its thread.
    pub fn run(&self) {
        while let Some(proposals) = self.next_batch() {
            let written = self.runtime.block_on(async {
                let stopped = self.wait_for_stop();
                tokio::select! {
                    written = self.group.client_write(ProposalBatch(proposals.clone())) => {
                        written.map(drop).map_err(|error| error.to_string())
                    }
                    () = stopped => Err("the server stops".to_owned()),
                }
            });
            if let Err(reason) = written {
                // The organizations send them again, to the leader.
                log(format_args!("{} transactions were not ordered: {reason}", proposals.len()));
                locked(&self.entries.waiting).forget(&proposals);
            }
        }
        if self.check_has_room().is_ok() {
            let ended = async { tokio::time::timeout(GROUP_LIMIT, self.group.shutdown()).await };
            let _ = self.runtime.block_on(ended);
        }
    }

    async fn wait_for_stop(&self) {
        while !locked(&self.entries.waiting).is_stopped {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for the proposals of the next block. Nothing when the server stops.
    fn next_batch(&self) -> Option<Vec<Vec<u8>>> {
        let mut waiting = locked(&self.entries.waiting);
        loop {
            if waiting.is_stopped {
                return None;
            }
            let Some(first) = waiting.proposals.front() else {
                waiting = self.entries.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let rest = Duration::from_millis(self.batch.wait_ms).saturating_sub(first.since.elapsed());
            let is_full = waiting.proposals.len() >= self.batch.transactions_max;
            if rest.is_zero() || is_full || first.is_definition {
                return Some(waiting.take(&self.batch));
            }
            let woken = self.entries.changed.wait_timeout(waiting, rest);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends [`OrderingServer::run`].
    pub fn stop(&self) {
        locked(&self.entries.waiting).is_stopped = true;
        self.entries.changed.notify_all();
    }

    /// Whether the log can be written. While it cannot, the group's part here waits for room, and what is handed to it would wait
    /// in memory; another server may be the leader meanwhile.
    fn check_has_room(&self) -> LedgerResult<()> {
        self.full_disk.reason().map_or(Ok(()), |reason| Err(LedgerError::Missing(reason)))
    }

    /// Whether this server is the leader of its group; if not it says which one is.
    fn check_is_leader(&self) -> LedgerResult<()> {
        let leader = self.group.metrics().borrow().current_leader;
        if leader == Some(self.number) {
            return Ok(());
        }
        let server = leader.and_then(|leader| {
            self.directory.orderings(self.directory.own().service).nth(leader as usize - 1)
        });
        let named = server.map_or("none is known".to_owned(), |server| format!("\"{}\" is", server.name));
        Err(LedgerError::Missing(format!("it is not the leader of the ordering servers; {named}")))
    }

    /// Takes a proposal for the next block, perhaps with agreements, which members count. One that was taken or ordered before is not taken again.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] if it is not signed by a client, or a signature beside it is wrong; [`LedgerError::Refused`] if it is too long;
    /// [`LedgerError::Missing`] if another server is the leader, its disk is full, or too many wait.
    pub fn take(&self, message: Vec<u8>) -> LedgerResult<()> {
        let (genesis, network) = (&self.directory.genesis, &self.directory.network);
        let entry = OrderEntry::of(&message, genesis)?;
        let length = entry.proposal().len();
        if length > PROPOSAL_BYTES_MAX {
            let reason = format!("a transaction of {length} bytes: up to {PROPOSAL_BYTES_MAX} are taken");
            return Err(LedgerError::Refused(reason));
        }
        self.check_has_room()?;
        self.check_is_leader()?;
        let (_, proposal) = Proposal::verify(entry.proposal(), genesis, network)?;
        entry.agreed(genesis, network, 0, &SignerTables::default())?;
        let is_definition = match &proposal.statements[..] {
            [statement] => SharedTable::is_definition(&statement.sql),
            _ => false,
        };
        let name = LedgerHash::of_row(&message);
        let mut waiting = locked(&self.entries.waiting);
        if waiting.known.contains(&name) {
            return Ok(());
        }
        if waiting.proposals.len() >= WAITING_MAX || waiting.bytes + message.len() > WAITING_BYTES_MAX {
            let count = waiting.proposals.len();
            let reason = format!("{count} transactions wait to be ordered; send it again later");
            return Err(LedgerError::Missing(reason));
        }
        waiting.bytes += message.len();
        waiting.known.insert(name);
        waiting.proposals.push_back(WaitingProposal { message, is_definition, since: Instant::now() });
        drop(waiting);
        self.entries.changed.notify_all();
        Ok(())
    }

    /// Takes proposals in their order. One that is wrong is left out; behind one that could not be taken just now none is, since
    /// a later one of its client would make it a repetition.
    ///
    /// # Errors
    /// What is wrong with the first that was not taken, as [`OrderingServer::take`] says it.
    async fn take_all(&self, proposals: Vec<Vec<u8>>) -> LedgerResult<()> {
        if proposals.len() > PROPOSALS_MAX {
            let (count, most) = (proposals.len(), PROPOSALS_MAX);
            return Err(LedgerError::Refused(format!(
                "{count} transactions at once: up to {most} are taken"
            )));
        }
        let mut refused = Ok(());
        for proposal in proposals {
            match self.take(proposal) {
                Ok(()) => {}
                Err(error @ LedgerError::Missing(_)) => return Err(error),
                Err(error) => refused = refused.and(Err(error)),
            }
            // Each verifies a signature; other calls are answered meanwhile.
            tokio::task::yield_now().await;
        }
        refused
    }

    async fn order_of(self: Arc<Self>, request: OrderRequest) -> LedgerResult<OrderMessage> {
        let mut heights = self.entries.height.subscribe();
        let wait = Duration::from_millis(u64::from(request.wait_ms.min(ORDER_WAIT_MS_MAX)));
        let _ = tokio::time::timeout(wait, heights.wait_for(|height| *height >= request.height)).await;
        let read = tokio::task::spawn_blocking(move || self.read_order(request.height)).await;
        let order = read.map_err(|error| LedgerError::Missing(error.to_string()))??;
        Ok(OrderMessage { order: order.unwrap_or_default() })
    }

    /// The signed order of a height that the group has agreed about.
    fn read_order(&self, height: u64) -> LedgerResult<Option<Vec<u8>>> {
        let at = usize::try_from(height).ok().and_then(|height| height.checked_sub(1));
        let Some(index) = at.and_then(|at| locked(&self.entries.places).get(at).copied()) else {
            return Ok(None);
        };
        let entry = locked(&self.log).read(index)?;
        let Some(EntryContent::Proposals(proposals)) = entry.map(|entry| entry.content) else {
            return Err(LedgerError::Missing(format!("entry {index} of the log is no order")));
        };
        Ok(Some(OrderedBlock { network: self.directory.network, height, proposals }.sign(&self.keys)))
    }

    async fn append(self: Arc<Self>, message: AppendMessage) -> LedgerResult<AppendAnswer> {
        self.check_has_room()?;
        let done = self.group.append_entries(message.request()?).await;
        done.map(AppendAnswer::of).map_err(|error| LedgerError::Missing(error.to_string()))
    }

    async fn elect(self: Arc<Self>, message: ElectMessage) -> LedgerResult<ElectAnswer> {
        self.check_has_room()?;
        let done = self.group.vote(message.request()).await;
        done.map(|done| ElectAnswer::of(&done)).map_err(|error| LedgerError::Missing(error.to_string()))
    }
}

/// Takes part in the group of all servers of its ordering service; founds it where that has not been done. Returns the own number in it.
async fn join_group(
    directory: &Arc<Directory>,
    log: Arc<Mutex<OrderLog>>,
    entries: Arc<OrderedEntries>,
) -> LedgerResult<(Raft<OrderingGroup>, u64)> {
    let failed = |reason: String| LedgerError::Missing(format!("the group of ordering servers: {reason}"));
    let (mut others, mut number, mut all) = (BTreeMap::new(), 0, BTreeSet::new());
    for (at, party) in directory.orderings(directory.own().service).enumerate() {
        let server = at as u64 + 1;
        all.insert(server);
        if party.name == directory.own().name {
            number = server;
        } else {
            others.insert(server, RemoteProcess::new(directory, party, ORDERING)?);
        }
    }
    let config = Config {
        cluster_name: directory.network.to_string(),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: ELECTION_MS_MIN,
        election_timeout_max: ELECTION_MS_MAX,
        snapshot_policy: SnapshotPolicy::Never,
        replication_lag_threshold: u64::MAX,
        ..Config::default()
    };
    let config = config.validate().map_err(|error| failed(error.to_string()))?;
    let state = AppliedState { applied: entries, last: None, group: StoredMembership::default() };
    let opened = Raft::new(number, Arc::new(config), GroupNetwork(others), GroupLog(log), state).await;
    let group = opened.map_err(|error| failed(error.to_string()))?;
    let is_founded = group.is_initialized().await.map_err(|error| failed(error.to_string()))?;
    if !is_founded {
        // All servers found the same group, so it does not matter which of them comes first, or whether several do.
        let _ = group.initialize(all.clone()).await;
    } else if all.len() == 1 {
        // Nobody else could be the leader, so there is nothing to wait for.
        group.trigger().elect().await.map_err(|error| failed(error.to_string()))?;
    }
    Ok((group, number))
}

impl CallHandler for OrderingServer {
    fn answer(
        self: Arc<Self>,
        method: String,
        call: IncomingCall,
    ) -> Pin<Box<dyn Future<Output = OutgoingAnswer> + Send>> {
        Box::pin(async move {
            let method = method.strip_prefix(ORDERING).unwrap_or_default();
            let role = match method {
                "/Append" | "/Elect" => PartyRole::Ordering,
                _ => PartyRole::Organization,
            };
            let call = match call.of(&[role]) {
                Ok(call) => call,
                Err(refused) => return refused,
            };
            let (caller, own) = (&call.caller, self.directory.own());
            if role == PartyRole::Ordering && caller.service != own.service {
                let reason = format!("\"{}\" is a server of another ordering service", caller.name);
                return call.refuse(&LedgerError::Untrusted(reason));
            }
            match method {
                "/Chain" => {
                    let take = |message: ProposalsMessage| async move {
                        self.take_all(message.proposals).await.map(|()| Nothing {})
                    };
                    call.with(PROPOSAL_MESSAGE_BYTES_MAX, take).await
                }
                "/Order" => call.with(SMALL_MESSAGE_BYTES_MAX, |request| self.order_of(request)).await,
                "/Append" => call.with(BLOCK_MESSAGE_BYTES_MAX, |message| self.append(message)).await,
                "/Elect" => call.with(SMALL_MESSAGE_BYTES_MAX, |message| self.elect(message)).await,
                _ => call.refuse(&LedgerError::Missing("an ordering server has no such method".into())),
            }
        })
    }
}
