//! Cursors: results that are read in pieces, and perhaps more than once.
//!
//! ```text
//!             dropped        kept             not read yet
//!          |.............|b1  b2  b3|  <-- batches of the query
//! rows      1 ...  first |          | known
//!                            ^ position: 0 before the first row, known + 1 behind the last
//! ```
//! The query runs while it is read: what was not asked for is not computed, but for the few batches on their way. Rows that
//! were read are kept where the cursor may go back to them: all of them with SCROLL, none with NO SCROLL, and otherwise
//! the last few thousand.
//!
//! A cursor's query has an interrupt of its own, so that the end of a statement that has nothing to do with the cursor does not end it.
//! A FETCH that is interrupted ends both.

use crate::command::{Motion, Scroll};
use crate::{Batch, CancelHandle, ResultRows};
use ankerdb_engine::{Claim, Error, MemoryLimit, Result, SqlState, Value};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that a cursor keeps of which nothing was said.
const KEPT_ROWS: usize = 8192;
/// Rows that are given at a time on the way back.
const ROWS_BACKWARD: usize = 1024;

/// The rows of a cursor, and where it is among them.
pub(crate) struct CursorRows {
    /// `None` once all rows were read.
    source: Option<ResultRows>,
    kept: VecDeque<Kept>,
    /// Rows read so far.
    known: usize,
    position: usize,
    scroll: Scroll,
    has_failed: bool,
    limit: MemoryLimit,
}

struct Kept {
    /// The rows before these.
    before: usize,
    batch: Batch,
}

impl CursorRows {
    pub(crate) fn new(rows: ResultRows, scroll: Scroll, limit: MemoryLimit) -> CursorRows {
        let (source, kept) = (Some(rows), VecDeque::new());
        CursorRows { source, kept, known: 0, position: 0, scroll, has_failed: false, limit }
    }

    /// Reads all that is left, for a time when the query cannot run any more.
    ///
    /// # Errors
    /// Those of the query, of the interrupt, and `OutOfMemory`.
    pub(crate) fn read_all(&mut self, cancel: &CancelHandle) -> Result<()> {
        // What was asked for with NO SCROLL, or given up, is not needed any more.
        while self.advance(cancel, true)? {}
        Ok(())
    }

    /// Reads one more batch; whether there was one. `owned`: its rows are copied, so that nothing of the tables is held.
    fn advance(&mut self, cancel: &CancelHandle, owned: bool) -> Result<bool> {
        let Some(source) = &mut self.source else { return Ok(false) };
        let read = self.limit.check(Claim::Large, 0).and_then(|()| source.next_batch_unless(cancel));
        match read {
            Ok(Some(batch)) => {
                let batch = if owned { Batch::of_rows(batch.into_rows()) } else { batch };
                let rows = batch.len();
                self.kept.push_back(Kept { before: self.known, batch });
                self.known += rows;
                Ok(true)
            }
            Ok(None) => {
                self.source = None;
                Ok(false)
            }
            Err(error) => {
                self.source = None;
                self.has_failed = true;
                Err(error)
            }
        }
    }

    /// The kept batch that has the row, counted from 1, and the row's place in it.
    fn find(&self, row: usize) -> Option<(&Batch, usize)> {
        let behind = self.kept.partition_point(|kept| kept.before < row);
        let kept = self.kept.get(behind.checked_sub(1)?)?;
        let place = row - kept.before - 1;
        (place < kept.batch.len()).then_some((&kept.batch, place))
    }

    /// Gives up rows that are too many to keep. The current one stays if the cursor may stand still.
    fn forget(&mut self) {
        let is_too_much = |cursor: &CursorRows, kept: &Kept| match cursor.scroll {
            Scroll::Always => false,
            Scroll::Never => true,
            Scroll::Unsaid => cursor.known - kept.before > KEPT_ROWS,
        };
        while let Some(kept) = self.kept.front()
            && kept.before + kept.batch.len() < self.position.max(1)
            && is_too_much(self, kept)
        {
            self.kept.pop_front();
        }
    }

    /// Goes to a row without giving any; whether it is there. Behind the last row otherwise.
    fn seek(&mut self, row: usize, cancel: &CancelHandle) -> Result<bool> {
        while self.known < row {
            if !self.advance(cancel, false)? {
                self.position = self.known + 1;
                return Ok(false);
            }
            self.position = self.known.min(row);
            self.forget();
        }
        self.position = row;
        Ok(true)
    }

    fn check_usable(&self, name: &str) -> Result<()> {
        match self.has_failed {
            false => Ok(()),
            true => {
                let message = format!("portal \"{name}\" cannot be run");
                Err(Error::new(SqlState::ObjectNotInPrerequisiteState, message))
            }
        }
    }
}

/// Rows of a cursor on their way to a reader.
pub(crate) struct Walk {
    cursor: Arc<Mutex<CursorRows>>,
    cancel: CancelHandle,
    is_backward: bool,
    left: u64,
}

impl Walk {
    /// Begins to move a cursor.
    ///
    /// # Errors
    /// 55000 if it cannot go there, and those of the query as far as it has to be read for that.
    pub(crate) fn begin(
        cursor: &Arc<Mutex<CursorRows>>,
        name: &str,
        motion: Motion,
        cancel: CancelHandle,
    ) -> Result<Walk> {
        let mut rows = cursor.lock();
        rows.check_usable(name)?;
        let (is_backward, left) = match motion {
            Motion::Forward(count) => (false, count),
            Motion::Backward(count) => (true, count),
            Motion::Absolute(0) => {
                rows.go_back(0)?;
                (false, 0)
            }
            Motion::Absolute(row @ 1..) => (false, rows.stand_before(row as usize, &cancel)?),
            Motion::Absolute(row) => {
                if rows.scroll == Scroll::Never {
                    return Err(forward_only());
                }
                rows.seek(usize::MAX, &cancel)?;
                let row = (rows.known + 1).saturating_sub(row.unsigned_abs() as usize);
                (false, rows.stand_before(row, &cancel)?)
            }
            Motion::Relative(by) => {
                let row = rows.position.saturating_add_signed(by as isize);
                let is_row = (1..=rows.known).contains(&rows.position);
                match by {
                    0 if !is_row => (false, 0),
                    0 if rows.scroll == Scroll::Never => return Err(forward_only()),
                    // Behind the last row there are no others.
                    1.. if rows.position > rows.known && rows.source.is_none() => (false, 0),
                    _ => (false, rows.stand_before(row, &cancel)?),
                }
            }
        };
        if is_backward && rows.scroll == Scroll::Never {
            return Err(forward_only());
        }
        drop(rows);
        Ok(Walk { cursor: cursor.clone(), cancel, is_backward, left })
    }

    /// The next rows, or `None` at the end.
    pub(crate) fn next_batch(&mut self) -> Result<Option<Batch>> {
        self.cancel.check()?;
        if self.left == 0 {
            return Ok(None);
        }
        let mut cursor = self.cursor.lock();
        let batch = match self.is_backward {
            false => cursor.forward(self.left, &self.cancel)?,
            true => cursor.backward(self.left)?,
        };
        self.left = match &batch {
            Some(batch) => self.left - batch.len() as u64,
            None => 0,
        };
        Ok(batch)
    }

    /// Moves without reading; over how many rows.
    pub(crate) fn pass(mut self) -> Result<u64> {
        let mut passed = 0;
        while let Some(batch) = self.next_batch()? {
            passed += batch.len() as u64;
        }
        Ok(passed)
    }
}

impl CursorRows {
    /// So many of the next rows, or fewer.
    fn forward(&mut self, most: u64, cancel: &CancelHandle) -> Result<Option<Batch>> {
        let next = self.position + 1;
        while self.known < next {
            if !self.advance(cancel, false)? {
                self.position = self.known + 1;
                return Ok(None);
            }
        }
        let Some((batch, place)) = self.find(next) else { return Err(forward_only()) };
        let count = (batch.len() - place).min(usize::try_from(most).unwrap_or(usize::MAX));
        let rows = batch.slice(place, count)?;
        self.position += count;
        self.forget();
        Ok(Some(rows))
    }

    /// So many of the rows before, or fewer.
    fn backward(&mut self, most: u64) -> Result<Option<Batch>> {
        if self.position <= 1 {
            self.position = 0;
            return Ok(None);
        }
        let mut rows: Vec<Vec<Value>> = Vec::new();
        while self.position > 1 && (rows.len() as u64) < most && rows.len() < ROWS_BACKWARD {
            match self.find(self.position - 1) {
                Some((batch, place)) => rows.push(batch.cells(place).map(|cell| cell.to_value()).collect()),
                // What is still here is given first.
                None if !rows.is_empty() => break,
                None => return Err(forward_only()),
            }
            self.position -= 1;
        }
        Ok(Some(Batch::of_rows(rows)))
    }

    /// Goes before a row; how many rows are to be given then: one, or none if there is no such row.
    fn stand_before(&mut self, row: usize, cancel: &CancelHandle) -> Result<u64> {
        if row > self.position {
            let is_there = self.seek(row, cancel)?;
            if is_there {
                self.position = row - 1;
            }
            return Ok(u64::from(is_there));
        }
        self.go_back(row.saturating_sub(1))?;
        Ok(u64::from(row > 0))
    }

    /// Goes back to a position, from which the next row can be read.
    fn go_back(&mut self, position: usize) -> Result<()> {
        if position == 0 && self.position == 0 {
            return Ok(());
        }
        let is_kept = self.known == 0 || self.find(position + 1).is_some();
        if self.scroll == Scroll::Never || !is_kept {
            return Err(forward_only());
        }
        self.position = position;
        Ok(())
    }
}

fn forward_only() -> Error {
    Error::new(SqlState::ObjectNotInPrerequisiteState, "cursor can only scan forward")
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutputColumn;
    use ankerdb_engine::DataType;

    fn cursor(rows: i32, scroll: Scroll) -> Arc<Mutex<CursorRows>> {
        let columns = [OutputColumn::new("a", DataType::Integer)];
        let rows = (1..=rows).map(|row| vec![Value::Integer(row)]).collect();
        let rows = ResultRows::ready(columns.into(), rows, None);
        Arc::new(Mutex::new(CursorRows::new(rows, scroll, MemoryLimit::NONE)))
    }

    fn fetch(cursor: &Arc<Mutex<CursorRows>>, motion: Motion) -> Result<Vec<i32>> {
        let mut walk = Walk::begin(cursor, "c", motion, CancelHandle::default())?;
        let mut found = Vec::new();
        while let Some(batch) = walk.next_batch()? {
            found.extend(batch.into_iter().map(|row| match row[0] {
                Value::Integer(value) => value,
                _ => 0,
            }));
        }
        Ok(found)
    }

    #[test]
    fn a_cursor_moves_as_in_postgresql() {
        use Motion::{Absolute, Backward, Forward, Relative};
        let cursor = cursor(5, Scroll::Always);
        let all = u64::MAX;
        for (motion, expected) in [
            (Relative(0), vec![]),
            (Forward(2), vec![1, 2]),
            (Relative(0), vec![2]),
            (Forward(all), vec![3, 4, 5]),
            (Forward(1), vec![]),
            (Relative(0), vec![]),
            (Relative(1), vec![]),
            (Backward(2), vec![5, 4]),
            (Relative(-2), vec![2]),
            (Relative(2), vec![4]),
            (Absolute(-1), vec![5]),
            (Absolute(1), vec![1]),
            (Backward(1), vec![]),
            (Relative(-1), vec![]),
            (Forward(1), vec![1]),
            (Absolute(9), vec![]),
            (Backward(all), vec![5, 4, 3, 2, 1]),
            (Absolute(-6), vec![]),
            (Forward(1), vec![1]),
            (Absolute(0), vec![]),
            (Absolute(3), vec![3]),
            (Forward(2), vec![4, 5]),
            (Forward(1), vec![]),
            (Absolute(-5), vec![1]),
        ] {
            assert_eq!(fetch(&cursor, motion).unwrap(), expected, "{motion:?}");
        }
    }

    #[test]
    fn a_cursor_without_scroll_only_goes_forward() {
        let cursor = cursor(3, Scroll::Never);
        assert_eq!(fetch(&cursor, Motion::Absolute(2)).unwrap(), [2]);
        for motion in [Motion::Backward(1), Motion::Relative(0), Motion::Absolute(1), Motion::Absolute(-1)] {
            let error = fetch(&cursor, motion).unwrap_err();
            assert_eq!(error.state(), SqlState::ObjectNotInPrerequisiteState, "{motion:?}");
        }
        assert_eq!(fetch(&cursor, Motion::Forward(9)).unwrap(), [3]);
    }

    #[test]
    fn an_interrupt_ends_a_fetch() {
        let cursor = cursor(3, Scroll::Unsaid);
        let cancel = CancelHandle::default();
        let mut walk = Walk::begin(&cursor, "c", Motion::Forward(2), cancel.clone()).unwrap();
        cancel.cancel();
        assert_eq!(walk.next_batch().unwrap_err().state(), SqlState::QueryCanceled);
    }
}
