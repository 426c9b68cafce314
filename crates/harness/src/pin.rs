//! Which CPU each worker runs on.
//!
//! Worker t gets the t-th CPU of the mask that the process was started with, so `taskset` or a
//! control group chooses the CPUs and this file only deals them out. A worker that stays where it
//! is keeps its caches and does not share a CPU with another one while a third CPU idles.
//!
//! | [`Pin`] | workers <= CPUs | workers > CPUs |
//! |---|---|---|
//! | `Auto` | one CPU each | not pinned, and the point says so |
//! | `Always` | one CPU each | CPUs dealt out again from the first |
//! | `Never` | not pinned | not pinned |
//!
//! A thread begins where the one that started it may run. What an engine starts from a worker, such
//! as LevelDB its compactions, would so share the worker's CPU while another one idles; the leader
//! finds such threads and gives them all CPUs ([`CpuAssignment::free_others`]).

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::probe::Host;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};

/// Whether workers are pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Where every worker can have a CPU of its own.
    Auto,
    /// In any case; CPUs are shared where there are fewer than workers.
    Always,
    /// Workers run where the scheduler puts them.
    Never,
}

impl Pin {
    /// The value in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pin::Auto => "auto",
            Pin::Always => "yes",
            Pin::Never => "no",
        }
    }

    /// The CPUs to deal out to so many workers, of those in `allowed`; none where they are not
    /// pinned.
    fn choose(self, workers: u32, allowed: Vec<usize>) -> Vec<usize> {
        match self {
            Pin::Always => allowed,
            Pin::Auto if workers as usize <= allowed.len() => allowed,
            Pin::Auto | Pin::Never => Vec::new(),
        }
    }

    /// The same, of the CPUs that this process may run on.
    pub(crate) fn cpus(self, workers: u32) -> Vec<usize> {
        self.choose(workers, allowed_cpus())
    }

    /// What a reader must know of workers that could not be pinned.
    pub(crate) fn note(self, workers: u32) -> Option<String> {
        let cpus = allowed_cpus().len();
        (self == Pin::Auto && self.cpus(workers).is_empty())
            .then(|| format!("workers not pinned: {workers} of them, {cpus} CPUs"))
    }
}

/// The CPUs that this process may run on, in order; empty where the system does not tell.
fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None::<Pid>) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

/// The CPUs that are dealt out to the workers of a phase.
#[derive(Debug)]
pub(crate) struct CpuAssignment {
    /// None where workers are not pinned.
    cpus: Vec<usize>,
    /// Workers that have come for theirs.
    workers: Mutex<HashSet<i32>>,
    /// The first refusal of the system, with its CPU.
    refusal: OnceLock<String>,
}

impl CpuAssignment {
    pub(crate) fn new(cpus: Vec<usize>) -> CpuAssignment {
        CpuAssignment { cpus, workers: Mutex::default(), refusal: OnceLock::new() }
    }

    /// Pins the calling thread to the CPU of worker `thread`, where there are any. A refusal leaves
    /// it unpinned; [`CpuAssignment::refusal`] tells.
    pub(crate) fn pin(&self, thread: u32) {
        if self.cpus.is_empty() {
            return;
        }
        let own = gettid().as_raw_nonzero().get();
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).insert(own);
        let mut set = CpuSet::new();
        let cpu = self.cpus[thread as usize % self.cpus.len()];
        set.set(cpu);
        if let Err(error) = sched_setaffinity(None::<Pid>, &set) {
            // The first one is enough.
            let _ = self.refusal.set(format!("workers not pinned to CPU {cpu}: {error}"));
        }
    }

    /// What a reader must know of workers that the system has not let be pinned.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    /// Gives threads that stay on a worker's CPU without being a worker all CPUs of the caller.
    /// Those in `seen` were looked at before. A few microseconds a thread.
    pub(crate) fn free_others(&self, host: &dyn Host, seen: &mut HashSet<i32>) {
        if self.cpus.is_empty() {
            return;
        }
        let Ok(all) = sched_getaffinity(None::<Pid>) else { return };
        for name in host.list("/proc/self/task") {
            let Some(thread) = name.parse().ok().filter(|thread| seen.insert(*thread)) else {
                continue;
            };
            if self.workers.lock().unwrap_or_else(PoisonError::into_inner).contains(&thread) {
                continue;
            }
            // A thread that has ended meanwhile needs nothing.
            let Ok(set) = sched_getaffinity(Pid::from_raw(thread)) else { continue };
            if set.count() == 1 && self.cpus.iter().any(|&cpu| set.is_set(cpu)) {
                // It may end meanwhile; else it stays where it is, which the system wanted.
                let _ = sched_setaffinity(Pid::from_raw(thread), &all);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::LinuxHost;
    use std::sync::mpsc::channel;

    #[test]
    fn workers_are_pinned_by_default_only_where_each_has_a_cpu() {
        let allowed = vec![2, 5, 7];
        for (pin, workers, expected) in [
            (Pin::Auto, 1, &allowed[..]),
            (Pin::Auto, 3, &allowed),
            (Pin::Auto, 4, &[]),
            (Pin::Always, 4, &allowed),
            (Pin::Never, 1, &[]),
        ] {
            assert_eq!(pin.choose(workers, allowed.clone()), expected, "{pin:?} {workers}");
        }
        assert!(Pin::Auto.choose(1, Vec::new()).is_empty(), "a system that does not tell");
    }

    /// Held by a test that pins threads: another one frees all threads of the process but its own.
    static PINNING: Mutex<()> = Mutex::new(());

    #[test]
    fn a_pinned_thread_may_run_on_its_cpu_alone() {
        let _alone = PINNING.lock().unwrap();
        std::thread::spawn(|| {
            let cpus = allowed_cpus();
            let turn = cpus.len() as u32;
            // The CPUs are dealt out again from the first.
            CpuAssignment::new(cpus.clone()).pin(turn);
            assert_eq!(allowed_cpus(), &cpus[..1]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_a_worker_starts_is_not_left_on_its_cpu() {
        let _alone = PINNING.lock().unwrap();
        let (all, dealt) = (allowed_cpus(), CpuAssignment::new(allowed_cpus()));
        let (started, is_started) = channel();
        let (free, is_free) = channel::<()>();
        std::thread::scope(|scope| {
            let (dealt, all) = (&dealt, &all);
            let worker = scope.spawn(move || {
                dealt.pin(0);
                let own = std::thread::spawn(move || {
                    let before = allowed_cpus();
                    started.send(()).unwrap();
                    is_free.recv().unwrap_err();
                    (before, allowed_cpus())
                });
                (own.join().unwrap(), allowed_cpus())
            });
            is_started.recv().unwrap();
            dealt.free_others(&LinuxHost, &mut HashSet::new());
            drop(free);
            let ((before, after), worker) = worker.join().unwrap();
            assert_eq!((&before[..], &worker[..]), (&all[..1], &all[..1]));
            assert_eq!(&after, all);
        });
    }

    #[test]
    fn only_workers_that_lack_cpus_are_worth_a_note() {
        let many = u32::try_from(allowed_cpus().len()).unwrap() + 1;
        assert!(Pin::Auto.note(many).unwrap().starts_with("workers not pinned: "));
        assert_eq!(Pin::Auto.note(many - 1), None);
        assert_eq!((Pin::Always.note(many), Pin::Never.note(many)), (None, None));
    }

    /// A result was shown as that of pinned workers.
    #[test]
    fn a_refusal_of_the_system_is_told() {
        let Some(none) = (0..CpuSet::MAX_CPU).rev().find(|cpu| !allowed_cpus().contains(cpu))
        else {
            return;
        };
        let dealt = CpuAssignment::new(vec![none]);
        assert_eq!(dealt.refusal(), None);
        std::thread::scope(|scope| {
            scope.spawn(|| dealt.pin(0));
        });
        let said = dealt.refusal().unwrap();
        assert!(said.starts_with(&format!("workers not pinned to CPU {none}: ")), "{said}");
    }
}
