//! Holding commits: the arrays are as of one moment while they are held, and only then.

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

/// Moves money from an account of the first block to one of the last, or closes one and opens another with the same.
fn move_money(session: &mut Session, table: &Arc<Table>, random: &mut fastrand::Rng, turn: i32) {
    let (from, to) = (random.i32(0..50), ACCOUNTS - 1 - random.i32(0..50));
    let moved = session.run(Isolation::Serializable, |transaction| {
        let change = |transaction: &mut Transaction, id, amount: i64| {
            let row = find(transaction, table, id, &[A])?.expect("this account stays");
            let balance = transaction.bigint(table, row, A);
            transaction.update(table, row, vec![(A, Value::BigInt(balance + amount))])
        };
        match turn % 2 {
            0 => change(transaction, from, -1).and_then(|()| change(transaction, to, 1)),
            _ => {
                // Accounts in the middle block come and go. Their ids go on from turn to turn.
                let id = 9_000 + random.i32(0..50);
                let Some(row) = find(transaction, table, id, &[A])? else { return Ok(()) };
                let balance = transaction.bigint(table, row, A);
                transaction.delete(table, row)?;
                transaction.insert(table, item(id, balance, 0, turn)).map(drop)
            }
        }
    });
    moved.expect("it commits");
}

/// Looks at the accounts while two threads move money; how many looks did not add up. Ends early when one is found.
fn looks_that_do_not_add_up(looks: usize, look: impl Fn(&Database, &Table) -> (usize, i64)) -> usize {
    let (database, table) = bank();
    let running = Running::default();
    std::thread::scope(|scope| {
        let stop = running.until_drop();
        for seed in 0..2 {
            let (database, table, running) = (&database, &table, &running);
            scope.spawn(move || {
                let (mut random, mut session) = (fastrand::Rng::with_seed(seed), database.session());
                for turn in (0..).take_while(|_| running.goes_on()) {
                    move_money(&mut session, table, &mut random, turn);
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
        let _held = database.hold_commits().expect("this configuration can");
        let snapshot = database.snapshot();
        let newest = count(&snapshot, table, SnapshotStrategy::Newest);
        assert_eq!(count(&snapshot, table, SnapshotStrategy::Forked), newest, "the same arrays");
        assert_eq!(count(&snapshot, table, SnapshotStrategy::InPlace), newest, "nothing is newer");
        newest
    };
    assert_eq!(looks_that_do_not_add_up(300, held), 0);
}

/// The control: the same looks without holding find commits that are half done.
#[test]
fn without_holding_half_a_commit_shows() {
    let free =
        |database: &Database, table: &Table| count(&database.snapshot(), table, SnapshotStrategy::Newest);
    assert_eq!(looks_that_do_not_add_up(20_000, free), 1);
}

#[test]
fn commits_go_on_when_the_last_holder_has_gone() {
    let (database, table) = bank();
    let held = [database.hold_commits().expect("it can"), database.hold_commits().expect("by several")];
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (database, table, done) = (&database, &table, &done);
        let committer = scope.spawn(move || {
            move_money(&mut database.session(), table, &mut fastrand::Rng::with_seed(1), 0);
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        // Reading goes on: a transaction without writes, and the writes of one that does not commit.
        let mut reader = Client::begin(database, table, Isolation::Serializable);
        assert_eq!(reader.read(7), Ok(Some(EACH)));
        reader.write(7, 1).expect("the row is free");
        reader.rollback();
        for guard in held {
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!done.load(std::sync::atomic::Ordering::Relaxed), "somebody still holds commits");
            drop(guard);
        }
        committer.join().expect("it ends");
    });
    assert!(done.into_inner());
}

#[test]
fn only_databases_with_a_gate_can_hold_commits() {
    let refused = Database::new().hold_commits().map(drop).expect_err("there is no gate");
    assert_eq!(refused.state(), SqlState::FeatureNotSupported);
}
