//! Which figures a run gives, and which points are in each.
//!
//! A workload has cells along four axes: engine, threads, swept value, offered rate. A figure over
//! one axis holds the others still: threads at the most that were run, the swept value at the
//! smallest, the rate at the highest. The point of an engine there is its *head*. A figure over an
//! axis is drawn only where some workload has two values on it.

use super::chart::{Bar, BarGroup, Unit, with_distinct_names};
use super::figure::{Content, Curve, Dot, Figure, Panel, Samples, Series, Source, XAxis};
use super::text::file_name;
use keyrack_record::{Cell, Load, OpSummary, Point, Run, distinct};

/// Panels of one file; more go to further files.
pub(crate) const PANELS_MAX: usize = 16;
/// Bars of one file; more workloads go to further files.
const BARS_MAX: usize = 32;
/// Calls below which a 99th percentile is the maximum or near it, and is not drawn.
pub(crate) const P99_CALLS_MIN: u64 = 100;
pub(crate) const MIB: f64 = 1_048_576.0;

/// Samples of the system: metric, title of its panel, divisor.
pub(crate) const SYSTEM_METRICS: [(&str, &str, f64); 16] = [
    ("cpu_util_pct", "CPU of the machine, %", 1.0),
    ("proc_cpu_pct", "CPU of the process, % of one", 1.0),
    ("iowait_pct", "waiting for devices, %", 1.0),
    ("steal_pct", "stolen by the hypervisor, %", 1.0),
    ("load1", "load average of 1 min", 1.0),
    ("threads", "threads of the process", 1.0),
    ("rss_mb", "resident memory, MiB", 1.0),
    ("peak_rss_mb", "peak resident memory, MiB", 1.0),
    ("mem_avail_mb", "available memory, MiB", 1.0),
    ("minflt", "minor faults, thousands", 1000.0),
    ("majflt", "major faults, thousands", 1000.0),
    ("vol_ctxsw", "voluntary context switches, thousands", 1000.0),
    ("invol_ctxsw", "involuntary context switches, thousands", 1000.0),
    ("io_read_mb", "read from devices, MiB", 1.0),
    ("io_write_mb", "written to devices, MiB", 1.0),
    ("disk_bytes", "data directory, MiB", MIB),
];

/// A run, and what to call it where there are several.
#[derive(Debug)]
pub(crate) struct Named<'a> {
    pub(crate) name: String,
    pub(crate) run: &'a Run,
}

/// The engines with points: run by run, in the order of the command line, then of their first
/// point.
pub(crate) fn series(runs: &[Named<'_>]) -> Vec<Series> {
    let points = || runs.iter().flat_map(|named| &named.run.points);
    let durabilities = distinct(points().map(|point| &point.durability));
    let mut all = Vec::new();
    for (index, Named { name, run }) in runs.iter().enumerate() {
        let measured = run.points.iter().map(|point| &point.cell.engine);
        let asked = run.header.backends.iter().filter(|name| measured.clone().any(|m| m == *name));
        for engine in distinct(asked.chain(measured.clone())) {
            let own = run.points.iter().filter(|point| point.cell.engine == *engine);
            let mut firsts: Vec<&Point> = Vec::new();
            for point in own {
                if firsts.iter().all(|first| first.cell.role() != point.cell.role()) {
                    firsts.push(point);
                }
            }
            for point in firsts {
                let mut label = point.engine_version.clone();
                // Engines that keep different promises may not be taken for equals.
                if durabilities.len() > 1 {
                    label = format!("{label} [{}]", point.durability);
                }
                if runs
                    .iter()
                    .filter(|other| other.run.points.iter().any(|p| p.cell.engine == *engine))
                    .count()
                    > 1
                {
                    label = format!("{label} ({name})");
                }
                let role = point.cell.role().map(str::to_owned);
                if let Some(role) = &role {
                    label = format!("{label}: {role}");
                }
                all.push(Series { run: index, engine: engine.clone(), role, label });
            }
        }
    }
    all
}

/// All figures, each with at least one value.
pub(crate) fn figures(runs: &[Named<'_>], series: &[Series]) -> Vec<Figure> {
    let workloads = workloads(runs, series);
    let mut figures = throughput_compare(&workloads, series);
    figures.extend(panels("scalability", "Scalability", workloads.iter().filter_map(scalability)));
    for workload in &workloads {
        figures.extend(latency(workload, 50));
        figures.extend(latency(workload, 99));
        figures.extend(sweep(workload));
        figures.extend(response(workload));
    }
    figures.extend(panels(
        "timeline_throughput",
        "Throughput over time",
        workloads.iter().map(timeline_throughput),
    ));
    figures.extend(panels(
        "seed_progress",
        "Progress of the load",
        workloads.iter().map(seed_progress),
    ));
    let has_data_dir = runs.iter().any(|named| named.run.header.data_dir.is_some());
    for workload in &workloads {
        figures.extend(timeline_system(workload, has_data_dir));
    }
    with_distinct_names(figures, |figure| &mut figure.name)
}

/// The workloads of all runs, in the order of their first point.
pub(crate) fn workloads<'a>(runs: &[Named<'a>], series: &[Series]) -> Vec<Workload<'a>> {
    let points = runs.iter().flat_map(|named| &named.run.points);
    let names = distinct(points.map(|point| point.cell.title()));
    names.into_iter().map(|name| Workload::of(runs, name, series)).collect()
}

/// The points of one workload, or of one of the phases that it declares.
#[derive(Debug)]
pub(crate) struct Workload<'a> {
    pub(crate) name: String,
    /// Each with the index of its series; a cell that was measured twice in a run is there once.
    pub(crate) points: Vec<(usize, &'a Point)>,
    pub(crate) series_count: usize,
}

impl<'a> Workload<'a> {
    fn of(runs: &[Named<'a>], name: String, series: &[Series]) -> Workload<'a> {
        let mut points: Vec<(usize, &Point)> = Vec::new();
        for (run, named) in runs.iter().enumerate() {
            for point in named.run.points.iter().filter(|point| point.cell.title() == name) {
                let is_its = |series: &Series| series.run == run && series.has(&point.cell);
                let Some(index) = series.iter().position(is_its) else { continue };
                let mut known = points.iter().filter(|(other, _)| *other == index);
                if !known.any(|(_, other)| other.cell == point.cell) {
                    points.push((index, point));
                }
            }
        }
        Workload { name, points, series_count: series.len() }
    }

    /// Ascending, each once.
    fn values(&self, of: impl Fn(&Point) -> Option<f64>) -> Vec<f64> {
        let mut values: Vec<f64> = self.points.iter().filter_map(|(_, p)| of(p)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        values
    }

    fn threads(&self) -> Vec<f64> {
        self.values(|point| Some(threads(point)))
    }

    /// The points of one engine at these threads and this swept value, in order of rate.
    pub(crate) fn along_rate(
        &self,
        series: usize,
        at_threads: f64,
        at_sweep: Option<f64>,
    ) -> Vec<&'a Point> {
        let mut found: Vec<&Point> = self
            .points
            .iter()
            .filter(|(index, point)| {
                *index == series && threads(point) == at_threads && swept(point) == at_sweep
            })
            .map(|(_, point)| *point)
            .collect();
        found.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        found
    }

    /// The point of one engine at these threads and this swept value, at the highest rate.
    fn point(&self, series: usize, at_threads: f64, at_sweep: Option<f64>) -> Option<&'a Point> {
        self.along_rate(series, at_threads, at_sweep).last().copied()
    }

    pub(crate) fn peak_threads(&self) -> f64 {
        self.threads().last().copied().unwrap_or(0.0)
    }

    /// The smallest swept value; `None` without a sweep.
    pub(crate) fn base_sweep(&self) -> Option<f64> {
        self.values(swept).first().copied()
    }

    pub(crate) fn head(&self, series: usize) -> Option<&'a Point> {
        self.point(series, self.peak_threads(), self.base_sweep())
    }

    /// One curve an engine that has any dot.
    fn curves(&self, dots: impl Fn(usize) -> Vec<Dot>) -> Vec<Curve> {
        (0..self.series_count)
            .map(|series| (series, dots(series)))
            .filter(|(_, dots)| !dots.is_empty())
            .map(|(series, dots)| Curve { series, source: Source::Dots(dots) })
            .collect()
    }

    /// One curve an engine, over the rows of its head. An engine that ran at several rates has
    /// none: which of them to show is not ours to choose.
    fn sampled(&self, metric: &'static str, divisor: f64) -> Vec<Curve> {
        let curve = |series| {
            let rates = self.along_rate(series, self.peak_threads(), self.base_sweep());
            let [point] = rates.as_slice() else { return None };
            let samples = samples(point, "run", None, metric, divisor);
            Some(Curve { series, source: Source::Samples(samples) })
        };
        (0..self.series_count).filter_map(curve).collect()
    }
}

pub(crate) fn samples(
    point: &Point,
    phase: &'static str,
    repeat: Option<u32>,
    metric: &'static str,
    divisor: f64,
) -> Samples {
    Samples {
        workload: point.cell.workload.clone(),
        engine_version: point.engine_version.clone(),
        threads: point.cell.threads,
        sweep_value: point.cell.sweep.as_ref().map_or(1, |sweep| sweep.value),
        part: part(&point.cell, phase),
        repeat,
        phase,
        metric,
        divisor,
    }
}

/// Phase and role of a cell as the timeline has them: a load is before all phases.
pub(crate) fn part(cell: &Cell, phase: &str) -> (String, String) {
    match &cell.part {
        Some(part) if phase != "seed" => {
            (part.phase.clone(), part.role.clone().unwrap_or_default())
        }
        _ => Default::default(),
    }
}

fn throughput_compare(workloads: &[Workload<'_>], series: &[Series]) -> Vec<Figure> {
    let group = |workload: &Workload<'_>| {
        let bar = |index| {
            let point = workload.head(index)?;
            let dot = rate_dot(0.0, &point.summary.wu_per_s);
            Some(Bar { dot, flagged: !point.flags.is_empty() })
        };
        let bars: Vec<Option<Bar>> = (0..series.len()).map(bar).collect();
        BarGroup { label: workload.name.clone(), detail: detail(workload), bars }
    };
    let groups_max = (BARS_MAX / series.len().max(1)).max(1);
    let files = workloads.chunks(groups_max).zip(1..).map(|(chunk, number)| {
        let groups: Vec<BarGroup> = chunk.iter().map(group).collect();
        let flagged = groups.iter().flat_map(|g| g.bars.iter().flatten()).any(|bar| bar.flagged);
        let note =
            if flagged { "! marks cells with flags: the report gives the reasons" } else { "" };
        Figure {
            name: numbered("throughput_compare", number),
            title: "Throughput at the peak thread count".to_owned(),
            note: note.to_owned(),
            content: Content::Bars(groups),
        }
    });
    files.collect()
}

/// `8 threads, batch=1`.
pub(crate) fn detail(workload: &Workload<'_>) -> String {
    // A phase has workers of its own, whatever the grid says.
    let whole = workload.points.iter().filter(|(_, point)| point.cell.role().is_none());
    let workers = whole.filter_map(|(_, point)| Some(point.cell.part.as_ref()?.workers)).max();
    let threads = workers.map_or_else(|| workload.peak_threads(), f64::from);
    let mut text = format!("{threads} thread{}", if threads == 1.0 { "" } else { "s" });
    if let Some(value) = workload.base_sweep() {
        text.push_str(&format!(", {}={value}", param(workload)));
    }
    text
}

fn param<'a>(workload: &Workload<'a>) -> &'a str {
    let mut sweeps = workload.points.iter().filter_map(|(_, point)| point.cell.sweep.as_ref());
    sweeps.next().map_or("", |sweep| &sweep.param)
}

fn scalability(workload: &Workload<'_>) -> Option<Panel> {
    let threads = workload.threads();
    let base = workload.base_sweep();
    let curves = workload.curves(|series| {
        let at = |&threads: &f64| {
            let point = workload.point(series, threads, base)?;
            Some(rate_dot(threads, &point.summary.wu_per_s))
        };
        threads.iter().filter_map(at).collect()
    });
    (threads.len() > 1).then(|| Panel {
        title: titled(workload, base),
        x: XAxis::Values { label: "threads".to_owned(), values: threads },
        y: Unit::PerSecond("units"),
        typical: None,
        curves,
    })
}

/// The workload's name, and the swept value at which it is shown.
fn titled(workload: &Workload<'_>, sweep: Option<f64>) -> String {
    match sweep {
        Some(value) => format!("{} ({}={value})", workload.name, param(workload)),
        None => workload.name.clone(),
    }
}

fn latency(workload: &Workload<'_>, percentile: u32) -> Vec<Figure> {
    let threads = workload.threads();
    if threads.len() < 2 {
        return Vec::new();
    }
    let base = workload.base_sweep();
    let of = |op: &OpSummary| if percentile == 50 { op.p50_ns } else { op.p99_ns };
    let calls_min = if percentile == 50 { 1 } else { P99_CALLS_MIN };
    let all = workload.points.iter().flat_map(|(_, point)| &point.summary.ops);
    let panel = |name: &String| {
        let curves = workload.curves(|series| {
            let at = |&threads: &f64| {
                let point = workload.point(series, threads, base)?;
                let op = point.summary.ops.iter().find(|op| op.op == *name)?;
                (op.calls >= calls_min).then(|| Dot::plain(threads, of(op)))
            };
            threads.iter().filter_map(at).collect()
        });
        let x = XAxis::Values { label: "threads".to_owned(), values: threads.clone() };
        Panel { title: name.clone(), x, y: Unit::Nanoseconds, typical: None, curves }
    };
    let word = if percentile == 50 { "Median" } else { "99th percentile of the" };
    panels(
        &format!("latency_p{percentile}_threads_{}", file_name(&workload.name)),
        &format!("{word} service time: {}", titled(workload, base)),
        distinct(all.map(|op| &op.op)).into_iter().map(panel),
    )
}

fn sweep(workload: &Workload<'_>) -> Vec<Figure> {
    let values = workload.values(swept);
    if values.len() < 2 {
        return Vec::new();
    }
    let threads = workload.threads();
    let panel = |&threads: &f64| {
        let curves = workload.curves(|series| {
            let at = |&value: &f64| {
                let point = workload.point(series, threads, Some(value))?;
                Some(rate_dot(value, &point.summary.ops_per_s))
            };
            values.iter().filter_map(at).collect()
        });
        Panel {
            title: format!("{threads} thread{}", if threads == 1.0 { "" } else { "s" }),
            x: XAxis::Values { label: param(workload).to_owned(), values: values.clone() },
            y: Unit::PerSecond("operations"),
            typical: None,
            curves,
        }
    };
    panels(
        &format!("sweep_{}", file_name(&workload.name)),
        &format!("Throughput by {}: {}", param(workload), workload.name),
        threads.iter().map(panel),
    )
}

/// Title and unit of a panel, and what it takes from a point.
type Row<'a> = (&'a str, Unit, &'a dyn Fn(&Point) -> Option<f64>);

/// An open loop over its offered rates: what was reached, and how long a unit took to be answered.
fn response(workload: &Workload<'_>) -> Vec<Figure> {
    let rates = workload.values(|point| point.cell.rate);
    if rates.len() < 2 {
        return Vec::new();
    }
    let (threads, base) = (workload.peak_threads(), workload.base_sweep());
    let panel = |(title, y, of): Row<'_>| {
        let curves = workload.curves(|series| {
            let points = workload.along_rate(series, threads, base);
            let dot = |point: &Point| Some(Dot::plain(point.cell.rate?, of(point)?));
            points.into_iter().filter_map(dot).collect()
        });
        let x = XAxis::Values { label: "offered units/s".to_owned(), values: rates.clone() };
        Panel { title: title.to_owned(), x, y, typical: None, curves }
    };
    let response = |index: usize| move |point: &Point| Some(point.summary.response_ns?[index]);
    let rows: [Row<'_>; 4] = [
        ("achieved rate", Unit::PerSecond("units"), &|point| {
            Some(point.open_loop()?.achieved_per_s)
        }),
        ("response time, median", Unit::Nanoseconds, &response(0)),
        ("response time, 99th percentile", Unit::Nanoseconds, &response(1)),
        ("response time, 99.9th percentile", Unit::Nanoseconds, &response(2)),
    ];
    panels(
        &format!("response_{}", file_name(&workload.name)),
        &format!("Open loop: {}, {}", workload.name, detail(workload)),
        rows.into_iter().map(panel),
    )
}

fn timeline_throughput(workload: &Workload<'_>) -> Panel {
    let heads = (0..workload.series_count).filter_map(|series| workload.head(series));
    let typical = heads.map(|point| point.summary.wu_per_s.high).fold(0.0, f64::max);
    Panel {
        title: format!("{} ({})", workload.name, detail(workload)),
        x: XAxis::Elapsed,
        y: Unit::PerSecond("units"),
        typical: Some(typical),
        curves: workload.sampled("wu_per_s", 1.0),
    }
}

/// The largest load of each engine, in its first repeat: several would not be one line.
fn seed_progress(workload: &Workload<'_>) -> Panel {
    let all = workload.points.iter().filter_map(|(_, point)| load(point));
    let typical = all.map(|(_, load)| load.keys as f64).fold(0.0, f64::max);
    let curve = |series: usize| {
        let own = workload.points.iter().filter(|(index, _)| *index == series);
        let loads = own.filter_map(|(_, point)| load(point).map(|(repeat, l)| (l, repeat, point)));
        let richest =
            loads.reduce(|best, next| if next.0.keys > best.0.keys { next } else { best });
        let (_, repeat, point) = richest?;
        let samples = samples(point, "seed", Some(repeat), "seed_keys", 1.0);
        Some(Curve { series, source: Source::Samples(samples) })
    };
    Panel {
        title: workload.name.clone(),
        x: XAxis::Elapsed,
        y: Unit::Count("keys"),
        typical: Some(typical),
        curves: (0..workload.series_count).filter_map(curve).collect(),
    }
}

/// The load of the first repeat that had one to itself, and the repeat's index.
fn load(point: &Point) -> Option<(u32, &Load)> {
    let loads = point.repeats.iter().filter_map(|r| r.load.as_ref().map(|load| (r.index, load)));
    loads.into_iter().find(|(_, load)| !load.reused)
}

fn timeline_system(workload: &Workload<'_>, has_data_dir: bool) -> Vec<Figure> {
    let rows = SYSTEM_METRICS.iter().filter(|(metric, ..)| has_data_dir || *metric != "disk_bytes");
    let panel = |&(metric, title, divisor): &(&'static str, &str, f64)| Panel {
        title: title.to_owned(),
        x: XAxis::Elapsed,
        y: Unit::Plain(String::new()),
        typical: None,
        curves: workload.sampled(metric, divisor),
    };
    panels(
        &format!("timeline_system_{}", file_name(&workload.name)),
        &format!("System over time: {}, {}", workload.name, detail(workload)),
        rows.map(panel),
    )
}

/// The panels that have a curve, in as many files as they need.
fn panels(name: &str, title: &str, panels: impl Iterator<Item = Panel>) -> Vec<Figure> {
    let mut files: Vec<Vec<Panel>> = Vec::new();
    for panel in panels.filter(|panel| !panel.curves.is_empty()) {
        match files.last_mut() {
            Some(file) if file.len() < PANELS_MAX => file.push(panel),
            _ => files.push(vec![panel]),
        }
    }
    let figure = |(panels, number)| Figure {
        name: numbered(name, number),
        title: title.to_owned(),
        note: String::new(),
        content: Content::Panels(panels),
    };
    files.into_iter().zip(1..).map(figure).collect()
}

pub(crate) fn numbered(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}_{number}") }
}

fn rate_dot(x: f64, rate: &keyrack_record::RateSummary) -> Dot {
    Dot { x, y: rate.median, low: rate.low.min(rate.median), high: rate.high.max(rate.median) }
}

fn threads(point: &Point) -> f64 {
    f64::from(point.cell.threads)
}

fn swept(point: &Point) -> Option<f64> {
    point.cell.sweep.as_ref().map(|sweep| sweep.value as f64)
}

/// A closed loop counts as slower than every rate.
fn rate(point: &Point) -> f64 {
    point.cell.rate.unwrap_or(f64::NEG_INFINITY)
}
