//! Committing: lock, enter keys, write ahead, draw a timestamp, validate, install, become visible.
//!
//! ```text
//! 1 lock      the rows to update or delete, in the order of tables and rows; a row changed since the transaction's
//!             timestamp ends it (first committer wins)
//! 2 keys      slots for new rows, entries for new keys; a key that another row has or is about to have ends it
//! 3 ahead     cells of new rows into their slots, cells about to be overwritten into versions, long strings into the
//!             heaps; versions that no reader needs are pruned; where there is a log, the record of redo is made (`log_commit`)
//! 4 timestamp c, drawn and published with the record of all writes, in one step (`CommitOrder::begin`)
//! 5 validate  (SERIALIZABLE) the records of all commits between the transaction's timestamp and c against its reads; most
//!             of them before 4
//! 6 install   the log gets its record; every row at c, which gives the row up: headers, and cells that could not be written ahead
//! 7 visible   `CommitOrder::finish`, then wait until the watermark covers c: transactions that begin later see the commit;
//!             then, where there is a log, until c is on disk
//! ```
//!
//! A commit of many rows installs them in step 3, under a number that becomes c in one store in step 6 (`ahead`).
//!
//! From 4 to 7 all other commits wait for this one to become visible, so only what must be done there is done there. All
//! that can fail comes before 4: a commit that ends until then takes back what it has done, even if it panics. From 4 on
//! only a conflict in 5 may take anything back, which is before the first change that readers see. If a commit panicked
//! there, the watermark would stop for good and rows would stay locked, so the process ends instead.
//!
//! No mutex is shared, and commits run in parallel. Why this is serializable in the order of timestamps: a commit
//! with timestamp below c is either installed when T begins (T reads it), or T finds its record in step 5, because
//! it was published when its timestamp was drawn, before T drew c. A record found may belong to a commit
//! that aborts later; then T aborts needlessly. Commits above c find T's record in their step 5.
//!
//! No commit waits for one with a higher timestamp, or for another's lock while it holds a timestamp, so commits do
//! not deadlock. (HyPer and AnKer §3.1 validate one at a time behind a mutex; arXiv §5.7 names it as the limit.)

use crate::blocker::{Blocker, Obstacle};
use crate::ends_process::EndsProcess;
use crate::pending_key::push_pending_key;
use crate::progress::{CommitProgress, Entered};
use crate::record::CommitRecord;
use crate::refusal::{concurrent_update, redefined};
use crate::retired::let_go;
use crate::transaction::{Transaction, TransactionKind};
use crate::worker::Worker;
use crate::write_set::{STEPS_BETWEEN_CHECKS, WriteKind};
use ankerdb_base::{ColumnSet, Error, IndexPosition, Result, RowId, TableId, Timestamp, failpoint};
use ankerdb_sync::memory_limit::{Claim, check_system};
use ankerdb_sync::patience::Patience;
use ankerdb_sync::row_set::RowKey;
use ankerdb_table::{
    Admission, Entries, Gate, Index, IndexLife, OwnedRow, ReadAt, RowChange, Storage, Table,
    take_pre_image_bytes,
};
use crossbeam_epoch::Guard;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a commit waits for a row that another commit owns before it counts as a conflict: some time slices of the scheduler.
const MOMENT: Duration = Duration::from_millis(20);
/// Commits after which the list of readers' timestamps is taken anew. An older list keeps more, never less.
const IN_USE_AGE_MAX: u32 = 8;

/// What a commit changes besides rows.
#[derive(Clone, Copy, Default)]
pub struct DefinitionChange<'a> {
    /// Tables that have another definition from the commit on, or are gone: it conflicts with all that others have read of them.
    pub ended: &'a [TableId],
    /// What the log is told of it.
    pub image: &'a [u8],
}

impl DefinitionChange<'_> {
    fn is_none(&self) -> bool {
        self.ended.is_empty() && self.image.is_empty()
    }
}

/// A commit under way, to be counted out in any case.
struct Committing(Arc<Worker>);

impl Drop for Committing {
    fn drop(&mut self) {
        self.0.end_commit();
    }
}

impl Transaction {
    /// Commits: returns the timestamp, or, for a transaction without writes, what it read at. On an error
    /// nothing of the transaction remains.
    ///
    /// The transaction can begin again afterwards.
    ///
    /// # Errors
    /// `SerializationFailure` (the transaction may be run again), `UniqueViolation`, `QueryCanceled`, and
    /// `OutOfMemory` past the memory limit. Where there is a log, `DiskFull` if that has no room; `IoError` if it was closed meanwhile, and then
    /// the transaction may have been committed.
    pub fn commit(&mut self) -> Result<Timestamp> {
        self.commit_with(DefinitionChange::default(), &mut |_| ())
    }

    /// Like [`commit`](Self::commit); `decided` is called with the timestamp once nothing can stop the commit any more, and before
    /// others see it, who wait meanwhile. It must not fail. With a change of definitions it has a timestamp of its own even without
    /// writes.
    ///
    /// # Errors
    /// Those of [`commit`](Self::commit).
    pub fn commit_with(
        &mut self,
        change: DefinitionChange<'_>,
        decided: &mut dyn FnMut(Timestamp),
    ) -> Result<Timestamp> {
        assert!(self.kind != TransactionKind::Over, "a transaction commits once");
        // What was read is out of date, and the statement that noticed was not run again.
        if self.stale.is_any() {
            self.rollback();
            return Err(concurrent_update());
        }
        if !self.references.is_settled()
            && let Err(error) = self.settle_references(true)
        {
            self.rollback();
            return Err(error);
        }
        if !self.has_writes() && change.is_none() {
            let at = self.start;
            decided(at);
            self.worker.count_commit();
            self.end();
            // Its client may not know of what a crash could still undo.
            return self.wait_until_durable(at).map(|()| at);
        }
        let worker = self.worker.clone();
        self.manager.begin_commit(&worker);
        let committing = Committing(worker.clone());
        let (has_writes, history) = (self.has_writes(), self.writes.history_bytes());
        let outcome = self.commit_writes(change, decided);
        let relieved = self.tables_to_relieve();
        match &outcome {
            Ok(_) if !has_writes => {}
            Ok(_) => {
                worker.count_commit();
                worker.count_history(history + take_pre_image_bytes());
            }
            Err(_) => worker.count_abort(),
        }
        self.end();
        if let Ok(commit) = outcome {
            self.manager.order.wait_until_visible(commit);
        }
        drop(committing);
        if let Some(table) = self.buffers.to_sweep.take() {
            Storage::of(&table).sweep(self.manager.horizon(), &crossbeam_epoch::pin());
            self.bury_dead(&table);
        }
        self.manager.relieve(&relieved);
        let commit = outcome?;
        self.wait_until_durable(commit)?;
        Ok(commit)
    }

    /// Buries dead rows of a table, which a sweep does not do while an old reader is open.
    fn bury_dead(&self, table: &Table) {
        let (watermark, mut in_use) = (self.manager.watermark(), Vec::new());
        let anchored = self.manager.readers().in_use_and_anchored(watermark, &mut in_use);
        Storage::of(table).bury(in_use[0], watermark, &in_use, anchored);
    }

    fn commit_writes(
        &mut self,
        change: DefinitionChange<'_>,
        decided: &mut dyn FnMut(Timestamp),
    ) -> Result<Timestamp> {
        if let Some(holder) = &self.holder {
            self.manager.locks.leave(holder);
        }
        check_system()?;
        self.check_gates()?;
        self.reads.check()?;
        let limit = self.manager.memory_limit();
        self.admit(self.commit_claim(Claim::Write), self.commit_bytes())?;
        let _ceiling = limit.put_up(self.commit_claim(Claim::Table));
        let mut pin = crossbeam_epoch::pin();
        let mut progress = std::mem::take(&mut self.buffers.progress);
        let started = progress.start(self.writes.writes.len());
        let outcome = started.and_then(|()| self.commit_steps(&mut progress, change, decided, &mut pin));
        match progress.obstacle.take() {
            Some(Obstacle::Commit(commit)) => self.conflict = Some(commit),
            Some(Obstacle::Row(table, row)) => {
                self.blocked_by = Some(Blocker::row(&self.tables[table], row));
            }
            None => {}
        }
        self.buffers.progress = progress;
        outcome.map_err(|error| limit.explain(error))
    }

    /// That the tables still have the definitions by which it has worked.
    fn check_gates(&mut self) -> Result<()> {
        for (number, table) in self.tables.iter().enumerate() {
            match Gate::of(table).admits(self.closer) {
                Admission::Open => {}
                Admission::Closed => {
                    let is_loaded = self.load.as_ref().is_some_and(|load| load.table == number);
                    if is_loaded || self.writes.writes.iter().any(|write| write.table == number) {
                        self.blocked_by = Some(Blocker::gate(table));
                        return Err(redefined(table));
                    }
                }
                Admission::Gone => return Err(redefined(table)),
            }
        }
        Ok(())
    }

    /// That none of its tables has ended by what it reads as of now.
    pub(crate) fn check_ended(&self) -> Result<()> {
        let has_ended = |table: &&Arc<Table>| Gate::of(table).admits(self.closer) == Admission::Gone;
        self.tables.iter().find(has_ended).map_or(Ok(()), |table| Err(redefined(table)))
    }

    fn commit_steps(
        &mut self,
        progress: &mut CommitProgress,
        change: DefinitionChange<'_>,
        decided: &mut dyn FnMut(Timestamp),
        pin: &mut Guard,
    ) -> Result<Timestamp> {
        if self.is_long() {
            // Nothing is locked yet. What is committed from here on is looked at below.
            self.validate_ahead(pin)?;
        }
        let mut record = CommitRecord::default();
        record.end_tables(change.ended)?;
        self.refresh_in_use();
        let prepare = AssertUnwindSafe(|| self.prepare(progress, &mut record, change.image, pin));
        let prepared = catch_unwind(prepare);
        if !matches!(prepared, Ok(Ok(_))) {
            self.forget_redo();
            self.undo(progress, &record, pin);
        }
        let clear = match prepared {
            Ok(prepared) => prepared?,
            Err(panic) => {
                self.rollback();
                resume_unwind(panic);
            }
        };
        let record = Arc::new(record);
        let _no_way_back = EndsProcess("after it had drawn its timestamp");
        let old_records = &self.manager.old_records;
        let commit = self.manager.order.begin(record.clone(), |former| old_records.retire(former, pin));
        failpoint::pass("validation");
        if let Err(error) = self.validate_rest(clear, commit, pin) {
            self.manager.order.finish(commit, false);
            self.manager.old_records.note(&record, commit);
            self.forget_redo();
            self.undo(progress, &record, pin);
            return Err(error);
        }
        self.append_redo(commit);
        decided(commit);
        match progress.large.take() {
            None => {
                self.buffers.to_sweep = self.install(progress, commit, pin);
                failpoint::pass("end of a commit");
                self.manager.order.finish(commit, true);
            }
            Some(mut ahead) => {
                self.decide(&mut ahead, commit);
                self.manager.order.finish(commit, true);
                self.settle(progress, ahead, commit, pin);
                self.buffers.to_sweep = self.table_to_sweep();
            }
        }
        self.end_redo();
        self.manager.old_records.note(&record, commit);
        failpoint::step("commit finished");
        Ok(commit)
    }

    /// Called between two steps of a loop over all writes: checks the interrupt every now and then, and lets memory
    /// that was retired meanwhile be freed. After the timestamp the interrupt is not checked any more.
    #[inline]
    fn pause_at(&self, step: usize, pin: &mut Guard) -> Result<()> {
        if !step.is_multiple_of(STEPS_BETWEEN_CHECKS) {
            return Ok(());
        }
        if step > 0 {
            let_go(pin);
        }
        self.check_interrupt()
    }

    /// All that comes before the timestamp; returns up to where reads are validated.
    fn prepare(
        &mut self,
        progress: &mut CommitProgress,
        record: &mut CommitRecord,
        image: &[u8],
        pin: &mut Guard,
    ) -> Result<Timestamp> {
        record.reserve(self.writes.writes.len())?;
        self.lock_rows(progress, pin)?;
        self.attach_load(progress, record, pin)?;
        self.enter_keys(progress, record, pin)?;
        self.enter_loaded_keys(progress, pin)?;
        self.write_ahead(progress, pin)?;
        self.prepare_redo(progress, image, pin)?;
        let clear = self.validate_ahead(pin)?;
        // The last check: from here on the commit cannot end.
        check_system()?;
        failpoint::reach("timestamp").map(|()| clear)
    }

    /// Step 1.
    fn lock_rows(&mut self, progress: &mut CommitProgress, pin: &mut Guard) -> Result<()> {
        let mut order = std::mem::take(&mut self.buffers.order);
        order.clear();
        let writes = self.writes.writes.len();
        let room = order.try_reserve(writes);
        room.map_err(|_| Error::out_of_memory(writes * size_of::<(TableId, RowId, usize)>()))?;
        let committed = self.writes.writes.iter().enumerate();
        let committed = committed.filter(|(_, write)| write.row.provisional_number().is_none());
        order.extend(committed.map(|(place, write)| (self.tables[write.table].id(), write.row, place)));
        order.sort_unstable();
        let mut outcome = Ok(());
        for (step, &(.., place)) in order.iter().enumerate() {
            outcome = self.pause_at(step, pin).and_then(|()| self.lock_row(place, progress, pin));
            if outcome.is_err() {
                break;
            }
        }
        self.buffers.order = order;
        outcome
    }

    fn lock_row(&mut self, place: usize, progress: &mut CommitProgress, pin: &mut Guard) -> Result<()> {
        let write = &self.writes.writes[place];
        let table = &self.tables[write.table];
        failpoint::reach("lock of a row")?;
        if let Some(kept) = self.locked.take(table.id(), write.row) {
            let row = Storage::of(table).resume(kept);
            let exists = row.header().exists();
            progress.rows[place] = Some(row.keep());
            return if exists { Ok(()) } else { Err(concurrent_update()) };
        }
        let Some(row) = self.own_row(table, write.row, pin)? else {
            self.blocked_by = Some(Blocker::row(table, write.row));
            return Err(concurrent_update());
        };
        let header = row.header();
        failpoint::step("row owned by a commit");
        progress.rows[place] = Some(row.keep());
        let seen = match self.isolation.first_committer_wins() {
            true => Some(self.start),
            // Constraints were tested, and columns computed, with what the row was then.
            false if !table.checks().is_empty() || table.has_generated() => self.checked_at,
            false => None,
        };
        if !header.exists() || seen.is_some_and(|seen| header.timestamp() > seen) {
            self.conflict = Some(header.timestamp());
            return Err(concurrent_update());
        }
        Ok(())
    }

    /// Takes a row. `None` if a rival owns it: a transaction that has locked it, a large commit, or a commit that takes
    /// longer than a moment. A sweep is no rival: it is waited for, however long its thread has no processor.
    fn own_row<'t>(&self, table: &'t Table, row: RowId, pin: &mut Guard) -> Result<Option<OwnedRow<'t>>> {
        let storage = Storage::of(table);
        if let Some(owned) = storage.try_own(row) {
            return Ok(Some(owned));
        }
        let (key, begun, patience) =
            (RowKey::new(table.id().number(), row.0), Instant::now(), Patience::new());
        loop {
            let header = storage.block(row.block()).header(row.offset());
            let has_rival = self.manager.locks.is_held(key).is_some() || header.is_pending();
            if header.is_swept() {
                failpoint::step("waits for a sweep");
            } else if has_rival || begun.elapsed() >= MOMENT {
                return Ok(None);
            }
            patience.wait();
            // The row's owner may be without a processor for a while; memory must not be kept from being freed for so
            // long.
            pin.repin();
            self.check_interrupt()?;
            if let Some(owned) = storage.try_own(row) {
                return Ok(Some(owned));
            }
        }
    }

    /// Step 2; fills the record on the way.
    fn enter_keys(
        &self,
        progress: &mut CommitProgress,
        record: &mut CommitRecord,
        pin: &mut Guard,
    ) -> Result<()> {
        for (place, write) in self.writes.writes.iter().enumerate() {
            self.pause_at(place, pin)?;
            let pin = &*pin;
            let table = &self.tables[write.table];
            let old_key = |index: &Index, key: &mut Vec<u8>| {
                let known = Storage::of(table).push_key_at(index, write.row, ReadAt::Newest, pin, key)?;
                known.map(drop).ok_or_else(concurrent_update)
            };
            match write.kind {
                WriteKind::Nothing => {}
                WriteKind::Insert => {
                    let slot = Storage::of(table).allocate_row(self.worker.number())?;
                    let row = slot.id();
                    progress.rows[place] = Some(slot.keep());
                    progress.slots.push((place, row));
                    record.add_write(table.id(), row, RowChange::CameOrWent);
                    for (position, index) in table.maintained_indexes() {
                        self.enter_key(place, position, index, row, progress, record, pin)?;
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
                        IndexLife::of(index).set_keys_move();
                        self.enter_key(place, position, index, write.row, progress, record, pin)?;
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
        place: usize,
        position: IndexPosition,
        index: &Index,
        row: RowId,
        progress: &mut CommitProgress,
        record: &mut CommitRecord,
        pin: &Guard,
    ) -> Result<()> {
        failpoint::reach("entry of a key")?;
        check_system()?;
        let reserved = progress.entries.try_reserve(1);
        reserved.map_err(|_| Error::out_of_memory(size_of::<Entered>()))?;
        let write = &self.writes.writes[place];
        let table = &self.tables[write.table];
        let push =
            |key: &mut Vec<u8>| push_pending_key(&self.writes, write, table, index, ReadAt::Newest, pin, key);
        let (has_null, number) = record.add_key(position, push)?;
        let (_, key) = record.key(number);
        if index.definition().unique && !has_null {
            self.enter_unique(write, index, key, row, progress, pin)?;
        } else {
            Entries::of(index).insert(key, row.0)?;
        }
        // Also for an entry that was there already: this commit may prune the state that it was there for.
        progress.entries.push(Entered { place, key: number });
        Ok(())
    }

    /// Step 3.
    fn write_ahead(&self, progress: &mut CommitProgress, pin: &mut Guard) -> Result<()> {
        if progress.large.is_none() {
            progress.large = self.begin_ahead();
        }
        for (place, write) in self.writes.writes.iter().enumerate() {
            self.pause_at(place, pin)?;
            progress.ahead = place + 1;
            if write.kind == WriteKind::Nothing {
                continue;
            }
            check_system()?;
            self.write_row_ahead(place, progress, pin)?;
            self.install_row_ahead(place, progress, pin)?;
        }
        Ok(())
    }

    fn write_row_ahead(&self, place: usize, progress: &mut CommitProgress, pin: &Guard) -> Result<()> {
        let (write, in_use) = (&self.writes.writes[place], &self.buffers.in_use[..]);
        let row = progress.rows[place].as_mut().expect("the rows of a commit are owned");
        let (cells, views) = (self.writes.cells(write), &mut progress.views);
        self.tables.storage(write.table).with_kept(row, |row| match write.kind {
            WriteKind::Insert => row.write_new(cells, views, pin),
            WriteKind::Update => row.save_update(cells, in_use, views, pin),
            WriteKind::Delete | WriteKind::Nothing => row.save_delete(in_use, pin),
        })
    }

    /// The timestamps of all readers. None are listed, and so nothing is pruned, where a collector does it.
    fn refresh_in_use(&mut self) {
        if self.manager.versioning().is_left_to_collector {
            return;
        }
        let buffers = &mut self.buffers;
        if buffers.in_use.is_empty() || buffers.in_use_age >= IN_USE_AGE_MAX {
            self.manager.readers().in_use(self.manager.watermark(), &mut buffers.in_use);
            buffers.in_use_age = 0;
        }
        buffers.in_use_age += 1;
    }

    /// Step 6. Returns a table that lost more rows than the background keeps up with.
    fn install(&self, progress: &mut CommitProgress, commit: Timestamp, pin: &Guard) -> Option<Arc<Table>> {
        let mut has_deleted = false;
        let views = std::mem::take(&mut progress.views);
        let mut rest = views.iter().copied();
        for (place, write) in self.writes.writes.iter().enumerate() {
            if write.kind == WriteKind::Nothing {
                continue;
            }
            failpoint::pass("install of a row");
            let row = progress.take(place, self.tables.storage(write.table));
            let cells = self.writes.cells(write);
            // SAFETY: step 3 has written or saved the same rows in the same order, and added these views; `insert` and
            // `update` let only UTF-8 into text columns.
            unsafe {
                match write.kind {
                    WriteKind::Insert => row.install_insert(commit, cells, &mut rest, pin),
                    WriteKind::Update => row.install_update(commit, cells, &mut rest, pin),
                    WriteKind::Delete | WriteKind::Nothing => {
                        row.install_delete(commit);
                        has_deleted = true;
                    }
                }
            }
        }
        progress.views = views;
        if has_deleted { self.table_to_sweep() } else { None }
    }

    /// A table that this commit has deleted from and that lost more rows than the background keeps up with.
    fn table_to_sweep(&self) -> Option<Arc<Table>> {
        if self.manager.versioning().is_left_to_collector {
            return None;
        }
        let mut deletions = self.writes.writes.iter().filter(|write| write.kind == WriteKind::Delete);
        let to_sweep = deletions.find(|write| self.tables.storage(write.table).needs_sweep())?;
        Some(self.tables[to_sweep.table].clone())
    }

    /// Takes back what an ended commit did: entries, strings, versions, slots, locks.
    fn undo(&self, progress: &mut CommitProgress, record: &CommitRecord, pin: &mut Guard) {
        let _no_way_out = EndsProcess("while it was taking back what it had done");
        let mut large = progress.large.take();
        if let Some(large) = &mut large {
            self.withdraw(progress, large, pin);
        }
        self.remove_entries(progress, record, pin);
        let installed = large.as_ref().map_or(0, |large| large.installed);
        let mut views = std::mem::take(&mut progress.views).into_iter();
        for (place, write) in self.writes.writes.iter().enumerate().skip(installed) {
            if place.is_multiple_of(STEPS_BETWEEN_CHECKS) {
                let_go(pin);
            }
            let Some(kept) = progress.rows.get_mut(place).and_then(Option::take) else { continue };
            let row = self.tables.storage(write.table).resume(kept);
            if place < progress.ahead {
                // SAFETY: the cells that were written or saved, in the same order; the views were added for them.
                unsafe { row.take_back(self.writes.cells(write), &mut views, pin) };
            }
            if write.kind == WriteKind::Insert {
                row.free();
            }
        }
        if let Some(large) = large {
            self.settle_withdrawn(progress, large, pin);
        }
    }

    fn remove_entries(&self, progress: &mut CommitProgress, record: &CommitRecord, pin: &mut Guard) {
        for (step, Entered { place, key }) in std::mem::take(&mut progress.entries).into_iter().enumerate() {
            if step.is_multiple_of(STEPS_BETWEEN_CHECKS) {
                let_go(pin);
            }
            failpoint::step("entry taken back");
            let pin = &*pin;
            let table = &self.tables[self.writes.writes[place].table];
            let (position, key) = record.key(key);
            let index = table.index(position);
            let row = progress.rows[place].as_mut().expect("the rows of a commit are owned");
            // The entry may have been there because the row has or had this key; or it is new only because the index is
            // still being filled, and the filling relies on it.
            let row_id = row.id();
            if !Storage::of(table).with_kept(row, |row| row.has_had_key(index, key, pin)) {
                Entries::of(index).remove(key, row_id.0);
            }
        }
    }
}
