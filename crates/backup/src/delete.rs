//! Deleting backups, and what only they needed.
//!
//! ```text
//!   read all manifests      one that stays and cannot be read: nothing is done
//!   remove manifests
//!   sync                    they cannot come back
//!   remove objects          that no manifest names, those of interrupted backups too
//! ```
//!
//! A deletion that is killed leaves objects that the next one removes. It never leaves a manifest
//! without its objects.

use crate::error::{Error, Result};
use crate::repository::{BackupId, Repository, object_name};
use std::collections::HashSet;

/// What a deletion has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// Backups.
    pub backups: u64,
    /// Objects that no other backup needs.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Repository {
    /// Deletes backups, and all objects that no other backup needs. With no `ids` it removes what
    /// interrupted backups have left. A backup whose manifest cannot be read can be deleted, too.
    ///
    /// # Errors
    /// Nothing is done: [`Error::Usage`] if there is no such backup, or a later program made one
    /// that stays; [`Error::Corruption`] or [`Error::Io`] if the manifest of one that stays cannot
    /// be read, so that nobody knows which objects it needs; [`Error::Locked`]. The machine's.
    pub fn delete(&self, ids: &[BackupId]) -> Result<Deleted> {
        let _guard = self.target.lock()?;
        let manifests = self.manifests()?;
        let there = |id: &&BackupId| manifests.iter().any(|(other, _)| other == *id);
        if let Some(missing) = ids.iter().find(|id| !there(id)) {
            return Err(self.no_backup(missing));
        }
        let mut needed = HashSet::new();
        let (mut going, mut backups) = (Vec::new(), 0);
        for (id, manifest) in manifests {
            if ids.contains(&id) {
                going.push(id);
                backups += 1;
            } else {
                needed.extend(manifest?.files.into_iter().map(|file| file.object));
            }
        }
        for id in going {
            self.target.remove(&id.object())?;
        }
        self.target.sync()?;
        let mut deleted = Deleted { backups, ..Deleted::default() };
        for (object, bytes) in self.objects()? {
            if !needed.contains(&object) {
                self.target.remove(&object_name(object))?;
                deleted.objects += 1;
                deleted.bytes += bytes;
            }
        }
        Ok(deleted)
    }

    /// Deletes all backups but the newest `count`, as [`Repository::delete`] does. A backup whose
    /// manifest cannot be read counts as one.
    ///
    /// # Errors
    /// As for [`Repository::delete`]. [`Error::Usage`] if `count` is 0.
    pub fn keep_newest(&self, count: usize) -> Result<Deleted> {
        if count == 0 {
            return Err(Error::Usage("at least one backup must be kept (got 0)".to_owned()));
        }
        let mut ids = self.ids()?;
        ids.truncate(ids.len().saturating_sub(count));
        self.delete(&ids)
    }
}
