//! loom models of [`crate::lending`].
//!
//! The arrays are loom's checked cells without any synchronization of their own: if a borrower's read and a
//! writer's write are not ordered by the protocol, loom reports a data race, whatever values are seen.
//! Retired arrays are kept until the end of an execution, which stands in for pins; loom reports what is
//! leaked then.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::lending::{Columns, Lent, Retired};
use crate::primitive::{AtomicU64, Ordering, ProofStep, check, check_further, check_without};

/// One cell per writer.
struct Array([UnsafeCell<u64>; 2]);

// SAFETY: loom checks all accesses to the cells.
unsafe impl Sync for Array {}

impl Array {
    fn new(values: [u64; 2]) -> Array {
        Array(values.map(UnsafeCell::new))
    }

    fn values(&self) -> [u64; 2] {
        // SAFETY: loom checks that no write is concurrent.
        self.0.each_ref().map(|cell| cell.with(|value| unsafe { *value }))
    }
}

/// Not dropped when a model has failed: loom cannot go on then, and would abort the process.
struct UnlessFailed<T>(ManuallyDrop<T>);

impl<T> UnlessFailed<T> {
    fn new(value: T) -> UnlessFailed<T> {
        UnlessFailed(ManuallyDrop::new(value))
    }
}

impl<T> Deref for UnlessFailed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for UnlessFailed<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

type Loan = UnlessFailed<Vec<Lent<Array>>>;

/// A block as a table keeps it, with a commit order in small.
struct Block {
    columns: UnlessFailed<Columns<Array>>,
    /// The number of the last writer that was about to write.
    changed_at: AtomicU64,
    /// The number of writers that are done.
    watermark: AtomicU64,
    /// Not loom's: it orders nothing that the protocol does not order.
    retired: std::sync::Mutex<Vec<UnlessFailed<Retired<Array>>>>,
}

impl Block {
    fn new(columns: usize) -> Arc<Block> {
        Arc::new(Block {
            columns: UnlessFailed::new(Columns::new((0..columns).map(|_| Array::new([0, 0])))),
            changed_at: AtomicU64::new(0),
            watermark: AtomicU64::new(0),
            retired: Default::default(),
        })
    }

    /// Writes 1 to the writer's cell of each of the columns.
    fn write(&self, writer: usize, columns: &[usize]) {
        let writing = self.columns.begin_write();
        self.changed_at.fetch_add(1, Ordering::Relaxed);
        for &column in columns {
            let copy = |old: &Array| Array::new(old.values());
            let retire = |old| self.retired.lock().unwrap().push(UnlessFailed::new(old));
            let array = writing.column(column, copy, retire);
            // SAFETY: loom checks that no other access is concurrent.
            array.0[writer].with_mut(|value| unsafe { *value = 1 });
        }
        drop(writing);
        self.watermark.fetch_add(1, Ordering::Release);
    }

    /// Lends columns that have not been changed after the watermark `at`.
    fn lend(&self, columns: &[usize], at: u64) -> Option<Loan> {
        self.lend_if(columns, || self.changed_at.load(Ordering::Relaxed) <= at)
    }

    fn lend_if(&self, columns: &[usize], clean: impl FnOnce() -> bool) -> Option<Loan> {
        // SAFETY: what is retired is kept until the end of the execution.
        unsafe { self.columns.lend(columns, clean) }.map(UnlessFailed::new)
    }

    fn values(&self, column: usize) -> [u64; 2] {
        // SAFETY: as for `lend_if`.
        unsafe { self.columns.current(column) }.values()
    }

    fn moves(&self) -> usize {
        self.retired.lock().unwrap().len()
    }
}

fn spawn(block: &Arc<Block>, run: impl FnOnce(&Block) + 'static) -> thread::JoinHandle<()> {
    let block = Arc::clone(block);
    thread::spawn(move || run(&block))
}

/// A loan holds what `clean` promised, and goes on holding it.
fn writer_and_reader() {
    let block = Block::new(1);
    let writer = spawn(&block, |block| block.write(0, &[0]));
    let lent = block.lend(&[0], 0);
    if let Some(lent) = &lent {
        assert_eq!(lent[0].values(), [0, 0]);
    }
    writer.join().unwrap();
    if let Some(lent) = &lent {
        assert_eq!(lent[0].values(), [0, 0]);
    }
    assert_eq!(block.values(0), [1, 0]);
    // A loan is granted again, of what is there now.
    assert_eq!(block.lend(&[0], 1).unwrap()[0].values(), [1, 0]);
}

/// A reader that begins and ends two loans while a writer comes: a stale bit, and a loan's end, in all places.
fn loans_that_end() {
    let block = Block::new(1);
    let writer = spawn(&block, |block| block.write(0, &[0]));
    for _ in 0..2 {
        if let Some(lent) = block.lend(&[0], 0) {
            assert_eq!(lent[0].values(), [0, 0]);
        }
    }
    writer.join().unwrap();
    assert_eq!(block.values(0), [1, 0]);
}

/// A reader at the newest watermark gets what belongs to it, while another loan makes the writer copy.
fn reader_at_the_watermark() {
    let block = Block::new(1);
    let earlier = block.lend(&[0], 0).unwrap();
    let writer = spawn(&block, |block| block.write(0, &[0]));
    let watermark = block.watermark.load(Ordering::Acquire);
    if let Some(lent) = block.lend(&[0], watermark) {
        assert_eq!(lent[0].values(), [watermark, 0]);
    }
    assert_eq!(earlier[0].values(), [0, 0]);
    writer.join().unwrap();
    assert_eq!((block.values(0), block.moves()), ([1, 0], 1));
}

/// A reader that takes whatever is there gets the same state of all columns.
fn reader_of_any_state(columns: [usize; 2]) {
    let block = Block::new(columns[1] + 1);
    let earlier = block.lend(&columns, 0).unwrap();
    let writer = spawn(&block, move |block| block.write(0, &columns));
    if let Some(lent) = block.lend_if(&columns, || true) {
        assert_eq!(lent[0].values(), lent[1].values());
    }
    writer.join().unwrap();
    drop(earlier);
}

/// Two writers meet a loan: one of them copies the array, and both writes are in the new one.
fn two_writers_meet_a_loan() {
    let block = Block::new(1);
    let lent = block.lend(&[0], 0).unwrap();
    let writers = [0, 1].map(|writer| spawn(&block, move |block| block.write(writer, &[0])));
    assert_eq!(lent[0].values(), [0, 0]);
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(lent[0].values(), [0, 0]);
    assert_eq!((block.values(0), block.moves()), ([1, 1], 1));
}

/// Two writers and a reader, all at once.
fn two_writers_and_a_reader() {
    let block = Block::new(1);
    let writers = [0, 1].map(|writer| spawn(&block, move |block| block.write(writer, &[0])));
    let lent = block.lend(&[0], 0);
    if let Some(lent) = &lent {
        assert_eq!(lent[0].values(), [0, 0]);
    }
    for writer in writers {
        writer.join().unwrap();
    }
    if let Some(lent) = &lent {
        assert_eq!(lent[0].values(), [0, 0]);
    }
    assert_eq!(block.values(0), [1, 1]);
    assert!(block.moves() <= 1);
}

/// A loan ends while two writers check whether it has ended.
fn two_writers_and_a_loan_that_ends() {
    let block = Block::new(1);
    let lent = block.lend(&[0], 0).unwrap();
    let writers = [0, 1].map(|writer| spawn(&block, move |block| block.write(writer, &[0])));
    assert_eq!(lent[0].values(), [0, 0]);
    drop(lent);
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(block.values(0), [1, 1]);
    assert!(block.moves() <= 1);
}

/// Two readers and a writer: one reader's refusal or end does not end the other's loan.
fn two_readers_and_a_writer() {
    let block = Block::new(1);
    let reader = spawn(&block, |block| {
        if let Some(lent) = block.lend(&[0], 0) {
            assert_eq!(lent[0].values(), [0, 0]);
        }
    });
    let writer = spawn(&block, |block| block.write(0, &[0]));
    let lent = block.lend(&[0], 0);
    reader.join().unwrap();
    if let Some(lent) = &lent {
        assert_eq!(lent[0].values(), [0, 0]);
    }
    writer.join().unwrap();
    assert_eq!(block.values(0), [1, 0]);
}

/// A reader of two columns, in two state words, gets both from before the writer or neither.
fn columns_in_two_words() {
    let block = Block::new(49);
    let writer = spawn(&block, |block| block.write(0, &[0, 48]));
    let lent = block.lend(&[0, 48], 0);
    writer.join().unwrap();
    if let Some(lent) = &lent {
        assert_eq!((lent[0].values(), lent[1].values()), ([0, 0], [0, 0]));
    }
    assert_eq!((block.values(0), block.values(48)), ([1, 0], [1, 0]));
}

#[test]
fn loom_writer_and_reader() {
    check(4, writer_and_reader);
}

#[test]
fn loom_loans_that_end() {
    check(3, loans_that_end);
}

#[test]
fn loom_reader_at_the_watermark() {
    check(3, reader_at_the_watermark);
}

#[test]
fn loom_reader_of_any_state() {
    check(3, || reader_of_any_state([0, 1]));
}

#[test]
fn loom_reader_of_any_state_in_two_words() {
    check(3, || reader_of_any_state([0, 48]));
}

#[test]
fn loom_two_writers_meet_a_loan() {
    check(3, two_writers_meet_a_loan);
}

#[test]
fn loom_two_writers_and_a_reader() {
    check(3, two_writers_and_a_reader);
}

#[test]
fn loom_two_writers_and_a_loan_that_ends() {
    check(3, two_writers_and_a_loan_that_ends);
}

#[test]
fn loom_two_readers_and_a_writer() {
    check_further(2, 3, two_readers_and_a_writer);
}

#[test]
fn loom_columns_in_two_words() {
    check(3, columns_in_two_words);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_without_looking_again_at_the_pointers() {
    // A reader that began before a writer copied takes the old array for the present one.
    check_without(ProofStep::LendChecksPointers, || reader_of_any_state([0, 1]));
}

#[test]
#[should_panic = "Causality violation"]
fn control_lending_while_a_writer_is_registered() {
    check_without(ProofStep::LendMeetsNoWriter, writer_and_reader);
}

#[test]
#[should_panic = "Causality violation"]
fn control_without_release_at_lending() {
    check_without(ProofStep::LendReleases, writer_and_reader);
}

#[test]
#[should_panic = "assertion `left == right` failed"]
fn control_asking_for_clean_first() {
    check_without(ProofStep::LendAsksLast, writer_and_reader);
}

#[test]
#[should_panic = "Causality violation"]
fn control_moving_twice() {
    check_without(ProofStep::MoveOnce, two_writers_meet_a_loan);
}

#[test]
#[should_panic = "Causality violation"]
fn control_without_release_at_the_end_of_a_loan() {
    check_without(ProofStep::LoanEndReleases, loans_that_end);
}

#[test]
#[should_panic = "leaked"]
fn control_a_leak() {
    check(1, || {
        let block = Block::new(1);
        std::mem::forget(block.lend(&[0], 0));
    });
}
