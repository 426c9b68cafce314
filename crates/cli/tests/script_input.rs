//! What is wrong with a script, an engine or a disk: said with file and line where there is one,
//! and never the end of what else can be measured.

use crate::support::{Lab, ONE_GET, Outcome, ROTATION, cells, field, flags, points, tsv, verb};

const BOOM: &str = r#"
local function inner(iter)
  if iter == 17 then error("no luck at " .. iter) end
end
return { name = "boom", run = function(ctx, iter) inner(iter) kv.put("k", "v") end }
"#;

fn script(text: impl AsRef<[u8]>) -> Outcome {
    let lab = Lab::with("bad.lua", text);
    lab.write("one.lua", ONE_GET);
    // A good workload first: nothing of it may run either.
    lab.run("bench --backend null --ops 5 one.lua bad.lua")
}

#[test]
fn a_workload_file_that_cannot_be_read_is_named() {
    let lab = Lab::new();
    lab.run("bench --backend null nosuch.lua").refuses(&["nosuch.lua", "No such file"]);
    lab.make_dir("dir.lua");
    lab.run("bench --backend null dir.lua").refuses(&["dir.lua", "irectory"]);
    lab.run("bench --backend null .").refuses(&["'.'", "irectory"]);
}

#[test]
fn a_script_that_does_not_load_is_refused_with_file_and_line() {
    script("return {\n  name = 'x',\n  run = function( end\n}").refuses(&["bad.lua:3"]);
    script("\nerror('on top')").refuses(&["bad.lua:2", "on top"]);
    script("local t\nt.x = 1").refuses(&["bad.lua:2", "nil"]);
    script("\n\nkv.get('k')\n").refuses(&["bad.lua:3", "kv.get", "no store"]);
    script("").refuses(&["bad.lua", "return", "nil"]);
    script("local x = 1\n").refuses(&["bad.lua", "return"]);
    script("return 7").refuses(&["bad.lua", "return"]);
    script(b"\xff\xfe\x00\x01").refuses(&["bad.lua:1"]);
    script(b"\x1bLua\x54\x00").refuses(&["bad.lua"]);
}

#[test]
fn a_table_that_is_no_workload_is_refused() {
    script("return { name = 'x' }").refuses(&["bad.lua", "run"]);
    script("return { name = 'x', run = 7 }").refuses(&["bad.lua", "run", "function"]);
    script("return { rnu = function() end }").refuses(&["'rnu'", "did you mean 'run'?"]);
    script("return { run = function() end, sweep = { param = 'x', values = {} } }")
        .refuses(&["bad.lua", "sweep", "values"]);
    script("return { run = function() end, sweep = { param = 'x', values = { 1.5 } } }")
        .refuses(&["bad.lua", "sweep", "1.5"]);
    script("return { run = function() end, batched = true, sweep = {} }")
        .refuses(&["bad.lua", "batched", "sweep"]);
    script("return { mix = { { op = 'gte', key = kb.uniform{} } } }").exits(2).warns("gte");
}

#[test]
fn a_huge_line_is_a_line() {
    let lab = Lab::new();
    let key = "k".repeat(2 << 20);
    lab.write(
        "huge.lua",
        format!("return {{ name = 'huge', run = function() kv.get('{key}') end }}"),
    );
    lab.run("bench --backend null,btree --ops 3 --probe none huge.lua")
        .exits(0)
        .says("=== huge ===");
}

/// Lua takes any bytes in comments and strings. So does a run, and its own replay must too; or the
/// script is refused outright. What must not happen is a replay file that does not replay.
#[test]
fn a_script_that_is_not_text_replays_or_is_refused() {
    let lab = Lab::with(
        "latin.lua",
        b"return { name = 'latin', run = function() kv.get('\xe9') end } -- \xff",
    );
    let out = lab.run("bench --backend null --ops 3 --probe none --save-config s.cnf latin.lua");
    if out.status == 2 {
        out.refuses(&["latin.lua", "UTF-8"]);
        return;
    }
    out.exits(0).says("=== latin ===");
    lab.run("bench --config s.cnf").exits(0).says("=== latin ===");
}

/// One cell fails in the middle: it is listed with its traceback, the others go on, the status is
/// 1.
#[test]
fn a_script_error_fails_its_cell_and_no_other() {
    let lab = Lab::with("boom.lua", BOOM);
    lab.write("work.lua", ROTATION);
    let out = lab
        .run(
            "bench --backend skiplist,btree --threads 1,2 --ops 100 --probe none \
             --report console,json:r.json,tsv:r.tsv boom.lua work.lua",
        )
        .exits(1);
    let out = out.says("failed cells:").says("boom.lua:3: no luck at 17").says("in function");
    assert!(out.stdout.contains("boom.lua:5"), "no traceback to the caller: {}", out.told());
    let run = lab.json("r.json");
    assert_eq!(
        cells(&run),
        ["rotation skiplist t1", "rotation skiplist t2", "rotation btree t1", "rotation btree t2"]
    );
    let failures = run["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 4);
    for failure in failures {
        assert_eq!(failure["cell"]["workload"], "boom");
        assert!(failure["reason"].as_str().unwrap().contains("unit 17"), "{failure}");
        assert!(failure["detail"].as_str().unwrap().contains("boom.lua:5"), "{failure}");
    }
    // Each is said when it happens, too.
    assert_eq!(out.stderr.lines().filter(|l| l.contains("no luck at 17")).count(), 4);
    assert!(tsv(&lab.read("r.tsv")).iter().all(|row| field(row, "workload") == "rotation"));
}

#[test]
fn an_error_in_load_or_setup_fails_the_cell() {
    let lab = Lab::new();
    for (place, word) in [("load", "load"), ("setup", "setup")] {
        let text = format!(
            "return {{\n name = 'x',\n {place} = function()\n  local t; t.x = 1\n end,\n \
             run = function() kv.get('k') end }}"
        );
        lab.write("x.lua", text);
        let out = lab.run("bench --backend null --ops 5 --probe none x.lua").exits(1);
        let out = out.says("failed cells:").says("x.lua:4");
        assert!(out.stdout.contains(word) || out.stdout.contains("start"), "{}", out.told());
    }
}

/// Errors of an engine are counted by verb and flag the cell; the run goes on to its end.
#[test]
fn engine_errors_are_counted_by_verb() {
    let lab = Lab::with("faulty.cnf", "[null]\nfail_every = 10\nfail_get_every = 4\n");
    lab.write(
        "work.lua",
        "return { name = 'w', run = function(_, i) \
        if i % 2 == 0 then kv.get('k') else kv.put('k', 'v') end end }",
    );
    let out = lab
        .run(
            "bench --backend null,btree --ops 1000 --probe none --config faulty.cnf \
             --report console,json:r.json,tsv:r.tsv work.lua",
        )
        .exits(1);
    let out = out.says("put error rate: 10.0%").says("get error rate: 25.0%").says("! ERRORS");
    assert!(out.stdout.contains("Input/output error"), "{}", out.told());
    let run = lab.json("r.json");
    let (null, btree) = (&points(&run)[0], &points(&run)[1]);
    let repeat = &null["repeats"][0];
    assert_eq!(repeat["units"], 1000, "errors do not end the run");
    assert_eq!(verb(repeat, "put").unwrap()["errors"], 50);
    assert_eq!(verb(repeat, "get").unwrap()["errors"], 125);
    assert_eq!(verb(repeat, "get").unwrap()["hits"], 375, "a failed lookup is no hit and no miss");
    assert_eq!(verb(repeat, "get").unwrap()["misses"], 0);
    assert!(flags(null).contains("ERRORS: 50 of put"), "{}", flags(null));
    assert_eq!(flags(btree), "");
    let rows = tsv(&lab.read("r.tsv"));
    let rates: Vec<(&str, &str)> =
        rows.iter().map(|row| (field(row, "op"), field(row, "err_rate"))).collect();
    assert_eq!(rates, [("put", "10.000"), ("get", "25.000"), ("put", "0.000"), ("get", "0.000")]);
}

#[test]
fn errors_while_loading_fail_the_cell() {
    let lab = Lab::with("faulty.cnf", "[null]\nfail_every = 10\n");
    lab.write("work.lua", ROTATION);
    let line = "bench --backend null,btree --ops 8 --probe none --config faulty.cnf work.lua";
    let out = lab.run(line).exits(1).says("failed cells:").says("6 engine errors while loading");
    out.says("engine=btree");
}

/// The store's disk is full: what was measured is reported, flagged, and the run ends.
#[test]
fn a_full_store_ends_the_run_with_what_there_is() {
    let lab = Lab::with("full.cnf", "[null]\nfull_after = 50\n");
    lab.write("work.lua", "return { name = 'w', run = function() kv.put('k', 'v') end }");
    let out = lab
        .run(
            "bench --backend null,btree --ops 1000 --probe none --config full.cnf \
             --report console,json:r.json,tsv:r.tsv work.lua",
        )
        .exits(1)
        .warns("the disk is full")
        .says("No space left on device");
    let run = lab.json("r.json");
    assert_eq!(cells(&run), ["w null t1"], "{}", out.told());
    let point = &points(&run)[0];
    assert!(flags(point).contains("ERRORS: 1 of put"), "{}", flags(point));
    assert!(flags(point).contains("PARTIAL"), "{}", flags(point));
    assert_eq!(verb(&point["repeats"][0], "put").unwrap()["calls"], 51);
    assert_eq!(run["interrupted"], "the disk is full");
    assert_eq!(tsv(&lab.read("r.tsv")).len(), 1);
}

/// A report's disk is full: the line names the file, and the other reports get what was measured.
#[test]
fn a_full_report_leaves_the_others_whole() {
    if !std::path::Path::new("/dev/full").exists() {
        println!("SKIPPED a_full_report_leaves_the_others_whole: no /dev/full here");
        return;
    }
    let lab = Lab::with("work.lua", ROTATION);
    let line = "bench --backend btree --ops 100 --probe none --report";
    let out = lab.run(&format!("{line} console,tsv:/dev/full,json:r.json work.lua")).exits(1);
    let out = out.warns("/dev/full").warns("No space left on device").says("=== rotation ===");
    assert_eq!(out.stderr.lines().count(), 1, "{}", out.told());
    assert_eq!(cells(&lab.json("r.json")), ["rotation btree t1"]);

    let out = lab.run(&format!("{line} tsv:r.tsv,json:/dev/full work.lua")).exits(1);
    out.warns("/dev/full").warns("No space left on device");
    assert_eq!(tsv(&lab.read("r.tsv")).len(), 4);
    let out = lab.run(&format!("{line} timeline:/dev/full,tsv:r.tsv --timeline 0.001 work.lua"));
    out.exits(1).warns("/dev/full");

    let out = lab.shell("$KEYRACK bench --backend btree --ops 100 work.lua >/dev/full").exits(1);
    out.warns("standard output").warns("No space left on device");
}

/// Whatever writes to standard output says a full disk in one line, and never panics.
#[test]
fn a_full_standard_output_is_an_error_everywhere() {
    if !std::path::Path::new("/dev/full").exists() {
        println!("SKIPPED a_full_standard_output_is_an_error_everywhere: no /dev/full here");
        return;
    }
    let lab = Lab::new();
    for words in WRITERS {
        let out = lab.shell(&format!("$KEYRACK {words} >/dev/full")).exits(1);
        assert_eq!(out.stderr.lines().count(), 1, "{}", out.told());
        out.warns("No space left on device");
    }
}

/// A reader such as `head` that has had enough is no error: no message, and no other status.
#[test]
fn a_broken_pipe_is_silent() {
    let lab = Lab::with("work.lua", ROTATION);
    let line = "bench --backend btree --threads 1,2 --repeat 2 --ops 100 work.lua";
    for words in WRITERS.iter().copied().chain([line]) {
        let out = lab.run_unread(words);
        assert_eq!(out.stderr, "", "{}", out.told());
        assert!([0, 1].contains(&out.status), "{}", out.told());
    }
    let out = lab.shell(&format!("$KEYRACK {line} | head -n 1")).exits(0);
    assert_eq!(out.stderr, "", "{}", out.told());
    assert_eq!(out.stdout.lines().count(), 1);
}

/// Calls that print without measuring. `doctor` may well answer no.
const WRITERS: &[&str] = &[
    "bench --list",
    "bench --help",
    "--help",
    "doctor",
    "bench --selftest --backend btree --ops 50",
];
