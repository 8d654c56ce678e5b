//! Figure 2.6: snapshots of the single columns of LINEITEM, ORDERS and PART, against a fork of the process.
//!
//! Every technique runs under the whole database, in its hybrid configuration. A column that has not been written since its
//! last snapshot is not taken again; so a row is inserted into each table before, which writes to all columns. The memory of
//! an unused snapshot is reused by the next one; so it is given back before each *creation*. A database that takes one
//! snapshot after the other does a *refresh* of that memory; it is a series of its own where a technique needs to touch only
//! what differs.

use crate::finding::{Findings, Panel};
use crate::harness::{Harness, unless_stopped};
use crate::technique::{OURS, time_of_fork};
use crate::tpch::TpcH;
use crate::tpch::schema::NAMES;
use ankerdb_engine::{Configuration, Isolation, Result, Snapshot, SqlState, Table, Technique, Value};
use ankerdb_measure::latency::median;
use ankerdb_snapshot::{column_snapshot_bytes, release_column_snapshots};
use std::sync::Arc;
use std::time::Instant;

/// Snapshots of each column, the median of which is shown.
const RUNS: usize = 5;

/// Milliseconds by table and column; `None` where there was no memory for it.
type Costs = Vec<Vec<Option<f64>>>;

/// How a column's snapshot is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Making {
    /// In new memory.
    Creation,
    /// In the memory of the one before.
    Refresh,
}

/// Runs it.
///
/// # Errors
/// 57014 if the user stops it before there is something to report; the database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let names = ["LINEITEM", "ORDERS", "PART", "All"];
    let mut all = Panel::bars("All columns of a table, and fork of the process", "technique", "ms", &names);
    let (mut panels, mut notes) = (Vec::new(), Vec::new());
    let techniques = harness.setup.techniques.iter().map(|technique| Some(*technique)).chain([None]);
    harness.expect(techniques.clone().map(|technique| makings(technique).len()).sum());
    for technique in techniques {
        if harness.is_stopped() {
            break;
        }
        let engine = configuration(technique);
        let name = technique.map_or(OURS, Technique::name);
        let Some(world) = unless_stopped(TpcH::load(harness, engine, 1))? else { break };
        if panels.is_empty() {
            panels = NAMES.into_iter().enumerate().map(|(table, name)| empty(&world, table, name)).collect();
        }
        if technique == Some(Technique::Fork) {
            let mut times = Vec::new();
            harness.measure(name, || {
                (0..RUNS).try_for_each(|_| time_of_fork().map(|time| times.push(time.as_secs_f64() * 1e3)))
            })?;
            all.add(name, &[median(&mut times); 4]);
            continue;
        }
        for making in makings(technique) {
            let name = match making {
                Making::Creation => name.to_owned(),
                Making::Refresh => format!("{name}, refreshed"),
            };
            let costs = match harness.measure(&name, || measure(harness, &world, making)) {
                Err(error) if error.state() == SqlState::OutOfMemory => {
                    notes.push(format!("{name}: left out, it ended with: {error}"));
                    continue;
                }
                outcome => outcome?,
            };
            let mut sums: Vec<Option<f64>> = costs.iter().map(|table| table.iter().copied().sum()).collect();
            sums.push(sums.iter().copied().sum());
            all.add(&name, &sums);
            for (panel, costs) in panels.iter_mut().zip(&costs) {
                panel.add(&name, costs);
            }
        }
        if technique.is_none() {
            let creation = creation_us(&world);
            all.add(&format!("{OURS}, the timestamp"), &[Some(creation / 1e3); 4]);
            notes.push(format!("{OURS}: taking the snapshot of the whole database takes {creation:.2} us"));
        }
    }
    panels.push(all);
    Ok(Findings { panels: panels.into_iter().filter(|panel| !panel.series.is_empty()).collect(), notes })
}

/// What is measured of a technique. A copy touches all of it whether its memory is new or not, a child has no memory to be used
/// again, and ours makes none.
fn makings(technique: Option<Technique>) -> Vec<Making> {
    match technique {
        None | Some(Technique::Physical | Technique::Fork) => vec![Making::Creation],
        Some(_) => vec![Making::Creation, Making::Refresh],
    }
}

/// The configuration of the database in which a technique takes the snapshots.
fn configuration(technique: Option<Technique>) -> Configuration {
    let of_technique = |engine: &Configuration| engine.technique() == technique;
    Configuration::ALL.into_iter().find(of_technique).filter(|_| technique.is_some()).unwrap_or_default()
}

fn empty(world: &TpcH, table: usize, name: &str) -> Panel {
    let columns = world.tables.table(table).columns().iter().map(|column| column.name.as_str());
    Panel::bars(
        &format!("{}: single columns", name.to_uppercase()),
        "column",
        "ms",
        &columns.collect::<Vec<_>>(),
    )
}

/// Medians over the runs.
fn measure(harness: &Harness<'_>, world: &TpcH, making: Making) -> Result<Costs> {
    let count = |table: usize| world.tables.table(table).columns().len();
    let mut times: Vec<Vec<Vec<f64>>> =
        (0..NAMES.len()).map(|table| vec![Vec::new(); count(table)]).collect();
    for run in 0..RUNS {
        for (table, times) in times.iter_mut().enumerate() {
            let snapshot = prepared(world, table, making)?;
            for (column, times) in times.iter_mut().enumerate() {
                times.push(snapshot_ms(world, &snapshot, table, column)?);
            }
        }
        harness.progress((run + 1) as f64 / RUNS as f64);
        if harness.is_stopped() {
            break;
        }
    }
    Ok(times.iter_mut().map(|table| table.iter_mut().map(|times| median(times)).collect()).collect())
}

/// A snapshot that is newer than a change of all columns of the table, before any of them is asked for. For a refresh there is
/// an older, unused one of each column; for a creation there is none.
fn prepared(world: &TpcH, table: usize, making: Making) -> Result<Snapshot> {
    let relation = world.tables.table(table);
    change(world, relation)?;
    match making {
        Making::Creation => {
            release_column_snapshots(relation);
            assert_eq!(column_snapshot_bytes(relation), 0, "an older snapshot is still read");
        }
        Making::Refresh => {
            let columns: Vec<usize> = (0..relation.columns().len()).collect();
            world.database.snapshot().materialize(relation, &columns)?;
            change(world, relation)?;
        }
    }
    Ok(world.database.snapshot())
}

/// Makes a column of the snapshot ready to read without reading it.
fn snapshot_ms(world: &TpcH, snapshot: &Snapshot, table: usize, column: usize) -> Result<f64> {
    let relation = world.tables.table(table);
    let begun = Instant::now();
    if world.database.configuration() == Configuration::AnkerDb {
        let view = snapshot.read_view();
        (0..view.parts(relation)).try_for_each(|part| view.read(relation, part, &[column]).map(drop))?;
    } else {
        snapshot.materialize(relation, &[column])?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}

/// Inserts a copy of the table's first row under a key that no row has.
fn change(world: &TpcH, table: &Arc<Table>) -> Result<()> {
    let next = table.row_count() as i64;
    let mut session = world.database.session();
    session.run(Isolation::RepeatableRead, |transaction| {
        let row = ankerdb_engine::RowId::new(ankerdb_engine::BlockNumber(0), 0);
        let mut values: Vec<Value> =
            (0..table.columns().len()).map(|column| transaction.value(table, row, column)).collect();
        values[0] = Value::BigInt(-1 - next);
        transaction.insert(table, values).map(drop)
    })
}

fn creation_us(world: &TpcH) -> f64 {
    const TIMES: u32 = 1000;
    let begun = Instant::now();
    (0..TIMES).for_each(|_| drop(world.database.snapshot()));
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::ExperimentWatch;
    use crate::setup::SetupOptions;
    use ankerdb_measure::machine::Machine;
    use std::sync::atomic::AtomicBool;

    /// Calls the function with a small database of each technique that takes snapshots in this process.
    fn with_techniques(body: impl Fn(&TpcH)) {
        let (stop, machine) = (AtomicBool::new(false), Machine::detect());
        let watch = ExperimentWatch { stop: &stop, observer: &|_| () };
        let experiment = crate::find("dissertation-fig2.6").expect("it is there");
        let options = SetupOptions { scale: Some(0.002), ..SetupOptions::default() };
        let (setup, _) = experiment.setup(&options, &machine).expect("it fits");
        let harness = Harness::new(setup, machine, &watch);
        for technique in harness.setup.techniques.iter().filter(|technique| **technique != Technique::Fork) {
            body(&TpcH::load(&harness, configuration(Some(*technique)), 1).expect("it loads"));
        }
    }

    #[test]
    fn creation_takes_every_column_anew_and_a_refresh_has_an_older_one_to_begin_with() {
        with_techniques(|world| {
            let columns = world.tables.orders.columns().len() as u64;
            let taken = || {
                let statistics = world.database.statistics();
                (statistics.column_snapshots, statistics.column_snapshots_shared)
            };
            let kept = || column_snapshot_bytes(&world.tables.orders);
            for round in 0..3 {
                let snapshot = prepared(world, 1, Making::Creation).expect("there is memory");
                assert_eq!(kept(), 0, "round {round}: there is nothing to write over");
                let before = taken();
                for column in 0..columns as usize {
                    snapshot_ms(world, &snapshot, 1, column).expect("there is memory");
                }
                assert_eq!(taken(), (before.0 + columns, before.1), "round {round}: taken, not shared");
            }
            let snapshot = prepared(world, 1, Making::Refresh).expect("there is memory");
            assert!(kept() > 0, "there is one of each column");
            let before = (taken(), kept());
            snapshot_ms(world, &snapshot, 1, 0).expect("there is memory");
            assert_eq!((taken().0, kept()), (before.0.0 + 1, before.1), "in the memory of the older one");
        });
    }
}
