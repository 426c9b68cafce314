//! A fixed permutation of `0..n`: spreads hot indexes over the key space without losing any.
//!
//! A skewed draw favours small indexes, which are neighbours in key order and so share pages and
//! cache lines. Hashing modulo `n` spreads them, but several indexes fall on one key and others on
//! none, which changes every share. A permutation changes no share at all.
//!
//! `n` is rounded up to `2^bits`. On `bits`-bit numbers, adding a constant, multiplying by an odd
//! number and `x ^= x >> s` are bijections, and so is any chain of them. A result outside `0..n` is
//! mapped again until it falls inside (cycle walking); the cycle that starts inside returns there,
//! so this ends, after fewer than two steps on average.
//!
//! The permutation depends on `n` alone. All threads, phases and seeds agree on which keys are hot.

/// Odd multipliers, and constants that move 0 away from itself.
const ROUNDS: [(u64, u64); 3] = [
    (0x3C79_AC49_2BA7_B653, 0x9FB2_1C65_1E98_DF25),
    (0x1C69_B3F7_4AC4_AE35, 0xE703_7ED1_A0B4_28DB),
    (0x71D6_7FFF_EDA6_0001, 0xA076_1D64_78BD_642F),
];

/// A bijection of `0..count` onto itself.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    mask: u64,
    shift: u32,
}

impl Permutation {
    /// The permutation of `0..count`. A `count` of 0 is taken as 1.
    pub(crate) fn new(count: u64) -> Permutation {
        let count = count.max(1);
        let bits = u64::BITS - (count - 1).leading_zeros();
        let mask = if bits == u64::BITS { u64::MAX } else { (1 << bits) - 1 };
        Permutation { count, mask, shift: bits.div_ceil(2).max(1) }
    }

    /// The image of `index`, which must be below the count. Expected constant time.
    #[inline]
    pub(crate) fn apply(&self, index: u64) -> u64 {
        debug_assert!(index < self.count, "{index} is not below {}", self.count);
        let mut x = index;
        loop {
            for (add, multiply) in ROUNDS {
                // The low bits of a product depend on the low bits of its factors alone.
                x = x.wrapping_add(add).wrapping_mul(multiply) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.count {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_gives_a_bijection() {
        let counts = (1..=300).chain([511, 512, 513, 1000, 4095, 4096, 4097, 65_536, 100_003]);
        for count in counts {
            let permutation = Permutation::new(count);
            let mut hit = vec![false; count as usize];
            for index in 0..count {
                let image = permutation.apply(index) as usize;
                assert!(!hit[image], "count {count}: {image} is hit twice");
                hit[image] = true;
            }
        }
    }

    #[test]
    fn huge_counts_stay_in_range() {
        for count in [u64::MAX, 1 << 63, (1 << 63) + 1, 1 << 53, 10_000_000_000] {
            let permutation = Permutation::new(count);
            for index in [0, 1, 2, count / 2, count - 1] {
                assert!(permutation.apply(index) < count);
            }
        }
    }

    #[test]
    fn neighbours_are_spread() {
        let count = 1_000_000;
        let permutation = Permutation::new(count);
        let mut images: Vec<u64> = (0..1000).map(|index| permutation.apply(index)).collect();
        // A random set of 1000 indexes leaves some of 100 equal intervals with about 10, none
        // empty.
        let mut intervals = [0u32; 100];
        for image in &images {
            intervals[(image * 100 / count) as usize] += 1;
        }
        assert!(intervals.iter().all(|n| (1..=30).contains(n)), "{intervals:?}");
        images.sort_unstable();
        let close = images.windows(2).filter(|pair| pair[1] - pair[0] <= 10).count();
        assert!(close < 40, "{close} of 999 neighbours are within 10 of each other");
        assert_ne!(permutation.apply(0), 0);
    }
}
