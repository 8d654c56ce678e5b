//! `ankerdb bench ycsb`

use super::options::{BenchOptions, perform};
use ankerdb_engine::Result;
use ankerdb_measure::machine::Machine;
use ankerdb_workload::bench::ycsb::{self, Distribution, YcsbConfig};
use ankerdb_workload::watch::Watch;
use clap::Args;

/// Options of `bench ycsb`.
#[derive(Args)]
pub(crate) struct YcsbOptions {
    /// Rows to load
    #[arg(long, value_name = "ROWS", default_value_t = 1_000_000)]
    rows: u64,
    /// Fields of a row: 1 as evaluations of transactional engines have it, 10 in the original
    #[arg(long, value_name = "F", default_value_t = 1)]
    fields: u64,
    /// Bytes of a field
    #[arg(long, value_name = "B", default_value_t = 100)]
    field_bytes: u64,
    /// Of 100 operations so many read; the others overwrite a field
    #[arg(long, value_name = "PERCENT", default_value_t = 50)]
    reads: u32,
    /// Keys: uniform, or zipf:THETA with THETA from 0 to 2
    #[arg(long, value_name = "D", default_value = "uniform", value_parser = distribution)]
    distribution: Distribution,
    #[command(flatten)]
    bench: BenchOptions,
}

fn distribution(text: &str) -> std::result::Result<Distribution, String> {
    Distribution::parse(text).map_err(|error| error.to_string())
}

/// Runs `bench ycsb`.
pub(super) fn run(options: &YcsbOptions) -> Result<()> {
    let config = YcsbConfig {
        bench: options.bench.config(),
        rows: options.rows,
        fields: options.fields,
        field_bytes: options.field_bytes,
        reads_percent: options.reads,
        distribution: options.distribution,
    };
    let machine = Machine::detect();
    let warnings = config.check(&machine)?;
    let title = format!("bench ycsb: {}", config.title());
    let run = |watch: &Watch<'_>| ycsb::run(&config, &machine, warnings.clone(), watch);
    perform(&config.bench, &title, &warnings, run)
}
