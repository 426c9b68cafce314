//! What a user gets wrong on the command line and in configuration files: one line on standard
//! error that names the thing and the way out, status 2, and nothing run.

use crate::support::{Lab, ONE_GET, Outcome};

/// `keyrack bench` in a directory where `one.lua` is a good workload.
fn bench(line: &str) -> Outcome {
    let lab = Lab::with("one.lua", ONE_GET);
    lab.run(&format!("bench {line}"))
}

/// A run of `one.lua` with the configuration `text` in `a.cnf`.
fn configured(text: &str) -> Outcome {
    let lab = Lab::with("one.lua", ONE_GET);
    lab.write("a.cnf", text);
    lab.run("bench --config a.cnf --ops 5 one.lua")
}

#[test]
fn an_unknown_name_gets_the_nearest_one() {
    bench("--threds 2 one.lua").refuses(&["'--threds'", "did you mean '--threads'?"]);
    bench("--report-dri x one.lua").refuses(&["'--report-dri'", "did you mean '--report-dir'?"]);
    bench("--backend skiplst one.lua").refuses(&["'skiplst'", "did you mean 'skiplist'?"]);
    bench("--backend btree,nul one.lua").refuses(&["'nul'", "did you mean 'null'?"]);
    bench("--report tvs one.lua").refuses(&["'tvs'", "did you mean 'tsv'?"]);
    bench("--report console,jsn:x one.lua").refuses(&["'jsn'", "did you mean 'json'?"]);
    bench("--probe sytem one.lua").refuses(&["'sytem'", "did you mean 'system'?"]);
    bench("--order interlaeve one.lua").refuses(&["--order", "did you mean 'interleave'?"]);
    bench("--progress plian one.lua").refuses(&["--progress", "did you mean 'plain'?"]);
    bench("ycsb/aa").refuses(&["'ycsb/aa'", "did you mean 'ycsb/a'?"]);
    bench("-P value_byte=3 workloads/mixed.lua").refuses(&[
        "-P",
        "'value_byte'",
        "did you mean 'value_bytes'?",
    ]);
}

#[test]
fn nonsense_gets_no_guess_but_the_choices() {
    let line = bench("--backend postgres one.lua").refuses(&["'postgres'", "skiplist, btree"]);
    assert!(!line.contains("did you mean"), "{line}");
    bench("--zzzzzzzzzz one.lua").refuses(&["'--zzzzzzzzzz'", "--help"]);
}

#[test]
fn an_unknown_command_gets_the_nearest_one() {
    let lab = Lab::new();
    lab.run("benhc one.lua").refuses(&["'benhc'", "did you mean 'bench'?"]);
    lab.run("frobnicate").refuses(&["'frobnicate'", "bench, compare, doctor"]);
    lab.run("doctor --jsn").refuses(&["'--jsn'", "did you mean '--json'?"]);
    lab.run("compare --fial-on 5% a b").refuses(&["'--fial-on'", "did you mean '--fail-on'?"]);
}

#[test]
fn no_command_prints_the_usage_and_exits_2() {
    let out = Lab::new().run("").exits(2).warns("Usage:").warns("bench");
    assert_eq!(out.stdout, "");
}

#[test]
fn numbers_that_do_not_parse_are_refused_by_name() {
    for (flag, value) in [
        ("ops", "x"),
        ("ops", "0"),
        ("ops", "-5"),
        ("ops", "1e3"),
        ("ops", "64KB"),
        ("ops", "99999999999999999999"),
        ("secs", "soon"),
        ("secs", "0"),
        ("secs", "-1"),
        ("secs", "inf"),
        ("threads", "0"),
        ("threads", "two"),
        ("threads", "1,,2"),
        ("threads", "1,x"),
        ("threads", "100000"),
        ("batch", "0"),
        ("batch", "1;8"),
        ("repeat", "0"),
        ("seed", "-1"),
        ("users", "many"),
        ("items", "1.5.2"),
        ("warmup", "-1"),
        ("timeline", "often"),
        ("rate", "0"),
        ("rate", "fast"),
        ("rate-search", "p99"),
        ("rate-search", "p101<1ms"),
        ("arrivals", "never"),
        ("durability", "fsync"),
        ("min-free", "lots"),
        ("lua-memory", "big"),
        ("unit-timeout", "0"),
        ("settle", "soon"),
    ] {
        let line = bench(&format!("--{flag} {value} one.lua")).refuses(&[&format!("--{flag}")]);
        let bad = value.split([',', ';']).next_back().unwrap();
        assert!(line.contains(bad) || line.contains(value), "the value is not in: {line}");
    }
}

#[test]
fn a_flag_without_its_value_is_refused() {
    bench("one.lua --ops").refuses(&["--ops", "value"]);
    bench("one.lua --config").refuses(&["--config", "value"]);
    bench("one.lua -P").refuses(&["--param", "value"]);
    bench("one.lua -P novalue").refuses(&["novalue", "NAME=VALUE"]);
}

#[test]
fn two_ways_to_end_a_cell_are_refused() {
    bench("--ops 5 --secs 1 one.lua").refuses(&["--ops", "--secs"]);
    configured("ops = 5\nsecs = 1\n").refuses(&["a.cnf", "ops", "secs"]);
    configured("[workload:one]\nops = 5\nsecs = 1\n").refuses(&["a.cnf", "one", "ops", "secs"]);
    bench("--secs 1 --rate 10 --rate-search p99<1ms one.lua").refuses(&["--rate", "--rate-search"]);
    bench("--ops 5 --rate-search p99<1ms one.lua").refuses(&["--rate-search", "--secs"]);
    bench("--repeat 2 --order shuffle --seed-once one.lua").refuses(&["--seed-once", "--order"]);
}

#[test]
fn a_name_given_twice_is_refused() {
    bench("--backend btree,btree one.lua").refuses(&["btree", "twice"]);
    bench("--report tsv:x,json:x one.lua").refuses(&["'x'"]);
}

#[test]
fn equals_signs_and_repeated_flags_are_taken() {
    let lab = Lab::with("one.lua", ONE_GET);
    let line = "bench --ops=3 --ops=7 --backend=null --probe=none --report=json:r.json one.lua";
    lab.run(line).exits(0);
    assert_eq!(lab.json("r.json")["header"]["ops"], 7);
}

#[test]
fn a_config_is_read_strictly() {
    configured("repeats = 3\n").refuses(&["a.cnf:1", "'repeats'", "did you mean 'repeat'?"]);
    configured("\n\nrepeat = three\n").refuses(&["a.cnf:3", "repeat", "'three'"]);
    configured("repeat = 1\nstray line\n").refuses(&["a.cnf:2", "stray line"]);
    configured("repeat = 1\n[null\n").refuses(&["a.cnf:2", "[null"]);
    configured("repeat = 1\n= 5\n").refuses(&["a.cnf:2"]);
    configured("[skiplst]\nx = 1\n").refuses(&["'skiplst'", "did you mean 'skiplist'?"]);
    configured("[null]\nfail_evry = 1\n").refuses(&["'fail_evry'", "did you mean 'fail_every'?"]);
    configured("[workload:oen]\nops = 1\n").refuses(&["'oen'", "did you mean 'one'?"]);
    configured("[workload:one]\nthreads = 1\n").refuses(&["one", "threads"]);
    configured("pin = 64M\n").refuses(&["a.cnf:1", "pin"]);
    bench("--config absent.cnf one.lua").refuses(&["absent.cnf", "No such file"]);
}

/// What an engine's section says is checked before anything is measured, as a flag is.
#[test]
fn a_bad_engine_option_is_refused_before_anything_runs() {
    let lab = Lab::with("one.lua", ONE_GET);
    for (key, value) in [("miss", "maybe"), ("value_bytes", "64MB"), ("fail_every", "-1")] {
        lab.write("a.cnf", format!("[null]\n{key} = {value}\n"));
        let out = lab.run("bench --backend null --config a.cnf --ops 5 one.lua");
        out.refuses(&[key, value]);
    }
    lab.write("a.cnf", "[null]\nstall_ms = 5\n");
    lab.run("bench --backend null --config a.cnf --ops 5 one.lua").refuses(&["stall_every_ms"]);
}

#[test]
fn a_data_directory_that_will_not_do_is_refused() {
    bench("--backend redb one.lua").refuses(&["'redb'", "--data-dir"]);
    bench("--backend redb --data-dir absent one.lua").refuses(&["--data-dir", "absent"]);
    bench("--backend redb --data-dir one.lua one.lua").refuses(&["one.lua", "not a directory"]);
    bench("--backend redb --data-dir . --min-free 4000T one.lua").refuses(&["--min-free"]);
    // No engine needs it: it may be anything that is a directory or not.
    bench("--backend null --ops 5 one.lua").exits(0);
}

#[test]
fn outputs_that_cannot_be_opened_are_refused() {
    bench("--backend null --report tsv:no/such/dir.tsv one.lua").refuses(&["no/such/dir.tsv"]);
    bench("--backend null --report tsv:. one.lua").refuses(&["'.'"]);
    bench("--backend null --report-dir one.lua/x one.lua").refuses(&["one.lua"]);
    bench("--backend null --save-config no/such.cnf one.lua").refuses(&["no/such.cnf"]);
}

#[test]
fn help_and_version_are_data() {
    let lab = Lab::new();
    let help = lab.run("bench --help").exits(0).says("Usage: keyrack bench").says("--rate-search");
    assert_eq!(help.stderr, "");
    lab.run("--help").exits(0).says("compare").says("doctor");
    lab.run("--version").exits(0).says("keyrack 0.");
}
