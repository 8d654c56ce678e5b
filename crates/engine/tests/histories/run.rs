//! Makes histories: threads that run transactions on a world, and others that only read.

use crate::history::{Clock, Done, MAKER, Number, Span, Write};
use crate::support::Running;
use ankerdb_engine::*;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// How a transaction is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// A closure, at once, without locks.
    Procedure,
    /// Kept open between statements; locks every row before it writes.
    Locking,
    /// Kept open between statements; meets others at its commit only.
    Optimistic,
}

/// How a history is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub configuration: Configuration,
    /// Whether each commit is done as if it had many rows.
    pub large: bool,
    pub level: Isolation,
    /// One of them is drawn for each transaction.
    pub styles: &'static [Style],
    pub threads: u64,
    /// Of each thread; not all of them commit.
    pub transactions: usize,
    /// Threads that take snapshots, and hold some of them, as long as the others run.
    pub readers: u64,
    pub seed: u64,
}

impl Plan {
    pub(crate) fn database(&self) -> Database {
        let large_commits_from = self.large.then_some(1);
        let options = Options { large_commits_from, ..self.configuration.into() };
        Database::open(options).expect("it is available")
    }
}

/// Rows, and what transactions do with them.
pub(crate) trait World: Sync + Sized {
    fn new(plan: &Plan) -> Self;
    fn database(&self) -> &Database;
    fn clock(&self) -> &Clock;
    /// The first version of everything.
    fn made(&self) -> Vec<Write>;
    /// Some random statements; notes what they saw and wrote.
    fn act(
        &self,
        transaction: &mut Transaction,
        style: Style,
        done: &mut Done,
        random: &mut fastrand::Rng,
    ) -> Result<()>;
    /// The version of every key in a view, in the order of keys.
    fn observe(&self, view: &ReadView) -> Vec<(i32, Number)>;
    /// The version of every key, read key by key.
    fn look(&self, transaction: &mut Transaction) -> Result<Vec<(i32, Number)>>;
}

/// A world, and all that committed in it; first the transaction that made the rows.
pub(crate) fn history<W: World>(plan: Plan) -> (W, Vec<Done>) {
    let world = W::new(&plan);
    let made = Done { number: MAKER, timestamp: Some(0), writes: world.made(), ..Done::default() };
    world.clock().tick();
    let (numbers, running) = (AtomicI64::new(MAKER + 1), Running::default());
    let mut all = vec![made];
    std::thread::scope(|scope| {
        let shared = RunState { world: &world, numbers: &numbers, running: &running, plan };
        let spawn = |thread: u64, run: fn(RunState<'_, W>, fastrand::Rng) -> Vec<Done>| {
            let random = fastrand::Rng::with_seed(plan.seed * 1000 + thread);
            scope.spawn(move || run(shared, random))
        };
        let readers: Vec<_> = (0..plan.readers).map(|reader| spawn(500 + reader, read)).collect();
        let stop = running.until_drop();
        let writers: Vec<_> = (0..plan.threads).map(|writer| spawn(writer, write)).collect();
        writers.into_iter().for_each(|writer| all.extend(writer.join().unwrap()));
        drop(stop);
        readers.into_iter().for_each(|reader| all.extend(reader.join().unwrap()));
    });
    (world, all)
}

struct RunState<'a, W> {
    world: &'a W,
    numbers: &'a AtomicI64,
    running: &'a Running,
    plan: Plan,
}

impl<W> Clone for RunState<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for RunState<'_, W> {}

impl<W: World> RunState<'_, W> {
    fn tick(&self) -> u64 {
        self.world.clock().tick()
    }

    fn next_number(&self) -> Number {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

fn write<W: World>(shared: RunState<'_, W>, mut random: fastrand::Rng) -> Vec<Done> {
    let mut session = shared.world.database().session();
    let runs = 0..shared.plan.transactions;
    runs.filter_map(|_| transact(shared, &mut session, &mut random)).collect()
}

/// Runs one transaction to its end; what it did, if it committed.
fn transact<W: World>(
    shared: RunState<'_, W>,
    session: &mut Session,
    random: &mut fastrand::Rng,
) -> Option<Done> {
    let RunState { world, plan, .. } = shared;
    let style = plan.styles[random.usize(0..plan.styles.len())];
    let mut done = Done::new(shared.next_number(), shared.tick());
    let outcome = if style == Style::Procedure {
        let outcome = session.try_run(plan.level, |transaction| {
            done.snapshot = Span { began: done.life.began, ended: shared.tick() };
            world.act(transaction, style, &mut done, random)?;
            done.commit.began = shared.tick();
            Ok(())
        });
        done.timestamp = outcome.is_ok().then(|| session.last_commit().0);
        outcome
    } else {
        let mut transaction = session.begin(plan.level);
        done.snapshot = Span { began: done.life.began, ended: shared.tick() };
        world.act(&mut transaction, style, &mut done, random).and_then(|()| {
            done.commit.began = shared.tick();
            done.timestamp = Some(transaction.commit()?.0);
            Ok(())
        })
    };
    done.life.ended = shared.tick();
    done.commit.ended = done.life.ended;
    if let Err(error) = outcome {
        let known = error.is_retryable() || error.state() == SqlState::UniqueViolation;
        assert!(known, "{error:?}");
        return None;
    }
    Some(done)
}

/// Longest time that a snapshot is held.
const HELD_MS_MAX: u64 = 30;

/// Snapshots that are read at once, or held and read twice while pruning goes on, and transactions that read one key
/// after the other, slowly.
fn read<W: World>(shared: RunState<'_, W>, mut random: fastrand::Rng) -> Vec<Done> {
    let mut seen: Vec<Done> = Vec::new();
    let first = random.i64(1..1 << 20) << 32;
    let mut session = shared.world.database().session();
    while shared.running.goes_on() {
        let began = shared.tick();
        let (snapshot, reads) = if random.u8(0..4) == 0 {
            let mut transaction = session.begin(Isolation::RepeatableRead);
            let taken = Span { began, ended: shared.tick() };
            let reads = shared.world.look(&mut transaction).expect("nothing stops who only reads");
            transaction.commit().expect("nothing stops who only reads");
            (taken, reads)
        } else {
            let snapshot = shared.world.database().snapshot();
            let taken = Span { began, ended: shared.tick() };
            if random.bool() {
                std::thread::sleep(Duration::from_millis(random.u64(0..HELD_MS_MAX)));
            }
            let reads = shared.world.observe(&snapshot.read_view());
            std::thread::yield_now();
            let stays = shared.plan.configuration != Configuration::SeeRu;
            let again = shared.world.observe(&snapshot.read_view());
            assert!(!stays || reads == again, "a snapshot changed from {reads:?} to {again:?}");
            (taken, reads)
        };
        seen.push(Done::reader(first + seen.len() as i64, snapshot, reads));
    }
    seen
}
