//! The files of published logs: which there are, and whether they are still what was published.

use super::handle::Registry;
use super::names::hex;
use super::publication::{FORMAT, Publication, PublishedFile, Reference};
use crate::changes::key_range;
use crate::error::{Error, Result, if_found};
use crate::open::LogHead;
use keyrack_flodb::Db;
use keyrack_measure::wall;
use keyrack_vfs::{FileKind, Fs, OpenOptions, RelativePath};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

impl Registry {
    /// The text about a copy. O(records and bytes).
    pub(super) fn describe(
        &self,
        copy: &Path,
        name: &str,
        version: u64,
        directory: RelativePath,
        contents: Vec<RelativePath>,
    ) -> Result<Publication> {
        let options = keyrack_flodb::Options { create_if_missing: false, ..Default::default() };
        let fs = self.fs();
        let store = Db::open_read_only_in(Arc::clone(&fs), copy, options)?;
        let head = LogHead::of(&store)?.ok_or_else(|| Error::Corruption {
            path: copy.to_owned(),
            what: "the copy of the log is empty".to_owned(),
        })?;
        let range = key_range(&store)?;
        drop(store);
        let mut files = Vec::new();
        for entry in fs.list(copy)? {
            if entry.kind == FileKind::File && entry.name != "LOCK" {
                let name = entry.name.to_str().and_then(|name| RelativePath::single(name).ok());
                let name = name.ok_or_else(|| Error::Corruption {
                    path: copy.join(&entry.name),
                    what: "it is no file of a log".to_owned(),
                })?;
                files.push(digest(&*fs, copy, &name)?);
            }
        }
        for name in contents {
            files.push(digest(&*fs, copy, &name)?);
        }
        let mut publication = Publication {
            format: FORMAT,
            name: name.to_owned(),
            version,
            log: head.log.to_string(),
            epoch: head.epoch,
            directory,
            files,
            records: range.records,
            keys: range.ends.map(|(first, last)| (hex(&first), hex(&last))),
            base: head.base,
            published_ns: wall::unix_ns(),
            sha256: String::new(),
        };
        publication.sha256 = publication.digest()?;
        Ok(publication)
    }

    /// Holds every published file against its length and digest, and every text against its own
    /// digest and the ledger. Gives what differs, a line each.
    ///
    /// # Errors
    /// The machine's. Damage is none.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for name in self.names()? {
            let (versions, gone) = self.versions_noted(&name)?;
            for version in gone {
                found.push(self.version_gone(&name, version)?.to_string());
            }
            for version in versions {
                let reference = Reference { name: name.clone(), version };
                match self.publication(&reference) {
                    Ok(publication) => {
                        let dir = self.copy_dir(&publication.directory)?;
                        for file in &publication.files {
                            found.extend(self.flaw(&dir, file, true)?.map(|flaw| flaw.to_string()));
                        }
                    }
                    Err(error) => found.push(error.to_string()),
                }
            }
        }
        for kind in ["views", "holds"] {
            for name in self.listed(kind)? {
                match self.references(&format!("{kind}/{name}")) {
                    Err(error @ Error::Corruption { .. }) => found.push(error.to_string()),
                    read => drop(read?),
                }
            }
        }
        Ok(found)
    }

    /// Refuses a copy that is not the one that was published, as far as its manifest and the
    /// lengths of its files say. The store below has checksums for the rest.
    pub(super) fn check_copy(&self, publication: &Publication) -> Result<()> {
        let dir = self.copy_dir(&publication.directory)?;
        for file in &publication.files {
            if let Some(flaw) = self.flaw(&dir, file, names_tables(&file.name))? {
                return Err(flaw);
            }
        }
        Ok(())
    }

    /// What is wrong with a file of a copy, if anything is. With `is_read`, its bytes count too.
    fn flaw(&self, dir: &Path, file: &PublishedFile, is_read: bool) -> Result<Option<Error>> {
        let fs = self.fs();
        let path = file.name.under(dir);
        let what = match if_found(fs.metadata(&path))?.map(|found| found.len) {
            None => "it is missing".to_owned(),
            Some(has) if has != file.bytes => format!("{has} bytes, {} were published", file.bytes),
            Some(_) if !is_read || digest(&*fs, dir, &file.name)? == *file => return Ok(None),
            Some(_) => "not what was published".to_owned(),
        };
        Ok(Some(Error::Corruption { path, what }))
    }
}

/// Whether a file of a store says which others are part of it.
fn names_tables(name: &RelativePath) -> bool {
    name.as_str() == "CURRENT" || name.as_str().starts_with("MANIFEST")
}

/// Length and digest of a file.
fn digest(fs: &dyn Fs, dir: &Path, name: &RelativePath) -> Result<PublishedFile> {
    let file = fs.open(&name.under(dir), &OpenOptions::new().read(true))?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let count = file.read_at(bytes, &mut chunk)?;
        hash.update(&chunk[..count]);
        bytes += count as u64;
        if count < chunk.len() {
            break;
        }
    }
    Ok(PublishedFile { name: name.clone(), bytes, sha256: hex(&hash.finalize()) })
}
