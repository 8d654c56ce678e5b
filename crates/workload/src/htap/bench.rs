//! The benchmark's steps: load, rounds of phases, consistency check, comparison with READ UNCOMMITTED.

use super::config::HtapConfig;
use super::marker::Marker;
use super::olap::{Analyst, OlapResult};
use super::oltp::{OltpResult, OltpWorld};
use super::phase::Measured;
use super::phases::{Control, Hybrid, Phases, SnapshotReads, StoragePair};
use super::report::HtapReport;
use crate::tpcc::check::{Violation, check};
use crate::tpcc::load::{LoadOptions, load};
use crate::watch::{Event, Watch};
use ankerdb_engine::{Database, Isolation, Result, SqlState};
use ankerdb_measure::machine::Machine;
use ankerdb_sql::{SqlEngine, SqlOptions};
use std::sync::Arc;
use std::time::Duration;

/// Shares of the measuring time. A round has two idle phases; the last two are for the pairs at the end.
struct Shares {
    idle: Duration,
    control: Duration,
    hybrid: Duration,
    frequent: Duration,
    snapshots: Duration,
    memory_tables: Duration,
    alone: Duration,
}

impl Shares {
    /// 2 x 10% + 17% + 20% + 17% + 4% + 8% + 2 x 7%.
    fn of_round(config: &HtapConfig) -> Shares {
        let round = Duration::from_secs(config.seconds) / config.rounds;
        let share = |percent: u32| round * percent / 100;
        Shares {
            idle: share(10),
            control: share(17),
            hybrid: share(20),
            frequent: share(17),
            snapshots: share(4),
            memory_tables: share(8),
            alone: share(7),
        }
    }
}

/// The results of one round.
pub(super) struct Round {
    pub control: Measured<Control>,
    pub idle_before: Measured<OlapResult>,
    pub hybrid: Measured<Hybrid>,
    /// The hybrid phase with 1,000 snapshots per second.
    pub frequent: Measured<Hybrid>,
    pub idle_after: Measured<OlapResult>,
    pub snapshots: Measured<SnapshotReads>,
    pub memory_tables: Measured<Vec<StoragePair>>,
}

/// One pair of serializable and read uncommitted.
pub(super) struct Pair {
    pub serializable: Measured<OltpResult>,
    pub read_uncommitted: Measured<OltpResult>,
}

/// Everything that was measured.
#[derive(Default)]
pub(super) struct Measurements {
    pub rounds: Vec<Round>,
    pub pairs: Vec<Pair>,
    /// Block counters during the hybrid phases.
    pub lent: u64,
    pub materialized: u64,
    /// Snapshots of the whole run.
    pub snapshots: u64,
    /// `None` if the run was stopped before.
    pub violations: Option<Vec<Violation>>,
}

/// Runs the benchmark. The configuration must have passed [`HtapConfig::check`]; its warnings go into the report. A report is
/// returned even when the user stops the run, with what was measured until then.
///
/// # Errors
/// 57014 if the user stops it before the data was loaded; the database's.
pub fn run(
    config: &HtapConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
) -> Result<HtapReport> {
    let database = Database::with(config.engine);
    let mut phases = prepare(config, machine, &database, watch)?;
    let mut measurements = Measurements::default();
    let shares = Shares::of_round(config);
    phases.idle(shares.idle / 4)?;
    while !watch.is_stopped() && measurements.rounds.len() < config.rounds as usize {
        phases.round = measurements.rounds.len() as u32 + 1;
        let round = round(&mut phases, &shares, &mut measurements)?;
        // A round that the user cut short is not comparable.
        if !watch.is_stopped() || measurements.rounds.is_empty() {
            measurements.rounds.push(round);
        }
    }
    finish(&mut phases, &shares, &mut measurements)?;
    measurements.snapshots = database.statistics().snapshots;
    Ok(HtapReport::new(config, machine, warnings, watch.is_stopped(), phases.log, measurements))
}

fn prepare<'a>(
    config: &'a HtapConfig,
    machine: &Machine,
    database: &Database,
    watch: &'a Watch<'a>,
) -> Result<Phases<'a>> {
    let options = LoadOptions::new(config.warehouses as i32, config.seed);
    let tables = load(database, &options, &|done, total| watch.loading(done, total))?;
    let marker = Arc::new(Marker::create(database)?);
    let memory_limit_bytes = (machine.memory_bytes / 4).max(1 << 30) as usize;
    let options = SqlOptions { olap_threads: config.olap_threads, memory_limit_bytes };
    let engine = SqlEngine::new(database.clone(), options)?;
    let analyst = Analyst::new(database, &engine)?;
    let world = OltpWorld { database: database.clone(), tables: Arc::new(tables), marker };
    Ok(Phases { config, world, engine, analyst, watch, log: Vec::new(), round: 0, streams: 0, duty: None })
}

/// One round. In even rounds the control comes before the hybrid phase, so that neither is always the one with more data; it
/// stands in for the queries of the round before then.
fn round(phases: &mut Phases<'_>, shares: &Shares, measurements: &mut Measurements) -> Result<Round> {
    let mut control = None;
    if phases.round.is_multiple_of(2) {
        control = Some(phases.control(shares.control)?);
    }
    let idle_before = phases.idle(shares.idle)?;
    let before = phases.world.database.statistics();
    let (hybrid, frequent) = if phases.round % 2 == 1 {
        let hybrid = phases.hybrid(shares.hybrid)?;
        (hybrid, phases.frequent(shares.frequent)?)
    } else {
        let frequent = phases.frequent(shares.frequent)?;
        (phases.hybrid(shares.hybrid)?, frequent)
    };
    let after = phases.world.database.statistics();
    measurements.lent += after.columns_lent - before.columns_lent;
    measurements.materialized += after.columns_materialized - before.columns_materialized;
    let idle_after = phases.idle(shares.idle)?;
    let memory_tables = phases.memory_tables(shares.memory_tables)?;
    let snapshots = phases.snapshots(shares.snapshots)?;
    let control = match control {
        Some(control) => control,
        None => phases.control(shares.control)?,
    };
    Ok(Round { control, idle_before, hybrid, frequent, idle_after, snapshots, memory_tables })
}

/// The check, then the phases that may break consistency.
fn finish(phases: &mut Phases<'_>, shares: &Shares, measurements: &mut Measurements) -> Result<()> {
    phases.watch.tell(Event::Checking);
    measurements.violations = Some(check(&phases.world.database, &phases.world.tables)?);
    for round in 1..=phases.config.rounds {
        if phases.watch.is_stopped() {
            break;
        }
        phases.round = round;
        let (first, second) = if round % 2 == 1 {
            (Isolation::Serializable, Isolation::ReadUncommitted)
        } else {
            (Isolation::ReadUncommitted, Isolation::Serializable)
        };
        let first = phases.alone(first, shares.alone)?;
        let second = phases.alone(second, shares.alone)?;
        let (serializable, read_uncommitted) = if round % 2 == 1 { (first, second) } else { (second, first) };
        if !phases.watch.is_stopped() {
            measurements.pairs.push(Pair { serializable, read_uncommitted });
        }
    }
    Ok(())
}

/// Whether the error only says that the user stopped the run.
pub fn is_stop(error: &ankerdb_engine::Error) -> bool {
    error.state() == SqlState::QueryCanceled
}
