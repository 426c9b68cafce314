//! Where the parts of a checkpoint are: with the manifest, or spread over other directories.
//!
//! ```text
//!   no checkpoint_dirs      STORE/checkpoint-GENERATION-PART.rows
//!   checkpoint_dirs a, b    a/checkpoint-ID/checkpoint-GENERATION-0000.rows
//!                           b/checkpoint-ID/checkpoint-GENERATION-0001.rows, and so on in turn
//! ```
//!
//! The manifest has the directory of each part, so any list of directories opens a store. The
//! identity in the name parts the stores that share a disk: a store creates, reads and removes
//! files in directories of its own identity alone.

use crate::error::of_files;
use crate::manifest::{Manifest, parts_dir_name};
use crate::options::Options;
use crate::part::{is_part, name_of};
use keyrack_store::Result;
use keyrack_vfs::Fs;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The directory of a new part, relative to that of the store.
pub(crate) fn dir_of(options: &Options, id: u64, part: usize) -> PathBuf {
    match options.checkpoint_dirs.as_slice() {
        [] => PathBuf::new(),
        dirs => dirs[part % dirs.len()].join(parts_dir_name(id)),
    }
}

/// The directories of the options, relative to that of the store.
fn wanted(options: &Options, id: u64) -> impl Iterator<Item = PathBuf> {
    (0..options.checkpoint_dirs.len()).map(move |part| dir_of(options, id, part))
}

/// Creates the directories of the options.
pub(crate) fn create(fs: &dyn Fs, dir: &Path, options: &Options, id: u64) -> Result<()> {
    for part_dir in wanted(options, id) {
        let path = dir.join(part_dir);
        if !fs.exists(&path).map_err(|error| of_files(&error))? {
            fs.create_dir(&path).map_err(|error| of_files(&error))?;
            fs.sync_parent(&path).map_err(|error| of_files(&error))?;
        }
    }
    Ok(())
}

/// All directories in which there may be parts, relative to that of the store.
pub(crate) fn all(options: &Options, manifest: &Manifest) -> BTreeSet<PathBuf> {
    let named = manifest.parts.iter().map(|part| part.dir.clone());
    let own = std::iter::once(PathBuf::new());
    wanted(options, manifest.id).chain(named).chain(own).collect()
}

/// Removes the parts in `dirs` that the manifest does not name. A directory may have several paths,
/// so parts are known by their names, which no two parts of a checkpoint share.
pub(crate) fn remove_unnamed(
    fs: &dyn Fs,
    dir: &Path,
    dirs: &BTreeSet<PathBuf>,
    manifest: &Manifest,
) -> Result<()> {
    let parts = 0..manifest.parts.len();
    let named: Vec<String> = parts.map(|part| name_of(manifest.generation, part)).collect();
    for part_dir in dirs.iter().map(|part_dir| dir.join(part_dir)) {
        let entries = match fs.list(&part_dir) {
            // A directory of the options that is not created yet.
            Err(error) if error.is_not_found() => continue,
            entries => entries.map_err(|error| of_files(&error))?,
        };
        for entry in entries.iter().filter(|entry| is_part(&entry.name)) {
            if !named.iter().any(|name| entry.name == name.as_str()) {
                remove(fs, &part_dir.join(&entry.name))?;
            }
        }
    }
    Ok(())
}

/// Removes a file, if it is there.
pub(crate) fn remove(fs: &dyn Fs, path: &Path) -> Result<()> {
    match fs.remove_file(path) {
        Err(error) if !error.is_not_found() => Err(of_files(&error)),
        _ => Ok(()),
    }
}
