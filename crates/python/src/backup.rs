//! Repositories of backups.

use crate::error::{Failure, Result};
use keyrack_backup::{Backup, BackupId, DirTarget};
use keyrack_vfs::RealFs;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// A repository of backups in a directory, made if it is not there unless `create` is false.
///
/// >>> backups = keyrack.Repository(path)
/// >>> db[b"key"] = b"value"
/// >>> saved = db.backup(backups)
/// >>> restored = path + ".restored"
/// >>> _ = backups.restore(restored, saved.id)
/// >>> with keyrack.open(restored) as store:
/// ...     store[b"key"]
/// b'value'
#[pyclass(frozen, module = "keyrack")]
pub(crate) struct Repository {
    inner: keyrack_backup::Repository,
}

/// What is known of a backup.
#[pyclass(frozen, get_all, module = "keyrack")]
pub(crate) struct BackupInfo {
    /// Its name: when it was taken, in UTC.
    id: String,
    /// The engine whose store it is.
    engine: String,
    /// When it was taken, in nanoseconds since 1970.
    taken_ns: u64,
    /// Files of the store.
    files: u64,
    /// Their bytes.
    bytes: u64,
}

impl From<&keyrack_backup::BackupInfo> for BackupInfo {
    fn from(info: &keyrack_backup::BackupInfo) -> Self {
        BackupInfo {
            id: info.id.to_string(),
            engine: info.engine.clone(),
            taken_ns: info.taken_ns,
            files: info.files,
            bytes: info.bytes,
        }
    }
}

#[pymethods]
impl BackupInfo {
    fn __repr__(&self) -> String {
        let BackupInfo { id, files, bytes, .. } = self;
        format!("<keyrack.BackupInfo {id}, {files} files, {bytes} bytes>")
    }
}

impl Repository {
    pub(crate) fn save(&self, backup: Backup<'_>) -> Result<BackupInfo> {
        Ok(BackupInfo::from(&backup.save_to(&self.inner)?.info))
    }
}

fn id_of(text: &str) -> Result<BackupId> {
    let wrong = || Failure::Usage(format!("{text:?} is no name of a backup"));
    BackupId::parse(text).ok_or_else(wrong)
}

#[pymethods]
impl Repository {
    #[new]
    #[pyo3(signature = (path, *, create=true))]
    fn new(py: Python<'_>, path: PathBuf, create: bool) -> PyResult<Repository> {
        let opened = py.detach(|| -> Result<_> {
            let target = Arc::new(DirTarget::new(Arc::new(RealFs), path));
            Ok(match create {
                true => keyrack_backup::Repository::create(target)?,
                false => keyrack_backup::Repository::open(target)?,
            })
        });
        Ok(Repository { inner: opened? })
    }

    /// All backups, the oldest first.
    fn backups(&self, py: Python<'_>) -> PyResult<Vec<BackupInfo>> {
        Ok(py.detach(|| -> Result<_> {
            let found = self.inner.backups()?.into_iter();
            let found: keyrack_backup::Result<Vec<_>> = found.map(|(_, info)| info).collect();
            Ok(found?.iter().map(BackupInfo::from).collect())
        })?)
    }

    /// Makes the store of a backup, the newest by default, in the new directory `target`.
    #[pyo3(signature = (target, id=None))]
    fn restore(&self, py: Python<'_>, target: PathBuf, id: Option<&str>) -> PyResult<BackupInfo> {
        Ok(py.detach(|| -> Result<_> {
            let id = match id {
                Some(id) => id_of(id)?,
                None => self.inner.newest()?,
            };
            Ok(BackupInfo::from(&self.inner.restore(&id, &RealFs, &target, |_| ())?))
        })?)
    }

    /// Reads all backups, or one, and gives what is damaged, a line each.
    #[pyo3(signature = (id=None))]
    fn verify(&self, py: Python<'_>, id: Option<&str>) -> PyResult<Vec<String>> {
        Ok(py.detach(|| -> Result<_> {
            let id = id.map(id_of).transpose()?;
            let report = self.inner.verify(id.as_ref(), |_| ())?;
            let later = report.later.iter().map(|(id, why)| format!("{id}: {why}"));
            Ok(report.damage.iter().map(ToString::to_string).chain(later).collect())
        })?)
    }

    /// Removes a backup. Others keep what they need.
    fn delete(&self, py: Python<'_>, id: &str) -> PyResult<()> {
        Ok(py.detach(|| -> Result<_> {
            self.inner.delete(&[id_of(id)?])?;
            Ok(())
        })?)
    }

    /// Removes all backups but the newest ones.
    fn keep_newest(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        Ok(py.detach(|| -> Result<_> {
            self.inner.keep_newest(count)?;
            Ok(())
        })?)
    }
}
