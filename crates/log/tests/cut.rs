//! Where a log ends as of a moment.

mod common;

use ankerdb_base::Timestamp;
use ankerdb_log::simulated::SimulatedDisk;
use ankerdb_log::{LogPlace, LogStart, WallTime, cut_at, identity_of};
use common::{FOLDER, commit, reopen, start};
use std::path::Path;
use std::time::Duration;

fn cut(disk: &SimulatedDisk, kept: u64, until: WallTime) -> Option<LogPlace> {
    let (database, _) = identity_of(disk, Path::new(FOLDER)).expect("it has one");
    cut_at(disk, Path::new(FOLDER), database, &LogStart::default(), (kept, until))
        .expect("nothing is damaged")
}

/// Commits one after the other; returns a moment behind each, and how many chunks there were.
fn commits(disk: &SimulatedDisk, count: u64) -> Vec<(WallTime, u64)> {
    let (log, _) = reopen(disk);
    let (order, appender) = (start(&log), log.appender());
    let moments = (0..count).map(|number| {
        let timestamp = commit(&appender, &order, &[number as u8; 900]).expect("there is room");
        log.wait_until_durable(timestamp).expect("the log is open");
        std::thread::sleep(Duration::from_micros(50));
        let moment = (WallTime::now(), log.chunks());
        std::thread::sleep(Duration::from_micros(50));
        moment
    });
    moments.collect()
}

#[test]
fn it_has_what_was_acknowledged_before_over_several_segments_and_runs() {
    let disk = SimulatedDisk::new();
    let mut moments = commits(&disk, 40);
    moments.extend(commits(&disk, 10));
    let segments =
        disk.paths().iter().filter(|path| path.extension().is_some_and(|end| end == "log")).count();
    assert!(segments >= 4, "{segments} segments");
    for (moment, chunks) in &moments[..moments.len() - 1] {
        // What only covers may be written a bit later than what is acknowledged; a mark of a segment's end has no time.
        let place = cut(&disk, 0, *moment).expect("more was written later");
        assert!((*chunks..=chunks + 1).contains(&place.chunks), "{place:?}, there were {chunks} chunks");
    }
    assert_eq!(cut(&disk, 0, WallTime::now()), None);
}

/// Images may have what the first chunks have, whatever the clock said when these were written.
#[test]
fn chunks_that_are_to_be_kept_are_not_cut_off() {
    let disk = SimulatedDisk::new();
    let moments = commits(&disk, 20);
    let long_ago = WallTime(1);
    assert_eq!(cut(&disk, 0, long_ago).expect("all was written later").chunks, 0);
    let (_, all) = moments[19];
    for kept in 0..all {
        let place = cut(&disk, kept, long_ago).expect("all was written later");
        assert!((kept..=kept + 1).contains(&place.chunks), "{place:?}, {kept} are kept");
    }
    assert_eq!(cut(&disk, u64::MAX, long_ago), None);
}

/// A log of a server that wrote no times has no place that is later than a moment.
#[test]
fn a_log_without_times_is_not_cut() {
    let golden = Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests"))
        .join("tests/golden/v1");
    let disk = SimulatedDisk::new();
    for entry in std::fs::read_dir(golden).expect("golden files").flatten() {
        let bytes = std::fs::read(entry.path()).expect("a file");
        disk.write_file(&Path::new(FOLDER).join(entry.file_name()), &bytes);
    }
    assert_eq!(cut(&disk, 0, WallTime(1)), None);
    // It is gone on with, with times.
    let moments = commits(&disk, 3);
    let place = cut(&disk, 0, WallTime(1)).expect("there are times now");
    assert!(place.chunks > 10 && place.chunks < moments[0].1, "{place:?}");
    assert!(reopen(&disk).0.last_timestamp() >= Timestamp(15));
}
