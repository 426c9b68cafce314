//! Golden renderings of one fixed run, and what every sink owes its caller.
//!
//! The run is made by hand in `sample`; the expected bytes are in `golden/`. With
//! `KEYRACK_REWRITE=1` the files are written instead of compared; read the difference before
//! keeping it.

mod gnuplot;
mod notebook;
mod sample;

use super::*;
use keyrack_record::{CgroupUse, Counters, Pace, Traffic};
use sample::{DRAW_SEED, kept_run, seed_run, timeline_rows};
use std::cell::RefCell;
use std::rc::Rc;

/// An output that shows what has been flushed apart from what has been written.
#[derive(Clone, Default)]
struct Disk {
    state: Rc<RefCell<DiskState>>,
}

#[derive(Default)]
struct DiskState {
    written: Vec<u8>,
    flushed: usize,
}

impl Disk {
    fn flushed(&self) -> String {
        let state = self.state.borrow();
        String::from_utf8(state.written[..state.flushed].to_vec()).unwrap()
    }

    fn all_is_flushed(&self) -> bool {
        let state = self.state.borrow();
        state.flushed == state.written.len()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.state.borrow_mut().written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        state.flushed = state.written.len();
        Ok(())
    }
}

/// An output without room.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn open_over(kind: SinkKind, dialect: Dialect, out: Box<dyn Write>) -> Box<dyn Sink> {
    open(kind, out, dialect, sample::draw(DRAW_SEED))
}

/// Gives a sink everything that a harness would.
fn feed(sink: &mut dyn Sink, run: &Run) -> io::Result<()> {
    sink.begin(&run.header)?;
    for probe in &run.probes {
        sink.probe(probe)?;
    }
    for row in timeline_rows() {
        sink.row(&row)?;
    }
    for point in &run.points {
        sink.point(point, &run.header)?;
    }
    for failure in &run.failures {
        sink.failure(failure)?;
    }
    sink.end(run)
}

/// `text` with each encoded histogram replaced by what it holds: golden files should change with
/// the numbers and not with the compressor.
fn decoded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("HISTFAAA") {
        let (before, encoded) = rest.split_at(start);
        let end = encoded.find(['"', '\n']).unwrap_or(encoded.len());
        let histogram = keyrack_hdr::import(&encoded[..end]).unwrap();
        let percentiles = [0.0, 50.0, 99.0, 100.0].map(|p| histogram.percentile(p).unwrap_or(0));
        out.push_str(&format!("{before}<{} in {percentiles:?}>", histogram.count()));
        rest = &encoded[end..];
    }
    out + rest
}

fn rendered(kind: SinkKind, dialect: Dialect, run: &Run) -> String {
    let disk = Disk::default();
    let mut sink = open_over(kind, dialect, Box::new(disk.clone()));
    feed(&mut *sink, run).unwrap();
    assert!(disk.all_is_flushed());
    disk.flushed()
}

#[expect(clippy::disallowed_methods, reason = "golden files are the test's own")]
fn golden(name: &str, found: &str) {
    let path = format!("{}/src/sink/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    let line = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
    assert!(
        expected == found,
        "{name} differs from line {:?} on; KEYRACK_REWRITE=1 writes this:\n{found}",
        line.map(|line| line + 1)
    );
}

#[test]
fn console_of_keyrack() {
    golden("console.txt", &rendered(SinkKind::Console, Dialect::Keyrack, &kept_run()));
}

#[test]
fn console_of_the_seed() {
    golden("seed.txt", &rendered(SinkKind::Console, Dialect::Seed, &seed_run()));
}

#[test]
fn console_of_the_seed_over_a_grid() {
    golden("seed-grid.txt", &rendered(SinkKind::Console, Dialect::Seed, &kept_run()));
}

#[test]
fn tsv() {
    golden("points.txt", &rendered(SinkKind::Tsv, Dialect::Keyrack, &kept_run()));
}

#[test]
fn dbbench() {
    golden("dbbench.txt", &rendered(SinkKind::DbBench, Dialect::Keyrack, &kept_run()));
}

#[test]
fn timeline() {
    golden("timeline.txt", &rendered(SinkKind::Timeline, Dialect::Keyrack, &kept_run()));
}

#[test]
fn json() {
    let mut run = kept_run();
    // One closed and one open loop show every field.
    run.points = [0, 7].map(|index| run.points[index].clone()).to_vec();
    for point in &mut run.points {
        point.repeats.truncate(1);
    }
    golden("run.txt", &decoded(&rendered(SinkKind::Json, Dialect::Keyrack, &run)));
}

#[test]
fn hdr_log() {
    golden("hdr.txt", &decoded(&rendered(SinkKind::Hdr, Dialect::Keyrack, &kept_run())));
}

/// The lines that parsers of keybench were written against, byte for byte.
#[test]
fn the_seed_report_has_the_published_lines() {
    let text = rendered(SinkKind::Console, Dialect::Seed, &seed_run());
    for line in [
        "keybench 0.1.0: 1 workload(s), engine=rocksdb seed=1 repeat=1",
        "  threads: 1   batch: 1",
        "[probe: system]",
        "  cpu_cores      16",
        "=== mixed ===",
        "engine=rocksdb 11.1.1  threads=1  batch=1  (median of 1 run)",
        "op             count        p50        p99      p99.9        max",
        "put            60404    8.64 us   22.91 us   75.26 us  376.62 us",
        "get            99617   10.43 us   31.36 us   46.34 us  108.91 us",
        "range          20024  407.55 us  643.07 us  806.91 us    1.04 ms",
        "get hit rate: 92.2%",
        "throughput: 17819 /sec (1 op per unit)",
    ] {
        assert!(text.lines().any(|found| found == line), "no line '{line}' in:\n{text}");
    }
    assert!(text.ends_with("throughput: 17819 /sec (1 op per unit)\n"), "{text}");
}

/// A run that is killed keeps every point that was whole.
#[test]
fn a_point_is_flushed_before_the_next_is_measured() {
    let run = kept_run();
    let early =
        [SinkKind::Console, SinkKind::Tsv, SinkKind::Timeline, SinkKind::Hdr, SinkKind::DbBench];
    for kind in early {
        let disk = Disk::default();
        let mut sink = open_over(kind, Dialect::Keyrack, Box::new(disk.clone()));
        sink.begin(&run.header).unwrap();
        assert!(disk.all_is_flushed(), "{kind:?}");
        for point in &run.points {
            for row in timeline_rows() {
                sink.row(&row).unwrap();
            }
            sink.point(point, &run.header).unwrap();
            assert!(disk.all_is_flushed(), "{kind:?}");
        }
        let last = if kind == SinkKind::Timeline { "batch" } else { "paced" };
        assert!(disk.flushed().contains(last), "{kind:?}");
    }
}

#[test]
fn counters_and_the_group_have_columns_and_lines() {
    let mut run = kept_run();
    let point = &mut run.points[0];
    for repeat in &mut point.repeats {
        let cycles = Some(repeat.prim_ops * 300);
        repeat.counters = Some(Counters { cycles, ..Counters::default() });
        repeat.cgroup = Some(CgroupUse {
            throttled_periods: Some(4),
            throttled_s: Some(0.5),
            memory_peak_bytes: Some(64 << 20),
            ..CgroupUse::default()
        });
    }
    let text = rendered(SinkKind::Tsv, Dialect::Keyrack, &run);
    let head: Vec<&str> = text.lines().next().unwrap().split('\t').collect();
    let line: Vec<&str> = text.lines().nth(1).unwrap().split('\t').collect();
    let of = |name: &str| line[head.iter().position(|column| *column == name).unwrap()];
    assert_eq!(["cycles_per_op", "instructions_per_op"].map(of), ["300.0000", ""]);
    let group = ["cgroup_cpu_s", "cgroup_throttled_periods", "cgroup_throttled_s"].map(of);
    assert_eq!(group, ["", "4", "0.5000"]);
    let text = rendered(SinkKind::Console, Dialect::Keyrack, &run);
    assert!(text.contains("\nper op: cycles 300 (outside of the kernel)\n"), "{text}");
    assert!(text.contains("\ncgroup: held back 0.50 s\n"), "{text}");
}

/// Cells that differ in their rate alone had rows that nothing told apart.
#[test]
fn samples_of_two_rates_are_told_apart() {
    let text = rendered(SinkKind::Timeline, Dialect::Keyrack, &kept_run());
    let of_rate =
        |rate: &str| text.lines().filter(|line| line.split('\t').nth(10) == Some(rate)).count();
    assert_eq!((of_rate("rate"), of_rate("1000.0"), of_rate("2000.0")), (1, 1, 1), "{text}");
}

/// A kill in the middle of a long cell loses at most the latest moment's samples.
#[test]
fn a_new_moment_flushes_the_one_before() {
    let disk = Disk::default();
    let mut sink = open_over(SinkKind::Timeline, Dialect::Keyrack, Box::new(disk.clone()));
    sink.begin(&kept_run().header).unwrap();
    let rows = timeline_rows();
    let (first, later) = (&rows[0], rows.iter().find(|r| r.elapsed_s != rows[0].elapsed_s));
    sink.row(first).unwrap();
    assert!(!disk.all_is_flushed());
    sink.row(later.unwrap()).unwrap();
    assert_eq!(disk.flushed().lines().count(), 2);
}

#[test]
fn a_full_disk_is_the_callers_to_hear_of() {
    let run = kept_run();
    for name in SinkKind::NAMES {
        let kind = SinkKind::named(name).unwrap();
        let mut sink = open_over(kind, Dialect::Keyrack, Box::new(Full));
        let error = feed(&mut *sink, &run).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{name}");
    }
}

#[test]
fn json_reads_back_as_the_run() {
    let run = kept_run();
    let text = rendered(SinkKind::Json, Dialect::Keyrack, &run);
    let back = Run::from_json(&text).unwrap();
    assert_eq!(back.points.len(), run.points.len());
    assert_eq!(
        rendered(SinkKind::Tsv, Dialect::Keyrack, &back),
        rendered(SinkKind::Tsv, Dialect::Keyrack, &run)
    );
}

#[test]
fn every_tsv_row_has_every_column() {
    let mut run = kept_run();
    run.points[0].cell.workload = "a\tb\nc".to_owned();
    run.points[0].flags.push("two\tcolumns\nand lines".to_owned());
    run.points[0].notes.push("two\tcolumns\nand lines".to_owned());
    for kind in [SinkKind::Tsv, SinkKind::Timeline] {
        let text = rendered(kind, Dialect::Keyrack, &run);
        let columns = text.lines().next().unwrap().split('\t').count();
        for line in text.lines() {
            assert_eq!(line.split('\t').count(), columns, "{line}");
        }
    }
}

/// Readers of the fifteen columns parse each of them as they did.
#[test]
fn the_first_columns_of_tsv_are_those_of_keybench() {
    let text = rendered(SinkKind::Tsv, Dialect::Keyrack, &kept_run());
    let head: Vec<&str> = text.lines().next().unwrap().split('\t').take(15).collect();
    let known = "workload engine threads sweep_param sweep_value op count p50_ns p99_ns p999_ns \
                 max_ns hit_rate err_rate wu_per_s ops_per_s";
    assert_eq!(head, known.split_whitespace().collect::<Vec<_>>());
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        for index in [2, 4, 6, 7, 8, 9, 10] {
            assert!(fields[index].parse::<u64>().is_ok(), "{} in {line}", head[index]);
        }
        for index in 11..15 {
            assert!(fields[index].parse::<f64>().is_ok(), "{} in {line}", head[index]);
        }
    }
}

#[test]
fn amplification_and_stalls_have_columns() {
    let mut run = kept_run();
    let point = &mut run.points[0];
    for repeat in &mut point.repeats {
        repeat.traffic = Some(Traffic {
            user_written_bytes: 100,
            user_read_bytes: 50,
            written_bytes: Some(250),
            read_bytes: Some(0),
            disk_bytes: Some(300),
            live_bytes: None,
        });
        repeat.pace = Some(Pace {
            stalls: 2,
            stalled_s: 0.75,
            longest_s: 0.5,
            is_steady: Some(repeat.index != 1),
            drift: Some(1.25),
            variation: None,
        });
    }
    let repeats = point.repeats.len() as u64;
    let text = rendered(SinkKind::Tsv, Dialect::Keyrack, &run);
    let head: Vec<&str> = text.lines().next().unwrap().split('\t').collect();
    let line: Vec<&str> = text.lines().nth(1).unwrap().split('\t').collect();
    let of = |name: &str| line[head.iter().position(|column| *column == name).unwrap()];
    let moved = ["user_written_bytes", "user_read_bytes", "written_bytes", "read_bytes"].map(of);
    assert_eq!(moved, ["100", "50", "250", "0"]);
    assert_eq!(["disk_bytes", "live_bytes"].map(of), ["300", ""]);
    assert_eq!(["write_amp", "read_amp", "space_amp"].map(of), ["2.5000", "0.0000", ""]);
    let (stalls, stalled_s) = ((2 * repeats).to_string(), format!("{:.3}", 0.75 * repeats as f64));
    assert_eq!(["stalls", "stalled_s"].map(of), [&stalls, &stalled_s]);
    let rest = ["longest_stall_s", "steady", "drift", "variation"].map(of);
    assert_eq!(rest, ["0.500", "no", "1.2500", ""]);
    // A point on no disk, too short to be judged: all of them are empty.
    let last: Vec<&str> = text.lines().last().unwrap().split('\t').collect();
    assert!(last[36..].iter().all(|field| field.is_empty()), "{last:?}");
}

#[test]
fn few_samples_have_no_tail() {
    let mut run = kept_run();
    run.points.truncate(1);
    let mut tail = |calls: u64| {
        run.points[0].summary.ops.truncate(1);
        run.points[0].summary.ops[0].calls = calls;
        let text = rendered(SinkKind::Console, Dialect::Keyrack, &run);
        let row = text.lines().find(|line| line.starts_with("put ")).unwrap().to_owned();
        row.matches(" -").count()
    };
    assert_eq!([99, 100, 999, 1000].map(&mut tail), [2, 1, 1, 0]);
}

#[test]
fn unequal_durability_is_not_compared() {
    let mut run = kept_run();
    for point in &mut run.points {
        point.durability =
            if point.cell.engine == "btree" { "none".to_owned() } else { "os".to_owned() };
    }
    let text = rendered(SinkKind::Console, Dialect::Keyrack, &run);
    assert!(text.contains("not compared: durability os, no other engine has it"), "{text}");
    assert!(!text.contains("x ["), "{text}");
}

/// With an engine in memory first, none of those on disk were compared with each other.
#[test]
fn each_durability_has_a_base_of_its_own() {
    let mut run = kept_run();
    let skiplist = run.points.iter().find(|point| point.cell.engine == "skiplist").unwrap();
    let mut other = skiplist.clone();
    other.cell.engine = "flodb".to_owned();
    run.header.backends.push("flodb".to_owned());
    run.points.push(other);
    for point in run.points.iter_mut().filter(|point| point.cell.engine != "btree") {
        point.durability = "os".to_owned();
    }
    let text = rendered(SinkKind::Console, Dialect::Keyrack, &run);
    assert!(text.contains("flodb ~1.00x") || text.contains("flodb 1.00x"), "{text}");
    assert!(text.contains("vs skiplist"), "{text}");
    assert!(!text.contains("flodb not compared"), "{text}");
}

#[test]
fn one_repeat_gives_a_ratio_without_an_interval() {
    let mut run = kept_run();
    for point in &mut run.points {
        point.repeats.truncate(1);
    }
    let text = rendered(SinkKind::Console, Dialect::Keyrack, &run);
    assert!(text.contains("vs btree  (one repeat: no interval)"), "{text}");
}

/// keybench printed the table on standard output whatever was written there.
#[test]
fn the_summary_never_reaches_tsv() {
    let text = rendered(SinkKind::Tsv, Dialect::Seed, &kept_run());
    assert!(!text.contains("sweep summary"));
    let console = rendered(SinkKind::Console, Dialect::Seed, &kept_run());
    assert_eq!(console.matches("sweep summary").count(), 3);
}

/// A missed rate that the harness has flagged is said once.
#[test]
fn a_missed_rate_is_said_once() {
    let mut run = kept_run();
    let count = |run: &Run| {
        rendered(SinkKind::Console, Dialect::Keyrack, run).matches("! RATE MISSED").count()
    };
    assert_eq!(count(&run), 1);
    for point in &mut run.points {
        point.flags.clear();
    }
    assert_eq!(count(&run), 1);
}

#[test]
fn rows_are_engine_major_whatever_the_order_of_measuring() {
    let run = kept_run();
    let mut shuffled = run.clone();
    shuffled.points.reverse();
    let order = |run: &Run| -> Vec<String> {
        let points = summary::engine_major(run, "mixed");
        points.iter().map(|point| point.cell.to_string()).collect()
    };
    assert_eq!(order(&run), ["mixed btree t1", "mixed btree t4", "mixed skiplist t1"]);
    assert_eq!(order(&shuffled), order(&run));
}

#[test]
fn the_log_is_read_back_by_its_tags() {
    let run = kept_run();
    let text = rendered(SinkKind::Hdr, Dialect::Keyrack, &run);
    let point = &run.points[0];
    let lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with("Tag=mixed/btree/t1/get,")).collect();
    assert_eq!(lines.len(), point.repeats.len());
    for (line, repeat) in lines.iter().zip(&point.repeats) {
        let encoded = line.rsplit(',').next().unwrap();
        let back = keyrack_hdr::import(encoded).unwrap();
        let get = repeat.ops.iter().find(|op| op.op == "get").unwrap();
        assert_eq!(back.count(), get.service.count());
        let start: f64 = line.split(',').nth(1).unwrap().parse().unwrap();
        assert!((start - repeat.started_s).abs() < 0.001);
    }
}
