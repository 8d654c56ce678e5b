//! Checkpoints of a database: what is written, what is left out, and what is there when the log is gone that they make unnecessary.

mod support;

use ankerdb_engine::*;
use ankerdb_log::simulated::SimulatedDisk;
use std::path::Path;
use std::sync::Arc;
use support::*;

/// Rows of three blocks.
const ROWS: i32 = 20_000;

fn durability(disk: &SimulatedDisk) -> Durability {
    let mut durability = Durability::in_folder("data");
    durability.disk = Arc::new(disk.clone());
    durability.log.segment_bytes = 256 << 10;
    durability
}

fn open(disk: &SimulatedDisk) -> Result<Database> {
    Database::open_in(Configuration::AnkerDb, &durability(disk), &NoTexts)
}

fn checkpoint(database: &Database) -> CheckpointReport {
    database.checkpoint(&|| Ok(())).expect("there is room").expect("something was committed")
}

fn insert(database: &Database, table: &Arc<Table>, ids: std::ops::Range<i32>) {
    let mut session = database.session();
    let inserted = session.run(Isolation::Serializable, |transaction| {
        ids.clone().try_for_each(|id| transaction.insert(table, item(id, 1, 2, id % 5)).map(drop))
    });
    inserted.expect("there is room");
}

fn set(database: &Database, table: &Arc<Table>, id: i32, value: i64) {
    let changed = database.session().run(Isolation::Serializable, |transaction| {
        let row = find(transaction, table, id, &[])?.expect("it is there");
        transaction.update(table, row, vec![(A, Value::BigInt(value))])
    });
    changed.expect("there is room");
}

fn sum(database: &Database) -> (usize, i64) {
    let table = database.catalog().table("item").expect("it is there");
    let rows = view_rows(&database.snapshot().read_view(), &table, &[ID, A]);
    (rows.len(), rows.iter().map(|row| row[1].as_integer().expect("an integer")).sum())
}

fn names(disk: &SimulatedDisk, ending: &str) -> Vec<String> {
    let mut names = ankerdb_log::Disk::list(disk, Path::new("data")).expect("the folder is there");
    names.retain(|name| name.ends_with(ending));
    names.sort();
    names
}

#[test]
fn blocks_that_have_not_changed_are_not_written_again() {
    let disk = SimulatedDisk::new();
    let database = open(&disk).expect("opened");
    let table = database.create_table(items_definition("item")).expect("created");
    insert(&database, &table, 0..ROWS);
    let first = checkpoint(&database);
    assert_eq!((first.number, first.blocks, first.blocks_written), (1, 3, 3));
    assert_eq!(database.checkpoint(&|| Ok(())).expect("nothing fails"), None, "nothing was committed since");
    set(&database, &table, 10, 5);
    let second = checkpoint(&database);
    assert_eq!((second.number, second.blocks, second.blocks_written), (2, 3, 1));
    assert!(second.bytes_written < first.bytes_written / 2, "{second:?}");
    assert_eq!(names(&disk, ".blocks").len(), 2);
    drop(database);
    let database = open(&disk).expect("opened again");
    assert_eq!(sum(&database), (ROWS as usize, i64::from(ROWS) + 4));
    // Neither has a block changed by being read.
    let table = database.catalog().table("item").expect("it is there");
    set(&database, &table, ROWS - 1, 9);
    assert_eq!(checkpoint(&database).blocks_written, 1);
}

#[test]
fn what_no_image_needs_goes() {
    let disk = SimulatedDisk::new();
    let database = open(&disk).expect("opened");
    let table = database.create_table(items_definition("item")).expect("created");
    insert(&database, &table, 0..ROWS);
    checkpoint(&database);
    for round in 0..12 {
        for id in [0, 9_000, 19_000] {
            set(&database, &table, id, round);
        }
        assert_eq!(checkpoint(&database).blocks_written, 3);
        assert_eq!(names(&disk, ".blocks").len(), 1, "all blocks have changed");
    }
    (1..6).for_each(|batch| insert(&database, &table, batch * ROWS..(batch + 1) * ROWS));
    assert!(names(&disk, ".log").len() > 4, "the log has grown");
    checkpoint(&database);
    // The first segment waits to be used again; nobody reads it.
    let killed = disk.after_kill();
    ankerdb_log::Disk::remove(&killed, Path::new("data/0000000000000001.log")).expect("it is there");
    assert_eq!(sum(&open(&killed).expect("opened again")), sum(&database));
    database.drop_table("item").expect("it is there");
    assert_eq!(checkpoint(&database).blocks, 0);
    assert_eq!(names(&disk, ".blocks"), Vec::<String>::new());
}

#[test]
fn one_that_is_ended_counts_for_nothing() {
    let disk = SimulatedDisk::new();
    let database = open(&disk).expect("opened");
    let table = database.create_table(items_definition("item")).expect("created");
    insert(&database, &table, 0..ROWS);
    checkpoint(&database);
    (0..ROWS).step_by(5_000).for_each(|id| set(&database, &table, id, 7));
    let files = names(&disk, ".blocks");
    let canceled = || Error::new(SqlState::QueryCanceled, "canceled");
    assert_eq!(database.checkpoint(&|| Err(canceled())).unwrap_err().state(), SqlState::QueryCanceled);
    assert_eq!(names(&disk, ".blocks"), files);
    assert_eq!(
        sum(&open(&disk.after_kill()).expect("opened again")),
        (ROWS as usize, i64::from(ROWS) + 4 * 6)
    );
    assert_eq!(checkpoint(&database).number, 2);
}

#[test]
fn a_sequence_gives_no_number_again_when_its_log_is_gone() {
    let disk = SimulatedDisk::new();
    let database = open(&disk).expect("opened");
    let definition = SequenceDefinition::new("s", DataType::BigInt);
    let mut definitions = database.definitions(&Interrupt::new());
    definitions.create_sequence(definition).expect("the name is free");
    definitions.commit(None).expect("created");
    let sequence = database.catalog().sequence("s").expect("it is there").clone();
    let mut last = 0;
    for _ in 0..50 {
        last = sequence.next().expect("it goes on");
    }
    checkpoint(&database);
    last = last.max(sequence.next().expect("it goes on"));
    let database = open(&disk.after_kill()).expect("opened again");
    let next = database.catalog().sequence("s").expect("it is there").next().expect("it goes on");
    assert!(next > last, "{next} was given before {last}");
}

#[test]
fn a_log_that_ends_before_its_checkpoint_is_no_start() {
    let disk = SimulatedDisk::new();
    let database = open(&disk).expect("opened");
    let table = database.create_table(items_definition("item")).expect("created");
    insert(&database, &table, 0..100);
    checkpoint(&database);
    let path = Path::new("data/0000000000000001.log");
    let killed = disk.after_kill();
    let file = ankerdb_log::Disk::open(&killed, path).expect("it is there");
    // All of the log: the checkpoint needs what was appended behind its beginning, of which there is nothing, and knows how long it was.
    file.write_at(&vec![0; (256 << 10) - 64], 64).expect("written");
    let error = open(&killed).err().expect("the log is gone");
    assert_eq!(error.state(), SqlState::DataCorrupted);
    assert!(error.message().contains("ends in front of"), "{error:?}");
    let mut allowed = durability(&killed);
    allowed.log.recover_to_last_valid = true;
    let database = Database::open_in(Configuration::AnkerDb, &allowed, &NoTexts).expect("a loss is allowed");
    assert!(database.loss().is_some() && database.loss_splits_commits());
    assert_eq!(sum(&database), (100, 100));
    // What was given up once is not missed again, whether the server was closed or killed.
    assert_eq!(sum(&open(&killed.after_kill()).expect("opened after the loss")), (100, 100));
    database.close().expect("closed");
    drop(database);
    assert_eq!(sum(&open(&killed.after_kill()).expect("opened after the end")), (100, 100));
}
