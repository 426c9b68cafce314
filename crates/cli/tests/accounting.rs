//! What is counted adds up, exactly: units, primitive operations, hits and misses, rows of the
//! reports.

use crate::support::{Lab, ROTATION, cell, field, points, repeats, tsv, verb};
use serde_json::Value;

fn number(value: &Value, key: &str) -> u64 {
    match value[key].as_u64() {
        Some(number) => number,
        None => panic!("{key} is no count in {value}"),
    }
}

/// Batches of 1, 8 and 64: powers of two, so that the rates agree to the last bit.
#[test]
fn ops_are_the_batch_times_units() {
    for threads in [1, 3] {
        let lab = Lab::new();
        lab.run(&format!(
            "bench --backend null,btree --batch 1,8,64 --threads {threads} --ops 100 --items 300 \
             --probe none --report json:r.json workloads/batch.lua"
        ))
        .exits(0);
        let run = lab.json("r.json");
        assert_eq!(points(&run).len(), 6);
        for point in points(&run) {
            let batch = number(&point["cell"]["sweep"], "value");
            let repeat = &point["repeats"][0];
            assert_eq!(number(repeat, "units"), 100, "{}", cell(point));
            assert_eq!(number(repeat, "prim_ops"), 100 * batch, "{}", cell(point));
            let (wu, ops) = (&repeat["wu_per_s"], &repeat["ops_per_s"]);
            let wanted = batch as f64 * wu.as_f64().unwrap();
            assert!(ops.as_f64().unwrap() == wanted, "{}: {ops} is not {wanted}", cell(point));
            let calls: u64 = verbs(repeat).iter().map(|op| number(op, "calls")).sum();
            assert_eq!(calls, 100);
            let mget = verb(repeat, "mget").unwrap();
            assert_eq!(number(mget, "prim_ops"), batch * number(mget, "calls"));
            assert_eq!(number(mget, "hits") + number(mget, "misses"), number(mget, "prim_ops"));
        }
    }
}

fn verbs(repeat: &Value) -> &Vec<Value> {
    repeat["ops"].as_array().unwrap()
}

/// Units are dealt out without loss, whatever the threads; each lookup is a hit, a miss or an
/// error.
#[test]
fn counts_sum_to_the_ops_asked_for() {
    let lab = Lab::with("a.cnf", "[null]\nfail_get_every = 7\n");
    lab.write("work.lua", ROTATION);
    let out = lab.run(
        "bench --config a.cnf --backend null,btree --threads 1,3 --ops 1001 --items 200 \
         --probe none --report json:r.json work.lua workloads/mixed.lua workloads/mixed-native.lua \
         workloads/mixed-declarative.lua ycsb/a ycsb/c",
    );
    let out = out.exits(1);
    let run = lab.json("r.json");
    assert_eq!(points(&run).len(), 6 * 2 * 2, "{}", out.told());
    for point in points(&run) {
        let (repeat, place) = (&point["repeats"][0], cell(point));
        assert_eq!(number(repeat, "units"), 1001, "{place}");
        assert_eq!(number(repeat, "prim_ops"), 1001, "{place}");
        let calls: u64 = verbs(repeat).iter().map(|op| number(op, "calls")).sum();
        assert_eq!(calls, 1001, "{place}");
        let get = verb(repeat, "get").unwrap();
        let answered = number(get, "hits") + number(get, "misses") + number(get, "errors");
        assert_eq!(answered, number(get, "calls"), "{place}");
        if point["cell"]["engine"] == "null" {
            assert!(number(get, "errors") > 0 && number(get, "misses") == 0, "{place}: {get}");
        } else {
            assert_eq!(number(get, "errors"), 0, "{place}");
        }
    }
}

/// A unit of many verbs: every one of them is counted, and a range counts once whatever its rows.
#[test]
fn a_unit_may_hold_many_verbs() {
    let lab = Lab::with(
        "w.lua",
        r#"return { name = "w",
          load = function() for i = 1, 9 do kv.put("k" .. i, "v") end end,
          run = function()
            kv.range("k1", "k9") kv.scan("k1", "k9", function() end) kv.count("k1", "k9")
            kv.get("k1") kv.get("absent") kv.put("k1", "w")
            kv.mput { { key = "a", val = "1" }, { key = "b", val = "2" } }
            kv.mget { "a", "b", "c" } kv.mdel { "a", "b" } kv.mget {}
          end }"#,
    );
    lab.run(
        "bench --backend skiplist,btree --threads 2 --ops 10 --probe none --report json:r.json \
         w.lua",
    )
    .exits(0);
    for repeat in repeats(&lab.json("r.json")) {
        let counted: Vec<(&str, u64, u64)> = verbs(repeat)
            .iter()
            .map(|op| (op["op"].as_str().unwrap(), number(op, "calls"), number(op, "prim_ops")))
            .collect();
        assert_eq!(
            counted,
            [
                ("put", 10, 10),
                ("get", 20, 20),
                ("range", 30, 30),
                ("mget", 20, 30),
                ("mput", 10, 20),
                ("mdel", 10, 20),
            ]
        );
        assert_eq!(number(repeat, "prim_ops"), 130);
        assert_eq!(number(repeat, "units"), 10);
    }
}

/// What the load put there is what the run finds.
#[test]
fn a_load_is_whole_with_any_number_of_threads() {
    let lab = Lab::new();
    for flags in
        ["--threads 1", "--threads 3", "--threads 2 --seed-threads 5", "--threads 1,2 --seed-once"]
    {
        lab.write(
            "w.lua",
            r#"return { name = "w",
          load = function(ctx)
            for i = ctx.thread, ctx.items - 1, ctx.threads do
              kv.put(string.format("%04d", i), "v")
            end
          end,
          run = function(ctx) assert(kv.count("", nil) == ctx.items) end }"#,
        );
        lab.run(&format!(
            "bench --backend btree --items 333 --ops 4 {flags} --probe none \
             --report json:r.json w.lua"
        ))
        .exits(0);
        for repeat in repeats(&lab.json("r.json")) {
            assert_eq!(number(&repeat["load"], "keys"), 333, "{flags}");
        }
    }
}

/// The columns that existing readers know come first, under their names and in their order.
#[test]
fn tsv_has_a_row_for_each_verb_of_each_cell() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.run(
        "bench --backend skiplist,btree --threads 1,2 --ops 80 --batch 4 --probe none \
         --report tsv:r.tsv,json:r.json work.lua workloads/batch.lua",
    )
    .exits(0);
    let text = lab.read("r.tsv");
    assert!(text.starts_with(
        "workload\tengine\tthreads\tsweep_param\tsweep_value\top\tcount\tp50_ns\tp99_ns\tp999_ns\t\
         max_ns\thit_rate\terr_rate\twu_per_s\tops_per_s\t"
    ));
    let rows = tsv(&text);
    let run = lab.json("r.json");
    let wanted: usize = repeats(&run).iter().map(|repeat| verbs(repeat).len()).sum();
    assert_eq!(rows.len(), wanted);
    for row in rows.iter().filter(|row| field(row, "workload") == "rotation") {
        assert_eq!((field(row, "sweep_param"), field(row, "sweep_value")), ("", "1"));
        assert_eq!(field(row, "count"), "20");
        let number = |column: &str| field(row, column).parse::<f64>().unwrap();
        assert!(number("p50_ns") <= number("p99_ns") && number("p99_ns") <= number("max_ns"));
        // Lookups of one thread go to the keys 4, 8 ... 80, of which those below 64 are there; two
        // threads get to 40 each.
        let hit_rate = match (field(row, "op"), field(row, "threads")) {
            ("get", "1") => "75.000",
            ("get", _) => "100.000",
            _ => "0.000",
        };
        assert_eq!(field(row, "hit_rate"), hit_rate, "{row:?}");
    }
    for row in rows.iter().filter(|row| field(row, "workload") == "batch") {
        assert_eq!((field(row, "sweep_param"), field(row, "sweep_value")), ("batch", "4"));
    }
}

/// The timeline has rows where an interval was given, of every repeat and with both rates.
#[test]
fn a_timeline_needs_an_interval() {
    let lab = Lab::with("work.lua", ROTATION);
    let line = "bench --backend btree --secs 0.3 --repeat 2 --probe none --report timeline:tl.tsv";
    lab.run(&format!("{line} work.lua")).exits(0);
    let text = lab.read("tl.tsv");
    assert_eq!(text.lines().count(), 1, "{text}");
    lab.run(&format!("{line} --timeline 0.05 work.lua")).exits(0);
    let rows = tsv(&lab.read("tl.tsv"));
    for repeat in ["1", "2"] {
        for metric in ["wu_per_s", "ops_per_s", "get_p99_ns", "rss_mb"] {
            let found = |row: &&Vec<(String, String)>| {
                field(row, "repeat") == repeat && field(row, "metric") == metric
            };
            assert!(rows.iter().any(|row| found(&row)), "{metric} of repeat {repeat}");
        }
    }
    let mut last = 0.0;
    let elapsed = |row: &Vec<(String, String)>| field(row, "elapsed_s").parse::<f64>().unwrap();
    for row in rows.iter().filter(|r| {
        field(r, "repeat") == "2" && field(r, "metric") == "wu_per_s" && field(r, "phase") == "run"
    }) {
        assert!(elapsed(row) > last, "time goes forward: {row:?}");
        last = elapsed(row);
    }
    // The last, partial interval is there too.
    assert!(last >= 0.3, "{last}");
}

/// The keys that a thread issues depend on the seed, the workload and the thread: not on the
/// engine, not on how many other threads there are.
#[test]
fn traces_are_the_same_for_every_engine_and_number_of_threads() {
    for workload in ["workloads/mixed.lua", "workloads/mixed-declarative.lua", "ycsb/a"] {
        let lab = Lab::with_dir("data");
        let traces = |flags: &str| {
            lab.run(&format!(
                "bench --items 500 --trace-hash --probe none --data-dir data --durability none \
                 --report json:r.json {flags} {workload}"
            ))
            .exits(0);
            let run = lab.json("r.json");
            points(&run)
                .iter()
                .map(|point| {
                    let list = point["repeats"][0]["trace_hashes"].as_array().unwrap();
                    list.iter().map(|hash| hash.as_str().unwrap().to_owned()).collect()
                })
                .collect::<Vec<Vec<String>>>()
        };
        let engines = "--backend skiplist,btree,redb,null";
        let two = traces(&format!("{engines} --threads 2 --ops 200"));
        assert_eq!(two.len(), 4);
        assert!(two.iter().all(|hashes| *hashes == two[0]), "{workload}: {two:?}");
        assert_eq!(two[0].len(), 2, "one a thread");
        assert_ne!(two[0][0], two[0][1], "{workload}: two threads issue the same keys");
        assert!(two[0].iter().all(|hash| hash.len() == 16), "{two:?}");

        let one = traces("--backend btree --threads 1 --ops 100");
        assert_eq!(one[0][0], two[0][0], "{workload}: thread 0 depends on the number of threads");
        let other = traces("--backend btree --threads 1 --ops 100 --seed 2");
        assert_ne!(one[0][0], other[0][0], "{workload}: the seed does nothing");
        let longer = traces("--backend btree --threads 1 --ops 101");
        assert_ne!(one[0][0], longer[0][0]);
    }
}

/// Without the flag there is nothing to pay for and nothing to read.
#[test]
fn traces_are_hashed_on_request_alone() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.run("bench --backend btree --ops 5 --probe none --report json:r.json work.lua").exits(0);
    assert_eq!(repeats(&lab.json("r.json"))[0]["trace_hashes"].as_array().unwrap().len(), 0);
}

/// The processor time of a warm-up was in that of the few units after it.
#[test]
fn a_warm_up_is_in_no_number() {
    let lab = Lab::new();
    lab.run(
        "bench --backend null --ops 10 --warmup 0.6 --items 100 --probe none \
         --report json:r.json,timeline:t.tsv --timeline 0.01 workloads/mixed-native.lua",
    )
    .exits(0);
    let run = lab.json("r.json");
    let repeat = &repeats(&run)[0];
    assert_eq!((number(repeat, "units"), &repeat["warmup_s"]), (10, &Value::from(0.6)));
    // One worker has spun for 0.6 s; ten lookups in nothing take no time to speak of.
    let cpu_s = repeat["cpu_s"].as_f64().unwrap();
    assert!(cpu_s < 0.3, "{cpu_s} s");
}

/// A rate search tries many rates on one store: what that moved was set against the work of one.
#[test]
fn a_rate_search_has_no_amplification_of_writes() {
    let lab = Lab::with_dir("data");
    lab.run(
        "bench --backend flodb --data-dir data --rate-search p99<10s --secs 0.1 --items 100 \
         --probe none --report json:r.json ycsb/a",
    )
    .exits(0);
    let run = lab.json("r.json");
    let repeat = &repeats(&run)[0];
    assert!(number(&repeat["traffic"], "user_written_bytes") > 0, "{repeat}");
    for (place, key) in
        [("traffic", "written_bytes"), ("traffic", "read_bytes"), ("aftermath", "written_bytes")]
    {
        assert!(repeat[place][key].is_null(), "{place}.{key}: {repeat}");
    }
    assert!(number(&repeat["aftermath"], "disk_bytes") > 0, "{repeat}");
}
