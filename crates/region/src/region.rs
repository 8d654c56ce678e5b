//! Live memory and its snapshots, whatever the technique.

use crate::anonymous::Mapping;
use crate::copy::copy;
use crate::rewired::{Rewired, RewiredSnapshot};
use crate::space::{RewiringCounts, Space};
use crate::technique::{PageSize, Technique};
use crate::vm_snapshot;
use ankerdb_base::{Error, Result, SqlState};
use ankerdb_memory::account;
use ankerdb_memory::charge::Charge;
use std::ptr::NonNull;
use std::sync::Arc;

/// Live memory in which one technique takes snapshots.
pub struct Region {
    technique: Technique,
    pages: PageSize,
    memory: Memory,
}

enum Memory {
    Anonymous(Mapping),
    Rewired(Rewired),
}

/// A private image of the first bytes of a region. Stays as it is, whatever happens to the region, even after it.
pub struct RegionSnapshot {
    memory: Copied,
}

enum Copied {
    /// A copy, in the account.
    Physical(Mapping, Charge),
    /// Made by the kernel, which copies pages as they are written, and tells nobody.
    Kernel(Mapping),
    Rewired(RewiredSnapshot),
}

impl Region {
    /// Reserves `bytes`, rounded up to pages, of zeroed memory; pages appear when they are touched.
    ///
    /// # Errors
    /// 0A000 if the machine cannot run the technique, 53200 if there is no memory.
    pub fn new(technique: Technique, pages: PageSize, bytes: usize) -> Result<Arc<Region>> {
        technique.check()?;
        let bytes = bytes.max(1).checked_next_multiple_of(pages.bytes());
        let bytes = bytes.ok_or_else(|| Error::new(SqlState::OutOfMemory, "a region is too large"))?;
        let memory = match technique {
            Technique::Rewiring | Technique::RewiringUserfaultfd => {
                Memory::Rewired(Rewired::new(technique, pages, bytes)?)
            }
            Technique::Physical | Technique::Fork | Technique::VmSnapshot => {
                Memory::Anonymous(Mapping::new(bytes, pages.bytes())?)
            }
        };
        Ok(Arc::new(Region { technique, pages, memory }))
    }

    /// Memory like that of a region by [`Technique::Fork`], which forked processes share with this one: they see what is written to
    /// it afterwards. No snapshot can be taken of it.
    ///
    /// # Errors
    /// 53200 if there is no memory.
    pub fn shared(pages: PageSize, bytes: usize) -> Result<Arc<Region>> {
        let bytes = bytes.max(1).checked_next_multiple_of(pages.bytes());
        let bytes = bytes.ok_or_else(|| Error::new(SqlState::OutOfMemory, "a region is too large"))?;
        let memory = Memory::Anonymous(Mapping::shared(bytes, pages.bytes())?);
        Ok(Arc::new(Region { technique: Technique::Fork, pages, memory }))
    }

    /// The technique.
    pub fn technique(&self) -> Technique {
        self.technique
    }

    /// Where it starts; aligned to its pages.
    pub fn pointer(&self) -> NonNull<u8> {
        match &self.memory {
            Memory::Anonymous(memory) => memory.pointer(),
            Memory::Rewired(memory) => memory.pointer(),
        }
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        match &self.memory {
            Memory::Anonymous(memory) => memory.bytes(),
            Memory::Rewired(memory) => memory.bytes(),
        }
    }

    /// A snapshot of the first `bytes`.
    ///
    /// # Errors
    /// 53200 if memory or mappings run out, which leaves the region and its other snapshots as they were. By fork, 0A000: there
    /// the image is a process.
    pub fn snapshot(self: &Arc<Region>, bytes: usize) -> Result<RegionSnapshot> {
        self.renew(None, bytes)
    }

    /// A snapshot of the first `bytes` in place of an older one of this region, which costs less where only what
    /// differs must be touched.
    ///
    /// # Errors
    /// Those of [`snapshot`](Self::snapshot).
    pub fn refresh(self: &Arc<Region>, old: RegionSnapshot, bytes: usize) -> Result<RegionSnapshot> {
        self.renew(Some(old), bytes)
    }

    /// How many mappings of the process the live memory takes: more than one by rewiring only, where every run of pages
    /// that do not lie one after the other in the file needs its own.
    pub fn mappings(&self) -> usize {
        match &self.memory {
            Memory::Anonymous(_) => 1,
            Memory::Rewired(memory) => memory.mappings(),
        }
    }

    /// What rewiring did in this region; zeroes for the other techniques.
    pub fn rewiring_counts(&self) -> RewiringCounts {
        match &self.memory {
            Memory::Anonymous(_) => RewiringCounts::default(),
            Memory::Rewired(memory) => memory.counts(),
        }
    }

    /// Bytes of memory that the region's file takes, for live memory and snapshots together; `None` if the technique has no file.
    pub fn file_bytes(&self) -> Option<usize> {
        match &self.memory {
            Memory::Anonymous(_) => None,
            Memory::Rewired(memory) => memory.ask(Space::memory_bytes),
        }
    }

    /// Sets whether processes forked from now on go without this memory; by default they have it.
    ///
    /// # Errors
    /// 53200 if the system has no memory to note that.
    pub fn exclude_from_fork(&self, exclude: bool) -> Result<()> {
        let advice = if exclude { libc::MADV_DONTFORK } else { libc::MADV_DOFORK };
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
        let bytes = bytes.max(1).min(self.bytes()).next_multiple_of(PageSize::Small.bytes());
        let memory = match (&self.memory, old.map(|old| old.memory)) {
            (Memory::Rewired(live), old) => Copied::Rewired(live.snapshot(
                match old {
                    Some(Copied::Rewired(image)) => Some(image),
                    _ => None,
                },
                bytes,
            )?),
            (Memory::Anonymous(live), old) => self.renew_anonymous(live, old, bytes)?,
        };
        Ok(RegionSnapshot { memory })
    }

    fn renew_anonymous(&self, live: &Mapping, old: Option<Copied>, bytes: usize) -> Result<Copied> {
        match self.technique {
            Technique::VmSnapshot => {
                let old = match old {
                    Some(Copied::Kernel(mapping)) => Some(mapping),
                    _ => None,
                };
                vm_snapshot::snapshot(live.pointer(), bytes, old).map(Copied::Kernel)
            }
            Technique::Physical => {
                let (image, charge) = match old {
                    Some(Copied::Physical(old, charge)) if old.bytes() == bytes => (old, charge),
                    old => {
                        drop(old);
                        if !account::may_map(bytes) {
                            return Err(Error::out_of_memory(bytes));
                        }
                        let new = Mapping::new(bytes, self.pages.bytes())?;
                        new.advise(libc::MADV_POPULATE_WRITE);
                        (new, Charge::of(bytes))
                    }
                };
                // SAFETY: both are mapped for `bytes`; the source is shared through atomics, the target is ours alone.
                unsafe { copy(live.pointer(), image.pointer(), bytes) };
                Ok(Copied::Physical(image, charge))
            }
            _ => {
                let message = "a snapshot by fork is a process, not a range of memory";
                Err(Error::new(SqlState::FeatureNotSupported, message))
            }
        }
    }
}

impl RegionSnapshot {
    /// Where the image starts. It may be written to while its owner ensures that it is not being read.
    pub fn pointer(&self) -> NonNull<u8> {
        match &self.memory {
            Copied::Physical(memory, _) | Copied::Kernel(memory) => memory.pointer(),
            Copied::Rewired(image) => image.pointer(),
        }
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> usize {
        match &self.memory {
            Copied::Physical(memory, _) | Copied::Kernel(memory) => memory.bytes(),
            Copied::Rewired(image) => image.bytes(),
        }
    }

    /// Whether the snapshot is whole, to be asked after reading. Costs a short lock.
    ///
    /// # Errors
    /// 53200 if the snapshot had to end because memory or mappings ran out, by rewiring only: its memory is then zeroes, or
    /// zeroes mixed with what it was if that happened while it was read.
    pub fn check(&self) -> Result<()> {
        match &self.memory {
            Copied::Physical(..) | Copied::Kernel(_) => Ok(()),
            Copied::Rewired(image) => image.check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's description of a mapping: the flag "dc" says that forking leaves it out.
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
        region.exclude_from_fork(true).unwrap();
        assert_eq!(is_left_out(), Some(true));
        region.exclude_from_fork(false).unwrap();
        // It may have become one mapping with its neighbours again.
        assert_ne!(is_left_out(), Some(true));
    }
}
