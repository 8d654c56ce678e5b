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
//! Only the owner of a row (LOCKED, see `header`) changes its chain; readers walk it inside an epoch pin.

use crate::cell::{Cell, OwnedCell};
use ankerdb_base::{ColumnSet, Error, Result, Timestamp, failpoint};
use crossbeam_epoch::Guard;
use std::alloc::Layout;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A before-image.
pub struct Version {
    /// The commit that had made this state.
    pub begin: Timestamp,
    /// Whether the row existed in this state.
    pub exists: bool,
    /// The columns of `cells`.
    pub columns: ColumnSet,
    cells: BeforeCells,
    next: AtomicPtr<Version>,
}

/// Overwritten cells with their column positions. Commits overwrite few cells of a row, so the first ones lie in the
/// version itself: one allocation a version.
#[derive(Default)]
struct BeforeCells {
    first: [(u32, OwnedCell); CELLS_INLINE],
    first_count: u32,
    rest: Vec<(u32, OwnedCell)>,
}

/// As many as TPC-C's transactions change in most rows.
const CELLS_INLINE: usize = 4;

impl BeforeCells {
    fn push(&mut self, column: u32, cell: OwnedCell) -> Result<()> {
        match self.first.get_mut(self.first_count as usize) {
            Some(place) => {
                *place = (column, cell);
                self.first_count += 1;
            }
            None => {
                let reserved = self.rest.try_reserve(1);
                reserved.map_err(|_| Error::out_of_memory(size_of::<(u32, OwnedCell)>()))?;
                self.rest.push((column, cell));
            }
        }
        Ok(())
    }

    /// The cells, each with its column.
    fn iter(&self) -> impl Iterator<Item = &(u32, OwnedCell)> {
        self.first[..self.first_count as usize].iter().chain(&self.rest)
    }
}

impl Version {
    /// A state without cells. Allocates like `Box::new`, but returns 53200 where there is no memory instead of ending
    /// the process.
    #[inline]
    pub(crate) fn new(begin: Timestamp, exists: bool) -> Result<Box<Version>> {
        let layout = Layout::new::<Version>();
        // SAFETY: a version has a size.
        let memory = unsafe { std::alloc::alloc(layout) }.cast::<Version>();
        if memory.is_null() {
            return Err(Error::out_of_memory(layout.size()));
        }
        // SAFETY: allocated just now by the global allocator with this layout, and initialized before it is a box.
        unsafe {
            let (columns, cells, next) = (ColumnSet::EMPTY, BeforeCells::default(), AtomicPtr::default());
            memory.write(Version { begin, exists, columns, cells, next });
            Ok(Box::from_raw(memory))
        }
    }

    /// This state with these cells.
    fn of(version: &Version, cells: &[(u32, OwnedCell)]) -> Result<Box<Version>> {
        let mut merged = Version::new(version.begin, version.exists)?;
        *merged.next.get_mut() = version.next.load(Ordering::Relaxed);
        cells.iter().try_for_each(|(column, cell)| merged.add(*column, cell.borrow()))?;
        Ok(merged)
    }

    /// Adds a cell as it was. 53200 if there is no memory for it.
    #[inline]
    pub(crate) fn add(&mut self, column: u32, cell: Cell<'_>) -> Result<()> {
        self.columns.insert(column as usize);
        let cell = match cell {
            Cell::Bytes(bytes) => OwnedCell::Bytes(copy_of(bytes)?),
            cell => cell.to_owned(),
        };
        self.cells.push(column, cell)
    }

    /// The cell of a column, if this version holds it.
    #[inline]
    pub fn cell(&self, column: usize) -> Option<&OwnedCell> {
        if !self.columns.contains(column) {
            return None;
        }
        self.cells.iter().find(|(position, _)| *position as usize == column).map(|(_, cell)| cell)
    }

    /// Bytes of memory behind this version.
    pub fn memory_bytes(&self) -> usize {
        let heap: usize = self.cells.iter().map(|(_, cell)| cell.heap_bytes()).sum();
        size_of::<Version>() + size_of_val(&*self.cells.rest) + heap
    }
}

/// The versions of one row.
#[derive(Default)]
pub struct VersionChain(AtomicPtr<Version>);

/// The bytes of a string, or 53200.
fn copy_of(bytes: &[u8]) -> Result<Box<[u8]>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Error::out_of_memory(bytes.len()))?;
    copy.extend_from_slice(bytes);
    Ok(copy.into_boxed_slice())
}

impl VersionChain {
    /// Whether the row has no versions.
    pub fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// The versions, newest to oldest.
    pub fn iter<'pin>(&self, _pin: &'pin Guard) -> impl Iterator<Item = &'pin Version> + use<'pin> {
        let mut next = self.0.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: versions are freed an epoch after they were unlinked, and the caller's pin is older than
            // any unlinking it may have missed.
            let version = unsafe { next.as_ref::<'pin>() }?;
            next = version.next.load(Ordering::Acquire);
            Some(version)
        })
    }

    /// Adds the newest before-image. The caller owns the row.
    pub(crate) fn push(&self, mut version: Box<Version>) {
        *version.next.get_mut() = self.0.load(Ordering::Relaxed);
        self.0.store(Box::into_raw(version), Ordering::Release);
    }

    /// Takes the newest before-image back, if it is of the state that began at `begin`. The caller owns the row.
    pub(crate) fn take_back(&self, begin: Timestamp, pin: &Guard) {
        let newest = self.0.load(Ordering::Relaxed);
        // SAFETY: the row's owner alone unlinks versions.
        if let Some(version) = unsafe { newest.as_ref() }
            && version.begin == begin
        {
            self.0.store(version.next.load(Ordering::Relaxed), Ordering::Release);
            retire(newest, pin);
        }
    }

    /// Removes all versions. The caller owns the row and knows that no reader needs them any more.
    pub(crate) fn clear(&self, pin: &Guard) {
        let mut next = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: only the row's owner unlinks, so each version is unlinked, and freed, once.
        while let Some(version) = unsafe { next.as_ref() } {
            let unlinked = next;
            next = version.next.load(Ordering::Relaxed);
            retire(unlinked, pin);
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
        while let Some(version) = unsafe { pointer.as_ref::<'_>() } {
            let next = version.next.load(Ordering::Relaxed);
            let readable =
                end > watermark || in_use[in_use.partition_point(|used| *used < version.begin)] < end;
            end = version.begin;
            if readable {
                let kept = run.close(link, pointer, version, pin);
                // SAFETY: linked, and unlinked by the row's owner, that is us, alone.
                link = unsafe { &(*kept).next };
            } else {
                run.add(pointer, version);
            }
            pointer = next;
        }
        if !run.removed.is_empty() {
            link.store(std::ptr::null_mut(), Ordering::Release);
            failpoint::step("versions pruned");
            run.retire(pin);
        }
    }
}

/// Neighbouring versions on their way out, and their cells on the way to the next older version.
#[derive(Default)]
struct Run {
    removed: Vec<*mut Version>,
    orphans: Vec<(u32, OwnedCell)>,
}

impl Run {
    fn add(&mut self, pointer: *mut Version, version: &Version) {
        self.orphans.retain(|(column, _)| version.cell(*column as usize).is_none());
        self.orphans.extend(version.cells.iter().cloned());
        self.removed.push(pointer);
    }

    /// Ends the run in front of a version that stays; returns the version that now stands there.
    fn close(
        &mut self,
        link: &AtomicPtr<Version>,
        pointer: *mut Version,
        version: &Version,
        pin: &Guard,
    ) -> *mut Version {
        if self.removed.is_empty() {
            return pointer;
        }
        let mut cells = std::mem::take(&mut self.orphans);
        cells.retain(|(column, _)| version.cell(*column as usize).is_none());
        let kept = if cells.is_empty() {
            pointer
        } else {
            cells.extend(version.cells.iter().cloned());
            let Ok(merged) = Version::of(version, &cells) else {
                // Nothing is unlinked so far: without memory the run stays.
                self.removed.clear();
                return pointer;
            };
            self.removed.push(pointer);
            Box::into_raw(merged)
        };
        link.store(kept, Ordering::Release);
        failpoint::step("versions pruned");
        self.retire(pin);
        kept
    }

    fn retire(&mut self, pin: &Guard) {
        self.removed.drain(..).for_each(|version| retire(version, pin));
    }
}

impl Drop for VersionChain {
    fn drop(&mut self) {
        let mut next = *self.0.get_mut();
        while !next.is_null() {
            // SAFETY: nobody else can reach the chain of a dropped row.
            next = unsafe { *Box::from_raw(next).next.get_mut() };
        }
    }
}

fn retire(version: *mut Version, pin: &Guard) {
    // SAFETY: unlinked by the caller, so only readers that are pinned already can still hold it.
    unsafe { pin.defer_unchecked(move || drop(Box::from_raw(version))) };
}

#[cfg(test)]
mod tests {
    use super::*;
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
            if let Some(OwnedCell::Word(word)) = version.cell(column) {
                value = *word;
            }
            if version.begin <= at {
                return Some(value);
            }
        }
        None
    }

    proptest! {
        /// Against a model that keeps every state: pruned chains answer every reader that was announced, and no
        /// chain is longer than its readers plus the version under the newest state.
        #[test]
        fn pruning_keeps_exactly_what_readers_see(
            writes in prop::collection::vec((0usize..3, 0u64..100, 0usize..3), 1..40),
            readers in prop::collection::btree_set(1u64..40, 0..6),
        ) {
            let chain = VersionChain::default();
            let mut place = vec![0u64; 3];
            let mut states = vec![(Timestamp(1), place.clone())];
            for (i, (column, value, second)) in writes.into_iter().enumerate() {
                let commit = Timestamp(i as u64 + 2);
                let mut before = vec![(column as u32, OwnedCell::Word(place[column]))];
                place[column] = value;
                if second != column {
                    before.push((second as u32, OwnedCell::Word(place[second])));
                    place[second] = value + 1;
                }
                let begin = states.last().unwrap().0;
                let mut version = Version::new(begin, true).expect("there is memory");
                before.iter().for_each(|(column, cell)| version.add(*column, cell.borrow()).expect("there is memory"));
                chain.push(version);
                states.push((commit, place.clone()));
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
