//! The operating system's file system. A thin layer: each method is one or a few system calls, and
//! errors get their path. Linux tells the kind of file system by its `statfs` number; other systems
//! say `unknown`.

#![expect(clippy::disallowed_methods, reason = "this is the door that everybody else goes through")]

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::{File, Lock};
use crate::fs::{
    DirEntry, FileKind, Fs, FsKind, Metadata, OpenOptions, Space, check_removable, is_link,
};
use crate::output::OutputPlace;
use crate::real_file::RealFile;
use crate::relative::RelativePath;

/// Bytes of a lock file that are looked at for its holder's number.
const HOLDER_BYTES_MAX: usize = 16;

/// The operating system's file system. Carries no state; paths are passed on as given.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

/// From here on, what this process makes is for its owner alone, unless it says otherwise: files of
/// mode 0600, directories of mode 0700. For programs that keep other people's data; called before
/// the first file is made, since it holds for all threads.
///
/// What a user names for results keeps to the umask that was there before: see
/// [`OutputFile`](crate::OutputFile).
pub fn keep_private() {
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(PRIVATE));
    // A second call finds its own mask, and the first one's stays.
    let _ = USERS_UMASK.set(before.bits());
}

/// Whose a file is, and who else may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The permission bits, as `chmod` takes them.
    pub mode: u32,
    /// The user that it belongs to.
    pub owner: u32,
    /// The user that this process acts as.
    pub own: u32,
}

/// Whose the file at `path` is. Symbolic links are followed.
///
/// # Errors
/// A file that is not there, or cannot be looked at.
pub fn access(path: &Path) -> Result<Access> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path).map_err(|cause| Error::io(Operation::Metadata, path, cause))?;
    let own = rustix::process::geteuid().as_raw();
    Ok(Access { mode: found.mode() & 0o7777, owner: found.uid(), own })
}

/// The umask of private programs.
const PRIVATE: u32 = 0o077;
/// The user's umask, once [`keep_private`] has replaced it.
static USERS_UMASK: OnceLock<u32> = OnceLock::new();
/// Permission bits of a new file, before any umask.
const NEW_FILE: u32 = 0o666;
/// Symbolic links that are followed one after the other, as the kernel does.
const LINKS_MAX: u32 = 40;

/// The name behind the symbolic links of `path`, and whether one of them is a descriptor of a
/// process (`/dev/stdout`, `/dev/fd/3`). What lies behind need not exist.
fn behind_links(path: &Path) -> Result<(PathBuf, bool)> {
    let mut at = path.to_owned();
    for _ in 0..LINKS_MAX {
        let target = match fs::read_link(&at) {
            Ok(target) => target,
            // No link, or nothing: this is the name.
            Err(cause)
                if matches!(
                    cause.kind(),
                    io::ErrorKind::InvalidInput | io::ErrorKind::NotFound
                ) =>
            {
                return Ok((at, false));
            }
            Err(cause) => return Err(Error::io(Operation::Write, path, cause)),
        };
        let dir = crate::fs::parent_of(&at);
        if magic_of(dir).is_ok_and(|magic| magic == PROC_MAGIC) && path_is_descriptor(&at) {
            return Ok((at, true));
        }
        // An absolute target replaces what it is joined to.
        at = dir.join(target);
    }
    Err(Error::io(Operation::Write, path, Errno::LOOP))
}

/// The number of /proc as a file system (statfs(2)).
const PROC_MAGIC: u64 = 0x9fa0;

/// Is that a number, as descriptors have?
fn path_is_descriptor(path: &Path) -> bool {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Fs for RealFs {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn File>> {
        let failed = |cause| Error::io(Operation::Open, path, cause);
        if !options.is_valid() {
            return Err(failed(Errno::INVAL.into()));
        }
        // Truncation comes after opening, because opening cannot know about mappings.
        let opened = fs::OpenOptions::new()
            .read(options.read)
            .write(options.write)
            .create(options.create)
            .create_new(options.create_new)
            .open(path);
        let opened = opened.map_err(failed)?;
        if let Some(mode) = options.mode {
            opened.set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
        }
        let file = RealFile::new(path, opened)?;
        if options.truncate && !file.is_empty()? {
            file.set_len(0)?;
        }
        Ok(Arc::new(file))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        fs::create_dir(path).map_err(|cause| Error::io(Operation::CreateDir, path, cause))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|cause| Error::io_pair(Operation::Rename, from, to, cause))
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> Result<()> {
        fs::hard_link(existing, link)
            .map_err(|cause| Error::io_pair(Operation::Link, existing, link, cause))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|cause| Error::io(Operation::RemoveFile, path, cause))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).map_err(|cause| Error::io(Operation::RemoveDir, path, cause))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let failed = |cause| Error::io(Operation::List, path, cause);
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = match entry.file_type() {
                Ok(kind) => kind_of(kind),
                // Removed between the listing and the question, on file systems that need the
                // question.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
                Err(cause) => return Err(failed(cause)),
            };
            entries.push(DirEntry { name: entry.file_name(), kind });
        }
        entries.sort();
        Ok(entries)
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let failed = |cause| Error::io(Operation::Metadata, path, cause);
        let found = fs::metadata(path).map_err(failed)?;
        let modified = found.modified().map_err(failed)?;
        Ok(Metadata { len: found.len(), kind: kind_of(found.file_type()), modified })
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let failed = |cause| Error::io(Operation::SyncDir, path, cause);
        let dir = fs::File::open(path).map_err(failed)?;
        if !dir.metadata().map_err(failed)?.is_dir() {
            return Err(failed(Errno::NOTDIR.into()));
        }
        dir.sync_all().map_err(failed)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        let failed = |cause| Error::io(Operation::Lock, path, cause);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(Error::Locked { path: path.to_owned(), holder_pid: holder(&file) });
            }
            Err(fs::TryLockError::Error(cause)) => return Err(failed(cause)),
        }
        // The number is a courtesy to whoever is refused: a full disk must not keep anybody from
        // locking.
        let note = format!("{}\n", process::id());
        let _ = file.set_len(0).and_then(|()| file.write_all_at(note.as_bytes(), 0));
        Ok(Box::new(RealLock { path: path.to_owned(), file }))
    }

    fn space(&self, path: &Path) -> Result<Space> {
        let found =
            rustix::fs::statvfs(path).map_err(|errno| Error::io(Operation::Space, path, errno))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { free_bytes: bytes(found.f_bavail), total_bytes: bytes(found.f_blocks) })
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        let magic = magic_of(path).map_err(|errno| Error::io(Operation::Space, path, errno))?;
        let known = KINDS.iter().find(|kind| kind.magic == magic);
        Ok(known.copied().unwrap_or(FsKind { name: "unknown", magic, is_ram: false }))
    }

    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        fs::canonicalize(path).map_err(|cause| Error::io(Operation::Canonicalize, path, cause))
    }

    fn output_place(&self, path: &Path) -> Result<OutputPlace> {
        let failed = |cause| Error::io(Operation::Write, path, cause);
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            Err(cause) => return Err(failed(cause)),
        };
        let (target, is_descriptor) = behind_links(path)?;
        let stream = |options: &mut fs::OpenOptions| -> Result<OutputPlace> {
            Ok(OutputPlace::Stream(Box::new(options.open(path).map_err(failed)?)))
        };
        let Some(found) = found else {
            if path.as_os_str().as_bytes().ends_with(b"/") {
                return Err(failed(Errno::ISDIR.into()));
            }
            let mode = USERS_UMASK.get().map(|mask| NEW_FILE & !mask);
            return Ok(OutputPlace::File { path: target, mode });
        };
        let kind = found.file_type();
        if kind.is_dir() {
            return Err(failed(Errno::ISDIR.into()));
        }
        if kind.is_socket() {
            let (operation, path) = (Operation::Write, path.to_owned());
            return Err(Error::BadPath { operation, path, reason: "is a socket" });
        }
        if !kind.is_file() {
            return stream(fs::OpenOptions::new().write(true));
        }
        if is_descriptor {
            // Whoever opened it has the file's name, and goes on writing behind us.
            return stream(fs::OpenOptions::new().append(true));
        }
        let mode = Some(found.permissions().mode() & 0o777);
        Ok(OutputPlace::File { path: target, mode })
    }

    /// Asks about each name, and lists nothing.
    fn refuse_links(&self, root: &Path, path: &RelativePath) -> Result<()> {
        let mut at = root.to_owned();
        for name in path.as_str().split('/') {
            at.push(name);
            match fs::symlink_metadata(&at) {
                Ok(found) if found.is_symlink() => return Err(is_link(&at)),
                Ok(_) => {}
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(cause) => return Err(Error::io(Operation::Metadata, &at, cause)),
            }
        }
        Ok(())
    }

    /// The standard library's walk holds each directory open and does not follow links, even ones
    /// that are swapped in meanwhile.
    fn remove_dir_all(&self, path: &Path) -> Result<()> {
        check_removable(path)?;
        let failed = |cause| Error::io(Operation::RemoveDir, path, cause);
        if !fs::symlink_metadata(path).map_err(failed)?.is_dir() {
            return Err(failed(Errno::NOTDIR.into()));
        }
        fs::remove_dir_all(path).map_err(failed)
    }
}

fn kind_of(kind: fs::FileType) -> FileKind {
    if kind.is_file() {
        FileKind::File
    } else if kind.is_dir() {
        FileKind::Dir
    } else if kind.is_symlink() {
        FileKind::Symlink
    } else {
        FileKind::Other
    }
}

/// A lock on an open file description. The kernel drops it when the process dies.
#[derive(Debug)]
struct RealLock {
    path: PathBuf,
    file: fs::File,
}

impl Lock for RealLock {
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // The number goes first, so that nobody is ever told a holder that has let go. Both steps
        // may fail without harm: closing the file unlocks it.
        let _ = self.file.set_len(0);
        let _ = self.file.unlock();
    }
}

/// The process number in a lock file, if there is one.
fn holder(file: &fs::File) -> Option<u32> {
    let mut bytes = [0; HOLDER_BYTES_MAX];
    let count = file.read_at(&mut bytes, 0).ok()?;
    str::from_utf8(&bytes[..count]).ok()?.trim_end().parse().ok()
}

#[cfg(target_os = "linux")]
fn magic_of(path: &Path) -> std::result::Result<u64, Errno> {
    // The field is signed and of machine width, the numbers have 32 bits.
    Ok(rustix::fs::statfs(path)?.f_type as u64 & 0xffff_ffff)
}

#[cfg(not(target_os = "linux"))]
fn magic_of(path: &Path) -> std::result::Result<u64, Errno> {
    rustix::fs::statvfs(path).map(|_| 0)
}

/// The numbers of Linux file systems that people put databases on (statfs(2)).
const KINDS: [FsKind; 14] = [
    FsKind { name: "tmpfs", magic: 0x0102_1994, is_ram: true },
    FsKind { name: "ramfs", magic: 0x8584_58f6, is_ram: true },
    FsKind { name: "hugetlbfs", magic: 0x9584_58f6, is_ram: true },
    FsKind { name: "ext4", magic: 0xef53, is_ram: false },
    FsKind { name: "xfs", magic: 0x5846_5342, is_ram: false },
    FsKind { name: "btrfs", magic: 0x9123_683e, is_ram: false },
    FsKind { name: "zfs", magic: 0x2fc1_2fc1, is_ram: false },
    FsKind { name: "f2fs", magic: 0xf2f5_2010, is_ram: false },
    FsKind { name: "overlayfs", magic: 0x794c_7630, is_ram: false },
    FsKind { name: "nfs", magic: 0x6969, is_ram: false },
    FsKind { name: "cifs", magic: 0xff53_4d42, is_ram: false },
    FsKind { name: "fuse", magic: 0x6573_5546, is_ram: false },
    FsKind { name: "9p", magic: 0x0102_1997, is_ram: false },
    FsKind { name: "bcachefs", magic: 0xca45_1a4e, is_ram: false },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn proc_is_unknown_and_shared_memory_is_ram() {
        let kind = RealFs.fs_kind(Path::new("/proc")).unwrap();
        assert_eq!((kind.name, kind.magic, kind.is_ram), ("unknown", 0x9fa0, false));
        let shm = Path::new("/dev/shm");
        if RealFs.exists(shm).unwrap() {
            let kind = RealFs.fs_kind(shm).unwrap();
            assert!(kind.is_ram, "{kind:?}");
        }
    }

    #[test]
    fn no_two_kinds_share_a_number() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..index].iter().all(|other| other.magic != kind.magic), "{kind:?}");
        }
    }
}
