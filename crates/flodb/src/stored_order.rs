//! The name of the order of a store's keys, as its files say it: for who has to know before the
//! store is opened, or cannot open it because it is damaged.
//!
//! ```text
//!   the manifest that CURRENT names --> the other manifests, newest first --> the tables
//! ```
//!
//! Each of them says it at its beginning or its end, under a checksum, so the first that can be
//! read is believed.

use crate::db::Db;
use crate::error::{Error, Result};
use crate::manifest::{self, FileName, manifest_name};
use crate::open_table::table_path;
use crate::table::Table;
use keyrack_vfs::{FileKind, Fs};
use std::path::Path;

impl Db {
    /// The name of the order of the keys of the store in `dir`: that of the [`Comparator`] that it
    /// has to be opened with. `None` if no file of the store says one. The store may be open.
    ///
    /// [`Comparator`]: crate::Comparator
    ///
    /// # Errors
    /// [`Error::Usage`] if a later program wrote it, [`Error::Io`].
    pub fn stored_comparator(fs: &dyn Fs, dir: &Path) -> Result<Option<String>> {
        stored_order(fs, dir)
    }
}

/// The name of the order; `None` if no file of the store says one. Reads one manifest, unless that
/// is damaged.
///
/// # Errors
/// A later program wrote it; the machine's errors, but for what a damaged disk cannot read.
pub(crate) fn stored_order(fs: &dyn Fs, dir: &Path) -> Result<Option<String>> {
    let entries = fs.list(dir)?;
    let files = entries.iter().filter(|entry| entry.kind == FileKind::File);
    let (mut manifests, mut tables) = (Vec::new(), Vec::new());
    for name in files.filter_map(|entry| FileName::parse(&entry.name)) {
        match name {
            FileName::Manifest(number) => manifests.push(number),
            FileName::Table(number) => tables.push(number),
            FileName::Blob(_) | FileName::Unfinished => {}
        }
    }
    manifests.sort_unstable();
    if let Some(named) = sound(manifest::named(fs, dir))?.flatten() {
        // The last one is asked first.
        manifests.push(named);
    }
    for number in manifests.into_iter().rev() {
        if let Some(order) = sound(of_manifest(fs, &dir.join(manifest_name(number))))?.flatten() {
            return Ok(Some(order));
        }
    }
    for number in tables {
        if let Some(order) = sound(Table::stored_order(fs, &table_path(dir, number)))? {
            return Ok(Some(order));
        }
    }
    Ok(None)
}

fn of_manifest(fs: &dyn Fs, path: &Path) -> Result<Option<String>> {
    let mut name = None;
    manifest::edits(fs, path, &mut |edit| {
        name.clone_from(&edit.comparator);
        false
    })?;
    Ok(name)
}

/// `None` for a file that is damaged or gone.
fn sound<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(Error::Io(error)) if error.is_not_found() => Ok(None),
        Err(error) => error.into_damage().map(|_| None),
    }
}
