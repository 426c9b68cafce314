//! Reading: the memtables of the read state, newest first, then level 0, then a table a level.
//!
//! A point read takes no lock and allocates nothing: it looks through the read state under a guard,
//! and the value is lent to the caller where it lies. The hash of the key is made once, for the
//! hash levels and all filters.
//!
//! Each memtable and table that a point read comes to is asked for range tombstones: one load,
//! until one has some; then the read begins again, and minds them. What lies below a tombstone of
//! the key is older than it, so the read ends there; what lies beside it is compared by sequence
//! number.
//!
//! **One moment.** A reader needs a sequence number, and a read state that has exactly what was
//! written up to it, and whatever is newer. Every reader gets the two from `Inner::read_point`:
//!
//! - *Nothing is missing.* A write is published after it is in memory, and an ingestion after its
//!   tables are in the read state. So a read state that was in place when the number was read, or
//!   later, has everything up to the number.
//! - *Nothing was dropped.* Flushes and compactions keep what is seen from the oldest pinned number
//!   on, or from the number that was visible when they began. So a read state still has what a
//!   number needs that is pinned, or that was read while the read state was in place.
//! - *What is newer is told apart*, by its sequence number; tables from outside have theirs in the
//!   manifest.
//!
//! So with a snapshot, which pins its number, any read state will do that is loaded afterwards.
//! Without one, the number is read between two looks at the read state, until both find the same:
//! the read state was in place at that moment. A number read after the read state may count writes
//! that came behind an ingestion that the read state does not have; a read state loaded after a
//! number that nobody pins may lack what a compaction has dropped.

use super::stats::ReadCounters;
use super::{Db, Inner, Snapshot};
use crate::checksum::hash;
use crate::error::{Error, Result};
use crate::expiry::{self, Expiry};
use crate::iterator::Iter;
use crate::key::Kind;
use crate::open_table::OpenTable;
use crate::read_state::{Located, ReadState};
use crate::table::ReadOptions;
use crate::version::LEVELS;
use keyrack_concurrent::{Counter, Guard, pin};
use std::cell::Cell;
use std::sync::Arc;

/// A thread that reads blob files keeps so much memory for the next value.
const BUFFER_BYTES_MAX: usize = 256 << 10;

/// After so many reads in a row that no table has answered, none is expected to answer the next.
const OTHERS_MAX: u8 = 4;

thread_local! {
    /// For the value of a blob file, while it is lent.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// Reads of this thread since a table answered one, [`OTHERS_MAX`] at most.
    static OTHERS: Cell<u8> = const { Cell::new(0) };
}

/// Where the key is in the tables that most likely have it. Nowhere if the last reads of the thread
/// were answered by memtables, or found nothing: then this would be work for nothing.
#[inline]
fn locate<'r>(read_state: &'r ReadState, target: &Target<'_>) -> Located<'r> {
    if OTHERS.get() < OTHERS_MAX {
        read_state.locate(target.key, target.hash, target.sequence)
    } else {
        Located::default()
    }
}

#[inline]
fn remember_answer(is_of_table: bool) {
    OTHERS.set(if is_of_table { 0 } else { OTHERS_MAX.min(OTHERS.get() + 1) });
}

impl Db {
    /// The value of `key`, copied.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// assert_eq!(db.get(b"key")?, Some(b"value".to_vec()));
    /// assert_eq!(db.get(b"another")?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A table cannot be read, or is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_with(key, <[u8]>::to_vec)
    }

    /// Lends the value of `key` to `visit`, and gives what that returns. The value is not copied.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// assert_eq!(db.get_with(b"key", |value| value.len())?, Some(5));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn get_with<R>(&self, key: &[u8], visit: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.inner().get(key, hash(key), None, ReadOptions::default(), visit)
    }

    /// Whether `key` is there. Costs what a read of it costs, but reads no blob file.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// db.put(b"key", b"")?;
    /// assert!(db.contains_key(b"key")?);
    /// assert!(!db.contains_key(b"another")?);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        self.inner().contains(key)
    }

    /// As [`Db::get_with`], at the moment of `snapshot`.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let before = db.snapshot();
    /// db.put(b"key", b"value")?;
    /// assert_eq!(db.get_at(&before, b"key", <[u8]>::len)?, None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn get_at<R>(
        &self,
        snapshot: &Snapshot,
        key: &[u8],
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner().get(key, hash(key), Some(snapshot), ReadOptions::default(), visit)
    }

    /// As [`Db::get_with`], as they are now or at the moment of `snapshot`, and reads tables as
    /// `options` say. A read that nobody repeats leaves the cache to others:
    ///
    /// ```
    /// use keyrack_flodb::{Db, Options, ReadOptions};
    /// # let dir = std::env::temp_dir().join(format!("keyrack-read-{}", std::process::id()));
    /// let db = Db::open(&dir, Options::default())?;
    /// db.put(b"key", b"value")?;
    /// db.flush()?;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// let length = db.read_with(None, b"key", once, <[u8]>::len)?;
    /// assert_eq!(length, Some(5));
    /// # drop(db);
    /// # Db::destroy(&keyrack_vfs::RealFs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn read_with<R>(
        &self,
        snapshot: Option<&Snapshot>,
        key: &[u8],
        options: ReadOptions,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.inner().get(key, hash(key), snapshot, options, visit)
    }

    /// An iterator over all keys, as they are now.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut iter = db.iter()?;
    /// iter.seek(b"aa")?;
    /// assert_eq!(iter.entry(), Some((&b"b"[..], &b"2"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn iter(&self) -> Result<Iter> {
        self.inner().iter(None, ReadOptions::default())
    }

    /// An iterator over all keys, as they are now or at the moment of `snapshot`, that reads tables
    /// as `options` say. A scan over much that is needed once leaves the cache to others:
    ///
    /// ```
    /// use keyrack_flodb::{Db, Options, ReadOptions};
    /// # let dir = std::env::temp_dir().join(format!("keyrack-iter-{}", std::process::id()));
    /// let db = Db::open(&dir, Options::default())?;
    /// db.put(b"key", b"value")?;
    /// db.flush()?;
    /// let once = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    /// let mut iter = db.iter_with(None, once)?;
    /// iter.seek_first()?;
    /// assert_eq!(iter.entry(), Some((&b"key"[..], &b"value"[..])));
    /// # drop((iter, db));
    /// # Db::destroy(&keyrack_vfs::RealFs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn iter_with(&self, snapshot: Option<&Snapshot>, options: ReadOptions) -> Result<Iter> {
        self.inner().iter(snapshot, options)
    }

    /// An iterator over all keys, as they were at the moment of `snapshot`.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// let before = db.snapshot();
    /// db.put(b"a", b"1")?;
    /// let mut iter = db.iter_at(&before)?;
    /// iter.seek_first()?;
    /// assert!(!iter.is_valid());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::get`].
    pub fn iter_at(&self, snapshot: &Snapshot) -> Result<Iter> {
        self.inner().iter(Some(snapshot), ReadOptions::default())
    }

    /// About how many bytes of tables and blob files hold the keys with `low <= key < high`.
    /// O(tables).
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"key", b"value")?;
    /// db.flush()?;
    /// let bytes = db.approximate_size(b"a", b"z");
    /// # assert!(bytes < 1 << 20);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn approximate_size(&self, low: &[u8], high: &[u8]) -> u64 {
        let inner = self.inner();
        let read_state = inner.read_state();
        let offset = |user: &[u8]| -> u64 {
            let mut target = Vec::new();
            crate::key::append(&mut target, user, crate::key::SEQUENCE_MAX, Kind::LAST);
            let tables = read_state.levels.iter().flat_map(|tables| tables.iter());
            let before = |table: &Arc<OpenTable>| {
                let (offset, file) = (table.table().approximate_offset(&target), table.file());
                // As if the values in blob files were spread evenly.
                let apart: u64 = file.blobs.iter().map(|share| share.bytes).sum();
                let apart = u128::from(apart) * u128::from(offset) / u128::from(file.bytes.max(1));
                offset.saturating_add(u64::try_from(apart).unwrap_or(u64::MAX))
            };
            tables.map(before).fold(0, u64::saturating_add)
        };
        offset(high).saturating_sub(offset(low))
    }
}

/// What a reader sees: everything up to a sequence number.
#[derive(Clone, Copy)]
pub(crate) struct ReadPoint<'a> {
    /// Has all of that, and perhaps what is newer.
    pub(crate) read_state: &'a Arc<ReadState>,
    pub(crate) sequence: u64,
}

impl ReadPoint<'_> {
    /// The same without a guard.
    pub(super) fn to_keep(self) -> (Arc<ReadState>, u64) {
        (Arc::clone(self.read_state), self.sequence)
    }
}

/// What a point read looks for.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) key: &'a [u8],
    pub(super) hash: u64,
    pub(super) sequence: u64,
    pub(super) options: ReadOptions,
    /// Whether a value that is in a blob file is left there, and an empty one shown for it.
    pub(super) leaves_value: bool,
    /// What is asked about expiries. Without, the clock is read when a value is found that expires.
    pub(super) expiry: Option<&'a ExpiryQuestion>,
}

/// What a point read asks a value that expires. Apart from the target, and only where there is a
/// question: most reads have none, and a larger target costs each of them.
pub(super) struct ExpiryQuestion {
    /// What has expired by this time is not there; nothing for the time of the clock.
    time_ms: Option<u64>,
    /// The answer: when the value expires, if it does.
    expires_ms: Cell<Option<u64>>,
}

impl ExpiryQuestion {
    pub(super) fn new(time_ms: Option<u64>) -> Self {
        ExpiryQuestion { time_ms, expires_ms: Cell::new(None) }
    }

    pub(super) fn expires_ms(&self) -> Option<u64> {
        self.expires_ms.get()
    }
}

impl<'a> Target<'a> {
    /// The value of a key at a sequence number, if it has not expired by now.
    #[inline]
    pub(super) fn new((key, hash): (&'a [u8], u64), sequence: u64, options: ReadOptions) -> Self {
        Target { key, hash, sequence, options, leaves_value: false, expiry: None }
    }

    /// Whether an operand is enough to know. The expiry is that of the value below it.
    fn leaves_operands(&self) -> bool {
        self.leaves_value && self.expiry.is_none()
    }
}

/// What comes of a search.
enum Search<R, F> {
    Done(Option<R>),
    /// Ranges have to be minded; nothing was visited.
    RangeTombstones(Option<F>),
    /// The newest entry is an operand; nothing was visited.
    Operands(Option<F>),
}

impl<R, F> Search<R, F> {
    /// What comes of an entry that was shown.
    #[inline]
    fn of(answer: Option<R>, is_operand: bool, visit: Option<F>) -> Self {
        if answer.is_none() && is_operand { Search::Operands(visit) } else { Search::Done(answer) }
    }
}

/// Reads the value of a blob file that has the blob index `index`, and lends it to `visit`.
#[cold]
#[inline(never)]
pub(super) fn visit_blob<R>(
    read_state: &ReadState,
    index: &[u8],
    key: (&[u8], u64),
    verify: bool,
    visit: Option<impl FnOnce(&[u8]) -> R>,
) -> Result<Option<R>> {
    // Whoever is visited may read, too, and then with another buffer.
    let mut buffer = BUFFER.take();
    let value = read_state.blobs.value(index, key, verify, &mut buffer)?;
    let answer = visit.map(|visit| visit(value));
    if buffer.capacity() <= BUFFER_BYTES_MAX {
        BUFFER.set(buffer);
    }
    Ok(answer)
}

impl Inner {
    /// The moment of a snapshot, or this one, and a read state of it; see the header.
    #[inline]
    pub(crate) fn read_point<'g>(
        &'g self,
        guard: &'g Guard,
        snapshot: Option<&Snapshot>,
    ) -> ReadPoint<'g> {
        if let Some(snapshot) = snapshot {
            // Pinned until this returns, and from then on the read state keeps what it has.
            let sequence = snapshot.pinned.sequence();
            return ReadPoint { read_state: self.read_path.load(guard), sequence };
        }
        let mut read_state = self.read_path.load(guard);
        loop {
            let sequence = self.visible();
            let now = self.read_path.load(guard);
            // Under the guard, no other read state can come to lie at the same place.
            if std::ptr::eq(read_state, now) {
                return ReadPoint { read_state, sequence };
            }
            read_state = now;
        }
    }

    /// The newest visible value of `key`, lent to `visit`.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        key: &[u8],
        hash: u64,
        snapshot: Option<&Snapshot>,
        options: ReadOptions,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let guard = pin();
        let ReadPoint { read_state, sequence } = self.read_point(&guard, snapshot);
        let question =
            snapshot.map(|snapshot| ExpiryQuestion::new(Some(snapshot.pinned.time_ms())));
        let target = Target::new((key, hash), sequence, options);
        self.get_in(read_state, &Target { expiry: question.as_ref(), ..target }, visit)
    }

    /// The expiry of the visible value of `key`, with `visit` called with the value if
    /// `leaves_value` is not set. At `moment`, a sequence number and a time that somebody has
    /// pinned; without one, now.
    pub(crate) fn get_with_expiry<R>(
        &self,
        (key, hash): (&[u8], u64),
        moment: Option<(u64, u64)>,
        leaves_value: bool,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<(Expiry, R)>> {
        let guard = pin();
        let (read_state, sequence) = match moment {
            Some((sequence, _)) => (self.read_path.load(&guard), sequence),
            None => {
                let ReadPoint { read_state, sequence } = self.read_point(&guard, None);
                (read_state, sequence)
            }
        };
        let question = ExpiryQuestion::new(moment.map(|(_, time_ms)| time_ms));
        let target = Target {
            leaves_value,
            expiry: Some(&question),
            ..Target::new((key, hash), sequence, ReadOptions::default())
        };
        let found = self.get_in(read_state, &target, visit)?;
        let expiry = question.expires_ms().map_or(Expiry::Never, Expiry::At);
        Ok(found.map(|found| (expiry, found)))
    }

    /// Whether `key` has a visible value.
    fn contains(&self, key: &[u8]) -> Result<bool> {
        let guard = pin();
        let ReadPoint { read_state, sequence } = self.read_point(&guard, None);
        let (hash, options) = (hash(key), ReadOptions::default());
        let target = Target { leaves_value: true, ..Target::new((key, hash), sequence, options) };
        Ok(self.get_in(read_state, &target, |_| ())?.is_some())
    }

    /// As [`Inner::get`], at a sequence number and a time that somebody has pinned.
    #[inline]
    pub(crate) fn get_pinned<R>(
        &self,
        key: &[u8],
        hash: u64,
        (sequence, time_ms): (u64, u64),
        options: ReadOptions,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let guard = pin();
        let question = ExpiryQuestion::new(Some(time_ms));
        let target = Target::new((key, hash), sequence, options);
        let target = Target { expiry: Some(&question), ..target };
        self.get_in(self.read_path.load(&guard), &target, visit)
    }

    /// The value of the target that a read state has.
    #[inline]
    pub(super) fn get_in<R>(
        &self,
        read_state: &ReadState,
        target: &Target<'_>,
        visit: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        match self.search::<_, _, false>(read_state, target, Some(visit))? {
            Search::Done(answer) => Ok(answer),
            Search::RangeTombstones(visit) => {
                self.search_with_tombstones(read_state, target, visit)
            }
            Search::Operands(visit) => self.get_merged(read_state, target, visit),
        }
    }

    /// The same where ranges may have been removed.
    #[inline(never)]
    fn search_with_tombstones<R, F: FnOnce(&[u8]) -> R>(
        &self,
        read_state: &ReadState,
        target: &Target<'_>,
        visit: Option<F>,
    ) -> Result<Option<R>> {
        match self.search::<_, _, true>(read_state, target, visit)? {
            Search::Done(answer) => Ok(answer),
            Search::RangeTombstones(_) => Ok(None),
            Search::Operands(visit) => self.get_merged(read_state, target, visit),
        }
    }

    /// Looks through the read state. Without `RANGES`, it ends at the first memtable or table of
    /// which ranges are removed: so whoever never meets one does not even keep a number for them.
    #[inline]
    fn search<R, F: FnOnce(&[u8]) -> R, const TOMBSTONES: bool>(
        &self,
        read_state: &ReadState,
        target: &Target<'_>,
        mut visit: Option<F>,
    ) -> Result<Search<R, F>> {
        let Target { key, hash, sequence, options, .. } = *target;
        read_state.prefetch(hash, sequence);
        let located = locate(read_state, target);
        let mut is_operand = false;
        let mut show = |floor: u64, kind: Kind, written: u64, value: &[u8]| {
            // What is older than `floor` was removed with a range.
            if written < floor || kind.is_removal() {
                return Ok(None);
            }
            if kind == Kind::Put {
                return Ok(visit.take().map(|visit| visit(value)));
            }
            is_operand = kind == Kind::Merge && !target.leaves_operands();
            self.show_special(read_state, target, (kind, written, value), &mut visit)
        };
        for memtable in read_state.memtables_at(sequence) {
            if !TOMBSTONES && memtable.has_range_tombstones() {
                return Ok(Search::RangeTombstones(visit));
            }
            let floor = if TOMBSTONES { memtable.floor(key, sequence) } else { 0 };
            let found = memtable
                .get(key, hash, sequence, |kind, written, value| show(floor, kind, written, value));
            if found.is_some() || floor > 0 {
                remember_answer(false);
                self.count_read(|reads| {
                    if memtable.has_hash_level() { &reads.hash } else { &reads.ordered }
                });
                return Ok(Search::of(found.transpose()?.flatten(), is_operand, visit));
            }
        }
        let order = &self.options.comparator;
        let of_level0 = read_state.levels[0].iter().filter(|table| table.file().spans(key, order));
        let below = (1..LEVELS).filter_map(|level| {
            let at = read_state.version.find(level, key)?;
            Some(&read_state.levels[level][at])
        });
        for table in of_level0.chain(below) {
            let table = table.table();
            if !TOMBSTONES && table.range_tombstones().is_some() {
                return Ok(Search::RangeTombstones(visit));
            }
            let floor = if TOMBSTONES { table.floor(key, sequence) } else { 0 };
            let located = located.iter().flatten().find(|it| it.is_of(table)).copied();
            let found =
                table.get(key, hash, sequence, &options, located, |kind, written, value| {
                    show(floor, kind, written, value)
                })?;
            if found.is_some() || floor > 0 {
                remember_answer(true);
                self.count_read(|reads| &reads.tables);
                return Ok(Search::of(found.transpose()?.flatten(), is_operand, visit));
            }
        }
        remember_answer(false);
        self.count_read(|reads| &reads.nowhere);
        Ok(Search::Done(None))
    }

    /// Shows the newest entry of the target if that is no plain value: lends its value, if it has
    /// one. An operand has none by itself, but its key is there.
    #[cold]
    #[inline(never)]
    fn show_special<R, F: FnOnce(&[u8]) -> R>(
        &self,
        read_state: &ReadState,
        target: &Target<'_>,
        (kind, written, value): (Kind, u64, &[u8]),
        visit: &mut Option<F>,
    ) -> Result<Option<R>> {
        match kind {
            Kind::Put => Ok(visit.take().map(|visit| visit(value))),
            Kind::Blob if target.leaves_value => Ok(visit.take().map(|visit| visit(&[]))),
            Kind::Merge if target.leaves_operands() => Ok(visit.take().map(|visit| visit(&[]))),
            Kind::Blob => {
                let verify = target.options.verify_checksums;
                visit_blob(read_state, value, (target.key, written), verify, visit.take())
            }
            Kind::PutExpiring => {
                let value = self.unless_expired(target, value)?;
                Ok(value.and_then(|value| Some(visit.take()?(value))))
            }
            Kind::Merge | Kind::Delete | Kind::DeleteRange => Ok(None),
        }
    }

    /// The value of what is stored of one that expires, if it has not.
    #[cold]
    #[inline(never)]
    pub(super) fn unless_expired<'v>(
        &self,
        target: &Target<'_>,
        stored: &'v [u8],
    ) -> Result<Option<&'v [u8]>> {
        let (expires_ms, value) = expiry::split(stored).ok_or_else(|| {
            // Tables and the log check it, so this is memory that changed under way.
            Error::corruption(&self.dir, 0, "a value that expires without its expiry")
        })?;
        let asked = target.expiry.and_then(|question| question.time_ms);
        if expires_ms <= asked.unwrap_or_else(|| self.expiries.now_ms()) {
            return Ok(None);
        }
        if let Some(question) = target.expiry {
            question.expires_ms.set(Some(expires_ms));
        }
        Ok(Some(value))
    }

    /// Counts a point read for the level that answered it, if the options ask for that.
    #[inline]
    pub(super) fn count_read(&self, level: impl FnOnce(&ReadCounters) -> &Counter) {
        if let Some(reads) = &self.counters.reads {
            level(reads).add(1);
        }
    }
}
