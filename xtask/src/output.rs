//! The two streams. Lines of stages and results go to stdout, complaints to stderr. A reader that
//! has gone away (`cargo xtask tidy | head -1`) ends the chore without a panic.
//!
//! Under test both go through the macros whose output the test harness keeps to itself: a chore
//! that a test runs must not write lines that the counting of test results takes for its own.

use std::io::{self, Write};

/// Writes one line to stdout. When the pipe is closed the process ends with exit code 0.
#[cfg(not(test))]
pub(crate) fn say(line: &str) {
    deliver(&mut io::stdout().lock(), line);
}

/// Writes one line to stderr.
#[cfg(not(test))]
pub(crate) fn complain(line: &str) {
    deliver(&mut io::stderr().lock(), line);
}

#[cfg(test)]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
pub(crate) fn complain(line: &str) {
    eprintln!("{line}");
}

fn deliver(stream: &mut dyn Write, line: &str) {
    let written = writeln!(stream, "{line}").and_then(|()| stream.flush());
    if let Err(error) = written {
        std::process::exit(exit_code_after(&error));
    }
}

/// A closed pipe means that the reader has seen enough. Any other failure to print is an error.
fn exit_code_after(error: &io::Error) -> i32 {
    if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_one_newline() {
        let mut bytes = Vec::new();
        deliver(&mut bytes, "3 passed, 0 failed");
        assert_eq!(bytes, b"3 passed, 0 failed\n");
    }

    #[test]
    fn a_closed_pipe_is_not_an_error() {
        assert_eq!(exit_code_after(&io::Error::from(io::ErrorKind::BrokenPipe)), 0);
        assert_eq!(exit_code_after(&io::Error::from(io::ErrorKind::StorageFull)), 2);
    }
}
