//! Parameters: their types are inferred where the client declares none.

use crate::client::Client;
use ankerdb_engine::{DataType, Value};

fn types(client: &mut Client, sql: &str) -> Vec<String> {
    let prepared = client.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    prepared.parameters().iter().map(ToString::to_string).collect()
}

#[test]
fn types_come_from_the_other_side() {
    let mut client = Client::new();
    client
        .setup(&["create table t (id bigint primary key, name varchar(9), at timestamptz, n numeric(9,2))"]);
    let cases: &[(&str, &[&str])] = &[
        ("select * from t where id = $1", &["bigint"]),
        ("select * from t where $1 = id and name like $2", &["bigint", "text"]),
        ("insert into t values ($1, $2, $3)", &["bigint", "text", "timestamp with time zone"]),
        ("update t set at = $2 where id in ($1, $3)", &["bigint", "timestamp with time zone", "bigint"]),
        ("select $1", &["text"]),
        ("select $1::int + 1", &["integer"]),
        ("select id from t where id = 1 limit $1 offset $2", &["bigint", "bigint"]),
        ("delete from t where id = $1 + 1", &["integer"]),
        ("select count(*) from t where id > $1", &["bigint"]),
    ];
    for (sql, expected) in cases {
        assert_eq!(types(&mut client, sql), *expected, "{sql}");
    }
    assert_eq!(client.run_with("select $1::int + 1", &[Value::Integer(4)]), "5");
}

#[test]
fn declared_types_are_kept() {
    let mut client = Client::new();
    client.setup(&["create table t (id int primary key)", "insert into t values (7)"]);
    let statement = client.0.parse("select id from t where id = $1").unwrap().remove(0);
    let prepared = client.0.prepare(statement, &[Some(DataType::BigInt)]).unwrap();
    assert_eq!(prepared.parameters(), [DataType::BigInt]);
    assert_eq!(client.outcome(&prepared, &[Value::BigInt(7)]).unwrap(), "7");
    assert_eq!(client.outcome(&prepared, &[Value::BigInt(7 << 40)]).unwrap(), "");
    assert_eq!(client.outcome(&prepared, &[]).unwrap_err().state().code(), "08P01");
}

#[test]
fn nothing_runs_twice_through_one_plan() {
    let mut client = Client::new();
    client.setup(&["create table t (id int primary key, n int)"]);
    let insert = client.prepare("insert into t values ($1, $2)").unwrap();
    for id in 0..100 {
        client.outcome(&insert, &[Value::Integer(id), Value::Integer(0)]).unwrap();
    }
    let update = client.prepare("update t set n = n + $2 where id = $1").unwrap();
    for id in 0..100 {
        let parameters = [Value::Integer(id), Value::Integer(id)];
        assert_eq!(client.outcome(&update, &parameters).unwrap(), "UPDATE 1");
    }
    client.check(&[("select sum(n), count(*) from t", "4950,100")]);
}
