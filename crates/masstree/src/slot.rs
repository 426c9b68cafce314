//! What a tree can hold: anything that is published by one store of one word.
//!
//! | type | the word | given as | lent as |
//! |---|---|---|---|
//! | `u64` | the number | `u64` | `u64` |
//! | [`Bytes`] | short strings and decimal numbers in the word itself, else a blob | `&[u8]` | [`BytesRef`] |
//! | [`Boxed<T>`] | the pointer | `T` | `&T` |
//!
//! ```text
//!   Bytes   | number, 60 bits           | 0 1 0 |   the decimal text of the number, 8 to 18 digits
//!           | byte 6 ... byte 0 | length << 1 | 1 |     up to seven bytes
//!           | pointer to a blob         | 0 0 0 |
//! ```
//!
//! Counters, identifiers and times in decimal are what short values often are, and a value in the
//! word saves a cache miss for every read. Text that is not what printing the number gives (a
//! leading zero, a sign) goes into a blob.

use crate::blob;
use crate::key::slice_of;
use keyrack_concurrent::{Era, Guard, Retired, birth};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// Bytes that fit into the word beside tag and length.
const INLINE_BYTES_MAX: usize = 7;
/// Digits of a number that fits into the word beside its tag.
const DIGITS_MAX: usize = 18;
const TAG_BITS: u32 = 3;
const TAG_DECIMAL: u64 = 0b010;

/// A kind of value. Sealed: `u64`, [`Bytes`] and [`Boxed`] are all there are.
pub trait Slot: raw::Raw {}

impl Slot for u64 {}
impl Slot for Bytes {}
impl<T: Send + Sync + 'static> Slot for Boxed<T> {}

/// Values that can be compared with what is stored. Sealed, as [`Slot`] is.
pub trait Comparable: Slot {
    /// Whether the stored value is `given`.
    fn same(stored: &Self::Ref<'_>, given: &Self::In<'_>) -> bool;
}

impl Comparable for u64 {
    fn same(stored: &u64, given: &u64) -> bool {
        stored == given
    }
}

impl Comparable for Bytes {
    fn same(stored: &BytesRef<'_>, given: &&[u8]) -> bool {
        **stored == **given
    }
}

/// Marks a tree of byte strings.
#[derive(Clone, Copy, Debug)]
pub enum Bytes {}

/// Marks a tree of values of any type, each behind a pointer.
#[derive(Debug)]
pub struct Boxed<T>(PhantomData<fn() -> T>);

/// A byte string that a tree lends.
#[derive(Clone, Copy)]
pub struct BytesRef<'g> {
    inner: Inner<'g>,
}

#[derive(Clone, Copy)]
enum Inner<'g> {
    /// The text is from the first place up to the second.
    Inline([u8; DIGITS_MAX], u8, u8),
    Blob(&'g [u8]),
}

impl Deref for BytesRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.inner {
            Inner::Inline(text, start, end) => &text[usize::from(*start)..usize::from(*end)],
            Inner::Blob(bytes) => bytes,
        }
    }
}

impl fmt::Debug for BytesRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// What stands behind [`Slot`].
pub(crate) mod raw {
    use super::*;

    /// A value as a word.
    pub trait Raw: Sized + 'static {
        /// What a caller gives.
        type In<'a>;
        /// What a reader gets.
        type Ref<'g>: Copy;

        /// Whether words may be pointers. Then no word is 0.
        const POINTERS: bool;

        /// The word; whatever it points to leaks until [`Raw::free`].
        fn make(value: Self::In<'_>) -> u64;

        /// Whether the word owns memory.
        fn owns(raw: u64) -> bool;

        /// The value of a word.
        ///
        /// # Safety
        /// `raw` came from [`Raw::make`] and is not freed during `'g`.
        unsafe fn lend<'g>(raw: u64) -> Self::Ref<'g>;

        /// Drops the value.
        ///
        /// # Safety
        /// `raw` came from [`Raw::make`], and nobody uses it any more.
        unsafe fn free(raw: u64);

        /// Drops the value of a word that owns memory, once nobody can look at it any more.
        ///
        /// # Safety
        /// `raw` came from [`Raw::make`], is unlinked by this thread, and retired once.
        unsafe fn retire(raw: u64, guard: &Guard);
    }
}

impl raw::Raw for u64 {
    type In<'a> = u64;
    type Ref<'g> = u64;

    const POINTERS: bool = false;

    fn make(value: u64) -> u64 {
        value
    }

    fn owns(_: u64) -> bool {
        false
    }

    unsafe fn lend<'g>(raw: u64) -> Self::Ref<'g> {
        raw
    }

    unsafe fn free(_: u64) {}

    unsafe fn retire(_: u64, _: &Guard) {}
}

/// The number whose decimal text this is, if it is one of 8 to 18 digits.
#[inline]
fn decimal(text: &[u8]) -> Option<u64> {
    if text.len() > DIGITS_MAX || text[0] == b'0' {
        return None;
    }
    let (head, tail) = text.split_first_chunk::<8>()?;
    let start = eight_digits(u64::from_le_bytes(*head))?;
    tail.iter().try_fold(start, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + u64::from(digit))
    })
}

/// The number of eight digits, the first in the lowest byte: neighbours are joined, three times.
#[inline]
fn eight_digits(text: u64) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let digits = text.wrapping_sub(ZEROS);
    // A byte below '0' borrows or becomes large, one above '9' carries into its upper half.
    if (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = (digits * 10 + (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    Some((fours * 10_000 + (fours >> 32)) & 0xFFFF_FFFF)
}

/// The decimal text of `number`, which ends at the end, and its first place.
#[inline]
fn text_of(mut number: u64) -> ([u8; DIGITS_MAX], u8) {
    const PAIRS: [[u8; 2]; 100] = {
        let mut pairs = [[0; 2]; 100];
        let mut at = 0;
        while at < 100 {
            pairs[at] = [b'0' + at as u8 / 10, b'0' + at as u8 % 10];
            at += 1;
        }
        pairs
    };
    let mut text = [0; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    while number >= 10 && at >= 2 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 && at > 0 {
        at -= 1;
        text[at] = b'0' + number as u8;
    }
    (text, at as u8)
}

impl raw::Raw for Bytes {
    type In<'a> = &'a [u8];
    type Ref<'g> = BytesRef<'g>;

    const POINTERS: bool = true;

    #[inline]
    fn make(value: &[u8]) -> u64 {
        if value.len() > INLINE_BYTES_MAX {
            return match decimal(value) {
                Some(number) => number << TAG_BITS | TAG_DECIMAL,
                None => blob::make(value),
            };
        }
        // The first byte of the text is the second of the word.
        slice_of(value).swap_bytes() << 8 | (value.len() as u64) << 1 | 1
    }

    #[inline]
    fn owns(raw: u64) -> bool {
        raw & ((1 << TAG_BITS) - 1) == 0
    }

    #[inline]
    unsafe fn lend<'g>(raw: u64) -> BytesRef<'g> {
        let inner = if raw & 1 != 0 {
            let word = raw.to_le_bytes();
            let mut text = [0; DIGITS_MAX];
            text[..INLINE_BYTES_MAX].copy_from_slice(&word[1..]);
            Inner::Inline(text, 0, (word[0] >> 1) & 7)
        } else if Self::owns(raw) {
            // SAFETY: such a word came from a blob, and the caller keeps it alive.
            Inner::Blob(unsafe { blob::bytes(raw) })
        } else {
            let (text, start) = text_of(raw >> TAG_BITS);
            Inner::Inline(text, start, DIGITS_MAX as u8)
        };
        BytesRef { inner }
    }

    unsafe fn free(raw: u64) {
        if Self::owns(raw) {
            // SAFETY: such a word came from a blob, and the caller is the last.
            unsafe { blob::free(raw) };
        }
    }

    unsafe fn retire(raw: u64, guard: &Guard) {
        if Self::owns(raw) {
            // SAFETY: such a word came from a blob, which lives.
            let retired = unsafe { blob::retired(raw) };
            // SAFETY: as the caller promises; a blob is plain memory.
            unsafe { guard.retire(retired) };
        }
    }
}

/// What the word of a [`Boxed`] points to.
struct Held<T> {
    birth: Era,
    value: T,
}

impl<T: Send + Sync + 'static> raw::Raw for Boxed<T> {
    type In<'a> = T;
    type Ref<'g> = &'g T;

    const POINTERS: bool = true;

    fn make(value: T) -> u64 {
        Box::into_raw(Box::new(Held { birth: birth(), value })).expose_provenance() as u64
    }

    fn owns(_: u64) -> bool {
        true
    }

    unsafe fn lend<'g>(raw: u64) -> &'g T {
        let pointer = std::ptr::with_exposed_provenance::<Held<T>>(raw as usize);
        // SAFETY: it came from a box that the caller keeps alive; only shared references are made.
        let held = unsafe { &*pointer };
        &held.value
    }

    unsafe fn free(raw: u64) {
        let pointer = std::ptr::with_exposed_provenance_mut::<Held<T>>(raw as usize);
        // SAFETY: it came from a box, and the caller is the last to know it.
        drop(unsafe { Box::from_raw(pointer) });
    }

    unsafe fn retire(raw: u64, guard: &Guard) {
        let pointer = std::ptr::with_exposed_provenance::<Held<T>>(raw as usize);
        // SAFETY: it lives, and only shared references are made.
        let birth = unsafe { &*pointer }.birth;
        let bytes = size_of::<Held<T>>();
        let retired = Retired { word: raw, bytes, birth, free: Self::free };
        // SAFETY: as the caller promises; the type may be sent.
        unsafe { guard.retire(retired) };
    }
}

/// A word that is freed when it is dropped before it was published.
pub(crate) struct Unpublished<V: Slot> {
    raw: u64,
    kind: PhantomData<V>,
}

impl<V: Slot> Unpublished<V> {
    #[inline]
    pub(crate) fn new(value: V::In<'_>) -> Self {
        Unpublished { raw: V::make(value), kind: PhantomData }
    }

    /// The word, now the tree's.
    #[inline]
    pub(crate) fn publish(self) -> u64 {
        std::mem::ManuallyDrop::new(self).raw
    }
}

impl<V: Slot> Drop for Unpublished<V> {
    fn drop(&mut self) {
        // SAFETY: it was made by `new` and given to nobody.
        unsafe { V::free(self.raw) };
    }
}

#[cfg(test)]
mod tests {
    use super::raw::Raw;
    use super::*;

    fn check(text: &[u8], owns: bool) {
        let raw = Bytes::make(text);
        assert_eq!(Bytes::owns(raw), owns, "{text:?}");
        assert_ne!(raw, 0);
        // SAFETY: made above, freed below.
        assert_eq!(*unsafe { Bytes::lend(raw) }, *text);
        // SAFETY: made above, and not used again.
        unsafe { Bytes::free(raw) };
    }

    #[test]
    fn bytes_come_back_from_the_word_and_from_the_blob() {
        for len in 0..30 {
            let text: Vec<u8> = (0..len).map(|n| 255 - n as u8).collect();
            check(&text, len > INLINE_BYTES_MAX);
        }
    }

    #[test]
    fn decimal_text_comes_back_from_the_word() {
        for digits in 8..=DIGITS_MAX as u32 {
            for number in [10u64.pow(digits - 1), 10u64.pow(digits) - 1, 10u64.pow(digits) / 7] {
                check(number.to_string().as_bytes(), false);
            }
        }
        check(b"0", false);
        check(b"1000000000000000000", true);
        check(b"00000000", true);
        check(b"01234567", true);
    }

    /// Each byte value at each place of a number: only digits make a number.
    #[test]
    fn text_that_is_no_number_is_kept_as_it_is() {
        for place in 0..12 {
            for byte in 0..=255 {
                let mut text = *b"123456789012";
                text[place] = byte;
                let digit = byte.is_ascii_digit() && (place > 0 || byte != b'0');
                check(&text, !digit);
            }
        }
    }
}
