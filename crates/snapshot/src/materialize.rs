//! One block at one timestamp: lent where nothing has changed since, put together from versions where it has.
//!
//! Materializing reads data first and headers second (invariant 2 of `ankerdb_table`'s blocks): copy the `exists`
//! bits and the columns, execute an acquire fence, then look at every dirty row whose header is newer than the
//! snapshot and overlay its old state. Whatever a writer managed to put into the copy, its row's header is found
//! to be newer and the cell is replaced.

use crate::image::{ColumnCopy, ColumnImage, all_ones};
use ankerdb_base::{ROWS_PER_BLOCK, Timestamp};
use ankerdb_table::{BITMAP_WORDS, Cell, ReadAt, RowBlock, ones_of};
use crossbeam_epoch::Guard;
use std::sync::atomic::{Ordering, fence};

/// Which rows of a block exist: how many slots count, and which of them, if not all.
#[derive(Clone)]
pub struct Rows {
    /// Slots.
    pub count: usize,
    /// Bits of those that exist; `None` if all do.
    pub selection: Option<Box<[u64]>>,
}

/// Lends the arrays of a block that is full and has not changed since the snapshot. Never waits; `None` if the
/// block does not qualify or a writer is at work in it.
pub fn lend(
    block: &RowBlock,
    columns: &[usize],
    at: Timestamp,
    pin: &Guard,
) -> Option<(Rows, Vec<ColumnImage>)> {
    if block.fill() < ROWS_PER_BLOCK || block.last_change() > at {
        return None;
    }
    let mut exists = None;
    let clean = || {
        let bits = (block.exists().ones() < ROWS_PER_BLOCK).then(|| block.exists().copy());
        // A writer that came after us raises `last_change` before it touches the bits.
        fence(Ordering::Acquire);
        exists = bits;
        block.last_change() <= at
    };
    let _inside = pin;
    // SAFETY: inside a pin.
    let arrays = unsafe { block.columns().lend(columns, clean) }?;
    let selection = exists.filter(|bits| !all_ones(bits, ROWS_PER_BLOCK));
    let rows = Rows { count: ROWS_PER_BLOCK, selection };
    Some((rows, arrays.into_iter().map(ColumnImage::of_lent).collect()))
}

/// The rows of a block that exist at a timestamp. Copies 1 KiB and visits the dirty rows.
pub fn rows_at(block: &RowBlock, at: Timestamp, pin: &Guard) -> Rows {
    let count = block.fill();
    let mut bits = block.exists().copy();
    fence(Ordering::Acquire);
    for row in changed_rows(block, at) {
        let bit = 1u64 << (row % 64);
        if block.exists_at(row, ReadAt::Snapshot(at), pin) {
            bits[row / 64] |= bit;
        } else {
            bits[row / 64] &= !bit;
        }
    }
    let selection = (!all_ones(&bits, count)).then_some(bits);
    Rows { count, selection }
}

/// Copies a column and puts the old cells of changed rows in place. Costs the copy and a walk through the versions
/// of each changed row.
pub fn copy_column(block: &RowBlock, column: usize, rows: usize, at: Timestamp, pin: &Guard) -> ColumnImage {
    // SAFETY: inside a pin; the copy is corrected below.
    let mut copy = ColumnCopy::of(unsafe { block.columns().current(column) }, rows);
    fence(Ordering::Acquire);
    let buffers = copy.buffers();
    for row in changed_rows(block, at) {
        if row >= rows {
            break;
        }
        let found = block.read(row, column, ReadAt::Snapshot(at), pin, |cell| copy.set(row, cell, buffers));
        if found.is_none() {
            // The row does not exist here; leave no half-written view behind.
            copy.set(row, Cell::Null, buffers);
        }
    }
    copy.finish(Vec::new())
}

/// Dirty rows whose newest state is newer than the snapshot.
fn changed_rows(block: &RowBlock, at: Timestamp) -> impl Iterator<Item = usize> {
    let dirty: [u64; BITMAP_WORDS] = std::array::from_fn(|index| block.dirty().word(index));
    (0..BITMAP_WORDS)
        .flat_map(move |index| ones_of(dirty[index]).map(move |bit| index * 64 + bit))
        .filter(move |&row| block.header(row).timestamp() > at)
}
