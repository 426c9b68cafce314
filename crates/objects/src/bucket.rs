//! A repository of backups in an object store.
//!
//! ```text
//!   s3://BUCKET/PREFIX/REPOSITORY     put if absent
//!                     /objects/HEX    put whole, in parts where it is large
//!                     /backups/ID     put if absent, and then the lock is confirmed
//!                     /LOCK           see `lease.rs`
//! ```
//!
//! What was put is durable, so [`sync`](Target::sync) confirms the lock and no more. Objects are
//! named by their content: one that a lost lock lets through does no harm, since the same bytes
//! have the name. A manifest counts when the lock is confirmed after it: until then no other
//! process can have removed objects. If it is not confirmed, the manifest is removed again.

use crate::lease::{Holding, Lease, is_of_lock};
use crate::remote::Remote;
use crate::upload::Upload;
use keyrack_backup::{Error, Fill, Listed, Result, Sink, Target};
use keyrack_vfs::RelativePath;
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

const MARKER: &str = "REPOSITORY";
/// The folders of a repository.
const FOLDERS: [&str; 3] = ["objects/", "backups/", "logs/"];

/// A prefix of an object store as a place for backups.
#[derive(Debug)]
pub(crate) struct Bucket {
    remote: Arc<Remote>,
    lease: Duration,
    /// The lock of the guard that was given last.
    holding: Mutex<Weak<Holding>>,
}

impl Bucket {
    pub(crate) fn new(remote: Remote, lease: Duration) -> Bucket {
        Bucket { remote: Arc::new(remote), lease, holding: Mutex::new(Weak::new()) }
    }

    fn slot(&self) -> MutexGuard<'_, Weak<Holding>> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, without which nothing is changed.
    fn held(&self) -> Result<Arc<Holding>> {
        let held = self.slot().upgrade().expect("whoever changes a repository has its lock");
        held.check()?;
        Ok(held)
    }
}

/// The error of a request as one of backups.
pub(crate) fn of_backup(error: keyrack_deltafs::Error) -> Error {
    use keyrack_deltafs::Error as Of;
    match error {
        Of::Usage(what) => Error::Usage(what),
        error => Error::Remote(error.to_string()),
    }
}

impl Target for Bucket {
    fn place(&self, name: Option<&RelativePath>) -> String {
        self.remote.place(name)
    }

    fn prepare(&self) -> Result<()> {
        let marker = RelativePath::new(MARKER).expect("a plain name");
        if self.remote.get(&marker).map_err(of_backup)?.is_some() {
            return Ok(());
        }
        let is_ours =
            |name: &str| is_of_lock(name) || FOLDERS.iter().any(|dir| name.starts_with(dir));
        match self.remote.find(|name| !is_ours(name)).map_err(of_backup)? {
            None => Ok(()),
            Some(other) => {
                let what = format!("holds something else than backups, such as '{other}'");
                let place = self.place(None);
                Err(Error::Usage(format!("{place} {what}; choose a prefix that is new")))
            }
        }
    }

    fn lock(&self) -> Result<Box<dyn Any + Send>> {
        let lease = Lease::take(&self.remote, self.lease)?;
        *self.slot() = Arc::downgrade(lease.holding());
        Ok(Box::new(lease))
    }

    fn list(&self, dir: &RelativePath) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        self.remote
            .each_in(dir, |name, bytes| listed.push(Listed { name: name.to_owned(), bytes }))
            .map_err(of_backup)?;
        Ok(listed)
    }

    fn read(&self, name: &RelativePath, sink: &mut Sink<'_>) -> Result<bool> {
        self.remote.read(name, of_backup, sink)
    }

    fn put(&self, name: &RelativePath, fill: &mut Fill<'_>) -> Result<()> {
        let held = self.held()?;
        let mut upload = Upload::new(&self.remote, name);
        let filled = fill(&mut |bytes| {
            held.check()?;
            upload.write(bytes).map_err(of_backup)
        });
        match filled.and_then(|()| held.check()) {
            Ok(()) => upload.finish().map_err(of_backup),
            Err(error) => {
                upload.abort();
                Err(error)
            }
        }
    }

    fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<()> {
        let held = self.held()?;
        if !self.remote.create(name, bytes).map_err(of_backup)? {
            let what = "another process has written it just now; wait until that one is done";
            return Err(Error::Locked(format!("{}: {what}", self.place(Some(name)))));
        }
        held.confirm().inspect_err(|_| {
            // The first error is the one to report.
            let _ = self.remote.remove(name);
        })
    }

    fn remove(&self, name: &RelativePath) -> Result<()> {
        self.held()?;
        self.remote.remove(name).map_err(of_backup)
    }

    fn sync(&self) -> Result<()> {
        self.held()?.confirm()
    }
}
