//! The interface as its users have it: a program in C against the header and the shared library,
//! the same against the static one, and a program in Python. Each uses a log, and two servers.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test says what went wrong by panicking, and reads its own files"
)]

mod aiori;
mod header;
mod servers;

use keyrack_testkit::c::{self, succeeds};
use servers::{Servers, TOKEN};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file of this crate.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The library of that kind that belongs to this test.
fn library(extension: &str) -> PathBuf {
    c::library("libkeyrack_fs", extension)
}

/// Runs a program on a log and on servers.
fn succeeds_on_both(program: &mut Command, dir: &Path) {
    let servers = Servers::start();
    let output = succeeds(program.arg(dir.join("log")).args([&servers.address, TOKEN]));
    assert_eq!(output.stdout, b"done\n");
    let calls = servers.end();
    assert!(calls.iter().all(|count| *count > 100), "each server has files: {calls:?}");
}

/// Compiles the program against a library, and runs it.
fn run_program(libraries: &[OsString], name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(name);
    c::compile(&source("tests/program.c"), &source("include"), libraries, &program);
    succeeds_on_both(&mut Command::new(&program), dir.path());
}

#[test]
fn a_program_in_c_works_with_the_shared_library() {
    run_program(&c::shared(&library("so")), "shared");
}

#[test]
fn a_program_in_c_works_with_the_static_library() {
    run_program(&c::archived(&library("a")), "static");
}

#[test]
fn a_program_in_python_works_with_the_module() {
    let dir = tempfile::tempdir().unwrap();
    succeeds_on_both(&mut python("tests/program.py"), dir.path());
}

/// A program in Python that can import the module.
fn python(program: &str) -> Command {
    let mut python = Command::new("python3");
    python.arg("-B").arg(source(program));
    python.env("PYTHONPATH", source("python")).env("KEYRACK_FS_LIBRARY", library("so"));
    python
}

#[test]
fn a_call_on_servers_that_are_gone_is_an_error() {
    let servers = Servers::start();
    let mut program = python("tests/gone.py");
    program.args([&servers.address, TOKEN]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "asked\n");
    servers.end();
    program.stdin.take().unwrap().write_all(b"\n").unwrap();
    output.read_to_string(&mut line).unwrap();
    assert!(program.wait().unwrap().success(), "its message is above");
    assert_eq!(line, "asked\ndone\n");
}

fn calls(name: &str) -> BTreeSet<String> {
    c::calls(&c::read(&source(name)), "keyrack_fs_")
}

#[test]
fn the_program_in_c_uses_every_call_of_the_header() {
    let header = calls("include/keyrack_fs.h");
    assert!(header.len() > 20, "{header:?}");
    assert_eq!(calls("tests/program.c"), header);
}
