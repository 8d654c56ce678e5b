//! What a transaction has loaded so far: blocks that only it can reach.

use ankerdb_base::{Error, Result};
use ankerdb_table::FreshBlock;

/// Rows that were loaded and are not committed yet.
pub(crate) struct Load {
    /// The table's number.
    pub table: usize,
    /// Rows are added to the last one only.
    pub blocks: Vec<FreshBlock>,
    /// Rows and bytes of all but the last one.
    rows_before: usize,
    bytes_before: usize,
}

impl Load {
    /// Nothing yet, of the table with this number.
    pub(crate) fn of(table: usize) -> Load {
        Load { table, blocks: Vec::new(), rows_before: 0, bytes_before: 0 }
    }

    /// Adds a block behind the others, to which no rows are added any more. 53200 if there is no memory.
    pub(crate) fn add(&mut self, block: FreshBlock) -> Result<()> {
        let reserved = self.blocks.try_reserve(1);
        reserved.map_err(|_| Error::out_of_memory(size_of::<FreshBlock>()))?;
        self.rows_before += self.blocks.last().map_or(0, FreshBlock::rows);
        self.bytes_before += self.blocks.last().map_or(0, FreshBlock::memory_bytes);
        self.blocks.push(block);
        Ok(())
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.rows_before + self.blocks.last().map_or(0, FreshBlock::rows)
    }

    /// Bytes of the blocks to which nothing is added any more.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes_before
    }
}
