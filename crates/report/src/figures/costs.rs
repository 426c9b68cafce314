//! What stores on disk cost: bytes written for each operation, bytes kept in the end.
//!
//! Both are of [`Aftermath`](keyrack_record::Aftermath): the kernel's count of what the process
//! sent on its way to storage, and the lengths of the files. The record does not hold the bytes
//! that callers wrote, so these are amounts and not factors.

use super::chart::{Bar, BarGroup, BarPanel, Body, Chart, Group, Unit};
use super::figure::Dot;
use super::select::{Workload, detail};
use keyrack_measure::stats::median;
use keyrack_record::{Point, Repeat};

/// Median, smallest and largest over the repeats that know it.
fn bar(point: &Point, value: &dyn Fn(&Repeat) -> Option<f64>) -> Option<Bar> {
    let values: Vec<f64> = point.repeats.iter().filter_map(value).collect();
    let y = median(&values)?;
    let low = values.iter().copied().fold(y, f64::min);
    let high = values.iter().copied().fold(y, f64::max);
    Some(Bar { dot: Dot { x: 0.0, y, low, high }, flagged: !point.flags.is_empty() })
}

type Value<'a> = &'a dyn Fn(&Repeat) -> Option<f64>;

/// One chart of all workloads; `None` where all stores were in memory.
pub(super) fn charts(workloads: &[Workload<'_>], series_count: usize) -> Option<Chart> {
    let panel = |title: &str, unit: Unit, value: Value<'_>| {
        let group = |workload: &Workload<'_>| BarGroup {
            label: workload.name.to_owned(),
            detail: detail(workload),
            bars: (0..series_count)
                .map(|series| workload.head(series).and_then(|point| bar(point, value)))
                .collect(),
        };
        let groups: Vec<BarGroup> = workloads
            .iter()
            .map(group)
            .filter(|group| group.bars.iter().any(Option::is_some))
            .collect();
        (!groups.is_empty()).then(|| BarPanel { title: title.to_owned(), unit, groups })
    };
    let written = |repeat: &Repeat| {
        let bytes = repeat.aftermath.as_ref()?.written_bytes?;
        (repeat.prim_ops > 0).then(|| bytes as f64 / repeat.prim_ops as f64)
    };
    let kept = |repeat: &Repeat| Some(repeat.aftermath.as_ref()?.disk_bytes? as f64);
    let panels: Vec<BarPanel> = [
        panel("sent to storage for each operation", Unit::Bytes, &written),
        panel("data directory in the end", Unit::Bytes, &kept),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!panels.is_empty()).then(|| Chart {
        name: "amplification".to_owned(),
        title: "Written and kept".to_owned(),
        notes: vec![
            "written: write_bytes of /proc/self/io, background work included; kept: lengths of \
             the files in the data directory"
                .to_owned(),
        ],
        group: Group::Cost,
        body: Body::Bars(panels),
    })
}
