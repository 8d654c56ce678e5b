//! COPY of Parquet files, over the wire and of files on the server.

use crate::client::Client;
use crate::server::TestServer;
use std::fs;
use std::path::{Path, PathBuf};

/// Written by pyarrow 26.0.1 and DuckDB 2.0.0 (`parquet/README.md` says with which statements).
fn golden() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).join("tests/wire/parquet")
}

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ankerdb-parquet-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(folder: &Path) -> (TestServer, Client) {
    let server = TestServer::giving(folder);
    let client = Client::connect(&server);
    (server, client)
}

/// All rows of a table, written as texts.
fn texts(client: &mut Client, table: &str) -> Vec<Vec<String>> {
    client.run(&format!("SELECT * FROM {table} ORDER BY 1")).text()
}

/// A column for each type, with values that files hold.
const EVERY_TYPE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE DOMAIN positive AS integer CHECK (VALUE > 0);
    CREATE TABLE every (id int PRIMARY KEY, b boolean, i2 smallint, i4 integer, i8 bigint, f4 real, f8 double precision,
      n9 numeric(9,2), n18 numeric(18,4), n38 numeric(38,10), n numeric, t text, vc varchar(10), c char(5), d date,
      ts timestamp, ts3 timestamp(3), tz timestamptz, ti time, iv interval, by bytea, u uuid, j json, jb jsonb, m mood,
      p positive, ine inet, ci cidr, ttz timetz, r4 int4range, bi bit(3), vb varbit, ai int[], at text[],
      ats timestamp[], am mood[], au uuid[], ab bytea[], ad date[], aiv interval[]);
    INSERT INTO every VALUES
     (1, true, 32767, 2147483647, 9223372036854775807, 1.5, 1e300, 1234567.89, 12345678901234.5678,
      1234567890123456789012345678.0123456789, 123456789012345678901234567890123456789012345.5, 'Grüße', 'abc', 'ab',
      '2024-02-29', '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56.789012+02',
      '23:59:59.999999', '1 year 2 mons 3 days 04:05:06.789', '\\x00ff10', '12345678-9abc-def0-1234-56789abcdef0',
      '{\"a\": [1, 2]}', '{\"b\": null, \"a\": 1}', 'happy', 7, '10.0.0.1/8', '10.0.0.0/8', '12:00:00+02', '[1,10)',
      B'101', B'10101', '{1,NULL,3}', '{a,\"b c\",NULL,\"\"}',
      '{2024-01-01 00:00:00,NULL}', '{sad,NULL}', '{12345678-9abc-def0-1234-56789abcdef0}', '{\"\\\\x00\",NULL}',
      '{2024-01-01}', '{1 day,NULL}'),
     (2, false, -32768, -2147483648, -9223372036854775808, 'NaN', '-Infinity', -9999999.99, -99999999999999.9999,
      -9999999999999999999999999999.9999999999, 'NaN', '', '', '', 'infinity', 'infinity', '-infinity', '-infinity',
      '00:00', '00:00', '', '00000000-0000-0000-0000-000000000000', 'null', '[]', 'sad', 1, '::1', '::/0',
      '00:00:00-12', 'empty', B'000', B'', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}'),
     (3, NULL, NULL, NULL, NULL, 'Infinity', 'NaN', 0, 0, 0, 0.000, repeat('x', 100000), 'äöü', 'äöüßé', '-infinity',
      '0001-01-01 00:00:00', '1969-12-31 23:59:59.999', '1900-01-01 00:00:00+00', '24:00', '40 days', '\\x', NULL,
      '\"x\"', '\"x\"', 'ok', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
      NULL);
    INSERT INTO every (id) VALUES (4);
    CREATE TABLE back (LIKE every INCLUDING ALL);";

#[test]
fn all_types_come_back_as_they_went() {
    let folder = Folder::new("types");
    let (_server, mut client) = start(&folder.0);
    client.run(EVERY_TYPE);
    let before = texts(&mut client, "every");
    assert_eq!(before.len(), 4);
    let path = folder.path("every.parquet");
    for (out, options) in [
        ("every", ", COMPRESSION uncompressed"),
        ("every", ", COMPRESSION snappy, ROW_GROUP_SIZE 1"),
        ("every", ", COMPRESSION zstd, ROW_GROUP_SIZE 3"),
        // The other path.
        ("(SELECT * FROM every ORDER BY id % 2, id)", ", ROW_GROUP_SIZE 2"),
        ("(SELECT * FROM every WHERE id IN (1, 2, 3, 4))", ""),
    ] {
        let options = format!("(FORMAT parquet{options})");
        client.run("TRUNCATE back");
        assert_eq!(client.run(&format!("COPY {out} TO '{path}' {options}")).tags[0], "COPY 4");
        assert_eq!(client.run(&format!("COPY back FROM '{path}' (FORMAT parquet)")).tags[0], "COPY 4");
        assert_eq!(texts(&mut client, "back"), before, "{out} {options}");
    }
    // A table without rows has a file with columns.
    client.run("TRUNCATE every; TRUNCATE back");
    assert_eq!(client.run(&format!("COPY every TO '{path}' (FORMAT parquet)")).tags[0], "COPY 0");
    assert_eq!(client.run(&format!("COPY back FROM '{path}' (FORMAT parquet)")).tags[0], "COPY 0");
    assert_eq!(folder.names(), ["every.parquet"]);
}

#[test]
fn a_client_gets_and_sends_the_bytes_of_a_file() {
    let folder = Folder::new("client");
    let (_server, mut client) = start(&folder.0);
    client.run("CREATE TABLE t (id int PRIMARY KEY, name text)");
    client.run("INSERT INTO t SELECT i, 'name ' || i FROM generate_series(1, 20000) AS s(i)");
    let sent = client.run("COPY t TO STDOUT (FORMAT parquet, ROW_GROUP_SIZE 3000)");
    assert_eq!(sent.tags[0], "COPY 20000");
    assert!(sent.copied.starts_with(b"PAR1") && sent.copied.ends_with(b"PAR1"));
    client.run("CREATE TABLE u (LIKE t INCLUDING ALL)");
    for piece in [100_000, 777] {
        client.run("DROP TABLE u; CREATE TABLE u (LIKE t INCLUDING ALL)");
        assert_eq!(
            client.copy_in("COPY u FROM STDIN (FORMAT parquet)", &sent.copied, piece).tags[0],
            "COPY 20000"
        );
        let other = "SELECT count(*) FROM t JOIN u ON t.id = u.id AND t.name = u.name";
        assert_eq!(client.run(other).cell(), "20000");
    }
    // What is no file, or not all of one, leaves nothing.
    client.run("DROP TABLE u; CREATE TABLE u (LIKE t INCLUDING ALL)");
    let half = &sent.copied[..sent.copied.len() / 2];
    for data in [&b""[..], b"PAR1", b"1\tone\n", half] {
        assert_eq!(client.copy_in("COPY u FROM STDIN (FORMAT parquet)", data, 1000).code(), "22P04");
    }
    assert_eq!(client.run("SELECT count(*) FROM u").cell(), "0");
}

#[test]
fn damaged_files_are_refused_and_leave_nothing() {
    let folder = Folder::new("damage");
    let (_server, mut client) = start(&folder.0);
    client.run("CREATE TABLE t (id int, name text, n numeric(12,2), l int[])");
    client.run("INSERT INTO t SELECT i, 'name ' || i % 7, i / 7.0, ARRAY[i, NULL] FROM generate_series(1, 300) AS s(i)");
    client.run("CREATE TABLE u (LIKE t)");
    let path = folder.path("t.parquet");
    client.run(&format!("COPY t TO '{path}' (FORMAT parquet, COMPRESSION zstd)"));
    let whole = fs::read(&path).unwrap();
    let bad = folder.path("bad.parquet");
    let load = format!("COPY u FROM '{bad}' (FORMAT parquet)");
    let mut refused = 0;
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&bad, &bytes).unwrap();
        let reply = client.query(&load);
        // A changed value is not always seen; a server that has ended is.
        if reply.error.is_some() {
            let code = reply.code().to_owned();
            assert!(
                ["22P04", "42804", "22003", "22021", "0A000", "53200"].contains(&code.as_str()),
                "{at}: {code}"
            );
            assert_eq!(client.run("SELECT count(*) FROM u").cell(), "0", "{at}");
            refused += 1;
        }
        client.run("DROP TABLE u; CREATE TABLE u (LIKE t)");
    }
    assert!(refused > 100, "{refused} of {} were refused", whole.len() / 3);
    for length in (0..whole.len()).step_by(11) {
        fs::write(&bad, &whole[..length]).unwrap();
        assert_eq!(client.query(&load).code(), "22P04", "{length}");
    }
    assert_eq!(client.run("SELECT count(*) FROM u").cell(), "0");
}

#[test]
fn columns_are_matched_and_their_types_checked() {
    let folder = Folder::new("match");
    let (_server, mut client) = start(&folder.0);
    client.run("CREATE TABLE t (id serial PRIMARY KEY, a int NOT NULL, b text, CHECK (a < 100))");
    let path = folder.path("q.parquet");
    let mut round = |query: &str, into: &str, options: &str| {
        let out = format!("COPY ({query}) TO '{path}' (FORMAT parquet)");
        client.run(&out);
        let reply = client.query(&format!("COPY {into} FROM '{path}' (FORMAT parquet{options})"));
        let rows = client.run("SELECT a, b FROM t ORDER BY id").text();
        client.run("TRUNCATE t");
        match reply.error {
            None => format!("{rows:?}"),
            Some(error) => format!("{} {} / {}", error.code, error.message, error.context),
        }
    };
    // By name, whatever their order, with defaults for the others.
    assert_eq!(round("SELECT 'x' AS b, 7 AS a", "t (a, b)", ""), r#"[["7", "x"]]"#);
    assert_eq!(round("SELECT 7 AS a, 'x' AS b, 1 AS c", "t (a)", ""), r#"[["7", "NULL"]]"#);
    assert_eq!(round("SELECT 7 AS x, 'x' AS y", "t (a, b)", ", MATCH_BY position"), r#"[["7", "x"]]"#);
    // Values that a narrower type has, numbers as texts, and NULL of no type.
    assert_eq!(round("SELECT 7::bigint AS a, 1.50 AS b", "t (a, b)", ""), r#"[["7", "1.50"]]"#);
    for (query, into, options, told) in [
        ("SELECT 7 AS a", "t (a, b)", "", "22P04 the Parquet file has no column \"b\" / COPY t"),
        (
            "SELECT 1 AS id, 7 AS a, 'x' AS b, 1 AS c",
            "t",
            "",
            "22P04 the Parquet file has a column \"c\" that the table has not / COPY t",
        ),
        (
            "SELECT 7 AS a",
            "t (a, b)",
            ", MATCH_BY position",
            "22P04 the Parquet file has 1 columns, expected 2 / COPY t",
        ),
        (
            "SELECT 'x' AS a",
            "t (a)",
            "",
            "42804 column \"a\" is of type integer but column \"a\" of the Parquet file is of type text / COPY t",
        ),
        (
            "SELECT ARRAY[1] AS a",
            "t (a)",
            "",
            "42804 column \"a\" is of type integer but column \"a\" of the Parquet file is of type integer[] / COPY t",
        ),
        (
            "SELECT NULL::int AS a",
            "t (a)",
            "",
            "23502 null value in column \"a\" of relation \"t\" violates not-null constraint / COPY t, row 1",
        ),
        ("SELECT 10000000000 AS a", "t (a)", "", "22003 integer out of range / COPY t, row 1, column a"),
        (
            "SELECT i AS a FROM generate_series(98, 101) AS s(i)",
            "t (a)",
            "",
            "23514 new row for relation \"t\" violates check constraint \"t_a_check\" / COPY t, row 3",
        ),
        (
            "SELECT i % 2500 AS id, 1 AS a FROM generate_series(0, 2999) AS s(i)",
            "t (id, a)",
            "",
            "23505 duplicate key value violates unique constraint \"t_pkey\" / COPY t, row 2501",
        ),
    ] {
        assert_eq!(round(query, into, options), told, "{query}");
    }
}

#[test]
fn what_no_file_holds_is_refused_and_no_file_is_left() {
    let folder = Folder::new("refused");
    let (_server, mut client) = start(&folder.0);
    client.run("CREATE TABLE t (id int)");
    let path = folder.path("q.parquet");
    fs::write(&path, "the old one").unwrap();
    for (query, code) in [
        ("SELECT ROW(1, 2) AS r", "0A000"),
        ("SELECT ARRAY[[1, 2], [3, 4]] AS a", "0A000"),
        ("SELECT interval '-1 day' AS i", "22008"),
        ("SELECT interval '1 microsecond' AS i", "22008"),
        ("SELECT 1 AS a, 2 AS a", "42701"),
        ("SELECT 1 / (i - 50000) AS a FROM generate_series(1, 100000) AS s(i)", "22012"),
    ] {
        let sql = format!("COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 1000)");
        assert_eq!(client.query(&sql).code(), code, "{query}");
        assert_eq!(fs::read(&path).unwrap(), b"the old one", "{query}");
    }
    assert_eq!(folder.names(), ["q.parquet"]);
    for (options, code) in [
        ("COMPRESSION gzip", "22023"),
        ("COMPRESSION lzma", "22023"),
        ("ROW_GROUP_SIZE 0", "22023"),
        ("ROW_GROUP_SIZE many", "42601"),
        ("MATCH_BY name", "22023"),
        ("HEADER", "0A000"),
        ("DELIMITER ','", "42601"),
        ("NULL 'x'", "42601"),
        ("QUOTE 'x'", "0A000"),
        ("COMPRESSION zstd, COMPRESSION zstd", "42601"),
        ("NO_SUCH_OPTION 1", "42601"),
    ] {
        let sql = format!("COPY t TO '{path}' (FORMAT parquet, {options})");
        assert_eq!(client.query(&sql).code(), code, "{options}");
    }
    for (sql, code) in [
        ("COPY t TO STDOUT (FORMAT csv, ROW_GROUP_SIZE 5)", "22023"),
        ("COPY t TO STDOUT (FORMAT csv, COMPRESSION snappy)", "22023"),
        ("COPY t FROM STDIN (FORMAT csv, MATCH_BY name)", "22023"),
        ("COPY t FROM STDIN (FORMAT parquet, COMPRESSION zstd)", "22023"),
        ("COPY t FROM STDIN (FORMAT parquet, ROW_GROUP_SIZE 5)", "22023"),
        ("COPY t FROM STDIN (FORMAT parquet, ON_ERROR ignore)", "42601"),
        ("COPY t FROM STDIN (FORMAT parquet, MATCH_BY colour)", "22023"),
    ] {
        assert_eq!(client.query(sql).code(), code, "{sql}");
    }
}

#[test]
fn files_of_others_are_read() {
    let (_server, mut client) = start(&golden());
    client.run(EVERY_TYPE);
    client.run("TRUNCATE every");
    client.run("CREATE TABLE arrow (id int PRIMARY KEY, u8 smallint, u16 int, u32 bigint, u64 numeric(20), f2 real, ms timestamp,
        ns timestamp, s timestamp, tz timestamptz, t32 time, t64 time, large text, dict text, fixed bytea, bytes bytea,
        dec numeric(12,3), big numeric, list bigint[], nothing text)");
    client.run("COPY arrow FROM 'pyarrow.parquet' (FORMAT parquet)");
    let expected = [
        "1|255|65535|4294967295|18446744073709551615|1.5|2024-02-29 12:34:56.789|2024-02-29 12:34:56.789012|\
         2024-02-29 12:34:56|2024-02-29 12:34:56.789012+00|12:34:56.789|12:34:56.789012|long|red|\\x0102|\\xff00|\
         123456789.125|12345678901234567890123456789012345678901234567890.12|{1,NULL,3}|NULL",
        "2|0|0|0|0|-0.5|1969-12-31 23:59:59.999|1969-12-31 23:59:59.999999|1900-01-01 00:00:00|1900-01-01 00:00:00+00|\
         00:00:00|00:00:00||blue|\\x0304|\\x|-0.001|-0.01|{}|NULL",
        "3|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
    ];
    client.run("SET TimeZone = 'UTC'");
    let rows: Vec<String> = texts(&mut client, "arrow").iter().map(|row| row.join("|")).collect();
    assert_eq!(rows, expected);
    client.run("CREATE TABLE duck (id int PRIMARY KEY, d date, ts timestamp, tz timestamptz, iv interval, u uuid, m mood, j json,
        h numeric(38,0), l text[])");
    client.run("COPY duck FROM 'duckdb.parquet' (FORMAT parquet)");
    let expected = [
        "1|infinity|infinity|infinity|1 year 2 mons 3 days 04:05:06.789|12345678-9abc-def0-1234-56789abcdef0|happy|{\"a\": 1}|\
         99999999999999999999999999999999999999|{a,NULL,\"\"}",
        "2|-infinity|-infinity|-infinity|00:00:00|00000000-0000-0000-0000-000000000000|sad|null|-5|{}",
        "3|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL|NULL",
    ];
    let rows: Vec<String> = texts(&mut client, "duck").iter().map(|row| row.join("|")).collect();
    assert_eq!(rows, expected);
    // Moments of 96 bits, as old programs write them.
    client.run("CREATE TABLE old (id int PRIMARY KEY, moment timestamp); SET DateStyle = 'ISO'");
    client.run("COPY old FROM 'int96.parquet' (FORMAT parquet)");
    let rows: Vec<String> = texts(&mut client, "old").iter().map(|row| row.join("|")).collect();
    assert_eq!(rows, ["1|2024-02-29 12:34:56.789012", "2|0001-01-01 00:00:00", "3|NULL"]);
}

#[test]
fn time_and_cancel_end_both_directions_and_leave_nothing() {
    let folder = Folder::new("limits");
    let (_server, mut client) = start(&folder.0);
    let (path, big) = (folder.path("big.parquet"), folder.path("never.parquet"));
    client.run("CREATE TABLE t (id int, name text)");
    let rows = |count: usize| {
        format!("SELECT i AS id, 'name ' || i AS name FROM generate_series(1, {count}) AS s(i)")
    };
    client.run(&format!("COPY ({}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 20000)", rows(1_000_000)));
    client.run("SET statement_timeout = 100");
    let out = client.query(&format!("COPY ({}) TO '{big}' (FORMAT parquet)", rows(20_000_000)));
    assert_eq!(out.code(), "57014");
    assert_eq!(client.query(&format!("COPY t FROM '{path}' (FORMAT parquet)")).code(), "57014");
    client.run("SET statement_timeout = 0");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
    assert_eq!(folder.names(), ["big.parquet"]);
}

/// A few bytes that say that there is much more: the library would reserve memory for it, and end the process.
#[test]
fn a_file_that_lies_ends_its_own_statement_only() {
    let folder = Folder::new("lies");
    let (_server, mut client) = start(&folder.0);
    client.run("CREATE TABLE t (id int)");
    let groups = [0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
    let mut file = b"PAR1".to_vec();
    file.extend_from_slice(&groups);
    file.extend_from_slice(&(groups.len() as u32).to_le_bytes());
    file.extend_from_slice(b"PAR1");
    assert_eq!(client.copy_in("COPY t FROM STDIN (FORMAT parquet)", &file, 100).code(), "22P04");
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "0");
}
