//! Memory of C: pointers as slices and references, and results in memory of `malloc`.

use crate::status::Failure;
use std::ffi::{CStr, c_char, c_void};
use std::{ptr, slice};

/// Bytes of the caller's. None are expected at a null pointer, whatever the length: LevelDB's own
/// callers give null with a length of 0.
///
/// # Safety
/// `bytes` is null, or `len` bytes from there can be read, and do not change as long as the slice
/// is used.
pub(crate) unsafe fn bytes<'a>(bytes: *const c_char, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() {
        return Err(Failure::invalid(format_args!("a null pointer to {len} bytes")));
    }
    // SAFETY: it is not null; the caller promises `len` bytes that do not change.
    Ok(unsafe { slice::from_raw_parts(bytes.cast(), len) })
}

/// The bytes of a text before its zero.
///
/// # Safety
/// `text` is null or ends with a zero, and does not change as long as the slice is used.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(Failure::invalid("a null pointer in place of a text"));
    }
    // SAFETY: it is not null; the caller promises a zero at its end.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// What the caller has a handle of.
///
/// # Safety
/// `handle` is null, or a handle that nobody frees or changes as long as the reference is used.
pub(crate) unsafe fn handle<'a, T>(handle: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: as the caller promises, it is null or points to a `T`.
    let reference = unsafe { handle.as_ref() };
    reference.ok_or_else(|| Failure::invalid(format_args!("the {name} is a null pointer")))
}

/// Frees what a handle holds. Nothing to do for null.
///
/// # Safety
/// `handle` is null, or from [`Box::into_raw`], and is not used any more.
pub(crate) unsafe fn destroy<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: it is not null, so it came from a box, which nobody else has, as the caller promises.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// A handle for the caller.
pub(crate) fn give<T>(content: T) -> *mut T {
    Box::into_raw(Box::new(content))
}

/// Writes a number where the caller wants it. A null pointer is a caller who does not.
///
/// # Safety
/// `to` is null or memory for a `T`.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: it is not null; the caller promises memory for a `T`.
        unsafe { to.write(value) };
    }
}

/// A copy in memory of `malloc`; never null, for no bytes either.
pub(crate) fn copy_bytes(bytes: &[u8]) -> *mut c_char {
    copy(bytes, bytes.len().max(1)).cast()
}

/// A copy that ends with a zero, in memory of `malloc`. Zeros inside become question marks.
pub(crate) fn copy_text(text: &str) -> *mut c_char {
    let text = text.replace('\0', "?");
    let to = copy(text.as_bytes(), text.len() + 1);
    // SAFETY: `copy` gave one byte more than the text has.
    let end = unsafe { to.cast::<u8>().add(text.len()) };
    // SAFETY: that byte.
    unsafe { end.write(0) };
    to.cast()
}

/// `room` bytes of `malloc` that begin with `bytes`.
fn copy(bytes: &[u8], room: usize) -> *mut c_void {
    debug_assert!(bytes.len() <= room);
    // SAFETY: any size may be asked for.
    let to = unsafe { libc::malloc(room) };
    // As an allocation of Rust's that fails: there is no memory for a message either.
    assert!(!to.is_null(), "malloc has no {room} bytes");
    // SAFETY: there are `room` bytes, which nobody else has yet.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
    to
}
