//! `keyrack fs ls`, `stat`, `du`, `tree`, `get`.

use super::{flag, number, option, os, path_arg, path_bytes, paths_of, place, reading};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::Outcome;
use keyrack_fs_tools::Place;
use keyrack_fs_tools::query::{self, Listing};
use std::ffi::OsString;

fn some_paths() -> Arg {
    let help = "Paths, from / [default: /]";
    let parser = value_parser!(OsString);
    Arg::new("path").value_name("PATH").action(ArgAction::Append).value_parser(parser).help(help)
}

pub(super) fn commands() -> Vec<Command> {
    vec![
        reading("ls", "List directories")
            .arg(flag("long", "Mode, names, owner, group, bytes and time of each").short('l'))
            .arg(flag("directory", "Directories themselves, not what is in them").short('d'))
            .arg(flag("inode", "The number of each").short('i'))
            .arg(flag("json", "An object a line"))
            .arg(some_paths()),
        reading("stat", "Print all that is known about paths")
            .arg(flag("json", "An object a line"))
            .arg(flag("dereference", "What a link leads to, not the link").short('L'))
            .arg(some_paths()),
        reading("du", "Add up bytes and entries of directories")
            .arg(flag("summarize", "Only what was named").short('s'))
            .arg(some_paths()),
        reading("tree", "Draw the tree").arg(option("depth", "N", "How deep")).arg(some_paths()),
        reading("get", "Read a file").arg(path_arg("path", "Which")).arg(
            Arg::new("file")
                .value_name("FILE")
                .value_parser(value_parser!(OsString))
                .help("A local file to write to [default: standard output]"),
        ),
    ]
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Option<Outcome> {
    let run: fn(&ArgMatches, &Place) -> Outcome = match name {
        "ls" => ls,
        "stat" => stat,
        "du" => {
            |matches, place| query::du(place, &paths_of(matches), matches.get_flag("summarize"))
        }
        "tree" => |matches, place| {
            query::tree(place, &paths_of(matches), number(matches, "depth")?.unwrap_or(u64::MAX))
        },
        "get" => |matches, place| {
            query::get(place, path_bytes(matches, "path").unwrap_or_default(), os(matches, "file"))
        },
        _ => return None,
    };
    Some(place(matches).and_then(|place| run(matches, &place)))
}

fn ls(matches: &ArgMatches, place: &Place) -> Outcome {
    let listing = Listing {
        long: matches.get_flag("long"),
        inode: matches.get_flag("inode"),
        json: matches.get_flag("json"),
        itself: matches.get_flag("directory"),
    };
    query::ls(place, &paths_of(matches), listing)
}

fn stat(matches: &ArgMatches, place: &Place) -> Outcome {
    let (json, follow) = (matches.get_flag("json"), matches.get_flag("dereference"));
    query::stat(place, &paths_of(matches), json, follow)
}
