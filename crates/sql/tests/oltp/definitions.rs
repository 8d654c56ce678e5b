//! CREATE and DROP.

use crate::client::Client;

#[test]
fn tables_come_and_go() {
    let mut client = Client::new();
    client.check(&[
        ("create table t (id int primary key, name varchar(5))", "CREATE TABLE"),
        ("create table t (id int)", "!42P07"),
        ("create table if not exists t (id int)", "CREATE TABLE"),
        ("insert into public.t values (1, 'a')", "INSERT 0 1"),
        ("select id from t where id = 1", "1"),
        ("drop table t, nothing", "!42P01"),
        ("select id from t where id = 1", "1"),
        ("drop table if exists t, nothing", "DROP TABLE"),
        ("insert into t values (1, 'a')", "!42P01"),
        ("drop table t", "!42P01"),
    ]);
}

#[test]
fn indexes_get_postgres_names_and_serve_queries() {
    let mut client = Client::new();
    client.setup(&["create table t (a int, b int)", "insert into t values (1, 10), (2, 20), (2, 21)"]);
    assert!(!client.plan("select b from t where a = 2").starts_with("Index"));
    client.check(&[
        ("create index on t (a)", "CREATE INDEX"),
        ("create unique index unique_b on t (b)", "CREATE INDEX"),
        ("create unique index on t (a)", "!23505"),
        ("create index on t (c)", "!42703"),
        ("create index if not exists t_a_idx on t (a)", "CREATE INDEX"),
        ("select b from t where a = 2 order by b desc", "21|20"),
        ("insert into t values (3, 20)", "!23505"),
    ]);
    assert_eq!(client.plan("select b from t where a = 2"), "Index Scan using t_a_idx on t");
    client.check(&[
        ("drop index t_a_idx", "DROP INDEX"),
        ("drop index t_a_idx", "!42704"),
        ("drop index if exists t_a_idx", "DROP INDEX"),
    ]);
}

#[test]
fn definitions_stay_out_of_transaction_blocks() {
    let mut client = Client::new();
    client.check(&[
        ("begin", "BEGIN"),
        ("create table t (a int)", "!25001"),
        ("select 1", "!25P02"),
        ("rollback", "ROLLBACK"),
        ("create table t (a int references u)", "!0A000"),
    ]);
}

#[test]
fn a_prepared_statement_survives_changes_of_the_catalog() {
    let mut client = Client::new();
    client.setup(&["create table t (a int, b text)", "insert into t values (1, 'x')"]);
    let prepared = client.prepare("select b from t where a = 1").unwrap();
    assert_eq!(client.outcome(&prepared, &[]).unwrap(), "x");
    client.setup(&["create index on t (a)"]);
    assert_eq!(client.outcome(&prepared, &[]).unwrap(), "x");
    client.setup(&["drop table t", "create table t (a int, b int)"]);
    let error = client.outcome(&prepared, &[]).unwrap_err();
    assert_eq!((error.state().code(), error.message()), ("0A000", "cached plan must not change result type"));
    client.setup(&["drop table t"]);
    assert_eq!(client.outcome(&prepared, &[]).unwrap_err().state().code(), "42P01");
}
