//! Table 3: throughput of transactions and of queries, side by side, by what becomes of indexes in snapshots.

use super::hybrid::{HybridOutcome, HybridPlan, run as run_hybrid};
use super::ours::Ours;
use super::{load_engine, options, refresh_every, warehouses};
use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use crate::technique::OURS;
use ankerdb_engine::{Database as Engine, Result};
use ankerdb_serial::{IndexTreatment, Job, Mechanism, MemoryKind, QuiescePolicy, Store};
use ankerdb_workload::serial::client::SerialClient;
use ankerdb_workload::serial::load::load;
use ankerdb_workload::tpcc::input::Access;
use std::ops::ControlFlow;
use std::time::Duration;

/// Transactions for which there is room, in a second of a measurement.
const ROOM_PER_SECOND: u64 = 400_000;
/// Without queries and snapshots, then by the treatment of indexes.
const COLUMNS: [&str; 5] = ["raw", "index abandoned", "index copy", "index fork", "index share"];

/// Values of a series.
type Values = [Option<f64>; COLUMNS.len()];

/// The table's rows: transactions in thousands, then queries, both without the second column.
const PAPER: [(&str, Values, Values); 4] = [
    ("vm-fork", [Some(85.0), None, Some(59.0), Some(60.0), None], [None, None, Some(9.7), Some(10.3), None]),
    (
        "tuple-shadowing",
        [Some(25.0), None, Some(19.0), Some(22.0), Some(24.0)],
        [None, None, Some(5.9), Some(6.8), Some(5.9)],
    ),
    (
        "twin-tuples",
        [Some(33.0), None, Some(26.0), Some(29.0), Some(27.0)],
        [None, None, Some(5.9), Some(7.0), Some(7.0)],
    ),
    ("hot-cold", [Some(84.0), None, Some(59.0), Some(59.0), None], [None, None, Some(9.9), Some(9.6), None]),
];

/// Runs it.
///
/// # Errors
/// The database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let mut oltp = Panel::bars("Transactions", "indexes in snapshots", "1000/s", &COLUMNS);
    let mut olap = Panel::bars("Queries", "indexes in snapshots", "1/s", &COLUMNS);
    let mut notes = Vec::new();
    let mechanisms = harness.setup.mechanisms.clone();
    let measurements = mechanisms.iter().map(|mechanism| cells(*mechanism).len() + 1).sum::<usize>();
    let aborting = mechanisms.iter().filter(|mechanism| mechanism.has_one_snapshot()).count();
    harness.expect(measurements + aborting + 2);
    let (source, _) = load_engine(harness)?;
    for mechanism in mechanisms {
        let measure =
            |label: &str, treatment, plan: Option<QuiescePolicy>| -> Result<Option<HybridOutcome>> {
                if harness.is_stopped() {
                    return Ok(None);
                }
                let label = format!("{}, {label}", mechanism.name());
                let job = Measure { harness, source: &source, treatment, policy: plan };
                harness.measure(&label, || mechanism.run(job)).map(Some)
            };
        let (mut transactions, mut queries) = ([None; COLUMNS.len()], [None; COLUMNS.len()]);
        let raw = measure(COLUMNS[0], IndexTreatment::Abandon, None)?;
        transactions[0] = raw.map(|raw| raw.transactions_per_second() / 1e3);
        for (column, treatment) in cells(mechanism) {
            let outcome = measure(COLUMNS[column], treatment, Some(QuiescePolicy::Wait))?;
            transactions[column] = outcome.as_ref().map(|outcome| outcome.transactions_per_second() / 1e3);
            queries[column] = outcome.as_ref().map(HybridOutcome::queries_per_second);
        }
        oltp.add(mechanism.name(), &transactions);
        olap.add(mechanism.name(), &queries);
        if mechanism.has_one_snapshot()
            && let Some(outcome) =
                measure("index share, aborting", IndexTreatment::Share, Some(QuiescePolicy::Abort))?
        {
            notes.push(format!(
                "{}, index share, refreshes that abort queries instead of waiting for them: {:.1} thousand transactions and {:.1} queries \
                 a second, {} queries aborted",
                mechanism.name(),
                outcome.transactions_per_second() / 1e3,
                outcome.queries_per_second(),
                outcome.given_up
            ));
        }
    }
    drop(source);
    if let Some((transactions, queries)) = ours(harness)? {
        oltp.add(OURS, &transactions);
        olap.add(OURS, &queries);
    }
    for (name, transactions, queries) in PAPER {
        oltp.series.push(paper(name, transactions));
        olap.series.push(paper(name, queries));
    }
    Ok(Findings { panels: vec![oltp, olap], notes })
}

/// Columns of treatments that a mechanism can have.
fn cells(mechanism: Mechanism) -> Vec<(usize, IndexTreatment)> {
    let all = (1..).zip(IndexTreatment::ALL);
    all.filter(|(_, treatment)| mechanism.check(*treatment).is_ok()).collect()
}

fn paper(name: &str, values: Values) -> Series {
    let points = values.into_iter().enumerate().filter_map(|(place, value)| Some((place as f64, value?)));
    Series::paper(name, points.collect())
}

/// One cell.
struct Measure<'a> {
    harness: &'a Harness<'a>,
    source: &'a Engine,
    treatment: IndexTreatment,
    /// Without queries if `None`.
    policy: Option<QuiescePolicy>,
}

impl Job for Measure<'_> {
    type Output = Result<HybridOutcome>;

    fn run<S: Store>(self) -> Self::Output {
        let Measure { harness, source, treatment, policy } = self;
        let time = harness.setup.time;
        let room = ROOM_PER_SECOND * time.as_secs().max(1);
        let (mut database, tables) =
            load::<S>(source, &options::<S>(MemoryKind::default(), treatment, room))?;
        let mut client = SerialClient::new(tables, harness.setup.seed, 0, warehouses(harness), Access::Home);
        let plan = HybridPlan {
            olap: policy.map_or(0, |_| harness.setup.olap),
            refresh_every: refresh_every(harness),
            policy: policy.unwrap_or(QuiescePolicy::Wait),
            treatment,
        };
        run_hybrid(harness, (&mut database, &tables, &mut client), plan, &mut |_, passed, _| {
            ends(harness, passed, time)
        })
    }
}

fn ends(harness: &Harness<'_>, passed: Duration, time: Duration) -> ControlFlow<()> {
    harness.progress(passed.as_secs_f64() / time.as_secs_f64());
    if passed < time { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Ours: transactions alone, then beside queries; `None` if the user stops it.
fn ours(harness: &Harness<'_>) -> Result<Option<(Values, Values)>> {
    let time = harness.setup.time;
    let mut outcomes = Vec::new();
    for (label, olap) in [("raw", 0), ("a snapshot for each query", harness.setup.olap)] {
        if harness.is_stopped() {
            return Ok(None);
        }
        let mut ours = Ours::load(harness)?;
        let label = format!("{OURS}, {label}");
        outcomes.push(
            harness
                .measure(&label, || ours.run(harness, olap, &mut |_, passed| ends(harness, passed, time)))?,
        );
    }
    let [raw, beside] = outcomes.as_slice() else { return Ok(None) };
    let thousands = |outcome: &HybridOutcome| Some(outcome.transactions_per_second() / 1e3);
    let transactions = [thousands(raw), None, None, None, thousands(beside)];
    Ok(Some((transactions, [None, None, None, None, Some(beside.queries_per_second())])))
}
