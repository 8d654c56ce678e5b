//! An organization: a member's database, a ledger file, a key. It executes orders, votes, and commits what has a quorum.
//!
//! ```text
//! order ─> execute: BEGIN, transactions, digests ─> block and own vote into the file, synced ─> vote
//! votes ─> decide:  quorum for the own header ─> votes into the file, synced ─> COMMIT
//!                   quorum for another one    ─> repair the rows that differ, COMMIT; or ROLLBACK
//!                   none                      ─> ROLLBACK
//! ```
//! The file is ahead of the database, by one block at most, so a stop at any moment loses nothing: what the file has and the
//! database has not is executed again when the organization starts.

use crate::audit::{AuditReport, AuditSettings, Audits};
use crate::block::{BlockHeader, LedgerBlock, SuccessBits, leaves};
use crate::bytes::CanonicalWriter;
use crate::chain::{CheckedOrder, CheckedTransaction, LedgerChain};
use crate::change::{RowChange, TableStates, digest_hash, in_digest_order};
use crate::checkpoint::{CheckpointSettings, Checkpoints};
use crate::comparison::find_differing_ranges;
use crate::consensus::{VoteCount, count_votes};
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::file::{LedgerFile, RecordKind};
use crate::genesis::Genesis;
use crate::member::{BlockExecution, Member, RowSource};
use crate::merkle;
use crate::message::Vote;
use crate::schedule::PlacedTransaction;
use crate::signature::KeyPair;
use crate::verify::{CertifiedBlock, FileVerifier, visit_blocks};
use std::collections::BTreeSet;
use std::path::Path;

/// What executing an order has come to.
#[derive(Debug)]
pub struct ExecutedBlock {
    /// The block.
    pub block: LedgerBlock,
    /// What it has changed, in the order of the digest.
    pub changes: Vec<RowChange>,
    /// Why transactions have failed, by their place.
    pub failures: Vec<(usize, String)>,
    /// How many connections have executed a part of it.
    pub connections: usize,
    /// Why one connection has executed it, after it was begun on several.
    pub serial_because: Option<String>,
    checked: CheckedOrder,
    states: TableStates,
}

/// What votes mean for one organization.
#[derive(Debug)]
pub enum Decision {
    /// The block is in its file and its database.
    Committed(VoteCount),
    /// Another block has the quorum. Its own stays open, so that a repair has less to do, until the organization recovers or
    /// goes on.
    Outvoted(VoteCount),
    /// No block has the quorum; its own is rolled back.
    Undecided(VoteCount),
}

/// What an organization has voted for and has no quorum for yet.
#[derive(Debug, Clone)]
pub struct OwnVote {
    /// The signed order that was executed.
    pub order: Vec<u8>,
    /// What came of it.
    pub header: BlockHeader,
    /// In which round.
    pub round: u32,
    /// The signed vote.
    pub message: Vec<u8>,
}

/// An organization at work.
pub struct Organization {
    pub(crate) place: u32,
    pub(crate) keys: KeyPair,
    pub(crate) member: Box<dyn Member>,
    pub(crate) file: LedgerFile,
    pub(crate) chain: LedgerChain,
    pub(crate) states: TableStates,
    /// The last vote, while its block has no quorum.
    own_vote: Option<OwnVote>,
    /// The own vote for the last block, if there was one since the start.
    last_vote: Option<Vec<u8>>,
    /// Whether the file has blocks that the database may not have.
    pub(crate) is_behind: bool,
    executed: Option<ExecutedBlock>,
    last: Option<ExecutedBlock>,
    pub(crate) checkpoints: Option<Checkpoints>,
    pub(crate) audits: Option<Audits>,
    /// Tables that were not what the ledger says when the organization started.
    pub suspects: Vec<String>,
}

impl Organization {
    /// A new organization with an empty database.
    ///
    /// # Errors
    /// [`LedgerError::File`] and [`LedgerError::Database`]; [`LedgerError::Untrusted`] if the key is none of a member's.
    pub fn found(
        path: &Path,
        genesis: &Genesis,
        keys: KeyPair,
        member: Box<dyn Member>,
    ) -> LedgerResult<Organization> {
        genesis.check()?;
        LedgerFile::create(path, genesis)?;
        Organization::open(path, keys, member)
    }

    /// Goes on with a file and a database. Verifies the file, cuts its torn end, executes what the database has not yet, and
    /// compares its tables with the ledger: those that differ are `suspects`, to be repaired.
    ///
    /// # Errors
    /// What verification finds, and [`LedgerError::Database`]; [`LedgerError::File`] if the database is ahead of the file.
    pub fn open(path: &Path, keys: KeyPair, member: Box<dyn Member>) -> LedgerResult<Organization> {
        let mut verifier = FileVerifier::default();
        let (file, _) = LedgerFile::open(path, &mut |kind, payload, _| verifier.record(kind, payload))?;
        let own_vote = verifier.prepared.take().map(|prepared| OwnVote {
            order: prepared.block.order,
            header: prepared.block.header,
            round: prepared.vote.round,
            // Signatures are a function of the key and the bytes: this is the message that may have left before the stop.
            message: prepared.vote.sign(&keys),
        });
        let chain = verifier.chain()?.clone();
        let members = &chain.genesis.members;
        let Some(place) = members.iter().position(|member| member.key == keys.public()) else {
            return Err(LedgerError::Untrusted(format!("{} is the key of no member", keys.public())));
        };
        if verifier.member.is_some_and(|own| own as usize != place) {
            return Err(LedgerError::file(
                path,
                format!("it is not the file of \"{}\"", members[place].name),
            ));
        }
        let mut organization = Organization {
            place: place as u32,
            keys,
            member,
            file,
            states: TableStates::default(),
            own_vote,
            last_vote: None,
            is_behind: false,
            executed: None,
            last: None,
            checkpoints: None,
            audits: None,
            suspects: Vec::new(),
            chain,
        };
        organization.catch_up()?;
        organization.compare_states()?;
        Ok(organization)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.chain.genesis.members[self.place as usize].name
    }

    /// What its database is.
    pub fn system(&self) -> &str {
        self.member.system()
    }

    /// Its chain.
    pub fn chain(&self) -> &LedgerChain {
        &self.chain
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The block that it has executed last, whether it was committed or not.
    pub fn last_executed(&self) -> Option<&ExecutedBlock> {
        self.executed.as_ref().or(self.last.as_ref())
    }

    /// Makes checkpoints from now on.
    ///
    /// # Errors
    /// [`LedgerError::File`] if the folder cannot be made or read.
    pub fn keep_checkpoints(&mut self, settings: CheckpointSettings) -> LedgerResult<()> {
        self.checkpoints = Some(Checkpoints::open(settings)?);
        Ok(())
    }

    /// Its checkpoints, if it makes some.
    pub fn checkpoints(&mut self) -> Option<&mut Checkpoints> {
        self.checkpoints.as_mut()
    }

    /// Reads its tables beside the blocks from now on.
    pub fn keep_audits(&mut self, settings: AuditSettings) {
        self.audits = Some(Audits::new(settings));
    }

    /// Its audits beside the blocks, if there are some.
    pub fn audits(&self) -> Option<&Audits> {
        self.audits.as_ref()
    }

    /// What an audit in the background has found since the last call, if it has ended; otherwise begins one if one is due or
    /// people want one. For
    /// the thread that executes blocks, between two of them or while one is open. While the tables are known not to be what
    /// the last block certifies there is nothing to find.
    pub fn audit_in_background(&mut self, is_wanted: bool) -> Option<LedgerResult<AuditReport>> {
        let is_auditable = self.is_auditable();
        let audits = self.audits.as_mut()?;
        if let Some(ended) = audits.ended() {
            return Some(ended);
        }
        if !is_auditable {
            return None;
        }
        audits.begin(self.chain.height, &self.states, is_wanted).err().map(Err)
    }

    /// Whether an audit beside the blocks has something to compare the tables with.
    pub fn is_auditable(&self) -> bool {
        self.is_sound() && self.chain.state.is_some()
    }

    /// What the tables add up to after the last block.
    pub fn states(&self) -> &TableStates {
        &self.states
    }

    /// The shared tables.
    pub fn tables(&self) -> Vec<SharedTable> {
        self.chain.tables.values().cloned().collect()
    }

    /// Executes blocks of the file that the database has not.
    fn catch_up(&mut self) -> LedgerResult<()> {
        let height = self.member.height()?;
        let finished = self.member.finished(height + 1)?;
        if height + u64::from(!finished.is_empty()) > self.chain.height {
            let part = if finished.is_empty() { "" } else { " and a part of the next one" };
            let reason = format!(
                "the database has {height} blocks{part}, and the file {}: it is not this database's",
                self.chain.height
            );
            return Err(LedgerError::file(self.file.path(), reason));
        }
        if height == self.chain.height {
            return Ok(());
        }
        let mut chain = LedgerChain::new(self.chain.genesis.clone());
        let member = &mut self.member;
        visit_blocks(self.file.path(), 0, &mut |(block, _)| {
            let checked = chain.check(&block.order)?;
            if block.header.height <= height {
                chain.advance(&checked, &block.header);
                return Ok(());
            }
            let states = TableStates { tables: chain.tables.clone(), ..TableStates::default() };
            if block.header.height == height + 1 && !finished.is_empty() {
                execute_rest(member.as_mut(), &chain, &checked, &finished)?;
                chain.advance(&checked, &block.header);
            } else {
                let executed = execute_on(member.as_mut(), &chain, states, checked, &block.order, true)?;
                chain.advance(&executed.checked, &block.header);
            }
            member.commit(block.header.height)
        })
    }

    /// Reads all tables and notes those that are not what the ledger says. What each should be is known only of all together,
    /// so without a suspect the state is certified, and otherwise all tables are suspects.
    fn compare_states(&mut self) -> LedgerResult<()> {
        self.states = scan_states(self.member.as_mut(), &self.chain)?;
        let is_certified = self.chain.state.is_none_or(|state| state == self.states.hash());
        self.suspects = if is_certified { Vec::new() } else { self.chain.tables.keys().cloned().collect() };
        Ok(())
    }

    /// Compares the tables in the database with what the blocks have made of them. Reads all of them; an open block is rolled
    /// back.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn audit(&mut self) -> LedgerResult<Vec<String>> {
        self.abandon();
        self.member.begin()?;
        let differing = self.find_differing_tables();
        self.member.rollback()?;
        let mut differing = differing?;
        differing.extend(self.suspects.iter().cloned());
        differing.sort();
        differing.dedup();
        Ok(differing)
    }

    fn find_differing_tables(&mut self) -> LedgerResult<Vec<String>> {
        let mut differing = Vec::new();
        for (name, table) in &self.chain.tables {
            let sums = self.states.sums.get(name).cloned().unwrap_or_default();
            let source: &mut dyn RowSource = self.member.as_mut();
            let ranges = find_differing_ranges(source, table, &sums, &mut |_, _, _| Ok(()))?;
            differing.extend(Some(name.clone()).filter(|_| !ranges.is_empty()));
        }
        Ok(differing)
    }

    /// What it has voted for at the height after its last block, if it has.
    pub fn own_vote(&self) -> Option<&OwnVote> {
        self.own_vote.as_ref()
    }

    /// Its signed vote for the last block, if it has voted for it since it was started.
    pub fn last_vote(&self) -> Option<&[u8]> {
        self.last_vote.as_deref()
    }

    /// The round after that of its last vote on the next block.
    pub fn next_round(&self) -> u32 {
        self.own_vote.as_ref().map_or(1, |vote| vote.round + 1)
    }

    /// Whether a block is executed and not yet committed.
    pub fn has_open_block(&self) -> bool {
        self.executed.is_some()
    }

    /// Whether the tables are those that the last block certifies, by what was read or followed.
    pub fn is_sound(&self) -> bool {
        !self.is_behind && self.suspects.is_empty()
    }

    /// Executes an order without committing it, and votes in its next round. Members that do not share a process agree about
    /// rounds first, and use [`Organization::execute_in`].
    ///
    /// # Errors
    /// Those of [`Organization::execute_in`].
    pub fn execute(&mut self, order: &[u8]) -> LedgerResult<Vec<u8>> {
        self.execute_in(order, self.next_round())
    }

    /// Executes an order without committing it, and votes in a round. The block and the vote are in the file before the vote is
    /// returned. The caller has seen that the rounds before cannot have a quorum any more.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] if the order is not one for the next block, or it has voted in this round or a later one;
    /// [`LedgerError::Database`] and [`LedgerError::File`]. The database is as before.
    pub fn execute_in(&mut self, order: &[u8], round: u32) -> LedgerResult<Vec<u8>> {
        if round < self.next_round() {
            let reason = format!("it has voted in round {}, and votes once in each", self.next_round() - 1);
            return Err(LedgerError::Untrusted(reason));
        }
        let executed = self.try_execute(order)?;
        let vote = self.sign_vote(&executed.block, round);
        let recorded = append_block(&mut self.file, &executed.block, &vote.message);
        self.executed = Some(executed);
        recorded.inspect_err(|_| self.abandon())?;
        let message = vote.message.clone();
        self.own_vote = Some(vote);
        Ok(message)
    }

    /// Executes the order of its vote again, after a stop or a rollback, so that it can commit if the vote wins. Without
    /// effect where the block is open. Says whether it came to the header that the vote is for; if not the vote stands, and
    /// the block is rolled back.
    ///
    /// # Errors
    /// Those of [`Organization::execute_in`].
    pub fn resume(&mut self) -> LedgerResult<bool> {
        let Some(vote) = self.own_vote.clone() else { return Ok(false) };
        if self.executed.is_some() {
            return Ok(true);
        }
        let executed = self.try_execute(&vote.order)?;
        let is_equal = executed.block.header == vote.header;
        self.executed = Some(executed);
        if !is_equal {
            self.abandon();
        }
        Ok(is_equal)
    }

    /// Executes the next block that others have certified, and commits it if it has the effects that they have voted for. Says
    /// whether it has; if not it stays open, so that a repair has less to do.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] and [`LedgerError::NoQuorum`] if it is not certified; [`LedgerError::Database`] and
    /// [`LedgerError::File`].
    pub fn adopt_by_execution(&mut self, certified: &CertifiedBlock) -> LedgerResult<bool> {
        let (block, votes) = certified;
        let checked = self.chain.check(&block.order)?;
        self.chain.check_header(&checked, &block.header)?;
        self.chain.check_votes(&block.header, votes)?;
        if self.executed.as_ref().is_none_or(|executed| executed.block.header != block.header) {
            let executed = self.try_execute(&block.order)?;
            let is_equal = executed.block.header == block.header;
            self.executed = Some(executed);
            if !is_equal {
                return Ok(false);
            }
        }
        if self.own_vote.as_ref().is_none_or(|vote| vote.header != block.header) {
            let vote = self.sign_vote(block, self.next_round());
            append_block(&mut self.file, block, &vote.message).inspect_err(|_| self.abandon())?;
            self.own_vote = Some(vote);
        }
        self.commit_open_block(votes).map(|()| true)
    }

    fn try_execute(&mut self, order: &[u8]) -> LedgerResult<ExecutedBlock> {
        self.try_execute_on(order, true)
    }

    /// Executes a block that is open on several connections again on one, so that all of it can be read and repaired there.
    ///
    /// # Errors
    /// [`LedgerError::Database`]; no block is open then.
    pub(crate) fn gather_open_block(&mut self) -> LedgerResult<()> {
        if let Some(executed) = self.executed.as_ref().filter(|_| self.member.is_spread()) {
            let order = executed.block.order.clone();
            self.executed = Some(self.try_execute_on(&order, false)?);
        }
        Ok(())
    }

    fn try_execute_on(&mut self, order: &[u8], is_spread: bool) -> LedgerResult<ExecutedBlock> {
        self.abandon();
        if self.is_behind {
            let reason =
                "it may not have the last block of the ledger; the organization has to be opened again";
            return Err(LedgerError::database(self.member.system(), reason));
        }
        let checked = self.chain.check(order)?;
        let member = self.member.as_mut();
        let executed = execute_on(member, &self.chain, self.states.clone(), checked, order, is_spread);
        executed.inspect_err(|_| drop(self.member.rollback()))
    }

    fn sign_vote(&self, block: &LedgerBlock, round: u32) -> OwnVote {
        let header = block.header.clone();
        let message = Vote { member: self.place, round, header: header.clone() }.sign(&self.keys);
        OwnVote { order: block.order.clone(), header, round, message }
    }

    /// Whether an executed block is open; it is not any more then, and the database's transaction is the caller's.
    pub(crate) fn take_open_block(&mut self) -> bool {
        let executed = self.executed.take();
        let is_open = executed.is_some();
        self.last = executed.or(self.last.take());
        is_open
    }

    /// Takes an executed block back.
    pub fn abandon(&mut self) {
        if let Some(executed) = self.executed.take() {
            // Where that fails the connection is gone, and the database has rolled back by itself.
            let _ = self.member.rollback();
            self.last = Some(executed);
        }
    }

    /// Counts the votes on the executed block, and commits it or takes it back.
    ///
    /// # Errors
    /// [`LedgerError::File`] and [`LedgerError::Database`]. If the block has its quorum it is in the file, and is executed
    /// again when the organization starts.
    pub fn decide(&mut self, votes: &[Vec<u8>]) -> LedgerResult<Decision> {
        let height = self.chain.height + 1;
        let count = count_votes(&self.chain.genesis, &self.chain.network, height, votes);
        let Some(winner) = &count.winner else {
            self.abandon();
            return Ok(Decision::Undecided(count));
        };
        if self.executed.as_ref().is_none_or(|executed| executed.block.header != *winner) {
            return Ok(Decision::Outvoted(count));
        }
        let votes: Vec<Vec<u8>> = count.votes.iter().map(|(_, vote)| vote.clone()).collect();
        self.commit_open_block(&votes)?;
        Ok(Decision::Committed(count))
    }

    /// Commits the executed block, whose quorum these votes are, after they are in the file.
    fn commit_open_block(&mut self, votes: &[Vec<u8>]) -> LedgerResult<()> {
        append_votes(&mut self.file, votes).inspect_err(|_| self.abandon())?;
        let executed = self.executed.take().expect("the caller has compared it with the winner");
        self.chain.advance(&executed.checked, &executed.block.header);
        self.is_behind = true;
        self.last_vote = self.own_vote.take().map(|vote| vote.message);
        // Where even the rollback fails the connection is gone, and the database rolls back by itself.
        self.member.commit(self.chain.height).inspect_err(|_| drop(self.member.rollback()))?;
        self.is_behind = false;
        self.states = executed.states.clone();
        self.last = Some(executed);
        if let Some(checkpoints) = self.checkpoints.as_mut().filter(|_| self.suspects.is_empty()) {
            checkpoints.begin(&self.chain);
        }
        Ok(())
    }

    /// Puts a block that others have certified into the file; the caller has verified it, and commits its rows.
    pub(crate) fn adopt(
        &mut self,
        (block, votes): &CertifiedBlock,
        checked: &CheckedOrder,
    ) -> LedgerResult<()> {
        let vote = self.sign_vote(block, self.next_round());
        append_block(&mut self.file, block, &vote.message)?;
        append_votes(&mut self.file, votes)?;
        self.chain.advance(checked, &block.header);
        (self.own_vote, self.last_vote) = (None, Some(vote.message));
        Ok(())
    }
}

fn append_block(file: &mut LedgerFile, block: &LedgerBlock, vote: &[u8]) -> LedgerResult<()> {
    let record = CanonicalWriter::default().bytes(&block.encode()).bytes(vote).finish();
    file.append(RecordKind::Block, &record).map(drop)
}

fn append_votes(file: &mut LedgerFile, votes: &[Vec<u8>]) -> LedgerResult<()> {
    let mut writer = CanonicalWriter::default();
    writer.count(votes.len());
    for vote in votes {
        writer.bytes(vote);
    }
    file.append(RecordKind::Votes, &writer.finish()).map(drop)
}

/// What the rows of all tables add up to, read from the database.
///
/// # Errors
/// [`LedgerError::Database`].
pub fn scan_states(member: &mut dyn Member, chain: &LedgerChain) -> LedgerResult<TableStates> {
    let mut states = TableStates::default();
    for table in chain.tables.values() {
        states.define(table.clone());
        let sums = states.sums.entry(table.name.clone()).or_default();
        for (key, row) in member.scan(table)? {
            sums.add(&key, &row);
        }
    }
    Ok(states)
}

/// The transactions of an order that are to be executed.
fn executable(checked: &CheckedOrder) -> impl Iterator<Item = PlacedTransaction<'_>> {
    checked.transactions.iter().enumerate().filter_map(|(place, transaction)| match transaction {
        Ok(CheckedTransaction::Statements(statements)) => Some(PlacedTransaction { place, statements }),
        _ => None,
    })
}

/// Executes what of an order a database has not, which was stopped between the commits of its parts. It stays open. The
/// transactions share no row with those that it has, so the effects are those of the order.
fn execute_rest(
    member: &mut dyn Member,
    chain: &LedgerChain,
    checked: &CheckedOrder,
    finished: &BTreeSet<usize>,
) -> LedgerResult<()> {
    let rest: Vec<PlacedTransaction<'_>> =
        executable(checked).filter(|transaction| !finished.contains(&transaction.place)).collect();
    member.begin()?;
    member.execute_block(&rest, &chain.tables, false)?;
    member.take_changes().map(drop)
}

/// Executes an order inside of a block of the database, which stays open; over several connections if the member has them and
/// `is_spread` says so.
pub(crate) fn execute_on(
    member: &mut dyn Member,
    chain: &LedgerChain,
    mut states: TableStates,
    checked: CheckedOrder,
    message: &[u8],
    is_spread: bool,
) -> LedgerResult<ExecutedBlock> {
    let mut execution = BlockExecution { connections: 1, ..BlockExecution::default() };
    if let [Ok(CheckedTransaction::Definition(table))] = &checked.transactions[..] {
        member.create_table(table)?;
        states.define(table.clone());
        member.begin()?;
    } else {
        member.begin()?;
        let transactions: Vec<PlacedTransaction<'_>> = executable(&checked).collect();
        execution = member.execute_block(&transactions, &chain.tables, is_spread)?;
        for (at, transaction) in checked.transactions.iter().enumerate() {
            let refusal = match transaction {
                Err(reason) => reason.clone(),
                Ok(CheckedTransaction::Definition(_)) => "a definition is alone in its block".to_owned(),
                Ok(CheckedTransaction::Statements(_)) => continue,
            };
            execution.failures.insert(at, refusal);
        }
    }
    let has_succeeded = |at| !execution.failures.contains_key(&at);
    let bits: Vec<bool> = (0..checked.transactions.len()).map(has_succeeded).collect();
    let changes = in_digest_order(member.take_changes()?);
    states.apply(&changes);
    let outcomes = SuccessBits::new(&bits);
    let header = BlockHeader {
        network: chain.network,
        height: chain.height + 1,
        previous: chain.head,
        order: checked.hash,
        root: merkle::root(&leaves(&checked.entries, &outcomes)),
        outcomes,
        digest: digest_hash(&changes),
        state: states.hash(),
    };
    let block = LedgerBlock { header, order: message.to_vec() };
    let BlockExecution { failures, connections, serial_because } = execution;
    let failures = failures.into_iter().collect();
    Ok(ExecutedBlock { block, changes, failures, connections, serial_because, checked, states })
}

impl ExecutedBlock {
    /// What the tables add up to with it.
    pub(crate) fn states(&self) -> &TableStates {
        &self.states
    }

    pub(crate) fn into_states(self) -> (CheckedOrder, TableStates) {
        (self.checked, self.states)
    }
}
