//! Row locks of interactive transactions: waiting, not waiting, deadlock, cancel, and procedures that meet them.

mod support;

use ankerdb_engine::*;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use support::*;

const A_WHILE: Duration = Duration::from_millis(30);

fn stage() -> (Database, Arc<Table>) {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (1..=9).map(|id| item(id, 0, 0, 0)));
    (database, table)
}

fn committed(database: &Database, table: &Arc<Table>, id: i32) -> Option<i64> {
    Client::begin(database, table, Isolation::Serializable).read(id).unwrap()
}

fn state<T: std::fmt::Debug>(outcome: Result<T>) -> SqlState {
    outcome.unwrap_err().state()
}

/// A waiter sees what the holder did, as its statement runs again; REPEATABLE READ promises not to look again, and
/// refuses.
#[test]
fn a_writer_waits_for_the_holder() {
    for level in LEVELS {
        let (database, table) = stage();
        let mut holder = Client::begin(&database, &table, level);
        holder.write(1, 5).unwrap();
        // A waiter that begins only after the holder has committed is not refused at any level.
        let begun = Barrier::new(2);
        let waited = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let mut waiter = Client::begin(&database, &table, level);
                begun.wait();
                let seen = waiter.lock(1, LockWait::Wait).and_then(|_| waiter.read(1))?;
                waiter.write(1, seen.unwrap() + 1)?;
                waiter.commit()
            });
            begun.wait();
            std::thread::sleep(A_WHILE);
            assert!(!waiter.is_finished());
            holder.commit().unwrap();
            waiter.join().unwrap()
        });
        let strict = level == Isolation::RepeatableRead;
        assert_eq!(waited.is_err(), strict, "{level:?}: {waited:?}");
        assert_eq!(committed(&database, &table, 1), Some(if strict { 5 } else { 6 }));
    }
}

/// A holder that gives up leaves the row as it was: no waiter is refused at any level.
#[test]
fn rollback_and_drop_release() {
    for level in LEVELS {
        for by_drop in [false, true] {
            let (database, table) = stage();
            let mut holder = Client::begin(&database, &table, level);
            holder.write(1, 5).unwrap();
            assert!(holder.lock(2, LockWait::Wait).unwrap().is_some());
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    let mut waiter = Client::begin(&database, &table, level);
                    waiter.write(1, 7).unwrap();
                    waiter.write(2, 7).unwrap();
                    waiter.commit().unwrap();
                });
                std::thread::sleep(A_WHILE);
                assert!(!waiter.is_finished());
                if by_drop { drop(holder) } else { holder.rollback() }
            });
            assert_eq!([1, 2].map(|id| committed(&database, &table, id)), [Some(7); 2]);
        }
    }
}

/// Rows locked but not written are released by the commit too, and by one that fails.
#[test]
fn commits_release_what_they_did_not_write() {
    let (database, table) = stage();
    for fails in [false, true] {
        let mut holder = Client::begin(&database, &table, Isolation::Serializable);
        assert!(holder.lock(1, LockWait::Wait).unwrap().is_some());
        holder.read(3).unwrap();
        holder.write(2, 1).unwrap();
        if fails {
            let mut other = Client::begin(&database, &table, Isolation::Serializable);
            other.write(3, 9).unwrap();
            other.commit().unwrap();
        }
        assert_eq!(holder.commit().is_err(), fails);
        let mut next = Client::begin(&database, &table, Isolation::Serializable);
        for id in [1, 2, 3] {
            assert!(next.lock(id, LockWait::NoWait).unwrap().is_some());
        }
    }
}

#[test]
fn nowait_and_skip_locked_do_not_wait() {
    let (database, table) = stage();
    let mut holder = Client::begin(&database, &table, Isolation::Serializable);
    assert!(holder.lock(1, LockWait::Wait).unwrap().is_some());
    assert!(holder.lock(1, LockWait::NoWait).unwrap().is_some(), "its own lock is no obstacle");
    let mut other = Client::begin(&database, &table, Isolation::Serializable);
    let error = other.lock(1, LockWait::NoWait).unwrap_err();
    assert_eq!(error.state(), SqlState::LockNotAvailable);
    assert_eq!(error.message(), "could not obtain lock on row in relation \"items\"");
    let row = other.find(1, &[]).unwrap().unwrap();
    assert_eq!(other.transaction.lock(&table, row, LockWait::Skip).unwrap(), Locked::Busy);
    let row = other.find(2, &[]).unwrap().unwrap();
    assert_eq!(other.transaction.lock(&table, row, LockWait::Skip).unwrap(), Locked::Unchanged);
    holder.rollback();
    assert!(other.lock(1, LockWait::NoWait).unwrap().is_some());
}

/// Of three that wait in a cycle exactly one is ended, and the others finish.
#[test]
fn a_deadlock_ends_one_of_them() {
    let (database, table) = stage();
    let barrier = std::sync::Barrier::new(3);
    let outcomes = std::thread::scope(|scope| {
        let threads = [1, 2, 3].map(|id| {
            let (database, table, barrier) = (&database, &table, &barrier);
            scope.spawn(move || {
                let mut client = Client::begin(database, table, Isolation::ReadCommitted);
                client.write(id, 1)?;
                barrier.wait();
                client.write(id % 3 + 1, 2)?;
                client.commit()
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    let failed: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].state(), SqlState::DeadlockDetected);
    let mut check = Client::begin(&database, &table, Isolation::Serializable);
    assert!([1, 2, 3].iter().all(|&id| check.lock(id, LockWait::NoWait).unwrap().is_some()));
}

#[test]
fn a_wait_can_be_canceled() {
    let (database, table) = stage();
    let mut holder = Client::begin(&database, &table, Isolation::Serializable);
    holder.write(1, 5).unwrap();
    let interrupt = Interrupt::new();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let mut waiter =
                Client::begin(&database, &table, Isolation::Serializable).interrupted_by(&interrupt);
            waiter.write(2, 1).unwrap();
            state(waiter.write(1, 6))
        });
        std::thread::sleep(A_WHILE);
        assert!(!waiter.is_finished());
        interrupt.raise(Cause::Request);
        assert_eq!(waiter.join().unwrap(), SqlState::QueryCanceled);
    });
    // The canceled one has rolled back; the holder goes on.
    assert!(holder.lock(2, LockWait::NoWait).unwrap().is_some());
    holder.commit().unwrap();
    assert_eq!(committed(&database, &table, 1), Some(5));
}

#[test]
fn a_wait_ends_at_the_lock_timeout() {
    let (database, table) = stage();
    let mut holder = Client::begin(&database, &table, Isolation::Serializable);
    holder.write(1, 5).unwrap();
    let mut waiter = Client::begin(&database, &table, Isolation::Serializable);
    waiter.transaction.set_lock_timeout(Some(A_WHILE));
    let begun = Instant::now();
    let error = waiter.write(1, 6).unwrap_err();
    assert!(begun.elapsed() >= A_WHILE);
    assert_eq!(error.state(), SqlState::LockNotAvailable);
    assert_eq!(error.message(), "canceling statement due to lock timeout");
}

#[test]
fn a_scan_can_be_canceled() {
    let (database, table) = stage();
    let interrupt = Interrupt::new();
    interrupt.raise(Cause::Request);
    let mut client = Client::begin(&database, &table, Isolation::Serializable).interrupted_by(&interrupt);
    assert_eq!(state(client.ids_by_range(0, 9)), SqlState::QueryCanceled);
    assert_eq!(state(client.ids_by_filter(0, 9)), SqlState::QueryCanceled);
}

/// A procedure sleeps until the interactive transaction ends instead of trying in vain.
#[test]
fn a_procedure_waits_for_an_interactive_holder() {
    let (database, table) = stage();
    let mut holder = Client::begin(&database, &table, Isolation::Serializable);
    holder.write(1, 5).unwrap();
    std::thread::scope(|scope| {
        let procedure = scope.spawn(|| {
            let mut session = database.session();
            let counted = session.run(Isolation::Serializable, |transaction| {
                let row = find(transaction, &table, 1, &[A])?.expect("row 1");
                let value = transaction.bigint(&table, row, A) + 1;
                transaction.update(&table, row, vec![(A, Value::BigInt(value))])
            });
            counted.unwrap();
            session.retries()
        });
        std::thread::sleep(A_WHILE);
        assert!(!procedure.is_finished());
        // Reading never waits.
        assert_eq!(committed(&database, &table, 1), Some(0));
        holder.commit().unwrap();
        let retries = procedure.join().unwrap();
        assert!((1..=3).contains(&retries), "{retries} retries");
    });
    assert_eq!(committed(&database, &table, 1), Some(6));
}

/// Interactive transactions that lock first count one hot row up without a single failure at READ COMMITTED.
#[test]
fn a_hot_row_queues() {
    let (database, table) = stage();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut client = Client::begin(&database, &table, Isolation::ReadCommitted);
                    assert!(client.lock(1, LockWait::Wait).unwrap().is_some());
                    let value = client.read(1).unwrap().unwrap();
                    client.write(1, value + 1).unwrap();
                    client.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(committed(&database, &table, 1), Some(600));
}
