//! What a commit wrote, as other transactions match it against what they have read.

use ankerdb_base::{ColumnSet, Result, RowId, TableId};

/// One row written.
pub(crate) struct WriteRecord {
    pub table: TableId,
    pub row: RowId,
    /// Columns changed; ALL if the row came or went.
    pub columns: ColumnSet,
    /// Where its entries in `CommitRecord::keys` begin and end.
    keys: (u32, u32),
}

struct KeyRecord {
    index: u32,
    bytes: (u32, u32),
}

/// The writes of one commit and the index keys that they added or removed. Published before the commit validates, so
/// it may turn out to have aborted.
#[derive(Default)]
pub struct CommitRecord {
    pub(crate) writes: Vec<WriteRecord>,
    keys: Vec<KeyRecord>,
    bytes: Vec<u8>,
}

impl CommitRecord {
    /// Starts the record of one written row; keys that follow belong to it.
    pub(crate) fn add_write(&mut self, table: TableId, row: RowId, columns: ColumnSet) {
        let keys = self.keys.len() as u32;
        self.writes.push(WriteRecord { table, row, columns, keys: (keys, keys) });
    }

    /// Room for the records of so many rows, most of which have one short key.
    pub(crate) fn with_capacity(rows: usize) -> CommitRecord {
        CommitRecord {
            writes: Vec::with_capacity(rows),
            keys: Vec::with_capacity(rows + 1),
            bytes: Vec::with_capacity(rows * 16),
        }
    }

    /// Adds a key that the row at hand gets or loses in an index, as `push` appends it; returns what `push` returns,
    /// and the number of the key.
    pub(crate) fn add_key<T>(
        &mut self,
        index: usize,
        push: impl FnOnce(&mut Vec<u8>) -> Result<T>,
    ) -> Result<(T, usize)> {
        let start = self.bytes.len() as u32;
        let pushed = push(&mut self.bytes)?;
        self.keys.push(KeyRecord { index: index as u32, bytes: (start, self.bytes.len() as u32) });
        let write = self.writes.last_mut().expect("a key belongs to a written row");
        write.keys.1 = self.keys.len() as u32;
        Ok((pushed, self.keys.len() - 1))
    }

    /// A key by its number, and the position of its index.
    pub(crate) fn key(&self, number: usize) -> (usize, &[u8]) {
        let key = &self.keys[number];
        (key.index as usize, &self.bytes[key.bytes.0 as usize..key.bytes.1 as usize])
    }

    /// The keys that a row got or lost, with the positions of their indexes.
    pub(crate) fn keys(&self, write: &WriteRecord) -> impl Iterator<Item = (usize, &[u8])> {
        (write.keys.0 as usize..write.keys.1 as usize).map(|number| self.key(number))
    }
}
