//! What operations cost: events of the processor and the kernel for each; and what stores on disk
//! cost: the three amplifications, bytes written for each operation, bytes kept in the end.
//!
//! The factors are those of [`Traffic`]: what the machine moved over what the workload asked for.
//! The amounts are of [`Aftermath`](keyrack_record::Aftermath): the kernel's count of what the
//! process sent on its way to storage, and the lengths of the files. A workload that writes nothing
//! has no write amplification, one that reads nothing no read amplification.

use super::chart::{Bar, BarGroup, BarPanel, Body, Chart, Group, Unit};
use super::figure::Dot;
use super::select::{Workload, detail};
use keyrack_measure::stats::median;
use keyrack_record::{Counters, Point, Repeat, Traffic};

/// Median, smallest and largest over the repeats that know it.
fn bar(point: &Point, value: &dyn Fn(&Repeat) -> Option<f64>) -> Option<Bar> {
    let values: Vec<f64> = point.repeats.iter().filter_map(value).collect();
    let y = median(&values)?;
    let low = values.iter().copied().fold(y, f64::min);
    let high = values.iter().copied().fold(y, f64::max);
    Some(Bar { dot: Dot { x: 0.0, y, low, high }, flagged: !point.flags.is_empty() })
}

type Value<'a> = &'a dyn Fn(&Repeat) -> Option<f64>;

/// Bars over workloads, and a line below the title for each part of it.
struct Bars<'a, 'w> {
    workloads: &'a [Workload<'w>],
    series_count: usize,
}

impl Bars<'_, '_> {
    fn panel(&self, title: &str, unit: Unit, value: Value<'_>) -> Option<BarPanel> {
        let group = |workload: &Workload<'_>| BarGroup {
            label: workload.name.clone(),
            detail: detail(workload),
            bars: (0..self.series_count)
                .map(|series| workload.head(series).and_then(|point| bar(point, value)))
                .collect(),
        };
        let groups: Vec<BarGroup> = self
            .workloads
            .iter()
            .map(group)
            .filter(|group| group.bars.iter().any(Option::is_some))
            .collect();
        (!groups.is_empty()).then(|| BarPanel { title: title.to_owned(), unit, groups })
    }
}

/// Events of processor and kernel for each operation; `None` where none was counted.
pub(super) fn counters(workloads: &[Workload<'_>], series_count: usize) -> Option<Chart> {
    let bars = Bars { workloads, series_count };
    let panel = |(index, name): (usize, &str)| {
        let per_op = move |repeat: &Repeat| {
            let count = repeat.counters.as_ref()?.values()[index]?;
            (repeat.prim_ops > 0).then(|| count as f64 / repeat.prim_ops as f64)
        };
        bars.panel(&name.replace('_', " "), Unit::Plain(String::new()), &per_op)
    };
    let panels: Vec<BarPanel> = Counters::NAMES.into_iter().enumerate().filter_map(panel).collect();
    let points = workloads.iter().flat_map(|workload| &workload.points);
    let is_user_alone = points.into_iter().any(|(_, point)| point.counts_user_alone());
    (!panels.is_empty()).then(|| Chart {
        name: "counters".to_owned(),
        title: "Events for each operation".to_owned(),
        notes: vec![if is_user_alone {
            "the whole process, outside of the kernel alone".to_owned()
        } else {
            "the whole process, kernel included".to_owned()
        }],
        group: Group::System,
        body: Body::Bars(panels),
    })
}

/// One chart of all workloads; `None` where all stores were in memory.
pub(super) fn charts(workloads: &[Workload<'_>], series_count: usize) -> Option<Chart> {
    let bars = Bars { workloads, series_count };
    let written = |repeat: &Repeat| {
        let bytes = repeat.aftermath.as_ref()?.written_bytes?;
        (repeat.prim_ops > 0).then(|| bytes as f64 / repeat.prim_ops as f64)
    };
    let kept = |repeat: &Repeat| Some(repeat.aftermath.as_ref()?.disk_bytes? as f64);
    type Factor = fn(&Traffic) -> Option<f64>;
    let factor = |title: &str, of: Factor| {
        let value = move |repeat: &Repeat| of(repeat.traffic.as_ref()?);
        bars.panel(title, Unit::Plain(String::new()), &value)
    };
    let panels: Vec<BarPanel> = [
        factor("write amplification", Traffic::write_amplification),
        factor("read amplification", Traffic::read_amplification),
        factor("space amplification", Traffic::space_amplification),
        bars.panel("sent to storage for each operation", Unit::Bytes, &written),
        bars.panel("data directory in the end", Unit::Bytes, &kept),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!panels.is_empty()).then(|| Chart {
        name: "amplification".to_owned(),
        title: "Amplification".to_owned(),
        notes: vec![
            "bytes that the machine moved for each byte that the workload asked for; sent and \
             fetched: write_bytes and read_bytes of /proc/self/io, background work included; kept: \
             lengths of the files in the data directory"
                .to_owned(),
        ],
        group: Group::Cost,
        body: Body::Bars(panels),
    })
}
