//! Random operations on a hash index against a plain model: a `BTreeSet` of (key, row) pairs.

use ankerdb_base::SqlState;
use ankerdb_index::{HashIndex, KEY_BYTES_MAX, UniqueInsert};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

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
    /// Insertions of many keys, so that the index grows.
    Run(u16, u16),
    /// Removes the smallest entries.
    Drain(u16),
    /// Insertions of rows of one key, often so many that it gets a posting list.
    Pile(Vec<u8>, u64, u8),
    /// Removes all rows of a key, which ends its list.
    Clear(Vec<u8>),
}

/// Keys around the length up to which they are inline; many are equal or differ by trailing zero bytes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(255)];
    prop_oneof![
        4 => (0u16..400).prop_map(|number| number.to_be_bytes().to_vec()),
        2 => (0u8..3, 0usize..40).prop_map(|(byte, length)| vec![byte; length]),
        3 => prop::collection::vec(byte, 14..19),
        1 => Just(vec![7; 2500]),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let row = || prop_oneof![0u64..4, 0u64..40, any::<u64>(), Just(u64::MAX)];
    prop_oneof![
        20 => (key(), row()).prop_map(|(key, row)| Operation::Insert(key, row)),
        6 => (key(), row()).prop_map(|(key, row)| Operation::InsertUnique(key, row)),
        6 => (key(), row()).prop_map(|(key, row)| Operation::Remove(key, row)),
        10 => any::<u16>().prop_map(Operation::RemoveNth),
        6 => key().prop_map(Operation::Get),
        2 => (any::<u16>(), 0u16..300).prop_map(|(first, count)| Operation::Run(first, count)),
        1 => (0u16..300).prop_map(Operation::Drain),
        3 => (key(), 0u64..40, 20u8..80).prop_map(|(key, first, count)| Operation::Pile(key, first, count)),
        3 => key().prop_map(Operation::Clear),
    ]
}

fn rows_of(model: &Model, key: &[u8]) -> Vec<u64> {
    model.range((key.to_vec(), 0)..=(key.to_vec(), u64::MAX)).map(|entry| entry.1).collect()
}

fn rows(index: &HashIndex, key: &[u8]) -> Vec<u64> {
    let mut rows = Vec::new();
    index.get(key, |row| {
        rows.push(row);
        ControlFlow::Continue(())
    });
    rows
}

/// All entries; checks that those of one key come together.
fn all(index: &HashIndex) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    index.visit_all(|key, row| {
        entries.push((key.to_vec(), row));
        ControlFlow::Continue(())
    });
    let mut runs: Vec<&Vec<u8>> = entries.iter().map(|(key, _)| key).collect();
    runs.dedup();
    let run_count = runs.len();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), run_count, "each key once");
    entries.sort_unstable();
    entries
}

fn apply(index: &HashIndex, model: &mut Model, operation: Operation) {
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
        Operation::Get(key) => {
            index.prefetch(&key);
            assert_eq!(rows(index, &key), rows_of(model, &key));
        }
        Operation::Run(first, count) => {
            for number in u32::from(first)..u32::from(first) + u32::from(count) {
                let entry = (number.to_be_bytes().to_vec(), u64::from(number));
                assert_eq!(index.insert(&entry.0, entry.1), Ok(model.insert(entry)));
            }
        }
        Operation::Drain(count) => {
            for _ in 0..count {
                if let Some((key, row)) = model.pop_first() {
                    assert!(index.remove(&key, row));
                }
            }
        }
        Operation::Pile(key, first, count) => {
            for row in first..first + u64::from(count) {
                assert_eq!(index.insert(&key, row), Ok(model.insert((key.clone(), row))));
            }
        }
        Operation::Clear(key) => {
            for row in rows_of(model, &key) {
                assert!(index.remove(&key, row) && model.remove(&(key.clone(), row)));
            }
        }
    }
    assert_eq!(index.len(), model.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_set(operations in prop::collection::vec(operation(), 1..400)) {
        let (index, mut model) = (HashIndex::new(), Model::new());
        for operation in operations {
            apply(&index, &mut model, operation);
        }
        prop_assert_eq!(all(&index), model.iter().cloned().collect::<Vec<_>>());
        for (key, _) in &model {
            prop_assert_eq!(rows(&index, key), rows_of(&model, key));
        }
        for (key, row) in &model {
            prop_assert!(index.remove(key, *row));
        }
        prop_assert!(index.is_empty());
        prop_assert_eq!(all(&index), []);
    }
}

#[test]
fn grows_to_many_entries_and_keeps_all_of_them() {
    let index = HashIndex::new();
    const KEYS: u64 = 200_000;
    let key = |number: u64| match number % 3 {
        0 => number.to_be_bytes().to_vec(),
        1 => [number.to_be_bytes(), [3; 8]].concat(),
        _ => [number.to_be_bytes().as_slice(), &[b'l'; 30]].concat(),
    };
    for number in 0..KEYS {
        assert!(index.insert(&key(number), number).unwrap());
    }
    for number in 0..KEYS {
        assert_eq!(rows(&index, &key(number)), [number]);
        assert!(!index.insert(&key(number), number).unwrap());
        assert_eq!(rows(&index, &key(number + KEYS)), []);
    }
    // A third of the keys has 38 bytes out of line; a line has 64 for at most two entries.
    let per_entry = index.memory_bytes() as u64 / KEYS;
    assert!((40..200).contains(&per_entry), "{per_entry} bytes per entry");
    let mut expected: Vec<Entry> = (0..KEYS).map(|number| (key(number), number)).collect();
    expected.sort_unstable();
    assert!(all(&index) == expected);
    for number in 0..KEYS {
        assert!(index.remove(&key(number), number));
    }
    assert!(index.is_empty() && all(&index).is_empty());
}

#[test]
fn holds_many_rows_of_one_key_and_gives_their_memory_back() {
    // A key in the line, and one out of line.
    for key in [&b"the same"[..], &[7; 100]] {
        const ROWS: u64 = 200_000;
        let index = HashIndex::new();
        let before = index.memory_bytes();
        // In an order in which neighbours come late.
        let row = |number: u64| number * 77_773 % ROWS;
        (0..ROWS).for_each(|number| assert!(index.insert(key, row(number)).unwrap()));
        assert!(!index.insert(key, 5).unwrap());
        assert_eq!(index.len() as u64, ROWS);
        assert!(rows(&index, key) == (0..ROWS).collect::<Vec<_>>());
        assert!(all(&index).iter().map(|entry| entry.1).eq(0..ROWS));
        let per_row = (index.memory_bytes() - before) as u64 / ROWS;
        assert!(per_row <= 64, "{per_row} bytes for each row, whatever the length of the key");
        let unique = |row| index.insert_unique(key, row, |other| (other == ROWS - 1).then_some(other));
        assert_eq!(unique(ROWS), Ok(UniqueInsert::Conflict(ROWS - 1)));
        assert_eq!(unique(ROWS - 1), Ok(UniqueInsert::Present));
        (0..ROWS).step_by(2).for_each(|row| assert!(index.remove(key, row)));
        assert!(!index.remove(key, 0) && index.len() as u64 == ROWS / 2);
        assert!(rows(&index, key) == (1..ROWS).step_by(2).collect::<Vec<_>>());
        (1..ROWS).step_by(2).for_each(|row| assert!(index.remove(key, row)));
        assert!(index.is_empty() && rows(&index, key).is_empty() && all(&index).is_empty());
        assert!(index.memory_bytes() < before + 100_000, "{before} and {}", index.memory_bytes());
    }
}

#[test]
fn a_key_with_many_rows_does_not_make_the_table_grow_nor_its_neighbours_slow() {
    let index = HashIndex::new();
    let before = index.memory_bytes();
    (0..32).for_each(|row| assert!(index.insert(b"many", row).unwrap()));
    let in_bucket = index.memory_bytes();
    (32..10_000).for_each(|row| assert!(index.insert(b"many", row).unwrap()));
    assert!(index.memory_bytes() - in_bucket < 10_000 * 64, "the rows, and no more buckets");
    (0..10_000).for_each(|row| assert!(index.remove(b"many", row)));
    // Keys that come and go leave nothing behind, whatever number of rows they have had.
    for number in 0..2_000u64 {
        (0..40).for_each(|row| assert!(index.insert(&number.to_be_bytes(), row).unwrap()));
        (0..40).for_each(|row| assert!(index.remove(&number.to_be_bytes(), row)));
    }
    assert!(index.is_empty());
    assert!(index.memory_bytes() < before + 100_000, "{before} and {}", index.memory_bytes());
}

#[test]
fn takes_keys_up_to_the_longest_and_refuses_longer_ones() {
    let index = HashIndex::new();
    assert_eq!(index.insert(&[7; KEY_BYTES_MAX], 1), Ok(true));
    assert_eq!(rows(&index, &[7; KEY_BYTES_MAX]), [1]);
    let error = index.insert(&[7; KEY_BYTES_MAX + 1], 1).unwrap_err();
    assert_eq!(error.state(), SqlState::ProgramLimitExceeded);
    assert!(index.insert_unique(&[7; 9000], 1, |_| None::<()>).is_err());
    assert!(!index.remove(&[7; KEY_BYTES_MAX + 1], 1));
}

#[test]
fn visitors_may_change_the_index_they_visit() {
    let index = HashIndex::new();
    (0..1000u32).for_each(|number| assert!(index.insert(&number.to_be_bytes(), 1).unwrap()));
    let mut visited = 0;
    index.visit_all(|key, row| {
        if row == 1 {
            visited += 1;
            assert!(index.remove(key, row));
            assert!(index.insert(&[key, b"!"].concat(), 2).unwrap());
        }
        if visited == 500 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((visited, index.len()), (500, 1000));
}
