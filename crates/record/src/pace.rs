//! How evenly a repeat went: stalls, and whether its rate was steady.
//!
//! The leader of a measurement looks at the workers' counts every [`LOOK_S`] seconds. A *stall* is
//! a time of [`STALL_S`] or more in which no worker completed an operation. The phase is cut into
//! ten windows of one length; it is *steady* when their rates neither drift nor scatter:
//!
//! | | |
//! |---|---|
//! | drift | Kendall's S of the windows' rates is beyond what chance does in 95 of 100 cases, and the last three windows differ from the first three by more than 10 % |
//! | scatter | the coefficient of variation of the rates is above 0.3 |

use serde::{Deserialize, Serialize};

/// Seconds from one look to the next.
pub const LOOK_S: f64 = 0.02;
/// The shortest stall, in seconds.
pub const STALL_S: f64 = 0.1;
/// Windows of a phase.
const WINDOWS: usize = 10;

/// The shortest phase that is judged, in seconds: ten looks a window.
const JUDGED_S: f64 = LOOK_S * 10.0 * WINDOWS as f64;
/// |S| of ten values that chance exceeds in less than 5 of 100 cases.
const S_MAX: i32 = 21;
const DRIFT_MAX: f64 = 0.1;
const VARIATION_MAX: f64 = 0.3;

/// How one repeat went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Stalls of [`STALL_S`] or more.
    pub stalls: u64,
    /// Their sum in seconds.
    pub stalled_s: f64,
    /// The longest time without an operation that was seen, in seconds, stall or not; 0 where each
    /// look saw some.
    pub longest_s: f64,
    /// Whether the rate was steady; `None` where the phase was too short to say.
    pub is_steady: Option<bool>,
    /// The rate of the last three windows over that of the first three.
    pub drift: Option<f64>,
    /// The coefficient of variation of the windows' rates.
    pub variation: Option<f64>,
}

/// Follows a phase look by look.
#[derive(Clone, Debug, Default)]
pub struct PaceKeeper {
    /// Seconds since the phase began, and operations or units by then.
    looks: Vec<(f64, u64)>,
    /// The last look that saw progress, and the progress.
    moved: (f64, u64),
    stalls: u64,
    stalled_s: f64,
    longest_s: f64,
}

impl PaceKeeper {
    /// A look at `seconds` since the phase began. `progress` changes whenever an operation ends;
    /// `units` are what the rate is of.
    pub fn look(&mut self, seconds: f64, progress: u64, units: u64) {
        if progress != self.moved.1 {
            self.close(seconds);
            self.moved = (seconds, progress);
        }
        self.looks.push((seconds, units));
    }

    /// Ends a time without progress. It began at or before the look that saw the last progress and
    /// ended before this one, so that it is no longer than told and shorter by two looks at most.
    fn close(&mut self, seconds: f64) {
        let gap = seconds - self.moved.0;
        // From one look to the next there is always some.
        if gap < 2.0 * LOOK_S {
            return;
        }
        self.longest_s = self.longest_s.max(gap);
        if gap >= STALL_S {
            self.stalls += 1;
            self.stalled_s += gap;
        }
    }

    /// What was seen, at the end of the phase.
    #[must_use]
    pub fn finish(mut self, seconds: f64) -> Pace {
        self.close(seconds);
        let rates = windows(&self.looks, seconds).filter(|_| seconds >= JUDGED_S);
        let judged = rates.map(|rates| judge(&rates));
        Pace {
            stalls: self.stalls,
            stalled_s: self.stalled_s,
            longest_s: self.longest_s,
            is_steady: judged.map(|(is_steady, ..)| is_steady),
            drift: judged.map(|(_, drift, _)| drift).filter(|drift| drift.is_finite()),
            variation: judged.map(|(.., variation)| variation).filter(|cov| cov.is_finite()),
        }
    }
}

/// The rate of each window; counts between two looks are interpolated. O(looks).
fn windows(looks: &[(f64, u64)], seconds: f64) -> Option<[f64; WINDOWS]> {
    let length = seconds / WINDOWS as f64;
    let last = looks.last()?;
    let count_at = |at: f64| -> f64 {
        let after = looks.partition_point(|(time, _)| *time < at);
        let (t1, n1) = looks.get(after).copied().unwrap_or(*last);
        let (t0, n0) = if after == 0 { (0.0, 0) } else { looks[after - 1] };
        if t1 <= t0 {
            return n1 as f64;
        }
        n0 as f64 + (n1.saturating_sub(n0)) as f64 * ((at - t0) / (t1 - t0)).clamp(0.0, 1.0)
    };
    let mut rates = [0.0; WINDOWS];
    let mut before = 0.0;
    for (index, rate) in rates.iter_mut().enumerate() {
        let count = count_at(length * (index + 1) as f64);
        *rate = (count - before) / length;
        before = count;
    }
    Some(rates)
}

/// Whether the rates are steady, their drift and their variation.
fn judge(rates: &[f64; WINDOWS]) -> (bool, f64, f64) {
    let mut s = 0;
    for (index, earlier) in rates.iter().enumerate() {
        for later in &rates[index + 1..] {
            s += i32::from(later > earlier) - i32::from(later < earlier);
        }
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let all = mean(rates);
    let square = |rate: &f64| (rate - all) * (rate - all);
    let variance = rates.iter().map(square).sum::<f64>() / (WINDOWS - 1) as f64;
    let variation = variance.sqrt() / all;
    let drift = mean(&rates[WINDOWS - 3..]) / mean(&rates[..3]);
    let drifts = s.abs() > S_MAX && (drift - 1.0).abs() > DRIFT_MAX;
    // A phase in which nothing happened is not steady: its variation is no number.
    let scatters = variation.is_nan() || variation > VARIATION_MAX;
    (!drifts && !scatters, drift, variation)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A phase of `seconds` whose rate at each moment `rate` tells, looked at as the leader does.
    fn phase(seconds: f64, rate: impl Fn(f64) -> f64) -> Pace {
        let mut keeper = PaceKeeper::default();
        let (mut time, mut done) = (0.0, 0.0);
        while time < seconds {
            done += rate(time) * LOOK_S;
            time += LOOK_S;
            keeper.look(time, done as u64, done as u64);
        }
        keeper.finish(seconds)
    }

    #[test]
    fn an_even_rate_is_steady_and_has_no_stalls() {
        let pace = phase(4.0, |time| 10_000.0 + 500.0 * (time * 37.0).sin());
        assert_eq!((pace.stalls, pace.is_steady), (0, Some(true)), "{pace:?}");
        assert_eq!((pace.longest_s, pace.stalled_s), (0.0, 0.0));
        assert!((pace.drift.unwrap() - 1.0).abs() < 0.05, "{pace:?}");
    }

    #[test]
    fn a_rate_that_sinks_is_not_steady() {
        let pace = phase(4.0, |time| 10_000.0 - 1000.0 * time);
        assert_eq!(pace.is_steady, Some(false), "{pace:?}");
        assert!(pace.drift.unwrap() < 0.8, "{pace:?}");
        // A trend that is sure and small is no reason to doubt.
        assert_eq!(phase(4.0, |time| 10_000.0 - 100.0 * time).is_steady, Some(true));
    }

    #[test]
    fn stalls_are_counted_and_measured() {
        let waits = |time: f64| (1.0..1.5).contains(&time) || (2.0..2.05).contains(&time);
        let pace = phase(4.0, |time| if waits(time) { 0.0 } else { 10_000.0 });
        assert_eq!(pace.stalls, 1, "{pace:?}");
        for seen in [pace.stalled_s, pace.longest_s] {
            assert!((0.5 - seen).abs() <= 2.0 * LOOK_S, "{pace:?}");
        }
        // One that lasts until the end counts, too.
        let pace = phase(1.0, |time| if time > 0.5 { 0.0 } else { 10_000.0 });
        assert_eq!((pace.stalls, pace.is_steady), (1, None), "{pace:?}");
        assert_eq!(phase(3.0, |_| 0.0).is_steady, Some(false));
    }

    #[test]
    fn a_rate_that_comes_in_bursts_is_not_steady() {
        let pace = phase(4.0, |time| if time % 1.6 < 0.8 { 15_000.0 } else { 1000.0 });
        assert_eq!(pace.is_steady, Some(false), "{pace:?}");
        assert!(pace.variation.unwrap() > 0.3, "{pace:?}");
    }
}
