//! The table of one workload's points, printed when there are two or more.
//!
//! Rows are engine-major whatever the order of measuring was: engines in the order asked for, then
//! threads, then the swept value, then the rate, each in the order in which it was asked for or
//! first seen. In an open loop the two latencies are response times of units, since that is what
//! an offered rate is about; otherwise they are service times over all verbs.
//!
//! Where the workload declares phases each part has a row, the threads are its own workers, and a
//! closed loop beside an open one shows service times under the same title.
//!
//! [`Dialect::Seed`] always has a `batch` column, six wide, as keybench 0.1.0 has.

use super::Dialect;
use super::text::{escape, fmt_latency};
use keyrack_record::{Point, Run, SweepValue};

const ENGINE_WIDTH: usize = 12;
const NUMBER_WIDTH: usize = 8;
const SEED_BATCH_WIDTH: usize = 6;

/// The table, or nothing for a single point.
pub(super) fn table(run: &Run, workload: &str, dialect: Dialect) -> String {
    let points = engine_major(run, workload);
    if points.len() < 2 {
        return String::new();
    }
    let columns = Columns::of(&points, dialect);
    let mut text = format!("\n{}: sweep summary (medians)\n", escape(workload));
    text.push_str(&columns.head());
    for point in points {
        text.push_str(&columns.row(point));
    }
    text
}

/// The points of a workload in the order of the table.
pub(super) fn engine_major<'a>(run: &'a Run, workload: &str) -> Vec<&'a Point> {
    let all: Vec<&Point> = run.points.iter().filter(|p| p.cell.workload == workload).collect();
    let mut points = all.clone();
    points.sort_by_key(|point| {
        let cell = &point.cell;
        let seen = |same: &dyn Fn(&Point) -> bool| all.iter().position(|p| same(p));
        (
            run.header.backends.iter().position(|b| *b == cell.engine).unwrap_or(usize::MAX),
            seen(&|p| p.cell.engine == cell.engine),
            run.header.threads.iter().position(|t| *t == cell.threads).unwrap_or(usize::MAX),
            seen(&|p| p.cell.threads == cell.threads),
            seen(&|p| p.cell.sweep == cell.sweep),
            seen(&|p| p.cell.part == cell.part),
            seen(&|p| p.cell.rate == cell.rate),
        )
    });
    points
}

struct Columns {
    engine_width: usize,
    /// Widths of phase and role.
    part: Option<[usize; 2]>,
    /// Title and width.
    sweep: Option<(String, usize)>,
    /// Width.
    rate: Option<usize>,
}

impl Columns {
    fn of(points: &[&Point], dialect: Dialect) -> Columns {
        let longest = |texts: &mut dyn Iterator<Item = usize>, least| texts.fold(least, usize::max);
        let swept = points.iter().find_map(|p| p.cell.sweep.as_ref());
        let sweep = match (swept, dialect) {
            (Some(SweepValue { param, .. }), Dialect::Seed) if param == "batch" => {
                Some((param.clone(), SEED_BATCH_WIDTH))
            }
            (Some(SweepValue { param, .. }), _) => {
                let param = escape(param);
                let width = NUMBER_WIDTH.max(param.chars().count());
                Some((param, width))
            }
            (None, Dialect::Seed) => Some(("batch".to_owned(), SEED_BATCH_WIDTH)),
            (None, Dialect::Keyrack) => None,
        };
        let open = points.iter().any(|p| p.cell.rate.is_some());
        let rate_chars = &mut points.iter().map(|p| rate_text(p).chars().count());
        Columns {
            engine_width: longest(
                &mut points.iter().map(|p| escape(&p.engine_version).chars().count()),
                ENGINE_WIDTH,
            ),
            part: points.iter().any(|p| p.cell.part.is_some()).then(|| {
                let widths = |of: usize| points.iter().map(move |p| part(p)[of].chars().count());
                [longest(&mut widths(0), "phase".len()), longest(&mut widths(1), "role".len())]
            }),
            sweep,
            rate: open.then(|| longest(rate_chars, NUMBER_WIDTH)),
        }
    }

    fn head(&self) -> String {
        let wide = self.engine_width;
        let mut line = format!("{:<wide$} ", "engine");
        if let Some([phase, role]) = self.part {
            line.push_str(&format!("{:<phase$} {:<role$} ", "phase", "role"));
        }
        line.push_str(&format!("{:>8}", "threads"));
        if let Some((title, width)) = &self.sweep {
            line.push_str(&format!(" {title:>width$}"));
        }
        if let Some(width) = self.rate {
            line.push_str(&format!(" {:>width$}", "rate"));
        }
        let [p50, p99] =
            if self.rate.is_some() { ["resp p50", "resp p99"] } else { ["p50", "p99"] };
        line.push_str(&format!(" {:>14} {:>14} {p50:>10} {p99:>10}\n", "wu/sec", "ops/sec"));
        line
    }

    fn row(&self, point: &Point) -> String {
        let (engine, wide) = (escape(&point.engine_version), self.engine_width);
        let mut line = format!("{engine:<wide$} ");
        let workers = point.cell.part.as_ref().map_or(point.cell.threads, |part| part.workers);
        if let Some([phase, role]) = self.part {
            let [own_phase, own_role] = part(point);
            line.push_str(&format!("{own_phase:<phase$} {own_role:<role$} "));
        }
        line.push_str(&format!("{workers:>8}"));
        if let Some((_, width)) = &self.sweep {
            let value = point.cell.sweep.as_ref().map_or(1, |sweep| sweep.value);
            line.push_str(&format!(" {value:>width$}"));
        }
        if let Some(width) = self.rate {
            line.push_str(&format!(" {:>width$}", rate_text(point)));
        }
        let summary = &point.summary;
        let (p50_ns, p99_ns) = match summary.response_ns {
            Some([p50_ns, p99_ns, ..]) if self.rate.is_some() => (p50_ns, p99_ns),
            _ => (summary.p50_ns, summary.p99_ns),
        };
        line.push_str(&format!(
            " {:>14.0} {:>14.0} {:>10} {:>10}\n",
            summary.wu_per_s.median,
            summary.ops_per_s.median,
            fmt_latency(p50_ns),
            fmt_latency(p99_ns)
        ));
        line
    }
}

fn rate_text(point: &Point) -> String {
    point.cell.rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string())
}

/// Phase and role for people: `-` is all workers of a phase.
fn part(point: &Point) -> [String; 2] {
    match &point.cell.part {
        Some(part) => [escape(&part.phase), part.role.as_deref().map_or("-".to_owned(), escape)],
        None => ["-".to_owned(), "-".to_owned()],
    }
}
