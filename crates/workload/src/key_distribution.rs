//! Which keys are chosen, and how often: the named distributions and their text form.
//!
//! This is the plain description; [`KeySource`](crate::KeySource) draws from it.

use std::fmt;

use crate::error::Error;

/// How keys are chosen from a population.
///
/// Text is `name` or `name:number,number`. A number that is left out has its usual value.
///
/// | text | meaning |
/// |---|---|
/// | `sequential` | one after the other, from the start again after the last |
/// | `insert` | the next new key, from a shared counter |
/// | `uniform` | all alike |
/// | `zipf:0.99` | exact Zipf distribution, the most frequent key first |
/// | `zipf_ycsb:0.99` | YCSB's "scrambled zipfian", flatter than the exact distribution |
/// | `latest:0.99` | exact Zipf distribution over the distance from the newest key |
/// | `hotspot:0.2,0.8` | 80 % of the draws to the first 20 % of the keys |
/// | `gaussian:0.5,0.1` | normal around the middle, one tenth of the keys wide |
/// | `exponential:95,0.8571428571` | exponential; 95 % in the first 85.71 %, before the cut |
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum KeyDistribution {
    /// One key after the other, wrapping. Workers share a cursor, or each has a shard.
    Sequential,
    /// New keys: each draw takes the next index from the shared counter. Never wraps.
    Insert,
    /// All keys alike.
    Uniform,
    /// Exact Zipf distribution with exponent `theta`; index 0 is the most frequent unless
    /// scrambled.
    Zipf {
        /// The exponent, 0 to 64.
        theta: f64,
    },
    /// Zipf's distribution as YCSB draws and hashes it: flatter, and several ranks may share a key.
    /// Hashed over the initial population, so that the same keys stay hot while others are
    /// inserted.
    ZipfYcsb {
        /// The exponent, strictly between 0 and 1.
        theta: f64,
    },
    /// Exact Zipf distribution over the distance backwards from the newest key.
    Latest {
        /// The exponent, 0 to 64.
        theta: f64,
    },
    /// A hot set at the start of the population, and the rest; uniform within both.
    Hotspot {
        /// The hot set as a fraction of the keys, more than 0, at most 1.
        hot_fraction: f64,
        /// The fraction of the draws that goes to the hot set, 0 to 1.
        hot_share: f64,
    },
    /// Normal over the index. A draw outside the population is repeated.
    Gaussian {
        /// The centre as a fraction of the population, 0 to 1.
        mean_fraction: f64,
        /// The standard deviation as a fraction of the population, more than 0, at most 10.
        stddev_fraction: f64,
    },
    /// Exponential from the start of the population, as in YCSB. A draw beyond the end is repeated,
    /// so the first `range_fraction` gets somewhat more than `percentile` of what remains.
    Exponential {
        /// How many per cent of the unbounded distribution lie within `range_fraction`, more than
        /// 0, less than 100.
        percentile: f64,
        /// A fraction of the population, more than 0.
        range_fraction: f64,
    },
}

const NAMES: &str = "sequential insert uniform zipf zipf_ycsb latest hotspot gaussian exponential";

impl KeyDistribution {
    /// Reads the text form, such as `zipf:0.99`, and checks the numbers.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] for an unknown name or a bad list of numbers, [`Error::Parameter`] for a
    /// number out of range.
    pub fn parse(text: &str) -> Result<KeyDistribution, Error> {
        const WHAT: &str = "key distribution";
        let (name, numbers) = text.split_once(':').unwrap_or((text, ""));
        let read = |defaults: &[f64]| read_numbers(WHAT, text, numbers, defaults);
        let one = |theta: f64| read(&[theta]).map(|numbers| numbers[0]);
        let two = |a: f64, b: f64| read(&[a, b]).map(|numbers| (numbers[0], numbers[1]));
        let distribution = match name {
            "sequential" => read(&[]).map(|_| KeyDistribution::Sequential)?,
            "insert" => read(&[]).map(|_| KeyDistribution::Insert)?,
            "uniform" => read(&[]).map(|_| KeyDistribution::Uniform)?,
            "zipf" => KeyDistribution::Zipf { theta: one(0.99)? },
            "zipf_ycsb" => KeyDistribution::ZipfYcsb { theta: one(0.99)? },
            "latest" => KeyDistribution::Latest { theta: one(0.99)? },
            "hotspot" => {
                let (hot_fraction, hot_share) = two(0.2, 0.8)?;
                KeyDistribution::Hotspot { hot_fraction, hot_share }
            }
            "gaussian" => {
                let (mean_fraction, stddev_fraction) = two(0.5, 0.1)?;
                KeyDistribution::Gaussian { mean_fraction, stddev_fraction }
            }
            "exponential" => {
                let (percentile, range_fraction) = two(95.0, 0.857_142_857_1)?;
                KeyDistribution::Exponential { percentile, range_fraction }
            }
            _ => return Err(Error::syntax(WHAT, text, format!("expected one of {NAMES}"))),
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
        match *self {
            KeyDistribution::Sequential | KeyDistribution::Insert | KeyDistribution::Uniform => {
                Ok(())
            }
            KeyDistribution::Zipf { theta } | KeyDistribution::Latest { theta } => {
                Error::check("theta", theta, (0.0..=64.0).contains(&theta), "0 to 64")
            }
            KeyDistribution::ZipfYcsb { theta } => Error::check(
                "theta",
                theta,
                theta > 0.0 && theta < 1.0,
                "more than 0 and less than 1",
            ),
            KeyDistribution::Hotspot { hot_fraction: fraction, hot_share: share } => {
                let ok = fraction > 0.0 && fraction <= 1.0;
                Error::check("hot fraction", fraction, ok, "more than 0, at most 1")?;
                Error::check("hot share", share, (0.0..=1.0).contains(&share), "0 to 1")
            }
            KeyDistribution::Gaussian { mean_fraction: mean, stddev_fraction: stddev } => {
                Error::check("mean fraction", mean, (0.0..=1.0).contains(&mean), "0 to 1")?;
                let ok = stddev > 0.0 && stddev <= 10.0;
                Error::check("standard deviation fraction", stddev, ok, "more than 0, at most 10")
            }
            KeyDistribution::Exponential { percentile, range_fraction } => {
                let ok = percentile > 0.0 && percentile < 100.0;
                Error::check("percentile", percentile, ok, "more than 0 and less than 100")?;
                let ok = range_fraction > 0.0 && range_fraction.is_finite();
                Error::check("range fraction", range_fraction, ok, "a finite number more than 0")
            }
        }
    }
}

impl fmt::Display for KeyDistribution {
    /// Writes the text form with all numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyDistribution::Sequential => f.write_str("sequential"),
            KeyDistribution::Insert => f.write_str("insert"),
            KeyDistribution::Uniform => f.write_str("uniform"),
            KeyDistribution::Zipf { theta } => write!(f, "zipf:{theta}"),
            KeyDistribution::ZipfYcsb { theta } => write!(f, "zipf_ycsb:{theta}"),
            KeyDistribution::Latest { theta } => write!(f, "latest:{theta}"),
            KeyDistribution::Hotspot { hot_fraction, hot_share } => {
                write!(f, "hotspot:{hot_fraction},{hot_share}")
            }
            KeyDistribution::Gaussian { mean_fraction, stddev_fraction } => {
                write!(f, "gaussian:{mean_fraction},{stddev_fraction}")
            }
            KeyDistribution::Exponential { percentile, range_fraction } => {
                write!(f, "exponential:{percentile},{range_fraction}")
            }
        }
    }
}

/// Reads a comma-separated list of numbers; those that are missing have their default.
pub(crate) fn read_numbers(
    what: &'static str,
    text: &str,
    list: &str,
    defaults: &[f64],
) -> Result<Vec<f64>, Error> {
    let mut numbers = defaults.to_vec();
    if list.is_empty() {
        return if text.ends_with(':') {
            Err(Error::syntax(what, text, "nothing follows the colon"))
        } else {
            Ok(numbers)
        };
    }
    for (i, word) in list.split(',').enumerate() {
        let slot = numbers.get_mut(i).ok_or_else(|| {
            let expected = format!("expected at most {} numbers", defaults.len());
            Error::syntax(what, text, expected)
        })?;
        *slot = word
            .trim()
            .parse()
            .map_err(|_| Error::syntax(what, text, format!("{word:?} is not a number")))?;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_display_agree() {
        let texts = [
            "sequential",
            "insert",
            "uniform",
            "zipf:0.99",
            "zipf_ycsb:0.5",
            "latest:1.2",
            "hotspot:0.2,0.8",
            "gaussian:0.5,0.1",
            "exponential:95,0.8571428571",
        ];
        for text in texts {
            assert_eq!(KeyDistribution::parse(text).unwrap().to_string(), text);
            let name = text.split(':').next().unwrap();
            assert!(KeyDistribution::parse(name).is_ok(), "{name} has defaults");
            assert!(NAMES.split(' ').any(|known| known == name));
        }
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("zipfian", "expected one of"),
            ("zipf:", "nothing follows"),
            ("zipf:much", "\"much\" is not a number"),
            ("zipf:0.9,1", "at most 1 numbers"),
            ("uniform:3", "at most 0 numbers"),
            ("zipf:-1", "theta is -1"),
            ("zipf:nan", "theta is NaN"),
            ("zipf_ycsb:1", "theta is 1"),
            ("hotspot:0,0.8", "hot fraction is 0"),
            ("hotspot:0.2,1.5", "hot share is 1.5"),
            ("gaussian:2", "mean fraction is 2"),
            ("gaussian:0.5,0", "standard deviation fraction is 0"),
            ("exponential:100", "percentile is 100"),
            ("exponential:95,0", "range fraction is 0"),
        ];
        for (text, problem) in cases {
            let message = KeyDistribution::parse(text).unwrap_err().to_string();
            assert!(message.contains(problem), "{text}: {message}");
        }
    }
}
