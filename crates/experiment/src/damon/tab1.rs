//! Table 1: how long transactions wait for a new snapshot, after 100,000 of them since the one before, of what was loaded.

use super::ours::Ours;
use super::{load_engine, options, warehouses};
use crate::finding::{Findings, Panel, Series};
use crate::harness::Harness;
use crate::mechanism::Variant;
use crate::technique::OURS;
use ankerdb_engine::{Database as Engine, Error, Result, SqlState};
use ankerdb_measure::latency::median;
use ankerdb_region::fork::Child;
use ankerdb_region::{PageSize, Region};
use ankerdb_serial::{IndexTreatment, Job, Mechanism, QuiescePolicy, SerialDatabase, Store};
use ankerdb_workload::serial::client::SerialClient;
use ankerdb_workload::serial::load::load;
use ankerdb_workload::tpcc::input::Access;
use ankerdb_workload::tpcc::load::now;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Transactions between the two snapshots.
const TRANSACTIONS: u64 = 100_000;
/// Transactions after which it is looked whether to go on.
const LOOK_EVERY: u64 = 1024;
/// Snapshots of ours that are timed.
const SNAPSHOTS: usize = 1000;
/// How often a child looks whether it is to end.
const POLL: Duration = Duration::from_millis(1);

/// The table's rows in milliseconds, on small and huge pages; then what is optional.
const PAPER: [(&str, [f64; 2]); 4] = [
    ("vm-fork", [47.0, 13.0]),
    ("tuple-shadowing", [500.0, 483.0]),
    ("twin-tuples", [94.0, 85.0]),
    ("hot-cold", [50.0, 13.0]),
];
const PAPER_OPTIONAL: [f64; 2] = [2829.0, 2097.0];

/// Runs it.
///
/// # Errors
/// The database's.
pub fn run(harness: &Harness<'_>) -> Result<Findings> {
    let names = ["4 KiB pages", "2 MiB pages"];
    let mut panel = Panel::bars("Transactions wait", "mechanism", "ms", &names);
    let mut optional = Panel::bars("Reorganization that can be left out", "mechanism", "ms", &names);
    let mechanisms = &harness.setup.mechanisms;
    harness.expect(2 * mechanisms.len() + 1);
    let (source, _) = load_engine(harness)?;
    for mechanism in mechanisms {
        let (mut waits, mut reorganizations) = ([None; 2], [None; 2]);
        for (place, variant) in
            [Variant::small(*mechanism), Variant::huge(*mechanism)].into_iter().enumerate()
        {
            if harness.is_stopped() {
                break;
            }
            let label = format!("{}, {}", mechanism.name(), names[place]);
            let measure = Measure { harness, variant, source: &source };
            let (wait, reorganization) = harness.measure(&label, || mechanism.run(measure))?;
            (waits[place], reorganizations[place]) = (Some(ms(wait)), Some(ms(reorganization)));
        }
        panel.add(mechanism.name(), &waits);
        if *mechanism == Mechanism::HotCold {
            optional.add(mechanism.name(), &reorganizations);
        }
    }
    drop(source);
    if !harness.is_stopped() {
        let creation = harness.measure(OURS, || ours(harness))?;
        panel.add(OURS, &[Some(creation); 2]);
    }
    let paper = |name: &str, times: [f64; 2]| {
        Series::paper(name, (0..).zip(times).map(|(place, time)| (f64::from(place), time)).collect())
    };
    panel.series.extend(PAPER.map(|(name, times)| paper(name, times)));
    optional.series.push(paper("hot-cold", PAPER_OPTIONAL));
    Ok(Findings { panels: vec![panel, optional], notes: Vec::new() })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

struct Measure<'a> {
    harness: &'a Harness<'a>,
    variant: Variant,
    source: &'a Engine,
}

impl Job for Measure<'_> {
    /// How long transactions wait, and reorganization that can be left out takes.
    type Output = Result<(Duration, Duration)>;

    fn run<S: Store>(self) -> Self::Output {
        let harness = self.harness;
        let options = options::<S>(self.variant.kind, IndexTreatment::Abandon, TRANSACTIONS);
        let (mut database, tables) = load::<S>(self.source, &options)?;
        let mut client = SerialClient::new(tables, harness.setup.seed, 0, warehouses(harness), Access::Home);
        // A snapshot of what was loaded is there meanwhile.
        let first = if S::MECHANISM.forks() { Some(Idle::fork(&database)?) } else { None };
        for number in 0..TRANSACTIONS {
            client.run_next(&mut database, now())?;
            if number % LOOK_EVERY == 0 {
                harness.progress(number as f64 / TRANSACTIONS as f64);
                stopped(harness)?;
            }
        }
        let mut wait = database.refresh(QuiescePolicy::Wait)?;
        if S::MECHANISM.forks() {
            let second = Idle::fork(&database)?;
            wait += second.child.fork_time();
            second.end()?;
        }
        first.map_or(Ok(()), Idle::end)?;
        Ok((wait, database.reorganize()))
    }
}

/// # Errors
/// 57014 if the user stops it.
fn stopped(harness: &Harness<'_>) -> Result<()> {
    match harness.is_stopped() {
        true => Err(Error::new(SqlState::QueryCanceled, "the experiment was stopped")),
        false => Ok(()),
    }
}

/// A child that only has its memory.
struct Idle {
    word: Arc<Region>,
    child: Child,
}

impl Idle {
    fn fork<S: Store>(database: &SerialDatabase<S>) -> Result<Idle> {
        let word = Region::shared(PageSize::Small, size_of::<u64>())?;
        let ends = &word.words()[0];
        let child = database.fork(size_of::<u64>(), |_, _| {
            while ends.load(Relaxed) == 0 {
                std::thread::sleep(POLL);
            }
            Ok(())
        })?;
        Ok(Idle { word, child })
    }

    fn end(self) -> Result<()> {
        self.word.words()[0].store(1, Relaxed);
        self.child.wait(&|| false).map(drop)
    }
}

/// Milliseconds to take a snapshot of ours, while the one of what was loaded is there.
fn ours(harness: &Harness<'_>) -> Result<f64> {
    let mut ours = Ours::load(harness)?;
    let _first = ours.database.snapshot();
    for number in 0..TRANSACTIONS {
        ours.transact()?;
        if number % LOOK_EVERY == 0 {
            harness.progress(number as f64 / TRANSACTIONS as f64);
            stopped(harness)?;
        }
    }
    let mut times = Vec::new();
    for _ in 0..SNAPSHOTS {
        let begun = Instant::now();
        let snapshot = ours.database.snapshot();
        times.push(ms(begun.elapsed()));
        drop(snapshot);
    }
    Ok(median(&mut times).unwrap_or_default())
}
