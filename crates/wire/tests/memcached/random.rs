//! Random numbers that a seed replays: the output function of splitmix64 over a counter.

/// A stream of random numbers.
pub(super) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// The stream of `KEYRACK_SEED`, or of `default`.
    pub(super) fn new(default: u64) -> Random {
        let given = std::env::var("KEYRACK_SEED").ok();
        let seed = given.map_or(default, |seed| seed.parse().expect("KEYRACK_SEED is a number"));
        Random { seed, state: seed }
    }

    /// What the stream began with.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A number of any size, small ones as often as large ones.
    pub(super) fn number(&mut self) -> u64 {
        let shift = self.below(64);
        self.next() >> shift
    }

    pub(super) fn signed(&mut self) -> i64 {
        let shift = self.below(64);
        self.next().cast_signed() >> shift
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// A test that fails says which seed it had.
impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("KEYRACK_SEED={}", self.seed);
        }
    }
}
