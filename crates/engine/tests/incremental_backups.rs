//! Backups of what differs from earlier ones: what is in them, which belong together, and what damage and failures do to them.

mod support;

use ankerdb_checkpoint::backup;
use ankerdb_engine::*;
use ankerdb_log::simulated::Fault;
use ankerdb_log::{are_pinned, pin_files};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::bank::*;
use support::*;

fn name(number: usize) -> String {
    format!("copies/{number}.backup")
}

/// A backup, and one since of a database that has changed.
fn bank_and_changes() -> (SimulatedDisk, Database) {
    let (disk, database) = bank();
    let other = database.create_table(items_definition("other")).expect("created");
    fill(&database, &other, (0..200).map(|id| item(id, 1, 2, 3)));
    checkpoint(&database);
    back_up(&disk).expect("nothing fails");
    transfers(&database, 20, 2);
    checkpoint(&database);
    transfers(&database, 20, 3);
    back_up_since(&disk, SINCE, FILE).expect("nothing fails");
    (disk, database)
}

#[test]
fn it_has_the_images_that_differ_and_the_log_since() {
    let disk = new_disk();
    let database = open_in(&disk, "data").expect("opened");
    fill_accounts(&database);
    for number in 0..20 {
        let table = database.create_table(items_definition(&format!("t{number}"))).expect("created");
        fill(&database, &table, (0..500).map(|id| item(id, i64::from(id), 0, 0)));
    }
    checkpoint(&database);
    let full = back_up(&disk).expect("nothing fails");
    assert_eq!((full.images, full.images_copied), (21, 21));
    // Nothing has changed: the manifest and the checksums of images, and no image.
    let none = back_up_since(&disk, &name(1), FILE).expect("nothing fails");
    assert_eq!((none.checkpoint, none.images, none.images_copied), (full.checkpoint, 21, 0));
    // Without a checkpoint it is a bit of log.
    transfers(&database, 10, 2);
    let log = back_up_since(&disk, &name(2), &name(1)).expect("nothing fails");
    assert_eq!((log.images_copied, log.chunks > none.chunks), (0, true));
    assert!(log.bytes - none.bytes < 8 << 10, "{log:?} {none:?}");
    checkpoint(&database);
    let one = back_up_since(&disk, &name(3), &name(2)).expect("nothing fails");
    assert_eq!((one.checkpoint, one.images, one.images_copied), (full.checkpoint + 1, 21, 1));
    assert!(one.bytes * 4 < full.bytes && none.bytes <= one.bytes, "{one:?} {none:?} {full:?}");
    let files = [FILE, &name(1), &name(2), &name(3)];
    let copy = with_files(&disk, &files);
    restore_files(&copy, &files, None, None, "restored").expect("they are whole");
    let restored = open_in(&copy, "restored").expect("opened");
    assert_eq!(state(&restored), state(&database));
    for number in 0..20 {
        let table = restored.catalog().table(&format!("t{number}")).expect("it is there");
        assert_eq!(view_rows(&restored.snapshot().read_view(), &table, &[ID]).len(), 500);
    }
}

/// Chains of all lengths, whatever happens between two of their backups: nothing, changes, checkpoints, restarts, so much log that what
/// comes behind the backup before is gone.
#[test]
fn each_beginning_of_a_chain_is_the_database_as_it_was_then() {
    let mut gaps = 0;
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (disk, mut database) = bank();
        back_up(&disk).expect("nothing fails");
        let (mut files, mut states) = (vec![FILE.to_owned()], vec![state(&database)]);
        for number in 1..8 {
            for step in 0..random.u64(0..4) {
                match random.u8(0..5) {
                    0 => checkpoint(&database),
                    1 => {
                        for _ in 0..8 {
                            fill_log(&database);
                            checkpoint(&database);
                        }
                        gaps += 1;
                    }
                    2 => {
                        drop(database);
                        database = open_in(&disk, "data").expect("opened again");
                    }
                    _ => transfers(&database, 15, seed ^ step),
                }
            }
            let since = files.last().expect("the full one").clone();
            back_up_since(&disk, &name(number), &since).expect("nothing fails");
            files.push(name(number));
            states.push(state(&database));
        }
        for length in 1..=files.len() {
            let files: Vec<&str> = files[..length].iter().map(String::as_str).collect();
            let copy = with_files(&disk, &files);
            restore_files(&copy, &files, None, None, "restored").expect("they are whole");
            let restored = open_in(&copy, "restored").expect("opened");
            assert_eq!(state(&restored), states[length - 1], "seed {seed}, {length} backups");
            // It goes on, and is copied in turn.
            transfers(&restored, 5, seed);
            checkpoint(&restored);
            drop(restored);
            let expected = state(&open_in(&copy, "restored").expect("opened again"));
            assert_eq!(expected.2, states[length - 1].2 + 5);
        }
    }
    assert!(gaps > 3, "{gaps} gaps");
}

#[test]
fn money_is_not_lost_beside_transfers_and_checkpoints() {
    let disk = new_disk();
    let database = open_in(&disk, "data").expect("opened");
    let table = fill_accounts(&database);
    beside_transfers(&database, &table, |acknowledged| {
        let mut files: Vec<String> = Vec::new();
        for round in 0..16 {
            while acknowledged.load(Ordering::SeqCst) < (round as i64 + 1) * 200 {
                std::thread::yield_now();
            }
            let before = acknowledged.load(Ordering::SeqCst);
            let source: Arc<dyn Disk> = Arc::new(disk.clone());
            let pause = |_| {
                std::thread::sleep(Duration::from_micros(500));
                Ok(())
            };
            let (file, since) = (name(round), files.last().cloned());
            let new = NewBackup { file: Path::new(&file), since: since.as_deref().map(Path::new) };
            backup(&source, Path::new("data"), &new, FULL, &pause).expect("nothing fails");
            files.push(file);
            let chain: Vec<&str> = files.iter().map(String::as_str).collect();
            let copy = with_files(&disk, &chain);
            restore_files(&copy, &chain, None, None, "restored").expect("they are whole");
            let (rows, money, transfers) = state(&open_in(&copy, "restored").expect("opened"));
            assert_eq!((rows, money), (ACCOUNTS as usize, 100 * i64::from(ACCOUNTS)), "round {round}");
            assert!(transfers >= before, "{transfers} transfers, {before} were acknowledged before");
        }
    });
}

/// What does not belong together is refused before anything is written, and the error names the file.
#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (disk, database) = bank_and_changes();
    transfers(&database, 5, 4);
    back_up_since(&disk, &name(2), SINCE).expect("nothing fails");
    back_up_since(&disk, &name(3), FILE).expect("nothing fails");
    let (other, _other) = bank();
    back_up(&other).expect("nothing fails");
    disk.write_file(Path::new("copies/other.backup"), &bytes_of(&other));
    let (second, third) = (name(2), name(3));
    for (files, wrong, told) in [
        (vec![SINCE], SINCE, "is an incremental backup"),
        (vec![FILE, &second], &second, "was made since another backup, not since \"copies/bank.backup\""),
        (vec![FILE, SINCE, &third], &third, "was made since \"copies/bank.backup\", not since"),
        (vec![FILE, FILE], FILE, "is a full backup"),
        (vec!["copies/other.backup", SINCE], SINCE, "are backups of different databases"),
        (vec![FILE, SINCE, SINCE], SINCE, "was made since"),
    ] {
        let refused = restore_files(&disk, &files, None, None, "restored").unwrap_err();
        assert_eq!(refused.state(), SqlState::InvalidParameterValue, "{refused:?}");
        let is_told = refused.message().contains(wrong) && refused.message().contains(told);
        assert!(is_told && refused.hint().is_some(), "{files:?}: {refused:?}");
        assert!(disk.list(Path::new("restored")).is_err(), "something was begun");
    }
    let refused = back_up_since(&disk, &name(4), "copies/other.backup").unwrap_err();
    assert_eq!(refused.state(), SqlState::InvalidParameterValue, "{refused:?}");
    assert!(refused.message().contains("another database"), "{refused:?}");
    assert!(disk.read_file(Path::new(&name(4))).is_none(), "something was left");
}

/// A restored database goes another way: a backup of the first one is no base for one of the second, and the other way round.
#[test]
fn a_database_that_has_gone_another_way_since_is_refused() {
    let (disk, database) = bank();
    back_up(&disk).expect("nothing fails");
    restore_in(&disk).expect("it is whole");
    let restored = open_in(&disk, "restored").expect("opened");
    let of_restored = |file: &str, since: &str| {
        let source: Arc<dyn Disk> = Arc::new(disk.clone());
        let new = NewBackup { file: Path::new(file), since: Some(Path::new(since)) };
        backup(&source, Path::new("restored"), &new, FULL, &|_| Ok(()))
    };
    transfers(&database, 10, 4);
    transfers(&restored, 20, 5);
    // Both go upon what they have in common.
    back_up_since(&disk, SINCE, FILE).expect("nothing fails");
    of_restored(&name(1), FILE).expect("nothing fails");
    for (file, expected) in [(SINCE, &database), (&name(1), &restored)] {
        let copy = with_files(&disk, &[FILE, file]);
        restore_files(&copy, &[FILE, file], None, None, "copy").expect("they are whole");
        assert_eq!(state(&open_in(&copy, "copy").expect("opened")), state(expected), "{file}");
    }
    for refused in [of_restored(&name(2), SINCE), back_up_since(&disk, &name(2), &name(1))] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.state(), SqlState::ObjectNotInPrerequisiteState, "{refused:?}");
        assert!(refused.message().contains("has gone another way since"), "{refused:?}");
    }
}

/// An incremental backup may want segments that wait to be used again: nothing is made of them while files are pinned.
#[test]
fn segments_that_wait_stay_while_they_are_copied() {
    let (disk, database) = bank();
    for _ in 0..2 {
        fill_log(&database);
        checkpoint(&database);
    }
    let pin = pin_files(&disk, Path::new("data")).expect("nobody else copies");
    let before = names(&disk, "data", ".log");
    (0..4).for_each(|_| fill_log(&database));
    let there = names(&disk, "data", ".log");
    assert!(before.iter().all(|name| there.contains(name)), "{before:?} were there, {there:?} are");
    drop(pin);
    (0..4).for_each(|_| fill_log(&database));
    let there = names(&disk, "data", ".log");
    assert!(!before.iter().all(|name| there.contains(name)), "{before:?} are there still: none waited");
}

/// Images of two databases that were restored of one may lie in the same place, with the same timestamp, and differ.
#[test]
fn images_of_another_way_are_told_apart_though_their_places_are_the_same() {
    let (disk, database) = bank();
    let other = database.create_table(items_definition("other")).expect("created");
    fill(&database, &other, (0..200).map(|id| item(id, 1, 0, 0)));
    checkpoint(&database);
    back_up(&disk).expect("nothing fails");
    restore_in(&disk).expect("it is whole");
    let restored = open_in(&disk, "restored").expect("opened");
    for (database, value) in [(&database, 7), (&restored, 8)] {
        let table = database.catalog().table("other").expect("it is there");
        let change = |transaction: &mut Transaction| {
            let row = find(transaction, &table, 0, &[ID])?.expect("it is there");
            transaction.update(&table, row, vec![(A, Value::BigInt(value))])
        };
        database.session().run(Isolation::Serializable, change).expect("there is room");
        checkpoint(database);
    }
    back_up_since(&disk, SINCE, FILE).expect("nothing fails");
    // What the first one's backup ends with is gone from the second one's log.
    for _ in 0..8 {
        fill_log(&restored);
        checkpoint(&restored);
    }
    let source: Arc<dyn Disk> = Arc::new(disk.clone());
    let (file, since) = (name(1), Path::new(SINCE));
    let new = NewBackup { file: Path::new(&file), since: Some(since) };
    let report = backup(&source, Path::new("restored"), &new, FULL, &|_| Ok(())).expect("nothing fails");
    assert_eq!(report.images_copied, report.images, "{report:?}");
    let copy = with_files(&disk, &[FILE, SINCE, &file]);
    restore_files(&copy, &[FILE, SINCE, &file], None, None, "copy").expect("they are whole");
    let copied = open_in(&copy, "copy").expect("opened");
    let table = copied.catalog().table("other").expect("it is there");
    let rows = view_rows(&copied.snapshot().read_view(), &table, &[ID, A]);
    let changed = rows.iter().filter(|row| row[1] == Value::BigInt(8)).count();
    assert_eq!((rows.len(), changed), (200, 1));
}

/// Damage to any file of a chain is told before there is a database in the folder.
#[test]
fn every_damaged_byte_is_told() {
    let (disk, _database) = bank_and_changes();
    let (full, since) = (file_bytes(&disk, FILE), file_bytes(&disk, SINCE));
    let mut random = fastrand::Rng::with_seed(3);
    let restored = |damaged: &str, bytes: &[u8]| {
        let copy = with_copy(&full);
        copy.write_file(Path::new(SINCE), &since);
        copy.write_file(Path::new(damaged), bytes);
        let outcome = restore_files(&copy, &[FILE, SINCE], None, None, "restored");
        (outcome.err().map(|error| error.state()), copy)
    };
    assert_eq!(restored(SINCE, &since).0, None);
    for (file, sound) in [(SINCE, &since), (FILE, &full)] {
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << random.u8(0..8);
            let (state, copy) = restored(file, &bytes);
            let state = state.unwrap_or_else(|| panic!("byte {at} of {file} does not matter"));
            let is_newer = state == SqlState::FeatureNotSupported && (8..12).contains(&at);
            assert!(state == SqlState::DataCorrupted || is_newer, "byte {at} of {file}: {state:?}");
            if at % 64 == 0 {
                assert_not_whole(&copy, "restored");
            }
        }
        for length in (0..sound.len()).step_by(if file == FILE { 7 } else { 1 }) {
            let (state, _) = restored(file, &sound[..length]);
            assert_eq!(state, Some(SqlState::DataCorrupted), "{length} bytes of {file}");
        }
        assert_eq!(restored(file, &[&sound[..], b"x"].concat()).0, Some(SqlState::DataCorrupted));
    }
}

#[test]
fn one_that_fails_leaves_no_file_and_the_database_goes_on() {
    let (disk, database) = bank_and_changes();
    let mut failures = 0;
    for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other] {
        for moment in 1.. {
            database.wait_until_durable(Timestamp::ZERO).expect("open");
            disk.plan(disk.operations() + moment, Fault::Error(kind));
            let file = name(7);
            let made = back_up_since(&disk, &file, SINCE);
            let is_there = disk.read_file(Path::new(&file)).is_some();
            if let Err(error) = &made {
                let states = [SqlState::DiskFull, SqlState::IoError];
                assert!(states.contains(&error.state()), "operation {moment}: {error:?}");
                failures += 1;
            } else {
                assert!(is_there);
            }
            if is_there {
                let copy = with_files(&disk, &[FILE, SINCE, &file]);
                restore_files(&copy, &[FILE, SINCE, &file], None, None, "restored").expect("they are whole");
                disk.remove_file(Path::new(&file));
            }
            if made.is_ok() {
                break;
            }
            assert!(!are_pinned(&disk, Path::new("data")).expect("listed"), "it still keeps files");
            transfers(&database, 1, moment);
            checkpoint(&database);
        }
    }
    assert!(failures > 60, "{failures} failures");
}

/// Without power, or killed, at any operation there is no database in the folder, or the whole of it; restored as a whole and up to a moment.
#[test]
fn a_restore_that_does_not_come_to_its_end_says_so() {
    let (disk, database) = bank_and_changes();
    std::thread::sleep(Duration::from_millis(1));
    let (moment, expected) = (WallTime::now(), state(&database));
    std::thread::sleep(Duration::from_millis(1));
    fill_log(&database);
    transfers(&database, 20, 5);
    back_up_since(&disk, &name(1), SINCE).expect("nothing fails");
    let files = [FILE, SINCE, &name(1)];
    for until in [None, Some(moment)] {
        let expected = if until.is_some() { expected } else { state(&database) };
        let (mut refused, mut whole) = (0, 0);
        for operation in 1.. {
            let copy = with_files(&disk, &files);
            copy.plan(operation, Fault::PowerLoss);
            let outcome = restore_files(&copy, &files, None, until, "restored");
            for after in [copy.after_kill(), copy.after_power_loss(1), copy.after_power_loss(2)] {
                if after.read_file(Path::new("restored/identity")).is_none()
                    && after.read_file(Path::new("restored/restoring")).is_none()
                {
                    let paths = after.paths();
                    let mut segments =
                        paths.iter().filter(|path| path.extension().is_some_and(|end| end == "log"));
                    assert!(
                        outcome.is_err() && segments.next().is_none(),
                        "operation {operation}: {paths:?}"
                    );
                    continue;
                }
                match open_in(&after, "restored") {
                    Ok(database) => {
                        assert_eq!(state(&database), expected, "operation {operation}");
                        whole += 1;
                    }
                    Err(error) => {
                        let is_told = error.state() == SqlState::ObjectNotInPrerequisiteState;
                        assert!(is_told && outcome.is_err(), "operation {operation}: {error:?}");
                        refused += 1;
                    }
                }
            }
            if outcome.is_ok() {
                break;
            }
        }
        assert!(refused > 60 && whole >= 3, "{refused} and {whole}");
    }
}
