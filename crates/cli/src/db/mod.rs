//! `keyrack db`: looking into a store of the engine `flodb`, mending it, moving it, torturing it.
//!
//! ```text
//!   command line --> one file per subcommand --> keyrack_flodb, keyrack_leveldb
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

use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_console::{Failure, from_hex};
use keyrack_flodb::{Error, Options};
use keyrack_vfs::{FileKind, Fs, RealFs};
use std::path::{Path, PathBuf};

const STATUSES: &str = "\
Exit status: 0 done; 1 failed (the machine, a store in use, a key that is not there, an \
acknowledged write that is lost); 2 usage; 3 damage; 130 interrupted.";

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

/// A command on the store in `DIR`.
fn on_store(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .after_help(STATUSES)
        .arg(Arg::new("dir").value_name("DIR").required(true).help("The directory of the store"))
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// `--hex`, for keys and values that are not text.
fn hex_flag() -> Arg {
    flag("hex", "Keys and values on the command line are hexadecimal")
}

/// `--from` and `--to`, both included.
fn range_args() -> [Arg; 2] {
    let key = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("KEY").allow_hyphen_values(true).help(help)
    };
    [key("from", "The first key"), key("to", "The last key")]
}

/// The bounds that `--from` and `--to` give.
#[derive(Debug, Default)]
struct Bounds {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Bounds {
    fn of(matches: &ArgMatches) -> Result<Self, Failure> {
        let bounds = Bounds { from: bytes(matches, "from")?, to: bytes(matches, "to")? };
        if let (Some(from), Some(to)) = (&bounds.from, &bounds.to)
            && from > to
        {
            return Err(Failure::Usage("--from is behind --to".to_owned()));
        }
        Ok(bounds)
    }
}

/// The bytes of an argument: its text, or with `--hex` what the digits say.
fn bytes(matches: &ArgMatches, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    let Some(given) = matches.get_one::<String>(name) else { return Ok(None) };
    if !matches.get_flag("hex") {
        return Ok(Some(given.clone().into_bytes()));
    }
    match from_hex(given) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(Failure::Usage(format!(
            "'{given}' is not hexadecimal; give pairs of digits, or leave out --hex"
        ))),
    }
}

/// An argument that is a path.
fn path(matches: &ArgMatches, name: &str) -> PathBuf {
    matches.get_one::<String>(name).map(PathBuf::from).unwrap_or_default()
}

/// An argument that is a whole number.
fn number(matches: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    let Some(given) = matches.get_one::<String>(name) else { return Ok(None) };
    given.parse().map(Some).map_err(|_| {
        Failure::Usage(format!("{name}: '{given}' is not a whole number of at most 64 bits"))
    })
}

/// Refuses a directory that holds no store, before anything in it is touched.
fn check_store(fs: &dyn Fs, dir: &Path) -> Result<(), Failure> {
    let kind = match fs.metadata(dir) {
        Ok(found) => found.kind,
        Err(error) if error.is_not_found() => {
            return Err(Failure::Usage(format!("{}: there is no such directory", dir.display())));
        }
        Err(error) => return Err(error.into()),
    };
    if kind != FileKind::Dir {
        return Err(Failure::Usage(format!("{}: not a directory", dir.display())));
    }
    if fs.exists(&dir.join("CURRENT"))? {
        return Ok(());
    }
    Err(Failure::Usage(format!("{}: there is no store in it", dir.display())))
}

/// What a store is opened with, to be worked on as it is.
fn options() -> Options {
    Options { create_if_missing: false, ..Options::default() }
}

/// The failure of an opening, with the way out.
fn explain(dir: &Path, error: Error) -> Failure {
    match Failure::from(error) {
        Failure::Damaged(what) if is_leveldb(dir) => Failure::Usage(format!(
            "{what}; it may be a store of LevelDB: use keyrack db import-leveldb {} TARGET",
            dir.display()
        )),
        failure => failure,
    }
}

/// Whether files of LevelDB are there, and none of ours.
fn is_leveldb(dir: &Path) -> bool {
    // A hint behind an error, which stands also where the directory cannot be listed.
    let names = RealFs.list(dir).unwrap_or_default();
    let ends =
        |suffix: &str| names.iter().any(|entry| entry.name.to_string_lossy().ends_with(suffix));
    (ends(".ldb") || ends(".sst") || ends(".log")) && !ends(".table")
}
