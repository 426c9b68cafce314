//! Collections: values whose elements are rows of their own, such as a hash of many fields.
//!
//! ```text
//!   user key --> header row: type, id          RENAME moves it, DEL removes it: O(1)
//!                              |
//!   id + name --> row of the element           one log record, one search of the tree
//!
//!   registry   id --> keys of the header, counts, lock, snapshots          in memory alone
//! ```
//!
//! A collection without a header is an *orphan*: no reader finds it, and the sweep removes its
//! elements a slice at a time. That is not logged, because a replay finds the orphan again.
//!
//! The registry is rebuilt when a store is opened, from the headers and one scan of the elements.
//! So a write of an element logs the element alone, and the counts are still exact.
//!
//! **Invariant:** an id is never used twice while anything of it is left in a log or a file. New
//! ids are above all that the recovery has seen.
//!
//! **Invariant:** whoever writes elements of a collection that has a header holds its lock
//! ([`Collection::lock`]). So several writes are one step for others, and a snapshot begins between
//! two steps. Every write of a row is reported to the registry before others see it
//! ([`Collections::save`]) and once it is done ([`Collections::note`]).

pub(crate) mod snapshot;

pub use snapshot::Snapshot;

use crate::Row;
use crate::keys::{self, ID_MAX};
use keyrack_store::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

/// The shards of the registry: a power of two.
const SHARDS: usize = 64;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the registry has to know of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowFacts {
    pub(crate) rows: i64,
    pub(crate) bytes: i64,
    pub(crate) volatile: i64,
    pub(crate) collection: Option<u64>,
}

impl RowFacts {
    #[inline]
    pub(crate) fn of(key: &[u8], row: Option<&Row<'_>>) -> Self {
        row.map_or_else(RowFacts::default, |row| RowFacts {
            rows: 1,
            bytes: crate::memory::cost(key.len(), row.bytes().len()),
            volatile: i64::from(row.expires_ms() != 0),
            collection: row.collection(),
        })
    }
}

/// The state of one collection that sessions and threads share.
#[derive(Debug)]
pub struct Collection {
    id: u64,
    writers: Mutex<()>,
    /// Whether its elements are being removed. Changes under the lock of the writers.
    is_dead: AtomicBool,
    /// Whether a sweep has to look at it.
    is_queued: AtomicBool,
    /// The number of its headers: one, two within a group that moves it, none for an orphan. Below
    /// 0 if a removal was counted before the put that it follows.
    headers: AtomicI64,
    /// Stored keys at which a header is or was.
    keys: Mutex<Vec<Box<[u8]>>>,
    rows: AtomicI64,
    bytes: AtomicI64,
    /// The number of elements with an expiry.
    volatile: AtomicI64,
    changes: AtomicU64,
    has_snapshots: AtomicBool,
    /// Whether all rows were cleared since it was created.
    is_cleared: AtomicBool,
    /// Whether a header is in memory and could not be logged.
    is_unlogged: AtomicBool,
    /// Groups with pending writes. Grows under the lock of the writers.
    groups: AtomicU64,
    /// Each snapshot holds it.
    users: Arc<()>,
    snapshots: Mutex<Vec<Weak<Snapshot>>>,
    /// What all snapshots of the store keep.
    saved_bytes: Arc<AtomicUsize>,
}

/// A collection that a group is to write: nobody sweeps it before the group has ended.
#[derive(Debug)]
pub(crate) struct Held(Arc<Collection>);

impl Held {
    pub(crate) fn new(collection: Arc<Collection>) -> Self {
        collection.groups.fetch_add(1, Ordering::SeqCst);
        Held(collection)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.groups.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The lock of a collection, which its writers hold.
#[derive(Debug)]
pub struct CollectionGuard<'a> {
    collection: &'a Collection,
    _held: MutexGuard<'a, ()>,
}

impl Collection {
    fn new(id: u64, saved_bytes: Arc<AtomicUsize>) -> Self {
        Collection {
            id,
            saved_bytes,
            writers: Mutex::new(()),
            is_dead: AtomicBool::new(false),
            is_queued: AtomicBool::new(false),
            headers: AtomicI64::new(0),
            keys: Mutex::default(),
            rows: AtomicI64::new(0),
            bytes: AtomicI64::new(0),
            volatile: AtomicI64::new(0),
            changes: AtomicU64::new(0),
            has_snapshots: AtomicBool::new(false),
            is_cleared: AtomicBool::new(false),
            is_unlogged: AtomicBool::new(false),
            groups: AtomicU64::new(0),
            users: Arc::default(),
            snapshots: Mutex::default(),
        }
    }

    /// The id, as in its header.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Locks out other writers. `None` if the collection was removed: the header that named it is
    /// gone. A writer reads the header again under the lock, because the holder before may have
    /// removed it with the last element.
    pub fn lock(&self) -> Option<CollectionGuard<'_>> {
        // It protects no data, so a panic of its holder does no harm.
        let held = lock(&self.writers);
        let is_dead = self.is_dead.load(Ordering::Acquire);
        (!is_dead).then_some(CollectionGuard { collection: self, _held: held })
    }

    /// Applied elements, including expired ones that were not swept yet.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.rows.load(Ordering::Acquire).try_into().unwrap_or(0)
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The estimated memory of the elements.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire).try_into().unwrap_or(0)
    }

    /// Whether an element has an expiry.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.volatile.load(Ordering::Acquire) > 0
    }

    /// Grows with every write of an element, while the store is open.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Whether all rows were cleared since it was created, and its elements with them. It gets no
    /// header any more.
    #[must_use]
    pub fn is_cleared(&self) -> bool {
        self.is_cleared.load(Ordering::SeqCst)
    }

    /// Whether its header could not be logged yet. Nobody may write its elements, or move its
    /// header, until it is: a crash would keep that and lose the header.
    #[must_use]
    pub fn is_unlogged(&self) -> bool {
        self.is_unlogged.load(Ordering::SeqCst)
    }

    /// Whether the writes of a group are pending. They are not counted, so no sweep can tell
    /// whether an element is the last one.
    pub(crate) fn is_pending(&self) -> bool {
        self.groups.load(Ordering::SeqCst) > 0
    }

    fn is_orphan(&self) -> bool {
        self.headers.load(Ordering::SeqCst) <= 0
    }

    fn add_header(&self, key: &[u8]) {
        lock(&self.keys).push(key.into());
        self.headers.fetch_add(1, Ordering::SeqCst);
    }

    fn remove_header(&self, key: &[u8]) {
        lock(&self.keys).retain(|other| **other != *key);
        self.headers.fetch_sub(1, Ordering::SeqCst);
    }

    fn forget_counts(&self) {
        for count in [&self.rows, &self.bytes, &self.volatile] {
            count.store(0, Ordering::Release);
        }
    }

    fn note(&self, old: RowFacts, new: RowFacts) {
        self.rows.fetch_add(new.rows - old.rows, Ordering::AcqRel);
        self.bytes.fetch_add(new.bytes - old.bytes, Ordering::AcqRel);
        self.volatile.fetch_add(new.volatile - old.volatile, Ordering::AcqRel);
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

impl CollectionGuard<'_> {
    /// The elements as they are now, for
    /// [`RowSession::scan_snapshot`](crate::RowSession::scan_snapshot). `now_ms` is the session's
    /// time.
    #[must_use]
    pub fn snapshot(&self, now_ms: u64) -> Arc<Snapshot> {
        let user = Arc::clone(&self.collection.users);
        let snapshot = Arc::new(Snapshot::new(
            self.collection.id,
            user,
            now_ms,
            Arc::clone(&self.collection.saved_bytes),
        ));
        let mut snapshots = lock(&self.collection.snapshots);
        snapshots.retain(|snapshot| snapshot.strong_count() > 0);
        snapshots.push(Arc::downgrade(&snapshot));
        self.collection.has_snapshots.store(true, Ordering::SeqCst);
        snapshot
    }
}

/// The collections of a store.
#[derive(Debug)]
pub(crate) struct Collections {
    shards: Box<[RwLock<HashMap<u64, Arc<Collection>>>]>,
    /// The largest id that was ever used.
    last_id: AtomicU64,
    /// Rows of elements that were not cleared.
    rows: AtomicI64,
    volatile: AtomicI64,
    /// Collections that may be orphans or empty.
    queue: Mutex<VecDeque<Arc<Collection>>>,
    /// What all snapshots keep.
    saved_bytes: Arc<AtomicUsize>,
    /// Whether a stored key was ever reserved, or a row was a header.
    is_used: AtomicBool,
}

impl Default for Collections {
    fn default() -> Self {
        Collections {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            last_id: AtomicU64::new(0),
            rows: AtomicI64::new(0),
            volatile: AtomicI64::new(0),
            queue: Mutex::default(),
            saved_bytes: Arc::default(),
            is_used: AtomicBool::new(false),
        }
    }
}

impl Collections {
    fn shard(&self, id: u64) -> &RwLock<HashMap<u64, Arc<Collection>>> {
        &self.shards[id as usize % SHARDS]
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Collection>> {
        let shard = self.shard(id).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&id).cloned()
    }

    fn get_or_insert(&self, id: u64) -> Arc<Collection> {
        if let Some(collection) = self.get(id) {
            return collection;
        }
        let mut shard = self.shard(id).write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            shard
                .entry(id)
                .or_insert_with(|| Arc::new(Collection::new(id, Arc::clone(&self.saved_bytes)))),
        )
    }

    /// A collection with a new id. It has no header yet.
    pub(crate) fn create(&self) -> Result<Arc<Collection>> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        if id > ID_MAX {
            return Err(Error::usage(format!("a store has had {ID_MAX} large hashes, its limit")));
        }
        let collection = self.get_or_insert(id);
        // It is an orphan unless it has got a header when the last reference is dropped.
        self.enqueue(&collection);
        Ok(collection)
    }

    fn enqueue(&self, collection: &Arc<Collection>) {
        if !collection.is_queued.swap(true, Ordering::SeqCst) {
            lock(&self.queue).push_back(Arc::clone(collection));
        }
    }

    /// Whether a key or a row was written that an earlier version would not understand.
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::SeqCst)
    }

    pub(crate) fn set_used(&self) {
        // Not written again, so that writers do not take the line from each other.
        if !self.is_used() {
            self.is_used.store(true, Ordering::SeqCst);
        }
    }

    /// The memory of the elements below a header.
    pub(crate) fn bytes_of(&self, header: &Row<'_>) -> i64 {
        let collection = header.collection().and_then(|id| self.get(id));
        collection.map_or(0, |collection| collection.bytes.load(Ordering::Acquire))
    }

    /// Rows of elements that were not cleared.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Acquire).try_into().unwrap_or(0)
    }

    /// Elements with an expiry that were not cleared.
    pub(crate) fn volatile(&self) -> i64 {
        self.volatile.load(Ordering::Acquire)
    }

    /// Notes whether the headers of these collections could not be logged.
    pub(crate) fn set_unlogged(&self, ids: &[u64], is_unlogged: bool) {
        for collection in ids.iter().filter_map(|&id| self.get(id)) {
            collection.is_unlogged.store(is_unlogged, Ordering::SeqCst);
        }
    }

    /// Whether collections wait for a sweep.
    pub(crate) fn has_queued(&self) -> bool {
        !lock(&self.queue).is_empty()
    }

    /// Keeps an element for the snapshots that have not come to it. Call it before others see the
    /// change.
    #[inline]
    pub(crate) fn save(&self, key: &[u8], old: Option<&Row<'_>>) {
        if !keys::is_reserved(key) {
            return;
        }
        // An escaped user key is no element, and a swept orphan has no snapshots.
        let element = keys::element(key);
        let Some((name, collection)) = element.and_then(|(id, name)| Some((name, self.get(id)?)))
        else {
            return;
        };
        if !collection.has_snapshots.load(Ordering::SeqCst) {
            return;
        }
        let mut snapshots = lock(&collection.snapshots);
        snapshots.retain(|snapshot| match snapshot.upgrade() {
            Some(snapshot) => {
                snapshot.save(name, old);
                true
            }
            None => false,
        });
        collection.has_snapshots.store(!snapshots.is_empty(), Ordering::SeqCst);
    }

    /// Counts a change of an element once more when others see it: who has read the count before,
    /// and the old row after, must find another count later.
    #[inline]
    pub(crate) fn changed(&self, key: &[u8]) {
        if keys::is_reserved(key)
            && let Some((id, _)) = keys::element(key)
            && let Some(collection) = self.get(id)
        {
            collection.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Counts the write of a row: what was there, and what is there now.
    #[inline]
    pub(crate) fn note(&self, key: &[u8], old: RowFacts, new: RowFacts) {
        if keys::is_reserved(key) || old.collection.is_some() || new.collection.is_some() {
            self.note_special(key, old, new);
        }
    }

    fn note_special(&self, key: &[u8], old: RowFacts, new: RowFacts) {
        self.set_used();
        if let Some((id, _)) = keys::element(key) {
            self.rows.fetch_add(new.rows - old.rows, Ordering::AcqRel);
            self.volatile.fetch_add(new.volatile - old.volatile, Ordering::AcqRel);
            if let Some(collection) = self.get(id) {
                collection.note(old, new);
            }
            return;
        }
        if old.collection == new.collection {
            return;
        }
        // What is not in the registry was removed meanwhile.
        let find = |id: Option<u64>| id.and_then(|id| self.get(id));
        let (added, removed) = (find(new.collection), find(old.collection));
        if let Some(collection) = &added {
            collection.add_header(key);
        }
        if let Some(collection) = &removed {
            collection.remove_header(key);
        }
        added
            .iter()
            .chain(&removed)
            .filter(|collection| collection.is_orphan())
            .for_each(|collection| self.enqueue(collection));
    }

    /// Registers a row that was found when the store was opened.
    pub(crate) fn load(&self, key: &[u8], row: &Row<'_>) {
        if let Some((id, _)) = keys::element(key) {
            drop(self.get_or_insert(id));
            self.note_id(id);
        } else if let Some(id) = row.collection() {
            drop(self.get_or_insert(id));
            self.note_id(id);
        }
        self.note(key, RowFacts::default(), RowFacts::of(key, Some(row)));
    }

    /// Forgets what was counted, before all rows are loaded again. No session writes meanwhile.
    pub(crate) fn forget_counts(&self) {
        self.rows.store(0, Ordering::Release);
        self.volatile.store(0, Ordering::Release);
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            for collection in shard.values() {
                lock(&collection.keys).clear();
                collection.headers.store(0, Ordering::SeqCst);
                collection.forget_counts();
            }
        }
    }

    /// Counts an element of an orphan that was removed.
    pub(crate) fn forget(&self, volatile: i64) {
        self.rows.fetch_sub(1, Ordering::AcqRel);
        self.volatile.fetch_sub(volatile, Ordering::AcqRel);
    }

    /// No id up to this one is used again.
    pub(crate) fn note_id(&self, id: u64) {
        self.last_id.fetch_max(id, Ordering::Relaxed);
    }

    /// Ends the rebuilding of the registry. Orphans wait for the sweep; what has a header and no
    /// elements is returned by its id and the key of its header.
    pub(crate) fn loaded(&self) -> Vec<(u64, Vec<u8>)> {
        let mut empty = Vec::new();
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            for (id, collection) in &*shard {
                if collection.is_orphan() {
                    self.enqueue(collection);
                } else if collection.is_empty() {
                    empty.extend(lock(&collection.keys).iter().map(|key| (*id, key.to_vec())));
                }
            }
        }
        empty
    }

    /// All rows were cleared: collections that had a header are orphans now, and what is being
    /// built has lost its elements.
    pub(crate) fn clear(&self) {
        self.rows.store(0, Ordering::Release);
        self.volatile.store(0, Ordering::Release);
        for shard in &self.shards {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            for collection in shard.values() {
                lock(&collection.snapshots)
                    .iter()
                    .filter_map(Weak::upgrade)
                    .for_each(|snapshot| snapshot.give_up());
                collection.is_cleared.store(true, Ordering::SeqCst);
                // One without a header is being built, or waits already.
                if collection.headers.swap(0, Ordering::SeqCst) > 0 {
                    lock(&collection.keys).clear();
                    self.enqueue(collection);
                } else {
                    collection.forget_counts();
                }
            }
        }
    }

    /// The stored keys of the header of a collection that has no elements left. The caller holds
    /// its lock.
    pub(crate) fn keys_if_empty(&self, guard: &CollectionGuard<'_>) -> Vec<Box<[u8]>> {
        let collection = guard.collection;
        if collection.is_empty() { lock(&collection.keys).clone() } else { Vec::new() }
    }

    /// An orphan that nobody uses, whose elements are to be removed: from here on nobody writes it.
    /// Give it back with [`Collections::put_back`] or [`Collections::removed`].
    pub(crate) fn next_orphan(&self) -> Option<Arc<Collection>> {
        let count = lock(&self.queue).len();
        for _ in 0..count {
            let collection = lock(&self.queue).pop_front()?;
            if !collection.is_orphan() {
                collection.is_queued.store(false, Ordering::SeqCst);
                // It may have become one since.
                if collection.is_orphan() {
                    self.enqueue(&collection);
                }
                continue;
            }
            // The registry has one, and this is one. Readers and writers hold others.
            let is_used =
                Arc::strong_count(&collection) > 2 || Arc::strong_count(&collection.users) > 1;
            let held = match collection.writers.try_lock() {
                Ok(held) => Some(held),
                Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(std::sync::TryLockError::WouldBlock) => None,
            };
            // Who put a header and then dropped the last reference did so in this order. So the
            // header is seen if the reference was not.
            fence(Ordering::SeqCst);
            if is_used || held.is_none() || !collection.is_orphan() {
                drop(held);
                lock(&self.queue).push_back(collection);
                continue;
            }
            collection.is_dead.store(true, Ordering::Release);
            drop(held);
            return Some(collection);
        }
        None
    }

    /// More elements are left.
    pub(crate) fn put_back(&self, collection: Arc<Collection>) {
        lock(&self.queue).push_front(collection);
    }

    /// No element is left.
    pub(crate) fn removed(&self, collection: &Collection) {
        let id = collection.id;
        self.shard(id).write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}
