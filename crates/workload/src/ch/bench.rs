//! The benchmark's steps: load, rounds of phases, answers that are evaluated a second time, consistency check.

use super::analyst::{ChAnalyst, ChAnswers};
use super::clients::ChWorld;
use super::config::{ChConfig, SAMPLE};
use super::load::load as load_added;
use super::phases::{ChPhases, ClientsBeside, SideBySide};
use super::queries::{CH_QUERIES, ChQuery};
use super::report::ChReport;
use crate::htap::marker::Marker;
use crate::htap::phase::Measured;
use crate::tpcc::check::{Violation, check};
use crate::tpcc::load::{LoadOptions, load};
use crate::watch::{Event, Watch};
use ankerdb_engine::{Database, Result};
use ankerdb_measure::machine::Machine;
use ankerdb_sql::SqlOptions;
use std::sync::Arc;
use std::time::Duration;

/// The texts of the queries, in the order of their numbers.
pub type QueryList = [ChQuery; CH_QUERIES.len()];

/// The results of one round.
pub(super) struct ChRound {
    pub idle: Measured<ChAnswers>,
    pub hybrid: Measured<SideBySide>,
    pub control: Measured<ClientsBeside>,
    pub alone: Measured<ClientsBeside>,
}

/// Everything that was measured.
#[derive(Default)]
pub(super) struct ChMeasurements {
    pub rounds: Vec<ChRound>,
    /// `None` if the run was stopped before.
    pub evaluated: Option<SideBySide>,
    /// `None` if the run was stopped before.
    pub violations: Option<Vec<Violation>>,
}

/// Runs the benchmark. The configuration must have passed [`ChConfig::check`]; its warnings go into the report. A report is
/// returned even when the user stops the run, with what was measured until then.
///
/// # Errors
/// 57014 if the user stops it before the data was loaded; the database's.
pub fn run(
    config: &ChConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
) -> Result<ChReport> {
    run_queries(config, machine, warnings, watch, &CH_QUERIES)
}

/// Runs the benchmark with other texts of the queries: the control of the comparison, which must find that they ask something else.
///
/// # Errors
/// Those of [`run`], and the planner's.
pub fn run_queries(
    config: &ChConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
    queries: &QueryList,
) -> Result<ChReport> {
    let mut phases = prepare(config, machine, watch, queries)?;
    let mut measurements = ChMeasurements::default();
    let round_time = Duration::from_secs(config.seconds) / config.rounds;
    while !watch.is_stopped() && measurements.rounds.len() < config.rounds as usize {
        phases.round = measurements.rounds.len() as u32 + 1;
        let round = round(&mut phases, round_time)?;
        // A round that the user cut short is not comparable.
        if !watch.is_stopped() || measurements.rounds.is_empty() {
            measurements.rounds.push(round);
        }
    }
    if !watch.is_stopped() {
        let evaluated = phases.evaluated(&to_evaluate(config))?.value;
        measurements.evaluated = (!watch.is_stopped()).then_some(evaluated);
    }
    watch.tell(Event::Checking);
    measurements.violations = Some(check(&phases.world.database, &phases.world.tables)?);
    Ok(ChReport::new(config, machine, warnings, watch.is_stopped(), (queries, phases.log), &measurements))
}

/// All queries, or some of them by the seed; in a random order.
fn to_evaluate(config: &ChConfig) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(config.seed);
    let mut queries: Vec<usize> = (0..CH_QUERIES.len()).collect();
    random.shuffle(&mut queries);
    queries.truncate(if config.check_all { CH_QUERIES.len() } else { SAMPLE });
    queries
}

fn prepare<'a>(
    config: &'a ChConfig,
    machine: &Machine,
    watch: &'a Watch<'a>,
    queries: &QueryList,
) -> Result<ChPhases<'a>> {
    let database = Database::new();
    let options = LoadOptions::new(config.warehouses as i32, config.seed);
    let tables = Arc::new(load(&database, &options, &|done, total| watch.loading(done, total))?);
    let added = Arc::new(load_added(&database, config.seed)?);
    let marker = Arc::new(Marker::create(&database)?);
    let ChConfig { warehouses, access, olap_threads, refresh_every, .. } = *config;
    let world = ChWorld { database, tables, marker, warehouses, access };
    // With snapshots of their own, queries come one after the other, each on all threads; else each thread has its own.
    let streams = if refresh_every.is_some() { olap_threads } else { 1 };
    let memory = (machine.memory_bytes / 4).max(1 << 30) as usize;
    let options = SqlOptions { olap_threads: olap_threads / streams, memory_limit_bytes: memory / streams };
    let analyst = |_| ChAnalyst::new(&world, &added, queries, options.clone());
    let analysts = (0..streams).map(analyst).collect::<Result<_>>()?;
    Ok(ChPhases {
        config,
        world,
        analysts,
        queries: queries.len(),
        watch,
        log: Vec::new(),
        round: 0,
        streams: 0,
        duty: None,
    })
}

/// One round: 25% queries alone, 35% both, 20% each the control and transactions alone. In even rounds the latter come before
/// the hybrid phase, so that neither is always the one with more data; the control stands in for the queries of the round before
/// then.
fn round(phases: &mut ChPhases<'_>, time: Duration) -> Result<ChRound> {
    let share = |percent: u32| time * percent / 100;
    let idle = phases.idle(share(25))?;
    if phases.round % 2 == 1 {
        let hybrid = phases.hybrid(share(35))?;
        let control = phases.control(share(20))?;
        let alone = phases.alone(share(20))?;
        return Ok(ChRound { idle, hybrid, control, alone });
    }
    let alone = phases.alone(share(20))?;
    let control = phases.control(share(20))?;
    let hybrid = phases.hybrid(share(35))?;
    Ok(ChRound { idle, hybrid, control, alone })
}
