//! A store that counts what is read of it, refuses when told to, and takes small batches only.

use keyrack_store::{Batch, Error, ModelStore, Removed, Result, Session, Store, StoreInfo, Update};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a test knows of its store while the rows have it.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Rows that scans have visited.
    pub(crate) visited: AtomicU64,
    /// Whether writes fail.
    pub(crate) refuses: AtomicBool,
}

impl Watch {
    fn check(&self) -> Result<()> {
        if self.refuses.load(Ordering::Relaxed) {
            Err(Error::io("writing", std::io::Error::other("refused by the test")))
        } else {
            Ok(())
        }
    }
}

pub(crate) struct Watched {
    model: ModelStore,
    watch: Arc<Watch>,
    batch_bytes_max: usize,
}

impl Watched {
    pub(crate) fn new(batch_bytes_max: usize) -> (Self, Arc<Watch>) {
        let watch = Arc::new(Watch::default());
        (Watched { model: ModelStore::new(), watch: Arc::clone(&watch), batch_bytes_max }, watch)
    }
}

impl Store for Watched {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(WatchedSession { inner: self.model.session()?, store: self }))
    }

    fn info(&self) -> StoreInfo {
        let info = StoreInfo::new("watched", self.model.info().durability);
        StoreInfo { batch_bytes_max: self.batch_bytes_max, ..info }
    }
}

struct WatchedSession<'a> {
    inner: Box<dyn Session + 'a>,
    store: &'a Watched,
}

impl Session for WatchedSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.inner.get(key, visit)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.watch.check()?;
        self.inner.put(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        self.store.watch.check()?;
        self.inner.remove(key)
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()> {
        let watch = &self.store.watch;
        let mut outcome = Ok(());
        self.inner.update(key, &mut |old, new| {
            let update = decide(old, new);
            outcome = watch.check();
            if outcome.is_ok() { update } else { Update::Keep }
        })?;
        outcome
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        let visited = &self.store.watch.visited;
        self.inner.scan(low, high, &mut |key, value| {
            visited.fetch_add(1, Ordering::Relaxed);
            visit(key, value)
        })
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        let visited = &self.store.watch.visited;
        self.inner.scan_rev(low, high, &mut |key, value| {
            visited.fetch_add(1, Ordering::Relaxed);
            visit(key, value)
        })
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        self.store.watch.check()?;
        let (bytes, max) = (batch.logged_bytes(), self.store.batch_bytes_max);
        if bytes > max {
            return Err(Error::usage(format!("a batch of {bytes} bytes, at most {max}")));
        }
        self.inner.apply(batch)
    }
}
