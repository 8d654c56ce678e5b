//! A small database over a log: timestamps, a watermark, workers that commit numbered records.

#![allow(dead_code, reason = "each test program uses a part")]

use ankerdb_base::{Result, Timestamp};
use ankerdb_log::simulated::SimulatedDisk;
use ankerdb_log::{Appender, Log, LogOptions, Record, open};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) mod history;

pub(crate) const FOLDER: &str = "log";

/// What was read back.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Read {
    pub(crate) kind: u8,
    pub(crate) timestamp: u64,
    pub(crate) incarnation: u64,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn options() -> LogOptions {
    LogOptions { segment_bytes: 16 << 10, ..LogOptions::default() }
}

pub(crate) fn open_with(disk: &SimulatedDisk, options: &LogOptions) -> Result<(Log, Vec<Read>)> {
    let mut read = Vec::new();
    let mut visit = |record: Record| {
        read.push(Read {
            kind: record.kind,
            timestamp: record.timestamp.0,
            incarnation: record.incarnation,
            payload: record.payload.to_vec(),
        });
        Ok(())
    };
    let log = open(Arc::new(disk.clone()), Path::new(FOLDER), options, &mut visit)?;
    Ok((log, read))
}

pub(crate) fn reopen(disk: &SimulatedDisk) -> (Log, Vec<Read>) {
    open_with(disk, &options()).unwrap_or_else(|error| panic!("opened: {error:?} {:?}", error.hint()))
}

/// Draws timestamps and moves the watermark over those that have finished.
#[derive(Default)]
pub(crate) struct Order {
    drawn: AtomicU64,
    watermark: AtomicU64,
    finished: Mutex<BTreeSet<u64>>,
}

impl Order {
    pub(crate) fn after(timestamp: Timestamp) -> Arc<Order> {
        Arc::new(Order {
            drawn: AtomicU64::new(timestamp.0),
            watermark: AtomicU64::new(timestamp.0),
            finished: Mutex::default(),
        })
    }

    pub(crate) fn draw(&self) -> Timestamp {
        Timestamp(self.drawn.fetch_add(1, Ordering::SeqCst) + 1)
    }

    pub(crate) fn finish(&self, timestamp: Timestamp) {
        let mut finished = self.finished.lock().expect("nobody panics");
        finished.insert(timestamp.0);
        let mut watermark = self.watermark.load(Ordering::SeqCst);
        while finished.remove(&(watermark + 1)) {
            watermark += 1;
        }
        self.watermark.store(watermark, Ordering::SeqCst);
    }

    pub(crate) fn watermark(&self) -> Timestamp {
        Timestamp(self.watermark.load(Ordering::SeqCst))
    }

    /// Until the watermark covers it; `false` if `is_over` says so first.
    pub(crate) fn wait_visible(&self, timestamp: Timestamp, is_over: &AtomicBool) -> bool {
        while self.watermark() < timestamp {
            if is_over.load(Ordering::SeqCst) {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}

pub(crate) fn start(log: &Log) -> Arc<Order> {
    let order = Order::after(log.last_timestamp());
    let watching = Arc::clone(&order);
    log.start(move || watching.watermark());
    order
}

/// A commit from its reservation to its finish, without waiting.
pub(crate) fn commit(appender: &Arc<Appender>, order: &Order, payload: &[u8]) -> Result<Timestamp> {
    let reservation = appender.reserve(payload.len())?;
    let timestamp = order.draw();
    appender.append(reservation, 1, timestamp, payload);
    order.finish(timestamp);
    Ok(timestamp)
}
