//! The interface as its users have it: programs in C against the header and the shared library.
//!
//! `program.c` uses every call, and `hostile.c` does what must not be done. `directories.c` has
//! directories of LevelDB and of others, `lifetimes.c` callbacks that end. `random.c` makes random
//! calls beside a model, with this library and with the machine's LevelDB: the same program, linked
//! once. `fuzz.c` makes any calls with any handles. `KEYRACK_SEED=n` replaces the seeds of both,
//! and `KEYRACK_STRESS=n` is a factor of their number.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test says what went wrong by panicking, and reads its own files"
)]

mod header;
mod random;

use keyrack_testkit::c::{self, succeeds};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of this crate.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The library that belongs to this test.
fn library() -> PathBuf {
    c::library("libkeyrack_leveldb", "so")
}

/// Compiles a program against a library.
fn compile(name: &str, library: &Path, dir: &Path) -> PathBuf {
    let program = dir.join(name);
    let from = source(&format!("tests/{name}.c"));
    c::compile(&from, &source("include"), &c::shared(library), &program);
    program
}

/// A directory in another, for a program to work in.
fn work_dir(dir: &Path) -> PathBuf {
    let work = dir.join("work");
    fs::create_dir(&work).unwrap();
    work
}

fn runs(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let program = compile(name, &library(), dir.path());
    let output = succeeds(Command::new(program).arg(work_dir(dir.path())));
    assert_eq!(output.stdout, b"done\n");
}

#[test]
fn a_program_uses_every_call() {
    runs("program");
}

#[test]
fn misuse_is_an_error_or_has_no_effect() {
    runs("hostile");
}

#[test]
fn what_leveldb_or_somebody_else_wrote_stays_as_it_is() {
    runs("directories");
}

#[test]
fn a_destructor_runs_in_the_call_that_ends_the_last_use() {
    runs("lifetimes");
}

/// A program that was linked against a library of LevelDB's name finds this one in its place: by
/// its name in a directory of the linker's path, or loaded before it.
#[test]
fn the_library_stands_in_for_one_that_a_program_was_linked_against() {
    let dir = tempfile::tempdir().unwrap();
    // A library of that name whose calls end the process.
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    let calls = header().into_iter().map(|call| format!("void {call}(void) {{ abort(); }}"));
    let text = calls.fold("#include <stdlib.h>\n".to_owned(), |text, call| text + &call + "\n");
    fs::write(dir.path().join("other.c"), text).unwrap();
    let named = other.join("libleveldb.so.1");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-Wl,-soname,libleveldb.so.1"]).arg(dir.path().join("other.c"));
    succeeds(cc.arg("-o").arg(&named));
    let program = dir.path().join("linked");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-I"]).arg(source("include"));
    succeeds(cc.arg(source("tests/program.c")).arg(&named).arg("-o").arg(&program));

    let work = work_dir(dir.path());
    let mut preloaded = Command::new(&program);
    preloaded.arg(&work).env("LD_LIBRARY_PATH", &other).env("LD_PRELOAD", library());
    assert_eq!(succeeds(&mut preloaded).stdout, b"done\n");
    fs::remove_dir_all(&work).unwrap();
    fs::create_dir(&work).unwrap();

    let instead = dir.path().join("instead");
    fs::create_dir(&instead).unwrap();
    std::os::unix::fs::symlink(library(), instead.join("libleveldb.so.1")).unwrap();
    let mut linked = Command::new(&program);
    linked.arg(&work).env("LD_LIBRARY_PATH", &instead);
    assert_eq!(succeeds(&mut linked).stdout, b"done\n");
}

/// The calls of the interface.
fn header() -> BTreeSet<String> {
    calls("include/leveldb/c.h")
}

fn calls(name: &str) -> BTreeSet<String> {
    c::calls(&c::read(&source(name)), "leveldb_")
}

#[test]
fn the_program_in_c_uses_every_call_of_the_header() {
    assert!(header().len() > 60, "{:?}", header());
    assert_eq!(calls("tests/program.c"), header());
}

/// What a program is linked against has the names of the interface, and no others that could take
/// the place of its own.
#[test]
fn the_library_exports_the_interface_and_nothing_else() {
    assert_eq!(c::exported(&library()), header());
}

/// A page that says of every call what differs from LevelDB.
#[test]
fn the_documentation_names_every_call() {
    let page = fs::read_to_string(source("../../docs/leveldb-c.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `leveldb_")).collect();
    for call in header() {
        let name = format!("`{call}`");
        assert!(rows.iter().any(|row| row.contains(&name)), "no row of a table has {name}");
    }
}
