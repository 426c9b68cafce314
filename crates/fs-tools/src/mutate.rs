//! `keyrack fs mkdir`, `create`, `rm`, `rmdir`, `mv`, `ln`, `chmod`, `chown`, `put`.
//!
//! Each command opens the log, does its part, and ends when that is on disk. What several paths are
//! named for is done for all of them, also behind one that fails.

use super::archive::Stream;
use super::{
    beginning, finish, flag, for_each, mode, on_log, open, option, os, path_arg, path_bytes, paths,
    paths_of, text, user,
};
use clap::{Arg, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::{Caller, Error, IfExists, IfTaken, Kind, SetAttributes, SetTime};
use keyrack_vfs::{Fs, OpenOptions, RealFs};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

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
            .args(super::quota::args())
            .arg(paths()),
        beginning("ln", "Make a symbolic link")
            .arg(flag("symbolic", "Needed: there are no other links").short('s'))
            .arg(path_arg("target", "What it leads to").value_name("TARGET"))
            .arg(path_arg("path", "The link")),
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
    let run: fn(&ArgMatches) -> Outcome = match name {
        "mkdir" => mkdir,
        "create" => create,
        "rm" => rm,
        "rmdir" => rmdir,
        "mv" => mv,
        "ln" => ln,
        "chmod" => chmod,
        "chown" => chown,
        "put" => put,
        _ => return None,
    };
    Some(run(matches))
}

/// Opens the log, does `body` for each path, and closes it.
fn on_paths(
    name: &str,
    matches: &ArgMatches,
    may_begin: bool,
    body: impl Fn(Caller<'_>, &[u8]) -> Result<(), Failure>,
) -> Outcome {
    let user = user(matches)?;
    let space = open(matches, may_begin)?;
    let status = for_each(name, paths_of(matches, "path"), |path| body(space.by(&user), path))?;
    finish(space)?;
    Ok(status)
}

fn mkdir(matches: &ArgMatches) -> Outcome {
    let bits = mode(text(matches, "mode").unwrap_or("755"))?;
    let with_parents = matches.get_flag("parents");
    on_paths("mkdir", matches, true, |fs, path| {
        if with_parents {
            return make_all(fs, path, bits);
        }
        fs.mkdir(path, bits)?;
        Ok(())
    })
}

/// Makes a directory and its missing parents.
pub(super) fn make_all(fs: Caller<'_>, path: &[u8], bits: u32) -> Result<(), Failure> {
    let ends = path.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0);
    let ends: Vec<usize> = ends.map(|(at, _)| at).chain([path.len()]).collect();
    for end in ends {
        if path[..end].iter().all(|byte| *byte == b'/') {
            continue;
        }
        match fs.mkdir(&path[..end], bits) {
            Ok(_) => {}
            // Whether it is a directory the next step says, and at the end this.
            Err(Error::Exists(_)) if end < path.len() => {}
            Err(Error::Exists(_)) => drop(fs.dir(path)?),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn create(matches: &ArgMatches) -> Outcome {
    let bits = mode(text(matches, "mode").unwrap_or("644"))?;
    let size = super::find::bytes(matches, "size")?;
    let exclusive = matches.get_flag("exclusive");
    on_paths("create", matches, true, |fs, path| {
        let if_exists = if exclusive { IfExists::Fail } else { IfExists::Open };
        let made = fs.create(path, bits, if_exists)?;
        let mtime = (!made.is_new).then_some(SetTime::Now);
        if size.is_some() || mtime.is_some() {
            fs.set_attributes(path, &SetAttributes { size, mtime, ..SetAttributes::default() })?;
        }
        Ok(())
    })
}

fn rm(matches: &ArgMatches) -> Outcome {
    let (recursive, force) = (matches.get_flag("recursive"), matches.get_flag("force"));
    on_paths("rm", matches, false, |fs, path| {
        let removed = match recursive {
            false => fs.unlink(path),
            true => fs.remove_tree(path).map(|_| ()),
        };
        match removed {
            Err(Error::NotFound(_)) if force => Ok(()),
            Err(Error::IsDir(_)) if !recursive => Err(Failure::Failed(format!(
                "{}: it is a directory; use rmdir, or rm -r",
                super::shown(path)
            ))),
            removed => Ok(removed?),
        }
    })
}

fn rmdir(matches: &ArgMatches) -> Outcome {
    on_paths("rmdir", matches, false, |fs, path| Ok(fs.rmdir(path)?))
}

fn mv(matches: &ArgMatches) -> Outcome {
    let named = paths_of(matches, "path");
    let (Some((to, from)), true) = (named.split_last(), named.len() > 1) else {
        return Err(Failure::Usage("mv needs two paths: what, and where to".to_owned()));
    };
    let if_taken = if matches.get_flag("no-clobber") { IfTaken::Fail } else { IfTaken::Replace };
    let user = user(matches)?;
    let space = open(matches, false)?;
    let fs = space.by(&user);
    let into = match fs.stat(to) {
        Ok(stat) => stat.kind == Kind::Dir,
        Err(Error::NotFound(_)) => false,
        Err(error) => return Err(error.into()),
    };
    if from.len() > 1 && !into {
        return Err(Failure::Usage(format!(
            "{}: several paths need a directory to move into",
            super::shown(to)
        )));
    }
    let status = for_each("mv", from.iter().copied(), |from| {
        let name = trimmed(from).rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let to = if into { [trimmed(to), b"/", name].concat() } else { to.to_vec() };
        Ok(fs.rename(from, &to, if_taken)?)
    })?;
    finish(space)?;
    Ok(status)
}

fn ln(matches: &ArgMatches) -> Outcome {
    if !matches.get_flag("symbolic") {
        return Err(Failure::Usage("there are symbolic links only: use ln -s".to_owned()));
    }
    let user = user(matches)?;
    let space = open(matches, true)?;
    let target = path_bytes(matches, "target").unwrap_or_default();
    space.by(&user).symlink(target, path_bytes(matches, "path").unwrap_or_default())?;
    finish(space)?;
    Ok(keyrack_console::DONE)
}

/// Changes what a path names, and with `recursive` all that is below it, links left out.
fn set(fs: Caller<'_>, path: &[u8], set: &SetAttributes, recursive: bool) -> Result<(), Failure> {
    if !recursive {
        fs.set_attributes(path, set)?;
        return Ok(());
    }
    // Gathered first: without rights on the way the walk would not come through.
    let mut found = Vec::new();
    for walked in fs.walk(path)? {
        let walked = walked.map_err(|(_, error)| error)?;
        if walked.stat.kind != Kind::Symlink {
            found.push(walked.path);
        }
    }
    for path in found.iter().rev() {
        fs.set_attributes(path, set)?;
    }
    Ok(())
}

fn chmod(matches: &ArgMatches) -> Outcome {
    let bits = mode(text(matches, "mode").unwrap_or_default())?;
    let change = SetAttributes { mode: Some(bits), ..SetAttributes::default() };
    let recursive = matches.get_flag("recursive");
    on_paths("chmod", matches, false, |fs, path| set(fs, path, &change, recursive))
}

fn chown(matches: &ArgMatches) -> Outcome {
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
    on_paths("chown", matches, false, |fs, path| set(fs, path, &change, recursive))
}

fn put(matches: &ArgMatches) -> Outcome {
    let bits = mode(text(matches, "mode").unwrap_or("644"))?;
    let mut source = read_local(os(matches, "file").unwrap_or_default())?;
    let user = user(matches)?;
    let space = open(matches, true)?;
    let fs = space.by(&user);
    fs.put_from(path_bytes(matches, "path").unwrap_or_default(), bits, &mut *source)?;
    finish(space)?;
    Ok(keyrack_console::DONE)
}

/// A path without the slashes at its end.
pub(super) fn trimmed(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// A local file, or standard input.
pub(super) fn read_local(name: &OsStr) -> Result<Box<dyn Read>, Failure> {
    Ok(match name == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => {
            let file = RealFs.open(Path::new(name), &OpenOptions::new().read(true))?;
            Box::new(Stream::new(file))
        }
    })
}
