//! Libraries of Python: scripts beside this file, each of which asserts what it gets and says at
//! the end that it is content.

use super::{ALL, host_and_port, skip};
use crate::serve::Served;
use crate::support::Lab;
use std::path::PathBuf;
use std::process::Command;

/// A Python that has `module`: Debian's packages are for Debian's own.
#[track_caller]
fn python(test: &str, module: &str) -> Option<PathBuf> {
    let import = format!("import {module}");
    let has = |python: &PathBuf| {
        let run = Command::new(python).args(["-c", &import]).output();
        run.is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].map(PathBuf::from).into_iter().find(has);
    if found.is_none() {
        skip(test, &format!("Python with {module}"));
    }
    found
}

/// Runs a script against the listener of `scheme`.
#[track_caller]
fn content(test: &str, module: &str, scheme: &str, script: &str) {
    let Some(python) = python(test, module) else {
        return;
    };
    let lab = Lab::new();
    // Not the module's own name, which a script in its directory would hide.
    lab.write("script.py", script);
    let served = Served::start(&lab, ALL);
    let (host, port) = host_and_port(&served, scheme);
    lab.tool(&python, &["script.py", &host, &port]).exits(0).says("is content");
    served.end();
}

#[test]
fn pymemcache_is_content() {
    let script = include_str!("pymemcache.py");
    content("pymemcache_is_content", "pymemcache", "memcached", script);
}

#[test]
fn redis_py_is_content() {
    content("redis_py_is_content", "redis", "resp", include_str!("redis_py.py"));
}
