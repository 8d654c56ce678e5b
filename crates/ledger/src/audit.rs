//! Audits in the background: every so often a thread reads all rows of the shared tables, in a transaction that sees them as
//! they were after a block, and compares what they add up to with what the blocks have made of them. It finds what no vote is
//! about: rows that were changed past the ledger, with its triggers or without them, and that no block has touched since.
//!
//! ```text
//! blocks   ... 7 │ 8 ─ 9 ─ 10 ─ 11 │ ...
//! audit          └ height: 7 ─ rows ─ rows ─ ROLLBACK ─> tables whose rows do not add up to their secret sums of block 7
//! ```
//! The secret sums of hash ranges ([`crate::ranges`]) are followed block by block, so neither another member nor the file is read,
//! and of the rows nothing is kept in memory. Which rows differ is known by comparing them with a member's that has those of the
//! block: [`crate::recovery`].

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
    /// The pause between the end of one and the next one.
    pub pause: Duration,
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
    /// How long it took.
    pub took: Duration,
    /// The tables that are not what the blocks have made of them.
    pub differing: Vec<String>,
}

struct RunningAudit {
    is_cancelled: Arc<AtomicBool>,
    thread: JoinHandle<LedgerResult<AuditReport>>,
}

/// The audits of an organization, one at a time.
pub struct Audits {
    settings: AuditSettings,
    running: Option<RunningAudit>,
    /// When the next one begins.
    due: Instant,
}

/// Reads the tables of a snapshot, which is of the block that these states are of.
fn audit(
    snapshot: &mut MemberSnapshot,
    states: &TableStates,
    is_cancelled: &AtomicBool,
) -> LedgerResult<AuditReport> {
    let (started, height) = (Instant::now(), snapshot.height());
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
    Ok(AuditReport { height, rows, took: started.elapsed(), differing })
}

impl Audits {
    /// The first one is due after a pause: an organization reads its tables when it is opened.
    pub fn new(settings: AuditSettings) -> Audits {
        let due = Instant::now() + settings.pause;
        Audits { settings, running: None, due }
    }

    /// Begins an audit of the tables after a block, if one is due. The caller commits nothing meanwhile, so this takes as long as
    /// to begin a transaction over a new connection.
    ///
    /// # Errors
    /// [`LedgerError::Database`]; [`LedgerError::Missing`] if the database has another block.
    pub(crate) fn begin(&mut self, height: u64, states: &TableStates) -> LedgerResult<()> {
        if self.running.is_some() || Instant::now() < self.due {
            return Ok(());
        }
        // If it cannot be begun it is tried again after a pause.
        self.due = Instant::now() + self.settings.pause;
        let mut snapshot = (self.settings.open_snapshot)()?;
        if snapshot.height() != height {
            let other = snapshot.height();
            let reason = format!("no audit of block {height}: its snapshot is of block {other}");
            return Err(LedgerError::Missing(reason));
        }
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (states, cancelled) = (states.clone(), is_cancelled.clone());
        let thread = std::thread::spawn(move || audit(&mut snapshot, &states, &cancelled));
        self.running = Some(RunningAudit { is_cancelled, thread });
        Ok(())
    }

    /// What the audit has found, if it has ended since the last call.
    pub(crate) fn ended(&mut self) -> Option<LedgerResult<AuditReport>> {
        let ended = self.running.take_if(|running| running.thread.is_finished())?;
        let panicked = |_| Err(LedgerError::Missing("the thread of an audit has panicked".into()));
        let ended = ended.thread.join().unwrap_or_else(panicked);
        let took = ended.as_ref().map_or(Duration::ZERO, |report| report.took);
        self.due = Instant::now() + self.settings.pause.max(took * PAUSE_PER_AUDIT);
        Some(ended)
    }

    /// Whether an audit is reading.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The next one is due now.
    pub(crate) fn hasten(&mut self) {
        self.due = Instant::now();
    }

    /// Gives up the audit that is reading, and what it would find: a repair reads the tables itself. Where tables are to be
    /// dropped it `waits` until the transaction has ended, because they cannot be before.
    pub(crate) fn give_up(&mut self, waits: bool) {
        if let Some(running) = self.running.take() {
            running.is_cancelled.store(true, Ordering::Relaxed);
            if waits {
                let _ = running.thread.join();
            }
            self.due = Instant::now() + self.settings.pause;
        }
    }
}

/// Nobody waits for the thread: its database may not answer any more. It ends at the next row, or with the process.
impl Drop for Audits {
    fn drop(&mut self) {
        self.give_up(false);
    }
}
