//! What a procedure waits for between two tries. Another commit is stopped at a place of its way, a procedure meets it,
//! fails once, and must not begin its second try before the other commit has ended and is visible.
#![cfg(debug_assertions)]

mod support;

use ankerdb_base::failpoint;
use ankerdb_engine::*;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use support::*;

/// Before the timestamp: rows are locked, keys are entered.
const BEFORE: &str = "timestamp";
/// Rows are given up with the new timestamp, which the watermark does not cover yet.
const INSTALLED: &str = "end of a commit";

type Work = fn(&mut Transaction, &Arc<Table>) -> Result<()>;

fn add_one_to_1(transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
    let row = find(transaction, table, 1, &[A])?.expect("it was filled");
    let a = transaction.bigint(table, row, A);
    transaction.update(table, row, vec![(A, Value::BigInt(a + 1))])
}

fn inserts_9(transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
    transaction.insert(table, item(9, 0, 0, 0)).map(drop)
}

fn counts_and_adds_one(transaction: &mut Transaction, table: &Arc<Table>) -> Result<()> {
    let mut count = 0;
    transaction.scan_table(table, ColumnSet::EMPTY, None, &mut |_, _| {
        count += 1;
        Ok(std::ops::ControlFlow::Continue(()))
    })?;
    transaction.insert(table, item(100 + count, 0, 0, 0)).map(drop)
}

/// Holds this thread at a place of its next commit until it may go on.
fn stop_at(place: &'static str, stopped: Sender<()>, may_go_on: Receiver<()>) {
    failpoint::watch(Some(Rc::new(move |name| {
        if name == place {
            stopped.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
    })));
}

/// Runs `first` and stops its commit at `place`; runs `second` as a procedure until it has failed once; lets the commit go
/// on. Returns how often `second` was tried, and what came of it.
fn meet(level: Isolation, place: &'static str, first: Work, second: Work) -> (u32, Result<()>) {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..4).map(|id| item(id, 0, 0, 0)));
    let (stopped, is_stopped) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let tries = AtomicU32::new(0);
    let outcome = std::thread::scope(|scope| {
        let (database, table, tries) = (&database, &table, &tries);
        let one = scope.spawn(move || {
            stop_at(place, stopped, may_go_on);
            database.session().try_run(Isolation::RepeatableRead, |transaction| first(transaction, table))
        });
        is_stopped.recv().unwrap();
        let other = scope.spawn(move || {
            database.session().run(level, |transaction| {
                tries.fetch_add(1, Ordering::SeqCst);
                second(transaction, table)
            })
        });
        std::thread::sleep(Duration::from_millis(100));
        let (is_over, tried) = (other.is_finished(), tries.load(Ordering::SeqCst));
        go_on.send(()).unwrap();
        one.join().unwrap().unwrap();
        let outcome = other.join().unwrap();
        assert!(!is_over && tried == 1, "it waits after its first try, and does not try in vain: {tried}");
        outcome
    });
    (tries.into_inner(), outcome)
}

/// At the levels at which the first committer wins.
fn meet_at_both(place: &'static str, first: Work, second: Work) -> [(u32, Option<SqlState>); 2] {
    [Isolation::RepeatableRead, Isolation::Serializable].map(|level| {
        let (tries, outcome) = meet(level, place, first, second);
        (tries, outcome.err().map(|error| error.state()))
    })
}

const SECOND_TRY: (u32, Option<SqlState>) = (2, None);
const DUPLICATE: (u32, Option<SqlState>) = (2, Some(SqlState::UniqueViolation));

#[test]
fn a_retry_waits_for_the_commit_that_has_changed_its_row_to_become_visible() {
    assert_eq!(meet_at_both(INSTALLED, add_one_to_1, add_one_to_1), [SECOND_TRY; 2]);
}

#[test]
fn a_retry_waits_for_the_commit_that_has_its_row() {
    assert_eq!(meet_at_both(BEFORE, add_one_to_1, add_one_to_1), [SECOND_TRY; 2]);
    let (tries, outcome) = meet(Isolation::ReadCommitted, BEFORE, add_one_to_1, add_one_to_1);
    assert_eq!((tries, outcome.err()), (2, None));
}

#[test]
fn a_retry_waits_for_the_commit_that_has_inserted_its_key_to_become_visible() {
    assert_eq!(meet_at_both(INSTALLED, inserts_9, inserts_9), [DUPLICATE; 2]);
}

#[test]
fn a_retry_waits_for_the_commit_that_is_about_to_insert_its_key() {
    assert_eq!(meet_at_both(BEFORE, inserts_9, inserts_9), [DUPLICATE; 2]);
}

#[test]
fn a_retry_waits_for_the_commit_that_has_changed_what_it_read_to_become_visible() {
    let (tries, outcome) = meet(Isolation::Serializable, INSTALLED, inserts_9, counts_and_adds_one);
    assert_eq!((tries, outcome.err()), (2, None));
}

#[test]
fn a_retry_ends_its_wait_at_the_lock_timeout_and_when_it_is_interrupted() {
    let database = Database::new();
    let table = items(&database, "items");
    fill(&database, &table, (0..4).map(|id| item(id, 0, 0, 0)));
    let (stopped, is_stopped) = channel();
    let (go_on, may_go_on) = channel::<()>();
    std::thread::scope(|scope| {
        let (database, table) = (&database, &table);
        let one = scope.spawn(move || {
            stop_at(BEFORE, stopped, may_go_on);
            database
                .session()
                .try_run(Isolation::RepeatableRead, |transaction| add_one_to_1(transaction, table))
        });
        is_stopped.recv().unwrap();
        let timed_out = database.session().run(Isolation::RepeatableRead, |transaction| {
            transaction.set_lock_timeout(Some(Duration::from_millis(30)));
            add_one_to_1(transaction, table)
        });
        let interrupt = Interrupt::new();
        let raised = interrupt.clone();
        let other = scope.spawn(move || {
            database.session().run(Isolation::RepeatableRead, |transaction| {
                transaction.set_interrupt(raised.clone());
                add_one_to_1(transaction, table)
            })
        });
        std::thread::sleep(Duration::from_millis(30));
        interrupt.raise(Cause::Request);
        let interrupted = other.join().unwrap();
        go_on.send(()).unwrap();
        one.join().unwrap().unwrap();
        assert_eq!(timed_out.unwrap_err().state(), SqlState::LockNotAvailable);
        assert_eq!(interrupted.unwrap_err().state(), SqlState::QueryCanceled);
    });
}
