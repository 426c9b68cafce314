//! memcached's own tests in Perl, each of which starts servers of its own: a stand-in becomes
//! `keyrack serve` with what memcached's options mean.

use super::expected::{Expected, Seen, agree};
use super::{copy, sources, write_program};
use crate::serve_clients::program;
use crate::support::{Lab, names_in};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const TEST: &str = "memcacheds_own_tests_pass_as_listed";

const FILES_AT_ONCE: usize = 6;

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
    let expected = |file: &str| units.get(file).unwrap_or(&none);
    let files: Vec<&str> =
        files.into_iter().map(String::as_str).filter(|file| expected(file).is_run()).collect();
    let mut all = run_all(&lab, &perl, &files);
    for (file, seen) in files.iter().zip(&mut all) {
        // Tests of times fail where the machine has much other work: a file is run again, alone.
        if !expected(file).differences(file, seen).is_empty() {
            *seen = run(&lab, &perl, file);
        }
        differences.extend(expected(file).differences(file, seen));
    }
    agree("memcached", &all, &differences);
}

/// Runs the files side by side, as most of their time is sleep.
fn run_all(lab: &Lab, perl: &Path, files: &[&str]) -> Vec<Seen> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut seen = Vec::new();
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            seen.push((*file, run(lab, perl, file)));
        }
        seen
    };
    let mut all: Vec<(&str, Seen)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..FILES_AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    all.sort_by_key(|&(file, _)| files.iter().position(|&of| of == file));
    all.into_iter().map(|(_, seen)| seen).collect()
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
