//! The control of a running server: whether it serves, its end, and checkpoints.
//!
//! ```text
//!   starting --serving()--> serving --end()--> stopping
//!
//!   signal, SHUTDOWN, a failed log --> end()    --> the thread in wait_for_end
//!   SAVE, BGSAVE, Masstree's op 12 --> begin()  --> the checkpoint thread, which has an interval
//!                                                   of its own, too
//! ```

use crate::log::events;
use crate::redis;
use keyrack_measure::wall;
use keyrack_rowstore::Rows;
use keyrack_store::Error;
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
    /// Whether clients can connect.
    is_serving: bool,
    /// How far the recovery of rows is, before that.
    loaded_percent: u64,
    is_ending: bool,
    /// Why it ends.
    reason: String,
    failure: Option<String>,
    /// Loops that cannot write the log.
    full_loops: usize,
    /// Since when there are any, in milliseconds since 1970.
    full_since_ms: u64,
    wanted: bool,
    checkpoint: redis::Checkpoint,
}

impl Control {
    /// Switches of a server that is to run.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for the end of the server. The first reason is the one that the log names.
    pub fn end(&self, reason: &str) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_ending, true) {
            reason.clone_into(&mut state.reason);
        }
        self.inner.changed.notify_all();
    }

    /// Why the server ends; empty as long as it does not.
    #[must_use]
    pub fn end_reason(&self) -> String {
        self.state().reason.clone()
    }

    /// The rows are being recovered.
    pub fn loading(&self, percent: u64) {
        self.state().loaded_percent = percent;
    }

    /// Clients can connect.
    pub(crate) fn serving(&self) {
        self.state().is_serving = true;
    }

    /// A loop cannot write the log.
    pub(crate) fn disk_full(&self, error: &Error) {
        let mut state = self.state();
        state.full_loops += 1;
        if state.full_loops == 1 {
            state.full_since_ms = wall::unix_ms();
            events::disk_full(&error.to_string());
        }
    }

    /// A loop that could not write the log can again.
    pub(crate) fn disk_full_ended(&self) {
        let mut state = self.state();
        state.full_loops -= 1;
        if state.full_loops == 0 {
            events::disk_full_ended(wall::unix_ms().saturating_sub(state.full_since_ms));
        }
    }

    /// Whether requests are served and answered.
    ///
    /// # Errors
    /// Why they are not.
    pub fn ready(&self) -> Result<(), String> {
        let state = self.state();
        if let Some(failure) = &state.failure {
            return Err(format!("the store has failed: {failure}"));
        }
        if state.is_ending {
            return Err(format!("stopping: {}", state.reason));
        }
        if !state.is_serving {
            return Err(format!("recovering: {} % of the rows are loaded", state.loaded_percent));
        }
        if state.full_loops > 0 {
            return Err("the log cannot be written: replies wait for room on the disk".to_owned());
        }
        Ok(())
    }

    /// Asks for the end of the server, since it cannot go on.
    pub(crate) fn fail(&self, why: String) {
        let mut state = self.state();
        if state.failure.is_none() {
            events::server_failed(&why);
            state.failure = Some(why.clone());
        }
        if !std::mem::replace(&mut state.is_ending, true) {
            state.reason = why;
        }
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
                // The store tells the log about each checkpoint, also about its own.
                Ok(_) => {
                    state.checkpoint.last_ms = wall::unix_ms();
                    state.checkpoint.failure = None;
                }
                Err(_) => state.checkpoint.failure = Some("the checkpoint could not be written"),
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
    fn it_is_ready_while_it_serves_and_says_otherwise_why_not() {
        let control = Control::new();
        control.loading(40);
        assert_eq!(control.ready().unwrap_err(), "recovering: 40 % of the rows are loaded");
        control.serving();
        assert_eq!(control.ready(), Ok(()));
        let error = Error::io("writing", std::io::Error::other("full"));
        control.disk_full(&error);
        control.disk_full(&error);
        control.disk_full_ended();
        assert!(control.ready().unwrap_err().contains("cannot be written"));
        control.disk_full_ended();
        assert_eq!(control.ready(), Ok(()));
        control.end("SHUTDOWN");
        control.end("signal");
        assert_eq!(control.ready().unwrap_err(), "stopping: SHUTDOWN");
        control.fail("a sync failed".to_owned());
        assert_eq!(control.ready().unwrap_err(), "the store has failed: a sync failed");
        assert_eq!(control.end_reason(), "SHUTDOWN");
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
            control.end("a test");
        });
    }
}
