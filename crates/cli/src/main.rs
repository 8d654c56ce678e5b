//! The `ankerdb` command: a demo, the server and what keeps its data, the benchmarks, the papers' experiments, and
//! the ledger.
//!
//! Results go to standard output, progress to standard error. Exit codes: 0 for success, 1 if the command
//! failed, 2 if the options are impossible. `check` has 1 for faults, and 2 for what keeps it from looking; `ledger demo` has 3
//! for what is not installed.
// Not `forbid`, for the sake of the allocator that counts.
#![deny(unsafe_code)]

mod allocation;
mod backup;
mod bench;
mod check;
mod demo;
mod engine;
mod experiment;
mod interrupt;
mod progress;
mod serve;

use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_ledger::command::LedgerCommand;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// An in-memory SQL database for transactions and analytics on the same data at the same time.
#[derive(Parser)]
#[command(name = "ankerdb", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Load TPC-C, run transactions and analytical queries side by side, and show both live.
    Demo(demo::DemoOptions),
    /// Serve PostgreSQL clients (psql, drivers, tools): any user and password, database "ankerdb".
    Serve(serve::ServeOptions),
    /// Copy the database in a folder into a file, while a server is at work there or not.
    Backup(backup::BackupOptions),
    /// Make a folder, with which a server can start, of a backup.
    Restore(backup::RestoreOptions),
    /// Look whether the database in a folder is whole: checksums, indexes against rows, constraints. Changes nothing there.
    Check(check::CheckOptions),
    /// Measure.
    #[command(subcommand)]
    Bench(bench::Benchmark),
    /// Run a table or figure of the papers (`experiment list` names them), and write it as text, CSV, SVG and PNG.
    Experiment(experiment::ExperimentOptions),
    /// Let organizations share tables verifiably, over PostgreSQL, MariaDB and AnKerDB.
    #[command(subcommand)]
    Ledger(LedgerCommand),
}

fn main() -> ExitCode {
    let success = |()| ExitCode::SUCCESS;
    let (outcome, failure) = match Arguments::parse().command {
        Command::Demo(options) => (demo::run(&options).map(success), None),
        Command::Serve(options) => (serve::run(&options).map(success), None),
        Command::Backup(options) => (backup::back_up(&options).map(success), None),
        Command::Restore(options) => (backup::restore(&options).map(success), None),
        Command::Check(options) => (check::run(&options), Some(2)),
        Command::Bench(benchmark) => (benchmark.run().map(success), None),
        Command::Experiment(options) => (experiment::run(&options).map(success), None),
        // The ledger knows no errors of the engine, and says its own.
        Command::Ledger(command) => return command.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("ankerdb: {error}{}", error.hint().map(|hint| format!(". {hint}")).unwrap_or_default());
        ExitCode::from(failure.unwrap_or_else(|| exit_code(&error)))
    })
}

fn exit_code(error: &Error) -> u8 {
    if error.state() == SqlState::InvalidParameterValue { 2 } else { 1 }
}

/// An error in the user's options.
fn invalid(message: String) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}

/// Refuses zero.
fn at_least_one(option: &str, value: usize) -> Result<()> {
    if value > 0 { Ok(()) } else { Err(invalid(format!("{option} must be at least 1"))) }
}
