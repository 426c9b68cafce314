//! What a tree can hold: anything that is published by one store of one word.
//!
//! | type | the word | given as | lent as |
//! |---|---|---|---|
//! | `u64` | the number | `u64` | `u64` |
//! | [`Bytes`] | short strings and decimal numbers in the word itself, else a blob | `&[u8]` | [`BytesRef`] |
//! | [`Boxed<T>`] | the pointer | `T` | `&T` |
//!
//! ```text
//!   Bytes   | number, 60 bits           | 0 1 0 |   8 to 17 digits: the number with a 1 in front
//!           | byte 6 ... byte 0 | length << 1 | 1 |     up to seven bytes
//!           | pointer to a blob         | 0 0 0 |
//! ```
//!
//! Counters, identifiers and times in decimal are what short values often are, and a value in the
//! word saves a cache miss for every read. The 1 keeps the zeros that a number may begin with: the
//! text 00000042 is the number 100000042.

use crate::blob;
use crate::key::slice_of;
use keyrack_concurrent::{Era, Guard, Retired, birth};
use keyrack_decimal::{Decimal, eight_digits};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

const WORD_BYTES: usize = size_of::<u64>();
/// Bytes that fit into the word beside tag and length.
const INLINE_BYTES_MAX: usize = 7;
/// Digits that fit into the word beside its tag, with a 1 in front of them.
const DIGITS_MAX: usize = 17;
const TAG_BITS: u32 = 3;
const TAG_DECIMAL: u64 = 0b010;

/// A kind of value. Sealed: `u64`, [`Bytes`] and [`Boxed`] are all there are.
///
/// ```
/// use keyrack_masstree::{Slot, Tree, pin};
///
/// fn has<V: Slot>(tree: &Tree<V>, key: &[u8]) -> bool {
///     tree.get(key, &pin()).is_some()
/// }
/// assert!(!has(&Tree::<u64>::new(), b"key"));
/// ```
pub trait Slot: raw::Raw {}

impl Slot for u64 {}
impl Slot for Bytes {}
impl<T: Send + Sync + 'static> Slot for Boxed<T> {}

/// Values that can be compared with what is stored: `u64` and [`Bytes`]. Sealed, as [`Slot`] is.
/// [`Tree::compare_exchange`](crate::Tree::compare_exchange) needs it.
///
/// ```
/// use keyrack_masstree::Comparable;
///
/// assert!(u64::same(&7, &7));
/// ```
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

/// Marks a tree of byte strings, which are lent as [`BytesRef`].
///
/// Strings of up to 7 bytes, and those of 8 to 17 decimal digits, are in the node itself. Any other
/// is a block of its own, of 8 bytes and the string, and costs one more cache miss to read.
///
/// ```
/// use keyrack_masstree::{Bytes, Tree, pin};
///
/// let tree = Tree::<Bytes>::new();
/// let guard = pin();
/// tree.insert(b"key", b"value", &guard);
/// assert_eq!(tree.get(b"key", &guard).as_deref(), Some(&b"value"[..]));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Bytes {}

/// Marks a tree of values of any type, each behind a pointer. The tree drops a value after the last
/// guard that protects it, in any thread, so `T` is `Send`, `Sync` and `'static`.
///
/// ```
/// use keyrack_masstree::{Boxed, Tree, pin};
///
/// let tree = Tree::<Boxed<Vec<u32>>>::new();
/// let guard = pin();
/// tree.insert(b"primes", vec![2, 3, 5], &guard);
/// let primes: &Vec<u32> = tree.get(b"primes", &guard).expect("it was inserted");
/// assert_eq!(primes[..], [2, 3, 5]);
/// ```
#[derive(Debug)]
pub struct Boxed<T>(PhantomData<fn() -> T>);

/// A byte string that a tree lends. It is used as a `[u8]`.
///
/// ```
/// # use keyrack_masstree::{Bytes, Tree, pin};
/// # let (tree, guard) = (Tree::<Bytes>::new(), pin());
/// tree.insert(b"key", b"a value", &guard);
/// let value = tree.get(b"key", &guard).expect("it was inserted");
/// assert_eq!((value.len(), &value[2..]), (7, &b"value"[..]));
/// ```
#[derive(Clone, Copy)]
pub struct BytesRef<'g> {
    inner: Inner<'g>,
}

#[derive(Clone, Copy)]
enum Inner<'g> {
    /// As the word has them.
    Short([u8; WORD_BYTES]),
    /// The text with a 1 in front.
    Number(Decimal),
    Blob(&'g [u8]),
}

/// Bytes of a short string in a word.
#[inline]
fn short_len(word: &[u8; WORD_BYTES]) -> usize {
    usize::from(word[0] >> 1) & INLINE_BYTES_MAX
}

impl Deref for BytesRef<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.inner {
            Inner::Short(word) => &word[1..1 + short_len(word)],
            Inner::Number(text) => &text[1..],
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

/// The number whose decimal text is a 1 and this, if this is 8 to 17 digits.
#[inline]
fn decimal(text: &[u8]) -> Option<u64> {
    if text.len() > DIGITS_MAX {
        return None;
    }
    let (head, tail) = text.split_first_chunk::<8>()?;
    tail.iter().try_fold(100_000_000 + eight_digits(head)?, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number * 10 + u64::from(digit))
    })
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

    #[inline(always)]
    unsafe fn lend<'g>(raw: u64) -> BytesRef<'g> {
        let inner = if raw & 1 != 0 {
            Inner::Short(raw.to_le_bytes())
        } else if Self::owns(raw) {
            // SAFETY: such a word came from a blob, and the caller keeps it alive.
            Inner::Blob(unsafe { blob::bytes(raw) })
        } else {
            Inner::Number(Decimal::new(raw >> TAG_BITS))
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
        for digits in 8..=DIGITS_MAX {
            let end = 10u64.pow(digits as u32);
            for number in [0, 1, 10, 42, end / 10, end / 7, end - 1] {
                check(format!("{number:0digits$}").as_bytes(), false);
            }
        }
        check(b"0", false);
        check(b"100000000000000000", true);
        check(b"000000000000000000", true);
    }

    /// Each byte value at each place of a number: only digits make a number.
    #[test]
    fn text_that_is_no_number_is_kept_as_it_is() {
        for place in 0..12 {
            for byte in 0..=255 {
                let mut text = *b"123456789012";
                text[place] = byte;
                check(&text, !byte.is_ascii_digit());
            }
        }
    }
}
