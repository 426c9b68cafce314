//! Distributions of sizes: bytes of a value, rows of a scan.
//!
//! A [`SizeDistribution`] is the description, a [`SizeSampler`] draws from it.

use std::fmt;

use crate::error::Error;
use crate::fb;
use crate::key_distribution::read_numbers;
use crate::rng::Rng;
use crate::zipf::Zipf;

/// The largest size, 64 MiB: a value pool holds one value of the largest size in memory.
const SIZE_MAX: u32 = 64 << 20;

/// Normal sizes are cut this many standard deviations above the mean, so that they have a bound.
const DEVIATIONS_MAX: f64 = 6.0;

/// How large values are, or how long scans. No size exceeds 64 Mi.
///
/// | text | meaning |
/// |---|---|
/// | `100`, `fixed:100` | always 100 |
/// | `10:200`, `uniform:10,200` | uniform, both ends included |
/// | `fb_value` | value sizes of the ETC pool: 194 on average, 44 % below 15, cut at 1000000 |
/// | `normal:100,10` | mean and standard deviation; rounded, cut at 0 and at six deviations |
/// | `zipf:1,100,0.99` | from 1 to 100 by the exact Zipf distribution, 1 being the most frequent |
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SizeDistribution {
    /// One size.
    Fixed(u32),
    /// All sizes in `min..=max` alike.
    Uniform {
        /// The smallest size.
        min: u32,
        /// The largest size.
        max: u32,
    },
    /// Value sizes of the ETC pool: a table below 15 bytes, a generalised Pareto tail (15, 214.476,
    /// 0.348238) above it, rounded down and cut at 1000000.
    FbValue,
    /// Normal, rounded to the nearest integer, cut at 0 and at six standard deviations above the
    /// mean.
    Normal {
        /// The mean before the cut.
        mean: f64,
        /// The standard deviation before the cut.
        stddev: f64,
    },
    /// Exact Zipf distribution over `min..=max`; `min` is the most frequent.
    Zipf {
        /// The smallest size.
        min: u32,
        /// The largest size.
        max: u32,
        /// The exponent, 0 to 64.
        theta: f64,
    },
}

impl SizeDistribution {
    /// Reads the text form, such as `100`, `10:200` or `normal:100,10`, and checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] for an unknown form, [`Error::Parameter`] for a number out of range.
    pub fn parse(text: &str) -> Result<SizeDistribution, Error> {
        const WHAT: &str = "size";
        const EXPECTED: &str =
            "expected BYTES, MIN:MAX, fb_value, normal:MEAN,STDDEV or zipf:MIN,MAX,THETA";
        let (name, list) = text.split_once(':').unwrap_or((text, ""));
        let fault = |problem: &str| Error::syntax(WHAT, text, problem);
        let read = |count: usize| {
            let given = if list.is_empty() { 0 } else { list.split(',').count() };
            if given != count {
                return Err(fault(&format!("expected {count} numbers after the name")));
            }
            read_numbers(WHAT, text, list, &vec![0.0; count])
        };
        let distribution = match name {
            "fb_value" => read(0).map(|_| SizeDistribution::FbValue)?,
            "fixed" => SizeDistribution::Fixed(whole(read(1)?[0])?),
            "uniform" => {
                let numbers = read(2)?;
                SizeDistribution::Uniform { min: whole(numbers[0])?, max: whole(numbers[1])? }
            }
            "normal" => {
                let numbers = read(2)?;
                SizeDistribution::Normal { mean: numbers[0], stddev: numbers[1] }
            }
            "zipf" => {
                let numbers = read(3)?;
                let (min, max) = (whole(numbers[0])?, whole(numbers[1])?);
                SizeDistribution::Zipf { min, max, theta: numbers[2] }
            }
            min => {
                let min = min.parse().map_err(|_| fault(EXPECTED))?;
                match text.split_once(':') {
                    None => SizeDistribution::Fixed(min),
                    Some((_, max)) => {
                        let max = max.parse().map_err(|_| fault(EXPECTED))?;
                        SizeDistribution::Uniform { min, max }
                    }
                }
            }
        };
        distribution.check()?;
        Ok(distribution)
    }

    /// Checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] names the first number that is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        let ordered = |min: u32, max: u32| {
            Error::check("smallest size", min, min <= max, "at most the largest size")
        };
        let natural = |name, value: f64| {
            let is_fine = value.is_finite() && value >= 0.0;
            Error::check(name, value, is_fine, "a finite number of at least 0")
        };
        match *self {
            SizeDistribution::Fixed(_) | SizeDistribution::FbValue => {}
            SizeDistribution::Uniform { min, max } => ordered(min, max)?,
            SizeDistribution::Normal { mean, stddev } => {
                natural("mean size", mean)?;
                natural("standard deviation", stddev)?;
            }
            SizeDistribution::Zipf { min, max, theta } => {
                ordered(min, max)?;
                Error::check("theta", theta, (0.0..=64.0).contains(&theta), "0 to 64")?;
            }
        }
        Error::check("largest size", self.max(), self.max() <= SIZE_MAX, "at most 64 Mi")
    }

    /// The largest size that can be drawn.
    #[must_use]
    pub fn max(&self) -> u32 {
        match *self {
            SizeDistribution::Fixed(size) => size,
            SizeDistribution::Uniform { max, .. } | SizeDistribution::Zipf { max, .. } => max,
            SizeDistribution::FbValue => fb::VALUE_BYTES_MAX,
            // The cast saturates.
            SizeDistribution::Normal { mean, stddev } => {
                (mean + DEVIATIONS_MAX * stddev).round() as u32
            }
        }
    }
}

impl fmt::Display for SizeDistribution {
    /// Writes the text form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeDistribution::Fixed(size) => write!(f, "{size}"),
            SizeDistribution::Uniform { min, max } => write!(f, "{min}:{max}"),
            SizeDistribution::FbValue => f.write_str("fb_value"),
            SizeDistribution::Normal { mean, stddev } => write!(f, "normal:{mean},{stddev}"),
            SizeDistribution::Zipf { min, max, theta } => write!(f, "zipf:{min},{max},{theta}"),
        }
    }
}

/// A number as a size.
fn whole(number: f64) -> Result<u32, Error> {
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        return Err(Error::parameter("size", number, "a whole number of at least 0"));
    }
    Ok(number as u32)
}

/// A size distribution, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct SizeSampler {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Fixed(u32),
    Uniform { min: u32, count: u64 },
    FbValue(fb::ValueBytes),
    Normal { mean: f64, stddev: f64, max: f64 },
    Zipf { min: u32, zipf: Zipf },
}

impl SizeSampler {
    /// Prepares `distribution`.
    ///
    /// # Errors
    ///
    /// Those of [`SizeDistribution::check`].
    pub fn new(distribution: &SizeDistribution) -> Result<SizeSampler, Error> {
        distribution.check()?;
        let count = |min: u32, max: u32| u64::from(max - min) + 1;
        let kind = match *distribution {
            SizeDistribution::Fixed(size) => Kind::Fixed(size),
            SizeDistribution::Uniform { min, max } => Kind::Uniform { min, count: count(min, max) },
            SizeDistribution::FbValue => Kind::FbValue(fb::ValueBytes::new()?),
            SizeDistribution::Normal { mean, stddev } => {
                Kind::Normal { mean, stddev, max: f64::from(distribution.max()) }
            }
            SizeDistribution::Zipf { min, max, theta } => {
                Kind::Zipf { min, zipf: Zipf::new(count(min, max), theta)? }
            }
        };
        Ok(SizeSampler { kind })
    }

    /// Draws a size.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> u32 {
        match &self.kind {
            Kind::Fixed(size) => *size,
            Kind::Uniform { min, count } => *min + rng.below(*count) as u32,
            Kind::FbValue(values) => values.sample(rng),
            Kind::Normal { mean, stddev, max } => {
                (*mean + *stddev * rng.normal()).round().clamp(0.0, *max) as u32
            }
            Kind::Zipf { min, zipf } => *min + zipf.sample(rng) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, Normal};

    use super::*;
    use crate::check::{SEED, assert_chi_square};

    fn histogram(text: &str, cells: usize) -> Vec<u64> {
        let sampler = SizeSampler::new(&SizeDistribution::parse(text).unwrap()).unwrap();
        let mut rng = Rng::from_seed(SEED);
        let mut counts = vec![0; cells];
        for _ in 0..200_000 {
            counts[sampler.sample(&mut rng) as usize] += 1;
        }
        counts
    }

    #[test]
    fn sizes_follow_their_laws() {
        assert_eq!(histogram("7", 8)[7], 200_000);
        let uniform: Vec<f64> = (0..=200).map(|s| if s < 10 { 0.0 } else { 1.0 }).collect();
        assert_chi_square("uniform sizes", &histogram("10:200", 201), &uniform);
        let zipf: Vec<f64> =
            (0..=50u32).map(|s| if s < 5 { 0.0 } else { f64::from(s - 4).powf(-0.9) }).collect();
        assert_chi_square("zipf sizes", &histogram("zipf:5,50,0.9", 51), &zipf);
        let distribution = Normal::new(100.0, 10.0).unwrap();
        let normal: Vec<f64> = (0..=160)
            .map(|s| distribution.cdf(f64::from(s) + 0.5) - distribution.cdf(f64::from(s) - 0.5))
            .collect();
        assert_chi_square("normal sizes", &histogram("normal:100,10", 161), &normal);
        let cut = histogram("normal:0,10", 61);
        assert_chi_square(
            "normal cut at 0",
            &[cut[0], 200_000 - cut[0]],
            &[distribution.cdf(100.5), 1.0 - distribution.cdf(100.5)],
        );
    }

    #[test]
    fn text_and_display_agree() {
        for text in ["100", "0", "10:200", "fb_value", "normal:100,10", "zipf:1,100,0.99"] {
            assert_eq!(SizeDistribution::parse(text).unwrap().to_string(), text);
        }
        let parse = |text| SizeDistribution::parse(text).unwrap();
        assert_eq!(parse("fixed:5"), parse("5"));
        assert_eq!(parse("uniform:5,9"), parse("5:9"));
        assert_eq!(parse("normal:100,10").max(), 160);
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("", "expected BYTES"),
            ("ten", "expected BYTES"),
            ("-1", "expected BYTES"),
            ("1.5", "expected BYTES"),
            ("10:", "expected BYTES"),
            ("10:x", "expected BYTES"),
            ("20:10", "smallest size is 20"),
            ("100000000", "largest size is 100000000"),
            ("fixed:1.5", "size is 1.5"),
            ("fb_value:1", "expected 0 numbers"),
            ("normal:100", "expected 2 numbers"),
            ("normal:-1,1", "mean size is -1"),
            ("normal:1,inf", "standard deviation is inf"),
            ("normal:1e12,1", "largest size"),
            ("zipf:1,10", "expected 3 numbers"),
            ("zipf:1,10,-1", "theta is -1"),
        ];
        for (text, problem) in cases {
            let message = SizeDistribution::parse(text).unwrap_err().to_string();
            assert!(message.contains(problem), "{text}: {message}");
        }
    }
}
