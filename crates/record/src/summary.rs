//! Medians and intervals over the repeats of a cell.
//!
//! Each statistic is reduced by itself: its own median over the repeats (even count: the mean of
//! the middle two), so a printed row may mix repeats. Percentiles are taken per repeat and then
//! reduced, since a median of percentiles resists one disturbed repeat and a percentile of merged
//! histograms does not.

use crate::{OpStats, Repeat, VERBS};
use keyrack_measure::Histogram;
use keyrack_measure::stats::{Interval, median, rate_interval};
use serde::{Deserialize, Serialize};

/// Reduced statistics of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// Units per second.
    pub wu_per_s: RateSummary,
    /// Primitive operations per second.
    pub ops_per_s: RateSummary,
    /// CPU microseconds (user and system, whole process) a unit.
    pub cpu_us_per_unit: f64,
    /// Share of the workers' time inside engine calls, 0 to 1.
    pub engine_busy: f64,
    /// One entry a verb that was used in any repeat, in report order.
    pub ops: Vec<OpSummary>,
    /// Median service time over all verbs together, without labels of `kb.time`, in nanoseconds.
    pub p50_ns: f64,
    /// 99th percentile of the same.
    pub p99_ns: f64,
    /// Open loop: response-time percentiles of units in nanoseconds: 50, 99, 99.9, the maximum.
    pub response_ns: Option<[f64; 4]>,
    /// Open loop: service-time percentiles of units in nanoseconds: 50, 99, 99.9, the maximum.
    pub unit_service_ns: Option<[f64; 4]>,
}

/// A rate over the repeats.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct RateSummary {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub low: f64,
    /// Largest.
    pub high: f64,
    /// 95 % confidence interval of the median; `None` with one repeat, or where one completed
    /// nothing.
    pub interval: Option<(f64, f64)>,
}

/// One verb over the repeats.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpSummary {
    /// The verb.
    pub op: String,
    /// Timed calls.
    pub calls: u64,
    /// Median latency in nanoseconds.
    pub p50_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// 99.9th percentile.
    pub p999_ns: f64,
    /// Maximum; exact within each repeat.
    pub max_ns: f64,
    /// Mean.
    pub mean_ns: f64,
    /// Share of lookups that found their key, 0 to 1; `None` for verbs that look nothing up.
    pub hit_rate: Option<f64>,
    /// Share of calls that the engine failed, 0 to 1.
    pub error_rate: f64,
}

impl Summary {
    /// Reduces `repeats`. `draw` feeds the bootstrap of the intervals; the same draws give the
    /// same intervals. O(repeats x verbs x buckets).
    pub fn of(repeats: &[Repeat], draw: &mut dyn FnMut() -> u64) -> Summary {
        let over = |f: &dyn Fn(&Repeat) -> f64| median_of(repeats.iter().map(f));
        let merged: Vec<Histogram> = repeats.iter().map(merge_ops).collect();
        let open: Vec<_> = repeats.iter().filter_map(|r| r.unit.as_ref()).collect();
        let four = |pick: &dyn Fn(&crate::UnitStats) -> &Histogram| {
            (!open.is_empty()).then(|| {
                [Some(50.0), Some(99.0), Some(99.9), None].map(|percentile| {
                    median_of(open.iter().map(|unit| match percentile {
                        Some(p) => percentile_ns(pick(unit), p),
                        None => pick(unit).max().unwrap_or(0) as f64,
                    }))
                })
            })
        };
        Summary {
            wu_per_s: RateSummary::of(repeats.iter().map(|r| r.wu_per_s), draw),
            ops_per_s: RateSummary::of(repeats.iter().map(|r| r.ops_per_s), draw),
            cpu_us_per_unit: over(&|r| r.cpu_s * 1e6 / r.units.max(1) as f64),
            engine_busy: over(&|r| r.engine_busy),
            ops: distinct(repeats.iter().flat_map(|r| &r.ops).map(|op| op.op.as_str()))
                .into_iter()
                .map(|op| OpSummary::of(op, repeats))
                .collect(),
            p50_ns: median_of(merged.iter().map(|h| percentile_ns(h, 50.0))),
            p99_ns: median_of(merged.iter().map(|h| percentile_ns(h, 99.0))),
            response_ns: four(&|unit| &unit.response),
            unit_service_ns: four(&|unit| &unit.service),
        }
    }
}

impl RateSummary {
    fn of(rates: impl Iterator<Item = f64>, draw: &mut dyn FnMut() -> u64) -> RateSummary {
        let rates: Vec<f64> = rates.collect();
        RateSummary {
            median: median(&rates).unwrap_or(0.0),
            low: rates.iter().copied().reduce(f64::min).unwrap_or(0.0),
            high: rates.iter().copied().reduce(f64::max).unwrap_or(0.0),
            interval: rate_interval(&rates, 0.95, draw).map(|Interval { low, high }| (low, high)),
        }
    }
}

impl OpSummary {
    fn of(op: &str, repeats: &[Repeat]) -> OpSummary {
        let stats: Vec<&OpStats> =
            repeats.iter().filter_map(|r| r.ops.iter().find(|o| o.op == op)).collect();
        let over = |f: &dyn Fn(&OpStats) -> f64| median_of(stats.iter().map(|o| f(o)));
        // A repeat that looked nothing up, since each call failed, has no rate: not one of 0.
        let hit_rates: Vec<f64> = stats
            .iter()
            .filter(|o| o.hits + o.misses > 0)
            .map(|o| share(o.hits, o.hits + o.misses))
            .collect();
        OpSummary {
            op: op.to_owned(),
            calls: over(&|o| o.calls as f64).round() as u64,
            p50_ns: over(&|o| percentile_ns(&o.service, 50.0)),
            p99_ns: over(&|o| percentile_ns(&o.service, 99.0)),
            p999_ns: over(&|o| percentile_ns(&o.service, 99.9)),
            max_ns: over(&|o| o.service.max().unwrap_or(0) as f64),
            mean_ns: over(&|o| o.service.mean().unwrap_or(0.0)),
            hit_rate: median(&hit_rates),
            error_rate: over(&|o| share(o.errors, o.calls)),
        }
    }
}

/// Each item once, in the order of its first appearance. O(items x distinct items).
pub fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

fn merge_ops(repeat: &Repeat) -> Histogram {
    let mut all = Histogram::new();
    for op in repeat.ops.iter().filter(|op| VERBS.contains(&op.op.as_str())) {
        all.merge(&op.service);
    }
    all
}

fn percentile_ns(histogram: &Histogram, percentile: f64) -> f64 {
    histogram.percentile(percentile).unwrap_or(0) as f64
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    median(&values.collect::<Vec<_>>()).unwrap_or(0.0)
}
