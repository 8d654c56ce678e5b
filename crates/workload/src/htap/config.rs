//! The options of the benchmark, which are refused before anything is loaded if they cannot work.

use crate::tpcc::input::Access;
use ankerdb_engine::{Configuration, Error, Isolation, Result, SqlState};
use ankerdb_measure::machine::{Machine, available_memory_bytes};
use serde::Serialize;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

/// Memory that one loaded warehouse takes, indexes included.
pub const BYTES_PER_WAREHOUSE: u64 = 200 << 20;
/// Memory that the program takes besides.
const BASE_BYTES: u64 = 524 << 20;
/// The memory that one OLTP thread adds in a second: new orders with their lines and index entries.
const GROWTH_BYTES_PER_THREAD_SECOND: u64 = 24 << 20;

/// One run of `bench htap`.
#[derive(Clone, Debug)]
pub struct HtapConfig {
    /// TPC-C warehouses.
    pub warehouses: u32,
    /// Threads of the OLTP stream.
    pub oltp_threads: usize,
    /// Threads of analytical queries.
    pub olap_threads: usize,
    /// Seconds of measuring, all phases of all rounds together; loading not included.
    pub seconds: u64,
    /// Isolation level of the OLTP stream beside the OLAP stream.
    pub isolation: Isolation,
    /// How the database processes transactions and queries.
    pub engine: Configuration,
    /// The access pattern of transactions.
    pub access: Access,
    /// The file for the result.
    pub json: Option<PathBuf>,
    /// Rounds; more than two, so that a median means something.
    pub rounds: u32,
    /// Same seed, same data and inputs.
    pub seed: u64,
}

/// The configuration as results show it.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigReport {
    warehouses: u32,
    oltp_threads: usize,
    olap_threads: usize,
    seconds: u64,
    isolation: &'static str,
    engine: &'static str,
    access: &'static str,
    rounds: u32,
    seed: u64,
}

impl HtapConfig {
    /// Refuses options that cannot work; returns warnings about those that work badly.
    ///
    /// # Errors
    /// 22023, saying what would be accepted.
    pub fn check(&self, machine: &Machine) -> Result<Vec<String>> {
        at_least_one("--warehouses", u64::from(self.warehouses))?;
        at_least_one("--oltp", self.oltp_threads as u64)?;
        at_least_one("--olap", self.olap_threads as u64)?;
        at_least_one("--seconds", self.seconds)?;
        at_least_one("--rounds", u64::from(self.rounds))?;
        // A warehouse number is an integer, and so is twice the largest item number.
        at_most("--warehouses", u64::from(self.warehouses), 1_000_000)?;
        at_most("--oltp", self.oltp_threads as u64, 512)?;
        at_most("--olap", self.olap_threads as u64, 512)?;
        at_most("--seconds", self.seconds, 86_400)?;
        at_most("--rounds", u64::from(self.rounds), 1000)?;
        if let Some(available) = available_memory_bytes() {
            self.check_memory(available)?;
        }
        if let Some(path) = &self.json {
            check_writable(path)?;
        }
        Ok(self.warnings(machine))
    }

    /// Memory the run will need at most, roughly: the data, a copy of the tables that the memory-tables phase
    /// compares with, and growth.
    pub fn memory_bytes(&self) -> u64 {
        let growth = self.oltp_threads as u64 * self.seconds * GROWTH_BYTES_PER_THREAD_SECOND;
        BASE_BYTES + u64::from(self.warehouses) * BYTES_PER_WAREHOUSE * 3 / 2 + growth
    }

    fn check_memory(&self, available: u64) -> Result<()> {
        let needed = self.memory_bytes();
        if needed <= available {
            return Ok(());
        }
        let per_warehouse = BYTES_PER_WAREHOUSE * 3 / 2;
        let rest = needed - u64::from(self.warehouses) * per_warehouse;
        let possible = available.saturating_sub(rest) / per_warehouse;
        let advice = match possible {
            0 => "even one warehouse is too much for this many threads and seconds".to_owned(),
            _ => format!("at most --warehouses {possible} fits"),
        };
        Err(invalid(format!(
            "{} warehouses for {} seconds need about {} of memory, but {} is available: {advice}",
            self.warehouses,
            self.seconds,
            gibibytes(needed),
            gibibytes(available)
        )))
    }

    fn warnings(&self, machine: &Machine) -> Vec<String> {
        let mut warnings =
            warnings_of_phases(self.oltp_threads + self.olap_threads, machine.cores, self.seconds);
        warnings.extend(warnings_of_any(self.rounds));
        warnings
    }

    /// The part that goes into the result.
    pub fn report(&self) -> ConfigReport {
        ConfigReport {
            warehouses: self.warehouses,
            oltp_threads: self.oltp_threads,
            olap_threads: self.olap_threads,
            seconds: self.seconds,
            isolation: isolation_name(self.isolation),
            engine: self.engine.name(),
            access: self.access.name(),
            rounds: self.rounds,
            seed: self.seed,
        }
    }
}

/// The smallest number of OLTP and OLAP threads that uses all cores of this machine, half each.
pub fn default_threads() -> usize {
    (std::thread::available_parallelism().map_or(2, usize::from) / 2).max(1)
}

/// The name of a level on the command line and in results.
pub fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadUncommitted => "read-uncommitted",
        Isolation::ReadCommitted => "read-committed",
        Isolation::RepeatableRead => "repeatable-read",
        Isolation::Serializable => "serializable",
    }
}

/// Reads a level's name; blanks and underscores count as hyphens.
///
/// # Errors
/// 22023 with the names there are.
pub fn parse_isolation(name: &str) -> Result<Isolation> {
    let levels = [
        Isolation::Serializable,
        Isolation::RepeatableRead,
        Isolation::ReadCommitted,
        Isolation::ReadUncommitted,
    ];
    let wanted = name.to_ascii_lowercase().replace([' ', '_'], "-");
    let found = levels.into_iter().find(|&level| isolation_name(level) == wanted);
    found.or((wanted == "snapshot").then_some(Isolation::RepeatableRead)).ok_or_else(|| {
        let names = "serializable, repeatable-read (or snapshot), read-committed, read-uncommitted";
        invalid(format!("unknown isolation level \"{name}\"; there are {names}"))
    })
}

/// Reads the name of an access pattern.
///
/// # Errors
/// 22023 with the names there are.
pub fn parse_access(name: &str) -> Result<Access> {
    [Access::Uniform, Access::Skewed]
        .into_iter()
        .find(|access| access.name() == name)
        .ok_or_else(|| invalid(format!("unknown access pattern \"{name}\"; there are uniform, skewed")))
}

fn invalid(message: String) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}

fn at_least_one(option: &str, value: u64) -> Result<()> {
    if value > 0 { Ok(()) } else { Err(invalid(format!("{option} must be at least 1"))) }
}

fn at_most(option: &str, value: u64, limit: u64) -> Result<()> {
    if value <= limit {
        Ok(())
    } else {
        Err(invalid(format!("{option} must be at most {limit}, not {value}")))
    }
}

/// Warnings about phases of transactions and queries by so many threads, for so many seconds each.
pub(crate) fn warnings_of_phases(threads: usize, cores: usize, seconds: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if threads > cores {
        warnings.push(format!(
            "{threads} threads share {cores} cores: the ratios show competition for CPU, not for data"
        ));
    }
    if seconds < 20 {
        warnings.push(format!("{seconds} seconds make phases so short that ratios are noisy"));
    }
    warnings
}

/// Warnings that any benchmark of this many rounds gives.
pub(crate) fn warnings_of_any(rounds: u32) -> Vec<String> {
    let mut warnings = Vec::new();
    if rounds < 3 {
        warnings.push(format!("{rounds} rounds are too few for a median"));
    }
    if cfg!(debug_assertions) {
        warnings.push("built without optimization".to_owned());
    }
    warnings
}

/// Whether a file can be written here; leaves an existing one as it is, and none where there was none.
///
/// # Errors
/// 22023 if not.
pub fn check_writable(path: &Path) -> Result<()> {
    let existed = path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| invalid(format!("cannot write {}: {error}", path.display())))?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> HtapConfig {
        HtapConfig {
            warehouses: 1,
            oltp_threads: 1,
            olap_threads: 1,
            seconds: 20,
            isolation: Isolation::Serializable,
            engine: Configuration::default(),
            access: Access::Uniform,
            json: None,
            rounds: 3,
            seed: 1,
        }
    }

    fn machine() -> Machine {
        Machine { cores: 2, memory_bytes: 1 << 40, cpu: "any".into(), kernel: "any".into() }
    }

    fn refusal(config: HtapConfig) -> String {
        config.check(&machine()).expect_err("must be refused").to_string()
    }

    #[test]
    fn zeros_are_refused_by_the_option_to_change() {
        assert_eq!(refusal(HtapConfig { warehouses: 0, ..config() }), "--warehouses must be at least 1");
        assert_eq!(refusal(HtapConfig { oltp_threads: 0, ..config() }), "--oltp must be at least 1");
        assert_eq!(refusal(HtapConfig { olap_threads: 0, ..config() }), "--olap must be at least 1");
        assert_eq!(refusal(HtapConfig { seconds: 0, ..config() }), "--seconds must be at least 1");
    }

    #[test]
    fn data_larger_than_memory_is_refused_with_what_fits() {
        let message = refusal(HtapConfig { warehouses: 1_000_000, ..config() });
        assert!(message.contains("at most --warehouses"), "{message}");
        let error = config().check_memory(1 << 20).expect_err("a megabyte is too little");
        assert!(error.to_string().contains("even one warehouse is too much"), "{error}");
        assert!(config().check_memory(1 << 34).is_ok());
    }

    #[test]
    fn unwritable_results_are_refused_and_nothing_is_left_behind() {
        let message = refusal(HtapConfig { json: Some("/no/such/folder/x.json".into()), ..config() });
        assert!(message.contains("cannot write /no/such/folder/x.json"), "{message}");
        let path = std::env::temp_dir().join(format!("ankerdb-config-{}.json", std::process::id()));
        assert!(check_writable(&path).is_ok() && !path.exists());
    }

    #[test]
    fn too_many_threads_are_a_warning() {
        assert_eq!(config().check(&machine()).expect("is fine"), Vec::<String>::new());
        let warnings = HtapConfig { oltp_threads: 2, ..config() }.check(&machine()).expect("is accepted");
        assert!(warnings[0].contains("3 threads share 2 cores"), "{warnings:?}");
    }

    #[test]
    fn names_are_read_back_and_unknown_ones_answered_with_the_list() {
        for level in [Isolation::Serializable, Isolation::ReadUncommitted] {
            assert_eq!(parse_isolation(isolation_name(level)).expect("is a name"), level);
        }
        assert_eq!(parse_isolation("READ COMMITTED").expect("is a name"), Isolation::ReadCommitted);
        let error = parse_isolation("chaos").expect_err("is no level");
        assert!(error.to_string().contains("there are serializable"), "{error}");
        assert!(parse_access("zipf").expect_err("is no pattern").to_string().contains("uniform, skewed"));
    }
}
