//! Comparisons of rows between nodes: another organization as the donor of a repair, and what this one does as a donor. Both are one
//! call with messages in both directions, so that a donor keeps its snapshot as long as the call goes on and no longer.

use super::board::Board;
use super::call::{Conversation, RemoteProcess};
use super::wire::{BlocksMessage, BlocksRequest, CompareRequest, DonationMessage};
use crate::change::TableStates;
use crate::comparison::{ComparedRanges, ComparisonLimits, DonationVisitor, ListedRows, RangeHashes};
use crate::donation::{compare_ranges, compare_rows};
use crate::error::{LedgerError, LedgerResult};
use crate::member::snapshot::MemberSnapshot;
use crate::recovery::Donor;
use crate::verify::CertifiedBlock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long a donor may take for an answer: it may have to read a whole table.
const COMPARE_LIMIT: Duration = Duration::from_secs(300);

/// How long blocks may take to come.
const BLOCKS_LIMIT: Duration = Duration::from_secs(30);

/// How long a donor waits for what the other says next, or takes, before it ends its snapshot.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// How often a donor that waits looks whether it is to give up.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// Another organization as a donor.
pub(super) struct RemoteDonor {
    pub(super) process: RemoteProcess,
    runtime: Handle,
    board: Arc<Board>,
    comparison: Option<(mpsc::Sender<CompareRequest>, Conversation<DonationMessage>)>,
}

impl RemoteDonor {
    pub(super) fn new(process: RemoteProcess, runtime: Handle, board: Arc<Board>) -> RemoteDonor {
        RemoteDonor { process, runtime, board, comparison: None }
    }

    /// Waits for something for a limited time, unless the node stops meanwhile.
    fn wait<T>(&self, limit: Duration, work: impl Future<Output = LedgerResult<T>>) -> LedgerResult<T> {
        wait(&self.runtime, &self.board, &self.process.name, limit, work)
    }

    fn no_comparison(&self) -> LedgerError {
        LedgerError::Missing(format!("no comparison with \"{}\" has begun", self.process.name))
    }

    /// Sends a message of the comparison. Where the donor has ended that, its answer says why.
    fn tell(&mut self, request: CompareRequest) -> LedgerResult<()> {
        let Some((requests, _)) = &self.comparison else { return Err(self.no_comparison()) };
        let sent = async {
            let _ = requests.send(request).await;
            Ok(())
        };
        self.wait(COMPARE_LIMIT, sent)
    }

    fn answer(&mut self) -> LedgerResult<DonationMessage> {
        let RemoteDonor { process, runtime, board, comparison } = self;
        let Some((_, answers)) = comparison else { return Err(self.no_comparison()) };
        wait(runtime, board, &process.name, COMPARE_LIMIT, answers.answer())
    }
}

fn wait<T>(
    runtime: &Handle,
    board: &Board,
    name: &str,
    limit: Duration,
    work: impl Future<Output = LedgerResult<T>>,
) -> LedgerResult<T> {
    let mut changes = board.subscribe();
    runtime.block_on(async {
        let stopped = async { while !board.is_stopped() && changes.changed().await.is_ok() {} };
        tokio::select! {
            done = timeout(limit, work) => done.unwrap_or_else(|_| Err(LedgerError::Process {
                name: name.to_owned(),
                message: format!("it has not answered in {} s", limit.as_secs()),
            })),
            () = stopped => Err(LedgerError::Missing("the node stops".into())),
        }
    })
}

impl Donor for RemoteDonor {
    fn name(&self) -> String {
        self.process.name.clone()
    }

    fn certified_blocks(&mut self, above: u64, to: u64) -> LedgerResult<Vec<CertifiedBlock>> {
        let request = BlocksRequest { above, to };
        let call = self.process.call("Blocks", request, BLOCKS_LIMIT);
        let blocks: BlocksMessage = self.wait(BLOCKS_LIMIT, call)?;
        blocks.blocks.into_iter().map(|block| block.certified()).collect()
    }

    fn begin_comparison(&mut self, own: &RangeHashes) -> LedgerResult<ComparedRanges> {
        let (requests, messages) = mpsc::channel(1);
        let call = self.process.converse("Compare", messages);
        let answers = self.wait(COMPARE_LIMIT, call)?;
        self.comparison = Some((requests, answers));
        self.tell(CompareRequest::of_ranges(own))?;
        Ok(self.answer()?.ranges())
    }

    fn compare(&mut self, listed: ListedRows, take: &mut DonationVisitor<'_>) -> LedgerResult<()> {
        self.tell(CompareRequest::of_rows(listed))?;
        loop {
            let answer = self.answer()?;
            let is_last = answer.is_last;
            answer.rows().into_iter().try_for_each(&mut *take)?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn end_comparison(&mut self) {
        self.comparison = None;
    }
}

/// A comparison that another organization wants.
pub(super) struct ComparisonCall {
    pub(super) requests: mpsc::Receiver<CompareRequest>,
    pub(super) answers: mpsc::Sender<LedgerResult<DonationMessage>>,
}

impl ComparisonCall {
    /// Says why there will be no comparison.
    pub(super) fn refuse(self, error: LedgerError) {
        // Nothing waits in the channel yet.
        let _ = self.answers.try_send(Err(error));
    }
}

/// How a donor's thread waits for the other organization.
pub(super) struct DonorPatience {
    pub(super) runtime: Handle,
    /// Whether the snapshot has to end.
    pub(super) is_given_up: Arc<AtomicBool>,
}

impl DonorPatience {
    /// Waits for something, unless the other is silent or the snapshot has to end.
    fn wait<T>(&self, work: impl Future<Output = T>) -> LedgerResult<T> {
        let (mut work, until) = (std::pin::pin!(work), Instant::now() + SILENCE_MAX);
        loop {
            if let Ok(done) = self.runtime.block_on(async { timeout(LOOK_AROUND, &mut work).await }) {
                return Ok(done);
            }
            if self.is_given_up.load(Ordering::Relaxed) {
                return Err(LedgerError::Missing("its tables are made anew; ask another member".into()));
            }
            if Instant::now() > until {
                let reason = format!("the other has said nothing for {} s", SILENCE_MAX.as_secs());
                return Err(LedgerError::Missing(reason));
            }
        }
    }
}

/// Answers a comparison out of a snapshot with these states, until the other has no more questions. Blocks its thread.
pub(super) fn answer_comparison(
    call: ComparisonCall,
    snapshot: &mut MemberSnapshot,
    states: &TableStates,
    patience: &DonorPatience,
) {
    let ComparisonCall { mut requests, answers } = call;
    if let Err(error) = converse(&mut requests, &answers, snapshot, states, patience) {
        let _ = patience.wait(answers.send(Err(error)));
    }
}

fn converse(
    requests: &mut mpsc::Receiver<CompareRequest>,
    answers: &mpsc::Sender<LedgerResult<DonationMessage>>,
    snapshot: &mut MemberSnapshot,
    states: &TableStates,
    patience: &DonorPatience,
) -> LedgerResult<()> {
    let give = |answer: DonationMessage| {
        let ended = |_| LedgerError::Missing("the other has ended the comparison".into());
        patience.wait(answers.send(Ok(answer)))?.map_err(ended)
    };
    let Some(first) = patience.wait(requests.recv())? else { return Ok(()) };
    give(DonationMessage::of_ranges(compare_ranges(snapshot.height(), states, &first.ranges()?)))?;
    let limit = ComparisonLimits::default().donated;
    while let Some(request) = patience.wait(requests.recv())? {
        let listed = request.rows()?;
        let mut take = |rows| give(DonationMessage::of_rows(rows));
        compare_rows(snapshot, states, &listed, limit, &mut take)?;
        give(DonationMessage { is_last: true, ..DonationMessage::default() })?;
    }
    Ok(())
}
