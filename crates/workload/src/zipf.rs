//! Ranks by Zipf's law: rank k of n is drawn with a probability in proportion to 1 / k^theta.
//!
//! By rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", 1996): exact for every theta from 0 (all alike) on, with no tables and no sum over all ranks to begin
//! with. The generator of Gray et al. (1994) that most benchmarks use is an approximation, exact for the first two ranks
//! only, and has no meaning from theta = 1 on.
//!
//! ```text
//!   h(x) = x^-theta      The area under h between k - 1/2 and k + 1/2 is a bit more than h(k), as h is convex.
//!   H(x) = its integral  A point in the area chooses x by the inverse of H, and k next to x; it is rejected if it lies
//!                        in the part beyond h(k). That is rarely the case.
//! ```

use fastrand::Rng;

/// A Zipf distribution over the ranks `1..=n`.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    theta: f64,
    ranks: f64,
    /// H(3/2) - h(1): the left end of the area.
    low: f64,
    /// H(n + 1/2): the right end.
    high: f64,
    /// Closer to its rank than this, x is never rejected.
    sure: f64,
}

impl Zipf {
    /// Ranks `1..=n`, n at least 1; theta at least 0.
    pub fn new(ranks: u64, theta: f64) -> Zipf {
        assert!(ranks >= 1 && theta >= 0.0 && theta.is_finite(), "{ranks} ranks, theta {theta}");
        let mut zipf = Zipf { theta, ranks: ranks as f64, low: 0.0, high: 0.0, sure: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.ranks + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws a rank.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        if self.theta == 0.0 {
            return rng.u64(1..=self.ranks as u64);
        }
        loop {
            let area = self.high + rng.f64() * (self.low - self.high);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// (x^(1 - theta) - 1) / (1 - theta), and its limit ln x where theta is 1.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        ratio_of_exp_m1((1.0 - self.theta) * log) * log
    }

    /// The x whose integral is `area`.
    fn inverse(&self, area: f64) -> f64 {
        // Below -1 only by rounding.
        let scaled = (area * (1.0 - self.theta)).max(-1.0);
        (ratio_of_ln_1p(scaled) * area).exp()
    }
}

/// (e^x - 1) / x, also where x is almost 0.
fn ratio_of_exp_m1(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 }
}

/// ln(1 + x) / x, also where x is almost 0.
fn ratio_of_ln_1p(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x / 2.0 }
}

/// Spreads ranks over the keys `0..n`, each to one of its own, so that hot keys are not neighbours in memory.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    keys: u64,
    factor: u64,
}

impl Scatter {
    /// Of the keys `0..n`, n at least 1.
    pub fn new(keys: u64) -> Scatter {
        // The golden ratio leaves neighbours far apart; any factor without a common divisor maps one to one.
        let golden = (keys as f64 * 0.618_033_988_749_895) as u64;
        let factor = (golden.max(1)..).find(|&factor| divisor(factor, keys) == 1).unwrap_or(1);
        Scatter { keys, factor }
    }

    /// The key of a rank from 1 on.
    #[inline]
    pub fn key(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.factor) % u128::from(self.keys)) as u64
    }
}

/// The greatest common divisor.
fn divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { divisor(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 400_000;

    /// Expected draws of each rank, by definition.
    fn expected(ranks: usize, theta: f64) -> Vec<f64> {
        let weights: Vec<f64> = (1..=ranks).map(|rank| (rank as f64).powf(-theta)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum * DRAWS as f64).collect()
    }

    /// How far the draws are from what is expected, in standard deviations of chi-square. Ranks of few draws are
    /// taken together.
    fn deviation(ranks: usize, theta: f64, reference: f64) -> f64 {
        let (zipf, mut rng) = (Zipf::new(ranks as u64, theta), Rng::with_seed(7));
        let mut counts = vec![0.0; ranks];
        (0..DRAWS).for_each(|_| counts[zipf.draw(&mut rng) as usize - 1] += 1.0);
        let (mut chi_square, mut cells) = (0.0, 0.0);
        let (mut seen, mut wanted) = (0.0, 0.0);
        for (count, expected) in counts.iter().zip(expected(ranks, reference)) {
            seen += count;
            wanted += expected;
            if wanted >= 25.0 {
                chi_square += (seen - wanted) * (seen - wanted) / wanted;
                cells += 1.0;
                (seen, wanted) = (0.0, 0.0);
            }
        }
        let freedom: f64 = cells - 1.0;
        if freedom < 1.0 { 0.0 } else { (chi_square - freedom) / (2.0 * freedom).sqrt() }
    }

    #[test]
    fn draws_follow_the_law_at_every_theta() {
        for ranks in [1, 2, 10, 1000, 50_000] {
            for theta in [0.0, 0.2, 0.5, 0.9, 0.99, 1.0, 1.000_001, 1.2, 1.5, 2.0] {
                let deviation = deviation(ranks, theta, theta);
                assert!(deviation.abs() < 5.0, "{ranks} ranks, theta {theta}: {deviation} deviations");
            }
        }
    }

    #[test]
    fn the_test_tells_neighbouring_laws_apart() {
        assert!(deviation(1000, 0.9, 0.92) > 5.0);
        assert!(deviation(1000, 1.0, 0.98) > 5.0);
    }

    #[test]
    fn scattered_ranks_are_the_keys_once_each() {
        for keys in [1, 2, 3, 10, 618, 1000, 99_991] {
            let scatter = Scatter::new(keys);
            let mut seen = vec![false; keys as usize];
            for rank in 1..=keys {
                assert!(
                    !std::mem::replace(&mut seen[scatter.key(rank) as usize], true),
                    "{keys}: rank {rank}"
                );
            }
        }
        let scatter = Scatter::new(1_000_000);
        assert!(scatter.key(1).abs_diff(scatter.key(2)) > 100_000);
    }
}
