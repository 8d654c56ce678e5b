//! Random operations against a plain model: a `BTreeSet` of (key, row) pairs.

use ankerdb_base::SqlState;
use ankerdb_index::{Direction, KEY_BYTES_MAX, OrderedIndex, UniqueInsert};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};

type Entry = (Vec<u8>, u64);
type Model = BTreeSet<Entry>;

#[derive(Clone, Debug)]
enum Operation {
    Insert(Vec<u8>, u64),
    InsertUnique(Vec<u8>, u64),
    Remove(Vec<u8>, u64),
    /// Removes the entry of the model at this share of its size, so that removals hit.
    RemoveNth(u16),
    Get(Vec<u8>),
    Scan(Bound<Vec<u8>>, Bound<Vec<u8>>, bool),
    /// Ascending insertions behind a key, as orders arrive in a district.
    Run(Vec<u8>, u8),
    /// Removes the smallest entries, as a queue does.
    Drain(u8),
}

/// Keys that often share long prefixes, differ only by trailing zero bytes, or are equal.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()];
    let prefix =
        prop_oneof![Just(0usize), Just(5), Just(8), Just(15), Just(23), Just(24), Just(40), Just(2500)];
    prop_oneof![
        4 => (0u16..400).prop_map(|number| number.to_be_bytes().to_vec()),
        2 => any::<[u8; 12]>().prop_map(|bytes| bytes.to_vec()),
        4 => (prefix, prop::collection::vec(byte, 0..12)).prop_map(|(length, tail)| {
            let mut key = vec![b'x'; length];
            key.extend(tail);
            key
        }),
    ]
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        3 => key().prop_map(Bound::Included),
        3 => key().prop_map(Bound::Excluded),
        1 => Just(Bound::Unbounded),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let row = || prop_oneof![0u64..4, any::<u64>(), Just(u64::MAX)];
    prop_oneof![
        20 => (key(), row()).prop_map(|(key, row)| Operation::Insert(key, row)),
        6 => (key(), row()).prop_map(|(key, row)| Operation::InsertUnique(key, row)),
        6 => (key(), row()).prop_map(|(key, row)| Operation::Remove(key, row)),
        10 => any::<u16>().prop_map(Operation::RemoveNth),
        6 => key().prop_map(Operation::Get),
        6 => (bound(), bound(), any::<bool>()).prop_map(|(lower, upper, back)| Operation::Scan(lower, upper, back)),
        4 => (key(), any::<u8>()).prop_map(|(key, count)| Operation::Run(key, count)),
        2 => any::<u8>().prop_map(Operation::Drain),
    ]
}

fn rows_of(model: &Model, key: &[u8]) -> Vec<u64> {
    model.range((key.to_vec(), 0)..=(key.to_vec(), u64::MAX)).map(|entry| entry.1).collect()
}

fn within(key: &Vec<u8>, lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> bool {
    let above = match lower {
        Bound::Included(lower) => key >= lower,
        Bound::Excluded(lower) => key > lower,
        Bound::Unbounded => true,
    };
    above
        && match upper {
            Bound::Included(upper) => key <= upper,
            Bound::Excluded(upper) => key < upper,
            Bound::Unbounded => true,
        }
}

fn scan(
    index: &OrderedIndex,
    lower: &Bound<Vec<u8>>,
    upper: &Bound<Vec<u8>>,
    direction: Direction,
) -> Vec<Entry> {
    let mut entries = Vec::new();
    let (lower, upper) = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
    index.scan(lower, upper, direction, |key, row| {
        entries.push((key.to_vec(), row));
        ControlFlow::Continue(())
    });
    entries
}

fn rows(index: &OrderedIndex, key: &[u8]) -> Vec<u64> {
    let mut rows = Vec::new();
    index.get(key, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    });
    rows
}

fn apply(index: &OrderedIndex, model: &mut Model, operation: Operation) {
    match operation {
        Operation::Insert(key, row) => {
            assert_eq!(index.insert(&key, row), Ok(model.insert((key, row))));
        }
        Operation::InsertUnique(key, row) => {
            // Rows conflict if they are of the same parity.
            let conflict =
                rows_of(model, &key).into_iter().find(|&other| other != row && (other ^ row) & 1 == 0);
            let expected = match conflict {
                Some(other) => UniqueInsert::Conflict(other),
                None if model.insert((key.clone(), row)) => UniqueInsert::Inserted,
                None => UniqueInsert::Present,
            };
            let conflicts = |other: u64| ((other ^ row) & 1 == 0).then_some(other);
            assert_eq!(index.insert_unique(&key, row, conflicts), Ok(expected));
        }
        Operation::Remove(key, row) => {
            assert_eq!(index.remove(&key, row), model.remove(&(key, row)));
        }
        Operation::RemoveNth(share) => {
            let nth = model.len() * share as usize / (1 << 16);
            if let Some((key, row)) = model.iter().nth(nth).cloned() {
                assert!(model.remove(&(key.clone(), row)) && index.remove(&key, row));
            }
        }
        Operation::Get(key) => assert_eq!(rows(index, &key), rows_of(model, &key)),
        Operation::Scan(lower, upper, backward) => {
            let expected = model.iter().filter(|(key, _)| within(key, &lower, &upper)).cloned();
            if backward {
                let found = scan(index, &lower, &upper, Direction::Backward);
                assert_eq!(found, expected.rev().collect::<Vec<_>>());
            } else {
                let found = scan(index, &lower, &upper, Direction::Forward);
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
        }
        Operation::Run(mut key, count) => {
            key.truncate(2590);
            for number in 0..u64::from(count) {
                let key = [key.as_slice(), &number.to_be_bytes()].concat();
                assert_eq!(index.insert(&key, number), Ok(model.insert((key, number))));
            }
        }
        Operation::Drain(count) => {
            for _ in 0..count {
                if let Some((key, row)) = model.pop_first() {
                    assert!(index.remove(&key, row));
                }
            }
        }
    }
    assert_eq!(index.len(), model.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_an_ordered_set(operations in prop::collection::vec(operation(), 1..400)) {
        let (index, mut model) = (OrderedIndex::new(), Model::new());
        for operation in operations {
            apply(&index, &mut model, operation);
        }
        let all = scan(&index, &Bound::Unbounded, &Bound::Unbounded, Direction::Forward);
        prop_assert_eq!(all, model.iter().cloned().collect::<Vec<_>>());
        for (key, row) in &model {
            prop_assert!(index.remove(key, *row));
        }
        prop_assert!(index.is_empty());
    }
}

/// Builds an index and a model with the keys, each as (key, key's place in the sequence).
fn filled(keys: impl Iterator<Item = Vec<u8>>) -> (OrderedIndex, Model) {
    let (index, mut model) = (OrderedIndex::new(), Model::new());
    for (row, key) in keys.enumerate() {
        assert!(index.insert(&key, row as u64).unwrap());
        model.insert((key, row as u64));
    }
    (index, model)
}

fn assert_same(index: &OrderedIndex, model: &Model) {
    let all = Bound::Unbounded;
    let forward: Vec<Entry> = model.iter().cloned().collect();
    assert!(scan(index, &all, &all, Direction::Forward) == forward);
    let backward: Vec<Entry> = model.iter().rev().cloned().collect();
    assert!(scan(index, &all, &all, Direction::Backward) == backward);
    let mut keys: Vec<&Vec<u8>> = model.iter().map(|(key, _)| key).collect();
    keys.dedup();
    assert!(keys.into_iter().all(|key| rows(index, key) == rows_of(model, key)));
    assert_eq!(index.len(), model.len());
}

#[test]
fn holds_many_keys_in_any_order_of_arrival() {
    let number = |number: u64| [b"prefix".as_slice(), &number.to_be_bytes()].concat();
    let ascending = filled((0..50_000).map(number));
    assert_same(&ascending.0, &ascending.1);
    let descending = filled((0..50_000).rev().map(number));
    assert_same(&descending.0, &descending.1);
    // 31 districts, each growing at its own right edge.
    let districts = filled((0..50_000u64).map(|n| number(((n % 31) << 32) | (n / 31))));
    assert_same(&districts.0, &districts.1);
    let random = fastrand::Rng::with_seed(7);
    let shuffled = filled(
        std::iter::repeat_with({
            let mut random = random;
            move || number(random.u64(..))
        })
        .take(50_000),
    );
    assert_same(&shuffled.0, &shuffled.1);
}

#[test]
fn holds_many_rows_of_one_key_and_many_long_keys() {
    let same = filled((0..20_000).map(|_| b"the same".to_vec()));
    assert_same(&same.0, &same.1);
    let long = filled(
        (0..5_000u32).map(|n| [[b'n'; 60].as_slice(), &n.wrapping_mul(2_654_435_761).to_be_bytes()].concat()),
    );
    assert_same(&long.0, &long.1);
    for (key, row) in &long.1 {
        assert!(long.0.remove(key, *row));
    }
    assert!(long.0.is_empty());
}

#[test]
fn a_unique_insertion_sees_entries_of_its_key_in_neighbouring_leaves() {
    // Each key has rows 10, 20, 30 and 40, and many a leaf ends between two of them.
    let index = OrderedIndex::new();
    for number in 0..4_000u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        (1..=4).for_each(|row| assert!(index.insert(&key, row * 10).unwrap()));
    }
    for number in 0..4_000u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        for (row, other) in [(50, 10), (5, 40), (40, 10), (10, 40), (25, 10), (25, 40)] {
            let conflicts = |found| (found == other).then_some(found);
            assert_eq!(index.insert_unique(&key, row, conflicts), Ok(UniqueInsert::Conflict(other)));
        }
    }
    assert_eq!(index.len(), 16_000);
}

#[test]
fn takes_keys_up_to_the_longest_and_refuses_longer_ones() {
    let index = OrderedIndex::new();
    assert_eq!(index.insert(&[7; KEY_BYTES_MAX], 1), Ok(true));
    assert_eq!(rows(&index, &[7; KEY_BYTES_MAX]), [1]);
    let error = index.insert(&[7; KEY_BYTES_MAX + 1], 1).unwrap_err();
    assert_eq!(error.state(), SqlState::ProgramLimitExceeded);
    assert_eq!(error.message(), "index row size 2601 exceeds maximum 2600");
    assert!(index.insert_unique(&[7; 9000], 1, |_| None::<()>).is_err());
    assert!(!index.remove(&[7; KEY_BYTES_MAX + 1], 1));
    assert_eq!(rows(&index, &[7; KEY_BYTES_MAX + 1]), []);
}

#[test]
fn visitors_may_change_the_index_they_visit() {
    let (index, _) = filled((0..1000u32).map(|n| n.to_be_bytes().to_vec()));
    let mut visited = 0;
    index.scan(Bound::Unbounded, Bound::Unbounded, Direction::Forward, |key, row| {
        visited += 1;
        assert!(index.remove(key, row));
        assert!(index.insert(&[key, b"!"].concat(), row + 1_000_000).unwrap());
        if visited == 500 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((visited, index.len()), (500, 1000));
}

#[test]
fn a_queue_does_not_grow() {
    let index = OrderedIndex::new();
    for number in 0..1_000u64 {
        index.insert(&number.to_be_bytes(), number).unwrap();
    }
    let before = index.memory_bytes();
    for number in 1_000..200_000u64 {
        index.insert(&number.to_be_bytes(), number).unwrap();
        assert!(index.remove(&(number - 1_000).to_be_bytes(), number - 1_000));
    }
    assert_eq!(index.len(), 1_000);
    assert!(index.memory_bytes() < before * 2, "grew from {before} to {}", index.memory_bytes());
}

/// The rows that a scan at a stamp visits.
fn since(index: &OrderedIndex, stamp: u64, direction: Direction) -> Vec<u64> {
    let mut rows = Vec::new();
    index.scan_since(Bound::Unbounded, Bound::Unbounded, direction, stamp, |_, row| {
        rows.push(row);
        ControlFlow::Continue(())
    });
    rows
}

#[test]
fn leaves_that_are_marked_dead_are_left_out_by_those_who_read_later() {
    const ROWS: u64 = 2_000;
    const DEAD: u64 = 1_500;
    let (index, _) = filled((0..ROWS).map(|number| number.to_be_bytes().to_vec()));
    // Rows have died one after the other, each at the stamp of its number and one.
    let dead_from = |row: u64| (row < DEAD).then_some(row + 1);
    let mark = |row: u64| index.mark_dead(&row.to_be_bytes(), row, dead_from);
    let marked = (0..ROWS).filter(|&row| mark(row)).count() as u64;
    assert!((DEAD - 300..=DEAD).contains(&marked), "{marked} entries are in marked leaves");
    let all: Vec<u64> = (0..ROWS).collect();
    assert_eq!(since(&index, 0, Direction::Forward), all);
    let found = since(&index, DEAD, Direction::Forward);
    assert!(found.len() as u64 == ROWS - marked && found.ends_with(&all[DEAD as usize..]));
    let mut backward = since(&index, DEAD, Direction::Backward);
    backward.reverse();
    assert_eq!(backward, found);
    // A scan from before the last row of a leaf died gets all of it.
    let half = since(&index, DEAD / 2, Direction::Forward);
    assert!((DEAD / 2..ROWS).all(|row| half.contains(&row)) && half.len() < ROWS as usize - 300);
    // Removal leaves the mark; an insertion, also of what is there, takes it away.
    assert!(index.remove(&3u64.to_be_bytes(), 3));
    assert_eq!(since(&index, DEAD, Direction::Forward), found);
    assert!(!index.insert(&5u64.to_be_bytes(), 5).unwrap());
    assert!(since(&index, DEAD, Direction::Forward).contains(&5));
    assert!(mark(5) && !since(&index, DEAD, Direction::Forward).contains(&5));
    assert_eq!(index.insert_unique(&5u64.to_be_bytes(), 5, |_| None::<()>), Ok(UniqueInsert::Present));
    assert!(since(&index, DEAD, Direction::Forward).contains(&5));
    assert!(mark(5) && index.insert(&5u64.to_be_bytes(), 3).unwrap());
    assert!(since(&index, DEAD, Direction::Forward).contains(&3));
    let seven = 7u64.to_be_bytes();
    let exactly = Bound::Included(&seven[..]);
    assert!(mark(700));
    let mut visited = 0;
    index.scan_since(exactly, exactly, Direction::Forward, DEAD, |_, _| {
        visited += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(visited, 1, "its leaf has no mark any more");
    index.get(&700u64.to_be_bytes(), |row| {
        visited += row;
        ControlFlow::Continue(())
    });
    assert_eq!(visited, 701, "lookups leave nothing out");
}
