//! Keys and entries of a hash index, and the hash function.
//!
//! A key of at most 16 bytes is two big-endian words and its length; a longer one is its hash and, out of line, its
//! bytes. The hash function multiplies words to double width and folds the halves. Its seeds are random and differ
//! from index to index, so that a client that chooses keys cannot choose collisions.

use crate::entry::{free_tail, new_tail, tail_bytes, words_of};
use crossbeam_epoch::Guard;
use std::hash::{BuildHasher, RandomState};

/// What an entry's key words are; see `line`.
pub(crate) type KeyKind = u8;

const LONG: KeyKind = 127;
/// The bit of a kind that says that the entry stands for a posting list.
const LISTED: KeyKind = 128;
/// Bytes of a key that are kept in the line.
pub(crate) const INLINE_BYTES: usize = 16;

/// The secret of an index's hash function.
pub(crate) struct Seeds([u64; 3]);

impl Seeds {
    pub(crate) fn random() -> Seeds {
        let state = RandomState::new();
        // Odd, so that no factor of the last multiplication is zero.
        Seeds(std::array::from_fn(|nth| state.hash_one(nth) | 1))
    }

    #[inline]
    fn finish(&self, mixed: u64, length: usize) -> u64 {
        fold(mixed ^ length as u64, self.0[2])
    }

    #[inline]
    fn mix(&self, state: u64, first: u64, second: u64) -> u64 {
        fold(first ^ self.0[0] ^ state, second ^ self.0[1])
    }

    #[inline]
    fn hash_inline(&self, words: [u64; 2], length: usize) -> u64 {
        self.finish(self.mix(0, words[0], words[1]), length)
    }

    #[inline(never)]
    fn hash_long(&self, bytes: &[u8]) -> u64 {
        let mixed = bytes.chunks(INLINE_BYTES).fold(0u64, |state, chunk| {
            let [first, second, _] = words_of(chunk);
            self.mix(state.rotate_left(17), first, second)
        });
        self.finish(mixed, bytes.len())
    }
}

/// The product in double width, its halves added without carries.
#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// A key to look for. Borrows its bytes.
#[derive(Clone, Copy)]
pub(crate) struct HashKey<'k> {
    pub(crate) hash: u64,
    pub(crate) words: [u64; 2],
    pub(crate) kind: KeyKind,
    pub(crate) bytes: &'k [u8],
}

impl<'k> HashKey<'k> {
    #[inline]
    pub(crate) fn new(bytes: &'k [u8], seeds: &Seeds) -> HashKey<'k> {
        if bytes.len() > INLINE_BYTES {
            let hash = seeds.hash_long(bytes);
            return HashKey { hash, words: [hash, 0], kind: LONG, bytes };
        }
        let [first, second, _] = words_of(bytes);
        let words = [first, second];
        let hash = seeds.hash_inline(words, bytes.len());
        HashKey { hash, words, kind: bytes.len() as u8 + 1, bytes }
    }

    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.kind == LONG
    }

    /// Whether an entry of this kind has a key of the same kind, be it one row's or a posting list's.
    #[inline]
    pub(crate) fn is_of_kind(&self, kind: KeyKind) -> bool {
        kind & !LISTED == self.kind
    }

    /// An entry that owns a copy of the key's bytes, if they are out of line.
    #[inline]
    pub(crate) fn to_entry(self, row: u64) -> HashEntry {
        let [first, second] = self.words;
        let second = if self.is_long() { new_tail(self.bytes) } else { second };
        HashEntry { words: [first, second], kind: self.kind, row }
    }

    /// Bytes that the key occupies out of line.
    #[inline]
    pub(crate) fn tail_bytes(&self) -> usize {
        if self.is_long() { size_of::<usize>() + self.bytes.len() } else { 0 }
    }
}

/// Whether an entry of this kind stands for a posting list.
#[inline]
pub(crate) fn is_listed(kind: KeyKind) -> bool {
    kind & LISTED != 0
}

/// The words of an entry. A plain copy: does not own the tail, unless said so.
#[derive(Clone, Copy)]
pub(crate) struct HashEntry {
    pub(crate) words: [u64; 2],
    pub(crate) kind: KeyKind,
    pub(crate) row: u64,
}

impl HashEntry {
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.kind & !LISTED == LONG
    }

    /// Whether the row is the number of a posting list.
    #[inline]
    pub(crate) fn is_listed(&self) -> bool {
        is_listed(self.kind)
    }

    /// This entry, standing for a posting list.
    pub(crate) fn with_list(self, list: u64) -> HashEntry {
        HashEntry { kind: self.kind | LISTED, row: list, ..self }
    }

    /// Bytes of a key that is not long.
    fn inline_length(&self) -> usize {
        usize::from(self.kind & !LISTED) - 1
    }

    #[inline]
    pub(crate) fn hash(&self, seeds: &Seeds) -> u64 {
        if self.is_long() { self.words[0] } else { seeds.hash_inline(self.words, self.inline_length()) }
    }

    /// Whether the entry has the key, whatever its row.
    ///
    /// # Safety
    /// As for [`HashEntry::tail`].
    pub(crate) unsafe fn has_key(&self, key: &HashKey, guard: &Guard) -> bool {
        if !key.is_of_kind(self.kind) || self.words[0] != key.words[0] {
            return false;
        }
        // SAFETY: by the contract.
        if key.is_long() { unsafe { self.tail(guard) == key.bytes } } else { self.words[1] == key.words[1] }
    }

    /// The bytes of a long key.
    ///
    /// # Safety
    /// The entry was loaded from a bucket that was validated (or is locked) since, under this guard.
    #[inline]
    pub(crate) unsafe fn tail<'g>(&self, guard: &'g Guard) -> &'g [u8] {
        debug_assert!(self.is_long());
        // SAFETY: by the contract, the address is that of a tail that is alive as long as the guard is pinned.
        unsafe { tail_bytes(self.words[1], guard) }
    }

    /// The whole key.
    ///
    /// # Safety
    /// As for [`HashEntry::tail`].
    pub(crate) unsafe fn key(&self, guard: &Guard) -> Vec<u8> {
        if self.is_long() {
            // SAFETY: by the contract.
            return unsafe { self.tail(guard) }.to_vec();
        }
        let mut key = self.words.map(u64::to_be_bytes).concat();
        key.truncate(self.inline_length());
        key
    }

    /// Frees the tail, if there is one.
    ///
    /// # Safety
    /// The entry that owned it is gone, and so are all guards under which it could be found.
    pub(crate) unsafe fn free_tail(&self) {
        if self.is_long() {
            // SAFETY: by the contract.
            unsafe { free_tail(self.words[1]) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_hash_alike_from_key_and_entry() {
        let (guard, seeds) = (&crossbeam_epoch::pin(), Seeds::random());
        for length in [0, 1, 7, 8, 9, 15, 16, 17, 24, 300] {
            let bytes: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
            let key = HashKey::new(&bytes, &seeds);
            let entry = key.to_entry(5);
            // SAFETY: no other code knows the entry.
            assert_eq!(unsafe { entry.key(guard) }, bytes);
            assert_eq!(entry.hash(&seeds), key.hash);
            let listed = entry.with_list(9);
            assert!(!entry.is_listed() && listed.is_listed() && listed.is_long() == entry.is_long());
            // SAFETY: no other code knows the entry; the listed one has the same tail.
            assert!(unsafe { listed.key(guard) == bytes && listed.has_key(&key, guard) });
            assert_eq!(listed.hash(&seeds), key.hash);
            // SAFETY: no other code knows the entry.
            unsafe { entry.free_tail() };
            let longer = [&bytes[..], &[0]].concat();
            assert_ne!(HashKey::new(&longer, &seeds).hash, key.hash, "a zero more is another key");
        }
    }

    #[test]
    fn hashes_of_keys_in_sequence_spread_over_low_and_high_bits() {
        let seeds = Seeds::random();
        for shift in [0, 20, 40, 56] {
            let mut hits = [0; 256];
            for number in 0u32..25_600 {
                let key = [[0, 0, 0, 7], number.to_be_bytes()].concat();
                hits[(HashKey::new(&key, &seeds).hash >> shift) as usize & 255] += 1;
            }
            assert!(hits.iter().all(|&hits| (40..180).contains(&hits)), "{hits:?}");
        }
    }
}
