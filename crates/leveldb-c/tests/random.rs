//! Random calls: sound ones, with this library and with the machine's LevelDB, and any.

use super::{compile, library};
use keyrack_testkit::c::succeeds;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SEEDS: u64 = 6;
const CALLS: u64 = 4000;
/// Of any kind, most of which do little.
const FUZZED_CALLS: u64 = 20_000;

/// LevelDB 1.23 as Debian has it, and under its own name.
const NAMES: [&str; 2] = ["libleveldb.so.1d", "libleveldb.so.1"];
const DIRECTORIES: [&str; 4] = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib"];

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

fn seeds() -> Vec<u64> {
    match number("KEYRACK_SEED") {
        Some(seed) => vec![seed],
        None => (1..=SEEDS * number("KEYRACK_STRESS").unwrap_or(1)).collect(),
    }
}

/// The digest of all answers, by a program that has compared each with its model. The program uses
/// `instead` in place of the library that it was linked against.
fn digest(program: &Path, instead: Option<PathBuf>, seed: u64, repairs: bool) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.arg(dir.path()).args([seed.to_string(), CALLS.to_string()]);
    if let Some(library) = instead {
        command.env("LD_PRELOAD", library);
    }
    let output = succeeds(command.args(repairs.then_some("repair")));
    String::from_utf8(output.stdout).unwrap()
}

/// The machine's LevelDB. Without one the test says SKIPPED; where `CI` is set, it fails.
fn leveldb() -> Option<PathBuf> {
    let own = format!("{}-linux-gnu", env::consts::ARCH);
    let dirs = DIRECTORIES.iter().flat_map(|dir| [Path::new(dir).join(&own), dir.into()]);
    let paths = dirs.flat_map(|dir| NAMES.map(|name| dir.join(name)));
    let found = paths.filter_map(|path| fs::canonicalize(path).ok()).next();
    if found.is_none() {
        assert!(env::var_os("CI").is_none(), "there is no {NAMES:?}; install libleveldb1d");
        // Not with `println!`, which the runner of tests keeps to itself.
        let line = format!("SKIPPED {}: there is no {NAMES:?} on this machine\n", module_path!());
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    found
}

#[test]
fn random_calls_answer_as_the_model_does() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("random", &library(), dir.path());
    for seed in seeds() {
        digest(&program, None, seed, true);
    }
}

/// The same calls have the same answers.
#[test]
fn random_calls_answer_as_leveldb_does() {
    let Some(leveldb) = leveldb() else { return };
    let dir = tempfile::tempdir().unwrap();
    let program = compile("random", &leveldb, dir.path());
    for seed in seeds() {
        let [theirs, ours] = [None, Some(library())].map(|it| digest(&program, it, seed, false));
        assert_eq!(ours, theirs, "SEED={seed}");
    }
}

/// Any call in any order with any handles ends neither the process nor the directory's order.
#[test]
fn no_calls_end_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("fuzz", &library(), dir.path());
    for seed in seeds() {
        let work = tempfile::tempdir().unwrap();
        let mut command = Command::new(&program);
        command.arg(work.path()).args([seed.to_string(), FUZZED_CALLS.to_string()]);
        assert_eq!(succeeds(&mut command).stdout, b"done\n");
    }
}
