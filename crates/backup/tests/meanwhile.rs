//! A place for backups where something happens before the lock is taken.

use keyrack_backup::{Fill, Listed, Result, Sink, Target};
use keyrack_vfs::RelativePath;
use std::any::Any;
use std::sync::{Arc, Mutex};

/// Does something before it gives the lock for the first time.
pub(crate) struct Meanwhile {
    inner: Arc<dyn Target>,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Meanwhile {
    pub(crate) fn new(
        inner: Arc<dyn Target>,
        act: impl FnOnce() + Send + 'static,
    ) -> Arc<Meanwhile> {
        Arc::new(Meanwhile { inner, act: Mutex::new(Some(Box::new(act))) })
    }
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Meanwhile").field(&self.inner).finish()
    }
}

impl Target for Meanwhile {
    fn place(&self, name: Option<&RelativePath>) -> String {
        self.inner.place(name)
    }

    fn prepare(&self) -> Result<()> {
        self.inner.prepare()
    }

    fn lock(&self) -> Result<Box<dyn Any + Send>> {
        if let Some(act) = self.act.lock().unwrap().take() {
            act();
        }
        self.inner.lock()
    }

    fn list(&self, dir: &RelativePath) -> Result<Vec<Listed>> {
        self.inner.list(dir)
    }

    fn read(&self, name: &RelativePath, sink: &mut Sink<'_>) -> Result<bool> {
        self.inner.read(name, sink)
    }

    fn put(&self, name: &RelativePath, fill: &mut Fill<'_>) -> Result<()> {
        self.inner.put(name, fill)
    }

    fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<()> {
        self.inner.create(name, bytes)
    }

    fn remove(&self, name: &RelativePath) -> Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }
}
