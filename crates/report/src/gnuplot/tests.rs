//! The script of runs made by hand: its text, its choice of figures, and what gnuplot makes of it.
//!
//! With `KEYRACK_REWRITE=1` the file of `golden/` is written instead of compared. The tests that
//! draw are skipped, loudly, where there is no gnuplot.

use crate::gnuplot_script;
use crate::tests::sample::{closed, draw, open, run};
use keyrack_measure::Histogram;
use keyrack_record::{Load, OpStats, Point, Run, Summary, SweepValue};
use std::path::Path;
use std::process::Command;

/// Bytes that an empty picture of this size does not reach.
const PNG_BYTES_MIN: usize = 5_000;
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Rates within `spread` of `middle`, three of them.
fn three(middle: f64, spread: f64) -> [f64; 3] {
    [1.0 - spread, 1.0, 1.0 + spread].map(|factor| factor * middle)
}

/// A point of `workload` in which `verbs` with these latencies were called beside `get`.
fn point(
    workload: &str,
    engine: &str,
    threads: u32,
    rates: &[f64],
    verbs: &[(&str, u64)],
) -> Point {
    let mut point = closed(engine, threads, rates, 400 + 90 * u64::from(threads));
    point.cell.workload = workload.to_owned();
    for repeat in &mut point.repeats {
        repeat.load = Some(Load { wall_s: 1.0, keys: 50_000, threads: 1, reused: false });
        for (verb, ns) in verbs {
            let mut service = Histogram::new();
            for i in 0..1000 {
                service.record(ns + ns * i * i / 400_000);
            }
            repeat.ops.push(OpStats {
                op: (*verb).to_owned(),
                calls: 1000,
                prim_ops: 1000,
                hits: 0,
                misses: 0,
                errors: 0,
                first_error: None,
                service,
            });
        }
    }
    point.summary = Summary::of(&point.repeats, &mut draw(1));
    point
}

fn swept(mut point: Point, value: i64) -> Point {
    point.cell.sweep = Some(SweepValue { param: "batch".to_owned(), value });
    point
}

/// Two engines over threads, a swept workload, an open loop of two rates.
fn small_run() -> Run {
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

/// More of everything: five engines far apart, eight workloads, long names, a long command.
fn large_run() -> Run {
    let engines = [
        ("skiplist", "skiplist 0.1.3", 3.0),
        ("btree", "btree std", 2.1),
        ("redb", "redb 4.0.0", 0.6),
        ("rocksdb", "rocksdb 11.1.1", 1.2),
        ("lmdb", "lmdb 0.9.31", 1.6),
    ];
    let mut points = Vec::new();
    for (number, workload) in ["ycsb/a", "ycsb/b", "ycsb/c", "ycsb_a"].iter().enumerate() {
        for (engine, version, speed) in engines {
            for threads in [1, 2, 4, 8, 16] {
                let scale = f64::from(threads).powf(0.4 + 0.15 * speed);
                let rates = three(40_000.0 * speed * scale * (1.0 + number as f64), 0.06);
                let slow = (1000.0 * 4.0 / speed) as u64;
                let verbs = [("put", slow), ("range", slow * 40), ("rmw", slow * 2)];
                let mut point = point(workload, engine, threads, &rates, &verbs);
                point.engine_version = version.to_owned();
                points.push(point);
            }
        }
    }
    for (engine, version, speed) in engines {
        for threads in [1, 8] {
            for value in [1, 4, 16, 64, 256] {
                let rates = three(900_000.0 * speed / (5.0 + value as f64).sqrt(), 0.1);
                let mut point = swept(point("batch-sweep", engine, threads, &rates, &[]), value);
                point.engine_version = version.to_owned();
                points.push(point);
            }
        }
        for rate in [1000.0, 2000.0, 4000.0, 8000.0] {
            let response_ns = (rate * rate / speed) as u64 + 500;
            let mut point = open(engine, rate, &[0.9, 1.0, 1.1], response_ns);
            point.engine_version = version.to_owned();
            points.push(point);
        }
    }
    let mut run = run(points);
    run.header.backends = engines.map(|(engine, ..)| engine.to_owned()).to_vec();
    let command = "keyrack bench ycsb/a ycsb/b ycsb/c workloads/batch-sweep.lua workloads/paced.lua \
                   --backend skiplist,btree,redb,rocksdb,lmdb --threads 1,2,4,8,16 --repeat 3 --secs 30 \
                   --data-dir /data/bench --report-dir results --auto-plot --timeline 0.25";
    run.header.argv = command.split_whitespace().map(str::to_owned).collect();
    run.header.data_dir = Some("/data/bench".to_owned());
    run.probes[0].fields[1].1 = "Some Processor 7B13 64-Core at 2.45 GHz".to_owned();
    run.probes[0].fields.push(("cpu_cores".to_owned(), "16".to_owned()));
    run
}

/// Samples for the heads of `run`, as the timeline sink writes them.
fn timeline(run: &Run) -> String {
    let mut text = "workload\tengine\tthreads\tsweep_param\tsweep_value\tphase\telapsed_s\tmetric\tvalue\trepeat\n".to_owned();
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
                    ("run", "minflt", f64::from(step) * 90_000.0),
                    ("run", "rss_mb", 100.0 + f64::from(step)),
                    ("run", "disk_bytes", 1e8 + f64::from(step) * 1e7),
                ] {
                    text.push_str(&format!(
                        "{cell}\t{phase}\t{elapsed_s:.3}\t{metric}\t{value:.3}\t{repeat}\n"
                    ));
                }
            }
        }
    }
    text
}

/// The names of the files that a script draws.
fn outputs(script: &str) -> Vec<&str> {
    let names = script.lines().filter_map(|line| line.strip_prefix("set output 'figures/"));
    names.filter_map(|rest| rest.split(".'").next()).collect()
}

/// Draws `run` in a directory of its own; `None` without gnuplot.
#[expect(clippy::disallowed_methods, reason = "the files are the test's own")]
fn drawn(run: &Run, timeline: Option<&str>, before: &str) -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plot.gp"), gnuplot_script(run)).unwrap();
    if let Some(timeline) = timeline {
        std::fs::write(dir.path().join("timeline.tsv"), timeline).unwrap();
    }
    let mut command = Command::new("gnuplot");
    let command = command.current_dir(dir.path()).args(["-e", before, "plot.gp"]);
    match command.output() {
        Ok(output) => {
            let talk = String::from_utf8_lossy(&output.stderr).into_owned();
            println!("{talk}");
            assert!(output.status.success(), "{talk}");
            Some(dir)
        }
        Err(_) => {
            eprintln!("SKIPPED: gnuplot is not installed");
            None
        }
    }
}

#[test]
fn look() {
    for (i, r) in [small_run(), large_run()].into_iter().enumerate() {
        std::fs::create_dir_all(format!("/tmp/gp/{i}")).unwrap();
        std::fs::write(format!("/tmp/gp/{i}/plot.gp"), gnuplot_script(&r)).unwrap();
        std::fs::write(format!("/tmp/gp/{i}/timeline.tsv"), timeline(&r)).unwrap();
    }
}
