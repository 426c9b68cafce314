//! `--record`, `--replay`, and the flags that ask the machine for something: `--mem-limit`,
//! `--drop-caches`.

use crate::support::{Lab, field, points, repeats, tsv, verb};
use serde_json::Value;
use std::path::Path;

const BIN: &str = env!("CARGO_BIN_EXE_keyrack");

fn calls(run: &Value, name: &str) -> u64 {
    let repeats = repeats(run);
    verb(repeats[0], name).map_or(0, |verb| verb["calls"].as_u64().unwrap())
}

#[test]
fn a_recorded_run_is_replayed_on_another_engine_with_the_same_result() {
    let lab = Lab::new();
    let common = "--probe none --items 300 --settle 0";
    lab.run(&format!(
        "bench {common} --backend btree --ops 3000 --threads 2 --record t.trace --report \
         console,json:a.json ycsb/a"
    ))
    .exits(0)
    .says("recorded 3");
    let replay = |engine: &str, more: &str| {
        lab.run(&format!(
            "bench {common} --backend {engine} --replay t.trace {more} --report \
             console,json:b.json,tsv:b.tsv"
        ))
        .exits(0)
        .says("=== replay t.trace ===")
    };
    replay("masstree", "").says("threads=2");
    let (before, after) = (lab.json("a.json"), lab.json("b.json"));
    for name in ["get", "put", "rmw", "mput"] {
        assert_eq!(calls(&before, name), calls(&after, name), "{name}");
    }
    assert_eq!(points(&after)[0]["cell"]["workload"], "replay t.trace");
    // In the order of the times, from the store to the last byte of its values.
    replay("flodb", "--threads 1 --store one").says("all as recorded");
    replay("flodb", "--threads 1 --store two");
    let dump = |store: &str| lab.run(&format!("db dump {store}")).exits(0).stdout;
    assert_eq!(dump("one"), dump("two"));
    assert_eq!(dump("one").lines().count(), 300);
    let row = &tsv(&lab.read("b.tsv"))[0];
    assert!(field(row, "write_amp").parse::<f64>().is_ok_and(|ratio| ratio >= 0.0), "{row:?}");
}

#[test]
fn a_trace_of_cachelib_is_replayed_and_a_malformed_one_is_refused() {
    let lab = Lab::new();
    let good = "key,op,size,op_count,key_size\n1,SET,10,1,4\n1,GET,10,5,4\n1,DELETE,0,1,4\n";
    lab.write("t.csv", good);
    lab.run("bench --probe none --backend btree --replay t.csv").exits(0).says("replay t.csv");
    lab.write("bad.csv", format!("{good}1,GET\n"));
    lab.run("bench --probe none --backend btree --replay bad.csv --format cachelib")
        .refuses(&["bad.csv:5: ", "2 columns, expected 5"]);
    lab.run("bench --replay none.trace --format keyrack").refuses(&["none.trace"]);
    lab.run("bench --record t.zst --backend btree ycsb/a").refuses(&["leave .zst out"]);
}

#[test]
fn a_limit_of_memory_holds_or_is_refused_in_one_line() {
    let lab = Lab::new();
    let line = "bench --mem-limit 256M --probe none --backend btree --ops 100 --items 100 ycsb/a";
    let outcome = lab.run(line);
    if outcome.status == 2 {
        outcome.refuses(&["--mem-limit", "version 2 of control groups", "systemd-run"]);
        println!("SKIPPED the limit itself: no control group may be made here");
        return;
    }
    outcome.exits(0).says("memory limit 268435456 bytes, page cache included");
    lab.run("bench --mem-limit 1M --backend btree ycsb/a").refuses(&["no room to run"]);
}

#[test]
fn dropping_caches_is_refused_to_whoever_may_not() {
    let lab = Lab::new();
    let bench = [BIN, "bench", "--drop-caches", "--backend", "btree", "--ops", "1", "ycsb/a"];
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.exists() {
        println!("SKIPPED: no setpriv to become somebody else");
        return;
    }
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let outcome = lab.tool(setpriv, &[&nobody[..], &bench].concat());
    if outcome.status == 1 || outcome.status > 125 || outcome.stderr.contains("setpriv:") {
        println!("SKIPPED: nobody cannot be become here, or not run the binary");
        return;
    }
    outcome.refuses(&["--drop-caches", "takes root"]);
}
