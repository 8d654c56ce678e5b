//! The read set, arranged so that a write finds its readers: rows hashed, ranges of an index merged into disjoint ones
//! in key order, tables by identity. Matching a write costs about the same however much was read.
//!
//! Made once, when a transaction that has read a lot is about to be validated, and before it draws a timestamp: making
//! it costs as much as a part of the reading did. Transactions that have read little are matched without.

use ankerdb_base::{ColumnSet, Error, IndexPosition, Result, RowId, TableId};
use ankerdb_sync::number_map::NumberMap;
use ankerdb_sync::row_set::RowKey;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

/// Reads by what they are of.
#[derive(Default)]
pub(crate) struct Lookup {
    /// The columns looked at of each row.
    rows: NumberMap<RowKey, ColumnSet>,
    /// By table and position of the index, with the table's number.
    ranges: HashMap<(TableId, IndexPosition), (usize, Ranges)>,
    /// The columns looked at in all rows of a table.
    tables: NumberMap<u32, ColumnSet>,
}

impl Lookup {
    /// Makes room for so many rows. 53200 if there is none.
    pub(crate) fn reserve_rows(&mut self, count: usize) -> Result<()> {
        let bytes = count * size_of::<(RowKey, ColumnSet)>();
        self.rows.try_reserve(count).map_err(|_| Error::out_of_memory(bytes))
    }

    pub(crate) fn add_row(&mut self, table: TableId, row: RowId, columns: ColumnSet) {
        let known = self.rows.entry(RowKey::new(table.number(), row.0)).or_default();
        *known = known.union(columns);
    }

    /// `number` is the table's number in the transaction.
    pub(crate) fn add_range(
        &mut self,
        (table, number): (TableId, usize),
        index: IndexPosition,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) {
        let (_, ranges) = self.ranges.entry((table, index)).or_insert((number, Ranges::default()));
        ranges.add(bounds);
    }

    /// The indexes in which ranges were read: numbers of tables, positions.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = (usize, IndexPosition)> {
        self.ranges.iter().map(|((_, index), (number, _))| (*number, *index))
    }

    pub(crate) fn add_table(&mut self, table: TableId, columns: ColumnSet) {
        let known = self.tables.entry(table.number()).or_default();
        *known = known.union(columns);
    }

    /// The columns looked at of a row, if it was read as a row.
    #[inline]
    pub(crate) fn row(&self, table: TableId, row: RowId) -> Option<ColumnSet> {
        self.rows.get(&RowKey::new(table.number(), row.0)).copied()
    }

    /// Whether the key lies in a range that was read.
    pub(crate) fn has_range(&self, table: TableId, index: IndexPosition, key: &[u8]) -> bool {
        self.ranges.get(&(table, index)).is_some_and(|(_, ranges)| ranges.contains(key))
    }

    /// The columns looked at in all rows of a table, if it was read as a whole.
    pub(crate) fn table(&self, table: TableId) -> Option<ColumnSet> {
        self.tables.get(&table.number()).copied()
    }
}

/// A set of keys: disjoint ranges, from the first key in each to the first key behind it (`None`: there is none). The
/// first key behind a key is that key and a zero byte.
#[derive(Default)]
struct Ranges(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Ranges {
    fn add(&mut self, (lower, upper): (Bound<&[u8]>, Bound<&[u8]>)) {
        let behind = |key: &[u8]| [key, &[0]].concat();
        let mut start = match lower {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => behind(key),
            Bound::Unbounded => Vec::new(),
        };
        let mut end = match upper {
            Bound::Included(key) => Some(behind(key)),
            Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        if end.as_ref().is_some_and(|end| *end <= start) {
            return;
        }
        // Merges all that overlap or touch it: the last one that starts at or before its end, again and again.
        loop {
            let reach = end.as_ref().map_or(Bound::Unbounded, Bound::Included);
            let last = self.0.range::<Vec<u8>, _>((Bound::Unbounded, reach)).next_back();
            let Some((first, last_end)) = last else { break };
            if last_end.as_ref().is_some_and(|last_end| *last_end < start) {
                break;
            }
            let (first, last_end) = (first.clone(), last_end.clone());
            self.0.remove(&first);
            start = start.min(first);
            end = end.zip(last_end).map(|(end, last_end)| end.max(last_end));
        }
        self.0.insert(start, end);
    }

    fn contains(&self, key: &[u8]) -> bool {
        let at_or_before = (Bound::Unbounded, Bound::Included(key));
        let last = self.0.range::<[u8], _>(at_or_before).next_back();
        last.is_some_and(|(_, end)| end.as_ref().is_none_or(|end| key < &end[..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_set::is_between;
    use ankerdb_base::BlockNumber;
    use ankerdb_base::DatabaseId;

    /// Against the ranges one by one, over all short keys.
    #[test]
    fn merged_ranges_hold_the_same_keys() {
        let mut random = 7_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let keys: Vec<Vec<u8>> = (0..64_u8)
            .flat_map(|a| [vec![a], vec![a, 0], vec![a, 0, 0], vec![a, 1]])
            .chain([vec![]])
            .collect();
        for _ in 0..300 {
            let mut merged = Ranges::default();
            let mut single = Vec::new();
            for _ in 0..next(12) + 1 {
                let mut bound = || {
                    let key = keys[next(keys.len() as u64) as usize].clone();
                    [Bound::Included(key.clone()), Bound::Excluded(key), Bound::Unbounded]
                        [next(9).min(2) as usize % 3]
                        .clone()
                };
                let range = (bound(), bound());
                merged.add((range.0.as_ref().map(|key| &key[..]), range.1.as_ref().map(|key| &key[..])));
                single.push(range);
            }
            for key in &keys {
                let expected = single.iter().any(|(lower, upper)| {
                    is_between(key, (lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..])))
                });
                assert_eq!(merged.contains(key), expected, "{key:?} in {single:?}");
            }
        }
    }

    #[test]
    fn columns_of_one_row_add_up() {
        let mut lookup = Lookup::default();
        let database = DatabaseId::new();
        let (table, row) = (TableId::new(database, 3), RowId::new(BlockNumber(0), 1));
        lookup.add_row(table, row, ColumnSet::of(&[1]));
        lookup.add_row(table, row, ColumnSet::of(&[4]));
        assert_eq!(lookup.row(table, row), Some(ColumnSet::of(&[1, 4])));
        assert_eq!(lookup.row(TableId::new(database, 4), row), None);
        lookup.add_table(table, ColumnSet::EMPTY);
        assert_eq!(lookup.table(table), Some(ColumnSet::EMPTY), "counted, and no column looked at");
    }
}
