//! Signals: the first one ends the run in order, with what was measured in every report, and leaves
//! no directory behind. Each test waits for a line of `--progress plain` that says where the run
//! is.

use crate::support::{Lab, ROTATION, cells, field, flags, points, repeats, tsv};

/// One workload is done, the next is under way when the signal comes.
#[track_caller]
fn partial_results(signal: &str) {
    let lab =
        Lab::with("quick.lua", "return { name = 'quick', run = function() kv.put('k', 'v') end }");
    lab.write("quick.cnf", "secs = 600\n[workload:quick]\nops = 20\n");
    lab.make_dir("data");
    let mut child = lab.start(
        "bench --backend redb,btree --data-dir data --durability none --items 200 \
         --config quick.cnf --probe none --progress plain --timeline 0.1 \
         --report console,json:r.json,tsv:r.tsv,hdr:r.hdr,timeline:tl.tsv \
         quick.lua workloads/mixed.lua",
    );
    child.wait_for("running mixed on redb");
    // A tick: the timed phase has begun and units have been counted.
    child.wait_for(" wu/s");
    assert!(!lab.names("data").is_empty(), "there is no store to remove");
    child.signal(signal);
    let out = child.finish().exits(130).warns("interrupted").says("! PARTIAL").says("interrupted");
    let run = lab.json("r.json");
    let reported = cells(&run);
    assert_eq!(reported, ["quick redb t1", "quick btree t1", "mixed redb t1"], "{}", out.told());
    assert_eq!(flags(&points(&run)[0]), "", "that one was whole");
    assert!(flags(&points(&run)[2]).contains("PARTIAL"));
    assert!(run["interrupted"].as_str().unwrap().contains("signal"));
    let last = repeats(&run)[2];
    assert!(last["units"].as_u64().unwrap() > 0);
    assert!(last["wall_s"].as_f64().unwrap() < 600.0);
    let partial = |row: &Vec<(String, String)>| {
        field(row, "workload") == "mixed" && field(row, "flags").contains("PARTIAL")
    };
    assert!(tsv(&lab.read("r.tsv")).iter().any(partial));
    assert!(lab.read("r.hdr").contains("mixed/redb/t1/get"));
    assert!(tsv(&lab.read("tl.tsv")).iter().any(|row| field(row, "workload") == "mixed"));
    assert_eq!(lab.names("data"), [] as [&str; 0], "a store was left behind");
}

#[test]
fn sigint_keeps_what_was_measured() {
    partial_results("INT");
}

#[test]
fn sigterm_keeps_what_was_measured() {
    partial_results("TERM");
}

/// `timeout` signals the process and then its group: two signals at once are one wish.
#[test]
fn two_signals_at_once_lose_no_results() {
    let lab = Lab::new();
    let mut child = lab.start(
        "bench --backend btree --secs 600 --items 200 --probe none --progress plain \
         --report json:r.json workloads/mixed.lua",
    );
    child.wait_for(" wu/s");
    child.signal("INT");
    child.signal("INT");
    child.finish().exits(130).warns("interrupted");
    assert_eq!(cells(&lab.json("r.json")), ["mixed btree t1"]);
}

/// Of three repeats the first is whole when the signal comes: the cell is kept and says so.
#[test]
fn a_signal_between_repeats_keeps_the_whole_ones() {
    let lab = Lab::with("work.lua", ROTATION);
    let mut child = lab.start(
        "bench --backend btree --repeat 3 --secs 0.2 --probe none --progress plain \
         --report json:r.json work.lua",
    );
    child.wait_for("run 2/3");
    child.signal("INT");
    let out = child.finish();
    if out.status == 0 {
        println!("the run was over before the signal came: {}", out.told());
        return;
    }
    let out = out.exits(130);
    let run = lab.json("r.json");
    assert_eq!(cells(&run), ["rotation btree t1"], "{}", out.told());
    assert!(flags(&points(&run)[0]).contains("PARTIAL"), "{}", flags(&points(&run)[0]));
    let first = repeats(&run)[0];
    assert!(first["index"] == 1 && first["wall_s"].as_f64().unwrap() >= 0.2, "{first}");
}

/// A load that would take for ever ends as well, and its store is removed.
#[test]
fn a_signal_ends_a_long_load() {
    let lab = Lab::with_dir("data");
    lab.write(
        "load.lua",
        "return { name = 'l', load = function() while true do kv.put('k', 'v') end end, \
         run = function() kv.get('k') end }",
    );
    let mut child = lab.start(
        "bench --backend redb --data-dir data --durability none --ops 5 --probe none \
         --progress plain load.lua",
    );
    child.wait_for("keys/s");
    child.signal("INT");
    child.finish().exits(130).warns("interrupted");
    assert_eq!(lab.names("data"), [] as [&str; 0], "a store was left behind");
}

/// An endless unit does not hold a signal up for ever.
#[test]
fn a_signal_ends_an_endless_unit() {
    let lab =
        Lab::with("loop.lua", "return { name = 'l', run = function() while true do end end }");
    let line = "bench --backend null --secs 600 --probe none --progress plain loop.lua";
    let mut child = lab.start(line);
    child.wait_for("running l on null");
    child.signal("TERM");
    child.finish().exits(130).warns("interrupted");
}
