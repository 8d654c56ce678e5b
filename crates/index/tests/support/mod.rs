//! What the tests of both kinds of index share.

use ankerdb_index::{HashIndex, OrderedIndex, UniqueInsert};
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

/// The key of a number: short for most, with a part out of line for every seventh.
pub(crate) fn key(number: u64) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    if number.is_multiple_of(7) {
        key.extend([b'k'; 40]);
    }
    key
}

/// What both kinds of index can do.
pub(crate) trait Index: Sync {
    fn insert(&self, key: &[u8], row: u64) -> bool;
    fn insert_unique(
        &self,
        key: &[u8],
        row: u64,
        conflicts: &dyn Fn(u64) -> Option<u64>,
    ) -> UniqueInsert<u64>;
    fn visit(&self, key: &[u8], visit: &mut dyn FnMut(u64));

    /// The rows of a key, as they are visited.
    fn rows(&self, key: &[u8]) -> Vec<u64> {
        let mut rows = Vec::new();
        self.visit(key, &mut |row| rows.push(row));
        rows
    }
}

macro_rules! index {
    ($kind:ty) => {
        impl Index for $kind {
            fn insert(&self, key: &[u8], row: u64) -> bool {
                <$kind>::insert(self, key, row).unwrap()
            }

            fn insert_unique(
                &self,
                key: &[u8],
                row: u64,
                conflicts: &dyn Fn(u64) -> Option<u64>,
            ) -> UniqueInsert<u64> {
                <$kind>::insert_unique(self, key, row, conflicts).unwrap()
            }

            fn visit(&self, key: &[u8], visit: &mut dyn FnMut(u64)) {
                self.get(key, |row| {
                    visit(row);
                    ControlFlow::Continue(())
                });
            }
        }
    };
}

index!(OrderedIndex);
index!(HashIndex);

/// Of several threads that insert the same unique keys into an empty index, one wins each.
pub(crate) fn one_of_several_unique_inserts_wins(index: &impl Index) {
    const THREADS: u64 = 4;
    const KEYS: u64 = 1_500;
    // Each key has entries that are no conflicts, deleted rows': asked about them, a thread lets others go on
    // between its look and its insertion. Some have more than are looked at at once, or than lie in a bucket.
    const DELETED: u64 = 1_000;
    let deleted = |number: u64| DELETED..DELETED + [1, 7, 8, 12, 32, 40][number as usize % 6];
    for number in 0..KEYS {
        deleted(number).for_each(|row| assert!(index.insert(&key(number), row)));
    }
    let wins: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (wins, start) = (&wins, &start);
            scope.spawn(move || {
                start.wait();
                for number in 0..KEYS {
                    let conflicts = |row| {
                        if row % 4 == 0 {
                            thread::yield_now();
                        }
                        (row < DELETED).then_some(row)
                    };
                    match index.insert_unique(&key(number), thread, &conflicts) {
                        UniqueInsert::Inserted => {
                            wins[number as usize].fetch_add(1 + (thread << 32), Relaxed);
                        }
                        UniqueInsert::Present => panic!("nobody else inserts this row"),
                        UniqueInsert::Conflict(winner) => assert_ne!(winner, thread),
                    }
                }
            });
        }
    });
    for (number, wins) in wins.iter().enumerate() {
        let wins = wins.load(Relaxed);
        assert_eq!(wins & 0xffff_ffff, 1, "one winner for {number}");
        let expected: Vec<u64> = [wins >> 32].into_iter().chain(deleted(number as u64)).collect();
        assert_eq!(index.rows(&key(number as u64)), expected);
    }
}
