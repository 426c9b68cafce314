//! Prefixes of layers: what all keys of a layer share beyond the slice that leads to it.
//!
//! ```text
//!   count  word[..]      1, 2, 4, 16, 128 or 1024 lines: up to 56, 120, 248, ... 65,528 bytes
//! ```
//!
//! A prefix has whole words of eight bytes, read big-endian as slices are. It is written before the
//! root of its layer names it, and never changes. It lies in the arena beside the nodes, so that a
//! node needs four bytes for it.
//!
//! As with nodes, memory of a prefix is only ever reused for prefixes of its size, and a reader may
//! look at one that went: all fields are atomics, and the count never exceeds the size. The version
//! of the root tells whether it was the right one. A root loses its prefix under its mark, and the
//! mark is visible to whoever sees a word of a later prefix.

use crate::key::{SLICE_BYTES, slice_of};
use keyrack_concurrent::atomic::{AtomicU64, Ordering, fence};
use keyrack_concurrent::{Part, UNIT_BYTES};

use std::cmp::Ordering as Order;

/// The sizes of prefixes, in lines.
pub(crate) const PREFIX_LINES: [usize; 6] = [1, 2, 4, 16, 128, 1024];

const fn words_max(lines: usize) -> usize {
    lines * UNIT_BYTES / SLICE_BYTES - 1
}

/// Words of the longest prefix.
pub(crate) const PREFIX_WORDS_MAX: usize = words_max(PREFIX_LINES[PREFIX_LINES.len() - 1]);

/// Which of the sizes a prefix of so many words has.
pub(crate) fn size_of_prefix(words: usize) -> usize {
    let size = PREFIX_LINES.iter().position(|lines| words <= words_max(*lines));
    size.expect("a prefix is not longer than the longest")
}

/// The prefix of a layer.
#[derive(Clone, Copy)]
pub(crate) struct Prefix<'t> {
    count: &'t AtomicU64,
    words: &'t [AtomicU64],
}

impl<'t> Prefix<'t> {
    /// The prefix at an address.
    ///
    /// # Safety
    /// Memory for a prefix is there, for as long as `'t`. It began as zeros.
    #[inline]
    pub(crate) unsafe fn at(address: *const u8) -> Self {
        let first = address.cast::<AtomicU64>();
        // SAFETY: as the caller promises. Everybody uses the words as atomics.
        let count = unsafe { &*first };
        let len = count.load(Ordering::Relaxed) as usize;
        // SAFETY: the count is that of some prefix of this size, so the memory has as many words.
        let words = unsafe { std::slice::from_raw_parts(first.wrapping_add(1), len) };
        Prefix { count, words }
    }

    /// Writes a prefix into memory of its size that no entry names.
    ///
    /// # Safety
    /// As for [`Prefix::at`].
    pub(crate) unsafe fn write(address: *const u8, words: &[u64]) {
        // A reader that sees one of the words sees the mark under which the last prefix went.
        fence(Ordering::Release);
        // SAFETY: as the caller promises.
        let count = unsafe { Prefix::at(address) }.count;
        count.store(words.len() as u64, Ordering::Relaxed);
        // SAFETY: as above; the count was stored.
        let prefix = unsafe { Prefix::at(address) };
        for (word, value) in prefix.words.iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// How many words there are, from 1 on.
    pub(crate) fn len(self) -> usize {
        self.words.len()
    }

    pub(crate) fn words(self) -> impl ExactSizeIterator<Item = u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed))
    }

    /// How many bytes there are.
    pub(crate) fn bytes(self) -> usize {
        self.len() * SLICE_BYTES
    }

    /// Whether `rest` begins with the prefix and continues after it.
    #[inline]
    pub(crate) fn leads_to(self, rest: &[u8]) -> bool {
        rest.len() > self.bytes()
            && self
                .words()
                .zip(rest.chunks_exact(SLICE_BYTES))
                .all(|(word, chunk)| word == slice_of(chunk))
    }

    /// The words of the prefix that `rest` begins with and continues after.
    pub(crate) fn shared(self, rest: &[u8]) -> usize {
        let chunks = rest[..rest.len().saturating_sub(1)].chunks_exact(SLICE_BYTES);
        self.words().zip(chunks).take_while(|(word, chunk)| *word == slice_of(chunk)).count()
    }

    /// As the bytes compare with those of `rest`.
    pub(crate) fn compare(self, rest: &[u8]) -> Order {
        self.words().flat_map(u64::to_be_bytes).cmp(rest.iter().copied())
    }

    /// Where it is.
    pub(crate) fn part(self) -> Part {
        let bytes = (1 + self.len()) * SLICE_BYTES;
        Part { bytes, ..Part::of("prefix", self.count) }
    }

    /// Appends the bytes.
    pub(crate) fn append_to(self, key: &mut Vec<u8>) {
        key.extend(self.words().flat_map(u64::to_be_bytes));
    }
}

/// The words that all keys begin with and continue after, of which `rests` are left.
pub(crate) fn common_words<'k>(mut rests: impl Iterator<Item = &'k [u8]>) -> usize {
    let first = rests.next().expect("a layer has keys");
    let whole = |rest: &[u8]| rest.len().saturating_sub(1) / SLICE_BYTES;
    rests.fold(whole(first), |words, rest| {
        let shared = first.iter().zip(rest).take_while(|(a, b)| a == b).count();
        words.min(shared / SLICE_BYTES).min(whole(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room for some prefix.
    fn room() -> [AtomicU64; 32] {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    fn written<'t>(room: &'t [AtomicU64], bytes: &[u8]) -> Prefix<'t> {
        let words: Vec<u64> = bytes.chunks_exact(SLICE_BYTES).map(slice_of).collect();
        let address = room.as_ptr().cast();
        // SAFETY: the room is for 31 words, began as zeros, and lives for 't.
        unsafe { Prefix::write(address, &words) };
        // SAFETY: as above.
        unsafe { Prefix::at(address) }
    }

    #[test]
    fn sizes_hold_their_words() {
        for words in 1..=PREFIX_WORDS_MAX {
            let size = size_of_prefix(words);
            assert!(words <= words_max(PREFIX_LINES[size]));
            assert!(size == 0 || words > words_max(PREFIX_LINES[size - 1]));
        }
        assert_eq!(PREFIX_WORDS_MAX, 8191);
    }

    #[test]
    fn a_prefix_leads_to_the_keys_that_continue_after_it() {
        let room = room();
        let prefix = written(&room, b"the first and the second");
        assert_eq!((prefix.len(), prefix.bytes()), (3, 24));
        assert!(prefix.leads_to(b"the first and the second one"));
        for rest in [&b"the first and the second"[..], b"the first", b"the first and the third"] {
            assert!(!prefix.leads_to(rest));
        }
        let mut key = b"key of ".to_vec();
        prefix.append_to(&mut key);
        assert_eq!(key, b"key of the first and the second");
    }

    #[test]
    fn shared_words_leave_something_of_the_key() {
        let room = room();
        let prefix = written(&room, b"the first and the second");
        for (rest, shared) in [
            (&b""[..], 0),
            (b"the firs", 0),
            (b"the first", 1),
            (b"the first and the third", 2),
            (b"the first and the second", 2),
            (b"the first and the second one", 3),
        ] {
            assert_eq!(prefix.shared(rest), shared, "{rest:?}");
        }
    }

    #[test]
    fn the_common_words_of_keys_are_whole_and_leave_something_of_each() {
        let common = |keys: &[&[u8]]| common_words(keys.iter().copied());
        assert_eq!(common(&[b""]), 0);
        assert_eq!(common(&[b"12345678"]), 0);
        assert_eq!(common(&[b"123456789"]), 1);
        assert_eq!(common(&[b"123456789", b"12345678"]), 0);
        assert_eq!(common(&[b"12345678abcdefghi", b"12345678abcdefghj"]), 2);
        assert_eq!(common(&[b"12345678abcdefghi", b"12345678abcdefgi"]), 1);
        assert_eq!(common(&[b"x2345678abcdefghi", b"12345678abcdefghi"]), 0);
    }

    #[test]
    fn prefixes_compare_as_their_bytes_do() {
        let room = room();
        let prefix = written(&room, b"mmmmmmmmnnnnnnnn");
        assert_eq!(prefix.compare(b"mmmm"), Order::Greater);
        assert_eq!(prefix.compare(b"mmmmmmmmnnnnnnnm"), Order::Greater);
        assert_eq!(prefix.compare(b"mmmmmmmmnnnnnnnn"), Order::Equal);
        assert_eq!(prefix.compare(b"mmmmmmmmnnnnnnno"), Order::Less);
        assert_eq!(prefix.compare(b"z"), Order::Less);
    }
}
