//! `keyrack db destroy`: removes a store, and nothing else that lies in its directory.

use crate::db::args::{check_store, flag, on_store, path};
use clap::{ArgMatches, Command};
use keyrack_console::{Failure, Outcome, say};
use keyrack_flodb::Db;
use keyrack_vfs::{Fs, RealFs};

pub(super) fn command() -> Command {
    on_store("destroy", "Remove the store, and its directory unless something else is in it")
        .arg(flag("yes", "Really"))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let dir = path(matches, "dir");
    check_store(&RealFs, &dir)?;
    if !matches.get_flag("yes") {
        let dir = dir.display();
        return Err(Failure::Usage(format!("{dir}: all of it would be removed; add --yes")));
    }
    Db::destroy(&RealFs, &dir)?;
    if RealFs.exists(&dir)? {
        say!("{}: kept, for what else is in it", dir.display());
    }
    Ok(keyrack_console::DONE)
}
