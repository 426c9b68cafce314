//! The iterator of a caller: the newest visible value of each key.
//!
//! ```text
//!   internal   a@9 put  a@4 put  b@7 delete  b@2 put  c@12 put  c@3 put       visible up to 10
//!   user       a@9                                               c@3
//! ```
//!
//! The merged cursor stands on the entry that is shown, so key and value are lent from where they
//! are, and nothing is copied. Upward the versions of a key that come after the one that is shown
//! are passed: the merged cursor knows of each entry whether it repeats the user key before.
//! Downward the newest visible version of a key comes last. Mostly it is certain that nothing newer
//! of its key is before it. Otherwise it is copied while the older ones pass, and the cursor stands
//! before the key.
//!
//! Operands are put together with the value below them when the iterator comes to their key: upward
//! the cursor goes over them, downward they come before the key is left.
//!
//! A value that is in a blob file is read when the iterator comes to stand on its key. One that
//! expires is copied then, without its expiry, if it has not expired at the time of the iterator.
//!
//! What a range tombstone hides is passed over one by one at first; after a few the cursors below
//! the tombstone skip the rest of it at once, which costs as much as a few steps.

use super::{Bounds, Merge, VisibleTombstones};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::expiry;
use crate::key::{Comparator, Kind, Parsed, SEQUENCE_MAX, append, parse, user_of};
use crate::merge::Merges;
use crate::read_state::ReadState;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// Entries hidden one behind the other from which on the rest is skipped, and as many again.
const HIDDEN_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nowhere.
    Out,
    /// At the merged cursor's entry.
    Lent,
    /// At the copied entry; the merged cursor is before all of its versions.
    Copied,
    /// At an entry that was put together from several; the merged cursor is at one of them, or
    /// behind them.
    Folded,
}

/// What the cursors read from, and the merge operator, whose references count iterators.
pub(crate) type Kept = (Arc<ReadState>, Arc<Merges>);

/// An iterator over the keys of a store, in both directions, as they were when it was made. It
/// starts nowhere.
///
/// It keeps what it reads on disk and in memory, so it should not live long.
pub struct Iter {
    merge: Merge,
    tombstones: Option<VisibleTombstones>,
    order: Comparator,
    sequence: u64,
    /// What has expired by this time is not shown.
    time_ms: u64,
    /// Steps pass no key outside of these.
    bounds: Bounds,
    state: State,
    /// The copied entry; or the key of one that is hidden.
    key: Vec<u8>,
    value: Vec<u8>,
    /// Where the value begins in `value`: before it there is the rest of its record.
    value_at: usize,
    /// Whether the value of the merged cursor's entry is not all of what is stored there, and was
    /// read into `value`: it is in a blob file, or expires.
    is_apart: bool,
    /// Whether the checksums of such values are computed.
    verifies: bool,
    /// Whether values that are in blob files are left there.
    leaves_values: bool,
    seek: Vec<u8>,
    /// Operands that are to be put together.
    operands: Vec<Vec<u8>>,
    keeps: Kept,
}

impl Iter {
    pub(crate) fn new(
        merge: Merge,
        tombstones: Option<VisibleTombstones>,
        (order, bounds): (Comparator, Bounds),
        (sequence, time_ms, verifies): (u64, u64, bool),
        keeps: Kept,
    ) -> Self {
        Iter {
            merge,
            tombstones,
            order,
            sequence,
            time_ms,
            bounds,
            state: State::Out,
            key: Vec::new(),
            value: Vec::new(),
            value_at: 0,
            is_apart: false,
            verifies,
            leaves_values: false,
            seek: Vec::new(),
            operands: Vec::new(),
            keeps,
        }
    }

    /// Whether it stands on a key.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut iter = db.iter()?;
    /// assert!(!iter.is_valid());
    /// iter.seek_first()?;
    /// assert!(iter.is_valid());
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.state != State::Out
    }

    /// Key and value here; `None` if it stands nowhere.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut iter = db.iter()?;
    /// assert_eq!(iter.entry(), None);
    /// iter.seek_first()?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        match self.state {
            State::Out => None,
            State::Lent => self.merge.entry().map(|(key, value)| {
                (user_of(key), if self.is_apart { &self.value[self.value_at..] } else { value })
            }),
            State::Copied | State::Folded => Some((&self.key, &self.value[self.value_at..])),
        }
    }

    /// Goes to the first key.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut iter = db.iter()?;
    /// iter.seek_first()?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// A table cannot be read, or is damaged; the iterator is nowhere then. So for all moves.
    pub fn seek_first(&mut self) -> Result<()> {
        self.state = State::Out;
        self.merge.seek_first()?;
        self.find_visible_up(false)
    }

    /// Goes to the last key.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut iter = db.iter()?;
    /// iter.seek_last()?;
    /// assert_eq!(iter.entry(), Some((&b"b"[..], &b"2"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Iter::seek_first`].
    pub fn seek_last(&mut self) -> Result<()> {
        self.state = State::Out;
        self.merge.seek_last()?;
        self.find_visible_down()
    }

    /// Goes to the first key that is not before `target`.
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
    /// As for [`Iter::seek_first`].
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.state = State::Out;
        self.seek_internal(target, self.sequence, Kind::LAST)?;
        self.find_visible_up(false)
    }

    /// Goes to the last key that is not behind `target`.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut iter = db.iter()?;
    /// iter.seek_back(b"aa")?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Iter::seek_first`].
    pub fn seek_back(&mut self, target: &[u8]) -> Result<()> {
        self.state = State::Out;
        // Behind all versions of the key.
        self.seek.clear();
        append(&mut self.seek, target, 0, Kind::Delete);
        self.merge.seek_before(&self.seek)?;
        self.find_visible_down()
    }

    /// Goes to the first key within the bounds.
    ///
    /// # Errors
    /// As for [`Iter::seek_first`].
    pub(crate) fn seek_low(&mut self) -> Result<()> {
        let Iter { merge, bounds, seek, .. } = self;
        self.state = State::Out;
        seek.clear();
        match &bounds.low {
            Bound::Unbounded => merge.seek_first()?,
            Bound::Included(low) => {
                append(seek, low, self.sequence, Kind::LAST);
                merge.seek(seek)?;
            }
            Bound::Excluded(low) => {
                // Behind all versions of the key.
                append(seek, low, 0, Kind::Delete);
                merge.seek(seek)?;
            }
        }
        self.find_visible_up(false)
    }

    /// Goes to the last key within the bounds.
    ///
    /// # Errors
    /// As for [`Iter::seek_first`].
    pub(crate) fn seek_high(&mut self) -> Result<()> {
        let Iter { merge, bounds, seek, .. } = self;
        self.state = State::Out;
        seek.clear();
        match &bounds.high {
            Bound::Unbounded => merge.seek_last()?,
            Bound::Included(high) => {
                append(seek, high, 0, Kind::Delete);
                merge.seek_before(seek)?;
            }
            Bound::Excluded(high) => {
                // Before all versions of the key.
                append(seek, high, SEQUENCE_MAX, Kind::LAST);
                merge.seek_before(seek)?;
            }
        }
        self.find_visible_down()
    }

    /// The bounds of what lies before the key here.
    pub(crate) fn bounds_before(&self) -> Bounds {
        Bounds { low: self.bounds.low.clone(), high: Bound::Excluded(self.here().to_vec()) }
    }

    /// The bounds of what lies behind the key here.
    pub(crate) fn bounds_behind(&self) -> Bounds {
        Bounds { low: Bound::Excluded(self.here().to_vec()), high: self.bounds.high.clone() }
    }

    fn here(&self) -> &[u8] {
        self.entry().expect("the iterator stands on a key").0
    }

    /// From now on steps back end behind `key`.
    pub(crate) fn set_low(&mut self, key: &[u8]) {
        exclude(&mut self.bounds.low, key);
    }

    /// From now on steps forward end before `key`.
    pub(crate) fn set_high(&mut self, key: &[u8]) {
        exclude(&mut self.bounds.high, key);
    }

    /// From now on values that are in blob files are not read, and not shown.
    pub(crate) fn leave_values(&mut self) {
        self.leaves_values = true;
    }

    fn seek_internal(&mut self, user: &[u8], sequence: u64, kind: Kind) -> Result<()> {
        self.seek.clear();
        append(&mut self.seek, user, sequence, kind);
        self.merge.seek(&self.seek)
    }

    /// Goes one key on; nowhere behind the last. Nothing happens nowhere.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut iter = db.iter()?;
    /// iter.seek_first()?;
    /// let mut keys = 0;
    /// while iter.is_valid() {
    ///     keys += 1;
    ///     iter.next()?;
    /// }
    /// assert_eq!(keys, 2);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Iter::seek_first`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a step can fail, and lends what it shows: no iterator can"
    )]
    pub fn next(&mut self) -> Result<()> {
        let is_passed = match self.state {
            State::Out => return Ok(()),
            State::Lent => {
                self.state = State::Out;
                self.merge.next()?;
                self.merge.repeats()
            }
            State::Copied => {
                // To the first version of the key that was shown; older ones are passed.
                self.state = State::Out;
                let key = std::mem::take(&mut self.key);
                let placed = self.seek_internal(&key, SEQUENCE_MAX, Kind::LAST);
                self.key = key;
                placed?;
                true
            }
            State::Folded => {
                self.state = State::Out;
                self.merge.key().is_some_and(|key| user_of(key) == self.key)
            }
        };
        self.find_visible_up(is_passed)
    }

    /// Goes one key back; nowhere before the first. Nothing happens nowhere.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"b", b"2")?;
    /// let mut iter = db.iter()?;
    /// iter.seek_last()?;
    /// iter.prev()?;
    /// assert_eq!(iter.entry(), Some((&b"a"[..], &b"1"[..])));
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Iter::seek_first`].
    pub fn prev(&mut self) -> Result<()> {
        match self.state {
            State::Out => return Ok(()),
            State::Copied => {}
            State::Folded => {
                self.state = State::Out;
                self.seek.clear();
                append(&mut self.seek, &self.key, SEQUENCE_MAX, Kind::LAST);
                self.merge.seek_before(&self.seek)?;
            }
            // What is before it of the same key is too new to be visible.
            State::Lent => {
                self.state = State::Out;
                self.merge.prev()?;
            }
        }
        self.find_visible_down()
    }

    /// From the merged cursor's entry on to the first that is shown. `is_passed` says that this and
    /// further entries of the same key are not.
    fn find_visible_up(&mut self, mut is_passed: bool) -> Result<()> {
        let mut hidden = 0;
        while let Some(key) = self.merge.key() {
            let entry = parse(key).ok_or_else(unknown_kind)?;
            if !is_passed && self.bounds.end_before(entry.user, &self.order) {
                break;
            }
            let mut is_hidden = false;
            if entry.sequence <= self.sequence && !is_passed {
                is_hidden = is_deleted(&mut self.tombstones, entry);
                if entry.kind == Kind::Put && !is_hidden {
                    self.is_apart = false;
                    self.state = State::Lent;
                    return Ok(());
                }
                if entry.kind == Kind::Merge && !is_hidden {
                    return self.fold_up();
                }
                if entry.kind.is_value() && !is_hidden {
                    if self.read_apart()? {
                        self.state = State::Lent;
                        return Ok(());
                    }
                    self.merge.next()?;
                    is_passed = self.merge.repeats();
                    continue;
                }
                is_passed = true;
            }
            if is_hidden {
                hidden += 1;
                self.key.clear();
                self.key.extend_from_slice(entry.user);
            }
            self.merge.next()?;
            is_passed &= self.merge.repeats();
            if is_hidden && hidden % HIDDEN_MAX == 0 {
                self.skip(true)?;
                is_passed &= self.merge.repeats();
            }
        }
        Ok(())
    }

    /// From the merged cursor's entry back to the first key that is shown.
    fn find_visible_down(&mut self) -> Result<()> {
        self.state = State::Out;
        self.operands.clear();
        // Whether `key` and `value` hold the newest visible version met so far of the key here, and
        // the sequence number of that version if its value is in a blob file.
        let (mut shown, mut apart) = (false, None);
        let mut hidden = 0;
        while let Some(key) = self.merge.key() {
            let entry = parse(key).ok_or_else(unknown_kind)?;
            let is_found = shown || !self.operands.is_empty();
            if is_found && self.order.user(entry.user, &self.key) != Ordering::Equal {
                break;
            }
            if !is_found && self.bounds.begin_behind(entry.user, &self.order) {
                break;
            }
            let mut is_hidden = false;
            if entry.sequence <= self.sequence {
                is_hidden = is_deleted(&mut self.tombstones, entry);
                if entry.kind == Kind::Merge && !is_hidden {
                    self.gather_down()?;
                    continue;
                }
                self.operands.clear();
                shown = entry.kind.is_value() && !is_hidden;
                let expires = entry.kind == Kind::PutExpiring;
                if shown && expires {
                    shown = is_alive(&self.merge, self.time_ms)?;
                }
                let is_apart = shown && entry.kind == Kind::Blob && !self.leaves_values;
                apart = is_apart.then_some(entry.sequence);
                if shown && !self.merge.may_repeat_before() {
                    self.is_apart = is_apart || expires;
                    if self.is_apart {
                        self.read_apart()?;
                    }
                    self.state = State::Lent;
                    return Ok(());
                }
                if shown || is_hidden {
                    self.key.clear();
                    self.key.extend_from_slice(entry.user);
                }
                if let Some((_, value)) = self.merge.entry().filter(|_| shown) {
                    let value = if expires { expiring(value)?.1 } else { value };
                    self.value.clear();
                    self.value.extend_from_slice(value);
                    self.value_at = 0;
                }
            }
            self.merge.prev()?;
            if is_hidden {
                hidden += 1;
                if hidden % HIDDEN_MAX == 0 {
                    self.skip(false)?;
                }
            }
        }
        self.show_copied(shown, apart)
    }

    /// Shows the key that the merged cursor has left, if it has a value or operands. The value is
    /// in `value` if `shown`, or its place in a blob file, if it has the sequence number `apart`.
    fn show_copied(&mut self, shown: bool, apart: Option<u64>) -> Result<()> {
        if let Some(sequence) = apart {
            let index = self.value.clone();
            let (blobs, key) = (&self.keeps.0.blobs, (&*self.key, sequence));
            let bytes = blobs.value(&index, key, self.verifies, &mut self.value)?.len();
            self.value_at = self.value.len() - bytes;
        }
        if !self.operands.is_empty() {
            self.fold(shown)?;
        } else if !shown {
            return Ok(());
        }
        self.state = State::Copied;
        Ok(())
    }

    /// Takes the operand that the merged cursor is at, and goes on to what is newer.
    #[cold]
    #[inline(never)]
    fn gather_down(&mut self) -> Result<()> {
        let (key, operand) = self.merge.entry().expect("the merged cursor stands at an entry");
        self.key.clear();
        self.key.extend_from_slice(user_of(key));
        self.operands.push(operand.to_vec());
        self.merge.prev()
    }

    /// Puts the operands, the oldest first, on top of the value in `value`, if there is one.
    fn fold(&mut self, has_value: bool) -> Result<()> {
        if self.leaves_values {
            self.value_at = self.value.len();
            return Ok(());
        }
        let below = has_value.then(|| &self.value[self.value_at..]);
        let operands: Vec<&[u8]> = self.operands.iter().map(Vec::as_slice).collect();
        let value = self.keeps.1.merge(&self.key, below, &operands)?;
        (self.value, self.value_at) = (value, 0);
        Ok(())
    }

    /// The merged cursor is at the newest visible entry of a key, which is an operand: puts it
    /// together with what is below it.
    #[cold]
    #[inline(never)]
    fn fold_up(&mut self) -> Result<()> {
        self.operands.clear();
        self.key.clear();
        let mut has_value = false;
        while let Some((key, stored)) = self.merge.entry() {
            let entry = parse(key).ok_or_else(unknown_kind)?;
            if self.operands.is_empty() {
                self.key.extend_from_slice(entry.user);
            }
            if entry.user != self.key || is_deleted(&mut self.tombstones, entry) {
                break;
            }
            match entry.kind {
                Kind::Merge => self.operands.push(stored.to_vec()),
                Kind::Delete | Kind::DeleteRange => break,
                Kind::Put => {
                    self.value.clear();
                    self.value.extend_from_slice(stored);
                    (self.value_at, has_value) = (0, true);
                    break;
                }
                Kind::Blob | Kind::PutExpiring => {
                    has_value = self.read_apart()?;
                    break;
                }
            }
            self.merge.next()?;
        }
        self.operands.reverse();
        self.fold(has_value)?;
        self.state = State::Folded;
        Ok(())
    }

    /// Reads the value of the merged cursor's entry, which is in a blob file or expires. `false` if
    /// it has expired.
    #[inline(never)]
    fn read_apart(&mut self) -> Result<bool> {
        let Iter { merge, keeps, value, .. } = self;
        let (key, stored) = merge.entry().expect("the merged cursor stands at an entry");
        let entry = parse(key).ok_or_else(unknown_kind)?;
        if entry.kind == Kind::PutExpiring {
            let (expires_ms, own) = expiring(stored)?;
            value.clear();
            value.extend_from_slice(own);
            (self.value_at, self.is_apart) = (0, true);
            return Ok(expires_ms > self.time_ms);
        }
        self.is_apart = !self.leaves_values;
        if self.is_apart {
            let key = (entry.user, entry.sequence);
            let bytes = keeps.0.blobs.value(stored, key, self.verifies, value)?.len();
            self.value_at = value.len() - bytes;
        }
        Ok(true)
    }

    /// The cursors below the tombstones of the key in `key` pass over what these remove.
    fn skip(&mut self, is_upward: bool) -> Result<()> {
        // No range is removed.
        let Some(tombstones) = &self.tombstones else { return Ok(()) };
        for (first, bound) in tombstones.skips(&self.key, is_upward) {
            self.seek.clear();
            append(&mut self.seek, bound, SEQUENCE_MAX, Kind::LAST);
            if is_upward {
                self.merge.skip_up(first, &self.seek)?;
            } else {
                self.merge.skip_down(first, &self.seek)?;
            }
        }
        Ok(())
    }
}

/// Makes `key` a bound that is not within, in the memory of the bound before.
fn exclude(bound: &mut Bound<Vec<u8>>, key: &[u8]) {
    let mut kept = match std::mem::replace(bound, Bound::Unbounded) {
        Bound::Included(kept) | Bound::Excluded(kept) => kept,
        Bound::Unbounded => Vec::new(),
    };
    kept.clear();
    kept.extend_from_slice(key);
    *bound = Bound::Excluded(kept);
}

/// Whether a range tombstone hides an entry.
#[inline]
fn is_deleted(tombstones: &mut Option<VisibleTombstones>, entry: Parsed<'_>) -> bool {
    tombstones
        .as_mut()
        .is_some_and(|tombstones| tombstones.newest(entry.user) > Some(entry.sequence))
}

/// Whether the value of the merged cursor's entry, which expires, has not.
#[inline(never)]
fn is_alive(merge: &Merge, time_ms: u64) -> Result<bool> {
    let (_, stored) = merge.entry().expect("the merged cursor stands at an entry");
    Ok(expiring(stored)?.0 > time_ms)
}

/// Expiry and value of what is stored.
fn expiring(stored: &[u8]) -> Result<(u64, &[u8])> {
    let what = "a value that expires without its expiry";
    expiry::split(stored).ok_or_else(|| Error::corruption(std::path::Path::new("a table"), 0, what))
}

/// Tables check the kinds of their entries, so this is a table that changed under way.
fn unknown_kind() -> Error {
    Error::corruption(std::path::Path::new("a table"), 0, "an entry of an unknown kind")
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter").field("entry", &self.entry()).finish_non_exhaustive()
    }
}
