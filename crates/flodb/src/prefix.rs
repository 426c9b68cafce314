//! Keys as numbers, and the search in ascending numbers.
//!
//! The first eight bytes of a key, as a big-endian number, are ordered as the keys are. A search
//! over such numbers touches no key and has no branch that depends on one.
//!
//! ```text
//!   Ascending     root      [ 90 190 290 390 490 590 690 790 ]     the last of each line below
//!                             |    \
//!                 leaves    [ 11 .. 90 ] [ 101 .. 190 ] ...        all numbers, eight to a line
//! ```
//!
//! [`count_below`] halves an array: right for what fits a few cache lines. [`Ascending`] is for
//! thousands of numbers: it reads one line for each power of eight, where halving reads one for
//! each power of two. This is the implicit B+-tree of "Algorithmica" (S. Slotin, static B-trees)
//! without its vector instructions.

use crate::key::user_of;
use crate::memtable::mapping::prefetch;
use std::hint::select_unpredictable;
use std::ptr;

/// The first eight bytes as a number that is ordered as they are. Zeros fill up short keys.
#[inline]
pub(crate) fn prefix_of(bytes: &[u8]) -> u64 {
    if let Some(whole) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*whole);
    }
    bytes
        .iter()
        .enumerate()
        .fold(0, |prefix, (at, byte)| prefix | u64::from(*byte) << (56 - 8 * at))
}

/// The first sixteen bytes of the user key of an internal key, in the same way.
#[inline]
pub(crate) fn wide_prefix_of(internal: &[u8]) -> u128 {
    match internal.first_chunk::<16>() {
        Some(first) => {
            // What of them is the trailer, at most eight bytes, counts as zeros.
            let beyond = 16_usize.saturating_sub(user_of(internal).len());
            u128::from_be_bytes(*first) & (u128::MAX << (8 * beyond))
        }
        None => u128::from(prefix_of(user_of(internal))) << 64,
    }
}

/// How many of the ascending numbers are below `wanted`. No branch depends on them.
#[inline]
pub(crate) fn count_below(ascending: &[u64], wanted: u64) -> usize {
    let mut base = 0;
    let mut size = ascending.len();
    while size > 1 {
        let half = size / 2;
        let is_below = ascending[base + half - 1] < wanted;
        base = select_unpredictable(is_below, base + half, base);
        size -= half;
    }
    base + usize::from(ascending.get(base).is_some_and(|number| *number < wanted))
}

/// Numbers of a node, which is a cache line.
const FANOUT: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u64; FANOUT]);

impl Line {
    /// How many are below `wanted`.
    #[inline]
    fn count_below(&self, wanted: u64) -> usize {
        self.0.iter().map(|number| usize::from(*number < wanted)).sum()
    }
}

/// Many ascending numbers, with a tree above them.
#[derive(Debug, Default)]
pub(crate) struct Ascending {
    /// The leaves, then the level above them, and so on up to the root. `u64::MAX` fills up the
    /// last line of each level.
    lines: Box<[Line]>,
    /// The first line of each level, the root's first.
    levels: Box<[u32]>,
    len: usize,
    last: u64,
}

impl Ascending {
    /// Bytes of memory beside itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines) + size_of_val(&*self.levels)
    }

    /// Of numbers that ascend, fewer than 2^32. O(n).
    pub(crate) fn new(numbers: &[u64]) -> Self {
        let Some(&last) = numbers.last() else { return Ascending::default() };
        let (mut lines, mut levels) = (Vec::new(), Vec::new());
        let mut level = numbers.to_vec();
        loop {
            levels.push(lines.len() as u32);
            let chunks = level.chunks(FANOUT);
            let mut above = Vec::with_capacity(chunks.len());
            for chunk in chunks {
                let mut line = Line([u64::MAX; FANOUT]);
                line.0[..chunk.len()].copy_from_slice(chunk);
                above.push(chunk[chunk.len() - 1]);
                lines.push(line);
            }
            if above.len() == 1 {
                break;
            }
            level = above;
        }
        levels.reverse();
        Ascending { lines: lines.into(), levels: levels.into(), len: numbers.len(), last }
    }

    /// The number at `at`.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<u64> {
        (at < self.len).then(|| self.lines[at / FANOUT].0[at % FANOUT])
    }

    /// How many are below `wanted`. O(log n), a cache line for each power of eight.
    #[inline]
    pub(crate) fn count_below(&self, wanted: u64) -> usize {
        if self.len == 0 || self.last < wanted {
            return self.len;
        }
        let leaf = self.leaf_of(wanted);
        leaf * FANOUT + self.lines[leaf].count_below(wanted)
    }

    /// Asks for the line that [`Ascending::count_below`] reads last.
    #[inline]
    pub(crate) fn prefetch(&self, wanted: u64) {
        if self.len > 0 && self.last >= wanted {
            prefetch(ptr::from_ref(&self.lines[self.leaf_of(wanted)]).cast());
        }
    }

    /// The leaf with the first number that is not below `wanted`. There is one.
    #[inline]
    fn leaf_of(&self, wanted: u64) -> usize {
        // So each level has a line that ends with such a one. The last level begins with line 0.
        let inner = &self.levels[..self.levels.len() - 1];
        let child = |at: usize, start: &u32| {
            at * FANOUT + self.lines[*start as usize + at].count_below(wanted)
        };
        inner.iter().fold(0, child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::SEQUENCE_MAX;
    use crate::key::tests::put_key;
    use keyrack_testkit::random::{Announced, Draw, seeds};

    #[test]
    fn both_searches_count_as_a_plain_one() {
        for len in (0..80).chain([511, 512, 513, 4_095, 4_096, 4_097, 40_000]) {
            let ascending: Vec<u64> = (0..len).map(|number| number / 2 * 10).collect();
            let tree = Ascending::new(&ascending);
            let step = (len / 100).max(1) as usize;
            for wanted in (0..len * 5 + 20).step_by(step).chain([u64::MAX - 1, u64::MAX]) {
                let expected = ascending.partition_point(|number| *number < wanted);
                assert_eq!(count_below(&ascending, wanted), expected);
                assert_eq!(tree.count_below(wanted), expected, "{wanted} of {len}");
            }
            assert!((0..ascending.len()).all(|at| tree.get(at) == Some(ascending[at])));
            assert_eq!(tree.get(ascending.len()), None);
        }
    }

    #[test]
    fn numbers_at_the_end_are_told_from_what_fills_lines_up() {
        for seed in seeds() {
            let _announced = Announced(seed);
            let mut draw = Draw::new(seed);
            for _ in 0..200 {
                let len = draw.below(100);
                let number = |draw: &mut Draw| match draw.below(3) {
                    0 => u64::MAX - draw.below(3) as u64,
                    1 => draw.below(3) as u64,
                    _ => draw.next(),
                };
                let mut ascending: Vec<u64> = (0..len).map(|_| number(&mut draw)).collect();
                ascending.sort_unstable();
                let tree = Ascending::new(&ascending);
                for _ in 0..50 {
                    let wanted = number(&mut draw);
                    let expected = ascending.partition_point(|number| *number < wanted);
                    assert_eq!(tree.count_below(wanted), expected);
                    assert_eq!(count_below(&ascending, wanted), expected);
                }
            }
        }
    }

    #[test]
    fn wide_prefixes_are_those_of_the_user_key() {
        for len in 0..40 {
            let user: Vec<u8> = (1..=len).collect();
            let mut expected = [0; 16];
            let part = user.len().min(16);
            expected[..part].copy_from_slice(&user[..part]);
            let internal = put_key(&user, SEQUENCE_MAX);
            assert_eq!(wide_prefix_of(&internal), u128::from_be_bytes(expected), "{len} bytes");
        }
    }

    #[test]
    fn prefixes_are_ordered_as_keys_are() {
        let mut keys: Vec<&[u8]> =
            vec![b"", b"\0", b"\0\0", b"a", b"a\0", b"ab", b"abcdefgh", b"abcdefghi", b"\xff"];
        keys.sort_unstable();
        assert!(keys.is_sorted_by_key(|key| prefix_of(key)));
        assert_eq!(prefix_of(b"\x01\x02"), 0x0102 << 48);
        assert_eq!(prefix_of(b"\x01\x02\x03\x04\x05\x06\x07\x08\x09"), 0x0102_0304_0506_0708);
    }
}
