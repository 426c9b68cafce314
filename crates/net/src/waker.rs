//! How another thread makes a loop look again: at its mail, at tokens, at the order to stop.
//!
//! A wake is a system call, so one that was not yet seen stands for all that follow.
//!
//! **Invariant:** what a thread did before [`Waker::wake`] is seen by the loop after it has taken
//! the wake, whether or not this wake was the one that made the call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wakes one loop. Clones wake the same one.
#[derive(Clone)]
pub struct Waker {
    inner: Arc<Inner>,
}

struct Inner {
    waker: mio::Waker,
    /// Was the loop woken, and has not looked since?
    is_pending: AtomicBool,
}

impl Waker {
    pub(crate) fn new(waker: mio::Waker) -> Self {
        Waker { inner: Arc::new(Inner { waker, is_pending: AtomicBool::new(false) }) }
    }

    /// Makes the loop look again, soon and at least once.
    pub fn wake(&self) {
        // AcqRel pairs with the exchange in `consume`: one that finds our mark comes after us, and
        // sees what we did; one that came before has left no mark, so we make the call.
        if !self.inner.is_pending.swap(true, Ordering::AcqRel) {
            // It fails when the kernel has no memory for eight bytes. The mark then stays, and the
            // loop finds it at its next iteration.
            let _ = self.inner.waker.wake();
        }
    }

    /// Was there a wake since the last call?
    pub(crate) fn consume(&self) -> bool {
        // A load first: the word stays shared while no thread wakes.
        self.inner.is_pending.load(Ordering::Relaxed)
            && self.inner.is_pending.swap(false, Ordering::AcqRel)
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waker").finish_non_exhaustive()
    }
}
