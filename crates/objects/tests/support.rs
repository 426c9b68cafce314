//! Logs to be published, and what is read of them.

use crate::server::{BUCKET, Server};
use keyrack_deltafs::{IfExists, Namespace, Registry, Result, Settings};
use keyrack_flodb::Options;
use keyrack_objects::{Access, Address, registry};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

/// Several blocks: more than a record and more than one request bring.
pub(crate) const LARGE_BYTES: usize = 9 << 20;

/// A disk with logs.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) disk: MemFs,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        Lab { disk: MemFs::new() }
    }

    pub(crate) fn fs(&self) -> Arc<dyn Fs> {
        Arc::new(self.disk.clone())
    }

    pub(crate) fn memory(&self) -> Registry {
        let address = Address::parse("memory:").unwrap();
        registry(&address, &Access::of_environment(), self.fs()).unwrap()
    }

    pub(crate) fn on(&self, server: &Server, prefix: &str) -> Registry {
        self.with(&server.access(), prefix)
    }

    pub(crate) fn with(&self, access: &Access, prefix: &str) -> Registry {
        self.try_with(access, prefix).unwrap()
    }

    pub(crate) fn try_with(&self, access: &Access, prefix: &str) -> Result<Registry> {
        let address = Address::parse(&format!("s3://{BUCKET}/{prefix}")).unwrap();
        registry(&address, access, self.fs())
    }

    /// The log `name`, made if it is not there.
    pub(crate) fn open(&self, name: &str) -> Namespace {
        let fs = self.fs();
        Namespace::open_in(fs, &Path::new("/").join(name), settings()).unwrap()
    }

    /// A log with a file, which has its name.
    pub(crate) fn log_with(&self, name: &str) -> Namespace {
        let space = self.open(name);
        touch(&space, &format!("/{name}"));
        space
    }
}

pub(crate) fn settings() -> Settings {
    let store = Options { memtable_bytes: 1 << 20, segment_bytes: 256 << 10, ..Options::default() };
    Settings { store, ..Settings::default() }
}

pub(crate) fn touch(space: &Namespace, path: &str) {
    space.as_root().create(path.as_bytes(), 0o644, IfExists::Fail).unwrap();
}

/// What those words mean, opened to be read.
pub(crate) fn view(registry: &Registry, words: &[&str]) -> Namespace {
    let references = registry.with_bases(&registry.resolve(words).unwrap()).unwrap();
    let logs = registry.log_dirs(&references).unwrap();
    Namespace::open_read_only_in(registry.fs(), &logs, settings()).unwrap()
}

/// The names in the root, a blank between two.
pub(crate) fn ls(space: &Namespace) -> String {
    let root = space.root().unwrap();
    let page = space.as_root().list_at(&root, None, usize::MAX).unwrap();
    let names = page.entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap());
    names.collect::<Vec<_>>().join(" ")
}

pub(crate) const NO_FLAWS: [&str; 0] = [];
