//! The files of published logs, as a file system that can only be read, beside the files of this
//! machine: a path that begins with the address of the store is an object, any other is a file.
//!
//! So a log on this machine can lie on top of published ones without knowing where they are. What
//! a log has is listed once, as it never changes.

use crate::blocks::{BLOCK_BYTES, Blocks, Course};
use crate::remote::Remote;
use keyrack_vfs::{
    DirEntry, Error, File, FileKind, Fs, FsKind, Lock, Mapping, Metadata, OpenOptions, Operation,
    RelativePath, Result, Space,
};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// The objects of a log by name, with length and time.
type Contents = Arc<BTreeMap<String, (u64, u64)>>;

/// This machine's files, and those of published logs.
#[derive(Debug)]
pub(crate) struct Files {
    local: Arc<dyn Fs>,
    /// The address as a path.
    root: PathBuf,
    remote: Arc<Remote>,
    logs: Mutex<HashMap<RelativePath, Contents>>,
    blocks: Arc<Blocks>,
    opened: AtomicU64,
}

fn error(operation: Operation, path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::Io { operation, path: path.to_owned(), target: None, cause: cause.into() }
}

fn not_found(operation: Operation, path: &Path) -> Error {
    error(operation, path, io::Error::new(ErrorKind::NotFound, "no such object"))
}

fn read_only(operation: Operation, path: &Path) -> Error {
    let what = "what was published does not change";
    error(operation, path, io::Error::new(ErrorKind::ReadOnlyFilesystem, what))
}

/// What a path below the root is about: `logs/LOG-N`, and the rest, which may be empty.
fn split(path: &Path) -> Option<(RelativePath, String)> {
    let parts: Vec<&str> = path.iter().map(|part| part.to_str()).collect::<Option<_>>()?;
    match &parts[..] {
        ["logs", log, inside @ ..] => {
            let log = RelativePath::new(&format!("logs/{log}")).ok()?;
            Some((log, inside.join("/")))
        }
        _ => None,
    }
}

impl Files {
    pub(crate) fn new(local: Arc<dyn Fs>, root: PathBuf, remote: Arc<Remote>) -> Files {
        Files {
            local,
            root,
            remote,
            logs: Mutex::default(),
            blocks: Arc::default(),
            opened: AtomicU64::new(0),
        }
    }

    /// The rest of a path that is an object's.
    fn inside<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(&self.root).ok()
    }

    /// What a log has. Nothing is kept about one that has nothing.
    fn contents(&self, operation: Operation, path: &Path, log: &RelativePath) -> Result<Contents> {
        let known = || self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(contents) = known().get(log) {
            return Ok(Arc::clone(contents));
        }
        let listed = self.remote.list_all(log);
        let listed = listed.map_err(|cause| error(operation, path, io::Error::other(cause)))?;
        if listed.is_empty() {
            return Err(not_found(operation, path));
        }
        let contents =
            listed.into_iter().map(|object| (object.name, (object.bytes, object.changed_ns)));
        let contents: Contents = Arc::new(contents.collect());
        known().insert(log.clone(), Arc::clone(&contents));
        Ok(contents)
    }

    fn look(
        &self,
        operation: Operation,
        path: &Path,
        inside: &Path,
    ) -> Result<(Contents, RelativePath, String)> {
        let (log, name) = split(inside).ok_or_else(|| not_found(operation, path))?;
        Ok((self.contents(operation, path, &log)?, log, name))
    }
}

impl Fs for Files {
    fn open(&self, path: &Path, options: &OpenOptions) -> Result<Arc<dyn File>> {
        let Some(inside) = self.inside(path) else { return self.local.open(path, options) };
        if *options != OpenOptions::new().read(true) {
            return Err(read_only(Operation::Open, path));
        }
        let (contents, log, name) = self.look(Operation::Open, path, inside)?;
        let Some((bytes, _)) = contents.get(&name) else {
            return Err(not_found(Operation::Open, path));
        };
        let name = RelativePath::new(&format!("{log}/{name}"))
            .map_err(|cause| error(Operation::Open, path, io::Error::other(cause)))?;
        Ok(Arc::new(ObjectFile {
            path: path.to_owned(),
            name,
            bytes: *bytes,
            // Relaxed: only that no two are the same matters.
            number: self.opened.fetch_add(1, Ordering::Relaxed),
            remote: Arc::clone(&self.remote),
            blocks: Arc::clone(&self.blocks),
            course: Mutex::new(Course::new()),
            turn: Mutex::new(()),
        }))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        match self.inside(path) {
            Some(_) => Err(read_only(Operation::CreateDir, path)),
            None => self.local.create_dir(path),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        match self.inside(from).or(self.inside(to)) {
            Some(_) => Err(read_only(Operation::Rename, from)),
            None => self.local.rename(from, to),
        }
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> Result<()> {
        match self.inside(existing).or(self.inside(link)) {
            Some(_) => Err(read_only(Operation::Link, existing)),
            None => self.local.hard_link(existing, link),
        }
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        match self.inside(path) {
            Some(_) => Err(read_only(Operation::RemoveFile, path)),
            None => self.local.remove_file(path),
        }
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        match self.inside(path) {
            Some(_) => Err(read_only(Operation::RemoveDir, path)),
            None => self.local.remove_dir(path),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<DirEntry>> {
        let Some(inside) = self.inside(path) else { return self.local.list(path) };
        let (contents, _, name) = self.look(Operation::List, path, inside)?;
        let prefix = if name.is_empty() { name } else { name + "/" };
        let mut found = BTreeMap::new();
        for rest in contents.keys().filter_map(|object| object.strip_prefix(&prefix)) {
            match rest.split_once('/') {
                Some((dir, _)) => found.insert(dir.to_owned(), FileKind::Dir),
                None => found.insert(rest.to_owned(), FileKind::File),
            };
        }
        if found.is_empty() {
            return Err(not_found(Operation::List, path));
        }
        Ok(found.into_iter().map(|(name, kind)| DirEntry { name: name.into(), kind }).collect())
    }

    fn metadata(&self, path: &Path) -> Result<Metadata> {
        let Some(inside) = self.inside(path) else { return self.local.metadata(path) };
        let (contents, _, name) = self.look(Operation::Metadata, path, inside)?;
        if let Some((bytes, changed_ns)) = contents.get(&name) {
            let modified = UNIX_EPOCH + Duration::from_nanos(*changed_ns);
            return Ok(Metadata { len: *bytes, kind: FileKind::File, modified });
        }
        let prefix = format!("{name}/");
        if name.is_empty() || contents.keys().any(|object| object.starts_with(&prefix)) {
            return Ok(Metadata { len: 0, kind: FileKind::Dir, modified: UNIX_EPOCH });
        }
        Err(not_found(Operation::Metadata, path))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        match self.inside(path) {
            Some(_) => Ok(()),
            None => self.local.sync_dir(path),
        }
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        match self.inside(path) {
            Some(_) => Err(read_only(Operation::Lock, path)),
            None => self.local.lock(path),
        }
    }

    fn space(&self, path: &Path) -> Result<Space> {
        match self.inside(path) {
            Some(_) => Err(read_only(Operation::Space, path)),
            None => self.local.space(path),
        }
    }

    fn fs_kind(&self, path: &Path) -> Result<FsKind> {
        match self.inside(path) {
            Some(_) => Ok(FsKind { name: "unknown", magic: 0, is_ram: false }),
            None => self.local.fs_kind(path),
        }
    }

    fn canonicalize(&self, path: &Path) -> Result<PathBuf> {
        match self.inside(path) {
            Some(_) => Ok(path.to_owned()),
            None => self.local.canonicalize(path),
        }
    }
}

/// An object of a published log.
#[derive(Debug)]
struct ObjectFile {
    path: PathBuf,
    name: RelativePath,
    bytes: u64,
    /// Its number among the blocks.
    number: u64,
    remote: Arc<Remote>,
    blocks: Arc<Blocks>,
    course: Mutex<Course>,
    turn: Mutex<()>,
}

impl ObjectFile {
    /// A block, and with it those behind it that are likely to be wanted.
    fn block(&self, block: u64) -> Result<Arc<[u8]>> {
        if let Some(found) = self.blocks.get((self.number, block)) {
            return Ok(found);
        }
        let count = self.course.lock().unwrap_or_else(PoisonError::into_inner).blocks_from(block);
        let from = block * BLOCK_BYTES;
        let to = (from + count * BLOCK_BYTES).min(self.bytes);
        let got = self.remote.range(&self.name, from..to);
        let got =
            got.map_err(|cause| error(Operation::Read, &self.path, io::Error::other(cause)))?;
        if got.len() as u64 != to - from {
            return Err(Error::UnexpectedEnd {
                path: self.path.clone(),
                offset: from,
                wanted: to - from,
                found: got.len() as u64,
            });
        }
        let mut first = None;
        for (index, bytes) in got.chunks(BLOCK_BYTES as usize).enumerate() {
            let bytes: Arc<[u8]> = Arc::from(bytes);
            first.get_or_insert_with(|| Arc::clone(&bytes));
            self.blocks.put((self.number, block + index as u64), bytes);
        }
        first.ok_or_else(|| not_found(Operation::Read, &self.path))
    }
}

impl File for ObjectFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_some_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if offset >= self.bytes || buf.is_empty() {
            return Ok(0);
        }
        let block = self.block(offset / BLOCK_BYTES)?;
        let within = &block[(offset % BLOCK_BYTES) as usize..];
        let count = within.len().min(buf.len());
        buf[..count].copy_from_slice(&within[..count]);
        Ok(count)
    }

    fn write_some_at(&self, _: u64, _: &[u8]) -> Result<usize> {
        Err(read_only(Operation::Write, &self.path))
    }

    fn append_turn(&self) -> &Mutex<()> {
        &self.turn
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes)
    }

    fn set_len(&self, _: u64) -> Result<()> {
        Err(read_only(Operation::SetLen, &self.path))
    }

    fn allocate(&self, _: u64, _: u64) -> Result<()> {
        Err(read_only(Operation::Allocate, &self.path))
    }

    fn sync_data(&self) -> Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        Ok(())
    }

    fn map(&self, _: u64, _: u64) -> Result<Box<dyn Mapping>> {
        Err(error(Operation::Map, &self.path, io::Error::from(ErrorKind::Unsupported)))
    }
}
