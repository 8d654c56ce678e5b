//! Databases restored as of a moment: what was acknowledged before is there, what became visible later is not, and no half of a transaction; moments
//! that there are, and those that there are not.

mod support;

use ankerdb_engine::*;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use support::bank::*;
use support::*;

/// A moment that no other commit shares.
fn now() -> WallTime {
    std::thread::sleep(Duration::from_micros(50));
    let now = WallTime::now();
    std::thread::sleep(Duration::from_micros(50));
    now
}

fn name(number: usize) -> String {
    format!("copies/{number}.backup")
}

/// What the error of a moment that there is not says of those that there are.
fn possible(error: &Error) -> String {
    assert_eq!(error.state(), SqlState::InvalidParameterValue, "{error:?}");
    assert!(error.message().contains("the state as of "), "{error:?}");
    let hint = error.hint().expect("it says what is possible");
    let (possible, _) = hint["Possible is ".len()..].split_once(". For earlier").expect("both are said");
    possible.to_owned()
}

fn range(earliest: WallTime, latest: WallTime) -> String {
    format!("from {} to {}", show_moment(earliest), show_moment(latest))
}

/// Each moment of a chain of backups, with checkpoints and restarts between them, is the state of then.
#[test]
fn each_moment_is_the_state_of_then() {
    for seed in 0..4 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (disk, mut database) = bank();
        let mut moments = vec![(now(), state(&database))];
        let full = back_up(&disk).expect("nothing fails");
        let mut files = vec![FILE.to_owned()];
        let mut latest = full.latest;
        for number in 1..5 {
            for step in 0..random.u64(1..12) {
                match random.u8(0..8) {
                    0 => checkpoint(&database),
                    1 => {
                        drop(database);
                        database = open_in(&disk, "data").expect("opened again");
                    }
                    2 if random.bool() => fill_log(&database),
                    _ => transfers(&database, random.u64(1..5), step),
                }
                moments.push((now(), state(&database)));
            }
            let since = files.last().expect("the full one").clone();
            latest = back_up_since(&disk, &name(number), &since).expect("nothing fails").latest;
            files.push(name(number));
        }
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        for (moment, expected) in &moments {
            let copy = with_files(&disk, &files);
            let report = restore_files(&copy, &files, None, Some(*moment), "restored");
            let report = report.unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
            let restored = open_in(&copy, "restored").expect("opened");
            assert_eq!(state(&restored), *expected, "seed {seed}, as of {}", show_moment(*moment));
            assert!(report.is_cut || state(&restored) == state(&database), "{report:?}");
            transfers(&restored, 3, seed);
            checkpoint(&restored);
            drop(restored);
            assert_eq!(state(&open_in(&copy, "restored").expect("opened again")).2, expected.2 + 3);
        }
        for moment in [WallTime(full.earliest.0 - 1), WallTime(latest.0 + 1)] {
            let error = restore_files(&disk, &files, None, Some(moment), "none").unwrap_err();
            assert_eq!(possible(&error), range(full.earliest, latest));
            assert!(disk.list(Path::new("none")).is_err(), "something was begun");
        }
    }
}

/// Beside writers a moment has all that was acknowledged before, and nothing that was begun later.
#[test]
fn a_moment_beside_transfers_has_what_was_acknowledged_and_all_money() {
    let disk = new_disk();
    let database = open_in(&disk, "data").expect("opened");
    let table = fill_accounts(&database);
    checkpoint(&database);
    let (running, begun, acknowledged) = (Running::default(), AtomicI64::new(0), AtomicI64::new(0));
    let mut moments = Vec::new();
    std::thread::scope(|scope| {
        let _ends = running.until_drop();
        for seed in 0..3 {
            let (database, table, running) = (&database, &table, &running);
            let (begun, acknowledged) = (&begun, &acknowledged);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while running.goes_on() {
                    begun.fetch_add(1, Ordering::SeqCst);
                    transfer(database, table, &mut random).expect("there is room");
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        back_up(&disk).expect("nothing fails");
        for round in 0..25 {
            while acknowledged.load(Ordering::SeqCst) < (round + 1) * 40 {
                std::thread::yield_now();
            }
            let least = acknowledged.load(Ordering::SeqCst);
            let moment = WallTime::now();
            moments.push((moment, least, begun.load(Ordering::SeqCst)));
        }
    });
    back_up_since(&disk, SINCE, FILE).expect("nothing fails");
    for (moment, least, most) in moments {
        let copy = with_files(&disk, &[FILE, SINCE]);
        restore_files(&copy, &[FILE, SINCE], None, Some(moment), "restored").expect("they are whole");
        let (rows, money, transfers) = state(&open_in(&copy, "restored").expect("opened"));
        assert_eq!((rows, money), (ACCOUNTS as usize, 100 * i64::from(ACCOUNTS)));
        assert!((least..=most).contains(&transfers), "{transfers} transfers, not {least} to {most}");
    }
}

/// A table that was dropped by mistake comes back from a backup and the log of the folder, in which the server goes on.
#[test]
fn a_mistake_is_undone_with_the_log_that_is_still_there() {
    let (disk, database) = bank();
    back_up(&disk).expect("nothing fails");
    transfers(&database, 30, 2);
    let (before, expected) = (now(), state(&database));
    database.drop_table("account").expect("it is there");
    let after = now();
    let other = database.create_table(items_definition("other")).expect("created");
    fill(&database, &other, (0..10).map(|id| item(id, 0, 0, 0)));
    let restored = |until: Option<WallTime>, folder: &str| {
        restore_files(&disk, &[FILE], Some("data"), until, folder).expect("they are whole");
        open_in(&disk, folder).expect("opened")
    };
    assert_eq!(state(&restored(Some(before), "before")), expected);
    let missing = restored(Some(after), "after").catalog().table("account").err().expect("it was dropped");
    assert_eq!(missing.state(), SqlState::UndefinedTable);
    let all = restored(None, "all");
    assert!(all.catalog().table("account").is_err() && all.catalog().table("other").is_ok());
    // Without the log there is the backup alone, which knows nothing of then.
    let error = restore_files(&disk, &[FILE], None, Some(before), "none").unwrap_err();
    assert!(possible(&error).starts_with("from "), "{error:?}");
    let later = WallTime(WallTime::now().0 + 3_600_000_000);
    possible(&restore_files(&disk, &[FILE], Some("data"), Some(later), "none").unwrap_err());
    // The first server goes on.
    fill(&database, &other, (10..20).map(|id| item(id, 0, 0, 0)));
    checkpoint(&database);
}

#[test]
fn a_log_that_does_not_go_on_behind_the_backup_is_refused() {
    let (disk, database) = bank();
    let first = back_up(&disk).expect("nothing fails");
    restore_in(&disk).expect("it is whole");
    let restored = open_in(&disk, "restored").expect("opened");
    transfers(&database, 5, 2);
    transfers(&restored, 5, 3);
    let second = back_up_since(&disk, SINCE, FILE).expect("nothing fails");
    let refused = |files: &[&str], log: &str, told: &str| {
        let error = restore_files(&disk, files, Some(log), None, "none").unwrap_err();
        assert_eq!(error.state(), SqlState::ObjectNotInPrerequisiteState, "{error:?}");
        assert!(error.message().contains(told) && error.hint().is_some(), "{error:?}");
        assert!(disk.list(Path::new("none")).is_err(), "something was begun");
    };
    refused(&[FILE, SINCE], "restored", "does not go on behind \"copies/since.backup\"");
    for _ in 0..8 {
        fill_log(&database);
        checkpoint(&database);
    }
    refused(&[FILE], "data", "does not have what follows \"copies/bank.backup\" any more");
    // So there is a gap between the backups, which the error of a moment in it says.
    let moment = now();
    checkpoint(&database);
    transfers(&database, 5, 4);
    checkpoint(&database);
    let third = back_up_since(&disk, &name(2), SINCE).expect("nothing fails");
    assert!(third.earliest > moment);
    let files = [FILE, SINCE, &name(2)];
    let error = restore_files(&disk, &files, None, Some(moment), "none").unwrap_err();
    let expected =
        format!("{}, and {}", range(first.earliest, second.latest), range(third.earliest, third.latest));
    assert_eq!(possible(&error), expected);
    restore_files(&disk, &files, Some("data"), None, "whole").expect("they are whole");
    assert_eq!(state(&open_in(&disk, "whole").expect("opened")), state(&database));
    // A folder of another database.
    let (_, _other) = {
        let (other, database) = bank();
        for path in other.paths().iter().filter(|path| path.starts_with("data")) {
            let bytes = other.read_file(path).expect("it is there");
            disk.write_file(&Path::new("foreign").join(path.file_name().expect("a file")), &bytes);
        }
        (other, database)
    };
    let error = restore_files(&disk, &files, Some("foreign"), None, "none").unwrap_err();
    assert_eq!(error.state(), SqlState::InvalidParameterValue, "{error:?}");
    assert!(error.message().contains("\"foreign\" has another database"), "{error:?}");
}

/// A database without a checkpoint is its log, from its first chunk on.
#[test]
fn moments_of_a_database_without_a_checkpoint_begin_with_its_log() {
    let disk = new_disk();
    let database = open_in(&disk, "data").expect("opened");
    fill_accounts(&database);
    let (moment, expected) = (now(), state(&database));
    transfers(&database, 5, 1);
    let report = back_up(&disk).expect("nothing fails");
    assert_eq!(report.checkpoint, 0);
    let copy = with_files(&disk, &[FILE]);
    restore_files(&copy, &[FILE], None, Some(moment), "restored").expect("it is whole");
    assert_eq!(state(&open_in(&copy, "restored").expect("opened")), expected);
    let error = restore_files(&copy, &[FILE], None, Some(WallTime(1)), "none").unwrap_err();
    assert_eq!(possible(&error), range(report.earliest, report.latest));
}
