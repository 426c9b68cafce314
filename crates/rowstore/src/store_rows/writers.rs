//! Who writes: a session holds its own lock while it changes rows and counts what it changed.
//!
//! A lock of its own costs a session nothing but two atomic operations on a line that nobody else
//! touches. A group and a clear take the locks of all sessions, in the order in which they joined.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A session's lock. It guards no data, so a panic of its holder leaves nothing half done in it.
pub(super) type Seat = Arc<Mutex<()>>;

/// The locks of all sessions.
#[derive(Debug, Default)]
pub(super) struct Writers {
    seats: Mutex<Vec<Seat>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds one session's lock.
pub(super) fn hold(seat: &Seat) -> MutexGuard<'_, ()> {
    lock(seat)
}

impl Writers {
    pub(super) fn join(&self) -> Seat {
        let seat = Seat::default();
        lock(&self.seats).push(Arc::clone(&seat));
        seat
    }

    pub(super) fn leave(&self, seat: &Seat) {
        lock(&self.seats).retain(|other| !Arc::ptr_eq(other, seat));
    }

    /// Runs `work` while no session writes. The caller holds no lock of a session.
    pub(super) fn alone<R>(&self, work: impl FnOnce() -> R) -> R {
        let seats = lock(&self.seats);
        let _held: Vec<_> = seats.iter().map(|seat| lock(seat)).collect();
        work()
    }
}
