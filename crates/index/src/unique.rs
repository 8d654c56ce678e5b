//! Mutual exclusion of unique insertions with the same key.
//!
//! A fixed number of mutexes, chosen by a hash of the key. Keys that share a mutex wait for each other
//! needlessly but never deadlock, as nobody holds two.

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

/// Enough that a few dozen threads seldom meet; 8 KiB per index.
const STRIPES: usize = 64;

/// The mutexes of one index.
pub(crate) struct KeyLocks {
    stripes: Box<[CachePadded<Mutex<()>>]>,
}

impl KeyLocks {
    pub(crate) fn new() -> KeyLocks {
        KeyLocks { stripes: (0..STRIPES).map(|_| CachePadded::new(Mutex::new(()))).collect() }
    }

    /// Waits until nobody else holds the key.
    pub(crate) fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.stripes[stripe(key)].lock()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.stripes)
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
