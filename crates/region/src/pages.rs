//! Which page of the file belongs to which snapshot.
//!
//! The file has room for [`GENERATIONS`] copies of the region, one after the other; unit `u` of the region lives in page
//! `generation × units + u` of the file. So a copy of a unit always lies at the same place of another generation, and
//! neighbouring units that were copied to the same generation are neighbours in the file: one mapping, in whatever
//! order they were written.
//!
//! ```text
//! unit            0   1   2   3   4   5
//! generation 0    s1  L   s1  s1  L   L      L   live       s1  held by snapshot 1
//! generation 1    L   .   L   L   .   .      .   free: no memory
//!                 └─┘ └─┘ └─────┘ └─────┘    four runs of the live region, four mappings
//! ```
//!
//! **Ownership of pages.** A page is *born* at a number, the number of the next snapshot to be taken. A snapshot with
//! number `s` holds the live page of a unit that it covers if the page was born at `s` or before. When a live page is
//! replaced by a copy, it *retires*: to the list of the newest living snapshot that holds it, or, if none does, it is
//! free. When a snapshot ends, each page of its list goes on to the next older living snapshot that holds it, or is free.
//! Thus taking a snapshot touches no counters, and every page is looked at once per snapshot that outlives it.
//!
//! Room never lacks for a copy: all pages of a unit that are not free are live or held by different snapshots, and there are
//! fewer snapshots than generations.
//!
//! Not here: system calls, except for the memory of the tables; nothing allocates after [`Pages::new`].

use crate::anonymous::Mapping;
use ankerdb_base::Result;
use std::marker::PhantomData;

/// Copies of the region for which the file has room.
pub(crate) const GENERATIONS: usize = 256;
/// Snapshots that may be alive at once: two generations stay for the live page and its next copy.
pub(crate) const ALIVE_MAX: usize = GENERATIONS - 2;

/// The end of a list of pages.
const NO_PAGE: u64 = 0;

/// Where the live page of a unit is, and whether it may be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageEntry(u32);

impl PageEntry {
    pub(crate) fn new(generation: usize, writable: bool) -> PageEntry {
        PageEntry((generation as u32) << 1 | u32::from(!writable))
    }

    pub(crate) fn generation(self) -> usize {
        (self.0 >> 1) as usize
    }

    pub(crate) fn is_writable(self) -> bool {
        self.0 & 1 == 0
    }
}

/// A snapshot that has not ended.
#[derive(Clone, Copy)]
pub(crate) struct Living {
    pub sequence: u64,
    /// How many units it covers, from the first on.
    pub units: usize,
    /// Its addresses.
    pub start: usize,
    pub bytes: usize,
    /// Its mappings.
    pub runs: usize,
    /// Pages that retired to it: the first one's number plus one.
    retired: u64,
}

/// Numbers in memory that appears when it is touched.
struct Table<T> {
    memory: Mapping,
    numbers: PhantomData<T>,
}

impl<T: Copy> Table<T> {
    fn new(len: usize) -> Result<Table<T>> {
        let bytes = (len * size_of::<T>()).next_multiple_of(crate::PageSize::Small.bytes());
        Ok(Table { memory: Mapping::new(bytes, crate::PageSize::Small.bytes())?, numbers: PhantomData })
    }

    fn cell(&self, index: usize) -> *mut T {
        assert!(index < self.memory.bytes() / size_of::<T>());
        self.memory.pointer().as_ptr().cast::<T>().wrapping_add(index)
    }

    fn get(&self, index: usize) -> T {
        // SAFETY: inside; T is a number, for which zeroed memory is valid; changes need the table mutably.
        unsafe { *self.cell(index) }
    }

    fn set(&mut self, index: usize, value: T) {
        // SAFETY: inside, and the table is ours mutably.
        unsafe { *self.cell(index) = value };
    }
}

pub(crate) struct Pages {
    units: usize,
    live: Table<u32>,
    /// By page; see [`Pages::birth`].
    births: Table<u64>,
    /// By page: the next one of its list, plus one.
    links: Table<u64>,
    living: Box<[Option<Living>; ALIVE_MAX]>,
    alive: usize,
    /// The number of the newest snapshot.
    sequence: u64,
    /// Units that any snapshot ever covered. The others are where they were at the start.
    extent: usize,
    /// Pages in use beside one for each unit.
    extra: usize,
}

impl Pages {
    /// Everything in generation 0 and writable. Costs addresses, and memory only for what is snapshotted.
    pub(crate) fn new(units: usize) -> Result<Pages> {
        Ok(Pages {
            units,
            live: Table::new(units)?,
            births: Table::new(units * GENERATIONS)?,
            links: Table::new(units * GENERATIONS)?,
            living: Box::new([None; ALIVE_MAX]),
            alive: 0,
            sequence: 1,
            extent: 0,
            extra: 0,
        })
    }

    pub(crate) fn units(&self) -> usize {
        self.units
    }

    pub(crate) fn extent(&self) -> usize {
        self.extent
    }

    pub(crate) fn extra(&self) -> usize {
        self.extra
    }

    pub(crate) fn entry(&self, unit: usize) -> PageEntry {
        PageEntry(self.live.get(unit))
    }

    pub(crate) fn set(&mut self, unit: usize, entry: PageEntry) {
        self.live.set(unit, entry.0);
    }

    /// Page number of a unit in a generation.
    pub(crate) fn page(&self, generation: usize, unit: usize) -> usize {
        generation * self.units + unit
    }

    /// When a page was born; `None` if it is free. A table of zeroes says what is true at the start: all of generation 0 born
    /// at 0, everything else free.
    fn birth(&self, page: usize) -> Option<u64> {
        match self.births.get(page) {
            0 if page >= self.units => None,
            u64::MAX => None,
            birth => Some(birth),
        }
    }

    pub(crate) fn is_free(&self, generation: usize, unit: usize) -> bool {
        self.birth(self.page(generation, unit)).is_none()
    }

    /// A free page becomes one that the next snapshots will hold.
    pub(crate) fn occupy(&mut self, generation: usize, unit: usize) {
        assert!(self.is_free(generation, unit));
        self.births.set(self.page(generation, unit), self.sequence + 1);
        self.extra += 1;
    }

    fn free(&mut self, page: usize) {
        self.births.set(page, u64::MAX);
        self.extra = self.extra.wrapping_sub(1);
    }

    /// The newest snapshot among the oldest `among` that holds a page of `unit` born at `birth`.
    fn holder(&self, among: usize, unit: usize, birth: u64) -> Option<usize> {
        let newest_first = self.living[..among].iter().enumerate().rev();
        let held = newest_first.map_while(|(index, living)| living.map(|living| (index, living)));
        let mut held = held.take_while(|(_, living)| living.sequence >= birth);
        held.find(|(_, living)| living.units > unit).map(|(index, _)| index)
    }

    /// The newest snapshot that holds the live page of a unit.
    pub(crate) fn live_holder(&self, unit: usize) -> Option<usize> {
        let birth = self.birth(self.page(self.entry(unit).generation(), unit))?;
        self.holder(self.alive, unit, birth)
    }

    /// A generation for a copy of `unit`: a neighbour's, so that they share a mapping, or else the lowest.
    pub(crate) fn free_generation(&self, unit: usize) -> Option<usize> {
        let neighbours = [unit.checked_sub(1), Some(unit + 1).filter(|next| *next < self.units)];
        let near = neighbours.into_iter().flatten().map(|neighbour| self.entry(neighbour).generation());
        near.chain(0..GENERATIONS).find(|generation| self.is_free(*generation, unit))
    }

    /// A generation where all of the extent can be live without any snapshot's page in the way.
    pub(crate) fn open_generation(&self) -> Option<usize> {
        (0..GENERATIONS).find(|generation| {
            (0..self.extent).all(|unit| {
                self.is_free(*generation, unit)
                    || (self.entry(unit).generation() == *generation && self.live_holder(unit).is_none())
            })
        })
    }

    /// Gives a page that is not live any more to the newest snapshot that holds it; `true` if none does and it is
    /// free.
    pub(crate) fn retire(&mut self, generation: usize, unit: usize) -> bool {
        self.pass_on(self.page(generation, unit), self.alive)
    }

    fn pass_on(&mut self, page: usize, among: usize) -> bool {
        let Some(birth) = self.birth(page) else { return false };
        match self.holder(among, page % self.units, birth) {
            Some(index) => {
                let Some(living) = &mut self.living[index] else { return false };
                self.links.set(page, living.retired);
                living.retired = page as u64 + 1;
                false
            }
            None => {
                self.free(page);
                true
            }
        }
    }

    pub(crate) fn alive(&self) -> usize {
        self.alive
    }

    /// A living snapshot, 0 the oldest.
    pub(crate) fn living(&self, index: usize) -> Option<Living> {
        self.living[..self.alive].get(index).copied().flatten()
    }

    pub(crate) fn find(&self, sequence: u64) -> Option<usize> {
        (0..self.alive).find(|index| self.living(*index).is_some_and(|living| living.sequence == sequence))
    }

    /// A new snapshot of the first `units`; its number. The caller has asked whether there is room for one more.
    pub(crate) fn add(&mut self, units: usize, start: usize, bytes: usize, runs: usize) -> u64 {
        self.sequence += 1;
        let sequence = self.sequence;
        self.living[self.alive] = Some(Living { sequence, units, start, bytes, runs, retired: NO_PAGE });
        self.alive += 1;
        self.cover(units);
        sequence
    }

    /// The first `units` may have been protected from now on.
    pub(crate) fn cover(&mut self, units: usize) {
        self.extent = self.extent.max(units);
    }

    /// Ends a snapshot. Reports the pages that are free now.
    pub(crate) fn remove(&mut self, index: usize, mut freed: impl FnMut(usize)) {
        let Some(removed) = self.living(index) else { return };
        let mut next = removed.retired;
        while next != NO_PAGE {
            let page = next as usize - 1;
            next = self.links.get(page);
            if self.pass_on(page, index) {
                freed(page);
            }
        }
        self.living.copy_within(index + 1..self.alive, index);
        self.alive -= 1;
        self.living[self.alive] = None;
    }
}
