//! Statements over random rows, three ways: compiled, interpreted, and by DataFusion alone.

use super::super::After;
use super::super::Telling;
use super::{Fixture, never_canceled};
use crate::compiler_mode::CompilerMode;
use ankerdb_engine::{
    ColumnDefinition, ColumnSet, DataType, Decimal, IndexPosition, Isolation, Result, SqlState, Table,
    TableDefinition, Value,
};
use std::sync::Arc;

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % sides
    }

    /// NULL now and then.
    fn or_null(&mut self, value: Value) -> Value {
        if self.roll(8) == 0 { Value::Null } else { value }
    }
}

fn item() -> TableDefinition {
    let numeric = |precision| DataType::Numeric { precision, scale: 2 };
    TableDefinition::new("item")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("flag", DataType::Varchar(1)).nullable())
        .column(ColumnDefinition::new("status", DataType::Char(1)))
        .column(ColumnDefinition::new("day", DataType::Date).nullable())
        .column(ColumnDefinition::new("quantity", numeric(15)))
        .column(ColumnDefinition::new("price", numeric(15)).nullable())
        .column(ColumnDefinition::new("discount", numeric(4)).nullable())
        .column(ColumnDefinition::new("wide", numeric(30)))
        .column(ColumnDefinition::new("count", DataType::Integer).nullable())
        .column(ColumnDefinition::new("big", DataType::BigInt))
        .column(ColumnDefinition::new("yes", DataType::Boolean).nullable())
        .column(ColumnDefinition::new("name", DataType::Text).nullable())
        .primary_key(&["id"])
}

fn row(id: i32, dice: &mut Dice) -> Vec<Value> {
    let flags = ["A", "N", "R", ""];
    let names = ["AIR", "RAIL", "REGISTERED MAIL", "", "TWELVE CHARS"];
    let numeric = |unscaled: i128| Value::Numeric(Decimal::new(unscaled, 2));
    let flag = dice.roll(4) as usize;
    let status = ["F", "O"][dice.roll(2) as usize];
    let (flag, day) = (dice.or_null(Value::text(flags[flag])), Value::Date(8000 + dice.roll(2500) as i32));
    let day = dice.or_null(day);
    let quantity = numeric(100 * i128::from(dice.roll(50)));
    let price = numeric(i128::from(dice.roll(10_000_000)) - 5_000_000);
    let price = dice.or_null(price);
    let discount = numeric(dice.roll(11).into());
    let discount = dice.or_null(discount);
    let wide = numeric(i128::from(dice.roll(u64::MAX >> 33)).pow(2) * if dice.roll(2) == 0 { 1 } else { -1 });
    let count = Value::Integer(dice.roll(100) as i32 - 50);
    let count = dice.or_null(count);
    let big = Value::BigInt(dice.roll(1 << 30) as i64 - (1 << 29));
    let yes = Value::Boolean(dice.roll(2) == 0);
    let yes = dice.or_null(yes);
    let name = dice.roll(5) as usize;
    let name = dice.or_null(Value::text(names[name]));
    vec![
        Value::Integer(id),
        flag,
        Value::text(status),
        day,
        quantity,
        price,
        discount,
        wide,
        count,
        big,
        yes,
        name,
    ]
}

fn fixture() -> (Fixture, Arc<Table>) {
    with_memory(256 << 20)
}

fn with_memory(memory_limit_bytes: usize) -> (Fixture, Arc<Table>) {
    let fixture = Fixture::with_memory(memory_limit_bytes);
    let table = fixture.create(item());
    let mut dice = Dice(7);
    fixture.insert(&table, (0..20_000).map(|id| row(id, &mut dice)).collect());
    (fixture, table)
}

impl Fixture {
    fn query_as(&self, sql: &str, compiler: CompilerMode) -> Result<Vec<String>> {
        let plan = self.plan(sql, &[])?;
        let after = After { compiler, ..After::default() };
        let mut result = self.olap.run_after(&plan, &[], self.view(), after, never_canceled());
        let mut rows = Vec::new();
        while let Some(batch) = result.next_batch()? {
            rows.extend(batch.into_iter().map(|row| format!("{row:?}")));
        }
        rows.sort();
        Ok(rows)
    }

    fn explained(&self, sql: &str, compiler: CompilerMode) -> String {
        let plan = self.plan(sql, &[]).expect("a plan");
        let telling = Telling { verbose: false, compiler };
        let node = self.olap.explain_apart(&plan, telling, &never_canceled()).expect("a plan");
        crate::explain::lines(node).join("\n")
    }

    /// Compares the three ways.
    fn agree(&self, sql: &str) {
        let expected =
            self.query_as(sql, CompilerMode::Off).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        for mode in [CompilerMode::Always, CompilerMode::Interpreted] {
            let plan = self.explained(sql, mode);
            assert!(plan.contains("PipelineExec"), "{sql}\n{plan}");
            let found = self.query_as(sql, mode).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            assert_eq!(found, expected, "{sql}, {mode:?}");
        }
        let plan = self.explained(sql, CompilerMode::Off);
        assert!(!plan.contains("PipelineExec") && !plan.contains("compiled"), "{plan}");
    }
}

/// TPC-H's first and sixth query, by the names of this table.
const REPORTS: [&str; 2] = [
    "SELECT flag, status, sum(quantity), sum(price), sum(price * (1 - discount)), \
     sum(price * (1 - discount) * (1 + discount)), avg(quantity), avg(price), avg(discount), count(*) \
     FROM item WHERE day <= date '1998-09-02' - 90 GROUP BY flag, status",
    "SELECT sum(price * discount) FROM item WHERE day >= date '1994-01-01' AND day < date '1995-01-01' \
     AND discount BETWEEN 0.05 AND 0.07 AND quantity < 24",
];

#[test]
fn reports_agree() {
    let (fixture, table) = fixture();
    REPORTS.iter().for_each(|sql| fixture.agree(sql));
    // With rows that are gone, and a block that is not full.
    let mut dice = Dice(8);
    fixture.insert(&table, (20_000..26_000).map(|id| row(id, &mut dice)).collect());
    let deleted = fixture.database.session().run(Isolation::Serializable, |transaction| {
        (0..26_000).step_by(3).try_for_each(|id| {
            let mut key = Vec::new();
            table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
            let row = transaction.find(&table, IndexPosition(0), &key, ColumnSet::EMPTY)?;
            transaction.delete(&table, row.expect("a row for each key"))
        })
    });
    deleted.expect("rows that are there");
    REPORTS.iter().for_each(|sql| fixture.agree(sql));
}

#[test]
fn aggregates_and_conditions_agree() {
    let (fixture, _) = fixture();
    for aggregates in [
        "count(*), count(price), count(flag), count(day)",
        "sum(count), avg(count), min(count), max(count), sum(big), avg(big), min(big), max(big)",
        "min(price), max(price), min(day), max(day), min(wide), max(wide), sum(wide)",
        "sum(count + 1), sum(big * 2 - count), sum(price + quantity), sum(quantity - 1.5), sum(wide * 2)",
    ] {
        for condition in [
            "true",
            "yes",
            "NOT yes OR price > 100",
            "yes IS NULL AND discount IS NOT NULL",
            "name = 'RAIL' OR name <> 'TWELVE CHARS'",
            "name IN ('AIR', 'RAIL') AND status = 'O'",
            "count * 2 > 10 AND big / 3 < 1000",
            "flag = 'A' AND day < date '1995-06-01' AND quantity <> 3",
            "day > date '2100-01-01'",
        ] {
            fixture.agree(&format!("SELECT {aggregates} FROM item WHERE {condition}"));
            fixture.agree(&format!(
                "SELECT flag, yes, {aggregates} FROM item WHERE {condition} GROUP BY flag, yes"
            ));
        }
    }
}

impl Fixture {
    /// Compares the three ways of a query that has a selection.
    fn selections_agree(&self, sql: &str) {
        let expected =
            self.query_as(sql, CompilerMode::Off).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let ways = [
            (CompilerMode::Always, ["compiled", "by bitmaps"]),
            (CompilerMode::Interpreted, ["interpreted"; 2]),
        ];
        for (mode, how) in ways {
            let plan = self.explained(sql, mode);
            let is_there =
                |line: &str| line.contains("SelectionExec") && how.iter().any(|how| line.contains(how));
            assert!(plan.lines().any(is_there), "{sql}\n{plan}");
            let found = self.query_as(sql, mode).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
            assert_eq!(found, expected, "{sql}, {mode:?}");
        }
        assert!(!self.explained(sql, CompilerMode::Off).contains("SelectionExec"), "{sql}");
    }
}

#[test]
fn selections_agree() {
    let (fixture, table) = fixture();
    let deleted = fixture.database.session().run(Isolation::Serializable, |transaction| {
        (0..20_000).step_by(7).try_for_each(|id| {
            let mut key = Vec::new();
            table.index(IndexPosition(0)).encode(&[Value::Integer(id)], &mut key)?;
            let row = transaction.find(&table, IndexPosition(0), &key, ColumnSet::EMPTY)?;
            transaction.delete(&table, row.expect("a row for each key"))
        })
    });
    deleted.expect("rows that are there");
    for condition in [
        // All rows, none, some.
        "id >= 0",
        "day > date '2100-01-01'",
        "discount BETWEEN 0.05 AND 0.07 AND quantity < 24",
        "yes",
        "NOT yes OR price IS NULL",
        "name IN ('AIR', 'RAIL') AND status = 'O' AND wide > 0",
        "price < quantity",
        "NOT (yes AND price > 100)",
        "NOT (day < date '1995-06-01' OR count = 3 OR name = 'AIR')",
        // Without bitmaps, and after some.
        "count > big",
        "quantity > 3 AND count > big AND count < 40",
        // With what only the filter above can decide.
        "count > 3 AND name LIKE 'R%'",
        "name || flag = 'AIRA' AND quantity <> 3 AND length(name) > 2",
        "big > 0 AND big % 7 = 3",
    ] {
        for columns in ["*", "id", "name, price, wide, flag", "price * 2, length(name)", "1"] {
            fixture.selections_agree(&format!("SELECT {columns} FROM item WHERE {condition}"));
        }
        fixture.selections_agree(&format!("SELECT count(DISTINCT name) FROM item WHERE {condition}"));
    }
    // Operators that were planned by what the conditions make sure of.
    for condition in ["status = 'O'", "status = 'O' AND name LIKE 'R%'", "count = 7 AND status = 'F'"] {
        for sql in [
            "SELECT id, row_number() OVER (PARTITION BY status ORDER BY id) FROM item WHERE",
            "SELECT id, sum(price) OVER (PARTITION BY status, count ORDER BY id) FROM item WHERE",
            "SELECT status, array_agg(id ORDER BY status, id) FROM item WHERE",
        ] {
            let groups = if sql.contains("array_agg") {
                "GROUP BY status ORDER BY status"
            } else {
                "ORDER BY status, count, id"
            };
            fixture.selections_agree(&format!("{sql} {condition} {groups}"));
        }
    }
}

#[test]
fn explain_says_how_rows_are_selected() {
    let (fixture, _) = fixture();
    for (condition, how) in [
        ("quantity > 3 AND (name = 'AIR' OR yes IS NULL)", "by bitmaps"),
        ("quantity > 3 AND count > big", "by bitmaps, then compiled"),
        ("count > big", "compiled"),
    ] {
        let plan = fixture.explained(&format!("SELECT id FROM item WHERE {condition}"), CompilerMode::Always);
        let ends = |line: &str| {
            line.split(", columns=").next().is_some_and(|said| said.ends_with(&format!(", {how}")))
        };
        assert!(plan.lines().any(|line| line.contains("SelectionExec") && ends(line)), "{condition}\n{plan}");
    }
}

#[test]
fn selections_are_asked_by_joins() {
    let (fixture, _) = fixture();
    let definition = TableDefinition::new("part")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("of", DataType::Integer).nullable())
        .primary_key(&["id"]);
    let part = fixture.create(definition);
    let rows = (0..40).map(|id| {
        vec![Value::Integer(id), if id % 9 == 0 { Value::Null } else { Value::Integer(id * 13 % 50) }]
    });
    fixture.insert(&part, rows.collect());
    // Either leaves fewer rows than the other.
    for condition in ["id >= 10", "flag = 'A'", "discount = 0.05 AND quantity = 7 AND price > 0", "id < 0"] {
        for keys in ["part.id < 3", "part.id <> 5", "part.id < 0"] {
            for on in
                ["item.count = part.of", "item.id = part.id", "item.id = part.id AND item.count = part.of"]
            {
                let sql = format!(
                    "SELECT item.id, item.price, part.id FROM part JOIN item ON {on} WHERE item.{condition} AND {keys}"
                );
                fixture.selections_agree(&sql);
                let plan = fixture.explained(&sql, CompilerMode::Always);
                let is_asked = |line: &str| line.contains("SelectionExec") && line.contains("asked by joins");
                assert!(plan.lines().any(is_asked), "{sql}\n{plan}");
            }
        }
    }
}

#[test]
fn many_groups_in_little_memory_agree() {
    // A group for each row: 20,000 of them, of which the memory holds a part; the rest is spilled.
    let sql = "SELECT id, count(*), sum(big), min(price) FROM item GROUP BY id";
    let expected = fixture().0.query_as(sql, CompilerMode::Off).expect("enough memory");
    assert_eq!(expected.len(), 20_000);
    let mut answered = 0;
    for memory in [1, 2, 3, 4, 6].map(|megabytes| megabytes << 20) {
        let (small, _) = with_memory(memory);
        assert!(small.explained(sql, CompilerMode::Always).contains("PipelineExec: compiled"));
        for mode in [CompilerMode::Always, CompilerMode::Interpreted] {
            match small.query_as(sql, mode) {
                Ok(found) => {
                    assert_eq!(found, expected, "{mode:?}, {memory} bytes");
                    answered += 1;
                }
                Err(error) => assert_eq!(error.state(), SqlState::OutOfMemory, "{mode:?}, {memory} bytes"),
            }
        }
    }
    assert!(answered >= 4, "only {answered} of 10 were answered");
    // Not even a few thousand groups.
    let (smaller, _) = with_memory(64 << 10);
    let error = smaller.query_as(sql, CompilerMode::Always).expect_err("too little");
    assert_eq!(error.state(), SqlState::OutOfMemory);
    assert_eq!(
        smaller.query_as("SELECT count(*) FROM item", CompilerMode::Always),
        Ok(vec!["[BigInt(20000)]".to_owned()])
    );
}

#[test]
fn errors_are_the_same_states() {
    let (fixture, _) = fixture();
    for (sql, state) in [
        ("SELECT sum(count * 100000000) FROM item", SqlState::NumericValueOutOfRange),
        ("SELECT sum(big * 9223372036854775807) FROM item", SqlState::NumericValueOutOfRange),
        ("SELECT count(*) FROM item WHERE 1000 / (count - 7) > 2", SqlState::DivisionByZero),
    ] {
        for mode in [CompilerMode::Always, CompilerMode::Interpreted, CompilerMode::Off] {
            assert_eq!(fixture.query_as(sql, mode).expect_err(sql).state(), state, "{sql}, {mode:?}");
        }
        assert!(fixture.explained(sql, CompilerMode::Always).contains("PipelineExec: compiled"), "{sql}");
    }
}

#[test]
fn explain_says_why_others_are_not_compiled() {
    let (fixture, _) = fixture();
    for (sql, reason) in [
        ("SELECT name, count(*) FROM item GROUP BY name", "groups by texts of more than 12 bytes"),
        ("SELECT sum(price) FILTER (WHERE yes) FROM item", "FILTER"),
        ("SELECT count(DISTINCT flag) FROM item", ""),
        ("SELECT max(name) FROM item", "max of text(2)"),
        ("SELECT count(*) FROM item a JOIN item b USING (id)", "HashJoinExec below"),
    ] {
        let plan = fixture.explained(sql, CompilerMode::Always);
        assert!(plan.contains(&format!("not compiled: {reason}")), "{sql}\n{plan}");
    }
}
