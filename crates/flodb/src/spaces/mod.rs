//! Key spaces: several ordered sets of keys in one store, each with a name, and writes that change
//! some of them as one.
//!
//! ```text
//!   users      ada -> 1, bob -> 2          one log, one tree:   00 nusers -> id 1
//!   by_age     36 ada, 41 bob                                   00 nby_age -> id 2
//!                                                               02 ada -> 1
//!                                                               02 bob -> 2
//!                                                               04 36 ada
//! ```
//!
//! A space is a number before its keys (`order`). So there is one log, and a batch over several
//! spaces is a batch; one memtable, and one set of levels, whose compactions need not know of
//! spaces. Space 0 is the catalog (`catalog`).
//!
//! * The name of the store's order says that it has spaces: `Db::open` does not open it, and
//!   [`Spaces::open`] opens no other.
//! * A space in another order than that of bytes names its order, and its keys say so. A store
//!   opens only with all orders that have ever been used in it. With no such order given, the store
//!   is searched as any store in the order of bytes.
//! * Ids are never used twice. Dropping a space takes its name away at once, together with a note
//!   in the catalog that its keys are to go; then they go. Should the process end meanwhile, or
//!   somebody with a handle of that time still write, the next opening sees to it.

mod batch;
mod catalog;
mod changes;
mod expire;
mod follower;
mod iter;
mod key;
mod merge;
mod order;
mod range;
mod shipping;
mod space;
mod transaction;
mod transaction_iter;

pub use batch::SpacesBatch;
pub use changes::{SpaceWrite, SpacesChange, SpacesChanges};
pub use follower::SpacesFollower;
pub use iter::SpaceIter;
pub use space::KeySpace;
pub use transaction::SpacesTransaction;
pub use transaction_iter::SpacesTransactionIter;

use crate::batch::Batch;
use crate::db::{Db, Inner, Metric, Snapshot};
use crate::error::{Error, Result};
use crate::key::{Comparator, SPACES_ORDER};
use crate::options::Options;
use crate::stored_order::stored_order;
use catalog::{Catalog, Entry, NAME_BYTES_MAX};
use keyrack_store::{FileSet, WriteOptions};
use keyrack_vfs::{Fs, RealFs};
use order::{IDS_MAX, Prefix, SpacesOrder};
use space::Space;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store with key spaces. Cloning the handle is cheap; the store closes with the last one, those
/// of its spaces included.
///
/// ```
/// use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch, WriteOptions};
/// # let dir = std::env::temp_dir().join(format!("keyrack-spaces-doc-{}", std::process::id()));
///
/// let spaces = Spaces::open(&dir, Options::default(), &[])?;
/// let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
/// let by_age = spaces.get_or_create("by_age", &Comparator::Bytewise)?;
/// let mut batch = SpacesBatch::new();
/// batch.put(&users, b"ada", b"36");
/// batch.put(&by_age, b"36 ada", b"");
/// spaces.write(&batch, WriteOptions::default())?;
/// assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"36"[..]));
/// # drop((users, by_age));
/// spaces.close()?;
/// # keyrack_flodb::Db::destroy(&keyrack_vfs::RealFs, &dir)?;
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
#[derive(Clone)]
pub struct Spaces {
    db: Db,
    shared: Arc<Shared>,
}

struct Shared {
    order: Arc<SpacesOrder>,
    home: Arc<()>,
    /// The spaces whose drop the opening found unfinished.
    dropped: Vec<Entry>,
    /// Held while the catalog changes.
    known: Mutex<Known>,
}

/// The catalog, with what handles share.
struct Known {
    spaces: BTreeMap<String, (Entry, Arc<Space>)>,
    next_id: u32,
}

impl Spaces {
    /// Opens the store with key spaces in the directory `dir`, and makes it if the options say so.
    /// `orders` are those that keys of its spaces have or may get, beside the order of bytes, which
    /// is always there: at least all that have ever been used in the store. The comparator of the
    /// options has to be that of bytes.
    ///
    /// What is left of spaces that were dropped is removed first. O(keys of those).
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Db, Options, Spaces};
    /// let dir = std::env::temp_dir().join(format!("keyrack-spaces-{}", std::process::id()));
    /// let spaces = Spaces::open(&dir, Options::new(), &[])?;
    /// let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// # drop(users);
    /// spaces.close()?;
    /// # keyrack_flodb::Db::destroy(&keyrack_vfs::RealFs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::open`]. [`Error::Usage`] also if the store has no key spaces, if one of the
    /// orders that it needs is not given, or if two of them cannot be told apart.
    pub fn open(dir: impl AsRef<Path>, options: Options, orders: &[Comparator]) -> Result<Spaces> {
        Spaces::open_in(Arc::new(RealFs), dir.as_ref(), options, orders)
    }

    /// As [`Spaces::open`], on a file system of the caller's.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert!(spaces.list().is_empty());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Spaces::open`].
    pub fn open_in(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: Options,
        orders: &[Comparator],
    ) -> Result<Spaces> {
        let spaces = Spaces::open_by(dir, options, orders, |options, accept| {
            Db::open_accepted(fs, dir, options, accept)
        })?;
        for dropped in &spaces.shared.dropped {
            remove_keys(&spaces.db, &Prefix::new(dropped.id, &dropped.order))?;
            let mut batch = Batch::new();
            catalog::forget(&mut batch, dropped.id);
            spaces.db.write(&batch, WriteOptions::default())?;
        }
        Ok(spaces)
    }

    /// As [`Spaces::open`], for reading only, see [`Db::open_read_only`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Db, Options, Spaces};
    /// let dir = std::env::temp_dir().join(format!("keyrack-spaces-read-{}", std::process::id()));
    /// Spaces::open(&dir, Options::new(), &[])?.create("users", &Comparator::Bytewise)?;
    /// let reader = Spaces::open_read_only(&dir, Options::new(), &[])?;
    /// assert!(reader.get("users").is_some());
    /// # drop(reader);
    /// # keyrack_flodb::Db::destroy(&keyrack_vfs::RealFs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Spaces::open`] and [`Db::open_read_only`].
    pub fn open_read_only(
        dir: impl AsRef<Path>,
        options: Options,
        orders: &[Comparator],
    ) -> Result<Spaces> {
        Spaces::open_read_only_in(Arc::new(RealFs), dir.as_ref(), options, orders)
    }

    /// As [`Spaces::open_read_only`], on a file system of the caller's.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// Spaces::open_in(fs.clone(), "/store".as_ref(), Options::new(), &[])?.close()?;
    /// let reader = Spaces::open_read_only_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert!(reader.create("users", &Comparator::Bytewise).is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Spaces::open_read_only`].
    pub fn open_read_only_in(
        fs: Arc<dyn Fs>,
        dir: &Path,
        options: Options,
        orders: &[Comparator],
    ) -> Result<Spaces> {
        Spaces::open_by(dir, options, orders, |options, accept| {
            Db::open_read_only_accepted(fs, dir, options, accept)
        })
    }

    /// Whether the store in `dir` has key spaces, as far as one of its files says so: a manifest,
    /// or when all of them are damaged, a table. `None` if nothing is left that could. Opens
    /// nothing, and takes no lock.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// Spaces::open_in(fs.clone(), "/store".as_ref(), Options::new(), &[])?.close()?;
    /// assert_eq!(Spaces::are_in(&*fs, "/store".as_ref())?, Some(true));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A later program wrote the store; the machine's.
    pub fn are_in(fs: &dyn Fs, dir: &Path) -> Result<Option<bool>> {
        Ok(stored_order(fs, dir)?.map(|name| name == SPACES_ORDER))
    }

    /// The order of all keys of a store with such key spaces, for tools that work on the files of
    /// stores.
    ///
    /// ```
    /// # use keyrack_flodb::Spaces;
    /// assert_eq!(Spaces::comparator(&[])?.name(), "keyrack.spaces");
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if two of the orders cannot be told apart.
    pub fn comparator(orders: &[Comparator]) -> Result<Comparator> {
        Ok(Comparator::Custom(Arc::new(SpacesOrder::new(orders)?)))
    }

    fn open_by(
        dir: &Path,
        options: Options,
        orders: &[Comparator],
        open: impl FnOnce(Options, &dyn Fn(&Inner) -> Result<()>) -> Result<Db>,
    ) -> Result<Spaces> {
        if !matches!(options.comparator, Comparator::Bytewise) {
            return Err(Error::Usage("each key space has an order: the store has none".to_owned()));
        }
        if let Some(filter) = &options.compaction_filter {
            return Err(Error::Usage(format!(
                "compaction_filter '{}': a store with key spaces takes none",
                filter.name()
            )));
        }
        let order = Arc::new(SpacesOrder::new(orders)?);
        let comparator = Comparator::Custom(Arc::clone(&order) as Arc<_>);
        // Before anything is sorted by a wrong rule for good.
        let accept = |inner: &Inner| {
            let catalog = Catalog::read(inner)?;
            let missing = catalog.orders.iter().find(|name| order.named(name).is_none());
            match missing {
                None => Ok(()),
                Some(missing) => Err(Error::Usage(format!(
                    "{}: keys are in the order {missing:?}, which was not given",
                    dir.display()
                ))),
            }
        };
        let opened = open(Options { comparator, ..options }, &accept);
        let db = opened.map_err(|error| match error {
            // What looks like damage are keys in an order that nobody knows.
            Error::Corruption { .. } if order.is_missing() => Error::Usage(format!(
                "{}: some keys are in an order that was not given",
                dir.display()
            )),
            error => error,
        })?;
        let catalog = Catalog::read(db.inner())?;
        let shared = Shared {
            order,
            home: Arc::new(()),
            dropped: catalog.dropped,
            known: Mutex::new(Known { spaces: BTreeMap::new(), next_id: catalog.next_id.max(1) }),
        };
        let mut known = shared.known();
        for (name, entry) in catalog.spaces {
            let space = shared.space(&name, &entry).ok_or_else(|| {
                let what = format!("the key space {name:?} has an order that was never used");
                Error::corruption(dir, 0, what)
            })?;
            known.spaces.insert(name, (entry, space));
        }
        drop(known);
        Ok(Spaces { db, shared: Arc::new(shared) })
    }

    /// Makes a key space.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// spaces.create("users", &Comparator::Bytewise)?;
    /// assert!(spaces.create("users", &Comparator::Bytewise).is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is one of that name, if the name has not 1 to 255 bytes, or if the
    /// order was not given when the store was opened; as for [`Db::put`].
    pub fn create(&self, name: &str, order: &Comparator) -> Result<KeySpace> {
        let mut known = self.shared.known();
        if known.spaces.contains_key(name) {
            return Err(Error::Usage(format!("there is a key space {name:?} already")));
        }
        self.add(&mut known, name, order)
    }

    /// The key space of that name, if there is one.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert!(spaces.get("users").is_none());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn get(&self, name: &str) -> Option<KeySpace> {
        let known = self.shared.known();
        known.spaces.get(name).map(|(_, space)| self.handle(space))
    }

    /// The key space of that name, made if there is none.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// let users = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// let again = spaces.get_or_create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// assert!(again.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is one in another order; as for [`Spaces::create`].
    pub fn get_or_create(&self, name: &str, order: &Comparator) -> Result<KeySpace> {
        let mut known = self.shared.known();
        match known.spaces.get(name) {
            Some((entry, _)) if entry.order != order.name() => Err(Error::Usage(format!(
                "the key space {name:?} is in the order {:?}, not {:?}",
                entry.order,
                order.name()
            ))),
            Some((_, space)) => Ok(self.handle(space)),
            None => self.add(&mut known, name, order),
        }
    }

    /// Removes a key space and all its keys. `false` if there is none of that name. Its handles are
    /// of no use afterwards. Earlier snapshots and iterators still have what they have.
    ///
    /// The name is free at once, and whatever happens. O(keys), with a write for each of them.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// assert!(spaces.drop_space("users")?);
    /// assert!(!spaces.drop_space("users")?);
    /// assert!(users.get(b"ada").is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`], and those of a scan. The space is there unless its name was removed;
    /// keys that remain are removed when the store is opened the next time.
    pub fn drop_space(&self, name: &str) -> Result<bool> {
        let space = {
            let mut known = self.shared.known();
            let Some((entry, _)) = known.spaces.get(name) else { return Ok(false) };
            let mut batch = Batch::new();
            catalog::drop_space(&mut batch, name, entry);
            self.db.write(&batch, WriteOptions::default())?;
            known.spaces.remove(name)
        };
        let Some((_, space)) = space else { return Ok(false) };
        space.set_dropped();
        remove_keys(&self.db, &space.prefix)?;
        Ok(true)
    }

    /// The names of all key spaces with those of their orders, sorted by name.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// assert_eq!(spaces.list(), [("users".to_owned(), "keyrack.bytewise".to_owned())]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn list(&self) -> Vec<(String, String)> {
        let known = self.shared.known();
        let spaces = known.spaces.iter();
        spaces.map(|(name, (entry, _))| (name.clone(), entry.order.clone())).collect()
    }

    /// Applies the writes of `batch` as one.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces, SpacesBatch, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let mut batch = SpacesBatch::new();
    /// batch.put(&users, b"ada", b"36");
    /// spaces.write(&batch, WriteOptions::default())?;
    /// assert!(users.contains_key(b"ada")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if one of its spaces was dropped, or is of another store; as for
    /// [`Db::put`].
    pub fn write(&self, batch: &SpacesBatch, options: WriteOptions) -> Result<()> {
        for space in batch.spaces() {
            space.check()?;
            space.check_home(&self.shared.home)?;
        }
        self.db.write(batch.batch(), options)
    }

    /// This moment of all spaces, to read from later.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// let before = spaces.snapshot();
    /// users.put(b"ada", b"36")?;
    /// assert_eq!(users.range_at(&before, ..).count(), 0);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.db.snapshot()
    }

    /// Writes everything that is in memory into tables.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// spaces.flush()?;
    /// assert_eq!(spaces.property("leveldb.num-files-at-level0"), Some("1".to_owned()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::flush`].
    pub fn flush(&self) -> Result<()> {
        self.db.flush()
    }

    /// Compacts all tables, see [`Db::compact_range`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// users.put(b"ada", b"36")?;
    /// spaces.compact()?;
    /// assert_eq!(spaces.property("leveldb.num-files-at-level0"), Some("0".to_owned()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::compact_range`].
    pub fn compact(&self) -> Result<()> {
        self.db.compact_range(None, None)
    }

    /// Writes all tables anew, see [`Db::rewrite`].
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// spaces.rewrite()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::compact_range`].
    pub fn rewrite(&self) -> Result<()> {
        self.db.rewrite()
    }

    /// A copy of the store with all its spaces, see [`Db::checkpoint`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let spaces = Spaces::open_in(fs.clone(), "/store".as_ref(), Options::new(), &[])?;
    /// spaces.create("users", &Comparator::Bytewise)?;
    /// spaces.checkpoint("/copy")?;
    /// let copy = Spaces::open_in(fs, "/copy".as_ref(), Options::new(), &[])?;
    /// assert!(copy.get("users").is_some());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::checkpoint`].
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        self.db.checkpoint(target)
    }

    /// The files of the store with all its spaces, held for a copy, see [`Db::file_set`].
    ///
    /// # Errors
    /// As for [`Db::file_set`].
    pub fn file_set(&self) -> Result<FileSet> {
        self.db.file_set()
    }

    /// What is known under `name`, see [`Db::property`].
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert_eq!(spaces.property("keyrack.comparator"), Some("keyrack.spaces".to_owned()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn property(&self, name: &str) -> Option<String> {
        self.db.property(name)
    }

    /// Numbers of the store, by name.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// let mut names = Vec::new();
    /// spaces.stats(&mut |name, _number| names.push(name.to_owned()));
    /// assert!(names.contains(&"memory_counted_bytes".to_owned()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        self.db.stats(visit);
    }

    /// All numbers of the store, see [`Db::metrics`].
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert!(spaces.metrics().iter().all(|metric| !metric.help.is_empty()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        self.db.metrics()
    }

    /// What the store was opened with, see [`Db::options`].
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let options = Options::new().block_bytes(8 << 10);
    /// let spaces = Spaces::open_in(fs, "/store".as_ref(), options, &[])?;
    /// assert_eq!(spaces.options().block_bytes, 8 << 10);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn options(&self) -> &Options {
        self.db.options()
    }

    /// Tries again what found the disk full, see [`Db::resume`].
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Error, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// if let Err(Error::NoSpace(_)) = users.put(b"ada", b"36") {
    ///     // ... make space ...
    ///     spaces.resume()?;
    /// }
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::resume`].
    pub fn resume(&self) -> Result<()> {
        self.db.resume()
    }

    /// The directory.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// assert_eq!(spaces.dir(), std::path::Path::new("/store"));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.db.dir()
    }

    /// Closes the store, see [`Db::close`]. Handles of its spaces are of no use afterwards.
    ///
    /// ```
    /// # use keyrack_flodb::{Comparator, Options, Spaces};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let spaces = Spaces::open_in(fs, "/store".as_ref(), Options::new(), &[])?;
    /// # let users = spaces.create("users", &Comparator::Bytewise)?;
    /// spaces.close()?;
    /// assert!(users.put(b"ada", b"36").is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::close`].
    pub fn close(self) -> Result<()> {
        self.db.close()
    }

    fn handle(&self, space: &Arc<Space>) -> KeySpace {
        KeySpace { db: self.db.clone(), space: Arc::clone(space) }
    }

    /// Makes a space that is not there, in the catalog first.
    fn add(&self, known: &mut Known, name: &str, order: &Comparator) -> Result<KeySpace> {
        let usage = |what: String| Err(Error::Usage(what));
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return usage(format!("the name of a key space has 1 to {NAME_BYTES_MAX} bytes"));
        }
        if known.next_id >= IDS_MAX {
            return usage("there were too many key spaces".to_owned());
        }
        let entry = Entry { id: known.next_id, order: order.name().to_owned() };
        let Some(space) = self.shared.space(name, &entry) else {
            let order = order.name();
            return usage(format!("the order {order:?} was not given when the store was opened"));
        };
        let mut batch = Batch::new();
        catalog::create(&mut batch, name, &entry);
        // Whatever becomes of this write, the id is not given out again.
        known.next_id += 1;
        self.db.write(&batch, WriteOptions::default())?;
        let handle = self.handle(&space);
        known.spaces.insert(name.to_owned(), (entry, space));
        Ok(handle)
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The space of a catalog entry; `None` if its order is not there.
    fn space(&self, name: &str, entry: &Entry) -> Option<Arc<Space>> {
        let order = self.order.named(&entry.order)?;
        let prefix = Prefix::new(entry.id, &entry.order);
        Some(Space::new(name.to_owned(), prefix, order, Arc::clone(&self.home)))
    }
}

/// Removes all keys of a space, by one write.
fn remove_keys(db: &Db, prefix: &Prefix) -> Result<()> {
    let (high, len) = prefix.high();
    db.delete_range(prefix.low(), &high[..len])
}

impl fmt::Debug for Spaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spaces").field("dir", &self.dir()).finish_non_exhaustive()
    }
}
