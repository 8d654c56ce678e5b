//! `ankerdb bench recovery`

use crate::interrupt;
use crate::progress::LoadBar;
use ankerdb_engine::Result;
use ankerdb_measure::machine::Machine;
use ankerdb_workload::bench::recovery::{self, RecoveryConfig};
use ankerdb_workload::bench::report::write_json;
use ankerdb_workload::watch::{Event, Watch};
use clap::Args;
use std::path::PathBuf;

/// Options of `bench recovery`.
#[derive(Args)]
pub(crate) struct RecoveryOptions {
    /// Rows of each of the two tables
    #[arg(long, value_name = "ROWS", default_value_t = 3_000_000)]
    rows: u64,
    /// Rounds; results are medians over them
    #[arg(long, value_name = "R", default_value_t = 5)]
    rounds: u32,
    /// Where the databases are made, and removed again [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Write the result here as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs `bench recovery`.
pub(super) fn run(options: &RecoveryOptions) -> Result<()> {
    let RecoveryOptions { rows, rounds, folder, json } = options;
    let folder = folder.clone().unwrap_or_else(std::env::temp_dir);
    let config = RecoveryConfig { rows: *rows, rounds: *rounds, folder };
    let machine = Machine::detect();
    let warnings = config.check()?;
    for warning in &warnings {
        eprintln!("warning: {warning}");
    }
    eprintln!("bench recovery: {}", config.title());
    let stop = interrupt::flag();
    let loading = LoadBar::new();
    let observer = |event: Event<'_>| match event {
        Event::Loading { done, total } => loading.show(done, total),
        Event::Phase { round, name } => eprintln!("round {round}: {name}"),
        Event::Checking => eprintln!("checking"),
    };
    let restarts = recovery::run(&config, &machine, warnings, &Watch { stop: &stop, observer: &observer })?;
    println!("{}", restarts.text());
    if let Some(path) = json {
        write_json(&restarts, path)?;
        println!("result: {}", path.display());
    }
    Ok(())
}
