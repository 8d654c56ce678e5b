//! Queues: rows are inserted at one end of an index and deleted at the other, while a reader from before is open. Neither
//! the table nor the search for the first row may grow with all that has ever been in the queue.

mod support;

use ankerdb_engine::*;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::*;

fn enqueue(session: &mut Session, table: &Arc<Table>, id: i32) {
    let inserted =
        session.run(Isolation::Serializable, |transaction| transaction.insert(table, item(id, 0, 0, 0)));
    inserted.unwrap();
}

/// Deletes the first row; returns its id.
fn dequeue(session: &mut Session, table: &Arc<Table>) -> i32 {
    let dequeued = session.run(Isolation::Serializable, |transaction| {
        let first = first(transaction, table)?.expect("the queue is not empty");
        transaction.delete(table, first)?;
        Ok(transaction.integer(table, first, ID))
    });
    dequeued.unwrap()
}

fn first(transaction: &mut Transaction, table: &Arc<Table>) -> Result<Option<RowId>> {
    let mut found = None;
    let columns = ColumnSet::of(&[ID]);
    transaction.scan_index(table, BY_ID, &KeyRange::all(), Direction::Forward, columns, &mut |_, row| {
        found = Some(row);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// All ids in order.
fn ids(transaction: &mut Transaction, table: &Arc<Table>) -> Vec<i32> {
    let mut ids = Vec::new();
    let columns = ColumnSet::of(&[ID]);
    let visited = transaction.scan_index(
        table,
        BY_ID,
        &KeyRange::all(),
        Direction::Forward,
        columns,
        &mut |transaction, row| {
            ids.push(transaction.integer(table, row, ID));
            Ok(ControlFlow::Continue(()))
        },
    );
    visited.unwrap();
    ids
}

/// Entries that a scan at the present timestamp looks at.
fn entries_looked_at(database: &Database, table: &Table) -> usize {
    let mut count = 0;
    let since = database.snapshot().timestamp().0;
    let (all, forward) = (Bound::Unbounded, Direction::Forward);
    ankerdb_table::Entries::of(table.index(BY_ID)).scan_since(all, all, forward, since, |_, _| {
        count += 1;
        ControlFlow::Continue(())
    });
    count
}

fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not in half a minute: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Rows that are in the queue at any time.
const LENGTH: i32 = 100;

#[test]
fn a_queue_does_not_grow_while_an_old_reader_is_open() {
    const ROWS: i32 = 100_000;
    let database = Database::new();
    let table = items(&database, "queue");
    fill(&database, &table, (0..LENGTH).map(|id| item(id, 0, 0, 0)));
    let mut session = database.session();
    let mut old = database.session().begin(Isolation::Serializable);
    let snapshot = database.snapshot();
    let entries = || table.index(BY_ID).entry_count();
    for id in LENGTH..ROWS {
        enqueue(&mut session, &table, id);
        assert_eq!(dequeue(&mut session, &table), id - LENGTH);
        if id % 4_000 == 0 {
            // What the old reader sees, what there is, and what was deleted in the last few passes.
            until("dead rows are buried", || entries() < 4 * LENGTH as usize);
        }
    }
    assert!(table.block_count() <= 3, "{} blocks for {LENGTH} rows", table.block_count());
    // A second reader has begun in between and ended; what only it saw goes as well.
    let second = database.snapshot();
    (ROWS..ROWS + LENGTH).for_each(|id| enqueue(&mut session, &table, id));
    (0..2 * LENGTH).for_each(|number| assert_eq!(dequeue(&mut session, &table), ROWS - LENGTH + number));
    std::thread::sleep(Duration::from_millis(100));
    assert!(entries() >= 2 * LENGTH as usize, "a reader sees these rows");
    drop(second);
    until("rows are buried that a reader saw which has ended", || entries() <= LENGTH as usize);
    // A reader at the old timestamp that has copied bits of a row that existed for a while has to find out.
    for block in ankerdb_table::Storage::of(&table)
        .block_numbers()
        .map(|number| ankerdb_table::Storage::of(&table).block(number))
    {
        let is_old = |row: usize| block.header(row).timestamp() <= snapshot.timestamp();
        assert!((0..block.fill()).all(|row| is_old(row) || block.dirty().is_set(row)));
    }
    assert_eq!(ids(&mut old, &table), (0..LENGTH).collect::<Vec<_>>());
    assert_eq!(view_rows(&old.read_view(), &table, &[ID]).len(), LENGTH as usize);
    drop((old, snapshot));
    until("nothing is left", || entries() == 0 && table.version_bytes(&crossbeam_epoch::pin()) == 0);
}

#[test]
fn the_first_row_is_found_behind_thousands_of_dead_ones_that_an_old_reader_sees() {
    const ROWS: i32 = 30_000;
    const LEFT: i32 = 1_000;
    let database = Database::new();
    let table = items(&database, "queue");
    fill(&database, &table, (0..ROWS).map(|id| item(id, 0, 0, 0)));
    let mut session = database.session();
    let mut old = database.session().begin(Isolation::Serializable);
    let mut looked_at = 0;
    for id in 0..ROWS - LEFT {
        assert_eq!(dequeue(&mut session, &table), id);
        if id % 1_000 == 999 {
            looked_at += entries_looked_at(&database, &table) - (ROWS - id - 1) as usize;
        }
    }
    let looks = ((ROWS - LEFT) / 1_000) as usize;
    assert!(looked_at < looks * 500, "{looked_at} dead entries are looked at by {looks} scans");
    assert_eq!(table.index(BY_ID).entry_count(), ROWS as usize, "all of them are still there");
    assert_eq!(ids(&mut old, &table), (0..ROWS).collect::<Vec<_>>());
    // A row inserted among dead ones is seen by the readers that may see it.
    let mut before = database.session().begin(Isolation::Serializable);
    enqueue(&mut session, &table, 5);
    enqueue(&mut session, &table, 5_000);
    let mut after = database.session().begin(Isolation::Serializable);
    assert_eq!(ids(&mut before, &table), (ROWS - LEFT..ROWS).collect::<Vec<_>>());
    let now: Vec<i32> = [5, 5_000].into_iter().chain(ROWS - LEFT..ROWS).collect();
    assert_eq!(ids(&mut after, &table), now);
    assert_eq!(ids(&mut old, &table), (0..ROWS).collect::<Vec<_>>());
    assert_eq!([dequeue(&mut session, &table), dequeue(&mut session, &table)], [5, 5_000]);
    drop((old, before, after));
    until("the dead are swept", || table.index(BY_ID).entry_count() == LEFT as usize);
}

/// Rows come and go in slots that are given away again and again, while snapshots from before and in between copy blocks.
#[test]
fn snapshots_see_whole_transactions_while_rows_are_buried() {
    // More threads than cores, so that some are stopped in the middle of a copy.
    const WRITERS: i32 = 6;
    let database = Database::new();
    let table = items(&database, "queue");
    // A block that is full, so that snapshots may borrow its columns.
    fill(&database, &table, (0..8_300).map(|id| item(id, 1, 0, 0)));
    let old = database.snapshot();
    let count = |snapshot: Snapshot| view_rows(&snapshot.read_view(), &table, &[A]).len();
    let (running, inserted) = (Running::default(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let _stop = running.until_drop();
        for writer in 0..WRITERS {
            let (database, table, running, inserted) = (&database, &table, &running, &inserted);
            scope.spawn(move || {
                let mut session = database.session();
                let mut id = 10_000 + writer;
                while running.goes_on() {
                    // One row more, and then, in one transaction each, another one in its place.
                    enqueue(&mut session, table, id);
                    for _ in 0..50 {
                        let moved = session.run(Isolation::RepeatableRead, |transaction| {
                            let row = find(transaction, table, id, &[])?.expect("it was inserted");
                            transaction.delete(table, row)?;
                            transaction.insert(table, item(id + WRITERS, 1, 0, 0)).map(drop)
                        });
                        moved.unwrap();
                        id += WRITERS;
                    }
                    let row = session.run(Isolation::RepeatableRead, |transaction| {
                        let row = find(transaction, table, id, &[])?.expect("it was inserted");
                        transaction.delete(table, row)
                    });
                    row.unwrap();
                    id += WRITERS;
                    inserted.fetch_add(51, Ordering::Relaxed);
                }
            });
        }
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_secs(3) {
                        let seen = count(database.snapshot());
                        assert!((8_300..=8_300 + WRITERS as usize).contains(&seen), "{seen} rows");
                    }
                })
            })
            .collect();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert_eq!(count(old), 8_300);
    // Two, one for each group of threads, and what is deleted before the next pass: without passes, each row would have a slot
    // of its own.
    let (blocks, inserted) = (table.block_count(), inserted.load(Ordering::Relaxed));
    assert!(blocks <= 8 + inserted / 8192 / 2, "{blocks} blocks for {inserted} rows");
}

/// A procedure at READ COMMITTED has found a row, which is gone when it has read something else. No announced timestamp shows
/// the row any more; its slot must not be reused all the same, as the procedure is going to write to it.
#[test]
fn a_row_that_somebody_is_going_to_write_to_stays_in_its_slot() {
    for level in [Isolation::ReadCommitted, Isolation::ReadUncommitted] {
        let database = Database::new();
        let table = items(&database, "queue");
        fill(&database, &table, [item(1, 0, 0, 0)]);
        let old = database.snapshot();
        let mut session = database.session();
        let written = database.session().try_run(level, |transaction| {
            find(transaction, &table, 1, &[])?.expect("it was filled");
            enqueue(&mut session, &table, 0);
            let row = find(transaction, &table, 0, &[])?.expect("it was inserted");
            assert_eq!(dequeue(&mut session, &table), 0);
            find(transaction, &table, 1, &[])?.expect("it is still there");
            // Time for the pruner.
            std::thread::sleep(Duration::from_millis(300));
            (2..20).for_each(|id| enqueue(&mut session, &table, id));
            transaction.update(&table, row, vec![(A, Value::BigInt(77))])
        });
        assert_eq!(written.unwrap_err().state(), SqlState::SerializationFailure);
        let mut after = session.begin(Isolation::Serializable);
        assert_eq!(ids(&mut after, &table), (1..20).collect::<Vec<_>>());
        for id in 1..20 {
            let row = find(&mut after, &table, id, &[A]).unwrap().expect("it is there");
            assert_eq!(after.bigint(&table, row, A), 0);
        }
        drop(after);
        until("it is buried once the procedure has ended", || table.index(BY_ID).entry_count() == 19);
        drop(old);
    }
}
