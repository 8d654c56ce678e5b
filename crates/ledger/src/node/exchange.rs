//! The tasks of a node that speak with other processes: one for each other organization, which exchanges votes with it, one
//! that asks the ordering server for the next order, and one that hands it proposals. A message that is lost is sent again,
//! since each task goes on until what it is about is certified.

use super::board::{Board, BoardState, PendingProposal};
use super::call::RemoteProcess;
use super::log::log;
use super::ordering_watch::fetch_proof;
use super::wire::{Nothing, OrderMessage, OrderRequest, PROPOSALS_MAX, ProposalsMessage, VotesMessage};
use crate::chain::PROPOSAL_BYTES_MAX;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// How long a call for votes may take.
const VOTES_LIMIT: Duration = Duration::from_secs(10);

/// Votes are exchanged this often even if nothing has changed.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// How long to wait after a process could not be reached.
const PAUSE: Duration = Duration::from_millis(200);

/// How long the ordering server may hold a call for an order.
const ORDER_WAIT_MS: u32 = 2_000;

/// Relayed votes that are looked at in one message.
const RELAYED_MAX: usize = 1024;

/// A proposal that was sent and is not certified after this time is sent again.
const SEND_AGAIN: Duration = Duration::from_secs(2);

/// A proposal that is not certified after this time is forgotten; its client sends it again if it still waits.
const FORGET: Duration = Duration::from_secs(600);

/// What a change of the votes changes.
fn vote_version(state: &BoardState) -> (u64, Option<u32>, usize) {
    (state.chain.height, state.own_vote.as_ref().map(|vote| vote.round), state.votes().count())
}

/// Takes over what another organization has said about the next block.
///
/// # Errors
/// What is wrong with its own vote; relayed votes that are wrong are noted.
pub(super) fn take_votes(board: &Board, place: usize, message: &VotesMessage) -> LedgerResult<()> {
    let height = message.height;
    if board.read(|state| state.members[place].height != height || !state.members[place].is_reached) {
        board.update(|state| {
            state.members[place].height = height;
            state.members[place].is_reached = true;
        });
    }
    for relayed in message.known.iter().take(RELAYED_MAX) {
        if let Err(error) = board.offer_vote(relayed, None) {
            board.note_refused(&board.directory.genesis.members[place].name, &error);
        }
    }
    let name = &board.directory.genesis.members[place].name;
    for dismissal in message.dismissals.iter().take(RELAYED_MAX) {
        if let Err(error) = board.offer_dismissal(dismissal) {
            board.note_refused(name, &error);
        }
    }
    if !message.waiting.is_empty()
        && let Err(error) = board.offer_waiting(&message.waiting)
    {
        board.note_refused(name, &error);
    }
    for own in [&message.last, &message.own].into_iter().filter(|own| !own.is_empty()) {
        board.offer_vote(own, Some(place))?;
    }
    Ok(())
}

/// Exchanges votes with another organization until the node stops.
pub(super) async fn exchange_votes(board: Arc<Board>, process: RemoteProcess, place: usize) {
    let mut changes = board.subscribe();
    while !board.is_stopped() {
        let sent = board.read(vote_version);
        let answer = process.call("Votes", board.votes_message(), VOTES_LIMIT).await;
        match answer {
            Ok(answer) => {
                if let Err(error) = take_votes(&board, place, &answer) {
                    board.note_refused(&process.name, &error);
                }
                fetch_unknown_order(&board, &process, place).await;
                fetch_proof(&board, &process, answer.two_orders_of).await;
            }
            Err(error) => {
                if board.read(|state| state.members[place].is_reached) {
                    log(&error);
                    board.update(|state| state.members[place].is_reached = false);
                }
                sleep(PAUSE).await;
            }
        }
        let is_same = |board: &Board| board.read(|state| vote_version(state) == sent && !state.is_stopped);
        let changed = async { while is_same(&board) && changes.changed().await.is_ok() {} };
        let _ = timeout(HEARTBEAT, changed).await;
    }
}

/// Asks a member for the order that it has voted for, if it is not the one that is here.
async fn fetch_unknown_order(board: &Board, process: &RemoteProcess, place: usize) {
    let unknown = board.read(|state| {
        let mut votes = state.votes().filter(|vote| vote.member as usize == place);
        votes.any(|vote| !state.orders.contains_key(&vote.header.order)).then_some(state.chain.height + 1)
    });
    let Some(height) = unknown else { return };
    let request = OrderRequest { height, wait_ms: 0 };
    if let Ok(OrderMessage { order }) = process.call("Order", request, VOTES_LIMIT).await
        && !order.is_empty()
        && let Err(error) = board.offer_order(&order)
    {
        board.note_refused(&process.name, &error);
    }
}

fn offer_order_of(board: &Board, order: &[u8], height: u64) -> LedgerResult<()> {
    let found = board.offer_order(order)?;
    if found != height {
        let reason = format!("an order for block {found} came for one for block {height}");
        return Err(LedgerError::Untrusted(reason));
    }
    Ok(())
}

/// The servers of each ordering service, in the order in which the services take over.
pub(super) type OrderingServices = Vec<Vec<RemoteProcess>>;

/// Asks the ordering service whose turn it is for the order of the next block until the node stops.
pub(super) async fn fetch_orders(board: Arc<Board>, services: OrderingServices) {
    let (mut changes, mut asked, mut turn) = (board.subscribe(), 0, 0);
    while !board.is_stopped() {
        let (height, tenure) = board.read(|state| (state.chain.height + 1, state.chain.tenure()));
        if asked == height {
            let _ = timeout(HEARTBEAT, changes.changed()).await;
            continue;
        }
        let servers = &services[tenure.service as usize];
        let process = &servers[turn % servers.len()];
        let limit = Duration::from_millis(u64::from(ORDER_WAIT_MS)) + VOTES_LIMIT;
        // Its orders are numbered from where it took over.
        let request = OrderRequest { height: height - tenure.since, wait_ms: ORDER_WAIT_MS };
        match process.call::<_, OrderMessage>("Order", request, limit).await {
            // Another one may have it.
            Ok(OrderMessage { order }) if order.is_empty() => turn += 1,
            Ok(OrderMessage { order }) => match offer_order_of(&board, &order, height) {
                Ok(()) => asked = height,
                Err(error) => {
                    board.note_refused(&process.name, &error);
                    turn += 1;
                    sleep(PAUSE).await;
                }
            },
            Err(_) => {
                turn += 1;
                sleep(PAUSE).await;
            }
        }
    }
}

/// Proposals that are to be sent now, in the order in which they have come, as many as go into one message.
fn due_proposals(state: &BoardState) -> Vec<(LedgerHash, Vec<u8>)> {
    let is_due = |sent: Option<Instant>| sent.is_none_or(|sent| sent.elapsed() > SEND_AGAIN);
    let mut due: Vec<_> = state.pending.iter().filter(|(_, proposal)| is_due(proposal.sent)).collect();
    due.sort_unstable_by_key(|(_, proposal)| proposal.place);
    let mut bytes = 0;
    let fits = |(_, proposal): &(&LedgerHash, &PendingProposal)| {
        let is_first = bytes == 0;
        bytes += proposal.message.len();
        is_first || bytes <= PROPOSAL_BYTES_MAX
    };
    let fitting = due.into_iter().take(PROPOSALS_MAX).take_while(fits);
    fitting.map(|(name, proposal)| (*name, proposal.message.clone())).collect()
}

/// Notes why an ordering server has not taken proposals; for people if none of all servers does.
fn note_answer(
    board: &Board,
    reasons: &mut BTreeMap<String, String>,
    answer: LedgerResult<Nothing>,
    servers: usize,
) {
    match answer {
        Err(LedgerError::Process { name, message }) => {
            reasons.insert(name, message);
            if reasons.len() == servers {
                let shown = reasons.iter().map(|(name, reason)| format!("\"{name}\": {reason}"));
                board.note_not_ordered(shown.collect::<Vec<_>>().join("; "));
            }
        }
        _ => {
            reasons.clear();
            board.note_not_ordered(String::new());
        }
    }
}

/// Hands proposals to the ordering server, and again until they are certified.
pub(super) async fn forward_proposals(board: Arc<Board>, services: OrderingServices) {
    let (mut changes, mut turn, mut last) = (board.subscribe(), 0, 0);
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    while !board.is_stopped() {
        let (due, service) =
            board.read(|state| (due_proposals(state), state.chain.tenure().service as usize));
        let servers = &services[service];
        if last != service {
            last = service;
            reasons.clear();
        }
        if due.is_empty() {
            if board.read(|state| state.pending.is_empty()) {
                board.note_not_ordered(String::new());
            }
            let _ = timeout(HEARTBEAT, changes.changed()).await;
        } else {
            let (names, proposals): (Vec<LedgerHash>, Vec<Vec<u8>>) = due.into_iter().unzip();
            let process = &servers[turn % servers.len()];
            let message = ProposalsMessage { proposals, wait_ms: 0, seen_height: 0 };
            let answer = process.call::<_, Nothing>("Chain", message, VOTES_LIMIT).await;
            // What is refused would be refused again. Anything else goes out before those that came later.
            let is_taken = matches!(answer, Ok(_) | Err(LedgerError::Refused(_)));
            note_answer(&board, &mut reasons, answer, servers.len());
            if is_taken {
                board.update(|state| {
                    // What another service has taken since has to go to the one whose turn it is.
                    for name in names.iter().filter(|_| state.chain.tenure().service as usize == service) {
                        if let Some(proposal) = state.pending.get_mut(name) {
                            proposal.sent = Some(Instant::now());
                        }
                    }
                });
            } else {
                // Another one may be the leader.
                turn += 1;
                sleep(if turn.is_multiple_of(servers.len()) { PAUSE } else { Duration::ZERO }).await;
            }
        }
        if board.read(|state| state.pending.values().any(|proposal| proposal.since.elapsed() > FORGET)) {
            board.update(|state| state.pending.retain(|_, proposal| proposal.since.elapsed() <= FORGET));
        }
    }
}
