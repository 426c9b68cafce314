//! The seventeen defects of keybench 0.1.0 that this harness was written without, one test each,
//! named after what is no longer so.
//!
//! | defect | covered by |
//! |---|---|
//! | 1 failed cells exit 0 | here |
//! | 2 write failures are invisible | here; `script_input::engine_errors_are_counted_by_verb` |
//! | 3 histograms are wrong below 64 ns | `keyrack-measure`, unit tests of `histogram` |
//! | 4 `true` is 0, `64MB` is 64M, garbage is silent | here; `bad_input` |
//! | 5 `--ops` cannot override a file's `secs` | here |
//! | 6 the replay file forgets | here; `scenarios::e_keep_and_replay` |
//! | 7 report directories collide | here |
//! | 8 the summary is on standard output alone, among TSV | here |
//! | 9 `del` and a stopped scan differ by engine | here; the scripts of `keyrack-testkit` |
//! | 10 wall time holds the start of the machines | here |
//! | 11 drift looks like a difference of engines | here |
//! | 12 random streams are correlated | here; `keyrack-workload`, unit tests of `rng` |
//! | 13 `mget` is a loop of gets | here; `keyrack-store`, unit tests of `contract` |
//! | 14 rows lack repeats, bounds, means, units, wall time | here |
//! | 15 an ended run leaves directories; no checks | here; `signals`; `doctor` |
//! | 16 values are runs of one letter | here |
//! | 17 a write inside a scan deadlocks | here |

use crate::support::{
    Lab, ONE_GET, ROTATION, cell, cells, field, only_report, points, repeats, tsv, verb,
};

/// Defect 1.
#[test]
fn failed_cells_no_longer_exit_0() {
    let lab = Lab::with("bad.lua", "return { name = 'bad', run = function() error('x') end }");
    lab.write("one.lua", ONE_GET);
    let out = lab.run("bench --backend null --ops 5 --probe none one.lua bad.lua").exits(1);
    let at_end = out.stdout.find("failed cells:\n  bad null t1").unwrap();
    assert!(at_end > out.stdout.find("=== one ===").unwrap(), "{}", out.told());
}

/// Defect 2.
#[test]
fn write_failures_are_no_longer_invisible() {
    let lab = Lab::with("f.cnf", "[null]\nfail_every = 2\n");
    for (verb, call, share) in [
        ("put", "kv.put('k', 'v')", "50.0"),
        ("del", "kv.del('k')", "50.0"),
        ("mput", "kv.mput{{key='a', val='b'}, {key='c', val='d'}}", "100.0"),
        ("mdel", "kv.mdel{'a', 'b'}", "100.0"),
    ] {
        lab.write("w.lua", format!("return {{ name = 'w', run = function() {call} end }}"));
        let out = lab.run("bench --backend null --ops 10 --probe none --config f.cnf w.lua");
        let out = out.exits(1).says(&format!("{verb} error rate: {share}%"));
        out.says(&format!("of {verb} failed"));
    }
}

/// Defect 4.
#[test]
fn true_is_no_longer_zero_and_garbage_no_longer_silent() {
    let lab = Lab::with("one.lua", ONE_GET);
    let line =
        "bench --backend null --ops 8 --probe none --report json:r.json --config a.cnf one.lua";
    // `true` as a flag of an engine: lookups miss.
    for (yes, misses) in [("true", 8), ("on", 8), ("yes", 8), ("1", 8), ("false", 0), ("off", 0)] {
        lab.write("a.cnf", format!("[null]\nmiss = {yes}\n"));
        lab.run(line).exits(0);
        let run = lab.json("r.json");
        assert_eq!(verb(repeats(&run)[0], "get").unwrap()["misses"], misses, "miss = {yes}");
    }
    lab.write("a.cnf", "items = true\n");
    lab.run(line).refuses(&["a.cnf:1", "items", "'true'"]);
    lab.write("a.cnf", "items = 64MB\n");
    lab.run(line).refuses(&["a.cnf:1", "items", "'64MB'"]);
    lab.write("a.cnf", "items = 64M # 2^26\n");
    lab.run(line).exits(0);
    assert_eq!(lab.json("r.json")["header"]["items"], 1 << 26);
    lab.write("a.cnf", "threads = 1,garbage\n");
    lab.run(line).refuses(&["a.cnf:1", "threads", "garbage"]);
}

/// Defect 5.
#[test]
fn ops_now_override_the_secs_of_a_config() {
    let lab = Lab::with("one.lua", ONE_GET);
    lab.write("a.cnf", "secs = 600\nbackend = null\nprobe = none\nreport = json:r.json\n");
    lab.run("bench --config a.cnf --ops 50 one.lua").exits(0);
    let run = lab.json("r.json");
    assert_eq!(run["header"]["ops"], 50);
    assert!(run["header"]["secs"].is_null());
    assert_eq!(repeats(&run)[0]["units"], 50);
    // And the other way round.
    lab.write("a.cnf", "ops = 900000000000\nbackend = null\nprobe = none\nreport = json:r.json\n");
    lab.run("bench --config a.cnf --secs 0.05 one.lua").exits(0);
    assert_eq!(lab.json("r.json")["header"]["secs"], 0.05);
}

/// Defect 6.
#[test]
fn a_replay_no_longer_forgets() {
    let lab = Lab::with(
        "w.lua",
        "local n = kb.param('n', 1) -- a # and a ; in a comment\n\
        return { name = 'w', run = function() kv.get('k' .. n) end }",
    );
    lab.write("a.cnf", "[null]\nvalue_bytes = 7\n[workload:w]\nitems = 77\n");
    let flags = "--backend null --ops 20 --timeline 0.5 --probe build --auto-plot \
                 --arrivals poisson --rate 100K --order shuffle --repeat 2 -P n=3 \
                 --unit-timeout 3 --warmup 0.01 --no-pin";
    let line = format!("bench {flags} --config a.cnf --report-dir out w.lua");
    lab.run(&line);
    let report = only_report(&lab, "out");
    let replay = lab.read(&format!("{report}/replay.cnf"));
    for wanted in [
        "timeline = 0.5",
        "probe = build",
        "auto_plot = yes",
        "arrivals = poisson",
        "order = shuffle",
        "param = n=3",
        "unit_timeout = 3",
        "warmup = 0.01",
        "pin = no",
        "report_dir = out",
        "[null]\nvalue_bytes = 7",
        "[workload:w]\nitems = 77",
        "[script:1]\npath = w.lua\nsha256 = ",
    ] {
        assert!(replay.contains(wanted), "no '{wanted}' in:\n{replay}");
    }
    let run = lab.json(&format!("{report}/run.json"));
    let header = &run["header"];
    assert!(header["version"].as_str().unwrap().starts_with("0."), "{header}");
    let argv: Vec<&str> =
        header["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(argv[1..], line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(header["workloads"][0]["text"], lab.read("w.lua").as_str());
    assert_eq!(header["workloads"][0]["sha256"].as_str().unwrap().len(), 64);

    // A text that was changed by hand is no longer the run's.
    let changed = replay.replace("kv.get", "kv.del");
    lab.write("changed.cnf", changed);
    lab.run("bench --config changed.cnf").refuses(&["changed.cnf", "w.lua", "sha256"]);
}

/// Defect 7.
#[test]
fn report_directories_no_longer_collide() {
    let lab = Lab::with("one.lua", ONE_GET);
    let base = "a/b/c,d:e f";
    let words =
        ["bench", "--backend", "null", "--ops", "5", "--probe", "none", "--report-dir", base];
    let words: Vec<&str> = words.into_iter().chain(["one.lua"]).collect();
    // Five in a row: some of them begin in one second.
    for _ in 0..5 {
        lab.run_words(&words).exits(0);
    }
    let reports = lab.names(base);
    assert_eq!(reports.len(), 5, "{reports:?}");
    for report in reports {
        for file in ["report.txt", "points.tsv", "timeline.tsv", "run.json", "replay.cnf"] {
            assert!(lab.exists(&format!("{base}/{report}/{file}")), "{report}/{file}");
        }
    }
}

/// Defect 8.
#[test]
fn the_summary_is_no_longer_among_tsv_nor_missing_from_files() {
    let lab = Lab::with("work.lua", ROTATION);
    let line = "bench --backend skiplist,btree --ops 40 --probe none";
    let out = lab.run(&format!("{line} --report tsv work.lua")).exits(0);
    let rows = tsv(&out.stdout);
    assert_eq!(rows.len(), 2 * 4, "{}", out.told());
    assert!(!out.stdout.contains("summary"), "{}", out.told());
    lab.run(&format!("{line} --report tsv,console:report.txt work.lua")).exits(0);
    assert!(lab.read("report.txt").contains("rotation: sweep summary (medians)"));
}

/// Defect 9.
#[test]
fn del_and_a_stopped_scan_no_longer_differ_by_engine() {
    let lab = Lab::with_dir("data");
    lab.write(
        "w.lua",
        r#"
return { name = "w", run = function()
  for i = 1, 9 do kv.put("k" .. i, "v") end
  assert(kv.del("k5") == true, "an existing key was not called so")
  assert(kv.del("k5") == false, "an absent key was not called so")
  assert(kv.get("k5") == nil)
  local seen = {}
  local rows = kv.scan("k1", "k9", function(key) seen[#seen + 1] = key return key == "k3" end)
  assert(#seen == 3 and rows == 3, "the stopping row is visited and counted: " .. rows)
  rows = kv.scan("k1", "k9", function() end)
  assert(rows == 7, "half open, without k5 and k9: " .. rows)
  assert(kv.scan("k1", "k9", function() end, 2) == 2)
  assert(#kv.range("k9", "k1") == 0 and #kv.range("k1", "k1") == 0)
  assert(kv.mdel { "k1", "absent" } == 2)
end }
"#,
    );
    lab.run(
        "bench --backend skiplist,btree,redb,masstree,rowstore,flodb --data-dir data \
         --durability none --ops 3 --probe none w.lua",
    )
    .exits(0)
    .says("6 removals looked their keys up first, ");
}

/// Log-structured engines answered nil.
#[test]
fn deletes_are_blind_on_request_alone() {
    let lab = Lab::with_dir("data");
    let unit = "kv.put('k', 'v') assert(kv.del('k') == nil)";
    lab.write("w.lua", format!("return {{ name = 'w', run = function() {unit} end }}"));
    let line = "bench --backend flodb --data-dir data --durability none --ops 3 --probe none w.lua";
    let out = lab.run(&format!("{line} --blind-deletes")).exits(0);
    assert!(!out.stdout.contains("looked their keys up"), "{}", out.told());
    lab.run(line).exits(1);
}

/// Defect 10. Each machine computes for a second of CPU time before it has a `run`; the unit does
/// nothing.
#[test]
fn wall_no_longer_holds_the_start_of_the_machines() {
    let lab = Lab::with(
        "slow.lua",
        "local start = os.clock()\nwhile os.clock() - start < 1 do end\n\
         return { name = 'slow', run = function() end }",
    );
    lab.run("bench --backend null --ops 2 --probe none --report json:r.json slow.lua").exits(0);
    let run = lab.json("r.json");
    let repeat = repeats(&run)[0];
    assert!(repeat["wall_s"].as_f64().unwrap() < 1.0, "{repeat}");
    assert!(repeat["straggle_s"].as_f64().unwrap() <= repeat["wall_s"].as_f64().unwrap());
    assert!(repeat["started_s"].as_f64().unwrap() >= 1.0, "the start-up is not free: {repeat}");
}

/// Defect 11.
#[test]
fn engines_now_take_turns() {
    let order = |flags: &str| {
        let lab = Lab::with("one.lua", ONE_GET);
        let line = format!(
            "bench --backend skiplist,btree --ops 20 --probe none --report json:r.json \
             {flags} one.lua"
        );
        lab.run(&line).exits(0);
        let run = lab.json("r.json");
        let mut starts: Vec<(f64, String)> = Vec::new();
        for point in points(&run) {
            for repeat in point["repeats"].as_array().unwrap() {
                let name = &point["cell"]["engine"].as_str().unwrap()[..1];
                let when = repeat["started_s"].as_f64().unwrap();
                starts.push((when, format!("{name}{}", repeat["index"])));
            }
        }
        starts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let names: Vec<String> = starts.into_iter().map(|(_, name)| name).collect();
        (run["header"]["order"].as_str().unwrap().to_owned(), names.join(" "))
    };
    assert_eq!(order("--repeat 2"), ("interleave".into(), "s1 b1 b2 s2".into()));
    assert_eq!(order("--repeat 2 --order engine"), ("engine".into(), "s1 s2 b1 b2".into()));
    assert_eq!(order("--repeat 1").0, "engine");
    let (name, shuffled) = order("--repeat 4 --order shuffle --seed 3");
    assert_eq!(name, "shuffle");
    assert_eq!(order("--repeat 4 --order shuffle --seed 3").1, shuffled, "the seed decides");
    let mut sorted: Vec<&str> = shuffled.split(' ').collect();
    sorted.sort_unstable();
    assert_eq!(sorted.join(" "), "b1 b2 b3 b4 s1 s2 s3 s4");
}

/// Defect 12. In keybench thread 1 of seed 1 drew what thread 0 of seed 2 drew, and load what run
/// did.
#[test]
fn random_streams_are_no_longer_correlated() {
    let lab = Lab::with(
        "w.lua",
        "return { name = 'w', run = function() kv.get('k' .. math.random(1, 1000000000)) end }",
    );
    let hashes = |seed: u32| {
        lab.run(&format!(
            "bench --backend null --ops 40 --threads 2 --seed {seed} --trace-hash --probe none \
             --report json:r.json w.lua"
        ))
        .exits(0);
        let run = lab.json("r.json");
        let list = repeats(&run)[0]["trace_hashes"].as_array().unwrap().clone();
        assert_eq!(list.len(), 2);
        list
    };
    let (one, two) = (hashes(1), hashes(2));
    assert_ne!(one[1], two[0]);
    assert_ne!(one[0], one[1]);
    assert_ne!(one[0], two[0]);
    assert_eq!(hashes(1), one);
    // Load and run: the first draw of one is not the first draw of the other.
    lab.write(
        "l.lua",
        "return { name = 'l',\n\
         load = function() kv.put('drawn', tostring(math.random(1, 1000000000))) end,\n\
         run = function() assert(kv.get('drawn') ~= tostring(math.random(1, 1000000000))) end }",
    );
    lab.run("bench --backend btree --ops 1 --probe none l.lua").exits(0);
}

/// Defect 13. One sample and one call of the engine, whose keys each count.
#[test]
fn mget_is_one_call() {
    let lab = Lab::with(
        "w.lua",
        "return { name = 'w', load = function() kv.put('a', '1') end,\n\
         run = function() local got = kv.mget { 'a', 'b', 'a' }\n\
         assert(got[1] == '1' and got[2] == nil and got[3] == '1') end }",
    );
    lab.run("bench --backend btree --ops 10 --probe none --report json:r.json w.lua").exits(0);
    let run = lab.json("r.json");
    let mget = verb(repeats(&run)[0], "mget").unwrap().clone();
    assert_eq!((&mget["calls"], &mget["prim_ops"]), (&10.into(), &30.into()));
    assert_eq!((&mget["hits"], &mget["misses"]), (&20.into(), &10.into()));
    assert!(verb(repeats(&run)[0], "get").is_none());
}

/// Defect 14.
#[test]
fn rows_no_longer_lack_what_error_bars_need() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.run(
        "bench --backend btree --repeat 3 --secs 0.1 --timeline 0.02 --probe none \
         --report json:r.json,tsv:r.tsv,timeline:tl.tsv work.lua",
    )
    .exits(0);
    for row in tsv(&lab.read("r.tsv")) {
        let number = |column: &str| field(&row, column).parse::<f64>().unwrap();
        assert_eq!(field(&row, "repeats"), "3");
        assert!(number("wu_lo") <= number("wu_per_s") && number("wu_per_s") <= number("wu_hi"));
        assert!(number("wu_ci_lo") <= number("wu_ci_hi"));
        assert!(number("mean_ns") > 0.0);
    }
    let timeline = tsv(&lab.read("tl.tsv"));
    for repeat in ["1", "2", "3"] {
        assert!(timeline.iter().any(|row| field(row, "repeat") == repeat), "{repeat}");
    }
    let run = lab.json("r.json");
    let all = repeats(&run);
    assert_eq!(all.iter().map(|r| r["index"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    for repeat in all {
        assert!(repeat["wall_s"].as_f64().unwrap() >= 0.1);
        let rate = repeat["units"].as_f64().unwrap() / repeat["wall_s"].as_f64().unwrap();
        assert!((rate / repeat["wu_per_s"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    }
}

/// Defect 15: a failed run leaves no store behind, free space is guarded, and one file can give
/// each workload its own size.
#[test]
fn an_unlucky_run_no_longer_leaves_directories() {
    let lab = Lab::with_dir("data");
    lab.write(
        "bad.lua",
        "return { name = 'bad', run = function() kv.put('a', 'b') error('x') end }",
    );
    let line = "bench --backend redb --data-dir data --durability none --ops 5 --probe none";
    lab.run(&format!("{line} bad.lua")).exits(1);
    assert_eq!(lab.names("data"), [] as [&str; 0]);
    lab.run(&format!("{line} --seed-once --threads 1,2 bad.lua")).exits(1);
    assert_eq!(lab.names("data"), [] as [&str; 0]);
    lab.run(&format!("{line} --min-free 4000T bad.lua")).refuses(&["data", "--min-free"]);

    lab.write("one.lua", ONE_GET);
    lab.write("work.lua", ROTATION);
    lab.write("a.cnf", "ops = 12\n[workload:rotation]\nops = 40\n");
    lab.run(
        "bench --backend btree --config a.cnf --probe none --report json:r.json one.lua work.lua",
    )
    .exits(0);
    let run = lab.json("r.json");
    let units: Vec<(String, u64)> = points(&run)
        .iter()
        .map(|p| (cell(p), p["repeats"][0]["units"].as_u64().unwrap()))
        .collect();
    assert_eq!(units, [("one btree t1".to_owned(), 12), ("rotation btree t1".to_owned(), 40)]);
}

/// Defect 16.
#[test]
fn values_are_no_longer_runs_of_one_letter() {
    let lab = Lab::with(
        "w.lua",
        r#"
local K = kb.sequential { fmt = "k:%012d", n = 100 }
local V = kb.values { size = 1000, compress = 0.5 }
return { name = "w", load = function() kv.mput(K, V, 100) end, run = function(ctx, iter)
  local value = kv.get(string.format("k:%012d", iter - 1))
  assert(#value == 1000)
  local bytes, distinct = {}, 0
  for i = 1, #value do
    local byte = value:byte(i)
    if not bytes[byte] then bytes[byte] = true distinct = distinct + 1 end
  end
  assert(distinct > 100, "only " .. distinct .. " different bytes")
end }
"#,
    );
    lab.run("bench --backend btree --ops 50 --probe none w.lua").exits(0);
}

/// Defect 17.
#[test]
fn a_write_inside_a_scan_no_longer_deadlocks() {
    let lab = Lab::with_dir("data");
    for write in ["kv.put('c', 'x')", "kv.del('a')", "kv.mput{{key='c', val='x'}}", "kv.mdel{'a'}"]
    {
        lab.write(
            "w.lua",
            format!(
                "return {{ name = 'w', load = function() kv.put('a', '1') kv.put('b', '2') end,\n\
                 run = function() kv.scan('a', 'z', function() {write} end) end }}"
            ),
        );
        let line = "bench --backend skiplist,btree,redb --data-dir data --durability none --ops 2 \
                    --probe none w.lua";
        let out = lab.run(line).exits(1);
        assert_eq!(out.stderr.matches("must not write").count(), 3, "{}", out.told());
    }
    // Reading there is fine, and so is writing afterwards.
    lab.write(
        "w.lua",
        "return { name = 'w', load = function() kv.put('a', '1') kv.put('b', '2') end,\n\
         run = function() local seen = {}\n\
         kv.scan('a', 'c', function(key) seen[#seen + 1] = kv.get(key) end)\n\
         assert(#seen == 2) kv.put('a', '1') end }",
    );
    lab.run(
        "bench --backend skiplist,btree,redb --data-dir data --durability none --ops 2 \
         --probe none --report json:r.json w.lua",
    )
    .exits(0);
    assert_eq!(cells(&lab.json("r.json")).len(), 3);
}
