//! The commit sequencer: publishes records in LSN order.
//!
//! ```text
//!   reserved   | a | b | c | d |           b and c are written, a is not
//!   published  ^                           no reader sees a hole
//!   queued         b   c                   the writer of a publishes all three
//! ```
//!
//! Ranges of the log are reserved in LSN order and written in any order. One word is the end of
//! what is published. A writer whose range begins at the word moves the word to the end of its
//! range. Any other writer queues its range and waits until the word has passed it. The thread that
//! moves the word checks whether the next range is queued, and publishes that one too. So a writer
//! that sleeps while it waits delays no other thread. Only one that sleeps during its copy does.
//!
//! The LSN of a range chooses its queue slot. If the slot is in use, the writer waits without
//! queueing. A queued range may also be overlooked: its own writer then dequeues it when the word
//! reaches it. So queueing needs only an exchange and an acquire on each side.
//!
//! **Invariants:** one range has one owner: the thread that reserved it, or the one that dequeued
//! it. Only the owner of the range at the word moves the word.

use keyrack_concurrent::Backoff;

use crate::primitive::{AtomicU64, CachePadded, Ordering};

/// Log2 of the number of slots. Loom has two slots, so that ranges meet in one.
const SLOTS_LOG2: u32 = if cfg!(loom) { 1 } else { 6 };

/// The key of a slot without a range. No range begins at LSN 0.
const FREE: u64 = 0;
/// The key of a slot that is being filled. No range begins here: LSNs are multiples of 8.
const BUSY: u64 = 1;

/// A slot for one queued range.
#[derive(Debug)]
struct Slot {
    /// Where the range begins, [`FREE`] or [`BUSY`].
    key: AtomicU64,
    /// Where it ends. Written by the thread that made the slot busy, read by the one that finds
    /// the key.
    end: AtomicU64,
}

/// The end of what is published, and the ranges that wait for it.
#[derive(Debug)]
pub(crate) struct CommitSequencer {
    end: CachePadded<AtomicU64>,
    slots: Box<[CachePadded<Slot>]>,
}

impl CommitSequencer {
    pub(crate) fn new(start: u64) -> Self {
        let slot = |_| CachePadded(Slot { key: AtomicU64::new(FREE), end: AtomicU64::new(0) });
        CommitSequencer {
            end: CachePadded(AtomicU64::new(start)),
            slots: (0..1 << SLOTS_LOG2).map(slot).collect(),
        }
    }

    /// The end of what is published. What was written before it was published can be seen.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        // Acquire pairs with the Release in `advance` of all publishers so far: each has seen the
        // one before it.
        self.end.0.load(Ordering::Acquire)
    }

    /// Publishes the range from one LSN to another as soon as everything before it is published.
    /// Waits until it is.
    #[inline]
    pub(crate) fn publish(&self, from: u64, to: u64) {
        if self.end() == from {
            self.advance(to);
        } else {
            self.queue_and_wait(from, to);
        }
    }

    /// Moves the word to the end of a range that the caller owns, and of the queued ranges after
    /// it.
    #[inline]
    fn advance(&self, to: u64) {
        let mut end = to;
        loop {
            // Release pairs with the Acquire in `end`.
            self.end.0.store(end, Ordering::Release);
            let slot = self.slot(end);
            // Acquire pairs with the Release in `queue_and_wait`: the end of the range, and what
            // its writer has written.
            if slot.key.load(Ordering::Acquire) != end {
                return;
            }
            let next = slot.end.load(Ordering::Relaxed);
            if !Self::try_dequeue(slot, end) {
                return;
            }
            end = next;
        }
    }

    #[cold]
    fn queue_and_wait(&self, from: u64, to: u64) {
        let slot = self.slot(from);
        // Acquire: the thread that used the slot before has read its end.
        let is_queued =
            slot.key.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_queued {
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
            if end == from && (!is_queued || Self::try_dequeue(slot, from)) {
                return self.advance(to);
            }
            backoff.wait();
        }
    }

    /// Removes a range from its slot. False if another thread has.
    fn try_dequeue(slot: &Slot, from: u64) -> bool {
        // Release: the end was read. An LSN is used once, so the key is that of the same range.
        slot.key.compare_exchange(from, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn slot(&self, lsn: u64) -> &Slot {
        // After a multiplication by the golden ratio the high bits depend on all bits of the LSN.
        let mixed = (lsn >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.slots[(mixed >> (64 - SLOTS_LOG2)) as usize].0
    }

    /// Waits until everything below `lsn` is published.
    pub(crate) fn wait_for(&self, lsn: u64) {
        let mut backoff = Backoff::new();
        while self.end() < lsn {
            backoff.wait();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_range_is_published_when_those_before_it_are() {
        let sequencer = CommitSequencer::new(8);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sequencer.publish(16, 40);
                is_done.store(true, Ordering::Relaxed);
            });
            // The range may be queued or not yet.
            assert_eq!(sequencer.end(), 8);
            assert!(!is_done.load(Ordering::Relaxed));
            sequencer.publish(8, 16);
            sequencer.wait_for(40);
        });
        assert_eq!(sequencer.end(), 40);
    }

    /// A queued range is published by the writer before it, also while its own writer sleeps.
    #[test]
    fn queued_ranges_are_published_by_the_writer_before_them() {
        let sequencer = CommitSequencer::new(8);
        for (from, to) in [(16, 24), (24, 80)] {
            let slot = sequencer.slot(from);
            assert_eq!(slot.key.load(Ordering::Relaxed), FREE, "they do not meet in a slot");
            slot.end.store(to, Ordering::Relaxed);
            slot.key.store(from, Ordering::Relaxed);
        }
        sequencer.publish(8, 16);
        assert_eq!(sequencer.end(), 80);
        let keys = sequencer.slots.iter().map(|slot| slot.0.key.load(Ordering::Relaxed));
        assert!(keys.into_iter().all(|key| key == FREE));
    }

    /// More threads than slots, so that some find their slot in use.
    #[test]
    fn many_threads_publish_every_range() {
        const THREADS: u64 = 80;
        let sequencer = CommitSequencer::new(8);
        let next = AtomicU64::new(8);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (sequencer, next) = (&sequencer, &next);
                scope.spawn(move || {
                    for round in 0..50 {
                        let bytes = 8 * (1 + (thread + round) % 5);
                        let from = next.fetch_add(bytes, Ordering::Relaxed);
                        sequencer.publish(from, from + bytes);
                        assert!(sequencer.end() >= from + bytes);
                    }
                });
            }
        });
        assert_eq!(sequencer.end(), next.into_inner());
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
        sequencer: CommitSequencer,
        records: Vec<UnsafeCell<u64>>,
    }

    impl World {
        fn new(writers: usize) -> Arc<Self> {
            let records = (0..writers).map(|_| UnsafeCell::new(0)).collect();
            Arc::new(World { sequencer: CommitSequencer::new(8), records })
        }

        /// Writes record `index` and publishes its range of 8 bytes.
        fn write(&self, index: usize) {
            self.records[index].with_mut(|_| ());
            let from = 8 + 8 * index as u64;
            self.sequencer.publish(from, from + 8);
            assert!(self.sequencer.end() >= from + 8, "it returns when it is published");
        }

        /// Reads what is published.
        fn read(&self) {
            let count = (self.sequencer.end() / 8 - 1) as usize;
            self.records[..count].iter().for_each(|record| record.with(|_| ()));
        }

        fn check_end(&self) {
            assert_eq!(self.sequencer.end(), 8 + 8 * self.records.len() as u64);
            let keys = self.sequencer.slots.iter().map(|slot| slot.0.key.load(Ordering::Relaxed));
            assert!(keys.into_iter().all(|key| key == FREE), "a range stays queued");
        }
    }

    /// Explores all interleavings, or those with at most `preemptions_max` preemptions.
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
    fn seeing_an_lsn_means_seeing_all_records_below_it() {
        explore(Some(3), || {
            let world = World::new(2);
            let writers = [0, 1].map(|index| write_in_thread(&world, index));
            world.read();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            world.check_end();
        });
    }

    #[test]
    fn three_ranges_in_two_slots_are_published_once() {
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
