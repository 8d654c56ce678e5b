//! A block as a transaction of a single execution engine reads it: no loans, no copies kept for others.
//!
//! [`scan_versions`] is the scan of AnKer's SEE_FS and SEE_SI (§6.1). For every 1,024 rows it knows the first and the
//! last row that may have a version. Outside of them it goes in a tight loop (a copy of the cells as they lie);
//! between them it checks the header of every row, and walks the chain of each row that has changed since.
//!
//! ```text
//! 1,024 rows   |.............v....v..v...............|      v may have a version (its dirty bit is set)
//!               tight loop    row by row   tight loop
//! ```
//!
//! First and last come from the block's dirty bits, 16 words for every 1,024 rows, when the scan gets there. A
//! row with a version is dirty, and a row that is dirty without one (a new row, say) must be checked anyway, so nothing
//! is missed; and writers keep no positions up to date. As in `materialize`, data is read first and dirty bits and
//! headers behind a fence, so a row that is written during the copy is found to be newer and corrected.
//!
//! [`scan_newest`] is the scan of SEE_RU: the cells as they lie. Only where a cell consists of several words (views, wide
//! numerics, cells with a validity bit) rows that changed since the query began are read again, because half of a
//! view is no string.

use crate::image::{ColumnCopy, ColumnImage};
use crate::materialize::{ExistingRows, Walk, changed_rows, clear_from, put, rows_of};
use crate::strategy::TightLoops;
use ankerdb_base::{ColumnPosition, Timestamp};
use ankerdb_table::{BITMAP_WORDS, Cell, CellLayout, ReadAt, RowBlock};
use crossbeam_epoch::Guard;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

/// Rows for which the first and last versioned row are known together.
const ROWS_PER_RANGE: usize = 1024;
const WORDS_PER_RANGE: usize = ROWS_PER_RANGE / 64;

/// The columns of a block as of `at`, by headers and version chains.
pub(crate) fn scan_versions(
    block: &RowBlock,
    columns: &[usize],
    at: Timestamp,
    tight: TightLoops,
    pin: &Guard,
) -> (ExistingRows, Vec<ColumnImage>) {
    let count = block.fill();
    let (mut bits, mut copies) = cells_as_they_lie(block, columns, count, pin);
    fence(Ordering::Acquire);
    let mut walk = Walk::new(block, columns, at, pin);
    for range in 0..count.div_ceil(ROWS_PER_RANGE) {
        let rows = match tight {
            TightLoops::OutsideVersioned => versioned_rows(block, range),
            TightLoops::Nowhere => range * ROWS_PER_RANGE..(range + 1) * ROWS_PER_RANGE,
        };
        let changed = (rows.start..rows.end.min(count)).filter(|&row| block.header(row).timestamp() > at);
        walk.correct_all(changed, &mut copies, |row, existed| put(&mut bits, row, existed));
    }
    (rows_of(bits, count), finish(copies))
}

/// The columns of a block as they are while the scan passes. `began` is when the query began.
pub(crate) fn scan_newest(
    block: &RowBlock,
    columns: &[usize],
    began: Timestamp,
    pin: &Guard,
) -> (ExistingRows, Vec<ColumnImage>) {
    let count = block.fill();
    let (mut bits, mut copies) = cells_as_they_lie(block, columns, count, pin);
    fence(Ordering::Acquire);
    let mut compound: Vec<_> = copies.iter_mut().zip(columns).filter(|(copy, _)| is_compound(copy)).collect();
    if !compound.is_empty() {
        for row in changed_rows(block, began, pin).take_while(|row| *row < count) {
            for (copy, column) in &mut compound {
                let buffers = copy.buffers();
                let read = |cell: Cell<'_>| copy.set(row, cell, buffers);
                if block.read(row, ColumnPosition(**column), ReadAt::Newest, pin, read).is_none() {
                    // The row has gone; leave no half-written view behind.
                    copy.set(row, Cell::Null, buffers);
                    put(&mut bits, row, false);
                }
            }
        }
    }
    (rows_of(bits, count), finish(copies))
}

/// Which rows exist, and copies of the columns: the tight loop.
fn cells_as_they_lie(
    block: &RowBlock,
    columns: &[usize],
    count: usize,
    pin: &Guard,
) -> (Box<[u64]>, Vec<ColumnCopy>) {
    let mut bits = block.exists().copy();
    // Slots given out since then hold rows that this scan does not know.
    clear_from(&mut bits, count);
    let _inside = pin;
    // SAFETY: inside a pin; the callers correct what was written meanwhile.
    let copy = |&column: &usize| ColumnCopy::of(unsafe { block.columns().current(column) }, count);
    (bits, columns.iter().map(copy).collect())
}

fn finish(copies: Vec<ColumnCopy>) -> Vec<ColumnImage> {
    copies.into_iter().map(|copy| copy.finish(Vec::new())).collect()
}

/// Whether one store writes only a part of a cell.
fn is_compound(copy: &ColumnCopy) -> bool {
    matches!(copy.layout(), CellLayout::View | CellLayout::Wide) || copy.is_nullable()
}

/// From the first to the last row of a range that may have a version.
fn versioned_rows(block: &RowBlock, range: usize) -> Range<usize> {
    let words = range * WORDS_PER_RANGE..((range + 1) * WORDS_PER_RANGE).min(BITMAP_WORDS);
    let mut found = 0..0;
    for index in words {
        let word = block.dirty().word(index);
        if word != 0 {
            if found.is_empty() {
                found.start = index * 64 + word.trailing_zeros() as usize;
            }
            found.end = index * 64 + 64 - word.leading_zeros() as usize;
        }
    }
    found
}
