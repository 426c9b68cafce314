//! The counter instruction and the system calls that this crate needs, each behind a safe function.
//!
//! | function | call | cost |
//! |---|---|---|
//! | `tsc` | `rdtsc`, unfenced | ~9 ns in a virtual machine |
//! | `monotonic_ns` | `clock_gettime(CLOCK_MONOTONIC)`, vDSO | ~20 ns |
//! | `thread_cpu_ns` | `clock_gettime(CLOCK_THREAD_CPUTIME_ID)`, a real call | ~365 ns |
//! | `sleep_until` | `clock_nanosleep`, absolute | the sleep |
//! | `set_timer_slack` | `prctl(PR_SET_TIMERSLACK)` | one call per thread |
//! | `process_usage` | `getrusage(RUSAGE_SELF)` | one call |
//!
//! No policy lives here. What a failed call means is stated at each function; none of them panics.

use std::mem::MaybeUninit;

const NS_PER_S: u64 = 1_000_000_000;

/// The time-stamp counter of the core that runs this thread.
///
/// Not fenced: the processor may move the reading by a few nanoseconds among its neighbours, and
/// two cores may disagree by as much, so a difference can come out negative.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn tsc() -> u64 {
    // SAFETY: rdtsc has no operands and touches no memory; every x86_64 has it, and user code may
    // run it unless the process disabled it for itself by PR_SET_TSC, which nothing here does.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// True when the counter ticks at one rate in every frequency and sleep state. The kernel derives
/// its `constant_tsc` and `nonstop_tsc` flags from this same bit.
#[cfg(target_arch = "x86_64")]
pub(crate) fn tsc_is_invariant() -> bool {
    const EXTENDED_LEAF_MAX: u32 = 0x8000_0000;
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    core::arch::x86_64::__cpuid(EXTENDED_LEAF_MAX).eax >= POWER_LEAF
        && core::arch::x86_64::__cpuid(POWER_LEAF).edx & INVARIANT_TSC != 0
}

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    read_clock_ns(libc::CLOCK_MONOTONIC)
}

/// Processor time consumed by the calling thread, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    read_clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// One POSIX clock in nanoseconds. The clocks asked for exist on every POSIX system, so the call
/// cannot fail; if it did, the reading would be 0.
#[inline]
fn read_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live, writable timespec for the whole call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * NS_PER_S + time.tv_nsec as u64
}

/// Sleeps until `CLOCK_MONOTONIC` shows `deadline_ns`, or until a signal arrives. The caller looks
/// at its clock afterwards, so an early return costs nothing but another round.
#[cfg(target_os = "linux")]
pub(crate) fn sleep_until(deadline_ns: u64) {
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / NS_PER_S) as libc::time_t,
        tv_nsec: (deadline_ns % NS_PER_S) as libc::c_long,
    };
    // SAFETY: `deadline` is a live timespec with nanoseconds below one second; with an absolute
    // deadline the kernel never writes a remaining time, so that pointer may be null.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const deadline,
            std::ptr::null_mut(),
        );
    }
}

/// Sleeps until `CLOCK_MONOTONIC` shows `deadline_ns`, by a relative sleep.
#[cfg(not(target_os = "linux"))]
pub(crate) fn sleep_until(deadline_ns: u64) {
    let remaining_ns = deadline_ns.saturating_sub(monotonic_ns());
    std::thread::sleep(std::time::Duration::from_nanos(remaining_ns));
}

/// Lets the kernel delay the timers of this thread by at most `slack_ns` to batch wake-ups; the
/// default is 50 us. A refusal leaves the old slack: sleeps then end later, never earlier.
#[cfg(target_os = "linux")]
pub(crate) fn set_timer_slack(slack_ns: u32) {
    // SAFETY: this prctl takes one integer, reads no memory and affects the calling thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, libc::c_ulong::from(slack_ns)) };
}

/// Timer slack is a Linux notion.
#[cfg(not(target_os = "linux"))]
pub(crate) fn set_timer_slack(_slack_ns: u32) {}

/// The resource usage of the process; `None` if the kernel refuses.
pub(crate) fn process_usage() -> Option<libc::rusage> {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is valid for a write of one rusage.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    if status != 0 {
        return None;
    }
    // SAFETY: a status of 0 says that the kernel filled the whole structure.
    Some(unsafe { usage.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_does_not_go_back() {
        let mut last = monotonic_ns();
        assert!(last > 0);
        for _ in 0..1000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn a_sleep_ends_after_its_deadline() {
        let deadline_ns = monotonic_ns() + 1_000_000;
        while monotonic_ns() < deadline_ns {
            sleep_until(deadline_ns);
        }
        // A deadline in the past returns without sleeping; the test would hang otherwise.
        sleep_until(0);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn timer_slack_is_what_was_asked_for() {
        set_timer_slack(1);
        // SAFETY: this prctl takes no further arguments and reads no memory.
        let slack_ns = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        assert_eq!(slack_ns, 1);
    }
}
