//! Lending: when a row block's column arrays may be read or changed.
//!
//! # Idea
//! A row block keeps each column as one array, the newest committed value in place. Committing writers change
//! single cells in place, many at once, on different rows. Analytical readers want whole arrays without a
//! copy, for as long as a query runs, and in that time the array must not change. Neither waits:
//!
//! - A reader **borrows** an array if no writer is at work in the block; otherwise it is refused and makes
//!   its own copy from the versions.
//! - A writer that meets a lent array **copies on write**: it copies the array, makes the copy the block's
//!   array and writes there. The old array stays with its borrowers, an immutable pre-image, and is freed
//!   with the last of them.
//!
//! So a loan costs a writer at most one copy of a column, and a writer costs a reader at most one refusal.
//!
//! # State
//! ```text
//! block   state word k   | lent: 1 bit per column (48) | writers: count (16) |    for columns 48k .. 48k+47
//!         column c       -> cell { lenders: count, value: the array }             raw reference of an Arc
//!         mover          mutex, taken only by writers that meet a lent bit
//! ```
//! A lent bit means "there may be a borrower; look closer". It may be stale (set, although no borrower is
//! left), never missing. A table of up to 48 columns has one state word, so that a writer registers with one
//! atomic instruction.
//!
//! # Protocol
//! ```text
//! Reader (inside a pin)                            Writer (inside a pin)
//! R1  load the pointers, take a count of each      W1  writers += 1, keeping the lent bits found   (Acquire)
//!     Arc, lenders += 1                            W2  column's bit was clear: write in place
//! R2  if writers = 0: set the lent bits            W3  else lock the mover and look again:
//!     (compare-exchange, AcqRel), else refuse            bit now clear: somebody has done it for us
//! R3  pointers changed since R1: refuse                  lenders = 0 (Acquire): clear the bit   (Release)
//! R4  clean() says no: refuse                            else copy, swap the pointer, clear the bit (Release),
//!     ... reads the arrays ...                           retire the old cell
//! R5  lenders -= 1 (Release), drop the Arc         W4  ... writes ...  writers -= 1                (Release)
//! ```
//! Refusing means R5 for all arrays; the bits stay, stale.
//!
//! ```text
//! time ─────────────────────────────────────────────────────────────────────────►
//! state    0|w0    0|w1    0|w0      1|w0      1|w1          0|w1     0|w0
//! writer A  ┌─ in place ─┐                     │              │        │
//! reader                       R1 R2 R3 R4 ═════ reads X ═════╪════════╪══════ R5, X freed
//! writer B                                     W1 ─ X lent: copy X→Y ── writes Y ── W4
//! array of the block    X ────────────────────────────────────┤ Y ──────────────
//! ```
//!
//! # Invariants
//! 1. *While a writer is registered, no lent bit goes from clear to set.* R2 sets bits only if it finds
//!    writers = 0, in the same instruction. So a writer that found a bit clear may write in place until it
//!    deregisters, without looking again.
//! 2. *While writers are registered without a break, a column's pointer changes at most once, and before any
//!    of them writes in place.* Copying clears the bit, under the copier's mutex, and by (1) the bit stays
//!    clear. So no write goes to an array that is being copied, and none is lost. (One bit per column is what
//!    this rests on: were a bit shared, a reader that counts itself in at R1 only to be refused at R2 could
//!    make one writer copy an array in which another already writes.)
//! 3. *A loan that R3 and R4 let pass is not written.* At R2 no writer was in the block. A writer that
//!    registers later finds the bit, and, since R2 releases R1, finds lenders > 0 if the cell is still the
//!    block's: it copies. A cell that is no longer the block's is never written again.
//! 4. *R4 sees every write that is in the lent arrays.* Their writers deregistered (Release) before R2
//!    (Acquire), so what they did before deregistering, such as raising a "changed at" timestamp, is
//!    visible to `clean`. Writers after R2 do not write to these arrays, only to their copies; if `clean`
//!    sees them, the loan is refused needlessly, which is allowed. What they do must not turn a no into a
//!    yes: "unchanged since t" is a good question if the commits up to t are all there, "changed by t" is not.
//! 5. *Nothing is freed while it is in use.* R1 reads a pointer and then counts itself in; between the two
//!    only the pin protects the cell, since the block's own reference is retired, never dropped at once.
//!
//! W3 needs Acquire on lenders: a writer that finds 0 writes in place, and these writes must come after the
//! last borrower's reads. Other writers learn it through the Release on the state word. A reader's R2 must be
//! a read-modify-write even if all bits are set already: as a plain load it would release nothing, and a
//! writer could find the bit but not yet the count.
//!
//! # Not here
//! Which rows a reader sees, versions, and what clean means: the table's business. A writer never waits for
//! a reader, but it does wait for another writer that is copying a column of the same block.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use crate::primitive::{Arc, AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering, ProofStep, weakened};

/// Columns that one state word covers.
const COLUMNS_PER_WORD: usize = 48;
/// Where the lent bits begin.
const LENT_SHIFT: u32 = 16;
/// The bits that count writers.
const WRITERS: u64 = (1 << LENT_SHIFT) - 1;

/// An array and the number of loans of it, including those that are still to be refused.
struct Cell<A> {
    lenders: AtomicU32,
    value: A,
}

impl<A> Cell<A> {
    fn raw(value: A) -> *mut Cell<A> {
        Arc::into_raw(Arc::new(Cell { lenders: AtomicU32::new(0), value })).cast_mut()
    }
}

/// The column arrays of one row block.
pub struct Columns<A> {
    /// One per 48 columns, at least one.
    states: Box<[AtomicU64]>,
    /// Raw references.
    cells: Box<[AtomicPtr<Cell<A>>]>,
    mover: Mutex<()>,
    owns: PhantomData<Arc<Cell<A>>>,
}

// SAFETY: the arrays are shared among threads by reference and dropped on any thread, which is what
// `Arc<Cell<A>>: Send + Sync` asks of `A`; everything else is atomic or behind the mutex.
unsafe impl<A: Send + Sync> Send for Columns<A> {}
// SAFETY: as above.
unsafe impl<A: Send + Sync> Sync for Columns<A> {}

impl<A> Columns<A> {
    /// Takes over the arrays, one per column.
    pub fn new(arrays: impl IntoIterator<Item = A>) -> Columns<A> {
        let cells: Box<[_]> = arrays.into_iter().map(|array| AtomicPtr::new(Cell::raw(array))).collect();
        let words = cells.len().div_ceil(COLUMNS_PER_WORD).max(1);
        Columns {
            states: (0..words).map(|_| AtomicU64::new(0)).collect(),
            cells,
            mover: Mutex::new(()),
            owns: PhantomData,
        }
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is no column at all.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// The column's present array, for reads that tolerate writes in place going on meanwhile. One load.
    ///
    /// # Safety
    /// The caller is inside a pin that it took before the call and that outlives `'pin`, and whatever
    /// [`Writing::column`] hands to `retire` is not dropped before all such pins have ended.
    pub unsafe fn current<'pin>(&self, column: usize) -> &'pin A {
        let cell = self.cells[column].load(Ordering::Acquire);
        // SAFETY: the cell was the block's own when it was loaded, so it is retired, if at all, inside the
        // caller's pin, and stays alive until that ends.
        unsafe { &(*cell).value }
    }

    /// Registers a writer. One atomic instruction (per 48 columns); never waits.
    ///
    /// From now on no array is lent that is not lent already. Keep the result short-lived: readers are
    /// refused meanwhile.
    pub fn begin_write(&self) -> Writing<'_, A> {
        let first = self.register(0);
        for word in 1..self.states.len() {
            self.register(word);
        }
        Writing { columns: self, first }
    }

    /// W1.
    fn register(&self, word: usize) -> u64 {
        let found = self.states[word].fetch_add(1, Ordering::Acquire);
        assert!(found & WRITERS != WRITERS, "more than 65,535 writers in one row block");
        found
    }

    /// Lends the arrays of `columns`, if no writer is registered and `clean` says that their content is still
    /// what the reader wants. `clean` is called when writers can no longer change the arrays, and sees what
    /// the writers of their content did before they deregistered; writers that come later may turn its answer
    /// only from yes to no. Never waits; may refuse without need. The arrays lent are all of one moment.
    ///
    /// Costs two atomic instructions per column and one per state word.
    ///
    /// # Safety
    /// As for [`Columns::current`]; the loans themselves outlive the pin.
    pub unsafe fn lend(&self, columns: &[usize], clean: impl FnOnce() -> bool) -> Option<Vec<Lent<A>>> {
        // Saves the counting in when refusal is certain.
        if self.masks(columns).any(|(state, _)| state.load(Ordering::Relaxed) & WRITERS != 0) {
            return None;
        }
        let mut clean = Some(clean);
        if weakened(ProofStep::LendAsksLast) && !clean.take().is_none_or(|clean| clean()) {
            return None;
        }
        // SAFETY: the caller's promise.
        let lent: Vec<Lent<A>> = columns.iter().map(|&column| unsafe { self.count_in(column) }).collect();
        let granted = self.masks(columns).all(|(state, mask)| set_lent(state, mask))
            && columns.iter().zip(&lent).all(|(&column, lent)| self.is_current(column, lent))
            && clean.take().is_none_or(|clean| clean());
        granted.then_some(lent)
    }

    /// The state words that a loan of `columns` concerns, with the bits to set. The first word is always
    /// among them, so that a registered writer is always met.
    fn masks<'a>(&'a self, columns: &'a [usize]) -> impl Iterator<Item = (&'a AtomicU64, u64)> {
        self.states.iter().enumerate().filter_map(move |(word, state)| {
            let in_word = columns.iter().filter(|&&column| column / COLUMNS_PER_WORD == word);
            let mask = in_word.fold(0, |mask, &column| mask | lent_bit(column));
            (mask != 0 || word == 0).then_some((state, mask))
        })
    }

    /// R1, for one column.
    ///
    /// # Safety
    /// As for [`Columns::current`].
    unsafe fn count_in(&self, column: usize) -> Lent<A> {
        let cell = self.cells[column].load(Ordering::Acquire);
        // SAFETY: the pointer is a raw reference of an `Arc`, which, as in `current`, is not given up before
        // the caller's pin ends.
        let cell = unsafe {
            Arc::increment_strong_count(cell);
            Arc::from_raw(cell.cast_const())
        };
        // R2 publishes this to writers.
        cell.lenders.fetch_add(1, Ordering::Relaxed);
        Lent(cell)
    }

    /// R3, for one column. The address cannot have been given to another cell: we keep the old one alive.
    fn is_current(&self, column: usize, lent: &Lent<A>) -> bool {
        // Relaxed: copies that ended before R2 are visible by R2; later ones do not matter (invariant 3).
        weakened(ProofStep::LendChecksPointers)
            || std::ptr::eq(self.cells[column].load(Ordering::Relaxed), Arc::as_ptr(&lent.0))
    }
}

fn lent_bit(column: usize) -> u64 {
    1 << (LENT_SHIFT + (column % COLUMNS_PER_WORD) as u32)
}

/// R2, for one word. Tries again only when another reader came first.
fn set_lent(state: &AtomicU64, mask: u64) -> bool {
    let success = if weakened(ProofStep::LendReleases) { Ordering::Acquire } else { Ordering::AcqRel };
    let mut seen = state.load(Ordering::Relaxed);
    while seen & WRITERS == 0 || weakened(ProofStep::LendMeetsNoWriter) {
        match state.compare_exchange_weak(seen, seen | mask, success, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}

impl<A> Drop for Columns<A> {
    fn drop(&mut self) {
        for cell in &self.cells {
            let cell = cell.load(Ordering::Relaxed);
            // SAFETY: the block's own raw reference, given up once, here; no other reference is left.
            drop(unsafe { Arc::from_raw(cell.cast_const()) });
        }
    }
}

impl<A> fmt::Debug for Columns<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states: Vec<u64> = self.states.iter().map(|state| state.load(Ordering::Relaxed)).collect();
        f.debug_struct("Columns").field("len", &self.len()).field("states", &states).finish()
    }
}

/// A registered writer. Deregisters when dropped, which publishes its writes to readers.
pub struct Writing<'a, A> {
    columns: &'a Columns<A>,
    /// The first state word as found at W1.
    first: u64,
}

impl<A> Writing<'_, A> {
    /// The array of `column`, to write into through whatever atomics it is made of. It is the block's present
    /// array for as long as the `Writing` lives.
    ///
    /// If the array is lent, it is copied first: `copy` makes the new array, while no writer writes to the
    /// old one, and `retire` gets the block's reference to the old array, to drop once all pins of now have
    /// ended.
    ///
    /// Costs nothing beyond a load where nothing is lent; else waits for other writers that are copying in
    /// this block, never for readers. If `copy` panics, nothing has changed.
    pub fn column(&self, column: usize, copy: impl FnOnce(&A) -> A, retire: impl FnOnce(Retired<A>)) -> &A {
        if self.may_be_lent(column)
            && let Some(old) = self.columns.settle(column, copy)
        {
            retire(old);
        }
        let cell = self.columns.cells[column].load(Ordering::Acquire);
        // SAFETY: W2 or W3 has found or made the lent bit clear, so by invariant 2 this cell stays the
        // block's own, and alive, until we deregister.
        unsafe { &(*cell).value }
    }

    fn may_be_lent(&self, column: usize) -> bool {
        let bit = lent_bit(column);
        let word = column / COLUMNS_PER_WORD;
        // What was clear at W1 is still clear (invariant 1), so the first word need not be loaded again.
        (word > 0 || self.first & bit != 0) && self.columns.states[word].load(Ordering::Acquire) & bit != 0
    }
}

impl<A> Columns<A> {
    /// W3. Returns the old array if it was lent and has been replaced.
    #[cold]
    fn settle(&self, column: usize, copy: impl FnOnce(&A) -> A) -> Option<Retired<A>> {
        let state = &self.states[column / COLUMNS_PER_WORD];
        let bit = lent_bit(column);
        let _mover = self.mover.lock();
        // Relaxed, also below: bits are cleared, and pointers changed, only under the mover.
        if state.load(Ordering::Relaxed) & bit == 0 && !weakened(ProofStep::MoveOnce) {
            return None;
        }
        let old = self.cells[column].load(Ordering::Relaxed);
        // SAFETY: the block's own cell; it changes only under the mover, which we hold.
        let cell = unsafe { &*old };
        let retired = if cell.lenders.load(Ordering::Acquire) == 0 && !weakened(ProofStep::MoveOnce) {
            None
        } else {
            self.cells[column].store(Cell::raw(copy(&cell.value)), Ordering::Release);
            // SAFETY: the raw reference that the block has just given up.
            Some(Retired(unsafe { Arc::from_raw(old.cast_const()) }))
        };
        state.fetch_and(!bit, Ordering::Release);
        retired
    }
}

impl<A> Drop for Writing<'_, A> {
    fn drop(&mut self) {
        for state in &self.columns.states {
            state.fetch_sub(1, Ordering::Release);
        }
    }
}

/// A borrowed array. Does not change while it is borrowed; dropping it ends the loan. Keeps the array alive
/// by itself, also after the block has replaced it or is gone.
pub struct Lent<A>(Arc<Cell<A>>);

impl<A> Deref for Lent<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0.value
    }
}

impl<A> Clone for Lent<A> {
    fn clone(&self) -> Lent<A> {
        // Relaxed: the count is above zero already and a writer only asks whether it is zero.
        self.0.lenders.fetch_add(1, Ordering::Relaxed);
        Lent(Arc::clone(&self.0))
    }
}

impl<A> Drop for Lent<A> {
    fn drop(&mut self) {
        let order = if weakened(ProofStep::LoanEndReleases) { Ordering::Relaxed } else { Ordering::Release };
        self.0.lenders.fetch_sub(1, order);
    }
}

impl<A: fmt::Debug> fmt::Debug for Lent<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lent").field(&**self).finish()
    }
}

/// A block's reference to an array that it has replaced. Drop it once all pins of the moment in which it was
/// handed out have ended; borrowers of the array are not affected.
pub struct Retired<A>(#[expect(dead_code, reason = "held only to be dropped")] Arc<Cell<A>>);

impl<A> fmt::Debug for Retired<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Retired")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    type Array = Vec<AtomicU64>;

    fn array(values: &[u64]) -> Array {
        values.iter().map(|&value| AtomicU64::new(value)).collect()
    }

    fn values(array: &Array) -> Vec<u64> {
        array.iter().map(|cell| cell.load(Ordering::Relaxed)).collect()
    }

    fn copy(old: &Array) -> Array {
        array(&values(old))
    }

    /// Writes one cell; returns whether the writer copied the array.
    fn write(columns: &Columns<Array>, column: usize, row: usize, value: u64) -> bool {
        let writing = columns.begin_write();
        let mut moved = false;
        // No test here reads an array through a pin, so the old one may go at once.
        writing.column(column, copy, |_| moved = true)[row].store(value, Ordering::Relaxed);
        moved
    }

    fn lend(columns: &Columns<Array>, which: &[usize]) -> Option<Vec<Lent<Array>>> {
        // SAFETY: these tests drop retired arrays only where no other thread is about to lend.
        unsafe { columns.lend(which, || true) }
    }

    #[test]
    fn a_writer_moves_away_once_from_what_is_lent_and_only_from_that() {
        let columns = Columns::new([array(&[1, 2]), array(&[3, 4])]);
        let lent = lend(&columns, &[0]).unwrap();
        assert!(!write(&columns, 1, 0, 30));
        assert!(write(&columns, 0, 0, 10));
        assert!(!write(&columns, 0, 1, 20));
        assert_eq!(values(&lent[0]), [1, 2]);
        let again = lend(&columns, &[0, 1]).unwrap();
        assert_eq!((values(&again[0]), values(&again[1])), (vec![10, 20], vec![30, 4]));
    }

    #[test]
    fn a_loan_lends_the_array_itself() {
        let columns = Columns::new([array(&[1])]);
        // SAFETY: nothing is retired here.
        let current = unsafe { columns.current(0) };
        assert!(std::ptr::eq(current, &*lend(&columns, &[0]).unwrap()[0]));
    }

    #[test]
    fn nothing_is_copied_for_a_loan_that_has_ended() {
        let columns = Columns::new([array(&[1])]);
        let lent = lend(&columns, &[0]).unwrap();
        let clone = lent[0].clone();
        drop(lent);
        assert!(write(&columns, 0, 0, 2), "the clone is a loan too");
        assert_eq!(values(&clone), [1]);
        drop(lend(&columns, &[0]));
        assert!(!write(&columns, 0, 0, 3));
    }

    #[test]
    fn loans_are_refused_to_whom_they_would_not_serve() {
        let columns = Columns::new((0..50).map(|_| array(&[1])));
        // SAFETY: nothing is retired here.
        assert!(unsafe { columns.lend(&[0], || false) }.is_none());
        let writing = columns.begin_write();
        assert!(lend(&columns, &[0]).is_none());
        assert!(lend(&columns, &[49]).is_none());
        assert!(lend(&columns, &[]).is_none());
        drop(writing);
        assert!(!write(&columns, 0, 0, 2), "a refused reader leaves no loan behind");
        assert!(lend(&columns, &[]).unwrap().is_empty());
    }

    #[test]
    fn columns_past_the_first_word_are_lent_one_by_one() {
        let columns = Columns::new((0..100).map(|column| array(&[column])));
        let lent = lend(&columns, &[3, 47, 48, 99]).unwrap();
        for column in [3, 47, 48, 99] {
            assert!(write(&columns, column, 0, 1000), "column {column}");
        }
        for column in [4, 46, 49, 98] {
            assert!(!write(&columns, column, 0, 1000), "column {column}");
        }
        assert_eq!(lent.iter().map(|array| values(array)[0]).collect::<Vec<_>>(), [3, 47, 48, 99]);
    }

    #[test]
    fn loans_outlive_the_block() {
        let columns = Columns::new([array(&[7])]);
        let lent = lend(&columns, &[0]).unwrap();
        drop(columns);
        assert_eq!(values(&lent[0]), [7]);
    }

    #[test]
    fn borrowed_arrays_stand_still_under_writers_and_no_write_is_lost() {
        const ROWS: usize = 64;
        const MOVES: usize = 100;
        let columns = Columns::new([array(&[0; ROWS])]);
        let graveyard = Mutex::new(Vec::new()); // stands in for epochs: nothing is dropped while threads run
        let written = AtomicU64::new(0);
        let done = || graveyard.lock().len() >= MOVES;
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (columns, graveyard, written, done) = (&columns, &graveyard, &written, &done);
                scope.spawn(move || {
                    for turn in 0.. {
                        let row = 2 * (turn % (ROWS / 2)) + writer;
                        let writing = columns.begin_write();
                        let array = writing.column(0, copy, |old| graveyard.lock().push(old));
                        array[row].fetch_add(1, Ordering::Relaxed);
                        drop(writing);
                        written.fetch_add(1, Ordering::Relaxed);
                        if turn % 64 == 0 {
                            std::thread::yield_now();
                            if done() {
                                return;
                            }
                        }
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done() {
                        let Some(lent) = lend(&columns, &[0]) else { continue };
                        let before = values(&lent[0]);
                        std::thread::yield_now();
                        assert_eq!(before, values(&lent[0]));
                    }
                });
            }
        });
        // SAFETY: all other threads are gone.
        let present = values(unsafe { columns.current(0) });
        assert_eq!(present.iter().sum::<u64>(), written.into_inner());
    }
}
