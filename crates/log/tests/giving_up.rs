//! Segments that are not needed any more: later ones are made of them, and a log that begins behind them is read from there.

mod common;

use ankerdb_base::{Result, SqlState};
use ankerdb_log::simulated::{Fault, SimulatedDisk};
use ankerdb_log::{Disk, Log, LogStart, Record, Replay, open};
use common::{FOLDER, commit, open_with, options, start};
use std::path::Path;
use std::sync::Arc;

/// Reads timestamps from a place on.
struct From {
    start: LogStart,
    read: Vec<u64>,
    passes: u32,
}

impl Replay for From {
    fn begin(&mut self, _: [u8; 16]) -> Result<LogStart> {
        Ok(self.start)
    }

    fn record(&mut self, record: Record) -> Result<()> {
        self.read.push(record.timestamp.0);
        Ok(())
    }

    fn wants_another_pass(&mut self) -> Result<bool> {
        self.passes += 1;
        if self.passes == 1 {
            self.read.clear();
        }
        Ok(self.passes == 1)
    }
}

fn open_from(disk: &SimulatedDisk, start: LogStart) -> Result<(Log, Vec<u64>)> {
    let mut from = From { start, read: Vec::new(), passes: 0 };
    let log = open(Arc::new(disk.clone()), Path::new(FOLDER), &options(), &mut from)?;
    Ok((log, from.read))
}

fn segments(disk: &SimulatedDisk) -> usize {
    let names = disk.list(Path::new(FOLDER)).expect("the folder is there");
    names.iter().filter(|name| name.ends_with(".log")).count()
}

#[test]
fn a_log_goes_on_in_few_files_and_is_read_from_where_it_is_needed() {
    let disk = SimulatedDisk::new();
    let (mut at, mut last) = (LogStart::default(), 0);
    for run in 0..5 {
        let (log, read) = open_from(&disk, at).expect("opened");
        let first = at.timestamp.0 + 1;
        let needed: Vec<u64> = read.into_iter().filter(|timestamp| *timestamp >= first).collect();
        assert_eq!(needed, (first..=last).collect::<Vec<u64>>(), "run {run}");
        assert_eq!(log.last_timestamp().0, last);
        let (order, appender) = (start(&log), log.appender());
        for number in 0..400u64 {
            let timestamp = commit(&appender, &order, &[number as u8; 300]).expect("room");
            log.wait_until_durable(timestamp).expect("the log is open");
            last = timestamp.0;
            if number % 60 == 59 {
                // What is appended from now on is needed, and what is in this segment comes along.
                at = LogStart { timestamp, ..log.position() };
                log.give_up_before(at.segment).expect("given up");
                assert!(segments(&disk) <= 8, "{} segments", segments(&disk));
            }
        }
        assert!(log.position().segment > (run + 1) * 8, "segment {}", log.position().segment);
        log.close().expect("closed");
    }
    let missing = open_with(&disk, &options()).expect_err("the first segments are gone");
    assert_eq!(missing.state(), SqlState::DataCorrupted);
    // How many commits a chunk holds is a matter of time: there are chunks to leave out when the next segment has some.
    let (log, _) = open_from(&disk, at).expect("opened");
    let (order, appender) = (start(&log), log.appender());
    while log.position().segment < at.segment + 2 {
        let timestamp = commit(&appender, &order, &[7; 300]).expect("room");
        log.wait_until_durable(timestamp).expect("the log is open");
    }
    log.close().expect("closed");
    let next = LogStart { segment: at.segment + 1, ..at };
    let wrong = open_from(&disk, next).expect_err("chunks were left out");
    assert_eq!(wrong.state(), SqlState::DataCorrupted);
}

#[test]
fn the_power_may_go_while_segments_are_used_again() {
    let mut given_up = 0;
    for moment in (0..300).step_by(3) {
        let disk = SimulatedDisk::new();
        let (mut at, mut acknowledged) = (LogStart::default(), vec![0]);
        let mut disk_now = disk;
        for seed in 0..3 {
            let options = common::options();
            let mut quiet = options.clone();
            quiet.on_failure = Some(Arc::new(|_| ()));
            disk_now.plan(disk_now.operations() + moment + 10, Fault::PowerLoss);
            let mut from = From { start: at, read: Vec::new(), passes: 0 };
            let opened = open(Arc::new(disk_now.clone()), Path::new(FOLDER), &quiet, &mut from);
            if let Ok(log) = opened {
                let last = acknowledged.last().expect("the first is there");
                assert!(log.last_timestamp().0 >= *last, "moment {moment}, seed {seed}");
                let (order, appender) = (start(&log), log.appender());
                while let Ok(timestamp) = commit(&appender, &order, &[7; 900])
                    && log.wait_until_durable(timestamp).is_ok()
                {
                    acknowledged.push(timestamp.0);
                    if acknowledged.len().is_multiple_of(40) {
                        at = LogStart { timestamp, ..log.position() };
                        let _ = log.give_up_before(at.segment);
                    }
                }
            }
            disk_now = disk_now.after_power_loss(seed);
        }
        let (log, read) =
            open_from(&disk_now, at).unwrap_or_else(|error| panic!("moment {moment}: {error:?}"));
        let needed = acknowledged.iter().filter(|timestamp| **timestamp > at.timestamp.0);
        let lost: Vec<&u64> = needed.filter(|timestamp| !read.contains(timestamp)).collect();
        assert!(lost.is_empty(), "moment {moment}: {lost:?} of {acknowledged:?}, {at:?}");
        given_up += at.segment - 1;
        drop(log);
    }
    assert!(given_up > 100, "{given_up}");
}
