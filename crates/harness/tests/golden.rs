//! Whole runs on a fake clock: the same record, and the same files to the byte.
//!
//! Each reading of the clock is one step after the one before, so every call takes one step. What
//! is the machine's is masked: processor time, and the rows of a timeline that the system's probe
//! samples. The files lie in `tests/golden`; `KEYRACK_REWRITE=1` writes them anew.
//!
//! | file | what |
//! |---|---|
//! | `null.txt` | console and `points.tsv` of a sweep with repeats |
//! | `timeline.tsv` | the samples of a closed loop after a warm-up, and of an open loop |
//! | `replay.cnf` | a replay file with everything that it can hold |

use crate::support::{Bench, SCRIPT};
use keyrack_harness::probe::SYSTEM_METRICS;
use keyrack_harness::{apply_config, render_replay};
use keyrack_vfs::{Fs, RealFs};
use serde_json::Value;
use std::path::{Path, PathBuf};

const MIX: &str = "
local K, V = kb.zipf{n = 1000, fmt = 'user%06d'}, kb.values{size = 100}
local M = kb.mix{get = 70, put = 20, del = 10}
return { name = 'golden', batched = true,
  load = function(ctx) for i = 0, 99 do kv.put(K:at(i), V) end end,
  run = function(ctx, iter)
    local verb = M()
    if verb == 'get' then kv.get(K) elseif verb == 'put' then kv.put(K, V) else kv.del(K) end
    if iter % 10 == 0 then kv.mget(K, ctx.batch) end
    if iter % 100 == 0 then kb.time('checkout', kv.count, 'a', nil) end
  end }";

/// One step of the clock where a timeline is looked at: it shows milliseconds.
const STEP_NS: u64 = 1_000_000;

fn null(settings: &[(&str, &str)]) -> Bench {
    Bench::new(MIX)
        .set(&[("backend", "null"), ("trace-hash", "yes")])
        .set(settings)
        .engine("null", &[("rows_per_scan", "3")])
}

fn reports() -> String {
    let bench = null(&[
        ("batch", "1,16"),
        ("ops", "1000"),
        ("repeat", "3"),
        ("report", "console,tsv:/points.tsv"),
    ])
    .fake_clock(25);
    let (record, console) = bench.run_outputs();
    assert!(record.unwrap().failures.is_empty());
    let tsv = bench.fs.read_to_string(Path::new("/points.tsv")).unwrap();
    format!("{}\n--- points.tsv ---\n{}", mask_console(&console), mask_tsv(&tsv))
}

fn mask_console(text: &str) -> String {
    let mask = |line: &str| match line.split_once(", cpu ") {
        Some((before, _)) => format!("{before}, cpu - us/unit\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(mask).collect()
}

/// Empties the column of processor time.
fn mask_tsv(text: &str) -> String {
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    let column = head.split('\t').position(|name| name == "cpu_us_per_unit").unwrap();
    let mut out = format!("{head}\n");
    for line in lines {
        let fields: Vec<&str> = line.split('\t').collect();
        let masked: Vec<&str> =
            fields.iter().enumerate().map(|(i, f)| if i == column { "-" } else { f }).collect();
        out.push_str(&masked.join("\t"));
        out.push('\n');
    }
    out
}

/// The timeline without the rows of the machine, and the record of the same run without what is the
/// machine's.
fn samples(settings: &[(&str, &str)]) -> (String, Value) {
    let bench = null(settings)
        .set(&[("report", "timeline:/timeline.tsv,json:/run.json")])
        .fake_clock(STEP_NS);
    bench.run_clean();
    let read = |path: &str| bench.fs.read_to_string(Path::new(path)).unwrap();
    let is_ours = |line: &&str| {
        let metric = line.split('\t').nth(7).unwrap();
        !SYSTEM_METRICS.contains(&metric)
    };
    let text = read("/timeline.tsv");
    let ours: String = text.lines().filter(is_ours).map(|line| format!("{line}\n")).collect();
    (ours, mask_json(serde_json::from_str(&read("/run.json")).unwrap()))
}

/// Empties every member that is the machine's, wherever it stands.
fn mask_json(value: Value) -> Value {
    match value {
        Value::Array(list) => list.into_iter().map(mask_json).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, value)| match key.as_str() {
                "started" | "cpu_s" | "cpu_us_per_unit" => (key, Value::Null),
                _ => (key, mask_json(value)),
            })
            .collect(),
        other => other,
    }
}

/// Holds `found` against the file called `name`.
#[track_caller]
fn expect_golden(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        RealFs.write_atomic(&path, found.as_bytes()).unwrap();
    }
    let expected = RealFs.read_to_string(&path).unwrap();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{name}:{}; KEYRACK_REWRITE=1 accepts it", number + 1);
    }
    assert_eq!(found.len(), expected.len(), "{name}: one has lines that the other has not");
}

#[test]
fn a_run_on_a_fake_clock_is_the_same_to_the_byte() {
    let found = reports();
    assert_eq!(found, reports());
    expect_golden("null.txt", &found);
}

#[test]
fn a_timeline_on_a_fake_clock_is_the_same_to_the_byte() {
    let closed = [("secs", "0.5"), ("warmup", "0.05"), ("timeline", "0.2"), ("repeat", "2")];
    let open = [("secs", "1"), ("rate", "40"), ("arrivals", "poisson"), ("timeline", "0.5")];
    let mut found = String::new();
    for settings in [&closed, &open] {
        let once = samples(settings);
        assert_eq!(once, samples(settings));
        found.push_str(&once.0);
    }
    expect_golden("timeline.tsv", &found);
}

/// Two scripts and a native workload, sections of each kind, and values that the dialect can hold
/// as JSON strings only. The version is the one of [`Bench`].
#[test]
fn a_replay_file_is_the_same_to_the_byte() {
    const SECOND: &str = "/second #2.lua";
    let script = "local note = kb.param('note', '') -- it's \"quoted\"; a # and a ;\n\
                  return { name = 'second', run = function() kv.put(note, '\\t') end }\n";
    let mut bench = null(&[
        ("threads", "1,2"),
        ("secs", "0.5"),
        ("warmup", "0.25"),
        ("repeat", "2"),
        ("seed", "7"),
        ("pin", "auto"),
        ("rate", "100,2.5k"),
        ("arrivals", "poisson"),
        ("timeline", "0.1"),
        ("data-dir", "/data ;dir"),
        ("report", "console,tsv:/points.tsv"),
        ("param", "note=a # b; c"),
        ("workload", SCRIPT),
        ("workload", SECOND),
        ("workload", "ycsb/a"),
    ])
    .file(SECOND, script.as_bytes());
    let section = [("ops".to_owned(), "77".to_owned()), ("param".to_owned(), "note= x".to_owned())];
    bench.settings.apply_override("second", &section).unwrap();
    let found = render_replay(&bench.plan().unwrap());
    expect_golden("replay.cnf", &found);
    // The file says it all: what it gives writes the same file.
    let mut again = Bench::new("this file is not read");
    again.settings = Default::default();
    apply_config(&mut again.settings, "replay.cnf", &found).unwrap();
    assert_eq!(render_replay(&again.plan().unwrap()), found);
}
