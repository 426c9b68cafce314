//! `keyrack bench --list`: everything that can be named on the command line.

use crate::support::Lab;

#[test]
fn what_is_listed_can_be_run() {
    let lab = Lab::with_dir("data");
    let listed = lab.run("bench --list").exits(0);
    assert_eq!(listed.stderr, "");
    let section = |title: &str| -> Vec<String> {
        let lines = listed.stdout.lines().skip_while(|line| *line != title).skip(1);
        let names = lines.take_while(|line| line.starts_with("  "));
        names
            .filter(|line| !line.starts_with("   "))
            .map(|line| line.split_whitespace().next().unwrap().to_owned())
            .collect()
    };
    let engines = section("engines:");
    assert_eq!(engines[..2], ["skiplist", "btree"], "{}", listed.told());
    if cfg!(feature = "sqlite") {
        assert!(engines.contains(&"sqlite".to_owned()), "{}", listed.told());
    } else {
        assert!(listed.stdout.contains("--features sqlite)"), "{}", listed.told());
    }
    for engine in ["arctic", "scc", "congee", "null", "redb", "fjall", "lmdb", "rocksdb", "leveldb"]
    {
        assert!(engines.contains(&engine.to_owned()), "{engine}: {}", listed.told());
    }
    let native = section("native workloads:");
    assert!(native.contains(&"ycsb/a".to_owned()), "{}", listed.told());
    let scripts = section("bundled scripts:");
    assert_eq!(scripts.len(), 8, "{}", listed.told());
    let all = [native, scripts].concat().join(" ");
    // One whose library this machine lacks is left out.
    let mut engines = engines;
    engines.retain(|engine| engine != "congee");
    let congee = "bench --backend congee --ops 4 --items 20 --probe none index/be8";
    lab.run(congee).exits(0).says("engine=congee");
    lab.run(&congee.replace("be8", "url")).exits(1).says("keys of exactly 8 bytes (got");
    let line = format!(
        "bench --backend {}? --data-dir data --durability none --ops 4 --items 20 --users 5 \
         --probe none --report json:r.json {all}",
        engines.join("?,")
    );
    lab.run(&line).exits(0);
}

#[test]
fn engine_options_sinks_and_probes_are_listed() {
    let lab = Lab::new();
    let out = lab.run("bench --list").exits(0).says("fail_every").says("(needs --data-dir)");
    let out = out.says("not built in: rocksdb-bundled").says("--rocksdb-lib");
    let refused = lab.run("bench --backend rocksdb-bundled --data-dir .").exits(2);
    refused.warns("engine 'rocksdb-bundled' is not in this build").warns("--features rocksdb");
    let out = out.says("sinks: console, tsv, timeline, json, hdr, notebook, gnuplot, dbbench\n");
    out.says("probes: system, build, perf, cgroup\n");
    lab.keybench("--list").exits(0).says("skiplist");
}
