//! `keyrack import SOURCE --to DEST`.

use super::place::{Named, Place, with_access};
use super::shown::Shown;
use super::{begun, failure, number, option};
use crate::db::flag;
use clap::{ArgMatches, Command};
use keyrack_console::{DONE, Failure, NO, Outcome, say};
use keyrack_migrate::{Method, OnConflict, Options, Report, Source, Url, import};
use keyrack_vfs::RealFs;
use std::sync::atomic::AtomicBool;

const PROGRAM: &str = "keyrack import";

pub(crate) fn command() -> Command {
    let command = Command::new("import")
        .about("Take strings and hashes from a server, a snapshot, an append-only file, JSON lines")
        .long_about(
            "Take strings and hashes from redis://[USER:PASSWORD@]HOST:PORT[/DB] (Redis, Valkey, \
             with what changes meanwhile), memcached://HOST:PORT, an RDB file, an append-only \
             file or its directory, a file of commands, or lines of JSON. What cannot be moved is \
             named at the end.",
        );
    begun(command)
        .arg(
            option("to", "DEST", "A server (redis://, mixed://, memcached://), or a directory")
                .required(true),
        )
        .arg(option("to-password-file", "FILE", "The destination's password"))
        .arg(option(
            "on-conflict",
            "WHAT",
            "Of a key that the destination has: replace, keep or fail [default: replace]",
        ))
        .arg(option(
            "method",
            "METHOD",
            "How a server is read: replicate, scan, or auto, the first that it allows \
             [default: auto]",
        ))
        .arg(flag("no-changes", "Leave out what changes at the source meanwhile"))
        .arg(
            flag("follow", "Go on with changes until SIGINT or SIGTERM")
                .conflicts_with("no-changes"),
        )
        .arg(flag("json", "Print what was moved as an object of JSON"))
}

/// Moves, and says what was left out.
pub(crate) fn run(matches: &ArgMatches) -> u8 {
    moved(matches).unwrap_or_else(|failure| failure.explain(PROGRAM))
}

fn moved(matches: &ArgMatches) -> Outcome {
    let options = options(matches)?;
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let (source, options) = match Named::of(text("source"))? {
        Named::Path(path) => (Source::File(path), options),
        Named::Server(url) => {
            let db = options.db.or(url.db);
            let url = with_access(url, matches, "password-file")?;
            (Source::Server(url), Options { db, ..options })
        }
    };
    let stop = keyrack_console::flag()?;
    let to = match Named::of(text("to"))? {
        Named::Server(url) => Place::server(with_access(url, matches, "to-password-file")?),
        Named::Path(path) => Place::directory(&path, matches)?,
    };
    let report = shown(&source, &to.url, &options, &stop);
    // What was moved is kept, whatever happened later.
    let closed = to.close();
    let report = report?;
    closed?;
    tell(&report, matches.get_flag("json"))
}

fn shown(
    source: &Source,
    to: &Url,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Report, Failure> {
    let mut shown = Shown::new();
    let report = import(&RealFs, source, to, options, stop, &mut |progress, report| {
        shown.tell(progress, report);
    });
    shown.end();
    report.map_err(failure)
}

fn options(matches: &ArgMatches) -> Result<Options, Failure> {
    let chosen = |name: &str, names: &[&str]| {
        let text = matches.get_one::<String>(name).map_or(names[0], String::as_str);
        let index = names.iter().position(|known| *known == text);
        index.ok_or_else(|| Failure::Usage(keyrack_store::unknown(name, text, names)))
    };
    Ok(Options {
        on_conflict: [OnConflict::Replace, OnConflict::Keep, OnConflict::Fail]
            [chosen("on-conflict", &["replace", "keep", "fail"])?],
        db: number(matches, "db")?,
        method: [Method::Auto, Method::Replicate, Method::Scan]
            [chosen("method", &["auto", "replicate", "scan"])?],
        no_changes: matches.get_flag("no-changes"),
        follow: matches.get_flag("follow"),
    })
}

fn tell(report: &Report, as_json: bool) -> Outcome {
    if let Some(why) = &report.not_replicated {
        say!("{PROGRAM}: scanned, since the source does not replicate to us: {why}");
    }
    if let Some((file, at)) = &report.torn {
        say!("{PROGRAM}: {file} ends within a command at byte {at}; it was left out");
    }
    report.losses().iter().for_each(|line| say!("{PROGRAM}: {line}"));
    let Report { strings, hashes, fields, changes, expired, gone, .. } = report;
    let printed = if as_json {
        let object = serde_json::to_string(report);
        keyrack_console::print(&(object.expect("numbers and texts become JSON") + "\n"))
    } else {
        let kept = report.kept.count;
        keyrack_console::print(&format!(
            "{strings} strings, {hashes} hashes with {fields} fields, {changes} changes; \
             {expired} expired, {kept} kept, {gone} gone\n"
        ))
    };
    Ok(if printed == DONE && !report.is_complete() { NO } else { printed })
}
