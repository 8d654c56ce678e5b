//! Quiescing: the arrays are as of one moment while commits are stopped, and only then.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use support::*;

/// Three blocks, the last one not full.
const ACCOUNTS: i32 = 20_000;
const EACH: i64 = 100;
const TOTAL: i64 = ACCOUNTS as i64 * EACH;

fn bank() -> (Database, Arc<Table>) {
    let database = Database::open(Configuration::HeeFork).expect("every system can fork");
    let table = items(&database, "account");
    fill(&database, &table, (0..ACCOUNTS).map(|id| item(id, EACH, 0, 1)));
    (database, table)
}

/// The number of accounts and their total, as they lie.
fn count(snapshot: &Snapshot, table: &Table, strategy: SnapshotStrategy) -> (usize, i64) {
    let rows = view_rows(&snapshot.by(strategy).read_view(), table, &[A]);
    (rows.len(), rows.iter().map(|row| row[0].as_integer().expect("a is a bigint")).sum())
}

/// Accounts that one commit writes to in the first block, and as many in the last: so many that installing them takes
/// a while.
const WRITTEN: i32 = 500;

/// Moves money from accounts of the first block to some of the last, or closes one and opens another with the same.
fn move_money(session: &mut Session, table: &Arc<Table>, writer: i32, turn: i32) {
    let moved = session.run(Isolation::Serializable, |transaction| {
        if turn % 2 == 1 {
            let id = 9_000 + 50 * writer + turn % 50;
            let row = find(transaction, table, id, &[A])?.expect("a closed account is opened again");
            let balance = transaction.bigint(table, row, A);
            transaction.delete(table, row)?;
            return transaction.insert(table, item(id, balance, 0, turn)).map(drop);
        }
        let first = writer * WRITTEN;
        let givers = (first..first + WRITTEN).map(|id| (id, -1));
        let takers = (first..first + WRITTEN).map(|id| (ACCOUNTS - 1 - id, 1));
        for (id, amount) in givers.chain(takers) {
            let row = find(transaction, table, id, &[A])?.expect("this account stays");
            let balance = transaction.bigint(table, row, A);
            transaction.update(table, row, vec![(A, Value::BigInt(balance + amount))])?;
        }
        Ok(())
    });
    moved.expect("it commits");
}

/// Looks at the accounts while two threads move money; how many looks did not add up. Ends early when one is found.
fn looks_that_do_not_add_up(looks: usize, look: impl Fn(&Database, &Table) -> (usize, i64)) -> usize {
    let (database, table) = bank();
    let running = Running::default();
    std::thread::scope(|scope| {
        let stop = running.until_drop();
        for writer in 0..2 {
            let (database, table, running) = (&database, &table, &running);
            scope.spawn(move || {
                let mut session = database.session();
                for turn in (0..).take_while(|_| running.goes_on()) {
                    move_money(&mut session, table, writer, turn);
                }
            });
        }
        let wrong =
            (0..looks).map(|_| look(&database, &table)).find(|seen| *seen != (ACCOUNTS as usize, TOTAL));
        drop(stop);
        wrong.into_iter().count()
    })
}

#[test]
fn no_commit_is_half_done_while_commits_are_held() {
    let held = |database: &Database, table: &Table| {
        // Writers make progress, so that commits are under way when they are stopped.
        std::thread::sleep(std::time::Duration::from_micros(fastrand::u64(..2_000)));
        let _held = database.quiesce().expect("this configuration can");
        let snapshot = database.snapshot();
        let newest = count(&snapshot, table, SnapshotStrategy::Newest);
        assert_eq!(count(&snapshot, table, SnapshotStrategy::Forked), newest, "the same arrays");
        assert_eq!(count(&snapshot, table, SnapshotStrategy::InPlace), newest, "nothing is newer");
        newest
    };
    assert_eq!(looks_that_do_not_add_up(300, held), 0);
}

/// The control: without quiescing the same check finds commits that are half done.
#[test]
fn without_quiescing_half_a_commit_shows() {
    let free =
        |database: &Database, table: &Table| count(&database.snapshot(), table, SnapshotStrategy::Newest);
    assert_eq!(looks_that_do_not_add_up(20_000, free), 1);
}

#[test]
fn commits_go_on_when_the_last_holder_has_gone() {
    let (database, table) = bank();
    let held = [database.quiesce().expect("it can"), database.quiesce().expect("by several")];
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (database, table, done) = (&database, &table, &done);
        let committer = scope.spawn(move || {
            move_money(&mut database.session(), table, 0, 0);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        // Reading goes on: a transaction without writes, and the writes of one that does not commit.
        let mut reader = Client::begin(database, table, Isolation::Serializable);
        assert_eq!(reader.read(5_000), Ok(Some(EACH)));
        reader.write(5_000, 1).expect("the row is free");
        reader.rollback();
        for guard in held {
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!done.load(std::sync::atomic::Ordering::Relaxed), "commits are still stopped");
            drop(guard);
        }
        committer.join().expect("it ends");
    });
    assert!(done.into_inner());
}

#[test]
fn only_databases_that_fork_can_quiesce() {
    let refused = Database::new().quiesce().map(drop).expect_err("it never forks");
    assert_eq!(refused.state(), SqlState::FeatureNotSupported);
}
