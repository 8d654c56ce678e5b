//! Insertion of an entry whose key must be unique.
//!
//! # In one leaf
//! Usually the key's entries (its *run*, see `lookup`) all belong into one leaf: inside of the leaf, entries with other
//! keys are on both sides, or the leaf's fences have other keys. Then one descent does: copy the rows of the run,
//! validate, ask the caller about them, and turn the version under which they were read into the lock. Success means
//! that nothing was inserted into or removed from the leaf since, so the answers were about all entries of the key. The
//! caller's closure is called while nothing is locked, and called again if the lock fails.
//!
//! An entry that is there already is not inserted, but the leaf changes its version all the same. For a caller's
//! answer may depend on which other rows have *entered* the key: without the change, a thread that was told earlier
//! that this entry's row is no conflict could insert after it has become one.
//!
//! # Across leaves
//! Otherwise the entry is inserted first, then the caller's closure is called for all others, and on a conflict the entry
//! is taken back. Of two that insert the same key the later one finds the earlier one's entry, in whichever of the two
//! ways each of them goes. A mutex for the key keeps two insertions of this kind from finding each other and both giving
//! up. One of the first kind may be told of an entry that is taken back a moment later.

use crate::UniqueInsert;
use crate::entry::{Probe, Side};
use crate::latch::Restart;
use crate::lookup::{CopiedRows, begins_after, ends_before};
use crate::tree::{Fence, LeafPlace, Tree, retry};
use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use std::ops::ControlFlow;

/// Enough that a few dozen threads seldom meet; 8 KiB per index.
const STRIPES: usize = 64;

/// What an attempt has found in the leaf.
struct Found<'g> {
    place: LeafPlace<'g>,
    /// Whether exactly this entry is there.
    is_present: bool,
}

/// The mutexes of one index for insertions across leaves: a fixed number, chosen by a hash of the key. Keys that share
/// a mutex wait for each other needlessly but never deadlock, as no thread holds two.
pub(crate) struct KeyLocks {
    stripes: Box<[CachePadded<Mutex<()>>]>,
}

impl KeyLocks {
    pub(crate) fn new() -> KeyLocks {
        KeyLocks { stripes: (0..STRIPES).map(|_| CachePadded::new(Mutex::new(()))).collect() }
    }

    /// Waits until no other thread holds the key.
    fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.stripes[stripe(key)].lock()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.stripes)
    }
}

impl Tree {
    #[inline]
    pub(crate) fn insert_unique<C>(
        &self,
        locks: &KeyLocks,
        key: &[u8],
        row: u64,
        mut conflicts: impl FnMut(u64) -> Option<C>,
    ) -> UniqueInsert<C> {
        let probe = Probe::new(key, row);
        let mut rows = CopiedRows::new();
        let in_leaf = {
            let guard = &epoch::pin();
            retry(|| {
                let Some(found) = self.find_run(&probe, &mut rows, guard)? else { return Ok(None) };
                let others = rows.as_slice().iter().filter(|&&other| other != row);
                if let Some(conflict) = others.copied().find_map(&mut conflicts) {
                    return Ok(Some(UniqueInsert::Conflict(conflict)));
                }
                self.enter(found, &probe, guard).map(Some)
            })
        };
        in_leaf.unwrap_or_else(|| self.insert_unique_across(locks, key, row, conflicts))
    }

    /// Finds the place of an entry and copies the rows of its key; `None` if they may be in other leaves, too, or
    /// are too many.
    fn find_run<'g>(
        &self,
        probe: &Probe,
        rows: &mut CopiedRows,
        guard: &'g Guard,
    ) -> Result<Option<Found<'g>>, Restart> {
        let (mut parent, mut lower, mut upper): (_, Fence, Fence) = (None, None, None);
        let (leaf, version) = self.descend(probe, Side::After, guard, |step| {
            if step.node.is_full() {
                return self.make_room(parent, &step, guard);
            }
            parent = Some(step);
            if step.index > 0 {
                lower = Some((step.node, step.version, step.index));
            }
            if step.index + 1 < step.count {
                upper = Some((step.node, step.version, step.index + 1));
            }
            Ok(())
        })?;
        let count = leaf.count();
        let run = leaf.run(count, probe, version, guard)?;
        let are_few = rows.copy(leaf, run.clone());
        let before = rows.as_slice().iter().take_while(|&&other| other < probe.row()).count();
        let is_present = rows.as_slice().get(before) == Some(&probe.row());
        let place = LeafPlace { parent, leaf, version, index: run.start + before };
        leaf.validate(version)?;
        let is_whole = are_few
            && (run.start > 0 || begins_after(lower, probe, guard)?)
            && (run.end < count || ends_before(upper, probe, guard)?);
        Ok(is_whole.then_some(Found { place, is_present }))
    }

    /// Inserts the entry, if nothing has changed since it was looked for.
    fn enter<C>(&self, found: Found, probe: &Probe, guard: &Guard) -> Result<UniqueInsert<C>, Restart> {
        if found.is_present {
            let _locked = found.place.leaf.lock(found.place.version)?;
            found.place.leaf.set_dead(0);
            return Ok(UniqueInsert::Present);
        }
        self.insert_into(found.place, probe, guard)?;
        self.count_entry();
        Ok(UniqueInsert::Inserted)
    }

    #[cold]
    fn insert_unique_across<C>(
        &self,
        locks: &KeyLocks,
        key: &[u8],
        row: u64,
        mut conflicts: impl FnMut(u64) -> Option<C>,
    ) -> UniqueInsert<C> {
        let _exclusive = locks.lock(key);
        let inserted = self.insert_or_touch(key, row, true);
        let mut conflict = None;
        self.get(key, |other| {
            if other != row {
                conflict = conflicts(other);
            }
            if conflict.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match conflict {
            Some(conflict) => {
                if inserted {
                    self.remove(key, row);
                }
                UniqueInsert::Conflict(conflict)
            }
            None if inserted => UniqueInsert::Inserted,
            None => UniqueInsert::Present,
        }
    }
}

/// The stripe of a key: a multiplicative hash, whose upper bits depend on all bytes.
fn stripe(key: &[u8]) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = key.len() as u64;
    for chunk in key.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(ODD);
    }
    (hash >> (64 - STRIPES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_sequence_spread_over_the_stripes() {
        let mut hits = [0; STRIPES];
        (0u32..6400).for_each(|number| hits[stripe(&number.to_be_bytes())] += 1);
        assert!(hits.iter().all(|&hits| (50..200).contains(&hits)), "{hits:?}");
    }
}
