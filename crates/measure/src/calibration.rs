//! How many nanoseconds one tick of the time-stamp counter lasts, and whether to trust it at all.
//!
//! The counter is used when the kernel itself keeps time by it, or when the kernel uses a
//! paravirtual clock and the processor promises an invariant counter. A kernel that keeps time by
//! a slow device (`hpet`, `acpi_pm`, `jiffies`) has judged the counter unsound, and so do we.
//!
//! ```text
//! anchor A        8 ms         anchor B        8 ms         anchor C
//!    |--------------------------|--------------------------|
//!    ticks/ns of AB and BC must agree within 500 ppm, else try again (4 tries, then give up);
//!    the rate is that of AC.
//! ```
//!
//! An anchor pairs a tick with a `CLOCK_MONOTONIC` reading: 16 times "ticks, nanoseconds, ticks",
//! keeping the try whose two tick readings lie closest together. Its error is some 20 ns, hence
//! about 2 ppm of the rate over 16 ms. Anchor A is kept: drift is measured from it later, so that
//! the base line only grows.
//!
//! Only x86_64 has this counter, and only there is this module compiled.

use std::sync::OnceLock;

use crate::scale::Scale;
use crate::sys;

const SPAN_NS: u64 = 8_000_000;
const TRIES_MAX: u32 = 4;
const DISAGREEMENT_MAX: f64 = 500e-6;
const ANCHOR_TRIES: u32 = 16;
/// Slowest and fastest counter believed, in Hz.
const RATE_MIN_HZ: f64 = 1e6;
const RATE_MAX_HZ: f64 = 1e11;

/// A tick and the monotonic time at which it was read.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    ticks: u64,
    ns: u64,
}

/// The rate of the counter, found once per process.
#[derive(Debug)]
pub(crate) struct Calibration {
    origin: Anchor,
    /// Nanoseconds per tick.
    pub(crate) ns: Scale,
    /// Ticks per nanosecond.
    pub(crate) ticks: Scale,
}

impl Calibration {
    /// The calibration of this process, made on the first call (about 16 ms); `None` where the
    /// counter is absent, not to be trusted, or did not calibrate.
    pub(crate) fn of_process() -> Option<&'static Calibration> {
        static CALIBRATION: OnceLock<Option<Calibration>> = OnceLock::new();
        CALIBRATION.get_or_init(Calibration::find).as_ref()
    }

    fn find() -> Option<Calibration> {
        if !counter_is_sound(sys::tsc_is_invariant(), clocksource().as_deref()) {
            return None;
        }
        (0..TRIES_MAX).find_map(|_| {
            let [first, middle, last] = [0, 1, 2].map(|step| {
                if step > 0 {
                    let deadline_ns = sys::monotonic_ns() + SPAN_NS;
                    while sys::monotonic_ns() < deadline_ns {
                        sys::sleep_until(deadline_ns);
                    }
                }
                anchor()
            });
            from_anchors(first, middle, last)
        })
    }

    /// How far the counter, converted at the calibrated rate, has run ahead of `CLOCK_MONOTONIC`
    /// since the calibration began, in parts per million of the time elapsed.
    pub(crate) fn drift_ppm(&self) -> f64 {
        let now = anchor();
        let elapsed_ns = now.ns.saturating_sub(self.origin.ns);
        let counted_ns = self.ns.apply(now.ticks.saturating_sub(self.origin.ticks));
        if elapsed_ns == 0 {
            return 0.0;
        }
        (counted_ns as f64 - elapsed_ns as f64) / elapsed_ns as f64 * 1e6
    }
}

/// Whether ticks may be used as time.
fn counter_is_sound(invariant: bool, clocksource: Option<&str>) -> bool {
    match clocksource {
        Some("tsc") => true,
        Some("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies") => false,
        _ => invariant,
    }
}

/// The name of the clock that the kernel keeps time by, where it says so.
#[expect(
    clippy::disallowed_methods,
    reason = "a kernel setting, not data: a fault-injecting file system must not change the clock"
)]
fn clocksource() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(path).ok().map(|name| name.trim().to_owned())
}

fn anchor() -> Anchor {
    let mut best = Anchor { ticks: 0, ns: 0 };
    let mut best_gap = u64::MAX;
    for attempt in 0..ANCHOR_TRIES {
        let before = sys::tsc();
        let ns = sys::monotonic_ns();
        let after = sys::tsc();
        // A step back means that the thread changed cores between the readings.
        let gap = after.checked_sub(before).unwrap_or(u64::MAX);
        if gap < best_gap || attempt == 0 {
            best_gap = gap;
            best = Anchor { ticks: before.saturating_add(gap_half(gap)), ns };
        }
    }
    best
}

/// Half a gap between two readings; nothing when the gap is unknown.
fn gap_half(gap: u64) -> u64 {
    if gap == u64::MAX { 0 } else { gap / 2 }
}

/// The calibration from three anchors in order of time; `None` when they contradict each other.
fn from_anchors(first: Anchor, middle: Anchor, last: Anchor) -> Option<Calibration> {
    let rate_hz = |from: Anchor, to: Anchor| -> Option<f64> {
        let ticks = to.ticks.checked_sub(from.ticks)?;
        let ns = to.ns.checked_sub(from.ns).filter(|&ns| ns > 0)?;
        let rate_hz = ticks as f64 / ns as f64 * 1e9;
        (RATE_MIN_HZ..=RATE_MAX_HZ).contains(&rate_hz).then_some(rate_hz)
    };
    let (one, two) = (rate_hz(first, middle)?, rate_hz(middle, last)?);
    if (one / two - 1.0).abs() > DISAGREEMENT_MAX {
        return None;
    }
    let (ticks, ns) = (last.ticks - first.ticks, last.ns - first.ns);
    if ticks >= 1 << 48 || ns >= 1 << 48 {
        return None;
    }
    Some(Calibration { origin: first, ns: Scale::of(ns, ticks), ticks: Scale::of(ticks, ns) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_comes_from_anchors_that_agree() {
        let anchor = |ticks, ns| Anchor { ticks, ns };
        let good = from_anchors(anchor(500, 100), anchor(25_000_500, 10_000_100), {
            anchor(50_000_500, 20_000_100)
        })
        .unwrap();
        assert_eq!(good.ns.apply(2_500_000_000), 1_000_000_000);
        assert_eq!(good.ticks.apply(1_000_000_000), 2_500_000_000);

        let start = anchor(0, 0);
        // The second half ran 1 % faster.
        let jumped = from_anchors(start, anchor(25_000, 10_000), anchor(50_250, 20_000));
        assert!(jumped.is_none());
        // The counter stepped back, stood still, or is too slow to be one.
        assert!(from_anchors(anchor(9, 0), anchor(8, 10), anchor(7, 20)).is_none());
        assert!(from_anchors(start, anchor(10, 0), anchor(20, 0)).is_none());
        assert!(from_anchors(start, anchor(1, 10_000), anchor(2, 20_000)).is_none());
    }

    #[test]
    fn a_kernel_that_gave_up_the_counter_is_believed() {
        assert!(counter_is_sound(false, Some("tsc")));
        assert!(counter_is_sound(true, Some("kvm-clock")));
        assert!(counter_is_sound(true, None));
        assert!(!counter_is_sound(false, Some("kvm-clock")));
        assert!(!counter_is_sound(false, None));
        assert!(!counter_is_sound(true, Some("hpet")));
        assert!(!counter_is_sound(true, Some("acpi_pm")));
    }
}
