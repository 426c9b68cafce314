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

/// The seeds to test with.
pub(crate) fn seeds() -> Vec<u64> {
    match std::env::var("KEYRACK_SEED") {
        Ok(seed) => vec![seed.parse().expect("KEYRACK_SEED is a number")],
        Err(_) => vec![1, 20_260, 0xdead_beef],
    }
}

/// How much longer than usual to test.
pub(crate) fn factor() -> usize {
    let factor = std::env::var("KEYRACK_STRESS").ok();
    factor.map_or(1, |factor| factor.parse().expect("KEYRACK_STRESS is a number"))
}

/// Whether the longest tests do a part of what they could, because everything takes many times as
/// long: where `KEYRACK_BRIEF` says so (0 is no), without it in builds with debug assertions.
pub(crate) fn is_brief() -> bool {
    std::env::var_os("KEYRACK_BRIEF").map_or(cfg!(debug_assertions), |brief| brief != "0")
}

/// Prints the seed if the test fails while it lives.
pub(crate) struct Announced(pub(crate) u64);

impl Drop for Announced {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SEED={}", self.0);
        }
    }
}
