//! Pinning threads to CPUs.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The CPUs that this process may run on, in order; empty where the system does not tell.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None::<Pid>) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => Vec::new(),
    }
}

/// Pins the calling thread to `cpu`. A refusal leaves it unpinned, which the affinity probe shows.
pub(crate) fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None::<Pid>, &set);
}
