//! The configurations: the same answers in all of them while money moves, except where AnKer's read uncommitted
//! allows others; versions that stay until a pass collects them; nothing lent or kept by single execution engines.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

/// More than two blocks, the last one not full.
const ACCOUNTS: i32 = 20_000;
const TOTAL: i64 = ACCOUNTS as i64 * 100;
const SINGLE_ENGINES: [Configuration; 3] = [Configuration::SeeFs, Configuration::SeeSi, Configuration::SeeRu];

fn bank(configuration: Configuration) -> (Database, Arc<Table>) {
    let database = Database::with(configuration);
    let table = items(&database, "account");
    fill(&database, &table, (0..ACCOUNTS).map(|id| item(id, 100, 0, id % 10)));
    (database, table)
}

fn total(database: &Database, table: &Table) -> (usize, i64) {
    let rows = view_rows(&database.snapshot().read_view(), table, &[A]);
    (rows.len(), rows.iter().map(|row| row[0].as_integer().expect("a is a bigint")).sum())
}

/// From an account at the front to one at the back, so that a scan may pass between the two writes.
fn transfer(session: &mut Session, table: &Arc<Table>, random: &mut fastrand::Rng, level: Isolation) {
    let ids = [random.i32(0..50), ACCOUNTS - 1 - random.i32(0..50)];
    let amount = random.i64(1..5) * if random.bool() { 1 } else { -1 };
    let done = session.run(level, |transaction| {
        for (id, amount) in ids.into_iter().zip([-amount, amount]) {
            let row = find(transaction, table, id, &[A])?.expect("accounts stay");
            let balance = transaction.bigint(table, row, A);
            transaction.update(table, row, vec![(A, Value::BigInt(balance + amount))])?;
        }
        Ok(())
    });
    done.expect("transfers commit");
}

/// Scans beside transfers: how many there were, and how many did not add up. Ends early when one is found.
fn scans_that_do_not_add_up(configuration: Configuration, writers: u64, scans: usize) -> (usize, usize) {
    let (database, table) = bank(configuration);
    let running = Running::default();
    std::thread::scope(|scope| {
        let stop = running.until_drop();
        for seed in 0..writers {
            let (database, table, running) = (&database, &table, &running);
            scope.spawn(move || {
                let (mut random, mut session) = (fastrand::Rng::with_seed(seed), database.session());
                while running.goes_on() {
                    transfer(&mut session, table, &mut random, Isolation::Serializable);
                }
            });
        }
        let (mut looks, mut wrong) = (0, 0);
        while looks < scans && wrong == 0 {
            wrong += usize::from(total(&database, &table) != (ACCOUNTS as usize, TOTAL));
            looks += 1;
        }
        drop(stop);
        (looks, wrong)
    })
}

#[test]
fn queries_add_up_beside_transfers_where_they_are_promised_to() {
    for configuration in [Configuration::AnkerDb, Configuration::SeeFs, Configuration::SeeSi] {
        let (looks, wrong) = scans_that_do_not_add_up(configuration, 2, 300);
        assert_eq!((looks, wrong), (300, 0), "{}", configuration.name());
    }
}

/// The control of the test above: where versions are not checked, the same transfers must show.
#[test]
fn without_versions_a_query_does_not_add_up() {
    let (looks, wrong) = scans_that_do_not_add_up(Configuration::SeeRu, 2, 20_000);
    assert_eq!(wrong, 1, "{looks} scans found nothing");
}

#[test]
fn a_higher_level_is_kept_where_read_uncommitted_is_the_rule() {
    let (database, table) = bank(Configuration::SeeRu);
    let mut reader = database.session();
    let begun = reader.begin(Isolation::RepeatableRead);
    let mut random = fastrand::Rng::with_seed(7);
    let mut writer = database.session();
    let before = view_rows(&begun.read_view(), &table, &[A]);
    (0..500).for_each(|_| transfer(&mut writer, &table, &mut random, Isolation::Serializable));
    assert!(before.iter().all(|row| row[0] == Value::BigInt(100)));
    assert_eq!(view_rows(&begun.read_view(), &table, &[A]), before);
    // And the control: the newest values are others.
    assert_ne!(view_rows(&database.snapshot().read_view(), &table, &[A]), before);
}

/// Waits until no versions are left; how long that took.
fn time_to_collect(database: &Database) -> Duration {
    let begun = Instant::now();
    while database.statistics().version_bytes > 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "versions stay although nobody reads");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

/// Versions per updated row right after `updates` of the same few rows.
fn versions_after(configuration: Configuration, updates: usize) -> usize {
    let (database, table) = bank(configuration);
    time_to_collect(&database);
    let (mut session, mut random) = (database.session(), fastrand::Rng::with_seed(3));
    (0..updates).for_each(|_| transfer(&mut session, &table, &mut random, Isolation::Serializable));
    let bytes = database.statistics().version_bytes;
    time_to_collect(&database);
    bytes
}

#[test]
fn versions_are_there_until_a_pass_collects_them() {
    // 4,000 versions of at most 100 rows, made in a small part of the second between two passes.
    let kept = versions_after(Configuration::SeeFs, 2_000);
    assert!(kept > 2_000 * size_of::<u64>(), "{kept} bytes of versions");
    let (eager, newest) =
        (versions_after(Configuration::AnkerDb, 2_000), versions_after(Configuration::SeeRu, 2_000));
    assert!(eager < kept / 4, "{eager} bytes beside {kept}: our own writers prune");
    assert!(newest < kept / 4, "{newest} bytes beside {kept}: nobody reads versions");
}

/// Adds one to an account, `times` times.
fn count_up(session: &mut Session, table: &Arc<Table>, times: usize) {
    for _ in 0..times {
        let counted = session.run(Isolation::Serializable, |transaction| {
            let row = find(transaction, table, 0, &[A])?.expect("accounts stay");
            let value = transaction.bigint(table, row, A);
            transaction.update(table, row, vec![(A, Value::BigInt(value + 1))])
        });
        counted.expect("there is no other writer");
    }
}

/// Older versions are freed even where the newest state of a row is newer than the oldest transaction.
#[test]
fn a_pass_cuts_chains_behind_what_the_oldest_transaction_sees() {
    let (database, table) = bank(Configuration::SeeSi);
    time_to_collect(&database);
    let mut session = database.session();
    count_up(&mut session, &table, 1);
    let one = database.statistics().version_bytes;
    count_up(&mut session, &table, 1_000);
    let _reader = database.snapshot();
    count_up(&mut session, &table, 3);
    assert!(database.statistics().version_bytes > 100 * one, "versions wait for the pass");
    let begun = Instant::now();
    while database.statistics().version_bytes > 4 * one {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "only the reader's version and three newer ones are needed"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(database.statistics().version_bytes >= 3 * one, "the reader needs them");
}

#[test]
fn a_reader_keeps_what_it_sees_through_passes() {
    let (database, table) = bank(Configuration::SeeSi);
    let reader = database.snapshot().read_view();
    let before = view_rows(&reader, &table, &[A]);
    let (mut session, begun) = (database.session(), Instant::now());
    while begun.elapsed() < Duration::from_millis(2_500) {
        count_up(&mut session, &table, 200);
    }
    assert_eq!(view_rows(&reader, &table, &[A]), before);
    assert_ne!(view_rows(&database.snapshot().read_view(), &table, &[A]), before);
}

#[test]
fn single_execution_engines_lend_and_keep_nothing() {
    for configuration in SINGLE_ENGINES {
        let (database, table) = bank(configuration);
        let view = database.snapshot().read_view();
        let image = || view.read(&table, 0, &[A]).expect("blocks can be read");
        let (first, second) = (image(), image());
        assert!(!first.columns[0].lent && first.rows == ROWS_PER_BLOCK);
        assert_ne!(first.columns[0].values.pointer, second.columns[0].values.pointer, "read anew each time");
        let statistics = database.statistics();
        assert_eq!((statistics.columns_lent, statistics.columns_materialized), (0, 0));
    }
    let (database, table) = bank(Configuration::AnkerDb);
    let view = database.snapshot().read_view();
    assert!(view.read(&table, 0, &[A]).expect("blocks can be read").columns[0].lent);
}

/// Former keys of rows, and deleted rows, leave the indexes in every configuration.
#[test]
fn entries_of_former_keys_are_collected() {
    for configuration in configurations() {
        let database = Database::with(configuration);
        let table = items(&database, "item");
        fill(&database, &table, (0..1_000).map(|id| item(id, 0, 0, 1)));
        let mut session = database.session();
        for kind in 2..6 {
            let moved = session.run(configuration.isolation(), |transaction| {
                for id in 0..1_000 {
                    let row = find(transaction, &table, id, &[KIND])?.expect("items stay");
                    transaction.update(&table, row, vec![(KIND, Value::Integer(kind))])?;
                }
                Ok(())
            });
            moved.expect("there is no conflict");
        }
        time_to_collect(&database);
        assert_eq!(table.index(BY_KIND).entry_count(), 1_000, "{}", configuration.name());
    }
}

/// Against a model: every way of reading shows the same rows, texts and NULLs among them, as of the same time.
#[test]
fn all_strategies_that_promise_consistency_read_the_same() {
    let database = Database::with(Configuration::SeeFs);
    let definition = TableDefinition::new("document")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("body", DataType::Text).nullable())
        .column(ColumnDefinition::new("cost", DataType::Numeric { precision: 30, scale: 2 }))
        .primary_key(&["id"]);
    let table = database.create_table(definition).expect("the name is free");
    let body = |number: i32| match number % 3 {
        0 => Value::Null,
        1 => Value::text("short"),
        _ => Value::text(format!("a text too long for its view, number {number}")),
    };
    let cost = |number: i32| Value::Numeric(Decimal::new(i128::from(number) << 70, 2));
    let rows = 0..10_000;
    fill(&database, &table, rows.clone().map(|id| vec![Value::Integer(id), body(id), cost(id)]));
    let snapshot = database.snapshot();
    let before = view_rows(&snapshot.read_view(), &table, &[0, 1, 2]);
    let mut session = database.session();
    for id in rows.step_by(7) {
        let mut key = Vec::new();
        table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key).expect("a key");
        let changed = session.run(Isolation::Serializable, |transaction| {
            let row =
                transaction.find(&table, IndexPosition(0), &key, ColumnSet::of(&[0]))?.expect("rows stay");
            match id % 2 {
                0 => transaction.delete(&table, row),
                _ => transaction.update(&table, row, vec![(1, body(id + 1)), (2, cost(id + 1))]),
            }
        });
        changed.expect("there is no conflict");
    }
    fill(&database, &table, (20_000..21_000).map(|id| vec![Value::Integer(id), body(id), cost(id)]));
    let strategies = [
        SnapshotStrategy::InPlace,
        SnapshotStrategy::Versions(TightLoops::OutsideVersioned),
        SnapshotStrategy::Versions(TightLoops::Nowhere),
    ];
    let after = view_rows(&database.snapshot().read_view(), &table, &[0, 1, 2]);
    assert_ne!(before, after);
    for strategy in strategies {
        assert_eq!(view_rows(&snapshot.by(strategy).read_view(), &table, &[0, 1, 2]), before, "{strategy:?}");
        let now = database.snapshot().by(strategy).read_view();
        assert_eq!(view_rows(&now, &table, &[0, 1, 2]), after, "{strategy:?}");
    }
    let newest = snapshot.by(SnapshotStrategy::Newest).read_view();
    assert_eq!(view_rows(&newest, &table, &[0, 1, 2]), after, "nothing is being written");
}

/// Where versions are not checked, texts, NULLs and wide numbers are nevertheless whole.
#[test]
fn read_uncommitted_reads_no_half_cells() {
    let database = Database::with(Configuration::SeeRu);
    let definition = TableDefinition::new("cell")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("body", DataType::Text).nullable())
        .column(ColumnDefinition::new("amount", DataType::BigInt).nullable())
        .column(ColumnDefinition::new("wide", DataType::Numeric { precision: 38, scale: 0 }))
        .primary_key(&["id"]);
    let table = database.create_table(definition).expect("the name is free");
    let wide = |sign: i128| Value::Numeric(Decimal::new(sign * 0x1111_2222_3333_4444_5555_6666, 0));
    let states = [
        vec![(1, Value::text("a".repeat(40))), (2, Value::Null), (3, wide(1))],
        vec![(1, Value::text("b".repeat(50))), (2, Value::BigInt(77)), (3, wide(-1))],
        vec![(1, Value::text("short")), (2, Value::Null), (3, wide(1))],
    ];
    let row = |id: i32| {
        std::iter::once(Value::Integer(id)).chain(states[0].iter().map(|(_, value)| value.clone())).collect()
    };
    fill(&database, &table, (0..64).map(row));
    let known =
        |column: usize| -> Vec<Value> { states.iter().map(|state| state[column].1.clone()).collect() };
    let known = [known(0), known(1), known(2)];
    let running = Running::default();
    std::thread::scope(|scope| {
        let stop = running.until_drop();
        for seed in 0..2 {
            let (database, table, running, states) = (&database, &table, &running, &states);
            scope.spawn(move || {
                let (mut random, mut session) = (fastrand::Rng::with_seed(seed), database.session());
                while running.goes_on() {
                    let (id, state) = (random.i32(0..64), random.usize(0..3));
                    let mut key = Vec::new();
                    table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key).expect("a key");
                    let changed = session.run(Isolation::ReadUncommitted, |transaction| {
                        let row = transaction
                            .find(table, IndexPosition(0), &key, ColumnSet::ALL)?
                            .expect("rows stay");
                        transaction.update(table, row, states[state].clone())
                    });
                    changed.expect("it commits");
                }
            });
        }
        for _ in 0..3_000 {
            for row in view_rows(&database.snapshot().read_view(), &table, &[1, 2, 3]) {
                for (value, known) in row.iter().zip(&known) {
                    assert!(known.contains(value), "half a cell: {value:?}");
                }
            }
        }
        drop(stop);
    });
}

/// A text that is too long for its view and says a number.
fn numbered(number: i64) -> Value {
    Value::text(format!("a text that is long enough to lie in the heap: {number}"))
}

/// Commits change the text and the sum, or the number and the sum. Scans beside them that find a row whose number and
/// text do not add up to its sum.
fn rows_that_do_not_add_up(configuration: Configuration, scans: usize) -> usize {
    const ROWS: i32 = 200;
    let database = Database::with(configuration);
    let definition = TableDefinition::new("parts")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("body", DataType::Text))
        .column(ColumnDefinition::new("number", DataType::BigInt))
        .column(ColumnDefinition::new("sum", DataType::BigInt))
        .primary_key(&["id"]);
    let table = database.create_table(definition).expect("the name is free");
    let row = |id| vec![Value::Integer(id), numbered(0), Value::BigInt(0), Value::BigInt(0)];
    fill(&database, &table, (0..ROWS).map(row));
    let in_text = |value: &Value| -> i64 {
        let Value::Text(text) = value else { panic!("{value:?} is no text") };
        text.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("it ends with a number")
    };
    let running = Running::default();
    std::thread::scope(|scope| {
        let stop = running.until_drop();
        for seed in 0..2 {
            let (database, table, running) = (&database, &table, &running);
            scope.spawn(move || {
                let (mut random, mut session) = (fastrand::Rng::with_seed(seed), database.session());
                while running.goes_on() {
                    let (id, changes_text) = (random.i32(0..ROWS), random.bool());
                    let mut key = Vec::new();
                    table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key).expect("a key");
                    let changed = session.run(Isolation::Serializable, |transaction| {
                        let row = transaction
                            .find(table, IndexPosition(0), &key, ColumnSet::ALL)?
                            .expect("rows stay");
                        let sum = Value::BigInt(transaction.bigint(table, row, 3) + 1);
                        let part = match changes_text {
                            true => (1, numbered(in_text(&transaction.value(table, row, 1)) + 1)),
                            false => (2, Value::BigInt(transaction.bigint(table, row, 2) + 1)),
                        };
                        transaction.update(table, row, vec![part, (3, sum)])
                    });
                    changed.expect("it commits");
                }
            });
        }
        let wrong = (0..scans).map(|_| {
            let rows = view_rows(&database.snapshot().read_view(), &table, &[1, 2, 3]);
            assert_eq!(rows.len(), ROWS as usize);
            let adds_up = |row: &Vec<Value>| {
                in_text(&row[0]) + row[1].as_integer().expect("a number")
                    == row[2].as_integer().expect("a number")
            };
            rows.iter().filter(|row| !adds_up(row)).count()
        });
        let wrong = wrong.sum();
        drop(stop);
        wrong
    })
}

#[test]
fn cells_of_one_row_belong_together_where_they_are_promised_to() {
    for configuration in [Configuration::AnkerDb, Configuration::SeeFs, Configuration::SeeSi] {
        assert_eq!(rows_that_do_not_add_up(configuration, 3_000), 0, "{}", configuration.name());
    }
}

/// The control of the test above.
#[test]
fn without_versions_cells_of_one_row_come_from_different_states() {
    assert!(rows_that_do_not_add_up(Configuration::SeeRu, 3_000) > 0);
}
