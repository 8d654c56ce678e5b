//! The phases of the benchmark, one function each; see the table in [`htap`](super).

use super::bench::{Event, Watch};
use super::config::{HtapConfig, isolation_name};
use super::latency::Latencies;
use super::machine::CpuTimes;
use super::olap::{Analyst, OlapResult, Order, QueryRun};
use super::oltp::{OltpOptions, OltpResult, OltpStream, OltpWorld};
use super::queries::{QUERIES, TABLES};
use super::report::PhaseReport;
use ankerdb_engine::{Isolation, Result};
use ankerdb_sql::SqlEngine;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Snapshots taken beside both streams, where many are asked for.
pub const SNAPSHOTS_PER_SECOND: u64 = 1000;
/// Before a phase counts, its threads run this long unrecorded.
const WARM_UP: Duration = Duration::from_millis(100);
/// How often a waiting phase looks whether the user wants to stop.
const POLL: Duration = Duration::from_millis(10);
/// Time between two snapshots where many are asked for.
const SNAPSHOT_INTERVAL: Duration = Duration::from_micros(1_000_000 / SNAPSHOTS_PER_SECOND);
/// Pause between snapshots of the loop that only takes snapshots, so that it is no load of its own.
const SNAPSHOT_PAUSE: Duration = Duration::from_micros(20);

/// A phase's result, and whether too much of the CPU went elsewhere meanwhile.
pub struct Measured<T> {
    pub value: T,
    pub void: bool,
}

/// Both streams side by side.
#[derive(Default)]
pub struct Hybrid {
    pub oltp: OltpResult,
    pub olap: OlapResult,
    /// Of the snapshots that nobody queried, where many were asked for.
    pub creation: Latencies,
    /// How long these were being taken.
    pub seconds_of_snapshots: f64,
}

/// Latencies in milliseconds of one query over both storages.
#[derive(Clone, Default)]
pub struct StoragePair {
    pub own: Vec<f64>,
    pub memory: Vec<f64>,
}

/// Everything a phase needs, and the log of all phases.
pub struct Phases<'a> {
    pub config: &'a HtapConfig,
    pub world: OltpWorld,
    pub engine: SqlEngine,
    pub analyst: Analyst,
    pub watch: &'a Watch<'a>,
    pub log: Vec<PhaseReport>,
    pub round: u32,
    /// Streams of inputs used so far: no two phases repeat the same inputs.
    pub streams: u64,
}

impl Phases<'_> {
    /// Runs a phase and logs its length and disturbance. `describe` adds what it counted.
    fn phase<T>(
        &mut self,
        name: &'static str,
        run: impl FnOnce(&mut Self) -> Result<T>,
        describe: impl FnOnce(&T, &mut PhaseReport),
    ) -> Result<Measured<T>> {
        self.watch.tell(Event::Phase { round: self.round, name });
        let (started, before) = (Instant::now(), CpuTimes::now());
        let value = run(self)?;
        let disturbance = CpuTimes::now().disturbance_since(before);
        let mut report = PhaseReport::new(self.round, name, started.elapsed(), disturbance);
        describe(&value, &mut report);
        let void = report.void;
        self.log.push(report);
        Ok(Measured { value, void })
    }

    fn start_oltp(&mut self, isolation: Isolation) -> OltpStream {
        self.streams += 1;
        let options = OltpOptions {
            threads: self.config.oltp_threads,
            isolation,
            access: self.config.access,
            warehouses: self.config.warehouses,
            seed: self.config.seed.wrapping_add(self.streams.wrapping_mul(0x5851_f42d_4c95_7f2d)),
            limit: None,
        };
        OltpStream::start(&self.world, &options)
    }

    /// Waits until the time is over, the user stops, or the stream breaks.
    fn wait(&self, time: Duration, stream: &OltpStream) {
        let end = Instant::now() + time;
        while !self.watch.is_stopped() && !stream.has_ended_early() {
            match end.checked_duration_since(Instant::now()) {
                Some(rest) => std::thread::sleep(rest.min(POLL)),
                None => return,
            }
        }
    }

    /// Warms up, records for a while, stops.
    fn record(&self, mut stream: OltpStream, time: Duration) -> Result<OltpResult> {
        self.wait(WARM_UP.min(time / 4), &stream);
        stream.record();
        self.wait(time, &stream);
        stream.stop()
    }

    /// Analytics without transactions.
    pub fn idle(&mut self, time: Duration) -> Result<Measured<OlapResult>> {
        let run = |phases: &mut Self| {
            let end = Instant::now() + time;
            let watch = phases.watch;
            phases
                .analyst
                .stream(Order::InTurn, None, &mut |_| go_on(Instant::now() < end && !watch.is_stopped()))
        };
        self.phase("idle", run, |result, report| report.queries = Some(result.runs.len()))
    }

    /// Transactions beside threads that only burn CPU.
    pub fn control(&mut self, time: Duration) -> Result<Measured<OltpResult>> {
        let run = |phases: &mut Self| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..phases.config.olap_threads {
                    scope.spawn(|| burn(&stop));
                }
                let stream = phases.start_oltp(phases.config.isolation);
                let result = phases.record(stream, time);
                stop.store(true, Ordering::Relaxed);
                result
            })
        };
        self.phase("control", run, describe_oltp)
    }

    /// Both streams, one snapshot for each query.
    pub fn hybrid(&mut self, time: Duration) -> Result<Measured<Hybrid>> {
        self.phase("hybrid", |phases| phases.side_by_side(time), describe_hybrid)
    }

    /// Both streams, and 1,000 snapshots per second besides, each held until the next one is taken.
    pub fn frequent(&mut self, time: Duration) -> Result<Measured<Hybrid>> {
        let run = |phases: &mut Self| {
            let (stop, database) = (AtomicBool::new(false), phases.world.database.clone());
            std::thread::scope(|scope| {
                let began = Instant::now();
                let taker = scope.spawn(|| hold_snapshots(&mut database.session(), &stop));
                let hybrid = phases.side_by_side(time);
                stop.store(true, Ordering::Relaxed);
                let creation = taker.join().expect("taking snapshots does not panic");
                let seconds_of_snapshots = began.elapsed().as_secs_f64();
                Ok(Hybrid { creation, seconds_of_snapshots, ..hybrid? })
            })
        };
        self.phase("hybrid, 1000 snapshots/s", run, describe_hybrid)
    }

    fn side_by_side(&mut self, time: Duration) -> Result<Hybrid> {
        let mut stream = self.start_oltp(self.config.isolation);
        self.wait(WARM_UP.min(time / 4), &stream);
        stream.record();
        let olap = self.hybrid_queries(time, &stream);
        let oltp = stream.stop()?;
        Ok(Hybrid { oltp, olap: olap?, ..Hybrid::default() })
    }

    fn hybrid_queries(&mut self, time: Duration, stream: &OltpStream) -> Result<OlapResult> {
        let end = Instant::now() + time;
        let (watch, marker) = (self.watch, self.world.marker.clone());
        let ended = AtomicBool::new(false);
        let order = Order::Random(fastrand::Rng::with_seed(self.config.seed ^ self.streams));
        std::thread::scope(|scope| {
            // Should the OLTP stream break, nobody would acknowledge markers any more: this thread ends the wait.
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) && !stream.has_ended_early() {
                    std::thread::sleep(POLL);
                }
                ended.store(true, Ordering::Relaxed);
            });
            let mut continue_after = |_: &QueryRun| go_on(Instant::now() < end && !watch.is_stopped());
            let result = self.analyst.stream(order, Some((&marker, &ended)), &mut continue_after);
            ended.store(true, Ordering::Relaxed);
            result
        })
    }

    /// Transactions beside a thread that takes and drops snapshots.
    pub fn snapshots(&mut self, time: Duration) -> Result<Measured<(OltpResult, Latencies)>> {
        let run = |phases: &mut Self| {
            let stop = AtomicBool::new(false);
            let database = phases.world.database.clone();
            std::thread::scope(|scope| {
                let mut stream = phases.start_oltp(phases.config.isolation);
                phases.wait(WARM_UP.min(time / 4), &stream);
                stream.record();
                let taker = scope.spawn(|| take_snapshots(&mut database.session(), &stop));
                phases.wait(time, &stream);
                stop.store(true, Ordering::Relaxed);
                let creation = taker.join().expect("taking snapshots does not panic");
                Ok((stream.stop()?, creation))
            })
        };
        self.phase("snapshots", run, |(oltp, _), report| describe_oltp(oltp, report))
    }

    /// Transactions alone.
    pub fn alone(&mut self, isolation: Isolation, time: Duration) -> Result<Measured<OltpResult>> {
        let run = |phases: &mut Self| {
            let stream = phases.start_oltp(isolation);
            phases.record(stream, time)
        };
        self.phase(isolation_name(isolation), run, describe_oltp)
    }

    /// Each query alternately on our own tables and on a copy of them in DataFusion's.
    pub fn memory_tables(&mut self, time: Duration) -> Result<Measured<Vec<StoragePair>>> {
        let run = |phases: &mut Self| {
            let view = phases.world.database.snapshot().read_view();
            let baseline = phases.engine.memory_baseline(&view, &TABLES)?;
            drop(view);
            let mut pairs = vec![StoragePair::default(); QUERIES.len()];
            let end = Instant::now() + time;
            let mut turn = 0;
            let plans = QUERIES.iter().map(|query| baseline.plan(query.sql)).collect::<Result<Vec<_>>>()?;
            while (turn < 2 || Instant::now() < end) && !phases.watch.is_stopped() {
                for (number, plan) in plans.iter().enumerate() {
                    // Whoever comes second finds warmer caches; so take turns.
                    for side in [turn % 2, (turn + 1) % 2] {
                        if side == 0 {
                            let (run, _) = phases.analyst.run(number, &mut Latencies::default())?;
                            pairs[number].own.push(run.latency.as_secs_f64() * 1e3);
                        } else {
                            let started = Instant::now();
                            let view = phases.world.database.snapshot().read_view();
                            let batches = plan.run(&view)?;
                            pairs[number].memory.push(started.elapsed().as_secs_f64() * 1e3);
                            drop(batches);
                        }
                    }
                }
                turn += 1;
            }
            Ok(pairs)
        };
        self.phase("memory tables", run, |pairs, report| {
            report.queries = Some(pairs.iter().map(|pair| pair.own.len() + pair.memory.len()).sum());
        })
    }
}

fn go_on(more: bool) -> ControlFlow<()> {
    if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

fn describe_oltp(result: &OltpResult, report: &mut PhaseReport) {
    report.oltp_tps = Some(result.per_second());
}

fn describe_hybrid(hybrid: &Hybrid, report: &mut PhaseReport) {
    describe_oltp(&hybrid.oltp, report);
    report.queries = Some(hybrid.olap.runs.len());
}

/// Keeps one core busy without touching memory.
fn burn(stop: &AtomicBool) {
    let mut state = 1u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            state = std::hint::black_box(state.wrapping_mul(6364136223846793005).wrapping_add(1));
        }
    }
}

fn take_snapshots(session: &mut ankerdb_engine::Session, stop: &AtomicBool) -> Latencies {
    let mut creation = Latencies::default();
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let snapshot = session.snapshot();
        creation.record(started.elapsed());
        drop(snapshot);
        // Sleeping would measure waking up; so spin.
        let next = Instant::now() + SNAPSHOT_PAUSE;
        while Instant::now() < next {
            std::hint::spin_loop();
        }
    }
    creation
}

/// Takes a snapshot every millisecond, on time, and holds it until the next one is there.
fn hold_snapshots(session: &mut ankerdb_engine::Session, stop: &AtomicBool) -> Latencies {
    let mut creation = Latencies::default();
    let mut held = None;
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let snapshot = session.snapshot();
        creation.record(started.elapsed());
        held.replace(snapshot);
        next += SNAPSHOT_INTERVAL;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    creation
}
