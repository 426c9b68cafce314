//! The fuzzers of every reader of bytes from outside, for a minute each, as many at once as there
//! are processors.
//!
//! ```text
//!   cargo test --tests, with a runner that prints instead of running    which test programs
//!   PROGRAM --list                                                      which of their tests fuzz
//!   PROGRAM --exact TEST, KEYRACK_FUZZ_S=60, KEYRACK_SEED=seed          the queue
//! ```
//!
//! A test is a fuzzer when a module on its path is named `fuzz`, or ends in `_fuzz`. The tests of
//! one format share its minute (`keyrack_testkit::fuzz`, which has the kept inputs too). The seed
//! moves with the commit. A fuzzer that does not end in several times its minute fails.

use std::collections::VecDeque;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::options::Options;
use crate::output::{complain, say};
use crate::stage::{Outcome, Stop, shown, stage};
use crate::test_setup::{SEED_VARIABLE, TEST_FEATURES};
use crate::workspace::{REWRITE_VARIABLE, Workspace, find_program, seed_of_commit};

/// Seconds of a format when none are given.
const SECONDS_DEFAULT: u64 = 60;

/// By which the fuzzers are told for how long.
const SECONDS_VARIABLE: &str = "KEYRACK_FUZZ_S";

/// By which a fuzzer is told to check one input alone; no run that counts may do so.
const INPUT_VARIABLE: &str = "KEYRACK_FUZZ_INPUT";

/// Seconds that a fuzzer may take beside its own, for the kept corpus and the last input.
const SECONDS_MORE: u64 = 60;

/// What the runner prints in front of a program.
const MARK: &str = "fuzz-program";

/// The crate that has the fuzzer, whose tests of it need no minute.
const FUZZER: &str = "crates/testkit";

/// A test that fuzzes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    /// The folder of its crate, in which tests run.
    folder: PathBuf,
    program: PathBuf,
    test: String,
}

/// `cargo xtask fuzz`.
///
/// # Errors
/// `Stage` when an input did harm, or there are no fuzzers.
pub(crate) fn command(workspace: &Workspace, options: &Options) -> Outcome {
    fuzz(workspace, options.number("--seconds").unwrap_or(SECONDS_DEFAULT))
}

fn fuzz(workspace: &Workspace, seconds: u64) -> Outcome {
    let seed = workspace.commit().as_deref().and_then(seed_of_commit);
    let targets = stage("fuzz build", || targets(workspace))?;
    if targets.is_empty() {
        return Err(Stop::Stage("there are no fuzzers".to_owned()));
    }
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    stage("fuzz", || {
        say(&format!(
            "{} fuzzers, {seconds} s a format, {workers} at once, {}",
            targets.len(),
            seed.map_or("with their own seeds".to_owned(), |seed| format!(
                "{SEED_VARIABLE}={seed}"
            ))
        ));
        let limit = find_program("timeout").map(|_| seconds.saturating_mul(2) + SECONDS_MORE);
        run_all(&targets, workers, &|target| run_one(target, seconds, seed, limit))
    })
}

/// Builds every test program of the workspace, as `seeds` and `test` have them, and asks each for
/// its fuzzers.
fn targets(workspace: &Workspace) -> Outcome<Vec<Target>> {
    let mut command = workspace.cargo(&["test", "--workspace"]);
    command.args(["--features", TEST_FEATURES, "--tests", "--config", &runner()]);
    let text = output_of(&mut command)?;
    let mut targets = Vec::new();
    for (folder, program) in programs(&text) {
        if folder.ends_with(FUZZER) {
            continue;
        }
        let mut list = Command::new(&program);
        let listed = output_of(list.current_dir(&folder).arg("--list"))?;
        targets.extend(fuzzers(&listed).map(|test| Target {
            folder: folder.clone(),
            program: program.clone(),
            test: test.to_owned(),
        }));
    }
    Ok(targets)
}

/// A setting by which cargo prints the test programs instead of running them.
fn runner() -> String {
    let script = format!("echo \"{MARK} $CARGO_MANIFEST_DIR $(realpath $1)\"");
    format!("target.'cfg(unix)'.runner=['sh', '-c', '{script}', 'fuzz']")
}

/// The folders and programs that the runner printed.
fn programs(text: &str) -> Vec<(PathBuf, PathBuf)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(MARK)?.strip_prefix(' '));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(folder, program)| (PathBuf::from(folder), PathBuf::from(program)))
        .collect()
}

/// The fuzzers of what a test program lists: `path::of::fuzz::name: test`.
fn fuzzers(listed: &str) -> impl Iterator<Item = &str> {
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.filter(|test| {
        let mut modules: Vec<&str> = test.split("::").collect();
        modules.pop();
        modules.iter().any(|module| *module == "fuzz" || module.ends_with("_fuzz"))
    })
}

/// Standard output of a command that must succeed.
fn output_of(command: &mut Command) -> Outcome<String> {
    let line = shown(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Stop::Broken(format!("cannot start `{line}`: {error}")))?;
    if !output.status.success() {
        return Err(Stop::Stage(format!("`{line}` did not succeed ({})", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Takes targets from a queue, so many at once. All are run; the failures are counted.
fn run_all(
    targets: &[Target],
    workers: usize,
    run: &(dyn Fn(&Target) -> Result<String, String> + Sync),
) -> Outcome {
    let queue: Mutex<VecDeque<&Target>> = Mutex::new(targets.iter().collect());
    let failed = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        while let Some(target) = next() {
            match run(target) {
                Ok(lines) if lines.is_empty() => say(&format!("fuzz {}: ok", target.test)),
                Ok(lines) => say(&lines),
                Err(lines) => {
                    complain(&lines);
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.push(target.test.clone());
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() {
        return Ok(());
    }
    Err(Stop::Stage(format!("{} fuzzers failed: {}", failed.len(), failed.join(", "))))
}

/// Runs one fuzzer. What it said of itself, or all that it printed when it failed.
fn run_one(
    target: &Target,
    seconds: u64,
    seed: Option<u64>,
    limit_s: Option<u64>,
) -> Result<String, String> {
    let mut command = match limit_s {
        Some(limit_s) => {
            let mut command = Command::new("timeout");
            command.args(["--foreground", &limit_s.to_string()]).arg(&target.program);
            command
        }
        None => Command::new(&target.program),
    };
    command
        .args(["--exact", &target.test, "--nocapture"])
        .current_dir(&target.folder)
        .env(SECONDS_VARIABLE, seconds.to_string())
        .env("CARGO_MANIFEST_DIR", &target.folder)
        .env_remove(INPUT_VARIABLE)
        .env_remove(REWRITE_VARIABLE)
        .stdin(Stdio::null());
    if let Some(seed) = seed {
        command.env(SEED_VARIABLE, seed.to_string());
    }
    let line = shown(&command);
    let broken = |error: std::io::Error| format!("cannot run `{line}`: {error}");
    // Both streams through one pipe, in the order in which they were written.
    let (mut reader, writer) = std::io::pipe().map_err(broken)?;
    let error_writer = writer.try_clone().map_err(broken)?;
    let mut child = command.stdout(writer).stderr(error_writer).spawn().map_err(broken)?;
    // The writing ends that this process has would keep the pipe open.
    drop(command);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(broken)?;
    let status = child.wait().map_err(broken)?;
    let text = String::from_utf8_lossy(&bytes);
    if !status.success() {
        return Err(format!("{text}\nfuzz {}: FAILED ({status}): `{line}`", target.test));
    }
    let own = text.lines().filter_map(|line| line.find("fuzz ").map(|at| &line[at..]));
    let own: Vec<&str> = own.filter(|line| line.contains(" inputs of ")).collect();
    Ok(own.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn fuzzers_are_told_by_their_modules() {
        let listed = "fuzz::a: test\ntable::tests::fuzz::b: test\nresp_fuzz::c: test\n\
                      fuzz_me: test\nfuzzed::d: test\nfuzz::e: benchmark\n3 tests, 1 benchmark\n";
        let found: Vec<&str> = fuzzers(listed).collect();
        assert_eq!(found, ["fuzz::a", "table::tests::fuzz::b", "resp_fuzz::c"]);
    }

    #[test]
    fn programs_are_what_the_runner_prints() {
        let text = "running\nfuzz-program /a b/crates/wal /t/wal-1\nfuzz-program /c /t/c-2\n";
        let expected = [("/a b/crates/wal", "/t/wal-1"), ("/c", "/t/c-2")];
        let expected = expected.map(|(folder, program)| (folder.into(), program.into()));
        assert_eq!(programs(text), expected);
        let setting = runner();
        let (_, list) = setting.split_once("runner=[").expect("a list");
        let words: Vec<&str> = list.trim_matches(['\'', ']']).split("', '").collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(["/bin/sh", "--quiet"]).env("CARGO_MANIFEST_DIR", "/d");
        let printed = output_of(&mut command).expect("runs");
        let [(folder, program)] = &programs(&printed)[..] else { panic!("{printed}") };
        assert_eq!(folder, &PathBuf::from("/d"));
        assert!(program.is_absolute(), "{program:?}");
    }

    fn target(scratch: &Scratch, name: &str, script: &str) -> Target {
        let program = scratch.program(name, script);
        Target { folder: scratch.path().to_path_buf(), program, test: format!("fuzz::{name}") }
    }

    #[test]
    fn every_fuzzer_has_its_time_and_seed_and_one_that_fails_stops_no_other() {
        let scratch = Scratch::new("fuzz-runs");
        let says = "echo \"fuzz x: 5 inputs of 2 shapes, $KEYRACK_FUZZ_S $KEYRACK_SEED $*\"";
        let targets = [
            target(&scratch, "bad", "echo kept as F >&2; exit 101"),
            target(&scratch, "good", says),
        ];
        let seen = Mutex::new(Vec::new());
        let outcome = run_all(&targets, 2, &|target| {
            let result = run_one(target, 7, Some(9), None);
            seen.lock().expect("no panic").push(result.clone());
            result
        });
        let Err(Stop::Stage(line)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(line, "1 fuzzers failed: fuzz::bad");
        let seen = seen.into_inner().expect("no panic");
        let good = "fuzz x: 5 inputs of 2 shapes, 7 9 --exact fuzz::good --nocapture";
        assert!(seen.contains(&Ok(good.to_owned())), "{seen:?}");
        let bad = |seen: &Result<String, String>| {
            seen.as_ref().is_err_and(|text| text.contains("kept as F"))
        };
        assert!(seen.iter().any(bad), "{seen:?}");
    }
}
