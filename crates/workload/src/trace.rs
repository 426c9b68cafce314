//! A running hash of the keys that a thread issued.
//!
//! Two runs with one seed must touch the same keys in the same order, whatever engine they measure
//! and however many other threads run beside. Keeping the keys would cost memory and time; a 64-bit
//! hash of them costs about a nanosecond for eight bytes and tells as much.
//!
//! ```text
//! for each 8-byte little-endian word w of the key:   p = (h xor w) * K in 128 bits
//!                                                     h = high half of p xor low half of p
//! the last 0..=7 bytes, zero-padded, with the length in the top byte, form one more word
//! ```
//!
//! The length makes keys self-delimiting: `ab`, `c` and `a`, `bc` differ. The result depends on
//! order.

use crate::rng::mix64;

/// An odd multiplier with about as many ones as zeros.
const K: u64 = 0xD6E8_FEB8_6659_FD93;

/// A running 64-bit hash of a sequence of byte strings.
///
/// Not for adversaries: it detects accidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash {
    state: u64,
    count: u64,
}

impl TraceHash {
    /// The hash of the empty sequence.
    #[must_use]
    pub const fn new() -> TraceHash {
        TraceHash { state: K, count: 0 }
    }

    /// Appends one key. Takes time in the length of `key`.
    #[inline]
    pub fn update(&mut self, key: &[u8]) {
        let mut state = self.state;
        let (words, tail) = key.as_chunks::<8>();
        for word in words {
            state = Self::step(state, u64::from_le_bytes(*word));
        }
        let mut last = [0u8; 8];
        last[..tail.len()].copy_from_slice(tail);
        last[7] = key.len() as u8;
        self.state = Self::step(state, u64::from_le_bytes(last));
        self.count += 1;
    }

    /// The number of keys appended.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The hash of everything appended so far.
    #[must_use]
    pub const fn finish(&self) -> u64 {
        mix64(self.state ^ mix64(self.count))
    }

    #[inline]
    fn step(state: u64, word: u64) -> u64 {
        // Both halves are needed: a high bit of the word reaches only the high bits of the low
        // half.
        let product = u128::from(state ^ word) * u128::from(K);
        (product >> 64) as u64 ^ product as u64
    }
}

impl Default for TraceHash {
    fn default() -> Self {
        TraceHash::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn hash(keys: &[&[u8]]) -> u64 {
        let mut trace = TraceHash::new();
        for key in keys {
            trace.update(key);
        }
        trace.finish()
    }

    #[test]
    fn order_split_and_length_matter() {
        let hashes = [
            hash(&[]),
            hash(&[b""]),
            hash(&[b"", b""]),
            hash(&[b"ab", b"c"]),
            hash(&[b"a", b"bc"]),
            hash(&[b"bc", b"a"]),
            hash(&[b"abc"]),
            hash(&[b"abc\0"]),
            hash(&[b"k:000000000001", b"k:000000000002"]),
            hash(&[b"k:000000000002", b"k:000000000001"]),
        ];
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        assert_eq!(hash(&[b"ab", b"c"]), hashes[3]);
    }

    #[test]
    fn every_bit_of_every_key_matters() {
        let base = *b"k:0123456789abcdefgh";
        let reference = hash(&[&base, b"next"]);
        let mut seen = HashSet::from([reference]);
        for bit in 0..base.len() * 8 {
            let mut key = base;
            key[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(hash(&[&key, b"next"])), "bit {bit} does not reach the hash");
        }
    }
}
