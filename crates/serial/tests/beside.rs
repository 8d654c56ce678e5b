//! Threads that read snapshots beside the one that runs transactions: money moves between accounts and none is made or lost.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_serial::{
    IndexTreatment, MemoryKind, QuiescePolicy, Reading, RelationId, SerialDatabase, ShadowCopies, Shape,
    Store, TupleShadowing, TwinTuples, View,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const ACCOUNTS: u64 = 600;
const BALANCE: u64 = 1000;
/// Positions of a tuple's words.
const NUMBER: usize = 0;
const MONEY: usize = 1;
const WORDS: usize = 3;
const READERS: usize = 2;
/// Transactions between two refreshes.
const PERIOD: usize = 60;
/// Transactions of a run: so many, and then slowly more until each reader has seen some snapshots, but not without end.
const RUNS_MIN: usize = 30_000;
const RUNS_MAX: usize = RUNS_MIN + 5_000 * PERIOD;
const SNAPSHOTS_MIN: usize = 5;
/// Tuples between two questions whether to give up.
const STRIDE: u64 = 64;

const POLICIES: [QuiescePolicy; 2] = [QuiescePolicy::Wait, QuiescePolicy::Abort];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn bank<S: Store>(treatment: IndexTreatment) -> (SerialDatabase<S>, RelationId) {
    let mut database =
        SerialDatabase::new(MemoryKind::default(), treatment).expect("the mechanism can do that");
    let shape = Shape { words: WORDS, capacity: 4 * ACCOUNTS as usize };
    let relation = database.add_relation(shape, 1).expect("memory");
    let opened = database.run(|transaction| {
        (0..ACCOUNTS)
            .try_for_each(|number| transaction.insert(relation, &[number, BALANCE, 0], &[number]).map(drop))
    });
    opened.expect("room");
    database.refresh(QuiescePolicy::Wait).expect("memory");
    (database, relation)
}

/// Moves money; at times closes the second account and opens it again, and at times gives up in the middle.
fn transfer<S: Store>(database: &mut SerialDatabase<S>, relation: RelationId, random: &mut Random) {
    let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
    let (amount, kind) = (random.below(100), random.below(10));
    let done = database.run(|transaction| {
        let tuple = |number: u64| transaction.find(relation, 0, number).expect("all accounts are there");
        let (from, receiver) = (tuple(from), tuple(to));
        let mut sender = transaction.change(relation, from)?;
        let money = sender.get(MONEY);
        sender.set(MONEY, money.wrapping_sub(amount));
        if kind == 0 {
            return Err(Error::new(SqlState::RaiseException, "not today"));
        }
        if kind > 2 {
            let mut receiver = transaction.change(relation, receiver)?;
            let money = receiver.get(MONEY);
            receiver.set(MONEY, money.wrapping_add(amount));
            return Ok(());
        }
        let words = transaction.read(relation, receiver).expect("it is there");
        let money = words[MONEY].load(Ordering::Relaxed).wrapping_add(amount);
        transaction.delete(relation, receiver, &[to])?;
        transaction.insert(relation, &[to, money, 0], &[to])?;
        Ok(())
    });
    assert_eq!(done.map_err(|error| error.state()).err(), (kind == 0).then_some(SqlState::RaiseException));
}

/// Sums over a snapshot.
#[derive(PartialEq, Eq, Debug, Clone, Copy, Default)]
struct Sums {
    accounts: u64,
    numbers: u64,
    money: u64,
    /// Tells states apart whose other sums are equal.
    mixed: u64,
}

impl Sums {
    fn add(&mut self, number: u64, money: u64) {
        self.accounts += 1;
        self.numbers += number;
        self.money = self.money.wrapping_add(money);
        self.mixed = self.mixed.wrapping_add((number + 1).wrapping_mul(money));
    }

    fn check(&self) {
        let expected = (ACCOUNTS, ACCOUNTS * (ACCOUNTS - 1) / 2, ACCOUNTS * BALANCE);
        assert_eq!((self.accounts, self.numbers, self.money), expected);
    }
}

/// Sums by a scan that does not give up.
fn scan_all<S: Store>(reading: &Reading<S>, relation: RelationId) -> Sums {
    let mut sums = Sums::default();
    reading.snapshot().relation(relation).scan(|words| {
        sums.add(words[NUMBER].load(Ordering::Relaxed), words[MONEY].load(Ordering::Relaxed));
        true
    });
    sums
}

/// Sums by a scan, unless the query is to give up.
fn scan<S: Store>(reading: &Reading<S>, relation: RelationId) -> Result<Sums> {
    let (mut sums, mut checked) = (Sums::default(), Ok(()));
    reading.snapshot().relation(relation).scan(|words| {
        sums.add(words[NUMBER].load(Ordering::Relaxed), words[MONEY].load(Ordering::Relaxed));
        if sums.accounts.is_multiple_of(STRIDE) {
            checked = reading.check();
        }
        checked.is_ok()
    });
    checked.map(|()| sums)
}

/// Sums by the index.
fn look_up<S: Store>(reading: &Reading<S>, relation: RelationId) -> Result<Sums> {
    let mut sums = Sums::default();
    for number in 0..ACCOUNTS {
        let words = reading.snapshot().find(relation, 0, number).expect("the snapshot has all accounts");
        assert_eq!(words[NUMBER].load(Ordering::Relaxed), number);
        sums.add(number, words[MONEY].load(Ordering::Relaxed));
        if number.is_multiple_of(STRIDE) {
            reading.check()?;
        }
    }
    assert!(reading.snapshot().find(relation, 0, ACCOUNTS).is_none());
    Ok(sums)
}

/// A query: scans twice, and looks all accounts up.
fn query<S: Store>(reading: &Reading<S>, relation: RelationId, has_indexes: bool) -> Result<Sums> {
    assert_eq!(reading.snapshot().has_indexes(), has_indexes);
    let first = scan(reading, relation)?;
    first.check();
    assert_eq!(reading.snapshot().relation(relation).count() as u64, ACCOUNTS);
    if has_indexes {
        assert_eq!(look_up(reading, relation)?, first, "by the index");
    }
    assert_eq!(scan(reading, relation)?, first, "by a second scan");
    Ok(first)
}

/// Tells readers to stop, also if the writer fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn run_beside<S: Store>(treatment: IndexTreatment, policy: QuiescePolicy) {
    let (mut database, relation) = bank::<S>(treatment);
    let readers = database.readers();
    let is_over = AtomicBool::new(false);
    let snapshots = [const { AtomicUsize::new(0) }; READERS];
    let read = |seen: &AtomicUsize| {
        let mut last = Sums::default();
        while !is_over.load(Ordering::Relaxed) {
            let reading = readers.enter().expect("threads may read");
            match query(&reading, relation, treatment != IndexTreatment::Abandon) {
                Ok(sums) if sums != last => {
                    last = sums;
                    seen.fetch_add(1, Ordering::Relaxed);
                }
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.state(), SqlState::QueryCanceled);
                    assert!(policy == QuiescePolicy::Abort && S::MECHANISM.has_one_snapshot(), "{error}");
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let _stop = Stop(&is_over);
        snapshots.iter().for_each(|seen| drop(scope.spawn(|| read(seen))));
        let mut random = Random(1);
        let lack = || snapshots.iter().any(|seen| seen.load(Ordering::Relaxed) < SNAPSHOTS_MIN);
        for run in 1..=RUNS_MAX {
            transfer(&mut database, relation, &mut random);
            if run % PERIOD == 0 {
                database.refresh(policy).expect("memory");
            }
            if run >= RUNS_MIN && run % PERIOD == 0 {
                if !lack() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let seen = snapshots.map(AtomicUsize::into_inner);
    assert!(seen.iter().all(|seen| *seen >= SNAPSHOTS_MIN), "{} {policy:?}: {seen:?}", S::MECHANISM.name());
    // The owner sees what the last snapshot has.
    database.refresh(policy).expect("memory");
    let reading = database.readers().enter().expect("threads may read");
    scan(&reading, relation).expect("nobody refreshes").check();
}

#[test]
fn readers_beside_tuple_shadowing_see_one_state() {
    for policy in POLICIES {
        run_beside::<TupleShadowing>(IndexTreatment::Share, policy);
        run_beside::<TupleShadowing>(IndexTreatment::Copy, policy);
        run_beside::<TupleShadowing>(IndexTreatment::Abandon, policy);
    }
}

#[test]
fn readers_beside_twin_tuples_see_one_state() {
    for policy in POLICIES {
        run_beside::<TwinTuples>(IndexTreatment::Share, policy);
        run_beside::<TwinTuples>(IndexTreatment::Copy, policy);
        run_beside::<TwinTuples>(IndexTreatment::Abandon, policy);
    }
}

#[test]
fn readers_beside_shadow_copies_see_one_state() {
    for policy in POLICIES {
        run_beside::<ShadowCopies>(IndexTreatment::Copy, policy);
        run_beside::<ShadowCopies>(IndexTreatment::Abandon, policy);
    }
}

/// A reader stays until it is asked to give up, or for a while if it is never asked: the refresh ends after it has left, and no
/// other one comes in meanwhile.
fn refresh_with_a_reader<S: Store>(policy: QuiescePolicy) {
    let (mut database, relation) = bank::<S>(IndexTreatment::Share);
    let readers = database.readers();
    let has_left = AtomicBool::new(false);
    let (send, entered) = mpsc::channel();
    let mut random = Random(2);
    (0..PERIOD).for_each(|_| transfer(&mut database, relation, &mut random));
    let patience = match policy {
        QuiescePolicy::Wait => Duration::from_millis(30),
        QuiescePolicy::Abort => Duration::from_secs(20),
    };
    let wait_for_question = |reading: &Reading<S>| {
        let begun = Instant::now();
        while reading.check().is_ok() && begun.elapsed() < patience {
            std::thread::sleep(Duration::from_micros(200));
        }
        reading.check().map_err(|error| error.state())
    };
    let see_other_than = |before: Sums| {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            let reading = readers.enter().expect("threads may read");
            match scan(&reading, relation) {
                Ok(sums) if sums != before => return (sums, has_left.load(Ordering::Acquire)),
                _ => drop(reading),
            }
        }
        panic!("the snapshot is never another one")
    };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let reading = readers.enter().expect("threads may read");
            let before = scan(&reading, relation).expect("nobody refreshes yet");
            send.send(()).expect("the writer waits for it");
            let asked = wait_for_question(&reading);
            let later = scope.spawn(move || see_other_than(before));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!later.is_finished(), "there is no other snapshot yet");
            assert_eq!(scan_all(&reading, relation), before);
            has_left.store(true, Ordering::Release);
            drop(reading);
            (asked, later.join().expect("a reader"))
        });
        entered.recv().expect("a reader");
        let waited = database.refresh(policy).expect("memory");
        assert!(has_left.load(Ordering::Acquire), "the refresh came while the snapshot was read");
        let (asked, (sums, had_left)) = reader.join().expect("a reader");
        sums.check();
        assert!(had_left, "the new snapshot came after the reader had left");
        match policy {
            QuiescePolicy::Wait => assert_eq!(asked, Ok(())),
            QuiescePolicy::Abort => {
                assert_eq!(asked, Err(SqlState::QueryCanceled));
                assert!(waited >= Duration::from_millis(20), "{waited:?}");
            }
        }
    });
}

#[test]
fn a_refresh_waits_for_readers_or_asks_them_to_give_up() {
    for policy in POLICIES {
        refresh_with_a_reader::<TupleShadowing>(policy);
        refresh_with_a_reader::<TwinTuples>(policy);
    }
}

/// The thread that reads is the one that refreshes: it would wait for itself.
#[test]
fn shadow_copies_are_refreshed_while_they_are_read() {
    for policy in POLICIES {
        let (mut database, relation) = bank::<ShadowCopies>(IndexTreatment::Copy);
        let before = database.readers().enter().expect("threads may read");
        let sums = query(&before, relation, true).expect("nobody asks");
        let mut random = Random(3);
        for _ in 0..5 {
            (0..PERIOD).for_each(|_| transfer(&mut database, relation, &mut random));
            database.refresh(policy).expect("memory");
            assert_eq!(query(&before, relation, true).expect("nobody asks"), sums);
            let after = database.readers().enter().expect("threads may read");
            assert_ne!(query(&after, relation, true).expect("nobody asks"), sums);
        }
    }
}
