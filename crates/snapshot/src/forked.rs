//! Reading in a copy of the process that was made while commits were held: the arrays as they are.
//!
//! In such a copy there is one thread, no writer and nothing newer than the snapshot, so nothing is lent, copied,
//! corrected or pinned. Mutexes that other threads of the original held stay locked for ever in it, and the
//! collector of retired memory may be in the middle of a step. So this takes no lock, no pin, and no reference to
//! what the original counts; nothing is freed before the copy ends.

use crate::image::{BlockImage, Bytes, ColumnImage};
use crate::materialize::{clear_from, rows_of};
use ankerdb_base::ROWS_PER_BLOCK;
use ankerdb_table::{Area, RowBlock};
use std::any::Any;
use std::sync::Arc;

/// The columns of a block as they lie. Costs a copy of the bits that say which rows exist, if not all do.
pub(crate) fn read_in_copy(block: &RowBlock, columns: &[usize]) -> BlockImage {
    let fill = block.fill();
    let rows = match fill == ROWS_PER_BLOCK && block.exists().is_full() {
        true => crate::materialize::ExistingRows { count: fill, selection: None },
        false => {
            let mut bits = block.exists().copy();
            clear_from(&mut bits, fill);
            rows_of(bits, fill)
        }
    };
    // What the memory belongs to lives as long as the process does.
    let owner: Arc<dyn Any + Send + Sync> = Arc::new(());
    let bytes = |area: &Area| Bytes { pointer: area.pointer(), length: area.bytes(), owner: owner.clone() };
    let image = |&column: &usize| {
        // SAFETY: no arrays are retired here: there are no writers.
        let array = unsafe { block.columns().current(column) };
        let heaps = array.chunks().map(|chunk| Bytes {
            pointer: chunk.pointer(),
            length: chunk.bytes(),
            owner: owner.clone(),
        });
        ColumnImage {
            values: bytes(array.values()),
            validity: array.validity().map(bytes),
            heaps: heaps.collect(),
            lent: true,
        }
    };
    BlockImage { rows: rows.count, selection: rows.selection, columns: columns.iter().map(image).collect() }
}
