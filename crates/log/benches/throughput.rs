//! What a commit waits for, how many of them a flush takes, and how fast a log is read.
//!
//! `cargo bench -p ankerdb-log --bench throughput -- FOLDER [SECONDS]`
//!
//! Each worker commits records of 200 bytes, one after the other: it waits for each to be durable, or (`off`) for none. There is no
//! database around: a commit is a timestamp, a record and a finish. The log is then read once, from the system's memory.

use ankerdb_base::Timestamp;
use ankerdb_log::{Log, LogOptions, Record, SystemDisk, open};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PAYLOAD: [u8; 200] = [7; 200];

/// Timestamps and a watermark over commits that finish in any order.
struct Order {
    drawn: AtomicU64,
    watermark: AtomicU64,
    finished: Vec<AtomicU64>,
}

impl Order {
    fn new() -> Order {
        let finished = (0..1 << 16).map(|_| AtomicU64::new(0)).collect();
        Order { drawn: AtomicU64::new(0), watermark: AtomicU64::new(0), finished }
    }

    fn slot(&self, timestamp: u64) -> &AtomicU64 {
        &self.finished[timestamp as usize % self.finished.len()]
    }

    /// The next timestamp, when its slot is free.
    fn draw(&self) -> u64 {
        let timestamp = self.drawn.fetch_add(1, Ordering::SeqCst) + 1;
        while timestamp - self.watermark.load(Ordering::SeqCst) >= self.finished.len() as u64 {
            thread::yield_now();
        }
        timestamp
    }

    fn finish(&self, timestamp: u64) {
        self.slot(timestamp).store(timestamp, Ordering::SeqCst);
        loop {
            let watermark = self.watermark.load(Ordering::SeqCst);
            if self.slot(watermark + 1).load(Ordering::SeqCst) != watermark + 1 {
                return;
            }
            let next = watermark + 1;
            let _ = self.watermark.compare_exchange(watermark, next, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

/// How long each of the worker's commits took.
fn work(log: &Log, order: &Order, is_waiting: bool, until: Instant) -> Vec<u64> {
    let appender = log.appender();
    let mut took = Vec::new();
    while Instant::now() < until {
        let begun = Instant::now();
        let reservation = appender.reserve(PAYLOAD.len()).expect("room");
        let timestamp = order.draw();
        appender.append(reservation, 1, Timestamp(timestamp), &PAYLOAD);
        order.finish(timestamp);
        if is_waiting {
            while order.watermark.load(Ordering::SeqCst) < timestamp {
                thread::yield_now();
            }
            log.wait_until_durable(Timestamp(timestamp)).expect("the log is open");
        }
        took.push(begun.elapsed().as_nanos() as u64);
    }
    took
}

fn measure(folder: &Path, workers: usize, is_waiting: bool, seconds: f64) {
    let disk = Arc::new(SystemDisk);
    let made = Instant::now();
    let log = open(disk.clone(), folder, &LogOptions::default(), &mut |_: Record| Ok(())).expect("opened");
    let made = made.elapsed();
    let order = Arc::new(Order::new());
    let watching = Arc::clone(&order);
    log.start(move || Timestamp(watching.watermark.load(Ordering::SeqCst)));
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(seconds);
    let mut took: Vec<u64> = thread::scope(|scope| {
        let work = || work(&log, &order, is_waiting, until);
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    log.close().expect("closed");
    let elapsed = begun.elapsed();
    took.sort_unstable();
    let at = |share: f64| took[(took.len() as f64 * share) as usize] as f64 / 1000.0;
    let rate = took.len() as f64 / elapsed.as_secs_f64();
    let kind = if is_waiting { "wait" } else { "off" };
    println!(
        "{workers:3} workers, {kind:4}: {rate:10.0} commits/s, p50 {:.1} us, p99 {:.1} us; folder made in {made:.1?}",
        at(0.5),
        at(0.99)
    );
    read(folder, took.len());
    std::fs::remove_dir_all(folder).expect("removed");
}

fn read(folder: &Path, expected: usize) {
    let (mut records, mut bytes) = (0, 0);
    let begun = Instant::now();
    let visit = &mut |record: Record| {
        records += 1;
        bytes += record.payload.len();
        Ok(())
    };
    let log = open(Arc::new(SystemDisk), folder, &LogOptions::default(), visit).expect("opened");
    let elapsed = begun.elapsed();
    drop(log);
    assert_eq!(records, expected, "all records are read");
    let rate = bytes as f64 / elapsed.as_secs_f64() / 1e9;
    println!("             read: {records} records in {elapsed:.1?}, {rate:.2} GB of payloads/s");
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let Some(folder) = arguments.next() else {
        println!("throughput FOLDER [SECONDS]: measures a log in a new folder there");
        return;
    };
    let seconds = arguments.next().map_or(3.0, |seconds| seconds.parse().expect("a number of seconds"));
    let folder = Path::new(&folder).join(format!("ankerdb-log-{}", std::process::id()));
    for (workers, is_waiting) in [(1, true), (4, true), (64, true), (1, false), (4, false)] {
        measure(&folder, workers, is_waiting, seconds);
    }
}
