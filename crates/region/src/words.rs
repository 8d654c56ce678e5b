//! Regions and their snapshots as words, for users that keep nothing but words in them.

use crate::region::{Region, RegionSnapshot};
use std::sync::atomic::AtomicU64;

impl Region {
    /// The memory as words, shared with all other users.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as the region lives, aligned to pages, valid whatever the bytes are, and shared
        // through atomics only.
        unsafe { std::slice::from_raw_parts(self.pointer().as_ptr().cast(), self.bytes() / 8) }
    }
}

impl RegionSnapshot {
    /// The image as words. Its owner ensures that it is not written meanwhile.
    pub fn words(&self) -> &[u64] {
        // SAFETY: mapped for as long as the snapshot lives, aligned to pages, valid whatever the bytes are; code that
        // writes through `pointer` ensures that nothing reads meanwhile.
        unsafe { std::slice::from_raw_parts(self.pointer().as_ptr().cast(), self.bytes() / 8) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{PageSize, Region, Technique};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_are_those_of_the_memory() {
        let region = Region::new(Technique::Physical, PageSize::Small, 8192).unwrap();
        assert_eq!(region.words().len(), 1024);
        region.words()[1023].store(7, Relaxed);
        let snapshot = region.snapshot(region.bytes()).unwrap();
        region.words()[1023].store(8, Relaxed);
        assert_eq!((snapshot.words()[0], snapshot.words()[1023]), (0, 7));
    }
}
