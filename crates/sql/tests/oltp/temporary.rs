//! Temporary tables, between sessions.

use crate::client::Client;

#[test]
fn nobody_else_sees_a_temporary_table() {
    let mut a = Client::new();
    let mut b = a.other();
    for (client, value) in [(&mut a, "1"), (&mut b, "2")] {
        client.check(&[
            ("create temp table t (a int primary key)", "CREATE TABLE"),
            (&format!("insert into t values ({value})"), "INSERT 0 1"),
            ("select a from t", value),
            ("select count(*) from pg_class where relname = 't'", "1"),
        ]);
    }
    let schema = a.run("select nspname from pg_namespace where oid = pg_my_temp_schema()");
    assert!(schema.starts_with("pg_temp_"), "{schema}");
    b.check(&[
        (&format!("select * from {schema}.t"), "!42P01"),
        (&format!("insert into {schema}.t values (1)"), "!42P01"),
        (&format!("drop table {schema}.t"), "!3F000"),
        (&format!("drop schema {schema} cascade"), "!3F000"),
        (&format!("set search_path = {schema}"), "SET"),
        ("select a from t", "2"),
    ]);
}

#[test]
fn temporary_tables_go_with_their_session() {
    let mut a = Client::new();
    let database = a.0.engine().database().clone();
    let relations = || (database.catalog().tables().count(), database.catalog().sequences().count());
    let mut b = a.other();
    a.setup(&["create table lasting (a int)"]);
    for is_in_transaction in [false, true] {
        b.setup(&[
            "create temp table t (a serial primary key, b text)",
            "insert into t (b) select 'x' from generate_series(1, 100)",
            "create temp view v as select * from t",
        ]);
        assert_eq!(relations(), (2, 1));
        if is_in_transaction {
            b.setup(&["begin", "insert into t (b) values ('y')", "create temp table u (a int)"]);
        }
        // As when a client vanishes: whatever it was doing.
        b = b.other();
        assert_eq!(relations(), (1, 0));
    }
    a.check(&[("select count(*) from pg_namespace where nspname like 'pg_temp%'", "0")]);
}

#[test]
fn temporary_tables_go_with_a_session_whose_thread_panics() {
    let a = Client::new();
    let database = a.0.engine().database().clone();
    let mut b = a.other();
    let panicked = std::thread::spawn(move || {
        b.setup(&["create temp table t (a int)"]);
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    while database.catalog().tables().count() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn the_memory_of_a_temporary_table_is_given_back() {
    let mut client = Client::new();
    client.setup(&["create table lasting (a int)"]);
    let database = client.0.engine().database().clone();
    let bytes = || database.statistics().table_bytes;
    let before = bytes();
    client.setup(&["create temp table t as select n, n::text as s from generate_series(1, 50000) as n"]);
    assert!(bytes() > before + 50_000);
    client.setup(&["drop table t"]);
    assert_eq!(bytes(), before);
}

#[test]
fn a_commit_that_fails_leaves_what_it_was_to_delete() {
    let mut a = Client::new();
    a.setup(&[
        "create table u (a int primary key)",
        "create temp table t (a int) on commit delete rows",
        "begin",
        "insert into t values (1)",
    ]);
    a.check(&[
        ("insert into u values (1), (1)", "!23505"),
        ("commit", "ROLLBACK"),
        ("select count(*) from t", "0"),
        ("begin", "BEGIN"),
        ("create temp table d (a int) on commit drop", "CREATE TABLE"),
        ("rollback", "ROLLBACK"),
        ("create temp table d (a int)", "CREATE TABLE"),
        ("select count(*) from d", "0"),
    ]);
}
