//! What the parts of a node tell each other: the thread that executes and commits, the tasks that exchange votes and orders
//! with other processes, and the calls that come in. Everything on the board has been verified; nothing of it has to survive a
//! stop.
//!
//! ```text
//! calls, tasks ── votes, orders, proposals, heights of others ──> board ──> engine
//! engine ── chain, own vote, certified blocks, outcomes ──> board ──> calls, tasks
//! ```

use super::complaints::Complaints;
use super::directory::Directory;
use super::log::log;
use super::order_log::ORDER_BYTES_MAX;
use super::wire::{AuditStatus, MemberStatus, OutcomeMessage, StatusMessage, VotesMessage};
use crate::agreement::OrderEntry;
use crate::block::BlockHeader;
use crate::bytes::CanonicalWriter;
use crate::chain::LedgerChain;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::message::Vote;
use crate::organization::OwnVote;
use crate::succession::{BlockOrder, Dismissal, Tenure, TwoOrders};
use crate::verify::CertifiedBlock;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Votes that are kept of one member for one block.
const VOTES_OF_MEMBER_MAX: usize = 64;

/// Orders that are kept for one height.
const ORDERS_MAX: usize = 16;

/// Certified blocks that are kept in memory for members that are a little behind.
const RECENT_BLOCKS_MAX: u64 = 32;

/// Outcomes that are kept for clients that ask again.
const OUTCOMES_MAX: usize = 100_000;

/// Transactions that clients may wait for at once.
const PENDING_MAX: usize = 100_000;

/// Bytes of the transactions that clients may wait for at once.
const PENDING_BYTES_MAX: usize = 256 << 20;

/// Lines that are kept for people, of each kind.
const LINES_MAX: usize = 16;

/// What is known of a member.
#[derive(Debug, Clone, Default)]
pub(super) struct MemberView {
    pub(super) height: u64,
    pub(super) is_reached: bool,
    voted_height: u64,
    consents: Option<bool>,
}

/// What is on the board.
pub(super) struct BoardState {
    pub(super) chain: LedgerChain,
    pub(super) own_vote: Option<OwnVote>,
    last_vote: Vec<u8>,
    votes: BTreeMap<(u32, u32, LedgerHash), (Vote, Vec<u8>)>,
    /// Signed orders of the next height, by their hashes; perhaps a succession of the next ordering service among them.
    pub(super) orders: BTreeMap<LedgerHash, KnownOrder>,
    /// What speaks against the ordering service whose turn it is.
    pub(super) complaints: Complaints,
    /// When the last block became the head, or the node started.
    pub(super) progressed_at: Instant,
    pub(super) members: Vec<MemberView>,
    recent: BTreeMap<u64, Arc<CertifiedBlock>>,
    pub(super) pending: BTreeMap<LedgerHash, PendingProposal>,
    pending_count: u64,
    outcomes: HashMap<LedgerHash, OutcomeMessage>,
    outcome_names: VecDeque<LedgerHash>,
    pub(super) state: String,
    pub(super) suspects: Vec<String>,
    pub(super) stuck: String,
    /// Why no ordering server takes the proposals that wait for it, or nothing.
    pub(super) not_ordered: String,
    pub(super) checkpoints: Vec<u64>,
    pub(super) checkpoint_failure: String,
    audit: Option<AuditStatus>,
    audit_findings: VecDeque<String>,
    audit_failure: String,
    pub(super) explorer: String,
    evidence: Vec<String>,
    repairs: VecDeque<String>,
    refused: VecDeque<String>,
    pub(super) constraints: Vec<String>,
    objections: VecDeque<String>,
    pub(super) is_stopped: bool,
    version: u64,
}

/// An order that was verified.
pub(super) struct KnownOrder {
    pub(super) message: Vec<u8>,
    /// Whether it makes the next ordering service take over.
    pub(super) is_succession: bool,
}

/// A proposal whose client waits.
pub(super) struct PendingProposal {
    pub(super) message: Vec<u8>,
    pub(super) since: Instant,
    pub(super) sent: Option<Instant>,
    /// Counts those that have come: a client's go out in the order in which they came, or the later ones would make the earlier
    /// ones repetitions.
    pub(super) place: u64,
}

/// The board of a node.
pub(super) struct Board {
    pub(super) directory: Arc<Directory>,
    pub(super) place: usize,
    evidence_folder: PathBuf,
    state: Mutex<BoardState>,
    changed: Condvar,
    version: watch::Sender<u64>,
}

impl Board {
    pub(super) fn new(
        directory: Arc<Directory>,
        chain: LedgerChain,
        evidence_folder: PathBuf,
    ) -> LedgerResult<Board> {
        let name = directory.own().name.clone();
        let Some(place) = directory.place(&name) else {
            return Err(LedgerError::Untrusted(format!("\"{name}\" is no member of the network")));
        };
        let mut evidence = Vec::new();
        for entry in std::fs::read_dir(&evidence_folder).into_iter().flatten().flatten() {
            evidence.push(format!("kept from before: {}", entry.path().display()));
        }
        let mut complaints = Complaints::default();
        complaints.renew(chain.tenure());
        let state = BoardState {
            own_vote: None,
            last_vote: Vec::new(),
            votes: BTreeMap::new(),
            orders: BTreeMap::new(),
            complaints,
            progressed_at: Instant::now(),
            members: vec![MemberView::default(); directory.genesis.members.len()],
            recent: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_count: 0,
            outcomes: HashMap::new(),
            outcome_names: VecDeque::new(),
            state: "starts".to_owned(),
            suspects: Vec::new(),
            stuck: String::new(),
            not_ordered: String::new(),
            checkpoints: Vec::new(),
            checkpoint_failure: String::new(),
            audit: None,
            audit_findings: VecDeque::new(),
            audit_failure: String::new(),
            explorer: String::new(),
            evidence,
            repairs: VecDeque::new(),
            refused: VecDeque::new(),
            constraints: Vec::new(),
            objections: VecDeque::new(),
            is_stopped: false,
            version: 0,
            chain,
        };
        let (state, version) = (Mutex::new(state), watch::Sender::new(0));
        Ok(Board { directory, place, evidence_folder, state, changed: Condvar::new(), version })
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the board.
    pub(super) fn read<T>(&self, look: impl FnOnce(&BoardState) -> T) -> T {
        look(&self.lock())
    }

    /// Changes the board, and wakes all that wait for a change.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut BoardState) -> T) -> T {
        let mut state = self.lock();
        let done = change(&mut state);
        state.version += 1;
        let version = state.version;
        drop(state);
        self.changed.notify_all();
        self.version.send_replace(version);
        done
    }

    /// Waits until the board is another one than at this version. Returns its version.
    pub(super) fn wait(&self, version: u64, limit: Duration) -> u64 {
        let state = self.lock();
        let is_same = |state: &mut BoardState| state.version == version && !state.is_stopped;
        let waited = self.changed.wait_timeout_while(state, limit, is_same);
        waited.unwrap_or_else(PoisonError::into_inner).0.version
    }

    /// Changes as a stream, for tasks.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Waits until this organization has a block that somebody else has seen.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] if it has not come to it in this time.
    pub(super) async fn wait_for_height(&self, seen: u64, limit: Duration) -> LedgerResult<()> {
        let mut changes = self.subscribe();
        let height = || self.read(|state| state.chain.height);
        let reached = async { while height() < seen && changes.changed().await.is_ok() {} };
        tokio::time::timeout(limit, reached).await.map_err(|_| {
            LedgerError::Missing(format!("it has {} blocks, and others have seen {seen}", height()))
        })
    }

    /// Whether a proposal waits to be certified.
    pub(super) fn is_pending(&self, name: &LedgerHash) -> bool {
        self.read(|state| state.pending.contains_key(name))
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.read(|state| state.is_stopped)
    }

    fn name_of(&self, member: u32) -> &str {
        &self.directory.genesis.members[member as usize].name
    }

    /// Takes a vote that has come in: as the own one of a member, or relayed. Votes on blocks that are no longer or not yet
    /// voted on have no effect.
    ///
    /// # Errors
    /// [`LedgerError::Malformed`] and [`LedgerError::Untrusted`], also if a member sends another one's vote as its own.
    pub(super) fn offer_vote(&self, message: &[u8], sender: Option<usize>) -> LedgerResult<()> {
        let is_known = |state: &BoardState| state.votes.values().any(|(_, known)| known == message);
        if sender.is_none() && self.read(is_known) {
            return Ok(());
        }
        let vote = Vote::verify(message, &self.directory.genesis, &self.directory.network)?;
        if let Some(sender) = sender.filter(|sender| *sender != vote.member as usize) {
            let (one, other) = (self.name_of(sender as u32), self.name_of(vote.member));
            let reason = format!("the certificate is that of \"{one}\" and the vote that of \"{other}\"");
            return Err(LedgerError::Untrusted(reason));
        }
        let proof = self.lock().double_vote(&vote);
        if let Some(other) = proof {
            let name = self.name_of(vote.member);
            let height = vote.header.height;
            let text = format!("\"{name}\" has signed two votes of round {} on block {height}", vote.round);
            self.add_evidence(&format!("votes-{height}-{}-{name}", vote.round), &text, &other, message);
        }
        let is_new = self.read(|state| state.would_take(&vote));
        if is_new {
            self.update(|state| state.take_vote(vote, message.to_vec()));
        }
        Ok(())
    }

    /// Takes a signed order of the next height, or what makes the next ordering service take over there. Two different orders
    /// are evidence against the ordering service. Returns the height that it is for.
    ///
    /// # Errors
    /// Those of [`BlockOrder::verify`]; [`LedgerError::Untrusted`] if it is longer than orders are.
    pub(super) fn offer_order(&self, message: &[u8]) -> LedgerResult<u64> {
        let (tenure, directory) = (self.read(|state| state.chain.tenure()), &self.directory);
        let order = BlockOrder::verify(message, &directory.genesis, &directory.network, tenure)?;
        let (height, hash) = (order.height(tenure), order.hash());
        let is_succession = matches!(order, BlockOrder::Succession(..));
        // Two of them have to go into one message as evidence.
        if !is_succession && message.len() > ORDER_BYTES_MAX {
            let (bytes, most) = (message.len(), ORDER_BYTES_MAX);
            let reason = format!("an order of {bytes} bytes: up to {most} are taken");
            return Err(LedgerError::Untrusted(reason));
        }
        if let BlockOrder::Succession(succession, _) = order {
            let known = succession.dismissals.iter().try_for_each(|known| self.offer_dismissal(known));
            known.and_then(|()| succession.proof.map_or(Ok(()), |proof| self.offer_proof(proof)))?;
        }
        let is_wanted = |state: &BoardState| {
            height == state.chain.height + 1
                && state.chain.tenure() == tenure
                && !state.orders.contains_key(&hash)
                && (state.orders.len() < ORDERS_MAX || is_succession)
        };
        if !self.read(is_wanted) {
            return Ok(height);
        }
        let other = self.update(|state| {
            let other = state.orders.values().find(|order| !order.is_succession);
            let other = other.map(|order| order.message.clone());
            state.orders.insert(hash, KnownOrder { message: message.to_vec(), is_succession });
            other
        });
        if let Some(other) = other.filter(|_| !is_succession) {
            self.note_two_orders(tenure, height, &other, message);
        }
        Ok(height)
    }

    /// Takes a dismissal that has come in.
    ///
    /// # Errors
    /// Those of [`Dismissal::verify`].
    pub(super) fn offer_dismissal(&self, message: &[u8]) -> LedgerResult<()> {
        if self.read(|state| state.complaints.is_known(message)) {
            return Ok(());
        }
        let dismissal = Dismissal::verify(message, &self.directory.genesis, &self.directory.network)?;
        let is_new = self.read(|state| state.complaints.would_take(&dismissal, state.chain.height + 1));
        if is_new {
            self.update(|state| state.complaints.take(dismissal, message.to_vec()));
        }
        Ok(())
    }

    /// Takes two orders that another member has found.
    ///
    /// # Errors
    /// Those of [`TwoOrders::check`].
    pub(super) fn offer_proof(&self, proof: TwoOrders) -> LedgerResult<()> {
        let tenure = self.read(|state| state.chain.tenure());
        let number = proof.check(&self.directory.genesis, &self.directory.network, tenure.service)?;
        let is_new = self.read(|state| state.complaints.proof().is_none() && state.chain.tenure() == tenure);
        if is_new {
            let height = number.saturating_add(tenure.since);
            self.note_two_orders(tenure, height, &proof.one, &proof.other);
        }
        Ok(())
    }

    /// Keeps two orders of one block, of the ordering service that had its turn when they were verified.
    fn note_two_orders(&self, tenure: Tenure, height: u64, one: &[u8], other: &[u8]) {
        let text = format!("the ordering server has signed two orders for block {height}");
        let name = format!("orders-{height}-{}", LedgerHash::of_row(other).short());
        self.add_evidence(&name, &text, one, other);
        let proof = TwoOrders { one: one.to_vec(), other: other.to_vec() };
        self.update(|state| state.complaints.add_proof(tenure, proof));
    }

    /// Takes two orders of the ordering service whose turn it is from the evidence that was kept before a stop.
    pub(super) fn reload_proof(&self) {
        for entry in std::fs::read_dir(&self.evidence_folder).into_iter().flatten().flatten() {
            let is_of_orders = entry.file_name().to_string_lossy().starts_with("orders-");
            let bytes = if is_of_orders { std::fs::read(entry.path()).unwrap_or_default() } else { continue };
            let Ok(proof) = TwoOrders::decode(&bytes) else { continue };
            let (tenure, directory) = (self.read(|state| state.chain.tenure()), &self.directory);
            if proof.check(&directory.genesis, &directory.network, tenure.service).is_ok() {
                self.update(|state| state.complaints.add_proof(tenure, proof));
            }
        }
    }

    /// Keeps two signed messages that must not both exist.
    fn add_evidence(&self, name: &str, text: &str, one: &[u8], other: &[u8]) {
        let path = self.evidence_folder.join(name);
        let bytes = CanonicalWriter::default().bytes(one).bytes(other).finish();
        let written =
            std::fs::create_dir_all(&self.evidence_folder).and_then(|()| std::fs::write(&path, bytes));
        let kept = match written {
            Ok(()) => format!("{text}; both are kept in {}", path.display()),
            Err(error) => format!("{text}; they could not be kept in {}: {error}", path.display()),
        };
        log(&kept);
        self.update(|state| {
            if !state.evidence.contains(&kept) {
                state.evidence.push(kept);
            }
        });
    }

    /// Notes why no ordering server takes proposals, or that one does.
    pub(super) fn note_not_ordered(&self, reason: String) {
        if self.read(|state| state.not_ordered != reason) {
            if !reason.is_empty() {
                log(format_args!("no ordering server takes transactions: {reason}"));
            }
            self.update(|state| state.not_ordered = reason);
        }
    }

    /// Notes a message that was refused, for people.
    pub(super) fn note_refused(&self, sender: &str, error: &LedgerError) {
        self.update(|state| push_line(&mut state.refused, format!("from \"{sender}\": {error}")));
    }

    /// Notes what the organization has not agreed to, for its own people.
    pub(super) fn note_objection(&self, line: String) {
        if self.read(|state| state.objections.back() != Some(&line)) {
            log(&line);
            self.update(|state| push_line(&mut state.objections, line));
        }
    }

    /// Notes an audit in the background, and what it has found, if that is not what the ledger certifies.
    pub(super) fn note_audit(&self, audit: AuditStatus, finding: Option<String>) {
        finding.iter().for_each(log);
        self.update(|state| {
            state.suspects = audit.differing.clone();
            state.audit = Some(audit);
            state.audit_failure.clear();
            finding.into_iter().for_each(|finding| push_line(&mut state.audit_findings, finding));
        });
    }

    /// Notes why an audit in the background has not read all tables.
    pub(super) fn note_audit_failure(&self, error: &LedgerError) {
        log(format_args!("no audit: {error}"));
        self.update(|state| state.audit_failure = error.to_string());
    }

    pub(super) fn note_repair(&self, line: String) {
        log(&line);
        self.update(|state| push_line(&mut state.repairs, line));
    }

    /// What this node sends to others about the next block.
    pub(super) fn votes_message(&self) -> VotesMessage {
        self.read(|state| VotesMessage {
            height: state.chain.height,
            own: state.own_vote.as_ref().map(|vote| vote.message.clone()).unwrap_or_default(),
            known: state.votes.values().map(|(_, message)| message.clone()).collect(),
            last: state.last_vote.clone(),
            dismissals: state.complaints.messages(),
            two_orders_of: state.complaints.proof().map_or(0, |_| state.chain.tenure().service + 1),
            waiting: state.handed_on().unwrap_or_default(),
        })
    }

    /// A certified block has become the head; its outcomes are told to those that wait.
    pub(super) fn publish_block(
        &self,
        chain: &LedgerChain,
        certified: CertifiedBlock,
        failures: &[(usize, String)],
        entries: &[Vec<u8>],
        own_vote: &[u8],
    ) {
        let header = certified.0.header.clone();
        let unagreed = unagreed_entries(chain, &header, entries);
        self.update(|state| {
            state.last_vote = own_vote.to_vec();
            state.members[self.place].voted_height = header.height;
            state.members[self.place].consents = Some(true);
            for (vote, _) in std::mem::take(&mut state.votes).into_values() {
                state.members[vote.member as usize].note_vote(&vote, header.height, &header.hash());
            }
            for (index, entry) in entries.iter().enumerate() {
                let Ok(proposal) = OrderEntry::of(entry, &chain.genesis).map(|entry| entry.proposal()) else {
                    continue;
                };
                if let Some(error) = unagreed.get(&index) {
                    state.forget_unagreed(&header, index, entry, proposal, error);
                    continue;
                }
                let reason = failures.iter().find(|(at, _)| *at == index).map(|(_, reason)| reason.clone());
                let outcome = OutcomeMessage {
                    height: header.height,
                    index: index as u32,
                    has_succeeded: header.outcomes.get(index),
                    reason: reason.unwrap_or_default(),
                };
                state.note_outcome(LedgerHash::of_row(proposal), outcome);
            }
            state.own_vote = None;
            state.orders.clear();
            state.stuck.clear();
            if state.chain.tenure() != chain.tenure() {
                // The next ordering service knows none of them.
                state.pending.values_mut().for_each(|pending| pending.sent = None);
            }
            state.complaints.renew(chain.tenure());
            state.progressed_at = Instant::now();
            state.chain = chain.clone();
            state.recent.insert(header.height, Arc::new(certified));
            let oldest = chain.height.saturating_sub(RECENT_BLOCKS_MAX);
            state.recent.retain(|height, _| *height > oldest);
        });
    }

    /// Certified blocks above a height that are in memory, or nothing if the next one is not.
    pub(super) fn recent_blocks(&self, above: u64, to: u64) -> Vec<Arc<CertifiedBlock>> {
        self.read(|state| {
            let has_next = state.recent.contains_key(&above.saturating_add(1));
            let range = state.recent.range(above.saturating_add(1)..).filter(|_| has_next);
            range.take_while(|(height, _)| **height <= to).map(|(_, block)| block.clone()).collect()
        })
    }

    /// What became of a proposal, if it was certified lately.
    pub(super) fn outcome(&self, name: &LedgerHash) -> Option<OutcomeMessage> {
        self.read(|state| state.outcomes.get(name).cloned())
    }

    /// Fills in the outcomes of proposals that were certified lately, where there are none yet. Returns how many are missing
    /// then.
    pub(super) fn take_outcomes(&self, names: &[LedgerHash], outcomes: &mut [OutcomeMessage]) -> usize {
        self.read(|state| {
            let mut missing = 0;
            for (name, outcome) in names.iter().zip(outcomes).filter(|(_, outcome)| outcome.height == 0) {
                match state.outcomes.get(name) {
                    Some(found) => outcome.clone_from(found),
                    None => missing += 1,
                }
            }
            missing
        })
    }

    /// Remembers an outcome that was found in the file.
    pub(super) fn add_outcome(&self, name: LedgerHash, outcome: OutcomeMessage) {
        self.update(|state| state.note_outcome(name, outcome));
    }

    /// Keeps proposals until they are certified, so that they are sent to the ordering server, and again if that was killed.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] if too many wait; none is kept then.
    pub(super) fn add_pending(&self, proposals: Vec<(LedgerHash, Vec<u8>)>) -> LedgerResult<()> {
        if proposals.is_empty() {
            return Ok(());
        }
        let added: usize = proposals.iter().map(|(_, message)| message.len()).sum();
        self.update(|state| {
            let bytes: usize = state.pending.values().map(|proposal| proposal.message.len()).sum();
            if state.pending.len() + proposals.len() > PENDING_MAX || bytes + added > PENDING_BYTES_MAX {
                let reason = "too many transactions wait to be certified; send it again later";
                return Err(LedgerError::Missing(reason.into()));
            }
            for (name, message) in proposals {
                state.pending_count += 1;
                let place = state.pending_count;
                let proposal = || PendingProposal { message, since: Instant::now(), sent: None, place };
                state.pending.entry(name).or_insert_with(proposal);
            }
            Ok(())
        })
    }

    /// For people; what may be about local data only if they are the organization's own.
    pub(super) fn status(&self, is_own: bool) -> StatusMessage {
        self.read(|state| {
            let genesis = &self.directory.genesis;
            let status = |(at, member): (usize, &MemberView)| MemberStatus {
                name: genesis.members[at].name.clone(),
                height: if at == self.place { state.chain.height } else { member.height },
                is_reached: at == self.place || member.is_reached,
                voted_height: member.voted_height,
                consents: member.consents,
            };
            StatusMessage {
                name: self.directory.own().name.clone(),
                network: self.directory.network.to_string(),
                height: state.chain.height,
                head: state.chain.head.to_string(),
                state: state.state.clone(),
                suspects: state.suspects.clone(),
                members: state.members.iter().enumerate().map(status).collect(),
                evidence: state.evidence.clone(),
                ordering: self.ordering_lines(state),
                repairs: state.repairs.iter().cloned().collect(),
                stuck: state.stuck.clone(),
                not_ordered: state.not_ordered.clone(),
                refused: state.refused.iter().cloned().collect(),
                policies: state.policies(),
                constraints: state.constraints.iter().filter(|_| is_own).cloned().collect(),
                objections: state.objections.iter().filter(|_| is_own).cloned().collect(),
                checkpoints: state.checkpoints.clone(),
                checkpoint_failure: state.checkpoint_failure.clone(),
                audit: state.audit.clone(),
                audit_findings: state.audit_findings.iter().cloned().collect(),
                audit_failure: state.audit_failure.clone(),
                explorer: if is_own { state.explorer.clone() } else { String::new() },
            }
        })
    }
}

impl Board {
    /// Whose orders count, for people; nothing where nobody could take over.
    fn ordering_lines(&self, state: &BoardState) -> Vec<String> {
        let (genesis, tenure) = (&self.directory.genesis, state.chain.tenure());
        let count = genesis.services().count();
        if count == 1 {
            return Vec::new();
        }
        let servers = self.directory.orderings(tenure.service).map(|party| party.name.as_str());
        let servers = servers.collect::<Vec<_>>().join(", ");
        let mut line = format!("service {} of {count} ({servers})", tenure.service + 1);
        if let Some((height, reason)) = state.chain.successions.last() {
            line.push_str(&format!(", since block {height}: {reason}"));
        }
        let complaints = state.complaints.lines(genesis);
        let has_none = tenure.service as usize + 1 == count && state.complaints.proof().is_some();
        let last =
            has_none.then(|| "it has signed two orders of one number, and no other service is left".into());
        std::iter::once(line).chain(complaints).chain(last).collect()
    }
}

/// Entries of a certified block that have failed because they had not the agreements that they need. That is no outcome of
/// their proposals, which may come again with them.
fn unagreed_entries(
    chain: &LedgerChain,
    header: &BlockHeader,
    entries: &[Vec<u8>],
) -> BTreeMap<usize, LedgerError> {
    let has_policies = chain.tables.values().any(|table| table.agreement.is_some());
    if !has_policies && entries.len() != 1 {
        return BTreeMap::new();
    }
    let failed = entries.iter().enumerate().filter(|(index, _)| !header.outcomes.get(*index));
    let error = |(index, entry): (usize, &Vec<u8>)| {
        Some((index, chain.check_agreements(entry, header.height).err()?))
    };
    failed.filter_map(error).collect()
}

fn push_line(lines: &mut VecDeque<String>, line: String) {
    if lines.back() != Some(&line) {
        lines.push_back(line);
    }
    if lines.len() > LINES_MAX {
        lines.pop_front();
    }
}

impl MemberView {
    /// Notes a vote on a block that is certified, for people.
    fn note_vote(&mut self, vote: &Vote, height: u64, head: &LedgerHash) {
        if vote.header.height == height && vote.header.height >= self.voted_height {
            self.voted_height = height;
            self.consents = Some(vote.header.hash() == *head);
        }
    }
}

impl BoardState {
    /// Another chain, as a file has it that was opened again; what was known of the next block is of no use if that is another
    /// one.
    pub(super) fn reopen(&mut self, chain: LedgerChain, own_vote: Option<OwnVote>) {
        if self.chain.height != chain.height {
            self.votes.clear();
            self.orders.clear();
            self.progressed_at = Instant::now();
        }
        self.complaints.renew(chain.tenure());
        (self.chain, self.own_vote) = (chain, own_vote);
    }

    /// The oldest transaction, if it has waited for so long without a block.
    pub(super) fn waits_for(&self, patience: Duration) -> Option<&Vec<u8>> {
        if self.progressed_at.elapsed() < patience {
            return None;
        }
        let oldest = self.pending.values().min_by_key(|pending| pending.place)?;
        Some(&oldest.message).filter(|_| oldest.since.elapsed() >= patience)
    }

    /// A transaction that has waited for half of the patience. Other members hand it to the ordering service, too, and see so
    /// themselves whether that orders it.
    fn handed_on(&self) -> Option<Vec<u8>> {
        self.complaints.patience.and_then(|patience| self.waits_for(patience / 2)).cloned()
    }

    /// Counts the changes of the board.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Signed votes on the next block.
    pub(super) fn vote_messages(&self) -> Vec<Vec<u8>> {
        self.votes.values().map(|(_, message)| message.clone()).collect()
    }

    /// Votes on the next block.
    pub(super) fn votes(&self) -> impl Iterator<Item = &Vote> {
        self.votes.values().map(|(vote, _)| vote)
    }

    /// Another vote of the same member in the same round.
    fn double_vote(&self, vote: &Vote) -> Option<Vec<u8>> {
        let in_round = |(other, _): &&(Vote, Vec<u8>)| {
            (other.member, other.round, other.header.height) == (vote.member, vote.round, vote.header.height)
                && other.header != vote.header
        };
        self.votes.values().find(in_round).map(|(_, message)| message.clone())
    }

    fn would_take(&self, vote: &Vote) -> bool {
        if vote.header.height == self.chain.height {
            return self.members[vote.member as usize].voted_height < vote.header.height;
        }
        let of_member = self.votes.keys().filter(|(_, member, _)| *member == vote.member).count();
        vote.header.height == self.chain.height + 1
            && of_member < VOTES_OF_MEMBER_MAX
            && !self.votes.contains_key(&(vote.round, vote.member, vote.header.hash()))
    }

    fn take_vote(&mut self, vote: Vote, message: Vec<u8>) {
        let (height, head) = (self.chain.height, self.chain.head);
        if vote.header.height == height {
            self.members[vote.member as usize].note_vote(&vote, height, &head);
        } else if vote.header.height == height + 1 {
            self.votes.insert((vote.round, vote.member, vote.header.hash()), (vote, message));
        }
    }

    /// An entry had not its agreements. Where it was sent from here they have ended, and are asked for again when its client
    /// comes again.
    fn forget_unagreed(
        &mut self,
        header: &BlockHeader,
        index: usize,
        entry: &[u8],
        proposal: &[u8],
        error: &LedgerError,
    ) {
        let name = LedgerHash::of_row(proposal);
        if self.pending.get(&name).is_some_and(|pending| pending.message == entry) {
            self.pending.remove(&name);
        }
        let line = format!("in block {}, transaction {index} without effect: {error}", header.height);
        push_line(&mut self.refused, line);
    }

    fn policies(&self) -> Vec<String> {
        let of = |table: &SharedTable| Some(format!("{}: {}", table.name, table.agreement.as_ref()?));
        self.chain.tables.values().filter_map(of).collect()
    }

    /// The first outcome of a proposal stands: if it is in a later block again, it is a repetition there.
    fn note_outcome(&mut self, name: LedgerHash, outcome: OutcomeMessage) {
        self.pending.remove(&name);
        if self.outcomes.contains_key(&name) {
            return;
        }
        self.outcomes.insert(name, outcome);
        self.outcome_names.push_back(name);
        if self.outcome_names.len() > OUTCOMES_MAX
            && let Some(oldest) = self.outcome_names.pop_front()
        {
            self.outcomes.remove(&oldest);
        }
    }
}
