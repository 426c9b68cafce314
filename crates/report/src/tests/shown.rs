//! A run that has something for every figure, and its samples.

use super::sample::{closed, draw, open, run};
use crate::{Recorded, Timeline};
use keyrack_measure::Histogram;
use keyrack_record::{Aftermath, Load, OpStats, Point, Run, Summary, SweepValue};

/// Rates within `spread` of `middle`, three of them.
pub(crate) fn three(middle: f64, spread: f64) -> [f64; 3] {
    [1.0 - spread, 1.0, 1.0 + spread].map(|factor| factor * middle)
}

/// A point of `workload` in which `verbs` with these latencies were called beside `get`.
pub(crate) fn point(
    workload: &str,
    engine: &str,
    threads: u32,
    rates: &[f64],
    verbs: &[(&str, u64)],
) -> Point {
    let mut point = closed(engine, threads, rates, 400 + 90 * u64::from(threads));
    point.cell.workload = workload.to_owned();
    for repeat in &mut point.repeats {
        repeat.load =
            Some(Load { wall_s: 1.0, keys: 50_000, threads: 1, reused: false, durability: None });
        for (verb, ns) in verbs {
            let mut service = Histogram::new();
            for i in 0..1000 {
                service.record(ns + ns * i * i / 400_000);
            }
            repeat.ops.push(OpStats {
                op: (*verb).to_owned(),
                calls: 1000,
                prim_ops: 1000,
                service,
                ..OpStats::default()
            });
        }
    }
    point.summary = Summary::of(&point.repeats, &mut draw(1));
    point
}

pub(crate) fn swept(mut point: Point, value: i64) -> Point {
    point.cell.sweep = Some(SweepValue { param: "batch".to_owned(), value });
    point
}

/// Two engines over threads, a swept workload, an open loop of two rates.
pub(crate) fn small_run() -> Run {
    let mut points = Vec::new();
    for threads in [1, 4] {
        for (engine, rate) in [("btree", 90_000.0), ("skiplist", 140_000.0)] {
            let rates = three(rate * f64::from(threads).sqrt(), 0.05);
            points.push(point("ycsb/a", engine, threads, &rates, &[("put", 700)]));
        }
    }
    for value in [1, 64] {
        let rates = [1_000_000.0 / (value + 10) as f64];
        points.push(swept(point("batches", "btree", 1, &rates, &[]), value));
    }
    for rate in [2000.0, 8000.0] {
        points.push(open("btree", rate, &[1.0], rate as u64));
    }
    points[2].flags.push("1 error".to_owned());
    let mut run = run(points);
    run.header.backends = vec!["skiplist".to_owned(), "btree".to_owned()];
    run.header.argv = ["keyrack", "bench", "ycsb/a", "-P", "name=it's"].map(str::to_owned).to_vec();
    run.header.warnings = vec!["this is a debug build".to_owned()];
    run.probes[0].fields[1].1 = "Z80 at 4 MHz".to_owned();
    run
}

/// Those of `timeline.tsv`, with a blank between.
pub(crate) const COLUMNS: &str =
    "workload engine threads sweep_param sweep_value phase elapsed_s metric value repeat rate";

/// Samples for the heads of `run`, as the timeline sink writes them.
pub(crate) fn timeline(run: &Run) -> String {
    let mut text = COLUMNS.replace(' ', "\t") + "\n";
    let mut random = draw(5);
    for point in &run.points {
        let (param, value) = match &point.cell.sweep {
            Some(sweep) => (sweep.param.as_str(), sweep.value),
            None => ("", 1),
        };
        for repeat in 1..=2 {
            for step in 1..=40 {
                let noise = 0.9 + 0.2 * (random() >> 11) as f64 / (1u64 << 53) as f64;
                let rate = point.summary.wu_per_s.median * noise;
                let elapsed_s = f64::from(step) * 0.25;
                let cell = format!(
                    "{}\t{}\t{}\t{param}\t{value}",
                    point.cell.workload, point.engine_version, point.cell.threads
                );
                for (phase, metric, value) in [
                    ("seed", "seed_keys", f64::from(step) * 1250.0 * noise),
                    ("run", "wu_per_s", rate),
                    ("run", "cpu_util_pct", 70.0 * noise),
                    ("run", "majflt", 0.0),
                    ("run", "minflt", f64::from(step) * 90_000.0),
                    ("run", "rss_mb", 100.0 + f64::from(step)),
                    ("run", "disk_bytes", 1e8 + f64::from(step) * 1e7),
                ] {
                    text.push_str(&format!(
                        "{cell}\t{phase}\t{elapsed_s:.3}\t{metric}\t{value:.3}\t{repeat}\t\n"
                    ));
                }
            }
        }
    }
    text
}

/// A run without samples.
pub(crate) fn bare(name: &str, run: Run) -> Recorded {
    Recorded { name: name.to_owned(), run, timeline: Timeline::default() }
}

/// [`small_run`] with its samples, some of an engine's own, and what came after the phases.
pub(crate) fn recorded(name: &str) -> Recorded {
    let mut run = small_run();
    run.probes[0].fields.push(("cpu_cores".to_owned(), "2".to_owned()));
    for point in run.points.iter_mut().filter(|point| point.cell.workload == "ycsb/a") {
        for repeat in &mut point.repeats {
            repeat.aftermath = Some(Aftermath {
                settle_s: 0.5,
                is_settled: true,
                cpu_s: 1.0,
                written_bytes: Some(120_000 + 900 * u64::from(repeat.index)),
                disk_bytes: Some(64 << 20),
            });
        }
    }
    let mut text = timeline(&run);
    for point in run.points.iter().filter(|point| point.cell.rate.is_none()) {
        let cell = &point.cell;
        let (param, value) =
            cell.sweep.as_ref().map_or(("", 1), |sweep| (sweep.param.as_str(), sweep.value));
        for step in 1..=20 {
            for (metric, number) in [("keys", 50_000 + 100 * step), ("memtable_bytes", step << 20)]
            {
                text.push_str(&format!(
                    "{}\t{}\t{}\t{param}\t{value}\trun\t{:.3}\t{metric}\t{number}\t1\t\n",
                    cell.workload,
                    point.engine_version,
                    cell.threads,
                    f64::from(step) * 0.5,
                ));
            }
        }
    }
    let timeline = Timeline::parse("timeline.tsv", &text).unwrap();
    Recorded { name: name.to_owned(), run, timeline }
}
