//! What a commit wrote, as other transactions match it against what they have read.

use ankerdb_base::{Error, IndexPosition, Result, RowId, SqlState, TableId, failpoint};
use ankerdb_memory::release;
use ankerdb_table::RowChange;

/// One row written.
pub(crate) struct WriteRecord {
    pub table: TableId,
    pub row: RowId,
    pub change: RowChange,
    /// How many of `CommitRecord::keys` are its own: two for each index of its table at most.
    key_count: u32,
    /// Where they begin.
    first_key: usize,
}

/// A key's bytes, by where they begin and how many they are. One key is short; all keys together may pass 4 GiB.
struct KeyRecord {
    start: usize,
    length: u32,
    index: u32,
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
    /// A bit for each table in whose indexes keys are added or removed.
    keyed_tables: u64,
    pub(crate) writes: Vec<WriteRecord>,
    keys: Vec<KeyRecord>,
    bytes: Vec<u8>,
    /// Tables of which the definition ends: whatever was read of them.
    ended_tables: Vec<TableId>,
    /// A table that has got more rows than are listed here, all of them new ones.
    loaded: Option<TableId>,
}

impl Drop for CommitRecord {
    fn drop(&mut self) {
        release(std::mem::take(&mut self.writes));
        release(std::mem::take(&mut self.keys));
        release(std::mem::take(&mut self.bytes));
    }
}

/// Most keys are not longer.
const KEY_BYTES_USUAL: usize = 16;
/// Room that is made for the next key, so that what is appended rarely needs more.
const KEY_BYTES_MANY: usize = 128;
/// Sixteen bits for each row of a New-Order's write set.
const FILTER_WORDS: usize = 16;

/// The places of a row's two bits.
#[inline]
fn filter_places(table: TableId, row: RowId) -> [(usize, u64); 2] {
    let hash = (row.0 ^ u64::from(table.number()) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let place = |bits: u64| ((bits >> 6) as usize % FILTER_WORDS, 1 << (bits % 64));
    [place(hash >> 52), place(hash >> 40)]
}

fn table_bit(table: TableId) -> u64 {
    1 << (table.number() % 64)
}

impl CommitRecord {
    /// Whether the row may be among those written.
    #[inline]
    pub(crate) fn may_have_written(&self, table: TableId, row: RowId) -> bool {
        filter_places(table, row).into_iter().all(|(word, bit)| self.rows[word] & bit != 0)
    }

    /// Ends the definitions of tables. The filters let it pass for nobody from then on.
    pub(crate) fn end_tables(&mut self, tables: &[TableId]) -> Result<()> {
        let reserved = self.ended_tables.try_reserve_exact(tables.len());
        reserved.map_err(|_| Error::out_of_memory(size_of_val(tables)))?;
        self.ended_tables.extend_from_slice(tables);
        if !tables.is_empty() {
            (self.rows, self.keyed_tables) = ([u64::MAX; FILTER_WORDS], u64::MAX);
        }
        Ok(())
    }

    /// The tables whose definitions end.
    pub(crate) fn ended_tables(&self) -> &[TableId] {
        &self.ended_tables
    }

    /// Notes that rows were loaded into the table. They are not listed: a reader that has looked for keys of it, or
    /// at all of it, has read something that they concern, as far as is known.
    pub(crate) fn add_loaded(&mut self, table: TableId) {
        self.loaded = Some(table);
        self.keyed_tables |= table_bit(table);
    }

    /// The table into which rows were loaded.
    pub(crate) fn loaded_table(&self) -> Option<TableId> {
        self.loaded
    }

    /// Whether keys may have been added or removed in the table's indexes.
    #[inline]
    pub(crate) fn may_have_keys(&self, table: TableId) -> bool {
        self.keyed_tables & table_bit(table) != 0
    }

    /// Bytes of its lists.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.writes.capacity() * size_of::<WriteRecord>()
            + self.keys.capacity() * size_of::<KeyRecord>()
            + self.bytes.capacity()
            + self.ended_tables.capacity() * size_of::<TableId>()
    }

    /// Starts the record of one written row; keys that follow belong to it.
    pub(crate) fn add_write(&mut self, table: TableId, row: RowId, change: RowChange) {
        for (word, bit) in filter_places(table, row) {
            self.rows[word] |= bit;
        }
        let first_key = self.keys.len();
        self.writes.push(WriteRecord { table, row, change, key_count: 0, first_key });
    }

    /// Makes room for the records of so many rows, most of which have one short key. 53200 if there is no memory for it.
    pub(crate) fn reserve(&mut self, rows: usize) -> Result<()> {
        failpoint::reach("record of a commit")?;
        let key_bytes = rows * KEY_BYTES_USUAL + KEY_BYTES_MANY;
        let bytes = rows * (size_of::<WriteRecord>() + size_of::<KeyRecord>()) + key_bytes;
        let reserved = (self.writes.try_reserve_exact(rows))
            .and_then(|()| self.keys.try_reserve_exact(rows + 1))
            .and_then(|()| self.bytes.try_reserve_exact(key_bytes));
        reserved.map_err(|_| Error::out_of_memory(bytes))
    }

    /// Adds a key that the row at hand gets or loses in an index, as `push` appends it; returns what `push` returns,
    /// and the number of the key. 54000 if the key is longer than any index takes.
    pub(crate) fn add_key<T>(
        &mut self,
        index: IndexPosition,
        push: impl FnOnce(&mut Vec<u8>) -> Result<T>,
    ) -> Result<(T, usize)> {
        let reserved =
            self.keys.try_reserve(1).and_then(|()| match self.bytes.capacity() - self.bytes.len() {
                KEY_BYTES_MANY.. => Ok(()),
                _ => self.bytes.try_reserve(KEY_BYTES_MANY),
            });
        reserved.map_err(|_| Error::out_of_memory(size_of::<KeyRecord>() + KEY_BYTES_MANY))?;
        let start = self.bytes.len();
        let pushed = push(&mut self.bytes)?;
        let length = u32::try_from(self.bytes.len() - start).map_err(|_| key_too_long())?;
        self.keys.push(KeyRecord { start, length, index: index.0 as u32 });
        let write = self.writes.last_mut().expect("a key belongs to a written row");
        write.key_count += 1;
        self.keyed_tables |= table_bit(write.table);
        Ok((pushed, self.keys.len() - 1))
    }

    /// A key by its number, and the position of its index.
    pub(crate) fn key(&self, number: usize) -> (IndexPosition, &[u8]) {
        let key = &self.keys[number];
        (IndexPosition(key.index as usize), &self.bytes[key.start..key.start + key.length as usize])
    }

    /// The keys that a row got or lost, with the positions of their indexes.
    pub(crate) fn keys(&self, write: &WriteRecord) -> impl Iterator<Item = (IndexPosition, &[u8])> {
        (write.first_key..write.first_key + write.key_count as usize).map(|number| self.key(number))
    }
}

#[cold]
fn key_too_long() -> Error {
    Error::new(SqlState::ProgramLimitExceeded, "an index key is longer than 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_base::BlockNumber;
    use ankerdb_base::DatabaseId;

    /// Untouched memory costs nothing: the bytes before the key are reserved, zero, and never looked at.
    #[test]
    fn keys_behind_four_gibibytes_of_others_are_found() {
        let before = (1usize << 32) + 5;
        let mut record = CommitRecord::default();
        record.bytes = zeroes(before);
        record.add_write(
            TableId::new(DatabaseId::new(), 0),
            RowId::new(BlockNumber(0), 0),
            RowChange::CameOrWent,
        );
        let push = |bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(b"key");
            Ok(())
        };
        let ((), number) = record.add_key(IndexPosition(3), push).unwrap();
        assert_eq!(record.key(number), (IndexPosition(3), &b"key"[..]));
        assert!(record.keys(&record.writes[0]).eq([(IndexPosition(3), &b"key"[..])]));
    }

    /// So many zeroes that the system maps them, with room behind them.
    fn zeroes(count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count + 4096];
        bytes.truncate(count);
        bytes
    }

    #[test]
    fn filters_know_what_was_written_and_little_else() {
        let mut record = CommitRecord::default();
        let database = DatabaseId::new();
        let [table, other] = [3, 4].map(|number| TableId::new(database, number));
        for row in 0..24 {
            record.add_write(table, RowId::new(BlockNumber(row), row * 300), RowChange::CameOrWent);
        }
        assert!((0..24).all(|row| record.may_have_written(table, RowId::new(BlockNumber(row), row * 300))));
        let strangers = (0..10_000)
            .filter(|row| record.may_have_written(table, RowId::new(BlockNumber(100), row % 8192)));
        assert!(strangers.count() < 300, "two bits of sixteen a row tell strangers apart");
        assert!(!record.may_have_keys(table));
        record.add_key(IndexPosition(0), |_| Ok(())).unwrap();
        assert!(record.may_have_keys(table) && !record.may_have_keys(other));
    }
}
