//! Seeds, and a splitmix generator for the tests of tables, blocks and their cache.

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

    pub(crate) fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Bytes that hardly compress.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// The seeds to test with.
pub(crate) fn seeds() -> Vec<u64> {
    match std::env::var("KEYRACK_SEED") {
        Ok(seed) => vec![seed.parse().expect("KEYRACK_SEED is a number")],
        Err(_) => vec![1, 20_260, 0xdead_beef],
    }
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
