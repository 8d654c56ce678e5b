//! Which queries use an index over expressions, or over a part of the rows.

use crate::client::Client;

fn client() -> Client {
    let mut client = Client::new();
    client.setup(&[
        "create table t (id int primary key, email text, state text, gone timestamp)",
        "insert into t values (1, 'A', 'new', null), (2, 'B', 'old', null), (3, 'C', 'new', '2020-01-01')",
    ]);
    client
}

fn uses(client: &mut Client, sql: &str, index: &str) -> bool {
    client.plan(sql).contains(&format!("using {index} on t"))
}

#[test]
fn a_query_uses_the_index_over_its_expression() {
    let mut client = client();
    client.setup(&[
        "create unique index by_email on t (lower(email))",
        "create index by_sum on t ((id + 1), state)",
    ]);
    for sql in [
        "select id from t where lower(email) = 'a'",
        "select id from t where lower(t.email) = 'a' and state = 'new'",
        "select id from t where lower(email) in ('a', 'b')",
        "select id from t where lower(email) > 'a' and lower(email) < 'c'",
    ] {
        assert!(uses(&mut client, sql, "by_email"), "{sql}");
    }
    assert!(uses(&mut client, "select id from t where id + 1 = 3 order by state", "by_sum"));
    for sql in [
        "select id from t where upper(email) = 'A'",
        "select id from t where email = 'A'",
        "select id from t where id + 2 = 3",
        "select id from t where lower(email) = state",
    ] {
        assert!(!client.plan(sql).contains("using by_"), "{sql}");
    }
    client.check(&[
        ("select id from t where lower(email) = 'b'", "2"),
        ("select id from t where id + 1 = 3 order by state", "2"),
        ("select id from t where lower(email) > 'a' and lower(email) < 'c'", "2"),
        ("insert into t values (4, 'a')", "!23505"),
    ]);
}

#[test]
fn a_query_uses_a_partial_index_where_it_implies_the_condition() {
    let mut client = client();
    client.setup(&[
        "create unique index live on t (email) where gone is null",
        "create index news on t (state, id) where state = 'new'",
        "create index mailed on t (email) where email is not null and id > 0",
    ]);
    assert!(uses(&mut client, "select id from t where email = 'A' and gone is null", "live"));
    assert!(uses(
        &mut client,
        "select id from t where gone is null and id > 5 and email in ('A', 'B')",
        "live"
    ));
    assert!(uses(&mut client, "select id from t where state = 'new' and state > 'a'", "news"));
    assert!(uses(&mut client, "select id from t where email = 'A' and id > 0", "mailed"));
    for sql in [
        "select id from t where email = 'A'",
        "select id from t where email = 'A' and gone is not null",
        "select id from t where email = 'A' or gone is null",
        "select id from t where state = 'old'",
        "select id from t where email = 'A' and id > 1",
    ] {
        assert!(!client.plan(sql).contains("Index Scan"), "{sql}");
    }
    client.check(&[
        ("select id from t where email = 'C' and gone is null", ""),
        ("select id from t where email = 'A' and gone is null", "1"),
        ("select id from t where state = 'new' order by id", "1|3"),
        ("insert into t values (4, 'C', 'x', null)", "INSERT 0 1"),
        ("insert into t values (5, 'C', 'x', null)", "!23505"),
        ("insert into t values (5, 'C', 'x', '2020-01-01')", "INSERT 0 1"),
        ("update t set gone = null where id = 5", "!23505"),
        (
            "insert into t values (6, 'C') on conflict (email) where gone is null do update set state = 'y'",
            "INSERT 0 1",
        ),
        ("select id from t where state = 'y'", "4"),
    ]);
}

#[test]
fn an_index_of_the_transaction_itself_serves_it_and_goes_with_it() {
    let mut client = client();
    client.setup(&["begin", "create table u (a text)", "create unique index lowered on u (lower(a))"]);
    client.check(&[
        ("insert into u values ('X')", "INSERT 0 1"),
        ("savepoint s", "SAVEPOINT"),
        ("insert into u values ('x')", "!23505"),
        ("rollback to s", "ROLLBACK"),
        ("select a from u where lower(a) = 'x'", "X"),
        ("create unique index on t (lower(email))", "CREATE INDEX"),
        ("rollback", "ROLLBACK"),
        ("insert into t values (9, 'a')", "INSERT 0 1"),
    ]);
}
