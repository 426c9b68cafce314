//! The file system contract. One trait, safe to use as `Arc<dyn Fs>`; the calls that need the
//! system come first, and helpers written once on top of them follow.
//!
//! Paths are passed on as given. Relative ones are relative to the working directory on
//! [`RealFs`](crate::RealFs) and to the root on [`MemFs`](crate::MemFs).

use std::ffi::OsString;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::{File, Lock};
use crate::mix::Mix;
use crate::output::{OutputPlace, plain_place};
use crate::relative::RelativePath;

/// Names that a unique creation tries before it gives up.
const UNIQUE_ATTEMPTS_MAX: u32 = 1_000;

/// How to open a file. Nothing is set at first. [`OpenOptions::create`],
/// [`OpenOptions::create_new`] and [`OpenOptions::truncate`] need [`OpenOptions::write`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    pub(crate) truncate: bool,
    pub(crate) mode: Option<u32>,
}

impl OpenOptions {
    /// No right and no creation: set at least one of read and write.
    pub const fn new() -> Self {
        Self {
            read: false,
            write: false,
            create: false,
            create_new: false,
            truncate: false,
            mode: None,
        }
    }

    /// May bytes be read?
    #[must_use]
    pub const fn read(mut self, yes: bool) -> Self {
        self.read = yes;
        self
    }

    /// May bytes be written?
    #[must_use]
    pub const fn write(mut self, yes: bool) -> Self {
        self.write = yes;
        self
    }

    /// Is a missing file created? Its name is durable only after [`Fs::sync_dir`].
    #[must_use]
    pub const fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// Must the file be new? An existing name, even a symbolic link, is then an error.
    #[must_use]
    pub const fn create_new(mut self, yes: bool) -> Self {
        self.create_new = yes;
        self
    }

    /// Is an existing file cut to nothing? Refused while it is mapped.
    #[must_use]
    pub const fn truncate(mut self, yes: bool) -> Self {
        self.truncate = yes;
        self
    }

    /// The permission bits that the file gets, whatever the umask. `None` leaves them to the
    /// system. [`MemFs`](crate::MemFs) knows none.
    #[must_use]
    pub const fn mode(mut self, mode: Option<u32>) -> Self {
        self.mode = mode;
        self
    }

    /// Do the options fit together?
    pub(crate) const fn is_valid(self) -> bool {
        let changes = self.create || self.create_new || self.truncate;
        self.write || (self.read && !changes)
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileKind {
    /// Bytes.
    File,
    /// A directory.
    Dir,
    /// A symbolic link; only listings show it.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: OsString,
    /// What it stands for; symbolic links are not followed.
    pub kind: FileKind,
}

/// What is known about a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes; of no meaning for directories.
    pub len: u64,
    /// What the path stands for.
    pub kind: FileKind,
    /// Last change of the content. [`MemFs`](crate::MemFs) counts changes instead of reading a
    /// clock: the n-th change of anything is n nanoseconds after 1970.
    pub modified: SystemTime,
}

/// Room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this user may still write.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
}

/// The kind of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsKind {
    /// Its usual name, such as `ext4` or `tmpfs`, or `unknown`.
    pub name: &'static str,
    /// The system's number for it, or 0 where there is none.
    pub magic: u64,
    /// Does it live in memory alone? Then no sync means anything for a power loss.
    pub is_ram: bool,
}

/// A file system. See the crate documentation for what each sync promises.
///
/// Interruptions by signals are retried by the implementation, but for the two primitives of
/// [`File`], whose full calls retry. Every method fails when the system does; `# Errors` sections
/// name what is special.
pub trait Fs: Send + Sync + Debug {
    /// Opens or creates a file. A directory is refused.
    ///
    /// # Errors
    /// "Not found" without `create`, "already exists" with `create_new`, "invalid input" when the
    /// options do not fit together, [`Error::Mapped`] when `truncate` meets a live mapping.
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn File>>;

    /// Creates one directory. Durable after [`Fs::sync_dir`] of its parent.
    ///
    /// # Errors
    /// "Not found" when the parent is missing, "already exists" when the name is taken.
    fn create_dir(&self, path: &Path) -> Result<()>;

    /// Renames, replacing a file that has the new name. At every moment, and after a crash, the new
    /// name stands for the old file or for the new one, never for nothing. Durable after
    /// [`Fs::sync_dir`] of the directories.
    ///
    /// # Errors
    /// "Not found" when there is no `from`; a directory is replaced only when empty and by a
    /// directory.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives the file `existing` a second name. Durable after [`Fs::sync_dir`] of the directory of
    /// `link`.
    ///
    /// # Errors
    /// "Already exists" when `link` is taken.
    fn hard_link(&self, existing: &Path, link: &Path) -> Result<()>;

    /// Removes the name of a file (or of a symbolic link). Open handles go on working.
    ///
    /// # Errors
    /// "Not found" when there is none; directories are refused.
    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// "Not found" when there is none, "directory not empty" when it has names.
    fn remove_dir(&self, path: &Path) -> Result<()>;

    /// The names in a directory, sorted by name, without `.` and `..`. O(n log n) for n names.
    ///
    /// # Errors
    /// "Not found" when there is none, "not a directory" for a file.
    fn list(&self, path: &Path) -> Result<Vec<DirEntry>>;

    /// What is known about a path. Symbolic links are followed.
    ///
    /// # Errors
    /// "Not found" when there is nothing.
    fn metadata(&self, path: &Path) -> Result<Metadata>;

    /// Makes the names in a directory durable: everything created, removed or renamed in it so far.
    /// Neither the bytes of the files nor the directory's own name in its parent are included.
    ///
    /// # Errors
    /// A failure is final, as for [`File::sync_data`].
    fn sync_dir(&self, path: &Path) -> Result<()>;

    /// Takes the exclusive lock of the file at `path`, creating it if missing, and leaves this
    /// process's number in it. The lock binds those who ask for it. It goes when the guard is
    /// dropped or the process ends. Never waits.
    ///
    /// # Errors
    /// [`Error::Locked`] when somebody holds it, in this process or another.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>>;

    /// Room on the file system that holds `path`.
    ///
    /// # Errors
    /// "Not found" when there is nothing at `path`.
    fn space(&self, path: &Path) -> Result<Space>;

    /// The kind of the file system that holds `path`.
    ///
    /// # Errors
    /// "Not found" when there is nothing at `path`.
    fn fs_kind(&self, path: &Path) -> Result<FsKind>;

    /// The absolute path without `.`, `..` and symbolic links.
    ///
    /// # Errors
    /// "Not found" when there is nothing at `path`.
    fn canonicalize(&self, path: &Path) -> Result<PathBuf>;

    /// A number for unique names: no two calls of one process, and hardly two of one machine,
    /// return the same.
    fn unique_number(&self) -> u64 {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only the distinctness of the values matters, and they publish nothing.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Mix::new((u64::from(process::id()) << 32) ^ count).next()
    }

    /// Is there something at that path? Symbolic links are followed.
    ///
    /// # Errors
    /// Fails when the system cannot tell.
    fn exists(&self, path: &Path) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Creates a directory and its missing parents. An existing directory is fine. Syncs nothing:
    /// for durability sync the parent of each.
    ///
    /// # Errors
    /// "Already exists" when a file is in the way.
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let created = match self.create_dir(path) {
            Err(error) if error.is_not_found() => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => {
                    self.create_dir_all(parent)?;
                    self.create_dir(path)
                }
                _ => Err(error),
            },
            other => other,
        };
        match created {
            // Another thread may have been first, which is as good.
            Err(error) => match self.metadata(path) {
                Ok(found) if found.kind == FileKind::Dir => Ok(()),
                _ => Err(error),
            },
            Ok(()) => Ok(()),
        }
    }

    /// Removes a directory with everything in it. Symbolic links in it are removed, never followed.
    /// A `path` without a final name (`/`, `..`, empty) or that is itself a link is refused. Nobody
    /// should add names meanwhile.
    ///
    /// # Errors
    /// "Not found" when there is none, [`Error::BadPath`] as said. Stops at the first name that
    /// cannot be removed.
    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        check_removable(path)?;
        let parent = parent_of(path);
        // The listing of the parent shows links as links; metadata would look through them.
        let listed = self.list(parent)?;
        match listed.iter().find(|entry| Some(entry.name.as_os_str()) == path.file_name()) {
            None => Err(Error::io(Operation::RemoveDir, path, Errno::NOENT)),
            Some(entry) if entry.kind == FileKind::Dir => remove_tree(self, path),
            Some(_) => Err(Error::io(Operation::RemoveDir, path, Errno::NOTDIR)),
        }
    }

    /// Refuses a path below `root` that passes through, or is, a symbolic link. `root` itself may
    /// be one. What is not there is no link. O(components), and O(names) of their directories where
    /// a file system has no faster way.
    ///
    /// The check and what follows it are two steps: whoever may exchange names in the directories
    /// meanwhile is not kept out by this.
    ///
    /// # Errors
    /// [`Error::BadPath`] for a link; fails when the system cannot tell.
    fn refuse_links(&self, root: &Path, path: &RelativePath) -> Result<()> {
        let mut at = root.to_owned();
        for name in path.as_str().split('/') {
            let parent = at.clone();
            at.push(name);
            // The listing shows links as links; metadata would look through them.
            let listed = match self.list(&parent) {
                Err(error) if error.is_not_found() => return Ok(()),
                listed => listed?,
            };
            let found = listed.iter().find(|entry| entry.name == *name);
            if found.is_some_and(|entry| entry.kind == FileKind::Symlink) {
                return Err(is_link(&at));
            }
        }
        Ok(())
    }

    /// Makes the name of `path` durable: syncs its directory.
    ///
    /// # Errors
    /// As for [`Fs::sync_dir`].
    fn sync_parent(&self, path: &Path) -> Result<()> {
        self.sync_dir(parent_of(path))
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// "Not found" when there is none.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.open(path, &OpenOptions::new().read(true))?;
        let len = file.len()?;
        let mut bytes = zeroed(path, len)?;
        let mut filled = file.read_at(0, &mut bytes)?;
        // The file may have grown, or be one of those that report no length (as in /proc).
        let mut chunk = [0; 4_096];
        while filled == bytes.len() {
            let more = file.read_at(filled as u64, &mut chunk)?;
            if more == 0 {
                break;
            }
            bytes.extend_from_slice(&chunk[..more]);
            filled += more;
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// The whole content of a text file.
    ///
    /// # Errors
    /// "Not found" when there is none, [`Error::NotUtf8`] when it is not text.
    fn read_to_string(&self, path: &Path) -> Result<String> {
        String::from_utf8(self.read(path)?).map_err(|error| Error::NotUtf8 {
            path: path.to_owned(),
            valid_up_to: error.utf8_error().valid_up_to(),
        })
    }

    /// Replaces the content of a file at one stroke: after a crash at any point the name stands for
    /// the whole old content or for the whole new one, and after `Ok` for the new one. Writes a
    /// hidden file beside it (`.NAME.HEX.tmp`), syncs it, renames it, syncs the directory. A crash
    /// can leave the hidden file behind; an error removes it if that is still possible, and names
    /// `path`. For the files of a store; what a user names goes through
    /// [`OutputFile`](crate::OutputFile).
    ///
    /// # Errors
    /// Any step's. After a failed last step (syncing the directory) the new content is visible but
    /// perhaps not durable.
    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let (unfinished, file) = create_unfinished(self, path, None)?;
        if let Err(error) = file.write_at(0, bytes) {
            // The first error is the one to report; a file that stays behind is harmless.
            let _ = self.remove_file(&unfinished);
            return Err(error.about(path));
        }
        publish(self, &unfinished, file, path)
    }

    /// Where the bytes of a result go whose path a user named: behind symbolic links, or into what
    /// cannot be replaced. See [`OutputFile`](crate::OutputFile).
    ///
    /// # Errors
    /// The path is a directory or a socket, cannot be looked at, or cannot be opened.
    fn output_place(&self, path: &Path) -> Result<OutputPlace> {
        plain_place(self, path)
    }

    /// Creates a new directory `PREFIX-HEX` in `parent` and returns its path.
    ///
    /// # Errors
    /// "Not found" when `parent` is missing.
    fn create_unique_dir(&self, parent: &Path, prefix: &str) -> Result<PathBuf> {
        try_names(|| {
            let candidate = parent.join(format!("{prefix}-{:016x}", self.unique_number()));
            self.create_dir(&candidate).map(|()| candidate)
        })
    }

    /// Bytes in all files below `path`, or in the file at `path`. Holes count as bytes, a file with
    /// two names counts twice, links and whatever is removed meanwhile count nothing. O(names).
    ///
    /// # Errors
    /// "Not found" when there is nothing at `path`.
    fn size_recursive(&self, path: &Path) -> Result<u64> {
        let found = self.metadata(path)?;
        if found.kind != FileKind::Dir {
            return Ok(found.len);
        }
        let mut total = 0_u64;
        let mut pending = vec![path.to_owned()];
        while let Some(dir) = pending.pop() {
            let entries = match self.list(&dir) {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            for entry in entries {
                let inside = dir.join(&entry.name);
                match entry.kind {
                    FileKind::Dir => pending.push(inside),
                    FileKind::File => match self.metadata(&inside) {
                        Ok(found) => total = total.saturating_add(found.len),
                        Err(error) if error.is_not_found() => {}
                        Err(error) => return Err(error),
                    },
                    FileKind::Symlink | FileKind::Other => {}
                }
            }
        }
        Ok(total)
    }
}

/// The directory that holds the name of `path`; `.` for a bare name.
pub(crate) fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// The error of [`Fs::refuse_links`].
pub(crate) fn is_link(path: &Path) -> Error {
    let reason = "is a symbolic link, which is not followed here";
    Error::BadPath { operation: Operation::Metadata, path: path.to_owned(), reason }
}

/// Refuses paths that do not name one directory entry.
pub(crate) fn check_removable(path: &Path) -> Result<()> {
    if path.file_name().is_some() {
        return Ok(());
    }
    let reason = "has no final name";
    Err(Error::BadPath { operation: Operation::RemoveDir, path: path.to_owned(), reason })
}

/// Removes the directory `path` and what is in it, deepest first. Uses a list and not the call
/// stack, so depth costs memory only.
fn remove_tree<F: Fs + ?Sized>(fs: &F, path: &Path) -> Result<()> {
    let mut pending = vec![path.to_owned()];
    let mut emptied = Vec::new();
    while let Some(dir) = pending.pop() {
        for entry in fs.list(&dir)? {
            let inside = dir.join(&entry.name);
            if entry.kind == FileKind::Dir {
                pending.push(inside);
            } else {
                fs.remove_file(&inside)?;
            }
        }
        emptied.push(dir);
    }
    // A directory is pushed before everything inside it, so the reverse order empties first.
    emptied.iter().rev().try_for_each(|dir| fs.remove_dir(dir))
}

/// Creates the hidden file that will take the name `target`. Errors name `target`.
pub(crate) fn create_unfinished<F: Fs + ?Sized>(
    fs: &F,
    target: &Path,
    mode: Option<u32>,
) -> Result<(PathBuf, Arc<dyn File>)> {
    let Some(name) = target.file_name() else {
        let reason = "has no final name";
        return Err(Error::BadPath {
            operation: Operation::Write,
            path: target.to_owned(),
            reason,
        });
    };
    let options = OpenOptions::new().write(true).create_new(true).mode(mode);
    let created = try_names(|| {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{:016x}.tmp", fs.unique_number()));
        let candidate = target.with_file_name(hidden);
        fs.open(&candidate, &options).map(|file| (candidate, file))
    });
    created.map_err(|error| error.about(target))
}

/// Gives a hidden file its name, durably. An error removes it if that is still possible, and names
/// `target`.
pub(crate) fn publish<F: Fs + ?Sized>(
    fs: &F,
    unfinished: &Path,
    file: Arc<dyn File>,
    target: &Path,
) -> Result<()> {
    let synced = file.sync_all();
    drop(file);
    if let Err(error) = synced.and_then(|()| fs.rename(unfinished, target)) {
        // The first error is the one to report; a file that stays behind is harmless.
        let _ = fs.remove_file(unfinished);
        return Err(error.about(target));
    }
    fs.sync_parent(target).map_err(|error| error.about(target))
}

/// Runs `create` until it does not meet a taken name.
fn try_names<T>(create: impl Fn() -> Result<T>) -> Result<T> {
    let mut attempt = 1;
    loop {
        match create() {
            Err(error) if error.is_already_exists() && attempt < UNIQUE_ATTEMPTS_MAX => {
                attempt += 1;
            }
            other => return other,
        }
    }
}

/// A buffer of `len` zeros. A length that memory cannot hold is an error, not an abort.
fn zeroed(path: &Path, len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let count = usize::try_from(len).unwrap_or(usize::MAX);
    if bytes.try_reserve_exact(count).is_err() {
        return Err(Error::io(Operation::Read, path, Errno::NOMEM));
    }
    bytes.resize(count, 0);
    Ok(bytes)
}
