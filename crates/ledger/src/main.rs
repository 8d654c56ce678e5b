//! `ankerdb-ledger`: the commands of `ankerdb ledger` without the database, for machines of organizations that run another one.

#![forbid(unsafe_code)]

use ankerdb_ledger::command::LedgerCommand;
use clap::Parser as _;
use std::process::ExitCode;

/// A verifiable ledger over PostgreSQL, MariaDB and AnKerDB
#[derive(clap::Parser)]
#[command(name = "ankerdb-ledger", version)]
struct LedgerArguments {
    #[command(subcommand)]
    command: LedgerCommand,
}

fn main() -> ExitCode {
    LedgerArguments::parse().command.run()
}
