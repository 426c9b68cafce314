//! Names in a registry: those that anybody may choose, and the paths of its texts and copies. A
//! text with a path that is none below a directory is refused where it is read, with field, line
//! and column.

use super::publication::Reference;
use crate::error::{Error, Result};
use keyrack_vfs::RelativePath;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// Bytes of the name of a publication or a view, at most.
const NAME_MAX: usize = 64;

/// Refuses what cannot be the name of a publication or a view.
pub(super) fn check_registry_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_sound = (1..=NAME_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('.');
    if is_sound {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "'{name}' cannot be a name here: use 1 to {NAME_MAX} of A-Z, a-z, 0-9, '-', '_' and '.', \
         the last not at the beginning"
    )))
}

/// Two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

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

/// Writes a path into a text.
pub(super) fn write_path<S: Serializer>(
    path: &RelativePath,
    to: S,
) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_str(path.as_str())
}

/// Reads a path with any number of names.
pub(super) fn read_path<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<RelativePath, D::Error> {
    let text = String::deserialize(from)?;
    RelativePath::new(&text).map_err(|error| D::Error::custom(format!("name: {error}")))
}

/// Reads a single name that is not the storage's own.
pub(super) fn read_directory<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<RelativePath, D::Error> {
    let text = String::deserialize(from)?;
    if text.starts_with('.') {
        return Err(D::Error::custom(format!("directory: '{text}' begins with a dot")));
    }
    RelativePath::single(&text).map_err(|error| D::Error::custom(format!("directory: {error}")))
}
