//! A repository of backups: objects named by their content, and a manifest for each backup.
//!
//! ```text
//!   REPOSITORY           what this is, and the version of its format
//!   objects/HEX          a file of a store, named by its SHA-256; never changed
//!   backups/ID           the manifest of a backup, named by the moment it was taken
//!   logs/ID-FIRST-END    part of the log of a store, named by its positions; see `ship.rs`
//! ```
//!
//! A backup is there when its manifest is. So the order of writes is everything:
//!
//! ```text
//!   save     objects     sync     manifest
//!   delete   manifests   sync     objects that no manifest names
//! ```
//!
//! A crash in between leaves objects that no manifest names. They cost space until the next
//! deletion, and the next backup uses them.
//!
//! **Invariant:** every object that a manifest names is there, whole, and was durable before it.
//!
//! **Invariant:** whoever writes has the lock. Readers take none: they meet a missing object if
//! their backup is deleted meanwhile.

use crate::digest::Digest;
use crate::error::{Error, Result, name};
use crate::manifest::{MANIFEST_BYTES_MAX, Manifest};
use crate::target::Target;
use keyrack_store::LogPosition;
use keyrack_vfs::RelativePath;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub(crate) const MARKER: &str = "REPOSITORY";
pub(crate) const OBJECTS: &str = "objects";
pub(crate) const BACKUPS: &str = "backups";
pub(crate) const LOGS: &str = "logs";
const MARKER_FIRST: &str = "keyrack backup repository ";
const MARKER_TEXT: &str = "keyrack backup repository 1\n";
/// Bytes of a marker, whichever version wrote it.
const MARKER_BYTES_MAX: usize = 4096;
/// Backups that begin within one second, at most.
const SAME_SECOND_MAX: u32 = 9999;

/// A repository of backups.
#[derive(Clone, Debug)]
pub struct Repository {
    pub(crate) target: Arc<dyn Target>,
}

/// The name of a backup: when it was taken, in UTC, such as `20260921T131020Z`. Later backups have
/// larger names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackupId(String);

/// What is known of a backup without looking at its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its name.
    pub id: BackupId,
    /// The engine whose store it is.
    pub engine: String,
    /// When it was taken, in nanoseconds since 1970.
    pub taken_ns: u64,
    /// Where in its log the store is, if the engine has a log that can be shipped.
    pub log: Option<LogPosition>,
    /// Files of the store.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Repository {
    /// The repository at `target`, made if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] if something else is there, or a later program made it; the machine's.
    pub fn create(target: Arc<dyn Target>) -> Result<Repository> {
        target.prepare()?;
        let repository = Repository { target };
        let guard = repository.target.lock()?;
        if repository.read_small(&name(MARKER), MARKER_BYTES_MAX)?.is_none() {
            repository.target.create(&name(MARKER), MARKER_TEXT.as_bytes())?;
        }
        drop(guard);
        repository.check_marker()?;
        Ok(repository)
    }

    /// The repository at `target`.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none, or a later program made it; the machine's.
    pub fn open(target: Arc<dyn Target>) -> Result<Repository> {
        let repository = Repository { target };
        repository.check_marker()?;
        Ok(repository)
    }

    /// Where it is, as a person finds it.
    #[must_use]
    pub fn place(&self) -> String {
        self.target.place(None)
    }

    /// All backups, the oldest first; in place of what is known of one, why its manifest cannot be
    /// read.
    ///
    /// # Errors
    /// The machine's.
    pub fn backups(&self) -> Result<Vec<(BackupId, Result<BackupInfo>)>> {
        let manifests = self.manifests()?.into_iter();
        let info = |(id, manifest): (BackupId, Result<Manifest>)| {
            let info = manifest.map(|manifest| BackupInfo::of(&id, &manifest));
            (id, info)
        };
        Ok(manifests.map(info).collect())
    }

    /// The newest backup, whether it can be read or not.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is none; the machine's.
    pub fn newest(&self) -> Result<BackupId> {
        let newest = self.ids()?.pop();
        let what = "there is no backup in it; make one, or name another directory of backups";
        newest.ok_or_else(|| Error::Usage(format!("{}: {what}", self.place())))
    }

    /// The names of all backups, the oldest first. Other objects beside them are not ours.
    pub(crate) fn ids(&self) -> Result<Vec<BackupId>> {
        let listed = self.target.list(&name(BACKUPS))?;
        let mut ids: Vec<BackupId> =
            listed.iter().filter_map(|object| BackupId::parse(&object.name)).collect();
        ids.sort();
        Ok(ids)
    }

    /// All manifests, the oldest first; in place of one that cannot be read, why. One that is
    /// deleted meanwhile is left out.
    pub(crate) fn manifests(&self) -> Result<Vec<(BackupId, Result<Manifest>)>> {
        let mut manifests = Vec::new();
        for id in self.ids()? {
            match self.manifest(&id) {
                Ok(None) => {}
                Ok(Some(manifest)) => manifests.push((id, Ok(manifest))),
                Err(error) if error.is_of_one_object() => manifests.push((id, Err(error))),
                Err(error) => return Err(error),
            }
        }
        Ok(manifests)
    }

    /// The manifest of a backup; nothing if there is none.
    pub(crate) fn manifest(&self, id: &BackupId) -> Result<Option<Manifest>> {
        let name = id.object();
        let Some(bytes) = self.read_small(&name, MANIFEST_BYTES_MAX)? else { return Ok(None) };
        Manifest::decode(&self.target.place(Some(&name)), &bytes).map(Some)
    }

    /// The manifest of a backup that a caller has named.
    pub(crate) fn named(&self, id: &BackupId) -> Result<Manifest> {
        self.manifest(id)?.ok_or_else(|| self.no_backup(id))
    }

    pub(crate) fn no_backup(&self, id: &BackupId) -> Error {
        let remedy = "--list names those that are there";
        Error::Usage(format!("{}: there is no backup {id}; {remedy}", self.place()))
    }

    /// All objects with their lengths. Names that are no SHA-256 are not ours.
    pub(crate) fn objects(&self) -> Result<HashMap<Digest, u64>> {
        let listed = self.target.list(&name(OBJECTS))?;
        let parsed = |object: &crate::Listed| Some((Digest::parse(&object.name)?, object.bytes));
        Ok(listed.iter().filter_map(parsed).collect())
    }

    fn check_marker(&self) -> Result<()> {
        let place = self.target.place(Some(&name(MARKER)));
        let Some(bytes) = self.read_small(&name(MARKER), MARKER_BYTES_MAX)? else {
            let what = "there are no backups in it; make one, or correct the name";
            return Err(Error::Usage(format!("{}: {what}", self.place())));
        };
        match std::str::from_utf8(&bytes) {
            Ok(MARKER_TEXT) => Ok(()),
            Ok(text) if is_later_marker(text) => {
                let what = "a repository of a later version; use a later keyrack";
                Err(Error::Usage(format!("{place}: {what}")))
            }
            _ => {
                let what = "not the first file of a repository of backups; restore it from a copy";
                Err(Error::corruption(place, what))
            }
        }
    }

    /// An object that is not larger than `bytes_max`.
    pub(crate) fn read_small(
        &self,
        name: &RelativePath,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let found = self.target.read(name, &mut |chunk| {
            if chunk.len() > bytes_max - bytes.len() {
                let what = format!("it has more than {bytes_max} bytes");
                return Err(Error::corruption(self.target.place(Some(name)), what));
            }
            bytes.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(found.then_some(bytes))
    }
}

/// Whether the first line has a later version. What follows it is that version's.
fn is_later_marker(text: &str) -> bool {
    let line = text.split_once('\n').map(|(line, _)| line);
    let version = line.and_then(|line| line.strip_prefix(MARKER_FIRST));
    version.and_then(crate::manifest::number).is_some_and(|version| version > 1)
}

/// The object of a file.
pub(crate) fn object_name(object: Digest) -> RelativePath {
    name(&format!("{OBJECTS}/{object}"))
}

impl BackupInfo {
    pub(crate) fn of(id: &BackupId, manifest: &Manifest) -> BackupInfo {
        BackupInfo {
            id: id.clone(),
            engine: manifest.engine.clone(),
            taken_ns: manifest.taken_ns,
            log: manifest.log,
            files: manifest.files.len() as u64,
            bytes: manifest.bytes(),
        }
    }
}

impl BackupId {
    /// The name that `text` is, if it is one: `YYYYMMDDTHHMMSSZ`, or that and `-NNNN`.
    #[must_use]
    pub fn parse(text: &str) -> Option<BackupId> {
        let fits = |pattern: &str| {
            let mut pairs = pattern.bytes().zip(text.bytes());
            pattern.len() == text.len()
                && pairs.all(|(pattern, byte)| match pattern {
                    b'0' => byte.is_ascii_digit(),
                    other => byte == other,
                })
        };
        let is_id = fits("00000000T000000Z") || fits("00000000T000000Z-0000");
        is_id.then(|| BackupId(text.to_owned()))
    }

    /// A name for a backup of that moment, larger than the `newest` there is.
    pub(crate) fn after(newest: Option<&BackupId>, taken_ns: u64) -> Result<BackupId> {
        let text = keyrack_calendar::rfc3339_of_ns(taken_ns).replace(['-', ':'], "");
        let id = BackupId::parse(&text).expect("a stamp is one of the calendar");
        let Some(newest) = newest.filter(|newest| **newest >= id) else { return Ok(id) };
        // Within the same second, or after the clock was set back.
        let (second, number) = newest.0.split_once('-').unwrap_or((&newest.0, "0"));
        let number: u32 = number.parse().expect("digits, by the pattern");
        if number >= SAME_SECOND_MAX {
            let what = "is of this moment or later; set the clock, or delete it";
            return Err(Error::Usage(format!("the backup {newest} {what}")));
        }
        Ok(BackupId(format!("{second}-{:04}", number + 1)))
    }

    /// The object of the manifest.
    pub(crate) fn object(&self) -> RelativePath {
        name(&format!("{BACKUPS}/{self}"))
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_backups_have_larger_names() {
        let first = BackupId::after(None, 1_234_567_890_999_999_999).unwrap();
        assert_eq!(first.to_string(), "20090213T233130Z");
        let second = BackupId::after(Some(&first), 1_234_567_890_999_999_999).unwrap();
        assert_eq!(second.to_string(), "20090213T233130Z-0001");
        // The clock was set back.
        let third = BackupId::after(Some(&second), 5).unwrap();
        assert_eq!(third.to_string(), "20090213T233130Z-0002");
        let fourth = BackupId::after(Some(&third), 1_234_567_891_000_000_000).unwrap();
        assert_eq!(fourth.to_string(), "20090213T233131Z");
        assert!(first < second && second < third && third < fourth);
        let last = BackupId::parse("20090213T233130Z-9999").unwrap();
        assert!(matches!(BackupId::after(Some(&last), 5), Err(Error::Usage(_))));
    }

    #[test]
    fn other_names_are_no_backups() {
        for text in ["", "20090213", "20090213T233130Z-1", "20090213t233130z", ".20090213T23313Z"] {
            assert_eq!(BackupId::parse(text), None, "{text}");
        }
    }
}
