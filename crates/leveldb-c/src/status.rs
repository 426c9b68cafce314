//! Failures as LevelDB reports them: a text that begins with the kind, in memory of `malloc`.
//!
//! ```text
//!   keyrack_flodb::Error --> Failure "Invalid argument: ..." --> *errptr, the old text freed
//!   a panic              --> Failure "IO error: ..."         -->    "
//! ```
//!
//! | kind | text begins with |
//! |---|---|
//! | the caller's mistake | `Invalid argument: ` |
//! | what this library cannot do | `Not implemented: ` |
//! | damage | `Corruption: ` |
//! | everything else | `IO error: ` |
//!
//! **Invariant:** no panic leaves a call of C. A call that panics reports it like a failure.

use keyrack_ffi::{BadPointer, Panicked, caught, copy_text};
use keyrack_flodb::Error;
use std::ffi::c_char;
use std::fmt;
use std::path::Path;

/// A failure on its way to C: the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn invalid(what: impl fmt::Display) -> Failure {
        Failure(format!("Invalid argument: {what}"))
    }

    pub(crate) fn not_implemented(what: impl fmt::Display) -> Failure {
        Failure(format!("Not implemented: {what}"))
    }

    pub(crate) fn io(what: impl fmt::Display) -> Failure {
        Failure(format!("IO error: {what}"))
    }

    pub(crate) fn corruption(what: impl fmt::Display) -> Failure {
        Failure(format!("Corruption: {what}"))
    }

    /// The directory is open already. LevelDB's text begins in the same way.
    pub(crate) fn locked(dir: &Path) -> Failure {
        let lock = dir.join("LOCK");
        Failure::io(format_args!(
            "lock {}: already held by process, this one or another; close it there first",
            lock.display()
        ))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match &error {
            Error::Usage(what) => Failure::invalid(what),
            Error::Corruption { .. } => Failure::corruption(error),
            Error::Locked(dir) => Failure::locked(dir),
            _ => Failure::io(error),
        }
    }
}

impl From<BadPointer> for Failure {
    fn from(error: BadPointer) -> Failure {
        Failure::invalid(error)
    }
}

impl From<Panicked> for Failure {
    fn from(panicked: Panicked) -> Failure {
        Failure::io(panicked)
    }
}

impl From<keyrack_vfs::Error> for Failure {
    fn from(error: keyrack_vfs::Error) -> Failure {
        Failure::io(error)
    }
}

/// Makes a call, and reports its failure through `errptr`. `None` then.
///
/// # Safety
/// `errptr` is null, or it points to a null pointer or to a text that `malloc` made.
pub(crate) unsafe fn report<R>(
    errptr: *mut *mut c_char,
    call: impl FnOnce() -> Result<R, Failure>,
) -> Option<R> {
    match caught(call) {
        Ok(result) => Some(result),
        Err(failure) => {
            // SAFETY: the caller promises the same.
            unsafe { save(errptr, &failure) };
            None
        }
    }
}

/// Puts the text of a failure where the caller looks for it. Without a place it is lost.
///
/// # Safety
/// As for [`report`].
pub(crate) unsafe fn save(errptr: *mut *mut c_char, failure: &Failure) {
    if errptr.is_null() {
        return;
    }
    let text = copy_text(failure.text());
    // SAFETY: it is not null; the caller promises a pointer there.
    let old = unsafe { errptr.replace(text) };
    // SAFETY: as the caller promises, it is null or from `malloc`, and nobody else frees it.
    unsafe { libc::free(old.cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;
    use std::path::PathBuf;
    use std::ptr;

    fn told(call: impl FnOnce() -> Result<(), Failure>, before: Option<&str>) -> Option<String> {
        let mut place = before.map_or(ptr::null_mut(), copy_text);
        // SAFETY: the place holds null or a text of `malloc`.
        unsafe { report(&raw mut place, call) };
        if place.is_null() {
            return None;
        }
        // SAFETY: it is a text that ends with a zero.
        let text = unsafe { CStr::from_ptr(place) }.to_str().unwrap().to_owned();
        // SAFETY: the text is from `malloc`, and this is its last use.
        unsafe { libc::free(place.cast()) };
        Some(text)
    }

    #[test]
    fn a_failure_takes_the_place_of_an_older_text_and_a_success_leaves_it() {
        assert_eq!(told(|| Ok(()), None), None);
        assert_eq!(told(|| Ok(()), Some("old")).as_deref(), Some("old"));
        let fails = || Err(Failure::invalid("no"));
        assert_eq!(told(fails, None).as_deref(), Some("Invalid argument: no"));
        assert_eq!(told(fails, Some("old")).as_deref(), Some("Invalid argument: no"));
        let zero = || Err(Failure::io("a\0b"));
        assert_eq!(told(zero, None).as_deref(), Some("IO error: a?b"));
    }

    #[test]
    fn a_panic_is_a_failure() {
        let text = told(|| panic!("planned"), None).unwrap();
        assert!(
            text.starts_with("IO error: internal error") && text.ends_with("planned"),
            "{text}"
        );
    }

    #[test]
    fn kinds_of_errors_have_the_words_of_leveldb() {
        let dir = PathBuf::from("/d");
        let damage = Error::Corruption { path: "/d/f".into(), offset: 7, what: "bad".to_owned() };
        for (error, text) in [
            (Error::Usage("no".to_owned()), "Invalid argument: no"),
            (damage, "Corruption: /d/f: byte 7: bad"),
            (Error::Locked(dir), "IO error: lock /d/LOCK: already held by process, this one"),
            (Error::Closed, "IO error: the store accepts no more writes: it is closed"),
        ] {
            let failure = Failure::from(error);
            assert!(failure.text().starts_with(text), "{failure:?}");
        }
    }
}
