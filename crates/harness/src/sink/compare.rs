//! The comparison of engines within one run, printed when a workload ran on two or more.
//!
//! ```text
//! mixed: engines compared by ops/sec (95% interval of the ratio, ~ where it contains 1)
//!   t1  skiplist 1.42x [1.38, 1.47] vs btree  (p=0.004)
//!   t2  skiplist ~1.01x [0.97, 1.05] vs btree  (p=0.700)
//!   t4  redb not compared: durability sync vs none
//! ```
//!
//! The base is the engine that was listed first. Cells are compared with the same cell of the
//! base. In an open loop all engines complete what was offered, so there the 99th percentile of
//! the response time is compared, under a title that says so. With one repeat there is a ratio and
//! no interval. Engines of unequal durability do unequal work for an acknowledgement and are never
//! compared.

use super::summary::engine_major;
use super::text::escape;
use keyrack_record::{Cell, Change, Point, Ratio, Run};

/// The lines for one workload, or nothing for a single engine.
pub(super) fn engines(run: &Run, workload: &str, draw: &mut dyn FnMut() -> u64) -> String {
    let points = engine_major(run, workload);
    let Some(base_engine) = points.first().map(|point| &point.cell.engine) else {
        return String::new();
    };
    let (bases, others): (Vec<&Point>, Vec<&Point>) =
        points.iter().copied().partition(|point| point.cell.engine == *base_engine);
    let mut text = String::new();
    for (open, metric) in [(false, "ops/sec"), (true, "response p99, less is better")] {
        let mut lines: Vec<(String, String)> = Vec::new();
        for base in bases.iter().filter(|base| base.cell.rate.is_some() == open) {
            for other in others.iter().filter(|other| same_but_engine(&base.cell, &other.cell)) {
                lines.push((place(&base.cell), line(base, other, open, draw)));
            }
        }
        text.push_str(&block(workload, metric, &lines));
    }
    text
}

/// A title and the lines below it, each with its place in the grid; nothing without lines.
fn block(workload: &str, metric: &str, lines: &[(String, String)]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let width = lines.iter().map(|(place, _)| place.chars().count()).fold(0, usize::max);
    let mut text = format!(
        "\n{}: engines compared by {metric} (95% interval of the ratio, ~ where it contains 1)\n",
        escape(workload)
    );
    for (place, line) in lines {
        text.push_str(&format!("  {place:<width$}  {line}\n"));
    }
    text
}

fn same_but_engine(a: &Cell, b: &Cell) -> bool {
    a.threads == b.threads && a.part == b.part && a.sweep == b.sweep && a.rate == b.rate
}

/// What tells the cell apart within its workload and engine.
fn place(cell: &Cell) -> String {
    let mut text = format!("t{}", cell.threads);
    if let Some(part) = &cell.part {
        text.push_str(&format!(" {}", escape(&part.to_string())));
    }
    if let Some(sweep) = &cell.sweep {
        text.push_str(&format!(" {}={}", escape(&sweep.param), sweep.value));
    }
    if let Some(rate) = cell.rate {
        text.push_str(&format!(" rate={rate}"));
    }
    text
}

fn line(base: &Point, other: &Point, open: bool, draw: &mut dyn FnMut() -> u64) -> String {
    let (name, base_name) = (escape(&other.cell.engine), escape(&base.cell.engine));
    if base.durability != other.durability {
        return format!(
            "{name} not compared: durability {} vs {}",
            escape(&other.durability),
            escape(&base.durability)
        );
    }
    let Some(ratio) = Ratio::of(&samples(base, open), &samples(other, open), draw) else {
        return format!("{name} not compared: nothing was completed");
    };
    let about = if ratio.change() == Change::Same { "~" } else { "" };
    let mut text = format!("{name} {about}{:.2}x", ratio.ratio);
    if let Some((low, high)) = ratio.interval {
        text.push_str(&format!(" [{low:.2}, {high:.2}]"));
    }
    text.push_str(&format!(" vs {base_name}  "));
    match (ratio.interval, ratio.p) {
        (None, _) => text.push_str("(one repeat: no interval)"),
        (Some(_), None) => text.push_str("(no p)"),
        (Some(_), Some(p)) => text.push_str(&format!("(p={p:.3})")),
    }
    text
}

/// One number a repeat: primitive operations per second, or the response time's 99th percentile in
/// nanoseconds.
fn samples(point: &Point, open: bool) -> Vec<f64> {
    let of = |repeat: &keyrack_record::Repeat| {
        if open {
            repeat.unit.as_ref()?.response.percentile(99.0).map(|ns| ns as f64)
        } else {
            Some(repeat.ops_per_s)
        }
    };
    point.repeats.iter().filter_map(of).collect()
}
