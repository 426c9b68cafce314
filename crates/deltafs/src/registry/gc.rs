//! What nobody needs any more: versions that are not to be kept, and copies that no publication
//! names.

use crate::error::Result;
use crate::registry::{Reference, Registry, version_name};
use keyrack_measure::wall;
use std::collections::BTreeSet;
use std::time::Duration;

/// What [`Registry::gc`] may remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcOptions {
    /// Versions of each name that stay; all if it is not given. What a view, a hold or another
    /// publication is built on stays in any case.
    pub keep_versions: Option<usize>,
    /// How old a copy that no publication names must be: somebody may be about to publish it.
    pub older_than: Duration,
    /// Only say what would go.
    pub dry_run: bool,
}

/// What [`Registry::gc`] has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Versions.
    pub publications: Vec<Reference>,
    /// Directories of logs.
    pub logs: Vec<String>,
    /// Bytes of their files.
    pub bytes: u64,
}

impl Registry {
    /// Removes versions that are not to be kept, and copies that no publication names.
    ///
    /// # Errors
    /// The machine's; [`crate::Error::Corruption`] if a text that says what is needed cannot be
    /// read: nothing is removed then.
    pub fn gc(&self, options: &GcOptions) -> Result<Collected> {
        let mut needed = BTreeSet::new();
        for view in self.views()? {
            needed.extend(self.view(&view)?);
        }
        for hold in self.storage.list("holds")? {
            // One that has just gone holds nothing.
            needed.extend(self.references(&format!("holds/{hold}"))?.unwrap_or_default());
        }
        let mut all = Vec::new();
        for name in self.names()? {
            let versions = self.versions(&name)?;
            let kept = options.keep_versions.unwrap_or(versions.len());
            for (index, version) in versions.iter().enumerate() {
                let reference = Reference { name: name.clone(), version: *version };
                let publication = self.publication(&reference)?;
                // The newest stays in any case: the next version is counted from it.
                if index + kept.max(1) >= versions.len() {
                    needed.insert(reference.clone());
                    needed.extend(publication.base.iter().cloned());
                }
                all.push((reference, publication));
            }
        }
        // What is needed may be built on what is not needed otherwise.
        while all.iter().any(|(reference, publication)| {
            needed.contains(reference)
                && publication.base.iter().any(|base| needed.insert(base.clone()))
        }) {}
        let mut collected = Collected::default();
        let mut named = BTreeSet::new();
        for (reference, publication) in all {
            if needed.contains(&reference) {
                named.insert(publication.directory);
                continue;
            }
            if !options.dry_run {
                self.storage.remove(&version_name(&reference))?;
            }
            collected.bytes += self.collect(&publication.directory, options.dry_run)?;
            collected.logs.push(publication.directory.clone());
            named.insert(publication.directory);
            collected.publications.push(reference);
        }
        for directory in self.storage.list("logs")? {
            if !named.contains(&directory) && self.is_older(&directory, options.older_than)? {
                collected.bytes += self.collect(&directory, options.dry_run)?;
                collected.logs.push(directory);
            }
        }
        Ok(collected)
    }

    /// Removes a copy. Returns its bytes.
    fn collect(&self, directory: &str, dry_run: bool) -> Result<u64> {
        let Some(facts) = self.storage.copy_facts(directory)? else { return Ok(0) };
        if !dry_run {
            self.storage.remove_copy(directory)?;
        }
        Ok(facts.bytes)
    }

    /// Whether a copy is older than that. One that has just gone is not.
    fn is_older(&self, directory: &str, than: Duration) -> Result<bool> {
        let Some(facts) = self.storage.copy_facts(directory)? else { return Ok(false) };
        let age = Duration::from_nanos(wall::unix_ns().saturating_sub(facts.changed_ns));
        Ok(age >= than)
    }
}
