//! What is refused, with which code, and that the database goes on after it.

use ankerdb_base::{Error, Result, SqlState};
use ankerdb_serial::{
    HotCold, InPlace, IndexTreatment, Mechanism, MemoryKind, QuiescePolicy, Reading, RelationId,
    SerialDatabase, SerialTransaction, ShadowCopies, Shape, Store, TupleShadowing, TwinTuples, View,
};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

fn state<T>(result: Result<T>) -> Option<SqlState> {
    result.err().map(|error| error.state())
}

/// A database of one relation with an index; tuples are a key and a word.
fn database<S: Store>(capacity: usize) -> (SerialDatabase<S>, RelationId) {
    let mut database = SerialDatabase::new(MemoryKind::default(), IndexTreatment::Copy).expect("all copy");
    let relation = database.add_relation(Shape { words: 2, capacity }, 1).expect("memory");
    (database, relation)
}

fn insert<S: Store>(database: &mut SerialDatabase<S>, relation: RelationId, key: u64) -> Result<()> {
    database.run(|transaction| transaction.insert(relation, &[key, 0], &[key]).map(drop))
}

/// Keys and words of the newest state.
fn newest<S: Store>(database: &mut SerialDatabase<S>, relation: RelationId, keys: u64) -> Vec<(u64, u64)> {
    let found = database.run(|transaction| {
        let tuple = |key: u64| {
            let words = transaction.read(relation, transaction.find(relation, 0, key)?)?;
            Some((words[0].load(Relaxed), words[1].load(Relaxed)))
        };
        Ok((0..keys).filter_map(tuple).collect())
    });
    found.expect("it only reads")
}

#[test]
fn threads_cannot_enter_what_is_a_process() {
    fn check<S: Store>() {
        let (mut database, _) = database::<S>(10);
        database.refresh(QuiescePolicy::Wait).expect("memory");
        let entered = database.readers().enter();
        let error = entered.err().expect("a snapshot in a child");
        assert_eq!(error.state(), SqlState::FeatureNotSupported);
        assert!(error.message().contains(S::MECHANISM.name()), "{error}");
    }
    check::<InPlace>();
    check::<HotCold>();
}

#[test]
fn a_database_is_refused_what_its_mechanism_cannot_do() {
    fn refused<S: Store>(kind: MemoryKind) -> Vec<(IndexTreatment, SqlState)> {
        let all = IndexTreatment::ALL.into_iter();
        all.filter_map(|treatment| Some((treatment, state(SerialDatabase::<S>::new(kind, treatment))?)))
            .collect()
    }
    let (kind, no) = (MemoryKind::default(), SqlState::FeatureNotSupported);
    assert_eq!(refused::<InPlace>(kind), [(IndexTreatment::Share, no)]);
    assert_eq!(refused::<HotCold>(kind), [(IndexTreatment::Share, no)]);
    assert_eq!(refused::<ShadowCopies>(kind), [(IndexTreatment::Fork, no), (IndexTreatment::Share, no)]);
    assert_eq!(refused::<TupleShadowing>(kind), []);
    assert_eq!(refused::<TwinTuples>(kind), []);
}

#[test]
fn children_that_are_the_snapshot_do_not_share_tuples() {
    let kind = MemoryKind { shares_tuples: true, ..MemoryKind::default() };
    let treatment = IndexTreatment::Abandon;
    let wrong = Some(SqlState::InvalidParameterValue);
    assert_eq!(state(SerialDatabase::<InPlace>::new(kind, treatment)), wrong);
    assert_eq!(state(SerialDatabase::<HotCold>::new(kind, treatment)), wrong);
    assert_eq!(state(SerialDatabase::<TupleShadowing>::new(kind, treatment)), None);
    assert_eq!(state(SerialDatabase::<TwinTuples>::new(kind, treatment)), None);
    assert_eq!(state(SerialDatabase::<ShadowCopies>::new(kind, treatment)), None);
}

#[test]
fn tuples_have_the_words_and_keys_of_their_relation() {
    let (mut database, relation) = database::<TwinTuples>(10);
    let wrong: [(&[u64], &[u64]); 4] = [(&[1], &[1]), (&[1, 2, 3], &[1]), (&[1, 2], &[]), (&[1, 2], &[1, 2])];
    for (words, keys) in wrong {
        let refused = database.run(|transaction| {
            transaction.insert(relation, &[5, 0], &[5])?;
            transaction.insert(relation, words, keys)
        });
        assert_eq!(state(refused), Some(SqlState::InvalidParameterValue), "{words:?} {keys:?}");
    }
    assert_eq!(newest(&mut database, relation, 10), [], "what came before it is taken back");
    insert(&mut database, relation, 5).expect("two words and a key");
}

/// All rooms are taken; one transaction more is taken back, and there is room again after a deletion and a refresh.
#[test]
fn a_full_relation_refuses_tuples_until_others_go() {
    fn check<S: Store>() {
        let (mut database, relation) = database::<S>(10);
        (0..9).for_each(|key| insert(&mut database, relation, key).expect("room"));
        let before = newest(&mut database, relation, 20);
        let change_last = |transaction: &mut SerialTransaction<'_, S>| {
            let tuple = transaction.find(relation, 0, 8).expect("it is there");
            transaction.change(relation, tuple)?.set(1, 88);
            Ok(())
        };
        let refused = database.run(|transaction| {
            change_last(transaction)?;
            (9..12).try_for_each(|key| transaction.insert(relation, &[key, 0], &[key]).map(drop))
        });
        assert_eq!(state(refused), Some(SqlState::ProgramLimitExceeded), "{}", S::MECHANISM.name());
        assert_eq!(newest(&mut database, relation, 20), before, "{}", S::MECHANISM.name());
        // Neither the refusal nor the refresh costs room.
        database.run(change_last).expect("no copy before the first refresh");
        database.refresh(QuiescePolicy::Wait).expect("memory");
        insert(&mut database, relation, 9).expect("the tenth");
        assert_eq!(state(insert(&mut database, relation, 10)), Some(SqlState::ProgramLimitExceeded));
        let deleted = database.run(|transaction| {
            let tuple = transaction.find(relation, 0, 4).expect("it is there");
            transaction.delete(relation, tuple, &[4])
        });
        deleted.expect("a deletion needs no room");
        database.refresh(QuiescePolicy::Wait).expect("memory");
        insert(&mut database, relation, 10).expect("a room that is free");
        let keys: Vec<u64> = newest(&mut database, relation, 20).into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10], "{}", S::MECHANISM.name());
    }
    check::<InPlace>();
    check::<TupleShadowing>();
    check::<TwinTuples>();
    check::<HotCold>();
    check::<ShadowCopies>();
}

/// Leaves with one entry each fill an index before its relation is full: keys are refused, and found and deleted all the time.
#[test]
fn a_full_index_refuses_keys_until_others_go() {
    const TUPLES: u64 = 1260;
    let (mut database, relation) = database::<TwinTuples>(TUPLES as usize);
    let delete = |database: &mut SerialDatabase<TwinTuples>, key: u64| {
        let deleted = database.run(|transaction| {
            let tuple = transaction.find(relation, 0, key).expect("it is there");
            transaction.delete(relation, tuple, &[key])
        });
        deleted.expect("a deletion needs no room");
    };
    let (mut keys, mut refusals, mut random) = (BTreeSet::new(), 0, 1u64);
    // Ascending keys fill leaves, of which one entry in 50 stays; then keys come and go anywhere.
    for step in 0..60_000u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = (if step < 10_000 { step } else { (random >> 33) % 10_000 }) << 32;
        match insert(&mut database, relation, place + step) {
            Ok(()) => _ = keys.insert(place + step),
            Err(error) => {
                assert_eq!(error.state(), SqlState::ProgramLimitExceeded);
                refusals += usize::from(error.message().contains("index"));
                let key = keys.range(place..).next().or(keys.first()).copied();
                let key = key.expect("it is not empty");
                delete(&mut database, key);
                keys.remove(&key);
            }
        }
        if step < 10_000 && step % 1000 == 999 {
            let going = keys.iter().copied().filter(|key| (key >> 32) % 50 != 0).collect::<Vec<_>>();
            going.into_iter().for_each(|key| {
                delete(&mut database, key);
                keys.remove(&key);
            });
        }
        if step % 100 == 99 {
            database.refresh(QuiescePolicy::Wait).expect("memory");
        }
    }
    assert!(refusals > 100, "{refusals} refusals of an index");
    let reading = database.readers().enter().expect("threads may read");
    for key in keys {
        assert!(reading.snapshot().find(relation, 0, key).is_some(), "key {key}");
    }
}

/// By tuple shadowing a change of a tuple of the snapshot needs a room, too.
#[test]
fn a_shadow_that_finds_no_room_takes_the_transaction_back() {
    let (mut database, relation) = database::<TupleShadowing>(10);
    (0..9).for_each(|key| insert(&mut database, relation, key).expect("room"));
    database.refresh(QuiescePolicy::Wait).expect("memory");
    let before = newest(&mut database, relation, 10);
    let change = |keys: &'static [u64]| {
        move |transaction: &mut SerialTransaction<'_, TupleShadowing>| {
            for key in keys {
                let tuple = transaction.find(relation, 0, *key).expect("it is there");
                transaction.change(relation, tuple)?.set(1, 1);
            }
            Ok(())
        }
    };
    assert_eq!(state(database.run(change(&[3, 5]))), Some(SqlState::ProgramLimitExceeded));
    assert_eq!(newest(&mut database, relation, 10), before);
    database.run(change(&[3])).expect("it has its shadow still");
    assert_eq!(state(database.run(change(&[5]))), Some(SqlState::ProgramLimitExceeded));
    database.refresh(QuiescePolicy::Wait).expect("memory");
    database.run(change(&[5])).expect("a refresh gives rooms back");
    assert_eq!(newest(&mut database, relation, 10)[3..6], [(3, 1), (4, 0), (5, 1)]);
}

#[test]
fn a_tuple_that_is_not_there_is_not_changed_or_deleted() {
    fn check<S: Store>() {
        let (mut database, relation) = database::<S>(10);
        let tuple = database.run(|transaction| {
            transaction.insert(relation, &[1, 0], &[1])?;
            transaction.insert(relation, &[2, 0], &[2])
        });
        let tuple = tuple.expect("room");
        database.refresh(QuiescePolicy::Wait).expect("memory");
        let missing = Some(SqlState::NoData);
        let both = |database: &mut SerialDatabase<S>, tuple: usize| {
            let change = state(database.run(|transaction| transaction.change(relation, tuple).map(drop)));
            let delete = state(database.run(|transaction| transaction.delete(relation, tuple, &[2])));
            [change, delete]
        };
        for never in [tuple + 1, 9, 10, 1_000_000] {
            assert_eq!(both(&mut database, never), [missing; 2], "{} {never}", S::MECHANISM.name());
        }
        let twice = database.run(|transaction| {
            transaction.delete(relation, tuple, &[2])?;
            transaction.delete(relation, tuple, &[2])
        });
        assert_eq!(state(twice), missing);
        assert_eq!(newest(&mut database, relation, 9), [(1, 0), (2, 0)], "the first was taken back");
        database.run(|transaction| transaction.delete(relation, tuple, &[2])).expect("it is there");
        assert_eq!(both(&mut database, tuple), [missing; 2], "{}", S::MECHANISM.name());
        database.refresh(QuiescePolicy::Wait).expect("memory");
        assert_eq!(both(&mut database, tuple), [missing; 2], "{}", S::MECHANISM.name());
        assert_eq!(newest(&mut database, relation, 9), [(1, 0)]);
    }
    check::<InPlace>();
    check::<TupleShadowing>();
    check::<TwinTuples>();
    check::<HotCold>();
    check::<ShadowCopies>();
}

#[test]
fn a_tuple_fits_the_pages_that_are_copied() {
    for shadow_bytes in [4096, 16_384, 65_536] {
        let kind = MemoryKind { shadow_bytes, ..MemoryKind::default() };
        let mut database =
            SerialDatabase::<ShadowCopies>::new(kind, IndexTreatment::Abandon).expect("without indexes");
        let mut add = |words: usize| database.add_relation(Shape { words, capacity: 10 }, 0);
        assert_eq!(state(add(shadow_bytes / 8)), Some(SqlState::ProgramLimitExceeded));
        let relation = add(shadow_bytes / 8 - 1).expect("the bit for it needs a word");
        let words: Vec<u64> = (0..shadow_bytes as u64 / 8 - 1).collect();
        database.run(|transaction| transaction.insert(relation, &words, &[])).expect("room");
        database.refresh(QuiescePolicy::Wait).expect("memory");
        let reading = database.readers().enter().expect("threads may read");
        reading.snapshot().relation(relation).scan(|tuple| {
            assert!(tuple.iter().map(|word| word.load(Relaxed)).eq(words.iter().copied()));
            true
        });
    }
    // The other mechanisms copy no pages.
    let mut database =
        SerialDatabase::<TwinTuples>::new(MemoryKind::default(), IndexTreatment::Abandon).expect("it can");
    database.add_relation(Shape { words: 512, capacity: 10 }, 0).expect("any tuple fits");
}

fn count(reading: &Reading<ShadowCopies>, relation: RelationId) -> (usize, usize) {
    let view = reading.snapshot().relation(relation);
    let mut scanned = 0;
    view.scan(|_| {
        scanned += 1;
        true
    });
    (view.count(), scanned)
}

/// Snapshots hold all pages: a change and an insertion fail and are taken back, snapshots are as they were, and pages come
/// back with the end of the oldest ones.
#[test]
fn snapshots_that_hold_all_pages_make_transactions_fail_for_a_while() {
    assert_eq!(ShadowCopies::MECHANISM, Mechanism::ShadowCopies);
    let mut database = SerialDatabase::<ShadowCopies>::new(MemoryKind::default(), IndexTreatment::Abandon)
        .expect("without indexes");
    // One tuple for each page, and the last one is missing.
    let relation = database.add_relation(Shape { words: 400, capacity: 4 }, 0).expect("memory");
    let insert =
        |transaction: &mut SerialTransaction<'_, ShadowCopies>| transaction.insert(relation, &[7; 400], &[]);
    let tuples = database.run(|transaction| (0..3).map(|_| insert(transaction)).collect::<Result<Vec<_>>>());
    let tuples = tuples.expect("room");
    let change = |word: u64| {
        let tuples = &tuples;
        move |transaction: &mut SerialTransaction<'_, ShadowCopies>| {
            tuples.iter().try_for_each(|tuple| {
                transaction.change(relation, *tuple)?.set(0, word);
                Ok::<(), Error>(())
            })
        }
    };
    let mut held = Vec::new();
    let refused = loop {
        database.refresh(QuiescePolicy::Wait).expect("no page");
        held.push(database.readers().enter().expect("threads may read"));
        if let Err(error) = database.run(change(held.len() as u64)) {
            break error;
        }
        assert!(held.len() < 100, "each holds a page for each tuple");
    };
    assert_eq!(refused.state(), SqlState::OutOfMemory);
    assert_eq!(state(database.run(insert)), Some(SqlState::OutOfMemory), "it needs a page, too");
    database.refresh(QuiescePolicy::Wait).expect("no page");
    held.push(database.readers().enter().expect("threads may read"));
    for (at, reading) in held.iter().enumerate() {
        assert_eq!(count(reading, relation), (3, 3), "snapshot {at}");
    }
    held.clear();
    // The first refresh ends the one before, the second one gives its pages back.
    database.refresh(QuiescePolicy::Wait).expect("no page");
    database.refresh(QuiescePolicy::Wait).expect("no page");
    database.run(change(99)).expect("pages");
    database.run(insert).expect("the fourth");
    database.refresh(QuiescePolicy::Wait).expect("no page");
    assert_eq!(count(&database.readers().enter().expect("threads may read"), relation), (4, 4));
}
