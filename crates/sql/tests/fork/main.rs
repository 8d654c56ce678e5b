//! Queries in copies of the process: results, errors, consistency beside transactions, children that are canceled or
//! killed, and no lock of the parent on their way.
//!
//! The allocator is one that must not be used in a child, under the one that makes it usable; the tests of the server
//! run with the system's allocator as it is.

// Not all of it is needed here.
#[allow(dead_code)]
#[path = "../oltp/client.rs"]
mod client;
mod consistency;
mod death;
mod results;
mod stress;

use ankerdb_engine::{Configuration, Database};
use ankerdb_memory::child::Forkable;
use ankerdb_sql::{SqlEngine, SqlOptions};
use client::Client;
use std::alloc::System;
use std::time::{Duration, Instant};

#[global_allocator]
static MEMORY: Forkable<System> = Forkable(System);

/// An engine whose queries run in copies of the process, two at a time.
fn engine() -> SqlEngine {
    let options = SqlOptions { olap_threads: 2, memory_limit_bytes: 256 << 20 };
    SqlEngine::new(Database::with(Configuration::HeeFork), options).expect("an engine")
}

fn forks(engine: &SqlEngine) -> u64 {
    engine.fork_counters().forks
}

/// Children of this process that are no zombies, and those that are, made by threads of this name.
fn children(of: &str) -> (Vec<u32>, Vec<u32>) {
    let (mut running, mut zombies) = (Vec::new(), Vec::new());
    for process in std::fs::read_dir("/proc").expect("the list of processes").flatten() {
        let Ok(number) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(status) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        let (start, rest) = status.rsplit_once(')').expect("a name in parentheses");
        let mut words = rest.split_whitespace();
        let (state, parent) = (words.next(), words.next().and_then(|word| word.parse::<u32>().ok()));
        if parent == Some(std::process::id()) && start.ends_with(of) {
            if state == Some("Z") { zombies.push(number) } else { running.push(number) }
        }
    }
    (running, zombies)
}

/// Waits until there is one.
fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A table of `rows` rows with columns of many types, some of them NULL.
fn fill(client: &mut Client, rows: usize) {
    client.setup(&[
        "CREATE TABLE item (id int PRIMARY KEY, kind smallint NOT NULL, price numeric(12,2), name varchar(60), \
         note text, made date, seen timestamp, weight double precision, big bigint NOT NULL, flag boolean, \
         wide numeric(30,4))",
        &format!(
            "INSERT INTO item SELECT i, i % 7, CASE WHEN i % 5 > 0 THEN i * 1.25 END, 'item number ' || i, \
             CASE WHEN i % 3 > 0 THEN 'a note that is longer than twelve bytes, of ' || i END, \
             date '2020-01-01' + (i % 1000), timestamp '2020-01-01 00:00:00', i * 0.5, i::bigint * 1000000000, \
             i % 2 = 0, i * 123456789.1234 FROM generate_series(1, {rows}) AS s(i)"
        ),
    ]);
}
