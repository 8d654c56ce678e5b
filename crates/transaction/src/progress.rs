//! The progress of a commit, which it takes back if it ends.

use crate::blocker::Obstacle;
use crate::own_slots::OwnSlots;
use crate::record::CommitRecord;
use ankerdb_base::{Error, Result, RowId};
use ankerdb_memory::release;
use ankerdb_table::{KeptRow, LoadedBlock, OwnedRow, PendingCommit, Storage};
use std::sync::Arc;

/// What a commit has done so far and takes back if it ends. The memory is kept for the next commit.
#[derive(Default)]
pub(crate) struct CommitProgress {
    /// The rows that are owned, by position in the write set.
    pub rows: Vec<Option<KeptRow>>,
    /// Slots of new rows: position in the write set and row.
    pub slots: Vec<(usize, RowId)>,
    pub own_slots: OwnSlots,
    /// What stood in the way of a key.
    pub obstacle: Option<Obstacle>,
    pub entries: Vec<Entered>,
    /// How many rows of the write set have been written ahead, wholly or in part: the first ones.
    pub ahead: usize,
    /// Views of their long strings, one after the other; of those that have not been installed.
    pub views: Vec<u128>,
    /// Of a large commit.
    pub large: Option<Ahead>,
    /// The blocks of a load that have been attached, in the order of their numbers; all of one table, given by number.
    pub loaded: Vec<LoadedBlock>,
    pub loaded_table: usize,
}

/// An entry of a new key.
pub(crate) struct Entered {
    /// Position in the write set.
    pub place: usize,
    /// Number of the key in the commit's record.
    pub key: usize,
}

impl CommitProgress {
    /// No progress yet, with room for so many writes. Fails if there is no memory for that.
    pub(crate) fn start(&mut self, writes: usize) -> Result<()> {
        let outcome = (self.rows.try_reserve(writes))
            .and_then(|()| self.slots.try_reserve(writes))
            .and_then(|()| self.entries.try_reserve(writes));
        outcome.map_err(|_| Error::out_of_memory(writes * (size_of::<KeptRow>() + size_of::<Entered>())))?;
        self.rows.clear();
        self.slots.clear();
        self.own_slots.clear();
        self.obstacle = None;
        self.entries.clear();
        self.ahead = 0;
        self.views.clear();
        self.large = None;
        debug_assert!(self.loaded.is_empty(), "a commit settles the rows that it has attached");
        self.rows.resize_with(writes, || None);
        Ok(())
    }

    /// Gives its memory back, without holding up others.
    pub(crate) fn release(self) {
        release(self.rows);
        release(self.slots);
        release(self.entries);
        release(self.views);
    }

    /// Hands over a row.
    pub(crate) fn take<'t>(&mut self, place: usize, storage: &'t Storage) -> OwnedRow<'t> {
        storage.resume(self.rows[place].take().expect("the rows of a commit are owned"))
    }
}

/// The state of a large commit.
pub(crate) struct Ahead {
    pub commit: PendingCommit<'static>,
    /// How many rows of the write set have been installed: the first ones.
    pub installed: usize,
    /// Views of long strings that updates have overwritten.
    pub displaced: Vec<u128>,
    /// What is published if the commit ends; made now, so that ending cannot fail.
    pub nothing: Arc<CommitRecord>,
}

impl Ahead {
    /// No rows are installed yet.
    pub(crate) fn new(commit: PendingCommit<'static>) -> Ahead {
        Ahead { commit, installed: 0, displaced: Vec::new(), nothing: Arc::default() }
    }
}
