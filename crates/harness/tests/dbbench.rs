//! The workloads `db/...` and `flodb/mixed`, driven as a program drives them: what is loaded and
//! what is counted, threads beside, synced puts, stores that stay.

use crate::support::{Bench, only, op, repeat};
use keyrack_harness::{Bound, Settings, apply_config, render_replay};
use keyrack_record::{FieldValue, Run, ThreadRow};
use keyrack_store::Durability;
use keyrack_workload::dbbench::jobs;
use keyrack_workload::kvtest::Job;
use std::collections::BTreeSet;

/// A bench with small stores whose bound is that of the jobs.
fn bench(workload: &str) -> Bench {
    let mut bench = Bench::new("").set(&[
        ("workload", workload),
        ("param", "num=300"),
        ("param", "value_size=20"),
    ]);
    (bench.settings.bound, bench.settings.bounded) = (Settings::default().bound, false);
    bench
}

fn flodb(params: &str) -> Bench {
    // The limit ends it, long before its time is over.
    let mut bench = Bench::new("").set(&[("workload", "flodb/mixed"), ("ops", "2000")]);
    for param in ["initial=256", "value_size=20"].into_iter().chain(params.split_whitespace()) {
        bench = bench.set(&[("param", param)]);
    }
    bench
}

#[track_caller]
fn count(row: &ThreadRow, name: &str) -> u64 {
    match row.get(name) {
        Some(FieldValue::Count(count)) => *count,
        other => panic!("{name} is {other:?} in {row:?}"),
    }
}

fn sum(record: &Run, name: &str) -> u64 {
    repeat(record).rows.iter().map(|row| count(row, name)).sum()
}

fn needs_sync(name: &str) -> bool {
    name == "db/fillsync"
}

#[test]
fn every_job_runs_alone_on_every_engine_in_memory() {
    let needs_levels = |name: &str| ["db/compact", "db/stats", "db/sstables"].contains(&name);
    let can_run = |job: &&Job| !needs_sync(job.name) && !needs_levels(job.name);
    for job in jobs().iter().filter(can_run) {
        for threads in ["1", "3"] {
            let bench = if job.name == "flodb/mixed" { flodb("") } else { bench(job.name) };
            let bench = bench.set(&[("threads", threads), ("backend", "btree,skiplist")]);
            let record = bench.run_clean();
            assert_eq!(record.points.len(), 2, "{}", job.name);
            for point in &record.points {
                assert!(point.flags.is_empty(), "{}: {:?}", job.name, point.flags);
                let repeat = &point.repeats[0];
                let asked: u32 = threads.parse().unwrap();
                let rows: Vec<u32> = repeat.rows.iter().map(|row| row.thread).collect();
                assert_eq!(rows, (0..asked + job.beside).collect::<Vec<_>>(), "{}", job.name);
                let counted = repeat.rows.iter().filter(|row| row.thread < asked);
                let ops: u64 = counted.map(|row| count(row, "ops")).sum();
                let is_storeless = job.name != "flodb/mixed" && !job.has_load() && !job.wants_fresh;
                assert_eq!((repeat.units, repeat.prim_ops), (ops, ops), "{}", job.name);
                // Every thread makes all of them.
                if job.name.starts_with("db/") {
                    let of_few = ["db/fill100K", "db/readrandomsmall"];
                    let each = if of_few.contains(&job.name) { 1 } else { 300 };
                    assert_eq!(ops, u64::from(asked) * each, "{}", job.name);
                }
                let keys = repeat.load.as_ref().map(|load| load.keys);
                let loaded = match job.name {
                    _ if is_storeless || job.wants_fresh => None,
                    "flodb/mixed" => Some(255),
                    _ => Some(300),
                };
                assert_eq!(keys, loaded, "{}", job.name);
            }
        }
    }
}

#[test]
fn what_is_loaded_is_not_counted_and_is_found() {
    let record = bench("db/readrandom").set(&[("param", "reads=1000")]).run_clean();
    let point = repeat(&record);
    assert_eq!((op(point, "get").hits, op(point, "get").misses), (1000, 0));
    assert_eq!((point.ops.len(), point.units), (1, 1000), "{:?}", point.ops);
    let record = bench("db/readrandom").set(&[("param", "fill=none")]).run_clean();
    assert_eq!((op(repeat(&record), "get").misses, sum(&record, "found")), (300, 0));
}

#[test]
fn a_sequence_works_on_what_its_first_has_left() {
    let record =
        bench("db/fillrandom,db/readrandom,db/readseq,db/readreverse,db/deleteseq,db/readseq")
            .run_clean();
    let rows = &repeat(&record).rows;
    assert!(repeat(&record).load.is_none());
    let ops: Vec<u64> = rows.iter().map(|row| count(row, "ops")).collect();
    // 300 draws leave 190 distinct keys, give or take 8.
    let distinct = ops[2];
    assert!((150..240).contains(&distinct), "{ops:?}");
    assert_eq!(ops, [300, 300, distinct, distinct, 300, 0]);
    let found = count(&rows[1], "found");
    assert!((120..270).contains(&found), "{found}");
    let name = "db/fillrandom,db/readrandom,db/readseq,db/readreverse,db/deleteseq,db/readseq@5";
    assert_eq!(rows[5].test, name);
}

#[test]
fn a_store_without_rows_comes_first() {
    let text = bench("db/readseq,db/fillseq").refusal();
    assert!(text.contains("db/fillseq wants a store without rows, so it comes first"), "{text}");
    bench("db/fillseq,db/overwrite").run_clean();
}

#[test]
fn batches_are_batches_of_the_engine() {
    let record = bench("db/fillseq,db/deleterandom").set(&[("param", "batch=64")]).run_clean();
    let repeat = repeat(&record);
    assert_eq!((op(repeat, "mput").calls, op(repeat, "mput").prim_ops), (5, 300));
    assert_eq!((op(repeat, "mdel").calls, op(repeat, "mdel").prim_ops), (5, 300));
}

/// A repetition of the same job has other keys, a repetition of the run the same.
#[test]
fn keys_follow_from_seed_thread_and_place() {
    let hashes = |workload: &str, pairs: &[(&str, &str)]| {
        let bench = bench(workload).set(&[("trace-hash", "yes"), ("threads", "2")]).set(pairs);
        repeat(&bench.run_clean()).trace_hashes.clone()
    };
    let once = hashes("db/readrandom", &[]);
    assert_eq!(once, hashes("db/readrandom", &[]));
    assert_eq!(once, hashes("db/readrandom", &[("backend", "skiplist")]));
    let distinct: BTreeSet<u64> = once
        .iter()
        .chain(&hashes("db/readrandom", &[("seed", "2")]))
        .chain(&hashes("db/readrandom,db/readrandom", &[]))
        .copied()
        .collect();
    assert_eq!(distinct.len(), 6);
}

#[test]
fn the_writer_beside_readers_is_not_counted_and_ends_with_them() {
    let record = bench("db/readwhilewriting,db/readrandom").set(&[("threads", "2")]).run_clean();
    let repeat = repeat(&record);
    let tests: Vec<(&str, u32)> =
        repeat.rows.iter().map(|row| (row.test.rsplit('@').next().unwrap(), row.thread)).collect();
    assert_eq!(tests, [("0", 0), ("0", 1), ("0", 2), ("1", 0), ("1", 1)]);
    assert_eq!(repeat.units, 4 * 300);
    assert_eq!(op(repeat, "get").calls, 4 * 300);
    let writes = count(&repeat.rows[2], "writes");
    assert_eq!(repeat.ops.iter().find(|op| op.op == "put").map_or(0, |op| op.calls), writes);
    assert_eq!(only(&record).cell.threads, 2);
}

#[test]
fn a_reader_that_fails_ends_the_writer_beside_it() {
    let failure = bench("db/readwhilewriting")
        .set(&[("backend", "null"), ("param", "reads=1000000000")])
        .engine("null", &[("fail_get_every", "50")])
        .run_failing();
    assert!(failure.reason.starts_with("db/readwhilewriting on thread 0: engine: "), "{failure:?}");
}

#[test]
fn a_time_ends_what_a_count_would_not() {
    for name in ["db/readrandom", "db/readseq", "db/readreverse", "db/overwrite", "db/deleteseq"] {
        let record = bench(name)
            .set(&[("backend", "null"), ("secs", "0.05")])
            .set(&[("param", "num=1000000000000"), ("param", "fill=none")])
            .engine("null", &[("rows_per_scan", "1000000000")])
            .run_clean();
        assert_eq!(sum(&record, "ops"), repeat(&record).units, "{name}");
    }
}

#[test]
fn without_a_bound_their_own_count_is_it() {
    let bound = |workloads: &[&str], pairs: &[(&str, &str)]| {
        let mut bench = bench("db/readrandom").set(pairs);
        bench.settings.workloads = workloads.iter().map(|name| (*name).to_owned()).collect();
        let plan = bench.plan().unwrap();
        // What is replayed is what ran.
        let mut again = Bench::new("");
        again.settings = Settings::default();
        apply_config(&mut again.settings, "replay.cnf", &render_replay(&plan)).unwrap();
        let again = again.plan().unwrap();
        let bounds = |plan: &keyrack_harness::Plan| -> Vec<Bound> {
            plan.workloads.iter().map(|workload| workload.bound()).collect()
        };
        assert_eq!(bounds(&plan), bounds(&again));
        (bounds(&plan), plan.settings.bound)
    };
    let (own, all) = bound(&["db/readrandom"], &[]);
    assert_eq!((own, all), (vec![Bound::Ops(300)], Bound::Ops(300)));
    let (own, _) = bound(&["db/readrandom"], &[("param", "reads=900")]);
    assert_eq!(own, [Bound::Ops(900)]);
    let (own, _) = bound(&["db/readrandom", "rw1", "ycsb/a"], &[]);
    assert_eq!(own, [Bound::Ops(300), Bound::Secs(10.0), Bound::Ops(200_000)]);
    let record = bench("db/readrandom").set(&[("ops", "40")]).run_clean();
    assert_eq!(sum(&record, "ops"), 40);
}

#[test]
fn engines_without_synced_puts_are_refused() {
    let text = bench("db/fillsync").set(&[("backend", "spy,btree")]).refusal();
    assert!(text.contains("db/fillsync makes synced puts"), "{text}");
    assert!(text.contains("engine 'spy'") && text.contains("--durability sync"), "{text}");
}

/// A store whose writes are all synced needs no call of its own.
#[test]
fn a_store_that_syncs_all_fills_synced() {
    let bench = on_disk("db/fillsync", "/syncs").set(&[("param", "num=5000")]);
    let text = bench.refusal();
    assert!(text.contains("engine 'shelf'"), "{text}");
    let record = bench.set(&[("durability", "sync")]).run_clean();
    assert_eq!((sum(&record, "ops"), op(repeat(&record), "put").calls), (5, 5));
    assert_eq!(only(&record).durability, Durability::Sync.to_string());
}

#[test]
fn flodb_mixed_counts_as_its_rows_say() {
    let record = flodb("updates=50").set(&[("threads", "2")]).run_clean();
    let point = repeat(&record);
    assert_eq!(op(point, "put").calls, sum(&record, "inserts"));
    assert_eq!(op(point, "del").calls, sum(&record, "removes"));
    assert_eq!(op(point, "get").hits, sum(&record, "found"));
    assert_eq!(op(point, "get").calls, sum(&record, "reads"));
    let scans = flodb("scans=yes").run_clean();
    assert_eq!(op(repeat(&scans), "range").calls * 100, sum(&scans, "reads"));
    let waited = flodb("wait=0.2").run_clean();
    assert!(repeat(&waited).load.as_ref().unwrap().wall_s >= 0.2);
}

#[test]
fn a_parameter_that_is_wrong_fails_before_anything_is_loaded() {
    let failure = bench("db/seekrandom").set(&[("param", "nexts=x")]).run_failing();
    let expected = "load: db/seekrandom on thread 0: parameter nexts: 'x' is not a whole number";
    assert!(failure.reason.starts_with(expected), "{}", failure.reason);
    let text = bench("db/readrandom").set(&[("param", "nexts=7")]).refusal();
    assert!(text.contains("unknown parameter 'nexts'"), "{text}");
}

/// A store that stays, in a directory of the test's own.
fn on_disk(workload: &str, dir: &str) -> Bench {
    bench(workload).set(&[("backend", "shelf"), ("store", dir)])
}

#[test]
fn a_store_that_stays_is_used_again_and_loaded_once() {
    let again = |workload: &str| on_disk(workload, "/deep/kept");
    again("db/fillseq").run_clean();
    let record = again("db/readrandom").set(&[("param", "num=600")]).run_clean();
    assert_eq!(repeat(&record).load.as_ref().unwrap().keys, 0);
    let found = sum(&record, "found");
    // Half of the keys that are drawn are there.
    assert!((220..380).contains(&found), "{found}");
    let more = again("db/readrandom").set(&[("param", "fill=seq"), ("param", "num=600")]);
    let record = more.run_clean();
    assert_eq!((repeat(&record).load.as_ref().unwrap().keys, sum(&record, "found")), (600, 600));
    let failure = again("db/fillseq").run_failing();
    assert_eq!(
        failure.reason,
        "db/fillseq wants a store without rows, and the one of --store has some"
    );
    // Repeats and mixes find the same store.
    let record = again("db/readseq").set(&[("repeat", "2"), ("param", "reads=5000")]).run_clean();
    assert!(only(&record).repeats.iter().all(|repeat| repeat.units == 600));
    let mut mix = again("ycsb/c").set(&[("items", "50"), ("ops", "20")]);
    mix.settings.params.clear();
    let text = render_replay(&mix.plan().unwrap());
    assert!(text.contains("\nstore = /deep/kept\n"), "{text}");
    let record = mix.run_clean();
    assert!(repeat(&record).load.as_ref().unwrap().reused);
    assert_eq!(op(repeat(&record), "get").misses, 20);
}

#[test]
fn a_store_that_stays_is_one_persistent_engine() {
    let text = on_disk("db/readseq", "/one").set(&[("backend", "btree")]).refusal();
    assert!(text.contains("--store /one") && text.contains("in memory"), "{text}");
    let text = on_disk("db/readseq", "/one").set(&[("backend", "shelf,btree")]).refusal();
    assert!(text.contains("store of one engine: name it with --backend"), "{text}");
}

/// The shape that scripts around `db_bench` read.
#[test]
fn the_sink_prints_a_line_for_each_job() {
    let bench = bench("db/fillseq,db/readrandom,db/readseq,db/readmissing").set(&[
        ("report", "dbbench"),
        ("threads", "2"),
        ("param", "compression_ratio=0.25"),
    ]);
    let (record, text) = bench.run_outputs();
    record.unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let line = lines.iter().position(|line| line.starts_with("---")).unwrap();
    let head =
        ["Keys:       16 bytes each", "Values:     20 bytes each (5 bytes after compression)"];
    assert_eq!(lines[line - 5..line - 3], head, "{text}");
    assert_eq!(lines[line - 3], "Entries:    300", "{text}");
    assert!(lines[line + 1].starts_with("Engine:     btree (locked), 2 threads, durab"), "{text}");
    let rest = &lines[line + 2..];
    assert_eq!(rest.len(), 4, "{text}");
    for (line, (name, end)) in rest.iter().zip([
        ("fillseq      : ", " MB/s"),
        ("readrandom   : ", " micros/op; (600 of 600 found)"),
        ("readseq      : ", " MB/s"),
        ("readmissing  : ", " micros/op; (0 of 600 found)"),
    ]) {
        assert!(line.starts_with(name) && line.ends_with(end), "{line}");
        let micros: f64 = line[name.len()..].split_whitespace().next().unwrap().parse().unwrap();
        assert!(micros > 0.0, "{line}");
    }
    let loaded = self::bench("db/readhot").set(&[("report", "dbbench")]).run_outputs().1;
    assert!(loaded.contains(", after a load of 300 keys\n"), "{loaded}");
}
