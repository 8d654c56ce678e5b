//! One bit a row, shared by threads.

use ankerdb_base::ROWS_PER_BLOCK;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a bitmap over one block.
pub const BITMAP_WORDS: usize = ROWS_PER_BLOCK / 64;

/// A bitmap over the rows of a block.
pub struct Bitmap {
    words: Box<[AtomicU64]>,
}

impl Default for Bitmap {
    fn default() -> Bitmap {
        Bitmap { words: (0..BITMAP_WORDS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Bitmap {
    /// Sets a bit; whether it is the first one of its word. Relaxed: ordering comes from the row's header.
    #[inline]
    pub fn set(&self, row: usize) -> bool {
        let bit = 1u64 << (row % 64);
        let word = &self.words[row / 64];
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) == 0
    }

    /// Sets all bits of a range, word by word. For one thread at a time.
    pub fn fill(&self, rows: std::ops::Range<usize>) {
        for (index, word) in self.words.iter().enumerate() {
            let (start, end) = (rows.start.max(index * 64), rows.end.min(index * 64 + 64));
            if start < end {
                let bits = (u64::MAX >> (64 - (end - start))) << (start % 64);
                word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
            }
        }
    }

    /// Sets the bits of the first words that are set in these, 8 bytes a word. For one thread at a time.
    pub fn set_words(&self, bits: &[u8]) {
        for (word, bits) in self.words.iter().zip(bits.as_chunks().0) {
            word.store(word.load(Ordering::Relaxed) | u64::from_le_bytes(*bits), Ordering::Relaxed);
        }
    }

    /// Clears a bit.
    pub fn clear(&self, row: usize) {
        self.words[row / 64].fetch_and(!(1u64 << (row % 64)), Ordering::Relaxed);
    }

    /// Whether a bit is set.
    pub fn is_set(&self, row: usize) -> bool {
        self.words[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }

    /// The number of bits set; while others write, a recent one. Looks at all words.
    pub fn ones(&self) -> usize {
        self.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }

    /// Whether no bit is set. Looks at words until it finds one.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Whether the bits of all rows are set. Looks at words until it finds one that is not.
    pub fn is_full(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX)
    }

    /// One word of 64 rows.
    pub fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }

    /// A copy of all words.
    pub fn copy(&self) -> Box<[u64]> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// The rows whose bits are set, in order, word by word as they are when the word is reached.
    pub fn rows(&self) -> impl Iterator<Item = usize> {
        (0..BITMAP_WORDS).flat_map(|index| ones_of(self.word(index)).map(move |bit| index * 64 + bit))
    }
}

/// The positions of the bits set in a word.
pub fn ones_of(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_added() {
        let bitmap = Bitmap::default();
        bitmap.set(3);
        bitmap.set_words(&[1, 0, 0, 0, 0, 0, 0, 128, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert!(bitmap.rows().eq([0, 3, 63, 65]));
    }

    #[test]
    fn ranges_are_set_bit_by_bit() {
        for (start, end) in
            [(0, 0), (0, 1), (3, 64), (63, 65), (64, 128), (0, ROWS_PER_BLOCK), (8_191, 8_192)]
        {
            let bitmap = Bitmap::default();
            bitmap.fill(start..end);
            assert!(bitmap.rows().eq(start..end), "{start} to {end}");
        }
    }
}
