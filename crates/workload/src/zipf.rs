//! Zipf's distribution in two forms: exact, and as YCSB draws it.
//!
//! **Exact.** Rank `k` in `1..=n` has probability proportional to `k^-theta`. [`Zipf`] samples by
//! rejection-inversion (W. Hoermann and G. Derflinger, "Rejection-inversion to generate variates
//! from monotone discrete distributions", 1996). Let `h(x) = x^-theta` and `H` its integral. A
//! uniform point `u` under the integral maps to `x = H^-1(u)`, and `x` is rounded to the nearest
//! rank `k`. The area that belongs to `k` is a little larger than `h(k)`; points in the excess are
//! drawn again. One comparison with a constant accepts nearly all of them without computing `H`
//! again. No table and no sum over `n`, so set-up is constant and `n` may grow while sampling.
//!
//! `H(x) = (x^t - 1) / t` with `t = 1 - theta`. Close to `t = 0` that form cancels, and `expm1` and
//! `log1p` take over; at `t = 0` it is the logarithm.
//!
//! **YCSB.** [`ZipfYcsb`] follows J. Gray et al., "Quickly generating billion-record synthetic
//! databases" (1994), over a universe that YCSB fixes at 10^10 items, whatever the number of keys.
//! YCSB then hashes the rank and takes it modulo the number of keys, so the hottest key gets the
//! share it would have among 10^10 keys: 1 / 26.469 = 3.78 % for theta 0.99, where a million keys
//! by the exact distribution give 6.50 %. The formula is an approximation from rank 2 upward.

use crate::error::Error;
use crate::rng::Rng;

/// The largest number of ranks: beyond it neighbouring ranks are one `f64`.
pub(crate) const RANKS_MAX: u64 = 1 << 53;

/// The largest exponent; far below it nearly all draws are rank 0 already.
const THETA_MAX: f64 = 64.0;

/// Below this distance from 1 the exponent is treated with the forms that do not cancel.
const NEAR_ONE: f64 = 1e-3;

/// The exact Zipf distribution over ranks `0..n`, rank 0 being the most frequent.
///
/// An exponent of 0 is the uniform distribution.
#[derive(Clone, Debug)]
pub struct Zipf {
    count: u64,
    theta: f64,
    /// `1 - theta`.
    t: f64,
    /// `1 / (1 - theta)`, infinite when theta is 1.
    t_inverse: f64,
    /// `H(3/2) - h(1)`: the end of the sampled area at rank 1.
    area_start: f64,
    /// `H(n + 1/2)`: its other end.
    area_end: f64,
    /// A rank this close above its `x` is accepted without a further look.
    accept_within: f64,
}

impl Zipf {
    /// The distribution with exponent `theta` over `count` ranks.
    ///
    /// # Errors
    ///
    /// `count` must be in `1..=2^53` and `theta` in `0..=64`.
    pub fn new(count: u64, theta: f64) -> Result<Zipf, Error> {
        Error::check("count", count, (1..=RANKS_MAX).contains(&count), "1 to 2^53")?;
        Error::check("theta", theta, (0.0..=THETA_MAX).contains(&theta), "0 to 64")?;
        let t = 1.0 - theta;
        let mut zipf = Zipf {
            count,
            theta,
            t,
            t_inverse: 1.0 / t,
            area_start: 0.0,
            area_end: 0.0,
            accept_within: 0.0,
        };
        zipf.area_start = zipf.integral(1.5) - 1.0;
        zipf.accept_within = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf.grow(count);
        Ok(zipf)
    }

    /// Sets the number of ranks, clamped to `1..=2^53`.
    #[inline]
    pub fn grow(&mut self, count: u64) {
        self.count = count.clamp(1, RANKS_MAX);
        self.area_end = self.integral(self.count as f64 + 0.5);
    }

    /// The number of ranks.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Draws a rank in `0..count`. Expected constant time.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.area_end + rng.unit() * (self.area_start - self.area_end);
            let x = self.integral_inverse(u);
            // A cast truncates and saturates; `floor` would be a call on processors without SSE
            // 4.1.
            let nearest = ((x + 0.5) as u64).clamp(1, self.count);
            let rank = nearest as f64;
            if rank - x <= self.accept_within || u >= self.integral(rank + 0.5) - self.density(rank)
            {
                return nearest - 1;
            }
        }
    }

    /// The probability of `rank`. Takes constant time.
    #[must_use]
    pub fn share(&self, rank: u64) -> f64 {
        if rank >= self.count {
            return 0.0;
        }
        self.density(rank as f64 + 1.0) / harmonic(self.count, self.theta)
    }

    #[inline]
    fn density(&self, x: f64) -> f64 {
        x.powf(-self.theta)
    }

    #[inline]
    fn integral(&self, x: f64) -> f64 {
        if self.t.abs() > NEAR_ONE {
            (x.powf(self.t) - 1.0) * self.t_inverse
        } else if self.t == 0.0 {
            x.ln()
        } else {
            (self.t * x.ln()).exp_m1() * self.t_inverse
        }
    }

    #[inline]
    fn integral_inverse(&self, u: f64) -> f64 {
        if self.t.abs() > NEAR_ONE {
            (1.0 + self.t * u).powf(self.t_inverse)
        } else if self.t == 0.0 {
            u.exp()
        } else {
            ((self.t * u).ln_1p() * self.t_inverse).exp()
        }
    }
}

/// The generalised harmonic number: the sum of `k^-theta` over `k` in `1..=n`.
///
/// The first thousand terms are summed and the rest follows by the Euler-Maclaurin formula, to
/// about 12 digits. Takes constant time.
#[must_use]
pub fn harmonic(n: u64, theta: f64) -> f64 {
    const SUMMED_MAX: u64 = 1000;
    let summed = n.min(SUMMED_MAX);
    let head: f64 = (1..=summed).rev().map(|k| (k as f64).powf(-theta)).sum();
    if n == summed {
        return head;
    }
    let (from, to) = (summed as f64, n as f64);
    let t = 1.0 - theta;
    let logarithm = (to / from).ln();
    let integral = if t == 0.0 { logarithm } else { from.powf(t) * (t * logarithm).exp_m1() / t };
    let ends = (to.powf(-theta) - from.powf(-theta)) / 2.0;
    let slopes = theta * (from.powf(-theta - 1.0) - to.powf(-theta - 1.0)) / 12.0;
    head + integral + ends + slopes
}

/// The number of items in the universe of YCSB's scrambled Zipf generator.
const YCSB_UNIVERSE: u64 = 10_000_000_000;

/// Gray's approximation of Zipf's distribution over YCSB's universe of 10^10 items.
#[derive(Clone, Debug)]
pub struct ZipfYcsb {
    zeta: f64,
    /// Below this multiple of the first probability, rank 1 is chosen.
    second: f64,
    alpha: f64,
    eta: f64,
}

impl ZipfYcsb {
    /// The distribution with exponent `theta`; YCSB's default is 0.99.
    ///
    /// # Errors
    ///
    /// The formula holds for `theta` strictly between 0 and 1.
    pub fn new(theta: f64) -> Result<ZipfYcsb, Error> {
        let is_fine = theta > 0.0 && theta < 1.0;
        Error::check("theta", theta, is_fine, "more than 0 and less than 1")?;
        let zeta = harmonic(YCSB_UNIVERSE, theta);
        let second = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / YCSB_UNIVERSE as f64).powf(1.0 - theta)) / (1.0 - second / zeta);
        Ok(ZipfYcsb { zeta, second, alpha: 1.0 / (1.0 - theta), eta })
    }

    /// Draws a rank in `0..10^10`, before any hashing.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            0
        } else if scaled < self.second {
            1
        } else {
            let x = (self.eta * u - self.eta + 1.0).powf(self.alpha);
            (x * YCSB_UNIVERSE as f64) as u64
        }
    }

    /// The probability of rank 0.
    #[must_use]
    pub fn head_share(&self) -> f64 {
        1.0 / self.zeta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{SEED, assert_chi_square};

    #[test]
    fn harmonic_equals_the_plain_sum() {
        for theta in [0.0, 0.3, 0.99, 0.9999, 1.0, 1.0001, 1.5, 3.0] {
            for n in [1u64, 2, 999, 1000, 1001, 5000, 200_000] {
                let plain: f64 = (1..=n).rev().map(|k| (k as f64).powf(-theta)).sum();
                let ratio = harmonic(n, theta) / plain;
                assert!((ratio - 1.0).abs() < 1e-11, "n {n} theta {theta}: ratio {ratio}");
            }
        }
    }

    #[test]
    fn all_exponents_give_the_exact_law() {
        let mut rng = Rng::from_seed(SEED);
        let thetas = [0.0, 0.2, 0.5, 0.99, 0.9995, 1.0, 1.0005, 1.2, 2.0, 5.0];
        for theta in thetas {
            for count in [1u64, 2, 3, 10, 1000] {
                let zipf = Zipf::new(count, theta).unwrap();
                let mut observed = vec![0u64; count as usize];
                for _ in 0..100_000 {
                    observed[zipf.sample(&mut rng) as usize] += 1;
                }
                let weights: Vec<f64> = (1..=count).map(|k| (k as f64).powf(-theta)).collect();
                assert_chi_square(&format!("zipf {theta} over {count}"), &observed, &weights);
            }
        }
    }

    #[test]
    fn the_head_of_a_million_keys_has_its_share() {
        let zipf = Zipf::new(1_000_000, 0.99).unwrap();
        let exact = zipf.share(0);
        assert!((exact - 0.0650).abs() < 0.0001, "{exact}");
        let mut rng = Rng::from_seed(SEED);
        let draws = 2_000_000;
        let mut head = [0u64; 3];
        for _ in 0..draws {
            if let Some(count) = head.get_mut(zipf.sample(&mut rng) as usize) {
                *count += 1;
            }
        }
        for (rank, count) in head.iter().enumerate() {
            let ratio = *count as f64 / draws as f64 / zipf.share(rank as u64);
            assert!((ratio - 1.0).abs() < 0.01, "rank {rank}: {ratio} of its share; SEED={SEED}");
        }
    }

    #[test]
    fn shares_sum_to_one_and_end_at_the_count() {
        let zipf = Zipf::new(5000, 0.8).unwrap();
        let sum: f64 = (0..5000).map(|rank| zipf.share(rank)).sum();
        assert!((sum - 1.0).abs() < 1e-9);
        assert_eq!(zipf.share(5000), 0.0);
    }

    #[test]
    fn growing_equals_building_anew() {
        let mut grown = Zipf::new(10, 0.99).unwrap();
        grown.grow(12_345);
        let built = Zipf::new(12_345, 0.99).unwrap();
        let (mut a, mut b) = (Rng::from_seed(SEED), Rng::from_seed(SEED));
        for _ in 0..10_000 {
            assert_eq!(grown.sample(&mut a), built.sample(&mut b));
        }
    }

    #[test]
    fn extreme_parameters_stay_in_range() {
        let mut rng = Rng::from_seed(SEED);
        for theta in [0.0, 0.99, 1.0, 64.0] {
            for count in [1, 2, RANKS_MAX] {
                let zipf = Zipf::new(count, theta).unwrap();
                for _ in 0..2000 {
                    assert!(zipf.sample(&mut rng) < count);
                }
            }
        }
        assert!(Zipf::new(0, 0.99).is_err());
        assert!(Zipf::new(RANKS_MAX + 1, 0.99).is_err());
        for theta in [-0.1, f64::NAN, f64::INFINITY, 65.0] {
            assert!(Zipf::new(10, theta).is_err());
        }
    }

    #[test]
    fn ycsb_has_its_constant_and_its_head() {
        let zipf = ZipfYcsb::new(0.99).unwrap();
        assert!((zipf.zeta - 26.469_028_201_783_02).abs() < 1e-6, "{}", zipf.zeta);
        let mut rng = Rng::from_seed(SEED);
        let mut observed = [0u64; 3];
        let cuts = [100, 10_000, 1_000_000, 100_000_000];
        let mut below = [0u64; 4];
        for _ in 0..500_000 {
            let rank = zipf.sample(&mut rng);
            assert!(rank < YCSB_UNIVERSE);
            observed[rank.min(2) as usize] += 1;
            for (count, cut) in below.iter_mut().zip(cuts) {
                *count += u64::from(rank < cut);
            }
        }
        // The published formula solved for the share of the ranks below a cut, and that share by
        // the exact distribution, from which the formula is a few per cent away.
        let zeta = 26.469_028_201_783_02;
        let relative = |rank: u64| (rank as f64 / 1e10).powf(0.01);
        let eta = (1.0 - relative(2)) / (1.0 - (1.0 + 0.5f64.powf(0.99)) / zeta);
        for (count, cut) in below.iter().zip(cuts) {
            let share = *count as f64 / 500_000.0;
            let formula = (relative(cut) - 1.0 + eta) / eta;
            assert!((share / formula - 1.0).abs() < 0.01, "below {cut}: {share}; SEED={SEED}");
            let exact = harmonic(cut, 0.99) / zeta;
            assert!((share / exact - 1.0).abs() < 0.05, "below {cut}: {share}; SEED={SEED}");
        }
        let second = 0.5f64.powf(0.99);
        let weights = [1.0, second, zipf.zeta - 1.0 - second];
        assert_chi_square("ycsb ranks 0, 1, rest", &observed, &weights);
        for theta in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(ZipfYcsb::new(theta).is_err());
        }
    }
}
