//! The check of a whole store on disk, which changes nothing.
//!
//! ```text
//!   CURRENT --> manifest --> tables     each block, each entry, each number; against the manifest
//!                  |           |
//!                  +-------> blobs      each record; and those that entries refer to
//!                  |
//!                  +-------> log        each record, and what is in it
//!   directory ---------------------->   files that nobody names
//! ```
//!
//! The check goes on behind damage, as far as that can be told: without a manifest all tables are
//! looked at by themselves.

use crate::batch::decode;
use crate::blob::{BlobIndex, BlobMeta, BlobReader};
use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::key::{Kind, Parsed, parse};
use crate::manifest::{CURRENT, FileName, LOCK, LOG_DIR, Manifest, State};
use crate::open_blob::blob_path;
use crate::open_table::table_path;
use crate::options::Options;
use crate::table::Table;
use crate::version::{FileMeta, LEVELS};
use keyrack_vfs::{DirEntry, FileKind, Fs, Lock};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a repair puts what it has no use for.
pub(crate) const LOST_DIR: &str = "lost";

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A file does not hold what was written to it.
    Damage,
    /// The end of the log or of the manifest, torn by a crash: it was never acknowledged as
    /// durable, and the next opening drops it.
    Tail,
    /// A file that the store does not name. The next opening removes those that look like its own.
    Extra,
}

/// Something that a check or a repair has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub kind: FindingKind,
    /// Which file.
    pub path: PathBuf,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: byte {}: {}", self.path.display(), self.offset, self.what)
    }
}

impl Finding {
    pub(crate) fn damage(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        Finding { kind: FindingKind::Damage, path: path.to_owned(), offset, what: what.into() }
    }
}

/// What [`verify`] has read and found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Tables that were read.
    pub tables: u64,
    /// Sound entries in them: all versions of all keys, tombstones included.
    pub entries: u64,
    /// Blob files that were read.
    pub blobs: u64,
    /// Sound records in them: all values, also those that no table refers to any more.
    pub blob_records: u64,
    /// Bytes of these tables and blob files.
    pub bytes: u64,
    /// Sound records of the log that are in no table.
    pub log_records: u64,
    /// What was found, in the order of reading.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether nothing is damaged. Torn ends and extra files are no damage.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, verify};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?.put(b"key", b"value")?;
    /// let report = verify(fs, "/store".as_ref(), &Options::new())?;
    /// assert!(report.is_sound());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|finding| finding.kind != FindingKind::Damage)
    }
}

/// Reads every file of the store in `dir`, which is not open, and reports what is wrong. Of the
/// options only the comparator and the rule of filters matter.
///
/// Changes nothing, but for the number of this process in `LOCK`, if that file is there and may be
/// written: the lock is held meanwhile. O(bytes), with little memory.
///
/// ```
/// # use keyrack_flodb::{Db, Options, verify};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?.put(b"key", b"value")?;
/// let report = verify(fs, "/store".as_ref(), &Options::new())?;
/// assert_eq!((report.log_records, report.findings.len()), (1, 0));
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
///
/// # Errors
/// [`Error::Locked`] if the store is open, [`Error::Usage`] if there is none, if its keys have
/// another order, or some of them one that the comparator does not know, or if a later program
/// wrote it; [`Error::Io`]. Damage is no error, but a finding.
pub fn verify(fs: Arc<dyn Fs>, dir: &Path, options: &Options) -> Result<Report> {
    let _lock = lock_if_there(&*fs, dir)?;
    let (report, blobs) = (Report::default(), Blobs::default());
    let mut check = Check { fs, dir, options, report, blobs };
    check.run()?;
    options.comparator.check_complete(dir)?;
    Ok(check.report)
}

/// The lock of a store, if it has ever been open. A directory that may not be written has nobody
/// who writes.
fn lock_if_there(fs: &dyn Fs, dir: &Path) -> Result<Option<Box<dyn Lock>>> {
    let path = dir.join(LOCK);
    if !fs.exists(&path)? {
        return Ok(None);
    }
    match fs.lock(&path) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.is_permission_denied() || is_read_only(&error) => Ok(None),
        Err(error) if error.is_locked() => Err(Error::Locked(dir.to_owned())),
        Err(error) => Err(error.into()),
    }
}

fn is_read_only(error: &keyrack_vfs::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::ROFS.raw_os_error())
}

struct Check<'a> {
    fs: Arc<dyn Fs>,
    dir: &'a Path,
    options: &'a Options,
    report: Report,
    blobs: Blobs,
}

/// The blob files that were looked at.
#[derive(Default)]
struct Blobs {
    /// By number; `None` if it cannot be read.
    open: HashMap<u64, Option<BlobReader>>,
    /// Files and offsets of damaged records, which were said already.
    damaged: HashSet<(u64, u64)>,
}

impl Blobs {
    /// What is wrong with the place of a value, if that was not said of the file already.
    fn wrong(
        &self,
        dir: &Path,
        entry: &Parsed<'_>,
        index: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<Option<Finding>> {
        // The table was checked for it.
        let Some(index) = BlobIndex::take(index) else { return Ok(None) };
        let blob = match self.open.get(&index.file) {
            None => {
                let what = "missing, though a table refers to it";
                return Ok(Some(Finding::damage(&blob_path(dir, index.file), 0, what)));
            }
            Some(None) => return Ok(None),
            Some(Some(blob)) => blob,
        };
        if self.damaged.contains(&(index.file, index.offset)) {
            return Ok(None);
        }
        match blob.check(index, (entry.user, entry.sequence), buffer) {
            Ok(()) => Ok(None),
            Err(error) => {
                let (offset, what) = error.into_damage()?;
                let key = entry.user.escape_ascii();
                let what = format!("{what}: the value of {key}");
                Ok(Some(Finding::damage(blob.path(), offset, what)))
            }
        }
    }
}

impl Check<'_> {
    fn run(&mut self) -> Result<()> {
        let entries = self.fs.list(self.dir)?;
        let order = self.options.comparator.clone();
        let manifest = match Manifest::open(Arc::clone(&self.fs), self.dir, order) {
            Ok(manifest) => Some(manifest),
            Err(Error::Corruption { path, offset, what }) => {
                self.report.findings.push(Finding::damage(&path, offset, what));
                None
            }
            Err(error) => return Err(error),
        };
        match &manifest {
            Some(manifest) => self.version(manifest)?,
            None => {
                let names = entries.iter().filter_map(Named::file_name);
                for name in names {
                    if let FileName::Blob(number) = name {
                        self.blob(number, None)?;
                    }
                }
                let numbers = entries.iter().filter_map(|entry| match entry.file_name() {
                    Some(FileName::Table(number)) => Some(number),
                    _ => None,
                });
                for number in numbers {
                    self.table(number, None)?;
                }
            }
        }
        self.log(manifest.as_ref().map(Manifest::state))?;
        if let Some(manifest) = &manifest {
            self.extras(&entries, manifest)?;
        }
        Ok(())
    }

    fn damage(&mut self, path: &Path, offset: u64, what: impl Into<String>) {
        self.report.findings.push(Finding::damage(path, offset, what));
    }

    /// The tables that the manifest names. It was read with the rules of its levels: that they are
    /// disjoint and sorted holds for what it says, and here is seen whether what it says is so.
    fn version(&mut self, manifest: &Manifest) -> Result<()> {
        let dropped = manifest.dropped();
        if !dropped.is_empty() {
            self.report.findings.push(Finding {
                kind: FindingKind::Tail,
                path: manifest.path(),
                offset: dropped.start,
                what: format!("{} bytes of an unfinished edit", dropped.end - dropped.start),
            });
        }
        let version = Arc::clone(&manifest.state().version);
        for blob in version.blobs().values() {
            self.blob(blob.meta.number, Some(&blob.meta))?;
        }
        for level in 0..LEVELS {
            for file in version.files(level) {
                self.table(file.number, Some(file))?;
            }
        }
        Ok(())
    }

    /// What was opened; `None` if it cannot be, which is reported as damage.
    fn sound<T>(&mut self, path: &Path, opened: Result<T>) -> Result<Option<T>> {
        match opened {
            Ok(opened) => return Ok(Some(opened)),
            Err(Error::Io(error)) if error.is_not_found() => {
                self.damage(path, 0, "the file is missing");
            }
            // Of another order or a later version, in a store that is neither.
            Err(Error::Usage(what)) => self.damage(path, 0, what),
            Err(error) => {
                let (offset, what) = error.into_damage()?;
                self.damage(path, offset, what);
            }
        }
        Ok(None)
    }

    fn blob(&mut self, number: u64, known: Option<&BlobMeta>) -> Result<()> {
        let path = blob_path(self.dir, number);
        self.blobs.open.insert(number, None);
        let opened = BlobReader::open(&*self.fs, &path, None);
        // Otherwise it is in the report.
        let Some((blob, meta)) = self.sound(&path, opened)? else { return Ok(()) };
        self.report.blobs += 1;
        self.report.bytes += meta.file_bytes();
        if meta.number != number || known.is_some_and(|known| *known != meta) {
            self.damage(&path, 0, "a blob file, but not the one that the manifest describes");
        }
        let Report { blob_records, findings, .. } = &mut self.report;
        let damaged = &mut self.blobs.damaged;
        let inspected = blob.inspect(
            &meta,
            &mut |_| {
                *blob_records += 1;
                Ok(())
            },
            &mut |offset, what| {
                damaged.insert((number, offset));
                findings.push(Finding::damage(&path, offset, what));
            },
        );
        if let Err(error) = inspected {
            let (offset, what) = error.into_damage()?;
            self.damage(&path, offset, what);
            return Ok(());
        }
        self.blobs.open.insert(number, Some(blob));
        Ok(())
    }

    fn table(&mut self, number: u64, file: Option<&FileMeta>) -> Result<()> {
        let path = table_path(self.dir, number);
        let options = self.options.reader(Arc::new(BlockCache::new(0)));
        let opened = Table::open(&*self.fs, &path, number, &options);
        // Otherwise it is in the report.
        let Some(table) = self.sound(&path, opened)? else { return Ok(()) };
        self.report.tables += 1;
        self.report.bytes += table.meta().bytes;
        let is_other = |file: &FileMeta| !file.describes(table.meta(), &self.options.comparator);
        if file.is_some_and(is_other) {
            self.damage(&path, 0, "a table, but not the one that the manifest describes");
        }
        let Report { entries, findings, .. } = &mut self.report;
        *entries += table.ranges_apart();
        let (blobs, dir, mut buffer, mut wrong) = (&self.blobs, self.dir, Vec::new(), Vec::new());
        table.inspect(
            &mut |key, value| {
                *entries += 1;
                if let Some(entry) = parse(key).filter(|entry| entry.kind == Kind::Blob) {
                    wrong.extend(blobs.wrong(dir, &entry, value, &mut buffer)?);
                }
                Ok(())
            },
            &mut |unsound| findings.push(Finding::damage(&path, unsound.offset, unsound.what)),
        )?;
        self.report.findings.append(&mut wrong);
        Ok(())
    }

    /// The log that a state needs, or as much of it as hangs together.
    fn log(&mut self, state: Option<&State>) -> Result<()> {
        let (from, id) = (state.map(|state| state.log_from), state.map(|state| state.log_id));
        let dir = self.dir.join(LOG_DIR);
        let mut bad = Vec::new();
        let mut replay = |position: u64, payload: &[u8]| -> Result<()> {
            if decode(payload).is_none() {
                bad.push(position);
            }
            Ok(())
        };
        let salvaged = keyrack_wal::salvage(&*self.fs, &dir, from, id, &mut replay)?;
        self.report.log_records = salvaged.records - bad.len() as u64;
        for hole in &salvaged.holes {
            self.damage(&hole.path, hole.offset, hole.what.clone());
        }
        for position in bad {
            let what = format!("the whole record at position {position} does not hold a batch");
            self.damage(&dir, 0, what);
        }
        if salvaged.dropped_bytes > 0 {
            let (bytes, records) = (salvaged.dropped_bytes, salvaged.dropped_records);
            self.report.findings.push(Finding {
                kind: FindingKind::Tail,
                path: dir,
                offset: 0,
                what: format!(
                    "{bytes} bytes behind position {}, among them {records} whole records, were \
                     never made durable",
                    salvaged.end
                ),
            });
        }
        Ok(())
    }

    /// Files of the directory that the store does not name.
    fn extras(&mut self, entries: &[DirEntry], manifest: &Manifest) -> Result<()> {
        let tables: Vec<u64> = manifest.state().version.numbers().collect();
        let is_known = |entry: &DirEntry| match entry.file_name() {
            Some(FileName::Table(number) | FileName::Blob(number)) => tables.contains(&number),
            Some(FileName::Manifest(_)) => manifest.path().ends_with(&entry.name),
            Some(FileName::Unfinished) => false,
            None => {
                let name = &entry.name;
                let files = [CURRENT, LOCK].iter().any(|known| name == known);
                let dirs = [LOG_DIR, LOST_DIR].iter().any(|known| name == known);
                match entry.kind {
                    FileKind::Dir => dirs,
                    _ => files,
                }
            }
        };
        let mut extras: Vec<PathBuf> = entries
            .iter()
            .filter(|entry| !is_known(entry))
            .map(|entry| self.dir.join(&entry.name))
            .collect();
        let log = self.dir.join(LOG_DIR);
        if self.fs.exists(&log)? {
            let names = self.fs.list(&log)?;
            let others = names.iter().filter(|entry| !keyrack_wal::is_ours(&entry.name));
            extras.extend(others.map(|entry| log.join(&entry.name)));
        }
        self.report.findings.extend(extras.into_iter().map(|path| Finding {
            kind: FindingKind::Extra,
            path,
            offset: 0,
            what: "the store does not name this file".to_owned(),
        }));
        Ok(())
    }
}

/// The name of an entry as this format has it.
pub(crate) trait Named {
    /// `None` for directories and for the names of others.
    fn file_name(&self) -> Option<FileName>;
}

impl Named for DirEntry {
    fn file_name(&self) -> Option<FileName> {
        FileName::parse(&self.name).filter(|_| self.kind == FileKind::File)
    }
}
