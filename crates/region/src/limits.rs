//! Tests of rewiring with limits so small that they are reached.

use crate::budget::Budget;
use crate::rewired::{Rewired, RewiredSnapshot};
use crate::space::Limits;
use crate::technique::{PageSize, Technique};
use ankerdb_base::SqlState;
use std::io::Write;
use std::ptr::NonNull;

const PAGE: usize = 4096;
const PAGES: usize = 64;

/// All budgets that were made, so that a leak checker finds them.
static BUDGETS: parking_lot::Mutex<Vec<&'static Budget>> = parking_lot::Mutex::new(Vec::new());

/// Regions with limits of their own, by both detectors.
fn each(mappings: usize, extra_pages_max: usize, test: impl Fn(&Rewired, &'static Budget)) {
    for technique in [Technique::Rewiring, Technique::RewiringUserfaultfd] {
        if let Err(error) = technique.check() {
            let _ = writeln!(std::io::stderr(), "NOT HERE: {}: {error}", technique.name());
            continue;
        }
        let budget: &Budget = Box::leak(Box::new(Budget::new(mappings)));
        BUDGETS.lock().push(budget);
        let limits = Limits { budget, extra_pages_max };
        let region =
            Rewired::with_limits(technique, PageSize::Small, PAGES * PAGE, limits).expect("a region");
        test(&region, budget);
        drop(region);
        assert_eq!(budget.used(), 0, "{technique:?}: all mappings are accounted for");
    }
}

fn put(start: NonNull<u8>, page: usize, value: u64) {
    // SAFETY: the tests use the memory with one thread each.
    unsafe { start.as_ptr().add(page * PAGE).cast::<u64>().write_volatile(value) };
}

fn get(start: NonNull<u8>, page: usize) -> u64 {
    // SAFETY: as above.
    unsafe { start.as_ptr().add(page * PAGE).cast::<u64>().read_volatile() }
}

fn contents(start: NonNull<u8>) -> Vec<u64> {
    (0..PAGES).map(|page| get(start, page)).collect()
}

#[test]
fn a_region_is_compacted_before_the_limit() {
    each(24, usize::MAX / 2, |region, budget| {
        let mut kept: Vec<(RewiredSnapshot, Vec<u64>)> = Vec::new();
        let mut model = vec![0u64; PAGES];
        for round in 1..=40u64 {
            if kept.len() == 2 {
                kept.remove(0);
            }
            let image = region.snapshot(None, PAGES * PAGE).expect("two snapshots fit");
            kept.push((image, model.clone()));
            for step in 0..24 {
                let page = (step * 5 + round as usize * 3) % PAGES;
                model[page] = round << 32 | step as u64;
                put(region.pointer(), page, model[page]);
                assert!(budget.used() <= budget.allowed(), "{} mappings", budget.used());
            }
            assert_eq!(contents(region.pointer()), model);
            for (image, seen) in &kept {
                assert_eq!(&contents(image.pointer()), seen, "round {round}");
                assert_eq!(image.check(), Ok(()));
            }
        }
        let counts = region.counts();
        assert!(counts.compacted > 5 && counts.ended == 0, "{counts:?}");
        kept.clear();
        assert_eq!(region.ask(crate::space::Space::memory_bytes), Some(PAGES * PAGE));
    });
}

#[test]
fn a_snapshot_that_needs_too_many_mappings_is_refused_and_nothing_else_happens() {
    each(24, usize::MAX / 2, |region, _| {
        let mut kept: Vec<(RewiredSnapshot, Vec<u64>)> = Vec::new();
        let mut model = vec![0u64; PAGES];
        let error = loop {
            for page in [kept.len() * 2, kept.len() * 2 + 30] {
                model[page] = 1000 + kept.len() as u64;
                put(region.pointer(), page, model[page]);
            }
            match region.snapshot(None, PAGES * PAGE) {
                Ok(image) => kept.push((image, model.clone())),
                Err(error) => break error,
            }
        };
        assert!(kept.len() > 2 && kept.len() < 24, "{}", kept.len());
        assert_eq!(error.state(), SqlState::OutOfMemory);
        assert!(error.message().contains("memory mappings"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("vm.max_map_count")));
        put(region.pointer(), 9, 9);
        model[9] = 9;
        assert_eq!(contents(region.pointer()), model);
        for (image, seen) in &kept {
            assert_eq!(&contents(image.pointer()), seen);
            assert_eq!(image.check(), Ok(()));
        }
        kept.truncate(1);
        let image = region.snapshot(None, PAGES * PAGE).expect("there is room again");
        assert_eq!(contents(image.pointer()), model);
    });
}

#[test]
fn regions_at_rest_give_mappings_to_others() {
    each(38, usize::MAX / 2, |region, budget| {
        let limits = Limits { budget, extra_pages_max: usize::MAX / 2 };
        let other = |step: usize| {
            let other = Rewired::with_limits(Technique::Rewiring, PageSize::Small, PAGES * PAGE, limits);
            let other = other.expect("a region");
            let image = other.snapshot(None, PAGES * PAGE).expect("a snapshot");
            for page in 0..8 {
                put(other.pointer(), page * step, 5);
            }
            (other, image)
        };
        let others = [other(2), other(5)];
        assert!(!budget.has_room(5), "{} mappings", budget.used());
        let image = region.snapshot(None, PAGES * PAGE).expect("others make room");
        put(region.pointer(), 1, 1);
        assert_eq!((image.check(), get(image.pointer(), 1)), (Ok(()), 0));
        for ((other, image), step) in others.iter().zip([2, 5]) {
            let written = |page: usize| if page.is_multiple_of(step) && page / step < 8 { 5 } else { 0 };
            assert_eq!(contents(other.pointer()), (0..PAGES).map(written).collect::<Vec<u64>>());
            assert!(contents(image.pointer()).iter().all(|word| *word == 0) && image.check().is_ok());
        }
        assert!(others.iter().any(|(other, _)| other.counts().compacted == 1));
    });
}

#[test]
fn without_memory_for_a_copy_the_snapshots_that_hold_the_page_end() {
    each(1000, 3, |region, _| {
        for page in 0..PAGES {
            put(region.pointer(), page, 7);
        }
        let short = region.snapshot(None, 10 * PAGE).expect("a snapshot");
        let all = region.snapshot(None, PAGES * PAGE).expect("a snapshot");
        for page in 40..43 {
            put(region.pointer(), page, 8);
        }
        assert_eq!(all.check(), Ok(()), "three copies fit");
        put(region.pointer(), 43, 8);
        let error = all.check().expect_err("a fourth does not");
        assert_eq!(error.state(), SqlState::OutOfMemory);
        assert!(contents(all.pointer()).iter().all(|word| *word == 0), "zeroes to read");
        put(all.pointer(), 1, 1);
        assert_eq!(short.check(), Ok(()), "another snapshot does not hold the page");
        assert!((0..10).all(|page| get(short.pointer(), page) == 7));
        let expected: Vec<u64> =
            (0..PAGES).map(|page| if (40..44).contains(&page) { 8 } else { 7 }).collect();
        assert_eq!(contents(region.pointer()), expected);
        // What the ended snapshot held is free for others; its addresses serve the next one.
        let next = region.snapshot(Some(all), PAGES * PAGE).expect("a snapshot");
        assert_eq!(contents(next.pointer()), expected);
        for page in 0..3 {
            put(region.pointer(), page, 9);
        }
        assert_eq!((next.check(), short.check()), (Ok(()), Ok(())));
        assert_eq!(region.counts().ended, 1);
        assert!((0..10).all(|page| get(short.pointer(), page) == 7));
    });
}

#[test]
fn without_mappings_and_memory_every_write_still_succeeds() {
    each(12, 6, |region, budget| {
        let mut model = vec![0u64; PAGES];
        let mut ended = 0;
        for round in 0..60usize {
            let image = region.snapshot(None, PAGES * PAGE);
            let seen = model.clone();
            for step in 0..12 {
                let page = (step * 7 + round * 5) % PAGES;
                model[page] += 1;
                put(region.pointer(), page, model[page]);
            }
            assert_eq!(contents(region.pointer()), model, "round {round}");
            match image.map(|image| (image.check(), contents(image.pointer()))) {
                Ok((Ok(()), contents)) => assert_eq!(contents, seen),
                Ok((Err(_), contents)) => {
                    assert!(contents.iter().all(|word| *word == 0));
                    ended += 1;
                }
                Err(error) => assert_eq!(error.state(), SqlState::OutOfMemory),
            }
            assert!(budget.used() <= budget.allowed() + 2);
        }
        assert!(ended > 3);
    });
}

#[test]
fn snapshots_at_a_time_are_limited() {
    each(usize::MAX / 2, usize::MAX / 2, |region, _| {
        let mut kept = Vec::new();
        let error = loop {
            put(region.pointer(), 3, kept.len() as u64);
            match region.snapshot(None, 4 * PAGE) {
                Ok(image) => kept.push(image),
                Err(error) => break error,
            }
        };
        assert_eq!((kept.len(), error.state()), (crate::pages::ALIVE_MAX, SqlState::OutOfMemory));
        put(region.pointer(), 3, 1 << 20);
        for (index, image) in kept.iter().enumerate() {
            assert_eq!(get(image.pointer(), 3), index as u64);
        }
    });
}

/// Handlers run on the alternative stack that Rust gives to its threads, which may be as small as 8 KiB, the kernel's
/// description of the interrupted thread included.
#[test]
#[cfg(not(ankerdb_sanitize))]
fn the_handler_needs_little_stack() {
    const STACK: usize = 64 << 10;
    let used = std::thread::spawn(|| {
        let stack = vec![0xA5u8; STACK];
        let mut old = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        let new = libc::stack_t { ss_sp: stack.as_ptr() as *mut _, ss_flags: 0, ss_size: STACK };
        // SAFETY: the stack lives until the old one is back.
        assert_eq!(unsafe { libc::sigaltstack(&new, &mut old) }, 0);
        let budget: &Budget = Box::leak(Box::new(Budget::new(24)));
        BUDGETS.lock().push(budget);
        let limits = Limits { budget, extra_pages_max: PAGES + 20 };
        let region = Rewired::with_limits(Technique::Rewiring, PageSize::Small, PAGES * PAGE, limits)
            .expect("a region");
        // Copies, then all of the region, then the end of snapshots.
        let images: Vec<_> = (0..3)
            .map(|round| {
                let image = region.snapshot(None, PAGES * PAGE);
                (0..PAGES).for_each(|step| put(region.pointer(), step * 5 % PAGES, round));
                image
            })
            .collect();
        let counts = region.counts();
        assert!(counts.copied > 0 && counts.compacted > 0 && counts.ended > 0, "{counts:?}");
        drop(images);
        // SAFETY: the thread's stack from before, which is still there.
        assert_eq!(unsafe { libc::sigaltstack(&old, std::ptr::null_mut()) }, 0);
        let untouched = stack.iter().take_while(|byte| **byte == 0xA5).count();
        STACK - untouched
    });
    let used = used.join().expect("no fault was left");
    assert!((1000..6 << 10).contains(&used), "{used} bytes");
}
