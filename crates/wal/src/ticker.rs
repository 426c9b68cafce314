//! The thread that syncs a log periodically. It sleeps on a condition variable with a timeout, so
//! that it ends at once when the log closes.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::log::Core;

/// Whether the thread has to end, and the event that signals it.
#[derive(Debug, Default)]
struct Stop {
    is_wanted: Mutex<bool>,
    changed: Condvar,
}

/// The running thread. Dropping it ends and joins it.
#[derive(Debug)]
pub(crate) struct Ticker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(core: Arc<Core>, interval: Duration) -> Result<Self> {
        let stop = Arc::new(Stop::default());
        let shared = Arc::clone(&stop);
        let thread = Builder::new()
            .name("log sync".to_owned())
            .spawn(move || run(&core, &shared, interval))
            .map_err(Error::Thread)?;
        Ok(Ticker { stop, thread: Some(thread) })
    }
}

fn run(core: &Core, stop: &Stop, interval: Duration) {
    let mut is_wanted = stop.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let waited = stop.changed.wait_timeout_while(is_wanted, interval, |wanted| !*wanted);
        let (held, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *held {
            return;
        }
        drop(held);
        // A failed sync stays in the log, and the next writer gets it. Other errors are retried at
        // the next tick.
        let _ = core.sync_published();
        is_wanted = stop.is_wanted.lock().unwrap_or_else(PoisonError::into_inner);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.stop.is_wanted.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread has no result, and a panic of it was already printed.
            let _ = thread.join();
        }
    }
}
