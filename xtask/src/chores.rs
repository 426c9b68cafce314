//! The chores that are mostly calls of cargo, and the order in which CI runs them.
//!
//! ```text
//! check     cargo fmt --check, cargo clippy, cargo doc, tidy        cheapest first, fail fast
//! features  the binary with other feature sets                      needs make for LuaJIT
//! smoke     the release binary over engines and workloads           see `smoke`
//! seeds     cargo test with KEYRACK_SEED from the commit
//! test      tidy, cargo test with KEYRACK_SEED fixed                closes with the counts
//! ```
//!
//! Tests run in the release profile: statistical tests need many draws, and the binary that
//! the end-to-end tests start is then the binary that `smoke` runs, built once.
//!
//! `test` and `ci` end with the closing line of [`Tally`], whatever happened before it: a stage
//! that fails without counting tests is one failure.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::command::Options;
use crate::output::{complain, say};
use crate::smoke as smoke_runs;
use crate::stage::{Outcome, Stop, run, shown, stage};
use crate::tally::Tally;
use crate::tidy;
use crate::workspace::{Workspace, seed_of_commit};

/// The variable from which random tests take their seed, in decimal.
const SEED_VARIABLE: &str = "KEYRACK_SEED";

/// Golden tests rewrite their expectations under this variable; no run that counts may do so.
const REWRITE_VARIABLE: &str = "KEYRACK_REWRITE";

/// `cargo xtask check`.
///
/// # Errors
/// The first stage that fails.
pub(crate) fn check(workspace: &Workspace, _: &Options) -> Outcome {
    stage("fmt", || run(&mut workspace.cargo(&["fmt", "--all", "--check"])))?;
    stage("clippy", || {
        let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
        run(&mut workspace.cargo(&arguments))
    })?;
    stage("doc", || {
        let mut command = workspace.cargo(&["doc", "--workspace", "--no-deps"]);
        run(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    stage("tidy", || tidy::check(workspace))
}

/// `cargo xtask test`: what everybody who changes something must pass.
///
/// # Errors
/// `Failed` when tidy or any test failed.
pub(crate) fn test(workspace: &Workspace, _: &Options) -> Outcome {
    let mut tally = Tally::default();
    // A breach of tidiness should not hide what the tests have to say.
    if let Err(stop) = stage("tidy", || tidy::check(workspace)) {
        complain_about(&stop);
        tally.failed += 1;
    }
    // A seed that the caller has set goes through; without one each test has its own.
    let tests = match stage("tests", || run_tests(workspace, None)) {
        Ok(tests) | Err(Stop::Failed(tests)) => tests,
        Err(stop) => {
            complain_about(&stop);
            Tally::one_failure()
        }
    };
    tally.passed += tests.passed;
    tally.failed += tests.failed;
    tally.skipped += tests.skipped;
    if tally.failed > 0 {
        return Err(Stop::Failed(tally));
    }
    say(&tally.closing());
    Ok(())
}

/// `cargo xtask seeds`: the tests of the crates that draw, with a seed that changes with every
/// commit, so that the random tests of a project that lives long do not stay in one place.
///
/// # Errors
/// `Stage` when a test failed; `Broken` when cargo cannot be started.
pub(crate) fn seeds(workspace: &Workspace, _: &Options) -> Outcome {
    let Some(seed) = workspace.commit().as_deref().and_then(seed_of_commit) else {
        say("SKIPPED: seeds (this tree has no commit to take a seed from)");
        return Ok(());
    };
    match stage("seeds", || run_tests(workspace, Some(seed))) {
        Ok(tally) => {
            say(&format!("seed {seed}: {} tests", tally.passed));
            Ok(())
        }
        Err(Stop::Failed(tally)) => Err(Stop::Stage(format!(
            "{} failed under the seed of the commit; \
             to see it again: {SEED_VARIABLE}={seed} cargo xtask test",
            tally.failed
        ))),
        Err(stop) => Err(stop),
    }
}

/// `cargo xtask features`: every set of features that is promised to build.
///
/// # Errors
/// The first set that does not build.
pub(crate) fn features(workspace: &Workspace, _: &Options) -> Outcome {
    let package = ["-p", "keyrack-cli", "--no-default-features", "--features"];
    stage("features lua54", || run(workspace.cargo(&["build"]).args(package).arg("lua54")))?;
    if !is_installed("make") {
        say("SKIPPED: features luajit (make is not installed)");
        return Ok(());
    }
    stage("features luajit", || {
        run(workspace.cargo(&["check"]).args(package).arg("luajit,mimalloc,redb"))
    })
}

/// `cargo xtask smoke`.
///
/// # Errors
/// The first run of the binary that does not exit with 0.
pub(crate) fn smoke(workspace: &Workspace, _: &Options) -> Outcome {
    let binary = stage("release build", || smoke_runs::build(workspace))?;
    stage("smoke", || smoke_runs::run_all(workspace, &binary))
}

/// `cargo xtask ci`: all of the above, and the tests last.
///
/// # Errors
/// `Failed` when a stage failed. The stages behind it are not run.
pub(crate) fn ci(workspace: &Workspace, options: &Options) -> Outcome {
    let none = Options::default();
    say(&seed_line(workspace));
    for chore in [check, features, smoke, seeds] {
        if let Err(stop) = chore(workspace, &none) {
            complain_about(&stop);
            return Err(Stop::Failed(Tally::one_failure()));
        }
    }
    if options.has("--without-test") {
        return Ok(());
    }
    test(workspace, &none)
}

/// `cargo xtask fmt`.
///
/// # Errors
/// When rustfmt refuses a file.
pub(crate) fn fmt(workspace: &Workspace, _: &Options) -> Outcome {
    run(&mut workspace.cargo(&["fmt", "--all"]))
}

/// The seed of a CI run, as it is printed at its head.
fn seed_line(workspace: &Workspace) -> String {
    match workspace.commit().as_deref().and_then(seed_of_commit) {
        Some(derived) => format!("seeds: those of the tests, and {derived} from the commit"),
        None => "seeds: those of the tests, none from a commit".to_owned(),
    }
}

/// Crates whose tests read [`SEED_VARIABLE`].
const SEEDED: [&str; 4] = ["keyrack-harness", "keyrack-measure", "keyrack-peers", "keyrack-vfs"];

/// Runs every test and doc test, or with a seed those of the crates that draw, passing their output
/// through while counting.
fn run_tests(workspace: &Workspace, seed: Option<u64>) -> Outcome<Tally> {
    let mut arguments = vec!["test", "--no-fail-fast"];
    match seed {
        None => arguments.extend(["--workspace", "--release"]),
        // With debug assertions and overflow checks, which release leaves out.
        Some(_) => {
            arguments.extend(["--profile", "sim"]);
            SEEDED.iter().for_each(|name| arguments.extend(["--package", name]));
        }
    }
    let mut command = workspace.cargo(&arguments);
    command.env_remove(REWRITE_VARIABLE);
    if let Some(seed) = seed {
        say(&format!("{SEED_VARIABLE}={seed}"));
        command.env(SEED_VARIABLE, seed.to_string());
    }
    let (mut tally, exited_well) = count_tests(&mut command, &mut |line| say(line))?;
    tally.settle(exited_well);
    if tally.failed > 0 { Err(Stop::Failed(tally)) } else { Ok(tally) }
}

/// Starts a program, passes its standard output on line by line, and counts the summaries in it.
/// The second answer is whether it exited with 0.
fn count_tests(command: &mut Command, pass_on: &mut dyn FnMut(&str)) -> Outcome<(Tally, bool)> {
    let line = shown(command);
    let broken = |error: std::io::Error| Stop::Broken(format!("`{line}` was cut short: {error}"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(broken)?;
    let mut tally = Tally::default();
    if let Some(stdout) = child.stdout.take() {
        // A test may print bytes that are no text; they are shown as well as they can be.
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(broken)?;
            let line = String::from_utf8_lossy(&line);
            tally.read_line(&line);
            pass_on(&line);
        }
    }
    let status = child.wait().map_err(broken)?;
    Ok((tally, status.success()))
}

fn complain_about(stop: &Stop) {
    if let Some(line) = stop.line() {
        complain(&format!("xtask: {line}"));
    }
}

/// Whether a program lies on the search path.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_of_the_tests_is_counted_while_it_passes_through() {
        let mut command = shell(
            "echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured'; \
             printf '\\377\\n'; echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 3",
        );
        let mut lines = Vec::new();
        let (tally, well) =
            count_tests(&mut command, &mut |line| lines.push(line.to_string())).expect("ran");
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1], "\u{fffd}");
        assert_eq!(tally, Tally { passed: 3, failed: 1, skipped: 1 });
        assert!(!well);
    }

    #[test]
    fn a_program_that_cannot_start_is_broken() {
        let outcome = count_tests(&mut Command::new("no-such-program-here"), &mut |_| {});
        assert!(matches!(outcome, Err(Stop::Broken(_))));
    }

    #[test]
    fn programs_are_looked_up_on_the_search_path() {
        assert!(is_installed("sh"));
        assert!(!is_installed("no-such-program-here"));
    }

    #[test]
    fn a_tree_without_a_commit_skips_the_seeds_and_says_so() {
        let scratch = Scratch::new("no-commit");
        let workspace = Workspace::at(scratch.path());
        assert_eq!(seed_line(&workspace), "seeds: those of the tests, none from a commit");
        assert!(seeds(&workspace, &Options::default()).is_ok());
    }
}
