//! A hash table of positions: finds a row's place in a list.
//!
//! The list has the rows already, so the table holds only their positions, four bytes each; it has twice as many slots as
//! rows at least. Rows are not taken out one by one. All of it is one buffer: a large one is allocated in a way that can fail,
//! and given back without holding up others, as a hash table of the standard library's is not.
//!
//! ```text
//! list      (3, 17)  (3, 40)  (5, 8)
//! slots     ·  2  ·  ·  0  1  ·  ·          linear probing, from the slot that the row's hash names
//! ```

use ankerdb_memory::release;

/// What a row is called: the number of its table and its own.
pub(crate) type RowName = (usize, u64);

/// A slot that holds no position.
const EMPTY: u32 = u32::MAX;
/// Slots of the first buffer.
const SLOTS_MIN: usize = 16;
/// Slots for each row, at least.
const SLOTS_PER_ROW: usize = 2;

/// Positions in a list, by the rows there.
#[derive(Default)]
pub(crate) struct Places {
    /// A power of two, or none.
    slots: Vec<u32>,
    count: usize,
}

fn hash((table, row): RowName) -> usize {
    let mixed = (row ^ (table as u64) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 32) as usize
}

impl Places {
    /// Positions in it.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of its buffer.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }

    /// Whether there is room for one more.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.slots.len() >= (self.count + 1) * SLOTS_PER_ROW
    }

    /// Bytes that making room for one more adds.
    pub(crate) fn growth(&self) -> usize {
        if self.has_room() { 0 } else { self.memory_bytes().max(SLOTS_MIN * size_of::<u32>()) }
    }

    /// Makes room for one more; `name` tells what the row at a position is called. Fails, with everything as it was, if there
    /// is no memory, or the list is too long.
    pub(crate) fn try_grow(&mut self, name: impl Fn(usize) -> RowName) -> Result<(), ()> {
        if self.has_room() {
            return Ok(());
        }
        let length = (self.slots.len() * 2).max(SLOTS_MIN);
        if length > EMPTY as usize {
            return Err(());
        }
        let mut slots = Vec::new();
        slots.try_reserve_exact(length).map_err(drop)?;
        slots.resize(length, EMPTY);
        let former = std::mem::replace(&mut self.slots, slots);
        for &place in former.iter().filter(|place| **place != EMPTY) {
            let slot = self.free_slot(name(place as usize));
            self.slots[slot] = place;
        }
        release(former);
        Ok(())
    }

    /// The slots to be looked into for a row, in order.
    #[inline]
    fn probe(&self, row: RowName) -> impl Iterator<Item = usize> {
        let mask = self.slots.len() - 1;
        let first = hash(row);
        (0..=mask).map(move |step| first.wrapping_add(step) & mask)
    }

    fn free_slot(&self, row: RowName) -> usize {
        self.probe(row).find(|slot| self.slots[*slot] == EMPTY).expect("half of the slots are empty")
    }

    /// Adds the position of a row that is not in it. There is [room](Self::has_room).
    #[inline]
    pub(crate) fn insert(&mut self, row: RowName, place: usize) {
        let slot = self.free_slot(row);
        self.slots[slot] = place as u32;
        self.count += 1;
    }

    /// The position of a row; `is_at` says whether the row at a position is the one.
    #[inline]
    pub(crate) fn find(&self, row: RowName, is_at: impl Fn(usize) -> bool) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let known = self.probe(row).map(|slot| self.slots[slot]).take_while(|place| *place != EMPTY);
        known.map(|place| place as usize).find(|place| is_at(*place))
    }

    /// Takes a position out that is in it; `name` tells what the row at a position is called. What lies behind it moves up
    /// where it would not be found any more.
    pub(crate) fn remove(&mut self, row: RowName, place: usize, name: impl Fn(usize) -> RowName) {
        let Some(mut hole) = self.probe(row).find(|slot| self.slots[*slot] == place as u32) else { return };
        self.count -= 1;
        let mask = self.slots.len() - 1;
        let mut slot = hole;
        loop {
            self.slots[hole] = EMPTY;
            loop {
                slot = (slot + 1) & mask;
                if self.slots[slot] == EMPTY {
                    return;
                }
                // From the slot where its probing begins, the hole comes no later than the slot where it lies.
                let first = hash(name(self.slots[slot] as usize));
                if hole.wrapping_sub(first) & mask <= slot.wrapping_sub(first) & mask {
                    break;
                }
            }
            self.slots[hole] = self.slots[slot];
            hole = slot;
        }
    }

    /// All positions, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().filter(|place| **place != EMPTY).map(|place| *place as usize)
    }

    /// Takes all out, and keeps the buffer. Costs as much as that is large, if there is anything.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.count) > 0 {
            self.slots.fill(EMPTY);
        }
    }

    /// Gives the buffer back.
    pub(crate) fn release(self) {
        release(self.slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_found_by_their_rows_and_by_nothing_else() {
        let rows: Vec<RowName> = (0..5_000).map(|number| (number % 3, (number / 3) as u64 * 8192)).collect();
        let mut places = Places::default();
        let find = |places: &Places, row| places.find(row, |place| rows[place] == row);
        assert_eq!(find(&places, rows[0]), None);
        for round in 0..2 {
            for (place, &row) in rows.iter().enumerate() {
                assert!(!places.has_room() || place > 0 || round > 0);
                assert_eq!(places.growth() == 0, places.has_room());
                let before = places.memory_bytes();
                let growth = places.growth();
                places.try_grow(|place| rows[place]).unwrap();
                assert_eq!(places.memory_bytes(), before + growth);
                assert_eq!(find(&places, row), None);
                places.insert(row, place);
            }
            for (place, &row) in rows.iter().enumerate() {
                assert_eq!(find(&places, row), Some(place));
            }
            assert_eq!(find(&places, (3, 0)), None);
            assert_eq!(find(&places, (0, 1)), None);
            assert_eq!(places.count(), rows.len());
            let mut all: Vec<usize> = places.iter().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..rows.len()));
            places.clear();
            assert_eq!((places.count(), places.iter().count()), (0, 0));
        }
    }
}
