//! Many threads at once. Each test runs for a fixed number of operations or a second or two.

mod support;

use ankerdb_index::{Direction, OrderedIndex, UniqueInsert};
use std::ops::{Bound, ControlFlow};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use support::{key, one_of_several_unique_inserts_wins};

const DURATION: Duration = Duration::from_millis(1500);

/// Numbers divisible by this are never removed, the others come and go.
const STABLE: u64 = 5;
const NUMBERS: u64 = 6_000;

fn check_scan(index: &OrderedIndex, random: &mut fastrand::Rng) {
    let lower = random.u64(0..NUMBERS);
    let upper = random.u64(lower..NUMBERS);
    let direction = if random.bool() { Direction::Forward } else { Direction::Backward };
    let (mut stable, mut previous) = (Vec::new(), None);
    index.scan(Bound::Included(&key(lower)), Bound::Excluded(&key(upper)), direction, |found, row| {
        assert_eq!(found, key(row), "key and row belong together");
        assert!((lower..upper).contains(&row), "{row} within {lower}..{upper}");
        if let Some(previous) = previous.replace(row) {
            assert_eq!(previous < row, direction == Direction::Forward, "{previous} then {row}");
            assert_ne!(previous, row);
        }
        if row.is_multiple_of(STABLE) {
            stable.push(row);
        }
        ControlFlow::Continue(())
    });
    if direction == Direction::Backward {
        stable.reverse();
    }
    let expected: Vec<u64> = (lower..upper).filter(|number| number.is_multiple_of(STABLE)).collect();
    assert!(stable == expected, "every stable entry exactly once in {lower}..{upper} {direction:?}");
}

fn check_get(index: &OrderedIndex, random: &mut fastrand::Rng) {
    let number = random.u64(0..NUMBERS / STABLE) * STABLE;
    let mut rows = Vec::new();
    index.get(&key(number), |row| {
        rows.push(row);
        ControlFlow::Continue(())
    });
    assert_eq!(rows, [number]);
}

/// Inserts and removes unstable numbers of a range; returns by how many entries the index has grown.
fn churn(index: &OrderedIndex, random: &mut fastrand::Rng, range: std::ops::Range<u64>) -> i64 {
    // Long runs in one direction empty whole leaves and fill them again.
    let start = random.u64(range.clone());
    let end = (start + random.u64(0..600)).min(range.end);
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
fn scans_and_lookups_are_exact_while_others_insert_and_remove() {
    let index = OrderedIndex::new();
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
                        // Two with a range of their own, two that share everything.
                        0 | 1 => {
                            let range = thread * (NUMBERS / 2)..(thread + 1) * (NUMBERS / 2);
                            entries.fetch_add(churn(index, &mut random, range) as u64, Relaxed);
                        }
                        2 | 3 => {
                            entries.fetch_add(churn(index, &mut random, 0..NUMBERS) as u64, Relaxed);
                        }
                        4 => check_scan(index, &mut random),
                        _ => check_get(index, &mut random),
                    }
                }
            });
        }
    });
    let mut found = 0;
    index.scan(Bound::Unbounded, Bound::Unbounded, Direction::Backward, |_, _| {
        found += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((found, index.len() as u64), (entries.load(Relaxed), entries.load(Relaxed)));
}

#[test]
fn whole_leaves_come_and_go_between_stable_entries() {
    // Stable entries are 1,000 apart: the leaves between them empty completely, and inner nodes too.
    let index = OrderedIndex::new();
    const LAST: u64 = 40_000;
    let stable = |number: u64| number.is_multiple_of(1_000);
    for number in (0..=LAST).filter(|&number| stable(number)) {
        index.insert(&number.to_be_bytes(), number).unwrap();
    }
    let end = Instant::now() + DURATION;
    thread::scope(|scope| {
        for thread in 0..3u64 {
            let index = &index;
            scope.spawn(move || {
                let numbers = || (0..LAST).filter(|&number| !stable(number) && number % 3 == thread);
                while Instant::now() < end {
                    numbers()
                        .for_each(|number| assert!(index.insert(&number.to_be_bytes(), number).unwrap()));
                    numbers().for_each(|number| assert!(index.remove(&number.to_be_bytes(), number)));
                }
            });
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let index = &index;
            scope.spawn(move || {
                while Instant::now() < end {
                    let mut found = Vec::new();
                    index.scan(Bound::Unbounded, Bound::Unbounded, direction, |_, row| {
                        found.push(row);
                        ControlFlow::Continue(())
                    });
                    if direction == Direction::Backward {
                        found.reverse();
                    }
                    assert!(found.is_sorted_by(|one, other| one < other));
                    let stable: Vec<u64> = found.into_iter().filter(|&number| stable(number)).collect();
                    assert_eq!(stable, (0..=LAST).step_by(1_000).collect::<Vec<_>>());
                }
            });
        }
    });
    assert_eq!(index.len() as u64, LAST / 1_000 + 1);
}

#[test]
fn exactly_one_of_several_unique_inserts_wins() {
    one_of_several_unique_inserts_wins(&OrderedIndex::new());
}

#[test]
fn an_entry_that_is_there_already_can_be_entered_by_one_only() {
    // One row has an entry with the key, as a row that had it once; another one has none yet. Each thread announces
    // that its row is about to have the key, and enters it; a thread that finds the other row announced gives up.
    // The two never both get it, although one of them changes no entry.
    const KEYS: u64 = 20_000;
    let index = OrderedIndex::new();
    for number in 0..KEYS {
        assert!(index.insert(&key(number), 1).unwrap());
    }
    let announced: Vec<[AtomicBool; 2]> =
        (0..KEYS).map(|_| [AtomicBool::new(false), AtomicBool::new(false)]).collect();
    let entered = [0, 1].map(|_| vec![false; KEYS as usize]);
    let start = Barrier::new(2);
    let entered: Vec<Vec<bool>> = thread::scope(|scope| {
        let threads: Vec<_> = entered
            .into_iter()
            .enumerate()
            .map(|(row, mut entered)| {
                let (index, announced, start) = (&index, &announced, &start);
                scope.spawn(move || {
                    start.wait();
                    for number in 0..KEYS {
                        let announced = &announced[number as usize];
                        announced[row].store(true, Relaxed);
                        let found = index
                            .insert_unique(&key(number), row as u64, |other| {
                                let conflicts = announced[other as usize].load(Relaxed);
                                (0..random_spins(number)).for_each(|_| std::hint::spin_loop());
                                conflicts.then_some(())
                            })
                            .unwrap();
                        entered[number as usize] = !matches!(found, UniqueInsert::Conflict(()));
                    }
                    entered
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let both = entered[0].iter().zip(&entered[1]).position(|(one, other)| *one && *other);
    assert_eq!(both, None, "both have a key");
}

/// Some number of spins that differs from key to key.
fn random_spins(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58
}

#[test]
fn a_stream_of_orders_by_several_threads_is_seen_in_order() {
    // Each thread appends to a district of its own; a reader that asks for the newest never goes back.
    let index = OrderedIndex::new();
    let done = AtomicBool::new(false);
    const DISTRICTS: u64 = 3;
    const ORDERS: u64 = 60_000;
    let order = |district: u64, number: u64| [district.to_be_bytes(), number.to_be_bytes()].concat();
    let newest = |district: u64| {
        let mut newest = None;
        let (lower, upper) = (order(district, 0), order(district, u64::MAX));
        index.scan(Bound::Included(&lower), Bound::Included(&upper), Direction::Backward, |_, row| {
            newest = Some(row);
            ControlFlow::Break(())
        });
        newest
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..DISTRICTS)
            .map(|district| {
                let (index, newest) = (&index, &newest);
                scope.spawn(move || {
                    for number in 0..ORDERS {
                        assert!(index.insert(&order(district, number), number).unwrap());
                        assert_eq!(newest(district), Some(number), "a thread sees its own insertion");
                    }
                })
            })
            .collect();
        let (newest, done) = (&newest, &done);
        scope.spawn(move || {
            let mut seen = [None; DISTRICTS as usize];
            while !done.load(Relaxed) {
                for (district, seen) in seen.iter_mut().enumerate() {
                    let now = newest(district as u64);
                    assert!(now >= *seen, "{now:?} after {seen:?}");
                    *seen = now;
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Relaxed);
    });
    assert_eq!(index.len() as u64, DISTRICTS * ORDERS);
}

#[test]
fn what_is_inserted_into_a_leaf_that_is_being_marked_is_seen() {
    // A queue: one thread inserts behind all others, and into the middle of what is dead; one kills from the front; one marks;
    // and all read what has to be there.
    const ROWS: u64 = 60_000;
    let index = OrderedIndex::new();
    let alive: Vec<AtomicBool> = (0..ROWS).map(|_| AtomicBool::new(false)).collect();
    let (end, key) = (AtomicU64::new(0), |row: u64| (row / 3 * 3).to_be_bytes());
    thread::scope(|scope| {
        let (index, alive, end) = (&index, &alive[..], &end);
        scope.spawn(move || {
            for row in 0..ROWS {
                // A row that is being inserted is alive before it has an entry.
                alive[row as usize].store(true, SeqCst);
                assert!(index.insert(&key(row), row).unwrap());
                let mut found = false;
                index.scan_since(
                    Bound::Included(&key(row)),
                    Bound::Unbounded,
                    Direction::Forward,
                    1,
                    |_, other| {
                        found |= other == row;
                        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    },
                );
                assert!(found, "row {row} is alive and has an entry");
                if row % 7 != 0 || row < 500 {
                    alive[row as usize].store(false, SeqCst);
                } else {
                    alive[row as usize - 7].store(false, SeqCst);
                }
                end.store(row + 1, SeqCst);
            }
        });
        scope.spawn(move || {
            let mut random = fastrand::Rng::with_seed(1);
            while end.load(SeqCst) < ROWS {
                let near = end.load(SeqCst).saturating_sub(random.u64(0..300));
                index.mark_dead(&key(near), near, |row| (!alive[row as usize].load(SeqCst)).then_some(1));
            }
        });
    });
}
