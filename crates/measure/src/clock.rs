//! The clock that workers read before and after every operation.
//!
//! Three sources behind one type, chosen when the clock is made:
//!
//! | source | a tick is | one reading | when |
//! |---|---|---|---|
//! | `tsc` | a cycle of the time-stamp counter | ~9 ns | the counter is sound (see `calibration`) |
//! | `vdso` | a nanosecond of `CLOCK_MONOTONIC` | ~20 ns | otherwise |
//! | `fake` | a nanosecond that never was | ~1 ns | reproducible runs |
//!
//! Workers store ticks and convert differences when they file them. Readings are not fenced: a
//! fence costs 5 ns and buys less than that in accuracy. Readings on different cores may disagree
//! by a few ticks, so a difference is taken by [`Clock::ns_between`], which never goes below 0.
//!
//! Waiting (open-loop pacing) happens in two steps, because a sleep overshoots by some 15 us at
//! the median and 100 us at the 99th percentile even with the smallest timer slack:
//!
//! ```text
//! now ............ sleep ............ | ... spin, 150 us ... | deadline
//! ```
//!
//! A fake clock shows `0, step, 2 * step, ...` on successive readings, and waiting on it moves it
//! to the deadline. Each clone starts again at 0, so every worker sees its own fixed sequence.

use std::cell::Cell;
use std::fmt;
use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(target_arch = "x86_64")]
use crate::calibration::Calibration;
use crate::scale::Scale;
use crate::{stats, sys};

/// A sleep ends this long before the deadline; the rest is spun.
const SPIN_NS: u64 = 150_000;
const TIMER_SLACK_NS: u32 = 1;
const COST_ROUNDS: usize = 65;
const COST_READINGS: u32 = 256;

/// Where a [`Clock`] gets its ticks from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClockSource {
    /// The time-stamp counter of the processor.
    Tsc,
    /// `CLOCK_MONOTONIC`, read through the vDSO.
    Vdso,
    /// A count of readings; no time passes.
    Fake,
}

impl fmt::Display for ClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ClockSource::Tsc => "tsc",
            ClockSource::Vdso => "vdso",
            ClockSource::Fake => "fake",
        })
    }
}

#[derive(Debug)]
enum Reading {
    #[cfg(target_arch = "x86_64")]
    Tsc(&'static Calibration),
    Vdso,
    Fake {
        step_ns: u64,
        /// What the next reading shows.
        now_ns: Arc<AtomicU64>,
    },
}

/// A source of ticks and their conversion to nanoseconds. Threads may share one; a worker keeps a
/// clone of its own, which is cheaper to reach and gives it a fake clock of its own.
#[derive(Debug)]
pub struct Clock {
    reading: Reading,
    ns: Scale,
    ticks: Scale,
}

impl Clock {
    /// The best clock of this machine. The first call in a process takes about 16 ms to calibrate
    /// the counter; later ones are free.
    pub fn calibrated() -> Clock {
        #[cfg(target_arch = "x86_64")]
        if let Some(calibration) = Calibration::of_process() {
            return Clock {
                reading: Reading::Tsc(calibration),
                ns: calibration.ns,
                ticks: calibration.ticks,
            };
        }
        Clock::vdso()
    }

    /// A clock whose ticks are the nanoseconds of `CLOCK_MONOTONIC`.
    pub fn vdso() -> Clock {
        Clock { reading: Reading::Vdso, ns: Scale::IDENTITY, ticks: Scale::IDENTITY }
    }

    /// A clock whose readings are 0, `step_ns`, 2 `step_ns` and so on, whatever the machine does.
    pub fn fake(step_ns: u64) -> Clock {
        Clock {
            reading: Reading::Fake { step_ns, now_ns: Arc::default() },
            ns: Scale::IDENTITY,
            ticks: Scale::IDENTITY,
        }
    }

    /// The same clock once more, for another part of the same worker: a fake one is one count for
    /// both, where [`Clone`] starts a count of its own.
    #[must_use]
    pub fn share(&self) -> Clock {
        let mut clock = self.clone();
        if let (Reading::Fake { now_ns: copy, .. }, Reading::Fake { now_ns, .. }) =
            (&mut clock.reading, &self.reading)
        {
            *copy = Arc::clone(now_ns);
        }
        clock
    }

    /// The present tick. The origin is arbitrary; only differences mean anything.
    #[inline]
    pub fn ticks(&self) -> u64 {
        match &self.reading {
            #[cfg(target_arch = "x86_64")]
            Reading::Tsc(_) => sys::tsc(),
            Reading::Vdso => sys::monotonic_ns(),
            Reading::Fake { step_ns, now_ns } => {
                // Relaxed: the count alone is shared.
                now_ns.fetch_add(*step_ns, Ordering::Relaxed)
            }
        }
    }

    /// The length of `ticks_delta` ticks in nanoseconds, to the nearest. Saturates at `u64::MAX`.
    #[inline]
    pub fn ns(&self, ticks_delta: u64) -> u64 {
        self.ns.apply(ticks_delta)
    }

    /// Nanoseconds from tick `start` to tick `end`; 0 when `end` is not later.
    #[inline]
    pub fn ns_between(&self, start: u64, end: u64) -> u64 {
        self.ns(end.saturating_sub(start))
    }

    /// The number of ticks in `ns` nanoseconds, to the nearest. Saturates at `u64::MAX`.
    pub fn ticks_of_ns(&self, ns: u64) -> u64 {
        self.ticks.apply(ns)
    }

    /// Where the ticks come from.
    pub fn source(&self) -> ClockSource {
        match self.reading {
            #[cfg(target_arch = "x86_64")]
            Reading::Tsc(_) => ClockSource::Tsc,
            Reading::Vdso => ClockSource::Vdso,
            Reading::Fake { .. } => ClockSource::Fake,
        }
    }

    /// How far this clock has run ahead of `CLOCK_MONOTONIC` since it was calibrated, in parts per
    /// million of the time elapsed; negative when it fell behind. 0 for the other sources. The
    /// kernel steers `CLOCK_MONOTONIC` by NTP, so a few tens of ppm are the kernel's, not ours.
    pub fn drift_ppm(&self) -> f64 {
        match self.reading {
            #[cfg(target_arch = "x86_64")]
            Reading::Tsc(calibration) => calibration.drift_ppm(),
            Reading::Vdso | Reading::Fake { .. } => 0.0,
        }
    }

    /// The cost of one reading in nanoseconds: the median over 65 rounds of 256 readings, measured
    /// now (less than a millisecond). 0 for a fake clock, which is not advanced.
    pub fn reading_cost_ns(&self) -> f64 {
        if self.source() == ClockSource::Fake {
            return 0.0;
        }
        let mut costs_ns = [0.0; COST_ROUNDS];
        for cost_ns in &mut costs_ns {
            let start = self.ticks();
            for _ in 1..COST_READINGS {
                black_box(self.ticks());
            }
            let end = self.ticks();
            *cost_ns = self.ns_between(start, end) as f64 / f64::from(COST_READINGS);
        }
        stats::median(&costs_ns).unwrap_or(0.0)
    }

    /// Returns when the clock shows `tick` or later; at once when it already does.
    ///
    /// Sleeps until 150 us before, then spins. The first sleep of a thread sets that thread's timer
    /// slack to 1 ns. There is no way to interrupt the wait: a caller that must notice a stop flag
    /// waits in slices. A fake clock moves to `tick` and returns.
    pub fn wait_until(&self, tick: u64) {
        if let Reading::Fake { now_ns, .. } = &self.reading {
            now_ns.fetch_max(tick, Ordering::Relaxed);
            return;
        }
        loop {
            let now = self.ticks();
            if now >= tick {
                return;
            }
            let remaining_ns = self.ns(tick - now);
            if remaining_ns > SPIN_NS {
                reduce_timer_slack();
                let sleep_ns = remaining_ns - SPIN_NS;
                sys::sleep_until(sys::monotonic_ns().saturating_add(sleep_ns));
            } else {
                spin_loop();
            }
        }
    }
}

impl Clone for Clock {
    /// A clock of the same source; a fake one starts again at 0.
    fn clone(&self) -> Clock {
        let reading = match &self.reading {
            #[cfg(target_arch = "x86_64")]
            Reading::Tsc(calibration) => Reading::Tsc(calibration),
            Reading::Vdso => Reading::Vdso,
            Reading::Fake { step_ns, .. } => {
                Reading::Fake { step_ns: *step_ns, now_ns: Arc::default() }
            }
        };
        Clock { reading, ns: self.ns, ticks: self.ticks }
    }
}

/// Asks the kernel for exact timers, once per thread: sleeps of this thread end when they should,
/// and not up to 50 us later.
pub fn reduce_timer_slack() {
    thread_local! {
        static REDUCED: Cell<bool> = const { Cell::new(false) };
    }
    REDUCED.with(|reduced| {
        if !reduced.replace(true) {
            sys::set_timer_slack(TIMER_SLACK_NS);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_fake_clock_is_one_count_and_a_cloned_one_is_its_own() {
        let clock = Clock::fake(10);
        let (shared, cloned) = (clock.share(), clock.clone());
        assert_eq!([clock.ticks(), shared.ticks(), clock.ticks()], [0, 10, 20]);
        assert_eq!(cloned.ticks(), 0);
    }

    fn assert_send<T: Send>(_: &T) {}

    #[test]
    fn a_fake_clock_counts_readings() {
        let clock = Clock::fake(40);
        assert_eq!([clock.ticks(), clock.ticks(), clock.ticks()], [0, 40, 80]);
        assert_eq!(clock.ns_between(40, 80), 40);
        assert_eq!((clock.ns(7), clock.ticks_of_ns(7)), (7, 7));
        assert_eq!((clock.drift_ppm(), clock.reading_cost_ns()), (0.0, 0.0));
        assert_eq!(clock.ticks(), 120, "measuring the cost advanced the clock");
        assert_eq!(clock.clone().ticks(), 0, "a clone starts again");
        assert_eq!(clock.ticks(), 160, "a clone advanced its original");
        assert_send(&clock);
    }

    #[test]
    fn waiting_moves_a_fake_clock_forward_only() {
        let clock = Clock::fake(10);
        clock.wait_until(1_000_000_000_000);
        assert_eq!(clock.ticks(), 1_000_000_000_000);
        clock.wait_until(5);
        assert_eq!(clock.ticks(), 1_000_000_000_010);
    }

    #[test]
    fn a_difference_never_goes_below_zero() {
        for clock in [Clock::calibrated(), Clock::vdso(), Clock::fake(1)] {
            assert_eq!(clock.ns_between(1_000_000, 999_990), 0);
            assert_eq!(clock.ns_between(u64::MAX, 0), 0);
        }
    }

    #[test]
    fn real_clocks_advance_and_agree_with_the_monotonic_clock() {
        const BUSY_NS: u64 = 20_000_000;
        for clock in [Clock::calibrated(), Clock::vdso()] {
            // A thread descheduled between its two readings sees them disagree: three chances.
            let mut seen = Vec::new();
            let agreed = (0..3).any(|_| {
                let (start, start_ns) = (clock.ticks(), sys::monotonic_ns());
                let mut work = 1u64;
                loop {
                    for _ in 0..1000 {
                        work = black_box(work.wrapping_mul(6_364_136_223_846_793_005));
                    }
                    let (end, end_ns) = (clock.ticks(), sys::monotonic_ns());
                    let (by_clock, by_kernel) = (clock.ns_between(start, end), end_ns - start_ns);
                    if by_clock >= BUSY_NS && by_kernel >= BUSY_NS {
                        let ratio = by_clock as f64 / by_kernel as f64;
                        seen.push(ratio);
                        return (ratio - 1.0).abs() < 0.01;
                    }
                    assert!(by_kernel < 100 * BUSY_NS, "{} does not advance", clock.source());
                }
            });
            assert!(agreed, "{}: ratios {seen:?}", clock.source());
        }
    }

    #[test]
    fn waiting_ends_at_or_after_the_tick() {
        for clock in [Clock::calibrated(), Clock::vdso()] {
            for wait_ns in [0, 20_000, 1_000_000] {
                let deadline = clock.ticks() + clock.ticks_of_ns(wait_ns);
                clock.wait_until(deadline);
                assert!(clock.ticks() >= deadline);
            }
            clock.wait_until(0);
        }
    }

    #[test]
    fn conversion_there_and_back_is_the_same_time() {
        let clock = Clock::calibrated();
        for ns in [0, 1_000, 1_000_000, 1_000_000_000, 3_600_000_000_000] {
            let back = clock.ns(clock.ticks_of_ns(ns));
            assert!(back.abs_diff(ns) <= 2, "{ns} came back as {back}");
        }
    }

    #[test]
    fn sources_have_the_names_that_reports_use() {
        assert_eq!(Clock::vdso().source().to_string(), "vdso");
        assert_eq!(Clock::fake(1).source().to_string(), "fake");
        assert_eq!(ClockSource::Tsc.to_string(), "tsc");
        assert_eq!(Clock::calibrated().clone().source(), Clock::calibrated().source());
        assert!(Clock::vdso().reading_cost_ns() > 0.0);
        assert!(Clock::calibrated().reading_cost_ns() > 0.0);
        assert!(Clock::calibrated().drift_ppm().is_finite());
    }
}
