//! `keyrack fs mkdir`, `create`, `rm`, `rmdir`, `mv`, `ln`, `chmod`, `chown`, `put`.

use super::{
    beginning, bytes, flag, mode, on_log, option, os, path_arg, path_bytes, paths, paths_of, place,
    text,
};
use clap::{Arg, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::{IfTaken, SetAttributes};
use keyrack_fs_tools::Place;
use keyrack_fs_tools::mutate::{self, Create};
use std::ffi::OsString;

pub(super) fn commands() -> Vec<Command> {
    let mode = |default: &'static str| option("mode", "MODE", "Permissions").default_value(default);
    vec![
        beginning("mkdir", "Make directories")
            .arg(flag("parents", "Make missing parents; one that is there is fine").short('p'))
            .arg(mode("755"))
            .arg(paths()),
        beginning("create", "Make empty files; of one that is there, set the time")
            .arg(flag("exclusive", "Fail where something is there"))
            .arg(option("size", "BYTES", "A size to note, for bytes that are elsewhere"))
            .arg(mode("644"))
            .arg(paths()),
        on_log("rm", "Remove files and links")
            .arg(flag("recursive", "Remove directories with all that is in them").short('r'))
            .arg(flag("force", "What is not there is fine").short('f'))
            .arg(paths()),
        on_log("rmdir", "Remove empty directories").arg(paths()),
        on_log("mv", "Move: the last path is the new name, or a directory to move into")
            .arg(flag("no-clobber", "Fail where something is there").short('n'))
            .args(super::quota_args())
            .arg(paths()),
        beginning("ln", "Give a file another name, or make a symbolic link")
            .arg(flag("symbolic", "Make a symbolic link").short('s'))
            .arg(path_arg("target", "The file, or what the link leads to").value_name("TARGET"))
            .arg(path_arg("path", "The new name, or the link")),
        on_log("chmod", "Set permissions")
            .arg(Arg::new("mode").value_name("MODE").required(true).help("Octal, such as 644"))
            .arg(flag("recursive", "And of all that is below").short('R'))
            .arg(paths()),
        on_log("chown", "Set owner and group")
            .arg(
                Arg::new("owner")
                    .value_name("UID[:GID]")
                    .required(true)
                    .help("Numbers; one of them may be missing, as in :100"),
            )
            .arg(flag("recursive", "And of all that is below").short('R'))
            .arg(paths()),
        beginning("put", "Write a local file into the name space")
            .arg(mode("644"))
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .value_parser(value_parser!(OsString))
                    .help("The local file; - is standard input"),
            )
            .arg(path_arg("path", "Where to")),
    ]
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Option<Outcome> {
    let run: fn(&ArgMatches, &Place) -> Outcome = match name {
        "mkdir" => mkdir,
        "create" => create,
        "rm" => rm,
        "rmdir" => |matches, place| mutate::rmdir(place, &paths_of(matches)),
        "mv" => mv,
        "ln" => ln,
        "chmod" => chmod,
        "chown" => chown,
        "put" => put,
        _ => return None,
    };
    Some(place(matches).and_then(|place| run(matches, &place)))
}

fn mkdir(matches: &ArgMatches, place: &Place) -> Outcome {
    mutate::mkdir(place, &paths_of(matches), mode(matches)?, matches.get_flag("parents"))
}

fn create(matches: &ArgMatches, place: &Place) -> Outcome {
    let (mode, size) = (mode(matches)?, bytes(matches, "size")?);
    let how = Create { mode, size, exclusive: matches.get_flag("exclusive") };
    mutate::create(place, &paths_of(matches), &how)
}

fn rm(matches: &ArgMatches, place: &Place) -> Outcome {
    let (recursive, force) = (matches.get_flag("recursive"), matches.get_flag("force"));
    mutate::rm(place, &paths_of(matches), recursive, force)
}

fn mv(matches: &ArgMatches, place: &Place) -> Outcome {
    let if_taken = if matches.get_flag("no-clobber") { IfTaken::Fail } else { IfTaken::Replace };
    mutate::mv(place, &paths_of(matches), if_taken)
}

fn ln(matches: &ArgMatches, place: &Place) -> Outcome {
    let target = path_bytes(matches, "target").unwrap_or_default();
    let path = path_bytes(matches, "path").unwrap_or_default();
    if matches.get_flag("symbolic") {
        mutate::symlink(place, target, path)
    } else {
        mutate::link(place, target, path)
    }
}

fn chmod(matches: &ArgMatches, place: &Place) -> Outcome {
    let change = SetAttributes { mode: Some(mode(matches)?), ..SetAttributes::default() };
    let recursive = matches.get_flag("recursive");
    mutate::set_attributes("chmod", place, &paths_of(matches), &change, recursive)
}

fn chown(matches: &ArgMatches, place: &Place) -> Outcome {
    let given = text(matches, "owner").unwrap_or_default();
    let (uid, gid) = given.split_once(':').unwrap_or((given, ""));
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text.parse::<u32>().map(Some).map_err(|_| {
            Failure::Usage(format!("'{given}' is not UID[:GID] in numbers, such as 1000:100"))
        }),
    };
    let change = SetAttributes { uid: number(uid)?, gid: number(gid)?, ..SetAttributes::default() };
    if change == SetAttributes::default() {
        return Err(Failure::Usage("chown needs a user, a group, or both".to_owned()));
    }
    let recursive = matches.get_flag("recursive");
    mutate::set_attributes("chown", place, &paths_of(matches), &change, recursive)
}

fn put(matches: &ArgMatches, place: &Place) -> Outcome {
    let file = os(matches, "file").unwrap_or_default();
    mutate::put(place, file, path_bytes(matches, "path").unwrap_or_default(), mode(matches)?)
}
