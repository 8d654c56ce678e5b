//! The group of ordering servers: a Raft log (openraft) of batches of proposals. Each server that has applied an entry signs
//! the order of its height with the key that all of the group have, and an ed25519 signature is a function of key and bytes:
//! so all hand out one order, whichever of them is asked, and any of them may stop as long as more than half go on. A group of
//! one is a server that may be killed and started again.
//!
//! Raft keeps the group together where processes and machines stop; a server that lies can make it hand out what it wants. That
//! is no loss, as nobody trusts the ordering service.
//!
//! Not here: snapshots. The log is what members that are far behind would need, and stays whole.

use super::call::RemoteProcess;
use super::log::log;
use super::order_log::{EntryContent, EntryName, GroupVote, OrderEntry, OrderLog};
use super::wire::{
    AppendAnswer, AppendMessage, ElectAnswer, ElectMessage, EntryNameMessage, GroupVoteMessage,
};
use crate::error::{LedgerError, LedgerResult};
use openraft::error::{InstallSnapshotError, RPCError, RaftError, Unreachable};
use openraft::network::{RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::storage::{LogFlushed, RaftLogStorage, RaftStateMachine};
use openraft::{
    AnyError, CommittedLeaderId, EmptyNode, Entry, EntryPayload, LogId, LogState, Membership, OptionalSend,
    RaftLogReader, RaftSnapshotBuilder, Snapshot, SnapshotMeta, StorageError, StorageIOError,
    StoredMembership, Vote,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::io::Cursor;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait before what did not fit on the disk is written again.
const ROOM_PAUSE: Duration = Duration::from_millis(500);

/// Bytes of entries in one message, if it is more than one entry.
const ENTRIES_BYTES: usize = 8 << 20;

/// Proposals in their order, as an entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProposalBatch(pub(super) Vec<Vec<u8>>);

openraft::declare_raft_types!(
    /// The types of the group's log.
    pub(super) OrderingGroup:
        D = ProposalBatch,
        R = u64,
        NodeId = u64,
        Node = EmptyNode,
        SnapshotData = Cursor<Vec<u8>>,
);

type GroupResult<T> = Result<T, StorageError<u64>>;
type CallResult<T> = Result<T, RPCError<u64, EmptyNode, RaftError<u64>>>;

fn log_id(name: &EntryName) -> LogId<u64> {
    LogId::new(CommittedLeaderId::new(name.term, name.server), name.index)
}

fn name_of(id: &LogId<u64>) -> EntryName {
    EntryName { term: id.leader_id.term, server: id.leader_id.node_id, index: id.index }
}

fn entry_of(entry: &Entry<OrderingGroup>) -> OrderEntry {
    let content = match &entry.payload {
        EntryPayload::Blank => EntryContent::Blank,
        EntryPayload::Normal(batch) => EntryContent::Proposals(batch.0.clone()),
        EntryPayload::Membership(group) => {
            let ids = |group: &BTreeSet<u64>| group.iter().copied().collect();
            EntryContent::Group(group.get_joint_config().iter().map(ids).collect())
        }
    };
    OrderEntry { name: name_of(&entry.log_id), content }
}

fn raft_entry(entry: OrderEntry) -> Entry<OrderingGroup> {
    let payload = match entry.content {
        EntryContent::Blank => EntryPayload::Blank,
        EntryContent::Proposals(proposals) => EntryPayload::Normal(ProposalBatch(proposals)),
        EntryContent::Group(groups) => {
            let nodes: BTreeMap<u64, EmptyNode> =
                groups.iter().flatten().map(|server| (*server, EmptyNode {})).collect();
            let groups = groups.into_iter().map(|group| group.into_iter().collect()).collect();
            EntryPayload::Membership(Membership::new(groups, nodes))
        }
    };
    Entry { log_id: log_id(&entry.name), payload }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The log as openraft reads and writes it.
#[derive(Clone)]
pub(super) struct GroupLog(pub(super) Arc<Mutex<OrderLog>>);

impl GroupLog {
    /// Works with the file where that blocks nobody else.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut OrderLog) -> LedgerResult<T> + Send + 'static,
    ) -> LedgerResult<T> {
        let log = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(&mut locked(&log))).await;
        done.unwrap_or_else(|error| Err(LedgerError::Missing(format!("the log's thread: {error}"))))
    }

    /// Writes to the file, and again until there is room for it. To openraft that is a slow disk, which it waits for; an error
    /// would end this server's part in the group for good. The caller takes no calls meanwhile, since they would queue up.
    async fn write(
        &self,
        work: impl Fn(&mut OrderLog) -> LedgerResult<()> + Clone + Send + 'static,
    ) -> LedgerResult<()> {
        let mut is_told = false;
        loop {
            let work = work.clone();
            let write = move |log: &mut OrderLog| Ok((work(log), log.full_disk().reason().is_some()));
            let (written, is_full) = self.with(write).await?;
            if !is_full {
                if is_told {
                    log("there is room again; the ordering server goes on");
                }
                return written;
            }
            if let (Err(error), false) = (written, is_told) {
                log(&error);
                is_told = true;
            }
            tokio::time::sleep(ROOM_PAUSE).await;
        }
    }
}

fn unread(error: LedgerError) -> StorageError<u64> {
    StorageIOError::read_logs(AnyError::new(&error)).into()
}

fn unwritten(error: LedgerError) -> StorageError<u64> {
    log(&error);
    StorageIOError::write_logs(AnyError::new(&error)).into()
}

impl RaftLogReader<OrderingGroup> for GroupLog {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> GroupResult<Vec<Entry<OrderingGroup>>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let read = move |log: &mut OrderLog| {
            let mut found = Vec::new();
            for index in start..end {
                let Some(entry) = log.read(index)? else { break };
                found.push(raft_entry(entry));
            }
            Ok(found)
        };
        self.with(read).await.map_err(unread)
    }

    /// As many entries as a message should have.
    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> GroupResult<Vec<Entry<OrderingGroup>>> {
        let fitting = {
            let log = locked(&self.0);
            let mut bytes = 0;
            let fits = |index: &u64| {
                bytes += log.bytes_of(*index);
                *index == start || bytes <= ENTRIES_BYTES
            };
            (start..end).take_while(fits).count() as u64
        };
        self.try_get_log_entries(start..start + fitting).await
    }
}

impl RaftLogStorage<OrderingGroup> for GroupLog {
    type LogReader = GroupLog;

    async fn get_log_state(&mut self) -> GroupResult<LogState<OrderingGroup>> {
        let last = locked(&self.0).last();
        Ok(LogState { last_purged_log_id: None, last_log_id: last.as_ref().map(log_id) })
    }

    async fn get_log_reader(&mut self) -> GroupLog {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> GroupResult<()> {
        let vote = group_vote(vote);
        let written = self.write(move |log| log.write_vote(&vote)).await;
        written.map_err(|error| StorageIOError::write_vote(AnyError::new(&error)).into())
    }

    async fn read_vote(&mut self) -> GroupResult<Option<Vote<u64>>> {
        let read = locked(&self.0).read_vote();
        let vote = read.map_err(|error| StorageIOError::read_vote(AnyError::new(&error)))?;
        Ok(vote.as_ref().map(raft_vote))
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<OrderingGroup>) -> GroupResult<()>
    where
        I: IntoIterator<Item = Entry<OrderingGroup>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Arc<[OrderEntry]> = entries.into_iter().map(|entry| entry_of(&entry)).collect();
        self.write(move |log| log.append(&entries)).await.map_err(unwritten)?;
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId<u64>) -> GroupResult<()> {
        self.with(move |log| log.cut(from.index)).await.map_err(unwritten)
    }

    /// Nothing: the log stays whole.
    async fn purge(&mut self, _: LogId<u64>) -> GroupResult<()> {
        Ok(())
    }
}

/// What takes the entries that the group has agreed about.
pub(super) trait AppliedEntries: Send + Sync + 'static {
    /// The entry at an index, which has these proposals, is the next order. Returns its height.
    fn apply(&self, index: u64, proposals: &[Vec<u8>]) -> u64;
}

/// The state of a server: which entries are orders. It is built again from the log when the server starts.
pub(super) struct AppliedState<A> {
    pub(super) applied: Arc<A>,
    pub(super) last: Option<LogId<u64>>,
    pub(super) group: StoredMembership<u64, EmptyNode>,
}

/// The log stays whole, so there is nothing that a snapshot would be for.
pub(super) struct WithoutSnapshots;

fn without_snapshots() -> StorageError<u64> {
    let error = LedgerError::Missing("ordering servers have no snapshots".into());
    StorageIOError::read_snapshot(None, AnyError::new(&error)).into()
}

impl RaftSnapshotBuilder<OrderingGroup> for WithoutSnapshots {
    async fn build_snapshot(&mut self) -> GroupResult<Snapshot<OrderingGroup>> {
        Err(without_snapshots())
    }
}

impl<A: AppliedEntries> RaftStateMachine<OrderingGroup> for AppliedState<A> {
    type SnapshotBuilder = WithoutSnapshots;

    async fn applied_state(&mut self) -> GroupResult<(Option<LogId<u64>>, StoredMembership<u64, EmptyNode>)> {
        Ok((self.last, self.group.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> GroupResult<Vec<u64>>
    where
        I: IntoIterator<Item = Entry<OrderingGroup>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut heights = Vec::new();
        for entry in entries {
            self.last = Some(entry.log_id);
            heights.push(match entry.payload {
                EntryPayload::Normal(batch) => self.applied.apply(entry.log_id.index, &batch.0),
                EntryPayload::Membership(group) => {
                    self.group = StoredMembership::new(Some(entry.log_id), group);
                    0
                }
                EntryPayload::Blank => 0,
            });
        }
        Ok(heights)
    }

    async fn get_snapshot_builder(&mut self) -> WithoutSnapshots {
        WithoutSnapshots
    }

    async fn begin_receiving_snapshot(&mut self) -> GroupResult<Box<Cursor<Vec<u8>>>> {
        Err(without_snapshots())
    }

    async fn install_snapshot(
        &mut self,
        _: &SnapshotMeta<u64, EmptyNode>,
        _: Box<Cursor<Vec<u8>>>,
    ) -> GroupResult<()> {
        Err(without_snapshots())
    }

    async fn get_current_snapshot(&mut self) -> GroupResult<Option<Snapshot<OrderingGroup>>> {
        Ok(None)
    }
}

/// The other servers of the group, by their numbers.
pub(super) struct GroupNetwork(pub(super) BTreeMap<u64, RemoteProcess>);

/// Another server of the group.
pub(super) struct GroupServer(Option<RemoteProcess>);

impl RaftNetworkFactory<OrderingGroup> for GroupNetwork {
    type Network = GroupServer;

    async fn new_client(&mut self, target: u64, _: &EmptyNode) -> GroupServer {
        GroupServer(self.0.get(&target).cloned())
    }
}

impl GroupServer {
    async fn call<Q, A>(&self, method: &str, message: Q, limit: Duration) -> CallResult<A>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let unreachable = |error: LedgerError| RPCError::Unreachable(Unreachable::new(&error));
        let missing = || unreachable(LedgerError::Missing("no such server in the group".into()));
        let process = self.0.as_ref().ok_or_else(missing)?;
        process.call(method, message, limit).await.map_err(unreachable)
    }
}

impl RaftNetwork<OrderingGroup> for GroupServer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<OrderingGroup>,
        option: RPCOption,
    ) -> CallResult<AppendEntriesResponse<u64>> {
        let message = AppendMessage::of(&rpc);
        let answer: AppendAnswer = self.call("Append", message, option.hard_ttl()).await?;
        answer.response().map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))
    }

    async fn install_snapshot(
        &mut self,
        _: InstallSnapshotRequest<OrderingGroup>,
        _: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RPCError<u64, EmptyNode, RaftError<u64, InstallSnapshotError>>>
    {
        let error = LedgerError::Missing("ordering servers have no snapshots".into());
        Err(RPCError::Unreachable(Unreachable::new(&error)))
    }

    async fn vote(&mut self, rpc: VoteRequest<u64>, option: RPCOption) -> CallResult<VoteResponse<u64>> {
        let message = ElectMessage {
            vote: Some(GroupVoteMessage::of(&rpc.vote)),
            last: rpc.last_log_id.as_ref().map(EntryNameMessage::of),
        };
        let answer: ElectAnswer = self.call("Elect", message, option.hard_ttl()).await?;
        Ok(VoteResponse {
            vote: answer.vote.unwrap_or_default().vote(),
            vote_granted: answer.is_granted,
            last_log_id: answer.last.map(|last| last.log_id()),
        })
    }
}

fn group_vote(vote: &Vote<u64>) -> GroupVote {
    GroupVote { term: vote.leader_id.term, server: vote.leader_id.node_id, has_won: vote.committed }
}

fn raft_vote(vote: &GroupVote) -> Vote<u64> {
    if vote.has_won { Vote::new_committed(vote.term, vote.server) } else { Vote::new(vote.term, vote.server) }
}

impl GroupVoteMessage {
    fn of(vote: &Vote<u64>) -> GroupVoteMessage {
        let GroupVote { term, server, has_won } = group_vote(vote);
        GroupVoteMessage { term, server, has_won }
    }

    fn vote(self) -> Vote<u64> {
        raft_vote(&GroupVote { term: self.term, server: self.server, has_won: self.has_won })
    }
}

impl EntryNameMessage {
    fn of(id: &LogId<u64>) -> EntryNameMessage {
        let EntryName { term, server, index } = name_of(id);
        EntryNameMessage { term, server, index }
    }

    fn log_id(self) -> LogId<u64> {
        log_id(&EntryName { term: self.term, server: self.server, index: self.index })
    }
}

impl AppendMessage {
    fn of(rpc: &AppendEntriesRequest<OrderingGroup>) -> AppendMessage {
        AppendMessage {
            vote: Some(GroupVoteMessage::of(&rpc.vote)),
            before: rpc.prev_log_id.as_ref().map(EntryNameMessage::of),
            entries: rpc.entries.iter().map(|entry| entry_of(entry).encode()).collect(),
            agreed: rpc.leader_commit.as_ref().map(EntryNameMessage::of),
        }
    }

    /// As openraft takes it.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`].
    pub(super) fn request(self) -> LedgerResult<AppendEntriesRequest<OrderingGroup>> {
        let entry = |bytes: Vec<u8>| OrderEntry::decode(&bytes).map(raft_entry);
        Ok(AppendEntriesRequest {
            vote: self.vote.unwrap_or_default().vote(),
            prev_log_id: self.before.map(EntryNameMessage::log_id),
            entries: self.entries.into_iter().map(entry).collect::<LedgerResult<_>>()?,
            leader_commit: self.agreed.map(EntryNameMessage::log_id),
        })
    }
}

impl AppendAnswer {
    pub(super) fn of(response: AppendEntriesResponse<u64>) -> AppendAnswer {
        let (mut answer, name) = (AppendAnswer::default(), |id: &LogId<u64>| EntryNameMessage::of(id));
        match response {
            AppendEntriesResponse::Success => answer.outcome = 1,
            AppendEntriesResponse::PartialSuccess(last) => {
                (answer.outcome, answer.last) = (2, last.as_ref().map(name));
            }
            AppendEntriesResponse::Conflict => answer.outcome = 3,
            AppendEntriesResponse::HigherVote(vote) => {
                (answer.outcome, answer.vote) = (4, Some(GroupVoteMessage::of(&vote)));
            }
        }
        answer
    }

    fn response(self) -> LedgerResult<AppendEntriesResponse<u64>> {
        Ok(match self.outcome {
            1 => AppendEntriesResponse::Success,
            2 => AppendEntriesResponse::PartialSuccess(self.last.map(EntryNameMessage::log_id)),
            3 => AppendEntriesResponse::Conflict,
            4 => AppendEntriesResponse::HigherVote(self.vote.unwrap_or_default().vote()),
            outcome => return Err(LedgerError::Malformed(format!("an answer of kind {outcome}"))),
        })
    }
}

impl ElectMessage {
    pub(super) fn request(self) -> VoteRequest<u64> {
        VoteRequest::new(self.vote.unwrap_or_default().vote(), self.last.map(EntryNameMessage::log_id))
    }
}

impl ElectAnswer {
    pub(super) fn of(response: &VoteResponse<u64>) -> ElectAnswer {
        ElectAnswer {
            vote: Some(GroupVoteMessage::of(&response.vote)),
            is_granted: response.vote_granted,
            last: response.last_log_id.as_ref().map(EntryNameMessage::of),
        }
    }
}
