//! Latencies at a cost of some nanoseconds and a few kilobytes: one count for each 64th of a power of two.
//!
//! ```text
//! nanoseconds   0..64     64..128   128..256   256..512   ...
//! counts        64 of 1   64 of 1   64 of 2    64 of 4    ...
//! ```
//!
//! Quantiles are off by less than 1/64 of their value. Latencies in [`Latencies`](crate::latency::Latencies) are
//! ten times finer, and take a hundred times the cache: too much beside transactions of a few microseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bits of a value that choose the count within its power of two.
const FINE_BITS: u32 = 6;
const FINE: u64 = 1 << FINE_BITS;
/// Up to 2^40 ns, 18 minutes; longer ones count as the longest.
const POWERS: usize = 40 - FINE_BITS as usize + 1;

/// How many there are.
const COUNTS: usize = POWERS << FINE_BITS;

/// A histogram of durations.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; COUNTS]>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Box::new([0; COUNTS]) }
    }
}

/// A histogram that one thread fills while others look.
pub struct LiveHistogram {
    counts: Box<[AtomicU64; COUNTS]>,
}

impl Default for LiveHistogram {
    fn default() -> LiveHistogram {
        LiveHistogram { counts: Box::new([const { AtomicU64::new(0) }; COUNTS]) }
    }
}

impl LiveHistogram {
    /// Adds one duration. For one thread only: of two that add at once, one may be lost.
    #[inline]
    pub fn record(&self, latency: Duration) {
        let count = &self.counts[place(latency.as_nanos().min(u128::from(u64::MAX)) as u64)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// What was recorded so far.
    pub fn so_far(&self) -> Histogram {
        let mut histogram = Histogram::default();
        let both = histogram.counts.iter_mut().zip(self.counts.iter());
        both.for_each(|(count, live)| *count = live.load(Ordering::Relaxed));
        histogram
    }
}

fn place(ns: u64) -> usize {
    let coarse = ns.max(FINE).ilog2() - FINE_BITS;
    let place = ((coarse as usize) << FINE_BITS) + (ns >> coarse) as usize;
    place.min(COUNTS - 1)
}

/// The largest value that is counted at a place.
fn upper(place: usize) -> u64 {
    let coarse = (place >> FINE_BITS).saturating_sub(1) as u32;
    (((place as u64) - ((coarse as u64) << FINE_BITS) + 1) << coarse) - 1
}

impl Histogram {
    /// Adds one duration.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.counts[place(latency.as_nanos().min(u128::from(u64::MAX)) as u64)] += 1;
    }

    /// Adds all of another histogram's.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(count, other)| *count += other);
    }

    /// What was recorded since an earlier look at the same.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut newer = self.clone();
        newer.counts.iter_mut().zip(earlier.counts.iter()).for_each(|(count, earlier)| *count -= earlier);
        newer
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The latency in microseconds that a share `quantile` (0 to 1) of all did not exceed; 0 if there are none.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        let rank = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|&count| {
            seen += count;
            seen >= rank
        });
        found.map_or(0.0, |place| upper(place) as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_place_and_places_are_fine() {
        let mut previous = 0;
        for ns in
            (0..100_000).chain((17..40).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]))
        {
            let place = place(ns);
            assert!(upper(place) >= ns && upper(place) - ns <= ns / FINE, "{ns}: {}", upper(place));
            assert!(place == 0 || upper(place - 1) < ns, "{ns}: {}", upper(place - 1));
            assert!(place == previous || place == previous + 1 || ns > 100_000);
            previous = place;
        }
        assert_eq!(place(u64::MAX), COUNTS - 1);
    }

    #[test]
    fn what_one_thread_records_another_one_sees_and_tells_from_what_was_before() {
        let live = LiveHistogram::default();
        (0..10).for_each(|_| live.record(Duration::from_nanos(50)));
        let earlier = live.so_far();
        std::thread::scope(|scope| scope.spawn(|| live.record(Duration::from_secs(1))).join())
            .expect("it ends");
        let newer = live.so_far().since(&earlier);
        assert_eq!((earlier.count(), newer.count(), live.so_far().count()), (10, 1, 11));
        assert!(newer.quantile_us(0.01) >= 1e6);
    }

    #[test]
    fn quantiles_of_added_histograms() {
        let (mut fast, mut slow) = (Histogram::default(), Histogram::default());
        (0..98).for_each(|_| fast.record(Duration::from_nanos(50)));
        (0..2).for_each(|_| slow.record(Duration::from_millis(1)));
        fast.add(&slow);
        assert_eq!((fast.count(), fast.quantile_us(0.5), fast.quantile_us(0.98)), (100, 0.05, 0.05));
        assert!((fast.quantile_us(0.99) - 1000.0).abs() < 16.0);
        assert_eq!(Histogram::default().quantile_us(0.5), 0.0);
    }
}
