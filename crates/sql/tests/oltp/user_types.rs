//! Types that users make, between sessions.

use crate::client::Client;

#[test]
fn a_type_belongs_to_the_transaction_that_makes_it() {
    let mut a = Client::new();
    let mut b = a.other();
    a.check(&[
        ("begin", "BEGIN"),
        ("create type mood as enum ('sad', 'happy')", "CREATE TYPE"),
        ("create table t (m mood)", "CREATE TABLE"),
        ("insert into t values ('happy')", "INSERT 0 1"),
    ]);
    b.check(&[("select 'sad'::mood", "!42704"), ("create table u (m mood)", "!42704")]);
    a.check(&[("commit", "COMMIT")]);
    b.check(&[("select m from t", "happy"), ("select 'sad'::mood", "sad")]);
    // Two transactions that make the same one: the second to commit ends.
    for client in [&mut a, &mut b] {
        client.check(&[("begin", "BEGIN"), ("create type both as enum ('a')", "CREATE TYPE")]);
    }
    a.check(&[("commit", "COMMIT")]);
    b.check(&[("commit", "!42710"), ("rollback", "ROLLBACK")]);
}

/// A label comes without a look at any row: writers go on, and commit.
#[test]
fn a_label_is_added_beside_writers() {
    let mut a = Client::new();
    let mut b = a.other();
    a.setup(&["create type mood as enum ('sad', 'happy')", "create table t (a int primary key, m mood)"]);
    b.check(&[
        ("begin", "BEGIN"),
        ("insert into t values (1, 'happy')", "INSERT 0 1"),
        ("insert into t values (2, 'ok')", "!22P02"),
        ("rollback", "ROLLBACK"),
        ("begin", "BEGIN"),
        ("insert into t values (1, 'happy')", "INSERT 0 1"),
        ("prepare p (mood) as insert into t values (3, $1)", "PREPARE"),
    ]);
    a.check(&[
        ("begin", "BEGIN"),
        ("alter type mood add value 'ok' before 'happy'", "ALTER TYPE"),
        ("select 'ok'::mood", "!55P04"),
        ("rollback", "ROLLBACK"),
        ("select 'ok'::mood", "!22P02"),
        ("alter type mood add value 'ok' before 'happy'", "ALTER TYPE"),
    ]);
    // A plan from before reads the label, too.
    b.check(&[
        ("insert into t values (2, 'ok')", "INSERT 0 1"),
        ("execute p ('ok')", "INSERT 0 1"),
        ("commit", "COMMIT"),
        ("select a from t order by m, a", "2|3|1"),
        ("select a from t where m < 'happy' order by a", "2|3"),
    ]);
}

#[test]
fn two_that_change_a_type_are_in_conflict() {
    let mut a = Client::new();
    let mut b = a.other();
    a.setup(&["create type mood as enum ('sad')"]);
    for (client, label) in [(&mut a, "x"), (&mut b, "y")] {
        let add = format!("alter type mood add value '{label}'");
        client.check(&[("begin", "BEGIN"), (&add, "ALTER TYPE")]);
    }
    a.check(&[("commit", "COMMIT")]);
    b.check(&[("commit", "!40001"), ("select enum_range(null::mood)", "{sad,x}")]);
}

/// No table has a column of a type that is gone, whoever commits first.
#[test]
fn a_type_is_not_dropped_beside_a_table_that_is_made_of_it() {
    for drops_first in [true, false] {
        let mut a = Client::new();
        let mut b = a.other();
        a.setup(&["create type mood as enum ('sad')"]);
        a.check(&[("begin", "BEGIN"), ("drop type mood", "DROP TYPE")]);
        b.check(&[
            ("begin", "BEGIN"),
            ("create table t (m mood)", "CREATE TABLE"),
            ("insert into t values ('sad')", "INSERT 0 1"),
        ]);
        let (first, second) = if drops_first { (&mut a, &mut b) } else { (&mut b, &mut a) };
        first.check(&[("commit", "COMMIT")]);
        second.check(&[("commit", "!40001")]);
        let kept = if drops_first { ("select * from t", "!42P01") } else { ("select m from t", "sad") };
        first.check(&[kept]);
    }
}

/// A session that inserts while the type goes with its columns ends with 40001.
#[test]
fn a_type_goes_with_its_columns_beside_a_session_that_inserts() {
    let mut a = Client::new();
    let mut b = a.other();
    a.setup(&[
        "create type mood as enum ('sad')",
        "create table t (a int primary key, m mood)",
        "insert into t values (1, 'sad')",
    ]);
    b.check(&[("begin", "BEGIN"), ("insert into t values (2, 'sad')", "INSERT 0 1")]);
    a.check(&[("drop type mood", "!2BP01"), ("drop type mood cascade", "DROP TYPE")]);
    b.check(&[("commit", "!40001"), ("insert into t values (2, 'sad')", "!42601")]);
    a.check(&[("select * from t", "1"), ("select 'sad'::mood", "!42704")]);
}

#[test]
fn what_is_kept_follows_a_type_to_another_name_and_schema() {
    let mut a = Client::new();
    a.setup(&[
        "create schema s",
        "create type mood as enum ('sad', 'happy')",
        "create table t (m mood default 'sad', check (m <> 'happy'), t text default 'sad'::mood)",
        "create view v as select count(*) as n from t where m = 'sad'::mood",
        "create index i on t ((m::text)) where m = 'sad'::mood",
        "alter type mood rename to feeling",
        "alter type feeling set schema s",
    ]);
    a.check(&[
        // Texts name labels as they are written.
        ("alter type s.feeling rename value 'sad' to 'blue'", "!0A000"),
        ("insert into t values ('sad')", "INSERT 0 1"),
        ("insert into t values ('happy')", "!23514"),
        ("select n from v", "1"),
        ("create type mood as enum ('other')", "CREATE TYPE"),
        ("insert into t (t) values ('x')", "INSERT 0 1"),
        ("drop type mood", "DROP TYPE"),
        ("drop type s.feeling", "!2BP01"),
        ("drop type s.feeling cascade", "DROP TYPE"),
        ("select * from v", "!42P01"),
        ("select count(*) from t", "2"),
    ]);
}
