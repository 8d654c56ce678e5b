//! CREATE and DROP.

use crate::client::Client;
use std::sync::atomic::{AtomicBool, Ordering};

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
fn definitions_are_their_transactions_own_until_it_commits() {
    let mut a = Client::new();
    let mut b = a.other();
    a.check(&[
        ("begin", "BEGIN"),
        ("create table t (a int primary key)", "CREATE TABLE"),
        ("insert into t values (1)", "INSERT 0 1"),
        ("create table t (a int check (a > (select 1)))", "!0A000"),
        ("select 1", "!25P02"),
        ("rollback", "ROLLBACK"),
        ("begin", "BEGIN"),
        ("create table t (a int primary key)", "CREATE TABLE"),
        ("insert into t values (1)", "INSERT 0 1"),
    ]);
    b.check(&[("select count(*) from t", "!42P01"), ("create table u (a int)", "CREATE TABLE")]);
    a.check(&[("select count(*) from u", "0"), ("commit", "COMMIT")]);
    b.check(&[("select count(*) from t", "1")]);
}

/// A view is planned once for a statement: this would not end if each level planned the one beneath it several times.
#[test]
fn views_over_views_are_planned_once() {
    let mut client = Client::new();
    client.check(&[
        ("create table t (a int)", "CREATE TABLE"),
        ("insert into t values (7)", "INSERT 0 1"),
        ("create view v0 as select * from t", "CREATE VIEW"),
    ]);
    for level in 1..24 {
        let view = format!("create view v{level} as select * from v{}", level - 1);
        client.check(&[(view.as_str(), "CREATE VIEW")]);
    }
    client.check(&[("select a from v23", "7"), ("select count(*) from v23 natural join v22", "1")]);
}

/// Of two transactions that make or change the same relation, one commits.
#[test]
fn the_first_to_commit_a_relation_has_it() {
    let mut a = Client::new();
    let mut b = a.other();
    for client in [&mut a, &mut b] {
        client.check(&[("begin", "BEGIN"), ("create table t (a int)", "CREATE TABLE")]);
    }
    a.check(&[("commit", "COMMIT")]);
    b.check(&[("commit", "!42P07"), ("select count(*) from t", "0")]);
    for client in [&mut a, &mut b] {
        client.check(&[("begin", "BEGIN"), ("alter table t alter a set default 5", "ALTER TABLE")]);
    }
    b.check(&[("commit", "COMMIT")]);
    a.check(&[
        ("select 1", "!40001"),
        ("rollback", "ROLLBACK"),
        ("insert into t default values", "INSERT 0 1"),
    ]);
    b.check(&[("select a from t", "5")]);
}

/// Rows that others write while a table is copied are not lost: their commits end with 40001, or, where the statement is a
/// transaction of its own, wait and go to the new table.
#[test]
fn a_table_that_is_altered_loses_no_write() {
    let mut a = Client::new();
    let (mut b, mut c) = (a.other(), a.other());
    a.setup(&["create table t (a int primary key, b int)", "insert into t values (1, 1), (2, 2)"]);
    b.check(&[("begin", "BEGIN"), ("update t set b = 20 where a = 2", "UPDATE 1")]);
    c.check(&[("begin isolation level repeatable read", "BEGIN"), ("select sum(b) from t", "3")]);
    a.check(&[
        ("begin", "BEGIN"),
        ("insert into t values (3, 3)", "INSERT 0 1"),
        ("alter table t add c int default 7", "ALTER TABLE"),
        ("select sum(a), sum(c) from t", "6,21"),
    ]);
    b.check(&[("commit", "!40001")]);
    let writer = std::thread::spawn(move || {
        b.check(&[("update t set b = 21 where a = 2", "UPDATE 1")]);
        b
    });
    a.check(&[("commit", "COMMIT"), ("insert into t values (4, 4, 4)", "INSERT 0 1")]);
    let mut b = writer.join().unwrap();
    b.check(&[("select sum(b), sum(c) from t", "29,25")]);
    // As of an earlier time the new table has no rows, and is not read.
    c.check(&[("select sum(b) from t", "!40001"), ("rollback", "ROLLBACK"), ("select sum(b) from t", "29")]);
}

/// What a transaction has read of a table holds until its end, also where the table is another one by then: it does not see a
/// later change beside it.
#[test]
fn what_was_read_of_a_table_ends_with_it() {
    let mut a = Client::new();
    let mut b = a.other();
    a.setup(&[
        "create table t (a int)",
        "create table u (a int primary key, b int)",
        "insert into u values (1, 1)",
    ]);
    b.check(&[("begin", "BEGIN"), ("select count(*) from t", "0")]);
    a.check(&[
        ("alter table t add c int", "ALTER TABLE"),
        ("begin", "BEGIN"),
        ("insert into t values (1)", "INSERT 0 1"),
        ("update u set b = 2", "UPDATE 1"),
        ("commit", "COMMIT"),
    ]);
    b.check(&[("select b from u where a = 1 for update", "!40001"), ("rollback", "ROLLBACK")]);
    b.check(&[("begin", "BEGIN"), ("select b from u where a = 1 for update", "2"), ("commit", "COMMIT")]);
}

/// Statements of their own never fail while the table is altered under them, and none of their changes is lost.
#[test]
fn changes_go_on_while_a_table_is_altered_again_and_again() {
    const ROWS: usize = 200;
    const ALTERATIONS: usize = 25;
    let mut definer = Client::new();
    definer.setup(&["create table t (a int primary key, n int)"]);
    for row in 0..ROWS {
        definer.setup(&[&format!("insert into t values ({row}, 0)")]);
    }
    let stop = AtomicBool::new(false);
    let changes: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (mut client, stop) = (definer.other(), &stop);
                scope.spawn(move || {
                    let mut changes = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let row = (changes * 7 + writer) % ROWS;
                        client.check(&[(&format!("update t set n = n + 1 where a = {row}"), "UPDATE 1")]);
                        changes += 1;
                    }
                    changes
                })
            })
            .collect();
        for turn in 0..ALTERATIONS {
            definer.setup(&[
                &format!("alter table t add c{turn} int default {turn}"),
                "alter table t alter n set default 1",
                &format!("alter table t drop c{turn}"),
            ]);
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert!(changes > 0);
    definer.check(&[("select sum(n), count(*) from t", &format!("{changes},{ROWS}"))]);
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
