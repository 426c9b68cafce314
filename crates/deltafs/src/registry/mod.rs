//! The registry: finished logs under names that others can build views of.
//!
//! ```text
//!   registry/
//!     logs/LOG-N/          a checkpoint of a log: tables and a manifest, never changed
//!     names/NAME/1 2 3     publications: what the log is, its files with digests, its base
//!     views/VIEW           lists of publications under a name
//!     holds/LOG            what a log that is still being written was begun on
//!     ledger/              which of these texts have to be there: see `ledger`
//! ```
//!
//! Publishing copies the log (by hard links where it stays on its file system), and gives the text
//! about it a name that only one can get. So a version is there whole or not at all; of two
//! publishers of one version one wins, and the other is told. A crash before, or a failure of which
//! nobody can say how it ended, leaves a copy that perhaps nobody names, for [`Registry::gc`].
//!
//! Where all this is kept is the business of a [`Storage`]: a directory, or an object store.
//!
//! Nothing that a publisher does waits for another.
//!
//! **Invariant:** a name from a text becomes a path only as a [`RelativePath`], so no text leads
//! out of the registry, and [`Registry::gc`] removes nothing but copies below `logs` that no needed
//! publication names.

mod directory;
mod files;
mod gc;
mod ledger;
mod publication;
mod storage;
mod texts;

pub use gc::{Collected, GcOptions};
pub use publication::{Publication, PublishedFile, Reference};
pub use storage::{CopyFacts, Storage, Tag, Text};

use crate::error::{Error, Result};
use crate::namespace::Namespace;
use directory::Directory;
use keyrack_measure::wall;
use keyrack_vfs::{Fs, RealFs, RelativePath};
use ledger::List;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of the name of a publication or a view, at most.
const NAME_MAX: usize = 64;
/// Logs of a view, at most.
pub const VIEW_LOGS_MAX: usize = 1024;

/// A place with publications.
#[derive(Clone, Debug)]
pub struct Registry {
    storage: Arc<dyn Storage>,
}

impl Registry {
    /// The registry in the directory `dir`, which is made when something is published.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Registry {
        Registry::new_in(Arc::new(RealFs), dir)
    }

    /// As [`Registry::new`], on a file system of the caller's.
    #[must_use]
    pub fn new_in(fs: Arc<dyn Fs>, dir: impl Into<PathBuf>) -> Registry {
        Registry::on(Arc::new(Directory::new(fs, dir.into())))
    }

    /// The registry that a storage holds.
    #[must_use]
    pub fn on(storage: Arc<dyn Storage>) -> Registry {
        Registry { storage }
    }

    /// The file system that has the directories of [`Registry::log_dirs`] and what is on this
    /// machine: name spaces over publications are opened on it.
    #[must_use]
    pub fn fs(&self) -> Arc<dyn Fs> {
        self.storage.fs()
    }

    /// Where it is, for messages.
    fn place(&self) -> String {
        self.storage.root().display().to_string()
    }

    /// Publishes what is in the log of `space` under `name`. With `expected`, only as that version;
    /// otherwise as the next.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the version is there already; [`Error::ReadOnly`]; [`Error::Usage`]
    /// for a name that cannot be one; those of the store, of the machine and of the network.
    pub fn publish(
        &self,
        space: &Namespace,
        name: &str,
        expected: Option<u64>,
    ) -> Result<Publication> {
        check_registry_name(name)?;
        let top = space.inner.top("the view")?;
        let last = self.versions(name)?.last().copied().unwrap_or(0);
        let version = expected.unwrap_or(last + 1);
        if version <= last {
            return Err(taken(name, version));
        }
        if version != last + 1 {
            return Err(Error::Usage(format!(
                "the next version of '{name}' is {}, not {version}",
                last + 1
            )));
        }
        space.store_times()?;
        let fs = self.storage.fs();
        // The number alone comes again where processes have the same number after each start.
        let unique = fs.unique_number() ^ wall::unix_ns();
        let directory = below(&format!("{}-{unique:016x}", space.log()))?;
        let staged = self.storage.begin_copy(top.dir(), &directory)?;
        let described: Result<Publication> = (|| {
            let contents = space.inner.contents.publish(top, &staged)?;
            let directory = directory.clone();
            let described = self.describe(&staged, name, version, directory, contents)?;
            self.storage.complete_copy(&staged, &described.directory, &described.files)?;
            Ok(described)
        })();
        self.storage.end_copy(&staged, &directory);
        let claimed = match described {
            Ok(publication) => self.claim(&publication).map(|()| publication),
            Err(error) => {
                self.drop_copy(&directory);
                return Err(error);
            }
        };
        // Behind any other error the text may be there, or get there when a request arrives late.
        if matches!(claimed, Err(Error::Conflict(_))) {
            self.drop_copy(&directory);
        }
        claimed
    }

    /// Removes a copy that no text names. What stays is left to [`Registry::gc`].
    fn drop_copy(&self, directory: &RelativePath) {
        // The error of the publisher is the one to report.
        let _ = self.storage.remove_copy(directory);
    }

    /// Gives the publication its version, if nobody has it.
    fn claim(&self, publication: &Publication) -> Result<()> {
        let Publication { name, version, .. } = publication;
        let at = version_name(&Reference { name: name.clone(), version: *version })?;
        let text = serde_json::to_vec_pretty(publication)
            .map_err(|error| Error::Usage(error.to_string()))?;
        if !self.storage.create(&at, &text)? {
            return Err(taken(name, *version));
        }
        // Those of an older program, or of a publisher that crashed, have no notes yet.
        let of = format!("names/{name}");
        let noted = self.noted(&of)?;
        let mut versions = self.versions(name)?;
        versions.retain(|version| !noted.contains(version));
        versions.into_iter().try_for_each(|version| self.note(&of, version))
    }

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

    /// The names of lists.
    ///
    /// # Errors
    /// The machine's.
    pub fn views(&self) -> Result<Vec<String>> {
        self.listed("views")
    }

    /// What a version of a name stands for.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Corruption`] if the text is damaged.
    pub fn publication(&self, reference: &Reference) -> Result<Publication> {
        check_registry_name(&reference.name)?;
        let name = version_name(reference)?;
        let Some(text) = self.storage.get(&name)? else {
            return Err(Error::NotFound(format!("{reference} in the registry {}", self.place())));
        };
        let read: Publication = serde_json::from_slice(&text.bytes)
            .map_err(|error| self.damaged(&name, error.to_string()))?;
        match read.flaw(reference)? {
            None => Ok(read),
            Some(flaw) => Err(self.damaged(&name, flaw)),
        }
    }

    fn damaged(&self, name: &RelativePath, what: String) -> Error {
        Error::Corruption { path: name.under(&self.storage.root()), what }
    }

    /// A list of publications; `None` if there is none of that name.
    fn references(&self, name: &str) -> Result<Option<Vec<Reference>>> {
        // First: a text is there before its note.
        let noted = self.noted(name)?.last().copied();
        let at = below(name)?;
        let Some(text) = self.storage.get(&at)? else {
            return match noted {
                Some(revision) => Err(self.gone(name, &format!("{name}/{revision}"))?),
                None => Ok(None),
            };
        };
        let list = List::read(name, &text.bytes)?.map_err(|flaw| self.damaged(&at, flaw))?;
        if let Some(noted) = noted.filter(|noted| list.revision < *noted) {
            let what = format!("it is revision {}, and {noted} was saved", list.revision);
            return Err(self.damaged(&at, what));
        }
        match list.references.iter().find_map(Reference::flaw) {
            None => Ok(Some(list.references)),
            Some(flaw) => Err(self.damaged(&at, flaw)),
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
                    let place = self.place();
                    Error::NotFound(format!("a publication '{name}' in the registry {place}"))
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

    fn copy_dir(&self, directory: &RelativePath) -> Result<PathBuf> {
        Ok(copy_name(directory)?.under(&self.storage.root()))
    }

    /// What the list of that name has.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Corruption`].
    pub fn view(&self, name: &str) -> Result<Vec<Reference>> {
        check_registry_name(name)?;
        let listed = self.references(&format!("views/{name}"))?;
        listed.ok_or_else(|| Error::NotFound(format!("a view '{name}' in {}", self.place())))
    }

    /// Gives a list a name, or another list to the name. At one stroke.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that cannot be one, or that publications have;
    /// [`Error::Conflict`] if somebody changes the view meanwhile; the machine's.
    pub fn save_view(&self, name: &str, references: &[Reference]) -> Result<()> {
        check_registry_name(name)?;
        if !self.versions(name)?.is_empty() {
            return Err(Error::Usage(format!("'{name}' is the name of a publication already")));
        }
        match self.save(&format!("views/{name}"), references)? {
            true => Ok(()),
            false => Err(Error::Conflict(format!(
                "the view '{name}' was changed by somebody else meanwhile; look at it, and save it \
                 again"
            ))),
        }
    }

    /// Notes that a log was begun on these, so that they stay.
    ///
    /// # Errors
    /// The machine's.
    pub fn hold(&self, log: crate::LogId, references: &[Reference]) -> Result<()> {
        match self.save(&format!("holds/{log}"), references)? {
            true => Ok(()),
            false => Err(Error::Conflict(format!(
                "what the log {log} was begun on is being noted by somebody else; begin it again"
            ))),
        }
    }

    /// Whether nobody else has written it meanwhile. A list that is gone or damaged is replaced.
    fn save(&self, name: &str, references: &[Reference]) -> Result<bool> {
        let at = below(name)?;
        let noted = self.noted(name)?;
        let seen = self.storage.get(&at)?;
        let old = match &seen {
            Some(seen) => List::read(name, &seen.bytes)?.map_or(0, |list| list.revision),
            None => 0,
        };
        let revision = noted.last().copied().unwrap_or(0).max(old) + 1;
        let text = serde_json::to_vec(&List::new(name, revision, references)?)
            .map_err(|error| Error::Usage(error.to_string()))?;
        let is_saved = match seen {
            Some(seen) => self.storage.replace(&at, &text, &seen.tag)?,
            None => self.storage.create(&at, &text)?,
        };
        if is_saved {
            self.note(name, revision)?;
            noted.into_iter().try_for_each(|old| self.strike(name, old))?;
        }
        Ok(is_saved)
    }
}

/// A name below the registry.
fn below(name: &str) -> Result<RelativePath> {
    RelativePath::new(name).map_err(|error| Error::Usage(error.to_string()))
}

fn version_name(reference: &Reference) -> Result<RelativePath> {
    below(&format!("names/{}/{}", reference.name, reference.version))
}

/// Where the copy of a log is: `logs/DIRECTORY`.
///
/// # Errors
/// [`Error::Usage`] if the name is too long.
pub fn copy_name(directory: &RelativePath) -> Result<RelativePath> {
    below(&format!("logs/{directory}"))
}

fn taken(name: &str, version: u64) -> Error {
    Error::Conflict(format!(
        "{name}@{version} is published already: somebody was first; look at it, and publish as the \
         next version, or under another name"
    ))
}

/// Refuses what cannot be the name of a publication or a view.
fn check_registry_name(name: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_sound = (1..=NAME_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('.');
    if is_sound {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "'{name}' cannot be a name here: use 1 to {NAME_MAX} of A-Z, a-z, 0-9, '-', '_' and '.', \
         the last not at the beginning"
    )))
}

/// Two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
