//! Transaction blocks, isolation and locks, over two sessions of one engine.

use crate::client::{Client, engine};
use ankerdb_sql::TransactionStatus;

fn two_clients() -> (Client, Client) {
    let engine = engine();
    let mut first = Client(engine.session());
    first.setup(&["create table t (id int primary key, n int)", "insert into t values (1, 10), (2, 20)"]);
    (first, Client(engine.session()))
}

#[test]
fn a_block_is_seen_after_commit_and_never_after_rollback() {
    let (mut a, mut b) = two_clients();
    a.check(&[("begin", "BEGIN"), ("update t set n = 11 where id = 1", "UPDATE 1")]);
    assert_eq!(a.0.transaction_status(), TransactionStatus::InTransaction);
    // Own writes are seen by both paths, others' are not.
    a.check(&[("select n from t where id = 1", "11"), ("select sum(n) from t", "31")]);
    b.check(&[("select n from t where id = 1", "10"), ("select sum(n) from t", "30")]);
    a.check(&[("commit", "COMMIT")]);
    b.check(&[("select n from t where id = 1", "11"), ("select sum(n) from t", "31")]);
    a.check(&[("begin", "BEGIN"), ("delete from t where id = 1", "DELETE 1"), ("rollback", "ROLLBACK")]);
    b.check(&[("select sum(n) from t", "31")]);
    assert_eq!(a.0.transaction_status(), TransactionStatus::Idle);
}

#[test]
fn an_error_fails_the_block_until_its_end() {
    let (mut a, _) = two_clients();
    a.check(&[
        ("begin", "BEGIN"),
        ("update t set n = 0 where id = 1", "UPDATE 1"),
        ("select 1 / 0", "!22012"),
        ("select 1", "!25P02"),
    ]);
    assert_eq!(a.0.transaction_status(), TransactionStatus::Failed);
    a.check(&[("commit", "ROLLBACK"), ("select n from t where id = 1", "10")]);
    a.check(&[("begin", "BEGIN"), ("selec", "!42601")]);
    a.check(&[("rollback", "ROLLBACK")]);
}

#[test]
fn lost_updates_are_refused_above_read_committed() {
    for level in ["repeatable read", "serializable"] {
        let (mut a, mut b) = two_clients();
        a.setup(&[&format!("begin isolation level {level}"), "select n from t where id = 1"]);
        b.setup(&["update t set n = n + 1 where id = 1"]);
        a.check(&[("update t set n = n + 1 where id = 1", "!40001"), ("rollback", "ROLLBACK")]);
        a.check(&[("select n from t where id = 1", "11")]);
    }
}

#[test]
fn read_committed_sees_each_commit_and_updates_the_newest_row() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin isolation level read committed", "select n from t where id = 1"]);
    b.setup(&["update t set n = n + 1 where id = 1"]);
    a.check(&[
        ("select n from t where id = 1", "11"),
        ("update t set n = n + 1 where id = 1", "UPDATE 1"),
        ("commit", "COMMIT"),
        ("select n from t where id = 1", "12"),
    ]);
}

#[test]
fn read_committed_waits_for_the_row_and_looks_again() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin", "update t set n = 5 where id = 1"]);
    b.setup(&["begin isolation level read committed"]);
    let waiting = std::thread::spawn(move || {
        // Both rows satisfy the condition until the other transaction commits; then one does.
        b.check(&[("update t set n = n + 1 where n >= 10", "UPDATE 1"), ("commit", "COMMIT")]);
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    a.setup(&["commit"]);
    waiting.join().unwrap();
    a.check(&[("select id, n from t where id in (1, 2)", "1,5|2,21")]);
}

#[test]
fn write_skew_is_refused_at_serializable_only() {
    for (level, second) in [("repeatable read", "COMMIT"), ("serializable", "!40001")] {
        let (mut a, mut b) = two_clients();
        let begin = format!("begin isolation level {level}");
        a.setup(&[&begin, "select n from t where id = 1", "select n from t where id = 2"]);
        b.setup(&[&begin, "select n from t where id = 1", "select n from t where id = 2"]);
        a.setup(&["update t set n = 0 where id = 1", "commit"]);
        b.check(&[("update t set n = 0 where id = 2", "UPDATE 1")]);
        assert_eq!(b.run("commit"), second, "{level}");
    }
}

#[test]
fn what_an_analytical_query_read_is_validated() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin isolation level serializable", "select sum(n) from t", "insert into t values (9, 30)"]);
    b.setup(&["insert into t values (3, 5)"]);
    assert_eq!(a.run("commit"), "!40001");
}

#[test]
fn locks_are_waited_for_refused_or_skipped() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin", "select n from t where id = 1 for update"]);
    b.setup(&["begin"]);
    b.check(&[("select id from t for update skip locked", "2"), ("commit", "COMMIT")]);
    b.check(&[
        ("begin", "BEGIN"),
        ("select n from t where id = 1 for update nowait", "!55P03"),
        ("rollback", "ROLLBACK"),
    ]);
    a.setup(&["commit"]);
    b.check(&[("select n from t where id = 1 for update nowait", "10")]);
}

#[test]
fn rows_that_subqueries_choose_are_locked() {
    let (mut a, mut b) = two_clients();
    a.check(&[
        ("begin", "BEGIN"),
        ("select n from t where id = (select max(id) from t) for no key update of t", "20"),
    ]);
    b.check(&[
        ("select n from t where id = 2 for key share nowait", "!55P03"),
        ("select id from t where id in (select id from t) for update skip locked", "1"),
        (
            "update t set n = 0 where (id, n) in ((1, 10), (3, 30)) returning id, (select count(*) from t)",
            "1,2",
        ),
    ]);
    a.setup(&["commit"]);
}

#[test]
fn two_blocks_that_wait_for_each_other_are_a_deadlock() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin isolation level read committed", "update t set n = 1 where id = 1"]);
    b.setup(&["begin isolation level read committed", "update t set n = 2 where id = 2"]);
    let end = |mut client: Client, sql: &str| {
        let answer = client.run(sql);
        client.check(&[("rollback", "ROLLBACK")]);
        answer
    };
    let waiting = std::thread::spawn(move || end(b, "update t set n = 3 where id = 1"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mine = end(a, "update t set n = 4 where id = 2");
    let theirs = waiting.join().unwrap();
    let mut answers = [mine.as_str(), theirs.as_str()];
    answers.sort_unstable();
    assert!(matches!(answers, ["!40P01", "UPDATE 1" | "!40P01"]), "{answers:?}");
}

#[test]
fn autocommit_statements_wait_and_try_again() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin", "update t set n = n + 1 where id = 1"]);
    let waiting = std::thread::spawn(move || b.run("update t set n = n + 1 where id = 1"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    a.setup(&["commit"]);
    assert_eq!(waiting.join().unwrap(), "UPDATE 1");
    a.check(&[("select n from t where id = 1", "12")]);
}

#[test]
fn a_waiting_statement_can_be_canceled() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin", "update t set n = 0 where id = 1"]);
    b.setup(&["begin"]);
    let cancel = b.0.cancel_handle();
    let waiting = std::thread::spawn(move || b.run("update t set n = 1 where id = 1"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    cancel.cancel();
    assert_eq!(waiting.join().unwrap(), "!57014");
}

#[test]
fn a_statement_that_takes_too_long_is_canceled() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin", "update t set n = 0 where id = 1"]);
    b.setup(&["set statement_timeout = '50ms'"]);
    let update = b.prepare("update t set n = 1 where id = 1").unwrap();
    let error = b.outcome(&update, &[]).unwrap_err();
    assert_eq!(error.message(), "canceling statement due to statement timeout");
    // The next statement has a time of its own.
    b.check(&[("select n from t where id = 1", "10"), ("set statement_timeout = 0", "SET")]);
    a.setup(&["commit"]);
    assert_eq!(b.outcome(&update, &[]).unwrap(), "UPDATE 1");
    b.check(&[("set statement_timeout = 'soon'", "!22023")]);
}

#[test]
fn read_only_transactions_refuse_writes() {
    let (mut a, _) = two_clients();
    a.check(&[
        ("begin read only", "BEGIN"),
        ("select n from t where id = 1", "10"),
        ("update t set n = 0 where id = 1", "!25006"),
        ("rollback", "ROLLBACK"),
        ("set default_transaction_read_only = on", "SET"),
        ("delete from t", "!25006"),
        ("create table u (a int)", "!25006"),
        ("reset default_transaction_read_only", "RESET"),
        ("delete from t", "DELETE 2"),
    ]);
}

#[test]
fn statements_of_one_string_are_one_transaction() {
    let (mut a, mut b) = two_clients();
    a.0.begin_implicit();
    a.setup(&["update t set n = 0 where id = 1"]);
    b.check(&[("select n from t where id = 1", "10")]);
    a.0.end_implicit().unwrap();
    b.check(&[("select n from t where id = 1", "0")]);
    a.0.begin_implicit();
    a.check(&[("update t set n = 5 where id = 1", "UPDATE 1"), ("select 1 / 0", "!22012")]);
    a.0.fail_implicit();
    assert_eq!(a.0.transaction_status(), TransactionStatus::Idle);
    b.check(&[("select n from t where id = 1", "0")]);
    // A BEGIN among them makes the block explicit: it outlives the string.
    a.0.begin_implicit();
    a.setup(&["begin", "update t set n = 7 where id = 1"]);
    a.0.end_implicit().unwrap();
    assert_eq!(a.0.transaction_status(), TransactionStatus::InTransaction);
    a.setup(&["rollback"]);
    b.check(&[("select n from t where id = 1", "0")]);
}

#[test]
fn settings_are_shown_as_they_are_set() {
    let (mut a, _) = two_clients();
    a.check(&[
        ("show transaction isolation level", "serializable"),
        ("set default_transaction_isolation = 'read committed'", "SET"),
        ("show transaction_isolation", "read committed"),
        ("begin isolation level repeatable read", "BEGIN"),
        ("show transaction isolation level", "repeatable read"),
        ("select n from t where id = 1", "10"),
        ("set transaction isolation level serializable", "!25001"),
        ("rollback", "ROLLBACK"),
        ("set session characteristics as transaction isolation level serializable", "SET"),
        ("show default_transaction_isolation", "serializable"),
        ("set client_encoding to 'utf-8'", "SET"),
        ("set client_encoding to latin1", "!0A000"),
        ("set datestyle = 'iso, mdy'", "SET"),
        ("set application_name = 'app'", "SET"),
        ("show application_name", "app"),
        ("set nonsense = 1", "!42704"),
        ("show nonsense", "!42704"),
        ("discard all", "DISCARD ALL"),
        ("show application_name", ""),
        ("savepoint a", "!25P01"),
    ]);
}
