//! Jobs, driven as a program drives them: rows, bounds, sequences, failures, stops.

use crate::support::{Bench, only, op, repeat};
use keyrack_harness::sink::Dialect;
use keyrack_harness::{
    Bound, Event, Observer, Outputs, Plan, Stop, apply_config, render_replay, run,
};
use keyrack_record::{FieldValue, Run, ThreadRow};
use keyrack_workload::kvtest::{End, Job, jobs};
use std::io::Write;

fn bench(workload: &str) -> Bench {
    Bench::new("").set(&[("workload", workload)])
}

/// A bench on which the job ends soon.
fn small(job: &Job) -> Bench {
    let name = match job.name {
        "rscale" => "ruscale_init,rscale",
        name => name,
    };
    let sizes = [
        ("partsize", "50"),
        ("parts", "1"),
        ("records", "40"),
        ("gets", "100"),
        ("rangesize", "30"),
        ("file", "/urls"),
    ];
    let urls = (0..20).map(|n| format!("get http://example/{n}\n")).collect::<String>();
    let mut bench = bench(name).file("/urls", urls.as_bytes()).set(&[("limit", "40")]);
    for (param, value) in sizes.iter().filter(|(param, _)| job.params.contains(param)) {
        bench = bench.set(&[("param", &format!("{param}={value}"))]);
    }
    match job.end {
        End::Time => bench.set(&[("secs", "0.02")]),
        _ => bench.set(&[("secs", "30")]),
    }
}

fn count(row: &ThreadRow, name: &str) -> u64 {
    match row.get(name) {
        Some(FieldValue::Count(count)) => *count,
        other => panic!("{name} is {other:?} in {row:?}"),
    }
}

fn names(row: &ThreadRow) -> Vec<&str> {
    row.fields.iter().map(|(name, _)| name.as_str()).collect()
}

fn no_rows_are_wrong(record: &Run) {
    for row in record.points.iter().flat_map(|p| &p.repeats).flat_map(|r| &r.rows) {
        assert_ne!(row.get("ok"), Some(&FieldValue::Flag(false)), "{row:?}");
    }
    assert!(record.is_clean(), "{:?}", record.points[0].flags);
}

#[test]
fn every_job_runs_on_every_engine_in_memory_on_one_and_two_threads() {
    for job in jobs() {
        for threads in ["1", "2"] {
            if (job.name == "conflictscan1" && threads == "1")
                || (job.name == "bdb" && threads == "2")
            {
                continue;
            }
            let bench = small(job).set(&[("threads", threads), ("backend", "btree,skiplist")]);
            let record = bench.run_clean();
            no_rows_are_wrong(&record);
            assert_eq!(record.points.len(), 2, "{}", job.name);
            for point in &record.points {
                let rows = &point.repeats[0].rows;
                let last: Vec<u32> =
                    rows.iter().rev().take(threads.parse().unwrap()).map(|r| r.thread).collect();
                let expected: &[u32] = if threads == "1" { &[0] } else { &[1, 0] };
                assert_eq!(last, expected, "{}", job.name);
                // A job of 20 ms may be over before its worker has had a turn.
                let is_timed = matches!(job.end, End::Time);
                assert!(is_timed || point.repeats[0].units > 0, "{}", job.name);
                assert_eq!(point.repeats[0].units, point.repeats[0].prim_ops, "{}", job.name);
            }
        }
    }
}

#[test]
fn a_row_of_rw1_has_its_phases_in_order() {
    let record = bench("rw1").set(&[("ops", "500"), ("threads", "2")]).run_clean();
    let rows = &repeat(&record).rows;
    assert_eq!(rows.len(), 2);
    for (thread, row) in rows.iter().enumerate() {
        assert_eq!((row.test.as_str(), row.thread as usize), ("rw1", thread));
        let expected = ["puts", "puts_per_sec", "gets", "gets_per_sec", "ops", "ops_per_sec"];
        assert_eq!(names(row), expected);
        assert_eq!((count(row, "puts"), count(row, "gets"), count(row, "ops")), (501, 501, 1002));
        let rate = |name: &str| row.get(name).and_then(FieldValue::as_f64).unwrap();
        let seconds = |n: u64, name: &str| n as f64 / rate(name);
        let both = seconds(501, "puts_per_sec") + seconds(501, "gets_per_sec");
        assert!((seconds(1002, "ops_per_sec") - both).abs() < 1e-9 + both * 1e-9, "{row:?}");
    }
    let repeat = repeat(&record);
    assert_eq!((op(repeat, "put").calls, op(repeat, "get").calls), (1002, 1002));
    assert_eq!((op(repeat, "get").hits, op(repeat, "get").misses), (1002, 0));
    assert_eq!((repeat.units, repeat.prim_ops), (2004, 2004));
}

#[test]
fn batches_are_batches_of_the_engine() {
    let record = bench("rw1b").set(&[("ops", "99")]).run_clean();
    let repeat = repeat(&record);
    // 100 keys: three batches of 32 and one of 4.
    assert_eq!((op(repeat, "mput").calls, op(repeat, "mput").prim_ops), (4, 100));
    assert_eq!((op(repeat, "mget").calls, op(repeat, "mget").hits), (4, 100));
    assert_eq!(repeat.ops.len(), 2);
    assert_eq!((repeat.units, count(&repeat.rows[0], "ops")), (200, 200));
}

#[test]
fn a_sequence_runs_on_one_store_and_names_its_rows_by_place() {
    let bench = bench("wcol1,rcol1,wcol1").set(&[("ops", "300"), ("threads", "2")]);
    let record = bench.run_clean();
    let tests: Vec<(&str, u32)> =
        repeat(&record).rows.iter().map(|row| (row.test.as_str(), row.thread)).collect();
    let name = |place| ["wcol1,rcol1,wcol1@0", "wcol1,rcol1,wcol1@1", "wcol1,rcol1,wcol1@2"][place];
    let expected: Vec<(&str, u32)> = (0..6).map(|i| (name(i / 2), i as u32 % 2)).collect();
    assert_eq!(tests, expected);
    assert_eq!(only(&record).cell.workload, "wcol1,rcol1,wcol1");
    // The reader put nothing itself: 2 threads x 2 writers x 300.
    assert_eq!(op(repeat(&record), "rmw").calls, 1200);
    assert_eq!(op(repeat(&record), "get").calls, 600);
}

#[test]
fn each_job_of_a_sequence_has_the_whole_time() {
    let record = bench("wscale,wscale").set(&[("secs", "0.05"), ("threads", "2")]).run_clean();
    let repeat = repeat(&record);
    assert_eq!(repeat.rows.len(), 4);
    assert!(repeat.wall_s >= 0.1, "{}", repeat.wall_s);
    assert!(repeat.rows.iter().all(|row| count(row, "puts") > 0), "{:?}", repeat.rows);
}

#[test]
fn a_limit_stands_beside_a_time() {
    let puts = |pairs: &[(&str, &str)]| {
        count(&repeat(&bench("rw1puts").set(pairs).run_clean()).rows[0], "puts")
    };
    assert_eq!(puts(&[("secs", "600"), ("limit", "70")]), 71);
    assert_eq!(puts(&[("ops", "60"), ("limit", "70")]), 71);
    assert_eq!(puts(&[("ops", "60")]), 61);
    assert_eq!(puts(&[("secs", "600"), ("limit", "0")]), 1);
    assert!(puts(&[("secs", "0.02"), ("limit", "1000000000")]) > 1);
}

#[test]
fn without_a_bound_jobs_run_for_ten_seconds() {
    let bound = |bench: &Bench, place: usize| bench.plan().unwrap().workloads[place].bound();
    let unbounded = |workloads: &[&str]| {
        let mut bench = Bench::new("return { name = 'w', run = function() end }");
        bench.settings.workloads = workloads.iter().map(|name| (*name).to_owned()).collect();
        (bench.settings.bound, bench.settings.bounded) = (Bound::Ops(200_000), false);
        bench
    };
    let jobs = unbounded(&["rw1", "wcol1,rcol1"]);
    assert_eq!((bound(&jobs, 0), bound(&jobs, 1)), (Bound::Secs(10.0), Bound::Secs(10.0)));
    assert_eq!(jobs.plan().unwrap().settings.bound, Bound::Secs(10.0));
    let mixed = unbounded(&["rw1", "ycsb/a"]);
    assert_eq!((bound(&mixed, 0), bound(&mixed, 1)), (Bound::Secs(10.0), Bound::Ops(200_000)));
    // What is replayed is what ran.
    for bench in [jobs, mixed] {
        let plan = bench.plan().unwrap();
        let mut again = Bench::new("");
        again.settings = keyrack_harness::Settings::default();
        apply_config(&mut again.settings, "replay.cnf", &render_replay(&plan)).unwrap();
        let again = again.plan().unwrap();
        for (one, two) in plan.workloads.iter().zip(&again.workloads) {
            assert_eq!((one.bound(), &one.name), (two.bound(), &two.name));
        }
    }
}

#[test]
fn untimed_operations_leave_the_rows_and_no_latencies() {
    let bench = bench("rw1").set(&[("ops", "200"), ("timing", "no")]);
    let (record, text) = bench.run_outputs();
    let record = record.unwrap();
    let repeat = repeat(&record);
    assert!(repeat.ops.is_empty());
    assert_eq!((repeat.units, repeat.prim_ops, count(&repeat.rows[0], "ops")), (402, 402, 402));
    assert!(text.contains("puts/s ") && !text.contains("p99.9"), "{text}");
    let (_, text) = bench.set(&[("timing", "yes")]).run_outputs();
    assert!(text.contains("puts/s ") && text.contains("p99.9"), "{text}");
}

#[test]
fn the_console_sums_the_rates_of_the_threads() {
    let bench = bench("wcol1,rcol1").set(&[("ops", "50"), ("threads", "2"), ("repeat", "3")]);
    let (record, text) = bench.run_outputs();
    let sums = |name: &str| -> Vec<f64> {
        let sum = |rows: &[ThreadRow]| -> f64 {
            rows.iter().filter_map(|row| row.get(name)?.as_f64()).sum()
        };
        only(record.as_ref().unwrap()).repeats.iter().map(|repeat| sum(&repeat.rows)).collect()
    };
    for (name, line) in [("puts_per_sec", "puts/s@0"), ("gets_per_sec", "gets/s@1")] {
        let mut sums = sums(name);
        sums.sort_unstable_by(f64::total_cmp);
        let line = text.lines().find(|found| found.starts_with(line)).unwrap_or_else(|| {
            panic!("no {line} in {text}");
        });
        let shown: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!((shown - sums[1]).abs() <= 0.5, "{line}: {sums:?}");
        assert!(line.ends_with("(sum over 2 threads)"), "{line}");
    }
}

#[test]
fn a_wrong_answer_fails_the_cell_with_key_expected_and_found() {
    let failure = bench("rw1").set(&[("ops", "50"), ("backend", "null")]).run_failing();
    assert!(failure.reason.starts_with("rw1 on thread 0: key \""), "{}", failure.reason);
    assert!(failure.reason.contains(": expected \""), "{}", failure.reason);
    assert!(failure.reason.contains(", found \""), "{}", failure.reason);
    let failure = bench("rw1")
        .set(&[("ops", "50"), ("backend", "null")])
        .engine("null", &[("miss", "yes")])
        .run_failing();
    assert!(failure.reason.ends_with(", found nothing"), "{}", failure.reason);
    let lost = bench("rw1").set(&[("ops", "50")]).odd("forget").run_failing();
    // The tenth put of thread 0.
    assert_eq!(
        lost.reason,
        "rw1 on thread 0: key \"892639040\": expected \"892639041\", found nothing"
    );
}

#[test]
fn an_engine_that_fails_fails_the_job_in_its_own_words() {
    for name in ["rw1", "rw1b", "wd3", "wcol1", "scan1", "splitremove1"] {
        let failure = bench(name).set(&[("secs", "60")]).odd("write").run_failing();
        let expected = format!("{name} on thread 0: engine: this engine does not write");
        assert_eq!(failure.reason, expected);
    }
    let failing_gets = bench("rw1")
        .set(&[("ops", "100"), ("backend", "null")])
        .engine("null", &[("fail_get_every", "1")])
        .run_failing();
    assert!(failing_gets.reason.contains("engine: "), "{}", failing_gets.reason);
}

/// The scanner would go on for its whole time; the test would take a minute.
#[test]
fn a_worker_that_fails_or_panics_ends_the_others() {
    let sequences = ["conflictscan1", "wscale,conflictscan1"];
    for name in sequences {
        let bench = bench(name).set(&[("threads", "2"), ("secs", "0.02"), ("backend", "null")]);
        let failure = bench.run_failing();
        assert!(failure.reason.contains("on thread 1: "), "{}", failure.reason);
    }
    let minute = bench("conflictscan1").set(&[("threads", "2"), ("secs", "60")]);
    let failure = minute.set(&[("backend", "null")]).run_failing();
    assert!(failure.reason.starts_with("conflictscan1 on thread 1: "), "{}", failure.reason);
    // One panics before the gate at which the other waits.
    let panicking = bench("rw1,rw1").set(&[("threads", "2"), ("secs", "60")]);
    let failure = panicking.odd("panic later").run_failing();
    assert!(failure.reason.contains("panicked"), "{}", failure.reason);
}

#[test]
fn an_engine_that_is_blind_to_what_it_removes_passes() {
    for name in ["wd3", "conflictscan1", "wd1"] {
        let bench = bench(name).set(&[("threads", "2"), ("secs", "0.05"), ("limit", "200")]);
        let record = bench.odd("blind").run_clean();
        no_rows_are_wrong(&record);
        if name == "wd1" {
            let removed = count(&repeat(&record).rows[1], "removepos");
            assert!(removed > 10_000_000, "{removed}");
        }
    }
}

#[test]
fn a_row_that_is_not_ok_flags_the_point() {
    let record = bench("url").set(&[("ops", "10")]).run_clean();
    assert_eq!(only(&record).flags, ["WRONG: url on thread 0: need 'file=URLFILE' parameter"]);
    assert!(!record.is_clean());
    // Keys of another job among those that are scanned.
    let record = bench("rw1puts,scan1").set(&[("secs", "0.05"), ("limit", "20")]).run_clean();
    let flag = &only(&record).flags[0];
    assert!(flag.starts_with("WRONG: rw1puts,scan1@1 on thread 0: "), "{flag}");
    assert!(flag.contains(" errors, the first: got \""), "{flag}");
}

#[test]
fn what_a_job_cannot_do_is_refused_or_said() {
    let refusals = [
        (("rate", "1000"), "rw1 is a job, which each thread runs once"),
        (("workload", "wcol1,rcolx"), "unknown job 'rcolx'; did you mean 'rcol1'?"),
        (("workload", "rw1z"), "did you mean 'rw1'?"),
        (("param", "rangesize=7"), "unknown parameter 'rangesize'"),
    ];
    for (pair, expected) in refusals {
        let text = bench("rw1").set(&[pair]).refusal();
        assert!(text.contains(expected), "{pair:?}: {text}");
    }
    let text = bench("url").set(&[("param", "file=/absent")]).refusal();
    assert!(text.starts_with("url: file: ") && text.contains("/absent"), "{text}");
    let plan = bench("rw1").set(&[("warmup", "1"), ("seed-once", "yes")]).plan().unwrap();
    assert!(plan.notes.contains(&"rw1: a job has no warm-up, running without".to_owned()));
    assert!(plan.notes.iter().any(|note| note.contains("fresh store")), "{:?}", plan.notes);
}

#[test]
fn parameters_of_a_section_reach_the_job() {
    let mut bench = bench("wd3").set(&[("secs", "0.02"), ("param", "prefix=abc")]);
    let pairs = [("param".to_owned(), "rangesize=7".to_owned())];
    bench.settings.apply_override("wd3", &pairs).unwrap();
    let record = bench.run_clean();
    let row = &repeat(&record).rows[0];
    assert_eq!(count(row, "rangesize"), 7);
    assert_eq!(row.get("first"), Some(&FieldValue::Text("abc00000000".to_owned())));
}

#[test]
fn each_repeat_has_a_store_of_its_own() {
    // Its inserts find no key there, which they would on a store that was used before.
    let pairs = [("secs", "0.02"), ("threads", "2"), ("repeat", "3"), ("seed-once", "yes")];
    let record = bench("conflictscan1").set(&pairs).run_clean();
    assert_eq!(only(&record).repeats.len(), 3);
}

#[test]
fn jobs_issue_the_same_keys_to_every_engine() {
    let bench = bench("rw1").set(&[
        ("ops", "500"),
        ("threads", "2"),
        ("backend", "btree,skiplist"),
        ("trace-hash", "yes"),
    ]);
    let record = bench.run_clean();
    let hashes: Vec<&[u64]> =
        record.points.iter().map(|point| point.repeats[0].trace_hashes.as_slice()).collect();
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0][0], hashes[0][1]);
}

/// Keeps what it is told, and stops the run at the first tick.
#[derive(Default)]
struct Listener {
    notices: Vec<(u32, String)>,
    notes: Vec<String>,
    stop_at_tick: Option<Stop>,
}

impl Observer for Listener {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Notice { thread, text, .. } => {
                self.notices.push((*thread, (*text).to_owned()));
            }
            Event::Note(note) => self.notes.push((*note).to_owned()),
            Event::Tick { .. } => self.stop_at_tick.iter().for_each(|stop| stop.set("enough")),
            _ => {}
        }
    }
}

fn run_listening(bench: &Bench, listener: &mut Listener) -> Run {
    let plan: Plan = bench.plan().unwrap();
    let nowhere = || -> Box<dyn Write> { Box::new(std::io::sink()) };
    let mut outputs = Outputs::open(&plan.sinks, &bench.fs, &nowhere, Dialect::Keyrack, 1).unwrap();
    run(&plan, &mut outputs, listener, &bench.stop).unwrap()
}

#[test]
fn jobs_say_how_far_they_are_and_what_one_must_know() {
    let mut listener = Listener::default();
    run_listening(&bench("rw1").set(&[("ops", "9"), ("threads", "2")]), &mut listener);
    listener.notices.sort();
    let getting = |thread| (thread, "now getting".to_owned());
    assert_eq!(listener.notices, [getting(0), getting(1)]);
    assert!(listener.notes.is_empty(), "{:?}", listener.notes);
    run_listening(&bench("wd1").set(&[("ops", "9")]), &mut listener);
    assert_eq!(listener.notes.len(), 1);
    let note = &listener.notes[0];
    assert!(note.starts_with("wd1 on btree") && note.ends_with("two threads or more"), "{note}");
}

/// A stop ends a job in any phase: one that waits at a gate, and one that goes on for long.
#[test]
fn a_stop_ends_jobs_and_their_gates() {
    for name in ["scan1", "rw3", "bdb", "wscale,wscale"] {
        let bench = bench(name).set(&[("secs", "3600")]);
        let mut listener =
            Listener { stop_at_tick: Some(bench.stop.clone()), ..Listener::default() };
        let record = run_listening(&bench, &mut listener);
        assert_eq!(record.interrupted.as_deref(), Some("enough"), "{name}");
        assert!(record.failures.is_empty(), "{name}: {:?}", record.failures);
        assert!(only(&record).flags[0].starts_with("PARTIAL"), "{name}");
        assert!(repeat(&record).units > 0, "{name}");
    }
}
