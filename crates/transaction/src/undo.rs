//! Savepoints of a write set: what has to be known to take back what was written since.
//!
//! A write set grows at its ends, so most of what was written since a savepoint is what lies behind its lengths at that time,
//! and is cut off. Only a row that was written before and again since is different: at its first change behind a savepoint
//! its cells are copied to the end, and where the former ones lie is noted here.
//!
//! ```text
//!                     savepoint
//! writes   a  b  c      │  d  e                 cut off behind the mark
//! cells    a1 b1 b2 c1  │  d1  b1'b2'  e1       b changed again: its cells were copied, then changed
//! former                │  (b: where b1 b2 lie, and that it was an update)
//! ```
//!
//! Savepoints nest. Each costs a few words, and so does each row that is written again behind it; a transaction without
//! savepoints pays one comparison for each write.

/// How large a write set was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub writes: usize,
    pub cells: usize,
    pub bytes: usize,
    /// Entries of the log.
    former: usize,
}

/// The open savepoints, and former states of writes, each with its place, in the order in which they were left.
pub(crate) struct UndoLog<W> {
    marks: Vec<Mark>,
    former: Vec<(usize, W)>,
}

impl<W> Default for UndoLog<W> {
    fn default() -> UndoLog<W> {
        UndoLog { marks: Vec::new(), former: Vec::new() }
    }
}

impl<W> UndoLog<W> {
    /// Whether there is a savepoint.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Savepoints that are open.
    pub(crate) fn depth(&self) -> usize {
        self.marks.len()
    }

    /// Whether a change of a write can be noted.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        !self.is_kept() || self.former.len() < self.former.capacity()
    }

    /// Makes room to note a change.
    pub(crate) fn try_grow(&mut self) -> Result<(), ()> {
        if self.is_kept() { self.former.try_reserve(1).map_err(drop) } else { Ok(()) }
    }

    /// Sets a savepoint at these lengths. Fails, with everything as it was, if there is no memory.
    pub(crate) fn set(&mut self, writes: usize, cells: usize, bytes: usize) -> Result<(), ()> {
        self.marks.try_reserve(1).map_err(drop)?;
        self.marks.push(Mark { writes, cells, bytes, former: self.former.len() });
        Ok(())
    }

    /// Whether a write at this place, whose cells begin at `first`, has to be noted before it changes: it was there at the
    /// last savepoint, and its cells have not been copied since.
    #[inline]
    pub(crate) fn needs(&self, place: usize, first: usize, count: usize) -> bool {
        let Some(mark) = self.marks.last() else { return false };
        place < mark.writes && (first < mark.cells || count == 0)
    }

    /// Notes what a write is before it changes. There is [room](Self::has_room).
    pub(crate) fn note(&mut self, place: usize, former: W) {
        self.former.push((place, former));
    }

    /// The lengths at a savepoint, which stays, while later ones are gone.
    pub(crate) fn back_to(&mut self, depth: usize) -> Option<Mark> {
        self.marks.truncate(depth + 1);
        self.marks.get(depth).copied()
    }

    /// The last change noted since a mark, which is then forgotten.
    pub(crate) fn pop_since(&mut self, mark: Mark) -> Option<(usize, W)> {
        if self.former.len() > mark.former { self.former.pop() } else { None }
    }

    /// Forgets a savepoint and all later ones; what was written stays.
    pub(crate) fn release(&mut self, depth: usize) {
        self.marks.truncate(depth);
        if self.marks.is_empty() {
            self.former.clear();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.marks.clear();
        self.former.clear();
    }
}
