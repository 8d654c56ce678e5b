//! Rows of several tables, and aggregates of few rows, which indexes lead to.

use crate::client::Client;
use ankerdb_engine::Value;

fn warehouse() -> Client {
    let mut client = Client::new();
    client.setup(&[
        "create table line (w int, o int, n int, item int, amount numeric(6,2), primary key (w, o, n))",
        "insert into line select i % 3, i / 3 / 4, i, i % 10, i from generate_series(0, 119) as g(i)",
        "create table item (id int primary key, name text)",
        "insert into item select i, 'item ' || i from generate_series(0, 9) as g(i)",
    ]);
    client
}

#[test]
fn the_table_comes_first_that_is_pinned_best() {
    let mut client = warehouse();
    assert_eq!(
        client.run("explain select name from item, line where w = 1 and o = 2 and n = 25 and id = item"),
        "Nested Loop|  ->  Index Scan using line_pkey on line|        Index Cond: ((w = 1) AND (o = 2) AND (n = 25))|  \
         ->  Index Scan using item_pkey on item|        Index Cond: (id = $1)|        Outer Columns: $1 = line.item"
    );
    assert_eq!(
        client.run("explain select sum(amount) from line where (w, o) in ((1, 2), (2, 2))"),
        "Aggregate|  ->  Index Scan in several places of line|        \
         Index Cond: (line_pkey: (w = 1) AND (o = 2) OR line_pkey: (w = 2) AND (o = 2))"
    );
    for elsewhere in [
        "explain select name from item, line where item = id and amount = 3",
        "explain select name from item, line where id = 3 and random() < 2 and w = 1 and o = 1",
        "explain select avg(amount) from line where w = 1 and o = 2",
    ] {
        let plan = client.run(elsewhere);
        assert!(!plan.contains("Index Scan"), "{elsewhere}: {plan}");
    }
}

/// Others may write what such a statement has not read, and nothing that it has.
#[test]
fn what_is_read_is_what_the_indexes_led_to() {
    let reads = [
        "select sum(amount) from line where w = 1 and o = 2",
        "select name from item, line where w = 1 and o = 2 and id = item",
        "select o from line where (w, o) in ((1, 2), (1, 3))",
        "select o from line where w = 1 and o >= 2 and o < 4 order by o limit 4 for update",
    ];
    for (number, read) in reads.into_iter().enumerate() {
        for (write, end) in [
            ("insert into line values (1, 9, 0, 1, 1)", "COMMIT"),
            ("insert into line values (1, 2, 0, 1, 1)", "!40001"),
        ] {
            let mut a = warehouse();
            let mut b = a.other();
            a.setup(&["create table done (id int primary key)", "begin isolation level serializable", read]);
            b.setup(&[write]);
            a.setup(&[&format!("insert into done values ({number})")]);
            assert_eq!(a.run("commit"), end, "{read}; {write}");
        }
    }
}

#[test]
fn rows_behind_those_that_are_locked_are_not_read() {
    let mut a = warehouse();
    let mut b = a.other();
    let first = "select o from line where w = 1 order by o, n limit 1 for update";
    a.setup(&["begin isolation level serializable", first]);
    b.setup(&[
        "insert into line values (1, 1000, 0, 1, 1)",
        "update line set amount = 0 where w = 1 and o = 5",
    ]);
    a.check(&[("delete from line where w = 1 and o = 0", "DELETE 4"), ("commit", "COMMIT")]);
}

#[test]
fn many_rows_are_left_to_analytics_with_the_same_result() {
    let mut client = Client::new();
    client.setup(&[
        "create table many (g int, i int, v numeric(6,2), primary key (g, i))",
        "insert into many select i / 12000, i, i % 100 from generate_series(0, 12010) as g(i)",
    ]);
    let sql = "select count(*), sum(v), sum(i), max(i) from many where g = $1";
    let prepared = client.prepare(sql).unwrap();
    for (group, answer) in
        [(1, "11,55.00,132055,12010"), (0, "12000,594000.00,71994000,11999"), (1, "11,55.00,132055,12010")]
    {
        assert_eq!(client.outcome(&prepared, &[Value::Integer(group)]).unwrap(), answer);
    }
    client.setup(&["begin", "insert into many values (0, -1, 0.25)"]);
    client.check(&[
        ("select count(*), sum(v) from many where g = 0", "12001,594000.25"),
        ("select count(*), sum(v) from many where g = 1", "11,55.00"),
        ("commit", "COMMIT"),
    ]);
}

/// Once such a list was a chain in an analytical query, and the process ended.
#[test]
fn lists_of_thousands_of_rows_are_no_chains() {
    let mut client = Client::new();
    client.setup(&[
        "create table pair (a int, b int, v int, primary key (a, b))",
        "insert into pair select i % 10, i, i from generate_series(1, 15000) as g(i)",
    ]);
    let list: Vec<String> = (1..=20_000).map(|i| format!("({}, {i})", i % 10)).collect();
    let list = list.join(", ");
    client.check(&[
        (&format!("select count(*) from pair where (a, b) in ({list})"), "15000"),
        (&format!("update pair set v = 0 where (a, b) in ({list})"), "UPDATE 15000"),
    ]);
    let short: Vec<String> = (1..=3_000).map(|i| format!("({}, {i})", i % 10)).collect();
    let sql = format!("select count(*) from pair where (v, b) in ({}) or v < 0", short.join(", "));
    assert_eq!(client.run(&sql), "300");
    let sql = format!("select count(*) from pair where (a, b) not in ({})", short.join(", "));
    assert_eq!(client.run(&sql), "12000");
}
