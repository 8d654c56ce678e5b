//! Version chains: what rows were before, newest to oldest.
//!
//! The newest committed value is in place. A [`Version`] is a before-image: the cells that one commit overwrote,
//! as they had been since `begin`. The state of a row at timestamp *s* is the place's cells, overlaid by each
//! version from the newest down to the first with `begin <= s`; older cells win. A chain that ends before such a
//! version was found means: the row did not exist.
//!
//! ```text
//!  header @9       version            version
//!  a=3 b=3   ───>  begin @5: a=2 ───> begin @2: a=1 b=1      s=9: a=3 b=3   s=5..8: a=2 b=3   s=2..4: a=1 b=1
//! ```
//!
//! Pruning ([`prune`](VersionChain::prune)) removes versions that no reader can read, in the middle of chains too (the eager pruning
//! of obsolete versions in Steam, Boettcher et al. 2019): a version is needed while a reader's timestamp lies
//! in the interval in which it was the newest. Cells of a removed version move to the next older one that is
//! kept. So a reader that lives for an hour costs at most one version a row, whatever is written meanwhile.
//!
//! A commit pushes its before-images before it draws its timestamp. Until its header says otherwise, such a version has
//! the same `begin` as the state in place, and the same cells: a reader that meets it on the way to an older state
//! reads what is in place anyway. If the commit ends, the version is taken back.
//!
//! # Memory
//! A version is one piece of memory: what it holds, and nothing that it might have held. Most hold one to three words, and
//! a walk through a chain misses the cache once a version.
//!
//! ```text
//! 0      8     16       24     26                         a multiple of 8, at least 32
//! state  next  columns  count  marks, 2 bytes each  ...   cells
//!
//! mark   column and kind: NULL (no word), word, wide (two words), bytes (their number in a word, then they)
//! ```
//!
//! Only the owner of a row (LOCKED, see `header`) changes its chain; readers walk it inside an epoch pin.

use crate::cell::Cell;
use ankerdb_base::{ColumnSet, Error, Result, Timestamp, failpoint};
use crossbeam_epoch::Guard;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The beginning of a version's memory. What is behind it is reached by pointers of the whole piece only.
#[repr(C)]
struct Head {
    /// When the state began, and in the highest bit whether the row existed in it.
    state: u64,
    next: AtomicPtr<Head>,
    columns: ColumnSet,
    /// How many cells.
    count: u16,
    /// The first marks; further ones follow.
    marks: [u16; MARKS_INSIDE],
}

/// Marks that fill the head's last word.
const MARKS_INSIDE: usize = 3;
/// Where marks begin.
const MARKS_AT: usize = offset_of!(Head, marks);
const EXISTS: u64 = 1 << 63;

const _: () = assert!(size_of::<Head>() == 32 && MARKS_AT + 2 * MARKS_INSIDE == size_of::<Head>());

/// What a cell is, in the lower bits of its mark; the column is in the others.
const KIND_BITS: u32 = 2;
const NULL: u16 = 0;
const WORD: u16 = 1;
const WIDE: u16 = 2;
const BYTES: u16 = 3;

/// What the cells of a version take.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct CellSizes {
    count: usize,
    words: usize,
}

impl CellSizes {
    /// Makes room for another cell.
    #[inline]
    pub(crate) fn add(&mut self, cell: Cell<'_>) {
        self.count += 1;
        self.words += match cell {
            Cell::Null => 0,
            Cell::Word(_) => 1,
            Cell::Wide(_) => 2,
            Cell::Bytes(bytes) => 1 + bytes.len().div_ceil(8),
        };
    }

    /// Where the words of cells begin.
    #[inline]
    fn words_at(self) -> usize {
        (MARKS_AT + 2 * self.count).next_multiple_of(8).max(size_of::<Head>())
    }

    #[inline]
    fn layout(self) -> Layout {
        let bytes = self.words_at() + 8 * self.words;
        Layout::from_size_align(bytes, align_of::<Head>()).expect("cells in memory are smaller than it")
    }
}

/// A before-image that a chain has, or had when the reader that looks at it was pinned.
#[derive(Clone, Copy)]
pub struct Version<'pin> {
    /// Of the whole piece.
    head: NonNull<Head>,
    alive: PhantomData<&'pin Head>,
}

impl<'pin> Version<'pin> {
    /// # Safety
    /// The pointer is null, or of a finished version that is not freed during `'pin`.
    #[inline]
    unsafe fn at(head: *mut Head) -> Option<Version<'pin>> {
        Some(Version { head: NonNull::new(head)?, alive: PhantomData })
    }

    #[inline]
    fn head(self) -> &'pin Head {
        // SAFETY: alive during `'pin`.
        unsafe { self.head.as_ref() }
    }

    /// The commit that had made this state.
    #[inline]
    pub fn begin(self) -> Timestamp {
        Timestamp(self.head().state & !EXISTS)
    }

    /// Whether the row existed in this state.
    #[inline]
    pub fn exists(self) -> bool {
        self.head().state & EXISTS != 0
    }

    /// The columns of the cells.
    #[inline]
    pub fn columns(self) -> ColumnSet {
        self.head().columns
    }

    /// The cells, each with its column.
    #[inline]
    pub fn cells(self) -> impl Iterator<Item = (usize, Cell<'pin>)> + use<'pin> {
        let count = self.head().count as usize;
        let base = self.head.as_ptr().cast::<u8>().cast_const();
        let mut words_at = CellSizes { count, words: 0 }.words_at();
        (0..count).map(move |number| {
            // SAFETY: a finished version has `count` marks, and behind them the words that they ask for, all of them
            // initialized and never written again.
            unsafe {
                let mark = base.add(MARKS_AT).cast::<u16>().add(number).read();
                let words = base.add(words_at).cast::<u64>();
                let cell = match mark & ((1 << KIND_BITS) - 1) {
                    NULL => Cell::Null,
                    WORD => Cell::Word(words.read()),
                    WIDE => Cell::Wide(words.read() as u128 | (words.add(1).read() as u128) << 64),
                    _ => {
                        let bytes = words.add(1).cast::<u8>();
                        Cell::Bytes(std::slice::from_raw_parts(bytes, words.read() as usize))
                    }
                };
                let mut taken = CellSizes::default();
                taken.add(cell);
                words_at += 8 * taken.words;
                ((mark >> KIND_BITS) as usize, cell)
            }
        })
    }

    /// The cell of a column, if this version holds it.
    #[inline]
    pub fn cell(self, column: usize) -> Option<Cell<'pin>> {
        if !self.columns().contains(column) {
            return None;
        }
        self.cells().find(|(position, _)| *position == column).map(|(_, cell)| cell)
    }

    fn sizes(self) -> CellSizes {
        let mut sizes = CellSizes::default();
        self.cells().for_each(|(_, cell)| sizes.add(cell));
        sizes
    }

    /// Bytes of memory behind this version.
    pub fn memory_bytes(self) -> usize {
        self.sizes().layout().size()
    }
}

/// A version that no chain has yet.
pub(crate) struct NewVersion {
    head: NonNull<Head>,
    /// What there is room for.
    room: CellSizes,
    /// What has come.
    cells: CellSizes,
}

impl NewVersion {
    /// A state that is going to have cells of these sizes. 53200 where there is no memory.
    #[inline]
    pub(crate) fn new(begin: Timestamp, exists: bool, room: CellSizes) -> Result<NewVersion> {
        debug_assert!(begin.0 < EXISTS && room.count <= u16::MAX as usize);
        let layout = room.layout();
        // SAFETY: the layout has the head's size at least.
        let memory = unsafe { std::alloc::alloc(layout) }.cast::<Head>();
        let head = NonNull::new(memory).ok_or_else(|| Error::out_of_memory(layout.size()))?;
        let state = begin.0 | if exists { EXISTS } else { 0 };
        let (columns, marks) = (ColumnSet::EMPTY, [0; MARKS_INSIDE]);
        // SAFETY: allocated just now, aligned for a head and larger than one.
        unsafe { head.write(Head { state, next: AtomicPtr::default(), columns, count: 0, marks }) };
        Ok(NewVersion { head, room, cells: CellSizes::default() })
    }

    /// Adds a cell as it was.
    #[inline]
    pub(crate) fn add(&mut self, column: usize, cell: Cell<'_>) {
        let (CellSizes { count, words }, words_at) = (self.cells, self.room.words_at());
        self.cells.add(cell);
        assert!(self.cells.count <= self.room.count && self.cells.words <= self.room.words);
        let base = self.head.as_ptr().cast::<u8>();
        // SAFETY: there is room for the mark and for the words, by the assertion; the memory is ours alone.
        unsafe {
            let head = &mut *self.head.as_ptr();
            head.columns.insert(column);
            head.count += 1;
            let words = base.add(words_at + 8 * words).cast::<u64>();
            let kind = match cell {
                Cell::Null => NULL,
                Cell::Word(word) => {
                    words.write(word);
                    WORD
                }
                Cell::Wide(wide) => {
                    words.write(wide as u64);
                    words.add(1).write((wide >> 64) as u64);
                    WIDE
                }
                Cell::Bytes(bytes) => {
                    words.write(bytes.len() as u64);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), words.add(1).cast(), bytes.len());
                    BYTES
                }
            };
            base.add(MARKS_AT).cast::<u16>().add(count).write((column as u16) << KIND_BITS | kind);
        }
    }

    /// The version, with this one behind it.
    #[inline]
    fn finish(self, next: *mut Head) -> *mut Head {
        // What is freed is found from the cells.
        assert!(self.cells == self.room, "a version has the cells that it has room for");
        // SAFETY: ours alone.
        unsafe { *(*self.head.as_ptr()).next.get_mut() = next };
        std::mem::ManuallyDrop::new(self).head.as_ptr()
    }
}

impl Drop for NewVersion {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; ours alone.
        unsafe { std::alloc::dealloc(self.head.as_ptr().cast(), self.room.layout()) };
    }
}

/// # Safety
/// A finished version that nobody can reach.
unsafe fn free(head: NonNull<Head>) {
    let version = Version { head, alive: PhantomData };
    // SAFETY: allocated with the layout of its cells (`finish`).
    unsafe { std::alloc::dealloc(head.as_ptr().cast(), version.sizes().layout()) };
}

/// The versions of one row.
#[derive(Default)]
pub struct VersionChain(AtomicPtr<Head>);

impl VersionChain {
    /// Whether the row has no versions.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// The versions, newest to oldest.
    #[inline]
    pub fn iter<'pin>(&self, _pin: &'pin Guard) -> impl Iterator<Item = Version<'pin>> + use<'pin> {
        let mut next = self.0.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: versions are freed an epoch after they were unlinked, and the caller's pin is older than
            // any unlinking it may have missed.
            let version = unsafe { Version::at(next) }?;
            next = version.head().next.load(Ordering::Acquire);
            Some(version)
        })
    }

    /// Asks for the memory of the newest version.
    #[inline]
    pub fn prefetch(&self) {
        crate::prefetch::prefetch(self.0.load(Ordering::Relaxed).cast_const().cast());
    }

    /// Adds the newest before-image. The caller owns the row.
    #[inline]
    pub(crate) fn push(&self, version: NewVersion) {
        let head = version.finish(self.0.load(Ordering::Relaxed));
        self.0.store(head, Ordering::Release);
    }

    /// Takes the newest before-image back, if it is of the state that began at `begin`. The caller owns the row.
    pub(crate) fn take_back(&self, begin: Timestamp, pin: &Guard) {
        let newest = self.0.load(Ordering::Relaxed);
        // SAFETY: the row's owner alone unlinks versions.
        if let Some(version) = unsafe { Version::at(newest) }
            && version.begin() == begin
        {
            self.0.store(version.head().next.load(Ordering::Relaxed), Ordering::Release);
            retire(version, pin);
        }
    }

    /// Removes all versions. The caller owns the row and knows that no reader needs them any more.
    pub(crate) fn clear(&self, pin: &Guard) {
        let mut next = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: only the row's owner unlinks, so each version is unlinked, and freed, once.
        while let Some(version) = unsafe { Version::at(next) } {
            next = version.head().next.load(Ordering::Relaxed);
            retire(version, pin);
        }
    }

    /// Removes the versions that no reader needs. `end` is the timestamp of the row's newest change; `in_use` are
    /// the readers' timestamps, ascending, the last one a watermark from which on new readers may begin.
    /// The caller owns the row.
    ///
    /// A run of removed versions leaves in one store, together with the replacement of the version behind it, so
    /// that a reader finds either all of the old cells or all of the merged ones.
    pub(crate) fn prune(&self, end: Timestamp, in_use: &[Timestamp], pin: &Guard) {
        let Some(&watermark) = in_use.last() else { return };
        let mut link = &self.0;
        let mut end = end;
        let mut run = Run::default();
        let mut pointer = link.load(Ordering::Relaxed);
        // SAFETY: the row's owner alone unlinks versions, and it does so only below.
        while let Some(version) = unsafe { Version::at(pointer) } {
            pointer = version.head().next.load(Ordering::Relaxed);
            let begin = version.begin();
            let readable = end > watermark || in_use[in_use.partition_point(|used| *used < begin)] < end;
            end = begin;
            if readable {
                link = &run.close(link, version, pin).head().next;
            } else {
                run.0.push(version);
            }
        }
        if !run.0.is_empty() {
            link.store(std::ptr::null_mut(), Ordering::Release);
            failpoint::step("versions pruned");
            run.retire(pin);
        }
    }
}

/// Neighbouring versions on their way out, newest to oldest.
#[derive(Default)]
struct Run<'pin>(Vec<Version<'pin>>);

impl<'pin> Run<'pin> {
    /// Ends the run in front of a version that stays; returns the version that now stands there.
    fn close(&mut self, link: &AtomicPtr<Head>, version: Version<'pin>, pin: &Guard) -> Version<'pin> {
        if self.0.is_empty() {
            return version;
        }
        let moved = self.cells_to_move(version);
        let kept = if moved.is_empty() {
            version.head.as_ptr()
        } else {
            let Ok(merged) = merged(version, &moved) else {
                // Nothing is unlinked so far: without memory the run stays.
                self.0.clear();
                return version;
            };
            self.0.push(version);
            merged.finish(version.head().next.load(Ordering::Relaxed))
        };
        link.store(kept, Ordering::Release);
        failpoint::step("versions pruned");
        self.retire(pin);
        // SAFETY: linked now, and unlinked by the row's owner, that is our caller, alone.
        unsafe { Version::at(kept) }.expect("a version")
    }

    /// The cells that the next older version, which stays, has to take over: of each column the oldest one.
    fn cells_to_move(&self, version: Version<'_>) -> Vec<(usize, Cell<'pin>)> {
        let mut moved: Vec<(usize, Cell<'pin>)> = Vec::new();
        for (column, cell) in self.0.iter().rev().flat_map(|removed| removed.cells()) {
            if version.cell(column).is_none() && moved.iter().all(|(position, _)| *position != column) {
                moved.push((column, cell));
            }
        }
        moved
    }

    fn retire(&mut self, pin: &Guard) {
        self.0.drain(..).for_each(|version| retire(version, pin));
    }
}

/// A version's state with these cells besides its own.
fn merged(version: Version<'_>, moved: &[(usize, Cell<'_>)]) -> Result<NewVersion> {
    let mut room = version.sizes();
    moved.iter().for_each(|(_, cell)| room.add(*cell));
    let mut merged = NewVersion::new(version.begin(), version.exists(), room)?;
    version.cells().for_each(|(column, cell)| merged.add(column, cell));
    moved.iter().for_each(|(column, cell)| merged.add(*column, *cell));
    Ok(merged)
}

impl Drop for VersionChain {
    fn drop(&mut self) {
        let mut next = *self.0.get_mut();
        // SAFETY: nobody else can reach the chain of a dropped row.
        while let Some(version) = unsafe { Version::at(next) } {
            next = version.head().next.load(Ordering::Relaxed);
            // SAFETY: as above; it is not looked at again.
            unsafe { free(version.head) };
        }
    }
}

fn retire(version: Version<'_>, pin: &Guard) {
    let head = version.head;
    // SAFETY: unlinked by the caller, so only readers that are pinned already can still hold it.
    unsafe { pin.defer_unchecked(move || free(head)) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MAX_COLUMNS;
    use crossbeam_epoch::pin;
    use proptest::prelude::*;

    /// The value of `column` at `at`, given the cells in place; `None` if the row does not exist.
    fn read(
        chain: &VersionChain,
        newest: Timestamp,
        place: &[u64],
        column: usize,
        at: Timestamp,
    ) -> Option<u64> {
        let mut value = place[column];
        if newest <= at {
            return Some(value);
        }
        for version in chain.iter(&pin()) {
            if let Some(Cell::Word(word)) = version.cell(column) {
                value = word;
            }
            if version.begin() <= at {
                return Some(value);
            }
        }
        None
    }

    fn version(begin: Timestamp, cells: &[(usize, Cell<'_>)]) -> NewVersion {
        let mut room = CellSizes::default();
        cells.iter().for_each(|(_, cell)| room.add(*cell));
        let mut version = NewVersion::new(begin, true, room).expect("there is memory");
        cells.iter().for_each(|(column, cell)| version.add(*column, *cell));
        version
    }

    #[test]
    fn a_version_holds_cells_of_every_kind_in_any_number() {
        let kinds = [
            Cell::Null,
            Cell::Word(u64::MAX / 3),
            Cell::Wide(u128::MAX / 7),
            Cell::Bytes(b""),
            Cell::Bytes(b"8 bytes."),
            Cell::Bytes(b"nine byte"),
        ];
        for count in (0..40).chain([MAX_COLUMNS]) {
            // Columns from 63 on share a bit of the set.
            let column = |number: usize| (number * 7) % MAX_COLUMNS;
            let cells: Vec<_> =
                (0..count).map(|number| (column(number), kinds[number % kinds.len()])).collect();
            let chain = VersionChain::default();
            chain.push(version(Timestamp(5), &cells));
            let pin = pin();
            let version = chain.iter(&pin).next().expect("it was pushed");
            assert_eq!((version.begin(), version.exists()), (Timestamp(5), true));
            assert!(version.cells().eq(cells.iter().copied()));
            assert!(cells.iter().all(|(column, cell)| version.cell(*column) == Some(*cell)));
            assert_eq!(version.cell(MAX_COLUMNS), None);
        }
    }

    #[test]
    fn a_version_is_32_bytes_and_its_cells() {
        let bytes = |cells: &[_]| {
            let chain = VersionChain::default();
            chain.push(version(Timestamp(5), cells));
            chain.iter(&pin()).map(Version::memory_bytes).sum::<usize>()
        };
        assert_eq!(bytes(&[]), 32);
        assert_eq!(bytes(&[(3, Cell::Word(1))]), 40);
        assert_eq!(bytes(&[(3, Cell::Word(1)), (1, Cell::Wide(1)), (70, Cell::Bytes(b"twelve bytes"))]), 80);
    }

    proptest! {
        /// Against a model that keeps every state: pruned chains answer every reader that was announced, and no
        /// chain is longer than its readers plus the version under the newest state.
        #[test]
        fn pruning_keeps_exactly_what_readers_see(
            writes in prop::collection::vec((0usize..3, 0u64..100, 0usize..3, any::<bool>()), 1..40),
            readers in prop::collection::btree_set(1u64..40, 0..6),
        ) {
            let chain = VersionChain::default();
            let mut place = vec![0u64; 3];
            let mut states = vec![(Timestamp(1), place.clone())];
            for (i, (column, value, second, prunes)) in writes.into_iter().enumerate() {
                let commit = Timestamp(i as u64 + 2);
                let mut before = vec![(column, Cell::Word(place[column]))];
                place[column] = value;
                if second != column {
                    before.push((second, Cell::Word(place[second])));
                    place[second] = value + 1;
                }
                let begin = states.last().unwrap().0;
                chain.push(version(begin, &before));
                states.push((commit, place.clone()));
                // Several versions in a row go at once where pruning was left out before.
                if !prunes {
                    continue;
                }
                let watermark = Timestamp(commit.0 - 1);
                let mut in_use: Vec<Timestamp> =
                    readers.iter().map(|r| Timestamp(*r)).filter(|r| *r < watermark).collect();
                in_use.push(watermark);
                chain.prune(commit, &in_use, &pin());
                for reader in &in_use {
                    let model = states.iter().rev().find(|(at, _)| at <= reader);
                    for column in 0..3 {
                        let expected = model.map(|(_, state)| state[column]);
                        prop_assert_eq!(read(&chain, commit, &place, column, *reader), expected);
                    }
                }
                prop_assert!(chain.iter(&pin()).count() <= in_use.len());
            }
        }
    }
}
