//! Latency histograms: three significant digits, bounded memory.

use hdrhistogram::Histogram;
use std::time::Duration;

/// Past a minute, latencies count as a minute.
const MAX_NS: u64 = 60_000_000_000;

/// A histogram of durations in nanoseconds.
#[derive(Clone)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Histogram::new_with_bounds(1, MAX_NS, 3).expect("the bounds are valid"))
    }
}

impl Latencies {
    /// Adds one duration.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(latency.as_nanos().min(u128::from(MAX_NS)) as u64);
    }

    /// Adds all of another histogram's.
    pub fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("the bounds are the same");
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The latency that a share `quantile` (0 to 1) of all did not exceed; 0 if there are none.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(quantile) }
    }

    /// [`quantile_ns`](Self::quantile_ns) in microseconds.
    pub fn quantile_us(&self, quantile: f64) -> f64 {
        self.quantile_ns(quantile) as f64 / 1e3
    }

    /// The longest.
    pub fn max_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.max() }
    }
}

/// The value that a share `quantile` of all does not exceed (nearest rank); `None` of nothing.
pub fn quantile(values: &mut [f64], quantile: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * quantile).ceil() as usize;
    values.get(rank.saturating_sub(1).min(values.len().saturating_sub(1))).copied()
}

/// The median; of an even number of values the mean of the middle two.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[values.len() / 2 - 1] + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_take_the_nearest_rank() {
        let mut values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut values, 0.5), Some(50.0));
        assert_eq!(quantile(&mut values, 0.99), Some(99.0));
        assert_eq!(quantile(&mut [7.0], 0.01), Some(7.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn histograms_add_up() {
        let (mut left, mut right) = (Latencies::default(), Latencies::default());
        left.record(Duration::from_micros(1));
        right.record(Duration::from_millis(1));
        left.add(&right);
        assert_eq!((left.count(), left.quantile_ns(0.5)), (2, 1000));
        assert!(left.max_ns().abs_diff(1_000_000) < 1_000);
        assert_eq!(Latencies::default().quantile_ns(0.99), 0);
    }
}
