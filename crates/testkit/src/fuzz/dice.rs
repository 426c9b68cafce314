//! Chance for fuzzers, from a seed, and the ways in which it spoils an input.

use keyrack_workload::Rng;

use super::budget::variable;

/// The seed of `KEYRACK_SEED`, or `default`.
pub(super) fn seed(default: u64) -> u64 {
    variable("KEYRACK_SEED").unwrap_or(default)
}

/// Draws from a seed.
#[derive(Debug)]
pub struct Dice(Rng);

impl Dice {
    /// One seed draws one sequence.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Dice(Rng::from_seed(seed))
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`; 0 when that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.below(end.max(1) as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.fill(&mut bytes);
        bytes
    }

    /// One of `items`.
    ///
    /// # Panics
    /// When there are none.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Places where to cut `length` bytes into reads, the end included.
    pub fn cuts(&mut self, length: usize) -> Vec<usize> {
        let mut cuts = Vec::new();
        let mut at = 0;
        while at < length {
            at += 1 + self.below(40);
            cuts.push(at.min(length));
        }
        cuts
    }

    /// A number near the edge of a type, as bytes in either order.
    fn number(&mut self) -> Vec<u8> {
        let shift = self.below(64);
        let number = match self.below(5) {
            0 => (1_u64 << shift) - 1,
            1 => 1 << shift,
            2 => u64::MAX - self.below(4) as u64,
            3 => self.below(40) as u64,
            _ => self.word() >> shift,
        };
        let width = 1 << self.below(4);
        if self.once_in(4) {
            return number.to_string().into_bytes();
        }
        let mut bytes = number.to_le_bytes()[..width].to_vec();
        if self.once_in(3) {
            bytes.reverse();
        }
        bytes
    }

    /// One input of the pool, changed in some places.
    pub(super) fn spoiled(&mut self, pool: &[Vec<u8>], words: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.one_of(pool).clone();
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len() + 1);
            let length = self.below(12).min(bytes.len() - at);
            match self.below(12) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..at + length)),
                2 => drop(bytes.splice(at..at, self.bytes(length))),
                3 => bytes.extend_from_within(at..at + length),
                4 => bytes[at..at + length].fill(*self.one_of(&[0, 1, 0x7f, 0x80, 0xff])),
                5 | 6 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                7 if at < bytes.len() => bytes[at] = self.word() as u8,
                // A number over another, or between.
                8 => {
                    let number = self.number();
                    let over = if self.once_in(2) { number.len() } else { self.below(9) };
                    let end = (at + over).min(bytes.len());
                    bytes.splice(at..end, number);
                }
                // The beginning of one input, the end of another.
                9 => {
                    let other = self.one_of(pool);
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
                10 if bytes.len() > 1 => {
                    let from = self.below(bytes.len() - length);
                    let copy = bytes[from..from + length].to_vec();
                    bytes[at..at + length].copy_from_slice(&copy);
                }
                _ if !words.is_empty() => {
                    let word = self.one_of(words);
                    let over = if self.once_in(2) { word.len() } else { 0 };
                    let end = (at + over).min(bytes.len());
                    bytes.splice(at..end, word.iter().copied());
                }
                _ => bytes.push(self.word() as u8),
            }
        }
        bytes
    }
}
