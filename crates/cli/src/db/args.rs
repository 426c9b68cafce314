//! Arguments that several commands have, and what is checked about a store before it is touched.

use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_console::{Failure, from_hex};
use keyrack_flodb::{Error, Options};
use keyrack_vfs::{FileKind, Fs, RealFs};
use std::path::{Path, PathBuf};

pub(crate) const STATUSES: &str = "\
Exit status: 0 done; 1 failed (the machine, a store in use, a key that is not there, an \
acknowledged write that is lost); 2 usage; 3 damage; 130 interrupted.";

pub(in crate::db) fn on_store(name: &'static str, about: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .after_help(STATUSES)
        .arg(Arg::new("dir").value_name("DIR").required(true).help("The directory of the store"))
}

pub(crate) fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

/// `--hex`, for keys and values that are not text.
pub(in crate::db) fn hex_flag() -> Arg {
    flag("hex", "Keys and values on the command line are hexadecimal")
}

/// `--from` and `--to`, both included.
pub(in crate::db) fn range_args() -> [Arg; 2] {
    let key = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("KEY").allow_hyphen_values(true).help(help)
    };
    [key("from", "The first key"), key("to", "The last key")]
}

/// The bounds that `--from` and `--to` give.
#[derive(Debug, Default)]
pub(in crate::db) struct Bounds {
    pub(in crate::db) from: Option<Vec<u8>>,
    pub(in crate::db) to: Option<Vec<u8>>,
}

impl Bounds {
    pub(in crate::db) fn of(matches: &ArgMatches) -> Result<Self, Failure> {
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
pub(in crate::db) fn bytes(matches: &ArgMatches, name: &str) -> Result<Option<Vec<u8>>, Failure> {
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

pub(crate) fn path(matches: &ArgMatches, name: &str) -> PathBuf {
    matches.get_one::<String>(name).map(PathBuf::from).unwrap_or_default()
}

/// An argument that is a whole number.
pub(in crate::db) fn number(matches: &ArgMatches, name: &str) -> Result<Option<u64>, Failure> {
    let Some(given) = matches.get_one::<String>(name) else { return Ok(None) };
    given.parse().map(Some).map_err(|_| {
        Failure::Usage(format!("{name}: '{given}' is not a whole number of at most 64 bits"))
    })
}

/// Refuses a directory that holds no store, before anything in it is touched.
pub(crate) fn check_store(fs: &dyn Fs, dir: &Path) -> Result<(), Failure> {
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
pub(in crate::db) fn options() -> Options {
    Options { create_if_missing: false, ..Options::default() }
}

/// The failure of an opening, with the way out.
pub(in crate::db) fn explain(dir: &Path, error: Error) -> Failure {
    match Failure::from(error) {
        Failure::Damaged(what) if is_leveldb(dir) => Failure::Usage(format!(
            "{what}; it may be a store of LevelDB: use keyrack db import-leveldb {} TARGET",
            dir.display()
        )),
        failure => failure,
    }
}

/// Whether files of LevelDB are there, and none of ours.
pub(in crate::db) fn is_leveldb(dir: &Path) -> bool {
    // A hint behind an error, which stands also where the directory cannot be listed.
    let names = RealFs.list(dir).unwrap_or_default();
    let ends =
        |suffix: &str| names.iter().any(|entry| entry.name.to_string_lossy().ends_with(suffix));
    (ends(".ldb") || ends(".sst") || ends(".log")) && !ends(".table")
}
