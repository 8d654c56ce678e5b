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

/// Whether a column of a block can be lent to a snapshot: the block is full, so that inserts do not come in, and the
/// column's cells have not changed since. Changes of other columns do not matter.
pub fn is_lendable(block: &RowBlock, column: usize, at: Timestamp) -> bool {
    block.fill() == ROWS_PER_BLOCK && block.column_change(column) <= at
}

/// Lends lendable arrays. Never waits; `None` if they have changed meanwhile or a writer is at work in the block.
pub fn lend(block: &RowBlock, columns: &[usize], at: Timestamp, pin: &Guard) -> Option<Vec<ColumnImage>> {
    let clean = || columns.iter().all(|&column| block.column_change(column) <= at);
    let _inside = pin;
    // SAFETY: inside a pin.
    let arrays = unsafe { block.columns().lend(columns, clean) }?;
    Some(ColumnImage::of_lent(arrays))
}

/// The rows of a block that exist at a timestamp. Copies 1 KiB and visits the dirty rows, unless no row has come or
/// gone since.
pub fn rows_at(block: &RowBlock, at: Timestamp, pin: &Guard) -> Rows {
    let count = block.fill();
    if count == ROWS_PER_BLOCK && block.exists().ones() == ROWS_PER_BLOCK {
        fence(Ordering::Acquire);
        if block.rows_change() <= at {
            return Rows { count, selection: None };
        }
    }
    let mut bits = block.exists().copy();
    fence(Ordering::Acquire);
    if block.rows_change() > at {
        for row in changed_rows(block, at) {
            let bit = 1u64 << (row % 64);
            if block.exists_at(row, ReadAt::Snapshot(at), pin) {
                bits[row / 64] |= bit;
            } else {
                bits[row / 64] &= !bit;
            }
        }
    }
    let selection = (!all_ones(&bits, count)).then_some(bits);
    Rows { count, selection }
}

/// Copies of columns that show their newest state, kept with a block that is not full, so that snapshots of a quiet
/// table do not copy its last rows again and again.
#[derive(Default)]
struct Derived(Vec<(usize, Timestamp, usize, ColumnImage)>);

/// The first `rows` cells of a column as of the snapshot, from an earlier copy if that is still good.
/// Returns whether the column was copied now.
pub fn read_column(
    block: &RowBlock,
    column: usize,
    rows: usize,
    at: Timestamp,
    pin: &Guard,
) -> (ColumnImage, bool) {
    let change = block.column_change(column);
    if rows == ROWS_PER_BLOCK || change > at {
        return (copy_column(block, column, rows, at, pin), true);
    }
    let mut slot = block.derived().lock();
    let kept = slot.as_ref().and_then(|derived| derived.downcast_ref::<Derived>());
    let entries = kept.map_or(&[][..], |derived| &derived.0);
    let good = |entry: &&(usize, Timestamp, usize, ColumnImage)| {
        (entry.0, entry.1, entry.2) == (column, change, rows)
    };
    if let Some((.., image)) = entries.iter().find(good) {
        return (image.clone(), false);
    }
    let image = copy_column(block, column, rows, at, pin);
    // Unchanged until now, so the copy shows every commit up to `change` and none after it.
    if block.column_change(column) == change {
        let others = entries.iter().filter(|entry| entry.0 != column).cloned();
        let entries = others.chain([(column, change, rows, image.clone())]).collect();
        *slot = Some(std::sync::Arc::new(Derived(entries)));
    }
    (image, true)
}

/// Copies a column and puts the old cells of changed rows in place. Costs the copy and a walk through the versions
/// of each changed row.
fn copy_column(block: &RowBlock, column: usize, rows: usize, at: Timestamp, pin: &Guard) -> ColumnImage {
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
