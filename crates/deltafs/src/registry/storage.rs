//! Where a registry is kept: the contract between the registry, which knows what its texts and
//! copies mean, and a place that can keep them.
//!
//! A place needs one thing that is not common: to tell who was first. [`Storage::create`] gives a
//! name to one caller only, and [`Storage::replace`] replaces only what the caller has seen. In a
//! directory these are a hard link and a lock; in an object store they are conditional puts.
//!
//! Names in a storage are relative paths with slashes, `names/job/1`, and checked: a
//! [`RelativePath`] leads nowhere but below the storage. A name that begins with a dot is the
//! storage's own. Texts are small, and read and written whole. Copies of logs are
//! directories below `logs`: made aside, then completed, and never changed afterwards.

use super::publication::PublishedFile;
use crate::error::Result;
use keyrack_vfs::{Fs, RelativePath};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which state of a text it was that was read. Only the storage that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// What stands for the content.
    pub e_tag: Option<String>,
    /// What stands for the time of the change, where the storage has that.
    pub version: Option<String>,
}

/// A text as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// All of it.
    pub bytes: Vec<u8>,
    /// Which state it is.
    pub tag: Tag,
}

/// What is known about the copy of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFacts {
    /// Bytes of its files.
    pub bytes: u64,
    /// The last change, in nanoseconds since 1970.
    pub changed_ns: u64,
}

/// A place for a registry. Every method fails as the machine or the network does.
pub trait Storage: Send + Sync + Debug {
    /// Where the storage is: for messages, and for paths that [`Storage::fs`] opens.
    fn root(&self) -> PathBuf;

    /// The file system that has both the copies, at their paths, and the files of this machine.
    fn fs(&self) -> Arc<dyn Fs>;

    /// A text; `None` if it is not there.
    ///
    /// # Errors
    /// The machine's.
    fn get(&self, name: &RelativePath) -> Result<Option<Text>>;

    /// Writes a text that is not there yet. It is there whole or not at all, and durable behind
    /// `Ok(true)`. `false`: somebody else was first, and nothing has changed. Behind an error the
    /// text may be there, or get there later.
    ///
    /// # Errors
    /// The machine's.
    fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<bool>;

    /// Replaces a text that is still as it was seen, at one stroke. `false`: it is not.
    ///
    /// # Errors
    /// The machine's.
    fn replace(&self, name: &RelativePath, bytes: &[u8], seen: &Tag) -> Result<bool>;

    /// Removes a text. It is fine if it is not there.
    ///
    /// # Errors
    /// The machine's; for a text that is reached through a symbolic link.
    fn remove(&self, name: &RelativePath) -> Result<()>;

    /// The last parts of the names directly below `directory`, sorted; none if there is no such
    /// directory.
    ///
    /// # Errors
    /// The machine's.
    fn list(&self, directory: &RelativePath) -> Result<Vec<String>>;

    /// A path that is free, for a copy of the log in `log` that will be called `directory`. It is
    /// on the file system of the log.
    ///
    /// # Errors
    /// The machine's.
    fn begin_copy(&self, log: &Path, directory: &RelativePath) -> Result<PathBuf>;

    /// Takes the copy at `staged` over as `logs/DIRECTORY`, whole and durable. These are its files.
    ///
    /// # Errors
    /// The machine's. What was taken over until then is left to [`Storage::remove_copy`].
    fn complete_copy(
        &self,
        staged: &Path,
        directory: &RelativePath,
        files: &[PublishedFile],
    ) -> Result<()>;

    /// Forgets what [`Storage::begin_copy`] gave, whether or not the copy was completed. What
    /// cannot be removed is removed by a later call.
    fn end_copy(&self, staged: &Path, directory: &RelativePath);

    /// What is known about a copy; `None` if there is none.
    ///
    /// # Errors
    /// The machine's; for a copy that is reached through a symbolic link.
    fn copy_facts(&self, directory: &RelativePath) -> Result<Option<CopyFacts>>;

    /// Removes a copy, or what there is of it.
    ///
    /// # Errors
    /// As for [`Storage::copy_facts`].
    fn remove_copy(&self, directory: &RelativePath) -> Result<()>;
}
