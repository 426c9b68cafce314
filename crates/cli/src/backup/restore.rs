//! `keyrack restore DEST DIR`.

use super::progress::Shown;
use super::{help, id, info_json, repository};
use crate::db::{flag, open_to_replay, path};
use clap::{Arg, ArgMatches, Command};
use keyrack_backup::{Moment, Repository};
use keyrack_console::{Failure, Outcome};
use keyrack_vfs::RealFs;
use serde_json::json;

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
        .arg(Arg::new("at").long("at").value_name("MOMENT").help(
            "A position or a time such as 2026-09-21T13:10:20Z, up to where the log was shipped; \
             with --id of the log of that backup",
        ))
        .arg(flag("json", "Print the result as JSON"))
        .arg(flag("verbose", "Say on standard error when a file is done"))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let moment = matches.get_one::<String>("at").map(|given| parse_moment(given)).transpose()?;
    let repository = repository(matches)?;
    if let Some(moment) = moment {
        return run_at(matches, &repository, moment);
    }
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

/// `--at`.
fn run_at(matches: &ArgMatches, repository: &Repository, moment: Moment) -> Outcome {
    let (id, dir) = (id(matches)?, path(matches, "dir"));
    let shown = Shown::new(matches);
    let place = (&RealFs as _, dir.as_path());
    let watch = |now| shown.tell(now);
    let restored = repository.restore_at(moment, id.as_ref(), place, &mut open_to_replay, watch);
    shown.end();
    let restored = restored?;
    let text = if matches.get_flag("json") {
        let mut value = info_json(&restored.info);
        value["restored_position"] = json!(restored.position);
        value["batches"] = json!(restored.batches);
        format!("{value:#}\n")
    } else {
        format!(
            "{}: the store of position {}, the backup {} and {} batches of the log\n",
            dir.display(),
            restored.position,
            restored.info.id,
            restored.batches
        )
    };
    Ok(keyrack_console::print(&text))
}

/// A position, or a time.
fn parse_moment(given: &str) -> Result<Moment, Failure> {
    if let Ok(position) = given.parse() {
        return Ok(Moment::Position(position));
    }
    match keyrack_calendar::unix_s(given) {
        Some(seconds) if seconds >= 0.0 => Ok(Moment::UnixMs((seconds * 1000.0).round() as u64)),
        _ => {
            let what = "is neither a position nor a time since 1970 such as 2026-09-21T13:10:20Z";
            Err(Failure::Usage(format!("--at: '{given}' {what}")))
        }
    }
}
