//! The comparison of engines within one run, printed when a workload ran on two or more.
//!
//! ```text
//! mixed: engines compared by ops/sec (95% interval of the ratio, ~ where it contains 1)
//!   t1  skiplist 1.42x [1.38, 1.47] vs btree  (p=0.004)
//!   t2  skiplist ~1.01x [0.97, 1.05] vs btree  (p=0.700)
//!   t4  rocksdb 1.12x [1.08, 1.17] vs flodb  (p=0.004)
//!   t4  redb not compared: durability sync, no other engine has it
//! ```
//!
//! Engines of unequal durability do unequal work for an acknowledgement and are never compared. So
//! there is a base for each durability: in each cell the engine with it that was listed first. In
//! an open loop all engines complete what was offered, so there the 99th percentile of
//! the response time is compared, under a title that says so. With one repeat there is a ratio and
//! no interval.

use super::summary::engine_major;
use super::text::escape;
use keyrack_record::{Cell, Change, Point, Ratio, Run};

/// The lines for one workload, or nothing for a single engine.
pub(super) fn engines(run: &Run, workload: &str, draw: &mut dyn FnMut() -> u64) -> String {
    let points = engine_major(run, workload);
    let mut text = String::new();
    for (open, metric) in [(false, "ops/sec"), (true, "response p99, less is better")] {
        let mut lines: Vec<(String, String)> = Vec::new();
        let mut done: Vec<&Cell> = Vec::new();
        for first in points.iter().filter(|point| point.cell.rate.is_some() == open) {
            if done.iter().any(|cell| same_but_engine(cell, &first.cell)) {
                continue;
            }
            done.push(&first.cell);
            let here: Vec<&Point> = points
                .iter()
                .copied()
                .filter(|point| same_but_engine(&point.cell, &first.cell))
                .collect();
            if here.iter().all(|point| point.cell.engine == first.cell.engine) {
                continue;
            }
            for (index, point) in here.iter().enumerate() {
                let equals = |other: &&&Point| other.durability == point.durability;
                let line = match here[..index].iter().find(equals) {
                    Some(base) if base.cell.engine == point.cell.engine => continue,
                    Some(base) => line(base, point, open, draw),
                    None if here[index + 1..].iter().any(|other| equals(&other)) => continue,
                    None => alone(point),
                };
                lines.push((place(&first.cell), line));
            }
        }
        text.push_str(&block(workload, metric, &lines));
    }
    text
}

/// The line of an engine that has nobody to be compared with.
fn alone(point: &Point) -> String {
    let (name, durability) = (escape(&point.cell.engine), escape(&point.durability));
    format!("{name} not compared: durability {durability}, no other engine has it")
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
