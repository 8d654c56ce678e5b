//! What a prepared statement of the OLTP path costs, from parameters to result, on one thread.
//!
//! `cargo bench --workspace --bench statements`

use ankerdb_engine::{Database, Result, Value};
use ankerdb_sql::{Outcome, Prepared, SqlEngine, SqlOptions, SqlSession};
use std::sync::Arc;
use std::time::Instant;

const ROWS: i32 = 100_000;

fn main() -> Result<()> {
    let engine =
        SqlEngine::new(Database::new(), SqlOptions { olap_threads: 1, memory_limit_bytes: 1 << 30 })?;
    let mut session = engine.session();
    run(&mut session, "create table t (id int primary key, n int not null, name text not null)")?;
    let insert = prepare(&mut session, "insert into t values ($1, $2, $3)")?;
    measure("insert", |id| {
        session.execute(&insert, &[Value::Integer(id), Value::Integer(0), Value::text("name")])
    })?;
    let select = prepare(&mut session, "select n, name from t where id = $1")?;
    measure("select by key", |id| session.execute(&select, &[Value::Integer(scattered(id))]))?;
    let update = prepare(&mut session, "update t set n = n + $2 where id = $1")?;
    measure("update by key", |id| {
        session.execute(&update, &[Value::Integer(scattered(id)), Value::Integer(1)])
    })?;
    run(&mut session, "begin")?;
    measure("select by key in a transaction", |id| {
        session.execute(&select, &[Value::Integer(scattered(id))])
    })?;
    run(&mut session, "rollback")?;
    let constant = prepare(&mut session, "select 1")?;
    measure("select 1", |_| session.execute(&constant, &[]))?;
    let sql = "select n, name from t where id = 4711";
    measure("select by key, parsed and planned each time", |_| {
        let prepared = prepare(&mut session, sql)?;
        session.execute(&prepared, &[])
    })
}

fn scattered(id: i32) -> i32 {
    ((i64::from(id) * 7919) % i64::from(ROWS)) as i32
}

fn prepare(session: &mut SqlSession, sql: &str) -> Result<Arc<Prepared>> {
    let statement = session.parse(sql)?.remove(0);
    session.prepare(statement, &[])
}

fn run(session: &mut SqlSession, sql: &str) -> Result<Outcome> {
    let prepared = prepare(session, sql)?;
    session.execute(&prepared, &[])
}

fn measure(what: &str, mut body: impl FnMut(i32) -> Result<Outcome>) -> Result<()> {
    let began = Instant::now();
    for id in 0..ROWS {
        body(id)?;
    }
    let each = began.elapsed().as_nanos() as f64 / f64::from(ROWS);
    println!("{what}: {:.2} us", each / 1000.0);
    Ok(())
}
