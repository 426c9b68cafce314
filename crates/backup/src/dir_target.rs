//! A repository in a directory.
//!
//! ```text
//!   DEST/REPOSITORY      what this is
//!   DEST/LOCK            held by the process that writes
//!   DEST/objects/HEX     and HEX.part while it is written
//!   DEST/backups/ID
//!   DEST/logs/ID-FIRST-END
//! ```
//!
//! An object is written as `HEX.part`, synced, and renamed. Names are synced once for all objects,
//! by [`Target::sync`]: a backup of 3,000 tables costs 3,000 syncs of files and one of a directory.

use crate::error::{Error, Result, name};
use crate::repository::{BACKUPS, LOGS, MARKER, OBJECTS};
use crate::target::{Fill, Listed, Sink, Target};
use keyrack_vfs::{FileKind, Fs, OpenOptions, RelativePath};
use std::any::Any;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK: &str = "LOCK";
/// What an unfinished object's name ends with, and that of a file that is replaced at one stroke.
const UNFINISHED: [&str; 2] = [".part", ".tmp"];
/// Bytes read at once.
pub(crate) const CHUNK_BYTES: usize = 1 << 20;

/// A directory of a file system.
#[derive(Debug)]
pub struct DirTarget {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
}

impl DirTarget {
    /// The directory `dir`, which [`Repository::create`](crate::Repository::create) makes if it is
    /// missing. Its parent must be there.
    pub fn new(fs: Arc<dyn Fs>, dir: impl Into<PathBuf>) -> DirTarget {
        DirTarget { fs, dir: dir.into() }
    }

    fn path(&self, name: &RelativePath) -> PathBuf {
        name.under(&self.dir)
    }

    /// Whether nothing is there but what an interrupted creation leaves.
    fn is_vacant(&self) -> Result<bool> {
        let entries = self.fs.list(&self.dir)?;
        Ok(entries.iter().all(|entry| {
            let name = entry.name.to_string_lossy();
            [OBJECTS, BACKUPS, LOGS, LOCK].contains(&&*name) || is_unfinished_marker(&name)
        }))
    }

    fn remove_unfinished(&self, dir: &Path, is_ours: fn(&str) -> bool) -> Result<()> {
        for entry in self.fs.list(dir)? {
            if entry.kind == FileKind::File && is_ours(&entry.name.to_string_lossy()) {
                self.fs.remove_file(&dir.join(&entry.name))?;
            }
        }
        Ok(())
    }
}

fn is_unfinished_marker(name: &str) -> bool {
    name.starts_with(&format!(".{MARKER}.")) && is_unfinished(name)
}

fn is_unfinished(name: &str) -> bool {
    UNFINISHED.iter().any(|end| name.ends_with(end))
}

impl Target for DirTarget {
    fn place(&self, name: Option<&RelativePath>) -> String {
        name.map_or_else(|| self.dir.clone(), |name| self.path(name)).display().to_string()
    }

    fn prepare(&self) -> Result<()> {
        match self.fs.metadata(&self.dir) {
            Ok(found) if found.kind != FileKind::Dir => {
                return Err(Error::Usage(format!(
                    "{}: not a directory; name another place",
                    self.dir.display()
                )));
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() => self.fs.create_dir(&self.dir)?,
            Err(error) => return Err(error.into()),
        }
        if !self.fs.exists(&self.path(&name(MARKER)))? && !self.is_vacant()? {
            let what = "holds something else than backups; choose a directory that is new or empty";
            return Err(Error::Usage(format!("{} {what}", self.dir.display())));
        }
        for dir in [OBJECTS, BACKUPS, LOGS] {
            self.fs.create_dir_all(&self.dir.join(dir))?;
        }
        self.fs.sync_dir(&self.dir)?;
        Ok(self.fs.sync_parent(&self.dir)?)
    }

    fn lock(&self) -> Result<Box<dyn Any + Send>> {
        let lock = match self.fs.lock(&self.dir.join(LOCK)) {
            Err(error) if error.is_locked() => {
                return Err(Error::locked(self.dir.display()));
            }
            lock => lock?,
        };
        self.remove_unfinished(&self.dir, is_unfinished_marker)?;
        for dir in [OBJECTS, BACKUPS, LOGS] {
            self.remove_unfinished(&self.dir.join(dir), is_unfinished)?;
        }
        Ok(Box::new(lock))
    }

    fn list(&self, dir: &RelativePath) -> Result<Vec<Listed>> {
        let dir = self.path(dir);
        let entries = match self.fs.list(&dir) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut listed = Vec::with_capacity(entries.len());
        for entry in entries {
            let name = entry.name.to_string_lossy();
            if entry.kind != FileKind::File || is_unfinished(&name) {
                continue;
            }
            match self.fs.metadata(&dir.join(&entry.name)) {
                Ok(found) => listed.push(Listed { name: name.into_owned(), bytes: found.len }),
                // Removed meanwhile, by whoever deletes a backup.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(listed)
    }

    fn read(&self, name: &RelativePath, sink: &mut Sink<'_>) -> Result<bool> {
        let file = match self.fs.open(&self.path(name), &OpenOptions::new().read(true)) {
            Err(error) if error.is_not_found() => return Ok(false),
            file => file?,
        };
        let (mut chunk, mut offset) = (vec![0; CHUNK_BYTES], 0);
        loop {
            let count = file.read_at(offset, &mut chunk)?;
            if count > 0 {
                sink(&chunk[..count])?;
            }
            if count < chunk.len() {
                return Ok(true);
            }
            offset += count as u64;
        }
    }

    fn put(&self, name: &RelativePath, fill: &mut Fill<'_>) -> Result<()> {
        let path = self.path(name);
        let mut part = OsString::from(&path);
        part.push(UNFINISHED[0]);
        let part = PathBuf::from(part);
        let mut write = || {
            let file = self.fs.open(&part, &OpenOptions::new().write(true).create_new(true))?;
            let mut offset = 0;
            fill(&mut |bytes| {
                file.write_at(offset, bytes)?;
                offset += bytes.len() as u64;
                Ok(())
            })?;
            file.sync_all()?;
            Ok(self.fs.rename(&part, &path)?)
        };
        let written: Result<()> = write();
        written.inspect_err(|_| {
            // The first error is the one to report. The next writer removes what stays.
            let _ = self.fs.remove_file(&part);
        })
    }

    fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<()> {
        Ok(self.fs.write_atomic(&self.path(name), bytes)?)
    }

    fn remove(&self, name: &RelativePath) -> Result<()> {
        Ok(self.fs.remove_file(&self.path(name))?)
    }

    fn sync(&self) -> Result<()> {
        self.fs.sync_dir(&self.dir.join(OBJECTS))?;
        self.fs.sync_dir(&self.dir.join(BACKUPS))?;
        Ok(self.fs.sync_dir(&self.dir.join(LOGS))?)
    }
}
