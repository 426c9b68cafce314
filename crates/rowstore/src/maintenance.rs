//! The threads of a store: one writes checkpoints when there is enough log, one removes what has
//! expired and what was cleared. Both sleep on a condition when there is nothing to do, and end
//! when the store does.

use crate::checkpoint::checkpoint;
use crate::core::Core;
use crate::session::Session;
use crate::sweep::Sweep;
use keyrack_store::{Error, Result};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Between two slices of dead rows: whoever waits for the end of the first gets on.
const SLICE_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct Requests {
    stop: bool,
    checkpoint: bool,
}

/// What the threads wait for.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    requests: Mutex<Requests>,
    changed: Condvar,
}

impl Notifier {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is time for a checkpoint.
    pub(crate) fn notify_checkpointer(&self) {
        self.requests().checkpoint = true;
        self.changed.notify_all();
    }

    /// There are rows that will expire, or dead ones.
    pub(crate) fn notify_sweeper(&self) {
        drop(self.requests());
        self.changed.notify_all();
    }

    pub(crate) fn stop(&self) {
        self.requests().stop = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.requests().stop
    }

    /// Pending for a wish for a checkpoint, and takes it. False: the store ends.
    fn wait_for_checkpoint(&self) -> bool {
        let idle = |requests: &mut Requests| !requests.stop && !requests.checkpoint;
        let held = self.changed.wait_while(self.requests(), idle);
        let mut held = held.unwrap_or_else(PoisonError::into_inner);
        held.checkpoint = false;
        !held.stop
    }

    /// Pending until there is something that expires, and then for the next look at it. False: the
    /// store ends.
    pub(crate) fn wait_for_sweep(&self, interval: Duration, has_work: impl Fn() -> bool) -> bool {
        let idle = |requests: &mut Requests| !requests.stop && !has_work();
        let held = self.changed.wait_while(self.requests(), idle);
        drop(held.unwrap_or_else(PoisonError::into_inner));
        self.pause(interval)
    }

    /// Pending for so long. False: the store ends.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let held =
            self.changed.wait_timeout_while(self.requests(), time, |requests| !requests.stop);
        let (held, _) = held.unwrap_or_else(PoisonError::into_inner);
        !held.stop
    }
}

/// The running threads. Dropping ends and joins them.
#[derive(Debug)]
pub(crate) struct Maintenance {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        let mut upkeep = Maintenance { core: Arc::clone(core), threads: Vec::new() };
        if core.disk.is_some() && core.options.checkpoint_log_bytes > 0 {
            upkeep.spawn("checkpoint", write_checkpoints)?;
        }
        if !core.options.sweep_interval.is_zero() {
            upkeep.spawn("sweeper", sweep)?;
        }
        Ok(upkeep)
    }

    fn spawn(&mut self, name: &str, run: fn(&Core)) -> Result<()> {
        let core = Arc::clone(&self.core);
        let thread = Builder::new().name(name.to_owned()).spawn(move || run(&core));
        self.threads.push(thread.map_err(|error| Error::io("starting a thread", error))?);
        Ok(())
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.core.notifier.stop();
        for thread in self.threads.drain(..) {
            // It ends by itself, and has nothing to tell.
            let _ = thread.join();
        }
    }
}

fn write_checkpoints(core: &Core) {
    while core.notifier.wait_for_checkpoint() {
        // A failure is counted, and tried again after as much log; a log that is poisoned tells
        // the next writer.
        let _ = checkpoint(core);
    }
}

fn sweep(core: &Core) {
    let mut session = Session::new(core);
    let mut sweep = Sweep::default();
    let has_work = || core.memory.volatile() > 0 || core.has_dead();
    while core.notifier.wait_for_sweep(core.options.sweep_interval, has_work) {
        while core.sweep_dead() {
            if !core.notifier.pause(SLICE_PAUSE) {
                return;
            }
        }
        loop {
            let now_ms = core.now_ms.load(Ordering::Relaxed);
            // What could not be logged stays in the session, and is tried again.
            let slice = sweep.slice(core, &mut session, now_ms);
            if !slice.is_ok_and(|slice| slice.is_rich()) {
                break;
            }
        }
    }
}
