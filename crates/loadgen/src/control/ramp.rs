//! A rate that changes while requests are sent.
//!
//! ```text
//!   rate |     /-----         file: a line `SECONDS,RATE` for each corner, straight between them;
//!        |    /               two lines with the same second are a step. The last rate holds on.
//!        |---/
//!        +------------ time
//! ```
//!
//! Arrivals follow by a change of time: a schedule of one request a "second" says how many requests
//! are due before its n-th arrival, and the ramp says when so many are. Gaps keep their
//! distribution at every moment, and nothing is lost at corners. The scale of gaps is that of the
//! distribution with mean 1.
//!
//! **Invariant:** corners ascend in time; counts that were summed to each corner never decrease.

use keyrack_workload::{ArrivalSchedule, Distribution};
use serde::{Deserialize, Serialize};

use super::Error;
use crate::arrival::{Purpose, Stream};

/// The most corners.
const CORNERS_MAX: usize = 1 << 20;

/// A place of the ramp.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Corner {
    at_s: f64,
    rate_per_s: f64,
    /// Requests that are due before.
    count: f64,
}

/// A rate over time. As a value that travels it is its corners: seconds and rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(f64, f64)>", into = "Vec<(f64, f64)>")]
pub struct Ramp {
    corners: Vec<Corner>,
}

impl Ramp {
    /// Reads the content of a file: `SECONDS,RATE` in each line (blanks do as well), `#` before
    /// what says nothing.
    ///
    /// # Errors
    /// The line that is wrong.
    pub fn parse(text: &str) -> Result<Ramp, Error> {
        let mut places = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let refuse =
                |problem: &str| Error::usage(line, format!("line {}: {problem}", index + 1));
            let words = line.split(|c: char| c == ',' || c.is_whitespace());
            let numbers: Vec<Option<f64>> = words
                .filter(|word| !word.is_empty())
                .map(|word| word.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0))
                .collect();
            let [Some(at_s), Some(rate)] = numbers[..] else {
                return Err(refuse("expected SECONDS,RATE, both of at least 0"));
            };
            if places.last().is_some_and(|&(before_s, _)| at_s < before_s) {
                return Err(refuse("times must not go back"));
            }
            if places.len() == CORNERS_MAX {
                return Err(refuse("more than 2^20 corners"));
            }
            places.push((at_s, rate));
        }
        Ramp::of(&places).ok_or_else(|| Error::usage("ramp", "no rate in it is more than 0"))
    }

    /// Reads a staircase `FROM:TO:STEP:SECONDS`: the rate FROM for so many seconds, then STEP more
    /// (or less, if TO is below), until TO has had its seconds.
    ///
    /// # Errors
    /// What was expected.
    pub fn staircase(text: &str) -> Result<Ramp, Error> {
        let refuse = || Error::usage(text, "expected FROM:TO:STEP:SECONDS, all more than 0");
        let numbers: Option<Vec<f64>> = text
            .split(':')
            .map(|word| word.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0))
            .collect();
        let [from, to, step, seconds] = numbers.ok_or_else(refuse)?[..] else {
            return Err(refuse());
        };
        let steps = ((to - from).abs() / step + 1e-9).floor();
        if steps > CORNERS_MAX as f64 / 2.0 {
            return Err(Error::usage(text, "more than 2^19 steps"));
        }
        let stairs = (0..=steps as u32).flat_map(|k| {
            let rate = from + step.copysign(to - from) * f64::from(k);
            [(f64::from(k) * seconds, rate), (f64::from(k + 1) * seconds, rate)]
        });
        Ramp::of(&stairs.collect::<Vec<_>>()).ok_or_else(refuse)
    }

    fn of(places: &[(f64, f64)]) -> Option<Ramp> {
        let mut corners: Vec<Corner> = Vec::with_capacity(places.len() + 1);
        // Before the first corner its rate holds.
        let start = places.first().map(|&(_, rate)| (0.0, rate));
        for (at_s, rate_per_s) in start.into_iter().chain(places.iter().copied()) {
            let count = corners.last().map_or(0.0, |before| {
                before.count + (before.rate_per_s + rate_per_s) / 2.0 * (at_s - before.at_s)
            });
            corners.push(Corner { at_s, rate_per_s, count });
        }
        let last = corners.last()?;
        (last.count > 0.0 || last.rate_per_s > 0.0).then_some(Ramp { corners })
    }

    /// When the ramp has its last corner.
    #[must_use]
    pub fn end_s(&self) -> f64 {
        self.corners.last().map_or(0.0, |last| last.at_s)
    }

    /// The rate at a moment.
    #[must_use]
    pub fn rate_at(&self, at_s: f64) -> f64 {
        let after = self.corners.partition_point(|corner| corner.at_s <= at_s);
        let Some(before) = after.checked_sub(1).map(|before| self.corners[before]) else {
            return self.corners[0].rate_per_s;
        };
        match self.corners.get(after) {
            None => before.rate_per_s,
            Some(next) => before.rate_per_s + slope(before, *next) * (at_s - before.at_s),
        }
    }

    /// How many requests are due before a moment.
    #[must_use]
    pub fn count_at(&self, at_s: f64) -> f64 {
        let after = self.corners.partition_point(|corner| corner.at_s <= at_s);
        let Some(before) = after.checked_sub(1).map(|before| self.corners[before]) else {
            return 0.0;
        };
        before.count + (before.rate_per_s + self.rate_at(at_s)) / 2.0 * (at_s - before.at_s)
    }

    /// When so many requests are due; `None` when there will never be so many.
    #[must_use]
    pub fn time_of(&self, count: f64) -> Option<f64> {
        let after = self.corners.partition_point(|corner| corner.count < count);
        self.time_within(after, count)
    }

    /// The same, where the first corner with at least `count` is known.
    fn time_within(&self, after: usize, count: f64) -> Option<f64> {
        let Some(before) = after.checked_sub(1).map(|before| self.corners[before]) else {
            return Some(self.corners[0].at_s);
        };
        let more = count - before.count;
        let slope = self.corners.get(after).map_or(0.0, |next| slope(before, *next));
        // more = rate t + slope t^2 / 2, solved in the form that cancels nothing.
        let root = (before.rate_per_s.powi(2) + 2.0 * slope * more).max(0.0).sqrt();
        let rates = before.rate_per_s + root;
        (rates > 0.0).then(|| before.at_s + 2.0 * more / rates)
    }
}

impl From<Ramp> for Vec<(f64, f64)> {
    fn from(ramp: Ramp) -> Vec<(f64, f64)> {
        ramp.corners.iter().map(|corner| (corner.at_s, corner.rate_per_s)).collect()
    }
}

impl TryFrom<Vec<(f64, f64)>> for Ramp {
    type Error = Error;

    /// # Errors
    /// Corners that a file could not have either.
    fn try_from(places: Vec<(f64, f64)>) -> Result<Ramp, Error> {
        let is_number = |n: f64| n.is_finite() && n >= 0.0;
        let are_numbers = places.iter().all(|(at_s, rate)| is_number(*at_s) && is_number(*rate));
        let ascend = places.is_sorted_by(|a, b| a.0 <= b.0) && places.len() <= CORNERS_MAX + 1;
        let ramp = if are_numbers && ascend { Ramp::of(&places) } else { None };
        ramp.ok_or_else(|| Error::usage("ramp", "corners that cannot be"))
    }
}

fn slope(before: Corner, next: Corner) -> f64 {
    let length_s = next.at_s - before.at_s;
    if length_s > 0.0 { (next.rate_per_s - before.rate_per_s) / length_s } else { 0.0 }
}

/// The arrivals of one of several connections that share a ramp, or a part of it, alike.
#[derive(Clone, Debug)]
pub struct RampSchedule {
    ramp: Ramp,
    /// One request a "second".
    schedule: ArrivalSchedule,
    /// Requests of the whole ramp for each of its own.
    scale: f64,
    /// The first corner that may lie beyond the next arrival.
    after: usize,
}

impl RampSchedule {
    /// The schedule `index` of `schedules` that share a part of the ramp: all of it is `share` 1,
    /// which is more than 0.
    ///
    /// # Errors
    /// A distribution that cannot have mean 1.
    ///
    /// # Panics
    /// Unless `index < schedules`.
    pub fn new(
        ramp: &Ramp,
        distribution: &Distribution,
        stream: &Stream,
        index: u32,
        schedules: u32,
        share: f64,
    ) -> Result<RampSchedule, keyrack_workload::Error> {
        assert!(index < schedules, "a schedule is one of those that share the rate");
        let schedule =
            ArrivalSchedule::from_distribution(distribution, 1.0, stream.rng(Purpose::Gaps))?;
        let schedule = schedule.stationary().staggered(index, schedules);
        let scale = f64::from(schedules) / share;
        Ok(RampSchedule { ramp: ramp.clone(), schedule, scale, after: 0 })
    }

    /// The offset of the next arrival from the start; `None` when the ramp has come down to 0 for
    /// good. Never decreases.
    #[inline]
    pub fn next_at_ns(&mut self) -> Option<u64> {
        let own = self.schedule.next_at_ns() as f64 / 1e9;
        let count = own * self.scale;
        while self.ramp.corners.get(self.after).is_some_and(|corner| corner.count < count) {
            self.after += 1;
        }
        self.ramp.time_within(self.after, count).map(|at_s| (at_s * 1e9) as u64)
    }
}
