//! The edits of one manifest, whichever the store uses.

use super::edit::decode_at;
use super::header;
use super::names::FileName;
use super::page::Records;
use crate::error::{Error, Result};
use crate::version::VersionEdit;
use keyrack_vfs::{Fs, OpenOptions};
use std::path::Path;

/// Gives the edits of the manifest at `path` to `visit`, in order, until it returns false; the
/// first is the state of the moment when the manifest was begun. A torn edit at the end is none.
///
/// # Errors
/// [`Error::Usage`] if that is no name of a manifest, or a later program wrote it; corruption; the
/// machine's errors.
pub(crate) fn edits(
    fs: &dyn Fs,
    path: &Path,
    visit: &mut dyn FnMut(&VersionEdit) -> bool,
) -> Result<()> {
    let Some(FileName::Manifest(number)) = path.file_name().and_then(FileName::parse) else {
        return Err(Error::Usage(format!("{}: not the name of a manifest", path.display())));
    };
    let file = fs.open(path, &OpenOptions::new().read(true))?;
    let file_bytes = header::read(&*file, number)?;
    let mut records = Records::new(file, number, file_bytes)?;
    let mut content = Vec::new();
    loop {
        let offset = records.offset();
        if !records.read(&mut content)? {
            return match records.count() {
                0 => Err(Error::corruption(path, offset, "there is no state in it")),
                _ => Ok(()),
            };
        }
        let edit = decode_at(path, offset, &content)?;
        if !visit(&edit) {
            return Ok(());
        }
    }
}
