//! Epochs: when may memory be freed that a reader without a lock may still look at?
//!
//! ```text
//!   reader   pin ---- load pointer ---- use ---- unpin
//!   writer              unlink ---- retire            ... freed two epochs later
//! ```
//!
//! A thread pins before it loads the first pointer and stays pinned while it uses what it found. A
//! writer first makes an object unreachable, then retires it while pinned itself. The object is
//! freed when every thread that was pinned at that moment has unpinned since. No thread registers:
//! the first pin of a thread does it, and its end hands over what it had retired.
//!
//! `crossbeam-epoch` does the work (`docs/decisions/0006-epochs.md` has the reasons, and what is
//! and is not bounded). This module narrows it to what the indexes need, so that it can be
//! exchanged.

use std::fmt;

/// Pins the calling thread. Pins nest; a nested one is cheaper.
#[must_use]
pub fn pin() -> Guard {
    Guard(crossbeam_epoch::pin())
}

/// A pinned thread. Nothing that was reachable since the pin is freed while this lives.
pub struct Guard(crossbeam_epoch::Guard);

impl Guard {
    /// Runs `free` once no thread that is pinned now can hold what it frees. It may run in any
    /// thread.
    ///
    /// # Safety
    /// What `free` touches is unreachable for threads that pin from now on, may be sent
    /// to another thread, and is retired once.
    pub unsafe fn retire<F: FnOnce()>(&self, free: F) {
        // SAFETY: the caller promises what this asks for: unreachable, sendable, once.
        unsafe { self.0.defer_unchecked(free) };
    }

    /// Unpins and pins again, so that a long walk does not hold back the whole process. No effect
    /// while the thread has another guard. It takes the guard exclusively: nothing borrowed from it
    /// is left.
    pub fn repin(&mut self) {
        self.0.repin();
    }

    /// Gives what this thread has retired to the common queue and frees what is due.
    pub fn flush(&self) {
        self.0.flush();
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn retire_flag(freed: &Arc<AtomicBool>) {
        let freed = Arc::clone(freed);
        let guard = pin();
        // SAFETY: the flag is counted by its Arc, and only this closure holds this count.
        unsafe { guard.retire(move || freed.store(true, Ordering::Release)) };
        guard.flush();
    }

    #[test]
    fn nothing_is_freed_before_a_pinned_thread_unpins() {
        let freed = Arc::new(AtomicBool::new(false));
        let mut early = pin();
        std::thread::scope(|scope| {
            scope.spawn(|| retire_flag(&freed));
        });
        for _ in 0..32 {
            std::thread::scope(|scope| {
                scope.spawn(|| pin().flush());
            });
            assert!(!freed.load(Ordering::Acquire), "freed while a thread was pinned");
        }
        while !freed.load(Ordering::Acquire) {
            early.repin();
            early.flush();
            std::thread::yield_now();
        }
    }
}
