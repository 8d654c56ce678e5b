//! The task that replaces an ordering service: it signs this member's dismissal where there is a reason, and makes a succession of
//! the dismissals of a quorum (`crate::succession`).
//!
//! ```text
//! two orders of one number: found here or fetched from another member ─┐
//! a transaction waits, no order of the next block comes ───────────────┴─> own dismissal ─> Votes ─> the others
//! dismissals of a quorum for the next block ──> succession, in the place of an order ──> executed and voted on
//! ```
//! Each member dismisses by what it has seen itself: it verifies the two orders, and for silence it waits with a transaction of its
//! own or one that another member has handed on. A member that has dismissed the service takes no order of it in the first round,
//! unless another one has voted for it: so those that have dismissed it vote for one thing, and none keeps the others waiting.

use super::board::{Board, BoardState};
use super::call::RemoteProcess;
use super::log::log;
use super::wire::{OrderMessage, OrderRequest};
use crate::agreement::OrderEntry;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::signature::KeyPair;
use crate::succession::{Dismissal, DismissalReason, TwoOrders};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The task looks around this often even if the board has not changed.
const LOOK_AROUND: Duration = Duration::from_millis(200);

/// How long a call for two orders may take.
const PROOF_LIMIT: Duration = Duration::from_secs(30);

impl BoardState {
    /// The order to execute in the first round: a succession before all others, and none of a service that was dismissed here
    /// unless another member has voted for it.
    pub(super) fn first_order(&self, place: usize) -> Option<Vec<u8>> {
        if let Some(succession) = self.orders.values().find(|order| order.is_succession) {
            return Some(succession.message.clone());
        }
        let is_dismissed = self.complaints.is_dismissed_by(place, self.chain.height + 1);
        let is_voted_for = |hash: &LedgerHash| self.votes().any(|vote| vote.header.order == *hash);
        let mut orders = self.orders.iter().filter(|(hash, _)| !is_dismissed || is_voted_for(hash));
        orders.next().map(|(_, order)| order.message.clone())
    }

    /// Why this member should dismiss the service now, and from which block on.
    fn due_dismissal(&self, place: usize) -> Option<(DismissalReason, u64)> {
        let (complaints, next) = (&self.complaints, self.chain.height + 1);
        let is_busy = self.own_vote.is_some() || !self.orders.is_empty();
        let has_signed = |reason| complaints.dismissed_from(place, reason);
        if complaints.proof().is_some() && has_signed(DismissalReason::TwoOrders).is_none() {
            // The next block is voted on already, or will be at once.
            return Some((DismissalReason::TwoOrders, next + u64::from(is_busy)));
        }
        let is_silent = !is_busy && self.waits_for(complaints.patience?).is_some();
        let is_new = has_signed(DismissalReason::Silence) != Some(next);
        (is_silent && is_new).then_some((DismissalReason::Silence, next))
    }
}

impl Board {
    /// Keeps a transaction that another member waits for, so that this one hands it to the ordering service, too.
    ///
    /// # Errors
    /// What it would fail for.
    pub(super) fn offer_waiting(&self, entry: &[u8]) -> LedgerResult<()> {
        let genesis = &self.directory.genesis;
        let proposal = OrderEntry::of(entry, genesis)?.proposal();
        let name = LedgerHash::of_row(proposal);
        if self.is_pending(&name) || self.outcome(&name).is_some() {
            return Ok(());
        }
        let chain = self.read(|state| state.chain.clone());
        // It may be certified here already, and not there.
        let is_wanted = chain.check_alone(proposal).is_ok();
        if is_wanted {
            chain.check_agreements(entry, chain.height + 1)?;
            self.add_pending(vec![(name, entry.to_vec())])?;
        }
        Ok(())
    }
}

/// Whether another ordering service could take over.
fn has_successor(board: &Board) -> bool {
    let service = board.read(|state| state.chain.tenure().service);
    (service as usize) + 1 < board.directory.genesis.services().count()
}

/// Dismisses the ordering service whose turn it is where there is a reason, until the node stops.
pub(super) async fn watch_ordering(board: Arc<Board>, keys: KeyPair) {
    let mut changes = board.subscribe();
    let (genesis, network) = (&board.directory.genesis, board.directory.network);
    while !board.is_stopped() {
        let tenure = board.read(|state| state.chain.tenure());
        let due = board.read(|state| state.due_dismissal(board.place));
        if let Some((reason, first)) = due.filter(|_| has_successor(&board)) {
            let (member, service) = (board.place as u32, tenure.service);
            let dismissal = Dismissal { network, member, service, first, reason };
            let why = match reason {
                DismissalReason::TwoOrders => "it has signed two orders of one number",
                DismissalReason::Silence => "it hands out no order, and a transaction waits",
            };
            log(format_args!("dismisses ordering service {} from block {first} on: {why}", service + 1));
            note(&board, board.offer_dismissal(&dismissal.sign(&keys)));
        }
        let made = board.read(|state| {
            let is_there = state.orders.values().any(|order| order.is_succession);
            let of_next = || state.complaints.succession(genesis, network, state.chain.height + 1);
            if is_there { None } else { of_next() }
        });
        if let Some(succession) = made.filter(|_| has_successor(&board)) {
            note(&board, board.offer_order(&succession.sign(&keys)).map(drop));
        }
        let _ = timeout(LOOK_AROUND, changes.changed()).await;
    }
}

fn note(board: &Board, done: LedgerResult<()>) {
    if let Err(error) = done {
        board.note_refused(&board.directory.own().name, &error);
    }
}

/// Fetches the two orders that another member says it has, where they are not here.
pub(super) async fn fetch_proof(board: &Board, process: &RemoteProcess, service: u32) {
    let is_wanted = board.read(|state| {
        let is_of_now = service == state.chain.tenure().service + 1;
        is_of_now && state.complaints.proof().is_none()
    });
    if !is_wanted || !has_successor(board) {
        return;
    }
    let request = OrderRequest { height: 0, wait_ms: 0 };
    let fetched = process.call::<_, OrderMessage>("TwoOrders", request, PROOF_LIMIT).await;
    let taken = fetched.and_then(|OrderMessage { order }| {
        // It may have another service by now.
        if order.is_empty() { Ok(()) } else { board.offer_proof(TwoOrders::decode(&order)?) }
    });
    if let Err(error @ (LedgerError::Untrusted(_) | LedgerError::Malformed(_))) = taken {
        board.note_refused(&process.name, &error);
    }
}
