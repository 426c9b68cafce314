//! From a handful of numbers to a statement with an uncertainty.
//!
//! Summaries (median, quantiles, mean, standard deviation) are here; intervals for rates and their
//! ratios in `interval`, for percentiles in `order`, the Mann-Whitney test in `rank_test`, the test
//! of gaps in `exponential_test`, the distributions they need in `distribution`. No function draws
//! random numbers by itself: bootstrap intervals take a source of uniform 64-bit words, so that a
//! stored seed gives the same interval again.
//!
//! Statistics that do not exist for the samples given are `None`, never 0 or NaN.

mod distribution;
mod exponential_test;
mod interval;
mod order;
mod rank_test;

pub use distribution::student_t_quantile;
pub use exponential_test::{Exponential, anderson_darling};
pub use interval::{Interval, bootstrap_median, rate_interval, ratio_interval};
pub use order::percentile_ranks;
pub use rank_test::mann_whitney;

/// The middle sample, or the mean of the two middle ones; `None` when empty. O(n log n).
pub fn median(samples: &[f64]) -> Option<f64> {
    median_of_sorted(&sorted(samples))
}

/// The sample quantile at `q` in 0..=1, interpolated linearly between neighbours (the definition
/// most tools use, "type 7"); `None` when empty or `q` is outside. O(n log n).
pub fn quantile(samples: &[f64], q: f64) -> Option<f64> {
    quantile_of_sorted(&sorted(samples), q)
}

/// The arithmetic mean; `None` when empty. O(n).
pub fn mean(samples: &[f64]) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.iter().sum::<f64>() / samples.len() as f64)
}

/// The sample standard deviation, with divisor n - 1; `None` for fewer than two samples. O(n).
pub fn stddev(samples: &[f64]) -> Option<f64> {
    if samples.len() < 2 {
        return None;
    }
    let mean = mean(samples)?;
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    Some((squares / (samples.len() - 1) as f64).sqrt())
}

/// The samples in ascending order; NaN sorts last.
fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(if sorted.len() % 2 == 1 { upper } else { lower.midpoint(upper) })
}

fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    if sorted.is_empty() || !(0.0..=1.0).contains(&q) {
        return None;
    }
    let place = q * (sorted.len() - 1) as f64;
    let lower = place.floor() as usize;
    let upper = place.ceil() as usize;
    let fraction = place - lower as f64;
    // At a sample itself nothing is interpolated, so that infinite neighbours do no harm.
    Some(if fraction == 0.0 {
        sorted[lower]
    } else {
        sorted[lower] + (sorted[upper] - sorted[lower]) * fraction
    })
}

/// Seeded randomness for the tests of this crate.
#[cfg(test)]
pub(crate) mod seeded {
    use keyrack_testkit::random::{Draw, seed_or};

    /// The seed of a random test. Tests name it in their messages.
    pub(crate) fn seed() -> u64 {
        seed_or(20_260_729)
    }

    /// Draws from distributions.
    pub(crate) trait Distributions {
        /// Uniform in the open interval from 0 to 1.
        fn unit(&mut self) -> f64;

        /// Standard normal, by the Box-Muller transform.
        fn normal(&mut self) -> f64 {
            let radius = (-2.0 * self.unit().ln()).sqrt();
            radius * (std::f64::consts::TAU * self.unit()).cos()
        }
    }

    impl Distributions for Draw {
        fn unit(&mut self) -> f64 {
            ((self.next() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 4.0]), Some(4.5));
        assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
    }

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        let samples = [40.0, 10.0, 30.0, 20.0];
        assert_eq!(quantile(&samples, 0.0), Some(10.0));
        assert_eq!(quantile(&samples, 0.25), Some(17.5));
        assert_eq!(quantile(&samples, 0.5), Some(25.0));
        assert_eq!(quantile(&samples, 1.0), Some(40.0));
        assert_eq!(quantile(&[5.0], 0.3), Some(5.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&samples, 1.01), None);
        assert_eq!(quantile(&samples, f64::NAN), None);
    }

    #[test]
    fn mean_and_spread() {
        let samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(mean(&samples), Some(5.0));
        assert!((stddev(&samples).unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!((mean(&[]), stddev(&[1.0])), (None, None));
        assert_eq!(stddev(&[6.0, 6.0]), Some(0.0));
    }
}
