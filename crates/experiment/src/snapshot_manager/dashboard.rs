//! Dashboards: streams of queries that may show data of a while ago, and what is noted of the snapshots that they get.

use crate::stream::QueryTime;
use crate::tpcc::TpcC;
use ankerdb_base::Timestamp;
use ankerdb_engine::{Result, Snapshot};
use ankerdb_snapshot::SnapshotWork;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What all dashboards of a phase note.
#[derive(Default)]
pub(super) struct DashboardLog(Mutex<DashboardNotes>);

#[derive(Default)]
struct DashboardNotes {
    /// By the address of their counters: several snapshots may show the same timestamp.
    snapshots: HashMap<usize, NotedSnapshot>,
    total_age: Duration,
    largest_age: Duration,
    queries: u32,
}

struct NotedSnapshot {
    /// Keeps the address from being used again. The manager waits for strong references only, so not for this one.
    _address: Weak<SnapshotWork>,
    /// When a query first asked for it.
    first: Instant,
    copying: Duration,
    ahead: Duration,
}

/// The sums over a phase.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct DashboardSums {
    /// The mean age of the snapshots when queries began.
    pub mean_age: Duration,
    /// The age of the oldest one.
    pub largest_age: Duration,
    /// What queries copied, over all threads.
    pub copying: Duration,
    /// What making copies ready for them took.
    pub ahead: Duration,
}

impl DashboardLog {
    /// Runs one query over a snapshot that is no older than allowed.
    ///
    /// # Errors
    /// The query's; 53200 if there is no memory.
    pub(super) fn ask(&self, tpcc: &TpcC, staleness: Duration, query: usize) -> Result<QueryTime> {
        let planned = &tpcc.queries()[query];
        let asked = Instant::now();
        let snapshot = match staleness.is_zero() {
            true => tpcc.database().snapshot().watched(),
            false => tpcc.database().snapshot_within(staleness, Timestamp::ZERO),
        };
        self.note_begin(&snapshot, asked);
        let view = snapshot.read_view();
        planned.materialize(&view)?;
        let creation = asked.elapsed();
        std::hint::black_box(planned.run(&view)?);
        let latency = asked.elapsed() - creation;
        self.note_end(&snapshot);
        Ok(QueryTime { query, creation, latency })
    }

    fn note_begin(&self, snapshot: &Snapshot, asked: Instant) {
        let Some(work) = snapshot.work() else { return };
        let mut notes = self.0.lock();
        let noted = notes.snapshots.entry(address(work)).or_insert_with(|| NotedSnapshot {
            _address: Arc::downgrade(work),
            first: asked,
            copying: Duration::ZERO,
            ahead: Duration::ZERO,
        });
        let age = asked.saturating_duration_since(noted.first);
        notes.total_age += age;
        notes.largest_age = notes.largest_age.max(age);
        notes.queries += 1;
    }

    /// Notes what has been copied for the snapshot so far. The last query that reads it notes all of it.
    fn note_end(&self, snapshot: &Snapshot) {
        let Some(work) = snapshot.work() else { return };
        if let Some(noted) = self.0.lock().snapshots.get_mut(&address(work)) {
            noted.copying = noted.copying.max(work.copied().time);
            noted.ahead = noted.ahead.max(work.ahead().time);
        }
    }

    /// The sums over all queries so far.
    pub(super) fn sums(&self) -> DashboardSums {
        let notes = self.0.lock();
        DashboardSums {
            mean_age: notes.total_age / notes.queries.max(1),
            largest_age: notes.largest_age,
            copying: notes.snapshots.values().map(|snapshot| snapshot.copying).sum(),
            ahead: notes.snapshots.values().map(|snapshot| snapshot.ahead).sum(),
        }
    }
}

fn address(work: &Arc<SnapshotWork>) -> usize {
    Arc::as_ptr(work).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ankerdb_engine::Database;

    #[test]
    fn the_age_is_that_of_the_snapshot_and_not_of_its_timestamp() {
        let (database, log, begun) = (Database::new(), DashboardLog::default(), Instant::now());
        let shared = || database.snapshot_within(Duration::from_secs(3600), Timestamp::ZERO);
        let later = |millis| begun + Duration::from_millis(millis);
        log.note_begin(&shared(), begun);
        log.note_begin(&shared(), later(6));
        // It shows the timestamp of the shared one, as nothing is committed.
        log.note_begin(&database.snapshot().watched(), later(9));
        let sums = log.sums();
        assert_eq!((sums.mean_age, sums.largest_age), (Duration::from_millis(2), Duration::from_millis(6)));
    }

    #[test]
    fn a_log_keeps_no_counters_of_a_snapshot_that_has_gone() {
        let (database, log) = (Database::new(), DashboardLog::default());
        let snapshot = database.snapshot().watched();
        log.note_begin(&snapshot, Instant::now());
        log.note_end(&snapshot);
        let work = Arc::downgrade(snapshot.work().expect("it is watched"));
        assert!(work.upgrade().is_some());
        drop(snapshot);
        assert!(work.upgrade().is_none());
    }
}
