//! The exclusive section: a command over several keys runs while no other loop serves requests.
//!
//! ```text
//!   loop 0   reads slot 0 ... releases it . writes 0, 1, 2 . runs . releases all . reads slot 0
//!   loop 1   reads slot 1 ... iteration ends
//!   loop 2   reads slot 2 ... iteration ends      (its next iteration waits for slot 2)
//! ```
//!
//! This is a big-reader lock. Each loop thread has a reader slot, a lock on cache lines of its own,
//! and holds the read side while it serves requests. Other threads touch that line only to enter an
//! exclusive section, so an iteration costs two atomic operations that hit the cache. A loop enters
//! an exclusive section in four steps: it releases its own slot, takes the write side of all slots,
//! runs, and takes the read side of its slot again.
//!
//! * Two loops that both want an exclusive section cannot deadlock: neither holds its slot while it
//!   waits, and all take the slots in the same order.
//! * A loop that waited for an exclusive section to end serves its requests before the next
//!   exclusive section begins.
//! * Data that was read before [`ReaderGuard::exclusive`] may have changed inside: decide inside.
//! * The lock orders requests of loop threads only. It does not hold back a thread that writes rows
//!   without a reader guard.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};

/// The reader slots of all loop threads.
#[derive(Debug)]
pub struct ReaderSlots {
    slots: Box<[ReaderSlot]>,
    /// Threads that wait for their slots.
    waiting: AtomicUsize,
}

/// Two cache lines, because the prefetcher fetches pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ReaderSlot(RwLock<()>);

impl ReaderSlots {
    /// A slot for each of `loops` threads.
    #[must_use]
    pub fn new(loops: usize) -> Self {
        ReaderSlots {
            slots: (0..loops.max(1)).map(|_| ReaderSlot::default()).collect(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Locks the slot of loop `index` for reading; waits while an exclusive section runs. A thread
    /// holds one guard at a time.
    ///
    /// # Panics
    /// When there is no such slot.
    #[must_use]
    pub fn enter(&self, index: usize) -> ReaderGuard<'_> {
        assert!(index < self.slots.len(), "a slot for each loop");
        ReaderGuard { slots: self, index, locked: Some(self.read(index)) }
    }

    // The lock guards no data, so a panic of its holder leaves nothing half done in it.
    fn read(&self, index: usize) -> RwLockReadGuard<'_, ()> {
        let slot = &self.slots[index].0;
        match slot.try_read() {
            Ok(locked) => return locked,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.waiting.fetch_add(1, Relaxed);
        let locked = slot.read().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Relaxed);
        locked
    }
}

/// A reader slot that its loop thread holds until this is dropped.
#[derive(Debug)]
pub struct ReaderGuard<'s> {
    slots: &'s ReaderSlots,
    index: usize,
    locked: Option<RwLockReadGuard<'s, ()>>,
}

impl ReaderGuard<'_> {
    /// Runs `work` while no other loop holds its reader slot. Must not be nested.
    pub fn exclusive<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.locked = None;
        // Loops that waited for an earlier exclusive section serve first. They wait for nothing
        // else, and none starts to wait while no exclusive section runs, so this loop ends.
        while self.slots.waiting.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
        let result = {
            let slots = self.slots.slots.iter();
            let _all: Vec<_> =
                slots.map(|slot| slot.0.write().unwrap_or_else(PoisonError::into_inner)).collect();
            work()
        };
        self.locked = Some(self.slots.read(self.index));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Each reader moves one unit between two counters in two steps; an exclusive section sees the
    /// sum whole. Relaxed counters show nothing that the slots do not order.
    #[test]
    fn an_exclusive_section_sees_no_reader_half_done() {
        let readers = ReaderSlots::new(3);
        let (left, right) = (AtomicU64::new(2000), AtomicU64::new(0));
        std::thread::scope(|threads| {
            for index in 0..3 {
                let (readers, left, right) = (&readers, &left, &right);
                threads.spawn(move || {
                    for round in 0..500 {
                        let mut reader = readers.enter(index);
                        left.fetch_sub(1, Relaxed);
                        std::thread::yield_now();
                        right.fetch_add(1, Relaxed);
                        if round % 7 == index {
                            let sum = reader.exclusive(|| left.load(Relaxed) + right.load(Relaxed));
                            assert_eq!(sum, 2000);
                        }
                    }
                });
            }
        });
    }

    /// All loops waited 40 seconds for a client that sent one exclusive command after another.
    #[test]
    fn a_loop_that_waits_serves_before_the_next_exclusive_section() {
        let readers = ReaderSlots::new(2);
        let served = AtomicU64::new(0);
        std::thread::scope(|threads| {
            let mut reader = readers.enter(0);
            for round in 0..100 {
                reader.exclusive(|| {
                    threads.spawn(|| {
                        let _reader = readers.enter(1);
                        served.fetch_add(1, Relaxed);
                    });
                    while readers.waiting.load(Relaxed) == 0 {
                        std::thread::yield_now();
                    }
                    assert_eq!(served.load(Relaxed), round);
                });
                reader.exclusive(|| assert_eq!(served.load(Relaxed), round + 1));
            }
        });
    }

    #[test]
    fn a_slot_is_released_after_a_panic() {
        let readers = ReaderSlots::new(1);
        let work = || {
            readers.enter(0).exclusive(|| panic!("on purpose"));
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
        assert_eq!(readers.enter(0).exclusive(|| 7), 7);
    }
}
