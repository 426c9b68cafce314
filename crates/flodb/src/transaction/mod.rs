//! Transactions: reads at one moment and writes kept aside, and a commit that checks that nothing
//! of what was read has changed.
//!
//! ```text
//!   begin     pin the visible sequence number S               no lock; cost: see `snapshot`
//!   read      own writes, else the store at S; the key, or the range passed, is kept
//!   write     into a buffer, which is the batch that the log gets
//!   commit    key locks of all keys read and written, every lock if ranges are among them
//!             --> is there a version newer than S of anything that was read?   yes: Conflict
//!             --> the batch, as any other --> locks given back --> sync, if asked for
//! ```
//!
//! This is optimistic concurrency control with backward validation (Kung and Robinson, TODS 1981,
//! section 4) over the versions that the store has anyway.
//!
//! **Serializable.** At the commit, everything that the transaction has read is as it was at S. So
//! it might have run as a whole at that moment: the order of the log is a serial order. A writer
//! between the check and the batch would need a key lock that the commit holds. A transaction
//! without writes is at S in that order, and checks nothing.
//!
//! **The newest version suffices.** The check asks for the newest version of a key alone, and it is
//! there: S is pinned, and flushes and compactions keep, of each key, all versions that are newer
//! than the oldest pinned number, tombstones included. Where they lie does not matter, nor what was
//! dropped below. A range tombstone that covers the key is a version of it.
//!
//! **Snapshot isolation** checks the keys and ranges that were written, and those that
//! `get_for_update` has read. Two transactions that each read what the other writes may both
//! commit (write skew).
//!
//! **Cost** of a commit that reads `r` and writes `w` keys: `r + w` locks, `r` lookups, and a
//! batch. A lookup looks at memtables and tables alone that have anything newer than S: as a rule
//! one slot of the active memtable's hash table, which the read has touched shortly before. A range
//! costs a scan of what these memtables and tables have in it, and all 1,024 locks. A commit with
//! ranges or many keys does most of this before it takes the locks, see `db::commit`.
//!
//! **Row locks** (`row_locks`) are for programs that would rather wait than run again. They hold
//! between transactions that ask for them; all others are kept right by the check.

mod begin;
mod expire;
mod hash_index;
mod iter;
mod merge;
mod own_ranges;
mod range;
mod read_set;
mod row_locks;
mod sets;
mod write_buffer;

#[cfg(test)]
mod tests;

pub(crate) use begin::retried;
pub use begin::{Isolation, TransactionOptions};
pub use iter::TransactionIter;
pub use range::TransactionRange;
pub(crate) use read_set::{KeyRange, ReadSet};
pub(crate) use row_locks::RowLocks;
pub(crate) use write_buffer::WriteBuffer;

use crate::batch::Write;
use crate::checksum::hash;
use crate::db::{Checks, Db, Snapshot};
use crate::error::{Error, Result};
use crate::iterator::Bounds;
use crate::key::Kind;
use crate::table::ReadOptions;
use row_locks::{HeldRows, Refused};
use sets::OwnSets;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use write_buffer::Own;

/// Reads of one moment, and writes that happen together or not at all.
///
/// Reads see the store as it was when the transaction began, and the transaction's own writes.
/// Nobody else sees these before [`Transaction::commit`]. Dropping a transaction forgets them. A
/// transaction belongs to one thread at a time and takes no lock while the program thinks, except
/// for rows of [`Transaction::get_for_update`].
///
/// A transaction keeps what its moment needs from being dropped, so it should not live long.
///
/// ```
/// use keyrack_flodb::{Db, Error, Options};
/// # let dir = std::env::temp_dir().join(format!("keyrack-txn-{}", std::process::id()));
/// let db = Db::open(&dir, Options::default())?;
/// db.put(b"ada", b"10")?;
///
/// let transaction = db.transaction();
/// assert_eq!(transaction.get(b"ada")?.as_deref(), Some(&b"10"[..]));
/// transaction.put(b"ada", b"9")?;
/// transaction.put(b"bob", b"1")?;
/// assert_eq!(db.get(b"bob")?, None);
/// transaction.commit()?;
/// assert_eq!(db.get(b"bob")?.as_deref(), Some(&b"1"[..]));
///
/// // What it has read is changed by somebody else before it commits.
/// let late = db.transaction();
/// late.get(b"ada")?;
/// late.put(b"bob", b"2")?;
/// db.put(b"ada", b"8")?;
/// assert!(matches!(late.commit(), Err(Error::Conflict { key, .. }) if key == b"ada"));
/// # drop(db);
/// # Db::destroy(&keyrack_vfs::RealFs, &dir)?;
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
pub struct Transaction {
    db: Db,
    options: TransactionOptions,
    /// Of one thread at a time, and never borrowed while code of the user runs.
    state: RefCell<State>,
}

struct State {
    snapshot: Snapshot,
    sets: OwnSets,
    rows: HeldRows,
    /// The number of writes at each save point.
    save_points: Vec<usize>,
    /// Iterators and ranges that are in use. They stay at the moment that they were made at.
    iterators: usize,
    /// Whether something was read that no commit checks.
    has_unchecked_reads: bool,
}

impl Transaction {
    fn begin(db: &Db, options: TransactionOptions) -> Self {
        let state = State {
            snapshot: db.snapshot(),
            sets: OwnSets::new(),
            rows: HeldRows::default(),
            save_points: Vec::new(),
            iterators: 0,
            has_unchecked_reads: false,
        };
        Transaction { db: db.clone(), options, state: RefCell::new(state) }
    }

    /// The value of `key`, copied.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"key", b"old")?;
    /// let transaction = db.transaction();
    /// db.put(b"key", b"new")?;
    /// assert_eq!(transaction.get(b"key")?.as_deref(), Some(&b"old"[..]));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A table cannot be read, or is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Lends the value of `key` to `visit`, and gives what that returns.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"key", b"value")?;
    /// let transaction = db.transaction();
    /// assert_eq!(transaction.get_with(b"key", <[u8]>::len)?, Some(5));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn get_with<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.read_with(key, ReadOptions::default(), visit)
    }

    /// As [`Transaction::get_with`], and reads tables as `options` say.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// use keyrack_flodb::ReadOptions;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// assert_eq!(db.transaction().read_with(b"key", once, <[u8]>::len)?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn read_with<R>(
        &self,
        key: &[u8],
        options: ReadOptions,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let hash = hash(key);
        let moment = {
            let mut state = self.state.borrow_mut();
            // Copied: `visit` may write.
            let own = match self.own(&state, key, hash) {
                Own::Unknown => None,
                Own::Deleted => return Ok(None),
                Own::Value(value) => Some(value.to_vec()),
                Own::Operands => {
                    drop(state);
                    return Ok(Some(visit(&self.merged(key, hash, options)?)));
                }
            };
            if let Some(value) = own {
                drop(state);
                return Ok(Some(visit(&value)));
            }
            state.keep_read(self.options.isolation, key, hash);
            let pinned = &state.snapshot.pinned;
            (pinned.sequence(), pinned.time_ms())
        };
        self.db.inner().get_pinned(key, hash, moment, options, visit)
    }

    /// The values of many keys, each given to `visit` with its index, in the order of `keys`.
    /// Faster than one by one: the waits for memory overlap.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put(b"b", b"2")?;
    /// let mut found = Vec::new();
    /// transaction.multi_get(&[b"a", b"b"], |at, value| found.push((at, value.is_some())))?;
    /// assert_eq!(found, [(0, false), (1, true)]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get`]; values before the first failure have been given.
    pub fn multi_get(
        &self,
        keys: &[&[u8]],
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let snapshot = {
            let mut state = self.state.borrow_mut();
            let is_own = |key: &&&[u8]| self.own(&state, key, hash(key)) != Own::Unknown;
            if keys.iter().any(|key| is_own(&key)) {
                None
            } else {
                for key in keys {
                    state.keep_read(self.options.isolation, key, hash(key));
                }
                Some(state.snapshot.clone())
            }
        };
        if let Some(snapshot) = snapshot {
            return self.db.inner().multi_get(Some(&snapshot), keys, visit);
        }
        for (at, key) in keys.iter().enumerate() {
            let found = self.get_with(key, |value| visit(at, Some(value)))?;
            if found.is_none() {
                visit(at, None);
            }
        }
        Ok(())
    }

    /// An iterator over all keys.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"a", b"1")?;
    /// let transaction = db.transaction();
    /// transaction.put(b"b", b"2")?;
    /// transaction.delete(b"a")?;
    /// let mut iter = transaction.iter()?;
    /// iter.seek_first()?;
    /// assert_eq!(iter.entry(), Some((&b"b"[..], &b"2"[..])));
    /// iter.next()?;
    /// assert!(!iter.is_valid());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// It sees the writes that were made before it. O(those), and what [`Db::iter`] costs.
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn iter(&self) -> Result<TransactionIter<'_>> {
        self.iter_with(ReadOptions::default())
    }

    /// As [`Transaction::iter`], and reads tables as `options` say.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// use keyrack_flodb::ReadOptions;
    /// let transaction = db.transaction();
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// let mut iter = transaction.iter_with(once)?;
    /// iter.seek_last()?;
    /// assert!(!iter.is_valid());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn iter_with(&self, options: ReadOptions) -> Result<TransactionIter<'_>> {
        Ok(self.moment(Bounds::default(), options)?.iter())
    }

    /// As [`Transaction::iter_with`], over the keys from `low` on and before `high`; `None` is no
    /// bound. In a serializable transaction, nothing beyond the bounds counts as read.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options, ReadOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"c", b"3")?;
    /// let transaction = db.transaction();
    /// let mut iter = transaction.iter_between(Some(b"a"), Some(b"b"), ReadOptions::default())?;
    /// iter.seek_last()?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// drop(iter);
    /// transaction.put(b"d", b"4")?;
    /// db.put(b"b", b"2")?;
    /// transaction.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::get`].
    pub fn iter_between(
        &self,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        options: ReadOptions,
    ) -> Result<TransactionIter<'_>> {
        Ok(self.moment(Bounds::between(low, high), options)?.iter())
    }

    /// The value of `key`, which no other transaction gets by this call until this one ends. Waits
    /// for a transaction that has it.
    ///
    /// The value is the newest, also where somebody has changed it since the transaction began:
    /// then the transaction moves to this moment, if nothing else that it has seen has changed.
    /// Transactions that only [`get`](Transaction::get) the key, and plain writes, do not wait.
    /// If one of them changes the key, this transaction conflicts.
    ///
    /// Nothing but the end of its owner frees a row: there is no timeout, and an owner that is open
    /// and idle keeps all others waiting, until the store is closed. Two transactions of one thread
    /// that want the same key wait forever. So may a call from the closure of [`Db::update`], whose
    /// key lock the owner's commit may need. A call from a visitor of a read keeps memory from
    /// being freed while it waits. Call it from neither.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// db.put(b"seats", b"7")?;
    /// // In place of a conflict at the commit.
    /// assert_eq!(transaction.get_for_update(b"seats")?.as_deref(), Some(&b"7"[..]));
    /// transaction.put(b"seats", b"6")?;
    /// transaction.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Deadlock`] if the transaction that has the key waits for this one, over others
    /// perhaps. [`Error::Closed`] if the store was closed, also while this waits.
    /// [`Error::Conflict`] if the key has changed and the transaction cannot move, since something
    /// that it has seen has changed as well; always so while one of its iterators or ranges is in
    /// use, or after other reads under snapshot isolation. As for [`Transaction::get`]. After an
    /// error the transaction has the reads and writes that it had before. After a deadlock or a
    /// close it does not have the row; after any other error it has the row until it ends.
    pub fn get_for_update(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (inner, hash) = (self.db.inner(), hash(key));
        // Nobody else has the state while this waits: a transaction belongs to one thread.
        let mut state = self.state.borrow_mut();
        if !state.rows.has(key) {
            let taken = state.rows.take(&inner.row_locks, key);
            taken.map_err(|refused| match refused {
                Refused::Deadlock => Error::Deadlock { key: key.to_vec(), space: None },
                Refused::Closed => Error::Closed,
            })?;
        }
        let since = state.snapshot.pinned.sequence();
        let mut wanted = ReadSet::default();
        wanted.add_key(key, hash);
        if inner.first_change(&Checks::of_reads(&wanted), since)?.is_some() {
            self.move_to_now(&mut state, key)?;
        }
        state.sets.reads.add_key(key, hash);
        let own = match self.own(&state, key, hash) {
            Own::Unknown => None,
            Own::Deleted => Some(None),
            Own::Value(value) => Some(Some(value.to_vec())),
            Own::Operands => {
                drop(state);
                return self.merged(key, hash, ReadOptions::default()).map(Some);
            }
        };
        match own {
            Some(own) => Ok(own),
            None => {
                let (options, snapshot) = (ReadOptions::default(), Some(&state.snapshot));
                inner.get(key, hash, snapshot, options, <[u8]>::to_vec)
            }
        }
    }

    /// Takes the moment of now for that of the transaction, if all that it has seen is as it was.
    /// The clock of the transaction stays where it is.
    fn move_to_now(&self, state: &mut State, key: &[u8]) -> Result<()> {
        let conflict = |key: Vec<u8>| Err(Error::Conflict { key, space: None });
        if state.iterators > 0 || state.has_unchecked_reads {
            return conflict(key.to_vec());
        }
        let now = self.db.snapshot();
        let since = state.snapshot.pinned.sequence();
        let seen = Checks::of(&state.sets.reads, &state.sets.writes, !self.keeps_reads());
        match self.db.inner().first_change_up_to(&seen, since, &now)? {
            Some(changed) => conflict(changed),
            None => {
                let pinned = now.pinned.with_time_of(&state.snapshot.pinned);
                state.snapshot = Snapshot { pinned };
                Ok(())
            }
        }
    }

    /// Stores `value` under `key`, at the commit.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put(b"key", b"value")?;
    /// assert_eq!(transaction.get(b"key")?.as_deref(), Some(&b"value"[..]));
    /// assert_eq!(db.get(b"key")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if the writes of the transaction would be larger than a record of the log
    /// may be; the transaction goes on without this one.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(Write { kind: Kind::Put, key, value })
    }

    /// Removes `key`, whether it is there or not, at the commit.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"key", b"value")?;
    /// let transaction = db.transaction();
    /// transaction.delete(b"key")?;
    /// assert_eq!(transaction.get(b"key")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        self.write(Write { kind: Kind::Delete, key, value: &[] })
    }

    /// Removes the keys from `from` on and before `to`, at the commit: also those that others have
    /// written there meanwhile, where the transaction has not read them. Under snapshot isolation
    /// such writes are a conflict. If `to` is not behind `from`, nothing is removed.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"a", b"1")?;
    /// let transaction = db.transaction();
    /// transaction.put(b"b", b"2")?;
    /// transaction.delete_range(b"a", b"z")?;
    /// assert_eq!(transaction.get(b"b")?, None);
    /// transaction.commit()?;
    /// assert_eq!(db.get(b"a")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::put`].
    pub fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()> {
        if self.db.inner().options.comparator.user(from, to) != Ordering::Less {
            return Ok(());
        }
        self.write(Write { kind: Kind::DeleteRange, key: from, value: to })
    }

    fn write(&self, write: Write<'_>) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let (bytes, most) =
            (state.sets.writes.bytes_with(write.key, write.value), self.db.batch_bytes_max());
        if bytes > most {
            let (kib, most) = (bytes.div_ceil(1024), most / 1024);
            return Err(Error::Usage(format!(
                "writes of {kib} KiB are more than a transaction may have, {most} KiB; use larger \
                 segments, or several transactions"
            )));
        }
        let order = &self.db.inner().options.comparator;
        state.sets.writes.push(write, hash(write.key), order);
        Ok(())
    }

    /// Remembers the writes made so far, to return to them. Save points are a stack.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put(b"kept", b"1")?;
    /// transaction.save_point();
    /// transaction.put(b"given up", b"2")?;
    /// transaction.roll_back_to_save_point()?;
    /// transaction.commit()?;
    /// assert!(db.get(b"kept")?.is_some() && db.get(b"given up")?.is_none());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn save_point(&self) {
        let mut state = self.state.borrow_mut();
        let writes = state.sets.writes.len();
        state.save_points.push(writes);
    }

    /// Forgets the writes made since the last save point, and the save point. What was read since
    /// then is still checked by the commit, and rows stay locked: the program has seen them.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// assert!(transaction.roll_back_to_save_point().is_err());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no save point.
    pub fn roll_back_to_save_point(&self) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let writes = state.save_points.pop().ok_or_else(no_save_point)?;
        state.sets.writes.truncate(writes, &self.db.inner().options.comparator);
        Ok(())
    }

    /// Forgets the last save point, and keeps the writes made since then.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.save_point();
    /// transaction.put(b"key", b"value")?;
    /// transaction.release_save_point()?;
    /// transaction.commit()?;
    /// assert!(db.get(b"key")?.is_some());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no save point.
    pub fn release_save_point(&self) -> Result<()> {
        self.state.borrow_mut().save_points.pop().map(|_| ()).ok_or_else(no_save_point)
    }

    /// How many writes there are; several of one key count as several.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put(b"key", b"value")?;
    /// assert_eq!(transaction.writes(), 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn writes(&self) -> usize {
        self.state.borrow().sets.writes.len()
    }

    /// Applies the writes as one, each after those before it, if nothing has changed that the
    /// [`Isolation`] protects. Without writes, nothing is checked: all reads were of one moment. If
    /// the commit is to be durable, the writes that a transaction has seen are durable afterwards,
    /// also if it has none itself.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put(b"key", b"value")?;
    /// transaction.commit()?;
    /// assert!(db.get(b"key")?.is_some());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`]: nothing is written; run the transaction again, as [`Db::retry`] does.
    /// As for [`Db::put`]; then the writes may or may not be there, all or none of them.
    pub fn commit(self) -> Result<()> {
        let state = self.state.borrow();
        let checks = Checks::of(&state.sets.reads, &state.sets.writes, !self.keeps_reads());
        let since = state.snapshot.pinned.sequence();
        self.db.inner().commit(&checks, since, self.options.write)
    }

    /// Forgets the writes, as dropping the transaction does.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put(b"key", b"value")?;
    /// transaction.roll_back();
    /// assert_eq!(db.get(b"key")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn roll_back(self) {
        drop(self);
    }

    fn own<'s>(&self, state: &'s State, key: &[u8], hash: u64) -> Own<'s> {
        if state.sets.writes.is_empty() {
            return Own::Unknown;
        }
        let time_ms = state.snapshot.pinned.time_ms();
        state.sets.writes.get(key, hash, &self.db.inner().options.comparator, time_ms)
    }

    fn state(&self) -> &RefCell<State> {
        &self.state
    }

    /// Whether commits check what is read.
    fn keeps_reads(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }
}

impl State {
    fn keep_read(&mut self, isolation: Isolation, key: &[u8], hash: u64) {
        match isolation {
            Isolation::Serializable => self.sets.reads.add_key(key, hash),
            Isolation::Snapshot => self.has_unchecked_reads = true,
        }
    }
}

fn no_save_point() -> Error {
    Error::Usage("the transaction has no save point".to_owned())
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.state.get_mut().rows.give_up(&self.db.inner().row_locks);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Transaction");
        if let Ok(state) = self.state.try_borrow() {
            shown.field("writes", &state.sets.writes.len());
        }
        shown.field("options", &self.options).finish_non_exhaustive()
    }
}
