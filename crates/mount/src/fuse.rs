//! Requests of the kernel, and replies.

use crate::tree::{Answer, Known, Owner, Tree};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use keyrack_deltafs::{IfExists, IfTaken, Kind, Namespace, SetAttributes, SetTime, Stat};
use keyrack_vfs::Fs;
use nix::libc;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the kernel may remember: nobody else changes anything.
const TTL: Duration = Duration::from_secs(60);
/// Numbers of files are never given twice.
const GENERATION: Generation = Generation(0);
/// The unit of the figures of free space.
const BLOCK_BYTES: u32 = 4096;
const NAME_BYTES_MAX: u32 = 255;

/// The file system that the kernel sees.
pub(crate) struct FuseServer {
    tree: Mutex<Tree>,
    disk: Arc<dyn Fs>,
    store: PathBuf,
}

impl FuseServer {
    pub(crate) fn new(
        space: Namespace,
        disk: Arc<dyn Fs>,
        store: PathBuf,
    ) -> keyrack_deltafs::Result<FuseServer> {
        Ok(FuseServer { tree: Mutex::new(Tree::new(space)?), disk, store })
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

fn time(ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(ns)
}

/// Nanoseconds since 1970. What was before is at its beginning.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Dir => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
    }
}

fn attributes(number: u64, stat: &Stat) -> FileAttr {
    let mtime = time(stat.mtime_ns);
    FileAttr {
        ino: INodeNo(number),
        size: stat.size,
        blocks: stat.size.div_ceil(512),
        atime: mtime,
        mtime,
        ctime: time(stat.ctime_ns),
        crtime: mtime,
        kind: file_type(stat.kind),
        perm: (stat.mode & keyrack_deltafs::MODE_BITS) as u16,
        nlink: u32::try_from(stat.nlink).unwrap_or(u32::MAX),
        uid: stat.uid,
        gid: stat.gid,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

fn entry(reply: ReplyEntry, known: Answer<Known>) {
    match known {
        Ok((number, stat)) => reply.entry(&TTL, &attributes(number, &stat), GENERATION),
        Err(error) => reply.error(error),
    }
}

fn empty(reply: ReplyEmpty, done: Answer<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn facts(reply: ReplyAttr, number: u64, stat: Answer<Stat>) {
    match stat {
        Ok(stat) => reply.attr(&TTL, &attributes(number, &stat)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for FuseServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // An older kernel goes without.
        let wanted = InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
        let _ = config.add_capabilities(wanted);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(reply, self.tree().lookup(parent.0, name.as_bytes()));
    }

    fn forget(&self, _: &Request, number: INodeNo, count: u64) {
        self.tree().forget(number.0, count);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let stat = self.tree().stat(number.0);
        facts(reply, number.0, stat);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mtime = mtime.map(|mtime| match mtime {
            TimeOrNow::Now => SetTime::Now,
            TimeOrNow::SpecificTime(time) => SetTime::Ns(nanoseconds(time)),
        });
        let set = SetAttributes { mode, uid, gid, size, mtime };
        let stat = self.tree().set(number.0, &set);
        facts(reply, number.0, stat);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.tree().read_link(number.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        if mode & libc::S_IFMT != libc::S_IFREG {
            return reply.error(Errno::EPERM);
        }
        let name = name.as_bytes();
        let made = self.tree().make_file(parent.0, name, mode, owner(request), IfExists::Fail);
        entry(reply, made);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        entry(reply, self.tree().make_dir(parent.0, name.as_bytes(), mode, owner(request)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.tree().unlink(parent.0, name.as_bytes()));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.tree().remove_dir(parent.0, name.as_bytes()));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str().as_bytes();
        entry(reply, self.tree().make_link(parent.0, name.as_bytes(), target, owner(request)));
    }

    fn link(
        &self,
        _: &Request,
        number: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        entry(reply, self.tree().link(number.0, new_parent.0, new_name.as_bytes()));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let if_taken = if flags == RenameFlags::empty() {
            IfTaken::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            IfTaken::Fail
        } else {
            return reply.error(Errno::EINVAL);
        };
        let (from, to) = ((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()));
        empty(reply, self.tree().rename(from, to, if_taken));
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.tree().open(number.0) {
            Ok(()) => reply.opened(FileHandle(number.0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let if_exists = if flags & libc::O_EXCL == 0 { IfExists::Open } else { IfExists::Fail };
        let mut tree = self.tree();
        let made = tree
            .make_file(parent.0, name.as_bytes(), mode, owner(request), if_exists)
            .and_then(|(number, stat)| tree.open(number).map(|()| (number, stat)));
        let (number, mut stat) = match made {
            Ok(known) => known,
            Err(error) => return reply.error(error),
        };
        // A name that the kernel did not know of: it was told otherwise before, and asks anew.
        if flags & libc::O_TRUNC != 0 && stat.size > 0 {
            let set = SetAttributes { size: Some(0), ..SetAttributes::default() };
            match tree.set(number, &set) {
                Ok(changed) => stat = changed,
                Err(error) => {
                    tree.close(number);
                    return reply.error(error);
                }
            }
        }
        let attributes = attributes(number, &stat);
        reply.created(&TTL, &attributes, GENERATION, FileHandle(number), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.tree().read(number.0, offset, size as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.tree().write(number.0, offset, data) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Nothing is held back.
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.tree().close(number.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.tree().sync());
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.tree().open_dir(number.0) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.tree().list(handle.0, offset, |tree, next, _, name, stat| {
            let (ino, kind) = match &stat {
                Some(stat) => (tree.number(stat), file_type(stat.kind)),
                None => (number.0, FileType::Directory),
            };
            Ok(!reply.add(INodeNo(ino), next, kind, OsStr::from_bytes(name)))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.tree().list(handle.0, offset, |tree, next, dir, name, stat| {
            let shown = OsStr::from_bytes(name);
            let Some(stat) = stat else {
                // The kernel takes no notice of the facts of `.` and `..`.
                let stat = tree.stat(number.0)?;
                let attributes = attributes(number.0, &stat);
                return Ok(!reply.add(number, next, shown, &TTL, &attributes, GENERATION));
            };
            // What is gone since the page was read is not told.
            let Ok((ino, stat)) = tree.lookup_listed(dir, name, stat) else { return Ok(true) };
            let is_full =
                reply.add(INodeNo(ino), next, shown, &TTL, &attributes(ino, &stat), GENERATION);
            if is_full {
                tree.forget(ino, 1);
            }
            Ok(!is_full)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.tree().close_dir(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(reply, self.tree().sync());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.disk.space(&self.store) {
            Ok(space) => {
                let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
                let free = blocks(space.free_bytes);
                let total = blocks(space.total_bytes);
                let (names, left) = self.tree().names();
                let of = BLOCK_BYTES;
                reply.statfs(total, free, free, names, left, of, NAME_BYTES_MAX, of);
            }
            Err(_) => reply.error(Errno::EIO),
        }
    }
}
