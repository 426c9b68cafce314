//! A file system that lets a test act at the n-th operation of somebody else.

use keyrack_vfs::{
    DirEntry, File, Fs, FsKind, Lock, Mapping, MemFs, Metadata, OpenOptions, Result, Space,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

type Hook = Box<dyn FnMut() + Send>;

/// Calls go to the disk below; before the one that was chosen, the hook runs, once. Reads of files
/// count, other operations of theirs do not.
pub(crate) struct HookFs {
    disk: MemFs,
    left: Arc<Left>,
}

/// Operations until the hook runs.
struct Left(Mutex<(usize, Option<Hook>)>);

impl std::fmt::Debug for HookFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookFs")
    }
}

impl HookFs {
    pub(crate) fn new(disk: &MemFs, at: usize, hook: impl FnMut() + Send + 'static) -> Arc<Self> {
        let left = Arc::new(Left(Mutex::new((at, Some(Box::new(hook))))));
        Arc::new(HookFs { disk: disk.clone(), left })
    }

    /// The hook runs before the operation that comes after so many.
    pub(crate) fn set(&self, at: usize) {
        self.left.0.lock().unwrap().0 = at;
    }

    /// Whether the hook has run.
    pub(crate) fn has_run(&self) -> bool {
        self.left.0.lock().unwrap().1.is_none()
    }

    fn count(&self) {
        self.left.count();
    }
}

impl Left {
    fn count(&self) {
        let due = {
            let mut left = self.0.lock().unwrap();
            if left.0 == 0 {
                left.1.take()
            } else {
                left.0 -= 1;
                None
            }
        };
        if let Some(mut hook) = due {
            hook();
        }
    }
}

struct HookFile {
    file: Arc<dyn File>,
    left: Arc<Left>,
}

impl std::fmt::Debug for HookFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HookFile")
    }
}

impl File for HookFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn read_some_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.left.count();
        self.file.read_some_at(offset, buf)
    }

    fn write_some_at(&self, offset: u64, bytes: &[u8]) -> Result<usize> {
        self.file.write_some_at(offset, bytes)
    }

    fn append_turn(&self) -> &Mutex<()> {
        self.file.append_turn()
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.file.allocate(offset, len)
    }

    fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> Result<()> {
        self.file.sync_all()
    }

    fn map(&self, offset: u64, len: u64) -> Result<Box<dyn Mapping>> {
        self.file.map(offset, len)
    }

    fn lose_unsynced(&self, offset: u64, len: u64) {
        self.file.lose_unsynced(offset, len);
    }
}

impl Fs for HookFs {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn File>> {
        self.count();
        let file = self.disk.open(path, options)?;
        Ok(Arc::new(HookFile { file, left: Arc::clone(&self.left) }))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.count();
        self.disk.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.count();
        self.disk.rename(from, to)
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> Result<()> {
        self.count();
        self.disk.hard_link(existing, link)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.count();
        self.disk.remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.count();
        self.disk.remove_dir(path)
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        self.count();
        self.disk.list(path)
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        self.count();
        self.disk.metadata(path)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.count();
        self.disk.sync_dir(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        self.count();
        self.disk.lock(path)
    }

    fn space(&self, path: &Path) -> Result<Space> {
        self.disk.space(path)
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        self.disk.fs_kind(path)
    }

    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        self.disk.canonicalize(path)
    }
}
