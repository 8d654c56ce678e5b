//! The memory limit: requests past it get 53200, and others are not affected.
//!
//! The account is the process's, so the tests run one after the other, each with a limit above what is in use when it begins.

use ankerdb_engine::*;
use ankerdb_memory::account;
use ankerdb_table::Storage;
use parking_lot::{Mutex, MutexGuard};
use std::alloc::System;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

const MIB: usize = 1 << 20;

/// Much longer than the background needs on a machine that has other work.
const WAIT: Duration = Duration::from_secs(60);

/// Set for the child of a test.
const CHILD: &str = "ANKERDB_TEST_FILLS_MEMORY";

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

struct Stage {
    database: Database,
    table: Arc<Table>,
    /// Bytes used when the test began.
    before: usize,
    limit: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    /// A database that may take so many bytes more than are in use, and a table `(id, text, number)`.
    fn with_room(bytes: usize) -> Stage {
        Stage::of(Configuration::default(), bytes)
    }

    fn of(configuration: Configuration, bytes: usize) -> Stage {
        let alone = ALONE.lock();
        account::settle();
        let before = account::used();
        let limit = before + bytes;
        let options = Options { memory_limit: Some(limit), ..configuration.into() };
        let database = Database::open(options).unwrap();
        let definition = TableDefinition::new("t")
            .column(ColumnDefinition::new("id", DataType::Integer))
            .column(ColumnDefinition::new("text", DataType::Text))
            .column(ColumnDefinition::new("number", DataType::BigInt))
            .primary_key(&["id"]);
        let table = database.create_table(definition).unwrap();
        Stage { database, table, before, limit, _alone: alone }
    }

    fn insert(&self, session: &mut Session, ids: std::ops::Range<i32>) -> Result<()> {
        session.run(Isolation::Serializable, |transaction| {
            ids.clone().try_for_each(|id| transaction.insert(&self.table, row(id)).map(drop))
        })
    }

    fn set(&self, session: &mut Session, id: i32, number: i64) -> Result<()> {
        session.run(Isolation::Serializable, |transaction| {
            let row = self.find(transaction, id)?.expect("the row is there");
            transaction.update(&self.table, row, vec![(2, Value::BigInt(number))])
        })
    }

    fn find(&self, transaction: &mut Transaction, id: i32) -> Result<Option<RowId>> {
        let mut key = Vec::new();
        self.table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
        transaction.find(&self.table, IndexPosition(0), &key, ColumnSet::of(&[2]))
    }

    /// Inserts in transactions of 100 rows until one is refused; the number of rows.
    fn fill(&self) -> i32 {
        let mut session = self.database.session();
        for batch in 0.. {
            match self.insert(&mut session, batch * 100..(batch + 1) * 100) {
                Ok(()) => assert!(account::used() < self.limit, "the limit is never reached"),
                Err(error) => {
                    assert_is_refusal(&error);
                    return batch * 100;
                }
            }
        }
        unreachable!("ids do not end before memory does")
    }

    fn delete(&self, session: &mut Session, ids: std::ops::Range<i32>) -> Result<()> {
        session.run(Isolation::Serializable, |transaction| {
            for id in ids.clone() {
                let row = self.find(transaction, id)?.expect("the row is there");
                transaction.delete(&self.table, row)?;
            }
            Ok(())
        })
    }

    /// Waits until all but so many bytes of what the test has taken are free again.
    fn falls_to(&self, more: usize) {
        let begun = Instant::now();
        loop {
            crossbeam_epoch::pin().flush();
            account::settle();
            let held = account::used().saturating_sub(self.before);
            if held <= more {
                return;
            }
            assert!(begun.elapsed() < WAIT, "{} MiB are never free again", held / MIB);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn row(id: i32) -> Vec<Value> {
    let text = format!("row {id}, a text that is longer than twelve bytes");
    vec![Value::Integer(id), Value::text(text), Value::BigInt(0)]
}

fn assert_is_refusal(error: &Error) {
    assert_eq!(error.state(), SqlState::OutOfMemory, "{error}");
    let detail = error.detail().expect("says how much");
    assert!(detail.starts_with("The memory limit is ") && error.hint().is_some(), "{detail}");
}

#[test]
fn a_transaction_past_the_limit_ends_and_others_commit_all_the_while() {
    let stage = Stage::with_room(256 * MIB);
    let (is_over, commits) = (AtomicBool::new(false), AtomicUsize::new(0));
    stage.insert(&mut stage.database.session(), -100..0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = stage.database.session();
            while !is_over.load(Ordering::Relaxed) {
                let commit = commits.fetch_add(1, Ordering::Relaxed) as i32;
                let new = -1_000_000 + commit;
                stage.insert(&mut session, new..new + 1).expect("a small insert is not refused");
                stage.set(&mut session, -1 - commit % 100, 1).expect("a small update is not refused");
            }
        });
        let mut session = stage.database.session();
        for _ in 0..3 {
            let done = commits.load(Ordering::Relaxed);
            assert_is_refusal(&stage.insert(&mut session, 0..10_000_000).unwrap_err());
            stage.falls_to(48 * MIB);
            assert!(commits.load(Ordering::Relaxed) > done, "others commit");
        }
        stage.insert(&mut session, 0..50_000).expect("a smaller one goes through");
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(stage.table.row_count(), 100 + 50_000 + commits.load(Ordering::Relaxed));
}

#[test]
fn an_interactive_transaction_past_the_limit_ends_and_leaves_nothing() {
    let stage = Stage::with_room(128 * MIB);
    let mut session = stage.database.session();
    let mut transaction = session.begin(Isolation::Serializable);
    let outcome = (0..10_000_000).try_for_each(|id| transaction.insert(&stage.table, row(id)).map(drop));
    assert_is_refusal(&outcome.unwrap_err());
    transaction.rollback();
    drop(transaction);
    stage.falls_to(16 * MIB);
    assert_eq!((stage.table.row_count(), stage.table.block_count()), (0, 0));
}

#[test]
fn a_large_commit_that_the_tables_have_no_room_for_leaves_them_as_they_were() {
    let stage = Stage::with_room(256 * MIB);
    // What is left is enough for the write set and not for what it brings.
    let mut session = stage.database.session();
    let mut transaction = session.begin(Isolation::Serializable);
    let large = stage.limit / 16 * 13;
    for id in 0.. {
        transaction.insert(&stage.table, row(id)).expect("there is room for the write set");
        if id % 1024 == 0 && account::used() > large - 64 * MIB {
            break;
        }
    }
    assert_is_refusal(&transaction.commit().unwrap_err());
    drop(transaction);
    assert_eq!((stage.table.row_count(), stage.table.block_count()), (0, 0));
    stage.falls_to(16 * MIB);
}

#[test]
fn history_that_a_reader_keeps_ends_the_writer_and_not_the_reader() {
    let stage = Stage::with_room(48 * MIB);
    let mut session = stage.database.session();
    (0..20).for_each(|batch| stage.insert(&mut session, batch * 1000..(batch + 1) * 1000).unwrap());
    let reader = stage.database.snapshot();
    let mut kept = Vec::new();
    let mut turn = 0;
    // A reader a turn: each keeps one version of each row.
    let refused = 'filled: loop {
        turn += 1;
        kept.push(stage.database.snapshot());
        for id in 0..20_000 {
            if let Err(error) = stage.set(&mut session, id, turn) {
                break 'filled error;
            }
        }
        assert!(turn < 1000, "the limit is never reached");
    };
    assert_is_refusal(&refused);
    // That lasts as long as the readers, once the background has freed what it had yet to free: on a busy machine, that
    // can be enough for some turns more.
    let begun = Instant::now();
    loop {
        turn += 1;
        kept.push(stage.database.snapshot());
        let mut went_through = 0;
        for id in 0..20_000 {
            match stage.set(&mut session, id, turn) {
                Ok(()) => went_through += 1,
                Err(error) => assert_is_refusal(&error),
            }
        }
        if went_through < 1_000 {
            break;
        }
        assert!(begun.elapsed() < WAIT, "{went_through} of 20,000 updates past the limit");
    }
    // But the readers read, and small reads go on.
    let image = reader.read_view().read(&stage.table, 0, &[2]).expect("the reader goes on");
    assert_eq!(image.rows, ROWS_PER_BLOCK);
    let seen = session.run(Isolation::Serializable, |transaction| {
        let row = stage.find(transaction, 5)?.expect("the row is there");
        Ok(transaction.bigint(&stage.table, row, 2))
    });
    assert!((1..=turn).contains(&seen.unwrap()));
    drop((reader, kept));
    stage.falls_to(32 * MIB);
    (0..20_000).for_each(|id| stage.set(&mut session, id, -2).unwrap());
}

#[test]
fn rows_can_be_changed_and_deleted_where_tables_fill_the_memory_and_others_take_their_place() {
    let stage = Stage::with_room(96 * MIB);
    let rows = stage.fill();
    assert!(rows > 50_000, "{rows} rows");
    let mut session = stage.database.session();
    // Retrying does not help: what was free for the moment is used up, and then nothing grows.
    let mut insert = |turn: i32| {
        let id = rows + 1000 + turn * 100;
        if let Err(error) = stage.insert(&mut session, id..id + 100) {
            assert_is_refusal(&error);
        }
        stage.table.row_count()
    };
    let full = (0..1_000).map(&mut insert).last().expect("a thousand turns");
    let growth = (1_000..2_000).map(&mut insert).last().expect("a thousand turns") - full;
    assert!(growth <= ROWS_PER_BLOCK, "{growth} rows more in a full database");
    (0..2_000).for_each(|id| stage.set(&mut session, id, 1).expect("an update is small"));
    // Many rows in one go.
    let many = rows / 32;
    stage.delete(&mut session, 0..many).expect("a deletion gives memory back");
    let sweeps = || Storage::of(&stage.table).free_slots() as i32 >= many;
    let begun = Instant::now();
    while !sweeps() {
        assert!(begun.elapsed() < WAIT, "slots are never free again");
        std::thread::sleep(Duration::from_millis(5));
    }
    stage.falls_to(stage.limit / 32 * 29 - stage.before);
    for id in 0..many {
        let inserted = session.run(Isolation::Serializable, |transaction| {
            let short = vec![Value::Integer(id), Value::text("short"), Value::BigInt(0)];
            transaction.insert(&stage.table, short).map(drop)
        });
        inserted.expect("there are free slots");
    }
}

#[test]
fn an_index_that_does_not_fit_is_refused_and_nothing_remains_of_it() {
    let stage = Stage::with_room(128 * MIB);
    let rows = stage.fill();
    let index = IndexDefinition {
        name: "by_text".into(),
        columns: vec![1],
        derivation: None,
        unique: false,
        primary: false,
        is_constraint: false,
        kind: IndexKind::Ordered,
        style: IndexStyle::default(),
    };
    assert_is_refusal(&stage.database.create_index("t", index.clone()).unwrap_err());
    assert_eq!(stage.table.usable_indexes().count(), 1);
    let mut session = stage.database.session();
    (0..rows / 400).for_each(|batch| stage.delete(&mut session, batch * 100..(batch + 1) * 100).unwrap());
    stage.falls_to(stage.limit / 32 * 29 - stage.before);
    stage.set(&mut session, rows - 1, 7).expect("the table is as before");
}

#[test]
fn compressed_copies_are_let_go_where_memory_is_short() {
    let stage = Stage::with_room(32 * MIB);
    let mut session = stage.database.session();
    let full = ROWS_PER_BLOCK as i32;
    stage.insert(&mut session, 0..full).unwrap();
    let copy = || {
        let view = stage.database.snapshot().read_view();
        let image = view.read(&stage.table, 0, &[0]).unwrap();
        view.compressed(&stage.table, 0, 0, &image.columns[0])
    };
    assert_eq!([(); 3].map(|()| copy().is_some()), [false, true, true]);
    let (mut id, begun) = (full, Instant::now());
    // What the background frees meanwhile is filled again.
    let mut fill = || {
        while stage.insert(&mut session, id..id + 100).is_ok() {
            id += 100;
        }
    };
    fill();
    while copy().is_some() {
        assert!(begun.elapsed() < WAIT, "the copy is never let go");
        std::thread::sleep(Duration::from_millis(5));
        fill();
    }
    assert_eq!([(); 3].map(|()| copy().is_some()), [false; 3], "none is made while memory is short");
}

#[test]
fn a_scan_that_reads_more_than_fits_is_refused_and_its_memory_is_free_again() {
    let stage = Stage::with_room(64 * MIB);
    stage.insert(&mut stage.database.session(), 0..20_000).unwrap();
    let mut session = stage.database.session();
    let columns = ColumnSet::of(&[0, 1, 2]);
    let outcome = session.run(Isolation::Serializable, |transaction| {
        let mut found: Vec<Value> = Vec::new();
        for _ in 0..1000 {
            transaction.scan_table(&stage.table, columns, None, &mut |transaction, row| {
                found.push(transaction.value(&stage.table, row, 1));
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(found.len())
    });
    assert_is_refusal(&outcome.unwrap_err());
    stage.falls_to(24 * MIB);
}

/// Columns in regions and the copies that are taken of them are in the account.
#[test]
fn columns_in_regions_and_their_copies_count() {
    for configuration in Configuration::ALL {
        if configuration.technique().is_none() || configuration.check().is_err() {
            continue;
        }
        let stage = Stage::of(configuration, 96 * MIB);
        let rows = stage.fill();
        // A row has 28 bytes in its columns, 16 in its header, and its string; the rest is for its key.
        assert!((50_000..1_500_000).contains(&rows), "{rows} rows in {}", configuration.name());
        // There, a copy of the process is what is read.
        if configuration.technique() != Some(Technique::Fork) {
            let view = stage.database.snapshot().read_view();
            let refused = view.read(&stage.table, 0, &[0, 1, 2]).map(drop);
            assert_is_refusal(&refused.expect_err("a snapshot of columns is more than a small read"));
        }
        let mut session = stage.database.session();
        (0..100).for_each(|id| stage.set(&mut session, id, 1).expect("an update is small"));
    }
}

/// The child of the test below: fills the memory, and says what the system and the account make of it.
#[test]
fn child_that_fills_its_memory() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let resident = account::resident_bytes().expect("Linux says it");
    let stage = Stage::with_room(320 * MIB);
    stage.fill();
    let resident = account::resident_bytes().expect("Linux says it") - resident;
    println!("counted {} resident {resident}", account::used() - stage.before);
}

#[test]
fn the_system_counts_little_more_than_the_account() {
    let mut child = std::process::Command::new(std::env::current_exe().expect("this test"));
    child.args(["--exact", "child_that_fills_its_memory", "--nocapture"]).env(CHILD, "1");
    let output = child.output().expect("the test can be run");
    let said = String::from_utf8_lossy(&output.stdout);
    let number = |name: &str| {
        let rest = said.split(name).nth(1).unwrap_or_else(|| panic!("{said}"));
        rest.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).expect("a number")
    };
    let (counted, resident) = (number("counted "), number("resident "));
    assert!(counted > 200.0 * MIB as f64, "{said}");
    assert!((0.8..1.2).contains(&(resident / counted)), "{said}");
}
