//! The blocks of one shard of the cache, in circular order: who is evicted next.

use super::{Cached, Slots};
use keyrack_concurrent::Era;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A block in a ring.
pub(super) struct Place {
    pub(super) slots: Arc<Slots>,
    pub(super) index: usize,
    /// The reference that the slot stands for.
    pub(super) cached: Arc<Cached>,
    pub(super) charge: usize,
    /// The era before it was linked.
    pub(super) birth: Era,
}

#[derive(Default)]
pub(super) struct Ring {
    pub(super) places: Vec<Place>,
    hand: usize,
    pub(super) bytes: usize,
    pub(super) evicted: u64,
}

impl Ring {
    /// Puts a block in, at the hand if others had to go for it. Those are pushed to `evicted`, for
    /// the caller to retire. O(blocks) in the worst case, constant on average.
    pub(super) fn link(&mut self, new: Place, bytes_max: usize, evicted: &mut Vec<Place>) {
        self.make_room(new.charge, bytes_max, evicted);
        self.bytes += new.charge;
        // Release: who finds the block by the Acquire of `peek` finds it whole.
        let word = Arc::as_ptr(&new.cached).cast_mut();
        let slot = &new.slots.blocks[new.index];
        slot.prefixes.store(new.cached.block.prefixes_at().cast_mut(), Ordering::Relaxed);
        slot.bytes.store(new.cached.block.bytes_at().cast_mut(), Ordering::Relaxed);
        slot.cached.store(word, Ordering::Release);
        let last = self.places.len();
        self.places.push(new);
        self.places[last].cached.place.store(last, Ordering::Relaxed);
        if !evicted.is_empty() {
            // The hand is at a place that has been freed, or behind the last one.
            self.places.swap(self.hand, last);
            self.places[last].cached.place.store(last, Ordering::Relaxed);
            self.places[self.hand].cached.place.store(self.hand, Ordering::Relaxed);
            self.hand += 1;
        }
    }

    /// Evicts until `bytes` more fit into `bytes_max`, or nothing is left.
    pub(super) fn make_room(&mut self, bytes: usize, bytes_max: usize, evicted: &mut Vec<Place>) {
        // A bit that is set again and again does not keep the hand turning.
        let mut mercy = 2 * self.places.len();
        let before = evicted.len();
        while self.bytes + bytes > bytes_max && !self.places.is_empty() {
            self.hand = if self.hand < self.places.len() { self.hand } else { 0 };
            // Relaxed: a hint. A hit that comes just now may come too late.
            let is_asked_for =
                self.places[self.hand].cached.referenced.swap(false, Ordering::Relaxed);
            if is_asked_for && mercy > 0 {
                mercy -= 1;
                self.hand += 1;
            } else {
                evicted.push(self.unlink(self.hand));
            }
        }
        // A ring that has become short gives its memory back.
        if self.places.len() < self.places.capacity() / 4 {
            self.places.shrink_to(self.places.len() * 2);
        }
        self.evicted += (evicted.len() - before) as u64;
    }

    /// Takes a block out of the ring and out of its slot. The last one gets its place.
    pub(super) fn unlink(&mut self, at: usize) -> Place {
        let taken = self.places.swap_remove(at);
        if let Some(moved) = self.places.get(at) {
            moved.cached.place.store(at, Ordering::Relaxed);
        }
        self.bytes -= taken.charge;
        // Relaxed: who finds null follows nothing.
        taken.slots.blocks[taken.index].cached.store(ptr::null_mut(), Ordering::Relaxed);
        taken
    }
}
