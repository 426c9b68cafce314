//! `keyrack restore DEST DIR`.

use super::progress::Shown;
use super::{help, id, info_json, repository};
use crate::db::{flag, path};
use clap::{Arg, ArgMatches, Command};
use keyrack_console::Outcome;
use keyrack_vfs::RealFs;

/// The subcommand.
pub(crate) fn restore_command() -> Command {
    Command::new("restore")
        .about("Make a store of a backup")
        .after_help(help())
        .arg(
            Arg::new("dest")
                .value_name("DEST")
                .required(true)
                .help("Where the backups are: a directory, or s3://BUCKET/PREFIX"),
        )
        .arg(
            Arg::new("dir")
                .value_name("DIR")
                .required(true)
                .help("The directory of the store; new or empty"),
        )
        .arg(Arg::new("id").long("id").value_name("ID").help("Which backup; the newest if missing"))
        .arg(flag("json", "Print the result as JSON"))
        .arg(flag("verbose", "Say on standard error when a file is done"))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let repository = repository(matches)?;
    let id = match id(matches)? {
        Some(id) => id,
        None => repository.newest()?,
    };
    let dir = path(matches, "dir");
    let shown = Shown::new(matches);
    let info = repository.restore(&id, &RealFs, &dir, |now| shown.tell(now));
    shown.end();
    let info = info?;
    let text = if matches.get_flag("json") {
        format!("{:#}\n", info_json(&info))
    } else {
        let (dir, files, bytes) = (dir.display(), info.files, info.bytes);
        format!("{dir}: the store of {id}, {files} files in {bytes} bytes\n")
    };
    Ok(keyrack_console::print(&text))
}
