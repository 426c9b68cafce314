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

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// A file of this crate.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The library that belongs to this test.
fn library() -> PathBuf {
    let test = env::current_exe().unwrap();
    let path = test.parent().unwrap().join("libkeyrack_leveldb.so");
    assert!(path.exists(), "no {}", path.display());
    path
}

#[track_caller]
fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{told}", output.status);
    output
}

/// Compiles a program against a library, which it finds at the same place when it runs.
fn compile(name: &str, library: &Path, dir: &Path) -> PathBuf {
    let program = dir.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-pthread", "-O1"]);
    cc.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]);
    cc.arg("-I").arg(source("include")).arg(source(&format!("tests/{name}.c"))).arg(library);
    cc.arg(format!("-Wl,-rpath,{}", library.parent().unwrap().display()));
    succeeds(cc.arg("-o").arg(&program));
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
    let header = fs::read_to_string(source("include/leveldb/c.h")).unwrap();
    let calls = calls(&header).into_iter().map(|call| format!("void {call}(void) {{ abort(); }}"));
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

/// The names `leveldb_..` that stand before a bracket, on lines that are no comments.
fn calls(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        for (start, _) in line.match_indices("leveldb_") {
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
    let header = calls(&fs::read_to_string(source("include/leveldb/c.h")).unwrap());
    let program = calls(&fs::read_to_string(source("tests/program.c")).unwrap());
    assert!(header.len() > 60, "{header:?}");
    assert_eq!(program, header);
}

/// What a program is linked against has the names of the interface, and no others that could take
/// the place of its own.
#[test]
fn the_library_exports_the_interface_and_nothing_else() {
    let output = succeeds(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let names = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<String> = names
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(str::to_owned)
        .collect();
    assert_eq!(exported, calls(&fs::read_to_string(source("include/leveldb/c.h")).unwrap()));
}

/// A page that says of every call what differs from LevelDB.
#[test]
fn the_documentation_names_every_call() {
    let page = fs::read_to_string(source("../../docs/leveldb-c.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `leveldb_")).collect();
    for call in calls(&fs::read_to_string(source("include/leveldb/c.h")).unwrap()) {
        let name = format!("`{call}`");
        assert!(rows.iter().any(|row| row.contains(&name)), "no row of a table has {name}");
    }
}
