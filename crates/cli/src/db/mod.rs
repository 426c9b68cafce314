//! `keyrack db`: looking into a store of the engine `flodb`, mending it, moving it, torturing it.
//!
//! ```text
//!   command line --> one file per subcommand --> keyrack_flodb, keyrack_leveldb_reader
//!                      |
//!                      +--> Failure --> one line on standard error, and a status
//! ```
//!
//! | status | |
//! |---|---|
//! | 0 | done |
//! | 1 | failed: the machine, a store that somebody else has open, a key that is not there |
//! | 2 | the command line, or what it names, is not right; nothing was done |
//! | 3 | a file is damaged |
//! | 130 | interrupted |

mod args;
mod checkpoint;
mod compact;
mod destroy;
mod dump;
mod import;
mod point;
mod repair;
mod stat;
mod store;
mod text;
mod torture;
mod verify;

pub(crate) use args::{STATUSES, check_store, flag, path};
pub(crate) use store::{Store, open, open_to_replay};

use clap::{ArgMatches, Command};
use keyrack_console::Failure;

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("db")
        .about("Look into a store of the engine flodb, mend it, move it, torture it")
        .after_help(STATUSES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(stat::command())
        .subcommand(verify::command())
        .subcommand(repair::command())
        .subcommand(compact::command())
        .subcommand(dump::command())
        .subcommand(point::get_command())
        .subcommand(point::put_command())
        .subcommand(point::delete_command())
        .subcommand(checkpoint::command())
        .subcommand(destroy::command())
        .subcommand(import::command())
        .subcommand(torture::command())
}

/// Runs the subcommand, and says what went wrong.
pub(crate) fn run(matches: &ArgMatches) -> u8 {
    keyrack_vfs::keep_private();
    let outcome = match matches.subcommand() {
        Some(("stat", matches)) => stat::run(matches),
        Some(("verify", matches)) => verify::run(matches),
        Some(("repair", matches)) => repair::run(matches),
        Some(("compact", matches)) => compact::run(matches),
        Some(("dump", matches)) => dump::run(matches),
        Some(("get", matches)) => point::get(matches),
        Some(("put", matches)) => point::put(matches),
        Some(("delete", matches)) => point::delete(matches),
        Some(("checkpoint", matches)) => checkpoint::run(matches),
        Some(("destroy", matches)) => destroy::run(matches),
        Some(("import-leveldb", matches)) => import::run(matches),
        Some(("torture", matches)) => torture::run(matches),
        _ => Err(Failure::Usage("no such command; see keyrack db --help".to_owned())),
    };
    outcome.unwrap_or_else(|failure| failure.explain("keyrack db"))
}
