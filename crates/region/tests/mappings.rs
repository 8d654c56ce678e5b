//! The real limit on mappings, in a process that has nothing else to do.

use ankerdb_region::{PageSize, Region, Technique, mappings};
use std::io::Write;

const PAGE: usize = 4096;

#[test]
fn the_limit_of_the_system_is_never_reached() {
    if let Err(error) = Technique::Rewiring.check() {
        let _ = writeln!(std::io::stderr(), "NOT HERE: {}: {error}", Technique::Rewiring.name());
        return;
    }
    let limit = mappings().limit;
    if limit > 100_000 {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: vm.max_map_count is {limit}: reaching it would take too much memory"
        );
        return;
    }
    // Every second page is written under a snapshot: two mappings for each, until there are no more.
    let pages = limit + limit / 8;
    let region = Region::new(Technique::Rewiring, PageSize::Small, pages * PAGE).expect("a region");
    let snapshot = region.snapshot(region.bytes()).expect("a snapshot");
    let word =
        |start: std::ptr::NonNull<u8>, page: usize| start.as_ptr().wrapping_add(page * PAGE).cast::<u64>();
    let mut most = 0;
    for page in (0..pages).step_by(2) {
        // SAFETY: inside the region, one thread.
        unsafe { word(region.pointer(), page).write_volatile(page as u64 + 1) };
        most = most.max(region.mappings());
    }
    let now = mappings();
    let counts = region.rewiring_counts();
    assert!(most > now.rewired_max * 9 / 10 && most <= now.rewired_max, "{most} of {}", now.rewired_max);
    assert_eq!((counts.compacted, counts.ended), (1, 0), "{counts:?}");
    assert_eq!(snapshot.check(), Ok(()));
    for page in 0..pages {
        let written = if page % 2 == 0 { page as u64 + 1 } else { 0 };
        // SAFETY: inside both, one thread.
        let (live, seen) = unsafe {
            (word(region.pointer(), page).read_volatile(), word(snapshot.pointer(), page).read_volatile())
        };
        assert_eq!((live, seen), (written, 0), "page {page}");
    }
}
