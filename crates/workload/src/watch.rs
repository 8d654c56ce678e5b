//! What benchmarks tell their observer, and how it ends them.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a benchmark is doing.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Rows loaded so far, and expected.
    Loading {
        /// So far.
        done: u64,
        /// Expected.
        total: u64,
    },
    /// A phase begins; round 0 is before and after the rounds.
    Phase {
        /// From 1 on.
        round: u32,
        /// The phase's name, as in results: often that of its variant.
        name: &'a str,
    },
    /// The workload's conditions are being checked.
    Checking,
}

/// The observer of a run, which may also end it.
pub struct Watch<'a> {
    /// Set to end the run; what was measured so far is reported.
    pub stop: &'a AtomicBool,
    /// Told what happens, from any thread.
    pub observer: &'a (dyn Fn(Event<'_>) + Sync),
}

impl Watch<'_> {
    /// Whether the user wants to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Tells the observer.
    pub fn tell(&self, event: Event<'_>) {
        (self.observer)(event);
    }

    /// For loaders: tells how far the load is, and ends it when the user wants to stop.
    pub fn loading(&self, done: u64, total: u64) -> ControlFlow<()> {
        self.tell(Event::Loading { done, total });
        if self.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
