//! Committing: lock, enter keys, draw a timestamp, validate, install, become visible.
//!
//! ```text
//! 1 lock      the rows to update or delete, in the order of tables and rows; a row changed since the transaction's
//!             timestamp ends it (first committer wins)
//! 2 keys      slots for new rows, entries for new keys; a key that somebody else has or is about to have ends it
//! 3 timestamp c, drawn and published with the record of all writes, in one step (`CommitOrder::begin`)
//! 4 validate  (SERIALIZABLE) the records of all commits between the transaction's timestamp and c against its reads
//! 5 install   every row at c, which gives the row up; in place, the old cells into versions
//! 6 visible   `CommitOrder::finish`, then wait until the watermark covers c: whoever begins later sees the commit
//! ```
//!
//! No mutex is shared, and commits run in parallel. Why this is serializable in the order of timestamps: a commit
//! with timestamp below c is either installed when T begins (T reads it), or T finds its record in step 4, because
//! it was published when its timestamp was drawn, before T drew c. A record found may belong to a commit
//! that aborts later; then T aborts needlessly. Commits above c find T's record in their step 4.
//!
//! Nobody waits for a commit with a higher timestamp or for another's lock while holding a timestamp, so commits do
//! not deadlock. (HyPer and AnKer §3.1 validate one at a time behind a mutex; arXiv §5.7 names it as the limit.)

use crate::record::CommitRecord;
use crate::transaction::{Isolation, Transaction, push_pending_key};
use crate::unique::OwnSlots;
use crate::write::concurrent_update;
use crate::write_set::{STEPS_BETWEEN_CHECKS, Write, WriteKind};
use ankerdb_base::{ColumnSet, Result, RowId, Timestamp};
use ankerdb_table::{Index, ReadAt, RowChange, RowLock, Table};
use crossbeam_epoch::Guard;
use std::sync::Arc;

/// Looks at a row that another commit holds for a moment.
const LOCK_SPINS: u32 = 200;
/// Commits after which the list of readers' timestamps is taken anew. An older list keeps more, never less.
const IN_USE_AGE_MAX: u32 = 8;

/// What a commit has done so far and takes back if it ends. The memory is kept for the next commit.
#[derive(Default)]
pub(crate) struct Progress {
    /// Rows locked in step 1 only, by position in the write set.
    locked: Vec<usize>,
    /// Slots of new rows: position in the write set and row.
    pub slots: Vec<(usize, RowId)>,
    pub own_slots: OwnSlots,
    entries: Vec<Entered>,
}

/// An entry made in an index.
struct Entered {
    table: usize,
    /// Number of the key in the commit's record.
    key: usize,
    row: RowId,
}

impl Progress {
    fn clear(&mut self) {
        self.locked.clear();
        self.slots.clear();
        self.own_slots.clear();
        self.entries.clear();
    }
}

impl Transaction {
    /// Commits: returns the timestamp, or, for a transaction without writes, what it read at. On an error nothing
    /// of the transaction remains: 40001 (try again), 23505, 57014.
    ///
    /// The transaction can begin again afterwards.
    pub fn commit(&mut self) -> Result<Timestamp> {
        assert!(self.active, "a transaction commits once");
        // What was read is out of date, and the statement that found out was not run again.
        if *self.has_read_vanished.get_mut() || self.statement.must_restart {
            self.rollback();
            return Err(concurrent_update());
        }
        if self.writes.is_empty() {
            let at = self.start;
            self.worker.count_commit();
            self.end();
            return Ok(at);
        }
        let worker = self.worker.clone();
        self.manager.begin_commit(&worker);
        let outcome = self.commit_writes();
        match &outcome {
            Ok(_) => worker.count_commit(),
            Err(_) => worker.count_abort(),
        }
        self.end();
        if let Ok(commit) = outcome {
            self.manager.order.wait_until_visible(commit);
        }
        worker.end_commit();
        if let Some(table) = self.buffers.crowded.take() {
            table.sweep(self.manager.horizon(), &crossbeam_epoch::pin());
        }
        outcome
    }

    fn commit_writes(&mut self) -> Result<Timestamp> {
        if let Some(owner) = self.owner {
            self.manager.locks.leave(owner);
        }
        let pin = crossbeam_epoch::pin();
        let mut progress = std::mem::take(&mut self.buffers.progress);
        progress.clear();
        let outcome = self.commit_steps(&mut progress, &pin);
        self.buffers.progress = progress;
        outcome
    }

    fn commit_steps(&mut self, progress: &mut Progress, pin: &Guard) -> Result<Timestamp> {
        if self.is_long() {
            // Nothing is locked yet. What is committed from here on is looked at below.
            self.validate_ahead(pin)?;
        }
        let mut record = CommitRecord::with_capacity(self.writes.writes.len());
        let prepared = self.lock_rows(progress).and_then(|()| self.enter_keys(progress, &mut record, pin));
        let clear = match prepared.and_then(|()| self.validate_ahead(pin)) {
            Ok(clear) => clear,
            Err(error) => {
                self.undo(progress, &record, pin);
                return Err(error);
            }
        };
        // A former record may still be read by those pinned now.
        let retire = |former| pin.defer(move || drop(former));
        let record = Arc::new(record);
        let commit = self.manager.order.begin(record.clone(), retire);
        if let Err(error) = self.validate_rest(clear, commit, pin) {
            self.manager.order.finish(commit, false);
            self.undo(progress, &record, pin);
            return Err(error);
        }
        self.refresh_in_use();
        self.buffers.crowded = self.install(progress, commit, pin);
        self.manager.order.finish(commit, true);
        for locked in self.locked.rows_mut() {
            // Those who wait for the row are woken by `release_locks`.
            let number = self.tables.find(locked.table.id());
            locked.given_up = number.is_some_and(|number| self.writes.get(number, locked.row).is_some());
        }
        Ok(commit)
    }

    /// Looks at the interrupt every now and then in a loop over all writes. After the timestamp nobody looks any more.
    #[inline]
    fn check_interrupt_at(&self, step: usize) -> Result<()> {
        if step.is_multiple_of(STEPS_BETWEEN_CHECKS) { self.check_interrupt() } else { Ok(()) }
    }

    /// Step 1.
    fn lock_rows(&mut self, progress: &mut Progress) -> Result<()> {
        let mut order = std::mem::take(&mut self.buffers.order);
        order.clear();
        let committed = self.writes.writes.iter().enumerate();
        let committed = committed.filter(|(_, write)| write.row.provisional_number().is_none());
        order.extend(committed.map(|(place, write)| (self.tables[write.table].id(), write.row, place)));
        order.sort_unstable();
        let mut outcome = Ok(());
        for (step, &(.., place)) in order.iter().enumerate() {
            outcome = self.check_interrupt_at(step).and_then(|()| self.lock_row(place, progress));
            if outcome.is_err() {
                break;
            }
        }
        self.buffers.order = order;
        outcome
    }

    fn lock_row(&mut self, place: usize, progress: &mut Progress) -> Result<()> {
        let write = &self.writes.writes[place];
        let table = &self.tables[write.table];
        if self.has_locked(table, write.row) {
            return Ok(());
        }
        let (block, offset) = (table.block(write.row.block()), write.row.offset());
        let mut spins = 0;
        let header = loop {
            match block.try_lock(offset) {
                RowLock::Acquired(header) => break header,
                RowLock::Busy => {
                    let key = (table.id().0, write.row.0);
                    spins += 1;
                    if spins > LOCK_SPINS || self.manager.locks.is_held(key).is_some() {
                        self.blocked_by = Some(key);
                        return Err(concurrent_update());
                    }
                    std::hint::spin_loop();
                }
            }
        };
        progress.locked.push(place);
        let first_committer_wins =
            matches!(self.isolation, Isolation::RepeatableRead | Isolation::Serializable);
        if !header.exists() || (first_committer_wins && header.timestamp() > self.start) {
            self.conflict = Some(header.timestamp());
            return Err(concurrent_update());
        }
        Ok(())
    }

    /// Step 2; fills the record on the way.
    fn enter_keys(&self, progress: &mut Progress, record: &mut CommitRecord, pin: &Guard) -> Result<()> {
        for (place, write) in self.writes.writes.iter().enumerate() {
            self.check_interrupt_at(place)?;
            let table = &self.tables[write.table];
            let old_key = |index: &Index, key: &mut Vec<u8>| {
                let known = table.push_key_at(index, write.row, ReadAt::Newest, pin, key)?;
                known.map(drop).ok_or_else(concurrent_update)
            };
            match write.kind {
                WriteKind::Nothing => {}
                WriteKind::Insert => {
                    let row = table.allocate_row(self.worker.number())?;
                    progress.slots.push((place, row));
                    record.add_write(table.id(), row, RowChange::CameOrWent);
                    for (position, index) in table.maintained_indexes() {
                        self.enter_key(write, position, index, row, progress, record, pin)?;
                    }
                }
                WriteKind::Delete => {
                    record.add_write(table.id(), write.row, RowChange::CameOrWent);
                    for (position, index) in table.maintained_indexes() {
                        record.add_key(position, |key| old_key(index, key))?;
                    }
                }
                WriteKind::Update => {
                    let mut changed = ColumnSet::EMPTY;
                    self.writes.cells(write).for_each(|(column, _)| changed.insert(column));
                    record.add_write(table.id(), write.row, RowChange::Updated(changed));
                    for (position, index) in table.maintained_indexes() {
                        if !index.key_columns().intersects(changed) {
                            continue;
                        }
                        record.add_key(position, |key| old_key(index, key))?;
                        index.set_keys_move();
                        self.enter_key(write, position, index, write.row, progress, record, pin)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the entry of a row's new key.
    #[expect(clippy::too_many_arguments, reason = "one step of the loop above, named")]
    fn enter_key(
        &self,
        write: &Write,
        position: usize,
        index: &Index,
        row: RowId,
        progress: &mut Progress,
        record: &mut CommitRecord,
        pin: &Guard,
    ) -> Result<()> {
        let table = &self.tables[write.table];
        let push =
            |key: &mut Vec<u8>| push_pending_key(&self.writes, write, table, index, ReadAt::Newest, pin, key);
        let (has_null, number) = record.add_key(position, push)?;
        let (_, key) = record.key(number);
        let entered = if index.definition().unique && !has_null {
            self.enter_unique(write, index, key, row, progress, pin)?
        } else {
            index.tree().insert(key, row.0)?
        };
        if entered {
            progress.entries.push(Entered { table: write.table, key: number, row });
        }
        Ok(())
    }

    /// Who reads at which timestamps. None are listed, and so nothing is pruned, where a collector does it.
    fn refresh_in_use(&mut self) {
        if self.manager.history().is_left_to_collector {
            return;
        }
        let buffers = &mut self.buffers;
        if buffers.in_use.is_empty() || buffers.in_use_age >= IN_USE_AGE_MAX {
            self.manager.readers().in_use(self.manager.watermark(), &mut buffers.in_use);
            buffers.in_use_age = 0;
        }
        buffers.in_use_age += 1;
    }

    /// Step 5. Cannot fail: cells were checked when they were written. Returns a table that lost more rows than the
    /// background keeps up with.
    fn install(&self, progress: &Progress, commit: Timestamp, pin: &Guard) -> Option<Arc<Table>> {
        let mut crowded = None;
        let in_use = &self.buffers.in_use[..];
        let mut slots = progress.slots.iter();
        for write in &self.writes.writes {
            let table = &self.tables[write.table];
            let cells = self.writes.cells(write);
            match write.kind {
                WriteKind::Nothing => {}
                WriteKind::Insert => {
                    let &(_, row) = slots.next().expect("every new row has a slot");
                    // SAFETY: `insert` and `update` let only UTF-8 into text columns.
                    unsafe { table.install_insert(row, commit, cells, pin) };
                }
                WriteKind::Update => {
                    // SAFETY: as above.
                    unsafe { table.install_update(write.row, commit, cells, in_use, pin) };
                }
                WriteKind::Delete => {
                    table.install_delete(write.row, commit, in_use, pin);
                    crowded = Some(table).filter(|table| table.wants_relief()).or(crowded);
                }
            }
        }
        crowded.filter(|_| !self.manager.history().is_left_to_collector).cloned()
    }

    /// Takes back what an ended commit did: entries, slots, locks.
    fn undo(&self, progress: &Progress, record: &CommitRecord, pin: &Guard) {
        for entered in &progress.entries {
            let table = &self.tables[entered.table];
            let (position, key) = record.key(entered.key);
            let index = table.index(position);
            // The entry may have been ours to make only because the index is still being filled, and the row has
            // or had this key without us: then who fills the index counts on it.
            if !table.has_had_key(index, entered.row, key, pin) {
                index.tree().remove(key, entered.row.0);
            }
        }
        for &(place, row) in &progress.slots {
            self.tables[self.writes.writes[place].table].free_row(row);
        }
        for &place in &progress.locked {
            let write = &self.writes.writes[place];
            self.tables[write.table].block(write.row.block()).unlock(write.row.offset());
        }
    }
}
