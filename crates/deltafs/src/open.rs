//! Opening name spaces, and what a log says about itself.
//!
//! ```text
//!   key     0: 16 bytes | "format"   which format, as text: another from the first hard link on
//!           0: 16 bytes | "log"      8 bytes: its number
//!           0: 16 bytes | "epoch"    8 bytes: how often it was opened for writing
//!           0: 16 bytes | "base"     JSON: the logs below, as publications, the highest first
//! ```
//!
//! The epoch is synced before the name space is given out, whatever the durability: numbers of
//! files depend on it.

use crate::contents::Contents;
use crate::dirs::Dirs;
use crate::error::{Error, Result};
use crate::id::{DirId, EPOCH_MAX, Inode, LogId, first_number};
use crate::inner::{Inner, TimeSource};
use crate::layers::Layers;
use crate::names_cache::NamesCache;
use crate::namespace::Namespace;
use crate::quota::{NameCount, Quota};
use crate::record::{DirNode, Entry, Key, Node, Touched};
use crate::registry::Reference;
use crate::rpc::txn::record::large_in_record;
use keyrack_flodb::{Batch, Db, Options, WriteOptions};
use keyrack_measure::wall;
use keyrack_vfs::{Fs, OpenOptions, RealFs};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

pub(crate) const FORMAT: &[u8] = b"keyrack-deltafs 2";
/// The format of a log from its first hard link on. Programs that do not know of links refuse it.
pub(crate) const FORMAT_LINKS: &[u8] = b"keyrack-deltafs 3";

/// That of earlier versions, whose records are read as well.
const FORMAT_1: &[u8] = b"keyrack-deltafs 1";

/// How a name space is opened. Start from [`Settings::default`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// The store of the log: durability, memory, and so on. Its keys are in the order of bytes.
    pub store: Options,
    /// The stores of the logs below, the highest first. They are only read.
    pub lower: Vec<PathBuf>,
    /// The logs below by the names under which they were published, to be remembered by a new log.
    pub base: Vec<Reference>,
    /// The number of a new log; drawn if it is not given.
    pub log: Option<LogId>,
    /// Mode of the root directory of a new log that has none below: 0755.
    pub root_mode: u32,
    /// Directories that stay in memory without being used: 65,536, about 300 bytes each.
    pub dirs_max: usize,
    /// Names of directories that are remembered: 65,536, about 100 bytes each.
    pub names_max: usize,
    /// Where times come from.
    pub time: TimeSource,
    /// How far the name space may grow.
    pub quota: Quota,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            store: Options::default(),
            lower: Vec::new(),
            base: Vec::new(),
            log: None,
            root_mode: 0o755,
            dirs_max: 1 << 16,
            names_max: 1 << 16,
            time: TimeSource::Calendar,
            quota: Quota::default(),
        }
    }
}

/// What a log says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    /// Its number.
    pub log: LogId,
    /// How often it was opened for writing.
    pub epoch: u64,
    /// The publications that it was begun on, the highest first.
    pub base: Vec<Reference>,
    /// Whether files of it, or of the logs below it, have had several names.
    pub has_links: bool,
}

impl LogHead {
    /// Reads it from a store that is open. `None` if the store is empty.
    ///
    /// # Errors
    /// [`Error::Usage`] if the store holds something else.
    pub fn of(db: &Db) -> Result<Option<LogHead>> {
        let get = |name: &[u8]| db.get(&Key::entry(DirId::SYSTEM, name));
        let Some(format) = get(b"format")? else {
            let mut iter = db.iter()?;
            iter.seek_first()?;
            return if iter.is_valid() {
                Err(not_ours(db.dir(), "holds other keys"))
            } else {
                Ok(None)
            };
        };
        let has_links = format == FORMAT_LINKS;
        if !has_links && format != FORMAT && format != FORMAT_1 {
            let what = format!("has the format '{}'", format.escape_ascii());
            return Err(not_ours(db.dir(), &what));
        }
        let number = |name: &[u8]| -> Result<u64> {
            let bytes = get(name)?.and_then(|bytes| bytes.try_into().ok());
            let broken = || Error::Corruption {
                path: db.dir().to_owned(),
                what: format!("the record '{}' of the log is damaged", name.escape_ascii()),
            };
            bytes.map(u64::from_be_bytes).ok_or_else(broken)
        };
        let damaged = |why: String| Error::Corruption {
            path: db.dir().to_owned(),
            what: format!("the record 'base' of the log is damaged: {why}"),
        };
        let base = get(b"base")?.ok_or_else(|| damaged("it is missing".to_owned()))?;
        let base = serde_json::from_slice(&base).map_err(|error| damaged(error.to_string()))?;
        let log = LogId::from_bits(number(b"log")?);
        Ok(Some(LogHead { log, epoch: number(b"epoch")?, base, has_links }))
    }

    /// Reads it from the store in `dir`, which may be open elsewhere. `None` if there is no store.
    ///
    /// # Errors
    /// As for [`LogHead::of`], and those of opening.
    pub fn read(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Option<LogHead>> {
        if !fs.exists(&dir.join("CURRENT"))? {
            return Ok(None);
        }
        LogHead::of(&Db::open_read_only_in(Arc::clone(fs), dir, read_options())?)
    }
}

fn not_ours(dir: &Path, what: &str) -> Error {
    Error::Usage(format!("{}: the store is no name space: it {what}", dir.display()))
}

/// Stores that are read only need little of what writers need.
fn read_options() -> Options {
    Options { create_if_missing: false, compaction_threads: 0, ..Options::default() }
}

impl Namespace {
    /// Opens the log in `dir` for writing, and makes it if the options of the store say so.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is another store, or none, or the quota is none;
    /// [`Error::Store`] if somebody has it open, or it cannot be opened.
    pub fn open(dir: impl AsRef<Path>, settings: Settings) -> Result<Namespace> {
        Namespace::open_in(Arc::new(RealFs), dir.as_ref(), settings)
    }

    /// As [`Namespace::open`], on a file system of the caller's.
    ///
    /// # Errors
    /// As for [`Namespace::open`].
    pub fn open_in(fs: Arc<dyn Fs>, dir: &Path, settings: Settings) -> Result<Namespace> {
        settings.quota.check()?;
        let top = Db::open_in(Arc::clone(&fs), dir, settings.store.clone())?;
        let (lower, mut has_links) = open_lower(&fs, &settings.lower)?;
        let head = LogHead::of(&top)?;
        let mut batch = Batch::new();
        let system = |name: &[u8]| Key::entry(DirId::SYSTEM, name);
        let (log, epoch, is_new) = match &head {
            Some(head) if head.epoch >= EPOCH_MAX => {
                return Err(Error::Usage(format!(
                    "{}: the log was opened {} times, and cannot be opened for writing again; \
                     publish it, and begin another on it",
                    dir.display(),
                    head.epoch
                )));
            }
            Some(head) => (head.log, head.epoch + 1, false),
            None => (settings.log.unwrap_or_else(|| draw(&*fs, dir)), 1, true),
        };
        // What is changed of files with hard links below has the format of these.
        has_links |= head.as_ref().is_some_and(|head| head.has_links);
        // An earlier format is not left below records of this one.
        batch.put(&system(b"format"), if has_links { FORMAT_LINKS } else { FORMAT });
        if is_new {
            batch.put(&system(b"log"), &log.0.to_be_bytes());
            let base =
                serde_json::to_vec(&settings.base).map_err(|e| Error::Usage(e.to_string()))?;
            batch.put(&system(b"base"), &base);
        }
        batch.put(&system(b"epoch"), &epoch.to_be_bytes());
        let mut all = vec![top.clone()];
        all.extend(lower);
        let layers = Layers::new(all, true);
        if layers.node(DirId::ROOT)?.is_none() {
            let now = settings.time.now_ns();
            let node = DirNode {
                mode: settings.root_mode & crate::record::MODE_BITS,
                uid: 0,
                gid: 0,
                parent: DirId::ROOT,
                name: Vec::new(),
            };
            let touched = Touched { subdirs: 0, mtime_ns: now, ctime_ns: now };
            batch.put(&Key::node(DirId::ROOT), &Node::Dir(node, touched).encode());
        }
        top.write(&batch, WriteOptions { sync: true })?;
        let contents = Contents::of(&fs, layers.all())?;
        if contents.is_unfinished()? {
            contents.sweep(&with_contents(&layers)?)?;
        }
        let name_count = NameCount::of(settings.quota, &layers)?;
        Ok(Namespace::assemble(layers, (log, epoch, has_links), contents, name_count, &settings))
    }

    /// Opens logs for reading only, the highest first. No file changes, and whoever writes to them
    /// goes on; what they write later is not seen.
    ///
    /// # Errors
    /// [`Error::Usage`] if there are none, or one is no name space; those of opening.
    pub fn open_read_only(logs: &[PathBuf], settings: Settings) -> Result<Namespace> {
        Namespace::open_read_only_in(Arc::new(RealFs), logs, settings)
    }

    /// As [`Namespace::open_read_only`], on a file system of the caller's.
    ///
    /// # Errors
    /// As for [`Namespace::open_read_only`].
    pub fn open_read_only_in(
        fs: Arc<dyn Fs>,
        logs: &[PathBuf],
        settings: Settings,
    ) -> Result<Namespace> {
        if logs.is_empty() {
            return Err(Error::Usage("a view needs at least one log".to_owned()));
        }
        let (stores, has_links) = open_lower(&fs, logs)?;
        let head = LogHead::of(&stores[0])?;
        let head = head.ok_or_else(|| not_ours(&logs[0], "is empty"))?;
        let (log, epoch) = (head.log, head.epoch);
        let layers = Layers::new(stores, false);
        if layers.node(DirId::ROOT)?.is_none() {
            let last = logs[logs.len() - 1].display();
            return Err(Error::Usage(format!(
                "{last}: the lowest log has no root directory: it was begun on another, which has \
                 to be in the list behind it"
            )));
        }
        let contents = Contents::of(&fs, layers.all())?;
        let name_count = NameCount::uncounted(settings.quota);
        Ok(Namespace::assemble(layers, (log, epoch, has_links), contents, name_count, &settings))
    }

    fn assemble(
        layers: Layers,
        (log, epoch, has_links): (LogId, u64, bool),
        contents: Contents,
        name_count: NameCount,
        settings: &Settings,
    ) -> Namespace {
        Namespace {
            inner: Arc::new(Inner {
                layers,
                log,
                epoch,
                dirs: Dirs::new(settings.dirs_max),
                names: NamesCache::new(settings.names_max),
                numbers: AtomicU64::new(first_number(epoch)),
                moves: Mutex::new(()),
                links: Mutex::new(()),
                has_links: AtomicBool::new(has_links),
                time: settings.time.clone(),
                contents,
                name_count,
            }),
        }
    }
}

/// The files whose bytes are not in their records. O(entries).
fn with_contents(layers: &Layers) -> Result<BTreeSet<Inode>> {
    let mut found = BTreeSet::new();
    let mut entries = layers.everything()?;
    while entries.next()? {
        let (dir, name) = entries.entry_key()?;
        if dir == DirId::SYSTEM && name.starts_with(b"move") {
            found.extend(large_in_record(entries.path(0), entries.value(0))?);
            continue;
        }
        let is_number = name.is_empty() && dir.inode().is_file();
        if dir == DirId::SYSTEM || (name.is_empty() && !is_number) {
            continue;
        }
        if let Entry::Sized(attributes) = Entry::read(entries.path(0), dir, name, entries.value(0))?
        {
            found.insert(attributes.inode);
        }
    }
    Ok(found)
}

/// Opens logs that are only read. Whether any of them has hard links.
fn open_lower(fs: &Arc<dyn Fs>, dirs: &[PathBuf]) -> Result<(Vec<Db>, bool)> {
    let mut stores = Vec::with_capacity(dirs.len());
    let mut has_links = false;
    for dir in dirs {
        let store = Db::open_read_only_in(Arc::clone(fs), dir, read_options())?;
        let head = LogHead::of(&store)?.ok_or_else(|| not_ours(dir, "is empty"))?;
        has_links |= head.has_links;
        stores.push(store);
    }
    Ok((stores, has_links))
}

/// A number for a new log, of everything that differs between logs.
fn draw(fs: &dyn Fs, dir: &Path) -> LogId {
    let mut random = [0; 32];
    // Where the machine has no such device, the rest has to do.
    let device = RealFs.open(Path::new("/dev/urandom"), &OpenOptions::new().read(true));
    if let Ok(device) = device {
        // As where there is none.
        let _ = device.read_at(0, &mut random);
    }
    LogId::draw(&[
        &random,
        &wall::unix_ns().to_be_bytes(),
        &fs.unique_number().to_be_bytes(),
        dir.as_os_str().as_encoded_bytes(),
    ])
}
