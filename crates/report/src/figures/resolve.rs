//! A chosen figure becomes a chart: samples are looked up, scales decided.

use super::Recorded;
use super::chart::{Axis, BarPanel, Body, Chart, Group, Line, LinePanel, Scale, Unit};
use super::figure::{Content, Curve, Dot, Figure, Panel, Series, Source, XAxis};
use super::select::part;
use super::timeline::{Metrics, averaged, from_first};
use keyrack_record::Point;

/// Metrics of the system that count from the start of the process: what engines and cells before
/// have caused is not this one's.
const COUNTS: [&str; 6] =
    ["minflt", "majflt", "vol_ctxsw", "invol_ctxsw", "io_read_mb", "io_write_mb"];

/// Where samples are found.
#[derive(Debug)]
pub(super) struct Resolver<'a> {
    pub(super) runs: &'a [Recorded],
    pub(super) series: &'a [Series],
    pub(super) samples_max: usize,
}

impl Resolver<'_> {
    /// `None` where no sample was taken of what it shows.
    pub(super) fn chart(&self, figure: &Figure) -> Option<Chart> {
        let body = match &figure.content {
            Content::Bars(groups) => {
                let (title, unit) = (String::new(), Unit::PerSecond("units"));
                Body::Bars(vec![BarPanel { title, unit, groups: groups.clone() }])
            }
            Content::Panels(panels) => {
                let panels: Vec<LinePanel> =
                    panels.iter().filter_map(|panel| self.panel(panel)).collect();
                if panels.is_empty() {
                    return None;
                }
                Body::Lines(panels)
            }
        };
        let mut notes = Vec::new();
        if figure.content.has_ranges() {
            notes.push("whiskers: smallest and largest of the repeats".to_owned());
        }
        if !figure.note.is_empty() {
            notes.push(figure.note.clone());
        }
        Some(Chart {
            name: figure.name.clone(),
            title: figure.title.clone(),
            notes,
            group: group(&figure.name),
            body,
        })
    }

    fn panel(&self, panel: &Panel) -> Option<LinePanel> {
        let curves: Vec<Line> = panel.curves.iter().filter_map(|curve| self.curve(curve)).collect();
        if curves.is_empty() {
            return None;
        }
        let x = match &panel.x {
            XAxis::Elapsed => Axis::linear(Unit::Plain("elapsed seconds".to_owned())),
            XAxis::Values { label, values } => Axis {
                unit: Unit::Plain(label.clone()),
                scale: if values.iter().all(|value| *value > 0.0) {
                    Scale::Log2
                } else {
                    Scale::Linear
                },
                marks: values.clone(),
            },
        };
        let unit = panel.y.clone();
        let y = match panel.x {
            XAxis::Elapsed => Axis::linear(unit),
            XAxis::Values { .. } => {
                Axis::of_values(unit, curves.iter().flat_map(|curve| &curve.dots))
            }
        };
        Some(LinePanel { title: panel.title.clone(), x, y, curves })
    }

    fn curve(&self, curve: &Curve) -> Option<Line> {
        let series = curve.series;
        let dots: Vec<Dot> = match &curve.source {
            Source::Dots(dots) => dots.clone(),
            Source::Samples(wanted) => {
                let run = self.runs.get(self.series.get(series)?.run)?;
                let point = run.run.points.iter().find(|point| {
                    let cell = &point.cell;
                    self.series[series].has(cell)
                        && cell.workload == wanted.workload
                        && (wanted.phase == "seed" || part(cell, wanted.phase) == wanted.part)
                        && cell.threads == wanted.threads
                        && cell.sweep.as_ref().map_or(1, |s| s.value) == wanted.sweep_value
                })?;
                let metrics = self.metrics(series, point, wanted.phase)?;
                let samples = metrics.get(wanted.metric)?;
                let since = COUNTS.contains(&wanted.metric).then(|| from_first(samples));
                let samples = since.as_deref().unwrap_or(samples);
                let averages = averaged(samples, wanted.repeat, wanted.divisor, self.samples_max);
                averages.into_iter().map(|(x, y)| Dot::plain(x, y)).collect()
            }
        };
        let marked = matches!(curve.source, Source::Dots(_));
        (!dots.is_empty()).then_some(Line { series, dots, marked })
    }

    /// What was sampled of a point of a series.
    pub(super) fn metrics(&self, series: usize, point: &Point, phase: &str) -> Option<&Metrics> {
        let run = self.runs.get(self.series.get(series)?.run)?;
        run.timeline.metrics(point, phase)
    }
}

fn group(name: &str) -> Group {
    match name {
        _ if name.starts_with("timeline_system") => Group::System,
        _ if name.starts_with("timeline") || name.starts_with("seed") => Group::OverTime,
        _ if name.starts_with("latency") || name.starts_with("response") => Group::Latency,
        _ => Group::Throughput,
    }
}
