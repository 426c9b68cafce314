//! Smoke: does the binary start, and do its engines, scripts and named workloads run?
//!
//! ```text
//! for every engine        keyrack bench --selftest --backend ENGINE --durability none \
//!                                       --data-dir SCRATCH
//! for every script        keyrack bench workloads/FILE.lua --backend null --ops 200
//! for every native name   keyrack bench NAME --backend null --ops 200
//! ```
//!
//! Each run must exit with 0. The names are not listed here: the binary is asked for them, so a new
//! engine or workload is smoked without a change to this file. It answers an unknown engine with
//! `unknown ... (have: a, b)` and exit code 2, so the refusal itself is tried too.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::output::{complain, say};
use crate::stage::{Outcome, Stop, seconds, shown};
use crate::test_setup::TEST_FEATURES;
use crate::workspace::Workspace;

/// A name that no engine will ever carry.
const ENGINE_UNKNOWN: &str = "no-such-engine";

/// How the names of servers end.
const URL: &str = "://";

/// The line of `keyrack bench --list` before the native workloads.
const NATIVE_SECTION: &str = "native workloads:";

/// Units of work in each workload's run.
const OPS: &str = "200";

/// Builds the release binary and answers where cargo has put it.
///
/// # Errors
/// `Stage` when it does not build.
pub(crate) fn build(workspace: &Workspace) -> Outcome<PathBuf> {
    build_with(workspace, "", "")
}

/// As [`build`], with features beside the defaults and flags of the compiler. Other flags make all
/// anew, so that such a build has a folder of its own.
///
/// # Errors
/// As [`build`].
pub(crate) fn build_with(
    workspace: &Workspace,
    features: &str,
    rustflags: &str,
) -> Outcome<PathBuf> {
    let mut command = workspace.cargo(&[
        "build",
        "--release",
        "-p",
        "keyrack-cli",
        "--message-format=json-render-diagnostics",
    ]);
    if !features.is_empty() {
        command.args(["--features", features]);
    }
    if !rustflags.is_empty() {
        command
            .env("RUSTFLAGS", rustflags)
            .env("CARGO_TARGET_DIR", workspace.target("bench-build"));
    }
    built(&mut command)
}

/// Builds every test, and answers where cargo has put the binary that they run.
///
/// # Errors
/// `Stage` when one does not build.
pub(crate) fn build_tests(workspace: &Workspace) -> Outcome<PathBuf> {
    built(
        workspace
            .cargo(&["test", "--no-run", "--workspace", "--features"])
            .args([TEST_FEATURES, "--message-format=json-render-diagnostics"]),
    )
}

/// Runs a build whose messages are JSON, and answers where it has put the binary.
fn built(command: &mut Command) -> Outcome<PathBuf> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Stop::Broken(format!("cannot start cargo: {error}")))?;
    if !output.status.success() {
        return Err(Stop::Stage(format!("`{}` did not succeed", shown(command))));
    }
    executable(&String::from_utf8_lossy(&output.stdout))
        .map(PathBuf::from)
        .ok_or_else(|| Stop::Broken("cargo named no executable 'keyrack'".into()))
}

/// The path of the `keyrack` executable in cargo's messages, one JSON object a line.
fn executable(messages: &str) -> Option<String> {
    const KEY: &str = "\"executable\":\"";
    messages
        .lines()
        .filter_map(|line| {
            let (_, rest) = line.split_once(KEY)?;
            let (path, _) = rest.split_once('"')?;
            Some(path.replace("\\\\", "\\"))
        })
        .find(|path| path.ends_with("/keyrack"))
}

/// Every run of the module header.
///
/// # Errors
/// `Stage` when a run does not exit with 0, or when the binary does not name what it has.
pub(crate) fn run_all(workspace: &Workspace, binary: &Path) -> Outcome {
    let runner = Runner::new(workspace, binary)?;
    let engines = runner.engines()?;
    let native = runner.native_workloads()?;
    let scripts: Vec<String> =
        workspace.files()?.into_iter().filter(|path| is_script(path)).collect();
    for engine in &engines {
        // Some engines sync every write unless told otherwise; how is tested elsewhere.
        // One whose library this machine lacks is left out, which the question mark allows.
        let backend = format!("{engine}?");
        let selftest = ["bench", "--selftest", "--durability", "none", "--backend", &backend];
        runner.expect_success(&selftest)?;
    }
    for workload in scripts.iter().chain(&native) {
        runner.expect_success(&["bench", workload, "--backend", "null", "--ops", OPS])?;
    }
    let (engines, native, scripts) = (engines.len(), native.len(), scripts.len());
    say(&format!("smoked: {engines} engines, {scripts} scripts, {native} native workloads"));
    Ok(())
}

fn is_script(path: &str) -> bool {
    path.strip_prefix("workloads/")
        .is_some_and(|name| name.ends_with(".lua") && !name.contains('/'))
}

/// Runs the binary at the root of the workspace, with a data directory that is removed afterwards.
#[derive(Debug)]
pub(crate) struct Runner {
    binary: PathBuf,
    root: PathBuf,
    data: PathBuf,
}

impl Runner {
    /// # Errors
    /// `Broken` when the data directory cannot be made.
    pub(crate) fn new(workspace: &Workspace, binary: &Path) -> Outcome<Runner> {
        // Beside the binary: inside the target directory, on a disk with room.
        let folder = binary.parent().unwrap_or(Path::new("."));
        let data = folder.join(format!("xtask-data-{}", std::process::id()));
        fs::create_dir_all(&data)
            .map_err(|error| Stop::Broken(format!("cannot make {}: {error}", data.display())))?;
        Ok(Runner { binary: binary.to_path_buf(), root: workspace.root().to_path_buf(), data })
    }

    /// The names of the engines that were built into the binary. A server, which is named by a
    /// URL, is none of them.
    ///
    /// # Errors
    /// See [`Runner::names_after`].
    pub(crate) fn engines(&self) -> Outcome<Vec<String>> {
        let mut names = self.names_after(&["bench", "--selftest", "--backend", ENGINE_UNKNOWN])?;
        names.retain(|name| !name.ends_with(URL));
        Ok(names)
    }

    /// The names under `native workloads:` in the binary's list. The jobs, which stand below, check
    /// what they get, so that the null engine fails them; the tests of the binary run each.
    ///
    /// # Errors
    /// `Stage` when there are none.
    fn native_workloads(&self) -> Outcome<Vec<String>> {
        let (line, output) = self.run(&["bench", "--list"])?;
        let names = names_of_section(&String::from_utf8_lossy(&output.stdout), NATIVE_SECTION);
        if output.status.success() && !names.is_empty() {
            return Ok(names);
        }
        show(&output);
        Err(Stop::Stage(format!("`{line}` should list names under '{NATIVE_SECTION}'")))
    }

    /// The names that the binary lists when it refuses a command line.
    ///
    /// # Errors
    /// `Stage` when the refusal has another exit code than 2 or lists no names.
    fn names_after(&self, arguments: &[&str]) -> Outcome<Vec<String>> {
        let (line, output) = self.run(arguments)?;
        let names = listed_names(&String::from_utf8_lossy(&output.stderr));
        if output.status.code() == Some(2) && !names.is_empty() {
            return Ok(names);
        }
        show(&output);
        Err(Stop::Stage(format!(
            "`{line}` should be refused with '(have: NAME, ...)' on stderr and exit code 2, but {}",
            output.status
        )))
    }

    /// Runs the binary and prints one line about it.
    ///
    /// # Errors
    /// `Stage` when it exits with anything but 0; its output is printed first.
    pub(crate) fn expect_success(&self, arguments: &[&str]) -> Outcome {
        let started = Instant::now();
        let (line, output) = self.run(arguments)?;
        if output.status.success() {
            say(&format!("ok   {line}  {}", seconds(started.elapsed())));
            return Ok(());
        }
        show(&output);
        Err(Stop::Stage(format!("`{line}` did not succeed ({})", output.status)))
    }

    /// The command as a person would type it, and what came of it.
    fn run(&self, arguments: &[&str]) -> Outcome<(String, Output)> {
        let mut command = Command::new(&self.binary);
        command.args(arguments);
        let line = shown(&command);
        let output = command
            .args([OsString::from("--data-dir"), self.data.clone().into_os_string()])
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Stop::Broken(format!("cannot start `{line}`: {error}")))?;
        Ok((line, output))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.data) {
            complain(&format!("xtask: {} was left behind: {error}", self.data.display()));
        }
    }
}

/// Prints what a run has written, for somebody who has to find out why it failed.
fn show(output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        for line in String::from_utf8_lossy(stream).lines() {
            complain(&format!("   | {line}"));
        }
    }
}

/// The first words of the lines behind `header`, as long as they are indented by two blanks.
fn names_of_section(text: &str, header: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| *line != header).skip(1);
    let names = lines.take_while(|line| line.starts_with("  "));
    let names = names.filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The words of the first `(have: a, b)` in a text.
fn listed_names(text: &str) -> Vec<String> {
    let Some((_, rest)) = text.split_once("(have: ") else { return Vec::new() };
    let Some((list, _)) = rest.split_once(')') else { return Vec::new() };
    list.split(',').map(|name| name.trim().to_string()).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    const ANSWERS: &str = r#"case "$*" in
*no-such-engine*) echo "unknown backend 'no-such-engine' (have: null, btree, x://)" >&2; exit 2 ;;
*--list*) printf 'engines:\n  null x\nnative workloads:\n  ycsb/a  a mix\n'
printf '    -P x\n  mixed\njobs:\n  rw1\n'; exit ;;
esac
printf '%s\n' "$*" | sed 's/ --data-dir.*//' >>calls.txt"#;

    #[test]
    fn every_engine_script_and_native_workload_is_run_once() {
        let scratch = Scratch::new("smoke");
        scratch.write("workloads/cart.lua", "-- a script\n");
        scratch.write("workloads/notes.md", "# Notes\n");
        let binary = scratch.program("keyrack", ANSWERS);
        let workspace = Workspace::at(scratch.path());
        assert!(run_all(&workspace, &binary).is_ok());
        let calls = fs::read_to_string(scratch.path().join("calls.txt")).expect("called");
        assert_eq!(
            calls,
            "bench --selftest --durability none --backend null?\n\
             bench --selftest --durability none --backend btree?\n\
             bench workloads/cart.lua --backend null --ops 200\n\
             bench ycsb/a --backend null --ops 200\n\
             bench mixed --backend null --ops 200\n"
        );
        let left: Vec<_> = fs::read_dir(scratch.path().join("bin"))
            .expect("listed")
            .map(|entry| entry.expect("read").file_name())
            .collect();
        assert_eq!(left, ["keyrack"], "the data directory is removed");
    }

    #[test]
    fn a_run_that_fails_fails_the_smoke() {
        let scratch = Scratch::new("smoke-fails");
        let script = format!("{ANSWERS}\ncase \"$*\" in *btree*) exit 1 ;; esac");
        let binary = scratch.program("keyrack", &script);
        let outcome = run_all(&Workspace::at(scratch.path()), &binary);
        assert!(
            matches!(&outcome, Err(Stop::Stage(line)) if line.contains("--backend btree")),
            "{outcome:?}"
        );
    }

    #[test]
    fn a_binary_that_accepts_unknown_names_fails_the_smoke() {
        let scratch = Scratch::new("smoke-accepts");
        let binary = scratch.program("keyrack", "exit 0");
        let outcome = run_all(&Workspace::at(scratch.path()), &binary);
        assert!(matches!(outcome, Err(Stop::Stage(line)) if line.contains("should be refused")));
    }

    #[test]
    fn names_come_from_the_list_in_a_refusal() {
        let refusal = "error: unknown backend 'x' (have: null, skiplist, redb); near: redb";
        assert_eq!(listed_names(refusal), ["null", "skiplist", "redb"]);
        assert!(listed_names("unknown backend 'x'").is_empty());
        assert!(listed_names("(have: )").is_empty());
        assert!(listed_names("(have: a, b").is_empty());
    }

    #[test]
    fn the_executable_is_found_among_the_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
             {\"executable\":\"/t/release/other\"}\n\
             {\"executable\":\"/t/release/keyrack\",\"fresh\":true}\n";
        assert_eq!(executable(messages).as_deref(), Some("/t/release/keyrack"));
        assert_eq!(executable("{}"), None);
    }
}
