//! Arrays in the binary format: as parameters, declared or not, and as results.

use crate::client::{Client, Reply, bind_as, describe, execute, parse, sync};
use crate::server::TestServer;

fn send(client: &mut Client, messages: &[Vec<u8>]) -> Reply {
    client.send(&[messages.concat(), sync()].concat());
    client.reply()
}

/// An array of one dimension as clients send it.
fn array(item_oid: u32, items: &[Option<&[u8]>]) -> Vec<u8> {
    let has_null = items.contains(&None);
    let mut bytes = Vec::new();
    bytes.extend(u32::from(!items.is_empty()).to_be_bytes());
    bytes.extend(u32::from(has_null).to_be_bytes());
    bytes.extend(item_oid.to_be_bytes());
    if !items.is_empty() {
        bytes.extend((items.len() as u32).to_be_bytes());
        bytes.extend(1u32.to_be_bytes());
    }
    for item in items {
        bytes.extend(item.map_or(-1, |item| item.len() as i32).to_be_bytes());
        bytes.extend(item.unwrap_or_default());
    }
    bytes
}

fn integers(items: &[i32]) -> Vec<u8> {
    let items: Vec<[u8; 4]> = items.iter().map(|item| item.to_be_bytes()).collect();
    array(23, &items.iter().map(|item| Some(&item[..])).collect::<Vec<_>>())
}

fn start() -> (TestServer, Client) {
    let server = TestServer::start();
    let mut client = Client::connect(&server);
    client.run("CREATE TABLE t (a int PRIMARY KEY, b text, u uuid, n numeric(8,2))");
    client.run("INSERT INTO t SELECT g, 'n' || g FROM generate_series(1, 100) AS g");
    (server, client)
}

#[test]
fn a_key_is_looked_for_among_the_items_of_a_parameter() {
    let (_server, mut client) = start();
    let plan = client.run("EXPLAIN SELECT b FROM t WHERE a = ANY('{1,2}')").text().concat().join("\n");
    assert!(plan.contains("a = ANY ('{1,2}'::integer[])") && !plan.contains("Filter"), "{plan}");
    for oids in [&[][..], &[1007]] {
        let messages = [
            parse("", "SELECT b FROM t WHERE a = ANY($1) ORDER BY a", oids),
            describe(b'S', ""),
            bind_as("", "", 1, &[Some(&integers(&[7, 3, 3, 1000]))], 0),
            execute("", 0),
        ];
        let reply = send(&mut client, &messages).ok();
        assert_eq!(reply.parameters, [1007]);
        assert_eq!(reply.text(), [["n3"], ["n7"]]);
    }
    let empty = [
        parse("", "SELECT b FROM t WHERE a = ANY($1)", &[]),
        bind_as("", "", 1, &[Some(&integers(&[]))], 0),
        execute("", 0),
    ];
    assert!(send(&mut client, &empty).ok().rows.is_empty());
}

#[test]
fn parameters_take_the_array_type_of_what_they_meet() {
    let (_server, mut client) = start();
    for (sql, oid) in [
        ("SELECT a FROM t WHERE b = ANY($1)", 1009),
        ("SELECT a FROM t WHERE u <> ALL($1)", 2951),
        ("SELECT a FROM t WHERE n = ANY($1)", 1231),
        ("UPDATE t SET b = 'x' WHERE a = ANY($1)", 1007),
        ("SELECT count(*) FROM t WHERE a = ANY($1)", 1007),
        ("SELECT unnest($1::date[])", 1182),
        ("SELECT a FROM t WHERE $1 = ANY('{1,2}'::int[])", 23),
    ] {
        let reply = send(&mut client, &[parse("", sql, &[]), describe(b'S', "")]).ok();
        assert_eq!(reply.parameters, [oid], "{sql}");
    }
}

#[test]
fn arrays_come_back_as_they_were_sent() {
    let (_server, mut client) = start();
    let texts = array(25, &[Some(b"a"), None, Some(b""), Some("ä\"{".as_bytes())]);
    let shown = r#"{a,NULL,"","ä\"{"}"#;
    for sql in ["SELECT $1::text[]", "SELECT $1::text[] FROM t WHERE a % 100 = 1 GROUP BY a"] {
        for format in [0, 1] {
            let messages = [
                parse("", sql, &[]),
                bind_as("", "", 1, &[Some(&texts)], format),
                describe(b'P', ""),
                execute("", 0),
            ];
            let reply = send(&mut client, &messages).ok();
            assert_eq!(reply.columns[0].oid, 1009, "{sql}");
            let expected = if format == 1 { texts.clone() } else { shown.as_bytes().to_vec() };
            assert_eq!(reply.rows, [[Some(expected)]], "{sql}");
        }
    }
    let insert = [
        parse("", "INSERT INTO t (a, b) SELECT * FROM unnest($1::int[], $2::text[])", &[1007, 1009]),
        bind_as("", "", 1, &[Some(&integers(&[201, 202, 203, 204])), Some(&texts)], 0),
        execute("", 0),
    ];
    assert_eq!(send(&mut client, &insert).ok().tags, ["INSERT 0 4"]);
    assert_eq!(
        client.run("SELECT b FROM t WHERE a > 200 ORDER BY a").text(),
        [["a"], ["NULL"], [""], ["ä\"{"]]
    );
}

#[test]
fn malformed_arrays_are_refused() {
    let (_server, mut client) = start();
    let whole = integers(&[1, 2]);
    let longer = [&whole[..], &[0]].concat();
    let mut deep = whole.clone();
    deep[..4].copy_from_slice(&7u32.to_be_bytes());
    let mut endless = whole.clone();
    endless[12..16].copy_from_slice(&i32::MAX.to_be_bytes());
    let cases: [(&[u8], &str); 6] = [
        (&whole[..whole.len() - 1], "22P03"),
        (&whole[..11], "22P03"),
        (&longer, "22P03"),
        (&deep, "54000"),
        (&endless, "22P03"),
        (&array(25, &[Some(b"1")]), "42804"),
    ];
    for (bytes, code) in cases {
        let messages =
            [parse("", "SELECT $1::int[]", &[]), bind_as("", "", 1, &[Some(bytes)], 0), execute("", 0)];
        assert_eq!(send(&mut client, &messages).code(), code, "{bytes:?}");
    }
}
