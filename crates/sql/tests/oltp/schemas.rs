//! Schemas and the search path, between sessions.

use crate::client::Client;

#[test]
fn every_session_looks_along_its_own_path() {
    let mut a = Client::new();
    let mut b = a.other();
    a.check(&[
        ("create schema s", "CREATE SCHEMA"),
        ("create table s.t (a int)", "CREATE TABLE"),
        ("create table t (a int)", "CREATE TABLE"),
        ("insert into t values (1)", "INSERT 0 1"),
        ("set search_path = s, public", "SET"),
        ("insert into t values (2), (3)", "INSERT 0 2"),
        ("select count(*) from t", "2"),
    ]);
    b.check(&[("select count(*) from t", "1"), ("select count(*) from s.t", "2")]);
    // A plan that is kept is made again for another path, and for a relation that comes before the one it found.
    b.check(&[
        ("prepare p as select count(*) from t", "PREPARE"),
        ("execute p", "1"),
        ("set search_path = s", "SET"),
        ("execute p", "2"),
        ("set search_path = early, s", "SET"),
        ("execute p", "2"),
    ]);
    a.check(&[("create schema early", "CREATE SCHEMA"), ("create table early.t (a int)", "CREATE TABLE")]);
    b.check(&[("execute p", "0"), ("select current_schema()", "early")]);
}

#[test]
fn a_schema_belongs_to_the_transaction_that_makes_it() {
    let mut a = Client::new();
    let mut b = a.other();
    a.check(&[
        ("begin", "BEGIN"),
        ("create schema s", "CREATE SCHEMA"),
        ("create table s.t (a int)", "CREATE TABLE"),
        ("insert into s.t values (1)", "INSERT 0 1"),
    ]);
    b.check(&[("select * from s.t", "!42P01"), ("create table s.u (a int)", "!3F000")]);
    a.check(&[("commit", "COMMIT")]);
    b.check(&[("select a from s.t", "1"), ("create table s.u (a int)", "CREATE TABLE")]);
    // Two transactions that make the same one: the second to commit ends.
    for client in [&mut a, &mut b] {
        client.check(&[("begin", "BEGIN"), ("create schema both", "CREATE SCHEMA")]);
    }
    a.check(&[("commit", "COMMIT")]);
    b.check(&[("commit", "!42P06"), ("rollback", "ROLLBACK")]);
}

#[test]
fn nothing_is_made_in_a_schema_that_somebody_drops() {
    let mut a = Client::new();
    let mut b = a.other();
    for drops_first in [true, false] {
        a.check(&[
            ("create schema s", "CREATE SCHEMA"),
            ("begin", "BEGIN"),
            ("create table s.t (a int)", "CREATE TABLE"),
        ]);
        b.check(&[("begin", "BEGIN"), ("drop schema s", "DROP SCHEMA")]);
        let (first, second) = if drops_first { (&mut b, &mut a) } else { (&mut a, &mut b) };
        first.check(&[("commit", "COMMIT")]);
        second.check(&[("commit", "!40001"), ("rollback", "ROLLBACK")]);
        let left = "select count(*) from pg_class where relname = 't'";
        a.check(&[
            (left, if drops_first { "0" } else { "1" }),
            ("drop schema if exists s cascade", "DROP SCHEMA"),
        ]);
    }
}

#[test]
fn a_schema_is_renamed_under_its_users() {
    let mut a = Client::new();
    let mut b = a.other();
    a.check(&[
        ("create schema s", "CREATE SCHEMA"),
        ("create table s.t (a serial primary key, b int)", "CREATE TABLE"),
        ("create view v as select b from s.t where a > 0", "CREATE VIEW"),
    ]);
    b.check(&[("begin", "BEGIN"), ("insert into s.t (b) values (1)", "INSERT 0 1")]);
    a.check(&[("alter schema s rename to r", "ALTER SCHEMA")]);
    // The table is the same one, whatever its schema is called.
    b.check(&[("insert into r.t (b) values (2)", "INSERT 0 1"), ("commit", "COMMIT")]);
    a.check(&[
        ("select a, b from r.t order by a", "1,1|2,2"),
        ("select count(*) from v", "2"),
        ("insert into s.t (b) values (1)", "!42P01"),
    ]);
}
