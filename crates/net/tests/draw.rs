//! Seeds, and a splitmix generator for the tests.

/// Draws that follow from a seed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Draw(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// The seed to test with. The harness shows what is printed here when the test fails.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("KEYRACK_SEED").ok();
    let seed = given.map_or(1, |seed| seed.parse().expect("KEYRACK_SEED is a number"));
    eprintln!("SEED={seed}");
    seed
}
