//! The thread behind durability `interval:MS`, for engines that can sync but have no clock of their
//! own: it calls the engine's sync every MS milliseconds.
//!
//! It waits on a condition with a timeout, so that it ends at once when the store does. A sync that
//! fails is the last one, and every later write is told so: the kernel may have dropped the pages.

use keyrack_store::{Durability, Error, Result};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

#[derive(Debug, Default)]
struct Shared {
    is_over: Mutex<bool>,
    changed: Condvar,
    failure: OnceLock<String>,
}

/// The running thread. Dropping it ends and joins it.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Calls `sync` every `interval_ms` milliseconds until it fails or the ticker is dropped.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no thread to be had.
    pub(crate) fn start(
        interval_ms: u32,
        sync: impl Fn() -> std::result::Result<(), String> + Send + 'static,
    ) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let interval = Duration::from_millis(interval_ms.into());
        let thread = Builder::new()
            .name("store sync".to_owned())
            .spawn(move || theirs.run(interval, &sync))
            .map_err(|error| Error::io("cannot start the thread that syncs", error))?;
        Ok(Ticker { shared, thread: Some(thread) })
    }

    /// The thread that a durability asks for: with `interval:MS` one that calls what `sync` gives,
    /// with any other none.
    ///
    /// # Errors
    /// That of `sync`, and as [`start`](Ticker::start).
    pub(crate) fn of<S>(
        durability: Durability,
        sync: impl FnOnce() -> Result<S>,
    ) -> Result<Option<Self>>
    where
        S: Fn() -> std::result::Result<(), String> + Send + 'static,
    {
        match durability {
            Durability::Interval(ms) => Ticker::start(ms, sync()?).map(Some),
            Durability::None | Durability::Os | Durability::Sync => Ok(None),
        }
    }

    /// Asked before every write.
    ///
    /// # Errors
    /// [`Error::Poisoned`] once a sync has failed.
    pub(crate) fn check(&self) -> Result<()> {
        match self.shared.failure.get() {
            None => Ok(()),
            Some(cause) => Err(Error::poisoned(cause)),
        }
    }
}

impl Shared {
    fn run(&self, interval: Duration, sync: &dyn Fn() -> std::result::Result<(), String>) {
        let mut is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let waited = self.changed.wait_timeout_while(is_over, interval, |is_over| !*is_over);
            let (held, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if *held {
                return;
            }
            drop(held);
            if let Err(cause) = sync() {
                self.failure.get_or_init(|| cause);
                return;
            }
            is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.shared.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends by itself, and has nothing to tell.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn it_syncs_again_and_again_and_ends_with_its_owner() {
        let (sender, receiver) = mpsc::channel();
        let ticker = Ticker::start(1, move || sender.send(()).map_err(|e| e.to_string())).unwrap();
        for _ in 0..3 {
            receiver.recv().unwrap();
        }
        assert!(ticker.check().is_ok());
        drop(ticker);
        // The closure and its sender went with the thread.
        while receiver.recv().is_ok() {}
    }

    #[test]
    fn it_does_not_wait_for_a_long_interval_to_end() {
        let ticker = Ticker::start(u32::MAX, || Err("never called".to_owned())).unwrap();
        drop(ticker);
    }

    #[test]
    fn a_failed_sync_is_told_to_every_later_write() {
        let (sender, receiver) = mpsc::channel::<()>();
        let sync = move || {
            // Lives until the thread has ended.
            let _ = &sender;
            Err("the disk is gone".to_owned())
        };
        let ticker = Ticker::start(1, sync).unwrap();
        assert!(receiver.recv().is_err());
        for _ in 0..2 {
            let error = ticker.check().unwrap_err();
            assert!(matches!(error, Error::Poisoned { .. }), "{error:?}");
            assert!(error.to_string().contains("the disk is gone"), "{error}");
        }
    }
}
