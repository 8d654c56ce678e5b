//! The parts of a history: transactions that committed, with what they saw and wrote, and moments of one clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// A transaction's number. Every version carries the number of its writer.
pub(crate) type Number = i64;

/// The writer of the first version of everything.
pub(crate) const MAKER: Number = 0;
/// What the first version of everything replaced.
pub(crate) const NOTHING: Number = -1;

/// Counts moments; a smaller one was earlier, for all threads.
#[derive(Default)]
pub(crate) struct Clock(AtomicU64);

impl Clock {
    pub(crate) fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// From a moment before something began to one after it ended.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Span {
    pub began: u64,
    pub ended: u64,
}

/// One committed transaction, or what a reader read.
#[derive(Clone, Default, Debug)]
pub(crate) struct Done {
    pub number: Number,
    /// The time from before the beginning until the commit was acknowledged.
    pub life: Span,
    /// The time in which its read timestamp was taken (above READ COMMITTED).
    pub snapshot: Span,
    /// From the call of commit to its acknowledgement.
    pub commit: Span,
    /// The commit's place in the order of commits, where the engine tells.
    pub timestamp: Option<u64>,
    pub statements: Vec<Statement>,
    pub writes: Vec<Write>,
    /// A snapshot, or a transaction that only reads at REPEATABLE READ: sees one moment, in `snapshot`.
    pub is_reader: bool,
}

impl Done {
    /// A transaction of which nothing is known yet.
    pub(crate) fn new(number: Number, began: u64) -> Done {
        Done { number, life: Span { began, ended: began }, ..Done::default() }
    }

    /// A reader, with one statement.
    pub(crate) fn reader(number: Number, snapshot: Span, reads: Vec<(i32, Number)>) -> Done {
        let statements = vec![Statement { span: snapshot, reads, ranges: Vec::new() }];
        Done { number, life: snapshot, snapshot, is_reader: true, statements, ..Done::default() }
    }
}

/// What one statement saw.
#[derive(Clone, Default, Debug)]
pub(crate) struct Statement {
    pub span: Span,
    /// Versions read: key and writer.
    pub reads: Vec<(i32, Number)>,
    pub ranges: Vec<Range>,
}

/// A range of kinds that was read.
#[derive(Clone, Default, Debug)]
pub(crate) struct Range {
    pub low: i32,
    pub high: i32,
    /// The versions returned.
    pub found: Vec<(i32, Number)>,
    /// The versions at that moment of keys that were counted: in the range, and nothing else of them was looked at.
    pub counted: Vec<(i32, Number)>,
    /// The versions of the other keys at that moment: outside of the range, or absent.
    pub not_found: Vec<(i32, Number)>,
}

/// A new version of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub key: i32,
    /// Its kind; `None` if the key has been deleted.
    pub kind: Option<i32>,
    /// The writer of the version that it replaced, as this transaction saw it.
    pub former: Number,
}
