//! The backend for IOR, on servers and on logs of each rank.
//!
//! A program in C calls each of its functions, against the declarations of `tests/ior`. mdtest and
//! IOR themselves run with two ranks under mpich. They are built from a source tree of IOR that
//! `KEYRACK_IOR` names, fresh from a checkout; without one that test says SKIPPED.

use super::servers::{Servers, TOKEN};
use super::{library, source};
use keyrack_deltafs::rpc::Tree;
use keyrack_deltafs::{Kind, Namespace, Settings, Stat};
use keyrack_testkit::c::succeeds;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::{env, fs};
use tempfile::TempDir;

/// Files and directories of each rank.
const ITEMS: usize = 150;
const RANKS: usize = 2;
/// Bytes of the files of the hard phases.
const BYTES: u64 = 3901;
/// Where the names of operations end in the table of rates.
const NAME_COLUMNS: usize = 22;
const EASY: &str = "-u -L -F -P -d /easy";
const HARD: &str = "-t -F -P -G 27 -w 3901 -e 3901 -d /hard";

/// The programs of IOR, built with the backend.
struct Built(TempDir);

impl Built {
    /// Builds them, if there are sources.
    fn new(test: &str) -> Option<Built> {
        let Some(ior) = env::var_os("KEYRACK_IOR") else {
            // Not with `println!`, which the runner of tests keeps to itself.
            let line = format!("SKIPPED {test}: KEYRACK_IOR does not name a source tree of IOR\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            return None;
        };
        let built = Built(tempfile::tempdir().unwrap());
        let (tree, libraries) = (built.tree(), built.0.path().join("lib"));
        succeeds(Command::new("cp").arg("-r").arg(ior).arg(&tree));
        succeeds(Command::new("sh").arg(source("aiori/add-to-ior")).arg(&tree));
        fs::create_dir(&libraries).unwrap();
        symlink(library("so"), libraries.join("libkeyrack_fs.so")).unwrap();
        let libraries = libraries.display();
        succeeds(Command::new("./bootstrap").current_dir(&tree));
        let include = source("include");
        succeeds(Command::new("./configure").current_dir(&tree).args([
            "MPICC=mpicc.mpich".to_owned(),
            "--without-cuda".to_owned(),
            "--without-gpuDirect".to_owned(),
            format!("CPPFLAGS=-I{}", include.display()),
            format!("LDFLAGS=-L{libraries} -Wl,-rpath,{libraries},--disable-new-dtags"),
        ]));
        // Of IOR's own files the warnings are none of our business.
        let strict = "-std=gnu11 -Wall -Wextra -Werror";
        succeeds(Command::new("mpicc.mpich").current_dir(tree.join("src")).args(
            format!("{strict} -fsyntax-only -I{} aiori-keyrack.c", include.display()).split(' '),
        ));
        succeeds(Command::new("make").arg("-C").arg(tree.join("src")).args(["mdtest", "ior"]));
        Some(built)
    }

    fn tree(&self) -> std::path::PathBuf {
        self.0.path().join("ior")
    }

    /// Runs a program on a name space. Returns what it printed.
    #[track_caller]
    fn run(&self, program: &str, place: &str, line: &str) -> String {
        let mut command = Command::new("mpirun.mpich");
        command.args(["-np", &RANKS.to_string()]).arg(self.tree().join("src").join(program));
        command.args(["-a", "KEYRACK", place]).args(line.split_whitespace());
        command.env("KEYRACK_FS_TOKEN", TOKEN).current_dir(self.0.path());
        String::from_utf8(succeeds(&mut command).stdout).unwrap()
    }

    /// Runs phases of mdtest. Each operation that is named has a rate, and no other has.
    #[track_caller]
    fn mdtest(&self, place: &str, line: &str, operations: &[&str]) {
        let line = format!("-n {ITEMS} --warningAsErrors {line}");
        let out = self.run("mdtest", place, &line);
        assert!(!out.contains("WARNING") && !out.contains("ERROR"), "{out}");
        let mut measured = rates(&out);
        measured.retain(|name| !name.starts_with("Tree"));
        assert_eq!(measured, operations, "{out}");
    }
}

/// The operations of the table of rates that were measured.
fn rates(out: &str) -> Vec<&str> {
    let table = out.split("SUMMARY rate").nth(1).expect("a table of rates");
    let table = table.split("SUMMARY time").next().and_then(|rest| rest.split("\n-- ").next());
    let mut measured = Vec::new();
    for line in table.unwrap().lines().filter(|line| line.is_char_boundary(NAME_COLUMNS)) {
        let (name, numbers) = line.split_at(NAME_COLUMNS);
        let max: Option<f64> = numbers.split_whitespace().next().and_then(|max| max.parse().ok());
        if max.is_some_and(|max| max > 0.0) {
            measured.push(name.trim());
        }
    }
    measured
}

/// All files below a directory, with their facts.
fn files(tree: &mut Tree, path: &[u8]) -> Vec<(Vec<u8>, Stat)> {
    let mut all = Vec::new();
    for (name, kind, stat) in tree.list_plus(path, true).unwrap() {
        let path = [path, b"/", &name].concat();
        match kind {
            Kind::Dir => all.append(&mut files(tree, &path)),
            _ => all.push((path, stat.unwrap())),
        }
    }
    all
}

fn easy_phases(built: &Built, servers: &Servers, place: &str) {
    let mut tree = servers.tree();
    built.mdtest(place, &format!("{EASY} -C"), &["File creation"]);
    let made = files(&mut tree, b"/easy");
    assert_eq!(made.len(), RANKS * ITEMS);
    assert!(made.iter().all(|(_, stat)| stat.size == 0));
    for rank in 0..RANKS {
        let own = format!("/mdtest_tree.{rank}.0/file.mdtest.{rank}.");
        let is_own = |(path, _): &&(Vec<u8>, Stat)| String::from_utf8_lossy(path).contains(&own);
        assert_eq!(made.iter().filter(is_own).count(), ITEMS, "{own}");
    }
    built.mdtest(place, &format!("{EASY} -T"), &["File stat"]);
    built.mdtest(place, &format!("{EASY} -r"), &["File removal"]);
    assert!(files(&mut tree, b"/easy").is_empty());
}

/// Each rank looks at and removes what the other has made.
fn hard_phases(built: &Built, servers: &Servers, place: &str) {
    let mut tree = servers.tree();
    let hard = format!("{HARD} -N 1");
    built.mdtest(place, &format!("{hard} -C"), &["File creation"]);
    let made = files(&mut tree, b"/hard");
    assert_eq!(made.len(), RANKS * ITEMS);
    assert!(made.iter().all(|(_, stat)| stat.size == BYTES && stat.has_data));
    built.mdtest(place, &format!("{hard} -T"), &["File stat"]);
    built.mdtest(place, &format!("{hard} -E -X"), &["File read"]);
    // A byte that is wrong is found, so the bytes are compared.
    let bytes = tree.read(&made[0].0, 8, 1).unwrap();
    tree.write(&made[0].0, 8, &[!bytes[0]]).unwrap();
    let out = built.run("mdtest", place, &format!("-n {ITEMS} {hard} -E -X"));
    assert!(out.contains("verifying the data on read (1 errors)"), "{out}");
    built.mdtest(place, &format!("{hard} -r"), &["File removal"]);
    assert!(files(&mut tree, b"/hard").is_empty());
}

/// Directories too, renames among them, with a sync after each write and each phase.
fn renames_and_syncs(built: &Built, place: &str) {
    let operations = [
        "Directory creation",
        "Directory stat",
        "Directory rename",
        "Directory removal",
        "File creation",
        "File stat",
        "File read",
        "File removal",
    ];
    built.mdtest(place, "-w 100 -e 100 -y -Y -d /dirs", &operations);
    // By mknod, and by all ranks together.
    built.mdtest(
        place,
        "-F -C -T -r -k -d /nodes",
        &["File creation", "File stat", "File removal"],
    );
    built.mdtest(place, "-F -C -T -r -c -d /all", &["File creation", "File stat", "File removal"]);
}

/// IOR cuts a file that it writes again, and many ranks write to one file.
fn bytes_of_ior(built: &Built, servers: &Servers, place: &str) {
    let mut tree = servers.tree();
    let mut sizes = |line: &str| -> Vec<u64> {
        let out = built.run("ior", place, line);
        assert!(!out.contains("aggregate file size"), "{out}");
        let all = tree.list_plus(b"/", true).unwrap().into_iter();
        all.filter(|(_, kind, _)| *kind == Kind::File)
            .map(|(.., stat)| stat.unwrap().size)
            .collect()
    };
    assert_eq!(sizes("-F -k -w -b 8k -t 4k -o /f"), [8192, 8192]);
    assert_eq!(sizes("-F -k -E -w -b 3k -t 1k -o /f"), [3072, 3072]);
    assert_eq!(sizes("-F -k -E -w -r -W -R -e -b 64k -t 16k -o /f"), [65536, 65536]);
    assert_eq!(sizes("-F -E -r -b 64k -t 16k -o /f"), [0; 0], "without -k it removes them");
    assert_eq!(sizes("-k -w -r -W -R -C -Y -b 96k -t 32k -o /shared"), [192 << 10]);
}

/// The names that the log of a rank has left in a directory.
fn left_in(log: &Path, path: &[u8]) -> usize {
    let space = Namespace::open_read_only(&[log.to_owned()], Settings::default()).unwrap();
    let root = space.as_root();
    let found = root.walk(path).unwrap().map(|walked| walked.unwrap());
    found.filter(|walked| walked.stat.kind == Kind::File).count()
}

#[test]
fn each_function_of_the_backend_does_what_ior_expects() {
    let dir = tempfile::tempdir().unwrap();
    let (program, shared) = (dir.path().join("calls"), library("so"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"]);
    cc.arg("-I").arg(source("include")).arg("-I").arg(source("tests/ior"));
    cc.args([source("tests/ior/calls.c"), source("aiori/aiori-keyrack.c")]).arg(&shared);
    cc.arg(format!("-Wl,-rpath,{}", shared.parent().unwrap().display()));
    succeeds(cc.arg("-o").arg(&program));

    let servers = Servers::start();
    let place = format!("keyrack.server={}", servers.address);
    let own = format!("keyrack.dir={}/logs", dir.path().display());
    let command = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).env("KEYRACK_FS_TOKEN", TOKEN);
        command
    };
    for place in [&place, &own] {
        let output = command(&[place]).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && out.ends_with("done\n"), "{place}: {out}");
    }
    servers.end();
    assert!(dir.path().join("logs/r1").is_dir(), "the log has the number of the rank");

    let refused = |words: &[&str], message: &str| {
        let output = command(words).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {out}");
        assert!(out.contains(message), "{words:?}: {out}");
    };
    refused(&[], "either --keyrack.server=ADDRESS or --keyrack.dir=DIRECTORY");
    refused(&[&place, &own], "either --keyrack.server=ADDRESS or --keyrack.dir=DIRECTORY");
    refused(&[&place], "cannot connect to");
    refused(&["keyrack.dir=/dev/null"], "/dev/null");
}

#[test]
fn mdtest_and_ior_measure_servers_and_logs() {
    let Some(built) = Built::new("mdtest_and_ior_measure_servers_and_logs") else { return };
    let servers = Servers::start();
    let place = format!("--keyrack.server={}", servers.address);
    easy_phases(&built, &servers, &place);
    hard_phases(&built, &servers, &place);
    renames_and_syncs(&built, &place);
    bytes_of_ior(&built, &servers, &place);
    servers.end();

    let place = format!("--keyrack.dir={}/logs", built.0.path().display());
    for line in [EASY, HARD] {
        built.mdtest(&place, &format!("{line} -C"), &["File creation"]);
        for rank in 0..RANKS {
            let log = built.0.path().join(format!("logs/r{rank}"));
            let dir = line.rsplit(' ').next().unwrap();
            assert_eq!(left_in(&log, dir.as_bytes()), ITEMS, "{line}: each log has its rank's");
        }
        built.mdtest(&place, &format!("{line} -T -r"), &["File stat", "File removal"]);
    }
    built.mdtest(
        &place,
        "-F -C -E -X -r -w 5000 -e 5000 -d /large",
        &["File creation", "File read", "File removal"],
    );
}
