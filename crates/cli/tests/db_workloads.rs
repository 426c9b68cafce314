//! The workloads `db/...` and `flodb/mixed` from the command line, on engines in memory and on
//! disk; the sink `dbbench`; stores that stay.

use crate::support::{Lab, flags, points, repeats, verb};
use serde_json::Value;

const SMALL: &str = "--probe none -P num=400 -P value_size=30";

fn rows(repeat: &Value) -> &Vec<Value> {
    repeat["rows"].as_array().unwrap()
}

/// What an engine without compactions refuses.
const NEED_LEVELS: [&str; 3] = ["db/compact", "db/stats", "db/sstables"];

#[test]
fn an_engine_compacts_and_describes_itself_or_says_that_it_cannot() {
    let lab = Lab::with_dir("data");
    let list = "db/fillseq,db/overwrite,db/compact,db/readseq,db/stats,db/sstables";
    for (engine, table) in [
        ("flodb", "--- level 6 ---"),
        ("leveldb", "--- level 6 ---"),
        ("rocksdb", "--- level 6 --- version#"),
    ] {
        let line = format!(
            "bench --backend {engine} --data-dir data {SMALL} --report json:r.json,dbbench {list}"
        );
        let out = lab.run(&line).exits(0).says("\ncompact      : ").says(table);
        assert!(out.stdout.contains("Compaction"), "{}", out.told());
        let run = lab.json("r.json");
        assert_eq!(rows(repeats(&run)[0])[3]["fields"]["ops"], 400, "{}", out.told());
    }
    for name in NEED_LEVELS {
        let line = format!("bench --backend redb --data-dir data {SMALL} {name}");
        lab.run(&line).exits(1).says(&format!("{name} on thread 0: this engine has no "));
    }
}

/// The names of the list that begin so.
fn listed(lab: &Lab, prefix: &str) -> Vec<String> {
    let out = lab.run("bench --list").exits(0);
    let names = out.stdout.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.map(|line| line.split_whitespace().next().unwrap_or_default().to_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn every_listed_workload_runs_on_the_persistent_engines() {
    let lab = Lab::with_dir("data");
    let names = listed(&lab, "db/");
    assert_eq!(names.len(), 26, "{names:?}");
    let needs_levels = |name: &String| NEED_LEVELS.contains(&name.as_str());
    let names: Vec<String> = names.into_iter().filter(|name| !needs_levels(name)).collect();
    let line = format!(
        "bench --backend flodb,redb --data-dir data --threads 2 {SMALL} --ops 60 \
         --report json:r.json,dbbench {}",
        names.join(" ")
    );
    let out = lab.run(&line).exits(0);
    let run = lab.json("r.json");
    assert_eq!(points(&run).len(), 2 * names.len());
    for point in points(&run) {
        assert_eq!(flags(point), "", "{}", out.told());
        let name = point["cell"]["workload"].as_str().unwrap();
        let row = &rows(&point["repeats"][0])[0]["fields"];
        // Nothing is left of 400/1000 but one.
        let of_few = ["db/fillsync", "db/fill100K", "db/readrandomsmall"];
        let ops = if of_few.contains(&name) { 1 } else { 60 };
        assert_eq!(row["ops"], ops, "{name}");
        let shown = name.strip_prefix("db/").unwrap();
        let line = format!("\n{shown:<12} : ");
        assert_eq!(out.stdout.matches(&line).count(), 2, "{name}: {}", out.told());
    }
    assert_eq!(lab.names("data"), Vec::<String>::new(), "stores are removed");
}

#[test]
fn a_list_on_one_store_is_what_db_bench_runs() {
    let lab = Lab::with_dir("data");
    let line = format!(
        "bench --backend flodb --data-dir data {SMALL} --report json:r.json,dbbench \
         db/fillrandom,db/overwrite,db/readrandom,db/readseq,db/readreverse,db/seekrandom"
    );
    let out = lab.run(&line).exits(0).says("Entries:    400\n").says("fillrandom   : ");
    let run = lab.json("r.json");
    let rows = rows(repeats(&run)[0]);
    assert_eq!(rows.len(), 6, "{}", out.told());
    let there = rows[3]["fields"]["ops"].as_u64().unwrap();
    // Of 400 keys 800 draws leave 346, give or take 8.
    assert!((300..=400).contains(&there), "{there}");
    assert_eq!(rows[4]["fields"]["ops"], there);
    let (found, reads) = (&rows[2]["fields"]["found"], &rows[2]["fields"]["reads"]);
    assert!(out.stdout.contains(&format!("({found} of {reads} found)")), "{}", out.told());
}

#[test]
fn a_store_that_stays_is_filled_once() {
    let lab = Lab::new();
    let run = |line: &str| {
        lab.run(&format!("bench --backend flodb --store kept {SMALL} --report json:r.json {line}"))
            .exits(0);
        repeats(&lab.json("r.json"))[0].clone()
    };
    let repeat = run("db/fillseq");
    assert_eq!(verb(&repeat, "put").unwrap()["calls"], 400);
    assert!(lab.exists("kept/CURRENT"));
    let repeat = run("db/readrandom");
    assert_eq!(
        (&repeat["load"]["keys"], &rows(&repeat)[0]["fields"]["found"]),
        (&0.into(), &400.into())
    );
    let repeat = run("ycsb/c --ops 10 -P fill=none db/readseq");
    assert_eq!(repeat["load"]["reused"], true);
    let line = format!("bench --backend flodb --store kept {SMALL} db/fillseq");
    lab.run(&line).exits(1).says("db/fillseq wants a store without rows");
    assert!(lab.exists("kept/CURRENT"), "it is nobody's to remove");
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let lab = Lab::with_dir("data");
    lab.run("bench --backend masstree db/fillsync")
        .refuses(&["db/fillsync makes synced puts", "'masstree'"]);
    lab.run("bench --backend flodb --data-dir data --durability none db/fillsync")
        .refuses(&["db/fillsync makes synced puts", "'flodb'"]);
    lab.run("bench --backend btree db/readseq,db/fillrandom")
        .refuses(&["db/fillrandom wants a store without rows"]);
    lab.run("bench --backend btree db/fillsq")
        .refuses(&["'db/fillsq'", "did you mean 'db/fillseq'"]);
    lab.run("bench --backend btree -P nexts=1 db/readrandom").refuses(&["parameter 'nexts'"]);
    lab.run("bench --backend btree --store s db/readseq").refuses(&["--store s", "in memory"]);
    lab.run("bench --backend btree --rate 10 db/readseq").refuses(&["--rate"]);
    lab.run("bench --backend btree --probe none -P reads=x db/readhot")
        .exits(1)
        .says("load: db/readhot on thread 0: parameter reads: 'x' is not a whole number");
}

#[test]
fn engine_options_make_a_fair_comparison() {
    let lab = Lab::with_dir("data");
    lab.write(
        "a.cnf",
        "[bench]\n[flodb]\ncompression = zstd\nfilter_bits = 0\ndurability = none\n",
    );
    let out = lab.run(&format!(
        "bench --config a.cnf --backend flodb --data-dir data {SMALL} --report dbbench db/fillseq"
    ));
    out.exits(0).says(", durability none\n");
    lab.write("b.cnf", "[bench]\n[flodb]\ncompression = gzip\n");
    lab.run("bench --config b.cnf --backend flodb --data-dir data db/fillseq")
        .refuses(&["backend 'flodb'", "compression: 'gzip'"]);
    let line = "bench --config a.cnf --backend flodb --data-dir data --durability os db/fillseq";
    lab.run(line).refuses(&["durability: none contradicts that of the run, os"]);
}

#[test]
fn flodb_mixed_runs_on_any_engine() {
    let lab = Lab::new();
    let line = "bench --backend masstree --threads 2 --ops 3000 --probe none -P initial=500 \
                -P updates=50 --report json:r.json,console flodb/mixed";
    lab.run(line).exits(0).says("=== flodb/mixed ===").says("ops/s ");
    let run = lab.json("r.json");
    let repeat = repeats(&run)[0];
    assert_eq!(repeat["load"]["keys"], 511);
    let sum = |name: &str| -> u64 {
        rows(repeat).iter().map(|row| row["fields"][name].as_u64().unwrap()).sum()
    };
    assert_eq!(sum("reads") + sum("inserts") + sum("removes"), sum("ops"));
    assert_eq!(verb(repeat, "get").unwrap()["hits"], sum("found"));
}
