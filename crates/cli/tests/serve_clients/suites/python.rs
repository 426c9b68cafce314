//! The suites of two Python clients of memcached.

use super::expected::{Expected, Seen, agree};
use super::{copy, sources, write_program};
use crate::serve::Served;
use crate::serve_clients::host_and_port;
use crate::support::Lab;
use std::net::TcpListener;
use std::path::Path;

/// Tests one a line, with why they failed at the end; no files beside them.
const WORDS: &str = "-q -rA --no-header --tb=line -p no:cacheprovider";

const MEMORY: &str = "--engine masstree --threads 2";

#[test]
fn pymemcaches_own_tests_pass_as_listed() {
    let test = "pymemcaches_own_tests_pass_as_listed";
    let (Some(from), Some(python)) = (sources(test, "pymemcache"), sources(test, "python")) else {
        return;
    };
    let lab = Lab::new();
    copy(&lab, &from.join("pymemcache"), "pymemcache");
    lab.write("pytest.ini", "[pytest]\nmarkers =\n  unit\n  integration\n  benchmark\n");
    let served = Served::start(&lab, &format!("{MEMORY} --listen memcached://127.0.0.1:0"));
    let (host, port) = host_and_port(&served, "memcached");
    let script = format!(
        "exec \"$0\" -m pytest {WORDS} -m 'not benchmark' pymemcache/test \
         --server {host} --port {port}"
    );
    let seen = run(&lab, &python, &script);
    served.end();
    compare("pymemcache", "pymemcache.txt", &seen);
}

#[test]
fn python_binary_memcacheds_own_tests_pass_as_listed() {
    let test = "python_binary_memcacheds_own_tests_pass_as_listed";
    let from = sources(test, "python-binary-memcached");
    let (Some(from), Some(python)) = (from, sources(test, "python")) else {
        return;
    };
    let lab = Lab::new();
    copy(&lab, &from.join("test"), "test");
    lab.write("test/conftest.py", include_str!("conftest.py"));
    // The tests name a path that all processes of the machine would share.
    let socket = lab.path("socket").display().to_string();
    let script = format!("sed -i 's#/tmp/memcached.sock#{socket}#' test/*.py");
    lab.shell(&script).exits(0);
    lab.make_dir("bin");
    write_program(&lab, "bin/memcached", include_str!("memcached.sh"));
    lab.shell("umask 077; echo password > password").exits(0);
    let start = |words: &str| Served::start(&lab, &format!("{MEMORY} {words}"));
    // The port is a part of the tests, and the address is this process's alone.
    let id = std::process::id();
    let host = format!("127.{}.{}.{}", 1 + id / 64516 % 200, 1 + id / 254 % 254, 1 + id % 254);
    let open =
        start(&format!("--listen memcached://{host}:11211 --listen memcached+unix://{socket}"));
    let second = start(&format!("--listen memcached://{host}:5000"));
    let closed = start("--password-file password --listen memcached://127.0.0.1:0");
    let sasl_port = host_and_port(&closed, "memcached").1;
    let has_ipv6 = TcpListener::bind("[::1]:0").is_ok();
    let sixth = has_ipv6.then(|| start("--listen memcached://[::1]:0"));
    let ipv6_port = sixth.as_ref().map_or("0".to_owned(), |it| host_and_port(it, "memcached").1);
    let script = format!(
        "export MEMCACHED_HOST={host} KEYRACK_SASL_PORT={sasl_port} KEYRACK_IPV6_PORT={ipv6_port}\n\
         export PYTHONPATH=test PATH=\"$PWD/bin:$PATH\"\n\
         exec \"$0\" -m pytest {WORDS} test"
    );
    let seen = run(&lab, &python, &script);
    [Some(open), Some(second), Some(closed), sixth]
        .into_iter()
        .flatten()
        .for_each(|it| drop(it.end()));
    compare("python-binary-memcached", "python-binary-memcached.txt", &seen);
}

/// Runs a script of the shell, whose `$0` is the Python of the suites, and reads what pytest says:
/// `PASSED file::test`, `FAILED file::test - why`, `ERROR file::test - why`.
fn run(lab: &Lab, python: &Path, script: &str) -> Seen {
    let python = python.join("bin/python");
    let words = ["-c", script, python.to_str().unwrap()];
    let outcome = lab.tool(Path::new("sh"), &words);
    let mut seen = Seen::new();
    for line in outcome.stdout.lines() {
        if let Some(name) = line.strip_prefix("PASSED ") {
            seen.entry(name.to_owned()).or_insert(None);
        }
        let failed = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "));
        if let Some(rest) = failed {
            let name = rest.split_once(" - ").map_or(rest, |(name, _)| name);
            seen.insert(name.to_owned(), Some(rest.to_owned()));
        }
    }
    // 0: all passed; 1: some failed. Anything else is not a run.
    if outcome.status > 1 {
        seen.insert("all of its tests are run".to_owned(), Some(outcome.told()));
    }
    seen
}

#[track_caller]
fn compare(suite: &str, list: &str, seen: &Seen) {
    let units = Expected::listed(list);
    assert!(units.keys().all(|unit| unit == suite), "one unit, [{suite}]");
    let none = Expected::default();
    let differences = units.get(suite).unwrap_or(&none).differences(suite, seen);
    agree(suite, std::slice::from_ref(seen), &differences);
}
