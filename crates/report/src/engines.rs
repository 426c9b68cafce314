//! The engines of one run set against each other: what a comparison of stores publishes.
//!
//! ```text
//! workload  threads  engine     ops/s    rate (min, max)  CPU us/op  ..  written B/op  MiB on disk
//! fill            1  flodb     480000                  -       2.60  ..           260          190
//! fill            1  other     210000  0.44 (0.41, 0.46)       6.10  ..           410          160
//! ```
//!
//! Engines take turns within each repeat of a cell, so the ratios are those of neighbours: repeat i
//! of an engine to repeat i of the base, and of these ratios the median, the smallest and the
//! largest are shown. What drifts slowly hits both sides of a ratio alike. CPU time is that of the
//! whole process, an engine's own threads included; with `--settle` it goes on until these are
//! idle, and so do the bytes written. Engines whose writes survive different things are not
//! compared.

use crate::comparison::Refusal;
use crate::render::{Column, aligned, markdown, markdown_table, one_line};
use keyrack_measure::stats::median;
use keyrack_record::{Cell, Point, Repeat, Run};

/// The engines of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Engines {
    /// The engine that the ratios are to.
    pub base: String,
    /// One a cell, in order of workloads, cells and engines.
    pub rows: Vec<EngineRow>,
    /// Cells that have no ratio, and why.
    pub refused: Vec<Refusal>,
    /// What a reader must know, a line each.
    pub warnings: Vec<String>,
}

/// One engine in one cell.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EngineRow {
    /// The cell.
    pub cell: Cell,
    /// Primitive operations per second, the median over the repeats.
    pub ops_per_s: f64,
    /// The ratio of that to the base's; more is better. Absent for the base.
    pub rate: Option<Spread>,
    /// CPU microseconds an operation, the median over the repeats.
    pub cpu_us_per_op: f64,
    /// The ratio of that to the base's; less is better. Absent for the base.
    pub cpu: Option<Spread>,
    /// Bytes sent on their way to storage for each operation; absent for engines in memory.
    pub written_per_op: Option<f64>,
    /// Bytes in the data directory in the end.
    pub disk_bytes: Option<f64>,
}

/// Ratios of neighbouring repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

/// Compares the engines of `run` with `base`, or with the one that was listed first. `None` when
/// `base` is no engine of the run. O(points squared).
#[must_use]
pub fn compare_engines(run: &Run, base: Option<&str>) -> Option<Engines> {
    let names = &run.header.backends;
    let base = match base {
        Some(name) => names.iter().find(|other| *other == name)?,
        None => names.first()?,
    };
    let mut engines =
        Engines { base: base.clone(), rows: Vec::new(), refused: Vec::new(), warnings: Vec::new() };
    let mut cells: Vec<&Cell> = Vec::new();
    for point in &run.points {
        if !cells.iter().any(|cell| is_same_place(cell, &point.cell)) {
            cells.push(&point.cell);
        }
    }
    for place in cells {
        let here = |name: &str| {
            let of_engine = run.points.iter().filter(|point| point.cell.engine == name);
            of_engine.rev().find(|point| is_same_place(&point.cell, place))
        };
        let base = here(base);
        for point in names.iter().filter_map(|name| here(name)) {
            engines.add(point, base);
        }
    }
    for failure in &run.failures {
        engines.warnings.push(format!("{} failed: {}", failure.cell, failure.reason));
    }
    Some(engines)
}

impl Engines {
    fn add(&mut self, point: &Point, base: Option<&Point>) {
        let mut refuse = |reason: String| {
            self.refused.push(Refusal { cell: point.cell.clone(), reason });
            None
        };
        let neighbours = match base {
            Some(base) if base.cell == point.cell => None,
            None => refuse(format!("{} was not measured", self.base)),
            Some(base) if base.durability != point.durability => {
                let (mine, other) = (&point.durability, &base.durability);
                refuse(format!("durability {mine} vs {other}"))
            }
            Some(base) => Some(base),
        };
        let over = |value: &dyn Fn(&Repeat) -> Option<f64>| {
            median(&point.repeats.iter().filter_map(value).collect::<Vec<f64>>())
        };
        let ratio = |value: &dyn Fn(&Repeat) -> Option<f64>| {
            neighbours.and_then(|base| Spread::of(&base.repeats, &point.repeats, value))
        };
        self.rows.push(EngineRow {
            cell: point.cell.clone(),
            ops_per_s: over(&|repeat| Some(repeat.ops_per_s)).unwrap_or(0.0),
            rate: ratio(&|repeat| Some(repeat.ops_per_s)),
            cpu_us_per_op: over(&cpu_us_per_op).unwrap_or(0.0),
            cpu: ratio(&cpu_us_per_op),
            written_per_op: over(&|repeat| {
                Some(repeat.aftermath.as_ref()?.written_bytes? as f64 / ops(repeat)?)
            }),
            disk_bytes: over(&|repeat| Some(repeat.aftermath.as_ref()?.disk_bytes? as f64)),
        });
        let unsettled = point.repeats.iter().filter_map(|repeat| repeat.aftermath.as_ref());
        let unsettled = unsettled.filter(|aftermath| !aftermath.is_settled).count();
        if unsettled > 0 {
            self.warnings.push(format!(
                "{}: the engine's own threads were not seen idle after {unsettled} of {} repeats; \
                 what they did later is not in CPU and bytes (--settle)",
                point.cell,
                point.repeats.len()
            ));
        }
        for flag in &point.flags {
            self.warnings.push(format!("{}: {flag}", point.cell));
        }
    }
}

impl Spread {
    fn of(
        base: &[Repeat],
        other: &[Repeat],
        value: &dyn Fn(&Repeat) -> Option<f64>,
    ) -> Option<Spread> {
        let ratio = |mine: &Repeat| {
            let neighbour = base.iter().find(|theirs| theirs.index == mine.index)?;
            let ratio = value(mine)? / value(neighbour)?;
            (ratio.is_finite() && ratio > 0.0).then_some(ratio)
        };
        let ratios: Vec<f64> = other.iter().filter_map(ratio).collect();
        Some(Spread {
            median: median(&ratios)?,
            low: ratios.iter().copied().reduce(f64::min)?,
            high: ratios.iter().copied().reduce(f64::max)?,
        })
    }
}

fn is_same_place(a: &Cell, b: &Cell) -> bool {
    a.workload == b.workload
        && a.part == b.part
        && a.threads == b.threads
        && a.sweep == b.sweep
        && a.rate == b.rate
}

fn ops(repeat: &Repeat) -> Option<f64> {
    (repeat.prim_ops > 0).then_some(repeat.prim_ops as f64)
}

/// Of the timed phase and of what was waited for after it.
fn cpu_us_per_op(repeat: &Repeat) -> Option<f64> {
    let cpu_s = repeat.aftermath.as_ref().map_or(repeat.cpu_s, |aftermath| aftermath.cpu_s);
    Some(cpu_s * 1e6 / ops(repeat)?)
}

const COLUMNS: [Column; 9] = [
    Column::text("workload"),
    Column::number("threads"),
    Column::text("engine"),
    Column::number("ops/s"),
    Column::number("rate (min, max)"),
    Column::number("CPU us/op"),
    Column::number("CPU (min, max)"),
    Column::number("written B/op"),
    Column::number("MiB on disk"),
];

type Fields = [String; COLUMNS.len()];

fn fields(row: &EngineRow) -> Fields {
    let spread = |spread: Option<Spread>| match spread {
        Some(Spread { median, low, high }) => format!("{median:.2} ({low:.2}, {high:.2})"),
        None => "-".to_owned(),
    };
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let cell = &row.cell;
    let mut workload = cell.title();
    if let Some(role) = cell.role() {
        workload.push_str(&format!(" {role}"));
    }
    if let Some(sweep) = &cell.sweep {
        workload.push_str(&format!(" {}={}", sweep.param, sweep.value));
    }
    if let Some(rate) = cell.rate {
        workload.push_str(&format!(" rate={rate}"));
    }
    [
        one_line(&workload),
        cell.threads.to_string(),
        one_line(&cell.engine),
        format!("{:.0}", row.ops_per_s),
        spread(row.rate),
        format!("{:.2}", row.cpu_us_per_op),
        spread(row.cpu),
        number(row.written_per_op),
        number(row.disk_bytes.map(|bytes| bytes / f64::from(1 << 20))),
    ]
}

fn lists(engines: &Engines) -> Vec<(&'static str, Vec<String>)> {
    let refused = engines.refused.iter().map(|r| format!("{}: {}", r.cell, r.reason)).collect();
    let lists = [("not compared:", refused), ("warnings:", engines.warnings.clone())];
    lists.into_iter().filter(|(_, lines): &(_, Vec<String>)| !lines.is_empty()).collect()
}

/// Aligned columns. O(rows).
#[must_use]
pub fn render_engines_text(engines: &Engines) -> String {
    let rows: Vec<Fields> = engines.rows.iter().map(fields).collect();
    let mut text = format!("ratios to {}\n{}", one_line(&engines.base), aligned(&COLUMNS, &rows));
    for (title, lines) in lists(engines) {
        text.push_str(&format!("\n{title}\n"));
        lines.iter().for_each(|line| text.push_str(&format!("  {}\n", one_line(line))));
    }
    text
}

/// A table in the Markdown of code hosts. O(rows).
#[must_use]
pub fn render_engines_markdown(engines: &Engines) -> String {
    let rows: Vec<Fields> = engines.rows.iter().map(fields).collect();
    let table = markdown_table(&COLUMNS, &rows);
    let mut text = format!("Ratios to {}.\n\n{table}", markdown(&engines.base));
    for (title, lines) in lists(engines) {
        text.push_str(&format!("\n**{title}**\n\n"));
        lines.iter().for_each(|line| text.push_str(&format!("- {}\n", markdown(line))));
    }
    text
}
