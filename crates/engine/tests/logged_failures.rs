//! Commits of a database with a log that fail where nothing fails by itself, by an error and by a panic: while their record is made, where
//! it gets room, around it. Before the timestamp nothing may remain of them, neither in memory nor after a restart; behind it the
//! process ends, and the next one finds all of the commit or nothing.
//!
//! The places are there in builds with debug assertions only (`ankerdb_base::failpoint`).
#![cfg(debug_assertions)]

mod support;

use ankerdb_base::failpoint::{self, InjectedFailure};
use ankerdb_engine::*;
use ankerdb_log::simulated::SimulatedDisk;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use support::*;

/// Rows that there are before.
const ROWS: i32 = 20;
/// New rows of a small commit, and of one that installs them ahead of its timestamp and whose record goes ahead in parts.
const SIZES: [i32; 2] = [3, 5_000];
/// Of a large commit, one in so many places is tried, and each of these.
const STRIDE: usize = 1_009;
const ALWAYS: [&str; 2] = [ROOM, "timestamp"];
const ROOM: &str = "room in the log";
/// What a child is to fail at: the folder, the size, and the place.
const CHILD: &str = "ANKERDB_TEST_LOGGED_FAILS_AT";
/// Places that are watched and cannot fail.
const STEPS: [&str; 7] = [
    "row settled",
    "waits until visible",
    "row withdrawn",
    "commit finished",
    "row owned by a commit",
    "entry taken back",
    "reads checked",
];

fn open(durability: Durability) -> Database {
    let mut durability = durability;
    // A quarter of it is the longest record.
    durability.log.segment_bytes = 64 << 10;
    Database::open_in(Configuration::AnkerDb, &durability, &NoTexts).expect("it can be opened")
}

fn on(disk: &SimulatedDisk) -> Database {
    open(Durability { disk: Arc::new(disk.clone()), ..Durability::in_folder("data") })
}

fn set_up(database: &Database) {
    let table = items(database, "item");
    fill(database, &table, (0..ROWS).map(|id| item(id, 0, 0, id % 3)));
}

/// So many new rows, three changed ones, two that go.
fn change(database: &Database, rows: i32) -> Result<()> {
    let table = database.catalog().table("item")?;
    database.session().try_run(Isolation::Serializable, |transaction| {
        for id in 100..100 + rows {
            transaction.insert(&table, item(id, 1, 2, id % 7))?;
        }
        for id in 3..6 {
            let row = find(transaction, &table, id, &[A])?.expect("it is there");
            transaction.update(&table, row, vec![(A, Value::BigInt(7))])?;
        }
        for id in 7..9 {
            let row = find(transaction, &table, id, &[])?.expect("it is there");
            transaction.delete(&table, row)?;
        }
        Ok(())
    })
}

/// What can be seen of a database.
type Seen = (Vec<String>, Vec<usize>);

/// All rows, in order, and the entries of the indexes.
fn picture(database: &Database) -> Seen {
    let table = database.catalog().table("item").expect("it is there");
    let rows = view_rows(&database.snapshot().read_view(), &table, &[ID, A, 2, KIND]);
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    (rows, table.maintained_indexes().map(|(_, index)| index.entry_count()).collect())
}

/// The names of the places that a commit comes to, in order.
fn places(rows: i32) -> Vec<&'static str> {
    let database = on(&SimulatedDisk::new());
    set_up(&database);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let into = seen.clone();
    failpoint::watch(Some(Rc::new(move |name| into.borrow_mut().push(name))));
    change(&database, rows).expect("nothing fails yet");
    failpoint::watch(None);
    seen.borrow().iter().copied().filter(|name| !STEPS.contains(name)).collect()
}

/// A place of a commit, so that another commit of the same rows comes to it as well. It is told by the steps of the record, of which
/// there are as many in each: where a record is cut into parts is a matter of its bytes, and these differ with the slots of the rows.
#[derive(Debug, Clone, Copy)]
struct At<'a> {
    name: &'a str,
    /// Steps of the record before it.
    steps: usize,
    /// Places of its name since the last of these steps. None for room in the log: whether a part takes one piece or two is a matter of
    /// its bytes too.
    since: usize,
}

/// The step of a commit that makes its record. There are as many of them whatever slots its rows have.
const RECORD: &str = "memory for a record";

impl<'a> At<'a> {
    fn of(places: &[&'a str], place: usize) -> At<'a> {
        let (name, before) = (places[place], &places[..place]);
        let steps = before.iter().filter(|name| **name == RECORD).count();
        let last = before.iter().rposition(|name| *name == RECORD).map_or(0, |last| last + 1);
        let since = before[last..].iter().filter(|other| **other == name && name != ROOM).count();
        At { name, steps, since }
    }
}

/// A commit that fails at a place, or where the place comes next.
fn change_and_fail(
    database: &Database,
    rows: i32,
    at: At<'_>,
    failure: InjectedFailure,
) -> Option<Result<()>> {
    let (name, steps, since) = (at.name.to_owned(), Cell::new(at.steps), Cell::new(at.since));
    let planned = Rc::new(Cell::new(false));
    let plans = planned.clone();
    failpoint::watch(Some(Rc::new(move |reached| {
        if steps.get() == 0 && reached == name && !plans.get() {
            match since.get().checked_sub(1) {
                Some(left) => since.set(left),
                None => {
                    plans.set(true);
                    failpoint::plan(0, failure);
                }
            }
        }
        if reached == RECORD {
            steps.set(steps.get().saturating_sub(1));
        }
    })));
    let outcome = catch_unwind(AssertUnwindSafe(|| change(database, rows)));
    failpoint::watch(None);
    assert!(planned.get(), "a commit of {rows} rows never comes to {at:?}");
    assert_eq!(failpoint::clear(), None, "it has failed");
    outcome.ok()
}

/// Where the last place before the timestamp is.
fn before_timestamp(places: &[&str]) -> usize {
    places.iter().rposition(|name| *name == "timestamp").expect("a commit draws a timestamp")
}

fn nothing_remains(failure: InjectedFailure) {
    for rows in SIZES {
        let places = places(rows);
        let of_log = places.iter().filter(|name| **name == ROOM).count();
        assert!(of_log >= if rows > 100 { 3 } else { 1 }, "the log is asked for room {of_log} times");
        let disk = SimulatedDisk::new();
        let database = on(&disk);
        set_up(&database);
        let unchanged = picture(&database);
        for (place, name) in places[..=before_timestamp(&places)].iter().enumerate() {
            if rows > 100 && place % STRIDE > 0 && !ALWAYS.contains(name) {
                continue;
            }
            match (failure, change_and_fail(&database, rows, At::of(&places, place), failure)) {
                (InjectedFailure::OutOfMemory, Some(Err(error))) => {
                    assert_eq!(error.state(), SqlState::OutOfMemory)
                }
                (InjectedFailure::Panic, None) => {}
                (_, outcome) => panic!("place {place}, {name}: {outcome:?}"),
            }
            assert_eq!(picture(&database), unchanged, "{rows} rows, place {place}, {name}");
        }
        drop(database);
        let database = on(&disk);
        assert_eq!(picture(&database), unchanged, "{rows} rows, after a restart");
        change(&database, rows).expect("nothing fails any more");
        let after = picture(&database);
        assert_eq!(after.0.len(), (ROWS + rows - 2) as usize);
        drop(database);
        // Entries of deleted rows are gone then.
        let (found, entries) = picture(&on(&disk));
        assert_eq!(entries, [found.len(); 2]);
        assert_eq!(found, after.0);
    }
}

#[test]
fn nothing_remains_of_a_logged_commit_that_gets_no_memory() {
    nothing_remains(InjectedFailure::OutOfMemory);
}

#[test]
fn nothing_remains_of_a_logged_commit_that_panics() {
    nothing_remains(InjectedFailure::Panic);
}

/// The child of the test below: commits, and panics at a place behind the timestamp.
#[test]
fn child_that_panics_with_a_timestamp_and_a_log() {
    let Ok(plan) = std::env::var(CHILD) else { return };
    let [folder, rows, name, steps, since] = plan.split('|').collect::<Vec<_>>()[..] else {
        panic!("{plan}")
    };
    let database = open(Durability::in_folder(folder));
    set_up(&database);
    let at = At { name, steps: steps.parse().unwrap(), since: since.parse().unwrap() };
    change_and_fail(&database, rows.parse().unwrap(), at, InjectedFailure::Panic);
}

#[test]
fn a_panic_behind_the_timestamp_ends_the_process_and_leaves_all_or_nothing() {
    for rows in SIZES {
        let places = places(rows);
        let first = before_timestamp(&places) + 1;
        let last = places.len() - 1;
        assert!(first < last, "{places:?}");
        for place in [first, first + 1, (first + last) / 2, last] {
            panics_behind_the_timestamp(rows, At::of(&places, place));
        }
    }
}

fn panics_behind_the_timestamp(rows: i32, At { name, steps, since }: At<'_>) {
    let place = format!("{rows}|{name}|{steps}|{since}");
    let folder = format!("ankerdb-panics-{}-{rows}-{steps}-{since}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let _removed = Removed(folder.clone());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child_that_panics_with_a_timestamp_and_a_log", "--nocapture"]);
    let output = child.env(CHILD, format!("{}|{place}", folder.display())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{place}: {said}");
    let why = "a commit panicked after it had drawn its timestamp; the process ends";
    assert!(said.contains(why), "{place}: {said}");
    let found = picture(&open(Durability::in_folder(&folder)));
    let (nothing, all) = expected(rows);
    assert!(found == nothing || found == all, "{place}: {found:?}");
}

/// What there is without the commit, and with it.
fn expected(rows: i32) -> (Seen, Seen) {
    let database = on(&SimulatedDisk::new());
    set_up(&database);
    let nothing = picture(&database);
    change(&database, rows).expect("nothing fails");
    drop(database);
    let disk = SimulatedDisk::new();
    let database = on(&disk);
    set_up(&database);
    change(&database, rows).expect("nothing fails");
    drop(database);
    // Entries of deleted rows are gone after a restart.
    (nothing, picture(&on(&disk)))
}

struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}
