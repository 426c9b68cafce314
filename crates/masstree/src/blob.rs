//! Immutable byte strings: blocks without words.

use crate::block;
use keyrack_concurrent::Retired;

/// A new blob with a copy of `bytes`. It leaks until [`free`].
pub(crate) fn make(bytes: &[u8]) -> u64 {
    block::make(0, bytes)
}

/// The bytes of a blob.
///
/// # Safety
/// `raw` came from [`make`] and is not freed during `'g`.
pub(crate) unsafe fn bytes<'g>(raw: u64) -> &'g [u8] {
    // SAFETY: a blob has no words of its own.
    unsafe { block::bytes(raw, 0) }
}

/// Gives the memory back.
///
/// # Safety
/// `raw` came from [`make`], and nobody uses it any more.
pub(crate) unsafe fn free(raw: u64) {
    // SAFETY: as above.
    unsafe { block::free(raw, 0) };
}

/// What is needed to retire a blob.
///
/// # Safety
/// `raw` came from [`make`] and is not freed.
pub(crate) unsafe fn retired(raw: u64) -> Retired {
    // SAFETY: as above.
    unsafe { block::retired(raw, 0, free) }
}
