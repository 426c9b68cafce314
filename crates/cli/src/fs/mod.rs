//! `keyrack fs`: name spaces of files, as jobs write them and others read them.
//!
//! ```text
//!   command line --> one file per group of commands --> Place, options --> keyrack_fs_tools
//!      --db DIR          the log that is written to, made by the first change
//!      --view LIST       publications that are only read, instead
//!      --registry DIR    where publications are; DIR/registry of --db if it is not given
//!      --store ADDRESS   the same in an object store
//! ```
//!
//! | status | |
//! |---|---|
//! | 0 | done |
//! | 1 | failed, or the answer is no: a name that is not there, a right that is missing |
//! | 2 | the command line, or what it names, is not right; nothing was done |
//! | 3 | a file or a record is damaged |
//! | 130 | interrupted |

mod archive;
mod bench;
mod find;
mod jobs;
mod logs;
#[cfg(all(feature = "fuse", target_os = "linux"))]
mod mount;
mod mutate;
mod query;
mod quota;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::Failure;
use keyrack_deltafs::User;
use keyrack_fs_tools::Place;
use quota::{quota, quota_args};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const STATUSES: &str = "\
Exit status: 0 done; 1 failed, or no (a name that is not there, a right that is missing); 2 usage; \
3 damage; 130 interrupted.";

/// The subcommand.
pub(crate) fn command() -> Command {
    let command = Command::new("fs")
        .about("Name spaces of files in logs: change them, look at them, publish and measure them")
        .after_help(STATUSES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommands(mutate::commands())
        .subcommands(query::commands())
        .subcommand(find::command())
        .subcommands(archive::commands())
        .subcommands(logs::commands())
        .subcommand(bench::command())
        .subcommands(jobs::commands());
    #[cfg(all(feature = "fuse", target_os = "linux"))]
    let command = command.subcommand(mount::command());
    command
}

/// Runs the subcommand, and says what went wrong.
pub(crate) fn run(matches: &ArgMatches) -> u8 {
    keyrack_vfs::keep_private();
    let Some((name, matches)) = matches.subcommand() else { return keyrack_console::COULD_NOT };
    let outcome = mutate::run(name, matches)
        .or_else(|| query::run(name, matches))
        .or_else(|| archive::run(name, matches))
        .or_else(|| logs::run(name, matches))
        .or_else(|| jobs::run(name, matches));
    let outcome = match (name, outcome) {
        (_, Some(outcome)) => outcome,
        ("find", None) => find::run(matches),
        ("bench", None) => bench::run(matches),
        #[cfg(all(feature = "fuse", target_os = "linux"))]
        ("mount", None) => mount::run(matches),
        (_, None) => Err(Failure::Usage("no such command; see keyrack fs --help".to_owned())),
    };
    outcome.unwrap_or_else(|failure| failure.explain(&format!("keyrack fs {name}")))
}

/// An option with a path of the machine, which need not be text.
fn local(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    option(name, value, help).value_parser(value_parser!(OsString))
}

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn on_log(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .after_help(STATUSES)
        .arg(local("db", "DIR", "The directory of the log"))
        .arg(local("registry", "DIR", "Where publications are [default: registry in --db]"))
        .arg(
            option(
                "store",
                "ADDRESS",
                "Where publications are: s3://, gs://, az:// or a directory",
            )
            .conflicts_with("registry"),
        )
        .arg(option("as", "UID:GID[,GID]", "Who asks [default: 0:0, who may do everything]"))
}

/// A command that only reads: a log, or a list of publications.
fn reading(name: &'static str, about: &'static str) -> Command {
    on_log(name, about).arg(option(
        "view",
        "NAME[@VERSION],..",
        "Publications to read instead of the log, the highest first",
    ))
}

/// A command that changes a log, and may begin one.
fn beginning(name: &'static str, about: &'static str) -> Command {
    on_log(name, about)
        .arg(option(
            "base",
            "NAME[@VERSION],..",
            "Publications that a new log begins on, the highest first",
        ))
        .args(quota_args())
}

fn paths() -> Arg {
    Arg::new("path")
        .value_name("PATH")
        .action(ArgAction::Append)
        .required(true)
        .value_parser(value_parser!(OsString))
        .help("Paths, from /")
}

fn path_arg(name: &'static str, help: &'static str) -> Arg {
    let parser = value_parser!(OsString);
    Arg::new(name).value_name("PATH").required(true).value_parser(parser).help(help)
}

fn text<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a str> {
    matches.get_one::<String>(name).map(String::as_str)
}

fn words<'a>(matches: &'a ArgMatches, name: &str) -> Vec<&'a str> {
    matches.get_many::<String>(name).into_iter().flatten().map(String::as_str).collect()
}

/// What was given as bytes.
fn os<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a OsStr> {
    matches.get_one::<OsString>(name).map(OsString::as_os_str)
}

/// A path of the name space, as it was given.
fn path_bytes<'a>(matches: &'a ArgMatches, name: &str) -> Option<&'a [u8]> {
    os(matches, name).map(OsStrExt::as_bytes)
}

fn paths_of(matches: &ArgMatches) -> Vec<&[u8]> {
    let all = matches.get_many::<OsString>("path").into_iter().flatten();
    all.map(|path| path.as_bytes()).collect()
}

/// Where the command works, by the options that it has.
fn place(matches: &ArgMatches) -> Result<Place, Failure> {
    let path = |name: &str| matches.try_get_one::<OsString>(name).ok().flatten().map(PathBuf::from);
    let text = |name: &str| matches.try_get_one::<String>(name).ok().flatten().cloned();
    Ok(Place {
        db: path("db"),
        registry: path("registry"),
        store: text("store"),
        view: text("view"),
        base: text("base"),
        user: user(matches)?,
        quota: quota(matches),
    })
}

/// Who asks, if somebody is named.
fn user(matches: &ArgMatches) -> Result<Option<User>, Failure> {
    let Some(given) = text(matches, "as") else { return Ok(None) };
    let wrong = || {
        Failure::Usage(format!("--as: '{given}' is not UID:GID, such as 1000:1000 or 1000:1000,27"))
    };
    let (uid, gids) = given.split_once(':').ok_or_else(wrong)?;
    let mut gids = gids.split(',').map(|gid| gid.parse::<u32>().map_err(|_| wrong()));
    let gid = gids.next().ok_or_else(wrong)??;
    let groups = gids.collect::<Result<Vec<u32>, Failure>>()?;
    Ok(Some(User { uid: uid.parse().map_err(|_| wrong())?, gid, groups }))
}

/// The permission bits of `--mode`.
fn mode(matches: &ArgMatches) -> Result<u32, Failure> {
    octal(text(matches, "mode").unwrap_or_default())
}

/// Permission bits in octal.
fn octal(given: &str) -> Result<u32, Failure> {
    match u32::from_str_radix(given, 8) {
        Ok(mode) if mode <= keyrack_deltafs::MODE_BITS => Ok(mode),
        _ => Err(Failure::Usage(format!("'{given}' is no mode; give octal digits, such as 755"))),
    }
}

fn number(matches: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    let Some(given) = text(matches, name) else { return Ok(None) };
    let wrong = |_| Failure::Usage(format!("--{name}: '{given}' is not a whole number"));
    given.parse().map(Some).map_err(wrong)
}

/// A number of bytes with K, M or G for powers of 1024.
fn bytes(matches: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    text(matches, name).map(|given| bytes_of(name, given)).transpose()
}

fn bytes_of(name: &str, given: &str) -> Result<u64, Failure> {
    let shift = match given.as_bytes().last() {
        Some(b'k' | b'K') => 10,
        Some(b'm' | b'M') => 20,
        Some(b'g' | b'G') => 30,
        _ => 0,
    };
    let digits = if shift > 0 { &given[..given.len() - 1] } else { given };
    digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift)).ok_or_else(|| {
        Failure::Usage(format!("--{name}: '{given}' is no number of bytes, such as 3901 or 64K"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes_of("size", "3901").unwrap(), 3901);
        assert_eq!(bytes_of("size", "64K").unwrap(), 65_536);
        assert!(bytes_of("size", "K").is_err());
        assert!(bytes_of("size", "99999999999G").is_err());
    }
}
