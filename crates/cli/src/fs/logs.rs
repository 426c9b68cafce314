//! `keyrack fs log`, `views`, `publish`, `diff`, `gc`, `fsck`.

use super::{flag, number, on_log, option, place, reading, text, words};
use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_console::Outcome;
use keyrack_deltafs::GcOptions;
use keyrack_fs_tools::{Place, logs};
use std::time::Duration;

pub(super) fn commands() -> Vec<Command> {
    let given =
        |help| Arg::new("word").value_name("NAME[@VERSION]").action(ArgAction::Append).help(help);
    let saved = Arg::new("view").value_name("VIEW").required(true).help("The name of the list");
    let views = on_log("views", "List publications and views, and make views")
        .subcommand_negates_reqs(true)
        .arg(flag("json", "An object a line"))
        .subcommand(
            on_log("save", "Give a list of publications a name")
                .arg(saved)
                .arg(given("Publications, the highest first").required(true)),
        )
        .subcommand(
            on_log("conflicts", "Say where publications hide something of one another")
                .arg(given("Publications, the highest first").required(true)),
        );
    vec![
        reading("log", "Print what the log says, a path a line")
            .arg(flag("head", "Print only what it is and what it was begun on")),
        views,
        on_log("publish", "Publish the log under a name")
            .arg(Arg::new("name").value_name("NAME").required(true).help("The name"))
            .arg(option("version", "N", "Only as this version [default: the next]")),
        on_log("diff", "Print what differs between two views; . is the log")
            .arg(Arg::new("old").value_name("OLD").required(true).help("NAME[@VERSION],.. or ."))
            .arg(Arg::new("new").value_name("NEW").required(true).help("NAME[@VERSION],.. or .")),
        on_log("gc", "Remove publications and copies that nobody needs")
            .arg(option("keep", "N", "Versions of each name that stay [default: all]"))
            .arg(
                option("older-than", "HOURS", "How old a copy must be that no publication names")
                    .default_value("24"),
            )
            .arg(flag("dry-run", "Only say what would go")),
        reading("fsck", "Check a log or a view, and with --deep every file")
            .arg(flag("deep", "Read every block and large file, and hold publications to digests")),
    ]
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Option<Outcome> {
    let run: fn(&ArgMatches, &Place) -> Outcome = match name {
        "log" => |matches, place| logs::log(place, matches.get_flag("head")),
        "views" => return Some(views(matches)),
        "publish" => publish,
        "diff" => diff,
        "gc" => gc,
        "fsck" => |matches, place| logs::fsck(place, matches.get_flag("deep")),
        _ => return None,
    };
    Some(place(matches).and_then(|place| run(matches, &place)))
}

fn views(matches: &ArgMatches) -> Outcome {
    let Some((name, inner)) = matches.subcommand() else {
        return logs::list_views(&place(matches)?, matches.get_flag("json"));
    };
    // The options of a command of a command may stand in either place.
    let is_given = |name: &&str| inner.value_source(name).is_some();
    let place =
        place(if ["store", "registry", "db"].iter().any(is_given) { inner } else { matches })?;
    let words = words(inner, "word");
    match name {
        "save" => logs::save_view(&place, text(inner, "view").unwrap_or_default(), &words),
        _ => logs::conflicts(&place, &words),
    }
}

fn publish(matches: &ArgMatches, place: &Place) -> Outcome {
    let name = text(matches, "name").unwrap_or_default();
    logs::publish(place, name, number(matches, "version")?)
}

fn diff(matches: &ArgMatches, place: &Place) -> Outcome {
    let side = |name: &str| text(matches, name).unwrap_or_default();
    logs::diff(place, side("old"), side("new"))
}

fn gc(matches: &ArgMatches, place: &Place) -> Outcome {
    let hours = number(matches, "older-than")?.unwrap_or(24);
    let keep = number(matches, "keep")?;
    logs::gc(
        place,
        &GcOptions {
            keep_versions: keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX)),
            older_than: Duration::from_secs(hours.saturating_mul(3600)),
            dry_run: matches.get_flag("dry-run"),
        },
    )
}
