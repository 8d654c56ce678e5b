//! One rewired region: its live memory, the file below, and what happens at a write.
//!
//! ```text
//!   live      │ A  B' C  D │        A..D shared file pages, written in place where no snapshot holds them
//!                 │
//!   file      │ A  B  C  D │ .  B' .  . │        one page for each different content
//!                 │
//!   snapshot  │ A  B  C  D │        the same pages mapped private: its owner's writes stay with it
//! ```
//!
//! **Protocol.** Everything here is called with the lock of the region's slot held, by threads that take and drop
//! snapshots, and by the signal handler or thread that serves a write fault ([`Space::on_write`]). Serving allocates
//! nothing and uses system calls only.
//!
//! 1. A page that a living snapshot holds is write-protected in live memory. It does not change: the snapshot's owner
//!    writes to private copies, and a write to live memory faults first.
//! 2. A snapshot first write-protects what it covers, then maps it. When the protecting call returns, no thread can
//!    write there; one that tries waits for the lock. The image is the memory at that one moment.
//! 3. A fault moves its unit to another page of the file and retries. The page it leaves is the snapshot's.
//! 4. A page is given back after nothing maps it any more.
//!
//! **When something runs out** in the middle of a write, which cannot fail, in this order:
//! - *Mappings*: the region is **compacted**: all of it is write-protected, which makes mappings fewer, copied to a generation
//!   of its own, and mapped by one call. Snapshots stay as they are. It happens at most once per snapshot, since
//!   everything is writable afterwards.
//! - *Memory*, or mappings even so: the snapshots that hold the page **end**. Their addresses get anonymous memory of
//!   zeroes, so that readers go on reading memory, and [`crate::RegionSnapshot::check`] tells their owners. The page is
//!   written in place. Other snapshots stay; if there is no mapping for that, all snapshots of this region end.
//!
//! Not here: how a fault comes about (`detector`, `handler`, `userfault`), and what frees the space (`rewired`).

use crate::anonymous::Mapping;
use crate::budget::Budget;
use crate::detector::Detector;
use crate::file::{Lack, MemoryFile, map_over};
use crate::pages::{ALIVE_MAX, GENERATIONS, PageEntry, Pages};
use ankerdb_base::Result;
use ankerdb_memory::charge::Charge;
use std::ops::Range;
use std::ptr::NonNull;

/// What a region may use; tests set less.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub budget: &'static Budget,
    /// Pages of the file beside the region's own.
    pub extra_pages_max: usize,
}

/// What has happened in a region, for reports.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RewiringCounts {
    /// Units copied because a snapshot held them.
    pub copied: u64,
    /// Units that no snapshot held when they were written, and that were only made writable.
    pub released: u64,
    /// Times that the whole region was copied to save mappings.
    pub compacted: u64,
    /// Snapshots that ended because something ran out.
    pub ended: u64,
}

pub(crate) struct Space {
    pages: Pages,
    file: MemoryFile,
    detector: Detector,
    /// One page once the region is gone.
    live: Mapping,
    unit_bytes: usize,
    limits: Limits,
    /// Mappings of live memory.
    runs: usize,
    counts: RewiringCounts,
    /// Pages of the file beside those of live memory, which its owner accounts for.
    charge: Charge,
    /// Whether the region is still there.
    pub open: bool,
    /// Snapshots that have not been dropped, ended or not.
    pub images: usize,
}

impl Space {
    /// Zeroed memory, mapped at addresses of its own.
    pub(crate) fn new(detector: Detector, unit_bytes: usize, units: usize, limits: Limits) -> Result<Space> {
        let bytes = units * unit_bytes;
        let live = Mapping::reserve(bytes, unit_bytes)?;
        let file = MemoryFile::new(bytes * GENERATIONS)?;
        // SAFETY: our own reservation.
        let mapped = unsafe { file.map(live.pointer().as_ptr(), bytes, 0, true) };
        mapped.map_err(|_| crate::anonymous::out_of_memory(bytes))?;
        if unit_bytes > crate::PageSize::Small.bytes() {
            live.advise(libc::MADV_HUGEPAGE);
        }
        detector.watch(live.pointer().as_ptr(), bytes).map_err(|_| crate::anonymous::out_of_memory(bytes))?;
        let pages = Pages::new(units)?;
        limits.budget.change(0, 1);
        let counts = RewiringCounts::default();
        Ok(Space {
            pages,
            file,
            detector,
            live,
            unit_bytes,
            limits,
            runs: 1,
            counts,
            charge: Charge::default(),
            open: true,
            images: 0,
        })
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        let start = self.live.pointer().as_ptr() as usize;
        self.open && (start..start + self.live.bytes()).contains(&address)
    }

    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.live.pointer()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.live.bytes()
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    pub(crate) fn counts(&self) -> RewiringCounts {
        self.counts
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.file.memory_bytes()
    }

    pub(crate) fn budget(&self) -> &'static Budget {
        self.limits.budget
    }

    /// Mappings that compacting would save a budget: none if it is another region's, or if they are few.
    pub(crate) fn runs_to_save(&self, budget: &Budget) -> usize {
        if self.open && std::ptr::eq(self.limits.budget, budget) { self.runs.saturating_sub(4) } else { 0 }
    }

    pub(crate) fn is_alive(&self, sequence: u64) -> bool {
        self.pages.find(sequence).is_some()
    }

    fn address(&self, unit: usize) -> *mut u8 {
        assert!(self.open, "a region that is gone has no addresses");
        self.live.pointer().as_ptr().wrapping_add(unit * self.unit_bytes)
    }

    fn offset(&self, generation: usize, unit: usize) -> usize {
        self.pages.page(generation, unit) * self.unit_bytes
    }

    // Taking a snapshot.

    /// Maps the first `range.bytes()` of the region at `range`, which belongs to the snapshot from then on; its number.
    /// On failure nothing has changed except that parts of `range` may be mapped.
    pub(crate) fn snapshot(&mut self, range: &Mapping) -> Result<u64, Lack> {
        let units = range.bytes().div_ceil(self.unit_bytes);
        if self.pages.alive() == ALIVE_MAX {
            return Err(Lack::Snapshots);
        }
        let mut runs = self.image_runs(units);
        // Room for the image, for where the protection ends in live memory, and for the write that comes next.
        if !self.limits.budget.has_room(runs + 4) {
            if self.runs > 2 {
                self.compact()?;
                runs = self.image_runs(units);
            }
            if !self.limits.budget.has_room(runs + 4) {
                return Err(Lack::Mappings);
            }
        }
        self.protect(units)?;
        let mapped = self.map_image(range, units);
        if mapped.is_err() {
            self.release_all_if_unheld();
            return Err(Lack::Mappings);
        }
        self.limits.budget.change(0, runs);
        Ok(self.pages.add(units, range.pointer().as_ptr() as usize, range.bytes(), runs))
    }

    /// Units from the first one of `units` on that lie one after the other in the file.
    fn image_run(&self, units: Range<usize>) -> usize {
        let generation = self.pages.entry(units.start).generation();
        let mut same = units.clone().take_while(|unit| self.pages.entry(*unit).generation() == generation);
        same.by_ref().count()
    }

    fn image_runs(&self, units: usize) -> usize {
        let generation = |unit| self.pages.entry(unit).generation();
        1 + (1..units).filter(|unit| generation(*unit) != generation(*unit - 1)).count()
    }

    fn map_image(&self, range: &Mapping, units: usize) -> Result<(), Lack> {
        let mut unit = 0;
        while unit < units {
            let run = self.image_run(unit..units);
            let start = unit * self.unit_bytes;
            let bytes = (run * self.unit_bytes).min(range.bytes() - start);
            let offset = self.offset(self.pages.entry(unit).generation(), unit);
            // SAFETY: inside the range that is the snapshot's.
            unsafe { self.file.map(range.pointer().as_ptr().add(start), bytes, offset, false)? };
            unit += run;
        }
        Ok(())
    }

    /// Write-protects the first `units`. When it returns, no thread can write there.
    fn protect(&mut self, units: usize) -> Result<(), Lack> {
        let protected = self.detector.protect(self.address(0), units * self.unit_bytes);
        // Noted even if it failed, since a part may be protected: a unit that is noted as protected and is not does no harm, as
        // nothing holds it; one that is protected and not noted would fault for ever.
        self.pages.cover(units);
        for unit in 0..units {
            self.pages.set(unit, PageEntry::new(self.pages.entry(unit).generation(), false));
        }
        self.recount();
        protected
    }

    fn recount(&mut self) {
        let splits = |unit| self.detector.splits(self.pages.entry(unit - 1), self.pages.entry(unit));
        // Beyond the extent everything is as at the start.
        let units = self.pages.units().min(self.pages.extent() + 1);
        let runs = 1 + (1..units).filter(|unit| splits(*unit)).count();
        self.limits.budget.change(self.runs, runs);
        self.runs = runs;
    }

    // Ending one.

    /// Ends a snapshot that its owner has unmapped, or that has ended before.
    pub(crate) fn forget(&mut self, sequence: u64) {
        if let Some(index) = self.pages.find(sequence) {
            self.remove(index);
            self.release_all_if_unheld();
            self.settle_account();
        }
    }

    /// Brings the account up to date. A write that copies a page is not refused; the next request for memory may be.
    fn settle_account(&mut self) {
        // Without live memory the pages are those that snapshots hold: of those covered, but for what is free by now.
        let live = if self.open { 0 } else { self.pages.extent() };
        self.charge.set(live.wrapping_add(self.pages.extra()) * self.unit_bytes);
    }

    /// Takes a snapshot off the list and punches what it alone held, neighbours together.
    fn remove(&mut self, index: usize) {
        let Some(living) = self.pages.living(index) else { return };
        self.limits.budget.change(living.runs, 0);
        let Space { pages, file, unit_bytes, .. } = self;
        let mut holes = Holes { file, unit_bytes: *unit_bytes, pending: 0..0 };
        pages.remove(index, |page| holes.add(page));
    }

    /// Without snapshots there is nothing to protect: one call makes all writable again, so that nothing faults.
    fn release_all_if_unheld(&mut self) {
        if self.open && self.pages.alive() == 0 {
            self.release_all();
        }
    }

    fn release_all(&mut self) -> bool {
        let bytes = self.pages.extent() * self.unit_bytes;
        if bytes > 0 && self.detector.release(self.address(0), bytes).is_err() {
            return false;
        }
        for unit in 0..self.pages.extent() {
            self.pages.set(unit, PageEntry::new(self.pages.entry(unit).generation(), true));
        }
        self.recount();
        true
    }

    // A write.

    /// Makes the unit at an address writable, by whatever it takes; `false` if nothing helped.
    pub(crate) fn on_write(&mut self, address: usize) -> bool {
        let unit = (address - self.live.pointer().as_ptr() as usize) / self.unit_bytes;
        let done = self.make_writable(unit);
        self.settle_account();
        self.detector.wake(self.address(unit), self.unit_bytes);
        done
    }

    fn make_writable(&mut self, unit: usize) -> bool {
        if self.pages.entry(unit).is_writable() {
            return true;
        }
        match self.separate(unit) {
            Ok(()) => return true,
            Err(Lack::Mappings) if self.compact().is_ok() => return true,
            Err(_) => {}
        }
        while let Some(index) = self.pages.live_holder(unit) {
            self.end(index);
        }
        if self.separate(unit).is_ok() {
            return true;
        }
        while self.pages.alive() > 0 {
            self.end(0);
        }
        self.release_all()
    }

    /// Copies the unit to a page of its own, if a snapshot holds the page.
    fn separate(&mut self, unit: usize) -> Result<(), Lack> {
        // In the middle of a run, a unit apart makes three mappings of one.
        if !self.limits.budget.has_room(2) {
            return Err(Lack::Mappings);
        }
        let (address, bytes) = (self.address(unit), self.unit_bytes);
        let old = self.pages.entry(unit).generation();
        if self.pages.live_holder(unit).is_none() {
            self.detector.release(address, bytes)?;
            self.set(unit, PageEntry::new(old, true));
            self.counts.released += 1;
            return Ok(());
        }
        let generation = self.pages.free_generation(unit).ok_or(Lack::Memory)?;
        let offset = self.offset(generation, unit);
        if let Err(lack) = self.copy(unit..unit + 1, generation) {
            self.file.punch(offset, bytes);
            return Err(lack);
        }
        // SAFETY: a unit of our live memory; the page has the same content.
        if let Err(lack) = unsafe { self.file.map(address, bytes, offset, true) } {
            self.file.punch(offset, bytes);
            return Err(lack);
        }
        // A unit that is not watched is found when the next snapshot protects it.
        let _ = self.detector.watch(address, bytes);
        self.pages.occupy(generation, unit);
        self.set(unit, PageEntry::new(generation, true));
        if self.pages.retire(old, unit) {
            self.file.punch(self.offset(old, unit), bytes);
        }
        self.counts.copied += 1;
        Ok(())
    }

    /// Copies write-protected units to a generation.
    fn copy(&self, units: Range<usize>, generation: usize) -> Result<(), Lack> {
        if self.pages.extra() + units.len() > self.limits.extra_pages_max {
            return Err(Lack::Memory);
        }
        let offset = self.offset(generation, units.start);
        // SAFETY: live memory, write-protected.
        unsafe { self.file.write(self.address(units.start), units.len() * self.unit_bytes, offset) }
    }

    /// Changes an entry and the number of mappings with it.
    fn set(&mut self, unit: usize, entry: PageEntry) {
        let before = self.splits_at(unit);
        self.pages.set(unit, entry);
        let runs = self.runs + self.splits_at(unit) - before;
        self.limits.budget.change(self.runs, runs);
        self.runs = runs;
    }

    fn splits_at(&self, unit: usize) -> usize {
        let splits =
            |right: usize| self.detector.splits(self.pages.entry(right - 1), self.pages.entry(right));
        usize::from(unit > 0 && splits(unit)) + usize::from(unit + 1 < self.pages.units() && splits(unit + 1))
    }

    // When something runs out.

    /// Copies live memory to one generation, with two mappings at most.
    pub(crate) fn compact(&mut self) -> Result<(), Lack> {
        let extent = self.pages.extent();
        let generation = self.pages.open_generation().ok_or(Lack::Mappings)?;
        self.protect(extent)?;
        let away = |space: &Space, unit: usize| space.pages.entry(unit).generation() != generation;
        let mut unit = 0;
        while unit < extent {
            let run = (unit..extent).take_while(|unit| away(self, *unit)).count();
            if run > 0
                && let Err(lack) = self.copy(unit..unit + run, generation)
            {
                self.undo_copies(generation, unit + run);
                return Err(lack);
            }
            unit += run.max(1);
        }
        let bytes = extent * self.unit_bytes;
        // SAFETY: our live memory; all of the extent has its content in this generation.
        if let Err(lack) = unsafe { self.file.map(self.address(0), bytes, self.offset(generation, 0), true) }
        {
            self.undo_copies(generation, extent);
            return Err(lack);
        }
        let _ = self.detector.watch(self.address(0), bytes);
        let Space { pages, file, unit_bytes, .. } = self;
        let mut holes = Holes { file, unit_bytes: *unit_bytes, pending: 0..0 };
        for unit in 0..extent {
            let old = pages.entry(unit).generation();
            pages.set(unit, PageEntry::new(generation, true));
            if old != generation {
                pages.occupy(generation, unit);
                if pages.retire(old, unit) {
                    holes.add(pages.page(old, unit));
                }
            }
        }
        drop(holes);
        self.recount();
        self.detector.wake(self.address(0), bytes);
        self.counts.compacted += 1;
        self.settle_account();
        Ok(())
    }

    fn undo_copies(&self, generation: usize, units: usize) {
        for unit in 0..units {
            if self.pages.is_free(generation, unit) {
                self.file.punch(self.offset(generation, unit), self.unit_bytes);
            }
        }
    }

    /// Ends a snapshot under its readers: zeroes instead of its pages.
    fn end(&mut self, index: usize) {
        let Some(living) = self.pages.living(index) else { return };
        let sharing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the image's addresses, which are its own as long as it is on the list.
        if !unsafe { map_over(living.start as *mut u8, living.bytes, sharing, -1, 0) } {
            // This cannot fail: one mapping in place of others needs no more of them. If it did, none of this would
            // be safe.
            std::process::abort();
        }
        self.counts.ended += 1;
        self.remove(index);
    }

    // The region is dropped.

    /// Unmaps live memory and gives back what no snapshot holds.
    pub(crate) fn close(&mut self) {
        let units = self.pages.units();
        let rest = Mapping::reserve(self.unit_bytes, self.unit_bytes);
        if let Ok(rest) = rest {
            // The live range is unmapped here, while the space stays for the snapshots that are left.
            drop(std::mem::replace(&mut self.live, rest));
        }
        self.limits.budget.change(self.runs, 0);
        self.runs = 0;
        self.open = false;
        if self.pages.alive() == 0 {
            return;
        }
        let extent = self.pages.extent();
        let Space { pages, file, unit_bytes, .. } = self;
        let mut holes = Holes { file, unit_bytes: *unit_bytes, pending: 0..0 };
        for unit in 0..extent {
            let generation = pages.entry(unit).generation();
            if pages.retire(generation, unit) {
                holes.add(pages.page(generation, unit));
            }
        }
        drop(holes);
        if extent < units {
            self.file.punch(self.offset(0, extent), (units - extent) * self.unit_bytes);
        }
        self.settle_account();
    }
}

/// Free pages on their way out of the file, neighbours by one call.
struct Holes<'a> {
    file: &'a MemoryFile,
    unit_bytes: usize,
    pending: Range<usize>,
}

impl Holes<'_> {
    fn add(&mut self, page: usize) {
        if page == self.pending.end {
            self.pending.end += 1;
        } else if page + 1 == self.pending.start {
            self.pending.start = page;
        } else {
            self.punch();
            self.pending = page..page + 1;
        }
    }

    fn punch(&self) {
        if !self.pending.is_empty() {
            self.file.punch(self.pending.start * self.unit_bytes, self.pending.len() * self.unit_bytes);
        }
    }
}

impl Drop for Holes<'_> {
    fn drop(&mut self) {
        self.punch();
    }
}
