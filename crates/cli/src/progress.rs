//! Progress on standard error: bars on a terminal, lines elsewhere.

use ankerdb_experiment::harness::ExperimentEvent;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shows rows loaded of rows expected. Can be told from any thread.
pub(crate) struct LoadBar {
    bar: Option<ProgressBar>,
    tenths: AtomicU64,
}

impl LoadBar {
    /// Nothing is shown yet.
    pub(crate) fn new() -> LoadBar {
        LoadBar { bar: has_bars().then(|| bar(LOADING)), tenths: AtomicU64::new(0) }
    }

    /// Shows the state; `done == total` ends it.
    pub(crate) fn show(&self, done: u64, total: u64) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(total);
                bar.set_position(done);
                if done >= total {
                    bar.finish();
                }
            }
            None => {
                let tenths = done * 10 / total.max(1);
                if self.tenths.fetch_max(tenths, Ordering::Relaxed) < tenths {
                    eprintln!("loading: {}% of {total} rows", tenths * 10);
                }
            }
        }
    }
}

const LOADING: &str = "loading {wide_bar} {human_pos} of {human_len} rows, {eta} left";
const MEASURING: &str = "{msg} {wide_bar} {percent}%, {elapsed} of this measurement";
/// Steps of a measurement's bar.
const STEPS: u64 = 1000;

/// Whether the terminal cannot position its cursor.
pub(crate) fn terminal_is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|terminal| terminal.is_empty() || terminal == "dumb")
}

fn has_bars() -> bool {
    stderr().is_terminal() && !terminal_is_dumb()
}

fn bar(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Progress through stages, of which each begins anew: a bar on a terminal, a line every other second elsewhere. Can be told from any thread.
pub(crate) struct StageProgress {
    bar: Option<ProgressBar>,
    told: Mutex<Instant>,
}

const STAGE: &str = "{msg} {wide_bar} {percent}%";
/// How often a line is written.
const LINES_EVERY: Duration = Duration::from_secs(2);

impl StageProgress {
    /// Nothing is shown yet.
    pub(crate) fn new() -> StageProgress {
        StageProgress { bar: has_bars().then(|| bar(STAGE)), told: Mutex::new(Instant::now()) }
    }

    /// Shows how far a stage is.
    pub(crate) fn show(&self, stage: &'static str, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(stage);
            bar.set_length(total);
            bar.set_position(done);
        } else if let Ok(mut told) = self.told.try_lock()
            && told.elapsed() >= LINES_EVERY
        {
            *told = Instant::now();
            eprintln!("{stage}: {} %", done.saturating_mul(100).checked_div(total).unwrap_or(100));
        }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Progress of an experiment: a bar for the present measurement; without a terminal, a line for every measurement.
/// Can be told from any thread.
#[derive(Default)]
pub(crate) struct ExperimentProgress(Mutex<Option<(ProgressBar, bool)>>);

impl ExperimentProgress {
    /// Shows what happens.
    pub(crate) fn show(&self, event: ExperimentEvent<'_>) {
        if let (ExperimentEvent::Begun { number, of, label }, false) = (event, has_bars()) {
            eprintln!("measurement {number} of {of}: {label}");
        }
        if !has_bars() {
            return;
        }
        let Ok(mut shown) = self.0.lock() else { return };
        match event {
            ExperimentEvent::Loading { done, total } => {
                let (bar, _) =
                    shown.take().filter(|(_, loads)| *loads).unwrap_or_else(|| (bar(LOADING), true));
                bar.set_length(total);
                bar.set_position(done);
                if done < total { *shown = Some((bar, true)) } else { bar.finish_and_clear() }
            }
            ExperimentEvent::Begun { number, of, label } => {
                let bar = bar(MEASURING);
                bar.set_length(STEPS);
                bar.set_message(format!("{number}/{of} {label}"));
                *shown = Some((bar, false));
            }
            ExperimentEvent::Progress(share) => {
                if let Some((bar, false)) = &*shown {
                    bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
                }
            }
            ExperimentEvent::Ended => {
                if let Some((bar, _)) = shown.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.show(ExperimentEvent::Ended);
    }
}
