//! Appuswamy, Karpathiotakis, Porobic, Ailamaki: The Case For Heterogeneous HTAP (CIDR 2017): snapshots by shadow copies, on CPUs.
//!
//! Transactions change ten random rows of LINEITEM each, beside ten or more runs of TPC-H's Q6 over snapshots that several of
//! them share.

pub mod fig5;
pub mod fig6;
pub mod fig7;
pub mod lineitem;
mod ours;
mod serial;

use crate::harness::Harness;
use crate::mechanism::Variant;
use crate::setup::{Data, PaperSetup};
use crate::technique::OURS;
use ankerdb_engine::Result;
use lineitem::Lineitem;
use std::time::Duration;

/// Queries run one after the other; how many cores the paper's transactions had varies.
pub const PAPER: PaperSetup = PaperSetup {
    oltp: 1,
    olap: 1,
    seconds: 1,
    quick_seconds: 1,
    lead: Duration::ZERO,
    interval: Duration::ZERO,
    threads_vary: false,
};
/// LINEITEM at the paper's scale factor, and by default.
pub const DATA: Data = Data::TpcH { paper: 300.0, quick: 0.25 };

/// What always differs from the paper.
pub const CPU: &str = "queries run on one thread of a CPU, beside transactions on another; the paper's run on a GPU, beside transactions on many \
                       cores";
/// How the rows differ from the paper's.
pub const ROWS: &str = "mechanisms keep rows of the four columns that Q6 names, together; a transaction adds to l_extendedprice of ten rows, which \
                        it finds by an index";
/// How the times differ from the paper's.
pub const COUNTED: &str = "--seconds does not apply: a measurement ends with its last query";

/// Rows that a transaction changes.
pub const ROWS_PER_TRANSACTION: usize = 10;

/// One measurement.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Transactions choose among so many rows, the first ones.
    pub working_set: usize,
    /// Queries.
    pub queries: usize,
    /// Queries that share a snapshot.
    pub sharing: usize,
    /// Of inputs.
    pub seed: u64,
}

/// What came of it.
#[derive(Default)]
pub struct CalderaOutcome {
    /// Transactions while queries ran.
    pub transactions: u64,
    /// How long that was.
    pub elapsed: Duration,
    /// Of each query.
    pub latencies: Vec<Duration>,
}

impl CalderaOutcome {
    /// Transactions in a second, in thousands.
    pub fn kilo_per_second(&self) -> f64 {
        self.transactions as f64 / self.elapsed.as_secs_f64().max(1e-9) / 1e3
    }

    /// Milliseconds of a query: on average, the least, the most.
    pub fn latency_ms(&self) -> [f64; 3] {
        let ms = || self.latencies.iter().map(|latency| latency.as_secs_f64() * 1e3);
        let average = ms().sum::<f64>() / self.latencies.len().max(1) as f64;
        [average, ms().fold(f64::INFINITY, f64::min), ms().fold(0.0, f64::max)]
    }
}

/// A loaded competitor.
trait Runner {
    /// Runs transactions until the queries have ended.
    fn run(&mut self, harness: &Harness<'_>, plan: Plan) -> Result<CalderaOutcome>;
}

/// Loads each competitor in turn, and measures it.
///
/// # Errors
/// Those of the measurement.
fn contest(
    harness: &Harness<'_>,
    measurements: usize,
    mut measure: impl FnMut(&str, usize, &mut dyn FnMut(Plan) -> Result<CalderaOutcome>) -> Result<()>,
) -> Result<()> {
    let variants = Variant::all(harness);
    harness.expect((variants.len() + 1) * measurements);
    let rows = Lineitem::generate(harness.setup.scale);
    let mut race = |name: &str, runner: &mut dyn Runner| {
        let rows = rows.len();
        measure(name, rows, &mut |plan| {
            let label = format!("{name}, {} rows, {} queries a snapshot", plan.working_set, plan.sharing);
            harness.measure(&label, || runner.run(harness, plan))
        })
    };
    for variant in variants {
        if harness.is_stopped() {
            return Ok(());
        }
        race(&variant.name(), &mut *serial::load(variant, &rows)?)?;
    }
    if harness.is_stopped() {
        return Ok(());
    }
    race(OURS, &mut ours::Ours::load(harness, &rows)?)
}
