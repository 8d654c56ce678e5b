//! What is appended is read back, in order, after closing, killing and losing power.

mod common;

use ankerdb_base::{Result, SqlState, Timestamp};
use ankerdb_log::simulated::SimulatedDisk;
use ankerdb_log::{LogOptions, Record, Replay, SystemDisk, open};
use common::{Order, commit, open_with, options, reopen, start};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn payloads(read: &[common::Read]) -> Vec<(u64, Vec<u8>)> {
    read.iter().map(|record| (record.timestamp, record.payload.clone())).collect()
}

#[test]
fn records_come_back_in_order_over_several_segments_and_runs() {
    let disk = SimulatedDisk::new();
    let mut expected = Vec::new();
    for incarnation in 1..=4 {
        let (log, read) = reopen(&disk);
        assert_eq!(payloads(&read), expected);
        assert_eq!((log.incarnation(), log.last_timestamp().0), (incarnation, expected.len() as u64));
        assert_eq!(log.durable(), log.last_timestamp());
        let order = start(&log);
        let appenders = [log.appender(), log.appender()];
        for number in 0..40u64 {
            let payload = vec![number as u8; (number * 37 % 1500) as usize];
            let timestamp = commit(&appenders[number as usize % 2], &order, &payload).expect("there is room");
            if number % 3 == 0 {
                log.wait_until_durable(timestamp).expect("the log is open");
            }
            expected.push((timestamp.0, payload));
        }
        log.close().expect("closed");
    }
    assert_eq!(payloads(&reopen(&disk).1), expected);
    assert!(disk.paths().len() > 8, "several segments");
}

#[test]
fn what_the_watermark_did_not_cover_is_dropped_and_its_timestamps_given_again() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    let appender = log.appender();
    let first = commit(&appender, &order, b"first").expect("room");
    // The second is drawn and never finishes, so the third is never covered.
    let hung = order.draw();
    let third = commit(&appender, &order, b"third").expect("room");
    log.wait_until_durable(first).expect("the log is open");
    while disk
        .after_kill()
        .read_file(std::path::Path::new("log/0000000000000001.log"))
        .is_none_or(|bytes| !bytes.windows(5).any(|window| window == b"third"))
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((hung.0, third.0), (2, 3));
    let killed = disk.after_kill();
    let (log, read) = reopen(&killed);
    assert_eq!(payloads(&read), [(1, b"first".to_vec())]);
    assert_eq!(log.last_timestamp(), Timestamp(3), "behind the dropped one");
    // Had the next run begun at 2, its watermark would cover the dropped record.
    let order = Order::after(Timestamp(1));
    let watching = Arc::clone(&order);
    log.start(move || watching.watermark());
    let appender = log.appender();
    for payload in [b"again 2", b"again 3"] {
        commit(&appender, &order, payload).expect("room");
    }
    log.close().expect("closed");
    let expected = [(1, b"first".to_vec()), (2, b"again 2".to_vec()), (3, b"again 3".to_vec())];
    assert_eq!(payloads(&reopen(&killed).1), expected);
}

#[test]
fn commits_nobody_waits_for_are_covered_by_and_by() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    let appender = log.appender();
    let reservation = appender.reserve(4).expect("room");
    let timestamp = order.draw();
    appender.append(reservation, 1, timestamp, b"late");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(log.durable(), Timestamp::ZERO);
    order.finish(timestamp);
    while log.durable() < timestamp {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(payloads(&reopen(&disk.after_power_loss(7)).1), [(1, b"late".to_vec())]);
}

#[test]
fn parts_come_before_the_commit_that_was_appended_after_them() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    let (one, other) = (log.appender(), log.appender());
    for number in 0..200u8 {
        one.append_ahead(7, &[number; 600], &|| Ok(())).expect("room");
        commit(&other, &order, &[number]).expect("room");
    }
    log.close().expect("closed");
    let (_, read) = reopen(&disk);
    let mut parts = 0;
    for record in &read {
        match record.kind {
            7 => {
                assert_eq!(record.payload, [parts; 600]);
                parts += 1;
            }
            _ => assert!(record.payload[0] < parts, "commit {} before its part", record.payload[0]),
        }
    }
    assert_eq!((parts, read.len()), (200, 400));
}

#[test]
fn records_that_are_too_long_are_refused() {
    let (log, _) = reopen(&SimulatedDisk::new());
    start(&log);
    let longest = options().record_bytes_max();
    let appender = log.appender();
    assert!(appender.reserve(longest).is_ok());
    let error = appender.reserve(longest + 1).expect_err("too long");
    assert_eq!(error.state(), SqlState::ProgramLimitExceeded);
    let error = appender.append_ahead(1, &vec![0; longest + 1], &|| Ok(())).expect_err("too long");
    assert_eq!(error.state(), SqlState::ProgramLimitExceeded);
}

#[test]
fn reservations_that_are_dropped_give_their_room_back() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    start(&log);
    let appender = log.appender();
    for _ in 0..10_000 {
        drop(appender.reserve(3000).expect("room"));
    }
    log.close().expect("closed");
    assert!(disk.paths().len() < 8, "{:?}", disk.paths());
    assert_eq!(appender.reserve(1).expect_err("closed").state(), SqlState::IoError);
}

#[test]
fn the_interrupt_ends_a_wait_for_room() {
    let (log, _) = reopen(&SimulatedDisk::new());
    // Without a flusher no segment is ever made.
    let appender = log.appender();
    let asked = AtomicU64::new(0);
    let interrupt = || match asked.fetch_add(1, Ordering::Relaxed) {
        0..3 => Ok(()),
        _ => Err(ankerdb_base::Error::new(SqlState::QueryCanceled, "canceled")),
    };
    let error = (0..100).find_map(|_| appender.append_ahead(1, &[1; 3000], &interrupt).err());
    assert_eq!(error.expect("no room").state(), SqlState::QueryCanceled);
}

#[test]
fn many_threads_on_the_systems_disk() {
    let folder = std::env::temp_dir().join(format!("ankerdb-log-{}", std::process::id()));
    let options = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let disk = Arc::new(SystemDisk);
    let log = open(disk.clone(), &folder, &options, &mut |_: Record| Ok(())).expect("opened");
    let order = start(&log);
    std::thread::scope(|scope| {
        for worker in 0..8u64 {
            let (log, order) = (&log, &order);
            scope.spawn(move || {
                let appender = log.appender();
                for number in 0..300u64 {
                    let payload = (worker << 32 | number).to_le_bytes().repeat(1 + number as usize % 50);
                    let timestamp = commit(&appender, order, &payload).expect("room");
                    order.wait_visible(timestamp, &false.into());
                    log.wait_until_durable(timestamp).expect("the log is open");
                    assert!(log.durable() >= timestamp);
                }
            });
        }
    });
    let second = open(disk.clone(), &folder, &options, &mut |_: Record| Ok(())).expect_err("in use");
    assert_eq!(second.state(), SqlState::ObjectInUse);
    assert!(second.message().contains(&format!("process {}", std::process::id())), "{second}");
    log.close().expect("closed");
    let mut timestamps = Vec::new();
    let log = open(disk, &folder, &options, &mut |record: Record| {
        timestamps.push(record.timestamp.0);
        Ok(())
    });
    drop(log.expect("opened again"));
    assert_eq!(timestamps, (1..=2400).collect::<Vec<_>>());
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[test]
fn an_aborted_timestamp_is_durable_without_a_write() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    let written = commit(&log.appender(), &order, b"x").expect("room");
    log.wait_until_durable(written).expect("the log is open");
    while disk.paths().len() < 4 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    let before = disk.operations();
    let aborted = order.draw();
    order.finish(aborted);
    log.wait_until_durable(aborted).expect("the log is open");
    assert_eq!(disk.operations(), before);
}

#[test]
fn what_visit_says_is_passed_on() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    commit(&log.appender(), &order, b"x").expect("room");
    log.close().expect("closed");
    let refuse = &mut |_: Record| Err(ankerdb_base::Error::new(SqlState::QueryCanceled, "no more"));
    let error = open(Arc::new(disk.clone()), std::path::Path::new(common::FOLDER), &options(), refuse);
    assert_eq!(error.expect_err("refused").state(), SqlState::QueryCanceled);
    assert_eq!(open_with(&disk, &options()).expect("not locked").1.len(), 1);
}

#[test]
fn the_log_is_read_in_as_many_passes_as_its_reader_wants() {
    struct Thrice {
        passes: Vec<Vec<u64>>,
    }
    impl Replay for Thrice {
        fn record(&mut self, record: Record) -> Result<()> {
            self.passes.last_mut().expect("a pass").push(record.timestamp.0);
            Ok(())
        }

        fn wants_another_pass(&mut self) -> Result<bool> {
            let wants = self.passes.len() < 3;
            self.passes.extend(wants.then(Vec::new));
            Ok(wants)
        }
    }
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    let appender = log.appender();
    let expected: Vec<u64> = (0..60).map(|_| commit(&appender, &order, &[3; 700]).expect("room").0).collect();
    log.close().expect("closed");
    let mut thrice = Thrice { passes: vec![Vec::new()] };
    let log = open(Arc::new(disk.clone()), std::path::Path::new(common::FOLDER), &options(), &mut thrice);
    let log = log.expect("opened");
    assert_eq!(thrice.passes, [expected.clone(), expected.clone(), expected.clone()]);
    let order = start(&log);
    commit(&log.appender(), &order, b"behind").expect("room");
    log.close().expect("closed");
    assert_eq!(reopen(&disk).1.len(), expected.len() + 1);
}
