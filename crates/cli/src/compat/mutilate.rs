//! `mutilate` 0.1: its options are ours under the same names, with its table. What differs on
//! purpose is in docs/load.md: rates are kept whatever the server does, latencies count from when a
//! request was due, and what did not work is said and is exit status 1 or 2.

use crate::flags;
use crate::load::{self, Options, Style};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Args, Command};
use keyrack_loadgen::output::Columns;

const MUTILATE: Style = Style { program: "mutilate", columns: Columns::Readme, has_verdict: false };

/// `mutilate -s server[:port] [options]`.
pub(super) fn main(argv: &[String]) -> u8 {
    let command = || {
        Options::augment_args(Command::new("mutilate"))
            .about("\"High-performance\" memcached benchmarking tool")
            .version("0.1")
            .disable_version_flag(true)
            .arg(
                Arg::new("version")
                    .long("version")
                    .action(ArgAction::Version)
                    .help("Print version"),
            )
            .infer_long_args(true)
    };
    match command().try_get_matches_from(argv) {
        Ok(matches) => load::run_as(&matches, &MUTILATE),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                crate::print(&error.render().to_string())
            }
            _ => {
                crate::refuse("mutilate", &flags::one_line(&error, &command()));
                crate::COULD_NOT
            }
        },
    }
}
