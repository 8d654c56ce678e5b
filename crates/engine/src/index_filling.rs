//! The entries of a new index: keys of a snapshot's rows, in runs that are sorted.
//!
//! A run is entered by a thread beside while this one reads the next and sorts it. A table of one run is filled by one thread.
//!
//! ```text
//! this thread   reads keys, sorts a run ──► handed over
//! beside        enters it ──► empty runs, to be filled again
//! ```
//! Rows that change meanwhile are entered by their commits; the snapshot keeps the entries of its rows from being removed in between.

use ankerdb_base::{BlockNumber, Error, Result, RowId};
use ankerdb_snapshot::Snapshot;
use ankerdb_table::{Entries, Index, KeyRun, ReadAt, Storage, Table};
use ankerdb_transaction::{Claim, Interrupt, MemoryLimit};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Enters the rows of a snapshot.
///
/// # Errors
/// 53200 at the mark for large claims, those of keys, and the interrupt's.
pub(crate) fn fill_index(
    table: &Table,
    index: &Index,
    snapshot: &Snapshot,
    (interrupt, limit): (&Interrupt, MemoryLimit),
) -> Result<()> {
    let keys = Keys {
        storage: Storage::of(table),
        index,
        at: ReadAt::Snapshot(snapshot.timestamp()),
        interrupt,
        limit,
    };
    let (mut run, mut next) = (KeyRun::new(), 0);
    keys.read(&mut next, &mut run)?;
    if next == keys.storage.block_count() {
        return enter(index, &mut run, interrupt);
    }
    let (full, runs) = sync_channel(0);
    let (spent, empty) = channel();
    thread::scope(|scope| {
        let beside = thread::Builder::new().name("ankerdb-index".into());
        let beside = beside.spawn_scoped(scope, move || enter_all(index, interrupt, runs, spent));
        let Ok(beside) = beside else { return keys.read_all(next, run, None, &empty) };
        let read = keys.read_all(next, run, Some(full), &empty);
        let entered = beside
            .join()
            .unwrap_or_else(|_| Err(Error::internal("a thread that filled an index has panicked")));
        // Where entering has failed, reading has ended without an error.
        entered.and(read)
    })
}

/// Keys of the rows of a snapshot.
struct Keys<'a> {
    storage: &'a Storage,
    index: &'a Index,
    at: ReadAt,
    interrupt: &'a Interrupt,
    limit: MemoryLimit,
}

impl Keys<'_> {
    /// Reads the blocks from `next` on, until the run is full or there are no more.
    fn read(&self, next: &mut usize, run: &mut KeyRun) -> Result<()> {
        while *next < self.storage.block_count() && !run.is_full() {
            self.limit.check(Claim::Large, 0)?;
            let pin = crossbeam_epoch::pin();
            let number = BlockNumber(*next);
            for offset in 0..self.storage.block(number).fill() {
                self.interrupt.check()?;
                let row = RowId::new(number, offset);
                run.add(row, |out| self.storage.push_key_at(self.index, row, self.at, &pin, out))?;
            }
            *next += 1;
        }
        Ok(())
    }

    /// Hands on the first run and reads the others. Ends early if nobody takes them; without somebody who does, it enters them.
    fn read_all(
        &self,
        mut next: usize,
        mut run: KeyRun,
        full: Option<SyncSender<KeyRun>>,
        empty: &Receiver<KeyRun>,
    ) -> Result<()> {
        while !run.is_empty() {
            match &full {
                None => enter(self.index, &mut run, self.interrupt)?,
                Some(full) => {
                    run.sort();
                    match full.send(run) {
                        Ok(()) => run = empty.try_recv().unwrap_or_default(),
                        Err(_) => return Ok(()),
                    }
                }
            }
            self.read(&mut next, &mut run)?;
        }
        Ok(())
    }
}

/// Enters runs as they come, and gives them back.
fn enter_all(
    index: &Index,
    interrupt: &Interrupt,
    runs: Receiver<KeyRun>,
    spent: Sender<KeyRun>,
) -> Result<()> {
    for mut run in runs {
        enter(index, &mut run, interrupt)?;
        // Nobody wants it behind the last one.
        let _ = spent.send(run);
    }
    Ok(())
}

/// Enters keys in their order.
fn enter(index: &Index, run: &mut KeyRun, interrupt: &Interrupt) -> Result<()> {
    for (key, row, _) in run.sorted() {
        interrupt.check()?;
        Entries::of(index).insert(key, row.0)?;
    }
    run.clear();
    Ok(())
}
