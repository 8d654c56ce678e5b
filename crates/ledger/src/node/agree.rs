//! Agreement (section 4.6.1 of the dissertation): what this organization says about a proposal, by its constraints over its own
//! database, and the gathering of what others say, for transactions that come in here.
//!
//! ```text
//! client ── Submit ──> entry ── Agree ──> each organization that a policy names, all at once
//!                        │                   └─ constraints, in a session that only reads ─> signed yes or no
//!                        └─ enough have agreed ─> chained transaction ─> ordering server
//! ```
//! Nothing is kept: an agreement is asked for again where it is needed again.

use super::board::Board;
use super::call::RemoteProcess;
use super::config::NodeFolder;
use super::log::log;
use super::wire::{AgreementMessage, ProposalMessage};
use crate::agreement::{Agreement, ChainedTransaction};
use crate::chain::{CheckedTransaction, LedgerChain, PROPOSAL_BYTES_MAX};
use crate::constraint::{JudgedTransaction, Objection, OrganizationConstraint, judge};
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::member::reader::ReadingSession;
use crate::message::Proposal;
use crate::policy::AgreementPolicy;

use crate::signature::KeyPair;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

/// How long organizations may take to agree.
const GATHER_LIMIT: Duration = Duration::from_secs(8);

/// How long an organization waits for the blocks that the entry organization has.
const HEIGHT_LIMIT: Duration = Duration::from_secs(5);

/// How long a database may look at a constraint without evaluating it, in milliseconds: longer than it takes, however busy it is.
const TRIAL_MS: u64 = 5000;

/// Transactions that are judged at once, each in a session of its own.
const SESSIONS_MAX: usize = 8;

/// What others have said about a proposal.
#[derive(Default)]
struct GatheredAgreements {
    messages: Vec<Vec<u8>>,
    agreed: BTreeSet<u32>,
    refused: BTreeMap<u32, String>,
    unheard: BTreeMap<u32, String>,
}

/// What agrees in the name of an organization, and asks others to.
pub(super) struct AgreementDesk {
    board: Arc<Board>,
    keys: KeyPair,
    constraints: Vec<OrganizationConstraint>,
    database: String,
    limit_ms: u64,
    blocks: u64,
    others: Vec<(usize, RemoteProcess)>,
    sessions: Mutex<Vec<ReadingSession>>,
    permits: Arc<Semaphore>,
}

/// Says that the database is not reached, where it is not.
fn reached<T>(judged: LedgerResult<T>) -> LedgerResult<T> {
    judged.map_err(|error| match error {
        LedgerError::Database { message, .. } => {
            let reason = "it cannot evaluate its constraints now: its database is not reached";
            log(format_args!("{reason}: {message}"));
            LedgerError::Missing(reason.into())
        }
        other => other,
    })
}

impl AgreementDesk {
    /// The desk of a folder's organization. Has its database look at the constraints on tables that are shared already.
    ///
    /// # Errors
    /// [`LedgerError::File`] with a constraint that does not do. A database that cannot be reached is no error: it may come.
    pub(super) fn open(
        folder: &NodeFolder,
        board: Arc<Board>,
        others: Vec<(usize, RemoteProcess)>,
    ) -> LedgerResult<Arc<AgreementDesk>> {
        let desk = AgreementDesk {
            board,
            keys: folder.keys()?,
            constraints: folder.constraints()?,
            database: folder.require(folder.config.database.as_ref(), "database")?.clone(),
            limit_ms: folder.constraint_ms()?,
            blocks: folder.agreement_blocks()?,
            others,
            sessions: Mutex::default(),
            permits: Arc::new(Semaphore::new(SESSIONS_MAX)),
        };
        if !desk.constraints.is_empty() {
            desk.try_constraints(folder)?;
        }
        Ok(Arc::new(desk))
    }

    fn try_constraints(&self, folder: &NodeFolder) -> LedgerResult<()> {
        let show =
            |constraint: &OrganizationConstraint| format!("\"{}\" on {}", constraint.name, constraint.table);
        let shown: Vec<String> = self.constraints.iter().map(show).collect();
        self.board.update(|state| state.constraints = shown);
        let mut session = match ReadingSession::open(&self.database, TRIAL_MS) {
            Ok(session) => session,
            Err(error) => {
                log(format_args!("constraints are looked at when the database is there: {error}"));
                return Ok(());
            }
        };
        let tables = self.board.read(|state| state.chain.tables.clone());
        for constraint in &self.constraints {
            let Some(table) = tables.get(&constraint.table) else {
                log(format_args!("constraint {} waits for that table", show(constraint)));
                continue;
            };
            let policy = table.agreement.as_ref();
            let members = policy.map(|policy| policy.members(&self.board.directory.genesis));
            if !members.is_some_and(|members| members.contains(&(self.board.place as u32))) {
                let reason = "no agreement policy asks this organization about that table";
                log(format_args!("constraint {} is of no effect: {reason}", show(constraint)));
            }
            constraint.try_on(table, &mut session).map_err(|failure| {
                let config = folder.path.join(super::config::CONFIG_FILE);
                let said = failure.message;
                let reason =
                    format!("constraint {} is not what the database takes: {said}", show(constraint));
                LedgerError::file(&config, reason)
            })?;
        }
        Ok(())
    }

    /// Ends the sessions that are kept; outside of a runtime, since a connection has one of its own.
    pub(super) fn close(&self) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn take_session(&self) -> Option<ReadingSession> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, session: ReadingSession) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }

    /// Judges in a session that was open before, or in a new one if that is gone.
    fn with_session<T>(&self, work: impl Fn(&mut ReadingSession) -> LedgerResult<T>) -> LedgerResult<T> {
        let judge_in = |mut session: ReadingSession| {
            let done = work(&mut session)?;
            self.give_back(session);
            Ok(done)
        };
        if let Some(session) = self.take_session() {
            match judge_in(session) {
                Err(LedgerError::Database { .. }) => {}
                done => return done,
            }
        }
        reached(ReadingSession::open(&self.database, self.limit_ms).and_then(judge_in))
    }

    /// Whether the database takes the constraints on a table that is defined: evaluated are none, so their limit is not asked.
    fn objection_to_table(&self, table: &SharedTable) -> LedgerResult<Option<Objection>> {
        let about: Vec<&OrganizationConstraint> =
            self.constraints.iter().filter(|constraint| constraint.table == table.name).collect();
        if about.is_empty() {
            return Ok(None);
        }
        let try_in = |mut session: ReadingSession| {
            for constraint in about {
                match constraint.try_on(table, &mut session) {
                    Ok(()) => {}
                    Err(failure) if failure.has_lost_connection() => {
                        return Err(LedgerError::database("the constraints", failure.message));
                    }
                    Err(failure) => {
                        let reason = format!("constraint \"{}\" does not fit the table", constraint.name);
                        return Ok(Some(Objection { reason, detail: Some(failure.message) }));
                    }
                }
            }
            Ok(None)
        };
        reached(ReadingSession::open(&self.database, TRIAL_MS).and_then(try_in))
    }

    /// Whether the constraints hold for a transaction. Waits for the database.
    fn objection(
        &self,
        chain: &LedgerChain,
        client: &str,
        proposal: &Proposal,
        transaction: &CheckedTransaction,
    ) -> LedgerResult<Option<Objection>> {
        match transaction {
            CheckedTransaction::Definition(table) => self.objection_to_table(table),
            CheckedTransaction::Statements(statements) => {
                let is_about = |constraint: &OrganizationConstraint| {
                    statements.iter().any(|statement| statement.table == constraint.table)
                };
                if !self.constraints.iter().any(is_about) {
                    return Ok(None);
                }
                let (number, proposed, tables) = (proposal.number, &proposal.statements, &chain.tables);
                let judged = JudgedTransaction { client, number, proposed, statements, tables };
                self.with_session(|session| judge(&self.constraints, &judged, session))
            }
        }
    }

    /// What this organization says about a proposal, signed.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] and [`LedgerError::Malformed`] if it is none of a client's; [`LedgerError::Missing`] if it
    /// cannot say now.
    pub(super) async fn answer(
        self: Arc<Self>,
        proposal: Vec<u8>,
        seen_height: u64,
    ) -> LedgerResult<AgreementMessage> {
        if proposal.len() > PROPOSAL_BYTES_MAX {
            let reason =
                format!("a transaction of {} bytes: up to {PROPOSAL_BYTES_MAX} are taken", proposal.len());
            return Err(LedgerError::Refused(reason));
        }
        self.board.wait_for_height(seen_height, HEIGHT_LIMIT).await?;
        let permit = self.permits.clone().acquire_owned().await;
        let judged = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            self.say(&proposal)
        });
        let agreement = judged.await.map_err(|error| LedgerError::Missing(error.to_string()))??;
        Ok(AgreementMessage { agreement })
    }

    fn say(&self, message: &[u8]) -> LedgerResult<Vec<u8>> {
        let chain = self.board.read(|state| state.chain.clone());
        let (key, proposal) = Proposal::verify(message, &chain.genesis, &chain.network)?;
        let client = &chain.genesis.client(&key)?.name;
        let objection = match chain.check_alone(message) {
            Ok(transaction) => self.objection(&chain, client, &proposal, &transaction)?,
            Err(error) => Some(Objection { reason: error.to_string(), detail: None }),
        };
        if let Some(Objection { reason, detail }) = &objection {
            let detail = detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default();
            let number = proposal.number;
            self.board.note_objection(format!("transaction {number} of \"{client}\": {reason}{detail}"));
        }
        let agreement = Agreement {
            network: chain.network,
            proposal: Agreement::name_of(message),
            member: self.board.place as u32,
            until: chain.height.saturating_add(self.blocks),
            refusal: objection.map(|objection| objection.reason),
        };
        Ok(agreement.sign(&self.keys))
    }

    /// A transaction with the agreements that its tables need, or as it is if they need none.
    ///
    /// # Errors
    /// [`LedgerError::Refused`] if so many do not agree that it cannot have them; [`LedgerError::Missing`] with those that were
    /// not heard of.
    pub(super) async fn chain(
        self: Arc<Self>,
        proposal: Vec<u8>,
        transaction: &CheckedTransaction,
    ) -> LedgerResult<Vec<u8>> {
        let chain = self.board.read(|state| state.chain.clone());
        let policies = chain.policies(transaction);
        if policies.is_empty() {
            return Ok(proposal);
        }
        let gathered = self.clone().gather(&proposal, &chain, &policies).await;
        for (table, policy) in &policies {
            gathered.check(&chain, table, policy)?;
        }
        let (network, agreements) = (chain.network, gathered.messages);
        Ok(ChainedTransaction { network, proposal, agreements }.sign(&self.keys))
    }

    /// Asks all that the policies name, until enough have answered.
    async fn gather(
        self: Arc<Self>,
        proposal: &[u8],
        chain: &LedgerChain,
        policies: &BTreeMap<&str, &AgreementPolicy>,
    ) -> GatheredAgreements {
        let members: BTreeSet<u32> =
            policies.values().flat_map(|policy| policy.members(&chain.genesis)).collect();
        let mut gathered = GatheredAgreements::default();
        let mut answers = JoinSet::new();
        let deadline = Instant::now() + GATHER_LIMIT;
        for member in members {
            gathered.unheard.insert(member, format!("no answer in {} s", GATHER_LIMIT.as_secs()));
            let (proposal, seen_height) = (proposal.to_vec(), chain.height);
            if member as usize == self.board.place {
                let desk = self.clone();
                answers.spawn(async move { (member, desk.answer(proposal, seen_height).await) });
            } else if let Some((_, process)) = self.others.iter().find(|(place, _)| *place == member as usize)
            {
                let process = process.clone();
                answers.spawn(async move {
                    let message = ProposalMessage { proposal, wait_ms: 0, seen_height };
                    (member, process.call("Agree", message, GATHER_LIMIT).await)
                });
            }
        }
        while policies.values().any(|policy| gathered.is_open(chain, policy)) {
            let Ok(Some(Ok((member, answer)))) = timeout_at(deadline, answers.join_next()).await else {
                break;
            };
            if let Err(error) = answer.and_then(|answer| gathered.take(member, answer, proposal, chain)) {
                self.board.note_refused(&chain.genesis.members[member as usize].name, &error);
                gathered.unheard.insert(member, error.to_string());
            }
        }
        gathered
    }
}

impl GatheredAgreements {
    /// Takes the answer of a member.
    ///
    /// # Errors
    /// What is wrong with it.
    fn take(
        &mut self,
        member: u32,
        answer: AgreementMessage,
        proposal: &[u8],
        chain: &LedgerChain,
    ) -> LedgerResult<()> {
        let agreement = Agreement::verify(&answer.agreement, proposal, &chain.genesis, &chain.network)?;
        if agreement.member != member {
            let other = &chain.genesis.members[agreement.member as usize].name;
            return Err(LedgerError::Untrusted(format!("its agreement is that of \"{other}\"")));
        }
        if agreement.refusal.is_none() && agreement.until <= chain.height {
            return Err(LedgerError::Untrusted("its agreement has ended already".into()));
        }
        self.unheard.remove(&member);
        self.messages.push(answer.agreement);
        match agreement.refusal {
            Some(reason) => drop(self.refused.insert(member, reason)),
            None => drop(self.agreed.insert(member)),
        }
        Ok(())
    }

    /// Whether a policy is not fulfilled yet, and may still be.
    fn is_open(&self, chain: &LedgerChain, policy: &AgreementPolicy) -> bool {
        policy.missing(&chain.genesis, &self.agreed) > 0 && self.may_be(chain, policy)
    }

    fn may_be(&self, chain: &LedgerChain, policy: &AgreementPolicy) -> bool {
        let members = policy.members(&chain.genesis);
        let able = members.iter().filter(|member| !self.refused.contains_key(member)).count();
        able >= policy.needed(&chain.genesis)
    }

    fn check(&self, chain: &LedgerChain, table: &str, policy: &AgreementPolicy) -> LedgerResult<()> {
        if policy.missing(&chain.genesis, &self.agreed) == 0 {
            return Ok(());
        }
        let members = policy.members(&chain.genesis);
        let show = |said: &BTreeMap<u32, String>, what: &str| {
            let named = said.iter().filter(|(member, _)| members.contains(member));
            let show = |(member, reason): (&u32, &String)| {
                format!("\"{}\" {what}: {reason}", chain.genesis.members[*member as usize].name)
            };
            named.map(show).collect::<Vec<_>>()
        };
        let mut said = show(&self.refused, "does not agree");
        let may_be = self.may_be(chain, policy);
        if may_be {
            said.extend(show(&self.unheard, "cannot be asked"));
        }
        let text = format!("table \"{table}\" needs the agreement of {policy}: {}", said.join("; "));
        if may_be {
            let advice = "it was not ordered; start what is missing, or send it again later";
            return Err(LedgerError::Missing(format!("{text}; {advice}")));
        }
        Err(LedgerError::Refused(text))
    }
}
