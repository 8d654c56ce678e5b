//! What the memory of a table goes to.

use crate::block::RowBlock;
use crate::table::Table;
use ankerdb_base::ROWS_PER_BLOCK;
use crossbeam_epoch::Guard;

/// Bytes of a table by what they are for. While commits run, each number is of another moment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MemoryUse {
    /// Rows that exist in their newest state.
    pub rows: usize,
    /// Blocks, full or not.
    pub blocks: usize,
    /// Of arrays, those of texts with what lies within them.
    pub cell_bytes: usize,
    /// Of texts that are longer than that.
    pub text_bytes: usize,
    /// Of rows' headers and the beginnings of their version chains.
    pub header_bytes: usize,
    /// Of older versions.
    pub version_bytes: usize,
    /// Entries of all indexes.
    pub index_entries: usize,
    /// Of those, with the memory around them.
    pub index_bytes: usize,
}

impl MemoryUse {
    /// All bytes.
    pub fn total_bytes(&self) -> usize {
        self.cell_bytes + self.text_bytes + self.header_bytes + self.version_bytes + self.index_bytes
    }
}

impl Table {
    /// What the memory of the table goes to. Looks at each of its blocks, and at all versions.
    pub fn memory_use(&self, pin: &Guard) -> MemoryUse {
        let mut used = MemoryUse { rows: self.row_count(), ..MemoryUse::default() };
        for block in self.blocks() {
            used.add_block(block, self.columns().len(), pin);
        }
        for (_, index) in self.maintained_indexes() {
            used.index_entries += index.entry_count();
            used.index_bytes += index.memory_bytes();
        }
        used
    }
}

impl MemoryUse {
    fn add_block(&mut self, block: &RowBlock, columns: usize, pin: &Guard) {
        for column in 0..columns {
            // SAFETY: inside a pin.
            let array = unsafe { block.columns().current(column) };
            let texts: usize = array.chunks().map(|chunk| chunk.bytes()).sum();
            self.text_bytes += texts;
            self.cell_bytes += array.memory_bytes() - texts;
        }
        self.blocks += 1;
        self.header_bytes += ROWS_PER_BLOCK * RowBlock::BYTES_BESIDE_CELLS;
        self.version_bytes += block.version_bytes(pin);
    }
}
