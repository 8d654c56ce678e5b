//! Concurrent multimaps from byte-string keys to row numbers: an ordered one and a hash table.
//!
//! [`OrderedIndex`] holds (key, row) pairs, ordered by the key's bytes and then by row. Keys are order-preserving
//! encodings of column values, so that comparing bytes compares values. [`HashIndex`] (`hash`) holds such pairs
//! without order, for lookups of whole keys. What follows is about both, and then about the tree.
//!
//! An index knows nothing of transactions: an entry says that some version of the row has, or had, this key.
//! Its reader checks the row itself. That is why it is a multimap even under a unique constraint: a deleted
//! row and its successor may both be there until the older version is pruned. [`OrderedIndex::insert_unique`]
//! therefore lets its caller decide which entries are conflicts.
//!
//! It is a B+-tree with optimistic lock coupling (after Leis, Haubenschild and Neumann, "Optimistic Lock Coupling",
//! 2019): readers take no lock and write no shared memory. Read the modules in this order: `latch` (how nodes are
//! locked, and why readers are safe), `entry` (keys as words), `node` (layout and search), `tree` (descent, insertion,
//! removal, reclamation), `lookup`, `unique`, `scan`. Ours are the guides of a node, leaves without sibling links, and
//! the way in which empty leaves leave the tree.
//!
//! Words of the SAFETY notes: a node or tail is *alive* until it is freed; a *guard* is a pinned epoch guard,
//! before whose end nothing is freed that could be found when it was pinned; a node is *validated* if its
//! version was the same before and after what was loaded from it.
//!
//! Not here: merging of underfull leaves, loss of height, and any persistence.
#![warn(missing_docs)]

mod counter;
mod entry;
mod hash;
mod latch;
mod lookup;
mod node;
mod scan;
mod tree;
mod unique;

pub use hash::HashIndex;

use ankerdb_base::{Error, Result, SqlState};
use std::ops::{Bound, ControlFlow};

/// The longest key that an index takes, in bytes.
pub const KEY_BYTES_MAX: usize = 2600;

/// Which way a scan goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Smallest entry first.
    Forward,
    /// Largest entry first.
    Backward,
}

/// What became of an entry that had to be unique.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UniqueInsert<C> {
    /// The entry is there now, and was not before.
    Inserted,
    /// The entry was there already, and no other one is a conflict.
    Present,
    /// Another entry with the key is a conflict, as the caller described it; nothing was inserted.
    Conflict(C),
}

/// A concurrent ordered multimap from byte-string keys to row numbers; see the crate's header.
///
/// Any number of threads may call any methods at the same time. Every insert, remove and lookup of one
/// entry is linearizable; a scan is not one atomic step (see [`OrderedIndex::scan`]).
pub struct OrderedIndex {
    tree: tree::Tree,
    unique: unique::KeyLocks,
}

impl OrderedIndex {
    /// An empty index.
    pub fn new() -> OrderedIndex {
        OrderedIndex { tree: tree::Tree::new(), unique: unique::KeyLocks::new() }
    }

    /// Inserts the entry; false if it was there already. Costs one descent.
    ///
    /// # Errors
    /// 54000 if the key is longer than [`KEY_BYTES_MAX`].
    pub fn insert(&self, key: &[u8], row: u64) -> Result<bool> {
        check_length(key)?;
        Ok(self.tree.insert(key, row))
    }

    /// Inserts the entry unless another entry with the same key is a conflict.
    ///
    /// `conflicts` is called for each other row that has the key, in ascending order, until it returns `Some`; a row
    /// is no conflict to itself. It may be called for the same rows again, when others change the index meanwhile;
    /// what counts are the last answers. No other thread enters the key between those and the insertion, so of several
    /// that would find each other to be conflicts at most one inserts. A conflict may be an entry that its owner takes
    /// back because it is in conflict itself: callers that want to be sure try again. Plain [`OrderedIndex::insert`]
    /// and [`OrderedIndex::remove`] are not held back.
    ///
    /// Costs one descent where the entries of the key are few and in one leaf. Otherwise `conflicts` runs under a mutex
    /// that keys share: it may read this index, but must not call `insert_unique` on it, nor wait for a thread
    /// that might. It runs under an epoch guard, never under a latch.
    ///
    /// # Errors
    /// 54000 if the key is longer than [`KEY_BYTES_MAX`].
    pub fn insert_unique<C>(
        &self,
        key: &[u8],
        row: u64,
        conflicts: impl FnMut(u64) -> Option<C>,
    ) -> Result<UniqueInsert<C>> {
        check_length(key)?;
        Ok(self.tree.insert_unique(&self.unique, key, row, conflicts))
    }

    /// Removes the entry; false if it was not there. Costs one descent.
    pub fn remove(&self, key: &[u8], row: u64) -> bool {
        self.tree.remove(key, row)
    }

    /// Visits all rows with exactly this key, in ascending order, until `visit` breaks. Like a
    /// [`OrderedIndex::scan`] of one key, and as free in what `visit` may do, but cheaper.
    pub fn get(&self, key: &[u8], visit: impl FnMut(u64) -> ControlFlow<()>) {
        self.tree.get(key, visit);
    }

    /// Visits entries in key order (or in reverse order), until `visit` breaks.
    ///
    /// Bounds are over keys alone: `Included` takes all rows of that key, `Excluded` none. An empty or
    /// inverted range visits nothing. Entries that exist during the whole scan are visited exactly once;
    /// entries that are inserted or removed meanwhile may or may not be. No latch is held and no memory
    /// is kept from reclamation while `visit` runs: it may do anything, calls into this index included.
    pub fn scan(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        self.tree.scan(lower, upper, direction, visit);
    }

    /// Like [`OrderedIndex::scan`], but leaves out leaves that are [marked](OrderedIndex::mark_dead) from a stamp up
    /// to `since` on. Costs a descent for each of them.
    pub fn scan_since(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
        direction: Direction,
        since: u64,
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) {
        self.tree.scan_since(lower, upper, direction, since, visit);
    }

    /// Marks the leaf in which the entry is, or would be: from a stamp on its entries mean nothing to those who [scan
    /// since](OrderedIndex::scan_since) then. `dead_from` is called for the row of each entry in the leaf, under an epoch
    /// guard and with nothing locked: from which stamp (not 0) on can every reader ignore its entry, until it is inserted
    /// again? `None` for one leaves the leaf as it is. Any insertion into the leaf takes the mark away, also one of an
    /// entry that is there already. Returns whether the leaf is marked now.
    pub fn mark_dead(&self, key: &[u8], row: u64, dead_from: impl FnMut(u64) -> Option<u64>) -> bool {
        self.tree.mark_dead(key, row, dead_from)
    }

    /// The number of entries; approximate while others insert and remove.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there are no entries; approximate while others insert and remove.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of heap memory that the index occupies, approximately.
    pub fn memory_bytes(&self) -> usize {
        size_of::<OrderedIndex>() + self.tree.memory_bytes() + self.unique.memory_bytes()
    }
}

impl Default for OrderedIndex {
    fn default() -> OrderedIndex {
        OrderedIndex::new()
    }
}

fn check_length(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    let message = format!("index row size {} exceeds maximum {KEY_BYTES_MAX}", key.len());
    Err(Error::new(SqlState::ProgramLimitExceeded, message))
}
