//! The engines of one run set against each other: what a comparison of stores publishes.
//!
//! ```text
//! workload  threads  engine  ops/s  rate (min, max)   ..  written B/op  MiB in memory  MiB on disk
//! fill            1  flodb  480000                  - ..           260             96          190
//! fill            1  other  210000  0.44 (0.41, 0.46) ..           410             70          160
//! ```
//!
//! Engines take turns within each repeat of a cell, so the ratios are those of neighbours: repeat i
//! of an engine to repeat i of the base, and of these ratios the median, the smallest and the
//! largest are shown. What drifts slowly hits both sides of a ratio alike. CPU time is that of the
//! whole process, an engine's own threads included; with `--settle` it goes on until these are
//! idle, and so do the bytes written. Engines whose writes survive different things are not
//! compared: where nobody names a base there is one for each durability.

use crate::comparison::Refusal;
use crate::render::{
    Column, aligned, markdown, markdown_lists, markdown_table, one_line, text_lists,
};
use keyrack_measure::stats::median;
use keyrack_record::{Cell, Point, Repeat, Run, rate_text};

/// The engines of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Engines {
    /// The engines that the ratios are to, one for each durability.
    pub bases: Vec<String>,
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
    /// The engine that its ratios are to; absent where it has none.
    pub base: Option<String>,
    /// Primitive operations per second, the median over the repeats.
    pub ops_per_s: f64,
    /// The ratio of that to the base's; more is better. Absent for the base.
    pub rate: Option<Spread>,
    /// CPU microseconds an operation, the median over the repeats; absent where none was done.
    pub cpu_us_per_op: Option<f64>,
    /// The ratio of that to the base's; less is better. Absent for the base.
    pub cpu: Option<Spread>,
    /// Bytes sent on their way to storage for each operation; absent for engines in memory.
    pub written_per_op: Option<f64>,
    /// Resident memory that came with the engine, in the end; absent in records of before.
    pub memory_bytes: Option<f64>,
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

/// Compares the engines of `run` with `base`; without one each with the engine that was listed
/// first of those with its durability. `None` when `base` is no engine of the run.
/// O(points squared).
#[must_use]
pub fn compare_engines(run: &Run, base: Option<&str>) -> Option<Engines> {
    let names = &run.header.backends;
    let base = match base {
        Some(name) => Some(names.iter().find(|other| *other == name)?),
        None => None,
    };
    names.first()?;
    let mut engines = Engines {
        bases: base.into_iter().cloned().collect(),
        rows: Vec::new(),
        refused: Vec::new(),
        warnings: Vec::new(),
    };
    let mut cells: Vec<&Cell> = Vec::new();
    for point in &run.points {
        if !cells.iter().any(|cell| is_same_place(cell, &point.cell)) {
            cells.push(&point.cell);
        }
    }
    for place in cells {
        let here = |name: &String| {
            let of_engine = run.points.iter().filter(|point| point.cell.engine == *name);
            of_engine.rev().find(|point| is_same_place(&point.cell, place))
        };
        let all: Vec<&Point> = names.iter().filter_map(here).collect();
        for point in &all {
            let found = match base {
                Some(base) => against(base, here(base), point),
                None => against_equal(&all, point),
            };
            engines.add(point, found);
        }
    }
    engines.warnings.splice(0..0, unsettled(run));
    for failure in &run.failures {
        engines.warnings.push(format!("{} failed: {}", failure.cell, failure.reason));
    }
    Some(engines)
}

/// The engines whose own threads may have worked on after their repeats, a line each.
fn unsettled(run: &Run) -> Vec<String> {
    let of_engine = |name: &String| {
        let own = run.points.iter().filter(|point| point.cell.engine == *name);
        let ends = own.flat_map(|point| &point.repeats).filter_map(|r| r.aftermath.as_ref());
        let (busy, all) = ends.fold((0, 0), |(busy, all), aftermath| {
            (busy + u32::from(!aftermath.is_settled), all + 1)
        });
        (busy > 0).then(|| {
            format!(
                "{name}: its own threads were not seen idle after {busy} of {all} repeats; what \
                 they did later is not in CPU and bytes (--settle)"
            )
        })
    };
    run.header.backends.iter().filter_map(of_engine).collect()
}

/// What a point is set against: nothing where it is the base itself, or the reason why nothing.
type Against<'a> = Result<Option<&'a Point>, String>;

/// The base that was asked for.
fn against<'a>(name: &str, base: Option<&'a Point>, point: &Point) -> Against<'a> {
    match base {
        Some(base) if base.cell == point.cell => Ok(None),
        None => Err(format!("{name} was not measured")),
        Some(base) if base.durability != point.durability => {
            Err(format!("durability {} vs {}", point.durability, base.durability))
        }
        Some(base) => Ok(Some(base)),
    }
}

/// The first of `all` that has the durability of `point`.
fn against_equal<'a>(all: &[&'a Point], point: &Point) -> Against<'a> {
    let mut equals = all.iter().copied().filter(|other| other.durability == point.durability);
    match (equals.next(), equals.next()) {
        (Some(base), _) if base.cell != point.cell => Ok(Some(base)),
        (_, None) if all.len() > 1 => {
            Err(format!("durability {}, no other engine has it", point.durability))
        }
        _ => Ok(None),
    }
}

impl Engines {
    fn add(&mut self, point: &Point, found: Against<'_>) {
        let neighbours = found.unwrap_or_else(|reason| {
            self.refused.push(Refusal { cell: point.cell.clone(), reason });
            None
        });
        let base = neighbours.map(|base| base.cell.engine.clone());
        if let Some(base) = base.as_ref().filter(|base| !self.bases.contains(base)) {
            self.bases.push(base.clone());
        }
        let over = |value: &dyn Fn(&Repeat) -> Option<f64>| {
            median(&point.repeats.iter().filter_map(value).collect::<Vec<f64>>())
        };
        let ratio = |value: &dyn Fn(&Repeat) -> Option<f64>| {
            neighbours.and_then(|base| Spread::of(&base.repeats, &point.repeats, value))
        };
        self.rows.push(EngineRow {
            cell: point.cell.clone(),
            base,
            ops_per_s: over(&|repeat| Some(repeat.ops_per_s)).unwrap_or(0.0),
            rate: ratio(&|repeat| Some(repeat.ops_per_s)),
            cpu_us_per_op: over(&cpu_us_per_op),
            cpu: ratio(&cpu_us_per_op),
            written_per_op: over(&|repeat| {
                Some(repeat.aftermath.as_ref()?.written_bytes? as f64 / ops(repeat)?)
            }),
            memory_bytes: over(&|repeat| Some(repeat.footprint?.memory_bytes? as f64)),
            disk_bytes: over(&|repeat| Some(disk_bytes(repeat)? as f64)),
        });
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

/// What was on disk when flushes and compactions were over, else when the phase was.
fn disk_bytes(repeat: &Repeat) -> Option<u64> {
    let held = repeat.footprint.and_then(|held| held.disk_bytes);
    held.or_else(|| repeat.aftermath.as_ref()?.disk_bytes)
}

/// Of the timed phase and of what was waited for after it.
fn cpu_us_per_op(repeat: &Repeat) -> Option<f64> {
    let cpu_s = repeat.aftermath.as_ref().map_or(repeat.cpu_s, |aftermath| aftermath.cpu_s);
    Some(cpu_s * 1e6 / ops(repeat)?)
}

const COLUMNS: [Column; 10] = [
    Column::text("workload"),
    Column::number("threads"),
    Column::text("engine"),
    Column::number("ops/s"),
    Column::number("rate (min, max)"),
    Column::number("CPU us/op"),
    Column::number("CPU (min, max)"),
    Column::number("written B/op"),
    Column::number("MiB in memory"),
    Column::number("MiB on disk"),
];

type Fields = [String; COLUMNS.len()];

impl Engines {
    /// What the ratios are to.
    pub(crate) fn title(&self) -> String {
        match self.bases.as_slice() {
            [] => "no ratios".to_owned(),
            bases => format!("ratios to {}", bases.join(", ")),
        }
    }

    /// Why cells have no ratio, a line for each engine and reason.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let mut found: Vec<(&Refusal, usize)> = Vec::new();
        for refusal in &self.refused {
            let is_same = |other: &Refusal| {
                other.cell.engine == refusal.cell.engine && other.reason == refusal.reason
            };
            match found.iter_mut().find(|(other, _)| is_same(other)) {
                Some((_, count)) => *count += 1,
                None => found.push((refusal, 1)),
            }
        }
        let line = |(Refusal { cell, reason }, count): (&Refusal, usize)| match count {
            1 => format!("{cell}: {reason}"),
            _ => format!("{}, {count} cells: {reason}", cell.engine),
        };
        found.into_iter().map(line).collect()
    }

    /// A row's engine, with its base where there are several.
    pub(crate) fn name_of(&self, row: &EngineRow) -> String {
        match &row.base {
            Some(base) if self.bases.len() > 1 => format!("{} to {base}", row.cell.engine),
            _ => row.cell.engine.clone(),
        }
    }
}

fn fields(engines: &Engines, row: &EngineRow) -> Fields {
    let spread = |spread: Option<Spread>| match spread {
        Some(Spread { median, low, high }) => format!("{median:.2} ({low:.2}, {high:.2})"),
        None => "-".to_owned(),
    };
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let cell = &row.cell;
    let role = cell.role().map(|role| format!(" {role}")).unwrap_or_default();
    [
        one_line(&format!("{}{role}{}", cell.title(), swept(cell))),
        cell.part.as_ref().map_or(cell.threads, |part| part.workers).to_string(),
        one_line(&engines.name_of(row)),
        rate_text(row.ops_per_s),
        spread(row.rate),
        row.cpu_us_per_op.map_or("-".to_owned(), |us| format!("{us:.2}")),
        spread(row.cpu),
        number(row.written_per_op),
        number(row.memory_bytes.map(mib)),
        number(row.disk_bytes.map(mib)),
    ]
}

/// Swept value and rate, each after a blank.
pub(crate) fn swept(cell: &Cell) -> String {
    let sweep = cell.sweep.as_ref().map(|sweep| format!(" {}={}", sweep.param, sweep.value));
    let rate = cell.rate.map(|rate| format!(" rate={rate}"));
    sweep.into_iter().chain(rate).collect()
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

fn lists(engines: &Engines) -> Vec<(&'static str, Vec<String>)> {
    let lists = [("not compared:", engines.refusals()), ("warnings:", engines.warnings.clone())];
    lists.into_iter().filter(|(_, lines): &(_, Vec<String>)| !lines.is_empty()).collect()
}

/// Aligned columns. O(rows).
#[must_use]
pub fn render_engines_text(engines: &Engines) -> String {
    let rows: Vec<Fields> = engines.rows.iter().map(|row| fields(engines, row)).collect();
    let mut text = format!("{}\n{}", one_line(&engines.title()), aligned(&COLUMNS, &rows));
    text.push_str(&text_lists(&lists(engines)));
    text
}

/// A table in the Markdown of code hosts. O(rows).
#[must_use]
pub fn render_engines_markdown(engines: &Engines) -> String {
    let rows: Vec<Fields> = engines.rows.iter().map(|row| fields(engines, row)).collect();
    let table = markdown_table(&COLUMNS, &rows);
    let mut title = markdown(&engines.title());
    title[..1].make_ascii_uppercase();
    let mut text = format!("{title}.\n\n{table}");
    text.push_str(&markdown_lists(&lists(engines)));
    text
}
