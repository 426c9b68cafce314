//! Where a repository of backups is kept: names and bytes, no more than an object store has.
//!
//! A repository asks little of it. Objects come whole or not at all, are never changed, and are
//! removed one by one. [`sync`](Target::sync) is the one barrier: manifests are written after it,
//! and objects removed after it.

use crate::error::Result;
use keyrack_vfs::RelativePath;
use std::any::Any;
use std::fmt;

/// Takes the next bytes of an object.
pub type Sink<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

/// Gives a sink all bytes of an object, in order.
pub type Fill<'a> = dyn FnMut(&mut Sink<'_>) -> Result<()> + 'a;

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name without what was listed.
    pub name: String,
    /// Bytes in it.
    pub bytes: u64,
}

/// A place for objects.
pub trait Target: Send + Sync + fmt::Debug {
    /// The place itself, or an object in it, as a person finds it.
    fn place(&self, name: Option<&RelativePath>) -> String;

    /// Makes the place if it is missing.
    ///
    /// # Errors
    /// [`Usage`](crate::Error::Usage) if something else is there than a repository.
    fn prepare(&self) -> Result<()>;

    /// Keeps other writers out until the guard is dropped, and removes what interrupted ones have
    /// left unfinished.
    ///
    /// # Errors
    /// [`Locked`](crate::Error::Locked) if there is another writer.
    fn lock(&self) -> Result<Box<dyn Any + Send>>;

    /// The objects below `dir`, unfinished ones left out. Nothing if there are none.
    ///
    /// # Errors
    /// The machine's.
    fn list(&self, dir: &RelativePath) -> Result<Vec<Listed>>;

    /// Gives `sink` the bytes of an object. `false` if there is none.
    ///
    /// # Errors
    /// The machine's, and those of the sink.
    fn read(&self, name: &RelativePath, sink: &mut Sink<'_>) -> Result<bool>;

    /// Writes an object, in the place of one that has the name already. It has its name when all
    /// its bytes are durable, and not if `fill` fails.
    ///
    /// # Errors
    /// The machine's, and those of `fill`.
    fn put(&self, name: &RelativePath, fill: &mut Fill<'_>) -> Result<()>;

    /// Writes a small object under a name that is free, whole and durably.
    ///
    /// # Errors
    /// The machine's. The object is there or not, but whole.
    fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<()>;

    /// Removes an object.
    ///
    /// # Errors
    /// The machine's.
    fn remove(&self, name: &RelativePath) -> Result<()>;

    /// What was put and removed so far survives a power loss, before anything that comes later.
    ///
    /// # Errors
    /// The machine's.
    fn sync(&self) -> Result<()>;
}
