//! `bench tpcc`: TPC-C's transactions at full speed.

use super::client::{Client, ClientSetup, Done, Workload};
use super::config::{BenchConfig, MemoryNeed, at_least_one, at_most};
use super::report::{About, Report};
use super::rounds::{Event, Rounds, Watch};
use crate::htap::config::BYTES_PER_WAREHOUSE;
use crate::tpcc::check::{CONDITIONS, check};
use crate::tpcc::input::{Access, Input, Inputs};
use crate::tpcc::load::{LoadOptions, load};
use crate::tpcc::mix::Mix;
use crate::tpcc::schema::Tables;
use crate::tpcc::transactions::{self, Outcome};
use ankerdb_engine::{Database, Result};
use ankerdb_measure::machine::Machine;
use serde_json::json;
use std::sync::Arc;

/// Memory that the program takes besides the data.
const BASE_BYTES: u64 = 256 << 20;
/// The memory that one thread adds in a second: new orders with their lines and index entries.
const GROWTH_BYTES_PER_THREAD_SECOND: u64 = 32 << 20;

/// One run of `bench tpcc`.
#[derive(Clone, Debug)]
pub struct TpccConfig {
    /// Threads, time, isolation level.
    pub bench: BenchConfig,
    /// Warehouses.
    pub warehouses: u32,
    /// Which transactions.
    pub mix: Mix,
    /// The access pattern.
    pub access: Access,
}

impl TpccConfig {
    /// Refuses options that cannot work; returns warnings about those that work badly.
    pub fn check(&self, machine: &Machine) -> Result<Vec<String>> {
        at_least_one("--warehouses", u64::from(self.warehouses))?;
        at_most("--warehouses", u64::from(self.warehouses), 1_000_000)?;
        // Threads without a core of their own add nothing.
        let growth = (self.bench.threads.min(machine.cores) as u64)
            .saturating_mul(self.bench.seconds)
            .saturating_mul(GROWTH_BYTES_PER_THREAD_SECOND);
        let need = MemoryNeed {
            option: "--warehouses",
            count: u64::from(self.warehouses),
            bytes_each: BYTES_PER_WAREHOUSE,
            bytes_besides: BASE_BYTES.saturating_add(growth),
        };
        let mut warnings = self.bench.check(machine, need)?;
        if self.access == Access::Home && self.bench.threads > self.warehouses as usize {
            let TpccConfig { warehouses, bench: BenchConfig { threads, .. }, .. } = self;
            warnings.push(format!("{threads} threads share {warehouses} home warehouses: they contend"));
        }
        Ok(warnings)
    }

    /// One line about the run.
    pub fn title(&self) -> String {
        let TpccConfig { warehouses, mix, access, .. } = self;
        format!(
            "{warehouses} warehouses, {} mix, {} access, {}",
            mix.name(),
            access.name(),
            Report::title(&self.bench)
        )
    }
}

/// TPC-C over loaded tables, or over the first warehouses of them.
pub struct TpccWorkload {
    database: Database,
    tables: Arc<Tables>,
    warehouses: u32,
    mix: Mix,
    access: Access,
    kinds: Vec<&'static str>,
}

impl TpccWorkload {
    /// Over the first `warehouses` of those that are loaded.
    pub fn new(
        database: &Database,
        tables: &Arc<Tables>,
        warehouses: u32,
        mix: Mix,
        access: Access,
    ) -> TpccWorkload {
        TpccWorkload {
            database: database.clone(),
            tables: tables.clone(),
            warehouses,
            mix,
            access,
            kinds: mix.kinds().iter().map(|kind| kind.name()).collect(),
        }
    }
}

impl Workload for TpccWorkload {
    fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }

    fn client(&self, setup: &ClientSetup) -> Result<Box<dyn Client>> {
        let ClientSetup { number, seed, isolation } = *setup;
        let mut inputs = Inputs::of_mix(seed, number as u64, self.warehouses as i32, self.access, self.mix);
        let input = inputs.next_input();
        let client = transactions::Client::new(&self.database, self.tables.clone(), isolation);
        Ok(Box::new(TpccClient { client, inputs, input }))
    }
}

struct TpccClient {
    client: transactions::Client,
    inputs: Inputs,
    input: Input,
}

impl Client for TpccClient {
    fn draw(&mut self) -> usize {
        self.input = self.inputs.next_input();
        self.input.kind() as usize
    }

    fn run(&mut self, now: i64) -> Result<Done> {
        Ok(match self.client.run_once(&self.input, now)? {
            Outcome::NewOrderRolledBack => Done::RolledBack,
            Outcome::Delivery(output) if output.skipped() > 0 => Done::Skipped(output.skipped() as u32),
            _ => Done::Committed,
        })
    }
}

/// Loads, measures, checks. The configuration must have passed [`TpccConfig::check`]; its warnings go into the
/// report. A report is returned even when the user stops the run; 57014 if nothing was measured until then.
pub fn run(
    config: &TpccConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
) -> Result<Report> {
    let database = Database::with(config.bench.engine);
    let options = LoadOptions::new(config.warehouses as i32, config.bench.seed);
    let tables = Arc::new(load(&database, &options, &|done, total| watch.loading(done, total))?);
    let workload = TpccWorkload::new(&database, &tables, config.warehouses, config.mix, config.access);
    let narrow = TpccWorkload::new(&database, &tables, 1, config.mix, config.access);
    let rounds = Rounds::new(&config.bench, &workload, Some(&narrow), watch);
    let phases = rounds.run()?;
    watch.tell(Event::Checking);
    let violations = check(&database, &tables)?.iter().map(ToString::to_string).collect();
    let about = About {
        benchmark: "tpcc",
        own: json!({
            "warehouses": config.warehouses,
            "mix": config.mix.name(),
            "access": config.access.name(),
        }),
        machine: machine.clone(),
        warnings,
        conditions: CONDITIONS,
        violations: Some(violations),
    };
    Ok(Report::new(&rounds, about, &phases))
}
