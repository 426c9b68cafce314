//! Which slots of a border node are live, and in which order, in one word.
//!
//! ```text
//!   bits 0..4    how many are live, n
//!   nibble i     (bits 4 + 4i ..) for i < n the slot of the i-th smallest entry,
//!                for n <= i < 15 a free slot
//! ```
//!
//! An entry is inserted by filling a free slot and storing the word: readers see all of it or
//! nothing. The free slot taken is the last one, and a removed slot becomes the first free one, so
//! that it is used again as late as possible.

/// Entries of a border node.
pub(crate) const WIDTH: usize = 15;

const BODY: u64 = (1 << (4 * WIDTH)) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permutation(u64);

/// The lowest `count` nibbles.
fn nibbles(count: usize) -> u64 {
    (1 << (4 * count)) - 1
}

impl Permutation {
    /// No slot is live.
    pub(crate) const EMPTY: Permutation = Permutation(0xEDCB_A987_6543_2100);

    pub(crate) fn from_word(word: u64) -> Self {
        Permutation(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot at `index`, live or free.
    pub(crate) fn slot(self, index: usize) -> usize {
        (self.0 >> (4 + 4 * index) & 15) as usize
    }

    /// Where `slot` stands; it is live if that is below `len`.
    #[inline]
    pub(crate) fn index_of(self, slot: usize) -> usize {
        const ONES: u64 = 0x0111_1111_1111_1111;
        // The nibble that is the slot becomes zero, and the lowest zero nibble borrows first.
        let zero_at = (self.0 >> 4) ^ (ONES * slot as u64);
        let borrowed = zero_at.wrapping_sub(ONES) & !zero_at & (ONES << 3);
        borrowed.trailing_zeros() as usize / 4
    }

    #[inline]
    pub(crate) fn is_live(self, slot: usize) -> bool {
        self.index_of(slot) < self.len()
    }

    /// The live slots, in order.
    pub(crate) fn slots(self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        (0..self.len()).map(move |index| self.slot(index))
    }

    /// Makes the last free slot live at `index`. `len < WIDTH`.
    pub(crate) fn insert(self, index: usize) -> (Self, usize) {
        debug_assert!(index <= self.len() && self.len() < WIDTH);
        let slot = self.slot(WIDTH - 1);
        let body = self.0 >> 4;
        let below = body & nibbles(index);
        let above = (body & !nibbles(index)) << 4 & BODY;
        let body = below | (slot as u64) << (4 * index) | above;
        (Permutation(body << 4 | (self.len() as u64 + 1)), slot)
    }

    /// Makes the slot at `index` the first free one. `index < len`.
    pub(crate) fn remove(self, index: usize) -> Self {
        let count = self.len() - 1;
        debug_assert!(index <= count);
        let slot = self.slot(index) as u64;
        let body = self.0 >> 4;
        let below = body & nibbles(index);
        let moved = (body >> 4) & nibbles(count) & !nibbles(index);
        let free = body & !nibbles(count + 1);
        Permutation((below | moved | slot << (4 * count) | free) << 4 | count as u64)
    }

    /// Keeps the first `count` live.
    pub(crate) fn truncate(self, count: usize) -> Self {
        debug_assert!(count <= self.len());
        Permutation(self.0 & !15 | count as u64)
    }

    /// Whether every slot occurs once.
    pub(crate) fn is_valid(self) -> bool {
        let seen = (0..WIDTH).fold(0u16, |seen, index| seen | 1 << self.slot(index));
        seen == (1 << WIDTH) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_and_removals_at_every_position_match_a_list() {
        let mut state = 1u64;
        let mut permutation = Permutation::EMPTY;
        let mut list: Vec<usize> = Vec::new();
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let draw = (state >> 33) as usize;
            if list.len() < WIDTH && (list.is_empty() || draw.is_multiple_of(2)) {
                let index = draw / 2 % (list.len() + 1);
                let (next, slot) = permutation.insert(index);
                permutation = next;
                assert!(!list.contains(&slot));
                list.insert(index, slot);
            } else {
                let index = draw / 2 % list.len();
                permutation = permutation.remove(index);
                let slot = list.remove(index);
                assert_eq!(permutation.slot(list.len()), slot);
            }
            assert!(permutation.is_valid(), "{permutation:x?}");
            for index in 0..WIDTH {
                assert_eq!(permutation.index_of(permutation.slot(index)), index);
            }
            assert_eq!(permutation.slots().collect::<Vec<_>>(), list);
        }
    }

    #[test]
    fn truncating_frees_the_tail() {
        let mut permutation = Permutation::EMPTY;
        for index in 0..WIDTH {
            permutation = permutation.insert(index).0;
        }
        let kept: Vec<_> = permutation.slots().take(6).collect();
        let cut = permutation.truncate(6);
        assert!(cut.is_valid());
        assert_eq!(cut.slots().collect::<Vec<_>>(), kept);
    }
}
