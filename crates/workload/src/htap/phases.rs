//! The phases of the benchmark, one function each; see the table in [`htap`](super).

use super::config::{HtapConfig, isolation_name};
use super::duty::Duty;
use super::known::{Sums, read_ytd};
use super::olap::{Analyst, Beside, OlapResult, QueryOrder, QueryRun};
use super::oltp::{OltpOptions, OltpResult, OltpStream, OltpWorld};
use super::phase::{Cores, Measured, PhaseReport, run_phase};
use super::queries::{QUERIES, TABLES};
use crate::tpcc::schema::TpccTables;
use crate::watch::Watch;
use ankerdb_engine::{Error, Isolation, Result, Session, Snapshot};
use ankerdb_measure::cpu::OwnTimes;
use ankerdb_measure::latency::Latencies;
use ankerdb_measure::rounds;
use ankerdb_sql::SqlEngine;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Snapshots taken beside both streams, where many are asked for.
pub(super) const SNAPSHOTS_PER_SECOND: u64 = 1000;
/// Before a phase counts, its threads run this long unrecorded.
const WARM_UP: Duration = Duration::from_millis(100);
/// Time between two snapshots where many are asked for.
const SNAPSHOT_INTERVAL: Duration = Duration::from_micros(1_000_000 / SNAPSHOTS_PER_SECOND);
/// Pause between snapshots of the loop that only takes snapshots, so that it is no load of its own.
const SNAPSHOT_PAUSE: Duration = Duration::from_micros(20);

/// The OLTP stream, and what computed beside it.
#[derive(Default)]
pub(super) struct Control {
    pub oltp: OltpResult,
    /// CPU time of all but the OLTP threads while these were recorded.
    pub beside: Duration,
}

/// Both streams side by side.
#[derive(Default)]
pub(super) struct Hybrid {
    pub oltp: OltpResult,
    pub olap: OlapResult,
    /// CPU time beside the OLTP threads, as in [`Control`].
    pub beside: Duration,
    /// Where many snapshots were asked for.
    pub snapshots: SnapshotReads,
}

impl Hybrid {
    /// Adds another phase's.
    pub(super) fn add(&mut self, other: &Hybrid) {
        self.oltp.add(&other.oltp);
        self.olap.add(&other.olap);
        self.beside += other.beside;
        self.snapshots.add(&other.snapshots);
    }
}

/// Snapshots besides those of the queries. Each is read: W_YTD and D_YTD of all rows, whose sums must be the same.
#[derive(Clone, Default)]
pub(super) struct SnapshotReads {
    /// Times to take them.
    pub creation: Latencies,
    /// Times to take them and to read them.
    pub first_read: Latencies,
    /// Those that showed different sums.
    pub wrong: u64,
    /// How long they were being taken.
    pub seconds: f64,
}

impl SnapshotReads {
    /// Adds another phase's.
    pub(super) fn add(&mut self, other: &SnapshotReads) {
        self.creation.add(&other.creation);
        self.first_read.add(&other.first_read);
        self.wrong += other.wrong;
        self.seconds += other.seconds;
    }

    /// Takes a snapshot and reads it.
    fn take(&mut self, session: &mut Session, tables: &TpccTables) -> Result<Snapshot> {
        let started = Instant::now();
        let snapshot = session.snapshot();
        self.creation.record(started.elapsed());
        let (of_warehouses, of_districts) = read_ytd(&snapshot.read_view(), tables)?;
        self.first_read.record(started.elapsed());
        self.wrong += u64::from(of_warehouses != of_districts);
        Ok(snapshot)
    }
}

/// Latencies in milliseconds of one query over both storages.
#[derive(Clone, Default)]
pub(super) struct StoragePair {
    pub own: Vec<f64>,
    pub memory: Vec<f64>,
}

/// Everything a phase needs, and the log of all phases.
pub(super) struct Phases<'a> {
    pub config: &'a HtapConfig,
    pub world: OltpWorld,
    pub engine: SqlEngine,
    pub analyst: Analyst,
    pub watch: &'a Watch<'a>,
    pub log: Vec<PhaseReport>,
    pub round: u32,
    /// Streams of inputs used so far: no two phases repeat the same inputs.
    pub streams: u64,
    /// The CPU time of queries in the last hybrid phase, for the control.
    pub duty: Option<Duty>,
}

impl Phases<'_> {
    /// Runs a phase and logs its length and noise. `describe` adds what it counted.
    fn phase<T>(
        &mut self,
        name: &'static str,
        run: impl FnOnce(&mut Self) -> Result<T>,
        describe: impl FnOnce(&T, &mut PhaseReport),
    ) -> Result<Measured<T>> {
        let (watch, round) = (self.watch, self.round);
        let (value, mut report) = run_phase(watch, round, name, || run(self))?;
        describe(&value, &mut report);
        let noisy = report.noisy;
        self.log.push(report);
        Ok(Measured { value, noisy })
    }

    fn start_oltp(&mut self, isolation: Isolation) -> OltpStream {
        self.streams += 1;
        let options = OltpOptions {
            threads: self.config.oltp_threads,
            isolation,
            access: self.config.access,
            warehouses: self.config.warehouses,
            seed: rounds::seed_of(self.config.seed, self.streams),
            limit: None,
        };
        OltpStream::start(&self.world, &options)
    }

    /// Waits until the time is over, the user stops, or the stream breaks.
    fn wait(&self, time: Duration, stream: &OltpStream) {
        rounds::wait(time, || self.watch.is_stopped() || stream.has_ended_early());
    }

    /// Warms the stream up, records it while something runs, stops it.
    fn record<T>(
        &mut self,
        mut stream: OltpStream,
        time: Duration,
        meanwhile: impl FnOnce(&mut Self, &OltpStream) -> T,
    ) -> Result<(Control, T)> {
        self.wait(WARM_UP.min(time / 4), &stream);
        let before = OwnTimes::now();
        stream.record();
        let value = meanwhile(self, &stream);
        let after = OwnTimes::now();
        let oltp = stream.stop()?;
        let beside = after.beside_since(before, oltp.cpu);
        Ok((Control { oltp, beside }, value))
    }

    /// Analytics without transactions.
    pub(super) fn idle(&mut self, time: Duration) -> Result<Measured<OlapResult>> {
        let run = |phases: &mut Self| {
            let end = Instant::now() + time;
            let watch = phases.watch;
            phases
                .analyst
                .stream(QueryOrder::InTurn, None, &mut |_| go_on(Instant::now() < end && !watch.is_stopped()))
        };
        self.phase("idle", run, |result, report| report.queries = Some(result.runs.len()))
    }

    /// Transactions beside threads that only burn CPU, as much as the queries of the last hybrid phase did.
    pub(super) fn control(&mut self, time: Duration) -> Result<Measured<Control>> {
        let duty = self.duty.ok_or_else(|| Error::internal("a control before the first hybrid phase"))?;
        let run = |phases: &mut Self| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..phases.config.olap_threads {
                    scope.spawn(|| duty.keep(&stop));
                }
                let stream = phases.start_oltp(phases.config.isolation);
                let result = phases.record(stream, time, |phases, stream| phases.wait(time, stream));
                stop.store(true, Ordering::Relaxed);
                result.map(|(control, ())| control)
            })
        };
        self.phase("control", run, |control, report| {
            describe_oltp(&control.oltp, report);
            note_cpu(report, &control.oltp, control.beside);
        })
    }

    /// Both streams, one snapshot for each query.
    pub(super) fn hybrid(&mut self, time: Duration) -> Result<Measured<Hybrid>> {
        let hybrid = self.phase("hybrid", |phases| phases.side_by_side(time), describe_hybrid)?;
        let Hybrid { oltp, olap, beside, .. } = &hybrid.value;
        self.duty = Some(Duty::of(*beside, oltp.elapsed, self.config.olap_threads, olap.runs.len()));
        Ok(hybrid)
    }

    /// Both streams, and 1,000 snapshots per second besides, each read, and held until the next one is there.
    pub(super) fn frequent(&mut self, time: Duration) -> Result<Measured<Hybrid>> {
        let run = |phases: &mut Self| {
            let (stop, world) = (AtomicBool::new(false), phases.world.clone());
            std::thread::scope(|scope| {
                let taker = scope.spawn(|| hold_snapshots(&world, &stop));
                let hybrid = phases.side_by_side(time);
                stop.store(true, Ordering::Relaxed);
                let snapshots = taker.join().expect("taking snapshots does not panic")?;
                Ok(Hybrid { snapshots, ..hybrid? })
            })
        };
        self.phase("hybrid, 1000 snapshots/s", run, describe_hybrid)
    }

    fn side_by_side(&mut self, time: Duration) -> Result<Hybrid> {
        let begin = self.analyst.sums()?;
        let stream = self.start_oltp(self.config.isolation);
        let (Control { oltp, beside }, olap) =
            self.record(stream, time, |phases, stream| phases.hybrid_queries(time, begin, stream))?;
        Ok(Hybrid { oltp, olap: olap?, beside, ..Hybrid::default() })
    }

    fn hybrid_queries(&mut self, time: Duration, begin: Sums, oltp: &OltpStream) -> Result<OlapResult> {
        let end = Instant::now() + time;
        let (watch, marker) = (self.watch, self.world.marker.clone());
        let ended = AtomicBool::new(false);
        let order = QueryOrder::Random(fastrand::Rng::with_seed(self.config.seed ^ self.streams));
        std::thread::scope(|scope| {
            // If the OLTP stream breaks, markers are not acknowledged any more: this thread ends the wait.
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) && !oltp.has_ended_early() {
                    std::thread::sleep(rounds::POLL);
                }
                ended.store(true, Ordering::Relaxed);
            });
            let mut continue_after = |_: &QueryRun| go_on(Instant::now() < end && !watch.is_stopped());
            let beside = Beside { oltp, marker: &marker, begin, ended: &ended };
            let result = self.analyst.stream(order, Some(beside), &mut continue_after);
            ended.store(true, Ordering::Relaxed);
            result
        })
    }

    /// Transactions beside a thread that takes, reads and drops snapshots.
    pub(super) fn snapshots(&mut self, time: Duration) -> Result<Measured<SnapshotReads>> {
        let run = |phases: &mut Self| {
            let (stop, world) = (AtomicBool::new(false), phases.world.clone());
            let stream = phases.start_oltp(phases.config.isolation);
            let (control, snapshots) = phases.record(stream, time, |phases, stream| {
                std::thread::scope(|scope| {
                    let taker = scope.spawn(|| take_snapshots(&world, &stop));
                    phases.wait(time, stream);
                    stop.store(true, Ordering::Relaxed);
                    taker.join().expect("taking snapshots does not panic")
                })
            })?;
            Ok((control.oltp, snapshots?))
        };
        let measured = self.phase("snapshots", run, |(oltp, _), report| describe_oltp(oltp, report))?;
        Ok(Measured { value: measured.value.1, noisy: measured.noisy })
    }

    /// Transactions alone.
    pub(super) fn alone(&mut self, isolation: Isolation, time: Duration) -> Result<Measured<OltpResult>> {
        let run = |phases: &mut Self| {
            let stream = phases.start_oltp(isolation);
            let recorded = phases.record(stream, time, |phases, stream| phases.wait(time, stream))?;
            Ok(recorded.0.oltp)
        };
        self.phase(isolation_name(isolation), run, describe_oltp)
    }

    /// Each query alternately on our own tables and on a copy of them in DataFusion's.
    pub(super) fn memory_tables(&mut self, time: Duration) -> Result<Measured<Vec<StoragePair>>> {
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
                    // The second one finds warmer caches, so they take turns.
                    for side in [turn % 2, (turn + 1) % 2] {
                        if side == 0 {
                            let answered = phases.analyst.run(number, &mut Latencies::default())?;
                            pairs[number].own.push(answered.run.latency.as_secs_f64() * 1e3);
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

fn note_cpu(report: &mut PhaseReport, oltp: &OltpResult, beside: Duration) {
    report.cores = Some(Cores::of(oltp.cpu, beside, oltp.elapsed));
}

fn describe_hybrid(hybrid: &Hybrid, report: &mut PhaseReport) {
    describe_oltp(&hybrid.oltp, report);
    note_cpu(report, &hybrid.oltp, hybrid.beside);
    report.queries = Some(hybrid.olap.runs.len());
}

/// Takes a snapshot, reads it and drops it, again and again.
fn take_snapshots(world: &OltpWorld, stop: &AtomicBool) -> Result<SnapshotReads> {
    let (mut reads, mut session, began) =
        (SnapshotReads::default(), world.database.session(), Instant::now());
    while !stop.load(Ordering::Relaxed) {
        drop(reads.take(&mut session, &world.tables)?);
        // Sleeping would measure waking up; so spin.
        let next = Instant::now() + SNAPSHOT_PAUSE;
        while Instant::now() < next {
            std::hint::spin_loop();
        }
    }
    reads.seconds = began.elapsed().as_secs_f64();
    Ok(reads)
}

/// Takes a snapshot every millisecond, on time, reads it, and holds it until the next one is there.
fn hold_snapshots(world: &OltpWorld, stop: &AtomicBool) -> Result<SnapshotReads> {
    let (mut reads, mut session, began) =
        (SnapshotReads::default(), world.database.session(), Instant::now());
    let mut held = None;
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        held.replace(reads.take(&mut session, &world.tables)?);
        next += SNAPSHOT_INTERVAL;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    reads.seconds = began.elapsed().as_secs_f64();
    Ok(reads)
}
