//! Which block of a table has a key.
//!
//! ```text
//!   stored, an entry each data block:
//!     shared: varint | unshared: varint | the last `unshared` bytes of the separator
//!     | bytes of the block: varint | checksum of the block: u64
//!
//!   in memory:
//!     common        "user/"                         the bytes that all separators begin with
//!     prefixes      [ 000421.. | 000877.. | ... ]   of each separator, the next eight as a number
//!     separators    user/00042113 trailer user/0008771 trailer ...
//!     blocks        [ offset, bytes, checksum | ... ]
//! ```
//!
//! A separator is an internal key: not before the last key of its block, and before the first key
//! of the next. The block that may have a key is therefore the first whose separator is not before
//! it. Data blocks stand one behind the other from the beginning of the file, so only their sizes
//! are stored.
//!
//! With the bytewise order the search runs over the prefixes, which are the leaves of a tree with
//! eight numbers to a cache line ([`crate::prefix`]), without branches that depend on keys.
//! Separators are only looked at where the prefix is that of the wanted key. With any other order
//! the search compares separators.

use super::format::Handle;
use crate::coding::{Reader, common_prefix, put_varint};
use crate::key::{self, Comparator, Kind, SEQUENCE_MAX};
use crate::prefix::{Ascending, prefix_of};
use std::cmp::Ordering;

/// The least bytes of a stored entry: a separator is at least a trailer.
const ENTRY_BYTES_MIN: usize = 1 + 1 + key::TRAILER_BYTES + 1 + 8;

#[cfg(test)]
thread_local! {
    /// Searches of this thread in indexes.
    pub(crate) static FINDS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The stored index of a table that is being written.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    bytes: Vec<u8>,
    last: Vec<u8>,
}

impl IndexBuilder {
    pub(super) fn add(&mut self, separator: &[u8], block: Handle) {
        let shared = common_prefix(&self.last, separator);
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, (separator.len() - shared) as u64);
        self.bytes.extend_from_slice(&separator[shared..]);
        put_varint(&mut self.bytes, u64::from(block.bytes));
        self.bytes.extend_from_slice(&block.checksum.to_le_bytes());
        self.last.truncate(shared);
        self.last.extend_from_slice(&separator[shared..]);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The separator between two neighbours that are in different blocks, as short as the order
/// permits.
pub(super) fn separator(order: &Comparator, before: &[u8], behind: &[u8]) -> Vec<u8> {
    let (low, high) = (key::user_of(before), key::user_of(behind));
    let shared = common_prefix(low, high);
    if let (true, Some(&end)) = (order.is_bytewise(), high.get(shared)) {
        // Cutting `high` behind the first byte that differs gives a key between the two, if
        // something of `high` is cut off. Otherwise that key would be `high` itself.
        let mut short = Vec::with_capacity(shared + 1 + key::TRAILER_BYTES);
        short.extend_from_slice(&low[..shared]);
        if shared + 1 < high.len() {
            short.push(end);
        } else if low.get(shared).is_some_and(|start| start + 1 < end) {
            short.push(end - 1);
        }
        if short.len() > shared && short.len() < low.len() {
            // Of all entries of this user key, the first.
            let user = std::mem::take(&mut short);
            key::append(&mut short, &user, SEQUENCE_MAX, Kind::BOUND);
            return short;
        }
    }
    before.to_vec()
}

/// The index of an open table.
#[derive(Debug)]
pub(super) struct Index {
    /// Of the user keys of the separators.
    common: usize,
    prefixes: Ascending,
    /// All separators, and where each ends.
    separators: Box<[u8]>,
    ends: Box<[u32]>,
    blocks: Box<[Handle]>,
}

impl Index {
    /// Reads a stored index of data blocks that begin the file and end at `data_bytes`. There may
    /// be none.
    pub(super) fn parse(
        stored: &[u8],
        data_bytes: u64,
        order: &Comparator,
    ) -> Result<Self, &'static str> {
        let mut reader = Reader::new(stored);
        let entries_max = stored.len() / ENTRY_BYTES_MIN;
        let mut separators = Vec::new();
        let mut ends: Vec<u32> = Vec::with_capacity(entries_max.min(1 << 16));
        let mut blocks: Vec<Handle> = Vec::with_capacity(ends.capacity());
        let mut start = 0;
        while !reader.is_empty() {
            let entry = take_entry(&mut reader).ok_or("an index that ends within an entry")?;
            let before = start;
            start = separators.len();
            if entry.shared > start - before {
                return Err("an index entry that shares more than there is");
            }
            separators.extend_from_within(before..before + entry.shared);
            separators.extend_from_slice(entry.suffix);
            ends.push(u32::try_from(separators.len()).map_err(|_| "an index beyond 4 GiB")?);
            let (last, this) = (&separators[before..start], &separators[start..]);
            key::parse(this).ok_or("a separator that is not a key")?;
            if start > 0 && order.internal(last, this) != Ordering::Less {
                return Err("separators out of order");
            }
            let offset = blocks.last().map_or(0, |block| block.end());
            blocks.push(Handle { offset, bytes: entry.bytes, checksum: entry.checksum });
        }
        if blocks.last().map_or(0, |block| block.end()) != data_bytes {
            return Err("an index of other blocks than there are");
        }
        let mut index = Index {
            common: 0,
            prefixes: Ascending::default(),
            separators: separators.into(),
            ends: ends.into(),
            blocks: blocks.into(),
        };
        if order.is_bytewise() && index.len() > 0 {
            let user = |at| key::user_of(index.separator(at));
            let common = common_prefix(user(0), user(index.len() - 1));
            let prefixes: Vec<u64> =
                (0..index.len()).map(|at| prefix_of(&user(at)[common..])).collect();
            (index.common, index.prefixes) = (common, Ascending::new(&prefixes));
        }
        Ok(index)
    }

    /// Bytes of memory of all that it has.
    pub(super) fn memory_bytes(&self) -> usize {
        self.prefixes.memory_bytes()
            + size_of_val(&*self.separators)
            + size_of_val(&*self.ends)
            + size_of_val(&*self.blocks)
    }

    /// Blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn block(&self, at: usize) -> Handle {
        self.blocks[at]
    }

    #[inline]
    pub(super) fn separator(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.separators[start as usize..self.ends[at] as usize]
    }

    /// The first block whose separator is not before the user key with this trailer; [`Index::len`]
    /// if all are. O(log blocks).
    #[inline]
    pub(super) fn find(&self, order: &Comparator, user: &[u8], trailer: u64) -> usize {
        #[cfg(test)]
        FINDS.set(FINDS.get() + 1);
        let is_bytewise = order.is_bytewise();
        let (mut low, mut high) = if is_bytewise { self.candidates(user) } else { (0, self.len()) };
        while low < high {
            let middle = low + (high - low) / 2;
            let separator = self.separator(middle);
            let is_before = match order.user(key::user_of(separator), user) {
                Ordering::Less => true,
                Ordering::Equal => key::parse(separator)
                    .is_some_and(|key| key::trailer(key.sequence, key.kind) > trailer),
                Ordering::Greater => false,
            };
            if is_before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Asks for what [`Index::find`] reads last of the prefixes.
    #[inline]
    pub(super) fn prefetch(&self, user: &[u8]) {
        if let Some(rest) = user.get(self.common..) {
            self.prefixes.prefetch(prefix_of(rest));
        }
    }

    /// The separators that the prefix does not tell from `user`: those below the first are before
    /// it, those from the second on are behind.
    #[inline]
    fn candidates(&self, user: &[u8]) -> (usize, usize) {
        if self.blocks.is_empty() {
            return (0, 0);
        }
        let common = &self.separator(0)[..self.common];
        let head = &user[..user.len().min(self.common)];
        match head.cmp(common) {
            // Also a proper prefix of what is common.
            Ordering::Less => return (0, 0),
            Ordering::Greater => return (self.len(), self.len()),
            Ordering::Equal => {}
        }
        let wanted = prefix_of(&user[self.common..]);
        let low = self.prefixes.count_below(wanted);
        let same = (low..low + 4).take_while(|at| self.prefixes.get(*at) == Some(wanted));
        match same.count() {
            few @ 0..4 => (low, low + few),
            _ => {
                let high = wanted.checked_add(1);
                (low, high.map_or(self.len(), |high| self.prefixes.count_below(high)))
            }
        }
    }
}

struct StoredEntry<'a> {
    shared: usize,
    suffix: &'a [u8],
    bytes: u32,
    checksum: u64,
}

fn take_entry<'a>(reader: &mut Reader<'a>) -> Option<StoredEntry<'a>> {
    let (shared, unshared) = (reader.count()?, reader.count()?);
    let suffix = reader.bytes(unshared)?;
    let bytes = u32::try_from(reader.varint()?).ok()?;
    Some(StoredEntry { shared, suffix, bytes, checksum: reader.u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::put_key as internal;
    use keyrack_testkit::random::{Draw, seeds};

    fn index_of(separators: &[Vec<u8>], order: &Comparator) -> Index {
        let mut builder = IndexBuilder::default();
        let mut offset = 0;
        for (at, separator) in separators.iter().enumerate() {
            let block = Handle { offset, bytes: 1 + at as u32, checksum: at as u64 };
            offset = block.end();
            builder.add(separator, block);
        }
        let index = Index::parse(builder.bytes(), offset, order).unwrap();
        for (at, separator) in separators.iter().enumerate() {
            assert_eq!(index.separator(at), separator);
            assert_eq!(index.block(at).checksum, at as u64);
        }
        index
    }

    /// Keys that share much and little, and end in zeros, which look like what fills prefixes up.
    fn random_user(draw: &mut Draw) -> Vec<u8> {
        let mut user = b"shared".repeat(draw.below(2));
        user.extend((0..draw.below(12)).map(|_| *draw.one_of(&[0, 0, 1, b'a', 0xff])));
        user
    }

    #[test]
    fn the_block_of_any_key_is_that_of_a_plain_search() {
        for seed in seeds() {
            let mut draw = Draw::new(seed);
            for _ in 0..300 {
                let fixed = if draw.below(2) == 0 { &b"all of them/"[..] } else { b"" };
                let key = |draw: &mut Draw| {
                    internal(&[fixed, &random_user(draw)].concat(), 1 + draw.below(3) as u64)
                };
                let order = Comparator::Bytewise;
                let mut separators: Vec<Vec<u8>> =
                    (0..1 + draw.below(40)).map(|_| key(&mut draw)).collect();
                separators.sort_by(|a, b| order.internal(a, b));
                separators.dedup();
                let index = index_of(&separators, &order);
                let mut targets: Vec<Vec<u8>> = (0..50).map(|_| key(&mut draw)).collect();
                targets.push(internal(b"all", 1));
                targets.push(internal(b"", 1));
                targets.push(internal(b"\xff\xff", 1));
                targets.extend(separators.clone());
                for target in &targets {
                    let expected = separators
                        .partition_point(|it| order.internal(it, target) == Ordering::Less);
                    let parsed = key::parse(target).unwrap();
                    let trailer = key::trailer(parsed.sequence, parsed.kind);
                    let found = index.find(&order, parsed.user, trailer);
                    assert_eq!(found, expected, "SEED={seed}: {target:?} in {separators:?}");
                }
            }
        }
    }

    #[test]
    fn separators_separate_and_are_short() {
        let order = Comparator::Bytewise;
        for seed in seeds() {
            let mut draw = Draw::new(seed);
            for _ in 0..20_000 {
                let mut pair = [
                    internal(&random_user(&mut draw), draw.next() >> 8),
                    internal(&random_user(&mut draw), draw.next() >> 8),
                ];
                pair.sort_by(|a, b| order.internal(a, b));
                let between = separator(&order, &pair[0], &pair[1]);
                assert!(order.internal(&pair[0], &between).is_le(), "SEED={seed}: {pair:?}");
                assert!(order.internal(&between, &pair[1]).is_lt(), "SEED={seed}: {pair:?}");
                assert!(between.len() <= pair[0].len(), "SEED={seed}: {pair:?}");
            }
        }
        let short = |low: &[u8], high: &[u8]| {
            let key = separator(&order, &internal(low, 1), &internal(high, 1));
            key::user_of(&key).to_vec()
        };
        assert_eq!(short(b"abcdef", b"abzzzz"), b"abz");
        assert_eq!(short(b"abcdef", b"abz"), b"aby");
        assert_eq!(short(b"abcdef", b"abd"), b"abcdef");
        assert_eq!(short(b"abc", b"abcd"), b"abc");
    }

    #[test]
    fn a_damaged_index_is_refused_or_read() {
        let mut builder = IndexBuilder::default();
        let mut block = Handle { offset: 0, bytes: 500, checksum: 0xdead };
        for user in [&b"apple"[..], b"apricot", b"banana", b"bandana"] {
            builder.add(&internal(user, 9), block);
            block.offset = block.end();
        }
        let order = Comparator::Bytewise;
        let stored = builder.bytes();
        assert!(Index::parse(stored, block.offset, &order).is_ok());
        assert!(Index::parse(stored, block.offset + 1, &order).is_err());
        assert!(Index::parse(&[], 1, &order).is_err(), "no block, but data");
        let none = Index::parse(&[], 0, &order).unwrap();
        assert_eq!((none.len(), none.find(&order, b"any", 0)), (0, 0));
        for end in 0..stored.len() {
            assert!(Index::parse(&stored[..end], block.offset, &order).is_err(), "cut at {end}");
        }
        for at in 0..stored.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = stored.to_vec();
                damaged[at] ^= flip;
                let _ = Index::parse(&damaged, block.offset, &order);
            }
        }
    }
}
