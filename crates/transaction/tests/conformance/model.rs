//! The model's world.

use crate::primitive::take_out;
use crate::row_model::{Ended, ModelDatabase, ModelTransaction, RowStep};
use crate::schedule::{RowState, State, World};
use crate::script::{Call, Level, Outcome, ROWS};
use ankerdb_base::Timestamp;
use std::sync::Arc;

/// The model, maybe without a step.
pub(crate) struct Modeled {
    database: Arc<ModelDatabase>,
    without: Option<RowStep>,
    /// Whether all commits install ahead of their timestamps.
    is_large: bool,
}

impl Modeled {
    pub(crate) fn new(without: Option<RowStep>, is_large: bool) -> Modeled {
        Modeled { database: ModelDatabase::new(ROWS), without, is_large }
    }
}

struct Session<'d> {
    database: &'d ModelDatabase,
    is_large: bool,
    running: Option<Running<'d>>,
    /// The list of readers that the first commit has taken, and the next ones use.
    in_use: Option<Vec<Timestamp>>,
}

struct Running<'d> {
    transaction: ModelTransaction<'d>,
    level: Level,
    writes: Vec<(usize, usize, u64)>,
}

impl<'d> Session<'d> {
    /// The result of a call; nothing if its transaction has failed before.
    fn call(&mut self, call: Call) -> Option<Outcome> {
        let outcome = match (call, &mut self.running) {
            (Call::Begin(level), _) => self.begin(level),
            (Call::Sweep, _) => {
                self.database.sweep();
                Outcome::Done
            }
            (_, None) => return None,
            (Call::Read(row, column), Some(running)) => Outcome::Cell(running.transaction.read(row, column)),
            (Call::Copy, Some(running)) => Outcome::Cells(running.transaction.copy()),
            (Call::Write(row, column, value), Some(running)) => write(running, (row, column, value)),
            (Call::Commit, _) => self.commit(),
            (Call::Rollback, _) => {
                self.running = None;
                Outcome::Done
            }
        };
        if outcome.ends() {
            self.running = None;
        }
        Some(outcome)
    }

    fn begin(&mut self, level: Level) -> Outcome {
        let transaction = self.database.begin();
        let at = transaction.timestamp();
        self.running = Some(Running { transaction, level, writes: Vec::new() });
        Outcome::At(at)
    }

    fn commit(&mut self) -> Outcome {
        let Running { mut transaction, level, writes } = self.running.take().expect("a transaction runs");
        // A commit without writes commits what it has read.
        if writes.is_empty() {
            return Outcome::Done;
        }
        let in_use = self.in_use.get_or_insert_with(|| self.database.in_use());
        transaction.in_use = Some(in_use.clone());
        let serializable = level != Level::Snapshot;
        let outcome = match self.is_large {
            false => transaction.commit(&writes, serializable),
            true => transaction.commit_large(&writes, serializable),
        };
        match outcome {
            Ok(commit) => Outcome::Committed(commit),
            Err(Ended::Conflict) => Outcome::Reads,
            Err(Ended::Busy | Ended::Changed) => Outcome::Row,
        }
    }
}

fn write(running: &mut Running<'_>, write: (usize, usize, u64)) -> Outcome {
    let outcome = if running.level == Level::Interactive { lock(running, write.0) } else { Outcome::Done };
    if !outcome.ends() && outcome != Outcome::Busy {
        running.writes.push(write);
    }
    outcome
}

fn lock(running: &mut Running<'_>, row: usize) -> Outcome {
    match running.transaction.lock(row) {
        Err(_) => Outcome::Busy,
        Ok(false) => Outcome::Done,
        Ok(true) => match running.transaction.restart() {
            Ok(()) => Outcome::At(running.transaction.timestamp()),
            Err(_) => Outcome::Reads,
        },
    }
}

impl World for Modeled {
    fn run(&self, calls: &[Call], tell: &mut dyn FnMut(Call, Outcome)) {
        take_out(self.without);
        let mut session =
            Session { database: &self.database, is_large: self.is_large, running: None, in_use: None };
        for &call in calls {
            if let Some(outcome) = session.call(call) {
                tell(call, outcome);
            }
        }
    }

    fn state(&self) -> State {
        let rows = self.database.rows().map(|row| RowState {
            timestamp: row.timestamp,
            is_locked: row.is_locked,
            is_swept: row.is_swept,
            is_installing: row.is_installing,
            is_dirty: row.is_dirty,
            cells: row.cells,
            versions: row.versions,
        });
        State {
            watermark: self.database.watermark(),
            in_use: self.database.in_use().into_iter().map(|used| used.0).collect(),
            changes: self.database.changes(),
            rows: rows.collect(),
        }
    }
}
