//! A registry in a directory that those who share it see.
//!
//! A hard link decides which publisher is first. A text is written and synced under a temporary
//! name, and then linked to its name. The link fails if the name exists. Copies are made in their
//! final place; they belong to no publication until a text names them.
//!
//! Nothing is removed through a symbolic link below the directory: a link would lead out of it.
//! Each component is checked by `lstat`, as files are reached by path here. A user who can exchange
//! names between the check and the removal can remove the files anyway. The directory itself may be
//! reached by a link.

use super::names::{copy_name, hex};
use super::publication::PublishedFile;
use super::storage::{CopyFacts, Storage, Tag, Text};
use crate::error::{Result, if_found};
use keyrack_vfs::{DirEntry, Fs, OpenOptions, RelativePath};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// Who holds it may replace texts of its directory.
const LOCK: &str = ".lock";

/// A directory of a file system.
#[derive(Debug)]
pub(crate) struct Directory {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
}

impl Directory {
    pub(crate) fn new(fs: Arc<dyn Fs>, dir: PathBuf) -> Directory {
        Directory { fs, dir }
    }

    /// The names in a directory; none if it is not there.
    fn entries(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        // What is not there has no names.
        Ok(if_found(self.fs.list(dir))?.unwrap_or_default())
    }

    /// Makes a directory whose name is durable afterwards, and its parents likewise.
    fn make_dir(&self, dir: &Path) -> Result<()> {
        if self.fs.exists(dir)? {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.make_dir(parent)?;
        }
        match self.fs.create_dir(dir) {
            Err(error) if error.is_already_exists() => {}
            made => made?,
        }
        Ok(self.fs.sync_parent(dir)?)
    }

    fn make_parent(&self, path: &Path) -> Result<PathBuf> {
        let parent = path.parent().unwrap_or(&self.dir).to_owned();
        self.make_dir(&parent)?;
        Ok(parent)
    }

    /// Writes the text beside its name, and gives it the name if nobody has it.
    fn place(&self, path: &Path, parent: &Path, bytes: &[u8]) -> keyrack_vfs::Result<()> {
        let unfinished = parent.join(format!(".{:016x}.tmp", self.fs.unique_number()));
        let file = self.fs.open(&unfinished, &OpenOptions::new().write(true).create_new(true))?;
        let written = file.write_at(0, bytes).and_then(|()| file.sync_all());
        drop(file);
        let linked = written.and_then(|()| self.fs.hard_link(&unfinished, path));
        // A file that stays is nobody's; the first error is the one to report.
        let _ = self.fs.remove_file(&unfinished);
        linked?;
        self.fs.sync_dir(parent)
    }
}

fn tag(bytes: &[u8]) -> Tag {
    Tag { e_tag: Some(hex(&Sha256::digest(bytes))), version: None }
}

impl Storage for Directory {
    fn root(&self) -> PathBuf {
        self.dir.clone()
    }

    fn fs(&self) -> Arc<dyn Fs> {
        Arc::clone(&self.fs)
    }

    fn get(&self, name: &RelativePath) -> Result<Option<Text>> {
        let read = if_found(self.fs.read(&name.under(&self.dir)))?;
        Ok(read.map(|bytes| Text { tag: tag(&bytes), bytes }))
    }

    fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<bool> {
        let path = name.under(&self.dir);
        let parent = self.make_parent(&path)?;
        match self.place(&path, &parent, bytes) {
            Err(error) if error.is_already_exists() => Ok(false),
            placed => Ok(placed.map(|()| true)?),
        }
    }

    fn replace(&self, name: &RelativePath, bytes: &[u8], seen: &Tag) -> Result<bool> {
        let path = name.under(&self.dir);
        let parent = self.make_parent(&path)?;
        let lock = match self.fs.lock(&parent.join(LOCK)) {
            // Somebody is just replacing a text: what was seen may be over.
            Err(error) if error.is_locked() => return Ok(false),
            lock => lock?,
        };
        let is_same = self.get(name)?.is_some_and(|text| text.tag == *seen);
        if is_same {
            self.fs.write_atomic(&path, bytes)?;
        }
        drop(lock);
        Ok(is_same)
    }

    fn remove(&self, name: &RelativePath) -> Result<()> {
        self.fs.refuse_links(&self.dir, name)?;
        let path = name.under(&self.dir);
        match if_found(self.fs.remove_file(&path))? {
            Some(()) => Ok(self.fs.sync_parent(&path)?),
            None => Ok(()),
        }
    }

    fn list(&self, directory: &RelativePath) -> Result<Vec<String>> {
        let entries = self.entries(&directory.under(&self.dir))?;
        let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
        Ok(names.filter(|name| !name.starts_with('.')).collect())
    }

    fn begin_copy(&self, _log: &Path, directory: &RelativePath) -> Result<PathBuf> {
        let path = copy_name(directory)?.under(&self.dir);
        self.make_parent(&path)?;
        Ok(path)
    }

    fn complete_copy(&self, _: &Path, _: &RelativePath, _: &[PublishedFile]) -> Result<()> {
        // It was made in its place, and synced.
        Ok(())
    }

    fn end_copy(&self, _: &Path, _: &RelativePath) {}

    fn copy_facts(&self, directory: &RelativePath) -> Result<Option<CopyFacts>> {
        let name = copy_name(directory)?;
        self.fs.refuse_links(&self.dir, &name)?;
        let path = name.under(&self.dir);
        let Some(found) = if_found(self.fs.metadata(&path))? else { return Ok(None) };
        let bytes = self.fs.size_recursive(&path)?;
        // A time before 1970 is as old as one can be.
        let changed = found.modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let changed_ns = u64::try_from(changed).unwrap_or(u64::MAX);
        Ok(Some(CopyFacts { bytes, changed_ns }))
    }

    fn remove_copy(&self, directory: &RelativePath) -> Result<()> {
        let name = copy_name(directory)?;
        self.fs.refuse_links(&self.dir, &name)?;
        if_found(self.fs.remove_dir_all(&name.under(&self.dir))).map(|_| ())
    }
}
