//! Pointers of C as references and slices.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::slice;

/// A pointer is null where it must not be, or has a length that no memory has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPointer(String);

impl BadPointer {
    fn null(name: &str) -> BadPointer {
        BadPointer(format!("the {name} is a null pointer"))
    }
}

impl fmt::Display for BadPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// # Errors
/// No `len` bytes can be at `memory`.
fn check<T>(memory: *const T, len: usize) -> Result<(), BadPointer> {
    if memory.is_null() {
        return Err(BadPointer(format!("a null pointer to {len} bytes")));
    }
    if isize::try_from(len).is_err() {
        return Err(BadPointer(format!("a length of {len} bytes, which no memory has")));
    }
    Ok(())
}

/// Bytes of the caller's to be read. None are expected at a null pointer, if the length is 0.
///
/// # Errors
/// The pointer is null and the length is not, or no memory has the length.
///
/// # Safety
/// `memory` is null, or `len` bytes from there can be read, and do not change as long as the slice
/// is used.
pub unsafe fn bytes<'a, T>(memory: *const T, len: usize) -> Result<&'a [u8], BadPointer> {
    if len == 0 {
        return Ok(&[]);
    }
    check(memory, len)?;
    // SAFETY: it is not null; the caller promises `len` bytes that do not change.
    Ok(unsafe { slice::from_raw_parts(memory.cast(), len) })
}

/// Memory of the caller's to be written to.
///
/// # Errors
/// As for [`bytes`].
///
/// # Safety
/// `memory` is null, or `len` bytes that nobody else uses as long as the slice is used.
pub unsafe fn room<'a, T>(memory: *mut T, len: usize) -> Result<&'a mut [u8], BadPointer> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(memory, len)?;
    // SAFETY: it is not null; the caller promises `len` bytes. All bit patterns are bytes.
    Ok(unsafe { slice::from_raw_parts_mut(memory.cast(), len) })
}

/// The bytes of a text before its zero; `name` says in an error which text.
///
/// # Errors
/// It is null.
///
/// # Safety
/// `text` is null or ends with a zero, and does not change as long as the slice is used.
pub unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a [u8], BadPointer> {
    if text.is_null() {
        return Err(BadPointer::null(name));
    }
    // SAFETY: it is not null; the caller promises a zero at its end.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// What the caller has a handle of; `name` says in an error which handle.
///
/// # Errors
/// It is null.
///
/// # Safety
/// `handle` is null, or a handle that nobody frees or changes as long as the reference is used.
pub unsafe fn handle<'a, T>(handle: *const T, name: &str) -> Result<&'a T, BadPointer> {
    // SAFETY: as the caller promises, it is null or points to a `T`.
    let reference = unsafe { handle.as_ref() };
    reference.ok_or_else(|| BadPointer::null(name))
}

/// As [`handle`], of one that the call changes.
///
/// # Errors
/// It is null.
///
/// # Safety
/// `handle` is null, or a handle that nobody else uses as long as the reference is used.
pub unsafe fn handle_mut<'a, T>(handle: *mut T, name: &str) -> Result<&'a mut T, BadPointer> {
    // SAFETY: as the caller promises, it is null or points to a `T` that nobody else uses.
    let reference = unsafe { handle.as_mut() };
    reference.ok_or_else(|| BadPointer::null(name))
}

/// A handle for the caller.
pub fn give<T>(content: T) -> *mut T {
    Box::into_raw(Box::new(content))
}

/// Takes back what a handle holds. Nothing for null.
///
/// # Safety
/// `handle` is null, or from [`give`], and is not used any more.
pub unsafe fn destroy<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: it is not null, so it came from a box, which nobody else has, as the caller promises.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// The place of a result that the caller must have.
///
/// # Errors
/// It is null.
pub fn required<T>(to: *mut T, name: &str) -> Result<*mut T, BadPointer> {
    if to.is_null() { Err(BadPointer::null(name)) } else { Ok(to) }
}

/// Writes a result where the caller wants it. A null pointer is a caller who does not.
///
/// # Safety
/// `to` is null or memory for a `T`.
pub unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: it is not null; the caller promises memory for a `T`.
        unsafe { to.write(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn null_and_lengths_that_no_memory_has_are_errors() {
        let null = ptr::null::<u8>();
        // SAFETY: nothing is read at a null pointer.
        assert_eq!(unsafe { bytes(null, 0) }, Ok(&[][..]));
        // SAFETY: as above.
        let told = unsafe { bytes(null, 3) }.unwrap_err().to_string();
        assert_eq!(told, "a null pointer to 3 bytes");
        // SAFETY: the length is refused before anything is read.
        let told = unsafe { bytes(b"abc".as_ptr(), usize::MAX) }.unwrap_err().to_string();
        assert!(told.ends_with("which no memory has"), "{told}");
        // SAFETY: there are three bytes.
        assert_eq!(unsafe { bytes(b"abc".as_ptr(), 3) }, Ok(&b"abc"[..]));
        // SAFETY: nothing is read at a null pointer.
        let told = unsafe { handle(ptr::null::<u64>(), "store") }.unwrap_err().to_string();
        assert_eq!(told, "the store is a null pointer");
        assert_eq!(required(ptr::null_mut::<u8>(), "place"), Err(BadPointer::null("place")));
    }

    #[test]
    fn a_handle_is_what_was_given_until_it_is_destroyed() {
        let given = give(7_u64);
        // SAFETY: it is a handle.
        assert_eq!(unsafe { handle(given, "number") }, Ok(&7));
        // SAFETY: as above, and nobody else uses it.
        *unsafe { handle_mut(given, "number") }.unwrap() += 1;
        // SAFETY: it is from `give`, and this is its last use.
        assert_eq!(unsafe { destroy(given) }.as_deref(), Some(&8));
        // SAFETY: null is nothing.
        assert!(unsafe { destroy(ptr::null_mut::<u64>()) }.is_none());
    }
}
