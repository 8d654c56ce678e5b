//! The power goes at every operation in turn, the process is killed, each operation fails: nothing that was acknowledged is lost,
//! nothing is half there or invented. Controls leave a kind of sync out, and the checks must notice it.

mod common;

use ankerdb_base::SqlState;
use ankerdb_log::simulated::{Fault, SimulatedDisk, SyncKind};
use common::history::History;
use common::{commit, open_with, options, reopen, start};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Two runs, so that the fault may hit a recovery, too. `ignored` is for controls.
fn two_runs(
    seed: u64,
    fault: Option<(u64, Fault)>,
    ignored: Option<SyncKind>,
) -> (SimulatedDisk, Arc<History>) {
    let (disk, history) = (SimulatedDisk::new(), Arc::new(History::default()));
    if let Some((operation, fault)) = fault {
        disk.plan(operation, fault);
    }
    // The controls are about segments that are made in the second run, so that it has to be longer.
    let commits = if ignored.is_some() { 60 } else { 12 };
    history.run(&disk, 12, seed);
    // In the second run, so that not just the making of the folder is found to lack it.
    if let Some(kind) = ignored {
        disk.ignore_syncs(kind);
    }
    history.run(&disk, commits, seed + 1);
    (disk, history)
}

/// Operations of two runs without a fault; others take some more or less.
fn operations() -> u64 {
    two_runs(1, None, None).0.operations() + 20
}

#[test]
fn power_goes_at_every_operation_in_turn() {
    for operation in 1..operations() {
        let (disk, history) = two_runs(operation, Some((operation, Fault::PowerLoss)), None);
        for seed in 0..2 {
            let left = disk.after_power_loss(seed);
            history.check_disk(&left).unwrap_or_else(|what| panic!("at {operation}, {seed}: {what}"));
        }
        // What goes on is added to the history, so this is the last of the disks that are checked against it.
        let left = disk.after_power_loss(2);
        history.go_on(&left).unwrap_or_else(|what| panic!("going on at {operation}: {what}"));
        history.check_disk(&left).unwrap_or_else(|what| panic!("after going on at {operation}: {what}"));
    }
}

/// The process is killed, the next one opens the log, and then the power goes: what the second has seen must stay.
#[test]
fn what_was_seen_after_a_kill_outlives_a_loss_of_power() {
    for operation in 1..operations() {
        let (disk, history) = two_runs(operation, Some((operation, Fault::PowerLoss)), None);
        let killed = disk.after_kill();
        let (log, seen) =
            open_with(&killed, &options()).unwrap_or_else(|error| panic!("at {operation}: {error:?}"));
        history.check(&seen).unwrap_or_else(|what| panic!("at {operation}: {what}"));
        drop(log);
        for seed in 0..2 {
            let left = killed.after_power_loss(seed);
            let read = history.check_disk(&left).unwrap_or_else(|what| panic!("at {operation}: {what}"));
            assert_eq!(read, seen, "at {operation}, {seed}");
        }
        // What is built upon it must not stand on anything that the loss of power takes.
        history.go_on(&killed).unwrap_or_else(|what| panic!("going on at {operation}: {what}"));
        let checked = history.check_disk(&killed.after_power_loss(operation));
        checked.unwrap_or_else(|what| panic!("after going on at {operation}: {what}"));
    }
}

/// The next process has no space for another segment, and so never syncs the folder again: it goes on in the one whose name the
/// killed process may have left unsynced.
#[test]
fn segments_that_a_killed_process_made_are_there_to_stay() {
    for operation in 1..operations() {
        let (disk, _) = two_runs(operation, Some((operation, Fault::PowerLoss)), None);
        let killed = disk.after_kill();
        if killed.paths().iter().all(|path| !path.ends_with("identity")) {
            continue;
        }
        killed.set_space(Some(0));
        let (log, seen) = reopen(&killed);
        let order = start(&log);
        let appender = log.appender();
        let mut written = seen.iter().filter(|record| record.kind == 1).count();
        while let Ok(timestamp) = commit(&appender, &order, &[5; 900]) {
            log.wait_until_durable(timestamp).expect("the log is open");
            written += 1;
        }
        let (_, read) = reopen(&killed.after_power_loss(operation));
        let left = read.iter().filter(|record| record.kind == 1).count();
        assert_eq!(left, written, "at {operation}");
    }
}

/// Recovery itself loses power, at each of its operations.
#[test]
fn recovery_can_be_interrupted_anywhere() {
    for run in 0..6 {
        let (disk, history) = two_runs(run, Some((operations() * (run + 1) / 7, Fault::PowerLoss)), None);
        let torn = disk.after_power_loss(run);
        let needed = {
            let trial = torn.after_kill();
            drop(open_with(&trial, &options()).unwrap_or_else(|error| panic!("{error:?}")));
            trial.operations()
        };
        for operation in 1..=needed {
            let trial = torn.after_kill();
            trial.plan(operation, Fault::PowerLoss);
            assert!(open_with(&trial, &options()).is_err(), "{operation} of {needed}");
            let left = trial.after_power_loss(operation);
            history.check_disk(&left).unwrap_or_else(|what| panic!("{run}, at {operation}: {what}"));
        }
    }
}

/// All findings of the checks when a kind of sync is left out.
fn findings_without(kind: SyncKind) -> Vec<String> {
    let finding = |operation| {
        let (disk, history) = two_runs(operation, Some((operation, Fault::PowerLoss)), Some(kind));
        history.check_disk(&disk.after_power_loss(operation)).err()
    };
    (1..2 * operations()).step_by(2).filter_map(finding).collect()
}

#[test]
fn control_a_missing_sync_of_files_is_noticed() {
    let found = findings_without(SyncKind::File);
    assert!(found.iter().any(|what| what.contains("is lost") || what.contains("good records")), "{found:?}");
}

#[test]
fn control_a_missing_sync_of_the_folder_is_noticed() {
    let found = findings_without(SyncKind::Folder);
    assert!(found.iter().any(|what| what.contains("missing")), "{found:?}");
}

#[test]
fn each_operation_fails_in_turn() {
    let faults = [Fault::Error(ErrorKind::Other), Fault::Error(ErrorKind::StorageFull)];
    for (fault, operation) in
        faults.into_iter().flat_map(|fault| (1..operations()).map(move |at| (fault, at)))
    {
        let (disk, history) = two_runs(operation, Some((operation, fault)), None);
        let reported = history.reported.lock().expect("nobody panics").clone();
        let was_reached = disk.operations() >= operation;
        // A full disk that nobody had to wait for is tried again later.
        assert!(
            !was_reached || !reported.is_empty() || fault != faults[0],
            "operation {operation} failed, and nobody was told"
        );
        history.check_disk(&disk.after_power_loss(operation)).unwrap_or_else(|what| {
            panic!("at {operation}, {fault:?}, reported {reported:?}: {what}");
        });
    }
}

#[test]
fn short_reads_and_writes_are_continued() {
    let (disk, history) = (SimulatedDisk::new(), Arc::new(History::default()));
    (1..5000).step_by(2).for_each(|operation| disk.plan(operation, Fault::Short));
    history.run(&disk, 40, 5);
    history.run(&disk, 40, 6);
    assert_eq!(*history.reported.lock().expect("nobody panics"), Vec::<String>::new());
    history.check_disk(&disk.after_power_loss(1)).expect("all is there");
}

#[test]
fn a_failed_sync_is_told_with_the_file_and_nothing_is_durable_any_more() {
    let disk = SimulatedDisk::new();
    let history = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&history);
    let options = ankerdb_log::LogOptions {
        on_failure: Some(Arc::new(move |what| noted.lock().expect("alone").push(what.to_owned()))),
        ..options()
    };
    let (log, _) = open_with(&disk, &options).expect("opened");
    let order = start(&log);
    let appender = log.appender();
    let durable = commit(&appender, &order, b"fine").expect("room");
    log.wait_until_durable(durable).expect("the log is open");
    while disk.paths().len() < 4 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(20));
    // A write and the sync behind it.
    disk.plan(disk.operations() + 2, Fault::Error(ErrorKind::Other));
    let lost = commit(&appender, &order, b"lost").expect("room");
    let error = log.wait_until_durable(lost).expect_err("the sync failed");
    assert_eq!((error.state(), log.durable()), (SqlState::IoError, durable));
    assert!(appender.reserve(1).is_err());
    assert!(log.close().is_err());
    let told = history.lock().expect("alone").clone();
    assert_eq!(told.len(), 1);
    assert!(told[0].starts_with("could not sync \"log/0000000000000001.log\""), "{told:?}");
    // What the sync was for is forgotten, as the system forgets it.
    let (_, read) = reopen(&disk.after_power_loss(3));
    assert_eq!(read.iter().map(|record| record.timestamp).collect::<Vec<_>>(), [durable.0]);
}

#[test]
fn a_full_disk_refuses_writers_and_lets_them_in_again() {
    let disk = SimulatedDisk::new();
    let (log, _) = reopen(&disk);
    let order = start(&log);
    let appender = log.appender();
    disk.set_space(Some(50 << 10));
    let payload = [7; 1000];
    let mut commits = 0;
    let error = loop {
        match commit(&appender, &order, &payload) {
            Ok(timestamp) => {
                commits += 1;
                // What has a timestamp always has room.
                log.wait_until_durable(timestamp).expect("the log is open");
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.state(), SqlState::DiskFull);
    assert!(commits > 10 && error.message().contains("segment.tmp"), "{commits}, {error}");
    assert_eq!(appender.reserve(1000).expect_err("still full").state(), SqlState::DiskFull);
    disk.set_space(None);
    let begun = Instant::now();
    while let Err(error) = commit(&appender, &order, &payload) {
        assert_eq!(error.state(), SqlState::DiskFull);
        assert!(begun.elapsed() < Duration::from_secs(10), "there is space again");
        std::thread::sleep(Duration::from_millis(5));
    }
    log.close().expect("closed");
    assert_eq!(reopen(&disk).1.len(), commits + 1);
}

#[test]
fn no_space_for_a_new_log() {
    let disk = SimulatedDisk::new();
    disk.set_space(Some(10 << 10));
    assert_eq!(open_with(&disk, &options()).expect_err("full").state(), SqlState::DiskFull);
    disk.set_space(None);
    assert!(reopen(&disk).1.is_empty());
}
