//! The files of a store that nobody has open, for whoever copies them.
//!
//! ```text
//!   LOCK          held until the last file was copied
//!   parts         those that the manifest names
//!   logs          the segments and the marker of each log that is not dropped
//!   MANIFEST      last: without it an opening refuses the others
//! ```
//!
//! Nothing is opened or replayed: the copy has the checkpoint and the logs as they are, and its
//! first opening recovers it as it would have recovered the store. A torn tail of a log is copied,
//! too. So this costs no more than the reading of the files.
//!
//! Parts of the checkpoint are checked while they are copied. Segments of logs are not: their tails
//! may be torn, and a recovery tells what is damage.
//!
//! Files have no identity here. A copy of a store keeps the identities of its logs, so two stores
//! may have parts of the same generation with other rows.

use crate::RowStore;
use crate::error::of_files;
use crate::manifest::{LogState, MANIFEST_NAME};
use crate::part::name_of;
use crate::part_check::PartCheck;
use crate::store::{LOCK_NAME, read_manifest};
use keyrack_store::{Error, FileContent, FileSet, HeldFile, NewCheck, Result};
use keyrack_vfs::{DirEntry, FileKind, Fs, RelativePath};
use keyrack_wal::is_ours;
use std::path::Path;
use std::sync::Arc;

impl RowStore {
    /// Whether the directory has the manifest of a row store.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn is_in(fs: &dyn Fs, dir: &Path) -> Result<bool> {
        fs.exists(&dir.join(MANIFEST_NAME)).map_err(|error| of_files(&error))
    }

    /// The files of the store in `dir`, which nobody has open, for a copy of it. The directory
    /// stays locked until all of them are dropped. O(files).
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no store, another process has it open, or a log or a part of
    /// its checkpoint lies outside of `dir`; [`Error::Corruption`] for a damaged manifest;
    /// [`Error::Io`].
    pub fn file_set_of(fs: Arc<dyn Fs>, dir: &Path) -> Result<FileSet> {
        let missing = || Error::usage(format!("{}: there is no row store in it", dir.display()));
        // No lock is made in a directory of somebody else.
        if !Self::is_in(&*fs, dir)? {
            return Err(missing());
        }
        let lock = fs.lock(&dir.join(LOCK_NAME)).map_err(|error| of_files(&error))?;
        let manifest = read_manifest(&*fs, dir)?.ok_or_else(missing)?;
        let mut named = Vec::new();
        for (index, part) in manifest.parts.iter().enumerate() {
            let generation = manifest.generation;
            let entry = part.clone();
            let check: NewCheck =
                Box::new(move || Box::new(PartCheck::new(generation, index, entry.clone())));
            named.push((name(dir, &part.dir, &name_of(generation, index))?, Some(check)));
        }
        for log in manifest.logs.iter().filter(|log| log.state != LogState::Dropped) {
            for file in log_files(&*fs, &dir.join(&log.path))? {
                named.push((name(dir, &log.path, &file)?, None));
            }
        }
        named.push((name(dir, Path::new(""), MANIFEST_NAME)?, None));
        // Each file holds the lock: it ends with the last one.
        let lock = Arc::new(lock);
        let held = named.into_iter().map(|(name, check)| {
            let path = name.under(dir);
            let bytes = fs.metadata(&path).map_err(|error| of_files(&error))?.len;
            let hold = Box::new(Arc::clone(&lock));
            let content = FileContent::File(path);
            Ok(HeldFile { name, content, bytes, identity: None, check, hold })
        });
        let files = held.collect::<Result<_>>()?;
        Ok(FileSet { fs, engine: "rowstore", log: None, files })
    }
}

/// The files of a log; none if it was never written.
fn log_files(fs: &dyn Fs, dir: &Path) -> Result<Vec<String>> {
    let entries = match fs.list(dir) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        entries => entries.map_err(|error| of_files(&error))?,
    };
    let ours = |entry: &DirEntry| entry.kind == FileKind::File && is_ours(&entry.name);
    let files = entries.into_iter().filter(ours);
    let name = |file: DirEntry| file.name.into_string().expect("names of logs are ASCII");
    Ok(files.map(name).collect())
}

/// The name of a file below the directory of the store.
fn name(dir: &Path, below: &Path, file: &str) -> Result<RelativePath> {
    let path = below.join(file);
    path.to_str().and_then(|text| RelativePath::new(text).ok()).ok_or_else(|| {
        let what = "lies outside of the store's directory, and a backup is of one directory";
        let remedy = "open the store with all logs and checkpoints in it, and write a checkpoint";
        Error::usage(format!("{}: {what}; {remedy}", dir.join(&path).display()))
    })
}
