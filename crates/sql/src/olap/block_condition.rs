//! Blocks of which no row can fulfil a scan's condition, by the bounds that the engine keeps of their columns.
//!
//! Bounds widen before a value is written and never narrow, so that they hold for all that a view may see of a block (`docs/design/skipped-blocks.md`).

use ankerdb_compiler::{BitmapCondition, Datum};
use ankerdb_engine::{ReadView, Table};

/// A condition over columns of a table.
#[derive(Debug)]
pub(super) struct BlockCondition {
    bitmaps: BitmapCondition,
    parameters: Vec<Datum>,
    /// Which column of the table each of the condition's is.
    columns: Vec<usize>,
}

impl BlockCondition {
    pub(super) fn new(
        bitmaps: BitmapCondition,
        parameters: Vec<Datum>,
        columns: Vec<usize>,
    ) -> BlockCondition {
        BlockCondition { bitmaps, parameters, columns }
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
}
