//! The handle of a registry.

use super::directory::Directory;
use super::storage::Storage;
use crate::error::Error;
use keyrack_vfs::{Fs, RealFs, RelativePath};
use std::path::PathBuf;
use std::sync::Arc;

/// A place with publications.
#[derive(Clone, Debug)]
pub struct Registry {
    pub(super) storage: Arc<dyn Storage>,
}

impl Registry {
    /// The registry in the directory `dir`, which is made when something is published.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Registry {
        Registry::new_in(Arc::new(RealFs), dir)
    }

    /// As [`Registry::new`], on a file system of the caller's.
    #[must_use]
    pub fn new_in(fs: Arc<dyn Fs>, dir: impl Into<PathBuf>) -> Registry {
        Registry::on(Arc::new(Directory::new(fs, dir.into())))
    }

    /// The registry that a storage holds.
    #[must_use]
    pub fn on(storage: Arc<dyn Storage>) -> Registry {
        Registry { storage }
    }

    /// The file system that has the directories of [`Registry::log_dirs`] and what is on this
    /// machine: name spaces over publications are opened on it.
    #[must_use]
    pub fn fs(&self) -> Arc<dyn Fs> {
        self.storage.fs()
    }

    /// Where it is, for messages.
    pub(super) fn location(&self) -> String {
        self.storage.root().display().to_string()
    }

    pub(super) fn damaged(&self, name: &RelativePath, what: String) -> Error {
        Error::Corruption { path: name.under(&self.storage.root()), what }
    }
}
