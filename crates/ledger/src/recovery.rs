//! Recovery of a member that has other effects than the quorum (section 4.4): its classes, and recovery from a state. Those
//! that execute blocks again are in [`crate::replay`].
//!
//! The dissertation's *recovery from a state* overwrites the effect with that of a consenting member and has to trust it. Here
//! the state is certified: after a repair the member reads its own tables, and commits them only if they add up to the state in
//! the header that has the quorum. So any donor will do, and one that lies is found. Only rows that differ are touched.

use crate::chain::{CheckedOrder, LedgerChain};
use crate::change::{TableStates, show_key};
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::fingerprint::Fingerprint;
use crate::hash::LedgerHash;
use crate::member::Member;
use crate::member::snapshot::MemberSnapshot;
use crate::organization::{Organization, scan_states};
use crate::value::{Content, row_hash, show_content};
use crate::verify::{CertifiedBlock, visit_blocks};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How a member whose tables are not what the others have comes back: the six classes of Table 4.1, by what they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryClass {
    /// It does not.
    None,
    /// From the state of a consenting member.
    FromState,
    /// By executing all blocks again, one transaction after the other.
    FullReplay,
    /// By executing the blocks after a checkpoint again.
    PartialReplay,
    /// As a full replay, without what is overwritten and over several connections.
    OptimizedFullReplay,
    /// As a partial replay, without what is overwritten and over several connections.
    OptimizedPartialReplay,
}

impl RecoveryClass {
    /// All of them.
    pub const ALL: [RecoveryClass; 6] = [
        RecoveryClass::None,
        RecoveryClass::FromState,
        RecoveryClass::FullReplay,
        RecoveryClass::PartialReplay,
        RecoveryClass::OptimizedFullReplay,
        RecoveryClass::OptimizedPartialReplay,
    ];

    /// The words of configurations and commands, in the order of [`RecoveryClass::ALL`].
    pub const WORDS: [&str; 6] = [
        "none",
        "state",
        "full-replay",
        "partial-replay",
        "optimized-full-replay",
        "optimized-partial-replay",
    ];

    /// The class that a word names.
    pub fn parse(word: &str) -> Option<RecoveryClass> {
        let at = RecoveryClass::WORDS.iter().position(|own| *own == word)?;
        Some(RecoveryClass::ALL[at])
    }

    /// Whether it executes blocks again.
    pub fn is_replay(self) -> bool {
        !matches!(self, RecoveryClass::None | RecoveryClass::FromState)
    }

    /// Whether it begins with a checkpoint.
    pub fn is_partial(self) -> bool {
        matches!(self, RecoveryClass::PartialReplay | RecoveryClass::OptimizedPartialReplay)
    }

    /// Whether it leaves out what is overwritten.
    pub fn is_optimized(self) -> bool {
        matches!(self, RecoveryClass::OptimizedFullReplay | RecoveryClass::OptimizedPartialReplay)
    }
}

impl fmt::Display for RecoveryClass {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = RecoveryClass::ALL.iter().position(|class| class == self).unwrap_or_default();
        to.write_str(RecoveryClass::WORDS[at])
    }
}

/// A row that was repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairedRow {
    /// Of which table.
    pub table: String,
    /// Its key, for people.
    pub key: String,
    /// What it was.
    pub was: String,
    /// What it is.
    pub is: String,
}

/// A row that is not what the ledger certifies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferingRow {
    /// Of which table.
    pub table: String,
    /// Its key, for people.
    pub key: String,
    /// What it is.
    pub is: String,
    /// What is certified.
    pub certified: String,
}

/// What a recovery has done.
#[derive(Debug, Clone, Default)]
pub struct RecoveryReport {
    /// Rows that were compared, or loaded from a checkpoint.
    pub rows: usize,
    /// Those that were not what they should be; after a full replay none are named.
    pub repaired: Vec<RepairedRow>,
    /// Blocks that were taken over.
    pub adopted: u64,
    /// Blocks that were executed again.
    pub replayed: u64,
    /// The block of the checkpoint that a replay has begun with.
    pub checkpoint: Option<u64>,
    /// Checkpoints that did not do, the newest first, and why.
    pub passed_over: Vec<String>,
    /// Statements that an optimized replay has read.
    pub statements: u64,
    /// Those of them that it has left out, because later ones overwrite what they write.
    pub dropped: u64,
    /// Over how many connections an optimized replay has executed at once.
    pub connections: usize,
}

impl RecoveryReport {
    /// What a replay has done, for people; nothing if none of it was one.
    pub fn show_replay(&self) -> Option<String> {
        let RecoveryReport { replayed, rows, statements, dropped, connections, .. } = self;
        let mut text = match self.checkpoint {
            Some(height) => format!("{rows} rows loaded from the checkpoint of block {height}, "),
            None if *replayed == 0 => return None,
            None => String::new(),
        };
        text.push_str(&format!("{replayed} blocks executed again"));
        if *statements > 0 {
            let optimized =
                format!(", {dropped} of {statements} statements left out, {connections} connections");
            text.push_str(&optimized);
        }
        for line in &self.passed_over {
            text.push_str(&format!("; {line}"));
        }
        Some(text)
    }
}

/// Keys of rows that two members have differently.
type Differences = (usize, Vec<Vec<u8>>);

fn differences(own: &[(Vec<u8>, LedgerHash)], others: &[(Vec<u8>, LedgerHash)]) -> Differences {
    let mut rows: BTreeMap<&[u8], (Option<LedgerHash>, Option<LedgerHash>)> = BTreeMap::new();
    for (key, hash) in own {
        rows.entry(key).or_default().0 = Some(*hash);
    }
    for (key, hash) in others {
        rows.entry(key).or_default().1 = Some(*hash);
    }
    let differing = rows.iter().filter(|(_, (own, other))| own != other);
    (rows.len(), differing.map(|(key, _)| key.to_vec()).collect())
}

fn rows_by_key(table: &SharedTable, rows: &[Vec<Content>]) -> BTreeMap<Vec<u8>, Vec<Content>> {
    let fits = rows.iter().filter(|row| row.len() == table.columns.len());
    fits.map(|row| (table.key_bytes(row), row.clone())).collect()
}

fn show_row(rows: &BTreeMap<Vec<u8>, Vec<Content>>, key: &[u8]) -> String {
    let shown = rows.get(key).map(|row| row.iter().map(show_content).collect::<Vec<_>>().join(", "));
    shown.map_or("no row".to_owned(), |row| format!("({row})"))
}

/// Keys and hashes of a table's rows.
pub type RowHashes = Vec<(Vec<u8>, LedgerHash)>;

/// Rows of a table that a donor has and another member has differently.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DonatedRows {
    /// Of which table.
    pub table: String,
    /// How many rows were compared.
    pub compared: usize,
    /// The keys of those that differ.
    pub keys: Vec<Vec<u8>>,
    /// The donor's rows with these keys; keys without a row are to be deleted.
    pub rows: Vec<Vec<Content>>,
}

/// What a donor answers to the hashes of another member's rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Donation {
    /// The block after which its tables are what it compared.
    pub height: u64,
    /// By table.
    pub tables: Vec<DonatedRows>,
}

/// A member whose rows and blocks another one takes over, in this process or behind a network. Nothing that it says is
/// believed.
pub trait Donor {
    /// Its name, for people.
    fn name(&self) -> String;

    /// Its blocks above a height up to another one, at least the next one if it has that. They are not verified.
    ///
    /// # Errors
    /// [`LedgerError::File`] or what its transport says.
    fn certified_blocks(&mut self, above: u64, to: u64) -> LedgerResult<Vec<CertifiedBlock>>;

    /// Compares its rows with those of another member.
    ///
    /// # Errors
    /// [`LedgerError::Database`] or what its transport says.
    fn compare(&mut self, own: &BTreeMap<String, RowHashes>) -> LedgerResult<Donation>;
}

impl Donor for Organization {
    fn name(&self) -> String {
        Organization::name(self).to_owned()
    }

    fn certified_blocks(&mut self, above: u64, to: u64) -> LedgerResult<Vec<CertifiedBlock>> {
        let mut found = Vec::new();
        visit_blocks(self.path(), above, &mut |certified| {
            found.extend(Some(certified).filter(|(block, _)| block.header.height <= to));
            Ok(())
        })?;
        Ok(found)
    }

    /// A block that is open is rolled back: the rows are those after the last block.
    fn compare(&mut self, own: &BTreeMap<String, RowHashes>) -> LedgerResult<Donation> {
        self.abandon();
        let mut tables = Vec::new();
        for table in self.chain.tables.values() {
            let others = own.get(&table.name).map_or(&[][..], Vec::as_slice);
            let (compared, keys) = differences(others, &self.member.scan(table)?);
            let rows = if keys.is_empty() { Vec::new() } else { self.member.read(table, &keys)? };
            tables.push(DonatedRows { table: table.name.clone(), compared, keys, rows });
        }
        Ok(Donation { height: self.chain.height, tables })
    }
}

/// Compares the rows of a donor's snapshot with those of another member, as [`Donor::compare`] does: for a thread beside the one
/// that executes blocks. Tables that differ are read twice; keys and hashes of one table are in memory, and rows that differ.
///
/// # Errors
/// [`LedgerError::Database`].
pub fn compare_snapshot(
    snapshot: &mut MemberSnapshot,
    tables: &BTreeMap<String, SharedTable>,
    others: &BTreeMap<String, RowHashes>,
) -> LedgerResult<Donation> {
    let mut donated = Vec::new();
    for table in tables.values() {
        let mut own = Vec::new();
        snapshot.visit_rows(table, &mut |row| {
            own.push((table.key_bytes(&row), row_hash(&row)));
            Ok(())
        })?;
        let others = others.get(&table.name).map_or(&[][..], Vec::as_slice);
        let (compared, keys) = differences(others, &own);
        drop(own);
        let mut rows = Vec::new();
        if !keys.is_empty() {
            let wanted: BTreeSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            snapshot.visit_rows(table, &mut |row| {
                rows.extend(Some(row).filter(|row| wanted.contains(&table.key_bytes(row)[..])));
                Ok(())
            })?;
        }
        donated.push(DonatedRows { table: table.name.clone(), compared, keys, rows });
    }
    Ok(Donation { height: snapshot.height(), tables: donated })
}

/// Makes the rows of one table those of the donor, inside of an open block.
fn repair_table(
    own: &mut dyn Member,
    table: &SharedTable,
    donated: &DonatedRows,
    report: &mut RecoveryReport,
) -> LedgerResult<()> {
    report.rows += donated.compared;
    let DonatedRows { keys, rows, .. } = donated;
    if keys.is_empty() {
        return Ok(());
    }
    if rows.iter().any(|row| row.len() != table.columns.len()) {
        return Err(LedgerError::Malformed(format!("a row for \"{}\" has other columns", table.name)));
    }
    let (was, is) = (rows_by_key(table, &own.read(table, keys)?), rows_by_key(table, rows));
    own.repair(table, keys, rows)?;
    for key in keys {
        report.repaired.push(RepairedRow {
            table: table.name.clone(),
            key: show_key(key, Some(table)),
            was: show_row(&was, key),
            is: show_row(&is, key),
        });
    }
    Ok(())
}

/// The tables of a member after those of a donor were taken over inside of an open block, if they add up to a certified state.
fn transfer(
    own: &mut dyn Member,
    donated: &Donation,
    chain: &LedgerChain,
    donor: &str,
) -> LedgerResult<(RecoveryReport, TableStates)> {
    let mut report = RecoveryReport::default();
    for donated in &donated.tables {
        let Some(table) = chain.tables.get(&donated.table) else {
            return Err(LedgerError::Malformed(format!("rows for \"{}\", no shared table", donated.table)));
        };
        repair_table(own, table, donated, &mut report)?;
    }
    // What was changed behind the ledger's back may have left digests.
    own.take_changes()?;
    let states = scan_states(own, chain)?;
    if chain.state != Some(states.hash()) {
        let (have, need) = (states.hash().short(), chain.state.unwrap_or_default().short());
        let reason =
            format!("the rows of {donor} add up to {have}, and block {} certifies {need}", chain.height);
        return Err(LedgerError::Untrusted(reason));
    }
    Ok((report, states))
}

/// Blocks of a donor that are not in a chain yet, verified.
#[derive(Default)]
pub(crate) struct MissingBlocks(pub(crate) Vec<(CertifiedBlock, CheckedOrder)>);

impl MissingBlocks {
    /// Takes over the blocks up to a height, and brings the chain there.
    pub(crate) fn fetch(
        &mut self,
        chain: &mut LedgerChain,
        donor: &mut dyn Donor,
        to: u64,
    ) -> LedgerResult<()> {
        while chain.height < to {
            let blocks = donor.certified_blocks(chain.height, to)?;
            if blocks.is_empty() {
                return Ok(());
            }
            for certified in blocks {
                let (block, votes) = &certified;
                let checked = chain.check(&block.order)?;
                chain.check_header(&checked, &block.header)?;
                chain.check_votes(&block.header, votes)?;
                chain.advance(&checked, &block.header);
                self.0.push((certified, checked));
            }
        }
        Ok(())
    }
}

impl Organization {
    /// Keys and hashes of all rows of the shared tables, those that an open block has changed included.
    fn row_hashes(&mut self) -> LedgerResult<BTreeMap<String, RowHashes>> {
        let mut found = BTreeMap::new();
        for table in self.chain.tables.values() {
            found.insert(table.name.clone(), self.member.scan(table)?);
        }
        Ok(found)
    }

    /// The rows that are not what the last block certifies, by comparing them with those of a donor that has as many blocks.
    /// Nothing is changed, and the donor is not trusted: with its rows in their place the tables add up to what the blocks have
    /// made of them. Reads all rows; an open block is rolled back.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] if the donor has another block, [`LedgerError::Untrusted`] if its rows do not add up;
    /// [`LedgerError::Database`], and what the donor says.
    pub fn differing_rows(&mut self, donor: &mut dyn Donor) -> LedgerResult<Vec<DifferingRow>> {
        self.abandon();
        let own_rows = self.row_hashes()?;
        let donated = donor.compare(&own_rows)?;
        if donated.height != self.chain.height {
            let (theirs, own) = (donated.height, self.chain.height);
            return Err(LedgerError::Missing(format!("{} has {theirs} blocks, and not {own}", donor.name())));
        }
        let mut found = Vec::new();
        for table in self.chain.tables.values() {
            let mut fingerprint = Fingerprint::default();
            own_rows.get(&table.name).into_iter().flatten().for_each(|(_, row)| fingerprint.add(row));
            let donated = donated.tables.iter().filter(|donated| donated.table == table.name);
            for DonatedRows { keys, rows, .. } in donated.filter(|donated| !donated.keys.is_empty()) {
                let (is, certified) =
                    (rows_by_key(table, &self.member.read(table, keys)?), rows_by_key(table, rows));
                keys.iter().filter_map(|key| is.get(key)).for_each(|row| fingerprint.remove(&row_hash(row)));
                keys.iter()
                    .filter_map(|key| certified.get(key))
                    .for_each(|row| fingerprint.add(&row_hash(row)));
                found.extend(keys.iter().map(|key| DifferingRow {
                    table: table.name.clone(),
                    key: show_key(key, Some(table)),
                    is: show_row(&is, key),
                    certified: show_row(&certified, key),
                }));
            }
            if self.states.fingerprints.get(&table.name) != Some(&fingerprint) {
                let reason = format!("the rows of {} in \"{}\" are not certified", donor.name(), table.name);
                return Err(LedgerError::Untrusted(reason));
            }
        }
        Ok(found)
    }

    /// Takes over the blocks that it has not, and the state after them, from a donor that has them. Without such blocks it
    /// repairs the rows that differ from what the last one certifies.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] if the donor's blocks are not certified or its rows are not what they certify: nothing has
    /// changed then. [`LedgerError::Database`], [`LedgerError::File`].
    pub fn recover_from_state(&mut self, donor: &mut dyn Donor) -> LedgerResult<RecoveryReport> {
        self.audits.iter_mut().for_each(|audits| audits.give_up(false));
        self.gather_open_block()?;
        let own_rows = self.row_hashes()?;
        let donated = donor.compare(&own_rows)?;
        if donated.height < self.chain.height {
            let reason = format!("{} has {} blocks only", donor.name(), donated.height);
            return Err(LedgerError::Missing(reason));
        }
        let (mut chain, mut missing) = (self.chain.clone(), MissingBlocks::default());
        missing.fetch(&mut chain, donor, donated.height)?;
        if chain.state.is_none() {
            return Ok(RecoveryReport::default());
        }
        if chain.height != donated.height {
            let reason = format!("{} has no block {} of those it names", donor.name(), chain.height + 1);
            return Err(LedgerError::Untrusted(reason));
        }
        let new_tables = chain.tables.values().filter(|table| !self.chain.tables.contains_key(&table.name));
        let new_tables: Vec<SharedTable> = new_tables.cloned().collect();
        if !new_tables.is_empty() && self.has_open_block() {
            // Tables are made outside of a block, and without it the rows are others than those that were compared.
            self.abandon();
            return self.recover_from_state(donor);
        }
        for table in &new_tables {
            self.member.create_table(table)?;
        }
        // Where the member was outvoted its own block is open, and most of its rows are what they should be.
        if !self.take_open_block() {
            self.member.begin()?;
        }
        let found = transfer(self.member.as_mut(), &donated, &chain, &donor.name());
        let (mut report, states) = found.inspect_err(|_| drop(self.member.rollback()))?;
        self.is_behind = true;
        for (certified, checked) in &missing.0 {
            self.adopt(certified, checked)?;
        }
        self.member.commit(self.chain.height)?;
        self.is_behind = false;
        self.states = states;
        self.suspects.clear();
        report.adopted = missing.0.len() as u64;
        Ok(report)
    }
}
