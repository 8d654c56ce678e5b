//! The setup of an experiment: the paper's, scaled to this machine and to a short time by default, and refused before
//! anything is loaded if it cannot work.

pub mod choice;
pub mod members;

use crate::Experiment;
use ankerdb_engine::{Configuration, Error, Result, SqlState, Technique};
use ankerdb_measure::machine::{Machine, available_memory_bytes};
use ankerdb_serial::Mechanism;
use ankerdb_workload::htap::config::BYTES_PER_WAREHOUSE;
use choice::Compared;
use members::LedgerMembers;
use std::time::Duration;

/// Streams of the kind that does not vary, where an experiment varies the other one.
pub(crate) const FIXED_STREAMS: usize = 2;
/// Memory that the program takes besides its data.
const BASE_BYTES: u64 = 512 << 20;
/// The memory that one OLTP thread adds to TPC-C in a second: new orders with their lines and index entries.
const GROWTH_BYTES_PER_THREAD_SECOND: u64 = 24 << 20;
/// Memory of TPC-H's three tables at scale factor 1, indexes and versions of a second included.
const BYTES_PER_SCALE_FACTOR: f64 = 3.0 * (1u64 << 30) as f64;
/// Memory that three database servers and a ledger's processes take besides their data.
const LEDGER_BYTES: u64 = 1 << 30;
/// Memory of a user of Smallbank with two accounts in three databases.
const BYTES_PER_USER: u64 = 4 << 10;
/// The most users of Smallbank, and the fewest.
const USERS_MAX: u64 = 10_000_000;
const USERS_MIN: u64 = 10;
/// Memory of a tuple, with copies, flags and an index, and of the row in ours beside it.
const BYTES_PER_TUPLE: u64 = 600;
/// The most tuples of a relation, and the fewest.
const TUPLES_MAX: u64 = 1_000_000_000;
const TUPLES_MIN: u64 = 1000;
/// The shortest pause between queries when durations are shortened.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// The data that an experiment uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    /// TPC-C with these warehouses in the paper, and with these by default.
    TpcC {
        /// The paper's.
        paper: &'static [u32],
        /// When shortened.
        quick: &'static [u32],
    },
    /// TPC-H's LINEITEM, ORDERS and PART at the scale factor of the paper (as far as it is known), and by default.
    TpcH {
        /// The paper's.
        paper: f64,
        /// When shortened.
        quick: f64,
    },
    /// Smallbank's accounts of these users in the paper, and of these by default.
    Smallbank {
        /// The paper's.
        paper: u64,
        /// When shortened.
        quick: u64,
    },
    /// A relation of so many tuples in the paper, and of so many by default.
    Tuples {
        /// The paper's.
        paper: u64,
        /// When shortened.
        quick: u64,
    },
    /// Columns of eight-byte numbers, of so many MiB each.
    Columns {
        /// How many.
        count: usize,
        /// Each in the paper.
        paper: usize,
        /// Each when shortened.
        quick: usize,
        /// What the largest technique needs, in times of the data: copies, headers, versions.
        factor: u64,
    },
}

/// Threads, in the paper's words streams, and times of an experiment in its paper.
#[derive(Clone, Copy, Debug)]
pub struct PaperSetup {
    /// Threads that run transactions (the most, if they vary).
    pub oltp: usize,
    /// Threads that answer queries (the most, if they vary).
    pub olap: usize,
    /// Length of one measurement.
    pub seconds: u64,
    /// Length of one measurement when shortened.
    pub quick_seconds: u64,
    /// Before the first query.
    pub lead: Duration,
    /// Between queries.
    pub interval: Duration,
    /// Whether one of the numbers of threads goes from 1 to its most while the other stays.
    pub threads_vary: bool,
}

/// The user's options; the rest has defaults.
#[derive(Clone, Debug, Default)]
pub struct SetupOptions {
    /// TPC-C warehouses.
    pub warehouses: Option<u32>,
    /// TPC-H scale factor.
    pub scale: Option<f64>,
    /// OLTP threads.
    pub oltp: Option<usize>,
    /// OLAP threads.
    pub olap: Option<usize>,
    /// Seconds of one measurement.
    pub seconds: Option<u64>,
    /// MiB of each column.
    pub megabytes: Option<usize>,
    /// Smallbank's users.
    pub users: Option<u64>,
    /// Tuples of a relation.
    pub tuples: Option<u64>,
    /// Configurations to compare; all if empty.
    pub engines: Vec<Configuration>,
    /// Techniques to compare with ours; all if empty.
    pub techniques: Vec<Technique>,
    /// Databases below a ledger's organizations; all that are compared if empty.
    pub members: Vec<LedgerMembers>,
    /// Mechanisms to compare with ours; all if empty.
    pub mechanisms: Vec<Mechanism>,
    /// Runs as long, and with as much data and as many threads, as in the paper.
    pub full: bool,
    /// Seed of data and inputs.
    pub seed: u64,
}

/// The setup that is run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// TPC-C warehouses, ascending; empty for TPC-H.
    pub warehouses: Vec<u32>,
    /// TPC-H scale factor; 0 for other data.
    pub scale: f64,
    /// MiB of each column; 0 for other data.
    pub megabytes: usize,
    /// Smallbank's users; 0 for other data.
    pub users: u64,
    /// Tuples of a relation; 0 for other data.
    pub tuples: u64,
    /// OLTP threads, or clients of a ledger (the most, if they vary).
    pub oltp: usize,
    /// OLAP threads (the most, if they vary).
    pub olap: usize,
    /// Length of one measurement.
    pub time: Duration,
    /// Part of it before the first query.
    pub lead: Duration,
    /// Between queries.
    pub interval: Duration,
    /// Configurations to compare.
    pub engines: Vec<Configuration>,
    /// Techniques to compare with ours.
    pub techniques: Vec<Technique>,
    /// Databases below a ledger's organizations that are compared.
    pub members: Vec<LedgerMembers>,
    /// Mechanisms to compare with ours.
    pub mechanisms: Vec<Mechanism>,
    /// Whether nothing is shortened.
    pub full: bool,
    /// Seed of data and inputs.
    pub seed: u64,
}

impl Setup {
    /// The setup of an experiment, with what differs from the paper's.
    ///
    /// # Errors
    /// 22023 for impossible options, saying what would be accepted.
    pub fn of(
        experiment: &Experiment,
        options: &SetupOptions,
        machine: &Machine,
    ) -> Result<(Setup, Vec<String>)> {
        let setup = Setup::resolve(experiment, options, machine)?;
        let (mut setup, mut deviations) = (setup, Vec::new());
        let available = available_memory_bytes().unwrap_or(u64::MAX);
        setup.fit_memory(experiment, available, &mut deviations)?;
        setup.compare(experiment, machine, &mut deviations);
        deviations.extend(choice::left_out(experiment, options));
        deviations.extend(choice::mapping_limit(experiment, &setup));
        Ok((setup, deviations))
    }

    fn resolve(experiment: &Experiment, options: &SetupOptions, machine: &Machine) -> Result<Setup> {
        let paper = &experiment.paper;
        refuse_foreign(experiment, options)?;
        let (warehouses, scale) = match experiment.data {
            Data::Columns { .. } | Data::Smallbank { .. } | Data::Tuples { .. } => (Vec::new(), 0.0),
            Data::TpcC { paper, quick } => {
                (warehouses(if options.full { paper } else { quick }, options.warehouses)?, 0.0)
            }
            Data::TpcH { paper, quick } => {
                let scale = options.scale.unwrap_or(if options.full { paper } else { quick });
                if !(0.001..=1000.0).contains(&scale) {
                    return Err(invalid(format!("--scale must be between 0.001 and 1000, not {scale}")));
                }
                (Vec::new(), scale)
            }
        };
        let (megabytes, users) = (megabytes(experiment, options)?, users(experiment, options)?);
        // A ledger's clients wait most of the time.
        let is_fixed = experiment.compared != Compared::Configurations;
        let threads = |asked: Option<usize>, paper: usize, scaled: usize, option: &str| match asked {
            Some(0) => Err(invalid(format!("{option} must be at least 1"))),
            Some(count) if count > 512 => Err(invalid(format!("{option} must be at most 512, not {count}"))),
            Some(count) => Ok(count),
            None if options.full || is_fixed => Ok(paper),
            None => Ok(scaled.clamp(1, paper.max(1))),
        };
        // The paper's threads use all of its cores; ours keep the proportion.
        let cores = machine.cores;
        let (scaled_oltp, scaled_olap) = if paper.threads_vary {
            (cores, cores)
        } else {
            let share = (cores * paper.olap).div_ceil(paper.oltp + paper.olap).clamp(1, cores);
            (cores - share, share)
        };
        let oltp = threads(options.oltp, paper.oltp, scaled_oltp, "--oltp")?;
        let olap = threads(options.olap, paper.olap, scaled_olap, "--olap")?;
        let seconds =
            options.seconds.unwrap_or(if options.full { paper.seconds } else { paper.quick_seconds });
        if !(1..=86_400).contains(&seconds) {
            return Err(invalid(format!("--seconds must be between 1 and 86400, not {seconds}")));
        }
        let time = Duration::from_secs(seconds);
        let share = (seconds as f64 / paper.seconds as f64).min(1.0);
        let engines = match options.engines.as_slice() {
            [] => Configuration::available(),
            chosen => Configuration::ALL.into_iter().filter(|engine| chosen.contains(engine)).collect(),
        };
        Ok(Setup {
            warehouses,
            scale,
            oltp,
            olap,
            time,
            lead: paper.lead.min(time / 6),
            interval: paper.interval.mul_f64(share).max(INTERVAL_MIN).min(paper.interval),
            engines,
            techniques: choice::chosen(&options.techniques),
            members: members_of(experiment, options)?,
            mechanisms: choice::mechanisms(&options.mechanisms),
            megabytes,
            users,
            tuples: tuples(experiment, options)?,
            full: options.full,
            seed: options.seed,
        })
    }

    /// Memory that the largest database of the experiment needs, roughly.
    fn memory_bytes(&self, warehouses: u32) -> u64 {
        let growth = match warehouses {
            0 => 0,
            _ => self.oltp as u64 * self.time.as_secs() * GROWTH_BYTES_PER_THREAD_SECOND,
        };
        let tpch = (self.scale * BYTES_PER_SCALE_FACTOR) as u64;
        BASE_BYTES + u64::from(warehouses) * BYTES_PER_WAREHOUSE + tpch + growth
    }

    /// Memory that the largest database of the experiment needs for data of any kind, roughly.
    fn needed_bytes(&self, experiment: &Experiment) -> u64 {
        match experiment.data {
            Data::Columns { count, factor, .. } => {
                BASE_BYTES + column_bytes(count, factor) * self.megabytes as u64
            }
            Data::Smallbank { .. } => LEDGER_BYTES + self.users * BYTES_PER_USER,
            Data::Tuples { .. } => BASE_BYTES + self.tuples * BYTES_PER_TUPLE,
            _ => self.memory_bytes(self.warehouses.last().copied().unwrap_or(0)),
        }
    }

    /// Seconds in which the smallest database of the experiment does not outgrow the memory.
    fn seconds_that_fit(&self, available: u64) -> u64 {
        let smallest = self.warehouses.first().copied().unwrap_or(0);
        let loaded = BASE_BYTES + u64::from(smallest) * BYTES_PER_WAREHOUSE;
        available.saturating_sub(loaded) / (self.oltp as u64 * GROWTH_BYTES_PER_THREAD_SECOND)
    }

    /// Leaves out sizes that do not fit, if the experiment has several; else refuses.
    fn fit_memory(
        &mut self,
        experiment: &Experiment,
        available: u64,
        deviations: &mut Vec<String>,
    ) -> Result<()> {
        let largest = self.warehouses.last().copied().unwrap_or(0);
        let needed = self.needed_bytes(experiment);
        if needed <= available {
            return Ok(());
        }
        let warehouses = self.warehouses.iter().copied();
        let fitting: Vec<u32> = warehouses.filter(|&count| self.memory_bytes(count) <= available).collect();
        if !fitting.is_empty() {
            deviations.push(format!(
                "{} does not fit into {} of available memory: at most {} warehouses instead of {largest}",
                gibibytes(needed),
                gibibytes(available),
                fitting[fitting.len() - 1],
            ));
            self.warehouses = fitting;
            return Ok(());
        }
        let advice = match experiment.data {
            Data::TpcC { .. } => {
                let rest = needed - u64::from(largest) * BYTES_PER_WAREHOUSE;
                let warehouses = available.saturating_sub(rest) / BYTES_PER_WAREHOUSE;
                let seconds = self.seconds_that_fit(available);
                match (warehouses, seconds) {
                    (1.., _) => format!("at most --warehouses {warehouses} fits"),
                    (0, 1..) => format!("at most --seconds {seconds} fits"),
                    (0, 0) => "use fewer --oltp threads or --warehouses".to_owned(),
                }
            }
            Data::Columns { count, factor, .. } => {
                let possible = available.saturating_sub(BASE_BYTES) / column_bytes(count, factor);
                format!("at most --megabytes {possible} fits")
            }
            Data::Smallbank { .. } => {
                let possible = available.saturating_sub(LEDGER_BYTES) / BYTES_PER_USER;
                format!("at most --users {possible} fits")
            }
            Data::Tuples { .. } => {
                let possible = available.saturating_sub(BASE_BYTES) / BYTES_PER_TUPLE;
                format!("at most --tuples {possible} fits")
            }
            Data::TpcH { .. } => {
                let possible = available.saturating_sub(BASE_BYTES) as f64 / BYTES_PER_SCALE_FACTOR;
                format!("at most --scale {:.3} fits", (possible * 1000.0).floor() / 1000.0)
            }
        };
        Err(invalid(format!(
            "{} needs about {} of memory, but {} is available: {advice}",
            experiment.id,
            gibibytes(needed),
            gibibytes(available)
        )))
    }

    /// What differs from the paper.
    fn compare(&self, experiment: &Experiment, machine: &Machine, deviations: &mut Vec<String>) {
        let paper = &experiment.paper;
        match experiment.data {
            Data::TpcC { paper, .. } if paper != self.warehouses => {
                deviations.push(format!("warehouses: {} instead of {}", list(&self.warehouses), list(paper)));
            }
            Data::TpcH { paper, .. } if paper != self.scale => {
                deviations.push(format!("scale factor {} instead of {paper}", self.scale));
            }
            Data::Smallbank { paper, .. } if paper != self.users => {
                deviations.push(format!("{} users instead of {paper}", self.users));
            }
            Data::Tuples { paper, .. } if paper != self.tuples => {
                deviations.push(format!("{} tuples instead of {paper}", self.tuples));
            }
            Data::Columns { count, paper, .. } if paper != self.megabytes => {
                deviations.push(format!(
                    "{count} column{} of {} MiB ({} pages) instead of {paper} MiB",
                    if count == 1 { "" } else { "s" },
                    self.megabytes,
                    self.megabytes << 8
                ));
            }
            _ => {}
        }
        if experiment.compared == Compared::Members {
            if self.oltp != paper.oltp {
                deviations.push(format!("at most {} clients instead of {}", self.oltp, paper.oltp));
            }
        } else if (self.oltp, self.olap) != (paper.oltp, paper.olap) {
            deviations.push(format!(
                "threads scaled to {} cores: {} OLTP + {} OLAP at most instead of {} + {}",
                machine.cores, self.oltp, self.olap, paper.oltp, paper.olap
            ));
        }
        if self.time.as_secs() != paper.seconds {
            deviations.push(format!(
                "measurements of {} s instead of {} s",
                self.time.as_secs(),
                paper.seconds
            ));
        }
        if !paper.interval.is_zero() && (self.lead, self.interval) != (paper.lead, paper.interval) {
            deviations.push(format!(
                "first query after {:.1} s, then one each {} ms, instead of {} s and {} ms",
                self.lead.as_secs_f64(),
                self.interval.as_millis(),
                paper.lead.as_secs(),
                paper.interval.as_millis()
            ));
        }
        let threads = match (paper.threads_vary, experiment.data) {
            // That databases, nodes and clients share the cores stands among what always holds.
            (_, Data::Smallbank { .. }) => 0,
            (false, _) => self.oltp + self.olap,
            // One kind varies beside a fixed number of the other.
            (true, Data::TpcC { .. }) => self.oltp.max(self.olap) + FIXED_STREAMS,
            // Clients wait while their queries run.
            (true, Data::TpcH { .. } | Data::Columns { .. } | Data::Tuples { .. }) => self.oltp,
        };
        if threads > machine.cores {
            deviations.push(format!("warning: up to {threads} threads share {} cores", machine.cores));
        }
        if cfg!(debug_assertions) {
            deviations.push("warning: built without optimization".to_owned());
        }
    }
}

/// Refuses options that mean nothing to the experiment, by the one that does.
fn refuse_foreign(experiment: &Experiment, options: &SetupOptions) -> Result<()> {
    let (data, sizes) = match experiment.data {
        Data::TpcC { .. } => ("TPC-C", "--warehouses"),
        Data::TpcH { .. } => ("TPC-H", "--scale"),
        Data::Columns { .. } => ("columns of numbers", "--megabytes"),
        Data::Smallbank { .. } => ("Smallbank", "--users"),
        Data::Tuples { .. } => ("tuples", "--tuples"),
    };
    let given = [
        ("--warehouses", options.warehouses.is_some()),
        ("--scale", options.scale.is_some()),
        ("--megabytes", options.megabytes.is_some()),
        ("--users", options.users.is_some()),
        ("--tuples", options.tuples.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(option, given)| *given && *option != sizes) {
        return Err(foreign_option(experiment, option, &format!("uses {data}"), sizes));
    }
    let (compares, by) = match experiment.compared {
        Compared::Configurations => ("compares configurations", "--engine"),
        Compared::Techniques => ("compares techniques", "--technique"),
        Compared::Members => ("compares databases below a ledger", "--members"),
        Compared::Mechanisms => ("compares mechanisms", "--mechanism"),
    };
    let given = [
        ("--engine", !options.engines.is_empty()),
        ("--technique", !options.techniques.is_empty()),
        ("--members", !options.members.is_empty()),
        ("--mechanism", !options.mechanisms.is_empty()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(option, given)| *given && *option != by) {
        return Err(foreign_option(experiment, option, compares, by));
    }
    match experiment.compared {
        Compared::Members if options.oltp.is_some() && experiment.paper.oltp < 2 => {
            Err(invalid(format!("{} has one client: --oltp does not apply", experiment.id)))
        }
        Compared::Members if options.olap.is_some() => {
            Err(invalid(format!("{} asks no queries: --olap does not apply", experiment.id)))
        }
        Compared::Techniques
            if options.olap.is_some() || (options.oltp.is_some() && experiment.paper.oltp < 2) =>
        {
            let message =
                format!("{} runs with the paper's threads: --oltp and --olap do not apply", experiment.id);
            Err(invalid(message))
        }
        Compared::Mechanisms if options.oltp.is_some() => {
            let message =
                format!("{} runs one transaction after the other: --oltp does not apply", experiment.id);
            Err(invalid(message))
        }
        Compared::Mechanisms if options.olap.is_some() && experiment.paper.olap < 2 => {
            Err(invalid(format!("{} asks one query after the other: --olap does not apply", experiment.id)))
        }
        _ => Ok(()),
    }
}

/// MiB of a column.
fn megabytes(experiment: &Experiment, options: &SetupOptions) -> Result<usize> {
    let Data::Columns { paper, quick, .. } = experiment.data else { return Ok(0) };
    match options.megabytes {
        Some(megabytes @ 1..=1_000_000) => Ok(megabytes),
        Some(other) => Err(invalid(format!("--megabytes must be between 1 and 1000000, not {other}"))),
        None if options.full => Ok(paper),
        None => Ok(quick),
    }
}

/// Smallbank's users.
fn users(experiment: &Experiment, options: &SetupOptions) -> Result<u64> {
    let Data::Smallbank { paper, quick } = experiment.data else { return Ok(0) };
    match options.users {
        Some(users @ USERS_MIN..=USERS_MAX) => Ok(users),
        Some(other) => {
            Err(invalid(format!("--users must be between {USERS_MIN} and {USERS_MAX}, not {other}")))
        }
        None if options.full => Ok(paper),
        None => Ok(quick),
    }
}

/// Tuples of a relation.
fn tuples(experiment: &Experiment, options: &SetupOptions) -> Result<u64> {
    let Data::Tuples { paper, quick } = experiment.data else { return Ok(0) };
    match options.tuples {
        Some(tuples @ TUPLES_MIN..=TUPLES_MAX) => Ok(tuples),
        Some(other) => {
            Err(invalid(format!("--tuples must be between {TUPLES_MIN} and {TUPLES_MAX}, not {other}")))
        }
        None if options.full => Ok(paper),
        None => Ok(quick),
    }
}

/// Databases below a ledger's organizations that are asked for, as far as they are installed.
fn members_of(experiment: &Experiment, options: &SetupOptions) -> Result<Vec<LedgerMembers>> {
    if experiment.compared != Compared::Members {
        return Ok(Vec::new());
    }
    let asked = members::asked(&options.members);
    let found: Vec<LedgerMembers> = asked.iter().copied().filter(|members| members.check().is_ok()).collect();
    match asked.iter().find_map(|members| members.check().err()) {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

/// Memory for each MiB of a column.
fn column_bytes(count: usize, factor: u64) -> u64 {
    (count as u64 * factor) << 20
}

/// The usual numbers of warehouses up to the one that was asked for.
fn warehouses(usual: &[u32], asked: Option<u32>) -> Result<Vec<u32>> {
    match asked {
        None => Ok(usual.to_vec()),
        Some(0) => Err(invalid("--warehouses must be at least 1".into())),
        // A warehouse number is an integer.
        Some(count) if count > 1_000_000 => {
            Err(invalid(format!("--warehouses must be at most 1000000, not {count}")))
        }
        Some(count) if usual.len() == 1 => Ok(vec![count]),
        Some(count) => {
            let mut chosen: Vec<u32> =
                [1, 10, 20, 30, 40].into_iter().filter(|usual| *usual < count).collect();
            chosen.push(count);
            Ok(chosen)
        }
    }
}

fn foreign_option(experiment: &Experiment, option: &str, does: &str, instead: &str) -> Error {
    invalid(format!("{} {does}: {option} does not apply, {instead} does", experiment.id))
}

fn list(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

pub(crate) fn invalid(message: String) -> Error {
    Error::new(SqlState::InvalidParameterValue, message)
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find;

    fn machine() -> Machine {
        Machine { cores: 4, memory_bytes: 1 << 40, cpu: "any".into(), kernel: "any".into() }
    }

    fn resolved(id: &str, options: SetupOptions) -> Result<Setup> {
        Setup::resolve(find(id)?, &options, &machine())
    }

    #[test]
    fn threads_keep_the_papers_proportion_unless_it_is_asked_for_in_full() {
        let setup = resolved("anker-fig6", SetupOptions::default()).expect("is fine");
        assert_eq!((setup.oltp, setup.olap, setup.warehouses.len()), (3, 1, 1));
        assert!(setup.interval < Duration::from_millis(500));
        let setup =
            resolved("anker-fig6", SetupOptions { full: true, ..SetupOptions::default() }).expect("is fine");
        assert_eq!((setup.oltp, setup.olap, setup.time.as_secs()), (6, 2, 180));
        assert_eq!((setup.warehouses, setup.interval), (vec![40], Duration::from_millis(500)));
    }

    #[test]
    fn what_cannot_be_is_refused_by_the_option_to_change() {
        let refusal = |id, options| resolved(id, options).expect_err("must be refused").to_string();
        let options = SetupOptions { warehouses: Some(0), ..SetupOptions::default() };
        assert_eq!(refusal("anker-fig6", options), "--warehouses must be at least 1");
        let options = SetupOptions { oltp: Some(0), ..SetupOptions::default() };
        assert_eq!(refusal("anker-fig6", options), "--oltp must be at least 1");
        let options = SetupOptions { scale: Some(1.0), ..SetupOptions::default() };
        assert!(refusal("anker-fig6", options).contains("--scale does not apply, --warehouses does"));
        let options = SetupOptions { warehouses: Some(1), ..SetupOptions::default() };
        assert!(refusal("ankerdb-fig7", options).contains("--warehouses does not apply, --scale does"));
        assert!(find("anker-fig99").err().expect("unknown").to_string().contains("anker-fig6"));
    }

    #[test]
    fn data_larger_than_memory_is_refused_or_left_out() {
        let mut setup = resolved("anker-fig6", SetupOptions::default()).expect("is fine");
        let experiment = find("anker-fig6").expect("is there");
        let error = setup.fit_memory(experiment, 1 << 20, &mut Vec::new()).expect_err("too little");
        assert!(error.to_string().contains("use fewer --oltp"), "{error}");
        let error = setup.fit_memory(experiment, 1500 << 20, &mut Vec::new()).expect_err("too little");
        assert!(error.to_string().contains("at most --warehouses"), "{error}");
        let mut setup =
            resolved("anker-tab2", SetupOptions { warehouses: Some(40), ..SetupOptions::default() })
                .expect("is fine");
        let (experiment, mut deviations) = (find("anker-tab2").expect("is there"), Vec::new());
        setup.fit_memory(experiment, 6 << 30, &mut deviations).expect("some fit");
        assert_eq!((setup.warehouses, deviations.len()), (vec![1, 10, 20], 1));
    }
}
