//! `ankerdb experiment`: a table or figure of a paper.

use crate::progress::ExperimentProgress;
use crate::{engine, interrupt};
use ankerdb_engine::{Configuration, Result, Technique};
use ankerdb_experiment::harness::ExperimentWatch;
use ankerdb_experiment::report::check_folder;
use ankerdb_experiment::setup::members::LedgerMembers;
use ankerdb_experiment::{all, find, setup};
use ankerdb_measure::machine::Machine;
use ankerdb_serial::Mechanism;
use clap::Args;
use std::path::PathBuf;

/// The word that asks for the list.
const LIST: &str = "list";

/// Options of `experiment`.
#[derive(Args)]
pub(crate) struct ExperimentOptions {
    /// `list`, or the experiment to run
    id: String,
    /// TPC-C warehouses (about 200 MiB each)
    #[arg(long, value_name = "W")]
    warehouses: Option<u32>,
    /// TPC-H scale factor
    #[arg(long, value_name = "SF")]
    scale: Option<f64>,
    /// MiB of each column, for experiments on columns of numbers
    #[arg(long, value_name = "MIB")]
    megabytes: Option<usize>,
    /// Smallbank's users, for experiments on ledgers
    #[arg(long, value_name = "USERS")]
    users: Option<u64>,
    /// Tuples of a relation, for experiments on one
    #[arg(long, value_name = "TUPLES")]
    tuples: Option<u64>,
    /// Threads that run transactions, or clients of a ledger; the most, if they vary
    #[arg(long, value_name = "N")]
    oltp: Option<usize>,
    /// Threads that answer queries; the most, if they vary
    #[arg(long, value_name = "M")]
    olap: Option<usize>,
    /// Seconds of each measurement; loading comes on top
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    /// Engines to compare, separated by commas; all if not given
    #[arg(long, value_name = "ENGINES", value_delimiter = ',', value_parser = engine::parse)]
    engine: Vec<Configuration>,
    /// Techniques to compare with ours, separated by commas: physical, fork, rewiring, rewiring-userfaultfd, vm-snapshot;
    /// all that this machine can run if not given
    #[arg(long, value_name = "TECHNIQUES", value_delimiter = ',', value_parser = technique)]
    technique: Vec<Technique>,
    /// Databases below a ledger's three organizations to compare, separated by commas: paper (PostgreSQL, MariaDB,
    /// PostgreSQL), postgresql, mariadb, ankerdb (each three times), mixed (one of each); all that are installed if not given
    #[arg(long, value_name = "MEMBERS", value_delimiter = ',', value_parser = members)]
    members: Vec<LedgerMembers>,
    /// Mechanisms to compare with ours, separated by commas: vm-fork, tuple-shadowing, twin-tuples, hot-cold, shadow-copies; all
    /// if not given
    #[arg(long, value_name = "MECHANISMS", value_delimiter = ',', value_parser = mechanism)]
    mechanism: Vec<Mechanism>,
    /// The paper's durations, data sizes and numbers of threads
    #[arg(long)]
    full: bool,
    /// Folder for the text, CSV, SVG and PNG
    #[arg(long, value_name = "DIR", default_value = "experiments-out")]
    out: PathBuf,
    /// Seed of the data and the inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Reads a technique that this machine can run, for clap.
fn technique(name: &str) -> std::result::Result<Technique, String> {
    let checked = Technique::parse(name).and_then(|technique| technique.check().map(|()| technique));
    checked.map_err(|error| {
        format!("{error}{}", error.hint().map(|hint| format!(". {hint}")).unwrap_or_default())
    })
}

/// Reads the databases below a ledger, for clap.
fn members(name: &str) -> std::result::Result<LedgerMembers, String> {
    LedgerMembers::parse(name).map_err(|error| error.to_string())
}

/// Reads a mechanism of a database with serial transactions, for clap.
fn mechanism(name: &str) -> std::result::Result<Mechanism, String> {
    Mechanism::parse(name).map_err(|error| error.to_string())
}

/// Lists or runs.
pub(crate) fn run(options: &ExperimentOptions) -> Result<()> {
    if options.id == LIST {
        list();
        return Ok(());
    }
    let experiment = find(&options.id)?;
    let machine = Machine::detect();
    let (setup, deviations) = experiment.setup(&asked(options), &machine)?;
    check_folder(&options.out)?;
    eprintln!("{}: {}", experiment.id, experiment.title);
    deviations.iter().for_each(|deviation| eprintln!("  {deviation}"));
    let stop = interrupt::flag();
    let progress = ExperimentProgress::default();
    let watch = ExperimentWatch { stop: &stop, observer: &|event| progress.show(event) };
    let report = experiment.run(setup, deviations, &machine, &watch);
    progress.clear();
    let report = report?;
    println!("{}", report.text());
    for path in report.write(&options.out)? {
        println!("{}", path.display());
    }
    Ok(())
}

fn list() {
    let width = all().iter().map(|experiment| experiment.id.len()).max().unwrap_or(0);
    for experiment in all() {
        println!("{:<width$}  {}", experiment.id, experiment.title);
    }
}

fn asked(options: &ExperimentOptions) -> setup::SetupOptions {
    setup::SetupOptions {
        warehouses: options.warehouses,
        scale: options.scale,
        oltp: options.oltp,
        olap: options.olap,
        seconds: options.seconds,
        megabytes: options.megabytes,
        engines: options.engine.clone(),
        techniques: options.technique.clone(),
        users: options.users,
        members: options.members.clone(),
        tuples: options.tuples,
        mechanisms: options.mechanism.clone(),
        full: options.full,
        seed: options.seed,
    }
}
