//! The hidden directory in which a restoration writes, beside its target.
//!
//! ```text
//!   .NAME.restore/
//!     RESTORATION         what this is; durable before anything else is in it
//!     LOCK                held by the process that restores to this target
//!     files/              the store that becomes the target
//! ```
//!
//! A directory of that name that is there already may be somebody else's. It is taken if it has the
//! mark, or nothing but it. Links are refused, since what is removed behind one is elsewhere.
//!
//! **Invariant:** nothing is removed but these three names, in a directory that was made here or
//! had the mark. The mark goes last.

use crate::error::{Error, Result};
use keyrack_vfs::{FileKind, Fs, Lock, OpenOptions};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const MARK: &str = "RESTORATION";
const MARK_TEXT: &[u8] = b"keyrack restoration 1\n";
const LOCK: &str = "LOCK";
const FILES: &str = "files";

/// The hidden directory, locked.
pub(crate) struct Scratch<'a> {
    fs: &'a dyn Fs,
    dir: PathBuf,
    _lock: Box<dyn Lock>,
}

impl<'a> Scratch<'a> {
    /// Makes the directory for a restoration to `target`, or takes what an interrupted one left.
    ///
    /// # Errors
    /// [`Error::Usage`] if something else has the name; [`Error::Locked`] if another process
    /// restores to `target`; the machine's.
    pub(crate) fn take(fs: &'a dyn Fs, target: &Path) -> Result<Scratch<'a>> {
        let dir = hidden_dir(target)?;
        match fs.create_dir(&dir) {
            Err(error) if error.is_already_exists() => check_ours(fs, &dir)?,
            created => created?,
        }
        write_mark(fs, &dir).inspect_err(|_| remove(fs, &dir))?;
        let lock = match fs.lock(&dir.join(LOCK)) {
            Err(error) if error.is_locked() => {
                return Err(Error::locked(target.display()));
            }
            lock => lock.inspect_err(|_| remove(fs, &dir))?,
        };
        Ok(Scratch { fs, dir, _lock: lock })
    }

    /// Where the files go: nothing is there.
    ///
    /// # Errors
    /// The machine's.
    pub(crate) fn files(&self) -> Result<PathBuf> {
        let files = self.dir.join(FILES);
        match self.fs.remove_dir_all(&files) {
            Err(error) if error.is_not_found() => {}
            removed => removed?,
        }
        Ok(files)
    }

    /// Puts an empty directory in the place of `target`, if that is one, as the store will be put
    /// there: so a place that takes none is known before anything is copied.
    ///
    /// # Errors
    /// [`Error::Usage`] if the place takes none; the machine's.
    pub(crate) fn try_place(&self, target: &Path) -> Result<()> {
        if !self.fs.exists(target)? {
            return Ok(());
        }
        let files = self.files()?;
        self.fs.create_dir(&files)?;
        // It can take the place.
        let Err(error) = self.fs.rename(&files, target) else { return Ok(()) };
        let is_mount = [ErrorKind::ResourceBusy, ErrorKind::CrossesDevices];
        if !is_mount.contains(&error.io_kind()) {
            return Err(error.into());
        }
        let what = "no directory can take its place, as with a mount point";
        let remedy = "choose a new directory in it";
        Err(Error::Usage(format!("{}: {what}; {remedy}", target.display())))
    }

    /// Removes the directory. What stays behind is the next restoration's to remove.
    pub(crate) fn end(self) {
        remove(self.fs, &self.dir);
    }
}

/// What the name `path` stands for, links not followed; nothing if it is free.
pub(crate) fn named(fs: &dyn Fs, path: &Path) -> Result<Option<FileKind>> {
    let Some(name) = path.file_name() else { return Ok(None) };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let listed = fs.list(parent.unwrap_or(Path::new(".")))?;
    Ok(listed.iter().find(|entry| entry.name == name).map(|entry| entry.kind))
}

fn hidden_dir(target: &Path) -> Result<PathBuf> {
    let Some(name) = target.file_name() else {
        return Err(Error::Usage(format!("{} has no final name", target.display())));
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".restore");
    Ok(target.with_file_name(hidden))
}

/// Refuses what is at `dir` if no restoration has made it.
fn check_ours(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let refused = || {
        let what = "no restoration has made it; move it away, or restore to another name";
        Err(Error::Usage(format!("{}: {what}", dir.display())))
    };
    if named(fs, dir)? != Some(FileKind::Dir) {
        return refused();
    }
    let listed = fs.list(dir)?;
    for entry in &listed {
        let expected = match entry.name.to_str() {
            Some(MARK | LOCK) => FileKind::File,
            Some(FILES) => FileKind::Dir,
            _ => continue,
        };
        if entry.kind != expected {
            return refused();
        }
    }
    // Interrupted before the mark was whole, or after all but it was removed.
    if listed.iter().all(|entry| entry.name == MARK) {
        return Ok(());
    }
    let mark = dir.join(MARK);
    let is_whole = listed.iter().any(|entry| entry.name == MARK)
        && fs.metadata(&mark)?.len == MARK_TEXT.len() as u64
        && fs.read(&mark)? == MARK_TEXT;
    if is_whole { Ok(()) } else { refused() }
}

/// Two processes may do this at once: they write the same bytes.
fn write_mark(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let mark = fs.open(&dir.join(MARK), &OpenOptions::new().write(true).create(true))?;
    mark.write_at(0, MARK_TEXT)?;
    mark.set_len(MARK_TEXT.len() as u64)?;
    mark.sync_all()?;
    Ok(fs.sync_dir(dir)?)
}

/// The first error of a restoration is the one to report, and what stays is taken by the next one.
/// So a step that fails ends the removal, and the mark stays.
fn remove(fs: &dyn Fs, dir: &Path) {
    let gone = |removed: keyrack_vfs::Result<()>| match removed {
        Err(error) if error.is_not_found() => Ok(()),
        removed => removed,
    };
    let _ = gone(fs.remove_dir_all(&dir.join(FILES)))
        .and_then(|()| gone(fs.remove_file(&dir.join(LOCK))))
        // A power loss must not bring these back without the mark.
        .and_then(|()| fs.sync_dir(dir))
        .and_then(|()| gone(fs.remove_file(&dir.join(MARK))))
        .and_then(|()| fs.remove_dir(dir));
}
