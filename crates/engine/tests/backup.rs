//! Backups of databases at work: what is in them, what every damaged byte and every failing operation does, and what they keep.

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

#[test]
fn what_was_acknowledged_before_is_in_it_and_money_is_not_lost_beside_checkpoints() {
    let disk = new_disk();
    let database = open_in(&disk, "data").expect("opened");
    let table = fill_accounts(&database);
    beside_transfers(&database, &table, |acknowledged| {
        for round in 0..12 {
            while acknowledged.load(Ordering::SeqCst) < (round + 1) * 300 {
                std::thread::yield_now();
            }
            let before = acknowledged.load(Ordering::SeqCst);
            let source: Arc<dyn Disk> = Arc::new(disk.clone());
            // Slow enough for some checkpoints meanwhile.
            let pause = |_| {
                std::thread::sleep(Duration::from_micros(500));
                Ok(())
            };
            let report = backup(&source, Path::new("data"), &to(FILE), FULL, &pause).expect("nothing fails");
            let copy = with_copy(&bytes_of(&disk));
            assert_eq!(report.bytes, bytes_of(&disk).len() as u64);
            restore_in(&copy).expect("it is whole");
            let (rows, money, transfers) = state(&open_in(&copy, "restored").expect("opened"));
            assert_eq!((rows, money), (ACCOUNTS as usize, 100 * i64::from(ACCOUNTS)));
            assert!(transfers >= before, "{transfers} transfers, {before} were acknowledged before");
            disk.remove_file(Path::new(FILE));
        }
    });
}

/// A writer that fills segments faster than they are copied: the copy ends with those that there were when it came to the log.
#[test]
fn a_fast_writer_does_not_make_a_backup_endless() {
    let (disk, database) = bank();
    let table = database.catalog().table("account").expect("it is there");
    let next = std::cell::Cell::new(1_000);
    let writes = |_| {
        let first = next.replace(next.get() + 5_000);
        assert!(first < 1_000_000, "it does not end");
        fill(&database, &table, (first..first + 5_000).map(|id| item(id, 0, 0, 1 << 20)));
        Ok(())
    };
    let source: Arc<dyn Disk> = Arc::new(disk.clone());
    backup(&source, Path::new("data"), &to(FILE), FULL, &writes).expect("nothing fails");
    let copy = with_copy(&bytes_of(&disk));
    restore_in(&copy).expect("it is whole");
    let (rows, money, transfers) = state(&open_in(&copy, "restored").expect("opened"));
    assert_eq!((money, transfers), (100 * i64::from(ACCOUNTS), 40));
    assert!(rows > ACCOUNTS as usize && (rows - ACCOUNTS as usize).is_multiple_of(5_000), "{rows} rows");
}

#[test]
fn a_restored_database_goes_on() {
    let (disk, database) = bank();
    back_up(&disk).expect("nothing fails");
    let expected = state(&database);
    // Without power behind it, the backup is on disk.
    let copy = with_copy(&bytes_of(&disk.after_power_loss(4)));
    restore_in(&copy).expect("it is whole");
    for round in 0..3 {
        let restored = open_in(&copy, "restored").expect("opened");
        assert_eq!(state(&restored), (expected.0, expected.1, expected.2 + 300 * round));
        let table = restored.catalog().table("account").expect("it is there");
        let mut random = fastrand::Rng::with_seed(9);
        (0..300).for_each(|_| transfer(&restored, &table, &mut random).expect("there is room"));
        if round == 1 {
            checkpoint(&restored);
        }
    }
    // A database without a checkpoint is its log.
    let (disk, first) = (new_disk(), "data");
    let database = open_in(&disk, first).expect("opened");
    fill_accounts(&database);
    let report = back_up(&disk).expect("nothing fails");
    assert_eq!((report.checkpoint, report.images), (0, 0));
    let copy = with_copy(&bytes_of(&disk));
    restore_in(&copy).expect("it is whole");
    assert_eq!(state(&open_in(&copy, "restored").expect("opened")), state(&database));
}

/// Damage is told before there is a database in the folder.
#[test]
fn every_damaged_byte_is_told() {
    let (disk, _database) = bank();
    back_up(&disk).expect("nothing fails");
    let sound = bytes_of(&disk);
    let mut random = fastrand::Rng::with_seed(3);
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << random.u8(0..8);
        let copy = with_copy(&bytes);
        let error = restore_in(&copy).err().unwrap_or_else(|| panic!("byte {at} does not matter"));
        let is_newer = error.state() == SqlState::FeatureNotSupported && (8..12).contains(&at);
        assert!(error.state() == SqlState::DataCorrupted || is_newer, "byte {at}: {error:?}");
        if at % 16 == 0 {
            assert_not_whole(&copy, "restored");
        }
    }
    for length in 0..sound.len() {
        let copy = with_copy(&sound[..length]);
        assert_eq!(restore_in(&copy).unwrap_err().state(), SqlState::DataCorrupted, "{length} bytes");
    }
    let copy = with_copy(&[&sound[..], b"x"].concat());
    assert_eq!(restore_in(&copy).unwrap_err().state(), SqlState::DataCorrupted);
}

#[test]
fn a_backup_that_fails_leaves_no_file_and_the_database_goes_on() {
    let (disk, database) = bank();
    let table = database.catalog().table("account").expect("it is there");
    let mut random = fastrand::Rng::with_seed(5);
    let mut failures = 0;
    for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other] {
        for moment in 1.. {
            // Nothing else uses the disk meanwhile.
            database.wait_until_durable(Timestamp::ZERO).expect("open");
            disk.plan(disk.operations() + moment, Fault::Error(kind));
            let made = back_up(&disk);
            let is_there = disk.read_file(Path::new(FILE)).is_some();
            if let Err(error) = &made {
                let states = [SqlState::DiskFull, SqlState::IoError];
                assert!(states.contains(&error.state()), "operation {moment}: {error:?}");
                failures += 1;
            } else {
                assert!(is_there);
            }
            if is_there {
                // The name was there before the folder could not be synced: what is in it is whole.
                restore_in(&with_copy(&bytes_of(&disk))).expect("it is whole");
                disk.remove_file(Path::new(FILE));
            }
            if made.is_ok() {
                break;
            }
            assert!(!are_pinned(&disk, Path::new("data")).expect("listed"), "it still keeps files");
            transfer(&database, &table, &mut random).expect("the database goes on");
            checkpoint(&database);
        }
    }
    assert!(failures > 40, "{failures} failures");
    let (rows, money, _) = state(&open_in(&disk.after_kill(), "data").expect("opened again"));
    assert_eq!((rows, money), (ACCOUNTS as usize, 100 * i64::from(ACCOUNTS)));
}

/// Without power, or killed, at any operation of a restore there is no database in the folder, or the whole of it.
#[test]
fn a_restore_that_does_not_come_to_its_end_says_so() {
    let (source, database) = bank();
    back_up(&source).expect("nothing fails");
    let (sound, expected) = (bytes_of(&source), state(&database));
    let (mut refused, mut whole) = (0, 0);
    for moment in 1.. {
        let disk = with_copy(&sound);
        let durable = disk.after_kill();
        durable.plan(moment, Fault::PowerLoss);
        let is_over = restore_in(&durable).is_ok();
        let afterwards = [durable.after_kill(), durable.after_power_loss(1), durable.after_power_loss(2)];
        for after in afterwards {
            match open_in(&after, "restored") {
                Ok(database) if database.catalog().table("account").is_ok() => {
                    assert_eq!(state(&database), expected, "operation {moment}");
                    whole += 1;
                }
                // Nothing was begun.
                Ok(_) => assert!(moment <= 18 && !is_over, "operation {moment}: an empty database"),
                Err(error) => {
                    assert!(!is_over, "operation {moment}: {error:?}");
                    assert_eq!(
                        error.state(),
                        SqlState::ObjectNotInPrerequisiteState,
                        "operation {moment}: {error:?}"
                    );
                    assert!(error.message().contains("restored"), "{error:?}");
                    refused += 1;
                }
            }
        }
        if is_over {
            break;
        }
    }
    assert!(refused > 30 && whole >= 3, "{refused} and {whole}");
}

/// What the manifest of a backup names stays for as long as it is copied, however many checkpoints there are, and starts.
#[test]
fn files_stay_while_they_are_copied_and_go_afterwards() {
    let (disk, mut database) = bank();
    let pin = pin_files(&disk, Path::new("data")).expect("nobody else copies");
    let kept = [names(&disk, "data", ".blocks"), names(&disk, "data", ".log")].concat();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..4 {
        let table = database.catalog().table("account").expect("it is there");
        // Some segments of the log.
        let first = 1_000 + round * 10_000;
        fill(&database, &table, (first..first + 8_000).map(|id| item(id, 1 << 40, 1 << 40, 0)));
        checkpoint(&database);
        if round == 1 {
            drop((table, database));
            database = open_in(&disk, "data").expect("opened again");
        }
    }
    let there = [names(&disk, "data", ".blocks"), names(&disk, "data", ".log")].concat();
    assert!(kept.iter().all(|name| there.contains(name)), "{kept:?} were there, {there:?} are");
    assert_eq!(back_up(&disk).unwrap_err().state(), SqlState::ObjectInUse);
    drop(pin);
    let table = database.catalog().table("account").expect("it is there");
    transfer(&database, &table, &mut random).expect("there is room");
    checkpoint(&database);
    let there = [names(&disk, "data", ".blocks"), names(&disk, "data", ".log")].concat();
    // A segment that waits to be used again still has its name.
    let spares = kept.iter().filter(|name| there.contains(name)).count();
    assert!(spares < kept.len() && !there.contains(&kept[0]), "{kept:?} were there, {there:?} are");
    back_up(&disk).expect("nobody else copies any more");
}

#[test]
fn it_hears_that_it_shall_end_and_keeps_to_its_rate() {
    let folder = std::env::temp_dir().join(format!("ankerdb-backup-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let (data, file, restored) = (folder.join("data"), folder.join("copy"), folder.join("restored"));
    let database = Database::open_in(Configuration::AnkerDb, &Durability::in_folder(&data), &NoTexts);
    let database = database.expect("opened");
    fill_accounts(&database);
    checkpoint(&database);
    let canceled = || Err(Error::new(SqlState::QueryCanceled, "canceled"));
    let new = NewBackup { file: &file, since: None };
    assert_eq!(database.backup(&new, None, &canceled).unwrap_err().state(), SqlState::QueryCanceled);
    let entries = std::fs::read_dir(&folder).expect("the folder is there").count();
    assert_eq!(entries, 1, "something was left");
    // Some kilobytes at twenty each second.
    let report = database.backup(&new, Some(20 << 10), &|| Ok(())).expect("there is room");
    let due = Duration::from_secs_f64(report.bytes as f64 / f64::from(20 << 10) * 0.8);
    assert!(report.duration >= due, "{report:?} took less than {due:?}");
    let again = database.backup(&new, None, &|| Ok(())).unwrap_err();
    assert_eq!(again.state(), SqlState::DuplicateFile);
    // From outside, while the database is open.
    let other = folder.join("other");
    Database::backup_folder(&data, &NewBackup { file: &other, since: None }, None, &|| Ok(()))
        .expect("nobody else copies");
    let backups = [&*other];
    let what = Restored { backups: &backups, log: None, until: None };
    Database::restore(&what, &restored, &|_, _| {}).expect("it is whole");
    let refused = Database::restore(&what, &restored, &|_, _| {}).unwrap_err();
    assert_eq!(refused.state(), SqlState::ObjectNotInPrerequisiteState);
    let opened = Database::open_in(Configuration::AnkerDb, &Durability::in_folder(&restored), &NoTexts);
    assert_eq!(state(&opened.expect("opened")), state(&database));
    let nowhere = Database::new()
        .backup(&NewBackup { file: &folder.join("none"), since: None }, None, &|| Ok(()))
        .unwrap_err();
    assert_eq!(nowhere.state(), SqlState::ObjectNotInPrerequisiteState);
    let _ = std::fs::remove_dir_all(&folder);
}

/// The backups that each version of the format has made of [`bank`], and of transfers since: those of the newest are written anew with
/// `ANKERDB_WRITE_GOLDEN`.
#[test]
fn each_version_is_restored() {
    let golden =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests")).join("tests/golden");
    if std::env::var_os("ANKERDB_WRITE_GOLDEN").is_some() {
        let (disk, database) = bank();
        back_up(&disk).expect("nothing fails");
        transfers(&database, 10, 2);
        checkpoint(&database);
        transfers(&database, 10, 3);
        back_up_since(&disk, SINCE, FILE).expect("nothing fails");
        for (file, name) in [(FILE, "version-2.backup"), (SINCE, "version-2-since.backup")] {
            std::fs::write(golden.join(name), file_bytes(&disk, file)).expect("written");
        }
    }
    let copy = with_copy(&std::fs::read(golden.join("version-1.backup")).expect("it is kept"));
    restore_in(&copy).expect("it is whole");
    assert_eq!(state(&open_in(&copy, "restored").expect("opened")), (50, 5_000, 40));
    for file in [FILE, SINCE] {
        // It has neither times nor the end of its log.
        let refused = match file {
            FILE => restore_files(&copy, &[FILE], None, Some(WallTime::now()), "later").unwrap_err(),
            _ => restore_files(&copy, &[FILE], Some("restored"), None, "later").unwrap_err(),
        };
        assert_eq!(refused.state(), SqlState::FeatureNotSupported, "{refused:?}");
        assert!(refused.message().contains("earlier version"), "{refused:?}");
    }
    let copy = with_copy(&std::fs::read(golden.join("version-2.backup")).expect("it is kept"));
    restore_in(&copy).expect("it is whole");
    assert_eq!(state(&open_in(&copy, "restored").expect("opened")), (50, 5_000, 40));
    let since = std::fs::read(golden.join("version-2-since.backup")).expect("it is kept");
    copy.write_file(Path::new(SINCE), &since);
    restore_files(&copy, &[FILE, SINCE], None, None, "both").expect("they are whole");
    assert_eq!(state(&open_in(&copy, "both").expect("opened")), (50, 5_000, 60));
}
