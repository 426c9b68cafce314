//! Where a search in a block begins, at an entry and not at a restart.
//!
//! ```text
//!   keys        user:0417  user:0420  user:0421  user:0433
//!   common      "user:04"                                     what all keys begin with
//!   prefixes    [ "17"      "20"       "21"       "33" ]      the next eight bytes, as numbers
//!   offsets     [ behind 17, behind 20, behind 21, the end ]  of the entry after each
//! ```
//!
//! A search by restarts decodes about eight entries of a block, one after the other, and each of
//! them lies on a cache line of its own. This array is what a block has in memory beside its bytes:
//! a search counts the prefixes below that of the wanted key, and begins behind the last of them.
//! It then decodes one entry. The array lies together, so it stays in the processor's caches where
//! the entries of all blocks would not.
//!
//! Keys of entries are shared with the entry before, so an entry alone does not tell its key. But
//! the entry before the place where the search begins has a known prefix. What it has in common
//! with the wanted key is the common part and the equal bytes of the two prefixes, and from there
//! on the search in `mod.rs` knows what it needs.
//!
//! An array takes ten bytes for an entry. Small entries share one: there is a prefix for each
//! [`SAMPLE_BYTES`] of the block at most, so that an array takes a tenth of its block. It is made
//! when a block is found in the cache for the second time, in one pass over the entries. A block
//! has none if it is larger than an offset can say, or if its entries contradict each other: then a
//! search begins at a restart.

use super::Block;
use crate::coding::common_prefix;
use crate::prefix::{count_below, prefix_of};

/// Bytes of a block for each prefix, at least.
const SAMPLE_BYTES: usize = 96;

/// Offsets in a word.
const OFFSETS: usize = 4;

/// Prefixes that are equal to the wanted one, from which on a search begins at a restart: there,
/// the whole key decides.
const EQUALS_MAX: usize = 8;

/// The beginning of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Start {
    /// The first entry to look at. Those before it are before the wanted key.
    pub(super) at: usize,
    /// Bytes that the entry before it and the wanted key have in common, as far as an entry may
    /// share them.
    pub(super) matched: usize,
    /// Bytes of the key of the entry before it, if they are not known to be enough.
    pub(super) key_len: usize,
}

impl Start {
    /// At an entry that shares nothing.
    pub(super) fn at_restart(at: usize) -> Self {
        Start { at, matched: 0, key_len: 0 }
    }
}

/// The prefixes of a block.
#[derive(Debug)]
pub(crate) struct PrefixIndex {
    /// Prefixes, then offsets, [`OFFSETS`] to a word, then the common bytes with zeros behind.
    words: Box<[u64]>,
    prefixes: u16,
    /// Bytes that all keys begin with.
    common: u32,
}

/// The prefix of a key that has `kept` of the eight bytes from the key before, and then `rest`.
#[inline]
fn spliced(before: u64, kept: usize, rest: &[u8]) -> u64 {
    let low = u64::MAX >> (8 * kept);
    before & !low | prefix_of(rest) >> (8 * kept)
}

impl PrefixIndex {
    /// The index of a block in the order of bytes. `None` if it cannot have one. O(entries).
    pub(super) fn new(block: &Block) -> Option<Self> {
        if block.entries_end > usize::from(u16::MAX) {
            return None;
        }
        let common = common_of(block)?;
        let first = block.entry(0).ok()?.suffix;
        let capacity = block.entries_end / SAMPLE_BYTES + 1;
        let mut words: Vec<u64> = Vec::with_capacity(capacity * 5 / 4 + common / 8 + 2);
        let mut offsets: Vec<u16> = Vec::with_capacity(capacity);
        let (mut at, mut sampled_at, mut key_len, mut prefix) = (0, 0, 0, 0);
        while at < block.entries_end {
            let entry = block.entry(at).ok()?;
            let (shared, suffix) = (entry.shared, entry.suffix);
            if shared > key_len {
                return None;
            }
            key_len = shared + suffix.len();
            let before = prefix;
            if shared < common {
                if suffix.get(..common - shared)? != &first[shared..common] {
                    return None;
                }
                prefix = prefix_of(&suffix[common - shared..]);
            } else if shared < common + size_of::<u64>() {
                prefix = spliced(prefix, shared - common, suffix);
            }
            if prefix < before {
                return None;
            }
            at = entry.next;
            if at - sampled_at >= SAMPLE_BYTES || at == block.entries_end {
                words.push(prefix);
                offsets.push(at as u16);
                sampled_at = at;
            }
        }
        let prefixes = offsets.len() as u16;
        let word = |chunk: &[u16]| {
            chunk.iter().rev().fold(0, |word, offset| word << 16 | u64::from(*offset))
        };
        words.extend(offsets.chunks(OFFSETS).map(word));
        words.extend(first[..common].chunks(8).map(padded));
        Some(PrefixIndex { words: words.into(), prefixes, common: common as u32 })
    }

    /// Where the search for a key begins. `None` if a restart is a better place.
    #[inline]
    pub(super) fn start(&self, user: &[u8]) -> Option<Start> {
        let count = usize::from(self.prefixes);
        let (prefixes, rest) = self.words.split_at(count);
        let (offsets, common) = rest.split_at(count.div_ceil(OFFSETS));
        let (head, tail) = user.split_at_checked(self.common as usize)?;
        let (whole, part) = head.as_chunks::<8>();
        let (equals, last) = common.split_at_checked(whole.len())?;
        let is_common = whole.iter().zip(equals).all(|(a, b)| u64::from_le_bytes(*a) == *b)
            && last.first().is_none_or(|last| padded(part) == *last);
        if !is_common {
            return None;
        }
        let wanted = prefix_of(tail);
        let below = count_below(prefixes, wanted);
        if prefixes.get(below + EQUALS_MAX) == Some(&wanted) {
            return None;
        }
        let Some(last) = below.checked_sub(1) else { return Some(Start::at_restart(0)) };
        let at = (offsets[last / OFFSETS] >> (16 * (last % OFFSETS))) as u16;
        // The two differ, and the first byte that does is not a zero behind the wanted key.
        let equal = (prefixes[last] ^ wanted).leading_zeros() as usize / 8;
        // That no entry shares more than there is was checked when the index was made.
        Some(Start { at: usize::from(at), matched: head.len() + equal, key_len: usize::MAX })
    }

    /// Where it is in memory.
    pub(super) fn at(&self) -> *const u64 {
        self.words.as_ptr()
    }

    /// Bytes of memory beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

/// At most eight bytes as a word, with zeros behind.
#[inline]
fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Bytes that all keys of a sorted block have in common. At most as many as there are, and fewer if
/// its writer has shared less than it could.
fn common_of(block: &Block) -> Option<usize> {
    let first = block.entry(0).ok()?;
    let (_, last) = block.restart_entry(block.restarts - 1).ok()?;
    let mut common = common_prefix(first.suffix, last.suffix);
    let mut at = last.next;
    while at < block.entries_end {
        let entry = block.entry(at).ok()?;
        common = common.min(entry.shared);
        at = entry.next;
    }
    Some(common)
}
