//! `keyrack backup` and `keyrack restore`: stores into repositories of backups, and back.
//!
//! ```text
//!   backup DIR DEST      save.rs      the store is opened, and its files go to the repository
//!     --log              log.rs       or what its log has after them
//!   backup DEST --...    query.rs     list, verify, delete, keep
//!   restore DEST DIR     restore.rs
//! ```
//!
//! Statuses are those of `keyrack db`.

mod log;
mod progress;
mod query;
mod restore;
mod save;

use crate::db::{STATUSES, flag};
use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_backup::{BackupId, BackupInfo, Repository, Target};
use keyrack_console::Failure;
use keyrack_objects::{Access, Address, backup_target};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) use restore::restore_command;

/// What stands below the flags of both commands.
fn help() -> String {
    format!(
        "DEST is a directory, or s3://BUCKET/PREFIX, gs:// or az:// in a program that has the \
         feature\nobject-store. Credentials, region and endpoint come from the variables of the \
         service, such as\nAWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and \
         AWS_ENDPOINT_URL.\n\n{STATUSES}"
    )
}

/// The subcommand.
pub(crate) fn command() -> Command {
    let value = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("backup")
        .about("Back up a store; list, verify and delete backups")
        .override_usage(
            "keyrack backup DIR DEST [--log] [--keep N] [--limit BYTES]\n       \
             keyrack backup DEST --list | --verify [--id ID] | --delete ID... | --keep N",
        )
        .after_help(help())
        .allow_missing_positional(true)
        .arg(Arg::new("dir").value_name("DIR").help("The directory of the store"))
        .arg(
            Arg::new("dest")
                .value_name("DEST")
                .required(true)
                .help("Where the backups are: a directory, or s3://BUCKET/PREFIX"),
        )
        .arg(flag(
            "log",
            "Ship what the log has since the last time; back up first if the log does not go back \
             so far",
        ))
        .arg(flag("list", "List the backups, and up to where the log after them is there"))
        .arg(flag("verify", "Read every byte of all backups, or of one, and say what is wrong"))
        .arg(
            value("delete", "ID", "Delete a backup, and what no other one needs")
                .action(ArgAction::Append),
        )
        .arg(value("keep", "N", "Delete all backups but the newest N"))
        .arg(value("id", "ID", "The backup to be verified"))
        .arg(value("limit", "BYTES", "Read at most so many bytes a second, such as 50M"))
        .arg(flag("json", "Print the result as JSON"))
        .arg(flag("verbose", "Say on standard error when a file is done"))
}

/// Runs `keyrack backup`, and says what went wrong.
pub(crate) fn run(matches: &ArgMatches) -> u8 {
    keyrack_vfs::keep_private();
    let outcome = match mode(matches) {
        Ok(Mode::Save) => save::run(matches),
        Ok(Mode::List) => query::list(matches),
        Ok(Mode::Verify) => query::verify(matches),
        Ok(Mode::Delete) => query::delete(matches),
        Err(failure) => Err(failure),
    };
    outcome.unwrap_or_else(|failure| failure.explain("keyrack backup"))
}

/// Runs `keyrack restore`, and says what went wrong.
pub(crate) fn run_restore(matches: &ArgMatches) -> u8 {
    keyrack_vfs::keep_private();
    restore::run(matches).unwrap_or_else(|failure| failure.explain("keyrack restore"))
}

/// What `keyrack backup` is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Save,
    List,
    Verify,
    Delete,
}

fn mode(matches: &ArgMatches) -> Result<Mode, Failure> {
    let given = |name: &str| matches.contains_id(name);
    let asked = [
        (matches.get_flag("list"), "--list", Mode::List),
        (matches.get_flag("verify"), "--verify", Mode::Verify),
        (given("delete"), "--delete", Mode::Delete),
    ];
    let mut asked = asked.iter().filter(|(is_asked, ..)| *is_asked);
    let (first, second) = (asked.next(), asked.next());
    if let (Some((_, first, _)), Some((_, second, _))) = (first, second) {
        return Err(Failure::Usage(format!("{first} and {second} exclude each other")));
    }
    let mode = match first {
        Some((_, _, mode)) => *mode,
        // Of the repository alone.
        None if !given("dir") && given("keep") => Mode::Delete,
        None => Mode::Save,
    };
    let (dir, only) = (given("dir"), |name: &str, mode: &str| {
        Err(Failure::Usage(format!("--{name} goes with {mode} alone")))
    });
    if mode != Mode::Save && matches.get_flag("log") {
        return only("log", "a backup");
    }
    match mode {
        Mode::Save if !dir => {
            let what = "name the store and the directory of its backups, or one of --list, \
                        --verify, --delete, --keep";
            Err(Failure::Usage(what.to_owned()))
        }
        Mode::List | Mode::Verify | Mode::Delete if dir => {
            let what = "there are two directories; name the one with the backups";
            Err(Failure::Usage(what.to_owned()))
        }
        Mode::Save | Mode::List | Mode::Delete if given("id") => only("id", "--verify"),
        Mode::List | Mode::Verify if given("keep") => only("keep", "a backup or a deletion"),
        Mode::List | Mode::Verify | Mode::Delete if given("limit") => only("limit", "a backup"),
        mode => Ok(mode),
    }
}

/// Where the backups are: a directory, or a prefix of an object store.
fn target(matches: &ArgMatches) -> Result<Arc<dyn Target>, Failure> {
    let given = matches.get_one::<String>("dest").map_or("", String::as_str);
    let address = Address::parse(given)?;
    if address == Address::Memory {
        let what = "keeps nothing when the program ends; name a directory or s3://BUCKET/PREFIX";
        return Err(Failure::Usage(format!("{address} {what}")));
    }
    Ok(backup_target(&address, &Access::of_environment())?)
}

/// The repository that is there.
fn repository(matches: &ArgMatches) -> Result<Repository, Failure> {
    Ok(Repository::open(target(matches)?)?)
}

/// The name of a backup on the command line.
fn parse_id(given: &str) -> Result<BackupId, Failure> {
    BackupId::parse(given).ok_or_else(|| {
        let what = "is no name of a backup such as 20260921T131020Z; see --list";
        Failure::Usage(format!("'{given}' {what}"))
    })
}

fn id(matches: &ArgMatches) -> Result<Option<BackupId>, Failure> {
    matches.get_one::<String>("id").map(|given| parse_id(given)).transpose()
}

/// `--keep`.
fn keep(matches: &ArgMatches) -> Result<Option<usize>, Failure> {
    let Some(given) = matches.get_one::<String>("keep") else { return Ok(None) };
    match given.parse() {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(Failure::Usage(format!("--keep must be at least 1 (got {given})"))),
    }
}

/// A time in milliseconds since 1970 for people.
fn stamp(unix_ms: u64) -> String {
    keyrack_calendar::rfc3339_of_ms(unix_ms)
}

fn info_json(info: &BackupInfo) -> Value {
    let log = info.log.map(|log| (format!("{:016x}", log.log_id), log.position));
    json!({
        "id": info.id.to_string(),
        "engine": info.engine,
        "taken": keyrack_calendar::rfc3339_of_ns(info.taken_ns),
        "files": info.files,
        "bytes": info.bytes,
        "log": log.as_ref().map(|(id, _)| id),
        "position": log.as_ref().map(|(_, position)| position),
    })
}
