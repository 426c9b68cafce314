//! The two distributions that the intervals and tests need: Student's t and the normal.
//!
//! Both come down to classical expansions, each used where it converges fast:
//!
//! * `ln gamma(x)`: raise x to at least 12 by `gamma(x + 1) = x gamma(x)`, then Stirling's series.
//! * `I_x(a, b)`, the regularised incomplete beta function: its continued fraction for x below the
//!   mean `a / (a + b)` or so, the reflection `1 - I_(1-x)(b, a)` above, evaluated by the modified
//!   method of Lentz.
//! * `erfc(x)`: the series of erf with positive terms below 2, a continued fraction above.
//!
//! The upper tail of Student's t at t >= 0 with f degrees of freedom is `I_x(f/2, 1/2) / 2` with
//! `x = f / (f + t^2)`. A quantile is found by doubling a bracket and halving it to the last bit,
//! always on the tail, where small probabilities keep their precision.
//!
//! Tails agree with an independent implementation to 1e-8 of themselves up to a million degrees of
//! freedom; beyond, differences of large logarithms cost digits, and 1e-6 remains.

use std::f64::consts::{PI, SQRT_2};

/// More degrees of freedom than this are taken as normal; the difference is below 1e-8.
const NORMAL_DF_MIN: f64 = 1e8;
const FRACTION_STEPS_MAX: u32 = 100_000;
const HALVINGS_MAX: u32 = 2200;

/// The value that a variable of Student's t distribution with `df` degrees of freedom stays below
/// with probability `p`. `df` may be fractional or infinite (the normal distribution).
///
/// Infinite at `p` 0 and 1; NaN when `p` is outside 0..=1 or `df` is not positive.
pub fn student_t_quantile(df: f64, p: f64) -> f64 {
    if !(df > 0.0 && (0.0..=1.0).contains(&p)) {
        return f64::NAN;
    }
    // Not `1.0 - p` below one half: it would round small probabilities away.
    if p < 0.5 { -upper_quantile(df, p) } else { upper_quantile(df, 1.0 - p) }
}

/// The probability of a standard normal variable to be farther than `z` from 0, either side.
pub(crate) fn normal_two_sided(z: f64) -> f64 {
    erfc(z.abs() / SQRT_2)
}

/// The t with upper tail `tail`, which is at most one half.
fn upper_quantile(df: f64, tail: f64) -> f64 {
    if tail >= 0.5 {
        return 0.0;
    }
    if tail == 0.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while upper_tail(df, high) > tail {
        low = high;
        high *= 2.0;
        if high == f64::INFINITY {
            return high;
        }
    }
    for _ in 0..HALVINGS_MAX {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if upper_tail(df, middle) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// The probability of a t variable above `t`, for t >= 0.
fn upper_tail(df: f64, t: f64) -> f64 {
    if df >= NORMAL_DF_MIN {
        return 0.5 * normal_two_sided(t);
    }
    let ratio = t / df * t;
    0.5 * incomplete_beta(0.5 * df, 0.5, 1.0 / (1.0 + ratio), ratio / (1.0 + ratio))
}

/// The regularised incomplete beta function at `x`; `y` is 1 - x, given apart because one of the
/// two may be too small to be recovered from the other.
fn incomplete_beta(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    let scale = (a * x.ln() + b * y.ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp();
    if x * (a + b + 2.0) < a + 1.0 {
        scale / a * beta_fraction(a, b, x)
    } else {
        1.0 - scale / b * beta_fraction(b, a, y)
    }
}

/// `1 / (1 + d1 / (1 + d2 / (1 + ...)))`, the continued fraction of the incomplete beta function.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    // A denominator of exactly 0 is replaced by this; the next step recovers.
    const TINY: f64 = 1e-300;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let coefficient = |step: u32| {
        let m = f64::from(step / 2);
        if step.is_multiple_of(2) {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        }
    };
    // With A and B the numerators and denominators of the convergents: `ahead` is A_n / A_(n-1),
    // `behind` is B_(n-1) / B_n, and their products lead from one convergent to the next.
    let (mut ahead, mut behind, mut fraction) = (1.0, 0.0, 1.0);
    for step in 1..=FRACTION_STEPS_MAX {
        let d = coefficient(step);
        behind = 1.0 / nonzero(1.0 + d * behind);
        ahead = nonzero(1.0 + d / ahead);
        let change = ahead * behind;
        fraction *= change;
        if (change - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    1.0 / fraction
}

/// The logarithm of the gamma function, for x > 0.
fn ln_gamma(x: f64) -> f64 {
    const STIRLING_MIN: f64 = 12.0;
    let (mut x, mut raised) = (x, 0.0);
    while x < STIRLING_MIN {
        raised += x.ln();
        x += 1.0;
    }
    // B_2k / (2k (2k - 1)) for k = 1, 2, ...; the next term is below 3e-15.
    const TERMS: [f64; 5] = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0];
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series = TERMS.iter().rev().fold(0.0, |sum, term| sum * square + term) * inverse;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - raised
}

/// The complementary error function, for x >= 0.
fn erfc(x: f64) -> f64 {
    const SERIES_MAX: f64 = 2.0;
    const FRACTION_DEPTH: u32 = 120;
    let root_pi = PI.sqrt();
    let gauss = (-x * x).exp();
    if x < SERIES_MAX {
        // x + 2 x^3 / 3 + 4 x^5 / 15 + ...: each term is the last times 2 x^2 / (2 k + 1).
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > sum * f64::EPSILON {
            odd += 2.0;
            term *= 2.0 * x * x / odd;
            sum += term;
        }
        1.0 - 2.0 / root_pi * gauss * sum
    } else {
        // x + (1/2) / (x + (2/2) / (x + (3/2) / (x + ...))), from the inside out.
        let depth = (1..=FRACTION_DEPTH).rev();
        let denominator = depth.fold(x, |inner, k| x + f64::from(k) / 2.0 / inner);
        gauss / root_pi / denominator
    }
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

    use super::*;

    const PROBABILITIES: [f64; 12] =
        [1e-9, 0.0005, 0.005, 0.025, 0.05, 0.2, 0.4999, 0.75, 0.9, 0.975, 0.995, 0.9999];

    #[test]
    fn t_quantiles_match_the_printed_table() {
        // Two-sided 95 % and 99 %, as in every textbook.
        let table = [
            (1.0, 12.706, 63.657),
            (2.0, 4.303, 9.925),
            (3.0, 3.182, 5.841),
            (5.0, 2.571, 4.032),
            (10.0, 2.228, 3.169),
            (30.0, 2.042, 2.750),
            (120.0, 1.980, 2.617),
            (f64::INFINITY, 1.960, 2.576),
        ];
        for (df, t95, t99) in table {
            assert!((student_t_quantile(df, 0.975) - t95).abs() < 0.0006, "df {df}");
            assert!((student_t_quantile(df, 0.995) - t99).abs() < 0.0006, "df {df}");
        }
    }

    #[test]
    fn t_quantiles_invert_an_independent_distribution() {
        for df in [0.5, 1.0, 1.37, 2.0, 2.5, 4.0, 7.9, 18.0, 37.3, 199.0, 12_345.6] {
            let peer = StudentsT::new(0.0, 1.0, df).unwrap();
            for p in PROBABILITIES {
                let t = student_t_quantile(df, p);
                let back = if p < 0.5 { peer.cdf(t) } else { 1.0 - peer.cdf(-t) };
                assert!((back / p - 1.0).abs() < 1e-8, "df {df} p {p}: t {t} gives {back}");
                if df >= 1.0 && (0.005..=0.995).contains(&p) {
                    let theirs = peer.inverse_cdf(p);
                    assert!((t - theirs).abs() < 1e-6 * theirs.abs().max(1.0), "{df} {p} {theirs}");
                }
            }
        }
    }

    #[test]
    fn t_quantiles_are_odd_and_end_at_infinity() {
        for df in [1.0, 3.3, 50.0] {
            assert_eq!(student_t_quantile(df, 0.5), 0.0);
            assert_eq!(student_t_quantile(df, 0.25), -student_t_quantile(df, 0.75));
            assert_eq!(student_t_quantile(df, 0.0), f64::NEG_INFINITY);
            assert_eq!(student_t_quantile(df, 1.0), f64::INFINITY);
        }
        for (df, p) in [(0.0, 0.5), (-1.0, 0.5), (f64::NAN, 0.5), (3.0, -0.1), (3.0, 1.1)] {
            assert!(student_t_quantile(df, p).is_nan());
        }
        assert!(student_t_quantile(3.0, f64::NAN).is_nan());
        // The change-over to the normal distribution leaves no step.
        let below = student_t_quantile(NORMAL_DF_MIN * 0.999, 0.975);
        assert!((below - student_t_quantile(f64::INFINITY, 0.975)).abs() < 1e-6);
    }

    #[test]
    fn normal_tails_match_an_independent_distribution() {
        let peer = Normal::new(0.0, 1.0).unwrap();
        for z in [0.0, 0.01, 0.5, 1.0, 1.96, 2.5, 2.828, 2.829, 3.5, 6.0, 8.0] {
            let expected = 2.0 * peer.cdf(-z);
            assert!((normal_two_sided(z) / expected - 1.0).abs() < 1e-8, "{z}");
            assert_eq!(normal_two_sided(z), normal_two_sided(-z));
        }
        assert_eq!(normal_two_sided(f64::INFINITY), 0.0);
    }

    #[test]
    fn ln_gamma_knows_factorials_and_one_half() {
        let mut factorial = 1.0f64;
        for n in 1..30 {
            assert!((ln_gamma(f64::from(n)) - factorial.ln()).abs() < 1e-12, "{n}");
            factorial *= f64::from(n);
        }
        assert!((ln_gamma(0.5) - PI.sqrt().ln()).abs() < 1e-14);
    }
}
