//! The latency spectrum: the service time at every percentile, the repeats merged.
//!
//! x is `1 / (1 - share)` on a logarithm, so the tail has as much room as the body: 90 %, 99 %,
//! 99.9 % stand at equal steps. A curve ends at the percentile that one in a hundred calls of it
//! would still support: the last value shown is that of rank `count - 1`, not the maximum alone.

use super::chart::{Axis, Body, Chart, Group, Line, LinePanel, Scale, Unit};
use super::figure::Dot;
use super::select::{Workload, detail};
use super::text::file_name;
use keyrack_measure::Histogram;
use keyrack_record::{Point, distinct};

/// Steps of the curve within a factor of ten of `1 / (1 - share)`.
const STEPS: u32 = 12;
/// Calls below which there is no tail to show.
const CALLS_MIN: u64 = 100;

/// One chart: a panel for each verb, at the most threads, the smallest swept value and the highest
/// rate; of an open loop a panel of the response time too.
pub(super) fn charts(workload: &Workload<'_>) -> Option<Chart> {
    let heads: Vec<(usize, &Point)> = (0..workload.series_count)
        .filter_map(|series| workload.head(series).map(|point| (series, point)))
        .collect();
    let verbs = distinct(heads.iter().flat_map(|(_, p)| &p.summary.ops).map(|op| &op.op));
    let mut panels: Vec<LinePanel> = Vec::new();
    panels.extend(panel("response of units", &heads, |point| {
        merged(point.repeats.iter().filter_map(|r| r.unit.as_ref()).map(|unit| &unit.response))
    }));
    panels.extend(verbs.into_iter().filter_map(|verb| {
        panel(verb, &heads, |point| {
            let ops = point.repeats.iter().flat_map(|repeat| &repeat.ops);
            merged(ops.filter(|op| op.op == *verb).map(|op| &op.service))
        })
    }));
    (!panels.is_empty()).then(|| Chart {
        name: format!("latency_spectrum_{}", file_name(&workload.name)),
        title: format!("Latency spectrum: {}, {}", workload.name, detail(workload)),
        notes: vec!["all repeats together".to_owned()],
        group: Group::Latency,
        body: Body::Lines(panels),
    })
}

fn panel(
    title: &str,
    heads: &[(usize, &Point)],
    histogram: impl Fn(&Point) -> Histogram,
) -> Option<LinePanel> {
    let curve = |&(series, point): &(usize, &Point)| {
        let dots = spectrum(&histogram(point));
        (!dots.is_empty()).then_some(Line { series, dots, marked: false })
    };
    let curves: Vec<Line> = heads.iter().filter_map(curve).collect();
    (!curves.is_empty()).then(|| LinePanel {
        title: title.to_owned(),
        x: Axis { unit: Unit::Percentile, scale: Scale::Nines, marks: Vec::new() },
        y: Axis { unit: Unit::Nanoseconds, scale: Scale::Log10, marks: Vec::new() },
        curves,
    })
}

fn merged<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Histogram {
    let mut all = Histogram::new();
    histograms.for_each(|histogram| all.merge(histogram));
    all
}

/// `1 / (1 - share)` and the nanoseconds there, at least 1, since the axis is logarithmic.
fn spectrum(histogram: &Histogram) -> Vec<Dot> {
    let count = histogram.count();
    if count < CALLS_MIN {
        return Vec::new();
    }
    let mut dots: Vec<Dot> = Vec::new();
    for step in 0.. {
        let x = 10_f64.powf(f64::from(step) / f64::from(STEPS));
        if x > count as f64 {
            break;
        }
        if let Some(ns) = histogram.percentile(100.0 * (1.0 - 1.0 / x)) {
            dots.push(Dot::plain(x, (ns as f64).max(1.0)));
        }
    }
    dots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spectrum_has_the_percentiles_at_equal_steps() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|ns| histogram.record(ns));
        let dots = spectrum(&histogram);
        assert_eq!(dots.len(), 61, "five decades of twelve steps, and the end");
        for (index, share) in [(12, 0.9), (24, 0.99), (36, 0.999)] {
            let wanted = share * 100_000.0;
            assert!((dots[index].y / wanted - 1.0).abs() < 0.01, "{share}: {:?}", dots[index]);
        }
        assert_eq!(dots[0].y, 1.0);
        assert!(dots.windows(2).all(|pair| pair[0].y <= pair[1].y && pair[0].x < pair[1].x));
    }

    #[test]
    fn few_calls_have_no_spectrum_and_nothing_is_below_a_nanosecond() {
        let mut histogram = Histogram::new();
        histogram.record_n(0, 99);
        assert!(spectrum(&histogram).is_empty());
        histogram.record(0);
        assert!(spectrum(&histogram).iter().all(|dot| dot.y == 1.0));
    }
}
