//! A bank in which money is moved and none is made, kept in a folder of a simulated disk, and copies of it.

use super::*;
use ankerdb_checkpoint::{BackupReport, RestoreReport, WriteRate, backup, restore};
pub(crate) use ankerdb_log::simulated::SimulatedDisk;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

pub(crate) const ACCOUNTS: i32 = 50;
pub(crate) const FILE: &str = "copies/bank.backup";
/// An incremental one.
pub(crate) const SINCE: &str = "copies/since.backup";
pub(crate) const FULL: WriteRate = WriteRate { bytes_per_second: None };

pub(crate) fn new_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    for folder in ["data", "copies"] {
        disk.create_folder(Path::new(folder)).expect("there is room");
    }
    disk
}

pub(crate) fn durability(disk: &SimulatedDisk, folder: &str) -> Durability {
    let mut durability = Durability::in_folder(folder);
    durability.disk = Arc::new(disk.clone());
    durability.log.segment_bytes = 64 << 10;
    durability
}

pub(crate) fn open_in(disk: &SimulatedDisk, folder: &str) -> Result<Database> {
    Database::open_in(Configuration::AnkerDb, &durability(disk, folder), &NoTexts)
}

pub(crate) fn back_up(disk: &SimulatedDisk) -> Result<BackupReport> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    backup(&disk, Path::new("data"), &to(FILE), FULL, &|_| Ok(()))
}

/// A full backup.
pub(crate) fn to(file: &str) -> NewBackup<'_> {
    NewBackup { file: Path::new(file), since: None }
}

/// An incremental one.
pub(crate) fn back_up_since(disk: &SimulatedDisk, file: &str, since: &str) -> Result<BackupReport> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let new = NewBackup { file: Path::new(file), since: Some(Path::new(since)) };
    backup(&disk, Path::new("data"), &new, FULL, &|_| Ok(()))
}

pub(crate) fn restore_files(
    disk: &SimulatedDisk,
    files: &[&str],
    log: Option<&str>,
    until: Option<WallTime>,
    folder: &str,
) -> Result<RestoreReport> {
    let backups: Vec<&Path> = files.iter().map(Path::new).collect();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let what = Restored { backups: &backups, log: log.map(Path::new), until };
    restore(&disk, &what, Path::new(folder), &|_, _| {})
}

pub(crate) fn restore_in(disk: &SimulatedDisk) -> Result<RestoreReport> {
    restore_files(disk, &[FILE], None, None, "restored")
}

/// Another disk that has the backup alone.
pub(crate) fn with_copy(bytes: &[u8]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    disk.create_folder(Path::new("copies")).expect("there is room");
    disk.write_file(Path::new(FILE), bytes);
    disk
}

pub(crate) fn bytes_of(disk: &SimulatedDisk) -> Vec<u8> {
    file_bytes(disk, FILE)
}

pub(crate) fn file_bytes(disk: &SimulatedDisk, file: &str) -> Vec<u8> {
    disk.read_file(Path::new(file)).expect("it was made")
}

pub(crate) fn names(disk: &SimulatedDisk, folder: &str, ending: &str) -> Vec<String> {
    let mut names = disk.list(Path::new(folder)).expect("the folder is there");
    names.retain(|name| name.ends_with(ending));
    names.sort();
    names
}

/// Accounts with 100 each.
pub(crate) fn fill_accounts(database: &Database) -> Arc<Table> {
    let table = database.create_table(items_definition("account")).expect("created");
    fill(database, &table, (0..ACCOUNTS).map(|id| item(id, 100, 0, id % 7)));
    table
}

/// Moves money; the first account counts the transfers.
pub(crate) fn transfer(database: &Database, table: &Arc<Table>, random: &mut fastrand::Rng) -> Result<()> {
    let (from, to) = (random.i32(1..ACCOUNTS), random.i32(1..ACCOUNTS));
    database.session().run(Isolation::Serializable, |transaction| {
        let mut add = |id: i32, column: usize, amount: i64| {
            let row = find(transaction, table, id, &[column])?.expect("it is there");
            let value = transaction.bigint(table, row, column) + amount;
            transaction.update(table, row, vec![(column, Value::BigInt(value))])
        };
        add(from, A, -1)?;
        add(to, A, 1)?;
        add(0, B, 1)
    })
}

pub(crate) fn transfers(database: &Database, count: u64, seed: u64) {
    let table = database.catalog().table("account").expect("it is there");
    let mut random = fastrand::Rng::with_seed(seed);
    (0..count).for_each(|_| transfer(database, &table, &mut random).expect("there is room"));
}

/// Rows, money of all accounts, and transfers.
pub(crate) fn state(database: &Database) -> (usize, i64, i64) {
    let table = database.catalog().table("account").expect("it is there");
    let rows = view_rows(&database.snapshot().read_view(), &table, &[ID, A, B]);
    let sum = |column: usize| rows.iter().map(|row| row[column].as_integer().expect("an integer")).sum();
    (rows.len(), sum(1), sum(2))
}

pub(crate) fn checkpoint(database: &Database) {
    database.checkpoint(&|| Ok(())).expect("there is room");
}

/// A database with a checkpoint and some of the log behind it.
pub(crate) fn bank() -> (SimulatedDisk, Database) {
    let disk = new_disk();
    let database = open_in(&disk, "data").expect("opened");
    let table = fill_accounts(&database);
    let mut random = fastrand::Rng::with_seed(1);
    (0..20).for_each(|_| transfer(&database, &table, &mut random).expect("there is room"));
    checkpoint(&database);
    (0..20).for_each(|_| transfer(&database, &table, &mut random).expect("there is room"));
    (disk, database)
}

/// Nothing was begun in the folder, or no server starts there.
pub(crate) fn assert_not_whole(disk: &SimulatedDisk, folder: &str) {
    if disk.list(Path::new(folder)).is_ok() {
        let refused = open_in(disk, folder).err().expect("it is not whole");
        assert_eq!(refused.state(), SqlState::ObjectNotInPrerequisiteState, "{refused:?}");
    }
}

/// Another disk that has some of the files.
pub(crate) fn with_files(disk: &SimulatedDisk, files: &[&str]) -> SimulatedDisk {
    let copy = SimulatedDisk::new();
    files.iter().for_each(|file| copy.write_file(Path::new(file), &file_bytes(disk, file)));
    copy
}

/// Some segments of the log are filled, with rows that are gone afterwards.
pub(crate) fn fill_log(database: &Database) {
    let table = database.catalog().table("account").expect("it is there");
    fill(database, &table, (100_000..104_000).map(|id| item(id, 0, 0, 0)));
    let remove = |transaction: &mut Transaction| {
        for id in 100_000..104_000 {
            let row = find(transaction, &table, id, &[ID])?.expect("it is there");
            transaction.delete(&table, row)?;
        }
        Ok(())
    };
    database.session().run(Isolation::Serializable, remove).expect("there is room");
}

/// Does some work while two threads move money and one writes checkpoints; it sees how many transfers were acknowledged.
pub(crate) fn beside_transfers(database: &Database, table: &Arc<Table>, work: impl FnOnce(&AtomicI64)) {
    let (running, acknowledged) = (Running::default(), AtomicI64::new(0));
    std::thread::scope(|scope| {
        let _ends = running.until_drop();
        for seed in 0..2 {
            let (running, acknowledged) = (&running, &acknowledged);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while running.goes_on() {
                    transfer(database, table, &mut random).expect("there is room");
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        scope.spawn(|| {
            while running.goes_on() {
                checkpoint(database);
            }
        });
        work(&acknowledged);
    });
}
