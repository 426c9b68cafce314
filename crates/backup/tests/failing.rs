//! A place for backups of which one call fails.

use keyrack_backup::{Error, Fill, Listed, Result, Sink, Target};
use keyrack_vfs::RelativePath;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// When a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Nothing was done.
    Before,
    /// Half of the bytes have passed.
    Midway,
    /// All was done, and the answer is lost.
    After,
}

pub(crate) const WHENS: [When; 3] = [When::Before, When::Midway, When::After];

/// Fails one call, or that one and all later ones.
#[derive(Debug)]
pub(crate) struct Failing {
    inner: Arc<dyn Target>,
    at: u64,
    when: When,
    for_good: bool,
    calls: AtomicU64,
}

impl Failing {
    pub(crate) fn new(inner: Arc<dyn Target>, at: u64, when: When, for_good: bool) -> Arc<Failing> {
        Arc::new(Failing { inner, at, when, for_good, calls: AtomicU64::new(0) })
    }

    /// Whether a call has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.calls.load(Ordering::SeqCst) >= self.at
    }

    fn pass<T>(&self, call: impl FnOnce(bool) -> Result<T>) -> Result<T> {
        let now = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if now != self.at && !(self.for_good && now > self.at) {
            return call(false);
        }
        let lost = || Error::Remote(format!("call {now} failed, as the test wants"));
        match self.when {
            When::Before => Err(lost()),
            When::Midway => {
                let _ = call(true);
                Err(lost())
            }
            When::After => {
                let _ = call(false);
                Err(lost())
            }
        }
    }
}

/// What a call that fails midway does to the bytes: some pass, and then none.
fn cut(bytes: &[u8], is_cut: bool) -> Result<&[u8]> {
    if is_cut { Err(Error::Remote("cut".to_owned())) } else { Ok(bytes) }
}

impl Target for Failing {
    fn place(&self, name: Option<&RelativePath>) -> String {
        self.inner.place(name)
    }

    fn prepare(&self) -> Result<()> {
        self.pass(|_| self.inner.prepare())
    }

    fn lock(&self) -> Result<Box<dyn Any + Send>> {
        self.pass(|_| self.inner.lock())
    }

    fn list(&self, dir: &RelativePath) -> Result<Vec<Listed>> {
        self.pass(|_| self.inner.list(dir))
    }

    fn read(&self, name: &RelativePath, sink: &mut Sink<'_>) -> Result<bool> {
        self.pass(|is_cut| {
            self.inner.read(name, &mut |bytes| {
                sink(&bytes[..bytes.len() / 2])?;
                sink(&cut(bytes, is_cut)?[bytes.len() / 2..])
            })
        })
    }

    fn put(&self, name: &RelativePath, fill: &mut Fill<'_>) -> Result<()> {
        self.pass(|is_cut| {
            self.inner.put(name, &mut |sink| {
                fill(&mut |bytes| {
                    sink(&bytes[..bytes.len() / 2])?;
                    sink(&cut(bytes, is_cut)?[bytes.len() / 2..])
                })
            })
        })
    }

    fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<()> {
        self.pass(|is_cut| self.inner.create(name, cut(bytes, is_cut)?))
    }

    fn remove(&self, name: &RelativePath) -> Result<()> {
        self.pass(|is_cut| if is_cut { Ok(()) } else { self.inner.remove(name) })
    }

    fn sync(&self) -> Result<()> {
        self.pass(|_| self.inner.sync())
    }
}
