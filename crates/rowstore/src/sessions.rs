//! The sessions of a store, as somebody sees them who has to wait for what they have written.
//!
//! ```text
//!   word of a slot   even ------------> odd ------------------------> even
//!                        first write         write, write ...   flush
//!                        of a batch, before
//!                        it is in the tree
//! ```
//!
//! Whoever has seen a row and then finds the word of its writer even, or waits until it is, knows
//! that the row is in the log. One who finds it even before he looks at the tree knows more: what
//! the session writes later begins later.
//!
//! A flush that finds somebody waiting wakes him; else it costs one exchange of a word that is the
//! session's own.

use keyrack_store::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// What others see of a session.
#[derive(Debug)]
pub(crate) struct WriterSlot {
    /// Odd while something is written that is not logged. Written by the session alone.
    word: AtomicU64,
    /// The largest version that the session has given.
    clock: AtomicU64,
    /// The last flush failed.
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

    /// The session has given this version.
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

    /// A slot for a session of the calling thread.
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

    /// The session is over, and its clock is kept elsewhere.
    pub(crate) fn unregister(&self, slot: &Arc<WriterSlot>) {
        self.slots().retain(|other| !Arc::ptr_eq(other, slot));
        self.flushed(slot);
    }

    /// What the session wrote is in the log.
    pub(crate) fn flushed(&self, slot: &WriterSlot) {
        slot.has_failed.store(false, Ordering::Relaxed);
        let word = slot.word.load(Ordering::Relaxed);
        if word & 1 == 1 {
            slot.word.store(word + 1, Ordering::SeqCst);
        }
        self.wake();
    }

    /// The session could not log what it wrote.
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

    /// The largest version that any session has given.
    pub(crate) fn clock(&self) -> u64 {
        let clocks = self.slots();
        clocks.iter().map(|slot| slot.clock.load(Ordering::Acquire)).max().unwrap_or(0)
    }

    /// Returns when everything that was in the tree before the call is in the log.
    ///
    /// # Errors
    /// `Usage` when the calling thread has a session with such writes, since it would wait for
    /// itself; `Io` when a session cannot log its writes at present.
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
            return Err(Error::usage(
                "this thread has writes that are not flushed: flush its session first",
            ));
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
    fn who_waits_gets_on_when_the_writer_has_flushed_and_not_before() {
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
    fn nobody_waits_for_himself_or_for_one_who_cannot_log() {
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
