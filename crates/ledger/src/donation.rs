//! What a donor does for another member whose rows are not what the ledger certifies: it names hash ranges in which the two differ,
//! and gives the rows of those that the other lists ([`crate::comparison`]).
//!
//! Rows are sought by the listed keys first, which reads one row of a thousand where one range was listed. Rows that the other has
//! not are found by reading the whole table once for all ranges that were listed together. Rows go out while the table is read, so
//! that of them only those of one message are in memory, beside the listed keys and hashes.
//!
//! A donor proves nothing: the caller adds up what it gets. It says so where its own rows are not what its last block certifies.

use crate::change::TableStates;
use crate::comparison::{ComparedRanges, DonatedRows, DonationVisitor, ListedRows, RangeHashes, TableRanges};
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::member::RowSource;
use crate::ranges::{HASH_RANGES, SecretSum, TableSums, hash_range};
use crate::value::{Content, row_hash};
use std::collections::HashMap;

/// A donor looks for up to so many rows by their keys, and reads the table for more.
const KEYS_READ_MAX: usize = 20_000;

/// How many keys it looks for at once: their rows are in memory together.
const KEYS_PER_READ: usize = 512;

/// The ranges in which a donor whose tables are those of these states, after the block of a height, has something else than
/// another member.
pub fn compare_ranges(height: u64, states: &TableStates, others: &RangeHashes) -> ComparedRanges {
    let mut differing = TableRanges::new();
    let empty = vec![LedgerHash::default(); HASH_RANGES];
    for (name, sums) in &states.sums {
        let (hashes, other) = (sums.range_hashes(), others.get(name).unwrap_or(&empty));
        let differs = |range: &usize| hashes.get(*range) != other.get(*range);
        let ranges = (0..HASH_RANGES).filter(differs).collect();
        // A table that the other has not is named, whether it has rows or none.
        differing.insert(name.clone(), ranges);
    }
    ComparedRanges { height, differing }
}

/// Rows of a donor beside those that another member has listed.
struct RowMatch<'a> {
    table: &'a SharedTable,
    listed: &'a ListedRows,
    /// Listed rows that the donor has not shown yet.
    others: HashMap<&'a [u8], LedgerHash>,
    sums: Vec<SecretSum>,
    differing: DonatedRows,
    bytes: usize,
}

impl<'a> RowMatch<'a> {
    fn new(table: &'a SharedTable, listed: &'a ListedRows) -> RowMatch<'a> {
        let others = listed.ranges.values().flatten().map(|(key, hash)| (&key[..], *hash)).collect();
        let sums = vec![SecretSum::default(); HASH_RANGES];
        let differing = DonatedRows { table: table.name.clone(), ..DonatedRows::default() };
        RowMatch { table, listed, others, sums, differing, bytes: 0 }
    }

    fn show(&mut self, row: Vec<Content>) {
        let key = self.table.key_bytes(&row);
        let range = hash_range(&key);
        if !self.listed.ranges.contains_key(&range) {
            return;
        }
        let hash = row_hash(&row);
        self.sums[range].add(&hash);
        if self.others.remove(&key[..]) != Some(hash) {
            self.bytes += key.len() + row.iter().flatten().map(Vec::len).sum::<usize>();
            self.differing.keys.push(key);
            self.differing.rows.push(row);
        }
    }

    /// Gives the rows that differ and were shown since the last time.
    fn give(&mut self, take: &mut DonationVisitor<'_>) -> LedgerResult<()> {
        self.bytes = 0;
        let next = DonatedRows { table: self.table.name.clone(), ..DonatedRows::default() };
        take(std::mem::replace(&mut self.differing, next))
    }

    /// Whether the rows that were shown are all of the listed ranges.
    fn is_whole(&self, sums: &TableSums) -> bool {
        self.listed.ranges.keys().all(|range| sums.secret_sum(*range) == self.sums[*range])
    }

    /// Gives the rest, and the keys of which there is no row.
    fn end(mut self, limit: usize, take: &mut DonationVisitor<'_>) -> LedgerResult<()> {
        let gone: Vec<&[u8]> = self.others.drain().map(|(key, _)| key).collect();
        for key in gone {
            self.bytes += key.len();
            self.differing.keys.push(key.to_vec());
            if self.bytes >= limit {
                self.give(take)?;
            }
        }
        if self.differing.keys.is_empty() { Ok(()) } else { self.give(take) }
    }
}

/// The rows of listed ranges as far as their keys find them; nothing if these are too many, the rows that differ are too long for
/// one message, or some are not found by them.
fn match_by_keys<'a>(
    source: &mut dyn RowSource,
    table: &'a SharedTable,
    sums: &TableSums,
    listed: &'a ListedRows,
    limit: usize,
) -> LedgerResult<Option<RowMatch<'a>>> {
    let keys: Vec<Vec<u8>> = listed.ranges.values().flatten().map(|(key, _)| key.clone()).collect();
    if keys.len() > KEYS_READ_MAX {
        return Ok(None);
    }
    let mut found = RowMatch::new(table, listed);
    for keys in keys.chunks(KEYS_PER_READ) {
        source.read(table, keys)?.into_iter().for_each(|row| found.show(row));
        if found.bytes > limit {
            return Ok(None);
        }
    }
    Ok(Some(found).filter(|found| found.is_whole(sums)))
}

/// Gives the rows of listed ranges that a source with these states has differently, not much more than `limit` bytes at a time.
/// Ranges of a table that it has not are not looked at.
///
/// # Errors
/// [`LedgerError::Database`]; [`LedgerError::Missing`] if the source has other rows than the states say, perhaps after some were
/// given; and that of `take`.
pub fn compare_rows(
    source: &mut dyn RowSource,
    states: &TableStates,
    listed: &ListedRows,
    limit: usize,
    take: &mut DonationVisitor<'_>,
) -> LedgerResult<()> {
    let Some((table, sums)) = states.tables.get(&listed.table).zip(states.sums.get(&listed.table)) else {
        return Ok(());
    };
    if let Some(found) = match_by_keys(source, table, sums, listed, limit)? {
        return found.end(limit, take);
    }
    let mut found = RowMatch::new(table, listed);
    source.visit_rows(table, &mut |row| {
        found.show(row);
        if found.bytes >= limit { found.give(take) } else { Ok(()) }
    })?;
    if !found.is_whole(sums) {
        let reason =
            format!("the donor's own rows of \"{}\" are not what its last block certifies", table.name);
        return Err(LedgerError::Missing(reason));
    }
    found.end(limit, take)
}
