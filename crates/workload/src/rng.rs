//! The random number generator, and how one seed becomes many independent streams.
//!
//! The generator is xoshiro256++: 256 bits of state, about a nanosecond a draw. Its output for a
//! given seed is part of what this crate promises, because results are replayed from their seed.
//!
//! A run has one seed and needs a stream for every use: each thread, each phase, each list of keys
//! or values. Adding the thread number to the seed would make (seed 1, thread 1) equal to (seed 2,
//! thread 0), and starting load and run alike would make the run revisit keys in load order.
//! [`Rng::stream`] therefore folds the four coordinates through a full-avalanche mixer, one by one:
//!
//! ```text
//! h = mix64(seed)
//! h = mix64(h + phase)   h = mix64(h + thread)   h = mix64(h + index)
//! state = four successive outputs of splitmix64 started at h
//! ```
//!
//! Two different coordinates share a state only by a chance of 2^-64. Integers are identical on
//! every machine. Draws that go through `ln`, `exp` or `pow` may differ in the last bit between C
//! libraries.

use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The increment of splitmix64: 2^64 divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes 64 bits so that every input bit changes every output bit with probability one half.
///
/// This is one step of splitmix64. It is a bijection of the 64-bit numbers.
#[inline]
#[must_use]
pub const fn mix64(x: u64) -> u64 {
    let z = x.wrapping_add(GOLDEN);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The 64-bit FNV-1a hash of the eight little-endian bytes of `x`.
///
/// Two formats that exist elsewhere depend on it: the hashed keys of YCSB and the key sizes of
/// mutilate. Every byte costs a multiplication that waits for the one before. A zero byte only
/// multiplies, so the four high bytes of numbers below 2^32 are one multiplication by the fourth
/// power of the prime.
#[inline]
#[must_use]
pub const fn fnv1a64(x: u64) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    const PRIME_POWER_4: u64 = PRIME.wrapping_pow(4);
    let bytes = x.to_le_bytes();
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    let mut i = 0;
    while i < 4 {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(PRIME);
        i += 1;
    }
    if x >> 32 == 0 {
        return hash.wrapping_mul(PRIME_POWER_4);
    }
    while i < 8 {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(PRIME);
        i += 1;
    }
    hash
}

/// The part of a run that a stream of random numbers belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Filling the store before the measurement.
    Load,
    /// The measurement.
    Run,
    /// Everything drawn before any thread starts, such as the contents of a value pool.
    Setup,
    /// A further phase, by number.
    Other(u32),
}

impl Phase {
    /// A number that differs for all phases.
    const fn word(self) -> u64 {
        match self {
            Phase::Load => 1,
            Phase::Run => 2,
            Phase::Setup => 3,
            Phase::Other(number) => (1 << 32) | number as u64,
        }
    }
}

/// A seeded generator of random numbers (xoshiro256++).
///
/// Not for secrets. Cloning copies the state: both copies continue with the same numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    inner: Xoshiro256PlusPlus,
}

impl Rng {
    /// The stream of `index` in `thread` during `phase` of the run that has `seed`.
    #[must_use]
    pub fn stream(seed: u64, phase: Phase, thread: u32, index: u32) -> Rng {
        let coordinates = [phase.word(), u64::from(thread), u64::from(index)];
        let start =
            coordinates.iter().fold(mix64(seed), |hash, word| mix64(hash.wrapping_add(*word)));
        Rng::from_seed(start)
    }

    /// A stream from one number. Successive seeds give unrelated streams.
    #[must_use]
    pub fn from_seed(seed: u64) -> Rng {
        Rng { inner: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }

    /// A uniform number in `0..n`, without bias. Returns 0 when `n` is 0.
    ///
    /// Lemire's method: multiply by `n` and keep the high half. The few low halves that would make
    /// some results more likely than others are drawn again; the division that finds them is rare.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            let rejected_below = n.wrapping_neg() % n;
            while (product as u64) < rejected_below {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// A uniform number in `lo..=hi`. Returns `lo` when `hi < lo`.
    #[inline]
    pub fn range(&mut self, lo: u64, hi: u64) -> u64 {
        if hi <= lo {
            return lo;
        }
        match (hi - lo).checked_add(1) {
            Some(count) => lo + self.below(count),
            None => self.next_u64(),
        }
    }

    /// A uniform number in `[0, 1)`, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform number in `(0, 1]`, a multiple of 2^-53: safe to take the logarithm of.
    #[inline]
    pub fn unit_positive(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with probability `p`. Never for `p <= 0` or NaN, always for `p >= 1`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// An exponential number with mean 1.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -self.unit_positive().ln()
    }

    /// A normal number with mean 0 and standard deviation 1, by Marsaglia's polar method.
    ///
    /// The method yields two numbers; the second is dropped, so that the generator has no state
    /// besides its 256 bits.
    #[inline]
    pub fn normal(&mut self) -> f64 {
        loop {
            let x = 2.0 * self.unit() - 1.0;
            let y = 2.0 * self.unit() - 1.0;
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }

    /// Fills `bytes` with uniform bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use statrs::distribution::{ContinuousCDF, Exp, Normal};

    use super::*;
    use crate::check::{SEED, assert_chi_square, assert_ks};

    #[test]
    fn the_stream_of_a_seed_is_stable() {
        // Worked out by hand from the definitions of splitmix64 and xoshiro256++ in plain
        // arithmetic.
        let mut state = [0u64; 4];
        for (i, word) in state.iter_mut().enumerate() {
            *word = mix64(42u64.wrapping_add((i as u64).wrapping_mul(GOLDEN)));
        }
        let mut rng = Rng::from_seed(42);
        for _ in 0..100 {
            let expected = state[0].wrapping_add(state[3]).rotate_left(23).wrapping_add(state[0]);
            let shifted = state[1] << 17;
            state[2] ^= state[0];
            state[3] ^= state[1];
            state[1] ^= state[2];
            state[0] ^= state[3];
            state[2] ^= shifted;
            state[3] = state[3].rotate_left(45);
            assert_eq!(rng.next_u64(), expected);
        }
    }

    #[test]
    fn streams_differ_in_every_coordinate() {
        let first = |seed, phase, thread, index| Rng::stream(seed, phase, thread, index).next_u64();
        assert_ne!(first(1, Phase::Run, 1, 0), first(2, Phase::Run, 0, 0));
        assert_ne!(first(1, Phase::Run, 1, 0), first(1, Phase::Run, 0, 1));
        assert_ne!(first(1, Phase::Load, 1, 0), first(1, Phase::Run, 1, 0));
        assert_eq!(first(7, Phase::Run, 3, 2), first(7, Phase::Run, 3, 2));
        let phases = [Phase::Load, Phase::Run, Phase::Setup, Phase::Other(0), Phase::Other(1)];
        let mut seen = HashSet::new();
        for seed in 0..16 {
            for phase in phases {
                for thread in 0..16 {
                    for index in 0..8 {
                        seen.insert(first(seed, phase, thread, index));
                    }
                }
            }
        }
        assert_eq!(seen.len(), 16 * 5 * 16 * 8);
    }

    #[test]
    fn neighbouring_streams_are_uncorrelated() {
        // Pairs (stream t, stream t + 1) fall evenly into a 16 x 16 grid.
        let mut grid = vec![0u64; 256];
        for thread in 0..64 {
            let mut a = Rng::stream(SEED, Phase::Run, thread, 0);
            let mut b = Rng::stream(SEED, Phase::Run, thread + 1, 0);
            for _ in 0..2000 {
                grid[(a.below(16) * 16 + b.below(16)) as usize] += 1;
            }
        }
        assert_chi_square("stream pairs", &grid, &[1.0; 256]);
    }

    #[test]
    fn below_is_uniform_and_in_range() {
        let mut rng = Rng::from_seed(SEED);
        for n in [1u64, 2, 3, 7, 100, 1000] {
            let mut counts = vec![0u64; n as usize];
            for _ in 0..200_000 {
                counts[rng.below(n) as usize] += 1;
            }
            assert_chi_square("below", &counts, &vec![1.0; n as usize]);
        }
        assert_eq!(rng.below(0), 0);
        // A plain multiply would favour a third of the results by one half here.
        let n = 3u64 << 62;
        let mut thirds = vec![0u64; 3];
        for _ in 0..100_000 {
            thirds[(rng.below(n) >> 62) as usize] += 1;
        }
        assert_chi_square("below 3 * 2^62", &thirds, &[1.0; 3]);
        let mut residues = vec![0u64; 3];
        for _ in 0..100_000 {
            residues[(rng.below(n) % 3) as usize] += 1;
        }
        assert_chi_square("below 3 * 2^62 mod 3", &residues, &[1.0; 3]);
    }

    #[test]
    fn range_is_inclusive() {
        let mut rng = Rng::from_seed(SEED);
        let seen: HashSet<u64> = (0..1000).map(|_| rng.range(5, 8)).collect();
        assert_eq!(seen, HashSet::from([5, 6, 7, 8]));
        assert_eq!(rng.range(9, 9), 9);
        assert_eq!(rng.range(9, 3), 9);
        assert!((0..64).any(|_| rng.range(0, u64::MAX) > u64::MAX / 2));
    }

    #[test]
    fn chance_has_its_probability() {
        let mut rng = Rng::from_seed(SEED);
        let hits = (0..100_000).filter(|_| rng.chance(0.3)).count() as u64;
        assert_chi_square("chance", &[hits, 100_000 - hits], &[0.3, 0.7]);
        assert!((0..1000).all(|_| rng.chance(1.0) && !rng.chance(0.0) && !rng.chance(f64::NAN)));
    }

    #[test]
    fn continuous_draws_follow_their_laws() {
        let mut rng = Rng::from_seed(SEED);
        let normal = Normal::new(0.0, 1.0).unwrap();
        let exponential = Exp::new(1.0).unwrap();
        assert_ks("unit", (0..100_000).map(|_| rng.unit()).collect(), |x| x.clamp(0.0, 1.0));
        assert_ks("normal", (0..100_000).map(|_| rng.normal()).collect(), |x| normal.cdf(x));
        let gaps = (0..100_000).map(|_| rng.exponential()).collect();
        assert_ks("exponential", gaps, |x| exponential.cdf(x));
    }

    #[test]
    fn fnv1a64_follows_its_definition() {
        let mut rng = Rng::from_seed(SEED);
        let numbers = [0, 1, 255, 256, u64::from(u32::MAX), 1 << 32, u64::MAX];
        let random: Vec<u64> = (0..64).map(|shift| rng.next_u64() >> shift).collect();
        for x in numbers.into_iter().chain(random) {
            let step =
                |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
            let plain = x.to_le_bytes().into_iter().fold(0xCBF2_9CE4_8422_2325, step);
            assert_eq!(fnv1a64(x), plain, "{x:#x}");
        }
    }

    #[test]
    fn fill_covers_odd_lengths() {
        let mut bytes = [0u8; 1003];
        Rng::from_seed(SEED).fill(&mut bytes);
        assert!(bytes[996..].iter().any(|b| *b != 0));
        assert!(bytes.iter().collect::<HashSet<_>>().len() > 200);
    }
}
