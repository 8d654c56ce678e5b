//! Recovery of a member that has other effects than the quorum (section 4.4): its classes, and recovery from a state. Those
//! that execute blocks again are in [`crate::replay`].
//!
//! The dissertation's *recovery from a state* overwrites the effect with that of a consenting member and has to trust it. Here
//! the state is certified: what the own rows and the donor's add up to has to be the state in the header that has the quorum,
//! before anything is written. So any donor will do, and one that lies is found. Own tables are read once; of the donor's only the
//! hash ranges that differ ([`crate::comparison`]), and only rows that differ are touched. However many these are, neither all of
//! them nor a message with them are in memory.

use crate::chain::{CheckedOrder, LedgerChain};
use crate::change::{RowChange, TableStates, show_key};
use crate::comparison::{
    ComparedRanges, ComparisonLimits, DonatedRows, DonationVisitor, ListedRows, OwnRows, RangeHashes,
    range_hashes,
};
use crate::definition::SharedTable;
use crate::donation::{compare_ranges, compare_rows};
use crate::error::{LedgerError, LedgerResult};
use crate::member::Member;
use crate::organization::Organization;
use crate::value::{Content, show_content};
use crate::verify::{CertifiedBlock, visit_blocks};
use crate::waiting_rows::WaitingRows;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

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

/// The rows that are not what the ledger certifies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DifferingRows {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub rows: Vec<DifferingRow>,
}

/// What a recovery has done.
#[derive(Debug, Clone, Default)]
pub struct RecoveryReport {
    /// Own rows that were read, or those that were loaded from a checkpoint.
    pub rows: usize,
    /// How many were not what they should be; after a full replay this is not counted.
    pub differing: u64,
    /// The first of them.
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

fn rows_by_key(table: &SharedTable, rows: &[Vec<Content>]) -> BTreeMap<Vec<u8>, Vec<Content>> {
    let fits = rows.iter().filter(|row| row.len() == table.columns.len());
    fits.map(|row| (table.key_bytes(row), row.clone())).collect()
}

fn show_row(rows: &BTreeMap<Vec<u8>, Vec<Content>>, key: &[u8]) -> String {
    let shown = rows.get(key).map(|row| row.iter().map(show_content).collect::<Vec<_>>().join(", "));
    shown.map_or("no row".to_owned(), |row| format!("({row})"))
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

    /// Begins to compare its rows as they are now with those of another member, and says in which ranges they differ.
    ///
    /// # Errors
    /// [`LedgerError::Database`] or what its transport says.
    fn begin_comparison(&mut self, own: &RangeHashes) -> LedgerResult<ComparedRanges>;

    /// Gives the rows of listed ranges in which it differs as it was when the comparison began, some at a time.
    ///
    /// # Errors
    /// [`LedgerError::Database`] or what its transport says; [`LedgerError::Missing`] if its own rows are not what its last
    /// block certifies; and that of `take`.
    fn compare(&mut self, listed: ListedRows, take: &mut DonationVisitor<'_>) -> LedgerResult<()>;

    /// Nothing more will be compared.
    fn end_comparison(&mut self);
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
    fn begin_comparison(&mut self, own: &RangeHashes) -> LedgerResult<ComparedRanges> {
        self.abandon();
        self.member.begin()?;
        Ok(compare_ranges(self.chain.height, &self.states, own))
    }

    fn compare(&mut self, listed: ListedRows, take: &mut DonationVisitor<'_>) -> LedgerResult<()> {
        let limit = ComparisonLimits::default().donated;
        compare_rows(self.member.as_mut(), &self.states, &listed, limit, take)
    }

    fn end_comparison(&mut self) {
        // Where that fails the connection is gone, and the next statement says so.
        let _ = self.member.rollback();
    }
}

/// Rows of a repair that a report names.
const ROWS_NAMED_MAX: usize = 1000;

/// Makes the rows of one table those of the donor, inside of an open block, and reads them again.
fn repair_table(
    own: &mut dyn Member,
    table: &SharedTable,
    donated: &DonatedRows,
    report: &mut RecoveryReport,
) -> LedgerResult<()> {
    let DonatedRows { keys, rows, .. } = donated;
    let (was, is) = (rows_by_key(table, &own.read(table, keys)?), rows_by_key(table, rows));
    own.repair(table, keys, rows)?;
    if rows_by_key(table, &own.read(table, keys)?) != is {
        let reason = format!("table \"{}\" has other rows than those that were just written", table.name);
        return Err(LedgerError::database(own.system(), reason));
    }
    report.differing += keys.len() as u64;
    for key in keys.iter().take(ROWS_NAMED_MAX.saturating_sub(report.repaired.len())) {
        report.repaired.push(RepairedRow {
            table: table.name.clone(),
            key: show_key(key, Some(table)),
            was: show_row(&was, key),
            is: show_row(&is, key),
        });
    }
    Ok(())
}

/// Writes rows of a donor, of which is known what they add up to, inside of an open block. Triggers of others that write more than
/// these rows leave digests, and are found by them.
fn write_donated(
    own: &mut dyn Member,
    tables: &BTreeMap<String, SharedTable>,
    waiting: &mut WaitingRows,
) -> LedgerResult<RecoveryReport> {
    // What was changed behind the ledger's back may have left digests.
    own.take_changes()?;
    let mut report = RecoveryReport::default();
    waiting.visit(tables, &mut |table, donated| {
        repair_table(own, table, donated, &mut report)?;
        let keys: HashSet<&[u8]> = donated.keys.iter().map(Vec::as_slice).collect();
        let is_written = |change: &RowChange| change.table == table.name && keys.contains(&change.key[..]);
        let changes = own.take_changes()?;
        if let Some(other) = changes.iter().find(|change| !is_written(change)) {
            let shown = other.show(tables.get(&other.table));
            let reason = format!("while rows were repaired another one was changed: {shown}");
            return Err(LedgerError::database(own.system(), reason));
        }
        Ok(())
    })?;
    Ok(report)
}

/// A comparison with a donor: the donor's rows that differ, and what the tables add up to with them.
struct ComparedRows {
    waiting: WaitingRows,
    states: TableStates,
    /// How many own rows were read.
    read: usize,
}

impl ComparedRows {
    /// Whether what the tables add up to with the donor's rows is what the last block of a chain certifies.
    fn check_certified(&self, chain: &LedgerChain, donor: &str) -> LedgerResult<()> {
        if chain.state == Some(self.states.hash()) {
            return Ok(());
        }
        let (have, need) = (self.states.hash().short(), chain.state.unwrap_or_default().short());
        let reason =
            format!("the rows of {donor} add up to {have}, and block {} certifies {need}", chain.height);
        Err(LedgerError::Untrusted(reason))
    }
}

/// What a repair takes over: the blocks up to a donor's, the chain with them, and rows that add up to what it certifies.
struct RepairPlan {
    chain: LedgerChain,
    missing: MissingBlocks,
    compared: ComparedRows,
}

/// Own rows, read inside of a transaction that is open then, and what they should add up to.
struct ReadRows {
    own: OwnRows,
    states: TableStates,
}

impl ReadRows {
    /// Asks a donor for the rows that differ. It has the `tables` of its block.
    fn compare(
        mut self,
        ranges: &ComparedRanges,
        tables: &BTreeMap<String, SharedTable>,
        donor: &mut dyn Donor,
        path: &Path,
    ) -> LedgerResult<ComparedRows> {
        let limits = ComparisonLimits::default();
        let mut waiting = WaitingRows::new(path, limits.kept);
        let states = self.own.compare(
            &self.states,
            tables,
            &ranges.differing,
            &limits,
            &mut |listed, take| donor.compare(listed, take),
            &mut |donated| waiting.add(donated),
        )?;
        Ok(ComparedRows { waiting, states, read: self.own.count })
    }
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
    /// Reads all of its rows, those that an open block has changed included, inside of a transaction that is open then: that of
    /// the block if there is one.
    fn read_rows(&mut self) -> LedgerResult<ReadRows> {
        let states = match self.last_executed().filter(|_| self.has_open_block()) {
            Some(executed) => executed.states().clone(),
            None => self.states.clone(),
        };
        if !self.has_open_block() {
            self.member.begin()?;
        }
        let own = OwnRows::read(self.member.as_mut(), &states)?;
        Ok(ReadRows { own, states })
    }

    /// Where rows of a donor wait.
    fn waiting_path(&self) -> PathBuf {
        self.path().with_extension("repair")
    }

    /// Takes back the transaction in which rows were read, where that is not the one of an open block.
    fn end_reading(&mut self) {
        if !self.has_open_block() {
            // Where that fails the connection is gone, and the next statement says so.
            let _ = self.member.rollback();
        }
    }

    /// The rows that are not what the last block certifies, by comparing them with those of a donor that has as many blocks.
    /// Nothing is changed, and the donor is not trusted: with its rows in their place the tables add up to what the blocks have
    /// made of them. Reads all rows; an open block is rolled back.
    ///
    /// # Errors
    /// [`LedgerError::Missing`] if the donor has another block, [`LedgerError::Untrusted`] if its rows do not add up;
    /// [`LedgerError::Database`], and what the donor says.
    pub fn differing_rows(&mut self, donor: &mut dyn Donor) -> LedgerResult<DifferingRows> {
        self.abandon();
        let found = self.find_differing_rows(donor);
        donor.end_comparison();
        self.end_reading();
        found
    }

    fn find_differing_rows(&mut self, donor: &mut dyn Donor) -> LedgerResult<DifferingRows> {
        let read = self.read_rows()?;
        let ranges = donor.begin_comparison(&range_hashes(&read.states))?;
        if ranges.height != self.chain.height {
            let (theirs, own) = (ranges.height, self.chain.height);
            return Err(LedgerError::Missing(format!("{} has {theirs} blocks, and not {own}", donor.name())));
        }
        let mut compared = read.compare(&ranges, &self.chain.tables, donor, &self.waiting_path())?;
        compared.check_certified(&self.chain, &donor.name())?;
        let (mut found, member) = (DifferingRows::default(), self.member.as_mut());
        compared.waiting.visit(&self.chain.tables, &mut |table, DonatedRows { keys, rows, .. }| {
            found.count += keys.len() as u64;
            let named = &keys[..keys.len().min(ROWS_NAMED_MAX.saturating_sub(found.rows.len()))];
            if named.is_empty() {
                return Ok(());
            }
            let (is, certified) = (rows_by_key(table, &member.read(table, named)?), rows_by_key(table, rows));
            found.rows.extend(named.iter().map(|key| DifferingRow {
                table: table.name.clone(),
                key: show_key(key, Some(table)),
                is: show_row(&is, key),
                certified: show_row(&certified, key),
            }));
            Ok(())
        })?;
        Ok(found)
    }

    /// Takes over the blocks that it has not, and the state after them, from a donor that has them. Without such blocks it
    /// repairs the rows that differ from what the last one certifies. Reads its own tables once.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] if the donor's blocks are not certified or its rows are not what they certify: nothing has
    /// changed then. [`LedgerError::Database`], [`LedgerError::File`].
    pub fn recover_from_state(&mut self, donor: &mut dyn Donor) -> LedgerResult<RecoveryReport> {
        self.audits.iter_mut().for_each(|audits| audits.give_up(false));
        self.gather_open_block()?;
        // Where the member was outvoted its own block is open, and most of its rows are what they should be.
        let compared = self.compare_for_repair(donor);
        donor.end_comparison();
        let compared = compared.inspect_err(|_| self.end_reading())?;
        let Some(plan) = compared else {
            self.end_reading();
            return Ok(RecoveryReport::default());
        };
        let new_tables = self.new_tables(&plan.chain);
        if !new_tables.is_empty() && self.has_open_block() {
            // Tables are made outside of a block, and without it the rows are others than those that were compared.
            self.abandon();
            return self.recover_from_state(donor);
        }
        self.take_over(plan, &new_tables)
    }

    fn new_tables(&self, chain: &LedgerChain) -> Vec<SharedTable> {
        let new = chain.tables.values().filter(|table| !self.chain.tables.contains_key(&table.name));
        new.cloned().collect()
    }

    /// The chain at a donor's block, the blocks up to that, and its rows that differ, which add up to what it certifies. Nothing
    /// without a block.
    fn compare_for_repair(&mut self, donor: &mut dyn Donor) -> LedgerResult<Option<RepairPlan>> {
        let read = self.read_rows()?;
        let ranges = donor.begin_comparison(&range_hashes(&read.states))?;
        let (chain, missing) = self.fetch_donated_blocks(donor, ranges.height)?;
        if chain.state.is_none() {
            return Ok(None);
        }
        let compared = read.compare(&ranges, &chain.tables, donor, &self.waiting_path())?;
        compared.check_certified(&chain, &donor.name())?;
        Ok(Some(RepairPlan { chain, missing, compared }))
    }

    /// Writes rows that are certified, and takes over blocks.
    fn take_over(&mut self, plan: RepairPlan, new_tables: &[SharedTable]) -> LedgerResult<RecoveryReport> {
        let RepairPlan { chain, missing, mut compared } = plan;
        if !new_tables.is_empty() {
            self.end_reading();
            new_tables.iter().try_for_each(|table| self.member.create_table(table))?;
            self.member.begin()?;
        }
        self.take_open_block();
        let written = write_donated(self.member.as_mut(), &chain.tables, &mut compared.waiting);
        let report = written.inspect_err(|_| drop(self.member.rollback()))?;
        self.is_behind = true;
        for (certified, checked) in &missing.0 {
            self.adopt(certified, checked)?;
        }
        self.member.commit(self.chain.height)?;
        self.is_behind = false;
        self.states = compared.states;
        self.suspects.clear();
        // Rows that changed while the tables were read would be found by the next vote on them; so they are found at once.
        self.audits.iter_mut().for_each(|audits| audits.hasten());
        Ok(RecoveryReport { rows: compared.read, adopted: missing.0.len() as u64, ..report })
    }

    /// The blocks of a donor up to that of its rows, verified, and the chain with them.
    fn fetch_donated_blocks(
        &self,
        donor: &mut dyn Donor,
        height: u64,
    ) -> LedgerResult<(LedgerChain, MissingBlocks)> {
        if height < self.chain.height {
            let reason = format!("{} has {height} blocks only", donor.name());
            return Err(LedgerError::Missing(reason));
        }
        let (mut chain, mut missing) = (self.chain.clone(), MissingBlocks::default());
        missing.fetch(&mut chain, donor, height)?;
        if chain.height != height {
            let reason = format!("{} has no block {} of those it names", donor.name(), chain.height + 1);
            return Err(LedgerError::Untrusted(reason));
        }
        Ok((chain, missing))
    }
}
