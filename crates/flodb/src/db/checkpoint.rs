//! A copy of the store in another directory, made while writers go on.
//!
//! ```text
//!   --- ingestions wait from here on ---
//!   flush                      everything up to now is in tables
//!   state and tables           of one moment; the tables stay while we hold them
//!   --- to here ---
//!   .NAME.HEX.checkpoint/      tables and blob files by a second name, or copied; a manifest
//!   rename to NAME             from here on it is there, and whole
//! ```
//!
//! A version of the tables has all writes below the manifest's `log_from`, whatever is flushed and
//! compacted meanwhile, and of later ones tables from outside alone. Those are newer than writes
//! that are in memory still, so a copy with them would have a write without one before it. An
//! ingestion that ended before the flush began is older than the end of what the flush wrote, and
//! so are all writes before it; and none comes between the flush and the look at the state. So the
//! copy needs no log, and is the store as of an LSN: all that was acknowledged before the
//! call, and of what came during it a beginning.
//!
//! Blob files are part of the state as the tables are, and are treated as they are.
//!
//! A table never changes, so two stores can have it in common. Its file goes when the last of its
//! names does. Where the target is on another file system, or the system refuses a second name, the
//! table is copied.
//!
//! A crash leaves no target, or a whole one. What it may leave beside is the directory with the
//! temporary name; nobody needs it.

use super::flush::flush_all;
use super::{Db, Inner};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::manifest::{Manifest, State};
use crate::open_blob::blob_path;
use crate::open_table::table_path;
use crate::read_state::ReadState;
use keyrack_vfs::{Fs, OpenOptions};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes copied at once.
const CHUNK_BYTES: usize = 1 << 20;

impl Db {
    /// Makes a copy of the store, as it is at a moment during the call, in the new directory
    /// `target`. Its parent must be there. The copy opens as any store does, and survives a power
    /// loss once this returns. What is in memory goes to tables first. Writers go on meanwhile;
    /// ingestions wait until what is in memory is in tables.
    ///
    /// Tables are shared by hard links where the file system can, so that the cost is that of the
    /// flush, and the copy takes space only as the two grow apart. O(bytes) where it cannot.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// db.checkpoint("/copy")?;
    /// let copy = Db::open_in(fs, "/copy".as_ref(), Options::new())?;
    /// assert!(copy.contains_key(b"key")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is something at `target`; [`Error::Io`], and then there is nothing
    /// at `target`, or a whole copy whose name is perhaps not durable. A failure of the flush is
    /// final as always.
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        self.inner().checkpoint(target.as_ref())
    }
}

impl Inner {
    fn checkpoint(self: &Arc<Self>, target: &Path) -> Result<()> {
        let Some(name) = target.file_name() else {
            return Err(Error::Usage(format!("{} has no final name", target.display())));
        };
        let taken = || Error::Usage(format!("{}: there is something already", target.display()));
        if self.fs.exists(target)? {
            return Err(taken());
        }
        // What the levels name is not removed while they are held.
        let (state, _read_state) = self.state_in_tables()?;
        let unfinished = self.unfinished_dir(target, name)?;
        let made = self.copy_into(&unfinished, &state).and_then(|()| {
            if self.fs.exists(target)? {
                return Err(taken());
            }
            Ok(self.fs.rename(&unfinished, target)?)
        });
        if let Err(error) = made {
            // The first error is the one to report. What stays behind is nobody's.
            let _ = self.fs.remove_dir_all(&unfinished);
            return Err(error);
        }
        self.fs.sync_parent(target)?;
        self.events.tell(|| Event::CheckpointMade { path: target.to_owned() });
        Ok(())
    }

    /// A state that needs no log, with a read state that keeps its files.
    pub(super) fn state_in_tables(&self) -> Result<(State, Arc<ReadState>)> {
        let _ingesting = self.tables.ingest_lock.lock();
        flush_all(self)?;
        let manifest = self.tables.manifest.lock();
        Ok((manifest.state().clone(), self.read_state()))
    }

    /// A new directory beside the target.
    fn unfinished_dir(&self, target: &Path, name: &std::ffi::OsStr) -> Result<PathBuf> {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{:016x}.checkpoint", self.fs.unique_number()));
        let dir = target.with_file_name(hidden);
        self.fs.create_dir(&dir)?;
        Ok(dir)
    }

    /// Makes a store with that state in the empty directory `dir`.
    fn copy_into(&self, dir: &Path, state: &State) -> Result<()> {
        for level in 0..crate::version::LEVELS {
            for file in state.version.files(level) {
                self.copy_file(&table_path(&self.dir, file.number), dir)?;
            }
        }
        for number in state.version.blobs().keys() {
            self.copy_file(&blob_path(&self.dir, *number), dir)?;
        }
        // Syncs the directory, the names of the files with it, before `CURRENT` says that they
        // count.
        Manifest::create_from(Arc::clone(&self.fs), dir, state.clone())?;
        Ok(())
    }

    /// Gives a file a second name in `dir`, or copies it there.
    fn copy_file(&self, from: &Path, dir: &Path) -> Result<()> {
        let to = dir.join(from.file_name().expect("the files of a store have names"));
        match self.fs.hard_link(from, &to) {
            // Another file system, or one without links.
            Err(error)
                if matches!(
                    error.io_kind(),
                    ErrorKind::CrossesDevices
                        | ErrorKind::PermissionDenied
                        | ErrorKind::TooManyLinks
                        | ErrorKind::Unsupported
                ) =>
            {
                Ok(copy_file(&*self.fs, from, &to)?)
            }
            linked => Ok(linked?),
        }
    }
}

/// Copies the bytes of a file to a new one, durably but for its name.
fn copy_file(fs: &dyn Fs, from: &Path, to: &Path) -> keyrack_vfs::Result<()> {
    let source = fs.open(from, &OpenOptions::new().read(true))?;
    let copy = fs.open(to, &OpenOptions::new().write(true).create_new(true))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let count = source.read_at(offset, &mut chunk)?;
        copy.write_at(offset, &chunk[..count])?;
        offset += count as u64;
        if count < chunk.len() {
            return copy.sync_all();
        }
    }
}
