//! Random numbers that a seed replays.

use keyrack_testkit::random::{Announced, Draw, given_seed};

/// A stream of random numbers.
pub(super) struct Random {
    draw: Draw,
    seed: Announced,
}

impl Random {
    /// The stream of `KEYRACK_SEED`, or of `default`.
    pub(super) fn new(default: u64) -> Random {
        let seed = given_seed().unwrap_or(default);
        Random { draw: Draw::new(seed), seed: Announced(seed) }
    }

    /// What the stream began with.
    pub(super) fn seed(&self) -> u64 {
        self.seed.0
    }

    pub(super) fn next(&mut self) -> u64 {
        self.draw.next()
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.draw.below(end)
    }

    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number of any size, small ones as often as large ones.
    pub(super) fn number(&mut self) -> u64 {
        let shift = self.below(64);
        self.next() >> shift
    }

    pub(super) fn signed(&mut self) -> i64 {
        let shift = self.below(64);
        self.next().cast_signed() >> shift
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}
