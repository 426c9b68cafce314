//! Statistics of the engines over time, under their own names: one chart an engine and workload.

use super::chart::{Axis, Body, Chart, Group, Line, LinePanel, Unit};
use super::figure::Dot;
use super::resolve::Resolver;
use super::select::{PANELS_MAX, SYSTEM_METRICS, Workload, detail, numbered};
use super::text::file_name;
use super::timeline::averaged;

/// Metrics of one engine and workload that are drawn.
const METRICS_MAX: usize = 128;
/// What the harness samples itself, beside percentiles of verbs and the system.
const OWN: [&str; 4] = ["wu_per_s", "ops_per_s", "keys_per_s", "seed_keys"];
/// Words of the names of sizes.
const SIZES: [&str; 4] = ["size", "bytes", "usage", "capacity"];
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
    let mut zeros: Vec<&str> = Vec::new();
    for (name, samples) in metrics.iter().filter(|(name, _)| is_engines(name)) {
        let averages = averaged(samples, None, 1.0, resolver.samples_max);
        let dots: Vec<Dot> = averages.into_iter().map(|(x, y)| Dot::plain(x, y)).collect();
        let Some(first) = dots.first() else { continue };
        if dots.iter().all(|dot| dot.y == 0.0) {
            zeros.push(name);
            continue;
        }
        let moves = dots.iter().any(|dot| dot.y != first.y);
        panels.push((
            moves,
            LinePanel {
                title: name.clone(),
                x: Axis::linear(Unit::Plain("elapsed seconds".to_owned())),
                y: Axis::linear(unit(name)),
                curves: vec![Line { series, dots, marked: false }],
            },
        ));
    }
    // What moves tells more than what stands.
    panels.sort_by_key(|(moves, _)| !moves);
    panels.truncate(METRICS_MAX);
    let panels: Vec<LinePanel> = panels.into_iter().map(|(_, panel)| panel).collect();
    // An empty plane for each would hide the others.
    let notes = if zeros.is_empty() {
        Vec::new()
    } else {
        vec![format!("0 all the time: {}", zeros.join(", "))]
    };
    let engine = &resolver.series[series];
    let stem = format!("engine_stats_{}_{}", file_name(&engine.engine), file_name(&workload.name));
    let chart = |(panels, number): (&[LinePanel], usize)| Chart {
        name: numbered(&stem, number),
        title: format!("{}: {}, {}", engine.label, workload.name, detail(workload)),
        notes: notes.clone(),
        group: Group::Engine,
        body: Body::Lines(panels.to_vec()),
    };
    panels.chunks(PANELS_MAX).zip(1..).map(chart).collect()
}

/// Sizes are known by a word of their name.
fn unit(metric: &str) -> Unit {
    let is_size = metric.split('_').any(|word| SIZES.contains(&word));
    if is_size { Unit::Bytes } else { Unit::Count("") }
}

fn is_engines(metric: &str) -> bool {
    !OWN.contains(&metric)
        && !PERCENTILES.iter().any(|ending| metric.ends_with(ending))
        && !SYSTEM_METRICS.iter().any(|(name, ..)| *name == metric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_known_by_their_names() {
        for name in ["wal_bytes", "cur_size_active_mem_table", "block_cache_capacity"] {
            assert_eq!(unit(name), Unit::Bytes, "{name}");
        }
        for name in ["tables", "num_entries_active_mem_table", "resized", "hit_rate"] {
            assert_eq!(unit(name), Unit::Count(""), "{name}");
        }
        assert_eq!(Unit::Count("").scaled(5e6), (1e6, "million".to_owned()));
    }
}
