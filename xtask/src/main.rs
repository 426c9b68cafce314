//! `cargo xtask`: the chores of this workspace, written against the standard library and a reader
//! of TOML, so that the first check builds within seconds.
//!
//! ```text
//! arguments -> command::parse -> one function per command -> stages -> exit code
//!
//!   check   fmt, clippy, doc, tidy
//!   test    tidy, cargo test
//!   ci      check, smoke, python, loom, shuttle, test
//!   soak    many seeds until the time is up
//!   bench   a claim of the documentation, measured again
//!   python  the tests of the Python package; wheel, its wheel
//!   figures the pictures of the documentation, from the records of claims
//! ```
//!
//! One table, [`command::COMMANDS`], holds every command with its options and its function. The
//! parser and the help text both read that table, so they cannot disagree.
//!
//! Exit codes are those of the `keyrack` binary: 0 done, 1 the answer is no (a stage failed), 2 the
//! chore could not run (a wrong argument, a tool that is missing).
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    reason = "chores read the source tree and time their stages; no stored data passes here"
)]

mod bench;
mod chores;
mod command;
mod examples;
mod fuzz;
mod instrumented;
mod options;
mod output;
mod overhead;
mod python;

#[cfg(test)]
mod scratch;
mod smoke;
mod soak;
mod stage;
mod tally;
mod test_setup;
mod tidy;
mod workspace;

use std::process::ExitCode;

use command::Request;
use output::{complain, say};
use stage::Stop;
use workspace::Workspace;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match command::parse(&words) {
        Ok(Request::Help) => {
            say(command::help().trim_end());
            Ok(())
        }
        Ok(Request::Run(command, options)) => {
            Workspace::find().and_then(|workspace| (command.run)(&workspace, &options))
        }
        Err(stop) => Err(stop),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            if let Some(line) = stop.line() {
                complain(&format!("xtask: {line}"));
            }
            if let Stop::Failed(tally) = &stop {
                // The closing line comes last, after every complaint.
                say(&tally.closing());
            }
            ExitCode::from(stop.exit_code())
        }
    }
}
