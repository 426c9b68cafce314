//! Files that a user names for results: reports, exports, dumps, records.
//!
//! ```text
//!   the user's path --output_place--> absent, or a regular file   --> the end of its links
//!                                     device, FIFO, /dev/fd/N     --> a stream
//!                                     directory, socket           --> an error
//!
//!   whole    regular: a hidden file beside it; sync, rename, sync the directory at the end
//!   growing  regular: emptied, and written in place, so that others may read along
//!   both     stream:  written as it comes
//! ```
//!
//! **Invariant:** only a regular file is ever replaced. A symbolic link stays, and its target is
//! replaced. Permissions of an existing file stay; a new file has those of the user's umask.
//!
//! **Invariant:** opening finds what would keep the result from being written: a missing directory,
//! missing rights, a path that is no file. Errors name the path that the user gave.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::File;
use crate::fs::{FileKind, Fs, OpenOptions, create_unfinished, publish};

/// Where the bytes of a result go.
pub enum OutputPlace {
    /// A regular file, or a name that is free.
    File {
        /// The name behind all symbolic links.
        path: PathBuf,
        /// The permission bits that the file gets; `None` leaves them to the system.
        mode: Option<u32>,
    },
    /// A device, a FIFO or an open descriptor: there is nothing to replace.
    Stream(Box<dyn Write + Send>),
}

impl fmt::Debug for OutputPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, mode } => {
                f.debug_struct("File").field("path", path).field("mode", mode).finish()
            }
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A result on its way to the path that a user named.
pub struct OutputFile {
    /// As the user gave it.
    path: PathBuf,
    to: To,
}

enum To {
    Stream(Box<dyn Write + Send>),
    Growing { file: Arc<dyn File>, offset: u64 },
    Whole { fs: Arc<dyn Fs>, target: PathBuf, mode: Option<u32>, written: Option<Unfinished> },
}

/// What is written so far, under a hidden name.
struct Unfinished {
    path: PathBuf,
    file: Arc<dyn File>,
    offset: u64,
}

impl fmt::Debug for OutputFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputFile").field("path", &self.path).finish_non_exhaustive()
    }
}

impl OutputFile {
    /// A result that counts when it is whole: a regular file keeps its old content until
    /// [`OutputFile::finish`].
    ///
    /// # Errors
    /// The path cannot be written: its directory is missing or not writable, it is a directory or a
    /// socket.
    pub fn whole(fs: &Arc<dyn Fs>, path: &Path) -> Result<OutputFile> {
        let to = match fs.output_place(path)? {
            OutputPlace::Stream(stream) => To::Stream(stream),
            OutputPlace::File { path: target, mode } => {
                let about = |error: Error| error.about(path);
                if fs.exists(&target).map_err(about)? {
                    fs.open(&target, &OpenOptions::new().write(true)).map_err(about)?;
                }
                // The hidden file shows that the directory takes one. It goes again, so that a
                // long measurement leaves nothing behind when it is killed.
                let (unfinished, file) = create_unfinished(&**fs, &target, mode).map_err(about)?;
                drop(file);
                fs.remove_file(&unfinished).map_err(about)?;
                To::Whole { fs: Arc::clone(fs), target, mode, written: None }
            }
        };
        Ok(OutputFile { path: path.to_owned(), to })
    }

    /// A result that others may read while it grows. A regular file is emptied now.
    ///
    /// # Errors
    /// As [`OutputFile::whole`].
    pub fn growing(fs: &dyn Fs, path: &Path) -> Result<OutputFile> {
        let to = match fs.output_place(path)? {
            OutputPlace::Stream(stream) => To::Stream(stream),
            OutputPlace::File { path: target, mode } => {
                let options = OpenOptions::new().write(true).create(true).truncate(true);
                let opened = fs.open(&target, &options.mode(mode));
                To::Growing { file: opened.map_err(|error| error.about(path))?, offset: 0 }
            }
        };
        Ok(OutputFile { path: path.to_owned(), to })
    }

    /// The path as the user gave it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does a finished content replace the one before it? A stream has every content one after the
    /// other.
    #[must_use]
    pub fn is_replaced(&self) -> bool {
        matches!(self.to, To::Whole { .. })
    }

    /// Writes behind what was written.
    ///
    /// # Errors
    /// What the system answers, with the user's path.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let path = &self.path;
        let about = |error: Error| error.about(path);
        let (file, offset) = match &mut self.to {
            To::Stream(stream) => {
                return stream
                    .write_all(bytes)
                    .and_then(|()| stream.flush())
                    .map_err(|cause| Error::io(Operation::Write, path, cause));
            }
            To::Growing { file, offset } => (&*file, offset),
            To::Whole { fs, target, mode, written } => {
                let unfinished = match written {
                    Some(unfinished) => unfinished,
                    none => {
                        let (path, file) =
                            create_unfinished(&**fs, target, *mode).map_err(about)?;
                        none.insert(Unfinished { path, file, offset: 0 })
                    }
                };
                (&unfinished.file, &mut unfinished.offset)
            }
        };
        file.write_at(*offset, bytes).map_err(about)?;
        *offset += bytes.len() as u64;
        Ok(())
    }

    /// Ends the content. A whole file takes its name now, durably, and may be written again from
    /// its front. A growing file is synced; of a stream nothing is left to do.
    ///
    /// # Errors
    /// What the system answers; [`Error::BadPath`] when something other than a regular file came to
    /// the path meanwhile.
    pub fn finish(&mut self) -> Result<()> {
        if matches!(self.to, To::Whole { written: None, .. }) {
            self.append(b"")?;
        }
        let path = &self.path;
        let about = |error: Error| error.about(path);
        let (fs, target, written) = match &mut self.to {
            To::Stream(_) => return Ok(()),
            To::Growing { file, .. } => return file.sync_data().map_err(about),
            To::Whole { fs, target, written, .. } => (fs, target, written),
        };
        match fs.metadata(target) {
            Ok(found) if found.kind == FileKind::File => {}
            Ok(_) => {
                return Err(Error::BadPath {
                    operation: Operation::Write,
                    path: path.clone(),
                    reason: "is no longer a regular file",
                });
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(about(error)),
        }
        let Some(Unfinished { path: hidden, file, .. }) = written.take() else { return Ok(()) };
        publish(&**fs, &hidden, file, target).map_err(about)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(Error::into_io)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let To::Whole { fs, written: Some(unfinished), .. } = &self.to {
            // Nobody finished it; a hidden file that stays behind is harmless.
            let _ = fs.remove_file(&unfinished.path);
        }
    }
}

/// Writes a whole result to the path that a user named.
///
/// # Errors
/// As [`OutputFile::whole`], [`OutputFile::append`] and [`OutputFile::finish`].
pub fn write_output(fs: &Arc<dyn Fs>, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = OutputFile::whole(fs, path)?;
    output.append(bytes)?;
    output.finish()
}

/// Where a result goes on a file system that has regular files and directories alone.
pub(crate) fn plain_place<F: Fs + ?Sized>(fs: &F, path: &Path) -> Result<OutputPlace> {
    match fs.metadata(path) {
        Ok(found) if found.kind == FileKind::Dir => {
            Err(Error::io(Operation::Write, path, Errno::ISDIR))
        }
        Err(error) if !error.is_not_found() => Err(error.about(path)),
        _ => Ok(OutputPlace::File { path: path.to_owned(), mode: None }),
    }
}
