//! A chart with all its numbers, in the units of the record: per second, nanoseconds, bytes.

use super::figure::Dot;
use super::text::{rate_unit, time_unit};
use std::collections::{BTreeSet, HashSet};

/// One file of pictures, one card of the page.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// The file's name without its ending, already safe.
    pub(crate) name: String,
    pub(crate) title: String,
    /// Small print that only this chart needs.
    pub(crate) notes: Vec<String>,
    pub(crate) group: Group,
    pub(crate) body: Body,
}

/// Where a chart stands in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Throughput,
    Latency,
    OverTime,
    Cost,
    System,
    Engine,
}

impl Group {
    /// In the order of a page.
    pub(crate) const ALL: [Group; 6] = [
        Group::Throughput,
        Group::Latency,
        Group::OverTime,
        Group::Cost,
        Group::System,
        Group::Engine,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Group::Throughput => "Throughput",
            Group::Latency => "Latency",
            Group::OverTime => "Over time",
            Group::Cost => "Cost on storage",
            Group::System => "System",
            Group::Engine => "Inside the engines",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Bars(Vec<BarPanel>),
    Lines(Vec<LinePanel>),
    Forest(Vec<ForestRow>),
}

/// Groups of bars, one bar a series.
#[derive(Clone, Debug)]
pub(crate) struct BarPanel {
    /// Empty where the chart's title says it.
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) groups: Vec<BarGroup>,
}

#[derive(Clone, Debug)]
pub(crate) struct BarGroup {
    pub(crate) label: String,
    /// Second line: threads, swept value, rate.
    pub(crate) detail: String,
    /// One entry a series; `None` where the cell was not measured.
    pub(crate) bars: Vec<Option<Bar>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bar {
    pub(crate) dot: Dot,
    /// Whether the point has flags: its number is marked.
    pub(crate) flagged: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct LinePanel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Line>,
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) series: usize,
    /// Ascending in x, never empty.
    pub(crate) dots: Vec<Dot>,
    /// Whether each dot is a cell, and gets a mark.
    pub(crate) marked: bool,
}

/// One ratio with its interval.
#[derive(Clone, Debug)]
pub(crate) struct ForestRow {
    /// The cell; rows of one cell follow each other.
    pub(crate) group: String,
    /// What is set against the base.
    pub(crate) label: String,
    pub(crate) series: usize,
    pub(crate) ratio: f64,
    /// 95 %; `None` with one repeat on a side.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) verdict: &'static str,
}

#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
    /// Where marks stand; empty where they are to be found.
    pub(crate) marks: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero, or from the least where that is below.
    Linear,
    Log2,
    Log10,
    /// `1 / (1 - share)` on a logarithm: 90 %, 99 %, 99.9 % at equal steps.
    Nines,
}

/// What numbers count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    PerSecond(&'static str),
    Nanoseconds,
    Seconds,
    Bytes,
    Percent,
    Percentile,
    Count(&'static str),
    /// Bare numbers with this label.
    Plain(String),
}

impl Unit {
    /// What numbers up to `largest` are divided by, and the label of the axis.
    pub(crate) fn scaled(&self, largest: f64) -> (f64, String) {
        match self {
            Unit::PerSecond(of) => {
                let (divisor, word) = rate_unit(largest);
                (divisor, format!("{word}{of}/s"))
            }
            Unit::Count(of) => {
                let (divisor, word) = rate_unit(largest);
                (divisor, format!("{word}{of}").trim_end().to_owned())
            }
            Unit::Nanoseconds => {
                let (divisor, unit) = time_unit(largest);
                (divisor, unit.to_owned())
            }
            Unit::Bytes => {
                let (divisor, unit) = byte_unit(largest);
                (divisor, unit.to_owned())
            }
            Unit::Seconds => (1.0, "seconds".to_owned()),
            Unit::Percent => (1.0, "%".to_owned()),
            Unit::Percentile => (1.0, "percentile".to_owned()),
            Unit::Plain(label) => (1.0, label.clone()),
        }
    }
}

/// The unit of sizes up to `largest`: its divisor and its name.
fn byte_unit(largest: f64) -> (f64, &'static str) {
    match largest {
        _ if largest >= 2.0 * 1_073_741_824.0 => (1_073_741_824.0, "GiB"),
        _ if largest >= 2.0 * 1_048_576.0 => (1_048_576.0, "MiB"),
        _ if largest >= 2.0 * 1024.0 => (1024.0, "KiB"),
        _ => (1.0, "bytes"),
    }
}

/// Above this ratio of largest to smallest a linear axis hides the smallest.
pub(crate) const LINEAR_RATIO_MAX: f64 = 100.0;

impl Axis {
    /// The axis of values that begins at zero, but where one is so far ahead that the others would
    /// lie on it: there it is logarithmic.
    pub(crate) fn of_values<'a>(unit: Unit, dots: impl Iterator<Item = &'a Dot>) -> Axis {
        let (mut smallest, mut largest) = (f64::INFINITY, 0.0_f64);
        for dot in dots {
            smallest = smallest.min(dot.low);
            largest = largest.max(dot.high);
        }
        let is_wide = smallest > 0.0 && largest / smallest > LINEAR_RATIO_MAX;
        let scale = if is_wide { Scale::Log10 } else { Scale::Linear };
        Axis { unit, scale, marks: Vec::new() }
    }

    pub(crate) fn linear(unit: Unit) -> Axis {
        Axis { unit, scale: Scale::Linear, marks: Vec::new() }
    }
}

impl BarGroup {
    /// Indices of the series that have a bar.
    pub(crate) fn series(&self) -> impl Iterator<Item = usize> {
        self.bars.iter().enumerate().filter_map(|(index, bar)| bar.map(|_| index))
    }
}

impl Body {
    /// Indices of the series in it, ascending.
    pub(crate) fn series(&self) -> Vec<usize> {
        match self {
            Body::Bars(panels) => {
                let groups = panels.iter().flat_map(|panel| &panel.groups);
                ascending(groups.flat_map(BarGroup::series))
            }
            Body::Lines(panels) => {
                let curves = panels.iter().flat_map(|panel| &panel.curves);
                ascending(curves.map(|curve| curve.series))
            }
            Body::Forest(rows) => ascending(rows.iter().map(|row| row.series)),
        }
    }
}

/// Each number once.
pub(crate) fn ascending(series: impl Iterator<Item = usize>) -> Vec<usize> {
    series.collect::<BTreeSet<usize>>().into_iter().collect()
}

/// Two workloads may differ only in letters that file names cannot hold.
pub(crate) fn with_distinct_names<T>(mut all: Vec<T>, name: fn(&mut T) -> &mut String) -> Vec<T> {
    let mut taken: HashSet<String> = HashSet::new();
    for one in &mut all {
        let name = name(one);
        let stem = name.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            *name = format!("{stem}-{number}");
            number += 1;
        }
    }
    all
}
