//! The threads behind a store: one that flushes, those that compact, three that make ahead what
//! writers are about to need (`ahead`), one that frees what no reader holds (`garbage`), and where
//! somebody reads the log one that marks the time in it (`feed`).
//!
//! Each does its work as long as there is some, and sleeps until somebody changes the read state. A
//! failure is final for the store, see the header of `db`. On a full disk the work is tried again
//! after a pause, see `background_error`. When nothing has been written for [`IDLE`], the thread
//! that flushes gives back the space of the log's spare segments, and the spare memory.

use super::background_error::{PAUSE_MAX, PAUSE_MIN, is_retryable};
use super::{Inner, ahead, compact, flush, lock};
use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// After this time without a write, the spare segments of the log are removed. The next write makes
/// one again, which takes some milliseconds for 32 MiB.
const IDLE: Duration = Duration::from_millis(100);

/// Smaller segments are not worth it.
const TRIMMED_BYTES_MIN: u64 = 1 << 20;

/// The threads that flush and compact are nicer by this than those that read and write. Beside one
/// of those, such a thread gets a quarter of a processor.
#[cfg(target_os = "linux")]
const NICER: i32 = 5;

/// What the threads wait for.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct State {
    stop: bool,
    /// How often there may have been new work.
    changes: u64,
    /// How often somebody asked to try again what has failed.
    retries: u64,
}

impl State {
    /// Whether the threads are to end.
    pub(crate) fn is_stopping(self) -> bool {
        self.stop
    }
}

impl Signal {
    pub(crate) fn now(&self) -> State {
        *lock(&self.state)
    }

    pub(super) fn change(&self, stop: bool) {
        let mut state = lock(&self.state);
        state.stop |= stop;
        state.changes += 1;
        self.changed.notify_all();
    }

    /// Ends the pauses before what has failed is tried again.
    pub(crate) fn retry(&self) {
        let mut state = lock(&self.state);
        state.retries += 1;
        self.changed.notify_all();
    }

    /// Sleeps for so long, unless somebody asks to try again, as has nobody since `seen`.
    fn pause(&self, seen: State, pause: Duration) {
        let state = lock(&self.state);
        let is_same = |state: &mut State| state.retries == seen.retries && !state.stop;
        drop(self.changed.wait_timeout_while(state, pause, is_same));
    }

    /// Sleeps until something has changed since `seen`, or for [`IDLE`]. Whether it was that long.
    fn sleep_idly(&self, seen: State) -> bool {
        let state = lock(&self.state);
        let is_same = |state: &mut State| state.changes == seen.changes && !state.stop;
        let waited = self.changed.wait_timeout_while(state, IDLE, is_same);
        waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Sleeps until something has changed since `seen`.
    pub(crate) fn sleep(&self, seen: State) {
        let mut state = lock(&self.state);
        while state.changes == seen.changes && !state.stop {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// As [`Signal::sleep`], for so long at most.
    pub(super) fn sleep_at_most(&self, seen: State, pause: Duration) {
        let state = lock(&self.state);
        let is_same = |state: &mut State| state.changes == seen.changes && !state.stop;
        drop(self.changed.wait_timeout_while(state, pause, is_same));
    }
}

impl Inner {
    /// There may be work for the background.
    pub(crate) fn wake_background(&self) {
        self.signal.change(false);
    }

    /// Whether the store is being closed.
    pub(crate) fn is_stopping(&self) -> bool {
        self.signal.now().stop
    }
}

/// The running threads. Dropping it ends them.
pub(crate) struct Background {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Background {
    pub(crate) fn start(inner: &Arc<Inner>) -> Result<Self> {
        let background = Background { inner: Arc::clone(inner), threads: Mutex::default() };
        background.spawn("flodb-flush".to_owned(), flush::flush_and_make_room, trim_when_idle)?;
        for number in 0..inner.options.compaction_threads {
            let name = format!("flodb-compact-{number}");
            background.spawn(name, compact::compact_once, sleep_until_due)?;
        }
        let log = Arc::clone(inner);
        background.spawn_run("flodb-log".to_owned(), move || {
            let _watch = Watch(&log);
            log.ahead.segment.serve(|| {
                log.write_path.log.prepare();
                // Should nobody write any more, the segments are trimmed.
                log.wake_background();
            });
        })?;
        let memory = Arc::clone(inner);
        background.spawn_run("flodb-memory".to_owned(), move || {
            let _watch = Watch(&memory);
            memory.ahead.memory.serve(|| ahead::make_memory(&memory));
        })?;
        let order = Arc::clone(inner);
        background.spawn_run("flodb-sort".to_owned(), move || {
            let _watch = Watch(&order);
            order.ahead.order.serve(|| ahead::make_order(&order));
        })?;
        if inner.keeps_log() {
            background.start_clock()?;
        }
        let free = Arc::clone(inner);
        inner.garbage.open();
        let spawned = background.spawn_run("flodb-free".to_owned(), move || {
            let _watch = Watch(&free);
            // A memtable that was freed may have left a spare, which is trimmed when nobody writes.
            free.garbage.run(|| free.wake_background());
        });
        if spawned.is_err() {
            inner.garbage.close();
        }
        spawned?;
        Ok(background)
    }

    /// A thread that calls `work` until it says that there is none, then `rest`, and so on. It
    /// gives way to others where there are fewer processors than threads.
    fn spawn(
        &self,
        name: String,
        work: fn(&Inner) -> Result<bool>,
        rest: fn(&Inner, State),
    ) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        self.spawn_run(name, move || {
            give_way();
            run(&inner, work, rest);
        })
    }

    fn spawn_run(&self, name: String, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name).spawn(run);
        let thread = thread.map_err(|error| Error::Thread(Arc::new(error)))?;
        lock(&self.threads).push(thread);
        Ok(())
    }

    /// Starts the thread that marks the time in the log, unless there is one.
    pub(super) fn start_clock(&self) -> Result<()> {
        if !self.inner.feeds.begin_clock() {
            return Ok(());
        }
        let inner = Arc::clone(&self.inner);
        let spawned = self.spawn_run("flodb-clock".to_owned(), move || {
            let _watch = Watch(&inner);
            inner.feeds.run_clock(&inner);
        });
        spawned.inspect_err(|_| self.inner.feeds.abandon_clock())
    }

    /// Ends the threads, after what they are doing.
    pub(crate) fn stop(&self) {
        self.inner.signal.change(true);
        self.inner.ahead.stop();
        self.inner.feeds.stop();
        self.inner.garbage.close();
        for thread in lock(&self.threads).drain(..) {
            // A thread that panicked has poisoned the store.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Poisons the store if the thread panics: what it was doing is not done, and nobody else does it.
struct Watch<'a>(&'a Inner);

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(&Error::Poisoned("a background thread has panicked".to_owned()));
        }
    }
}

fn run(inner: &Inner, work: fn(&Inner) -> Result<bool>, rest: fn(&Inner, State)) {
    let _watch = Watch(inner);
    let mut pause = PAUSE_MIN;
    loop {
        let seen = inner.signal.now();
        if seen.stop {
            return;
        }
        match work(inner) {
            Ok(is_done) => {
                pause = PAUSE_MIN;
                if !is_done {
                    rest(inner, seen);
                }
            }
            Err(error) if is_retryable(&error) => {
                inner.signal.pause(seen, pause);
                pause = PAUSE_MAX.min(2 * pause);
            }
            Err(error) => {
                inner.poison(&error);
                return;
            }
        }
    }
}

/// Has the system prefer other threads to this one. A refusal changes nothing.
fn give_way() {
    // Elsewhere the priority is that of the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICER);
}

/// Sleeps until something has changed since `seen`. If nobody writes meanwhile, the log gives back
/// the space of its spare segments, and the memtables their spare memory.
fn trim_when_idle(inner: &Inner, seen: State) {
    let log = &inner.write_path.log;
    let has_segments = || inner.options.segment_bytes >= TRIMMED_BYTES_MIN && log.has_spares();
    while has_segments() || inner.memtables.has_spare() {
        let end = log.published();
        if !inner.signal.sleep_idly(seen) {
            return;
        }
        if log.published() != end {
            continue;
        }
        inner.memtables.trim();
        if has_segments() && log.trim().is_err() {
            // They are only in the way: the next time will do.
            break;
        }
    }
    inner.signal.sleep(seen);
}

/// Sleeps until somebody changes the read state, or until so much has expired that a table is worth
/// writing anew.
fn sleep_until_due(inner: &Inner, seen: State) {
    match compact::wait_for_expiry(inner) {
        None => inner.signal.sleep(seen),
        Some(pause) => inner.signal.sleep_at_most(seen, pause),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gives_way_is_nicer_than_others() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let after = std::thread::spawn(move || {
            give_way();
            nice()
        });
        assert_eq!(after.join().unwrap(), (before + NICER).min(19));
        assert_eq!(nice(), before, "of another thread");
    }
}
