//! Options that all benchmarks of transactions have, and how such a benchmark is run and reported.

use super::isolation;
use crate::engine::EngineOption;
use crate::interrupt;
use crate::progress::LoadBar;
use ankerdb_engine::{Error, Isolation, Result};
use ankerdb_workload::bench::compare::Compare;
use ankerdb_workload::bench::config::BenchConfig;
use ankerdb_workload::bench::profile::Probes;
use ankerdb_workload::bench::report::BenchReport;
use ankerdb_workload::htap::bench::is_stop;
use ankerdb_workload::watch::{Event, Watch};
use clap::Args;
use std::path::{Path, PathBuf};

/// Threads, time, isolation level.
#[derive(Args)]
pub(crate) struct BenchOptions {
    /// Threads that run transactions, a client each
    #[arg(long, value_name = "N", default_value_t = all_cores())]
    threads: usize,
    /// Seconds of measuring, all rounds together; loading comes on top [default: 30]. Of long-reader: that a reader is
    /// held each time [default: 15]
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Rounds; results are medians over them [default: 5, of long-reader 2]
    #[arg(long, value_name = "R")]
    rounds: Option<u32>,
    /// Isolation level: serializable, repeatable-read, read-committed, read-uncommitted; the engine's if not given
    #[arg(long, value_name = "L", value_parser = isolation)]
    isolation: Option<Isolation>,
    #[command(flatten)]
    engine: EngineOption,
    /// Run alternately with: threads (one thread), isolation (repeatable-read), contention (all and one thread in one
    /// warehouse)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = compare)]
    compare: Vec<Compare>,
    /// Count instructions, cache misses (where the machine has counters) and allocations of each transaction
    #[arg(long)]
    profile: bool,
    /// Write the result here as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the data and the inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn compare(name: &str) -> std::result::Result<Compare, String> {
    Compare::parse(name).map_err(|error| error.to_string())
}

fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl BenchOptions {
    /// The defaults of most benchmarks.
    pub(crate) fn config(&self) -> BenchConfig {
        self.config_or(30, 5)
    }

    /// With a benchmark's own defaults.
    pub(crate) fn config_or(&self, seconds: u64, rounds: u32) -> BenchConfig {
        BenchConfig {
            threads: self.threads,
            seconds: self.seconds.unwrap_or(seconds),
            rounds: self.rounds.unwrap_or(rounds),
            isolation: self.isolation.unwrap_or(self.engine.engine.isolation()),
            engine: self.engine.engine,
            compare: self.compare.clone(),
            probes: self.profile.then_some(Probes { allocations: Some(crate::allocation::count) }),
            seed: self.seed,
            json: self.json.clone(),
        }
    }
}

/// Runs a benchmark that was checked, and shows its progress. `label` says which round a phase belongs to.
pub(super) fn watched<R>(
    title: &str,
    warnings: &[String],
    label: fn(u32) -> String,
    benchmark: impl FnOnce(&Watch<'_>) -> Result<R>,
) -> Result<R> {
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    eprintln!("{title}");
    let stop = interrupt::flag();
    let loading = LoadBar::new();
    let observer = |event: Event<'_>| match event {
        Event::Loading { done, total } => loading.show(done, total),
        Event::Phase { round, name } => eprintln!("{}{name}", label(round)),
        Event::Checking => eprintln!("checking the consistency conditions"),
    };
    match benchmark(&Watch { stop: &stop, observer: &observer }) {
        Err(error) if is_stop(&error) => Err(error.with_hint("Nothing was measured yet.")),
        other => other,
    }
}

/// Prints a result, and writes it to the file that was asked for.
pub(super) fn print_or_write(
    text: &str,
    path: Option<&Path>,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    println!("{text}");
    if let Some(path) = path {
        write(path)?;
        println!("result: {}", path.display());
    }
    Ok(())
}

/// Runs a benchmark that was checked, shows its progress, prints and writes its report. An error if a condition is
/// violated.
pub(super) fn perform(
    config: &BenchConfig,
    title: &str,
    warnings: &[String],
    benchmark: impl FnOnce(&Watch<'_>) -> Result<BenchReport>,
) -> Result<()> {
    let report = watched(title, warnings, |round| format!("round {round}: "), benchmark)?;
    print_or_write(&report.text(), config.json.as_deref(), |path| report.write_json(path))?;
    report.failure().map_or(Ok(()), |message| Err(Error::internal(message)))
}
