//! After a phase: waiting until the engine's own threads have caught up, and what the store has
//! cost by then.
//!
//! An engine that answers at once and merges its tables later has not done its work when the last
//! worker ends. With `--settle S` the harness waits up to S seconds for that: after the load, so
//! that a timed phase of reads does not compete with it, and after the timed phase of a store on
//! disk, where what it takes is added up ([`Aftermath`]).
//!
//! An engine counts as idle when for four windows of 50 ms in a row the whole process has used less
//! than a twentieth of one CPU, and the engine's statistics `compactions_running` and
//! `flushes_running`, where it has them, are 0: a thread that waits for the disk uses no CPU.

use crate::probe::{LinuxHost, fetched_bytes, written_bytes};
use crate::stage::Stage;
use crate::stop::Stop;
use keyrack_measure::{Clock, usage};
use keyrack_record::{Aftermath, Footprint};
use keyrack_store::Store;
use keyrack_vfs::Fs;

const WINDOW_NS: u64 = 50_000_000;
const IDLE_WINDOWS: u32 = 4;
/// CPU time of the process in an idle window.
const IDLE_CPU_NS: u64 = WINDOW_NS / 20;

/// What a wait has found.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Waited {
    /// Until it was idle, in seconds.
    seconds: f64,
    /// Whether it was idle before the limit.
    is_idle: bool,
}

/// Readings before the timed phase; the default is of a phase of which nobody knows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    written_bytes: Option<u64>,
    fetched_bytes: Option<u64>,
}

impl Before {
    pub(crate) fn read() -> Self {
        Before {
            written_bytes: written_bytes(&LinuxHost),
            fetched_bytes: fetched_bytes(&LinuxHost),
        }
    }

    /// Bytes fetched from storage since.
    pub(crate) fn fetched(self) -> Option<u64> {
        Some(fetched_bytes(&LinuxHost)?.saturating_sub(self.fetched_bytes?))
    }

    /// What the store has cost since, its phase and the wait together.
    pub(crate) fn aftermath(
        self,
        stage: &Stage,
        fs: &dyn Fs,
        phase_cpu_s: f64,
        wait: IdleWait<'_>,
    ) -> keyrack_vfs::Result<Aftermath> {
        let cpu_before_ns = cpu_ns();
        let waited = wait.run(stage.store());
        let cpu_ns = cpu_ns().saturating_sub(cpu_before_ns);
        let written = written_bytes(&LinuxHost).zip(self.written_bytes);
        Ok(Aftermath {
            settle_s: waited.seconds,
            is_settled: waited.is_idle,
            cpu_s: phase_cpu_s + cpu_ns as f64 / 1e9,
            written_bytes: written.map(|(now, before)| now.saturating_sub(before)),
            disk_bytes: disk_bytes(stage, fs)?,
        })
    }
}

/// Bytes of the files of a store on disk.
fn disk_bytes(stage: &Stage, fs: &dyn Fs) -> keyrack_vfs::Result<Option<u64>> {
    stage.dir().map(|dir| fs.size_recursive(dir)).transpose()
}

/// How long and for what to wait.
#[derive(Clone, Copy)]
pub(crate) struct IdleWait<'a> {
    pub(crate) clock: &'a Clock,
    /// Not at all when 0.
    pub(crate) limit_s: f64,
    /// Ends the wait.
    pub(crate) stop: &'a Stop,
}

impl IdleWait<'_> {
    /// After the load.
    pub(crate) fn until_idle(self, store: &dyn Store) {
        self.run(store);
    }

    fn run(self, store: &dyn Store) -> Waited {
        self.run_with(&|| is_busy(store), &cpu_ns)
    }

    fn run_with(self, is_busy: &dyn Fn() -> bool, cpu_ns: &dyn Fn() -> u64) -> Waited {
        let start = self.clock.ticks();
        let seconds_since = |tick| self.clock.ns_between(tick, self.clock.ticks()) as f64 / 1e9;
        let mut idle = 0;
        let mut idle_since = start;
        while idle < IDLE_WINDOWS {
            if seconds_since(start) >= self.limit_s || self.stop.is_set() {
                return Waited { seconds: seconds_since(start), is_idle: false };
            }
            let window = self.clock.ticks();
            let cpu_before = cpu_ns();
            self.clock.wait_until(window + self.clock.ticks_of_ns(WINDOW_NS));
            if cpu_ns().saturating_sub(cpu_before) < IDLE_CPU_NS && !is_busy() {
                if idle == 0 {
                    idle_since = window;
                }
                idle += 1;
            } else {
                idle = 0;
            }
        }
        Waited { seconds: self.clock.ns_between(start, idle_since) as f64 / 1e9, is_idle: true }
    }
}

/// How long flushes and compactions are waited for where nobody asked for a wait.
const FOOTPRINT_WAIT_NS: u64 = 10_000_000_000;

/// What the engine holds, once it says that no flush and no compaction is under way. It is asked
/// for ten seconds at most.
///
/// # Errors
/// The files of the store cannot be looked at.
pub(crate) fn footprint(
    stage: &Stage,
    fs: &dyn Fs,
    clock: &Clock,
    stop: &Stop,
) -> keyrack_vfs::Result<Footprint> {
    let start = clock.ticks();
    let mut is_idle = !is_busy(stage.store());
    while !is_idle && !stop.is_set() {
        if clock.ns_between(start, clock.ticks()) >= FOOTPRINT_WAIT_NS {
            break;
        }
        clock.wait_until(clock.ticks() + clock.ticks_of_ns(WINDOW_NS));
        is_idle = !is_busy(stage.store());
    }
    let disk_bytes = disk_bytes(stage, fs)?;
    Ok(Footprint { memory_bytes: stage.memory_bytes(), disk_bytes, is_idle })
}

fn cpu_ns() -> u64 {
    let used = usage::process();
    used.user_ns + used.system_ns
}

/// Whether the engine says that it works in the background.
fn is_busy(store: &dyn Store) -> bool {
    let mut running = 0.0;
    store.stats(&mut |name, value| {
        if matches!(name, "compactions_running" | "flushes_running") {
            running += value;
        }
    });
    running > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Waits on a fake clock while each window uses the CPU time that `busy` has for it, then none.
    fn wait(busy: &[u64], limit_s: f64, running: &dyn Fn(u32) -> bool) -> (Waited, u32) {
        let clock = Clock::fake(0);
        let (used, windows) = (Cell::new(0), Cell::new(0));
        let has_begun = Cell::new(false);
        let cpu = || {
            // Read before and after each window.
            if has_begun.replace(!has_begun.get()) {
                let window = windows.replace(windows.get() + 1) as usize;
                used.set(used.get() + busy.get(window).copied().unwrap_or(0));
            }
            used.get()
        };
        let stop = Stop::default();
        let wait = IdleWait { clock: &clock, limit_s, stop: &stop };
        let waited = wait.run_with(&|| running(windows.get()), &cpu);
        (waited, windows.get())
    }

    #[test]
    fn calm_is_four_windows_without_work() {
        let (waited, windows) = wait(&[], 10.0, &|_| false);
        assert_eq!((waited, windows), (Waited { seconds: 0.0, is_idle: true }, 4));
        let busy = [WINDOW_NS, WINDOW_NS, 0, 0, 0, WINDOW_NS];
        let (waited, windows) = wait(&busy, 10.0, &|_| false);
        assert_eq!(windows, 10);
        assert!(waited.is_idle && (waited.seconds - 0.3).abs() < 1e-6, "{waited:?}");
    }

    #[test]
    fn a_thread_that_waits_for_the_disk_is_no_calm() {
        let (waited, windows) = wait(&[], 10.0, &|window| window <= 3);
        assert_eq!(windows, 7);
        assert!((waited.seconds - 0.15).abs() < 1e-6, "{waited:?}");
    }

    #[test]
    fn the_limit_ends_a_wait_that_finds_none() {
        let (waited, windows) = wait(&[WINDOW_NS; 100], 1.0, &|_| false);
        assert_eq!(windows, 20);
        assert!(!waited.is_idle, "{waited:?}");
        let (waited, windows) = wait(&[], 0.0, &|_| false);
        assert_eq!((waited, windows), (Waited { seconds: 0.0, is_idle: false }, 0));
    }

    #[test]
    fn a_stop_ends_it_at_once() {
        let clock = Clock::fake(0);
        let stop = Stop::default();
        stop.set("enough");
        let wait = IdleWait { clock: &clock, limit_s: 10.0, stop: &stop };
        assert!(!wait.run_with(&|| false, &|| 0).is_idle);
    }
}
