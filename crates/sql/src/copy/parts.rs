//! Lines that several threads read at the same time, each into a block of its own.
//!
//! ```text
//! client ──► lines ──► piece, piece, piece ...        this thread: cuts the data
//!                        │      │      └──► helper     each piece becomes the rows of one block,
//!                        │      └──► helper            by whoever is free, this thread included
//!                        └──► this thread
//! parts, in the order of their lines ──► transaction
//! ```
//!
//! Invariants:
//! - Parts are added to the transaction in the order of their lines, and of several errors the first line's is told.
//! - What is not a block yet is bounded: a piece that is being collected, one that waits and one that is being read for each
//!   helper. A piece ends with a block's rows, or with [`PIECE_BYTES`].
//! - Helpers end before this is dropped: nothing of a COPY is left when it has ended.
//! - A panic of a helper is an error of its piece.

use super::shape::{LineReader, Shape};
use super::skipped::Skipped;
use ankerdb_engine::{Error, Interrupt, LoadPart, ROWS_PER_BLOCK, Result, Transaction};
use ankerdb_value::{Clocks, enter_present, present};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A piece ends with the line that reaches so many bytes.
const PIECE_BYTES: usize = 4 << 20;
/// More helpers than this wait for the thread that cuts the data.
const HELPERS_MAX: usize = 4;
/// How often a wait for helpers checks the statement's interrupt.
const LOOK_AROUND: Duration = Duration::from_millis(10);

/// Lines, and the block that they become rows of.
struct Piece {
    /// Its place among all pieces.
    place: usize,
    lines: Lines,
    part: LoadPart,
}

/// One line after the other, without their ends.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The number of each in the data.
    numbers: Vec<u32>,
}

/// What a piece has become.
struct Filled {
    part: LoadPart,
    /// The line of each row.
    numbers: Vec<u32>,
    skipped: Skipped,
}

impl Lines {
    fn push(&mut self, line: &[u8], number: usize) -> Result<()> {
        let out_of_memory = |_| Error::out_of_memory(line.len());
        self.bytes.try_reserve(line.len()).map_err(out_of_memory)?;
        self.ends.try_reserve(1).map_err(out_of_memory)?;
        self.numbers.try_reserve(1).map_err(out_of_memory)?;
        self.bytes.extend_from_slice(line);
        self.ends.push(self.bytes.len());
        self.numbers.push(u32::try_from(number).unwrap_or(u32::MAX));
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.ends.len() == ROWS_PER_BLOCK || self.bytes.len() >= PIECE_BYTES
    }
}

/// Reads a piece's lines into its block, unless it is told to stop.
fn fill(piece: Piece, reader: &mut LineReader, stop: &dyn Fn() -> Result<()>) -> Result<Filled> {
    let Piece { lines: Lines { bytes, ends, mut numbers }, mut part, .. } = piece;
    let (mut start, mut rows) = (0, 0);
    for (at, &end) in ends.iter().enumerate() {
        stop()?;
        let (line, number) = (&bytes[start..end], numbers[at]);
        start = end;
        if reader.fill(line, number as usize, |values| part.push(|column| values.value(column)))? {
            numbers[rows] = number;
            rows += 1;
        }
    }
    numbers.truncate(rows);
    Ok(Filled { part, numbers, skipped: std::mem::take(&mut reader.skipped) })
}

/// A thread that reads pieces.
struct Helper {
    pieces: SyncSender<Piece>,
    thread: JoinHandle<()>,
}

impl Helper {
    /// None if the system has no thread to give.
    fn start(parts: &Parts, results: &Sender<(usize, Result<Filled>)>) -> Option<Helper> {
        let (pieces, given) = mpsc::sync_channel::<Piece>(1);
        let (results, clocks) = (results.clone(), Clocks::current());
        let began = present();
        let (interrupt, over) = (parts.interrupt.clone(), parts.over.clone());
        let mut reader = LineReader::new(parts.shape.clone());
        let work = move || {
            clocks.enter();
            enter_present(began);
            let stop = || match over.load(Ordering::Relaxed) {
                true => Err(Error::internal("a COPY that has ended is read on")),
                false => interrupt.check(),
            };
            for piece in given {
                let place = piece.place;
                let filled = catch_unwind(AssertUnwindSafe(|| fill(piece, &mut reader, &stop)));
                let filled = filled
                    .unwrap_or_else(|_| Err(Error::internal("a thread that reads COPY data hit a bug")));
                if results.send((place, filled)).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("copy-in".into()).spawn(work).ok()?;
        Some(Helper { pieces, thread })
    }
}

/// Lines that are being read by this thread and helpers.
pub(super) struct Parts {
    shape: Arc<Shape>,
    reader: LineReader,
    interrupt: Interrupt,
    /// Whether nobody waits for results any more.
    over: Arc<AtomicBool>,
    helpers: Vec<Helper>,
    results: Receiver<(usize, Result<Filled>)>,
    collected: Lines,
    /// Pieces that were given to be read, and how many of them the transaction has.
    given: usize,
    taken: usize,
    /// Results of pieces behind one that is still being read.
    ready: BTreeMap<usize, Result<Filled>>,
    /// The line of each row that the transaction has.
    row_lines: Vec<u32>,
    /// Rows that were left out among those.
    pub skipped: Skipped,
}

impl Parts {
    /// Starts as many helpers as there are other processors; there may be none. `skipped` are rows of lines before.
    pub(super) fn start(shape: Arc<Shape>, interrupt: Interrupt, skipped: Skipped) -> Parts {
        let (sender, results) = mpsc::channel();
        let mut parts = Parts {
            reader: LineReader::new(shape.clone()),
            shape,
            interrupt,
            over: Arc::default(),
            helpers: Vec::new(),
            results,
            collected: Lines::default(),
            given: 0,
            taken: 0,
            ready: BTreeMap::new(),
            row_lines: Vec::new(),
            skipped,
        };
        let others = thread::available_parallelism().map_or(0, |count| count.get() - 1);
        parts.helpers = (0..others.min(HELPERS_MAX)).map_while(|_| Helper::start(&parts, &sender)).collect();
        parts
    }

    /// Whether any other thread reads, too.
    pub(super) fn has_helpers(&self) -> bool {
        !self.helpers.is_empty()
    }

    /// Rows so far.
    pub(super) fn rows(&self) -> usize {
        self.row_lines.len()
    }

    /// The line of a row, counted from 0.
    pub(super) fn line_of(&self, row: usize) -> Option<u32> {
        self.row_lines.get(row).copied()
    }

    /// Takes a line. An error may be that of an earlier one.
    pub(super) fn push(&mut self, line: &[u8], number: usize, transaction: &mut Transaction) -> Result<()> {
        self.collected.push(line, number)?;
        if self.collected.is_full() { self.give(transaction) } else { Ok(()) }
    }

    /// Waits until the rows of all lines are the transaction's.
    pub(super) fn finish(&mut self, transaction: &mut Transaction) -> Result<()> {
        if !self.collected.ends.is_empty() {
            self.give(transaction)?;
        }
        self.take(0, transaction)
    }

    /// Has the collected lines read.
    fn give(&mut self, transaction: &mut Transaction) -> Result<()> {
        let is_long = self.collected.bytes.len() > 2 * PIECE_BYTES;
        let part = transaction.begin_part(&self.shape.table)?;
        let lines = std::mem::take(&mut self.collected);
        let mut piece = Some(Piece { place: self.given, lines, part });
        self.given += 1;
        for helper in &self.helpers {
            let Some(given) = piece.take() else { break };
            piece = match helper.pieces.try_send(given) {
                Ok(()) => None,
                Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => Some(back),
            };
        }
        if let Some(piece) = piece {
            let (place, interrupt) = (piece.place, &self.interrupt);
            let filled = fill(piece, &mut self.reader, &|| interrupt.check());
            self.ready.insert(place, filled);
        }
        // Of lines that are long there are not several pieces at a time.
        self.take(if is_long { 0 } else { 2 * self.helpers.len() + 1 }, transaction)
    }

    /// Gives the transaction the parts that are next, and waits until at most so many pieces are left.
    fn take(&mut self, left: usize, transaction: &mut Transaction) -> Result<()> {
        loop {
            self.ready.extend(self.results.try_iter());
            while let Some(filled) = self.ready.remove(&self.taken) {
                let Filled { part, numbers, skipped } = filled?;
                self.taken += 1;
                self.skipped.append(skipped, self.shape.options.on_error)?;
                let room = self.row_lines.try_reserve(numbers.len());
                room.map_err(|_| Error::out_of_memory(numbers.len() * size_of::<u32>()))?;
                transaction.add_part(part)?;
                self.row_lines.extend(numbers);
            }
            if self.given - self.taken <= left {
                return Ok(());
            }
            match self.results.recv_timeout(LOOK_AROUND) {
                Ok((place, filled)) => drop(self.ready.insert(place, filled)),
                Err(RecvTimeoutError::Timeout) => transaction.check_interrupt()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::internal("no thread reads what it was given of a COPY"));
                }
            }
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for Helper { pieces, thread } in self.helpers.drain(..) {
            drop(pieces);
            // Its panics were caught.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CopyIn;
    use crate::{Outcome, SqlEngine, SqlOptions, SqlSession};
    use ankerdb_engine::{
        Check, ColumnDefinition, ColumnSet, DataType, Database, SqlState, TableDefinition, Value,
    };
    use std::sync::Arc;

    /// A table whose condition panics for the number 5,000.
    fn session() -> SqlSession {
        let database = Database::new();
        let mut definition = TableDefinition::new("t").column(ColumnDefinition::new("id", DataType::Integer));
        let columns = ColumnSet::of(&[0]);
        let test = Arc::new(|value: &dyn Fn(usize) -> Value| match value(0) {
            Value::Integer(5_000) => panic!("on purpose"),
            _ => Ok(true),
        });
        definition.checks.push(Check {
            name: "c".into(),
            text: "true".into(),
            columns,
            test,
            is_validated: true,
        });
        database.create_table(definition).unwrap();
        let options = SqlOptions { olap_threads: 1, memory_limit_bytes: 1 << 30 };
        SqlEngine::new(database, options).unwrap().session()
    }

    fn copy(session: &mut SqlSession) -> CopyIn {
        let statement = session.parse("COPY t FROM STDIN").unwrap().remove(0);
        let prepared = session.prepare(statement, &[]).unwrap();
        match session.execute(&prepared, &[]).unwrap() {
            Outcome::CopyIn(copy) => *copy,
            _ => panic!("a COPY"),
        }
    }

    #[test]
    fn a_panic_of_a_helper_ends_its_copy_alone() {
        if std::thread::available_parallelism().map_or(1, |count| count.get()) == 1 {
            return;
        }
        let mut session = session();
        for bad in [true, false] {
            let mut copy = copy(&mut session);
            // The first piece is a helper's.
            let number = |line: i32| if bad { line } else { line % 5_000 };
            let pushed = (0..50_000)
                .try_for_each(|line| copy.push(&mut session, format!("{}\n", number(line)).as_bytes()));
            let ended = pushed.and_then(|()| copy.finish(&mut session));
            match bad {
                true => assert_eq!(ended.unwrap_err().state(), SqlState::InternalError),
                false => assert_eq!(ended.unwrap(), "COPY 50000"),
            }
        }
    }
}
