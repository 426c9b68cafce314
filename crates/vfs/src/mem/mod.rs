//! A file system in memory that knows what a power loss would leave of it.
//!
//! Everything exists twice, in a live view and on the simulated disk. Writes change the live view;
//! syncs carry it to the disk. [`MemFs::crash_image`] combines the two, by a seed, into one of the
//! disks that a power loss at this moment could leave:
//!
//! ```text
//!    write, rename ...                    sync_data, flush, sync_dir
//!   -------------------> live view  ------------------------------> disk
//!                            |                                       |
//!                            +-----------> crash_image <-------------+
//!                              (seed, policy)   a new MemFs, all durable
//! ```
//!
//! * `content`: one file. Sectors of 512 bytes are lost, kept, or left at an intermediate version
//!   one by one; the length fares apart from the bytes.
//! * `names`: the journal of directory changes and the rules for losing some of them.
//! * `state`: the disk as a whole.
//! * `direct`: files as memory of their own, which a flush writes past the page cache.
//! * here: the locks, handles and paths that make an [`Fs`] of it.
//!
//! The model is as hard as POSIX permits in most respects and harder than ext4 or XFS in some: a
//! synced new file vanishes if its directory was not synced, and a file that was cut and written
//! again may mix old and new sectors. A program that survives it relies on no kindness. Two things
//! are kinder: renames are atomic, and a sync writes everything it should. Damage at rest is not
//! part of the model: write the damage with [`File::write_at`] into an image.
//!
//! Equal histories and equal seeds give equal images. One mutex guards the disk; no call waits for
//! anything else.

mod content;
mod direct;
mod names;
mod policy;
mod state;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::{File, Lock, Mapping, check_range};
use crate::fs::{DirEntry, FileKind, Fs, FsKind, Metadata, OpenOptions, Space};
use crate::mem::content::PAGE_BYTES;
use crate::mem::direct::DirectMapping;
use crate::mem::names::NodeId;
use crate::mem::state::{Body, Raw, State, names_of, pages_of};
use crate::mix::Mix;

pub use policy::{CrashPolicy, FailedSync};

/// Room on a disk that was not told its size: 1 PiB.
const CAPACITY_BYTES: u64 = 1 << 50;

/// A file system in memory. Clones are further handles to the same disk; images are new disks.
#[derive(Clone)]
pub struct MemFs {
    disk: Arc<Mutex<State>>,
}

impl Default for MemFs {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemFs").finish_non_exhaustive()
    }
}

impl MemFs {
    /// An empty disk of practically unlimited size.
    pub fn new() -> Self {
        Self::of(State::new(pages_of(CAPACITY_BYTES)))
    }

    fn of(state: State) -> Self {
        Self { disk: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        state_of(&self.disk)
    }

    /// Sets the size of the disk in bytes, rounded down to pages of 4,096. Only file bytes count. A
    /// disk that is fuller than that already stays as it is and takes no more.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_pages = pages_of(bytes);
    }

    /// Chooses what a failed sync does to the unsynced bytes.
    pub fn set_failed_sync(&self, behaviour: FailedSync) {
        self.state().failed_sync = behaviour;
    }

    /// Says whether files can be mapped by [`File::map_direct`], as they can unless this says
    /// otherwise. Mappings that exist stay what they are.
    pub fn set_map_direct(&self, maps_direct: bool) {
        self.state().maps_direct = maps_direct;
    }

    /// One disk that a power loss at this moment could leave, as a new and wholly durable file
    /// system. This one is unchanged and goes on. Equal histories, seeds and policies give equal
    /// images.
    ///
    /// O(files + pages + n log n) for n pending directory changes; clean pages are shared, not
    /// copied.
    #[must_use]
    pub fn crash_image(&self, seed: u64, policy: CrashPolicy) -> Self {
        Self::of(self.state().crash(seed, policy))
    }

    /// The disk after the process died while the machine runs on: everything in the page cache
    /// survives, and is still unsynced; open handles, mappings and locks are gone.
    #[must_use]
    pub fn process_crash_image(&self) -> Self {
        Self::of(self.state().without_process())
    }
}

fn state_of(disk: &Mutex<State>) -> MutexGuard<'_, State> {
    disk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fs for MemFs {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn File>> {
        let id = self
            .state()
            .open(path, options)
            .map_err(|errno| Error::io(Operation::Open, path, errno))?;
        let file = Arc::new(MemFile {
            path: path.to_owned(),
            options: *options,
            handle: Handle { disk: Arc::clone(&self.disk), id },
            append_turn: Mutex::new(()),
        });
        if options.truncate && !file.is_empty()? {
            file.set_len(0)?;
        }
        Ok(file)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        let done = self.state().create_dir(path);
        done.map_err(|errno| Error::io(Operation::CreateDir, path, errno))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let done = self.state().rename(from, to);
        done.map_err(|errno| Error::io_pair(Operation::Rename, from, to, errno))
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> Result<()> {
        let done = self.state().link(existing, link);
        done.map_err(|errno| Error::io_pair(Operation::Link, existing, link, errno))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let done = self.state().remove_file(path);
        done.map_err(|errno| Error::io(Operation::RemoveFile, path, errno))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let done = self.state().remove_dir(path);
        done.map_err(|errno| Error::io(Operation::RemoveDir, path, errno))
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let state = self.state();
        let entries = |entries: &BTreeMap<_, NodeId>| {
            let entry = |(name, id): (&std::ffi::OsString, &NodeId)| DirEntry {
                name: name.clone(),
                kind: kind_of(&state.node(*id).body),
            };
            entries.iter().map(entry).collect()
        };
        state
            .find(path)
            .and_then(|id| state.dir(id))
            .map(|dir| entries(&dir.live))
            .map_err(|errno| Error::io(Operation::List, path, errno))
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let state = self.state();
        let id = state.find(path).map_err(|errno| Error::io(Operation::Metadata, path, errno))?;
        let node = state.node(id);
        let len = match &node.body {
            Body::File(content) => content.len(),
            Body::Dir(_) => 0,
        };
        let modified = UNIX_EPOCH + Duration::from_nanos(node.modified);
        Ok(Metadata { len, kind: kind_of(&node.body), modified })
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let done = self.state().sync_dir(path);
        done.map_err(|errno| Error::io(Operation::SyncDir, path, errno))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        let failed = |errno| Error::io(Operation::Lock, path, errno);
        let options = OpenOptions::new().read(true).write(true).create(true);
        let id = self.state().open(path, &options).map_err(failed)?;
        let handle = Handle { disk: Arc::clone(&self.disk), id };
        let mut state = self.state();
        let node = state.node_mut(id);
        if node.is_locked {
            // A simulated disk is used by one process: this one.
            drop(state);
            return Err(Error::Locked { path: path.to_owned(), holder_pid: Some(process::id()) });
        }
        node.is_locked = true;
        drop(state);
        Ok(Box::new(MemLock { path: path.to_owned(), handle }))
    }

    fn space(&self, path: &Path) -> Result<Space> {
        let state = self.state();
        state.find(path).map_err(|errno| Error::io(Operation::Space, path, errno))?;
        let bytes = |pages: u64| pages.saturating_mul(PAGE_BYTES as u64);
        let (free, total) = (state.free_pages(), state.capacity_pages);
        Ok(Space { free_bytes: bytes(free), total_bytes: bytes(total) })
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        let found = self.state().find(path);
        found.map_err(|errno| Error::io(Operation::Space, path, errno))?;
        Ok(FsKind { name: "memfs", magic: 0, is_ram: true })
    }

    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        let failed = |errno| Error::io(Operation::Canonicalize, path, errno);
        self.state().find(path).map_err(failed)?;
        let mut absolute = PathBuf::from("/");
        absolute.extend(names_of(path).map_err(failed)?);
        Ok(absolute)
    }

    /// Counts for each disk, so that a replayed history gives the same names.
    fn unique_number(&self) -> u64 {
        let mut state = self.state();
        state.names_given += 1;
        Mix::new(state.names_given).next()
    }
}

fn kind_of(body: &Body) -> FileKind {
    match body {
        Body::File(_) => FileKind::File,
        Body::Dir(_) => FileKind::Dir,
    }
}

/// A counted reference to a file. Dropping it lets go.
struct Handle {
    disk: Arc<Mutex<State>>,
    id: NodeId,
}

impl Handle {
    fn state(&self) -> MutexGuard<'_, State> {
        state_of(&self.disk)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.state().close(self.id);
    }
}

#[derive(Debug)]
struct MemFile {
    path: PathBuf,
    options: OpenOptions,
    handle: Handle,
    append_turn: Mutex<()>,
}

impl MemFile {
    fn failed(&self, operation: Operation) -> impl Fn(Errno) -> Error {
        move |errno| Error::io(operation, &self.path, errno)
    }

    fn writable(&self, errno: Errno) -> Raw<()> {
        if self.options.write { Ok(()) } else { Err(errno) }
    }
}

impl File for MemFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_some_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let readable = if self.options.read { Ok(()) } else { Err(Errno::BADF) };
        let state = self.handle.state();
        readable
            .and_then(|()| Ok(state.file(self.handle.id)?.read(offset, buf)))
            .map_err(self.failed(Operation::Read))
    }

    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.writable(Errno::BADF)
            .and_then(|()| self.handle.state().write(self.handle.id, offset, bytes))
            .map_err(self.failed(Operation::Write))
    }

    fn append_turn(&self) -> &Mutex<()> {
        &self.append_turn
    }

    fn len(&self) -> Result<u64> {
        let state = self.handle.state();
        let content = state.file(self.handle.id).map_err(self.failed(Operation::Metadata))?;
        Ok(content.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.writable(Errno::INVAL).map_err(self.failed(Operation::SetLen))?;
        let mut state = self.handle.state();
        let node = state.node(self.handle.id);
        let mapped_end = node.mapped_ends.iter().copied().max().unwrap_or(0);
        if len < mapped_end {
            return Err(Error::Mapped { path: self.path.clone(), len, mapped_end });
        }
        state.set_len(self.handle.id, len).map_err(self.failed(Operation::SetLen))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.writable(Errno::BADF)
            .and_then(|()| self.handle.state().reserve(self.handle.id, offset, len, false))
            .map_err(self.failed(Operation::Allocate))
    }

    fn sync_data(&self) -> Result<()> {
        self.handle.state().sync_file(self.handle.id, 0, u64::MAX);
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        self.sync_data()
    }

    fn map(&self, offset: u64, len: u64) -> Result<Box<dyn Mapping>> {
        let failed = self.failed(Operation::Map);
        if !(self.options.read && self.options.write) {
            return Err(failed(Errno::ACCESS));
        }
        let id = self.handle.id;
        let mut state = self.handle.state();
        let end = state.file(id).map_err(&failed)?.len();
        check_range(Operation::Map, &self.path, offset, len, end)?;
        if len == 0 {
            let (operation, path) = (Operation::Map, self.path.clone());
            return Err(Error::OutOfRange { operation, path, offset, len, end });
        }
        state.reserve(id, offset, len, true).map_err(&failed)?;
        let node = state.node_mut(id);
        node.mapped_ends.push(offset + len);
        state.hold(id);
        let handle = Handle { disk: Arc::clone(&self.handle.disk), id };
        drop(state);
        Ok(Box::new(MemMapping { path: self.path.clone(), handle, offset, len }))
    }

    fn map_direct(&self, len: u64) -> Result<Option<Box<dyn Mapping>>> {
        let mapping = DirectMapping::new(&self.path, &self.handle, len)?;
        Ok(mapping.map(|mapping| Box::new(mapping) as Box<dyn Mapping>))
    }

    fn lose_unsynced(&self, offset: u64, len: u64) {
        self.handle.state().lose_unsynced(self.handle.id, offset, len);
    }
}

/// A mapped range. Its pages are reserved and inside the file as long as it lives.
#[derive(Debug)]
struct MemMapping {
    path: PathBuf,
    handle: Handle,
    offset: u64,
    len: u64,
}

impl Mapping for MemMapping {
    fn len(&self) -> u64 {
        self.len
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(Operation::Write, &self.path, offset, bytes.len() as u64, self.len)?;
        let written = self.handle.state().write(self.handle.id, self.offset + offset, bytes);
        let count = written.map_err(|errno| Error::io(Operation::Write, &self.path, errno))?;
        assert_eq!(count, bytes.len(), "a mapped range has its space");
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        check_range(Operation::Read, &self.path, offset, buf.len() as u64, self.len)?;
        let state = self.handle.state();
        let content = state
            .file(self.handle.id)
            .map_err(|errno| Error::io(Operation::Read, &self.path, errno))?;
        let count = content.read(self.offset + offset, buf);
        assert_eq!(count, buf.len(), "a mapped range lies within its file");
        Ok(())
    }

    fn flush(&self, offset: u64, len: u64) -> Result<()> {
        check_range(Operation::Flush, &self.path, offset, len, self.len)?;
        self.handle.state().sync_file(self.handle.id, self.offset + offset, len);
        Ok(())
    }
}

impl Drop for MemMapping {
    fn drop(&mut self) {
        let end = self.offset + self.len;
        let mut state = self.handle.state();
        let ends = &mut state.node_mut(self.handle.id).mapped_ends;
        if let Some(index) = ends.iter().position(|mapped| *mapped == end) {
            ends.swap_remove(index);
        }
    }
}

/// A held lock.
#[derive(Debug)]
struct MemLock {
    path: PathBuf,
    handle: Handle,
}

impl Lock for MemLock {
    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.handle.state().node_mut(self.handle.id).is_locked = false;
    }
}
