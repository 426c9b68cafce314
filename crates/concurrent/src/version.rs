//! The optimistic version lock (a seqlock): one word that is a lock for writers and a sequence
//! counter for readers.
//!
//! ```text
//!  63            32 31                8  7 6    5      4      3        2          1         0
//! +----------------+-------------------+-----+------+------+---------+---------+----------+------+
//! | split counter  |  insert counter   |     |border| root |deleted  |splitting|inserting |locked|
//! +----------------+-------------------+-----+------+------+---------+---------+----------+------+
//!
//!   writer   lock ---- mark ---- change fields ---- unlock, counter + 1
//!   reader        stable -- read fields -- validate: false, read again
//! ```
//!
//! - **Locked** alone does not affect readers: a writer that publishes something new by a single
//!   store needs no mark. **Inserting** and **splitting** do: a reader that meets them waits
//!   ([`VersionLock::stable`]), and a reader that has already begun fails to validate
//!   ([`VersionLock::validate`]).
//! - Unlocking after a mark adds one to its counter, so that a version does not repeat. The insert
//!   counter has 24 bits and carries into the split counter, which has 32. A reader would have to
//!   sleep through 2^56 inserts into one node, or 2^32 splits or incarnations of it, to miss one.
//! - **Deleted** stays until the next incarnation. **Root** and **border** describe the node; the
//!   owner sets them.
//!
//! Orderings. The fields that a version covers are atomics, read and written Relaxed.
//! - Unlock stores Release; `stable` and `lock` load Acquire: a thread that sees the version sees
//!   the fields.
//! - A mark is a Relaxed store and a Release fence before the first field is changed; `validate` is
//!   an Acquire fence and a Relaxed load after the last field was read. If a read field came from
//!   after the mark, the fences pair, and the load sees the mark or something later.

use crate::Backoff;
use crate::sync::{AtomicU64, Ordering, fence};
use std::fmt;

const LOCKED: u64 = 1;
const INSERTING: u64 = 1 << 1;
const SPLITTING: u64 = 1 << 2;
const DELETED: u64 = 1 << 3;
const ROOT: u64 = 1 << 4;
const BORDER: u64 = 1 << 5;
const INSERT_ONE: u64 = 1 << 8;
const SPLIT_ONE: u64 = 1 << 32;
const DIRTY: u64 = INSERTING | SPLITTING;

/// The value of a [`VersionLock`] at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    /// Whether a writer holds the lock.
    #[must_use]
    pub fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    /// Whether a writer is changing fields that readers may read.
    #[must_use]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Whether the node is no longer part of its structure.
    #[must_use]
    pub fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    /// Whether the node is the root of its tree.
    #[must_use]
    pub fn is_root(self) -> bool {
        self.0 & ROOT != 0
    }

    /// Whether the node is a border node.
    #[must_use]
    pub fn is_border(self) -> bool {
        self.0 & BORDER != 0
    }

    /// Whether `later` differs in more than the lock.
    #[must_use]
    pub fn changed(self, later: Version) -> bool {
        (self.0 ^ later.0) & !LOCKED != 0
    }

    /// Whether the node was split, deleted, or ceased to be the root before `later`, or is about
    /// to: then a key may have moved elsewhere.
    #[must_use]
    pub fn split_since(self, later: Version) -> bool {
        let moved = SPLITTING | DELETED | ROOT | !(SPLIT_ONE - 1);
        (self.0 ^ later.0) & moved != 0
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            (LOCKED, " locked"),
            (INSERTING, " inserting"),
            (SPLITTING, " splitting"),
            (DELETED, " deleted"),
            (ROOT, " root"),
            (BORDER, " border"),
        ];
        let inserts = (self.0 % SPLIT_ONE) / INSERT_ONE;
        write!(f, "inserts {inserts} splits {}", self.0 / SPLIT_ONE)?;
        flags
            .iter()
            .filter(|(bit, _)| self.0 & bit != 0)
            .try_for_each(|(_, name)| f.write_str(name))
    }
}

/// The word.
pub struct VersionLock(AtomicU64);

impl VersionLock {
    /// An unlocked word with the flags of its node.
    #[must_use]
    pub fn new(root: bool, border: bool) -> Self {
        let flag = |on, bit| if on { bit } else { 0 };
        VersionLock(AtomicU64::new(flag(root, ROOT) | flag(border, BORDER)))
    }

    /// What it says now, for diagnosis.
    #[must_use]
    pub fn load(&self) -> Version {
        // Pairs with the Release of an unlock.
        Version(self.0.load(Ordering::Acquire))
    }

    /// Waits until no writer is changing what readers may see. The version to read under.
    #[must_use]
    pub fn stable(&self) -> Version {
        let mut backoff = Backoff::new();
        loop {
            let version = self.load();
            if !version.is_dirty() {
                return version;
            }
            backoff.wait();
        }
    }

    /// Whether everything that was read since `version` was stable belongs to it.
    #[must_use]
    pub fn validate(&self, version: Version) -> bool {
        // Pairs with the Release fence of a mark.
        fence(Ordering::Acquire);
        !version.changed(Version(self.0.load(Ordering::Relaxed)))
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> Locked<'_> {
        let mut backoff = Backoff::new();
        loop {
            match self.try_lock() {
                Some(locked) => return locked,
                None => backoff.wait(),
            }
        }
    }

    /// Takes the lock if nobody holds it.
    pub fn try_lock(&self) -> Option<Locked<'_>> {
        let word = self.0.load(Ordering::Relaxed);
        if word & LOCKED != 0 {
            return None;
        }
        // Acquire pairs with the Release of the last unlock.
        let taken =
            self.0.compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|word| Locked { lock: self, word: word | LOCKED })
    }
}

impl fmt::Debug for VersionLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}

/// The lock, held. Dropping it unlocks and counts what was marked.
#[derive(Debug)]
#[must_use = "dropping it unlocks"]
pub struct Locked<'a> {
    lock: &'a VersionLock,
    word: u64,
}

impl Locked<'_> {
    /// What the word says while it is held.
    #[must_use]
    pub fn version(&self) -> Version {
        Version(self.word)
    }

    /// Readers wait from here on: entries change in place.
    pub fn mark_inserting(&mut self) {
        self.mark(INSERTING);
    }

    /// Makes readers wait from here on: keys move between nodes.
    pub fn mark_splitting(&mut self) {
        self.mark(SPLITTING);
    }

    /// Marks the node as removed from its structure.
    pub fn mark_deleted(&mut self) {
        self.mark(SPLITTING | DELETED);
    }

    /// The node has a parent from now on. Only after [`Locked::mark_splitting`].
    pub fn clear_root(&mut self) {
        debug_assert!(self.word & SPLITTING != 0, "readers must be waiting");
        self.word &= !ROOT;
    }

    /// The node becomes the root of its tree. Only after [`Locked::mark_splitting`].
    pub fn set_root(&mut self) {
        debug_assert!(self.word & SPLITTING != 0, "readers must be waiting");
        self.word |= ROOT;
    }

    /// Begins an incarnation of a new or deleted node with these flags. The counters continue, so a
    /// reader of a former incarnation fails to validate. Readers wait until the node is filled.
    pub fn begin_incarnation(&mut self, root: bool, border: bool) {
        let flag = |on, bit| if on { bit } else { 0 };
        self.word &= !(DELETED | ROOT | BORDER);
        self.mark(SPLITTING | flag(root, ROOT) | flag(border, BORDER));
    }

    fn mark(&mut self, bits: u64) {
        self.word |= bits;
        self.lock.0.store(self.word, Ordering::Relaxed);
        // Pairs with the Acquire fence of `validate`.
        fence(Ordering::Release);
    }
}

impl Locked<'_> {
    /// Unlocks, as dropping it does. Returns the version under which the holder goes on reading.
    pub fn unlock(self) -> Version {
        self.unlocked()
    }

    /// What the word will say once it is unlocked.
    fn unlocked(&self) -> Version {
        let step = match self.word & DIRTY {
            0 => 0,
            INSERTING => INSERT_ONE,
            _ => SPLIT_ONE,
        };
        Version((self.word & !(LOCKED | DIRTY)).wrapping_add(step))
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Pairs with the Acquire of `stable` and `lock`.
        self.lock.0.store(self.unlocked().0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_plain_lock_leaves_the_version_as_it_was() {
        let lock = VersionLock::new(true, true);
        let before = lock.stable();
        let held = lock.lock();
        assert!(lock.load().is_locked());
        assert!(lock.validate(before), "a lock alone does not invalidate readers");
        assert!(lock.try_lock().is_none());
        drop(held);
        assert_eq!(lock.stable(), before);
    }

    #[test]
    fn unlocking_says_what_the_version_is() {
        let lock = VersionLock::new(true, true);
        let marks: [fn(&mut Locked<'_>); 3] =
            [|_| (), |held| held.mark_inserting(), |held| held.mark_splitting()];
        for mark in marks {
            let mut held = lock.lock();
            mark(&mut held);
            let version = held.unlock();
            assert!(!version.is_locked() && lock.validate(version));
            assert_eq!(lock.stable(), version);
        }
    }

    #[test]
    fn marks_are_counted_and_flags_stay() {
        let lock = VersionLock::new(true, false);
        let start = lock.stable();
        let mut held = lock.lock();
        held.mark_inserting();
        assert!(lock.load().is_dirty() && !lock.validate(start));
        drop(held);
        let inserted = lock.stable();
        assert!(start.changed(inserted) && !start.split_since(inserted));
        assert!(inserted.is_root() && !inserted.is_border());

        let mut held = lock.lock();
        held.mark_inserting();
        held.mark_splitting();
        held.clear_root();
        drop(held);
        let split = lock.stable();
        assert!(inserted.split_since(split) && !split.is_root());

        let mut held = lock.lock();
        held.mark_deleted();
        drop(held);
        assert!(lock.stable().is_deleted() && split.split_since(lock.stable()));
        assert_eq!(format!("{lock:?}"), "inserts 1 splits 2 deleted");
    }

    #[test]
    fn a_second_incarnation_differs_from_the_first() {
        let lock = VersionLock::new(false, true);
        let first = lock.stable();
        lock.lock().mark_deleted();
        let gone = lock.stable();
        let mut held = lock.lock();
        held.begin_incarnation(true, true);
        assert!(lock.load().is_dirty() && !lock.load().is_deleted());
        drop(held);
        let second = lock.stable();
        assert!(second.is_root() && second.is_border() && !second.is_deleted());
        assert!(first.split_since(second) && gone.split_since(second));
        let mut held = lock.lock();
        held.mark_splitting();
        held.clear_root();
        held.set_root();
        drop(held);
        assert!(lock.stable().is_root() && second.split_since(lock.stable()));
    }

    #[test]
    fn the_insert_counter_carries_into_the_split_counter() {
        let lock = VersionLock(AtomicU64::new(SPLIT_ONE - INSERT_ONE));
        lock.lock().mark_inserting();
        assert_eq!(lock.load().0, SPLIT_ONE);
        let lock = VersionLock(AtomicU64::new(u64::MAX << 8 | BORDER));
        lock.lock().mark_inserting();
        assert_eq!(lock.load().0, BORDER);
    }
}
