//! Continuous distributions by name, as load generators take them: for sizes, for gaps, for service
//! times.
//!
//! The text is that of mutilate: `NAME` or `NAME:A,B,C`, numbers that are missing being 0, a bare
//! number being itself. A name is found in any case of letters, and inside of a longer word, as
//! there.
//!
//! Every distribution is its quantile function, and a draw is that function of a uniform number. A
//! number and its complement are both handed in, because one of them may be too small to be
//! recovered from the other, and that is where tails are. Hence also the mean: the integral of the
//! quantiles, by the double-exponential rule, whose places crowd towards both ends as fast as the
//! values grow.
//!
//! Where this differs from mutilate: the uniform number is never 0 and is seeded; `normal` is
//! normal (there one uniform number stood for two); a shape of 0 is the limit, not an abort.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::fb;
use crate::key_distribution::read_numbers;
use crate::rng::Rng;

/// Most points of an empirical distribution.
const POINTS_MAX: usize = 1 << 20;

/// A distribution of non-negative numbers: what it gives below 0 is 0 to whoever uses it.
///
/// | text | draws |
/// |---|---|
/// | `200`, `fixed:200` | always 200 |
/// | `uniform:400` | from 0 to 400 alike |
/// | `normal:200,50` | normal with this mean and standard deviation |
/// | `exponential:0.005` | exponential with this rate, so a mean of 200 |
/// | `pareto:15,214,0.35` | generalised Pareto: location, scale, shape |
/// | `gev:30.8,8.2,0.079` | generalised extreme value: location, scale, shape |
/// | `fb_key`, `fb_value`, `fb_ia` | the ETC pool: key sizes, value sizes, gaps |
/// | `lognormal:5,1` | `exp` of a normal with this mean and standard deviation |
/// | `bimodal:100,900,0.1` | 100, and with probability 0.1 instead 900 |
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Distribution {
    /// One number.
    Fixed(f64),
    /// All numbers from 0 to `max` alike.
    Uniform {
        /// The largest.
        max: f64,
    },
    /// Normal.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stddev: f64,
    },
    /// Exponential.
    Exponential {
        /// The inverse of the mean.
        rate: f64,
    },
    /// Generalised Pareto.
    Pareto {
        /// The least value.
        location: f64,
        /// The scale.
        scale: f64,
        /// The shape; at 0 it is exponential, from 1 on it has no mean.
        shape: f64,
    },
    /// Generalised extreme value.
    Gev {
        /// The location.
        location: f64,
        /// The scale.
        scale: f64,
        /// The shape; at 0 it is Gumbel's, from 1 on it has no mean.
        shape: f64,
    },
    /// Value sizes of the ETC pool: a table below 15, a generalised Pareto tail above.
    FbValue,
    /// `exp` of a normal number.
    Lognormal {
        /// The mean of the logarithm.
        mean: f64,
        /// The standard deviation of the logarithm.
        stddev: f64,
    },
    /// One of two numbers.
    Bimodal {
        /// The usual one.
        low: f64,
        /// The other one.
        high: f64,
        /// The probability of the other one.
        high_share: f64,
    },
    /// A distribution function that was measured; see [`Distribution::empirical`].
    Empirical(Points),
}

/// Places of a distribution function, straight lines between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Value and the probability to be at most that, both ascending, the last probability 1.
    points: Arc<[(f64, f64)]>,
}

/// Names in the order in which they are looked for inside of a word, and how many numbers follow.
const NAMES: [(&str, usize); 8] = [
    ("fixed", 1),
    ("lognormal", 2),
    ("bimodal", 3),
    ("normal", 2),
    ("exponential", 1),
    ("pareto", 3),
    ("gev", 3),
    ("uniform", 1),
];

const WHAT: &str = "distribution";
const EXPECTED: &str = "expected a number, or fixed, uniform, normal, exponential, pareto, gev, \
    lognormal or bimodal with its numbers, or fb_key, fb_value, fb_ia";

impl Distribution {
    /// Reads the text form, and checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] for an unknown name or a bad list of numbers, [`Error::Parameter`] for a
    /// number out of range.
    pub fn parse(text: &str) -> Result<Distribution, Error> {
        let distribution = match text.trim().to_ascii_lowercase().as_str() {
            "fb_key" => {
                let (location, scale, shape) = fb::KEY;
                Distribution::Gev { location, scale, shape }
            }
            "fb_ia" => {
                let (location, scale, shape) = fb::GAP;
                Distribution::Pareto { location, scale, shape }
            }
            "fb_value" => Distribution::FbValue,
            lower => match lower.parse::<f64>() {
                Ok(value) => Distribution::Fixed(value),
                Err(_) => Distribution::parse_named(text, lower)?,
            },
        };
        distribution.check()?;
        Ok(distribution)
    }

    fn parse_named(text: &str, lower: &str) -> Result<Distribution, Error> {
        let (word, list) = lower.split_once(':').unwrap_or((lower, ""));
        let found = NAMES.iter().find(|(name, _)| word.contains(name));
        let (name, count) = *found.ok_or_else(|| Error::syntax(WHAT, text, EXPECTED))?;
        let numbers = read_numbers(WHAT, lower, list, &vec![0.0; count])?;
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0.0);
        Ok(match name {
            "fixed" => Distribution::Fixed(at(0)),
            "uniform" => Distribution::Uniform { max: at(0) },
            "normal" => Distribution::Normal { mean: at(0), stddev: at(1) },
            "exponential" => Distribution::Exponential { rate: at(0) },
            "pareto" => Distribution::Pareto { location: at(0), scale: at(1), shape: at(2) },
            "gev" => Distribution::Gev { location: at(0), scale: at(1), shape: at(2) },
            "lognormal" => Distribution::Lognormal { mean: at(0), stddev: at(1) },
            _ => Distribution::Bimodal { low: at(0), high: at(1), high_share: at(2) },
        })
    }

    /// A distribution from the text of a measured distribution function: a line `VALUE PROBABILITY`
    /// for each place, separated by blanks or a comma, the probability to be at most the value.
    /// Both ascend; the last probability is 1 (or 100, for per cent). Lines that begin with `#` say
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] names the line that is wrong.
    pub fn empirical(text: &str) -> Result<Distribution, Error> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fault = |problem: &str| {
                Error::syntax("distribution file", line, format!("line {}: {problem}", index + 1))
            };
            let mut words = line.split(|c: char| c == ',' || c.is_whitespace());
            let mut number = || {
                let word = words.by_ref().find(|word| !word.is_empty())?;
                word.parse::<f64>().ok().filter(|number| number.is_finite())
            };
            let (Some(value), Some(probability)) = (number(), number()) else {
                return Err(fault("expected VALUE PROBABILITY"));
            };
            if value < 0.0 || probability < 0.0 {
                return Err(fault("a number below 0"));
            }
            if points.last().is_some_and(|last| value < last.0 || probability < last.1) {
                return Err(fault("values and probabilities must ascend"));
            }
            if points.len() == POINTS_MAX {
                return Err(fault("more than 2^20 places"));
            }
            points.push((value, probability));
        }
        let whole = points.last().map_or(0.0, |last| last.1);
        if (whole - 1.0).abs() > 1e-6 && (whole - 100.0).abs() > 1e-4 {
            let problem = "the last probability is not 1 (nor 100 per cent)";
            return Err(Error::syntax("distribution file", &whole.to_string(), problem));
        }
        for point in &mut points {
            point.1 /= whole;
        }
        Ok(Distribution::Empirical(Points { points: points.into() }))
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] names the first number that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        let natural = |name, value: f64| {
            let is_fine = value.is_finite() && value >= 0.0;
            Error::check(name, value, is_fine, "a finite number of at least 0")
        };
        let finite =
            |name, value: f64| Error::check(name, value, value.is_finite(), "a finite number");
        match *self {
            Distribution::Fixed(value) => natural("value", value),
            Distribution::Uniform { max } => natural("maximum", max),
            Distribution::Normal { mean, stddev } => {
                finite("mean", mean)?;
                natural("standard deviation", stddev)
            }
            Distribution::Exponential { rate } => natural("rate", rate),
            Distribution::Pareto { location, scale, shape }
            | Distribution::Gev { location, scale, shape } => {
                finite("location", location)?;
                natural("scale", scale)?;
                let is_fine = (-10.0..1.0).contains(&shape);
                Error::check("shape", shape, is_fine, "-10 to less than 1, so with a mean")
            }
            Distribution::Lognormal { mean, stddev } => {
                Error::check("mean", mean, (-100.0..=100.0).contains(&mean), "-100 to 100")?;
                let is_fine = (0.0..=10.0).contains(&stddev);
                Error::check("standard deviation", stddev, is_fine, "0 to 10")
            }
            Distribution::Bimodal { low, high, high_share } => {
                natural("first value", low)?;
                natural("second value", high)?;
                Error::check("share", high_share, (0.0..=1.0).contains(&high_share), "0 to 1")
            }
            Distribution::FbValue | Distribution::Empirical(_) => Ok(()),
        }
    }

    /// Draws a number, which is never below 0.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        let drawn = match *self {
            Distribution::Fixed(value) => value,
            Distribution::Normal { mean, stddev } => mean + stddev * rng.normal(),
            Distribution::Lognormal { mean, stddev } => (mean + stddev * rng.normal()).exp(),
            _ => {
                let above = rng.unit_positive();
                self.at(1.0 - above, above)
            }
        };
        drawn.max(0.0)
    }

    /// The size of the key whose hash is the fraction `u` of all hashes, as mutilate computes it:
    /// to the last bit but for `normal`, which here is normal. Not rounded.
    #[must_use]
    pub fn key_size(&self, u: f64) -> f64 {
        match *self {
            // There the tail gets the number that the table was asked with, so it is cut.
            Distribution::FbValue => fb::value_at(u).unwrap_or_else(|| fb::pareto(fb::VALUE, u)),
            Distribution::Exponential { .. } | Distribution::Pareto { .. } => self.at(1.0 - u, u),
            _ => self.at(u, 1.0 - u),
        }
    }

    /// The value with probability `below` under it and `above` over it, which add up to 1.
    fn at(&self, below: f64, above: f64) -> f64 {
        match *self {
            Distribution::Fixed(value) => value,
            Distribution::Uniform { max } => max * below,
            Distribution::Normal { mean, stddev } => mean + stddev * normal_quantile(below, above),
            Distribution::Exponential { rate } if rate > 0.0 => -above.ln() / rate,
            Distribution::Exponential { .. } => 0.0,
            Distribution::Pareto { location, scale, shape: 0.0 } => location - scale * above.ln(),
            Distribution::Pareto { location, scale, shape } => {
                fb::pareto((location, scale, shape), above)
            }
            Distribution::Gev { location, scale, shape } => {
                // -ln(below), from whichever of the two is exact.
                let depth = if above < 0.5 { -(-above).ln_1p() } else { -below.ln() };
                match shape {
                    0.0 => location - scale * depth.ln(),
                    _ => location + scale * (depth.powf(-shape) - 1.0) / shape,
                }
            }
            Distribution::FbValue => fb::value_at(below)
                .unwrap_or_else(|| fb::pareto(fb::VALUE, (above / fb::tail_share()).min(1.0))),
            Distribution::Lognormal { mean, stddev } => {
                (mean + stddev * normal_quantile(below, above)).exp()
            }
            Distribution::Bimodal { low, high, high_share } => {
                if above <= high_share && high_share > 0.0 { high } else { low }
            }
            Distribution::Empirical(ref empirical) => empirical.at(below),
        }
    }

    /// The mean of what [`Distribution::sample`] draws, so with what lies below 0 taken as 0.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Distribution::Fixed(value) => value.max(0.0),
            Distribution::Uniform { max } => max / 2.0,
            Distribution::Normal { mean, stddev } => cut_normal_mean(mean, stddev),
            Distribution::Exponential { rate } if rate > 0.0 => 1.0 / rate,
            Distribution::Exponential { .. } => 0.0,
            Distribution::Bimodal { low, high, high_share } => low + (high - low) * high_share,
            Distribution::Pareto { location, scale, shape } if location >= 0.0 && shape >= 0.0 => {
                location + scale / (1.0 - shape)
            }
            Distribution::FbValue => fb::value_mean(),
            Distribution::Empirical(ref empirical) => empirical.mean(),
            _ => integrate(|below, above| self.at(below, above).max(0.0)),
        }
    }

    /// The standard deviation of what [`Distribution::sample`] draws, divided by its mean; infinite
    /// where the tail has no variance. Of no meaning for a distribution whose mean is 0.
    #[must_use]
    pub fn variation(&self) -> f64 {
        match *self {
            Distribution::Fixed(_) => 0.0,
            Distribution::Uniform { .. } => 1.0 / 3f64.sqrt(),
            Distribution::Exponential { .. } => 1.0,
            Distribution::Pareto { shape, .. } | Distribution::Gev { shape, .. }
                if shape >= 0.5 =>
            {
                f64::INFINITY
            }
            _ if self.is_fixed() => 0.0,
            Distribution::Lognormal { stddev, .. } => (stddev * stddev).exp_m1().sqrt(),
            Distribution::Bimodal { low, high, high_share } => {
                (high - low).abs() * (high_share * (1.0 - high_share)).sqrt() / self.mean()
            }
            _ => {
                let mean = self.mean();
                let square = integrate(|below, above| self.at(below, above).max(0.0).powi(2));
                (square / (mean * mean) - 1.0).max(0.0).sqrt()
            }
        }
    }

    /// The same shape of distribution, made to have this mean: what `-i` does for a rate. Every
    /// parameter that is a length is scaled, so that the ratio of deviation and mean stays.
    ///
    /// A distribution that was named without numbers has no length yet. Fixed, uniform,
    /// exponential, normal and Pareto distributions then take theirs from the mean; a normal
    /// distribution without a deviation is fixed.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] when there is no such distribution: one whose own mean is not more than
    /// 0.
    pub fn with_mean(&self, mean: f64) -> Result<Distribution, Error> {
        let is_fine = mean.is_finite() && mean > 0.0;
        Error::check("mean", mean, is_fine, "a finite number more than 0")?;
        match *self {
            Distribution::Fixed(_) => Ok(Distribution::Fixed(mean)),
            Distribution::Uniform { .. } => Ok(Distribution::Uniform { max: 2.0 * mean }),
            Distribution::Exponential { .. } => Ok(Distribution::Exponential { rate: 1.0 / mean }),
            Distribution::Normal { stddev: 0.0, .. } => {
                Ok(Distribution::Normal { mean, stddev: 0.0 })
            }
            Distribution::Pareto { location: 0.0, scale: 0.0, shape } => {
                Ok(Distribution::Pareto { location: 0.0, scale: (1.0 - shape) * mean, shape })
            }
            _ => {
                let own = self.mean();
                let is_fine = own.is_finite() && own > 0.0;
                let expected = "more than 0: give the distribution numbers with such a mean";
                Error::check("mean of the distribution", own, is_fine, expected)?;
                Ok(self.scaled(mean / own))
            }
        }
    }

    /// The distribution of `factor` times the number.
    fn scaled(&self, factor: f64) -> Distribution {
        match *self {
            Distribution::Fixed(value) => Distribution::Fixed(value * factor),
            Distribution::Uniform { max } => Distribution::Uniform { max: max * factor },
            Distribution::Exponential { rate } => Distribution::Exponential { rate: rate / factor },
            Distribution::Normal { mean, stddev } => {
                Distribution::Normal { mean: mean * factor, stddev: stddev * factor }
            }
            Distribution::Pareto { location, scale, shape } => {
                Distribution::Pareto { location: location * factor, scale: scale * factor, shape }
            }
            Distribution::Gev { location, scale, shape } => {
                Distribution::Gev { location: location * factor, scale: scale * factor, shape }
            }
            Distribution::Lognormal { mean, stddev } => {
                Distribution::Lognormal { mean: mean + factor.ln(), stddev }
            }
            Distribution::Bimodal { low, high, high_share } => {
                Distribution::Bimodal { low: low * factor, high: high * factor, high_share }
            }
            Distribution::FbValue => {
                let points = fb::value_points().map(|(x, p)| (x * factor, p)).collect();
                Distribution::Empirical(Points { points })
            }
            Distribution::Empirical(ref empirical) => {
                let points = empirical.points.iter().map(|(x, p)| (x * factor, *p)).collect();
                Distribution::Empirical(Points { points })
            }
        }
    }

    /// Whether draws differ at all.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        match *self {
            Distribution::Fixed(_) => true,
            Distribution::Normal { stddev, .. } => stddev == 0.0,
            Distribution::Pareto { scale, .. } | Distribution::Gev { scale, .. } => scale == 0.0,
            _ => false,
        }
    }
}

impl Points {
    fn at(&self, below: f64) -> f64 {
        let after = self.points.partition_point(|(_, p)| *p < below);
        let Some(&(value, p)) = self.points.get(after) else {
            return self.points.last().map_or(0.0, |last| last.0);
        };
        match after.checked_sub(1).map(|before| self.points[before]) {
            // What the first place has is there as a whole.
            None => value,
            Some((value_before, p_before)) => {
                value_before + (value - value_before) * (below - p_before) / (p - p_before)
            }
        }
    }

    fn mean(&self) -> f64 {
        let first = self.points.first().map_or(0.0, |(value, p)| value * p);
        let lines = self.points.windows(2);
        first + lines.map(|w| (w[0].0 + w[1].0) / 2.0 * (w[1].1 - w[0].1)).sum::<f64>()
    }
}

impl fmt::Display for Distribution {
    /// Writes the text form with all numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Fixed(value) => write!(f, "fixed:{value}"),
            Distribution::Uniform { max } => write!(f, "uniform:{max}"),
            Distribution::Normal { mean, stddev } => write!(f, "normal:{mean},{stddev}"),
            Distribution::Exponential { rate } => write!(f, "exponential:{rate}"),
            Distribution::Pareto { location, scale, shape } => {
                write!(f, "pareto:{location},{scale},{shape}")
            }
            Distribution::Gev { location, scale, shape } => {
                write!(f, "gev:{location},{scale},{shape}")
            }
            Distribution::FbValue => f.write_str("fb_value"),
            Distribution::Lognormal { mean, stddev } => write!(f, "lognormal:{mean},{stddev}"),
            Distribution::Bimodal { low, high, high_share } => {
                write!(f, "bimodal:{low},{high},{high_share}")
            }
            Distribution::Empirical(empirical) => write!(f, "{} places", empirical.points.len()),
        }
    }
}

/// The mean of a normal number once what is below 0 is 0: Simpson's rule from there on, because the
/// kink is no place to integrate over.
fn cut_normal_mean(mean: f64, stddev: f64) -> f64 {
    const STEPS: u32 = 2000;
    // Beyond so many deviations there is nothing that a double could hold beside the rest.
    const REACH: f64 = 9.0;
    let start = -mean / stddev;
    if stddev == 0.0 || start < -REACH {
        return mean.max(0.0);
    }
    let step = REACH * 2.0 / f64::from(STEPS);
    let root = (2.0 * std::f64::consts::PI).sqrt();
    let density = |z: f64| (mean + stddev * z) * (-z * z / 2.0).exp() / root;
    let sum: f64 = (0..=STEPS)
        .map(|k| {
            let weight = match k {
                0 | STEPS => 1.0,
                k if k % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * density(start + step * f64::from(k))
        })
        .sum();
    sum * step / 3.0
}

/// The integral of a function of (p, 1 - p) over 0 to 1, by the double-exponential rule: p is `1 /
/// (1 + exp(-pi sinh t))`, and steps of 1/64 in t leave an error below 1e-12 for smooth
/// distributions; a kink, such as at a cut, costs some digits.
fn integrate(value: impl Fn(f64, f64) -> f64) -> f64 {
    const STEP: f64 = 1.0 / 64.0;
    // Where p or 1 - p would no longer be a normal number.
    const REACH: i32 = 64 * 6;
    let mut sum = 0.0;
    for k in -REACH..=REACH {
        let t = f64::from(k) * STEP;
        let bend = std::f64::consts::PI * t.sinh();
        let (below, above) = (1.0 / (1.0 + (-bend).exp()), 1.0 / (1.0 + bend.exp()));
        if below < 1e-290 || above < 1e-290 {
            continue;
        }
        let weight = std::f64::consts::PI * t.cosh() * below * above;
        sum += weight * value(below, above);
    }
    sum * STEP
}

/// The standard normal quantile, by Acklam's rational approximations (relative error 1.2e-9): one
/// for the middle, one for both tails.
fn normal_quantile(below: f64, above: f64) -> f64 {
    const TAIL: f64 = 0.02425;
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
        1.0,
    ];
    let polynomial = |coefficients: &[f64], x: f64| {
        coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
    };
    let tail = |p: f64| {
        // The least number stands for 0, whose quantile is infinite.
        let q = (-2.0 * p.max(f64::MIN_POSITIVE).ln()).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    if below < TAIL {
        tail(below)
    } else if above < TAIL {
        -tail(above)
    } else {
        let q = below - 0.5;
        let r = q * q;
        q * polynomial(&A, r) / polynomial(&B, r)
    }
}

#[cfg(test)]
#[path = "distribution_tests.rs"]
mod tests;
