//! The cost of common scalar operations of analytical queries for each row, beyond an aggregate of the column itself.
//!
//! `cargo bench --workspace --bench expressions -- ROWS ROUNDS`: nanoseconds of one analytical thread for each
//! row, from the medians of rounds that alternate between the expressions.

use ankerdb_engine::{Database, ReadView, Result};
use ankerdb_sql::{AnalyticalQuery, Outcome, SqlEngine, SqlOptions};
use std::time::{Duration, Instant};

/// An aggregate of an expression, and the one of its column that it is compared with.
const EXPRESSIONS: &[(&str, &str)] = &[
    ("sum(cast(n as int))", "sum(n)"),
    ("sum(cast(n as bigint))", "sum(n)"),
    ("sum(cast(n as numeric(10,1)))", "sum(n)"),
    ("sum(cast(n as real))", "sum(n)"),
    ("sum(cast(d as int))", "sum(d)"),
    ("sum(cast(d as numeric(12,2)))", "sum(d)"),
    ("sum(cast(d as real))", "sum(d)"),
    ("sum(cast(k as smallint))", "sum(k)"),
    ("sum(cast(k as numeric(12,2)))", "sum(k)"),
    ("sum(k % 7)", "sum(k)"),
    ("sum(b % 7)", "sum(b)"),
    ("sum(n % 7)", "sum(n)"),
    ("sum(n / 7)", "sum(n)"),
    ("max(abs(k - 5))", "max(k)"),
    ("sum(-k)", "sum(k)"),
    ("sum(abs(n))", "sum(n)"),
    ("sum(round(n, 1))", "sum(n)"),
    ("sum(trunc(n))", "sum(n)"),
    ("sum(floor(n))", "sum(n)"),
    ("sum(ceil(d))", "sum(d)"),
    ("sum(round(d))", "sum(d)"),
    ("sum(greatest(k, 5))", "sum(k)"),
    ("sum(cast(digits as int))", "max(digits)"),
    ("sum(cast(digits as numeric(12,2)))", "max(digits)"),
    ("max(cast(k as text))", "max(digits)"),
    ("sum(length(x))", "max(x)"),
    ("max(upper(x))", "max(x)"),
    ("max(left(x, 5))", "max(x)"),
    ("max(trim(x))", "max(x)"),
    ("max(cast(x as varchar(8)))", "max(x)"),
    ("max(replace(x, 'a', 'b'))", "max(x)"),
    ("sum(strpos(x, '9'))", "max(x)"),
    ("count(nullif(x like '%9%', true))", "max(x)"),
    ("count(nullif(x like digits, true))", "max(x)"),
];

/// Rows of one statement that fills the table.
const ROWS_PER_INSERT: usize = 100_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .map(|argument| argument.parse().expect("a number"));
    let (rows, rounds) = (arguments.next().unwrap_or(600_000), arguments.next().unwrap_or(11));
    let database = Database::new();
    let sql = SqlEngine::new(database.clone(), SqlOptions { olap_threads: 1, memory_limit_bytes: 1 << 30 })?;
    load(&sql, rows)?;
    let view = database.snapshot().read_view();
    let queries =
        EXPRESSIONS.iter().map(|&(computed, plain)| Ok((planned(&sql, computed)?, planned(&sql, plain)?)));
    let queries = queries.collect::<Result<Vec<_>>>()?;
    let mut times = vec![(Vec::new(), Vec::new()); queries.len()];
    for _ in 0..rounds {
        for ((computed, plain), (computed_times, plain_times)) in queries.iter().zip(&mut times) {
            computed_times.push(timed(computed, &view)?);
            plain_times.push(timed(plain, &view)?);
        }
    }
    println!("{:38} {:>8} {:>8} {:>8}", "ns per row", "whole", "column", "more");
    for ((expression, _), (computed, plain)) in EXPRESSIONS.iter().zip(&mut times) {
        let each = |time: Duration| time.as_nanos() as f64 / rows as f64;
        let (computed, plain) = (each(median(computed)), each(median(plain)));
        println!("{expression:38} {computed:8.1} {plain:8.1} {:8.1}", computed - plain);
    }
    Ok(())
}

fn planned(sql: &SqlEngine, aggregate: &str) -> Result<AnalyticalQuery> {
    sql.plan(&format!("select {aggregate} from t"))
}

fn timed(query: &AnalyticalQuery, view: &ReadView) -> Result<Duration> {
    let started = Instant::now();
    std::hint::black_box(query.run(view)?);
    Ok(started.elapsed())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn load(sql: &SqlEngine, rows: usize) -> Result<()> {
    run(
        sql,
        "create table t (id bigint primary key, k int, b bigint, n numeric(12,2), d double precision, digits text, x text)",
    )?;
    for first in (0..rows).step_by(ROWS_PER_INSERT) {
        let last = rows.min(first + ROWS_PER_INSERT) - 1;
        run(
            sql,
            &format!(
                "insert into t select i, cast(i % 20011 as int), i * 7919, cast(i % 100003 as numeric(12,2)) / 4, \
                 cast(i % 100003 as double precision) / 7, cast(i % 100003 as text), \
                 concat('row number ', cast(i as text)) from generate_series({first}, {last}) as g(i)"
            ),
        )?;
    }
    Ok(())
}

fn run(sql: &SqlEngine, text: &str) -> Result<Outcome> {
    let mut session = sql.session();
    let statement = session.parse(text)?.remove(0);
    let prepared = session.prepare(statement, &[])?;
    session.execute(&prepared, &[])
}
