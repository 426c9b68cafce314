//! Sizes by a distribution: whole numbers within bounds, whatever its tail does.
//!
//! A draw is cut towards 0, as mutilate does, and at the limit. Values above a server's limit would
//! be refused, so the default keeps below memcached's 1 MiB with its overhead.

use keyrack_workload::{Distribution, Error, Rng};

/// Where value sizes are cut unless the user says otherwise.
pub(crate) const VALUE_BYTES_MAX: u32 = 1_000_000;

/// The largest size at all: Redis' limit of a string.
const SIZE_MAX: u32 = 512 << 20;

/// A distribution with bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    distribution: Distribution,
    max: u32,
}

impl Sizes {
    /// Sizes of values by `distribution`. One size may be as large as the user says, up to 512 MiB;
    /// drawn ones are cut at 1,000,000 bytes, or at `max`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a distribution that has no size: without its scale, or above the
    /// limit.
    pub fn new(distribution: &Distribution, max: Option<u32>) -> Result<Sizes, Error> {
        let missing = |name| Error::Parameter {
            name,
            value: "0".to_owned(),
            expected: "more than 0 for sizes: give all numbers of the distribution",
        };
        match *distribution {
            Distribution::Uniform { max: 0.0 } => return Err(missing("maximum")),
            Distribution::Exponential { rate: 0.0 } => return Err(missing("rate")),
            Distribution::Pareto { scale, .. } | Distribution::Gev { scale, .. }
                if scale == 0.0 =>
            {
                return Err(missing("scale"));
            }
            _ => {}
        }
        let max = match (max, distribution) {
            (Some(max), _) => max,
            (None, Distribution::Fixed(size)) => size.min(f64::from(u32::MAX)) as u32,
            (None, Distribution::Uniform { max }) => max.min(f64::from(u32::MAX)) as u32,
            (None, _) => VALUE_BYTES_MAX,
        };
        if max > SIZE_MAX {
            return Err(Error::Parameter {
                name: "largest size",
                value: max.to_string(),
                expected: "at most 512 MiB",
            });
        }
        Ok(Sizes { distribution: distribution.clone(), max })
    }

    /// Draws a size.
    #[inline]
    pub fn sample(&self, rng: &mut Rng) -> u32 {
        (self.distribution.sample(rng) as u32).min(self.max)
    }

    /// The largest size that can be drawn.
    #[must_use]
    pub fn max(&self) -> u32 {
        self.max
    }

    /// The distribution.
    #[must_use]
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The size of every draw, if there is only one.
    #[must_use]
    pub fn fixed(&self) -> Option<u32> {
        match self.distribution {
            Distribution::Fixed(size) => Some((size as u32).min(self.max)),
            _ => None,
        }
    }
}
