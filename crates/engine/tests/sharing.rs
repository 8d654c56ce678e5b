//! The snapshot manager: which queries share a snapshot, what it shows, what is made ready for it, and when it goes.

mod support;

use ankerdb_engine::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::*;

const HOUR: Duration = Duration::from_secs(3600);
/// More than fill a block, so that there is one that is full and one that is not.
const ROWS: i32 = ROWS_PER_BLOCK as i32 + 100;

/// Runs a test in each configuration that keeps copies for a snapshot.
fn in_each_that_shares(test: impl Fn(&Database)) {
    in_each(|database| {
        if database.configuration() != Configuration::HeeFork {
            test(&database);
        }
    });
}

fn filled(database: &Database) -> Arc<Table> {
    let table = items(database, "items");
    fill(database, &table, (0..ROWS).map(|id| item(id, 100, 0, 0)));
    table
}

/// Sets the first number of rows, in one commit.
fn set_rows(database: &Database, table: &Arc<Table>, ids: std::ops::Range<i32>, value: i64) {
    set_column(database, table, A, (ids, value));
}

fn set_column(
    database: &Database,
    table: &Arc<Table>,
    column: usize,
    (ids, value): (std::ops::Range<i32>, i64),
) {
    let updated = database.session().run(Isolation::Serializable, |transaction| {
        ids.clone().try_for_each(|id| {
            let row = find(transaction, table, id, &[])?.expect("the row is there");
            transaction.update(table, row, vec![(column, Value::BigInt(value))])
        })
    });
    updated.unwrap();
}

/// The sum of the column as a snapshot shows it.
fn total(snapshot: &Snapshot, table: &Arc<Table>) -> i64 {
    let number = |row: Vec<Value>| match row[0] {
        Value::BigInt(number) => number,
        _ => panic!("a bigint"),
    };
    view_rows(&snapshot.read_view(), table, &[A]).into_iter().map(number).sum()
}

fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never reached: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn last(database: &Database) -> SharedSnapshot {
    database.snapshot_report().snapshots.pop().expect("one was taken")
}

#[test]
fn queries_share_what_is_young_enough_and_shows_enough() {
    in_each_that_shares(|database| {
        let table = filled(database);
        let before = i64::from(ROWS) * 100;
        let first = database.snapshot_within(HOUR, Timestamp::ZERO);
        set_rows(database, &table, 0..1, 0);
        let seen = database.visible_timestamp();
        let second = database.snapshot_within(HOUR, Timestamp::ZERO);
        assert_eq!(second.timestamp(), first.timestamp());
        assert_eq!((total(&first, &table), total(&second, &table)), (before, before));
        // Not for those who may miss nothing, and not for a session that has seen more.
        assert_eq!(total(&database.snapshot_within(Duration::ZERO, Timestamp::ZERO), &table), before - 100);
        let third = database.snapshot_within(HOUR, seen);
        assert_eq!(total(&third, &table), before - 100);
        assert_eq!(last(database).because, Renewal::Seen);
        let fourth = database.snapshot_within(HOUR, Timestamp::ZERO);
        assert_eq!(fourth.timestamp(), third.timestamp());
        // Tables of now.
        items(database, "others");
        let fifth = database.snapshot_within(HOUR, Timestamp::ZERO);
        assert_eq!(last(database).because, Renewal::Definitions);
        assert!(fifth.timestamp() >= fourth.timestamp());
        let SnapshotDecisions { shared, taken, .. } = database.snapshot_report().decisions;
        assert_eq!((shared, taken), (2, 3));
        assert_eq!((last(database).queries, last(database).is_current), (1, true));
    });
}

#[test]
fn where_nothing_is_kept_for_a_snapshot_none_is_shared() {
    let keeps_nothing = |configuration: &Configuration| {
        configuration.name().starts_with("see-") || *configuration == Configuration::HeeFork
    };
    for configuration in configurations().filter(keeps_nothing) {
        let database = Database::open(configuration).unwrap();
        let table = filled(&database);
        let first = database.snapshot_within(HOUR, Timestamp::ZERO);
        set_rows(&database, &table, 0..1, 0);
        assert!(database.snapshot_within(HOUR, Timestamp::ZERO).timestamp() > first.timestamp());
        assert!(database.snapshot_report().snapshots.is_empty());
    }
}

#[test]
fn no_query_is_later_than_it_may_be() {
    in_each_that_shares(|database| {
        let table = filled(database);
        let (running, staleness) = (Running::default(), Duration::from_millis(4));
        std::thread::scope(|scope| {
            let _stop = running.until_drop();
            scope.spawn(|| {
                let mut value = 0;
                while running.goes_on() {
                    value += 1;
                    // What one row gets another one loses.
                    let moved = database.session().run(Isolation::Serializable, |transaction| {
                        [(1, value), (2, 200 - value)].into_iter().try_for_each(|(id, value)| {
                            let row = find(transaction, &table, id, &[])?.expect("the row is there");
                            transaction.update(&table, row, vec![(A, Value::BigInt(value))])
                        })
                    });
                    moved.unwrap();
                }
            });
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            let floor = database.visible_timestamp();
                            std::thread::sleep(staleness);
                            let snapshot = database.snapshot_within(staleness, Timestamp::ZERO);
                            assert!(snapshot.timestamp() >= floor, "older than it may be");
                            assert_eq!(total(&snapshot, &table), i64::from(ROWS) * 100);
                        }
                    })
                })
                .collect();
            for reader in readers {
                reader.join().unwrap();
            }
        });
        let report = database.snapshot_report();
        assert!(report.snapshots.iter().all(|snapshot| snapshot.oldest_use <= staleness));
    });
}

#[test]
fn nothing_is_kept_for_queries_that_cannot_come() {
    in_each_that_shares(|database| {
        let table = filled(database);
        drop(database.snapshot_within(Duration::from_millis(50), Timestamp::ZERO));
        set_rows(database, &table, 0..1000, 1);
        eventually("no versions", || database.statistics().version_bytes == 0);
        assert!(!last(database).is_current);
        drop(database.snapshot_within(HOUR, Timestamp::ZERO));
        assert_eq!(last(database).because, Renewal::Age);
        set_rows(database, &table, 0..1000, 2);
        std::thread::sleep(Duration::from_millis(200));
        assert!(database.statistics().version_bytes > 0, "it is kept for those who may come");
    });
}

#[test]
fn a_snapshot_goes_when_it_keeps_more_history_than_it_may() {
    let options = Options { history_limit: Some(256 << 10), ..Options::default() };
    let database = Database::open(options).unwrap();
    let table = filled(&database);
    let before = database.snapshot_within(HOUR, Timestamp::ZERO);
    set_rows(&database, &table, 0..100, 1);
    std::thread::sleep(Duration::from_millis(200));
    let again = database.snapshot_within(HOUR, Timestamp::ZERO);
    assert_eq!(again.timestamp(), before.timestamp(), "a hundred versions are less");
    set_rows(&database, &table, 0..ROWS, 2);
    eventually("let go of", || database.snapshot_report().decisions.history_full == 1);
    let kept = last(&database);
    assert!(kept.history_bytes > 256 << 10 && !kept.is_current, "{kept:?}");
    // Those that have it go on.
    assert_eq!(total(&before, &table), i64::from(ROWS) * 100);
    drop((before, again));
    eventually("no versions", || database.statistics().version_bytes == 0);
    let next = database.snapshot_within(HOUR, Timestamp::ZERO);
    assert_eq!((total(&next, &table), last(&database).because), (i64::from(ROWS) * 2, Renewal::History));
}

/// A shared snapshot that shows all commits, read by so many queries.
fn renewed(database: &Database, table: &Arc<Table>, queries: usize) -> i64 {
    set_rows(database, table, 0..10, 7);
    set_rows(database, table, ROWS - 10..ROWS, 7);
    let seen = database.visible_timestamp();
    let totals: Vec<_> = (0..queries).map(|_| total(&database.snapshot_within(HOUR, seen), table)).collect();
    totals[0]
}

#[test]
fn what_queries_copied_for_two_snapshots_is_made_ready_for_the_next() {
    in_each_that_shares(|database| {
        let table = filled(database);
        let expected = i64::from(ROWS - 20) * 100 + 20 * 7;
        for turn in 0..2 {
            assert_eq!(renewed(database, &table, 2), expected);
            assert!(last(database).copied.count > 0, "the last block is not full");
            assert_eq!(database.snapshot_report().decisions.made_ahead, 0, "turn {turn}");
        }
        let repeated = last(database).copied.count;
        // Once, which does not repeat.
        let view = database.snapshot_within(HOUR, Timestamp::ZERO).read_view();
        assert_eq!(view_rows(&view, &table, &[B]).len(), ROWS as usize);
        drop(view);
        // The third one is ready before its query comes.
        set_rows(database, &table, ROWS - 10..ROWS, 8);
        let snapshot = database.snapshot_within(HOUR, database.visible_timestamp());
        assert_eq!(database.snapshot_report().decisions.made_ahead, 1);
        eventually("made ready", || last(database).ahead.count == repeated);
        let copied = last(database).copied.count;
        assert_eq!(total(&snapshot, &table), expected + 10);
        let SharedSnapshot { ahead, ahead_read, copied: after, .. } = last(database);
        assert_eq!((ahead_read, after.count), (ahead.count, copied), "queries find all of it");
    });
}

#[test]
fn nothing_is_made_ready_of_what_other_definitions_had() {
    in_each_that_shares(|database| {
        let table = filled(database);
        (0..2).for_each(|_| assert!(renewed(database, &table, 2) > 0));
        // Columns may have other numbers from here on.
        items(database, "others");
        let made_ahead = || database.snapshot_report().decisions.made_ahead;
        for turn in 0..2 {
            assert!(renewed(database, &table, 2) > 0);
            assert_eq!(made_ahead(), 0, "turn {turn}");
        }
        assert!(renewed(database, &table, 2) > 0);
        assert_eq!(made_ahead(), 1, "places of these definitions have repeated");
    });
}

#[test]
fn nothing_is_made_ready_for_a_while_if_nobody_reads_it() {
    let database = Database::new();
    let table = filled(&database);
    (0..2).for_each(|_| assert!(renewed(&database, &table, 2) > 0));
    let unread = |value| {
        set_rows(&database, &table, ROWS - 10..ROWS, value);
        database.snapshot_within(HOUR, database.visible_timestamp())
    };
    let _kept = unread(8);
    eventually("made ready", || last(&database).ahead.count > 0);
    let _kept = unread(9);
    let SnapshotDecisions { made_ahead, ahead_paused, .. } = database.snapshot_report().decisions;
    assert_eq!((made_ahead, ahead_paused), (1, 1));
    // Whatever repeats now.
    (0..4).for_each(|_| assert!(renewed(&database, &table, 2) > 0));
    assert_eq!(database.snapshot_report().decisions.made_ahead, 1);
    (0..6).for_each(|_| assert!(renewed(&database, &table, 2) > 0));
    assert!(database.snapshot_report().decisions.made_ahead > 1, "the pause ends");
}

#[test]
fn sharing_ends_for_a_while_where_it_does_not_pay() {
    let database = Database::new();
    let table = filled(&database);
    let ask = |seen| database.snapshot_within(HOUR, seen);
    // Those that share read an old snapshot of rows that have all changed. Those that do not, to compare, read nothing.
    let mut asked = 0;
    while database.snapshot_report().shares {
        asked += 1;
        assert!(asked < 1000, "nothing was decided: {:?}", database.snapshot_report());
        let alone = database.snapshot_report().decisions.probes;
        let snapshot = ask(Timestamp::ZERO);
        if database.snapshot_report().decisions.probes > alone {
            drop(snapshot);
            continue;
        }
        // In turn, so that nothing repeats that could be made ready.
        let column = [A, B][asked as usize / 2 % 2];
        if asked % 2 == 1 {
            set_column(&database, &table, column, (0..ROWS, asked));
            assert_eq!(view_rows(&snapshot.read_view(), &table, &[column]).len(), ROWS as usize);
            drop(snapshot);
            drop(ask(database.visible_timestamp()));
        }
    }
    let report = database.snapshot_report();
    assert!(report.copying_shared > report.copying_alone, "{report:?}");
    let unshared = report.decisions.unshared;
    let old = ask(Timestamp::ZERO);
    set_rows(&database, &table, 0..1, 0);
    assert!(ask(Timestamp::ZERO).timestamp() > old.timestamp(), "each has its own");
    assert_eq!(database.snapshot_report().decisions.unshared, unshared + 2);
    // Until it is tried again.
    (0..64).for_each(|_| drop(ask(Timestamp::ZERO)));
    assert!(database.snapshot_report().shares);
    assert!(database.snapshot_report().snapshots.iter().any(|snapshot| snapshot.because == Renewal::Trial));
}
