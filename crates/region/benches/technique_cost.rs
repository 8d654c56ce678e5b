//! What each technique costs on this machine: taking a snapshot, the first write to a page, reading.
//!
//! `cargo bench -p ankerdb-region --bench technique_cost -- [megabytes]`, 200 by default (one column of AnKer §4.3.2).
//! Times are medians of five rounds. For `fork` see the experiments: it snapshots processes.

use ankerdb_measure::arguments::arguments;
use ankerdb_measure::latency::median;
use ankerdb_region::{PageSize, Region, RegionSnapshot, Technique};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const ROUNDS: usize = 5;

fn words(start: NonNull<u8>, bytes: usize) -> &'static [AtomicU64] {
    // SAFETY: callers use the words no longer than the memory that they lie in.
    unsafe { std::slice::from_raw_parts(start.as_ptr().cast(), bytes / 8) }
}

fn scan(start: NonNull<u8>, bytes: usize) -> u64 {
    words(start, bytes).iter().fold(0, |sum, word| sum.wrapping_add(word.load(Relaxed)))
}

/// Writes the first word of some pages, spread over all of them in an order that no prefetcher guesses.
fn write(region: &Arc<Region>, pages: usize, value: u64) {
    let all = region.bytes() / PAGE;
    let live = words(region.pointer(), region.bytes());
    for step in 0..pages {
        live[step * 40_503 % all * (PAGE / 8)].store(value, Relaxed);
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Milliseconds of each part.
#[derive(Default)]
struct Costs(Vec<(&'static str, Vec<f64>)>);

impl Costs {
    fn add(&mut self, what: &'static str, time: Duration) {
        let time = time.as_secs_f64() * 1e3;
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, times)) => times.push(time),
            None => self.0.push((what, vec![time])),
        }
    }

    fn print(mut self) {
        for (what, times) in &mut self.0 {
            print!("  {what} {:.3}", median(times).unwrap_or_default());
        }
        println!();
    }
}

fn measure(technique: Technique, pages: PageSize, bytes: usize) -> ankerdb_base::Result<()> {
    let mut costs = Costs::default();
    let region = Region::new(technique, pages, bytes)?;
    let bytes = region.bytes();
    for word in words(region.pointer(), bytes) {
        word.store(1, Relaxed);
    }
    let mut mappings = 0;
    for round in 0..ROUNDS as u64 {
        costs.add("write-before", timed(|| write(&region, 1000, round)).1);
        let (snapshot, time) = timed(|| region.snapshot(bytes));
        let mut snapshot: RegionSnapshot = snapshot?;
        costs.add("create", time);
        costs.add("scan-1st", timed(|| std::hint::black_box(scan(snapshot.pointer(), bytes))).1);
        costs.add("scan-2nd", timed(|| std::hint::black_box(scan(snapshot.pointer(), bytes))).1);
        costs.add("write-1000", timed(|| write(&region, 1000, round + 10)).1);
        costs.add("again", timed(|| write(&region, 1000, round + 20)).1);
        mappings = mappings.max(region.mappings());
        let (refreshed, time) = timed(|| region.refresh(snapshot, bytes));
        snapshot = refreshed?;
        costs.add("refresh-1000", time);
        costs.add("scan-live", timed(|| std::hint::black_box(scan(region.pointer(), bytes))).1);
        costs.add("drop", timed(|| drop(snapshot)).1);
    }
    print!("{:21} {:5} ms:", technique.name(), if pages == PageSize::Small { "4 KiB" } else { "2 MiB" });
    costs.print();
    println!("    mappings of live memory at most {mappings}; {:?}", region.rewiring_counts());
    Ok(())
}

fn main() -> ankerdb_base::Result<()> {
    let megabytes = arguments().next().and_then(|text| text.parse().ok()).unwrap_or(200usize);
    let bytes = megabytes << 20;
    let (from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
    for _ in 0..2 {
        println!(
            "memcpy to warm memory: {:.1} ms",
            timed(|| to.copy_from_slice(&from)).1.as_secs_f64() * 1e3
        );
    }
    let fresh = timed(|| from.to_vec());
    println!("memcpy to new memory: {:.1} ms", fresh.1.as_secs_f64() * 1e3);
    std::hint::black_box((from, to, fresh.0));
    for technique in Technique::ALL.into_iter().filter(|technique| *technique != Technique::Fork) {
        for pages in [PageSize::Small, PageSize::Huge] {
            if let Err(error) = technique.check().and_then(|()| measure(technique, pages, bytes)) {
                println!("{}: {error}", technique.name());
            }
        }
    }
    Ok(())
}
