//! loom models of whole commits: row headers, version chains, pruning and sweeping, on the real commit order and the
//! real registry of readers.
//!
//! The rows here are those of `ankerdb_table` in small: two columns, one header, one chain, and what a block keeps for
//! readers that copy whole columns (dirty bits, timestamps of change). Functions have the names of what they mirror, do
//! the same loads, stores and fences in the same order with the same orderings, and leave out what does not synchronize:
//!
//! | here | mirrors |
//! | --- | --- |
//! | [`ModelRow::read`], [`ModelRow::read_version`] | `RowBlock::read`, `read_version` (`crates/table/src/block.rs`) |
//! | [`ModelRow::save`], [`ModelRow::take_back`] | `RowBlock::save`, `take_back`, with the pruning of `OwnedRow::save_update` |
//! | [`ModelRow::install`] | `RowBlock::install_update`; the order of stores is that of `crates/table/src/header.rs` |
//! | [`ModelRow::push`], [`ModelRow::prune`], [`Run`] | `VersionChain` and `Run` (`crates/table/src/version.rs`) |
//! | [`ModelRow::install_ahead`], [`ModelRow::withdraw`], [`ModelRow::settle`] | `install_update_ahead`, `withdraw_update`, `settle_update` (`crates/table/src/block/ahead.rs`) |
//! | [`copy_rows`], [`ModelRow::correct`], [`Changes`] | `copy_block`, `Walk` (`crates/snapshot/src/materialize.rs`); `raise` |
//! | [`ModelDatabase::sweep`], [`ModelRow::sweep`] | `Storage::sweep`, `RowBlock::sweep` |
//! | [`ModelTransaction::lock`], [`ModelTransaction::restart`] | `ModelTransaction::lock`, `restart_statement` (`crates/transaction/src/lock.rs`, `statement.rs`) |
//! | [`ModelTransaction::commit`] | `ModelTransaction::commit` (`crates/transaction/src/commit.rs`), docs/design/commit.md |
//! | [`ModelTransaction::commit_large`] | `ModelTransaction::commit` of many rows (`crates/transaction/src/ahead.rs`) |
//! | [`ModelTransaction::validate_ahead`] | `ModelTransaction::validate_ahead` (`crates/transaction/src/validate.rs`) |
//!
//! They have to change together: `crates/transaction/tests/conformance` leads both through the same interleavings, from
//! step to step (`ankerdb_base::failpoint`), and compares rows, versions, readers and the watermark after each. For that
//! it compiles this file with real atomics. It cannot compare fences and orderings; the models here check those.
//!
//! Not here: lending and copy on write (`lending_model`), index entries, deleted rows and the reuse of their slots,
//! waiting for row locks.
//!
//! What a model checks is in the values: every state of a row is known from its timestamp, so a reader that was shown
//! anything else has found an error. The content of versions lies in loom's checked cells; versions that are unlinked
//! are kept until the end of an execution, which stands in for pins.

// Paths, so that they are found from where the conformance test compiles this file.
#[cfg(loom)]
#[path = "row_model/models.rs"]
mod models;
#[path = "row_model/row.rs"]
mod row;

use std::mem::ManuallyDrop;
use std::sync::Arc as Shared;

use ankerdb_base::{Timestamp, failpoint};

use crate::commit_order::{CommitOrder, Visited};
use crate::pending::{PendingCommit, PendingCommits};
use crate::primitive::{Arc, AtomicU64, Ordering, ProofStep, weakened};
use crate::readers::{ActiveReaders, ReaderSlot};
pub(crate) use row::COLUMNS;
use row::{Changes, ModelRow, TIMESTAMP, copy_rows};

/// Steps that control models take out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowStep {
    /// install: the version is there before the header shows the commit.
    PushesFirst,
    /// install: the version's content is there before the chain shows it.
    PushReleases,
    /// install: the header shows the commit before any cell does.
    AnnouncesFirst,
    /// install: a release fence lies between header and cells.
    InstallFences,
    /// install: the row is dirty, and its change known, before any cell shows it.
    RaisesFirst,
    /// read: an acquire fence lies between cell and header.
    ReadFences,
    /// read: the header is looked at again.
    ReadConfirms,
    /// copy: an acquire fence lies between the copies and the headers.
    CopyFences,
    /// prune: versions that an announced reader needs stay.
    PruneKeepsReaders,
    /// prune: versions that end after the watermark stay, since new readers may begin there.
    PruneKeepsNewcomers,
    /// prune: the cells of a version that goes move to the next older one.
    PruneMovesCells,
    /// prune: a run leaves, and what takes its cells comes, in one store.
    PruneReplacesAtOnce,
    /// sweep: only rows whose newest state every reader sees are clean.
    SweepAsksHorizon,
    /// commit: rows are owned while they are written.
    CommitLocks,
    /// commit: a row that has changed since the transaction began ends it.
    FirstCommitterWins,
    /// commit: others' records are looked at again when its own is published.
    PublishesFirst,
    /// commit: the commit finishes only when it is installed.
    FinishesLast,
    /// commit: it is acknowledged only when it is visible.
    WaitsUntilVisible,
    /// restart: what was read is checked before the timestamp moves.
    RestartChecks,
    /// restart: the new timestamp is taken before the check, which goes as far.
    RestartTakesFirst,
    /// large commit: it is decided before it is finished.
    DecidesFirst,
    /// large commit: pending rows are counted, and readers that copy columns check the count.
    AheadCounts,
    /// large commit: the timestamps of change are raised before a row is counted out.
    SettleRaisesFirst,
    /// large commit: one that ends gives its rows a timestamp of their own.
    WithdrawTakesTimestamp,
}

fn without(step: RowStep) -> bool {
    weakened(ProofStep::Row(step))
}

/// What a commit published: the rows and columns that it writes.
type Record = Vec<(usize, usize)>;

/// A row, one of its columns, and a cell for it.
type Write = (usize, usize, u64);

/// A commit that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// A row is owned by another transaction.
    Busy,
    /// A row has changed since the transaction began.
    Changed,
    /// A concurrent commit writes what was read.
    Conflict,
}

/// Large commits at once, where sessions are led.
const LARGE_COMMITS: usize = 8;

/// The rows of one block, a commit order and readers.
pub(crate) struct ModelDatabase {
    rows: Vec<ModelRow>,
    changes: Changes,
    large: PendingCommits,
    /// The horizon of the last pass of the pruner.
    swept_at: AtomicU64,
    /// Not dropped when a model has failed: loom cannot go on then, and would abort the process.
    order: ManuallyDrop<CommitOrder<Record>>,
    readers: Shared<ActiveReaders>,
    retired: std::sync::Mutex<ManuallyDrop<Vec<Arc<Record>>>>,
}

// SAFETY: rows are `Sync`, and so is everything else.
unsafe impl Sync for ModelDatabase {}

impl Drop for ModelDatabase {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.rows.drain(..).for_each(std::mem::forget);
        } else {
            // SAFETY: dropped once, here.
            unsafe {
                ManuallyDrop::drop(&mut self.order);
                ManuallyDrop::drop(self.retired.get_mut().unwrap());
            }
        }
    }
}

/// A transaction: what it reads at, and what it has read.
pub(crate) struct ModelTransaction<'d> {
    database: &'d ModelDatabase,
    slot: ReaderSlot,
    start: u64,
    reads: Record,
    /// Rows locked by statements and not given up yet.
    locked: Vec<usize>,
    /// Taken earlier, and not taken anew. An older list keeps more, never less.
    pub(crate) in_use: Option<Vec<Timestamp>>,
}

impl ModelDatabase {
    pub(crate) fn new(rows: usize) -> Shared<ModelDatabase> {
        Shared::new(ModelDatabase {
            rows: (0..rows).map(|_| ModelRow::new()).collect(),
            changes: Changes::new(),
            large: PendingCommits::new(if cfg!(loom) { 1 } else { LARGE_COMMITS }),
            swept_at: AtomicU64::new(u64::MAX),
            order: ManuallyDrop::new(CommitOrder::new(if cfg!(loom) { 4 } else { 64 })),
            readers: ActiveReaders::new(),
            retired: Default::default(),
        })
    }

    pub(crate) fn begin(&self) -> ModelTransaction<'_> {
        let slot = self.readers.register();
        let start = slot.enter(|| self.order.watermark()).0;
        ModelTransaction { database: self, slot, start, reads: Vec::new(), locked: Vec::new(), in_use: None }
    }

    pub(crate) fn in_use(&self) -> Vec<Timestamp> {
        let mut in_use = Vec::new();
        self.readers.in_use(self.order.watermark(), &mut in_use);
        in_use
    }

    fn settle(&self, writes: &[Write], large: PendingCommit<'_>, commit: u64) {
        for &(row, column, cell) in writes {
            failpoint::step("timestamp of a row");
            self.rows[row].settle(commit, &[(column, cell)], &self.changes);
        }
        large.end();
    }

    /// A pass of the pruner.
    pub(crate) fn sweep(&self) {
        let horizon = self.readers.oldest(self.order.watermark()).0;
        let dirty: Vec<&ModelRow> = self.rows.iter().filter(|row| row.is_dirty()).collect();
        if dirty.is_empty() || self.swept_at.swap(horizon, Ordering::Relaxed) == horizon {
            return;
        }
        dirty.into_iter().for_each(|row| row.sweep(horizon));
    }
}

impl ModelTransaction<'_> {
    pub(crate) fn read(&mut self, row: usize, column: usize) -> u64 {
        self.reads.push((row, column));
        self.database.rows[row].read(column, self.start, &self.database.large)
    }

    pub(crate) fn copy(&self) -> Vec<[u64; COLUMNS]> {
        copy_rows(&self.database.rows, &self.database.changes, &self.database.large, self.start)
    }

    /// Locks a row before the commit; whether it has changed since the transaction's timestamp.
    pub(crate) fn lock(&mut self, row: usize) -> Result<bool, Ended> {
        let header = self.database.rows[row].try_lock().ok_or(Ended::Busy)?;
        failpoint::step("row locked by a statement");
        self.locked.push(row);
        let has_changed = header & TIMESTAMP > self.start;
        if has_changed {
            self.database.order.wait_until_visible(Timestamp(header & TIMESTAMP));
        }
        Ok(has_changed)
    }

    /// Moves on to the watermark, if nothing that was read has changed. Otherwise the transaction is to end.
    pub(crate) fn restart(&mut self) -> Result<(), Ended> {
        let order = &self.database.order;
        let slot = self.database.readers.register();
        let early = without(RowStep::RestartTakesFirst).then(|| self.visit(order.watermark().next()));
        failpoint::step("statement restarts");
        let now = slot.enter(|| order.watermark());
        failpoint::step("newer timestamp announced");
        let visited = early.unwrap_or_else(|| self.visit(now.next()));
        if visited != Visited::Clear && !without(RowStep::RestartChecks) {
            return Err(Ended::Conflict);
        }
        (self.slot, self.start) = (slot, now.0);
        Ok(())
    }

    /// Looks for commits after the transaction's timestamp and before another that have written what was read.
    fn visit(&self, before: Timestamp) -> Visited {
        self.visit_between(Timestamp(self.start), before)
    }

    fn visit_between(&self, after: Timestamp, before: Timestamp) -> Visited {
        let order = &self.database.order;
        // SAFETY: what is retired is kept until the end of the execution.
        let visited = unsafe {
            order.visit_between(after, before, |_, record| {
                record.iter().any(|write| self.reads.contains(write))
            })
        };
        failpoint::step("reads checked");
        visited
    }

    /// Gives up the rows that no commit has taken.
    fn release_locks(&mut self) {
        let rows = std::mem::take(&mut self.locked);
        rows.into_iter().for_each(|row| self.database.rows[row].unlock());
    }

    /// Commits one cell in each of some rows, in the order of rows. `serializable` or by snapshot isolation.
    pub(crate) fn commit(mut self, writes: &[Write], serializable: bool) -> Result<u64, Ended> {
        let database = self.database;
        let outcome = self.commit_steps(writes, serializable);
        self.release_locks();
        self.slot.leave();
        if let Ok(commit) = outcome
            && !without(RowStep::WaitsUntilVisible)
        {
            database.order.wait_until_visible(Timestamp(commit));
        }
        outcome
    }

    fn commit_steps(&mut self, writes: &[Write], serializable: bool) -> Result<u64, Ended> {
        let in_use = self.in_use.clone().unwrap_or_else(|| self.database.in_use());
        self.lock_rows(writes)?;
        let (rows, order) = (&self.database.rows, &self.database.order);
        writes.iter().for_each(|&(row, column, cell)| rows[row].save(&[(column, cell)], &in_use));
        let commit = match self.publish_and_validate(writes, serializable) {
            Ok(commit) => commit,
            Err(ended) => {
                for &(row, ..) in writes {
                    rows[row].take_back();
                    rows[row].unlock();
                }
                return Err(ended);
            }
        };
        if without(RowStep::FinishesLast) {
            order.finish(Timestamp(commit), true);
        }
        for &(row, column, cell) in writes {
            failpoint::step("install of a row");
            rows[row].install(commit, &[(column, cell)], &self.database.changes);
        }
        failpoint::step("end of a commit");
        if !without(RowStep::FinishesLast) {
            order.finish(Timestamp(commit), true);
        }
        failpoint::step("commit finished");
        Ok(commit)
    }

    /// Takes the rows that no statement has locked, or none.
    fn lock_rows(&mut self, writes: &[Write]) -> Result<(), Ended> {
        let rows = &self.database.rows;
        for (place, &(row, ..)) in writes.iter().enumerate() {
            if let Some(position) = self.locked.iter().position(|&locked| locked == row) {
                self.locked.swap_remove(position);
                continue;
            }
            let locked = rows[row].try_lock();
            if locked.is_some() {
                failpoint::step("row owned by a commit");
            }
            let is_newer = |header| header & TIMESTAMP > self.start && !without(RowStep::FirstCommitterWins);
            if locked.is_none_or(is_newer) {
                let mine = if locked.is_some() { place + 1 } else { place };
                writes[..mine].iter().for_each(|&(row, ..)| rows[row].unlock());
                return Err(if locked.is_none() { Ended::Busy } else { Ended::Changed });
            }
        }
        Ok(())
    }

    /// Commits as if there were many rows.
    pub(crate) fn commit_large(self, writes: &[Write], serializable: bool) -> Result<u64, Ended> {
        self.commit_ahead(writes, serializable, false)
    }

    /// A large commit that ends when its rows are installed.
    #[cfg(loom)]
    fn end_large(self, writes: &[Write]) -> Result<u64, Ended> {
        self.commit_ahead(writes, true, true)
    }

    fn commit_ahead(mut self, writes: &[Write], serializable: bool, fails: bool) -> Result<u64, Ended> {
        let database = self.database;
        let outcome = self.ahead_steps(writes, serializable, fails);
        self.release_locks();
        self.slot.leave();
        if let Ok(commit) = outcome {
            database.order.wait_until_visible(Timestamp(commit));
        }
        outcome
    }

    fn ahead_steps(&mut self, writes: &[Write], serializable: bool, fails: bool) -> Result<u64, Ended> {
        let (rows, changes, order) = (&self.database.rows, &self.database.changes, &self.database.order);
        let in_use = self.in_use.clone().unwrap_or_else(|| self.database.in_use());
        self.lock_rows(writes)?;
        let mut large = self.database.large.begin().expect("there are numbers enough");
        for &(row, column, cell) in writes {
            rows[row].save(&[(column, cell)], &in_use);
            failpoint::step("row ahead of its timestamp");
            rows[row].install_ahead(large.number(), &[(column, cell)], changes);
        }
        let published =
            if fails { Err(Ended::Conflict) } else { self.publish_and_validate(writes, serializable) };
        let Ok(commit) = published else {
            self.withdraw(writes, large);
            return Err(Ended::Conflict);
        };
        if without(RowStep::DecidesFirst) {
            order.finish(Timestamp(commit), true);
        }
        failpoint::step("decision");
        large.decide(Timestamp(commit));
        if !without(RowStep::DecidesFirst) {
            order.finish(Timestamp(commit), true);
        }
        self.database.settle(writes, large, commit);
        failpoint::step("commit finished");
        Ok(commit)
    }

    /// `withdraw` and `settle_withdrawn`.
    fn withdraw(&self, writes: &[Write], mut large: PendingCommit<'_>) {
        for &(row, ..) in writes {
            failpoint::step("row withdrawn");
            self.database.rows[row].withdraw();
        }
        if without(RowStep::WithdrawTakesTimestamp) {
            self.database.settle(writes, large, self.start);
            return;
        }
        let order = &self.database.order;
        let commit = order.begin(Arc::new(Vec::new()), |old| self.database.retired.lock().unwrap().push(old));
        large.decide(commit);
        order.finish(commit, true);
        self.database.settle(writes, large, commit.0);
    }

    /// Draws the timestamp between two looks at the commits of others, most of which the first one finds.
    fn publish_and_validate(&self, writes: &[Write], serializable: bool) -> Result<u64, Ended> {
        let order = &self.database.order;
        let clear = if serializable { self.validate_ahead()? } else { Timestamp(self.start) };
        failpoint::step("timestamp");
        let record: Record = writes.iter().map(|&(row, column, _)| (row, column)).collect();
        let commit = order.begin(Arc::new(record), |old| self.database.retired.lock().unwrap().push(old));
        failpoint::step("validation");
        let looks = serializable && !without(RowStep::PublishesFirst);
        if looks && self.visit_between(clear, commit) != Visited::Clear {
            order.finish(commit, false);
            return Err(Ended::Conflict);
        }
        Ok(commit.0)
    }

    /// Returns the timestamp up to which no commit has written what was read.
    fn validate_ahead(&self) -> Result<Timestamp, Ended> {
        let drawn = self.database.order.drawn();
        if self.visit(drawn.next()) == Visited::Clear { Ok(drawn) } else { Err(Ended::Conflict) }
    }
}

impl Drop for ModelTransaction<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.release_locks();
        }
    }
}

/// What the conformance test compares.
#[cfg(not(loom))]
impl ModelTransaction<'_> {
    pub(crate) fn timestamp(&self) -> u64 {
        self.start
    }
}

/// A summary of the models' state, for the conformance test.
#[cfg(not(loom))]
impl ModelDatabase {
    pub(crate) fn watermark(&self) -> u64 {
        self.order.watermark().0
    }

    pub(crate) fn changes(&self) -> [u64; COLUMNS] {
        self.changes.all()
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = row::RowContent> {
        self.rows.iter().map(|row| row.picture(&self.large))
    }
}
