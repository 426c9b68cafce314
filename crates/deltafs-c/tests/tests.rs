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

use servers::{Servers, TOKEN};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{env, fs};

/// A file of this crate.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The library of that kind that belongs to this test: the newest beside it.
fn library(extension: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let is_it = |path: &PathBuf| {
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
        path.extension() == Some(OsStr::new(extension)) && name.starts_with("libkeyrack_fs")
    };
    let found = fs::read_dir(deps).unwrap().map(|entry| entry.unwrap().path()).filter(is_it);
    let found = found.max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok());
    found.unwrap_or_else(|| panic!("no libkeyrack_fs.{extension} in {}", deps.display()))
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{told}", output.status);
    output
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
fn run_program(libraries: &[&OsStr], name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-pthread", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]);
    cc.arg("-I").arg(source("include")).arg(source("tests/program.c")).args(libraries);
    succeeds(cc.arg("-o").arg(&program));
    succeeds_on_both(&mut Command::new(&program), dir.path());
}

#[test]
fn a_program_in_c_works_with_the_shared_library() {
    let shared = library("so");
    let rpath = format!("-Wl,-rpath,{}", shared.parent().unwrap().display());
    run_program(&[shared.as_os_str(), rpath.as_ref()], "shared");
}

#[test]
fn a_program_in_c_works_with_the_static_library() {
    let archive = library("a");
    let others = ["-lpthread", "-ldl", "-lm"].map(OsStr::new);
    run_program(&[&[archive.as_os_str()], &others[..]].concat(), "static");
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

/// The names `keyrack_fs_..` that stand before a bracket, on lines that are no comments.
fn calls(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        for (start, _) in line.match_indices("keyrack_fs_") {
            let rest = &line[start..];
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, behind) = rest.split_at(end.unwrap_or(rest.len()));
            if behind.starts_with('(') && !line.trim_start().starts_with(['*', '/']) {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

#[test]
fn the_program_in_c_uses_every_call_of_the_header() {
    let header = calls(&fs::read_to_string(source("include/keyrack_fs.h")).unwrap());
    let program = calls(&fs::read_to_string(source("tests/program.c")).unwrap());
    assert!(header.len() > 20, "{header:?}");
    assert_eq!(program, header);
}
