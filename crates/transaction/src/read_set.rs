//! What a transaction has read: predicates for precision locking.
//!
//! HyPer and AnKer (§3.1) validate a transaction by matching the writes of those that committed during its life
//! against the predicates it read by. Three forms are kept, from narrow to wide:
//! - a row, found by key or in a range: a change of the columns looked at, or its deletion, is a conflict;
//! - a range of an index: a key that appears or disappears in it is a conflict (a phantom);
//! - a table, optionally under a filter: any change of the columns looked at is, if the row satisfies the filter
//!   before or after.
//!
//! A row that comes or goes is a conflict whatever columns were looked at, also if none were: counting rows, or asking
//! whether there are any, reads none of their cells (`RowChange`).
//!
//! A record of writes has filters that tell, nearly always, that none of it was read here. Only else are its writes
//! looked at one by one, through a filter over the rows read.

use crate::record::{CommitRecord, WriteRecord};
use ankerdb_base::{ColumnSet, RowId, TableId, Timestamp};
use ankerdb_index::Direction;
use ankerdb_table::{ReadAt, Table};
use ankerdb_value::Value;
use crossbeam_epoch::Guard;
use std::ops::Bound;
use std::sync::Arc;

/// A filter over one row, as a predicate: whether the row may satisfy the condition that a full scan read by.
/// `column(i)` gives the row's value in column i.
pub type RowFilter = Arc<dyn Fn(&dyn Fn(usize) -> Value) -> bool + Send + Sync>;

/// A range of encoded keys.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// Where it starts.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// All keys that start with these bytes: equality on the leading key columns.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        let upper = end_of_prefix(&mut prefix.to_vec()).map(<[u8]>::to_vec);
        KeyRange { lower: Bound::Included(prefix.to_vec()), upper }
    }

    /// One key: what a hash index answers without looking at all of its entries.
    pub fn exactly(key: &[u8]) -> KeyRange {
        KeyRange { lower: Bound::Included(key.to_vec()), upper: Bound::Included(key.to_vec()) }
    }

    /// All keys.
    pub fn all() -> KeyRange {
        KeyRange { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }

    /// Whether the key lies in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        is_between(key, self.bounds())
    }

    /// Where it starts and ends.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.lower.as_ref().map(|key| &key[..]), self.upper.as_ref().map(|key| &key[..]))
    }
}

/// Turns a prefix of keys into the first key behind all that start with it; unbounded if there is none. The result
/// bounds from above.
pub(crate) fn end_of_prefix(prefix: &mut Vec<u8>) -> Bound<&[u8]> {
    while prefix.last() == Some(&u8::MAX) {
        prefix.pop();
    }
    match prefix.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(prefix)
        }
        None => Bound::Unbounded,
    }
}

/// Whether a key lies between two bounds.
pub(crate) fn is_between(key: &[u8], (lower, upper): (Bound<&[u8]>, Bound<&[u8]>)) -> bool {
    let after_lower = match lower {
        Bound::Included(lower) => key >= lower,
        Bound::Excluded(lower) => key > lower,
        Bound::Unbounded => true,
    };
    after_lower
        && match upper {
            Bound::Included(upper) => key <= upper,
            Bound::Excluded(upper) => key < upper,
            Bound::Unbounded => true,
        }
}

pub(crate) struct RowRead {
    pub table: TableId,
    pub row: RowId,
    pub columns: ColumnSet,
}

/// A range whose keys lie in the read set's buffer.
pub(crate) struct RangeRead {
    /// The table, and its number in the transaction's `TouchedTables`.
    pub table: TableId,
    pub number: usize,
    pub index: usize,
    lower: Bound<Piece>,
    upper: Bound<Piece>,
}

/// A piece of the buffer of keys: start and length.
type Piece = (usize, usize);

pub(crate) struct TableRead {
    pub table: Arc<Table>,
    pub columns: ColumnSet,
    pub filter: Option<RowFilter>,
}

/// A point in what was read: what came before it stays when the rest is forgotten.
#[derive(Clone, Copy, Default)]
pub(crate) struct Mark {
    rows: usize,
    ranges: usize,
    tables: usize,
    keys: usize,
}

/// Bits of the filter over rows: enough for some hundred rows at a few percent of false hits.
const BLOOM_WORDS: usize = 32;

/// Everything read so far.
#[derive(Default)]
pub(crate) struct ReadSet {
    pub rows: Vec<RowRead>,
    pub ranges: Vec<RangeRead>,
    pub tables: Vec<TableRead>,
    keys: Vec<u8>,
    bloom: [u64; BLOOM_WORDS],
}

fn bloom_place(table: TableId, row: RowId) -> (usize, u64) {
    let hash = (row.0 ^ (table.0 as u64) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    ((hash as usize / 64) % BLOOM_WORDS, 1 << (hash % 64))
}

impl ReadSet {
    pub fn clear(&mut self) {
        self.rows.clear();
        self.ranges.clear();
        self.tables.clear();
        self.keys.clear();
        self.bloom = [0; BLOOM_WORDS];
    }

    pub fn mark(&self) -> Mark {
        let (rows, ranges) = (self.rows.len(), self.ranges.len());
        Mark { rows, ranges, tables: self.tables.len(), keys: self.keys.len() }
    }

    /// Forgets what was read after the mark. (The filter over rows goes on to know it, which only costs a look.)
    pub fn forget_since(&mut self, mark: Mark) {
        self.rows.truncate(mark.rows);
        self.ranges.truncate(mark.ranges);
        self.tables.truncate(mark.tables);
        self.keys.truncate(mark.keys);
    }

    /// Notes a range of an index; `number` is the table's number in the transaction.
    pub fn add_range(
        &mut self,
        (table, number): (TableId, usize),
        index: usize,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) {
        let (lower, upper) = (lower.map(|key| self.keep(key)), upper.map(|key| self.keep(key)));
        self.ranges.push(RangeRead { table, number, index, lower, upper });
    }

    fn keep(&mut self, key: &[u8]) -> Piece {
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        (start, key.len())
    }

    fn key(&self, (start, length): Piece) -> &[u8] {
        &self.keys[start..start + length]
    }

    /// Where a range starts and ends.
    pub fn bounds(&self, range: &RangeRead) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (range.lower.map(|key| self.key(key)), range.upper.map(|key| self.key(key)))
    }

    /// A range turned out to be read only as far as this key, if it was noted at all.
    pub fn narrow_range(&mut self, position: usize, direction: Direction, last_key: &[u8]) {
        if position < self.ranges.len() {
            let end = Bound::Included(self.keep(last_key));
            let range = &mut self.ranges[position];
            match direction {
                Direction::Forward => range.upper = end,
                Direction::Backward => range.lower = end,
            }
        }
    }

    pub fn add_row(&mut self, table: TableId, row: RowId, columns: ColumnSet) {
        let (word, bit) = bloom_place(table, row);
        self.bloom[word] |= bit;
        self.rows.push(RowRead { table, row, columns });
    }

    /// Whether a commit wrote something that satisfies a predicate. `window` are the timestamps from the one that
    /// the transaction read at to the last one before its own; `wait` returns when all commits up to there have
    /// finished (tables under a filter need their rows).
    pub fn conflicts_with(
        &self,
        record: &CommitRecord,
        window: (Timestamp, Timestamp),
        pin: &Guard,
        wait: impl Fn(),
    ) -> bool {
        let may_concern_me = !self.tables.is_empty()
            || self.rows.iter().any(|read| record.may_have_written(read.table, read.row))
            || self.ranges.iter().any(|read| record.may_have_keys(read.table));
        may_concern_me && self.writes_conflict(record, window, pin, wait)
    }

    fn writes_conflict(
        &self,
        record: &CommitRecord,
        window: (Timestamp, Timestamp),
        pin: &Guard,
        wait: impl Fn(),
    ) -> bool {
        record.writes.iter().any(|write| {
            self.row_conflicts(write)
                || (!self.ranges.is_empty() && self.range_conflicts(record, write))
                || (!self.tables.is_empty() && self.table_conflicts(write, window, pin, &wait))
        })
    }

    fn row_conflicts(&self, write: &WriteRecord) -> bool {
        let (word, bit) = bloom_place(write.table, write.row);
        self.bloom[word] & bit != 0
            && self.rows.iter().any(|read| {
                read.row == write.row && read.table == write.table && write.change.concerns(read.columns)
            })
    }

    fn range_conflicts(&self, record: &CommitRecord, write: &WriteRecord) -> bool {
        let mut ranges = self.ranges.iter().filter(|read| read.table == write.table);
        ranges.any(|read| {
            let bounds = self.bounds(read);
            record.keys(write).any(|(index, key)| index == read.index && is_between(key, bounds))
        })
    }

    fn table_conflicts(
        &self,
        write: &WriteRecord,
        window: (Timestamp, Timestamp),
        pin: &Guard,
        wait: &impl Fn(),
    ) -> bool {
        let reads = self.tables.iter();
        let mut reads =
            reads.filter(|read| read.table.id() == write.table && write.change.concerns(read.columns));
        reads.any(|read| match &read.filter {
            None => true,
            Some(filter) => {
                wait();
                row_matches(read, filter, write.row, window, pin)
            }
        })
    }
}

/// Whether the row exists and satisfies the filter at the first or at the last timestamp of the window.
///
/// What it was in between was read by nobody. What it is after the window, where commits may have installed
/// already, must not count: they could take away again what makes the conflict. Both states are there to be read: the
/// first is announced, and the last is beyond every watermark that a pruner can have seen.
pub(crate) fn row_matches(
    read: &TableRead,
    filter: &RowFilter,
    row: RowId,
    window: (Timestamp, Timestamp),
    pin: &Guard,
) -> bool {
    let block = read.table.block(row.block());
    [window.0, window.1].into_iter().map(ReadAt::Snapshot).any(|at| {
        block.exists_at(row.offset(), at, pin)
            && filter(&|column| read.table.value(row, column, at, pin).unwrap_or(Value::Null))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_range_holds_exactly_the_keys_with_the_prefix() {
        let range = KeyRange::prefix(&[1, 255]);
        assert!(range.contains(&[1, 255]) && range.contains(&[1, 255, 0]) && range.contains(&[1, 255, 255]));
        assert!(!range.contains(&[1, 254, 255]) && !range.contains(&[2]) && !range.contains(&[1]));
        assert!(KeyRange::prefix(&[255, 255]).contains(&[255, 255, 3]));
        assert!(!KeyRange::prefix(&[255, 255]).contains(&[255, 254]));
        assert!(KeyRange::prefix(&[]).contains(&[]) && KeyRange::all().contains(&[7]));
    }
}
