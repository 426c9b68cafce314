//! A stream of values that costs no copy.
//!
//! All values are slices of one pool of bytes. The next value starts where the last one ended, so
//! that values written one after the other never overlap; a store that compresses blocks of
//! neighbours finds nothing to share. When the pool is used up the next lap starts at a random
//! offset:
//!
//! ```text
//! pool   |--------------- 1 MiB of starts ---------------|-- room for the largest --|
//! lap 1        [v0  ][v1 ][v2     ][v3]...
//! lap 2                  [v0 ][v1   ][v2 ]...
//! ```
//!
//! The pool is made of pieces of 128 bytes: first random bytes, then a run of one byte. The run's
//! share of the piece is the fraction that compresses away, so a value of a few hundred bytes or
//! more compresses as asked; an LZ compressor spends about four bytes on each run, which makes the
//! result 3 % larger than the ideal. Smaller values are right only on average.

use std::sync::Arc;

use crate::error::Error;
use crate::rng::{Phase, Rng};
use crate::sizes::{SizeDistribution, SizeSampler};

/// The number of places where a value may start.
const STARTS: usize = 1 << 20;

/// The length of a piece of random bytes and run.
const PIECE_BYTES: usize = 128;

/// The byte of the runs.
const RUN_BYTE: u8 = b'v';

/// The values of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueSpec {
    /// How many bytes a value has.
    pub size: SizeDistribution,
    /// The fraction of the bytes that a compressor can remove: 0 is random bytes, 0.5 halves, 1 is
    /// one byte repeated (and then all values of one size are equal).
    pub compress: f64,
    /// The seed of the contents. Sources with one seed draw from equal pools.
    pub seed: u64,
}

/// An endless stream of values for one worker.
#[derive(Debug)]
pub struct ValueSource {
    pool: Arc<[u8]>,
    sizes: SizeSampler,
    rng: Rng,
    offset: usize,
}

impl ValueSource {
    /// A source of the values that `spec` describes; `rng` draws sizes and offsets.
    ///
    /// Fills a pool of 1 MiB and one value of the largest size, in a fraction of a millisecond for
    /// each MiB. Workers can share a pool by [`ValueSource::fork`].
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] when a size is out of range or `compress` is not in 0 to 1.
    pub fn new(spec: &ValueSpec, rng: Rng) -> Result<ValueSource, Error> {
        let sizes = SizeSampler::new(&spec.size)?;
        let is_fine = (0.0..=1.0).contains(&spec.compress);
        Error::check("compress", spec.compress, is_fine, "0 to 1")?;
        let random_bytes = (PIECE_BYTES as f64 * (1.0 - spec.compress)).round() as usize;
        let mut pool = vec![RUN_BYTE; STARTS + spec.size.max() as usize];
        let mut contents = Rng::stream(spec.seed, Phase::Setup, 0, 0);
        for piece in pool.chunks_mut(PIECE_BYTES) {
            let random = random_bytes.min(piece.len());
            contents.fill(&mut piece[..random]);
        }
        Ok(ValueSource::start(pool.into(), sizes, rng))
    }

    /// A source of the same values with its own sizes and offsets; shares the pool.
    #[must_use]
    pub fn fork(&self, rng: Rng) -> ValueSource {
        ValueSource::start(Arc::clone(&self.pool), self.sizes.clone(), rng)
    }

    /// The next value. Differs from the previous ones as far as its length and contents allow.
    #[inline]
    pub fn next_value(&mut self) -> &[u8] {
        let size = self.sizes.sample(&mut self.rng) as usize;
        if self.offset + size > self.pool.len() {
            self.offset = self.rng.below(STARTS as u64) as usize;
        }
        let start = self.offset;
        self.offset = start + size;
        &self.pool[start..start + size]
    }

    /// A value of `bytes` bytes at a place that follows from `place` alone: the same for every
    /// source of one specification. Cut at the largest size of the specification.
    #[inline]
    #[must_use]
    pub fn value_at(&self, place: u64, bytes: usize) -> &[u8] {
        let start = (place % STARTS as u64) as usize;
        let end = (start + bytes).min(self.pool.len());
        &self.pool[start..end]
    }

    fn start(pool: Arc<[u8]>, sizes: SizeSampler, mut rng: Rng) -> ValueSource {
        let offset = rng.below(STARTS as u64) as usize;
        ValueSource { pool, sizes, rng, offset }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::check::SEED;

    fn source(size: &str, compress: f64) -> ValueSource {
        let size = SizeDistribution::parse(size).unwrap();
        let spec = ValueSpec { size, compress, seed: SEED };
        ValueSource::new(&spec, Rng::stream(SEED, Phase::Run, 0, 1)).unwrap()
    }

    /// The size of `bytes` after a greedy run-length coding with four bytes a run and an order-0
    /// entropy code for the rest, as a fraction of the original.
    fn estimate(bytes: &[u8]) -> f64 {
        let mut literals = [0u32; 256];
        let (mut runs, mut count) = (0u32, 0u32);
        for group in bytes.chunk_by(|a, b| a == b) {
            if group.len() > 8 {
                runs += 1;
            } else {
                literals[group[0] as usize] += group.len() as u32;
                count += group.len() as u32;
            }
        }
        let bits: f64 = literals
            .iter()
            .filter(|n| **n > 0)
            .map(|n| f64::from(*n) * (f64::from(count) / f64::from(*n)).log2())
            .sum();
        (f64::from(runs) * 4.0 + bits / 8.0) / bytes.len() as f64
    }

    #[test]
    fn a_place_has_one_value_in_every_source() {
        let (one, other) = (source("0:5000", 0.5), source("5000", 0.5));
        for place in [0, 7, u64::MAX, (1 << 20) - 1] {
            assert_eq!(one.value_at(place, 5000).len(), 5000);
            assert_eq!(one.value_at(place, 5000), other.value_at(place, 5000));
        }
        assert_ne!(one.value_at(1, 100), one.value_at(4000, 100));
    }

    #[test]
    fn values_compress_as_asked() {
        for compress in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let mut source = source("4096", compress);
            let bytes: Vec<u8> = (0..100).flat_map(|_| source.next_value().to_vec()).collect();
            let left = estimate(&bytes);
            let ideal = 1.0 - compress;
            let range = ideal - 0.01..ideal + 0.04;
            assert!(range.contains(&left), "compress {compress}: {left} is left");
        }
    }

    #[test]
    fn values_differ_within_and_between_laps() {
        let mut source = source("100", 0.5);
        let values: HashSet<Vec<u8>> = (0..100_000).map(|_| source.next_value().to_vec()).collect();
        // A lap holds about 10 000 values; laps meet at the same offset now and then.
        assert!(values.len() > 90_000, "{} different values; SEED={SEED}", values.len());
    }

    #[test]
    fn successive_values_do_not_overlap() {
        let mut source = source("100:900", 0.0);
        let base = source.pool.as_ptr().addr();
        let mut last_end = None;
        let mut laps = 0;
        for _ in 0..10_000 {
            let value = source.next_value();
            let start = value.as_ptr().addr() - base;
            if last_end.is_some_and(|end| end != start) {
                laps += 1;
            }
            last_end = Some(start + value.len());
        }
        // 5 MB of values in laps of half the pool on average; every other value follows its
        // neighbour.
        assert!((3..=30).contains(&laps), "{laps} laps; SEED={SEED}");
    }

    #[test]
    fn sizes_are_drawn_and_bounded() {
        let mut uniform = source("10:20", 0.5);
        let sizes: HashSet<usize> = (0..1000).map(|_| uniform.next_value().len()).collect();
        assert_eq!(sizes, (10..=20).collect());
        let mut large = source("3000000", 0.5);
        let starts: HashSet<usize> = (0..10)
            .map(|_| {
                assert_eq!(large.next_value().len(), 3_000_000);
                large.offset
            })
            .collect();
        assert!(starts.len() > 5, "large values differ");
        let mut empty = source("0", 0.5);
        assert!((0..10).all(|_| empty.next_value().is_empty()));
        let mut etc = source("fb_value", 0.5);
        assert!((0..10_000).any(|_| etc.next_value().len() > 1000));
    }

    #[test]
    fn forks_share_the_pool_and_seeds_decide() {
        let first = source("64", 0.0);
        let mut fork = first.fork(Rng::from_seed(1));
        let mut same = first.fork(Rng::from_seed(1));
        let mut other = first.fork(Rng::from_seed(2));
        assert!(Arc::ptr_eq(&first.pool, &fork.pool));
        assert_eq!(fork.next_value(), same.next_value());
        assert_ne!(fork.next_value(), other.next_value());
        assert_eq!(first.pool, source("64", 0.0).pool);
    }

    #[test]
    fn mistakes_are_refused() {
        let build = |size, compress| {
            let spec = ValueSpec { size, compress, seed: 1 };
            ValueSource::new(&spec, Rng::from_seed(1)).unwrap_err().to_string()
        };
        for compress in [-0.1, 1.1, f64::NAN] {
            assert!(build(SizeDistribution::Fixed(1), compress).contains("compress is"));
        }
        assert!(build(SizeDistribution::Fixed(u32::MAX), 0.0).contains("largest size"));
    }
}
