//! Recovery by executing blocks again (sections 4.4.5 to 4.4.8 and 4.5.5): all of them over empty tables, or those after a
//! checkpoint; one transaction after the other, or without those that are overwritten and over several connections.
//!
//! ```text
//! partial      newest checkpoint ─ rows add up to its block's state? ─ load ─ blocks after it ─ each its certified header?
//!              └ no: the next older one ... └ no: all blocks over empty tables
//! optimized    windows of blocks: parsed, overwritten statements left out, the rest executed as one block; at the end of
//!              each window the tables add up to the state of its last block?
//! ```
//! Invariant: while it lasts the database says that it has block 0, or, in a plain replay, the block that it has. So a stop
//! leaves a database that the next start brings to the last block by executing all blocks, or the rest. In between it has no
//! table that the ledger does not make anew.
//!
//! Where we differ from the dissertation: a checkpoint that was changed is found before it is used, by the state that its
//! block certifies, and not by a block that is outvoted again. Values are compared after each window of an optimized replay,
//! too: digests of changed rows telescope to the difference of two states, however a row comes from one to the other.

use crate::chain::{CheckedTransaction, LedgerChain};
use crate::change::TableStates;
use crate::checkpoint::read_checkpoint;
use crate::error::{LedgerError, LedgerResult};
use crate::member::Member;
use crate::organization::{Organization, execute_on, scan_states};
use crate::overwritten::drop_overwritten;
use crate::recovery::{Donor, MissingBlocks, RecoveryClass, RecoveryReport};
use crate::schedule::PlacedTransaction;
use crate::statement::PortableStatement;
use crate::verify::{CertifiedBlock, visit_blocks};
use std::path::{Path, PathBuf};

/// A window of an optimized replay ends with the block that gives it so many transactions. They are in memory.
const WINDOW_TRANSACTIONS: usize = 16_384;

/// Rows of a checkpoint go into the database by transactions of so many; their digests are in memory.
const LOADED_ROWS: usize = 50_000;

/// A replay under way: where the member is.
struct Replay<'a> {
    member: &'a mut dyn Member,
    chain: LedgerChain,
    states: TableStates,
    report: RecoveryReport,
}

/// Transactions that have succeeded in the blocks of a window.
#[derive(Default)]
struct Window {
    transactions: Vec<Vec<PortableStatement>>,
    first: u64,
}

impl Replay<'_> {
    /// Takes back what is open, and says in the database that it has no block.
    fn reset(&mut self) -> LedgerResult<()> {
        self.member.begin()?;
        self.member.take_changes()?;
        self.member.commit(0)
    }

    /// Makes the tables anew, with the rows of a checkpoint of this position, which has been read and is sound.
    fn load(&mut self, path: &Path, position: LedgerChain) -> LedgerResult<()> {
        for table in position.tables.values() {
            self.member.create_table(table)?;
        }
        let (member, mut loaded, mut pending) = (&mut *self.member, 0, 0);
        member.begin()?;
        let read = read_checkpoint(path, &position, &mut |table, rows| {
            member.repair(table, &[], &rows)?;
            loaded += rows.len();
            pending += rows.len();
            if pending >= LOADED_ROWS {
                pending = 0;
                member.take_changes()?;
                member.commit(0)?;
                member.begin()?;
            }
            Ok(())
        });
        let (_, states) = read?;
        self.member.take_changes()?;
        self.member.commit(0)?;
        let found = scan_states(self.member, &position)?;
        if found.hash() != states.hash() {
            let (system, height) = (self.member.system(), position.height);
            let reason =
                format!("{system} has other rows than the checkpoint of block {height} that was loaded");
            return Err(LedgerError::Untrusted(reason));
        }
        self.report.checkpoint = Some(position.height);
        self.report.rows += loaded;
        (self.chain, self.states) = (position, states);
        Ok(())
    }

    /// Executes a block again, one transaction after the other, and compares its header; it stays open.
    fn execute(&mut self, (block, _): &CertifiedBlock) -> LedgerResult<()> {
        let checked = self.chain.check(&block.order)?;
        let states = std::mem::take(&mut self.states);
        let executed = execute_on(self.member, &self.chain, states, checked, &block.order, false)?;
        let header = &block.header;
        if executed.block.header != *header {
            let differences = executed.block.header.differences(header).join(", ");
            let system = self.member.system();
            let reason = format!("block {} executed again by {system} has {differences}", header.height);
            return Err(LedgerError::Untrusted(reason));
        }
        let (checked, states) = executed.into_states();
        self.chain.advance(&checked, header);
        self.states = states;
        self.report.replayed += 1;
        Ok(())
    }

    /// Adds a block to a window, and executes the window if it is full or the block is a definition.
    fn gather(&mut self, (block, _): &CertifiedBlock, window: &mut Window) -> LedgerResult<()> {
        let checked = self.chain.check(&block.order)?;
        let header = &block.header;
        self.chain.check_header(&checked, header)?;
        let is_definition = matches!(checked.transactions[..], [Ok(CheckedTransaction::Definition(_))]);
        if is_definition || window.transactions.len() >= WINDOW_TRANSACTIONS {
            self.flush(window)?;
        }
        if window.transactions.is_empty() {
            window.first = header.height;
        }
        self.chain.advance(&checked, header);
        for (at, transaction) in checked.transactions.into_iter().enumerate() {
            match transaction {
                Ok(CheckedTransaction::Definition(table)) if header.outcomes.get(at) => {
                    self.member.create_table(&table)?;
                    self.states.define(table);
                }
                Ok(CheckedTransaction::Statements(statements)) if header.outcomes.get(at) => {
                    self.report.statements += statements.len() as u64;
                    window.transactions.push(statements);
                }
                _ => {}
            }
        }
        self.report.replayed += 1;
        Ok(())
    }

    /// Executes the statements of a window that are not overwritten, over as many connections as the member has.
    fn flush(&mut self, window: &mut Window) -> LedgerResult<()> {
        let mut transactions = std::mem::take(&mut window.transactions);
        if transactions.is_empty() {
            return Ok(());
        }
        self.report.dropped += drop_overwritten(&mut transactions, &self.chain.tables);
        let place = |(place, statements)| PlacedTransaction { place, statements };
        let statements = transactions.iter().map(Vec::as_slice).enumerate().map(place);
        let placed: Vec<PlacedTransaction<'_>> =
            statements.filter(|placed| !placed.statements.is_empty()).collect();
        self.member.begin()?;
        self.execute_window(&placed, window.first)?;
        // Parts of it name no block of their own: the next start would not take them for parts of one.
        self.member.commit(0)
    }

    fn execute_window(&mut self, placed: &[PlacedTransaction<'_>], first: u64) -> LedgerResult<()> {
        let execution = self.member.execute_block(placed, &self.chain.tables, true)?;
        let (last, system) = (self.chain.height, self.member.system());
        let blocks =
            format!("blocks {first} to {last} executed again by {system}, without what is overwritten,");
        if let Some((_, reason)) = execution.failures.first_key_value() {
            let reason = format!("{blocks} have a transaction that fails: {reason}");
            return Err(LedgerError::Untrusted(reason));
        }
        self.report.connections = self.report.connections.max(execution.connections);
        let changes = self.member.take_changes()?;
        self.states.apply(&changes);
        if self.chain.state != Some(self.states.hash()) {
            let (have, need) = (self.states.hash().short(), self.chain.state.unwrap_or_default().short());
            return Err(LedgerError::Untrusted(format!("{blocks} have the state {have} instead of {need}")));
        }
        Ok(())
    }

    /// Executes the blocks of a file after those that the member has.
    fn run(&mut self, file: &Path, is_optimized: bool) -> LedgerResult<()> {
        let mut window = Window::default();
        visit_blocks(file, self.chain.height, &mut |certified| {
            if is_optimized {
                return self.gather(&certified, &mut window);
            }
            self.execute(&certified)?;
            self.member.commit(certified.0.header.height)
        })?;
        self.flush(&mut window)?;
        self.member.begin()?;
        self.member.commit(self.chain.height)
    }
}

impl Organization {
    /// Brings its database to the last block of its own file by executing blocks again, and then, if there is a donor, to the
    /// blocks that it has not, from the donor's. A partial replay begins with the newest checkpoint that is sound and leads to
    /// the certified state; without one it is a full replay. What did not do is named in the report. Costs what executing the
    /// blocks costs; tables are made anew, so triggers and definitions are what they should be, too.
    ///
    /// # Errors
    /// [`LedgerError::Untrusted`] with the first block that has other effects than its header certifies, even from empty
    /// tables; [`LedgerError::Database`] and [`LedgerError::File`]. The organization has to be opened again then.
    /// [`LedgerError::Refused`] if the class is no replay.
    pub fn recover_by_replay(
        &mut self,
        class: RecoveryClass,
        donor: Option<&mut dyn Donor>,
    ) -> LedgerResult<RecoveryReport> {
        if !class.is_replay() {
            return Err(LedgerError::Refused(format!("recovery \"{class}\" executes no blocks again")));
        }
        self.abandon();
        self.checkpoints.iter_mut().for_each(|checkpoints| checkpoints.cancel());
        self.audits.iter_mut().for_each(|audits| audits.give_up(true));
        let mut missing = MissingBlocks::default();
        if let Some(donor) = donor {
            missing.fetch(&mut self.chain.clone(), donor, u64::MAX)?;
        }
        let mut passed_over = Vec::new();
        for (height, path) in self.replay_checkpoints(class) {
            let replayed = self.replay_from(Some((height, &path)), class, &missing);
            match replayed.inspect_err(|_| drop(self.member.rollback())) {
                Ok(report) => return Ok(RecoveryReport { passed_over, ..report }),
                Err(error @ LedgerError::Database { .. }) => return Err(error),
                Err(error) => {
                    passed_over.push(format!("the checkpoint of block {height} did not do: {error}"))
                }
            }
        }
        let replayed = self.replay_from(None, class, &missing);
        let report = replayed.inspect_err(|_| drop(self.member.rollback()))?;
        Ok(RecoveryReport { passed_over, ..report })
    }

    /// The checkpoints that a class begins with, the newest first.
    fn replay_checkpoints(&self, class: RecoveryClass) -> Vec<(u64, PathBuf)> {
        let found = self.checkpoints.as_ref().filter(|_| class.is_partial()).map(|own| own.found());
        let is_past = |(height, _): &(u64, PathBuf)| *height <= self.chain.height;
        found.unwrap_or_default().into_iter().filter(is_past).collect()
    }

    /// The chain as it was after a block: from memory, or by verifying the blocks of the file up to it.
    fn position_at(&self, height: u64) -> LedgerResult<LedgerChain> {
        if let Some(position) = self.checkpoints.as_ref().and_then(|own| own.position(height)) {
            return Ok(position.clone());
        }
        let mut chain = LedgerChain::new(self.chain.genesis.clone());
        visit_blocks(self.file.path(), 0, &mut |(block, _)| {
            if block.header.height <= height {
                let checked = chain.check(&block.order)?;
                chain.check_header(&checked, &block.header)?;
                chain.advance(&checked, &block.header);
            }
            Ok(())
        })?;
        Ok(chain)
    }

    fn replay_from(
        &mut self,
        start: Option<(u64, &Path)>,
        class: RecoveryClass,
        missing: &MissingBlocks,
    ) -> LedgerResult<RecoveryReport> {
        let start = start.map(|(height, path)| Ok((self.position_at(height)?, path))).transpose()?;
        if let Some((position, path)) = &start {
            // Before anything of the database is changed.
            read_checkpoint(path, position, &mut |_, _| Ok(()))?;
        }
        self.is_behind = true;
        let chain = LedgerChain::new(self.chain.genesis.clone());
        let (states, report) = (TableStates::default(), RecoveryReport::default());
        let mut replay = Replay { member: self.member.as_mut(), chain, states, report };
        replay.reset()?;
        if let Some((position, path)) = start {
            replay.load(path, position)?;
        }
        replay.run(self.file.path(), class.is_optimized())?;
        if replay.chain.head != self.chain.head {
            let reason = format!("its blocks end with {}", replay.chain.head.short());
            return Err(LedgerError::file(self.file.path(), reason));
        }
        let Replay { mut chain, mut states, mut report, .. } = replay;
        for (certified, checked) in &missing.0 {
            if certified.0.header.height <= chain.height {
                continue;
            }
            let mut replay = Replay { member: self.member.as_mut(), chain, states, report };
            replay.execute(certified)?;
            (chain, states, report) = (replay.chain, replay.states, replay.report);
            self.adopt(certified, checked)?;
            self.member.commit(self.chain.height)?;
            report.adopted += 1;
        }
        self.is_behind = false;
        self.states = states;
        self.suspects.clear();
        Ok(report)
    }
}
