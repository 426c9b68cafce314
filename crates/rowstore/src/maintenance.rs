//! The maintenance threads of a store: one writes checkpoints when there is enough log, one removes
//! expired and cleared rows. Both sleep on the notifier while there is nothing to do, and end when
//! the store closes.

use crate::checkpoint::checkpoint;
use crate::core::Core;
use crate::session::Session;
use crate::sweep::Sweep;
use keyrack_store::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The pause between two slices of dead rows, in which a waiting thread gets the lock.
const SLICE_PAUSE: Duration = Duration::from_millis(1);

/// The maintenance threads. Dropping ends and joins them.
#[derive(Debug)]
pub(crate) struct Maintenance {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    pub(crate) fn start(core: &Arc<Core>) -> Result<Self> {
        let mut maintenance = Maintenance { core: Arc::clone(core), threads: Vec::new() };
        if core.disk.is_some() && core.options.checkpoint_log_bytes > 0 {
            maintenance.spawn("checkpoint", write_checkpoints)?;
        }
        if !core.options.sweep_interval.is_zero() {
            maintenance.spawn("sweeper", sweep)?;
        }
        Ok(maintenance)
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
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

fn write_checkpoints(core: &Core) {
    while core.notifier.wait_for_checkpoint() {
        // A failure is counted, and the checkpoint is retried after as much log. If the log is
        // poisoned, the next writer gets the error.
        let _ = checkpoint(core);
    }
}

fn sweep(core: &Core) {
    let mut session = Session::new(core);
    let mut sweep = Sweep::default();
    let has_work = || core.memory.volatile() > 0 || core.has_garbage();
    while core.notifier.wait_for_sweep(core.options.sweep_interval, has_work) {
        while core.sweep_garbage() {
            if !core.notifier.pause(SLICE_PAUSE) {
                return;
            }
        }
        loop {
            let now_ms = core.now_ms.load(Ordering::Relaxed);
            // What could not be removed is found again by a later sweep.
            let slice = sweep.slice(core, &mut session, now_ms);
            if !slice.is_ok_and(|slice| slice.is_rich()) {
                break;
            }
        }
    }
}
