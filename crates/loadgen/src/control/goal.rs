//! What a search wants and when a measurement is exact enough: texts and decisions.
//!
//! ```text
//!   99:1000          p99 < 1000 us, as mutilate writes it; decimals on either side
//!   p99.9<1.5ms      the same kind of goal with a unit
//!   p99:ci<2%        until the 95 % interval of p99 reaches at most 2 % to either side on average
//!   p50:ci<10us      or 10 us
//! ```

use std::fmt;

use keyrack_measure::Histogram;
use keyrack_measure::stats::Interval;

use super::{Error, Figures};
use crate::durations::{parse_ns, words};

/// How sure an interval is.
pub const LEVEL: f64 = 0.95;
/// What share of the offered rate must be served for the rate to count as sustained.
const GOODPUT_MIN: f64 = 0.99;

/// A percentile that is to stay below a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Which percentile, more than 0 and less than 100.
    pub percentile: f64,
    /// What it is to stay below.
    pub limit_ns: u64,
}

/// What figures say about a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is met: the whole interval lies below the limit, and the rate was served.
    Met,
    /// It is not: the whole interval lies at or above the limit, or the rate was not served.
    Missed,
    /// The interval holds the limit, or there are too few replies for one.
    Open,
}

impl Goal {
    /// Reads `N:X` (X in microseconds) or `pN<X` (X with a unit).
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Goal, Error> {
        let refuse = || Error::usage(text, "expected N:MICROSECONDS or pN<TIME, as in p99.9<1.5ms");
        let (percentile, limit) = match text.strip_prefix('p') {
            Some(rest) => rest.split_once('<').ok_or_else(refuse)?,
            None => text.split_once(':').ok_or_else(refuse)?,
        };
        let percentile = read_percentile(text, percentile)?;
        let limit_ns = parse_ns(limit, 1e3).ok_or_else(refuse)?;
        if limit_ns == 0 {
            return Err(Error::usage(text, "no latency is below 0"));
        }
        Ok(Goal { percentile, limit_ns })
    }

    /// Judges what a probe at some rate has brought.
    #[must_use]
    pub fn judge(&self, figures: &Figures) -> Judgement {
        if !figures.is_sustained() {
            return Judgement::Missed;
        }
        let latencies = figures.with_lost();
        match latencies.percentile_interval(self.percentile, LEVEL) {
            Some(interval) if interval.high < self.limit_ns as f64 => Judgement::Met,
            Some(interval) if interval.low >= self.limit_ns as f64 => Judgement::Missed,
            _ => Judgement::Open,
        }
    }

    /// The same without doubt: by the percentile itself.
    #[must_use]
    pub fn guess(&self, figures: &Figures) -> Judgement {
        let percentile = figures.with_lost().percentile(self.percentile);
        if percentile.is_some_and(|found| found < self.limit_ns) && figures.is_sustained() {
            Judgement::Met
        } else {
            Judgement::Missed
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{} < {}", self.percentile, words(self.limit_ns as f64))
    }
}

impl Figures {
    /// Whether the offered rate was served, but for a hundredth, and for what a Poisson process
    /// gives or takes by chance. True where none was offered.
    #[must_use]
    pub fn is_sustained(&self) -> bool {
        let Some(offered_per_s) = self.offered_per_s else { return true };
        let expected = offered_per_s * self.elapsed_s;
        // Three standard deviations of the number of arrivals.
        let least = (expected * GOODPUT_MIN).min(expected - 3.0 * expected.sqrt());
        self.completed as f64 >= least
    }
}

/// How large an interval may be for a measurement to end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Width {
    Share(f64),
    Ns(f64),
}

/// Measure until intervals are small enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Until {
    wishes: Vec<(f64, Width)>,
}

/// How far one wish is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Which percentile.
    pub percentile: f64,
    /// Its interval, where there are values enough for one.
    pub interval: Option<Interval>,
    /// Whether that is small enough.
    pub is_reached: bool,
}

impl Until {
    /// Reads a list such as `p99:ci<2%,p50:ci<10us`. The number is half the width of the interval.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Until, Error> {
        let mut wishes = Vec::new();
        for item in text.split(',') {
            let refuse = || Error::usage(item, "expected pN:ci<SHARE% or pN:ci<TIME");
            let (percentile, width) = item
                .trim()
                .strip_prefix('p')
                .and_then(|rest| rest.split_once(":ci<"))
                .ok_or_else(refuse)?;
            let width = match width.strip_suffix('%') {
                Some(share) => {
                    let share: f64 = share.trim().parse().map_err(|_| refuse())?;
                    Width::Share(share / 100.0)
                }
                None => Width::Ns(parse_ns(width, 1e3).ok_or_else(refuse)? as f64),
            };
            let is_positive = match width {
                Width::Share(share) => share > 0.0 && share.is_finite(),
                Width::Ns(ns) => ns > 0.0,
            };
            if !is_positive {
                return Err(Error::usage(item, "no interval has a width of 0"));
            }
            wishes.push((read_percentile(item, percentile)?, width));
        }
        Ok(Until { wishes })
    }

    /// How far each wish is.
    #[must_use]
    pub fn progress(&self, latencies: &Histogram) -> Vec<Progress> {
        let of = |&(percentile, width): &(f64, Width)| {
            let interval = latencies.percentile_interval(percentile, LEVEL);
            let value = latencies.percentile(percentile).unwrap_or(0) as f64;
            let half = interval.map(|interval| (interval.high - interval.low) / 2.0);
            let is_reached = half.is_some_and(|half| match width {
                Width::Share(share) => half <= share * value,
                Width::Ns(ns) => half <= ns,
            });
            Progress { percentile, interval, is_reached }
        };
        self.wishes.iter().map(of).collect()
    }

    /// Whether all wishes are fulfilled.
    #[must_use]
    pub fn is_reached(&self, latencies: &Histogram) -> bool {
        self.progress(latencies).iter().all(|progress| progress.is_reached)
    }
}

fn read_percentile(whole: &str, text: &str) -> Result<f64, Error> {
    match text.trim().parse::<f64>() {
        Ok(percentile) if percentile > 0.0 && percentile < 100.0 => Ok(percentile),
        _ => Err(Error::usage(whole, "a percentile is more than 0 and less than 100")),
    }
}
