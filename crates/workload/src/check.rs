//! Goodness-of-fit checks for the tests of this crate.
//!
//! Every check draws from a fixed seed, so it gives the same answer on every run. The critical
//! values belong to a false alarm rate of one in a million; a wrong distribution misses them by
//! far.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The seed of all random tests. A failing check prints it.
pub(crate) const SEED: u64 = 0x5EED_0001;

/// The probability that a correct distribution fails a check.
const ALPHA: f64 = 1e-6;

/// Asserts by Pearson's chi-square test that `observed` has the proportions of `weights`.
///
/// Neighbouring bins are joined until each expects at least ten draws.
pub(crate) fn assert_chi_square(label: &str, observed: &[u64], weights: &[f64]) {
    assert_eq!(observed.len(), weights.len(), "{label}: bins and weights differ in number");
    let draws = observed.iter().sum::<u64>() as f64;
    let total: f64 = weights.iter().sum();
    let mut bins: Vec<(f64, f64)> = Vec::new();
    let mut open = (0.0, 0.0);
    for (count, weight) in observed.iter().zip(weights) {
        assert!(*weight > 0.0 || *count == 0, "{label}: a bin of weight 0 was drawn; SEED={SEED}");
        open = (open.0 + *count as f64, open.1 + weight / total * draws);
        if open.1 >= 10.0 {
            bins.push(open);
            open = (0.0, 0.0);
        }
    }
    match bins.last_mut() {
        Some(last) => *last = (last.0 + open.0, last.1 + open.1),
        None => panic!("{label}: too few draws to tell anything"),
    }
    if bins.len() < 2 {
        return;
    }
    let statistic: f64 = bins.iter().map(|(o, e)| (o - e) * (o - e) / e).sum();
    let p = ChiSquared::new((bins.len() - 1) as f64).unwrap().sf(statistic);
    assert!(
        p > ALPHA,
        "{label}: chi-square {statistic:.1} over {} bins, p = {p:e}; SEED={SEED}",
        bins.len()
    );
}

/// Asserts by the Kolmogorov-Smirnov test that `samples` follow the continuous distribution `cdf`.
pub(crate) fn assert_ks(label: &str, mut samples: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    samples.sort_by(f64::total_cmp);
    let n = samples.len() as f64;
    let distance = samples
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let p = cdf(*x);
            (p - i as f64 / n).max((i + 1) as f64 / n - p)
        })
        .fold(0.0, f64::max);
    let critical = ((2.0 / ALPHA).ln() / (2.0 * n)).sqrt();
    assert!(
        distance < critical,
        "{label}: KS distance {distance:.5}, critical {critical:.5}; SEED={SEED}"
    );
}

#[test]
#[should_panic(expected = "chi-square")]
fn chi_square_rejects_a_loaded_die() {
    assert_chi_square("die", &[1000, 1000, 1000, 1000, 1000, 1300], &[1.0; 6]);
}

#[test]
#[should_panic(expected = "KS distance")]
fn ks_rejects_a_shifted_law() {
    assert_ks("shifted", (0..10_000).map(|i| i as f64 / 10_000.0).collect(), |x| x * x);
}
