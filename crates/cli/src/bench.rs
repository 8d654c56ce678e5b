//! `ankerdb bench`

mod ch;
mod long_reader;
mod options;
mod recovery;
mod smallbank;
mod tpcc;
mod ycsb;

use crate::engine::EngineOption;
use ankerdb_engine::{Error, Isolation, Result};
use ankerdb_measure::machine::Machine;
use ankerdb_workload::htap::bench;
use ankerdb_workload::htap::config::{HtapConfig, default_threads, parse_access, parse_isolation};
use ankerdb_workload::htap::report::HtapReport;
use ankerdb_workload::tpcc::input::Access;
use clap::{Args, Subcommand};
use options::{print_or_write, watched};
use std::path::PathBuf;

/// The benchmarks.
#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// Transactions and analytics side by side: what each costs the other.
    ///
    /// Loads TPC-C, then runs rounds of short phases: analytics alone, both streams, transactions
    /// beside threads that only burn CPU, snapshots at full speed, own tables against in-memory
    /// tables of the query engine, and serializable against read uncommitted.
    ///
    /// Prints the ratios with their targets. Ctrl-C ends the run and prints what was measured so
    /// far.
    #[command(verbatim_doc_comment)]
    Htap(HtapOptions),
    /// CH-benCHmark: TPC-C's transactions beside TPC-H's 22 queries over the same tables.
    ///
    /// Loads TPC-C with suppliers, nations and regions, then runs rounds of phases: queries alone, both,
    /// transactions beside threads that only burn CPU, and transactions alone. At the end answers
    /// are compared with an independent evaluation of the same snapshots, beside transactions.
    ///
    /// A wrong answer fails the run. Ctrl-C ends it and prints what was measured so far.
    #[command(verbatim_doc_comment)]
    Ch(ch::ChArguments),
    /// TPC-C's transactions at full speed, and its consistency conditions.
    Tpcc(tpcc::TpccOptions),
    /// YCSB: reads and updates by key, ten to a transaction.
    Ycsb(ycsb::YcsbOptions),
    /// Smallbank: six short transactions over savings and checking accounts.
    Smallbank(smallbank::SmallbankOptions),
    /// TPC-C while a transaction or snapshot stays open: throughput and memory of versions over time.
    LongReader(long_reader::LongReaderOptions),
    /// How fast a database starts again, from its log and from a checkpoint's images.
    Recovery(recovery::RecoveryOptions),
}

impl Benchmark {
    /// Runs it.
    pub(crate) fn run(&self) -> Result<()> {
        match self {
            Benchmark::Htap(options) => run(options),
            Benchmark::Ch(options) => ch::run(options),
            Benchmark::Tpcc(options) => tpcc::run(options),
            Benchmark::Ycsb(options) => ycsb::run(options),
            Benchmark::Smallbank(options) => smallbank::run(options),
            Benchmark::LongReader(options) => long_reader::run(options),
            Benchmark::Recovery(options) => recovery::run(options),
        }
    }
}

/// Options of `bench htap`.
#[derive(Args)]
pub(crate) struct HtapOptions {
    /// TPC-C warehouses to load (about 200 MiB each)
    #[arg(long, value_name = "W", default_value_t = 4)]
    warehouses: u32,
    /// Threads that run transactions
    #[arg(long, value_name = "N", default_value_t = default_threads())]
    oltp: usize,
    /// Threads that run analytical queries
    #[arg(long, value_name = "M", default_value_t = default_threads())]
    olap: usize,
    /// Seconds of measuring, all phases together; loading comes on top
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u64,
    /// Isolation level of the transactions: serializable, repeatable-read, read-committed, read-uncommitted; the
    /// engine's if not given
    #[arg(long, value_name = "L", value_parser = isolation)]
    isolation: Option<Isolation>,
    #[command(flatten)]
    engine: EngineOption,
    /// Where transactions go: uniform, or skewed (half of them to five districts)
    #[arg(long, value_name = "PATTERN", default_value = "uniform", value_parser = access)]
    access: Access,
    /// Write the result here as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Rounds of all phases
    #[arg(long, value_name = "R", default_value_t = 3)]
    rounds: u32,
    /// Seed of the data and the inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn isolation(name: &str) -> std::result::Result<Isolation, String> {
    parse_isolation(name).map_err(|error| error.to_string())
}

fn access(name: &str) -> std::result::Result<Access, String> {
    parse_access(name).map_err(|error| error.to_string())
}

impl HtapOptions {
    fn config(&self) -> HtapConfig {
        HtapConfig {
            warehouses: self.warehouses,
            oltp_threads: self.oltp,
            olap_threads: self.olap,
            seconds: self.seconds,
            isolation: self.isolation.unwrap_or(self.engine.engine.isolation()),
            engine: self.engine.engine,
            access: self.access,
            json: self.json.clone(),
            rounds: self.rounds,
            seed: self.seed,
        }
    }
}

/// Runs `bench htap`.
fn run(options: &HtapOptions) -> Result<()> {
    let config = options.config();
    let machine = Machine::detect();
    let warnings = config.check(&machine)?;
    let title = format!("bench htap: {}", HtapReport::title(&config));
    let report = watched(&title, &warnings, round_label, |watch| {
        bench::run(&config, &machine, warnings.clone(), watch)
    })?;
    print_or_write(&report.text(), config.json.as_deref(), |path| report.write_json(path))?;
    report.failure().map_or(Ok(()), |message| Err(Error::internal(message)))
}

fn round_label(round: u32) -> String {
    if round == 0 { "warm-up: ".to_owned() } else { format!("round {round}: ") }
}
