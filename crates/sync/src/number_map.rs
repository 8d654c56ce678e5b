//! Hash tables by internal numbers: rows, tables, positions.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes small integers by multiplication: clients cannot choose these keys.
#[derive(Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(*byte as u64));
    }

    fn write_u64(&mut self, number: u64) {
        // Another constant than the one that chooses a shard of the lock table, whose rows have the upper bits of that
        // one in common.
        let mixed = (self.0.rotate_left(20) ^ number).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.0 = mixed ^ mixed >> 32;
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

/// A map by internal numbers.
pub type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// A set of internal numbers.
pub type NumberSet<K> = HashSet<K, BuildHasherDefault<NumberHasher>>;
