//! A run as people make them, with engines and numbers that were made up: eight engines, four
//! workloads, four thread counts, five repeats, and samples of a minute.

use crate::support::Lab;
use keyrack_measure::Histogram;
use keyrack_record::{
    Aftermath, Cell, Header, Load, OpStats, Point, Probe, Repeat, Run, SCHEMA, Summary,
    WorkloadText,
};
use keyrack_testkit::random::Draw;

/// Name, units a second on one thread, how they grow with threads, median of a get in nanoseconds,
/// and whether it is on disk.
const ENGINES: [(&str, f64, f64, u64, bool); 8] = [
    ("alder", 2_100_000.0, 0.93, 310, false),
    ("birch", 1_250_000.0, 0.90, 420, true),
    ("cedar", 820_000.0, 0.82, 700, true),
    ("elm", 310_000.0, 0.62, 1900, true),
    ("fir", 450_000.0, 0.35, 1100, true),
    ("hazel", 240_000.0, 0.58, 2600, true),
    ("maple", 150_000.0, 0.22, 3900, true),
    ("oak", 980_000.0, 0.72, 760, false),
];
const WORKLOADS: [(&str, f64); 4] =
    [("ycsb/a", 0.8), ("ycsb/b", 1.1), ("ycsb/c", 1.25), ("mixed", 0.55)];
const MADE_UP: &str = "an example: engines and numbers were made up, nothing was measured";
const THREADS: [u32; 4] = [1, 2, 4, 8];

/// Writes `run.json` and `timeline.tsv` in a directory of the lab. `factor` is how fast `cedar` is.
pub(super) fn write(lab: &Lab, dir: &str, factor: f64) {
    let mut draw = Draw::new(factor.to_bits());
    let mut points = Vec::new();
    let mut timeline = "workload\tengine\tthreads\tsweep_param\tsweep_value\tphase\telapsed_s\t\
                        metric\tvalue\trepeat\trate\n"
        .to_owned();
    for (workload, weight) in WORKLOADS {
        for threads in THREADS {
            for (engine, rate, growth, get_ns, on_disk) in ENGINES {
                let speed = if engine == "cedar" { factor } else { 1.0 };
                let rate = rate * weight * speed * f64::from(threads).powf(growth);
                let repeats: Vec<Repeat> =
                    (1..=5).map(|index| repeat(index, rate, get_ns, on_disk, &mut draw)).collect();
                let point = point(workload, engine, threads, repeats, &mut draw);
                if threads == 8 {
                    samples(&mut timeline, &point, rate, &mut draw);
                }
                points.push(point);
            }
        }
    }
    lab.make_dir(dir);
    lab.write(&format!("{dir}/run.json"), run(points).to_json().unwrap());
    lab.write(&format!("{dir}/timeline.tsv"), &timeline);
}

fn noise(draw: &mut Draw, spread: f64) -> f64 {
    1.0 + spread * (draw.below(2001) as f64 / 1000.0 - 1.0)
}

/// Latencies about a median, with a tail.
fn latencies(median_ns: f64, tail: f64, draw: &mut Draw) -> Histogram {
    let mut histogram = Histogram::new();
    for _ in 0..4000 {
        let share = (draw.below(1_000_000) as f64 + 0.5) / 1e6;
        let slow = (1.0 - share).powf(-tail);
        histogram.record((median_ns * (0.55 + 0.4 * share) * slow) as u64);
    }
    histogram
}

fn repeat(index: u32, rate: f64, get_ns: u64, on_disk: bool, draw: &mut Draw) -> Repeat {
    let rate = rate * noise(draw, 0.04);
    let tail = if on_disk { 0.62 } else { 0.36 };
    let op = |op: &str, factor: f64, draw: &mut Draw| {
        let service = latencies(get_ns as f64 * factor, tail, draw);
        let (hits, misses) = if op == "get" { (service.count(), 0) } else { (0, 0) };
        OpStats {
            op: op.to_owned(),
            calls: service.count(),
            prim_ops: service.count(),
            hits,
            misses,
            errors: 0,
            first_error: None,
            service,
        }
    };
    let units = (rate * 60.0) as u64;
    Repeat {
        index,
        started_s: f64::from(index) * 70.0,
        wall_s: 60.0,
        straggle_s: 0.001,
        warmup_s: 5.0,
        units,
        prim_ops: units,
        wu_per_s: rate,
        ops_per_s: rate,
        cpu_s: 300.0,
        engine_busy: 0.8,
        ops: vec![op("put", 1.6, draw), op("get", 1.0, draw)],
        unit: None,
        load: Some(Load {
            wall_s: 20.0,
            keys: 10_000_000,
            threads: 8,
            reused: false,
            durability: None,
        }),
        trace_hashes: Vec::new(),
        pace: None,
        counters: None,
        cgroup: None,
        footprint: None,
        traffic: None,
        clock_drift_ppm: 0.1,
        rows: Vec::new(),
        aftermath: on_disk.then_some(Aftermath {
            settle_s: 1.0,
            is_settled: true,
            cpu_s: 310.0,
            written_bytes: Some((units as f64 * (80.0 + get_ns as f64 * 0.2)) as u64),
            disk_bytes: Some((1.1e9 + get_ns as f64 * 4e5) as u64),
        }),
    }
}

fn point(
    workload: &str,
    engine: &str,
    threads: u32,
    repeats: Vec<Repeat>,
    draw: &mut Draw,
) -> Point {
    let summary = Summary::of(&repeats, &mut || draw.below(u64::MAX));
    let cell = Cell {
        workload: workload.to_owned(),
        engine: engine.to_owned(),
        threads,
        sweep: None,
        rate: None,
        part: None,
    };
    let flags = match (engine, workload) {
        ("maple", "mixed") => vec!["12 errors: put: no space left".to_owned()],
        _ => Vec::new(),
    };
    Point {
        cell,
        engine_version: format!("{engine} 1.0"),
        durability: "os".to_owned(),
        repeats,
        summary,
        flags,
        notes: Vec::new(),
    }
}

/// A minute of a cell: rates with the waves of compactions, what the system and the engine say.
fn samples(out: &mut String, point: &Point, rate: f64, draw: &mut Draw) {
    let cell = &point.cell;
    let on_disk = point.repeats[0].aftermath.is_some();
    let mut row = |phase: &str, at: f64, metric: &str, value: f64| {
        out.push_str(&format!(
            "{}\t{}\t{}\t\t1\t{phase}\t{at:.3}\t{metric}\t{value:.3}\t1\t\n",
            cell.workload, point.engine_version, cell.threads
        ));
    };
    for step in 1..=20 {
        let at = f64::from(step);
        row("seed", at, "seed_keys", 5e5 * at * noise(draw, 0.02));
    }
    for step in 1..=60 {
        let at = f64::from(step);
        let stalls = cell.engine == "elm" && (step % 23 < 2);
        let wave = if on_disk { 1.0 + 0.22 * (at / 4.0).sin() } else { 1.0 };
        let now = if stalls { rate * 0.03 } else { rate * wave * noise(draw, 0.05) };
        row("run", at, "wu_per_s", now);
        row("run", at, "cpu_util_pct", 62.0 * wave * noise(draw, 0.08));
        row("run", at, "rss_mb", 900.0 + 14.0 * at);
        if on_disk {
            row("run", at, "disk_bytes", 1.1e9 + 7e6 * at * wave);
            row("run", at, "memtable_bytes", 6.4e7 * (at / 7.0).fract());
            row("run", at, "compactions", (at / 7.0).floor());
        }
    }
}

fn run(points: Vec<Point>) -> Run {
    let fields = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let names = || ENGINES.iter().map(|(name, ..)| (*name).to_owned());
    let command = "keyrack bench ycsb/a ycsb/b ycsb/c workloads/mixed.lua --threads 1,2,4,8 \
                   --repeat 5 --secs 60 --warmup 5 --timeline 1 --data-dir /data --report-dir out";
    let workloads = WORKLOADS.iter().map(|(name, _)| WorkloadText {
        source: (*name).to_owned(),
        name: (*name).to_owned(),
        sha256: String::new(),
        text: String::new(),
    });
    Run {
        schema: SCHEMA,
        header: Header {
            version: "0.1.0".to_owned(),
            started: "2026-01-01T12:00:00Z".to_owned(),
            argv: command.split_whitespace().map(str::to_owned).collect(),
            seed: 1,
            repeat: 5,
            order: "interleave".to_owned(),
            backends: names().collect(),
            threads: THREADS.to_vec(),
            batch: vec![1],
            ops: None,
            secs: Some(60.0),
            warmup: 5.0,
            users: 100_000,
            items: 10_000_000,
            data_dir: Some("/data".to_owned()),
            clock: "tsc".to_owned(),
            vm: "Lua 5.4".to_owned(),
            params: Vec::new(),
            workloads: workloads.collect(),
            warnings: vec![MADE_UP.to_owned()],
        },
        probes: vec![
            Probe {
                name: "system".to_owned(),
                fields: fields(&[("host", "example"), ("cpu", "Example CPU"), ("cpu_cores", "8")]),
            },
            Probe { name: "build".to_owned(), fields: fields(&[("std", "release")]) },
        ],
        points,
        failures: Vec::new(),
        interrupted: None,
    }
}
