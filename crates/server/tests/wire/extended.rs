//! The extended protocol: statements, portals, pipelines, and what an error leaves behind.

use crate::client::{Client, Reply, bind, bind_as, close, describe, execute, message, parse, sync};
use crate::server::TestServer;

fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    client.run("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, NULL), (4, 'four'), (5, 'five')");
    (server, client)
}

fn send(client: &mut Client, messages: &[Vec<u8>]) -> Reply {
    client.send(&[messages.concat(), sync()].concat());
    client.reply()
}

#[test]
fn one_round_trip() {
    let (_server, mut client) = start();
    let reply = client.extended("SELECT a, b FROM t WHERE a = $1", &[Some("2")]).ok();
    assert_eq!(reply.kinds, "12TDCZ");
    assert_eq!(reply.text(), [["2", "two"]]);
    assert_eq!((reply.columns[0].oid, reply.columns[1].oid), (23, 25));
    assert_eq!(reply.tags, ["SELECT 1"]);
    let insert = client.extended("INSERT INTO t VALUES ($1, $2)", &[Some("6"), None]).ok();
    assert_eq!((insert.kinds.as_str(), insert.tags[0].as_str()), ("12nCZ", "INSERT 0 1"));
}

#[test]
fn named_statements_live_until_closed() {
    let (_server, mut client) = start();
    let made =
        send(&mut client, &[parse("find", "SELECT b FROM t WHERE a = $1", &[]), describe(b'S', "find")]);
    assert_eq!(made.kinds, "1tTZ");
    for (key, found) in [("1", "one"), ("4", "four"), ("3", "NULL")] {
        let reply = send(&mut client, &[bind("", "find", &[Some(key)]), execute("", 0)]).ok();
        assert_eq!(reply.text(), [[found]]);
    }
    let closed = send(&mut client, &[close(b'S', "find"), close(b'S', "find"), close(b'P', "nothing")]);
    assert_eq!(closed.kinds, "333Z");
    assert_eq!(send(&mut client, &[bind("", "find", &[Some("1")])]).code(), "26000");
}

#[test]
fn empty_statements() {
    let (_server, mut client) = start();
    let reply = client.extended("  ; -- nothing", &[]);
    assert_eq!(reply.kinds, "12nIZ");
    assert_eq!(client.query("").kinds, "IZ");
    assert_eq!(client.query(";;").kinds, "IZ");
}

#[test]
fn portals_give_rows_in_parts() {
    let (_server, mut client) = start();
    client.run("BEGIN");
    let query = "SELECT a FROM t ORDER BY a";
    let first = send(&mut client, &[parse("", query, &[]), bind("p", "", &[]), execute("p", 2)]).ok();
    assert_eq!((first.kinds.as_str(), first.status), ("12DDsZ", b'T'));
    let second = send(&mut client, &[execute("p", 2)]).ok();
    assert_eq!(
        (second.kinds.as_str(), second.text()),
        ("DDsZ", vec![vec!["3".into()], vec!["4".to_owned()]])
    );
    let last = send(&mut client, &[execute("p", 0)]).ok();
    assert_eq!((last.kinds.as_str(), last.tags[0].as_str()), ("DCZ", "SELECT 1"));
    client.run("COMMIT");
    assert_eq!(send(&mut client, &[execute("p", 0)]).code(), "34000");
}

#[test]
fn without_a_transaction_portals_end_with_the_sync() {
    let (_server, mut client) = start();
    let messages = [parse("", "SELECT a FROM t", &[]), bind("p", "", &[]), execute("p", 2), execute("p", 2)];
    assert_eq!(send(&mut client, &messages).kinds, "12DDsDDsZ");
    assert_eq!(send(&mut client, &[execute("p", 0)]).code(), "34000");
}

#[test]
fn errors_skip_to_the_sync() {
    let (_server, mut client) = start();
    let messages = [
        parse("", "SELECT nonsense FROM t", &[]),
        bind("", "", &[]),
        execute("", 0),
        parse("", "INSERT INTO t VALUES (100, 'never')", &[]),
        bind("", "", &[]),
        execute("", 0),
    ];
    let reply = send(&mut client, &messages);
    assert_eq!((reply.kinds.as_str(), reply.code()), ("EZ", "42703"));
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "5");
}

#[test]
fn a_pipeline_up_to_the_sync_is_one_transaction() {
    let (_server, mut client) = start();
    let run = |sql: &str| [parse("", sql, &[]), bind("", "", &[]), execute("", 0)].concat();
    let insert = run("INSERT INTO t VALUES (10, 'ten')");
    let reply = send(&mut client, &[insert.clone(), run("INSERT INTO t VALUES (1, 'again')")]);
    assert_eq!((reply.kinds.as_str(), reply.code(), reply.status), ("12C12EZ", "23505", b'I'));
    assert_eq!(client.run("SELECT count(*) FROM t WHERE a = 10").cell(), "0");
    let reply = send(&mut client, &[insert, run("INSERT INTO t VALUES (11, 'eleven')")]);
    assert_eq!((reply.kinds.as_str(), reply.status), ("12C12CZ", b'I'));
    assert_eq!(client.run("SELECT count(*) FROM t WHERE a >= 10").cell(), "2");
    // A transaction that the client begins inside stays open behind the Sync.
    let reply = send(&mut client, &[run("BEGIN"), run("DELETE FROM t WHERE a >= 10")]);
    assert_eq!((reply.status, reply.tags.join(",")), (b'T', "BEGIN,DELETE 2".to_owned()));
    assert_eq!(client.run("ROLLBACK").status, b'I');
    assert_eq!(client.run("SELECT count(*) FROM t WHERE a >= 10").cell(), "2");
}

#[test]
fn several_syncs_in_flight_are_answered_one_by_one() {
    let (_server, mut client) = start();
    let mut all = Vec::new();
    for key in 1..=100 {
        let key = (key % 5 + 1).to_string();
        all.extend(parse("", "SELECT a FROM t WHERE a = $1::int", &[]));
        all.extend([bind("", "", &[Some(&key)]), execute("", 0), sync()].concat());
    }
    client.send(&all);
    for key in 1..=100 {
        assert_eq!(client.reply().cell(), (key % 5 + 1).to_string());
    }
}

#[test]
fn errors_in_a_transaction_fail_it() {
    let (_server, mut client) = start();
    for bad in [
        vec![parse("", "SELECT * FROM nothing", &[])],
        vec![bind("", "nothing", &[])],
        vec![parse("", "SELECT $1::int", &[]), bind("", "", &[Some("x")])],
        vec![message(b'D', b"Z\0")],
        vec![parse("", "SELECT 1/0", &[]), bind("", "", &[]), execute("", 0)],
    ] {
        assert_eq!(client.run("BEGIN").status, b'T');
        client.run("INSERT INTO t VALUES (50, 'x')");
        assert_eq!(send(&mut client, &bad).status, b'E');
        assert_eq!(client.query("SELECT 1").code(), "25P02");
        let end = client.query("COMMIT");
        assert_eq!((end.tags[0].as_str(), end.status), ("ROLLBACK", b'I'));
    }
    assert_eq!(client.run("SELECT count(*) FROM t").cell(), "5");
}

#[test]
fn flush_sends_what_there_is() {
    let (_server, mut client) = start();
    client.send(&[parse("", "SELECT 1", &[]), message(b'H', &[])].concat());
    assert_eq!(client.receive().kind, b'1');
    // Errors are told at once, too.
    client.send(&bind("", "nothing", &[]));
    assert_eq!(client.receive().kind, b'E');
    client.send(&sync());
    assert_eq!(client.reply().kinds, "Z");
}

#[test]
fn binary_results_and_parameters() {
    let (_server, mut client) = start();
    let messages = [
        parse("", "SELECT a, b FROM t WHERE a = $1", &[23]),
        bind_as("", "", 1, &[Some(&2i32.to_be_bytes())], 1),
        describe(b'P', ""),
        execute("", 0),
    ];
    let reply = send(&mut client, &messages).ok();
    assert!(reply.columns.iter().all(|column| column.format == 1));
    assert_eq!(reply.rows, [[Some(2i32.to_be_bytes().to_vec()), Some(b"two".to_vec())]]);
    let short = [parse("", "SELECT $1::int", &[]), bind_as("", "", 1, &[Some(&[1, 2])], 0)];
    assert_eq!(send(&mut client, &short).code(), "22P03");
    let text = [parse("", "SELECT $1::text", &[]), bind_as("", "", 1, &[Some(b"\xff")], 0)];
    assert_eq!(send(&mut client, &text).code(), "22021");
}

#[test]
fn all_types_in_binary() {
    let (_server, mut client) = start();
    client.run(
        "CREATE TABLE all_types (id int PRIMARY KEY, b boolean, s smallint, l bigint, r real, d double precision,
         n numeric(12,3), v varchar(9), c char(4), y bytea, day date, at timestamp, atz timestamptz, u uuid)",
    );
    let cells: Vec<Vec<u8>> = vec![
        1i32.to_be_bytes().into(),
        vec![1],
        (-2i16).to_be_bytes().into(),
        i64::MAX.to_be_bytes().into(),
        1.5f32.to_be_bytes().into(),
        (-0.1f64).to_be_bytes().into(),
        // -1234.567: two groups of four digits, weight 0, negative, scale 3.
        [2u16, 0, 0x4000, 3, 1234, 5670].iter().flat_map(|word| word.to_be_bytes()).collect(),
        "grün".into(),
        b"ab  ".into(),
        vec![0, 1, 255],
        (-1i32).to_be_bytes().into(),
        1_000_000i64.to_be_bytes().into(),
        (-1i64).to_be_bytes().into(),
        (0..16).collect(),
    ];
    let parameters: Vec<Option<&[u8]>> = cells.iter().map(|cell| Some(&cell[..])).collect();
    let insert = "INSERT INTO all_types VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
    send(&mut client, &[parse("", insert, &[]), bind_as("", "", 1, &parameters, 0), execute("", 0)]).ok();
    let select = "SELECT * FROM all_types WHERE id = $1";
    let key = [Some(&cells[0][..])];
    let reply =
        send(&mut client, &[parse("", select, &[]), bind_as("", "", 1, &key, 1), execute("", 0)]).ok();
    let found: Vec<Vec<u8>> = reply.rows[0].iter().map(|cell| cell.clone().unwrap()).collect();
    assert_eq!(found, cells);
    let text = "1|t|-2|9223372036854775807|1.5|-0.1|-1234.567|grün|ab  |\\x0001ff|1999-12-31|2000-01-01 00:00:01|\
                1999-12-31 23:59:59.999999+00|00010203-0405-0607-0809-0a0b0c0d0e0f";
    assert_eq!(client.run("SELECT * FROM all_types WHERE id = 1").text()[0].join("|"), text);
}

#[test]
fn a_cursor_is_described_as_a_portal() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("BEGIN");
    client.run("DECLARE rows CURSOR FOR SELECT 1 AS one, 'x'::text AS other");
    client.send(&[describe(b'P', "rows"), sync()].concat());
    assert_eq!(client.reply().ok().kinds, "TZ");
    client.send(&[describe(b'P', "none"), sync()].concat());
    assert_eq!(client.reply().code(), "34000");
}

#[test]
fn errors_name_what_they_are_about() {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL CHECK (b > 0))");
    client.run("INSERT INTO t VALUES (1, 1)");
    for (sql, column, constraint) in [
        ("INSERT INTO t VALUES (1, 1)", "", "t_pkey"),
        ("INSERT INTO t VALUES (2, NULL)", "b", ""),
        ("UPDATE t SET b = NULL", "b", ""),
        ("INSERT INTO t VALUES (2, -1)", "", "t_b_check"),
        ("ALTER TABLE t ADD CONSTRAINT large CHECK (b > 5)", "", "large"),
    ] {
        let error = client.query(sql).error.unwrap();
        let named = [&error.schema, &error.table, &error.column, &error.constraint].map(String::as_str);
        assert_eq!(named, ["public", "t", column, constraint], "{sql}");
    }
    for (sql, position) in [
        ("SELEC 1", "1"),
        ("SELECT 1;\n SELECT 'ä' b c", "25"),
        ("SELECT 1 +", "11"),
        ("FETCH 1 2 c", "9"),
        ("SELECT 1 / 0", ""),
    ] {
        assert_eq!(client.query(sql).error.unwrap().position, position, "{sql}");
    }
}

#[test]
fn results_are_described_with_types() {
    let (_server, mut client) = start();
    client.run("CREATE TABLE d (n numeric(12,3), v varchar(9), c char(4), b boolean)");
    let reply = client.run("SELECT n, v, c, b FROM d");
    let described: Vec<(u32, i16, i32)> = reply.columns.iter().map(|c| (c.oid, c.size, c.modifier)).collect();
    assert_eq!(described, [(1700, -1, (12 << 16 | 3) + 4), (1043, -1, 13), (1042, -1, 8), (16, 1, -1)]);
    assert_eq!(reply.columns[2].name, "c");
}
