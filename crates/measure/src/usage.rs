//! What this process and this thread have consumed so far.
//!
//! Totals since the start, from the kernel; a sampler takes differences. The numbers cover all
//! threads of the process, except where "thread" is in the name.

use crate::sys;

/// Totals of the process since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time spent in the program, in nanoseconds (the kernel counts microseconds).
    pub user_ns: u64,
    /// Processor time spent in the kernel on its behalf, in nanoseconds.
    pub system_ns: u64,
    /// The largest resident set so far, in KiB.
    pub peak_rss_kib: u64,
    /// Page faults served without reading a device.
    pub minflt: u64,
    /// Page faults that had to read a device.
    pub majflt: u64,
    /// Context switches made because a thread waited.
    pub vol_ctxsw: u64,
    /// Context switches forced upon a running thread.
    pub invol_ctxsw: u64,
}

/// The totals of this process; zeros if the kernel refuses to say.
pub fn process() -> Usage {
    let Some(usage) = sys::process_usage() else {
        return Usage::default();
    };
    // macOS reports the resident set in bytes, others in KiB.
    let rss_unit = if cfg!(target_os = "macos") { 1024 } else { 1 };
    Usage {
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        peak_rss_kib: unsigned(usage.ru_maxrss) / rss_unit,
        minflt: unsigned(usage.ru_minflt),
        majflt: unsigned(usage.ru_majflt),
        vol_ctxsw: unsigned(usage.ru_nvcsw),
        invol_ctxsw: unsigned(usage.ru_nivcsw),
    }
}

/// Processor time consumed by the calling thread, in nanoseconds. A real system call of some
/// 400 ns: for the ends of a run, not for each operation.
pub fn thread_cpu_ns() -> u64 {
    sys::thread_cpu_ns()
}

fn nanoseconds(time: libc::timeval) -> u64 {
    unsigned(time.tv_sec) * 1_000_000_000 + unsigned(time.tv_usec) * 1000
}

/// Counts are never negative; the kernel's types, which differ between systems, merely allow it.
fn unsigned(count: impl TryInto<u64>) -> u64 {
    count.try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn work_shows_in_processor_time() {
        let (process_before, thread_before) = (process(), thread_cpu_ns());
        let mut work = 1u64;
        while thread_cpu_ns() - thread_before < 30_000_000 {
            for _ in 0..10_000 {
                work = black_box(work.wrapping_mul(31).wrapping_add(7));
            }
        }
        let after = process();
        let spent = |usage: Usage| usage.user_ns + usage.system_ns;
        // The kernel's split of the time is sampled; the sum moves in microseconds.
        assert!(spent(after) - spent(process_before) >= 20_000_000);
    }

    #[test]
    fn touched_memory_shows_in_faults_and_resident_set() {
        const BYTES: usize = 32 << 20;
        let before = process();
        let touched = black_box(vec![1u8; BYTES]);
        let after = process();
        assert!(after.peak_rss_kib >= (BYTES / 1024) as u64);
        assert!(after.minflt > before.minflt);
        assert!(after.vol_ctxsw >= before.vol_ctxsw && after.invol_ctxsw >= before.invol_ctxsw);
        assert!(after.majflt >= before.majflt);
        assert_eq!(touched.len(), BYTES);
    }
}
