//! When the system has no memory for the snapshot of a column, only the query that wants it fails. When it has none for new
//! rows, only their commit fails.
//!
//! Limits the address space of the process; so this is the only test here.
#![cfg(all(target_os = "linux", not(ankerdb_sanitize)))]

mod support;

use ankerdb_engine::*;
use ankerdb_table::{Placement, Storage};
use ankerdb_transaction::{TransactionManager, Versioning};
use std::io::Write;
use std::sync::Arc;
use support::*;

/// Enough that a snapshot of one column is far larger than what limits leave free.
const ROWS: i32 = 40_000;

/// While it lives, the process may have no more of something.
struct Limited(libc::__rlimit_resource_t, libc::rlimit);

impl Limited {
    /// No more address space, also in the room of what is given back meanwhile, by threads that have just ended for
    /// example. What the allocator holds serves for the little that a commit needs.
    fn now() -> Limited {
        Limited::to(libc::RLIMIT_AS, 1 << 20)
    }

    /// No more memory in files, those in main memory included: a page has no place to be copied to.
    fn copies() -> Limited {
        // SAFETY: the system tells by a signal what its answer tells as well.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        Limited::to(libc::RLIMIT_FSIZE, 1 << 20)
    }

    fn to(resource: libc::__rlimit_resource_t, most: u64) -> Limited {
        let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: reads the limit into a variable of ours.
        assert_eq!(unsafe { libc::getrlimit(resource, &mut before) }, 0);
        let limit = libc::rlimit { rlim_cur: most, ..before };
        // SAFETY: a limit affects only requests for more.
        assert_eq!(unsafe { libc::setrlimit(resource, &limit) }, 0);
        Limited(resource, before)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // SAFETY: as it was before.
        assert_eq!(unsafe { libc::setrlimit(self.0, &self.1) }, 0);
    }
}

#[test]
fn what_finds_no_memory_ends_and_concerns_nobody_else() {
    a_failed_snapshot_of_a_column();
    a_commit_that_needs_a_segment();
    a_snapshot_that_is_lost_on_the_way();
}

/// A page that a rewired snapshot holds cannot be copied when it is written to: the write goes on, and the
/// snapshot's reader gets an error.
fn a_snapshot_that_is_lost_on_the_way() {
    for configuration in [Configuration::HeeRewiring, Configuration::HeeRewiringUserfaultfd] {
        if let Err(error) = configuration.check() {
            let _ = writeln!(std::io::stderr(), "NOT HERE: {error}");
            continue;
        }
        let database = Database::open(configuration).expect("it is available");
        let table = items(&database, "item");
        fill(&database, &table, (0..ROWS).map(|id| item(id, 1, 2, 3)));
        let read = |view: &ReadView| {
            view.materialize(&table, &[A]).map(|()| view_rows(view, &table, &[A])).and_then(|rows| {
                let total = rows.iter().map(|row| row[0].as_integer().expect("a number")).sum::<i64>();
                view.check().map(|()| total)
            })
        };
        let total = i64::from(ROWS);
        let early = database.snapshot().read_view();
        assert_eq!(read(&early), Ok(total));
        {
            let _limited = Limited::copies();
            let mut client = Client::begin(&database, &table, Isolation::Serializable);
            assert!(client.write(7, 11).expect("the row is free"));
            client.commit().expect("a commit does not need the snapshot");
        }
        let error = read(&early).expect_err("its memory is gone");
        assert_eq!(error.state(), SqlState::OutOfMemory, "{}: {error}", configuration.name());
        assert_eq!(read(&database.snapshot().read_view()), Ok(total + 10), "{}", configuration.name());
    }
}

/// A commit that finds no room for its rows ends like any other that fails: nothing of it remains.
fn a_commit_that_needs_a_segment() {
    const ROOM: usize = 2 * ROWS_PER_BLOCK;
    for technique in Technique::ALL.into_iter().filter(|technique| technique.check().is_ok()) {
        let definition = TableDefinition::new("t").column(ColumnDefinition::new("a", DataType::BigInt));
        let placement = Placement { blocks_per_segment: 2, ..Placement::of(technique) };
        let manager = TransactionManager::new(Versioning::default());
        let table = Storage::create_in_regions(manager.new_table(), definition, placement);
        let table = Arc::new(table.expect("there is memory"));
        let mut transaction = Transaction::new(manager.clone(), manager.acquire_worker());
        let mut insert = |rows: usize| {
            transaction.begin(Isolation::Serializable, false);
            (0..rows).for_each(|_| drop(transaction.insert_cells(&table, &[Cell::bigint(1)])));
            transaction.commit().map(drop)
        };
        insert(ROOM - 1).expect("there is room");
        {
            let _limited = Limited::now();
            // The first row has room, the second one has not.
            let error = insert(2).expect_err("there is no memory");
            assert_eq!(error.state(), SqlState::OutOfMemory, "{}: {error}", technique.name());
            assert_eq!((table.row_count(), table.block_count()), (ROOM - 1, 2));
            insert(1).expect("there is room for one");
        }
        insert(2).expect("there is memory again");
        assert_eq!((table.row_count(), table.block_count()), (ROOM + 2, 3));
        assert_eq!(view_rows(&manager.snapshot().read_view(), &table, &[0]).len(), ROOM + 2);
    }
}

fn a_failed_snapshot_of_a_column() {
    let takes_columns = |configuration: &Configuration| {
        configuration.technique().is_some_and(|technique| technique != Technique::Fork)
    };
    for configuration in configurations().filter(takes_columns) {
        let name = configuration.name();
        let database = Database::open(configuration).expect("it is available");
        let table = items(&database, "item");
        fill(&database, &table, (0..ROWS).map(|id| item(id, 1, 2, 3)));
        let sum = |snapshot: &Snapshot, column: usize| -> Result<i64> {
            let (view, mut sum) = (snapshot.read_view(), 0);
            for part in 0..view.parts(&table) {
                let image = view.read(&table, part, &[column])?;
                let rows = image_rows(&image, &table, &[column]);
                sum += rows.iter().map(|row| row[0].as_integer().expect("a number")).sum::<i64>();
            }
            Ok(sum)
        };
        let write = |a: i64| {
            let mut client = Client::begin(&database, &table, Isolation::Serializable);
            assert!(client.write(7, a).expect("the row is free"));
            client.commit().expect("there is no conflict");
        };
        let total = i64::from(ROWS);
        let early = database.snapshot();
        assert_eq!(sum(&early, A), Ok(total));
        write(11);
        let late = database.snapshot();
        {
            let _limited = Limited::now();
            let error = late.materialize(&table, &[A]).expect_err("there is no memory");
            assert_eq!(error.state(), SqlState::OutOfMemory, "{name}: {error}");
            let error = sum(&late, A).expect_err("there is no memory");
            assert_eq!(error.state(), SqlState::OutOfMemory, "{name}: {error}");
            // What was taken before goes on, and so do commits.
            assert_eq!(sum(&early, A), Ok(total), "{name}");
            write(21);
        }
        // This snapshot can be read once there is memory, as of its own time.
        assert_eq!(sum(&late, A), Ok(total + 10), "{name}");
        assert_eq!(sum(&early, A), Ok(total), "{name}");
        assert_eq!(sum(&database.snapshot(), A), Ok(total + 20), "{name}");
        // A table is not made if there is no room to reserve for it.
        let rows = table.row_count();
        let _limited = Limited::now();
        let refused = try_items(&database).map(drop).expect_err("there is no memory");
        assert_eq!(refused.state(), SqlState::OutOfMemory, "{name}: {refused}");
        assert_eq!(database.catalog().tables().count(), 1);
        assert_eq!(table.row_count(), rows);
    }
}

fn try_items(database: &Database) -> Result<Arc<Table>> {
    let other = TableDefinition::new("other").column(ColumnDefinition::new("a", DataType::BigInt));
    database.create_table(other)
}
