//! A member that executes a block over several connections (section 4.6.3; docs/design/ledger-parallel.md).
//!
//! ```text
//! main connection   BEGIN ─ digests of others ─────────────────────────────────── vote ──────────── height, COMMIT
//! part 0            BEGIN ─ transactions of its components ─ own digests ─────────  │   names, COMMIT ┘
//! part 1            BEGIN ─ transactions of its components ─ own digests ─────────  │   names, COMMIT ┘
//! ```
//! Invariants: no row is touched by two parts; all parts are open or all have ended, but for a stop between their commits; the
//! height is committed after all parts. A part whose commit is in the database has named its transactions there, so whoever
//! opens the member next executes the others.

use super::{BlockExecution, Member, PartConnection, RowSource, RowVisitor};
use crate::change::RowChange;
use crate::definition::SharedTable;
use crate::error::{LedgerError, LedgerResult};
use crate::hash::LedgerHash;
use crate::schedule::{BlockDivision, PlacedTransaction, divide_block};
use crate::statement::PortableStatement;
use crate::value::Content;
use std::collections::{BTreeMap, BTreeSet};

/// Opens a connection for a part.
pub type OpenPart = Box<dyn Fn() -> LedgerResult<Box<dyn PartConnection>> + Send>;

/// An open block whose transactions are spread over connections.
struct SpreadBlock {
    /// The places of each part's transactions.
    places: Vec<Vec<usize>>,
    /// What others than the ledger have changed before it, and then what the parts have, one behind the other.
    changes: Vec<RowChange>,
}

/// What a part has come to: why some of its transactions have failed, and what the others have changed.
type PartOutcome = (BTreeMap<usize, String>, Vec<RowChange>);

/// A member with several connections.
pub struct ParallelMember {
    main: Box<dyn Member>,
    open_part: OpenPart,
    connections: usize,
    divide: BlockDivision,
    parts: Vec<Box<dyn PartConnection>>,
    spread: Option<SpreadBlock>,
}

impl ParallelMember {
    /// A member that executes blocks over up to so many connections beside its main one. They are opened when they are needed.
    pub fn new(main: Box<dyn Member>, open_part: OpenPart, connections: usize) -> ParallelMember {
        ParallelMember::with_division(main, open_part, connections, divide_block)
    }

    /// Opens it with another way to divide blocks: for tests of what happens if that is wrong.
    pub fn with_division(
        main: Box<dyn Member>,
        open_part: OpenPart,
        connections: usize,
        divide: BlockDivision,
    ) -> ParallelMember {
        ParallelMember { main, open_part, connections, divide, parts: Vec::new(), spread: None }
    }

    fn open_parts(&mut self, count: usize) -> LedgerResult<()> {
        while self.parts.len() < count {
            self.parts.push((self.open_part)()?);
        }
        Ok(())
    }

    /// The parts of a block, if it is worth to be divided.
    fn division(
        &mut self,
        transactions: &[PlacedTransaction<'_>],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Vec<Vec<usize>>> {
        self.open_parts(1)?;
        let reach = self.parts[0].lock_reach();
        let division = (self.divide)(transactions, tables, reach, self.connections);
        self.open_parts(if division.len() > 1 { division.len() } else { 0 })?;
        Ok(division)
    }

    /// Executes the parts, each by a thread. The first part that fails ends the others at their next transaction.
    fn execute_parts(
        &mut self,
        division: &[Vec<usize>],
        transactions: &[PlacedTransaction<'_>],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<PartOutcome> {
        let has_failed = std::sync::atomic::AtomicBool::new(false);
        let run = |part: &mut Box<dyn PartConnection>, own: &[usize]| {
            let done = execute_part(part.as_mut(), own, transactions, tables, &has_failed);
            if done.is_err() {
                has_failed.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            done
        };
        let run = &run;
        let done: Vec<LedgerResult<PartOutcome>> = std::thread::scope(|scope| {
            let started: Vec<_> = self
                .parts
                .iter_mut()
                .zip(division)
                .map(|(part, own)| scope.spawn(move || run(part, own)))
                .collect();
            started.into_iter().map(|thread| thread.join().expect("a part does not panic")).collect()
        });
        let (mut failures, mut changes) = (BTreeMap::new(), Vec::new());
        for part in done {
            let (mut failed, mut changed) = part?;
            failures.append(&mut failed);
            changes.append(&mut changed);
        }
        Ok((failures, changes))
    }

    /// Executes a block over several connections, if it is worth that.
    fn try_spread(
        &mut self,
        transactions: &[PlacedTransaction<'_>],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<BlockExecution>> {
        let division = self.division(transactions, tables)?;
        if division.len() < 2 {
            return Ok(None);
        }
        // While no part is open: a database that locks what it scans would wait for their digests.
        let mut changes = self.main.take_changes()?;
        let (failures, mut changed) = self.execute_parts(&division, transactions, tables)?;
        changes.append(&mut changed);
        let places = |part: &Vec<usize>| part.iter().map(|at| transactions[*at].place).collect();
        self.spread = Some(SpreadBlock { places: division.iter().map(places).collect(), changes });
        Ok(Some(BlockExecution { failures, connections: division.len(), serial_because: None }))
    }

    /// Takes all parts back, and gives up the connections of those that cannot be taken back: the database does it then.
    fn rollback_parts(&mut self) {
        self.spread = None;
        self.parts.retain_mut(|part| part.rollback_part().is_ok());
    }
}

/// Executes the transactions of one part, and reads what they have changed.
fn execute_part(
    part: &mut dyn PartConnection,
    own: &[usize],
    transactions: &[PlacedTransaction<'_>],
    tables: &BTreeMap<String, SharedTable>,
    has_failed: &std::sync::atomic::AtomicBool,
) -> LedgerResult<PartOutcome> {
    let mut failures = BTreeMap::new();
    part.begin_part()?;
    for transaction in own.iter().map(|at| transactions[*at]) {
        if has_failed.load(std::sync::atomic::Ordering::Relaxed) {
            return Ok((failures, Vec::new()));
        }
        let failure = part.execute(transaction.statements, tables)?;
        failures.extend(failure.map(|reason| (transaction.place, reason)));
    }
    let changes = part.take_part_changes()?;
    Ok((failures, changes))
}

/// Commits all parts, each in a thread of its own, and gives the first error.
fn commit_parts(
    parts: &mut [Box<dyn PartConnection>],
    height: u64,
    places: &[Vec<usize>],
) -> LedgerResult<()> {
    std::thread::scope(|scope| {
        let pairs = parts.iter_mut().zip(places).enumerate();
        let commit = |(at, (part, places)): (usize, (&mut Box<dyn PartConnection>, &Vec<usize>))| {
            part.commit_part(height, at, places)
        };
        let started: Vec<_> = pairs.map(|pair| scope.spawn(move || commit(pair))).collect();
        let ended: Vec<LedgerResult<()>> =
            started.into_iter().map(|thread| thread.join().expect("a part does not panic")).collect();
        ended.into_iter().collect()
    })
}

/// The main connection, which sees no part of a block that is spread.
impl RowSource for ParallelMember {
    fn read(&mut self, table: &SharedTable, keys: &[Vec<u8>]) -> LedgerResult<Vec<Vec<Content>>> {
        self.main.read(table, keys)
    }

    fn visit_rows(&mut self, table: &SharedTable, show: &mut RowVisitor<'_>) -> LedgerResult<()> {
        self.main.visit_rows(table, show)
    }
}

impl Member for ParallelMember {
    fn system(&self) -> &str {
        self.main.system()
    }

    fn create_table(&mut self, table: &SharedTable) -> LedgerResult<()> {
        self.main.create_table(table)
    }

    fn begin(&mut self) -> LedgerResult<()> {
        self.main.begin()
    }

    fn execute(
        &mut self,
        statements: &[PortableStatement],
        tables: &BTreeMap<String, SharedTable>,
    ) -> LedgerResult<Option<String>> {
        self.main.execute(statements, tables)
    }

    fn execute_block(
        &mut self,
        transactions: &[PlacedTransaction<'_>],
        tables: &BTreeMap<String, SharedTable>,
        is_spread: bool,
    ) -> LedgerResult<BlockExecution> {
        if !is_spread || self.connections < 2 {
            return self.main.execute_block(transactions, tables, false);
        }
        match self.try_spread(transactions, tables) {
            Ok(Some(execution)) => Ok(execution),
            Ok(None) => self.main.execute_block(transactions, tables, false),
            Err(error) => {
                self.rollback()?;
                // A part that has failed may have a connection that is no good any more.
                self.parts.clear();
                self.main.begin()?;
                let execution = self.main.execute_block(transactions, tables, false)?;
                Ok(BlockExecution { serial_because: Some(error.to_string()), ..execution })
            }
        }
    }

    fn is_spread(&self) -> bool {
        self.spread.is_some()
    }

    fn finished(&mut self, height: u64) -> LedgerResult<BTreeSet<usize>> {
        self.main.finished(height)
    }

    fn take_changes(&mut self) -> LedgerResult<Vec<RowChange>> {
        match &mut self.spread {
            Some(spread) => Ok(std::mem::take(&mut spread.changes)),
            None => self.main.take_changes(),
        }
    }

    fn commit(&mut self, height: u64) -> LedgerResult<()> {
        if let Some(spread) = &self.spread {
            commit_parts(&mut self.parts, height, &spread.places)?;
        }
        self.main.commit(height)?;
        self.spread = None;
        Ok(())
    }

    fn rollback(&mut self) -> LedgerResult<()> {
        if self.spread.is_some() || !self.parts.is_empty() {
            self.rollback_parts();
        }
        self.main.rollback()
    }

    fn height(&mut self) -> LedgerResult<u64> {
        self.main.height()
    }

    fn scan(&mut self, table: &SharedTable) -> LedgerResult<Vec<(Vec<u8>, LedgerHash)>> {
        self.main.scan(table)
    }

    fn repair(&mut self, table: &SharedTable, keys: &[Vec<u8>], rows: &[Vec<Content>]) -> LedgerResult<()> {
        if self.is_spread() {
            let reason =
                "a block that is spread over connections cannot be repaired: it has to be executed on one";
            return Err(LedgerError::database(self.main.system(), reason));
        }
        self.main.repair(table, keys, rows)
    }
}
