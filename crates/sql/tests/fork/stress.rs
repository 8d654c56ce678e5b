//! Forks while other threads do everything that takes locks: allocate, commit, take snapshots, plan and run queries,
//! make and drop tables.
//!
//! A child that meets a lock of its parent hangs, and is found by its time limit (the control is in `death`).

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const CHILDREN: usize = 300;
/// Far more than any of these queries takes.
const LIMIT_MS: usize = 60_000;

#[test]
#[expect(clippy::too_many_lines, reason = "one scene: what each of the threads does beside the children")]
fn hundreds_of_children_meet_no_lock() {
    let engine = engine();
    let mut client = Client(engine.session());
    fill(&mut client, 20_000);
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let busy = |work: &(dyn Fn(&mut Client, usize) + Sync)| {
        let mut client = Client(engine.session());
        for turn in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            work(&mut client, turn);
            done.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        // Queries in transaction blocks run in this process, on the analytical threads.
        scope.spawn(|| {
            busy(&|client, turn| {
                client.check(&[("BEGIN", "BEGIN")]);
                let answer = client.run(match turn % 3 {
                    0 => "SELECT kind, count(*), max(note), NULL FROM item GROUP BY kind",
                    1 => "SELECT count(*) FROM item a JOIN item b ON a.id = b.id WHERE a.name LIKE '%1%'",
                    _ => {
                        "SELECT regexp_replace(name, '(item)', 'x\\1'), count(*) FROM item GROUP BY 1 LIMIT 3"
                    }
                });
                assert!(!answer.starts_with('!'), "{answer}");
                client.check(&[("COMMIT", "COMMIT")]);
            });
        });
        scope.spawn(|| {
            busy(&|client, turn| {
                let (row, passing) = (1 + turn % 20_000, 30_000 + turn % 100);
                client.setup(&[
                    &format!("UPDATE item SET big = big + 1, name = 'name {turn}' WHERE id = {row}"),
                    &format!("DELETE FROM item WHERE id = {passing}"),
                    &format!("INSERT INTO item (id, kind, big) VALUES ({passing}, 1, 1)"),
                ]);
                std::hint::black_box(vec![turn; 1 + turn % 5000]);
            });
        });
        scope.spawn(|| {
            busy(&|client, turn| {
                std::hint::black_box(engine.database().snapshot().timestamp());
                if turn % 50 == 0 {
                    client.setup(&[
                        "CREATE TABLE passing (a int PRIMARY KEY, b text)",
                        "INSERT INTO passing SELECT i, 'text of ' || i FROM generate_series(1, 100) AS s(i)",
                        "DROP TABLE passing",
                    ]);
                    std::hint::black_box(engine.database().statistics());
                }
                std::thread::yield_now();
            });
        });
        let queries: Vec<_> = (0..2)
            .map(|reader| {
                let engine = &engine;
                scope.spawn(move || {
                    let mut client = Client(engine.session());
                    client.setup(&[&format!("SET statement_timeout = {LIMIT_MS}")]);
                    let answer = |turn: usize| {
                        client.run(match (turn + reader) % 4 {
                            0 => "SELECT kind, count(*), sum(price), max(note) FROM item GROUP BY kind ORDER BY kind",
                            1 => "SELECT name, note FROM item WHERE name LIKE '%9%' ORDER BY name LIMIT 100",
                            2 => "SELECT count(*), sum(a.big) FROM item a JOIN item b ON a.id = b.id + 1",
                            _ => "SELECT regexp_replace(name, '(number) ([0-9]+)', '\\2'), count(*) FROM item GROUP BY 1 ORDER BY 1 LIMIT 9",
                        })
                    };
                    (0..CHILDREN / 2).map(answer).find(|answer| answer.starts_with('!'))
                })
            })
            .collect();
        let failed: Vec<_> = queries.into_iter().map(|query| query.join()).collect();
        stop.store(true, Ordering::Relaxed);
        for failed in failed {
            assert_eq!(failed.expect("no panic"), None, "57014 means that a child hung");
        }
    });
    assert!(forks(&engine) >= CHILDREN as u64);
    assert!(done.load(Ordering::Relaxed) > 1000, "the others were at work");
}
