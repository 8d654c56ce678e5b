//! Images stay what they were, and memory comes back.

use crate::{PAGE, Words, available, each, mappings_between};
use ankerdb_region::{PageSize, Region, RegionSnapshot, Technique};

const PAGES: usize = 24;

fn region(technique: Technique, pages: PageSize) -> std::sync::Arc<Region> {
    let region = Region::new(technique, pages, PAGES * pages.bytes()).expect("a small region");
    assert_eq!(region.bytes(), PAGES * pages.bytes());
    assert_eq!(region.pointer().as_ptr() as usize % pages.bytes(), 0);
    for page in 0..PAGES {
        assert_eq!(region.get(page * pages.bytes() + 8), 0, "zeroed at first");
        region.put(page * pages.bytes(), page as u64);
    }
    region
}

#[test]
fn writes_on_either_side_stay_there() {
    each(|technique, pages| {
        let (region, size) = (region(technique, pages), pages.bytes());
        let snapshot = region.snapshot(region.bytes()).expect("a snapshot");
        assert_eq!(snapshot.bytes(), region.bytes());
        region.put(3 * size, 103);
        snapshot.put(4 * size, 204);
        region.put(5 * size, 105);
        snapshot.put(5 * size, 205);
        for page in 0..PAGES {
            let (in_region, in_snapshot) = match page {
                3 => (103, 3),
                4 => (4, 204),
                5 => (105, 205),
                other => (other as u64, other as u64),
            };
            assert_eq!(region.get(page * size), in_region, "{technique:?} {pages:?} {page}");
            assert_eq!(snapshot.get(page * size), in_snapshot, "{technique:?} {pages:?} {page}");
        }
        // A later one has what the region has, not what was written to the earlier one.
        let later = region.snapshot(region.bytes()).expect("a snapshot");
        assert_eq!([3, 4, 5].map(|page| later.get(page * size)), [103, 4, 105]);
        let refreshed = region.refresh(snapshot, region.bytes()).expect("a refreshed snapshot");
        assert_eq!([3, 4, 5].map(|page| refreshed.get(page * size)), [103, 4, 105]);
        drop(region);
        assert_eq!([3, 4, 5].map(|page| later.get(page * size)), [103, 4, 105], "outlives the region");
        assert_eq!(refreshed.get(6 * size), 6);
        assert_eq!(refreshed.check().and(later.check()), Ok(()));
    });
}

/// Takes snapshots with a step of writes before each; what page p of snapshot i must be.
fn chain(
    technique: Technique,
    pages: PageSize,
    len: usize,
) -> (std::sync::Arc<Region>, Vec<(RegionSnapshot, [u64; PAGES])>) {
    let (region, size) = (region(technique, pages), pages.bytes());
    let mut expected: [u64; PAGES] = std::array::from_fn(|page| page as u64);
    let mut taken = Vec::new();
    for step in 0..len {
        for page in [step % PAGES, (step * 7 + 1) % PAGES, (step * 5) % 3] {
            expected[page] = (1000 * step + page) as u64;
            region.put(page * size, expected[page]);
        }
        taken.push((region.snapshot(region.bytes()).expect("a snapshot"), expected));
    }
    (region, taken)
}

fn verify(taken: &[(RegionSnapshot, [u64; PAGES])], size: usize) {
    for (index, (snapshot, expected)) in taken.iter().enumerate() {
        for (page, value) in expected.iter().enumerate() {
            assert_eq!(snapshot.get(page * size), *value, "snapshot {index}, page {page}");
        }
        assert_eq!(snapshot.check(), Ok(()));
    }
}

#[test]
fn chains_of_forty_and_sixty_four_alive_at_once() {
    for technique in available() {
        let (_region, taken) = chain(technique, PageSize::Small, 64);
        verify(&taken, PAGE);
        let (region, taken) = chain(technique, PageSize::Huge, 10);
        verify(&taken, PageSize::Huge.bytes());
        drop(region);
        verify(&taken, PageSize::Huge.bytes());
        // In place of each other, each with writes by its owner that must go.
        let (region, mut taken) = chain(technique, PageSize::Small, 1);
        let (mut snapshot, _) = taken.remove(0);
        for step in 0..40 {
            snapshot.put(step % PAGES * PAGE, u64::MAX);
            region.put(2 * PAGE, 5000 + step as u64);
            snapshot = region.refresh(snapshot, region.bytes()).expect("refreshed");
            for page in 0..PAGES {
                assert_eq!(snapshot.get(page * PAGE), region.get(page * PAGE), "{technique:?} {step} {page}");
            }
        }
    }
}

#[test]
fn any_order_of_dropping_gives_the_memory_back() {
    let orders: [fn(usize, usize) -> usize; 4] =
        [|_, _| 0, |left, _| left - 1, |left, step| step * 31 % left, |left, _| left / 2];
    for technique in available() {
        for (order, next) in orders.into_iter().enumerate() {
            let (region, mut taken) = chain(technique, PageSize::Small, 20);
            let most = region.file_bytes();
            for step in 0..20 {
                let _ = taken.remove(next(taken.len(), step));
                verify(&taken, PAGE);
            }
            if let (Some(most), Some(now)) = (most, region.file_bytes()) {
                assert!(most > PAGES * PAGE, "copies were made");
                assert_eq!(now, PAGES * PAGE, "{technique:?}, order {order}: only live pages are left");
            }
            for page in 0..PAGES {
                region.put(page * PAGE, 7);
            }
        }
    }
}

/// Not only in the end: what a snapshot alone held goes with it.
#[test]
fn a_snapshot_in_the_middle_takes_its_pages_along() {
    for technique in available() {
        let region = region(technique, PageSize::Small);
        let Some(live) = region.file_bytes() else { continue };
        let rewrite = |value| (0..12).for_each(|page| region.put(page * PAGE, value));
        let oldest = region.snapshot(10 * PAGE).expect("a snapshot");
        rewrite(100);
        let middle = region.snapshot(region.bytes()).expect("a snapshot");
        rewrite(200);
        let newest = region.snapshot(region.bytes()).expect("a snapshot");
        rewrite(300);
        // Ten pages of the oldest; twelve of each of the others.
        assert_eq!(region.file_bytes(), Some(live + 34 * PAGE), "{technique:?}");
        drop(middle);
        assert_eq!(region.file_bytes(), Some(live + 22 * PAGE), "{technique:?}");
        drop(newest);
        assert_eq!(region.file_bytes(), Some(live + 10 * PAGE), "{technique:?}");
        assert_eq!(oldest.get(9 * PAGE), 9);
        let whole = region.snapshot(region.bytes()).expect("a snapshot");
        region.put(10 * PAGE, 400);
        assert_eq!(region.file_bytes(), Some(live + 11 * PAGE), "{technique:?}");
        // The oldest does not have page 10, so no snapshot keeps its old content.
        drop(whole);
        assert_eq!(region.file_bytes(), Some(live + 10 * PAGE), "{technique:?}");
    }
}

#[test]
fn parts_of_a_region() {
    for technique in available() {
        let region = region(technique, PageSize::Small);
        let short = region.snapshot(PAGE + 1).expect("two pages");
        assert_eq!(short.bytes(), 2 * PAGE);
        let long = region.snapshot(usize::MAX / 4).expect("all there is");
        assert_eq!(long.bytes(), PAGES * PAGE);
        let middle = region.snapshot(10 * PAGE).expect("ten pages");
        for page in 0..PAGES {
            region.put(page * PAGE, 900 + page as u64);
        }
        for (snapshot, pages) in [(&short, 2), (&middle, 10), (&long, PAGES)] {
            for page in 0..pages {
                assert_eq!(snapshot.get(page * PAGE), page as u64);
            }
        }
        let grown = region.refresh(short, 12 * PAGE).expect("twelve pages");
        assert_eq!(grown.bytes(), 12 * PAGE);
        assert_eq!(grown.get(11 * PAGE), 911);
        drop(long);
        assert_eq!(middle.get(9 * PAGE), 9);
        region.put(9 * PAGE, 1);
        assert_eq!(grown.get(9 * PAGE), 909);
    }
    // Less than a huge page of a region in huge pages.
    each(|technique, pages| {
        let region = region(technique, pages);
        let snapshot = region.snapshot(3 * PAGE).expect("three pages");
        region.put(2 * PAGE, 8);
        assert_eq!(
            (snapshot.bytes(), snapshot.get(2 * PAGE)),
            (3 * PAGE, if pages == PageSize::Small { 2 } else { 0 })
        );
    });
}

#[test]
fn the_mappings_of_a_region_are_counted_right() {
    for technique in [Technique::Rewiring, Technique::RewiringUserfaultfd] {
        if technique.check().is_err() {
            continue;
        }
        let region = region(technique, PageSize::Small);
        let mut snapshots = Vec::new();
        for step in 0..40 {
            if step % 5 == 0 {
                snapshots.push(region.snapshot((step % 3 + 1) * 8 * PAGE).expect("a snapshot"));
            }
            region.put(step * 11 % PAGES * PAGE, step as u64);
            let counted = mappings_between(region.pointer(), region.bytes());
            assert_eq!(region.mappings(), counted, "{technique:?} after {step}");
            if step % 7 == 6 {
                let _ = snapshots.remove(step % snapshots.len());
            }
        }
        snapshots.clear();
        assert_eq!(region.mappings(), mappings_between(region.pointer(), region.bytes()));
        assert!(region.rewiring_counts().copied > 0);
    }
}

/// Copies of neighbours go to the same generation of the file: in the end there is one mapping again.
#[test]
fn a_region_that_is_rewritten_in_any_order_is_in_one_piece() {
    for technique in [Technique::Rewiring, Technique::RewiringUserfaultfd] {
        if technique.check().is_err() {
            continue;
        }
        let region = region(technique, PageSize::Small);
        let snapshot = region.snapshot(region.bytes()).expect("a snapshot");
        let mut most = 0;
        for step in 0..PAGES {
            region.put(step * 7 % PAGES * PAGE, 1);
            most = most.max(region.mappings());
        }
        assert!(most > 5, "{technique:?}: scattered in between");
        assert_eq!(region.mappings(), 1, "{technique:?}");
        assert_eq!(snapshot.get(PAGE), 1);
    }
}
