//! The two uses of xxh3: to know that bytes are what was written, and to find keys.
//!
//! A checksum covers where the bytes stand as well as what they are. Bytes that were written to the
//! wrong place, or are read from there, do not pass, however good they are.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Odd, so that no two offsets change a checksum in the same way.
const OFFSET_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of `bytes` that stand at `offset` of their file.
#[inline]
pub(crate) fn checksum(bytes: &[u8], offset: u64) -> u64 {
    xxh3_64(bytes) ^ offset.wrapping_mul(OFFSET_FACTOR)
}

/// The checksums of all beginnings of what stands at an offset.
pub(crate) struct Growing {
    hasher: Xxh3,
    offset: u64,
}

impl Growing {
    pub(crate) fn new(offset: u64) -> Self {
        Growing { hasher: Xxh3::new(), offset }
    }

    /// Goes on with these bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
    }

    /// The checksum of what was added so far. O(1).
    pub(crate) fn checksum(&self) -> u64 {
        self.hasher.digest() ^ self.offset.wrapping_mul(OFFSET_FACTOR)
    }
}

/// The hash of a user key that filters and hash levels are asked with. It is part of the format of
/// tables.
#[inline]
pub(crate) fn hash(user_key: &[u8]) -> u64 {
    xxh3_64(user_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_those_of_the_files() {
        assert_eq!(hash(b""), 0x2d06_8005_38d3_94c2, "the published value of xxh3 for nothing");
        assert_eq!(checksum(b"", 0), hash(b""));
        assert_eq!(checksum(b"", 2), hash(b"") ^ 0x3c6e_f372_fe94_f82a);
    }

    #[test]
    fn all_beginnings_have_their_checksums() {
        let bytes: Vec<u8> = (0..3_000_u32).map(|at| (at * at) as u8).collect();
        let mut growing = Growing::new(77);
        let mut at = 0;
        for step in (0..60).chain([300, 1, 500]) {
            growing.add(&bytes[at..at + step]);
            at += step;
            assert_eq!(growing.checksum(), checksum(&bytes[..at], 77), "{at}");
        }
    }

    #[test]
    fn each_bit_and_each_place_counts() {
        let mut bytes: Vec<u8> = (0..=255).collect();
        let good = checksum(&bytes, 4096);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(&bytes, 4096), good);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!((0..4096).all(|offset| checksum(&bytes, offset) != good));
    }
}
