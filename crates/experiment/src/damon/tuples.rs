//! A relation of tuples of 64 bytes: a number, an integer, and a string of 50 bytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Words of a tuple: the number below and the integer above in the first, then the string.
pub(super) const WORDS: usize = 8;
/// Bytes of the string.
pub(super) const STRING: usize = 50;

/// The string as words that compare as the string does, the last one filled with zeroes.
pub(super) type StringWords = [u64; WORDS - 1];

/// One tuple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tuple {
    pub number: u32,
    pub integer: u32,
    pub string: [u8; STRING],
}

impl Tuple {
    /// With a random integer and string.
    pub(super) fn random(number: u32, random: &mut fastrand::Rng) -> Tuple {
        let mut string = [0; STRING];
        string.iter_mut().for_each(|byte| *byte = random.lowercase() as u8);
        Tuple { number, integer: random.u32(..i32::MAX as u32), string }
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.string).unwrap_or_default()
    }

    pub(super) fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = u64::from(self.number) | u64::from(self.integer) << 32;
        words[1..].copy_from_slice(&self.string_words());
        words
    }

    pub(super) fn string_words(&self) -> StringWords {
        let mut bytes = [0; (WORDS - 1) * 8];
        bytes[..STRING].copy_from_slice(&self.string);
        let mut words = [0; WORDS - 1];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        words
    }
}

/// `min` over the integer.
pub(super) fn min_integer(least: &mut u32, tuple: &[AtomicU64]) {
    *least = (*least).min((tuple[0].load(Relaxed) >> 32) as u32);
}

/// `min` over the string. All of it is loaded.
pub(super) fn min_string(least: &mut StringWords, tuple: &[AtomicU64]) {
    let string: StringWords = std::array::from_fn(|at| tuple[1 + at].load(Relaxed));
    if string < *least {
        *least = string;
    }
}
