//! Random transactions and refreshes against maps: what transactions see, and what snapshots show, under all mechanisms.
//!
//! Tuples have a key, by which the first index finds them, a group, by which the second one does, and two words that change.
//! Where a snapshot is a child process, or an index is forked, a child looks at the snapshot. It does so after the transactions
//! that follow, if there are any, because what it sees must not change with them.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_region::fork::{Child, Output};
use ankerdb_region::{PageSize, Region};
use ankerdb_serial::{
    HotCold, InPlace, IndexTreatment, MemoryKind, QuiescePolicy, Reading, RelationId, SerialDatabase,
    SerialSnapshot, SerialTransaction, ShadowCopies, Shape, Store, TupleId, TupleShadowing, TwinTuples, View,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const WORDS: usize = 4;
/// Keys from here on are never used.
const KEYS: u64 = 150;
const GROUPS: u64 = 7;
/// Numbers of tuples that are deleted are free after the next refresh only.
const CAPACITY: usize = 20_000;
/// Sizes of the pages that shadow copies are made of.
const SHADOW_BYTES: [usize; 3] = [4096, 16_384, 65_536];
/// How many tuples a scan sees that is told to stop.
const STOP: u64 = 3;
/// Bytes that a child may leave.
const CHILD_BYTES: usize = 1 << 20;

type Tuple = [u64; WORDS];
type Table = BTreeMap<u64, Tuple>;
type Tables = [Table; 2];

fn tuple_of(key: u64, word: u64) -> Tuple {
    [key, key % GROUPS, word, !word]
}

fn words_of(words: &[AtomicU64]) -> Tuple {
    std::array::from_fn(|at| words[at].load(Ordering::Relaxed))
}

/// A part of a transaction, on one of two relations.
#[derive(Clone, Debug)]
enum Operation {
    /// Nothing if the key is there.
    Insert(usize, u64, u64),
    /// Of the first key from this one on, as all that follow, so that they hit.
    Change(usize, u64, usize, u64),
    Delete(usize, u64),
    /// Deletes a tuple and inserts another one with its key.
    Replace(usize, u64, u64),
    InsertRun(usize, u64, u64),
    DeleteRun(usize, u64, u64),
}

#[derive(Clone, Debug)]
enum Step {
    Run {
        operations: Vec<Operation>,
        commits: bool,
    },
    Refresh {
        reorganizes: bool,
    },
    /// Keeps the snapshot, where there may be several.
    Hold,
    Release(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let place = || (0..2usize, 0..KEYS);
    prop_oneof![
        6 => (place(), any::<u64>()).prop_map(|((at, key), word)| Operation::Insert(at, key, word)),
        8 => (place(), 2..WORDS, any::<u64>()).prop_map(|((at, key), n, word)| Operation::Change(at, key, n, word)),
        5 => place().prop_map(|(at, key)| Operation::Delete(at, key)),
        4 => (place(), any::<u64>()).prop_map(|((at, key), word)| Operation::Replace(at, key, word)),
        3 => (place(), 1..80u64).prop_map(|((at, key), count)| Operation::InsertRun(at, key, count)),
        1 => (place(), 1..60u64).prop_map(|((at, key), count)| Operation::DeleteRun(at, key, count)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let operations = prop::collection::vec(operation(), 1..8);
    let step = prop_oneof![
        8 => (operations, prop::bool::weighted(0.7))
            .prop_map(|(operations, commits)| Step::Run { operations, commits }),
        3 => any::<bool>().prop_map(|reorganizes| Step::Refresh { reorganizes }),
        1 => Just(Step::Hold),
        1 => (0..4usize).prop_map(Step::Release),
    ];
    prop::collection::vec(step, 1..24)
}

/// The transaction that runs, and the tables that it should make.
struct Draft<'a, 'b, S: Store> {
    transaction: &'a mut SerialTransaction<'b, S>,
    relations: [RelationId; 2],
    tables: &'a mut Tables,
}

impl<S: Store> Draft<'_, '_, S> {
    fn run(&mut self, operation: &Operation) -> Result<()> {
        match *operation {
            Operation::Insert(at, key, word) => self.insert(at, key, word),
            Operation::Change(at, key, n, word) => match self.key_from(at, key) {
                Some(key) => self.change(at, key, n, word),
                None => Ok(()),
            },
            Operation::Delete(at, key) => match self.key_from(at, key) {
                Some(key) => self.delete(at, key),
                None => Ok(()),
            },
            Operation::Replace(at, key, word) => match self.key_from(at, key) {
                Some(key) => {
                    self.delete(at, key)?;
                    self.insert(at, key, word)
                }
                None => Ok(()),
            },
            Operation::InsertRun(at, key, count) => {
                (key..KEYS.min(key + count)).try_for_each(|key| self.insert(at, key, key))
            }
            Operation::DeleteRun(at, key, count) => {
                let keys: Vec<u64> = self.tables[at].range(key..key + count).map(|(key, _)| *key).collect();
                keys.into_iter().try_for_each(|key| self.delete(at, key))
            }
        }
    }

    fn key_from(&self, at: usize, key: u64) -> Option<u64> {
        self.tables[at].range(key..).chain(&self.tables[at]).next().map(|(key, _)| *key)
    }

    fn tuple(&self, at: usize, key: u64) -> TupleId {
        self.transaction.find(self.relations[at], 0, key).expect("the model has it")
    }

    fn check(&self, at: usize, key: u64) {
        let found = found(self.transaction, self.relations[at], key);
        assert_eq!(found, self.tables[at].get(&key).copied(), "key {key} within the transaction");
    }

    fn insert(&mut self, at: usize, key: u64, word: u64) -> Result<()> {
        if self.tables[at].contains_key(&key) {
            return Ok(());
        }
        let tuple = tuple_of(key, word);
        self.transaction.insert(self.relations[at], &tuple, &[tuple[0], tuple[1]])?;
        self.tables[at].insert(key, tuple);
        self.check(at, key);
        Ok(())
    }

    fn change(&mut self, at: usize, key: u64, n: usize, word: u64) -> Result<()> {
        let tuple = self.tuple(at, key);
        let mut change = self.transaction.change(self.relations[at], tuple)?;
        let old = self.tables[at].entry(key).or_default();
        assert_eq!(std::array::from_fn(|n| change.get(n)), *old, "what is to be changed");
        change.set(n, word);
        old[n] = word;
        self.check(at, key);
        Ok(())
    }

    fn delete(&mut self, at: usize, key: u64) -> Result<()> {
        let tuple = self.tuple(at, key);
        self.transaction.delete(self.relations[at], tuple, &[key, key % GROUPS])?;
        self.tables[at].remove(&key);
        self.check(at, key);
        Ok(())
    }
}

fn found<S: Store>(transaction: &SerialTransaction<'_, S>, relation: RelationId, key: u64) -> Option<Tuple> {
    let tuple = transaction.find(relation, 0, key)?;
    transaction.read(relation, tuple).map(words_of)
}

/// The newest state is this, by keys and by both indexes.
fn check_newest<S: Store>(
    transaction: &SerialTransaction<'_, S>,
    relations: [RelationId; 2],
    tables: &Tables,
) {
    for (relation, table) in relations.into_iter().zip(tables) {
        for key in 0..KEYS {
            assert_eq!(
                found(transaction, relation, key),
                table.get(&key).copied(),
                "the newest of key {key}"
            );
        }
        let scanned = |index: usize, from: u64, limit: usize| {
            let mut rows = Vec::new();
            transaction.scan_index(relation, index, from, |key, tuple| {
                let words =
                    words_of(transaction.read(relation, tuple).expect("the scan shows what is there"));
                assert_eq!(key, words[index]);
                rows.push(words);
                if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            rows
        };
        let from_key = |from: u64| table.range(from..).map(|(_, tuple)| *tuple);
        assert_eq!(scanned(0, KEYS / 3, usize::MAX), from_key(KEYS / 3).collect::<Vec<_>>());
        assert_eq!(scanned(0, KEYS / 2, 5), from_key(KEYS / 2).take(5).collect::<Vec<_>>());
        let mut by_group = scanned(1, 2, usize::MAX);
        assert!(by_group.is_sorted_by_key(|tuple| tuple[1]));
        by_group.sort_unstable();
        assert_eq!(by_group, from_key(0).filter(|tuple| tuple[1] >= 2).collect::<Vec<_>>());
    }
}

/// Shows all that queries find in a snapshot as words, so that a child process can hand it over.
fn describe<S: Store>(snapshot: &SerialSnapshot<S>, relations: [RelationId; 2], put: &mut impl FnMut(u64)) {
    fn put_found(words: Option<&[AtomicU64]>, put: &mut impl FnMut(u64)) {
        put(u64::from(words.is_some()));
        words.into_iter().flat_map(words_of).for_each(put);
    }
    put(u64::from(snapshot.has_indexes()));
    for relation in relations {
        let view = snapshot.relation(relation);
        put(view.count() as u64);
        let mut stopped = 0;
        view.scan(|_| {
            stopped += 1;
            stopped < STOP
        });
        put(stopped);
        view.scan(|words| {
            put_found(Some(words), put);
            true
        });
        put(0);
        (0..KEYS).for_each(|key| put_found(snapshot.find(relation, 0, key), put));
        (0..GROUPS).for_each(|group| put_found(snapshot.find(relation, 1, group), put));
    }
}

/// What [`describe`] shows is a snapshot of these tables.
fn check_description(words: &[u64], has_indexes: bool, tables: &Tables) {
    let mut words = words.iter().copied();
    let mut next = || words.next().expect("a word more");
    let next_tuple =
        |next: &mut dyn FnMut() -> u64| (next() != 0).then(|| std::array::from_fn::<_, WORDS, _>(|_| next()));
    assert_eq!(next() != 0, has_indexes, "whether queries have indexes");
    for table in tables {
        assert_eq!(next(), table.len() as u64, "the count of a snapshot");
        assert_eq!(next(), STOP.min(table.len() as u64), "tuples that a scan shows until it is told to stop");
        let mut rows: Vec<Tuple> = std::iter::from_fn(|| next_tuple(&mut next)).collect();
        rows.sort_unstable();
        assert_eq!(rows, table.values().copied().collect::<Vec<_>>(), "the scan of a snapshot");
        for key in 0..KEYS {
            let expected = table.get(&key).copied().filter(|_| has_indexes);
            assert_eq!(next_tuple(&mut next), expected, "the snapshot's tuple of key {key}");
        }
        for group in 0..GROUPS {
            let one = next_tuple(&mut next);
            let is_there = has_indexes && table.keys().any(|key| key % GROUPS == group);
            assert_eq!(one.is_some(), is_there, "whether the snapshot has group {group}");
            let is_of_group = |tuple: Tuple| tuple[1] == group && table.get(&tuple[0]) == Some(&tuple);
            assert!(one.is_none_or(is_of_group), "{one:?} of group {group}");
        }
    }
    assert_eq!(words.next(), None);
}

/// What a child waits for.
#[derive(Clone)]
struct Gate(Arc<Region>);

impl Gate {
    fn closed() -> Gate {
        Gate(Region::shared(PageSize::Small, 8).expect("memory"))
    }

    fn open(&self) {
        self.0.words()[0].store(1, Ordering::Release);
    }

    /// A parent that fails never opens it; the child dies with its thread.
    fn wait(&self) {
        while self.0.words()[0].load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

fn put_to(output: &mut Output) -> impl FnMut(u64) {
    |word| output.write_all(&word.to_ne_bytes()).expect("the limit is far away")
}

/// The words that a child has put.
fn words_from(child: Child) -> Vec<u64> {
    let bytes = child.wait(&|| false).expect("what it found");
    bytes.as_ref().as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// A child that looks at its snapshot when its gate opens.
struct Forked {
    child: Child,
    gate: Gate,
    tables: Tables,
}

struct World<S: Store> {
    database: SerialDatabase<S>,
    treatment: IndexTreatment,
    relations: [RelationId; 2],
    newest: Tables,
    snapshot: Tables,
    held: Vec<(Reading<S>, Tables)>,
    has_children: bool,
    children: Vec<Forked>,
}

impl<S: Store> World<S> {
    fn new(kind: MemoryKind, treatment: IndexTreatment, has_children: bool) -> World<S> {
        let mut database = SerialDatabase::new(kind, treatment).expect("the mechanism can do that");
        let shape = Shape { words: WORDS, capacity: CAPACITY };
        let relations = [(); 2].map(|()| database.add_relation(shape, 2).expect("memory"));
        let (newest, snapshot, held, children) = Default::default();
        let mut world =
            World { database, treatment, relations, newest, snapshot, held, has_children, children };
        world.refresh(false);
        world
    }

    fn step(&mut self, step: &Step) {
        let keeps = !S::MECHANISM.forks() && !S::MECHANISM.has_one_snapshot();
        match step {
            Step::Run { operations, commits } => self.run(operations, *commits),
            Step::Refresh { reorganizes } => self.refresh(*reorganizes),
            Step::Hold if keeps && self.held.len() < 4 => {
                let reading = self.database.readers().enter().expect("threads may read");
                self.held.push((reading, self.snapshot.clone()));
            }
            Step::Release(at) if *at < self.held.len() => drop(self.held.swap_remove(*at)),
            _ => {}
        }
        self.check_now();
    }

    fn run(&mut self, operations: &[Operation], commits: bool) {
        let (relations, mut tables) = (self.relations, self.newest.clone());
        let aborted = Error::new(SqlState::RaiseException, "this one is taken back");
        let result = self.database.run(|transaction| {
            let mut draft = Draft { transaction, relations, tables: &mut tables };
            operations.iter().try_for_each(|operation| draft.run(operation))?;
            check_newest(transaction, relations, &tables);
            if commits { Ok(()) } else { Err(aborted.clone()) }
        });
        assert_eq!(result, if commits { Ok(()) } else { Err(aborted) });
        if commits {
            self.newest = tables;
        }
    }

    fn refresh(&mut self, reorganizes: bool) {
        // Those that share tuples must have left, like threads; images may stay.
        if S::MECHANISM.has_one_snapshot() || self.children.len() == 2 {
            self.check_children();
        }
        if reorganizes {
            self.database.reorganize();
            self.check_now();
        }
        self.database.refresh(QuiescePolicy::Wait).expect("memory");
        self.snapshot = self.newest.clone();
        if self.has_children {
            self.fork();
        }
    }

    fn fork(&mut self) {
        let (relations, gate) = (self.relations, Gate::closed());
        let child = self.database.fork(CHILD_BYTES, |snapshot, output| {
            gate.wait();
            describe(snapshot, relations, &mut put_to(output));
            Ok(())
        });
        let child = child.expect("a process more");
        self.children.push(Forked { child, gate, tables: self.snapshot.clone() });
    }

    fn check_children(&mut self) {
        for Forked { child, gate, tables } in self.children.drain(..) {
            gate.open();
            let words = words_from(child);
            check_description(&words, self.treatment != IndexTreatment::Abandon, &tables);
        }
    }

    fn check_now(&mut self) {
        let (relations, newest) = (self.relations, &self.newest);
        let checked = self.database.run(|transaction| {
            check_newest(transaction, relations, newest);
            Ok(())
        });
        assert_eq!(checked, Ok(()));
        if S::MECHANISM.forks() {
            return;
        }
        // An index that is to be forked is written without latches, so that threads cannot read it.
        let has_indexes = matches!(self.treatment, IndexTreatment::Copy | IndexTreatment::Share);
        let reading = self.database.readers().enter().expect("threads may read");
        let all = self.held.iter().map(|(reading, tables)| (reading, tables));
        for (reading, tables) in all.chain([(&reading, &self.snapshot)]) {
            let mut words = Vec::new();
            describe(reading.snapshot(), relations, &mut |word| words.push(word));
            check_description(&words, has_indexes, tables);
            assert_eq!(reading.check(), Ok(()), "nobody refreshes");
        }
    }
}

fn treatments<S: Store>() -> impl Iterator<Item = IndexTreatment> {
    IndexTreatment::ALL.into_iter().filter(|treatment| S::MECHANISM.check(*treatment).is_ok())
}

/// Takes these steps with each treatment of indexes.
fn play<S: Store>(kind: MemoryKind, has_children: bool, steps: &[Step]) {
    for treatment in treatments::<S>() {
        let mut world = World::<S>::new(kind, treatment, has_children);
        steps.iter().for_each(|step| world.step(step));
        world.check_children();
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn shared() -> MemoryKind {
    MemoryKind { shares_tuples: true, ..MemoryKind::default() }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn tuples_with_shadows_are_like_maps(steps in steps()) {
        play::<TupleShadowing>(MemoryKind::default(), false, &steps);
    }

    #[test]
    fn twin_tuples_are_like_maps(steps in steps()) {
        play::<TwinTuples>(MemoryKind::default(), false, &steps);
    }

    #[test]
    fn shadow_copies_are_like_maps(steps in steps(), shadow_bytes in prop::sample::select(&SHADOW_BYTES)) {
        play::<ShadowCopies>(MemoryKind { shadow_bytes, ..MemoryKind::default() }, false, &steps);
    }

    /// What transactions see, without a child for each refresh.
    #[test]
    fn tuples_of_forking_mechanisms_are_like_maps(steps in steps()) {
        play::<InPlace>(MemoryKind::default(), false, &steps);
        play::<HotCold>(MemoryKind::default(), false, &steps);
    }
}

proptest! {
    #![proptest_config(cases(30))]

    #[test]
    fn a_child_by_vm_fork_sees_maps(steps in steps()) {
        play::<InPlace>(MemoryKind::default(), true, &steps);
    }

    #[test]
    fn a_child_by_hot_cold_sees_maps(steps in steps()) {
        play::<HotCold>(MemoryKind::default(), true, &steps);
    }

    #[test]
    fn a_child_that_shares_tuples_with_shadows_sees_maps(steps in steps()) {
        play::<TupleShadowing>(shared(), true, &steps);
    }

    #[test]
    fn a_child_that_shares_twin_tuples_sees_maps(steps in steps()) {
        play::<TwinTuples>(shared(), true, &steps);
    }
}

/// The child is forked first; then transactions change, delete and insert what it looks for.
#[test]
fn a_child_that_shares_tuples_does_not_see_later_transactions() {
    fn check<S: Store>(kind: MemoryKind) {
        let committed = |operations: Vec<Operation>| Step::Run { operations, commits: true };
        let steps = [
            committed(vec![Operation::InsertRun(0, 0, 100), Operation::InsertRun(1, 30, 50)]),
            Step::Refresh { reorganizes: false },
            committed(vec![Operation::Change(0, 10, 2, 7), Operation::DeleteRun(0, 20, 40)]),
            committed(vec![Operation::Replace(1, 40, 9), Operation::InsertRun(0, 20, 130)]),
        ];
        play::<S>(kind, true, &steps);
    }
    check::<TupleShadowing>(shared());
    check::<TwinTuples>(shared());
    check::<InPlace>(MemoryKind::default());
    check::<HotCold>(MemoryKind::default());
}

/// A refresh beside a child, which must not be: the child sees it if it shares the tuples, and else has them as they were.
#[test]
fn a_child_shares_tuples_or_has_an_image_of_them() {
    fn seen<S: Store>(kind: MemoryKind) -> Vec<u64> {
        let mut database =
            SerialDatabase::<S>::new(kind, IndexTreatment::Fork).expect("all but shadow copies fork");
        let relation = database.add_relation(Shape { words: 1, capacity: 10 }, 0).expect("memory");
        let tuple = database.run(|transaction| transaction.insert(relation, &[1], &[])).expect("room");
        database.refresh(QuiescePolicy::Wait).expect("memory");
        let gate = Gate::closed();
        let child = database.fork(CHILD_BYTES, |snapshot, output| {
            gate.wait();
            let words = snapshot.relation(relation).find(tuple).expect("it is in the snapshot");
            put_to(output)(words[0].load(Ordering::Relaxed));
            Ok(())
        });
        let changed = database.run(|transaction| {
            transaction.change(relation, tuple)?.set(0, 2);
            Ok(())
        });
        changed.expect("room for a copy");
        database.refresh(QuiescePolicy::Wait).expect("memory");
        gate.open();
        words_from(child.expect("a process more"))
    }
    assert_eq!(seen::<TupleShadowing>(shared()), [2]);
    assert_eq!(seen::<TwinTuples>(shared()), [2]);
    for seen in [seen::<TupleShadowing>, seen::<TwinTuples>, seen::<InPlace>, seen::<HotCold>] {
        assert_eq!(seen(MemoryKind::default()), [1]);
    }
}

/// Takes all steps with each store and treatment; children look at the snapshots of mechanisms that fork.
fn play_all(steps: &[Step]) {
    let kind = MemoryKind::default();
    play::<InPlace>(kind, true, steps);
    play::<HotCold>(kind, true, steps);
    play::<TupleShadowing>(kind, false, steps);
    play::<TwinTuples>(kind, false, steps);
    play::<ShadowCopies>(kind, false, steps);
}

/// An insertion is taken back by a deletion, which must not get in the way of deletions that came before it.
#[test]
fn deletions_before_and_after_insertions_are_taken_back() {
    let all = vec![
        Operation::Delete(0, 3),
        Operation::Replace(0, 5, 50),
        Operation::Insert(0, 140, 1),
        Operation::Delete(0, 140),
        Operation::Change(0, 7, 2, 70),
        Operation::Replace(0, 7, 71),
        Operation::Change(0, 7, 3, 72),
        Operation::DeleteRun(0, 0, 60),
        Operation::InsertRun(0, 0, 60),
    ];
    let first = Step::Run { operations: vec![Operation::InsertRun(0, 0, 100)], commits: true };
    let refresh = Step::Refresh { reorganizes: false };
    let aborted = Step::Run { operations: all.clone(), commits: false };
    let committed = Step::Run { operations: all, commits: true };
    // Before a refresh and after it, and with numbers that are used again.
    play_all(&[
        first,
        aborted.clone(),
        refresh.clone(),
        aborted.clone(),
        committed,
        aborted.clone(),
        refresh,
        aborted,
    ]);
}

/// A relation has room for a number of tuples and of copies, and fills it again and again.
#[test]
fn room_is_used_again_after_a_refresh() {
    const TUPLES: u64 = 60;
    fn check<S: Store>() {
        let mut database =
            SerialDatabase::<S>::new(MemoryKind::default(), IndexTreatment::Copy).expect("all copy");
        // Each round needs a copy of each tuple, and numbers for a third, once in vain.
        let shape = Shape { words: WORDS, capacity: (TUPLES * 2 + TUPLES / 3 * 2) as usize };
        let relation = database.add_relation(shape, 1).expect("memory");
        let fill = |transaction: &mut SerialTransaction<'_, S>| {
            (0..TUPLES).try_for_each(|key| transaction.insert(relation, &tuple_of(key, 0), &[key]).map(drop))
        };
        database.run(fill).expect("room");
        let mut used = Vec::new();
        for round in 1..40 {
            database.refresh(QuiescePolicy::Wait).expect("memory");
            let round_of = |transaction: &mut SerialTransaction<'_, S>| {
                for key in 0..TUPLES {
                    let tuple = transaction.find(relation, 0, key).expect("it is always there");
                    transaction.change(relation, tuple)?.set(2, round);
                    if key % 3 == 0 {
                        transaction.delete(relation, tuple, &[key])?;
                        transaction.insert(relation, &tuple_of(key, round), &[key])?;
                    }
                }
                Ok(())
            };
            let aborted = database.run(|transaction| {
                round_of(transaction)?;
                Err::<(), _>(Error::new(SqlState::RaiseException, "in vain"))
            });
            assert_eq!(aborted.map_err(|error| error.state()), Err(SqlState::RaiseException));
            database.run(round_of).expect("room");
            used.push(database.used_bytes());
        }
        assert_eq!(used[4..].iter().max(), used[..4].iter().max(), "{}: {used:?}", S::MECHANISM.name());
    }
    check::<InPlace>();
    check::<TupleShadowing>();
    check::<TwinTuples>();
    check::<HotCold>();
    check::<ShadowCopies>();
}

/// A database of one relation without indexes, in which all tuples are alike.
struct Pages {
    database: SerialDatabase<ShadowCopies>,
    relation: RelationId,
    tuples: Vec<TupleId>,
}

impl Pages {
    fn new(shadow_bytes: usize, words: usize, tuples: usize) -> Pages {
        let kind = MemoryKind { shadow_bytes, ..MemoryKind::default() };
        let mut database = SerialDatabase::new(kind, IndexTreatment::Abandon).expect("queries need no index");
        let relation = database.add_relation(Shape { words, capacity: 2 * tuples }, 0).expect("memory");
        let inserted = database.run(|transaction| {
            (0..tuples)
                .map(|_| transaction.insert(relation, &vec![0; words], &[]))
                .collect::<Result<Vec<_>>>()
        });
        Pages { database, relation, tuples: inserted.expect("room") }
    }

    /// Writes a word to some tuples.
    fn write(&mut self, word: u64, tuples: impl Iterator<Item = usize>) {
        let (relation, numbers) = (self.relation, &self.tuples);
        let mut tuples = tuples.map(|at| numbers[at]);
        let written = self.database.run(|transaction| {
            tuples.try_for_each(|tuple| {
                let mut change = transaction.change(relation, tuple)?;
                change.set(0, word);
                Ok(())
            })
        });
        written.expect("pages");
    }

    fn refresh(&mut self) -> Reading<ShadowCopies> {
        self.database.refresh(QuiescePolicy::Wait).expect("memory");
        self.database.readers().enter().expect("threads may read")
    }

    fn words(&self, reading: &Reading<ShadowCopies>) -> Vec<u64> {
        let mut words = Vec::new();
        reading.snapshot().relation(self.relation).scan(|tuple| {
            words.push(tuple[0].load(Ordering::Relaxed));
            true
        });
        words
    }
}

/// Three snapshots live at a time while tuples change here and there: none changes, and pages are used again.
#[test]
fn snapshots_that_are_kept_stay_and_their_pages_come_back() {
    for shadow_bytes in SHADOW_BYTES {
        let tuples = 12 * shadow_bytes / (8 * WORDS);
        let mut pages = Pages::new(shadow_bytes, WORDS, tuples);
        let (mut model, mut kept) = (vec![0; tuples], Vec::new());
        let first = pages.database.used_bytes();
        for round in 1..300usize {
            // One leaf in most rounds, all of them in some, each snapshot ending in another order.
            let step = if round % 25 == 0 { 1 } else { tuples };
            let written = || (round * 7919 % tuples..tuples).step_by(step);
            pages.write(round as u64, written());
            written().for_each(|at| model[at] = round as u64);
            kept.push((pages.refresh(), model.clone()));
            if kept.len() > 3 {
                kept.swap_remove(round % 3);
            }
            for (reading, model) in &kept {
                assert_eq!(pages.words(reading), *model, "a snapshot in round {round}");
                assert_eq!(reading.snapshot().relation(pages.relation).count(), tuples);
            }
            // All may have been replaced for each that is kept, and once for the one before that is just ending.
            let used = pages.database.used_bytes();
            assert!(used <= 6 * first, "{used} bytes in round {round}, and {first} at first");
        }
        assert!(pages.database.used_bytes() > first, "three snapshots have pages of their own");
        kept.clear();
        drop((pages.refresh(), pages.refresh()));
        assert_eq!(pages.database.used_bytes(), first, "all pages come back");
    }
}

/// A leaf that is made in a page that another one has left.
#[test]
fn a_new_leaf_has_no_tuples_of_an_old_one() {
    // Two leaves, both full.
    let tuples = 2 * 127;
    let mut pages = Pages::new(4096, WORDS, tuples);
    drop(pages.refresh());
    pages.write(1, [0, tuples - 1].into_iter());
    drop((pages.refresh(), pages.refresh()));
    let used = pages.database.used_bytes();
    assert_eq!(used, 3 * 4096, "two leaves and a directory; the pages before them are free");
    let relation = pages.relation;
    pages.database.run(|transaction| transaction.insert(relation, &[2; WORDS], &[])).expect("room");
    assert_eq!(pages.database.used_bytes(), used + 2 * 4096, "a leaf, and another directory");
    let reading = pages.refresh();
    assert_eq!(reading.snapshot().relation(relation).count(), tuples + 1);
    assert_eq!(pages.words(&reading).last(), Some(&2));
}

/// More leaves than a directory has entries.
#[test]
fn a_relation_of_two_directories_is_copied_like_a_small_one() {
    const TUPLES: usize = 600;
    let mut pages = Pages::new(4096, 300, TUPLES);
    let first = pages.database.used_bytes();
    assert_eq!(first, (TUPLES + 2) * 4096, "a leaf for each, and two directories");
    let (before, zeroes) = (pages.refresh(), vec![0; TUPLES]);
    pages.write(1, [0, 511, 512, 599].into_iter());
    assert_eq!(pages.database.used_bytes(), first + 6 * 4096, "four leaves and two directories");
    let after = pages.refresh();
    pages.write(2, 0..TUPLES);
    let mut expected = zeroes.clone();
    [0, 511, 512, 599].into_iter().for_each(|at| expected[at] = 1);
    assert_eq!(pages.words(&before), zeroes);
    assert_eq!(pages.words(&after), expected);
    drop((before, after));
    let last = pages.refresh();
    assert_eq!(pages.words(&last), vec![2; TUPLES]);
}
