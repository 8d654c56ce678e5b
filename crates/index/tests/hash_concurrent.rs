//! Many threads at once on a hash index. Each test runs for a fixed number of operations or a second or two.

mod support;

use ankerdb_index::{HashIndex, UniqueInsert};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use support::{Index, key, one_of_several_unique_inserts_wins};

const DURATION: Duration = Duration::from_millis(1500);

/// Numbers divisible by this are never removed, the others come and go.
const STABLE: u64 = 5;
const NUMBERS: u64 = 6_000;

fn check_all(index: &HashIndex) {
    let mut stable = Vec::new();
    index.visit_all(|found, row| {
        assert_eq!(found, key(row), "key and row belong together");
        if row.is_multiple_of(STABLE) {
            stable.push(row);
        }
        ControlFlow::Continue(())
    });
    stable.sort_unstable();
    let expected: Vec<u64> = (0..NUMBERS).step_by(STABLE as usize).collect();
    assert!(stable == expected, "every stable entry exactly once");
}

/// Inserts or removes unstable numbers of a range; returns by how many entries the index has grown.
fn churn(index: &HashIndex, random: &mut fastrand::Rng) -> i64 {
    let start = random.u64(0..NUMBERS);
    let end = (start + random.u64(0..600)).min(NUMBERS);
    let insert = random.bool();
    let mut grown = 0;
    for number in (start..end).filter(|number| !number.is_multiple_of(STABLE)) {
        if insert {
            grown += i64::from(index.insert(&key(number), number).unwrap());
        } else {
            grown -= i64::from(index.remove(&key(number), number));
        }
    }
    grown
}

#[test]
fn lookups_and_visits_are_exact_while_others_insert_and_remove() {
    let index = HashIndex::new();
    for number in (0..NUMBERS).step_by(STABLE as usize) {
        index.insert(&key(number), number).unwrap();
    }
    let entries = AtomicU64::new(NUMBERS / STABLE);
    let end = Instant::now() + DURATION;
    thread::scope(|scope| {
        for thread in 0..6u64 {
            let (index, entries) = (&index, &entries);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                while Instant::now() < end {
                    match thread {
                        0..3 => {
                            entries.fetch_add(churn(index, &mut random) as u64, Relaxed);
                        }
                        3 => check_all(index),
                        _ => {
                            let number = random.u64(0..NUMBERS / STABLE) * STABLE;
                            assert_eq!(index.rows(&key(number)), [number]);
                        }
                    }
                }
            });
        }
    });
    let mut found = 0;
    index.visit_all(|_, _| {
        found += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((found, index.len() as u64), (entries.load(Relaxed), entries.load(Relaxed)));
}

#[test]
fn nothing_is_lost_or_doubled_while_the_index_grows() {
    // Again and again: stable entries, and three threads that make an empty index grow through many levels.
    let end = Instant::now() + DURATION;
    while Instant::now() < end {
        let index = HashIndex::new();
        (0..20).for_each(|number| assert!(index.insert(&key(number), number).unwrap()));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (index, done) = (&index, &done);
            let writers: Vec<_> = (0..3u64)
                .map(|thread| {
                    scope.spawn(move || {
                        for number in 0..4_000 {
                            let number = 1_000 + number * 3 + thread;
                            assert!(index.insert(&key(number), number).unwrap());
                            assert_eq!(index.rows(&key(number)), [number], "a thread sees its own insertion");
                        }
                    })
                })
                .collect();
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let mut stable = Vec::new();
                    (0..20).for_each(|number| assert_eq!(index.rows(&key(number)), [number]));
                    index.visit_all(|_, row| {
                        stable.extend((row < 20).then_some(row));
                        ControlFlow::Continue(())
                    });
                    stable.sort_unstable();
                    assert_eq!(stable, (0..20).collect::<Vec<_>>());
                }
            });
            let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            done.store(true, Relaxed);
            outcomes.into_iter().for_each(|outcome| outcome.unwrap());
        });
        assert_eq!(index.len(), 12_020);
        (1_000..13_000).for_each(|number| assert_eq!(index.rows(&key(number)), [number]));
    }
}

#[test]
fn lookups_see_one_state_of_a_bucket_that_changes_all_the_time() {
    // A key has always six rows, or seven between an insertion and a removal. They lie in several lines, between which
    // they move.
    const ROWS: usize = 6;
    let index = HashIndex::new();
    (0..ROWS as u64).for_each(|row| assert!(index.insert(b"key", row).unwrap()));
    let end = Instant::now() + DURATION;
    thread::scope(|scope| {
        let index = &index;
        scope.spawn(move || {
            let mut random = fastrand::Rng::with_seed(3);
            let mut present: Vec<u64> = (0..ROWS as u64).collect();
            for row in ROWS as u64.. {
                assert!(index.insert(b"key", row).unwrap());
                present.push(row);
                assert!(index.remove(b"key", present.swap_remove(random.usize(..present.len()))));
                if row % 64 == 0 && Instant::now() > end {
                    return;
                }
            }
        });
        for _ in 0..2 {
            scope.spawn(move || {
                while Instant::now() < end {
                    let found = index.rows(b"key");
                    assert!((ROWS..=ROWS + 1).contains(&found.len()), "{found:?}");
                    assert!(found.is_sorted_by(|one, other| one < other), "{found:?}");
                }
            });
        }
    });
}

/// A window of rows of one key, those that one of two threads changes. It grows until the key has a posting list, and
/// shrinks until that ends, if the other thread's rows have gone, too; told of each insertion and removal before it begins
/// and after it is done.
#[derive(Default)]
struct Window {
    thread: u64,
    inserting: AtomicU64,
    inserted: AtomicU64,
    removing: AtomicU64,
    removed: AtomicU64,
}

impl Window {
    fn change(&self, index: &HashIndex, key: &[u8], random: &mut fastrand::Rng) {
        for _ in 0..random.u64(1..40) {
            let row = self.inserting.fetch_add(1, SeqCst);
            assert!(index.insert(key, row * 2 + self.thread).unwrap());
            self.inserted.store(row + 1, SeqCst);
        }
        // Nearly always all of them.
        let left = random.u64(0..60).saturating_sub(57);
        while self.removing.load(SeqCst) + left < self.inserted.load(SeqCst) {
            let row = self.removing.fetch_add(1, SeqCst);
            assert!(index.remove(key, row * 2 + self.thread));
            self.removed.store(row + 1, SeqCst);
        }
    }

    /// Whether rows that were found are all that were there all the while, and none that were not there at all.
    fn check(&self, find: impl FnOnce() -> Vec<u64>) {
        let (removed, inserted) = (self.removed.load(SeqCst), self.inserted.load(SeqCst));
        let found = find();
        let (removing, inserting) = (self.removing.load(SeqCst), self.inserting.load(SeqCst));
        assert!(found.is_sorted_by(|one, other| one < other), "{found:?}");
        let mine = found.iter().filter(|row| **row % 2 == self.thread);
        let found: Vec<u64> = mine.map(|row| row / 2).collect();
        assert!(
            found.iter().all(|row| (removed..inserting).contains(row)),
            "{removed} {inserting} {found:?}"
        );
        let stayed = found.iter().filter(|row| (removing..inserted).contains(row)).count() as u64;
        assert_eq!(stayed, inserted.saturating_sub(removing), "{removing} to {inserted}: {found:?}");
    }
}

#[test]
fn rows_that_stay_are_found_while_posting_lists_begin_and_end() {
    // A few keys, so that they have buckets in common; one of them is long.
    let keys: Vec<Vec<u8>> = (0..2u8).map(|number| vec![number; if number == 1 { 40 } else { 3 }]).collect();
    let windows: [Vec<Window>; 2] =
        [0, 1].map(|thread| keys.iter().map(|_| Window { thread, ..Window::default() }).collect());
    let index = HashIndex::new();
    let end = Instant::now() + DURATION;
    thread::scope(|scope| {
        let (index, keys, windows) = (&index, &keys, &windows);
        for (thread, windows) in windows.iter().enumerate() {
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread as u64);
                while Instant::now() < end {
                    let number = random.usize(0..keys.len());
                    windows[number].change(index, &keys[number], &mut random);
                }
            });
        }
        scope.spawn(move || {
            let mut random = fastrand::Rng::with_seed(10);
            while Instant::now() < end {
                let (number, thread) = (random.usize(0..keys.len()), random.usize(0..2));
                windows[thread][number].check(|| index.rows(&keys[number]));
                windows[thread][number].check(|| {
                    let mut found = Vec::new();
                    index.visit_all(|key, row| {
                        found.extend((key == keys[number]).then_some(row));
                        ControlFlow::Continue(())
                    });
                    found
                });
            }
        });
    });
    let windows = windows.iter().flat_map(|windows| keys.iter().zip(windows));
    let mut all = 0;
    for (key, window) in windows {
        window.check(|| index.rows(key));
        all += window.inserted.load(SeqCst) - window.removed.load(SeqCst);
    }
    assert_eq!(index.len() as u64, all);
}

#[test]
fn several_threads_insert_and_remove_rows_of_one_key() {
    const THREADS: u64 = 4;
    const ROWS: u64 = 20_000;
    let index = HashIndex::new();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let index = &index;
            scope.spawn(move || {
                for row in (thread..ROWS).step_by(THREADS as usize) {
                    assert!(index.insert(b"one", row).unwrap());
                    assert!(row % 3 > 0 || index.remove(b"one", row));
                }
            });
        }
    });
    assert_eq!(index.rows(b"one"), (0..ROWS).filter(|row| row % 3 > 0).collect::<Vec<_>>());
}

#[test]
fn exactly_one_of_several_unique_inserts_wins() {
    one_of_several_unique_inserts_wins(&HashIndex::new());
}

#[test]
fn an_entry_that_is_there_already_can_be_entered_by_one_only() {
    // One row has an entry with the key, as a row that had it once; another one has none yet. Each thread announces
    // that its row is about to have the key, and enters it; a thread that finds the other row announced gives up.
    // The two never both get it, although one of them changes no entry.
    const KEYS: u64 = 20_000;
    let index = HashIndex::new();
    (0..KEYS).for_each(|number| assert!(index.insert(&key(number), 1).unwrap()));
    let announced: Vec<[AtomicBool; 2]> = (0..KEYS).map(|_| Default::default()).collect();
    let reached = [AtomicU64::new(0), AtomicU64::new(0)];
    let enter = |row: u64| {
        let enter_one = |number: u64| {
            reached[row as usize].store(number, Relaxed);
            while reached[1 - row as usize].load(Relaxed) < number {
                thread::yield_now();
            }
            let announced = &announced[number as usize];
            announced[row as usize].store(true, Relaxed);
            let conflicts = |other: u64| {
                let is_conflict = announced[other as usize].load(Relaxed);
                // A different moment for each key.
                (0..number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58).for_each(|_| std::hint::spin_loop());
                is_conflict.then_some(())
            };
            !matches!(index.insert_unique(&key(number), row, conflicts).unwrap(), UniqueInsert::Conflict(()))
        };
        (0..KEYS).map(enter_one).collect::<Vec<bool>>()
    };
    let (one, other) = thread::scope(|scope| {
        let one = scope.spawn(|| enter(0));
        let other = enter(1);
        (one.join().unwrap(), other)
    });
    assert_eq!(one.iter().zip(&other).position(|(one, other)| *one && *other), None, "both have a key");
}
