//! The registry: finished logs under names that others can build views of.
//!
//! ```text
//!   registry/
//!     logs/LOG-N/          a checkpoint of a log: tables and a manifest, never changed
//!     names/NAME/1 2 3     publications: what the log is, its files with digests, its base
//!     views/VIEW           lists of publications under a name
//!     holds/LOG            what a log that is still being written was begun on
//! ```
//!
//! Publishing copies the log (by hard links where the file system has them), writes the publication
//! beside its name, and gives it its version by a link that fails where the version exists. So a
//! version is there whole or not at all; of two publishers of one version one wins, and the other
//! is told. A crash before leaves a copy that nobody names, for [`Registry::gc`].
//!
//! Nothing that a publisher does waits for another.

use crate::changes::key_range;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::open::LogHead;
use keyrack_flodb::Db;
use keyrack_measure::wall;
use keyrack_vfs::{DirEntry, FileKind, Fs, OpenOptions, RealFs};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Bytes of the name of a publication or a view, at most.
const NAME_MAX: usize = 64;
/// Logs of a view, at most.
pub const VIEW_LOGS_MAX: usize = 1024;

/// A publication by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its version, from 1 on.
    pub version: u64,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

/// A file of a published log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedFile {
    /// Its name in the directory of the log.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// What a version of a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The format of this text: 1.
    pub format: u32,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// The number of the log, in hexadecimal.
    pub log: String,
    /// The epoch of the log: of two publications of one log the later has the same or a larger one.
    pub epoch: u64,
    /// The directory of the log below `logs`.
    pub directory: String,
    /// Its files.
    pub files: Vec<PublishedFile>,
    /// Records in the log, of all kinds.
    pub records: u64,
    /// The first and the last key, in hexadecimal.
    pub keys: Option<(String, String)>,
    /// What the log was begun on, the highest first.
    pub base: Vec<Reference>,
    /// When, in nanoseconds since 1970.
    pub published_ns: u64,
}

/// A directory with publications.
#[derive(Clone, Debug)]
pub struct Registry {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
}

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
    /// The registry in `dir`, which is made when something is published.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Registry {
        Registry::new_in(Arc::new(RealFs), dir)
    }

    /// As [`Registry::new`], on a file system of the caller's.
    #[must_use]
    pub fn new_in(fs: Arc<dyn Fs>, dir: impl Into<PathBuf>) -> Registry {
        Registry { fs, dir: dir.into() }
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Publishes what is in the log of `space` under `name`. With `expected`, only as that version;
    /// otherwise as the next.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the version is there already; [`Error::ReadOnly`]; [`Error::Usage`]
    /// for a name that cannot be one; those of the store and of the machine.
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
        for part in ["logs", "names", "views", "holds"] {
            self.make_dir(&self.dir.join(part))?;
        }
        let names = self.dir.join("names").join(name);
        self.make_dir(&names)?;
        let unique = self.fs.unique_number();
        let directory = format!("{}-{unique:016x}", space.log());
        let copy = self.dir.join("logs").join(&directory);
        top.checkpoint(&copy)?;
        let contents = crate::contents::publish(&*self.fs, top.dir(), &copy)?;
        let publication = self.describe(&copy, name, version, directory, contents)?;
        let text = serde_json::to_vec_pretty(&publication)
            .map_err(|error| Error::Usage(error.to_string()))?;
        let placed = self.place(&names, version, &text, unique);
        if let Err(error) = placed {
            // The copy is nobody's; what cannot be removed is left to `gc`.
            let _ = self.fs.remove_dir_all(&copy);
            return Err(match error.io_kind() {
                std::io::ErrorKind::AlreadyExists => taken(name, version),
                _ => error.into(),
            });
        }
        Ok(publication)
    }

    /// Writes the text beside its name, and gives it the name if nobody has it.
    fn place(
        &self,
        names: &Path,
        version: u64,
        text: &[u8],
        unique: u64,
    ) -> keyrack_vfs::Result<()> {
        let unfinished = names.join(format!(".{unique:016x}.tmp"));
        let file = self.fs.open(&unfinished, &OpenOptions::new().write(true).create_new(true))?;
        let written = file.write_at(0, text).and_then(|()| file.sync_all());
        drop(file);
        let linked =
            written.and_then(|()| self.fs.hard_link(&unfinished, &names.join(version.to_string())));
        // A file that stays is nobody's; the first error is the one to report.
        let _ = self.fs.remove_file(&unfinished);
        linked?;
        self.fs.sync_dir(names)
    }

    fn describe(
        &self,
        copy: &Path,
        name: &str,
        version: u64,
        directory: String,
        contents: Vec<String>,
    ) -> Result<Publication> {
        let options = keyrack_flodb::Options { create_if_missing: false, ..Default::default() };
        let store = Db::open_read_only_in(Arc::clone(&self.fs), copy, options)?;
        let head = LogHead::of(&store)?.ok_or_else(|| Error::Corruption {
            path: copy.to_owned(),
            what: "the copy of the log is empty".to_owned(),
        })?;
        let range = key_range(&store)?;
        drop(store);
        let mut files = Vec::new();
        for entry in self.fs.list(copy)? {
            if entry.kind == FileKind::File && entry.name != "LOCK" {
                files.push(self.digest(copy, &entry)?);
            }
        }
        for name in contents {
            files.push(self.digest(copy, &DirEntry { name: name.into(), kind: FileKind::File })?);
        }
        Ok(Publication {
            format: 1,
            name: name.to_owned(),
            version,
            log: head.log.to_string(),
            epoch: head.epoch,
            directory,
            files,
            records: range.records,
            keys: range.ends.map(|(first, last)| (hex(&first), hex(&last))),
            base: head.base,
            published_ns: wall::unix_ns(),
        })
    }

    fn digest(&self, dir: &Path, entry: &DirEntry) -> Result<PublishedFile> {
        let file = self.fs.open(&dir.join(&entry.name), &OpenOptions::new().read(true))?;
        let mut hash = Sha256::new();
        let mut chunk = vec![0; 1 << 20];
        let mut bytes = 0;
        loop {
            let count = file.read_at(bytes, &mut chunk)?;
            hash.update(&chunk[..count]);
            bytes += count as u64;
            if count < chunk.len() {
                break;
            }
        }
        let name = entry.name.to_string_lossy().into_owned();
        Ok(PublishedFile { name, bytes, sha256: hex(&hash.finalize()) })
    }

    /// The versions of a name, ascending.
    ///
    /// # Errors
    /// The machine's.
    pub fn versions(&self, name: &str) -> Result<Vec<u64>> {
        check_registry_name(name)?;
        let entries = self.list(&self.dir.join("names").join(name))?;
        let mut versions: Vec<u64> =
            entries.iter().filter_map(|entry| entry.name.to_str()?.parse().ok()).collect();
        versions.sort_unstable();
        Ok(versions)
    }

    /// The names under which something is published.
    ///
    /// # Errors
    /// The machine's.
    pub fn names(&self) -> Result<Vec<String>> {
        self.texts("names")
    }

    /// The names of lists.
    ///
    /// # Errors
    /// The machine's.
    pub fn views(&self) -> Result<Vec<String>> {
        self.texts("views")
    }

    fn texts(&self, part: &str) -> Result<Vec<String>> {
        let entries = self.list(&self.dir.join(part))?;
        let names = entries.into_iter().filter_map(|entry| entry.name.into_string().ok());
        Ok(names.filter(|name| !name.starts_with('.')).collect())
    }

    /// What a version of a name stands for.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Corruption`] if the text is damaged.
    pub fn publication(&self, reference: &Reference) -> Result<Publication> {
        check_registry_name(&reference.name)?;
        let path = self.dir.join("names").join(&reference.name).join(reference.version.to_string());
        let text = match self.fs.read(&path) {
            Err(error) if error.is_not_found() => {
                return Err(Error::NotFound(format!(
                    "{reference} in the registry {}",
                    self.dir.display()
                )));
            }
            text => text?,
        };
        serde_json::from_slice(&text)
            .map_err(|error| Error::Corruption { path, what: error.to_string() })
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
            let view = self.dir.join("views").join(name);
            if version.is_none() && self.fs.exists(&view)? {
                references.extend(self.view(name)?);
                continue;
            }
            let version = match version {
                Some(version) => version,
                None => *self.versions(name)?.last().ok_or_else(|| {
                    let dir = self.dir.display();
                    Error::NotFound(format!("a publication '{name}' in the registry {dir}"))
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

    /// The directories of the logs.
    ///
    /// # Errors
    /// As for [`Registry::publication`].
    pub fn log_dirs(&self, references: &[Reference]) -> Result<Vec<PathBuf>> {
        let mut dirs = Vec::new();
        for reference in references {
            let publication = self.publication(reference)?;
            dirs.push(self.dir.join("logs").join(publication.directory));
        }
        Ok(dirs)
    }

    /// What the list of that name has.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Corruption`].
    pub fn view(&self, name: &str) -> Result<Vec<Reference>> {
        check_registry_name(name)?;
        let path = self.dir.join("views").join(name);
        match self.fs.read(&path) {
            Err(error) if error.is_not_found() => {
                Err(Error::NotFound(format!("a view '{name}' in {}", self.dir.display())))
            }
            text => serde_json::from_slice(&text?)
                .map_err(|error| Error::Corruption { path, what: error.to_string() }),
        }
    }

    /// Gives a list a name, or another list to the name. At one stroke.
    ///
    /// # Errors
    /// [`Error::Usage`] for a name that cannot be one, or that publications have; the machine's.
    pub fn save_view(&self, name: &str, references: &[Reference]) -> Result<()> {
        check_registry_name(name)?;
        if !self.versions(name)?.is_empty() {
            return Err(Error::Usage(format!("'{name}' is the name of a publication already")));
        }
        self.save("views", name, references)
    }

    /// Notes that a log was begun on these, so that they stay.
    ///
    /// # Errors
    /// The machine's.
    pub fn hold(&self, log: crate::LogId, references: &[Reference]) -> Result<()> {
        self.save("holds", &log.to_string(), references)
    }

    fn save(&self, part: &str, name: &str, references: &[Reference]) -> Result<()> {
        self.make_dir(&self.dir.join(part))?;
        let text = serde_json::to_vec(references).map_err(|e| Error::Usage(e.to_string()))?;
        Ok(self.fs.write_atomic(&self.dir.join(part).join(name), &text)?)
    }

    /// Holds every published file against its length and digest. Gives what differs, a line each.
    ///
    /// # Errors
    /// The machine's. Damage is none.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for name in self.names()? {
            for version in self.versions(&name)? {
                let reference = Reference { name: name.clone(), version };
                match self.publication(&reference) {
                    Ok(publication) => self.check_files(&publication, &mut found)?,
                    Err(error) => found.push(error.to_string()),
                }
            }
        }
        Ok(found)
    }

    fn check_files(&self, publication: &Publication, found: &mut Vec<String>) -> Result<()> {
        let dir = self.dir.join("logs").join(&publication.directory);
        for file in &publication.files {
            let entry = DirEntry { name: file.name.clone().into(), kind: FileKind::File };
            let path = dir.join(&file.name);
            match self.digest(&dir, &entry) {
                Ok(now) if now == *file => {}
                Ok(now) if now.bytes != file.bytes => found.push(format!(
                    "{}: {} bytes, {} were published",
                    path.display(),
                    now.bytes,
                    file.bytes
                )),
                Ok(_) => found.push(format!("{}: not what was published", path.display())),
                Err(Error::Io(error)) if error.is_not_found() => {
                    found.push(format!("{}: it is missing", path.display()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes versions that are not to be kept, and copies that no publication names.
    ///
    /// # Errors
    /// The machine's; [`Error::Corruption`] if a text that says what is needed cannot be read:
    /// nothing is removed then.
    pub fn gc(&self, options: &GcOptions) -> Result<Collected> {
        let mut needed = BTreeSet::new();
        for view in self.views()? {
            needed.extend(self.view(&view)?);
        }
        for hold in self.texts("holds")? {
            let path = self.dir.join("holds").join(hold);
            let held: Vec<Reference> = serde_json::from_slice(&self.fs.read(&path)?)
                .map_err(|error| Error::Corruption { path, what: error.to_string() })?;
            needed.extend(held);
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
                let names = self.dir.join("names").join(&reference.name);
                self.fs.remove_file(&names.join(reference.version.to_string()))?;
                self.fs.sync_dir(&names)?;
            }
            collected.bytes += self.collect(&publication.directory, options.dry_run)?;
            collected.logs.push(publication.directory.clone());
            named.insert(publication.directory);
            collected.publications.push(reference);
        }
        for entry in self.list(&self.dir.join("logs"))? {
            let Ok(directory) = entry.name.into_string() else { continue };
            if !named.contains(&directory) && self.is_older(&directory, options.older_than)? {
                collected.bytes += self.collect(&directory, options.dry_run)?;
                collected.logs.push(directory);
            }
        }
        Ok(collected)
    }

    /// Removes a copy. Returns its bytes.
    fn collect(&self, directory: &str, dry_run: bool) -> Result<u64> {
        let dir = self.dir.join("logs").join(directory);
        if !self.fs.exists(&dir)? {
            return Ok(0);
        }
        let bytes = self.fs.size_recursive(&dir)?;
        if !dry_run {
            self.fs.remove_dir_all(&dir)?;
        }
        Ok(bytes)
    }

    fn is_older(&self, directory: &str, than: Duration) -> Result<bool> {
        let modified = self.fs.metadata(&self.dir.join("logs").join(directory))?.modified;
        let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Duration::from_nanos(wall::unix_ns());
        Ok(now.saturating_sub(modified) >= than)
    }

    /// The names in a directory; none if it is not there.
    fn list(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        match self.fs.list(dir) {
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            listed => Ok(listed?),
        }
    }

    /// Makes a directory whose name is durable afterwards, and its parents likewise.
    fn make_dir(&self, dir: &Path) -> Result<()> {
        if self.fs.exists(dir)? {
            return Ok(());
        }
        if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.make_dir(parent)?;
        }
        match self.fs.create_dir(dir) {
            Err(error) if error.io_kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        Ok(self.fs.sync_parent(dir)?)
    }
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
