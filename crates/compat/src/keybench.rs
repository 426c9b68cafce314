//! `keybench` 0.1.0: the flags are ours under the same names, so they go through the same table.
//! What differs: no subcommand, `skiplist` alone by default, workers are pinned only when asked
//! for, a workload is required, help goes to standard error, and reports have the shapes of that
//! version. Stricter than the original on purpose: what does not parse is refused instead of
//! guessed.

use crate::{BenchStyle, Program};
use clap::error::ErrorKind;
use clap::{ArgMatches, Command};
use keyrack_console::say;
use keyrack_harness::Pin;
use keyrack_harness::sink::Dialect;

const KEYBENCH: BenchStyle = BenchStyle {
    program: "keybench",
    dialect: Dialect::Seed,
    default_backend: Some("skiplist"),
    default_workload: false,
    default_pin: Pin::Never,
};

/// `keybench [options] WORKLOAD.lua [WORKLOAD2.lua ...]`.
pub(super) fn main(argv: &[String], program: &dyn Program) -> u8 {
    let command = || {
        program
            .bench_command(Command::new("keybench").disable_version_flag(true))
            .mut_arg("backend", |backend| {
                backend.help("Engines to run, comma-separated [default: skiplist]")
            })
            // Of the two bounds the later one counts.
            .mut_arg("ops", |ops| ops.overrides_with("secs"))
            .mut_arg("secs", |secs| secs.overrides_with("ops"))
            .mut_arg("pin", |pin| {
                pin.help("Pin worker t to the t-th CPU this process may use [default: off]")
            })
    };
    let matches = match parsed("keybench", command, argv) {
        Ok(matches) => matches,
        Err(status) => return status,
    };
    let no_workload = matches.get_many::<String>("workload").is_none_or(|list| list.len() == 0);
    let modes = ["list", "selftest"].iter().any(|mode| matches.get_flag(mode));
    if no_workload && matches.get_one::<String>("config").is_none() && !modes {
        say!("{}", command().render_help().to_string().trim_end());
        return keyrack_console::COULD_NOT;
    }
    program.bench(&matches, argv, &KEYBENCH).unwrap_or_else(|message| {
        keyrack_console::refuse("keybench", &message);
        keyrack_console::COULD_NOT
    })
}

/// The options of a command line. The error is an exit status: the help or a line is printed.
fn parsed(name: &str, command: impl Fn() -> Command, argv: &[String]) -> Result<ArgMatches, u8> {
    command().try_get_matches_from(argv).map_err(|error| {
        if error.kind() == ErrorKind::DisplayHelp {
            say!("{}", error.render().to_string().trim_end());
            return keyrack_console::DONE;
        }
        keyrack_console::refuse(name, &keyrack_console::usage_line(&error, &command()));
        keyrack_console::COULD_NOT
    })
}

/// `plot.py DIR... [--out figures] [--format png|pdf|svg]`: the figures of runs, as PNG.
pub(super) fn plot(argv: &[String], program: &dyn Program) -> u8 {
    let command = || {
        program
            .plot_command(Command::new("plot.py").disable_version_flag(true))
            .mut_arg("format", |format| format.default_value("png"))
    };
    let matches = match parsed("plot.py", command, argv) {
        Ok(matches) => matches,
        Err(status) => return status,
    };
    program.plot(&matches).unwrap_or_else(|message| {
        keyrack_console::refuse("plot.py", &message);
        keyrack_console::NO
    })
}
