//! What the manifest remembers: the version and three counters that never go back.

use super::names::NUMBER_MAX;
use crate::key::{Comparator, SEQUENCE_MAX};
use crate::version::{Invalid, LEVELS, StoredOptions, Version, VersionEdit};
use std::sync::Arc;

/// The state of a store after an edit. Clones share the version.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct State {
    /// The tables.
    pub(crate) version: Arc<Version>,
    /// The log is replayed from this LSN on: what lies before is in tables.
    pub(crate) log_from: u64,
    /// Numbers of files are smaller.
    pub(crate) next_file: u64,
    /// No table holds a larger sequence number, or ever did.
    pub(crate) last_sequence: u64,
    /// The identity of the log, which its segments carry; 0 until it was begun.
    pub(crate) log_id: u64,
    /// Whether the log or a table may hold a value that expires, or ever did. Programs that do not
    /// know such values refuse the manifest of a store with them.
    pub(crate) has_expiries: bool,
    /// The same of operands: the name of their merge operator.
    pub(crate) merge_operator: Option<String>,
    /// What the store was last opened for writing with, if the program that did so kept it.
    pub(crate) options: Option<StoredOptions>,
}

impl State {
    /// A store without anything.
    pub(crate) fn new(order: Comparator) -> Self {
        let version = Arc::new(Version::new(order));
        State {
            version,
            log_from: 0,
            next_file: 1,
            last_sequence: 0,
            log_id: 0,
            has_expiries: false,
            merge_operator: None,
            options: None,
        }
    }

    /// The state after an edit.
    ///
    /// # Errors
    /// The edit does not fit: see [`Version::apply`]; or a counter would go back, or beyond its
    /// range, or a table has a number that was never given out.
    pub(crate) fn apply(&self, edit: &VersionEdit) -> Result<State, Invalid> {
        let log_from = forward("the start of the log", self.log_from, edit.log_from)?;
        let next_file = forward("the number of the next file", self.next_file, edit.next_file)?;
        let last_sequence =
            forward("the last sequence number", self.last_sequence, edit.last_sequence)?;
        if next_file > NUMBER_MAX || last_sequence >= SEQUENCE_MAX {
            return Err(Invalid("a counter is beyond its range".to_owned()));
        }
        let added = || edit.added.iter().map(|(_, file)| file);
        if let Some(file) = added().find(|file| file.number >= next_file) {
            let what = format!("table {} has a number that was never given out", file.number);
            return Err(Invalid(what));
        }
        if let Some(blob) = edit.blobs.iter().find(|blob| blob.number >= next_file) {
            let what = format!("blob file {} has a number that was never given out", blob.number);
            return Err(Invalid(what));
        }
        let last_sequence = added().map(|file| file.sequence_max).fold(last_sequence, u64::max);
        let version = Arc::new(self.version.apply(edit)?);
        let log_id = edit.log_id.unwrap_or(self.log_id);
        if self.log_id != 0 && log_id != self.log_id {
            return Err(Invalid("the log gets another identity".to_owned()));
        }
        let brings_expiries = added().any(|file| !file.expiries.is_empty());
        let has_expiries = self.has_expiries || edit.has_expiries || brings_expiries;
        let merge_operator = edit.merge_operator.as_ref().or(self.merge_operator.as_ref()).cloned();
        if self.merge_operator.is_some() && merge_operator != self.merge_operator {
            return Err(Invalid("the merge operator gets another name".to_owned()));
        }
        let options = edit.options.as_ref().or(self.options.as_ref()).cloned();
        Ok(State {
            version,
            log_from,
            next_file,
            last_sequence,
            log_id,
            has_expiries,
            merge_operator,
            options,
        })
    }

    /// The edit that makes this state of an empty one.
    pub(crate) fn snapshot(&self) -> VersionEdit {
        let files = |level: usize| self.version.files(level).iter().map(move |file| (level, file));
        let pointer = |level: usize| (level, self.version.pointer(level).to_vec());
        VersionEdit {
            comparator: Some(self.version.order().name().to_owned()),
            log_from: Some(self.log_from),
            next_file: Some(self.next_file),
            last_sequence: Some(self.last_sequence),
            log_id: (self.log_id != 0).then_some(self.log_id),
            has_expiries: self.has_expiries,
            merge_operator: self.merge_operator.clone(),
            options: self.options.clone(),
            added: (0..LEVELS).flat_map(files).map(|(level, file)| (level, file.clone())).collect(),
            deleted: Vec::new(),
            blobs: self.version.blobs().values().map(|blob| blob.meta).collect(),
            pointers: (0..LEVELS).map(pointer).filter(|(_, key)| !key.is_empty()).collect(),
        }
    }
}

fn forward(what: &str, from: u64, to: Option<u64>) -> Result<u64, Invalid> {
    match to {
        Some(to) if to < from => Err(Invalid(format!("{what} goes back from {from} to {to}"))),
        to => Ok(to.unwrap_or(from)),
    }
}
