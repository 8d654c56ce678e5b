//! A phase as it went: its length, its noise, and what it completed.

use crate::watch::{Event, Watch};
use ankerdb_engine::Result;
use ankerdb_measure::cpu::{CpuTimes, Noise};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// A phase's result, and whether too much of the CPU went elsewhere meanwhile.
pub(crate) struct Measured<T> {
    pub value: T,
    pub noisy: bool,
}

/// One phase as it went.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    round: u32,
    name: &'static str,
    seconds: f64,
    /// Share of all CPU time that the hypervisor gave to others.
    steal: f64,
    /// Share of all CPU time that other processes used.
    other_processes: f64,
    /// Too much of either: the phase is left out of all figures.
    pub(crate) noisy: bool,
    /// Transactions per second, where the OLTP stream ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oltp_tps: Option<f64>,
    /// Cores that the OLTP threads used, and that were used beside them, where that is compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cores: Option<Cores>,
    /// Analytical queries, where they ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queries: Option<usize>,
}

/// CPU time per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cores {
    /// Of the OLTP threads.
    pub oltp: f64,
    /// Of queries, or of the load that stands in for them.
    pub beside: f64,
}

impl Cores {
    /// By CPU time in `elapsed`.
    pub(crate) fn of(oltp: Duration, beside: Duration, elapsed: Duration) -> Cores {
        let cores = |cpu: Duration| cpu.as_secs_f64() / elapsed.as_secs_f64();
        Cores { oltp: cores(oltp), beside: cores(beside) }
    }
}

impl PhaseReport {
    fn new(round: u32, name: &'static str, length: Duration, noise: Noise) -> PhaseReport {
        let Noise { steal, others } = noise;
        PhaseReport {
            round,
            name,
            seconds: length.as_secs_f64(),
            steal,
            other_processes: others,
            noisy: noise.is_too_much(),
            oltp_tps: None,
            cores: None,
            queries: None,
        }
    }
}

/// Runs a phase of a round, and notes its length and noise.
pub(crate) fn run_phase<T>(
    watch: &Watch<'_>,
    round: u32,
    name: &'static str,
    run: impl FnOnce() -> Result<T>,
) -> Result<(T, PhaseReport)> {
    watch.tell(Event::Phase { round, name });
    let (started, before) = (Instant::now(), CpuTimes::now());
    let value = run()?;
    let noise = CpuTimes::now().noise_since(before);
    Ok((value, PhaseReport::new(round, name, started.elapsed(), noise)))
}

/// The end of a result for people: its phases, what is to be known about it, and whether it is all.
pub(crate) fn write_end(phases: &[PhaseReport], warnings: &[String], interrupted: bool, text: &mut String) {
    write_phases(phases, text);
    for warning in warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    if interrupted {
        text.push_str("stopped by the user: this is what was measured until then\n");
    }
}

/// Every phase with the CPU time that others took, for people; those that are too noisy are marked.
fn write_phases(phases: &[PhaseReport], text: &mut String) {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    text.push_str(
        "\nround  phase                         s   stolen  others  transactions/s  cores OLTP  beside  queries\n",
    );
    for phase in phases {
        let _ = writeln!(
            text,
            "{:>5}  {:<24} {:>6.1}  {:>6.1}% {:>6.1}% {:>15} {:>11} {:>7} {:>8}{}",
            phase.round,
            phase.name,
            phase.seconds,
            phase.steal * 100.0,
            phase.other_processes * 100.0,
            number(phase.oltp_tps, 0),
            number(phase.cores.map(|cores| cores.oltp), 2),
            number(phase.cores.map(|cores| cores.beside), 2),
            phase.queries.map_or_else(|| "-".to_owned(), |queries| queries.to_string()),
            if phase.noisy { "  NOISY" } else { "" }
        );
    }
    let noisy = phases.iter().filter(|phase| phase.noisy).count();
    let _ = writeln!(
        text,
        "{noisy} of {} phases were noisy ({}); all figures above leave them out",
        phases.len(),
        Noise::limits()
    );
}
