//! Which rows two members have differently, by the hash ranges in which they differ ([`crate::ranges`]).
//!
//! ```text
//! own tables ── read once ──> ranges that are not what its blocks have made of them, and the hashes of all rows
//! own        ── hashes of all ranges, hashes of the rows of those that differ ──> donor
//! donor      ── other ranges that differ from its own: named, to be asked again with their rows
//!               none: the rows that differ, read by their keys ──────────────────> own
//! ```
//! A member that has the donor's block and one row that it should not have sends the hashes of the rows of one range, and gets one
//! row; the donor reads the rows of that range. A member that is blocks behind sends those of all ranges that the blocks between
//! have touched, up to all. Rows that the own member has not are found in the donor's table by reading all of it.
//!
//! Nothing here proves anything about a donor: what its rows add up to, [`with_donated_rows`] says, and the caller compares it with
//! a state that is certified. Memory: keys and hashes of all own rows, of which most are never sent.

use crate::change::TableStates;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::member::RowSource;
use crate::ranges::{HASH_RANGES, SecretSum, TableSums, hash_range};
use crate::value::{Content, row_hash};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::mpsc::{Receiver, sync_channel};

/// A donor looks for up to so many rows by their keys, and reads the table for more.
const KEYS_READ_MAX: usize = 20_000;

/// A donor is asked this often with the ranges that it has named; then with all ranges of these tables.
const NAMED_ROUNDS: usize = 2;
const ROUNDS_MAX: usize = 6;

/// Keys and hashes of rows.
pub type RowHashes = Vec<(Vec<u8>, LedgerHash)>;

/// Hash ranges of tables.
pub type TableRanges = BTreeMap<String, BTreeSet<usize>>;

/// What a member tells a donor of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ComparedTable {
    /// The hashes of the fingerprints of all its ranges; none if it has not the table.
    pub range_hashes: Vec<LedgerHash>,
    /// The rows of ranges in which it differs, as far as it knows.
    pub listed: BTreeMap<usize, RowHashes>,
}

/// By the names of tables.
pub type ComparedTables = BTreeMap<String, ComparedTable>;

/// Rows of a table that a donor has and another member has differently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DonatedRows {
    /// Of which table.
    pub table: String,
    /// Ranges in which the two differ and whose rows were not listed. If a table has some, no rows were compared.
    pub unlisted: Vec<usize>,
    /// The keys of the rows that differ.
    pub keys: Vec<Vec<u8>>,
    /// The donor's rows with these keys; keys without a row are to be deleted.
    pub rows: Vec<Vec<Content>>,
}

/// What a donor answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Donation {
    /// The block after which its tables are what it compared.
    pub height: u64,
    /// By table.
    pub tables: Vec<DonatedRows>,
}

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

    fn rows(&self, table: &str, range: usize) -> &[(Vec<u8>, LedgerHash)] {
        self.tables.get(table).and_then(|rows| rows.get(range)).map_or(&[][..], Vec::as_slice)
    }

    fn compared(&self, states: &TableStates, listed: &TableRanges) -> ComparedTables {
        let names: BTreeSet<&String> = states.tables.keys().chain(listed.keys()).collect();
        let table = |name: &String| {
            let ranges = listed.get(name).into_iter().flatten();
            let listed = ranges.map(|range| (*range, self.rows(name, *range).to_vec())).collect();
            let sums = states.sums.get(name);
            ComparedTable { range_hashes: sums.map(TableSums::range_hashes).unwrap_or_default(), listed }
        };
        names.into_iter().map(|name| (name.clone(), table(name))).collect()
    }

    /// Compares them with a donor's, and says which ranges were listed for that: those that differ from what the states say,
    /// and those in which the donor differs from that.
    ///
    /// # Errors
    /// What `compare` says; [`LedgerError::Malformed`] if the donor names what is no range or was listed, and
    /// [`LedgerError::Missing`] if it goes on naming new ones.
    pub fn compare(
        &self,
        states: &TableStates,
        compare: &mut dyn FnMut(&ComparedTables) -> LedgerResult<Donation>,
    ) -> LedgerResult<(Donation, TableRanges)> {
        let mut listed = self.differing.clone();
        for round in 1..=ROUNDS_MAX {
            let donated = compare(&self.compared(states, &listed))?;
            let unlisted = donated.tables.iter().filter(|table| !table.unlisted.is_empty());
            let mut is_complete = true;
            for DonatedRows { table, unlisted, .. } in unlisted {
                is_complete = false;
                let ranges = listed.entry(table.clone()).or_default();
                if unlisted.iter().any(|range| *range >= HASH_RANGES || ranges.contains(range)) {
                    let reason = format!("hash ranges of \"{table}\" are named that are none or were listed");
                    return Err(LedgerError::Malformed(reason));
                }
                match round <= NAMED_ROUNDS {
                    true => ranges.extend(unlisted),
                    false => ranges.extend(0..HASH_RANGES),
                }
            }
            if is_complete {
                return Ok((donated, listed));
            }
        }
        Err(LedgerError::Missing("the donor's blocks come faster than rows are compared; try again".into()))
    }
}

/// Rows of a donor beside those that another member has listed.
struct RowMatch<'a> {
    table: &'a SharedTable,
    listed: &'a BTreeMap<usize, RowHashes>,
    /// Listed rows that the donor has not shown yet.
    others: HashMap<&'a [u8], LedgerHash>,
    sums: Vec<SecretSum>,
    differing: Vec<(Vec<u8>, Vec<Content>)>,
}

impl<'a> RowMatch<'a> {
    fn new(table: &'a SharedTable, listed: &'a BTreeMap<usize, RowHashes>) -> RowMatch<'a> {
        let others = listed.values().flatten().map(|(key, hash)| (&key[..], *hash)).collect();
        RowMatch {
            table,
            listed,
            others,
            sums: vec![SecretSum::default(); HASH_RANGES],
            differing: Vec::new(),
        }
    }

    fn show(&mut self, row: Vec<Content>) {
        let key = self.table.key_bytes(&row);
        let range = hash_range(&key);
        if !self.listed.contains_key(&range) {
            return;
        }
        let hash = row_hash(&row);
        self.sums[range].add(&hash);
        if self.others.remove(&key[..]) != Some(hash) {
            self.differing.push((key, row));
        }
    }

    /// Whether the rows that were shown are all of the listed ranges.
    fn is_whole(&self, sums: &TableSums) -> bool {
        self.listed.keys().all(|range| sums.secret_sum(*range) == self.sums[*range])
    }

    fn donated(self) -> DonatedRows {
        let mut keys: Vec<Vec<u8>> = self.differing.iter().map(|(key, _)| key.clone()).collect();
        keys.extend(self.others.keys().map(|key| key.to_vec()));
        keys.sort();
        let rows = self.differing.into_iter().map(|(_, row)| row).collect();
        DonatedRows { table: self.table.name.clone(), keys, rows, ..DonatedRows::default() }
    }
}

/// The rows of the listed ranges that a donor has differently. They are sought by the listed keys first: where the other member
/// has none too few, that is all.
fn compare_listed(
    source: &mut dyn RowSource,
    table: &SharedTable,
    sums: &TableSums,
    listed: &BTreeMap<usize, RowHashes>,
) -> LedgerResult<DonatedRows> {
    let keys: Vec<Vec<u8>> = listed.values().flatten().map(|(key, _)| key.clone()).collect();
    if keys.len() <= KEYS_READ_MAX {
        let mut found = RowMatch::new(table, listed);
        source.read(table, &keys)?.into_iter().for_each(|row| found.show(row));
        if found.is_whole(sums) {
            return Ok(found.donated());
        }
    }
    let mut found = RowMatch::new(table, listed);
    source.visit_rows(table, &mut |row| {
        found.show(row);
        Ok(())
    })?;
    if !found.is_whole(sums) {
        let reason =
            format!("the donor's own rows of \"{}\" are not what its last block certifies", table.name);
        return Err(LedgerError::Missing(reason));
    }
    Ok(found.donated())
}

/// A donor's answer to another member, of a source with the rows of these states, which are those of a block.
///
/// # Errors
/// [`LedgerError::Database`]; [`LedgerError::Missing`] if the source has other rows than the states say.
pub fn compare_rows(
    source: &mut dyn RowSource,
    height: u64,
    states: &TableStates,
    others: &ComparedTables,
) -> LedgerResult<Donation> {
    let nothing = ComparedTable::default();
    let mut donation = Donation { height, tables: Vec::new() };
    for (name, sums) in &states.sums {
        let other = others.get(name).unwrap_or(&nothing);
        let is_equal = |(at, hash): (usize, &LedgerHash)| {
            other.listed.contains_key(&at) || *hash == other.range_hashes.get(at).copied().unwrap_or_default()
        };
        let hashes = sums.range_hashes();
        let unlisted = hashes.iter().enumerate().filter(|range| !is_equal(*range)).map(|(at, _)| at);
        let unlisted = unlisted.collect();
        donation.tables.push(DonatedRows { table: name.clone(), unlisted, ..DonatedRows::default() });
    }
    if donation.tables.iter().any(|table| !table.unlisted.is_empty()) {
        return Ok(donation);
    }
    for donated in &mut donation.tables {
        let listed = others.get(&donated.table).map(|other| &other.listed);
        let pair = states.tables.get(&donated.table).zip(states.sums.get(&donated.table));
        if let Some(((table, sums), listed)) = pair.zip(listed.filter(|listed| !listed.is_empty())) {
            *donated = compare_listed(source, table, sums, listed)?;
        }
    }
    Ok(donation)
}

/// What the tables add up to with a donor's rows in the place of those that differ. The ranges that were listed are added up
/// anew, of own rows that were read and of the donor's; those that were not are what the states say, as reading has shown.
///
/// # Errors
/// [`LedgerError::Malformed`] if the donation has a table that is none of these, rows that do not fit, or rows of ranges that
/// were not listed.
pub fn with_donated_rows(
    states: &TableStates,
    tables: &BTreeMap<String, SharedTable>,
    own: &OwnRows,
    listed: &TableRanges,
    donation: &Donation,
) -> LedgerResult<TableStates> {
    let mut found = states.clone();
    tables
        .values()
        .filter(|table| !states.tables.contains_key(&table.name))
        .for_each(|table| found.define(table.clone()));
    if let Some(other) = donation.tables.iter().find(|donated| !tables.contains_key(&donated.table)) {
        return Err(LedgerError::Malformed(format!("rows for \"{}\", no shared table", other.table)));
    }
    for (name, table) in tables {
        let (mut keys, mut rows) = (BTreeSet::new(), BTreeMap::new());
        for donated in donation.tables.iter().filter(|donated| donated.table == *name) {
            keys.extend(donated.keys.iter().map(Vec::as_slice));
            for row in &donated.rows {
                if row.len() != table.columns.len() {
                    return Err(LedgerError::Malformed(format!("a row for \"{name}\" has other columns")));
                }
                rows.insert(table.key_bytes(row), row_hash(row));
            }
            let is_listed =
                |key: &&[u8]| listed.get(name).is_some_and(|ranges| ranges.contains(&hash_range(key)));
            let fits = donated.rows.len() == rows.len() && rows.keys().all(|key| keys.contains(&key[..]));
            if !fits || !keys.iter().all(is_listed) {
                return Err(LedgerError::Malformed(format!("rows for \"{name}\" that were not asked for")));
            }
        }
        let sums = found.sums.entry(name.clone()).or_default();
        for range in listed.get(name).into_iter().flatten() {
            sums.empty_range(*range);
            let kept = own.rows(name, *range).iter().filter(|(key, _)| !keys.contains(&key[..]));
            kept.for_each(|(key, hash)| sums.add(key, hash));
        }
        rows.iter().for_each(|(key, hash)| sums.add(key, hash));
    }
    Ok(found)
}
