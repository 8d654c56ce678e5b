//! `ankerdb bench tpcc`

use super::options::{BenchOptions, perform};
use ankerdb_engine::Result;
use ankerdb_measure::machine::Machine;
use ankerdb_workload::bench::config::{BenchConfig, parse_name};
use ankerdb_workload::bench::tpcc::{self, TpccConfig};
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::tpcc::mix::Mix;
use ankerdb_workload::watch::Watch;
use clap::Args;
use std::path::PathBuf;

/// Options of `bench tpcc`.
#[derive(Args)]
pub(crate) struct TpccOptions {
    /// Warehouses to load (about 200 MiB each)
    #[arg(long, value_name = "W", default_value_t = 4)]
    warehouses: u32,
    /// Transactions: full (all five, 45/43/4/4/4), or paper (New-Order, Payment, Order-Status alike)
    #[arg(long, value_name = "MIX", default_value = "full", value_parser = mix)]
    mix: Mix,
    /// Where transactions go: home (thread i to warehouse 1 + i mod W), uniform, or skewed (half of them to
    /// five districts)
    #[arg(long, value_name = "PATTERN", default_value = "home", value_parser = access)]
    access: Access,
    /// Also run on a database that is kept on disk, in a new folder there: with clients that wait for it, and with such that
    /// do not
    #[arg(long, value_name = "DIR")]
    durable: Option<PathBuf>,
    /// With --durable: sessions that each thread serves; it goes on with one whose last transaction is on disk
    #[arg(long, value_name = "N", default_value_t = 1)]
    sessions: u32,
    #[command(flatten)]
    bench: BenchOptions,
}

fn mix(name: &str) -> std::result::Result<Mix, String> {
    parse_name("mix", &Mix::ALL, Mix::name, name).map_err(|error| error.to_string())
}

pub(super) fn access(name: &str) -> std::result::Result<Access, String> {
    let all = [Access::Home, Access::Uniform, Access::Skewed];
    parse_name("access pattern", &all, Access::name, name).map_err(|error| error.to_string())
}

impl TpccOptions {
    /// With the common options as the benchmark reads them.
    pub(crate) fn config(&self, read: impl FnOnce(&BenchOptions) -> BenchConfig) -> TpccConfig {
        TpccConfig {
            bench: read(&self.bench),
            warehouses: self.warehouses,
            mix: self.mix,
            access: self.access,
            durable: self.durable.clone(),
            sessions: self.sessions,
        }
    }
}

/// Runs `bench tpcc`.
pub(super) fn run(options: &TpccOptions) -> Result<()> {
    let config = options.config(BenchOptions::config);
    let machine = Machine::detect();
    let warnings = config.check(&machine)?;
    let title = format!("bench tpcc: {}", config.title());
    let run = |watch: &Watch<'_>| tpcc::run(&config, &machine, warnings.clone(), watch);
    perform(&config.bench, &title, &warnings, run)
}
