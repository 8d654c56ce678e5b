//! How queries fail: with PostgreSQL's codes, and alone.

use super::*;
use crate::rows::{Lasting, ResultRows, RunEnd};
use ankerdb_engine::SqlState;
use std::time::{Duration, Instant};

fn state(fixture: &Fixture, sql: &str) -> SqlState {
    match fixture.query(sql) {
        Ok(rows) => panic!("{sql}: gave {rows:?}"),
        Err(error) => error.state(),
    }
}

#[test]
fn unknown_names_have_codes_of_their_own() {
    let fixture = Fixture::with_lines(3);
    let error = fixture.query("select * from nothing").unwrap_err();
    assert_eq!(
        (error.state(), error.message()),
        (SqlState::UndefinedTable, "relation \"nothing\" does not exist")
    );
    let error = fixture.query("select colour from line").unwrap_err();
    assert_eq!(
        (error.state(), error.message()),
        (SqlState::UndefinedColumn, "column \"colour\" does not exist")
    );
    let error = fixture.query("select l.colour from line l").unwrap_err();
    assert_eq!(
        (error.state(), error.message()),
        (SqlState::UndefinedColumn, "column l.colour does not exist")
    );
    assert_eq!(state(&fixture, "select id from line a, line b"), SqlState::AmbiguousColumn);
    assert_eq!(state(&fixture, "select frobnicate(id) from line"), SqlState::UndefinedFunction);
    assert_eq!(state(&fixture, "select sum(info) from line"), SqlState::UndefinedFunction);
    assert_eq!(state(&fixture, "select * from elsewhere.line"), SqlState::UndefinedTable);
}

#[test]
fn misused_expressions_have_codes_of_their_own() {
    let fixture = Fixture::with_lines(3);
    assert_eq!(state(&fixture, "select id, count(*) from line"), SqlState::GroupingError);
    assert_eq!(state(&fixture, "select * from line where id"), SqlState::DatatypeMismatch);
    assert_eq!(state(&fixture, "select 1/0"), SqlState::DivisionByZero);
    assert_eq!(state(&fixture, "select id / (id - id) from line"), SqlState::DivisionByZero);
    assert_eq!(state(&fixture, "select amount / 0 from line"), SqlState::DivisionByZero);
    assert_eq!(state(&fixture, "select 9223372036854775807 + 1"), SqlState::NumericValueOutOfRange);
    assert_eq!(
        state(&fixture, "select (id + 2147483640)::smallint from line"),
        SqlState::NumericValueOutOfRange
    );
    assert_eq!(state(&fixture, "select cast('12x' as integer)"), SqlState::InvalidTextRepresentation);
    assert_eq!(
        state(&fixture, "select cast(info as integer) from line"),
        SqlState::InvalidTextRepresentation
    );
    assert_eq!(state(&fixture, "select cast('tomorrowish' as date)"), SqlState::InvalidDatetimeFormat);
    assert_eq!(state(&fixture, "select $1 from line where id = $0"), SqlState::UndefinedParameter);
}

#[test]
fn sums_fail_instead_of_wrapping_around() {
    let fixture = Fixture::new();
    let table = fixture.create(
        TableDefinition::new("big")
            .column(ColumnDefinition::new("b", DataType::BigInt))
            .column(ColumnDefinition::new("n", DataType::Numeric { precision: 38, scale: 0 })),
    );
    let largest = 10i128.pow(38) - 1;
    fixture.insert(&table, vec![vec![Value::BigInt(i64::MAX), numeric(largest, 0)]; 2]);
    assert_eq!(fixture.value("select sum(b) from big"), numeric(i128::from(i64::MAX) * 2, 0));
    assert_eq!(state(&fixture, "select sum(n) from big"), SqlState::NumericValueOutOfRange);
    assert_eq!(state(&fixture, "select b + b from big"), SqlState::NumericValueOutOfRange);
    assert_eq!(state(&fixture, "select b * 2 from big"), SqlState::NumericValueOutOfRange);
}

#[test]
fn a_query_past_its_memory_fails_alone() {
    let fixture = Fixture::with_memory(128 << 10);
    let table =
        fixture.create(TableDefinition::new("t").column(ColumnDefinition::new("a", DataType::Integer)));
    fixture.insert(&table, (0..50_000).map(|value| vec![Value::Integer(value)]).collect());
    let hungry = "select count(*) from t x join t y on x.a = y.a";
    assert_eq!(state(&fixture, hungry), SqlState::OutOfMemory);
    assert_eq!(fixture.value("select count(*) from t"), Value::BigInt(50_000));
}

#[test]
fn a_canceled_query_ends_with_57014() {
    let fixture = Fixture::with_lines(20_000);
    let endless =
        fixture.plan("select count(*) from line a, line b, line c where a.id + b.id > c.id", &[]).unwrap();
    let table = fixture.database.catalog().table("line").unwrap();
    let holders = Arc::strong_count(&table);
    let cancel = never_canceled();
    let mut rows = fixture.olap.run(&endless, &[], fixture.view(), cancel.clone());
    std::thread::sleep(Duration::from_millis(50));
    cancel.cancel();
    assert_eq!(rows.next_batch().unwrap_err().state(), SqlState::QueryCanceled);
    assert!(rows.next_batch().unwrap().is_none());
    assert_eq!(fixture.value("select count(*) from line"), Value::BigInt(20_000));
    wait_until_let_go(&table, holders);
}

/// Waits until as few hold the table as before the query ran.
fn wait_until_let_go(table: &Arc<Table>, holders: usize) {
    for _ in 0..1000 {
        if Arc::strong_count(table) <= holders {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the query still holds its table 10 s after its end");
}

#[test]
fn dropping_the_rows_ends_the_query() {
    let fixture = Fixture::with_lines(20_000);
    let plan = fixture.plan("select a.id from line a, line b", &[]).unwrap();
    let table = fixture.database.catalog().table("line").unwrap();
    let holders = Arc::strong_count(&table);
    let mut rows = fixture.olap.run(&plan, &[], fixture.view(), never_canceled());
    assert!(!rows.next_batch().unwrap().unwrap().is_empty());
    assert!(Arc::strong_count(&table) > holders, "a running query holds its table");
    drop(rows);
    wait_until_let_go(&table, holders);
}

/// Pairs of rows to look at between two rows of its result: ten seconds' worth and more.
const REJECTING: &str = "select count(*) from line a, line b where (a.id * 31 + b.id * 17) % 1000003 = -1";

#[test]
fn a_join_that_rejects_everything_ends_soon_after_its_query() {
    let fixture = Fixture::with_lines(200_000);
    let table = fixture.database.catalog().table("line").unwrap();
    for is_canceled in [true, false] {
        // One of its own, since a plan that runs twice holds the table for later runs.
        let plan = fixture.plan(REJECTING, &[]).unwrap();
        let holders = Arc::strong_count(&table);
        let cancel = never_canceled();
        let rows = fixture.olap.run(&plan, &[], fixture.view(), cancel.clone());
        std::thread::sleep(Duration::from_millis(300));
        assert!(Arc::strong_count(&table) > holders, "a running query holds its table");
        if is_canceled {
            cancel.cancel();
        } else {
            drop(rows);
        }
        let ended = Instant::now();
        wait_until_let_go(&table, holders);
        assert!(ended.elapsed() < Duration::from_secs(2), "{:?}", ended.elapsed());
    }
}

#[test]
fn a_join_of_many_pairs_gives_way_to_other_queries() {
    let fixture = Fixture::with_lines(200_000);
    let heavy = "select count(*) from line a, line b where (a.id * 31 + b.id * 17) % 1009 = 5";
    let plan = fixture.plan(heavy, &[]).unwrap();
    // More of them than there are threads.
    let heavy: Vec<ResultRows> =
        (0..4).map(|_| fixture.olap.run(&plan, &[], fixture.view(), never_canceled())).collect();
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    assert_eq!(fixture.value("select count(*) from line"), Value::BigInt(200_000));
    // A join that counts batches only, and not its time, keeps the others waiting for minutes.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(heavy);
}

#[test]
fn a_join_that_rejects_everything_gives_way_to_other_queries() {
    let fixture = Fixture::with_lines(50_000);
    // A condition that takes so long that the pairs of one block take a minute.
    let text = "repeat((a.id + b.id)::text, 20) = 'none'";
    let rejecting = format!("select count(*) from line a, line b where {text}");
    let plan = fixture.plan(&rejecting, &[]).unwrap();
    // More of them than there are threads.
    let heavy: Vec<ResultRows> =
        (0..4).map(|_| fixture.olap.run(&plan, &[], fixture.view(), never_canceled())).collect();
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    assert_eq!(fixture.value("select count(*) from line"), Value::BigInt(50_000));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(heavy);
}

/// A subquery's value for each of many rows, of more than one batch.
const VALUES: &str = "select max((select b.info from line b where b.id = a.id + 1)) from line a";

#[test]
fn a_subquery_of_each_row_past_its_memory_fails_alone() {
    let fixture = Fixture::with_lines(50_000);
    assert_eq!(fixture.value(VALUES), Value::text("information about 9999"));
    let share = SqlOptions { olap_threads: 2, memory_limit_bytes: 256 << 10 };
    let small = OlapEngine::new(&fixture.database, &share).unwrap();
    let small = Fixture { database: fixture.database.clone(), olap: small };
    assert_eq!(state(&small, VALUES), SqlState::OutOfMemory);
    assert_eq!(small.value("select count(*) from line"), Value::BigInt(50_000));
}

#[test]
fn a_subquery_of_each_row_ends_with_its_query() {
    let fixture = Fixture::with_lines(20_000);
    // So many rows of the subquery that they take minutes.
    let many = "select max((select max(d.info) from line b, line c, line d where b.district = c.district \
                and c.district = d.district and b.id = a.id)) from line a";
    let plan = fixture.plan(many, &[]).unwrap();
    let table = fixture.database.catalog().table("line").unwrap();
    let holders = Arc::strong_count(&table);
    let cancel = never_canceled();
    let mut rows = fixture.olap.run(&plan, &[], fixture.view(), cancel.clone());
    std::thread::sleep(Duration::from_millis(200));
    cancel.cancel();
    assert_eq!(rows.next_batch().unwrap_err().state(), SqlState::QueryCanceled);
    wait_until_let_go(&table, holders);
}

#[test]
fn a_panic_is_the_error_of_one_query() {
    let fixture = Fixture::with_lines(3);
    let start = async { panic!("on purpose") };
    let threads = &fixture.olap.threads;
    let (cancel, end) = (never_canceled(), RunEnd::default());
    let mut rows = threads.rows(Vec::new().into(), start, Lasting::WithBatch, cancel, end);
    let error = rows.next_batch().unwrap_err();
    assert_eq!(error.state(), SqlState::InternalError);
    assert!(error.message().contains("on purpose"));
    assert_eq!(fixture.value("select count(*) from line"), Value::BigInt(3));
}
