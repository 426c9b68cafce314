//! A block of sorted entries, and the search in it.
//!
//! ```text
//!   entries    restarts: u32 each    restart count: u32
//!   |          |                     |
//!   [e e e e e][r r r ...           ][n]
//!
//!   entry = shared: varint | unshared: varint | value length: varint
//!         | the last `unshared` bytes of the user key | trailer: u64 | value
//! ```
//!
//! An entry has the first `shared` bytes of its user key in common with the entry before it. The
//! trailer (sequence and kind) is always whole: of neighbours it is the part that differs. Every
//! few entries `shared` is 0 and a restart has the entry's offset, so a search can begin there.
//! The first entry is a restart.
//!
//! A search halves the restarts, then walks the entries of one of them. It builds no keys: the walk
//! knows how many bytes of the wanted key the entry before had in common with it, and an entry that
//! shares more than that with its predecessor is on the same side of the wanted key as that. A
//! block in the cache can have a prefix index (`prefix_index.rs`), which takes the place of the
//! restarts and of nearly all of the walk.
//!
//! Blocks come from files that passed their checksum. Yet every length is checked here again, so
//! that a table from a faulty writer is an error and not a panic.

mod builder;
mod cursor;
mod prefix_index;
#[cfg(test)]
mod tests;

pub(crate) use builder::BlockBuilder;
pub(crate) use cursor::BlockCursor;

use crate::coding::{common_prefix, varint};
use crate::key::{Comparator, TRAILER_BYTES, user_of};
use crate::memtable::mapping::prefetch;
use prefix_index::{PrefixIndex, Start};
use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::OnceLock;

/// Bytes of a restart, and of their count.
const RESTART_BYTES: usize = size_of::<u32>();

const LINE_BYTES: usize = 64;

/// Cache lines from a restart on that are asked for at once where a cursor is placed: what the walk
/// passes and the first steps need.
const GROUP_LINES_PREFETCHED: usize = 24;

/// Of so many restarts the entries are asked for at once.
const RESTARTS_PREFETCHED_MAX: usize = 12;

/// What is wrong with a block, and at which of its decompressed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

type Result<T> = std::result::Result<T, Damage>;

/// The bytes of a block, with its tail taken apart.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    entries_end: usize,
    restarts: usize,
    /// Of a block that is searched more than once, unless it cannot have one.
    prefixes: OnceLock<Option<PrefixIndex>>,
}

/// An entry, its key still shared with the one before.
#[derive(Clone, Debug)]
struct Entry<'a> {
    shared: usize,
    suffix: &'a [u8],
    trailer: u64,
    value: Range<usize>,
    next: usize,
}

/// What the header of an entry says, and how long it is.
struct Lengths {
    shared: usize,
    unshared: usize,
    value: usize,
    header: usize,
}

/// Any lengths at the beginning of these bytes.
#[cold]
fn long_lengths(bytes: &[u8]) -> Option<Lengths> {
    let (shared, first) = varint(bytes)?;
    let (unshared, second) = varint(&bytes[first..])?;
    let (value, third) = varint(&bytes[first + second..])?;
    let count = |number| usize::try_from(number).ok();
    Some(Lengths {
        shared: count(shared)?,
        unshared: count(unshared)?,
        value: count(value)?,
        header: first + second + third,
    })
}

/// Where a lookup ended: at the first entry that is not before what was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Has it the wanted user key?
    pub(crate) is_same_user: bool,
    pub(crate) trailer: u64,
    /// Where its value is in the block.
    value: Range<usize>,
}

/// Where a walk ended: an offset, the entry there, and whether it has the wanted user key.
type Reached<'a> = Option<(usize, Entry<'a>, bool)>;

impl Block {
    /// Takes decompressed bytes as a block. O(1): entries are checked as they are read.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self> {
        let damage = |what| Damage { at: bytes.len(), what };
        let (rest, count) =
            bytes.split_last_chunk::<RESTART_BYTES>().ok_or(damage("a block without a tail"))?;
        let restarts = u32::from_le_bytes(*count) as usize;
        let entries_end = restarts
            .checked_mul(RESTART_BYTES)
            .and_then(|bytes| rest.len().checked_sub(bytes))
            .ok_or(damage("a block with too many restarts"))?;
        if restarts == 0 || entries_end == 0 {
            return Err(damage("a block without entries"));
        }
        let block = Block { bytes, entries_end, restarts, prefixes: OnceLock::new() };
        match block.restart(0)? {
            0 => Ok(block),
            at => Err(Damage { at, what: "a first restart that is not at the first entry" }),
        }
    }

    /// The buffer, to be filled again.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Makes the prefix index of a block in the order of bytes, if it can have one. Whether this
    /// call has made it. O(entries).
    pub(crate) fn index_prefixes(&self) -> bool {
        self.prefixes.set(PrefixIndex::new(self)).is_ok()
    }

    /// Whether [`Block::index_prefixes`] was called.
    #[inline]
    pub(crate) fn has_prefixes(&self) -> bool {
        self.prefixes.get().is_some()
    }

    #[inline]
    fn prefixes(&self) -> Option<&PrefixIndex> {
        self.prefixes.get()?.as_ref()
    }

    /// Where the prefix index is in memory; null if there is none.
    pub(crate) fn prefixes_at(&self) -> *const u64 {
        self.prefixes().map_or(std::ptr::null(), PrefixIndex::at)
    }

    /// Where its bytes are in memory.
    pub(crate) fn bytes_at(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    /// Asks for the entry that a search for the key reads first, if the prefix index tells.
    #[inline]
    pub(crate) fn prefetch_entry(&self, user: &[u8]) {
        if let Some(start) = self.prefixes().and_then(|prefixes| prefixes.start(user))
            && let Some(entry) = self.bytes[..self.entries_end].get(start.at..)
        {
            entry.chunks(64).take(3).for_each(|line| prefetch(line.as_ptr()));
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.prefixes().map_or(0, PrefixIndex::memory_bytes)
    }

    /// Bytes of a range that an entry named.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The value that a search found.
    #[inline]
    pub(crate) fn value(&self, found: &Found) -> &[u8] {
        &self.bytes[found.value.clone()]
    }

    /// Asks for two lines from an offset on. Beyond the end it says how far.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) -> Option<usize> {
        let beyond = at.checked_sub(self.bytes.len());
        if beyond.is_none() {
            let address = self.bytes.as_ptr().wrapping_add(at);
            prefetch(address);
            prefetch(address.wrapping_add(LINE_BYTES));
        }
        beyond
    }

    /// Asks for two lines, so many bytes before the end of the entries.
    #[inline]
    pub(crate) fn prefetch_back(&self, bytes: usize) {
        self.prefetch(self.entries_end.saturating_sub(bytes));
    }

    /// Asks for the restarts.
    #[inline]
    pub(crate) fn prefetch_restarts(&self) {
        prefetch(self.bytes.as_ptr().wrapping_add(self.entries_end));
        prefetch(self.bytes.as_ptr().wrapping_add(self.bytes.len() - RESTART_BYTES));
    }

    /// Asks for the entries of the restarts, of which a search looks at some.
    #[inline]
    pub(crate) fn prefetch_entries(&self) {
        let restarts = &self.bytes[self.entries_end..];
        for restart in restarts.chunks_exact(RESTART_BYTES).take(RESTARTS_PREFETCHED_MAX) {
            let at = u32::from_le_bytes([restart[0], restart[1], restart[2], restart[3]]);
            prefetch(self.bytes.as_ptr().wrapping_add(at as usize));
        }
    }

    /// Asks for the entries that a seek walks through. Damage is left to the seek.
    pub(crate) fn approach(&self, order: &Comparator, user: &[u8], trailer: u64) {
        let start = if order.is_bytewise() {
            self.start(order, user, trailer).map(|start| start.at)
        } else {
            self.restart_before(order, user, trailer)
        };
        if let Ok(at) = start {
            self.prefetch_group(at);
        }
    }

    /// Asks for the entries between two offsets.
    fn prefetch_between(&self, start: usize, end: usize) {
        if let Some(entries) = self.bytes.get(start..end) {
            entries.chunks(LINE_BYTES).for_each(|line| prefetch(line.as_ptr()));
        }
    }

    /// Asks for the entries from a restart on. Each says where the next one is, so that without
    /// this they would come one by one.
    #[inline]
    fn prefetch_group(&self, at: usize) {
        for line in 1..GROUP_LINES_PREFETCHED {
            prefetch(self.bytes.as_ptr().wrapping_add(at + LINE_BYTES * line));
        }
    }

    /// The offset of the entry of a restart.
    #[inline]
    fn restart(&self, index: usize) -> Result<usize> {
        let at = self.entries_end + index * RESTART_BYTES;
        let Some(bytes) = self.bytes[at..].first_chunk::<RESTART_BYTES>() else {
            return Err(Damage { at, what: "a restart beyond the block" });
        };
        let offset = u32::from_le_bytes(*bytes) as usize;
        if offset < self.entries_end {
            Ok(offset)
        } else {
            Err(Damage { at, what: "a restart beyond the entries" })
        }
    }

    /// The entry at an offset.
    #[inline(always)]
    fn entry(&self, at: usize) -> Result<Entry<'_>> {
        self.try_entry(at).ok_or(Damage { at, what: "an entry that does not fit its block" })
    }

    #[inline(always)]
    fn try_entry(&self, at: usize) -> Option<Entry<'_>> {
        let rest = self.bytes[..self.entries_end].get(at..)?;
        // Most entries have three lengths of one byte.
        let Lengths { shared, unshared, value, header } = match *rest.first_chunk::<3>()? {
            [a, b, c] if (a | b | c) < 0x80 => {
                Lengths { shared: a.into(), unshared: b.into(), value: c.into(), header: 3 }
            }
            _ => long_lengths(rest)?,
        };
        let (suffix, rest) = rest[header..].split_at_checked(unshared)?;
        let (trailer, values) = rest.split_first_chunk::<TRAILER_BYTES>()?;
        if value > values.len() {
            return None;
        }
        let value_at = at + header + unshared + TRAILER_BYTES;
        let value_end = value_at + value;
        Some(Entry {
            shared,
            suffix,
            trailer: u64::from_le_bytes(*trailer),
            value: value_at..value_end,
            next: value_end,
        })
    }

    /// The entry of a restart, which has its whole key.
    fn restart_entry(&self, index: usize) -> Result<(usize, Entry<'_>)> {
        let at = self.restart(index)?;
        let entry = self.entry(at)?;
        if entry.shared == 0 {
            Ok((at, entry))
        } else {
            Err(Damage { at, what: "a restart with a shared key" })
        }
    }

    /// The first entry that is not before the user key with this trailer. `None` if all are.
    /// O(log restarts + entries of a restart); allocates nothing.
    #[inline]
    pub(crate) fn find(
        &self,
        order: &Comparator,
        user: &[u8],
        trailer: u64,
    ) -> Result<Option<Found>> {
        let reached = if order.is_bytewise() {
            self.scan_bytes(self.start(order, user, trailer)?, user, trailer)?
        } else {
            let at = self.restart_before(order, user, trailer)?;
            // Lent by the thread. A comparator that searches itself finds an empty one.
            let mut key = SCRATCH.try_with(Cell::take).unwrap_or_default();
            let reached = self.scan(order, at, user, trailer, &mut key);
            let _ = SCRATCH.try_with(|scratch| scratch.set(key));
            reached?
        };
        Ok(reached.map(|(_, entry, is_same_user)| Found {
            is_same_user,
            trailer: entry.trailer,
            value: entry.value,
        }))
    }

    /// As [`Block::find`], and puts the internal key of the entry together in `key`.
    #[inline]
    fn seek<'a>(
        &'a self,
        order: &Comparator,
        user: &[u8],
        trailer: u64,
        key: &mut Vec<u8>,
    ) -> Result<Option<(usize, Entry<'a>)>> {
        if !self.has_prefixes() {
            self.prefetch_entries();
        }
        let reached = if order.is_bytewise() {
            let start = self.start(order, user, trailer)?;
            self.prefetch_group(start.at);
            let reached = self.scan_bytes(start, user, trailer)?;
            key.clear();
            if let Some((_, entry, _)) = &reached {
                // The walk ends at an entry that shares no more with the one before than that has
                // in common with the wanted key.
                key.extend_from_slice(&user[..entry.shared]);
                key.extend_from_slice(entry.suffix);
            }
            reached
        } else {
            let at = self.restart_before(order, user, trailer)?;
            self.prefetch_group(at);
            self.scan(order, at, user, trailer, key)?
        };
        let Some((at, entry, _)) = reached else { return Ok(None) };
        key.extend_from_slice(&entry.trailer.to_le_bytes());
        Ok(Some((at, entry)))
    }

    /// Where a search by bytes begins.
    #[inline]
    fn start(&self, order: &Comparator, user: &[u8], trailer: u64) -> Result<Start> {
        match self.prefixes().and_then(|prefixes| prefixes.start(user)) {
            Some(start) => Ok(start),
            None => self.restart_before(order, user, trailer).map(Start::at_restart),
        }
    }

    /// The offset of the last restart whose entry is before what is wanted, else of the first.
    fn restart_before(&self, order: &Comparator, user: &[u8], trailer: u64) -> Result<usize> {
        let mut low = 0;
        let mut low_at = 0;
        let mut high = self.restarts;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let (at, entry) = self.restart_entry(middle)?;
            let is_before = match order.user(entry.suffix, user) {
                Ordering::Less => true,
                Ordering::Equal => entry.trailer > trailer,
                Ordering::Greater => false,
            };
            if is_before {
                (low, low_at) = (middle, at);
            } else {
                high = middle;
            }
        }
        Ok(low_at)
    }

    /// Walks from `start` to the first entry that is not before what is wanted, by bytes.
    #[inline]
    fn scan_bytes(&self, start: Start, user: &[u8], trailer: u64) -> Result<Reached<'_>> {
        // What the entry before and the wanted key have in common. That entry is before it.
        let Start { mut at, mut matched, mut key_len } = start;
        while at < self.entries_end {
            let entry = self.entry(at)?;
            if entry.shared > key_len {
                return Err(Damage { at, what: SHARES_TOO_MUCH });
            }
            key_len = entry.shared + entry.suffix.len();
            // One that shares more differs from the wanted key where the entry before did.
            if entry.shared <= matched {
                let rest = &user[entry.shared..];
                let common = common_prefix(entry.suffix, rest);
                matched = entry.shared + common;
                match (entry.suffix.get(common), rest.get(common)) {
                    (None, None) if entry.trailer <= trailer => return Ok(Some((at, entry, true))),
                    (None, _) => {}
                    (Some(_), None) => return Ok(Some((at, entry, false))),
                    (Some(here), Some(wanted)) if here > wanted => {
                        return Ok(Some((at, entry, false)));
                    }
                    (Some(_), Some(_)) => {}
                }
            }
            at = entry.next;
        }
        Ok(None)
    }

    /// As [`Block::scan_bytes`], for any order: builds each key in `key`.
    fn scan(
        &self,
        order: &Comparator,
        mut at: usize,
        user: &[u8],
        trailer: u64,
        key: &mut Vec<u8>,
    ) -> Result<Reached<'_>> {
        key.clear();
        while at < self.entries_end {
            let entry = self.entry(at)?;
            if entry.shared > key.len() {
                return Err(Damage { at, what: SHARES_TOO_MUCH });
            }
            key.truncate(entry.shared);
            key.extend_from_slice(entry.suffix);
            match order.user(key, user) {
                Ordering::Equal if entry.trailer <= trailer => return Ok(Some((at, entry, true))),
                Ordering::Greater => return Ok(Some((at, entry, false))),
                Ordering::Equal | Ordering::Less => {}
            }
            at = entry.next;
        }
        Ok(None)
    }

    /// Checks everything: that the entries fill their room and ascend, that the restarts are
    /// entries with whole keys; and gives each internal key and value to `visit`. O(bytes).
    pub(crate) fn verify<E: From<Damage>>(
        &self,
        order: &Comparator,
        mut visit: impl FnMut(&[u8], &[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut key = Vec::new();
        let mut before = Vec::new();
        let mut restart = 0;
        let mut at = 0;
        while at < self.entries_end {
            let entry = self.entry(at)?;
            if restart < self.restarts && self.restart(restart)? == at {
                restart += 1;
                if entry.shared != 0 {
                    return Err(Damage { at, what: "a restart with a shared key" }.into());
                }
            }
            std::mem::swap(&mut key, &mut before);
            key.clear();
            let shared = user_of(&before).get(..entry.shared);
            key.extend_from_slice(shared.ok_or(Damage { at, what: SHARES_TOO_MUCH })?);
            key.extend_from_slice(entry.suffix);
            key.extend_from_slice(&entry.trailer.to_le_bytes());
            if at > 0 && order.internal(&before, &key) != Ordering::Less {
                return Err(Damage { at, what: "an entry out of order" }.into());
            }
            visit(&key, self.slice(entry.value))?;
            at = entry.next;
        }
        if restart != self.restarts {
            return Err(Damage { at, what: "a restart that is not at an entry" }.into());
        }
        Ok(())
    }
}

const SHARES_TOO_MUCH: &str = "an entry that shares more than there is";

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
