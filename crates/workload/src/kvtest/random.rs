//! The generator of the Masstree tester, bit for bit.
//!
//! A 32-bit linear congruential generator with the constants of *Numerical Recipes*, of which the
//! low bits are poor. So two base draws, each of two steps, make one number of 31 bits:
//!
//! ```text
//!   step:  s <- 1664525 s + 1013904223  mod 2^32       base draw: two steps, then s
//!   x0 = base draw, x1 = base draw
//!   number = x0 >> 15  |  (x1 & 0x7ffe) << 16          17 bits of x0, 14 bits of x1
//! ```
//!
//! Numbers below `n` are the remainder of such a number, as the tester takes them: not quite
//! uniform, and part of what keys come out.

/// The state of a generator that nobody has seeded.
const UNSEEDED: u32 = 819_234_718;
const FACTOR: u32 = 1_664_525;
const TERM: u32 = 1_013_904_223;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lcg {
    state: u32,
}

impl Default for Lcg {
    /// The generator before anybody has seeded it. Several jobs never do.
    fn default() -> Self {
        Lcg { state: UNSEEDED }
    }
}

impl Lcg {
    /// Starts again from `seed`.
    pub fn seed(&mut self, seed: u32) {
        self.state = seed;
    }

    #[inline]
    fn base(&mut self) -> u32 {
        for _ in 0..2 {
            self.state = self.state.wrapping_mul(FACTOR).wrapping_add(TERM);
        }
        self.state
    }

    /// A number of 31 bits.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        let (first, second) = (self.base(), self.base());
        (first >> 15) | ((second & 0x7ffe) << 16)
    }

    /// A number below `count`, which must not be 0.
    #[inline]
    pub fn below(&mut self, count: u64) -> u64 {
        u64::from(self.draw()) % count
    }

    /// True with probability `p`: a fraction of two draws is compared with it, as the standard
    /// library of C++ does it for a generator of 31 bits.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        const RANGE: f64 = 2_147_483_648.0;
        let (low, high) = (f64::from(self.draw()), f64::from(self.draw()));
        // Rounding can reach 1, which counts as the largest fraction below it.
        let fraction = ((low + high * RANGE) / (RANGE * RANGE)).min(1.0 - f64::EPSILON / 2.0);
        fraction < p
    }

    /// Swaps each item with one drawn from all of them, in order of their places. O(items).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        let count = items.len() as u64;
        for place in 0..items.len() {
            items.swap(place, self.below(count) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(seed: u32) -> Lcg {
        let mut random = Lcg::default();
        random.seed(seed);
        random
    }

    /// The numbers here and below were printed by the tester's own generator.
    #[test]
    fn the_numbers_are_those_of_the_tester() {
        let first = |mut random: Lcg| -> [u32; 5] { std::array::from_fn(|_| random.draw()) };
        let unseeded = [900_956_628, 1_527_246_342, 1_268_514_085, 460_266_789, 511_870_050];
        assert_eq!(first(Lcg::default()), unseeded);
        let zero = [1_395_953_312, 1_604_927_069, 425_535_969, 877_774_125, 612_671_379];
        assert_eq!(first(seeded(0)), zero);
        let thread_0 = [2_119_194_792, 1_981_053_180, 672_661_991, 408_748_863, 182_576_274];
        assert_eq!(first(seeded(31_949)), thread_0);
        let thread_1 = [1_709_344_537, 1_983_379_408, 30_023_505, 480_176_787, 447_999_066];
        assert_eq!(first(seeded(31_950)), thread_1);
        let last = [1_805_803_567, 1_602_731_913, 1_068_174_455, 806_346_201, 347_248_587];
        assert_eq!(first(seeded(u32::MAX)), last);
        for (seed, thousandth) in [(31_949, 1_533_808_865), (31_996, 488_427_236)] {
            let mut random = seeded(seed);
            assert_eq!((0..1000).map(|_| random.draw()).last(), Some(thousandth));
        }
    }

    #[test]
    fn chances_are_those_of_the_tester() {
        let mut random = seeded(31_949);
        let mut next = |p: f64| {
            let mask = (0..64).fold(0u64, |mask, _| mask << 1 | u64::from(random.chance(p)));
            let hits = (0..100_000).filter(|_| random.chance(p)).count();
            (mask, hits, random.draw())
        };
        assert_eq!(next(0.5), (0x6eb4_6123_86ac_89ed, 50_001, 1_297_159_938));
        assert_eq!(next(0.9), (0xf7ef_fffe_efff_bbff, 90_004, 1_947_559_032));
        assert_eq!(next(0.98), (0xffff_bfef_ffff_f7ff, 97_991, 890_787_319));
        assert_eq!(next(0.001), (0, 107, 341_696_383));
    }

    #[test]
    fn a_shuffle_keeps_all_items_and_draws_one_number_for_each() {
        let mut random = seeded(5);
        let mut items: Vec<u32> = (0..1000).collect();
        random.shuffle(&mut items);
        let mut other = seeded(5);
        (0..1000).for_each(|_| _ = other.draw());
        assert_eq!(random, other);
        assert_ne!(items, (0..1000).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
        random.shuffle::<u32>(&mut []);
        assert_eq!(random, other);
    }
}
