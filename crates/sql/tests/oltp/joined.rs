//! UPDATE FROM, DELETE USING and MERGE beside other transactions.

use crate::client::{Client, engine};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// Long enough for a statement to begin waiting.
const UNDER_WAY: Duration = Duration::from_millis(50);

/// Two sessions on a table `t` of two rows, and one `u` of changes to it.
fn two_clients() -> (Client, Client) {
    let engine = engine();
    let mut first = Client(engine.session());
    first.setup(&[
        "create table t (id int primary key, n int)",
        "create table u (id int primary key, d int)",
        "insert into t values (1, 10), (2, 20)",
        "insert into u values (1, 100), (3, 300)",
    ]);
    (first, Client(engine.session()))
}

/// A statement of READ COMMITTED that waits, and its answer.
fn waiting(mut client: Client, sql: &'static str) -> JoinHandle<String> {
    client.setup(&["begin isolation level read committed"]);
    let waiting = spawn(move || {
        let answer = client.run(sql);
        client.setup(&["commit"]);
        answer
    });
    sleep(UNDER_WAY);
    assert!(!waiting.is_finished(), "{sql} did not wait");
    waiting
}

#[test]
fn read_committed_joins_again_with_the_row_that_it_waited_for() {
    let (mut a, b) = two_clients();
    a.setup(&["begin", "update t set n = 11 where id = 1"]);
    let b = waiting(b, "update t set n = n + d from u where t.id = u.id returning t.id, n");
    a.setup(&["commit"]);
    assert_eq!(b.join().unwrap(), "1,111");
}

#[test]
fn read_committed_leaves_a_row_alone_that_no_longer_fits() {
    let (mut a, b) = two_clients();
    a.setup(&["begin", "update t set id = 5 where id = 1"]);
    let b = waiting(b, "delete from t using u where t.id = u.id");
    a.setup(&["commit"]);
    assert_eq!(b.join().unwrap(), "DELETE 0");
    a.check(&[("select count(*) from t", "2")]);
}

#[test]
fn a_merge_at_read_committed_inserts_where_the_row_has_gone() {
    let (mut a, b) = two_clients();
    a.setup(&["begin", "delete from t where id = 1"]);
    let merge = "merge into t using u on t.id = u.id when matched then update set n = n + d \
                 when not matched then insert values (u.id, d)";
    let b = waiting(b, merge);
    a.setup(&["commit"]);
    assert_eq!(b.join().unwrap(), "MERGE 2");
    a.check(&[("select * from t order by id", "1,100|2,20|3,300")]);
}

#[test]
fn the_row_that_has_changed_is_refused_above_read_committed() {
    for level in ["repeatable read", "serializable"] {
        let (mut a, mut b) = two_clients();
        a.setup(&[&format!("begin isolation level {level}"), "select * from t"]);
        b.setup(&["update t set n = 0 where id = 1"]);
        a.check(&[
            ("update t set n = n + d from u where t.id = u.id", "!40001"),
            ("rollback", "ROLLBACK"),
            ("select n from t where id = 1", "0"),
        ]);
    }
}

#[test]
fn what_the_join_has_read_is_validated() {
    for (level, end) in [("repeatable read", "COMMIT"), ("serializable", "!40001")] {
        let (mut a, mut b) = two_clients();
        a.setup(&[
            &format!("begin isolation level {level}"),
            "update t set n = n + d from u where t.id = u.id",
        ]);
        b.setup(&["insert into u values (2, 200)"]);
        assert_eq!(a.run("commit"), end, "{level}");
    }
}

#[test]
fn values_of_the_target_are_validated_too() {
    let (mut a, mut b) = two_clients();
    // Row 2 fits the join; what the clause reads of it decides that it is left alone.
    a.setup(&[
        "insert into u values (2, 0)",
        "begin isolation level serializable",
        "merge into t using u on t.id = u.id when matched and n = 10 then update set n = n + 1",
    ]);
    b.setup(&["update t set n = 10 where id = 2"]);
    assert_eq!(a.run("commit"), "!40001");
}

#[test]
fn own_rows_are_written_by_their_identity() {
    let (mut a, mut b) = two_clients();
    a.check(&[
        ("begin", "BEGIN"),
        ("insert into t values (3, 30), (4, 40)", "INSERT 0 2"),
        ("delete from t where id = 4", "DELETE 1"),
        ("insert into t values (5, 50)", "INSERT 0 1"),
        ("update t set n = n + d from u where t.id = u.id", "UPDATE 2"),
        ("update t set n = n + 1 from (values (5)) as v (id) where t.id = v.id", "UPDATE 1"),
        ("delete from t using u where t.id = u.id and n = 330", "DELETE 1"),
        ("select * from t order by id", "1,110|2,20|5,51"),
        ("commit", "COMMIT"),
    ]);
    b.check(&[("select * from t order by id", "1,110|2,20|5,51")]);
}

#[test]
fn a_savepoint_takes_a_joined_write_back() {
    let (mut a, _) = two_clients();
    a.check(&[
        ("begin", "BEGIN"),
        ("savepoint s", "SAVEPOINT"),
        ("update t set n = 0 from u where t.id = u.id", "UPDATE 1"),
        (
            "merge into t using u on t.id = u.id when not matched then insert values (u.id, 0), (7, 7)",
            "!42601",
        ),
        ("rollback to s", "ROLLBACK"),
        ("commit", "COMMIT"),
        ("select * from t order by id", "1,10|2,20"),
    ]);
}

#[test]
fn sessions_that_add_up_by_joins_lose_nothing() {
    let engine = engine();
    let mut setup = Client(engine.session());
    setup.setup(&[
        "create table t (id int primary key, n int)",
        "insert into t values (1, 0), (2, 0), (3, 0)",
    ]);
    let add = "update t set n = n + v.d from (values (1, 1), (2, 1), (3, 1)) as v (id, d) where t.id = v.id";
    let session = || {
        let mut client = Client(engine.session());
        spawn(move || (0..20).filter(|_| client.run(add) == "UPDATE 3").count())
    };
    let sessions: Vec<_> = (0..3).map(|_| session()).collect();
    let done: usize = sessions.into_iter().map(|session| session.join().unwrap()).sum();
    assert_eq!(setup.run("select n from t order by id"), vec![done.to_string(); 3].join("|"));
    assert_eq!(done, 60, "every statement is run again until it succeeds");
}

#[test]
fn parameters_get_the_types_of_what_they_are_for() {
    let (mut a, _) = two_clients();
    let update = "update t set n = $1 from u where t.id = u.id and d = $2 returning n";
    let prepared = a.prepare(update).unwrap();
    let names: Vec<String> = prepared.parameters().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["integer", "integer"]);
    use ankerdb_engine::Value;
    assert_eq!(a.outcome(&prepared, &[Value::Integer(7), Value::Integer(100)]).unwrap(), "7");
    // Planned once; the same plan sees what has changed since.
    a.setup(&["update u set d = 101 where id = 1"]);
    assert_eq!(a.outcome(&prepared, &[Value::Integer(8), Value::Integer(100)]).unwrap(), "");
}
