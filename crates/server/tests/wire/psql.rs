//! psql and pg_dump, where they are installed.

use crate::server::TestServer;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs psql on a script; `None` if there is no psql here.
fn psql(server: &TestServer, arguments: &[&str], script: &str) -> Option<Output> {
    client("psql", server, &[&["-X"], arguments].concat(), script)
}

/// Runs a client program on what it is to read; `None` if it is not here.
fn client(program: &str, server: &TestServer, arguments: &[&str], script: &str) -> Option<Output> {
    let child = Command::new(program)
        .args(["-h", "127.0.0.1", "-U", "anyone", "-d", "ankerdb", "-p"])
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
            let _ = writeln!(std::io::stderr(), "SKIPPED: {program} cannot be run here ({error})");
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
 SELECT item.name
   FROM item;
";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

/// What a database may have, in an order in which names do not sort.
const DUMPED: &str = "
    CREATE TABLE zone (id bigint PRIMARY KEY, a bigint NOT NULL DEFAULT 3, b int CHECK (b >= 0), c text UNIQUE);
    CREATE TABLE city (id serial PRIMARY KEY, zone bigint REFERENCES zone(id) ON DELETE CASCADE, n numeric(10,2), t timestamptz DEFAULT now());
    CREATE INDEX city_zone ON city (zone);
    CREATE TABLE \"Key\" (id serial, \"select\" text, twice int GENERATED ALWAYS AS (id * 2) STORED);
    CREATE VIEW behind AS SELECT zone.id, count(*) AS c FROM zone JOIN city ON city.zone = zone.id GROUP BY zone.id;
    CREATE VIEW ahead AS SELECT id FROM behind WHERE c > 1;
    CREATE MATERIALIZED VIEW known AS SELECT count(*) AS n FROM zone;
    CREATE SEQUENCE counter START 5 INCREMENT 3;
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE SCHEMA other;
    CREATE TABLE other.mixed (m mood, j jsonb, l int[], bytes bytea);
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE TABLE other.told (id bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME other.\"Tells\" START 7), n text);
    CREATE TABLE asked (id int GENERATED BY DEFAULT AS IDENTITY, n text);
    COMMENT ON TABLE zone IS 'where cities are';
    INSERT INTO zone SELECT i, i * 7, i, CASE WHEN i % 2 = 0 THEN E'tab\there ' || i END FROM generate_series(1, 1000) AS i;
    INSERT INTO city (zone, n) VALUES (1, 2.5), (2, -3), (NULL, NULL);
    INSERT INTO \"Key\" (\"select\") VALUES ('a');
    INSERT INTO other.mixed VALUES ('ok', '{\"a\": [1, null]}', '{1,NULL,3}', '\\x00ff');
    INSERT INTO other.told (n) VALUES ('a'), ('b');
    INSERT INTO asked (n) VALUES ('c');
    SELECT nextval('counter');
    REFRESH MATERIALIZED VIEW known;
";

/// A dump, but for the keys that each has of its own.
fn dump(server: &TestServer) -> Option<String> {
    let output = client("pg_dump", server, &[], "")?;
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let is_own = |line: &&str| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict");
    Some(text.lines().filter(is_own).map(|line| format!("{line}\n")).collect())
}

#[test]
fn dumps_make_the_same_database_elsewhere() {
    let (first, second) = (TestServer::start(), TestServer::start());
    let stops = ["-q", "-v", "ON_ERROR_STOP=1"];
    let Some(made) = psql(&first, &stops, DUMPED) else { return };
    assert_eq!(String::from_utf8(made.stderr).unwrap(), "");
    let Some(text) = dump(&first) else { return };
    assert_eq!(text.matches("\nCOPY ").count(), 6, "{text}");
    let restored = psql(&second, &stops, &text).expect("it was there before");
    assert_eq!(String::from_utf8(restored.stderr).unwrap(), "");
    assert_eq!(dump(&second).expect("it was there before"), text);
    let asked =
        "SELECT n FROM known; SELECT id FROM ahead; SELECT nextval('counter'), nextval('city_id_seq');
        INSERT INTO other.told (n) VALUES ('d') RETURNING id; INSERT INTO asked (n) VALUES ('d') RETURNING id;
        SELECT count(*), sum(a), max(c) FROM zone; SELECT * FROM other.mixed; SELECT n FROM city ORDER BY id;
        INSERT INTO \"Key\" (\"select\") VALUES ('b') RETURNING id, twice";
    let answers =
        [&first, &second].map(|server| psql(server, &["-q", "-A", "-t"], asked).expect("as above").stdout);
    assert_eq!(String::from_utf8_lossy(&answers[1]), String::from_utf8_lossy(&answers[0]));
}

/// Several connections dump, all of them what the first one has seen, and several restore.
#[test]
fn dumps_by_several_connections_are_of_one_moment() {
    let (first, second) = (TestServer::start(), TestServer::start());
    if psql(&first, &["-q", "-v", "ON_ERROR_STOP=1"], DUMPED).is_none() {
        return;
    }
    let path = std::env::temp_dir().join(format!("ankerdb-dump-{}", std::process::id()));
    let folder = path.display().to_string();
    let Some(dumped) = client("pg_dump", &first, &["-Fd", "-j", "3", "-f", &folder], "") else { return };
    assert_eq!(String::from_utf8(dumped.stderr).unwrap(), "");
    assert!(dumped.status.success());
    let restored = client("pg_restore", &second, &["-e", "-j", "2", &folder], "").expect("as pg_dump is");
    assert_eq!(String::from_utf8(restored.stderr).unwrap(), "");
    assert_eq!(dump(&second).expect("as above"), dump(&first).expect("as above"));
    std::fs::remove_dir_all(path).unwrap();
}
