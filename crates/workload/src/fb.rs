//! Key and value sizes and gaps of a large social network's memcached pool.
//!
//! The model is that of B. Atikoglu et al., "Workload analysis of a large-scale key-value store"
//! (SIGMETRICS 2012), for the pool that the authors call ETC; mutilate made its constants the usual
//! ones. Three distributions, each as a function of a uniform number `u`:
//!
//! ```text
//! key bytes    generalised extreme value   30.7984 + 8.20449 ((-ln u)^-0.078688 - 1) / 0.078688
//! value bytes  table for 0..=14 (0.44155), else generalised Pareto
//!                                          15 + 214.476 (u^-0.348238 - 1) / 0.348238
//! gaps         generalised Pareto          scale (u^-0.154971 - 1) / 0.154971, scale by the rate
//! ```
//!
//! Key sizes average 36.2 bytes, value sizes about 194.

use crate::alias::Alias;
use crate::rng::{Rng, fnv1a64};

/// Location, scale and shape of the key sizes.
pub(crate) const KEY: (f64, f64, f64) = (30.7984, 8.20449, 0.078688);
/// Location, scale and shape of the value sizes above the table.
pub(crate) const VALUE: (f64, f64, f64) = (15.0, 214.476, 0.348238);
/// Location, scale and shape of the gaps between requests, in microseconds. A rate replaces the
/// scale.
pub(crate) const GAP: (f64, f64, f64) = (0.0, 16.0292, 0.154971);
/// Shape of the gaps between requests.
const GAP_SHAPE: f64 = GAP.2;

/// The longest key: the limit of memcached. One key in about two million would be longer.
pub(crate) const KEY_BYTES_MAX: usize = 250;

/// The longest value: the tail is cut where an item would no longer fit memcached's default of 1
/// MiB.
pub(crate) const VALUE_BYTES_MAX: u32 = 1_000_000;

/// The probabilities of values of 0, 1, ... 14 bytes.
const VALUE_TABLE: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

/// The inverse distribution function of the generalised extreme value distribution.
#[inline]
fn gev((location, scale, shape): (f64, f64, f64), u: f64) -> f64 {
    location + scale * ((-u.ln()).powf(-shape) - 1.0) / shape
}

/// The upper quantile function of the generalised Pareto distribution: the value exceeded with
/// probability `u`.
#[inline]
pub(crate) fn pareto((location, scale, shape): (f64, f64, f64), u: f64) -> f64 {
    location + scale * (u.powf(-shape) - 1.0) / shape
}

/// The probability of a value that is not in the table.
pub(crate) fn tail_share() -> f64 {
    1.0 - VALUE_TABLE.iter().sum::<f64>()
}

/// The value size at the fraction `below` of all values, where the table has it.
pub(crate) fn value_at(below: f64) -> Option<f64> {
    let mut sum = 0.0;
    VALUE_TABLE
        .iter()
        .position(|share| {
            sum += share;
            below < sum
        })
        .map(|size| size as f64)
}

/// The mean value size before the cut.
pub(crate) fn value_mean() -> f64 {
    let table = VALUE_TABLE.iter().enumerate().map(|(size, share)| size as f64 * share);
    table.sum::<f64>() + tail_share() * (VALUE.0 + VALUE.1 / (1.0 - VALUE.2))
}

/// The distribution function of value sizes at enough places to draw lines between.
pub(crate) fn value_points() -> impl Iterator<Item = (f64, f64)> {
    const TAIL_POINTS: u32 = 4096;
    let mut sum = 0.0;
    let table = VALUE_TABLE.iter().enumerate().flat_map(move |(size, share)| {
        let before = sum;
        sum += share;
        // Twice the same value is a step.
        [(size as f64, before), (size as f64, sum)]
    });
    let tail = (0..=TAIL_POINTS).map(|k| {
        // Places crowd towards the end; the last one stands for a chance of 2^-26.
        let above = match k {
            TAIL_POINTS => 0.0,
            k => (f64::from(k) / f64::from(TAIL_POINTS) * -18.0).exp(),
        };
        (pareto(VALUE, above.max((-18.0_f64).exp())), 1.0 - tail_share() * above)
    });
    table.chain(tail)
}

/// The size of the key with `index`: a function of the index, so that a key always has one size.
///
/// `u` is the FNV-1a hash of the index over 2^64 - 1, as mutilate takes it, and the size is rounded
/// to the nearest byte; data sets of the two agree.
#[inline]
pub(crate) fn key_bytes(index: u64) -> usize {
    let u = fnv1a64(index) as f64 / u64::MAX as f64;
    gev(KEY, u).round().clamp(0.0, KEY_BYTES_MAX as f64) as usize
}

/// A gap with mean 1.
#[inline]
pub(crate) fn gap(rng: &mut Rng) -> f64 {
    pareto((0.0, 1.0 - GAP_SHAPE, GAP_SHAPE), rng.unit_positive())
}

/// Draws value sizes: one draw for the table, and a second one for the tail.
#[derive(Clone, Debug)]
pub(crate) struct ValueBytes {
    table: Alias,
}

impl ValueBytes {
    pub(crate) fn new() -> Result<ValueBytes, crate::Error> {
        let mut weights = VALUE_TABLE.to_vec();
        weights.push(1.0 - VALUE_TABLE.iter().sum::<f64>());
        Ok(ValueBytes { table: Alias::new(&weights)? })
    }

    #[inline]
    pub(crate) fn sample(&self, rng: &mut Rng) -> u32 {
        match self.table.sample(rng) {
            small if small < VALUE_TABLE.len() => small as u32,
            _ => (pareto(VALUE, rng.unit_positive()) as u32).min(VALUE_BYTES_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{SEED, assert_chi_square, assert_ks};

    #[test]
    fn key_sizes_have_the_published_mean_and_quantiles() {
        let mut sizes: Vec<usize> = (0..1_000_000).map(key_bytes).collect();
        let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
        assert!((mean - 36.2).abs() < 0.1, "mean {mean}");
        sizes.sort_unstable();
        for (quantile, expected) in [(0.01, 19.0), (0.5, 33.8), (0.99, 76.3), (0.999, 106.0)] {
            let size = sizes[(quantile * sizes.len() as f64) as usize] as f64;
            assert!((size - expected).abs() <= 1.5, "p{quantile}: {size}, expected {expected}");
        }
        assert!(sizes.iter().all(|size| *size <= KEY_BYTES_MAX));
    }

    #[test]
    fn value_sizes_follow_table_and_tail() {
        let source = ValueBytes::new().unwrap();
        let mut rng = Rng::from_seed(SEED);
        let sizes: Vec<u32> = (0..400_000).map(|_| source.sample(&mut rng)).collect();
        // Exact cell probabilities: the table, then the tail cut at a few sizes.
        let cuts = [15u32, 20, 50, 100, 200, 500, 1000, 5000, u32::MAX];
        let tail = 1.0 - VALUE_TABLE.iter().sum::<f64>();
        let exceeds = |x: u32| match x {
            u32::MAX => 0.0,
            x => (1.0 + VALUE.2 * (f64::from(x) - VALUE.0) / VALUE.1).powf(-1.0 / VALUE.2),
        };
        let mut weights = VALUE_TABLE.to_vec();
        weights.extend(cuts.windows(2).map(|pair| tail * (exceeds(pair[0]) - exceeds(pair[1]))));
        let mut observed = vec![0u64; weights.len()];
        for size in &sizes {
            let cell = match *size {
                small if small < 15 => small as usize,
                size => 14 + cuts.iter().filter(|cut| **cut <= size).count(),
            };
            observed[cell] += 1;
        }
        assert_chi_square("fb_value", &observed, &weights);
        let mean = sizes.iter().map(|s| f64::from(*s)).sum::<f64>() / sizes.len() as f64;
        assert!((mean - 194.0).abs() < 6.0, "mean {mean}; SEED={SEED}");
    }

    #[test]
    fn tail_and_gaps_follow_the_pareto_law() {
        let mut rng = Rng::from_seed(SEED);
        let draws = (0..100_000).map(|_| pareto(VALUE, rng.unit_positive())).collect();
        assert_ks("pareto", draws, |x| {
            1.0 - (1.0 + VALUE.2 * (x - VALUE.0) / VALUE.1).powf(-1.0 / VALUE.2)
        });
        let gaps: Vec<f64> = (0..200_000).map(|_| gap(&mut rng)).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((mean - 1.0).abs() < 0.02, "mean gap {mean}; SEED={SEED}");
        let scale = 1.0 - GAP_SHAPE;
        assert_ks("gaps", gaps, |x| 1.0 - (1.0 + GAP_SHAPE * x / scale).powf(-1.0 / GAP_SHAPE));
    }
}
