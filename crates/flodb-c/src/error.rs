//! Failures: a code to decide by, and an object with the message, and the key of a conflict.
//!
//! ```text
//!   keyrack_flodb::Error, keyrack_backup::Error, BadPointer, Panicked --> Error --> *error, code
//! ```
//!
//! The object belongs to the call that made it and to no thread, so it may be read anywhere.

use keyrack_ffi::{BadPointer, Panicked, caught, destroy, give, handle, or_else, put};
use keyrack_flodb::Error as StoreError;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::ptr;

/// What a call answers. The numbers never change; a later version may add some.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "the names in C")]
pub enum Code {
    /// It is done.
    KEYRACK_OK = 0,
    /// The program asked for what cannot be: a null pointer, an unknown option, a handle of another
    /// store, a transaction that has ended. Correct the program.
    KEYRACK_USAGE = 1,
    /// Another process, or another handle, has the directory open.
    KEYRACK_LOCKED = 2,
    /// The disk is full. Writes are taken again when there is space.
    KEYRACK_NO_SPACE = 3,
    /// The machine refused: the message has the file and the reason.
    KEYRACK_IO = 4,
    /// A file does not hold what was written to it: the message has the place.
    KEYRACK_CORRUPTION = 5,
    /// An earlier failure was final: the store only reads until it is opened again.
    KEYRACK_POISONED = 6,
    /// The store was closed.
    KEYRACK_CLOSED = 7,
    /// Somebody else has changed what the transaction depends on. Nothing was written: run it
    /// again.
    KEYRACK_CONFLICT = 8,
    /// The owner of the row waits for this transaction. Roll it back, and run it again.
    KEYRACK_DEADLOCK = 9,
    /// A file needs a compression that this library was built without.
    KEYRACK_UNSUPPORTED = 10,
    /// The library has a defect. Close the store.
    KEYRACK_INTERNAL = 11,
}

/// Codes and their names, in their order.
const NAMES: [(Code, &CStr); 12] = [
    (Code::KEYRACK_OK, c"ok"),
    (Code::KEYRACK_USAGE, c"usage"),
    (Code::KEYRACK_LOCKED, c"locked"),
    (Code::KEYRACK_NO_SPACE, c"no space"),
    (Code::KEYRACK_IO, c"io"),
    (Code::KEYRACK_CORRUPTION, c"corruption"),
    (Code::KEYRACK_POISONED, c"poisoned"),
    (Code::KEYRACK_CLOSED, c"closed"),
    (Code::KEYRACK_CONFLICT, c"conflict"),
    (Code::KEYRACK_DEADLOCK, c"deadlock"),
    (Code::KEYRACK_UNSUPPORTED, c"unsupported"),
    (Code::KEYRACK_INTERNAL, c"internal"),
];

/// A failure.
#[derive(Debug)]
pub struct Error {
    code: Code,
    message: CString,
    /// The key of a conflict or a deadlock, and the name of its space if the store has spaces.
    key: Option<Vec<u8>>,
    space: Option<CString>,
}

/// A text for C. Zeros inside become question marks.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).expect("no zero is left")
}

impl Error {
    pub(crate) fn new(code: Code, message: impl fmt::Display) -> Error {
        Error { code, message: c_text(&message.to_string()), key: None, space: None }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Error {
        Error::new(Code::KEYRACK_USAGE, message)
    }

    fn of_key(self, key: &[u8], space: Option<&str>) -> Error {
        Error { key: Some(key.to_vec()), space: space.map(c_text), ..self }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        let code = match &error {
            StoreError::Usage(_) => Code::KEYRACK_USAGE,
            StoreError::Locked(_) => Code::KEYRACK_LOCKED,
            StoreError::NoSpace(_) => Code::KEYRACK_NO_SPACE,
            StoreError::Corruption { .. } => Code::KEYRACK_CORRUPTION,
            StoreError::Poisoned(_) => Code::KEYRACK_POISONED,
            StoreError::Closed => Code::KEYRACK_CLOSED,
            StoreError::Conflict { .. } => Code::KEYRACK_CONFLICT,
            StoreError::Deadlock { .. } => Code::KEYRACK_DEADLOCK,
            StoreError::UnsupportedCompression { .. } => Code::KEYRACK_UNSUPPORTED,
            _ => Code::KEYRACK_IO,
        };
        let failure = Error::new(code, &error);
        match &error {
            StoreError::Conflict { key, space } | StoreError::Deadlock { key, space } => {
                failure.of_key(key, space.as_deref())
            }
            _ => failure,
        }
    }
}

impl From<keyrack_backup::Error> for Error {
    fn from(error: keyrack_backup::Error) -> Error {
        let code = match &error {
            keyrack_backup::Error::Usage(_) | keyrack_backup::Error::BackupNeeded(_) => {
                Code::KEYRACK_USAGE
            }
            keyrack_backup::Error::Locked(_) => Code::KEYRACK_LOCKED,
            keyrack_backup::Error::Corruption { .. } => Code::KEYRACK_CORRUPTION,
            _ => Code::KEYRACK_IO,
        };
        Error::new(code, error)
    }
}

impl From<BadPointer> for Error {
    fn from(error: BadPointer) -> Error {
        Error::usage(error)
    }
}

impl From<Panicked> for Error {
    fn from(panicked: Panicked) -> Error {
        Error::new(Code::KEYRACK_INTERNAL, panicked)
    }
}

/// Makes a call, and reports its failure through `error`.
///
/// # Safety
/// `error` is null, or it points to a null pointer or to an error that nobody else uses.
pub(crate) unsafe fn report(
    error: *mut *mut Error,
    call: impl FnOnce() -> Result<(), Error>,
) -> Code {
    let Err(failure) = caught(call) else { return Code::KEYRACK_OK };
    let code = failure.code;
    if !error.is_null() {
        // SAFETY: it is not null; the caller promises a pointer there.
        let old = unsafe { error.replace(give(failure)) };
        // SAFETY: as the caller promises, it is null or an error, which nobody uses any more.
        drop(unsafe { destroy(old) });
    }
    code
}

/// The name of a code, such as "conflict"; "unknown" for a number that is none. It is there as long
/// as the program.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn keyrack_code_name(code: c_int) -> *const c_char {
    let known = NAMES.iter().find(|(known, _)| *known as c_int == code);
    known.map_or(c"unknown", |(_, name)| name).as_ptr()
}

/// The code of an error; KEYRACK_OK for null.
///
/// Threads: any, until the error is freed.
///
/// # Safety
/// `error` is null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_error_code(error: *const Error) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { error.as_ref() }.map_or(Code::KEYRACK_OK, |error| error.code)
}

/// One line for people, which ends with a zero. It lives as long as the error. Empty for null.
///
/// Threads: any, until the error is freed.
///
/// # Safety
/// `error` is null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_error_message(error: *const Error) -> *const c_char {
    // SAFETY: the caller promises the same.
    unsafe { error.as_ref() }.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// The key of a conflict or a deadlock, and its length in `*len`; null for other errors. It lives
/// as long as the error.
///
/// Threads: any, until the error is freed.
///
/// # Safety
/// `error` is null or an error; `len` is null or room for a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_error_key(error: *const Error, len: *mut usize) -> *const c_char {
    // SAFETY: the caller promises the same.
    let key = unsafe { error.as_ref() }.and_then(|error| error.key.as_deref());
    // SAFETY: the caller promises room for a length.
    unsafe { put(len, key.map_or(0, <[u8]>::len)) };
    key.map_or(ptr::null(), |key| key.as_ptr().cast())
}

/// The name of the key space of that key; null if there is none. It lives as long as the error.
///
/// Threads: any, until the error is freed.
///
/// # Safety
/// `error` is null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_error_space(error: *const Error) -> *const c_char {
    // SAFETY: the caller promises the same.
    let space = unsafe { handle(error, "error") }.ok().and_then(|error| error.space.as_ref());
    space.map_or(ptr::null(), |space| space.as_ptr())
}

/// Frees an error, its message and its key. Null is nothing.
///
/// Threads: one, the last that uses the error.
///
/// # Safety
/// `error` is null or an error, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_error_free(error: *mut Error) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(error) }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(code: c_int) -> String {
        // SAFETY: it is a text that ends with a zero.
        unsafe { CStr::from_ptr(keyrack_code_name(code)) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn every_code_has_its_number_and_its_name() {
        for (number, (code, _)) in NAMES.iter().enumerate() {
            assert_eq!(*code as usize, number);
        }
        assert_eq!([name(8), name(12), name(-1)], ["conflict", "unknown", "unknown"]);
    }

    #[test]
    fn a_failure_replaces_an_older_one_and_a_panic_is_one() {
        let mut error = ptr::null_mut();
        // SAFETY: the place holds null or an error.
        let code = unsafe { report(&raw mut error, || Err(Error::usage("a\0b"))) };
        assert_eq!(code, Code::KEYRACK_USAGE);
        // SAFETY: as above.
        let code = unsafe { report(&raw mut error, || panic!("planned")) };
        assert_eq!(code, Code::KEYRACK_INTERNAL);
        // SAFETY: it is an error.
        let message = unsafe { keyrack_error_message(error) };
        // SAFETY: it ends with a zero, and lives as long as the error.
        let message = unsafe { CStr::from_ptr(message) };
        assert!(message.to_str().unwrap().ends_with("planned"), "{message:?}");
        // SAFETY: as above.
        let code = unsafe { report(&raw mut error, || Ok(())) };
        assert_eq!(code, Code::KEYRACK_OK);
        // SAFETY: as above, a success leaves it.
        assert_eq!(unsafe { keyrack_error_code(error) }, Code::KEYRACK_INTERNAL);
        // SAFETY: this is its last use.
        unsafe { keyrack_error_free(error) };
        // SAFETY: null is a caller who does not want to know.
        let code = unsafe { report(ptr::null_mut(), || Err(Error::usage("no"))) };
        assert_eq!(code, Code::KEYRACK_USAGE);
    }
}
