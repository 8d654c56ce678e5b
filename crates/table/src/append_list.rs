//! A list that only grows and is read without locks.

use std::sync::OnceLock;

const FIRST_SEGMENT: usize = 16;
const SEGMENTS: usize = 28;

/// A list of items that never move. Reading costs two dependent loads; adding is for one thread at a time (callers
/// hold a mutex).
pub(crate) struct AppendList<T> {
    segments: [OnceLock<Box<[OnceLock<T>]>>; SEGMENTS],
    length: std::sync::atomic::AtomicUsize,
}

impl<T> Default for AppendList<T> {
    fn default() -> AppendList<T> {
        AppendList { segments: std::array::from_fn(|_| OnceLock::new()), length: Default::default() }
    }
}

impl<T> AppendList<T> {
    /// Segment k holds FIRST_SEGMENT << k items.
    fn place(index: usize) -> (usize, usize) {
        let shifted = index + FIRST_SEGMENT;
        let segment = (shifted / FIRST_SEGMENT).ilog2() as usize;
        (segment, shifted - (FIRST_SEGMENT << segment))
    }

    /// The item at a position.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let (segment, offset) = Self::place(index);
        self.segments.get(segment)?.get()?.get(offset)?.get()
    }

    /// Items so far.
    pub(crate) fn len(&self) -> usize {
        self.length.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Adds an item and returns its position. One caller at a time.
    pub(crate) fn push(&self, item: T) -> usize {
        let index = self.len();
        let (segment, offset) = Self::place(index);
        let slots = self.segments[segment]
            .get_or_init(|| (0..FIRST_SEGMENT << segment).map(|_| OnceLock::new()).collect());
        assert!(slots[offset].set(item).is_ok(), "one caller at a time adds to a list");
        self.length.store(index + 1, std::sync::atomic::Ordering::Release);
        index
    }

    /// The items, first to last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map_while(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_positions() {
        let list = AppendList::default();
        assert!(list.get(0).is_none());
        for i in 0..1000 {
            assert_eq!(list.push(i), i);
        }
        assert!(list.iter().copied().eq(0..1000));
        assert!(list.get(1000).is_none());
    }
}
