//! `keyrack fs mount`.

use super::{beginning, flag, option, place};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome};
use keyrack_fs_tools::mount::mount;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) fn command() -> Command {
    beginning("mount", "Mount the log, or a view, until it is unmounted or a signal comes")
        .arg(option("view", "NAME[@VERSION],..", "Publications to mount instead, read-only"))
        .arg(flag("read-only", "Mount the log as it is, beside whoever writes it"))
        .arg(flag("allow-other", "Let all users in; otherwise only who mounts it"))
        .arg(
            Arg::new("path")
                .value_name("[DIR] MOUNTPOINT")
                .action(ArgAction::Append)
                .num_args(1..=2)
                .value_parser(value_parser!(OsString))
                .required(true)
                .help("The log, unless --db or --view is given; an empty directory"),
        )
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let mut given = matches.get_many::<OsString>("path").into_iter().flatten().map(PathBuf::from);
    let mut place = place(matches)?;
    let is_named = place.db.is_some() || place.view.is_some();
    let wrong = |what: &str| Err(Failure::Usage(what.to_owned()));
    let at = match (given.next(), given.next(), is_named) {
        (Some(at), None, true) => at,
        (Some(dir), Some(at), false) => {
            place.db = Some(dir);
            at
        }
        (.., true) => return wrong("give only the mount point beside --db or --view"),
        (.., false) => {
            return wrong(
                "give the directory of the log and the mount point, or --view and the mount point",
            );
        }
    };
    mount(&place, &at, matches.get_flag("read-only"), matches.get_flag("allow-other"))
}
