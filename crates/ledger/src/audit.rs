//! Audits beside the blocks: every so often, and when people want it, a thread reads all rows of the shared tables, in a
//! transaction that sees them as they were after a block, and compares what they add up to with what the blocks have made of them. It finds what no vote is
//! about: rows that were changed past the ledger, with its triggers or without them, and that no block has touched since.
//!
//! ```text
//! blocks   ... 7 │ 8 ─ 9 ─ 10 ─ 11 │ ...
//! audit          └ height: 7 ─ rows ─ rows ─ ROLLBACK ─> tables whose rows do not add up to their secret sums of block 7
//! ```
//! The secret sums of hash ranges ([`crate::ranges`]) are followed block by block, so neither another member nor the file is read,
//! and of the rows nothing is kept in memory. Which rows differ is known by comparing them with a member's that has those of the
//! block: [`crate::recovery`].
//!
//! People want to know of what was so when they asked: an audit that began before does not answer them. Theirs do not change when
//! the next one in the background is due, and what they find is told and not repaired.

use crate::change::TableStates;
use crate::comparison::find_differing_ranges;
use crate::error::{LedgerError, LedgerResult};
use crate::member::snapshot::{MemberSnapshot, OpenSnapshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause after an audit is this many times what it took, at least: tables of any size are read a tenth of the time at most.
const PAUSE_PER_AUDIT: u32 = 9;

/// When there are audits, and of what.
pub struct AuditSettings {
    /// The pause between the end of one in the background and the next one; nothing if there are only those that people want.
    pub pause: Option<Duration>,
    /// Opens a snapshot of the member's database.
    pub open_snapshot: OpenSnapshot,
}

/// What an audit has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditReport {
    /// The block after which the tables were read.
    pub height: u64,
    /// Rows of all of them.
    pub rows: u64,
    /// When it began; what was changed past the ledger before is found.
    pub begun: Instant,
    /// How long it took.
    pub took: Duration,
    /// Whether it was due, and not only wanted by people.
    pub is_scheduled: bool,
    /// The tables that are not what the blocks have made of them.
    pub differing: Vec<String>,
}

struct RunningAudit {
    is_scheduled: bool,
    is_cancelled: Arc<AtomicBool>,
    thread: JoinHandle<LedgerResult<AuditReport>>,
}

/// The audits of an organization, one at a time.
pub struct Audits {
    settings: AuditSettings,
    running: Option<RunningAudit>,
    /// When the next one in the background begins, if there are some.
    due: Option<Instant>,
}

/// Reads the tables of a snapshot, which is of the block that these states are of.
fn audit(
    snapshot: &mut MemberSnapshot,
    states: &TableStates,
    begun: Instant,
    is_cancelled: &AtomicBool,
) -> LedgerResult<AuditReport> {
    let height = snapshot.height();
    let (mut rows, mut differing) = (0, Vec::new());
    for table in states.tables.values() {
        let sums = states.sums.get(&table.name).cloned().unwrap_or_default();
        let ranges = find_differing_ranges(snapshot, table, &sums, &mut |_, _, _| {
            if is_cancelled.load(Ordering::Relaxed) {
                return Err(LedgerError::Missing(format!("the audit of block {height} was given up")));
            }
            rows += 1;
            Ok(())
        })?;
        if !ranges.is_empty() {
            differing.push(table.name.clone());
        }
    }
    Ok(AuditReport { height, rows, begun, took: begun.elapsed(), is_scheduled: false, differing })
}

impl Audits {
    /// The first one is due after a pause: an organization reads its tables when it is opened.
    pub fn new(settings: AuditSettings) -> Audits {
        let mut audits = Audits { settings, running: None, due: None };
        audits.postpone(Duration::ZERO);
        audits
    }

    /// The next one in the background is due after the pause, or a longer one.
    fn postpone(&mut self, least: Duration) {
        self.due = self.settings.pause.map(|pause| Instant::now() + pause.max(least));
    }

    /// Begins an audit of the tables after a block, if one is due or people want one. The caller commits nothing meanwhile, so this takes as long as
    /// to begin a transaction over a new connection.
    ///
    /// # Errors
    /// [`LedgerError::Database`]; [`LedgerError::Missing`] if the database has another block.
    pub(crate) fn begin(&mut self, height: u64, states: &TableStates, is_wanted: bool) -> LedgerResult<()> {
        let begun = Instant::now();
        let is_scheduled = self.due.is_some_and(|due| due <= begun);
        if self.running.is_some() || !(is_scheduled || is_wanted) {
            return Ok(());
        }
        if is_scheduled {
            // If it cannot be begun it is tried again after a pause.
            self.postpone(Duration::ZERO);
        }
        let mut snapshot = (self.settings.open_snapshot)()?;
        if snapshot.height() != height {
            let other = snapshot.height();
            let reason = format!("no audit of block {height}: its snapshot is of block {other}");
            return Err(LedgerError::Missing(reason));
        }
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (states, cancelled) = (states.clone(), is_cancelled.clone());
        let thread = std::thread::spawn(move || audit(&mut snapshot, &states, begun, &cancelled));
        self.running = Some(RunningAudit { is_scheduled, is_cancelled, thread });
        Ok(())
    }

    /// What the audit has found, if it has ended since the last call.
    pub(crate) fn ended(&mut self) -> Option<LedgerResult<AuditReport>> {
        let RunningAudit { is_scheduled, thread, .. } =
            self.running.take_if(|running| running.thread.is_finished())?;
        let panicked = |_| Err(LedgerError::Missing("the thread of an audit has panicked".into()));
        let ended = thread.join().unwrap_or_else(panicked);
        if is_scheduled {
            let took = ended.as_ref().map_or(Duration::ZERO, |report| report.took);
            self.postpone(took * PAUSE_PER_AUDIT);
        }
        Some(ended.map(|report| AuditReport { is_scheduled, ..report }))
    }

    /// Whether an audit is reading.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The next one in the background is due now.
    pub(crate) fn hasten(&mut self) {
        self.due = self.settings.pause.map(|_| Instant::now());
    }

    /// Gives up the audit that is reading, and what it would find: a repair reads the tables itself. Where tables are to be
    /// dropped it `waits` until the transaction has ended, because they cannot be before.
    pub(crate) fn give_up(&mut self, waits: bool) {
        if let Some(running) = self.running.take() {
            running.is_cancelled.store(true, Ordering::Relaxed);
            if waits {
                let _ = running.thread.join();
            }
            self.postpone(Duration::ZERO);
        }
    }
}

/// Nobody waits for the thread: its database may not answer any more. It ends at the next row, or with the process.
impl Drop for Audits {
    fn drop(&mut self) {
        self.give_up(false);
    }
}
