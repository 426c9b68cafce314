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

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

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

/// Pins the calling thread to the CPU of worker `thread`, where there are any. A refusal leaves it
/// unpinned.
pub(crate) fn pin_to(cpus: &[usize], thread: u32) {
    if cpus.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    set.set(cpus[thread as usize % cpus.len()]);
    let _ = sched_setaffinity(None::<Pid>, &set);
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_pinned_thread_may_run_on_its_cpu_alone() {
        std::thread::spawn(|| {
            let cpus = allowed_cpus();
            let turn = cpus.len() as u32;
            // The CPUs are dealt out again from the first.
            pin_to(&cpus, turn);
            assert_eq!(allowed_cpus(), &cpus[..1]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn only_workers_that_lack_cpus_are_worth_a_note() {
        let many = u32::try_from(allowed_cpus().len()).unwrap() + 1;
        assert!(Pin::Auto.note(many).unwrap().starts_with("workers not pinned: "));
        assert_eq!(Pin::Auto.note(many - 1), None);
        assert_eq!((Pin::Always.note(many), Pin::Never.note(many)), (None, None));
    }
}
