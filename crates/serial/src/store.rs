//! What all mechanisms have in common: places of tuples, and what transactions and queries do with them.

use crate::area::MemoryKind;
use crate::mechanism::Mechanism;
use ankerdb_base::{Error, Result, SqlState};
use std::sync::atomic::AtomicU64;

/// What the tuples of a relation look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Words of a tuple.
    pub words: usize,
    /// The most tuples that there may be, copies that a mechanism makes among them. Costs addresses only.
    pub capacity: usize,
}

/// The number of a tuple in its relation. It stays for as long as the tuple exists; later another one may have it.
pub type TupleId = usize;

/// The tuples of one relation under one mechanism, for the one transaction that runs.
///
/// Only the owner writes, through atomics, as queries may be reading the memory; none of them reads what is being written if
/// [`refresh`](Store::refresh) is called as it says.
pub trait Store: Send + Sized + 'static {
    /// What queries see.
    type View: View + 'static;
    /// How it keeps snapshots.
    const MECHANISM: Mechanism;

    /// A relation without tuples, and a snapshot of that.
    ///
    /// # Errors
    /// 53200 if there is no memory.
    fn new(shape: Shape, kind: MemoryKind) -> Result<Self>;

    /// Adds a tuple.
    ///
    /// # Errors
    /// 54000 if there are as many as there may be.
    fn insert(&mut self, tuple: &[u64]) -> Result<TupleId>;

    /// The newest version of a tuple, to be read; `None` if there is no such tuple.
    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]>;

    /// The newest version of a tuple, to be changed; `None` if there is no such tuple.
    ///
    /// # Errors
    /// 54000 if a copy would be needed and there are as many as there may be.
    fn change(&mut self, tuple: TupleId) -> Result<Option<&[AtomicU64]>>;

    /// Deletes a tuple; whether there was one.
    ///
    /// # Errors
    /// 53200 if a copy would be needed for which there is no memory.
    fn delete(&mut self, tuple: TupleId) -> Result<bool>;

    /// Takes back the last deletion that was not taken back, which must have been of this tuple and after the last refresh.
    fn undelete(&mut self, tuple: TupleId);

    /// Makes the newest state the snapshot. By mechanisms that fork this prepares for it: the child is the snapshot.
    ///
    /// Where there is [one snapshot](Mechanism::has_one_snapshot) at a time, nobody may be reading it.
    ///
    /// # Errors
    /// 53200 if there is no memory.
    fn refresh(&mut self) -> Result<()>;

    /// Reorganization that a mechanism can do without; must come before [`refresh`](Store::refresh).
    fn reorganize(&mut self) {}

    /// The last snapshot; by mechanisms that fork, the memory of this process as it is now.
    fn view(&self) -> Self::View;

    /// Words of memory in use, beside those of [`Shape`] for each tuple.
    fn used_words(&self) -> usize;
}

/// A snapshot of one relation. Costs nothing to clone.
pub trait View: Clone + Send + Sync {
    /// A tuple, if the snapshot has it.
    fn find(&self, tuple: TupleId) -> Option<&[AtomicU64]>;

    /// Shows all tuples, until it is told to stop.
    fn scan(&self, see: impl FnMut(&[AtomicU64]) -> bool);

    /// How many tuples there are.
    fn count(&self) -> usize;
}

/// Numbers of tuples: new ones at the end, or those of tuples that are gone.
#[derive(Default)]
pub(crate) struct Slots {
    capacity: usize,
    /// No tuple has had this number yet, or any above.
    end: usize,
    free: Vec<TupleId>,
    /// Free after the next refresh.
    deleted: Vec<TupleId>,
}

impl Slots {
    pub(crate) fn new(capacity: usize) -> Slots {
        Slots { capacity, ..Slots::default() }
    }

    pub(crate) fn take(&mut self) -> Result<TupleId> {
        if let Some(tuple) = self.free.pop() {
            return Ok(tuple);
        }
        if self.end == self.capacity {
            let message = format!("a relation has room for {} tuples, copies included", self.capacity);
            return Err(Error::new(SqlState::ProgramLimitExceeded, message));
        }
        self.end += 1;
        Ok(self.end - 1)
    }

    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Whether a tuple can have this number.
    pub(crate) fn has(&self, tuple: TupleId) -> bool {
        tuple < self.end
    }

    pub(crate) fn delete(&mut self, tuple: TupleId) {
        self.deleted.push(tuple);
    }

    /// Those that are free after the next refresh.
    pub(crate) fn deleted(&self) -> &[TupleId] {
        &self.deleted
    }

    pub(crate) fn undelete(&mut self, tuple: TupleId) {
        let last = self.deleted.pop();
        assert_eq!(last, Some(tuple), "deletions are taken back in turn, the last one first");
    }

    pub(crate) fn give_back(&mut self, tuple: TupleId) {
        self.free.push(tuple);
    }

    /// No number is in use any more.
    pub(crate) fn clear(&mut self) {
        self.end = 0;
        self.free.clear();
        self.deleted.clear();
    }

    /// What was deleted may be used again.
    pub(crate) fn refresh(&mut self) {
        self.free.append(&mut self.deleted);
    }
}
