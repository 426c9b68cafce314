//! Immutable byte strings behind one word.
//!
//! ```text
//!   word --> | length: usize | bytes ... |      8-aligned, never changed after it was made
//! ```
//!
//! A word is what a node's atomic slot can hold. A blob is made before it is published, read by
//! anyone who is pinned, and freed by its retirement or by the drop of the tree. It is not a
//! `Box<[u8]>`, which is two words.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr;

const HEAD_BYTES: usize = size_of::<usize>();

/// The layout of a blob of `len` bytes. A slice in memory is shorter than `isize::MAX`; so close to
/// that limit no allocation succeeds anyway.
fn layout(len: usize) -> Layout {
    let bytes = len.saturating_add(HEAD_BYTES).min(isize::MAX as usize - HEAD_BYTES);
    Layout::from_size_align(bytes, align_of::<usize>()).unwrap_or(Layout::new::<usize>())
}

/// A new blob with a copy of `bytes`. It leaks until [`free`].
pub(crate) fn make(bytes: &[u8]) -> u64 {
    let layout = layout(bytes.len());
    // SAFETY: the layout has at least the size of the length, so it is not empty.
    let head = unsafe { alloc(layout) };
    if head.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the block begins with room and alignment for the length.
    unsafe { head.cast::<usize>().write(bytes.len()) };
    // SAFETY: the block has HEAD_BYTES + len bytes.
    let body = unsafe { head.add(HEAD_BYTES) };
    // SAFETY: the source is a slice, the target has room for it, and they do not overlap: it is
    // new.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), body, bytes.len()) };
    head.expose_provenance() as u64
}

/// The bytes of a blob.
///
/// # Safety
/// `raw` came from [`make`] and is not freed during `'g`.
pub(crate) unsafe fn bytes<'g>(raw: u64) -> &'g [u8] {
    let head = ptr::with_exposed_provenance::<u8>(raw as usize);
    // SAFETY: a blob begins with its length.
    let len = unsafe { head.cast::<usize>().read() };
    // SAFETY: the bytes follow the length in the same block.
    let body = unsafe { head.add(HEAD_BYTES) };
    // SAFETY: they were written when the blob was made, nobody changes them, and it lives for 'g.
    unsafe { std::slice::from_raw_parts(body, len) }
}

/// Gives the memory back.
///
/// # Safety
/// `raw` came from [`make`], and nobody uses it any more.
pub(crate) unsafe fn free(raw: u64) {
    let head = ptr::with_exposed_provenance_mut::<u8>(raw as usize);
    // SAFETY: a blob begins with its length.
    let len = unsafe { head.cast::<usize>().read() };
    // SAFETY: the block was allocated with this layout.
    unsafe { dealloc(head, layout(len)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blobs_hold_what_they_were_made_of() {
        for len in [0, 1, 7, 8, 9, 65_536] {
            let text: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let raw = make(&text);
            assert_eq!(raw % 8, 0);
            // SAFETY: made above, freed below.
            assert_eq!(unsafe { bytes(raw) }, text);
            // SAFETY: made above, and not used again.
            unsafe { free(raw) };
        }
    }
}
