//! Live memory and its snapshots, whatever the technique.

use crate::anonymous::Mapping;
use crate::technique::{PageSize, Technique};
use ankerdb_base::{Error, Result, SqlState};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Live memory in which one technique takes snapshots.
pub struct Region {
    technique: Technique,
    memory: Mapping,
}

/// A private image of the first bytes of a region. Stays as it is, whatever happens to the region, even after it.
pub struct RegionSnapshot {
    memory: Mapping,
}

impl Region {
    /// Reserves `bytes`, rounded up to pages, of zeroed memory; pages appear when they are touched. 0A000 if the machine cannot
    /// run the technique, 53200 if there is no memory.
    pub fn new(technique: Technique, pages: PageSize, bytes: usize) -> Result<Arc<Region>> {
        technique.check()?;
        let memory = Mapping::new(bytes.next_multiple_of(pages.bytes()))?;
        Ok(Arc::new(Region { technique, memory }))
    }

    /// Where it starts; aligned to its pages.
    pub fn pointer(&self) -> NonNull<u8> {
        self.memory.pointer()
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// A snapshot of the first `bytes`. 53200 if memory or mappings run out, which leaves the region and its other
    /// snapshots as they were. By fork, 0A000: there the image is a process.
    pub fn snapshot(self: &Arc<Region>, bytes: usize) -> Result<RegionSnapshot> {
        self.renew(None, bytes)
    }

    /// The same in place of an older snapshot of this region, which costs less where only what differs must be touched.
    pub fn refresh(self: &Arc<Region>, old: RegionSnapshot, bytes: usize) -> Result<RegionSnapshot> {
        self.renew(Some(old), bytes)
    }

    /// Whether processes forked from now on have this memory (they do, unless told otherwise). 53200 if the system has
    /// no memory for the note.
    pub fn set_forked(&self, is_forked: bool) -> Result<()> {
        let advice = if is_forked { libc::MADV_DOFORK } else { libc::MADV_DONTFORK };
        // SAFETY: the range is mapped by us; the advice changes nothing in this process.
        match unsafe { libc::madvise(self.pointer().as_ptr().cast(), self.bytes(), advice) } {
            0 => Ok(()),
            _ => {
                let system = std::io::Error::last_os_error();
                let message = format!("could not exclude memory from forked processes: {system}");
                Err(Error::new(SqlState::OutOfMemory, message))
            }
        }
    }

    fn renew(&self, old: Option<RegionSnapshot>, bytes: usize) -> Result<RegionSnapshot> {
        if self.technique == Technique::Fork {
            let message = "a snapshot by fork is a process, not a range of memory";
            return Err(Error::new(SqlState::FeatureNotSupported, message));
        }
        let bytes = bytes.next_multiple_of(PageSize::Small.bytes()).min(self.bytes());
        let memory = match old {
            Some(old) if old.memory.bytes() >= bytes => old.memory,
            _ => Mapping::new(bytes)?,
        };
        let words = |pointer: NonNull<u8>| pointer.as_ptr().cast::<AtomicU64>();
        let (from, to) = (words(self.pointer()), words(memory.pointer()));
        for word in 0..bytes / 8 {
            // SAFETY: both are mapped for `bytes`; the source is shared through atomics, the target is ours alone.
            unsafe { (*to.add(word)).store((*from.add(word)).load(Relaxed), Relaxed) };
        }
        Ok(RegionSnapshot { memory })
    }
}

impl RegionSnapshot {
    /// Where the image starts. It may be written to as long as its owner sees to it that nobody reads it meanwhile.
    pub fn pointer(&self) -> NonNull<u8> {
        self.memory.pointer()
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own account of a mapping: "dc" among its flags says that forking leaves it out.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_region_is_left_out_of_forked_processes_and_comes_back() {
        let region = Region::new(Technique::Fork, PageSize::Small, 1 << 20).unwrap();
        let is_left_out = || {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let start = format!("{:x}-", region.pointer().as_ptr().addr());
            let mut lines = maps.lines().skip_while(|line| !line.starts_with(&start));
            let flags = lines.find(|line| line.starts_with("VmFlags:"));
            flags.map(|flags| flags.split(' ').any(|flag| flag == "dc"))
        };
        region.set_forked(false).unwrap();
        assert_eq!(is_left_out(), Some(true));
        region.set_forked(true).unwrap();
        // It may have become one mapping with its neighbours again.
        assert_ne!(is_left_out(), Some(true));
    }

    #[test]
    fn a_snapshot_is_private() {
        let region = Region::new(Technique::Physical, PageSize::Small, 10_000).unwrap();
        assert_eq!(region.bytes(), 12_288);
        let word = |pointer: NonNull<u8>, index: usize| {
            // SAFETY: within both mappings, used by this thread alone.
            unsafe { &*pointer.as_ptr().cast::<AtomicU64>().add(index) }
        };
        word(region.pointer(), 700).store(1, Relaxed);
        let snapshot = region.snapshot(region.bytes()).unwrap();
        word(region.pointer(), 700).store(2, Relaxed);
        assert_eq!(word(snapshot.pointer(), 700).load(Relaxed), 1);
        word(snapshot.pointer(), 700).store(3, Relaxed);
        assert_eq!(word(region.pointer(), 700).load(Relaxed), 2);
        let snapshot = region.refresh(snapshot, region.bytes()).unwrap();
        drop(region);
        assert_eq!(word(snapshot.pointer(), 700).load(Relaxed), 2);
    }
}
