//! `ankerdb bench ch`

use super::options::{print_or_write, watched};
use super::tpcc::access;
use super::{isolation, round_label};
use ankerdb_engine::{Error, Isolation, Result};
use ankerdb_measure::machine::Machine;
use ankerdb_workload::ch::bench;
use ankerdb_workload::ch::config::ChConfig;
use ankerdb_workload::htap::config::default_threads;
use ankerdb_workload::tpcc::input::Access;
use clap::Args;
use std::path::PathBuf;

/// OLAP threads of the HyPer paper's setup, with one OLTP thread.
const HYPER_OLAP_THREADS: usize = 3;

/// Options of `bench ch`.
#[derive(Args)]
pub(crate) struct ChArguments {
    /// TPC-C warehouses to load (about 200 MiB each)
    #[arg(long, value_name = "W", default_value_t = 4)]
    warehouses: u32,
    /// Threads that run transactions [default: half of the cores, 1 with --refresh-every]
    #[arg(long, value_name = "N", visible_alias = "oltp")]
    oltp_threads: Option<usize>,
    /// Threads that run queries: all on one query after the other [default: half of the cores]; with --refresh-every one
    /// on each [default: 3]
    #[arg(long, value_name = "M", visible_alias = "olap")]
    olap_threads: Option<usize>,
    /// Let all queries share a snapshot that is refreshed after every T transactions, as the HyPer paper does with T =
    /// 200000; without it, each query has a snapshot of its own
    #[arg(long, value_name = "T")]
    refresh_every: Option<u64>,
    /// Compare the answers of all 22 queries with an independent evaluation of the same snapshot, after all rounds; else
    /// of six
    #[arg(long)]
    check: bool,
    /// Seconds of measuring, all phases together; loading and the comparison come on top
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u64,
    /// Rounds of all phases
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// Isolation level of the transactions: serializable, repeatable-read
    #[arg(long, value_name = "L", default_value = "serializable", value_parser = isolation)]
    isolation: Isolation,
    /// Where transactions go: home (thread i to warehouse 1 + i mod W), uniform, or skewed (half of them to
    /// five districts)
    #[arg(long, value_name = "PATTERN", default_value = "home", value_parser = access)]
    access: Access,
    /// Write the result here as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the data and the inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl ChArguments {
    fn config(&self) -> ChConfig {
        let (oltp, olap) = match self.refresh_every {
            None => (default_threads(), default_threads()),
            Some(_) => (1, HYPER_OLAP_THREADS),
        };
        ChConfig {
            warehouses: self.warehouses,
            oltp_threads: self.oltp_threads.unwrap_or(oltp),
            olap_threads: self.olap_threads.unwrap_or(olap),
            refresh_every: self.refresh_every,
            check_all: self.check,
            seconds: self.seconds,
            rounds: self.rounds,
            isolation: self.isolation,
            access: self.access,
            seed: self.seed,
            json: self.json.clone(),
        }
    }
}

/// Runs `bench ch`.
pub(super) fn run(options: &ChArguments) -> Result<()> {
    let config = options.config();
    let machine = Machine::detect();
    let warnings = config.check(&machine)?;
    let title = format!("bench ch: {}", config.title());
    let report = watched(&title, &warnings, round_label, |watch| {
        bench::run(&config, &machine, warnings.clone(), watch)
    })?;
    print_or_write(&report.text(), config.json.as_deref(), |path| report.write_json(path))?;
    report.failure().map_or(Ok(()), |message| Err(Error::internal(message)))
}
