//! What a tree can hold: anything that is published by one store of one word.
//!
//! | type | the word | given as | lent as |
//! |---|---|---|---|
//! | `u64` | the number | `u64` | `u64` |
//! | [`Bytes`] | up to 7 bytes in the word itself, else a blob | `&[u8]` | [`BytesRef`] |
//! | `Box<T>` | the pointer | `Box<T>` | `&T` |
//!
//! ```text
//!   Bytes   bit 0 = 1: | byte 6 ... byte 0 | length << 1 | 1 |      bit 0 = 0: pointer to a blob
//! ```

use crate::blob;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

/// Bytes that fit into the word beside tag and length.
const INLINE_BYTES_MAX: usize = 7;

/// A kind of value. Sealed: `u64`, [`Bytes`] and `Box<T>` are all there are.
pub trait Slot: raw::Raw {}

impl Slot for u64 {}
impl Slot for Bytes {}
impl<T: Send + Sync + 'static> Slot for Box<T> {}

/// Marks a tree of byte strings.
#[derive(Clone, Copy, Debug)]
pub enum Bytes {}

/// A byte string that a tree lends.
#[derive(Clone, Copy)]
pub struct BytesRef<'g> {
    /// The bytes in the word, or the blob.
    inner: Inner<'g>,
}

#[derive(Clone, Copy)]
enum Inner<'g> {
    Inline([u8; 8]),
    Blob(&'g [u8]),
}

impl Deref for BytesRef<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.inner {
            Inner::Inline(word) => &word[1..1 + usize::from(word[0] >> 1)],
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
    /// A value as a word.
    pub trait Raw: Send + Sync + 'static {
        /// What a caller gives.
        type In<'a>;
        /// What a reader gets.
        type Ref<'g>: Copy;

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
    }
}

impl raw::Raw for u64 {
    type In<'a> = u64;
    type Ref<'g> = u64;

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
}

impl raw::Raw for Bytes {
    type In<'a> = &'a [u8];
    type Ref<'g> = BytesRef<'g>;

    fn make(value: &[u8]) -> u64 {
        if value.len() > INLINE_BYTES_MAX {
            return blob::make(value);
        }
        let mut word = [0; 8];
        word[0] = (value.len() as u8) << 1 | 1;
        word[1..=value.len()].copy_from_slice(value);
        u64::from_le_bytes(word)
    }

    fn owns(raw: u64) -> bool {
        raw & 1 == 0
    }

    unsafe fn lend<'g>(raw: u64) -> BytesRef<'g> {
        let inner = if Self::owns(raw) {
            // SAFETY: an even word came from a blob, and the caller keeps it alive.
            Inner::Blob(unsafe { blob::bytes(raw) })
        } else {
            Inner::Inline(raw.to_le_bytes())
        };
        BytesRef { inner }
    }

    unsafe fn free(raw: u64) {
        if Self::owns(raw) {
            // SAFETY: an even word came from a blob, and the caller is the last.
            unsafe { blob::free(raw) };
        }
    }
}

impl<T: Send + Sync + 'static> raw::Raw for Box<T> {
    type In<'a> = Box<T>;
    type Ref<'g> = &'g T;

    fn make(value: Box<T>) -> u64 {
        Box::into_raw(value).expose_provenance() as u64
    }

    fn owns(_: u64) -> bool {
        true
    }

    unsafe fn lend<'g>(raw: u64) -> &'g T {
        let pointer = std::ptr::with_exposed_provenance::<T>(raw as usize);
        // SAFETY: it came from a box that the caller keeps alive; only shared references are made.
        unsafe { &*pointer }
    }

    unsafe fn free(raw: u64) {
        let pointer = std::ptr::with_exposed_provenance_mut::<T>(raw as usize);
        // SAFETY: it came from a box, and the caller is the last to know it.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// A word that is freed when it is dropped before it was published.
pub(crate) struct Unpublished<V: Slot> {
    raw: u64,
    kind: PhantomData<V>,
}

impl<V: Slot> Unpublished<V> {
    pub(crate) fn new(value: V::In<'_>) -> Self {
        Unpublished { raw: V::make(value), kind: PhantomData }
    }

    /// The word, now the tree's.
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

    #[test]
    fn bytes_come_back_from_the_word_and_from_the_blob() {
        for len in 0..20 {
            let text: Vec<u8> = (0..len).map(|n| 255 - n as u8).collect();
            let raw = Bytes::make(&text);
            assert_eq!(Bytes::owns(raw), len > INLINE_BYTES_MAX);
            // SAFETY: made above, freed below.
            assert_eq!(*unsafe { Bytes::lend(raw) }, *text);
            // SAFETY: made above, and not used again.
            unsafe { Bytes::free(raw) };
        }
    }
}
