//! The control of a running server: its end, and checkpoints.
//!
//! ```text
//!   signal, SHUTDOWN, a failed log --> end()    --> the thread in wait_for_end
//!   SAVE, BGSAVE, Masstree's op 12 --> begin()  --> the checkpoint thread, which has an interval
//!                                                   of its own, too
//! ```

use crate::redis;
use keyrack_measure::wall;
use keyrack_rowstore::Rows;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The switches of a running server. Clones are the same switches.
#[derive(Clone, Debug, Default)]
pub struct Control {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_ending: bool,
    failure: Option<String>,
    wanted: bool,
    checkpoint: redis::Checkpoint,
}

impl Control {
    /// Switches of a server that is to run.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the end of the server.
    pub fn end(&self) {
        self.state().is_ending = true;
        self.inner.changed.notify_all();
    }

    /// Asks for the end of the server, since it cannot go on.
    pub(crate) fn fail(&self, why: String) {
        let mut state = self.state();
        if state.failure.is_none() {
            tracing::error!(cause = why, "the server ends");
            state.failure = Some(why);
        }
        state.is_ending = true;
        self.inner.changed.notify_all();
    }

    /// Waits until the server is to end. Returns the reason if it is a failure.
    #[must_use]
    pub fn wait_for_end(&self) -> Option<String> {
        let mut state = self.state();
        while !state.is_ending {
            state = self.inner.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.failure.clone()
    }

    /// Has a checkpoint written by the thread for it. False while one is under way.
    pub(crate) fn begin_checkpoint(&self) -> bool {
        let mut state = self.state();
        if state.wanted || state.checkpoint.is_running || state.is_ending {
            return false;
        }
        state.wanted = true;
        state.checkpoint.is_running = true;
        self.inner.changed.notify_all();
        true
    }

    /// How the newest checkpoint went.
    pub(crate) fn checkpoint(&self) -> redis::Checkpoint {
        self.state().checkpoint
    }

    /// Writes checkpoints as they are asked for, and when one ended an `interval` ago, which is not
    /// zero, until the end.
    pub(crate) fn write_checkpoints(&self, rows: &dyn Rows, interval: Duration) {
        // For ever is far away.
        let patience = if interval.is_zero() { Duration::MAX } else { interval };
        loop {
            let idle = |state: &mut State| !state.wanted && !state.is_ending;
            let waited = self.inner.changed.wait_timeout_while(self.state(), patience, idle);
            let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_ending {
                return;
            }
            state.wanted = false;
            state.checkpoint.is_running = true;
            drop(state);
            let result = rows.checkpoint();
            let mut state = self.state();
            state.checkpoint.is_running = false;
            match result {
                Ok(written) => {
                    state.checkpoint.last_ms = wall::unix_ms();
                    state.checkpoint.failure = None;
                    if written {
                        tracing::info!("checkpoint written");
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "checkpoint failed");
                    state.checkpoint.failure = Some("the checkpoint could not be written");
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_rowstore::ModelRows;

    #[test]
    fn a_checkpoint_runs_once_and_the_end_ends_its_thread() {
        let control = Control::new();
        let rows = ModelRows::new();
        assert!(control.begin_checkpoint() && !control.begin_checkpoint());
        std::thread::scope(|threads| {
            threads.spawn(|| control.write_checkpoints(&rows, Duration::ZERO));
            while control.checkpoint().is_running {
                std::thread::yield_now();
            }
            assert!(control.checkpoint().last_ms > 0);
            control.fail("first".to_owned());
            control.fail("second".to_owned());
        });
        assert_eq!(control.wait_for_end().as_deref(), Some("first"));
        assert!(!control.begin_checkpoint());
    }

    #[test]
    fn an_interval_needs_nobody_who_asks() {
        let control = Control::new();
        let rows = ModelRows::new();
        std::thread::scope(|threads| {
            threads.spawn(|| control.write_checkpoints(&rows, Duration::from_millis(1)));
            while control.checkpoint().last_ms == 0 {
                std::thread::yield_now();
            }
            control.end();
        });
    }
}
