//! The ordering server: takes signed proposals from organizations, puts them into blocks by count and time, signs these, and
//! hands them out by height to those that ask. It is trusted with nothing: members compare what they got.
//!
//! ```text
//! Chain ──> waiting ── a block is full, or the oldest has waited long enough ──> signed, in the file, synced ──> Order
//! ```
//! It may be killed at any moment. What is in the file stays as it is; what was waiting is sent again by the organizations,
//! which do so until a proposal is certified.

use super::config::{BatchConfig, NodeFolder, PartyRole};
use super::directory::Directory;
use super::orders::{ORDER_BYTES_MAX, OrderFile};
use super::serve::{CallHandler, IncomingCall, OutgoingAnswer};
use super::wire::{
    Nothing, ORDERING, OrderMessage, OrderRequest, PROPOSAL_MESSAGE_BYTES_MAX, ProposalMessage,
    SMALL_MESSAGE_BYTES_MAX,
};
use crate::chain::PROPOSAL_BYTES_MAX;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::message::{OrderedBlock, Proposal};
use crate::signature::KeyPair;
use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Proposals that may wait at once.
const WAITING_MAX: usize = 100_000;

/// Bytes of all proposals that may wait at once.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// Proposals that are known to be ordered, and not ordered again if they are sent again.
const ORDERED_KNOWN_MAX: usize = 1_000_000;

/// How long a call for an order may wait for it.
const ORDER_WAIT_MS_MAX: u32 = 10_000;

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
    failure: Option<LedgerError>,
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
}

/// What is kept of a proposal to know it again.
fn name_of(proposal: &[u8]) -> LedgerHash {
    LedgerHash::of_row(proposal)
}

/// An ordering server.
pub struct OrderingServer {
    directory: Arc<Directory>,
    keys: KeyPair,
    batch: BatchConfig,
    waiting: Mutex<WaitingList>,
    changed: Condvar,
    file: Mutex<OrderFile>,
    height: watch::Sender<u64>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OrderingServer {
    /// Opens the file of orders.
    ///
    /// # Errors
    /// [`LedgerError::File`]; [`LedgerError::Untrusted`] if the key is not that of the founding document.
    pub fn open(folder: &NodeFolder, directory: Arc<Directory>) -> LedgerResult<Arc<OrderingServer>> {
        let keys = folder.keys()?;
        if keys.public() != directory.genesis.ordering {
            let reason = format!("{} is not the key of the network's ordering service", keys.public());
            return Err(LedgerError::Untrusted(reason));
        }
        let batch = *folder.require(folder.config.batch.as_ref(), "batch")?;
        let mut waiting = WaitingList::default();
        let file = OrderFile::open(&folder.kept_file()?, &directory.genesis, &mut |order| {
            order.proposals.iter().for_each(|proposal| waiting.note_ordered(name_of(proposal)));
        })?;
        let height = watch::Sender::new(file.height());
        let server = OrderingServer {
            directory,
            keys,
            batch,
            waiting: Mutex::new(waiting),
            changed: Condvar::new(),
            file: Mutex::new(file),
            height,
        };
        Ok(Arc::new(server))
    }

    /// The last order's height.
    pub fn height(&self) -> u64 {
        *self.height.borrow()
    }

    /// Makes blocks until it is stopped. Blocks its thread.
    ///
    /// # Errors
    /// [`LedgerError::File`] if an order cannot be written; no order is signed after that.
    pub fn run(&self) -> LedgerResult<()> {
        loop {
            let mut waiting = locked(&self.waiting);
            loop {
                if waiting.is_stopped {
                    return Ok(());
                }
                let Some(first) = waiting.proposals.front() else {
                    waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let rest = Duration::from_millis(self.batch.wait_ms).saturating_sub(first.since.elapsed());
                let is_due = rest.is_zero() || waiting.proposals.len() >= self.batch.transactions_max;
                if is_due || first.is_definition {
                    break;
                }
                let woken = self.changed.wait_timeout(waiting, rest);
                waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
            }
            let proposals = waiting.take(&self.batch);
            proposals.iter().for_each(|proposal| waiting.note_ordered(name_of(proposal)));
            drop(waiting);
            self.order(proposals).inspect_err(|error| locked(&self.waiting).failure = Some(error.clone()))?;
        }
    }

    fn order(&self, proposals: Vec<Vec<u8>>) -> LedgerResult<()> {
        let mut file = locked(&self.file);
        let height = file.height() + 1;
        let order = OrderedBlock { network: self.directory.network, height, proposals };
        file.append(&order.sign(&self.keys))?;
        drop(file);
        self.height.send_replace(height);
        Ok(())
    }

    /// Ends [`OrderingServer::run`].
    pub fn stop(&self) {
        locked(&self.waiting).is_stopped = true;
        self.changed.notify_all();
    }

    /// Takes a proposal for the next block. One that was taken or ordered before is not taken again.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] if it is not signed by a client, [`LedgerError::Refused`] if it is too long or too many wait.
    pub fn take(&self, message: Vec<u8>) -> LedgerResult<()> {
        if message.len() > PROPOSAL_BYTES_MAX {
            let reason =
                format!("a transaction of {} bytes: up to {PROPOSAL_BYTES_MAX} are taken", message.len());
            return Err(LedgerError::Refused(reason));
        }
        let (_, proposal) = Proposal::verify(&message, &self.directory.genesis, &self.directory.network)?;
        let is_definition = match &proposal.statements[..] {
            [statement] => SharedTable::is_definition(&statement.sql),
            _ => false,
        };
        let mut waiting = locked(&self.waiting);
        if let Some(failure) = &waiting.failure {
            return Err(failure.clone());
        }
        if waiting.known.contains(&name_of(&message)) {
            return Ok(());
        }
        if waiting.proposals.len() >= WAITING_MAX || waiting.bytes + message.len() > WAITING_BYTES_MAX {
            let reason =
                format!("{} transactions wait to be ordered; send it again later", waiting.proposals.len());
            return Err(LedgerError::Refused(reason));
        }
        waiting.bytes += message.len();
        waiting.known.insert(name_of(&message));
        waiting.proposals.push_back(WaitingProposal { message, is_definition, since: Instant::now() });
        drop(waiting);
        self.changed.notify_all();
        Ok(())
    }

    async fn order_of(self: Arc<Self>, request: OrderRequest) -> LedgerResult<OrderMessage> {
        let mut heights = self.height.subscribe();
        let wait = Duration::from_millis(u64::from(request.wait_ms.min(ORDER_WAIT_MS_MAX)));
        let _ = tokio::time::timeout(wait, heights.wait_for(|height| *height >= request.height)).await;
        let read = tokio::task::spawn_blocking(move || locked(&self.file).read(request.height)).await;
        let order = read.map_err(|error| LedgerError::Missing(error.to_string()))??;
        Ok(OrderMessage { order: order.unwrap_or_default() })
    }
}

impl CallHandler for OrderingServer {
    fn answer(
        self: Arc<Self>,
        method: String,
        call: IncomingCall,
    ) -> Pin<Box<dyn Future<Output = OutgoingAnswer> + Send>> {
        Box::pin(async move {
            let call = match call.of(&[PartyRole::Organization]) {
                Ok(call) => call,
                Err(refused) => return refused,
            };
            match method.strip_prefix(ORDERING) {
                Some("/Chain") => {
                    let take = |message: ProposalMessage| async move {
                        self.take(message.proposal).map(|()| Nothing {})
                    };
                    call.with(PROPOSAL_MESSAGE_BYTES_MAX, take).await
                }
                Some("/Order") => call.with(SMALL_MESSAGE_BYTES_MAX, |request| self.order_of(request)).await,
                _ => call.refuse(&LedgerError::Missing(format!("an ordering server has no method {method}"))),
            }
        })
    }
}
