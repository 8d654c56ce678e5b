//! Snapshots while threads write.

use crate::{PAGE, Words, available};
use ankerdb_region::{PageSize, Region, Technique};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

const PAGES: usize = 64;

/// What the techniques promise: by copying, each word is what it was at some moment, later words at later moments. The others
/// protect everything before they look: an image is the memory at one moment.
fn is_a_cut(technique: Technique) -> bool {
    technique != Technique::Physical
}

/// Two writers count in pairs of words: up in the first, then in the second; both on the same pages, from the last page to
/// the first and around. In an image at one moment, no second word of a pair is ahead of its first, no page is ahead of the page
/// that is written before it, and none is more than a round behind.
fn write(region: &Arc<Region>, writer: usize, stop: &AtomicBool, rounds: &AtomicU64) {
    let mut round = 0;
    while !stop.load(Relaxed) {
        rounds.store(round, Relaxed);
        round += 1;
        for page in (0..PAGES).rev() {
            region.word(page * PAGE + writer * 8).store(round, Release);
            region.word(page * PAGE + 2048 + writer * 8).store(round, Release);
        }
    }
}

/// What is wrong with an image.
fn violations(image: &impl Words, writer: usize) -> usize {
    let mut wrong = 0;
    let mut before = u64::MAX;
    for page in (0..PAGES).rev() {
        let [first, second] = [0, 2048].map(|at| image.word(page * PAGE + at + writer * 8).load(Acquire));
        wrong += usize::from(second > first || first > before || first - second > 1);
        before = second;
    }
    let [first, last] = [PAGES - 1, 0].map(|page| image.get(page * PAGE + writer * 8));
    wrong + usize::from(first - last.min(first) > 1)
}

/// Violations seen over some time by images that `take` makes.
fn race<T: Words>(region: &Arc<Region>, take: impl Fn(&Arc<Region>) -> T) -> (usize, usize) {
    let (stop, rounds) = (AtomicBool::new(false), [0, 1].map(AtomicU64::new));
    std::thread::scope(|scope| {
        for (writer, rounds) in rounds.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || write(region, writer, stop, rounds));
        }
        let start = Instant::now();
        // On a busy machine, until both writers have got on.
        let goes_on = || {
            let rounds = rounds.iter().map(|rounds| rounds.load(Relaxed)).min();
            if start.elapsed() > Duration::from_secs(60) {
                stop.store(true, Relaxed);
                panic!("writers are stuck in round {rounds:?}");
            }
            start.elapsed() < Duration::from_millis(400) || rounds < Some(5)
        };
        let (mut taken, mut wrong) = (0, 0);
        let mut kept = std::collections::VecDeque::new();
        // And until there are enough of them to say something.
        while taken <= 5 || goes_on() {
            let image = take(region);
            wrong += violations(&image, 0) + violations(&image, 1);
            let seen: Vec<u64> = (0..PAGES).map(|page| image.get(page * PAGE)).collect();
            kept.push_back((image, seen));
            taken += 1;
            // Without a pause between snapshots, every page would be protected again before a writer has written it.
            std::thread::sleep(Duration::from_micros(100));
            // An image that is eight snapshots old is still what it was.
            if kept.len() > 8 {
                let (image, seen) = kept.pop_front().expect("nine");
                let now: Vec<u64> = (0..PAGES).map(|page| image.get(page * PAGE)).collect();
                wrong += usize::from(now != seen);
            }
        }
        stop.store(true, Relaxed);
        (taken, wrong)
    })
}

#[test]
fn every_snapshot_is_a_causal_cut() {
    for technique in available().into_iter().filter(|technique| is_a_cut(*technique)) {
        let region = Region::new(technique, PageSize::Small, PAGES * PAGE).expect("a region");
        let (taken, wrong) = race(&region, |region| region.snapshot(region.bytes()).expect("a snapshot"));
        assert!(taken > 5, "{technique:?}: {taken}");
        assert_eq!(wrong, 0, "{technique:?}: {taken} snapshots");
        // And nothing that was written is lost.
        for page in 0..PAGES {
            assert_eq!(
                region.get(page * PAGE),
                region.get(2048),
                "{technique:?}: the last round is complete"
            );
        }
    }
}

/// The control: the same test detects images that are not of one moment.
#[test]
fn copies_without_protection_are_not_cuts() {
    struct Copy(Vec<AtomicU64>);
    impl Words for Copy {
        fn start(&self) -> std::ptr::NonNull<u8> {
            std::ptr::NonNull::from(&self.0[0]).cast()
        }
        fn len(&self) -> usize {
            self.0.len() * 8
        }
    }
    let region = Region::new(Technique::Physical, PageSize::Small, PAGES * PAGE).expect("a region");
    let copy = |region: &Arc<Region>| {
        // In the order in which the writers go, so that what is copied later is newer.
        let mut copy = Copy((0..region.bytes() / 8).map(|_| AtomicU64::new(0)).collect());
        for page in (0..PAGES).rev() {
            // Halfway, a busy machine gets time for the writers.
            let newest = (PAGES - 1) * PAGE;
            let copied = copy.0[newest / 8].load(Relaxed);
            while page == PAGES / 2 && region.get(newest) < copied + 2 {
                std::thread::yield_now();
            }
            for word in 0..PAGE / 8 {
                *copy.0[page * (PAGE / 8) + word].get_mut() = region.get(page * PAGE + word * 8);
            }
        }
        copy
    };
    let (taken, wrong) = race(&region, copy);
    assert!(wrong > 0, "{taken} copies, all of them cuts by accident");
}

/// By copying: no word is torn or older than the call, and the image stays.
#[test]
fn copies_have_whole_words() {
    let region = Region::new(Technique::Physical, PageSize::Small, PAGES * PAGE).expect("a region");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 0u64;
            while !stop.load(Relaxed) {
                value = (value + 1) & 0xFFFF_FFFF;
                for page in 0..PAGES {
                    region.put(page * PAGE + 64, value << 32 | value);
                }
            }
        });
        let mut image = region.snapshot(region.bytes()).expect("a snapshot");
        for _ in 0..3000 {
            let newest = region.get(64);
            image = region.refresh(image, region.bytes()).expect("a snapshot");
            for page in 0..PAGES {
                let word = image.get(page * PAGE + 64);
                assert_eq!(word >> 32, word & 0xFFFF_FFFF, "torn");
            }
            assert!(image.get(64) >= newest, "older than the call");
        }
        stop.store(true, Relaxed);
    });
}

/// Many threads and several regions: all take and drop snapshots and write the same pages.
#[test]
fn several_regions_and_everybody_at_once() {
    for technique in available() {
        let regions: Vec<_> =
            (0..3).map(|_| Region::new(technique, PageSize::Small, 16 * PAGE).expect("a region")).collect();
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let regions = &regions;
                scope.spawn(move || {
                    for step in 0..400usize {
                        let region = &regions[(thread + step) % 3];
                        for page in 0..16 {
                            region.word(page * PAGE + 8).fetch_add(1, Relaxed);
                        }
                        let image = region.snapshot(region.bytes()).expect("a snapshot");
                        let before: Vec<u64> = (0..16).map(|page| image.get(page * PAGE + 8)).collect();
                        region.word(8).fetch_add(1, Relaxed);
                        let after: Vec<u64> = (0..16).map(|page| image.get(page * PAGE + 8)).collect();
                        assert_eq!(before, after);
                    }
                });
            }
        });
        // Every increment arrived: none went to a page that a snapshot had.
        for page in 0..16 {
            let sum: u64 = regions.iter().map(|region| region.get(page * PAGE + 8)).sum();
            assert_eq!(sum, if page == 0 { 3200 } else { 1600 }, "{technique:?} {page}");
        }
    }
}
