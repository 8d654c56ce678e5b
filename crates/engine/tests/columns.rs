//! Snapshots of whole columns by the techniques of the operating system: the same as ours at the same timestamp, in place,
//! whatever writers do; shared while nothing changes; and errors that affect no others.

mod support;

use ankerdb_engine::*;
use ankerdb_snapshot::release_column_snapshots;
use ankerdb_table::{Placement, Storage};
use std::sync::Arc;
use support::*;

/// The configurations whose snapshots are such.
fn techniques() -> Vec<Configuration> {
    let is_one = |configuration: &Configuration| {
        configuration.technique().is_some_and(|technique| technique != Technique::Fork)
    };
    let found: Vec<_> = configurations().filter(is_one).collect();
    assert!(!found.is_empty(), "copying needs nothing");
    found
}

/// Columns of every layout, with and without NULL.
const COLUMNS: [usize; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

fn wide_table(database: &Database) -> Arc<Table> {
    let table = TableDefinition::new("thing")
        .column(ColumnDefinition::new("id", DataType::Integer))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .column(ColumnDefinition::new("small", DataType::SmallInt).nullable())
        .column(ColumnDefinition::new("flag", DataType::Boolean).nullable())
        .column(ColumnDefinition::new("note", DataType::Text).nullable())
        .column(ColumnDefinition::new("name", DataType::Varchar(60)))
        .column(ColumnDefinition::new("cost", DataType::Numeric { precision: 30, scale: 2 }).nullable())
        .column(ColumnDefinition::new("price", DataType::Numeric { precision: 12, scale: 2 }))
        .column(ColumnDefinition::new("day", DataType::Date))
        .primary_key(&["id"]);
    database.create_table(table).expect("the name is free")
}

/// A value of a column, from a random number.
fn value(column: usize, seed: u32) -> Value {
    let number = i64::from(seed / 4);
    match column {
        1 => Value::BigInt(number),
        2 | 3 | 4 | 6 if seed.is_multiple_of(4) => Value::Null,
        2 => Value::SmallInt(number as i16),
        3 => Value::Boolean(number % 2 == 0),
        4 => Value::text(format!("{number} {}", "~".repeat(number as usize % 60))),
        5 if number % 2 == 0 => Value::text("short"),
        // As long as any other, and with the same beginning: only the bytes behind the view tell them apart.
        5 => Value::text(format!("of the same length, number {:04}", number % 10_000)),
        8 => Value::Date(number as i32),
        6 => Value::Numeric(Decimal::new(i128::from(number) << 64, 2)),
        _ => Value::Numeric(Decimal::new(i128::from(number), 2)),
    }
}

fn row(id: i32, seed: u32) -> Vec<Value> {
    std::iter::once(Value::Integer(id))
        .chain(COLUMNS[1..].iter().map(|&column| value(column, seed.wrapping_mul(column as u32 + 3))))
        .collect()
}

/// Updates a few columns of some rows, deletes some, inserts others; several in one transaction.
fn change(session: &mut Session, table: &Arc<Table>, random: &mut fastrand::Rng, ids: std::ops::Range<i32>) {
    let seed = random.u64(..);
    let changed = session.run(Isolation::Serializable, |transaction| {
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..random.usize(1..12) {
            let id = random.i32(ids.clone());
            let Some(found) = find(transaction, table, id, &[])? else {
                transaction.insert(table, row(id, random.u32(..)))?;
                continue;
            };
            if random.u8(..) < 30 {
                transaction.delete(table, found)?;
                continue;
            }
            let columns = COLUMNS[1..].iter().filter(|_| random.bool()).copied().collect::<Vec<_>>();
            let changes = columns.into_iter().map(|column| (column, value(column, random.u32(..))));
            transaction.update(table, found, changes.collect())?;
        }
        Ok(())
    });
    changed.expect("it commits");
}

/// Rows of the full blocks, and some of the last one.
const ROWS: i32 = 20_000;

/// A database with a table of that many rows.
fn filled(configuration: Configuration) -> (Database, Arc<Table>) {
    let database = Database::open(configuration).expect("it is available");
    let table = wide_table(&database);
    fill(&database, &table, (0..ROWS).map(|id| row(id, id as u32)));
    (database, table)
}

/// Looks at a table by both strategies while writers run; how many of `looks` differ. Ends early when one does.
fn looks_that_differ(configuration: Configuration, looks: usize, by: SnapshotStrategy) -> usize {
    let (database, table) = filled(configuration);
    let running = Running::default();
    std::thread::scope(|scope| {
        let stop = running.until_drop();
        for seed in 0..2 {
            let (database, table, running) = (&database, &table, &running);
            scope.spawn(move || {
                let (mut random, mut session) = (fastrand::Rng::with_seed(seed), database.session());
                // Some rows often, others now and then; also such as are not there yet.
                let hot = seed as i32 * 9_000..seed as i32 * 9_000 + 300;
                while running.goes_on() {
                    change(&mut session, table, &mut random, hot.clone());
                    change(&mut session, table, &mut random, 0..ROWS + 12_000);
                }
            });
        }
        let differs = |look: &usize| {
            let snapshot = database.snapshot();
            // First the one, first the other; some columns a little later than the rest.
            let both = [by, SnapshotStrategy::InPlace];
            let order = if look.is_multiple_of(2) { [0, 1] } else { [1, 0] };
            let mut seen = [Vec::new(), Vec::new()];
            for which in order {
                let view = match which {
                    0 if both[0] == SnapshotStrategy::Columns => snapshot.read_view(),
                    _ => snapshot.by(both[which]).read_view(),
                };
                if which == 0 {
                    view_rows(&view, &table, &[0, look % 9]);
                }
                seen[which] = view_rows(&view, &table, &COLUMNS);
            }
            seen[0] != seen[1]
        };
        let differing = (0..looks).find(differs);
        drop(stop);
        differing.into_iter().count()
    })
}

#[test]
fn columns_are_as_of_the_snapshot_while_writers_run() {
    for configuration in techniques() {
        let name = configuration.name();
        assert_eq!(looks_that_differ(configuration, 60, SnapshotStrategy::Columns), 0, "{name}");
    }
}

/// The control: without a look at versions the same comparison finds a difference.
#[test]
fn what_nobody_puts_right_differs() {
    let newest = looks_that_differ(Configuration::HeePhysical, 2_000, SnapshotStrategy::Newest);
    assert_eq!(newest, 1);
}

fn pointers(view: &ReadView, table: &Table, columns: &[usize]) -> Vec<*const u8> {
    let image = view.read(table, 0, columns).expect("it can be read");
    image.columns.iter().map(|column| column.values.pointer).collect()
}

#[test]
fn a_column_is_taken_once_and_again_only_when_it_has_changed() {
    for configuration in techniques() {
        let (database, table) = filled(configuration);
        let counts = || {
            let statistics = database.statistics();
            (statistics.column_snapshots, statistics.column_snapshots_shared)
        };
        let first = database.snapshot();
        assert_eq!(counts(), (0, 0), "nothing is taken before somebody asks");
        let seen = pointers(&first.read_view(), &table, &[1, 7]);
        assert_eq!(pointers(&first.read_view(), &table, &[7, 1]), [seen[1], seen[0]]);
        let kept = database.statistics().column_snapshot_bytes;
        let two_columns = 2 * 3 * 8 * ROWS_PER_BLOCK;
        assert!((two_columns..two_columns * 3 / 2).contains(&kept), "{kept} bytes");
        assert_eq!(counts(), (2, 0), "each column once for all queries of a snapshot");
        let second = database.snapshot();
        second.read_view().materialize(&table, &[1, 7]).expect("there is memory");
        assert_eq!(pointers(&second.read_view(), &table, &[1, 7]), seen, "nothing was written");
        assert_eq!(counts(), (2, 2));
        let rows = view_rows(&first.read_view(), &table, &COLUMNS);
        let mut client = Client::begin(&database, &table, Isolation::Serializable);
        assert!(client.write(17, -1).expect("the row is free"));
        client.commit().expect("there is no conflict");
        let third = database.snapshot();
        let now = pointers(&third.read_view(), &table, &[1, 7]);
        assert_ne!(now[0], seen[0], "the first column was written");
        assert_eq!(now[1], seen[1], "the other was not");
        assert_eq!(view_rows(&first.read_view(), &table, &COLUMNS), rows, "what was taken stays");
        assert_ne!(view_rows(&third.read_view(), &table, &COLUMNS), rows);
        assert!(!first.read_view().read(&table, 0, &[1]).expect("it can be read").columns[0].lent);
    }
}

/// Drops cached column snapshots, for measurements of what the first snapshot of a column costs.
#[test]
fn what_is_kept_with_columns_can_be_let_go_and_what_somebody_reads_stays() {
    for configuration in techniques() {
        let (database, table) = filled(configuration);
        let kept = || database.statistics().column_snapshot_bytes;
        let held = database.snapshot();
        let rows = view_rows(&held.read_view(), &table, &COLUMNS);
        let taken = database.statistics().column_snapshots;
        assert!(kept() > 0);
        release_column_snapshots(&table);
        assert_eq!(kept(), 0, "{}", configuration.name());
        assert_eq!(view_rows(&held.read_view(), &table, &COLUMNS), rows, "it is read");
        // Nothing was written, and still nothing is shared.
        assert_eq!(view_rows(&database.snapshot().read_view(), &table, &COLUMNS), rows);
        assert_eq!(database.statistics().column_snapshots, 2 * taken, "taken anew");
        drop(held);
        assert!(kept() > 0, "its memory is there for the next one");
        release_column_snapshots(&table);
        assert_eq!(kept(), 0);
    }
}

/// Columns that an old snapshot has not named yet are as of its timestamp when it does.
#[test]
fn an_old_snapshot_takes_a_column_late() {
    for configuration in techniques() {
        let (database, table) = filled(configuration);
        let rows = view_rows(&database.snapshot().read_view(), &table, &COLUMNS);
        let snapshots: Vec<Snapshot> = (0..4).map(|_| database.snapshot()).collect();
        view_rows(&snapshots[0].read_view(), &table, &[0, 1, 4]);
        let (mut session, mut random) = (database.session(), fastrand::Rng::with_seed(5));
        for _ in 0..300 {
            change(&mut session, &table, &mut random, 0..ROWS + 9_000);
        }
        // A newer one first, so that the next destination is one that is newer than what is wanted.
        let newer = view_rows(&database.snapshot().read_view(), &table, &COLUMNS);
        for snapshot in snapshots {
            assert_eq!(view_rows(&snapshot.read_view(), &table, &COLUMNS), rows, "{}", configuration.name());
        }
        assert_ne!(newer, rows);
        assert_eq!(view_rows(&database.snapshot().read_view(), &table, &COLUMNS), newer);
    }
}

#[test]
fn pages_of_both_sizes_serve() {
    let database = Database::in_pages(Configuration::HeePhysical, PageSize::Huge).expect("it is available");
    let table = wide_table(&database);
    fill(&database, &table, (0..ROWS).map(|id| row(id, id as u32)));
    let placement = Storage::of(&table).segments().expect("its columns lie in regions").placement();
    assert_eq!(placement.pages, PageSize::Huge);
    let snapshot = database.snapshot();
    let rows = view_rows(&snapshot.by(SnapshotStrategy::InPlace).read_view(), &table, &COLUMNS);
    change(&mut database.session(), &table, &mut fastrand::Rng::with_seed(1), 0..ROWS);
    assert_eq!(view_rows(&snapshot.read_view(), &table, &COLUMNS), rows);
    let small = Database::open(Configuration::HeePhysical).expect("it is available");
    let small = Storage::of(&wide_table(&small)).segments().expect("regions").placement();
    assert_eq!(small, Placement::of(Technique::Physical));
}

/// Memory of snapshots that are no longer read is used again; that of others never is.
#[test]
fn snapshots_alive_at_once_keep_their_states() {
    for configuration in techniques() {
        let (database, table) = filled(configuration);
        let running = Running::default();
        std::thread::scope(|scope| {
            let stop = running.until_drop();
            scope.spawn(|| {
                let (mut random, mut session) = (fastrand::Rng::with_seed(1), database.session());
                while running.goes_on() {
                    change(&mut session, &table, &mut random, 0..400);
                }
            });
            let columns = [0, 1, 4];
            let see = |snapshot: &Snapshot| {
                let is_hot = |id: &Value| matches!(id, Value::Integer(id) if *id < 400);
                view_rows_if(&snapshot.read_view(), &table, &columns, is_hot)
            };
            let (mut random, mut alive) = (fastrand::Rng::with_seed(2), Vec::new());
            for turn in 0..120 {
                if alive.len() < 8 && random.u8(..) < 160 {
                    let snapshot = database.snapshot();
                    // Some are not read before later ones are.
                    let seen = if random.bool() {
                        see(&snapshot)
                    } else {
                        see(&snapshot.by(SnapshotStrategy::InPlace))
                    };
                    alive.push((snapshot, seen));
                } else if !alive.is_empty() {
                    let (snapshot, seen) = &alive[random.usize(..alive.len())];
                    assert_eq!(see(snapshot), *seen, "{}, turn {turn}", configuration.name());
                    alive.swap_remove(random.usize(..alive.len()));
                }
            }
            for (snapshot, seen) in alive {
                assert_eq!(see(&snapshot), seen, "{}", configuration.name());
            }
            drop(stop);
        });
    }
}

#[test]
fn images_outlive_snapshot_table_and_database() {
    for configuration in techniques() {
        let database = Database::open(configuration).expect("it is available");
        let table = wide_table(&database);
        fill(&database, &table, (0..100).map(|id| row(id, id as u32)));
        let image = database.snapshot().read_view().read(&table, 0, &COLUMNS).expect("it can be read");
        let other = wide_table(&Database::new());
        drop((table, database));
        assert_eq!(
            image_rows(&image, &other, &COLUMNS),
            (0..100).map(|id| row(id, id as u32)).collect::<Vec<_>>()
        );
    }
}
