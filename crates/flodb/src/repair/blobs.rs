//! The blob files of a repair: found by what is in them, and read as far as they are sound.
//!
//! A table keeps its references to blob files that are whole. A blob file that is not goes, and
//! what can be read of it returns into the tables: each record has its own checksum, and is found
//! by its index. What cannot be read is lost, as the entries of a damaged block are.

use super::tables::escaped;
use crate::blob::{BlobIndex, BlobMeta, BlobReader};
use crate::check::Finding;
use crate::error::{Error, Result};
use crate::key::Parsed;
use crate::manifest::FileName;
use crate::open_blob::blob_path;
use crate::version::Version;
use keyrack_vfs::Fs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A blob file that was found.
struct Found {
    path: PathBuf,
    reader: BlobReader,
    /// If it is whole, and can stay.
    sound: Option<BlobMeta>,
    findings: Vec<Finding>,
}

/// The blob files in the directory of a store, by the numbers that they say of themselves.
pub(super) struct Blobs {
    dir: PathBuf,
    found: BTreeMap<u64, Found>,
    /// Files with names of blob files that are none, or no others than there are.
    others: Vec<PathBuf>,
}

/// What comes of an entry whose value is in a blob file.
pub(super) enum Value<'b> {
    /// It stays there.
    Apart,
    /// It is this, and has to be in the table.
    Within(&'b [u8]),
    /// It cannot be read: where, and why.
    Lost(Finding),
}

impl Blobs {
    /// Looks at all files of `names` that are blob files, or named as such. `version` is what the
    /// manifest says, if it is whole. O(bytes).
    pub(super) fn look(
        fs: &dyn Fs,
        dir: &Path,
        names: &[PathBuf],
        version: Option<&Version>,
    ) -> Result<Self> {
        let mut blobs = Blobs { dir: dir.to_owned(), found: BTreeMap::new(), others: Vec::new() };
        // Those first that have the names of what they are.
        let mut misnamed = Vec::new();
        for path in names {
            let name = path.file_name().and_then(FileName::parse);
            match (name, open(fs, path, name)?) {
                (Some(FileName::Blob(number)), Some(opened)) if opened.number == number => {
                    blobs.add(opened, path, version)?;
                }
                (None | Some(FileName::Blob(_)), Some(opened)) => misnamed.push((opened, path)),
                (Some(FileName::Blob(_)), None) => blobs.others.push(path.clone()),
                _ => {}
            }
        }
        for (opened, path) in misnamed {
            if blobs.found.contains_key(&opened.number) {
                blobs.others.push(path.clone());
                continue;
            }
            let (number, own) = (opened.number, blob_path(dir, opened.number));
            blobs.add(opened, path, version)?;
            // It cannot get its name back, since another file has that.
            if names.contains(&own)
                && let Some(found) = blobs.found.get_mut(&number)
            {
                found.sound = None;
                found.findings.push(Finding::damage(
                    path,
                    0,
                    format!("this is blob file {number}"),
                ));
            }
        }
        Ok(blobs)
    }

    fn add(&mut self, opened: Opened, path: &Path, version: Option<&Version>) -> Result<()> {
        let Opened { number, reader, meta } = opened;
        let mut findings = Vec::new();
        let mut sound = None;
        match meta {
            Ok(meta) => {
                let mut unsound = |offset, what: &str| {
                    findings.push(Finding::damage(path, offset, what));
                };
                reader.inspect(&meta, &mut |_| Ok(()), &mut unsound)?;
                let known = version.and_then(|version| version.blobs().get(&number));
                if known.is_some_and(|known| known.meta != meta) {
                    let what = "not the blob file that the manifest tells of";
                    findings.push(Finding::damage(path, 0, what));
                }
                sound = Some(meta).filter(|_| findings.is_empty());
            }
            Err(error) => {
                let (offset, what) = error.into_damage()?;
                findings.push(Finding::damage(path, offset, what));
            }
        }
        self.found.insert(number, Found { path: path.to_owned(), reader, sound, findings });
        Ok(())
    }

    /// The value of an entry that has this blob index. It is read into `buffer` if it has to be.
    pub(super) fn value<'b>(
        &self,
        entry: &Parsed<'_>,
        index: &[u8],
        buffer: &'b mut Vec<u8>,
    ) -> Result<Value<'b>> {
        let lost = |path: &Path, offset, what: &str| {
            Ok(Value::Lost(Finding::damage(path, offset, what.to_owned())))
        };
        let Some(index) = BlobIndex::take(index) else {
            return lost(&self.dir, 0, "a value in a blob file without its place");
        };
        let Some(found) = self.found.get(&index.file) else {
            return lost(&blob_path(&self.dir, index.file), 0, "the file is missing");
        };
        let key = (entry.user, entry.sequence);
        let damage = |error: Error| -> Result<Value<'b>> {
            let (offset, what) = error.into_damage()?;
            lost(&found.path, offset, &what)
        };
        if found.sound.is_some() {
            return match found.reader.check(index, key, buffer) {
                Ok(()) => Ok(Value::Apart),
                Err(error) => damage(error),
            };
        }
        match found.reader.value(index, key, true, buffer) {
            Ok(value) => Ok(Value::Within(value)),
            Err(error) => damage(error),
        }
    }

    /// What a new manifest may have: those that are whole.
    pub(super) fn sound(&self) -> Vec<BlobMeta> {
        self.found.values().filter_map(|found| found.sound).collect()
    }

    /// The files that a version has under wrong names, and their names.
    pub(super) fn misnamed(&self, version: &Version) -> Vec<(PathBuf, PathBuf)> {
        let used =
            version.blobs().keys().filter_map(|number| Some((number, self.found.get(number)?)));
        let names = used.map(|(number, found)| (found.path.clone(), blob_path(&self.dir, *number)));
        names.filter(|(path, own)| path != own).collect()
    }

    /// The files that a version does not have.
    pub(super) fn unused(&self, version: &Version) -> Vec<PathBuf> {
        let is_used = |number: &u64| version.blobs().contains_key(number);
        let unused = self.found.iter().filter(|(number, _)| !is_used(number));
        unused.map(|(_, found)| found.path.clone()).chain(self.others.iter().cloned()).collect()
    }

    /// What is wrong with files that a version had.
    pub(super) fn findings(&self) -> Vec<Finding> {
        self.found.values().flat_map(|found| found.findings.iter().cloned()).collect()
    }
}

struct Opened {
    number: u64,
    reader: BlobReader,
    meta: Result<BlobMeta>,
}

/// Opens what is a blob file, or has the name of one. `None` if it is of no interest.
fn open(fs: &dyn Fs, path: &Path, name: Option<FileName>) -> Result<Option<Opened>> {
    if !matches!(name, None | Some(FileName::Blob(_))) {
        return Ok(None);
    }
    match BlobReader::open_damaged(fs, path, None) {
        Ok((reader, meta)) => Ok(Some(Opened { number: reader.number(), reader, meta })),
        Err(Error::Usage(_)) if name.is_none() => Ok(None),
        Err(error) => {
            let (offset, what) = error.into_damage()?;
            let Some(FileName::Blob(number)) = name else { return Ok(None) };
            // Without a header, its name says what it is.
            let reader = BlobReader::open_headless(fs, path, number)?;
            let meta = Err(Error::corruption(path, offset, what));
            Ok(Some(Opened { number, reader, meta }))
        }
    }
}

/// The entries of a table whose values are lost, by the file that had them.
#[derive(Default)]
pub(super) struct LostValues {
    by_file: BTreeMap<PathBuf, (Finding, u64, String, String)>,
}

impl LostValues {
    pub(super) fn add(&mut self, user_key: &[u8], finding: Finding) {
        let key = escaped(user_key);
        let path = finding.path.clone();
        let lost = self.by_file.entry(path).or_insert((finding, 0, key.clone(), String::new()));
        lost.1 += 1;
        lost.3 = key;
    }

    /// In words, what is lost; or what may be, if it is not yet known whether the log has it.
    pub(super) fn into_findings(self, is_lost: bool) -> Vec<Finding> {
        let verb = if is_lost { "lost are" } else { "it has the values of" };
        let say = |(mut finding, count, first, last): (Finding, u64, String, String)| {
            let what = &finding.what;
            finding.what = format!("{what}; {verb} {count} entries from {first} to {last}");
            finding
        };
        self.by_file.into_values().map(say).collect()
    }
}
