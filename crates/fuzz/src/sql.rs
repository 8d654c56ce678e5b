//! The text of statements: parsed, and planned over a catalog with some of everything. Nothing is executed.

use ankerdb_engine::{Configuration, Database, Options};
use ankerdb_sql::{SqlEngine, SqlOptions, SqlSession};
use std::path::Path;
use std::sync::OnceLock;

/// What texts can name.
const CATALOG: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE DOMAIN positive AS int CHECK (value > 0);
    CREATE TABLE t (id int PRIMARY KEY, s smallint, i int, l bigint, r real, d double precision, n numeric(10,2), x text, v varchar(5),
        c char(4), b boolean, day date, at timestamp, tz timestamptz, span interval, u uuid, y bytea, j jsonb, a int[], m mood, p positive);
    CREATE TABLE u (id int PRIMARY KEY REFERENCES t, k int UNIQUE, g int GENERATED ALWAYS AS (k + 1) STORED);
    CREATE INDEX ON t (lower(x));
    CREATE SEQUENCE q;
    CREATE VIEW w AS SELECT t.id, count(*) AS many FROM t JOIN u ON t.id = u.id GROUP BY t.id;
    CREATE MATERIALIZED VIEW z AS SELECT i, sum(n) FROM t GROUP BY i;
    CREATE SCHEMA other;
    CREATE TABLE other.t (id int, x text DEFAULT 'x')";

/// Runs statements of ours, which succeed.
pub(crate) fn run_all(session: &mut SqlSession, text: &str) {
    for statement in session.parse(text).expect("statements") {
        let prepared = session.prepare(statement, &[]).expect("statements of ours are right");
        session.execute(&prepared, &[]).expect("and run");
    }
}

/// A new database in memory, and not much of it.
pub(crate) fn engine() -> SqlEngine {
    let options = Options { memory_limit: Some(1 << 30), ..Configuration::default().into() };
    let database = Database::open(options).expect("a database");
    SqlEngine::new(database, SqlOptions { olap_threads: 1, memory_limit_bytes: 128 << 20 }).expect("threads")
}

fn shared() -> &'static SqlEngine {
    static ENGINE: OnceLock<SqlEngine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let engine = engine();
        run_all(&mut engine.session(), CATALOG);
        engine
    })
}

/// Parses the text and plans its statements, each in a session that knows nothing of the others. Text that is no UTF-8 does not come here.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let engine = shared();
    for statement in engine.session().parse(text).unwrap_or_default() {
        // What is wrong with it is said by an error.
        let _ = engine.session().prepare(statement, &[]);
    }
}

/// The statements of the SQL tests, in as far as they are on one line.
pub fn seeds() -> Vec<Vec<u8>> {
    // Tests may have been built in another folder.
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let folder = Path::new(&here).join("../server/tests/slt");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    let texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
    let mut seeds: Vec<Vec<u8>> = texts.flat_map(|text| statements(&text)).collect();
    seeds.push(CATALOG.into());
    seeds
}

/// The lines behind `statement` and `query`.
fn statements(text: &str) -> Vec<Vec<u8>> {
    let follows = |line: &str| line.starts_with("statement ") || line.starts_with("query ");
    let pairs = text.lines().zip(text.lines().skip(1));
    pairs.filter(|(line, _)| follows(line)).map(|(_, statement)| statement.into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_of_the_tests_are_found() {
        let found = statements("# a\n\nstatement ok\nSELECT 1\n\nquery I\nSELECT 2\n----\n2\n");
        assert_eq!(found, [b"SELECT 1", b"SELECT 2"]);
        assert!(seeds().len() > 1_000, "{}", seeds().len());
    }
}
