//! Figure 2.6: snapshots of the single columns of LINEITEM, ORDERS and PART, against a fork of the process.
//!
//! Every technique runs under the whole database, in its hybrid configuration. A column that nobody has written since its
//! last snapshot is not taken again; so a row is inserted into each table before, which writes to all columns.

use crate::finding::{Findings, Panel};
use crate::lab::{Lab, unless_stopped};
use crate::technique::{OURS, time_of_fork};
use crate::tpch::TpcH;
use crate::tpch::schema::NAMES;
use ankerdb_engine::{Configuration, Isolation, Result, SqlState, Table, Technique, Value};
use ankerdb_workload::htap::latency::median;
use std::sync::Arc;
use std::time::Instant;

/// Snapshots of each column, the median of which is shown.
const RUNS: usize = 5;

/// Milliseconds by table and column; `None` where there was no memory for it.
type Costs = Vec<Vec<Option<f64>>>;

/// Runs it.
pub fn run(lab: &Lab<'_>) -> Result<Findings> {
    let names = ["LINEITEM", "ORDERS", "PART", "All"];
    let mut all = Panel::bars("All columns of a table, and fork of the process", "technique", "ms", &names);
    let (mut panels, mut notes) = (Vec::new(), Vec::new());
    let techniques = lab.setup.techniques.iter().map(|technique| Some(*technique)).chain([None]);
    lab.expect(lab.setup.techniques.len() + 1);
    for technique in techniques {
        if lab.is_stopped() {
            break;
        }
        let engine = configuration(technique);
        let name = technique.map_or(OURS, Technique::name);
        let Some(world) = unless_stopped(TpcH::load(lab, engine, 1))? else { break };
        if panels.is_empty() {
            panels = NAMES.into_iter().enumerate().map(|(table, name)| empty(&world, table, name)).collect();
        }
        if technique == Some(Technique::Fork) {
            let mut times = Vec::new();
            lab.measure(name, || {
                (0..RUNS).try_for_each(|_| time_of_fork().map(|time| times.push(time.as_secs_f64() * 1e3)))
            })?;
            all.add(name, &[median(&mut times); 4]);
            continue;
        }
        let costs = match lab.measure(name, || measure(lab, &world)) {
            Err(error) if error.state() == SqlState::OutOfMemory => {
                notes.push(format!("{name}: left out, it ended with: {error}"));
                continue;
            }
            outcome => outcome?,
        };
        let mut sums: Vec<Option<f64>> = costs.iter().map(|table| table.iter().copied().sum()).collect();
        sums.push(sums.iter().copied().sum());
        all.add(name, &sums);
        for (panel, costs) in panels.iter_mut().zip(&costs) {
            panel.add(name, costs);
        }
        if technique.is_none() {
            notes.push(format!(
                "{OURS}: taking the snapshot of the whole database takes {:.2} us",
                creation_us(&world)
            ));
        }
    }
    panels.push(all);
    Ok(Findings { panels: panels.into_iter().filter(|panel| !panel.series.is_empty()).collect(), notes })
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
fn measure(lab: &Lab<'_>, world: &TpcH) -> Result<Costs> {
    let count = |table: usize| world.tables.table(table).columns().len();
    let mut times: Vec<Vec<Vec<f64>>> =
        (0..NAMES.len()).map(|table| vec![Vec::new(); count(table)]).collect();
    for run in 0..RUNS {
        for (table, times) in times.iter_mut().enumerate() {
            change(world, world.tables.table(table), run as i64)?;
            let snapshot = world.database.snapshot();
            for (column, times) in times.iter_mut().enumerate() {
                times.push(snapshot_ms(world, &snapshot, table, column)?);
            }
        }
        lab.progress((run + 1) as f64 / RUNS as f64);
        if lab.is_stopped() {
            break;
        }
    }
    Ok(times.iter_mut().map(|table| table.iter_mut().map(|times| median(times)).collect()).collect())
}

/// Makes a column of the snapshot ready to read without reading it.
fn snapshot_ms(
    world: &TpcH,
    snapshot: &ankerdb_engine::Snapshot,
    table: usize,
    column: usize,
) -> Result<f64> {
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
fn change(world: &TpcH, table: &Arc<Table>, run: i64) -> Result<()> {
    let mut session = world.database.session();
    session.run(Isolation::RepeatableRead, |transaction| {
        let row = ankerdb_engine::RowId::new(0, 0);
        let mut values: Vec<Value> =
            (0..table.columns().len()).map(|column| transaction.value(table, row, column)).collect();
        values[0] = Value::BigInt(-1 - run);
        transaction.insert(table, values).map(drop)
    })
}

fn creation_us(world: &TpcH) -> f64 {
    const TIMES: u32 = 1000;
    let begun = Instant::now();
    (0..TIMES).for_each(|_| drop(world.database.snapshot()));
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
}
