//! What clients read beside rows: which column of which table a result shows, and the fields of errors. The figures are PostgreSQL 15's,
//! but for the numbers of tables.

use crate::client::{Client, Reported};
use crate::server::TestServer;

fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run(
        "CREATE TABLE t (a int PRIMARY KEY, b text NOT NULL, c int NOT NULL CHECK (c > 0), d numeric(5,2))",
    );
    client.run("CREATE TABLE u (a int, e text)");
    client.run("CREATE VIEW v AS SELECT b, a FROM t");
    client.run("INSERT INTO t VALUES (1, 'x', 1, 1)");
    (server, client)
}

/// The relations and numbers of the columns that a query gives.
fn sources(client: &mut Client, sql: &str) -> Vec<String> {
    let simple = client.run(sql).columns;
    let mut named = |oid: u32| match oid {
        0 => "-".to_owned(),
        oid => client.run(&format!("SELECT {oid}::regclass")).cell(),
    };
    let sources = simple.iter().map(|column| format!("{}.{}", named(column.table), column.number)).collect();
    let extended = client.extended(sql, &[]).ok().columns;
    let places = |columns: &[crate::client::Column]| -> Vec<(u32, i16)> {
        columns.iter().map(|column| (column.table, column.number)).collect()
    };
    assert_eq!(places(&simple), places(&extended), "{sql}");
    sources
}

#[test]
fn columns_tell_which_column_of_which_table_they_are() {
    let (_server, mut client) = start();
    let mut check = |sql: &str, expected: &[&str]| assert_eq!(sources(&mut client, sql), expected, "{sql}");
    check("SELECT * FROM t", &["t.1", "t.2", "t.3", "t.4"]);
    check("SELECT b AS x, a + 1, (a), 1, count(*) OVER () FROM t", &["t.2", "-.0", "t.1", "-.0", "-.0"]);
    check("SELECT * FROM t WHERE a = 1", &["t.1", "t.2", "t.3", "t.4"]);
    check("SELECT u.*, t.b, e FROM u, t", &["u.1", "u.2", "t.2", "u.2"]);
    check("SELECT * FROM t JOIN u USING (a)", &["t.1", "t.2", "t.3", "t.4", "u.2"]);
    check("SELECT * FROM t RIGHT JOIN u USING (a)", &["u.1", "t.2", "t.3", "t.4", "u.2"]);
    check("SELECT a, e FROM t FULL JOIN u USING (a)", &["-.0", "u.2"]);
    check("SELECT * FROM v", &["v.1", "v.2"]);
    check("SELECT y FROM (SELECT b AS y FROM t) AS s", &["t.2"]);
    check("WITH w(z) AS (SELECT c FROM t) SELECT z, max(z) FROM w GROUP BY z", &["t.3", "-.0"]);
    check("SELECT a FROM t UNION SELECT a FROM u", &["-.0"]);
    check("SELECT s.* FROM t AS s(x, y, z, w)", &["t.1", "t.2", "t.3", "t.4"]);
    check("SELECT a, g FROM t AS s, generate_series(1, 2) AS g", &["t.1", "-.0"]);
    check("SELECT relname, oid FROM pg_class ORDER BY oid LIMIT 1", &["pg_class.2", "pg_class.1"]);
    check("INSERT INTO u VALUES (1, 'e') RETURNING e, a", &["u.2", "u.1"]);
    check("UPDATE t SET d = 2 RETURNING *", &["t.1", "t.2", "t.3", "t.4"]);
    check("DELETE FROM u RETURNING a + 1, e", &["-.0", "u.2"]);
}

fn error(client: &mut Client, sql: &str) -> Reported {
    client.query(sql).error.unwrap_or_else(|| panic!("{sql} succeeds"))
}

#[test]
fn refused_rows_are_shown() {
    let (_server, mut client) = start();
    let mut check = |sql: &str, code: &str, detail: &str, column: &str, constraint: &str| {
        let error = error(&mut client, sql);
        assert_eq!((error.code.as_str(), error.detail.as_str()), (code, detail), "{sql}");
        assert_eq!((error.schema.as_str(), error.table.as_str()), ("public", "t"), "{sql}");
        assert_eq!((error.column.as_str(), error.constraint.as_str()), (column, constraint), "{sql}");
    };
    let row = "Failing row contains (2, null, 1, 2.50).";
    check("INSERT INTO t VALUES (2, NULL, 1, 2.5)", "23502", row, "b", "");
    check("INSERT INTO t (a, c) VALUES (2, 1)", "23502", "Failing row contains (2, null, 1, null).", "b", "");
    let long = format!("Failing row contains (2, {}..., null, null).", "ä".repeat(32));
    check("INSERT INTO t VALUES (2, repeat('ä', 50), NULL)", "23502", &long, "c", "");
    let row = "Failing row contains (1, null, null, 1.00).";
    check("UPDATE t SET c = NULL, b = NULL", "23502", row, "b", "");
    let row = "Failing row contains (1, x, -1, 1.00).";
    check("UPDATE t SET c = -1", "23514", row, "", "t_c_check");
    let merge = "INSERT INTO t VALUES (1, 'y', 1) ON CONFLICT (a) DO UPDATE SET b = NULL";
    check(merge, "23502", "Failing row contains (1, null, 1, 1.00).", "b", "");
}

#[test]
fn errors_of_names_have_positions() {
    let (_server, mut client) = start();
    for (sql, code, position) in [
        ("SELECT nope FROM t", "42703", "8"),
        ("SELECT 'ä';\nSELECT nope FROM t", "42703", "20"),
        ("SELECT x.nope FROM t AS x WHERE a = 1", "42703", "8"),
        ("SELECT *\n  FROM t, nope", "42P01", "20"),
        ("INSERT INTO t (nope) VALUES (1)", "42703", "16"),
        ("UPDATE nope SET a = 1", "42P01", "8"),
        ("SELECT nofunc(a) FROM t", "42883", "8"),
        ("SELECT a || c FROM t", "42883", "10"),
        ("SELECT a FROM t JOIN u ON t.a = u.a", "42702", "8"),
        ("SELECT z.a FROM t", "42P01", "8"),
        ("SELECT e, count(*) FROM u", "42803", "8"),
        ("SELECT 1x", "42601", "8"),
        ("SELECT 1 + ; SELECT 2", "42601", "12"),
        ("SELECT 1::foo", "42704", "11"),
        ("CREATE VIEW w AS SELECT nope FROM t", "42703", "25"),
        ("PREPARE p AS SELECT nope FROM t", "42703", "21"),
        ("DROP TABLE nope", "42P01", ""),
        ("TRUNCATE nope", "42P01", ""),
        ("SELECT nope FROM t WHERE a IN (SELECT nope FROM u)", "42703", ""),
    ] {
        let error = error(&mut client, sql);
        assert_eq!((error.code.as_str(), error.position.as_str()), (code, position), "{sql}");
    }
    let extended = client.extended("SELECT nope FROM t", &[]).error.unwrap();
    assert_eq!(extended.position, "8");
}
