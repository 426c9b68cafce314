//! Which rates are measured, for how long, and what follows from what came of it.
//!
//! ```text
//!   search   peak -> bracket -> bisect on a logarithmic scale -> the answer is an interval
//!   scan     min:max:step                                     -> a list of rates
//!   until    p99:ci<2%                                        -> enough, or go on
//!   ramp     seconds and rates                                -> when the n-th request is due
//!   repeat   N                                                -> medians with intervals
//! ```
//!
//! All of it is arithmetic over [`Figures`]. The caller, who can measure, passes a closure.
//!
//! **Invariant:** nothing here knows a socket, a thread or a clock; a closure's error ends what is
//! going on and is handed through.

mod goal;
mod ramp;
mod repeat;
mod scan;
mod search;

#[cfg(test)]
mod tests;

use keyrack_measure::Histogram;

pub use goal::{Goal, Judgement, LEVEL, Progress, Until};
pub use ramp::{Ramp, RampSchedule};
pub use repeat::{Repeated, repeat};
pub use scan::Scan;
pub use search::{Finding, Probed, Search};

/// A text that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {problem}")]
pub struct Error {
    /// What was written.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Error {
    fn usage(text: &str, problem: impl Into<String>) -> Error {
        Error { text: text.to_owned(), problem: problem.into() }
    }
}

/// What one measurement has brought, as far as decisions need it.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The rate that was asked for; `None` for a closed loop at its peak.
    pub offered_per_s: Option<f64>,
    /// Requests that were answered within the measurement.
    pub completed: u64,
    /// Requests that were not: failed, or outstanding at the end. They count as slower than all.
    pub lost: u64,
    /// The length of the measurement.
    pub elapsed_s: f64,
    /// Response times of the answered.
    pub response: Histogram,
}

impl Figures {
    /// Requests answered in a second; 0 when no time has passed.
    #[must_use]
    pub fn achieved_per_s(&self) -> f64 {
        if self.elapsed_s > 0.0 { self.completed as f64 / self.elapsed_s } else { 0.0 }
    }

    /// Adds another measurement at the same rate.
    pub fn merge(&mut self, other: &Figures) {
        self.completed += other.completed;
        self.lost += other.lost;
        self.elapsed_s += other.elapsed_s;
        self.response.merge(&other.response);
    }

    /// Response times of all, those without an answer above every other.
    #[must_use]
    pub fn with_lost(&self) -> Histogram {
        let mut all = self.response.clone();
        all.record_n(u64::MAX, self.lost);
        all
    }
}
