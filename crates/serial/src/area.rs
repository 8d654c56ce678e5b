//! Words in a region, and bits in words.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_region::{PageSize, Region, Technique};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What memory a database lies in.
#[derive(Clone, Copy, Debug)]
pub struct MemoryKind {
    /// Its pages.
    pub pages: PageSize,
    /// Whether child processes share tuples with this one instead of having an image of them.
    pub shares_tuples: bool,
    /// Bytes of the pages that are copied by [shadow copies](crate::Mechanism::ShadowCopies).
    pub shadow_bytes: usize,
}

impl Default for MemoryKind {
    /// Small pages, of which child processes have an image.
    fn default() -> MemoryKind {
        MemoryKind { pages: PageSize::Small, shares_tuples: false, shadow_bytes: PageSize::Small.bytes() }
    }
}

/// Words that appear when they are touched. A clone is the same memory.
#[derive(Clone)]
pub(crate) struct Area(Arc<Region>);

impl Area {
    pub(crate) fn new(pages: PageSize, is_shared: bool, words: usize) -> Result<Area> {
        let bytes = words
            .checked_mul(8)
            .ok_or_else(|| Error::new(SqlState::OutOfMemory, "a relation is too large"))?;
        let region = match is_shared {
            true => Region::shared(pages, bytes)?,
            false => Region::new(Technique::Fork, pages, bytes)?,
        };
        Ok(Area(region))
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }

    pub(crate) fn load(&self, at: usize) -> u64 {
        self.words()[at].load(Relaxed)
    }

    pub(crate) fn store(&self, at: usize, value: u64) {
        self.words()[at].store(value, Relaxed);
    }

    /// Whether nobody else has it.
    pub(crate) fn is_ours_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Whether child processes go without it.
    pub(crate) fn exclude_from_fork(&self) -> Result<()> {
        self.0.exclude_from_fork(true)
    }
}

/// Copies words that nobody else writes meanwhile.
pub(crate) fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

/// Writes words.
pub(crate) fn fill(to: &[AtomicU64], words: &[u64]) {
    for (to, word) in to.iter().zip(words) {
        to.store(*word, Relaxed);
    }
}

/// A bit for each of a number of things.
#[derive(Clone)]
pub(crate) struct TupleBits(Area);

impl TupleBits {
    pub(crate) fn new(kind: MemoryKind, bits: usize) -> Result<TupleBits> {
        Area::new(kind.pages, kind.shares_tuples, bits.div_ceil(64)).map(TupleBits)
    }

    pub(crate) fn get(&self, at: usize) -> bool {
        self.0.load(at / 64) >> (at % 64) & 1 != 0
    }

    pub(crate) fn set(&self, at: usize, bit: bool) {
        let (word, mask) = (self.0.load(at / 64), 1 << (at % 64));
        self.0.store(at / 64, if bit { word | mask } else { word & !mask });
    }

    /// TupleBits 64 n to 64 n + 63.
    pub(crate) fn word(&self, n: usize) -> u64 {
        self.0.load(n)
    }

    pub(crate) fn set_word(&self, n: usize, word: u64) {
        self.0.store(n, word);
    }

    /// Takes over the first `bits` of others.
    pub(crate) fn copy_from(&self, other: &TupleBits, bits: usize) {
        let words = bits.div_ceil(64);
        copy(&other.0.words()[..words], &self.0.words()[..words]);
    }

    /// How many of the first `bits` are set.
    pub(crate) fn count(&self, bits: usize) -> usize {
        self.0.words()[..bits.div_ceil(64)].iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }
}

/// Goes through the set bits of word `n`.
pub(crate) fn ones(n: usize, mut word: u64, mut see: impl FnMut(usize)) {
    while word != 0 {
        see(n * 64 + word.trailing_zeros() as usize);
        word &= word - 1;
    }
}
