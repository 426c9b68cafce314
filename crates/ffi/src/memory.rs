//! Results in memory of `malloc`, which a program in C frees.

use std::ffi::{c_char, c_void};
use std::ptr;

/// A copy in memory of `malloc`; never null, for no bytes either.
#[must_use]
pub fn copy_bytes(bytes: &[u8]) -> *mut c_char {
    copy(bytes, bytes.len().max(1)).cast()
}

/// A copy that ends with a zero, in memory of `malloc`. Zeros inside become question marks.
#[must_use]
pub fn copy_text(text: &str) -> *mut c_char {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn copies_end_as_c_expects() {
        let text = copy_text("a\0b");
        // SAFETY: it is a text that ends with a zero.
        let read = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
        let nothing = copy_bytes(b"");
        assert_eq!(read, b"a?b");
        assert!(!nothing.is_null(), "null is no value");
        for copy in [text, nothing] {
            // SAFETY: it is from `malloc`, and this is its last use.
            unsafe { libc::free(copy.cast()) };
        }
    }
}
