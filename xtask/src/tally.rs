//! Counts of tests, read from the summary lines that `cargo test` prints after every test binary:
//!
//! ```text
//! test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.02s
//! ```
//!
//! and the closing line of a run, `N passed, N failed` with `, N skipped` behind it when tests were
//! ignored. Scripts read that line, so its form does not change.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::stage::{Outcome, Stop, shown};

/// How many tests passed, failed and were skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Tally {
    /// The tally of a stage that is not made of tests and did not pass.
    pub(crate) fn one_failure() -> Tally {
        Tally { passed: 0, failed: 1, skipped: 0 }
    }

    /// Adds one line of `cargo test` output. Lines that are no summaries change nothing.
    pub(crate) fn read_line(&mut self, line: &str) {
        let Some(summary) = line.strip_prefix("test result: ") else { return };
        // "ok." or "FAILED." stands before the first count.
        let counts = summary.split_once(". ").map_or(summary, |(_, counts)| counts);
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let (Some(number), Some(noun)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match noun {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }

    /// A run that exited with an error without a failed test (it did not compile, or a test binary
    /// was killed) still counts one failure: a failed run never closes with `0 failed`.
    pub(crate) fn settle(&mut self, exited_well: bool) {
        if !exited_well && self.failed == 0 {
            self.failed = 1;
        }
    }

    pub(crate) fn closing(&self) -> String {
        let Tally { passed, failed, skipped } = self;
        if *skipped == 0 {
            format!("{passed} passed, {failed} failed")
        } else {
            format!("{passed} passed, {failed} failed, {skipped} skipped")
        }
    }
}

/// Starts a program, passes its standard output on line by line, and counts the summaries in it.
/// The second answer is whether it exited with 0.
///
/// # Errors
/// `Broken` when it cannot be started or its output cannot be read.
pub(crate) fn count_tests(
    command: &mut Command,
    pass_on: &mut dyn FnMut(&str),
) -> Outcome<(Tally, bool)> {
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

#[cfg(test)]
mod tests {
    use super::*;

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

    fn tally_of(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read_line(line));
        tally
    }

    #[test]
    fn summaries_of_all_binaries_are_summed() {
        let tally = tally_of(
            "running 5 tests\n\
             test a ... ok\n\
             test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
             finished in 0.02s\n\
             \x20  Doc-tests keyrack_store\n\
             test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 7 filtered out; \
             finished in 1.50s\n",
        );
        assert_eq!(tally, Tally { passed: 7, failed: 3, skipped: 1 });
        assert_eq!(tally.closing(), "7 passed, 3 failed, 1 skipped");
    }

    #[test]
    fn other_lines_that_speak_of_results_do_not_count() {
        let tally = tally_of(
            "the test result: ok. 9 passed; 0 failed\n\
             test result_is_kept ... ok\n\
             9 passed, 1 failed\n",
        );
        assert_eq!(tally, Tally::default());
        assert_eq!(tally.closing(), "0 passed, 0 failed");
    }

    #[test]
    fn a_run_that_broke_never_closes_without_a_failure() {
        let mut tally = Tally { passed: 4, failed: 0, skipped: 0 };
        tally.settle(true);
        assert_eq!(tally.failed, 0);
        tally.settle(false);
        assert_eq!(tally.failed, 1);
        tally.failed = 6;
        tally.settle(false);
        assert_eq!(tally.failed, 6);
    }
}
