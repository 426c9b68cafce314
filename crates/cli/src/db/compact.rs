//! `keyrack db compact`: merges tables down, and so frees what was removed or replaced.

use super::{Bounds, Outcome, hex_flag, on_store, open, range_args};
use clap::{ArgMatches, Command};
use keyrack_vfs::{Fs, RealFs};

pub(super) fn command() -> Command {
    on_store("compact", "Merge the tables, and free what was removed or replaced")
        .args(range_args())
        .arg(hex_flag())
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let bounds = Bounds::of(matches)?;
    let db = open(matches)?;
    let dir = db.dir().to_owned();
    let before = RealFs.size_recursive(&dir)?;
    db.compact_range(bounds.from.as_deref(), bounds.to.as_deref())?;
    db.close()?;
    let after = RealFs.size_recursive(&dir)?;
    Ok(crate::print(&format!("{before} bytes before, {after} bytes after\n")))
}
