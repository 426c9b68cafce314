//! memcached's own tests in Perl, each of which starts servers of its own: a stand-in becomes
//! `keyrack serve` with what memcached's options mean.

use super::expected::{Expected, Seen, agree};
use super::{copy, sources, write_program};
use crate::serve_clients::program;
use crate::support::{Lab, names_in};
use std::path::Path;

const TEST: &str = "memcacheds_own_tests_pass_as_listed";

#[test]
fn memcacheds_own_tests_pass_as_listed() {
    let (Some(sources), Some(perl)) = (sources(TEST, "memcached"), program(TEST, "perl")) else {
        return;
    };
    let lab = Lab::new();
    copy(&lab, &sources.join("t"), "t");
    copy(&lab, &sources.join("doc"), "doc");
    write_program(&lab, "memcached-debug", include_str!("memcached.sh"));
    // The time that a server may have: the test has a limit for all.
    write_program(&lab, "timedrun", "#!/bin/sh\nshift\nexec \"$@\"\n");
    let units = Expected::listed("memcached.txt");
    let none = Expected::default();
    let files = names_in(&sources.join("t"));
    let files: Vec<&String> = files.iter().filter(|name| name.ends_with(".t")).collect();
    let absent = units.keys().filter(|unit| !files.contains(unit));
    let mut differences: Vec<String> =
        absent.map(|unit| format!("{unit}: is listed, and not there")).collect();
    let mut all = Vec::new();
    for file in files {
        let expected = units.get(file).unwrap_or(&none);
        if expected.is_run() {
            let seen = run(&lab, &perl, file);
            differences.extend(expected.differences(file, &seen));
            all.push(seen);
        }
    }
    agree("memcached", &all, &differences);
}

/// Runs a file, and reads what it says of its tests: `ok 3 - name`, `not ok 4 - name`, `1..4`.
fn run(lab: &Lab, perl: &Path, file: &str) -> Seen {
    let outcome = lab.tool(perl, &[&format!("t/{file}")]);
    let mut seen = Seen::new();
    let mut planned = None;
    for line in outcome.stdout.lines() {
        let (passed, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => {
                let plan = line.strip_prefix("1..").and_then(|plan| plan.split(' ').next());
                planned = planned.or(plan.and_then(|plan| plan.parse::<usize>().ok()));
                continue;
            }
        };
        seen.insert(rest.to_owned(), (!passed).then(|| outcome.stderr.clone()));
    }
    if planned != Some(seen.len()) {
        let said = format!("{} of {planned:?} tests\n{}", seen.len(), outcome.told());
        seen.insert("all of its tests are run".to_owned(), Some(said));
    }
    seen
}
