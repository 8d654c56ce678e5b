//! `bench recovery`: how fast a database starts again, from its log and from its last checkpoint's images.
//!
//! A table without an index and one with a primary key are filled in a folder, each in its own. Each folder is opened once a
//! round from the log alone; then a checkpoint is taken, and it is opened once a round from the images alone. What was written
//! a moment ago is in the page cache, so this measures the processors' work and not the disk. Beside each figure stands its share
//! of what all processors get done when they only copy memory, measured in the same rounds.
//!
//! The primary key's index is not in files: it is made anew. A rate counts the bytes read from files. Images and log hold about the same bytes of a row.

use super::config::{at_least_one, invalid};
use super::own_folder::{OwnFolder, check_parent};
use super::rounds::stopped;
use crate::commit;
use crate::watch::{Event, Watch};
use ankerdb_engine::{
    CheckpointOptions, ColumnDefinition, Configuration, DataType, Database, Durability, Error, Isolation,
    NoTexts, Result, TableDefinition, Value,
};
use ankerdb_measure::latency::median;
use ankerdb_measure::machine::Machine;
use serde::Serialize;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rows of a transaction that fills a table.
const BATCH: i64 = 10_000;
/// Bytes that each processor copies at once.
const COPIED: usize = 128 << 20;
/// Bytes of a row with its part of the primary key, on disk and in memory, generously.
const ROW_BYTES: u64 = 400;

/// One run of `bench recovery`.
#[derive(Clone, Debug, Serialize)]
pub struct RecoveryConfig {
    /// Rows of each table.
    pub rows: u64,
    /// Rounds.
    pub rounds: u32,
    /// Where folders of the database are made, and removed again.
    pub folder: PathBuf,
}

impl RecoveryConfig {
    /// What is run, in words.
    pub fn title(&self) -> String {
        format!("{} rows, {} rounds, in \"{}\"", self.rows, self.rounds, self.folder.display())
    }

    /// Refuses options that cannot work; returns warnings about those that work badly.
    ///
    /// # Errors
    /// 22023 for no rows or rounds, a folder that is not there, and if the memory that is free will not hold the rows.
    pub fn check(&self) -> Result<Vec<String>> {
        at_least_one("--rows", self.rows)?;
        at_least_one("--rounds", u64::from(self.rounds))?;
        check_parent("--folder", &self.folder)?;
        let needed = self.rows.saturating_mul(ROW_BYTES);
        let free = ankerdb_measure::machine::available_memory_bytes();
        if let Some(free) = free.filter(|free| *free < needed) {
            let message =
                format!("{} rows need about {} MB, {} MB are free", self.rows, needed >> 20, free >> 20);
            return Err(invalid(message));
        }
        let is_short = self.rows < 500_000;
        let warning = || "so few rows are read in moments that are hard to measure".to_owned();
        Ok(is_short.then(warning).into_iter().collect())
    }
}

/// What is read when a database starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadAgain {
    /// The log alone.
    Log,
    /// A checkpoint's images alone.
    Images,
}

impl ReadAgain {
    /// Gigabytes per second that each processor should read.
    pub fn goal(self) -> f64 {
        match self {
            ReadAgain::Log => 0.5,
            ReadAgain::Images => 1.0,
        }
    }

    fn name(self) -> &'static str {
        match self {
            ReadAgain::Log => "log",
            ReadAgain::Images => "images",
        }
    }
}

/// How a table was read from one source.
#[derive(Clone, Debug, Serialize)]
pub struct RestartFigure {
    /// Whether the table has a primary key.
    pub has_key: bool,
    /// From where.
    pub source: ReadAgain,
    /// Bytes in files.
    pub bytes: u64,
    /// From the call that opens the database to its return, in each round.
    pub seconds: Vec<f64>,
    /// Gigabytes of files for each second and processor, the median.
    pub gb_per_core_second: f64,
    /// Of what copying memory with all processors gives, in percent.
    pub percent_of_copying: f64,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct Restarts {
    benchmark: &'static str,
    config: RecoveryConfig,
    machine: Machine,
    commit: &'static str,
    warnings: Vec<String>,
    /// Gigabytes per second, all processors together, each byte counted once: the median of the rounds.
    pub copying_gb_per_second: f64,
    /// Two for each table.
    pub figures: Vec<RestartFigure>,
}

/// Fills, opens, measures.
///
/// # Errors
/// Those of the folder and of memory; 57014 if it was stopped.
pub fn run(
    config: &RecoveryConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
) -> Result<Restarts> {
    let mut copying = Vec::new();
    let mut figures = Vec::new();
    for has_key in [false, true] {
        let folder = OwnFolder::new(&config.folder, if has_key { "key" } else { "rows" });
        figures.extend(restarts(config, folder.path(), has_key, machine, &mut copying, watch)?);
    }
    let copying_gb_per_second = median(&mut copying).expect("there are rounds");
    for figure in &mut figures {
        let all = figure.gb_per_core_second * machine.cores as f64;
        figure.percent_of_copying = 100.0 * all / copying_gb_per_second;
    }
    Ok(Restarts {
        benchmark: "recovery",
        config: config.clone(),
        machine: machine.clone(),
        commit: commit(),
        warnings,
        copying_gb_per_second,
        figures,
    })
}

/// One table, from its log and from its images.
fn restarts(
    config: &RecoveryConfig,
    folder: &Path,
    has_key: bool,
    machine: &Machine,
    copying: &mut Vec<f64>,
    watch: &Watch<'_>,
) -> Result<Vec<RestartFigure>> {
    let database = open(folder)?;
    fill(&database, config.rows, has_key, watch)?;
    let log_bytes = database.durability_state().map_or(0, |state| state.log_bytes);
    // Dropped, not closed: there is no checkpoint.
    drop(database);
    let mut figures = Vec::new();
    for source in [ReadAgain::Log, ReadAgain::Images] {
        if source == ReadAgain::Images {
            open(folder)?.close()?;
        }
        let bytes = if source == ReadAgain::Log { log_bytes } else { bytes_of_images(folder)? };
        let table = if has_key { "with a primary key" } else { "without an index" };
        let mut seconds = Vec::new();
        for round in 1..=config.rounds {
            if watch.is_stopped() {
                return Err(stopped());
            }
            watch.tell(Event::Phase { round, name: &format!("a table {table}, from the {}", source.name()) });
            copying.push(copying_speed(machine.cores));
            seconds.push(time_to_open(folder, config.rows)?);
        }
        let time = median(&mut seconds.clone()).expect("there are rounds");
        let gb_per_core_second = bytes as f64 / 1e9 / time / machine.cores as f64;
        figures.push(RestartFigure {
            has_key,
            source,
            bytes,
            seconds,
            gb_per_core_second,
            percent_of_copying: 0.0,
        });
    }
    Ok(figures)
}

/// Without checkpoints of its own.
fn open(folder: &Path) -> Result<Database> {
    let checkpoints =
        CheckpointOptions { log_bytes: u64::MAX / 8, interval: Duration::MAX, bytes_per_second: None };
    let durability = Durability { checkpoints, ..Durability::in_folder(folder) };
    Database::open_in(Configuration::default(), &durability, &NoTexts)
}

/// Seconds; an error if not all rows are there.
fn time_to_open(folder: &Path, rows: u64) -> Result<f64> {
    let begin = Instant::now();
    let database = open(folder)?;
    let seconds = begin.elapsed().as_secs_f64();
    let found = database.catalog().table(TABLE)?.row_count() as u64;
    if found == rows {
        Ok(seconds)
    } else {
        Err(Error::internal(format!("{found} of {rows} rows are there")))
    }
}

const TABLE: &str = "t";

fn fill(database: &Database, rows: u64, has_key: bool, watch: &Watch<'_>) -> Result<()> {
    let definition = TableDefinition::new(TABLE)
        .column(ColumnDefinition::new("id", DataType::BigInt))
        .column(ColumnDefinition::new("a", DataType::BigInt))
        .column(ColumnDefinition::new("b", DataType::Integer))
        .column(ColumnDefinition::new("c", DataType::Text).nullable());
    let definition = if has_key { definition.primary_key(&["id"]) } else { definition };
    let table = database.create_table(definition)?;
    let mut session = database.session();
    let rows = rows as i64;
    for start in (0..rows).step_by(BATCH as usize) {
        let end = rows.min(start + BATCH);
        session.run(Isolation::RepeatableRead, |transaction| {
            (start..end).try_for_each(|id| transaction.insert(&table, row(id)).map(drop))
        })?;
        if watch.loading(end as u64, rows as u64).is_break() {
            return Err(stopped());
        }
    }
    Ok(())
}

fn row(id: i64) -> Vec<Value> {
    let text = Value::text(format!("row {id:10} with a text beside its view"));
    vec![Value::BigInt(id), Value::BigInt(id), Value::Integer(1), text]
}

fn bytes_of_images(folder: &Path) -> Result<u64> {
    let unreadable = |error: std::io::Error| Error::internal(format!("cannot list the folder: {error}"));
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.path().extension().is_some_and(|extension| extension == "blocks") {
            bytes += entry.metadata().map_err(unreadable)?.len();
        }
    }
    Ok(bytes)
}

/// Gigabytes that so many threads copy in a second.
fn copying_speed(threads: usize) -> f64 {
    let mut copies: Vec<(Vec<u8>, Vec<u8>)> =
        (0..threads).map(|_| (vec![1; COPIED], vec![2; COPIED])).collect();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for (from, to) in &mut copies {
            scope.spawn(|| (0..4).for_each(|_| to.copy_from_slice(black_box(from))));
        }
    });
    (threads * 4 * COPIED) as f64 / 1e9 / begin.elapsed().as_secs_f64()
}

impl Restarts {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let Machine { cores, cpu, .. } = &self.machine;
        let _ = writeln!(text, "bench recovery: {}", self.config.title());
        let _ = writeln!(text, "{cores} cores, {cpu}; commit {}", self.commit);
        let _ = writeln!(text, "copying memory with all of them: {:.1} GB/s\n", self.copying_gb_per_second);
        let _ = writeln!(
            text,
            "table               from     MB  seconds (fastest to slowest)  GB/s per core  of copying  goal"
        );
        for figure in &self.figures {
            let RestartFigure { has_key, source, bytes, seconds, gb_per_core_second, percent_of_copying } =
                figure;
            let mut sorted = seconds.clone();
            let middle = median(&mut sorted).expect("there are rounds");
            let range = format!("{middle:.2} ({:.2} to {:.2})", sorted[0], sorted[sorted.len() - 1]);
            let _ = writeln!(
                text,
                "{:<18}  {:<6} {:>5}  {range:<29} {gb_per_core_second:>13.2}  {percent_of_copying:>8.1} %  {:>4.1}",
                if *has_key { "with a primary key" } else { "without an index" },
                source.name(),
                bytes >> 20,
                source.goal(),
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::SqlState;
    use std::sync::atomic::AtomicBool;

    /// Runs it in a folder of a test's; returns what is left there, too.
    fn tried(name: &str, rows: u64, stop: bool) -> (Result<Restarts>, usize) {
        let folder = std::env::temp_dir().join(format!("ankerdb-restarts-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("room for a folder");
        let config = RecoveryConfig { rows, rounds: 2, folder: folder.clone() };
        let watch = Watch { stop: &AtomicBool::new(stop), observer: &|_| () };
        let result = run(&config, &Machine::detect(), Vec::new(), &watch);
        let left = std::fs::read_dir(&folder).expect("it is there").count();
        std::fs::remove_dir_all(&folder).expect("it can go");
        (result, left)
    }

    #[test]
    fn both_tables_are_read_from_both_sources_and_the_folders_go() {
        let (result, left) = tried("all", 12_345, false);
        let restarts = result.expect("it runs");
        assert_eq!((restarts.figures.len(), left), (4, 0));
        for figure in &restarts.figures {
            // Two numbers, an integer and a text of some forty characters.
            assert!((12_345 * 50..12_345 * 200).contains(&figure.bytes), "{figure:?}");
            assert!(figure.gb_per_core_second > 0.0 && figure.percent_of_copying > 0.0, "{figure:?}");
            assert_eq!(figure.seconds.len(), 2);
        }
        assert_eq!(restarts.text().matches("images").count(), 2);
    }

    #[test]
    fn one_that_is_stopped_leaves_nothing() {
        let (result, left) = tried("stopped", 100_000, true);
        assert_eq!((result.expect_err("it was stopped").state(), left), (SqlState::QueryCanceled, 0));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let config = |rows, rounds| RecoveryConfig { rows, rounds, folder: std::env::temp_dir() };
        let nowhere = RecoveryConfig { folder: std::env::temp_dir().join("no folder"), ..config(1, 1) };
        for wrong in [config(0, 1), config(1, 0), config(u64::MAX, 1), nowhere] {
            assert_eq!(wrong.check().expect_err("refused").state(), SqlState::InvalidParameterValue);
        }
        assert_eq!(config(1_000, 1).check().expect("it works").len(), 1);
    }
}
