//! A stream of keys: which index comes next, and its bytes.
//!
//! ```text
//! distribution -> index in 0..population -> permutation (if scrambled) -> + first
//!              -> format -> bytes
//! ```
//!
//! The population is `first .. first + count` at the start. With a [`Counter`] it grows: indexes
//! below the counter may be read too. A scramble permutes the initial `count` indexes and leaves
//! newer ones where they are, so the hot keys stay the same ones while the population grows, and a
//! new key of a Zipf distribution enters as the coldest rank.
//!
//! The normaliser of a Zipf distribution depends on the population. It is computed again when the
//! population has grown by 1/4096, not on every insert. Until then a `zipf` source cannot see the
//! newest keys of that fraction, and a `latest` source, whose distances start at the newest key,
//! the oldest.
//!
//! A draw costs a branch on the distribution, no call through a pointer and no allocation.

use std::fmt;

use crate::counter::Counter;
use crate::error::Error;
use crate::format::{KeyFormat, KeyWriter, ycsb_hash};
use crate::key_distribution::KeyDistribution;
use crate::rng::Rng;
use crate::scramble::Permutation;
use crate::zipf::{RANKS_MAX, Zipf, ZipfYcsb};

/// The population is re-measured for Zipf distributions when it has grown by one part in this many.
const GROWTH_SLACK: u64 = 4096;

/// A set of keys and the way they are chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct KeySpec {
    /// How an index becomes bytes.
    pub format: KeyFormat,
    /// The number of keys at the start, at most 2^53.
    pub count: u64,
    /// The index of the first key.
    pub first: u64,
    /// How keys are chosen.
    pub distribution: KeyDistribution,
    /// Whether the indexes are permuted, so that hot keys are spread over the key space.
    pub scramble: bool,
}

/// An endless stream of keys for one worker.
#[derive(Debug)]
pub struct KeySource {
    sampler: Sampler,
    rng: Rng,
    counter: Option<Counter>,
    permutation: Option<Permutation>,
    writer: KeyWriter,
    first: u64,
    count: u64,
    last: u64,
    /// Keys drawn before a sequential source repeats one.
    lap: u64,
    distribution: KeyDistribution,
    /// Inserted indexes that the counter waits for.
    pending: Vec<u64>,
}

/// The distribution, ready to be drawn from.
#[derive(Debug)]
enum Sampler {
    SequentialShared,
    SequentialShard { next: u64, start: u64, step: u64 },
    Insert,
    Uniform,
    Zipf(Zipf),
    ZipfYcsb(ZipfYcsb),
    Latest(Zipf),
    Hotspot { hot_fraction: f64, hot_share: f64 },
    Gaussian { mean_fraction: f64, stddev_fraction: f64 },
    Exponential { rate: f64, bounded_mass: f64 },
}

impl KeySource {
    /// A source of the keys that `spec` describes, drawing from `rng`.
    ///
    /// `counter` counts keys relative to `spec.first`. For `insert` it gives out the new keys and
    /// is required; for `sequential` it is a cursor that workers share; for all others it says how
    /// far the population has grown. `shard` is (thread, threads), used by `sequential` without a
    /// counter: the worker visits `thread`, `thread + threads`, and so on.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] when a number is out of range, the population is empty, the shard does
    /// not exist, or `latest` is to be scrambled; [`Error::CounterMissing`] for `insert` without a
    /// counter.
    pub fn new(
        spec: &KeySpec,
        rng: Rng,
        counter: Option<Counter>,
        shard: Option<(u32, u32)>,
    ) -> Result<KeySource, Error> {
        spec.distribution.check()?;
        let inserts = spec.distribution == KeyDistribution::Insert;
        if inserts && counter.is_none() {
            return Err(Error::CounterMissing);
        }
        let is_fine = spec.count <= RANKS_MAX && (spec.count > 0 || inserts);
        Error::check("number of keys", spec.count, is_fine, "1 to 2^53")?;
        Error::check("first key", spec.first, spec.first <= RANKS_MAX, "0 to 2^53")?;
        let (thread, threads) = shard.unwrap_or((0, 1));
        let value = format!("{thread} of {threads}");
        Error::check("shard", value, thread < threads, "a thread below the number of threads")?;
        let (thread, threads) = (u64::from(thread), u64::from(threads));
        let mut lap = spec.count;
        let sampler = match spec.distribution {
            KeyDistribution::Sequential if counter.is_some() => Sampler::SequentialShared,
            KeyDistribution::Sequential => {
                lap = spec.count.saturating_sub(thread).div_ceil(threads);
                let start = thread % spec.count;
                Sampler::SequentialShard { next: start, start, step: threads }
            }
            KeyDistribution::Insert => Sampler::Insert,
            KeyDistribution::Uniform => Sampler::Uniform,
            KeyDistribution::Zipf { theta } => Sampler::Zipf(Zipf::new(spec.count, theta)?),
            KeyDistribution::ZipfYcsb { theta } => Sampler::ZipfYcsb(ZipfYcsb::new(theta)?),
            KeyDistribution::Latest { .. } if spec.scramble => {
                return Err(Error::parameter(
                    "scramble",
                    true,
                    "false: `latest` follows key order",
                ));
            }
            KeyDistribution::Latest { theta } => Sampler::Latest(Zipf::new(spec.count, theta)?),
            KeyDistribution::Hotspot { hot_fraction, hot_share } => {
                Sampler::Hotspot { hot_fraction, hot_share }
            }
            KeyDistribution::Gaussian { mean_fraction, stddev_fraction } => {
                Sampler::Gaussian { mean_fraction, stddev_fraction }
            }
            KeyDistribution::Exponential { percentile, range_fraction } => {
                let rate = -(1.0 - percentile / 100.0).ln() / range_fraction;
                Sampler::Exponential { rate, bounded_mass: -(-rate).exp_m1() }
            }
        };
        Ok(KeySource {
            sampler,
            rng,
            counter,
            permutation: spec.scramble.then(|| Permutation::new(spec.count)),
            writer: KeyWriter::new(&spec.format, spec.count),
            first: spec.first,
            count: spec.count,
            last: spec.first,
            lap,
            distribution: spec.distribution,
            pending: Vec::new(),
        })
    }

    /// Draws the index of the next key, `first` included.
    #[inline(always)]
    pub fn next_index(&mut self) -> u64 {
        let drawn = self.draw();
        let placed = match &self.permutation {
            Some(permutation) if drawn < self.count => permutation.apply(drawn),
            _ => drawn,
        };
        self.last = self.first.wrapping_add(placed);
        self.last
    }

    /// Draws the next key. The bytes hold until the next call.
    #[inline(always)]
    pub fn next_key(&mut self) -> &[u8] {
        let index = self.next_index();
        self.writer.write(index)
    }

    /// The key with `index`, as [`KeySource::next_index`] returns it; not a draw.
    #[inline]
    pub fn key_at(&mut self, index: u64) -> &[u8] {
        self.writer.write(index)
    }

    /// The index of the last draw; `first` before any.
    #[inline]
    #[must_use]
    pub fn last_index(&self) -> u64 {
        self.last
    }

    /// The number of keys that may be read now.
    #[inline]
    #[must_use]
    pub fn count(&self) -> u64 {
        match (&self.counter, &self.sampler) {
            (None, _) | (_, Sampler::SequentialShared) => self.count,
            (Some(counter), _) => counter.get().max(self.count),
        }
    }

    /// The number of draws before a sequential source starts again: the size of its shard, which is
    /// 0 when there are more workers than keys. For other distributions, the initial number of
    /// keys.
    #[must_use]
    pub fn lap(&self) -> u64 {
        self.lap
    }

    /// Says that every key drawn so far by `insert` is in the store, or that its insert failed.
    ///
    /// Needed only with a counter that waits for it ([`Counter::acknowledged`]).
    #[inline]
    pub fn complete(&mut self) {
        if let Some(counter) = &self.counter {
            for index in self.pending.drain(..) {
                counter.complete(index);
            }
        }
    }

    /// The source in words, such as `zipf:0.99 over 1000000 keys "k:%012d", scrambled, hottest key
    /// 6.50 %`.
    #[must_use]
    pub fn describe(&self) -> String {
        self.to_string()
    }

    /// Draws an index relative to `first`, before any permutation.
    #[inline(always)]
    fn draw(&mut self) -> u64 {
        // The usual case stays small enough to be part of its caller.
        match (&self.sampler, &self.counter) {
            (Sampler::Uniform, None) => self.rng.below(self.count),
            _ => self.draw_any(),
        }
    }

    #[inline(never)]
    fn draw_any(&mut self) -> u64 {
        let population = self.count();
        let rng = &mut self.rng;
        match &mut self.sampler {
            Sampler::SequentialShared => match &self.counter {
                Some(cursor) => cursor.next() % population,
                None => 0,
            },
            Sampler::SequentialShard { next, start, step } => {
                let index = *next;
                *next = if index + *step < population { index + *step } else { *start };
                index
            }
            Sampler::Insert => match &self.counter {
                Some(counter) => {
                    let index = counter.next();
                    if counter.is_acknowledged() {
                        self.pending.push(index);
                    }
                    index
                }
                None => 0,
            },
            Sampler::Uniform => rng.below(population),
            Sampler::Zipf(zipf) => {
                follow(zipf, population);
                zipf.sample(rng)
            }
            Sampler::ZipfYcsb(zipf) => ycsb_hash(zipf.sample(rng)) % self.count,
            Sampler::Latest(zipf) => {
                follow(zipf, population);
                population - 1 - zipf.sample(rng)
            }
            Sampler::Hotspot { hot_fraction, hot_share } => {
                let hot = (population as f64 * *hot_fraction).ceil() as u64;
                let hot = hot.clamp(1, population);
                if hot == population || rng.chance(*hot_share) {
                    rng.below(hot)
                } else {
                    hot + rng.below(population - hot)
                }
            }
            Sampler::Gaussian { mean_fraction, stddev_fraction } => loop {
                let x = *mean_fraction + *stddev_fraction * rng.normal();
                if (0.0..1.0).contains(&x) {
                    break scale(x, population);
                }
            },
            Sampler::Exponential { rate, bounded_mass } => {
                // Inverting the distribution cut at 1 gives what repeating draws beyond 1 would
                // give.
                let x = -(-rng.unit() * *bounded_mass).ln_1p() / *rate;
                scale(x, population)
            }
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pattern = self.writer.format().to_string();
        write!(f, "{} over {} keys {pattern:?}", self.distribution, self.count)?;
        if self.first > 0 {
            write!(f, " from {}", self.first)?;
        }
        if self.permutation.is_some() {
            f.write_str(", scrambled")?;
        }
        match &self.sampler {
            Sampler::Zipf(zipf) => write!(f, ", hottest key {:.2} %", zipf.share(0) * 100.0),
            Sampler::ZipfYcsb(zipf) => {
                write!(f, ", hottest key {:.2} %", zipf.head_share() * 100.0)
            }
            _ => Ok(()),
        }
    }
}

/// The index at fraction `x` of the population; rounding may reach its end.
#[inline]
fn scale(x: f64, population: u64) -> u64 {
    ((x * population as f64) as u64).min(population - 1)
}

/// Lets a Zipf distribution grow with the population, in steps.
#[inline]
fn follow(zipf: &mut Zipf, population: u64) {
    let known = zipf.count();
    if population > known && population - known > known / GROWTH_SLACK {
        zipf.grow(population);
    }
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
