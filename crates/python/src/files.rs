//! Name spaces of files: the calls that `keyrack.fs` builds files and listings on.
//!
//! Names and paths are text of the file system's encoding, in which each byte string has a form.
//! A path is looked up by every call: files have no handles here.

use crate::bytes::Bytes;
use crate::error::{Failure, Result};
use crate::gil::lent;
use crate::handle::{check_forks, forks};
use keyrack_deltafs::{
    Caller, IfExists, IfTaken, Kind, Namespace, SetAttributes, SetTime, Settings, User,
};
use keyrack_flodb::Options;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

const TYPE_FILE: u32 = 0o100_000;
const TYPE_DIR: u32 = 0o040_000;
const TYPE_SYMLINK: u32 = 0o120_000;

/// The facts of an entry of a name space.
#[pyclass(frozen, get_all, module = "keyrack.fs")]
pub(crate) struct Stat {
    /// "file", "directory" or "symlink".
    kind: &'static str,
    /// Type and permissions, as `os.stat` gives them.
    mode: u32,
    /// Bytes of a file, or of the target of a link.
    size: u64,
    /// The number of the entry.
    inode: u128,
    /// Names of a file; 2 and the subdirectories of a directory.
    nlink: u64,
    /// The owner.
    uid: u32,
    /// The group.
    gid: u32,
    /// When the bytes or entries last changed, in nanoseconds since 1970.
    mtime_ns: u64,
    /// When anything last changed.
    ctime_ns: u64,
    /// Whether the bytes of a file are kept here.
    has_data: bool,
}

impl From<&keyrack_deltafs::Stat> for Stat {
    fn from(stat: &keyrack_deltafs::Stat) -> Self {
        let (kind, of_kind) = match stat.kind {
            Kind::File => ("file", TYPE_FILE),
            Kind::Dir => ("directory", TYPE_DIR),
            Kind::Symlink => ("symlink", TYPE_SYMLINK),
        };
        Stat {
            kind,
            mode: of_kind | stat.mode,
            size: stat.size,
            inode: stat.inode.to_u128(),
            nlink: stat.nlink,
            uid: stat.uid,
            gid: stat.gid,
            mtime_ns: stat.mtime_ns,
            ctime_ns: stat.ctime_ns,
            has_data: stat.has_data,
        }
    }
}

#[pymethods]
impl Stat {
    fn __repr__(&self) -> String {
        let Stat { kind, mode, size, .. } = self;
        format!("<keyrack.fs.Stat {kind}, {:o}, {size} bytes>", mode & 0o7777)
    }
}

/// A path in a name space: text, bytes or an object of a path.
struct Path(Vec<u8>);

impl FromPyObject<'_, '_> for Path {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Path(bytes.as_bytes().to_vec()));
        }
        Ok(Path(object.extract::<PathBuf>()?.into_os_string().into_vec()))
    }
}

fn name_of(bytes: Vec<u8>) -> OsString {
    OsString::from_vec(bytes)
}

/// What is open.
struct Open {
    space: Namespace,
    user: User,
}

/// The calls of a name space of files. `keyrack.fs.FileSystem` is made of them.
#[pyclass(frozen, subclass, module = "keyrack._keyrack")]
pub(crate) struct Files {
    log: PathBuf,
    forks: u64,
    open: RwLock<Option<Open>>,
}

impl Files {
    /// Makes a call for the user. Gives the lock of the interpreter up meanwhile.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(Caller<'_>) -> keyrack_deltafs::Result<R> + Send,
    ) -> PyResult<R> {
        Ok(py.detach(|| self.on(|open| Ok(call(open.space.by(&open.user))?)))?)
    }

    fn on<R>(&self, call: impl FnOnce(&Open) -> Result<R>) -> Result<R> {
        check_forks(self.forks)?;
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        let log = self.log.display();
        let closed = || Failure::Closed(format!("the name space {log} is closed; open it again"));
        call(open.as_ref().ok_or_else(closed)?)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.forks != forks() {
            std::mem::forget(open);
            return;
        }
        // Background threads are waited for.
        let mut open = Some(open);
        let mut close = || drop(open.take());
        if Python::try_attach(|py| py.detach(&mut close)).is_none() {
            close();
        }
    }
}

#[pymethods]
impl Files {
    #[new]
    #[pyo3(signature = (log, *, create=true, read_only=false, lower=Vec::new(), uid=0, gid=0))]
    fn new(
        py: Python<'_>,
        log: PathBuf,
        create: bool,
        read_only: bool,
        lower: Vec<PathBuf>,
        uid: u32,
        gid: u32,
    ) -> PyResult<Files> {
        let space = py.detach(|| -> Result<_> {
            if read_only {
                let logs: Vec<PathBuf> = std::iter::once(log.clone()).chain(lower).collect();
                return Ok(Namespace::open_read_only(&logs, Settings::default())?);
            }
            let store = Options { create_if_missing: create, ..Options::default() };
            Ok(Namespace::open(&log, Settings { store, lower, ..Settings::default() })?)
        })?;
        let open = RwLock::new(Some(Open { space, user: User::new(uid, gid) }));
        Ok(Files { log, forks: forks(), open })
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py)
    }

    fn __reduce__(&self) -> Result<()> {
        Err(Failure::Kind(
            "an open name space cannot be pickled; open it in the other process".to_owned(),
        ))
    }

    /// Ends the use of the log. A name space that is closed stays so.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| -> Result<_> {
            check_forks(self.forks)?;
            let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
            match open {
                Some(Open { space, .. }) => Ok(space.close()?),
                None => Ok(()),
            }
        })?)
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        check_forks(self.forks)?;
        Ok(py.detach(|| self.open.read().unwrap_or_else(PoisonError::into_inner).is_none()))
    }

    /// The directory of the log.
    #[getter]
    fn log(&self) -> PathBuf {
        self.log.clone()
    }

    /// Makes everything that was done survive a power loss.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.on(|open| Ok(open.space.sync()?)))?)
    }

    /// The facts of what a path names; of a link itself if `follow` is false.
    #[pyo3(signature = (path, *, follow=true))]
    fn stat(&self, py: Python<'_>, path: Path, follow: bool) -> PyResult<Stat> {
        self.with(py, |fs| {
            let stat = if follow { fs.stat(&path.0) } else { fs.lstat(&path.0) };
            Ok(Stat::from(&stat?))
        })
    }

    /// Names and facts of a directory in the order of the names, behind the name `after`, at most
    /// `count` of them; and behind which name to go on, `None` at the end.
    #[pyo3(signature = (path, after=None, count=1024))]
    fn list_page(
        &self,
        py: Python<'_>,
        path: Path,
        after: Option<Path>,
        count: usize,
    ) -> PyResult<(Vec<(OsString, Stat)>, Option<OsString>)> {
        self.with(py, |fs| {
            let dir = fs.dir(&path.0)?;
            let after = after.as_ref().map(|after| &after.0[..]);
            let page = fs.list_plus_at(&dir, after, count.max(1))?;
            let entries = page.entries.into_iter();
            let entries = entries.filter_map(|entry| {
                let stat = entry.stat?;
                Some((name_of(entry.name), Stat::from(&stat)))
            });
            Ok((entries.collect(), page.next.map(name_of)))
        })
    }

    /// Makes a directory.
    #[pyo3(signature = (path, mode=0o755))]
    fn mkdir(&self, py: Python<'_>, path: Path, mode: u32) -> PyResult<()> {
        self.with(py, |fs| fs.mkdir(&path.0, mode).map(drop))
    }

    /// Makes an empty file. One that is there stays as it is, or raises `FileExistsError` with
    /// `exclusive`.
    #[pyo3(signature = (path, mode=0o644, *, exclusive=false))]
    fn create(&self, py: Python<'_>, path: Path, mode: u32, exclusive: bool) -> PyResult<()> {
        let if_exists = if exclusive { IfExists::Fail } else { IfExists::Open };
        self.with(py, |fs| fs.create(&path.0, mode, if_exists).map(drop))
    }

    /// Bytes of a file from `offset` on, at most `count`. At the end of the file there are fewer.
    fn read(&self, py: Python<'_>, path: Path, offset: u64, count: usize) -> PyResult<Py<PyBytes>> {
        let found = lent(py, |visit| {
            self.on(|open| {
                visit(&open.space.by(&open.user).read(&path.0, offset, count)?);
                Ok(())
            })
        })?;
        Ok(found.unwrap_or_else(|| PyBytes::new(py, b"")).unbind())
    }

    /// Writes bytes into a file from `offset` on, with zeros before them if it was shorter.
    fn write(&self, py: Python<'_>, path: Path, offset: u64, data: Bytes<'_>) -> PyResult<()> {
        let data = &*data;
        self.with(py, |fs| fs.write(&path.0, offset, data).map(drop))
    }

    /// Makes a file with these bytes, or gives them to the one that is there. Nobody sees a part.
    #[pyo3(signature = (path, data, mode=0o644))]
    fn write_bytes(&self, py: Python<'_>, path: Path, data: Bytes<'_>, mode: u32) -> PyResult<()> {
        let data = &*data;
        self.with(py, |fs| fs.put(&path.0, mode, data).map(drop))
    }

    /// Cuts a file, or extends it with zeros.
    fn truncate(&self, py: Python<'_>, path: Path, size: u64) -> PyResult<()> {
        self.with(py, |fs| {
            let end = end_of(&fs, path.0)?;
            let name = end.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            let dir = fs.dir(if name == 0 { b"/" } else { &end[..name] })?;
            fs.resize_at(&dir, &end[name..], size, None).map(drop)
        })
    }

    /// Removes a file or a link.
    fn unlink(&self, py: Python<'_>, path: Path) -> PyResult<()> {
        self.with(py, |fs| fs.unlink(&path.0))
    }

    /// Removes an empty directory.
    fn rmdir(&self, py: Python<'_>, path: Path) -> PyResult<()> {
        self.with(py, |fs| fs.rmdir(&path.0))
    }

    /// Removes what a path names with all that is in it, and gives how many entries went.
    fn remove_tree(&self, py: Python<'_>, path: Path) -> PyResult<u64> {
        self.with(py, |fs| fs.remove_tree(&path.0))
    }

    /// Moves an entry. A file replaces a file and a directory an empty one, unless `replace` is
    /// false.
    #[pyo3(signature = (source, target, *, replace=true))]
    fn rename(&self, py: Python<'_>, source: Path, target: Path, replace: bool) -> PyResult<()> {
        let if_taken = if replace { IfTaken::Replace } else { IfTaken::Fail };
        self.with(py, |fs| fs.rename(&source.0, &target.0, if_taken))
    }

    /// Makes a symbolic link to `target` at `path`.
    fn symlink(&self, py: Python<'_>, target: Path, path: Path) -> PyResult<()> {
        self.with(py, |fs| fs.symlink(&target.0, &path.0).map(drop))
    }

    /// Gives a file another name.
    fn link(&self, py: Python<'_>, source: Path, path: Path) -> PyResult<()> {
        self.with(py, |fs| fs.link(&source.0, &path.0).map(drop))
    }

    /// The target of a symbolic link.
    fn readlink(&self, py: Python<'_>, path: Path) -> PyResult<OsString> {
        self.with(py, |fs| fs.read_link(&path.0).map(name_of))
    }

    /// Sets the permission bits.
    fn chmod(&self, py: Python<'_>, path: Path, mode: u32) -> PyResult<()> {
        self.set(py, &path, SetAttributes { mode: Some(mode), ..Default::default() })
    }

    /// Sets owner and group; what is `None` stays.
    fn chown(
        &self,
        py: Python<'_>,
        path: Path,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> PyResult<()> {
        self.set(py, &path, SetAttributes { uid, gid, ..Default::default() })
    }

    /// Sets the modification time, in nanoseconds since 1970; without one, to the present.
    #[pyo3(signature = (path, mtime_ns=None))]
    fn utime(&self, py: Python<'_>, path: Path, mtime_ns: Option<u64>) -> PyResult<()> {
        let mtime = Some(mtime_ns.map_or(SetTime::Now, SetTime::Ns));
        self.set(py, &path, SetAttributes { mtime, ..Default::default() })
    }

    fn __repr__(&self) -> String {
        format!(
            "<keyrack.fs.FileSystem {}>",
            String::from_utf8_lossy(self.log.as_os_str().as_bytes())
        )
    }
}

/// Links that a path may end with, one after the other, as everywhere in name spaces.
const LINKS_MAX: usize = 40;

/// The path of what a path leads to: links at its end are followed.
fn end_of(fs: &Caller<'_>, mut path: Vec<u8>) -> keyrack_deltafs::Result<Vec<u8>> {
    for _ in 0..LINKS_MAX {
        if fs.lstat(&path)?.kind != Kind::Symlink {
            return Ok(path);
        }
        let target = fs.read_link(&path)?;
        let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        path.truncate(if target.starts_with(b"/") { 0 } else { name });
        path.extend(target);
    }
    Err(keyrack_deltafs::Error::Loop(String::from_utf8_lossy(&path).into_owned()))
}

impl Files {
    fn set(&self, py: Python<'_>, path: &Path, set: SetAttributes) -> PyResult<()> {
        self.with(py, |fs| fs.set_attributes(&path.0, &set).map(drop))
    }
}
