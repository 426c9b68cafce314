//! The notifier: requests to the maintenance threads of a store, and the condition that they sleep
//! on.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What was requested of the threads.
#[derive(Debug, Default)]
struct Requests {
    stop: bool,
    checkpoint: bool,
}

/// Wakes the maintenance threads of a store.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    requests: Mutex<Requests>,
    changed: Condvar,
}

impl Notifier {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a checkpoint.
    pub(crate) fn notify_checkpointer(&self) {
        self.requests().checkpoint = true;
        self.changed.notify_all();
    }

    /// Wakes the sweeper: there are rows that will expire, or dead ones.
    pub(crate) fn notify_sweeper(&self) {
        drop(self.requests());
        self.changed.notify_all();
    }

    /// Requests the end of all threads.
    pub(crate) fn stop(&self) {
        self.requests().stop = true;
        self.changed.notify_all();
    }

    /// Whether the threads have to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.requests().stop
    }

    /// Waits for the request of a checkpoint. Returns false if the store closes.
    pub(crate) fn wait_for_checkpoint(&self) -> bool {
        let idle = |requests: &mut Requests| !requests.stop && !requests.checkpoint;
        let held = self.changed.wait_while(self.requests(), idle);
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        held.checkpoint = false;
        !held.stop
    }

    /// Waits until `has_work`, and then for the interval. Returns false if the store closes.
    pub(crate) fn wait_for_sweep(&self, interval: Duration, has_work: impl Fn() -> bool) -> bool {
        let idle = |requests: &mut Requests| !requests.stop && !has_work();
        let held = self.changed.wait_while(self.requests(), idle);
        drop(held.unwrap_or_else(PoisonError::into_inner));
        self.pause(interval)
    }

    /// Waits for `time`. Returns false if the store closes.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let held =
            self.changed.wait_timeout_while(self.requests(), time, |requests| !requests.stop);
        let (held, _) = held.unwrap_or_else(PoisonError::into_inner);
        !held.stop
    }
}
