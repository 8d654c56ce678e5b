//! loom models of whole commits: row headers, version chains, pruning and sweeping, on the real commit order and the
//! real registry of readers.
//!
//! The rows here are those of `ankerdb_table` in small: two columns, one header, one chain, and what a block keeps for
//! those who copy whole columns (dirty bits, timestamps of change). Functions have the names of what they mirror, do the
//! same loads, stores and fences in the same order with the same orderings, and leave out what does not synchronize:
//!
//! | here | mirrors |
//! | --- | --- |
//! | [`Row::read`], [`Row::read_version`] | `RowBlock::read`, `read_version` (`crates/table/src/block.rs`) |
//! | [`Row::save`], [`Row::take_back`] | `RowBlock::save`, `take_back`, with the pruning of `OwnedRow::save_update` |
//! | [`Row::install`] | `RowBlock::install_update`; the order of stores is that of `crates/table/src/header.rs` |
//! | [`Row::push`], [`Row::prune`], [`Run`] | `VersionChain` and `Run` (`crates/table/src/version.rs`) |
//! | [`copy_rows`], [`Changes`] | `copy_block` (`crates/snapshot/src/materialize.rs`); `raise` |
//! | [`Row::sweep`] | `RowBlock::sweep` |
//! | [`Transaction::lock`], [`Transaction::restart`] | `Transaction::lock`, `restart_statement` (`crates/transaction/src/lock.rs`, `statement.rs`) |
//! | [`Transaction::commit`] | `Transaction::commit_writes` (`crates/transaction/src/commit.rs`), docs/design/commit.md |
//!
//! A change of one is a change of the other. Not here: lending and moving away (`lending_model`), index entries,
//! deleted rows and the reuse of their slots, waiting for row locks.
//!
//! What a model checks is in the values: every state of a row is known from its timestamp, so a reader that was shown
//! anything else has found a hole. The content of versions lies in loom's checked cells; versions that are unlinked are
//! kept until the end of an execution, which stands in for pins.

mod models;
mod row;

use std::mem::ManuallyDrop;
use std::sync::Arc as Shared;

use ankerdb_base::Timestamp;

use crate::commit_order::{CommitOrder, Visited};
use crate::primitive::{Arc, Step, weakened};
use crate::readers::{ActiveReaders, ReaderSlot};
use row::{COLUMNS, Changes, Row, TIMESTAMP, copy_rows};

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
    /// commit: the record is published before others' records are looked at.
    PublishesFirst,
    /// commit: the commit finishes only when it is installed.
    FinishesLast,
    /// commit: it is acknowledged only when it is visible.
    WaitsUntilVisible,
    /// restart: what was read is checked before the timestamp moves.
    RestartChecks,
    /// restart: the new timestamp is taken before the check, which goes as far.
    RestartTakesFirst,
}

fn without(step: RowStep) -> bool {
    weakened(Step::Row(step))
}

/// What a commit published: the rows and columns that it writes.
type Record = Vec<(usize, usize)>;

/// A commit that did not come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// Somebody has a row.
    Busy,
    /// A row has changed since the transaction began.
    Changed,
    /// A concurrent commit writes what was read.
    Conflict,
}

/// The rows of one block, a commit order and readers.
struct Database {
    rows: Vec<Row>,
    changes: Changes,
    /// Not dropped when a model has failed: loom cannot go on then, and would abort the process.
    order: ManuallyDrop<CommitOrder<Record>>,
    readers: Shared<ActiveReaders>,
    retired: std::sync::Mutex<ManuallyDrop<Vec<Arc<Record>>>>,
}

// SAFETY: rows are `Sync`, and so is everything else.
unsafe impl Sync for Database {}

impl Drop for Database {
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
struct Transaction<'d> {
    database: &'d Database,
    slot: ReaderSlot,
    start: u64,
    reads: Record,
    /// Rows locked before the commit.
    locked: Vec<usize>,
    /// Taken earlier, and not taken anew. An older list keeps more, never less.
    in_use: Option<Vec<Timestamp>>,
}

impl Database {
    fn new(rows: usize) -> Shared<Database> {
        Shared::new(Database {
            rows: (0..rows).map(|_| Row::new()).collect(),
            changes: Changes::new(),
            order: ManuallyDrop::new(CommitOrder::new(4)),
            readers: ActiveReaders::new(),
            retired: Default::default(),
        })
    }

    fn begin(&self) -> Transaction<'_> {
        let slot = self.readers.register();
        let start = slot.enter(|| self.order.watermark()).0;
        Transaction { database: self, slot, start, reads: Vec::new(), locked: Vec::new(), in_use: None }
    }

    fn in_use(&self) -> Vec<Timestamp> {
        let mut in_use = Vec::new();
        self.readers.in_use(self.order.watermark(), &mut in_use);
        in_use
    }

    /// A pass of the pruner.
    fn sweep(&self) {
        let horizon = self.readers.oldest(self.order.watermark()).0;
        self.rows.iter().for_each(|row| row.sweep(horizon));
    }
}

impl Transaction<'_> {
    fn read(&mut self, row: usize, column: usize) -> u64 {
        self.reads.push((row, column));
        self.database.rows[row].read(column, self.start)
    }

    fn copy(&self) -> Vec<[u64; COLUMNS]> {
        copy_rows(&self.database.rows, &self.database.changes, self.start)
    }

    /// Locks a row before the commit; whether it has changed since the transaction's timestamp.
    fn lock(&mut self, row: usize) -> Result<bool, Ended> {
        let header = self.database.rows[row].try_lock().ok_or(Ended::Busy)?;
        self.locked.push(row);
        let has_changed = header & TIMESTAMP > self.start;
        if has_changed {
            self.database.order.wait_until_visible(Timestamp(header & TIMESTAMP));
        }
        Ok(has_changed)
    }

    /// Moves on to the watermark, if nothing that was read has changed.
    fn restart(&mut self) -> Result<(), Ended> {
        let order = &self.database.order;
        let slot = self.database.readers.register();
        let early = without(RowStep::RestartTakesFirst).then(|| self.visit(order.watermark().next()));
        let now = slot.enter(|| order.watermark());
        let visited = early.unwrap_or_else(|| self.visit(now.next()));
        if visited != Visited::Clear && !without(RowStep::RestartChecks) {
            self.locked.iter().for_each(|&row| self.database.rows[row].unlock());
            return Err(Ended::Conflict);
        }
        (self.slot, self.start) = (slot, now.0);
        Ok(())
    }

    /// Looks for commits after the transaction's timestamp and before another that have written what was read.
    fn visit(&self, before: Timestamp) -> Visited {
        let order = &self.database.order;
        // SAFETY: what is retired is kept until the end of the execution.
        unsafe {
            order.visit_between(Timestamp(self.start), before, |_, record| {
                record.iter().any(|write| self.reads.contains(write))
            })
        }
    }

    /// Commits one cell in each of some rows, in the order of rows. `serializable` or by snapshot isolation.
    fn commit(self, writes: &[(usize, usize, u64)], serializable: bool) -> Result<u64, Ended> {
        let (rows, changes) = (&self.database.rows, &self.database.changes);
        for (place, &(row, ..)) in
            writes.iter().enumerate().filter(|(_, (row, ..))| !self.locked.contains(row))
        {
            let locked = rows[row].try_lock();
            let is_newer = |header| header & TIMESTAMP > self.start && !without(RowStep::FirstCommitterWins);
            if locked.is_none_or(is_newer) {
                let mine = if locked.is_some() { place + 1 } else { place };
                writes[..mine].iter().for_each(|&(row, ..)| rows[row].unlock());
                return Err(if locked.is_none() { Ended::Busy } else { Ended::Changed });
            }
        }
        let in_use = self.in_use.clone().unwrap_or_else(|| self.database.in_use());
        writes.iter().for_each(|&(row, column, cell)| rows[row].save(&[(column, cell)], &in_use));
        let commit = self.publish_and_validate(writes, serializable)?;
        self.slot.leave();
        let order = &self.database.order;
        if without(RowStep::FinishesLast) {
            order.finish(Timestamp(commit), true);
        }
        writes.iter().for_each(|&(row, column, cell)| rows[row].install(commit, &[(column, cell)], changes));
        if !without(RowStep::FinishesLast) {
            order.finish(Timestamp(commit), true);
        }
        if !without(RowStep::WaitsUntilVisible) {
            order.wait_until_visible(Timestamp(commit));
        }
        Ok(commit)
    }

    fn publish_and_validate(&self, writes: &[(usize, usize, u64)], serializable: bool) -> Result<u64, Ended> {
        let order = &self.database.order;
        let record: Record = writes.iter().map(|&(row, column, _)| (row, column)).collect();
        let early = without(RowStep::PublishesFirst).then(|| self.visit(order.watermark().next()));
        let commit = order.begin(Arc::new(record), |old| self.database.retired.lock().unwrap().push(old));
        let visited = early.unwrap_or_else(|| self.visit(commit));
        if serializable && visited != Visited::Clear {
            order.finish(commit, false);
            for &(row, ..) in writes {
                self.database.rows[row].take_back();
                self.database.rows[row].unlock();
            }
            return Err(Ended::Conflict);
        }
        Ok(commit.0)
    }
}
