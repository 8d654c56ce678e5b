//! Rewired regions and their snapshots as Rust values, which free what they own.
//!
//! A region's bookkeeping (`space`) lies in a slot of the registry, where signal handlers find it. The slot stays until
//! the region and all of its snapshots are dropped, in whatever order.

use crate::anonymous::Mapping;
use crate::budget::Budget;
use crate::detector::Detector;
use crate::file::Lack;
use crate::registry::{self, RegionSlot};
use crate::space::{Limits, RewiringCounts, Space};
use crate::technique::PageSize;
use crate::userfault::Userfault;
use crate::{handler, technique::Technique};
use ankerdb_base::{Error, Result, SqlState};
use std::ptr::NonNull;

pub(crate) struct Rewired {
    slot: &'static RegionSlot,
    pointer: NonNull<u8>,
    bytes: usize,
    alignment: usize,
}

// SAFETY: plain memory and a slot with a lock; users of the memory see to it that accesses do not conflict.
unsafe impl Send for Rewired {}
// SAFETY: as above.
unsafe impl Sync for Rewired {}

/// A snapshot of a rewired region.
pub(crate) struct RewiredSnapshot {
    slot: &'static RegionSlot,
    sequence: u64,
    /// `None` once it is given to a newer snapshot.
    range: Option<Mapping>,
}

impl Rewired {
    pub(crate) fn new(technique: Technique, pages: PageSize, bytes: usize) -> Result<Rewired> {
        let limits = Limits { budget: Budget::process(), extra_pages_max: usize::MAX / 2 };
        Rewired::with_limits(technique, pages, bytes, limits)
    }

    pub(crate) fn with_limits(
        technique: Technique,
        pages: PageSize,
        bytes: usize,
        limits: Limits,
    ) -> Result<Rewired> {
        let detector = if technique == Technique::RewiringUserfaultfd {
            Detector::Userfault(Userfault::get(registry::serve)?)
        } else {
            handler::install();
            Detector::Protection
        };
        if !limits.budget.has_room(1) {
            return Err(lacking(Lack::Mappings, limits.budget));
        }
        let space = Space::new(detector, pages.bytes(), bytes / pages.bytes(), limits)?;
        let pointer = space.pointer();
        Ok(Rewired { slot: RegionSlot::claim(space), pointer, bytes, alignment: pages.bytes() })
    }

    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Asks the region's bookkeeping; writers that fault meanwhile wait.
    pub(crate) fn ask<T>(&self, question: impl FnOnce(&Space) -> T) -> Option<T> {
        self.slot.space.lock().as_ref().map(question)
    }

    pub(crate) fn mappings(&self) -> usize {
        self.ask(Space::runs).unwrap_or(0)
    }

    pub(crate) fn counts(&self) -> RewiringCounts {
        self.ask(Space::counts).unwrap_or_default()
    }

    /// A snapshot of the first `bytes`, at the addresses of an older one if they are as many.
    pub(crate) fn snapshot(&self, old: Option<RewiredSnapshot>, bytes: usize) -> Result<RewiredSnapshot> {
        let old = old.and_then(RewiredSnapshot::into_range).filter(|range| range.bytes() == bytes);
        let range = match old {
            Some(range) => range,
            None => Mapping::reserve(bytes, self.alignment)?,
        };
        loop {
            let mut locked = self.slot.space.lock();
            let Some(space) = locked.as_mut() else {
                return Err(Error::internal("a region without its space"));
            };
            match space.snapshot(&range) {
                Ok(sequence) => {
                    space.images += 1;
                    return Ok(RewiredSnapshot { slot: self.slot, sequence, range: Some(range) });
                }
                Err(lack) => {
                    let budget = space.budget();
                    drop(locked);
                    // Regions without writers keep their mappings until they are compacted. Each is compacted once at
                    // most: afterwards it has few.
                    if lack != Lack::Mappings || !registry::compact_another(budget) {
                        return Err(lacking(lack, budget));
                    }
                }
            }
        }
    }
}

impl Drop for Rewired {
    fn drop(&mut self) {
        self.slot.hide();
        leave(self.slot, Space::close);
    }
}

impl RewiredSnapshot {
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.range.as_ref().map_or(NonNull::dangling(), Mapping::pointer)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.range.as_ref().map_or(0, Mapping::bytes)
    }

    /// 53200 if it had to end.
    pub(crate) fn check(&self) -> Result<()> {
        match self.slot.space.lock().as_ref() {
            Some(space) if space.is_alive(self.sequence) => Ok(()),
            _ => Err(Error::new(
                SqlState::OutOfMemory,
                "the snapshot ended because memory or mappings for a write to its pages ran out",
            )
            .with_hint("Take a new one; fewer snapshots at a time, more memory, or a higher vm.max_map_count avoid it.")),
        }
    }

    /// Ends the snapshot and keeps its addresses.
    fn into_range(mut self) -> Option<Mapping> {
        self.range.take()
    }
}

impl Drop for RewiredSnapshot {
    fn drop(&mut self) {
        let (range, sequence) = (self.range.take(), self.sequence);
        leave(self.slot, |space| {
            // While the snapshot is on the list, a fault elsewhere may map over its addresses: they go first.
            drop(range);
            space.forget(sequence);
            space.images -= 1;
        });
    }
}

/// Runs what the leaving user has to do, and gives the slot back if it was the last user.
fn leave(slot: &'static RegionSlot, last_act: impl FnOnce(&mut Space)) {
    let last = {
        let mut space = slot.space.lock();
        let Some(space) = space.as_mut() else { return };
        last_act(space);
        !space.open && space.images == 0
    };
    if last {
        slot.give_back();
    }
}

fn lacking(lack: Lack, budget: &Budget) -> Error {
    let message = match lack {
        Lack::Mappings => format!(
            "no snapshot: it needs more memory mappings than are left ({} of {} for rewiring are in use)",
            budget.used(),
            budget.allowed()
        ),
        Lack::Memory => "no snapshot: there is no memory to compact the region and save mappings".into(),
        Lack::Snapshots => {
            format!("no snapshot: a region can have {} at a time", crate::pages::ALIVE_MAX)
        }
    };
    let error = Error::new(SqlState::OutOfMemory, message);
    match lack {
        Lack::Mappings => {
            error.with_hint("Drop snapshots, or raise the limit: sysctl -w vm.max_map_count=1000000.")
        }
        _ => error.with_hint("Drop snapshots."),
    }
}
