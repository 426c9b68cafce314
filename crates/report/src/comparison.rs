//! The comparison itself: cells matched, samples set against each other, verdicts.

use crate::context;
use keyrack_record::{Cell, Change, Point, Ratio, Repeat, Run};
use std::fmt;

/// What a row compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Primitive operations per second; more is better.
    OpsPerS,
    /// Open loop: 99th percentile of the units' response time in nanoseconds; less is better.
    ResponseP99,
    /// 99th percentile of one verb's service time in nanoseconds; less is better.
    ServiceP99 {
        /// The verb.
        op: String,
    },
}

impl Metric {
    /// Whether a larger number is the better one.
    #[must_use]
    pub fn more_is_better(&self) -> bool {
        matches!(self, Metric::OpsPerS)
    }

    /// Whether a change for the worse is a regression, or information only.
    #[must_use]
    pub fn gates(&self) -> bool {
        !matches!(self, Metric::ServiceP99 { .. })
    }

    fn sample(&self, repeat: &Repeat) -> Option<f64> {
        match self {
            Metric::OpsPerS => Some(repeat.ops_per_s),
            Metric::ResponseP99 => {
                repeat.unit.as_ref()?.response.percentile(99.0).map(|ns| ns as f64)
            }
            Metric::ServiceP99 { op } => {
                let stats = repeat.ops.iter().find(|stats| stats.op == *op)?;
                stats.service.percentile(99.0).map(|ns| ns as f64)
            }
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::OpsPerS => f.write_str("ops/s"),
            Metric::ResponseP99 => f.write_str("response p99"),
            Metric::ServiceP99 { op } => write!(f, "{op} p99"),
        }
    }
}

/// What a row shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better, beyond the noise of the repeats.
    Faster,
    /// Worse, beyond the noise of the repeats.
    Slower,
    /// No difference is shown: the interval contains 1.
    Same,
    /// One repeat on a side: there is no interval.
    Unsure,
}

impl Verdict {
    /// What a change of a metric shows.
    pub(crate) fn of(change: Change, more_is_better: bool) -> Verdict {
        match (change, more_is_better) {
            (Change::Up, true) | (Change::Down, false) => Verdict::Faster,
            (Change::Down, true) | (Change::Up, false) => Verdict::Slower,
            (Change::Same, _) => Verdict::Same,
            (Change::Unsure, _) => Verdict::Unsure,
        }
    }

    /// As reports show it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "~",
            Verdict::Unsure => "unsure",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One metric of one cell in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The cell.
    pub cell: Cell,
    /// What is compared.
    pub metric: Metric,
    /// Median of the base run, in the metric's unit.
    pub base: f64,
    /// Median of the new run.
    pub new: f64,
    /// `new / base`.
    pub ratio: f64,
    /// 95 % interval of the ratio; `None` with one repeat on either side.
    pub interval: Option<(f64, f64)>,
    /// Two-sided Mann-Whitney p; `None` with one repeat on either side.
    pub p: Option<f64>,
    /// What that shows.
    pub verdict: Verdict,
}

impl Row {
    /// Whether it is worse by more than the share `fail_on`, beyond the noise, in a metric that
    /// gates. For throughput: the interval lies below 1 and the ratio below `1 - fail_on`. For
    /// times: the interval lies above 1 and the ratio above `1 + fail_on`.
    #[must_use]
    pub fn is_regression(&self, fail_on: f64) -> bool {
        let large = if self.metric.more_is_better() {
            self.ratio < 1.0 - fail_on
        } else {
            self.ratio > 1.0 + fail_on
        };
        self.metric.gates() && self.verdict == Verdict::Slower && large
    }
}

/// A cell of both runs that cannot be compared, or one metric of it that cannot.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The cell.
    pub cell: Cell,
    /// Why: `durability os vs none`, base first.
    pub reason: String,
}

/// Two runs set against each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Every metric of every cell that both runs have, in the order of the base run.
    pub rows: Vec<Row>,
    /// Cells of the base run that the new run lacks.
    pub missing: Vec<Cell>,
    /// Cells of the new run that the base run lacks.
    pub added: Vec<Cell>,
    /// Cells that both runs have and that do not compare, wholly or in a metric that the reason
    /// names.
    pub refused: Vec<Refusal>,
    /// What a reader must know before believing the rows.
    pub warnings: Vec<String>,
}

impl Comparison {
    /// The rows that are worse by more than the share `fail_on` (0.05 for 5 %), beyond the noise.
    #[must_use]
    pub fn regressions(&self, fail_on: f64) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.is_regression(fail_on)).collect()
    }

    /// Whether any row lacks an interval, so that the caller may suggest more repeats.
    #[must_use]
    pub fn has_unsure(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Unsure)
    }
}

/// Sets `new` against `base`. `draw` feeds the bootstrap of intervals over many repeats; the same
/// draws give the same comparison. O(cells of base x cells of new + cells x verbs x resamples).
///
/// A cell that a run holds twice (`--threads 1,1`) is matched first with first, second with second.
#[must_use]
pub fn compare(base: &Run, new: &Run, draw: &mut dyn FnMut() -> u64) -> Comparison {
    let mut comparison =
        Comparison { warnings: context::warnings(base, new), ..Comparison::default() };
    let mut free: Vec<&Point> = new.points.iter().collect();
    for point in &base.points {
        let Some(at) = free.iter().position(|other| other.cell == point.cell) else {
            comparison.missing.push(point.cell.clone());
            continue;
        };
        let other = free.remove(at);
        let mut refuse = |reason| {
            comparison.refused.push(Refusal { cell: point.cell.clone(), reason });
        };
        if point.durability != other.durability {
            refuse(format!("durability {} vs {}", point.durability, other.durability));
            continue;
        }
        for (side, point) in [("base", point), ("new", other)] {
            let idle = point.repeats.iter().filter(|repeat| repeat.ops_per_s <= 0.0).count();
            if idle > 0 {
                let all = point.repeats.len();
                refuse(format!("ops/s: {idle} of {all} repeats of {side} completed nothing"));
            }
        }
        comparison.rows.extend(rows(point, other, draw));
    }
    comparison.added = free.into_iter().map(|point| point.cell.clone()).collect();
    comparison
}

fn rows(base: &Point, new: &Point, draw: &mut dyn FnMut() -> u64) -> Vec<Row> {
    let verbs = base.summary.ops.iter().map(|op| Metric::ServiceP99 { op: op.op.clone() });
    let response = base.cell.rate.map(|_| Metric::ResponseP99);
    let metrics = [Metric::OpsPerS].into_iter().chain(response).chain(verbs);
    metrics.filter_map(|metric| row(base, new, metric, draw)).collect()
}

/// `None` where a side has nothing to compare: a verb that it never called.
fn row(base: &Point, new: &Point, metric: Metric, draw: &mut dyn FnMut() -> u64) -> Option<Row> {
    let samples = |point: &Point| -> Vec<f64> {
        point.repeats.iter().filter_map(|repeat| metric.sample(repeat)).collect()
    };
    let ratio = Ratio::of(&samples(base), &samples(new), draw)?;
    let verdict = Verdict::of(ratio.change(), metric.more_is_better());
    let Ratio { base: base_median, new: new_median, ratio, interval, p } = ratio;
    let cell = base.cell.clone();
    Some(Row { cell, metric, base: base_median, new: new_median, ratio, interval, p, verdict })
}
