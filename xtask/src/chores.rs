//! The chores that are mostly calls of cargo, and the order in which CI runs them.
//!
//! ```text
//! check     cargo fmt --check, cargo clippy, cargo doc, tidy        cheapest first, fail fast
//! smoke     the tests' binary over engines, workloads and claims    see `smoke`, `bench`
//! python    the tests of the Python package, as a wheel installs it     see `python`
//! loom      models of a few crates, every interleaving              see `instrumented`
//! shuttle   whole structures, schedules drawn from a seed            see `instrumented`
//! test      tidy, cargo test with KEYRACK_SEED fixed                closes with the counts
//!
//! Not in CI, but by night:
//! features  the store and the binary with other feature sets        needs make for LuaJIT
//! smoke     the release binary over engines, workloads and claims
//! overhead  the release binary's instructions a unit                needs valgrind, see `overhead`
//! seeds     cargo test with KEYRACK_SEED from the commit
//! ```
//!
//! Tests are built in cargo's own profile `dev`, once for `ci`, `seeds`, `fuzz` and `test`; the
//! workspace's manifest optimizes it. The release binary is what users have. It takes as long to
//! build as all tests, so that CI leaves it to the night.
//!
//! `test` and `ci` end with the closing line of [`Tally`], whatever happened before it: a stage
//! that fails without counting tests is one failure.

use std::path::Path;

use crate::bench;
use crate::instrumented::{loom, shuttle};
use crate::options::Options;
use crate::output::{complain, say};
use crate::overhead as budgets;
use crate::python;
use crate::smoke as smoke_runs;
use crate::stage::{Outcome, Stop, run, stage};
use crate::tally::{Tally, count_tests};
use crate::test_setup::{SEED_VARIABLE, TEST_FEATURES};
use crate::tidy;
use crate::workspace::{REWRITE_VARIABLE, Workspace, find_program, seed_of_commit};

/// The variable by which the longest tests do a part of what they could (1) or all of it (0).
const BRIEF_VARIABLE: &str = "KEYRACK_BRIEF";

/// How many tests of a program run at once.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// `cargo xtask check`.
///
/// # Errors
/// The first stage that fails.
pub(crate) fn check(workspace: &Workspace, _: &Options) -> Outcome {
    stage("fmt", || run(&mut workspace.cargo(&["fmt", "--all", "--check"])))?;
    stage("clippy", || {
        let arguments = ["clippy", "--workspace", "--all-targets", "--features", TEST_FEATURES];
        run(workspace.cargo(&arguments).args(["--", "-D", "warnings"]))
    })?;
    stage("doc", || {
        // With the features of clippy, for which the dependencies are checked already.
        let arguments = ["doc", "--workspace", "--no-deps", "--features", TEST_FEATURES];
        run(workspace.cargo(&arguments).env("RUSTDOCFLAGS", "-D warnings"))
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

/// Features that only `features --all` builds, and why.
const BUILT_BY_NIGHT: &[(&str, &str)] = &[
    ("rocksdb", "20 minutes of CPU time, a C++20 compiler and libclang"),
    ("tidesdb", "cmake"),
    ("peers-all", "rocksdb and tidesdb among them"),
    ("jemalloc", "a minute of make"),
];

/// The engines that these features bring.
const ENGINES_BY_NIGHT: [&str; 2] = ["rocksdb-bundled", "tidesdb"];

/// The sets of codecs that the store is built with; its tests have all of them.
const CODEC_SETS: [(&str, &str); 5] = [
    ("without codecs", ""),
    ("lz4", "lz4"),
    ("snappy", "snappy"),
    ("zstd", "zstd"),
    ("all", "lz4,snappy,zstd"),
];

/// `cargo xtask features`: every set of features that is promised to build.
///
/// # Errors
/// The first set that does not build, or the first engine that fails its self-test.
pub(crate) fn features(workspace: &Workspace, options: &Options) -> Outcome {
    for (name, codecs) in CODEC_SETS {
        stage(&format!("features flodb {name}"), || {
            let store = ["clippy", "-p", "keyrack-flodb", "--lib", "--no-default-features"];
            run(workspace.cargo(&store).args(["--features", codecs, "--", "-D", "warnings"]))
        })?;
    }
    let package = ["-p", "keyrack-cli", "--no-default-features", "--features"];
    stage("features lua54", || {
        run(workspace.cargo(&["check"]).args(package).arg("lua54,system-malloc"))
    })?;
    if find_program("make").is_none() {
        say("SKIPPED: features luajit (make is not installed)");
    } else {
        stage("features luajit", || {
            run(workspace.cargo(&["check"]).args(package).arg("luajit,mimalloc,peers"))
        })?;
    }
    if !options.has("--all") {
        for (feature, why) in BUILT_BY_NIGHT {
            say(&format!("not built without --all: {feature} ({why})"));
        }
        return Ok(());
    }
    stage("features all", || {
        let data = workspace.root().join(format!("target/xtask-features-{}", std::process::id()));
        std::fs::create_dir_all(&data)
            .map_err(|error| Stop::Broken(format!("cannot make {}: {error}", data.display())))?;
        let engines = ["run", "-p", "keyrack-cli", "--features"];
        for engine in ENGINES_BY_NIGHT {
            let mut command = workspace.cargo(&engines);
            command.args(["peers-all,parquet,object-store,jemalloc", "--", "bench", "--selftest"]);
            command.args(["--durability", "none", "--data-dir"]).arg(&data);
            run(command.args(["--backend", engine]))?;
        }
        std::fs::remove_dir_all(&data)
            .map_err(|error| Stop::Broken(format!("cannot remove {}: {error}", data.display())))
    })
}

/// `cargo xtask smoke`.
///
/// # Errors
/// The first run of the binary that does not exit with 0.
pub(crate) fn smoke(workspace: &Workspace, _: &Options) -> Outcome {
    let binary = stage("release build", || smoke_runs::build(workspace))?;
    smoke_of(workspace, &binary)
}

/// [`smoke`], of the binary that the tests run.
fn smoke_of_tests(workspace: &Workspace, _: &Options) -> Outcome {
    let binary = stage("build", || smoke_runs::build_tests(workspace))?;
    smoke_of(workspace, &binary)
}

fn smoke_of(workspace: &Workspace, binary: &Path) -> Outcome {
    stage("smoke", || smoke_runs::run_all(workspace, binary))?;
    stage("claims", || bench::quick(workspace, binary))
}

/// `cargo xtask overhead`.
///
/// # Errors
/// `Stage` when a workload is over its budget.
pub(crate) fn overhead(workspace: &Workspace, _: &Options) -> Outcome {
    if !cfg!(target_arch = "x86_64") {
        say("SKIPPED: overhead (the budgets are for x86_64)");
        return Ok(());
    }
    let Some(valgrind) = find_program("valgrind") else {
        say("SKIPPED: overhead (valgrind is not installed)");
        return Ok(());
    };
    let binary = stage("release build", || smoke_runs::build(workspace))?;
    stage("overhead", || budgets::run_all(workspace, &valgrind, &binary))
}

/// `cargo xtask ci`: what is checked about a commit, the tests last.
///
/// # Errors
/// `Failed` when a stage failed. The stages behind it are not run.
pub(crate) fn ci(workspace: &Workspace, options: &Options) -> Outcome {
    let none = Options::default();
    say(&seed_line(workspace));
    for chore in [check, smoke_of_tests, python::tests, loom, shuttle] {
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

/// The test that draws the pictures of the documentation, or compares them.
const FIGURES_TEST: &str = "report::record::pictures_are_those_of_the_record";

/// `cargo xtask figures`: the test that compares the pictures with the record, told to write them.
///
/// # Errors
/// When a record cannot be drawn.
pub(crate) fn figures(workspace: &Workspace, _: &Options) -> Outcome {
    let test = ["test", "-p", "keyrack-cli", "--test", "cli"];
    let mut command = workspace.cargo(&test);
    run(command.args(["--", "--exact", FIGURES_TEST]).env(REWRITE_VARIABLE, "1"))
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
const SEEDED: [&str; 9] = [
    "keyrack-flodb",
    "keyrack-harness",
    "keyrack-hdr",
    "keyrack-masstree",
    "keyrack-masstree-engine",
    "keyrack-measure",
    "keyrack-peers",
    "keyrack-vfs",
    "keyrack-wal",
];

/// Runs every test and doc test, or with a seed those of the crates that draw, passing their output
/// through while counting.
fn run_tests(workspace: &Workspace, seed: Option<u64>) -> Outcome<Tally> {
    let arguments = ["test", "--no-fail-fast", "--workspace"];
    let mut command = workspace.cargo(&arguments);
    command.args(["--features", TEST_FEATURES]);
    if seed.is_some() {
        // A selection of packages would resolve to other features, and build everything again.
        command.args(["--tests", "--config", &runner_of(&SEEDED)]);
    }
    command.env_remove(REWRITE_VARIABLE);
    if std::env::var_os(THREADS_VARIABLE).is_none() {
        command.env(THREADS_VARIABLE, test_threads().to_string());
    }
    if let Some(seed) = seed {
        say(&format!("{SEED_VARIABLE}={seed}"));
        command.env(SEED_VARIABLE, seed.to_string()).env(BRIEF_VARIABLE, "1");
    } else if std::env::var_os(BRIEF_VARIABLE).is_none() {
        command.env(BRIEF_VARIABLE, "0");
    }
    let (mut tally, exited_well) = count_tests(&mut command, &mut |line| say(line))?;
    tally.settle(exited_well);
    if tally.failed > 0 { Err(Stop::Failed(tally)) } else { Ok(tally) }
}

/// Tests of a program that run at once: twice as many as there are processors, because most of the
/// time goes by in tests that wait for the processes that they started.
fn test_threads() -> usize {
    2 * std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A setting by which cargo runs the test programs of these packages and passes over all others.
fn runner_of(packages: &[&str]) -> String {
    let names = packages.join("|");
    let script = format!("case $CARGO_PKG_NAME in {names}) exec \"$@\";; esac");
    format!("target.'cfg(unix)'.runner=['sh', '-c', '{script}', 'seeds']")
}

fn complain_about(stop: &Stop) {
    if let Some(line) = stop.line() {
        complain(&format!("xtask: {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    /// The features that are no defaults and not built by `features` are built by `features --all`.
    #[test]
    fn every_feature_of_the_binary_is_built_by_a_chore() {
        let workspace = Workspace::find().expect("found");
        let manifest = std::fs::read_to_string(workspace.root().join("crates/cli/Cargo.toml"));
        let manifest: toml::Table = manifest.expect("read").parse().expect("TOML");
        let mut features = manifest["features"].as_table().expect("a table").clone();
        let defaults = features.remove("default").expect("defaults").to_string();
        for feature in features.keys().map(String::as_str) {
            let is_built = defaults.contains(&format!("\"{feature}\""))
                || ["luajit", "peers", "system-malloc"].contains(&feature)
                || TEST_FEATURES.split(',').any(|of| of.ends_with(&format!("/{feature}")));
            let is_built_by_night = BUILT_BY_NIGHT.iter().any(|(name, _)| *name == feature);
            assert!(is_built != is_built_by_night, "{feature}");
        }
    }

    #[test]
    fn the_runner_of_seeds_runs_the_programs_of_its_packages_alone() {
        let setting = runner_of(&["keyrack-wal", "keyrack-vfs"]);
        let (_, list) = setting.split_once("runner=[").expect("a list");
        let words: Vec<&str> = list.trim_matches(['\'', ']']).split("', '").collect();
        let [shell, flag, script, name] = words[..] else { panic!("{words:?}") };
        for (package, printed) in [("keyrack-vfs", "ran\n"), ("keyrack-wal-2", ""), ("wal", "")] {
            let mut command = std::process::Command::new(shell);
            command.args([flag, script, name, "echo", "ran"]).env("CARGO_PKG_NAME", package);
            let output = command.output().expect("runs");
            assert!(output.status.success(), "{package}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{package}");
        }
    }

    #[test]
    fn a_tree_without_a_commit_skips_the_seeds_and_says_so() {
        let scratch = Scratch::new("no-commit");
        let workspace = Workspace::at(scratch.path());
        assert_eq!(seed_line(&workspace), "seeds: those of the tests, none from a commit");
        assert!(seeds(&workspace, &Options::default()).is_ok());
    }
}
