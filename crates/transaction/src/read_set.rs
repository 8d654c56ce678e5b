//! What a transaction has read: predicates for precision locking.
//!
//! HyPer and AnKer (§3.1) validate a transaction by matching the writes of transactions that committed during
//! its life against the predicates it read by. Three forms are kept, from narrow to wide:
//! - a row, found by key or in a range: a change of the columns looked at, or its deletion, is a conflict;
//! - a range of an index: a key that appears or disappears in it is a conflict (a phantom);
//! - a table, optionally under a filter: any change of the columns looked at is, if the row satisfies the filter
//!   before or after.
//!
//! The insertion or deletion of a row is a conflict whatever columns were looked at, even if none were: counting rows,
//! or testing whether there are any, reads none of their cells (`RowChange`).
//!
//! A record of writes has filters, which nearly always tell that none of it was read here. Only otherwise are its writes
//! looked at one by one: a transaction that has read little compares each with what it has read, one that has read a lot
//! looks each up (`lookup`). So validation costs at most as much as was written meanwhile, times a small number, and
//! never what was read times what was written. Tables read under filters are the exception: each filter is applied to
//! each write to its table, as it was applied to each row when the table was read.

use crate::lookup::Lookup;
use crate::record::{CommitRecord, WriteRecord};
use ankerdb_base::{ColumnSet, Error, IndexPosition, Result, RowId, TableId, Timestamp};
use ankerdb_index::Direction;
use ankerdb_memory::release;
use ankerdb_sync::interrupt::Interrupt;
use ankerdb_sync::memory_limit::check_system;
use ankerdb_table::{ReadAt, Storage, Table};
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

/// Turns a prefix of keys into the first key after all that start with it; unbounded if there is none. The result
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
    pub index: IndexPosition,
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
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Mark {
    rows: usize,
    ranges: usize,
    tables: usize,
    keys: usize,
}

/// Bits of the filter over rows: enough for some hundred rows at a few percent of false hits.
const BLOOM_WORDS: usize = 32;

/// The most reads of each form that are compared one by one. For more, a lookup is made.
const FEW_ROWS: usize = 128;
const FEW_RANGES: usize = 16;
const FEW_TABLES: usize = 16;

/// Rows for which memory is kept from one transaction to the next.
const ROWS_KEPT: usize = 1 << 14;

/// Counts steps of long work, and checks now and then whether to go on.
pub(crate) struct Steps<'a> {
    interrupt: &'a Interrupt,
    left: u32,
}

/// Steps between two looks at the interrupt: well under a millisecond.
const STEPS_BETWEEN_LOOKS: u32 = 4096;

impl<'a> Steps<'a> {
    pub(crate) fn new(interrupt: &'a Interrupt) -> Steps<'a> {
        Steps { interrupt, left: STEPS_BETWEEN_LOOKS }
    }

    /// One step; the interrupt's error if it was raised.
    #[inline]
    pub(crate) fn take(&mut self) -> Result<()> {
        self.left -= 1;
        if self.left == 0 {
            self.left = STEPS_BETWEEN_LOOKS;
            self.interrupt.check()?;
        }
        Ok(())
    }
}

/// Everything read so far.
#[derive(Default)]
pub(crate) struct ReadSet {
    pub rows: Vec<RowRead>,
    pub ranges: Vec<RangeRead>,
    pub tables: Vec<TableRead>,
    keys: Vec<u8>,
    bloom: [u64; BLOOM_WORDS],
    /// Whether there was no memory to note something.
    is_incomplete: bool,
    /// A lookup of all reads up to a mark, if there are many.
    lookup: Option<(Mark, Box<Lookup>)>,
}

fn bloom_place(table: TableId, row: RowId) -> (usize, u64) {
    let hash = (row.0 ^ u64::from(table.number()) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
    ((hash as usize / 64) % BLOOM_WORDS, 1 << (hash % 64))
}

impl ReadSet {
    pub(crate) fn clear(&mut self) {
        if self.rows.capacity() > ROWS_KEPT {
            let large = std::mem::take(self);
            release(large.rows);
            release(large.ranges);
            release(large.keys);
            return;
        }
        self.rows.clear();
        self.ranges.clear();
        self.tables.clear();
        self.keys.clear();
        self.bloom = [0; BLOOM_WORDS];
        self.is_incomplete = false;
        self.lookup = None;
    }

    /// Whether nothing was noted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.ranges.is_empty() && self.tables.is_empty()
    }

    /// Whether all reads have been noted. A transaction that could not note some does not go on.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_incomplete { Err(self.refusal()) } else { Ok(()) }
    }

    #[cold]
    fn refusal(&self) -> Error {
        Error::out_of_memory(2 * (self.rows.len() * size_of::<RowRead>() + self.keys.len()))
    }

    /// Whether there is room for what is noted next.
    #[inline]
    fn has_room(&mut self, key_bytes: usize) -> bool {
        let is_there = self.rows.len() < self.rows.capacity()
            && self.ranges.len() < self.ranges.capacity()
            && self.keys.capacity() - self.keys.len() >= key_bytes;
        is_there || self.make_room(key_bytes)
    }

    #[cold]
    fn make_room(&mut self, key_bytes: usize) -> bool {
        let reserved = (self.rows.try_reserve(1))
            .and_then(|()| self.ranges.try_reserve(1))
            .and_then(|()| self.keys.try_reserve(key_bytes));
        self.is_incomplete |= reserved.is_err();
        reserved.is_ok()
    }

    /// Whether so much was read that it takes a while to arrange it.
    pub(crate) fn is_large(&self) -> bool {
        self.rows.len() > FEW_ROWS || self.ranges.len() > FEW_RANGES || self.tables.len() > FEW_TABLES
    }

    /// To be called before [`conflicts_with`](Self::conflicts_with), and again when more was read. Arranges what was
    /// read if it is much; checks `steps` now and then whether to go on.
    pub(crate) fn prepare(&mut self, steps: &mut Steps) -> Result<()> {
        let mark = self.mark();
        if self.is_large() && self.lookup.as_ref().is_none_or(|(made_at, _)| *made_at != mark) {
            // What was arranged before stays: a transaction that is validated at each of its statements does not begin anew.
            let (made_at, mut lookup) = self.lookup.take().unwrap_or_default();
            self.arrange(&mut lookup, made_at, steps)?;
            self.lookup = Some((mark, lookup));
        }
        Ok(())
    }

    /// The lookup, if what was read is much.
    fn lookup(&self) -> Option<&Lookup> {
        debug_assert_eq!(self.is_large(), self.lookup.is_some(), "validation begins with `prepare`");
        self.lookup.as_ref().map(|(_, lookup)| &**lookup)
    }

    /// The indexes in which ranges were read: numbers of tables, positions. Not many more than there are.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = (usize, IndexPosition)> {
        let few = if self.lookup().is_some() { &[][..] } else { &self.ranges[..] };
        let many = self.lookup().into_iter().flat_map(Lookup::indexes);
        few.iter().map(|read| (read.number, read.index)).chain(many)
    }

    /// Adds what was read since the mark.
    fn arrange(&self, lookup: &mut Lookup, since: Mark, steps: &mut Steps) -> Result<()> {
        let rows = &self.rows[since.rows..];
        lookup.reserve_rows(rows.len())?;
        for read in rows {
            steps.take()?;
            lookup.add_row(read.table, read.row, read.columns);
        }
        for read in &self.ranges[since.ranges..] {
            steps.take()?;
            check_system()?;
            lookup.add_range((read.table, read.number), read.index, self.bounds(read));
        }
        self.tables[since.tables..].iter().filter(|read| read.filter.is_none()).for_each(|read| {
            lookup.add_table(read.table.id(), read.columns);
        });
        Ok(())
    }

    /// Whether a table was read under a filter, which has to look at rows.
    pub(crate) fn has_filters(&self) -> bool {
        self.tables.iter().any(|read| read.filter.is_some())
    }

    pub(crate) fn mark(&self) -> Mark {
        let (rows, ranges) = (self.rows.len(), self.ranges.len());
        Mark { rows, ranges, tables: self.tables.len(), keys: self.keys.len() }
    }

    /// Forgets what was read after the mark. (The filter over rows goes on to know it, which only costs a look.)
    pub(crate) fn forget_since(&mut self, mark: Mark) {
        self.rows.truncate(mark.rows);
        self.ranges.truncate(mark.ranges);
        self.tables.truncate(mark.tables);
        self.keys.truncate(mark.keys);
        self.lookup = None;
    }

    /// Notes a range of an index; `number` is the table's number in the transaction.
    pub(crate) fn add_range(
        &mut self,
        (table, number): (TableId, usize),
        index: IndexPosition,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) {
        let length = |bound: Bound<&[u8]>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        if !self.has_room(length(lower) + length(upper)) {
            return;
        }
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
    pub(crate) fn bounds(&self, range: &RangeRead) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (range.lower.map(|key| self.key(key)), range.upper.map(|key| self.key(key)))
    }

    /// Shortens a range that turned out to be read only as far as this key, if it was noted at all.
    pub(crate) fn narrow_range(&mut self, position: usize, direction: Direction, last_key: &[u8]) {
        // Without room the range stays as wide as it was noted, which is no harm.
        if position < self.ranges.len() && self.keys.try_reserve(last_key.len()).is_ok() {
            let end = Bound::Included(self.keep(last_key));
            let range = &mut self.ranges[position];
            match direction {
                Direction::Forward => range.upper = end,
                Direction::Backward => range.lower = end,
            }
        }
    }

    pub(crate) fn add_row(&mut self, table: TableId, row: RowId, columns: ColumnSet) {
        if !self.has_room(0) {
            return;
        }
        let (word, bit) = bloom_place(table, row);
        self.bloom[word] |= bit;
        self.rows.push(RowRead { table, row, columns });
    }

    /// Notes that more columns of a row were looked at: of the row read last, usually, which then stays one read.
    pub(crate) fn add_columns(&mut self, table: TableId, row: RowId, columns: ColumnSet) {
        match self.rows.last_mut() {
            Some(last) if last.row == row && last.table == table => {
                last.columns = last.columns.union(columns);
                // It may have been made from the read as it was before.
                if let Some((_, lookup)) = &mut self.lookup {
                    lookup.add_row(table, row, columns);
                }
            }
            _ => self.add_row(table, row, columns),
        }
    }

    pub(crate) fn add_table(&mut self, table: Arc<Table>, columns: ColumnSet, filter: Option<RowFilter>) {
        self.tables.push(TableRead { table, columns, filter });
    }

    /// Whether a commit wrote something that satisfies a predicate. `window` are the timestamps from the one that
    /// the transaction read at to the last one to look at; `wait` returns when all commits up to there have finished
    /// (tables under a filter need their rows). Costs at most a small number of looks for each row written.
    ///
    /// # Errors
    /// Those of `steps`.
    pub(crate) fn conflicts_with(
        &self,
        record: &CommitRecord,
        window: (Timestamp, Timestamp),
        pin: &Guard,
        wait: impl Fn(),
        steps: &mut Steps,
    ) -> Result<bool> {
        let lookup = self.lookup();
        let may_concern_me = lookup.is_some()
            || !self.tables.is_empty()
            || self.rows.iter().any(|read| record.may_have_written(read.table, read.row))
            || self.ranges.iter().any(|read| record.may_have_keys(read.table));
        if !may_concern_me {
            return Ok(false);
        }
        if record.ended_tables().iter().any(|ended| self.has_read(*ended)) {
            return Ok(true);
        }
        if record.loaded_table().is_some_and(|loaded| self.has_searched(loaded)) {
            return Ok(true);
        }
        for write in &record.writes {
            steps.take()?;
            let conflicts = match lookup {
                Some(lookup) => is_found(lookup, record, write),
                None => self.is_compared(record, write),
            };
            if conflicts || (!self.tables.is_empty() && self.passes_filter(write, window, pin, &wait)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether anything of a table was read.
    fn has_read(&self, table: TableId) -> bool {
        self.rows.iter().any(|read| read.table == table)
            || self.ranges.iter().any(|read| read.table == table)
            || self.tables.iter().any(|read| read.table.id() == table)
    }

    /// Whether anything of a table was read that rows may come into: a range, or all of it. A row that was read is not.
    fn has_searched(&self, table: TableId) -> bool {
        self.ranges.iter().any(|read| read.table == table)
            || self.tables.iter().any(|read| read.table.id() == table)
    }

    /// Compares a write with all that was read, tables under filters aside.
    fn is_compared(&self, record: &CommitRecord, write: &WriteRecord) -> bool {
        self.row_conflicts(write)
            || (!self.ranges.is_empty() && self.range_conflicts(record, write))
            || self.tables.iter().any(|read| {
                read.filter.is_none() && read.table.id() == write.table && write.change.concerns(read.columns)
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

    /// Whether the row satisfies a filter that its table was read under.
    fn passes_filter(
        &self,
        write: &WriteRecord,
        window: (Timestamp, Timestamp),
        pin: &Guard,
        wait: &impl Fn(),
    ) -> bool {
        let reads = self.tables.iter();
        let mut reads =
            reads.filter(|read| read.table.id() == write.table && write.change.concerns(read.columns));
        reads.any(|read| {
            read.filter.as_ref().is_some_and(|filter| {
                wait();
                row_matches(read, filter, write.row, window, pin)
            })
        })
    }
}

/// Looks a write up among what was read.
fn is_found(lookup: &Lookup, record: &CommitRecord, write: &WriteRecord) -> bool {
    let concerns = |columns: Option<ColumnSet>| columns.is_some_and(|columns| write.change.concerns(columns));
    concerns(lookup.row(write.table, write.row))
        || concerns(lookup.table(write.table))
        || record.keys(write).any(|(index, key)| lookup.has_range(write.table, index, key))
}

/// Whether the row exists and satisfies the filter at the first or at the last timestamp of the window.
///
/// Its states in between were read by no transaction. Its state after the window, where commits may have installed
/// already, must not count: they could undo what makes the conflict. Both states can be read: the first is announced,
/// and the last is beyond every watermark that a pruner can have seen.
pub(crate) fn row_matches(
    read: &TableRead,
    filter: &RowFilter,
    row: RowId,
    window: (Timestamp, Timestamp),
    pin: &Guard,
) -> bool {
    let storage = Storage::of(&read.table);
    let block = storage.block(row.block());
    [window.0, window.1].into_iter().map(ReadAt::Snapshot).any(|at| {
        block.exists_at(row.offset(), at, pin)
            && filter(&|column| storage.value(row, column, at, pin).unwrap_or(Value::Null))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_base::BlockNumber;
    use ankerdb_base::DatabaseId;

    /// Arranging goes on where it ended, and knows columns that were noted later of a row that it has.
    #[test]
    fn what_is_arranged_grows_with_what_is_read() {
        let (table, interrupt) = (TableId::new(DatabaseId::new(), 1), Interrupt::new());
        let row = |number: usize| RowId::new(BlockNumber(0), number);
        let mut reads = ReadSet::default();
        let mut read = 0;
        for count in [FEW_ROWS + 1, 2 * FEW_ROWS, 3 * FEW_ROWS] {
            while read < count {
                reads.add_row(table, row(read), ColumnSet::of(&[1]));
                read += 1;
            }
            reads.prepare(&mut Steps::new(&interrupt)).unwrap();
            reads.add_columns(table, row(count - 1), ColumnSet::of(&[5]));
            reads.prepare(&mut Steps::new(&interrupt)).unwrap();
            let lookup = reads.lookup().expect("much was read");
            assert_eq!(lookup.row(table, row(0)), Some(ColumnSet::of(&[1])));
            assert_eq!(lookup.row(table, row(count - 1)), Some(ColumnSet::of(&[1, 5])));
            assert_eq!(lookup.row(table, row(count)), None);
        }
        reads.forget_since(Mark { rows: FEW_ROWS + 1, ..Mark::default() });
        reads.prepare(&mut Steps::new(&interrupt)).unwrap();
        let lookup = reads.lookup().expect("much is left");
        assert_eq!(lookup.row(table, row(FEW_ROWS + 1)), None);
    }

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
