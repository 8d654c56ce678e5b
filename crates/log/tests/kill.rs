//! A process that commits on the system's disk is killed at random moments, over and over in one folder: what it said was durable is
//! there.

mod common;

use ankerdb_log::{LogOptions, Record, SystemDisk, open};
use common::{commit, start};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Tells the process that is to be killed where to write.
const FOLDER: &str = "ANKERDB_LOG_KILL_FOLDER";
const ROUNDS: u64 = 12;

fn options() -> LogOptions {
    LogOptions { segment_bytes: 256 << 10, ..LogOptions::default() }
}

/// The process that is killed: two workers, whose commits are printed when they are durable.
fn write_until_killed(folder: &Path) {
    let log = open(Arc::new(SystemDisk), folder, &options(), &mut |_: Record| Ok(())).expect("opened");
    let order = start(&log);
    std::thread::scope(|scope| {
        for worker in 0..2u8 {
            let (log, order) = (&log, &order);
            scope.spawn(move || {
                let appender = log.appender();
                for number in 0..u64::MAX {
                    let payload = vec![worker; (number * 61 % 900) as usize];
                    let timestamp = commit(&appender, order, &payload).expect("room");
                    order.wait_visible(timestamp, &false.into());
                    log.wait_until_durable(timestamp).expect("the log is open");
                    let line = format!("{} {} {worker}\n", timestamp.0, payload.len());
                    std::io::stderr().write_all(line.as_bytes()).expect("the test reads");
                }
            });
        }
    });
}

#[test]
fn what_a_killed_process_said_is_durable_is_there() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return write_until_killed(&PathBuf::from(folder));
    }
    let folder = std::env::temp_dir().join(format!("ankerdb-log-kill-{}", std::process::id()));
    let mut random = fastrand::Rng::with_seed(4);
    let mut said: Vec<(u64, usize, u8)> = Vec::new();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["what_a_killed_process_said_is_durable_is_there", "--exact", "--nocapture"])
            .env(FOLDER, &folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("another process");
        let lines = BufReader::new(child.stderr.take().expect("piped"));
        let reader = std::thread::spawn(move || lines.lines().map_while(Result::ok).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(random.u64(5..120)));
        child.kill().expect("killed");
        child.wait().expect("ended");
        for line in reader.join().expect("read") {
            let mut fields = line.split(' ').map(|field| field.parse::<u64>());
            if let (Some(Ok(timestamp)), Some(Ok(length)), Some(Ok(worker))) =
                (fields.next(), fields.next(), fields.next())
            {
                said.push((timestamp, length as usize, worker as u8));
            } else {
                panic!("the other process says: {line}");
            }
        }
        let mut read = std::collections::BTreeMap::new();
        let visit = &mut |record: Record| {
            read.insert(record.timestamp.0, record.payload.to_vec());
            Ok(())
        };
        drop(open(Arc::new(SystemDisk), &folder, &options(), visit).expect("opened after a kill"));
        for (timestamp, length, worker) in &said {
            assert_eq!(read.get(timestamp), Some(&vec![*worker; *length]), "{timestamp}, round {round}");
        }
    }
    std::fs::remove_dir_all(&folder).expect("removed");
    assert!(said.len() > 20, "only {} commits in {ROUNDS} rounds", said.len());
}
