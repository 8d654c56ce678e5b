//! Statements whose texts come again with other constants: which of them are found, with which parameters, and what makes them be forgotten.

use crate::client::Client;
use ankerdb_engine::{DataType, Value};

const TABLE: &str =
    "create table t (id int primary key, n bigint, name varchar(5), price numeric(9,2), at date)";

/// Runs a text as a server does; the parameters of the statement if it was found.
fn ask(client: &mut Client, sql: &str) -> Option<Vec<Value>> {
    if let Some((prepared, parameters)) = client.0.recall(sql) {
        client.outcome(&prepared, &parameters).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        return Some(parameters);
    }
    let statement = client.0.parse(sql).unwrap().remove(0);
    let prepared = client.0.prepare(statement, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    client.0.remember(sql, &prepared);
    client.outcome(&prepared, &[]).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    None
}

/// The parameters of the last of these texts, all of one outline; the first two are not found.
fn asked<const N: usize>(client: &mut Client, texts: [&str; N]) -> Option<Vec<Value>> {
    let found: Vec<_> = texts.iter().map(|text| ask(client, text)).collect();
    assert!(found[..2].iter().all(Option::is_none), "{}: {found:?}", texts[0]);
    found.into_iter().next_back().flatten()
}

#[test]
fn constants_beside_columns_are_parameters() {
    let mut client = Client::new();
    client.setup(&[TABLE, "insert into t values (1, 1, 'a', 1, '2024-01-01')"]);
    let number = |value| Value::Integer(value);
    let found = asked(
        &mut client,
        ["select n from t where id = 1", "select n from t where id = 2", "select n from t where id = 3"],
    );
    assert_eq!(found, Some(vec![number(3)]));
    let found = asked(
        &mut client,
        [
            "update t set n = n + 1, name = 'b' where id = 1;",
            "update t set n = n + 2, name = 'c' where id = 1;",
            "update t set n = n + 5, name = 'it''s' where id = 1;",
        ],
    );
    assert_eq!(found, Some(vec![number(5), Value::text("it's"), number(1)]));
    let found = asked(
        &mut client,
        [
            "insert into t values (2, -1, 'x', 1.50, '2024-01-02')",
            "insert into t values (3, -2, 'y', 2.50, '2024-01-03')",
            "insert into t values (4, -3, 'z', 3.25, '2024-01-04')",
        ],
    );
    assert_eq!(found.map(|found| found.len()), Some(5));
    client.check(&[(
        "select * from t where id in (1, 4) order by id",
        "1,9,it's,1.00,2024-01-01|4,-3,z,3.25,2024-01-04",
    )]);
}

#[test]
fn constants_that_are_more_than_values_belong_to_the_statement() {
    let mut client = Client::new();
    client.setup(&[TABLE, "insert into t values (1, 1, 'a', 1, '2024-01-01'), (2, 2, 'b', 2, '2024-01-02')"]);
    for (sql, other) in [
        ("select 5", "select 6"),
        (
            "select id from t where id < 5 and id > 0 limit 1",
            "select id from t where id < 5 and id > 0 limit 2",
        ),
        ("select id, n from t where id = 1 order by 1", "select id, n from t where id = 1 order by 2"),
        ("select n / 2 from t where id = 1", "select n / 3 from t where id = 1"),
        ("update t set n = n / 1 where id = 1", "update t set n = n / 2 where id = 1"),
        (
            "select interval '1 day', 'x' from t where id = 1",
            "select interval '2 day', 'x' from t where id = 1",
        ),
    ] {
        let texts = [sql, sql, sql];
        let found = asked(&mut client, texts).unwrap_or_else(|| panic!("{sql} is not found"));
        assert!(found.len() <= 2, "{sql}: {found:?}");
        // Its outline is known, but it is another statement.
        assert_eq!(ask(&mut client, other), None, "{other}");
        assert!(ask(&mut client, other).is_some(), "{other}");
        assert!(ask(&mut client, sql).is_some(), "{sql}");
    }
}

#[test]
fn kinds_of_numbers_are_kinds_of_statements() {
    let mut client = Client::new();
    client.setup(&[TABLE]);
    for number in ["5", "2147483648", "5.0"] {
        let text = format!("select id from t where id = 1 and n = {number}");
        let Some(found) = asked(&mut client, [&text, &text, &text]) else { panic!("{text} is not found") };
        let is_right = match found[1] {
            Value::Integer(5) => number == "5",
            Value::BigInt(2_147_483_648) => number == "2147483648",
            Value::Numeric(_) => number == "5.0",
            _ => false,
        };
        assert!(is_right, "{text}: {found:?}");
    }
}

#[test]
fn what_changes_a_plan_makes_the_statement_be_forgotten() {
    let mut client = Client::new();
    client.setup(&[TABLE, "insert into t values (1, 1, 'a', 1, '2024-01-01')"]);
    let sql = "select n from t where id = 1";
    for change in [
        "create table other (id int)",
        "alter table t add column more int",
        "set search_path = public, pg_catalog",
        "set time zone 'Asia/Tokyo'",
        "set datestyle = 'German'",
        "create temporary table t (id int primary key, n text)",
        "discard all",
    ] {
        while ask(&mut client, sql).is_none() {}
        assert!(!client.run(change).starts_with('!'), "{change}");
        assert!(client.0.recall(sql).is_none(), "{change}");
    }
    while ask(&mut client, sql).is_none() {}
    assert_eq!(client.run("begin"), "BEGIN");
    assert!(client.0.recall(sql).is_some());
    assert_eq!(client.run("select 1 / 0"), "!22012");
    assert!(client.0.recall(sql).is_none(), "a transaction that has failed");
    assert_eq!(client.run("rollback"), "ROLLBACK");
    assert!(client.0.recall(sql).is_some());
    client.0.forget_recent();
    assert!(client.0.recall(sql).is_none());
}

#[test]
fn a_silent_session_is_asked_what_it_keeps() {
    let mut client = Client::new();
    client.setup(&[TABLE, "insert into t values (1, 1, 'a', 1, '2024-01-01')"]);
    let told = |client: &Client| (client.0.recent_statements(), client.0.has_outdated_statements());
    assert_eq!(told(&client), (0, false));
    // A text that has come once is worth remembering: without, none would ever have come before.
    let sql = "select n from t where id = 1";
    assert!(ask(&mut client, sql).is_none());
    assert_eq!(told(&client), (1, false));
    while ask(&mut client, sql).is_none() {}
    let report = "select name, count(*) from t group by name";
    while ask(&mut client, report).is_none() {}
    assert_eq!(told(&client), (3, false), "a query of many rows counts twice");
    let mut other = client.other();
    assert_eq!(other.run("drop table t"), "DROP TABLE");
    assert_eq!(told(&client), (3, true));
    drop(client.0.forget_recent());
    assert_eq!(told(&client), (0, false));
}

#[test]
fn a_session_keeps_so_many_statements_and_no_more() {
    let mut client = Client::new();
    client.setup(&[TABLE]);
    let text = |number: usize| format!("select n as c{number} from t where id = 1");
    let often = text(0);
    while ask(&mut client, &often).is_none() {}
    for number in 1..200 {
        while ask(&mut client, &text(number)).is_none() {}
        assert!(client.0.recall(&often).is_some(), "{number} others");
    }
    let kept = (0..200).filter(|&number| client.0.recall(&text(number)).is_some()).count();
    assert_eq!(kept, 64);
    let long = format!("select n from t where id = 1{}", " ".repeat(5000));
    assert_eq!(asked(&mut client, [&long, &long, &long]), None);
}

#[test]
fn texts_of_the_extended_protocol_are_found_for_parameters_of_the_same_types() {
    let mut client = Client::new();
    client.setup(&[TABLE]);
    let sql = "select n from t where id = $1";
    let prepare = |client: &mut Client, types: &[Option<DataType>]| {
        if client.0.recall_with(sql, types).is_some() {
            return true;
        }
        let statement = client.0.parse(sql).unwrap().remove(0);
        let prepared = client.0.prepare(statement, types).unwrap();
        client.0.remember_with(&prepared, types);
        false
    };
    let big = [Some(DataType::BigInt)];
    assert_eq!([(); 3].map(|()| prepare(&mut client, &[])), [false, false, true]);
    assert_eq!([(); 2].map(|()| prepare(&mut client, &big)), [false, true]);
    assert!(prepare(&mut client, &[]));
    let (untyped, typed) = (client.0.recall_with(sql, &[]), client.0.recall_with(sql, &big));
    assert_eq!(untyped.unwrap().parameters(), [DataType::Integer]);
    assert_eq!(typed.unwrap().parameters(), [DataType::BigInt]);
    // Without the parameters it is another text.
    assert!(client.0.recall(sql).is_none());
}

#[test]
fn analytical_queries_are_found_again_for_the_same_text() {
    let mut client = Client::new();
    client.setup(&[TABLE, "insert into t values (1, 1, 'a', 1, '2024-01-01'), (2, 2, 'b', 2, '2024-01-02')"]);
    let report = |least: u32| format!("select sum(n), count(*) from t where id >= {least} and at < now()");
    assert_eq!(asked(&mut client, [&report(1), &report(1), &report(1)]), Some(Vec::new()));
    // It depends on the clock, so its constants belong to it.
    assert_eq!(ask(&mut client, &report(2)), None);
    assert_eq!(ask(&mut client, &report(2)), Some(Vec::new()));
    // It reads what is there now.
    client.setup(&["insert into t values (3, 40, 'c', 3, '2024-01-03')"]);
    for (least, rows) in [(1, "43,3"), (2, "42,2")] {
        let (prepared, parameters) = client.0.recall(&report(least)).expect("it is kept");
        assert_eq!(client.outcome(&prepared, &parameters).expect("rows"), rows);
    }
    // As many as fit, each in the room of two.
    for least in 3..100 {
        while ask(&mut client, &format!("select sum(n) as s{least} from t")).is_none() {}
    }
    let kept =
        (3..100).filter(|least| client.0.recall(&format!("select sum(n) as s{least} from t")).is_some());
    assert_eq!(kept.count(), 32);
    for change in ["alter table t add c int", "set timezone = 'Asia/Tokyo'", "set search_path = pg_catalog"] {
        while ask(&mut client, &report(1)).is_none() {}
        client.setup(&[change]);
        assert!(client.0.recall(&report(1)).is_none(), "{change}");
        client.setup(&["reset search_path"]);
    }
    client.setup(&["create sequence numbers"]);
    for sql in ["select count(*), nextval('numbers') from t", "select count(*) from pg_class"] {
        assert_eq!(asked(&mut client, [sql, sql, sql]), None, "{sql}");
    }
    // What the session tells is told each time, found or not.
    let told = "select count(*), current_setting('lock_timeout') from t";
    for (limit, rows) in [("1s", "3,1s"), ("2s", "3,2s")] {
        client.setup(&[&format!("set lock_timeout = '{limit}'")]);
        for _ in 0..3 {
            let found = client.0.recall(told).map(|(prepared, _)| prepared);
            let prepared = found.unwrap_or_else(|| {
                let prepared = client.prepare(told).expect("a query");
                client.0.remember(told, &prepared);
                prepared
            });
            assert_eq!(client.outcome(&prepared, &[]).expect("rows"), rows);
        }
    }
}

#[test]
fn analytical_queries_that_come_with_other_constants_take_any() {
    let mut client = Client::new();
    client.setup(&[TABLE]);
    for id in 0..50 {
        let (name, day) = (["ab", "ac", "bc"][id % 3], 1 + id % 28);
        client.setup(&[&format!("insert into t values ({id}, {id}, '{name}', {id}.25, '2024-01-{day:02}')")]);
    }
    let report = |least: usize, price: usize, name: char, day: usize| {
        format!(
            "with late as (select * from t where at >= date '2024-01-{day:02}') \
             select count(*), sum(n) from late where id >= {least} and price < {price} and name like '{name}%' \
             and n > (select min(id) from t where id <> {least}) and 'x' <> 'y'"
        )
    };
    let expected = |least: usize, price: usize, name: char, day: usize| {
        let first = if least == 0 { 1 } else { 0 };
        let ids: Vec<_> = (0..50)
            .filter(|id| 1 + id % 28 >= day && *id >= least && *id < price && *id > first)
            .filter(|id| ["ab", "ac", "bc"][id % 3].starts_with(name))
            .collect();
        format!("{},{}", ids.len(), ids.iter().sum::<usize>())
    };
    let rounds = [(3, 40, 'a', 2), (0, 45, 'a', 1), (5, 41, 'b', 3), (0, 49, 'a', 5), (30, 45, 'b', 1)];
    for (round, (least, price, name, day)) in rounds.into_iter().enumerate() {
        let sql = report(least, price, name, day);
        let found = client.0.recall(&sql);
        assert_eq!(found.is_some(), round > 1, "round {round}");
        let (prepared, parameters) = found.unwrap_or_else(|| {
            let prepared = client.prepare(&sql).expect("a query");
            client.0.remember(&sql, &prepared);
            (prepared, Vec::new())
        });
        assert_eq!(parameters.len(), if round > 1 { 5 } else { 0 });
        let rows = client.outcome(&prepared, &parameters).expect("rows");
        assert_eq!(rows, expected(least, price, name, day), "{sql}");
    }
    // What cannot be a value is said where it stands, and a date that is none as ever.
    assert!(client.0.recall(&report(1, 2, 'a', 1).replace("2024-01-01", "2024-02-30")).is_none());
    // A text that comes again as it is has a plan for its constants.
    let same = "select count(*) from t where n > 7 group by name order by 1 limit 1";
    assert_eq!(asked(&mut client, [same, same, same]), Some(Vec::new()));
    // What may decide more than which rows pass belongs to the statement.
    let top = |rows: u32| format!("select name, count(*) from t group by name order by 2, 1 limit {rows}");
    assert_eq!(asked(&mut client, [&top(1), &top(2), &top(3)]), None);
    assert_eq!(ask(&mut client, &top(3)), Some(Vec::new()));
}

#[test]
fn a_dropped_table_is_not_kept_by_a_plan() {
    let mut client = Client::new();
    client.setup(&[TABLE, "insert into t values (1, 1, 'a', 1, '2024-01-01')"]);
    let database = client.0.engine().database().clone();
    let table = std::sync::Arc::downgrade(&database.catalog().table("t").expect("a table"));
    for sql in ["select sum(n) from t", "select n from t where id = 1"] {
        while ask(&mut client, sql).is_none() {}
    }
    client.setup(&["drop table t"]);
    assert_eq!(ask(&mut client, "select 1 where false"), None);
    let gone = || {
        (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            table.upgrade().is_none()
        })
    };
    assert!(gone(), "somebody still holds the table");
}
