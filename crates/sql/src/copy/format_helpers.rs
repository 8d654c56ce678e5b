//! Threads that format rows of a COPY TO beside the one that reads them.
//!
//! ```text
//! query ──► batch, batch, batch ...      the session's thread: reads them
//!             │      │      └──► helper     rows of one batch at a time, by whoever is free, this thread included
//!             │      └──► this thread
//! pieces, in the order of the rows ──► the thread that writes
//! ```
//!
//! Invariants:
//! - Whoever writes has the pieces of all rows in the order of the rows, or an error: a thread that is gone before its last
//!   row is one.
//! - What is formatted and not written is bounded: a few pieces for each share of rows. A helper that nobody takes pieces from
//!   waits, and ends its share when there is nobody any more.
//! - Helpers end before this is dropped.

use super::formatter::{Formatter, Lines};
use crate::Batch;
use ankerdb_engine::{Error, Interrupt, Result};
use ankerdb_value::Clocks;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::{self, JoinHandle};

/// At most so many rows are formatted by one thread at a time.
pub(super) const SHARE_ROWS: usize = 8192;
/// Pieces of a share that wait to be written.
const PIECES_AHEAD: usize = 4;
/// More helpers than this wait for the thread that writes.
const HELPERS_MAX: usize = 4;

/// Lines of some rows, piece by piece. The next one may have to be waited for.
pub struct Pieces(State);

enum State {
    Ready(Option<Lines>),
    /// Comes from a helper: so many rows are still to come.
    Coming(Receiver<Result<Lines>>, usize),
}

impl Pieces {
    pub(super) fn ready(lines: Lines) -> Pieces {
        Pieces(State::Ready(Some(lines)))
    }
}

impl Iterator for Pieces {
    type Item = Result<Lines>;

    fn next(&mut self) -> Option<Result<Lines>> {
        match &mut self.0 {
            State::Ready(lines) => lines.take().map(Ok),
            State::Coming(_, 0) => None,
            State::Coming(pieces, left) => {
                let gone = |_| Err(Error::internal("a thread that formats COPY data is gone"));
                let lines = pieces.recv().unwrap_or_else(gone);
                *left = lines.as_ref().map_or(0, |lines| left.saturating_sub(lines.count()));
                Some(lines)
            }
        }
    }
}

/// Rows for a helper, and where their lines go.
struct Share {
    batch: Arc<Batch>,
    rows: Range<usize>,
    room: usize,
    pieces: SyncSender<Result<Lines>>,
}

impl Share {
    /// Ends early if nobody takes its pieces any more.
    fn format(self, formatter: &Formatter, interrupt: &Interrupt) {
        let mut next = self.rows.start;
        while next < self.rows.end {
            let piece = catch_unwind(AssertUnwindSafe(|| {
                let mut lines = Lines::new(self.room);
                next = formatter.push_rows(&self.batch, next..self.rows.end, &mut lines, interrupt)?;
                Ok(lines)
            }));
            let piece =
                piece.unwrap_or_else(|_| Err(Error::internal("a thread that formats COPY data hit a bug")));
            let is_over = piece.is_err();
            if self.pieces.send(piece).is_err() || is_over {
                return;
            }
        }
    }
}

struct Helper {
    shares: SyncSender<Share>,
    thread: JoinHandle<()>,
}

/// The helpers of one COPY.
#[derive(Default)]
pub(super) struct FormatHelpers(Vec<Helper>);

impl FormatHelpers {
    /// Starts as many as there are other processors; there may be none.
    pub(super) fn start(formatter: &Arc<Formatter>, interrupt: &Interrupt) -> FormatHelpers {
        let others = thread::available_parallelism().map_or(0, |count| count.get() - 1);
        let helper = |_| FormatHelpers::helper(formatter, interrupt);
        FormatHelpers((0..others.min(HELPERS_MAX)).map_while(helper).collect())
    }

    /// None if the system has no thread to give.
    fn helper(formatter: &Arc<Formatter>, interrupt: &Interrupt) -> Option<Helper> {
        let (shares, given) = mpsc::sync_channel::<Share>(1);
        let (formatter, interrupt, clocks) = (formatter.clone(), interrupt.clone(), Clocks::current());
        let work = move || {
            clocks.enter();
            given.into_iter().for_each(|share| share.format(&formatter, &interrupt));
        };
        let thread = thread::Builder::new().name("copy-out-lines".into()).spawn(work).ok()?;
        Some(Helper { shares, thread })
    }

    /// Has rows formatted by a helper that has time; none has if there is no answer.
    pub(super) fn give(&self, batch: &Arc<Batch>, rows: Range<usize>, room: usize) -> Option<Pieces> {
        let (pieces, coming) = mpsc::sync_channel(PIECES_AHEAD);
        let count = rows.len();
        let mut share = Share { batch: batch.clone(), rows, room, pieces };
        for helper in &self.0 {
            match helper.shares.try_send(share) {
                Ok(()) => return Some(Pieces(State::Coming(coming, count))),
                Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => share = back,
            }
        }
        None
    }
}

impl Drop for FormatHelpers {
    fn drop(&mut self) {
        for Helper { shares, thread } in self.0.drain(..) {
            drop(shares);
            // Its panics were caught.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::CopyOptions;
    use super::*;
    use crate::OutputColumn;
    use ankerdb_engine::{Cause, DataType, SqlState, Value};

    const ROWS: i32 = 300_000;

    fn formatter(columns: usize) -> Arc<Formatter> {
        let column = |at| OutputColumn::new(format!("c{at}"), DataType::Integer);
        let columns: Vec<OutputColumn> = (0..columns).map(column).collect();
        let options = CopyOptions::read(&[], &[], true).expect("no options");
        Arc::new(Formatter::new(&columns, options).expect("a formatter"))
    }

    fn rows(count: i32) -> Arc<Batch> {
        Arc::new(Batch::of_rows((0..count).map(|row| vec![Value::Integer(row)]).collect()))
    }

    /// One helper, whatever the machine has.
    fn helpers(formatter: &Arc<Formatter>, interrupt: &Interrupt) -> FormatHelpers {
        FormatHelpers(FormatHelpers::helper(formatter, interrupt).into_iter().collect())
    }

    fn text(pieces: Pieces) -> String {
        let bytes = |lines: Result<Lines>| lines.and_then(|lines| lines.framed(|_, _| Ok(())));
        String::from_utf8(pieces.flat_map(|lines| bytes(lines).expect("lines")).collect()).expect("UTF-8")
    }

    #[test]
    fn a_share_of_any_size_is_there_as_a_whole_and_in_order() {
        let (formatter, interrupt) = (formatter(1), Interrupt::default());
        let helpers = helpers(&formatter, &interrupt);
        for share in [0..ROWS, 0..1, 7..8192] {
            let rows = share.start as usize..share.end as usize;
            let pieces = helpers.give(&self::rows(ROWS), rows, 0).expect("a helper has time");
            let expected: String = share.map(|row| format!("{row}\n")).collect();
            assert!(text(pieces) == expected);
        }
    }

    #[test]
    fn one_that_nobody_takes_pieces_from_ends() {
        let (formatter, interrupt) = (formatter(1), Interrupt::default());
        let helpers = helpers(&formatter, &interrupt);
        let mut pieces = helpers.give(&rows(ROWS), 0..ROWS as usize, 0).expect("a helper has time");
        assert!(pieces.next().is_some_and(|lines| lines.is_ok()));
        let waiting = helpers.give(&rows(ROWS), 0..ROWS as usize, 0).expect("one share waits");
        assert!(helpers.give(&rows(1), 0..1, 0).is_none(), "it has no time");
        drop((pieces, waiting));
        drop(helpers);
    }

    #[test]
    fn panics_interrupts_and_missing_rows_are_errors() {
        let interrupt = Interrupt::default();
        let error =
            |pieces: Pieces| pieces.map(|lines| lines.err()).last().flatten().map(|error| error.state());
        // Rows of one cell have no second one.
        let two = helpers(&formatter(2), &interrupt);
        for _ in 0..2 {
            let pieces = two.give(&rows(10), 0..10, 0).expect("a helper has time");
            assert_eq!(error(pieces), Some(SqlState::InternalError));
        }
        let (sender, coming) = mpsc::sync_channel(1);
        let mut lines = Lines::new(0);
        formatter(1).push_rows(&rows(10), 0..9, &mut lines, &interrupt).expect("lines");
        sender.send(Ok(lines)).expect("room");
        drop(sender);
        assert_eq!(error(Pieces(State::Coming(coming, 10))), Some(SqlState::InternalError));
        let one = helpers(&formatter(1), &interrupt);
        interrupt.raise(Cause::Request);
        let pieces = one.give(&rows(10), 0..10, 0).expect("a helper has time");
        assert_eq!(error(pieces), Some(SqlState::QueryCanceled));
    }
}
