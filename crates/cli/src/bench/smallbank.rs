//! `ankerdb bench smallbank`

use super::options::{BenchOptions, perform};
use ankerdb_engine::Result;
use ankerdb_measure::machine::Machine;
use ankerdb_workload::bench::smallbank::{self, SmallbankConfig};
use ankerdb_workload::watch::Watch;
use clap::Args;

/// Options of `bench smallbank`.
#[derive(Args)]
pub(crate) struct SmallbankOptions {
    /// Customers to load, with two accounts each
    #[arg(long, value_name = "C", default_value_t = 100_000)]
    customers: u64,
    /// Skew of the customers: theta of Zipf's law, from 0 (all alike) to 2
    #[arg(long, value_name = "THETA", default_value_t = 0.0)]
    zipf: f64,
    #[command(flatten)]
    bench: BenchOptions,
}

/// Runs `bench smallbank`.
pub(super) fn run(options: &SmallbankOptions) -> Result<()> {
    let config =
        SmallbankConfig { bench: options.bench.config(), customers: options.customers, zipf: options.zipf };
    let machine = Machine::detect();
    let warnings = config.check(&machine)?;
    let title = format!("bench smallbank: {}", config.title());
    let run = |watch: &Watch<'_>| smallbank::run(&config, &machine, warnings.clone(), watch);
    perform(&config.bench, &title, &warnings, run)
}
