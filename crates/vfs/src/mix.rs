//! A seeded sequence of 64-bit numbers: splitmix64 (Steele, Lea and Flood, 2014). The state grows
//! by a fixed odd step and each output is a bijective scramble of the state. It makes crash images
//! repeatable and unique names look spread out. Nothing here reads entropy, and nothing here is
//! secret.

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator. Equal seeds give equal sequences.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    state: u64,
}

impl Mix {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number of the sequence.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..count`. The bias of the plain remainder is below `count / 2^64`.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        assert!(count > 0, "a choice needs at least one candidate");
        self.next() % count
    }

    /// A fair coin.
    pub(crate) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::Mix;

    #[test]
    fn equal_seeds_agree_and_near_seeds_do_not() {
        let draw = |seed| {
            let mut mix = Mix::new(seed);
            [mix.next(), mix.next(), mix.next()]
        };
        assert_eq!(draw(9), draw(9));
        assert_ne!(draw(9), draw(10));
    }

    #[test]
    fn first_output_of_seed_zero_is_the_published_one() {
        assert_eq!(Mix::new(0).next(), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut mix = Mix::new(1);
        let mut seen = [false; 5];
        for _ in 0..200 {
            seen[usize::try_from(mix.below(5)).unwrap()] = true;
        }
        assert_eq!(seen, [true; 5]);
    }
}
