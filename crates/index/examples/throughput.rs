//! How many lookups and inserts per second, next to a standard B-tree behind a reader-writer lock.
//!
//! `cargo run --release -p ankerdb-index --example throughput [THREADS] [KEYS]`
//!
//! Keys have 12 bytes: three big-endian 32-bit integers, like (warehouse, district, order). They arrive
//! at random, or in TPC-C's order (each thread's own warehouse, ten districts in turn). Every figure is the
//! median of three rounds.

use ankerdb_index::{Direction, OrderedIndex};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

type Key = [u8; 12];

const ROUNDS: usize = 3;

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

/// Nanoseconds that one thread spent per operation on average, all threads running at once.
fn parallel(threads: usize, operations: usize, work: impl Fn(usize) + Sync) -> Duration {
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    start.wait();
                    let begin = Instant::now();
                    work(thread);
                    begin.elapsed()
                })
            })
            .collect();
        start.wait();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).max().expect("one thread at least")
    }) / operations as u32
}

/// Medians of (insert, get, ten): time per operation over all threads together.
fn measure<M: Map>(keys: &[Vec<Key>]) -> [Duration; 3] {
    let operations: usize = keys.iter().map(Vec::len).sum();
    let mut times = [[Duration::ZERO; ROUNDS]; 3];
    for round in 0..ROUNDS {
        let map = M::new();
        times[0][round] = parallel(keys.len(), operations, |thread| {
            keys[thread].iter().enumerate().for_each(|(row, key)| map.insert(key, row as u64));
        });
        // Looked up in another order than inserted.
        let mut shuffled = keys.to_vec();
        shuffled.iter_mut().enumerate().for_each(|(seed, keys)| {
            fastrand::Rng::with_seed(seed as u64).shuffle(keys);
        });
        times[1][round] = parallel(keys.len(), operations, |thread| {
            assert!(shuffled[thread].iter().all(|key| map.get(key).is_some()));
        });
        times[2][round] = parallel(keys.len(), operations, |thread| {
            let sum = shuffled[thread].iter().fold(0u64, |sum, key| sum.wrapping_add(map.ten(key)));
            std::hint::black_box(sum);
        });
    }
    times.map(|mut times| {
        times.sort();
        times[ROUNDS / 2]
    })
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
        |nth, default| std::env::args().nth(nth).map_or(default, |text| text.parse().expect("a number"));
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    let (threads, count) = (argument(1, cores), argument(2, 1_000_000));
    println!("{count} keys of 12 bytes; million operations per second over all threads");
    println!(
        "{:<8} {:>7}   {:<16} {:>8} {:>8} {:>12}",
        "keys", "threads", "index", "inserts", "lookups", "scans of 10"
    );
    type Generator = fn(usize, usize) -> Vec<Vec<Key>>;
    for (name, keys) in [("random", random_keys as Generator), ("orders", order_keys)] {
        for threads in if threads == 1 { vec![1] } else { vec![1, threads] } {
            let keys = keys(threads, count);
            let measured = [
                ("OrderedIndex", measure::<OrderedIndex>(&keys)),
                ("RwLock<BTreeMap>", measure::<RwLock<BTreeMap<Key, u64>>>(&keys)),
            ];
            for (index, times) in measured {
                let [insert, get, ten] = times.map(|time| 1e-6 / time.as_secs_f64());
                println!("{name:<8} {threads:>7}   {index:<16} {insert:>8.1} {get:>8.1} {ten:>12.1}");
            }
            let index = OrderedIndex::new();
            keys.iter().flatten().for_each(|key| Map::insert(&index, key, 0));
            println!("{:>18}OrderedIndex: {} bytes per entry", "", index.memory_bytes() / index.len());
        }
    }
}
