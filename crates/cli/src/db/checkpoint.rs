//! `keyrack db checkpoint`: a copy of a store that shares its tables.

use super::store::open;
use crate::db::args::{on_store, path};
use clap::{Arg, ArgMatches, Command};
use keyrack_console::{Failure, Outcome};
use keyrack_vfs::{Fs, RealFs};

pub(super) fn command() -> Command {
    let target = Arg::new("target").value_name("TARGET").required(true);
    on_store("checkpoint", "Copy the store; the copy shares its tables by links where it can")
        .arg(target.help("The directory to be made"))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let target = path(matches, "target");
    // Said before the store is opened, which may change it.
    if RealFs.exists(&target)? {
        let target = target.display();
        return Err(Failure::Usage(format!("{target}: it is there; choose a name that is not")));
    }
    let store = open(matches)?;
    store.checkpoint(&target)?;
    store.close()?;
    Ok(keyrack_console::DONE)
}
