//! Domains, between sessions, and what a change of one waits for.

use crate::client::Client;

#[test]
fn a_domain_belongs_to_the_transaction_that_makes_it() {
    let mut a = Client::new();
    let mut b = a.other();
    a.check(&[
        ("begin", "BEGIN"),
        ("create domain positive as int check (value > 0)", "CREATE DOMAIN"),
        ("create table t (p positive)", "CREATE TABLE"),
        ("insert into t values (1)", "INSERT 0 1"),
    ]);
    b.check(&[("select 1::positive", "!42704"), ("create table u (p positive)", "!42704")]);
    a.check(&[("commit", "COMMIT"), ("insert into t values (-1)", "!23514")]);
    b.check(&[
        ("select p from t", "1"),
        ("insert into t values (-1)", "!23514"),
        ("select (-1)::positive", "!23514"),
    ]);
    // Two transactions that make the same one: the second to commit ends.
    for client in [&mut a, &mut b] {
        client.check(&[("begin", "BEGIN"), ("create domain both as int", "CREATE DOMAIN")]);
    }
    a.check(&[("commit", "COMMIT")]);
    b.check(&[("commit", "!42710"), ("rollback", "ROLLBACK")]);
}

/// No row passes by the former conditions once the new ones are there.
#[test]
fn a_writer_that_began_before_a_condition_does_not_commit_beside_it() {
    for statement in [
        "alter domain positive add constraint small check (value < 100)",
        "alter domain positive set not null",
        "alter domain positive add constraint small check (value < 100) not valid",
    ] {
        let mut a = Client::new();
        let mut b = a.other();
        a.setup(&[
            "create domain positive as int check (value > 0)",
            "create table t (id int primary key, p positive)",
        ]);
        b.check(&[("begin", "BEGIN"), ("insert into t values (1, 500), (2, null)", "INSERT 0 2")]);
        a.check(&[(statement, "ALTER DOMAIN")]);
        b.check(&[
            ("commit", "!40001"),
            (
                "insert into t values (1, 500), (2, null)",
                if statement.contains("null") { "!23502" } else { "!23514" },
            ),
        ]);
        a.check(&[("select count(*) from t", "0")]);
    }
}

/// A table is not made by the former conditions while its domain changes, whoever commits first.
#[test]
fn a_table_is_not_made_of_a_domain_that_changes() {
    for alters_first in [true, false] {
        for change in ["alter domain d add check (value < 100)", "drop domain d"] {
            let mut a = Client::new();
            let mut b = a.other();
            a.setup(&["create domain d as int check (value > 0)"]);
            a.check(&[("begin", "BEGIN")]);
            a.setup(&[change]);
            b.check(&[("begin", "BEGIN"), ("create table t (p d)", "CREATE TABLE")]);
            let (first, second) = if alters_first { (&mut a, &mut b) } else { (&mut b, &mut a) };
            first.check(&[("commit", "COMMIT")]);
            second.check(&[("commit", "!40001")]);
        }
    }
}

/// A transaction means its own version of a domain, and all others the one before until it commits.
#[test]
fn what_is_changed_is_seen_by_the_transaction_first() {
    let mut a = Client::new();
    let mut b = a.other();
    a.setup(&["create domain d as int check (value > 0)", "create table t (p d)"]);
    a.check(&[
        ("begin", "BEGIN"),
        ("alter domain d add constraint small check (value < 10)", "ALTER DOMAIN"),
        ("savepoint s", "SAVEPOINT"),
        ("alter domain d set default 3", "ALTER DOMAIN"),
        ("create table u (a int, p d)", "CREATE TABLE"),
        ("insert into u values (1, 50)", "!23514"),
        ("rollback to s", "ROLLBACK"),
        ("select 50::d", "!23514"),
        ("rollback to s", "ROLLBACK"),
        ("create table u (a int, p d)", "CREATE TABLE"),
        ("insert into u (a) values (1)", "INSERT 0 1"),
        ("select p is null from u", "t"),
    ]);
    b.check(&[("select 50::d", "50")]);
    a.check(&[("rollback", "ROLLBACK"), ("select 50::d", "50"), ("insert into t values (50)", "INSERT 0 1")]);
    // A plan from before tests by the conditions of now.
    b.check(&[("prepare p as select $1::int::d", "PREPARE"), ("execute p (50)", "50")]);
    a.check(&[
        ("delete from t", "DELETE 1"),
        ("alter domain d add constraint small check (value < 10)", "ALTER DOMAIN"),
    ]);
    b.check(&[("execute p (50)", "!23514"), ("insert into t values (50)", "!23514")]);
}

/// What a condition finds in the rows of now takes it back whole.
#[test]
fn rows_that_do_not_fit_keep_a_condition_away() {
    let mut a = Client::new();
    a.setup(&[
        "create domain d as int",
        "create table t (id int primary key, p d)",
        "insert into t select i, i from generate_series(1, 20000) i",
        "create table u (p d, q d)",
        "insert into u values (1, 2), (3, null)",
    ]);
    a.check(&[
        ("alter domain d add check (value < 20000)", "!23514"),
        ("alter domain d set not null", "!23502"),
        ("insert into t values (20001, 20001)", "INSERT 0 1"),
        ("insert into u values (null, null)", "INSERT 0 1"),
        ("alter domain d add constraint c check (value <= 20001)", "ALTER DOMAIN"),
        ("update t set p = p + 1 where id = 20001", "!23514"),
        ("select count(*) from t where p <= 20001", "20001"),
    ]);
}

/// A look at many rows ends when it takes too long, and leaves nothing.
#[test]
fn a_test_of_rows_ends_in_time() {
    let mut a = Client::new();
    a.setup(&[
        "create domain d as int",
        "create table t (p d)",
        "insert into t select i from generate_series(1, 300000) i",
        "set statement_timeout = '5ms'",
    ]);
    a.check(&[(
        "alter domain d add constraint c check (value > 0 and value::text ~ '^(0|1|2|3|4|5|6|7|8|9)+$')",
        "!57014",
    )]);
    a.check(&[("set statement_timeout = 0", "SET"), ("insert into t values (-1)", "INSERT 0 1")]);
}
