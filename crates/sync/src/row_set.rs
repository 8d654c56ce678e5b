//! Sets of rows, for one transaction that may have a million of them.
//!
//! Up to a few they are a list, which is searched. Beyond that there is a bit for each row, in chunks of 4,096 rows that
//! are neighbours. Rows that were met in the order of a scan, or that fill their table to some degree, take a bit or a few;
//! rows far apart take a chunk of 512 bytes each, at most one for every chunk of the table.

use crate::number_map::NumberMap;
use ankerdb_base::{Error, Result};

/// A row, by the number of its table and its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RowKey {
    /// The table.
    pub table: u32,
    /// The row in the table.
    pub row: u64,
}

impl RowKey {
    /// The row of a table.
    #[inline]
    pub fn new(table: u32, row: u64) -> RowKey {
        RowKey { table, row }
    }
}

/// A chunk of rows, by the number of its table and its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct ChunkKey {
    table: u32,
    chunk: u64,
}

/// Rows up to which the list is searched.
const FEW: usize = 16;
const CHUNK_BITS: u32 = 12;
const CHUNK_WORDS: usize = 1 << (CHUNK_BITS - 6);

type Chunk = Box<[u64; CHUNK_WORDS]>;

/// A set of rows of any tables.
#[derive(Debug, Default)]
pub struct RowSet {
    /// All rows, while they are few.
    few: Vec<RowKey>,
    chunks: NumberMap<ChunkKey, Chunk>,
    /// Rows in chunks.
    many: usize,
}

fn place(RowKey { table, row }: RowKey) -> (ChunkKey, usize, u64) {
    let bit = row & ((1 << CHUNK_BITS) - 1);
    (ChunkKey { table, chunk: row >> CHUNK_BITS }, (bit / 64) as usize, 1 << (bit % 64))
}

impl RowSet {
    /// Rows in the set.
    pub fn len(&self) -> usize {
        self.few.len() + self.many
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the row is in the set.
    #[inline]
    pub fn contains(&self, key: RowKey) -> bool {
        if self.many == 0 {
            return self.few.contains(&key);
        }
        let (chunk, word, bit) = place(key);
        self.chunks.get(&chunk).is_some_and(|chunk| chunk[word] & bit != 0)
    }

    /// Whether one more row finds room, but for a chunk of its own.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.chunks.capacity() > self.chunks.len() || (self.many == 0 && self.few.capacity() > self.few.len())
    }

    /// Makes room for one more row, but for a chunk of its own.
    ///
    /// # Errors
    /// `OutOfMemory`; the set is as it was.
    pub fn try_grow(&mut self) -> Result<()> {
        let count = if self.many > 0 { 1 } else { 2 * FEW };
        let reserved = match self.many == 0 && self.few.len() < FEW {
            true => self.few.try_reserve(1).map_err(drop),
            false => self.chunks.try_reserve(count).map_err(drop),
        };
        reserved
            .map_err(|()| Error::out_of_memory((self.chunks.len() + count) * size_of::<(ChunkKey, Chunk)>()))
    }

    /// Adds a row; false if it was in the set. Where there may be many, [room](Self::try_grow) is made before: growing
    /// here cannot fail.
    #[inline]
    pub fn insert(&mut self, key: RowKey) -> bool {
        if self.many > 0 {
            return self.insert_bit(key);
        }
        if self.few.contains(&key) {
            return false;
        }
        self.few.push(key);
        if self.few.len() > FEW {
            let few = std::mem::take(&mut self.few);
            for key in few {
                self.insert_bit(key);
            }
        }
        true
    }

    fn insert_bit(&mut self, key: RowKey) -> bool {
        let (chunk, word, bit) = place(key);
        let word = &mut self.chunks.entry(chunk).or_insert_with(|| Box::new([0; CHUNK_WORDS]))[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        self.many += usize::from(is_new);
        is_new
    }

    /// Removes a row; false if it was not in the set.
    #[inline]
    pub fn remove(&mut self, key: RowKey) -> bool {
        if self.many == 0 {
            let known = self.few.iter().position(|&other| other == key);
            return known.map(|known| self.few.swap_remove(known)).is_some();
        }
        let (chunk, word, bit) = place(key);
        let Some(chunk) = self.chunks.get_mut(&chunk) else { return false };
        let was_there = chunk[word] & bit != 0;
        chunk[word] &= !bit;
        self.many -= usize::from(was_there);
        was_there
    }

    /// Takes all rows out, in no order.
    pub fn take_all(&mut self) -> impl Iterator<Item = RowKey> + use<> {
        let RowSet { few, chunks, .. } = std::mem::take(self);
        let rows = chunks.into_iter().flat_map(|(ChunkKey { table, chunk }, bits)| {
            let row = move |bit: u64| RowKey { table, row: chunk << CHUNK_BITS | bit };
            bits.into_iter()
                .enumerate()
                .flat_map(move |(word, bits)| ones(bits).map(move |bit| row((word as u64) << 6 | bit)))
        });
        few.into_iter().chain(rows)
    }

    /// Empties the set and gives its memory back, but for that of a few rows.
    pub fn clear(&mut self) {
        self.few.clear();
        if self.chunks.capacity() > 0 {
            self.chunks = NumberMap::default();
        }
        self.many = 0;
    }
}

/// The positions of the bits that are set.
fn ones(mut bits: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (bit < 64).then_some(u64::from(bit))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn it_is_a_set_whatever_the_number_of_rows() {
        for rows in [0u64, 1, 15, 16, 17, 18, 5_000, 40_000] {
            let (mut set, mut model) = (RowSet::default(), HashSet::new());
            for number in 0..rows {
                // Dense ones, ones far apart, and some twice.
                let row = if number % 3 == 0 { number / 2 } else { number * 7_919 };
                let key = RowKey::new((number % 2) as u32, row);
                assert_eq!(set.insert(key), model.insert(key));
            }
            for number in (0..rows).step_by(5) {
                let key = RowKey::new(0, number * 7_919);
                assert_eq!(set.remove(key), model.remove(&key));
            }
            assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            assert!(model.iter().all(|&key| set.contains(key)));
            assert!(
                (0..rows)
                    .all(|row| set.contains(RowKey::new(1, row)) == model.contains(&RowKey::new(1, row)))
            );
            set.take_all().for_each(|key| assert!(model.remove(&key), "each row once"));
            assert!(model.is_empty() && set.is_empty() && set.take_all().next().is_none());
            assert!(set.insert(RowKey::new(0, 1)) && set.contains(RowKey::new(0, 1)));
            set.clear();
            assert!(set.is_empty() && !set.contains(RowKey::new(0, 1)));
        }
    }

    #[test]
    fn a_million_neighbours_take_two_bits_each_at_most() {
        let mut set = RowSet::default();
        (0..1_000_000).for_each(|row| assert!(set.insert(RowKey::new(3, row))));
        assert!(set.chunks.len() * size_of::<[u64; CHUNK_WORDS]>() * 8 < 2_000_000);
    }
}
