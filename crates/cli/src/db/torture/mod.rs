//! `keyrack db torture`: what an outside harness needs to kill a store and look at it afterwards.
//!
//! ```text
//!   run     put or remove, synced --> returns --> one line to ACKFILE      ... until killed
//!   verify  ACKFILE --> the last acknowledged write of each key --> is it there?
//! ```
//!
//! What is written follows from the key and its version alone (`script`), so a value checks itself,
//! and a later run goes on where an earlier one was killed: a key's version of `ACKFILE` plus 1.
//! That write may have been made before, and is made again; so a key is always in the state of its
//! acknowledged version, or of the next one.
//!
//! A line of ACKFILE is `put KEY VERSION` or `del KEY VERSION`, and a line feed, in one write. A
//! last line without its line feed was never there.

mod acks;
mod run;
mod script;
mod subject;
mod verify;

use crate::db::args::{STATUSES, flag, path};
use clap::{Arg, ArgMatches, Command};
use keyrack_console::{Failure, Outcome};
use subject::Engine;

pub(super) fn command() -> Command {
    let seeded = |command: Command| {
        command
            .after_help(STATUSES)
            .arg(
                Arg::new("engine")
                    .long("engine")
                    .value_name("ENGINE")
                    .default_value("flodb")
                    .help("The engine: flodb or rowstore"),
            )
            .arg(Arg::new("dir").value_name("DIR").required(true).help("The store"))
            .arg(
                Arg::new("ackfile")
                    .value_name("ACKFILE")
                    .required(true)
                    .help("The file with a line for each acknowledged write"),
            )
    };
    let number = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("N").allow_hyphen_values(true).help(help)
    };
    let run = Command::new("run")
        .about("Write, and note each acknowledgement; made to be killed")
        .long_about(
            "Make N writes that are synced before they return, in a store that is made if it is \
             missing. After each, one line is appended to ACKFILE by one write. The sizes of the \
             store are small and drawn from the seed, so that logs and tables change often.",
        );
    let verify = Command::new("verify")
        .about("Check that each acknowledged write is there, and nothing that was never written")
        .long_about(
            "Open the store, and check it against ACKFILE. Exit status 0: all of it is there; 1: \
             an acknowledged write is missing or wrong; 3: damage was reported.",
        );
    Command::new("torture")
        .about("Write and note what was acknowledged; check it after a crash")
        .after_help(STATUSES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            seeded(run)
                .arg(Arg::new("writes").value_name("N").required(true).help("How many writes"))
                .arg(number(
                    "seed",
                    "Draws the order of keys and the sizes of the store [default: 1]",
                ))
                .arg(number("threads", "Threads that write [default: 1]"))
                .arg(flag("verbose", "Say each acknowledgement on standard error, too")),
        )
        .subcommand(seeded(verify))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let (is_run, matches) = match matches.subcommand() {
        Some(("run", matches)) => (true, matches),
        Some((_, matches)) => (false, matches),
        None => return Err(Failure::Usage("run or verify?".to_owned())),
    };
    let engine = matches.get_one::<String>("engine").map(String::as_str).unwrap_or_default();
    let engine = Engine::of(engine)?;
    let (dir, ackfile) = (path(matches, "dir"), path(matches, "ackfile"));
    if is_run {
        run::run(engine, &dir, &ackfile, matches)
    } else {
        verify::run(engine, &dir, &ackfile)
    }
}
