//! What EXPLAIN ANALYZE notes while a statement runs.
//!
//! A part of a plan is known by where it lies in memory: a plan does not move while it runs, and is described afterwards.

use super::Actual;
use chrono::{DateTime, Utc};
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Which step of a plan of the OLTP path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    /// Finding rows in a table, and filtering them.
    Access,
    Sort,
    Lock,
    /// Rows that INSERT has added, and left out or changed as others have their keys.
    Conflicts,
    /// All of it.
    Whole,
}

/// Where a part of a plan lies.
pub(crate) fn address<T>(part: &T) -> usize {
    std::ptr::from_ref(part).addr()
}

/// The figures of one run.
pub(crate) struct Meter {
    begun: Instant,
    stages: Mutex<HashMap<(usize, Stage), Actual>>,
    queries: Mutex<HashMap<usize, Arc<Probe>>>,
    /// Rows that the filter of the running access has left out.
    removed: AtomicU64,
}

/// A query of the OLAP path that runs: its operators, and when it began.
pub(crate) struct Probe {
    pub began: DateTime<Utc>,
    pub operators: OnceLock<Arc<dyn ExecutionPlan>>,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter {
            begun: Instant::now(),
            stages: Mutex::default(),
            queries: Mutex::default(),
            removed: AtomicU64::new(0),
        }
    }

    /// The time since the run began.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Notes what a step has done; if it runs again, the last run counts.
    pub(crate) fn note(&self, part: usize, stage: Stage, actual: Actual) {
        self.stages.lock().insert((part, stage), actual);
    }

    /// Notes rows that a step has given by now, as it ends.
    pub(crate) fn note_rows(&self, part: usize, stage: Stage, rows: usize) {
        let now = self.now();
        self.note(part, stage, Actual { rows: rows as u64, times: Some((now, now)), removed: None });
    }

    /// What a step has done.
    pub(crate) fn actual(&self, part: usize, stage: Stage) -> Option<Actual> {
        self.stages.lock().get(&(part, stage)).copied()
    }

    /// An access begins to filter rows.
    pub(crate) fn begin_filter(&self) {
        self.removed.store(0, Ordering::Relaxed);
    }

    pub(crate) fn remove_row(&self) {
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// What keeps the operators of a query that begins now.
    pub(crate) fn probe(&self, query: usize) -> Arc<Probe> {
        let probe = Arc::new(Probe { began: Utc::now(), operators: OnceLock::new() });
        self.queries.lock().insert(query, probe.clone());
        probe
    }

    /// The query that has run.
    pub(crate) fn query(&self, query: usize) -> Option<Arc<Probe>> {
        self.queries.lock().get(&query).cloned()
    }
}
