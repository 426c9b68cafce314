//! Tests of the crate from outside: one behavioural suite for the real and the simulated file
//! system, a random comparison of the two, power losses told as stories, and faults at every
//! operation.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod agreement;
mod behaviour;
mod crash;
mod fault;
mod output;
mod real;

use std::path::Path;

/// A path, briefly.
fn at(path: &str) -> &Path {
    Path::new(path)
}

/// A seeded generator for random tests (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % count
    }
}

/// `count` seeds to run, from the one in the environment variable `KEYRACK_SEED` on, or from 0. As
/// many either way: some tests check what all their runs together have met.
fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let given = std::env::var("KEYRACK_SEED").ok().and_then(|seed| seed.parse().ok());
    let first: u64 = given.unwrap_or(0);
    (0..count).map(move |index| first.wrapping_add(index))
}
