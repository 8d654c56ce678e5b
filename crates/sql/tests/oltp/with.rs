//! Statements behind WITH that write, beside other transactions and within one.

use crate::client::{Client, engine};
use std::thread::{sleep, spawn};
use std::time::Duration;

fn two_clients() -> (Client, Client) {
    let engine = engine();
    let mut first = Client(engine.session());
    first.setup(&[
        "create table t (id int primary key, n int)",
        "create table done (id int primary key, n int)",
        "insert into t values (1, 10), (2, 20), (3, 30)",
    ]);
    (first, Client(engine.session()))
}

#[test]
fn steps_do_not_see_each_other_but_own_earlier_statements() {
    let (mut a, _) = two_clients();
    a.check(&[
        ("begin", "BEGIN"),
        ("insert into t values (4, 40)", "INSERT 0 1"),
        (
            "with x as (insert into t values (5, 50) returning id) select max(id), (select id from x) from t",
            "4,5",
        ),
        (
            "with x as (update t set n = 0 returning id) select sum(n), (select count(*) from x) from t",
            "150,5",
        ),
        (
            "with x as (delete from t where id = 1 returning id) update t set n = n + 1 where id < 3",
            "UPDATE 1",
        ),
        ("select * from t order by id", "2,1|3,0|4,0|5,0"),
        ("rollback", "ROLLBACK"),
        ("select count(*) from t", "3"),
    ]);
}

#[test]
fn an_error_of_a_later_step_takes_back_the_earlier_ones() {
    let (mut a, _) = two_clients();
    a.check(&[
        ("with x as (delete from t returning id) insert into done select 1, id from x", "!23505"),
        ("with x as (update t set n = 1 returning id) select 1 / (id - id) from x", "!22012"),
        ("select * from t order by id", "1,10|2,20|3,30"),
    ]);
}

#[test]
fn the_first_step_looks_again_at_a_row_that_it_waited_for() {
    let (mut a, mut b) = two_clients();
    a.setup(&["begin", "update t set n = 11 where id = 1"]);
    b.setup(&["begin isolation level read committed"]);
    let waiting = spawn(move || {
        let sql = "with x as (delete from t where id = 1 returning *) \
                   insert into done select id, n + (select sum(n) from t) from x returning n";
        let answer = b.run(sql);
        b.setup(&["commit"]);
        answer
    });
    sleep(Duration::from_millis(50));
    a.setup(&["commit"]);
    // 11, and what all rows were as of the deletion.
    assert_eq!(waiting.join().unwrap(), "72");
}

#[test]
fn rows_move_between_tables_once_however_many_sessions_move_them() {
    let engine = engine();
    let mut setup = Client(engine.session());
    setup.setup(&[
        "create table t (id int primary key, n int)",
        "create table done (id int primary key, n int)",
        "insert into t select i, i from generate_series(1, 60) as g (i)",
    ]);
    let session = |from: usize| {
        let mut client = Client(engine.session());
        spawn(move || {
            for id in (1..=60).cycle().skip(from).take(60) {
                let sql = format!(
                    "with x as (delete from t where id = {id} returning *) insert into done select * from x"
                );
                assert!(client.run(&sql).starts_with("INSERT 0 "), "{sql}");
            }
        })
    };
    let sessions: Vec<_> = [0, 5, 10].into_iter().map(session).collect();
    sessions.into_iter().for_each(|session| session.join().unwrap());
    setup.check(&[("select count(*) from t", "0"), ("select count(*), sum(n) from done", "60,1830")]);
}

#[test]
fn what_the_steps_read_is_validated() {
    let (mut a, mut b) = two_clients();
    a.setup(&[
        "begin isolation level serializable",
        "with x as (insert into done select id, n from t returning n) select sum(n) from x",
    ]);
    b.setup(&["insert into t values (4, 40)"]);
    assert_eq!(a.run("commit"), "!40001");
}

#[test]
fn a_read_only_transaction_refuses_them() {
    let (mut a, _) = two_clients();
    a.check(&[
        ("begin read only", "BEGIN"),
        ("with x as (delete from t returning id) select * from x", "!25006"),
        ("rollback", "ROLLBACK"),
    ]);
}
