//! Options that all benchmarks of transactions have, and which of them are refused before anything is loaded.

use super::compare::Compare;
use super::profile::Probes;
use crate::htap::config::{check_writable, isolation_name, warnings_of_any};
use ankerdb_engine::{Configuration, Error, Isolation, Result, SqlState};
use ankerdb_measure::machine::{Machine, available_memory_bytes};
use serde::Serialize;
use std::path::PathBuf;

/// A day.
pub const SECONDS_MAX: u64 = 86_400;

/// Options that every benchmark of transactions has.
#[derive(Clone, Debug)]
pub struct BenchConfig {
    /// Threads, a client each.
    pub threads: usize,
    /// Seconds of measuring, all rounds and variants together; loading not included.
    pub seconds: u64,
    /// Rounds; more than two, so that a median means something.
    pub rounds: u32,
    /// Isolation level.
    pub isolation: Isolation,
    /// How the database processes transactions.
    pub engine: Configuration,
    /// The comparisons to run alternately.
    pub compare: Vec<Compare>,
    /// Counts what transactions cost besides time, by these means.
    pub probes: Option<Probes>,
    /// Same seed, same data and inputs.
    pub seed: u64,
    /// The file for the result.
    pub json: Option<PathBuf>,
}

/// The options as results show them.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigReport {
    threads: usize,
    seconds: u64,
    rounds: u32,
    isolation: &'static str,
    engine: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compare: Vec<&'static str>,
    seed: u64,
}

/// Memory that a run needs.
#[derive(Clone, Copy, Debug)]
pub struct MemoryNeed {
    /// The option that says how much is loaded.
    pub option: &'static str,
    /// Its value.
    pub count: u64,
    /// Memory for each.
    pub bytes_each: u64,
    /// Memory needed besides, growth included.
    pub bytes_besides: u64,
}

impl BenchConfig {
    /// Refuses options that cannot work; returns warnings about those that work badly.
    ///
    /// # Errors
    /// 22023, saying what would be accepted.
    pub fn check(&self, machine: &Machine, need: MemoryNeed) -> Result<Vec<String>> {
        at_least_one("--threads", self.threads as u64)?;
        at_least_one("--seconds", self.seconds)?;
        at_least_one("--rounds", u64::from(self.rounds))?;
        at_most("--threads", self.threads as u64, 512)?;
        at_most("--seconds", self.seconds, SECONDS_MAX)?;
        at_most("--rounds", u64::from(self.rounds), 1000)?;
        self.check_comparisons()?;
        if let Some(available) = available_memory_bytes() {
            need.check(available)?;
        }
        if let Some(path) = &self.json {
            check_writable(path)?;
        }
        Ok(self.warnings(machine))
    }

    fn check_comparisons(&self) -> Result<()> {
        if self.compare.contains(&Compare::Isolation) && self.isolation != Isolation::Serializable {
            let message = "--compare isolation compares with repeatable-read: leave --isolation serializable";
            return Err(invalid(message.to_owned()));
        }
        let several = |&&compare: &&Compare| compare != Compare::Isolation;
        match self.compare.iter().find(several) {
            Some(compare) if self.threads < 2 => {
                let name = compare.name();
                Err(invalid(format!(
                    "--compare {name} compares with one thread: --threads must be at least 2"
                )))
            }
            _ => Ok(()),
        }
    }

    /// For benchmarks that have no place for all threads to meet.
    ///
    /// # Errors
    /// 22023 if it is asked for.
    pub fn without_contention(&self, benchmark: &str) -> Result<()> {
        match self.compare.contains(&Compare::Contention) {
            true => Err(invalid(format!("--compare contention is for tpcc, not for {benchmark}"))),
            false => Ok(()),
        }
    }

    fn warnings(&self, machine: &Machine) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.threads > machine.cores {
            warnings.push(format!(
                "{} threads share {} cores: latencies contain waiting for a core",
                self.threads, machine.cores
            ));
        }
        if self.seconds < 5 {
            warnings.push(format!("{} seconds make phases so short that they are noisy", self.seconds));
        }
        warnings.extend(warnings_of_any(self.rounds));
        warnings
    }

    /// The part that goes into the result.
    pub fn report(&self) -> ConfigReport {
        ConfigReport {
            threads: self.threads,
            seconds: self.seconds,
            rounds: self.rounds,
            isolation: isolation_name(self.isolation),
            engine: self.engine.name(),
            compare: self.compare.iter().map(|compare| compare.name()).collect(),
            seed: self.seed,
        }
    }
}

impl MemoryNeed {
    /// Refuses what does not fit.
    ///
    /// # Errors
    /// 22023, saying how much would.
    pub fn check(&self, available: u64) -> Result<()> {
        let needed = self.bytes_each.saturating_mul(self.count).saturating_add(self.bytes_besides);
        if needed <= available {
            return Ok(());
        }
        let MemoryNeed { option, count, bytes_each, bytes_besides } = *self;
        let advice = match available.saturating_sub(bytes_besides) / bytes_each {
            0 => "there is no room for any with this many threads and seconds".to_owned(),
            possible => format!("at most {option} {possible} fits"),
        };
        Err(invalid(format!(
            "{option} {count} needs about {} of memory, but {} is available: {advice}",
            gibibytes(needed),
            gibibytes(available)
        )))
    }
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// An error in what the user asked for.
pub fn invalid(message: String) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}

/// Refuses zero.
///
/// # Errors
/// 22023.
pub fn at_least_one(option: &str, value: u64) -> Result<()> {
    if value > 0 { Ok(()) } else { Err(invalid(format!("{option} must be at least 1"))) }
}

/// Refuses more than the limit.
///
/// # Errors
/// 22023.
pub fn at_most(option: &str, value: u64, limit: u64) -> Result<()> {
    if value <= limit {
        Ok(())
    } else {
        Err(invalid(format!("{option} must be at most {limit}, not {value}")))
    }
}

/// Finds the value of a name on the command line.
///
/// # Errors
/// 22023 with the names there are.
pub fn parse_name<T: Copy>(what: &str, all: &[T], name_of: fn(T) -> &'static str, name: &str) -> Result<T> {
    all.iter().copied().find(|&value| name_of(value) == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().copied().map(name_of).collect();
        invalid(format!("unknown {what} \"{name}\"; there are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::mix::Mix;

    fn config() -> BenchConfig {
        BenchConfig {
            threads: 2,
            seconds: 10,
            rounds: 3,
            isolation: Isolation::Serializable,
            engine: Configuration::default(),
            compare: Vec::new(),
            probes: None,
            seed: 1,
            json: None,
        }
    }

    fn machine() -> Machine {
        Machine { cores: 2, memory_bytes: 1 << 40, cpu: "any".into(), kernel: "any".into() }
    }

    const NEED: MemoryNeed =
        MemoryNeed { option: "--rows", count: 10, bytes_each: 1 << 10, bytes_besides: 1 << 10 };

    fn refusal(config: BenchConfig) -> String {
        config.check(&machine(), NEED).expect_err("must be refused").to_string()
    }

    #[test]
    fn zeros_and_absurd_numbers_are_refused_by_the_option_to_change() {
        assert_eq!(refusal(BenchConfig { threads: 0, ..config() }), "--threads must be at least 1");
        assert_eq!(refusal(BenchConfig { seconds: 0, ..config() }), "--seconds must be at least 1");
        assert_eq!(refusal(BenchConfig { rounds: 0, ..config() }), "--rounds must be at least 1");
        assert_eq!(
            refusal(BenchConfig { threads: 513, ..config() }),
            "--threads must be at most 512, not 513"
        );
        let alone = BenchConfig { threads: 1, compare: vec![Compare::Threads], ..config() };
        assert!(refusal(alone).contains("--threads must be at least 2"));
        let weak = BenchConfig {
            isolation: Isolation::ReadCommitted,
            compare: vec![Compare::Isolation],
            ..config()
        };
        assert!(refusal(weak).contains("leave --isolation serializable"));
        let message = refusal(BenchConfig { json: Some("/no/such/folder/x.json".into()), ..config() });
        assert!(message.contains("cannot write /no/such/folder/x.json"), "{message}");
    }

    #[test]
    fn data_larger_than_memory_is_refused_with_what_fits() {
        assert!(NEED.check(11 << 10).is_ok());
        let message = NEED.check(8 << 10).expect_err("two are too many").to_string();
        assert!(message.contains("at most --rows 7 fits"), "{message}");
        let message = NEED.check(1 << 10).expect_err("nothing fits").to_string();
        assert!(message.contains("no room for any"), "{message}");
        assert!(MemoryNeed { count: u64::MAX, ..NEED }.check(1 << 40).is_err());
    }

    #[test]
    fn more_threads_than_cores_are_a_warning() {
        assert_eq!(config().check(&machine(), NEED).expect("is fine"), Vec::<String>::new());
        let warnings = BenchConfig { threads: 3, ..config() }.check(&machine(), NEED).expect("is accepted");
        assert!(warnings[0].contains("3 threads share 2 cores"), "{warnings:?}");
    }

    #[test]
    fn unknown_names_are_answered_with_the_list() {
        assert_eq!(parse_name("mix", &Mix::ALL, Mix::name, "paper").expect("is a mix"), Mix::Paper);
        let error = parse_name("mix", &Mix::ALL, Mix::name, "all").expect_err("is no mix");
        assert_eq!(error.to_string(), "unknown mix \"all\"; there are full, paper");
    }
}
