//! How many lookups and inserts per second, next to a standard B-tree behind a reader-writer lock.
//!
//! `cargo bench -p ankerdb-index --bench throughput -- [THREADS] [KEYS]`
//!
//! Keys have 12 bytes: three big-endian 32-bit integers, like (warehouse, district, order). They arrive
//! at random, or in TPC-C's order (each thread's own warehouse, ten districts in turn). Every figure is the
//! median of five rounds, in which both kinds of index take turns.

use ankerdb_index::{Direction, OrderedIndex};
use ankerdb_measure::arguments::arguments;
use ankerdb_measure::cpu::ThreadClock;
use ankerdb_measure::latency::median;
use ankerdb_measure::rounds::variant_of;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

type Key = [u8; 12];

const ROUNDS: usize = 5;

/// What is measured, of either kind of index.
trait Map: Sync {
    fn new() -> Self;
    fn insert(&self, key: &Key, row: u64);
    fn get(&self, key: &Key) -> Option<u64>;
    /// Sums up the rows of the ten entries from the key on.
    fn ten(&self, key: &Key) -> u64;
}

impl Map for OrderedIndex {
    fn new() -> Self {
        OrderedIndex::new()
    }
    fn insert(&self, key: &Key, row: u64) {
        OrderedIndex::insert(self, key, row).expect("a short key");
    }
    fn get(&self, key: &Key) -> Option<u64> {
        let mut found = None;
        OrderedIndex::get(self, key, |row| {
            found = Some(row);
            ControlFlow::Break(())
        });
        found
    }
    fn ten(&self, key: &Key) -> u64 {
        let (mut sum, mut entries) = (0u64, 0);
        self.scan(Bound::Included(key), Bound::Unbounded, Direction::Forward, |_, row| {
            sum = sum.wrapping_add(row);
            entries += 1;
            if entries == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        sum
    }
}

impl Map for RwLock<BTreeMap<Key, u64>> {
    fn new() -> Self {
        RwLock::default()
    }
    fn insert(&self, key: &Key, row: u64) {
        self.write().insert(*key, row);
    }
    fn get(&self, key: &Key) -> Option<u64> {
        self.read().get(key).copied()
    }
    fn ten(&self, key: &Key) -> u64 {
        self.read().range(*key..).take(10).fold(0, |sum, (_, &row)| sum.wrapping_add(row))
    }
}

/// What one operation took, all threads running at once.
#[derive(Clone, Copy)]
struct Cost {
    /// Wall time over all threads: what a user sees.
    wall_ns: f64,
    /// Time on a core, which does not count waiting for one on a busy machine.
    cpu_ns: f64,
}

fn parallel(keys: &[Vec<Key>], work: impl Fn(&[Key]) + Sync) -> Cost {
    let start = Barrier::new(keys.len());
    let times: Vec<(Duration, f64)> = thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let run = move |keys: &[Key]| {
            start.wait();
            let (begin, clock) = (Instant::now(), ThreadClock::of_this_thread());
            let cpu = cpu_ns(&clock);
            work(keys);
            (begin.elapsed(), cpu_ns(&clock) - cpu)
        };
        let workers: Vec<_> = keys.iter().map(|keys| scope.spawn(move || run(keys))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let operations = keys.iter().map(Vec::len).sum::<usize>() as f64;
    let longest = times.iter().map(|time| time.0).max().expect("one thread at least");
    let cpu_ns = times.iter().map(|time| time.1).sum::<f64>() / operations;
    Cost { wall_ns: longest.as_nanos() as f64 / operations, cpu_ns }
}

/// Time this thread has been running, as is booked when it gives way; not a number where the kernel does not say.
fn cpu_ns(clock: &Option<ThreadClock>) -> f64 {
    thread::yield_now();
    clock.as_ref().map_or(f64::NAN, |clock| clock.read().as_nanos() as f64)
}

/// One round of inserts, lookups, and scans of ten entries.
fn round<M: Map>(keys: &[Vec<Key>], shuffled: &[Vec<Key>]) -> [Cost; 3] {
    let map = M::new();
    [
        parallel(keys, |keys| keys.iter().enumerate().for_each(|(row, key)| map.insert(key, row as u64))),
        parallel(shuffled, |keys| assert!(keys.iter().all(|key| map.get(key).is_some()))),
        parallel(shuffled, |keys| {
            std::hint::black_box(keys.iter().fold(0u64, |sum, key| sum.wrapping_add(map.ten(key))));
        }),
    ]
}

fn print(keys: &str, threads: usize, index: &str, rounds: &[[Cost; 3]]) {
    let mut line = format!("{keys:<8} {threads:>7}   {index:<16}");
    for operation in 0..3 {
        let median = |cost: fn(&Cost) -> f64| {
            let mut costs: Vec<f64> = rounds.iter().map(|round| cost(&round[operation])).collect();
            median(&mut costs).unwrap_or(f64::NAN)
        };
        let cell = format!("{:.1} ({:.0})", 1e3 / median(|cost| cost.wall_ns), median(|cost| cost.cpu_ns));
        line += &format!(" {cell:>14}");
    }
    println!("{line}");
}

fn key(words: [u32; 3]) -> Key {
    let mut key = [0; 12];
    key.chunks_exact_mut(4).zip(words).for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_be_bytes()));
    key
}

fn random_keys(threads: usize, count: usize) -> Vec<Vec<Key>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut keys =
        |_| (0..count / threads).map(|_| key([random.u32(..), random.u32(..), random.u32(..)])).collect();
    (0..threads).map(&mut keys).collect()
}

fn order_keys(threads: usize, count: usize) -> Vec<Vec<Key>> {
    let keys = |warehouse| {
        let number = |n: u32| key([warehouse as u32, n % 10, n / 10]);
        (0..(count / threads) as u32).map(number).collect()
    };
    (0..threads).map(keys).collect()
}

fn main() {
    let argument =
        |nth, default| arguments().nth(nth).map_or(default, |text| text.parse().expect("a number"));
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let (threads, count) = (argument(0, cores), argument(1, 1_000_000));
    println!("{count} keys of 12 bytes; million operations per second (ns of one core per operation)");
    let [insert, get, ten] = ["inserts", "lookups", "scans of 10"];
    println!("{:<8} {:>7}   {:<16} {insert:>14} {get:>14} {ten:>14}", "keys", "threads", "index");
    type Generator = fn(usize, usize) -> Vec<Vec<Key>>;
    for (name, keys) in [("random", random_keys as Generator), ("orders", order_keys)] {
        for threads in if threads == 1 { vec![1] } else { vec![1, threads] } {
            let keys = keys(threads, count);
            // Looked up in another order than inserted.
            let mut shuffled = keys.clone();
            let mut random = fastrand::Rng::with_seed(2);
            shuffled.iter_mut().for_each(|keys| random.shuffle(keys));
            let (mut ours, mut standard) = (Vec::new(), Vec::new());
            for turn in 0..2 * ROUNDS {
                match variant_of(turn, 2) {
                    0 => ours.push(round::<OrderedIndex>(&keys, &shuffled)),
                    _ => standard.push(round::<RwLock<BTreeMap<Key, u64>>>(&keys, &shuffled)),
                }
            }
            print(name, threads, "OrderedIndex", &ours);
            print(name, threads, "RwLock<BTreeMap>", &standard);
            let index = OrderedIndex::new();
            keys.iter().flatten().for_each(|key| Map::insert(&index, key, 0));
            println!("{:>18}OrderedIndex: {} bytes per entry", "", index.memory_bytes() / index.len());
        }
    }
}
