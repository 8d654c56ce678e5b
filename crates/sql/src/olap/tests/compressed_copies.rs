//! Conditions that read compressed copies of columns, beside the same conditions without the compiler.

use super::super::scan::BLOCKS_IN_CODES;
use super::{Fixture, numeric};
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, IndexPosition, Isolation, ROWS_PER_BLOCK, Table, TableDefinition,
    Value,
};
use std::sync::Arc;

/// The last block is not full.
const ROWS: i32 = 40_000;
const FULL_BLOCKS: usize = ROWS as usize / ROWS_PER_BLOCK;

/// `line(id, day, price, mode, big)`, with NULLs, negative numbers and long texts.
fn fixture() -> (Fixture, Arc<Table>) {
    let fixture = Fixture::new();
    let definition = TableDefinition::new("line")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("day", DataType::Date).nullable())
        .column(ColumnDefinition::new("price", DataType::Numeric { precision: 15, scale: 2 }))
        .column(ColumnDefinition::new("mode", DataType::Varchar(30)).nullable())
        .column(ColumnDefinition::new("big", DataType::BigInt))
        .primary_key(&["id"]);
    let table = fixture.create(definition);
    for start in (0..ROWS).step_by(10_000) {
        fixture.insert(&table, (start..start + 10_000).map(line).collect());
    }
    (fixture, table)
}

fn line(id: i32) -> Vec<Value> {
    let modes = ["AIR", "MAIL", "SHIP", "REG AIR", "DELIVER IN PERSON", "TAKE BACK RETURN"];
    let is_null = |number: i32| id % number == 0;
    let mode = Value::text(modes[id as usize * 7 % 6]);
    vec![
        Value::Integer(id),
        if is_null(13) { Value::Null } else { Value::Date(8_000 + id * 31 % 2_500) },
        numeric(i128::from(id * 17 % 10_000) - 5_000, 2),
        if is_null(17) { Value::Null } else { mode },
        Value::BigInt(i64::from(id % 300) - 5_000_000_000),
    ]
}

#[test]
fn codes_fulfil_a_condition_where_values_do() {
    let (fixture, _) = fixture();
    let mut conditions = Vec::new();
    for (column, constants) in [
        ("id", ["0", "20000", "-1"]),
        ("day", ["date '1995-01-01'", "date '1991-11-27'", "date '1900-01-01'"]),
        ("price", ["0.00", "-50.00", "49.99"]),
        ("mode", ["'AIR'", "'REG AIR'", "'ROCKET'"]),
        ("big", ["-5000000000", "-4999999701", "9000000000000"]),
    ] {
        for constant in constants {
            let orders: &[&str] =
                if column == "mode" { &["=", "<>"] } else { &["=", "<>", "<", "<=", ">", ">="] };
            conditions.extend(orders.iter().map(|order| format!("{column} {order} {constant}")));
        }
    }
    conditions.extend(
        [
            "mode IN ('MAIL', 'SHIP') AND day >= date '1994-01-01' AND day < date '1995-01-01'",
            "NOT (price BETWEEN -10.00 AND 10.00) AND big > -4999999900",
            "mode IS NULL OR mode = 'AIR' OR day IS NULL AND id > 30000",
            "day > date '1993-01-01' AND price * 2 > 90",
        ]
        .map(String::from),
    );
    let mut coded = 0;
    for condition in &conditions {
        for columns in ["count(*), sum(price), min(day)", "id, mode"] {
            let sql = format!("SELECT {columns} FROM line WHERE {condition}");
            // The first one of all that reads a column finds no copy, and the second one makes it.
            let counts: Vec<usize> = (0..3).map(|_| fixture.counted(&sql, BLOCKS_IN_CODES)).collect();
            assert!(counts.iter().all(|&count| count <= FULL_BLOCKS), "{sql}: {counts:?}");
            coded += usize::from(counts[2] == FULL_BLOCKS);
        }
    }
    // Others skip blocks, or let most rows pass, for which the whole pipeline runs at once.
    assert!(coded > 60, "only {coded} of {} queries read codes of all blocks", 2 * conditions.len());
}

#[test]
fn copies_are_made_for_the_second_reader() {
    let (fixture, _) = fixture();
    let sql = "SELECT count(*) FROM line WHERE day = date '1995-01-01' AND mode = 'AIR'";
    let counts: Vec<usize> = (0..3).map(|_| fixture.counted(sql, BLOCKS_IN_CODES)).collect();
    assert_eq!(counts, [0, FULL_BLOCKS, FULL_BLOCKS]);
    assert_eq!(fixture.counted("SELECT count(*) FROM line WHERE day = day", BLOCKS_IN_CODES), 0);
    // No block is read in codes for a condition that bitmaps do not decide.
    assert_eq!(fixture.counted("SELECT count(*) FROM line WHERE price + 1 > 50", BLOCKS_IN_CODES), 0);
}

#[test]
fn each_view_reads_codes_of_what_it_shows() {
    let (fixture, table) = fixture();
    let set_mode = |id: i32, mode: &str| {
        let changed = fixture.database.session().run(Isolation::Serializable, |transaction| {
            let mut key = Vec::new();
            table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
            let row = transaction.find(&table, IndexPosition(0), &key, ColumnSet::EMPTY)?;
            transaction.update(&table, row.expect("the row is there"), vec![(3, Value::text(mode))])
        });
        changed.expect("nobody else writes");
    };
    let sql = "SELECT id FROM line WHERE mode = 'ROCKET'";
    let mut views = vec![(fixture.view(), vec![])];
    for (id, mode, expected) in [
        (7, "ROCKET", vec![7]),
        (20_000, "ROCKET", vec![7, 20_000]),
        (7, "a rocket that is not yet ready", vec![20_000]),
        (39_999, "ROCKET", vec![20_000, 39_999]),
        (20_000, "AIR", vec![39_999]),
    ] {
        set_mode(id, mode);
        views.push((fixture.view(), expected));
        for _ in 0..3 {
            for (view, ids) in &views {
                let mut expected: Vec<String> = ids.iter().map(|id| format!("[Integer({id})]")).collect();
                expected.sort();
                assert_eq!(
                    fixture.rows_of(sql, view, CompilerMode::Always),
                    expected,
                    "after {mode} of {id}"
                );
            }
        }
    }
    assert_eq!(fixture.counted(sql, BLOCKS_IN_CODES), FULL_BLOCKS);
}
