//! Blocks that are not read since no row in them can fulfil a condition, beside the same query over all of them.

use super::super::scan::BLOCKS_SKIPPED;
use super::{Fixture, numeric};
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, IndexPosition, Isolation, Table, TableDefinition, Value,
};
use std::sync::Arc;

const ROWS: i32 = 100_000;
const BLOCKS: usize = (ROWS as usize).div_ceil(ankerdb_engine::ROWS_PER_BLOCK);

/// `event(id, day, amount, big, note)`, whose values grow, or shrink, with the id; the last ones have no day.
fn fixture() -> (Fixture, Arc<Table>) {
    let fixture = Fixture::new();
    let definition = TableDefinition::new("event")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("day", DataType::Date).nullable())
        .column(ColumnDefinition::new("amount", DataType::Numeric { precision: 12, scale: 2 }))
        .column(ColumnDefinition::new("big", DataType::BigInt))
        .column(ColumnDefinition::new("note", DataType::Varchar(3)))
        .primary_key(&["id"]);
    let table = fixture.create(definition);
    let row = |id: i32| {
        let day = if id < 50_000 { Value::Date(8_000 + id / 100) } else { Value::Null };
        let big = Value::BigInt((50_000 - i64::from(id)) * 10_000_000_000);
        vec![Value::Integer(id), day, numeric(i128::from(id) - 50_000, 2), big, Value::text("abc")]
    };
    for start in (0..ROWS).step_by(10_000) {
        fixture.insert(&table, (start..start + 10_000).map(row).collect());
    }
    (fixture, table)
}

impl Fixture {
    fn set_amount(&self, table: &Arc<Table>, id: i32, amount: Value) {
        let changed = self.database.session().run(Isolation::Serializable, |transaction| {
            let mut key = Vec::new();
            table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
            let row = transaction.find(table, IndexPosition(0), &key, ColumnSet::EMPTY)?;
            transaction.update(table, row.expect("the row is there"), vec![(2, amount.clone())])
        });
        changed.expect("nobody else writes");
    }
}

#[test]
fn blocks_whose_bounds_no_row_passes_are_not_read() {
    let (fixture, _) = fixture();
    for (condition, least) in [
        ("id >= 90000", BLOCKS - 3),
        ("id BETWEEN 20000 AND 20010 AND note = 'abc'", BLOCKS - 2),
        ("NOT (id > 100)", BLOCKS - 1),
        ("id < 100 OR amount > 499.90", BLOCKS - 2),
        ("day = date '1991-12-17'", BLOCKS - 2),
        ("day > date '1900-01-01'", BLOCKS / 2 - 1),
        ("amount <= -499.99", BLOCKS - 1),
        ("499900000000000 < big", BLOCKS - 1),
        ("id = -5", BLOCKS),
    ] {
        for columns in ["count(*), sum(amount)", "id, amount, note"] {
            let sql = format!("SELECT {columns} FROM event WHERE {condition}");
            let skipped = fixture.counted(&sql, BLOCKS_SKIPPED);
            assert!((least..=BLOCKS).contains(&skipped), "{sql}: {skipped} of {BLOCKS} are skipped");
        }
    }
    for condition in ["note = 'abc'", "id <> 5", "day IS NULL", "id > 5 OR note = 'x'", "id % 2 = 0"] {
        assert_eq!(
            fixture.counted(&format!("SELECT id FROM event WHERE {condition}"), BLOCKS_SKIPPED),
            0,
            "{condition}"
        );
    }
}

#[test]
fn blocks_whose_bounds_have_no_key_of_a_join_are_not_read() {
    let (fixture, table) = fixture();
    let few = fixture.create(
        TableDefinition::new("few")
            .column(ColumnDefinition::new("k", DataType::Integer).nullable())
            .column(ColumnDefinition::new("big", DataType::BigInt)),
    );
    let rows = [7, 8, 20_000, 99_999, 400_000]
        .map(|k| vec![Value::Integer(k), Value::BigInt((50_000 - i64::from(k)) * 10_000_000_000)]);
    fixture.insert(&few, rows.to_vec());
    for (condition, least) in [
        ("id = k", BLOCKS - 3),
        ("id = k AND amount > 0", BLOCKS - 2),
        ("id = k AND note = 'abc'", BLOCKS - 3),
        ("id = k AND k > 1000 AND k < 30000", BLOCKS - 1),
        ("id = k AND k > 100000", BLOCKS),
    ] {
        let sql = format!("SELECT id, amount, k FROM few JOIN event ON {condition}");
        let skipped = fixture.counted(&sql, BLOCKS_SKIPPED);
        assert!((least..=BLOCKS).contains(&skipped), "{sql}: {skipped} of {BLOCKS} are skipped");
    }
    // These lie too far apart for a set, and every block has a row without a partner here.
    for sql in [
        "SELECT id FROM few JOIN event ON event.big = few.big",
        "SELECT id, k FROM event LEFT JOIN few ON id = k",
        "SELECT id FROM event WHERE id NOT IN (SELECT k FROM few WHERE k IS NOT NULL)",
    ] {
        assert_eq!(fixture.counted(sql, BLOCKS_SKIPPED), 0, "{sql}");
    }
    // Into a block that had no such key, as a view after it shows.
    fixture.set_amount(&table, 50_000, numeric(7, 2));
    assert!(fixture.counted("SELECT id FROM few JOIN event ON id = k", BLOCKS_SKIPPED) >= BLOCKS - 3);
}

#[test]
fn what_an_older_view_shows_is_within_the_bounds() {
    let (fixture, table) = fixture();
    let before = fixture.view();
    fixture.set_amount(&table, 7, numeric(9_999_999, 2));
    fixture.set_amount(&table, 99_999, numeric(-9_999_999, 2));
    let after = fixture.view();
    fixture.set_amount(&table, 7, numeric(0, 2));
    for (view, condition, ids) in [
        (&before, "amount = -499.93", vec![7]),
        (&before, "amount > 99999", vec![]),
        (&after, "amount > 99999", vec![7]),
        (&after, "amount < -99999", vec![99_999]),
        (&fixture.view(), "amount > 99999", vec![]),
        (&fixture.view(), "amount = 0", vec![7, 50_000]),
    ] {
        let sql = format!("SELECT id FROM event WHERE {condition}");
        let mut expected: Vec<String> = ids.iter().map(|id| format!("[Integer({id})]")).collect();
        expected.sort();
        for mode in [CompilerMode::Always, CompilerMode::Off] {
            assert_eq!(fixture.rows_of(&sql, view, mode), expected, "{sql}, {mode:?}");
        }
    }
}
