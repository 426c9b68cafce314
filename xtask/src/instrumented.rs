//! Tests built with an instrument: loom, which explores the interleavings of small models; shuttle,
//! which draws schedules for whole structures; and AddressSanitizer, which watches every access to
//! the heap and asks at the end what was leaked.
//!
//! ```text
//! loom     RUSTFLAGS="--cfg loom"          cargo test -p CRATE --lib --tests
//!                                                     --target-dir TARGET/loom
//! shuttle  RUSTFLAGS="--cfg shuttle"       cargo test ... --target-dir TARGET/shuttle shuttled
//! asan     RUSTFLAGS=-Zsanitizer=address   rustup run nightly cargo test ... --target HOST
//!          ASAN_OPTIONS=detect_leaks=1                --target-dir TARGET/asan
//! ```
//!
//! - Flags change what every crate compiles to, so each instrument has a target directory of its
//!   own; in a shared one, two builds would take turns in throwing each other out.
//! - Each crate is a call of its own, and one in which no test ran fails: it lost its models.
//! - A test binary runs under `timeout`. A model with too many interleavings, or a thread that
//!   waits for ever, then fails the stage instead of holding it up.
//! - Variables by which a caller could shorten an exploration or hide a leak are taken away.
//! - Only a nightly compiler takes the flag of the sanitizer. `rustup run` uses one that is there,
//!   and does not install one. The flag needs `--target`: without it build scripts and macros would
//!   be instrumented too.

use std::process::{Command, Stdio};

use crate::options::Options;
use crate::output::say;
use crate::stage::{Outcome, Stop, shown, stage};
use crate::tally::{Tally, count_tests};
use crate::workspace::{REWRITE_VARIABLE, Workspace, find_program};

/// How long one test binary may run, in seconds; many times what the slowest takes.
const TEST_BINARY_S_MAX: u64 = 300;

/// Targets on which the sanitizer finds leaks too.
const SANITIZED_TARGETS: &[&str] = &["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

/// A way of building, and the crates that are tested in it.
#[derive(Debug)]
struct Instrument {
    /// Also the name of its folder under the target directory.
    name: &'static str,
    rustflags: &'static str,
    /// Variables of the build and of the test binaries.
    variables: &'static [(&'static str, &'static str)],
    /// Variables that do not reach the test binaries.
    withheld: &'static [&'static str],
    packages: &'static [&'static str],
    /// Those of them that have such tests in their library alone: no other is built.
    library_only: &'static [&'static str],
    /// What the names of the tests hold; nothing for all of them.
    filter: Option<&'static str>,
}

/// The crates whose manifests name loom.
const LOOM: Instrument = Instrument {
    name: "loom",
    rustflags: "--cfg loom",
    variables: &[],
    withheld: &[
        "LOOM_CHECKPOINT_FILE",
        "LOOM_MAX_BRANCHES",
        "LOOM_MAX_DURATION",
        "LOOM_MAX_PERMUTATIONS",
        "LOOM_MAX_PREEMPTIONS",
    ],
    packages: &["keyrack-concurrent", "keyrack-wal"],
    library_only: &[],
    filter: None,
};

/// The crates with structures that are more than a few atomic steps. Their other tests have threads
/// of the machine, and would fail without a schedule to be in.
const SHUTTLE: Instrument = Instrument {
    name: "shuttle",
    rustflags: "--cfg shuttle",
    variables: &[],
    withheld: &["KEYRACK_SCHEDULE", "KEYRACK_SCHEDULES", "SHUTTLE_RANDOM_SEED"],
    packages: &["keyrack-concurrent", "keyrack-flodb", "keyrack-masstree", "keyrack-wal"],
    library_only: &["keyrack-flodb"],
    filter: Some("shuttled"),
};

/// The crates that free memory under the eyes of other threads, and the libraries for C with their
/// fuzzers. Their programs in C are compiled by another compiler; valgrind watches those.
const ASAN: Instrument = Instrument {
    name: "asan",
    rustflags: "-Zsanitizer=address",
    variables: &[
        ("ASAN_OPTIONS", "detect_leaks=1"),
        // C code is compiled by another compiler, whose marks this runtime misreads.
        ("CFLAGS", "-fno-sanitize=address"),
        ("KEYRACK_BRIEF", "1"),
    ],
    withheld: &["LSAN_OPTIONS"],
    packages: &[
        "keyrack-concurrent",
        "keyrack-flodb",
        "keyrack-masstree",
        "keyrack-wal",
        "keyrack-flodb-c",
        "keyrack-leveldb-c",
    ],
    library_only: &["keyrack-flodb-c", "keyrack-leveldb-c"],
    filter: None,
};

/// `cargo xtask loom`.
///
/// # Errors
/// `Stage` when a model failed, took too long, or is missing.
pub(crate) fn loom(workspace: &Workspace, _: &Options) -> Outcome {
    LOOM.run_all(workspace, &|| workspace.cargo(&["test"]))
}

/// `cargo xtask shuttle`.
///
/// # Errors
/// `Stage` when a schedule failed, took too long, or no test is there.
pub(crate) fn shuttle(workspace: &Workspace, _: &Options) -> Outcome {
    SHUTTLE.run_all(workspace, &|| workspace.cargo(&["test"]))
}

/// `cargo xtask asan`. Skipped, with a line that says why, without a nightly toolchain.
///
/// # Errors
/// `Stage` when a test failed, took too long, or made the sanitizer report something.
pub(crate) fn asan(workspace: &Workspace, _: &Options) -> Outcome {
    let host = match host_of_nightly(nightly_version().as_deref()) {
        Ok(host) => host,
        Err(reason) => {
            say(&format!("SKIPPED: asan ({reason})"));
            return Ok(());
        }
    };
    ASAN.run_all(workspace, &|| {
        let mut command = workspace.tool("rustup");
        command.args(["run", "nightly", "cargo", "test", "--target", &host]);
        command
    })
}

impl Instrument {
    /// Tests every crate of the instrument; `cargo_test` begins each command.
    fn run_all(&self, workspace: &Workspace, cargo_test: &dyn Fn() -> Command) -> Outcome {
        let limit = find_program("timeout").map(|_| TEST_BINARY_S_MAX);
        if limit.is_none() {
            say(&format!("{}: without a limit of time (timeout is not installed)", self.name));
        }
        let mut complaints = Vec::new();
        for package in self.packages {
            let outcome = stage(&format!("{} {package}", self.name), || {
                let mut command = cargo_test();
                self.instrument(&mut command, workspace, package);
                // What a person would type: without the limit.
                say(&format!("RUSTFLAGS=\"{}\" {}", self.rustflags, shown(&command)));
                limit.into_iter().for_each(|limit_s| bound(&mut command, limit_s));
                self.judge(package, &mut command)
            });
            match outcome {
                Ok(()) => {}
                Err(Stop::Stage(line)) => complaints.push(line),
                Err(stop) => return Err(stop),
            }
        }
        if complaints.is_empty() { Ok(()) } else { Err(Stop::Stage(complaints.join("; "))) }
    }

    /// Adds to a call of `cargo test` what makes it a call under this instrument.
    fn instrument(&self, command: &mut Command, workspace: &Workspace, package: &str) {
        command
            .args(["--no-fail-fast", "-p", package, "--lib"])
            .args((!self.library_only.contains(&package)).then_some("--tests"))
            .arg("--target-dir")
            .arg(workspace.target(self.name))
            .env("RUSTFLAGS", self.rustflags)
            // Where this one is set, cargo does not look at the other.
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove(REWRITE_VARIABLE)
            .envs(self.variables.iter().copied());
        for name in self.withheld {
            command.env_remove(name);
        }
        command.args(self.filter);
    }

    /// Runs a command and reads its outcome from the tests that it counts.
    fn judge(&self, package: &str, command: &mut Command) -> Outcome {
        let (mut tally, exited_well) = count_tests(command, &mut |line| say(line))?;
        tally.settle(exited_well);
        let name = self.name;
        match tally {
            Tally { passed: 0, failed: 0, .. } => {
                Err(Stop::Stage(format!("{package} has no tests under {name}")))
            }
            Tally { passed, failed: 0, .. } => {
                say(&format!("{name} {package}: {passed} tests"));
                Ok(())
            }
            Tally { failed, .. } => Err(Stop::Stage(format!(
                "{failed} failed in {package} under {name} \
                 (an exit status of 124 would mean: longer than {TEST_BINARY_S_MAX} s)"
            ))),
        }
    }
}

/// Has cargo start each test binary under `timeout`, in the foreground: what ends the chore from
/// the keyboard ends the binary too.
fn bound(command: &mut Command, limit_s: u64) {
    let runner = format!("target.'cfg(unix)'.runner=['timeout', '--foreground', '{limit_s}']");
    command.args(["--config", &runner]);
}

/// What the nightly compiler says about itself, if there is one.
fn nightly_version() -> Option<String> {
    let output = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--version", "--verbose"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The target that a nightly compiler runs on, or why the sanitizer cannot be used.
fn host_of_nightly(version: Option<&str>) -> Result<String, String> {
    let Some(version) = version else {
        return Err("no nightly toolchain is installed".to_owned());
    };
    let Some(host) = version.lines().find_map(|line| line.strip_prefix("host: ")) else {
        return Err("the nightly compiler does not name its host".to_owned());
    };
    if SANITIZED_TARGETS.contains(&host) {
        Ok(host.to_owned())
    } else {
        Err(format!("{host} is not among {}", SANITIZED_TARGETS.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::ffi::OsStr;
    use std::fs;

    const PROBE: Instrument = Instrument {
        name: "probe",
        rustflags: "--cfg probe",
        variables: &[("PROBE_OPTIONS", "all=1")],
        withheld: &["PROBE_MAX"],
        packages: &["keyrack-one", "keyrack-two"],
        library_only: &["keyrack-two"],
        filter: Some("probed"),
    };

    /// Runs `PROBE` with a shell script in cargo's place; the crate is its fourth argument.
    fn probed(test: &str, script: &str) -> (Outcome, Scratch) {
        let scratch = Scratch::new(test);
        let cargo = scratch.program("cargo", script);
        let workspace = Workspace::at(scratch.path());
        let outcome = PROBE.run_all(&workspace, &|| {
            let mut command = Command::new(&cargo);
            command.current_dir(scratch.path()).arg("test").env("PROBE_MAX", "1");
            command
        });
        (outcome, scratch)
    }

    #[test]
    fn every_crate_is_tested_with_the_flags_and_in_a_folder_of_its_own() {
        let (outcome, scratch) = probed(
            "instrument-flags",
            "echo \"$RUSTFLAGS, $PROBE_OPTIONS, ${PROBE_MAX-gone}: $*\" >>calls.txt\n\
             echo 'test result: ok. 3 passed; 0 failed; 0 ignored'",
        );
        assert!(outcome.is_ok(), "{outcome:?}");
        let calls = fs::read_to_string(scratch.path().join("calls.txt")).expect("called");
        let calls: Vec<&str> = calls.lines().collect();
        assert_eq!(calls.len(), 2);
        for ((call, package), tests) in calls.iter().zip(PROBE.packages).zip(["--tests ", ""]) {
            let start = format!(
                "--cfg probe, all=1, gone: test --no-fail-fast -p {package} \
                 --lib {tests}--target-dir "
            );
            let rest = call.strip_prefix(&start).unwrap_or_else(|| panic!("{call}"));
            let mut words = rest.split(' ');
            assert!(words.next().is_some_and(|folder| folder.ends_with("/probe")), "{call}");
            assert!(rest.contains(" probed"), "{call}");
        }
    }

    #[test]
    fn one_crate_that_fails_does_not_keep_the_next_from_being_tested() {
        let (outcome, _scratch) = probed(
            "instrument-fails",
            "[ \"$4\" = keyrack-one ] && exit 101\n\
             echo 'test result: FAILED. 3 passed; 2 failed; 0 ignored'; exit 101",
        );
        let Err(Stop::Stage(line)) = outcome else { panic!("{outcome:?}") };
        assert!(line.starts_with("1 failed in keyrack-one under probe"), "{line}");
        assert!(line.contains("; 2 failed in keyrack-two under probe"), "{line}");
    }

    #[test]
    fn a_crate_without_tests_under_the_instrument_fails() {
        let (outcome, _scratch) =
            probed("instrument-empty", "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'");
        let Err(Stop::Stage(line)) = outcome else { panic!("{outcome:?}") };
        assert!(line.contains("keyrack-two has no tests under probe"), "{line}");
    }

    #[test]
    fn the_limit_is_a_runner_of_test_binaries() {
        let mut command = Command::new("cargo");
        bound(&mut command, 9);
        let arguments: Vec<&OsStr> = command.get_args().collect();
        let runner = "target.'cfg(unix)'.runner=['timeout', '--foreground', '9']";
        assert_eq!(arguments, ["--config", runner]);
    }

    #[test]
    fn the_sanitizer_is_used_where_a_nightly_compiler_has_it() {
        let version = |host: &str| format!("rustc 1.97.0-nightly\nbinary: rustc\nhost: {host}\n");
        let linux = version("x86_64-unknown-linux-gnu");
        assert_eq!(host_of_nightly(Some(&linux)).as_deref(), Ok("x86_64-unknown-linux-gnu"));
        let musl = host_of_nightly(Some(&version("x86_64-unknown-linux-musl")));
        assert!(musl.is_err_and(|reason| reason.starts_with("x86_64-unknown-linux-musl is not")));
        let none = host_of_nightly(None);
        assert_eq!(none, Err("no nightly toolchain is installed".to_owned()));
        assert!(host_of_nightly(Some("rustc 1.97.0-nightly")).is_err());
    }

    /// A crate that gets models gets a row, and one that loses them loses it.
    #[test]
    fn the_table_of_loom_is_that_of_the_manifests() {
        let workspace = Workspace::find().expect("found");
        let mut named: Vec<String> = workspace
            .files()
            .expect("listed")
            .into_iter()
            .filter_map(|path| {
                let folder = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
                let text = fs::read_to_string(workspace.root().join(&path)).ok()?;
                text.contains("cfg(loom)").then(|| format!("keyrack-{folder}"))
            })
            .collect();
        named.sort();
        assert_eq!(LOOM.packages, named);
    }

    /// As that of loom.
    #[test]
    fn the_table_of_shuttle_is_that_of_the_manifests() {
        let workspace = Workspace::find().expect("found");
        for package in SHUTTLE.packages {
            let folder = package.strip_prefix("keyrack-").expect("named after its folder");
            let manifest = workspace.root().join("crates").join(folder).join("Cargo.toml");
            let text = fs::read_to_string(manifest).expect("read");
            assert!(text.contains("cfg(shuttle)"), "{package}");
        }
    }

    #[test]
    fn the_table_of_the_sanitizer_names_crates_that_there_are() {
        let workspace = Workspace::find().expect("found");
        for package in ASAN.packages {
            let folder = package.strip_prefix("keyrack-").expect("named after its folder");
            let manifest = workspace.root().join("crates").join(folder).join("Cargo.toml");
            assert!(manifest.is_file(), "{package}");
        }
    }
}
