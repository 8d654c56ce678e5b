//! psql, where it is installed.

use crate::server::TestServer;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs psql on a script; `None` if there is no psql here.
fn psql(server: &TestServer, arguments: &[&str], script: &str) -> Option<Output> {
    let child = Command::new("psql")
        .args(["-X", "-h", "127.0.0.1", "-U", "anyone", "-d", "ankerdb", "-p"])
        .arg(server.address.port().to_string())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            // Past the capture of output.
            let _ = writeln!(std::io::stderr(), "SKIPPED: psql cannot be run here ({error})");
            return None;
        }
    };
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[test]
fn scripts_run() {
    let server = TestServer::start();
    let script = "CREATE TABLE t (a int PRIMARY KEY, b text);
        \\copy t from pstdin csv
1,one
2,\"two, too\"
\\.
        BEGIN;
        UPDATE t SET b = 'eins' WHERE a = 1;
        SELECT * FROM t ORDER BY a;
        ROLLBACK;
        \\copy (select * from t order by a) to pstdout
        SELECT count(*), sum(a) FROM t;
        SELECT nonsense;
        SELECT a FROM t WHERE a = 2;
    ";
    let Some(output) = psql(&server, &["-A", "-t", "-q"], script) else { return };
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        out,
        "1|eins\n2|two, too\n1\tone\n2\ttwo, too\n2|3\n2\n",
        "{:?}",
        String::from_utf8(output.stderr)
    );
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("column \"nonsense\" does not exist"), "{err}");
    assert!(output.status.success());
}

#[test]
fn unknown_databases_are_refused() {
    let server = TestServer::start();
    let Some(output) = psql(&server, &["-d", "nothing", "-c", "SELECT 1"], "") else { return };
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("database \"nothing\" does not exist"), "{err}");
}

/// What psql of PostgreSQL 15 shows of these tables on a server of PostgreSQL 15, whose owner is called `ankerdb`.
const DESCRIBED: &str = include_str!("described.txt");

#[test]
fn tables_are_described_as_on_postgresql() {
    let server = TestServer::start();
    let script = "
        CREATE TABLE author (id serial PRIMARY KEY, name varchar(40) NOT NULL UNIQUE, born date, rating numeric(5,2) DEFAULT 0);
        CREATE TABLE book (isbn char(13) NOT NULL, author_id int NOT NULL REFERENCES author ON DELETE CASCADE, title text NOT NULL DEFAULT 'untitled', added timestamptz DEFAULT now(), PRIMARY KEY (isbn, author_id));
        CREATE INDEX book_title ON book (title);
        CREATE UNIQUE INDEX book_added_title ON book (added, title);
        CREATE TABLE \"Odd name\" (id bigint GENERATED ALWAYS AS IDENTITY, \"select\" boolean);
        CREATE SEQUENCE counter INCREMENT BY 5 START 10;
        \\d
        \\dt
        \\di
        \\ds
        \\d author
        \\d book
        \\d \"Odd name\"
        \\d author_pkey
        \\d author_id_seq
        \\d counter
        \\dt b*
        \\dv
        \\d missing
    ";
    let Some(output) = psql(&server, &["-q"], script) else { return };
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(err, "");
    let out = String::from_utf8(output.stdout).unwrap();
    for (number, (found, expected)) in out.lines().zip(DESCRIBED.lines()).enumerate() {
        assert_eq!(found.trim_end(), expected.trim_end(), "line {}", number + 1);
    }
    assert_eq!(out.lines().count(), DESCRIBED.lines().count());
}

#[test]
fn databases_and_schemas_are_listed() {
    let server = TestServer::start();
    let script = "\\l\n\\dn\n\\du\n\\df\n\\db\n";
    let Some(output) = psql(&server, &["-q", "-A", "-t"], script) else { return };
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let expected = "ankerdb|ankerdb|UTF8|C|C||libc|\npublic|ankerdb\nankerdb|Superuser, Create role, Create DB|{}\n\
        pg_default|ankerdb|\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn schemas_are_described_as_on_postgresql() {
    let server = TestServer::start();
    let script = "
        CREATE SCHEMA shop;
        CREATE TABLE shop.item (id serial PRIMARY KEY, name text);
        CREATE VIEW named AS SELECT name FROM shop.item;
        \\dn
        \\dt shop.*
        \\d shop.item
        \\d+ named
        SET search_path = shop, public;
        \\dt
        \\d item
        SELECT pg_get_viewdef('named'::regclass);
    ";
    let Some(output) = psql(&server, &["-q", "-A", "-t"], script) else { return };
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let expected = "public|ankerdb
shop|ankerdb
shop|item|table|ankerdb
id|integer||not null|nextval('shop.item_id_seq'::regclass)
name|text|||
name|text||||extended|
shop|item|table|ankerdb
id|integer||not null|nextval('item_id_seq'::regclass)
name|text|||
 SELECT name FROM item;
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}
