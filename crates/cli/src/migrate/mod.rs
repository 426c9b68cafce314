//! `keyrack import` and `keyrack export`: strings and hashes from other servers and files into
//! rows, and out again.
//!
//! ```text
//!   import SOURCE --to DEST      SOURCE: a file, a directory with a manifest, a server
//!   export SOURCE                DEST, SOURCE of export: a server, or a directory of keyrack serve
//! ```
//!
//! A directory is opened and served to this process alone, through a socket in a directory of its
//! own, so that there is one way for rows to come and go.

mod export;
mod import;
mod place;
mod shown;

use clap::{Arg, ArgMatches, Command};
use keyrack_console::Failure;
use keyrack_migrate::Error;

pub(crate) use export::{command as export_command, run as run_export};
pub(crate) use import::{command as import_command, run as run_import};

const STATUSES: &str = "\
Exit status: 0 all was moved; 1 something was left out, or a server or a disk failed; 2 usage; \
3 damage; 130 interrupted.";

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// The arguments of both commands.
fn begun(command: Command) -> Command {
    command
        .after_help(STATUSES)
        .arg(Arg::new("source").value_name("SOURCE").required(true))
        .arg(option("db", "N", "The database of the source [default: 0]"))
        .arg(option("password-file", "FILE", "The source's password, in the first line of FILE"))
        .arg(option("tls-ca", "FILE", "Certificates that are trusted of servers, as PEM"))
        .arg(option("engine", "ENGINE", "Of a directory: rowstore or flodb [default: rowstore]"))
}

fn number(matches: &ArgMatches, name: &str) -> Result<Option<u32>, Failure> {
    let Some(text) = matches.get_one::<String>(name) else { return Ok(None) };
    let number = text.parse();
    number.map(Some).map_err(|_| Failure::Usage(format!("--{name} '{text}' is no number")))
}

fn failure(error: Error) -> Failure {
    let what = error.to_string();
    match error {
        Error::Usage(_) => Failure::Usage(what),
        Error::Damage { .. } => Failure::Damaged(what),
        Error::Interrupted => Failure::Interrupted,
        _ => Failure::Failed(what),
    }
}
