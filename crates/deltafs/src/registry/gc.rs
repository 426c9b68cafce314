//! What nobody needs any more: versions that are not to be kept, and copies that no publication
//! names.

use super::handle::Registry;
use super::names::{below, version_name};
use super::publication::{Publication, Reference};
use crate::error::Result;
use keyrack_measure::wall;
use keyrack_vfs::RelativePath;
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

/// A version and its text.
type Version = (Reference, Publication);

impl Registry {
    /// Removes versions that are not to be kept, and copies that no publication names.
    ///
    /// # Errors
    /// The machine's; `Corruption` if a text that says what is needed cannot be read, or names what
    /// cannot be a copy; for a symbolic link on the way to what is to go: nothing behind it is
    /// removed.
    pub fn gc(&self, options: &GcOptions) -> Result<Collected> {
        let (kept, unneeded) = self.by_need(options)?;
        let kept: BTreeSet<RelativePath> =
            kept.into_iter().map(|(_, text)| text.directory).collect();
        // What goes is known, and looked at, before anything goes. A copy that a version needs
        // stays, whoever else names it.
        let mut copies = BTreeSet::new();
        let mut collected = Collected::default();
        for (reference, publication) in unneeded {
            collected.publications.push(reference);
            if !kept.contains(&publication.directory) {
                copies.insert(publication.directory);
            }
        }
        for listed in self.storage.list(&below("logs")?)? {
            let directory = below(&listed)?;
            if kept.contains(&directory) || copies.contains(&directory) {
                continue;
            }
            if self.is_older(&directory, options.older_than)? {
                copies.insert(directory);
            }
        }
        for directory in &copies {
            let facts = self.storage.copy_facts(directory)?;
            collected.bytes += facts.map_or(0, |facts| facts.bytes);
            collected.logs.push(directory.to_string());
        }
        if options.dry_run {
            return Ok(collected);
        }
        for reference in &collected.publications {
            // First: nobody is to miss it.
            let of = format!("names/{}", reference.name);
            self.strike(&of, reference.version)?;
            if let Err(error) = self.storage.remove(&version_name(reference)?) {
                self.note(&of, reference.version)?;
                return Err(error);
            }
        }
        for directory in &copies {
            self.storage.remove_copy(directory)?;
        }
        Ok(collected)
    }

    /// All publications: those that are needed, and the others.
    fn by_need(&self, options: &GcOptions) -> Result<(Vec<Version>, Vec<Version>)> {
        let mut needed = BTreeSet::new();
        for view in self.views()? {
            needed.extend(self.view(&view)?);
        }
        for hold in self.listed("holds")? {
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
        Ok(all.into_iter().partition(|(reference, _)| needed.contains(reference)))
    }

    /// Whether a copy is older than that. One that has just gone is not.
    fn is_older(&self, directory: &RelativePath, than: Duration) -> Result<bool> {
        let Some(facts) = self.storage.copy_facts(directory)? else { return Ok(false) };
        let age = Duration::from_nanos(wall::unix_ns().saturating_sub(facts.changed_ns));
        Ok(age >= than)
    }
}
