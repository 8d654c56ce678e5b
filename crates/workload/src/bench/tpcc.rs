//! `bench tpcc`: TPC-C's transactions at full speed.

use super::client::{Client, ClientSetup, Done, Workload};
use super::compare::variants;
use super::config::{BenchConfig, MemoryNeed, at_least_one, at_most};
use super::own_folder::{OwnFolder, check_parent};
use super::report::{About, BenchReport};
use super::rounds::{Ratio, Rounds, Variant};
use crate::htap::config::BYTES_PER_WAREHOUSE;
use crate::tpcc::check::{CONDITIONS, check};
use crate::tpcc::input::{Access, Input, Inputs};
use crate::tpcc::load::{LoadOptions, load, now};
use crate::tpcc::mix::Mix;
use crate::tpcc::schema::TpccTables;
use crate::tpcc::transactions::{self, Outcome};
use crate::watch::{Event, Watch};
use ankerdb_engine::{Database, Durability, Error, NoTexts, Result, Timestamp};
use ankerdb_measure::machine::Machine;
use serde_json::json;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What of the throughput in memory is to be left where each of many clients waits for the disk.
const DURABLE_KEPT: f64 = 0.8;
/// Where none waits.
const HASTY_KEPT: f64 = 0.95;
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
    /// Where a second database is kept, in a folder of its own that goes with the run, to be compared with the one in memory.
    pub durable: Option<PathBuf>,
    /// Sessions that each thread serves there: a thread goes on with one whose last transaction is on disk while the others wait. With
    /// more than one, a transaction's latency does not have the time until it is on disk.
    pub sessions: u32,
}

impl TpccConfig {
    /// Refuses options that cannot work; returns warnings about those that work badly.
    ///
    /// # Errors
    /// 22023, saying what would be accepted.
    pub fn check(&self, machine: &Machine) -> Result<Vec<String>> {
        at_least_one("--warehouses", u64::from(self.warehouses))?;
        at_most("--warehouses", u64::from(self.warehouses), 1_000_000)?;
        at_least_one("--sessions", u64::from(self.sessions))?;
        self.durable.iter().try_for_each(|folder| check_parent("--durable", folder))?;
        // Threads without a core of their own add nothing.
        let growth = (self.bench.threads.min(machine.cores) as u64)
            .saturating_mul(self.bench.seconds)
            .saturating_mul(GROWTH_BYTES_PER_THREAD_SECOND);
        let need = MemoryNeed {
            option: "--warehouses",
            count: u64::from(self.warehouses),
            bytes_each: BYTES_PER_WAREHOUSE * if self.durable.is_some() { 2 } else { 1 },
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
            BenchReport::title(&self.bench)
        )
    }
}

/// TPC-C over loaded tables, or over the first warehouses of them.
pub struct TpccWorkload {
    database: Database,
    tables: Arc<TpccTables>,
    warehouses: u32,
    mix: Mix,
    access: Access,
    /// How many sessions a client serves, each of which waits until its last transaction is on disk; `None`: none does.
    sessions: Option<u32>,
    kinds: Vec<&'static str>,
}

impl TpccWorkload {
    /// Over the first `warehouses` of those that are loaded.
    pub fn new(
        database: &Database,
        tables: &Arc<TpccTables>,
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
            sessions: Some(1),
            kinds: mix.kinds().iter().map(|kind| kind.name()).collect(),
        }
    }

    /// Clients serve so many sessions each, each of which waits until its last transaction is on disk; `None`: none does.
    pub fn serving(self, sessions: Option<u32>) -> TpccWorkload {
        TpccWorkload { sessions, ..self }
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
        let mut client = transactions::Terminal::new(&self.database, self.tables.clone(), isolation);
        client.set_waits_for_log(self.sessions == Some(1));
        let sessions = self.sessions.filter(|sessions| *sessions > 1).map(|sessions| WaitingSessions {
            database: self.database.clone(),
            sessions: sessions as usize,
            marks: VecDeque::with_capacity(sessions as usize),
        });
        Ok(Box::new(TpccClient { client, inputs, input, sessions }))
    }
}

struct TpccClient {
    client: transactions::Terminal,
    inputs: Inputs,
    input: Input,
    sessions: Option<WaitingSessions>,
}

/// The sessions that a client serves, and what they wait for.
struct WaitingSessions {
    database: Database,
    sessions: usize,
    /// Of each session that waits: up to where the log has to be on disk. The first one has waited longest.
    marks: VecDeque<Timestamp>,
}

impl WaitingSessions {
    /// Returns when some session waits no more.
    fn await_one(&mut self) -> Result<()> {
        if self.marks.len() == self.sessions
            && let Some(first) = self.marks.pop_front()
        {
            self.database.wait_until_durable(first)?;
        }
        while let Some(first) = self.marks.front()
            && self.database.is_durable(*first)
        {
            self.marks.pop_front();
        }
        Ok(())
    }

    /// A session's transaction has been completed.
    fn note_completed(&mut self) {
        self.marks.push_back(self.database.visible());
    }
}

impl Client for TpccClient {
    fn draw(&mut self) -> usize {
        self.input = self.inputs.next_input();
        self.input.kind() as usize
    }

    fn run(&mut self, now: i64) -> Result<Done> {
        if let Some(sessions) = &mut self.sessions {
            sessions.await_one()?;
        }
        let outcome = self.client.run_once(&self.input, now)?;
        if let Some(sessions) = &mut self.sessions {
            sessions.note_completed();
        }
        Ok(match outcome {
            Outcome::NewOrderRolledBack => Done::RolledBack,
            Outcome::Delivery(output) if output.skipped() > 0 => Done::Skipped(output.skipped() as u32),
            _ => Done::Committed,
        })
    }
}

/// Loads, measures, checks. The configuration must have passed [`TpccConfig::check`]; its warnings go into the report. A report
/// is returned even when the user stops the run.
///
/// # Errors
/// 57014 if the user stops it before anything was measured; the database's.
pub fn run(
    config: &TpccConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
) -> Result<BenchReport> {
    let database = Database::with(config.bench.engine);
    let options = LoadOptions::new(config.warehouses as i32, config.bench.seed);
    let tables = Arc::new(load(&database, &options, &|done, total| watch.loading(done, total))?);
    let workload = TpccWorkload::new(&database, &tables, config.warehouses, config.mix, config.access);
    let narrow = TpccWorkload::new(&database, &tables, 1, config.mix, config.access);
    let kept = config.durable.as_ref().map(|folder| Kept::new(config, folder, watch)).transpose()?;
    let (mut variants, mut ratios) = variants(&config.bench, &workload, Some(&narrow));
    if let Some(kept) = &kept {
        kept.add_to(&config.bench, &mut variants, &mut ratios);
    }
    let rounds = Rounds::of(&config.bench, variants, ratios, watch);
    let phases = rounds.run()?;
    watch.tell(Event::Checking);
    let mut found = check(&database, &tables)?;
    if let Some(kept) = &kept {
        found.extend(check(&kept.database, &kept.tables)?);
    }
    let violations = found.iter().map(ToString::to_string).collect();
    let log = kept.as_ref().map(|kept| kept.log_of_new_orders(config)).transpose()?;
    let about = About {
        benchmark: "tpcc",
        own: json!({
            "warehouses": config.warehouses,
            "mix": config.mix.name(),
            "access": config.access.name(),
            "sessions": config.sessions,
            "new_order_log": log.as_ref().map(|log| json!({ "bytes": log.bytes, "lines": log.lines })),
        }),
        machine: machine.clone(),
        warnings,
        conditions: CONDITIONS,
        violations: Some(violations),
    };
    let report = BenchReport::new(&rounds, about, &phases);
    Ok(match log {
        Some(log) => report.with_remark(log.text()),
        None => report,
    })
}

/// New-Orders whose bytes in the log are counted.
const COUNTED_NEW_ORDERS: u64 = 2_000;

/// The database in a folder, and its clients: those that wait for the disk and those that do not.
struct Kept {
    database: Database,
    tables: Arc<TpccTables>,
    waiting: TpccWorkload,
    hasty: TpccWorkload,
    /// Goes last.
    _folder: OwnFolder,
}

/// What New-Orders write into the log.
struct NewOrderLog {
    /// Of one, the mean.
    bytes: f64,
    /// Lines of one, the mean.
    lines: f64,
}

impl NewOrderLog {
    fn text(&self) -> String {
        format!("a New-Order has {:.0} bytes in the log, with {:.1} lines", self.bytes, self.lines)
    }
}

impl Kept {
    fn new(config: &TpccConfig, folder: &Path, watch: &Watch<'_>) -> Result<Kept> {
        let folder = OwnFolder::new(folder, "tpcc");
        let durability = Durability::in_folder(folder.path());
        let database = Database::open_in(config.bench.engine, &durability, &NoTexts)?;
        let options = LoadOptions::new(config.warehouses as i32, config.bench.seed);
        let tables = Arc::new(load(&database, &options, &|done, total| watch.loading(done, total))?);
        let workload = || TpccWorkload::new(&database, &tables, config.warehouses, config.mix, config.access);
        let (waiting, hasty) = (workload().serving(Some(config.sessions)), workload().serving(None));
        Ok(Kept { database, tables, waiting, hasty, _folder: folder })
    }

    /// The variants in the folder, and their ratios to the first one.
    fn add_to<'a>(&'a self, bench: &BenchConfig, variants: &mut Vec<Variant<'a>>, ratios: &mut Vec<Ratio>) {
        let BenchConfig { threads, isolation, .. } = *bench;
        let kept: [(&str, &'static str, &dyn Workload, f64); 2] = [
            ("durable", "durable to in memory", &self.waiting, DURABLE_KEPT),
            ("durable, not waiting", "durable without waiting to in memory", &self.hasty, HASTY_KEPT),
        ];
        for (name, ratio, workload, target) in kept {
            ratios.push(Ratio { name: ratio, over: variants.len(), under: 0, target });
            variants.push(Variant {
                name: format!("{name}, {threads} threads"),
                threads,
                isolation,
                workload,
            });
        }
    }

    /// Lets one client run New-Orders alone.
    fn log_of_new_orders(&self, config: &TpccConfig) -> Result<NewOrderLog> {
        let seed = config.bench.seed.wrapping_add(1);
        let mut inputs = Inputs::of_mix(seed, 0, config.warehouses as i32, config.access, config.mix);
        let mut client =
            transactions::Terminal::new(&self.database, self.tables.clone(), config.bench.isolation);
        client.set_waits_for_log(false);
        let before = self.log_bytes_when_durable()?;
        let (mut orders, mut lines) = (0, 0);
        while orders < COUNTED_NEW_ORDERS {
            let input = inputs.next_input();
            let Input::NewOrder(order) = &input else { continue };
            if let Outcome::NewOrder(_) = client.run_once(&input, now())? {
                orders += 1;
                lines += order.lines.len();
            }
        }
        let bytes = self.log_bytes_when_durable()? - before;
        let each = |count: f64| count / COUNTED_NEW_ORDERS as f64;
        Ok(NewOrderLog { bytes: each(bytes as f64), lines: each(lines as f64) })
    }

    /// Bytes of log, when it has all commits.
    fn log_bytes_when_durable(&self) -> Result<u64> {
        loop {
            let state = self.database.durability_state();
            let state = state.ok_or_else(|| Error::internal("the database is kept in no folder"))?;
            if state.durable >= state.visible {
                return Ok(state.log_bytes);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
