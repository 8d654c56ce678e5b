//! Room that was given is there, on a disk that has not a byte more, however the records are cut into chunks and segments.

mod common;

use ankerdb_base::SqlState;
use ankerdb_log::simulated::SimulatedDisk;
use ankerdb_log::{LogOptions, Reservation};
use common::{open_with, options, reopen, start};
use std::sync::{Arc, Mutex};

/// How what was reserved is appended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Appending {
    /// All at once, and covered at once.
    Together,
    /// Each in a chunk of its own, and covered by another one of its own; half of the time small ones.
    Apart,
    /// Some while others are reserved.
    Meanwhile,
}

/// Reserves until the disk is full, then appends all of it. Returns how many records those were.
fn fill(seed: u64, segments: u64, appending: Appending) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let failures = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&failures);
    let options = LogOptions {
        on_failure: Some(Arc::new(move |what| noted.lock().expect("alone").push(what.to_owned()))),
        ..options()
    };
    let disk = SimulatedDisk::new();
    let (log, _) = open_with(&disk, &options).expect("opened");
    disk.set_space(Some(64 + segments * options.segment_bytes + random.u64(0..options.segment_bytes)));
    let order = start(&log);
    let appenders = [log.appender(), log.appender(), log.appender()];
    let longest = options.record_bytes_max();
    let mut reserved: Vec<(usize, Reservation)> = Vec::new();
    let mut count = 0;
    let error = loop {
        let length = match random.bool() {
            _ if appending == Appending::Apart && seed.is_multiple_of(2) => random.usize(0..40),
            true => longest - random.usize(0..20),
            false => random.usize(0..longest),
        };
        if appending == Appending::Meanwhile && reserved.len() > 3 {
            let (worker, reservation) = reserved.swap_remove(random.usize(0..reserved.len()));
            let timestamp = order.draw();
            let payload = vec![1; reservation.payload_bytes()];
            appenders[worker].append(reservation, 1, timestamp, &payload);
            order.finish(timestamp);
            log.wait_until_durable(timestamp).expect("the log is open");
            count += 1;
        }
        let worker = random.usize(0..3);
        match appenders[worker].reserve(length) {
            Ok(reservation) => reserved.push((worker, reservation)),
            Err(error) => break error,
        }
    };
    assert_eq!(error.state(), SqlState::DiskFull);
    random.shuffle(&mut reserved);
    count += reserved.len();
    let mut timestamps = Vec::new();
    for (worker, reservation) in reserved {
        let timestamp = order.draw();
        let payload = vec![timestamp.0 as u8; reservation.payload_bytes()];
        appenders[worker].append(reservation, 1, timestamp, &payload);
        timestamps.push(timestamp);
        if appending == Appending::Apart {
            // Time for a flush that covers nothing: the first commit has not finished.
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
    }
    for timestamp in timestamps {
        order.finish(timestamp);
        if appending == Appending::Apart {
            let waited = log.wait_until_durable(timestamp);
            waited.unwrap_or_else(|_| panic!("{:?}", failures.lock().expect("alone")));
        }
    }
    log.close().expect("room for all");
    assert_eq!(*failures.lock().expect("alone"), Vec::<String>::new());
    assert_eq!(reopen(&disk).1.len(), count);
    count
}

#[test]
fn room_for_all_that_was_reserved() {
    let mut filled = 0;
    for seed in 0..60 {
        filled += fill(seed, 1 + seed % 5, Appending::Together);
    }
    assert!(filled > 200, "{filled}");
}

#[test]
fn room_for_a_chunk_for_each_record_and_for_covering_it() {
    let mut filled = 0;
    for seed in 0..30 {
        filled += fill(seed, 1 + seed % 2, Appending::Apart);
    }
    assert!(filled > 100, "{filled}");
}

#[test]
fn room_for_what_was_reserved_while_others_wrote() {
    let mut filled = 0;
    for seed in 0..60 {
        filled += fill(seed, 1 + seed % 5, Appending::Meanwhile);
    }
    assert!(filled > 300, "{filled}");
}

/// Room that is given back by nobody, or twice, would end or go on for ever.
#[test]
fn room_that_was_used_or_given_back_is_neither_lost_nor_doubled() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    let appender = log.appender();
    let longest = options().record_bytes_max();
    let mut random = fastrand::Rng::with_seed(1);
    for number in 0..400 {
        let reservation = appender.reserve(number + random.usize(0..longest - number)).expect("room");
        let timestamp = order.draw();
        if number % 3 > 0 {
            appender.append(reservation, 1, timestamp, &vec![1; number]);
        }
        order.finish(timestamp);
        log.wait_until_durable(timestamp).expect("the log is open");
    }
    log.close().expect("closed");
    let bytes: u64 = 400 * 2 / 3 * 250;
    let segments = disk.paths().iter().filter(|path| path.extension().is_some()).count() as u64;
    assert!(segments <= 2 * bytes / options().segment_bytes + 3, "{segments} segments for {bytes} bytes");
}
