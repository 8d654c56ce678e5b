//! `ankerdb bench long-reader`

use super::options::perform;
use super::tpcc::TpccOptions;
use ankerdb_engine::Result;
use ankerdb_measure::machine::Machine;
use ankerdb_workload::bench::config::parse_name;
use ankerdb_workload::bench::long_reader::{self, LongReader, LongReaderConfig};
use ankerdb_workload::watch::Watch;
use clap::Args;

/// Options of `bench long-reader`.
#[derive(Args)]
pub(crate) struct LongReaderOptions {
    /// What is held open, one after the other: snapshot, transaction
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = reader,
          default_value = "snapshot,transaction")]
    reader: Vec<LongReader>,
    #[command(flatten)]
    tpcc: TpccOptions,
}

fn reader(name: &str) -> std::result::Result<LongReader, String> {
    parse_name("reader", &LongReader::ALL, LongReader::name, name).map_err(|error| error.to_string())
}

/// Runs `bench long-reader`.
pub(super) fn run(options: &LongReaderOptions) -> Result<()> {
    let tpcc = options.tpcc.config(|bench| bench.config_or(15, 2));
    let config = LongReaderConfig { tpcc, readers: options.reader.clone() };
    let machine = Machine::detect();
    let warnings = config.check(&machine)?;
    let title = format!("bench long-reader: {}", config.title());
    let run = |watch: &Watch<'_>| long_reader::run(&config, &machine, warnings.clone(), watch);
    perform(&config.tpcc.bench, &title, &warnings, run)
}
