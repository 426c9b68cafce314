//! Reading all bytes of backups, and saying what is wrong.

use crate::delete::NeededLogs;
use crate::digest::{Digest, Hasher};
use crate::error::{Error, Result};
use crate::log_object::LogName;
use crate::manifest::Manifest;
use crate::progress::Progress;
use crate::repository::{BackupId, Repository, object_name};
use keyrack_vfs::Operation;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

/// What a verification has read and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Backups that were looked at.
    pub backups: u64,
    /// Objects that were read.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Parts of logs that were read.
    pub log_objects: u64,
    /// Their bytes.
    pub log_bytes: u64,
    /// Objects that no backup names, when all backups were looked at and none is of a later
    /// version: interrupted backups and deletions leave them, and the next deletion removes them.
    pub unused_objects: u64,
    /// What is wrong.
    pub damage: Vec<Damage>,
    /// Backups of a later version, and what to do about it. Nothing is known of their objects.
    pub later: Vec<(BackupId, String)>,
}

/// Something that is wrong in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Which file or object.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
    /// The backups that cannot be restored for it.
    pub backups: Vec<BackupId>,
}

// None for a part of a log: the backups can be restored, and moments after them cannot.
impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.backups.is_empty() {
            return write!(f, "{}: {}", self.place, self.what);
        }
        let ids: Vec<String> = self.backups.iter().map(BackupId::to_string).collect();
        let noun = if ids.len() == 1 { "backup" } else { "backups" };
        write!(f, "{}: {}; needed by {noun} {}", self.place, self.what, ids.join(", "))
    }
}

impl VerifyReport {
    /// Whether everything can be restored that was looked at.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty() && self.later.is_empty()
    }
}

/// Objects by their names, and the lengths that manifests state of them. If there are two, one of
/// the manifests is wrong.
type Needs = BTreeMap<(Digest, u64), Need>;

/// Who needs an object.
struct Need {
    /// The name of a file that it is.
    file: String,
    backups: Vec<BackupId>,
}

impl Repository {
    /// Reads every byte of a backup, or of all backups, and compares it with its checksum. Each
    /// object is read once, unless manifests state different lengths of it. Writes nothing and
    /// takes no lock.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such backup; the machine's, but for what a disk cannot read:
    /// that is damage.
    pub fn verify(
        &self,
        id: Option<&BackupId>,
        mut watch: impl FnMut(Progress),
    ) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        let manifests = match id {
            None => self.manifests()?,
            Some(id) => vec![(id.clone(), self.checked(id)?)],
        };
        report.backups = manifests.len() as u64;
        let mut needed_logs = NeededLogs::default();
        for manifest in manifests.iter().filter_map(|(_, manifest)| manifest.as_ref().ok()) {
            needed_logs.add(manifest.log);
        }
        let needs = needs(self, manifests, &mut report);
        if id.is_none() && report.later.is_empty() {
            let named: BTreeSet<Digest> = needs.keys().map(|(object, _)| *object).collect();
            let objects = self.objects()?;
            let unused = objects.keys().filter(|object| !named.contains(*object));
            report.unused_objects = unused.count() as u64;
        }
        if id.is_none() {
            self.verify_logs(&needed_logs, &mut report)?;
        }
        let total = needs.keys().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        let mut progress = Progress::begin(needs.len(), total);
        for ((object, bytes), need) in needs {
            let wrong = self.wrong_with(object, bytes, &mut progress.watched(&mut watch))?;
            progress.end_file(bytes, &mut watch);
            report.objects += 1;
            // A damaged manifest states what it will.
            report.bytes = report.bytes.saturating_add(bytes);
            if let Some(what) = wrong {
                let backups = self.still_there(need.backups)?;
                // All of them were deleted meanwhile, and the object with them.
                if backups.is_empty() {
                    continue;
                }
                let place = self.target.place(Some(&object_name(object)));
                let what = format!("{what} (the file {})", need.file);
                report.damage.push(Damage { place, what, backups });
            }
        }
        Ok(report)
    }

    /// The manifest of a backup that a caller has named, or what is wrong with it.
    fn checked(&self, id: &BackupId) -> Result<Result<Manifest>> {
        match self.named(id) {
            Err(error @ Error::Usage(_)) if self.ids()?.contains(id) => Ok(Err(error)),
            Err(error @ Error::Usage(_)) => Err(error),
            Err(error) if error.is_of_one_object() => Ok(Err(error)),
            manifest => manifest.map(Ok),
        }
    }

    /// Reads an object, and says what is wrong with it.
    fn wrong_with(
        &self,
        object: Digest,
        bytes_stated: u64,
        read: &mut dyn FnMut(u64),
    ) -> Result<Option<String>> {
        let (mut hasher, mut bytes) = (Hasher::default(), 0);
        let found = self.target.read(&object_name(object), &mut |chunk| {
            hasher.update(chunk);
            bytes += chunk.len() as u64;
            read(chunk.len() as u64);
            Ok(())
        });
        Ok(match found {
            Err(Error::Io(error)) if error.operation() == Operation::Read => {
                Some(error.to_string())
            }
            Err(error) => return Err(error),
            Ok(false) => Some("it is missing".to_owned()),
            Ok(true) if bytes != bytes_stated => {
                Some(format!("it has {bytes} bytes, not {bytes_stated}"))
            }
            Ok(true) if hasher.finish() != object => {
                Some("its bytes are not those that were saved".to_owned())
            }
            Ok(true) => None,
        })
    }

    /// Reads the parts of logs that backups need, and says what is wrong with them.
    fn verify_logs(&self, needed: &NeededLogs, report: &mut VerifyReport) -> Result<()> {
        let knows_all = report.later.is_empty() && report.damage.is_empty();
        let mut before: Option<LogName> = None;
        for (part, bytes) in self.log_names()? {
            if !needed.has(&part) {
                report.unused_objects += u64::from(knows_all);
                continue;
            }
            report.log_objects += 1;
            report.log_bytes += bytes;
            let before = before.replace(part).filter(|before| before.log_id == part.log_id);
            let known_to = before.map(|before| before.end).or(needed.first(part.log_id));
            let known_to = known_to.expect("it has a backup, or it would not be needed");
            let place = self.target.place(Some(&part.object()));
            let wrong = match self.log_object(&part) {
                // Deleted meanwhile.
                Err(Error::Corruption { .. }) if !self.log_names()?.contains_key(&part) => continue,
                Err(Error::Corruption { what, .. }) => what,
                Err(error) if error.is_of_one_object() => error.to_string(),
                Err(error) => return Err(error),
                Ok(_) if before.is_some() && part.first < known_to => {
                    format!("it has positions below {known_to}, which the part before it has, too")
                }
                Ok(object) if object.continues && part.first > known_to => {
                    format!("the positions from {known_to} to {} are missing before it", part.first)
                }
                Ok(_) => continue,
            };
            let what = format!("{wrong}; no moment from here to the next backup can be restored");
            report.damage.push(Damage { place, what, backups: Vec::new() });
        }
        Ok(())
    }

    fn still_there(&self, backups: Vec<BackupId>) -> Result<Vec<BackupId>> {
        let ids: HashSet<BackupId> = self.ids()?.into_iter().collect();
        Ok(backups.into_iter().filter(|id| ids.contains(id)).collect())
    }
}

/// The objects that manifests name, in the order of their names; what cannot be read is damage.
fn needs(
    repository: &Repository,
    manifests: Vec<(BackupId, Result<Manifest>)>,
    report: &mut VerifyReport,
) -> Needs {
    let mut needs = Needs::new();
    for (id, manifest) in manifests {
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(Error::Usage(what)) => {
                report.later.push((id, what));
                continue;
            }
            Err(error) => {
                let (place, what) = match error {
                    Error::Corruption { place, what } => (place, what),
                    error => (repository.target.place(Some(&id.object())), error.to_string()),
                };
                report.damage.push(Damage { place, what, backups: vec![id] });
                continue;
            }
        };
        for file in manifest.files {
            let need = needs
                .entry((file.object, file.bytes))
                .or_insert_with(|| Need { file: file.name.to_string(), backups: Vec::new() });
            if need.backups.last() != Some(&id) {
                need.backups.push(id.clone());
            }
        }
    }
    needs
}
