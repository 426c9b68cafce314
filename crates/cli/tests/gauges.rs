//! What is measured beside latencies: bytes and their amplification, stalls, steadiness.

use crate::support::{Lab, points, repeats};

/// Ten rows are loaded; each unit writes 7 + 10 bytes, removes a key of 7, reads 10, visits one row
/// of 7 + 10.
const SCRIPT: &str = "local V = string.rep('v', 10)\n\
    local function key(i) return string.format('k:%05d', i) end\n\
    return { name = 'bytes',\n\
      load = function(ctx) for i = 1, 10 do kv.put(key(i), V) end end,\n\
      run = function(ctx, iter)\n\
        kv.put(key(1), V)\n\
        kv.del(key(99))\n\
        assert(kv.get(key(1)))\n\
        assert(kv.get(key(77)) == nil)\n\
        assert(kv.count(key(1), key(2)) == 1)\n\
      end }";

#[test]
fn bytes_are_counted_and_set_against_what_the_machine_moved() {
    let lab = Lab::with_dir("data");
    lab.write("b.lua", SCRIPT);
    let line = "bench b.lua --backend flodb,btree --data-dir data --ops 50 --probe none \
                --amplification --report console,json:r.json";
    let out = lab.run(line).exits(0).says("amplification: write ").says(" (files / rows)");
    let run = lab.json("r.json");
    let traffic = &repeats(&run)[0]["traffic"];
    assert_eq!(traffic["user_written_bytes"], 50 * (17 + 7), "{traffic}");
    assert_eq!(traffic["user_read_bytes"], 50 * (10 + 17), "{traffic}");
    assert_eq!(traffic["live_bytes"], 10 * 17, "{traffic}");
    assert_eq!(traffic["disk_bytes"], repeats(&run)[0]["aftermath"]["disk_bytes"]);
    // A store in memory moves nothing to a disk.
    assert!(points(&run)[1]["repeats"][0].get("traffic").is_none(), "{run}");
    assert_eq!(out.stdout.matches("amplification:").count(), 1, "{}", out.told());
    // Without the walk nobody knows how much of the files is rows.
    let out = lab.run(&line.replace("--amplification ", "").replace("flodb,btree", "lmdb"));
    let out = out.exits(0).says("amplification: ");
    assert!(!out.stdout.contains("files / rows"), "{}", out.told());
    assert!(repeats(&lab.json("r.json"))[0]["traffic"]["live_bytes"].is_null());
}

/// An engine that stops for a third of a second shows it, however few operations were hit.
#[test]
fn a_stall_of_the_whole_store_is_seen() {
    let lab = Lab::with(
        "c.cnf",
        "backend = null\nsecs = 1.2\nthreads = 2\nprobe = none\nreport = console,json:r.json\n\
         workload = mixed\n[null]\nstall_every_ms = 500\nstall_ms = 330\n",
    );
    lab.run("bench --config c.cnf").exits(0).says("stalls of 0.1 s or more: ");
    let run = lab.json("r.json");
    let pace = &repeats(&run)[0]["pace"];
    assert!(pace["stalls"].as_u64().unwrap() >= 1, "{pace}");
    assert!(pace["longest_s"].as_f64().unwrap() >= 0.1, "{pace}");
    assert!(pace["stalled_s"].as_f64() >= pace["longest_s"].as_f64(), "{pace}");
    assert!(pace["is_steady"].is_null(), "too short to be judged: {pace}");
}

/// Every engine gives right answers to whole workloads, and says that it was asked for them.
#[test]
fn answers_are_checked_while_a_workload_runs() {
    let lab = Lab::with_dir("data");
    let engines = "skiplist,btree,masstree,rowstore,flodb,redb,fjall,lmdb,rocksdb?,leveldb?";
    let line = format!(
        "bench --verify --backend {engines} --data-dir data --durability none --ops 150 --items 60 \
         --users 10 --probe none --report json:r.json"
    );
    lab.run(&format!("{line} workloads/mixed.lua workloads/cart.lua workloads/batch.lua ycsb/f"))
        .exits(0);
    let run = lab.json("r.json");
    assert!(points(&run).len() >= 8 * 4, "{run}");
    for point in points(&run) {
        let notes = point["notes"].to_string();
        assert!(notes.contains("verified: every answer was held against"), "{notes}");
    }
    lab.run(&format!("{line} --threads 2 ycsb/e")).exits(0);
    let notes = points(&lab.json("r.json"))[0]["notes"].to_string();
    assert!(notes.contains("verified: the order of ranges was checked"), "{notes}");
}
