//! `bench long-reader`: the cost of a transaction or snapshot that stays open for long while transactions run at
//! full speed.
//!
//! ```text
//! turn        1: snapshot                     2: transaction                3: snapshot ...
//! reader      ........|----------------|........ ........|----------------|........
//! phase        before        held        after    before        held        after
//! ```
//!
//! Each time that a reader is held is compared with the time directly before and after it, together as long, so that a
//! steady change (the tables grow) is the same on both sides. Every interval a sample is taken: throughput, memory of
//! versions and of the newest values, and of the whole process.
//!
//! Old versions are kept for the reader, so their memory grows until every row that transactions write to has been
//! written to once; then it stays as it is, however long the reader lives: one version for each row touched. The
//! largest is printed beside the number of rows that could have been touched.
//!
//! A reader that is a transaction reads all warehouses when it begins and before it ends; it must see the same.

use super::config::{SECONDS_MAX, invalid};
use super::report::{About, BenchReport, Sample};
use super::rounds::{Phase, Ratio, Rounds, Variant, WARM_UP, stopped};
use super::stream::Stream;
use super::tpcc::{TpccConfig, TpccWorkload};
use crate::htap::config::isolation_name;
use crate::tpcc::check::{CONDITIONS, check};
use crate::tpcc::load::{LoadOptions, load};
use crate::tpcc::schema::{TpccTables, warehouse};
use crate::watch::{Event, Watch};
use ankerdb_engine::{ColumnSet, Database, Isolation, Result, Snapshot, Transaction};
use ankerdb_measure::machine::Machine;
use serde_json::json;
use std::fs::read_to_string;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Throughput beside a reader should be at least this share of that without one.
const KEPT: f64 = 0.9;
/// Time between samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// The kind of reader that is held open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LongReader {
    /// A snapshot, as analytical queries use it.
    Snapshot,
    /// A transaction of the level that the others have.
    Transaction,
}

impl LongReader {
    /// All.
    pub const ALL: [LongReader; 2] = [LongReader::Snapshot, LongReader::Transaction];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            LongReader::Snapshot => "snapshot",
            LongReader::Transaction => "transaction",
        }
    }
}

/// One run of `bench long-reader`.
#[derive(Clone, Debug)]
pub struct LongReaderConfig {
    /// The transactions. `seconds` is how long a reader is held each time; every reader is held once a round.
    pub tpcc: TpccConfig,
    /// The readers that are held open, one after the other.
    pub readers: Vec<LongReader>,
}

impl LongReaderConfig {
    /// Refuses options that cannot work; returns warnings about those that work badly.
    ///
    /// # Errors
    /// 22023, saying what would be accepted.
    pub fn check(&self, machine: &Machine) -> Result<Vec<String>> {
        if !self.tpcc.bench.compare.is_empty() {
            return Err(invalid("--compare is for the other benchmarks, not for long-reader".to_owned()));
        }
        if self.tpcc.durable.is_some() {
            return Err(invalid("--durable is for tpcc, not for long-reader".to_owned()));
        }
        if self.readers.is_empty() {
            return Err(invalid("--reader must name at least one of snapshot, transaction".to_owned()));
        }
        // All of the run makes the tables grow, and there is as much time without a reader as with one.
        let mut whole = self.tpcc.clone();
        let turns = u64::from(whole.bench.rounds).saturating_mul(self.readers.len() as u64);
        whole.bench.seconds = whole.bench.seconds.saturating_mul(turns.saturating_mul(2)).min(SECONDS_MAX);
        whole.check(machine)
    }

    /// One line about the run.
    pub fn title(&self) -> String {
        let readers: Vec<&str> = self.readers.iter().map(|reader| reader.name()).collect();
        format!("{} held open, {}", readers.join(", "), self.tpcc.title())
    }
}

/// A reader while it is held.
enum Held {
    Snapshot(#[allow(dead_code, reason = "it is there to be kept")] Snapshot),
    Transaction(Box<Transaction>, Vec<i128>),
}

/// The state that all turns share.
struct Run<'a> {
    database: &'a Database,
    tables: &'a Arc<TpccTables>,
    rounds: Rounds<'a>,
    readers: &'a [LongReader],
    began: Instant,
    timeline: Vec<Sample>,
    violations: Vec<String>,
    phases: Vec<Phase>,
    /// Numbers streams, so that no two have the same inputs.
    streams: usize,
}

/// Loads, measures and checks, like [`tpcc::run`](super::tpcc::run).
///
/// # Errors
/// Those of [`tpcc::run`](super::tpcc::run).
pub fn run(
    config: &LongReaderConfig,
    machine: &Machine,
    warnings: Vec<String>,
    watch: &Watch<'_>,
) -> Result<BenchReport> {
    let tpcc = &config.tpcc;
    let database = Database::with(tpcc.bench.engine);
    let options = LoadOptions::new(tpcc.warehouses as i32, tpcc.bench.seed);
    let tables = Arc::new(load(&database, &options, &|done, total| watch.loading(done, total))?);
    let workload = TpccWorkload::new(&database, &tables, tpcc.warehouses, tpcc.mix, tpcc.access);
    let mut run = Run {
        database: &database,
        tables: &tables,
        rounds: rounds(config, &workload, watch),
        readers: &config.readers,
        began: Instant::now(),
        timeline: Vec::new(),
        violations: Vec::new(),
        phases: Vec::new(),
        streams: 0,
    };
    let turns = tpcc.bench.rounds as usize * config.readers.len();
    for turn in 0..turns {
        if run.rounds.is_over() {
            break;
        }
        run.turn(turn, Duration::from_secs(tpcc.bench.seconds))?;
    }
    if run.phases.is_empty() {
        return Err(stopped());
    }
    watch.tell(Event::Checking);
    run.violations.extend(check(&database, &tables)?.iter().map(ToString::to_string));
    let about = About {
        benchmark: "long-reader",
        own: json!({
            "warehouses": tpcc.warehouses,
            "mix": tpcc.mix.name(),
            "access": tpcc.access.name(),
            "readers": config.readers.iter().map(|reader| reader.name()).collect::<Vec<_>>(),
        }),
        machine: machine.clone(),
        warnings,
        conditions: CONDITIONS,
        violations: Some(run.violations),
    };
    Ok(BenchReport::new(&run.rounds, about, &run.phases).with_timeline(run.timeline))
}

/// Variant 0 has no reader; variant n + 1 has reader n.
fn rounds<'a>(config: &'a LongReaderConfig, workload: &'a TpccWorkload, watch: &'a Watch<'a>) -> Rounds<'a> {
    let bench = &config.tpcc.bench;
    let variant =
        |name: String| Variant { name, threads: bench.threads, isolation: bench.isolation, workload };
    let mut variants = vec![variant("no reader".to_owned())];
    let mut ratios = Vec::new();
    for (number, reader) in config.readers.iter().enumerate() {
        let (name, ratio) = match reader {
            LongReader::Snapshot => ("snapshot open".to_owned(), "throughput kept beside an open snapshot"),
            LongReader::Transaction => {
                let level = isolation_name(bench.isolation);
                (format!("transaction open, {level}"), "throughput kept beside an open transaction")
            }
        };
        variants.push(variant(name));
        ratios.push(Ratio { name: ratio, over: number + 1, under: 0, target: KEPT });
    }
    Rounds::of(bench, variants, ratios, watch)
}

impl Run<'_> {
    fn turn(&mut self, turn: usize, time: Duration) -> Result<()> {
        let reader = turn % self.readers.len();
        let mut free = self.phase(turn, 0, time / 2, None)?;
        let held = self.phase(turn, reader + 1, time, Some(self.readers[reader]))?;
        let after = self.phase(turn, 0, time / 2, None)?;
        free.result.add(&after.result);
        free.noise.steal = free.noise.steal.max(after.noise.steal);
        free.noise.others = free.noise.others.max(after.noise.others);
        // A turn that the user cut short is not comparable.
        if !self.rounds.is_over() || self.phases.is_empty() {
            self.phases.extend([free, held]);
        }
        Ok(())
    }

    fn phase(
        &mut self,
        turn: usize,
        variant: usize,
        time: Duration,
        reader: Option<LongReader>,
    ) -> Result<Phase> {
        let name = self.rounds.variants[variant].name.clone();
        self.rounds.watch.tell(Event::Phase { round: turn as u32 + 1, name: &name });
        let mut timeline = Vec::new();
        let held = reader.map(|reader| self.open(reader)).transpose()?;
        self.streams += 1;
        let phase = self.rounds.measure(self.streams, variant, WARM_UP, |stream| {
            self.watch_phase(&name, time, stream, &mut timeline);
        });
        self.timeline.append(&mut timeline);
        held.map_or(Ok(()), |held| self.close(held))?;
        let mut phase = phase?;
        phase.round = turn as u32 + 1;
        Ok(phase)
    }

    fn open(&self, reader: LongReader) -> Result<Held> {
        Ok(match reader {
            LongReader::Snapshot => Held::Snapshot(self.database.snapshot()),
            LongReader::Transaction => {
                let isolation = self.rounds.config.isolation;
                let mut transaction = Box::new(self.database.session().begin(isolation));
                let seen = self.warehouses(&mut transaction)?;
                Held::Transaction(transaction, seen)
            }
        })
    }

    fn close(&mut self, held: Held) -> Result<()> {
        if let Held::Transaction(mut transaction, before) = held {
            let after = self.warehouses(&mut transaction)?;
            let is_promised =
                matches!(self.rounds.config.isolation, Isolation::RepeatableRead | Isolation::Serializable);
            if is_promised && before != after {
                self.violations
                    .push("a transaction saw the warehouses' w_ytd change while it was open".to_owned());
            }
        }
        Ok(())
    }

    /// W_YTD of all warehouses.
    fn warehouses(&self, transaction: &mut Transaction) -> Result<Vec<i128>> {
        let (table, mut seen) = (&self.tables.warehouse, Vec::new());
        let columns = ColumnSet::of(&[warehouse::W_YTD]);
        transaction.scan_table(table, columns, None, &mut |transaction, row| {
            seen.push(transaction.decimal(table, row, warehouse::W_YTD));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(seen)
    }

    /// Waits until the phase is over, taking samples.
    fn watch_phase(&self, name: &str, time: Duration, stream: &Stream, timeline: &mut Vec<Sample>) {
        let (begin, mut last, mut before) = (Instant::now(), Instant::now(), stream.completed());
        while begin.elapsed() < time && !self.rounds.is_over() && !stream.has_failed() {
            let rest = time.saturating_sub(begin.elapsed());
            self.rounds.wait(INTERVAL.min(rest), stream);
            let (now, completed) = (Instant::now(), stream.completed());
            let statistics = self.database.statistics();
            timeline.push(Sample {
                second: (now - self.began).as_secs_f64(),
                phase: name.to_owned(),
                oltp_tps: (completed - before) as f64 / (now - last).as_secs_f64().max(1e-9),
                version_bytes: statistics.version_bytes as u64,
                table_bytes: statistics.table_bytes as u64,
                process_bytes: process_bytes(),
                rows: self.rows(),
            });
            // The time that the statistics took belongs to no interval.
            (last, before) = (Instant::now(), stream.completed());
        }
    }

    /// Rows of the tables that transactions change rows of.
    fn rows(&self) -> u64 {
        let TpccTables { warehouse, district, customer, stock, orders, order_line, new_order, .. } =
            &**self.tables;
        let changed = [warehouse, district, customer, stock, orders, order_line, new_order];
        changed.iter().map(|table| table.row_count() as u64).sum()
    }
}

/// Memory of this process that is in use; 0 if the system does not say.
fn process_bytes() -> u64 {
    let pages = read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
