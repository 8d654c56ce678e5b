//! The ordered set behind the index: one standard B-tree behind one reader-writer latch.

use crate::Direction;
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Entry = (Vec<u8>, u64);

/// Entries copied out at a time, so that no latch is held while they are visited.
const BATCH: usize = 64;

pub(crate) struct Tree {
    entries: RwLock<BTreeSet<Entry>>,
    key_bytes: AtomicUsize,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        Tree { entries: RwLock::default(), key_bytes: AtomicUsize::new(0) }
    }

    pub(crate) fn insert(&self, key: &[u8], row: u64) -> bool {
        let inserted = self.entries.write().insert((key.to_vec(), row));
        if inserted {
            self.key_bytes.fetch_add(key.len(), Relaxed);
        }
        inserted
    }

    pub(crate) fn remove(&self, key: &[u8], row: u64) -> bool {
        let removed = self.entries.write().remove(&(key.to_vec(), row));
        if removed {
            self.key_bytes.fetch_sub(key.len(), Relaxed);
        }
        removed
    }

    pub(crate) fn get(&self, key: &[u8], mut visit: impl FnMut(u64) -> ControlFlow<()>) {
        self.scan(Bound::Included(key), Bound::Included(key), Direction::Forward, |_, row| visit(row));
    }

    pub(crate) fn scan(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        let mut lower = entry_bound(lower, 0, u64::MAX);
        let mut upper = entry_bound(upper, u64::MAX, 0);
        loop {
            if !may_hold_entries(&lower, &upper) {
                return;
            }
            let batch: Vec<Entry> = {
                let entries = self.entries.read();
                let range = entries.range((lower.clone(), upper.clone()));
                match direction {
                    Direction::Forward => range.take(BATCH).cloned().collect(),
                    Direction::Backward => range.rev().take(BATCH).cloned().collect(),
                }
            };
            for (key, row) in &batch {
                if visit(key, *row).is_break() {
                    return;
                }
            }
            let full = batch.len() == BATCH;
            match batch.into_iter().next_back() {
                Some(last) if full => match direction {
                    Direction::Forward => lower = Bound::Excluded(last),
                    Direction::Backward => upper = Bound::Excluded(last),
                },
                _ => return,
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.read().len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.key_bytes.load(Relaxed) + self.len() * size_of::<Entry>() * 3 / 2
    }
}

/// A bound over keys as a bound over entries.
fn entry_bound(bound: Bound<&[u8]>, included: u64, excluded: u64) -> Bound<Entry> {
    match bound {
        Bound::Included(key) => Bound::Included((key.to_vec(), included)),
        Bound::Excluded(key) => Bound::Excluded((key.to_vec(), excluded)),
        Bound::Unbounded => Bound::Unbounded,
    }
}

/// Whether the range is one that `BTreeSet::range` takes.
fn may_hold_entries(lower: &Bound<Entry>, upper: &Bound<Entry>) -> bool {
    match (lower, upper) {
        (Bound::Included(lower), Bound::Included(upper)) => lower <= upper,
        (
            Bound::Included(lower) | Bound::Excluded(lower),
            Bound::Included(upper) | Bound::Excluded(upper),
        ) => lower < upper,
        _ => true,
    }
}
