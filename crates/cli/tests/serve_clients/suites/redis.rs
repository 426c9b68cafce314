//! Redis's own tests in Tcl, of the families of commands that are served. They start servers of
//! their own: a stand-in becomes `keyrack serve` with what the configuration file means.

use super::expected::{Expected, Seen, agree};
use super::{copy, sources, write_program};
use crate::serve_clients::program;
use crate::support::Lab;
use std::path::Path;

const TEST: &str = "rediss_own_tests_pass_as_listed";

/// Strings, numbers, hashes, keys, expiry, iteration, transactions, the protocol, passwords.
const UNITS: [&str; 9] = [
    "type/string",
    "type/incr",
    "type/hash",
    "keyspace",
    "expire",
    "scan",
    "multi",
    "protocol",
    "auth",
];

/// One database; no replicas; and nothing of how values are kept in memory.
const WORDS: [&str; 10] = [
    "tests/test_helper.tcl",
    "--singledb",
    "--ignore-encoding",
    "--ignore-digest",
    "--durable",
    "--clients",
    "1",
    "--tags",
    "-needs:repl",
    "--single",
];

#[test]
fn rediss_own_tests_pass_as_listed() {
    let (Some(sources), Some(tclsh)) = (sources(TEST, "redis"), program(TEST, "tclsh")) else {
        return;
    };
    let lab = Lab::new();
    copy(&lab, &sources.join("tests"), "tests");
    lab.make_dir("src");
    write_program(&lab, "src/redis-server", include_str!("redis.sh"));
    let units = Expected::listed("redis.txt");
    assert!(units.keys().all(|unit| UNITS.contains(&unit.as_str())), "a unit that is not run");
    let none = Expected::default();
    let (mut differences, mut all) = (Vec::new(), Vec::new());
    for unit in UNITS {
        let expected = units.get(unit).unwrap_or(&none);
        let seen = run(&lab, &tclsh, unit, expected);
        differences.extend(expected.differences(unit, &seen));
        all.push(seen);
    }
    agree("Redis", &all, &differences);
}

/// Runs a unit, and reads what it says of its tests: `[ok]: name (3 ms)`,
/// `[err]: name in tests/unit/file.tcl`, and why in the lines below.
fn run(lab: &Lab, tclsh: &Path, unit: &str, expected: &Expected) -> Seen {
    let mut words: Vec<&str> = WORDS.to_vec();
    let whole = format!("unit/{unit}");
    words.push(&whole);
    for name in &expected.not_run {
        words.extend(["--skiptest", name]);
    }
    let outcome = lab.tool(tclsh, &words);
    let text = without_colours(&outcome.stdout);
    let file = format!(" in tests/unit/{unit}.tcl");
    let mut seen = Seen::new();
    let mut lines = text.lines().peekable();
    let (mut skipped, mut is_whole) = (0, false);
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("[ok]: ") {
            let name = rest.rsplit_once(" (").map_or(rest, |(name, _)| name);
            seen.entry(name.to_owned()).or_insert(None);
        } else if let Some(rest) = line.strip_prefix("[err]: ") {
            let name = rest.strip_suffix(&file).unwrap_or(rest);
            let mut why = Vec::new();
            while let Some(more) = lines.next_if(|line| !line.starts_with('[') && why.len() < 4) {
                why.push(more.to_owned());
            }
            seen.insert(name.to_owned(), Some(why.join("\n    ")));
        } else if line.starts_with("[skip]: ") {
            skipped += 1;
        } else if line.contains("/1 done]: ") {
            is_whole = true;
        }
    }
    if !is_whole || skipped < expected.not_run.len() {
        let said = format!("{skipped} skipped\n{}", outcome.told());
        seen.insert("all of its tests are run".to_owned(), Some(said));
    }
    seen
}

fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let rest = part.split_once('m').map_or("", |(_, rest)| rest);
        text + rest
    })
}
