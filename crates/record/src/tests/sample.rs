//! Records made by hand.

use crate::*;
use keyrack_measure::Histogram;
use keyrack_testkit::random::Draw;

/// Draws for the bootstrap.
pub(super) fn draw(seed: u64) -> impl FnMut() -> u64 {
    let mut draw = Draw::new(seed);
    move || draw.next()
}

pub(super) fn histogram(values_ns: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    for &ns in values_ns {
        histogram.record(ns);
    }
    histogram
}

pub(super) fn op(name: &str, values_ns: &[u64]) -> OpStats {
    OpStats {
        op: name.to_owned(),
        calls: values_ns.len() as u64,
        prim_ops: values_ns.len() as u64,
        service: histogram(values_ns),
        ..OpStats::default()
    }
}

/// A repeat of gets with these latencies and this rate.
pub(super) fn repeat(index: u32, gets_ns: &[u64], per_s: f64) -> Repeat {
    Repeat {
        index,
        started_s: 0.5,
        wall_s: 1.5,
        straggle_s: 0.25,
        warmup_s: 0.125,
        units: gets_ns.len() as u64,
        prim_ops: gets_ns.len() as u64,
        wu_per_s: per_s,
        ops_per_s: per_s,
        cpu_s: 1.25,
        engine_busy: 0.5,
        ops: vec![op("get", gets_ns)],
        load: Some(Load { wall_s: 0.75, keys: 10, threads: 2, reused: true, durability: None }),
        trace_hashes: vec![0x0123_4567_89ab_cdef],
        clock_drift_ppm: -0.5,
        ..Repeat::default()
    }
}

pub(super) fn unit(offered_per_s: f64, achieved_per_s: f64, response_ns: &[u64]) -> UnitStats {
    UnitStats {
        offered_per_s,
        achieved_per_s,
        due: (response_ns.len() as f64 * offered_per_s / achieved_per_s).round() as u64,
        backlog_max: 3,
        backlog_end: 1,
        response: histogram(response_ns),
        service: histogram(response_ns),
    }
}

pub(super) fn point(repeats: Vec<Repeat>) -> Point {
    let summary = Summary::of(&repeats, &mut draw(1));
    Point {
        cell: Cell {
            workload: "mixed".to_owned(),
            engine: "skiplist".to_owned(),
            threads: 2,
            sweep: Some(SweepValue { param: "batch".to_owned(), value: -8 }),
            rate: Some(1000.5),
            part: None,
        },
        engine_version: "skiplist 1".to_owned(),
        durability: "none".to_owned(),
        repeats,
        summary,
        flags: vec!["a flag".to_owned()],
        notes: vec!["a note".to_owned()],
    }
}

/// A run in which no field is empty and no number happens to be whole by chance.
pub(super) fn run() -> Run {
    let values_ns: Vec<u64> = (0..500).map(|i| 100 + i * i).collect();
    let mut repeats = vec![repeat(1, &values_ns, 1000.5), repeat(2, &values_ns, 1010.25)];
    for repeat in &mut repeats {
        repeat.unit = Some(unit(1000.5, 999.5, &values_ns));
        (repeat.ops[0].hits, repeat.ops[0].misses, repeat.ops[0].errors) = (400, 100, 1);
        repeat.ops[0].first_error = Some("EIO".to_owned());
    }
    Run {
        schema: SCHEMA,
        header: Header {
            version: "0.1.0".to_owned(),
            started: "2023-11-14T22:13:20Z".to_owned(),
            argv: vec!["keyrack".to_owned()],
            seed: 1,
            repeat: 2,
            order: "interleave".to_owned(),
            backends: vec!["skiplist".to_owned()],
            threads: vec![2],
            batch: vec![1],
            ops: Some(500),
            secs: Some(2.5),
            warmup: 0.5,
            users: 10,
            items: 20,
            data_dir: Some("/data".to_owned()),
            clock: "fake".to_owned(),
            vm: "Lua 5.4".to_owned(),
            params: vec![("a".to_owned(), "b".to_owned())],
            workloads: vec![WorkloadText {
                source: "mixed.lua".to_owned(),
                name: "mixed".to_owned(),
                sha256: "00".repeat(32),
                text: "return {}".to_owned(),
            }],
            warnings: vec!["debug build".to_owned()],
        },
        probes: vec![Probe {
            name: "system".to_owned(),
            fields: vec![("host".to_owned(), "a".to_owned())],
        }],
        points: vec![point(repeats)],
        failures: vec![Failure {
            cell: Cell {
                workload: "mixed".to_owned(),
                engine: "btree".to_owned(),
                threads: 1,
                ..Cell::default()
            },
            repeat: 1,
            reason: "no".to_owned(),
            detail: "traceback".to_owned(),
        }],
        interrupted: Some("SIGINT".to_owned()),
    }
}
