//! The numbers of the C library's `random()`, as glibc has made them since the nineties.
//!
//! An additive feedback generator over 31 words with taps 3 and 31 apart:
//!
//! ```text
//!   seed:    r[0] = seed (0 counts as 1),  r[i] = 16807 r[i-1] mod (2^31 - 1)   for i = 1 .. 30,
//!            and once more r[0], r[1], r[2]
//!   output:  r[i] = r[i-31] + r[i-3]  mod 2^32, halved; the first 310 are thrown away
//! ```
//!
//! The state is a ring of the last 31 words, so that the word to be overwritten is the one 31 back;
//! it begins at the fourth word, since the first three were repeated. The job `bdb` draws from one
//! such generator on all threads, as a C program would.

const WORDS: usize = 31;
const TAP: usize = 3;
const THROWN_AWAY: usize = 10 * WORDS;
/// The prime of the generator that fills the state: 2^31 - 1.
const PRIME: u64 = 0x7fff_ffff;

/// See the module.
#[derive(Clone, Debug)]
pub struct GlibcRandom {
    words: [u32; WORDS],
    /// The oldest word, which the next output overwrites.
    oldest: usize,
}

impl Default for GlibcRandom {
    /// As a process finds it that has not seeded it.
    fn default() -> Self {
        GlibcRandom::new(1)
    }
}

impl GlibcRandom {
    /// The generator after `srandom(seed)`.
    #[must_use]
    pub fn new(seed: u32) -> GlibcRandom {
        let mut words = [seed.max(1); WORDS];
        for i in 1..WORDS {
            // The word before is taken as signed, and a remainder below 0 is lifted by the prime:
            // together that is the remainder of the signed product.
            let before = i64::from(words[i - 1].cast_signed());
            words[i] = (16_807 * before).rem_euclid(PRIME.cast_signed()) as u32;
        }
        let mut random = GlibcRandom { words, oldest: TAP };
        for _ in 0..THROWN_AWAY {
            random.draw();
        }
        random
    }

    /// A number of 31 bits.
    pub fn draw(&mut self) -> u32 {
        let tap = (self.oldest + WORDS - TAP) % WORDS;
        let word = self.words[self.oldest].wrapping_add(self.words[tap]);
        self.words[self.oldest] = word;
        self.oldest = (self.oldest + 1) % WORDS;
        word >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first<const N: usize>(seed: u32) -> [u32; N] {
        let mut random = GlibcRandom::new(seed);
        std::array::from_fn(|_| random.draw())
    }

    /// What `srandom(seed)` and `random()` of glibc 2.36 give.
    #[test]
    fn the_numbers_are_those_of_the_c_library() {
        let ones = [1_804_289_383, 846_930_886, 1_681_692_777, 1_714_636_915, 1_957_747_793];
        assert_eq!(first(1), ones);
        assert_eq!(first(0), ones);
        assert_eq!(first(2), [1_505_335_290, 1_738_766_719, 190_686_788]);
        assert_eq!(first(31_949), [759_834_695, 722_395_896, 594_124_314]);
        assert_eq!(first(0x7fff_ffff), [1_065_668_062, 2_142_264_300, 1_066_566_375]);
        assert_eq!(first(0x8000_0000), [1_336_741_213, 1_210_407_648, 1_447_044_896]);
        assert_eq!(first(u32::MAX), [254_925_627, 1_205_188_300, 366_127_624]);
        for (seed, thousandth) in
            [(1, 1_143_565_421), (2, 2_057_566_690), (123_456_789, 643_607_403)]
        {
            let mut random = GlibcRandom::new(seed);
            assert_eq!((0..1000).map(|_| random.draw()).last(), Some(thousandth));
        }
    }
}
