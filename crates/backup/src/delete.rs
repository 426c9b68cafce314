//! Deleting backups, and what only they needed.
//!
//! ```text
//!   read all manifests      one that stays and cannot be read: nothing is done
//!   remove manifests
//!   sync                    they cannot come back
//!   remove objects          that no manifest names, those of interrupted backups too
//!   remove parts of logs    that end at or before the first backup of their log, or have none
//! ```
//!
//! A deletion that is killed leaves objects that the next one removes. It never leaves a manifest
//! without its objects.

use crate::error::{Error, Result};
use crate::log_object::LogName;
use crate::manifest::Manifest;
use crate::repository::{BackupId, Repository, object_name};
use keyrack_store::LogPosition;
use std::collections::{HashMap, HashSet};

/// What a deletion has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deleted {
    /// Backups.
    pub backups: u64,
    /// Objects and parts of logs that no other backup needs.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Which parts of logs backups need: what comes after the first backup of the log.
#[derive(Debug, Default)]
pub(crate) struct NeededLogs {
    /// The positions of the first ones, by log.
    first: HashMap<u64, u64>,
}

impl NeededLogs {
    /// There is a backup at that position.
    pub(crate) fn add(&mut self, log: Option<LogPosition>) {
        if let Some(LogPosition { log_id, position }) = log {
            let first = self.first.entry(log_id).or_insert(position);
            *first = position.min(*first);
        }
    }

    pub(crate) fn has(&self, part: &LogName) -> bool {
        self.first.get(&part.log_id).is_some_and(|first| part.end > *first)
    }

    /// The first backup of a log.
    pub(crate) fn first(&self, log_id: u64) -> Option<u64> {
        self.first.get(&log_id).copied()
    }
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
        self.delete_locked(ids, manifests)
    }

    /// As [`Repository::delete`], with the lock held and all manifests read under it.
    fn delete_locked(
        &self,
        ids: &[BackupId],
        manifests: Vec<(BackupId, Result<Manifest>)>,
    ) -> Result<Deleted> {
        let there = |id: &&BackupId| manifests.iter().any(|(other, _)| other == *id);
        if let Some(missing) = ids.iter().find(|id| !there(id)) {
            return Err(self.no_backup(missing));
        }
        let (mut needed, mut needed_logs) = (HashSet::new(), NeededLogs::default());
        let (mut going, mut backups) = (Vec::new(), 0);
        for (id, manifest) in manifests {
            if ids.contains(&id) {
                going.push(id);
                backups += 1;
            } else {
                let manifest = manifest?;
                needed_logs.add(manifest.log);
                needed.extend(manifest.files.into_iter().map(|file| file.object));
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
        for (part, bytes) in self.log_names()? {
            if !needed_logs.has(&part) {
                self.target.remove(&part.object())?;
                deleted.objects += 1;
                deleted.bytes += bytes;
            }
        }
        Ok(deleted)
    }

    /// Deletes all backups but the newest `count`, as [`Repository::delete`] does. A backup whose
    /// manifest cannot be read counts as one. Of those that stay all objects must be there.
    ///
    /// # Errors
    /// As for [`Repository::delete`]. Nothing is done either: [`Error::Usage`] if `count` is 0;
    /// [`Error::Corruption`] if one that stays has lost an object.
    pub fn keep_newest(&self, count: usize) -> Result<Deleted> {
        if count == 0 {
            return Err(Error::Usage("at least one backup must be kept (got 0)".to_owned()));
        }
        // First: a backup that is made meanwhile counts.
        let _guard = self.target.lock()?;
        let manifests = self.manifests()?;
        let (going, staying) = manifests.split_at(manifests.len().saturating_sub(count));
        let ids: Vec<BackupId> = going.iter().map(|(id, _)| id.clone()).collect();
        if !ids.is_empty() {
            self.check_objects(staying)?;
        }
        self.delete_locked(&ids, manifests)
    }

    /// Whether backups have their objects, as far as the names tell.
    fn check_objects(&self, staying: &[(BackupId, Result<Manifest>)]) -> Result<()> {
        let objects = self.objects()?;
        let manifests = staying.iter().filter_map(|(id, read)| Some((id, read.as_ref().ok()?)));
        for (id, manifest) in manifests {
            let lost = manifest.files.iter().find(|file| !objects.contains_key(&file.object));
            if let Some(file) = lost {
                let place = self.target.place(Some(&id.object()));
                let what = format!(
                    "its object {} is not there, so older backups stay; delete this one, and \
                     make another",
                    file.object
                );
                return Err(Error::corruption(place, what));
            }
        }
        Ok(())
    }
}
