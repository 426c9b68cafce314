//! Read states that nobody looks at any more, and the thread that frees what they held.
//!
//! ```text
//!   who exchanges a read state ---------> queue ----> thread "flodb-free"
//!   the last reader of a read state ---->               waits for those who look at read states
//!                                                       clears or unmaps memtables
//!                                                       closes and removes files of tables
//! ```
//!
//! To clear the slots of a memtable of 64 MiB, or to unmap it, takes milliseconds. To remove the
//! file of a table may take a hundred, where the file system tells the device what has become free.
//! The last one to drop a read state may be a writer or a reader, and neither should wait for that.
//!
//! A read state that was exchanged lives until nobody is pinned who may look at it. Only the thread
//! that has retired it notices. A writer may do nothing more for hours, and the files would stay as
//! long; so the thread retires them, and looks again until they are gone, for a while.
//!
//! **When memory is short** the thread that flushes frees what waits, and waits for what this
//! thread is about. Otherwise, where this thread gets no processor, memtables that nobody needs
//! could be more than those in use.
//!
//! **At the end** the queue closes: the thread frees what is left. What comes later, from iterators
//! that outlive the store, is freed where it is dropped.

use super::lock;
use crate::read_state::ReadState;
use keyrack_concurrent::{Exchanged, free_or_hand_over};
use std::any::Any;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// The pause before the thread looks again whether somebody may still look at a read state, and
/// how many times longer the next one is. Readers are pinned for microseconds, and a writer for a
/// page fault; who is pinned for longer than the last pause is met at the next exchange.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const LOOK_AGAIN_FACTOR: u32 = 4;
const LOOK_AGAIN_MAX: Duration = Duration::from_secs(4);

/// What somebody held: memtables, tables.
type Held = Box<dyn Any + Send>;

/// What waits to be freed.
#[derive(Default)]
pub(crate) struct Garbage {
    state: Mutex<State>,
    changed: Condvar,
    /// Held by whoever frees what was in the queue, from before it is taken out.
    freeing: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Whether there is a thread.
    is_open: bool,
    /// Which one.
    thread: Option<ThreadId>,
    held: Vec<Held>,
    /// How many were left to the thread so far, and how many of them it has freed.
    left: u64,
    freed: u64,
    /// Whether somebody else has freed what was in the queue, but for what readers may look at.
    looks_again: bool,
    /// Who waits, for tests.
    #[cfg(test)]
    waiting: usize,
}

/// Closes the queue when the thread ends, also by a panic: then nobody waits for it.
struct ClosesAtEnd<'a>(&'a Garbage);

impl Drop for ClosesAtEnd<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Says that so many are freed, also when one of them panics: they are gone then.
struct Counts<'a> {
    garbage: &'a Garbage,
    count: usize,
}

impl Drop for Counts<'_> {
    fn drop(&mut self) {
        lock(&self.garbage.state).freed += self.count as u64;
        self.garbage.changed.notify_all();
    }
}

impl Garbage {
    /// A thread frees from now on.
    pub(super) fn open(&self) {
        lock(&self.state).is_open = true;
    }

    /// The thread ends when nothing is left.
    pub(super) fn close(&self) {
        lock(&self.state).is_open = false;
        self.changed.notify_all();
    }

    /// Leaves a read state to the thread that a writer has exchanged for another one.
    pub(crate) fn leave_exchanged(&self, old: Exchanged<Arc<ReadState>>) {
        self.leave(old);
        // If there is no thread, this one has retired it.
        free_retired();
    }

    /// Leaves something to the thread, if there is one. Otherwise it is freed here, as is what the
    /// thread itself drops.
    pub(crate) fn leave(&self, held: impl Any + Send) {
        let held: Held = Box::new(held);
        let mut state = lock(&self.state);
        if state.is_open && state.thread != Some(thread::current().id()) {
            state.held.push(held);
            state.left += 1;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits until everything is freed that was left before.
    pub(super) fn wait(&self) {
        let mut state = lock(&self.state);
        let before = state.left;
        #[cfg(test)]
        {
            state.waiting += 1;
        }
        while state.is_open && state.freed < before {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Frees everything that was left before, and what that leaves: read states leave tables and
    /// memtables. The thread looks again for what readers may look at now.
    pub(crate) fn free_now(&self) {
        while self.free_queue() > 0 {}
        lock(&self.state).looks_again = true;
        self.changed.notify_all();
    }

    /// Frees what is in the queue, and says how much that was.
    fn free_queue(&self) -> usize {
        // One at a time, so that `freed` tells which ones. No panic leaves anything half changed.
        let _freeing = self.freeing.lock().unwrap_or_else(PoisonError::into_inner);
        let held = std::mem::take(&mut lock(&self.state).held);
        let counts = Counts { garbage: self, count: held.len() };
        drop(held);
        free_retired();
        counts.count
    }

    /// The thread: frees until the queue is closed and empty, and calls `freed` each time.
    pub(super) fn run(&self, freed: impl Fn()) {
        let _closes = ClosesAtEnd(self);
        let mut pause = LOOK_AGAIN_MAX;
        let mut state = lock(&self.state);
        state.thread = Some(thread::current().id());
        loop {
            let is_idle =
                |state: &mut State| state.is_open && state.held.is_empty() && !state.looks_again;
            state = if pause < LOOK_AGAIN_MAX {
                let waited = self.changed.wait_timeout_while(state, pause, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            } else {
                let waited = self.changed.wait_while(state, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            };
            if state.held.is_empty() && !state.is_open {
                return;
            }
            let looks_again = std::mem::take(&mut state.looks_again);
            drop(state);
            let is_new = self.free_queue() > 0 || looks_again;
            pause = if is_new { LOOK_AGAIN } else { pause.saturating_mul(LOOK_AGAIN_FACTOR) };
            freed();
            state = lock(&self.state);
        }
    }
}

/// Frees what this thread has retired and nobody is pinned for any more. The rest is left to the
/// next thread that looks: this one may be idle then.
fn free_retired() {
    // A reader that was just there is gone the second time, as a rule.
    free_or_hand_over();
    free_or_hand_over();
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_concurrent::{Swap, pin};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;

    /// What frees when it is dropped does so when it is told.
    struct Slow(mpsc::Receiver<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.recv().unwrap();
        }
    }

    /// It waited until the queue was empty, which others who leave more can put off for ever.
    #[test]
    fn nobody_waits_for_what_is_left_later() {
        let garbage = Garbage::default();
        garbage.open();
        let ((first, of_first), (second, of_second)) = (mpsc::channel(), mpsc::channel());
        thread::scope(|scope| {
            let frees = scope.spawn(|| garbage.run(|| ()));
            garbage.leave(Slow(of_first));
            let waits = scope.spawn(|| {
                garbage.wait();
                lock(&garbage.state).freed
            });
            // The thread has taken the first, and the waiter has seen it alone.
            while !lock(&garbage.state).held.is_empty() {
                thread::yield_now();
            }
            while lock(&garbage.state).waiting == 0 {
                thread::yield_now();
            }
            garbage.leave(Slow(of_second));
            first.send(()).unwrap();
            assert_eq!(waits.join().unwrap(), 1);
            second.send(()).unwrap();
            garbage.close();
            frees.join().unwrap();
        });
    }

    /// Flushed memtables were more than the memory budget while the thread got no processor.
    #[test]
    fn a_flush_frees_what_waits_and_what_that_leaves() {
        struct Leaves(Arc<Garbage>, Arc<AtomicUsize>, usize);
        impl Drop for Leaves {
            fn drop(&mut self) {
                let Leaves(garbage, freed, more) = self;
                freed.fetch_add(1, Ordering::Relaxed);
                if *more > 0 {
                    garbage.leave(Leaves(Arc::clone(garbage), Arc::clone(freed), *more - 1));
                }
            }
        }
        let garbage = Arc::new(Garbage::default());
        garbage.open();
        let freed = Arc::new(AtomicUsize::new(0));
        let (goes_on, waits) = mpsc::channel();
        thread::scope(|scope| {
            let frees = scope.spawn(|| garbage.run(|| ()));
            garbage.leave(Slow(waits));
            while !lock(&garbage.state).held.is_empty() {
                thread::yield_now();
            }
            garbage.leave(Leaves(Arc::clone(&garbage), Arc::clone(&freed), 3));
            assert!(garbage.freeing.try_lock().is_err(), "the thread is about the first");
            let flush = scope.spawn(|| {
                garbage.free_now();
                freed.load(Ordering::Relaxed)
            });
            goes_on.send(()).unwrap();
            assert_eq!(flush.join().unwrap(), 4);
            garbage.wait();
            garbage.close();
            frees.join().unwrap();
        });
    }

    /// A reader looked at what a flush freed, and the thread found nothing in the queue: it slept
    /// until somebody left something more.
    #[test]
    fn the_thread_looks_again_for_what_a_flush_could_not_free() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let freed = Arc::new(AtomicUsize::new(0));
        let counted = || Counted(Arc::clone(&freed));
        let place = Swap::new(counted());
        let garbage = Garbage::default();
        garbage.open();
        let ((pinned, is_pinned), (goes_on, waits)) = (mpsc::channel(), mpsc::channel());
        thread::scope(|scope| {
            let place = &place;
            scope.spawn(move || {
                let guard = pin();
                let seen = place.load(&guard);
                pinned.send(()).unwrap();
                waits.recv().unwrap();
                assert_eq!(seen.0.load(Ordering::Relaxed), 0);
                drop(guard);
                // A thread that ends frees what it finds.
                waits.recv().unwrap();
            });
            is_pinned.recv().unwrap();
            garbage.leave(place.exchange(counted()));
            garbage.free_now();
            let frees = scope.spawn(|| garbage.run(|| ()));
            goes_on.send(()).unwrap();
            while freed.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            goes_on.send(()).unwrap();
            garbage.close();
            frees.join().unwrap();
        });
    }

    /// Without the thread, all is freed by whoever asks.
    #[test]
    fn what_waits_is_freed_also_before_the_thread_begins() {
        let garbage = Garbage::default();
        garbage.open();
        let (goes_on, waits) = mpsc::channel();
        goes_on.send(()).unwrap();
        garbage.leave(Slow(waits));
        garbage.free_now();
        assert!(goes_on.send(()).is_err(), "it is gone");
        garbage.wait();
    }

    /// The thread was gone and its waiters were not told.
    #[test]
    fn a_panic_while_freeing_lets_waiters_go() {
        struct Panics;
        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("on purpose");
            }
        }
        let garbage = Garbage::default();
        garbage.open();
        garbage.leave(Panics);
        thread::scope(|scope| {
            assert!(scope.spawn(|| garbage.run(|| ())).join().is_err());
            garbage.wait();
        });
        garbage.leave(0_u64);
        garbage.wait();
    }
}
