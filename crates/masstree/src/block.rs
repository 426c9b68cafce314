//! Immutable bytes behind one word, with a birth and a few words of their own.
//!
//! ```text
//!   word --> | birth: 48 bits, length: 16 bits | words | far length? | bytes ...      8-aligned
//! ```
//!
//! A word is what a node's atomic slot can hold. A length of 65535 says that the true one is the
//! far length. The birth is the era in which the block was made, for its retirement. Everything but
//! the words is written before the block is published, and never again.

use keyrack_concurrent::{Era, Retired, birth};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr;

pub(crate) const WORD_BYTES: usize = size_of::<u64>();
const LENGTH_BITS: u32 = 16;
/// The length is elsewhere.
const LENGTH_FAR: u64 = (1 << LENGTH_BITS) - 1;

/// Where the parts of a block with so many words lie.
struct Parts {
    far: Option<usize>,
    bytes: usize,
}

impl Parts {
    fn of(words: usize, len: u64) -> Self {
        let end = WORD_BYTES * (1 + words);
        if len < LENGTH_FAR {
            Parts { far: None, bytes: end }
        } else {
            Parts { far: Some(end), bytes: end + WORD_BYTES }
        }
    }

    /// The layout of the block. A slice in memory is shorter than `isize::MAX`; so close to that
    /// limit no allocation succeeds anyway.
    fn layout(&self, len: usize) -> Layout {
        let size = self.bytes.saturating_add(len).min(isize::MAX as usize - WORD_BYTES);
        Layout::from_size_align(size, align_of::<u64>()).expect("the size is below isize::MAX")
    }
}

fn word_at(raw: u64, offset: usize) -> *const u64 {
    ptr::with_exposed_provenance::<u8>(raw as usize).wrapping_add(offset).cast()
}

/// The address of word `index` of a block.
pub(crate) fn word(raw: u64, index: usize) -> *const u64 {
    word_at(raw, WORD_BYTES * (1 + index))
}

/// A new block with so many words, all zero, and a copy of `bytes`. It leaks until [`free`].
pub(crate) fn make(words: usize, bytes: &[u8]) -> u64 {
    let len = bytes.len() as u64;
    let parts = Parts::of(words, len);
    let layout = parts.layout(bytes.len());
    // SAFETY: the layout has at least the size of the first word, so it is not empty.
    let head = unsafe { alloc(layout) };
    if head.is_null() {
        handle_alloc_error(layout);
    }
    let first = birth().bits() << LENGTH_BITS | len.min(LENGTH_FAR);
    let fixed = std::iter::once(first).chain(std::iter::repeat_n(0, words));
    for (at, word) in fixed.chain(parts.far.map(|_| len)).enumerate() {
        let address = head.wrapping_add(at * WORD_BYTES).cast::<u64>();
        // SAFETY: the block has room and alignment for so many words before the bytes.
        unsafe { address.write(word) };
    }
    let body = head.wrapping_add(parts.bytes);
    // SAFETY: the source is a slice, the target has room for it, and they do not overlap: it is
    // new.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), body, bytes.len()) };
    head.expose_provenance() as u64
}

/// The bytes of a block.
///
/// # Safety
/// `raw` came from [`make`] with as many words and is not freed during `'g`.
#[inline]
pub(crate) unsafe fn bytes<'g>(raw: u64, words: usize) -> &'g [u8] {
    // SAFETY: a block begins with this word.
    let short = unsafe { word_at(raw, 0).read() } & LENGTH_FAR;
    let parts = Parts::of(words, short);
    let len = match parts.far {
        None => short,
        // SAFETY: the length is not in the first word, so it is here.
        Some(far) => unsafe { word_at(raw, far).read() },
    };
    // SAFETY: the bytes were written when the block was made, nobody changes them, and it lives for
    // 'g.
    unsafe { std::slice::from_raw_parts(word_at(raw, parts.bytes).cast(), len as usize) }
}

/// Gives a block back.
///
/// # Safety
/// `raw` came from [`make`] with as many words, and nobody uses it any more.
pub(crate) unsafe fn free(raw: u64, words: usize) {
    // SAFETY: as the caller promises.
    let len = unsafe { bytes(raw, words) }.len();
    let layout = Parts::of(words, len as u64).layout(len);
    // SAFETY: the block was allocated with this layout.
    unsafe { dealloc(word_at(raw, 0).cast_mut().cast(), layout) };
}

/// What is needed to retire a block.
///
/// # Safety
/// `raw` came from [`make`] with as many words and is not freed.
pub(crate) unsafe fn retired(raw: u64, words: usize, free: unsafe fn(u64)) -> Retired {
    // SAFETY: a block begins with this word.
    let first = unsafe { word_at(raw, 0).read() };
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes(raw, words) }.len() + WORD_BYTES * (1 + words);
    Retired { word: raw, bytes, birth: Era::from_bits(first >> LENGTH_BITS), free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_what_they_were_made_of() {
        for words in [0, 1, 3] {
            for len in [0, 1, 7, 8, 9, 65_533, 65_534, 65_535, 65_536, 200_000] {
                let text: Vec<u8> = (0..len).map(|n| n as u8).collect();
                let raw = make(words, &text);
                assert_eq!(raw % 8, 0);
                for index in 0..words {
                    // SAFETY: made above, freed below.
                    assert_eq!(unsafe { word(raw, index).read() }, 0);
                }
                // SAFETY: made above, freed below.
                assert_eq!(unsafe { bytes(raw, words) }, text);
                // SAFETY: made above, freed below.
                let retired = unsafe { retired(raw, words, drop) };
                assert!(retired.birth.bits() <= birth().bits());
                assert_eq!(retired.bytes, len + 8 * (1 + words));
                // SAFETY: made above, and not used again.
                unsafe { free(raw, words) };
            }
        }
    }
}
