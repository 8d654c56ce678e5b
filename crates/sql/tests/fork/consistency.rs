//! A child sees every commit as a whole or not at all, and all that was acknowledged before.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ACCOUNTS: usize = 20_000;

/// One transfer, or an account that moves to another block, which may be newer than a reader's plan. The outcome of the commit.
fn transfer(writer: &mut Client, turn: usize, from: usize, to: usize) -> String {
    writer.check(&[("BEGIN", "BEGIN")]);
    if turn.is_multiple_of(2) {
        for (change, id) in [("- 1", from), ("+ 1", to)] {
            let update = format!("UPDATE account SET balance = balance {change} WHERE id = {id}");
            let updated = writer.run(&update);
            if updated != "UPDATE 1" {
                return rolled_back(writer, &updated);
            }
        }
    } else {
        let balance = writer.run(&format!("DELETE FROM account WHERE id = {from} RETURNING balance"));
        if balance.starts_with('!') {
            return rolled_back(writer, &balance);
        }
        let inserted = writer.run(&format!("INSERT INTO account VALUES ({from}, {balance}, 'moved')"));
        if inserted != "INSERT 0 1" {
            return rolled_back(writer, &inserted);
        }
    }
    let outcome = writer.run("COMMIT");
    assert!(matches!(outcome.as_str(), "COMMIT" | "!40001"), "COMMIT: {outcome}");
    outcome
}

/// Ends a transaction that has failed, as it may.
fn rolled_back(writer: &mut Client, answer: &str) -> String {
    assert!(matches!(answer, "!40001" | "!40P01"), "{answer}");
    writer.check(&[("ROLLBACK", "ROLLBACK")]);
    answer.to_owned()
}

#[test]
fn totals_are_right_beside_transfers() {
    let engine = engine();
    let mut client = Client(engine.session());
    client.setup(&[
        "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL, note text)",
        &format!("INSERT INTO account SELECT i, 100, 'x' FROM generate_series(1, {ACCOUNTS}) AS s(i)"),
    ]);
    let (stop, transfers) = (AtomicBool::new(false), AtomicU64::new(0));
    let expected = format!("{ACCOUNTS},{}", ACCOUNTS * 100);
    std::thread::scope(|scope| {
        for worker in 0..2usize {
            let (engine, stop, transfers) = (&engine, &stop, &transfers);
            scope.spawn(move || {
                let mut writer = Client(engine.session());
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let from = 1 + (turn * 2 + worker) % 5000;
                    let to = ACCOUNTS - (turn * 2 + worker) % 5000;
                    // In hybrid configurations a transaction that would have to look for an old version fails.
                    if transfer(&mut writer, turn, from, to) == "COMMIT" {
                        transfers.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut reader = Client(engine.session());
                    (0..250)
                        .map(|_| reader.run("SELECT count(*), sum(balance) FROM account"))
                        .filter(|total| *total != expected)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let wrong: Vec<Vec<String>> =
            readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(wrong.iter().all(Vec::is_empty), "not {expected}: {wrong:?}");
    });
    assert!(forks(&engine) >= 500);
    let transfers = transfers.load(Ordering::Relaxed);
    assert!(transfers > 500, "only {transfers} transfers beside the queries");
}

#[test]
fn what_was_acknowledged_is_seen() {
    let engine = engine();
    let mut client = Client(engine.session());
    client.setup(&["CREATE TABLE n (n int)"]);
    for count in 1..=150 {
        client.setup(&[&format!("INSERT INTO n VALUES ({count})")]);
        assert_eq!(
            client.run("SELECT count(*), sum(n), max(n) FROM n"),
            format!("{count},{},{count}", count * (count + 1) / 2)
        );
    }
}

#[test]
fn several_children_run_at_a_time() {
    let engine = engine();
    let mut client = Client(engine.session());
    fill(&mut client, 4000);
    let long = "SELECT count(*) FROM item a, item b WHERE a.big + b.big = -1";
    let most = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| Client(engine.session()).run(long))).collect();
        let mut most = 0;
        while !runs.iter().all(|run| run.is_finished()) {
            let own = children("(olap-fork").0.len();
            most = most.max(own);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(runs.into_iter().all(|run| run.join().is_ok_and(|count| count == "0")));
        most
    });
    assert!(most >= 2, "{most} at a time");
}
