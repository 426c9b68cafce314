//! Are these gaps those of a Poisson process? The test of Anderson and Darling, which weighs both
//! ends: many gaps of nothing (bursts) and a tail that is cut (a schedule that was missed).
//!
//! The mean is estimated, so the statistic `A2 = -n - 1/n sum (2 i - 1) (ln F(x_i) + ln(1 -
//! F(x_(n+1-i))))` is multiplied by `1 + 0.6 / n`, and has the distribution that Stephens tabulated
//! for that case: 5 % of true Poisson processes lie above 1.321, 1 % above 1.959. The probability
//! is his approximation in four pieces (D'Agostino and Stephens, "Goodness-of-fit techniques",
//! 1986).

/// What the test says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    /// The statistic, corrected for the number of gaps.
    pub statistic: f64,
    /// How probable a statistic of at least this size is when gaps are exponential.
    pub p_value: f64,
}

/// Tests whether `gaps` are a sample of an exponential law, whatever its mean. `None` for fewer
/// than five gaps, for gaps that are negative or not finite, and when all are 0. O(n log n).
///
/// A large sample finds the smallest deviation, such as rounding to nanoseconds: a thousand gaps
/// are enough to see what matters.
#[must_use]
pub fn anderson_darling(gaps: &[f64]) -> Option<Exponential> {
    const GAPS_MIN: usize = 5;
    if gaps.len() < GAPS_MIN || gaps.iter().any(|gap| !(gap.is_finite() && *gap >= 0.0)) {
        return None;
    }
    let sorted = super::sorted(gaps);
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    if mean <= 0.0 {
        return None;
    }
    // A gap of 0 has probability 0, and would make the sum infinite: it counts as a tiny one.
    let below = |x: f64| (-(-x / mean).exp_m1()).max(1e-12).ln();
    let above = |x: f64| -x / mean;
    let pairs = sorted.iter().zip(sorted.iter().rev()).enumerate();
    let sum: f64 = pairs.map(|(i, (x, y))| (2 * i + 1) as f64 * (below(*x) + above(*y))).sum();
    let statistic = (-n - sum / n) * (1.0 + 0.6 / n);
    Some(Exponential { statistic, p_value: p_value(statistic) })
}

fn p_value(a: f64) -> f64 {
    let p = match a {
        // The last parabola turns here; by then nothing is left.
        a if a > 10.0 => 0.0,
        a if a > 0.95 => (0.731 - 3.009 * a + 0.15 * a * a).exp(),
        a if a > 0.51 => (0.9209 - 3.353 * a + 0.300 * a * a).exp(),
        a if a > 0.26 => 1.0 - (-6.1327 + 20.218 * a - 18.663 * a * a).exp(),
        a => 1.0 - (-12.2204 + 67.459 * a - 110.3 * a * a).exp(),
    };
    p.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::seeded::{Distributions, seed};
    use keyrack_testkit::random::Draw;

    #[test]
    fn the_table_is_met() {
        let table = [(0.736, 0.25), (1.062, 0.10), (1.321, 0.05), (1.591, 0.025), (1.959, 0.01)];
        for (statistic, expected) in table {
            let p = p_value(statistic);
            assert!((p / expected - 1.0).abs() < 0.04, "{statistic}: {p}, not {expected}");
        }
        assert!(p_value(0.1) > 0.99 && p_value(20.0) == 0.0);
    }

    #[test]
    fn true_gaps_are_refused_as_rarely_as_promised() {
        let mut random = Draw::new(seed());
        let mut refused = 0;
        for _ in 0..1000 {
            let gaps: Vec<f64> = (0..200).map(|_| -random.unit().ln() * 37.0).collect();
            refused += u32::from(anderson_darling(&gaps).unwrap().p_value < 0.05);
        }
        assert!((25..80).contains(&refused), "{refused} of 1000; KEYRACK_SEED={}", seed());
    }

    #[test]
    fn other_gaps_are_found_out() {
        let mut random = Draw::new(seed());
        let mut of = |gap: &mut dyn FnMut(&mut Draw) -> f64| {
            let gaps: Vec<f64> = (0..1000).map(|_| gap(&mut random)).collect();
            anderson_darling(&gaps).unwrap().p_value
        };
        assert!(of(&mut |_| 5.0) < 1e-6, "equal gaps");
        assert!(of(&mut |random| random.unit()) < 1e-6, "uniform gaps");
        assert!(of(&mut |random| -random.unit().ln() * random.unit().powi(2)) < 1e-6, "bursts");
        let mut turn = 0;
        let mut batches = |random: &mut Draw| {
            turn += 1;
            if turn % 10 == 0 { -random.unit().ln() } else { 0.0 }
        };
        assert!(of(&mut batches) < 1e-6, "requests in batches of ten");
        assert!(of(&mut |random| (-random.unit().ln()).min(1.5)) < 1e-3, "a tail that is cut");
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(anderson_darling(&[1.0; 4]), None);
        assert_eq!(anderson_darling(&[0.0; 9]), None);
        assert_eq!(anderson_darling(&[1.0, 2.0, 3.0, 4.0, -1.0]), None);
        assert_eq!(anderson_darling(&[1.0, 2.0, 3.0, 4.0, f64::INFINITY]), None);
    }
}
