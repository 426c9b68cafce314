//! Ratios with their intervals: the engines of one run against the first that promises as much, or
//! runs against the first.
//!
//! An interval that does not touch 1 shows a difference; one that does, or none, shows nothing.

use super::Recorded;
use super::chart::{Body, Chart, ForestRow, Group};
use super::figure::Series;
use super::select::{Workload, numbered};
use crate::comparison::{Metric, Verdict, compare};
use crate::engines::swept;
use keyrack_record::{Point, Ratio};

/// Rows of one file.
const ROWS_MAX: usize = 36;

/// The engines of a single run, where there are several, each against the one with its durability
/// that was listed first: engines that keep different promises are no equals.
pub(super) fn engines(
    runs: &[Recorded],
    workloads: &[Workload<'_>],
    series: &[Series],
    draw: &mut dyn FnMut() -> u64,
) -> Vec<Chart> {
    if runs.len() != 1 {
        return Vec::new();
    }
    let mut rows: Vec<(&str, ForestRow)> = Vec::new();
    for workload in workloads {
        for (index, other) in series.iter().enumerate() {
            let Some(point) = workload.head(index) else { continue };
            // A role is set against the same role of another engine.
            let equals = series[..index]
                .iter()
                .enumerate()
                .filter(|(_, series)| series.engine != other.engine && series.role == other.role);
            let mut equals = equals.filter_map(|(index, _)| workload.head(index));
            let is_equal = |base: &&Point| {
                base.durability == point.durability && base.cell.rate == point.cell.rate
            };
            let Some(base) = equals.find(is_equal) else { continue };
            let rates = |point: &Point| -> Vec<f64> {
                point.repeats.iter().map(|repeat| repeat.ops_per_s).collect()
            };
            let Some(ratio) = Ratio::of(&rates(base), &rates(point), draw) else { continue };
            let row = ForestRow {
                group: place(point),
                label: other.engine.clone(),
                series: index,
                ratio: ratio.ratio,
                interval: ratio.interval,
                verdict: Verdict::of(ratio.change(), true).name(),
            };
            rows.push((&base.cell.engine, row));
        }
    }
    // One base is named in the title, several at their rows.
    let first = rows.first().map_or("", |(base, _)| base);
    let is_one = rows.iter().all(|(base, _)| *base == first);
    let title = if is_one {
        format!("Operations per second against {first}")
    } else {
        "Operations per second at equal durability".to_owned()
    };
    let labelled = |(base, row): (&str, ForestRow)| {
        if is_one { row } else { ForestRow { label: format!("{} to {base}", row.label), ..row } }
    };
    charts("comparison_engines", &title, rows.into_iter().map(labelled).collect())
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
                verdict: row.verdict.name(),
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
    let role = cell.role().map(|role| format!(" {role}")).unwrap_or_default();
    format!("{} t{}{role}{}", cell.title(), cell.threads, swept(cell))
}
