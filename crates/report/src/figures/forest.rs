//! Ratios with their intervals: the engines of one run against its first, or runs against the
//! first.
//!
//! An interval that does not touch 1 shows a difference; one that does, or none, shows nothing.

use super::Recorded;
use super::chart::{Body, Chart, ForestRow, Group};
use super::figure::Series;
use super::select::{Workload, numbered};
use crate::comparison::{Metric, Verdict, compare};
use keyrack_record::{Change, Point, Ratio};

/// Rows of one file.
const ROWS_MAX: usize = 36;

/// The engines of a single run against the one that was listed first, where there are several.
pub(super) fn engines(
    runs: &[Recorded],
    workloads: &[Workload<'_>],
    series: &[Series],
    draw: &mut dyn FnMut() -> u64,
) -> Vec<Chart> {
    if runs.len() != 1 || series.iter().all(|other| other.engine == series[0].engine) {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for workload in workloads {
        for (index, other) in series.iter().enumerate() {
            // A role is set against the same role of the first engine.
            let first = series.iter().position(|series| series.role == other.role);
            let Some(base) = first.filter(|first| *first != index).and_then(|i| workload.head(i))
            else {
                continue;
            };
            let Some(point) = workload.head(index) else { continue };
            // Engines that keep different promises are no equals.
            if point.durability != base.durability {
                continue;
            }
            let rates = |point: &Point| -> Vec<f64> {
                point.repeats.iter().map(|repeat| repeat.ops_per_s).collect()
            };
            let Some(ratio) = Ratio::of(&rates(base), &rates(point), draw) else { continue };
            rows.push(ForestRow {
                group: place(point),
                label: other.engine.clone(),
                series: index,
                ratio: ratio.ratio,
                interval: ratio.interval,
                verdict: match ratio.change() {
                    Change::Up => "faster",
                    Change::Down => "slower",
                    Change::Same => "~",
                    Change::Unsure => "unsure",
                },
            });
        }
    }
    let title = format!("Operations per second against {}", series[0].label);
    charts("comparison_engines", &title, rows)
}

/// Each further run against the first, over the cells that both have.
pub(super) fn runs(
    runs: &[Recorded],
    series: &[Series],
    draw: &mut dyn FnMut() -> u64,
) -> Vec<Chart> {
    let Some((base, others)) = runs.split_first() else { return Vec::new() };
    let mut all = Vec::new();
    for (other, run) in others.iter().zip(1..) {
        let comparison = compare(&base.run, &other.run, draw);
        let gating = comparison.rows.iter().filter(|row| row.metric.gates());
        let rows = gating.filter_map(|row| {
            let is_its = |series: &Series| series.run == run && series.has(&row.cell);
            Some(ForestRow {
                group: match row.metric {
                    Metric::OpsPerS => "operations per second (right is better)".to_owned(),
                    _ => format!("{} (left is better)", row.metric),
                },
                label: row.cell.to_string(),
                series: series.iter().position(is_its)?,
                ratio: row.ratio,
                interval: row.interval,
                verdict: match row.verdict {
                    Verdict::Faster => "faster",
                    Verdict::Slower => "slower",
                    Verdict::Same => "~",
                    Verdict::Unsure => "unsure",
                },
            })
        });
        let mut rows: Vec<ForestRow> = rows.collect();
        rows.sort_by_key(|row| row.group.starts_with("response"));
        let title = format!("{} against {}", other.name, base.name);
        all.extend(charts(&numbered("comparison_runs", run), &title, rows));
    }
    all
}

fn charts(name: &str, title: &str, rows: Vec<ForestRow>) -> Vec<Chart> {
    let chart = |(rows, number): (&[ForestRow], usize)| Chart {
        name: if number == 1 { name.to_owned() } else { format!("{name}-{number}") },
        title: title.to_owned(),
        notes: vec![
            "ratio of medians with its 95 % interval; hollow: no interval, or it touches 1"
                .to_owned(),
        ],
        group: Group::Throughput,
        body: Body::Forest(rows.to_vec()),
    };
    rows.chunks(ROWS_MAX).zip(1..).map(chart).collect()
}

/// The cell without its engine.
fn place(point: &Point) -> String {
    let cell = &point.cell;
    let mut text = format!("{} t{}", cell.title(), cell.threads);
    if let Some(role) = cell.role() {
        text.push_str(&format!(" {role}"));
    }
    if let Some(sweep) = &cell.sweep {
        text.push_str(&format!(" {}={}", sweep.param, sweep.value));
    }
    if let Some(rate) = cell.rate {
        text.push_str(&format!(" rate={rate}"));
    }
    text
}
