//! Figure 2.5: scanning tables of which more and more rows are versioned.
//!
//! A reader begins, then transactions change a growing share of the rows, chosen evenly over the table, once each. The
//! reader scans the table again after each step: what has changed since it began comes from versions. In the paper this is
//! the situation of a long query in a single execution engine; a scan of an unversioned table resembles a snapshot's.
//!
//! Beside it there is a reader that begins after the changes: what it sees is in place. Ours has nothing to look at
//! then; a single engine still checks the header of every row that has a version.

use crate::finding::{Findings, Panel, Series};
use crate::harness::{Harness, unless_stopped};
use crate::tpch::TpcH;
use crate::tpch::schema::{NAMES, lineitem, orders, part};
use ankerdb_engine::{
    ColumnSet, Configuration, Error, IndexPosition, Isolation, Result, Session, Snapshot, SnapshotStrategy,
    TightLoops, Value,
};
use ankerdb_measure::latency::median;
use std::time::{Duration, Instant};

/// Shares of versioned rows in percent.
const PERCENT: [usize; 6] = [0, 20, 40, 60, 80, 100];
/// Of each share as many scans as fit into its part of the time, but so many at least.
const SCANS_MIN: usize = 3;
/// Rows that one transaction changes.
const ROWS_PER_TRANSACTION: usize = 500;
/// The attribute that is changed in each table; the scans read it.
const CHANGED: [usize; 3] = [lineitem::EXTENDEDPRICE, orders::TOTALPRICE, part::RETAILPRICE];

/// One way of scanning.
struct Way {
    name: String,
    strategy: SnapshotStrategy,
    /// Whether the reader began after the changes.
    is_new: bool,
}

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let setup = &harness.setup;
    let mut panels = NAMES.map(|name| Panel::lines(&name.to_uppercase(), "versioned rows, %", "ms"));
    let mut notes = Vec::new();
    harness.expect(setup.engines.len() * NAMES.len());
    for &engine in &setup.engines {
        let Some(world) = unless_stopped(TpcH::load(harness, engine, 1))? else { break };
        for (table, panel) in panels.iter_mut().enumerate() {
            if harness.is_stopped() {
                break;
            }
            let label = format!("{} {}", engine.name(), NAMES[table]);
            let series = harness.measure(&label, || measure(harness, &world, table))?;
            for series in &series {
                if let [(_, unversioned), .., (percent, versioned)] = series.points[..] {
                    notes.push(format!(
                        "{}, {}: {:.2}x as long with {percent}% versioned rows",
                        NAMES[table],
                        series.name,
                        versioned / unversioned.max(1e-9)
                    ));
                }
            }
            panel.series.extend(series);
        }
    }
    Ok(Findings { panels: panels.into(), notes })
}

/// The ways of scanning that a configuration shows.
fn ways(engine: Configuration) -> Vec<Way> {
    let versions = SnapshotStrategy::Versions(TightLoops::OutsideVersioned);
    let way = |ending: &str, strategy, is_new| {
        let name = format!("{}{ending}", engine.name());
        Way { name, strategy, is_new }
    };
    match engine {
        Configuration::AnkerDb => vec![
            way("", SnapshotStrategy::InPlace, false),
            way(", new reader", SnapshotStrategy::InPlace, true),
        ],
        Configuration::SeeFs => vec![
            way("", versions, false),
            way(" without first/last", SnapshotStrategy::Versions(TightLoops::Nowhere), false),
            way(", new reader", versions, true),
        ],
        Configuration::SeeSi => vec![way("", versions, false)],
        Configuration::SeeRu => vec![way("", SnapshotStrategy::Newest, false)],
        // Its queries run in copies of the process; inside of one they read in place.
        Configuration::HeeFork => vec![way("", SnapshotStrategy::InPlace, false)],
        _ => vec![way("", SnapshotStrategy::Columns, false)],
    }
}

fn measure(harness: &Harness<'_>, world: &TpcH, table: usize) -> Result<Vec<Series>> {
    let ways = ways(world.database.configuration());
    let mut points = vec![Vec::new(); ways.len()];
    let keys = keys_in_random_order(world, table, harness.setup.seed);
    let mut session = world.database.session();
    // What is left from loading is swept first: the table begins unversioned.
    std::thread::sleep(Duration::from_millis(1100));
    let reader = world.database.snapshot();
    let mut changed = 0;
    for (step, percent) in PERCENT.into_iter().enumerate() {
        let end = keys.len() * percent / 100;
        for batch in keys[changed..end].chunks(ROWS_PER_TRANSACTION) {
            if harness.is_stopped() {
                return Ok(named(ways, points));
            }
            change(world, &mut session, table, batch)?;
        }
        changed = end;
        let time = harness.setup.time.div_f64((PERCENT.len() * ways.len()) as f64);
        for (way, points) in ways.iter().zip(&mut points) {
            points.push((percent as f64, scan_ms(world, table, &reader, way, time)?));
        }
        harness.progress((step + 1) as f64 / PERCENT.len() as f64);
    }
    Ok(named(ways, points))
}

fn named(ways: Vec<Way>, points: Vec<Vec<(f64, f64)>>) -> Vec<Series> {
    ways.into_iter().zip(points).map(|(way, points)| Series::measured(way.name, points)).collect()
}

/// Median of the scan's time in milliseconds. Every scan makes its own copies.
fn scan_ms(world: &TpcH, table: usize, reader: &Snapshot, way: &Way, time: Duration) -> Result<f64> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < SCANS_MIN || begun.elapsed() < time {
        let started = Instant::now();
        let snapshot = if way.is_new { world.database.snapshot() } else { reader.by(way.strategy) };
        world.scan(table).run(&snapshot.read_view())?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&mut times).unwrap_or_default())
}

/// The encoded keys of all rows, shuffled: any prefix is spread evenly over the table.
fn keys_in_random_order(world: &TpcH, table: usize, seed: u64) -> Vec<Vec<Value>> {
    let big = |key: &i64| vec![Value::BigInt(*key)];
    let mut keys: Vec<Vec<Value>> = match table {
        0 => world
            .keys
            .lineitem
            .iter()
            .map(|(order, line)| vec![Value::BigInt(*order), Value::Integer(*line)])
            .collect(),
        1 => world.keys.orders.iter().map(big).collect(),
        _ => world.keys.part.iter().map(big).collect(),
    };
    fastrand::Rng::with_seed(seed).shuffle(&mut keys);
    keys
}

/// Changes the attribute of these rows, in one transaction.
fn change(world: &TpcH, session: &mut Session, table: usize, keys: &[Vec<Value>]) -> Result<()> {
    let (relation, column) = (world.tables.table(table), CHANGED[table]);
    session.run(Isolation::RepeatableRead, |transaction| {
        let mut key = Vec::with_capacity(16);
        for values in keys {
            key.clear();
            relation.index(IndexPosition(0)).encode(values, &mut key)?;
            let row = transaction.find(relation, IndexPosition(0), &key, ColumnSet::of(&[column]))?;
            let row = row.ok_or_else(|| Error::internal(format!("a row of {} is missing", NAMES[table])))?;
            let value = match transaction.value(relation, row, column) {
                Value::Double(amount) => Value::Double(amount + 1.0),
                other => other,
            };
            transaction.update(relation, row, vec![(column, value)])?;
        }
        Ok(())
    })
}
