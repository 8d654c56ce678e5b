//! The snapshot manager: which queries read one snapshot together, and what is made ready for them (Sharma, dissertation 2020, §5.1;
//! docs/design/snapshot-manager.md).
//!
//! Taking a snapshot costs nothing; reading it does, where its blocks have changed: each query copies them, and each makes writers
//! copy what it has on loan. A query that may be a little late reads the snapshot of another one, with everything that was
//! lent or copied for it.
//!
//! ```text
//! allowed 1 s    q1 ─ takes S1 ──┐   q2 ─ S1 is 0.3 s old: shares ──┐      q3 ─ S1 is 1.2 s old: takes S2 ──┐
//! allowed 0.1 s                      q4 ─ takes S1', now the shared one
//! not allowed    q5 ─ its own, as always
//! ahead                                                                    what queries had to copy for S1 and for the one
//!                                                                          before is lent or copied for S2 at once
//! ```
//!
//! # What decides
//! - *Whether sharing pays*: every [`PROBE_EVERY`] queries one that has to have a new snapshot does not share it, and the time that
//!   it copies is compared with that of queries that share, the first one included. (Others could not: their sessions
//!   would have seen more than the shared one shows, and end it.) Where sharing costs more (each query reads other
//!   blocks, and what it finds is older) snapshots are not shared until a later trial.
//! - *What is made ready*: places that queries had to copy in each of the last two shared snapshots. If queries read less than half
//!   of it, nothing is for the next [`AHEAD_PAUSE`] snapshots.
//! - *How much history may be kept for it*: past the bound it is let go of, and the next query takes a new one.
//!
//! # What sharing never does
//! Show a query less than it may miss: the age is that of the snapshot when the query asks; nor less than its session has seen,
//! nor definitions of another time than those that the query is planned by.
//!
//! Not here: named snapshots, which are kept until they are dropped; which statements may ask.

use crate::catalog::Catalog;
use crate::configuration::Configuration;
use ankerdb_base::Timestamp;
use ankerdb_snapshot::{CopiedColumns, CopyCount, Snapshot, SnapshotWork};
use ankerdb_sync::memory_limit::Claim;
use ankerdb_table::Table;
use ankerdb_transaction::TransactionManager;
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// After so many queries one that takes a new snapshot does not share it, to compare.
const PROBE_EVERY: u64 = 32;
/// Queries of either kind without which nothing is decided: some copy much and some nothing.
const COMPARED_MIN: f64 = 16.0;
/// How much more sharing must cost to be given up, and how much at least for each query.
const COSTS_MORE: f64 = 1.25;
const COSTS_MORE_NANOS: f64 = 50_000.0;
/// Queries after which sharing is tried again.
const TRIAL_AFTER: u64 = 64;
/// What a measurement counts less with each query that comes behind it.
const REMEMBERED: f64 = 0.97;
/// Snapshots without anything made ready, after one for which too little of it was read.
const AHEAD_PAUSE: u32 = 8;
/// Snapshots that are told of.
const TOLD: usize = 64;

/// Why there is a new shared snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewal {
    /// There was none.
    First,
    /// The query may not be as late as the former one.
    Age,
    /// The query's session had seen more than the former one.
    Seen,
    /// Tables have been defined, altered or dropped since the former one.
    Definitions,
    /// The former one kept more history than it may.
    History,
    /// The former one was let go of because memory was short, or has ended by itself because its technique ran out of it.
    Memory,
    /// To see whether sharing pays by now.
    Trial,
}

impl Renewal {
    /// One or two words for people.
    pub fn name(self) -> &'static str {
        match self {
            Renewal::First => "first",
            Renewal::Age => "age",
            Renewal::Seen => "session has seen more",
            Renewal::Definitions => "definitions",
            Renewal::History => "history",
            Renewal::Memory => "memory",
            Renewal::Trial => "trial",
        }
    }
}

/// A snapshot that was shared, or might have been.
#[derive(Clone, Debug)]
pub struct SharedSnapshot {
    /// What it shows.
    pub timestamp: Timestamp,
    /// When it was taken.
    pub taken_at: SystemTime,
    /// Why it was taken, and not the former one shared.
    pub because: Renewal,
    /// Queries that read it.
    pub queries: u64,
    /// How old it was when the last of them began.
    pub oldest_use: Duration,
    /// Arrays that were lent for it.
    pub lent: u64,
    /// What its queries copied.
    pub copied: CopyCount,
    /// What was made ready for them.
    pub ahead: CopyCount,
    /// How much of that they read.
    pub ahead_read: u64,
    /// About the bytes of history that it has kept at most: versions and arrays replaced while it was shared, and copies.
    pub history_bytes: u64,
    /// Whether queries can still come to share it.
    pub is_current: bool,
}

/// How often what was decided.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SnapshotDecisions {
    /// Queries that shared a snapshot which was there.
    pub shared: u64,
    /// Shared snapshots taken.
    pub taken: u64,
    /// Queries with a snapshot of their own, to compare.
    pub probes: u64,
    /// Queries with a snapshot of their own because sharing had been found not to pay.
    pub unshared: u64,
    /// Shared snapshots for which something was made ready.
    pub made_ahead: u64,
    /// Times that making ready was given up for a while, because too little was read of it.
    pub ahead_paused: u64,
    /// Times that a shared snapshot was let go of for the history that it kept.
    pub history_full: u64,
}

/// What the snapshot manager has done and found.
#[derive(Clone, Debug)]
pub struct SnapshotReport {
    /// The last snapshots, the oldest first.
    pub snapshots: Vec<SharedSnapshot>,
    /// How often what was decided.
    pub decisions: SnapshotDecisions,
    /// Whether queries share at present, if they may.
    pub shares: bool,
    /// How long a query with a snapshot of its own copies, if that is known: an average of the last ones.
    pub copying_alone: Option<Duration>,
    /// How long a query copies that shares its snapshot, if that is known.
    pub copying_shared: Option<Duration>,
    /// Bytes of history past which a shared snapshot is let go of; `None` for no bound.
    pub history_limit: Option<usize>,
}

/// What snapshots are taken of.
pub(crate) struct SnapshotSource<'a> {
    pub configuration: Configuration,
    pub manager: &'a Arc<TransactionManager>,
    pub catalog: &'a RwLock<Arc<Catalog>>,
    /// The catalog's version.
    pub version: &'a AtomicU64,
}

impl SnapshotSource<'_> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.catalog.read().tables().cloned().collect()
    }
}

/// See the module.
pub(crate) struct SnapshotManager {
    history_limit: Option<usize>,
    state: Mutex<ManagerState>,
}

struct ManagerState {
    current: Option<Current>,
    /// Why there is no current one.
    gone: Renewal,
    /// Queries that asked since one took a snapshot to compare.
    asked: u64,
    /// Snapshots whose work is not complete yet: how many queries had them, and whether those shared.
    watched: Vec<Watched>,
    alone: Cost,
    shared: Cost,
    /// Queries since sharing was given up; `None` while it is not.
    unshared_for: Option<u64>,
    /// What the queries of the former snapshot copied, if it had several.
    former_places: CopiedColumns,
    /// What those of the last two had in common.
    repeated: CopiedColumns,
    /// Snapshots for which nothing is made ready yet.
    ahead_paused_for: u32,
    log: VecDeque<Logged>,
    decisions: SnapshotDecisions,
}

struct Current {
    snapshot: Snapshot,
    work: Arc<SnapshotWork>,
    version: u64,
    taken: Instant,
    /// How late a query may be that has asked for it, at most.
    longest: Duration,
    queries: u64,
    /// What had been replaced when it was taken.
    replaced: u64,
    /// Whether what is made ready for it is still wanted.
    is_wanted: Arc<AtomicBool>,
}

struct Watched {
    work: Arc<SnapshotWork>,
    queries: u64,
    is_shared: bool,
}

struct Logged {
    told: SharedSnapshot,
    work: Arc<SnapshotWork>,
}

/// Nanoseconds that queries copied, and how many did; older ones count less.
#[derive(Clone, Copy, Default)]
struct Cost {
    nanos: f64,
    queries: f64,
}

impl Cost {
    fn add(&mut self, time: Duration, queries: u64) {
        let remembered = REMEMBERED.powi(queries.min(1000) as i32);
        self.nanos = self.nanos * remembered + time.as_nanos() as f64;
        self.queries = self.queries * remembered + queries as f64;
    }

    fn of_query(self) -> Option<f64> {
        (self.queries >= COMPARED_MIN).then(|| self.nanos / self.queries)
    }
}

/// What a query gets.
struct Choice {
    given: Snapshot,
    /// What to make ready for others.
    job: Option<AheadJob>,
    /// The snapshot that was shared until now, to be dropped outside of the lock.
    former: Option<Snapshot>,
}

/// Places to make ready for a snapshot.
struct AheadJob {
    snapshot: Snapshot,
    places: CopiedColumns,
    is_wanted: Arc<AtomicBool>,
}

impl SnapshotManager {
    pub(crate) fn new(history_limit: Option<usize>) -> SnapshotManager {
        let state = ManagerState {
            current: None,
            gone: Renewal::First,
            asked: 0,
            watched: Vec::new(),
            alone: Cost::default(),
            shared: Cost::default(),
            unshared_for: None,
            former_places: CopiedColumns::new(),
            repeated: CopiedColumns::new(),
            ahead_paused_for: 0,
            log: VecDeque::new(),
            decisions: SnapshotDecisions::default(),
        };
        SnapshotManager { history_limit, state: Mutex::new(state) }
    }

    /// A snapshot for a query that may miss what was committed in the last `staleness`, but neither what its session has seen nor
    /// other definitions than those of now.
    pub(crate) fn snapshot_within(
        &self,
        source: &SnapshotSource<'_>,
        staleness: Duration,
        seen: Timestamp,
    ) -> Snapshot {
        // A copy of the process has what is committed when it is made.
        let is_forked = source.configuration == Configuration::HeeFork;
        if staleness.is_zero() || is_forked || !source.manager.strategy().keeps_copies() {
            return source.manager.snapshot();
        }
        let Choice { given, job, former: _former } = self.state.lock().choose(source, (staleness, seen));
        if let Some(job) = job {
            job.start(source);
        }
        given
    }

    /// Lets go of the shared snapshot where nobody can use it any more, where it keeps too much, or where memory is short; and
    /// compares what queries had to copy. To be called every now and then.
    pub(crate) fn pass(&self, source: &SnapshotSource<'_>) {
        // Dropped behind the lock.
        let _former;
        let Some(mut state) = self.state.try_lock() else { return };
        state.compare();
        let Some(current) = &state.current else { return };
        let limit = self.history_limit.map_or(u64::MAX, |limit| limit as u64);
        let is_short = || source.manager.memory_limit().check(Claim::Large, 0).is_err();
        let end = if current.taken.elapsed() > current.longest {
            Renewal::Age
        } else if current.history_bytes(source) > limit {
            state.decisions.history_full += 1;
            Renewal::History
        } else if is_short() {
            Renewal::Memory
        } else {
            return;
        };
        _former = state.let_go(source, end);
    }

    pub(crate) fn report(&self, source: &SnapshotSource<'_>) -> SnapshotReport {
        let state = self.state.lock();
        let current = state.current.as_ref();
        let snapshots = state.log.iter().map(|logged| match current {
            Some(current) if Arc::ptr_eq(&current.work, &logged.work) => SharedSnapshot {
                history_bytes: current.history_bytes(source),
                is_current: true,
                ..logged.so_far()
            },
            _ => logged.so_far(),
        });
        let time = |cost: Cost| cost.of_query().map(|nanos| Duration::from_nanos(nanos as u64));
        SnapshotReport {
            snapshots: snapshots.collect(),
            decisions: state.decisions,
            shares: state.unshared_for.is_none(),
            copying_alone: time(state.alone),
            copying_shared: time(state.shared),
            history_limit: self.history_limit,
        }
    }
}

impl ManagerState {
    /// The snapshot that a query gets.
    fn choose(&mut self, source: &SnapshotSource<'_>, (staleness, seen): (Duration, Timestamp)) -> Choice {
        self.compare();
        self.asked += 1;
        if let Some(queries) = &mut self.unshared_for {
            *queries += 1;
            if *queries < TRIAL_AFTER {
                self.decisions.unshared += 1;
                let former = self.let_go(source, Renewal::Trial);
                return Choice { given: self.take_alone(source), job: None, former };
            }
            self.unshared_for = None;
            self.shared = Cost::default();
        }
        let version = source.version.load(Ordering::Acquire);
        let age = self.current.as_ref().map_or(Duration::ZERO, |current| current.taken.elapsed());
        let because = match &mut self.current {
            None => self.gone,
            Some(current) if current.version != version => Renewal::Definitions,
            Some(current) if current.snapshot.timestamp() < seen => Renewal::Seen,
            Some(_) if age > staleness => Renewal::Age,
            Some(current) if current.snapshot.check().is_err() => Renewal::Memory,
            Some(current) => {
                current.queries += 1;
                current.longest = current.longest.max(staleness);
                let given = current.snapshot.clone();
                self.decisions.shared += 1;
                if let Some(logged) = self.log.back_mut() {
                    logged.told.queries += 1;
                    logged.told.oldest_use = logged.told.oldest_use.max(age);
                }
                return Choice { given, job: None, former: None };
            }
        };
        if self.asked >= PROBE_EVERY {
            self.asked = 0;
            self.decisions.probes += 1;
            return Choice { given: self.take_alone(source), job: None, former: None };
        }
        let former = self.let_go(source, because);
        let (given, job) = self.renew(source, staleness, because);
        Choice { given, job, former }
    }

    /// Takes a snapshot to share.
    fn renew(
        &mut self,
        source: &SnapshotSource<'_>,
        staleness: Duration,
        because: Renewal,
    ) -> (Snapshot, Option<AheadJob>) {
        // Taken between two looks at the same version, so that it shows that version's tables.
        let (version, taken, snapshot) = loop {
            let version = source.version.load(Ordering::Acquire);
            let (taken, snapshot) = (Instant::now(), source.manager.watched_snapshot());
            if source.version.load(Ordering::Acquire) == version {
                break (version, taken, snapshot);
            }
        };
        let work = snapshot.work().expect("it is watched").clone();
        let is_wanted = Arc::new(AtomicBool::new(true));
        let job = (!self.repeated.is_empty() && self.ahead_paused_for == 0).then(|| {
            self.decisions.made_ahead += 1;
            let places = self.repeated.clone();
            AheadJob { snapshot: snapshot.clone(), places, is_wanted: is_wanted.clone() }
        });
        self.ahead_paused_for = self.ahead_paused_for.saturating_sub(1);
        self.decisions.taken += 1;
        if self.log.len() == TOLD {
            self.log.pop_front();
        }
        let told = SharedSnapshot {
            timestamp: snapshot.timestamp(),
            taken_at: SystemTime::now(),
            because,
            queries: 1,
            oldest_use: Duration::ZERO,
            lent: 0,
            copied: CopyCount::default(),
            ahead: CopyCount::default(),
            ahead_read: 0,
            history_bytes: 0,
            is_current: false,
        };
        self.log.push_back(Logged { told, work: work.clone() });
        let (given, replaced) = (snapshot.clone(), source.manager.history_bytes());
        let (longest, queries) = (staleness, 1);
        self.current =
            Some(Current { snapshot, work, version, taken, longest, queries, replaced, is_wanted });
        (given, job)
    }

    /// No query comes to share the current snapshot any more, which is returned: freeing its copies may take a while.
    fn let_go(&mut self, source: &SnapshotSource<'_>, because: Renewal) -> Option<Snapshot> {
        self.gone = because;
        let current = self.current.take()?;
        current.is_wanted.store(false, Ordering::Relaxed);
        if let Some(logged) = self.log.back_mut() {
            logged.told.history_bytes = current.history_bytes(source);
        }
        let (ahead, read) = (current.work.ahead().count, current.work.ahead_read());
        if ahead > 0 && read * 2 < ahead {
            self.ahead_paused_for = AHEAD_PAUSE;
            self.decisions.ahead_paused += 1;
        }
        // Of other definitions the numbers of columns may stand for others.
        let repeats = current.queries > 1 && because != Renewal::Definitions;
        let places = if repeats { current.work.places() } else { CopiedColumns::new() };
        self.repeated = in_both(&self.former_places, &places);
        self.former_places = places;
        self.watched.push(Watched { work: current.work, queries: current.queries, is_shared: true });
        Some(current.snapshot)
    }

    /// A snapshot for one query, whose work is compared with that of those who share.
    fn take_alone(&mut self, source: &SnapshotSource<'_>) -> Snapshot {
        let snapshot = source.manager.watched_snapshot();
        let work = snapshot.work().expect("it is watched").clone();
        self.watched.push(Watched { work, queries: 1, is_shared: false });
        snapshot
    }

    /// Adds what queries had to copy of snapshots that are not read any more, and decides whether to share.
    fn compare(&mut self) {
        if self.watched.is_empty() {
            return;
        }
        for index in (0..self.watched.len()).rev() {
            if Arc::strong_count(&self.watched[index].work) > 1 + self.is_logged(&self.watched[index]) {
                continue;
            }
            let Watched { work, queries, is_shared } = self.watched.swap_remove(index);
            let cost = if is_shared { &mut self.shared } else { &mut self.alone };
            cost.add(work.copied().time, queries);
        }
        if let (Some(shared), Some(alone), None) =
            (self.shared.of_query(), self.alone.of_query(), self.unshared_for)
            && shared > alone * COSTS_MORE
            && shared > alone + COSTS_MORE_NANOS
        {
            self.unshared_for = Some(0);
        }
    }

    fn is_logged(&self, watched: &Watched) -> usize {
        usize::from(self.log.iter().any(|logged| Arc::ptr_eq(&logged.work, &watched.work)))
    }
}

impl Current {
    fn history_bytes(&self, source: &SnapshotSource<'_>) -> u64 {
        let replaced = source.manager.history_bytes() - self.replaced;
        replaced + self.work.copied().bytes + self.work.ahead().bytes
    }
}

impl Logged {
    fn so_far(&self) -> SharedSnapshot {
        let work = &self.work;
        let (copied, ahead) = (work.copied(), work.ahead());
        SharedSnapshot {
            lent: work.lent(),
            copied,
            ahead,
            ahead_read: work.ahead_read(),
            ..self.told.clone()
        }
    }
}

impl AheadJob {
    /// Makes the places ready in a thread of its own, which ends when the snapshot is no longer shared or memory gets short. Does
    /// nothing where the system has no thread.
    fn start(self, source: &SnapshotSource<'_>) {
        let (tables, limit) = (source.tables(), source.manager.memory_limit());
        let run = move || {
            for table in tables {
                let places = self.places.iter().filter(|((of, _), _)| *of == table.id());
                for ((_, block), columns) in places {
                    let is_short = limit.check(Claim::Copy, 0).is_err();
                    if is_short || !self.is_wanted.load(Ordering::Relaxed) {
                        return;
                    }
                    // The table may have been altered just now.
                    if columns.iter().all(|column| *column < table.columns().len()) {
                        // Queries find out themselves what is wrong with it.
                        let _ = self.snapshot.read_ahead(&table, *block, columns);
                    }
                }
            }
        };
        let _ = std::thread::Builder::new().name("ankerdb-ahead".into()).spawn(run);
    }
}

impl Drop for SnapshotManager {
    fn drop(&mut self) {
        if let Some(current) = &self.state.get_mut().current {
            current.is_wanted.store(false, Ordering::Relaxed);
        }
    }
}

/// The columns that both have at the same places.
fn in_both(one: &CopiedColumns, other: &CopiedColumns) -> CopiedColumns {
    let both = one.iter().filter_map(|(place, columns)| {
        let others = other.get(place)?;
        let columns: Vec<usize> = columns.iter().filter(|column| others.contains(column)).copied().collect();
        (!columns.is_empty()).then_some((*place, columns))
    });
    both.collect()
}
