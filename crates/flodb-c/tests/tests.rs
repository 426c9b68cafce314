//! The interface as its users have it: programs in C against the header and the library.
//!
//! `program.c` uses every call. `misuse.c` does what must not be done, and uses handles after the
//! store is closed. `threads.c` shares a store among threads. `include.cc` is C++.
//! The first three run under valgrind too, if it is there.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test says what went wrong by panicking, and reads its own files"
)]

mod header;

use keyrack_testkit::c::{self, succeeds};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A file of this crate.
fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn shared() -> PathBuf {
    c::library("libkeyrack", "so")
}

/// The calls of a file.
fn calls(name: &str) -> BTreeSet<String> {
    c::calls(&c::read(&source(name)), "keyrack_")
}

/// Compiles a program, and runs it by a command that gets its path.
fn runs(name: &str, libraries: &[OsString], command: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    c::compile(&source(&format!("tests/{name}")), &source("include"), libraries, &program);
    let mut run = match command {
        [] => Command::new(&program),
        [first, rest @ ..] => {
            let mut run = Command::new(first);
            run.args(rest).arg(&program);
            run
        }
    };
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    assert_eq!(succeeds(run.arg(work)).stdout, b"done\n");
}

/// Whether the machine lacks a program. The test says SKIPPED then; where `CI` is set, it fails.
fn is_missing(program: &str) -> bool {
    let is_missing = Command::new(program).arg("--version").output().is_err();
    if is_missing {
        assert!(env::var_os("CI").is_none(), "there is no {program}");
        // Not with `println!`, which the runner of tests keeps to itself.
        let line = format!("SKIPPED {}: there is no {program}\n", module_path!());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    is_missing
}

#[test]
fn a_program_uses_every_call_of_the_shared_library() {
    runs("program.c", &c::shared(&shared()), &[]);
}

#[test]
fn a_program_uses_every_call_of_the_static_library() {
    runs("program.c", &c::archived(&c::library("libkeyrack", "a")), &[]);
}

#[test]
fn misuse_is_an_error_or_has_no_effect() {
    runs("misuse.c", &c::shared(&shared()), &[]);
}

#[test]
fn threads_share_a_store() {
    runs("threads.c", &c::shared(&shared()), &[]);
}

#[test]
fn the_header_is_one_of_cpp_too() {
    runs("include.cc", &c::shared(&shared()), &[]);
}

/// Those in other languages are run by `cargo xtask examples`.
#[test]
fn the_example_prints_what_its_page_says() {
    let dir = tempfile::tempdir().unwrap();
    let (program, examples) = (dir.path().join("shop"), source("../../examples"));
    let libraries = c::shared(&shared());
    c::compile(&examples.join("c/shop.c"), &source("include"), &libraries, &program);
    let work = dir.path().join("work");
    fs::create_dir(&work).unwrap();
    let output = succeeds(Command::new(program).arg(work));
    assert_eq!(String::from_utf8_lossy(&output.stdout), c::read(&examples.join("expected.txt")));
}

/// The first program of the page, compiled and run.
#[test]
fn the_first_program_of_the_page_works() {
    let page = c::read(&source("../../docs/keyrack-c.md"));
    let (_, text) = page.split_once("```c\n").unwrap();
    let (text, _) = text.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (from, program) = (dir.path().join("first.c"), dir.path().join("first"));
    fs::write(&from, text).unwrap();
    c::compile(&from, &source("include"), &c::shared(&shared()), &program);
    let output = succeeds(Command::new(program).current_dir(dir.path()));
    assert_eq!(output.stdout, b"red\n");
}

/// Every access to memory of the programs and of the library is to memory that they have, and
/// nothing is left at the end.
#[test]
fn valgrind_finds_nothing() {
    if is_missing("valgrind") {
        return;
    }
    let valgrind = [
        "valgrind",
        "--quiet",
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ];
    for program in ["program.c", "misuse.c"] {
        runs(program, &c::shared(&shared()), &valgrind);
    }
}

#[test]
fn the_program_in_c_uses_every_call_of_the_header() {
    let header = calls("include/keyrack.h");
    assert!(header.len() > 60, "{header:?}");
    let program = &calls("tests/program.c") | &calls("tests/common.h");
    assert_eq!(program, header);
}

/// What a program is linked against has the names of the interface, and no others that could take
/// the place of its own.
#[test]
fn the_library_exports_the_interface_and_nothing_else() {
    assert_eq!(c::exported(&shared()), calls("include/keyrack.h"));
}

/// The page has every call and every option.
#[test]
fn the_documentation_names_every_option() {
    let page = c::read(&source("../../docs/keyrack-c.md"));
    let names = c::read(&source("src/options.rs"));
    let (_, names) = names.split_once("const NAMES").unwrap();
    let (names, _) = names.split_once("];").unwrap();
    let names: Vec<&str> = names.split('"').skip(1).step_by(2).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(page.contains(&format!("`{name}`")), "the page does not have {name}");
    }
}

/// The file for pkg-config gives a compiler what it needs, from an installation as the page has it.
#[test]
fn pkg_config_finds_the_library() {
    if is_missing("pkg-config") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().to_str().unwrap();
    for name in ["include", "lib", "lib/pkgconfig", "work"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    fs::copy(source("include/keyrack.h"), dir.path().join("include/keyrack.h")).unwrap();
    fs::copy(shared(), dir.path().join("lib/libkeyrack.so")).unwrap();
    let template = c::read(&source("keyrack.pc.in"));
    let text = template.replace("@PREFIX@", prefix).replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    assert!(!text.contains('@'), "{text}");
    fs::write(dir.path().join("lib/pkgconfig/keyrack.pc"), text).unwrap();
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "keyrack"])
        .env("PKG_CONFIG_PATH", dir.path().join("lib/pkgconfig"))
        .output();
    let flags = String::from_utf8(flags.unwrap().stdout).unwrap();
    let program = dir.path().join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-D_GNU_SOURCE", "-pthread"]).arg(source("tests/program.c"));
    succeeds(cc.args(flags.split_whitespace()).arg("-o").arg(&program));
    let mut run = Command::new(program);
    run.env("LD_LIBRARY_PATH", dir.path().join("lib")).arg(dir.path().join("work"));
    assert_eq!(succeeds(&mut run).stdout, b"done\n");
}
