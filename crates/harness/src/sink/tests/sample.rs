//! The fixed run that the golden files render. All numbers are made up; histograms are filled by a
//! formula, so that a change of the histogram's layout shows.

use keyrack_measure::Histogram;
use keyrack_record::{
    Cell, Failure, Header, Load, OpStats, OpSummary, Phase, Point, Probe, RateSummary, Repeat, Run,
    SCHEMA, Summary, SweepValue, TimelineRow, UnitStats, WorkloadText,
};
use keyrack_testkit::random::Draw;

/// Seed of the draws behind the intervals of the golden files.
pub(super) const DRAW_SEED: u64 = 7;

/// A fixed sequence of draws.
pub(super) fn draw(seed: u64) -> Box<dyn FnMut() -> u64> {
    let mut draw = Draw::new(seed);
    Box::new(move || draw.next())
}

/// `count` latencies from `from_ns` on, ever further apart.
fn latencies(count: u64, from_ns: u64) -> Histogram {
    let mut histogram = Histogram::new();
    for i in 0..count {
        histogram.record(from_ns + from_ns * i * i / (count * count / 4 + 1));
    }
    histogram
}

fn verb(op: &str, calls: u64, keys: u64, from_ns: u64) -> OpStats {
    OpStats {
        op: op.to_owned(),
        calls,
        prim_ops: calls * keys,
        service: latencies(calls, from_ns),
        ..OpStats::default()
    }
}

fn repeat(index: u32, wall_s: f64, units: u64, ops: Vec<OpStats>) -> Repeat {
    let prim_ops: u64 = ops.iter().map(|op| op.prim_ops).sum();
    Repeat {
        index,
        started_s: f64::from(index) * 2.5,
        wall_s,
        straggle_s: 0.001,
        units,
        prim_ops,
        wu_per_s: units as f64 / wall_s,
        ops_per_s: prim_ops as f64 / wall_s,
        cpu_s: wall_s * 0.98,
        engine_busy: 0.61,
        ops,
        load: Some(Load { wall_s: 0.25, keys: 1000, threads: 1, reused: false, durability: None }),
        trace_hashes: vec![0xfeed_0000_dead_beef],
        clock_drift_ppm: 0.5,
        ..Repeat::default()
    }
}

fn point(cell: Cell, version: &str, repeats: Vec<Repeat>) -> Point {
    let summary = Summary::of(&repeats, &mut *draw(DRAW_SEED));
    Point {
        cell,
        engine_version: version.to_owned(),
        durability: "none".to_owned(),
        repeats,
        summary,
        ..Point::default()
    }
}

fn cell(workload: &str, engine: &str, threads: u32) -> Cell {
    let (workload, engine) = (workload.to_owned(), engine.to_owned());
    Cell { workload, engine, threads, ..Cell::default() }
}

/// Gets and puts, one a unit, in the time given for each repeat.
fn mixed(engine: &str, version: &str, threads: u32, walls_s: [f64; 3]) -> Point {
    let repeats = walls_s.iter().zip(1..).map(|(&wall_s, index)| {
        let mut get = verb("get", 3000, 1, 180);
        (get.hits, get.misses) = (2766, 234);
        repeat(index, wall_s, 5000, vec![verb("put", 2000, 1, 240), get])
    });
    point(cell("mixed", engine, threads), version, repeats.collect())
}

/// Batches of 64 that now and then fail, fewer than percentiles need, swept.
fn batch(engine: &str, version: &str, value: i64) -> Point {
    let repeats = [0.010, 0.011, 0.012].iter().zip(1..).map(|(&wall_s, index)| {
        let mut mget = verb("mget", 90, 64, 20_000);
        (mget.hits, mget.misses) = (90 * 64, 0);
        let mut mput = verb("mput", 60, 64, 1_200_000);
        mput.errors = 3;
        mput.first_error = Some("no space left on device\n(os error 28)".to_owned());
        repeat(index, wall_s, 150, vec![mget, mput])
    });
    let mut cell = cell("batch", engine, 1);
    cell.sweep = Some(SweepValue { param: "batch".to_owned(), value });
    let mut point = point(cell, version, repeats.collect());
    point.durability = "os".to_owned();
    point.flags.push("mput failed in 5.0% of calls".to_owned());
    point
}

/// An open loop that reaches `achieved` of `offered` units per second.
fn paced(engine: &str, version: &str, offered: f64, achieved: f64, wait_ns: u64) -> Point {
    let repeats = [1.0, 1.0, 1.0].iter().zip(1..).map(|(&wall_s, index)| {
        let ops = vec![verb("get", 2000, 1, 200)];
        let mut repeat = repeat(index, wall_s, 2000, ops);
        repeat.unit = Some(UnitStats {
            offered_per_s: offered,
            achieved_per_s: achieved - f64::from(index),
            due: (2000.0 * offered / achieved) as u64,
            backlog_max: 10 + u64::from(index),
            backlog_end: u64::from(index) - 1,
            response: latencies(2000, wait_ns * u64::from(20 + index) / 20),
            service: latencies(2000, 300),
        });
        repeat
    });
    let mut cell = cell("paced", engine, 1);
    cell.rate = Some(offered);
    let mut point = point(cell, version, repeats.collect());
    point.flags.extend(point.open_loop().and_then(|open| open.missed_text()));
    point.notes.push(format!("highest rate found: {achieved:.0}"));
    point.notes.push("a second note".to_owned());
    point
}

fn header() -> Header {
    Header {
        version: "0.1.0".to_owned(),
        started: "2023-11-14T22:13:20Z".to_owned(),
        argv: ["keyrack", "bench", "mixed.lua"].map(str::to_owned).to_vec(),
        seed: 1,
        repeat: 3,
        order: "interleave".to_owned(),
        backends: vec!["btree".to_owned(), "skiplist".to_owned()],
        threads: vec![1, 4],
        batch: vec![1, 64],
        ops: Some(5000),
        secs: None,
        warmup: 0.5,
        users: 100_000,
        items: 100_000,
        data_dir: None,
        clock: "tsc".to_owned(),
        vm: "Lua 5.4".to_owned(),
        params: vec![("theta".to_owned(), "0.99".to_owned())],
        workloads: ["mixed", "batch", "paced"]
            .map(|name| WorkloadText {
                source: format!("{name}.lua"),
                name: name.to_owned(),
                sha256: "0f".repeat(32),
                text: "return {}\n".to_owned(),
            })
            .to_vec(),
        warnings: vec!["this is a debug build".to_owned()],
    }
}

fn probes() -> Vec<Probe> {
    let fields = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    vec![
        Probe {
            name: "system".to_owned(),
            fields: fields(&[("host", "bench1"), ("cpu_cores", "16"), ("governor", "n/a")]),
        },
        Probe { name: "build".to_owned(), fields: fields(&[("allocator", "system")]) },
    ]
}

/// Two engines, three workloads, a failure, a missed rate, an early end.
pub(super) fn kept_run() -> Run {
    let (btree, skiplist) = ("btree", "skiplist 0.1.3");
    Run {
        schema: SCHEMA,
        header: header(),
        probes: probes(),
        points: vec![
            mixed("btree", btree, 1, [0.050, 0.052, 0.051]),
            mixed("skiplist", skiplist, 1, [0.035, 0.036, 0.0355]),
            mixed("btree", btree, 4, [0.020, 0.030, 0.025]),
            batch("btree", btree, 64),
            batch("skiplist", skiplist, 64),
            paced("btree", btree, 2000.0, 2000.0, 900),
            paced("skiplist", skiplist, 2000.0, 2000.0, 910),
            paced("skiplist", skiplist, 8000.0, 4000.0, 40_000_000),
        ],
        failures: vec![Failure {
            cell: cell("mixed", "skiplist", 4),
            repeat: 2,
            reason: "run() error at iter 17: mixed.lua:9: boom".to_owned(),
            detail: "stack traceback:\n\tmixed.lua:9: in function 'run'".to_owned(),
        }],
        interrupted: Some("SIGINT".to_owned()),
    }
}

/// A single point with the numbers that keybench published for its first example.
pub(super) fn seed_run() -> Run {
    let op = |op: &str, calls, [p50_ns, p99_ns, p999_ns, max_ns]: [f64; 4], hit_rate| OpSummary {
        op: op.to_owned(),
        calls,
        p50_ns,
        p99_ns,
        p999_ns,
        max_ns,
        mean_ns: p50_ns,
        hit_rate,
        error_rate: 0.0,
    };
    let rate = RateSummary { median: 17819.0, low: 17819.0, high: 17819.0, interval: None };
    let summary = Summary {
        wu_per_s: rate,
        ops_per_s: rate,
        ops: vec![
            op("put", 60404, [8_640.0, 22_910.0, 75_260.0, 376_620.0], None),
            op("get", 99617, [10_430.0, 31_360.0, 46_340.0, 108_910.0], Some(0.922)),
            op("del", 19955, [4_190.0, 15_170.0, 29_820.0, 47_020.0], None),
            op("range", 20024, [407_550.0, 643_070.0, 806_910.0, 1_040_000.0], None),
        ],
        ..Summary::default()
    };
    let mut header = header();
    header.repeat = 1;
    header.backends = vec!["rocksdb".to_owned()];
    header.threads = vec![1];
    header.batch = vec![1];
    header.workloads.truncate(1);
    let cell = cell("mixed", "rocksdb", 1);
    Run {
        schema: SCHEMA,
        header,
        probes: probes(),
        points: vec![Point {
            cell,
            engine_version: "rocksdb 11.1.1".to_owned(),
            durability: "os".to_owned(),
            repeats: vec![repeat(1, 11.224, 200_000, Vec::new())],
            summary,
            ..Point::default()
        }],
        failures: Vec::new(),
        interrupted: None,
    }
}

/// Samples of two moments of one phase, one of the load, one of a swept cell, and one of each of
/// two cells that differ in their rate alone.
pub(super) fn timeline_rows() -> Vec<TimelineRow> {
    let row = |phase, elapsed_s, metric: &str, value, repeat| TimelineRow {
        cell: cell("mixed", "btree", 1),
        engine_version: "btree".to_owned(),
        repeat,
        phase,
        elapsed_s,
        metric: metric.to_owned(),
        value,
    };
    let mut swept = row(Phase::Run, 0.25, "wu_per_s", 10.0, 2);
    swept.cell.workload = "batch".to_owned();
    swept.cell.sweep = Some(SweepValue { param: "batch".to_owned(), value: 64 });
    let paced = |rate, value| {
        let mut paced = row(Phase::Run, 0.5, "wu_per_s", value, 1);
        paced.cell.rate = Some(rate);
        paced
    };
    vec![
        row(Phase::Seed, 0.25, "keys_per_s", 400_000.25, 1),
        row(Phase::Run, 1.0, "wu_per_s", 98_039.215_686, 1),
        row(Phase::Run, 1.0, "get_p99_ns", 512.0, 1),
        row(Phase::Run, 2.0, "wu_per_s", 98_000.0, 1),
        swept,
        paced(1000.0, 999.0),
        paced(2000.0, 1998.0),
    ]
}
