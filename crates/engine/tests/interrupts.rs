//! Interrupts: whatever a transaction is at, up to the timestamp of its commit, ends soon after one is raised.

mod support;

use ankerdb_engine::*;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

const ROWS: i32 = 200_000;
/// Far more than any of this takes, so that a slow machine does not fail the test.
const SOON: Duration = Duration::from_secs(2);

fn stage() -> (Database, Arc<Table>) {
    let database = Database::new();
    let table = items(&database, "items");
    (database, table)
}

fn insert_all(client: &mut Client) -> Result<()> {
    let table = client.table.clone();
    (0..ROWS).try_for_each(|id| client.transaction.insert(&table, item(id, 0, 0, 0)).map(drop))
}

/// Raises the interrupt a while after the work on what was prepared has begun; returns what the work ended with, and how long after.
fn interrupted<C>(
    cause: Cause,
    prepare: impl FnOnce(&Interrupt) -> C,
    work: impl FnOnce(&mut C) -> Error,
) -> (Error, Duration) {
    let interrupt = Interrupt::new();
    let mut prepared = prepare(&interrupt);
    std::thread::scope(|scope| {
        let raising = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            interrupt.raise(cause);
            Instant::now()
        });
        let error = work(&mut prepared);
        (error, raising.join().unwrap().elapsed())
    })
}

#[test]
fn a_commit_that_is_interrupted_before_its_timestamp_leaves_nothing_behind() {
    let (database, table) = stage();
    let interrupt = Interrupt::new();
    let mut client = Client::begin(&database, &table, Isolation::Serializable).interrupted_by(&interrupt);
    insert_all(&mut client).unwrap();
    interrupt.raise(Cause::Timeout);
    let error = client.transaction.commit().unwrap_err();
    assert_eq!(
        (error.state(), error.message()),
        (SqlState::QueryCanceled, "canceling statement due to statement timeout")
    );
    interrupt.clear();
    fill(&database, &table, [item(ROWS / 2, 1, 0, 0)]);
    assert_eq!(table.row_count(), 1);
}

#[test]
fn an_endless_update_ends_with_its_session() {
    let (database, table) = stage();
    fill(&database, &table, (0..ROWS).map(|id| item(id, 0, 0, 0)));
    for (cause, state) in
        [(Cause::Disconnected, SqlState::ConnectionFailure), (Cause::Shutdown, SqlState::AdminShutdown)]
    {
        let begin = |interrupt: &Interrupt| {
            Client::begin(&database, &table, Isolation::ReadCommitted).interrupted_by(interrupt)
        };
        let (error, late) = interrupted(cause, begin, |client| {
            loop {
                client.transaction.begin_statement();
                let updated = client.transaction.scan_table(
                    &table,
                    ColumnSet::of(&[A]),
                    None,
                    &mut |transaction, row| {
                        transaction.lock(&table, row, LockWait::Wait)?;
                        transaction.update(&table, row, vec![(A, Value::BigInt(1))])?;
                        Ok(ControlFlow::Continue(()))
                    },
                );
                if let Err(error) = updated {
                    return error;
                }
            }
        });
        assert_eq!(error.state(), state);
        assert!(late < SOON, "{late:?}");
    }
}

#[test]
fn a_scan_over_a_transactions_own_rows_can_be_interrupted() {
    let (database, table) = stage();
    let filled = |interrupt: &Interrupt| {
        let mut client = Client::begin(&database, &table, Isolation::Serializable).interrupted_by(interrupt);
        insert_all(&mut client).unwrap();
        client
    };
    let (error, late) = interrupted(Cause::Request, filled, |client| {
        loop {
            if let Err(error) = client.ids_by_range(0, 0) {
                return error;
            }
        }
    });
    assert_eq!(error.state(), SqlState::QueryCanceled);
    assert!(late < SOON, "{late:?}");
}
