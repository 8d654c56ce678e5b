//! What a scan does for a condition above it.
//!
//! It leaves out blocks of which no row can fulfil it, by the bounds that the engine keeps of their columns. These widen before a value is
//! written and never narrow, so that they hold for all that a view may see of a block (`docs/design/skipped-blocks.md`). Of the others it gives
//! compressed copies of the columns that are compared, where there are some (`docs/design/compressed-copies.md`).

use super::batch_copies::CompressedColumns;
use ankerdb_compiler::{BitmapCondition, Datum};
use ankerdb_engine::{BlockImage, ReadView, Table};

/// A condition over columns of a table.
#[derive(Debug)]
pub(super) struct BlockCondition {
    bitmaps: BitmapCondition,
    parameters: Vec<Datum>,
    /// Which column of the table each of the condition's is.
    columns: Vec<usize>,
    /// Columns of the condition of which a compressed copy is of use.
    in_codes: Vec<usize>,
}

impl BlockCondition {
    pub(super) fn new(
        bitmaps: BitmapCondition,
        parameters: Vec<Datum>,
        columns: Vec<usize>,
    ) -> BlockCondition {
        let in_codes = bitmaps.comparable_by_codes();
        BlockCondition { bitmaps, parameters, columns, in_codes }
    }

    /// Whether a part of the table may have a row for which it is true.
    pub(super) fn may_hold(&self, view: &ReadView, table: &Table, part: usize) -> bool {
        let stored = table.columns().len();
        self.bitmaps.may_hold(&self.parameters, &|column| match self.columns[column] {
            column if column < stored => view.bounds(table, part, column),
            // The rows' identity.
            _ => None,
        })
    }

    /// Compressed copies of the condition's columns in a part, which has been read as that image of those columns of the table.
    pub(super) fn compressed(
        &self,
        view: &ReadView,
        table: &Table,
        part: usize,
        (image, read): (&BlockImage, &[usize]),
    ) -> CompressedColumns {
        let mut copies = CompressedColumns::new();
        // Copies have all places of a block, also those without a row.
        if image.selection.is_some() {
            return copies;
        }
        for &column in &self.in_codes {
            let stored = self.columns[column];
            let place = read.iter().position(|&of| of == stored);
            let copy = place.and_then(|place| view.compressed(table, part, stored, &image.columns[place]));
            if copy.is_some() {
                copies.resize(self.columns.len(), None);
                copies[column] = copy;
            }
        }
        copies
    }
}
