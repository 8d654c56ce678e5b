//! Recovery of a member that has other effects than the quorum (section 4.4), two of its classes: from a state, and full
//! replay.
//!
//! The dissertation's *recovery from a state* overwrites the effect with that of a consenting member and has to trust it. Here
//! the state is certified: after a repair the member reads its own tables, and commits them only if they add up to the state in
//! the header that has the quorum. So any donor will do, and one that lies is found. Only rows that differ are touched.

use crate::block::LedgerBlock;
use crate::chain::{CheckedOrder, LedgerChain};
use crate::change::{TableStates, show_key};
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::member::Member;
use crate::organization::{Organization, execute_on, scan_states};
use crate::value::{Content, show_content};
use crate::verify::{CertifiedBlock, visit_blocks};
use std::collections::BTreeMap;

/// How a member that was outvoted comes back (Table 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryClass {
    /// It does not.
    None,
    /// From the state of a consenting member.
    FromState,
    /// By executing all blocks again.
    FullReplay,
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

/// What a recovery has done.
#[derive(Debug, Clone, Default)]
pub struct RecoveryReport {
    /// Rows that were compared.
    pub rows: usize,
    /// Those that were not what they should be; after a full replay none are named.
    pub repaired: Vec<RepairedRow>,
    /// Blocks that were taken over.
    pub adopted: u64,
    /// Blocks that were executed again.
    pub replayed: u64,
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

fn show_row(rows: &BTreeMap<Vec<u8>, Vec<Content>>, key: &[u8]) -> String {
    let shown = rows.get(key).map(|row| row.iter().map(show_content).collect::<Vec<_>>().join(", "));
    shown.map_or("no row".to_owned(), |row| format!("({row})"))
}

/// Makes the rows of one table those of the donor, inside of an open block.
fn repair_table(
    own: &mut dyn Member,
    donor: &mut dyn Member,
    table: &SharedTable,
    report: &mut RecoveryReport,
) -> LedgerResult<()> {
    let (rows, keys) = differences(&own.scan(table)?, &donor.scan(table)?);
    report.rows += rows;
    if keys.is_empty() {
        return Ok(());
    }
    let by_key = |rows: Vec<Vec<Content>>| rows.into_iter().map(|row| (table.key_bytes(&row), row)).collect();
    let was: BTreeMap<Vec<u8>, Vec<Content>> = by_key(own.read(table, &keys)?);
    let is: BTreeMap<Vec<u8>, Vec<Content>> = by_key(donor.read(table, &keys)?);
    let rows: Vec<Vec<Content>> = is.values().cloned().collect();
    own.repair(table, &keys, &rows)?;
    for key in &keys {
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
    donor: &mut dyn Member,
    chain: &LedgerChain,
    state: LedgerHash,
) -> LedgerResult<(RecoveryReport, TableStates)> {
    let mut report = RecoveryReport::default();
    for table in chain.tables.values() {
        repair_table(own, donor, table, &mut report)?;
    }
    // What was changed behind the ledger's back may have left digests.
    own.take_changes()?;
    let states = scan_states(own, chain)?;
    if states.hash() != state {
        let (have, need) = (states.hash().short(), state.short());
        let reason = format!(
            "the rows of {} add up to {have}, and block {} certifies {need}",
            donor.system(),
            chain.height
        );
        return Err(LedgerError::Untrusted(reason));
    }
    Ok((report, states))
}

/// Blocks of a donor that are not in a chain yet, verified, and the chain with them.
fn missing_blocks(
    chain: &LedgerChain,
    donor: &Organization,
) -> LedgerResult<(Vec<(CertifiedBlock, CheckedOrder)>, LedgerChain)> {
    let mut chain = chain.clone();
    let mut missing = Vec::new();
    visit_blocks(donor.path(), chain.height, &mut |certified| {
        let (block, votes) = &certified;
        let checked = chain.check(&block.order)?;
        chain.check_header(&checked, &block.header)?;
        chain.check_votes(&block.header, votes)?;
        chain.advance(&checked, &block.header);
        missing.push((certified, checked));
        Ok(())
    })?;
    Ok((missing, chain))
}

impl Organization {
    /// Takes over the blocks that it has not, and the state after them, from a donor that has them. Without such blocks it
    /// repairs the rows that differ from what the last one certifies.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] if the donor's blocks are not certified or its rows are not what they certify: nothing has
    /// changed then. [`LedgerError::Database`], [`LedgerError::File`].
    pub fn recover_from_state(&mut self, donor: &mut Organization) -> LedgerResult<RecoveryReport> {
        let (missing, chain) = missing_blocks(&self.chain, donor)?;
        let Some(state) = chain.state else { return Ok(RecoveryReport::default()) };
        let new_tables = chain.tables.values().filter(|table| !self.chain.tables.contains_key(&table.name));
        let new_tables: Vec<SharedTable> = new_tables.cloned().collect();
        if !new_tables.is_empty() {
            self.abandon();
        }
        for table in &new_tables {
            self.member.create_table(table)?;
        }
        // Where the member was outvoted its own block is open, and most of its rows are what they should be.
        if !self.take_open_block() {
            self.member.begin()?;
        }
        let found = transfer(self.member.as_mut(), donor.member.as_mut(), &chain, state);
        let (mut report, states) = found.inspect_err(|_| drop(self.member.rollback()))?;
        self.is_behind = true;
        for (certified, checked) in &missing {
            self.adopt(certified, checked)?;
        }
        self.member.commit(self.chain.height)?;
        self.is_behind = false;
        self.states = states;
        self.suspects.clear();
        report.adopted = missing.len() as u64;
        Ok(report)
    }

    /// Executes all blocks of its own file again, over empty tables, and then those that it has not, from a donor's file. Each
    /// block has to have the outcomes, the digest and the state that its header certifies.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] with the first block that has not; the organization has to be opened again then.
    pub fn recover_by_replay(&mut self, donor: &Organization) -> LedgerResult<RecoveryReport> {
        self.abandon();
        let (missing, _) = missing_blocks(&self.chain, donor)?;
        self.is_behind = true;
        self.member.begin()?;
        self.member.take_changes()?;
        self.member.commit(0)?;
        let mut chain = LedgerChain::new(self.chain.genesis.clone());
        let mut report = RecoveryReport { adopted: missing.len() as u64, ..RecoveryReport::default() };
        let mut states = TableStates::default();
        let member = &mut self.member;
        visit_blocks(self.file.path(), 0, &mut |(block, _)| {
            states = replay(member.as_mut(), &mut chain, std::mem::take(&mut states), &block)?;
            member.commit(block.header.height)?;
            report.replayed += 1;
            Ok(())
        })?;
        for (certified, checked) in &missing {
            states = replay(self.member.as_mut(), &mut chain, states, &certified.0)?;
            self.adopt(certified, checked)?;
            self.member.commit(self.chain.height)?;
            report.replayed += 1;
        }
        self.is_behind = false;
        self.states = states;
        self.suspects.clear();
        Ok(report)
    }
}

/// Executes a block again; it stays open.
fn replay(
    member: &mut dyn Member,
    chain: &mut LedgerChain,
    states: TableStates,
    block: &LedgerBlock,
) -> LedgerResult<TableStates> {
    let checked = chain.check(&block.order)?;
    let executed =
        execute_on(member, chain, states, checked, &block.order).inspect_err(|_| drop(member.rollback()))?;
    let header = &block.header;
    if executed.block.header != *header {
        let _ = member.rollback();
        let differences = executed.block.header.differences(header).join(", ");
        let reason =
            format!("block {} executed again by {} has {differences}", header.height, member.system());
        return Err(LedgerError::Untrusted(reason));
    }
    let (checked, states) = executed.into_states();
    chain.advance(&checked, header);
    Ok(states)
}
