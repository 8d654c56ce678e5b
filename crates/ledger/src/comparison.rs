//! Which rows two members have differently, by the hash ranges in which they differ ([`crate::ranges`]).
//!
//! ```text
//! own tables ── read once ──> ranges that are not what its blocks have made of them, and the hashes of all rows
//! own        ── hashes of all ranges ──────────────────────> donor, which begins a snapshot
//! donor      ── the block of that, ranges that differ ─────> own
//! own        ── hashes of the rows of some of these ranges > donor  ┐ again until all
//! donor      ── rows that differ, some at a time ──────────> own    ┘ ranges were listed
//! ```
//! A member that has the donor's block and one row that it should not have sends the hashes of the rows of one range, and gets one
//! row; the donor reads the rows of that range ([`crate::donation`]). A member that is blocks behind, or whose tables were emptied,
//! lists up to all ranges, as many at a time as [`ComparisonLimits`] say: no message and no memory is as long as a table's rows.
//!
//! Nothing is written before all has come. Meanwhile what the tables *would* add up to is followed row by row, so that it is known
//! whether that is what a quorum has certified; the rows wait in memory, and those that are too many in a file.
//!
//! Memory: keys and hashes of all own rows, of which most are never sent.

use crate::change::TableStates;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::member::RowSource;
use crate::ranges::{HASH_RANGES, SecretSum, TableSums, hash_range};
use crate::value::{Content, row_hash};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::mpsc::{Receiver, sync_channel};

/// Keys and hashes of rows.
pub type RowHashes = Vec<(Vec<u8>, LedgerHash)>;

/// Hash ranges of tables.
pub type TableRanges = BTreeMap<String, BTreeSet<usize>>;

/// The hashes of the fingerprints of all hash ranges of each table that a member has.
pub type RangeHashes = BTreeMap<String, Vec<LedgerHash>>;

/// How much of a comparison is sent or kept at once, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonLimits {
    /// Keys and hashes of rows that a donor is told of at once, if it is more than one range.
    pub listed: usize,
    /// Rows that a donor sends at once, if it is more than one.
    pub donated: usize,
    /// Rows that wait in memory; others wait in a file.
    pub kept: usize,
}

impl Default for ComparisonLimits {
    fn default() -> ComparisonLimits {
        ComparisonLimits { listed: 16 << 20, donated: 4 << 20, kept: 32 << 20 }
    }
}

/// What a donor says first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedRanges {
    /// The block after which its tables are what it compares.
    pub height: u64,
    /// The ranges in which they are not what was said.
    pub differing: TableRanges,
}

/// All rows that a member has in some hash ranges of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedRows {
    /// Of which table.
    pub table: String,
    /// By range.
    pub ranges: BTreeMap<usize, RowHashes>,
}

/// Some rows of listed ranges that a donor has and another member has differently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DonatedRows {
    /// Of which table.
    pub table: String,
    /// The keys of the rows that differ.
    pub keys: Vec<Vec<u8>>,
    /// The donor's rows with these keys; keys without a row are to be deleted.
    pub rows: Vec<Vec<Content>>,
}

/// What takes rows of a donor, some at a time.
pub type DonationVisitor<'a> = dyn FnMut(DonatedRows) -> LedgerResult<()> + 'a;

/// What tells a donor of listed rows, and gives those of its rows that differ.
pub type DonorQuestion<'a> = dyn FnMut(ListedRows, &mut DonationVisitor<'_>) -> LedgerResult<()> + 'a;

/// Rows that go from the thread that reads to the one that hashes at a time, and how many times that may wait there.
const BATCH_ROWS: usize = 512;
const BATCHES_WAITING: usize = 4;

/// What is shown the range, the key and the hash of a row.
pub type HashVisitor<'a> = dyn FnMut(usize, Vec<u8>, LedgerHash) -> LedgerResult<()> + Send + 'a;

/// Hashes rows until no more come, and gives their sums by ranges.
fn hash_rows(
    batches: Receiver<Vec<Vec<Content>>>,
    table: &SharedTable,
    show: &mut HashVisitor<'_>,
) -> LedgerResult<Vec<SecretSum>> {
    let mut found = vec![SecretSum::default(); HASH_RANGES];
    for row in batches.into_iter().flatten() {
        let (key, hash) = (table.key_bytes(&row), row_hash(&row));
        let range = hash_range(&key);
        found[range].add(&hash);
        show(range, key, hash)?;
    }
    Ok(found)
}

/// Reads a table, shows keys and hashes of its rows by their ranges, and says which ranges are not what these sums say. Another
/// thread hashes, since that takes as long as reading does.
///
/// # Errors
/// [`LedgerError::Database`], and that of `show`.
pub fn find_differing_ranges(
    source: &mut dyn RowSource,
    table: &SharedTable,
    sums: &TableSums,
    show: &mut HashVisitor<'_>,
) -> LedgerResult<Vec<usize>> {
    let (sender, batches) = sync_channel(BATCHES_WAITING);
    let (read, hashed) = std::thread::scope(|scope| {
        let hashing = scope.spawn(|| hash_rows(batches, table, show));
        let mut batch = Vec::with_capacity(BATCH_ROWS);
        let given_up = |_| LedgerError::Missing("the rows are not wanted any more".into());
        let mut read = source.visit_rows(table, &mut |row| {
            batch.push(row);
            if batch.len() < BATCH_ROWS {
                return Ok(());
            }
            let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH_ROWS));
            sender.send(full).map_err(given_up)
        });
        read = read.and_then(|()| sender.send(batch).map_err(given_up));
        drop(sender);
        (read, hashing.join().expect("hashing does not panic"))
    });
    // Where hashing has failed that is why reading has been given up.
    let found = hashed?;
    read?;
    Ok(sums.differing(&found))
}

/// The rows that a member has, by their hashes.
#[derive(Default)]
pub struct OwnRows {
    tables: BTreeMap<String, Vec<RowHashes>>,
    /// The ranges whose rows are not what the states said.
    pub differing: TableRanges,
    /// How many there are.
    pub count: usize,
}

/// The range hashes of states, to be told to a donor.
pub fn range_hashes(states: &TableStates) -> RangeHashes {
    states.sums.iter().map(|(name, sums)| (name.clone(), sums.range_hashes())).collect()
}

impl OwnRows {
    /// Reads all tables of these states, inside of a block.
    ///
    /// # Errors
    /// [`LedgerError::Database`].
    pub fn read(source: &mut dyn RowSource, states: &TableStates) -> LedgerResult<OwnRows> {
        let mut own = OwnRows::default();
        for (name, table) in &states.tables {
            let mut rows = vec![RowHashes::new(); HASH_RANGES];
            let sums = states.sums.get(name).cloned().unwrap_or_default();
            let mut count = 0;
            let differing = find_differing_ranges(source, table, &sums, &mut |range, key, hash| {
                rows[range].push((key, hash));
                count += 1;
                Ok(())
            })?;
            own.count += count;
            own.tables.insert(name.clone(), rows);
            own.differing.insert(name.clone(), differing.into_iter().collect());
        }
        Ok(own)
    }

    fn take_rows(&mut self, table: &str, range: usize) -> RowHashes {
        let rows = self.tables.get_mut(table).and_then(|ranges| ranges.get_mut(range));
        rows.map(std::mem::take).unwrap_or_default()
    }

    /// The ranges that differ from what the states say, and those in which the donor says that it differs from that.
    fn listed(
        &self,
        tables: &BTreeMap<String, SharedTable>,
        donor: &TableRanges,
    ) -> LedgerResult<TableRanges> {
        let mut listed = self.differing.clone();
        for (table, ranges) in donor {
            if !tables.contains_key(table) {
                return Err(LedgerError::Malformed(format!("rows for \"{table}\", no shared table")));
            }
            if ranges.iter().any(|range| *range >= HASH_RANGES) {
                return Err(LedgerError::Malformed(format!(
                    "hash ranges of \"{table}\" are named that are none"
                )));
            }
            listed.entry(table.clone()).or_default().extend(ranges);
        }
        Ok(listed)
    }

    /// Compares them with a donor's, which has these `tables` and differs from the states in these ranges. Says what the tables
    /// add up to with the donor's rows in the place of those that differ, which `take` gets. The ranges that are not
    /// what the states say are added up anew; the others are what they say, as reading has shown.
    ///
    /// # Errors
    /// What `ask` says; [`LedgerError::Malformed`] if the donor names what is no table or range, or gives rows that do not fit or
    /// were not asked for; and that of `take`.
    pub fn compare(
        &mut self,
        states: &TableStates,
        tables: &BTreeMap<String, SharedTable>,
        donor: &TableRanges,
        limits: &ComparisonLimits,
        ask: &mut DonorQuestion<'_>,
        take: &mut DonationVisitor<'_>,
    ) -> LedgerResult<TableStates> {
        let mut found = states.clone();
        let is_new = |table: &&SharedTable| !states.tables.contains_key(&table.name);
        tables.values().filter(is_new).for_each(|table| found.define(table.clone()));
        for (name, ranges) in self.listed(tables, donor)? {
            let Some(table) = tables.get(&name) else { continue };
            let sums = found.sums.entry(name.clone()).or_default();
            let mut ranges = ranges.into_iter().peekable();
            while ranges.peek().is_some() {
                let listed = self.next_listed(&name, &mut ranges, limits.listed);
                let differing = self.differing.get(&name);
                let is_other = |range: &usize| differing.is_some_and(|differing| differing.contains(range));
                for (range, rows) in listed.ranges.iter().filter(|(range, _)| is_other(range)) {
                    sums.empty_range(*range);
                    rows.iter().for_each(|(key, hash)| sums.add(key, hash));
                }
                let mut replaced = ReplacedRows::new(table, &listed, sums);
                ask(listed, &mut |donated| {
                    replaced.replace(&donated)?;
                    take(donated)
                })?;
            }
        }
        Ok(found)
    }

    /// The rows of the next ranges: as many as fit, and of one at least.
    fn next_listed(
        &mut self,
        table: &str,
        ranges: &mut std::iter::Peekable<impl Iterator<Item = usize>>,
        limit: usize,
    ) -> ListedRows {
        let (mut listed, mut bytes) = (BTreeMap::new(), 0);
        while let Some(range) = ranges.peek().copied() {
            let rows = self.tables.get(table).and_then(|rows| rows.get(range)).map_or(&[][..], Vec::as_slice);
            bytes += rows.iter().map(|(key, _)| key.len() + size_of::<LedgerHash>()).sum::<usize>();
            if bytes > limit && !listed.is_empty() {
                break;
            }
            listed.insert(range, self.take_rows(table, range));
            ranges.next();
        }
        ListedRows { table: table.to_owned(), ranges: listed }
    }
}

/// The rows of listed ranges as they become with a donor's, and what the table adds up to with them.
struct ReplacedRows<'a> {
    table: &'a SharedTable,
    ranges: BTreeSet<usize>,
    rows: HashMap<Vec<u8>, LedgerHash>,
    sums: &'a mut TableSums,
}

impl<'a> ReplacedRows<'a> {
    fn new(table: &'a SharedTable, listed: &ListedRows, sums: &'a mut TableSums) -> ReplacedRows<'a> {
        let ranges = listed.ranges.keys().copied().collect();
        ReplacedRows { table, ranges, rows: listed.ranges.values().flatten().cloned().collect(), sums }
    }

    /// Puts rows in the place of those with these keys. A donor that sends a key again replaces its own row, as it does when the
    /// rows are written.
    fn replace(&mut self, donated: &DonatedRows) -> LedgerResult<()> {
        let name = &self.table.name;
        let not_asked = || LedgerError::Malformed(format!("rows for \"{name}\" that were not asked for"));
        let keys: HashSet<&[u8]> = donated.keys.iter().map(Vec::as_slice).collect();
        let is_listed = |key: &&Vec<u8>| self.ranges.contains(&hash_range(key));
        if donated.table != *name
            || keys.len() != donated.keys.len()
            || !donated.keys.iter().all(|key| is_listed(&key))
        {
            return Err(not_asked());
        }
        let mut rows: HashMap<Vec<u8>, LedgerHash> = HashMap::new();
        for row in &donated.rows {
            if row.len() != self.table.columns.len() {
                return Err(LedgerError::Malformed(format!("a row for \"{name}\" has other columns")));
            }
            rows.insert(self.table.key_bytes(row), row_hash(row));
        }
        if rows.len() != donated.rows.len() || !rows.keys().all(|key| keys.contains(&key[..])) {
            return Err(not_asked());
        }
        for key in &donated.keys {
            if let Some(hash) = self.rows.remove(key) {
                self.sums.remove(key, &hash);
            }
        }
        for (key, hash) in rows {
            self.sums.add(&key, &hash);
            self.rows.insert(key, hash);
        }
        Ok(())
    }
}
