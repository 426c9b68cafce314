//! A choice among weighted outcomes in constant time.
//!
//! The alias method (A. J. Walker 1977, set up in linear time as by M. D. Vose 1991). Think of `n`
//! columns of equal height, each filled by at most two outcomes: its own up to a threshold, and its
//! alias above. One 64-bit draw times `n` gives the column in the high word and a uniform height in
//! the low word, so a choice costs one draw, one multiplication and one comparison.
//!
//! ```text
//! weights 3 1 2      | a a b c |      column 0: a         always
//! columns of 2       | a b b c | ->   column 1: b below 1/2, a above
//!                                     column 2: c         always
//! ```
//!
//! Thresholds are rounded to 2^-64; no test of feasible length can see it.

use crate::error::Error;
use crate::rng::Rng;

/// The most outcomes that an alias table holds.
const OUTCOMES_MAX: usize = 1 << 24;

/// A weighted choice among `0..len`.
#[derive(Clone, Debug)]
pub struct Alias {
    columns: Box<[Column]>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    /// Heights below it mean the column's own outcome.
    threshold: u64,
    alias: u32,
}

impl Alias {
    /// A table over `weights`, which need not sum to 1. Takes linear time.
    ///
    /// # Errors
    ///
    /// The weights must be finite and not negative, at least one of them positive, and at most 2^24
    /// in number.
    pub fn new(weights: &[f64]) -> Result<Alias, Error> {
        let is_fine = (1..=OUTCOMES_MAX).contains(&weights.len());
        Error::check("number of weights", weights.len(), is_fine, "1 to 2^24")?;
        if let Some(bad) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
            return Err(Error::parameter("weight", bad, "a finite number of at least 0"));
        }
        // Dividing by the largest first keeps the sum finite.
        let largest = weights.iter().copied().fold(0.0, f64::max);
        Error::check("sum of weights", 0, largest > 0.0, "more than 0")?;
        let total: f64 = weights.iter().map(|w| w / largest).sum();
        let count = weights.len();
        // The height that each outcome still has to place, in columns.
        let mut left: Vec<f64> =
            weights.iter().map(|w| w / largest / total * count as f64).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|i| left[*i] < 1.0);
        let mut columns: Vec<Column> =
            (0..count).map(|i| Column { threshold: u64::MAX, alias: i as u32 }).collect();
        while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
            columns[low] = Column {
                threshold: (left[low] * 18_446_744_073_709_551_616.0) as u64,
                alias: high as u32,
            };
            left[high] -= 1.0 - left[low];
            if left[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        // What remains in either list is a full column up to rounding, except that an outcome of
        // weight 0 must never be drawn.
        let heaviest = weights.iter().position(|w| *w == largest).unwrap_or(0);
        for (column, weight) in columns.iter_mut().zip(weights) {
            if *weight == 0.0 && column.threshold != 0 {
                *column = Column { threshold: 0, alias: heaviest as u32 };
            }
        }
        Ok(Alias { columns: columns.into() })
    }

    /// Draws an outcome.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> usize {
        let product = u128::from(rng.next_u64()) * self.columns.len() as u128;
        let index = (product >> 64) as usize;
        let column = self.columns[index];
        // Selected by a mask: a branch here would be mispredicted every other time.
        let own = 0usize.wrapping_sub(usize::from((product as u64) < column.threshold));
        let alias = column.alias as usize;
        alias ^ ((index ^ alias) & own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{SEED, assert_chi_square};

    /// The exact probability of each outcome that the table encodes.
    fn shares(alias: &Alias) -> Vec<f64> {
        let mut shares = vec![0.0; alias.columns.len()];
        for (i, column) in alias.columns.iter().enumerate() {
            let own = column.threshold as f64 / 18_446_744_073_709_551_616.0;
            shares[i] += own / alias.columns.len() as f64;
            shares[column.alias as usize] += (1.0 - own) / alias.columns.len() as f64;
        }
        shares
    }

    #[test]
    fn the_table_encodes_the_weights() {
        let mut rng = Rng::from_seed(SEED);
        let skewed: Vec<f64> = (1..=1000).map(|k| 1.0 / f64::from(k)).collect();
        let random: Vec<f64> = (0..257).map(|_| rng.unit()).collect();
        let cases: [&[f64]; 7] = [
            &[1.0],
            &[3.0, 1.0, 2.0],
            &[50.0, 30.0, 10.0, 10.0],
            &[0.0, 1.0, 0.0, 1e-9],
            &[1e308, 1e308, 1e300],
            &skewed,
            &random,
        ];
        for weights in cases {
            let largest = weights.iter().copied().fold(0.0, f64::max);
            let total: f64 = weights.iter().map(|w| w / largest).sum();
            let encoded = shares(&Alias::new(weights).unwrap());
            for (share, weight) in encoded.iter().zip(weights) {
                let expected = weight / largest / total;
                assert!((share - expected).abs() < 1e-12, "{share} for {expected}");
            }
        }
    }

    #[test]
    fn draws_follow_the_weights_and_skip_zeros() {
        let weights = [50.0, 0.0, 30.0, 10.0, 10.0, 0.001];
        let alias = Alias::new(&weights).unwrap();
        let mut rng = Rng::from_seed(SEED);
        let mut observed = vec![0u64; weights.len()];
        for _ in 0..1_000_000 {
            observed[alias.sample(&mut rng)] += 1;
        }
        assert_eq!(observed[1], 0);
        assert_chi_square("alias", &observed, &weights);
    }

    #[test]
    fn bad_weights_are_refused() {
        let cases: [&[f64]; 5] = [&[], &[0.0, 0.0], &[1.0, -1.0], &[f64::NAN], &[f64::INFINITY]];
        for weights in cases {
            assert!(Alias::new(weights).is_err(), "{weights:?}");
        }
    }
}
