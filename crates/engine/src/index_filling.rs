//! The entries of an index for rows that a table has already: those of a new index, and of any index after a restart.
//!
//! ```text
//! all threads   read keys of some blocks each, and sort them: a run      until runs take as much memory as they may
//! all threads   enter a part each of the order of all keys of the runs   and again for the blocks that are left
//! ```
//! Entered in the order of all keys, entries leave full leaves: half of the memory, and less than half of the time, of runs that
//! are entered one behind the other. A table of one run is filled by one thread.
//!
//! Rows that change meanwhile are entered by their commits; a snapshot keeps the entries of its rows from being removed in between.

use crate::processors::{on_all_processors, processors};
use ankerdb_base::{BlockNumber, Result, RowId};
use ankerdb_table::{Entries, Index, KeyRun, MergedKeys, RUNS_BYTES_MAX, ReadAt, Storage};
use ankerdb_transaction::{Claim, Interrupt, MemoryLimit};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Blocks whose keys are one run, unless they are long.
const BLOCKS_OF_RUN: usize = 64;
/// Entries between two looks at the interrupt.
const ENTRIES_AT_ONCE: usize = 1024;

/// Keys of rows that an index has to have.
pub(crate) struct IndexFilling<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) index: &'a Index,
    /// Which state of the rows; they stay in it.
    pub(crate) at: ReadAt,
    pub(crate) interrupt: &'a Interrupt,
    pub(crate) limit: MemoryLimit,
}

/// Blocks that nobody has read yet, and runs of the others.
#[derive(Default)]
struct Reading {
    next: AtomicUsize,
    held_bytes: AtomicUsize,
    runs: Mutex<Vec<KeyRun>>,
}

impl IndexFilling<'_> {
    /// Enters the keys of all rows. Needs up to half a GiB beside the index, less where a limit is near or rows are fewer: 32 bytes
    /// and its key for each.
    ///
    /// # Errors
    /// 53200 at the mark for large claims, those of keys, and the interrupt's. Entries may have been made then.
    pub(crate) fn fill(&self) -> Result<()> {
        let (blocks, mut reading) = (self.storage.block_count(), Reading::default());
        let threads = vec![(); processors().min(blocks.div_ceil(BLOCKS_OF_RUN))];
        while *reading.next.get_mut() < blocks {
            on_all_processors(&threads, |()| self.within_limit(|| self.read(&reading, blocks)))?;
            *reading.held_bytes.get_mut() = 0;
            let runs = std::mem::take(reading.runs.get_mut());
            let parts = MergedKeys::parts(&runs, threads.len());
            let parts: Vec<_> = parts.into_iter().map(|part| Mutex::new(Some(part))).collect();
            on_all_processors(&parts, |part| match part.lock().take() {
                Some(keys) => self.within_limit(|| self.enter(keys)),
                None => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Whether several threads fill it.
    pub(crate) fn is_shared(&self) -> bool {
        self.storage.block_count() > BLOCKS_OF_RUN
    }

    /// Does a thread's part of the work, which gets no memory past the mark for large claims.
    fn within_limit(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let _ceiling = self.limit.put_up(Claim::Large);
        work().map_err(|error| self.limit.explain(error))
    }

    /// Whether runs of so many bytes are enough: the index will take about as many.
    fn is_enough(&self, held_bytes: usize) -> bool {
        held_bytes >= RUNS_BYTES_MAX || held_bytes > 0 && self.limit.check(Claim::Large, held_bytes).is_err()
    }

    /// Makes runs until there are no more blocks, or runs enough.
    fn read(&self, reading: &Reading, blocks: usize) -> Result<()> {
        while !self.is_enough(reading.held_bytes.load(Relaxed)) {
            let first = reading.next.fetch_add(BLOCKS_OF_RUN, Relaxed);
            if first >= blocks {
                return Ok(());
            }
            let mut run = KeyRun::new();
            for number in first..blocks.min(first + BLOCKS_OF_RUN) {
                if run.is_full() {
                    reading.hold(std::mem::take(&mut run));
                }
                self.read_block(BlockNumber(number), &mut run)?;
            }
            reading.hold(run);
        }
        Ok(())
    }

    fn read_block(&self, number: BlockNumber, run: &mut KeyRun) -> Result<()> {
        self.limit.check(Claim::Large, 0)?;
        let pin = crossbeam_epoch::pin();
        for offset in 0..self.storage.block(number).fill() {
            self.interrupt.check()?;
            let row = RowId::new(number, offset);
            run.add(row, |out| self.storage.push_key_at(self.index, row, self.at, &pin, out))?;
        }
        Ok(())
    }

    fn enter(&self, mut keys: MergedKeys<'_>) -> Result<()> {
        loop {
            self.interrupt.check()?;
            self.limit.check(Claim::Large, 0)?;
            for _ in 0..ENTRIES_AT_ONCE {
                let Some((key, row, _)) = keys.next() else { return Ok(()) };
                Entries::of(self.index).insert(key, row.0)?;
            }
        }
    }
}

impl Reading {
    /// Sorts a run and keeps it.
    fn hold(&self, mut run: KeyRun) {
        run.sort();
        self.held_bytes.fetch_add(run.memory_bytes(), Relaxed);
        self.runs.lock().push(run);
    }
}
