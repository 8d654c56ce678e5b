//! Compressed copies of columns show what the columns show, to every view that gets one.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::*;

/// Columns that have codes of one, two and four bytes, of texts, and of values too far apart.
const DAY: usize = 1;
const PRICE: usize = 2;
const MODE: usize = 3;
const FAR: usize = 4;
const COLUMNS: [usize; 6] = [0, DAY, PRICE, MODE, FAR, 5];
const FULL: i32 = ROWS_PER_BLOCK as i32;

fn lines(database: &Database, rows: i32) -> Arc<Table> {
    let table = TableDefinition::new("lines")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("day", DataType::Date).nullable())
        .column(ColumnDefinition::new("price", DataType::Numeric { precision: 15, scale: 2 }))
        .column(ColumnDefinition::new("mode", DataType::Text).nullable())
        .column(ColumnDefinition::new("far", DataType::BigInt))
        .column(ColumnDefinition::new("flag", DataType::Boolean))
        .primary_key(&["id"]);
    let table = database.create_table(table).unwrap();
    fill(database, &table, (0..rows).map(|id| line(id, 0)));
    table
}

fn line(id: i32, round: i32) -> Vec<Value> {
    vec![
        Value::Integer(id),
        day(id, round),
        price(id, round),
        mode(id, round),
        Value::BigInt(i64::from(id) << 40),
        Value::Boolean(id % 3 == 0),
    ]
}

fn day(id: i32, round: i32) -> Value {
    if id % 11 == 0 { Value::Null } else { Value::Date(8000 + (id + round) % 200) }
}

fn price(id: i32, round: i32) -> Value {
    Value::Numeric(Decimal::new(i128::from(id) * 70_000 - i128::from(round), 2))
}

fn mode(id: i32, round: i32) -> Value {
    match (id + round) % 7 {
        0 => Value::Null,
        1 => Value::text("deliver in person, or to the back door"),
        2 => Value::text("a place that is far away"),
        kind => Value::text(format!("mode {kind}")),
    }
}

/// What a code stands for; all long texts are one.
fn meant(copy: &CompressedColumn, row: usize, data_type: DataType) -> Value {
    let width = usize::from(copy.bytes());
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(&copy.codes()[row * width..][..width]);
    let code = u64::from_le_bytes(bytes);
    match copy.meaning() {
        CodesMean::Above(least) => {
            let number = least.wrapping_add(code as i64);
            match data_type {
                DataType::Integer => Value::Integer(number as i32),
                DataType::Date => Value::Date(number as i32),
                DataType::Numeric { scale, .. } => Value::Numeric(Decimal::new(number.into(), scale)),
                _ => Value::BigInt(number),
            }
        }
        CodesMean::Texts(texts) => match texts[code as usize].to_le_bytes() {
            [255, ..] => Value::text("long"),
            text => Value::text(std::str::from_utf8(&text[4..][..usize::from(text[0])]).unwrap()),
        },
    }
}

fn is_alike(value: &Value, meant: &Value) -> bool {
    match value {
        Value::Text(text) if text.len() > 12 => *meant == Value::text("long"),
        _ => value == meant,
    }
}

/// Holds the copies that a view gets to what it shows; returns the bytes of a code of each column, 0 where there is no copy.
fn check(view: &ReadView, table: &Table) -> [u8; 6] {
    let mut bytes = [0; 6];
    for part in 0..view.parts(table) {
        let image = view.read(table, part, &COLUMNS).unwrap();
        for column in COLUMNS {
            let cells = &image.columns[column];
            let Some(copy) = view.compressed(table, part, column, cells) else { continue };
            assert!(cells.lent);
            bytes[column] = copy.bytes();
            for row in (0..image.rows).filter(|&row| image.exists(row)) {
                let value = image_cell(cells, row, table.data_type(column));
                let meant = meant(&copy, row, table.data_type(column));
                assert!(
                    value == Value::Null || is_alike(&value, &meant),
                    "{column}, {row}: {value:?}, {meant:?}"
                );
            }
        }
    }
    bytes
}

fn change(database: &Database, table: &Arc<Table>, change: impl FnOnce(&mut Client)) {
    let mut client = Client::begin(database, table, Isolation::Serializable);
    change(&mut client);
    client.commit().unwrap();
}

const NONE: [u8; 6] = [0; 6];
const ALL: [u8; 6] = [2, 1, 4, 1, 0, 0];

#[test]
fn the_second_reader_of_a_state_gets_codes_and_so_does_everybody_after() {
    let database = Database::new();
    let table = lines(&database, FULL + 100);
    let (first, second) = (database.snapshot().read_view(), database.snapshot().read_view());
    assert_eq!(check(&first, &table), NONE);
    assert_eq!(check(&second, &table), ALL);
    assert_eq!(check(&first, &table), ALL);
    let image = first.read(&table, 0, &[DAY]).unwrap();
    let of = |view: &ReadView| view.compressed(&table, 0, DAY, &image.columns[0]).expect("there is one");
    assert!(Arc::ptr_eq(&of(&first), &of(&second)), "one for all");
    assert_eq!((of(&first).codes().len(), of(&first).meaning()), (ROWS_PER_BLOCK, CodesMean::Above(8000)));
}

#[test]
fn a_change_concerns_its_column_alone_and_old_views_go_without() {
    let database = Database::new();
    let table = lines(&database, FULL);
    let old = database.snapshot().read_view();
    assert_eq!((check(&old, &table), check(&old, &table)), (NONE, ALL));
    change(&database, &table, |client| {
        assert!(client.update(17, vec![(DAY, Value::Date(8200)), (MODE, Value::text("another"))]).unwrap());
    });
    let without = [2, 0, 4, 0, 0, 0];
    assert_eq!(check(&old, &table), without, "it has copies of its own of what has changed");
    let new = database.snapshot().read_view();
    assert_eq!((check(&new, &table), check(&new, &table)), (without, ALL));
    // A row that goes changes no cell, and one that comes all columns.
    change(&database, &table, |client| assert!(client.delete(18).unwrap()));
    assert_eq!(check(&database.snapshot().read_view(), &table), ALL);
    // What is rolled back, and what this transaction has written, is nobody else's.
    let mut client = Client::begin(&database, &table, Isolation::Serializable);
    assert!(client.update(19, vec![(DAY, Value::Date(9000))]).unwrap());
    assert_eq!(check(&database.snapshot().read_view(), &table), ALL);
    client.rollback();
    assert_eq!(check(&database.snapshot().read_view(), &table), ALL);
}

#[test]
fn values_without_codes_have_none() {
    let database = Database::new();
    let table = TableDefinition::new("t")
        .column(ColumnDefinition::new("null", DataType::Integer).nullable())
        .column(ColumnDefinition::new("most", DataType::BigInt))
        .column(ColumnDefinition::new("text", DataType::Text))
        .column(ColumnDefinition::new("double", DataType::DoublePrecision))
        .column(ColumnDefinition::new("small", DataType::SmallInt))
        .column(ColumnDefinition::new("letter", DataType::Char(1)));
    let table = database.create_table(table).unwrap();
    let ends = |id: i32| [i64::MIN, i64::MAX][id as usize % 2];
    let row = |id: i32| {
        let (text, letter) = (Value::text(format!("{}", id % 257)), Value::text(format!("{}", id % 10)));
        vec![Value::Null, Value::BigInt(ends(id)), text, Value::Double(1.0), Value::SmallInt(1), letter]
    };
    fill(&database, &table, (0..FULL).map(row));
    let view = database.snapshot().read_view();
    assert_eq!((check(&view, &table), check(&view, &table)), (NONE, [0, 0, 0, 0, 0, 1]));
}

/// Commits, and views of all ages, in turns.
#[test]
fn every_view_gets_codes_of_what_it_shows() {
    let database = Database::new();
    let table = lines(&database, 2 * FULL);
    let mut random = fastrand::Rng::with_seed(7);
    let (mut views, mut coded) = (Vec::new(), 0);
    for round in 0..400 {
        if round % 3 == 0 {
            let mut client = Client::begin(&database, &table, Isolation::Serializable);
            for _ in 0..random.usize(1..4) {
                let id = random.i32(0..2 * FULL);
                let changes = match random.u8(0..4) {
                    0 => vec![(DAY, Value::Date(random.i32(7000..9000)))],
                    1 => vec![(PRICE, price(id, round))],
                    2 => vec![(MODE, mode(id, round)), (FAR, Value::BigInt(random.i64(..)))],
                    _ => {
                        let is_there = client.delete(id).unwrap();
                        if !is_there || random.bool() {
                            client.insert(line(id, round)).unwrap();
                        }
                        continue;
                    }
                };
                client.update(id, changes).unwrap();
            }
            match random.u8(0..4) {
                0 => client.rollback(),
                _ => assert!(client.commit().is_ok()),
            }
        }
        views.push(database.snapshot().read_view());
        if views.len() > 5 {
            views.swap_remove(random.usize(..5));
        }
        let of = &views[random.usize(..views.len())];
        coded += check(of, &table).iter().filter(|bytes| **bytes > 0).count();
    }
    assert!(coded > 200, "only {coded} columns had codes");
}

/// Threads that commit, beside views.
#[test]
fn codes_beside_writers_are_those_of_the_view() {
    let database = Database::new();
    let table = lines(&database, FULL);
    let coded = AtomicUsize::new(0);
    let running = Running::default();
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (database, table, running) = (&database, &table, &running);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                let mut round = 0;
                while running.goes_on() {
                    round += 1;
                    let mut client = Client::begin(database, table, Isolation::RepeatableRead);
                    let id = random.i32(0..FULL);
                    let changes = vec![(DAY, day(id, round)), (MODE, mode(id, round))];
                    if client.update(id, changes).is_ok() {
                        let _lost_to_the_other = client.commit();
                    }
                    // Now and then a column stays as it is for some looks.
                    if random.u8(0..8) == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(3));
                    }
                }
            });
        }
        let _stop = running.until_drop();
        for look in 0.. {
            let view = database.snapshot().read_view();
            let bytes = check(&view, &table);
            coded.fetch_add(usize::from(bytes[DAY] > 0) + usize::from(bytes[MODE] > 0), Ordering::Relaxed);
            if look > 150 && coded.load(Ordering::Relaxed) > 60 {
                break;
            }
            assert!(look < 20_000, "only {coded:?} columns had codes");
        }
    });
}
