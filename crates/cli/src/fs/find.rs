//! `keyrack fs find`.

use super::{
    bytes_of, flag, local, number, octal, option, path_bytes, paths_of, place, reading, text,
};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::Kind;
use keyrack_fs_tools::find::{self, Conditions, Form, Size};
use std::ffi::OsString;

pub(super) fn command() -> Command {
    reading("find", "Find entries; all conditions must hold")
        .arg(local("name", "GLOB", "The name fits: * is any text, ? one byte, [a-z] one of"))
        .arg(option("type", "f|d|l", "What it is"))
        .arg(
            option("size", "[+-]BYTES", "Exactly, more (+) or fewer (-) bytes; K, M, G")
                .allow_hyphen_values(true),
        )
        .arg(local("newer", "PATH", "Changed after this entry of the name space"))
        .arg(option("newer-ns", "NS", "Changed after this time, nanoseconds since 1970"))
        .arg(option("user", "UID", "Its owner"))
        .arg(option("group", "GID", "Its group"))
        .arg(option("mode", "MODE", "Its permissions, in octal"))
        .arg(flag("empty", "A file of no bytes, a directory without entries"))
        .arg(option("min-depth", "N", "Not less deep"))
        .arg(option("max-depth", "N", "Not deeper"))
        .arg(flag("count", "Print only how many there are"))
        .arg(flag("json", "An object a line, with all facts"))
        .arg(flag("print0", "A NUL byte behind each path, which is given as it is").short('0'))
        .arg(
            Arg::new("path")
                .value_name("PATH")
                .action(ArgAction::Append)
                .value_parser(value_parser!(OsString))
                .help("Where to begin [default: /]"),
        )
}

fn conditions(matches: &ArgMatches) -> Result<Conditions, Failure> {
    let kind = match text(matches, "type") {
        None => None,
        Some("f") => Some(Kind::File),
        Some("d") => Some(Kind::Dir),
        Some("l") => Some(Kind::Symlink),
        Some(other) => {
            return Err(Failure::Usage(format!(
                "--type: '{other}' is none of f (file), d (directory), l (link)"
            )));
        }
    };
    let size = match text(matches, "size") {
        None => None,
        Some(given) => Some(match given.split_at_checked(1) {
            Some(("+", rest)) => Size::Above(bytes_of("size", rest)?),
            Some(("-", rest)) => Size::Below(bytes_of("size", rest)?),
            _ => Size::Is(bytes_of("size", given)?),
        }),
    };
    Ok(Conditions {
        name: path_bytes(matches, "name").map(<[u8]>::to_vec),
        kind,
        size,
        newer_ns: number(matches, "newer-ns")?,
        newer: path_bytes(matches, "newer").map(<[u8]>::to_vec),
        user: number(matches, "user")?,
        group: number(matches, "group")?,
        mode: text(matches, "mode").map(octal).transpose()?,
        empty: matches.get_flag("empty"),
        depth_min: number(matches, "min-depth")?.unwrap_or(0),
        depth_max: number(matches, "max-depth")?,
    })
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let conditions = conditions(matches)?;
    let flag = |name: &str| matches.get_flag(name);
    let form = match (flag("count"), flag("json"), flag("print0")) {
        (true, ..) => Form::Count,
        (_, true, _) => Form::Json,
        (.., true) => Form::Nul,
        _ => Form::Lines,
    };
    find::find(&place(matches)?, &paths_of(matches), &conditions, form)
}
