//! Looking publications up: by version, by the latest version of a name, by a view.

use super::handle::Registry;
use super::names::{check_registry_name, copy_name, version_name};
use super::publication::{Publication, Reference};
use crate::error::{Error, Result};
use keyrack_vfs::RelativePath;
use std::path::PathBuf;

/// Logs of a view, at most.
pub const VIEW_LOGS_MAX: usize = 1024;

impl Registry {
    /// The versions of a name, ascending.
    ///
    /// # Errors
    /// [`Error::Corruption`] if one is gone; the machine's.
    pub fn versions(&self, name: &str) -> Result<Vec<u64>> {
        check_registry_name(name)?;
        match self.versions_noted(name)? {
            (versions, gone) if gone.is_empty() => Ok(versions),
            (_, gone) => Err(self.version_gone(name, gone[0])?),
        }
    }

    /// The names under which something is published.
    ///
    /// # Errors
    /// The machine's.
    pub fn names(&self) -> Result<Vec<String>> {
        self.listed("names")
    }

    /// What a version of a name stands for.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Corruption`] if the text is damaged.
    pub fn publication(&self, reference: &Reference) -> Result<Publication> {
        check_registry_name(&reference.name)?;
        let name = version_name(reference)?;
        let Some(text) = self.storage.get(&name)? else {
            return Err(Error::NotFound(format!(
                "{reference} in the registry {}",
                self.location()
            )));
        };
        let read: Publication = serde_json::from_slice(&text.bytes)
            .map_err(|error| self.damaged(&name, error.to_string()))?;
        match read.flaw(reference)? {
            None => Ok(read),
            Some(flaw) => Err(self.damaged(&name, flaw)),
        }
    }

    /// The publications that a list of words means, the highest first: `NAME` is the latest version
    /// of a name, `NAME@VERSION` that one, and the name of a view is what it lists.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Usage`] for what is no name, and for too many.
    pub fn resolve<S: AsRef<str>>(&self, words: &[S]) -> Result<Vec<Reference>> {
        let mut references = Vec::new();
        for word in words {
            let word = word.as_ref();
            let (name, version) = match word.split_once('@') {
                None => (word, None),
                Some((name, version)) => {
                    let what = || Error::Usage(format!("'{word}': a version is a whole number"));
                    (name, Some(version.parse::<u64>().map_err(|_| what())?))
                }
            };
            check_registry_name(name)?;
            if version.is_none()
                && let Some(listed) = self.references(&format!("views/{name}"))?
            {
                references.extend(listed);
                continue;
            }
            let version = match version {
                Some(version) => version,
                None => *self.versions(name)?.last().ok_or_else(|| {
                    let location = self.location();
                    Error::NotFound(format!("a publication '{name}' in the registry {location}"))
                })?,
            };
            let reference = Reference { name: name.to_owned(), version };
            self.publication(&reference)?;
            references.push(reference);
        }
        if references.len() > VIEW_LOGS_MAX {
            return Err(Error::Usage(format!(
                "the view has {} logs, and {VIEW_LOGS_MAX} is the limit; merge some of them",
                references.len()
            )));
        }
        Ok(references)
    }

    /// The publications with what each was begun on behind it, none twice: the first place counts.
    ///
    /// # Errors
    /// As for [`Registry::publication`].
    pub fn with_bases(&self, references: &[Reference]) -> Result<Vec<Reference>> {
        let mut all = Vec::new();
        for reference in references {
            let base = self.publication(reference)?.base;
            for reference in std::iter::once(reference).chain(&base) {
                if !all.contains(reference) {
                    all.push(reference.clone());
                }
            }
        }
        Ok(all)
    }

    /// The directories of the logs, on [`Registry::fs`].
    ///
    /// # Errors
    /// As for [`Registry::publication`]; [`Error::Corruption`] for a file that is missing or has
    /// another length, and for a log that is another one.
    pub fn log_dirs(&self, references: &[Reference]) -> Result<Vec<PathBuf>> {
        let mut dirs = Vec::new();
        for reference in references {
            let publication = self.publication(reference)?;
            self.check_copy(&publication)?;
            dirs.push(self.copy_dir(&publication.directory)?);
        }
        Ok(dirs)
    }

    pub(super) fn copy_dir(&self, directory: &RelativePath) -> Result<PathBuf> {
        Ok(copy_name(directory)?.under(&self.storage.root()))
    }
}
