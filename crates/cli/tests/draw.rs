//! Draws that follow from a seed, for tests that must be repeatable.

/// Splitmix: a stream of 64-bit numbers.
#[derive(Clone, Debug)]
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % limit
    }

    /// A stream of its own, that follows from this one.
    pub(crate) fn split(&mut self) -> Draw {
        Draw(self.below(u64::MAX))
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// `KEYRACK_SEED`, or the one of every day.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("KEYRACK_SEED").ok();
    let seed = given.map_or(1, |seed| seed.parse().expect("KEYRACK_SEED is a number"));
    println!("SEED={seed}");
    seed
}
