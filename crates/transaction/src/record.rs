//! What a commit wrote, as other transactions match it against what they have read.

use ankerdb_base::{Result, RowId, TableId};
use ankerdb_table::RowChange;

/// One row written.
pub(crate) struct WriteRecord {
    pub table: TableId,
    pub row: RowId,
    pub change: RowChange,
    /// Where its entries in `CommitRecord::keys` begin and end.
    keys: (u32, u32),
}

struct KeyRecord {
    index: u32,
    bytes: (u32, u32),
}

/// The writes of one commit and the index keys that they added or removed. Published before the commit validates, so
/// it may turn out to have aborted.
///
/// The filters come first: they tell in two or three cache lines that nothing here concerns a reader, which is nearly
/// always so, and the lists need not be fetched from the core that wrote them.
#[derive(Default)]
#[repr(C, align(64))]
pub struct CommitRecord {
    /// Two bits for each row written.
    rows: [u64; FILTER_WORDS],
    /// A bit for each table in whose indexes keys come or go.
    keyed_tables: u64,
    pub(crate) writes: Vec<WriteRecord>,
    keys: Vec<KeyRecord>,
    bytes: Vec<u8>,
}

/// Sixteen bits for each row of a New-Order's write set.
const FILTER_WORDS: usize = 16;

/// The places of a row's two bits.
#[inline]
fn filter_places(table: TableId, row: RowId) -> [(usize, u64); 2] {
    let hash = (row.0 ^ (table.0 as u64) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let place = |bits: u64| ((bits >> 6) as usize % FILTER_WORDS, 1 << (bits % 64));
    [place(hash >> 52), place(hash >> 40)]
}

fn table_bit(table: TableId) -> u64 {
    1 << (table.0 % 64)
}

impl CommitRecord {
    /// Whether the row may be among those written.
    #[inline]
    pub(crate) fn may_have_written(&self, table: TableId, row: RowId) -> bool {
        filter_places(table, row).into_iter().all(|(word, bit)| self.rows[word] & bit != 0)
    }

    /// Whether keys may have come or gone in the table's indexes.
    #[inline]
    pub(crate) fn may_have_keys(&self, table: TableId) -> bool {
        self.keyed_tables & table_bit(table) != 0
    }

    /// Starts the record of one written row; keys that follow belong to it.
    pub(crate) fn add_write(&mut self, table: TableId, row: RowId, change: RowChange) {
        for (word, bit) in filter_places(table, row) {
            self.rows[word] |= bit;
        }
        let keys = self.keys.len() as u32;
        self.writes.push(WriteRecord { table, row, change, keys: (keys, keys) });
    }

    /// Room for the records of so many rows, most of which have one short key.
    pub(crate) fn with_capacity(rows: usize) -> CommitRecord {
        CommitRecord {
            writes: Vec::with_capacity(rows),
            keys: Vec::with_capacity(rows + 1),
            bytes: Vec::with_capacity(rows * 16),
            ..CommitRecord::default()
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
        self.keyed_tables |= table_bit(write.table);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_know_what_was_written_and_little_else() {
        let mut record = CommitRecord::with_capacity(24);
        let table = TableId(3);
        for row in 0..24 {
            record.add_write(table, RowId::new(row, row * 300), RowChange::CameOrWent);
        }
        assert!((0..24).all(|row| record.may_have_written(table, RowId::new(row, row * 300))));
        let strangers = (0..10_000).filter(|row| record.may_have_written(table, RowId::new(100, row % 8192)));
        assert!(strangers.count() < 300, "two bits of sixteen a row tell strangers apart");
        assert!(!record.may_have_keys(table));
        record.add_key(0, |_| Ok(())).unwrap();
        assert!(record.may_have_keys(table) && !record.may_have_keys(TableId(4)));
    }
}
