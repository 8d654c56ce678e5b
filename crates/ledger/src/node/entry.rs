//! The calls that a node answers: the ChainifyServer of the dissertation's section 4.7, which authenticates clients and takes
//! their transactions, and what other organizations ask.

use super::agree::AgreementDesk;
use super::board::Board;
use super::config::PartyRole;
use super::directory::Party;
use super::donor::ComparisonCall;
use super::engine::{EngineInbox, EngineRequest};
use super::exchange::take_votes;
use super::serve::{CallHandler, IncomingCall, OutgoingAnswer};
use super::wire::{
    BLOCK_MESSAGE_BYTES_MAX, BlockMessage, BlocksMessage, BlocksRequest, CompareRequest, DonationMessage,
    FindingsMessage, Nothing, ORGANIZATION, OrderMessage, OrderRequest, OutcomeMessage, OutcomesMessage,
    PROPOSAL_MESSAGE_BYTES_MAX, PROPOSALS_MAX, ProposalMessage, ProposalsMessage, ROWS_MESSAGE_BYTES_MAX,
    RepairRequest, SMALL_MESSAGE_BYTES_MAX, VotesMessage,
};
use crate::agreement::OrderEntry;
use crate::chain::{CheckedTransaction, LedgerChain, PROPOSAL_BYTES_MAX};
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::message::Proposal;
use crate::recovery::RecoveryClass;
use crate::succession::{BlockOrder, TwoOrders};
use crate::verify::visit_blocks;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tonic::Streaming;

/// How long a client may let a call wait for its outcome.
const OUTCOME_WAIT_MS_MAX: u32 = 10_000;

/// Bytes of blocks that go into one answer, if it is more than one block.
const BLOCKS_BYTES: usize = 8 << 20;

/// What answers the calls of a node.
pub(super) struct NodeEntry {
    pub(super) board: Arc<Board>,
    pub(super) inbox: EngineInbox,
    pub(super) agreements: Arc<AgreementDesk>,
    pub(super) file: PathBuf,
}

impl NodeEntry {
    /// Takes a transaction and waits until it is certified.
    async fn submit(
        self: Arc<Self>,
        caller: Party,
        message: ProposalMessage,
    ) -> LedgerResult<OutcomeMessage> {
        let ProposalMessage { proposal, wait_ms, seen_height } = message;
        let message = ProposalsMessage { proposals: vec![proposal], wait_ms, seen_height };
        let done = self.submit_all(caller, message).await?;
        Ok(done.outcomes.into_iter().next().unwrap_or_default())
    }

    /// Takes transactions of a client, all or none, and waits until all are certified.
    async fn submit_all(
        self: Arc<Self>,
        caller: Party,
        message: ProposalsMessage,
    ) -> LedgerResult<OutcomesMessage> {
        let (board, proposals) = (self.board.clone(), message.proposals);
        if proposals.len() > PROPOSALS_MAX {
            let (count, most) = (proposals.len(), PROPOSALS_MAX);
            return Err(LedgerError::Refused(format!(
                "{count} transactions at once: up to {most} are taken"
            )));
        }
        let mut changes = board.subscribe();
        let limit = Duration::from_millis(u64::from(OUTCOME_WAIT_MS_MAX));
        board.wait_for_height(message.seen_height, limit).await?;
        let (mut names, mut entries) = (Vec::with_capacity(proposals.len()), Vec::new());
        for proposal in proposals {
            let name = LedgerHash::of_row(&proposal);
            names.push(name);
            if let Some(transaction) = self.clone().settle(&caller, &proposal).await?
                && !board.is_pending(&name)
            {
                entries.push((name, self.agreements.clone().chain(proposal, &transaction).await?));
            }
            // Each verifies signatures; other calls are answered meanwhile.
            tokio::task::yield_now().await;
        }
        board.add_pending(entries)?;
        let wait = Duration::from_millis(u64::from(message.wait_ms.min(OUTCOME_WAIT_MS_MAX)));
        let mut outcomes = vec![OutcomeMessage::default(); names.len()];
        let wait_for_outcomes = async {
            while board.take_outcomes(&names, &mut outcomes) > 0
                && changes.changed().await.is_ok()
                && !board.is_stopped()
            {}
        };
        let _ = tokio::time::timeout(wait, wait_for_outcomes).await;
        Ok(OutcomesMessage { outcomes })
    }

    /// Authenticates a client's transaction. Returns nothing if it has an outcome already, which is then on the board.
    async fn settle(
        self: Arc<Self>,
        caller: &Party,
        message: &[u8],
    ) -> LedgerResult<Option<CheckedTransaction>> {
        let directory = &self.board.directory;
        if message.len() > PROPOSAL_BYTES_MAX {
            let reason =
                format!("a transaction of {} bytes: up to {PROPOSAL_BYTES_MAX} are taken", message.len());
            return Err(LedgerError::Refused(reason));
        }
        let (key, proposal) = Proposal::verify(message, &directory.genesis, &directory.network)?;
        let client = directory.genesis.client(&key)?.name.clone();
        if client != caller.name {
            let reason = format!(
                "the certificate is that of \"{}\" and the transaction that of \"{client}\"",
                caller.name
            );
            return Err(LedgerError::Untrusted(reason));
        }
        let name = LedgerHash::of_row(message);
        if self.board.outcome(&name).is_some() {
            return Ok(None);
        }
        let chain = self.board.read(|state| state.chain.clone());
        if proposal.number > chain.last_number(&key) {
            return chain.check_alone(message).map(Some);
        }
        let (file, sought, last_number) = (self.file.clone(), message.to_vec(), chain.last_number(&key));
        let found = tokio::task::spawn_blocking(move || find_outcome(&file, &sought, &chain)).await;
        let found = found.map_err(|error| LedgerError::Missing(error.to_string()))??;
        let Some(outcome) = found else {
            let reason = format!(
                "transaction {} of \"{client}\" is a repetition: it has signed {} since, and number {} was another one",
                proposal.number, last_number, proposal.number
            );
            return Err(LedgerError::Refused(reason));
        };
        self.board.add_outcome(name, outcome);
        Ok(None)
    }

    /// The order that this organization has voted for, or two orders of one number of the ordering service whose turn it is.
    async fn order(self: Arc<Self>, request: OrderRequest, are_two: bool) -> LedgerResult<OrderMessage> {
        let order = self.board.read(|state| {
            if are_two {
                return state.complaints.proof().map(TwoOrders::encode);
            }
            let own = state.own_vote.as_ref().filter(|vote| vote.header.height == request.height);
            own.map(|vote| vote.order.clone())
        });
        Ok(OrderMessage { order: order.unwrap_or_default() })
    }

    async fn votes(self: Arc<Self>, caller: Party, message: VotesMessage) -> LedgerResult<VotesMessage> {
        let Some(place) = self.board.directory.place(&caller.name) else {
            return Err(LedgerError::Untrusted(format!("\"{}\" is no member", caller.name)));
        };
        take_votes(&self.board, place, &message)?;
        Ok(self.board.votes_message())
    }

    async fn blocks(self: Arc<Self>, request: BlocksRequest) -> LedgerResult<BlocksMessage> {
        let BlocksRequest { above, to } = request;
        let recent = self.board.recent_blocks(above, to);
        if !recent.is_empty() {
            return Ok(first_blocks(recent.iter().map(|block| BlockMessage::of(block))));
        }
        let (file, height) = (self.file.clone(), self.board.read(|state| state.chain.height));
        let found = tokio::task::spawn_blocking(move || {
            let (mut found, mut bytes) = (Vec::new(), 0);
            visit_blocks(&file, above, &mut |certified| {
                let is_wanted = certified.0.header.height <= to.min(height) && bytes < BLOCKS_BYTES;
                if is_wanted {
                    bytes += certified.0.order.len();
                    found.push(BlockMessage::of(&certified));
                }
                Ok(())
            })
            .map(|()| found)
        });
        let found = found.await.map_err(|error| LedgerError::Missing(error.to_string()))??;
        Ok(first_blocks(found.into_iter()))
    }

    async fn compare(
        self: Arc<Self>,
        mut requests: Streaming<CompareRequest>,
    ) -> LedgerResult<mpsc::Receiver<LedgerResult<DonationMessage>>> {
        // One message waits in each direction, and what is behind it at the sender.
        let ((asking, asked), (answers, answered)) = (mpsc::channel(1), mpsc::channel(1));
        self.inbox.ask(EngineRequest::Compare(ComparisonCall { requests: asked, answers }))?;
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                if asking.send(request).await.is_err() {
                    break;
                }
            }
        });
        Ok(answered)
    }

    async fn audit(self: Arc<Self>, is_repair: bool, method: String) -> LedgerResult<FindingsMessage> {
        let class = RecoveryClass::parse(&method);
        if class.is_none() && !method.is_empty() {
            return Err(LedgerError::Refused(format!("\"{method}\" is no way to repair")));
        }
        let (answer, answered) = oneshot::channel();
        self.inbox.ask(EngineRequest::Audit { is_repair, class, answer })?;
        answered.await.map_err(|_| LedgerError::Missing("it stops".into()))?
    }

    /// Answers calls of clients with transactions.
    async fn answer_client(self: Arc<Self>, method: &str, call: IncomingCall) -> OutgoingAnswer {
        let (caller, board) = (call.caller.clone(), self.board.clone());
        let name = caller.name.clone();
        if method == "/SubmitAll" {
            let take = |message| async move {
                let taken = self.submit_all(caller, message).await;
                taken.inspect_err(|error| board.note_refused(&name, error))
            };
            return call.with(PROPOSAL_MESSAGE_BYTES_MAX, take).await;
        }
        let take = |message| async move {
            let taken = self.submit(caller, message).await;
            taken.inspect_err(|error| board.note_refused(&name, error))
        };
        call.with(PROPOSAL_MESSAGE_BYTES_MAX, take).await
    }

    /// Answers calls of other organizations.
    async fn answer_member(self: Arc<Self>, method: &str, call: IncomingCall) -> OutgoingAnswer {
        let caller = call.caller.clone();
        let (board, name) = (self.board.clone(), caller.name.clone());
        match method {
            "/Votes" => {
                let take = |message| async move {
                    self.votes(caller, message).await.inspect_err(|error| board.note_refused(&name, error))
                };
                call.with(BLOCK_MESSAGE_BYTES_MAX, take).await
            }
            "/Agree" => {
                let answer = |message: ProposalMessage| async move {
                    let answered =
                        self.agreements.clone().answer(message.proposal, message.seen_height).await;
                    answered.inspect_err(|error| board.note_refused(&name, error))
                };
                call.with(PROPOSAL_MESSAGE_BYTES_MAX, answer).await
            }
            "/Order" | "/TwoOrders" => {
                let are_two = method == "/TwoOrders";
                call.with(SMALL_MESSAGE_BYTES_MAX, move |request| self.order(request, are_two)).await
            }
            "/Blocks" => call.with(SMALL_MESSAGE_BYTES_MAX, |request| self.blocks(request)).await,
            _ => call.with_conversation(ROWS_MESSAGE_BYTES_MAX, |requests| self.compare(requests)).await,
        }
    }

    /// Answers calls of the organization's own people.
    async fn answer_people(self: Arc<Self>, method: &str, call: IncomingCall) -> OutgoingAnswer {
        if call.caller.name != self.board.directory.own().name {
            let reason =
                format!("\"{}\" may not call this: only the organization itself may", call.caller.name);
            return call.refuse(&LedgerError::Untrusted(reason));
        }
        let is_repair = method == "/Repair";
        let audit = move |request: RepairRequest| self.audit(is_repair, request.method);
        call.with(SMALL_MESSAGE_BYTES_MAX, audit).await
    }
}

/// So many blocks as fit into one answer, at least one.
fn first_blocks(blocks: impl Iterator<Item = BlockMessage>) -> BlocksMessage {
    let mut bytes = 0;
    let fits = |block: &BlockMessage| {
        let is_first = bytes == 0;
        bytes += block.block.len();
        is_first || bytes <= BLOCKS_BYTES
    };
    BlocksMessage { blocks: blocks.take_while(fits).collect() }
}

/// What became of a proposal, by the file: the time that it has succeeded, or the first time that it is in it. It may be there
/// without its agreements before.
fn find_outcome(
    file: &std::path::Path,
    proposal: &[u8],
    chain: &LedgerChain,
) -> LedgerResult<Option<OutcomeMessage>> {
    let mut found: Option<OutcomeMessage> = None;
    visit_blocks(file, 0, &mut |(block, _)| {
        let entries = BlockOrder::decode_entries(&block.order, &chain.genesis)?;
        for (index, entry) in entries.iter().enumerate() {
            let has_succeeded = block.header.outcomes.get(index);
            let is_known = found.as_ref().is_some_and(|found| found.has_succeeded || !has_succeeded);
            // Most entries are no other length than theirs, and are not read for that.
            let may_be = entry.len() >= proposal.len() && !is_known;
            if may_be && OrderEntry::of(entry, &chain.genesis).is_ok_and(|entry| entry.proposal() == proposal)
            {
                let (height, index) = (block.header.height, index as u32);
                found = Some(OutcomeMessage { height, index, has_succeeded, reason: String::new() });
            }
        }
        Ok(())
    })?;
    Ok(found)
}

impl CallHandler for NodeEntry {
    fn answer(
        self: Arc<Self>,
        method: String,
        call: IncomingCall,
    ) -> Pin<Box<dyn Future<Output = OutgoingAnswer> + Send>> {
        Box::pin(async move {
            let method = method.strip_prefix(ORGANIZATION).unwrap_or_default();
            let roles: &[PartyRole] = match method {
                "/Submit" | "/SubmitAll" => &[PartyRole::Client],
                "/Status" => &[PartyRole::Organization, PartyRole::Client],
                _ => &[PartyRole::Organization],
            };
            let call = match call.of(roles) {
                Ok(call) => call,
                Err(refused) => return refused,
            };
            match method {
                "/Submit" | "/SubmitAll" => self.answer_client(method, call).await,
                "/Status" => {
                    let is_own = call.caller.name == self.board.directory.own().name;
                    let status = move |_: Nothing| async move { Ok(self.board.status(is_own)) };
                    call.with(SMALL_MESSAGE_BYTES_MAX, status).await
                }
                "/Agree" | "/Votes" | "/Order" | "/TwoOrders" | "/Blocks" | "/Compare" => {
                    self.answer_member(method, call).await
                }
                "/Audit" | "/Repair" => self.answer_people(method, call).await,
                _ => call.refuse(&LedgerError::Missing("an organization has no such method".into())),
            }
        })
    }
}
