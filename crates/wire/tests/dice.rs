//! Seeded chance for the random tests: one seed makes one run, whatever the machine.
//!
//! `KEYRACK_SEED=n` replays a run, `KEYRACK_FUZZ=n` says how many messages each fuzzer makes
//! from each seed, `KEYRACK_FUZZ_S=n` for how many seconds.

use keyrack_testkit::fuzz::Budget;
use keyrack_testkit::random::{Announced, Draw, seeds_or};

pub(crate) fn seeds() -> Vec<u64> {
    seeds_or([1, 20_261])
}

/// What a fuzzer may spend on each of the seeds: messages, or its part of a protocol's time.
pub(crate) fn budget_per_seed(parts: u64) -> Budget {
    let seeds = seeds().len() as u64;
    Budget::new(200_000 / seeds, parts * seeds)
}

/// Draws numbers. Prints its seed if the test fails while it lives.
pub(crate) struct Dice {
    draw: Draw,
    _announced: Announced,
}

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self { draw: Draw::new(seed), _announced: Announced(seed) }
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.draw.next()
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.draw.below(end)
    }

    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.word().to_le_bytes()[7]
    }

    pub(crate) fn some_bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// A number of either sign and any size.
    pub(crate) fn signed(&mut self) -> i64 {
        let shift = self.below(64);
        self.word().cast_signed() >> shift
    }

    /// Bytes, mostly few, mostly of those that mean something in a text protocol.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let length = match self.below(32) {
            0 => self.below(700),
            1..=4 => 0,
            _ => self.below(14),
        };
        let plain = b"ab019 \r\n\"'\\x*$-+:.?";
        let raw = self.once_in(3);
        let byte =
            |dice: &mut Self| if raw { dice.word() as u8 } else { plain[dice.below(plain.len())] };
        (0..length).map(|_| byte(self)).collect()
    }

    /// A number, often at the edge of a type.
    pub(crate) fn number(&mut self) -> u64 {
        let shift = self.below(64);
        match self.below(4) {
            0 => (1_u64 << shift) - 1,
            1 => 1 << shift,
            _ => self.word() >> shift,
        }
    }

    /// Places where to cut `length` bytes into reads, the end included.
    pub(crate) fn cuts(&mut self, length: usize) -> Vec<usize> {
        let mut cuts = Vec::new();
        let mut at = 0;
        while at < length {
            at += 1 + self.below(40);
            cuts.push(at.min(length));
        }
        cuts
    }

    /// Damages bytes in some places, with bytes and numbers that mean something, if `words` do.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>, words: &[&[u8]]) {
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..(at + self.below(4)).min(bytes.len()))),
                2 => bytes.insert(at, self.word() as u8),
                3 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                _ => {
                    let word = self.pick(words);
                    let end = (at + self.below(word.len() + 1)).min(bytes.len());
                    bytes.splice(at..end, word.iter().copied());
                }
            }
        }
    }
}
