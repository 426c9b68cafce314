//! Called as `keybench`: that tool's command line and its shapes, word by word, since people's
//! parsers read them. Words are compared rather than columns where only the engine's name is ours.

use crate::support::{Lab, ONE_GET, ROTATION};

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[track_caller]
fn after<'a>(text: &'a str, head: &str) -> &'a str {
    let mut lines = text.lines().skip_while(|line| *line != head);
    assert!(lines.next().is_some(), "no line '{head}' in\n{text}");
    lines.next().unwrap_or_default()
}

#[test]
fn the_header_and_a_point_have_their_shape() {
    let lab = Lab::new();
    let out = lab.keybench("--items 500 --ops 2000 workloads/mixed.lua").exits(0);
    assert_eq!(out.stderr, "", "{}", out.told());
    let version = env!("CARGO_PKG_VERSION");
    let lines: Vec<&str> = out.stdout.lines().collect();
    let header = format!("keybench {version}: 1 workload(s), engine=skiplist seed=1 repeat=1");
    assert_eq!(lines[0], header);
    assert_eq!(lines[1], "  threads: 1   batch: 1");
    assert_eq!(lines[2], "[probe: system]");
    assert!(lines.contains(&"[probe: build]"), "{}", out.told());
    for key in
        ["host", "os", "cpu", "cpu_cores", "ram", "page_size", "compiler", "std", "allocator"]
    {
        let found = lines.iter().any(|line| line.starts_with("  ") && words(line)[0] == key);
        assert!(found, "no {key}: {}", out.told());
    }
    let engine = after(&out.stdout, "=== mixed ===");
    assert!(engine.starts_with("engine=skiplist"), "{engine}");
    assert!(engine.ends_with("  threads=1  batch=1  (median of 1 run)"), "{engine}");
    let at = lines.iter().position(|line| line.starts_with("op ")).unwrap();
    assert_eq!(words(lines[at]), ["op", "count", "p50", "p99", "p99.9", "max"]);
    let verbs: Vec<&str> = lines[at + 1..at + 5].iter().map(|line| words(line)[0]).collect();
    assert_eq!(verbs, ["put", "get", "del", "range"]);
    for row in &lines[at + 1..at + 5] {
        // Name, count, and four latencies of a number and a unit: never withheld.
        assert_eq!(words(row).len(), 2 + 8, "{row}");
        for unit in words(row)[3..].iter().step_by(2) {
            assert!(["ns", "us", "ms", "s"].contains(unit), "{row}");
        }
    }
    assert!(lines[at + 5].starts_with("get hit rate: ") && lines[at + 5].ends_with('%'));
    let throughput = lines[at + 6];
    assert!(throughput.starts_with("throughput: "), "{throughput}");
    assert!(throughput.ends_with(" /sec (1 op per unit)"), "{throughput}");
    assert_eq!(lines.len(), at + 7, "nothing that a parser does not expect: {}", out.told());
}

#[test]
fn repeats_and_units_of_many_verbs_have_their_shape() {
    let lab = Lab::new();
    let line = "--users 100 --items 200 --ops 300 --repeat 3 --probe none workloads/cart.lua";
    let out = lab.keybench(line).exits(0).says("(median of 3 runs)\n").says("% (median)\n");
    for (start, unit) in [("workload units: ", " wu/sec  ("), ("primitive ops:  ", " ops/sec  (")] {
        let line = out.stdout.lines().find(|line| line.starts_with(start)).unwrap();
        assert!(line.contains(unit) && line.ends_with(" over 3 runs)"), "{line}");
        assert!(!line.contains("CI"), "{line}");
    }
}

#[test]
fn batch_sweeps_have_their_shape() {
    let lab = Lab::new();
    let line =
        "--batch 1,8 --items 500 --ops 50 --probe none workloads/batch.lua workloads/mixed.lua";
    let out = lab.keybench(line).exits(0).says("  threads: 1   batch: 1,8\n");
    let out = out.says("threads=1  batch=1  (").says("threads=1  batch=8  (");
    let out = out.warns("workloads/mixed.lua: workload ignores ctx.batch, running batch=1 only\n");
    let head = after(&out.stdout, "batch: sweep summary (medians)");
    assert_eq!(words(head), ["engine", "threads", "batch", "wu/sec", "ops/sec", "p50", "p99"]);
    assert!(!out.stdout.contains("mixed: sweep summary"), "{}", out.told());
    assert!(!out.stdout.contains("engines compared"), "{}", out.told());
}

/// The table always has a batch column, also where nothing is batched.
#[test]
fn the_summary_always_has_a_batch_column() {
    let lab = Lab::with("work.lua", ROTATION);
    let out = lab.keybench("--threads 1,2 --ops 40 --probe none work.lua").exits(0);
    let head = after(&out.stdout, "rotation: sweep summary (medians)");
    assert_eq!(words(head), ["engine", "threads", "batch", "wu/sec", "ops/sec", "p50", "p99"]);
    let row = out.stdout.lines().last().unwrap();
    let row = words(row);
    // From the back: p99 and p50 with units, two rates, the batch, the threads.
    assert_eq!((row[row.len() - 7], row[row.len() - 8]), ("1", "2"), "{}", out.told());
}

#[test]
fn several_backends_are_compared_as_before() {
    let lab = Lab::with("work.lua", ROTATION);
    let out = lab.keybench("--backend skiplist,btree --ops 40 --probe none work.lua").exits(0);
    let out = out.says("engine=skiplist,btree seed=1");
    assert_eq!(out.stdout.matches("\n=== rotation ===\n").count(), 2);
}

#[test]
fn status_lines_carry_t_and_b() {
    let lab = Lab::with("work.lua", ROTATION);
    let out =
        lab.keybench("--secs 1.5 --threads 2 --probe none --progress plain work.lua").exits(0);
    let out = out.warns("  seeding rotation on skiplist").warns(" with 2 threads ... done (");
    let tick = out.stderr.lines().find(|line| line.ends_with(" wu/s"));
    let Some(tick) = tick else { panic!("no tick: {}", out.told()) };
    assert!(tick.contains(" t2 b1 ") && tick.contains("s "), "{tick}");
    assert!(tick.contains("/2s") || tick.contains("/1s") || tick.contains("/1.5s"), "{tick}");
}

#[test]
fn help_and_usage_go_to_standard_error() {
    let lab = Lab::new();
    for flag in ["--help", "-h"] {
        let out = lab.keybench(flag).exits(0).warns("keybench").warns("--backend");
        assert_eq!(out.stdout, "");
    }
    let out = lab.keybench("").exits(2).warns("Usage: keybench");
    assert_eq!(out.stdout, "");
    let out = lab.keybench("--ops 5").exits(2).warns("Usage: keybench");
    assert_eq!(out.stdout, "", "no workload, no run");
}

/// The help once promised the engines that the new name runs when none is named.
#[test]
fn help_names_the_engine_that_runs_by_default() {
    let lab = Lab::with("one.lua", ONE_GET);
    lab.keybench("--help").exits(0).warns("[default: skiplist]");
    lab.keybench("--ops 5 --probe none one.lua").exits(0).says("engine=skiplist seed=");
}

#[test]
fn mistakes_carry_the_old_name() {
    let lab = Lab::with("one.lua", ONE_GET);
    let line = lab.keybench("--ops x one.lua").refuses(&["--ops", "'x'"]);
    assert!(line.starts_with("keybench: "), "{line}");
    let line =
        lab.keybench("--backend rocksbd one.lua").refuses(&["unknown backend 'rocksbd'", "have: "]);
    assert!(line.starts_with("keybench: "), "{line}");
    lab.keybench("--report tvs one.lua").refuses(&["unknown reporter 'tvs'", "have: console, tsv"]);
    lab.keybench("--config absent.cnf one.lua").refuses(&["cannot open config 'absent.cnf'"]);
    lab.keybench("one.lua --ops").refuses(&["--ops"]);
}

/// Their configuration file and their replay line.
#[test]
fn a_config_of_the_original_runs() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.write(
        "a.cnf",
        "keybench 0.1.0 replay file - reproduce with:  keybench --config <path>\n\n[bench]\n\
         backend = skiplist\nthreads = 1,2\nbatch = 1,64\nops = 40\nusers = 100000\n\
         items = 100000\nseed = 1\nrepeat = 1\nreport = console,tsv:points.tsv\n\
         workload = work.lua\n",
    );
    let out = lab.keybench("--config a.cnf --probe none").exits(0);
    assert_eq!(out.stdout.matches("\n=== rotation ===\n").count(), 2, "{}", out.told());
    assert_eq!(lab.read("points.tsv").lines().count(), 1 + 2 * 4);
    lab.keybench("--config a.cnf --probe none --save-config b.cnf").exits(0);
    lab.keybench("--config b.cnf").exits(0).says("=== rotation ===");
}

/// They were refused together.
#[test]
fn of_ops_and_secs_the_last_one_counts() {
    let lab = Lab::with("one.lua", ONE_GET);
    let line = "--backend null --probe none --report json:r.json one.lua";
    lab.keybench(&format!("--secs 600 --ops 7 {line}")).exits(0);
    let header = &lab.json("r.json")["header"];
    assert_eq!((header["ops"].as_u64(), header["secs"].is_null()), (Some(7), true), "{header}");
    lab.keybench(&format!("--ops 7000000000 --secs 0.05 {line}")).exits(0);
    assert_eq!(lab.json("r.json")["header"]["secs"], 0.05);
    lab.run(&format!("bench --ops 7 --secs 1 {line}")).exits(2).warns("contradict");
}

/// The sample of keybench's page, small, on the engine of the two that this build has; the section
/// of the other is passed over.
#[test]
fn the_sample_of_rocksdb_and_tidesdb_runs_without_tidesdb() {
    let lab = Lab::with_dir("data");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/rocksdb-vs-tidesdb.cnf");
    let small = "--ops 40 --items 50 --users 5 --threads 1 --batch 1 --repeat 1 --probe none";
    if !cfg!(feature = "tidesdb") {
        let refused = lab.keybench(&format!("--config {sample} {small}")).exits(2);
        refused.warns("engine 'tidesdb' is not in this build").warns("--features tidesdb");
    }
    let out = lab.keybench(&format!("--config {sample} --backend rocksdb?,tidesdb?,flodb {small}"));
    let out = out.exits(0).says("=== mixed ===").says("=== cart ===");
    let is_there = out.stdout.contains("engine=rocksdb") || out.stderr.contains("left out: ");
    assert!(is_there, "{}", out.told());
}
