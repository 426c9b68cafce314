//! The hash level: from a user key to its versions, newest first.
//!
//! ```text
//!   hash: | home: upper bits, scaled to the number of slots | ... | tag: lower 32 bits |
//!   slots:    [ - | tag, newest | - | tag, newest | tag, newest ]   one a key, never emptied
//!                       |  prev
//!                       v
//!                     entry -> entry -> entry                       trailers descend
//!   overflow: [ - | - | - | - | ... ]                               as well, where slots are short
//! ```
//!
//! Open addressing with linear probing: a key lives in the first slot from its home on that was
//! empty when it came, and slots are never emptied. So a search may stop at an empty slot, and two
//! threads with the same new key meet at the same one, where one of their swaps fails.
//!
//! Chains only grow. A new version goes before the first one that is not newer, by swapping the
//! word in front of it; where that fails, the walk goes on from the same word, since what was in
//! front of the new version still is. A reader walks whatever it finds: any state of the chain is
//! sorted.
//!
//! The slots are laid out for entries of [`ENTRY_BYTES`], so that they lie close together, and an
//! arena may hold more entries than that. An entry takes an empty slot only if its number in
//! the arena is below what the slots are for; so they never fill up. A later one that does not find
//! its key there goes to the overflow, laid out for the smallest entries, of which the unused
//! part is no more than addresses. Two versions of a key that arrive around the border may part, so
//! a reader asks both, once there is an overflow.

use super::arena::{Arena, Entry, Handle, Slot, Written};
use super::mapping::Mapping;
use keyrack_concurrent::atomic::{AtomicBool, Ordering};

/// Bytes of an entry, overhead included, that the slots are laid out for.
const ENTRY_BYTES: usize = 64;

pub(super) struct HashTable {
    slots: Mapping<Slot>,
    /// Entries from this number on take no empty slot.
    claims_end: usize,
    overflow: Mapping<Slot>,
    /// Set before the first entry goes there, and only then.
    has_overflow: AtomicBool,
}

impl HashTable {
    /// For so many bytes of entries, and at most `entries_max`.
    pub(super) fn new(bytes: usize, entries_max: usize, huge: bool) -> Self {
        let claims_end = (bytes / ENTRY_BYTES).clamp(1, entries_max);
        HashTable {
            slots: Mapping::new(slots_for(claims_end), huge),
            claims_end,
            overflow: Mapping::new(slots_for(entries_max - claims_end), huge),
            has_overflow: AtomicBool::new(false),
        }
    }

    /// Makes the pages of the slots: the first few entries need all of them.
    pub(super) fn populate(&mut self) {
        self.slots.populate_all();
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        let slots = self.slots.items().len();
        self.slots.clear(slots);
        if self.has_overflow() {
            self.has_overflow = AtomicBool::new(false);
            let slots = self.overflow.items().len();
            self.overflow.clear(slots);
        }
    }

    /// Bytes of memory that it takes once so many entries are in it.
    pub(super) fn memory_bytes(&self, entries: usize) -> usize {
        let beyond = if self.has_overflow() { entries.saturating_sub(self.claims_end) } else { 0 };
        self.slots.scattered_bytes(entries) + self.overflow.scattered_bytes(beyond)
    }

    /// Asks for the line of memory that a search begins with.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let slots = self.slots.items();
        slots[home(hash, slots.len())].prefetch();
    }

    /// Asks for the newest version of a key, if it is in the slot that a search begins with.
    #[inline]
    pub(super) fn prefetch_newest(&self, arena: &Arena, hash: u64) {
        let slots = self.slots.items();
        match slots[home(hash, slots.len())].get() {
            Some((found, newest)) if found == tag(hash) => arena.prefetch(newest),
            Some(_) | None => {}
        }
    }

    /// The newest version of a key among those in the slots.
    #[inline]
    pub(super) fn find<'a>(&self, arena: &'a Arena, key: &[u8], hash: u64) -> Option<Entry<'a>> {
        find(self.slots.items(), arena, key, hash)
    }

    /// Whether some entries are in the overflow.
    #[inline]
    pub(super) fn has_overflow(&self) -> bool {
        // Relaxed: who knows that an entry was inserted knows it from the thread that set this.
        self.has_overflow.load(Ordering::Relaxed)
    }

    /// The newest version of a key among those in the overflow.
    pub(super) fn find_overflow<'a>(
        &self,
        arena: &'a Arena,
        key: &[u8],
        hash: u64,
    ) -> Option<Entry<'a>> {
        find(self.overflow.items(), arena, key, hash)
    }

    /// Adds a written entry to the versions of its key. Lock-free.
    pub(super) fn insert(&self, arena: &Arena, written: &Written, hash: u64) {
        let key = arena.entry(written.handle).key();
        let may_claim = (written.index as usize) < self.claims_end;
        let words = ArenaWords { slots: self.slots.items(), arena, key };
        if insert(&words, hash, written.handle, may_claim) {
            return;
        }
        if !self.has_overflow() {
            self.has_overflow.store(true, Ordering::Relaxed);
        }
        let words = ArenaWords { slots: self.overflow.items(), arena, key };
        insert(&words, hash, written.handle, true);
    }
}

/// At most four of five slots are taken: a search for a key that is not there then looks at 13 of
/// them, which lie together.
fn slots_for(entries: usize) -> usize {
    entries + entries / 4 + 1
}

#[inline]
fn home(hash: u64, slots: usize) -> usize {
    ((u128::from(hash) * slots as u128) >> 64) as usize
}

fn tag(hash: u64) -> u32 {
    hash as u32
}

#[inline]
fn find<'a>(slots: &[Slot], arena: &'a Arena, key: &[u8], hash: u64) -> Option<Entry<'a>> {
    let mut at = home(hash, slots.len());
    loop {
        let (found, handle) = slots[at].get()?;
        if found == tag(hash) {
            let entry = arena.entry(handle);
            if entry.key() == key {
                return Some(entry);
            }
        }
        at = if at + 1 == slots.len() { 0 } else { at + 1 };
    }
}

/// The words that inserting an entry reads and swaps. Those of a memtable are [`ArenaWords`]; the
/// tests have some that a model checker watches.
pub(super) trait Words {
    type Handle: Copy;

    fn slots(&self) -> usize;

    /// Tag and newest version in a slot.
    fn slot(&self, at: usize) -> Option<(u32, Self::Handle)>;

    /// Replaces what a slot was found to hold. Whether it still held that.
    fn swap_slot(
        &self,
        at: usize,
        expected: Option<(u32, Self::Handle)>,
        new: (u32, Self::Handle),
    ) -> bool;

    /// The next older version.
    fn prev(&self, entry: Self::Handle) -> Option<Self::Handle>;

    /// Sets it in an entry that nobody else knows yet.
    fn set_prev(&self, entry: Self::Handle, prev: Option<Self::Handle>);

    /// Replaces it where it is `expected`; else says what it is.
    fn swap_prev(
        &self,
        entry: Self::Handle,
        expected: Option<Self::Handle>,
        new: Self::Handle,
    ) -> Result<(), Option<Self::Handle>>;

    fn trailer(&self, entry: Self::Handle) -> u64;

    /// Whether an entry has the key of the one that is inserted.
    fn is_version(&self, entry: Self::Handle) -> bool;
}

struct ArenaWords<'a> {
    slots: &'a [Slot],
    arena: &'a Arena,
    key: &'a [u8],
}

impl Words for ArenaWords<'_> {
    type Handle = Handle;

    #[inline]
    fn slots(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn slot(&self, at: usize) -> Option<(u32, Handle)> {
        self.slots[at].get()
    }

    #[inline]
    fn swap_slot(&self, at: usize, expected: Option<(u32, Handle)>, new: (u32, Handle)) -> bool {
        self.slots[at].swap(expected, new)
    }

    #[inline]
    fn prev(&self, entry: Handle) -> Option<Handle> {
        self.arena.entry(entry).prev().get()
    }

    #[inline]
    fn set_prev(&self, entry: Handle, prev: Option<Handle>) {
        self.arena.entry(entry).prev().set(prev);
    }

    #[inline]
    fn swap_prev(
        &self,
        entry: Handle,
        expected: Option<Handle>,
        new: Handle,
    ) -> Result<(), Option<Handle>> {
        self.arena.entry(entry).prev().swap(expected, new)
    }

    #[inline]
    fn trailer(&self, entry: Handle) -> u64 {
        self.arena.entry(entry).trailer()
    }

    #[inline]
    fn is_version(&self, entry: Handle) -> bool {
        self.arena.entry(entry).key() == self.key
    }
}

/// Finds the slot of an entry's key and puts the entry into its chain. False if there is none, and
/// it may not claim an empty one.
#[inline]
pub(super) fn insert<W: Words>(words: &W, hash: u64, entry: W::Handle, may_claim: bool) -> bool {
    let trailer = words.trailer(entry);
    let own = (tag(hash), entry);
    let mut at = home(hash, words.slots());
    loop {
        match words.slot(at) {
            None => {
                if !may_claim {
                    return false;
                }
                if words.swap_slot(at, None, own) {
                    return true;
                }
            }
            Some((found, newest)) if found == own.0 && words.is_version(newest) => {
                if trailer < words.trailer(newest) {
                    insert_behind(words, newest, entry);
                    return true;
                }
                words.set_prev(entry, Some(newest));
                if words.swap_slot(at, Some((found, newest)), own) {
                    return true;
                }
            }
            Some(_) => at = if at + 1 == words.slots() { 0 } else { at + 1 },
        }
        // Somebody was faster: the same slot holds something else now.
    }
}

/// Puts an entry into the chain behind a newer one.
fn insert_behind<W: Words>(words: &W, newer: W::Handle, entry: W::Handle) {
    let trailer = words.trailer(entry);
    let mut newer = newer;
    let mut next = words.prev(newer);
    loop {
        match next {
            Some(version) if words.trailer(version) > trailer => {
                newer = version;
                next = words.prev(newer);
            }
            _ => {
                words.set_prev(entry, next);
                match words.swap_prev(newer, next, entry) {
                    Ok(()) => return,
                    Err(found) => next = found,
                }
            }
        }
    }
}
