//! What regions, snapshots and children take is in the account of the process, and leaves it with them. A test binary of
//! its own, because the account is that of a process.

use ankerdb_memory::account::{self, Counted};
use ankerdb_region::fork::spawn;
use ankerdb_region::{PageSize, Region, Technique};
use std::alloc::System;
use std::io::Write;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counted<System> = Counted(System);

const PAGE: usize = 4096;
const PAGES: usize = 256;
/// More than what a test and its threads allocate beside.
const SLACK: usize = 300 << 10;
const TAKEN: usize = 32 << 20;

fn used() -> usize {
    account::settle();
    account::used()
}

fn write(start: NonNull<u8>, pages: std::ops::Range<usize>) {
    for page in pages {
        // SAFETY: the test uses the memory with one thread, within its bounds.
        unsafe { start.as_ptr().add(page * PAGE).cast::<u64>().write_volatile(page as u64 + 1) };
    }
}

/// Whether so many pages more are in use than before, give or take what the process allocates otherwise.
fn assert_pages(before: usize, pages: usize, what: &str) {
    let more = used() as isize - before as isize;
    assert!(
        (more - (pages * PAGE) as isize).unsigned_abs() < 64 * PAGE,
        "{what}: {more} bytes for {pages} pages"
    );
}

fn copies_are_counted() {
    let before = used();
    let region = Region::new(Technique::Physical, PageSize::Small, 16 * PAGES * PAGE).expect("memory");
    let all = 16 * PAGES;
    let snapshot = region.snapshot(all * PAGE).expect("memory");
    assert_pages(before, all, "a copy");
    let snapshot = region.refresh(snapshot, all * PAGE).expect("memory");
    assert_pages(before, all, "the same memory again");
    {
        let _ceiling = account::Ceiling::put_up(used() + PAGE);
        assert!(region.snapshot(all * PAGE).is_err(), "past the ceiling");
        assert_pages(before, all, "a refused copy");
    }
    drop(snapshot);
    assert_pages(before, 0, "no copy");
}

fn rewired_copies_are_counted(technique: Technique) {
    if let Err(error) = technique.check() {
        let _ = writeln!(std::io::stderr(), "NOT HERE: {}: {error}", technique.name());
        return;
    }
    let all = 4 * PAGES;
    let region = Region::new(technique, PageSize::Small, all * PAGE).expect("a region");
    write(region.pointer(), 0..all);
    let before = used();
    let first = region.snapshot(all * PAGE).expect("a snapshot");
    assert_pages(before, 0, "nothing is copied");
    write(region.pointer(), 0..2 * PAGES);
    assert_pages(before, 2 * PAGES, "half of it is");
    let second = region.snapshot(all * PAGE).expect("a snapshot");
    write(region.pointer(), 0..all);
    assert_pages(before, 6 * PAGES, "another one holds other pages");
    drop(first);
    assert_pages(before, 4 * PAGES, "what the first one alone held is free");
    drop(region);
    assert_pages(before, 4 * PAGES, "the second one holds all of the region as it was");
    drop(second);
    assert_pages(before, 0, "nothing is left");
}

/// What a child takes, it takes from the same machine.
fn children_are_counted() {
    let before = used();
    let work = |output: &mut ankerdb_region::fork::Output| {
        let taken = vec![1u8; TAKEN];
        std::thread::sleep(Duration::from_secs(2));
        output.write_all(&taken[..TAKEN / 4]).expect("there is memory");
        Ok(())
    };
    let child = spawn(TAKEN, || Ok(()), work).expect("a child");
    let (most, begun) = (std::cell::Cell::new(0), Instant::now());
    let results = child
        .wait(&|| {
            most.set(most.get().max(used().saturating_sub(before)));
            begun.elapsed() > Duration::from_secs(60)
        })
        .expect("it ends by itself");
    assert!(most.get() > TAKEN - SLACK, "{} bytes while it ran", most.get());
    let after = used() - before;
    assert!((TAKEN / 4..TAKEN / 2).contains(&after), "{after} bytes for its results");
    drop(results);
    assert!(used() < before + SLACK, "nothing is left of it");
}

#[test]
fn what_is_taken_is_in_the_account() {
    copies_are_counted();
    for technique in [Technique::Rewiring, Technique::RewiringUserfaultfd] {
        rewired_copies_are_counted(technique);
    }
    children_are_counted();
}
