//! Pointers of C as references, paths and slices. A pointer that is null is EINVAL.

use crate::open::Fs;
use crate::status::Failure;
use std::ffi::{CStr, c_char};
use std::slice;

/// The name space behind a pointer.
///
/// # Safety
/// `fs` is null or from `keyrack_fs_open` or `keyrack_fs_connect`, and not closed as long as the
/// reference is used.
pub(crate) unsafe fn fs<'a>(fs: *const Fs) -> Result<&'a Fs, Failure> {
    // SAFETY: as the caller promises, it is null or points to a `Fs` that nobody frees meanwhile.
    unsafe { fs.as_ref() }.ok_or_else(|| Failure::invalid("the name space is a null pointer"))
}

/// The bytes of a text before its zero.
///
/// # Safety
/// `text` is null or ends with a zero, and does not change as long as the slice is used.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(Failure::invalid("a path is a null pointer"));
    }
    // SAFETY: it is not null, and as the caller promises it ends with a zero.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Writes what a call returns through a pointer.
///
/// # Safety
/// `to` is null, or memory for a `T` that may be written to.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::invalid("the place of a result is a null pointer"));
    }
    // SAFETY: it is not null, and as the caller promises there is room for a `T`.
    unsafe { to.write(value) };
    Ok(())
}

/// Memory of the caller's to be written to.
///
/// # Safety
/// `memory` is null or `count` bytes that nobody else uses meanwhile.
pub(crate) unsafe fn room<'a>(memory: *mut u8, count: usize) -> Result<&'a mut [u8], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    if memory.is_null() {
        return Err(Failure::invalid("the place of bytes is a null pointer"));
    }
    // SAFETY: it is not null; the caller promises `count` bytes. All bit patterns are bytes.
    Ok(unsafe { slice::from_raw_parts_mut(memory, count) })
}

/// Bytes of the caller's to be read.
///
/// # Safety
/// `memory` is null or `count` bytes that do not change meanwhile.
pub(crate) unsafe fn data<'a>(memory: *const u8, count: usize) -> Result<&'a [u8], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if memory.is_null() {
        return Err(Failure::invalid("the place of bytes is a null pointer"));
    }
    // SAFETY: it is not null; the caller promises `count` bytes that do not change meanwhile.
    Ok(unsafe { slice::from_raw_parts(memory, count) })
}
