//! Changing a name space: directories, files, links, rights, owners.
//!
//! Each tool opens the log, does its part, and ends when that is on disk. A tool that gets several
//! paths goes on after one that fails.

use crate::Place;
use crate::local::read_local;
use crate::paths::{for_each, last_name, shown, trimmed};
use crate::place::finish;
use keyrack_console::{DONE, Failure, Outcome};
use keyrack_deltafs::{Caller, Error, IfExists, IfTaken, Kind, Namespace, SetAttributes, SetTime};
use std::ffi::OsStr;

/// How `create` makes files.
#[derive(Clone, Copy, Debug)]
pub struct Create {
    /// Permission bits.
    pub mode: u32,
    /// A size to note, for bytes that are elsewhere.
    pub size: Option<u64>,
    /// Whether a file that exists is an error.
    pub exclusive: bool,
}

/// Opens the log, does `body` for each path, and closes it.
fn on_paths(
    command: &str,
    (place, space): (&Place, Namespace),
    paths: &[&[u8]],
    body: impl Fn(Caller<'_>, &[u8]) -> Result<(), Failure>,
) -> Outcome {
    let user = place.user();
    let status = for_each(command, paths.iter().copied(), |path| body(space.by(&user), path))?;
    finish(space)?;
    Ok(status)
}

/// Makes directories, and with `with_parents` what is missing on the way to them.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn mkdir(place: &Place, paths: &[&[u8]], mode: u32, with_parents: bool) -> Outcome {
    on_paths("mkdir", (place, place.open_or_begin()?), paths, |fs, path| {
        if with_parents {
            return make_all(fs, path, mode);
        }
        fs.mkdir(path, mode)?;
        Ok(())
    })
}

/// Makes a directory and its missing parents.
pub(crate) fn make_all(fs: Caller<'_>, path: &[u8], bits: u32) -> Result<(), Failure> {
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

/// Makes empty files; of one that exists, sets the time.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn create(place: &Place, paths: &[&[u8]], how: &Create) -> Outcome {
    let Create { mode, size, exclusive } = *how;
    on_paths("create", (place, place.open_or_begin()?), paths, |fs, path| {
        let if_exists = if exclusive { IfExists::Fail } else { IfExists::Open };
        let made = fs.create(path, mode, if_exists)?;
        let mtime = (!made.is_new).then_some(SetTime::Now);
        if size.is_some() || mtime.is_some() {
            fs.set_attributes(path, &SetAttributes { size, mtime, ..SetAttributes::default() })?;
        }
        Ok(())
    })
}

/// Removes files and links, and with `recursive` whole trees. With `force` a path that does not
/// exist is no error.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn rm(place: &Place, paths: &[&[u8]], recursive: bool, force: bool) -> Outcome {
    on_paths("rm", (place, place.open()?), paths, |fs, path| {
        let removed = if recursive { fs.remove_tree(path).map(|_| ()) } else { fs.unlink(path) };
        match removed {
            Err(Error::NotFound(_)) if force => Ok(()),
            Err(Error::IsDir(_)) if !recursive => Err(Failure::Failed(format!(
                "{}: it is a directory; use rmdir, or rm -r",
                shown(path)
            ))),
            removed => Ok(removed?),
        }
    })
}

/// Removes empty directories.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn rmdir(place: &Place, paths: &[&[u8]]) -> Outcome {
    on_paths("rmdir", (place, place.open()?), paths, |fs, path| Ok(fs.rmdir(path)?))
}

/// Renames. The last path is the new name, or a directory to move into.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn mv(place: &Place, paths: &[&[u8]], if_taken: IfTaken) -> Outcome {
    let (Some((to, from)), true) = (paths.split_last(), paths.len() > 1) else {
        return Err(Failure::Usage("mv needs two paths: the old and the new one".to_owned()));
    };
    let user = place.user();
    let space = place.open()?;
    let fs = space.by(&user);
    let into = match fs.stat(to) {
        Ok(stat) => stat.kind == Kind::Dir,
        Err(Error::NotFound(_)) => false,
        Err(error) => return Err(error.into()),
    };
    if from.len() > 1 && !into {
        let to = shown(to);
        return Err(Failure::Usage(format!("{to}: several paths need a directory to move into")));
    }
    let status = for_each("mv", from.iter().copied(), |from| {
        let name = last_name(trimmed(from));
        let to = if into { [trimmed(to), b"/", name].concat() } else { to.to_vec() };
        Ok(fs.rename(from, &to, if_taken)?)
    })?;
    finish(space)?;
    Ok(status)
}

/// Gives a file another name.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn link(place: &Place, from: &[u8], to: &[u8]) -> Outcome {
    let space = place.open()?;
    space.by(&place.user()).link(from, to)?;
    finish(space)?;
    Ok(DONE)
}

/// Makes a symbolic link.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn symlink(place: &Place, target: &[u8], path: &[u8]) -> Outcome {
    let space = place.open_or_begin()?;
    space.by(&place.user()).symlink(target, path)?;
    finish(space)?;
    Ok(DONE)
}

/// Sets rights or owners, and with `recursive` those of all that is below, without links.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn set_attributes(
    command: &str,
    place: &Place,
    paths: &[&[u8]],
    change: &SetAttributes,
    recursive: bool,
) -> Outcome {
    on_paths(command, (place, place.open()?), paths, |fs, path| set(fs, path, change, recursive))
}

/// Writes a local file into the name space; `-` is standard input.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn put(place: &Place, file: &OsStr, path: &[u8], mode: u32) -> Outcome {
    let mut source = read_local(file)?;
    let space = place.open_or_begin()?;
    space.by(&place.user()).put_from(path, mode, &mut *source)?;
    finish(space)?;
    Ok(DONE)
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
