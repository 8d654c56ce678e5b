//! Definitions of types by number: tables of the process that only grow and are read without a lock, also in a forked copy, since
//! formatting a value must not wait. What they hold stays until the process ends, so it is limited.

use ankerdb_base::{Error, Result, SqlState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The most memory of all definitions that there ever were, in bytes.
const BYTES_MAX: usize = 256 << 20;

/// A table that only grows, in pieces that are each as large as all before. Reading takes no lock.
pub(crate) struct Numbered<T: 'static> {
    pieces: [OnceLock<Box<[OnceLock<&'static T>]>>; 32],
    count: AtomicU32,
}

impl<T> Numbered<T> {
    pub(crate) const fn new() -> Numbered<T> {
        Numbered { pieces: [const { OnceLock::new() }; 32], count: AtomicU32::new(0) }
    }

    /// How many there are, some of which may not be readable yet.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Piece and place within it: piece p has the numbers from 2^p - 1 on, 2^p of them.
    fn place(number: u32) -> (usize, usize) {
        let from_one = number as usize + 1;
        let piece = from_one.ilog2();
        (piece as usize, from_one - (1 << piece))
    }

    pub(crate) fn get(&self, number: u32) -> Option<&'static T> {
        let (piece, place) = Numbered::<T>::place(number);
        self.pieces.get(piece)?.get()?.get(place)?.get().copied()
    }

    /// Puts in what `make` makes of its number.
    pub(crate) fn add(&self, make: impl FnOnce(u32) -> T) -> &'static T {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let (piece, place) = Numbered::<T>::place(number);
        let piece =
            self.pieces[piece].get_or_init(|| (0..1usize << piece).map(|_| OnceLock::new()).collect());
        piece[place].get_or_init(|| Box::leak(Box::new(make(number))))
    }
}

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Notes that so many bytes are kept for good.
///
/// # Errors
/// `OutOfMemory` for more than all types may take.
pub(crate) fn charge(bytes: usize) -> Result<()> {
    let before = BYTES.fetch_add(bytes, Ordering::Relaxed);
    if before.saturating_add(bytes) <= BYTES_MAX {
        return Ok(());
    }
    BYTES.fetch_sub(bytes, Ordering::Relaxed);
    let detail = "Definitions of types are kept until the process ends, and have taken all the room there is for them.";
    Err(Error::new(SqlState::OutOfMemory, "out of memory").with_detail(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_each_other() {
        for number in [0, 1, 2, 3, 6, 7, 1000, u32::MAX - 1] {
            let (piece, place) = Numbered::<u8>::place(number);
            assert_eq!((1usize << piece) - 1 + place, number as usize);
        }
    }
}
