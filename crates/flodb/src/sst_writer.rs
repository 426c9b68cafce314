//! Tables that are made outside of a store, to be taken in by [`Db::ingest`](crate::Db::ingest).
//!
//! Such a table is as one of the store's own, but that all its entries have the sequence number 0.
//! The store says, when it takes the table in, which number they have instead.

use crate::cache::BlockCache;
use crate::error::{Error, Result};
use crate::expiry;
use crate::key::{self, Comparator, Kind};
use crate::options::Options;
use crate::prefix_filter::{PrefixReads, StoreExtractor};
use crate::table::{self, ReaderOptions, TableOptions};
use crate::version::LAST_LEVEL;
use keyrack_vfs::{Fs, OpenOptions};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Options {
    /// How the tables of `level` are made, while level 0 is merged into `base`.
    pub(crate) fn table(&self, level: usize, base: usize) -> TableOptions {
        TableOptions {
            block_bytes: self.block_bytes,
            restart_interval: self.restart_interval,
            compression: self.compression_of(level, base),
            filter_bits_per_key: self.filter_bits_per_key,
            filter_policy: self.filter_policy.clone(),
            prefix_extractor: self.prefix_extractor.clone(),
            comparator: self.comparator.clone(),
        }
    }

    /// What tables are opened with, and the cache of blocks that they share.
    pub(crate) fn reader(&self, cache: Arc<BlockCache>) -> ReaderOptions {
        let extractor = self.prefix_extractor.as_ref();
        let prefixes =
            extractor.map(|it| PrefixReads::new(StoreExtractor::new(it, &self.comparator)));
        ReaderOptions {
            cache,
            filter_policy: self.filter_policy.clone(),
            prefixes,
            ..ReaderOptions::alone(self.comparator.clone())
        }
    }
}

/// Makes a table of keys in ascending order, for [`Db::ingest`](crate::Db::ingest). Dropped before
/// [`SstWriter::finish`], it leaves a file that is no table.
///
/// ```
/// use keyrack_flodb::{Db, IngestOptions, Options, SstWriter};
/// # let dir = std::env::temp_dir().join(format!("keyrack-flodb-bulk-{}", std::process::id()));
/// # std::fs::create_dir_all(&dir).unwrap();
/// let fs = keyrack_vfs::RealFs;
/// let mut writer = SstWriter::create(&fs, &dir.join("bulk"), &Options::default())?;
/// for n in 0..1000_u32 {
///     writer.put(&n.to_be_bytes(), b"value")?;
/// }
/// writer.finish()?;
///
/// let db = Db::open(dir.join("store"), Options::default())?;
/// db.ingest(&[dir.join("bulk")], IngestOptions::default())?;
/// assert!(db.get(&7_u32.to_be_bytes())?.is_some());
/// # drop(db);
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
#[derive(Debug)]
pub struct SstWriter {
    writer: table::TableWriter,
    order: Comparator,
    last: Option<Vec<u8>>,
    entry: Vec<u8>,
    entries: u64,
    path: PathBuf,
}

/// A table that [`SstWriter::finish_counted`] completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SstFile {
    /// Bytes of the file.
    pub bytes: u64,
    /// Calls that wrote it.
    pub writes: u64,
}

impl SstWriter {
    /// A table in the new file `path`. Of the options it takes the comparator, which has to be that
    /// of the store, the sizes of blocks, the filter, and the compression of the last level.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// table.put(b"key", b"value")?;
    /// table.finish()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The file is there already, or cannot be made; the compression is refused.
    pub fn create(fs: &dyn Fs, path: &Path, options: &Options) -> Result<Self> {
        let table = options.table(LAST_LEVEL, LAST_LEVEL);
        if !table.compression.is_built_in() {
            return Err(Error::Usage(table.compression.refusal()));
        }
        let file = fs.open(path, &OpenOptions::new().read(true).write(true).create_new(true))?;
        Ok(SstWriter {
            writer: table::TableWriter::new(file, table)?,
            order: options.comparator.clone(),
            last: None,
            entry: Vec::new(),
            entries: 0,
            path: path.to_owned(),
        })
    }

    /// Adds a key with its value.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// table.put(b"b", b"2")?;
    /// assert!(table.put(b"a", b"1").is_err(), "keys ascend");
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if the key is not behind the last one, or the two are larger than about
    /// 1 GiB; the entry is not added then. Any other error is final for the table.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(Kind::Put, key, value)
    }

    /// Adds a key with a value that expires, at a moment in milliseconds since 1970: see
    /// [`Db::put_until`](crate::Db::put_until).
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// table.put_until(b"offer", b"half price", 4_102_444_800_000)?;
    /// table.finish()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SstWriter::put`].
    pub fn put_until(&mut self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        self.add(Kind::PutExpiring, key, &expiry::stored(expires_ms, value))
    }

    /// Adds a tombstone for a key: what the store has of it is gone once the table is taken in.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// table.delete(b"key")?;
    /// table.finish()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SstWriter::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add(Kind::Delete, key, &[])
    }

    fn add(&mut self, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let ascends = |last: &Vec<u8>| self.order.user(last, key) == Ordering::Less;
        if !self.last.as_ref().is_none_or(ascends) {
            return Err(Error::Usage(format!(
                "the keys of a table must ascend, and {} does not",
                key.escape_ascii()
            )));
        }
        self.entry.clear();
        key::append(&mut self.entry, key, 0, kind);
        self.writer.add(&self.entry, value)?;
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        self.entries += 1;
        Ok(())
    }

    /// Entries so far.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// table.put(b"key", b"value")?;
    /// assert_eq!(table.entries(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Bytes of the file so far, about: when to begin the next one.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// for number in 0..10_000_u32 {
    ///     table.put(&number.to_be_bytes(), b"value")?;
    /// }
    /// assert!(table.bytes() > 10_000);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.written_bytes()
    }

    /// The file.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// assert_eq!(table.path(), std::path::Path::new("/new.sst"));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Completes the table and syncs its file, but not the directory.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// table.put(b"key", b"value")?;
    /// table.finish()?;
    /// let empty = SstWriter::create(&*fs, "/empty.sst".as_ref(), &Options::new())?;
    /// assert!(empty.finish().is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for a table without entries; any error of writing. The file is no table
    /// then.
    pub fn finish(self) -> Result<()> {
        self.finish_counted().map(|_| ())
    }

    /// As [`SstWriter::finish`], and says what the table took.
    ///
    /// ```
    /// # use keyrack_flodb::{Options, SstWriter};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let mut table = SstWriter::create(&*fs, "/new.sst".as_ref(), &Options::new())?;
    /// table.put(b"key", b"value")?;
    /// assert!(table.finish_counted()?.bytes > 48);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`SstWriter::finish`].
    pub fn finish_counted(self) -> Result<SstFile> {
        let (meta, writes) = self.writer.finish_counted()?;
        Ok(SstFile { bytes: meta.bytes, writes })
    }
}
