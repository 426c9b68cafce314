//! What users come for, from the first call to a gate in their build: six stories, A to F.
//!
//! Numbers are never asserted, only what has to be there whatever the machine is: which cells, how
//! many calls, which files, which status.

use crate::support::{
    Lab, Outcome, ROTATION, cell, cells, field, flags, only_report, points, repeats, tsv,
};
use serde_json::Value;
use std::fs;

/// A. The first minute: one bundled workload, nothing else. A header, two probes, one point.
#[test]
fn a_first_minute() {
    let lab = Lab::new();
    let out =
        lab.run("bench --backend skiplist --items 1000 --ops 4000 workloads/mixed.lua").exits(0);
    assert_eq!(out.stderr, "", "talk where there is nothing to say: {}", out.told());
    let out = out.says("keyrack ").says("1 workload(s), engine=skiplist seed=1 repeat=1\n");
    let out =
        out.says("\n  threads: 1   batch: 1\n").says("[probe: system]").says("[probe: build]");
    let out = out.says("\n=== mixed ===\nengine=skiplist").says("(median of 1 run)");
    let out = out.says("get hit rate: ").says("(1 op per unit)\n");
    assert!(!out.stdout.contains("sweep summary"), "one point needs no table: {}", out.told());
    assert_eq!(table_counts(&out, "mixed").iter().map(|(_, count)| count).sum::<u64>(), 4000);
    let verbs: Vec<String> = table_counts(&out, "mixed").into_iter().map(|(op, _)| op).collect();
    assert_eq!(verbs, ["put", "get", "del", "range"]);
    assert_eq!(lab.names("."), [] as [&str; 0], "a plain run leaves no files");
}

/// A, without even a workload: the bundled one on every engine that needs no directory.
#[test]
fn a_without_a_workload() {
    let lab = Lab::new();
    let out = lab.run("bench --ops 500 --items 100 --probe none").exits(0);
    for engine in ["skiplist", "btree"] {
        assert!(out.stdout.contains(&format!("engine={engine}")), "{}", out.told());
    }
    let out = out.says("mixed: sweep summary (medians)");
    assert!(!out.stdout.contains("engine=null"), "{}", out.told());
    assert!(!out.stdout.contains("[probe:"), "{}", out.told());
}

/// B. Two engines over threads, repeated: six points, a table that lists engine by engine.
#[test]
fn b_two_engines_over_threads() {
    let lab = Lab::new();
    let out = lab
        .run(
            "bench --backend skiplist,btree --threads 1,2,4 --repeat 3 --secs 0.05 --items 500 \
             --probe none --report console,json:r.json workloads/mixed.lua",
        )
        .exits(0);
    assert_eq!(out.stdout.matches("(median of 3 runs)").count(), 6, "{}", out.told());
    assert_eq!(out.stdout.matches(" over 3 runs)").count(), 6, "{}", out.told());
    let rows = summary_rows(&out, "mixed");
    assert_eq!(rows.len(), 6, "{}", out.told());
    for (index, row) in rows.iter().enumerate() {
        let engine = if index < 3 { "skiplist" } else { "btree" };
        assert!(row.starts_with(engine), "row {index} is not of {engine}: {}", out.told());
        // Behind the engine's name and version.
        let threads = ["1", "2", "4"][index % 3];
        assert!(row.split_whitespace().any(|word| word == threads), "{row}");
    }
    let out = out.says("engines compared by ops/sec");
    assert!(out.stdout.contains("btree") && out.stdout.contains(" vs skiplist"), "{}", out.told());
    let run = lab.json("r.json");
    assert_eq!(points(&run).len(), 6);
    assert_eq!(repeats(&run).len(), 18);
    assert_eq!(run["header"]["order"], "interleave");
    for repeat in repeats(&run) {
        assert!(repeat["units"].as_u64().unwrap() > 0);
        assert!(repeat["wall_s"].as_f64().unwrap() >= 0.05);
    }
}

/// C. An engine on disk is refused without a directory, in one sentence that names the flag.
#[test]
fn c_an_engine_on_disk_wants_a_directory() {
    let lab = Lab::new();
    let out = lab.run("bench --backend redb --ops 100 workloads/cart.lua");
    out.refuses(&["redb", "--data-dir"]);
}

/// C. With a directory it runs, leaves nothing behind, and says both rates since a checkout fans
/// out.
#[test]
fn c_an_engine_on_disk_runs_in_a_directory() {
    let lab = Lab::with_dir("data");
    let out = lab
        .run(
            "bench --backend redb --data-dir data --durability none --users 200 --items 400 \
             --ops 2000 --probe none --report console,tsv:r.tsv,json:r.json workloads/cart.lua",
        )
        .exits(0);
    let out = out.says("engine=redb").says("workload units: ").says("primitive ops:  ");
    assert!(!out.stderr.contains("RAM"), "a disk is not memory: {}", out.told());
    assert_eq!(lab.names("data"), [] as [&str; 0], "a store was left behind");
    let repeat = &lab.json("r.json")["points"][0]["repeats"][0];
    assert_eq!(repeat["units"], 2000);
    assert!(repeat["prim_ops"].as_u64().unwrap() > 2000, "a checkout deletes line by line");
    assert!(repeat["load"]["keys"].as_u64().unwrap() >= 3 * 200);
    let rows = tsv(&lab.read("r.tsv"));
    let verbs: Vec<&str> = rows.iter().map(|row| field(row, "op")).collect();
    assert_eq!(verbs, ["put", "get", "del", "range"]);
    assert!(rows.iter().all(|row| field(row, "durability") == "none"));
}

/// C. A directory in memory is measured after a warning: on stderr, and in every report.
#[test]
fn c_a_directory_in_memory_is_said() {
    let shm = std::path::Path::new("/dev/shm");
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some("/dev/shm") && line.contains("tmpfs"))
    {
        println!("SKIPPED c_a_directory_in_memory_is_said: /dev/shm is not a tmpfs here");
        return;
    }
    let data = tempfile::TempDir::with_prefix_in("keyrack-e2e-", shm).unwrap();
    let lab = Lab::new();
    let line = format!(
        "bench --backend redb --data-dir {} --durability none --users 50 --items 100 --ops 300 \
         --report console,json:r.json,tsv:r.tsv workloads/cart.lua",
        data.path().display()
    );
    let out = lab.run(&line).exits(0).warns("RAM file system").says("RAM file system");
    assert_eq!(out.stderr.lines().count(), 1, "{}", out.told());
    let run = lab.json("r.json");
    let warnings = run["header"]["warnings"].to_string();
    assert!(warnings.contains("RAM file system"), "{warnings}");
    assert_eq!(tsv(&lab.read("r.tsv")).len(), 4);
    assert_eq!(crate::support::names_in(data.path()), [] as [&str; 0]);
}

/// D. A curve over batch sizes: ops/sec is the batch times wu/sec, and a workload without batches
/// runs once and is said to.
#[test]
fn d_a_curve_over_batch_sizes() {
    let lab = Lab::new();
    let out = lab
        .run(
            "bench --backend skiplist --batch 1,8,64,512 --ops 60 --items 2000 --probe none \
             --report console,json:r.json workloads/batch.lua workloads/mixed.lua",
        )
        .exits(0)
        .warns("workloads/mixed.lua: workload ignores ctx.batch, running batch=1 only");
    assert_eq!(out.stderr.lines().count(), 1, "{}", out.told());
    let run = lab.json("r.json");
    assert_eq!(
        cells(&run),
        [
            "batch skiplist t1 batch=1",
            "batch skiplist t1 batch=8",
            "batch skiplist t1 batch=64",
            "batch skiplist t1 batch=512",
            "mixed skiplist t1",
        ]
    );
    assert_eq!(summary_rows(&out, "batch").len(), 4, "{}", out.told());
    assert!(!out.stdout.contains("mixed: sweep summary"), "one point: {}", out.told());
    for verb in ["mget", "mput"] {
        assert!(out.stdout.contains(&format!("\n{verb} ")), "{}", out.told());
    }
    for point in &points(&run)[..4] {
        let repeat = &point["repeats"][0];
        let batch = point["cell"]["sweep"]["value"].as_u64().unwrap();
        assert_eq!(repeat["prim_ops"].as_u64().unwrap(), 60 * batch, "{}", cell(point));
    }
}

/// E. A run from a file with a flag over it, kept in a directory, and made again from what it kept.
#[test]
fn e_keep_and_replay() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.write(
        "cmp.cnf",
        "# two engines\nbackend = skiplist,btree\nthreads = 1,2\nsecs = 60\nrepeat = 2\n\
         workload = work.lua\nreport_dir = results/deep\nprobe = system\n",
    );
    let out = lab.run("bench --config cmp.cnf --secs 0.3 --timeline 0.1").exits(0);
    let out = out.warns("writing reports to results/deep/");
    let report = only_report(&lab, "results/deep");
    assert!(out.stderr.contains(&report), "{}", out.told());
    assert_eq!(
        lab.names(&report),
        ["plot.gp", "points.tsv", "replay.cnf", "report.txt", "run.json", "timeline.tsv"]
            .into_iter()
            .filter(|name| *name != "plot.gp" || lab.exists(&format!("{report}/plot.gp")))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        lab.read(&format!("{report}/report.txt")),
        out.stdout,
        "the report is the console's"
    );
    let timeline = tsv(&lab.read(&format!("{report}/timeline.tsv")));
    assert!(timeline.iter().any(|row| field(row, "metric") == "wu_per_s"));
    let first = lab.json(&format!("{report}/run.json"));
    assert_eq!(first["header"]["secs"], 0.3, "the flag is later than the file");

    // The script goes away, and something else takes its name: the replay needs neither.
    fs::remove_file(lab.path("work.lua")).unwrap();
    let replay = format!("bench --config {report}/replay.cnf --report json:second.json");
    replays(&lab, &replay, &first);
    lab.write("work.lua", "return { name = 'impostor', run = function() kv.put('a', 'b') end }");
    replays(&lab, &replay, &first);
}

/// Runs a replay, in which the report directory gets a second report, and compares the grids.
#[track_caller]
fn replays(lab: &Lab, line: &str, first: &Value) {
    let before = lab.names("results/deep");
    // --report-dir of the file overrides --report: the record is in the new directory.
    lab.run(line).exits(0);
    let new: Vec<String> =
        lab.names("results/deep").into_iter().filter(|name| !before.contains(name)).collect();
    assert_eq!(new.len(), 1, "{new:?}");
    let again = lab.json(&format!("results/deep/{}/run.json", new[0]));
    assert_eq!(cells(&again), cells(first));
    assert_eq!(repeats(&again).len(), repeats(first).len());
    for key in ["seed", "secs", "ops", "repeat", "order", "threads", "batch", "items", "users"] {
        assert_eq!(again["header"][key], first["header"][key], "{key}");
    }
    assert_eq!(
        again["header"]["workloads"][0]["sha256"],
        first["header"]["workloads"][0]["sha256"]
    );
    assert_eq!(again["header"]["workloads"][0]["text"], ROTATION);
    let timeline = lab.read(&format!("results/deep/{}/timeline.tsv", new[0]));
    assert!(timeline.lines().count() > 1, "the replay forgot --timeline");
}

/// E, by hand: --save-config writes a file that makes the same run.
#[test]
fn e_a_saved_config_makes_the_same_run() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.run(
        "bench --backend btree --threads 1,3 --ops 90 --seed 7 --items 55 --users 66 --probe none \
         --report json:a.json --trace-hash --save-config saved.cnf work.lua",
    )
    .exits(0)
    .warns("wrote replay file saved.cnf");
    fs::remove_file(lab.path("work.lua")).unwrap();
    let first = lab.json("a.json");
    fs::remove_file(lab.path("a.json")).unwrap();
    lab.run("bench --config saved.cnf").exits(0);
    let again = lab.json("a.json");
    assert_eq!(cells(&again), cells(&first));
    assert_eq!(hashes(&again), hashes(&first), "the same seed gives the same keys");
    assert!(!hashes(&first).is_empty());
}

fn hashes(run: &Value) -> Vec<String> {
    repeats(run).iter().map(|repeat| repeat["trace_hashes"].to_string()).collect()
}

/// F. The gate of a change: the same run passes, a slower one does not and is named.
#[test]
fn f_gate_a_change() {
    let lab = Lab::new();
    let base = recorded(&lab, "base.json", 5);
    let out = lab.run("compare base.json base.json --fail-on 5%").exits(0);
    assert_eq!(out.stderr, "", "{}", out.told());
    let out = out.says("rotation skiplist t1").says("rotation btree t1").says("1.00x");
    assert!(!out.stdout.contains("slower") && !out.stdout.contains("faster"), "{}", out.told());

    lab.write("slower.json", slowed(&base, "btree", 0.8).to_string());
    let out = lab.run("compare base.json slower.json --fail-on 5%").exits(1);
    // The metric is called as in the table.
    let out = out.warns("regression: rotation btree t1 ops/s: 0.8").says("slower");
    assert!(!out.stderr.contains("skiplist"), "skiplist is as it was: {}", out.told());
    // The gate has a width: 20 % less is within 30 %. And no gate means no verdict.
    lab.run("compare base.json slower.json --fail-on 30%").exits(0);
    lab.run("compare base.json slower.json").exits(0).says("slower");
    // Better is not a regression.
    lab.run("compare slower.json base.json --fail-on 5%").exits(0).says("faster");

    let table = lab.run("compare base.json slower.json --markdown").exits(0).stdout;
    let lines: Vec<&str> = table.lines().collect();
    let columns = lines[0].matches('|').count();
    assert!(columns > 5 && lines[1].contains("---"), "{table}");
    let rows: Vec<&&str> = lines.iter().filter(|l| l.starts_with("| rotation")).collect();
    assert!(
        rows.len() >= 2 && rows.iter().all(|row| row.matches('|').count() == columns),
        "{table}"
    );
}

/// F. Stores on disk at equal settings: the sample, whose report has rates, CPU time and bytes.
#[test]
fn f_stores_are_compared_within_one_run() {
    let lab = Lab::with_dir("data");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/stores.cnf");
    let line = format!(
        "bench --config {sample} --data-dir data --backend flodb,fjall,lmdb --threads 1 --repeat 2 \
         --settle 20 -P num=300 --probe none --report json:stores.json \
         db/fillrandom db/readrandom"
    );
    lab.run(&line).exits(0);
    let run = lab.json("stores.json");
    for repeat in repeats(&run) {
        let aftermath = &repeat["aftermath"];
        assert_eq!(aftermath["is_settled"], true, "{aftermath}");
        assert!(aftermath["cpu_s"].as_f64() >= repeat["cpu_s"].as_f64(), "{aftermath}");
        assert!(aftermath["disk_bytes"].as_u64().unwrap() > 0, "{aftermath}");
    }
    let table = lab.run("compare --engines stores.json --markdown").exits(0).stdout;
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| db/")).collect();
    assert_eq!(rows.len(), 3 * 2, "{table}");
    assert!(table.starts_with("Ratios to flodb.\n"), "{table}");
    assert!(!table.contains("warnings") && !table.contains("not compared"), "{table}");
    let out = lab.run("compare --engines --to lmdb stores.json").exits(0);
    out.says("ratios to lmdb");
    lab.run("compare --engines --to redb stores.json").refuses(&["'redb'", "flodb, fjall, lmdb"]);
    lab.run("compare --engines stores.json stores.json").refuses(&["--engines"]);
    lab.run("compare stores.json").refuses(&["NEW"]);
    lab.run("compare --to lmdb stores.json stores.json").refuses(&["--engines"]);
}

/// F. A load of single puts into stores that sync each write took an hour, and the memory of the
/// engines was nowhere beside their disk.
#[test]
fn f_a_load_into_synced_stores_is_synced_once_and_memory_stands_beside_disk() {
    let lab = Lab::with_dir("data");
    lab.write(
        "rows.lua",
        "return { name = 'rows', load_keys = 'items',\n\
         load = function(ctx) for i = 0, ctx.items - 1 do kv.put('k' .. i, 'v') end end,\n\
         run = function(ctx, i) assert(kv.get('k' .. i % ctx.items) == 'v') end }",
    );
    let line = "bench --backend redb,lmdb --data-dir data --durability sync --items 500 --ops 500 \
                --probe none --report console,json:rows.json rows.lua";
    let out = lab.run(line).exits(0).says("load: 500 keys in ");
    out.says(" s with durability none, then one sync").says(" MiB, disk ");
    let run = lab.json("rows.json");
    for repeat in repeats(&run) {
        assert_eq!(repeat["load"]["durability"], "none", "{repeat}");
        assert!(repeat["footprint"]["disk_bytes"].as_u64().unwrap() > 0, "{repeat}");
    }
    let table = lab.run("compare --engines rows.json").exits(0).stdout;
    assert!(table.contains("MiB in memory  MiB on disk"), "{table}");
    // redb has no such level: it loads as it measures.
    let line = line.replace("redb,lmdb", "redb").replace("--probe", "--load-durability os --probe");
    let out = lab.run(&line).exits(0);
    assert!(!out.stdout.contains("then one sync"), "{}", out.told());
    lab.run(&line.replace("-durability os", "-durability some")).refuses(&["--load-durability"]);
}

/// F. One repeat shows a ratio and never a difference.
/// A change that makes an engine fail must not pass the gate for having no cell to lose.
#[test]
fn f_a_cell_that_is_no_longer_measured_does_not_pass() {
    let lab = Lab::new();
    let base = recorded(&lab, "base.json", 3);
    let mut new = base.clone();
    let lost = new["points"].as_array_mut().unwrap().remove(0);
    lab.write("new.json", new.to_string());
    let out = lab.run("compare base.json new.json --fail-on 5%").exits(1);
    out.warns(&format!("not measured in NEW: {}", cell(&lost)));
    lab.run("compare base.json new.json").exits(0);
}

#[test]
fn f_one_repeat_is_never_a_regression() {
    let lab = Lab::new();
    let base = recorded(&lab, "base.json", 1);
    lab.write("slower.json", slowed(&base, "btree", 0.1).to_string());
    let out = lab.run("compare base.json slower.json --fail-on 5%").exits(0).says("unsure");
    assert!(!out.stdout.contains("slower"), "{}", out.told());
    out.says("--repeat");
}

/// F, on report directories: the parent stands for its newest report.
#[test]
fn f_report_directories_compare() {
    let lab = Lab::with("work.lua", ROTATION);
    let line = "bench --backend btree --ops 200 --repeat 2 --probe none --report-dir";
    lab.run(&format!("{line} base work.lua")).exits(0);
    lab.run(&format!("{line} new work.lua")).exits(0);
    lab.run("compare base new").exits(0).says("rotation btree t1");
    let report = only_report(&lab, "base");
    lab.run(&format!("compare {report} new/")).exits(0).says("rotation btree t1");
}

/// F. What cannot be compared is refused with a reason, never passed.
#[test]
fn f_what_cannot_be_compared_does_not_pass() {
    let lab = Lab::new();
    let base = recorded(&lab, "base.json", 2);
    lab.run("compare base.json absent.json").refuses(&["absent.json"]);
    lab.make_dir("empty");
    lab.run("compare base.json empty --fail-on 5%").refuses(&["empty", "run.json"]);
    lab.write("broken.json", "{\"schema\": 1, ");
    lab.run("compare base.json broken.json").refuses(&["broken.json"]);
    lab.run("compare base.json base.json --fail-on lots").refuses(&["--fail-on", "lots"]);
    lab.run("compare base.json").refuses(&["NEW"]);

    let mut other = base.clone();
    for point in other["points"].as_array_mut().unwrap() {
        point["cell"]["workload"] = "something else".into();
    }
    lab.write("other.json", other.to_string());
    lab.run("compare base.json other.json --fail-on 5%").exits(2).warns("no cell in common");

    // A cell that has gone is listed.
    let mut fewer = base;
    fewer["points"].as_array_mut().unwrap().remove(0);
    lab.write("fewer.json", fewer.to_string());
    lab.run("compare base.json fewer.json").exits(0).says("missing from the new run");
}

/// A run of two engines, recorded in `file`.
fn recorded(lab: &Lab, file: &str, repeats: u32) -> Value {
    lab.write("work.lua", ROTATION);
    lab.run(&format!(
        "bench --backend skiplist,btree --ops 400 --repeat {repeats} --probe none \
         --report json:{file} work.lua"
    ))
    .exits(0);
    let mut run = lab.json(file);
    // Rates of a short run vary wildly; a tight spread around them makes the verdict certain.
    for point in run["points"].as_array_mut().unwrap() {
        assert_eq!(flags(point), "");
        for (index, repeat) in point["repeats"].as_array_mut().unwrap().iter_mut().enumerate() {
            repeat["ops_per_s"] = (1e6 + index as f64 * 10.0).into();
            repeat["wu_per_s"] = repeat["ops_per_s"].clone();
        }
    }
    lab.write(file, run.to_string());
    run
}

/// The same run with the rates of one engine multiplied in every repeat.
fn slowed(run: &Value, engine: &str, factor: f64) -> Value {
    let mut run = run.clone();
    for point in run["points"].as_array_mut().unwrap() {
        if point["cell"]["engine"] != engine {
            continue;
        }
        for repeat in point["repeats"].as_array_mut().unwrap() {
            for key in ["ops_per_s", "wu_per_s"] {
                repeat[key] = (repeat[key].as_f64().unwrap() * factor).into();
            }
        }
    }
    run
}

/// Verb and count of the rows of a workload's first table.
fn table_counts(out: &Outcome, workload: &str) -> Vec<(String, u64)> {
    let lines = out.stdout.lines().skip_while(|line| *line != format!("=== {workload} ==="));
    let rows = lines.skip_while(|line| !line.starts_with("op ")).skip(1);
    rows.map_while(|line| {
        let mut words = line.split_whitespace();
        let (op, count) = (words.next()?, words.next()?);
        Some((op.to_owned(), count.parse().ok()?))
    })
    .collect()
}

fn summary_rows<'a>(out: &'a Outcome, workload: &str) -> Vec<&'a str> {
    let title = format!("{workload}: sweep summary (medians)");
    let lines = out.stdout.lines().skip_while(|line| *line != title);
    lines.skip(2).take_while(|line| !line.is_empty()).collect()
}
