//! Figure 11: memory over the number of transactions, while queries run beside them.

use super::hybrid::{HybridPlan, run as run_hybrid};
use super::ours::Ours;
use super::{load_engine, memory, options, refresh_every, warehouses};
use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use crate::technique::OURS;
use ankerdb_engine::{Database as Engine, Result};
use ankerdb_serial::{IndexTreatment, Job, Mechanism, MemoryKind, QuiescePolicy, Store};
use ankerdb_workload::serial::client::SerialClient;
use ankerdb_workload::serial::load::load;
use ankerdb_workload::tpcc::input::Access;
use std::ops::ControlFlow;

/// Points of a line.
const POINTS: u64 = 10;
/// Transactions, in the paper and when shortened.
const TRANSACTIONS: [u64; 2] = [6_000_000, 300_000];
/// The name of what tuples take at least.
const BASELINE: &str = "baseline";
/// The name of tuples in place without queries and snapshots.
const WITHOUT: &str = "rows without queries";

/// Points of a line: transactions in thousands, and MiB.
type Points = Vec<(f64, f64)>;

/// Runs it.
///
/// # Errors
/// The database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let mut panel = Panel::lines("Memory", "transactions, thousands", "MiB");
    let mut notes = Vec::new();
    let mechanisms = harness.setup.mechanisms.clone();
    harness.expect(mechanisms.len() + 2);
    // Ours first: its memory comes from an allocator that keeps what it had.
    let of_ours = harness.measure(OURS, || ours(harness))?;
    let (source, _) = load_engine(harness)?;
    let measure = |name: &str, mechanism: Mechanism, olap: usize| {
        harness.measure(name, || mechanism.run(Measure { harness, source: &source, olap }))
    };
    let (without, baseline) = measure(WITHOUT, Mechanism::VmFork, 0)?;
    let least = baseline.last().map(|point| point.1);
    let mut add = |name: &str, points: Points| {
        if let (Some(least), Some((_, last))) = (least, points.last()) {
            notes.push(format!("{name}: {:.2} times the baseline in the end", last / least));
        }
        panel.series.push(Series::measured(name, points));
    };
    for mechanism in mechanisms {
        if harness.is_stopped() {
            break;
        }
        add(mechanism.name(), measure(mechanism.name(), mechanism, harness.setup.olap)?.0);
    }
    add(OURS, of_ours);
    add(WITHOUT, without);
    panel.series.push(Series::measured(BASELINE, baseline));
    Ok(Findings { panels: vec![panel], notes })
}

fn transactions(harness: &Harness<'_>) -> u64 {
    TRANSACTIONS[usize::from(!harness.setup.full)]
}

/// Collects points while transactions run.
struct Sampler {
    before: u64,
    total: u64,
    next: u64,
    points: Points,
}

impl Sampler {
    fn new(before: u64, total: u64) -> Sampler {
        Sampler { before, total, next: 0, points: Vec::new() }
    }

    fn look(&mut self, harness: &Harness<'_>, count: u64) -> ControlFlow<()> {
        if count >= self.next {
            let grown = memory::bytes().saturating_sub(self.before);
            self.points.push((count as f64 / 1e3, grown as f64 / (1 << 20) as f64));
            self.next += self.total / POINTS;
            harness.progress(count as f64 / self.total as f64);
        }
        if count < self.total { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

fn ours(harness: &Harness<'_>) -> Result<Points> {
    let mut sampler = Sampler::new(memory::bytes(), transactions(harness));
    let mut ours = Ours::load(harness)?;
    ours.run(harness, harness.setup.olap, &mut |count, _| sampler.look(harness, count))?;
    Ok(sampler.points)
}

/// A mechanism with so many threads of queries.
struct Measure<'a> {
    harness: &'a Harness<'a>,
    source: &'a Engine,
    olap: usize,
}

impl Job for Measure<'_> {
    /// What it takes, and what its tuples take at least.
    type Output = Result<(Points, Points)>;

    fn run<S: Store>(self) -> Self::Output {
        let Measure { harness, source, olap } = self;
        let total = transactions(harness);
        let treatments = [IndexTreatment::Share, IndexTreatment::Fork, IndexTreatment::Copy];
        let treatment = treatments.into_iter().find(|treatment| S::MECHANISM.check(*treatment).is_ok());
        let treatment = treatment.unwrap_or(IndexTreatment::Abandon);
        let mut sampler = Sampler::new(memory::bytes(), total);
        let (mut database, tables) =
            load::<S>(source, &options::<S>(MemoryKind::default(), treatment, total))?;
        let mut client = SerialClient::new(tables, harness.setup.seed, 0, warehouses(harness), Access::Home);
        let plan = HybridPlan {
            olap,
            refresh_every: refresh_every(harness),
            policy: QuiescePolicy::Wait,
            treatment,
        };
        let mut least = Vec::new();
        run_hybrid(harness, (&mut database, &tables, &mut client), plan, &mut |count, _, database| {
            let samples = sampler.points.len();
            let goes_on = sampler.look(harness, count);
            if olap == 0 && sampler.points.len() > samples {
                least.push((count as f64 / 1e3, database.tuple_bytes() as f64 / (1 << 20) as f64));
            }
            goes_on
        })?;
        Ok((sampler.points, least))
    }
}
