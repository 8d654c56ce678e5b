//! The phases of the benchmark; see the table in [`ch`](super).

use super::analyst::{ChAnalyst, ChAnswers, Turns};
use super::clients::{ChWorkload, ChWorld};
use super::config::ChConfig;
use super::read_point::{BesideClients, KeptPoint, ReadPoint, Refreshes};
use crate::bench::stream::{Stream, StreamOptions, StreamResult};
use crate::htap::duty::Duty;
use crate::htap::known::Sums;
use crate::htap::phase::{Cores, Measured, PhaseReport, run_phase};
use crate::watch::Watch;
use ankerdb_engine::{Error, Result, Session};
use ankerdb_measure::cpu::OwnTimes;
use ankerdb_measure::rounds;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Before a phase counts, its clients run this long unrecorded.
const WARM_UP: Duration = Duration::from_millis(100);

/// The clients, and what computed beside them.
#[derive(Default)]
pub(super) struct ClientsBeside {
    pub oltp: StreamResult,
    /// CPU time of all but the clients while they were recorded.
    pub beside: Duration,
}

/// Clients and queries side by side.
#[derive(Default)]
pub(super) struct SideBySide {
    pub clients: ClientsBeside,
    pub answers: ChAnswers,
    /// Where queries share a snapshot.
    pub refreshes: Refreshes,
}

impl SideBySide {
    /// Adds another phase's.
    pub(super) fn add(&mut self, other: &SideBySide) {
        self.clients.oltp.add(&other.clients.oltp);
        self.clients.beside += other.clients.beside;
        self.answers.add(&other.answers);
        self.refreshes.add(&other.refreshes);
    }
}

/// Where queries get what they read.
enum Points<'a> {
    /// One each, of a database at rest.
    AtRest(&'a Sums),
    /// One each, beside clients.
    Own(&'a BesideClients<'a>),
    /// One for all.
    Shared(&'a KeptPoint),
}

impl Points<'_> {
    /// The point for the next query, and whether it is this query's own; `None` if the clients have ended.
    fn next(&self, session: &mut Session) -> Option<(Arc<ReadPoint>, bool)> {
        match self {
            Points::AtRest(sums) => Some((Arc::new(ReadPoint::of_idle(session, sums)), true)),
            Points::Own(beside) => Some((Arc::new(ReadPoint::beside(session, beside)?), true)),
            Points::Shared(kept) => Some((kept.now(), false)),
        }
    }
}

/// Which queries streams ask, and what is done with the answers.
#[derive(Clone, Copy)]
struct Agenda<'a> {
    /// The next query of a stream; `None` at its end.
    next: &'a (dyn Fn(usize) -> Option<usize> + Sync),
    /// Whether answers are compared with an independent evaluation.
    evaluates: bool,
}

/// Everything a phase needs, and the log of all phases.
pub(super) struct ChPhases<'a> {
    pub config: &'a ChConfig,
    pub world: ChWorld,
    /// One for each stream of queries.
    pub analysts: Vec<ChAnalyst>,
    pub queries: usize,
    pub watch: &'a Watch<'a>,
    pub log: Vec<PhaseReport>,
    pub round: u32,
    /// Streams of inputs used so far: no two phases repeat the same inputs.
    pub streams: u64,
    /// The CPU time of queries in the last phase beside clients, for the control.
    pub duty: Option<Duty>,
}

impl ChPhases<'_> {
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

    /// Starts clients, warms them up, records them while something runs, stops them.
    fn record<T>(
        &mut self,
        time: Duration,
        meanwhile: impl FnOnce(&mut Self, &Stream, &ChWorkload) -> Result<T>,
    ) -> Result<(ClientsBeside, T)> {
        self.streams += 1;
        let threads = self.config.oltp_threads;
        let workload = ChWorkload::new(&self.world, threads);
        let options = StreamOptions {
            threads,
            isolation: self.config.isolation,
            seed: rounds::seed_of(self.config.seed, self.streams),
            allocations: None,
        };
        let mut stream = Stream::start(&workload, &options)?;
        self.watch.wait(WARM_UP.min(time / 4), &stream);
        let before = OwnTimes::now();
        stream.record();
        let value = meanwhile(self, &stream, &workload);
        let after = OwnTimes::now();
        let oltp = stream.stop()?;
        let beside = after.beside_since(before, oltp.cpu);
        Ok((ClientsBeside { oltp, beside }, value?))
    }

    /// Queries without transactions: all of them at least once in each stream.
    pub(super) fn idle(&mut self, time: Duration) -> Result<Measured<ChAnswers>> {
        let run = |phases: &mut Self| {
            let (end, watch, queries) = (Instant::now() + time, phases.watch, phases.queries);
            let turns = phases.turns();
            let next = |stream: usize| {
                let (turns, asked) = &mut *turns[stream].lock();
                *asked += 1;
                let goes_on = !watch.is_stopped() && (*asked <= queries || Instant::now() < end);
                goes_on.then(|| turns.next())
            };
            let sums = phases.analysts[0].sums_now()?;
            let agenda = Agenda { next: &next, evaluates: false };
            if phases.config.refresh_every.is_none() {
                return phases.ask(&Points::AtRest(&sums), agenda);
            }
            let kept = KeptPoint::new(ReadPoint::of_idle(&mut phases.analysts[0].session, &sums));
            phases.ask(&Points::Shared(&kept), agenda)
        };
        self.phase("queries alone", run, |answers, report| report.queries = Some(answers.runs.len()))
    }

    /// Clients and queries.
    pub(super) fn hybrid(&mut self, time: Duration) -> Result<Measured<SideBySide>> {
        let run = |phases: &mut Self| {
            let turns = phases.turns();
            phases.side_by_side(time, |phases, begin, stream, workload| {
                let (end, watch) = (Instant::now() + time, phases.watch);
                let next = |stream: usize| {
                    let goes_on = !watch.is_stopped() && Instant::now() < end;
                    goes_on.then(|| turns[stream].lock().0.next())
                };
                phases.ask_beside(begin, (stream, workload), Agenda { next: &next, evaluates: false })
            })
        };
        let hybrid = self.phase("hybrid", run, describe_both)?;
        let SideBySide { clients: ClientsBeside { oltp, beside }, answers, .. } = &hybrid.value;
        self.duty = Some(Duty::of(*beside, oltp.elapsed, self.config.olap_threads, answers.runs.len()));
        Ok(hybrid)
    }

    /// Clients, and queries of which each answer is compared with an independent evaluation of its snapshot.
    pub(super) fn evaluated(&mut self, queries: &[usize]) -> Result<Measured<SideBySide>> {
        let run = |phases: &mut Self| {
            phases.side_by_side(WARM_UP * 4, |phases, begin, stream, workload| {
                let (place, watch) = (AtomicUsize::new(0), phases.watch);
                let next = |_: usize| {
                    let query = queries.get(place.fetch_add(1, Ordering::Relaxed)).copied();
                    query.filter(|_| !watch.is_stopped())
                };
                phases.ask_beside(begin, (stream, workload), Agenda { next: &next, evaluates: true })
            })
        };
        self.phase("hybrid, evaluated", run, describe_both)
    }

    /// Transactions beside threads that only burn CPU, as much as the queries of the last hybrid phase did.
    pub(super) fn control(&mut self, time: Duration) -> Result<Measured<ClientsBeside>> {
        let duty = self.duty.ok_or_else(|| Error::internal("a control before the first hybrid phase"))?;
        let run = |phases: &mut Self| {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for _ in 0..phases.config.olap_threads {
                    scope.spawn(|| duty.keep(&stop));
                }
                let result = phases.only_clients(time);
                stop.store(true, Ordering::Relaxed);
                result
            })
        };
        self.phase("control", run, describe_clients)
    }

    /// Transactions alone.
    pub(super) fn alone(&mut self, time: Duration) -> Result<Measured<ClientsBeside>> {
        self.phase("transactions alone", |phases| phases.only_clients(time), describe_clients)
    }

    fn only_clients(&mut self, time: Duration) -> Result<ClientsBeside> {
        let wait = |phases: &mut Self, stream: &Stream, _: &ChWorkload| {
            phases.watch.wait(time, stream);
            Ok(())
        };
        self.record(time, wait).map(|(clients, ())| clients)
    }

    fn side_by_side(
        &mut self,
        time: Duration,
        ask: impl FnOnce(&mut Self, Sums, &Stream, &ChWorkload) -> Result<(ChAnswers, Refreshes)>,
    ) -> Result<SideBySide> {
        let begin = self.analysts[0].sums_now()?;
        let asked =
            |phases: &mut Self, stream: &Stream, workload: &ChWorkload| ask(phases, begin, stream, workload);
        let (clients, (answers, refreshes)) = self.record(time, asked)?;
        Ok(SideBySide { clients, answers, refreshes })
    }

    /// The queries' turns in each stream, and how many were asked.
    fn turns(&self) -> Vec<Mutex<(Turns, usize)>> {
        let seed = self.config.seed ^ (self.streams << 8);
        let turns = |stream| Mutex::new((Turns::new(self.queries, seed ^ stream as u64), 0));
        (0..self.analysts.len()).map(turns).collect()
    }

    /// Asks beside clients, until the agenda ends or the clients do.
    fn ask_beside(
        &mut self,
        begin: Sums,
        (stream, workload): (&Stream, &ChWorkload),
        agenda: Agenda<'_>,
    ) -> Result<(ChAnswers, Refreshes)> {
        let ended = AtomicBool::new(false);
        let (marker, every) = (self.world.marker.clone(), self.config.refresh_every);
        let mut refresher = self.world.database.session();
        let beside = BesideClients { stream, workload, marker: &marker, begin, ended: &ended };
        std::thread::scope(|scope| {
            // If the clients break, markers are not acknowledged any more: this thread ends the wait.
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) && !stream.has_failed() {
                    std::thread::sleep(rounds::POLL);
                }
                ended.store(true, Ordering::Relaxed);
            });
            let result = match every {
                None => {
                    self.ask(&Points::Own(&beside), agenda).map(|answers| (answers, Refreshes::default()))
                }
                Some(every) => self.ask_shared(&mut refresher, every, &beside, agenda),
            };
            ended.store(true, Ordering::Relaxed);
            result
        })
    }

    /// Asks at one point for all, which is refreshed by a thread meanwhile.
    fn ask_shared(
        &mut self,
        refresher: &mut Session,
        every: u64,
        beside: &BesideClients<'_>,
        agenda: Agenda<'_>,
    ) -> Result<(ChAnswers, Refreshes)> {
        let Some(first) = ReadPoint::beside(refresher, beside) else {
            return Ok(Default::default());
        };
        let kept = KeptPoint::new(first);
        std::thread::scope(|scope| {
            let refreshes = scope.spawn(|| kept.refresh(refresher, every, beside));
            let answers = self.ask(&Points::Shared(&kept), agenda);
            beside.ended.store(true, Ordering::Relaxed);
            let refreshes = refreshes.join().expect("refreshing does not panic");
            Ok((answers?, refreshes))
        })
    }

    /// Lets every stream ask what the agenda says.
    fn ask(&mut self, points: &Points<'_>, agenda: Agenda<'_>) -> Result<ChAnswers> {
        let ask = |stream: usize, analyst: &mut ChAnalyst| -> Result<ChAnswers> {
            let mut answers = ChAnswers::default();
            while let Some(query) = (agenda.next)(stream) {
                let Some((point, is_own)) = points.next(&mut analyst.session) else { break };
                match agenda.evaluates {
                    true => analyst.ask_and_evaluate(query, &point, is_own, &mut answers)?,
                    false => analyst.ask(query, &point, is_own, &mut answers)?,
                }
            }
            Ok(answers)
        };
        std::thread::scope(|scope| {
            let streams: Vec<_> = self
                .analysts
                .iter_mut()
                .enumerate()
                .map(|(stream, analyst)| scope.spawn(move || ask(stream, analyst)))
                .collect();
            let mut all = ChAnswers::default();
            for stream in streams {
                all.add(&stream.join().expect("asking does not panic")?);
            }
            Ok(all)
        })
    }
}

fn describe_clients(clients: &ClientsBeside, report: &mut PhaseReport) {
    let ClientsBeside { oltp, beside } = clients;
    report.oltp_tps = Some(oltp.per_second());
    report.cores = Some(Cores::of(oltp.cpu, *beside, oltp.elapsed));
}

fn describe_both(both: &SideBySide, report: &mut PhaseReport) {
    describe_clients(&both.clients, report);
    report.queries = Some(both.answers.runs.len());
}
