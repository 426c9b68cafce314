//! The session registry: a writer slot for each session, for threads that wait until its writes are
//! in the log.
//!
//! ```text
//!   word of a slot   even ------------> odd ------------------------> even
//!                        first write         write, write ...   flush
//!                        of a batch, before
//!                        it is in the tree
//! ```
//!
//! If a thread has seen a row and then finds the word of its writer even, the row is in the log. If
//! the word is even before the thread reads the tree, then later writes of the session also begin
//! later.
//!
//! A flush wakes waiting threads. Without them it costs one exchange of a word that no other
//! session writes.

use keyrack_store::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// The state of a session that other threads see.
#[derive(Debug)]
pub(crate) struct WriterSlot {
    /// Odd while the session has unlogged writes. Only the session writes it.
    word: AtomicU64,
    /// The largest version that the session has assigned.
    clock: AtomicU64,
    /// Whether the last flush failed.
    has_failed: AtomicBool,
    thread: ThreadId,
}

impl WriterSlot {
    /// The session is about to write the first row of a batch.
    pub(crate) fn begin(&self) {
        self.word.store(self.word.load(Ordering::Relaxed) | 1, Ordering::SeqCst);
        // With the fence of `wait_until_logged`: either it sees the word odd, or what this session
        // loads from here on is not older than what was loaded before the fence there.
        fence(Ordering::SeqCst);
    }

    /// The session has assigned this version.
    #[inline]
    pub(crate) fn note(&self, version: u64) {
        self.clock.store(version, Ordering::Release);
    }
}

#[derive(Debug, Default)]
pub(crate) struct SessionRegistry {
    slots: Mutex<Vec<Arc<WriterSlot>>>,
    waiters: AtomicUsize,
    gate: Mutex<()>,
    changed: Condvar,
}

impl SessionRegistry {
    fn slots(&self) -> MutexGuard<'_, Vec<Arc<WriterSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a slot for a session of the calling thread.
    pub(crate) fn register(&self) -> Arc<WriterSlot> {
        let slot = Arc::new(WriterSlot {
            word: AtomicU64::new(0),
            clock: AtomicU64::new(0),
            has_failed: AtomicBool::new(false),
            thread: std::thread::current().id(),
        });
        self.slots().push(Arc::clone(&slot));
        slot
    }

    /// Removes the slot of a session that ends. Its clock is stored elsewhere before.
    pub(crate) fn unregister(&self, slot: &Arc<WriterSlot>) {
        self.slots().retain(|other| !Arc::ptr_eq(other, slot));
        self.flushed(slot);
    }

    /// The writes of the session are in the log.
    pub(crate) fn flushed(&self, slot: &WriterSlot) {
        slot.has_failed.store(false, Ordering::Relaxed);
        let word = slot.word.load(Ordering::Relaxed);
        if word & 1 == 1 {
            slot.word.store(word + 1, Ordering::SeqCst);
        }
        self.wake();
    }

    /// The session could not log its writes.
    pub(crate) fn failed(&self, slot: &WriterSlot) {
        slot.has_failed.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.waiters.load(Ordering::SeqCst) > 0 {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    /// The largest version that any open session has assigned.
    pub(crate) fn clock(&self) -> u64 {
        let clocks = self.slots();
        clocks.iter().map(|slot| slot.clock.load(Ordering::Acquire)).max().unwrap_or(0)
    }

    /// Returns when everything that was in the tree before the call is in the log.
    ///
    /// # Errors
    /// `Usage` if the calling thread has a session with unlogged writes, since it would wait for
    /// itself; `Io` if a session cannot log its writes.
    pub(crate) fn wait_until_logged(&self) -> Result<()> {
        fence(Ordering::SeqCst);
        let slots = self.slots().clone();
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let outcome = slots.iter().try_for_each(|slot| self.wait(slot));
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    fn wait(&self, slot: &WriterSlot) -> Result<()> {
        let word = slot.word.load(Ordering::SeqCst);
        if word & 1 == 0 {
            return Ok(());
        }
        if slot.thread == std::thread::current().id() {
            return Err(Error::usage("this thread has unflushed writes: flush its session first"));
        }
        let is_open = |_: &mut ()| {
            slot.word.load(Ordering::SeqCst) == word && !slot.has_failed.load(Ordering::SeqCst)
        };
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(gate, is_open).unwrap_or_else(PoisonError::into_inner));
        if slot.word.load(Ordering::SeqCst) == word {
            let full = std::io::ErrorKind::Other.into();
            return Err(Error::io("waiting for a session that cannot log its writes", full));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_the_writer_has_flushed() {
        let (sessions, logged) = (SessionRegistry::default(), AtomicBool::new(false));
        let (sessions, logged) = (&sessions, &logged);
        std::thread::scope(|scope| {
            let (began, begun) = std::sync::mpsc::channel();
            let flush = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                let slot = sessions.register();
                slot.begin();
                began.send(()).unwrap();
                flush.1.recv().unwrap();
                logged.store(true, Ordering::SeqCst);
                sessions.flushed(&slot);
                sessions.unregister(&slot);
            });
            begun.recv().unwrap();
            let waiter = scope.spawn(move || {
                sessions.wait_until_logged().unwrap();
                assert!(logged.load(Ordering::SeqCst));
            });
            flush.0.send(()).unwrap();
            waiter.join().unwrap();
        });
        assert!(sessions.slots().is_empty());
    }

    #[test]
    fn no_thread_waits_for_itself_or_for_a_failed_flush() {
        let sessions = SessionRegistry::default();
        let slot = sessions.register();
        slot.begin();
        slot.note(12);
        assert!(matches!(sessions.wait_until_logged(), Err(Error::Usage { .. })));
        sessions.failed(&slot);
        let waited = std::thread::scope(|scope| {
            scope.spawn(|| sessions.wait_until_logged()).join().unwrap()
        });
        assert!(matches!(waited, Err(Error::Io { .. })), "{waited:?}");
        assert_eq!(sessions.clock(), 12);
        sessions.flushed(&slot);
        assert!(sessions.wait_until_logged().is_ok());
        sessions.unregister(&slot);
        assert_eq!(sessions.clock(), 0);
    }
}
