//! The thread of a node that owns its organization: the ExecutionServer and the CommitServer of the dissertation's section 4.7
//! in one, because a block is one transaction of the database that is executed, voted on, and then committed.
//!
//! ```text
//! others are ahead ──────────────> their certified blocks, executed and compared; where that differs, a repair
//! no vote yet, an order is there ─> execute, vote
//! own vote has the quorum ────────> commit
//! this round cannot have one ─────> audit and repair, or the order that most have; vote in the next round
//! ```

use super::board::Board;
use super::call::RemoteProcess;
use super::donor::{ComparisonCall, DonorPatience, RemoteDonor, answer_comparison};
use super::log::log;
use super::wire::{AuditStatus, FindingsMessage, ROWS_MESSAGE_BYTES_MAX};
use crate::audit::{AuditReport, AuditSettings};
use crate::change::TableStates;
use crate::checkpoint::{CheckpointSettings, checkpoint_folder};
use crate::consensus::{VoteCount, count_votes};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::member::address::{open_parallel_member, snapshot_opener};
use crate::member::snapshot::MemberSnapshot;
use crate::organization::{Decision, Organization};
use crate::recovery::{DifferingRow, DifferingRows, Donor as _, RecoveryClass, RecoveryReport};
use crate::signature::KeyPair;
use crate::succession::BlockOrder;
use crate::verify::CertifiedBlock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The engine looks around this often even if the board has not changed.
const LOOK_AROUND: Duration = Duration::from_millis(500);

/// While people wait for an audit it looks around more often for the end of that.
const AUDIT_LOOK_AROUND: Duration = Duration::from_millis(20);

/// How long to wait before a database that has failed is connected again.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// While a round has no quorum the tables are read again this often.
const AUDIT_PAUSE: Duration = Duration::from_secs(10);

/// How long a member that was no good donor is left alone, the first time; twice as long each further time.
const AVOID_PAUSE: Duration = Duration::from_millis(500);
const AVOID_DOUBLINGS_MAX: u32 = 9;

/// Rows that a report names.
const ROWS_SHOWN: usize = 8;

/// What calls ask of the engine.
pub(super) enum EngineRequest {
    /// Compare rows with those of another member.
    Compare(ComparisonCall),
    /// Compare the tables with the ledger; and make them that, if it is a repair.
    Audit {
        /// Whether what differs is repaired.
        is_repair: bool,
        /// By which class, if it is not that of the configuration.
        class: Option<RecoveryClass>,
        /// What was found.
        answer: oneshot::Sender<LedgerResult<FindingsMessage>>,
    },
}

/// Where the engine is asked.
#[derive(Clone)]
pub(super) struct EngineInbox {
    requests: Sender<EngineRequest>,
    is_recovering: Arc<AtomicBool>,
}

impl EngineInbox {
    /// Hands a request to the engine.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] if it takes over rows itself just now (two that waited for each other would wait forever), or
    /// has stopped.
    pub(super) fn ask(&self, request: EngineRequest) -> LedgerResult<()> {
        if self.is_recovering.load(Ordering::Acquire) {
            return Err(LedgerError::Missing("it is being repaired itself; ask another member".into()));
        }
        self.requests.send(request).map_err(|_| LedgerError::Missing("it stops".into()))
    }
}

/// What the engine needs to begin.
pub(super) struct EngineSettings {
    pub(super) board: Arc<Board>,
    pub(super) file: PathBuf,
    pub(super) database: String,
    /// Over how many connections a block is executed.
    pub(super) connections: usize,
    /// How the organization comes back.
    pub(super) recovery: RecoveryClass,
    /// After how many blocks there is a checkpoint.
    pub(super) checkpoint_blocks: u64,
    /// The pause between two audits in the background; nothing if there are only those that people want.
    pub(super) audit_pause: Option<Duration>,
    pub(super) keys: KeyPair,
    /// The other organizations, by their places.
    pub(super) others: Vec<(usize, RemoteProcess)>,
    pub(super) runtime: Handle,
}

/// A thread that compares rows for another member.
struct RunningDonation {
    is_given_up: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// The engine of a node.
pub(super) struct Engine {
    settings: EngineSettings,
    requests: Receiver<EngineRequest>,
    is_recovering: Arc<AtomicBool>,
    organization: Option<Organization>,
    audited: Option<(u64, u32, Instant)>,
    /// Height and round of a vote whose order has come to something else when it was executed again.
    unrepeatable: Option<(u64, u32)>,
    /// The height at which blocks were executed again last: a second time there rows are taken from a donor.
    replayed: Option<u64>,
    /// The height after which it was outvoted, and does not come back by itself.
    halted: Option<u64>,
    /// Members that were no good donors: how often, and until when they are not asked again.
    avoided: BTreeMap<usize, (u32, Instant)>,
    /// Tables whose differing rows an audit has named, and that nobody repairs.
    named: Vec<String>,
    /// The thread that compares rows for another member.
    donation: Option<RunningDonation>,
    /// People that wait for an audit, and since when.
    asking: Vec<(Instant, oneshot::Sender<LedgerResult<FindingsMessage>>)>,
}

impl Engine {
    pub(super) fn new(settings: EngineSettings) -> (Engine, EngineInbox) {
        let (sender, requests) = std::sync::mpsc::channel();
        let is_recovering = Arc::new(AtomicBool::new(false));
        let inbox = EngineInbox { requests: sender, is_recovering: is_recovering.clone() };
        let engine = Engine {
            settings,
            requests,
            is_recovering,
            organization: None,
            audited: None,
            unrepeatable: None,
            replayed: None,
            halted: None,
            avoided: BTreeMap::new(),
            named: Vec::new(),
            donation: None,
            asking: Vec::new(),
        };
        (engine, inbox)
    }

    fn board(&self) -> Arc<Board> {
        self.settings.board.clone()
    }

    fn donor(&self, process: RemoteProcess) -> RemoteDonor {
        RemoteDonor::new(process, self.settings.runtime.clone(), self.board())
    }

    /// Whether a member has failed as a donor, and is to be left alone for a while: one that stalls must not stop all.
    fn is_avoided(&self, place: usize) -> bool {
        self.avoided.get(&place).is_some_and(|(_, until)| Instant::now() < *until)
    }

    fn avoid(&mut self, place: usize) {
        let (times, _) = self.avoided.get(&place).copied().unwrap_or((0, Instant::now()));
        let pause = AVOID_PAUSE.saturating_mul(1 << times.min(AVOID_DOUBLINGS_MAX));
        self.avoided.insert(place, (times + 1, Instant::now() + pause));
    }

    fn say(&self, state: String) {
        let board = &self.settings.board;
        if board.read(|board| board.state != state) {
            board.update(|board| board.state = state);
        }
    }

    /// Works until the node stops. What goes wrong is on the board, and is tried again.
    pub(super) fn run(mut self) {
        let board = self.board();
        while !board.is_stopped() {
            let version = board.read(|state| state.version());
            self.answer_requests();
            match self.step() {
                Ok(true) => {}
                Ok(false) => {
                    let limit = if self.asking.is_empty() { LOOK_AROUND } else { AUDIT_LOOK_AROUND };
                    board.wait(version, limit);
                }
                Err(error) => {
                    let state = format!("stopped by an error, tries again: {error}");
                    if board.read(|board| board.state != state) {
                        log(&error);
                    }
                    self.say(state);
                    if let LedgerError::Database { .. } | LedgerError::File { .. } = error {
                        self.organization = None;
                    }
                    self.pause(REOPEN_PAUSE);
                }
            }
        }
        if let Some(organization) = &mut self.organization {
            organization.abandon();
        }
    }

    fn pause(&self, limit: Duration) {
        let (board, until) = (self.board(), Instant::now() + limit);
        while !board.is_stopped() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One thing that is to be done. Says whether there was one.
    fn step(&mut self) -> LedgerResult<bool> {
        if self.organization.is_none() {
            self.open()?;
        }
        self.note_checkpoints()?;
        self.note_audits();
        let board = self.board();
        let Some(organization) = &self.organization else { return Ok(false) };
        let (is_sound, height) = (organization.is_sound(), organization.chain().height);
        if !is_sound {
            return self.repair_if_wanted();
        }
        let ahead = board.read(|state| state.members.iter().map(|member| member.height).max());
        let is_behind = ahead.is_some_and(|ahead| ahead > height) && self.halted != Some(height);
        if is_behind && self.follow()? {
            return Ok(true);
        }
        match organization_vote(&self.organization) {
            None => self.execute_order(),
            Some(_) => self.decide(),
        }
    }

    /// Opens the organization over its database.
    fn open(&mut self) -> LedgerResult<()> {
        self.say("opens its file and its database".to_owned());
        let keys = KeyPair::from_seed(&self.settings.keys.seed());
        let member = open_parallel_member(&self.settings.database, self.settings.connections)?;
        let mut organization = Organization::open(&self.settings.file, keys, member)?;
        organization.keep_checkpoints(CheckpointSettings {
            folder: checkpoint_folder(&self.settings.file),
            blocks: self.settings.checkpoint_blocks,
            open_snapshot: snapshot_opener(&self.settings.database)?,
        })?;
        let (pause, open_snapshot) = (self.settings.audit_pause, snapshot_opener(&self.settings.database)?);
        organization.keep_audits(AuditSettings { pause, open_snapshot });
        let checkpoints = organization.checkpoints().map(|own| own.heights()).unwrap_or_default();
        let (chain, suspects) = (organization.chain().clone(), organization.suspects.clone());
        let (own_vote, system) = (organization.own_vote().cloned(), organization.system().to_owned());
        self.board().update(|state| {
            state.reopen(chain, own_vote.clone());
            state.suspects = suspects;
            state.checkpoints = checkpoints;
            state.state = format!("works with {system}");
        });
        if let Some(vote) = own_vote {
            self.board().offer_order(&vote.order)?;
            self.board().offer_vote(&vote.message, None)?;
        }
        self.organization = Some(organization);
        Ok(())
    }

    /// Tells of checkpoints that were made or could not be. One whose rows were not what its block certifies has found what an
    /// audit finds.
    fn note_checkpoints(&mut self) -> LedgerResult<()> {
        let Some(organization) = &mut self.organization else { return Ok(()) };
        let Some(checkpoints) = organization.checkpoints() else { return Ok(()) };
        let Some(ended) = checkpoints.ended() else { return Ok(()) };
        let (heights, failure) = (checkpoints.heights(), ended.as_ref().err().map(ToString::to_string));
        if let Some(failure) = &failure {
            log(format_args!("no checkpoint: {failure}"));
        }
        self.settings.board.update(|state| {
            state.checkpoints = heights;
            state.checkpoint_failure = failure.unwrap_or_default();
        });
        if let Err(LedgerError::Untrusted(_)) = ended {
            let found = self.audit_and_repair(None)?;
            let is_wanted = self.settings.recovery != RecoveryClass::None;
            if let Some(organization) = self.organization.as_mut().filter(|_| is_wanted) {
                // They are repaired before anything else is done, as soon as that can be.
                organization.suspects = found.differing;
            }
        }
        Ok(())
    }

    /// Tells of audits beside the blocks that have ended, and begins one that is due or that people want. Tables of which one in
    /// the background has found that they differ are repaired before anything else is done, as the configuration says.
    fn note_audits(&mut self) {
        let (board, is_wanted) = (self.board(), !self.asking.is_empty());
        let audit = |organization: &mut Organization| organization.audit_in_background(is_wanted);
        let report = match self.organization.as_mut().and_then(audit) {
            None => return,
            Some(Err(error)) => {
                for (_, answer) in std::mem::take(&mut self.asking) {
                    let _ = answer.send(Err(LedgerError::Missing(format!("no audit: {error}"))));
                }
                return board.note_audit_failure(&error);
            }
            Some(Ok(report)) => report,
        };
        self.answer_audited(&report);
        let is_new = report.is_scheduled && !report.differing.is_empty() && report.differing != self.named;
        if report.differing.is_empty() {
            self.named.clear();
        }
        let finding = is_new.then(|| self.show_finding(&report));
        let ended_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let audit = AuditStatus {
            height: report.height,
            ended_at: ended_at.as_secs(),
            took_ms: report.took.as_millis() as u64,
            rows: report.rows,
            differing: report.differing.clone(),
        };
        board.note_audit(audit, finding);
        let is_repaired = report.is_scheduled && self.settings.recovery != RecoveryClass::None;
        if let Some(organization) = self.organization.as_mut().filter(|_| is_repaired) {
            organization.suspects = report.differing;
        }
    }

    /// Tells people what an audit has found that began after they had asked.
    fn answer_audited(&mut self, report: &AuditReport) {
        let found = AuditFindings { differing: report.differing.clone(), has_repaired: false };
        let (asked, later) =
            std::mem::take(&mut self.asking).into_iter().partition(|(at, _)| *at <= report.begun);
        self.asking = later;
        for (_, answer) in asked {
            let _ = answer.send(Ok(self.show_findings(report.height, &found)));
        }
    }

    /// What an audit has found, for people. A repair from a state names the rows that it writes; otherwise they are looked up.
    fn show_finding(&mut self, report: &AuditReport) -> String {
        let (height, class) = (report.height, self.settings.recovery);
        let mut text = format!(
            "the audit of block {height} has found what it does not certify in {}",
            report.differing.join(", ")
        );
        if class != RecoveryClass::FromState {
            let rows = self.show_differing_rows();
            // They stay so, and are not looked up at each audit.
            let is_named = class == RecoveryClass::None && rows.is_ok();
            self.named = if is_named { report.differing.clone() } else { Vec::new() };
            let unknown = |reason| format!(": which rows is not known: {reason}");
            text.push_str(&rows.unwrap_or_else(unknown));
        }
        if class == RecoveryClass::None {
            text.push_str("; recovery is \"none\": \"repair --method\" repairs it");
        }
        text
    }

    /// The rows that differ from those of the first member that has the last block, too.
    fn show_differing_rows(&mut self) -> Result<String, String> {
        let mut reasons = Vec::new();
        for (place, process) in self.settings.others.clone() {
            let mut donor = self.donor(process.with_answers_up_to(ROWS_MESSAGE_BYTES_MAX));
            let is_reached = self.settings.board.read(|state| state.members[place].is_reached);
            let Some(organization) = self.organization.as_mut().filter(|_| is_reached) else { continue };
            self.is_recovering.store(true, Ordering::Release);
            let compared = organization.differing_rows(&mut donor);
            self.is_recovering.store(false, Ordering::Release);
            match compared {
                Ok(rows) => {
                    let DifferingRows { count, rows } = rows;
                    let shown = rows.iter().take(ROWS_SHOWN);
                    let shown = shown.map(|row| {
                        let DifferingRow { table, key, is, certified } = row;
                        format!("; {table} {key} is {is}, certified is {certified}")
                    });
                    return Ok(format!(": {count} rows{}", shown.collect::<String>()));
                }
                Err(error) => reasons.push(error.to_string()),
            }
        }
        Err(if reasons.is_empty() { "no other member is reached".into() } else { reasons.join("; ") })
    }

    /// Repairs tables that are not what the ledger certifies, as the configuration says. Says whether it has.
    fn repair_if_wanted(&mut self) -> LedgerResult<bool> {
        if self.settings.recovery == RecoveryClass::None {
            let text = "has tables that are not what the ledger certifies, and recovery is \"none\": \"repair --method\" repairs them";
            self.say(text.to_owned());
            return Ok(false);
        }
        self.repair(self.settings.recovery)?;
        Ok(true)
    }

    /// Executes the order of the next block and votes, if the order has come.
    fn execute_order(&mut self) -> LedgerResult<bool> {
        let board = self.board();
        let order = board.read(|state| state.first_order(board.place));
        let Some(order) = order else { return Ok(false) };
        self.vote(&order, 1).map(|()| true)
    }

    fn vote(&mut self, order: &[u8], round: u32) -> LedgerResult<()> {
        let Some(organization) = &mut self.organization else { return Ok(()) };
        let message = organization.execute_in(order, round)?;
        let own_vote = organization.own_vote().cloned();
        self.settings.board.update(|state| state.own_vote = own_vote);
        self.settings.board.offer_vote(&message, None)
    }

    /// Counts the votes on the block that was voted for.
    fn decide(&mut self) -> LedgerResult<bool> {
        let board = self.board();
        let Some(organization) = &mut self.organization else { return Ok(false) };
        let Some(own) = organization.own_vote().cloned() else { return Ok(false) };
        let name = (own.header.height, own.round);
        if !organization.has_open_block() && self.unrepeatable != Some(name) && !organization.resume()? {
            self.unrepeatable = Some(name);
        }
        let votes = board.read(|state| state.vote_messages());
        let (chain, height) = (organization.chain(), own.header.height);
        let count = count_votes(&chain.genesis, &chain.network, height, &votes);
        match &count.winner {
            Some(header) if *header == own.header && organization.has_open_block() => {
                let decision = organization.decide(&votes)?;
                if let Decision::Committed(count) = decision {
                    self.publish(own.order, count)?;
                }
                Ok(true)
            }
            // The members that have it will soon be ahead, and are followed then.
            Some(_) => Ok(false),
            None if count.round > own.round => self.next_round(&count),
            None => {
                let waits = count.dissents.is_empty() && count.faults.is_empty();
                let text = if waits { String::new() } else { count.explain(&chain.genesis, height) };
                if board.read(|state| state.stuck != text) {
                    board.update(|state| state.stuck = text);
                }
                Ok(false)
            }
        }
    }

    fn publish(&mut self, order: Vec<u8>, count: VoteCount) -> LedgerResult<()> {
        let Some(header) = count.winner else { return Ok(()) };
        let block = crate::block::LedgerBlock { header, order };
        let votes = count.votes.into_iter().map(|(_, vote)| vote).collect();
        self.publish_block((block, votes))
    }

    fn publish_block(&self, certified: CertifiedBlock) -> LedgerResult<()> {
        let Some(organization) = &self.organization else { return Ok(()) };
        let chain = organization.chain();
        let entries = BlockOrder::decode_entries(&certified.0.order, &chain.genesis)?;
        let board = &self.settings.board;
        if board
            .read(|state| !state.orders.is_empty() && !state.orders.contains_key(&certified.0.header.order))
        {
            // The ordering service has given this member another one.
            let offered = board.offer_order(&certified.0.order);
            if let Err(error) = offered {
                board.note_refused(&board.directory.own().name, &error);
            }
        }
        if let Some((_, reason)) = chain.successions.last().filter(|(at, _)| *at == certified.0.header.height)
        {
            let service = chain.tenure().service + 1;
            log(format_args!("ordering service {service} takes over by block {}: {reason}", chain.height));
        }
        let executed = organization.last_executed();
        let executed = executed.filter(|executed| executed.block.header == certified.0.header);
        if let Some(reason) = executed.and_then(|executed| executed.serial_because.as_ref()) {
            let (height, system) = (certified.0.header.height, organization.system());
            let text = format!("block {height} was executed on one connection: {reason}");
            log(&text);
            self.say(format!("works with {system}; {text}"));
        }
        let failures = executed.map(|executed| executed.failures.clone()).unwrap_or_default();
        let own_vote = organization.last_vote().unwrap_or_default();
        self.settings.board.publish_block(chain, certified, &failures, &entries, own_vote);
        Ok(())
    }

    /// No header can get a quorum in the round of the own vote any more. Votes in the next one with other tables or another
    /// order if the own ones were not right, or with what it has if another member has gone on.
    fn next_round(&mut self, count: &VoteCount) -> LedgerResult<bool> {
        let board = self.board();
        let Some(own) = organization_vote(&self.organization) else { return Ok(false) };
        let height = own.0;
        let text = count.explain(&board.directory.genesis, height);
        board.update(|state| state.stuck = text);
        let round = count.round;
        let chosen = board.read(|state| choose_order(state.votes(), round - 1));
        let own_order = board.read(|state| state.own_vote.as_ref().map(|vote| vote.header.order));
        if chosen.is_some() && chosen != own_order {
            let known = |hash| board.read(|state| state.orders.get(&hash).map(|order| order.message.clone()));
            let order = chosen.and_then(known);
            let Some(order) = order else { return Ok(false) };
            self.vote(&order, round)?;
            return Ok(true);
        }
        let Some(order) = board.read(|state| state.own_vote.as_ref().map(|vote| vote.order.clone())) else {
            return Ok(false);
        };
        let is_due = self.audited.is_none_or(|(audited, in_round, at)| {
            (audited, in_round) != (height, round) || at.elapsed() > AUDIT_PAUSE
        });
        if is_due {
            self.audited = Some((height, round, Instant::now()));
            if self.audit_and_repair(Some(self.settings.recovery))?.has_repaired {
                self.vote(&order, round)?;
                return Ok(true);
            }
        }
        if board.read(|state| state.votes().any(|vote| vote.round >= round)) {
            self.vote(&order, round)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes over blocks that others have certified. Says whether there was one.
    fn follow(&mut self) -> LedgerResult<bool> {
        let board = self.board();
        let mut has_progressed = false;
        for at in 0..self.settings.others.len() {
            let (place, process) = &self.settings.others[at];
            let (place, process) = (*place, process.clone());
            let Some(organization) = &self.organization else { return Ok(false) };
            let (own, theirs) =
                (organization.chain().height, board.read(|state| state.members[place].height));
            let is_reached = board.read(|state| state.members[place].is_reached);
            if theirs <= own || !is_reached || self.is_avoided(place) {
                continue;
            }
            match self.follow_one(process.clone(), theirs) {
                Ok(()) => {
                    has_progressed = true;
                    self.avoided.remove(&place);
                }
                Err(error @ (LedgerError::Database { .. } | LedgerError::File { .. })) => return Err(error),
                Err(error) => {
                    board.note_refused(&process.name, &error);
                    self.avoid(place);
                }
            }
        }
        Ok(has_progressed)
    }

    fn follow_one(&mut self, process: RemoteProcess, to: u64) -> LedgerResult<()> {
        let mut donor = self.donor(process);
        let Some(organization) = &mut self.organization else { return Ok(()) };
        let blocks = donor.certified_blocks(organization.chain().height, to)?;
        if blocks.is_empty() {
            let reason = format!("\"{}\" says that it has block {to}, and has not", donor.name());
            return Err(LedgerError::Untrusted(reason));
        }
        for certified in blocks {
            let Some(organization) = &mut self.organization else { return Ok(()) };
            if organization.adopt_by_execution(&certified)? {
                self.publish_block(certified)?;
                continue;
            }
            let differences = organization
                .last_executed()
                .map(|executed| executed.block.header.differences(&certified.0.header).join(", "));
            let height = certified.0.header.height;
            let text = format!("outvoted on block {height}: {}", differences.unwrap_or_default());
            self.settings.board.note_repair(text);
            return self.recover_outvoted(donor.process);
        }
        Ok(())
    }

    /// Comes back after it was outvoted, as the configuration says.
    fn recover_outvoted(&mut self, donor: RemoteProcess) -> LedgerResult<()> {
        let Some(organization) = &mut self.organization else { return Ok(()) };
        let height = organization.chain().height;
        match self.settings.recovery {
            RecoveryClass::None => {
                organization.abandon();
                self.halted = Some(height);
                let next = height + 1;
                self.say(format!(
                    "was outvoted on block {next}, and recovery is \"none\": \"repair --method\" repairs it"
                ));
                Ok(())
            }
            class if class.is_replay() && self.replayed != Some(height) => {
                self.replayed = Some(height);
                self.replay(class)
            }
            _ => self.recover_from(donor),
        }
    }

    /// Executes blocks of the own file again; those that others have beside them are followed then.
    fn replay(&mut self, class: RecoveryClass) -> LedgerResult<()> {
        let Some(organization) = &mut self.organization else { return Ok(()) };
        let (board, system) = (self.settings.board.clone(), organization.system().to_owned());
        board.update(|state| state.state = format!("executes blocks again in {system} ({class})"));
        // It drops tables, which cannot be as long as a snapshot is read.
        if let Some(RunningDonation { is_given_up, thread }) = self.donation.take() {
            is_given_up.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
        self.is_recovering.store(true, Ordering::Release);
        let replayed = organization.recover_by_replay(class, None);
        self.is_recovering.store(false, Ordering::Release);
        match replayed {
            Ok(report) => {
                let text = format!("repaired by {class}: {}", report.show_replay().unwrap_or_default());
                log(&text);
                board.note_repair(text);
                board.update(|state| state.suspects.clear());
                self.say(format!("works with {system}"));
                Ok(())
            }
            Err(error) => {
                board.note_repair(format!("{class} did not succeed: {error}"));
                self.organization = None;
                Err(error)
            }
        }
    }

    /// Makes the tables what the ledger certifies. Where blocks were executed again at this height already, and by nobody's
    /// wish, that has not helped.
    fn repair(&mut self, class: RecoveryClass) -> LedgerResult<()> {
        let height = self.organization.as_ref().map(|own| own.chain().height);
        if class.is_replay() && self.replayed != height {
            self.replayed = height;
            return self.replay(class);
        }
        self.repair_from_state()
    }

    /// Takes over the rows that differ, and the blocks up to those.
    fn recover_from(&mut self, process: RemoteProcess) -> LedgerResult<()> {
        let mut donor = self.donor(process.with_answers_up_to(ROWS_MESSAGE_BYTES_MAX));
        let Some(organization) = &mut self.organization else { return Ok(()) };
        let above = organization.chain().height;
        self.is_recovering.store(true, Ordering::Release);
        let recovered = organization.recover_from_state(&mut donor);
        self.is_recovering.store(false, Ordering::Release);
        let report = recovered?;
        self.settings.board.note_repair(show_report(&report, &donor.name()));
        self.publish_adopted(above)
    }

    /// Tells of blocks that a repair has taken over.
    fn publish_adopted(&mut self, above: u64) -> LedgerResult<()> {
        let Some(organization) = &mut self.organization else { return Ok(()) };
        for certified in organization.certified_blocks(above, u64::MAX)? {
            self.publish_block(certified)?;
        }
        let suspects =
            self.organization.as_ref().map(|organization| organization.suspects.clone()).unwrap_or_default();
        self.settings.board.update(|state| state.suspects = suspects);
        Ok(())
    }

    /// Repairs from the first member with which that succeeds.
    fn repair_from_state(&mut self) -> LedgerResult<()> {
        let board = self.board();
        let Some(organization) = &self.organization else { return Ok(()) };
        let own = organization.chain().height;
        self.say(format!("repairs tables that are not what block {own} certifies"));
        let mut reasons = Vec::new();
        for (place, process) in self.settings.others.clone() {
            let is_able = board.read(|state| {
                let member = &state.members[place];
                member.is_reached && member.height >= own
            });
            if !is_able || self.is_avoided(place) {
                let reason = "is not reached, has fewer blocks, or was no good donor just now";
                reasons.push(format!("\"{}\" {reason}", process.name));
                continue;
            }
            match self.recover_from(process) {
                Ok(()) => {
                    let system = self.organization.as_ref().map(|own| own.system().to_owned());
                    self.say(format!("works with {}", system.unwrap_or_default()));
                    return Ok(());
                }
                Err(error @ (LedgerError::Database { .. } | LedgerError::File { .. })) => return Err(error),
                Err(error) => {
                    self.avoid(place);
                    reasons.push(error.to_string());
                }
            }
        }
        Err(LedgerError::NoQuorum(format!(
            "no member could be the donor of a repair: {}",
            reasons.join("; ")
        )))
    }

    /// Reads all tables, and repairs them if they are not what the ledger certifies and there is a class to do it by.
    fn audit_and_repair(&mut self, repair: Option<RecoveryClass>) -> LedgerResult<AuditFindings> {
        let Some(organization) = &mut self.organization else { return Ok(AuditFindings::default()) };
        organization.abandon();
        let mut found = AuditFindings { differing: organization.audit()?, has_repaired: false };
        let differing = found.differing.clone();
        self.settings.board.update(|state| state.suspects = differing);
        let class = repair.filter(|class| *class != RecoveryClass::None && !found.differing.is_empty());
        if let Some(class) = class {
            self.repair(class)?;
            self.halted = None;
            found.has_repaired = true;
        }
        Ok(found)
    }

    /// Answers people that want a repair by a class or that of the configuration, or an audit where no blocks go on beside it.
    fn audit_for_people(
        &mut self,
        is_repair: bool,
        class: Option<RecoveryClass>,
    ) -> LedgerResult<FindingsMessage> {
        let class = class.unwrap_or(self.settings.recovery);
        if is_repair && class == RecoveryClass::None {
            let reason = "recovery is \"none\": --method names another class";
            return Err(LedgerError::Refused(reason.into()));
        }
        // What was tried before is no reason not to do what is asked for, nor is that one for what is tried later.
        let tried = self.replayed.take();
        let found = self.audit_and_repair(is_repair.then_some(class));
        self.replayed = if is_repair { None } else { tried };
        let height = self.organization.as_ref().map_or(0, |own| own.chain().height);
        Ok(self.show_findings(height, &found?))
    }

    /// Compares the rows that the database has now with those of another member, in a thread of its own: blocks go on
    /// meanwhile, or a network of which one member is repaired would have no quorum. One comparison at a time.
    fn donate(&mut self, call: ComparisonCall) {
        let (mut snapshot, states) = match self.open_donation() {
            Ok(opened) => opened,
            Err(error) => return call.refuse(error),
        };
        let (runtime, is_given_up) = (self.settings.runtime.clone(), Arc::new(AtomicBool::new(false)));
        let patience = DonorPatience { runtime, is_given_up: is_given_up.clone() };
        let thread = std::thread::spawn(move || answer_comparison(call, &mut snapshot, &states, &patience));
        self.donation = Some(RunningDonation { is_given_up, thread });
    }

    fn open_donation(&self) -> LedgerResult<(MemberSnapshot, TableStates)> {
        let missing = |reason: &str| Err(LedgerError::Missing(reason.into()));
        if self.donation.as_ref().is_some_and(|donation| !donation.thread.is_finished()) {
            return missing("it compares rows for another member just now; ask another one");
        }
        let Some(organization) = self.organization.as_ref().filter(|own| own.is_sound()) else {
            return missing("its own tables are not certified now");
        };
        let snapshot = snapshot_opener(&self.settings.database)?()?;
        if snapshot.height() != organization.chain().height {
            return missing("its database has another block than its file");
        }
        Ok((snapshot, organization.states().clone()))
    }

    fn answer_requests(&mut self) {
        while let Ok(request) = self.requests.try_recv() {
            match request {
                EngineRequest::Compare(call) => self.donate(call),
                EngineRequest::Audit { is_repair: false, answer, .. } => {
                    self.asking.push((Instant::now(), answer));
                }
                EngineRequest::Audit { is_repair: true, class, answer } => {
                    let _ = answer.send(self.audit_for_people(true, class));
                }
            }
        }
        // Without tables that are sound, as far as is known, no blocks go on that reading them here would hold up.
        if !self.organization.as_ref().is_some_and(Organization::is_auditable) {
            for (_, answer) in std::mem::take(&mut self.asking) {
                let _ = answer.send(self.audit_for_people(false, None));
            }
        }
    }

    /// What an audit after the block of a height has found, for people.
    fn show_findings(&self, height: u64, found: &AuditFindings) -> FindingsMessage {
        let Some(organization) = &self.organization else {
            let lines = vec!["its database is not connected; status says why".to_owned()];
            return FindingsMessage { lines, is_certified: false };
        };
        let (system, mut lines) = (organization.system(), Vec::new());
        if found.differing.is_empty() {
            lines.push(format!("the tables of {system} are what block {height} certifies"));
        } else {
            let names = found.differing.join(", ");
            lines.push(format!("the tables of {system} were NOT what block {height} certifies: {names}"));
        }
        if found.has_repaired {
            lines.extend(self.settings.board.status(true).repairs.pop());
        }
        FindingsMessage { lines, is_certified: found.differing.is_empty() || found.has_repaired }
    }
}

#[derive(Default)]
struct AuditFindings {
    differing: Vec<String>,
    has_repaired: bool,
}

fn show_report(report: &RecoveryReport, donor: &str) -> String {
    let mut text = format!(
        "repaired from \"{donor}\": {} rows read, {} differ and were written, {} blocks taken over",
        report.rows, report.differing, report.adopted
    );
    for row in report.repaired.iter().take(ROWS_SHOWN) {
        text.push_str(&format!("; {} {} was {}, is {}", row.table, row.key, row.was, row.is));
    }
    text
}

fn organization_vote(organization: &Option<Organization>) -> Option<(u64, u32)> {
    let vote = organization.as_ref().and_then(Organization::own_vote)?;
    Some((vote.header.height, vote.round))
}

/// The order that most votes of a round are for; among equals the one with the lowest hash, so that all choose alike.
fn choose_order<'a>(votes: impl Iterator<Item = &'a crate::message::Vote>, round: u32) -> Option<LedgerHash> {
    let mut counts: BTreeMap<LedgerHash, usize> = BTreeMap::new();
    for vote in votes.filter(|vote| vote.round == round) {
        *counts.entry(vote.header.order).or_default() += 1;
    }
    let most = counts.values().max().copied()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(order, _)| order)
}
