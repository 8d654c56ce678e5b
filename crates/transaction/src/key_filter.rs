//! Which keys of one unique index a transaction may have given to rows itself: their hashes.
//!
//! An interactive transaction checks before each insertion whether one of its own pending rows has the key, and nearly
//! always none has. A set of hashes answers that for a few nanoseconds and eight bytes a row. Hashes are never taken out,
//! when a pending row changes its key or goes, so the answer "maybe" is looked into with the keys themselves (`own_keys`).

use ankerdb_base::{ColumnSet, Error, IndexPosition, Result};
use ankerdb_sync::number_map::NumberSet;
use std::collections::TryReserveError;

/// The hash of an encoded key.
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let fold = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(ODD);
        product as u64 ^ (product >> 64) as u64
    };
    let mut state = key.len() as u64 ^ 0xD6E8_FEB8_6659_FD93;
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        state = fold(state, u64::from_le_bytes(chunk.try_into().expect("eight bytes"))).rotate_left(23);
    }
    let mut rest = [0; 8];
    rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    fold(fold(state, u64::from_le_bytes(rest)), ODD)
}

/// Hashes of keys of pending rows in one index.
pub(crate) struct KeyFilter {
    /// The number of the table, and the position of the index.
    pub place: (usize, IndexPosition),
    key_columns: ColumnSet,
    hashes: NumberSet<u64>,
    /// Writes whose keys are in it: the first ones.
    pub absorbed: usize,
    /// Those among them that have changed since.
    changed: Vec<usize>,
}

impl KeyFilter {
    pub(crate) fn new(place: (usize, IndexPosition), key_columns: ColumnSet) -> KeyFilter {
        KeyFilter { place, key_columns, hashes: NumberSet::default(), absorbed: 0, changed: Vec::new() }
    }

    /// A write has changed these columns.
    pub(crate) fn note_change(&mut self, table: usize, write: usize, columns: ColumnSet) {
        if self.place.0 == table && write < self.absorbed && self.key_columns.intersects(columns) {
            self.changed.push(write);
        }
    }

    /// All writes but the first so many were taken back. Their hashes stay.
    pub(crate) fn cut_off(&mut self, writes: usize) {
        self.changed.retain(|write| *write < writes);
        self.absorbed = self.absorbed.min(writes);
    }

    /// Whether there is a write that has changed.
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// The next write that has changed.
    pub(crate) fn take_changed(&mut self) -> Option<usize> {
        self.changed.pop()
    }

    /// Makes room for one more.
    ///
    /// # Errors
    /// `OutOfMemory`.
    #[inline]
    pub(crate) fn make_room(&mut self) -> Result<()> {
        let reserved = self.hashes.try_reserve(1);
        reserved.map_err(|_| Error::out_of_memory(2 * self.hashes.capacity() * size_of::<u64>()))
    }

    /// Whether a change of what it knows can be noted.
    pub(crate) fn can_note(&self) -> bool {
        self.changed.len() < self.changed.capacity()
    }

    /// Makes room to note a change.
    pub(crate) fn try_grow(&mut self) -> Result<(), TryReserveError> {
        self.changed.try_reserve(1)
    }

    pub(crate) fn add(&mut self, hash: u64) {
        self.hashes.insert(hash);
    }

    /// Adds the key of a write that is the next one to be absorbed; others are looked at later.
    pub(crate) fn add_next(&mut self, write: usize, hash: u64) {
        if self.absorbed == write && self.hashes.try_reserve(1).is_ok() {
            self.hashes.insert(hash);
            self.absorbed += 1;
        }
    }

    /// Whether some pending row may have, or have had, a key of this hash.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.hashes.contains(&hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_that_are_alike_have_different_hashes() {
        let mut keys: Vec<Vec<u8>> = (0..40).map(|length| vec![0; length]).collect();
        keys.extend((0u32..100_000).map(|number| number.to_be_bytes().to_vec()));
        keys.extend((0u64..1_000).map(|number| [[7; 8], number.to_be_bytes()].concat()));
        keys.extend((0u64..1_000).map(|number| [number.to_be_bytes(), [7; 8]].concat()));
        let hashes: HashSet<u64> = keys.iter().map(|key| key_hash(key)).collect();
        let keys: HashSet<&Vec<u8>> = keys.iter().collect();
        assert_eq!(hashes.len(), keys.len());
    }
}
