//! The store that a command works on: one ordered set of keys, or several key spaces.
//!
//! | | all of it | one set of keys |
//! |---|---|---|
//! | plain store | `Store::Plain` | `Keys::Plain` |
//! | key spaces | `Store::Spaces` | `Keys::Space`, the one that `--space` names |

use crate::db::args::{check_store, explain, options, path};
use clap::{Arg, ArgMatches};
use keyrack_console::Failure;
use keyrack_flodb::{
    Comparator, Compression, Db, Error, FileSet, Iter, KeySpace, Metric, Options, SpaceIter, Spaces,
};
use keyrack_flodb::{Result as DbResult, WriteOptions};
use keyrack_store::{LogReplay, LogSource};
use keyrack_vfs::RealFs;
use std::path::Path;

/// What is written from the command line is on disk when the command ends.
const SYNCED: WriteOptions = WriteOptions { sync: true };

/// `--space`.
pub(super) fn space_arg(help: &'static str) -> Arg {
    Arg::new("space").long("space").value_name("NAME").allow_hyphen_values(true).help(help)
}

fn named_space(matches: &ArgMatches) -> Option<&str> {
    matches.get_one::<String>("space").map(String::as_str)
}

pub(crate) enum Store {
    Plain(Db),
    Spaces(Spaces),
}

/// A set of keys in one order.
pub(super) enum Keys {
    Plain(Db),
    Space(KeySpace),
}

/// A scan over such a set.
pub(super) enum Scan {
    Plain(Iter),
    Space(SpaceIter),
}

/// Opens the store in `DIR` as a program does that works with it.
pub(crate) fn open(matches: &ArgMatches) -> Result<Store, Failure> {
    open_by(
        matches,
        |dir, options| Db::open(dir, options),
        |dir, options| Spaces::open(dir, options, &[]),
    )
}

/// Opens a store that is restored, to apply batches of a log.
pub(crate) fn open_to_replay(dir: &Path) -> keyrack_store::Result<Box<dyn LogReplay>> {
    let options = options().with_stored(&RealFs, dir)?;
    match Spaces::are_in(&RealFs, dir)? {
        Some(true) => Ok(Box::new(Spaces::open(dir, options, &[])?)),
        Some(false) | None => Ok(Box::new(Db::open(dir, options)?)),
    }
}

/// Opens the store in `DIR` to be read: no file changes, and whoever writes to it goes on.
pub(super) fn open_to_read(matches: &ArgMatches) -> Result<Store, Failure> {
    open_by(
        matches,
        |dir, options| Db::open_read_only(dir, options),
        |dir, options| Spaces::open_read_only(dir, options, &[]),
    )
}

fn open_by(
    matches: &ArgMatches,
    plain: impl FnOnce(&Path, Options) -> DbResult<Db>,
    spaces: impl FnOnce(&Path, Options) -> DbResult<Spaces>,
) -> Result<Store, Failure> {
    let dir = path(matches, "dir");
    check_store(&RealFs, &dir)?;
    let explained = |error: Error| explain(&dir, error);
    let mut options = options().with_stored(&RealFs, &dir).map_err(explained)?;
    // Of the command that changes it.
    if let Ok(Some(list)) = matches.try_get_one::<String>("compression") {
        options.compression = Compression::parse_list(list).ok_or_else(|| {
            Failure::Usage(format!(
                "--compression: '{list}' is no list of none, snappy, lz4, zstd, zstd:LEVEL"
            ))
        })?;
    }
    if has_spaces(&dir)?.unwrap_or(false) {
        return spaces(&dir, options).map(Store::Spaces).map_err(explained);
    }
    plain(&dir, options).map(Store::Plain).map_err(explained)
}

/// Whether the store has key spaces; `None` if nothing that is left of it says so.
pub(super) fn has_spaces(dir: &Path) -> Result<Option<bool>, Failure> {
    Spaces::are_in(&RealFs, dir).map_err(|error| explain(dir, error))
}

/// What the files of the store are read with, by commands that do not open it.
pub(super) fn file_options(has_spaces: bool) -> Result<Options, Failure> {
    let comparator = if has_spaces { Spaces::comparator(&[])? } else { Comparator::Bytewise };
    Ok(Options { comparator, ..Options::default() })
}

impl Store {
    /// The keys that a command is about: those of the space that `--space` names.
    pub(super) fn keys(&self, matches: &ArgMatches) -> Result<Keys, Failure> {
        match (self, self.chosen(matches)?) {
            (Store::Plain(db), _) => Ok(Keys::Plain(db.clone())),
            (Store::Spaces(_), Some(space)) => Ok(Keys::Space(space)),
            (Store::Spaces(spaces), None) => Err(Failure::Usage(format!(
                "{}: it has key spaces; name one with --space ({})",
                spaces.dir().display(),
                names(spaces)
            ))),
        }
    }

    /// The space that `--space` names; `None` without that option.
    pub(super) fn chosen(&self, matches: &ArgMatches) -> Result<Option<KeySpace>, Failure> {
        match (self, named_space(matches)) {
            (_, None) => Ok(None),
            (Store::Plain(db), Some(_)) => Err(Failure::Usage(format!(
                "{}: it has no key spaces; leave out --space",
                db.dir().display()
            ))),
            (Store::Spaces(spaces), Some(name)) => match spaces.get(name) {
                Some(space) => Ok(Some(space)),
                None => Err(Failure::Usage(format!(
                    "{}: there is no key space '{name}' ({})",
                    spaces.dir().display(),
                    names(spaces)
                ))),
            },
        }
    }

    /// All spaces, by name; `None` in a plain store.
    pub(super) fn spaces(&self) -> Option<Vec<KeySpace>> {
        let Store::Spaces(spaces) = self else { return None };
        Some(spaces.list().iter().filter_map(|(name, _)| spaces.get(name)).collect())
    }

    pub(super) fn dir(&self) -> &Path {
        match self {
            Store::Plain(db) => db.dir(),
            Store::Spaces(spaces) => spaces.dir(),
        }
    }

    pub(super) fn property(&self, name: &str) -> Option<String> {
        match self {
            Store::Plain(db) => db.property(name),
            Store::Spaces(spaces) => spaces.property(name),
        }
    }

    pub(super) fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        match self {
            Store::Plain(db) => db.stats(visit),
            Store::Spaces(spaces) => spaces.stats(visit),
        }
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        match self {
            Store::Plain(db) => db.metrics(),
            Store::Spaces(spaces) => spaces.metrics(),
        }
    }

    pub(super) fn compact(&self) -> Result<(), Failure> {
        match self {
            Store::Plain(db) => db.compact_range(None, None)?,
            Store::Spaces(spaces) => spaces.compact()?,
        }
        Ok(())
    }

    /// Compacts, and writes all tables anew.
    pub(super) fn rewrite(&self) -> Result<(), Failure> {
        match self {
            Store::Plain(db) => db.rewrite()?,
            Store::Spaces(spaces) => spaces.rewrite()?,
        }
        Ok(())
    }

    pub(super) fn checkpoint(&self, target: &Path) -> Result<(), Failure> {
        match self {
            Store::Plain(db) => db.checkpoint(target)?,
            Store::Spaces(spaces) => spaces.checkpoint(target)?,
        }
        Ok(())
    }

    /// Its files, held for a copy.
    pub(crate) fn file_set(&self) -> Result<FileSet, Failure> {
        Ok(match self {
            Store::Plain(db) => db.file_set()?,
            Store::Spaces(spaces) => spaces.file_set()?,
        })
    }

    /// Its log, to be shipped.
    pub(crate) fn log_source(&self) -> &dyn LogSource {
        match self {
            Store::Plain(db) => db,
            Store::Spaces(spaces) => spaces,
        }
    }

    /// Marks the time in its log.
    pub(crate) fn mark_time(&self) -> keyrack_store::Result<()> {
        match self {
            Store::Plain(db) => db.mark_time()?,
            Store::Spaces(spaces) => spaces.mark_time()?,
        }
        Ok(())
    }

    pub(crate) fn close(self) -> Result<(), Failure> {
        match self {
            Store::Plain(db) => db.close()?,
            Store::Spaces(spaces) => spaces.close()?,
        }
        Ok(())
    }
}

fn names(spaces: &Spaces) -> String {
    let names: Vec<String> = spaces.list().into_iter().map(|(name, _)| name).collect();
    if names.is_empty() { "there are none".to_owned() } else { names.join(", ") }
}

impl Keys {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(match self {
            Keys::Plain(db) => db.get(key)?,
            Keys::Space(space) => space.get(key)?,
        })
    }

    /// Stores a value, synced.
    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        match self {
            Keys::Plain(db) => db.put_with(key, value, SYNCED)?,
            Keys::Space(space) => space.put_with(key, value, SYNCED)?,
        }
        Ok(())
    }

    /// Removes a key, synced.
    pub(super) fn delete(&self, key: &[u8]) -> Result<(), Failure> {
        match self {
            Keys::Plain(db) => db.delete_with(key, SYNCED)?,
            Keys::Space(space) => space.delete_with(key, SYNCED)?,
        }
        Ok(())
    }

    /// Compacts the keys from `low` to `high`, both included.
    pub(super) fn compact(&self, low: Option<&[u8]>, high: Option<&[u8]>) -> Result<(), Failure> {
        match self {
            Keys::Plain(db) => db.compact_range(low, high)?,
            Keys::Space(space) => space.compact_range(low, high)?,
        }
        Ok(())
    }

    pub(super) fn scan(&self) -> Result<Scan, Failure> {
        Ok(match self {
            Keys::Plain(db) => Scan::Plain(db.iter()?),
            Keys::Space(space) => Scan::Space(space.iter()?),
        })
    }
}

impl Scan {
    /// Goes to the first key that is not before `key`; without one, to the first of all.
    pub(super) fn start(&mut self, key: Option<&[u8]>) -> Result<(), Failure> {
        match (self, key) {
            (Scan::Plain(iter), Some(key)) => iter.seek(key)?,
            (Scan::Plain(iter), None) => iter.seek_first()?,
            (Scan::Space(iter), Some(key)) => iter.seek(key)?,
            (Scan::Space(iter), None) => iter.seek_first()?,
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<(), Failure> {
        match self {
            Scan::Plain(iter) => iter.next()?,
            Scan::Space(iter) => iter.next()?,
        }
        Ok(())
    }

    pub(super) fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Scan::Plain(iter) => iter.entry(),
            Scan::Space(iter) => iter.entry(),
        }
    }
}
