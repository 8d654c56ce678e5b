//! What the readers of one snapshot had to do: for the snapshot manager, which decides by it whether others shall read the snapshot, too.
//!
//! Only a [watched](crate::Snapshot::watched) snapshot has such counters. Lending counts, but takes no time worth measuring; copies are
//! timed, and noted by the place where they were made: what two snapshots in a row had to copy is what the next one is going to copy.

use ankerdb_base::{BlockNumber, TableId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Columns that were copied, by table and block; of a column that was snapshotted as a whole, without a block.
pub type CopiedColumns = HashMap<(TableId, Option<BlockNumber>), Vec<usize>>;

/// For whom a column is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadFor {
    /// A query, which waits for it.
    Query,
    /// Queries to come.
    Later,
}

/// See the module.
#[derive(Default)]
pub struct SnapshotWork {
    lent: AtomicU64,
    by_queries: Copies,
    ahead: Copies,
    ahead_read: AtomicU64,
    places: Mutex<CopiedColumns>,
}

/// Columns of a block, or whole ones, that were made for a snapshot.
#[derive(Default)]
struct Copies {
    count: AtomicU64,
    nanos: AtomicU64,
    bytes: AtomicU64,
}

impl Copies {
    fn so_far(&self) -> CopyCount {
        let (count, bytes) = (self.count.load(Relaxed), self.bytes.load(Relaxed));
        CopyCount { count, bytes, time: Duration::from_nanos(self.nanos.load(Relaxed)) }
    }
}

/// How many columns were made, and what that took.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CopyCount {
    /// Columns of a block, or whole columns.
    pub count: u64,
    /// Their bytes, strings aside. Copies of whole columns, whose technique may share pages, count nothing.
    pub bytes: u64,
    /// What it took, over all threads.
    pub time: Duration,
}

impl SnapshotWork {
    /// Columns of blocks that were lent.
    pub fn lent(&self) -> u64 {
        self.lent.load(Relaxed)
    }

    /// Copies that queries made, and waited for.
    pub fn copied(&self) -> CopyCount {
        self.by_queries.so_far()
    }

    /// What was made [ahead](crate::Snapshot::read_ahead) of queries, loans included.
    pub fn ahead(&self) -> CopyCount {
        self.ahead.so_far()
    }

    /// How many of those a query has read since.
    pub fn ahead_read(&self) -> u64 {
        self.ahead_read.load(Relaxed)
    }

    /// Where queries made copies.
    pub fn places(&self) -> CopiedColumns {
        self.places.lock().clone()
    }

    pub(crate) fn note_lent(&self, columns: usize, read_for: ReadFor) {
        self.lent.fetch_add(columns as u64, Relaxed);
        if read_for == ReadFor::Later {
            self.ahead.count.fetch_add(columns as u64, Relaxed);
        }
    }

    /// Notes copies of columns at a place.
    pub(crate) fn note_copies(
        &self,
        place: (TableId, Option<BlockNumber>),
        columns: &[usize],
        copies: CopyCount,
        read_for: ReadFor,
    ) {
        let counters = match read_for {
            ReadFor::Query => &self.by_queries,
            ReadFor::Later => &self.ahead,
        };
        counters.count.fetch_add(copies.count, Relaxed);
        counters.bytes.fetch_add(copies.bytes, Relaxed);
        counters.nanos.fetch_add(copies.time.as_nanos() as u64, Relaxed);
        if read_for == ReadFor::Query {
            self.note_place(place, columns);
        }
    }

    /// Notes that a query has read columns that were made ahead: what is read again stays worth making.
    pub(crate) fn note_ahead_read(&self, place: (TableId, Option<BlockNumber>), columns: &[usize]) {
        self.ahead_read.fetch_add(columns.len() as u64, Relaxed);
        self.note_place(place, columns);
    }

    fn note_place(&self, place: (TableId, Option<BlockNumber>), columns: &[usize]) {
        let mut places = self.places.lock();
        let known = places.entry(place).or_default();
        let new = columns.iter().filter(|column| !known.contains(column)).copied().collect::<Vec<_>>();
        known.extend(new);
    }
}
