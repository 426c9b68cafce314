//! Statistics of the engines over time, under their own names: one chart an engine and workload.

use super::chart::{Axis, Body, Chart, Group, Line, LinePanel, Unit};
use super::figure::Dot;
use super::resolve::Resolver;
use super::select::{MIB, PANELS_MAX, SYSTEM_METRICS, Workload, detail, numbered};
use super::text::file_name;
use super::timeline::averaged;

/// Metrics of one engine and workload that are drawn.
const METRICS_MAX: usize = 128;
/// What the harness samples itself, beside percentiles of verbs and the system.
const OWN: [&str; 4] = ["wu_per_s", "ops_per_s", "keys_per_s", "seed_keys"];
const PERCENTILES: [&str; 4] = ["_p50_ns", "_p99_ns", "_p999_ns", "_max_ns"];

/// The charts of a workload's heads.
pub(super) fn charts(resolver: &Resolver<'_>, workloads: &[Workload<'_>]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for workload in workloads {
        for series in 0..workload.series_count {
            charts.extend(of_engine(resolver, workload, series));
        }
    }
    charts
}

fn of_engine(resolver: &Resolver<'_>, workload: &Workload<'_>, series: usize) -> Vec<Chart> {
    let Some(point) = workload.head(series) else { return Vec::new() };
    let Some(metrics) = resolver.metrics(series, point, "run") else { return Vec::new() };
    let mut panels: Vec<(bool, LinePanel)> = Vec::new();
    for (name, samples) in metrics.iter().filter(|(name, _)| is_engines(name)) {
        let is_size = ["size", "bytes", "usage"].iter().any(|ending| name.ends_with(ending));
        let (divisor, unit) = if is_size { (MIB, "MiB") } else { (1.0, "") };
        let averages = averaged(samples, None, divisor, resolver.samples_max);
        let dots: Vec<Dot> = averages.into_iter().map(|(x, y)| Dot::plain(x, y)).collect();
        let Some(first) = dots.first() else { continue };
        let moves = dots.iter().any(|dot| dot.y != first.y);
        panels.push((
            moves,
            LinePanel {
                title: name.clone(),
                x: Axis::linear(Unit::Plain("elapsed seconds".to_owned())),
                y: Axis::linear(Unit::Plain(unit.to_owned())),
                curves: vec![Line { series, dots, marked: false }],
            },
        ));
    }
    // What moves tells more than what stands.
    panels.sort_by_key(|(moves, _)| !moves);
    panels.truncate(METRICS_MAX);
    let panels: Vec<LinePanel> = panels.into_iter().map(|(_, panel)| panel).collect();
    let engine = &resolver.series[series];
    let stem = format!("engine_stats_{}_{}", file_name(&engine.engine), file_name(workload.name));
    let chart = |(panels, number): (&[LinePanel], usize)| Chart {
        name: numbered(&stem, number),
        title: format!("{}: {}, {}", engine.label, workload.name, detail(workload)),
        notes: Vec::new(),
        group: Group::Engine,
        body: Body::Lines(panels.to_vec()),
    };
    panels.chunks(PANELS_MAX).zip(1..).map(chart).collect()
}

fn is_engines(metric: &str) -> bool {
    !OWN.contains(&metric)
        && !PERCENTILES.iter().any(|ending| metric.ends_with(ending))
        && !SYSTEM_METRICS.iter().any(|(name, ..)| *name == metric)
}
