//! A blob file of the store that is open for reading, and the end of the file; and all of those
//! that a version has.
//!
//! As with [`OpenTable`](crate::open_table::OpenTable): when no version has the blob file any more,
//! it is removed with the last reader. A read state, and so each iterator, keeps those of its
//! version.

use crate::blob::{BlobIndex, BlobMeta, BlobReader, BlobUse};
use crate::error::{Error, Result};
use crate::file_cache::FileCache;
use crate::manifest::blob_name;
use crate::open_table::FileDeleter;
use keyrack_vfs::Fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A blob file of the store, open.
pub(crate) struct OpenBlob {
    reader: BlobReader,
    meta: BlobMeta,
    deleter: Arc<FileDeleter>,
    path: PathBuf,
    obsolete: AtomicBool,
}

impl OpenBlob {
    /// Opens the blob file that a version has as `meta`, in the directory `dir` of the store.
    ///
    /// # Errors
    /// As for [`BlobReader::open`]. Corruption: it is whole, but another file than `meta` tells of.
    pub(crate) fn open(
        fs: &dyn Fs,
        deleter: &Arc<FileDeleter>,
        dir: &Path,
        meta: BlobMeta,
        cache: Option<&Arc<FileCache>>,
    ) -> Result<Arc<Self>> {
        let path = blob_path(dir, meta.number);
        let (reader, found) = BlobReader::open(fs, &path, cache)?;
        if found != meta {
            let what = "not the blob file that the manifest tells of";
            return Err(Error::corruption(&path, 0, what));
        }
        let (deleter, obsolete) = (Arc::clone(deleter), AtomicBool::new(false));
        Ok(Arc::new(OpenBlob { reader, meta, deleter, path, obsolete }))
    }

    pub(crate) fn meta(&self) -> &BlobMeta {
        &self.meta
    }

    /// Checks every record. O(bytes).
    ///
    /// # Errors
    /// As for [`BlobReader::verify`].
    pub(crate) fn verify(&self) -> Result<()> {
        self.reader.verify(&self.meta)
    }

    /// No version has it any more: the file goes when the last reader does.
    pub(crate) fn set_obsolete(&self) {
        self.obsolete.store(true, Ordering::Relaxed);
    }
}

impl Drop for OpenBlob {
    fn drop(&mut self) {
        if *self.obsolete.get_mut() {
            self.deleter.remove(&self.path);
        }
    }
}

/// The name of blob file `number`, beside the manifest.
pub(crate) fn blob_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(blob_name(number))
}

/// The blob files of a version, open.
#[derive(Default)]
pub(crate) struct BlobFiles {
    /// By number.
    files: Vec<Arc<OpenBlob>>,
}

impl BlobFiles {
    /// Those of `open` that a version has as `used`. The others are obsolete.
    ///
    /// # Panics
    /// One that the version has is not open.
    pub(crate) fn of_version<'a>(
        used: impl ExactSizeIterator<Item = &'a BlobUse>,
        open: impl Iterator<Item = Arc<OpenBlob>>,
    ) -> Self {
        let mut files = Vec::with_capacity(used.len());
        let mut open: Vec<Arc<OpenBlob>> = open.collect();
        open.sort_by_key(|blob| blob.meta.number);
        let mut open = open.into_iter();
        for used in used {
            let blob = loop {
                let blob = open.next().expect("an edit adds only blob files that are open");
                if blob.meta.number == used.meta.number {
                    break blob;
                }
                blob.set_obsolete();
            };
            files.push(blob);
        }
        open.for_each(|blob| blob.set_obsolete());
        BlobFiles { files }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<OpenBlob>> {
        self.files.iter()
    }

    /// The value of an entry of kind blob, which has this blob index, user key and sequence number.
    /// It is read into `buffer`, and lent from there. Whether its checksum is computed is `verify`.
    ///
    /// # Errors
    /// Corruption; those of the file system.
    pub(crate) fn value<'b>(
        &self,
        index: &[u8],
        (user_key, sequence): (&[u8], u64),
        verify: bool,
        buffer: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        let index = BlobIndex::take(index).ok_or_else(|| unknown_place(None))?;
        let at = self.files.binary_search_by_key(&index.file, |blob| blob.meta.number);
        let blob = at.ok().and_then(|at| self.files.get(at));
        let blob = blob.ok_or_else(|| unknown_place(Some(index.file)))?;
        blob.reader.value(index, (user_key, sequence), verify, buffer)
    }
}

/// Tables are checked against their properties, and these against the manifest, so this is a table
/// that changed under way.
#[cold]
fn unknown_place(file: Option<u64>) -> Error {
    let what = match file {
        None => "a value in a blob file without its place".to_owned(),
        Some(file) => format!("a value in blob file {file}, which the store does not have"),
    };
    Error::corruption(Path::new("a table"), 0, what)
}
