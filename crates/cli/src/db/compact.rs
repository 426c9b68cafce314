//! `keyrack db compact`: merges tables down, and so frees what was removed or replaced.

use super::store::{open, space_arg};
use crate::db::args::{Bounds, flag, hex_flag, on_store, range_args};
use clap::{Arg, ArgMatches, Command};
use keyrack_console::Outcome;
use keyrack_vfs::{Fs, RealFs};

pub(super) fn command() -> Command {
    on_store("compact", "Merge the tables, and free what was removed or replaced")
        .args(range_args())
        .arg(space_arg("Only this key space; a store has all of them compacted without it"))
        .arg(hex_flag())
        .arg(
            Arg::new("compression")
                .long("compression")
                .value_name("LIST")
                .conflicts_with_all(["from", "to", "space"])
                .help(
                    "Write all tables anew with this: none, snappy, lz4, zstd or zstd:LEVEL, for \
                     level 0, the next, .. (what the store keeps)",
                ),
        )
        .arg(flag("times", "Print what was read and written into each level, and the seconds"))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let bounds = Bounds::of(matches)?;
    let store = open(matches)?;
    let (from, to) = (bounds.from.as_deref(), bounds.to.as_deref());
    let is_all = from.is_none() && to.is_none() && store.chosen(matches)?.is_none();
    let keys = if is_all { None } else { Some(store.keys(matches)?) };
    let dir = store.dir().to_owned();
    let before = RealFs.size_recursive(&dir)?;
    match keys {
        Some(keys) => keys.compact(from, to)?,
        None if matches.contains_id("compression") => store.rewrite()?,
        None => store.compact()?,
    }
    let times = store.property("leveldb.stats").filter(|_| matches.get_flag("times"));
    store.close()?;
    let after = RealFs.size_recursive(&dir)?;
    let times = times.unwrap_or_default();
    Ok(keyrack_console::print(&format!("{times}{before} bytes before, {after} bytes after\n")))
}
