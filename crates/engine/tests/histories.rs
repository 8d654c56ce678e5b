//! Random histories: what concurrent transactions saw and wrote, checked for cycles.
//!
//! Threads run random transactions on a few rows. Every write stores its transaction's number, and whoever writes a
//! row has it pass on a *link*: the number of the writer before (kept in a second column, read under the same row
//! lock or validated with it), so the order of all versions of a row is known from the committed data itself and not
//! from the engine's timestamps. From this the checker builds Adya's direct serialization graph:
//! - *ww* from a version's writer to the next version's writer,
//! - *wr* from a version's writer to whoever read it,
//! - *rw* from whoever read a version to the next version's writer. A row that a range or a filtered scan did *not*
//!   return counts as read too, in the version that was then outside of the range or deleted: that makes phantoms
//!   edges like all others,
//! - *real time*: from whoever was acknowledged before another one began, to that one.
//!
//! Rows never vanish for the checker: a deleted id is a version whose state is "absent", and its writer is known from
//! the history. A cycle is an anomaly; with real-time edges, no cycle means strict serializability. Controls at lower
//! levels must find theirs, or the checker would prove nothing.

mod support;

use ankerdb_engine::*;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use support::*;

/// Ids of the rows.
const IDS: i32 = 12;
/// Kinds lie in 0..KINDS; ranges cut it.
const KINDS: i32 = 6;

/// What a transaction saw of an id: the writer of the version, or of the state without the row.
type Seen = i64;

/// One committed transaction.
#[derive(Clone, Default, Debug)]
struct Done {
    number: i64,
    /// Moments of one global clock: before it began and after its commit was acknowledged.
    began: u64,
    ended: u64,
    /// Versions read, by id.
    reads: Vec<(i32, Seen)>,
    /// Ranges of kinds read, with what they returned. The rest is matched once all versions are known.
    ranges: Vec<RangeSeen>,
    writes: Vec<Write>,
}

#[derive(Clone, Debug)]
struct RangeSeen {
    low: i32,
    high: i32,
    found: Vec<(i32, Seen)>,
    /// The versions of the other ids: outside of the range, or absent.
    not_found: Vec<(i32, Seen)>,
}

/// A new version of an id: its kind, or absent; and the writer of the version that it replaces.
#[derive(Clone, Copy, Debug)]
struct Write {
    id: i32,
    kind: Option<i32>,
    former: Seen,
}

/// The tables: `items` holds the rows; a row's column a is its writer's number. `absent` has a row for each id for
/// good: its column a is the number of whoever deleted or inserted the id last, so that absence has a version.
struct Stage {
    database: Database,
    items: Arc<Table>,
    absent: Arc<Table>,
    clock: AtomicU64,
    numbers: AtomicI64,
}

/// How a history is made.
#[derive(Clone, Copy)]
struct Plan {
    level: Isolation,
    threads: u64,
    transactions: usize,
    /// Whether some transactions are interactive, with locks.
    interactive: bool,
    seed: u64,
}

impl Stage {
    fn new() -> Stage {
        let database = Database::new();
        let (items, absent) = (items(&database, "items"), items(&database, "absent"));
        fill(&database, &items, (0..IDS).map(|id| item(id, 0, 0, id % KINDS)));
        fill(&database, &absent, (0..IDS).map(|id| item(id, 0, 0, 0)));
        Stage { database, items, absent, clock: AtomicU64::new(0), numbers: AtomicI64::new(1) }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// One transaction at work; notes what it does.
struct Actor<'a> {
    stage: &'a Stage,
    transaction: &'a mut Transaction,
    lock: bool,
    done: Done,
}

impl Actor<'_> {
    /// Looks an id up; notes the version seen.
    fn read(&mut self, id: i32) -> Result<Option<RowId>> {
        let row = find(self.transaction, &self.stage.items, id, &[A, KIND])?;
        let seen = match row {
            Some(row) => self.transaction.bigint(&self.stage.items, row, A),
            None => {
                let row = find(self.transaction, &self.stage.absent, id, &[A])?.expect("one for each id");
                self.transaction.bigint(&self.stage.absent, row, A)
            }
        };
        self.note(id, seen);
        Ok(row)
    }

    /// Own writes are nobody's version yet.
    fn note(&mut self, id: i32, seen: Seen) {
        if seen != self.done.number {
            self.done.reads.push((id, seen));
        }
    }

    /// Rows with kinds in the range, through the index, a filtered scan or a view.
    fn read_range(&mut self, low: i32, high: i32, how: u8) -> Result<()> {
        let (items, mut found) = (self.stage.items.clone(), Vec::new());
        let columns = ColumnSet::of(&[ID, A, KIND]);
        let mut visit = |t: &mut Transaction, row: RowId| {
            found.push((t.integer(&items, row, ID), t.bigint(&items, row, A)));
            Ok(ControlFlow::Continue(()))
        };
        match how {
            0 | 1 => {
                let direction = if how == 0 { Direction::Forward } else { Direction::Backward };
                let range = range(&items, BY_KIND, low, high);
                self.transaction.scan_index(&items, BY_KIND, &range, direction, columns, &mut visit)?;
            }
            2 => {
                self.transaction.scan_table(&items, columns, Some(kinds(low, high)), &mut visit)?;
            }
            _ => {
                self.transaction.note_table_read(&items, columns, Some(kinds(low, high)));
                for row in view_rows(&self.transaction.read_view(), &items, &[ID, A, KIND]) {
                    if let [Value::Integer(id), Value::BigInt(writer), Value::Integer(kind)] = row[..]
                        && (low..=high).contains(&kind)
                    {
                        found.push((id, writer));
                    }
                }
            }
        }
        // A transaction's own rows hide what it read of them before: leave ranges over own writes out.
        if self.done.writes.is_empty() {
            let not_found = self.versions_of_others(&found);
            self.done.ranges.push(RangeSeen { low, high, found, not_found });
        }
        Ok(())
    }

    /// Which versions of the other ids this statement reads at. They are looked up behind the engine's back, in a view
    /// for which no read is noted, so that only the range itself protects them.
    fn versions_of_others(&self, found: &[(i32, Seen)]) -> Vec<(i32, Seen)> {
        let view = self.transaction.read_view();
        let mut versions = HashMap::new();
        for table in [&self.stage.absent, &self.stage.items] {
            for row in view_rows(&view, table, &[ID, A]) {
                if let [Value::Integer(id), Value::BigInt(writer)] = row[..] {
                    versions.insert(id, writer);
                }
            }
        }
        versions.retain(|id, _| found.iter().all(|(other, _)| other != id));
        versions.into_iter().collect()
    }

    /// Whether the row is ours to write: interactive transactions lock first.
    fn is_mine(&mut self, table: &Arc<Table>, row: RowId) -> Result<bool> {
        if !self.lock {
            return Ok(true);
        }
        Ok(self.transaction.lock(table, row, LockWait::Wait)? == Locked::Unchanged)
    }

    /// Updates, moves, deletes or inserts the id, whichever applies; once per transaction and id.
    fn write(&mut self, id: i32, kind: i32, action: u8) -> Result<()> {
        if self.done.writes.iter().any(|write| write.id == id) {
            return Ok(());
        }
        let found = self.read(id)?;
        let former = self.done.reads.last().expect("just read").1;
        let (items, absent) = (self.stage.items.clone(), self.stage.absent.clone());
        let me = (A, Value::BigInt(self.done.number));
        let marker = find(self.transaction, &absent, id, &[])?.expect("one for each id");
        // The marker's row serializes those who insert or delete the id, as the row itself does those who update it.
        let (kind, table, row) = match found {
            Some(row) if action < 3 => {
                let old = self.transaction.integer(&items, row, KIND);
                (Some(if action == 0 { kind } else { old }), &items, row)
            }
            Some(row) => (None, &items, row),
            None => (Some(kind), &absent, marker),
        };
        if !self.is_mine(table, row)? {
            return Ok(());
        }
        match (found, kind) {
            (Some(row), Some(kind)) => {
                let mut changes = vec![me];
                if action == 0 {
                    changes.push((KIND, Value::Integer(kind)));
                }
                self.transaction.update(&items, row, changes)?;
            }
            (Some(row), None) => {
                if !self.is_mine(&absent, marker)? {
                    return Ok(());
                }
                self.transaction.delete(&items, row)?;
                self.transaction.update(&absent, marker, vec![me])?;
            }
            (None, kind) => {
                self.transaction.insert(&items, item(id, self.done.number, 0, kind.expect("it is new")))?;
                self.transaction.update(&absent, marker, vec![me])?;
            }
        }
        self.done.writes.push(Write { id, kind, former });
        Ok(())
    }

    fn run(&mut self, random: &mut fastrand::Rng) -> Result<()> {
        for _ in 0..random.u8(1..=4) {
            let (id, kind) = (random.i32(0..IDS), random.i32(0..KINDS));
            match random.u8(0..10) {
                0..3 => drop(self.read(id)?),
                3..5 => {
                    let high = random.i32(kind..KINDS);
                    self.read_range(kind, high, random.u8(0..4))?;
                }
                _ => self.write(id, kind, random.u8(0..5))?,
            }
            if random.u8(0..3) == 0 {
                // Lets others in between, also where there are few cores.
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

/// Runs one transaction to its end; what it did, if it committed.
fn transact(stage: &Stage, session: &mut Session, plan: Plan, random: &mut fastrand::Rng) -> Option<Done> {
    let number = stage.numbers.fetch_add(1, Ordering::Relaxed);
    let done = Done { number, began: stage.tick(), ..Done::default() };
    let outcome = if plan.interactive && random.bool() {
        let mut transaction = session.begin(plan.level);
        let mut actor = Actor { stage, transaction: &mut transaction, lock: true, done };
        let outcome = actor.run(random);
        let done = actor.done;
        outcome.and_then(|()| transaction.commit()).map(|_| done)
    } else {
        session.try_run(plan.level, |transaction| {
            let mut actor = Actor { stage, transaction, lock: false, done };
            actor.run(random)?;
            Ok(actor.done)
        })
    };
    match outcome {
        Ok(mut done) => {
            done.ended = stage.tick();
            Some(done)
        }
        Err(error) => {
            let known = error.is_retryable() || error.state() == SqlState::UniqueViolation;
            assert!(known, "{error:?}");
            None
        }
    }
}

/// A history: all committed transactions, and the first one, which made the rows.
fn history(plan: Plan) -> Vec<Done> {
    let stage = Stage::new();
    let rows = (0..IDS).map(|id| Write { id, kind: Some(id % KINDS), former: -1 });
    let mut all = vec![Done { writes: rows.collect(), ..Done::default() }];
    stage.tick();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.threads)
            .map(|thread| {
                let stage = &stage;
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(plan.seed * 1000 + thread);
                    let mut session = stage.database.session();
                    let runs = 0..plan.transactions;
                    runs.filter_map(|_| transact(stage, &mut session, plan, &mut random)).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| all.extend(thread.join().unwrap()));
    });
    all
}

/// An edge's reason, for the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    WriteWrite,
    WriteRead,
    ReadWrite,
    RealTime,
}

struct Graph {
    /// By position in the history.
    edges: Vec<Vec<(usize, Why)>>,
}

/// What is wrong with a history.
#[derive(PartialEq, Debug)]
enum Verdict {
    Serializable,
    /// Two writers replaced the same version.
    LostUpdate,
    /// Transactions (numbers) and why each comes before the next one.
    Cycle(Vec<(i64, Why)>),
}

fn judge(history: &[Done], real_time: bool) -> Verdict {
    let place: HashMap<i64, usize> = history.iter().enumerate().map(|(i, done)| (done.number, i)).collect();
    // (id, version) -> the write that replaced it.
    let mut next: HashMap<(i32, Seen), (usize, Write)> = HashMap::new();
    for (i, write) in writes(history) {
        if next.insert((write.id, write.former), (i, *write)).is_some() {
            return Verdict::LostUpdate;
        }
    }
    let mut graph = Graph { edges: vec![Vec::new(); history.len()] };
    for ((_, former), (i, _)) in &next {
        if let Some(before) = place.get(former) {
            graph.add(*before, *i, Why::WriteWrite);
        }
    }
    for (i, done) in history.iter().enumerate() {
        for (id, seen) in &done.reads {
            let writer = place.get(seen).unwrap_or_else(|| panic!("{seen} was read but never committed"));
            graph.read(i, *writer, next.get(&(*id, *seen)));
        }
        for range in &done.ranges {
            graph.read_range(i, range, history, &place, &next);
        }
    }
    if real_time {
        graph.add_real_time(history);
    }
    graph.cycle(history).map_or(Verdict::Serializable, Verdict::Cycle)
}

fn writes(history: &[Done]) -> impl Iterator<Item = (usize, &Write)> {
    history.iter().enumerate().flat_map(|(i, done)| done.writes.iter().map(move |write| (i, write)))
}

impl Graph {
    fn add(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.edges[from].push((to, why));
        }
    }

    fn read(&mut self, reader: usize, writer: usize, next: Option<&(usize, Write)>) {
        self.add(writer, reader, Why::WriteRead);
        if let Some((next, _)) = next {
            self.add(reader, *next, Why::ReadWrite);
        }
    }

    /// Rows found are read. An id that was not found depends on whoever took it out of the range last, and comes
    /// before whoever brings it in again; versions that change nothing about that do not matter. If it is taken out
    /// once more while the reader runs, the reader may just as well come after that: then nothing follows from it.
    fn read_range(
        &mut self,
        reader: usize,
        range: &RangeSeen,
        history: &[Done],
        place: &HashMap<i64, usize>,
        next: &HashMap<(i32, Seen), (usize, Write)>,
    ) {
        for (id, seen) in &range.found {
            let writer = place.get(seen).unwrap_or_else(|| panic!("{seen} was read but never committed"));
            self.read(reader, *writer, next.get(&(*id, *seen)));
        }
        let inside = |write: &Write| write.kind.is_some_and(|kind| (range.low..=range.high).contains(&kind));
        for (id, seen) in &range.not_found {
            // The version seen must be outside of the range; these are the changes of being so, before and after it.
            let (mut version, mut is_outside, mut is_past) = (-1, false, false);
            let (mut left, mut entered, mut left_again) = (None, None, None);
            while let Some((writer, write)) = next.get(&(*id, version)) {
                version = history[*writer].number;
                match (is_past, is_outside, inside(write)) {
                    (false, false, false) => left = Some(*writer),
                    (true, true, true) => entered = entered.or(Some(*writer)),
                    (true, false, false) => left_again = left_again.or(Some(*writer)),
                    _ => {}
                }
                is_outside = !inside(write);
                if version == *seen {
                    assert!(is_outside, "a version inside of the range was not returned");
                    is_past = true;
                }
            }
            assert!(is_past, "{seen} was read but never committed");
            self.add(left.expect("it is outside"), reader, Why::WriteRead);
            let undecided = left_again.is_some_and(|again| history[again].began < history[reader].ended);
            if let Some(entered) = entered.filter(|_| !undecided) {
                self.add(reader, entered, Why::ReadWrite);
            }
        }
    }

    /// Those that ended before another began come before it. Only the last ones to end are named: the others come
    /// before those already.
    fn add_real_time(&mut self, history: &[Done]) {
        let mut by_end: Vec<usize> = (0..history.len()).collect();
        by_end.sort_by_key(|&i| history[i].ended);
        for (i, done) in history.iter().enumerate() {
            let ended = by_end.partition_point(|&other| history[other].ended < done.began);
            let Some(&last) = ended.checked_sub(1).and_then(|last| by_end.get(last)) else { continue };
            for &other in by_end[..ended].iter().rev() {
                if history[other].ended < history[last].began {
                    break;
                }
                self.add(other, i, Why::RealTime);
            }
        }
    }

    /// A cycle, if there is one: depth-first, without recursion.
    fn cycle(&self, history: &[Done]) -> Option<Vec<(i64, Why)>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            OnPath,
            Done,
        }
        let mut marks = vec![Mark::New; self.edges.len()];
        for root in 0..self.edges.len() {
            if marks[root] != Mark::New {
                continue;
            }
            let mut path = vec![(root, 0)];
            marks[root] = Mark::OnPath;
            while let Some((node, edge)) = path.last_mut() {
                let Some(&(to, _)) = self.edges[*node].get(*edge) else {
                    marks[*node] = Mark::Done;
                    path.pop();
                    continue;
                };
                *edge += 1;
                match marks[to] {
                    Mark::Done => {}
                    Mark::New => {
                        marks[to] = Mark::OnPath;
                        path.push((to, 0));
                    }
                    Mark::OnPath => {
                        let start = path.iter().position(|(node, _)| *node == to).expect("it is on the path");
                        let step = |(node, edge): &(usize, usize)| {
                            (history[*node].number, self.edges[*node][edge - 1].1)
                        };
                        return Some(path[start..].iter().map(step).collect());
                    }
                }
            }
        }
        None
    }
}

const PLAN: Plan =
    Plan { level: Isolation::Serializable, threads: 4, transactions: 1_500, interactive: true, seed: 0 };

#[test]
fn serializable_histories_are_strictly_serializable() {
    for seed in 1..=4 {
        let plan = Plan { seed, interactive: seed % 2 == 0, ..PLAN };
        let history = history(plan);
        let ranges: usize = history.iter().map(|done| done.ranges.len()).sum();
        let writes: usize = history.iter().map(|done| done.writes.len()).sum();
        assert!(history.len() > 500 && ranges > 200 && writes > 500, "seed {seed}: too little has happened");
        let verdict = judge(&history, true);
        if let Verdict::Cycle(cycle) = &verdict {
            // The transactions of the cycle, for whoever has to find out.
            let members =
                history.iter().filter(|done| cycle.iter().any(|(number, _)| *number == done.number));
            members.for_each(|done| eprintln!("{done:?}"));
        }
        assert_eq!(verdict, Verdict::Serializable, "seed {seed}");
    }
}

/// A control must show its anomaly, in one of many rounds.
fn must_find(level: Isolation, what: &str, is_it: impl Fn(&Verdict) -> bool) {
    for seed in 1..=200 {
        let plan = Plan { level, seed, transactions: 300, interactive: false, ..PLAN };
        if is_it(&judge(&history(plan), false)) {
            return;
        }
    }
    panic!("{what} was never found at {level:?}: the checker is blind");
}

/// At least two anti-dependencies and no lost update: write skew and its relatives (Adya's G2).
fn is_skew(verdict: &Verdict) -> bool {
    let Verdict::Cycle(cycle) = verdict else { return false };
    cycle.iter().filter(|(_, why)| *why == Why::ReadWrite).count() >= 2
}

#[test]
fn control_snapshot_isolation_shows_write_skew() {
    must_find(Isolation::RepeatableRead, "write skew", is_skew);
}

#[test]
fn snapshot_isolation_loses_no_update() {
    for seed in 1..=2 {
        let plan = Plan { level: Isolation::RepeatableRead, seed, ..PLAN };
        assert_ne!(judge(&history(plan), true), Verdict::LostUpdate, "seed {seed}");
    }
}

#[test]
fn control_read_committed_shows_lost_updates() {
    must_find(Isolation::ReadCommitted, "a lost update", |verdict| *verdict == Verdict::LostUpdate);
}
