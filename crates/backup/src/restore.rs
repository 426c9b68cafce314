//! Making a store of a backup.
//!
//! ```text
//!   .NAME.restore/          hidden, beside the target; see `scratch.rs`
//!     files/                the files, each checked while it is written, and synced
//!   rename files to NAME    from here on it is there, and whole
//! ```
//!
//! A crash leaves no target, or a whole one; and perhaps the hidden directory, which the next
//! restoration to the same target removes. Damage of any object ends it before the rename, so a
//! store is never restored in part.

use crate::digest::Hasher;
use crate::error::{Error, Result};
use crate::manifest::{FileEntry, Manifest};
use crate::progress::Progress;
use crate::repository::{BackupId, BackupInfo, Repository, object_name};
use crate::scratch::{Scratch, named};
use keyrack_vfs::{FileKind, Fs, OpenOptions};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl Repository {
    /// Makes the store of a backup in the directory `target` of `fs`, which is empty or not there;
    /// its parent is. Every byte is compared with its checksum.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such backup, something is at `target` (a link and a mount
    /// point, too), or something else has the name of the hidden directory;
    /// [`Error::Corruption`] if the backup is damaged; [`Error::Locked`] if another process
    /// restores to `target`; the machine's. There is nothing new at `target` then, or a whole store
    /// whose name is perhaps not durable.
    pub fn restore(
        &self,
        id: &BackupId,
        fs: &dyn Fs,
        target: &Path,
        watch: impl FnMut(Progress),
    ) -> Result<BackupInfo> {
        self.restore_then(id, (fs, target), &mut |_| Ok(()), watch)
    }

    /// Restores a backup, and lets `finish` change its files before they are at the target.
    pub(crate) fn restore_then(
        &self,
        id: &BackupId,
        (fs, target): (&dyn Fs, &Path),
        finish: &mut dyn FnMut(&Path) -> Result<()>,
        mut watch: impl FnMut(Progress),
    ) -> Result<BackupInfo> {
        check_target(fs, target)?;
        let manifest = self.named(id)?;
        let scratch = Scratch::take(fs, target)?;
        let restored = scratch.try_place(target).and_then(|()| {
            let files = scratch.files()?;
            self.write_files(&manifest, fs, &files, &mut watch)?;
            finish(&files)?;
            check_target(fs, target)?;
            fs.rename(&files, target)?;
            Ok(fs.sync_parent(target)?)
        });
        scratch.end();
        restored?;
        Ok(BackupInfo::of(id, &manifest))
    }

    /// Writes the files of a backup into the new directory `dir`, durably but for its own name.
    fn write_files(
        &self,
        manifest: &Manifest,
        fs: &dyn Fs,
        dir: &Path,
        watch: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        fs.create_dir(dir)?;
        let mut dirs = BTreeSet::from([dir.to_owned()]);
        let mut progress = Progress::begin(manifest.files.len(), manifest.bytes());
        for file in &manifest.files {
            let path = file.name.under(dir);
            let parents = path.ancestors().skip(1).take_while(|parent| *parent != dir);
            let missing: Vec<PathBuf> =
                parents.filter(|parent| !dirs.contains(*parent)).map(Path::to_owned).collect();
            for parent in missing.into_iter().rev() {
                fs.create_dir(&parent)?;
                dirs.insert(parent);
            }
            self.write_file(file, fs, &path, &mut progress.watched(watch))?;
            progress.end_file(file.bytes, watch);
        }
        // The deepest first, so that a directory is whole when its name is durable.
        Ok(dirs.iter().rev().try_for_each(|dir| fs.sync_dir(dir))?)
    }

    fn write_file(
        &self,
        file: &FileEntry,
        fs: &dyn Fs,
        path: &Path,
        written: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let object = object_name(file.object);
        let wrong = |what: String| {
            let remedy = "restore another backup; --verify lists those that are damaged";
            let what = format!("{what} (the file {}); {remedy}", file.name);
            Error::corruption(self.target.place(Some(&object)), what)
        };
        let copy = fs.open(path, &OpenOptions::new().write(true).create_new(true))?;
        let (mut hasher, mut offset) = (Hasher::default(), 0);
        let found = self.target.read(&object, &mut |chunk| {
            let bytes = chunk.len() as u64;
            if bytes > file.bytes - offset {
                return Err(wrong(format!("it has more than {} bytes", file.bytes)));
            }
            hasher.update(chunk);
            copy.write_at(offset, chunk)?;
            offset += bytes;
            written(bytes);
            Ok(())
        })?;
        if !found {
            return Err(wrong("it is missing".to_owned()));
        }
        if offset != file.bytes {
            return Err(wrong(format!("it has {offset} bytes, not {}", file.bytes)));
        }
        if hasher.finish() != file.object {
            return Err(wrong("its bytes are not those that were saved".to_owned()));
        }
        Ok(copy.sync_all()?)
    }
}

/// Refuses a target at which there is anything but an empty directory.
fn check_target(fs: &dyn Fs, target: &Path) -> Result<()> {
    let refused = |what: &str| Err(Error::Usage(format!("{}: {what}", target.display())));
    if named(fs, target)? == Some(FileKind::Symlink) {
        return refused("a symbolic link; name the directory that it leads to, or a new one");
    }
    match fs.metadata(target) {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(found) if found.kind != FileKind::Dir => refused("it is a file; choose a new directory"),
        Ok(_) if !fs.list(target)?.is_empty() => {
            refused("the directory is not empty; choose a new one")
        }
        Ok(_) => Ok(()),
    }
}
