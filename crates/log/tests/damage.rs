//! Files that are torn, damaged, missing, exchanged or newer: each is told, with its name and what to do; nothing is lost in silence.

mod common;

use ankerdb_base::{Error, SqlState};
use ankerdb_log::simulated::SimulatedDisk;
use ankerdb_log::{LogOptions, open};
use common::{FOLDER, Read, commit, open_with, options, reopen, start};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

fn segment(number: u64) -> PathBuf {
    Path::new(FOLDER).join(format!("{number:016}.log"))
}

/// A closed log of some segments, and what is in it.
fn filled(commits: u8) -> (SimulatedDisk, Vec<Read>) {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    let appender = log.appender();
    for number in 0..commits {
        let timestamp = commit(&appender, &order, &[number; 500]).expect("room");
        // A chunk for each.
        log.wait_until_durable(timestamp).expect("the log is open");
    }
    log.close().expect("closed");
    let read = reopen(&disk).1;
    assert_eq!(read.len(), usize::from(commits));
    (disk, read)
}

fn change(disk: &SimulatedDisk, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.read_file(path).expect("the file");
    change(&mut bytes);
    disk.write_file(path, &bytes);
}

fn recovering() -> LogOptions {
    LogOptions { recover_to_last_valid: true, ..options() }
}

fn refused(disk: &SimulatedDisk) -> Error {
    let error = open_with(disk, &options()).expect_err("refused");
    assert!(error.hint().is_some(), "what to do: {error}");
    error
}

/// Starts at the end of the last chunk that has anything in the segment.
fn end_of(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).expect("a header") + 1
}

#[test]
fn a_torn_end_is_cut_wherever_it_is_torn() {
    let (disk, expected) = filled(10);
    let whole = disk.read_file(&segment(1)).expect("the file");
    let end = end_of(&whole);
    for cut in (end - 560..end).step_by(7) {
        let torn = disk.after_kill();
        change(&torn, &segment(1), |bytes| bytes[cut..].fill(0));
        let (log, read) = reopen(&torn);
        assert!(read == expected[..9] || read == expected[..10], "{} at {cut} of {end}", read.len());
        assert_eq!(log.loss(), None);
        let order = start(&log);
        commit(&log.appender(), &order, b"behind").expect("room");
        log.close().expect("closed");
        assert_eq!(reopen(&torn).1.len(), read.len() + 1);
    }
}

#[test]
fn damage_in_the_middle_is_refused_or_cut_if_that_is_allowed() {
    let (disk, expected) = filled(60);
    let at = end_of(&disk.read_file(&segment(2)).expect("a second segment")) / 2;
    change(&disk, &segment(2), |bytes| bytes[at] ^= 0x40);
    let error = refused(&disk);
    assert_eq!(error.state(), SqlState::DataCorrupted);
    assert!(error.message().contains("log/0000000000000002.log\" at offset"), "{error}");
    let (log, read) = open_with(&disk, &recovering()).expect("recovered");
    let loss = log.loss().expect("a loss").clone();
    assert!(loss.file == segment(2) && loss.offset <= at as u64 && loss.bytes > 500, "{loss:?}");
    assert!(read.len() < 60 && read == expected[..read.len()], "{}", read.len());
    let order = start(&log);
    commit(&log.appender(), &order, b"behind").expect("room");
    log.close().expect("closed");
    let (log, again) = reopen(&disk);
    assert_eq!((again.len(), log.loss()), (read.len() + 1, None));
}

#[test]
fn a_chunk_that_was_never_written_in_front_of_a_good_one_is_damage() {
    let (disk, _) = filled(10);
    let end = end_of(&disk.read_file(&segment(1)).expect("the file"));
    change(&disk, &segment(1), |bytes| bytes[end / 2..end / 2 + 600].fill(0));
    assert_eq!(refused(&disk).state(), SqlState::DataCorrupted);
}

#[test]
fn missing_segments_are_told() {
    let (disk, expected) = filled(100);
    for missing in 1..=3 {
        let trial = disk.after_kill();
        trial.remove_file(&segment(missing));
        let error = refused(&trial);
        assert_eq!(error.state(), SqlState::DataCorrupted);
        assert!(error.message().contains(segment(missing).to_str().expect("ASCII")), "{error}");
        if missing > 1 {
            let (log, read) = open_with(&trial, &recovering()).expect("recovered");
            assert!(log.loss().is_some() && read == expected[..read.len()]);
            let order = start(&log);
            for _ in 0..50 {
                commit(&log.appender(), &order, &[1; 500]).expect("room");
            }
            log.close().expect("closed");
            assert_eq!(reopen(&trial).1.len(), read.len() + 50);
        }
    }
    // The last one that has anything: the end of the one before says that there is another.
    let last = (1..).take_while(|number| disk.read_file(&segment(*number)).is_some()).last().expect("one");
    let trial = disk.after_kill();
    trial.remove_file(&segment(last));
    if end_of(&disk.read_file(&segment(last)).expect("it")) <= 64 {
        assert_eq!(reopen(&trial).1, expected, "a blank one is made again");
        trial.remove_file(&segment(last));
    }
    trial.remove_file(&segment(last - 1));
    assert!(refused(&trial).message().contains("missing"));
}

#[test]
fn a_damaged_header_of_a_segment_is_told() {
    let (disk, expected) = filled(60);
    change(&disk, &segment(2), |bytes| bytes[33] ^= 1);
    let error = refused(&disk);
    assert!(error.message().contains("0000000000000002.log"), "{error}");
    let (log, read) = open_with(&disk, &recovering()).expect("recovered");
    assert!(log.loss().is_some() && !read.is_empty() && read == expected[..read.len()]);
    drop(log);
    assert_eq!(reopen(&disk).1, read);
}

#[test]
fn segments_of_another_database_or_place_are_told() {
    let (disk, _) = filled(60);
    let (other, _) = filled(60);
    let trial = disk.after_kill();
    trial.write_file(&segment(2), &other.read_file(&segment(2)).expect("it"));
    assert!(refused(&trial).message().contains("another database"));
    let trial = disk.after_kill();
    trial.write_file(&segment(2), &disk.read_file(&segment(1)).expect("it"));
    assert!(refused(&trial).message().contains("by another name"));
}

#[test]
fn a_newer_format_is_refused() {
    for file in ["identity", "0000000000000001.log"] {
        let (disk, _) = filled(1);
        change(&disk, &Path::new(FOLDER).join(file), |bytes| bytes[8] = 2);
        let error = refused(&disk);
        assert_eq!(error.state(), SqlState::FeatureNotSupported);
        assert!(error.message().contains(file) && error.message().contains("version 2"), "{error}");
    }
}

#[test]
fn folders_that_are_no_logs_are_left_alone() {
    let disk = SimulatedDisk::new();
    disk.write_file(&Path::new(FOLDER).join("letter.txt"), b"dear");
    assert!(refused(&disk).message().contains("letter.txt"));
    assert!(disk.read_file(&Path::new(FOLDER).join("letter.txt")).is_some());
    let (disk, _) = filled(3);
    disk.remove_file(&Path::new(FOLDER).join("identity"));
    assert!(refused(&disk).message().contains("identity"));
    assert!(disk.read_file(&segment(1)).is_some());
}

#[test]
fn a_second_server_is_told_which_process_has_the_folder() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let error = refused(&disk);
    assert_eq!(error.state(), SqlState::ObjectInUse);
    assert!(error.message().contains(&format!("process {}", std::process::id())), "{error}");
    assert!(error.message().contains("log/lock"), "{error}");
    drop(log);
    reopen(&disk);
}

#[test]
fn progress_is_told_up_to_the_end() {
    let (disk, _) = filled(60);
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&told);
    let progress: ankerdb_log::ReplayProgress =
        Arc::new(move |read, total| noted.lock().expect("alone").push((read, total)));
    open_with(&disk, &LogOptions { progress: Some(progress), ..options() }).expect("opened");
    let told = told.lock().expect("alone");
    let (read, total) = *told.last().expect("told");
    assert!(read == total && total >= 32 << 10, "{told:?}");
}

/// Reads whatever is there; a panic fails the test.
fn read_damaged(disk: &SimulatedDisk, options: &LogOptions) -> Option<Vec<Read>> {
    open_with(disk, options).ok().map(|(_, read)| read)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is done to the files, the reader does not panic and gives nothing but what was there, from the beginning on.
    #[test]
    fn damaged_files_never_panic(
        commits in 1u8..45,
        damages in prop::collection::vec((0usize..3, 0usize..16 << 10, any::<u8>(), 0usize..600, 0u8..4), 1..6),
    ) {
        let (disk, expected) = filled(commits);
        for (file, at, byte, length, kind) in damages {
            let path = [Path::new(FOLDER).join("identity"), segment(1), segment(2)][file].clone();
            change(&disk, &path, |bytes| {
                let at = at % bytes.len().max(1);
                let end = (at + length).min(bytes.len());
                match kind {
                    0 => bytes.truncate(at),
                    1 => bytes[at..end].fill(byte),
                    2 => bytes.copy_within(at..end, 64.min(at)),
                    _ => if let Some(found) = bytes.get_mut(at) { *found ^= byte },
                }
            });
        }
        for options in [options(), recovering()] {
            if let Some(read) = read_damaged(&disk.after_kill(), &options) {
                prop_assert!(read.len() <= expected.len() && read == expected[..read.len()]);
            }
        }
    }
}

/// Writes the golden files anew, when there is a new version of the format: set ANKERDB_WRITE_GOLDEN.
fn golden(version: u32) -> PathBuf {
    Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests"))
        .join(format!("tests/golden/v{version}"))
}

fn golden_records() -> Vec<(u8, Vec<u8>)> {
    (0..12u8).map(|number| (number % 3, vec![number; usize::from(number) * 60])).collect()
}

#[test]
fn golden_files_of_each_version_are_read() {
    let folder = golden(1);
    let options = LogOptions { segment_bytes: 4 << 10, ..LogOptions::default() };
    if std::env::var_os("ANKERDB_WRITE_GOLDEN").is_some() {
        let log =
            open(Arc::new(ankerdb_log::SystemDisk), &folder, &options, &mut |_: ankerdb_log::Record| Ok(()))
                .expect("made");
        let order = start(&log);
        let appender = log.appender();
        for (kind, payload) in golden_records() {
            let reservation = appender.reserve(payload.len()).expect("room");
            let timestamp = order.draw();
            appender.append(reservation, kind, timestamp, &payload);
            order.finish(timestamp);
            log.wait_until_durable(timestamp).expect("the log is open");
        }
        log.close().expect("closed");
    }
    let disk = SimulatedDisk::new();
    for entry in std::fs::read_dir(&folder).expect("golden files").flatten() {
        let bytes = std::fs::read(entry.path()).expect("a file");
        disk.write_file(&Path::new(FOLDER).join(entry.file_name()), &bytes);
    }
    let (log, read) = open_with(&disk, &options).expect("opened");
    let expected: Vec<_> = (golden_records().into_iter().zip(1..))
        .map(|((kind, payload), timestamp)| Read { kind, timestamp, incarnation: 1, payload })
        .collect();
    assert_eq!((read, log.last_timestamp().0, log.incarnation()), (expected, 12, 2));
}
