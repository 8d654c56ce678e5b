//! What an experiment runs in: its setup, the machine, its observer, and a log of the noise in every measurement.

use crate::setup::Setup;
use ankerdb_engine::{Error, Result, SqlState};
use ankerdb_measure::cpu::{CpuTimes, Noise};
use ankerdb_measure::machine::Machine;
use ankerdb_measure::rounds;
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What the experiment is doing.
#[derive(Clone, Copy, Debug)]
pub enum ExperimentEvent<'a> {
    /// Rows loaded so far, and expected.
    Loading {
        /// So far.
        done: u64,
        /// Expected.
        total: u64,
    },
    /// A measurement begins.
    Begun {
        /// From 1 on.
        number: usize,
        /// How many there are going to be.
        of: usize,
        /// What is measured.
        label: &'a str,
    },
    /// The share of the measurement that is done, from 0 to 1.
    Progress(f64),
    /// The measurement has ended.
    Ended,
}

/// The observer of a run, which may also end it.
pub struct ExperimentWatch<'a> {
    /// Set to end the run; what was measured so far is reported.
    pub stop: &'a AtomicBool,
    /// Told what happens, from any thread.
    pub observer: &'a (dyn Fn(ExperimentEvent<'_>) + Sync),
}

/// One measurement, as the report lists it.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// What was measured.
    pub label: String,
    /// How long.
    pub elapsed: Duration,
    /// The CPU time that this process could not have.
    pub noise: Noise,
}

impl Measurement {
    /// Whether too much of the CPU went elsewhere.
    pub fn is_noisy(&self) -> bool {
        self.noise.is_too_much()
    }
}

/// What a running experiment is given.
pub struct Harness<'a> {
    /// Sizes, threads, times.
    pub setup: Setup,
    /// The machine.
    pub machine: Machine,
    watch: &'a ExperimentWatch<'a>,
    expected: Cell<usize>,
    log: RefCell<Vec<Measurement>>,
}

impl<'a> Harness<'a> {
    /// A harness where nothing was measured yet.
    pub fn new(setup: Setup, machine: Machine, watch: &'a ExperimentWatch<'a>) -> Harness<'a> {
        Harness { setup, machine, watch, expected: Cell::new(0), log: RefCell::default() }
    }

    /// Whether the user wants to stop.
    pub fn is_stopped(&self) -> bool {
        self.watch.stop.load(Ordering::Relaxed)
    }

    /// Says how many measurements there are going to be.
    pub fn expect(&self, measurements: usize) {
        self.expected.set(measurements);
    }

    /// For loaders: shows progress and passes the user's wish to stop on.
    pub fn loading(&self) -> impl Fn(u64, u64) -> ControlFlow<()> + Sync + 'a {
        let watch = self.watch;
        move |done, total| {
            (watch.observer)(ExperimentEvent::Loading { done, total });
            if watch.stop.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    }

    /// Runs one measurement and logs its length and noise.
    ///
    /// # Errors
    /// That of what is run.
    pub fn measure<T>(&self, label: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let number = self.log.borrow().len() + 1;
        (self.watch.observer)(ExperimentEvent::Begun { number, of: self.expected.get().max(number), label });
        let (started, before) = (Instant::now(), CpuTimes::now());
        let value = run();
        let noise = CpuTimes::now().noise_since(before);
        (self.watch.observer)(ExperimentEvent::Ended);
        let measurement = Measurement { label: label.to_owned(), elapsed: started.elapsed(), noise };
        self.log.borrow_mut().push(measurement);
        value
    }

    /// Says how much of the measurement is done.
    pub fn progress(&self, share: f64) {
        (self.watch.observer)(ExperimentEvent::Progress(share));
    }

    /// Waits until the time is over or the user stops. `look` is called again and again, with the time that has passed;
    /// it shows progress and may end the wait, too.
    pub fn wait(&self, time: Duration, look: &mut dyn FnMut(Duration) -> ControlFlow<()>) {
        let begun = Instant::now();
        loop {
            let passed = begun.elapsed();
            if look(passed).is_break() || passed >= time || self.is_stopped() {
                return;
            }
            std::thread::sleep(rounds::POLL.min(time - passed));
        }
    }

    /// The measurements so far.
    pub fn log(&self) -> Vec<Measurement> {
        self.log.borrow().clone()
    }
}

/// What was done, unless the user has stopped it.
///
/// # Errors
/// The outcome's, but for 57014.
pub fn unless_stopped<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.state() == SqlState::QueryCanceled => Ok(None),
        Err(error) => Err(error),
    }
}

/// The result of a thread of the experiment.
pub(crate) fn joined<T>(outcome: std::thread::Result<Result<T>>) -> Result<T> {
    outcome.unwrap_or_else(|_| Err(Error::internal("a thread of the experiment panicked")))
}
