//! Seeded operations over a small key space that is built to trap.
//!
//! A key is a stem and a tail of up to two bytes. The stems sit at the lengths where ordered
//! structures change their ways: 0, and one below, at and above 8 and 16 bytes (tries that compare
//! eight bytes at a time), NULs (padding must not equal content), 0xff (the successor of a prefix
//! overflows), and long ones that share everything but the tail. There are about a thousand keys,
//! so that a few thousand operations overwrite, miss and remove each kind many times.

use crate::operation::{Bytes, Decision, Operation, Range};
use keyrack_store::Batch;
use keyrack_workload::Rng;

const STEMS: &[&[u8]] = &[
    b"",
    b"a",
    b"aaaaaaa",
    b"aaaaaaaa",
    b"aaaaaaaab",
    b"aaaaaaaaaaaaaaa",
    b"aaaaaaaaaaaaaaaa",
    b"aaaaaaaaaaaaaaaab",
    b"b",
    b"\0",
    b"\0\0\0\0\0\0\0\0",
    b"aaaaaaaa\0\0\0\0\0\0\0\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
];

const TAIL_BYTES: &[u8] = &[0x00, 0x01, b'a', b'b', 0x7f, 0x80, 0xff];

/// Lengths of the two long stems.
const LONG_STEMS: [usize; 2] = [250, 4094];

/// Draws operations from a seed.
#[derive(Debug)]
pub(crate) struct Generator {
    rng: Rng,
    prefix: Bytes,
    long: [Bytes; 2],
}

impl Generator {
    /// Operations on keys that begin with `prefix`. Ranges do not leave it.
    pub(crate) fn new(rng: Rng, prefix: &[u8]) -> Self {
        Generator {
            rng,
            prefix: prefix.to_vec(),
            long: LONG_STEMS.map(|length| vec![b'l'; length]),
        }
    }

    /// A uniform number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    pub(crate) fn key(&mut self) -> Bytes {
        let stem = self.rng.below(32) as usize;
        let stem: &[u8] = match stem.checked_sub(30) {
            Some(long) => &self.long[long],
            None => STEMS[stem % STEMS.len()],
        };
        let mut key = [self.prefix.as_slice(), stem].concat();
        for _ in 0..self.rng.below(3) {
            key.push(TAIL_BYTES[self.rng.below(TAIL_BYTES.len() as u64) as usize]);
        }
        key
    }

    fn value(&mut self) -> Bytes {
        let length = match self.rng.below(100) {
            0..10 => 0,
            10..70 => self.rng.range(1, 16),
            70..90 => self.rng.range(17, 100),
            90..99 => self.rng.range(101, 4096),
            _ => self.rng.range(4097, 70_000),
        };
        let mut value = vec![0; length as usize];
        self.rng.fill(&mut value);
        value
    }

    pub(crate) fn range(&mut self) -> Range {
        let low = if self.rng.below(8) == 0 { self.prefix.clone() } else { self.key() };
        let high =
            if self.rng.below(4) == 0 { after_prefix(&self.prefix) } else { Some(self.key()) };
        let stop = (self.rng.below(2) == 0).then(|| self.rng.range(1, 20));
        Range { low, high, stop, reverse: self.rng.below(2) == 0 }
    }

    fn decision(&mut self) -> Decision {
        match self.rng.below(8) {
            0 => Decision::Keep,
            1 => Decision::Remove,
            2..4 => Decision::Put(self.value()),
            4..6 => {
                let tail = self.rng.next_u64().to_le_bytes();
                Decision::Append(tail.to_vec())
            }
            _ => Decision::Toggle(self.value()),
        }
    }

    fn batch(&mut self) -> Batch {
        let mut batch = Batch::new();
        for _ in 0..self.rng.below(12) {
            // A key twice in one batch is the interesting case, so the pool is one stem.
            let key = [&self.prefix[..], b"aaaaaaaa", &[self.rng.below(4) as u8]].concat();
            let key = if self.rng.below(2) == 0 { key } else { self.key() };
            if self.rng.below(3) == 0 {
                batch.remove(&key);
            } else {
                let value = self.value();
                batch.put(&key, &value);
            }
        }
        batch
    }

    pub(crate) fn operation(&mut self) -> Operation {
        match self.rng.below(100) {
            0..28 => Operation::Put(self.key(), self.value()),
            28..46 => Operation::Get(self.key()),
            46..56 => Operation::Remove(self.key()),
            56..70 => Operation::Update(self.key(), self.decision()),
            70..77 => {
                let count = self.rng.below(20);
                Operation::MultiGet((0..count).map(|_| self.key()).collect())
            }
            77..93 => Operation::Scan(self.range()),
            _ => Operation::Apply(self.batch()),
        }
    }
}

/// The least byte string above all that begin with `prefix`, or `None` where there is none.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut bound = prefix[..=last].to_vec();
    bound[last] += 1;
    Some(bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn one_seed_draws_one_sequence() {
        let sequence = |seed| {
            let mut generator = Generator::new(Rng::from_seed(seed), b"");
            (0..200).map(|_| generator.operation().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
    }

    #[test]
    fn keys_are_few_and_of_all_lengths() {
        let mut generator = Generator::new(Rng::from_seed(1), b"");
        let keys: HashSet<Bytes> = (0..20_000).map(|_| generator.key()).collect();
        assert!((400..1000).contains(&keys.len()), "{}", keys.len());
        for length in [0, 1, 7, 8, 9, 15, 16, 17, 18, 250, 4094, 4096] {
            assert!(keys.iter().any(|key| key.len() == length), "{length}");
        }
    }

    #[test]
    fn ranges_stay_within_the_prefix() {
        assert_eq!(after_prefix(b"t1/"), Some(b"t10".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
        let mut generator = Generator::new(Rng::from_seed(1), b"t1/");
        for _ in 0..1000 {
            let range = generator.range();
            assert!(range.low.starts_with(b"t1/"));
            assert!(range.high.is_some_and(|high| high.as_slice() <= b"t10".as_slice()));
        }
    }
}
