//! Writing: into the log, into memory, and then visible.
//!
//! ```text
//!   write controller -> key lock -> log.reserve (LSN = sequence number) -> memtable.reserve
//!                    -> copies -> publish -> sync, if asked for
//! ```
//!
//! The writer that finds the memtable full afterwards opens the next one; the one that finds its
//! unordered tail long sorts it. Both come after the publication, so that nobody's write waits.
//!
//! Nothing else here calls the system or allocates, but for the lock of the key when it is
//! contended, the end of a segment, a full memtable (`append`), and the sync that was asked for.
//!
//! A range tombstone is one write, at one LSN: it deletes what lies before it in the log, and
//! nothing after it. It takes all key locks, see `key_locks`.

use super::append::{Record, size_of};
use super::flush::flush_all;
use super::ranked_lock::without_ranks;
use super::stats::Counters;
use super::{Db, Inner};
use crate::batch::{Batch, Write};
use crate::checksum::hash;
use crate::coding::varint_into;
use crate::error::{Error, Result};
use crate::key::Kind;
use crate::table::ReadOptions;
use keyrack_concurrent::Change;
use keyrack_store::{Durability, WriteOptions};
use std::cmp::Ordering;

/// Bytes that a record of the log takes beside its keys and values, about.
pub(super) const RECORD_BYTES: usize = 16;

/// Bytes of the count with which a batch begins in the log, at most.
const COUNT_BYTES_MAX: usize = 10;

impl Db {
    /// Stores `value` under `key`.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// assert_eq!(db.get(b"key")?, Some(b"value".to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if the two are too large for the log, [`Error::Io`] if the log cannot go
    /// on, [`Error::Poisoned`] after a failure that was final.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`Db::put`], with options. Without a log, a synced put flushes the memtable to a table.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put_with(b"key", b"value", WriteOptions { sync: true })?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn put_with(&self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        self.inner().write_one(Write { kind: Kind::Put, key, value }, options)
    }

    /// Removes `key`, whether it is there or not.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// db.delete(b"key")?;
    /// assert_eq!(db.get(b"key")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`Db::delete`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.delete_with(b"key", WriteOptions { sync: true })?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete_with(&self, key: &[u8], options: WriteOptions) -> Result<()> {
        self.inner().write_one(Write { kind: Kind::Delete, key, value: &[] }, options)
    }

    /// Removes all keys from `from` on and before `to`, however many there are: O(1) here, and
    /// reads pass over what is removed until compactions have dropped it. Puts and updates come
    /// before it or behind it, as a whole. If `to` is not behind `from`, nothing is removed, and
    /// nothing written.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"log/1", b"")?;
    /// db.put(b"log/2", b"")?;
    /// db.delete_range(b"log/", b"log/2")?;
    /// assert_eq!(db.prefix("log/").count(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.delete_range_with(from, to, WriteOptions::default())
    }

    /// As [`Db::delete_range`], with options.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.delete_range_with(b"log/", b"log0", WriteOptions { sync: true })?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn delete_range_with(&self, from: &[u8], to: &[u8], options: WriteOptions) -> Result<()> {
        let mut batch = Batch::new();
        if self.inner().options.comparator.user(from, to) == Ordering::Less {
            batch.delete_range(from, to);
        }
        self.inner().write_batch(&batch, options)
    }

    /// Applies the writes of `batch` as one, each after those before it.
    ///
    /// ```
    /// # use keyrack_flodb::{Batch, Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let mut batch = Batch::new();
    /// batch.put(b"to", b"10");
    /// batch.delete(b"from");
    /// db.write(&batch, WriteOptions::default())?;
    /// assert_eq!(db.get(b"to")?, Some(b"10".to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`].
    pub fn write(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        self.inner().write_batch(batch, options)
    }

    /// Bytes of a batch that the log takes, at most, by [`Batch::bytes`].
    pub(crate) fn batch_bytes_max(&self) -> usize {
        self.inner().write_path.log.record_bytes_max().saturating_sub(COUNT_BYTES_MAX)
    }

    /// Reads, decides and writes one key as one step. `decide` is called once, while other writers
    /// of the key wait; it must not write to the store.
    ///
    /// ```
    /// # use keyrack_flodb::{Change, Db, Options, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"names", b"ada")?;
    /// db.update(b"names", WriteOptions::default(), |found| match found {
    ///     Some(names) => Change::Put([names, b",bob"].concat()),
    ///     None => Change::Keep,
    /// })?;
    /// assert_eq!(db.get(b"names")?, Some(b"ada,bob".to_vec()));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::put`], and those of reading.
    pub fn update(
        &self,
        key: &[u8],
        options: WriteOptions,
        decide: impl FnOnce(Option<&[u8]>) -> Change<Vec<u8>>,
    ) -> Result<()> {
        let inner = self.inner();
        // How large the new value is nobody knows yet.
        inner.admit(RECORD_BYTES + key.len())?;
        let hash = hash(key);
        let held = inner.write_path.key_locks.lock(hash);
        let mut decide = Some(decide);
        let mut change = Change::Keep;
        let mut visit = |value: Option<&[u8]>| {
            if let Some(decide) = decide.take() {
                change = without_ranks(|| decide(value));
            }
        };
        let found =
            inner.get(key, hash, None, ReadOptions::default(), |value| visit(Some(value)))?;
        if found.is_none() {
            visit(None);
        }
        let end = match &change {
            Change::Keep => return Ok(()),
            Change::Put(value) => inner.log_one(Write { kind: Kind::Put, key, value }, hash)?,
            Change::Remove => inner.log_one(Write { kind: Kind::Delete, key, value: &[] }, hash)?,
        };
        drop(held);
        inner.sync_if_asked(end, options)
    }
}

impl Inner {
    /// Lets a writer of so many bytes in, when the store takes writes and the background keeps up.
    #[inline]
    pub(super) fn admit(&self, bytes: usize) -> Result<()> {
        if self.write_path.controller.admit(bytes as u64, || self.pace()) {
            self.check_background_error()?;
            Counters::add(&self.counters.waits, 1);
        }
        self.check_poison()
    }

    pub(super) fn write_one(&self, write: Write<'_>, options: WriteOptions) -> Result<()> {
        self.admit(RECORD_BYTES + write.key.len() + write.value.len())?;
        let hash = hash(write.key);
        let held = self.write_path.key_locks.lock(hash);
        let end = self.log_one(write, hash)?;
        drop(held);
        self.sync_if_asked(end, options)
    }

    /// One write, as a batch of one. The lock of its key is held.
    pub(super) fn log_one(&self, write: Write<'_>, hash: u64) -> Result<u64> {
        let (mut head, mut middle) = ([0; 12], [0; 10]);
        (head[0], head[1]) = (1, write.kind as u8);
        let head_len = 2 + varint_into(&mut head[2..], write.key.len() as u64);
        let middle_len = match write.kind {
            Kind::Delete => 0,
            _ => varint_into(&mut middle, write.value.len() as u64),
        };
        let parts = [&head[..head_len], write.key, &middle[..middle_len], write.value];
        let size = size_of(std::iter::once(write), &self.options.comparator);
        self.append(Record { parts: &parts, size, writes: std::iter::once((write, hash)) })
    }

    fn write_batch(&self, batch: &Batch, options: WriteOptions) -> Result<()> {
        if batch.is_empty() {
            self.check_poison()?;
            return self.sync_if_asked(self.write_path.log.published(), options);
        }
        self.use_kinds(batch)?;
        self.admit(RECORD_BYTES + batch.entries().len())?;
        let held = if batch.has_ranges() {
            self.write_path.key_locks.lock_every()
        } else {
            self.write_path.key_locks.lock_all(batch.writes().map(|write| hash(write.key)))
        };
        let end = self.log_batch(batch)?;
        drop(held);
        self.sync_if_asked(end, options)
    }

    /// A batch whose locks are held.
    pub(super) fn log_batch(&self, batch: &Batch) -> Result<u64> {
        let head = batch.head();
        let size = size_of(batch.writes(), &self.options.comparator);
        let writes = batch.writes().map(|write| (write, hash(write.key)));
        self.append(Record { parts: &[&head, batch.entries()], size, writes })
    }

    /// Waits for the disk, if that was asked for.
    pub(super) fn sync_if_asked(&self, end: u64, options: WriteOptions) -> Result<()> {
        if options.sync && self.options.durability == Durability::None {
            // Without a log, tables are all that lasts. A failure is final, whichever: the write
            // can be seen, and must not count as refused.
            return flush_all(self).or_else(|error| {
                self.poison(&error);
                self.check_poison()
            });
        }
        if options.sync || self.options.durability == Durability::Sync {
            self.write_path.log.sync(end).map_err(|error| {
                let error = Error::from(error);
                self.poison(&error);
                error
            })?;
            self.feeds.synced();
        }
        Ok(())
    }
}
