//! Which key comes next.
//!
//! The distributions are `workload`'s; mutilate knows `uniform` alone. Popular keys of a Zipf
//! distribution are spread over the indexes, so that they do not all have the same sizes nor sit on
//! one server.

use std::fmt;

use keyrack_workload::{Error, KeyDistribution, KeyFormat, KeySource, KeySpec, Rng};

/// A distribution of popularity over a number of keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Popularity {
    distribution: KeyDistribution,
}

impl Popularity {
    /// Reads `uniform`, `zipf:0.99`, `hotspot:0.2,0.8`, `latest:0.99`, `gaussian:0.5,0.1`,
    /// `exponential:95,0.85` or `sequential`.
    ///
    /// # Errors
    /// An unknown name, a number out of range, `insert`, which makes new keys.
    pub fn parse(text: &str) -> Result<Popularity, Error> {
        let distribution = KeyDistribution::parse(text)?;
        if distribution == KeyDistribution::Insert {
            return Err(Error::Syntax {
                what: "key distribution",
                text: text.to_owned(),
                problem: "keys are those that were loaded; there are no new ones".to_owned(),
            });
        }
        Ok(Popularity { distribution })
    }

    /// A source of indexes below `records` ([`KeySource::next_index`]). `shard` is which of how
    /// many connections it is for: `sequential` deals the keys out.
    ///
    /// # Errors
    /// No keys, or more than 2^53.
    pub fn source(&self, records: u64, rng: Rng, shard: (u32, u32)) -> Result<KeySource, Error> {
        let scramble = matches!(
            self.distribution,
            KeyDistribution::Zipf { .. } | KeyDistribution::Exponential { .. }
        );
        let spec = KeySpec {
            format: KeyFormat::parse("%d")?,
            count: records,
            first: 0,
            distribution: self.distribution,
            scramble,
        };
        KeySource::new(&spec, rng, None, Some(shard))
    }
}

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.distribution.fmt(f)
    }
}
