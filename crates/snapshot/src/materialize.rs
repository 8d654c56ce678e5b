//! One block at one timestamp: lent where nothing has changed since, put together from versions where it has.
//!
//! Materializing reads data first and headers second (invariant 2 of `ankerdb_table`'s blocks): copy the `exists`
//! bits and the columns, execute an acquire fence, then look at every dirty row whose header is newer than the
//! snapshot and overlay its old state. If a writer got anything into the copy, its row's header is found to be
//! newer and the cell is replaced.

use crate::image::{ColumnCopy, ColumnImage, all_ones};
use ankerdb_base::{ColumnSet, ROWS_PER_BLOCK, Timestamp, failpoint};
use ankerdb_table::{BITMAP_WORDS, Cell, RowBlock, ones_of};
use crossbeam_epoch::Guard;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Which rows of a block exist: how many slots count, and which of them, if not all.
#[derive(Clone)]
pub(crate) struct ExistingRows {
    /// Slots.
    pub count: usize,
    /// Bits of those that exist; `None` if all do.
    pub selection: Option<Box<[u64]>>,
}

/// Whether a column of a block can be lent to a snapshot: the block is full, so that inserts do not come in, and the
/// column's cells have not changed since. Changes of other columns do not matter.
pub(crate) fn is_lendable(block: &RowBlock, column: usize, at: Timestamp) -> bool {
    block.is_lendable() && block.fill() == ROWS_PER_BLOCK && block.column_change(column) <= at
}

/// Lends lendable arrays. Never waits; `None` if they have changed meanwhile or a writer is at work in the block.
pub(crate) fn lend(
    block: &RowBlock,
    columns: &[usize],
    at: Timestamp,
    pin: &Guard,
) -> Option<Vec<ColumnImage>> {
    let clean = || columns.iter().all(|&column| block.column_change(column) <= at);
    let _inside = pin;
    // SAFETY: inside a pin.
    let arrays = unsafe { block.columns().lend(columns, clean) }?;
    Some(ColumnImage::of_lent(arrays))
}

/// The rows of a block that exist at a timestamp, if no row has come or gone since and no slot is empty: a look at the bits.
fn all_rows(block: &RowBlock, at: Timestamp) -> Option<ExistingRows> {
    let full = block.fill() == ROWS_PER_BLOCK && block.exists().is_full();
    fence(Ordering::Acquire);
    (full && block.rows_change() <= at).then_some(ExistingRows { count: ROWS_PER_BLOCK, selection: None })
}

/// Copies columns, and finds which rows exist unless that is known, as of the snapshot. Costs the copies and, if any
/// of it has changed since, one look at each dirty row's header and a walk through the versions of changed rows.
pub(crate) fn copy_block(
    block: &RowBlock,
    known: Option<&ExistingRows>,
    columns: &[usize],
    at: Timestamp,
    pin: &Guard,
) -> (ExistingRows, Vec<ColumnImage>) {
    let known = known.cloned().or_else(|| all_rows(block, at));
    let count = known.as_ref().map_or_else(|| block.fill(), |rows| rows.count);
    let mut bits = known.is_none().then(|| {
        let mut bits = block.exists().copy();
        // Slots given out since then hold rows that are newer than the snapshot.
        clear_from(&mut bits, count);
        bits
    });
    // SAFETY: inside a pin; the copies are corrected below.
    let copy = |&column: &usize| ColumnCopy::of(unsafe { block.columns().current(column) }, count);
    let mut copies: Vec<ColumnCopy> = columns.iter().map(copy).collect();
    failpoint::step("columns copied");
    fence(Ordering::Acquire);
    let cells_changed = columns.iter().any(|&column| block.column_change(column) > at);
    if cells_changed || (bits.is_some() && block.rows_change() > at) {
        let mut walk = Walk::new(block, columns, at, pin);
        let rows = changed_rows(block, at, pin).take_while(|row| *row < count);
        walk.correct_all(rows, &mut copies, |row, existed| {
            if let Some(bits) = &mut bits {
                put(bits, row, existed);
            }
        });
    }
    let images = copies.into_iter().map(|copy| copy.finish(Vec::new())).collect();
    let rows = known.unwrap_or_else(|| rows_of(bits.expect("copied where rows are not known"), count));
    (rows, images)
}

/// Rows whose headers, or versions, are fetched side by side. A power of two.
const ROWS_AHEAD: usize = 16;

/// Corrects rows of a copy, with one walk through a row's versions for all columns.
///
/// Only cells that some version holds are replaced. A commit pushes its version before it writes a cell, and the copy was
/// made before the walk; so a cell that no version newer than the snapshot holds was not being written, and the copy
/// has it as it was.
pub(crate) struct Walk<'a> {
    block: &'a RowBlock,
    columns: &'a [usize],
    at: Timestamp,
    pin: &'a Guard,
    /// The oldest cell met on the way, by position in `columns`.
    found: Vec<Option<Cell<'a>>>,
}

impl<'a> Walk<'a> {
    /// For copies of these columns, made before an acquire fence.
    pub(crate) fn new(block: &'a RowBlock, columns: &'a [usize], at: Timestamp, pin: &'a Guard) -> Walk<'a> {
        Walk { block, columns, at, pin, found: vec![None; columns.len()] }
    }

    /// Corrects rows whose headers are newer than the snapshot; says of each whether it existed.
    pub(crate) fn correct_all(
        &mut self,
        rows: impl Iterator<Item = usize>,
        copies: &mut [ColumnCopy],
        mut existed: impl FnMut(usize, bool),
    ) {
        self.visit(rows, |row, row_existed, found| {
            existed(row, row_existed);
            for (copy, found) in copies.iter_mut().zip(found) {
                let buffers = copy.buffers();
                match found {
                    Some(cell) if row_existed => copy.set(row, *cell, buffers),
                    // The row is not there; leave no half-written view behind.
                    _ if !row_existed => copy.set(row, Cell::Null, buffers),
                    _ => {}
                }
            }
        });
    }

    /// Finds what rows were whose headers are newer than the snapshot: whether each existed, and the cells that have
    /// changed since.
    pub(crate) fn visit(
        &mut self,
        rows: impl Iterator<Item = usize>,
        mut visit: impl FnMut(usize, bool, &[Option<Cell<'a>>]),
    ) {
        let block = self.block;
        for row in ask_ahead(rows, |row| block.chain(row).prefetch()) {
            let existed = self.find(row);
            visit(row, existed, &self.found);
        }
    }

    /// Looks for the cells of a row as they were; returns whether the row existed.
    fn find(&mut self, row: usize) -> bool {
        self.found.fill(None);
        for version in self.block.chain(row).iter(self.pin) {
            for (found, &column) in self.found.iter_mut().zip(self.columns) {
                if let Some(cell) = version.cell(column) {
                    *found = Some(cell);
                }
            }
            if version.begin() <= self.at {
                return version.exists();
            }
        }
        false
    }
}

/// Sets or clears a bit.
pub(crate) fn put(bits: &mut [u64], row: usize, on: bool) {
    let bit = 1u64 << (row % 64);
    match on {
        true => bits[row / 64] |= bit,
        false => bits[row / 64] &= !bit,
    }
}

/// Clears the bits from `start` on.
pub(crate) fn clear_from(bits: &mut [u64], start: usize) {
    if let Some(word) = bits.get_mut(start / 64) {
        *word &= (1 << (start % 64)) - 1;
        bits[start / 64 + 1..].fill(0);
    }
}

/// Rows from bits. Slots behind the last row that exists do not count: new rows come in there.
pub(crate) fn rows_of(bits: Box<[u64]>, fill: usize) -> ExistingRows {
    let last = bits.iter().rposition(|word| *word != 0);
    let count = last.map_or(0, |word| word * 64 + 64 - bits[word].leading_zeros() as usize);
    assert!(count <= fill, "a row exists in a slot that was not handed out");
    let selection = (!all_ones(&bits, count)).then_some(bits);
    ExistingRows { count, selection }
}

/// Dirty rows whose newest state is newer than the snapshot.
pub(crate) fn changed_rows<'a>(
    block: &'a RowBlock,
    at: Timestamp,
    pin: &'a Guard,
) -> impl Iterator<Item = usize> + 'a {
    let dirty: [u64; BITMAP_WORDS] = std::array::from_fn(|index| block.dirty().word(index));
    let rows =
        (0..BITMAP_WORDS).flat_map(move |index| ones_of(dirty[index]).map(move |bit| index * 64 + bit));
    ask_ahead(rows, |row| block.prefetch(row, ColumnSet::EMPTY, pin))
        .filter(move |&row| block.header(row).timestamp() > at)
}

/// The rows, each of them asked for some rows before it comes: what is looked at lies anywhere in memory, and the processor
/// fetches many places side by side if it is told of them early.
fn ask_ahead(mut rows: impl Iterator<Item = usize>, ask: impl Fn(usize)) -> impl Iterator<Item = usize> {
    let mut ahead = [0; ROWS_AHEAD];
    let (mut asked, mut gone) = (0, 0);
    std::iter::from_fn(move || {
        while asked - gone < ROWS_AHEAD
            && let Some(row) = rows.next()
        {
            ask(row);
            ahead[asked % ROWS_AHEAD] = row;
            asked += 1;
        }
        let row = (gone < asked).then(|| ahead[gone % ROWS_AHEAD])?;
        gone += 1;
        Some(row)
    })
}

/// Copies that show the newest state of a block's columns, kept with a block that is not full, so that snapshots of a
/// quiet table do not copy its last rows again and again.
#[derive(Default)]
struct Derived {
    rows: Option<(Timestamp, ExistingRows)>,
    columns: Vec<(usize, Timestamp, ColumnImage)>,
}

/// What earlier snapshots have left of a block that is not full: which rows exist, and copies of columns, where
/// nothing has changed since they were made. One entry per column asked for.
pub(crate) fn kept_copies(
    block: &RowBlock,
    columns: &[usize],
    at: Timestamp,
) -> (Option<ExistingRows>, Vec<Option<ColumnImage>>) {
    let slot = block.derived().lock();
    let Some(derived) = slot.as_ref().and_then(|derived| derived.downcast_ref::<Derived>()) else {
        return (None, vec![None; columns.len()]);
    };
    let rows_change = block.rows_change();
    let rows = derived.rows.as_ref().filter(|(change, _)| *change == rows_change && rows_change <= at);
    let Some((_, rows)) = rows else { return (None, vec![None; columns.len()]) };
    let find = |&column: &usize| {
        let change = block.column_change(column);
        let good =
            |kept: &&(usize, Timestamp, ColumnImage)| kept.0 == column && kept.1 == change && change <= at;
        derived.columns.iter().find(good).map(|(.., image)| image.clone())
    };
    (Some(rows.clone()), columns.iter().map(find).collect())
}

/// Leaves copies made by `copy_block` for later snapshots, if nothing has changed since the snapshot: then they show
/// every commit up to the last change and none after it.
pub(crate) fn keep_copies(
    block: &RowBlock,
    rows: &ExistingRows,
    columns: &[(usize, ColumnImage)],
    at: Timestamp,
) {
    let rows_change = block.rows_change();
    if rows_change > at || block.fill() == ROWS_PER_BLOCK {
        return;
    }
    let mut slot = block.derived().lock();
    let kept = slot.as_ref().and_then(|derived| derived.downcast_ref::<Derived>());
    let others = kept.filter(|kept| kept.rows.as_ref().is_some_and(|(change, _)| *change == rows_change));
    let others = others.map_or(&[][..], |kept| &kept.columns).iter();
    let others = others.filter(|(column, ..)| columns.iter().all(|(made, _)| made != column)).cloned();
    let made = columns.iter().filter_map(|(column, image)| {
        let change = block.column_change(*column);
        (change <= at).then(|| (*column, change, image.clone()))
    });
    let columns = others.chain(made).collect();
    *slot = Some(Arc::new(Derived { rows: Some((rows_change, rows.clone())), columns }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn every_row_is_asked_for_once_and_before_it_comes() {
        for count in [0, 1, ROWS_AHEAD - 1, ROWS_AHEAD, ROWS_AHEAD + 1, 10 * ROWS_AHEAD] {
            let asked = RefCell::new(Vec::new());
            let mut came = Vec::new();
            for row in ask_ahead(7..7 + count, |row| asked.borrow_mut().push(row)) {
                came.push(row);
                assert!(asked.borrow().len() == count.min(came.len() - 1 + ROWS_AHEAD));
            }
            assert!(came.iter().copied().eq(7..7 + count));
            assert_eq!(asked.into_inner(), came);
        }
    }

    #[test]
    fn bits_are_cleared_from_a_row_on() {
        for start in [0, 1, 63, 64, 65, 127, 128] {
            let mut bits = [u64::MAX; 2];
            clear_from(&mut bits, start);
            assert_eq!(bits.iter().map(|word| word.count_ones()).sum::<u32>() as usize, start);
            assert!(all_ones(&bits, start));
        }
    }

    #[test]
    fn slots_behind_the_last_row_do_not_count() {
        let rows = rows_of(Box::new([0b1011, 0]), 100);
        assert_eq!((rows.count, rows.selection.is_some()), (4, true));
        let rows = rows_of(Box::new([0b111, 0]), 100);
        assert_eq!((rows.count, rows.selection.is_none()), (3, true));
        assert_eq!(rows_of(Box::new([0, 0]), 100).count, 0);
    }
}
