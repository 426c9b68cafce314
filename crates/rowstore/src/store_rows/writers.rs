//! The locks of writers: a session holds its own lock while it changes rows and counts them.
//!
//! Its own lock costs a session two atomic operations on a line that no other thread touches.
//! A group and a clear take the locks of all sessions, in the order in which they were opened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session's lock. It protects no data, so a panic of its holder does no harm.
pub(super) type WriterLock = Arc<Mutex<()>>;

/// The locks of all sessions.
#[derive(Debug, Default)]
pub(super) struct WriterLocks {
    sessions: Mutex<Vec<WriterLock>>,
}

/// Locks, also after a panic of another holder.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WriterLocks {
    /// Registers a session and returns its lock.
    pub(super) fn register(&self) -> WriterLock {
        let writer = WriterLock::default();
        lock(&self.sessions).push(Arc::clone(&writer));
        writer
    }

    /// Removes the lock of a session that ends.
    pub(super) fn unregister(&self, writer: &WriterLock) {
        lock(&self.sessions).retain(|other| !Arc::ptr_eq(other, writer));
    }

    /// Runs `work` while no session writes. The caller must not hold the lock of a session.
    pub(super) fn exclusive<R>(&self, work: impl FnOnce() -> R) -> R {
        let sessions = lock(&self.sessions);
        let _held: Vec<_> = sessions.iter().map(|writer| lock(writer)).collect();
        work()
    }
}
