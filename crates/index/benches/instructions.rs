//! Instructions per operation, for callgrind.
//!
//! ```text
//! cargo bench -p ankerdb-index --bench instructions --no-run       # tells the PROGRAM
//! valgrind --tool=callgrind --toggle-collect='*measured*' PROGRAM MAP KEYS OPERATION [COUNT]
//! ```
//!
//! MAP: `ordered` or `hash` (which has no scans).
//! KEYS: `sequential` (8 bytes, ascending), `random` (12 bytes) or `orders` (12 bytes: ten districts in turn).
//! OPERATION: `get`, `insert`, `unique`, `last` (a backward scan for one entry), `ten` (a forward scan of ten).
//! Divide callgrind's "Collected" by COUNT (a million, if not said). Nothing else is collected.

use ankerdb_index::{Direction, HashIndex, OrderedIndex, UniqueInsert};
use ankerdb_measure::arguments::arguments;
use std::hint::black_box;
use std::ops::{Bound, ControlFlow};

fn keys(kind: &str, count: u64) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut key = |number: u64| match kind {
        "sequential" => number.to_be_bytes().to_vec(),
        "random" => std::iter::repeat_with(|| random.u8(..)).take(12).collect(),
        "orders" => {
            let [warehouse, district, order] = [1, (number % 10) as u32, (number / 10) as u32];
            [warehouse.to_be_bytes(), district.to_be_bytes(), order.to_be_bytes()].concat()
        }
        other => panic!("no keys are called {other}"),
    };
    (0..count).map(&mut key).collect()
}

#[inline(never)]
fn measured(keys: &[Vec<u8>], operation: impl Fn(&[u8], u64)) {
    keys.iter().enumerate().for_each(|(row, key)| operation(key, row as u64));
}

/// The operations that both kinds of index have.
macro_rules! operations {
    ($module:ident, $Index:ty) => {
        mod $module {
            use super::*;

            pub(super) fn insert_unique(index: &$Index, key: &[u8], row: u64) {
                let inserted = index.insert_unique(key, row, Some).expect("a short key");
                assert_eq!(inserted, UniqueInsert::Inserted);
            }

            pub(super) fn insert(index: &$Index, key: &[u8], row: u64) {
                assert!(index.insert(key, row).expect("a short key"));
            }

            pub(super) fn get(index: &$Index, key: &[u8], row: u64) {
                let mut found = None;
                index.get(key, |row| {
                    found = Some(row);
                    ControlFlow::Break(())
                });
                assert_eq!(found, Some(row));
            }

            /// Runs one of these, if it is called like that, on an index that has the keys where it should.
            pub(super) fn run(index: &$Index, keys: &[Vec<u8>], operation: &str) -> bool {
                if !matches!(operation, "insert" | "unique") {
                    keys.iter().enumerate().for_each(|(row, key)| insert(index, key, row as u64));
                }
                match operation {
                    "insert" => measured(keys, |key, row| insert(index, key, row)),
                    "unique" => measured(keys, |key, row| insert_unique(index, key, row)),
                    "get" => measured(keys, |key, row| get(index, key, row)),
                    _ => return false,
                }
                true
            }
        }
    };
}

operations!(ordered, OrderedIndex);
operations!(hash, HashIndex);

fn scan(index: &OrderedIndex, key: &[u8], direction: Direction, entries: usize) {
    let (lower, upper) = match direction {
        Direction::Forward => (Bound::Included(key), Bound::Unbounded),
        Direction::Backward => (Bound::Unbounded, Bound::Included(key)),
    };
    let mut left = entries;
    index.scan(lower, upper, direction, |_, row| {
        black_box(row);
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

fn main() {
    let arguments: Vec<String> = arguments().collect();
    let [map, kind, operation, rest @ ..] = arguments.as_slice() else {
        panic!("MAP, KEYS and OPERATION, please")
    };
    let count = rest.first().map_or(1_000_000, |count| count.parse().expect("a number"));
    let keys = keys(kind, count);
    if map == "hash" {
        let index = HashIndex::new();
        assert!(hash::run(&index, &keys, operation), "no operation is called {operation}");
        println!("{} entries, {} bytes per entry", index.len(), index.memory_bytes() / index.len());
        return;
    }
    let index = OrderedIndex::new();
    if !ordered::run(&index, &keys, operation) {
        match operation.as_str() {
            "last" => measured(&keys, |key, _| scan(&index, key, Direction::Backward, 1)),
            "ten" => measured(&keys, |key, _| scan(&index, key, Direction::Forward, 10)),
            other => panic!("no operation is called {other}"),
        }
    }
    println!("{} entries, {} bytes per entry", index.len(), index.memory_bytes() / index.len());
}
