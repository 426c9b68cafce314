//! Names in a registry, and the paths of its texts and copies.

use super::publication::Reference;
use crate::error::{Error, Result};
use keyrack_vfs::RelativePath;

/// A name below the registry.
pub(super) fn below(name: &str) -> Result<RelativePath> {
    RelativePath::new(name).map_err(|error| Error::Usage(error.to_string()))
}

pub(super) fn version_name(reference: &Reference) -> Result<RelativePath> {
    below(&format!("names/{}/{}", reference.name, reference.version))
}

/// Where the copy of a log is: `logs/DIRECTORY`.
///
/// # Errors
/// [`Error::Usage`] if the name is too long.
pub fn copy_name(directory: &RelativePath) -> Result<RelativePath> {
    below(&format!("logs/{directory}"))
}
