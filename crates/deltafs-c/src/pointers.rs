//! The pointers of this interface, each with its name in a message. One that is null is EINVAL.

use crate::open::Fs;
use keyrack_ffi::BadPointer;
use std::ffi::c_char;

/// The name space behind a pointer.
///
/// # Safety
/// `fs` is null or from `keyrack_fs_open` or `keyrack_fs_connect`, and not closed as long as the
/// reference is used.
pub(crate) unsafe fn fs<'a>(fs: *const Fs) -> Result<&'a Fs, BadPointer> {
    // SAFETY: the caller promises the same.
    unsafe { keyrack_ffi::handle(fs, "name space") }
}

/// The bytes of a path, or of another text, before its zero.
///
/// # Safety
/// `text` is null or ends with a zero, and does not change as long as the slice is used.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> Result<&'a [u8], BadPointer> {
    // SAFETY: the caller promises the same.
    unsafe { keyrack_ffi::text(text, "path") }
}

/// Writes what a call returns through a pointer.
///
/// # Safety
/// `to` is null, or memory for a `T` that may be written to.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), BadPointer> {
    let to = keyrack_ffi::required(to, "place of a result")?;
    // SAFETY: the caller promises room for a `T`.
    unsafe { keyrack_ffi::put(to, value) };
    Ok(())
}
