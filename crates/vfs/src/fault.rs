//! A file system that fails on demand. It wraps any other, counts every operation that passes, and
//! makes the n-th one fail, once or from then on.
//!
//! ```text
//!   run once without a plan       -> operations() = N
//!   for n in 1..=N, each fault:   arm(plan at n), run again on a fresh disk,
//!                                 compare with what is allowed
//! ```
//!
//! Faults enter below the full calls of [`File`], so short transfers and interruptions never reach
//! a correct caller. What each operation counts as is its [`Operation`]; a full write that is cut
//! short counts once for each attempt. A store into a mapping cannot fail and is not counted; its
//! flush is.
//!
//! A flush of [`File::map_direct`] is one operation as well, though it writes and syncs. It has
//! written when it is counted: so a power loss there may tear what it wrote, and a failed one loses
//! it as a failed sync does.
//!
//! A watcher ([`FaultFs::watch`]) is told of every operation before it happens: it may note it, or
//! take an image of the disk below at just that moment.
//!
//! A failed sync also tells the file below to lose its unsynced bytes ([`File::lose_unsynced`]),
//! because that is what kernels do; [`FailedSync`](crate::FailedSync) says which, and how. All
//! other failed operations have no effect at all.
//!
//! A [`Lie`] is no failure: the sync says that it has succeeded. A store over a disk that lies is
//! as a store with the fault in itself, so a test of power losses must find it out, or else the
//! test is worth nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::{File, Lock, Mapping};
use crate::fs::{DirEntry, Fs, FsKind, Metadata, OpenOptions, Space};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The device fails (EIO).
    Io,
    /// The disk is full (ENOSPC).
    NoSpace,
    /// Too many files are open (EMFILE).
    TooManyFiles,
    /// A signal came (EINTR). Seen by the primitives of [`File`] alone: other operations are
    /// retried below this layer on real systems, so here they succeed.
    Interrupted,
    /// Half of the bytes are moved, at least one. Only reads and writes can fall short; others
    /// succeed.
    Short,
    /// Power is out: EIO without any effect; a failed sync loses nothing. With
    /// [`FaultPlan::from_then_on`] all kinds of operations fail after the first hit, and stores
    /// into mappings do nothing: the disk below is frozen for
    /// [`MemFs::crash_image`](crate::MemFs::crash_image).
    PowerOut,
    /// Any other error number of the system.
    Errno(i32),
    /// A sync of a file, a mapping or a directory says that it has succeeded. Other operations do.
    Lie(Lie),
}

/// What became of a sync that says that it has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lie {
    /// It was left out.
    Omitted,
    /// It is done when the next operation begins, behind the watcher.
    Late,
    /// It failed, which lost the unsynced bytes, and was done again. Directories lose nothing.
    Retried,
}

/// Which operation fails, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPlan {
    at: u64,
    kinds: Option<Vec<Operation>>,
    fault: Fault,
    persists: bool,
}

impl FaultPlan {
    /// The `at`-th operation from arming, counted from 1, meets `fault`, and no other does. 0 never
    /// comes.
    #[must_use]
    pub fn once(at: u64, fault: Fault) -> Self {
        Self { at, kinds: None, fault, persists: false }
    }

    /// The `at`-th operation and all later ones meet `fault`.
    #[must_use]
    pub fn from_then_on(at: u64, fault: Fault) -> Self {
        Self { persists: true, ..Self::once(at, fault) }
    }

    /// Counts and fails operations of these kinds only.
    #[must_use]
    pub fn only(mut self, kinds: &[Operation]) -> Self {
        self.kinds = Some(kinds.to_vec());
        self
    }
}

/// Who is told of operations.
#[derive(Clone)]
struct Watcher(Arc<dyn Fn(Operation, &Path) + Send + Sync>);

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

/// Counters and the armed plan. All handles of one [`FaultFs`] share it.
#[derive(Debug, Default)]
struct Control {
    operations: BTreeMap<Operation, u64>,
    plan: Option<FaultPlan>,
    /// Operations since arming that the plan is about.
    matched: u64,
    injected: u64,
    watcher: Option<Watcher>,
    late: Vec<Late>,
}

/// A sync that was said to be done.
#[derive(Debug)]
enum Late {
    File(Arc<dyn File>),
    Dir(Arc<dyn Fs>, PathBuf),
}

impl Late {
    fn sync(&self) -> Result<()> {
        match self {
            Late::File(file) => file.sync_data(),
            Late::Dir(fs, path) => fs.sync_dir(path),
        }
    }
}

/// What becomes of one operation.
enum Verdict {
    Pass,
    Short,
    Fail(Errno),
    Lie(Lie),
}

type Shared = Arc<Mutex<Control>>;

fn control_of(shared: &Mutex<Control>) -> MutexGuard<'_, Control> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Counts an operation and decides its fate.
    fn judge(&mut self, operation: Operation) -> Verdict {
        *self.operations.entry(operation).or_default() += 1;
        if self.power_is_out() {
            self.injected += 1;
            return Verdict::Fail(Errno::IO);
        }
        let Some(plan) = &self.plan else { return Verdict::Pass };
        if plan.kinds.as_ref().is_some_and(|kinds| !kinds.contains(&operation)) {
            return Verdict::Pass;
        }
        self.matched += 1;
        if !plan.hits(self.matched) {
            return Verdict::Pass;
        }
        self.injected += 1;
        let moves_bytes = matches!(operation, Operation::Read | Operation::Write);
        let syncs = matches!(operation, Operation::Sync | Operation::Flush | Operation::SyncDir);
        match plan.fault {
            Fault::Short if moves_bytes => Verdict::Short,
            Fault::Interrupted if moves_bytes => Verdict::Fail(Errno::INTR),
            Fault::Short | Fault::Interrupted => Verdict::Pass,
            Fault::Io | Fault::PowerOut => Verdict::Fail(Errno::IO),
            Fault::NoSpace => Verdict::Fail(Errno::NOSPC),
            Fault::TooManyFiles => Verdict::Fail(Errno::MFILE),
            Fault::Errno(number) => Verdict::Fail(Errno::from_raw_os_error(number)),
            Fault::Lie(lie) if syncs => Verdict::Lie(lie),
            Fault::Lie(_) => Verdict::Pass,
        }
    }

    fn power_is_out(&self) -> bool {
        self.injected > 0
            && self.plan.as_ref().is_some_and(|plan| plan.fault == Fault::PowerOut && plan.persists)
    }

    fn sync_loses_bytes(&self) -> bool {
        self.plan.as_ref().is_none_or(|plan| plan.fault != Fault::PowerOut)
    }
}

impl FaultPlan {
    fn hits(&self, count: u64) -> bool {
        self.at > 0 && if self.persists { count >= self.at } else { count == self.at }
    }
}

/// A wrapper that counts operations and injects faults. Clones share counters and plan.
#[derive(Debug, Clone)]
pub struct FaultFs {
    inner: Arc<dyn Fs>,
    control: Shared,
}

impl FaultFs {
    /// Wraps a file system. Nothing fails until a plan is armed.
    pub fn new(inner: Arc<dyn Fs>) -> Self {
        Self { inner, control: Shared::default() }
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        control_of(&self.control)
    }

    /// Puts a plan in force, in place of any other. Its count starts now, and that of
    /// [`FaultFs::injected`] too.
    pub fn arm(&self, plan: FaultPlan) {
        let mut control = self.control();
        control.plan = Some(plan);
        control.matched = 0;
        control.injected = 0;
    }

    /// Lets everything pass again. Bytes that were lost stay lost.
    pub fn disarm(&self) {
        self.control().plan = None;
    }

    /// Operations counted since this was made or [`FaultFs::reset`], failed ones included.
    pub fn operations(&self) -> u64 {
        self.control().operations.values().sum()
    }

    /// Operations of one kind, counted as by [`FaultFs::operations`].
    pub fn operations_of(&self, operation: Operation) -> u64 {
        self.control().operations.get(&operation).copied().unwrap_or(0)
    }

    /// Faults injected since the plan was armed. 0 at the end of a run: the plan never came into
    /// play.
    pub fn injected(&self) -> u64 {
        self.control().injected
    }

    /// Sets the operation counts to 0; the plan and its own count stay.
    pub fn reset(&self) {
        self.control().operations.clear();
    }

    /// Has `watcher` called before every operation, failed ones included, with its kind and its
    /// path (of two, the first), in the thread that asks for it. It may use the file system below;
    /// an operation through this one would call it again. Stores into mappings are no operations.
    pub fn watch(&self, watcher: impl Fn(Operation, &Path) + Send + Sync + 'static) {
        self.control().watcher = Some(Watcher(Arc::new(watcher)));
    }

    fn check(&self, operation: Operation, path: &Path) -> Result<()> {
        check(&self.control, operation, path)
    }

    fn check_pair(&self, operation: Operation, path: &Path, target: &Path) -> Result<()> {
        match judge(&self.control, operation, path) {
            Verdict::Fail(errno) => Err(Error::io_pair(operation, path, target, errno)),
            Verdict::Pass | Verdict::Short | Verdict::Lie(_) => Ok(()),
        }
    }
}

/// Tells the watcher of an operation, counts it and decides its fate.
fn judge(control: &Mutex<Control>, operation: Operation, path: &Path) -> Verdict {
    // Not under the lock, which others take meanwhile.
    let watcher = control_of(control).watcher.clone();
    if let Some(Watcher(watch)) = watcher {
        watch(operation, path);
    }
    let late = std::mem::take(&mut control_of(control).late);
    // Whoever could be told of an error has gone on: that is the lie.
    late.iter().for_each(|sync| drop(sync.sync()));
    control_of(control).judge(operation)
}

fn check(control: &Mutex<Control>, operation: Operation, path: &Path) -> Result<()> {
    match judge(control, operation, path) {
        Verdict::Fail(errno) => Err(Error::io(operation, path, errno)),
        Verdict::Pass | Verdict::Short | Verdict::Lie(_) => Ok(()),
    }
}

/// Judges a sync, and does it, does not, or does it otherwise: `sync` itself, `lose` for what a
/// failed one loses, `late` for what is left to the next operation.
fn judge_sync(
    control: &Mutex<Control>,
    (operation, path): (Operation, &Path),
    sync: impl FnOnce() -> Result<()>,
    lose: impl FnOnce(),
    late: impl FnOnce() -> Late,
) -> Result<()> {
    match judge(control, operation, path) {
        Verdict::Pass | Verdict::Short => sync(),
        Verdict::Fail(errno) => {
            if control_of(control).sync_loses_bytes() {
                lose();
            }
            Err(Error::io(operation, path, errno))
        }
        Verdict::Lie(Lie::Omitted) => Ok(()),
        Verdict::Lie(Lie::Late) => {
            control_of(control).late.push(late());
            Ok(())
        }
        Verdict::Lie(Lie::Retried) => {
            lose();
            // Not `sync`, which may begin with writing the bytes again.
            late().sync()
        }
    }
}

impl Fs for FaultFs {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn File>> {
        self.check(Operation::Open, path)?;
        let inner = self.inner.open(path, options)?;
        Ok(Arc::new(FaultFile { inner, control: Arc::clone(&self.control) }))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.check(Operation::CreateDir, path)?;
        self.inner.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check_pair(Operation::Rename, from, to)?;
        self.inner.rename(from, to)
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> Result<()> {
        self.check_pair(Operation::Link, existing, link)?;
        self.inner.hard_link(existing, link)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.check(Operation::RemoveFile, path)?;
        self.inner.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.check(Operation::RemoveDir, path)?;
        self.inner.remove_dir(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        self.check(Operation::List, path)?;
        self.inner.list(path)
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        self.check(Operation::Metadata, path)?;
        self.inner.metadata(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        judge_sync(
            &self.control,
            (Operation::SyncDir, path),
            || self.inner.sync_dir(path),
            || {},
            || Late::Dir(Arc::clone(&self.inner), path.to_path_buf()),
        )
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.check(Operation::Lock, path)?;
        self.inner.lock(path)
    }

    fn space(&self, path: &Path) -> Result<Space> {
        self.check(Operation::Space, path)?;
        self.inner.space(path)
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        self.check(Operation::Space, path)?;
        self.inner.fs_kind(path)
    }

    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        self.check(Operation::Canonicalize, path)?;
        self.inner.canonicalize(path)
    }

    fn unique_number(&self) -> u64 {
        self.inner.unique_number()
    }
}

#[derive(Debug)]
struct FaultFile {
    inner: Arc<dyn File>,
    control: Shared,
}

impl FaultFile {
    fn check(&self, operation: Operation) -> Result<()> {
        check(&self.control, operation, self.path())
    }

    /// Bytes that may be moved of `count`.
    fn allowance(&self, operation: Operation, count: usize) -> Result<usize> {
        match judge(&self.control, operation, self.path()) {
            Verdict::Pass | Verdict::Lie(_) => Ok(count),
            Verdict::Short => Ok(count.div_ceil(2)),
            Verdict::Fail(errno) => Err(Error::io(operation, self.path(), errno)),
        }
    }

    fn sync(&self, sync: impl FnOnce(&dyn File) -> Result<()>) -> Result<()> {
        judge_sync(
            &self.control,
            (Operation::Sync, self.path()),
            || sync(&*self.inner),
            || self.inner.lose_unsynced(0, u64::MAX),
            || Late::File(Arc::clone(&self.inner)),
        )
    }
}

impl File for FaultFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn read_some_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let count = self.allowance(Operation::Read, buf.len())?;
        self.inner.read_some_at(offset, &mut buf[..count])
    }

    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        let count = self.allowance(Operation::Write, bytes.len())?;
        self.inner.write_some_at(offset, &bytes[..count])
    }

    fn append_turn(&self) -> &Mutex<()> {
        self.inner.append_turn()
    }

    fn len(&self) -> Result<u64> {
        self.check(Operation::Metadata)?;
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check(Operation::SetLen)?;
        self.inner.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.check(Operation::Allocate)?;
        self.inner.allocate(offset, len)
    }

    fn sync_data(&self) -> Result<()> {
        self.sync(|file| file.sync_data())
    }

    fn sync_all(&self) -> Result<()> {
        self.sync(|file| file.sync_all())
    }

    fn map(&self, offset: u64, len: u64) -> Result<Box<dyn Mapping>> {
        self.check(Operation::Map)?;
        let inner = self.inner.map(offset, len)?;
        let (file, control) = (Arc::clone(&self.inner), Arc::clone(&self.control));
        Ok(Box::new(FaultMapping { inner, file, offset, control }))
    }

    fn map_direct(&self, len: u64) -> Result<Option<Box<dyn Mapping>>> {
        self.check(Operation::Map)?;
        let Some(inner) = self.inner.map_direct(len)? else { return Ok(None) };
        let (file, control) = (Arc::clone(&self.inner), Arc::clone(&self.control));
        Ok(Some(Box::new(FaultMapping { inner, file, offset: 0, control })))
    }

    fn lose_unsynced(&self, offset: u64, len: u64) {
        self.inner.lose_unsynced(offset, len);
    }
}

#[derive(Debug)]
struct FaultMapping {
    inner: Box<dyn Mapping>,
    /// The file below, which loses its bytes when a flush fails.
    file: Arc<dyn File>,
    /// Where the mapping starts in the file.
    offset: u64,
    control: Shared,
}

impl Mapping for FaultMapping {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        // Held while storing, so that no store slips in after the power went out.
        let control = control_of(&self.control);
        if control.power_is_out() {
            return Ok(());
        }
        self.inner.write(offset, bytes)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.inner.read(offset, buf)
    }

    fn flush(&self, offset: u64, len: u64) -> Result<()> {
        self.begin_flush(offset, len);
        judge_sync(
            &self.control,
            (Operation::Flush, self.file.path()),
            || self.inner.flush(offset, len),
            || self.file.lose_unsynced(self.offset.saturating_add(offset), len),
            || Late::File(Arc::clone(&self.file)),
        )
    }

    fn touch(&self, offset: u64) {
        self.inner.touch(offset);
    }

    fn begin_flush(&self, offset: u64, len: u64) {
        // As a store.
        let control = control_of(&self.control);
        if !control.power_is_out() {
            self.inner.begin_flush(offset, len);
        }
    }
}
