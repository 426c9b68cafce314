//! Publication in order: the one word below which everything is complete.
//!
//! ```text
//!   reserved   | a | b | c | d |           b and c are written, a is not
//!   published  ^                           nobody can see a hole
//!   parked         b   c                   a's writer will publish all three
//! ```
//!
//! Rooms are reserved in the order of the log and written in any. A writer whose turn it is moves
//! the word to the end of its own room. Any other parks its room, and waits until the word has
//! passed it. Whoever moves the word looks whether the room behind it is parked, and goes on with
//! that one. So a writer that was put to sleep while it waits holds nobody up; only one that sleeps
//! in the middle of its copy does.
//!
//! A room is parked in a slot that its position chooses. If the slot is taken, the writer waits
//! for its turn without parking. That a parked room is overlooked does no harm, either: its own
//! writer takes it back when its turn has come. So parking needs no more than an exchange and an
//! acquire on each side.
//!
//! **Invariants:** one room has one owner: the thread that reserved it, or the one that took it out
//! of its slot. Only the owner of the room at the word moves the word.

use keyrack_concurrent::Backoff;

use crate::primitive::{AtomicU64, Line, Ordering};

/// Rooms that can be parked at once. Loom has two, so that rooms meet in one slot.
const SLOTS_LOG2: u32 = if cfg!(loom) { 1 } else { 6 };

/// The key of a slot without a room: position 0 is nobody's.
const FREE: u64 = 0;
/// The key of a slot that is being filled. No room begins here: positions are multiples of 8.
const BUSY: u64 = 1;

/// A parked room.
#[derive(Debug)]
struct Slot {
    /// Where the room begins, [`FREE`] or [`BUSY`].
    key: AtomicU64,
    /// Where it ends. Written by whoever made the slot busy, read by whoever finds the key.
    end: AtomicU64,
}

/// The end of what is published.
#[derive(Debug)]
pub(crate) struct Order {
    end: Line<AtomicU64>,
    slots: Box<[Line<Slot>]>,
}

impl Order {
    pub(crate) fn new(start: u64) -> Self {
        let slot = |_| Line(Slot { key: AtomicU64::new(FREE), end: AtomicU64::new(0) });
        Order { end: Line(AtomicU64::new(start)), slots: (0..1 << SLOTS_LOG2).map(slot).collect() }
    }

    /// The end of what is published. What was written before it was published can be seen.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        // Acquire pairs with the Release in `advance`, by all publishers so far: each has seen the
        // one before it.
        self.end.0.load(Ordering::Acquire)
    }

    /// Publishes the room from one position to another, and everything before it, as soon as that
    /// is complete. Waits until it is.
    #[inline]
    pub(crate) fn publish(&self, from: u64, to: u64) {
        if self.end() == from {
            self.advance(to);
        } else {
            self.park(from, to);
        }
    }

    /// Moves the word to the end of a room that is the caller's, and of the parked ones behind it.
    #[inline]
    fn advance(&self, to: u64) {
        let mut end = to;
        loop {
            // Release pairs with the Acquire in `end`.
            self.end.0.store(end, Ordering::Release);
            let slot = self.slot(end);
            // Acquire pairs with the Release in `park`: the end, and what its writer has written.
            if slot.key.load(Ordering::Acquire) != end {
                return;
            }
            let next = slot.end.load(Ordering::Relaxed);
            if !Self::take(slot, end) {
                return;
            }
            end = next;
        }
    }

    #[cold]
    fn park(&self, from: u64, to: u64) {
        let slot = self.slot(from);
        // Acquire: who used the slot before has read its end.
        let is_parked =
            slot.key.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_parked {
            slot.end.store(to, Ordering::Relaxed);
            // Release pairs with the Acquire in `advance`.
            slot.key.store(from, Ordering::Release);
        }
        let mut backoff = Backoff::new();
        loop {
            let end = self.end();
            if end >= to {
                return;
            }
            if end == from && (!is_parked || Self::take(slot, from)) {
                return self.advance(to);
            }
            backoff.wait();
        }
    }

    /// Takes a room out of its slot. False if somebody else has.
    fn take(slot: &Slot, from: u64) -> bool {
        // Release: the end was read. Positions come once, so the key is that of the same room.
        slot.key.compare_exchange(from, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn slot(&self, position: u64) -> &Slot {
        // Multiplied by the golden ratio, the high bits depend on all of the position's.
        let mixed = (position >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.slots[(mixed >> (64 - SLOTS_LOG2)) as usize].0
    }

    /// Waits until everything below `position` is published.
    pub(crate) fn wait_for(&self, position: u64) {
        let mut backoff = Backoff::new();
        while self.end() < position {
            backoff.wait();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_room_is_published_when_those_before_it_are() {
        let order = Order::new(8);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                order.publish(16, 40);
                is_done.store(true, Ordering::Relaxed);
            });
            // The room may be parked or not yet.
            assert_eq!(order.end(), 8);
            assert!(!is_done.load(Ordering::Relaxed));
            order.publish(8, 16);
            order.wait_for(40);
        });
        assert_eq!(order.end(), 40);
    }

    /// What is parked is published by the one before it, whether its writer runs or not.
    #[test]
    fn parked_rooms_are_published_by_the_one_before_them() {
        let order = Order::new(8);
        for (from, to) in [(16, 24), (24, 80)] {
            let slot = order.slot(from);
            assert_eq!(slot.key.load(Ordering::Relaxed), FREE, "they do not meet in a slot");
            slot.end.store(to, Ordering::Relaxed);
            slot.key.store(from, Ordering::Relaxed);
        }
        order.publish(8, 16);
        assert_eq!(order.end(), 80);
        let keys = order.slots.iter().map(|slot| slot.0.key.load(Ordering::Relaxed));
        assert!(keys.into_iter().all(|key| key == FREE));
    }

    /// More threads than slots, so that some find theirs taken.
    #[test]
    fn many_threads_publish_all_of_it() {
        const THREADS: u64 = 80;
        let order = Order::new(8);
        let next = AtomicU64::new(8);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (order, next) = (&order, &next);
                scope.spawn(move || {
                    for round in 0..50 {
                        let room = 8 * (1 + (thread + round) % 5);
                        let from = next.fetch_add(room, Ordering::Relaxed);
                        order.publish(from, from + room);
                        assert!(order.end() >= from + room);
                    }
                });
            }
        });
        assert_eq!(order.end(), next.into_inner());
    }
}

#[cfg(all(test, loom))]
mod interleavings {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// What loom watches: a write by one thread and a read by another must be ordered.
    struct World {
        order: Order,
        records: Vec<UnsafeCell<u64>>,
    }

    impl World {
        fn new(writers: usize) -> Arc<Self> {
            let records = (0..writers).map(|_| UnsafeCell::new(0)).collect();
            Arc::new(World { order: Order::new(8), records })
        }

        /// Writes record `index` and publishes its room of 8.
        fn write(&self, index: usize) {
            self.records[index].with_mut(|_| ());
            let from = 8 + 8 * index as u64;
            self.order.publish(from, from + 8);
            assert!(self.order.end() >= from + 8, "it returns when it is published");
        }

        /// Reads what is published.
        fn read(&self) {
            let count = (self.order.end() / 8 - 1) as usize;
            self.records[..count].iter().for_each(|record| record.with(|_| ()));
        }

        fn check_end(&self) {
            assert_eq!(self.order.end(), 8 + 8 * self.records.len() as u64);
            let keys = self.order.slots.iter().map(|slot| slot.0.key.load(Ordering::Relaxed));
            assert!(keys.into_iter().all(|key| key == FREE), "a room stays parked");
        }
    }

    /// Explores all interleavings, or those with so many preemptions at most.
    fn explore(preemptions_max: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(preemptions_max);
        builder.max_branches = 10_000;
        builder.check(model);
    }

    fn write_in_thread(world: &Arc<World>, index: usize) -> thread::JoinHandle<()> {
        let world = Arc::clone(world);
        thread::spawn(move || world.write(index))
    }

    #[test]
    fn who_sees_a_position_sees_all_records_below_it() {
        explore(Some(3), || {
            let world = World::new(2);
            let writers = [0, 1].map(|index| write_in_thread(&world, index));
            world.read();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            world.check_end();
        });
    }

    #[test]
    fn three_rooms_in_two_slots_are_published_once() {
        explore(Some(1), || {
            let world = World::new(3);
            let writers = [1, 2].map(|index| write_in_thread(&world, index));
            world.write(0);
            world.read();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            world.check_end();
        });
    }
}
