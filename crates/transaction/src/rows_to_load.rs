//! What a transaction has loaded so far: blocks that only it can reach.

use ankerdb_base::ROWS_PER_BLOCK;
use ankerdb_table::FreshBlock;

/// Rows that were loaded and are not committed yet.
pub(crate) struct Load {
    /// The table's number.
    pub table: usize,
    /// All but the last one are full.
    pub blocks: Vec<FreshBlock>,
    pub full_bytes: usize,
}

impl Load {
    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.blocks.last().map_or(0, |last| (self.blocks.len() - 1) * ROWS_PER_BLOCK + last.rows())
    }

    /// Bytes of the blocks that are full.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.full_bytes
    }
}
