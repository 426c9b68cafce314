//! Runs made by hand.

use keyrack_measure::Histogram;
use keyrack_record::{
    Cell, Header, OpStats, Point, Probe, Repeat, Run, SCHEMA, Summary, UnitStats, WorkloadText,
};
use keyrack_testkit::random::Draw;

/// Draws for the bootstrap.
pub(crate) fn draw(seed: u64) -> impl FnMut() -> u64 {
    let mut draw = Draw::new(seed);
    move || draw.next()
}

/// Five repeats within one percent of `middle`, which is their median.
pub(crate) fn around(middle: f64) -> [f64; 5] {
    [0.99, 1.0, 1.01, 0.995, 1.005].map(|x| x * middle)
}

/// One repeat for each rate; every get takes `get_ns`, give or take the repeat's number.
pub(crate) fn closed(engine: &str, threads: u32, rates: &[f64], get_ns: u64) -> Point {
    let repeats: Vec<Repeat> =
        rates.iter().zip(1..).map(|(&rate, index)| repeat(index, rate, get_ns)).collect();
    point("mixed", engine, threads, None, repeats)
}

/// An open loop that reaches its rate; `spread` varies the response time by repeat.
pub(crate) fn open(engine: &str, rate: f64, spread: &[f64], response_ns: u64) -> Point {
    let repeats = spread.iter().zip(1..).map(|(&factor, index)| {
        let response = latencies((response_ns as f64 * factor) as u64);
        let service = latencies(300);
        let mut repeat = repeat(index, rate, 200);
        repeat.unit = Some(UnitStats {
            offered_per_s: rate,
            achieved_per_s: rate,
            due: service.count(),
            backlog_max: 1,
            backlog_end: 0,
            response,
            service,
        });
        repeat
    });
    point("paced", engine, 1, Some(rate), repeats.collect())
}

fn point(
    workload: &str,
    engine: &str,
    threads: u32,
    rate: Option<f64>,
    repeats: Vec<Repeat>,
) -> Point {
    let summary = Summary::of(&repeats, &mut draw(1));
    Point {
        cell: Cell {
            workload: workload.to_owned(),
            engine: engine.to_owned(),
            threads,
            rate,
            ..Cell::default()
        },
        engine_version: format!("{engine} 1"),
        durability: "none".to_owned(),
        repeats,
        summary,
        ..Point::default()
    }
}

fn latencies(ns: u64) -> Histogram {
    let mut histogram = Histogram::new();
    histogram.record_n(ns, 1000);
    histogram
}

fn repeat(index: u32, rate: f64, get_ns: u64) -> Repeat {
    Repeat {
        index,
        wall_s: 1.0,
        units: 1000,
        prim_ops: 1000,
        wu_per_s: rate,
        ops_per_s: rate,
        cpu_s: 1.0,
        engine_busy: 0.5,
        ops: vec![OpStats {
            op: "get".to_owned(),
            calls: 1000,
            prim_ops: 1000,
            hits: 1000,
            service: latencies(get_ns + u64::from(index)),
            ..OpStats::default()
        }],
        ..Repeat::default()
    }
}

pub(crate) fn run(points: Vec<Point>) -> Run {
    let fields = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    Run {
        schema: SCHEMA,
        header: Header {
            version: "0.1.0".to_owned(),
            started: "2023-11-14T22:13:20Z".to_owned(),
            argv: vec!["keyrack".to_owned()],
            seed: 1,
            repeat: 5,
            order: "interleave".to_owned(),
            backends: vec!["btree".to_owned()],
            threads: vec![1],
            batch: vec![1],
            ops: Some(1000),
            users: 100_000,
            items: 100_000,
            clock: "fake".to_owned(),
            vm: "Lua 5.4".to_owned(),
            params: vec![("theta".to_owned(), "0.99".to_owned())],
            workloads: vec![WorkloadText {
                source: "mixed.lua".to_owned(),
                name: "mixed".to_owned(),
                sha256: "0f".repeat(32),
                text: "return {}".to_owned(),
            }],
            ..Header::default()
        },
        probes: vec![
            Probe { name: "system".to_owned(), fields: fields(&[("host", "h"), ("cpu", "c")]) },
            Probe { name: "build".to_owned(), fields: fields(&[("std", "release")]) },
        ],
        points,
        failures: Vec::new(),
        interrupted: None,
    }
}
