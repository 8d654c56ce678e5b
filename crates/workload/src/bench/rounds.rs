//! Rounds of phases: each variant once a round, in alternating order.

use super::client::Workload;
use super::compare::variants;
use super::config::BenchConfig;
use super::profile::Counters;
use super::stream::{Stream, StreamOptions, StreamResult};
use crate::watch::{Event, Watch};
use ankerdb_engine::{Error, Isolation, Result, SqlState};
use ankerdb_measure::cpu::{CpuTimes, Noise};
use ankerdb_measure::machine::available_memory_bytes;
use ankerdb_measure::rounds;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Before a phase counts, its threads run this long unrecorded; the first phase's ten times as long.
pub const WARM_UP: Duration = Duration::from_millis(200);
/// How often a waiting phase checks whether there is memory left.
const MEMORY_POLL: Duration = Duration::from_millis(500);
/// A run ends when less than this is left: other processes need memory, too.
const MEMORY_RESERVE_BYTES: u64 = 512 << 20;
/// A phase that the user cut shorter than this is not worth keeping.
const SHORTEST: Duration = Duration::from_millis(50);

impl Watch<'_> {
    /// Waits until the time is over, the user stops, or the stream breaks.
    pub fn wait(&self, time: Duration, stream: &Stream) {
        rounds::wait(time, || self.is_stopped() || stream.has_failed());
    }
}

/// 57014: the user stopped the run before anything was measured.
pub fn stopped() -> Error {
    Error::new(SqlState::QueryCanceled, "stopped by the user")
}

/// One way to run a workload.
pub struct Variant<'a> {
    /// In results.
    pub name: String,
    /// Threads.
    pub threads: usize,
    /// Isolation level.
    pub isolation: Isolation,
    /// What runs; variants may share it.
    pub workload: &'a dyn Workload,
}

/// A ratio of two variants' throughputs.
pub struct Ratio {
    /// In results.
    pub name: &'static str,
    /// Position of the variant above the line.
    pub over: usize,
    /// Position of the variant below.
    pub under: usize,
    /// What it should be at least.
    pub target: f64,
}

/// One phase as it went.
pub struct Phase {
    /// From 1 on.
    pub round: u32,
    /// Position of the variant.
    pub variant: usize,
    /// What it completed.
    pub result: StreamResult,
    /// CPU time that others took.
    pub noise: Noise,
}

impl Phase {
    /// Whether others took so much that the phase says little.
    pub fn is_noisy(&self) -> bool {
        self.noise.is_too_much()
    }
}

/// The rounds of one benchmark.
pub struct Rounds<'a> {
    /// Threads and isolation are the variants'.
    pub config: &'a BenchConfig,
    /// At least one.
    pub variants: Vec<Variant<'a>>,
    /// The ratios to report.
    pub ratios: Vec<Ratio>,
    /// The observer.
    pub watch: &'a Watch<'a>,
    /// Whether the run was ended because memory was running out.
    pub memory_ran_out: AtomicBool,
}

impl<'a> Rounds<'a> {
    /// The configuration's own variant and those that it is compared with; see [`compare`](super::compare).
    pub fn new(
        config: &'a BenchConfig,
        workload: &'a dyn Workload,
        narrow: Option<&'a dyn Workload>,
        watch: &'a Watch<'a>,
    ) -> Rounds<'a> {
        let (variants, ratios) = variants(config, workload, narrow);
        Rounds::of(config, variants, ratios, watch)
    }

    /// Rounds of these variants.
    pub fn of(
        config: &'a BenchConfig,
        variants: Vec<Variant<'a>>,
        ratios: Vec<Ratio>,
        watch: &'a Watch<'a>,
    ) -> Rounds<'a> {
        Rounds { config, variants, ratios, watch, memory_ran_out: AtomicBool::new(false) }
    }

    /// Whether the run is to end, because of the user or of memory.
    pub fn is_over(&self) -> bool {
        self.watch.is_stopped() || self.memory_ran_out.load(Ordering::Relaxed)
    }

    /// Waits until the time is over, the user stops, memory runs out, or the stream breaks.
    pub fn wait(&self, time: Duration, stream: &Stream) {
        let end = Instant::now() + time;
        while !self.is_over() && !stream.has_failed() {
            match end.checked_duration_since(Instant::now()) {
                Some(rest) => self.watch.wait(rest.min(MEMORY_POLL), stream),
                None => return,
            }
            // How fast tables grow depends on how fast transactions are, so no forecast is safe.
            if available_memory_bytes().is_some_and(|available| available < MEMORY_RESERVE_BYTES) {
                self.memory_ran_out.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Runs all rounds, or those until the user stops.
    ///
    /// # Errors
    /// 57014 if the user stops before anything was measured; the first one of a client.
    pub fn run(&self) -> Result<Vec<Phase>> {
        let count = self.variants.len();
        let time = Duration::from_secs(self.config.seconds) / self.config.rounds / count as u32;
        let mut phases: Vec<Phase> = Vec::new();
        for turn in 0..self.config.rounds as usize * count {
            if self.is_over() {
                break;
            }
            let variant = rounds::variant_of(turn, count);
            let warm_up = if turn == 0 { WARM_UP * 10 } else { WARM_UP }.min(time / 2);
            let phase = self.phase(turn, variant, warm_up, time)?;
            if phase.result.elapsed >= SHORTEST.min(time) {
                phases.push(phase);
            }
        }
        if phases.is_empty() { Err(stopped()) } else { Ok(phases) }
    }

    fn phase(&self, turn: usize, position: usize, warm_up: Duration, time: Duration) -> Result<Phase> {
        self.watch.tell(Event::Phase {
            round: (turn / self.variants.len()) as u32 + 1,
            name: &self.variants[position].name,
        });
        let mut phase = self.measure(turn, position, warm_up, |stream| self.wait(time, stream))?;
        phase.round = (turn / self.variants.len()) as u32 + 1;
        Ok(phase)
    }

    /// Runs a variant and records it during `wait`. Turns are numbered: no two have the same inputs.
    ///
    /// # Errors
    /// The first one of a client.
    pub fn measure(
        &self,
        turn: usize,
        position: usize,
        warm_up: Duration,
        wait: impl FnOnce(&Stream),
    ) -> Result<Phase> {
        let variant = &self.variants[position];
        let options = StreamOptions {
            threads: variant.threads,
            isolation: variant.isolation,
            seed: rounds::seed_of(self.config.seed, turn as u64),
            allocations: self.config.probes.and_then(|probes| probes.allocations),
        };
        // Before the threads: counters cover those that are started later.
        let mut counters = self.config.probes.map(|_| Counters::open());
        let mut stream = Stream::start(variant.workload, &options)?;
        self.watch.wait(warm_up, &stream);
        let before = CpuTimes::now();
        stream.record();
        counters.iter_mut().for_each(Counters::start);
        wait(&stream);
        counters.iter_mut().for_each(Counters::stop);
        let mut result = stream.stop()?;
        result.counts = counters.map(|counters| counters.read()).unwrap_or_default();
        let noise = CpuTimes::now().noise_since(before);
        Ok(Phase { round: turn as u32 + 1, variant: position, result, noise })
    }
}
