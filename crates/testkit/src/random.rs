//! The random numbers of tests: one generator, and the settings that replay and size a test.
//!
//! The generator is splitmix64 (Steele, Lea and Flood, 2014): a counter that grows by a fixed odd
//! step, and a bijective mix of it. Its sequence is fixed, because seeds of past failures and some
//! golden files depend on it. Operations and loads draw from [`keyrack_workload::Rng`] instead,
//! whose streams are part of results.
//!
//! | variable | effect |
//! |---|---|
//! | `KEYRACK_SEED=N` | the seed of every random test |
//! | `KEYRACK_STRESS=N` | a factor for the size of long tests, see [`factor`] |
//! | `KEYRACK_BRIEF=1` | the longest tests do less, see [`is_brief`]; 0 turns it off |

use std::env;

/// The step of splitmix64: 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random numbers from a seed. Equal seeds give equal sequences on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw(u64);

impl Draw {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Draw(seed)
    }

    /// The next 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "a sequence without an end is no iterator")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `limit`, which is positive. Small numbers are a little more probable, which
    /// no test notices.
    pub fn below<N: Limit>(&mut self, limit: N) -> N {
        limit.below(self.next())
    }

    /// True once in `count` draws on average.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of `items`, which are not empty.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Bytes that hardly compress.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// The types of numbers that [`Draw::below`] draws.
pub trait Limit: Copy {
    /// `bits` modulo this limit.
    #[must_use]
    fn below(self, bits: u64) -> Self;
}

macro_rules! limits {
    ($($number:ty),*) => {$(
        impl Limit for $number {
            fn below(self, bits: u64) -> Self {
                let limit = u64::try_from(self).expect("limits are positive");
                (bits % limit) as Self
            }
        }
    )*};
}

limits!(u8, u16, u32, u64, usize, i32);

/// The mix of splitmix64, a bijection: near numbers become far ones.
#[must_use]
pub fn mix(word: u64) -> u64 {
    let mixed = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// The seed of `KEYRACK_SEED`, if there is one.
///
/// # Panics
/// If the variable is not a number.
#[must_use]
pub fn given_seed() -> Option<u64> {
    let text = env::var("KEYRACK_SEED").ok()?;
    Some(text.parse().expect("KEYRACK_SEED is a number"))
}

/// The seeds of a random test.
///
/// # Panics
/// As [`given_seed`].
#[must_use]
pub fn seeds() -> Vec<u64> {
    seeds_or([1, 20_260, 0xdead_beef])
}

/// The given seed alone, or `defaults`.
///
/// # Panics
/// As [`given_seed`].
#[must_use]
pub fn seeds_or(defaults: impl IntoIterator<Item = u64>) -> Vec<u64> {
    given_seed().map_or_else(|| defaults.into_iter().collect(), |seed| vec![seed])
}

/// `count` seeds, counted from the given one or from 0. The number of seeds is the same either
/// way, because some tests check what all their runs together have covered.
///
/// # Panics
/// As [`given_seed`].
pub fn successive_seeds(count: u64) -> impl Iterator<Item = u64> {
    let first = given_seed().unwrap_or(0);
    (0..count).map(move |index| first.wrapping_add(index))
}

/// The given seed, or `default`. Prints it: the test runner shows the line if the test fails.
///
/// # Panics
/// As [`given_seed`].
#[expect(clippy::print_stderr, reason = "the seed of a failed test is printed")]
pub fn seed_or(default: u64) -> u64 {
    let seed = given_seed().unwrap_or(default);
    eprintln!("SEED={seed}");
    seed
}

/// How much longer than usual to test: `KEYRACK_STRESS`, or 1.
///
/// # Panics
/// If the variable is not a number.
#[must_use]
pub fn factor() -> usize {
    let factor = env::var("KEYRACK_STRESS").ok();
    factor.map_or(1, |factor| factor.parse().expect("KEYRACK_STRESS is a number"))
}

/// Whether the longest tests do only a part of their work. `KEYRACK_BRIEF` says so; without it,
/// they do so in builds with debug assertions, where everything takes many times as long.
#[must_use]
pub fn is_brief() -> bool {
    env::var_os("KEYRACK_BRIEF").map_or(cfg!(debug_assertions), |brief| brief != "0")
}

/// Prints its seed if the test fails while it lives.
#[derive(Debug)]
pub struct Announced(pub u64);

impl Drop for Announced {
    #[expect(clippy::print_stderr, reason = "the seed of a failed test is printed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SEED={}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut draw = Draw::new(1_234_567);
        let first = [draw.next(), draw.next(), draw.next()];
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
