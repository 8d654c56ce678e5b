//! What sessions do: scripts, drawn from a seed.

use std::fmt;

/// Rows that there are.
pub(crate) const ROWS: usize = 2;
/// Columns that are read and written.
pub(crate) const COLUMNS: usize = 2;
/// Sessions with transactions; another one sweeps.
const CLIENTS: usize = 3;
/// Transactions of each of them.
const TRANSACTIONS: usize = 3;

/// How a transaction runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// At once, by snapshot isolation.
    Snapshot,
    /// At once, serializable.
    Serializable,
    /// Serializable and interactive: it locks what it is going to write, and restarts statements.
    Interactive,
}

/// One call of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Begin(Level),
    /// A cell of a row.
    Read(usize, usize),
    /// All cells of all rows, as analytics copy them.
    Copy,
    /// A row, a column and a value; interactive transactions lock the row.
    Write(usize, usize, u64),
    Commit,
    Rollback,
    Sweep,
}

/// What a call has led to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    Done,
    /// Began, or moved on to, this timestamp.
    At(u64),
    Cell(u64),
    Cells(Vec<[u64; COLUMNS]>),
    Committed(u64),
    /// Another session has the row; the transaction goes on without it.
    Busy,
    /// A row was busy or has changed: the transaction is over.
    Row,
    /// Something that was read has changed: the transaction is over.
    Reads,
}

impl Outcome {
    /// Whether there is no transaction after a failure.
    pub(crate) fn ends(&self) -> bool {
        matches!(self, Outcome::Row | Outcome::Reads)
    }
}

/// The calls of all sessions. Nothing is read that the same transaction has written, and nothing is written twice: the
/// model has no own writes.
pub(crate) struct Script {
    pub calls: Vec<Vec<Call>>,
    /// The sessions that run at the beginning, step by step; after that chance decides.
    pub turns: Vec<usize>,
}

impl Script {
    pub(crate) fn of(seed: u64) -> Script {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut value = 0;
        let mut sessions: Vec<Vec<Call>> = (0..CLIENTS)
            .map(|_| (0..TRANSACTIONS).flat_map(|_| transaction(&mut random, &mut value)).collect())
            .collect();
        sessions.push(vec![Call::Sweep; 2]);
        if seed.is_multiple_of(4) {
            restart(&mut random)
        } else {
            Script { calls: sessions, turns: Vec::new() }
        }
    }
}

/// A transaction that reads one row and locks the other one, and transactions that change both, one before the lock and
/// one about when the statement restarts: seldom drawn by chance.
fn restart(random: &mut Random) -> Script {
    use Call::{Begin, Commit, Read, Write};
    let user = vec![Begin(Level::Interactive), Read(1, 0), Write(0, 1, 1), Commit];
    let change = |row, value| [Begin(Level::Snapshot), Write(row, 0, value), Commit];
    let others = [change(0, 2), change(1, 3)].concat();
    // Begins and reads; others' first transaction; locks; others' second one.
    let steps = [(0, 4), (1, 14), (0, random.below(4)), (1, 14)];
    let turns = steps.into_iter().flat_map(|(session, steps)| vec![session; steps]).collect();
    Script { calls: vec![user, others], turns }
}

/// Some reads, then some writes in the order of rows.
fn transaction(random: &mut Random, value: &mut u64) -> Vec<Call> {
    let level = [Level::Snapshot, Level::Serializable, Level::Interactive][random.below(3)];
    let mut calls = vec![Call::Begin(level)];
    for _ in 0..random.below(3) {
        calls.push(match random.below(4) {
            0 => Call::Copy,
            _ => Call::Read(random.below(ROWS), random.below(COLUMNS)),
        });
    }
    // Most write one row, some both, and some none.
    let written = [&[][..], &[0], &[0], &[1], &[0, 1]][random.below(5)];
    for &row in written {
        *value += 1;
        calls.push(Call::Write(row, random.below(COLUMNS), 100 + *value));
    }
    calls.push(if written.is_empty() || random.below(8) == 0 { Call::Rollback } else { Call::Commit });
    calls
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (session, calls) in self.calls.iter().enumerate() {
            write!(f, "\n  session {session}: {calls:?}")?;
        }
        Ok(())
    }
}

/// Small numbers, the same ones again for the same seed.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
