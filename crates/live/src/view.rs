//! What is known of a run while it goes on.

use std::collections::VecDeque;

use keyrack_measure::Histogram;

/// Seconds that are kept, more than the widest terminal has columns.
const SECONDS_MAX: usize = 1024;
/// Lines that are kept of what was said and of what is done.
const LINES_MAX: usize = 256;

/// One second of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Second {
    /// Operations a second.
    pub rate_per_s: f64,
    /// Their latency in nanoseconds.
    pub latency: Histogram,
}

/// One kind of operation over the last second.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// How many a second.
    pub rate_per_s: f64,
    /// Their latency in nanoseconds.
    pub latency: Histogram,
    /// How many failed, where they are counted by kind.
    pub errors: Option<u64>,
}

/// A second as it is drawn: rate, then p50, p99 and p99.9 in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) rate_per_s: f64,
    pub(crate) latency_ns: [Option<u64>; 3],
}

/// The percentiles that are drawn.
pub(crate) const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9)];

/// A run as it is shown.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// What runs.
    pub title: String,
    /// What it is doing.
    pub stage: String,
    /// Seconds since this stage began.
    pub elapsed_s: f64,
    /// How much of it is done, 0 to 1, where that is known.
    pub share: Option<f64>,
    /// What the rate is a rate of.
    pub unit: String,
    /// Names and values: errors, memory and the like. A value that begins with `!` is drawn as bad.
    pub facts: Vec<(String, String)>,
    /// Kinds of operations.
    pub operations: Vec<Operation>,
    pub(crate) points: VecDeque<Point>,
    pub(crate) done: VecDeque<String>,
}

impl View {
    /// A run of which nothing is known yet; `unit` is what its rate is a rate of.
    #[must_use]
    pub fn new(title: &str, unit: &str) -> View {
        View { title: title.to_owned(), unit: unit.to_owned(), ..View::default() }
    }

    /// A second is over.
    pub fn push(&mut self, second: &Second) {
        let at = |(_, p): (&str, f64)| second.latency.percentile(p);
        let point = Point { rate_per_s: second.rate_per_s, latency_ns: PERCENTILES.map(at) };
        keep_last(&mut self.points, point, SECONDS_MAX);
    }

    /// Another stage begins; the seconds of the one before go.
    pub fn enter(&mut self, stage: &str) {
        stage.clone_into(&mut self.stage);
        (self.elapsed_s, self.share) = (0.0, None);
        self.points.clear();
        self.operations.clear();
    }

    /// A part of the run is done: one line of what came of it.
    pub fn finish(&mut self, line: String) {
        keep_last(&mut self.done, line, LINES_MAX);
    }
}

/// Adds to the end, and drops from the front what is too much.
pub(crate) fn keep_last<T>(list: &mut VecDeque<T>, item: T, count_max: usize) {
    if list.len() >= count_max {
        list.pop_front();
    }
    list.push_back(item);
}
