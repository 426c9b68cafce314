//! Blocks of objects in memory, for readers of tables.
//!
//! A request costs tens of milliseconds whatever it brings, so a block is larger than those of
//! tables, and who reads on gets more at once: one block, then two, four, up to
//! [`AHEAD_MAX`]. The least recently used blocks go first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = 256 << 10;
/// Blocks of a request, at most.
pub(crate) const AHEAD_MAX: u64 = 16;
/// Blocks in memory, at most: 64 MiB.
const BLOCKS_MAX: usize = 256;

/// The file and the block of it.
type BlockKey = (u64, u64);

/// Blocks that were read.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Each with when it was used last, in uses.
    blocks: HashMap<BlockKey, (Arc<[u8]>, u64)>,
    uses: u64,
}

impl Blocks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: BlockKey) -> Option<Arc<[u8]>> {
        let mut state = self.state();
        state.uses += 1;
        let now = state.uses;
        state.blocks.get_mut(&key).map(|(block, used)| {
            *used = now;
            Arc::clone(block)
        })
    }

    /// O(blocks) where one has to go.
    pub(crate) fn put(&self, key: BlockKey, block: Arc<[u8]>) {
        let mut state = self.state();
        state.uses += 1;
        let now = state.uses;
        state.blocks.insert(key, (block, now));
        if state.blocks.len() > BLOCKS_MAX {
            let oldest = state.blocks.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(key) = oldest.map(|(key, _)| *key) {
                state.blocks.remove(&key);
            }
        }
    }
}

/// How a file is read.
#[derive(Debug)]
pub(crate) struct Course {
    /// The block behind those of the last request.
    next: u64,
    /// Blocks of the last request.
    count: u64,
}

impl Course {
    pub(crate) fn new() -> Course {
        Course { next: u64::MAX, count: 1 }
    }

    /// How many blocks to ask for, from a block on that is not in memory.
    pub(crate) fn blocks_from(&mut self, block: u64) -> u64 {
        self.count = if block == self.next { (2 * self.count).min(AHEAD_MAX) } else { 1 };
        self.next = block + self.count;
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_on_gets_more_at_once_and_who_jumps_one() {
        let mut course = Course::new();
        let mut asked = Vec::new();
        let mut block = 7;
        for _ in 0..6 {
            asked.push(course.blocks_from(block));
            block += asked.last().unwrap();
        }
        assert_eq!(asked, [1, 2, 4, 8, 16, 16]);
        assert_eq!(course.blocks_from(3), 1);
        assert_eq!(course.blocks_from(4), 2);
    }

    #[test]
    fn the_least_recently_used_block_goes_first() {
        let blocks = Blocks::default();
        for number in 0..BLOCKS_MAX as u64 {
            blocks.put((0, number), Arc::from([0_u8]));
        }
        assert!(blocks.get((0, 0)).is_some());
        blocks.put((1, 0), Arc::from([0_u8]));
        assert!(blocks.get((0, 1)).is_none());
        assert!(blocks.get((0, 0)).is_some() && blocks.get((1, 0)).is_some());
    }
}
