//! The memory in which techniques of the operating system take snapshots.
//!
//! A [`Memory`] holds columns of words, each in a region of its own. Writers store words into it, readers add up the
//! words of a snapshot. The engine's own columns for the same experiments are in `rows`.

use crate::harness::Harness;
use crate::setup::choice::PAGE_BYTES;
use ankerdb_engine::{Result, Technique};
use ankerdb_measure::latency::median;
use ankerdb_region::fork::{Child, spawn};
use ankerdb_region::{PageSize, Region, RegionSnapshot};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The name of ours beside the techniques.
pub const OURS: &str = "ankerdb";
/// Words of a page.
pub const WORDS_PER_PAGE: usize = PAGE_BYTES / 8;
/// Bytes that a child may leave: nothing, or a sum.
const CHILD_BYTES: usize = 64;

/// What holds for all of these experiments.
pub const ONE_RUN: &str = "techniques are compared within one run on one kernel: where it lacks vm_snapshot, the rows of that \
                           technique come from a run in the emulator of kernel/, and compare with that run's others only";

/// How our rewiring differs from the paper's.
pub const REWIRING: &str = "our rewiring moves a written page to the same place in a second copy of the column, so that neighbours \
                            become one mapping again: the number of mappings falls when most pages were written";

/// Columns of words in the memory of a technique.
pub struct Memory {
    technique: Technique,
    columns: Vec<Arc<Region>>,
}

impl Memory {
    /// Columns of so many MiB, every word of them set.
    ///
    /// # Errors
    /// Those of [`Region::new`].
    pub fn new(technique: Technique, columns: usize, megabytes: usize) -> Result<Memory> {
        let region = || Region::new(technique, PageSize::Small, megabytes << 20);
        let columns = (0..columns).map(|_| region()).collect::<Result<Vec<_>>>()?;
        for column in &columns {
            column.words().iter().enumerate().for_each(|(at, word)| word.store(at as u64, Relaxed));
        }
        Ok(Memory { technique, columns })
    }

    /// The technique.
    pub fn technique(&self) -> Technique {
        self.technique
    }

    /// A column's words.
    pub fn words(&self, column: usize) -> &[AtomicU64] {
        self.columns[column].words()
    }

    /// How many columns there are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Writes the first word of these pages of a column.
    pub fn write_pages(&self, column: usize, pages: &[usize]) {
        let words = self.words(column);
        pages.iter().for_each(|page| words[page * WORDS_PER_PAGE].store(*page as u64 + 1, Relaxed));
    }

    /// A snapshot of the first columns.
    ///
    /// # Errors
    /// Those of [`Region::snapshot`].
    pub fn snapshot(&self, columns: usize) -> Result<Vec<RegionSnapshot>> {
        self.columns[..columns].iter().map(|column| column.snapshot(column.bytes())).collect()
    }

    /// A snapshot of the first columns in place of an older one.
    ///
    /// # Errors
    /// Those of [`Region::snapshot`].
    pub fn refresh(&self, old: Vec<RegionSnapshot>) -> Result<Vec<RegionSnapshot>> {
        self.columns.iter().zip(old).map(|(column, old)| column.refresh(old, column.bytes())).collect()
    }

    /// How often columns of rewired pages were compacted because mappings had run out.
    pub fn compactions(&self) -> u64 {
        self.columns.iter().map(|column| column.rewiring_counts().compacted).sum()
    }

    /// Entries in the process's list of mappings that a column lies in.
    pub fn mappings(&self, column: usize) -> usize {
        let (start, bytes) = (self.columns[column].pointer().as_ptr() as usize, self.columns[column].bytes());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        let range = |line: &str| -> Option<(usize, usize)> {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
        };
        maps.lines().filter_map(range).filter(|&(from, to)| from < start + bytes && to > start).count()
    }
}

/// Forks a child that ends at once; how long the call took.
///
/// # Errors
/// 53300 if there may be no more processes, 53200 if there is no memory for one.
pub fn time_of_fork() -> Result<Duration> {
    let child = spawn(CHILD_BYTES, || Ok(()), |_| Ok(()))?;
    let time = child.fork_time();
    child.wait(&|| false).map(|_| time)
}

/// Forks a child that adds the words up.
///
/// # Errors
/// 53300 if there may be no more processes, 53200 if there is no memory for one.
pub fn fork_and_sum(words: &[AtomicU64]) -> Result<Child> {
    spawn(
        CHILD_BYTES,
        || Ok(()),
        |output| {
            let begun = Instant::now();
            let sum = sum_shared(words);
            let times = [begun.elapsed().as_nanos() as u64, sum];
            let written = times.iter().try_for_each(|word| output.write_all(&word.to_ne_bytes()));
            written.map_err(|error| ankerdb_engine::Error::internal(format!("a child cannot write: {error}")))
        },
    )
}

/// What such a child has measured: the time of its scan, and the sum. Waits for it.
///
/// # Errors
/// 58000 if the child was ended.
pub fn sum_of_child(child: Child) -> Result<(Duration, u64)> {
    let bytes = child.wait(&|| false)?;
    let mut words =
        bytes.as_ref().chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    match (words.next(), words.next()) {
        (Some(nanoseconds), Some(sum)) => Ok((Duration::from_nanos(nanoseconds), sum)),
        _ => Err(ankerdb_engine::Error::internal("a child has left no sum")),
    }
}

/// The sum of words that are not being written.
pub fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// The sum of words that may be written to meanwhile; in several sums, so that additions do not wait for each other.
pub fn sum_shared(words: &[AtomicU64]) -> u64 {
    const SUMS: usize = 8;
    let mut sums = [0u64; SUMS];
    let (groups, rest) = words.as_chunks::<SUMS>();
    for group in groups {
        for (sum, word) in sums.iter_mut().zip(group) {
            *sum = sum.wrapping_add(word.load(Relaxed));
        }
    }
    let rest = rest.iter().fold(0u64, |sum, word| sum.wrapping_add(word.load(Relaxed)));
    sums.into_iter().fold(rest, u64::wrapping_add)
}

/// Runs something at least three times (once if the user stops it), and up to 20 times within the time; the median of what it
/// returns.
///
/// # Errors
/// That of a run.
pub fn median_of_runs(
    harness: &Harness<'_>,
    time: Duration,
    mut run: impl FnMut() -> Result<f64>,
) -> Result<f64> {
    let (begun, mut values) = (Instant::now(), Vec::new());
    while values.len() < 3 || (values.len() < 20 && begun.elapsed() < time) {
        values.push(run()?);
        if harness.is_stopped() {
            break;
        }
    }
    Ok(median(&mut values).unwrap_or_default())
}

/// Pages of a column in random order.
pub fn shuffled_pages(megabytes: usize, seed: u64) -> Vec<usize> {
    let mut pages: Vec<usize> = (0..(megabytes << 20) / PAGE_BYTES).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut pages);
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::choice::chosen;

    #[test]
    fn sums_are_the_same_however_they_are_added_up() {
        let memory = Memory::new(Technique::Physical, 2, 1).expect("copying needs nothing");
        memory.write_pages(1, &[0, 3, 255]);
        let snapshot = memory.snapshot(2).expect("it fits");
        let words = (1u64 << 20) / 8;
        assert_eq!(sum(snapshot[0].words()), words * (words - 1) / 2);
        assert_eq!(sum(snapshot[1].words()), sum_shared(memory.words(1)));
        let (time, of_child) =
            sum_of_child(fork_and_sum(memory.words(1)).expect("a child")).expect("its sum");
        assert_eq!(of_child, sum_shared(memory.words(1)));
        assert!(!time.is_zero());
    }

    #[test]
    fn only_rewired_columns_fall_apart_into_mappings() {
        for technique in chosen(&[]).into_iter().filter(|technique| *technique != Technique::Fork) {
            let memory = Memory::new(technique, 1, 1).expect("the machine can run it");
            assert_eq!(memory.mappings(0), 1, "{technique:?} at first");
            let snapshot = memory.snapshot(1).expect("it fits");
            let pages = shuffled_pages(1, 1);
            memory.write_pages(0, &pages[..100]);
            let mappings = memory.mappings(0);
            match technique {
                Technique::Rewiring | Technique::RewiringUserfaultfd => assert!(mappings > 100, "{mappings}"),
                _ => assert_eq!(mappings, 1, "{technique:?} after writes"),
            }
            let place = pages[0] * WORDS_PER_PAGE;
            assert_eq!(snapshot[0].words()[place], place as u64, "{technique:?}: as it was");
            assert_eq!(memory.words(0)[place].load(Relaxed), pages[0] as u64 + 1);
        }
    }
}
