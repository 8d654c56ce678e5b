//! What a query reads, and the least that it must show.
//!
//! Either each query takes a snapshot of its own, or all queries share one that is kept until it is refreshed, every so many
//! transactions, as HyPer's do. Before a snapshot is taken a marker is committed, which it must show, with all that clients knew to
//! be committed by then.

use super::clients::ChWorkload;
use crate::bench::stream::Stream;
use crate::htap::known::{Floor, Sums};
use crate::htap::marker::Marker;
use ankerdb_engine::{Session, Snapshot};
use ankerdb_measure::latency::Latencies;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether a refresh is due: TPC-C completes some dozens of transactions in that time.
const REFRESH_POLL: Duration = Duration::from_millis(1);

/// A snapshot, and what it must show.
#[derive(Clone)]
pub(super) struct ReadPoint {
    pub snapshot: Snapshot,
    /// Where there are transactions that could have committed it.
    pub marker: Option<i64>,
    pub floor: Floor,
    /// How long it took to take it.
    pub creation: Duration,
}

/// The clients beside which queries run.
pub(super) struct BesideClients<'a> {
    pub stream: &'a Stream,
    pub workload: &'a ChWorkload,
    pub marker: &'a Marker,
    /// The tables when the clients began.
    pub begin: Sums,
    /// Raised when markers will not be committed any more.
    pub ended: &'a AtomicBool,
}

impl ReadPoint {
    /// Of a database at rest.
    pub(super) fn of_idle(session: &mut Session, begin: &Sums) -> ReadPoint {
        ReadPoint::take(session, None, Floor::of(begin, Default::default()))
    }

    /// After a commit of the marker; `None` if the clients have ended. One caller at a time.
    pub(super) fn beside(session: &mut Session, beside: &BesideClients<'_>) -> Option<ReadPoint> {
        let marker = beside.marker.commit_one(beside.ended)?;
        let floor = Floor::of(&beside.begin, beside.workload.acknowledged());
        Some(ReadPoint::take(session, Some(marker), floor))
    }

    fn take(session: &mut Session, marker: Option<i64>, floor: Floor) -> ReadPoint {
        let started = Instant::now();
        let snapshot = session.snapshot();
        ReadPoint { snapshot, marker, floor, creation: started.elapsed() }
    }
}

/// The snapshot that all queries share.
pub(super) struct KeptPoint {
    point: Mutex<Arc<ReadPoint>>,
}

/// The refreshes of a phase.
#[derive(Clone, Default)]
pub(super) struct Refreshes {
    /// Snapshots that were taken for all queries, the first one included.
    pub count: u64,
    /// Times to take them.
    pub creation: Latencies,
}

impl Refreshes {
    /// Adds another phase's.
    pub(super) fn add(&mut self, other: &Refreshes) {
        self.count += other.count;
        self.creation.add(&other.creation);
    }
}

impl KeptPoint {
    /// With a first snapshot.
    pub(super) fn new(first: ReadPoint) -> KeptPoint {
        KeptPoint { point: Mutex::new(Arc::new(first)) }
    }

    /// The snapshot now.
    pub(super) fn now(&self) -> Arc<ReadPoint> {
        self.point.lock().clone()
    }

    /// Takes a new one after every `every` transactions, until the clients end. Queries that run keep theirs.
    pub(super) fn refresh(&self, session: &mut Session, every: u64, beside: &BesideClients<'_>) -> Refreshes {
        let mut refreshes = Refreshes { count: 1, ..Refreshes::default() };
        refreshes.creation.record(self.now().creation);
        let mut next = beside.stream.completed() + every;
        while !beside.ended.load(Ordering::Relaxed) {
            if beside.stream.completed() < next {
                std::thread::sleep(REFRESH_POLL);
                continue;
            }
            let Some(point) = ReadPoint::beside(session, beside) else { break };
            refreshes.count += 1;
            refreshes.creation.record(point.creation);
            *self.point.lock() = Arc::new(point);
            next += every;
        }
        refreshes
    }
}
